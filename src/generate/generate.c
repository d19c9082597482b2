/* generate.c - generates texts from prompts. The search of each prompt chooses the next token of its rows. */
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/clock.h"
#include "base/stop.h"
#include "base/sys.h"
#include "generator_own.h"
#include "search.h"

typedef struct job {
    ls_generator *g;
    const ls_generate_opts *o;
    int64_t n; /* number of prompts */
    ls_search **search;
    bool *over;                      /* [n] */
    int32_t *ids, *positions, *from; /* [rows] */
    int32_t start;                   /* T5: the token that a target begins with */
    int64_t *first;                  /* [n]: position of the first token to make */
    int64_t most;                    /* the most tokens to make of any text */
    const float *logits;
    int64_t apart;
    bool stopped; /* on_token has ended the text */
    bool alone;   /* a request to stop may end this rank's work, because no other rank waits for it */
    double prompt_seconds, seconds;
} job;

static void generate_release(job *j)
{
    for (int64_t p = 0; j->search && p < j->n; p++)
        ls_search_destroy(&j->search[p]);
    free(j->search);
    free(j->over);
    free(j->first);
    free(j->ids);
    free(j->positions);
    free(j->from);
}

/* `number` is that of the first prompt. */
static ls_status generate_begin(job *j, const ls_tokens *prompts, int64_t number)
{
    const ls_generator *g = j->g;
    const int64_t rows = g->rows;
    j->search = ls_sys_calloc((size_t)j->n, sizeof *j->search);
    j->over = ls_sys_calloc((size_t)j->n, sizeof *j->over);
    j->first = ls_sys_calloc((size_t)j->n, sizeof *j->first);
    j->ids = ls_sys_calloc((size_t)rows, sizeof *j->ids);
    j->positions = ls_sys_calloc((size_t)rows, sizeof *j->positions);
    j->from = ls_sys_calloc((size_t)rows, sizeof *j->from);
    if (!j->search || !j->over || !j->first || !j->ids || !j->positions || !j->from)
        return ls_fail(LS_E_MEMORY, "out of memory for %lld texts", (long long)j->n);
    j->start = (int32_t)g->model.start_token;
    for (int64_t p = 0; p < j->n; p++) {
        const int64_t room = ls_generator_has_sources(g) ? g->model.places : g->model.places - prompts[p].n,
                      most = j->o->tokens < room ? j->o->tokens : room;
        j->first[p] = ls_generator_has_sources(g) ? 1 : prompts[p].n;
        j->over[p] = most < 1;
        j->most = most > j->most ? most : j->most;
        const ls_search_opts o = { .how = j->o,
                                   .beams = g->beams,
                                   .vocabulary = g->model.vocabulary,
                                   .most = most > 0 ? most : 0,
                                   .before = ls_generator_has_sources(g) ? &j->start : prompts[p].ids,
                                   .n_before = ls_generator_has_sources(g) ? 1 : prompts[p].n,
                                   .position = j->first[p],
                                   .prompt = number + p,
                                   .threads = g->threads };
        LS_TRY(ls_search_create(&j->search[p], &o));
    }
    return LS_OK;
}

/* Runs `decode` on one token of each row, the n-th that is made (0: the start token). Rows of texts that
 * have ended have position -1. */
static ls_status decode(job *j, int64_t n)
{
    ls_generator *g = j->g;
    for (int64_t r = 0; r < g->rows; r++) {
        const int64_t p = r / g->beams;
        const bool over = p >= j->n || j->over[p];
        j->positions[r] = over ? -1 : (int32_t)(j->first[p] + n - 1);
        j->from[r] = over ? (int32_t)r : (int32_t)(p * g->beams + j->from[r]);
    }
    LS_TRY(ls_generator_decode(g, j->ids, j->positions, j->from));
    g->position = j->first[0] + n;
    j->apart = g->model.vocabulary;
    return LS_OK;
}

static ls_status read_prompts(job *j, const ls_tokens *prompts)
{
    ls_generator *g = j->g;
    ls_generator_rewind(g, 0);
    if (!ls_generator_has_sources(g)) {
        LS_TRY(ls_generator_continue(g, j->n, prompts));
        j->apart = 0;
    } else {
        LS_TRY(ls_generator_read_all(g, j->n, prompts));
        for (int64_t r = 0; r < g->rows; r++) {
            j->ids[r] = j->start;
            j->from[r] = (int32_t)(r % g->beams);
        }
        LS_TRY(decode(j, 0));
    }
    j->logits = g->scores;
    return LS_OK;
}

/* Chooses one more token of every text that has not ended. *all_over: all have ended. */
static ls_status advance(job *j, bool *all_over)
{
    const ls_generator *g = j->g;
    *all_over = true;
    for (int64_t p = 0; p < j->n; p++) {
        const int64_t r = p * g->beams;
        if (j->over[p])
            continue;
        LS_TRY(ls_search_advance(j->search[p], j->logits + r * g->model.vocabulary, j->apart, j->ids + r,
                                 j->from + r, &j->over[p]));
        *all_over = *all_over && j->over[p];
        if (g->beams == 1 && j->o->on_token && !ls_search_ended(j->search[p]))
            j->stopped = !j->o->on_token(j->o->context, j->ids[r]);
    }
    return LS_OK;
}

static ls_status generate_run(job *j, const ls_tokens *prompts, int64_t number)
{
    double start = ls_now();
    bool all_over = false;
    LS_TRY(generate_begin(j, prompts, number));
    LS_TRY(read_prompts(j, prompts));
    j->prompt_seconds = ls_now() - start;
    start = ls_now();
    for (int64_t n = 0; n < j->most && !all_over && !j->stopped; n++) {
        if (j->alone)
            LS_TRY(ls_stop_check("generating texts, of %lld tokens by now", (long long)n));
        if (n)
            LS_TRY(decode(j, n));
        LS_TRY(advance(j, &all_over));
        j->seconds = ls_now() - start;
    }
    return LS_OK;
}

static ls_status generate_check(const ls_generator *g, int64_t n, const ls_tokens *prompts,
                                const ls_generate_opts *o)
{
    LS_ARG_ENUM(ls_early_stopping, o->early_stopping, LS_EARLY_STOPPING_NEVER);
    for (int64_t p = 0; p < n; p++)
        if (prompts[p].n < 1 && !ls_generator_has_sources(g))
            return ls_fail(LS_E_ARG, "no token is given: at least one is needed");
    return LS_OK;
}

/* Calls on_token for the text of a search with beams, which is known only at the end. */
static void tell(job *j, const int32_t *text, int64_t n)
{
    for (int64_t i = 0; i < n && j->g->beams > 1 && j->o->on_token && !j->stopped; i++)
        j->stopped = !j->o->on_token(j->o->context, text[i]);
}

ls_status ls_generate(ls_generator *g, const ls_generate_opts *o, ls_generated *r)
{
    LS_ARG(g);
    LS_ARG(o);
    LS_ARG(r);
    const ls_tokens prompt = { .ids = (int32_t *)(uintptr_t)o->prompt, .n = o->n_prompt };
    job j = { .g = g, .o = o, .n = 1 };
    *r = (ls_generated){ .ending = LS_ENDED_TOKENS };
    LS_TRY(generate_check(g, 1, &prompt, o));
    const ls_status s = generate_run(&j, &prompt, 0);
    if (s == LS_OK) {
        const int32_t *text = ls_search_text(j.search[0], &r->tokens);
        tell(&j, text, r->tokens);
        r->prompt_seconds = j.prompt_seconds;
        r->seconds = j.seconds;
        r->ending = j.stopped                      ? LS_ENDED_CALLER
                    : ls_search_ended(j.search[0]) ? LS_ENDED_TOKEN
                    : j.most < o->tokens           ? LS_ENDED_PLACES
                                                   : LS_ENDED_TOKENS;
    }
    generate_release(&j);
    return s;
}

static ls_status generate_append(ls_tokens *to, const int32_t *ids, int64_t n)
{
    int32_t *more = ls_sys_realloc(to->ids, sizeof *more * (size_t)(to->n + n + 1));
    if (!more)
        return ls_fail(LS_E_MEMORY, "out of memory for a text of %lld tokens", (long long)n);
    memcpy(more + to->n, ids, sizeof *more * (size_t)n);
    *to = (ls_tokens){ .ids = more, .n = to->n + n, .room = to->n + n + 1 };
    return LS_OK;
}

ls_status ls_generate_all(ls_generator *g, int64_t n, const ls_tokens *prompts, const ls_generate_opts *o,
                          ls_tokens *texts)
{
    LS_ARG(g);
    LS_ARG(prompts);
    LS_ARG(o);
    LS_ARG(texts);
    ls_generate_opts quiet = *o;
    quiet.on_token = NULL;
    LS_TRY(generate_check(g, n, prompts, o));
    for (int64_t at = 0; at < n; at += g->prompts) {
        job j = { .g = g, .o = &quiet, .n = n - at < g->prompts ? n - at : g->prompts, .alone = !g->group };
        ls_status s = generate_run(&j, prompts + at, at);
        for (int64_t p = 0; p < j.n && s == LS_OK; p++) {
            int64_t tokens;
            const int32_t *text = ls_search_text(j.search[p], &tokens);
            s = generate_append(&texts[at + p], text, tokens);
        }
        generate_release(&j);
        LS_TRY(s);
    }
    return LS_OK;
}

ls_generate_opts ls_generate_opts_default(void) { return (ls_generate_opts){ LS_GENERATE_DEFAULTS }; }
