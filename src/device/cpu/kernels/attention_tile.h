/* attention_tile.h - one tile of attention: up to BLOCK_Q rows of queries and BLOCK_K keys. attention.c and
 * attention_cached.c both go through a query's keys tile by tile, from the first key on, so a query gets the
 * same bits from both.
 *
 * The softmax over several blocks of keys is kept relative to the running maximum (Milakov and Gimelshein
 * 2018; FlashAttention, Dao et al. 2022). */
#pragma once
#include "attention_words.h"

/* Rows of queries, and what is known of them so far. */
typedef struct tile_rows {
    int64_t n, b; /* rows; their sample */
    const float *q;
    int64_t ldq;
    float *y, *top, *sum;      /* [n][dp]: sums of p v; [n]: largest score; sum of p relative to it */
    int64_t seen[BLOCK_Q];     /* how many keys of the tile a row sees: the first ones */
    const char *bias[BLOCK_Q]; /* of key 0; NULL: none */
    const int32_t *keep;       /* [n][BLOCK_K] random masks; NULL: no dropout */
    /* What row i prefetches while the processor multiplies: a head's part of row i of tensors that are needed
     * soon. Hardware does not see them coming, as parts of rows lie apart. */
    int aheads;
    const char *ahead[4];
    int64_t ahead_stride[4]; /* bytes */
} tile_rows;

/* A block of keys and values. */
typedef struct tile_keys {
    int64_t k0, n;
    const float *k, *v, *columns; /* v is stacked; columns: of all keys except the tail */
    int64_t ldk, ldv, width;      /* width: of a row of columns */
} tile_keys;

typedef struct tile_scratch {
    float *scores; /* [BLOCK_Q][tile_width]: scores, then probabilities in their place, as words */
    float *tail;   /* [tail][BLOCK_Q] */
} tile_scratch;

typedef struct key_scratch {
    float *rows, *columns, *stacked; /* rows_size each */
} key_scratch;

SIMD_FN tile_keys load_keys(const heads *s, const ls_tensor *k, const ls_tensor *v, int64_t b, int64_t g,
                            int64_t k0, int64_t n, const key_scratch *w)
{
    tile_keys t = { .k0 = k0, .n = n, .width = row_part(s, n), .columns = w->columns };
    int64_t ld;
    t.k = rows_form(s, w->rows, head_at(k, b, k0, g, s->D), k->strides[1], n, &t.ldk);
    columns_form(s, w->columns, t.width, t.k, t.ldk, min_i64(t.width, n));
    /* (the tail's keys are needed later, so f32 of v goes elsewhere) */
    const float *rows = rows_form(s, s->unit == 1 ? w->stacked : w->rows, head_at(v, b, k0, g, s->D),
                                  v->strides[1], n, &ld);
    t.v = stacked_form(s, w->stacked, rows, ld, n, &t.ldv);
    return t;
}

/* Turns the scores of a row into probabilities relative to the running maximum, and rescales earlier sums to
 * a new maximum. They become f32 or bf16 (by unit), in place. plain: no bias, padding or dropout. */
SIMD_FN void softmax_row(const heads *s, const int unit, const bool plain, float *row, const tile_rows *r,
                         int64_t i, const tile_keys *k, int64_t width)
{
    const int64_t n = r->seen[i];
    const float before = r->top[i];
    vf most = vf_set1(before), total = vf_zero();
    for (int64_t c = 0; c < width; c += VF_LANES) {
        const vf x = plain ? plain_score(s, row, c, n, 0.0f)
                           : score_vector(s, row, r->bias[i], r->b, k->k0, c, n);
        most = vf_max(x, most);
        if (!plain)
            vf_store(row + c, x);
    }
    const float top = vf_max_lane(most), base = top == -__builtin_inff() ? 0.0f : top;
    for (int64_t c = 0; c < width; c += VF_LANES) {
        vf p = probability(plain ? plain_score(s, row, c, n, base) : vf_load(row + c) - base);
        total += p;
        if (!plain && r->keep)
            p = vi_as_vf(vf_bits(p) & vi_load(r->keep + i * BLOCK_K + c));
        if (unit == 2)
            put_bf16((uint16_t *)row + c, p);
        else
            vf_store(row + c, p);
    }
    if (k->k0 > 0 && base > before) {
        const vf shrink = probability(vf_set1(before - base));
        float *y = r->y + i * s->dp;
        r->sum[i] *= shrink[0];
        for (int64_t c = 0; c < s->dp; c += VF_LANES)
            vf_store(y + c, vf_load(y + c) * shrink);
    }
    r->sum[i] += vf_sum(total);
    r->top[i] = top;
}
SIMD_FN void fetch_ahead(const heads *s, const tile_rows *r, int64_t i)
{
    for (int a = 0; a < r->aheads; a++)
        for (int64_t byte = 0; byte < s->D * elem_size(s->t); byte += 64)
            __builtin_prefetch(r->ahead[a] + i * r->ahead_stride[a] + byte, 0, 2);
}
SIMD_FN void softmax_rows(const heads *s, const int unit, const bool plain, const tile_rows *r,
                          const tile_keys *k, const tile_scratch *w, int64_t i, int64_t end, int64_t width)
{
    for (int64_t row = i; row < end; row++) {
        fetch_ahead(s, r, row);
        softmax_row(s, unit, plain, w->scores + row * tile_width(s), r, row, k, width);
    }
}

/* Scores of the tail's keys, and the maximum of each query's, with which the rows continue. */
SIMD_FN void tail_scores(const heads *s, const tile_rows *r, const tile_keys *k, float *tail)
{
    LS_NAME(ls_small_dots)
    (tail, BLOCK_Q, r->q, r->ldq, r->n, k->k + k->width * k->ldk, k->ldk, s->tail, s->dp);
    for (int64_t i = 0; i < r->n; i += VF_LANES)
        for (int64_t j = 0; j < s->tail; j++) {
            const vf x = vf_load(tail + j * BLOCK_Q + i) * s->scale;
            vf_store(tail + j * BLOCK_Q + i, x);
            vf_store(r->top + i, vf_max(x, vf_load(r->top + i)));
        }
}
SIMD_FN void tail_softmax(const heads *s, const tile_rows *r, float *tail)
{
    for (int64_t i = 0; i < r->n; i += VF_LANES)
        for (int64_t j = 0; j < s->tail; j++) {
            const vf p = probability(vf_load(tail + j * BLOCK_Q + i) - base_of(vf_load(r->top + i)));
            vf_store(tail + j * BLOCK_Q + i, p);
            vf_store(r->sum + i, vf_load(r->sum + i) + p);
        }
}

/* Rows [i, end) against keys, of which some row sees `most` and none sees more. */
SIMD_FN void attend_strip(const heads *s, const tile_rows *r, const tile_keys *k, const tile_scratch *w,
                          int64_t i, int64_t end, int64_t most)
{
    const int64_t ld = tile_width(s), width = s->tail ? k->width : round_up(most, VF_LANES);
    float *scores = w->scores + i * ld;
    multiply(s, end - i, width, words_of(s, s->D), r->q + i * r->ldq, r->ldq, 1, k->columns, k->width, scores,
             ld, false);
    if (s->tail)
        tail_scores(s, r, k, w->tail);
    const bool plain = !r->bias[i] && !s->hidden && !r->keep;
    if (s->unit == 1 && plain)
        softmax_rows(s, 1, true, r, k, w, i, end, width);
    else if (s->unit == 1)
        softmax_rows(s, 1, false, r, k, w, i, end, width);
    else if (plain)
        softmax_rows(s, 2, true, r, k, w, i, end, width);
    else
        softmax_rows(s, 2, false, r, k, w, i, end, width);
    if (s->tail) {
        tail_softmax(s, r, w->tail);
        store_tail(s, scores + width, ld, w->tail, end - i);
    }
    multiply(s, end - i, s->dp, words_of(s, most), scores, ld, 1, k->v, k->ldv, r->y + i * s->dp, s->dp,
             k->k0 > 0);
}

/* Goes on with rows by a block of keys. The scores of a strip are used while they are in L1. */
SIMD_FN void attend(const heads *s, const tile_rows *r, const tile_keys *k, const tile_scratch *w)
{
    const int64_t step = s->tail ? r->n : STRIP;
    for (int64_t i = 0; i < r->n; i += step) {
        const int64_t end = min_i64(i + step, r->n);
        int64_t most = 0;
        for (int64_t row = i; row < end; row++)
            most = r->seen[row] > most ? r->seen[row] : most;
        attend_strip(s, r, k, w, i, end, most);
    }
}
