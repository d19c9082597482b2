/* random.h - which elements dropout keeps, 64 at a time. */
#pragma once
#include "base/rng.h"
#include "kernel.h"

enum { KEEP_GROUP = 64 };

/* keep[i] = all ones if ls_rng_bits16(key, plane_a, 64 * a + i) < below, else 0; keep[64 + i] is the same for
 * (plane_b, b). Two groups at once use the widest vectors fully. */
void LS_NAME(ls_keep_groups)(int32_t keep[2 * KEEP_GROUP], ls_rng_key key, uint64_t plane_a, uint64_t a,
                             uint64_t plane_b, uint64_t b, int32_t below);
