/* isa.h - the instruction sets (levels) that the CPU's kernels are compiled for. Only src/device names them;
 * other folders have the text `ls_device.arch->name`. */
#pragma once
#include "device/device.h"

typedef enum ls_isa {
    LS_ISA_GENERIC,
    LS_ISA_AVX2,
    LS_ISA_AVX512,
    LS_ISA_AVX512BF16,
    LS_ISA_AMX,
    LS_ISA_COUNT
} ls_isa;
const char *ls_isa_name(ls_isa isa); /* "generic" "avx2" "avx512" "avx512bf16" "amx" */
bool ls_isa_parse(const char *name, ls_isa *out);
const ls_arch *ls_isa_arch(ls_isa isa);
ls_isa ls_isa_best(void); /* the best level of this CPU and operating system */

static inline ls_isa ls_isa_of(const ls_arch *arch) { return (ls_isa)arch->level; }

/* The tables of a level; NULL: it was not compiled. */
const ls_kernel *const *ls_cpu_tables(ls_isa isa);
/* The level whose kernels answer for `arch`: its own, or, for another machine's, the generic one, which was
 * compiled and runs everywhere (kernels/level.h). */
ls_isa ls_cpu_answers(const ls_arch *arch);
/* `choose` and `usable` of ls_device_ops, for each device with the CPU's kernels. */
ls_status ls_cpu_choose(ls_device *d, const char *word, bool elsewhere);
const ls_arch *ls_cpu_usable(int i);
