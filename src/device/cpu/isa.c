/* isa.c - which instruction set this CPU and its operating system offer. An instruction can be used if cpuid
 * lists it and if the system saves its registers on a context switch (bits of XCR0: 1 SSE, 2 AVX, 5-7
 * AVX-512, 17 and 18 AMX; Intel SDM vol. 1, 13.3). Linux saves the tiles of AMX, 8 KB, only for processes
 * that have asked for it; without its leave a tile instruction ends the process. */
#include <stdatomic.h>
#include <string.h>
#include "isa.h"
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

static const ls_arch ARCHS[LS_ISA_COUNT] = { { "generic", LS_ISA_GENERIC },
                                             { "avx2", LS_ISA_AVX2 },
                                             { "avx512", LS_ISA_AVX512 },
                                             { "avx512bf16", LS_ISA_AVX512BF16 },
                                             { "amx", LS_ISA_AMX } };

const ls_arch *ls_isa_arch(ls_isa isa) { return &ARCHS[isa]; }
const char *ls_isa_name(ls_isa isa) { return ARCHS[isa].name; }

bool ls_isa_parse(const char *name, ls_isa *out)
{
    for (int i = 0; i < LS_ISA_COUNT; i++)
        if (strcmp(name, ARCHS[i].name) == 0) {
            *out = (ls_isa)i;
            return true;
        }
    return false;
}

#if defined(__x86_64__)
/* Asks for the tiles, for all threads of this process and its children. Linux before 5.16 does not know the
 * call; it also refuses when a thread has a signal stack that is too small for them. */
static bool may_use_tiles(void)
{
    enum {
        REQUEST_PERMISSION = 0x1023,
        TILE_DATA = 18
    }; /* ARCH_REQ_XCOMP_PERM of asm/prctl.h; the bit of XCR0 */
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}
#endif

static ls_isa detect(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d))
        return LS_ISA_GENERIC;
    const unsigned first_c = bit_FMA | bit_F16C | bit_OSXSAVE | bit_AVX;
    if ((c & first_c) != first_c)
        return LS_ISA_GENERIC;
    unsigned saved, saved_high;
    __asm__("xgetbv" : "=a"(saved), "=d"(saved_high) : "c"(0)); /* the intrinsic needs -mxsave */
    if ((saved & 0x6) != 0x6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2) ||
        !(b & bit_BMI2))
        return LS_ISA_GENERIC;
#ifdef LS_EMULATE
    return LS_ISA_AVX512BF16; /* tests/support/avx512.h */
#endif
    const unsigned avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    if ((saved & 0xe6) != 0xe6 || (b & avx512) != avx512)
        return LS_ISA_AVX2;
    const unsigned amx = (1u << 22) | (1u << 24); /* AMX-BF16, AMX-TILE */
    const bool tiles = (d & amx) == amx && (saved & 0x60000) == 0x60000;
    if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !(a & (1u << 5)))
        return LS_ISA_AVX512;
    return tiles && may_use_tiles() ? LS_ISA_AMX : LS_ISA_AVX512BF16;
#else
    return LS_ISA_GENERIC;
#endif
}

ls_isa ls_isa_best(void)
{
    /* cpuid is slow inside virtual machines; several threads may compute the same value */
    static _Atomic int known = -1;
    int isa = atomic_load_explicit(&known, memory_order_relaxed);
    if (isa < 0) {
        isa = detect();
        atomic_store_explicit(&known, isa, memory_order_relaxed);
    }
    return (ls_isa)isa;
}
