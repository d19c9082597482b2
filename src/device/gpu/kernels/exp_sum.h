/* exp_sum.h - the sum of exp(x - largest) of a row, whose numbers are read once: each thread adds relative to
 * its own largest number so far (Milakov, Gimelshein 2018), and the team joins. As in PyTorch, the sum is NaN
 * if a number is NaN or +inf; it is 0 and the largest is -inf if all are -inf. */
#pragma once
#include "rows.h"
#include "math.h"

/* e^x for x <= 0, and up to 88 if need be: exp_ without subnormal results, which become 0. */
DEVICE float exp_below_zero(float x)
{
    i32 n;
    const float e = exp_part(x, &n) + 1.0f;
    return x < -87.0f ? 0.0f : e * float_of((u32)(n + 127) << 23);
}

typedef struct exp_sum {
    float top, sum;
} exp_sum;

/* What x is relative to; so that -inf gives 0 where there is nothing but -inf. */
DEVICE float exp_base(float top) { return top == -infinity_() ? 0.0f : top; }

/* Adds the numbers of a row's pieces that begin at `from`. */
DEVICE void exp_sum_add(exp_sum *t, const piece *held, place from, place k)
{
    float top = t->top, sum = 0;
    UNROLL for (int j = 0; j < PIECES; j++) UNROLL for (int e = 0; e < V; e++)
        top = piece_at(from, j) + e < k ? max_(top, piece_get(&held[j], e)) : top;
    const float base = exp_base(top);
    UNROLL for (int j = 0; j < PIECES; j++) UNROLL for (int e = 0; e < V; e++)
        sum = sum + (piece_at(from, j) + e < k ? exp_below_zero(piece_get(&held[j], e) - base) : 0.0f);
    if (t->sum != 0.0f)
        sum = sum + t->sum * exp_below_zero(t->top - base);
    t->top = top;
    t->sum = sum;
}

/* Of the whole row, for each thread of its team. */
DEVICE exp_sum exp_sum_joined(exp_sum mine, float *parts, float *other_parts)
{
    exp_sum t;
    t.top = team_max(mine.top, parts);
    t.sum = team_sum(mine.sum != 0.0f ? mine.sum * exp_below_zero(mine.top - exp_base(t.top)) : 0.0f,
                     other_parts);
    return t;
}

typedef struct row_shared {
    float parts[4][WARP];
} row_shared;
