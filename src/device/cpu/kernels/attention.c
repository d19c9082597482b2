/* attention.c - scaled dot-product attention, fused for each (sample, head, chunk of queries), so that scores
 * never leave the cache. A block of keys is brought into its forms once for a chunk of several tiles. A query
 * that sees no key gets zeros, and lse = -inf. */
#include "table.h"
#include "attention_tile.h"

enum { CHUNK = 8 * BLOCK_Q };

typedef struct job {
    const ls_kernel_args *a;
    heads s;
    const ls_tensor *bias;
    bool by_distance;
    int64_t chunk, chunks;     /* queries of a chunk; chunks of a head */
    int64_t task_heads, parts; /* of documents: heads of a task; tasks of a chunk */
    int64_t scratch;           /* f32 of scratch for each worker */
} job;

typedef struct scratch {
    float *rows;              /* of a tile's queries */
    float *q, *y, *top, *sum; /* of a chunk */
    float *reversed;          /* of a head */
    tile_scratch tile;
} scratch;

static job attention_job_of(const ls_kernel_args *a)
{
    job j = { .a = a,
              .s = heads_of(a, &a->in[0], &a->in[1], 6, BLOCK_KEYS),
              .bias = present(&a->in[3]) ? &a->in[3] : NULL };
    const heads *s = &j.s;
    j.by_distance = j.bias && j.bias->type.ndim == 2;
    const int64_t tiles = s->B * s->H * ((s->Tq + BLOCK_Q - 1) / BLOCK_Q),
                  share = tiles / (2 * workers(a)); /* every worker should have two chunks */
    j.chunk = min_i64(s->Tq, min_i64(CHUNK, BLOCK_Q * (share > 1 ? share : 1)));
    j.chunks = (s->Tq + j.chunk - 1) / j.chunk;
    const int64_t each = s->B * j.chunks * s->H / (4 * workers(a));
    j.task_heads = each < 1 ? 1 : min_i64(s->H, each);
    j.parts = (s->H + j.task_heads - 1) / j.task_heads;
    j.scratch = rows_size(s, s->bq) + columns_size(s, j.chunk) + rows_size(s, j.chunk) +
                2 * round_up(j.chunk, STRIP_MAX) + (j.by_distance ? reversed_size(s) : 0) +
                tile_scratch_size(s, (j.bias && !j.by_distance) || present(&a->in[5]));
    return j;
}

static scratch scratch_of(const job *j, int worker)
{
    const heads *s = &j->s;
    scratch w = { .rows = (float *)j->a->workspace + worker * j->scratch };
    w.q = w.rows + rows_size(s, s->bq);
    w.y = w.q + columns_size(s, j->chunk);
    w.top = w.y + rows_size(s, j->chunk);
    w.sum = w.top + round_up(j->chunk, STRIP_MAX);
    w.reversed = w.sum + round_up(j->chunk, STRIP_MAX);
    w.tile = tile_scratch_at(s, w.reversed + (j->by_distance ? reversed_size(s) : 0));
    return w;
}

/* Queries q0 .. q0+n of a chunk: what is the same for all blocks of keys. Members are set one by one, since
 * clearing a kilobyte takes as long as a row of a short sequence. */
static void load_queries(const job *j, const scratch *w, tile_rows *r, int64_t b, int64_t h, int64_t at,
                         int64_t q0, int64_t n)
{
    const heads *s = &j->s;
    const ls_tensor *q = &j->a->in[0];
    int64_t ld;
    const float *rows = rows_form(s, w->rows, query_at(s, q, b, q0, h), q->strides[1], n, &ld);
    columns_form(s, w->q + at * s->words, rows, ld, n);
    r->n = n;
    r->b = b;
    r->h = h;
    r->query = q0;
    r->q = w->q + at * s->words;
    r->y = w->y + at * s->dp;
    r->top = w->top + at;
    r->sum = w->sum + at;
    r->reversed = j->by_distance ? w->reversed : NULL;
    for (int64_t i = 0; i < n; i++)
        r->bias[i] = bias_row(s, j->bias, b, h, q0 + i);
    for (int64_t i = 0; i < round_up(n, STRIP); i++) {
        r->top[i] = -__builtin_inff();
        r->sum[i] = 0.0f;
    }
}

static void finish(const job *j, const tile_rows *r)
{
    const heads *s = &j->s;
    const ls_tensor *y = &j->a->out[0];
    float *lse = (float *)j->a->out[1].data + query_number(s, r->b, r->h, r->query);
    for (int64_t i = 0; i < r->n; i += VF_LANES) { /* a query without keys: -inf + log 0 */
        const vf sum = vf_load(r->sum + i);
        vf_store_n(lse + i, vf_fma(vf_load(r->top + i), vf_set1(LN_2), vf_log(sum)),
                   (int)min_i64(VF_LANES, r->n - i));
        vf_store(r->sum + i, vf_select(vf_eq(sum, vf_zero()), sum, s->kept / sum));
    }
    store_rows(s, query_at(s, y, r->b, r->query, r->h), y->strides[1], r->y, r->n, r->sum, 1);
}

static void forward_chunk(const job *j, const scratch *w, int64_t b, int64_t h, int64_t c0)
{
    const heads *s = &j->s;
    const int64_t g = h / (s->H / s->G), n = min_i64(j->chunk, s->Tq - c0), end = keys_end(s, b);
    tile_rows rows[CHUNK / BLOCK_Q];
    int tiles = 0;
    if (j->by_distance)
        reverse_distances(s, w->reversed, bias_row(s, j->bias, b, h, s->Tq - 1));
    for (int64_t at = 0; at < n; at += s->bq)
        load_queries(j, w, &rows[tiles++], b, h, at, c0 + at, min_i64(s->bq, n - at));
    /* the block with the first key that the first query sees */
    const int64_t begin = skipped(s, c0 + s->apart, 0) / s->bk * s->bk;
    for (int64_t k0 = begin; k0 < end; k0 += s->bk) {
        const int64_t nk = min_i64(s->bk, s->Tk - k0);
        if (k0 > begin && visible(s, c0 + n - 1, k0, nk) == 0)
            break;
        tile_keys k = load_keys(s, &j->a->in[1], &j->a->in[2], b, g, k0, nk, &w->tile);
        k.first = k0 == begin;
        for (int t = 0; t < tiles; t++) {
            tile_rows *r = &rows[t];
            for (int64_t i = 0; i < r->n; i++) {
                r->seen[i] = visible(s, r->query + i, k0, nk);
                r->skip[i] = skipped(s, r->query + i + s->apart, k0);
            }
            if (k.first || (r->seen[r->n - 1] > 0 && r->skip[0] < nk))
                attend(s, r, &k, &w->tile);
        }
    }
    for (int t = 0; t < tiles; t++)
        finish(j, &rows[t]);
}

/* Of documents side by side: the chunks of each, counted from its first query, that begin in chunk c0 of the
 * sample. Short documents are read faster if the heads of one follow each other, since they share its rows.
 */
static void forward_documents(const job *j, const scratch *w, int64_t b, int64_t h0, int64_t c0)
{
    const heads *s = &j->s;
    const int64_t behind = min_i64(c0 + j->chunk, s->Tq);
    job part = *j;
    const int64_t from = c0 + s->apart,
                  to = behind + s->apart; /* keys; before the first one stands no document */
    for (int64_t begin = document_begin(s, b, from < 0 ? 0 : from), end; begin < to || begin == 0;
         begin = end) {
        end = document_end(s, b, begin);
        part.s = document_of(s, begin, end);
        const int64_t first = part.s.first_q,
                      at = first < c0 ? (c0 - first + j->chunk - 1) / j->chunk * j->chunk : 0;
        if (first + at >= min_i64(first + part.s.Tq, behind))
            continue;
        for (int64_t h = h0; h < min_i64(h0 + j->task_heads, s->H); h++)
            forward_chunk(&part, w, b, h, at);
    }
}

/* A task is (sample, head, chunk of queries); of documents (sample, chunk, task_heads heads). */
static void forward_task(void *context, int64_t begin, int64_t end, int worker)
{
    const job *j = context;
    const scratch w = scratch_of(j, worker);
    for (int64_t t = begin; t < end; t++)
        if (j->s.positions)
            forward_documents(j, &w, t / j->parts / j->chunks, t % j->parts * j->task_heads,
                              t / j->parts % j->chunks * j->chunk);
        else
            forward_chunk(j, &w, t / j->chunks / j->s.H, t / j->chunks % j->s.H, t % j->chunks * j->chunk);
}

KERNEL_WORKSPACE(attention)
{
    const job j = attention_job_of(a);
    return sizeof(float) * (size_t)(workers(a) * j.scratch + padding_size(&j.s, &a->in[4]));
}

KERNEL(attention)
{ /* q, k, v, bias?, ids?, key?, positions? -> y, lse */
    job j = attention_job_of(a);
    find_padding(&j.s, a, &a->in[4], (float *)a->workspace + workers(a) * j.scratch);
    find_dropout(&j.s, a, &a->in[5]);
    ls_parallel_for(a->threads, j.s.B * j.chunks * (j.s.positions ? j.parts : j.s.H), forward_task, &j);
}
