/* conv.c - conv2d and conv2d_dx: copy the source, multiply, copy the target. conv.h has the whole picture. */
#include "conv.h"
#include "table.h"

/* Channels of a row of the copied source: whole vectors, and off the same cache sets. */
static int64_t row_of(int64_t channels) {
    const int64_t n = round_up(channels, 16);
    return n % 256 ? n : n + GEMM_PAD;
}

conv LS_NAME(ls_conv_plan)(const ls_kernel_args *a, ls_conv_kind kind) {
    conv c = { .a = a, .s = ls_conv_of(a, kind), .kind = kind };
    const ls_conv *s = &c.s;
    const int64_t in = s->h * s->w, out = s->oh * s->ow, cg = s->c / s->at.groups, og = s->o / s->at.groups;
    c.lanes = a->isa >= LS_ISA_AVX512 ? 16 : a->isa == LS_ISA_AVX2 ? 8 : 4;
    c.mr = a->isa >= LS_ISA_AVX512 ? 14 : a->isa == LS_ISA_AVX2 ? 6 : 4;
    c.nr = 2 * c.lanes;
    c.taps = s->kh * s->kw;
    const double products = (double)s->n * (double)(s->o * out * cg * c.taps);
    c.threads = a->threads < 1 || products < 1 << 20 ? 1 : a->threads;
    c.patches = kind != LS_CONV_DX && cg < CONV_FEW_CHANNELS && c.taps > 1 && cg * c.taps <= CONV_PATCH;
    c.source = kind == LS_CONV_DX || c.patches ? out : in;
    c.source_channels = kind == LS_CONV_DX ? og : c.patches ? cg * c.taps : cg;
    c.target = kind == LS_CONV_DX ? in : out;
    c.target_channels = kind == LS_CONV_DX ? cg : og;
    c.taps = c.patches ? 1 : c.taps;
    c.ld = c.patches ? round_up(c.source_channels, 16) + 16 : row_of(c.source_channels); /* patches are written a vector at a time */
    c.panels = ((kind == LS_CONV_DW ? c.source_channels : c.target_channels) + c.nr - 1) / c.nr;
    c.tiles = (og + c.mr - 1) / c.mr;
    /* elements of an image in the two copies, and of the kernel */
    const int64_t source = kind == LS_CONV_DW ? c.source * c.panels * c.nr : c.source * c.ld;
    const int64_t target = kind == LS_CONV_DW ? c.target * c.tiles * c.lanes : c.target * c.panels * c.nr;
    const int64_t kernel = c.taps * c.panels * c.nr * (kind == LS_CONV_DW ? og : c.source_channels);
    for (c.images = CONV_IMAGES; c.images > CONV_FEW_IMAGES && c.images * (source + target) > CONV_STAGED; c.images /= 2)
        ;
    const int64_t most = min_i64(c.images, s->n);
    c.seen_bytes = (size_t)round_up(c.taps * (4 * c.target + 1), 64);
    c.b_bytes = (size_t)round_up(4 * kernel, 64);
    c.s_bytes = (size_t)round_up(4 * most * source, 64);
    c.t_bytes = (size_t)round_up(4 * most * target, 64);
    return c;
}

size_t LS_NAME(ls_conv_workspace)(const conv *c) {
    return c->seen_bytes + c->b_bytes + c->s_bytes + c->t_bytes;
}

void LS_NAME(ls_conv_place)(conv *c) {
    char *at = c->a->workspace;
    c->seen = (int32_t *)at;
    c->used = (bool *)(c->seen + c->taps * c->target);
    c->b = (float *)(at += c->seen_bytes);
    c->staged = (float *)(at += c->b_bytes);
    c->result = (float *)(at + c->s_bytes);
    for (int64_t t = 0; t < c->taps; t++) {
        c->used[t] = false;
        for (int64_t p = 0; p < c->target; p++) {
            const int64_t from = c->patches ? p : c->kind == LS_CONV_DX ? ls_conv_seer(&c->s, p, t) : ls_conv_seen(&c->s, p, t);
            c->seen[t * c->target + p] = (int32_t)from;
            c->used[t] |= from >= 0;
        }
    }
}

/* All images of target positions [begin, end), one panel of their channels. */
static void product(const conv *c, int64_t panel, int64_t begin, int64_t end) {
    const gemm_tile *tile = LS_NAME(ls_gemm_tiles)[0][c->target_channels - panel * c->nr > VF_LANES];
    const int64_t ldc = c->panels * c->nr;
    float *to = c->result + panel * c->nr;
    for (int64_t row = begin * c->now; row < end * c->now; row++)
        for (int j = 0; j < c->nr; j += VF_LANES)
            vf_store(to + row * ldc + j, vf_zero());
    for (int64_t tap = 0; tap < c->taps; tap++)
        for (int64_t p = begin, from, n; p < end; p += n ? n : 1) {
            n = conv_run(c, tap, p, end - p, &from);
            if (!n)
                continue;
            const int64_t rows = n * c->now, tiles = (rows + c->mr - 1) / c->mr;
            const float *a = c->staged + from * c->now * c->ld, *b = c->b + (tap * c->panels + panel) * c->source_channels * c->nr;
            for (int64_t k = 0; k < c->source_channels; k += GEMM_KC)
                for (int64_t t = 0; t < tiles; t++) {
                    const int64_t row = part_begin(rows, t, tiles), height = part_begin(rows, t + 1, tiles) - row;
                    tile[height - 1](min_i64(GEMM_KC, c->source_channels - k), a + row * c->ld + k, c->ld * 4, b + k * c->nr,
                                     to + (p * c->now + row) * ldc, ldc, true, NULL);
                }
        }
}

static void products(void *context, int64_t begin, int64_t end, int worker) {
    const conv *c = context;
    const int64_t span = conv_span(c), spans = (c->target + span - 1) / span;
    (void)worker;
    for (int64_t task = begin; task < end; task++)
        product(c, task / spans, task % spans * span, min_i64(c->target, (task % spans + 1) * span));
}

static void run(const ls_kernel_args *a, ls_conv_kind kind) {
    conv c = LS_NAME(ls_conv_plan)(a, kind);
    LS_NAME(ls_conv_place)(&c);
    const int64_t og = c.s.o / c.s.at.groups;
    for (c.group = 0; c.group < c.s.at.groups; c.group++) {
        ls_parallel_for(c.threads, kind == LS_CONV_Y ? (og + c.lanes - 1) / c.lanes : og, LS_NAME(ls_conv_pack_w), &c);
        for (c.first_image = 0; c.first_image < c.s.n; c.first_image += c.now) {
            c.now = min_i64(c.images, c.s.n - c.first_image);
            ls_parallel_for(c.threads, c.now, LS_NAME(ls_conv_stage_source), &c);
            ls_parallel_for(c.threads, c.panels * ((c.target + conv_span(&c) - 1) / conv_span(&c)), products, &c);
            ls_parallel_for(c.threads, c.now, LS_NAME(ls_conv_unstage), &c);
        }
    }
}

KERNEL(conv2d) { run(a, LS_CONV_Y); }
KERNEL(conv2d_dx) { run(a, LS_CONV_DX); }

KERNEL_WORKSPACE(conv2d) {
    const conv c = LS_NAME(ls_conv_plan)(a, LS_CONV_Y);
    return LS_NAME(ls_conv_workspace)(&c);
}
KERNEL_WORKSPACE(conv2d_dx) {
    const conv c = LS_NAME(ls_conv_plan)(a, LS_CONV_DX);
    return LS_NAME(ls_conv_workspace)(&c);
}
