/* running.cu - the running statistics of batch_norm: running += momentum * (batch - running), unless `apply`
 * is 0. */
#include "dialect.h"
#include "channels.h"

KERNEL(running, running_args, RUNNING_THREADS)
{
    const i64 c = BLOCK * RUNNING_THREADS + THREAD;
    if (a.apply && AT(const i32, a.apply)[0] == 0)
        return;
    if (c < a.channels) {
        float *mean = AT(float, a.running_mean), *variance = AT(float, a.running_variance);
        mean[c] = a.keep * mean[c] + a.take * AT(const float, a.mean)[c];
        variance[c] = a.keep * variance[c] + a.take * AT(const float, a.variance)[c];
    }
    if (c == 0)
        AT(i64, a.tracked)[0] = AT(i64, a.tracked)[0] + 1;
}
