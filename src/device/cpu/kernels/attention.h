/* attention.h - shapes, masks and dropout that attention.c, attention_grad.c and attention_cached.c share.
 *
 * A tile is BLOCK_Q queries against a block of keys, or the whole of a short sequence. Its scores are f32 and
 * stay in the caches. Block sizes depend on nothing but head_dim, so a (sample, head) gives the same bits in
 * any batch and for any number of threads. */
#pragma once
#include "device/dropout.h"
#include "random.h"
#include "small_mm.h"

enum {
    BLOCK_Q = 64,
    /* Queries of a tile whose scores are computed together: one or two vectors, the columns of a register
     * tile. */
    STRIP = 2 * VF_LANES,
    STRIP_MAX = 32 /* of all levels; for sizes of scratch, which do not depend on the level */
};
#define LOG2_E 1.44269504f
#define LN_2 0.693147182f

/* Products of this type take pairs of bf16 (vdpbf16ps): probabilities and their gradients are rounded to bf16
 * for them. At other levels bf16 is converted to f32. */
#ifdef LS_LEVEL_avx512bf16
#define ATTENTION_PAIRS(t) ((t) == LS_BF16)
#else
#define ATTENTION_PAIRS(t) ((void)(t), false)
#endif

typedef struct heads {
    ls_dtype t;
    int64_t B, H, G, Tq, Tk, D; /* batch, query heads, key heads, queries, keys, head_dim */
    /* Documents side by side in a sample (operand positions): each is attended to as if it were alone. Then
     * Tq and Tk are those of the document whose first query and key in the sample are first_q and first_k,
     * and all_q, all_k those of the sample. NULL: a sample is one document. */
    const int32_t *positions;
    int64_t first_q, first_k, all_q, all_k;
    int64_t apart; /* query i stands at key i + apart: it sees that one and those before it */
    /* The queries here may be a part of those of a sequence: the number of the first, and of how many. */
    int64_t part, whole;
    int64_t dp;     /* D rounded up to whole vectors */
    int unit;       /* elements of a word that products read: 1 f32, or 2 bf16 */
    int64_t words;  /* of a head's row, in whole vectors; zeros behind the last element */
    int64_t bq, bk; /* queries and keys of a tile: a block, or the whole sequence */
    bool causal;
    int64_t window; /* keys that a causal query sees at most; 0: all */
    float scale;
    /* Padding among the keys (operand ids). hidden: for each sample and key -inf if it is padding, else 0.
     * end: for each sample, one after the last key that is not padding. NULL: there is no padding. */
    const float *hidden;
    const int32_t *end;
    /* Dropout of probabilities: */
    bool drops;
    ls_dropping drop;
    int64_t first_head; /* number of this rank's first query head in the whole */
    float kept;         /* the factor of probabilities that are kept; 1: no dropout */
} heads;

/* positions: the number of this input, which may be absent. A block of keys has up to `elements` elements,
 * but 64 to 256 keys. */
SIMD_FN heads heads_of(const ls_kernel_args *a, const ls_tensor *q, const ls_tensor *k, int positions,
                       int64_t elements)
{
    const ls_attention_attrs *at = a->attrs;
    heads s = { .t = q->type.dtype,
                .B = q->type.dims[0],
                .Tq = q->type.dims[1],
                .Tk = k->type.dims[1],
                .all_q = q->type.dims[1],
                .all_k = k->type.dims[1],
                .apart = ls_at_apart(a, q->type.dims[1], k->type.dims[1]),
                .part = ls_at_start(a, 1),
                .whole = ls_at_whole(a, 1, q->type.dims[1]),
                .positions = positions < a->n_in && present(&a->in[positions]) ? a->in[positions].data : NULL,
                .D = at->head_dim,
                .causal = at->causal != 0,
                .window = at->window,
                .scale = (float)at->scale,
                .first_head = ls_at_start(a, 2) / at->head_dim,
                .kept = 1.0f };
    s.H = q->type.dims[2] / s.D;
    s.G = k->type.dims[2] / s.D;
    s.dp = round_up(s.D, VF_LANES);
    s.unit = ATTENTION_PAIRS(s.t) ? 2 : 1;
    s.words = round_up((s.D + s.unit - 1) / s.unit, VF_LANES);
    s.bq = min_i64(BLOCK_Q, s.Tq);
    const int64_t groups = elements / s.D / KEEP_GROUP;
    s.bk = min_i64(KEEP_GROUP * (groups < 1 ? 1 : min_i64(groups, 4)), s.Tk);
    return s;
}

/* The first key of the document in which a key of sample b is, and the key behind a document's last. */
SIMD_FN int64_t document_begin(const heads *s, int64_t b, int64_t row)
{
    while (row > 0 && s->positions[b * s->all_k + row] != 0)
        row--;
    return row;
}
SIMD_FN int64_t document_end(const heads *s, int64_t b, int64_t row)
{
    do
        row++;
    while (row < s->all_k && s->positions[b * s->all_k + row] != 0);
    return row;
}
/* The document of keys [begin, end), and its queries that are here. */
SIMD_FN heads document_of(const heads *whole, int64_t begin, int64_t end)
{
    heads s = *whole;
    s.first_k = begin;
    s.first_q = begin > 0 && begin > whole->apart ? begin - whole->apart : 0;
    s.Tk = end - begin;
    s.Tq = min_i64(end - whole->apart, whole->all_q) - s.first_q; /* none, if the rank has others */
    s.Tq = s.Tq < 0 ? 0 : s.Tq;
    s.apart = whole->apart + s.first_q - begin;
    s.bq = min_i64(s.bq, s.Tq);
    s.bk = min_i64(s.bk, s.Tk);
    return s;
}

/* Sizes of scratch in words. They are padded for 16 lanes at every level, and hold both kinds of words, so
 * that they do not depend on the level. */
SIMD_FN int64_t rows_size(const heads *s, int64_t rows) { return round_up(rows, 16) * round_up(s->D, 16); }
SIMD_FN int64_t hidden_row(const heads *s) { return round_up(s->Tk, 16); }
SIMD_FN int64_t padding_size(const heads *s, const ls_tensor *ids)
{
    return present(ids) ? s->B * (hidden_row(s) + 1) : 0;
}

SIMD_FN void find_padding(heads *s, const ls_kernel_args *a, const ls_tensor *ids, float *at)
{
    if (!present(ids))
        return;
    const int64_t pad = ((const ls_attention_attrs *)a->attrs)->pad;
    int32_t *end = (int32_t *)(at + s->B * hidden_row(s));
    for (int64_t b = 0; b < s->B; b++) {
        const int32_t *id = (const int32_t *)ids->data + b * s->Tk;
        end[b] = 1; /* the sums of a query begin with the first block of keys, seen or not */
        for (int64_t k = 0; k < hidden_row(s); k++) {
            const bool there = k < s->Tk && id[k] != pad;
            at[b * hidden_row(s) + k] = there ? 0.0f : -__builtin_inff();
            end[b] = there ? (int32_t)k + 1 : end[b];
        }
    }
    s->hidden = at;
    s->end = end;
}

SIMD_FN void find_dropout(heads *s, const ls_kernel_args *a, const ls_tensor *key)
{
    const ls_attention_attrs *at = a->attrs;
    if (!present(key))
        return;
    s->drops = true;
    s->drop = ls_dropping_of(key, at->dropout, at->purpose);
    s->drop.sample += (uint64_t)ls_at_start(a, 0) * s->drop.apart;
    s->kept = (float)s->drop.scale;
}

/* Random masks of queries i and i+1 for 64 keys of the sample, from key k0 on: all ones if the probability is
 * kept, else 0. */
SIMD_FN void keep_rows(const heads *s, int32_t keep[2 * KEEP_GROUP], int64_t b, int64_t h, int64_t i,
                       int64_t k0)
{
    const uint64_t sample = s->drop.sample + (uint64_t)b * s->drop.apart;
    const int64_t row = s->part + s->first_q + i;
    const uint64_t first = ls_dropping_row(h + s->first_head, row, s->whole, s->all_k),
                   second = ls_dropping_row(h + s->first_head, row + 1, s->whole, s->all_k);
    LS_NAME(ls_keep_groups)
    (keep, s->drop.key, sample, (first + (uint64_t)k0) / KEEP_GROUP, sample,
     (second + (uint64_t)k0) / KEEP_GROUP, s->drop.below);
}

/* The first key of sample b after which all keys are padding. */
SIMD_FN int64_t keys_end(const heads *s, int64_t b) { return s->end ? s->end[b] : s->Tk; }

/* The number that scores are taken relative to: a row's maximum, or 0 if all its scores are -inf. */
SIMD_FN vf base_of(vf top) { return vf_select(vf_eq(top, vf_set1(-__builtin_inff())), vf_zero(), top); }

SIMD_FN int workers(const ls_kernel_args *a) { return a->threads > 1 ? a->threads : 1; }

/* The address of query (or key) `row` of the document, head `head` of sample b, in a tensor [B, T, heads*D].
 */
SIMD_FN char *query_at(const heads *s, const ls_tensor *t, int64_t b, int64_t row, int64_t head)
{
    return elem_at(t, b * t->strides[0] + (s->first_q + row) * t->strides[1] + head * s->D);
}
SIMD_FN char *key_at(const heads *s, const ls_tensor *t, int64_t b, int64_t row, int64_t head)
{
    return elem_at(t, b * t->strides[0] + (s->first_k + row) * t->strides[1] + head * s->D);
}
/* The number of a query in what has one number for each, as lse [B, H, Tq]. */
SIMD_FN int64_t query_number(const heads *s, int64_t b, int64_t h, int64_t query)
{
    return (b * s->H + h) * s->all_q + s->first_q + query;
}

/* How many of the keys k0 .. k0+nk query i may see. */
SIMD_FN int64_t visible(const heads *s, int64_t i, int64_t k0, int64_t nk)
{
    if (!s->causal)
        return nk;
    const int64_t n = i + s->apart + 1 - k0;
    return n < 0 ? 0 : min_i64(n, nk);
}

/* How many keys from k0 on lie before the window of a query at `position` among the keys. */
SIMD_FN int64_t skipped(const heads *s, int64_t position, int64_t k0)
{
    const int64_t n = s->window ? position - s->window + 1 - k0 : 0;
    return n < 0 ? 0 : n;
}

/* to[r] = from[r] * scale[r or 0], stored in the tensor's type. */
SIMD_FN void store_rows_as(ls_dtype T, char *to, int64_t stride, const float *from, int64_t dp, int64_t rows,
                           int64_t d, const float *scale, int scale_step)
{
    for (int64_t r = 0; r < rows; r++) {
        const vf f = vf_set1(scale[r * scale_step]);
        char *row = to + r * stride * elem_size(T);
        int64_t c = 0;
        for (; c + 2 * VF_LANES <= d; c += 2 * VF_LANES)
            vf_put2(row, T, c, vf_load(from + r * dp + c) * f, vf_load(from + r * dp + c + VF_LANES) * f);
        for (; c + VF_LANES <= d; c += VF_LANES)
            vf_put(row, T, c, vf_load(from + r * dp + c) * f);
        if (c < d)
            vf_put_n(row, T, c, vf_load(from + r * dp + c) * f, (int)(d - c));
    }
}
SIMD_FN void store_rows(const heads *s, char *to, int64_t stride, const float *from, int64_t rows,
                        const float *scale, int scale_step)
{
    BY_FLOAT(s->t, store_rows_as, to, stride, from, s->dp, rows, s->D, scale, scale_step);
}

SIMD_FN void store_bias_as(ls_dtype T, void *to, const float *from, int64_t n)
{
    for (int64_t i = 0; i < n; i += VF_LANES) {
        const int some = (int)min_i64(VF_LANES, n - i);
        vf_put_n(to, T, i, vf_load_n(from + i, some), some);
    }
}

/* The row of the bias for (b, h, query); NULL: no bias. The bias may have one batch for all samples; a bias
 * by distance has a row for all distances, of which this is a part. */
SIMD_FN const char *bias_row(const heads *s, const ls_tensor *bias, int64_t b, int64_t h, int64_t query)
{
    if (!bias)
        return NULL;
    if (bias->type.ndim == 2)
        return elem_at(bias, h * (s->Tq + s->Tk - 1) + s->Tq - 1 - query);
    return elem_at(bias, (((bias->type.dims[0] > 1 ? b : 0) * s->H + h) * s->Tq + query) * s->Tk);
}
