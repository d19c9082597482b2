/* conv_chunk.h - elements of a chunk (matrix.h), for products that gather. */
#pragma once
#include "matrix.h"

/* an element as it is stored */
DEVICE u32 bits_at(const ELEMENT *p)
{
    return sizeof(ELEMENT) == 4 ? *(const u32 *)(const void *)p : *(const u16 *)(const void *)p;
}

typedef struct ALIGNED(16) elements_8 {
    ELEMENT e[8];
} elements_8;
DEVICE void store_8(ELEMENT *to, const float *v) /* to: 16-byte aligned */
{
    elements_8 r;
    for (int i = 0; i < 8; i++)
        STORE(ELEMENT, r.e, i, v[i]);
    *(elements_8 *)(void *)to = r;
}
