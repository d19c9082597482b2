/* image_split.h - where the pictures of a split are, and which of the training pictures are held out. */
#pragma once
#include "data/image_list.h"

typedef struct ls_image_where {
    const char *split, *train; /* a folder, FILE.csv or a pattern of FILE.tar; train "": not known */
    const char *inside;        /* "train/", "val/": what of `split` comes behind options->path; "" */
    bool both;                 /* `split` has the pictures of both splits, to be divided by eval_fraction */
} ls_image_where;

/* Texts are in the arena or in the options. LS_E_USAGE: nothing is named, or a folder that looks like a split
 * has a name that is none. */
ls_status ls_images_find(ls_image_where *out, ls_arena *a, ls_split split, const ls_images_options *o);

/* Leaves the entries of the split in the list. *kept, malloc'ed [list->n]: which they were. A picture is
 * known by its name, in shards also by that of the shard, and not by its folder, which may be moved. */
ls_status ls_image_list_hold_out(int64_t **kept, ls_image_list *l, ls_split split, double fraction,
                                 const char *what);
