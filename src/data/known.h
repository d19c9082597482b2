/* known.h - named data sets: what they contain, their files with size and SHA-256, and where to download
 * them. */
#pragma once
#include "lockstep/data.h"

/* The four files: train images, train labels, eval images, eval labels. The index is split * 2 + (labels ? 1
 * : 0). */
enum { LS_KNOWN_FILES = 4 };

typedef struct ls_known_file {
    const char *name; /* as published; the inflated file has this name without .gz */
    int64_t bytes;
    const char *sha256;
} ls_known_file;

typedef struct ls_known {
    const char *name;
    const char *torchvision; /* name of the folder that torchvision makes: ROOT/NAME/raw/ */
    int64_t n[2];            /* number of samples, by ls_split */
    int size, classes;       /* images are size x size, gray */
    const char *const *class_names;
    ls_known_file files[LS_KNOWN_FILES];
    const char *mirrors[3]; /* URLs that end in /, tried in this order; NULL ends the list */
} ls_known;

const ls_known *ls_known_find(const char *name); /* NULL: none */
extern const ls_known ls_known_sets[];
extern const int ls_known_count;
extern const char *const ls_digit_names[10];

/* Downloads the set's files that are missing in `dir`, which is made if needed. A file gets its name only
 * when its SHA-256 is right; an interrupted download continues where it stopped. Local. */
ls_status ls_known_download(const ls_known *k, const char *dir, const ls_dataset_options *o);

/* ls_dataset.count of sets with a label for each sample. */
int64_t ls_dataset_one_label(const ls_dataset *set, int64_t i, int k);

/* Opens the built-in set (shapes.c). instead_of: the set that was not found; NULL: the built-in set was asked
 * for by name. */
ls_status ls_shapes_open(ls_dataset **out, ls_split split, const char *instead_of);
enum { LS_SHAPES_SIZE = 28, LS_SHAPES_TRAIN = 60000, LS_SHAPES_EVAL = 10000 };
/* Draws sample i [28, 28] and returns its class. A pure function of (split, i). */
int ls_shapes_draw(ls_split split, int64_t i, uint8_t image[LS_SHAPES_SIZE * LS_SHAPES_SIZE]);
