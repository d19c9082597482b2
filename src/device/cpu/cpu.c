/* cpu.c - the CPU device: two tables of kernels for each instruction set that was compiled (kernels/level.h),
 * and which of these levels a run takes. */
#include <stdlib.h>
#include "peak_rate.h"
#include "device/queue.h"
#include "isa.h"

#define LEVEL(level)                                                                                     \
    extern const ls_kernel ls_gemm_kernels_##level[], ls_math_kernels_##level[];                         \
    static const ls_kernel *const level##_tables[] = { ls_gemm_kernels_##level, ls_math_kernels_##level, \
                                                       NULL };

#ifdef LS_HAVE_generic
LEVEL(generic)
#endif
#ifdef LS_HAVE_avx2
LEVEL(avx2)
#endif
#ifdef LS_HAVE_avx512
LEVEL(avx512)
#endif
#ifdef LS_HAVE_avx512bf16
LEVEL(avx512bf16)
#endif
#ifdef LS_HAVE_amx
LEVEL(amx)
#endif

const ls_kernel *const *ls_cpu_tables(ls_isa isa)
{
    static const ls_kernel *const *const by_level[LS_ISA_COUNT] = {
#ifdef LS_HAVE_generic
        [LS_ISA_GENERIC] = generic_tables,
#endif
#ifdef LS_HAVE_avx2
        [LS_ISA_AVX2] = avx2_tables,
#endif
#ifdef LS_HAVE_avx512
        [LS_ISA_AVX512] = avx512_tables,
#endif
#ifdef LS_HAVE_avx512bf16
        [LS_ISA_AVX512BF16] = avx512bf16_tables,
#endif
#ifdef LS_HAVE_amx
        [LS_ISA_AMX] = amx_tables,
#endif
    };
    return by_level[isa];
}

ls_isa ls_cpu_answers(const ls_arch *arch)
{
    const ls_isa isa = ls_isa_of(arch);
    return isa <= ls_isa_best() && ls_cpu_tables(isa) ? isa : LS_ISA_GENERIC;
}

const ls_arch *ls_cpu_usable(int i) { return i <= (int)ls_isa_best() ? ls_isa_arch((ls_isa)i) : NULL; }

ls_status ls_cpu_choose(ls_device *d, const char *word, bool elsewhere)
{
    const char *who = word ? "isa" : "LOCKSTEP_ISA";
    const ls_isa best = ls_isa_best();
    ls_isa isa = best;
    word = word ? word : getenv("LOCKSTEP_ISA");
    if (word && *word) {
        if (!ls_isa_parse(word, &isa))
            return ls_fail(
                LS_E_USAGE,
                "%s=%s: not an instruction-set level; use generic, avx2, avx512, avx512bf16 or amx", who,
                word);
    } else {
        while (isa > LS_ISA_GENERIC && !ls_cpu_tables(isa)) /* the best level that was also compiled */
            --isa;
    }
    d->arch = ls_isa_arch(isa);
    d->here = isa <= best && ls_cpu_tables(isa);
    if (d->here || elsewhere)
        return LS_OK;
    if (isa > best)
        return ls_fail(LS_E_UNSUPPORTED, "%s: this machine has no %s; the best here is %s", who,
                       ls_isa_name(isa), ls_isa_name(best));
    return ls_fail(LS_E_UNSUPPORTED, "%s: %s was not built (CMake option LS_LEVELS)", who, ls_isa_name(isa));
}

static const ls_kernel *const *cpu_tables(const ls_arch *arch) { return ls_cpu_tables(ls_cpu_answers(arch)); }

const ls_device_ops ls_device_cpu = { .name = "cpu",
                                      .choose = ls_cpu_choose,
                                      .usable = ls_cpu_usable,
                                      .tables = cpu_tables,
                                      .peak = ls_cpu_peak_rate,
                                      .queue = &ls_queue_direct,
                                      .computes = true };
