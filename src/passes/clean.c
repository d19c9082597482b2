/* clean.c - removes dead nodes, and merges equal ones. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/sys.h"
#include "graph/rewrite.h"
#include "ops/rules.h"
#include "passes.h"

ls_status ls_pass_dce(ls_graph **gp)
{
    const ls_graph *g = *gp;
    bool *live = ls_sys_calloc((size_t)g->n_nodes + 1, sizeof *live);
    LS_TRY(ls_sys_have(live));
    for (int i = 0; i < g->n_outputs; i++)
        live[ls_node_of(g, g->outputs[i].value)->id] = true;
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const ls_node *n = g->nodes[i];
        /* inputs and parameters belong to the model, even if nothing reads them */
        live[i] |= (n->op->flags & LS_OP_EFFECT) || n->op == &ls_op_buffer ||
                   (g->keeps_sources && n->op->flags & LS_OP_SOURCE);
        for (int k = 0; k < n->n_in && live[i]; k++)
            if (ls_present(n->in[k]))
                live[ls_node_of(g, n->in[k])->id] = true;
    }
    ls_rewrite r;
    ls_status s = ls_rewrite_begin(&r, g);
    for (int i = 0; i < g->n_nodes && s == LS_OK; i++)
        if (live[i] && !ls_rewrite_copy(&r, g->nodes[i]))
            break;
    free(live);
    LS_TRY(s);
    return ls_rewrite_end(&r, gp);
}

static uint64_t digest(const ls_node *n, const ls_value *in)
{
    uint64_t h = ls_hash64(&n->op, sizeof n->op);
    h = ls_hash64_more(h, in, sizeof *in * (size_t)n->n_in);
    return ls_attrs_digest(n->op, n->attrs, h);
}

static bool same(const ls_node *a, const ls_node *b, const ls_value *in)
{
    return a->op == b->op && a->n_in == b->n_in && !memcmp(a->in, in, sizeof *in * (size_t)a->n_in) &&
           ls_attrs_equal(a->op, a->attrs, b->attrs) &&
           (a->at && b->at ? ls_box_equal(a->at, b->at) : a->at == b->at);
}

ls_status ls_pass_cse(ls_graph **gp)
{
    const ls_graph *g = *gp;
    size_t size = 64;
    while (size < 2 * (size_t)g->n_nodes)
        size *= 2;
    int *table = ls_sys_malloc(size *
                               sizeof *table); /* ids of new nodes; a hash table with open addressing */
    LS_TRY(ls_sys_have(table));
    memset(table, 0xff, size * sizeof *table);
    ls_rewrite r;
    ls_status s = ls_rewrite_begin(&r, g);
    for (int i = 0; i < g->n_nodes && s == LS_OK; i++) {
        const ls_node *n = g->nodes[i];
        bool unique = (n->op->flags & (LS_OP_EFFECT | LS_OP_SOURCE | LS_OP_RANDOM | LS_OP_COLLECTIVE)) ||
                      n->clone_of >= 0;
        const ls_value *in = ls_rewrite_operands(&r, n);
        if (!in)
            break;
        size_t at = unique ? 0 : digest(n, in) & (size - 1);
        const ls_node *twin = NULL;
        for (; !unique && table[at] >= 0; at = (at + 1) & (size - 1))
            if (same(r.to->nodes[table[at]], n, in)) {
                twin = r.to->nodes[table[at]];
                break;
            }
        if (twin) {
            for (int k = 0; k < n->n_out; k++)
                r.map[n->out[k].id] = twin->out[k];
            continue;
        }
        const ls_node *copy = ls_rewrite_copy_with(&r, n, in, n->attrs);
        if (!copy)
            break;
        if (!unique)
            table[at] = copy->id;
    }
    free(table);
    LS_TRY(s);
    return ls_rewrite_end(&r, gp);
}
