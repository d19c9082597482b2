/* test_ops.c - single ops and their gradients against PyTorch's float64: built, differentiated, planned and
 * run as a model would be; on ref in f64, on cpu in f32 at every level. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "golden/values.h"
#include "models/classifier.h"
#include "ops/rules.h"
#include "passes/autodiff.h"
#include "plan/plan.h"
#include "support/levels.h"

/* One op under test: float operands, each an input of the graph named as in the golden file, and what the op
 * makes of them. */
enum { MAX_OPERANDS = 4 };
typedef struct op_case {
    const char *name;
    const char *operands[MAX_OPERANDS + 1];
    ls_value (*build)(ls_graph *g, const ls_value *x, const struct op_case *c);
    const char *extra[2]; /* golden names of outputs 1 and 2 of the op */
    const char *integers; /* another input, i32 */
    bool indexed;         /* which is the operand behind the floats */
    int64_t head_dim;     /* attention, rope */
    double scale;
    bool causal;
} op_case;

#define BUILDER(name, ...)                                                      \
    static ls_value name##_of(ls_graph *g, const ls_value *x, const op_case *c) \
    {                                                                           \
        (void)c;                                                                \
        return ls_##name(g, __VA_ARGS__);                                       \
    }
BUILDER(relu, x[0])
BUILDER(gelu, x[0])
BUILDER(gelu_tanh, x[0])
BUILDER(silu, x[0])
BUILDER(softmax, x[0])
BUILDER(swiglu, x[0], x[1])
BUILDER(abs, x[0])
BUILDER(sign, x[0])
BUILDER(sin, x[0])
BUILDER(cos, x[0])
BUILDER(sigmoid, x[0])
BUILDER(softplus, x[0])
BUILDER(hardswish, x[0])
BUILDER(leaky_relu, x[0], 0.01)
BUILDER(elu, x[0], 1.5)
BUILDER(pow_const, x[0], 3)
BUILDER(clamp, x[0], -1.5, 2)
BUILDER(max, x[0], x[1])
BUILDER(min, x[0], x[1])
BUILDER(pow, x[0], x[1])
BUILDER(gt, x[0], x[1])
BUILDER(ge, x[0], x[1])
BUILDER(eq, x[0], x[1])
BUILDER(where, x[0], x[1], x[2])
BUILDER(sum, x[0], 0, false)
BUILDER(mean, x[0], -1, true)
BUILDER(variance, x[0], 1, false, 1)
BUILDER(amax, x[0], LS_ALL_DIMS, false)
static ls_value amax_of_rows(ls_graph *g, const ls_value *x, const op_case *c)
{
    (void)c;
    return ls_amax(g, x[0], 1, false);
}
static ls_value layer_norm(ls_graph *g, const ls_value *x, const op_case *c)
{
    (void)c;
    return ls_layer_norm_op(g, x[0], x[1], x[2], 1e-6);
}
static ls_value rms_norm(ls_graph *g, const ls_value *x, const op_case *c)
{
    (void)c;
    return ls_rms_norm_op(g, x[0], x[1], 1e-6);
}
static ls_value embedding(ls_graph *g, const ls_value *x, const op_case *c)
{
    (void)c;
    return ls_embedding_op(g, ls_input(g, "ids", LS_TYPE(LS_I32, 3, 5)), x[0]);
}
static ls_value rope(ls_graph *g, const ls_value *x, const op_case *c)
{
    return ls_rope(g, x[0], c->integers ? ls_input(g, "positions", LS_TYPE(LS_I32, 2, 5)) : LS_NONE,
                   c->head_dim, 10000);
}
static ls_value attention(ls_graph *g, const ls_value *x, const op_case *c)
{
    return ls_attention(g, x[0], x[1], x[2], c->operands[3] ? x[3] : LS_NONE, c->head_dim, c->scale,
                        c->causal);
}
static ls_value cross_entropy(ls_graph *g, const ls_value *x, const op_case *c)
{
    (void)c;
    ls_value labels = ls_input(g, "labels", LS_TYPE(LS_I32, 9)),
             count = ls_input(g, "count", LS_SCALAR(ls_value_type(g, x[0]).dtype));
    return ls_cross_entropy_sum(g, x[0], labels, count, &(ls_loss_attrs){ .ignore_index = -100 });
}

static ls_value cross_entropy_smooth(ls_graph *g, const ls_value *x, const op_case *c)
{
    (void)c;
    return ls_cross_entropy_smooth(g, x[0], ls_input(g, "labels", LS_TYPE(LS_I32, 9)), 0.1);
}

/* two labels with a weight, where PyTorch has a row of probabilities */
static ls_value mixed(ls_graph *g, const ls_value *x, const op_case *c)
{
    (void)c;
    return ls_classifier_rows(g, x[0], ls_input(g, "labels", LS_TYPE(LS_I32, 9)),
                              &(ls_classifier_loss){ .label_smoothing = 0.1, .mixed = true });
}

BUILDER(log_softmax, x[0])
BUILDER(cumsum, x[0], 1)
BUILDER(gather, x[0], 1, x[1])
BUILDER(index_select, x[0], 1, x[1])
BUILDER(scatter_add, x[0], 1, x[2], x[1])
BUILDER(index_add, x[0], -2, x[2], x[1])
BUILDER(matmul, x[0], x[1], strstr(c->name, "_ta"), strstr(c->name, "_tb") || strstr(c->name, "_tab"))
BUILDER(group_norm_op, x[0], strcmp(c->name, "group_norm") ? 6 : 3, c->operands[1] ? x[1] : LS_NONE,
        c->operands[1] ? x[2] : LS_NONE, 1e-5)
static ls_value cumsum_last(ls_graph *g, const ls_value *x, const op_case *c)
{
    (void)c;
    return ls_cumsum(g, x[0], -1);
}
/* as a float that has a gradient, which is 0 */
static ls_value argmax(ls_graph *g, const ls_value *x, const op_case *c)
{
    const int dim = !strcmp(c->name, "argmax") ? LS_ALL_DIMS : !strcmp(c->name, "argmax_first") ? 0 : 1;
    ls_value at = ls_cast(g, ls_argmax_over(g, x[0], dim, false), ls_value_type(g, x[0]).dtype);
    return ls_add(g, at, ls_mul_const(g, ls_sum(g, x[0], LS_ALL_DIMS, false), 0));
}

#define R8 0.35355339059327376 /* 8^-0.5 */
static const op_case CASES[] = {
    { .name = "layer_norm",
      .operands = { "x", "gain", "bias" },
      .build = layer_norm,
      .extra = { "mean", "rstd" } },
    { .name = "layer_norm_offset",
      .operands = { "x", "gain", "bias" },
      .build = layer_norm,
      .extra = { "mean", "rstd" } },
    { .name = "relu", .operands = { "x" }, .build = relu_of },
    { .name = "gelu", .operands = { "x" }, .build = gelu_of },
    { .name = "gelu_tanh", .operands = { "x" }, .build = gelu_tanh_of },
    { .name = "silu", .operands = { "x" }, .build = silu_of },
    { .name = "swiglu", .operands = { "gate", "up" }, .build = swiglu_of },
    { .name = "rms_norm", .operands = { "x", "gain" }, .build = rms_norm, .extra = { "rstd" } },
    { .name = "embedding", .operands = { "table" }, .build = embedding, .integers = "ids" },
    { .name = "rope", .operands = { "x" }, .build = rope, .head_dim = 6 },
    { .name = "rope_positions", .operands = { "x" }, .build = rope, .integers = "positions", .head_dim = 8 },
    { .name = "softmax", .operands = { "x" }, .build = softmax_of },
    { .name = "cross_entropy",
      .operands = { "x" },
      .build = cross_entropy,
      .integers = "labels",
      .extra = { "lse", "rows" } },
#define ATTENTION .build = attention, .extra = { "lse" }
    { .name = "attention", .operands = { "q", "k", "v" }, ATTENTION, .head_dim = 8, .scale = R8 },
    { .name = "attention_causal",
      .operands = { "q", "k", "v" },
      ATTENTION,
      .head_dim = 5,
      .scale = 0.5,
      .causal = true },
    { .name = "attention_bias",
      .operands = { "q", "k", "v", "bias" },
      ATTENTION,
      .head_dim = 4,
      .scale = 1.0 },
    { .name = "attention_bias_batch",
      .operands = { "q", "k", "v", "bias" },
      ATTENTION,
      .head_dim = 4,
      .scale = 0.25,
      .causal = true },
    { .name = "attention_gqa",
      .operands = { "q", "k", "v" },
      ATTENTION,
      .head_dim = 8,
      .scale = R8,
      .causal = true },
};

#define ONE(op)                                            \
    {                                                      \
        .name = #op, .operands = { "x" }, .build = op##_of \
    }
#define TWO(op)                                                 \
    {                                                           \
        .name = #op, .operands = { "x", "z" }, .build = op##_of \
    }
static const op_case ELEMENTS[] = {
    ONE(abs),
    ONE(sign),
    ONE(sin),
    ONE(cos),
    ONE(sigmoid),
    ONE(softplus),
    ONE(hardswish),
    ONE(leaky_relu),
    ONE(elu),
    ONE(pow_const),
    ONE(clamp),
    TWO(max),
    TWO(min),
    TWO(pow),
    TWO(gt),
    TWO(ge),
    TWO(eq),
    ONE(sum),
    ONE(mean),
    ONE(variance),
    ONE(amax),
    { .name = "amax_of_rows", .operands = { "x" }, .build = amax_of_rows },
    { .name = "where", .operands = { "condition", "x", "z" }, .build = where_of },
};

static const op_case TENSOR_OPS[] = {
    ONE(log_softmax),
    ONE(cumsum),
    { .name = "cumsum_last", .operands = { "x" }, .build = cumsum_last },
    { .name = "gather", .operands = { "x" }, .build = gather_of, .integers = "index", .indexed = true },
    { .name = "index_select",
      .operands = { "x" },
      .build = index_select_of,
      .integers = "index",
      .indexed = true },
    { .name = "scatter_add",
      .operands = { "x", "z" },
      .build = scatter_add_of,
      .integers = "index",
      .indexed = true },
    { .name = "index_add",
      .operands = { "x", "z" },
      .build = index_add_of,
      .integers = "index",
      .indexed = true },
    TWO(matmul),
    { .name = "matmul_ta", .operands = { "x", "z" }, .build = matmul_of },
    { .name = "matmul_tb", .operands = { "x", "z" }, .build = matmul_of },
    { .name = "matmul_tab", .operands = { "x", "z" }, .build = matmul_of },
    { .name = "matmul_shared", .operands = { "x", "z" }, .build = matmul_of },
    { .name = "group_norm", .operands = { "x", "z", "b" }, .build = group_norm_op_of },
    { .name = "instance_norm", .operands = { "x", "z", "b" }, .build = group_norm_op_of },
    { .name = "plain_norm", .operands = { "x" }, .build = group_norm_op_of },
    { .name = "argmax", .operands = { "x" }, .build = argmax },
    { .name = "argmax_first", .operands = { "x" }, .build = argmax },
    { .name = "argmax_middle", .operands = { "x" }, .build = argmax },
};

static const op_case SMOOTH[] = {
    { .name = "cross_entropy_smooth",
      .operands = { "x" },
      .build = cross_entropy_smooth,
      .integers = "labels" },
    { .name = "mixed", .operands = { "x" }, .build = mixed, .integers = "labels" },
};

static void check(const ls_weights *golden, const op_case *c, const ls_device *d, ls_dtype dtype,
                  double tolerance)
{
    ls_graph *g;
    ls_value x[MAX_OPERANDS], dx[MAX_OPERANDS];
    int n = 0;
    ASSERT_OK(ls_graph_create(&g, c->name));
    for (; c->operands[n]; n++) {
        ls_type t = golden_get(golden, "%s.%s", c->name, c->operands[n])->type;
        t.dtype = dtype;
        x[n] = ls_input(g, c->operands[n], t);
    }
    if (c->indexed)
        x[n] = ls_input(g, c->integers, golden_get(golden, "%s.%s", c->name, c->integers)->type);
    ls_value y = c->build(g, x, c), loss = y;
    ls_type t = ls_value_type(g, y);
    if (t.ndim > 0) /* the gradient of sum(y * dy) with respect to y is dy */
        loss = ls_sum_to(g, ls_mul(g, y, ls_input(g, "dy", t)), 0, NULL);
    ASSERT_OK(ls_backward(g, loss, ls_fill(g, LS_SCALAR(ls_value_type(g, loss).dtype), 1.0), n, x, dx));
    ls_output(g, "y", y);
    for (int i = 0; i < 2 && c->extra[i]; i++)
        ls_output(g, c->extra[i], ls_nth(g, y, i + 1));
    char name[32];
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "d%s", c->operands[i]);
        ls_output(g, name, dx[i]);
    }
    ASSERT_OK(ls_graph_finish(g));
    ls_plan *p;
    ASSERT_OK(ls_plan_create(&p, g, d, NULL));
    ls_session *s;
    ASSERT_OK(ls_session_create(&s, 1, &p, NULL));
    for (int i = 0; i < n; i++)
        golden_put(s, c->operands[i], golden_get(golden, "%s.%s", c->name, c->operands[i]));
    if (t.ndim > 0)
        golden_put(s, "dy", golden_get(golden, "%s.dy", c->name));
    if (c->integers)
        golden_put(s, c->integers, golden_get(golden, "%s.%s", c->name, c->integers));
    for (int i = 0; i < 2 && c->build == mixed; i++)
        golden_put(s, i ? "labels.weight" : "labels.mixed",
                   golden_get(golden, "%s.labels.%s", c->name, i ? "weight" : "mixed"));
    if (c->build == cross_entropy)
        golden_put(s, "count", golden_get(golden, "%s.count", c->name));
    ASSERT_OK(ls_session_run(s, 0, false));

    char what[64];
    snprintf(what, sizeof what, "%s %s, %d threads", d->ops->name, d->arch->name, d->threads);
    golden_expect_value(what, s, "y", golden_get(golden, "%s.y", c->name), tolerance);
    for (int i = 0; i < 2 && c->extra[i]; i++)
        golden_expect_value(what, s, c->extra[i], golden_get(golden, "%s.%s", c->name, c->extra[i]),
                            tolerance);
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "d%s", c->operands[i]);
        golden_expect_value(what, s, name, golden_get(golden, "%s.%s", c->name, name), tolerance);
    }
    ls_session_destroy(&s);
    ls_plan_destroy(&p);
    ls_graph_destroy(&g);
}

static void run(const char *file, const op_case *cases, size_t n)
{
    ls_weights *golden = golden_open(file);
    for (size_t k = 0; k < n; k++) {
        ls_device d;
        ASSERT_OK(ls_device_open(&d, "ref", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
        if (cases[k].build != mixed) /* its weight is f32 */
            check(golden, &cases[k], &d, LS_F64, 1e-12);
        for (int isa = next_level(-1); isa < LS_ISA_COUNT; isa = next_level(isa))
            for (int threads = 1; threads <= 2; threads++) {
                ASSERT_OK(ls_device_open(
                    &d, "cpu",
                    &(ls_device_opts){ LS_DEVICE_DEFAULTS, .isa = level_name(isa), .threads = threads }));
                /* x around 64 with deviation 1: the subtraction of the mean leaves 6 bits fewer */
                check(golden, &cases[k], &d, LS_F32,
                      strcmp(cases[k].name, "layer_norm_offset") ? 1e-6 : 1e-5);
            }
    }
    ls_weights_close(&golden);
}

static void ops(void **state)
{
    (void)state;
    run("ops", CASES, sizeof CASES / sizeof *CASES);
}

static void elements(void **state)
{
    (void)state;
    run("elements", ELEMENTS, sizeof ELEMENTS / sizeof *ELEMENTS);
}

static void tensor_ops(void **state)
{
    (void)state;
    run("tensor_ops", TENSOR_OPS, sizeof TENSOR_OPS / sizeof *TENSOR_OPS);
}

static void smooth(void **state)
{
    (void)state;
    run("augment", SMOOTH, sizeof SMOOTH / sizeof *SMOOTH);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(ops), cmocka_unit_test(elements),
                                        cmocka_unit_test(tensor_ops), cmocka_unit_test(smooth) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
