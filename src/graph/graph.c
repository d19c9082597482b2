/* graph.c - appends to a graph: nodes, values, scopes, outputs, and the sticky error. */
#include "graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/c_locale.h"
#include "base/check.h"
#include "base/stop.h"
#include "base/sys.h"
#include "identity.h"
#include "op.h"

#define LS_NO_CALL_SITES
#undef ls_output

/* Makes room for one more element of `size` bytes. False: out of memory, which becomes the graph's error. */
static bool graph_grow(ls_graph *g, void *array, int n, int *cap, size_t size)
{
    void **at = array, *more = ls_sys_grow(*at, n, cap, size);
    if (!more)
        g->arena.no_memory = true;
    *at = more ? more : *at;
    return more;
}

bool ls_graph_room(ls_graph *g)
{
    if (g->status == LS_OK && g->arena.no_memory)
        g->status = LS_E_MEMORY;
    return g->status == LS_OK;
}

/* A value contains the low 32 bits of its graph's number, which are never 0; 0 means that the graph is not
 * known. */
static uint32_t fresh_number(void)
{
    static _Atomic uint32_t last;
    uint32_t n = ++last;
    return n ? n : ++last;
}

ls_status ls_graph_create(ls_graph **out, const char *name)
{
    LS_ARG(out);
    LS_ARG(name);
    ls_graph *g = ls_sys_calloc(1, sizeof *g);
    if (!g)
        return ls_fail(LS_E_MEMORY, "graph \"%s\": out of memory", name);
    ls_arena_init(&g->arena);
    g->number = fresh_number();
    g->name = ls_arena_strdup(&g->arena, name);
    g->root = (ls_scope){ .path = "", .block = "", .id = 0 };
    g->n_scopes = 1;
    g->scope = &g->root;
    if (!graph_grow(g, &g->vals, 0, &g->cap_vals, sizeof *g->vals) || g->arena.no_memory) {
        ls_graph_destroy(&g);
        return ls_fail(LS_E_MEMORY, "graph \"%s\": out of memory", name);
    }
    g->vals[0] = (ls_val){ .type = { .ndim = -1 }, .node = -1 }; /* the absent value */
    g->n_vals = 1;
    *out = g;
    return LS_OK;
}

void ls_graph_destroy(ls_graph **gp)
{
    if (!gp)
        return;
    ls_graph *g = *gp;
    if (!g)
        return;
    ls_arena_release(&g->arena);
    free(g->nodes);
    free(g->vals);
    free(g->outputs);
    free(g->message);
    free(g);
    *gp = NULL;
}

ls_graph *ls_at(ls_graph *g, const char *file, int line)
{
    LS_ARG_OR(g, NULL);
    g->file = file;
    g->line = line;
    return g;
}

/* Whether the call is the user's own. Models of this library have their scope in messages; the file of ours
 * that wrote it would not help. */
static bool site_shown(const char *file)
{
    static const char ours[] = "lockstep:"; /* CMakeLists.txt: LS_FILE */
    return file && strncmp(file, ours, sizeof ours - 1) != 0;
}

const char *ls_site_before(char out[LS_SITE_SIZE], const char *file, int line)
{
    *out = 0;
    if (site_shown(file))
        snprintf(out, LS_SITE_SIZE, "%.*s:%d: ", LS_SITE_SIZE - 32, file, line);
    return out;
}

const char *ls_site_after(char out[LS_SITE_SIZE], const char *file, int line)
{
    *out = 0;
    if (site_shown(file))
        snprintf(out, LS_SITE_SIZE, " (%.*s:%d)", LS_SITE_SIZE - 32, file, line);
    return out;
}

void ls_graph_error(ls_graph *g, ls_status code, const char *format, ...)
{
    if (!ls_graph_room(g))
        return; /* the first error is kept, because it says most */
    char text[1024];
    va_list ap;
    va_start(ap, format);
    ls_vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    g->status = code;
    char site[LS_SITE_SIZE];
    g->message = ls_sys_text("%s%s%s%s", ls_site_before(site, g->file, g->line), text,
                             g->scope->path[0] ? " in " : "", g->scope->path);
}

ls_status ls_graph_status(const ls_graph *g)
{
    LS_ARG(g);
    if (g->status == LS_E_MEMORY || (g->status == LS_OK && g->arena.no_memory))
        return ls_fail(LS_E_MEMORY, "graph \"%s\": out of memory after %d operations", g->name, g->n_nodes);
    return g->status == LS_OK
               ? LS_OK
               : ls_fail(g->status, "%s", g->message ? g->message : "building the graph failed");
}

bool ls_graph_has(const ls_graph *g, ls_value v)
{
    return v.id >= 0 && v.id < g->n_vals && (!v.graph || v.graph == g->number);
}

ls_node *ls_graph_add(ls_graph *g, const ls_op *op, int n_in, const ls_value *in, const void *attrs)
{
    LS_ARG_OR(g, NULL);
    if (!ls_graph_room(g))
        return NULL;
    if (n_in < op->min_in || (op->max_in >= 0 && n_in > op->max_in)) {
        ls_graph_error(g, LS_E_ARG, "%s takes %d to %d operands, got %d", op->name, op->min_in, op->max_in,
                       n_in);
        return NULL;
    }
    ls_infer infer = { .op = op, .n_in = n_in, .attrs = attrs, .n_out = op->n_out };
    infer.at = op->flags & LS_OP_AT ? g->at : NULL;
    ls_type *types = ls_sys_malloc(sizeof(ls_type) * (size_t)(n_in + 1));
    g->arena.no_memory = !types;
    if (!ls_graph_room(g))
        return NULL;
    for (int i = 0; i < n_in; i++) {
        if (!ls_graph_has(g, in[i])) {
            free(types);
            ls_graph_error(g, LS_E_ARG, "operand %d of %s is not a value of graph \"%s\"%s", i, op->name,
                           g->name, in[i].id > 0 ? ": another graph made it" : "");
            return NULL;
        }
        if (!ls_present(in[i]) && !(i < 32 && (op->optional_in >> i & 1))) {
            free(types);
            ls_graph_error(g, LS_E_ARG, "operand %d of %s is required", i, op->name);
            return NULL;
        }
        types[i] = g->vals[in[i].id].type;
    }
    infer.in = types;
    ls_status s = op->infer(&infer);
    free(types);
    if (s != LS_OK) {
        ls_graph_error(g, s, "%s", ls_error_message());
        return NULL;
    }

    ls_node *n = LS_ARENA_NEW(&g->arena, ls_node);
    ls_value *operands = ls_arena_dup(&g->arena, n_in ? in : NULL, sizeof(ls_value) * (size_t)n_in),
             *results = LS_ARENA_ARRAY(&g->arena, ls_value, infer.n_out);
    void *own_attrs = ls_attrs_copy(&g->arena, op, attrs);
    const ls_box *at = infer.at && !ls_box_is_whole(infer.at)
                           ? ls_arena_dup(&g->arena, infer.at, sizeof *infer.at)
                           : NULL;
    if (!ls_graph_room(g))
        return NULL;
    *n = (ls_node){ .op = op,
                    .id = g->n_nodes,
                    .n_in = n_in,
                    .n_out = infer.n_out,
                    .scope = g->scope,
                    .phase = g->phase,
                    .stage = g->stage,
                    .clone_of = -1,
                    .file = g->file,
                    .line = g->line };
    n->in = operands;
    for (int i = 0; i < n_in; i++)
        n->in[i].graph = 0; /* inside its graph a value is known by its id alone */
    n->out = results;
    n->attrs = own_attrs;
    n->at = at;
    for (int i = 0; i < infer.n_out; i++) {
        if (!graph_grow(g, &g->vals, g->n_vals, &g->cap_vals, sizeof *g->vals))
            break;
        g->vals[g->n_vals] = (ls_val){ .type = infer.out[i], .node = n->id, .out = i };
        n->out[i] = (ls_value){ g->n_vals++, 0 };
    }
    if (!graph_grow(g, &g->nodes, g->n_nodes, &g->cap_nodes, sizeof *g->nodes) || !ls_graph_room(g))
        return NULL;
    g->nodes[g->n_nodes++] = n;
    return n;
}

/* Checks for a request to stop, because a model may have a million nodes. Passes copy them in
 * ls_rewrite_begin, which checks too. */
static void look_for_stop(ls_graph *g)
{
    if (g->status != LS_OK || g->n_nodes % 256 || !ls_stop_asked())
        return;
    g->status = LS_E_STOPPED;
    g->message = ls_sys_text("stopped while a model of %d operations by now was built", g->n_nodes);
}

ls_value ls_graph_apply(ls_graph *g, const ls_op *op, int n_in, const ls_value *in, const void *attrs)
{
    look_for_stop(g);
    ls_node *n = ls_graph_add(g, op, n_in, in, attrs);
    return n ? (ls_value){ n->out[0].id, g->number } : (ls_value){ .id = -1 };
}

void ls_graph_evaluate(ls_graph *g)
{
    LS_ARG_VOID(g);
    g->evaluation = true;
}

void ls_tensor_plan(ls_graph *g, const char *words)
{
    LS_ARG_VOID(g);
    LS_BUILD_ARG(g, words, );
    g->tensor_plan = ls_arena_strdup(&g->arena, words);
}

bool ls_graph_is_evaluation(const ls_graph *g)
{
    LS_ARG_OR(g, false);
    return g->evaluation;
}

ls_type ls_value_type(const ls_graph *g, ls_value v)
{
    LS_ARG_OR(g, ((ls_type){ .ndim = -1 }));
    return v.id > 0 && ls_graph_has(g, v) ? g->vals[v.id].type : (ls_type){ .ndim = -1 };
}

ls_value ls_nth(ls_graph *g, ls_value v, int n)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    if (v.id <= 0)
        return v;
    if (!ls_graph_has(g, v)) {
        ls_graph_error(g, LS_E_ARG, "ls_nth: v is not a value of graph \"%s\": another graph made it",
                       g->name);
        return (ls_value){ .id = -1 };
    }
    const ls_node *node = ls_node_of(g, v);
    if (n < 0 || n >= node->n_out) {
        ls_graph_error(g, LS_E_ARG, "%s has %d outputs, asked for number %d", node->op->name, node->n_out, n);
        return (ls_value){ .id = -1 };
    }
    return (ls_value){ node->out[n].id, g->number };
}

void ls_scope_push(ls_graph *g, const char *name, const char *block)
{
    LS_ARG_VOID(g);
    LS_BUILD_ARG(g, name, );
    ls_scope *s = LS_ARENA_NEW(&g->arena, ls_scope);
    const char *up = g->scope->path;
    if (!ls_graph_room(g))
        return; /* nothing is built from here on */
    s->parent = g->scope;
    s->path = up[0] && name[0] ? ls_arena_printf(&g->arena, "%s.%s", up, name)
                               : ls_arena_strdup(&g->arena, name[0] ? name : up);
    s->block = block && block[0] ? ls_arena_strdup(&g->arena, block) : "";
    s->id = g->n_scopes++;
    s->wide = g->scope->wide;
    g->scope = s;
}

void ls_scope_pop(ls_graph *g)
{
    LS_ARG_VOID(g);
    if (!g->scope->parent) {
        ls_graph_error(g, LS_E_ARG, "ls_scope_pop: no scope is open");
        return;
    }
    g->scope = g->scope->parent;
}

void ls_wide_begin(ls_graph *g)
{
    LS_ARG_VOID(g);
    ls_scope_push(g, "", NULL);
    if (ls_graph_room(g))
        ((ls_scope *)(uintptr_t)g->scope)->wide = true;
}

void ls_wide_end(ls_graph *g)
{
    LS_ARG_VOID(g);
    if (!g->scope->wide)
        ls_graph_error(g, LS_E_ARG, "ls_wide_end: no ls_wide_begin before it");
    else
        ls_scope_pop(g);
}

void ls_output_like(ls_graph *g, const ls_output_entry *like, ls_value v)
{
    if (v.id <= 0 || !ls_graph_has(g, v)) {
        ls_graph_error(g, LS_E_ARG, "output \"%s\" is not a value%s", like->name,
                       v.id > 0 ? " of this graph: another one made it" : "");
        return;
    }
    v.graph = 0;
    for (int i = 0; i < g->n_outputs; i++)
        if (!ls_identity_order(g->outputs[i].is, g->outputs[i].name, like->is, like->name)) {
            ls_graph_error(g, LS_E_ARG, "two outputs are named \"%s\"", like->name);
            return;
        }
    if (!graph_grow(g, &g->outputs, g->n_outputs, &g->cap_outputs, sizeof *g->outputs))
        return;
    g->outputs[g->n_outputs++] = (ls_output_entry){ ls_arena_strdup(&g->arena, like->name), v, like->is };
}

void(ls_output)(ls_graph *g, const char *name, ls_value v)
{
    LS_ARG_VOID(g);
    LS_BUILD_ARG(g, name, );
    ls_output_like(g, &(ls_output_entry){ .name = name }, v);
}

void ls_output_of(ls_graph *g, ls_identity is, const char *unit, ls_value v)
{
    ls_output_like(g, &(ls_output_entry){ .name = ls_identity_name(&g->arena, is, unit), .is = is }, v);
}
