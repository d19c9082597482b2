/* thread_pool.h - the only thread pool of the process. Two pools would compete for the cores. */
#pragma once
#include <stdint.h>

/* Runs the tasks [begin, end). A worker (0 .. threads-1) runs one call at a time, and any number of calls in
 * a loop. */
typedef void (*ls_range_fn)(void *context, int64_t begin, int64_t end, int worker);

/* Runs fn over the tasks [0, n), each exactly once, in contiguous ranges; returns when all are done. The
 * result of a task must not depend on the range or worker that runs it. With threads <= 1 or n <= 1 the
 * caller runs all tasks in one call. A kernel whose start is expensive passes n = threads tasks. Any thread
 * may call this at any time. If the workers are busy with another loop, or if there is no memory for them,
 * the loop runs on the caller. */
void ls_parallel_for(int threads, int64_t n, ls_range_fn fn, void *context);
int ls_cpu_count(void); /* cores that this process may use (its affinity mask) */
