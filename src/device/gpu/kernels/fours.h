/* fours.h - four numbers of a tensor that are loaded or stored at once: 16 bytes of f32, 8 of bf16 and f16.
 * FOUR(type) is the type of four; .v[0 .. 3] are the numbers. */
#pragma once
#include "dialect.h"

typedef struct ALIGNED(16) f32_four {
    f32 v[4];
} f32_four;
typedef struct ALIGNED(8) bf16_four {
    bf16 v[4];
} bf16_four;
typedef struct ALIGNED(8) f16_four {
    f16 v[4];
} f16_four;
#define FOUR(type) JOIN_(type, _four)
#define FOUR_AT(type, p, i) (*(FOUR(type) *)((p) + (i)))
