/* emulated.c - a device for tests: the CPU's kernels, behind memory that the host cannot read and queues that
 * run at times of their own. It finds work whose order nothing ensures, and hosts that read the device's
 * memory, on any machine; and it gives the CPU's bits. */
#include "device/cpu/peak_rate.h"
#include "device/cpu/isa.h"
#include "emulated_own.h"

static ls_status emulated_choose(ls_device *d, const char *word, bool elsewhere)
{
    ls_emulation e;
    LS_TRY(ls_emulation_read(&e));
    LS_TRY(ls_cpu_choose(d, word, elsewhere));
    ls_emulated_explain_faults();
    return LS_OK;
}

static const ls_kernel *const *emulated_tables(const ls_arch *arch)
{
    return ls_cpu_tables(ls_cpu_answers(arch));
}

const ls_device_ops ls_device_emulated = { .name = "emulated",
                                           .choose = emulated_choose,
                                           .usable = ls_cpu_usable,
                                           .tables = emulated_tables,
                                           .peak = ls_cpu_peak_rate,
                                           .queue = &ls_queue_emulated,
                                           .link = &ls_link_emulated,
                                           .computes = true };
