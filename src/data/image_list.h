/* image_list.h - the pictures of a split and their labels: from folders of classes, from a CSV file, or from
 * tar shards. Nothing is decoded for it. */
#pragma once
#include "base/arena.h"
#include "base/file.h"
#include "base/str.h"
#include "data/room.h"
#include "lockstep/data.h"

typedef struct ls_image_entry {
    const char *name; /* path below the list's root; in a shard the member's name */
    int32_t label;
    int32_t shard;         /* -1: a file of its own */
    uint64_t offset, size; /* in the shard */
} ls_image_entry;

typedef struct ls_image_shard {
    const char *path;
    ls_mapping map;
} ls_image_shard;

typedef struct ls_image_list {
    ls_arena arena;   /* of the texts */
    const char *root; /* folder that names of files begin in */
    int64_t n;
    int capacity;
    ls_image_entry *at;
    int classes;        /* all labels are below it */
    const char **names; /* [classes], in the arena; NULL: the classes are numbers */
    int n_shards, shard_capacity;
    ls_image_shard *shards;
    uint64_t digest; /* of names, labels, and sizes in shards */
} ls_image_list;

/* Where a split is, and where the training split is, which says what classes there are. */
typedef struct ls_image_source {
    const char *split,
        *train;  /* a folder, FILE.csv, or a pattern of FILE.tar; train may be NULL: not known */
    bool values; /* numbers come in place of labels: of FILE.csv only the paths are read */
    bool again;  /* the training split reads the same images and has warned about other files */
} ls_image_source;

/* Each begins an empty list. LS_E_USAGE, LS_E_FORMAT: what is missing or wrong, and where. */
ls_status ls_image_folder(ls_image_list *out, const ls_image_source *from);
ls_status ls_image_table(ls_image_list *out, const ls_image_source *from);
ls_status ls_image_shards(ls_image_list *out, const ls_image_source *from);
/* The pictures of SPLIT/images, each of which has its mask in SPLIT/masks (image_mask.h). */
ls_status ls_image_folder_masks(ls_image_list *out, const ls_image_source *from);
/* Classes without names are called "0", "1", .. */
ls_status ls_image_list_number(ls_image_list *l);
void ls_image_list_release(ls_image_list *l);

/* ---- image_bytes.c */

/* The name of entry i for messages and for opening: a path, or "SHARD: MEMBER". */
void ls_image_list_name(ls_str *out, const ls_image_list *l, int64_t i);
/* The bytes of entry i, whose name this is. Those of a file lie in `room`. LS_E_IO, LS_E_MEMORY. */
ls_status ls_image_list_bytes(const uint8_t **out, size_t *n, const ls_image_list *l, int64_t i,
                              const char *name, ls_room *room);
/* Reads a whole file into the room. */
ls_status ls_image_file_bytes(const uint8_t **out, size_t *size, const char *path, ls_room *room);

/* ---- for the functions that make a list */

/* Adds an entry; `name` is copied. */
ls_status ls_image_list_add(ls_image_list *l, const char *name, ls_image_entry entry);
/* Whether a name ends as picture files do: .jpg, .jpeg, .png, .pgm, .ppm, in any case. */
bool ls_image_name(const char *name);
/* Sorts n texts by their bytes, as Python sorts them. */
void ls_sort_texts(char **texts, size_t n);
