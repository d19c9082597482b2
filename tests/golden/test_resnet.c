/* test_resnet.c - ResNets against PyTorch: logits, loss, every gradient, running statistics and evaluation by
 * them, on ref in f64 and on cpu in f32 at every level; and the ops that only convolutional networks have,
 * one by one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "golden/golden.h"
#include "passes/autodiff.h"
#include "lockstep/models.h"
#include "ops/rules.h"
#include "passes/passes.h"
#include "plan/plan.h"
#include "execute/session.h"
#include "support/support.h"

static const ls_resnet_config TUTORIAL = {
    .depth = 18, .image_size = 28, .in_channels = 1, .classes = 10, .mean = 0.5, .std = 0.5
};
static ls_weights *golden;

/* The next CPU level after `isa` that was built and runs here; LS_ISA_COUNT: none. */
static int next_level(int isa)
{
    for (isa++; isa <= (int)ls_isa_best(); isa++)
        if (ls_device_cpu.tables((ls_isa)isa))
            return isa;
    return LS_ISA_COUNT;
}

static int set_up(void **state)
{
    (void)state;
    golden = golden_open("resnet");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ls_weights_close(&golden);
    return 0;
}

/* A planned graph with its memory. */
typedef struct machine {
    ls_plan *plan;
    ls_session *session;
    char what[48];
} machine;

/* Takes the graph. */
static machine start(ls_graph *g, const char *device, int isa, int threads)
{
    machine m = { 0 };
    ls_device d;
    ASSERT_OK(
        ls_device_open(&d, device, &(ls_device_opts){ LS_DEVICE_DEFAULTS, .isa = isa, .threads = threads }));
    ASSERT_OK(ls_pass_cse(&g));
    ASSERT_OK(ls_pass_dce(&g));
    ASSERT_OK(ls_pass_fuse(&g));
    ASSERT_OK(ls_pass_dce(&g));
    ASSERT_OK(ls_plan_create(&m.plan, g, &d, NULL));
    ASSERT_OK(ls_session_create(&m.session, 1, &m.plan));
    snprintf(m.what, sizeof m.what, "%s %s, %d threads", device, isa < 0 ? "" : ls_isa_name((ls_isa)isa),
             threads);
    ls_graph_destroy(&g);
    return m;
}

static void stop(machine *m)
{
    ls_session_destroy(&m->session);
    ls_plan_destroy(&m->plan);
}

static ls_tensor tensor(const machine *m, const char *name)
{
    ls_tensor t;
    ASSERT_OK(ls_session_tensor(m->session, name, &t));
    return t;
}

static void set(const machine *m, const char *name, double value)
{
    ls_tensor t = tensor(m, name);
    for (int64_t i = 0; i < ls_type_count(&t.type); i++)
        switch (t.type.dtype) {
        case LS_F64: ((double *)t.data)[i] = value; break;
        case LS_F32: ((float *)t.data)[i] = (float)value; break;
        case LS_I64: ((int64_t *)t.data)[i] = (int64_t)value; break;
        default: ((int32_t *)t.data)[i] = (int32_t)value; break;
        }
}

static bool ends(const char *text, const char *end)
{
    const size_t n = strlen(text), k = strlen(end);
    return n >= k && !strcmp(text + n - k, end);
}

/* golden_parameter for 11 million elements takes longer than a step: each tensor once. They are exact in f32.
 */
static void parameter(const char *name, const ls_tensor *to)
{
    static struct {
        char name[64];
        int64_t n;
        float *x;
    } known[512];
    const int64_t n = ls_type_count(&to->type);
    int k = 0;
    while (known[k].x && (strcmp(known[k].name, name) || known[k].n != n))
        k++;
    assert_true(k < 511);
    if (!known[k].x) {
        ls_type f32 = to->type;
        f32.dtype = LS_F32;
        snprintf(known[k].name, sizeof known[k].name, "%s", name);
        known[k].n = n;
        known[k].x = malloc(sizeof(float) * (size_t)n);
        golden_parameter(name, &f32, known[k].x);
    }
    for (int64_t i = 0; i < n; i++)
        if (to->type.dtype == LS_F64)
            ((double *)to->data)[i] = (double)known[k].x[i];
        else
            ((float *)to->data)[i] = known[k].x[i];
}

/* Parameters by formula, running statistics as they begin. */
static void fill(const machine *m)
{
    for (int i = 0; i < m->plan->n_allocs; i++) {
        const char *name = m->plan->allocs[i].name;
        if (m->plan->allocs[i].memory != LS_MEM_STATE)
            continue;
        ls_tensor t = tensor(m, name);
        if (ends(name, ".running_mean") || ends(name, ".num_batches_tracked"))
            set(m, name, 0);
        else if (ends(name, ".running_var"))
            set(m, name, 1);
        else
            parameter(name, &t);
    }
}

static void feed(const machine *m, const char *input, const char *name)
{
    ls_tensor t = tensor(m, input);
    ASSERT_OK(ls_weight_read(golden_get(golden, "%s", name), t.type.dtype, t.data));
}

/* The step of the tutorial's model on 4 pictures: every parameter's gradient is an output. */
static ls_graph *training_graph(ls_dtype type, const char *recompute)
{
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "resnet"));
    ASSERT_OK(ls_resnet_build(g, &TUTORIAL, 4));
    if (type == LS_F64)
        ASSERT_OK(ls_pass_to_float(&g, LS_F64));
    ls_value loss = LS_NONE, wrt[64], grads[64];
    const char *names[64];
    int n = 0;
    for (int i = 0; i < g->n_outputs; i++)
        if (!strcmp(g->outputs[i].name, "loss"))
            loss = g->outputs[i].value;
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == &ls_op_param) {
            assert_true(n < 64);
            names[n] = ((const ls_source_attrs *)g->nodes[i]->attrs)->name;
            wrt[n++] = g->nodes[i]->out[0];
        }
    assert_int_equal(n, 62);
    ls_value seed = ls_fill(g, ls_value_type(g, loss), 1.0);
    ASSERT_OK(ls_backward(g, loss, seed, n, wrt, grads));
    for (int i = 0; i < n; i++) {
        char name[96];
        snprintf(name, sizeof name, "grad.%s", names[i]);
        (ls_output)(g, ls_arena_strdup(&g->arena, name), grads[i]);
    }
    if (recompute)
        ASSERT_OK(ls_pass_recompute(&g, recompute));
    ASSERT_OK(ls_graph_verify(g));
    return g;
}

/* Largest and mean square of (ours - f64's) beside the largest magnitude of f64's, of one tensor. */
typedef struct error {
    double worst, square;
} error;
static error beside(const void *data, const ls_type *type, const ls_weight *want, double scale)
{
    const golden_error e = golden_compare(data, type, want);
    const double norm = e.norm / scale;
    return (error){ e.worst / scale, norm * norm / (double)golden_count(want) };
}

typedef struct tally {
    error ours, torch;
    int n;
} tally;

static void count(tally *t, error ours, error torch)
{
    t->ours.worst = fmax(t->ours.worst, ours.worst);
    t->torch.worst = fmax(t->torch.worst, torch.worst);
    t->ours.square += ours.square;
    t->torch.square += torch.square;
    t->n++;
}

/* f64: within 1e-9. f32: this network amplifies rounding, so it is judged by PyTorch's own f32: mean square
 * errors over all tensors. */
static void compare(const machine *m, tally *t, const char *ours, const char *name, double scale)
{
    const ls_tensor x = tensor(m, ours);
    const ls_weight *want = golden_get(golden, "f64.%s", name);
    if (scale == 0)
        scale = golden_compare(x.data, &x.type, want).largest;
    if (x.type.dtype == LS_F64) {
        golden_expect_scaled(m->what, x.data, &x.type, want, 1e-9, scale);
        return;
    }
    const ls_weight *torch = golden_get(golden, "f32.%s", name);
    double *theirs = golden_values(torch);
    const ls_type sampled = { .dtype = LS_F64, .ndim = 1, .dims = { golden_count(torch) } };
    count(t, beside(x.data, &x.type, want, scale), beside(theirs, &sampled, want, scale));
    free(theirs);
}

static void judge(const machine *m, const char *what, const tally *t, double factor)
{
    if (!t->n)
        return;
    const double ours = sqrt(t->ours.square / t->n), torch = sqrt(t->torch.square / t->n);
    print_message("%s: %s: error %.3g (worst %.3g), PyTorch's f32 %.3g (%.3g)\n", m->what, what, ours,
                  t->ours.worst, torch, t->torch.worst);
    if (!(ours <= factor * torch))
        fail_msg("%s: %s: error %.3g, PyTorch's f32 has %.3g", m->what, what, ours, torch);
}

/* One step in detail; then evaluation by the running statistics that it left. */
static void check_step(const char *device, int isa, ls_dtype type, int threads)
{
    machine m = start(training_graph(type, NULL), device, isa, threads);
    fill(&m);
    feed(&m, "images", "images");
    feed(&m, "labels", "labels");
    set(&m, "count", 4);
    set(&m, "track", 1);
    ASSERT_OK(ls_session_run(m.session, 0, false));
    tally outputs = { 0 }, gradients = { 0 }, states = { 0 };
    compare(&m, &outputs, "logits", "logits", 0);
    compare(&m, &outputs, "loss", "loss", 0);
    for (int i = 0; i < m.plan->n_allocs; i++) {
        const char *name = m.plan->allocs[i].name;
        char in_golden[96];
        if (name && !strncmp(name, "grad.", 5)) {
            compare(&m, &gradients, name, name, golden_scalar(golden, "f64.grad_max.%s", name + 5));
        } else if (name && (ends(name, ".running_mean") || ends(name, ".running_var"))) {
            snprintf(in_golden, sizeof in_golden, "state.%s", name);
            compare(&m, &states, name, in_golden, 0);
        } else if (name && ends(name, ".num_batches_tracked")) {
            assert_int_equal(*(int64_t *)tensor(&m, name).data, 1);
        }
    }
    judge(&m, "logits and loss", &outputs, 4);
    judge(&m, "gradients", &gradients, 4);
    judge(&m, "running statistics", &states, 4);

    set(&m, "track", 0); /* a micro-batch that does not count */
    const ls_tensor before = tensor(&m, "layer4.1.bn2.running_var");
    void *copy = malloc(ls_type_bytes(&before.type));
    memcpy(copy, before.data, ls_type_bytes(&before.type));
    ASSERT_OK(ls_session_run(m.session, 0, false));
    assert_memory_equal(copy, before.data, ls_type_bytes(&before.type));
    assert_int_equal(*(int64_t *)tensor(&m, "bn1.num_batches_tracked").data, 1);
    free(copy);

    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "eval"));
    ls_graph_evaluate(g);
    ASSERT_OK(ls_resnet_build(g, &TUTORIAL, 4));
    if (type == LS_F64)
        ASSERT_OK(ls_pass_to_float(&g, LS_F64));
    machine e = start(g, device, isa, threads);
    for (int i = 0; i < e.plan->n_allocs; i++)
        if (e.plan->allocs[i].memory == LS_MEM_STATE &&
            !ends(e.plan->allocs[i].name, ".num_batches_tracked")) {
            const ls_tensor to = tensor(&e, e.plan->allocs[i].name),
                            from = tensor(&m, e.plan->allocs[i].name);
            memcpy(to.data, from.data, ls_type_bytes(&to.type));
        }
    feed(&e, "images", "images");
    feed(&e, "labels", "labels");
    set(&e, "count", 4);
    ASSERT_OK(ls_session_run(e.session, 0, false));
    tally evaluation = { 0 };
    compare(&e, &evaluation, "logits", "eval", 0);
    judge(&e, "evaluation", &evaluation, 4);
    if (!(evaluation.ours.worst <= 1e-5))
        fail_msg("%s: logits in evaluation are %.3g of the largest from PyTorch's in f64", m.what,
                 evaluation.ours.worst);
    stop(&e);
    stop(&m);
}

static void check_depth(int depth, const char *device, int isa, ls_dtype type)
{
    ls_graph *g;
    char name[16];
    snprintf(name, sizeof name, "logits%d", depth);
    ASSERT_OK(ls_graph_create(&g, name));
    const ls_resnet_config c = {
        .depth = depth, .image_size = 36, .in_channels = 3, .classes = 7, .mean = 0.5, .std = 0.5
    };
    ASSERT_OK(ls_resnet_build(g, &c, 2));
    if (type == LS_F64)
        ASSERT_OK(ls_pass_to_float(&g, LS_F64));
    machine m = start(g, device, isa, 2);
    fill(&m);
    feed(&m, "images", "colour");
    set(&m, "labels", 1);
    set(&m, "count", 2);
    set(&m, "track", 0);
    ASSERT_OK(ls_session_run(m.session, 0, false));
    tally t = { 0 };
    compare(&m, &t, "logits", name, 0);
    judge(&m, name, &t, 4);
    stop(&m);
}

static void on_ref(void **state)
{
    (void)state;
    check_step("ref", -1, LS_F64, 2);
    check_depth(34, "ref", -1, LS_F64);
    check_depth(50, "ref", -1, LS_F64);
}

static void on_cpu(void **state)
{
    (void)state;
    for (int isa = next_level(-1); isa < LS_ISA_COUNT; isa = next_level(isa)) {
        check_step("cpu", isa, LS_F32, 2);
        check_depth(50, "cpu", isa, LS_F32);
    }
}

/* The same bits with any number of threads, and when blocks are computed again; running statistics then still
 * advance once. */
static void same_bits(void **state)
{
    (void)state;
    static const struct {
        int threads;
        const char *recompute;
    } WAYS[] = { { 1, NULL }, { 2, NULL }, { 3, "BasicBlock" } };
    for (int isa = next_level(-1); isa < LS_ISA_COUNT; isa = next_level(isa)) {
        machine m[3];
        for (int k = 0; k < 3; k++) {
            m[k] = start(training_graph(LS_F32, WAYS[k].recompute), "cpu", isa, WAYS[k].threads);
            fill(&m[k]);
            feed(&m[k], "images", "images");
            feed(&m[k], "labels", "labels");
            set(&m[k], "count", 4);
            set(&m[k], "track", 1);
            ASSERT_OK(ls_session_run(m[k].session, 0, false));
        }
        assert_int_equal(*(int64_t *)tensor(&m[2], "layer3.1.bn1.num_batches_tracked").data, 1);
        for (int i = 0; i < m[0].plan->n_allocs; i++)
            for (int k = 1; k < 3 && m[0].plan->allocs[i].name; k++) {
                const char *name = m[0].plan->allocs[i].name;
                const ls_tensor a = tensor(&m[0], name), b = tensor(&m[k], name);
                if (memcmp(a.data, b.data, ls_type_bytes(&a.type)))
                    fail_msg("%s%s: %s has other bits than with one thread", m[k].what,
                             WAYS[k].recompute ? ", recompute" : "", name);
            }
        for (int k = 0; k < 3; k++)
            stop(&m[k]);
    }
}

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
        ls_type t = golden_get(golden, "%s.%s", c->name, c->operands[n])->type;
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
    machine m = start(g, device, isa, 2);
    for (int k = 0; k < n; k++) {
        snprintf(name, sizeof name, "%s.%s", c->name, c->operands[k]);
        feed(&m, c->operands[k], name);
    }
    snprintf(name, sizeof name, "%s.dy", c->name);
    feed(&m, "dy", name);
    const bool norm = !strncmp(c->name, "batch_norm", 10), training = !strcmp(c->name, "batch_norm");
    for (int k = 0; norm && k < 2; k++) {
        snprintf(name, sizeof name, "%s.%s", c->name, k ? "variance" : "mean");
        feed(&m, k ? "variance" : "mean", name);
    }
    if (training)
        set(&m, "tracked", 41);
    ASSERT_OK(ls_session_run(m.session, 0, false));
    if (training)
        assert_int_equal(*(int64_t *)tensor(&m, "tracked").data, 42);
    static const char *const WANT[] = { "y", "dx", "dw", "db", "dgain", "dbias" };
    for (size_t k = 0; k < sizeof WANT / sizeof *WANT; k++)
        if (golden_has(golden, "%s.%s", c->name, WANT[k])) {
            ls_tensor t = tensor(&m, WANT[k]);
            golden_expect(m.what, t.data, &t.type, golden_get(golden, "%s.%s", c->name, WANT[k]), tolerance);
        }
    for (int k = 0; norm && k < 2; k++) {
        ls_tensor t = tensor(&m, k ? "variance" : "mean");
        golden_expect(m.what, t.data, &t.type,
                      golden_get(golden, "%s.%s_after", c->name, k ? "variance" : "mean"), tolerance);
    }
    stop(&m);
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
        cmocka_unit_test(on_ref),
        cmocka_unit_test(on_cpu),
        cmocka_unit_test(same_bits),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
