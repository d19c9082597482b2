/* stop.h - the request to stop (ls_stop_on, lockstep/status.h), as long work in the library looks at it. Only
 * work that can be thrown away does: reading, tokenizing, checking, building. Training steps and saves never
 * do: whoever runs them decides what is finished first. */
#pragma once
#include "lockstep/status.h"

bool ls_stop_asked(void); /* a load or two: cheap enough for every few thousand elements, any thread */

/* LS_E_STOPPED with "stopped while DOING" when it is asked, else LS_OK. */
ls_status ls_stop_check(const char *doing, ...) __attribute__((format(printf, 1, 2)));
