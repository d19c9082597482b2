/* null.c - the CPU device without the computing. It finds the same kernels, with the same needs of memory and
 * strides, but running them does nothing. It serves planning (memory, communication, estimated times), and
 * measuring the cost of the runtime. */
#include <pthread.h>
#include "base/check.h"
#include "device/cpu/isa.h"
#include "device/queue.h"

enum { MAX_KERNELS = 160 };
/* the CPU's rows with another `run`; ends with a row whose op is NULL */
static ls_kernel idle[LS_ISA_COUNT][MAX_KERNELS];
static const ls_kernel *lists[LS_ISA_COUNT][2];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void run_nothing(const ls_kernel_args *a) { (void)a; }

static void null_fill(void)
{
    for (int isa = 0; isa < LS_ISA_COUNT; isa++) {
        int n = 0;
        for (const ls_kernel *const *t = ls_cpu_tables((ls_isa)isa); t && *t; t++)
            for (const ls_kernel *k = *t; k->op; k++) {
                LS_CHECK(n < MAX_KERNELS - 1, "raise MAX_KERNELS");
                idle[isa][n] = *k;
                idle[isa][n++].run = run_nothing;
            }
        lists[isa][0] = idle[isa];
    }
}

static const ls_kernel *const *null_tables(const ls_arch *arch)
{
    pthread_once(&once, null_fill);
    return lists[ls_cpu_answers(arch)];
}

/* Nothing is computed, so every machine can run it. */
static ls_status null_choose(ls_device *d, const char *word, bool elsewhere)
{
    LS_TRY(ls_cpu_choose(d, word, elsewhere));
    d->here = true;
    return LS_OK;
}

const ls_device_ops ls_device_null = { .name = "null",
                                       .choose = null_choose,
                                       .usable = ls_cpu_usable,
                                       .tables = null_tables,
                                       .queue = &ls_queue_direct,
                                       .computes = false };
