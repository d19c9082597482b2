/* remote_jobs.h - axes that span machines: their fences, exchanges and collectives are jobs of the
 * communication thread. The functions of an axis or collective are called by the rank, not by that thread. */
#pragma once
#include "remote_types.h"

ls_route *ls_route_create(const ls_axis *a); /* NULL: no memory */
void ls_route_destroy(ls_route **t);
void ls_remote_arrive(ls_axis *a);
ls_status ls_remote_fence(ls_axis *a);
ls_status ls_remote_exchange(ls_axis *a, const void *mine, size_t bytes, void *all, const char *what);
ls_status ls_remote_create(ls_collective *c); /* makes c->job */
void ls_remote_start(ls_collective *c);
ls_status ls_remote_wait(ls_collective *c);
ls_status ls_remote_send(ls_collective *c); /* start and wait of messages */
ls_status ls_remote_receive(ls_collective *c);
void ls_remote_destroy(ls_collective *c);

ls_status ls_remote_start_thread(ls_remote_group *r);
void ls_remote_stop_thread(ls_remote_group *r); /* it runs the queued jobs first */
