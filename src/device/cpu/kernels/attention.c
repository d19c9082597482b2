/* attention.c - scaled dot-product attention, fused for each (sample, head, chunk of queries), so that scores
 * never leave the cache. A block of keys is brought into its forms once for a chunk of several tiles. A query
 * that sees no key gets zeros, and lse = -inf. */
#include "table.h"
#include "attention_tile.h"

enum { CHUNK = 4 * BLOCK_Q };

typedef struct job {
    const ls_kernel_args *a;
    heads s;
    const ls_tensor *bias;
    int64_t chunk, chunks; /* queries of a chunk; chunks of a head */
    int64_t scratch;       /* f32 of scratch for each worker */
} job;

typedef struct scratch {
    float *q, *y, *top, *sum; /* of a chunk */
    key_scratch keys;
    tile_scratch tile;
    int32_t *keep;
} scratch;

static job job_of(const ls_kernel_args *a)
{
    job j = { .a = a, .s = heads_of(a, &a->in[0], &a->in[1]), .bias = present(&a->in[3]) ? &a->in[3] : NULL };
    j.chunk = min_i64(CHUNK, j.s.Tq);
    j.chunks = (j.s.Tq + j.chunk - 1) / j.chunk;
    j.scratch = 2 * rows_size(&j.s, j.chunk) + 2 * round_up(j.chunk, 16) + 3 * rows_size(&j.s, j.s.bk) +
                tile_s(&j.s) + tile_tail() + (present(&a->in[5]) ? BLOCK_Q * BLOCK_K : 0);
    return j;
}

static scratch scratch_of(const job *j, int worker)
{
    const heads *s = &j->s;
    const int64_t rows = rows_size(s, j->chunk), keys = rows_size(s, s->bk);
    scratch w = { .q = (float *)j->a->workspace + worker * j->scratch };
    w.y = w.q + rows;
    w.top = w.y + rows;
    w.sum = w.top + round_up(j->chunk, 16);
    w.keys.rows = w.sum + round_up(j->chunk, 16);
    w.keys.columns = w.keys.rows + keys;
    w.keys.stacked = w.keys.columns + keys;
    w.tile.scores = w.keys.stacked + keys;
    w.tile.tail = w.tile.scores + tile_s(s);
    w.keep = (int32_t *)(w.tile.tail + tile_tail());
    return w;
}

/* Queries q0 .. q0+n of a chunk: what is the same for all blocks of keys. Members are set one by one, since
 * clearing a kilobyte takes as long as a row of a short sequence. */
static void load_queries(const job *j, const scratch *w, tile_rows *r, int64_t b, int64_t h, int64_t at,
                         int64_t q0, int64_t n)
{
    const heads *s = &j->s;
    const ls_tensor *q = &j->a->in[0];
    r->n = n;
    r->b = b;
    r->q = rows_form(s, w->q + at * s->words, head_at(q, b, q0, h, s->D), q->strides[1], n, &r->ldq);
    r->y = w->y + at * s->dp;
    r->top = w->top + at;
    r->sum = w->sum + at;
    r->keep = NULL;
    r->aheads = 0;
    for (int64_t i = 0; i < n; i++) {
        r->bias[i] = bias_row(s, j->bias, b, h, q0 + i);
        r->top[i] = -__builtin_inff();
        r->sum[i] = 0.0f;
    }
}

static void finish(const job *j, const tile_rows *r, int64_t h, int64_t q0)
{
    const heads *s = &j->s;
    const ls_tensor *y = &j->a->out[0];
    float *lse = (float *)j->a->out[1].data + (r->b * s->H + h) * s->Tq + q0;
    for (int64_t i = 0; i < r->n; i += VF_LANES) { /* a query without keys: -inf + log 0 */
        const int n = (int)min_i64(VF_LANES, r->n - i);
        const vf sum = vf_load_n(r->sum + i, n);
        vf_store_n(lse + i, vf_load_n(r->top + i, n) + vf_log(sum), n);
        vf_store_n(r->sum + i, vf_select(vf_eq(sum, vf_zero()), sum, s->kept / sum), n);
    }
    store_rows(s, head_at(y, r->b, q0, h, s->D), y->strides[1], r->y, r->n, r->sum, 1);
}

static void add_ahead(tile_rows *r, const ls_tensor *t, const char *at)
{
    r->ahead[r->aheads] = at;
    r->ahead_stride[r->aheads++] = t->strides[1] * elem_size(t->type.dtype);
}

/* What tile number `tile` of task `task` prefetches at its first keys: its results, the queries of the same
 * tile of the next task, and the next task's keys and values if they are few. */
static void look_ahead(const job *j, tile_rows *r, int64_t task, int tile)
{
    const heads *s = &j->s;
    const int64_t next = task + 1, h = task / j->chunks % s->H, h1 = next / j->chunks % s->H,
                  b1 = next / j->chunks / s->H, at = tile * s->bq;
    const ls_tensor *q = &j->a->in[0], *k = &j->a->in[1], *v = &j->a->in[2], *y = &j->a->out[0];
    add_ahead(r, y, head_at(y, r->b, task % j->chunks * j->chunk + at, h, s->D));
    if (b1 == s->B || next % j->chunks * j->chunk + at + r->n > s->Tq)
        return;
    add_ahead(r, q, head_at(q, b1, next % j->chunks * j->chunk + at, h1, s->D));
    if (s->Tk == r->n) {
        add_ahead(r, k, head_at(k, b1, 0, h1 / (s->H / s->G), s->D));
        add_ahead(r, v, head_at(v, b1, 0, h1 / (s->H / s->G), s->D));
    }
}

static void forward_chunk(const job *j, const scratch *w, int64_t task)
{
    const heads *s = &j->s;
    const int64_t b = task / j->chunks / s->H, h = task / j->chunks % s->H, c0 = task % j->chunks * j->chunk;
    const int64_t g = h / (s->H / s->G), n = min_i64(j->chunk, s->Tq - c0), end = keys_end(s, b);
    tile_rows rows[CHUNK / BLOCK_Q];
    int tiles = 0;
    for (int64_t at = 0; at < n; at += s->bq)
        load_queries(j, w, &rows[tiles++], b, h, at, c0 + at, min_i64(s->bq, n - at));
    for (int64_t k0 = 0; k0 < end; k0 += s->bk) {
        const int64_t nk = min_i64(s->bk, s->Tk - k0);
        if (k0 > 0 && visible(s, c0 + n - 1, k0, nk) == 0)
            break;
        const tile_keys k = load_keys(s, &j->a->in[1], &j->a->in[2], b, g, k0, nk, &w->keys);
        for (int t = 0; t < tiles; t++) {
            tile_rows *r = &rows[t];
            const int64_t q0 = c0 + t * s->bq;
            for (int64_t i = 0; i < r->n; i++)
                r->seen[i] = visible(s, q0 + i, k0, nk);
            if (k0 > 0 && r->seen[r->n - 1] == 0)
                continue;
            if (s->drops) {
                for (int64_t i = 0; i < r->n; i += 2)
                    keep_rows(s, w->keep + i * BLOCK_K, b, h, q0 + i, k0);
                r->keep = w->keep;
            }
            r->aheads = 0;
            if (k0 == 0)
                look_ahead(j, r, task, t);
            attend(s, r, &k, &w->tile);
        }
    }
    for (int t = 0; t < tiles; t++)
        finish(j, &rows[t], h, c0 + t * s->bq);
}

/* A task is (sample, head, chunk of queries). */
static void forward_task(void *context, int64_t begin, int64_t end, int worker)
{
    const job *j = context;
    const scratch w = scratch_of(j, worker);
    for (int64_t t = begin; t < end; t++)
        forward_chunk(j, &w, t);
}

KERNEL_WORKSPACE(attention)
{
    const job j = job_of(a);
    return sizeof(float) * (size_t)(workers(a) * j.scratch + padding_size(&j.s, &a->in[4]));
}

KERNEL(attention)
{ /* q, k, v, bias?, ids?, key? -> y, lse */
    job j = job_of(a);
    find_padding(&j.s, a, &a->in[4], (float *)a->workspace + workers(a) * j.scratch);
    find_dropout(&j.s, a, &a->in[5]);
    j.s.tail = tail_of(&j.s, j.bias);
    ls_parallel_for(a->threads, j.s.B * j.s.H * j.chunks, forward_task, &j);
}
