/* sums.cu - sums of numbers of type X over some dimensions, as type Y (LARGEST 1: the largest number; NaN
 * counts as largest). A block has `columns` outputs, and 256 / columns threads that share the terms of each:
 * every thread adds some of them in order, then a tree adds the threads' sums. If there are few outputs, the
 * terms are cut into parts, and a second launch adds the parts. All of this depends on the shape only. */
#include "dialect.h"
#include "sums.h"
#include "walk.h"
#include "wide.h"

enum { SIZE = 256 };
typedef struct reduce_shared {
    float sums[SIZE];
} reduce_shared;

#if LARGEST
DEVICE float nothing(void) { return -infinity_(); }
DEVICE float joined(float all, float x) { return is_nan(all) || all > x ? all : x; }
#else
DEVICE float nothing(void) { return 0.0f; }
DEVICE float joined(float all, float x) { return all + x; }
#endif

DEVICE float term(const X *in, i64 t, const reduce_args *a)
{
    return LOAD(X, in, shape_offset((u64)t, &a->summed, a->summed_strides));
}

KERNEL_SHARED(reduce, reduce_args, SIZE, reduce_shared)
{
    const int sharing = SIZE / a.columns, column = a.terms_first ? THREAD / sharing : THREAD % a.columns,
              share = a.terms_first ? THREAD % sharing : THREAD / a.columns;
    const i64 part = BLOCK % a.parts, o = BLOCK / a.parts * a.columns + column, begin = part * a.part_terms,
              end = a.terms - begin < a.part_terms ? a.terms : begin + a.part_terms;
    float all = nothing();
    if (o < a.outputs) {
        const X *in = AT(const X, a.in) + shape_offset((u64)o, &a.kept, a.kept_strides);
        i64 t = begin + share;
        for (; t + 3 * sharing < end; t += 4 * sharing) { /* four loads at a time */
            float x[4];
            UNROLL for (int e = 0; e < 4; e++) x[e] = term(in, t + e * sharing, &a);
            UNROLL for (int e = 0; e < 4; e++) all = joined(all, x[e]);
        }
        for (; t < end; t += sharing)
            all = joined(all, term(in, t, &a));
    }
    for (int half = sharing / 2; half; half /= 2) {
        s->sums[share * a.columns + column] = all;
        BARRIER();
        if (share < half)
            all = joined(all, s->sums[(share + half) * a.columns + column]);
        BARRIER();
    }
    if (share == 0 && o < a.outputs)
        STORE(Y, AT(Y, a.out), part * a.outputs + o, all);
}
