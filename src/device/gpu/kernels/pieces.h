/* pieces.h - 16 bytes of a tensor in registers: V numbers of type X. A file that includes this defines X, and
 * VECTOR: 1 if all rows begin at multiples of 16 bytes and consist of whole pieces, which are then loaded at
 * once. */
#pragma once
#include "dialect.h"

typedef struct ALIGNED(16) piece {
    u32 w[4];
} piece;

enum { V = 16 / (int)sizeof(X) };

/* The bits of one number, and the number of bits. */
DEVICE u32 f32_raw(f32 x) { return bits_of(x); }
DEVICE u32 bf16_raw(bf16 x) { return x.bits; }
DEVICE u32 f16_raw(f16 x) { return x.bits; }
DEVICE f32 f32_of_raw(u32 b) { return float_of(b); }
DEVICE bf16 bf16_of_raw(u32 b)
{
    bf16 x;
    x.bits = (u16)b;
    return x;
}
DEVICE f16 f16_of_raw(u32 b)
{
    f16 x;
    x.bits = (u16)b;
    return x;
}
#define RAW(type, x) JOIN_(type, _raw)(x)
#define OF_RAW(type, b) JOIN_(type, _of_raw)(b)

DEVICE u32 piece_raw(const piece *p, int e)
{
    return V == 4 ? p->w[e & 3] : p->w[e / 2 & 3] >> e % 2 * 16 & 0xffffu;
}
DEVICE float piece_get(const piece *p, int e) { return TO_FLOAT(X, OF_RAW(X, piece_raw(p, e))); }

/* Elements of a piece must be put in their order. */
DEVICE void piece_put_raw(piece *p, int e, u32 raw)
{
    if (V == 4)
        p->w[e & 3] = raw;
    else if (e % 2 == 0)
        p->w[e / 2 & 3] = raw;
    else
        p->w[e / 2 & 3] |= raw << 16;
}
DEVICE void piece_put(piece *p, int e, float x)
{
    const X stored = OF_FLOAT(X, x);
    piece_put_raw(p, e, RAW(X, stored));
}

/* The first n numbers at x (of whole pieces all or none), and zeros. */
DEVICE piece piece_read(const X *x, int n)
{
    piece p = { { 0, 0, 0, 0 } };
#if VECTOR
    if (n)
        p = *(const piece *)x;
#else
    UNROLL for (int e = 0; e < V; e++) if (e < n) piece_put_raw(&p, e, RAW(X, x[e]));
#endif
    return p;
}
DEVICE void piece_write(X *y, const piece *p, int n)
{
#if VECTOR
    if (n)
        *(piece *)y = *p;
#else
    UNROLL for (int e = 0; e < V; e++) if (e < n) y[e] = OF_RAW(X, piece_raw(p, e));
#endif
}
