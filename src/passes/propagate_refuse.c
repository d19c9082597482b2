/* propagate_refuse.c - the messages of sharding propagation where an op cannot take its operands with the
 * placements that the words of parallel.tensor give them. */
#include <stdio.h>
#include <string.h>

#include "base/field.h"
#include "ops/rules.h"
#include "propagate_own.h"

static const char *spot_text(char text[640], const ls_propagation *pr, ls_value old)
{
    const ls_spot *s = &pr->at[old.id];
    char p[32];
    if (s->p.kind != LS_SHARD)
        snprintf(text, 640, "whole on every rank");
    else if (s->soft)
        snprintf(text, 640, "%s because sequence is on", ls_placement_text(p, s->p));
    else
        snprintf(text, 640, "%s because %s", ls_placement_text(p, s->p), s->cause);
    return text;
}

ls_status ls_prop_refuse(const ls_propagation *pr, const ls_node *n, const char *what)
{
    char site[LS_SITE_SIZE];
    return ls_fail_field(LS_E_USAGE, "tensor", "%s in %s %s (axis %s)%s", n->op->name,
                         n->scope->path[0] ? n->scope->path : "the root", what, pr->axis.name,
                         ls_site_after(site, n->file, n->line));
}

ls_status ls_prop_cannot_take(const ls_propagation *pr, const ls_node *n, int k)
{
    char a[640], text[800];
    const bool soft = pr->at[n->in[k].id].soft;
    snprintf(text, sizeof text, "cannot take operand %d, which is %s: %s", k, spot_text(a, pr, n->in[k]),
             soft ? "it needs all tokens; split the layers on its way by columns"
                  : "a layer that is split by rows must come before it");
    return ls_prop_refuse(pr, n, text);
}

/* Advice for operand k, which is not split, or not as operand `by` is. */
static void advice(char text[300], const ls_propagation *pr, const ls_node_split *s, int k, int by)
{
    const ls_node *maker = ls_node_of(pr->r.from, s->n->in[k]);
    const char *name = maker->op == &ls_op_param ? ((const ls_source_attrs *)maker->attrs)->name : NULL,
               *dot = name ? strrchr(name, '.') : NULL;
    if (ls_prop_split(pr, s->n->in[k])) {
        snprintf(text, 300, "the words of tensor split them unlike");
    } else if (pr->at[s->n->in[by].id].soft) {
        snprintf(text, 300,
                 "with sequence on, what makes operand %d must be split by rows, too, as the table of "
                 "an embedding",
                 k);
    } else if (dot) {
        const char *from = dot;
        while (from > name && from[-1] != '.')
            from--;
        snprintf(text, 300, "%s:%.*s would split both alike",
                 ls_rule_out_dim(&s->rule, &s->types.infer, 0, s->loop) >= 0 ? "colwise" : "rowwise",
                 (int)(dot - from), from);
    } else {
        snprintf(text, 300,
                 "the layer that makes operand %d must be split by columns, or that of operand %d not at all",
                 k, by);
    }
}

ls_status ls_prop_conflict(const ls_propagation *pr, const ls_node_split *s, int k, int by)
{
    char a[640], b[640], hint[300], text[1800];
    advice(hint, pr, s, k, by);
    snprintf(text, sizeof text, "takes operand %d, which is %s, and operand %d, which is %s: %s", by,
             spot_text(a, pr, s->n->in[by]), k, spot_text(b, pr, s->n->in[k]), hint);
    return ls_prop_refuse(pr, s->n, text);
}
