/* whole.c - Muon and Adafactor, whose rules look at whole parameters. Where units are sliced over ranks, the
 * unit's gradient (Muon: its momentum; Adafactor: its parameters too) is gathered for the update, and each
 * rank changes the elements that it has. Adafactor's moments of rows and columns are small: every rank has
 * them whole, as states of their own. */
#define LS_NO_CALL_SITES
#include <math.h>

#include "graph/update_attrs.h"
#include "graph/identity.h"
#include "rules.h"

static ls_value gathered(ls_graph *g, ls_value v, const ls_update_unit *u, const ls_update_inputs *in)
{
    return in->shards == 1 ? v
                           : ls_all_gather(g, v,
                                           &(ls_gather_attrs){ .group = in->shard,
                                                               .unit = u->name,
                                                               .ranks = in->shards,
                                                               .to = LS_TO_SAME,
                                                               .via = (int64_t)u->type.dtype });
}

ls_value ls_optimizer_muon(ls_graph *g, const ls_update_unit *u, const ls_optimizer *o,
                           const ls_update_inputs *in)
{
    ls_value p = ls_update_parameters(g, u, in);
    const ls_value buffer = ls_update_moment(g, LS_MOMENTUM_BUFFER, u, in),
                   moved = ls_graph_apply(g, &ls_op_muon_momentum, 4,
                                          (ls_value[]){ in->gradient, buffer, in->scale, in->apply },
                                          &(ls_muon_momentum_attrs){ o->muon_momentum }),
                   whole = gathered(g, moved, u, in);
    for (int i = 0; i < u->n_tensors; i++) {
        const double rows = (double)u->tensors[i].type.dims[0], cols = (double)u->tensors[i].type.dims[1];
        const ls_muon_attrs a = { .offset = u->tensors[i].offset,
                                  .rows = u->tensors[i].type.dims[0],
                                  .cols = u->tensors[i].type.dims[1],
                                  .first = u->first,
                                  .weight_decay = o->weight_decay,
                                  .ratio = o->match_rms ? 0.2 * sqrt(fmax(rows, cols))
                                                        : sqrt(fmax(1, rows / cols)) };
        p = ls_graph_apply(g, &ls_op_muon, 4, (ls_value[]){ p, whole, in->lr, in->apply }, &a);
    }
    ls_update_weights(g, u, in, p);
    return p;
}

static ls_value moment(ls_graph *g, const char *kind, const ls_update_tensor *t, ls_type type)
{
    const char *name = ls_arena_printf(&g->arena, "%s.%s", kind, t->name);
    return ls_state_of(g, (ls_identity){ .what = LS_IS_NAMED }, name, type, (ls_init){ 0 });
}

ls_value ls_optimizer_adafactor(ls_graph *g, const ls_update_unit *u, const ls_optimizer *o,
                                const ls_update_inputs *in)
{
    ls_value p = ls_update_parameters(g, u, in);
    const ls_value gradient = gathered(g, in->gradient, u, in);
    /* a copy, because parameters that gathers map do not lie where collectives read */
    const ls_value whole = in->shards > 1 && o->scale_parameter ? gathered(g, ls_add_const(g, p, 0), u, in)
                                                                : LS_NONE;
    for (int i = 0; i < u->n_tensors; i++) {
        const ls_update_tensor *t = &u->tensors[i];
        const int last = t->type.ndim - 1;
        ls_adafactor_attrs a = { .offset = t->offset,
                                 .batch = 1,
                                 .rows = last > 0 ? t->type.dims[last - 1] : ls_type_count(&t->type),
                                 .cols = last > 0 ? t->type.dims[last] : 0,
                                 .first = u->first,
                                 .scale_parameter = o->scale_parameter,
                                 .relative_step = o->relative_step,
                                 .warmup_init = o->warmup_init,
                                 .clip_threshold = o->clip_threshold,
                                 .decay_rate = o->decay_rate,
                                 .min_scale = o->min_scale,
                                 .weight_decay = o->weight_decay };
        ls_type row = t->type, col = t->type;
        row.dtype = col.dtype = u->type.dtype;
        for (int d = 0; d < last - 1; d++)
            a.batch *= t->type.dims[d];
        if (last > 0) { /* [.., rows, cols] -> [.., rows] and [.., cols] */
            row.ndim = col.ndim = last;
            col.dims[last - 1] = t->type.dims[last];
        }
        const ls_value rows = moment(g, last > 0 ? "exp_avg_sq_row" : "exp_avg_sq", t, row),
                       cols = last > 0 ? moment(g, "exp_avg_sq_col", t, col) : LS_NONE;
        p = ls_graph_apply(
            g, &ls_op_adafactor, 9,
            (ls_value[]){ p, gradient, whole, rows, cols, in->lr, in->step, in->scale, in->apply }, &a);
    }
    ls_update_weights(g, u, in, p);
    return p;
}
