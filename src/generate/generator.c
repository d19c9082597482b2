/* generator.c - a model that makes text, as two programs of one session, which share weights and caches. The
 * first program reads prompts: `prefill` takes many tokens of a prompt at a time, `encode` of a T5 reads
 * sources. The second program, `decode`, takes one token of each row. Input `positions` says which places of
 * the caches a program writes and reads; input `from` says which row's text each row continues. */
#include "generator_own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/sys.h"
#include "of_recipe.h"
#include "ops/rules.h"
#include "setup/folder.h"
#include "setup/setup.h"

/* CHUNK: tokens of one run of `prefill`. FEW: when at most so many tokens of a prompt are left, `decode`
 * takes them one by one, which is faster. No result depends on either number. */
enum { CHUNK = 64, FEW = 6 };

static ls_status build_read(ls_graph *graph, const void *generator, int64_t size)
{
    const ls_generator *g = generator;
    return g->is_t5 ? ls_t5_build_encoder(graph, &g->t5, size)
                    : ls_decoder_build_cached(graph, &g->decoder, size, g->beams);
}

static ls_status build_decode(ls_graph *graph, const void *generator, int64_t size)
{
    const ls_generator *g = generator;
    return g->is_t5 ? ls_t5_build_cached(graph, &g->t5, g->prompts, size)
                    : ls_decoder_build_cached(graph, &g->decoder, 1, size);
}

/* Loads the parameters of both programs. */
static ls_status load(ls_generator *g, const ls_weights *w)
{
    int64_t n = 0;
    const int room = g->plans[LS_READ]->graph->n_nodes + g->plans[LS_DECODE]->graph->n_nodes;
    ls_named_tensor *want = ls_sys_calloc((size_t)room, sizeof *want);
    ls_status s = want ? LS_OK : ls_fail(LS_E_MEMORY, "out of memory for a list of weights");
    for (int p = 0; p < LS_GENERATOR_PROGRAMS; p++)
        for (int i = 0; i < g->plans[p]->graph->n_nodes && s == LS_OK; i++) {
            const ls_node *node = g->plans[p]->graph->nodes[i];
            if (node->op != &ls_op_param)
                continue;
            want[n].name = ((const ls_source_attrs *)node->attrs)->name;
            int64_t same = 0;
            while (strcmp(want[same].name, want[n].name))
                same++;
            if (same == n)
                s = ls_session_tensor(g->session, want[n++].name, &want[same].tensor);
        }
    if (s == LS_OK)
        s = ls_weights_load(w, n, want, .convert = true);
    free(want);
    return s;
}

static ls_status bind(ls_generator *g)
{
    LS_TRY(ls_session_tensor(g->session, "ids.1", &g->ids[LS_DECODE]));
    LS_TRY(ls_session_tensor(g->session, "positions.1", &g->positions[LS_DECODE]));
    LS_TRY(ls_session_tensor(g->session, "logits", &g->logits));
    if (g->rows > g->prompts)
        LS_TRY(ls_session_tensor(g->session, "from", &g->from));
    if (g->is_t5)
        return ls_session_tensor(g->session, "ids", &g->ids[LS_READ]);
    char name[32];
    snprintf(name, sizeof name, "ids.%d", CHUNK);
    LS_TRY(ls_session_tensor(g->session, name, &g->ids[LS_READ]));
    snprintf(name, sizeof name, "positions.%d", CHUNK);
    LS_TRY(ls_session_tensor(g->session, name, &g->positions[LS_READ]));
    return ls_session_tensor(g->session, "row", &g->row);
}

static ls_status fill(ls_generator *g, const ls_weights *w, const ls_generator_opts *o)
{
    ls_device device;
    const ls_device_opts d = { .isa = o->isa, .threads = o->threads, .kernels = o->kernels };
    const ls_precision precision = { LS_PRECISION_DEFAULTS, .param = o->param, .output = o->output,
                                     .modules = o->modules };
    LS_TRY(ls_precision_check(&precision));
    LS_TRY(ls_device_open(&device, o->device, &d));
    LS_TRY(ls_compile_inference(&g->plans[LS_READ], g->is_t5 ? "encode" : "prefill", build_read, g,
                                g->is_t5 ? g->prompts : CHUNK, &precision, &device));
    LS_TRY(
        ls_compile_inference(&g->plans[LS_DECODE], "decode", build_decode, g, g->beams, &precision, &device));
    LS_TRY(ls_session_create(&g->session, LS_GENERATOR_PROGRAMS, g->plans));
    LS_TRY(bind(g));
    return load(g, w);
}

static ls_status check(const ls_generator_opts *o, bool is_t5)
{
    if (o->places < 0 || o->source < 0 || !ls_dtype_is_float(o->param) || !ls_dtype_is_float(o->output))
        return ls_fail(LS_E_ARG, "a generator of %lld places and sources of %lld in %s, of logits in %s",
                       (long long)o->places, (long long)o->source, ls_dtype_name(o->param),
                       ls_dtype_name(o->output));
    if (o->prompts < 1 || o->beams < 1 || o->prompts > 1 << 20 || o->beams > 1 << 10)
        return ls_fail(LS_E_ARG, "a generator of %lld prompts and %lld beams: both must be positive",
                       (long long)o->prompts, (long long)o->beams);
    if (!is_t5 && o->prompts > 1)
        return ls_fail(LS_E_UNSUPPORTED, "%lld prompts at once: a language model continues one",
                       (long long)o->prompts);
    return LS_OK;
}

/* Makes a generator for the model of `like`. */
static ls_status create(ls_generator **out, const ls_generator *like, const ls_weights *w,
                        const ls_generator_opts *o)
{
    *out = NULL;
    LS_TRY(check(o, like->is_t5));
    ls_generator *g = ls_sys_calloc(1, sizeof *g);
    if (!g)
        return ls_fail(LS_E_MEMORY, "out of memory for a generator");
    *g = *like;
    int64_t *places = g->is_t5 ? &g->t5.target_length : &g->decoder.seq_length;
    *places = o->places ? o->places : *places;
    g->t5.source_length = o->source ? o->source : g->t5.source_length;
    g->places = *places;
    g->vocabulary = g->is_t5 ? g->t5.vocab_size : g->decoder.vocab_size;
    g->prompts = o->prompts;
    g->beams = o->beams;
    g->rows = o->prompts * o->beams;
    ls_status s = fill(g, w, o);
    if (s != LS_OK)
        ls_generator_destroy(&g);
    *out = g;
    return s;
}

ls_status ls_generator_create_with(ls_generator **out, const ls_decoder_config *config, const ls_weights *w,
                                   const ls_generator_opts *o)
{
    LS_ARG(out);
    LS_ARG(config);
    LS_ARG(w);
    return create(out, &(ls_generator){ .decoder = *config }, w,
                  o ? o : &(const ls_generator_opts){ LS_GENERATOR_DEFAULTS });
}

ls_status ls_generator_create_t5_with(ls_generator **out, const ls_t5_config *config, const ls_weights *w,
                                      const ls_generator_opts *o)
{
    LS_ARG(out);
    LS_ARG(config);
    LS_ARG(w);
    return create(out, &(ls_generator){ .is_t5 = true, .t5 = *config }, w,
                  o ? o : &(const ls_generator_opts){ LS_GENERATOR_DEFAULTS });
}

ls_status ls_generator_of_recipe(ls_generator **out, const ls_recipe *r, const ls_weights *w,
                                 const ls_generator_opts *o)
{
    const ls_model_row *m = ls_recipe_model(r);
    ls_decoder_config decoder;
    ls_t5_config t5;
    if (m->decoder) {
        m->decoder(&decoder, r);
        return ls_generator_create_with(out, &decoder, w, o);
    }
    m->t5(&t5, r);
    return ls_generator_create_t5_with(out, &t5, w, o);
}

static ls_status open_as(ls_generator **out, ls_recipe *recipe, const ls_generator_opts *o)
{
    ls_setup setup;
    ls_weights *w;
    LS_TRY(ls_setup_inference(&setup, recipe, 1, 0, 0));
    LS_TRY(ls_setup_weights(&w, recipe));
    const ls_status s = ls_generator_of_recipe(out, recipe, w, o);
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
    for (int i = 0; i < LS_GENERATOR_PROGRAMS; i++)
        ls_plan_destroy(&g->plans[i]);
    free(g);
    *gp = NULL;
}

int64_t ls_generator_places(const ls_generator *g)
{
    LS_ARG_OR(g, 0);
    return g->places;
}
int64_t ls_generator_position(const ls_generator *g)
{
    LS_ARG_OR(g, 0);
    return g->position;
}
int64_t ls_generator_vocabulary(const ls_generator *g)
{
    LS_ARG_OR(g, 0);
    return g->vocabulary;
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

ls_status ls_generator_check_ids(const ls_generator *g, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= g->vocabulary)
            return ls_fail(
                LS_E_ARG,
                "token id %d (number %lld of %lld) is out of range: the vocabulary has ids 0 to %lld", ids[i],
                (long long)i, (long long)n, (long long)g->vocabulary - 1);
    return LS_OK;
}

ls_status ls_generator_decode(ls_generator *g, const int32_t *ids, const int32_t *positions,
                              const int32_t *from)
{
    int32_t *id = g->ids[LS_DECODE].data, *position = g->positions[LS_DECODE].data, *row = g->row.data,
            *origin = g->from.data;
    for (int64_t r = 0; r < g->rows; r++) {
        id[r] = positions[r] < 0 ? 0 : ids[r];
        position[r] = positions[r];
        if (row)
            row[r] = (int32_t)r;
        if (origin)
            origin[r] = from ? from[r] : (int32_t)r;
    }
    return ls_session_run(g->session, LS_DECODE, false);
}

/* Takes n tokens of a prompt in one run. The other tokens of the program are padding: their position -1 keeps
 * them out of the caches. */
static ls_status prefill(ls_generator *g, const int32_t *ids, int64_t n)
{
    int32_t *id = g->ids[LS_READ].data, *position = g->positions[LS_READ].data, *row = g->row.data;
    for (int64_t i = 0; i < CHUNK; i++) {
        id[i] = i < n ? ids[i] : 0;
        position[i] = i < n ? (int32_t)(g->position + i) : -1;
    }
    for (int64_t r = 0; r < g->rows; r++)
        row[r] = (int32_t)(n - 1);
    return ls_session_run(g->session, LS_READ, false);
}

/* Takes one token in the first row. */
static ls_status take(ls_generator *g, int32_t id)
{
    int32_t *position = g->positions[LS_DECODE].data;
    for (int64_t r = 1; r < g->rows; r++)
        position[r] = -1;
    position[0] = (int32_t)g->position;
    return ls_generator_decode(g, &id, position, NULL);
}

ls_status ls_generator_continue(ls_generator *g, const int32_t *ids, int64_t n)
{
    LS_TRY(ls_generator_check_ids(g, ids, n));
    if (n > g->places - g->position)
        return ls_fail(LS_E_USAGE, "%lld tokens and %lld more are beyond the context of %lld tokens",
                       (long long)g->position, (long long)n, (long long)g->places);
    while (n > 0) {
        int64_t part = n < CHUNK ? n : CHUNK;
        if (n <= FEW || g->is_t5)
            part = 1;
        LS_TRY(part > 1 ? prefill(g, ids, part) : take(g, *ids));
        g->position += part;
        ids += part;
        n -= part;
    }
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
    if (g->rows > 1)
        return ls_fail(LS_E_ARG, "tokens for one text: this generator has %lld prompts and %lld beams",
                       (long long)g->prompts, (long long)g->beams);
    if (g->is_t5 && !g->has_read)
        return ls_fail(LS_E_ARG, "a T5 reads a source before it writes: ls_generator_read");
    LS_TRY(ls_generator_continue(g, ids, n));
    *logits = g->logits.data;
    return LS_OK;
}

ls_status ls_generator_read_all(ls_generator *g, int64_t n, const ls_tokens *sources)
{
    const int64_t length = g->t5.source_length;
    for (int64_t p = 0; p < n; p++) {
        LS_TRY(ls_generator_check_ids(g, sources[p].ids, sources[p].n));
        if (sources[p].n > length)
            return ls_fail(LS_E_USAGE, "a source of %lld tokens: the generator reads %lld",
                           (long long)sources[p].n, (long long)length);
    }
    int32_t *to = g->ids[LS_READ].data;
    for (int64_t i = 0; i < g->prompts * length; i++) {
        const int64_t p = i / length, t = i % length;
        to[i] = p < n && t < sources[p].n ? sources[p].ids[t] : (int32_t)g->t5.pad_token;
    }
    g->position = 0;
    g->has_read = false;
    LS_TRY(ls_session_run(g->session, LS_READ, false));
    g->has_read = true;
    return LS_OK;
}

ls_status ls_generator_read(ls_generator *g, const int32_t *ids, int64_t n)
{
    LS_ARG(g);
    if (n)
        LS_ARG(ids);
    if (!g->is_t5)
        return ls_fail(LS_E_ARG, "only a T5 reads sources; a language model continues its prompt");
    return ls_generator_read_all(g, 1, &(ls_tokens){ .ids = (int32_t *)(uintptr_t)ids, .n = n });
}

ls_generator_opts ls_generator_opts_default(void) { return (ls_generator_opts){ LS_GENERATOR_DEFAULTS }; }
