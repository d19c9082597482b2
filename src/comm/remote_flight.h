/* remote_flight.h - messages under way, and waiting for them. Called in the communication thread. */
#pragma once
#include "remote_types.h"

/* Begins to send from `send`, or to receive into `receive` if `send` is NULL. `rank`: to or from whom. */
ls_status ls_flight_put(ls_remote_group *r, ls_flight *f, int rank, int tag, const void *send, void *receive,
                        size_t bytes);
/* Waits until all messages of the flight are done. `what` appears in the message of a failure. */
ls_status ls_flight_await(ls_remote_group *r, ls_flight *f, const ls_route *t, const char *what);

void ls_job_finish(ls_remote_group *r, ls_job *j, ls_status s);

/* Begins the sends that the rank has put, and finishes those whose message has left. */
ls_status ls_post_look(ls_remote_group *r);
/* Waits until no message of this mailbox is under way. */
ls_status ls_post_await(ls_remote_group *r, const ls_job *room);

/* After a failure, of which the others know: gives up everything under way, also sends that were put. If the
 * transport may go on using memory of the rank, it is not called any more. */
void ls_flight_give_up(ls_remote_group *r);
