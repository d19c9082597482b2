/* levels.h - tests run on each instruction set of the CPU, by number; below 0 the device chooses. */
#pragma once
#include "device/cpu/isa.h"

static inline const char *level_name(int isa) { return isa < 0 ? NULL : ls_isa_name((ls_isa)isa); }

/* The next level after `isa` that was built and runs here; LS_ISA_COUNT: none. From -1: the first. */
static inline int next_level(int isa)
{
    for (isa++; isa <= (int)ls_isa_best(); isa++)
        if (ls_cpu_tables((ls_isa)isa))
            return isa;
    return LS_ISA_COUNT;
}
