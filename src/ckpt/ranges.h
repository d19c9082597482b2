/* ranges.h - the files of a checkpoint, written by all ranks at once. Private to src/ckpt. */
#pragma once
#include "ckpt/checkpoint.h"

/* Writes everything, manifest.json last, into `dir`, which rank 0 has made; on rank 0 all of it is on disk when this returns. Collective. */
ls_status ls_ranges_write(const char *dir, const ls_checkpoint_contents *c, ls_group *g, uint64_t *bytes);
