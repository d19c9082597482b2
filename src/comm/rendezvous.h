/* rendezvous.h - ranks of one machine that somebody else started hand each other the descriptor of their
 * control block (ls_shm_create). The meeting place is an abstract unix socket: a name, no file, gone with its
 * owner. Both sides check that the other is the same user. */
#pragma once
#include "lockstep/group.h"

/* This process becomes local rank `rank` of `size`. LS_E_PEER with those that did not come; LS_E_USAGE when
 * the name is taken. Collective over them. */
ls_status ls_rendezvous_join(ls_group **out, const char *name, int rank, int size);
/* As above, within so many seconds. */
ls_status ls_rendezvous_join_within(ls_group **out, const char *name, int rank, int size, double seconds);
