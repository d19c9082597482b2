/* attention_grad.c - the gradient of attention, from the saved log-sum-exp. With p = exp(s - lse), dp = dy vT
 * and delta = rowsum(dy * y): ds = p * (dp - delta), dv = pT dy, dk = scale * dsT q, dq = scale * ds k,
 * dbias = ds. With dropout, which multiplies p by f: ds = p * (f * dp - delta), dv = (f * p)T dy.
 *
 * A head goes through its blocks of keys, and each block through the queries that see it: a tile takes five
 * products. The block's sums for dk and dv are complete after the last query; sums for dq stay in scratch,
 * f32 for the whole head, until the last block of keys. Sums of the heads that share a key head are added in
 * the order of heads, also where threads share them. So bits do not depend on threads. */
#include "table.h"
#include "attention_distances.h"
#include "attention_scores.h"

enum { BLOCK_KEYS = 8192 }; /* elements of a block of keys: p and ds of a tile are as large */
/* On the border of what queries see, this many keys at a time are cut where the first query sees them. */
enum { KEY_STRIP = 16 };

enum { DY, Q, K, V, BIAS, Y, LSE, IDS, KEY, POSITIONS };
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
    float *q, *dy, *columns_q, *columns_dy, *stacked_q, *stacked_dy, *sum_q; /* of a head */
    float *base, *delta;      /* of a head's queries: log-sum-exp as an exponent of 2; delta */
    float *group_k, *group_v; /* sums of a key head, [key][D] */
    float *k, *v, *stacked_k, *sum_k, *sum_v; /* of a block of keys */
    float *p, *ds, *ds_rows;                  /* of a tile, [key][tile_ld] */
    float *aside;
    float *reversed;  /* the bias of a head, if it is by distance */
    float *bias;      /* sums over samples, [Tq][Tk] */
    float *distances; /* of a head, see distances_at */
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

SIMD_FN int64_t tile_ld(const heads *s) { return round_up(s->bq, STRIP_MAX); }

/* Gives the parts of a worker's scratch their places (from NULL: none); returns its size in f32. */
static int64_t attention_grad_lay_out(const job *j, scratch *w, float *from)
{
    scratch none;
    w = w ? w : &none;
    const heads *s = &j->s;
    const bool pairs = s->t == LS_BF16;
    const int64_t head = rows_size(s, s->Tq), columns = columns_size(s, s->Tq), keys = rows_size(s, s->bk),
                  queries = round_up(s->Tq, STRIP_MAX), tile = round_up(s->bk, 2) * tile_ld(s),
                  group = !j->split && s->H > s->G ? rows_size(s, s->Tk) : 0;
    const struct {
        float **at;
        int64_t size;
    } parts[] = {
        { &w->q, head },
        { &w->dy, head },
        { &w->columns_q, columns },
        { &w->columns_dy, columns },
        { &w->stacked_q, pairs ? head / 2 : 0 },
        { &w->stacked_dy, pairs ? head / 2 : 0 },
        { &w->sum_q, head },
        { &w->base, queries },
        { &w->delta, queries },
        { &w->group_k, group },
        { &w->group_v, group },
        { &w->k, keys },
        { &w->v, keys },
        { &w->stacked_k, pairs ? keys : 0 },
        { &w->sum_k, keys },
        { &w->sum_v, keys },
        { &w->p, tile },
        { &w->ds, tile },
        { &w->ds_rows, pairs ? tile / 2 : 0 },
        { &w->aside, (j->bias && !by_distance(j->a)) || present(&j->a->in[KEY]) ? aside_size(s) : 0 },
        { &w->reversed, by_distance(j->a) ? reversed_size(s) : 0 },
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
    const float *q, *dy, *stacked_q, *stacked_dy;
    int64_t ldq, lddy, ld_stacked_q, ld_stacked_dy;
} queries;
typedef struct keys {
    int64_t k0, n;
    const float *k, *v, *stacked_k;
    int64_t ldk, ldv, ld_stacked_k;
} keys;

/* Behind the last query, lanes of a strip get p = 0. */
static queries load_queries(const job *j, const scratch *w, int64_t b, int64_t h)
{
    const heads *s = &j->s;
    const ls_tensor *in = j->a->in;
    const char *dy = query_at(s, &in[DY], b, 0, h);
    const float *lse = (const float *)in[LSE].data + query_number(s, b, h, 0);
    queries r = { .b = b, .h = h };
    r.q = rows_form(s, w->q, query_at(s, &in[Q], b, 0, h), in[Q].strides[1], s->Tq, &r.ldq);
    r.dy = rows_form(s, w->dy, dy, in[DY].strides[1], s->Tq, &r.lddy);
    columns_form(s, w->columns_q, r.q, r.ldq, s->Tq);
    columns_form(s, w->columns_dy, r.dy, r.lddy, s->Tq);
    r.stacked_q = stacked_form(s, w->stacked_q, r.q, r.ldq, s->Tq, &r.ld_stacked_q);
    r.stacked_dy = stacked_form(s, w->stacked_dy, r.dy, r.lddy, s->Tq, &r.ld_stacked_dy);
    BY_FLOAT(s->t, delta_rows, w->delta, dy, in[DY].strides[1], query_at(s, &in[Y], b, 0, h),
             in[Y].strides[1], s->Tq, s->D);
    for (int64_t i = 0; i < round_up(s->Tq, STRIP); i++) {
        w->base[i] = i >= s->Tq ? 1e30f : lse[i] == -__builtin_inff() ? 0.0f : lse[i] * LOG2_E;
        w->delta[i] = i < s->Tq ? w->delta[i] : 0.0f;
    }
    if (by_distance(j->a))
        reverse_distances(s, w->reversed, bias_row(s, j->bias, b, h, s->Tq - 1));
    return r;
}

static keys load_keys(const job *j, const scratch *w, int64_t b, int64_t g, int64_t k0)
{
    const heads *s = &j->s;
    const ls_tensor *k = &j->a->in[K], *v = &j->a->in[V];
    keys r = { .k0 = k0, .n = min_i64(s->bk, s->Tk - k0) };
    r.k = rows_form(s, w->k, key_at(s, k, b, k0, g), k->strides[1], r.n, &r.ldk);
    r.v = rows_form(s, w->v, key_at(s, v, b, k0, g), v->strides[1], r.n, &r.ldv);
    r.stacked_k = stacked_form(s, w->stacked_k, r.k, r.ldk, r.n, &r.ld_stacked_k);
    return r;
}

/* ---- a tile: queries q0 .. q0+n against a block of keys */

/* Stores the strip's ds, [key][STRIP] in w->aside, in dbias; adds it to the sum if samples share the bias. */
static void put_bias(const job *j, const scratch *w, const strip *t)
{
    const heads *s = &j->s;
    const int64_t width = round_up(t->keys, VF_LANES);
    float *rows = aside_columns(s, w->aside);
    LS_NAME(ls_small_transpose)(rows, width, w->aside, STRIP, t->keys, STRIP);
    for (int64_t i = 0; i < t->n; i++)
        for (int64_t c = 0; c < t->keys; c += VF_LANES) {
            const int n = (int)min_i64(VF_LANES, t->keys - c);
            const vf ds = vf_load(rows + i * width + c);
            if (j->task_samples > 1) {
                float *to = w->bias + (t->query + i) * s->Tk + t->k0 + c;
                vf_store_n(to, vf_load_n(to, n) + ds, n);
            } else {
                const int64_t row = ((t->b * s->H + t->h) * s->Tq + t->query + i) * s->Tk;
                vf_put_n(elem_at(j->dbias, row), s->t, t->k0 + c, ds, n);
            }
        }
}

/* For the bias: puts ds of a key and vector v of the strip aside, or adds it to the sums by distance. */
SIMD_FN void take_bias(const job *j, const scratch *w, const strip *t, int64_t key, int v, vf ds)
{
    if (j->dbias) {
        vf_store(w->aside + key * STRIP + v * VF_LANES, ds);
        return;
    }
    float *to = distances_at(&j->s, w->distances, t->k0 + key) + t->query + v * VF_LANES;
    vf_store(to, vf_load(to) + ds);
}

/* Makes f * p and ds of the strip from row i of the tile on, in place of scores and dp. As f32 they stay
 * where they are. As bf16, f * p and ds_rows are rows of keys, and in ds two rows become one of words. */
SIMD_FN void make_strip(const job *j, const int unit, const int vectors, const scratch *w, strip *t,
                        int64_t i)
{
    enum { L = VF_LANES };
    const heads *s = &j->s;
    const int64_t ld = tile_ld(s);
    if (by_distance(j->a)) {
        use_distances(s, t, w->reversed);
    } else if (j->bias) {
        const char *rows[STRIP];
        for (int64_t r = 0; r < t->n; r++)
            rows[r] = bias_row(s, j->bias, t->b, t->h, t->query + r);
        load_bias(s, t, rows, w->aside);
    }
    finish_scores(s, vectors, t, w->p + i, ld);
    const vf factor = exponents(s, t), scale_kept = vf_set1(s->kept);
    const int32_t *keep = s->drops ? keep_columns(s, t, w->aside) : NULL;
    const bool bias_wanted = j->dbias || j->distances;
    float *const scores = w->p, *const products = w->ds, *const ds_rows = w->ds_rows; /* loaded once */
    vf minus_base[2], delta[2];
    for (int v = 0; v < vectors; v++) {
        minus_base[v] = vf_neg(vf_load(w->base + t->query + v * L));
        delta[v] = vf_load(w->delta + t->query + v * L);
    }
    for (int64_t key = 0; key < t->keys; key += unit)
        for (int v = 0; v < vectors; v++) {
            vf ds[2] = { vf_zero(), vf_zero() };
            for (int u = 0; u < unit && key + u < t->keys; u++) {
                const int64_t row = key + u, at = row * ld + i + v * L;
                vf p = power_of_2(vf_fma(vf_load(scores + at), factor, minus_base[v])),
                   dp = vf_load(products + at), kept = p;
                if (keep) {
                    const vi mask = vi_load(keep + row * STRIP + v * L);
                    dp = vi_as_vf(vf_bits(dp * scale_kept) & mask);
                    kept = vi_as_vf(vf_bits(p * scale_kept) & mask);
                }
                ds[u] = p * (dp - delta[v]);
                if (unit == 1) {
                    vf_store(scores + at, kept);
                    vf_store(products + at, ds[u]);
                } else {
                    put_bf16((uint16_t *)(scores + row * ld) + i + v * L, kept);
                    put_bf16((uint16_t *)(ds_rows + row * (ld / 2)) + i + v * L, ds[u]);
                }
                if (bias_wanted)
                    take_bias(j, w, t, row, v, ds[u]);
            }
            if (unit == 2)
                put_pairs(products + key * ld + i + v * L, ds[0], ds[1]);
        }
    if (j->dbias)
        put_bias(j, w, t);
}

/* Queries i .. of the tile, one or two vectors: p, ds, and their part of dq. */
static void tile_strip(const job *j, const scratch *w, const keys *k, strip *t, int64_t i, int vectors)
{
    const heads *s = &j->s;
    const int64_t ld = tile_ld(s), depth = words_of(s, s->D), n = vectors * VF_LANES;
    multiply(s, t->keys, n, depth, k->k, k->ldk, 1, columns_at(s, w->columns_q, t->query), STRIP, w->p + i,
             ld, false);
    multiply(s, t->keys, n, depth, k->v, k->ldv, 1, columns_at(s, w->columns_dy, t->query), STRIP, w->ds + i,
             ld, false);
    if (s->unit == 1 && vectors == 2)
        make_strip(j, 1, 2, w, t, i);
    else if (s->unit == 1)
        make_strip(j, 1, 1, w, t, i);
    else if (vectors == 2)
        make_strip(j, 2, 2, w, t, i);
    else
        make_strip(j, 2, 1, w, t, i);
    multiply(s, t->n, s->dp, words_of(s, t->keys), w->ds + i, 1, ld * s->unit, k->stacked_k, k->ld_stacked_k,
             w->sum_q + t->query * s->dp, s->dp, true);
}

static void tile(const job *j, const scratch *w, const queries *q, const keys *k, int64_t q0, int64_t n,
                 bool add)
{
    const heads *s = &j->s;
    const int64_t ld = tile_ld(s), ld_ds = ld / s->unit;
    const float *ds = s->unit == 2 ? w->ds_rows : w->ds;
    int64_t seen[BLOCK_Q], skip[BLOCK_Q];
    for (int64_t i = 0; i < n; i++) {
        seen[i] = visible(s, q0 + i, k->k0, k->n);
        skip[i] = skipped(s, q0 + i + s->apart, k->k0);
    }
    /* on the border of what queries see; dbias has the zeros beyond it as well */
    const bool border = visible(s, q0, k->k0, k->n) < k->n && !j->dbias;
    for (int64_t i = 0, some; i < n; i += some) {
        const int vectors = strip_vectors(i, n, border && seen[i] < k->n);
        some = min_i64((int64_t)vectors * VF_LANES, n - i);
        strip t = strip_of(seen + i, some, q->b, q->h, q0 + i, k->k0);
        t.skip = s->window ? skip + i : NULL;
        t.keys = border ? min_i64(round_up(t.keys, KEY_STRIP), k->n) : k->n;
        tile_strip(j, w, k, &t, i, vectors);
    }
    for (int64_t c = 0, end; c < k->n; c = end) {
        end = border ? min_i64(c + KEY_STRIP, k->n) : k->n;
        /* the strip of the first query that sees key c */
        const int64_t query = k->k0 + c - s->apart - q0,
                      i = !border || query < 0 ? 0
                          : query < n          ? query / VF_LANES * VF_LANES
                                               : n,
                      depth = words_of(s, n - i), from = (q0 + i) / s->unit;
        multiply(s, end - c, s->dp, depth, w->p + c * ld + i / s->unit, ld, 1,
                 q->stacked_dy + from * q->ld_stacked_dy, q->ld_stacked_dy, w->sum_v + c * s->dp, s->dp, add);
        multiply(s, end - c, s->dp, depth, ds + c * ld_ds + i / s->unit, ld_ds, 1,
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
    store_rows(s, key_at(s, dk, b, k0, g), dk->strides[1], sum_k, n, &s->scale, 0);
    store_rows(s, key_at(s, dv, b, k0, g), dv->strides[1], sum_v, n, &one, 0);
}

/* The sums of head h for the document's first key. */
static float *part_of(const job *j, int which, int64_t b, int64_t h)
{
    const heads *s = &j->s;
    return j->parts + ((which * s->B + b) * s->H + h) * rows_size(s, s->all_k) + s->first_k * s->dp;
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

/* ---- heads of a document */

static void attention_grad_head(const job *j, const scratch *w, int64_t b, int64_t h)
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
            const bool unseen = k0 >= keys_end(s, b) || visible(s, q0 + n - 1, k0, k.n) == 0 ||
                                skipped(s, q0 + s->apart, k0) >= k.n;
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
    store_rows(s, query_at(s, dq, b, 0, h), dq->strides[1], w->sum_q, s->Tq, &s->scale, 0);
    if (j->distances)
        add_phases(s, j->distances + (b * s->H + h) * distances_row(s), w->distances);
}

/* Heads h0 .. h0 + task_heads of sample b. */
static void attention_grad_sample(const job *j, const scratch *w, int64_t b, int64_t h0)
{
    if (!j->s.positions) {
        for (int64_t h = h0; h < h0 + j->task_heads; h++)
            attention_grad_head(j, w, b, h);
        return;
    }
    job part = *j;
    for (int64_t begin = 0, end; begin < j->s.all_k; begin = end) {
        end = document_end(&j->s, b, begin);
        part.s = document_of(&j->s, begin, end);
        for (int64_t h = h0; h < h0 + j->task_heads; h++)
            attention_grad_head(&part, w, b, h);
    }
}

static void by_heads(void *context, int64_t begin, int64_t end, int worker)
{ /* task = (sample or all samples, task_heads heads) */
    const job *j = context;
    const heads *s = &j->s;
    const int64_t n = s->H / j->task_heads, pairs = s->Tq * s->Tk;
    scratch w;
    attention_grad_lay_out(j, &w, (float *)j->a->workspace + worker * j->scratch);
    for (int64_t t = begin; t < end; t++) {
        const int64_t b0 = t / n * j->task_samples, h0 = t % n * j->task_heads;
        if (j->task_samples > 1)
            memset(w.bias, 0, sizeof(float) * (size_t)pairs);
        for (int64_t b = b0; b < b0 + j->task_samples; b++)
            attention_grad_sample(j, &w, b, h0);
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

static job attention_grad_job_of(const ls_kernel_args *a)
{
    job j = { .a = a,
              .s = heads_of(a, &a->in[Q], &a->in[K], POSITIONS, BLOCK_KEYS),
              .bias = present(&a->in[BIAS]) ? &a->in[BIAS] : NULL };
    const int64_t group = j.s.H / j.s.G, key_heads = j.s.B * j.s.G;
    const bool summed = summed_bias(a),
               uneven = key_heads < 4 * workers(a) && key_heads % workers(a); /* shares of key heads */
    j.split = group > 1 && (summed || uneven);
    j.task_samples = summed && j.s.B ? j.s.B : 1;
    j.task_heads = j.split ? 1 : group;
    j.scratch = attention_grad_lay_out(&j, NULL, NULL);
    return j;
}

KERNEL_WORKSPACE(attention_grad)
{
    const job j = attention_grad_job_of(a);
    return sizeof(float) * (size_t)(workers(a) * j.scratch + padding_size(&j.s, &a->in[IDS]) +
                                    parts_size(&j) + distances_size(&j));
}

KERNEL(attention_grad)
{ /* dy, q, k, v, bias?, y, lse, ids?, key?, positions? -> dq, dk, dv, dbias if bias */
    job j = attention_grad_job_of(a);
    const bool wanted = a->n_out > DBIAS && present(&a->out[DBIAS]);
    float *at = (float *)a->workspace + workers(a) * j.scratch;
    find_padding(&j.s, a, &a->in[IDS], at);
    find_dropout(&j.s, a, &a->in[KEY]);
    j.parts = at + padding_size(&j.s, &a->in[IDS]);
    j.distances = wanted && by_distance(a) ? j.parts + parts_size(&j) : NULL;
    j.dbias = wanted && !by_distance(a) ? &a->out[DBIAS] : NULL;
    if (j.dbias && !j.s.B) /* no sample adds to the bias they share */
        memset(j.dbias->data, 0, (size_t)(count_of(j.dbias) * elem_size(j.dbias->type.dtype)));
    ls_parallel_for(a->threads, j.s.B / j.task_samples * j.s.H / j.task_heads, by_heads, &j);
    if (j.split)
        ls_parallel_for(a->threads, j.s.B * j.s.G, by_key_head, &j);
    if (j.distances)
        ls_parallel_for(a->threads, j.s.H, sum_distances, &j);
}
