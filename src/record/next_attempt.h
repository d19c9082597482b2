/* next_attempt.h - next.txt in the run directory: what the parent of the ranks is about to start in their
 * place, when it asks them to stop for it, as "4 workers on hosts a, b". A signal cannot tell rank 0, on
 * another host, why it has to stop. */
#pragma once
#include <stdbool.h>
#include "lockstep/status.h"

enum { LS_NEXT_BYTES = 512 };

/* Called by the parent, before it asks the ranks to stop. Local. */
ls_status ls_next_attempt_tell(const char *run_dir, const char *text);
/* Called by rank 0 when it stops because it was asked to: whether that is for a next attempt, and which. Then
 * the file is gone. Local. */
bool ls_next_attempt_hear(char text[LS_NEXT_BYTES], const char *run_dir);
/* Called by the parent when the ranks have ended, and before they start. True: they have not heard it, so
 * they ended for another reason. Local. */
bool ls_next_attempt_withdraw(const char *run_dir);
