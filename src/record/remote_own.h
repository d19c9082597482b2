/* remote_own.h - the struct of a bucket (remote.h), and what remote*.c share: where checkpoints lie, in the
 * bucket and here. */
#pragma once
#include "base/str.h"
#include "net/s3.h"
#include "record/remote.h"

#define LS_REMOTE_CHECKPOINTS "checkpoints"
#define LS_REMOTE_MANIFEST "manifest.json"

struct ls_remote {
    ls_s3 *s3;
    char *folder;  /* the run directory on this machine */
    char *storage; /* as the recipe or the program has it, for messages */
    int64_t *done; /* steps whose checkpoints are in the bucket as they are here */
    size_t n_done;
};

/* The step of the checkpoint that a key lies in, with *file behind its folder; -1: it lies in none. */
int64_t ls_remote_step_of(const char *key, const char **file);
/* "checkpoints/step-00000468/FILE", "checkpoints/full_model/FILE" */
void ls_remote_add_key(ls_str *out, const char *name, const char *file);
/* Whether the checkpoint is whole here. */
bool ls_remote_has(const ls_remote *r, const char *name);
bool ls_remote_has_step(const ls_remote *r, int64_t step);
/* The steps of the folders of checkpoints here, newest last; *n of them; malloc'ed. */
ls_status ls_remote_steps(const ls_remote *r, int64_t **steps, size_t *n);
