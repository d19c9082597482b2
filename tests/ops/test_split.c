/* test_split.c - what an op's rule says is true. For every case of a forward op and every loop that its rule
 * allows to split, 2 and 4 ranks with a block each compute together what one rank computes, forward and
 * gradients. In f64 on ref; bit for bit where nothing is summed over the ranks, and always for masks. Sizes
 * that the ranks do not divide are multiplied. Under sanitizers 2 ranks or 4, in turns. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "passes/autodiff.h"
#include "lockstep/nn.h"
#include "ops/rules.h"
#include "passes/over_ranks.h"
#include "passes/propagate.h"
#include "support/allocations.h"
#include "support/ranks.h"
#include "support/support.h"

enum { MAX_OUT = 16, LARGEST = 40000 };

typedef struct trial {
    op_case c;
    const ls_op *op;
    ls_rule rule;
    ls_infer infer;
    ls_type types[CASE_MAX_IN];
    ls_box at; /* of the case, widened */
    int loop;
    double *in[CASE_MAX_IN], *weight; /* operands; what the sum of result 0 is weighted with */
    double *want[MAX_OUT];            /* of one rank: results, then gradients */
} trial;

static bool has_gradient(const trial *t) { return t->op->grad && ls_dtype_is_float(t->infer.out[0].dtype); }

/* The graph of one rank; *n: how many outputs. Gradients are those of in0.. that are float, and of the
 * weight. */
static ls_graph *build(const trial *t, ls_seed *seeds, ls_value wrt[MAX_OUT], int *n_wrt)
{
    ls_graph *g;
    ls_value in[CASE_MAX_IN] = { { 0 } };
    char name[32];
    ASSERT_OK(ls_graph_create(&g, "trial"));
    *n_wrt = 0;
    for (int k = 0; k < t->c.n_in; k++) {
        snprintf(name, sizeof name, "in%d", k);
        if (t->types[k].ndim < 0)
            continue;
        if (!ls_dtype_is_float(t->types[k].dtype)) {
            in[k] = ls_input(g, name, t->types[k]);
            continue;
        }
        in[k] = wrt[(*n_wrt)++] = ls_param(g, name, t->types[k], (ls_init){ 0 });
        const int dim = ls_rule_in_dim(&t->rule, &t->infer, k, t->loop);
        if (dim >= 0 && !(t->rule.shard >> k & 1)) /* what may be sharded is whole */
            seeds[in[k].id] = (ls_seed){ "colwise:in", dim, 1 };
    }
    g->at = t->c.at;
    const ls_value y = ls_graph_apply(g, t->op, t->c.n_in, in, t->c.attrs);
    g->at = NULL;
    for (int k = 0; k < t->infer.n_out; k++) {
        snprintf(name, sizeof name, "out%d", k);
        ls_output(g, name, ls_nth(g, y, k));
    }
    if (has_gradient(t)) {
        const ls_value w = wrt[(*n_wrt)++] = ls_param(g, "weight", t->infer.out[0], (ls_init){ 0 });
        const int dim = ls_rule_out_dim(&t->rule, &t->infer, 0, t->loop);
        if (dim >= 0 && !t->rule.loop[t->loop].join)
            seeds[w.id] = (ls_seed){ "colwise:weight", dim, 1 };
        ls_output(g, "loss", ls_sum_to(g, ls_mul(g, y, w), 0, NULL));
    }
    return g;
}

static void differentiate(ls_graph *g, int n_wrt, const int *params)
{
    ls_value wrt[MAX_OUT], grads[MAX_OUT], loss = g->outputs[g->n_outputs - 1].value;
    int n = 0;
    for (int i = 0; i < g->n_nodes && n < n_wrt; i++)
        if (g->nodes[i]->op == &ls_op_param)
            wrt[n++] = g->nodes[i]->out[0];
    (void)params;
    ls_backward(g, loss, ls_fill(g, ls_value_type(g, loss), 1), n, wrt, grads);
    for (int k = 0; k < n; k++) {
        char name[32];
        snprintf(name, sizeof name, "grad%d", k);
        ls_output(g, name, grads[k]);
    }
}

static int64_t whole_count(const trial *t, int output, const ls_graph *g, ls_type *type, const ls_value *wrt)
{
    const int results = t->infer.n_out + has_gradient(t);
    *type = ls_value_type(g, output < results ? g->outputs[output].value : wrt[output - results]);
    return ls_type_count(type);
}

static ls_status run_graph(ls_group *group, const trial *t, const ls_graph *g, double *const *in,
                           double *const *out)
{
    feed feeds[CASE_MAX_IN + 2];
    char names[CASE_MAX_IN][8];
    int n = 0;
    for (int k = 0; k < t->c.n_in; k++)
        if (t->types[k].ndim >= 0) {
            snprintf(names[k], sizeof names[k], "in%d", k);
            feeds[n++] = (feed){ names[k], in[k] };
        }
    if (has_gradient(t))
        feeds[n++] = (feed){ "weight", in[CASE_MAX_IN] };
    feeds[n] = (feed){ 0 };
    return run_over_ranks(group, g, feeds, out);
}

static ls_placement lies(const ls_seed *s)
{
    return s->word ? LS_SHARDED(s->dim) : (ls_placement){ LS_INVARIANT, 0, 0 };
}

static ls_status one_rank(ls_group *group, void *context)
{
    trial *t = context;
    const ls_shard_axis axis = { "tp", ls_group_size(group), ls_group_rank(group), 0, 1 };
    const ls_parallel p = { LS_PARALLEL_DEFAULTS, .mesh = { .n = 1, .axes = { { "tp", axis.ranks } } },
                            .rank = axis.position };
    ls_seed seeds[64] = { { 0 } };
    ls_value wrt[MAX_OUT];
    int n_wrt;
    ls_graph *g = build(t, seeds, wrt, &n_wrt);
    const int results = g->n_outputs;
    ls_placement placed[MAX_OUT];
    ls_type whole[MAX_OUT], in_type[CASE_MAX_IN + 1];
    double *in[CASE_MAX_IN + 1] = { 0 }, *out[MAX_OUT] = { 0 }, *mine = NULL;
    for (int k = 0; k < n_wrt; k++)
        placed[results + k] = lies(&seeds[wrt[k].id]);
    for (int k = 0; k < results + n_wrt && has_gradient(t); k++)
        whole_count(t, k, g, &whole[k], wrt);
    for (int k = 0; k < results && !has_gradient(t); k++)
        whole[k] = t->infer.out[k];
    for (int k = 0, f = 0; k <= CASE_MAX_IN; k++) { /* this rank's operands */
        const bool weight = k == CASE_MAX_IN;
        if (weight ? !has_gradient(t) : k >= t->c.n_in || t->types[k].ndim < 0)
            continue;
        in_type[k] = weight ? t->infer.out[0] : t->types[k];
        const bool is_param = ls_dtype_is_float(in_type[k].dtype);
        in[k] = malloc(sizeof(double) * (size_t)ls_type_count(&in_type[k]));
        block_of(in[k], weight ? t->weight : t->in[k], &in_type[k],
                 is_param ? lies(&seeds[wrt[f].id]) : (ls_placement){ LS_INVARIANT, 0, 0 }, &axis);
        f += is_param;
    }
    ls_status s = axis.ranks > 1 ? ls_propagate(&g, &p, seeds, &axis, placed) : LS_OK;
    if (s == LS_OK && has_gradient(t))
        differentiate(g, n_wrt, NULL);
    const int n = g->n_outputs;
    for (int k = 0; k < n; k++)
        out[k] = axis.ranks == 1 ? t->want[k] = malloc(sizeof(double) * (size_t)ls_type_count(&whole[k]))
                                 : malloc(sizeof(double) * (size_t)ls_type_count(&whole[k]));
    if (s == LS_OK)
        s = run_graph(group, t, g, in, out);
    for (int k = 0; k < n && s == LS_OK && axis.ranks > 1; k++) {
        const int64_t count = ls_type_count(&whole[k]);
        ls_type part;
        double largest = 0, tolerance;
        bool summed = has_gradient(t) && k >= t->infer.n_out; /* the loss and gradients */
        mine = malloc(sizeof(double) * (size_t)count);
        ls_placed_type(&part, &whole[k], placed[k], &axis);
        block_of(mine, t->want[k], &whole[k], placed[k], &axis);
        summed = summed || placed[k].kind != LS_SHARD;
        for (int64_t i = 0; i < count; i++)
            largest = fmax(largest, isfinite(t->want[k][i]) ? fabs(t->want[k][i]) : 0);
        tolerance = summed ? 1e-11 * largest : 0;
        for (int64_t i = 0; i < ls_type_count(&part) && s == LS_OK; i++)
            if (!(out[k][i] == mine[i] || (isnan(out[k][i]) && isnan(mine[i])) ||
                  fabs(out[k][i] - mine[i]) <= tolerance))
                s = ls_fail(LS_E_INTERNAL, "output %d of %d: rank %d has %.17g for %.17g in element %lld", k,
                            n, axis.position, out[k][i], mine[i], (long long)i);
        free(mine);
    }
    for (int k = 0; k < n && axis.ranks > 1; k++)
        free(out[k]);
    for (int k = 0; k <= CASE_MAX_IN; k++)
        free(in[k]);
    ls_graph_destroy(&g);
    return s;
}

static ls_status types_of(trial *t)
{
    for (int k = 0; k < t->c.n_in; k++)
        t->types[k] = case_type(&t->c, k, LS_F64);
    t->infer = (ls_infer){ .op = t->op,
                           .n_in = t->c.n_in,
                           .in = t->types,
                           .attrs = t->c.attrs,
                           .at = t->c.at,
                           .n_out = t->op->n_out };
    LS_TRY(t->op->infer(&t->infer));
    return ls_rule_of(&t->rule, &t->infer);
}

/* Takes the loop `ranks` times as often, so that the ranks divide it. Numbers that say where in it (labels,
 * ids) reach the blocks of all ranks. What is a part of a tensor is a larger part of a larger one. */
static ls_status widen(trial *t, int ranks, ls_arena *a)
{
    ls_type out = t->infer.out[0];
    int64_t extent = 0;
    for (int k = 0; k < t->c.n_in; k++)
        for (int d = 0; d < t->c.in[k].ndim; d++)
            if (ls_rule_in(&t->rule, k, d) == t->loop) {
                extent = t->c.in[k].dims[d];
                t->c.in[k].dims[d] *= ranks;
            }
    if (t->rule.slide.in >= 0 && t->loop == t->rule.slide.loop)
        t->c.in[t->rule.slide.in].dims[t->rule.slide.dim] += extent * (ranks - 1);
    for (int k = 0; k < t->c.n_in; k++) {
        case_operand *o = &t->c.in[k];
        const bool number = o->fill == FILL_INDEX || o->fill == FILL_ID;
        if (number && (int64_t)o->value == extent && ls_rule_in_dim(&t->rule, &t->infer, k, t->loop) < 0)
            o->value *= ranks;
    }
    for (int d = 0; d < out.ndim; d++)
        if (t->rule.out[0][d] == t->loop)
            out.dims[d] *= ranks;
    if (t->c.at) {
        const int d = ls_rule_in_dim(&t->rule, &t->infer, t->rule.at, t->loop);
        t->at = *t->c.at;
        t->c.at = &t->at;
        if (d >= 0) {
            t->at.whole[d] += (ranks - 1) * t->at.size[d];
            t->at.size[d] *= ranks;
        }
    }
    if (t->op->local) {
        void *attrs = ls_attrs_copy(a, t->op, t->c.attrs);
        t->op->local(a, attrs, &out);
        t->c.attrs = attrs;
    }
    return types_of(t);
}

static int64_t elements(const trial *t)
{
    int64_t n = 0;
    for (int k = 0; k < t->c.n_in; k++)
        n += t->types[k].ndim >= 0 ? ls_type_count(&t->types[k]) : 0;
    return n;
}

static void split(const op_case *c, int loop, int ranks, ls_arena *a, int *done)
{
    trial t = { .c = *c, .op = ls_op_find(c->op), .loop = loop };
    ls_tensor in[CASE_MAX_IN];
    ASSERT_OK(types_of(&t));
    if (widen(&t, ranks, a) != LS_OK)
        fail_msg("%s %s, loop %c, %d ranks: %s", c->op, c->what ? c->what : "", t.rule.loop[loop].letter,
                 ranks, ls_error_message());
    if (elements(&t) > LARGEST)
        return;
    case_inputs(&t.c, LS_F64, EXTREME_NONE, 3, in);
    for (int k = 0; k < c->n_in; k++) {
        const int64_t n = in[k].type.ndim >= 0 ? ls_type_count(&in[k].type) : 0;
        t.in[k] = malloc(sizeof(double) * (size_t)(n + 1));
        for (int64_t i = 0; i < n; i++)
            t.in[k][i] = element_get(&in[k], i);
    }
    t.weight = malloc(sizeof(double) * (size_t)ls_type_count(&t.infer.out[0]));
    fill_exact(t.weight, ls_type_count(&t.infer.out[0]), 9);
    ASSERT_OK(run_ranks(1, one_rank, &t));
    const ls_status s = run_ranks(ranks, one_rank, &t);
    if (s != LS_OK)
        fail_msg("%s %s, loop %d (%c) over %d ranks: %s", c->op, c->what ? c->what : "", loop,
                 t.rule.loop[loop].letter ? t.rule.loop[loop].letter : '-', ranks, ls_error_message());
    ++*done;
    for (int k = 0; k < MAX_OUT; k++)
        free(t.want[k]);
    for (int k = 0; k < c->n_in; k++)
        free(t.in[k]);
    free(t.weight);
    case_free(c->n_in, in);
}

/* Sources have no operands; what writes a state needs the states of a session
 * (tests/generate/test_generate.c). */
static bool propagated(const ls_op *op)
{
    return op->max_in != 0 && !(op->rule && !strcmp(op->rule, LS_RULE_LATER)) && !(op->flags & LS_OP_EFFECT);
}

/* Some float operand is split in this loop. */
static bool votes(const trial *t, int loop)
{
    for (int k = 0; k < t->c.n_in; k++)
        if (t->types[k].ndim >= 0 && ls_dtype_is_float(t->types[k].dtype) && !(t->rule.shard >> k & 1) &&
            ls_rule_in_dim(&t->rule, &t->infer, k, loop) >= 0)
            return true;
    return false;
}

static void every_loop_of_every_case(void **state)
{
    (void)state;
    ls_arena a;
    ls_arena_init(&a);
    int total = 0;
    for (const ls_op *const *op = ls_ops; *op; op++) {
        int done = 0, loops = 0;
        for (const op_case *c = ls_test_cases; c->op && propagated(*op); c++) {
            trial t = { .c = *c, .op = *op };
            if (strcmp(c->op, (*op)->name) || c->no_gradient || c->f32_only)
                continue;
            ASSERT_OK(types_of(&t));
            for (int l = 0; l < t.rule.n; l++) {
                if (t.rule.loop[l].fixed || (t.rule.loop[l].join && !(*op)->expand) || !votes(&t, l))
                    continue;
                loops++;
                for (int ranks = 2; ranks <= 4; ranks += 2)
                    if (!LS_TEST_SANITIZED || ranks == 2 + loops % 2 * 2)
                        split(c, l, ranks, &a, &done);
            }
        }
        if (loops && !done)
            fail_msg("%s: no case is small enough to be split", (*op)->name);
        total += done;
    }
    ls_arena_release(&a);
    print_message("%d splits\n", total);
    assert_true(total > (LS_TEST_SANITIZED ? 200 : 400));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_loop_of_every_case) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
