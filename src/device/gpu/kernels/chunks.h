/* chunks.h - what a thread of channels.cu holds of a set: CHUNKS pieces of WIDTH numbers, where WIDTH is V or
 * 1 (runs whose length V does not divide). SIZE threads are a block. Chunk j of a thread is piece j * SIZE +
 * THREAD of the block's part.
 *
 * NARROW 1: runs are so short that neighbouring threads take neighbouring sets: a warp reads COLUMN_LANES
 * elements of an image, and each thread has one column of its set, in the images warp, warp + WARPS, .. */
#pragma once
#include "pieces.h"
#include "channels.h"

#if WIDTH == 1
typedef u32 chunk;
DEVICE chunk chunk_read(const X *x, int n) { return n ? RAW(X, *x) : 0; }
DEVICE float chunk_get(const chunk *c, int e) { return TO_FLOAT(X, OF_RAW(X, c[e])); }
DEVICE void chunk_put(chunk *c, int e, float x)
{
    const X stored = OF_FLOAT(X, x);
    c[e] = RAW(X, stored);
}
DEVICE void chunk_write(X *y, const chunk *c) { *y = OF_RAW(X, *c); }
#else
typedef piece chunk;
DEVICE chunk chunk_read(const X *x, int n) { return piece_read(x, n ? V : 0); }
DEVICE float chunk_get(const chunk *c, int e) { return piece_get(c, e); }
DEVICE void chunk_put(chunk *c, int e, float x) { piece_put(c, e, x); }
DEVICE void chunk_write(X *y, const chunk *c) { piece_write(y, c, V); }
#endif

DEVICE u32 divide(u32 n, divisor d) { return (u32)((((u64)n * d.multiply >> 32) + n) >> d.shift); }

enum { WARPS = SIZE / WARP };

/* The part that a thread works on. set: its own, -1: none. n: the part's numbers of a set. */
typedef struct part {
    i64 set, index, n;
    i64 image, first; /* the image where the part begins; the piece (NARROW: the column) */
    i64 count;        /* pieces (NARROW: images) from there on */
} part;

DEVICE part part_of(const channels_args *a)
{
    part p;
    p.index = BLOCK % a->parts;
#if NARROW
    const i64 sets = COLUMN_LANES / a->run, set = BLOCK / a->parts * sets + THREAD % WARP / a->run;
    p.set = THREAD % WARP < sets * a->run && set < a->sets ? set : -1;
    p.image = p.index * PART_RUNS;
    p.first = BLOCK / a->parts * sets * a->run + THREAD % WARP;
    p.count = a->runs - p.image < PART_RUNS ? a->runs - p.image : PART_RUNS;
    p.n = p.count * a->run;
#else
    const i64 pieces = a->run / WIDTH, begin = p.index * SIZE * CHUNKS, rest = a->runs * pieces - begin;
    p.set = BLOCK / a->parts;
    p.image = begin / pieces;
    p.first = begin % pieces;
    p.count = rest < SIZE * CHUNKS ? rest : SIZE * CHUNKS;
    p.n = p.count * WIDTH;
#endif
    return p;
}

/* The element where chunk j of this thread begins; -1: there is none. */
DEVICE i64 chunk_at(const channels_args *a, const part *p, int j)
{
#if NARROW
    const int image = j * WARPS + THREAD / WARP;
    return p->set >= 0 && image < p->count ? (p->image + image) * a->sets * a->run + p->first : -1;
#else
    const int i = j * SIZE + THREAD;
    if (i >= p->count)
        return -1;
    const u32 pieces = (u32)(a->run / WIDTH), from = (u32)p->first + (u32)i, image = divide(from, a->by_run);
    return ((p->image + image) * a->sets + p->set) * a->run + (i64)(from - image * pieces) * WIDTH;
#endif
}

typedef struct chunk_shared {
    double sums[2][NARROW ? SIZE : WARP];
    float numbers[4][WARP];
} chunk_shared;

/* Two sums over the numbers that this block has of each thread's set, in f64 from thread to thread. Between
 * calls there must be a barrier. */
DEVICE void set_sums(const channels_args *a, chunk_shared *s, double *v, double *u)
{
#if NARROW
    s->sums[0][THREAD] = *v;
    s->sums[1][THREAD] = *u;
    BARRIER();
    const int run = (int)a->run, first = THREAD % WARP / run * run;
    *v = *u = 0;
    for (int w = 0; w < WARPS; w++)
        for (int i = first; i < first + run && i < WARP; i++) {
            *v = *v + s->sums[0][w * WARP + i];
            *u = *u + s->sums[1][w * WARP + i];
        }
#else
    (void)a;
    for (int mask = WARP / 2; mask; mask /= 2) {
        const double other_v = WARP_XOR(*v, mask), other_u = WARP_XOR(*u, mask);
        *v = *v + other_v;
        *u = *u + other_u;
    }
    if (THREAD % WARP == 0) {
        s->sums[0][THREAD / WARP] = *v;
        s->sums[1][THREAD / WARP] = *u;
    }
    BARRIER();
    *v = s->sums[0][0];
    *u = s->sums[1][0];
    for (int w = 1; w < WARPS; w++) {
        *v = *v + s->sums[0][w];
        *u = *u + s->sums[1][w];
    }
#endif
}

/* A thread's sums are four chains of f32, of every fourth number. */
enum { CHAINS = 4 };
DEVICE double chains_joined(const float *c) { return (double)((c[0] + c[1]) + (c[2] + c[3])); }
#define CHAIN(j, e) (((j)*WIDTH + (e)) % CHAINS)

/* ---- sums over the parts of a set, in f64, by the first warp: each lane gets those of its set */

/* How many numbers part i of a set has. */
DEVICE double part_numbers(const channels_args *a, i64 i)
{
    const i64 all = a->runs * a->run, each = NARROW ? PART_RUNS * a->run : (i64)SIZE * CHUNKS * WIDTH,
              rest = all - i * each;
    return (double)(rest < each ? rest : each);
}
DEVICE double warp_sum_64(double v)
{
    for (int mask = WARP / 2; mask; mask /= 2) {
        const double other = WARP_XOR(v, mask);
        v = v + other;
    }
    return v;
}
/* The parts that a lane of the first warp adds: all, or with one set for the warp every 32nd. */
#define EACH_PART(i, a) \
    for (i64 i = NARROW ? 0 : THREAD, step_ = NARROW ? 1 : WARP; i < (a)->parts; i += step_)
DEVICE double parts_joined(double v) { return NARROW ? v : warp_sum_64(v); }
