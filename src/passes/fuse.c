/* fuse.c - joins epilogues to the op before them, and element-wise ops to one. A first sweep decides which
 * nodes become one, a second one makes the new graph. A product with an epilogue is computed where the
 * product was, if the epilogue's other operand exists there, else where the epilogue was.
 *
 *     gelu(linear)                           -> linear act=gelu; its second output is the activation's input
 *     add(linear, r)                         -> linear with residual r
 *     gelu_grad(linear_dx, pre)              -> linear_dx act=gelu with pre
 *     add(linear_dx, r)                      -> linear_dx with addend r; layer_norm_grad, rms_norm_grad and
 *                                               embedding_grad take an addend in the same way
 *     add(dropout, r)                        -> dropout with addend r
 *     relu(add(batch_norm, r))               -> batch_norm act=relu with residual r, or only one of them
 *     batch_norm_grad(relu_grad(dy, y), ..)  -> batch_norm_grad act=relu of dy with y
 *     element-wise trees                     -> fused */
#define LS_NO_CALL_SITES /* new nodes keep the call site of the model's line */
#include <stdlib.h>

#include "base/check.h"
#include "base/sys.h"
#include "graph/rewrite.h"
#include "ops/rules.h"
#include "passes.h"

enum { MAX_CODE = 16, MAX_OPERANDS = 8 };

typedef struct fusion {
    ls_rewrite r;
    ls_uses uses;
    int *into;     /* [nodes]: the node that this one is emitted with; -1: none */
    int *epilogue; /* [nodes]: the epilogue that this product computes where the product was; -1: none */
    int *tail;     /* [nodes]: the relu after a batch norm with a residual; -1: none */
} fusion;

static ls_act activation(const ls_op *op)
{
    return op == &ls_op_relu        ? LS_ACT_RELU
           : op == &ls_op_gelu      ? LS_ACT_GELU
           : op == &ls_op_gelu_tanh ? LS_ACT_GELU_TANH
                                    : LS_ACT_NONE;
}

static ls_act activation_grad(const ls_op *op)
{
    return op == &ls_op_relu_grad        ? LS_ACT_RELU
           : op == &ls_op_gelu_grad      ? LS_ACT_GELU
           : op == &ls_op_gelu_tanh_grad ? LS_ACT_GELU_TANH
                                         : LS_ACT_NONE;
}

static const ls_node *producer(const fusion *f, ls_value v)
{
    return ls_present(v) ? ls_node_of(f->r.from, v) : NULL;
}
static bool first_output(const fusion *f, ls_value v) { return f->r.from->vals[v.id].out == 0; }
static bool single_use(const fusion *f, ls_value v) { return f->uses.count[v.id] == 1; }

static bool plain_product(const ls_node *p, const ls_op *op, int operands)
{
    return p && p->op == op && p->n_in <= operands && ((const ls_linear_attrs *)p->attrs)->act == LS_ACT_NONE;
}

/* Whether the last operand of this op is an addend. */
static bool ends_with_addend(const ls_op *op)
{
    return op == &ls_op_layer_norm_grad || op == &ls_op_rms_norm_grad || op == &ls_op_embedding_grad ||
           op == &ls_op_dropout;
}

static bool is_norm(const ls_node *p)
{
    return p->op == &ls_op_batch_norm || p->op == &ls_op_batch_norm_eval;
}

static bool plain_norm(const ls_node *p)
{
    return p && is_norm(p) && p->n_in == p->op->min_in &&
           ((const ls_batch_norm_attrs *)p->attrs)->act == LS_ACT_NONE;
}

static bool absorbed(const fusion *f, const ls_node *p)
{
    return f->into[p->id] >= 0 || f->epilogue[p->id] >= 0;
}

/* Whether `add` can become the epilogue of the node that makes its operand k. */
static bool takes_addend(const fusion *f, const ls_node *add, int k)
{
    ls_value v = add->in[k];
    const ls_node *p = producer(f, v);
    if (!p || !single_use(f, v) || !first_output(f, v) || absorbed(f, p) || p->phase != add->phase)
        return false;
    const ls_type *out = ls_type_of(f->r.from, add->out[0]);
    if (!ls_type_equal(out, ls_type_of(f->r.from, add->in[0])) ||
        !ls_type_equal(out, ls_type_of(f->r.from, add->in[1])))
        return false;
    return plain_product(p, &ls_op_linear, 3) || plain_product(p, &ls_op_linear_dx, 2) || plain_norm(p) ||
           (ends_with_addend(p->op) && p->n_in == p->op->max_in - 1);
}

/* Whether another output of p (dgain, dbias) is read before node `at`. If so, p must be computed earlier
 * than `at`. */
static bool read_before(const fusion *f, const ls_node *p, int at)
{
    for (int i = p->id + 1; i < at && p->n_out > 1; i++)
        for (int k = 0; k < f->r.from->nodes[i]->n_in; k++)
            if (producer(f, f->r.from->nodes[i]->in[k]) == p)
                return true;
    return false;
}

/* Decides where p and its epilogue n are computed. `other`: the epilogue's other operand (absent for an
 * activation). */
static void fuse_join(fusion *f, const ls_node *p, const ls_node *n, ls_value other)
{
    /* (the node of `other` may be emitted later than it stands in the graph: a layer_norm_grad that waits
     * for its addend) */
    const ls_node *q = producer(f, other);
    if (!q || (q->id < p->id && f->into[q->id] < p->id)) {
        f->epilogue[p->id] = n->id;
        f->into[n->id] = p->id;
    } else if (!is_norm(p) && !read_before(f, p, n->id)) {
        f->into[p->id] = n->id;
    }
}

static bool same_pass(const ls_node *p, const ls_node *n)
{
    return p->phase == n->phase && (p->clone_of < 0) == (n->clone_of < 0);
}

/* The relu of a batch norm, or of a batch norm that has taken a residual. */
static void join_relu(fusion *f, const ls_node *n)
{
    const ls_node *p = producer(f, n->in[0]);
    if (!single_use(f, n->in[0]) || !first_output(f, n->in[0]) || !same_pass(p, n))
        return;
    if (plain_norm(p) && !absorbed(f, p)) {
        fuse_join(f, p, n, LS_NONE);
    } else if (p->op == &ls_op_add && f->into[p->id] >= 0) {
        const ls_node *norm = f->r.from->nodes[f->into[p->id]];
        if (plain_norm(norm) && same_pass(norm, n)) {
            f->tail[norm->id] = n->id;
            f->into[n->id] = norm->id;
        }
    }
}

/* The relu_grad in front of a batch norm's gradient. */
static void join_mask(fusion *f, const ls_node *n)
{
    const ls_node *mask = producer(f, n->in[0]);
    if (n->n_in == 5 && mask->op == &ls_op_relu_grad && single_use(f, n->in[0]) && same_pass(mask, n) &&
        !absorbed(f, mask) &&
        ls_type_equal(ls_type_of(f->r.from, mask->in[0]), ls_type_of(f->r.from, n->in[1])) &&
        ls_type_equal(ls_type_of(f->r.from, mask->in[1]), ls_type_of(f->r.from, n->in[1])))
        f->into[mask->id] = n->id;
}

static void decide_epilogues(fusion *f)
{
    const ls_graph *g = f->r.from;
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        if (n->op == &ls_op_batch_norm_grad) {
            join_mask(f, n);
        } else if (n->op == &ls_op_relu && !plain_product(producer(f, n->in[0]), &ls_op_linear, 3)) {
            join_relu(f, n);
        } else if (activation(n->op)) {
            const ls_node *p = producer(f, n->in[0]);
            if (plain_product(p, &ls_op_linear, 3) && first_output(f, n->in[0]) && !absorbed(f, p) &&
                p->phase == n->phase && (p->clone_of < 0) == (n->clone_of < 0))
                fuse_join(f, p, n, LS_NONE);
        } else if (activation_grad(n->op)) {
            const ls_node *p = producer(f, n->in[0]);
            if (plain_product(p, &ls_op_linear_dx, 2) && single_use(f, n->in[0]) && !absorbed(f, p) &&
                ls_type_equal(ls_type_of(g, n->in[0]), ls_type_of(g, n->in[1])))
                fuse_join(f, p, n, n->in[1]);
        } else if (n->op == &ls_op_add) {
            /* the operand that is made later, because the other one exists by then */
            int k = producer(f, n->in[1])->id > producer(f, n->in[0])->id ? 1 : 0;
            k = takes_addend(f, n, k) ? k : 1 - k;
            if (takes_addend(f, n, k))
                fuse_join(f, producer(f, n->in[k]), n, n->in[1 - k]);
        }
    }
}

/* The node that is emitted together with n, at n's place; NULL if there is none. n is an epilogue or the last
 * op of a chain. */
static const ls_node *late_partner(const fusion *f, const ls_node *n)
{
    for (int k = 0; k < n->n_in; k++)
        if (ls_present(n->in[k]) && f->into[producer(f, n->in[k])->id] == n->id)
            return producer(f, n->in[k]);
    return NULL;
}

/* What a node would be part of as the last op of a fused program. */
typedef struct chain {
    int size, operands; /* size 0: it cannot be fused */
    int64_t bytes;      /* of the operands */
    int pass;           /* of a pipeline: how many messages there are before the node */
} chain;

/* Whether p, which makes operand k of n, can be computed inside n. p's operands then live until n. Within a
 * pass that is short. Over passes, as from one micro-batch's gradient to the next, they must not take more
 * memory than p's result would: a sum over micro-batches would keep the gradients of eight. */
static bool continues(const fusion *f, const chain *all, const ls_node *n, int k)
{
    const ls_node *p = producer(f, n->in[k]);
    const chain *before = &all[p->id], *own = &all[n->id];
    const ls_type *made = ls_type_of(f->r.from, p->out[0]), *out = ls_type_of(f->r.from, n->out[0]);
    return before->size > 0 && single_use(f, n->in[k]) && f->into[p->id] < 0 && same_pass(p, n) &&
           (before->pass == own->pass || before->bytes <= (int64_t)ls_type_bytes(made)) &&
           ls_type_count(made) == ls_type_count(out) && made->ndim == out->ndim &&
           own->size + before->size <= MAX_CODE && own->operands - 1 + before->operands <= MAX_OPERANDS;
}

static void decide_chain(fusion *f, chain *all, const ls_node *n)
{
    chain *own = &all[n->id];
    own->size = 1;
    own->operands = n->n_in;
    for (int k = 0; k < n->n_in; k++)
        own->bytes += (int64_t)ls_type_bytes(ls_type_of(f->r.from, n->in[k]));
    for (int k = 0; k < n->n_in; k++) {
        const ls_node *p = producer(f, n->in[k]);
        if (!continues(f, all, n, k))
            continue;
        f->into[p->id] = n->id;
        own->size += all[p->id].size;
        own->operands += all[p->id].operands - 1;
        own->bytes += all[p->id].bytes - (int64_t)ls_type_bytes(ls_type_of(f->r.from, p->out[0]));
    }
}

/* Element-wise chains: a node whose only reader is element-wise, of the same shape and in the same phase, is
 * computed inside its reader. Registers of a fused program are floats, so the program may read integers, but
 * not make them. */
static ls_status decide_chains(fusion *f)
{
    const ls_graph *g = f->r.from;
    chain *all = ls_sys_calloc((size_t)g->n_nodes + 1, sizeof *all);
    const ls_status s = ls_sys_have(all);
    for (int i = 0, pass = 0; i < g->n_nodes && s == LS_OK; i++) {
        const ls_node *n = g->nodes[i];
        pass += n->op == &ls_op_send || n->op == &ls_op_receive;
        all[i].pass = pass;
        if ((n->op->flags & LS_OP_ELEMENTWISE) && f->into[i] < 0 &&
            ls_dtype_is_float(ls_type_of(g, n->out[0])->dtype) &&
            !late_partner(f, n)) /* else it is part of a product already */
            decide_chain(f, all, n);
    }
    free(all);
    return s;
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
    p->numbers[p->n] = n->op->attrs_size && n->op != &ls_op_cast ? ((const ls_number_attrs *)n->attrs)->value
                                                                 : 0.0;
    return p->n_in + p->n++;
}

static void emit_chain(fusion *f, const ls_node *n)
{
    program p = { 0 };
    collect_operands(f, n, &p);
    emit_code(f, n, &p);
    ls_fused_attrs a = { .code = { 4 * p.n, p.code },
                         .numbers = { p.n, p.numbers },
                         .to = (int64_t)ls_type_of(f->r.from, n->out[0])->dtype };
    for (int k = 0; k < p.n_in; k++)
        p.in[k] = ls_rewrite_value(&f->r, p.in[k]);
    ls_rewrite_like(&f->r, n);
    ls_node *fused = ls_graph_add(f->r.to, &ls_op_fused, p.n_in, p.in, &a);
    if (!fused)
        return;
    fused->clone_of = n->clone_of < 0 ? -1 : fused->id;
    f->r.map[n->out[0].id] = fused->out[0];
}

/* Emits p and its epilogue n as one node. */
static void emit_epilogue(fusion *f, const ls_node *p, const ls_node *n)
{
    ls_value in[8] = { { 0 } }, other = LS_NONE;
    for (int j = 0; j < p->n_in; j++)
        in[j] = ls_rewrite_value(&f->r, p->in[j]);
    if (n->n_in > 1)
        other = ls_rewrite_value(&f->r, producer(f, n->in[0]) == p ? n->in[1] : n->in[0]);
    ls_linear_attrs act = { activation(n->op) ? activation(n->op) : activation_grad(n->op) };
    int count = p->n_in;
    if (ends_with_addend(p->op) || activation_grad(n->op)) {
        in[count++] = other;
    } else if (!activation(n->op)) {
        in[3] = other;
        count = 4;
    }
    ls_rewrite_like(&f->r, p);
    ls_node *fused = ls_graph_add(f->r.to, p->op, count, in, ends_with_addend(p->op) ? p->attrs : &act);
    if (!fused)
        return;
    fused->clone_of = p->clone_of < 0 ? -1 : fused->id;
    for (int j = 1; j < p->n_out; j++)
        f->r.map[p->out[j].id] = fused->out[j];
    f->r.map[n->out[0].id] = fused->out[0];
    if (activation(n->op))
        f->r.map[p->out[0].id] = fused->out[1]; /* the activation's input */
}

static void emit(fusion *f, const ls_node *n, int n_in, const ls_value *in, const void *attrs,
                 const ls_node *last)
{
    ls_rewrite_like(&f->r, n);
    ls_node *fused = ls_graph_add(f->r.to, n->op, n_in, in, attrs);
    if (!fused)
        return;
    fused->clone_of = n->clone_of < 0 ? -1 : fused->id;
    for (int j = 1; j < n->n_out; j++)
        f->r.map[n->out[j].id] = fused->out[j];
    f->r.map[last->out[0].id] = fused->out[0];
}

/* Emits a batch norm with the nodes that were joined to it. */
static void emit_norm(fusion *f, const ls_node *p)
{
    const ls_node *first = f->r.from->nodes[f->epilogue[p->id]],
                  *last = f->tail[p->id] < 0 ? first : f->r.from->nodes[f->tail[p->id]];
    ls_batch_norm_attrs attrs = *(const ls_batch_norm_attrs *)p->attrs;
    ls_value in[6];
    int count = p->n_in;
    for (int j = 0; j < count; j++)
        in[j] = ls_rewrite_value(&f->r, p->in[j]);
    if (first->op == &ls_op_add)
        in[count++] = ls_rewrite_value(&f->r, first->in[producer(f, first->in[0]) == p ? 1 : 0]);
    attrs.act = last->op == &ls_op_relu ? LS_ACT_RELU : LS_ACT_NONE;
    emit(f, p, count, in, &attrs, last);
}

static void emit_masked(fusion *f, const ls_node *n, const ls_node *mask)
{
    ls_batch_norm_attrs attrs = *(const ls_batch_norm_attrs *)n->attrs;
    ls_value in[6] = { ls_rewrite_value(&f->r, mask->in[0]) };
    for (int j = 1; j < 5; j++)
        in[j] = ls_rewrite_value(&f->r, n->in[j]);
    in[5] = ls_rewrite_value(&f->r, mask->in[1]);
    attrs.act = LS_ACT_RELU;
    emit(f, n, 6, in, &attrs, n);
}

ls_status ls_pass_fuse(ls_graph **gp)
{
    const ls_graph *g = *gp;
    fusion f = { 0 };
    LS_TRY(ls_rewrite_begin(&f.r, g));
    f.into = ls_sys_malloc(sizeof(int) * (size_t)(g->n_nodes + 1));
    f.epilogue = ls_sys_malloc(sizeof(int) * (size_t)(g->n_nodes + 1));
    f.tail = ls_sys_malloc(sizeof(int) * (size_t)(g->n_nodes + 1));
    ls_status s = ls_uses_init(&f.uses, g);
    if (s == LS_OK)
        s = ls_sys_have(f.into && f.epilogue ? f.tail : NULL);
    for (int i = 0; i < g->n_nodes && s == LS_OK; i++)
        f.into[i] = f.epilogue[i] = f.tail[i] = -1;
    if (s == LS_OK) {
        decide_epilogues(&f);
        s = decide_chains(&f);
    }
    for (int i = 0; i < g->n_nodes && s == LS_OK && f.r.to->status == LS_OK; i++) {
        const ls_node *n = g->nodes[i], *partner = late_partner(&f, n);
        if (f.epilogue[i] >= 0 && is_norm(n))
            emit_norm(&f, n);
        else if (f.epilogue[i] >= 0)
            emit_epilogue(&f, n, g->nodes[f.epilogue[i]]);
        else if (f.into[i] >= 0)
            continue; /* it is emitted with the node that it was joined to */
        else if (!partner)
            ls_rewrite_copy(&f.r, n);
        else if (n->op == &ls_op_batch_norm_grad)
            emit_masked(&f, n, partner);
        else if (partner->op->flags & LS_OP_ELEMENTWISE)
            emit_chain(&f, n);
        else
            emit_epilogue(&f, partner, n);
    }
    ls_uses_release(&f.uses);
    free(f.into);
    free(f.epilogue);
    free(f.tail);
    if (s == LS_OK)
        return ls_rewrite_end(&f.r, gp);
    ls_rewrite_abort(&f.r);
    return s;
}
