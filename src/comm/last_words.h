/* last_words.h - how a rank fails where no call of its own returns an error: a module calls exit(), or a page
 * of a mapped file is gone. The group that ls_group_from_environment has given this process hears it. */
#pragma once
#include <stdbool.h>
#include "lockstep/group.h"

void ls_last_words_of(ls_group *g);     /* the group of this process; local */
void ls_last_words_forget(ls_group *g); /* it ends */
/* What the program does with the message, before its process ends. `rank`: of the group; -1: there is none.
 * `said`: another process prints it. If it is not said, the program prints it on this rank, whichever it is:
 * ls_log may be silent here. It may be called in a signal handler. */
typedef void (*ls_last_words_sink)(const char *text, int rank, bool said);
void ls_last_words_to(ls_last_words_sink sink); /* NULL, at first: ls_log prints it if not said */
/* Tells the other ranks, and the process that watches this one, that it fails with this message. If this rank
 * does not know that one of them prints it (rank 0 has not ended in time, or is on another host), this rank
 * prints it. True: another one does. May be called in a signal handler, because it takes no lock. Local. */
bool ls_last_words(ls_status code, const char *text);
