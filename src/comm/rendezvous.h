/* rendezvous.h - how ranks of one machine that somebody else started get the descriptor of their control
 * block (ls_shm_create). They meet at an abstract unix socket: it has a name but no file, and disappears with
 * its owner. Both sides check that the other process belongs to the same user. */
#pragma once
#include "lockstep/group.h"

/* This process becomes local rank `rank` of `size`. LS_E_PEER with those that did not come; LS_E_USAGE when
 * the name is taken. Collective over them. */
ls_status ls_rendezvous_join(ls_group **out, const char *name, int rank, int size);
/* As above, within so many seconds. */
ls_status ls_rendezvous_join_within(ls_group **out, const char *name, int rank, int size, double seconds);
