/* feed.c - runs a generator's programs on tokens. Input `positions` has the places of the caches that a
 * program writes and reads. Input `from` has, for each row, the row whose text it continues. A token with
 * position -1 is padding: it writes nothing and nobody reads it. No result depends on padding, or on how a
 * prompt is divided into runs. */
#include "base/argument.h"
#include "generator_own.h"

static ls_status check_ids(const ls_generator *g, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= g->model.vocabulary)
            return ls_fail(
                LS_E_ARG,
                "token id %d (number %lld of %lld) is out of range: the vocabulary has ids 0 to %lld", ids[i],
                (long long)i, (long long)n, (long long)g->model.vocabulary - 1);
    return LS_OK;
}

static ls_status wait(ls_generator *g)
{
    g->queued = 0;
    return ls_session_wait(g->session);
}

/* Finds memory for the inputs of the next run. */
static ls_status feed_prepare(ls_generator *g)
{
    const size_t tokens = ls_generator_most_tokens(g), rows = (size_t)g->rows;
    if (g->queued == LS_GENERATOR_RUNS)
        LS_TRY(wait(g));
    g->id = g->inputs + (size_t)g->queued++ * 2 * (tokens + rows);
    g->of_position = g->id + tokens;
    g->of_row = g->of_position + tokens;
    g->of_from = g->of_row + rows;
    return LS_OK;
}

static ls_status feed_put(const ls_place *to, const int32_t *from)
{
    return ls_place_present(to) ? ls_session_put(to, from, ls_type_bytes(&to->type)) : LS_OK;
}

/* Puts a run of a program, with the inputs that lie in host memory, into the queue. */
static ls_status feed_run(ls_generator *g, int program)
{
    LS_TRY(feed_put(&g->ids[program], g->id));
    LS_TRY(feed_put(&g->positions[program], g->of_position));
    LS_TRY(feed_put(&g->row, g->of_row));
    LS_TRY(feed_put(&g->from, g->of_from));
    return ls_session_run(g->session, program, false);
}

static ls_status read_logits(ls_generator *g)
{
    LS_TRY(ls_session_fetch(&g->logits, g->scores, ls_type_bytes(&g->logits.type)));
    return wait(g);
}

ls_status ls_generator_decode(ls_generator *g, const int32_t *ids, const int32_t *positions,
                              const int32_t *from)
{
    LS_TRY(feed_prepare(g));
    for (int64_t r = 0; r < g->rows; r++) {
        g->id[r] = positions[r] < 0 ? 0 : ids[r];
        g->of_position[r] = positions[r];
        g->of_row[r] = (int32_t)r;
        g->of_from[r] = from[r];
    }
    LS_TRY(feed_run(g, LS_DECODE));
    return read_logits(g);
}

/* The time of a run, in rows of products: a pass over the weights takes as long as PASS of them. */
static int64_t cost_of(const ls_generator *g, int program)
{
    enum { PASS = 24 };
    return g->takes[program] * g->prompts + PASS;
}

/* The least time for n tokens of each prompt, with the programs from number `program` on (each takes fewer
 * tokens than the one before) and `decode`. *first: the program to run first. */
static int64_t soonest(const ls_generator *g, int64_t n, int program, int *first)
{
    *first = LS_DECODE;
    if (n == 0 || program == g->programs)
        return n * cost_of(g, LS_DECODE);
    const int64_t takes = g->takes[program], runs = n / takes;
    const int64_t cut = runs * cost_of(g, program) + soonest(g, n - runs * takes, program + 1, first),
                  padded = (runs + 1) * cost_of(g, program);
    if (runs > 0 || padded <= cut)
        *first = program;
    return padded <= cut ? padded : cut;
}

static int program_for(const ls_generator *g, int64_t n)
{
    int first;
    soonest(g, n, ls_generator_has_sources(g) ? g->programs : LS_DECODE + 1, &first);
    return first;
}

/* Runs columns [at, at + part) of prompts that end in the same column, `columns`. If the program takes more
 * columns, padding stands in front, as before a short prompt. So the last token of each prompt is the last
 * one of the last run, and the head is computed for it alone. */
static ls_status feed_take(ls_generator *g, int program, int64_t n, const ls_tokens *prompts, int64_t columns,
                           int64_t at, int64_t part)
{
    const int64_t takes = g->takes[program], lanes = program == LS_DECODE ? g->beams : 1;
    LS_TRY(feed_prepare(g));
    for (int64_t i = 0; i < g->prompts * lanes * takes; i++) {
        const int64_t p = i / takes / lanes, column = at + i % takes - (takes - part);
        const int64_t token = p < n ? column - (columns - prompts[p].n) : -1;
        const bool real = i / takes % lanes == 0 && column >= at && token >= 0;
        g->id[i] = real ? prompts[p].ids[token] : 0;
        g->of_position[i] = real ? (int32_t)(g->position + token) : -1;
    }
    for (int64_t r = 0; r < g->rows; r++) {
        g->of_row[r] = (int32_t)(program == LS_DECODE ? r : (r / g->beams + 1) * takes - 1);
        g->of_from[r] = (int32_t)r;
    }
    return feed_run(g, program);
}

ls_status ls_generator_continue(ls_generator *g, int64_t n, const ls_tokens *prompts)
{
    int64_t columns = 0;
    for (int64_t p = 0; p < n; p++) {
        LS_TRY(check_ids(g, prompts[p].ids, prompts[p].n));
        if (prompts[p].n > g->model.places - g->position)
            return ls_fail(LS_E_USAGE, "%lld tokens and %lld more are beyond the context of %lld tokens",
                           (long long)g->position, (long long)prompts[p].n, (long long)g->model.places);
        columns = prompts[p].n > columns ? prompts[p].n : columns;
    }
    for (int64_t at = 0; at < columns;) {
        const int program = program_for(g, columns - at);
        const int64_t left = columns - at, part = left < g->takes[program] ? left : g->takes[program];
        LS_TRY(feed_take(g, program, n, prompts, columns, at, part));
        at += part;
    }
    g->position += prompts[0].n;
    return read_logits(g);
}

ls_status ls_generator_feed(ls_generator *g, const int32_t *ids, int64_t n, const float **logits)
{
    LS_ARG(g);
    if (n)
        LS_ARG(ids);
    LS_ARG(logits);
    if (n < 1)
        return ls_fail(LS_E_ARG, "no token is given: at least one is needed");
    if (g->rows > 1)
        return ls_fail(LS_E_ARG, "tokens for one text: this generator has %lld prompts and %lld beams",
                       (long long)g->prompts, (long long)g->beams);
    if (ls_generator_has_sources(g) && !g->has_read)
        return ls_fail(LS_E_ARG, "this model reads a source before it writes: call ls_generator_read first");
    LS_TRY(ls_generator_continue(g, 1, &(ls_tokens){ .ids = (int32_t *)(uintptr_t)ids, .n = n }));
    *logits = g->scores;
    return LS_OK;
}

ls_status ls_generator_read_all(ls_generator *g, int64_t n, const ls_tokens *sources)
{
    const int64_t length = g->model.source;
    for (int64_t p = 0; p < n; p++) {
        LS_TRY(check_ids(g, sources[p].ids, sources[p].n));
        if (sources[p].n > length)
            return ls_fail(LS_E_USAGE, "a source of %lld tokens is too long: the generator reads %lld",
                           (long long)sources[p].n, (long long)length);
    }
    LS_TRY(feed_prepare(g));
    for (int64_t i = 0; i < g->prompts * length; i++) {
        const int64_t p = i / length, t = i % length;
        g->id[i] = p < n && t < sources[p].n ? sources[p].ids[t] : (int32_t)g->model.pad_token;
    }
    g->position = 0;
    g->has_read = false;
    LS_TRY(feed_put(&g->ids[LS_ENCODE], g->id));
    LS_TRY(ls_session_run(g->session, LS_ENCODE, false));
    g->has_read = true;
    return LS_OK;
}

ls_status ls_generator_read(ls_generator *g, const int32_t *ids, int64_t n)
{
    LS_ARG(g);
    if (n)
        LS_ARG(ids);
    if (!ls_generator_has_sources(g))
        return ls_fail(LS_E_ARG,
                       "this model does not read sources: it continues a prompt (ls_generator_feed)");
    return ls_generator_read_all(g, 1, &(ls_tokens){ .ids = (int32_t *)(uintptr_t)ids, .n = n });
}
