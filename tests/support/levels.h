/* levels.h - tests run on each instruction set of the CPU, by number; below 0 the device chooses. */
#pragma once
#include "device/cpu/isa.h"

static inline const char *level_name(int isa) { return isa < 0 ? NULL : ls_isa_name((ls_isa)isa); }
