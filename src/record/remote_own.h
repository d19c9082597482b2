/* remote_own.h - the struct of a bucket (remote.h), and what remote*.c share: where checkpoints lie, in the
 * bucket and here. */
#pragma once
#include "base/str.h"
#include "net/s3.h"
#include "record/remote.h"

#define LS_REMOTE_CHECKPOINTS "checkpoints"
#define LS_REMOTE_MANIFEST "manifest.json"
/* After a request to stop the last checkpoint is still sent, as long as the bucket's server takes it: seconds
 * without a byte. */
#define LS_REMOTE_PATIENCE 5.0

struct ls_remote {
    ls_s3 *s3;
    char *folder;  /* the run directory on this machine */
    char *storage; /* as the recipe or the program has it, for messages */
    int64_t *done; /* steps whose checkpoints are in the bucket as they are here */
    size_t n_done;
    double insists; /* seconds for which a rank tries again to send a file that the bucket cannot take */
    bool part;      /* of a rank that sends only its own files: another one pulls and pushes the run */
};

/* The step of the checkpoint that a key lies in, with *file behind its folder; -1: it lies in none. */
int64_t ls_remote_step_of(const char *key, const char **file);
/* "checkpoints/step-00000468/FILE", "checkpoints/full_model/FILE" */
void ls_remote_add_key(ls_str *out, const char *name, const char *file);
/* Whether the checkpoint is here, at least those of its files that the ranks of this host wrote. */
bool ls_remote_has(const ls_remote *r, const char *name);
bool ls_remote_has_step(const ls_remote *r, int64_t step);
/* Whether all of its files are here. */
bool ls_remote_has_all(const ls_remote *r, const char *name);
/* *same: the bucket's checkpoint with this manifest has the tensors of the one here or, with `all_files`, the
 * same bytes in all files. One of a step needs only the same tensors: it may lack the end of its epoch, which
 * the next start does again, and to replace it means that for some time there is none. */
ls_status ls_remote_same_checkpoint(ls_remote *r, const char *key, bool all_files, bool *same);
/* Fetches what is not here of a checkpoint in the list of the bucket. One of this name that is another one
 * there is replaced. */
ls_status ls_remote_fetch_folder(ls_remote *r, const ls_s3_list *l, const char *name);
/* LS_E_FORMAT, with advice, if a fetched copy of a checkpoint does not have the files of its manifest. */
ls_status ls_remote_check(const ls_remote *r, const char *folder, const char *name);
/* Lists what the bucket has of a checkpoint, and does `act` with it. */
ls_status ls_remote_with_list(ls_remote *r, const char *name,
                              ls_status (*act)(ls_remote *r, const ls_s3_list *l, const char *name));
/* Whether a request that failed so is made once more: a bucket may be full or not there for a while. Waits
 * before it. */
bool ls_remote_again(const ls_remote *r, ls_status s, double began, bool *said);
bool ls_remote_is_there(const ls_s3_list *l, const char *key);
/* Sends a checkpoint that the bucket has not got, or has another one of. One of which this host has only its
 * own ranks' files has been sent by the ranks (remote_hosts.h). */
ls_status ls_remote_send_folder(ls_remote *r, const ls_s3_list *l, const char *name);
/* The steps of the folders of checkpoints here, newest last; *n of them; malloc'ed. */
ls_status ls_remote_steps(const ls_remote *r, int64_t **steps, size_t *n);
