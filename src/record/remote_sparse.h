/* remote_sparse.h - a copy of a checkpoint on a host whose ranks load only a part of it: its small files, and
 * of those with tensors the headers. A rank brings the pieces that it loads (ls_sparse). */
#pragma once
#include "record/remote_own.h"
#include "ckpt/checkpoint.h"

/* Makes it of a checkpoint in the list of the bucket. Local. */
ls_status ls_remote_make_sparse(ls_remote *r, const ls_s3_list *l, const char *name);
/* Removes those that earlier starts left here. Local. */
ls_status ls_remote_drop_sparse(const ls_remote *r);
/* For a rank: its host's sparse copy of this checkpoint, if it has one. Local. */
ls_status ls_remote_open_sparse(ls_sparse *out, ls_remote *r, const char *name);
