/* attention_grad.c - the gradient of attention, from the saved log-sum-exp. With p = exp(s - lse), dp = dy vT
 * and delta = rowsum(dy * y):  ds = p * (dp - delta), dv = pT dy, dk = scale * dsT q, dq = scale * ds k,
 * dbias = ds. With dropout, which multiplies p by f:  ds = p * (f * dp - delta), dv = (f * p)T dy.
 *
 *   by_keys      A task is (sample, key head, block of keys). It goes through all queries that see the keys,
 * so dk and dv are complete. If all keys fit in one block, so is dq, and nothing else is needed. by_queries
 * Otherwise computes dq, with every tile computed a second time: 7 products instead of 5, but no sums between
 * tasks, and no scratch that grows with the sequence. by_bias      dbias, if it is summed over the batch. For
 * a bias by distance, the task of a block of queries adds up its diagonals, and by_distance adds those of all
 * blocks in order. */
#include "table.h"
#include "attention.h"

enum { DY, Q, K, V, BIAS, Y, LSE, IDS, KEY };
enum { DQ, DK, DV, DBIAS };

typedef struct job {
    const ls_kernel_args *a;
    heads s;
    const ls_tensor *bias, *dbias; /* dbias: only if by_keys writes it, else NULL */
    /* [sample, head, block of queries]: ds by distance; NULL: not wanted */
    float *distances;
    int64_t scratch; /* f32 of scratch for each worker */
    bool whole;      /* all keys fit in one block */
} job;

typedef struct scratch {
    float *q, *dy, *k, *v, *kt, *vt, *p, *ds, *sum_q, *sum_k, *sum_v, *delta, *tail_p, *tail_ds;
} scratch;

static int64_t scratch_size(const heads *s)
{
    return 3 * tile_q(s) + 6 * tile_k(s) + 3 * tile_s(s) + BLOCK_Q + 2 * tile_tail();
}

static scratch scratch_of(const job *j, int worker)
{
    const heads *s = &j->s;
    float *at = (float *)j->a->workspace + worker * j->scratch;
    scratch w;
    float **const by_q[] = { &w.q, &w.dy, &w.sum_q },
                  **const by_k[] = { &w.k, &w.v, &w.kt, &w.vt, &w.sum_k, &w.sum_v };
    for (int i = 0; i < 3; i++, at += tile_q(s))
        *by_q[i] = at;
    for (int i = 0; i < 6; i++, at += tile_k(s))
        *by_k[i] = at;
    w.p = at;
    w.ds = at + tile_s(s);
    w.delta = at + 3 * tile_s(s); /* (by_bias keeps a sum in between) */
    w.tail_p = w.delta + BLOCK_Q;
    w.tail_ds = w.tail_p + tile_tail();
    return w;
}

/* Sums by distance of a block of queries. Row i and key k belong to column bq - 1 - i + k. Zeros on both
 * sides let vectors reach across the ends. */
static int64_t distance_row(const heads *s)
{
    return 16 + round_up(s->bq - 1, 16) + round_up(s->Tk, 16) + 16;
}
static int64_t query_blocks(const heads *s) { return (s->Tq + s->bq - 1) / s->bq; }
static float *distances_of(const job *j, int64_t b, int64_t h, int64_t block)
{
    return j->distances + ((b * j->s.H + h) * query_blocks(&j->s) + block) * distance_row(&j->s) + 16;
}

/* A block of queries or keys as f32, and what belongs to it. */
typedef struct queries {
    const float *q, *dy;
    int64_t ldq, lddy, b, h, q0, n;
} queries;
typedef struct keys {
    const float *k, *v;
    int64_t ldk, ldv, k0, n, width, main; /* main: how many columns are computed by rows */
} keys;

SIMD_FN void delta_rows(ls_dtype T, float *delta, const char *dy, int64_t dy_stride, const char *y,
                        int64_t y_stride, int64_t n, int64_t d)
{
    for (int64_t i = 0; i < n; i++) {
        vf s = vf_zero();
        for (int64_t c = 0; c < d; c += VF_LANES) {
            const int left = (int)min_i64(VF_LANES, d - c);
            s = vf_fma(get_padded(T, dy + i * dy_stride * elem_size(T), c, left, 0.0f),
                       get_padded(T, y + i * y_stride * elem_size(T), c, left, 0.0f), s);
        }
        delta[i] = vf_sum(s);
    }
}

static queries load_queries(const job *j, const scratch *w, int64_t b, int64_t h, int64_t q0)
{
    const heads *s = &j->s;
    const ls_tensor *in = j->a->in;
    queries r = { .b = b, .h = h, .q0 = q0, .n = min_i64(s->bq, s->Tq - q0) };
    r.q = rows_f32(s, w->q, head_at(&in[Q], b, q0, h, s->D), in[Q].strides[1], r.n, &r.ldq);
    r.dy = rows_f32(s, w->dy, head_at(&in[DY], b, q0, h, s->D), in[DY].strides[1], r.n, &r.lddy);
    BY_FLOAT(s->t, delta_rows, w->delta, head_at(&in[DY], b, q0, h, s->D), in[DY].strides[1],
             head_at(&in[Y], b, q0, h, s->D), in[Y].strides[1], r.n, s->D);
    return r;
}

static keys load_keys(const job *j, const scratch *w, int64_t b, int64_t g, int64_t k0)
{
    const heads *s = &j->s;
    const ls_tensor *in = j->a->in;
    keys r = { .k0 = k0, .n = min_i64(s->bk, s->Tk - k0) };
    r.width = round_up(r.n, VF_LANES);
    r.main = row_part(s, r.n);
    r.k = rows_f32(s, w->k, head_at(&in[K], b, k0, g, s->D), in[K].strides[1], r.n, &r.ldk);
    r.v = rows_f32(s, w->v, head_at(&in[V], b, k0, g, s->D), in[V].strides[1], r.n, &r.ldv);
    LS_NAME(ls_small_transpose)(w->kt, r.main, r.k, r.ldk, min_i64(r.main, r.n), s->dp);
    LS_NAME(ls_small_transpose)(w->vt, r.main, r.v, r.ldv, min_i64(r.main, r.n), s->dp);
    return r;
}

/* Columns of the tail in p and ds. */
static void tile_tail_columns(const heads *s, const scratch *w, const queries *q, const keys *k,
                              const float *lse)
{
    LS_NAME(ls_small_dots)
    (w->tail_p, BLOCK_Q, q->q, q->ldq, q->n, k->k + k->main * k->ldk, k->ldk, s->tail, s->dp);
    LS_NAME(ls_small_dots)
    (w->tail_ds, BLOCK_Q, q->dy, q->lddy, q->n, k->v + k->main * k->ldv, k->ldv, s->tail, s->dp);
    for (int64_t j = 0; j < s->tail; j++)
        for (int64_t i = 0; i < q->n; i += VF_LANES) {
            float *p = w->tail_p + j * BLOCK_Q + i, *ds = w->tail_ds + j * BLOCK_Q + i;
            const vf base = base_of(vf_load_n(lse + i, (int)min_i64(VF_LANES, q->n - i)));
            const vf x = exp_below_zero(vf_load(p) * s->scale - base);
            vf_store(p, x);
            vf_store(ds, x * (vf_load(ds) - vf_load(w->delta + i)));
        }
    store_tail(s, w->p + k->main, k->width, w->tail_p, q->n);
    store_tail(s, w->ds + k->main, k->width, w->tail_ds, q->n);
}

/* f * p and ds of a tile, [queries, width]. */
static void tile(const job *j, const scratch *w, const queries *q, const keys *k)
{
    const heads *s = &j->s;
    const float *lse = (const float *)j->a->in[LSE].data + (q->b * s->H + q->h) * s->Tq + q->q0;
    LS_NAME(ls_small_mm)(q->n, k->main, s->D, q->q, q->ldq, 1, w->kt, k->main, w->p, k->width, false);
    LS_NAME(ls_small_mm)(q->n, k->main, s->D, q->dy, q->lddy, 1, w->vt, k->main, w->ds, k->width, false);
    int32_t keep[2 * KEEP_GROUP];
    for (int64_t i = 0; i < q->n; i++) {
        if (s->drops && i % 2 == 0)
            keep_rows(s, keep, q->b, q->h, q->q0 + i, k->k0);
        const char *bias = bias_row(s, j->bias, q->b, q->h, q->q0 + i);
        const int64_t n = visible(s, q->q0 + i, k->k0, k->n);
        /* a query without keys: all scores are -inf */
        const float base = lse[i] == -__builtin_inff() ? 0.0f : lse[i];
        float *p = w->p + i * k->width, *ds = w->ds + i * k->width;
        for (int64_t c = 0; c < k->main; c += VF_LANES) {
            const vf x = exp_below_zero(score_vector(s, p, bias, q->b, k->k0, c, n) - base);
            vf dp = vf_load(ds + c), y = x;
            if (s->drops) {
                const vi kept = vi_load(keep + i % 2 * KEEP_GROUP + c);
                dp = vi_as_vf(vf_bits(dp * s->kept) & kept);
                y = vi_as_vf(vf_bits(x * s->kept) & kept);
            }
            vf_store(p + c, y);
            vf_store(ds + c, x * (dp - w->delta[i]));
        }
    }
    if (s->tail)
        tile_tail_columns(s, w, q, k, lse);
}

SIMD_FN void store_bias_rows(ls_dtype T, char *to, int64_t stride, const float *from, int64_t width,
                             int64_t rows, int64_t n)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < n; c += VF_LANES)
            vf_put_n(to + r * stride * elem_size(T), T, c, vf_load(from + r * width + c),
                     (int)min_i64(VF_LANES, n - c));
}
static void store_bias(const job *j, const ls_tensor *dbias, const float *from, int64_t b, int64_t h,
                       int64_t q0, int64_t nq, const keys *k)
{
    char *to = elem_at(dbias, ((b * j->s.H + h) * j->s.Tq + q0) * j->s.Tk + k->k0);
    BY_FLOAT(dbias->type.dtype, store_bias_rows, to, j->s.Tk, from, k->width, nq, k->n);
}

/* Adds the diagonals of a tile's ds. */
static void add_distances(const job *j, const scratch *w, const queries *q, const keys *k)
{
    const heads *s = &j->s;
    float *sums = distances_of(j, q->b, q->h, q->q0 / s->bq);
    if (k->k0 == 0)
        memset(sums - 16, 0, sizeof(float) * (size_t)distance_row(s));
    for (int64_t i = 0; i < q->n; i++) {
        float *to = sums + s->bq - 1 - i + k->k0;
        for (int64_t c = 0; c < k->width; c += VF_LANES)
            vf_store(to + c, vf_load(to + c) + vf_load(w->ds + i * k->width + c));
    }
}

static void store_dq(const job *j, const scratch *w, const queries *q)
{
    const ls_tensor *dq = &j->a->out[DQ];
    store_rows(&j->s, head_at(dq, q->b, q->q0, q->h, j->s.D), dq->strides[1], w->sum_q, q->n, &j->s.scale, 0);
}

static void by_keys(void *context, int64_t begin, int64_t end, int worker)
{
    const job *j = context;
    const heads *s = &j->s;
    const scratch w = scratch_of(j, worker);
    const ls_tensor *dk = &j->a->out[DK], *dv = &j->a->out[DV];
    const int64_t blocks = (s->Tk + s->bk - 1) / s->bk, group = s->H / s->G;
    const float one = 1.0f;
    for (int64_t t = begin; t < end; t++) {
        const int64_t b = t / blocks / s->G, g = t / blocks % s->G;
        const keys k = load_keys(j, &w, b, g, t % blocks * s->bk);
        bool add = false;
        for (int64_t h = g * group; h < (g + 1) * group; h++)
            for (int64_t q0 = 0; q0 < s->Tq; q0 += s->bq) {
                const bool unseen = k.k0 >= keys_end(s, b) ||
                                    visible(s, min_i64(q0 + s->bq, s->Tq) - 1, k.k0, k.n) == 0;
                if (unseen && !j->whole && !j->dbias)
                    continue;
                const queries q = load_queries(j, &w, b, h, q0);
                tile(j, &w, &q, &k);
                LS_NAME(ls_small_mm)(k.n, s->dp, q.n, w.p, 1, k.width, q.dy, q.lddy, w.sum_v, s->dp, add);
                LS_NAME(ls_small_mm)(k.n, s->dp, q.n, w.ds, 1, k.width, q.q, q.ldq, w.sum_k, s->dp, add);
                add = true;
                if (j->whole) {
                    LS_NAME(ls_small_mm)
                    (q.n, s->dp, k.n, w.ds, k.width, 1, k.k, k.ldk, w.sum_q, s->dp, false);
                    store_dq(j, &w, &q);
                    if (j->distances)
                        add_distances(j, &w, &q, &k);
                }
                if (j->dbias)
                    store_bias(j, j->dbias, w.ds, b, h, q0, q.n, &k);
            }
        if (!add) { /* padding */
            memset(w.sum_k, 0, sizeof(float) * (size_t)(k.n * s->dp));
            memset(w.sum_v, 0, sizeof(float) * (size_t)(k.n * s->dp));
        }
        store_rows(s, head_at(dk, b, k.k0, g, s->D), dk->strides[1], w.sum_k, k.n, &s->scale, 0);
        store_rows(s, head_at(dv, b, k.k0, g, s->D), dv->strides[1], w.sum_v, k.n, &one, 0);
    }
}

static void by_queries(void *context, int64_t begin, int64_t end, int worker)
{
    const job *j = context;
    const heads *s = &j->s;
    const scratch w = scratch_of(j, worker);
    const int64_t blocks = query_blocks(s);
    for (int64_t t = begin; t < end; t++) {
        const int64_t b = t / blocks / s->H, h = t / blocks % s->H;
        const queries q = load_queries(j, &w, b, h, t % blocks * s->bq);
        for (int64_t k0 = 0; k0 < keys_end(s, b); k0 += s->bk) {
            if (k0 > 0 && visible(s, q.q0 + q.n - 1, k0, s->bk) == 0)
                break;
            const keys k = load_keys(j, &w, b, h / (s->H / s->G), k0);
            tile(j, &w, &q, &k);
            LS_NAME(ls_small_mm)(q.n, s->dp, k.n, w.ds, k.width, 1, k.k, k.ldk, w.sum_q, s->dp, k0 > 0);
            if (j->distances)
                add_distances(j, &w, &q, &k);
        }
        store_dq(j, &w, &q);
    }
}

static void by_bias(void *context, int64_t begin, int64_t end, int worker)
{ /* task = (head, block of queries); sums over samples, in order */
    const job *j = context;
    const heads *s = &j->s;
    const scratch w = scratch_of(j, worker);
    float *sum = w.ds + tile_s(s);
    const int64_t blocks = (s->Tq + s->bq - 1) / s->bq;
    for (int64_t t = begin; t < end; t++) {
        const int64_t h = t / blocks, q0 = t % blocks * s->bq;
        for (int64_t k0 = 0; k0 < s->Tk; k0 += s->bk) {
            keys k = { .n = 0 };
            for (int64_t b = 0; b < s->B; b++) {
                const queries q = load_queries(j, &w, b, h, q0);
                k = load_keys(j, &w, b, h / (s->H / s->G), k0);
                tile(j, &w, &q, &k);
                for (int64_t c = 0; c < q.n * k.width; c += VF_LANES)
                    vf_store(sum + c, b ? vf_load(sum + c) + vf_load(w.ds + c) : vf_load(w.ds + c));
            }
            store_bias(j, &j->a->out[DBIAS], sum, 0, h, q0, min_i64(s->bq, s->Tq - q0), &k);
        }
    }
}

static void by_distance(void *context, int64_t begin, int64_t end, int worker)
{ /* task = head */
    const job *j = context;
    const heads *s = &j->s;
    const ls_tensor *out = &j->a->out[DBIAS];
    const int64_t n = s->Tq + s->Tk - 1;
    (void)worker;
    for (int64_t h = begin; h < end; h++)
        for (int64_t d = 0; d < n; d += VF_LANES) {
            vf sum = vf_zero();
            for (int64_t b = 0; b < s->B; b++)
                for (int64_t block = 0; block < query_blocks(s); block++) {
                    const int64_t column = d - s->Tq + (block + 1) * s->bq;
                    if (column > -VF_LANES && column < s->bq - 1 + s->Tk)
                        sum += vf_load(distances_of(j, b, h, block) + column);
                }
            vf_put_n(elem_at(out, h * n), out->type.dtype, d, sum, (int)min_i64(VF_LANES, n - d));
        }
}

static int64_t distances_size(const heads *s, const ls_tensor *bias)
{
    return present(bias) && bias->type.ndim == 2 ? s->B * s->H * query_blocks(s) * distance_row(s) : 0;
}

KERNEL_WORKSPACE(attention_grad)
{
    const heads s = heads_of(a, &a->in[Q], &a->in[K]);
    return sizeof(float) * (size_t)(workers(a) * scratch_size(&s) + padding_size(&s, &a->in[IDS]) +
                                    distances_size(&s, &a->in[BIAS]));
}

KERNEL(attention_grad)
{ /* dy, q, k, v, bias?, y, lse, ids?, key? -> dq, dk, dv, dbias if bias */
    job j = { .a = a,
              .s = heads_of(a, &a->in[Q], &a->in[K]),
              .bias = present(&a->in[BIAS]) ? &a->in[BIAS] : NULL };
    const heads *s = &j.s;
    const ls_tensor *dbias = a->n_out > DBIAS && present(&a->out[DBIAS]) ? &a->out[DBIAS] : NULL;
    const bool distance = dbias && dbias->type.ndim == 2,
               summed = dbias && !distance && dbias->type.dims[0] == 1 && s->B > 1;
    j.dbias = summed || distance ? NULL : dbias;
    j.whole = s->bk == s->Tk;
    j.scratch = scratch_size(s);
    float *after = (float *)a->workspace + workers(a) * j.scratch;
    find_padding(&j.s, a, &a->in[IDS], after);
    find_dropout(&j.s, a, &a->in[KEY]);
    j.distances = distance ? after + padding_size(s, &a->in[IDS]) : NULL;
    j.s.tail = tail_of(s, present(&a->in[BIAS]) ? &a->in[BIAS] : NULL);
    const int64_t q_blocks = query_blocks(s), k_blocks = (s->Tk + s->bk - 1) / s->bk;
    ls_parallel_for(a->threads, s->B * s->G * k_blocks, by_keys, &j);
    if (!j.whole)
        ls_parallel_for(a->threads, s->B * s->H * q_blocks, by_queries, &j);
    if (summed)
        ls_parallel_for(a->threads, s->H * q_blocks, by_bias, &j);
    if (distance)
        ls_parallel_for(a->threads, s->H, by_distance, &j);
}
