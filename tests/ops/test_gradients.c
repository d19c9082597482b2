/* Gradients: every differentiable op, with respect to every float operand, against finite differences in f64
 * on ref.
 *
 * The objective is L = sum of weight * (output 0), with random weights. A stencil of four points with
 * h = 2^-10 gives its derivative. Operands are multiples of 2^-10, so x +- h and x +- 2h are exact.
 *
 *     dL/dx = [8 (L(x+h) - L(x-h)) - (L(x+2h) - L(x-2h))] / 12h + h^4/30 L'''''(x)
 *
 * The tolerance is the sum of two errors. Truncation is h^4/30 = 3e-14 times the fifth derivative, for which
 * 5000 (and as much relative to the gradient) is ample at these operands. Rounding of L is 1.5 eps/h times
 * its size, with a factor 8 for the operations inside. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "passes/autodiff.h"
#include "interpret.h"
#include "support/support.h"

static const double H = 0x1p-10;

/* One differentiated case. */
typedef struct subject {
    ls_graph *g;
    ls_value out, weight, loss, seed;
    ls_value operand[CASE_MAX_IN], gradient[CASE_MAX_IN]; /* gradient absent: not a float */
    int forward_nodes;
    interpreter *it;
} subject;

static bool differentiable(const op_case *c)
{
    const ls_op *op = ls_op_find(c->op);
    const bool source = op->flags & LS_OP_SOURCE;
    bool floats = source;
    for (int j = 0; j < c->n_in; j++)
        floats |= c->in[j].ndim >= 0 && ls_dtype_is_float(case_type(c, j, LS_F64).dtype);
    return floats && (op->grad || source) && !c->no_gradient;
}

static void build(subject *s, const op_case *c)
{
    const ls_op *op = ls_op_find(c->op);
    ASSERT_OK(ls_graph_create(&s->g, c->op));
    for (int j = 0; j < c->n_in; j++) {
        const ls_type t = case_type(c, j, LS_F64);
        char name[16];
        snprintf(name, sizeof name, "in%d", j);
        s->operand[j] = t.ndim < 0                   ? LS_NONE
                        : ls_dtype_is_float(t.dtype) ? ls_param(s->g, name, t, (ls_init){ 0 })
                                                     : ls_input(s->g, name, t);
    }
    /* cast's target follows the data here: a rounding to f32 has no useful difference quotient */
    const ls_cast_attrs exact = { .to = LS_F64 };
    s->g->at = c->at;
    s->out = ls_graph_apply(s->g, op, c->n_in, s->operand,
                            op->ew == LS_EW_CAST && !strcmp(c->op, "cast") ? &exact : c->attrs);
    s->g->at = NULL;
    if (op->flags & LS_OP_SOURCE)
        s->operand[0] = s->out;
    ASSERT_OK(ls_graph_status(s->g));
    s->weight = ls_input(s->g, "weight", ls_value_type(s->g, s->out));
    s->loss = ls_sum_to(s->g, ls_mul(s->g, s->out, s->weight), 0, NULL);
    s->forward_nodes = s->g->n_nodes;
    s->seed = ls_fill(s->g, LS_SCALAR(LS_F64), 1.0);

    ls_value wrt[CASE_MAX_IN], grads[CASE_MAX_IN];
    int n = 0, from[CASE_MAX_IN];
    for (int j = 0; j < CASE_MAX_IN; j++) {
        /* count of cross_entropy: not a variable */
        const bool statistic = j < c->n_in && c->in[j].dtype == STAT;
        if (ls_present(s->operand[j]) && ls_dtype_is_float(ls_value_type(s->g, s->operand[j]).dtype) &&
            !statistic) {
            from[n] = j;
            wrt[n++] = s->operand[j];
        }
    }
    if (n)
        ASSERT_OK(ls_backward(s->g, s->loss, s->seed, n, wrt, grads));
    for (int k = 0; k < n; k++) {
        s->gradient[from[k]] = grads[k];
        const ls_type want = ls_value_type(s->g, wrt[k]), have = ls_value_type(s->g, grads[k]);
        if (!ls_type_equal(&want, &have))
            fail_msg("%s: the gradient of operand %d has another type than the operand", c->op, from[k]);
    }
    ASSERT_OK(ls_graph_finish(s->g));
    s->it = interpret_create(s->g);
}

static double loss_at(const subject *s, const ls_tensor *x, int64_t i, double value)
{
    element_put(x, i, value);
    interpret_run(s->it, s->forward_nodes);
    const ls_tensor loss = interpret_tensor(s->it, s->loss);
    return element_get(&loss, 0);
}

/* Returns how many elements were compared. */
static int64_t compare(const subject *s, const op_case *c, int j)
{
    const ls_tensor x = interpret_tensor(s->it, s->operand[j]), dx = interpret_tensor(s->it, s->gradient[j]);
    const ls_tensor out = interpret_tensor(s->it, s->out), weight = interpret_tensor(s->it, s->weight);
    const int64_t n = ls_type_count(&x.type);
    double size = 0, largest = 0; /* of the objective's terms; of the gradient */
    for (int64_t i = 0; i < ls_type_count(&out.type); i++)
        size += fabs(element_get(&out, i) * element_get(&weight, i));
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(element_get(&dx, i)));
    /* an f32 operand's gradient is rounded to f32 */
    const double eps = x.type.dtype == LS_F64 ? 0x1p-52 : 0x1p-23;
    const double tolerance = 5000 * H * H * H * H / 30 * (1 + largest) + 8 * 1.5 * 0x1p-52 / H * (1 + size) +
                             eps * largest;
    for (int64_t i = 0; i < n; i++) {
        const double at = element_get(&x, i), got = element_get(&dx, i);
        const double l1 = loss_at(s, &x, i, at + H), l2 = loss_at(s, &x, i, at - H);
        const double l3 = loss_at(s, &x, i, at + 2 * H), l4 = loss_at(s, &x, i, at - 2 * H);
        element_put(&x, i, at);
        const double expected = (8 * (l1 - l2) - (l3 - l4)) / (12 * H);
        if (!(fabs(got - expected) <= tolerance))
            fail_msg("%s (%s): operand %d, element %lld: gradient %.15g, finite differences %.15g, off by "
                     "%.3g, tolerance %.3g",
                     c->op, c->what ? c->what : "plain", j, (long long)i, got, expected, got - expected,
                     tolerance);
    }
    return n;
}

static void check_case(const op_case *c, int *operands, int64_t *elements)
{
    subject s = { 0 };
    build(&s, c);
    ls_tensor in[CASE_MAX_IN];
    case_inputs(c, LS_F64, EXTREME_NONE, 7, in);
    for (int j = 0; j < c->n_in; j++)
        if (in[j].data)
            memcpy(interpret_tensor(s.it, s.operand[j]).data, in[j].data, ls_type_bytes(&in[j].type));
    case_free(c->n_in, in);
    op_case like_out = { .n_in = 1, .in = { { DATA, FILL_NORMAL, 0, 0, { 0 } } } };
    const ls_type t = ls_value_type(s.g, s.out);
    like_out.in[0].ndim = t.ndim;
    memcpy(like_out.in[0].dims, t.dims, sizeof t.dims);
    ls_tensor w[CASE_MAX_IN];
    case_inputs(&like_out, LS_F64, EXTREME_NONE, 8, w);
    memcpy(interpret_tensor(s.it, s.weight).data, w[0].data, ls_type_bytes(&t));
    if (c->n_in == 0) /* a source: any value */
        memcpy(interpret_tensor(s.it, s.out).data, w[0].data, ls_type_bytes(&t));
    case_free(1, w);

    interpret_run(s.it, s.g->n_nodes);
    for (int j = 0; j < CASE_MAX_IN; j++)
        if (ls_present(s.gradient[j])) {
            ++*operands;
            *elements += compare(&s, c, j);
        }
    interpret_destroy(s.it);
    ls_graph_destroy(&s.g);
}

/* Keeps the run short: the elements of the large cases add nothing to the small ones here. */
static bool small(const op_case *c)
{
    int64_t n = 0;
    for (int j = 0; j < c->n_in; j++) {
        const ls_type t = case_type(c, j, LS_F64);
        n += t.ndim < 0 ? 0 : ls_type_count(&t);
    }
    return n <= 700;
}

static void every_differentiable_op(void **state)
{
    (void)state;
    int operands = 0;
    int64_t elements = 0;
    for (const ls_op *const *op = ls_ops; *op; op++) {
        int checked = 0;
        for (const op_case *c = ls_test_cases; c->op; c++)
            if (!strcmp(c->op, (*op)->name) && differentiable(c) && small(c)) {
                check_case(c, &operands, &elements);
                checked++;
            }
        if (!checked && (*op)->grad && !case_is_over_ranks(*op))
            fail_msg("%s is differentiable and no small case checks it", (*op)->name);
    }
    print_message("%d operands, %lld elements\n", operands, (long long)elements);
}

/* What a chain of two uses must give: contributions of several uses are added, those of disjoint slices
 * packed. */
static void several_uses_are_added(void **state)
{
    (void)state;
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "uses"));
    ls_value x = ls_param(g, "x", LS_TYPE(LS_F64, 6), (ls_init){ 0 });
    ls_value y = ls_mul(g, ls_slice(g, x, 0, 0, 3), ls_slice(g, x, 0, 3, 3)); /* x0 x3, x1 x4, x2 x5 */
    ls_value loss = ls_add(g, ls_sum_to(g, y, 0, NULL), ls_sum_to(g, ls_square(g, x), 0, NULL));
    ls_value seed = ls_fill(g, LS_SCALAR(LS_F64), 2.0), dx;
    ASSERT_OK(ls_backward(g, loss, seed, 1, &x, &dx));
    ASSERT_OK(ls_graph_finish(g));
    interpreter *it = interpret_create(g);
    const ls_tensor at = interpret_tensor(it, x);
    for (int i = 0; i < 6; i++)
        element_put(&at, i, i + 1);
    interpret_run(it, g->n_nodes);
    const ls_tensor d = interpret_tensor(it, dx);
    for (int i = 0; i < 6; i++) /* 2 * (partner + 2 x) */
        assert_true(element_get(&d, i) == 2.0 * ((i + 3) % 6 + 1 + 2 * (i + 1)));
    interpret_destroy(it);
    ls_graph_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_differentiable_op),
        cmocka_unit_test(several_uses_are_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
