/* thread_pool.h - the one thread pool: our own, or OpenMP's where a library that runs on it takes part in the
 * step. Two pools would fight for the cores. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Called with a half-open range of task numbers and the worker that runs it (0 .. threads-1): any number of
 * times, one at a time for a worker. */
typedef void (*ls_range_fn)(void *context, int64_t begin, int64_t end, int worker);

/* Runs fn over [0, n), every task once, in contiguous pieces; returns when all are done. threads <= 1 or n <=
 * 1 runs all at once on the caller. A kernel whose beginning is dear passes n = threads tasks. What a task
 * computes must not depend on the cut, nor on the worker. Any thread may call it, at any time; a call that
 * finds the workers busy with another's loop runs on the caller. */
void ls_parallel_for(int threads, int64_t n, ls_range_fn fn, void *context);
/* From now on loops run on OpenMP's workers (builds with OpenMP only; else nothing changes). Call between
 * loops. */
void ls_parallel_use_openmp(bool on);
int ls_cpu_count(void); /* cores this process may use (affinity respected) */
