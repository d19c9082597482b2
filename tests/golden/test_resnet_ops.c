/* test_resnet_ops.c - convolutions, pools and batch norm one by one, against PyTorch. */
#include <stdio.h>
#include <string.h>
#include "golden/golden.h"
#include "passes/autodiff.h"
#include "ops/rules.h"
#include "passes/passes.h"
#include "plan/plan.h"
#include "execute/session.h"
#include "support/support.h"
#include "golden/resnet_golden.h"

/* ---- single ops */

enum { MAX_OPERANDS = 3 };
typedef struct op_case {
    const char *name;
    const char *operands[MAX_OPERANDS + 1];
    ls_value (*build)(ls_graph *g, const ls_value *x);
} op_case;

static ls_value convolution(ls_graph *g, const ls_value *x)
{
    const ls_conv_opts o = { .stride = { 2, 1 }, .padding = { 1, 2 }, .dilation = { 1, 3 }, .groups = 2 };
    return ls_conv2d_op(g, x[0], x[1], x[2], &o);
}
static ls_value max_pool(ls_graph *g, const ls_value *x)
{
    const ls_pool_opts o = { .kernel = { 3, 2 }, .stride = { 2, 2 }, .padding = { 1, 0 } };
    return ls_max_pool2d(g, x[0], &o);
}
static ls_value avg_pool(ls_graph *g, const ls_value *x) { return ls_adaptive_avg_pool2d(g, x[0], 3, 2); }

static void running(ls_graph *g, ls_type type, ls_value *mean, ls_value *variance)
{
    *mean = ls_buffer(g, "mean", type, (ls_init){ 0 });
    *variance = ls_buffer(g, "variance", type, (ls_init){ 0 });
}
static ls_value batch_norm(ls_graph *g, const ls_value *x)
{
    ls_value mean, variance, y = ls_batch_norm_op(g, x[0], x[1], x[2], 1e-5);
    running(g, ls_value_type(g, x[1]), &mean, &variance);
    ls_value tracked = ls_buffer(g, "tracked", LS_SCALAR(LS_I64), (ls_init){ 0 });
    ls_batch_norm_update(g, mean, variance, tracked, y, LS_NONE, 0.1);
    return y;
}
static ls_value batch_norm_eval(ls_graph *g, const ls_value *x)
{
    ls_value mean, variance;
    running(g, ls_value_type(g, x[1]), &mean, &variance);
    return ls_batch_norm_eval(g, x[0], x[1], x[2], mean, variance, 1e-5);
}

static const op_case CASES[] = {
    { "conv", { "x", "w", "b" }, convolution },
    { "max_pool", { "x" }, max_pool },
    { "avg_pool", { "x" }, avg_pool },
    { "batch_norm", { "x", "gain", "bias" }, batch_norm },
    { "batch_norm_eval", { "x", "gain", "bias" }, batch_norm_eval },
};

static void check_op(const op_case *c, const char *device, int isa, ls_dtype dtype, double tolerance)
{
    ls_graph *g;
    ls_value x[MAX_OPERANDS], dx[MAX_OPERANDS];
    int n = 0;
    char name[64];
    ASSERT_OK(ls_graph_create(&g, c->name));
    for (; c->operands[n]; n++) {
        ls_type t = golden_get(resnet_values, "%s.%s", c->name, c->operands[n])->type;
        t.dtype = dtype;
        x[n] = ls_param(g, c->operands[n], t, (ls_init){ 0 });
    }
    ls_value y = c->build(g, x);
    ls_value dy = ls_input(g, "dy", ls_value_type(g, y));
    ls_output(g, "y", y);
    ls_value loss = ls_sum_to(g, ls_mul(g, y, dy), 0, NULL), seed = ls_fill(g, LS_SCALAR(dtype), 1);
    ASSERT_OK(ls_backward(g, loss, seed, n, x, dx));
    for (int k = 0; k < n; k++) {
        snprintf(name, sizeof name, "d%s", c->operands[k]);
        (ls_output)(g, ls_arena_strdup(&g->arena, name), dx[k]);
    }
    machine m = start_machine(g, device, isa, 2);
    for (int k = 0; k < n; k++) {
        snprintf(name, sizeof name, "%s.%s", c->name, c->operands[k]);
        feed_golden(&m, c->operands[k], name);
    }
    snprintf(name, sizeof name, "%s.dy", c->name);
    feed_golden(&m, "dy", name);
    const bool norm = !strncmp(c->name, "batch_norm", 10), training = !strcmp(c->name, "batch_norm");
    for (int k = 0; norm && k < 2; k++) {
        snprintf(name, sizeof name, "%s.%s", c->name, k ? "variance" : "mean");
        feed_golden(&m, k ? "variance" : "mean", name);
    }
    if (training)
        value_fill(m.session, "tracked", 41);
    ASSERT_OK(ls_session_run(m.session, 0, false));
    if (training)
        assert_int_equal(value_number(m.session, "tracked", 0), 42);
    static const char *const WANT[] = { "y", "dx", "dw", "db", "dgain", "dbias" };
    for (size_t k = 0; k < sizeof WANT / sizeof *WANT; k++)
        if (golden_has(resnet_values, "%s.%s", c->name, WANT[k]))
            golden_expect_value(m.what, m.session, WANT[k],
                                golden_get(resnet_values, "%s.%s", c->name, WANT[k]), tolerance);
    for (int k = 0; norm && k < 2; k++) {
        const char *statistic = k ? "variance" : "mean";
        golden_expect_value(m.what, m.session, statistic,
                            golden_get(resnet_values, "%s.%s_after", c->name, statistic), tolerance);
    }
    stop_machine(&m);
}

static void single_ops(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof CASES / sizeof *CASES; k++) {
        check_op(&CASES[k], "ref", -1, LS_F64, 1e-12);
        for (int isa = next_level(-1); isa < LS_ISA_COUNT; isa = next_level(isa))
            check_op(&CASES[k], "cpu", isa, LS_F32, 1e-5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_ops),
    };
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
