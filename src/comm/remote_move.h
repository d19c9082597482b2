/* remote_move.h - the work of the communication thread for a job. */
#pragma once
#include "remote_types.h"

ls_status ls_remote_move(ls_remote_group *r, const ls_job *j);
/* Gives up the messages under way. false: the transport may still use the memory of one of them. */
bool ls_flight_drop(ls_remote_group *r, ls_flight *f);
