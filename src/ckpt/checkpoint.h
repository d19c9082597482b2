/* checkpoint.h - a checkpoint directory: config.json, model.safetensors, optimizer.safetensors (or shards of
 * them with an index), trainer.json, manifest.json.
 *
 * All ranks write it, each its own ranges at their places in the files: nothing is collected, and the files
 * are complete when the last byte is. It is written under a temporary name beside its final one, every file
 * is on disk before manifest.json is, and the directory gets its name last: whatever has the name is whole.
 * Nothing in config.json and the tensor files tells time or world size, so equal values give equal files.
 * manifest.json lists for every file its size and the xxh3 of each piece of it; its own last line is the xxh3
 * of all bytes before that line. A folder of checkpoints has one writer: one process, or the ranks of one
 * group. */
#pragma once
#include "base/box.h"
#include "lockstep/group.h"
#include "lockstep/weights.h"

/* What this rank has, or wants, of a tensor: `count` elements from number `first` of its block, row-major.
 * count 0: nothing. */
typedef struct ls_range {
    int64_t first, count;
    void *data;
    const ls_box *box; /* the block; NULL: the whole tensor */
    bool differ;       /* other ranks' blocks of it may have other shapes */
} ls_range;
/* The part of a range that lies in one piece in the tensor from its element `at` (0 .. count-1) on: where
 * there, and how many. */
int64_t ls_range_piece(const ls_range *r, int64_t at, int64_t *count);

typedef struct ls_tensor_list {
    int64_t n;
    const ls_named_tensor *tensors; /* whole, the same list on every rank; their `data` are not looked at */
    const ls_range *mine;           /* [n]; together the ranks' ranges must be every element once */
} ls_tensor_list;

typedef struct ls_checkpoint_contents {
    const char *config, *trainer;    /* JSON texts; rank 0's are written */
    ls_tensor_list model, optimizer; /* optimizer.n 0: no such file */
    uint64_t max_file;               /* bytes; more are written as shards. 0: no limit */
    bool replace;                    /* a checkpoint that has the name already */
} ls_checkpoint_contents;

/* What one rank could not do ends the call on all of them, with its message; `g` NULL: one rank. Collective.
 */
ls_status ls_checkpoint_together(ls_group *g, ls_status mine);

/* `dir` must not exist yet, unless it may be replaced; its parent is made if need be, and left-overs of
 * interrupted saves and removals in it are deleted. When one rank fails, the group has failed. *bytes (may be
 * NULL): of all tensors' files. Collective; g NULL: one rank. */
ls_status ls_checkpoint_save(const char *dir, const ls_checkpoint_contents *c, ls_group *g, uint64_t *bytes);

/* The same in parts, so that writing can go on beside other work. The lists of `c`, and the values, must stay
 * as they are until the save has ended; the texts need not. A part that fails on a rank has not failed on the
 * others: tell the group, and end the save everywhere. */
typedef struct ls_saving ls_saving;
/* makes the files. Collective */
ls_status ls_saving_begin(ls_saving **out, const char *dir, const ls_checkpoint_contents *c, ls_group *g);
ls_status ls_saving_write(ls_saving *v);   /* this rank's part, onto the disk. Local, in any thread */
ls_status ls_saving_collect(ls_saving *v); /* every rank has written. Collective */
/* the checkpoint gets its name; nothing to do above rank 0. Local, in any thread */
ls_status ls_saving_commit(ls_saving *v);
void ls_saving_end(ls_saving **v); /* nulls *v; what was not committed is removed. Local */
uint64_t ls_saving_bytes(const ls_saving *v);
/* removes what interrupted saves and removals have left in a folder of checkpoints. Local */
void ls_checkpoint_clean(const char *parent);

/* LOADED: as FULL for whoever loads everything: the data of a tensor are compared when a range of it is
 * loaded, in one pass over memory with that. */
typedef enum ls_verify { LS_VERIFY_SIZES, LS_VERIFY_FULL, LS_VERIFY_LOADED } ls_verify;

/* Checks the manifest's own digest and every listed file: its size and, with FULL, every byte. A damaged byte
 * is LS_E_FORMAT with the file and the range of offsets. `files` (may be NULL) gets the number of files
 * checked. Local. */
ls_status ls_checkpoint_verify(const char *dir, ls_verify how, int *files);

typedef struct ls_checkpoint {
    char *dir;
    char *config, *trainer; /* the JSON texts */
    ls_weights *weights;
    ls_weights *optimizer; /* NULL: a checkpoint without */
    struct ls_manifest *manifest;
} ls_checkpoint;
/* Verifies, with FULL each rank a part of the bytes, then opens. When one rank fails, the group has failed.
 * Collective; g NULL: one rank. */
ls_status ls_checkpoint_open(ls_checkpoint *out, const char *dir, ls_verify how, ls_group *g);
void ls_checkpoint_release(ls_checkpoint *c);
bool ls_checkpoint_is(const char *dir); /* has a manifest.json */

/* Fills the ranges of l->mine with elements of the whole tensors; a file that does not fit is LS_E_SHAPE as
 * of ls_weights_load. A piece of the files that is not proved yet (LS_VERIFY_LOADED) is compared before
 * anything is taken from it. Local. */
ls_status ls_ranges_load(const ls_weights *w, const ls_tensor_list *l, const ls_weights_load_opts *o);

/* Makes the symbolic link PARENT/`link` ("latest", "best") point to the sibling directory `name`, atomically.
 */
ls_status ls_checkpoint_point(const char *parent, const char *link, const char *name);
/* Deletes a checkpoint; interrupted, it leaves no directory of that name. */
ls_status ls_checkpoint_remove(const char *dir);
