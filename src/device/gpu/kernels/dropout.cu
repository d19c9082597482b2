/* dropout.cu - x * scale for elements that are kept, else 0; plus an addend. Type X. Which elements are kept
 * is a function of the key, the sample's position in the step, and the element's in the whole sample
 * (device/dropout.h). */
#include "dialect.h"
#include "dropout.h"
#include "random.h"
#include "walk.h"
#include "wide.h"

typedef struct ALIGNED(16) eight {
    X v[8];
} eight;

KERNEL(key, key_args, 32)
{
    if (THREAD)
        return;
    const random_key k = random_key_of((u64)*AT(const i64, a.seed), (u64)*AT(const i64, a.step));
    AT(i64, a.out)[0] = (i64)((u64)k.k[1] << 32 | k.k[0]);
    AT(i64, a.out)[1] = AT(const i64, a.places)[0];
    AT(i64, a.out)[2] = AT(const i64, a.places)[1];
}

/* Of element i: the number in its whole sample, and the sample's position in the step. */
DEVICE u64 number_of(u64 i, const dropout_args *a, u64 *sample)
{
    i64 number = a->start;
    for (int d = a->shape.ndim - 1; d > 0; d--)
        number += shape_take(&i, &a->shape, d) * a->strides[d];
    const i64 *key = AT(const i64, a->key);
    *sample = (u64)key[1] + ((u64)a->first + i) * (u64)key[2];
    return (u64)number;
}

DEVICE float dropped(float x, int kept, const dropout_args *a) { return kept ? x * a->scale : 0.0f; }

KERNEL(each, dropout_args, 256)
{
    const i64 i = BLOCK * THREADS + THREAD;
    if (i >= a.n)
        return;
    u64 sample;
    const u64 number = number_of((u64)i, &a, &sample);
    const random_key key = random_key_of((u64)*AT(const i64, a.key), a.purpose);
    float y = dropped(LOAD(X, AT(const X, a.x), i), random_bits16(key, sample, number) < a.below, &a);
    if (a.addend)
        y = ROUNDED(X, y) + LOAD(X, AT(const X, a.addend), i);
    STORE(X, AT(X, a.out), i, y);
}

/* Groups of 64 elements that are groups in the whole sample too: eight threads draw a block of random words
 * each, which decide about every eighth element, and give each other the results for eight neighbours. */
KERNEL(groups, dropout_args, 256)
{
    const i64 first = (BLOCK * THREADS + THREAD) * 8;
    const int inside = first < a.n, lane = THREAD % WARP, eighth = lane % 8;
    u64 sample;
    const u64 number = number_of(inside ? (u64)(first / 64 * 64) : 0, &a, &sample);
    const random_key key = random_key_of((u64)*AT(const i64, a.key), a.purpose);
    const random_words words = random_block(key, number / 64 * 8 + (u64)eighth, sample);
    u32 drawn = 0, kept = 0;
    UNROLL for (int e = 0; e < 8; e++) drawn |= (u32)(random_bits16_of(&words, e) < a.below) << e;
    UNROLL for (int e = 0; e < 8; e++)
    {
        const u32 other = WARP_FROM(drawn, lane - eighth + e);
        kept |= (other >> eighth & 1) << e;
    }
    if (!inside)
        return;
    const eight x = *(const eight *)(AT(const X, a.x) + first);
    eight y;
    if (a.addend) {
        const eight addend = *(const eight *)(AT(const X, a.addend) + first);
        UNROLL for (int e = 0; e < 8; e++)
        {
            const float v = dropped(LOAD(X, x.v, e), kept >> e & 1, &a);
            STORE(X, y.v, e, ROUNDED(X, v) + LOAD(X, addend.v, e));
        }
    } else {
        UNROLL for (int e = 0; e < 8; e++) STORE(X, y.v, e, dropped(LOAD(X, x.v, e), kept >> e & 1, &a));
    }
    *(eight *)(AT(X, a.out) + first) = y;
}
