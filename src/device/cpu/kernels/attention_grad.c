/* attention_grad.c - the gradient of attention, from the saved log-sum-exp. With p = exp(s - lse), dp = dy vT
 * and delta = rowsum(dy * y):  ds = p * (dp - delta), dv = pT dy, dk = scale * dsT q, dq = scale * ds k,
 * dbias = ds. With dropout, which multiplies p by f:  ds = p * (f * dp - delta), dv = (f * p)T dy.
 *
 * A head goes through its blocks of keys, and each block through the queries that see it: a tile takes five
 * products. The block's sums for dk and dv are complete after the last query; sums for dq stay in scratch,
 * f32 for the whole head, until the last block of keys. Sums of the heads that share a key head are added in
 * the order of heads, also where threads share them. So bits do not depend on threads. */
#include "table.h"
#include "attention_distances.h"
#include "attention_words.h"

enum { DY, Q, K, V, BIAS, Y, LSE, IDS, KEY };
enum { DQ, DK, DV, DBIAS };

typedef struct job {
    const ls_kernel_args *a;
    heads s;
    const ls_tensor *bias, *dbias; /* dbias: [1 or batch, heads, Tq, Tk], else NULL */
    float *distances;              /* dbias by distance: [sample, head, distance], else NULL */
    /* A task is a key head with its query heads; or, if it is split, one query head, whose sums for dk and dv
     * then go to `parts`, twice [sample, query head, key, D]. Of one sample; or of all, if dbias is their
     * sum. */
    bool split;
    float *parts;
    int64_t task_heads, task_samples;
    int64_t scratch; /* f32 of scratch for each worker */
} job;

typedef struct scratch {
    float *q, *dy, *stacked_q, *stacked_dy, *sum_q, *delta; /* of a head */
    float *group_k, *group_v;                               /* sums of a key head, [key][D] */
    float *rows, *columns_k, *columns_v, *stacked_k;        /* of a block of keys */
    float *sum_k, *sum_v;
    float *p, *ds, *ds_rows, *tail_p, *tail_ds; /* of a tile */
    float *bias;                                /* sums over samples, [Tq][Tk] */
    float *distances;                           /* of a head, see distances_at */
} scratch;

/* ---- scratch */

static bool by_distance(const ls_kernel_args *a)
{
    return present(&a->in[BIAS]) && a->in[BIAS].type.ndim == 2;
}
static bool summed_bias(const ls_kernel_args *a)
{
    return present(&a->in[BIAS]) && !by_distance(a) && a->in[BIAS].type.dims[0] < a->in[Q].type.dims[0];
}

/* Gives the parts of a worker's scratch their places (from NULL: none); returns its size in f32. */
static int64_t lay_out(const job *j, scratch *w, float *from)
{
    scratch none;
    w = w ? w : &none;
    const heads *s = &j->s;
    const bool pairs = s->t == LS_BF16;
    const int64_t head = rows_size(s, s->Tq), keys = rows_size(s, s->bk), tile = tile_s(s),
                  group = !j->split && s->H > s->G ? rows_size(s, s->Tk) : 0;
    const struct {
        float **at;
        int64_t size;
    } parts[] = {
        { &w->q, head },
        { &w->dy, head },
        { &w->stacked_q, pairs ? head / 2 : 0 },
        { &w->stacked_dy, pairs ? head / 2 : 0 },
        { &w->sum_q, head },
        { &w->delta, round_up(s->Tq, 16) },
        { &w->group_k, group },
        { &w->group_v, group },
        { &w->rows, keys },
        { &w->columns_k, keys },
        { &w->columns_v, keys },
        { &w->stacked_k, keys },
        { &w->sum_k, keys },
        { &w->sum_v, keys },
        { &w->p, tile },
        { &w->ds, tile },
        { &w->ds_rows, pairs ? tile / 2 : 0 },
        { &w->tail_p, tile_tail() },
        { &w->tail_ds, tile_tail() },
        { &w->bias, summed_bias(j->a) ? s->Tq * s->Tk : 0 },
        { &w->distances, by_distance(j->a) ? PHASES * distances_length(s) : 0 },
    };
    int64_t size = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        *parts[i].at = from ? from + size : NULL;
        size += round_up(parts[i].size, 16);
    }
    return size;
}

/* ---- a head's operands */

typedef struct queries {
    int64_t b, h;
    const float *q, *dy, *stacked_q, *stacked_dy, *lse;
    int64_t ldq, lddy, ld_stacked_q, ld_stacked_dy;
} queries;
typedef struct keys {
    int64_t k0, n, main; /* main: how many columns are computed by rows */
    const float *k, *v, *stacked_k;
    int64_t ldk, ldv, ld_stacked_k;
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

static queries load_queries(const job *j, const scratch *w, int64_t b, int64_t h)
{
    const heads *s = &j->s;
    const ls_tensor *in = j->a->in;
    const char *dy = head_at(&in[DY], b, 0, h, s->D);
    queries r = { .b = b, .h = h, .lse = (const float *)in[LSE].data + (b * s->H + h) * s->Tq };
    r.q = rows_form(s, w->q, head_at(&in[Q], b, 0, h, s->D), in[Q].strides[1], s->Tq, &r.ldq);
    r.dy = rows_form(s, w->dy, dy, in[DY].strides[1], s->Tq, &r.lddy);
    r.stacked_q = stacked_form(s, w->stacked_q, r.q, r.ldq, s->Tq, &r.ld_stacked_q);
    r.stacked_dy = stacked_form(s, w->stacked_dy, r.dy, r.lddy, s->Tq, &r.ld_stacked_dy);
    BY_FLOAT(s->t, delta_rows, w->delta, dy, in[DY].strides[1], head_at(&in[Y], b, 0, h, s->D),
             in[Y].strides[1], s->Tq, s->D);
    return r;
}

static keys load_keys(const job *j, const scratch *w, int64_t b, int64_t g, int64_t k0)
{
    const heads *s = &j->s;
    const ls_tensor *k = &j->a->in[K], *v = &j->a->in[V];
    keys r = { .k0 = k0, .n = min_i64(s->bk, s->Tk - k0) };
    r.main = row_part(s, r.n);
    /* (the rows of v are needed for the tail only, those of k also as they are if they are f32) */
    r.v = rows_form(s, w->rows, head_at(v, b, k0, g, s->D), v->strides[1], r.n, &r.ldv);
    columns_form(s, w->columns_v, r.main, r.v, r.ldv, min_i64(r.main, r.n));
    r.k = rows_form(s, s->unit == 1 ? w->stacked_k : w->rows, head_at(k, b, k0, g, s->D), k->strides[1], r.n,
                    &r.ldk);
    columns_form(s, w->columns_k, r.main, r.k, r.ldk, min_i64(r.main, r.n));
    r.stacked_k = stacked_form(s, w->stacked_k, r.k, r.ldk, r.n, &r.ld_stacked_k);
    return r;
}

/* ---- a tile: queries q0 .. q0+n against a block of keys */

/* Where a row's ds goes besides the products. */
SIMD_FN void put_bias(const job *j, const scratch *w, const queries *q, int64_t query, int64_t key, int n,
                      vf ds)
{
    const heads *s = &j->s;
    if (j->distances) {
        float *to = distances_at(s, w->distances, query) + key;
        vf_store(to, vf_load(to) + ds);
    } else if (j->task_samples > 1) {
        float *to = w->bias + query * s->Tk + key;
        vf_store_n(to, vf_load_n(to, n) + ds, n);
    } else {
        const int64_t row = ((q->b * s->H + q->h) * s->Tq + query) * s->Tk;
        vf_put_n(elem_at(j->dbias, row), s->t, key, ds, n);
    }
}

/* Makes f * p and ds of rows i and i + 1 of the tile (if there are two), in place of scores and dp. As f32
 * they keep their rows. As bf16, both rows become one of words, and ds_rows has ds by rows too.
 * plain: no bias, padding or dropout. */
SIMD_FN void make_rows(const job *j, const int unit, const bool plain, const scratch *w, const queries *q,
                       const keys *k, int64_t q0, int64_t i, int rows, int64_t width)
{
    const heads *s = &j->s;
    const int64_t ld = tile_width(s);
    int32_t keep[2 * KEEP_GROUP];
    if (!plain && s->drops)
        keep_rows(s, keep, q->b, q->h, q0 + i, k->k0);
    const char *bias[2];
    float base[2], delta[2];
    int64_t n[2];
    for (int r = 0; r < rows; r++) {
        const int64_t query = q0 + i + r;
        bias[r] = bias_row(s, j->bias, q->b, q->h, query);
        n[r] = visible(s, query, k->k0, k->n);
        base[r] = q->lse[query] == -__builtin_inff() ? 0.0f : q->lse[query]; /* -inf: it sees no key */
        delta[r] = w->delta[query];
    }
    for (int64_t c = 0; c < width; c += VF_LANES) {
        vf p[2] = { vf_zero(), vf_zero() }, ds[2] = { vf_zero(), vf_zero() };
        for (int r = 0; r < rows; r++) {
            const int64_t at = (i + r) * ld + c;
            const float *row = w->p + at - c;
            p[r] = probability(plain ? plain_score(s, row, c, n[r], base[r])
                                     : score_vector(s, row, bias[r], q->b, k->k0, c, n[r]) - base[r]);
            vf dp = vf_load(w->ds + at), kept = p[r];
            if (!plain && s->drops) {
                const vi mask = vi_load(keep + r * KEEP_GROUP + c);
                dp = vi_as_vf(vf_bits(dp * s->kept) & mask);
                kept = vi_as_vf(vf_bits(p[r] * s->kept) & mask);
            }
            ds[r] = p[r] * (dp - delta[r]);
            p[r] = kept;
            if (!plain && (j->dbias || j->distances))
                put_bias(j, w, q, q0 + i + r, k->k0 + c, (int)(k->n - c < VF_LANES ? k->n - c : VF_LANES),
                         ds[r]);
            if (unit == 1) {
                vf_store(w->p + at, p[r]);
                vf_store(w->ds + at, ds[r]);
            } else {
                put_bf16((uint16_t *)(w->ds_rows + (i + r) * (ld / 2)) + c, ds[r]);
            }
        }
        if (unit == 2) {
            put_pairs(w->p + i * ld + c, p[0], p[1]);
            put_pairs(w->ds + i * ld + c, ds[0], ds[1]);
        }
    }
}

/* Columns of the tail in p and ds. */
static void tail_columns(const heads *s, const scratch *w, const queries *q, const keys *k, int64_t n)
{
    const int64_t ld = tile_width(s);
    LS_NAME(ls_small_dots)
    (w->tail_p, BLOCK_Q, q->q, q->ldq, n, k->k + k->main * k->ldk, k->ldk, s->tail, s->dp);
    LS_NAME(ls_small_dots)
    (w->tail_ds, BLOCK_Q, q->dy, q->lddy, n, k->v + k->main * k->ldv, k->ldv, s->tail, s->dp);
    for (int64_t j = 0; j < s->tail; j++)
        for (int64_t i = 0; i < n; i += VF_LANES) {
            float *p = w->tail_p + j * BLOCK_Q + i, *ds = w->tail_ds + j * BLOCK_Q + i;
            const vf base = base_of(vf_load_n(q->lse + i, (int)min_i64(VF_LANES, n - i)));
            const vf x = probability(vf_load(p) * s->scale - base);
            vf_store(p, x);
            vf_store(ds, x * (vf_load(ds) - vf_load(w->delta + i)));
        }
    store_tail(s, w->p + k->main, ld, w->tail_p, n);
    store_tail(s, w->ds + k->main, ld, w->tail_ds, n);
}

/* Rows [i, end) of the tile, of keys that the last of them sees: p, ds, and their part of dq. */
static void tile_strip(const job *j, const scratch *w, const queries *q, const keys *k, int64_t q0, int64_t i,
                       int64_t end, int64_t seen)
{
    const heads *s = &j->s;
    const int64_t ld = tile_width(s), width = min_i64(k->main, round_up(seen, STRIP)), m = end - i,
                  depth = words_of(s, s->D), row = q0 + i;
    multiply(s, m, width, depth, q->q + row * q->ldq, q->ldq, 1, w->columns_k, k->main, w->p + i * ld, ld,
             false);
    multiply(s, m, width, depth, q->dy + row * q->lddy, q->lddy, 1, w->columns_v, k->main, w->ds + i * ld, ld,
             false);
    const bool plain = !j->bias && !s->hidden && !s->drops;
    for (int64_t r = i; r < end; r += 2) {
        const int rows = r + 1 < end ? 2 : 1;
        if (s->unit == 1 && plain)
            make_rows(j, 1, true, w, q, k, q0, r, rows, width);
        else if (s->unit == 1)
            make_rows(j, 1, false, w, q, k, q0, r, rows, width);
        else if (plain)
            make_rows(j, 2, true, w, q, k, q0, r, rows, width);
        else
            make_rows(j, 2, false, w, q, k, q0, r, rows, width);
    }
    if (s->tail)
        tail_columns(s, w, q, k, m);
    const float *ds = s->unit == 2 ? w->ds_rows : w->ds;
    const int64_t ld_ds = ld / s->unit;
    multiply(s, m, s->dp, words_of(s, seen), ds + i * ld_ds, ld_ds, 1, k->stacked_k, k->ld_stacked_k,
             w->sum_q + row * s->dp, s->dp, true);
}

static void tile(const job *j, const scratch *w, const queries *q, const keys *k, int64_t q0, int64_t n,
                 bool add)
{
    const heads *s = &j->s;
    const int64_t ld = tile_width(s);
    /* on the border of what queries see; dbias has the zeros beyond it as well */
    const bool border = visible(s, q0, k->k0, k->n) < k->n && !j->dbias;
    for (int64_t i = 0, end; i < n; i = end) {
        end = s->tail ? n : min_i64(i + STRIP, n);
        tile_strip(j, w, q, k, q0, i, end, border ? visible(s, q0 + end - 1, k->k0, k->n) : k->n);
    }
    for (int64_t c = 0, end; c < k->n; c = end) {
        end = border ? min_i64(c + STRIP, k->n) : k->n;
        /* the strip of the first query that sees key c */
        const int64_t query = k->k0 + c + s->Tq - s->Tk - q0,
                      i = border && query > 0 ? min_i64(query / STRIP * STRIP, n) : 0,
                      depth = words_of(s, n - i), from = (q0 + i) / s->unit;
        multiply(s, end - c, s->dp, depth, w->p + i * ld + c, 1, ld * s->unit,
                 q->stacked_dy + from * q->ld_stacked_dy, q->ld_stacked_dy, w->sum_v + c * s->dp, s->dp, add);
        multiply(s, end - c, s->dp, depth, w->ds + i * ld + c, 1, ld * s->unit,
                 q->stacked_q + from * q->ld_stacked_q, q->ld_stacked_q, w->sum_k + c * s->dp, s->dp, add);
    }
}

/* ---- dk and dv */

static void store_keys(const job *j, int64_t b, int64_t g, int64_t k0, int64_t n, const float *sum_k,
                       const float *sum_v)
{
    const heads *s = &j->s;
    const ls_tensor *dk = &j->a->out[DK], *dv = &j->a->out[DV];
    const float one = 1.0f;
    store_rows(s, head_at(dk, b, k0, g, s->D), dk->strides[1], sum_k, n, &s->scale, 0);
    store_rows(s, head_at(dv, b, k0, g, s->D), dv->strides[1], sum_v, n, &one, 0);
}

static float *part_of(const job *j, int which, int64_t b, int64_t h)
{
    const heads *s = &j->s;
    return j->parts + ((which * s->B + b) * s->H + h) * rows_size(s, s->Tk);
}

SIMD_FN void add_to(float *to, const float *from, int64_t n)
{
    for (int64_t i = 0; i < n; i += VF_LANES)
        vf_store(to + i, vf_load(to + i) + vf_load(from + i));
}

/* A block of keys is complete for head h: stores it, or keeps it until the other heads of the group are. */
static void finish_keys(const job *j, const scratch *w, int64_t b, int64_t h, const keys *k)
{
    const heads *s = &j->s;
    const int64_t group = s->H / s->G, at = k->k0 * s->dp, size = k->n * s->dp;
    if (group == 1) {
        store_keys(j, b, h, k->k0, k->n, w->sum_k, w->sum_v);
        return;
    }
    float *sum_k = (j->split ? part_of(j, 0, b, h) : w->group_k) + at,
          *sum_v = (j->split ? part_of(j, 1, b, h) : w->group_v) + at;
    if (j->split || h % group == 0) {
        memcpy(sum_k, w->sum_k, sizeof(float) * (size_t)size);
        memcpy(sum_v, w->sum_v, sizeof(float) * (size_t)size);
    } else {
        add_to(sum_k, w->sum_k, size);
        add_to(sum_v, w->sum_v, size);
    }
    if (!j->split && h % group == group - 1)
        store_keys(j, b, h / group, k->k0, k->n, sum_k, sum_v);
}

static void by_key_head(void *context, int64_t begin, int64_t end, int worker)
{ /* task = (sample, key head): adds the parts of its query heads */
    const job *j = context;
    const heads *s = &j->s;
    const int64_t group = s->H / s->G;
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        const int64_t b = t / s->G, g = t % s->G;
        float *sum_k = part_of(j, 0, b, g * group), *sum_v = part_of(j, 1, b, g * group);
        for (int64_t h = g * group + 1; h < (g + 1) * group; h++) {
            add_to(sum_k, part_of(j, 0, b, h), s->Tk * s->dp);
            add_to(sum_v, part_of(j, 1, b, h), s->Tk * s->dp);
        }
        store_keys(j, b, g, 0, s->Tk, sum_k, sum_v);
    }
}

/* ---- heads */

static void head(const job *j, const scratch *w, int64_t b, int64_t h)
{
    const heads *s = &j->s;
    const ls_tensor *dq = &j->a->out[DQ];
    const queries q = load_queries(j, w, b, h);
    memset(w->sum_q, 0, sizeof(float) * (size_t)(s->Tq * s->dp));
    if (j->distances)
        memset(w->distances, 0, sizeof(float) * (size_t)(PHASES * distances_length(s)));
    for (int64_t k0 = 0; k0 < s->Tk; k0 += s->bk) {
        keys k = { .k0 = k0, .n = min_i64(s->bk, s->Tk - k0) };
        bool add = false;
        for (int64_t q0 = 0; q0 < s->Tq; q0 += s->bq) {
            const int64_t n = min_i64(s->bq, s->Tq - q0);
            const bool unseen = k0 >= keys_end(s, b) || visible(s, q0 + n - 1, k0, k.n) == 0;
            if (unseen && !j->dbias)
                continue;
            if (!add)
                k = load_keys(j, w, b, h / (s->H / s->G), k0);
            tile(j, w, &q, &k, q0, n, add);
            add = true;
        }
        if (!add) { /* nobody sees these keys */
            memset(w->sum_k, 0, sizeof(float) * (size_t)(k.n * s->dp));
            memset(w->sum_v, 0, sizeof(float) * (size_t)(k.n * s->dp));
        }
        finish_keys(j, w, b, h, &k);
    }
    store_rows(s, head_at(dq, b, 0, h, s->D), dq->strides[1], w->sum_q, s->Tq, &s->scale, 0);
    if (j->distances)
        add_phases(s, j->distances + (b * s->H + h) * distances_row(s), w->distances);
}

SIMD_FN void store_bias_as(ls_dtype T, void *to, const float *from, int64_t n)
{
    for (int64_t i = 0; i < n; i += VF_LANES) {
        const int some = (int)min_i64(VF_LANES, n - i);
        vf_put_n(to, T, i, vf_load_n(from + i, some), some);
    }
}

static void by_heads(void *context, int64_t begin, int64_t end, int worker)
{ /* task = (sample or all samples, task_heads heads) */
    const job *j = context;
    const heads *s = &j->s;
    const int64_t n = s->H / j->task_heads, pairs = s->Tq * s->Tk;
    scratch w;
    lay_out(j, &w, (float *)j->a->workspace + worker * j->scratch);
    for (int64_t t = begin; t < end; t++) {
        const int64_t b0 = t / n * j->task_samples, h0 = t % n * j->task_heads;
        if (j->task_samples > 1)
            memset(w.bias, 0, sizeof(float) * (size_t)pairs);
        for (int64_t b = b0; b < b0 + j->task_samples; b++)
            for (int64_t h = h0; h < h0 + j->task_heads; h++)
                head(j, &w, b, h);
        if (j->task_samples > 1 && j->dbias)
            BY_FLOAT(s->t, store_bias_as, elem_at(j->dbias, h0 * pairs), w.bias, pairs);
    }
}

static void sum_distances(void *context, int64_t begin, int64_t end, int worker)
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
                sum += vf_load(j->distances + (b * s->H + h) * distances_row(s) + d);
            vf_put_n(elem_at(out, h * n), out->type.dtype, d, sum, (int)min_i64(VF_LANES, n - d));
        }
}

/* Memory of a job, in f32. */
static int64_t parts_size(const job *j)
{
    return j->split ? 2 * j->s.B * j->s.H * rows_size(&j->s, j->s.Tk) : 0;
}
static int64_t distances_size(const job *j)
{
    return by_distance(j->a) ? j->s.B * j->s.H * distances_row(&j->s) : 0;
}

static job job_of(const ls_kernel_args *a)
{
    job j = { .a = a,
              .s = heads_of(a, &a->in[Q], &a->in[K]),
              .bias = present(&a->in[BIAS]) ? &a->in[BIAS] : NULL };
    const int64_t group = j.s.H / j.s.G, key_heads = j.s.B * j.s.G;
    const bool summed = summed_bias(a),
               uneven = key_heads < 4 * workers(a) && key_heads % workers(a); /* shares of key heads */
    j.split = group > 1 && (summed || uneven);
    j.task_samples = summed ? j.s.B : 1;
    j.task_heads = j.split ? 1 : group;
    j.scratch = lay_out(&j, NULL, NULL);
    return j;
}

KERNEL_WORKSPACE(attention_grad)
{
    const job j = job_of(a);
    return sizeof(float) * (size_t)(workers(a) * j.scratch + padding_size(&j.s, &a->in[IDS]) +
                                    parts_size(&j) + distances_size(&j));
}

KERNEL(attention_grad)
{ /* dy, q, k, v, bias?, y, lse, ids?, key? -> dq, dk, dv, dbias if bias */
    job j = job_of(a);
    const bool wanted = a->n_out > DBIAS && present(&a->out[DBIAS]);
    float *at = (float *)a->workspace + workers(a) * j.scratch;
    find_padding(&j.s, a, &a->in[IDS], at);
    find_dropout(&j.s, a, &a->in[KEY]);
    j.parts = at + padding_size(&j.s, &a->in[IDS]);
    j.distances = wanted && by_distance(a) ? j.parts + parts_size(&j) : NULL;
    j.dbias = wanted && !by_distance(a) ? &a->out[DBIAS] : NULL;
    j.s.tail = tail_of(&j.s, j.bias);
    ls_parallel_for(a->threads, j.s.B / j.task_samples * j.s.H / j.task_heads, by_heads, &j);
    if (j.split)
        ls_parallel_for(a->threads, j.s.B * j.s.G, by_key_head, &j);
    if (j.distances)
        ls_parallel_for(a->threads, j.s.H, sum_distances, &j);
}
