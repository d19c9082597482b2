/* thread_pool.h - the one thread pool: our own, or OpenMP's where a library that runs on it takes part in the
 * step. Two pools would fight for the cores. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Runs the tasks [begin, end). `worker` (0 .. threads-1) runs one call at a time; there may be any number of
 * calls. */
typedef void (*ls_range_fn)(void *context, int64_t begin, int64_t end, int worker);

/* Runs fn over [0, n), every task once, in contiguous pieces; returns when all are done. threads <= 1 or n <=
 * 1 runs all at once on the caller. A kernel that is expensive to start passes n = threads tasks. The result
 * of a task must not depend on the range or the worker that it runs in. Any thread may call it at any time.
 * When the workers are busy with another loop, or there is no memory for them, the loop runs on the caller.
 */
void ls_parallel_for(int threads, int64_t n, ls_range_fn fn, void *context);
/* From now on loops run on OpenMP's workers (builds with OpenMP only; else nothing changes). Call between
 * loops. */
void ls_parallel_use_openmp(bool on);
int ls_cpu_count(void); /* cores this process may use (affinity respected) */
