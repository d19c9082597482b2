/* generator.c - a language model that continues text. Two programs have the same layers: `prefill` takes many
 * tokens of a prompt at a time, `decode` takes one token. They share weights and caches, which are states of
 * one session. Input `positions` says which places of the caches a program writes and reads. */
#include "lockstep/generate.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/argument.h"
#include "base/clock.h"
#include "base/sys.h"
#include "execute/session.h"
#include "ops/rules.h"
#include "setup/folder.h"
#include "setup/setup.h"

/* CHUNK: tokens of one run of `prefill`. FEW: when at most so many tokens of a prompt are left, `decode`
 * takes them one by one, which is faster. No result depends on either number. */
enum { CHUNK = 64, FEW = 6 };
enum { PREFILL, DECODE, PROGRAMS };

struct ls_generator {
    ls_decoder_config config;
    ls_plan *plans[PROGRAMS];
    ls_session *session;
    ls_tensor ids[PROGRAMS], positions[PROGRAMS], row, logits;
    int64_t position;
};

static ls_status build(ls_graph *g, const void *config, int64_t tokens)
{
    return ls_decoder_build_cached(g, config, tokens);
}

static ls_status load(ls_generator *g, const ls_weights *w)
{
    const ls_graph *graph = g->plans[DECODE]->graph;
    ls_named_tensor *want = ls_sys_calloc((size_t)graph->n_nodes, sizeof *want);
    int64_t n = 0;
    ls_status s = want ? LS_OK : ls_fail(LS_E_MEMORY, "out of memory for a list of weights");
    for (int i = 0; i < graph->n_nodes && s == LS_OK; i++) {
        if (graph->nodes[i]->op != &ls_op_param)
            continue;
        want[n].name = ((const ls_source_attrs *)graph->nodes[i]->attrs)->name;
        s = ls_session_tensor(g->session, want[n].name, &want[n].tensor);
        n++;
    }
    if (s == LS_OK)
        s = ls_weights_load(w, n, want, .convert = true);
    free(want);
    return s;
}

static ls_status bind(ls_generator *g)
{
    static const int64_t TOKENS[PROGRAMS] = { CHUNK, 1 };
    char name[32];
    for (int i = 0; i < PROGRAMS; i++) {
        snprintf(name, sizeof name, "ids.%lld", (long long)TOKENS[i]);
        LS_TRY(ls_session_tensor(g->session, name, &g->ids[i]));
        snprintf(name, sizeof name, "positions.%lld", (long long)TOKENS[i]);
        LS_TRY(ls_session_tensor(g->session, name, &g->positions[i]));
    }
    LS_TRY(ls_session_tensor(g->session, "row", &g->row));
    return ls_session_tensor(g->session, "logits", &g->logits);
}

static ls_status fill(ls_generator *g, const ls_weights *w, const ls_generator_opts *o)
{
    ls_device device;
    const ls_device_opts d = { .isa = o->isa, .threads = o->threads, .kernels = o->kernels };
    LS_TRY(ls_device_open(&device, o->device, &d));
    LS_TRY(ls_compile_inference(&g->plans[PREFILL], "prefill", build, &g->config, CHUNK, o->param, o->output,
                                &device));
    LS_TRY(ls_compile_inference(&g->plans[DECODE], "decode", build, &g->config, 1, o->param, o->output,
                                &device));
    LS_TRY(ls_session_create(&g->session, PROGRAMS, g->plans));
    LS_TRY(bind(g));
    return load(g, w);
}

ls_status ls_generator_create_with(ls_generator **out, const ls_decoder_config *config, const ls_weights *w,
                                   const ls_generator_opts *o)
{
    LS_ARG(out);
    LS_ARG(config);
    LS_ARG(w);
    o = o ? o : &(const ls_generator_opts){ LS_GENERATOR_DEFAULTS };
    *out = NULL;
    if (o->places < 0 || !ls_dtype_is_float(o->param) || !ls_dtype_is_float(o->output))
        return ls_fail(LS_E_ARG, "a generator of %lld places in %s, of logits in %s", (long long)o->places,
                       ls_dtype_name(o->param), ls_dtype_name(o->output));
    ls_generator *g = ls_sys_calloc(1, sizeof *g);
    if (!g)
        return ls_fail(LS_E_MEMORY, "out of memory for a generator");
    g->config = *config;
    if (o->places)
        g->config.seq_length = o->places;
    ls_status s = fill(g, w, o);
    if (s != LS_OK)
        ls_generator_destroy(&g);
    *out = g;
    return s;
}

static ls_status open_as(ls_generator **out, ls_recipe *recipe, const ls_generator_opts *o)
{
    ls_setup setup;
    ls_weights *w;
    LS_TRY(ls_setup_inference(&setup, recipe, 1, 0, 0));
    LS_TRY(ls_setup_weights(&w, recipe));
    ls_decoder_config c;
    setup.model->decoder(&c, recipe);
    const ls_status s = ls_generator_create_with(out, &c, w, o);
    ls_weights_close(&w);
    return s;
}

ls_status ls_generator_open_with(ls_generator **out, const char *folder, const ls_generator_opts *o)
{
    LS_ARG(out);
    LS_ARG(folder);
    o = o ? o : &(const ls_generator_opts){ LS_GENERATOR_DEFAULTS };
    ls_recipe *recipe;
    char *dir = NULL;
    *out = NULL;
    ls_status s = ls_folder_find(&dir, folder);
    if (s == LS_OK)
        s = ls_folder_recipe(&recipe, dir, 0, NULL);
    if (s == LS_OK) {
        s = open_as(out, recipe, o);
        ls_recipe_destroy(&recipe);
    }
    free(dir);
    return s;
}

void ls_generator_destroy(ls_generator **gp)
{
    if (!gp)
        return;
    ls_generator *g = *gp;
    if (!g)
        return;
    ls_session_destroy(&g->session);
    for (int i = 0; i < PROGRAMS; i++)
        ls_plan_destroy(&g->plans[i]);
    free(g);
    *gp = NULL;
}

int64_t ls_generator_places(const ls_generator *g)
{
    LS_ARG_OR(g, 0);
    return g->config.seq_length;
}
int64_t ls_generator_position(const ls_generator *g)
{
    LS_ARG_OR(g, 0);
    return g->position;
}
int64_t ls_generator_vocabulary(const ls_generator *g)
{
    LS_ARG_OR(g, 0);
    return g->config.vocab_size;
}
size_t ls_generator_bytes(const ls_generator *g)
{
    LS_ARG_OR(g, 0);
    return ls_session_bytes(g->session);
}

void ls_generator_rewind(ls_generator *g, int64_t position)
{
    LS_ARG_VOID(g);
    if (position < g->position)
        g->position = position < 0 ? 0 : position;
}

/* Takes n tokens in one run. The other tokens of the program are padding: their position -1 keeps them out of
 * the caches. */
static ls_status run(ls_generator *g, int program, const int32_t *ids, int64_t n)
{
    const int64_t room = ls_type_count(&g->ids[program].type);
    for (int64_t i = 0; i < room; i++) {
        ((int32_t *)g->ids[program].data)[i] = i < n ? ids[i] : 0;
        ((int32_t *)g->positions[program].data)[i] = i < n ? (int32_t)(g->position + i) : -1;
    }
    *(int32_t *)g->row.data = (int32_t)(n - 1);
    LS_TRY(ls_session_run(g->session, program, false));
    g->position += n;
    return LS_OK;
}

ls_status ls_generator_feed(ls_generator *g, const int32_t *ids, int64_t n, const float **logits)
{
    LS_ARG(g);
    if (n)
        LS_ARG(ids);
    LS_ARG(logits);
    if (n < 1)
        return ls_fail(LS_E_ARG, "no token is given: at least one is needed");
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= g->config.vocab_size)
            return ls_fail(
                LS_E_ARG,
                "token id %d (number %lld of %lld) is out of range: the vocabulary has ids 0 to %lld", ids[i],
                (long long)i, (long long)n, (long long)g->config.vocab_size - 1);
    if (n > g->config.seq_length - g->position)
        return ls_fail(LS_E_USAGE, "%lld tokens and %lld more are beyond the context of %lld tokens",
                       (long long)g->position, (long long)n, (long long)g->config.seq_length);
    while (n > 0) {
        const int64_t part = n <= FEW ? 1 : n < CHUNK ? n : CHUNK;
        LS_TRY(run(g, part > 1 ? PREFILL : DECODE, ids, part));
        ids += part;
        n -= part;
    }
    *logits = g->logits.data;
    return LS_OK;
}

static bool is_end(const ls_generate_opts *o, int32_t id)
{
    for (int i = 0; i < o->n_ends; i++)
        if (o->ends[i] == id)
            return true;
    return false;
}

ls_status ls_generate(ls_generator *g, const ls_generate_opts *o, ls_generated *r)
{
    LS_ARG(g);
    LS_ARG(o);
    LS_ARG(r);
    const float *logits;
    int32_t id = 0;
    double start = ls_now();
    *r = (ls_generated){ .ending = LS_ENDED_TOKENS };
    ls_generator_rewind(g, 0);
    LS_TRY(ls_generator_feed(g, o->prompt, o->n_prompt, &logits));
    r->prompt_seconds = ls_now() - start;
    start = ls_now();
    while (r->tokens < o->tokens) {
        if (o->n_prompt + r->tokens == g->config.seq_length) {
            r->ending = LS_ENDED_PLACES;
            return LS_OK;
        }
        if (r->tokens)
            LS_TRY(ls_generator_feed(g, &id, 1, &logits));
        LS_TRY(ls_sample(&id, logits, g->config.vocab_size, &o->sampling, g->position));
        r->seconds = ls_now() - start;
        if (is_end(o, id)) {
            r->ending = LS_ENDED_TOKEN;
            return LS_OK;
        }
        r->tokens++;
        if (o->on_token && !o->on_token(o->context, id)) {
            r->ending = LS_ENDED_CALLER;
            return LS_OK;
        }
    }
    return LS_OK;
}

ls_generator_opts ls_generator_opts_default(void) { return (ls_generator_opts){ LS_GENERATOR_DEFAULTS }; }

ls_generate_opts ls_generate_opts_default(void) { return (ls_generate_opts){ LS_GENERATE_DEFAULTS }; }
