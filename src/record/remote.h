/* remote.h - a run whose storage is a bucket (run.storage or ls_run_open: s3://BUCKET/PREFIX). The run
 * directory lies in the cache on this machine, and what is in it is copied to PREFIX/NAME in the bucket: a
 * checkpoint when it has its name, the rest then and at the end. The manifest of a checkpoint is written
 * behind all its other files, so in the bucket too a checkpoint is whole or not there. A machine whose cache
 * has less than the bucket fetches the newest checkpoint, the best, and those of a program that have names of
 * their own.
 *
 * The bucket's keys are the paths in the run directory; checkpoints/latest and checkpoints/best, links there,
 * are small objects with the name that they point to. */
#pragma once
#include "lockstep/status.h"

typedef struct ls_remote ls_remote;

/* The run directory on this machine for a value of run.storage: in the path itself, in that of file://PATH,
 * or in a folder of the cache for s3://. malloc'ed; NULL: no memory. */
char *ls_storage_run(const char *storage, const char *name);

/* *out is NULL when the storage is a path. Errors as ls_s3_open. Local. */
ls_status ls_remote_open(ls_remote **out, const char *storage, const char *name);
void ls_remote_close(ls_remote **r);
const char *ls_remote_folder(const ls_remote *r); /* the run directory on this machine */

/* Before a run is looked for: fetches it where the bucket has a newer checkpoint than this machine, or a run
 * and this machine none. Takes back uploads that a killed process left, so no other process may be training
 * the run. A request to stop ends it (LS_E_STOPPED); the next call fetches what is missing. Does nothing for
 * NULL. Local. */
ls_status ls_remote_pull(ls_remote *r);

/* Copies to the bucket what it has not got, and removes the checkpoints that are gone here. An error leaves
 * it as whole as it was: the next call goes on. After a request to stop it still sends, and ends when the
 * server has taken nothing for five seconds. Does nothing for NULL. Local. */
ls_status ls_remote_push(ls_remote *r);
