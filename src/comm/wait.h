/* wait.h - counters of an axis: raising this rank's, waiting for those of the other members. */
#pragma once
#include "axis_own.h"

/* Raises this rank's counter and returns the new count. A member that sees this count also sees everything
 * that this rank wrote before (release). */
uint32_t ls_axis_raise(ls_axis *a, ls_counter which);
/* The same of counters that lie in a window. */
uint32_t ls_counters_raise(ls_counters *mine, ls_counter which);
/* Waits until the member at `position`, on this machine, has raised its counter to `count`. `what` is for
 * the message of a failure. LS_E_PEER. */
ls_status ls_axis_await(ls_axis *a, ls_counter which, int position, uint32_t count, const char *what);
/* The same of that member's counters in a window. */
ls_status ls_axis_await_at(ls_axis *a, ls_counters *c, ls_counter which, int position, uint32_t count,
                           const char *what);
/* The same for all members on this machine. */
ls_status ls_axis_await_all(ls_axis *a, ls_counter which, uint32_t count, const char *what);

/* While the calling thread sleeps in a wait, it calls look(context) about every 20 ms; the wait ends with a
 * failure that this returns. NULL: nothing. Local. */
void ls_wait_looks(ls_status (*look)(void *context), void *context);

/* The part of a pause that counts against a deadline. After a long pause this process had no core or was
 * stopped (Ctrl-Z), and the other ranks may have been, too. So a long pause counts as a short one. */
double ls_patience_spent(double seconds);
