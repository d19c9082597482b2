/* last_words.h - reports the failure of a rank that ends without returning an error: a module calls exit(),
 * or a page of a mapped file is gone. The group that ls_group_from_environment has given this process gets
 * the message. */
#pragma once
#include <stdbool.h>
#include "lockstep/group.h"

void ls_last_words_of(ls_group *g);     /* the group of this process; local */
void ls_last_words_forget(ls_group *g); /* the group ends */
/* The program's function for the message, called before the process ends. `rank`: in the group; -1: there is
 * no group. `said`: another process prints the message. If it is false, the program prints the message, on
 * any rank: ls_log may be silent here. May be called in a signal handler. */
typedef void (*ls_last_words_sink)(const char *text, int rank, bool said);
/* NULL (the default): ls_log prints the message unless another process does */
void ls_last_words_to(ls_last_words_sink sink);
/* Reports to the other ranks, and to the process that watches this one, that this rank fails with this
 * message. True: another process prints the message. False: this rank does not know that (rank 0 has not
 * ended in time, or is on another host), so it prints the message itself. May be called in a signal handler,
 * because it takes no lock. Local. */
bool ls_last_words(ls_status code, const char *text);
