/* sample.c - chooses the next token from its logits. */
#include <math.h>
#include <stdlib.h>

#include "base/argument.h"
#include "base/hash.h"
#include "base/rng.h"
#include "base/sys.h"
#include "lockstep/generate.h"

typedef struct candidate {
    double weight;
    int32_t id;
} candidate;

/* Orders by falling weight, and equal weights by rising id. This is a total order, so the choice does not
 * depend on how candidates are sorted. */
static int by_weight(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    return x->weight != y->weight ? (x->weight < y->weight) - (x->weight > y->weight)
                                  : (x->id > y->id) - (x->id < y->id);
}

static int32_t likeliest(const float *logits, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n && !isnan(logits[best]); i++)
        if (logits[i] > logits[best] || isnan(logits[i]))
            best = i;
    return (int32_t)best;
}

/* Sorts the k best of c to its front. Returns how many there are, at most k. */
static int64_t best_first(candidate *c, int64_t n, int64_t k)
{
    enum { MANY = 256 }; /* above this, insertion is slower than sorting all; the result is the same */
    int64_t m = 0;
    if (k > MANY) {
        qsort(c, (size_t)n, sizeof *c, by_weight);
        return k < n ? k : n;
    }
    for (int64_t i = 0; i < n; i++) {
        if (m == k && by_weight(&c[i], &c[m - 1]) > 0)
            continue;
        const candidate in = c[i];
        int64_t at = m < k ? m++ : m - 1;
        for (; at > 0 && by_weight(&in, &c[at - 1]) < 0; at--)
            c[at] = c[at - 1];
        c[at] = in;
    }
    return m;
}

/* The number of first candidates, at least 1, whose weights add up to `wanted`. */
static int64_t nucleus(const candidate *c, int64_t n, double wanted)
{
    double sum = 0;
    int64_t m = 0;
    while (m < n && (m == 0 || sum < wanted))
        sum += c[m++].weight;
    return m;
}

static double weight_of(const candidate *c, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += c[i].weight;
    return sum;
}

/* The candidate at `share`, in [0, 1), of the sum of all weights. */
static int32_t pick(const candidate *c, int64_t n, double share)
{
    const double at = share * weight_of(c, n);
    double sum = c[0].weight;
    int64_t i = 0;
    while (i + 1 < n && sum <= at)
        sum += c[++i].weight;
    return c[i].id;
}

static int32_t at_random(candidate *c, const float *logits, int64_t n, double most, const ls_sampling *s,
                         double share)
{
    int64_t m = 0;
    for (int64_t i = 0; i < n; i++) {
        const double weight = exp(((double)logits[i] - most) / s->temperature);
        if (weight > 0)
            c[m++] = (candidate){ weight, (int32_t)i };
    }
    if (s->top_k > 0 && s->top_k < m)
        m = best_first(c, m, s->top_k);
    if (s->top_p < 1) {
        /* Candidates lighter than `least` together have less than 1 - top_p of the weight. So none of them is
         * ever taken, and they need not be sorted. */
        const double all = weight_of(c, m), least = (1 - s->top_p) * all / (double)m;
        int64_t heavy = 0;
        for (int64_t i = 0; i < m; i++)
            if (c[i].weight >= least)
                c[heavy++] = c[i];
        m = nucleus(c, best_first(c, heavy, heavy), s->top_p * all);
    }
    return pick(c, m, share);
}

ls_status ls_sample(int32_t *id, const float *logits, int64_t n, const ls_sampling *s, int64_t position)
{
    LS_ARG(id);
    LS_ARG(logits);
    s = s ? s : &(const ls_sampling){ LS_SAMPLING_DEFAULTS };
    if (!(s->temperature >= 0) || s->top_k < 0 || !(s->top_p > 0) || s->top_p > 1 || n < 1)
        return ls_fail(LS_E_ARG,
                       "temperature %g must not be negative, top_k %lld neither, top_p %g in (0, 1]",
                       s->temperature, (long long)s->top_k, s->top_p);
    *id = likeliest(logits, n);
    if (!isfinite(logits[*id]))
        return ls_fail(LS_E_NUMERIC, "the logits behind token %lld are not numbers", (long long)position);
    if (s->temperature == 0)
        return LS_OK;
    candidate *c = ls_sys_malloc(sizeof *c * (size_t)n);
    if (!c)
        return ls_fail(LS_E_MEMORY, "out of memory for %lld candidates", (long long)n);
    *id = at_random(c, logits, n, (double)logits[*id], s,
                    ls_rng_uniform(ls_rng_key_of(s->seed, ls_hash_text("next token")), (uint64_t)position));
    free(c);
    return LS_OK;
}

ls_sampling ls_sampling_default(void) { return (ls_sampling){ LS_SAMPLING_DEFAULTS }; }
