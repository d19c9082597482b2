/* channels.cu - batch normalisation (Ioffe, Szegedy 2015) and its gradient; group normalisation (Wu, He
 * 2018). A block has a part of a set of numbers (channels.h), which its threads hold in registers.
 *
 * Forward, `moments` computes the mean of each part and the sum of squares around it; `normalize` joins them
 * (Chan, Golub, LeVeque 1979) in each block, and reads x for the second and last time. The gradient does the
 * same with `products` and `gradient`. A set of one part needs the second kernel only. */
#include "chunks.h"

#if defined(__CUDACC__)
#define sqrt_64(x) __dsqrt_rn(x)
#else
#define sqrt_64(x) sqrt(x)
#endif

enum { MEAN, SCALE, SHIFT, SLOPE };

DEVICE void part_read(const channels_args *a, const part *p, const X *x, chunk *held)
{
    UNROLL for (int j = 0; j < CHUNKS; j++)
    {
        const i64 i = chunk_at(a, p, j);
        held[j] = chunk_read(x + (i < 0 ? 0 : i), i >= 0);
    }
}

/* Whether this lane of a warp is the first one of its set. */
DEVICE int leads(const channels_args *a) { return THREAD % WARP % (NARROW ? (int)a->run : WARP) == 0; }

/* ---- forward */

/* The mean of the block's numbers of each thread's set, and the sum of squares around it, less what its
 * rounding adds to them. */
DEVICE void part_moments(const channels_args *a, chunk_shared *s, const part *p, const chunk *held,
                         float *mean, float *squares)
{
    float sums[CHAINS] = { 0, 0, 0, 0 }, rests[CHAINS] = { 0, 0, 0, 0 }, totals[CHAINS] = { 0, 0, 0, 0 };
    UNROLL for (int j = 0; j < CHUNKS; j++) UNROLL for (int e = 0; e < WIDTH; e++)
        sums[CHAIN(j, e)] = sums[CHAIN(j, e)] + chunk_get(&held[j], e);
    double sum = chains_joined(sums), none = 0;
    set_sums(a, s, &sum, &none);
    const float m = (float)sum / (float)p->n;
    UNROLL for (int j = 0; j < CHUNKS; j++)
    {
        const int here = chunk_at(a, p, j) >= 0;
        UNROLL for (int e = 0; e < WIDTH; e++)
        {
            const float d = here ? chunk_get(&held[j], e) - m : 0.0f;
            rests[CHAIN(j, e)] = rests[CHAIN(j, e)] + d;
            totals[CHAIN(j, e)] = fma_(d, d, totals[CHAIN(j, e)]);
        }
    }
    double rest = chains_joined(rests), total = chains_joined(totals);
    BARRIER();
    set_sums(a, s, &rest, &total);
    const float off = (float)rest / (float)p->n;
    *mean = m; /* not + off, which has the rounding of all x - m */
    *squares = (float)total - (float)rest * off;
}

KERNEL_SHARED(moments, channels_args, SIZE, chunk_shared)
{
    const part p = part_of(&a);
    chunk held[CHUNKS];
    part_read(&a, &p, AT(const X, a.x), held);
    float mean, squares;
    part_moments(&a, s, &p, held, &mean, &squares);
    if (THREAD < WARP && leads(&a) && p.set >= 0) {
        float *to = AT(float, a.sums) + (p.set * a.parts + p.index) * 2;
        to[0] = mean;
        to[1] = squares;
    }
}

/* The first warp: mean and scale of each lane's set; the block of a set's first part writes its moments. */
DEVICE void set_numbers(const channels_args *a, chunk_shared *s, const part *p, float mean, float squares)
{
    const i64 set = p->set < 0 ? 0 : p->set;
    const double values = (double)(a->runs * a->run);
    double center = mean, around = squares;
    if (a->parts > 1 && !a->fixed) {
        const float *sums = AT(const float, a->sums) + set * a->parts * 2;
        center = around = 0;
        EACH_PART(i, a) center = center + part_numbers(a, i) * sums[2 * i];
        center = parts_joined(center) / values;
        EACH_PART(i, a)
        {
            const double d = sums[2 * i] - center;
            around = around + (sums[2 * i + 1] + part_numbers(a, i) * d * d);
        }
        around = parts_joined(around);
    }
    float rstd = 0;
    if (a->fixed) {
        mean = AT(const float, a->mean)[set];
        s->numbers[SCALE][THREAD] = (float)((double)LOAD(X, AT(const X, a->gain), set) /
                                            sqrt_64((double)AT(const float, a->variance)[set] + a->eps));
    } else {
        mean = (float)center;
        rstd = (float)(1 / sqrt_64(around / values + a->eps));
        s->numbers[SCALE][THREAD] = a->channels ? rstd : rstd * LOAD(X, AT(const X, a->gain), set);
    }
    s->numbers[MEAN][THREAD] = mean;
    s->numbers[SHIFT][THREAD] = a->channels ? 0.0f : LOAD(X, AT(const X, a->bias), set);
    if (a->fixed || p->index || p->set < 0 || !leads(a))
        return;
    AT(float, a->mean)[set] = mean;
    AT(float, a->rstd)[set] = rstd;
    if (a->variance)
        AT(float, a->variance)[set] = (float)(around / (values - 1));
}

KERNEL_SHARED(normalize, channels_args, SIZE, chunk_shared)
{
    const part p = part_of(&a);
    chunk held[CHUNKS], more[CHUNKS];
    part_read(&a, &p, AT(const X, a.x), held);
    if (a.extra)
        part_read(&a, &p, AT(const X, a.extra), more);
    float mean = 0, squares = 0;
    if (a.parts == 1 && !a.fixed)
        part_moments(&a, s, &p, held, &mean, &squares);
    if (THREAD < WARP)
        set_numbers(&a, s, &p, mean, squares);
    BARRIER();
    const int mine = NARROW ? THREAD % WARP : 0;
    float scale = s->numbers[SCALE][mine], shift = s->numbers[SHIFT][mine];
    mean = s->numbers[MEAN][mine];
    UNROLL for (int j = 0; j < CHUNKS; j++)
    {
        const i64 i = chunk_at(&a, &p, j);
        if (i < 0)
            continue;
        if (a.channels) {
            const u32 piece = (u32)(p.first + j * SIZE + THREAD);
            const i64 c = p.set % a.groups * a.channels + divide(piece, a.by_positions);
            scale = s->numbers[SCALE][mine] * LOAD(X, AT(const X, a.gain), c);
            shift = LOAD(X, AT(const X, a.bias), c);
        }
        chunk out;
        UNROLL for (int e = 0; e < WIDTH; e++)
        {
            float v = fma_(chunk_get(&held[j], e) - mean, scale, shift);
            if (a.extra) /* the unfused graph stores v before it adds */
                v = ROUNDED(X, v) + chunk_get(&more[j], e);
            if (a.relu)
                v = v < 0.0f ? 0.0f : v;
            chunk_put(&out, e, v);
        }
        chunk_write(AT(X, a.y) + i, &out);
    }
}

/* ---- gradient */

/* Sums of dy and dy * (x - mean) over the block's numbers of each thread's set. */
DEVICE void part_products(const channels_args *a, chunk_shared *s, const part *p, const chunk *dy,
                          const chunk *x, float mean, float *sum, float *product)
{
    float sums[CHAINS] = { 0, 0, 0, 0 }, along[CHAINS] = { 0, 0, 0, 0 };
    UNROLL for (int j = 0; j < CHUNKS; j++)
    {
        if (chunk_at(a, p, j) < 0)
            continue;
        UNROLL for (int e = 0; e < WIDTH; e++)
        {
            const float d = chunk_get(&dy[j], e);
            sums[CHAIN(j, e)] = sums[CHAIN(j, e)] + d;
            along[CHAIN(j, e)] = fma_(d, chunk_get(&x[j], e) - mean, along[CHAIN(j, e)]);
        }
    }
    double v = chains_joined(sums), u = chains_joined(along);
    set_sums(a, s, &v, &u);
    *sum = (float)v;
    *product = (float)u;
}

/* dy as it arrives: through relu, if its result is given. */
DEVICE void arriving(const channels_args *a, const part *p, chunk *dy)
{
    part_read(a, p, AT(const X, a->dy), dy);
    if (!a->extra)
        return;
    chunk y[CHUNKS];
    part_read(a, p, AT(const X, a->extra), y);
    UNROLL for (int j = 0; j < CHUNKS; j++)
    {
        const chunk d = dy[j];
        UNROLL for (int e = 0; e < WIDTH; e++)
            chunk_put(&dy[j], e, chunk_get(&y[j], e) > 0.0f ? chunk_get(&d, e) : 0.0f);
    }
}

KERNEL_SHARED(products, channels_args, SIZE, chunk_shared)
{
    const part p = part_of(&a);
    chunk x[CHUNKS], dy[CHUNKS];
    part_read(&a, &p, AT(const X, a.x), x);
    arriving(&a, &p, dy);
    float sum, product;
    part_products(&a, s, &p, dy, x, p.set < 0 ? 0.0f : AT(const float, a.mean)[p.set], &sum, &product);
    if (THREAD < WARP && leads(&a) && p.set >= 0) {
        float *to = AT(float, a.sums) + (p.set * a.parts + p.index) * 2;
        to[0] = sum;
        to[1] = product;
    }
}

/* The first warp: what dx of each lane's set is made of; the block of its first part writes dgain, dbias. */
DEVICE void slopes(const channels_args *a, chunk_shared *s, const part *p, float sum, float product)
{
    const i64 set = p->set < 0 ? 0 : p->set;
    double all = sum, along = product;
    if (a->parts > 1) {
        const float *sums = AT(const float, a->sums) + set * a->parts * 2;
        all = along = 0;
        EACH_PART(i, a)
        {
            all = all + sums[2 * i];
            along = along + sums[2 * i + 1];
        }
        all = parts_joined(all);
        along = parts_joined(along);
    }
    const double values = (double)(a->runs * a->run), rstd = AT(const float, a->rstd)[set];
    s->numbers[SCALE][THREAD] = (float)(rstd * LOAD(X, AT(const X, a->gain), set));
    s->numbers[SHIFT][THREAD] = (float)(all / values);
    s->numbers[SLOPE][THREAD] = (float)(along * rstd * rstd / values);
    if (p->index || p->set < 0 || !leads(a))
        return;
    STORE(X, AT(X, a->dgain), set, (float)(along * rstd));
    STORE(X, AT(X, a->dbias), set, (float)all);
}

/* dx = (dy - mean(dy) - (x - mean) * slope) * gain * rstd */
KERNEL_SHARED(gradient, channels_args, SIZE, chunk_shared)
{
    const part p = part_of(&a);
    const float mean = p.set < 0 ? 0.0f : AT(const float, a.mean)[p.set];
    chunk x[CHUNKS], dy[CHUNKS];
    part_read(&a, &p, AT(const X, a.x), x);
    arriving(&a, &p, dy);
    float sum = 0, product = 0;
    if (a.parts == 1)
        part_products(&a, s, &p, dy, x, mean, &sum, &product);
    if (THREAD < WARP)
        slopes(&a, s, &p, sum, product);
    BARRIER();
    const int mine = NARROW ? THREAD % WARP : 0;
    const float scale = s->numbers[SCALE][mine], shift = s->numbers[SHIFT][mine],
                slope = s->numbers[SLOPE][mine];
    UNROLL for (int j = 0; j < CHUNKS; j++)
    {
        const i64 i = chunk_at(&a, &p, j);
        if (i < 0)
            continue;
        chunk out;
        UNROLL for (int e = 0; e < WIDTH; e++)
        {
            const float v = chunk_get(&x[j], e) - mean;
            chunk_put(&out, e, fma_(-v, slope, chunk_get(&dy[j], e) - shift) * scale);
        }
        chunk_write(AT(X, a.dx) + i, &out);
    }
}
