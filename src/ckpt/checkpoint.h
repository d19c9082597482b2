/* checkpoint.h - a checkpoint directory: config.json, model.safetensors (or shards), trainer.json, manifest.json. All calls are local.
 *
 * It is written under a temporary name beside its final one, every file is on disk before manifest.json is, and the directory gets its
 * name last: whatever has the name is whole. Nothing in config.json and the model files tells time or world size, so equal weights give
 * equal files. manifest.json lists for every file its size and the xxh3 of each piece of it; its own last line is the xxh3 of all bytes
 * before that line. A folder of checkpoints has one writer. */
#pragma once
#include "lockstep/weights.h"

/* `dir` must not exist yet; its parent is made if need be. `config` and `trainer` are JSON texts. Left-overs of interrupted saves and
 * removals in the parent are deleted first. */
typedef struct ls_checkpoint_opts {
    uint64_t max_file; /* bytes; larger models are written as shards. 0: no limit */
} ls_checkpoint_opts;
ls_status ls_checkpoint_save_model(const char *dir, const char *config, const char *trainer, int64_t n, const ls_named_tensor *tensors,
                                   const ls_checkpoint_opts *o);

typedef enum ls_verify { LS_VERIFY_SIZES, LS_VERIFY_FULL } ls_verify;

/* Checks the manifest's own digest and every listed file: its size and, with FULL, every byte. A damaged byte is LS_E_FORMAT with the
 * file and the range of offsets. `files` (may be NULL) gets the number of files checked. */
ls_status ls_checkpoint_verify(const char *dir, ls_verify how, int *files);

typedef struct ls_checkpoint {
    char *dir;
    char *config, *trainer; /* the JSON texts */
    ls_weights *weights;
} ls_checkpoint;
ls_status ls_checkpoint_open(ls_checkpoint *out, const char *dir, ls_verify how); /* verifies, then opens */
void ls_checkpoint_release(ls_checkpoint *c);
bool ls_checkpoint_is(const char *dir); /* has a manifest.json */

/* Makes the symbolic link PARENT/`link` ("latest", "best") point to the sibling directory `name`, atomically. */
ls_status ls_checkpoint_point(const char *parent, const char *link, const char *name);
/* Deletes a checkpoint; interrupted, it leaves no directory of that name. */
ls_status ls_checkpoint_remove(const char *dir);
