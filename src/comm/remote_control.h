/* remote_control.h - notices between machines: failures, and questions about a late rank. Called in the
 * communication thread. */
#pragma once
#include "lag.h"
#include "remote_types.h"

/* Begins to listen for notices. */
ls_status ls_remote_listen(ls_remote_group *r);
/* Handles the notices that have arrived, and reports a failure on this machine to the others. LS_E_PEER when
 * the group has failed. */
ls_status ls_remote_look(ls_remote_group *r);
/* Nothing came from `rank` within the deadline: asks its machine what it does, and makes that the group's
 * failure. If that rank waits for another machine it will say so itself: LS_OK, unless `again`. */
ls_status ls_remote_missing(ls_remote_group *r, const ls_route *t, int rank, const char *what, bool again);
/* Nothing came from `rank` for a while: asks its machine what it does, and reports the lag. */
ls_status ls_remote_lag(ls_remote_group *r, ls_lag_timer *l, int rank, const char *what);
/* The transport's error becomes the group's failure. */
ls_status ls_remote_broken(ls_remote_group *r);
