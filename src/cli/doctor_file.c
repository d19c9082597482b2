/* doctor_file.c - `doctor --write-machine`: what was measured as a file for `plan --machine`. */
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "doctor.h"
#include "plan/collective_speed.h"
#include "recipe/machine_file.h"

/* Bytes of the machine's memory, in whole MiB. */
static int64_t memory_of_machine(void)
{
    return ((int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE)) & ~((int64_t)1048575);
}

ls_status ls_doctor_write_machine(const char *path, const ls_calibration *c, int ranks, bool busy,
                                  const ls_collective_speed wires[LS_COLLECTIVE_SPEEDS])
{
    char host[64] = "", cpu[64], source[192];
    gethostname(host, sizeof host - 1);
    ls_calibration_cpu(cpu);
    snprintf(source, sizeof source, "measured by lockstep doctor on %s%s", host,
             busy ? " while other programs used the cores: too slow" : "");
    const ls_collective_speed *link = &wires[LS_SPEED_HOST], *network = &wires[LS_SPEED_NETWORK];
    const bool apart = c->to_device > 0;
    const int cores = ls_calibration_cores();
    const ls_machine m = {
        .name = c->hardware,
        .source = source,
        .host = { .ranks = ranks > 1 ? ranks : cores, .cores = cores, .memory = memory_of_machine() },
        .device = { .type = c->device,
                    .isa = c->arch,
                    .hardware = apart ? c->hardware : cpu,
                    .flops = apart || !(c->all_flops > 0) ? c->flops : c->all_flops,
                    .narrow = c->narrow_flops,
                    .efficiency = c->gemm_efficiency < 1 ? c->gemm_efficiency : 1,
                    .bandwidth = (apart || !(c->all_memory > 0) ? c->bytes_memory : c->all_memory) / 0.9,
                    .copies = c->to_device,
                    .kernel = c->op_overhead },
        .link = { link->latency, link->bandwidth },
        .network = { .nics = network->bandwidth > 0,
                     .latency = network->latency,
                     .bandwidth = network->bandwidth,
                     .alone = network->alone,
                     .busy = network->busy },
    };
    ls_str out = { 0 };
    ls_str_printf(&out, "# %s, %s\n", cpu, source);
    ls_machine_print(&out, &m);
    const ls_status s = ls_file_write_text(path, &out);
    ls_str_release(&out);
    return s == LS_OK ? s : ls_fail_in(s, "--write-machine");
}
