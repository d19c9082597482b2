/* conv_point.c - conv2d and conv2d_dx of a kernel of 1 x 1 as matrix products (conv_point.h). A task is a
 * block of columns: for each chunk of channels it makes the panels of the block, and multiplies them by all
 * rows of the kernel. Chains are chunks of nearly equal length, which follow from the number of channels
 * alone. */
#include "conv_point.h"

enum {
    SMALLEST = 16,       /* positions of a result for which it pays */
    DEPTH = 512,         /* channels of a chunk, at most */
    MOST_COLUMNS = 1024, /* of a block */
};

typedef struct product {
    const conv *c;
    int64_t rows, tiles;            /* output channels (dx: input channels) */
    int64_t depth, chunks;          /* the other channels */
    int64_t columns, blocks, block; /* of all images; of a block at most */
    int64_t chunk, width;           /* channels of a chunk at most; f32 of a row of results */
    int64_t kernel_size, own;       /* f32: of the kernel, of a worker's scratch */
    float *kernel;                  /* [tile][channel][lanes] */
    float *scratch; /* for each worker: a channel, panels [panel][channel][nr], results [row][width] */
} product;

/* dx with strides is left to conv.c, since neighbouring columns would be apart in the result. */
bool LS_NAME(ls_conv_is_point)(const conv *c)
{
    return c->taps == 1 && !c->s.at.pad_h && !c->s.at.pad_w && c->target >= SMALLEST &&
           (c->kind != LS_CONV_DX || (c->s.at.stride_h == 1 && c->s.at.stride_w == 1));
}

static product conv_point_plan_of(const conv *c)
{
    product p = {
        .c = c, .rows = c->target_channels, .depth = c->source_channels, .columns = c->s.n * c->target
    };
    p.tiles = (p.rows + c->mr - 1) / c->mr;
    p.chunks = (p.depth + DEPTH - 1) / DEPTH;
    p.chunk = (p.depth + p.chunks - 1) / p.chunks;
    p.block = min_i64(MOST_COLUMNS, (c->lanes == 16 ? POINT_PANELS_AVX512 : POINT_PANELS) / p.chunk);
    p.block = min_i64(p.block, (p.columns + 2 * c->threads - 1) / (2 * c->threads));
    p.block = p.block < c->nr ? c->nr : p.block / c->nr * c->nr;
    p.blocks = (p.columns + p.block - 1) / p.block;
    p.width = p.block + POINT_OFF_SET;
    p.kernel_size = round_up(p.tiles * p.depth * c->lanes, 16);
    p.own = p.width + round_up(p.chunk * p.block, 16) + p.rows * p.width;
    return p;
}

size_t LS_NAME(ls_conv_point_workspace)(const conv *c)
{
    const product p = conv_point_plan_of(c);
    return sizeof(float) * (size_t)(p.kernel_size + c->threads * p.own);
}

static int64_t block_begin(const product *p, int64_t block)
{
    const int64_t panels = (p->columns + p->c->nr - 1) / p->c->nr;
    return min_i64(p->columns, part_begin(panels, block, p->blocks) * p->c->nr);
}

/* ---- the kernel; a task is a tile */

SIMD_FN void pack_y(ls_dtype T, const product *p, int64_t begin, int64_t end)
{
    for (int64_t t = begin; t < end; t++) {
        const int64_t row = part_begin(p->rows, t, p->tiles), n = part_begin(p->rows, t + 1, p->tiles) - row;
        for (int64_t k = 0; k < p->depth; k += VF_LANES) {
            const int m = lanes_left(p->depth - k);
            vf r[VF_LANES];
            get_block(T, r, p->c->a->in[1].data, (p->c->group * p->rows + row) * p->depth + k, p->depth,
                      (int)n, m);
            for (int i = 0; i < m; i++)
                vf_store(p->kernel + (t * p->depth + k + i) * VF_LANES, r[i]);
        }
    }
}

SIMD_FN void pack_dx(ls_dtype T, const product *p, int64_t begin, int64_t end)
{
    for (int64_t t = begin; t < end; t++) {
        const int64_t row = part_begin(p->rows, t, p->tiles), n = part_begin(p->rows, t + 1, p->tiles) - row;
        for (int64_t o = 0; o < p->depth; o++)
            vf_store(p->kernel + (t * p->depth + o) * VF_LANES,
                     vf_get_n(p->c->a->in[1].data, T, (p->c->group * p->depth + o) * p->rows + row, (int)n));
    }
}

/* ---- a block of columns */

/* Makes panels of `channels` channels from k on: [panel][channel][nr]. */
SIMD_FN void make_panels(ls_dtype T, const product *p, float *line, float *to, int64_t column, int64_t n,
                         int64_t k, int64_t channels)
{
    const conv *c = p->c;
    const ls_tensor *picture = picture_of(c);
    const int64_t panels = (n + c->nr - 1) / c->nr, image = column / c->target,
                  first = column - image * c->target, end = count_of(picture);
    /* The last vector may read past the block's last column, but not past the picture. Results of those
     * columns are not stored. */
    const bool in_place = T == LS_F32 && reads_every_position(c) && first + n <= c->target;
    for (int64_t i = 0; i < channels; i++, to += c->nr) {
        const int64_t at = channel_at(c, image, k + i) + first;
        const float *from = line;
        if (in_place && at + panels * c->nr <= end)
            from = (const float *)picture->data + at;
        else
            for (int64_t j = 0, count; j < n; j += count) { /* image by image */
                const int64_t p0 = (column + j) % c->target;
                count = min_i64(n - j, c->target - p0);
                take_columns(T, c, line + j, (column + j) / c->target, k + i, p0, count);
            }
        for (int64_t j = 0; j < panels; j++) {
            vf_store(to + j * channels * c->nr, vf_load(from + j * c->nr));
            vf_store(to + j * channels * c->nr + VF_LANES, vf_load(from + j * c->nr + VF_LANES));
        }
    }
}

/* Elements of a row of results, n columns from `column` on, to the tensor. */
SIMD_FN void put_results(ls_dtype T, const product *p, int64_t row, int64_t column, int64_t n,
                         const float *from)
{
    const conv *c = p->c;
    const ls_tensor *t = &c->a->out[0],
                    *bias = c->kind == LS_CONV_Y && present(&c->a->in[2]) ? &c->a->in[2] : NULL;
    const int64_t channel = c->group * p->rows + row;
    const vf add = vf_set1(bias ? f_get(bias->data, T, channel) : 0.0f);
    for (int64_t count; n > 0; n -= count, column += count, from += count) {
        const int64_t image = column / c->target, first = column - image * c->target,
                      to = (image * t->type.dims[1] + channel) * c->target + first;
        count = min_i64(n, c->target - first);
        for (int64_t k = 0; k < count; k += VF_LANES) {
            const vf v = vf_load(from + k) + add;
            if (k + VF_LANES <= count)
                vf_put(t->data, T, to + k, v);
            else
                vf_put_n(t->data, T, to + k, v, (int)(count - k));
        }
    }
}

/* Where a panel's results go: to the tensor if they lie there as in a tile, else to the scratch memory. */
typedef struct target {
    float *row; /* row 0 */
    int64_t ld;
    bool direct;
} target;

SIMD_FN target target_of(ls_dtype T, const product *p, float *results, int64_t column, int64_t j, int64_t n)
{
    const ls_tensor *out = &p->c->a->out[0];
    const int64_t image = (column + j) / p->c->target, first = column + j - image * p->c->target;
    if (T == LS_F32 && n % VF_LANES == 0 && first + n <= p->c->target &&
        (p->c->kind == LS_CONV_DX || !present(&p->c->a->in[2])))
        return (target){ (float *)out->data +
                             (image * out->type.dims[1] + p->c->group * p->rows) * p->c->target + first,
                         p->c->target, true };
    return (target){ results + j, p->width, false };
}

/* What the next panels are made of: columns [column, end) of channels from k on, image by image. It is
 * prefetched while these panels are multiplied: hardware would not follow, because a block has only some
 * cache lines of each channel. */
typedef struct ahead {
    int64_t column, end, k, channels;
    const char *at;
    int64_t bytes, done, left; /* of a channel; of these, prefetched; channels left of the image at hand */
} ahead;

SIMD_FN ahead ahead_of(const product *p, int64_t task, int64_t chunk)
{
    if (++chunk == p->chunks) {
        chunk = 0;
        task++;
    }
    if (!reads_every_position(p->c) || task == p->blocks)
        return (ahead){ 0 };
    const int64_t k = part_begin(p->depth, chunk, p->chunks);
    return (ahead){ .column = block_begin(p, task),
                    .end = block_begin(p, task + 1),
                    .k = k,
                    .channels = part_begin(p->depth, chunk + 1, p->chunks) - k };
}

SIMD_FN void prefetch_some(const product *p, ahead *a, int64_t lines)
{
    const int64_t plane = p->c->target, size = elem_size(p->c->a->in[0].type.dtype);
    for (; lines > 0; lines--) {
        if (a->left == 0) {
            if (a->column == a->end)
                return;
            const int64_t image = a->column / plane, first = a->column % plane,
                          n = min_i64(a->end - a->column, plane - first);
            a->at = elem_at(picture_of(p->c), channel_at(p->c, image, a->k) + first);
            a->bytes = n * size;
            a->left = a->channels;
            a->column += n;
        }
        __builtin_prefetch(a->at + a->done, 0, GEMM_TO_L2);
        a->done += GEMM_LINE;
        if (a->done >= a->bytes) {
            a->at += plane * size;
            a->done = 0;
            a->left--;
        }
    }
}

static void multiply(const product *p, const float *panels, const target *to, int64_t n, int64_t k,
                     int64_t channels, ahead a)
{
    const conv *c = p->c;
    const int64_t columns = a.end - a.column, size = elem_size(c->a->in[0].type.dtype),
                  lines = a.channels * (columns * size / GEMM_LINE + columns / c->target + 1),
                  share = 1 + lines / (p->tiles * ((n + c->nr - 1) / c->nr)); /* with each tile */
    const conv_segment whole = { 0, 0 };
    const conv_chain chain = {
        .segments = 1, .steps = channels, .segment = &whole, .row = 1, .step = VF_LANES
    };
    for (int64_t t = 0; t < p->tiles; t++) {
        const int64_t row = part_begin(p->rows, t, p->tiles),
                      height = part_begin(p->rows, t + 1, p->tiles) - row;
        const float *kernel = p->kernel + (t * p->depth + k) * VF_LANES;
        for (int64_t j = 0; j < n; j += c->nr) {
            const target *at = &to[j / c->nr];
            prefetch_some(p, &a, share);
            LS_NAME(ls_conv_tiles)
            [n - j > VF_LANES][height - 1](&chain, kernel, panels + j * channels, at->row + row * at->ld,
                                           at->ld, k > 0);
        }
    }
}

SIMD_FN void blocks(ls_dtype T, const product *p, int64_t begin, int64_t end, int worker)
{
    const int64_t nr = p->c->nr;
    float *line = p->scratch + worker * p->own, *panels = line + p->width,
          *results = panels + round_up(p->chunk * p->block, 16);
    target to[MOST_COLUMNS / (2 * VF_LANES)];
    memset(line, 0, sizeof(float) * (size_t)p->width); /* what is behind the last column is multiplied, too */
    for (int64_t task = begin; task < end; task++) {
        const int64_t column = block_begin(p, task), n = block_begin(p, task + 1) - column;
        for (int64_t j = 0; j < n; j += nr)
            to[j / nr] = target_of(T, p, results, column, j, min_i64(nr, n - j));
        for (int64_t chunk = 0; chunk < p->chunks; chunk++) {
            const int64_t k = part_begin(p->depth, chunk, p->chunks),
                          channels = part_begin(p->depth, chunk + 1, p->chunks) - k;
            make_panels(T, p, line, panels, column, n, k, channels);
            multiply(p, panels, to, n, k, channels, ahead_of(p, task, chunk));
        }
        for (int64_t j = 0, stop; j < n; j = stop) {
            for (stop = j + nr; stop < n && to[stop / nr].direct == to[j / nr].direct;)
                stop += nr;
            for (int64_t row = 0; row < p->rows && !to[j / nr].direct; row++)
                put_results(T, p, row, column + j, min_i64(n, stop) - j, results + row * p->width + j);
        }
    }
}

CONV_TASK(product, pack_y_task, pack_y, )
CONV_TASK(product, pack_dx_task, pack_dx, )
CONV_TASK(product, blocks_task, blocks, , worker)

void LS_NAME(ls_conv_point)(conv *c)
{
    product p = conv_point_plan_of(c);
    p.kernel = c->a->workspace;
    p.scratch = p.kernel + p.kernel_size;
    for (c->group = 0; c->group < c->s.at.groups; c->group++) {
        ls_parallel_for(c->threads, p.tiles, c->kind == LS_CONV_Y ? pack_y_task : pack_dx_task, &p);
        ls_parallel_for(c->threads, p.blocks, blocks_task, &p);
    }
}
