/* fuse.c - epilogues and element-wise chains. A first sweep decides, per node, whether its only reader absorbs it; a second one emits.
 *
 *     gelu(linear)                 -> linear act=gelu, whose second output is the value before it
 *     add(linear, r)               -> linear with residual r
 *     gelu_grad(linear_dx, pre)    -> linear_dx act=gelu with pre
 *     add(linear_dx, r)            -> linear_dx with addend r;  layer_norm_grad likewise
 *     element-wise trees           -> fused */
#include <stdlib.h>

#include "base/check.h"
#include "graph/rewrite.h"
#include "ops/rules.h"
#include "passes.h"

enum { MAX_CODE = 16, MAX_OPERANDS = 8 };

typedef struct fusion {
    ls_rewrite r;
    ls_uses uses;
    int *into; /* per node: the node that absorbs it, -1 none */
    int *act;  /* per linear node: the activation node that it computes too, -1 none */
} fusion;

static ls_act activation(const ls_op *op)
{
    return op == &ls_op_relu ? LS_ACT_RELU : op == &ls_op_gelu ? LS_ACT_GELU : op == &ls_op_gelu_tanh ? LS_ACT_GELU_TANH : LS_ACT_NONE;
}

static ls_act activation_grad(const ls_op *op)
{
    return op == &ls_op_relu_grad ? LS_ACT_RELU : op == &ls_op_gelu_grad ? LS_ACT_GELU
           : op == &ls_op_gelu_tanh_grad ? LS_ACT_GELU_TANH : LS_ACT_NONE;
}

static const ls_node *producer(const fusion *f, ls_value v) { return ls_present(v) ? ls_node_of(f->r.from, v) : NULL; }
static bool first_output(const fusion *f, ls_value v) { return f->r.from->vals[v.id].out == 0; }
static bool single_use(const fusion *f, ls_value v) { return f->uses.count[v.id] == 1 && !f->uses.output[v.id]; }

static bool plain_product(const ls_node *p, const ls_op *op, int operands)
{
    return p && p->op == op && p->n_in <= operands && ((const ls_linear_attrs *)p->attrs)->act == LS_ACT_NONE;
}

/* May `add` absorb the producer of its operand k as an epilogue? */
static bool takes_addend(const fusion *f, const ls_node *add, int k)
{
    ls_value v = add->in[k];
    const ls_node *p = producer(f, v);
    if (!p || !single_use(f, v) || !first_output(f, v) || f->into[p->id] >= 0 || f->act[p->id] >= 0 || p->phase != add->phase)
        return false;
    const ls_type *out = ls_type_of(f->r.from, add->out[0]);
    if (!ls_type_equal(out, ls_type_of(f->r.from, add->in[0])) || !ls_type_equal(out, ls_type_of(f->r.from, add->in[1])))
        return false;
    return plain_product(p, &ls_op_linear, 3) || plain_product(p, &ls_op_linear_dx, 2) || (p->op == &ls_op_layer_norm_grad && p->n_in == 5);
}

static void decide_epilogues(fusion *f)
{
    const ls_graph *g = f->r.from;
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        if (activation(n->op)) {
            const ls_node *p = producer(f, n->in[0]);
            if (plain_product(p, &ls_op_linear, 3) && first_output(f, n->in[0]) && f->act[p->id] < 0 && f->into[p->id] < 0
                && p->phase == n->phase && (p->clone_of < 0) == (n->clone_of < 0)) {
                f->act[p->id] = i;
                f->into[i] = p->id;
            }
        } else if (activation_grad(n->op)) {
            const ls_node *p = producer(f, n->in[0]);
            if (plain_product(p, &ls_op_linear_dx, 2) && single_use(f, n->in[0])
                && ls_type_equal(ls_type_of(g, n->in[0]), ls_type_of(g, n->in[1])))
                f->into[p->id] = i;
        } else if (n->op == &ls_op_add) {
            /* the later of the two, whose addend is then surely there */
            int k = producer(f, n->in[1])->id > producer(f, n->in[0])->id ? 1 : 0;
            if (takes_addend(f, n, k))
                f->into[producer(f, n->in[k])->id] = i;
            else if (takes_addend(f, n, 1 - k))
                f->into[producer(f, n->in[1 - k])->id] = i;
        }
    }
}

/* Element-wise chains: a node whose only reader is element-wise, of the same shape and phase, is computed inside it. */
static void decide_chains(fusion *f)
{
    const ls_graph *g = f->r.from;
    int *size = calloc((size_t)g->n_nodes + 1, sizeof *size), *operands = calloc((size_t)g->n_nodes + 1, sizeof *operands);
    LS_CHECK(size && operands, "out of memory");
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        if (!(n->op->flags & LS_OP_ELEMENTWISE) || f->into[i] >= 0)
            continue;
        bool epilogue = false; /* an add or activation gradient that became part of a product */
        for (int k = 0; k < n->n_in; k++)
            epilogue |= f->into[producer(f, n->in[k])->id] == i;
        if (epilogue)
            continue;
        size[i] = 1;
        operands[i] = n->n_in;
        for (int k = 0; k < n->n_in; k++) {
            const ls_node *p = producer(f, n->in[k]);
            bool chain = size[p->id] > 0 && single_use(f, n->in[k]) && f->into[p->id] < 0 && p->phase == n->phase
                         && (p->clone_of < 0) == (n->clone_of < 0)
                         && ls_type_count(ls_type_of(g, p->out[0])) == ls_type_count(ls_type_of(g, n->out[0]))
                         && ls_type_of(g, p->out[0])->ndim == ls_type_of(g, n->out[0])->ndim
                         && size[i] + size[p->id] <= MAX_CODE && operands[i] - 1 + operands[p->id] <= MAX_OPERANDS;
            if (!chain)
                continue;
            f->into[p->id] = i;
            size[i] += size[p->id];
            operands[i] += operands[p->id] - 1;
        }
    }
    free(size);
    free(operands);
}

typedef struct program {
    int n_in, n;
    ls_value in[MAX_OPERANDS];
    int64_t code[4 * MAX_CODE];
    double numbers[MAX_CODE];
} program;

static void collect_operands(const fusion *f, const ls_node *n, program *p)
{
    for (int k = 0; k < n->n_in; k++) {
        const ls_node *from = producer(f, n->in[k]);
        if (f->into[from->id] == n->id) {
            collect_operands(f, from, p);
            continue;
        }
        int j = 0;
        while (j < p->n_in && p->in[j].id != n->in[k].id)
            j++;
        if (j == p->n_in)
            p->in[p->n_in++] = n->in[k];
    }
}

static int emit_code(const fusion *f, const ls_node *n, program *p)
{
    int64_t reg[2] = { -1, -1 };
    for (int k = 0; k < n->n_in; k++) {
        const ls_node *from = producer(f, n->in[k]);
        if (f->into[from->id] == n->id) {
            reg[k] = emit_code(f, from, p);
            continue;
        }
        int j = 0;
        while (p->in[j].id != n->in[k].id)
            j++;
        reg[k] = j;
    }
    int64_t *code = &p->code[4 * p->n];
    code[0] = n->op->ew;
    code[1] = reg[0];
    code[2] = reg[1];
    code[3] = (int64_t)ls_type_of(f->r.from, n->out[0])->dtype;
    p->numbers[p->n] = n->op->attrs_size && n->op != &ls_op_cast ? ((const ls_number_attrs *)n->attrs)->value : 0.0;
    return p->n_in + p->n++;
}

static bool absorbs(const fusion *f, const ls_node *n)
{
    for (int k = 0; k < n->n_in; k++)
        if (ls_present(n->in[k]) && f->into[producer(f, n->in[k])->id] == n->id)
            return true;
    return false;
}

static void emit_chain(fusion *f, const ls_node *n)
{
    program p = { 0 };
    collect_operands(f, n, &p);
    emit_code(f, n, &p);
    ls_fused_attrs a = { .code = { 4 * p.n, p.code }, .numbers = { p.n, p.numbers }, .to = (int64_t)ls_type_of(f->r.from, n->out[0])->dtype };
    for (int k = 0; k < p.n_in; k++)
        p.in[k] = ls_rewrite_value(&f->r, p.in[k]);
    ls_rewrite_like(&f->r, n);
    f->r.map[n->out[0].id] = ls_graph_apply(f->r.to, &ls_op_fused, p.n_in, p.in, &a);
}

/* n is an add or an activation gradient that absorbs a product or a norm gradient. */
static void emit_epilogue(fusion *f, const ls_node *n)
{
    int k = f->into[producer(f, n->in[0])->id] == n->id ? 0 : 1;
    const ls_node *p = producer(f, n->in[k]);
    ls_value in[8] = { { 0 } };
    for (int j = 0; j < p->n_in; j++)
        in[j] = ls_rewrite_value(&f->r, p->in[j]);
    ls_value other = ls_rewrite_value(&f->r, n->in[1 - k]);
    ls_linear_attrs act = { 0 };
    const void *attrs = p->attrs;
    int count;
    if (p->op == &ls_op_layer_norm_grad) {
        in[5] = other;
        count = 6;
    } else if (activation_grad(n->op)) {
        act.act = activation_grad(n->op);
        attrs = &act;
        in[2] = other;
        count = 3;
    } else {
        in[3] = other;
        count = 4;
    }
    ls_rewrite_like(&f->r, p);
    ls_node *fused = ls_graph_add(f->r.to, p->op, count, in, attrs);
    if (!fused)
        return;
    fused->clone_of = p->clone_of;
    f->r.map[n->out[0].id] = fused->out[0];
    for (int j = 1; j < p->n_out; j++)
        f->r.map[p->out[j].id] = fused->out[j];
}

/* Outputs 1.. of an absorbed node (dgain, dbias of layer_norm_grad) appear only where its absorber stands; a reader in between forbids it. */
static void forbid_early_readers(fusion *f)
{
    const ls_graph *g = f->r.from;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_in; k++) {
            ls_value v = g->nodes[i]->in[k];
            const ls_node *p = producer(f, v);
            if (p && !first_output(f, v) && f->into[p->id] > i)
                f->into[p->id] = -1;
        }
}

static void emit_activation(fusion *f, const ls_node *n)
{
    const ls_node *a = f->r.from->nodes[f->act[n->id]];
    ls_value in[3] = { { 0 } };
    for (int j = 0; j < n->n_in; j++)
        in[j] = ls_rewrite_value(&f->r, n->in[j]);
    ls_node *fused = ls_rewrite_copy_with(&f->r, n, in, &(ls_linear_attrs){ activation(a->op) });
    if (!fused)
        return;
    f->r.map[n->out[0].id] = fused->out[1];
    f->r.map[a->out[0].id] = fused->out[0];
}

ls_status ls_pass_fuse(ls_graph **gp)
{
    const ls_graph *g = *gp;
    fusion f = { 0 };
    LS_TRY(ls_rewrite_begin(&f.r, g));
    ls_uses_init(&f.uses, g);
    f.into = malloc(sizeof(int) * (size_t)(g->n_nodes + 1));
    f.act = malloc(sizeof(int) * (size_t)(g->n_nodes + 1));
    LS_CHECK(f.into && f.act, "out of memory");
    for (int i = 0; i < g->n_nodes; i++)
        f.into[i] = f.act[i] = -1;
    decide_epilogues(&f);
    forbid_early_readers(&f);
    decide_chains(&f);
    for (int i = 0; i < g->n_nodes && f.r.to->status == LS_OK; i++) {
        const ls_node *n = g->nodes[i];
        if (f.act[i] >= 0)
            emit_activation(&f, n);
        else if (f.into[i] >= 0)
            continue; /* emitted with the node that absorbs it */
        else if (!absorbs(&f, n))
            ls_rewrite_copy(&f.r, n);
        else if (producer(&f, n->in[0])->op->flags & LS_OP_ELEMENTWISE && f.into[producer(&f, n->in[0])->id] == i)
            emit_chain(&f, n);
        else if (n->n_in > 1 && producer(&f, n->in[1])->op->flags & LS_OP_ELEMENTWISE && f.into[producer(&f, n->in[1])->id] == i)
            emit_chain(&f, n);
        else
            emit_epilogue(&f, n);
    }
    ls_uses_release(&f.uses);
    free(f.into);
    free(f.act);
    return ls_rewrite_end(&f.r, gp);
}
