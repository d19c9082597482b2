/* known.h - the data sets that have a name: what they hold, their files with size and SHA-256, and where
 * these can be fetched. */
#pragma once
#include "lockstep/data.h"

/* train images, train labels, eval images, eval labels: split * 2 + (labels ? 1 : 0) */
enum { LS_KNOWN_FILES = 4 };

typedef struct ls_known_file {
    const char *name; /* as published; the same name without .gz is the inflated file */
    int64_t bytes;
    const char *sha256;
} ls_known_file;

typedef struct ls_known {
    const char *name;
    const char *torchvision; /* the folder that torchvision downloads into: ROOT/THIS/raw/ */
    int64_t n[2];            /* by ls_split */
    int size, classes;       /* size x size, gray */
    const char *const *class_names;
    ls_known_file files[LS_KNOWN_FILES];
    const char *mirrors[3]; /* URLs ending in /, tried in order; NULL ends */
} ls_known;

const ls_known *ls_known_find(const char *name); /* NULL: none */
extern const ls_known ls_known_sets[];
extern const int ls_known_count;
extern const char *const ls_digit_names[10];

/* Fetches what is missing of the set's four files into `dir` (created). A file appears under its name only
 * when its SHA-256 is right; an interrupted one goes on where it stopped. Local. */
ls_status ls_known_download(const ls_known *k, const char *dir, const ls_dataset_options *o);

/* The built-in set (shapes.c). `instead_of`: the set that was not found, NULL when the built-in one was asked
 * for by name. */
ls_status ls_shapes_open(ls_dataset **out, ls_split split, const char *instead_of);
enum { LS_SHAPES_SIZE = 28, LS_SHAPES_TRAIN = 60000, LS_SHAPES_EVAL = 10000 };
/* Draws sample i [28, 28] and returns its class: a pure function of (split, i). */
int ls_shapes_draw(ls_split split, int64_t i, uint8_t image[LS_SHAPES_SIZE * LS_SHAPES_SIZE]);
