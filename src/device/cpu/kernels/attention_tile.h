/* attention_tile.h - one tile of attention: up to BLOCK_Q queries and a block of keys. attention.c and
 * attention_cached.c both go through a query's keys block by block, from the first key on, so a query gets
 * the same bits from both.
 *
 * The softmax over several blocks of keys is kept relative to the running maximum (Milakov and Gimelshein
 * 2018; FlashAttention, Dao et al. 2022). */
#pragma once
#include "attention_scores.h"

/* Elements of a block of keys: its rows and those of its values are in L2. */
enum { BLOCK_KEYS = 16384 };

/* Queries, and what is known of them so far. */
typedef struct tile_rows {
    int64_t n, b, h, query;    /* rows; their sample, head and first query */
    const float *q;            /* columns */
    float *y, *top, *sum;      /* [n][dp]: sums of p v; [n, padded]: largest score; sum of p relative to it */
    int64_t seen[BLOCK_Q];     /* how many keys of the block a row sees: the first ones, */
    int64_t skip[BLOCK_Q];     /* but for so many before its window */
    const char *bias[BLOCK_Q]; /* of key 0; NULL: none */
    const float *reversed;     /* the bias, if it is by distance and of one head; NULL */
} tile_rows;

/* A block of keys and values. */
typedef struct tile_keys {
    int64_t k0, n;
    bool first;         /* no block before this one is attended to: sums begin with it */
    const float *k, *v; /* rows; stacked */
    int64_t ldk, ldv;
} tile_keys;

typedef struct tile_scratch {
    float *rows, *staging, *stacked; /* of keys */
    float *scores; /* of a strip: [key][its vectors], then probabilities as words in their place */
    float *aside;
} tile_scratch;

SIMD_FN int64_t tile_scratch_size(const heads *s, bool aside)
{
    const int64_t keys = rows_size(s, s->bk);
    return 3 * keys + STRIP_MAX * round_up(s->bk, 2) + (aside ? aside_size(s) : 0);
}
SIMD_FN tile_scratch tile_scratch_at(const heads *s, float *at)
{
    const int64_t keys = rows_size(s, s->bk);
    tile_scratch w = { .rows = at, .staging = at + keys, .stacked = at + 2 * keys, .scores = at + 3 * keys };
    w.aside = w.scores + STRIP_MAX * round_up(s->bk, 2);
    return w;
}

SIMD_FN tile_keys load_keys(const heads *s, const ls_tensor *k, const ls_tensor *v, int64_t b, int64_t g,
                            int64_t k0, int64_t n, const tile_scratch *w)
{
    tile_keys t = { .k0 = k0, .n = n, .first = k0 == 0 };
    int64_t ld;
    t.k = rows_form(s, w->rows, key_at(s, k, b, k0, g), k->strides[1], n, &t.ldk);
    const float *rows = rows_form(s, w->staging, key_at(s, v, b, k0, g), v->strides[1], n, &ld);
    t.v = stacked_form(s, w->stacked, rows, ld, n, &t.ldv);
    return t;
}

/* Turns the products of a strip from row i on into probabilities relative to the running maximum, and
 * rescales earlier sums to a new maximum. They become f32 or bf16 (by unit), in place. */
SIMD_FN void softmax_strip(const heads *s, const int unit, const int vectors, const tile_rows *r, int64_t i,
                           strip *t, bool first, const tile_scratch *w)
{
    enum { L = VF_LANES };
    const int64_t ld = vectors * L;
    float *x = w->scores, shrink[STRIP];
    if (r->reversed)
        use_distances(s, t, r->reversed);
    else if (r->bias[i])
        load_bias(s, t, r->bias + i, w->aside);
    finish_scores(s, vectors, t, x, ld);
    const vf factor = exponents(s, t);
    const int32_t *keep = s->drops ? keep_columns(s, t, w->aside) : NULL;
    vf top[2], base[2], total[2];
    for (int v = 0; v < vectors; v++)
        top[v] = vf_load(r->top + i + v * L);
    for (int64_t j = 0; j < t->keys; j++)
        for (int v = 0; v < vectors; v++)
            top[v] = vf_max(vf_load(x + j * ld + v * L) * factor, top[v]);
    for (int v = 0; v < vectors; v++) {
        base[v] = base_of(top[v]);
        total[v] = vf_zero();
        vf_store(shrink + v * L, power_of_2(vf_load(r->top + i + v * L) - base[v]));
        vf_store(r->top + i + v * L, top[v]);
    }
    for (int64_t j = 0; j < t->keys; j += unit)
        for (int v = 0; v < vectors; v++) {
            vf p[2] = { vf_zero(), vf_zero() };
            for (int u = 0; u < unit && j + u < t->keys; u++) {
                p[u] = power_of_2(vf_fma(vf_load(x + (j + u) * ld + v * L), factor, vf_neg(base[v])));
                total[v] += p[u];
                if (keep)
                    p[u] = vi_as_vf(vf_bits(p[u]) & vi_load(keep + (j + u) * STRIP + v * L));
            }
            if (unit == 2)
                put_pairs(x + j / 2 * ld + v * L, p[0], p[1]);
            else
                vf_store(x + j * ld + v * L, p[0]);
        }
    for (int v = 0; v < vectors; v++) {
        float *sum = r->sum + i + v * L;
        vf_store(sum, vf_fma(vf_load(sum), vf_load(shrink + v * L), total[v]));
    }
    for (int64_t row = 0; row < t->n && !first; row++) {
        float *y = r->y + (i + row) * s->dp;
        for (int64_t c = 0; c < s->dp && shrink[row] != 1.0f; c += L)
            vf_store(y + c, vf_load(y + c) * shrink[row]);
    }
}

/* Goes on with a tile's queries by a block of keys. The scores of a strip are used while they are in L1. */
SIMD_FN void attend(const heads *s, const tile_rows *r, const tile_keys *k, const tile_scratch *w)
{
    for (int64_t i = 0, n; i < r->n; i += n) {
        const int vectors = strip_vectors(i, r->n, r->seen[i] < k->n);
        const int64_t ld = vectors * VF_LANES;
        n = min_i64(ld, r->n - i);
        strip t = strip_of(r->seen + i, n, r->b, r->h, r->query + i, k->k0);
        t.skip = s->window ? r->skip + i : NULL;
        multiply(s, t.keys, ld, words_of(s, s->D), k->k, k->ldk, 1, columns_at(s, r->q, i), STRIP, w->scores,
                 ld, false);
        if (s->unit == 1 && vectors == 2)
            softmax_strip(s, 1, 2, r, i, &t, k->first, w);
        else if (s->unit == 1)
            softmax_strip(s, 1, 1, r, i, &t, k->first, w);
        else if (vectors == 2)
            softmax_strip(s, 2, 2, r, i, &t, k->first, w);
        else
            softmax_strip(s, 2, 1, r, i, &t, k->first, w);
        multiply(s, n, s->dp, words_of(s, t.keys), w->scores, 1, ld, k->v, k->ldv, r->y + i * s->dp, s->dp,
                 !k->first);
    }
}
