/* stages.c - decides which stage of a pipeline computes each node of a model (stages.h). */
#include "stages.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/field.h"
#include "graph/op.h"
#include "ops/rules.h"
#include "passes.h"

int ls_parallel_stages(const ls_parallel *p)
{
    return ls_mesh_group_size(&p->mesh, ls_mesh_axis(&p->mesh, LS_ROLE_PIPELINE));
}

int ls_parallel_stage(const ls_parallel *p)
{
    return ls_mesh_position(&p->mesh, p->rank, ls_mesh_axis(&p->mesh, LS_ROLE_PIPELINE));
}

int ls_parallel_chunks(const ls_parallel *p)
{
    return p->schedule == LS_SCHEDULE_INTERLEAVED && ls_parallel_stages(p) > 1 ? (int)p->chunks : 1;
}

typedef struct cutting {
    const ls_graph *g;
    const ls_parallel *p;
    int stages;
    int *of_scope; /* [scopes]: 1 + the number of its module; 0: none */
    int *after;    /* [nodes]: the last module that the node belongs to or reads from; -1: none */
    int modules;
    double *flops; /* [modules], with those of the nodes behind it, and before the first */
    int *stage;    /* [modules] */
} cutting;

/* The outermost module that `units` names around a node: its number, or -1. Modules are numbered in the order
 * in which they compute. */
static int module_of(cutting *c, const ls_node *n)
{
    const ls_scope *found = NULL;
    for (const ls_scope *s = n->scope; s && s->path[0]; s = s->parent)
        if (ls_words_name(c->p->units, s))
            found = s;
    if (!found)
        return -1;
    if (!c->of_scope[found->id])
        c->of_scope[found->id] = ++c->modules;
    return c->of_scope[found->id] - 1;
}

static double flops_of(const ls_graph *g, const ls_node *n, ls_type *types)
{
    ls_infer i = { .op = n->op, .n_in = n->n_in, .in = types, .attrs = n->attrs, .n_out = n->n_out };
    for (int k = 0; k < n->n_in; k++)
        types[k] = *ls_type_of(g, n->in[k]);
    for (int k = 0; k < n->n_out; k++)
        i.out[k] = *ls_type_of(g, n->out[k]);
    return n->op->cost ? n->op->cost(&i).flops : 0;
}

static void find_modules(cutting *c, ls_arena *arena)
{
    const ls_graph *g = c->g;
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        int at = n->op->flags & LS_OP_SOURCE ? -1 : module_of(c, n);
        for (int k = 0; k < n->n_in; k++)
            if (ls_present(n->in[k]) && c->after[ls_node_of(g, n->in[k])->id] > at)
                at = c->after[ls_node_of(g, n->in[k])->id];
        c->after[i] = at;
        ls_type *types = LS_ARENA_ARRAY(arena, ls_type, n->n_in + 1);
        if (types)
            c->flops[at > 0 ? at : 0] += flops_of(g, n, types);
    }
}

/* Fills stages one after the other, none above `most`. Whether that is possible with the rest left for them.
 */
static bool fill_stages(cutting *c, double most)
{
    int stage = 0;
    double sum = 0;
    for (int k = 0; k < c->modules; k++) {
        const bool enough = c->modules - k <= c->stages - 1 - stage; /* each later stage gets one module */
        if (k && (sum + c->flops[k] > most || enough)) {
            stage++;
            sum = 0;
        }
        if (stage >= c->stages || c->flops[k] > most)
            return false;
        sum += c->flops[k];
        c->stage[k] = stage;
    }
    return true;
}

/* The smallest largest sum: found among the sums of neighbouring modules. */
static void balance(cutting *c)
{
    double best = INFINITY;
    for (int a = 0; a < c->modules; a++) {
        double sum = 0;
        for (int b = a; b < c->modules; b++) {
            sum += c->flops[b];
            if (sum < best && fill_stages(c, sum))
                best = sum;
        }
    }
    fill_stages(c, best);
}

/* Takes the numbers of modules that the user wrote. */
static ls_status given(cutting *c)
{
    const char *text = c->p->stages;
    int stage = 0, next = 0, n;
    for (int used; sscanf(text, "%d%n", &n, &used) == 1; text += used, stage++)
        for (int k = 0; k < n; k++, next++)
            if (stage < c->stages && next < c->modules)
                c->stage[next] = stage;
    return stage == c->stages && next == c->modules
               ? LS_OK
               : ls_fail_field(
                     LS_E_USAGE, "stages",
                     "%s is %d numbers with the sum %d, but there are %d stages, and %d modules that "
                     "units names (%s)",
                     c->p->stages, stage, next, c->stages, c->modules, c->p->units);
}

static ls_status choose_stages(cutting *c)
{
    if (!c->modules)
        return ls_fail_field(LS_E_USAGE, "units",
                             "%s names no module of this model, and a pipeline is cut between such modules: "
                             "name its layers (lockstep inspect RECIPE shows modules and classes)",
                             c->p->units);
    if (c->modules < c->stages)
        return ls_fail_field(
            LS_E_USAGE, "mesh",
            "%d stages (axis %s%s), but the model has %d modules that units names (%s): a stage has "
            "at least one of them",
            c->stages, ls_mesh_axis(&c->p->mesh, LS_ROLE_PIPELINE),
            ls_parallel_chunks(c->p) > 1 ? " and chunks" : "", c->modules, c->p->units);
    if (strcmp(c->p->stages, "auto"))
        return given(c);
    if (ls_parallel_chunks(c->p) > 1 && c->modules % c->stages)
        return ls_fail_field(
            LS_E_USAGE, "chunks",
            "%lld chunks on each of %d ranks are %d stages, which do not divide the %d modules that units "
            "names (%s): another number, or stages with %d numbers, would do",
            (long long)c->p->chunks, ls_parallel_stages(c->p), c->stages, c->modules, c->p->units, c->stages);
    balance(c);
    return LS_OK;
}

ls_status ls_pass_stages(ls_graph *g, const ls_parallel *p)
{
    cutting c = { .g = g, .p = p, .stages = ls_parallel_stages(p) * ls_parallel_chunks(p) };
    if (c.stages < 2)
        return LS_OK;
    ls_arena scratch;
    ls_arena_init(&scratch);
    c.of_scope = LS_ARENA_ARRAY(&scratch, int, g->n_scopes + 1);
    c.after = LS_ARENA_ARRAY(&scratch, int, g->n_nodes + 1);
    c.flops = LS_ARENA_ARRAY(&scratch, double, g->n_nodes + 1);
    c.stage = LS_ARENA_ARRAY(&scratch, int, g->n_nodes + 1);
    ls_status s = ls_arena_status(&scratch);
    if (s == LS_OK) {
        find_modules(&c, &scratch);
        s = choose_stages(&c);
    }
    for (int i = 0; i < g->n_nodes && s == LS_OK; i++) {
        g->nodes[i]->stage = c.after[i] < 0 ? c.stages : c.stage[c.after[i]];
        if (g->nodes[i]->op == &ls_op_buffer)
            s = ls_fail_field(
                LS_E_UNSUPPORTED, "mesh",
                "a pipeline (axis %s) does not take models with running statistics, as batch norm "
                "has: use dp or shard",
                ls_mesh_axis(&p->mesh, LS_ROLE_PIPELINE));
    }
    for (int i = 0; i < g->n_outputs; i++) { /* results are the last stage's (comm/mesh.c) */
        ls_node *n = ls_node_of(g, g->outputs[i].value);
        n->stage = n->stage == c.stages ? c.stages - 1 : n->stage;
    }
    for (int i = g->n_nodes - 1; i >= 0 && s == LS_OK; i--) {
        ls_node *n = g->nodes[i];
        if (n->stage == c.stages) /* nothing reads it */
            n->stage = 0;
        for (int k = 0; k < n->n_in; k++) {
            ls_node *from = ls_present(n->in[k]) ? ls_node_of(g, n->in[k]) : n;
            if (c.after[from->id] < 0 && n->stage < from->stage)
                from->stage = n->stage;
        }
    }
    if (s == LS_OK)
        s = ls_arena_status(&scratch);
    ls_arena_release(&scratch);
    return s;
}
