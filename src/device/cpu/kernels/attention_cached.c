/* attention_cached.c - writing keys and values into a cache, reordering it, and attention to it.
 *
 * The query heads that share a key head, of all tokens, are the rows of one tile, so that each key is fetched
 * once for them. Blocks of keys and the arithmetic within are those of attention.c, from the first key on: a
 * query gets the bits that causal attention over its keys gives it. */
#include "attention_tile.h"
#include "table.h"

KERNEL(cache_write)
{ /* cache, x, positions -> cache */
    const ls_tensor *cache = &a->in[0], *x = &a->in[1];
    const int32_t *positions = a->in[2].data;
    const int64_t tokens = x->type.dims[1], places = cache->type.dims[1], features = x->type.dims[2],
                  rows = x->type.dims[0] * tokens;
    for (int64_t r = 0; r < rows; r++)
        if (positions[r] >= 0 && positions[r] < places)
            memcpy(elem_at(cache, (r / tokens * places + positions[r]) * features),
                   elem_at(x, r * row_stride(x)), (size_t)(features * elem_size(x->type.dtype)));
}

/* One place of all sequences at a time: what moves is set aside, then put where it belongs. */
static void reorder_task(void *context, int64_t begin, int64_t end, int worker)
{
    const ls_kernel_args *a = context;
    const ls_tensor *cache = &a->in[0];
    const int32_t *from = a->in[1].data;
    const int64_t n = cache->type.dims[0], places = cache->type.dims[1], features = cache->type.dims[2];
    const size_t bytes = (size_t)(features * elem_size(cache->type.dtype));
    char *aside = (char *)a->workspace + (size_t)worker * (size_t)n * bytes;
    for (int64_t p = begin; p < end; p++)
        for (int put = 0; put < 2; put++)
            for (int64_t b = 0; b < n; b++) {
                if (from[b] == b || from[b] < 0 || from[b] >= n)
                    continue;
                if (put)
                    memcpy(elem_at(cache, (b * places + p) * features), aside + (size_t)b * bytes, bytes);
                else
                    memcpy(aside + (size_t)b * bytes, elem_at(cache, (from[b] * places + p) * features),
                           bytes);
            }
}

KERNEL_WORKSPACE(cache_reorder)
{
    const ls_type *cache = &a->in[0].type;
    return (size_t)(workers(a) * cache->dims[0] * cache->dims[2] * elem_size(cache->dtype));
}

KERNEL(cache_reorder)
{ /* cache, from -> cache */
    const ls_type *cache = &a->in[0].type;
    const int32_t *from = a->in[1].data;
    int64_t moved = 0;
    for (int64_t b = 0; b < cache->dims[0]; b++)
        moved += from[b] != b;
    if (moved)
        ls_parallel_for(threads_for(a, moved * cache->dims[1] * cache->dims[2]), cache->dims[1], reorder_task,
                        (void *)(uintptr_t)a);
}

typedef struct job {
    const ls_kernel_args *a;
    heads s;
    const ls_tensor *bias;      /* by distance, NULL: none */
    int64_t group, rows, block; /* query heads per key head; rows of all tokens; rows of a tile */
    int64_t scratch;            /* f32 of scratch for each worker */
} job;

typedef struct scratch {
    float *rows, *q, *y, *top, *sum;
    tile_scratch tile;
} scratch;

static job attention_cached_job_of(const ls_kernel_args *a)
{
    job j = { .a = a,
              .s = heads_of(a, &a->in[0], &a->in[1], a->n_in, BLOCK_KEYS),
              .bias = present(&a->in[4]) ? &a->in[4] : NULL };
    j.group = j.s.H / j.s.G;
    j.rows = j.group * j.s.Tq;
    const int64_t share = (j.s.B * j.s.G * j.rows + workers(a) - 1) / workers(a);
    j.block = min_i64(BLOCK_Q, min_i64(j.rows, share));
    if (j.block < 1) /* there are no rows */
        j.block = 1;
    j.s.bq = j.block;
    j.scratch = 2 * rows_size(&j.s, j.block) + columns_size(&j.s, j.block) + 2 * BLOCK_Q +
                tile_scratch_size(&j.s, j.bias);
    return j;
}

static scratch scratch_of(const job *j, int worker)
{
    scratch w = { .rows = (float *)j->a->workspace + worker * j->scratch };
    w.q = w.rows + rows_size(&j->s, j->block);
    w.y = w.q + columns_size(&j->s, j->block);
    w.top = w.y + rows_size(&j->s, j->block);
    w.sum = w.top + BLOCK_Q;
    w.tile = tile_scratch_at(&j->s, w.sum + BLOCK_Q);
    return w;
}

static int64_t keys_of(const job *j, int64_t b, int64_t token)
{
    const int64_t position = ((const int32_t *)j->a->in[3].data)[b * j->s.Tq + token];
    return position < 0 ? 0 : min_i64(position + 1, j->s.Tk);
}

/* Of row r, which sees `keys` keys, from key 0 on: the bias's last column is the distance 0. */
static const char *distances(const job *j, int64_t g, int64_t r, int64_t keys)
{
    return j->bias ? elem_at(j->bias, (g * j->group + r % j->group) * j->s.Tk + j->s.Tk - keys) : NULL;
}

/* Rows [r0, r0 + n) of key head g: row r is token r / group and head g * group + r % group. */
static char *row_at(const job *j, const ls_tensor *t, int64_t b, int64_t g, int64_t r)
{
    return query_at(&j->s, t, b, r / j->group, g * j->group + r % j->group);
}

static void tile(const job *j, const scratch *w, int64_t b, int64_t g, int64_t r0)
{
    const heads *s = &j->s;
    const ls_tensor *q = &j->a->in[0], *k = &j->a->in[1], *v = &j->a->in[2], *y = &j->a->out[0];
    tile_rows r = {
        .n = min_i64(j->block, j->rows - r0), .b = b, .q = w->q, .y = w->y, .top = w->top, .sum = w->sum
    };
    int64_t keys[BLOCK_Q], most = 0, begin = INT64_MAX;
    for (int64_t i = 0; i < r.n; i++) {
        copy_rows(s, w->rows + i * s->words, row_at(j, q, b, g, r0 + i), 0, 1);
        keys[i] = keys_of(j, b, (r0 + i) / j->group);
        most = keys[i] > most ? keys[i] : most;
        begin = keys[i] ? min_i64(begin, skipped(s, keys[i] - 1, 0) / s->bk * s->bk) : begin;
        r.bias[i] = distances(j, g, r0 + i, keys[i]);
    }
    columns_form(s, w->q, w->rows, s->words, r.n);
    for (int64_t i = 0; i < round_up(r.n, STRIP); i++) {
        r.top[i] = -__builtin_inff();
        r.sum[i] = 0.0f;
    }
    if (most == 0)
        memset(w->y, 0, sizeof(float) * (size_t)(r.n * s->dp));
    for (int64_t k0 = begin; k0 < most; k0 += s->bk) {
        tile_keys block = load_keys(s, k, v, b, g, k0, min_i64(s->bk, most - k0), &w->tile);
        block.first = k0 == begin;
        for (int64_t i = 0; i < r.n; i++) {
            r.seen[i] = keys[i] > k0 ? min_i64(keys[i] - k0, block.n) : 0;
            r.skip[i] = skipped(s, keys[i] - 1, k0);
        }
        attend(s, &r, &block, &w->tile);
    }
    for (int64_t i = 0; i < r.n; i++) {
        const float share = r.sum[i] == 0.0f ? 0.0f : 1.0f / r.sum[i];
        store_rows(s, row_at(j, y, b, g, r0 + i), 0, w->y + i * s->dp, 1, &share, 0);
    }
}

/* A task is (sample, key head, block of rows). */
static void tile_task(void *context, int64_t begin, int64_t end, int worker)
{
    const job *j = context;
    const int64_t blocks = (j->rows + j->block - 1) / j->block;
    const scratch w = scratch_of(j, worker);
    for (int64_t t = begin; t < end; t++)
        tile(j, &w, t / blocks / j->s.G, t / blocks % j->s.G, t % blocks * j->block);
}

KERNEL_WORKSPACE(attention_cached)
{
    const job j = attention_cached_job_of(a);
    return sizeof(float) * (size_t)(workers(a) * j.scratch);
}

KERNEL(attention_cached)
{ /* q, k, v, positions, bias? -> y */
    job j = attention_cached_job_of(a);
    int64_t products = 0; /* products for a key head and a feature */
    for (int64_t b = 0; b < j.s.B; b++)
        for (int64_t t = 0; t < j.s.Tq; t++)
            products += (j.s.window ? min_i64(j.s.window, keys_of(&j, b, t)) : keys_of(&j, b, t)) * j.group;
    const int64_t tiles = j.s.B * j.s.G * ((j.rows + j.block - 1) / j.block);
    ls_parallel_for(threads_for(a, products * j.s.G * j.s.D), tiles, tile_task, &j);
}
