/* conv_dw.c - the gradient of the kernel: dw[tap] = the sum over positions of dy[position]^T * x[position
 * seen through tap], and over the images that are taken at a time. Neighbouring columns of dy see
 * neighbouring columns of the copy of x, so a row is one segment of a chain, or several chains if it is long.
 * Threads share panels and strips of tiles, and each computes all positions for its own, so no sum is ever
 * divided between threads. */
#include "conv.h"
#include "table.h"

/* total = sums, or += sums, which are whole rows of a panel. */
static void flush(float *total, const float *sums, int64_t n, bool add)
{
    for (int64_t i = 0; i < n; i += VF_LANES)
        vf_store(total + i, add ? vf_load(total + i) + vf_load(sums + i) : vf_load(sums + i));
}

/* Tiles [first, last) of one panel, for one tap. */
static void strip(const conv *c, int64_t panel, int64_t first, int64_t last, int64_t tap)
{
    float sums[DW_STRIP * GEMM_MAX_MR * 2 * VF_LANES] __attribute__((aligned(64))) = { 0 };
    const conv_tile *tile = LS_NAME(ls_conv_tiles)[c->source_channels - panel * c->nr > VF_LANES];
    conv_segment segments[DW_CHAIN];
    conv_chain chain = { .segment = segments, .row = 1, .step = VF_LANES };
    const int64_t top = part_begin(c->target_channels, first, c->tiles),
                  bottom = part_begin(c->target_channels, last, c->tiles), width = c->s.ow;
    float *total = c->b + ((tap * c->panels + panel) * c->target_channels + top) * c->nr;
    const int32_t *seen = c->seen + tap * c->target;
    /* Columns [left, left + n) of dy see x through this tap. A chain is a part of such a row, or some rows.
     */
    int64_t left = 0, n = 1;
    while (seen[left] < 0)
        left++;
    while (left % width + n < width && seen[left + n] >= 0)
        n++;
    left %= width;
    const int64_t most = c->now < DW_CHAIN ? DW_CHAIN / c->now : 1, parts = (n + most - 1) / most,
                  together = most / n, all = c->target / width * parts;
    bool add = c->first_image > 0;
    int64_t chains = 0;
    for (int64_t i = 0; i < all; i++) {
        const int64_t begin = part_begin(n, i % parts, parts), end = part_begin(n, i % parts + 1, parts),
                      p = i / parts * width + left;
        if (seen[p] >= 0) {
            chain.steps = (end - begin) * c->now;
            segments[chain.segments++] = (conv_segment){
                (p + begin) * c->now * VF_LANES, (panel * c->source + seen[p] + begin) * c->now * c->nr
            };
        }
        if (!chain.segments || (chain.segments < together && i + 1 < all))
            continue;
        for (int64_t t = first; t < last; t++) {
            const int64_t row = part_begin(c->target_channels, t, c->tiles),
                          height = part_begin(c->target_channels, t + 1, c->tiles) - row;
            tile[height - 1](&chain, c->result + t * c->target * c->now * VF_LANES, c->staged,
                             sums + (row - top) * c->nr, c->nr, chains > 0);
        }
        chain.segments = 0;
        if (++chains == DW_BLOCK) {
            flush(total, sums, (bottom - top) * c->nr, add);
            add = true;
            chains = 0;
        }
    }
    if (chains)
        flush(total, sums, (bottom - top) * c->nr, add);
}

static void strips(void *context, int64_t begin, int64_t end, int worker)
{
    const conv *c = context;
    const int64_t strips = (c->tiles + DW_STRIP - 1) / DW_STRIP;
    (void)worker;
    for (int64_t task = begin; task < end; task++)
        for (int64_t tap = 0; tap < c->taps; tap++)
            if (c->used[tap])
                strip(c, task / strips, task % strips * DW_STRIP,
                      min_i64((task % strips + 1) * DW_STRIP, c->tiles), tap);
}

/* Sums of dy over images and positions: each picture as vectors, pictures in f64. */
SIMD_FN void sum_channels(ls_dtype T, const conv *c, int64_t begin, int64_t end)
{
    const ls_tensor *dy = &c->a->in[0], *db = &c->a->out[1];
    for (int64_t o = begin; o < end; o++) {
        double total = 0;
        for (int64_t n = 0; n < c->s.n; n++) {
            vf sum = vf_zero();
            for (int64_t p = 0; p < c->target; p += VF_LANES)
                sum += vf_get_n(dy->data, T, (n * c->s.o + o) * c->target + p,
                                (int)min_i64(VF_LANES, c->target - p));
            total += (double)vf_sum(sum);
        }
        f_put(db->data, T, o, (float)total);
    }
}
static void bias_task(void *context, int64_t begin, int64_t end, int worker)
{
    const conv *c = context;
    (void)worker;
    BY_FLOAT(c->a->in[0].type.dtype, sum_channels, c, begin, end);
}

KERNEL(conv2d_dw)
{
    conv c = LS_NAME(ls_conv_plan)(a, LS_CONV_DW);
    const bool done = LS_NAME(ls_conv_special)(&c);
    if (!done)
        LS_NAME(ls_conv_place)(&c);
    for (c.group = 0; c.group < c.s.at.groups && !done; c.group++) {
        for (c.first_image = 0; c.first_image < c.s.n; c.first_image += c.now) {
            c.now = min_i64(c.images, c.s.n - c.first_image);
            ls_parallel_for(c.threads, c.now, LS_NAME(ls_conv_stage_x), &c);
            ls_parallel_for(c.threads, c.now, LS_NAME(ls_conv_stage_dy), &c);
            ls_parallel_for(c.threads, c.panels * ((c.tiles + DW_STRIP - 1) / DW_STRIP), strips, &c);
        }
        ls_parallel_for(c.threads, c.target_channels, LS_NAME(ls_conv_unpack_dw), &c);
    }
    if (c.s.at.bias)
        ls_parallel_for(c.threads, c.s.o, bias_task, &c);
}

KERNEL_WORKSPACE(conv2d_dw)
{
    const conv c = LS_NAME(ls_conv_plan)(a, LS_CONV_DW);
    return LS_NAME(ls_conv_workspace)(&c);
}
