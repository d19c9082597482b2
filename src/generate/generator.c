/* generator.c - a model that generates text, as programs of one session, which share weights and caches. Some
 * read prompts: `prefill` takes many tokens of each prompt at a time, `encode` reads sources. The
 * program `decode` takes one token of each row. feed.c runs them. */
#include "generator_own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/sys.h"
#include "ckpt/elements.h"
#include "lockstep/nn.h"
#include "of_recipe.h"
#include "ops/rules.h"
#include "recipe/recipe_use.h"
#include "setup/folder.h"
#include "setup/setup.h"

/* Rows of the products in a run of `prefill`. With few rows a pass over all weights does not pay off, and a
 * short prompt should not pay for many rows. */
static const int64_t PREFILL_ROWS[] = { 512, 128, 32 };

/* A target may name layers of another program only: no word is missed here. */
static ls_status add_lora(ls_graph *graph, const ls_lora_opts *lora)
{
    if (lora)
        LS_TRY(ls_add_lora_with(graph, lora));
    graph->lora_unused = NULL;
    return LS_OK;
}

static ls_status build_encode(ls_graph *graph, const void *generator, int64_t size)
{
    const ls_generator *g = generator;
    (void)size;
    LS_TRY(add_lora(graph, g->model.lora));
    LS_TRY(g->model.nf4 ? ls_base_nf4(graph) : LS_OK);
    return g->model.encode(graph, &g->model, g->prompts);
}

static ls_status build_tokens(ls_graph *graph, const void *generator, int64_t tokens)
{
    const ls_generator *g = generator;
    LS_TRY(add_lora(graph, g->model.lora));
    LS_TRY(g->model.nf4 ? ls_base_nf4(graph) : LS_OK);
    return g->model.decode(graph, &g->model, g->prompts, g->beams, tokens);
}

static int nodes(const ls_generator *g)
{
    int n = 0;
    for (int p = 0; p < g->programs; p++)
        n += g->plans[p]->graph->n_nodes;
    return n;
}

/* The parameters of all programs, and this rank's local shard of each. */
typedef struct weights {
    int64_t n;
    ls_named_tensor *whole; /* no data */
    ls_box *boxes;          /* the block of this rank, */
    ls_range *ranges;       /* and its place */
} weights;

static void generator_release(weights *l)
{
    free(l->whole);
    free(l->boxes);
    free(l->ranges);
}

static ls_tensor_list list_of(const weights *l)
{
    return (ls_tensor_list){ .n = l->n, .tensors = l->whole, .mine = l->ranges };
}

/* Appends the whole parameter of which this rank has a block at `mine`. */
static void generator_append(const ls_generator *g, weights *l, const ls_node *param, const ls_place *mine)
{
    int64_t parts;
    const ls_source_attrs *a = param->attrs;
    ls_type whole = ls_param_whole(param, &g->parallel.mesh, &parts);
    ls_box *box = &l->boxes[l->n];
    *box = ls_param_box(&a->sharded, &whole, parts, &g->parallel.mesh, g->parallel.rank);
    whole.dtype = mine->type.dtype;
    l->whole[l->n] = (ls_named_tensor){ a->name, ls_tensor_of(NULL, &whole) };
    l->ranges[l->n++] = (ls_range){ .count = ls_box_count(box), .place = *mine, .box = box };
}

static ls_status list(const ls_generator *g, weights *l)
{
    const size_t most = (size_t)nodes(g);
    *l = (weights){ .whole = ls_sys_calloc(most, sizeof *l->whole),
                    .boxes = ls_sys_calloc(most, sizeof *l->boxes),
                    .ranges = ls_sys_calloc(most, sizeof *l->ranges) };
    ls_status s = l->whole && l->boxes && l->ranges
                      ? LS_OK
                      : ls_fail(LS_E_MEMORY, "out of memory for a list of weights");
    for (int p = 0; p < g->programs; p++)
        for (int i = 0; i < g->plans[p]->graph->n_nodes && s == LS_OK; i++) {
            const ls_node *node = g->plans[p]->graph->nodes[i];
            if (node->op != &ls_op_param)
                continue;
            const ls_source_attrs *a = node->attrs;
            int64_t same = 0;
            while (same < l->n && strcmp(l->whole[same].name, a->name))
                same++;
            if (same < l->n)
                continue;
            ls_place place;
            s = ls_session_place(g->session, a->name, &place);
            if (s == LS_OK)
                generator_append(g, l, node, &place);
        }
    return s;
}

static ls_status generator_load(ls_generator *g, const ls_weights *w)
{
    weights l;
    ls_status s = list(g, &l);
    const ls_tensor_list all = list_of(&l);
    if (s == LS_OK)
        s = ls_ranges_load(w, &all, &(ls_weights_load_opts){ LS_WEIGHTS_LOAD_DEFAULTS, .convert = true });
    generator_release(&l);
    return s;
}

ls_status ls_generator_take_weights(ls_generator *g, const ls_tensor_list *from)
{
    weights l;
    ls_status s = list(g, &l);
    const ls_tensor_list all = list_of(&l);
    if (s == LS_OK)
        s = ls_tensors_copy(&all, from);
    generator_release(&l);
    return s;
}

static ls_status bind(ls_generator *g)
{
    char name[48];
    for (int p = 0; p < g->programs; p++) {
        if (g->takes[p] == LS_SOURCES) {
            LS_TRY(ls_session_place(g->session, "ids", &g->ids[p]));
            continue;
        }
        snprintf(name, sizeof name, "ids.%lld", (long long)g->takes[p]);
        LS_TRY(ls_session_place(g->session, name, &g->ids[p]));
        snprintf(name, sizeof name, "positions.%lld", (long long)g->takes[p]);
        LS_TRY(ls_session_place(g->session, name, &g->positions[p]));
    }
    if (g->beams > 1)
        LS_TRY(ls_session_place(g->session, "from", &g->from));
    if (!ls_generator_has_sources(g))
        LS_TRY(ls_session_place(g->session, "row", &g->row));
    return ls_session_place(g->session, "logits", &g->logits);
}

size_t ls_generator_most_tokens(const ls_generator *g)
{
    int64_t most = 0;
    for (int p = 0; p < g->programs; p++) {
        const int64_t n = ls_type_count(&g->ids[p].type);
        most = n > most ? n : most;
    }
    return (size_t)most;
}

static size_t input_bytes(const ls_generator *g)
{
    return LS_GENERATOR_RUNS * 2 * sizeof *g->inputs * (ls_generator_most_tokens(g) + (size_t)g->rows);
}

static ls_status make_room(ls_generator *g)
{
    g->inputs = ls_sys_calloc(input_bytes(g), 1);
    g->scores = ls_sys_calloc(ls_type_bytes(&g->logits.type), 1);
    return ls_sys_have(g->inputs && g->scores ? g->inputs : NULL);
}

static ls_status add_program(ls_generator *g, int64_t takes, const ls_precision *p, const ls_device *d)
{
    const bool encodes = takes == LS_SOURCES;
    const char *name = encodes ? "encode" : takes == 1 ? "decode" : "prefill";
    g->takes[g->programs] = takes;
    return ls_compile_inference(&g->plans[g->programs++], name, encodes ? build_encode : build_tokens, g,
                                takes, p, d, g->group ? &g->parallel : NULL);
}

static ls_status add_programs(ls_generator *g, const ls_precision *p, const ls_device *d)
{
    const int n = sizeof PREFILL_ROWS / sizeof PREFILL_ROWS[0];
    LS_TRY(add_program(g, 1, p, d));
    if (ls_generator_has_sources(g))
        return add_program(g, LS_SOURCES, p, d);
    for (int i = 0; i < n; i++) {
        const int64_t tokens = PREFILL_ROWS[i] / g->prompts,
                      fewer = i + 1 < n ? PREFILL_ROWS[i + 1] / g->prompts : 0;
        if (tokens > 1 && fewer < g->model.places) /* else the next program takes any prompt at once */
            LS_TRY(add_program(g, tokens, p, d));
    }
    return LS_OK;
}

static ls_status generator_fill(ls_generator *g, const ls_weights *w, const ls_generator_opts *o)
{
    ls_device device;
    const ls_device_opts d = { .isa = o->isa, .threads = o->threads, .kernels = o->kernels };
    const ls_precision precision = { LS_PRECISION_DEFAULTS, .param = o->param, .output = o->output,
                                     .modules = o->modules };
    LS_TRY(ls_precision_check(&precision));
    LS_TRY(ls_device_open(&device, o->device, &d));
    if (g->group)
        LS_TRY(ls_device_link(&device));
    g->threads = device.threads;
    LS_TRY(add_programs(g, &precision, &device));
    LS_TRY(ls_session_create(&g->session, g->programs, g->plans,
                             &(ls_session_opts){ .group = g->group,
                                                 .parallel = g->group ? &g->parallel : NULL,
                                                 .runs = LS_GENERATOR_RUNS }));
    LS_TRY(bind(g));
    LS_TRY(make_room(g));
    return w ? generator_load(g, w) : LS_OK;
}

static ls_status generator_check(const ls_generator_opts *o)
{
    if (o->places < 0 || o->source < 0 || !ls_dtype_is_float(o->param) || !ls_dtype_is_float(o->output))
        return ls_fail(LS_E_ARG, "a generator of %lld places and sources of %lld in %s, of logits in %s",
                       (long long)o->places, (long long)o->source, ls_dtype_name(o->param),
                       ls_dtype_name(o->output));
    if (o->prompts < 1 || o->beams < 1 || o->prompts > 1 << 20 || o->beams > 1 << 10)
        return ls_fail(LS_E_ARG, "a generator of %lld prompts and %lld beams: both must be positive",
                       (long long)o->prompts, (long long)o->beams);
    return LS_OK;
}

ls_status ls_generator_of(ls_generator **out, const ls_generation *model, const ls_weights *w,
                          const ls_generator_opts *o)
{
    *out = NULL;
    LS_TRY(generator_check(o));
    ls_generator *g = ls_sys_calloc(1, sizeof *g);
    if (!g)
        return ls_fail(LS_E_MEMORY, "out of memory for a generator");
    g->model = *model;
    g->model.places = o->places ? o->places : model->places;
    g->model.source = model->source && o->source ? o->source : model->source;
    g->prompts = o->prompts;
    g->beams = o->beams;
    g->rows = o->prompts * o->beams;
    g->parallel = ls_parallel_default();
    if (o->group && ls_group_size(o->group) > 1) {
        const int ranks = ls_group_size(o->group);
        g->group = o->group;
        g->parallel.mesh = (ls_mesh){ .n = 2, .axes = { { "dp", 1 }, { "tp", ranks } } };
        g->parallel.rank = ls_group_rank(o->group);
    }
    ls_status s = generator_fill(g, w, o);
    g->model.config = g->model.lora = NULL;
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
    const ls_generation model = ls_decoder_generation(config);
    return ls_generator_of(out, &model, w, o ? o : &(const ls_generator_opts){ LS_GENERATOR_DEFAULTS });
}

ls_status ls_generator_create_t5_with(ls_generator **out, const ls_t5_config *config, const ls_weights *w,
                                      const ls_generator_opts *o)
{
    LS_ARG(out);
    LS_ARG(config);
    LS_ARG(w);
    const ls_generation model = ls_t5_generation(config);
    return ls_generator_of(out, &model, w, o ? o : &(const ls_generator_opts){ LS_GENERATOR_DEFAULTS });
}

ls_status ls_generator_of_recipe(ls_generator **out, const ls_recipe *r, const ls_weights *w,
                                 const ls_generator_opts *o)
{
    const ls_model_row *m = ls_recipe_model(r);
    ls_generation model;
    ls_lora_opts lora;
    ls_arena a;
    ls_arena_init(&a);
    ls_status s = m->generation(&model, r, m->preset, &a);
    model.lora = ls_recipe_lora(&lora, r) ? &lora : NULL;
    model.nf4 = s == LS_OK && r->model.base == LS_BASE_NF4;
    if (s == LS_OK)
        s = ls_generator_of(out, &model, w, o);
    ls_arena_release(&a);
    return s;
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
    LS_ARG_DTYPE(o->param);
    LS_ARG_DTYPE(o->output);
    ls_recipe *recipe;
    char *dir = NULL;
    *out = NULL;
    ls_status s = ls_folder_find(&dir, folder, o->best);
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
    for (int i = 0; i < g->programs; i++)
        ls_plan_destroy(&g->plans[i]);
    free(g->inputs);
    free(g->scores);
    free(g);
    *gp = NULL;
}

int64_t ls_generator_places(const ls_generator *g)
{
    LS_ARG_OR(g, 0);
    return g->model.places;
}
int64_t ls_generator_position(const ls_generator *g)
{
    LS_ARG_OR(g, 0);
    return g->position;
}
int64_t ls_generator_vocabulary(const ls_generator *g)
{
    LS_ARG_OR(g, 0);
    return g->model.vocabulary;
}
size_t ls_generator_bytes(const ls_generator *g)
{
    LS_ARG_OR(g, 0);
    return ls_session_bytes(g->session) + input_bytes(g) + ls_type_bytes(&g->logits.type);
}

void ls_generator_rewind(ls_generator *g, int64_t position)
{
    LS_ARG_VOID(g);
    if (position < g->position)
        g->position = position < 0 ? 0 : position;
}

ls_generator_opts ls_generator_opts_default(void) { return (ls_generator_opts){ LS_GENERATOR_DEFAULTS }; }
