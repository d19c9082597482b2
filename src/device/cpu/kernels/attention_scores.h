/* attention_scores.h - the scores of a strip: one or two vectors of queries against the keys of a block. They
 * lie transposed, [key][query]. So a query's maximum and sum take no sums across a vector, and neither the
 * keys nor their number need whole vectors.
 *
 * Scores are exponents of 2: e^x = 2^(x log2 e). */
#pragma once
#include "attention_words.h"

typedef struct strip {
    int64_t b, h, query, n; /* sample, head, first query, how many queries */
    int64_t k0, keys, all;  /* the first key; how many of the block some query sees, and how many all see */
    const int64_t *seen;    /* how many each query sees: the first ones, */
    const int64_t *skip;    /* but for so many before its window. NULL: there is no window */
    const float *bias;      /* of key j and query i: bias[j * bias_step + i]. NULL: none */
    int64_t bias_step;
} strip;

/* How many vectors of queries the strip at query i of a tile of n has. On the border of a causal mask a strip
 * has at most 16 queries: a wider one would compute more scores that the mask then hides. */
SIMD_FN int strip_vectors(int64_t i, int64_t n, bool border)
{
    return (border && VF_LANES >= 16) || i % STRIP || n - i <= VF_LANES ? 1 : 2;
}
SIMD_FN strip strip_of(const int64_t *seen, int64_t n, int64_t b, int64_t h, int64_t query, int64_t k0)
{
    strip t = {
        .b = b, .h = h, .query = query, .n = n, .k0 = k0, .seen = seen, .keys = seen[0], .all = seen[0]
    };
    for (int64_t i = 1; i < n; i++) {
        t.keys = seen[i] > t.keys ? seen[i] : t.keys;
        t.all = min_i64(t.all, seen[i]);
    }
    return t;
}

/* Scratch in which a strip's bias, masks or ds are transposed: a half for queries by rows, one for keys. */
SIMD_FN int64_t aside_width(const heads *s) { return round_up(s->bk, KEEP_GROUP); }
SIMD_FN int64_t aside_size(const heads *s) { return 2 * STRIP_MAX * aside_width(s); }
SIMD_FN float *aside_columns(const heads *s, float *aside) { return aside + STRIP * aside_width(s); }

/* Copies the strip's bias. rows: of key 0, for each query. */
SIMD_FN void load_bias(const heads *s, strip *t, const char *const *rows, float *aside)
{
    const int64_t width = aside_width(s);
    for (int64_t i = 0; i < t->n; i++)
        for (int64_t c = 0; c < t->seen[i]; c += VF_LANES)
            vf_store(aside + i * width + c,
                     get_padded(s->t, rows[i], t->k0 + c, (int)min_i64(VF_LANES, t->seen[i] - c), 0.0f));
    LS_NAME(ls_small_transpose)
    (aside_columns(s, aside), STRIP, aside, width, t->n, round_up(t->keys, VF_LANES));
    t->bias = aside_columns(s, aside);
    t->bias_step = STRIP;
}

/* A bias by distance in reverse order, so that neighbouring queries read neighbouring elements: key j and
 * query i read reversed[Tk - 1 - j + i]. */
SIMD_FN int64_t reversed_size(const heads *s) { return round_up(s->Tq + s->Tk + STRIP_MAX, 16); }
SIMD_FN void reverse_distances(const heads *s, float *reversed, const char *row)
{
    const int64_t n = s->Tq + s->Tk - 1;
    for (int64_t d = 0; d < n; d += VF_LANES) {
        const int some = (int)min_i64(VF_LANES, n - d);
        const vf x = get_padded(s->t, row, d, some, 0.0f);
        for (int i = 0; i < some; i++)
            reversed[n - 1 - d - i] = x[i];
    }
    memset(reversed + n, 0, sizeof(float) * (size_t)(reversed_size(s) - n));
}
SIMD_FN void use_distances(const heads *s, strip *t, const float *reversed)
{
    t->bias = reversed + s->Tk - 1 - t->k0 + t->query;
    t->bias_step = -1;
}

/* Masks of dropout for the strip, [key][STRIP]: all ones if the probability is kept, else 0. */
SIMD_FN const int32_t *keep_columns(const heads *s, const strip *t, float *aside)
{
    /* A document may begin inside a group of the sample's keys. */
    const int64_t width = aside_width(s), first = s->first_k + t->k0, inside = first % KEEP_GROUP;
    for (int64_t i = 0; i < t->n; i += 2)
        for (int64_t c = -inside; c < t->keys; c += KEEP_GROUP) {
            int32_t keep[2 * KEEP_GROUP];
            const int64_t from = c < 0 ? inside : 0, n = min_i64(KEEP_GROUP, width - c) - from;
            keep_rows(s, keep, t->b, t->h, t->query + i, first + c);
            for (int64_t r = 0; r < 2; r++)
                memcpy(aside + (i + r) * width + c + from, keep + r * KEEP_GROUP + from,
                       sizeof *keep * (size_t)n);
        }
    float *columns = aside_columns(s, aside);
    LS_NAME(ls_small_transpose)(columns, STRIP, aside, width, t->n, round_up(t->keys, VF_LANES));
    return (const int32_t *)columns;
}

/* The factor that makes exponents of 2 of what `finish_scores` leaves. */
SIMD_FN vf exponents(const heads *s, const strip *t)
{
    return vf_set1(t->bias || s->hidden ? LOG2_E : s->scale * LOG2_E);
}

/* Keys before a query's window get -inf. */
SIMD_FN void hide_skipped(const int vectors, const strip *t, float *x, int64_t ld)
{
    float skip[STRIP];
    int64_t most = 0;
    for (int64_t i = 0; i < STRIP; i++) {
        const int64_t n = i < t->n ? min_i64(t->skip[i], t->keys) : 0;
        skip[i] = (float)n;
        most = n > most ? n : most;
    }
    for (int64_t j = 0; j < most; j++)
        for (int v = 0; v < vectors; v++) {
            float *at = x + j * ld + v * VF_LANES;
            vf_store(at, vf_select(vf_lt(vf_set1((float)j), vf_load(skip + v * VF_LANES)),
                                   vf_set1(-__builtin_inff()), vf_load(at)));
        }
}

/* Completes the products k q of the strip in place. With a bias or padding it applies the scale, the bias and
 * padding; without, `exponents` has the scale. Keys that a query does not see get -inf. */
SIMD_FN void finish_scores(const heads *s, const int vectors, const strip *t, float *x, int64_t ld)
{
    const vf least = vf_set1(-__builtin_inff());
    for (int64_t j = 0; j < t->keys && (t->bias || s->hidden); j++)
        for (int v = 0; v < vectors; v++) {
            float *at = x + j * ld + v * VF_LANES;
            const vf bias = t->bias ? vf_load(t->bias + j * t->bias_step + v * VF_LANES) : vf_zero();
            const bool hides = s->hidden && s->hidden[t->b * hidden_row(s) + t->k0 + j] != 0.0f;
            vf_store(at, hides ? least : vf_fma(vf_load(at), vf_set1(s->scale), bias));
        }
    if (t->skip)
        hide_skipped(vectors, t, x, ld);
    if (t->all == t->keys)
        return;
    float seen[STRIP];
    for (int64_t i = 0; i < STRIP; i++)
        seen[i] = (float)(i < t->n ? t->seen[i] : t->keys);
    for (int64_t j = t->all; j < t->keys; j++)
        for (int v = 0; v < vectors; v++) {
            float *at = x + j * ld + v * VF_LANES;
            vf_store(at,
                     vf_select(vf_lt(vf_set1((float)j), vf_load(seen + v * VF_LANES)), vf_load(at), least));
        }
}

/* 2^x for x <= 0 (rounding may make x slightly positive), and 0 from -126 on. Adding 1.5 * 2^23 rounds x to a
 * whole number in the low bits; shifted into the exponent, the bits above it vanish. The rest r, |r| <= 1/2,
 * is in 2^r, as a polynomial (3e-9) whose pairs of terms do not wait for each other. */
SIMD_FN vf power_of_2(vf x)
{
    const vf magic = vf_set1(12582912.0f), t = x + magic, r = x - (t - magic), r2 = r * r;
    const vf low = vf_fma(r, vf_set1(0.693147182f), vf_set1(1.0f)),
             middle = vf_fma(r, vf_set1(0.0555035993f), vf_set1(0.240226477f)),
             high = vf_fma(r2, vf_set1(0.000153264715f),
                           vf_fma(r, vf_set1(0.00133908063f), vf_set1(0.00961850584f)));
    const vf e = vf_fma(vf_fma(high, r2, middle), r2, low);
    return vf_select(vf_lt(x, vf_set1(-126.0f)), vf_zero(), (vf)((vu)e + ((vu)t << 23)));
}
