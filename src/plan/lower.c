/* lower.c - makes the lowered graph: every node of the schedule with its kernel, views resolved to strides
 * and offsets, and a `copy` before each operand whose strides its kernel cannot take. A node that cannot be
 * compiled is an error here, with the model's source line.
 *
 * A state that was updated in place can no longer be read with its old content. So each write is recorded
 * with its range, and reading an older value of that range is an error. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/sys.h"
#include "graph/rewrite.h"
#include "internal.h"
#include "ops/rules.h"

typedef struct write_record {
    int64_t begin, end; /* bytes in the base value */
    int born;           /* the number of the write, counted from the start of the program */
    const ls_node *by;
    struct write_record *next;
} write_record;

typedef struct lowering {
    ls_planner *p;
    ls_rewrite r;
    const ls_op *copy;
    ls_tensor *operands; /* scratch memory for the operands of the largest node */
    int *copied;         /* [new values]: its contiguous copy; 0: none */
    /* [new values]: how many writes had happened when its content was made. A view has the number of its
     * base value. */
    int *born;
    write_record **writes; /* [new values that are bases] */
    int n_writes;
} lowering;

void ls_node_text(ls_str *s, const ls_graph *g, const ls_node *n)
{
    char type[128];
    ls_str_printf(s, "%s(", n->op->name);
    for (int j = 0; j < n->n_in && j < 8; j++)
        ls_str_printf(s, "%s%s", j ? ", " : "", ls_type_text(type, ls_type_of(g, n->in[j])));
    ls_str_printf(s, "%s)", n->n_in > 8 ? ", ..." : "");
}

ls_kernel_args ls_planner_args(const ls_graph *g, const ls_node *n, const ls_device *d, ls_tensor *operands)
{
    for (int j = 0; j < ls_operands(n); j++) {
        const ls_value v = ls_operand_value(n, j);
        operands[j] = (ls_tensor){ .type = *ls_type_of(g, v) };
        if (ls_present(v))
            ls_strides_contiguous(operands[j].strides, &operands[j].type);
    }
    return (ls_kernel_args){ .n_in = n->n_in,
                             .n_out = n->n_out,
                             .in = operands,
                             .out = operands + ls_operands_in(n),
                             .attrs = n->attrs,
                             .at = n->at,
                             .threads = d->threads,
                             .arch = d->arch };
}

static ls_status lower_refuse(const ls_graph *g, const ls_node *n, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static ls_status lower_refuse(const ls_graph *g, const ls_node *n, const char *format, ...)
{
    ls_str s = { 0 };
    va_list ap;
    va_start(ap, format);
    char why[512];
    ls_vsnprintf(why, sizeof why, format, ap);
    va_end(ap);
    char site[LS_SITE_SIZE];
    ls_str_add(&s, ls_site_before(site, n->file, n->line));
    ls_node_text(&s, g, n);
    if (n->scope->path[0])
        ls_str_printf(&s, " in %s", n->scope->path);
    ls_fail(LS_E_UNSUPPORTED, "%s: %s", ls_str_text(&s), why);
    ls_str_release(&s);
    return LS_E_UNSUPPORTED;
}

/* Finds the kernels of all old nodes, by types alone. avoid_copies.c asks these kernels which strides they
 * can write. */
static ls_status choose_kernels(ls_planner *p, ls_tensor *operands)
{
    const ls_graph *g = p->old;
    p->kernel = LS_ARENA_ARRAY(&p->scratch, const ls_kernel *, g->n_nodes);
    LS_TRY(ls_arena_status(&p->scratch));
    for (int i = 0; i < p->n_order; i++) {
        const ls_node *n = g->nodes[p->order[i]];
        if (ls_is_source(n) || ls_is_view(n) || ls_is_collective(n) || ls_planner_transfers(p, n))
            continue;
        ls_kernel_args a = ls_planner_args(g, n, &p->plan->device, operands);
        const char *why = NULL, *name = n->op->flags & LS_OP_TRANSFER ? ls_op_copy.name : n->op->name;
        p->kernel[n->id] = ls_device_find(&p->plan->device, name, &a, &why);
        if (!p->kernel[n->id])
            return lower_refuse(g, n, "device %s cannot do it: %s", p->plan->device.ops->name,
                                why ? why : "it has no kernel of that name");
    }
    return LS_OK;
}

static ls_tensor tensor_of(const lowering *l, ls_value v)
{
    ls_tensor t = { .type = *ls_type_of(l->r.to, v) };
    if (ls_present(v))
        memcpy(t.strides, l->p->home[v.id].strides, sizeof t.strides);
    return t;
}

static int64_t extent_bytes(const lowering *l, ls_value v)
{
    const ls_tensor t = tensor_of(l, v);
    return ls_strides_extent(&t) * (int64_t)ls_dtype_size(t.type.dtype);
}

static void own_home(lowering *l, ls_value v)
{
    ls_home *h = &l->p->home[v.id];
    h->base = v.id;
    h->offset = 0;
    ls_strides_contiguous(h->strides, ls_type_of(l->r.to, v));
    l->born[v.id] = l->n_writes;
}

static ls_status check_fresh(const lowering *l, const ls_node *reader, ls_value v)
{
    const ls_home *h = &l->p->home[v.id];
    const int64_t begin = h->offset, end = begin + extent_bytes(l, v);
    char site[LS_SITE_SIZE];
    for (const write_record *w = l->writes[h->base]; w; w = w->next)
        if (w->born > l->born[v.id] && w->begin < end && begin < w->end)
            return lower_refuse(
                l->p->old, reader,
                "it reads a value that %s%s has updated in place before; read the updated value, or "
                "read it earlier",
                w->by->op->name, ls_site_after(site, w->by->file, w->by->line));
    return LS_OK;
}

/* A contiguous copy of v, made once in each phase. (If the backward pass used the forward pass's copy, that
 * would live long, and cost more memory than a second one.) */
static ls_status contiguous_copy(lowering *l, ls_value *v)
{
    ls_graph *g = l->r.to;
    const int known = l->copied[v->id];
    if (known && g->nodes[g->vals[known].node]->phase == g->phase && l->born[known] == l->n_writes) {
        v->id = known;
        return LS_OK;
    }
    ls_node *n = ls_graph_add(g, l->copy, 1, v, NULL);
    if (!n)
        return ls_graph_status(g);
    ls_kernel_args a = ls_planner_args(g, n, &l->p->plan->device, l->operands);
    l->operands[0] = tensor_of(l, *v);
    const char *why = NULL;
    const ls_kernel *k = ls_device_find(&l->p->plan->device, "copy", &a, &why);
    if (!k)
        return lower_refuse(g, n, "device %s cannot do it: %s", l->p->plan->device.ops->name,
                            why ? why : "it has no kernel of that name");
    l->p->chosen[n->id] = k;
    own_home(l, n->out[0]);
    l->copied[v->id] = n->out[0].id;
    *v = n->out[0];
    return LS_OK;
}

static ls_status lower_view(lowering *l, const ls_node *old, ls_value *in)
{
    for (int attempt = 0; attempt < 2; attempt++) {
        const ls_type shape = *ls_type_of(l->p->old, old->out[0]);
        ls_type in_type = *ls_type_of(l->r.to, in[0]);
        const ls_infer infer = {
            .op = old->op, .n_in = 1, .in = &in_type, .attrs = old->attrs, .n_out = 1, .out = { shape }
        };
        ls_tensor from = tensor_of(l, in[0]), out = { .type = shape };
        int64_t offset = 0;
        if (!old->op->view(&infer, &from, &out, &offset)) {
            LS_TRY(contiguous_copy(l, &in[0]));
            continue;
        }
        const ls_node *n = ls_rewrite_copy_with(&l->r, old, in, old->attrs);
        if (!n)
            return ls_graph_status(l->r.to);
        ls_strides_canonical(&out);
        const ls_home *under = &l->p->home[in[0].id];
        ls_home *h = &l->p->home[n->out[0].id];
        h->base = under->base;
        h->offset = under->offset + offset * (int64_t)ls_dtype_size(shape.dtype);
        memcpy(h->strides, out.strides, sizeof h->strides);
        l->born[n->out[0].id] = l->born[in[0].id];
        return LS_OK;
    }
    return lower_refuse(l->p->old, old, "a view of contiguous memory cannot be expressed by strides");
}

static bool kernel_follows(const ls_kernel *k, int j, const ls_tensor *t)
{
    return ls_strides_are_contiguous(t) ||
           (k && (ls_mask_has(k->any_in, j) || (ls_mask_has(k->rows_in, j) && ls_strides_are_rows(t))));
}

static ls_status lower_kernel(lowering *l, const ls_node *old, ls_value *in)
{
    ls_planner *p = l->p;
    const ls_kernel *k = p->kernel[old->id];
    const bool pack = old->op == &ls_op_pack;
    for (int j = 0; j < old->n_in; j++) {
        if (!ls_present(in[j]))
            continue;
        const ls_tensor t = tensor_of(l, in[j]);
        const int born = pack ? ls_computed_in_place(p, old, j) : 0;
        if (kernel_follows(k, j, &t) || (born && p->home[in[j].id].base == p->map[born].id))
            continue; /* (a part that was computed in place is never read) */
        for (int i = 0; i < old->n_out; i++)
            if (old->op->alias[i] == j + 1)
                return lower_refuse(p->old, old,
                                    "operand %d is updated in place, but its memory is not contiguous", j);
        LS_TRY(contiguous_copy(l, &in[j]));
    }
    const ls_node *n = ls_rewrite_copy_with(&l->r, old, in, old->attrs);
    if (!n)
        return ls_graph_status(l->r.to);
    p->chosen[n->id] = k;
    for (int i = 0; i < n->n_out; i++) {
        const ls_value v = n->out[i];
        const int over = old->op->alias[i];
        own_home(l, v);
        if (over && over <= n->n_in && ls_present(in[over - 1])) {
            p->home[v.id] = p->home[in[over - 1].id];
            write_record *w = LS_ARENA_NEW(&p->scratch, write_record);
            LS_TRY(ls_sys_have(w));
            const int base = p->home[v.id].base;
            *w = (write_record){ .begin = p->home[v.id].offset,
                                 .end = p->home[v.id].offset + extent_bytes(l, v),
                                 .born = ++l->n_writes,
                                 .by = old,
                                 .next = l->writes[base] };
            l->writes[base] = w;
            l->born[v.id] = l->n_writes;
        } else if (p->computed_in[old->out[i].id].inside) {
            memcpy(p->home[v.id].strides, p->computed_in[old->out[i].id].strides,
                   sizeof p->home[v.id].strides);
        }
    }
    return LS_OK;
}

static ls_status lower_outputs(lowering *l)
{
    ls_planner *p = l->p;
    for (int i = 0; i < p->old->n_outputs; i++) {
        const ls_output_entry *o = &p->old->outputs[i];
        ls_value v = p->map[o->value.id];
        const int base = p->home[v.id].base;
        const ls_graph *to = l->r.to;
        ls_rewrite_like(&l->r, ls_node_of(p->old, o->value));
        LS_TRY(check_fresh(l, ls_node_of(p->old, o->value), v));
        /* a small view would keep all of a large unnamed value alive */
        const bool part = !ls_is_source(to->nodes[to->vals[base].node]) && !p->named[p->root[o->value.id]] &&
                          ls_type_bytes(&to->vals[v.id].type) < ls_type_bytes(&to->vals[base].type);
        const bool replace = p->replaces[i] && p->computed_in[o->value.id].inside != p->replaces[i];
        if (part || replace) {
            l->copied[v.id] = 0;
            LS_TRY(contiguous_copy(l, &v));
            l->copied[p->map[o->value.id].id] = 0;
        }
        if (replace)
            p->home[v.id].base = p->map[p->replaces[i]].id;
        ls_output_like(l->r.to, o, v);
    }
    return ls_graph_status(l->r.to);
}

static ls_status lower_nodes(lowering *l, ls_value *in)
{
    ls_planner *p = l->p;
    for (int i = 0; i < p->n_order; i++) {
        const ls_node *old = p->old->nodes[p->order[i]];
        ls_rewrite_like(&l->r, old);
        for (int j = 0; j < old->n_in; j++) {
            in[j] = ls_rewrite_value(&l->r, old->in[j]);
            if (ls_present(in[j]) && !ls_is_view(old))
                LS_TRY(check_fresh(l, old, in[j]));
        }
        if (ls_is_source(old)) {
            const ls_node *n = ls_rewrite_copy(&l->r, old);
            if (!n)
                return ls_graph_status(l->r.to);
            own_home(l, n->out[0]);
        } else {
            LS_TRY(ls_is_view(old) ? lower_view(l, old, in) : lower_kernel(l, old, in));
        }
    }
    LS_TRY(lower_outputs(l));
    /* values that are computed inside others: the others exist only now */
    for (int v = 1; v < p->old->n_vals; v++) {
        const ls_computed_in *q = &p->computed_in[v];
        if (q->inside && p->map[v].id > 0) {
            p->home[p->map[v].id].base = p->map[q->inside].id;
            p->home[p->map[v].id].offset = q->offset;
        }
    }
    return LS_OK;
}

ls_status ls_planner_lower(ls_planner *p)
{
    const ls_graph *g = p->old;
    int most = 2, operands = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const int n = ls_operands(g->nodes[i]);
        most = n > most ? n : most;
        operands += g->nodes[i]->n_in;
    }
    /* room for a copy of each operand and output */
    const int vals = g->n_vals + operands + g->n_outputs + 1;
    lowering l = { .p = p,
                   .copy = &ls_op_copy,
                   .operands = LS_ARENA_ARRAY(&p->scratch, ls_tensor, most),
                   .copied = LS_ARENA_ARRAY(&p->scratch, int, vals),
                   .born = LS_ARENA_ARRAY(&p->scratch, int, vals),
                   .writes = LS_ARENA_ARRAY(&p->scratch, write_record *, vals) };
    p->home = LS_ARENA_ARRAY(&p->scratch, ls_home, vals);
    p->chosen = LS_ARENA_ARRAY(&p->scratch, const ls_kernel *, vals);
    ls_value *in = LS_ARENA_ARRAY(&p->scratch, ls_value, most);
    LS_TRY(ls_arena_status(&p->scratch));
    LS_TRY(choose_kernels(p, l.operands));
    LS_TRY(ls_planner_avoid_copies(p));

    LS_TRY(ls_rewrite_begin(&l.r, g));
    p->map = l.r.map;
    ls_status s = lower_nodes(&l, in);
    p->plan->graph = s == LS_OK ? l.r.to : NULL;
    if (s == LS_OK)
        l.r.to = NULL; /* owned by the planner now */
    ls_rewrite_abort(&l.r);
    p->map = NULL;
    return s;
}
