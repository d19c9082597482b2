/* conv.c - conv2d and conv2d_dx: copies the source, multiplies, copies the target. conv.h explains how. */
#include "conv.h"
#include "table.h"

/* Channels of a row of the copied source: whole vectors, with a padding that keeps rows off the same cache
 * sets. */
static int64_t row_of(int64_t channels)
{
    const int64_t n = round_up(channels, 16);
    return n % 256 ? n : n + GEMM_PAD;
}

/* The smallest number of images that still gives products enough rows. y, dx: several positions of a row are
 * multiplied together. */
static int64_t least_images(const conv *c)
{
    return c->kind == LS_CONV_DW ? CONV_FEW_IMAGES
                                 : CONV_ROWS / (c->kind == LS_CONV_DX ? c->s.w : c->s.ow) + 1;
}

/* How many images to take at a time. `each`: elements of an image's copies. */
static int64_t images_of(const conv *c, int64_t each)
{
    const int64_t room = c->kind == LS_CONV_DW ? CONV_STAGED : CONV_CACHED, least = least_images(c);
    int64_t n = CONV_IMAGES;
    while (n / 2 >= least && n * each > room)
        n /= 2;
    return n;
}

conv LS_NAME(ls_conv_plan)(const ls_kernel_args *a, ls_conv_kind kind)
{
    conv c = { .a = a, .s = ls_conv_of(a, kind), .kind = kind };
    const ls_conv *s = &c.s;
    const int64_t in = s->h * s->w, out = s->oh * s->ow, cg = s->c / s->at.groups, og = s->o / s->at.groups;
    const ls_isa isa = ls_isa_of(a->arch);
    c.lanes = isa >= LS_ISA_AVX512 ? 16 : isa == LS_ISA_AVX2 ? 8 : 4;
    c.mr = isa >= LS_ISA_AVX512 ? 14 : isa == LS_ISA_AVX2 ? 6 : 4;
    c.nr = 2 * c.lanes;
    c.taps = s->kh * s->kw;
    const double products = (double)s->n * (double)(s->o * out * cg * c.taps);
    c.threads = a->threads < 1 || products < 1 << 20 ? 1 : a->threads;
    c.source = kind == LS_CONV_DX ? out : in;
    c.source_channels = kind == LS_CONV_DX ? og : cg;
    c.target = kind == LS_CONV_DX ? in : out;
    c.target_channels = kind == LS_CONV_DX ? cg : og;
    c.ld = row_of(c.source_channels);
    c.panels = ((kind == LS_CONV_DW ? c.source_channels : c.target_channels) + c.nr - 1) / c.nr;
    c.tiles = (og + c.mr - 1) / c.mr;
    /* elements of an image in both copies, and elements of the kernel */
    const int64_t source = kind == LS_CONV_DW ? c.source * c.panels * c.nr : c.source * c.ld;
    const int64_t target = kind == LS_CONV_DW ? c.target * c.tiles * c.lanes : c.target * c.panels * c.nr;
    const int64_t kernel = c.taps * c.panels * c.nr * (kind == LS_CONV_DW ? og : c.source_channels);
    c.images = images_of(&c, source + target);
    const int64_t most = min_i64(c.images, s->n);
    c.seen_bytes = (size_t)round_up(c.taps * (4 * c.target + 1) + 4 * in, 64);
    c.b_bytes = (size_t)round_up(4 * kernel, 64);
    c.s_bytes = (size_t)round_up(4 * most * source, 64);
    c.t_bytes = (size_t)round_up(4 * most * target, 64);
    return c;
}

/* A way to compute convolutions of some shapes, in a file of its own. Index 1 is dw, 0 is y and dx. */
typedef struct conv_way {
    bool (*suits)(const conv *c);
    size_t (*workspace[2])(const conv *c);
    void (*run[2])(conv *c);
} conv_way;

/* The first that suits counts: a depthwise convolution also has few channels. */
static const conv_way WAYS[] = {
    { LS_NAME(ls_conv_is_depthwise),
      { LS_NAME(ls_conv_depthwise_workspace), LS_NAME(ls_conv_depthwise_workspace) },
      { LS_NAME(ls_conv_depthwise), LS_NAME(ls_conv_depthwise) } },
    { LS_NAME(ls_conv_is_thin),
      { LS_NAME(ls_conv_thin_workspace), LS_NAME(ls_conv_thin_workspace) },
      { LS_NAME(ls_conv_thin), LS_NAME(ls_conv_thin) } },
    { LS_NAME(ls_conv_is_winograd),
      { LS_NAME(ls_conv_winograd_workspace), LS_NAME(ls_conv_winograd_workspace) },
      { LS_NAME(ls_conv_winograd), LS_NAME(ls_conv_winograd_dw) } },
    { LS_NAME(ls_conv_is_point),
      { LS_NAME(ls_conv_point_workspace), LS_NAME(ls_conv_point_dw_workspace) },
      { LS_NAME(ls_conv_point), LS_NAME(ls_conv_point_dw) } },
};

/* NULL: the general one, of this file and conv_dw.c. */
static const conv_way *way_of(const conv *c)
{
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++)
        if (WAYS[i].suits(c))
            return &WAYS[i];
    return NULL;
}

size_t LS_NAME(ls_conv_workspace)(const conv *c)
{
    const conv_way *way = way_of(c);
    return way ? way->workspace[c->kind == LS_CONV_DW](c)
               : c->seen_bytes + c->b_bytes + c->s_bytes + c->t_bytes;
}

bool LS_NAME(ls_conv_special)(conv *c)
{
    const conv_way *way = way_of(c);
    if (way)
        way->run[c->kind == LS_CONV_DW](c);
    return way != NULL;
}

void LS_NAME(ls_conv_place)(conv *c)
{
    char *at = c->a->workspace;
    c->seen = (int32_t *)at;
    c->slot = c->seen + c->taps * c->target;
    c->used = (bool *)(c->slot + c->s.h * c->s.w);
    c->b = (float *)(at += c->seen_bytes);
    c->staged = (float *)(at += c->b_bytes);
    c->result = (float *)(at + c->s_bytes);
    for (int64_t p = 0; p < c->s.h * c->s.w; p++) {
        const int64_t column = p % c->s.w, step = c->s.at.stride_w, first = column % step;
        c->slot[p] = (int32_t)(p - column + first * (c->s.w / step) + min_i64(first, c->s.w % step) +
                               column / step);
    }
    for (int64_t t = 0; t < c->taps; t++) {
        c->used[t] = false;
        for (int64_t p = 0; p < c->target; p++) {
            const bool dx = c->kind == LS_CONV_DX;
            const int64_t from = dx ? ls_conv_seer(&c->s, p, t) : ls_conv_seen(&c->s, p, t);
            c->seen[t * c->target + (dx ? c->slot[p] : p)] = from < 0 || dx ? (int32_t)from : c->slot[from];
            c->used[t] |= from >= 0;
        }
    }
}

/* How many positions from p on, before `end`, see neighbours through the same taps. */
static int64_t alike(const conv *c, int64_t p, int64_t end)
{
    int64_t n = end - p;
    for (int64_t tap = 0; tap < c->taps; tap++) {
        const int32_t *seen = c->seen + tap * c->target + p;
        int64_t k = 1;
        while (k < n && (seen[0] < 0 ? seen[k] < 0 : seen[k] == seen[0] + k))
            k++;
        n = k;
    }
    return n;
}

/* One chain, for n positions from p on, all images and one panel. */
static void chain_rows(const conv *c, const conv_chain *chain, int64_t panel, int64_t p, int64_t n, bool add)
{
    const conv_tile *tile = LS_NAME(ls_conv_tiles)[c->target_channels - panel * c->nr > VF_LANES];
    const int64_t rows = n * c->now, tiles = (rows + c->mr - 1) / c->mr;
    const int64_t ldc = c->panels * c->nr;
    float *to = c->result + p * c->now * ldc + panel * c->nr;
    for (int64_t t = 0; t < tiles; t++) {
        const int64_t row = part_begin(rows, t, tiles), height = part_begin(rows, t + 1, tiles) - row;
        tile[height - 1](chain, c->staged + row * chain->row, c->b, to + row * ldc, ldc, add);
    }
}

/* n positions from p on with the same taps: all their taps, as many to a chain as it may have. */
static void positions(const conv *c, int64_t panel, int64_t p, int64_t n)
{
    conv_segment segments[CONV_CHAIN];
    conv_chain chain = { .segment = segments, .row = c->ld, .step = 1 };
    const int64_t depth = c->source_channels, most = depth < CONV_CHAIN ? CONV_CHAIN / depth : 1;
    bool add = false;
    for (int64_t tap = 0; tap < c->taps; tap++) {
        const int64_t from = c->seen[tap * c->target + p];
        if (from >= 0)
            segments[chain.segments++] = (conv_segment){ from * c->now * c->ld,
                                                         (tap * c->panels + panel) * depth * c->nr };
        if (!chain.segments || (chain.segments < most && tap + 1 < c->taps))
            continue;
        for (int64_t k = 0, steps = depth <= CONV_CHAIN ? depth : GEMM_KC; k < depth; k += steps) {
            chain.steps = min_i64(steps, depth - k);
            chain_rows(c, &chain, panel, p, n, add);
            segments[0].a += steps;
            segments[0].b += steps * c->nr;
            add = true;
        }
        chain.segments = 0;
    }
    for (int64_t row = 0; !add && row < n * c->now; row++) /* no tap sees anything: zeros */
        memset(c->result + (p * c->now + row) * c->panels * c->nr + panel * c->nr, 0,
               sizeof(float) * (size_t)c->nr);
}

/* How many rows of the target a task computes. */
SIMD_FN int64_t rows_at_once(const conv *c, int64_t width)
{
    return 1 + (CONV_IMAGES - 1) / (c->now * width);
}

static void products(void *context, int64_t begin, int64_t end, int worker)
{
    const conv *c = context;
    const int64_t width = c->kind == LS_CONV_DX ? c->s.w : c->s.ow, height = c->target / width,
                  block = rows_at_once(c, width);
    const int64_t blocks = (height + block - 1) / block;
    (void)worker;
    for (int64_t task = begin; task < end; task++) {
        const int64_t first = task % blocks * block, last = min_i64(height, first + block);
        for (int64_t row = first; row < last; row++)
            for (int64_t p = row * width, n; p < (row + 1) * width; p += n) {
                n = alike(c, p, (row + 1) * width);
                positions(c, task / blocks, p, n);
            }
    }
}

static void conv_run(const ls_kernel_args *a, ls_conv_kind kind)
{
    conv c = LS_NAME(ls_conv_plan)(a, kind);
    if (LS_NAME(ls_conv_special)(&c))
        return;
    LS_NAME(ls_conv_place)(&c);
    const int64_t og = c.s.o / c.s.at.groups, width = kind == LS_CONV_DX ? c.s.w : c.s.ow,
                  height = c.target / width;
    const int64_t from = (c.source_channels + c.lanes - 1) / c.lanes,
                  to = (c.target_channels + c.lanes - 1) / c.lanes;
    for (c.group = 0; c.group < c.s.at.groups; c.group++) {
        ls_parallel_for(c.threads, kind == LS_CONV_Y ? (og + c.lanes - 1) / c.lanes : og,
                        LS_NAME(ls_conv_pack_w), &c);
        for (c.first_image = 0; c.first_image < c.s.n; c.first_image += c.now) {
            c.now = min_i64(c.images, c.s.n - c.first_image);
            ls_parallel_for(c.threads, c.now * from, LS_NAME(ls_conv_stage_source), &c);
            const int64_t block = rows_at_once(&c, width);
            ls_parallel_for(c.threads, c.panels * ((height + block - 1) / block), products, &c);
            ls_parallel_for(c.threads, c.now * to, LS_NAME(ls_conv_unstage), &c);
        }
    }
}

KERNEL(conv2d) { conv_run(a, LS_CONV_Y); }
KERNEL(conv2d_dx) { conv_run(a, LS_CONV_DX); }

KERNEL_WORKSPACE(conv2d)
{
    const conv c = LS_NAME(ls_conv_plan)(a, LS_CONV_Y);
    return LS_NAME(ls_conv_workspace)(&c);
}
KERNEL_WORKSPACE(conv2d_dx)
{
    const conv c = LS_NAME(ls_conv_plan)(a, LS_CONV_DX);
    return LS_NAME(ls_conv_workspace)(&c);
}
