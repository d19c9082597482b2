/* print.c - a graph as text that a person can read and a test can compare: one op a line, scopes as comments.
 *
 *     # encoder.layers.encoder_layer_0  EncoderBlock
 *     %12, %13, %14 = layer_norm %11 %3 %4  eps=1e-6    f32 [64, 17, 128], f32 [64, 17], f32 [64, 17]
 */
#include <string.h>

#include "base/argument.h"
#include "base/str.h"
#include "graph.h"
#include "op.h"

static void add_number(ls_str *s, double x)
{
    char b[32];
    ls_str_add(s, ls_format_f64(b, x));
}

static void add_field(ls_str *s, const ls_attr_field *f, const void *record)
{
    const void *p = (const char *)record + f->offset;
    ls_str_printf(s, "  %s=", f->name);
    switch (f->kind) {
    case LS_FIELD_I64: {
        int64_t v = *(const int64_t *)p;
        if (f->words)
            ls_str_add(s, f->words[v]);
        else
            ls_str_printf(s, "%lld", (long long)v);
        break;
    }
    case LS_FIELD_F64: add_number(s, *(const double *)p); break;
    case LS_FIELD_I64S: {
        const ls_i64_list *l = p;
        ls_str_add(s, "[");
        for (int64_t i = 0; i < l->n; i++)
            ls_str_printf(s, "%s%lld", i ? " " : "", (long long)l->v[i]);
        ls_str_add(s, "]");
        break;
    }
    case LS_FIELD_F64S: {
        const ls_f64_list *l = p;
        ls_str_add(s, "[");
        for (int64_t i = 0; i < l->n; i++) {
            ls_str_add(s, i ? " " : "");
            add_number(s, l->v[i]);
        }
        ls_str_add(s, "]");
        break;
    }
    case LS_FIELD_TEXT:
        ls_str_printf(s, "\"%s\"", *(const char *const *)p ? *(const char *const *)p : "");
        break;
    case LS_FIELD_TYPE: {
        char b[128];
        ls_str_add(s, ls_type_text(b, p));
        break;
    }
    }
}

/* Of a source only the name is printed here; its type stands at the end of the line. */
static void add_attrs(ls_str *s, const ls_node *n)
{
    if (n->op->flags & LS_OP_SOURCE) {
        ls_str_printf(s, " \"%s\"", ((const ls_source_attrs *)n->attrs)->name);
        return;
    }
    for (const ls_attr_field *f = n->op->fields; f && f->name; f++)
        if (f->kind != LS_FIELD_TYPE)
            add_field(s, f, n->attrs);
}

/* The box, as the size of each whole dimension, or as the elements of it: at=[4, 64..127 of 256]. */
static void add_at(ls_str *s, const ls_box *at)
{
    ls_str_add(s, "  at=[");
    for (int d = 0; d < at->ndim; d++) {
        ls_str_add(s, d ? ", " : "");
        if (at->size[d] == at->whole[d])
            ls_str_printf(s, "%lld", (long long)at->whole[d]);
        else
            ls_str_printf(s, "%lld..%lld of %lld", (long long)at->start[d],
                          (long long)(at->start[d] + at->size[d] - 1), (long long)at->whole[d]);
    }
    ls_str_add(s, "]");
}

char *ls_graph_print(const ls_graph *g, bool with_sites)
{
    LS_ARG_OR(g, NULL);
    ls_str s = { 0 };
    const ls_scope *scope = &g->root;
    ls_phase phase = LS_PHASE_FORWARD;
    ls_str_printf(&s, "graph \"%s\"\n", g->name);
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        if (n->phase != phase)
            ls_str_printf(&s, "# --- %s\n",
                          n->phase == LS_PHASE_BACKWARD ? "backward"
                          : n->phase == LS_PHASE_UPDATE ? "update"
                                                        : "forward");
        if (n->scope != scope && (n->scope->path[0] || scope->path[0]))
            ls_str_printf(&s, "# %s%s%s\n", n->scope->path[0] ? n->scope->path : "(top)",
                          n->scope->block[0] ? "  " : "", n->scope->block);
        phase = n->phase;
        scope = n->scope;
        for (int k = 0; k < n->n_out; k++)
            ls_str_printf(&s, "%s%%%d", k ? ", " : "", n->out[k].id);
        ls_str_printf(&s, " = %s", n->op->name);
        for (int k = 0; k < n->n_in; k++)
            if (ls_present(n->in[k]))
                ls_str_printf(&s, " %%%d", n->in[k].id);
            else
                ls_str_add(&s, " -");
        add_attrs(&s, n);
        if (n->at)
            add_at(&s, n->at);
        if (n->clone_of >= 0)
            ls_str_add(&s, "  (recomputed)");
        ls_str_add(&s, "    ");
        for (int k = 0; k < n->n_out; k++) {
            char b[128];
            ls_str_printf(&s, "%s%s", k ? ", " : "", ls_type_text(b, ls_type_of(g, n->out[k])));
        }
        if (with_sites && n->file)
            ls_str_printf(&s, "    @ %s:%d", n->file, n->line);
        ls_str_add(&s, "\n");
    }
    for (int i = 0; i < g->n_outputs; i++)
        ls_str_printf(&s, "output \"%s\" = %%%d\n", g->outputs[i].name, g->outputs[i].value.id);
    return ls_str_take(&s);
}
