/* shared.h - whether all hosts of a run see its folder. They write each checkpoint together, so a run whose
 * hosts do not would fail at its first checkpoint, unless they bring their files to a bucket
 * (remote_hosts.h). */
#pragma once
#include "lockstep/group.h"

/* LS_E_USAGE if this host does not see `path`, which rank 0 has in `storage` (run.storage). Local. */
ls_status ls_shared_sees(const char *path, const char *storage);
/* LS_E_USAGE if a host of the group does not see the folder of rank 0. The others get LS_E_PEER. Collective.
 */
ls_status ls_shared_folder(const char *folder, const char *storage, ls_group *g);
/* *apart: no host of the group sees the folder of another one. False: all see the same one, or there is one
 * host. LS_E_USAGE if some share it and some do not. Makes the folder. Collective. */
ls_status ls_shared_apart(bool *apart, const char *folder, ls_group *g);
