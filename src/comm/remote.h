/* remote.h - a group of one machine's ranks becomes part of a group on several machines. */
#pragma once
#include "lockstep/group.h"
#include "transport.h"

/* Makes `g` machine number `machine` of a larger group whose machines have as many ranks each.
 * transport_rank [size]: the transport's number of each rank. The group owns it and the transport from then
 * on, also after an error. Collective. */
ls_status ls_remote_attach(ls_group *g, const ls_transport_ops *ops, const ls_transport *t, int machine,
                           int *transport_rank);
void ls_remote_detach(ls_group *g); /* does nothing on one machine */

/* Bytes that a rank of a group of `ranks` on several machines keeps for messages. */
size_t ls_message_bytes(int ranks);
