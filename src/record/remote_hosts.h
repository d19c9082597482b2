/* remote_hosts.h - a run in a bucket whose ranks are on several hosts that share no folder. Each host has a
 * run directory of its own in its cache. Every rank sends its files of a checkpoint to the bucket itself, as
 * soon as they are written; rank 0 sends the manifest when all ranks have, and only then gives the checkpoint
 * its name here. So what rank 0 has under that name is whole in the bucket. The first rank of each host
 * fetches the checkpoint that the run continues from. Everything else of the run (metrics, result.json, which
 * checkpoints stay) is on rank 0's host, which copies it to the bucket as always (remote.h). */
#pragma once
#include "ckpt/checkpoint.h"
#include "lockstep/group.h"
#include "record/remote.h"

/* *apart: the hosts share no folder; then each rank has the bucket open in *r, and tries for `insists`
 * seconds to send a file that the bucket cannot take. Else *r stays as it is: that of rank 0, NULL where the
 * storage is a path. LS_E_USAGE if some hosts share a folder and some do not. Collective. */
ls_status ls_remote_join(ls_remote **r, bool *apart, const char *storage, const char *name, ls_group *g,
                         double insists);

/* Fetches what is not here of the checkpoint of the run that rank 0 has at `path`: to the host of rank 0, or,
 * where they are `apart`, to each; then `path` becomes that of this host. Does nothing for one that is
 * elsewhere. `sparse` (may be NULL): the other hosts only get a sparse copy, from which each rank brings what
 * it loads; its `dir` is set there, and the next save removes it. An error names the host. Collective. */
ls_status ls_remote_fetch(ls_remote *r, bool apart, char path[4096], ls_group *g, ls_sparse *sparse);

/* Fetches the other hosts' files of the newest checkpoint, the best, and those that have names of their own:
 * then this host's copy of the run is complete. Local. */
ls_status ls_remote_complete(ls_remote *r);

/* For saving: valid as long as `r`. */
ls_away ls_remote_away(ls_remote *r);
