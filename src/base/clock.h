/* clock.h - monotonic time in seconds, and how long this process has existed (exec to now), for the start-up
 * budget. */
#pragma once
double ls_now(void);
double ls_since_exec(void); /* seconds since the kernel started this process */
