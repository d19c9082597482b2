/* group_grad.cu - the gradient of group_norm, in three kernels: sums of each channel of each sample; dx, by
 * blocks of a part of a group; the parameters' gradients, over samples in their order. `sums` has two floats
 * for each channel of each sample: of dy * (x - mean), and of dy.
 *
 * With h = dy * gain and xhat = (x - mean) * rstd: dx = rstd * (h - mean(h) - xhat * mean(h * xhat)). */
#include "chunks.h"

/* A warp for each channel of each sample. */
KERNEL(group_sums, channels_args, CHANNEL_WARPS *WARP)
{
    const i64 channel = BLOCK * CHANNEL_WARPS + THREAD / WARP, pieces = a.positions / WIDTH;
    const int here = channel < a.sets * a.channels;
    const float mean = here ? AT(const float, a.mean)[channel / a.channels] : 0.0f;
    const X *dy = AT(const X, a.dy) + channel * a.positions, *x = AT(const X, a.x) + channel * a.positions;
    float along = 0, sum = 0;
    for (i64 i = THREAD % WARP; here && i < pieces; i += WARP) {
        const chunk d = chunk_read(dy + i * WIDTH, 1), v = chunk_read(x + i * WIDTH, 1);
        UNROLL for (int e = 0; e < WIDTH; e++)
        {
            along = fma_(chunk_get(&d, e), chunk_get(&v, e) - mean, along);
            sum = sum + chunk_get(&d, e);
        }
    }
    along = warp_sum(along);
    sum = warp_sum(sum);
    if (here && THREAD % WARP == 0) {
        AT(float, a.sums)[2 * channel] = along;
        AT(float, a.sums)[2 * channel + 1] = sum;
    }
}

KERNEL_SHARED(group_gradient, channels_args, SIZE, chunk_shared)
{
    const part p = part_of(&a);
    const i64 first = p.set % a.groups * a.channels; /* the group's first channel */
    const X *gain = AT(const X, a.gain) + first;
    const float mean = AT(const float, a.mean)[p.set], rstd = AT(const float, a.rstd)[p.set];
    chunk dy[CHUNKS], x[CHUNKS];
    UNROLL for (int j = 0; j < CHUNKS; j++)
    {
        const i64 i = chunk_at(&a, &p, j);
        dy[j] = chunk_read(AT(const X, a.dy) + (i < 0 ? 0 : i), i >= 0);
        x[j] = chunk_read(AT(const X, a.x) + (i < 0 ? 0 : i), i >= 0);
    }
    if (THREAD < WARP) {
        const float *sums = AT(const float, a.sums) + 2 * p.set * a.channels;
        float along = 0, sum = 0;
        for (i64 k = THREAD; k < a.channels; k += WARP) {
            along = fma_(LOAD(X, gain, k), sums[2 * k], along);
            sum = fma_(LOAD(X, gain, k), sums[2 * k + 1], sum);
        }
        along = warp_sum(along);
        sum = warp_sum(sum);
        if (THREAD == 0) {
            s->numbers[0][0] = along * rstd * rstd * rstd / (float)a.run;
            s->numbers[1][0] = sum * rstd / (float)a.run;
        }
    }
    BARRIER();
    const float slope = s->numbers[0][0], level = s->numbers[1][0];
    UNROLL for (int j = 0; j < CHUNKS; j++)
    {
        const i64 i = chunk_at(&a, &p, j);
        if (i < 0)
            continue;
        const u32 piece = (u32)(p.first + j * SIZE + THREAD);
        const float scale = LOAD(X, gain, divide(piece, a.by_positions)) * rstd;
        chunk out;
        UNROLL for (int e = 0; e < WIDTH; e++) chunk_put(
            &out, e, fma_(chunk_get(&dy[j], e), scale, fma_(-(chunk_get(&x[j], e) - mean), slope, -level)));
        chunk_write(AT(X, a.dx) + i, &out);
    }
}

KERNEL(group_parameters, channels_args, PARAMETER_THREADS)
{
    const i64 c = BLOCK * PARAMETER_THREADS + THREAD, all = a.groups * a.channels;
    if (c >= all)
        return;
    float dgain = 0, dbias = 0;
    for (i64 group = c / a.channels, at_sums = 2 * c; group < a.sets; group += a.groups, at_sums += 2 * all) {
        dgain = dgain + AT(const float, a.sums)[at_sums] * AT(const float, a.rstd)[group];
        dbias = dbias + AT(const float, a.sums)[at_sums + 1];
    }
    STORE(X, AT(X, a.dgain), c, dgain);
    STORE(X, AT(X, a.dbias), c, dbias);
}
