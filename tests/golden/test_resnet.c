/* test_resnet.c - residual networks step by step against PyTorch, on ref and cpu, and the same bits with any
 * number of threads. */
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
#include "golden/resnet_golden.h"
#include "support/lowered.h"

static bool ends(const char *text, const char *end)
{
    const size_t n = strlen(text), k = strlen(end);
    return n >= k && !strcmp(text + n - k, end);
}

/* golden_parameter for 11 million elements takes longer than a step: each tensor once. They are exact in f32.
 */
static void parameter(const machine *m, const char *name)
{
    static struct {
        char name[64];
        int64_t n;
        float *x;
    } known[512];
    ls_type type;
    void *to = value_copy(m->session, name, &type);
    const int64_t n = ls_type_count(&type);
    int k = 0;
    while (known[k].x && (strcmp(known[k].name, name) || known[k].n != n))
        k++;
    assert_true(k < 511);
    if (!known[k].x) {
        ls_type f32 = type;
        f32.dtype = LS_F32;
        snprintf(known[k].name, sizeof known[k].name, "%s", name);
        known[k].n = n;
        known[k].x = malloc(sizeof(float) * (size_t)n);
        golden_parameter(name, &f32, known[k].x);
    }
    for (int64_t i = 0; i < n; i++)
        value_set_element(to, type.dtype, i, (double)known[k].x[i]);
    value_put(m->session, name, to, ls_type_bytes(&type));
    free(to);
}

/* Parameters by formula, running statistics as they begin. */
static void fill(const machine *m)
{
    for (int i = 0; i < m->plan->n_allocs; i++) {
        const char *name = m->plan->allocs[i].name;
        if (m->plan->allocs[i].memory != LS_MEM_STATE)
            continue;
        if (ends(name, ".running_mean") || ends(name, ".num_batches_tracked"))
            value_fill(m->session, name, 0);
        else if (ends(name, ".running_var"))
            value_fill(m->session, name, 1);
        else
            parameter(m, name);
    }
}

/* The step of the tutorial's model on 4 pictures: every parameter's gradient is an output. */
static ls_graph *training_graph(ls_dtype type, const char *recompute)
{
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "resnet"));
    ASSERT_OK(ls_resnet_build(g, &TUTORIAL, 4));
    lowered(g, 4);
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
    ls_type type;
    void *x = value_copy(m->session, ours, &type);
    const ls_weight *want = golden_get(resnet_values, "f64.%s", name);
    if (scale == 0)
        scale = golden_compare(x, &type, want).largest;
    if (type.dtype == LS_F64) {
        golden_expect_scaled(m->what, x, &type, want, 1e-9, scale);
        free(x);
        return;
    }
    const ls_weight *torch = golden_get(resnet_values, "f32.%s", name);
    double *theirs = golden_values(torch);
    const ls_type sampled = { .dtype = LS_F64, .ndim = 1, .dims = { golden_count(torch) } };
    count(t, beside(x, &type, want, scale), beside(theirs, &sampled, want, scale));
    free(theirs);
    free(x);
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
    machine m = start_machine(training_graph(type, NULL), device, isa, threads);
    fill(&m);
    feed_golden(&m, "images", "images");
    feed_golden(&m, "labels", "labels");
    value_fill(m.session, "loss, divisor", 4);
    value_fill(m.session, "track", 1);
    ASSERT_OK(ls_session_run(m.session, 0, false));
    tally outputs = { 0 }, gradients = { 0 }, states = { 0 };
    compare(&m, &outputs, "logits", "logits", 0);
    compare(&m, &outputs, "loss", "loss", 0);
    for (int i = 0; i < m.plan->n_allocs; i++) {
        const char *name = m.plan->allocs[i].name;
        char in_golden[96];
        if (name && !strncmp(name, "grad.", 5)) {
            compare(&m, &gradients, name, name, golden_scalar(resnet_values, "f64.grad_max.%s", name + 5));
        } else if (name && (ends(name, ".running_mean") || ends(name, ".running_var"))) {
            snprintf(in_golden, sizeof in_golden, "state.%s", name);
            compare(&m, &states, name, in_golden, 0);
        } else if (name && ends(name, ".num_batches_tracked")) {
            assert_int_equal(value_number(m.session, name, 0), 1);
        }
    }
    judge(&m, "logits and loss", &outputs, 4);
    judge(&m, "gradients", &gradients, 4);
    judge(&m, "running statistics", &states, 4);

    value_fill(m.session, "track", 0); /* a micro-batch that does not count */
    ls_type variance;
    void *before = value_copy(m.session, "layer4.1.bn2.running_var", &variance);
    ASSERT_OK(ls_session_run(m.session, 0, false));
    void *after = value_copy(m.session, "layer4.1.bn2.running_var", &variance);
    assert_memory_equal(before, after, ls_type_bytes(&variance));
    assert_int_equal(value_number(m.session, "bn1.num_batches_tracked", 0), 1);
    free(before);
    free(after);

    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "eval"));
    ls_graph_evaluate(g);
    ASSERT_OK(ls_resnet_build(g, &TUTORIAL, 4));
    lowered(g, 4);
    if (type == LS_F64)
        ASSERT_OK(ls_pass_to_float(&g, LS_F64));
    machine e = start_machine(g, device, isa, threads);
    for (int i = 0; i < e.plan->n_allocs; i++)
        if (e.plan->allocs[i].memory == LS_MEM_STATE &&
            !ends(e.plan->allocs[i].name, ".num_batches_tracked")) {
            ls_type of;
            void *x = value_copy(m.session, e.plan->allocs[i].name, &of);
            value_put(e.session, e.plan->allocs[i].name, x, ls_type_bytes(&of));
            free(x);
        }
    feed_golden(&e, "images", "images");
    feed_golden(&e, "labels", "labels");
    value_fill(e.session, "loss, divisor", 4);
    ASSERT_OK(ls_session_run(e.session, 0, false));
    tally evaluation = { 0 };
    compare(&e, &evaluation, "logits", "eval", 0);
    judge(&e, "evaluation", &evaluation, 4);
    if (!(evaluation.ours.worst <= 1e-5))
        fail_msg("%s: logits in evaluation are %.3g of the largest from PyTorch's in f64", m.what,
                 evaluation.ours.worst);
    stop_machine(&e);
    stop_machine(&m);
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
    lowered(g, 2);
    if (type == LS_F64)
        ASSERT_OK(ls_pass_to_float(&g, LS_F64));
    machine m = start_machine(g, device, isa, 2);
    fill(&m);
    feed_golden(&m, "images", "colour");
    value_fill(m.session, "labels", 1);
    value_fill(m.session, "loss, divisor", 2);
    value_fill(m.session, "track", 0);
    ASSERT_OK(ls_session_run(m.session, 0, false));
    tally t = { 0 };
    compare(&m, &t, "logits", name, 0);
    judge(&m, name, &t, 4);
    stop_machine(&m);
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
    } WAYS[] = { { 1, NULL }, { 2, NULL }, { 3, "class:BasicBlock" } };
    for (int isa = next_level(-1); isa < LS_ISA_COUNT; isa = next_level(isa)) {
        machine m[3];
        for (int k = 0; k < 3; k++) {
            m[k] = start_machine(training_graph(LS_F32, WAYS[k].recompute), "cpu", isa, WAYS[k].threads);
            fill(&m[k]);
            feed_golden(&m[k], "images", "images");
            feed_golden(&m[k], "labels", "labels");
            value_fill(m[k].session, "loss, divisor", 4);
            value_fill(m[k].session, "track", 1);
            ASSERT_OK(ls_session_run(m[k].session, 0, false));
        }
        assert_int_equal(value_number(m[2].session, "layer3.1.bn1.num_batches_tracked", 0), 1);
        for (int i = 0; i < m[0].plan->n_allocs; i++)
            for (int k = 1; k < 3 && m[0].plan->allocs[i].name; k++) {
                const char *name = m[0].plan->allocs[i].name;
                ls_type type;
                void *a = value_copy(m[0].session, name, &type), *b = value_copy(m[k].session, name, &type);
                if (memcmp(a, b, ls_type_bytes(&type)))
                    fail_msg("%s%s: %s has other bits than with one thread", m[k].what,
                             WAYS[k].recompute ? ", recompute" : "", name);
                free(a);
                free(b);
            }
        for (int k = 0; k < 3; k++)
            stop_machine(&m[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_ref),
        cmocka_unit_test(on_cpu),
        cmocka_unit_test(same_bits),
    };
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
