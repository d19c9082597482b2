/* sums.cu - sums of numbers of type X over some dimensions (LARGEST 1: the largest number; NaN counts as
 * largest). A block has `columns` outputs, and 256 / columns threads for each: a thread adds every so-manieth
 * term, then a tree adds the threads' sums. If there are few outputs, the terms are cut into parts, which a
 * second kernel adds in order. All of this depends on the shape only. */
#include "dialect.h"
#include "sums.h"
#include "walk.h"

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

KERNEL_SHARED(reduce, reduce_args, SIZE, reduce_shared)
{
    const int sharing = SIZE / a.columns, column = a.terms_first ? THREAD / sharing : THREAD % a.columns,
              share = a.terms_first ? THREAD % sharing : THREAD / a.columns;
    const i64 part = BLOCK % a.parts, o = BLOCK / a.parts * a.columns + column, begin = part * a.part_terms,
              end = a.terms - begin < a.part_terms ? a.terms : begin + a.part_terms;
    float all = nothing();
    if (o < a.outputs) {
        const X *in = AT(const X, a.in) + shape_offset((u64)o, &a.kept, a.kept_strides);
        for (i64 t = begin + share; t < end; t += sharing)
            all = joined(all, LOAD(X, in, shape_offset((u64)t, &a.summed, a.summed_strides)));
    }
    for (int half = sharing / 2; half; half /= 2) {
        s->sums[share * a.columns + column] = all;
        BARRIER();
        if (share < half)
            all = joined(all, s->sums[(share + half) * a.columns + column]);
        BARRIER();
    }
    if (share == 0 && o < a.outputs) {
        if (a.parts > 1)
            AT(float, a.out)[part * a.outputs + o] = all;
        else
            STORE(X, AT(X, a.out), o, all);
    }
}

KERNEL(join, join_args, SIZE)
{
    const i64 o = BLOCK * SIZE + THREAD;
    if (o >= a.outputs)
        return;
    float all = nothing();
    for (i64 p = 0; p < a.n; p++)
        all = joined(all, AT(const float, a.parts)[p * a.outputs + o]);
    STORE(X, AT(X, a.out), o, all);
}
