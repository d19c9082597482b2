/* search.c - see search.h. Beam search does the steps of transformers 5, in f32, so that equal logits give
 * equal ids. Of all continuations of K beams it takes the best (1 + end tokens) * K. Those that end may enter
 * the list of the K best texts, whose scores are divided by length^length_penalty. The best K of the others
 * are the next beams. */
#include "search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "base/thread_pool.h"

static const float NEVER = -1e9f;

typedef struct text {
    int32_t *ids; /* [most] */
    int64_t n;
    float score;
    bool finished;
} text;

typedef struct candidate {
    float score;
    int32_t id, beam;
    bool ends;
} candidate;

struct ls_search {
    ls_search_opts o;
    int64_t keep;          /* number of candidates */
    int64_t n;             /* tokens made */
    text *texts;           /* memory of the next three */
    text *beams;           /* [beams]: the present ones */
    text *others;          /* [beams]: room for the next ones */
    text *best;            /* [beams]: the best finished texts */
    candidate *candidates; /* [keep]: of all beams; [beams]: the chosen ones */
    candidate *of_beam;    /* [beams][keep] */
    int64_t *n_of_beam;    /* [beams]; -1: the logits are not finite */
    float *weights;        /* [beams][vocabulary] */
    const float *logits;   /* of the first beam, during a step */
    int64_t apart;
    int32_t *ids; /* memory of the ids of all texts */
    bool ended;   /* an end token has ended the text */
};

static bool is_end(const ls_search *s, int32_t id)
{
    for (int i = 0; i < s->o.how->n_ends; i++)
        if (s->o.how->ends[i] == id)
            return true;
    return false;
}

static ls_status search_check(const ls_search_opts *o, int64_t keep)
{
    const ls_generate_opts *h = o->how;
    if (h->least < 0 || h->no_repeat < 0 || !isfinite(h->length_penalty) || h->n_ends < 0)
        return ls_fail(LS_E_ARG,
                       "least %lld and no_repeat %lld must not be negative, and length_penalty %g must be a "
                       "number",
                       (long long)h->least, (long long)h->no_repeat, h->length_penalty);
    if (o->beams > 1 && h->sampling.temperature != 0)
        return ls_fail(LS_E_ARG,
                       "temperature %g and %lld beams: beam search does not sample; use one of them",
                       h->sampling.temperature, (long long)o->beams);
    if (o->beams > 1 && keep > o->vocabulary)
        return ls_fail(LS_E_ARG, "%lld beams and %d end tokens are too many for a vocabulary of %lld",
                       (long long)o->beams, h->n_ends, (long long)o->vocabulary);
    return LS_OK;
}

static void search_lay_out(ls_search *s)
{
    int32_t *ids = s->ids;
    for (int64_t k = 0; k < s->o.beams; k++) {
        text *all[] = { &s->beams[k], &s->others[k], &s->best[k] };
        for (int i = 0; i < 3; i++, ids += s->o.most)
            *all[i] = (text){ .ids = ids, .score = i == 2 ? NEVER : 0 };
        s->beams[k].score = k ? NEVER : 0;
    }
}

ls_status ls_search_create(ls_search **out, const ls_search_opts *o)
{
    const int ends = o->how->n_ends;
    const int64_t keep = (ends > 1 ? 1 + ends : 2) * o->beams;
    *out = NULL;
    LS_TRY(search_check(o, keep));
    ls_search *s = ls_sys_calloc(1, sizeof *s);
    if (!s)
        return ls_fail(LS_E_MEMORY, "out of memory for a search");
    *s = (ls_search){ .o = *o, .keep = keep };
    s->texts = ls_sys_calloc((size_t)(3 * o->beams), sizeof *s->texts);
    s->ids = ls_sys_calloc((size_t)(3 * o->beams * o->most + 1), sizeof *s->ids);
    s->candidates = ls_sys_calloc((size_t)(keep + o->beams), sizeof *s->candidates);
    s->of_beam = ls_sys_calloc((size_t)(keep * o->beams), sizeof *s->of_beam);
    s->n_of_beam = ls_sys_calloc((size_t)o->beams, sizeof *s->n_of_beam);
    s->weights = ls_sys_malloc(sizeof *s->weights * (size_t)(o->beams * o->vocabulary));
    if (!s->texts || !s->ids || !s->candidates || !s->of_beam || !s->n_of_beam || !s->weights) {
        ls_search_destroy(&s);
        return ls_fail(LS_E_MEMORY, "out of memory for %lld beams of %lld tokens", (long long)o->beams,
                       (long long)o->most);
    }
    s->beams = s->texts;
    s->others = s->beams + o->beams;
    s->best = s->others + o->beams;
    search_lay_out(s);
    *out = s;
    return LS_OK;
}

void ls_search_destroy(ls_search **sp)
{
    ls_search *s = *sp;
    if (!s)
        return;
    free(s->texts);
    free(s->ids);
    free(s->candidates);
    free(s->of_beam);
    free(s->n_of_beam);
    free(s->weights);
    free(s);
    *sp = NULL;
}

/* Token i of the tokens before the text, followed by the text of a beam. */
static int32_t token_at(const ls_search *s, const text *t, int64_t i)
{
    return i < s->o.n_before ? s->o.before[i] : t->ids[i - s->o.n_before];
}

/* Excludes tokens that may not follow: those that would repeat a row of no_repeat tokens, and end tokens
 * while the text is too short. */
static void forbid(const ls_search *s, const text *t, float *weights)
{
    const int64_t n = s->o.n_before + s->n, row = s->o.how->no_repeat;
    for (int i = 0; i < s->o.how->n_ends && s->n < s->o.how->least; i++)
        if (s->o.how->ends[i] >= 0 && s->o.how->ends[i] < s->o.vocabulary)
            weights[s->o.how->ends[i]] = -INFINITY;
    for (int64_t at = 0; row > 0 && at + row <= n; at++) {
        int64_t same = 0;
        while (same < row - 1 && token_at(s, t, at + same) == token_at(s, t, n - row + 1 + same))
            same++;
        const int32_t id = token_at(s, t, at + row - 1);
        if (same == row - 1 && id < s->o.vocabulary)
            weights[id] = -INFINITY;
    }
}

/* ---- one text */

static ls_status advance_one(ls_search *s, const float *logits, int32_t *next)
{
    const ls_generate_opts *h = s->o.how;
    ls_sampling how = h->sampling;
    how.seed += (uint64_t)s->o.prompt;
    if (h->no_repeat || s->n < h->least) {
        memcpy(s->weights, logits, sizeof *logits * (size_t)s->o.vocabulary);
        forbid(s, s->beams, s->weights);
        logits = s->weights;
    }
    LS_TRY(ls_sample(next, logits, s->o.vocabulary, &how, s->o.position + s->n));
    s->ended = is_end(s, *next);
    if (!s->ended)
        s->beams->ids[s->n++] = *next;
    return LS_OK;
}

/* ---- beams */

/* Computes log(softmax(logits)) plus the score of the text so far. false: the logits are not finite. */
static bool weigh(const ls_search *s, const text *t, const float *logits, float *weights)
{
    double most = -INFINITY, sum = 0;
    const int64_t n = s->o.vocabulary;
    for (int64_t i = 0; i < n; i++)
        most = (double)logits[i] > most || isnan(logits[i]) ? (double)logits[i] : most;
    if (!isfinite(most))
        return false;
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - most);
    const double log_sum = log(sum);
    for (int64_t i = 0; i < n; i++)
        weights[i] = (float)((double)logits[i] - most - log_sum);
    forbid(s, t, weights);
    for (int64_t i = 0; i < n; i++)
        weights[i] += t->score;
    return true;
}

/* Inserts c in the sorted list of the m best, of at most `keep`. Of equal ones the earlier comes first.
 * Returns the new number. */
static int64_t insert(candidate *best, int64_t m, int64_t keep, candidate c)
{
    if (m == keep && !(c.score > best[m - 1].score))
        return m;
    int64_t at = m < keep ? m++ : m - 1;
    for (; at > 0 && c.score > best[at - 1].score; at--)
        best[at] = best[at - 1];
    best[at] = c;
    return m;
}

/* Finds the best continuations of each beam; threads share the beams. */
static void beam_task(void *context, int64_t begin, int64_t end, int worker)
{
    ls_search *s = context;
    (void)worker;
    for (int64_t k = begin; k < end; k++) {
        float *weights = s->weights + k * s->o.vocabulary;
        candidate *best = s->of_beam + k * s->keep;
        int64_t m = 0;
        s->n_of_beam[k] = -1;
        if (!weigh(s, &s->beams[k], s->logits + k * s->apart, weights))
            continue;
        for (int64_t i = 0; i < s->o.vocabulary; i++)
            m = insert(best, m, s->keep,
                       (candidate){ .score = weights[i], .id = (int32_t)i, .beam = (int32_t)k });
        s->n_of_beam[k] = m;
    }
}

/* The best of all beams: of equal ones those of the first beam. */
static ls_status find_candidates(ls_search *s, const float *logits, int64_t apart)
{
    int64_t m = 0;
    const bool last = s->n + 1 == s->o.most;
    s->logits = logits;
    s->apart = apart;
    ls_parallel_for(s->o.threads, s->o.beams, beam_task, s);
    for (int64_t k = 0; k < s->o.beams; k++) {
        if (s->n_of_beam[k] < 0)
            return ls_fail(LS_E_NUMERIC, "the logits behind token %lld are not numbers",
                           (long long)(s->o.position + s->n));
        for (int64_t i = 0; i < s->n_of_beam[k]; i++)
            m = insert(s->candidates, m, s->keep, s->of_beam[k * s->keep + i]);
    }
    for (int64_t i = 0; i < m; i++)
        s->candidates[i].ends = last || is_end(s, s->candidates[i].id);
    return LS_OK;
}

static void copy_text(const ls_search *s, text *to, const candidate *c)
{
    memcpy(to->ids, s->beams[c->beam].ids, sizeof *to->ids * (size_t)s->n);
    to->ids[s->n] = c->id;
    to->n = s->n + 1;
}

/* Merges the candidates that end into the list of the best finished texts. Of equal ones the earlier comes
 * first; which of them is the last in the list is never seen. */
static void keep_finished(ls_search *s)
{
    const int64_t beams = s->o.beams;
    const float length = (float)pow((double)(s->n + 1), s->o.how->length_penalty);
    for (int64_t i = 0; i < beams; i++) {
        const candidate *c = &s->candidates[i];
        const float score = c->score / length + (c->ends ? 0 : NEVER);
        text *worst = &s->best[beams - 1];
        if (!(score > worst->score))
            continue;
        copy_text(s, worst, c);
        worst->score = score;
        worst->finished = c->ends;
        for (int64_t at = beams - 1; at > 0 && s->best[at].score > s->best[at - 1].score; at--) {
            const text higher = s->best[at];
            s->best[at] = s->best[at - 1];
            s->best[at - 1] = higher;
        }
    }
}

/* Makes the next beams of the best candidates that do not end. */
static void continue_beams(ls_search *s, int32_t *next, int32_t *from)
{
    const int64_t beams = s->o.beams;
    candidate *chosen = s->candidates + s->keep;
    int64_t m = 0;
    for (int64_t i = 0; i < s->keep; i++) {
        candidate c = s->candidates[i];
        c.score += c.ends ? NEVER : 0;
        m = insert(chosen, m, beams, c);
    }
    for (int64_t k = 0; k < beams; k++) {
        copy_text(s, &s->others[k], &chosen[k]);
        s->others[k].score = chosen[k].score;
        next[k] = chosen[k].id;
        from[k] = chosen[k].beam;
    }
    text *swap = s->beams;
    s->beams = s->others;
    s->others = swap;
}

/* Whether a beam may still become better than the worst finished text; as long as there are too few of these,
 * the worst has the score NEVER. */
static bool may_improve(const ls_search *s)
{
    const bool far = s->o.how->early_stopping == LS_EARLY_STOPPING_NEVER && s->o.how->length_penalty > 0;
    const float length = (float)pow((double)(far ? s->o.most : s->n), s->o.how->length_penalty),
                possible = s->beams[0].score / length;
    return possible > s->best[s->o.beams - 1].score;
}

static ls_status advance_beams(ls_search *s, const float *logits, int64_t apart, int32_t *next, int32_t *from,
                               bool *over)
{
    bool all_end = true, full = s->o.how->early_stopping == LS_EARLY_STOPPING_TRUE;
    LS_TRY(find_candidates(s, logits, apart));
    for (int64_t i = 0; i < s->keep; i++)
        all_end = all_end && s->candidates[i].ends;
    keep_finished(s);
    continue_beams(s, next, from);
    for (int64_t k = 0; k < s->o.beams && apart == 0; k++)
        from[k] = 0;
    s->n++;
    for (int64_t k = 0; k < s->o.beams; k++)
        full = full && s->best[k].finished;
    *over = full || all_end || !may_improve(s);
    return LS_OK;
}

ls_status ls_search_advance(ls_search *s, const float *logits, int64_t apart, int32_t *next, int32_t *from,
                            bool *over)
{
    if (s->o.beams > 1)
        return advance_beams(s, logits, apart, next, from, over);
    from[0] = 0;
    LS_TRY(advance_one(s, logits, next));
    *over = s->ended || s->n == s->o.most;
    return LS_OK;
}

const int32_t *ls_search_text(const ls_search *s, int64_t *n)
{
    const text *best = s->best;
    *n = s->n;
    if (s->o.beams == 1)
        return s->beams->ids;
    *n = best->n - (best->n > 0 && is_end(s, best->ids[best->n - 1]));
    return best->ids;
}

bool ls_search_ended(const ls_search *s)
{
    const text *best = s->best;
    return s->o.beams == 1 ? s->ended : best->n > 0 && is_end(s, best->ids[best->n - 1]);
}
