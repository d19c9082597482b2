/* last_words.h - how a rank fails where no call of its own returns an error: a module calls exit(), or a page
 * of a mapped file is gone. The group that ls_group_from_environment has given this process hears it. */
#pragma once
#include <stdbool.h>
#include "lockstep/group.h"

void ls_last_words_of(ls_group *g);     /* the group of this process; local */
void ls_last_words_forget(ls_group *g); /* it ends */
/* Tells the other ranks, and the process that watches this one, that it fails with this message. False: this
 * rank does not know that one of them prints it (rank 0 has not ended in time, or is on another host), so the
 * caller has to. May be called in a signal handler, because it takes no lock. Local. */
bool ls_last_words(ls_status code, const char *text);
