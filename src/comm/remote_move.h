/* remote_move.h - the work of the communication thread for a job. */
#pragma once
#include "remote_types.h"

ls_status ls_remote_move(ls_remote_group *r, const ls_job *j);
