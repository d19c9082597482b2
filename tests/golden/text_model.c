/* text_model.c - see text_model.h. */
#include "golden/text_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden/training.h"
#include "golden/values.h"
#include "ops/rules.h"
#include "passes/autodiff.h"
#include "passes/passes.h"
#include "support/levels.h"
#include "support/lowered.h"

enum { MAX_PARAMETERS = 80 };

/* The model with its gradients as outputs "grad.NAME"; with the passes of a training step if `fused`. */
static ls_graph *build(const text_model *m, const void *config, ls_dtype type, bool fused)
{
    ls_value parameters[MAX_PARAMETERS], gradients[MAX_PARAMETERS];
    const char *names[MAX_PARAMETERS];
    ls_graph *g;
    int n = 0;
    ASSERT_OK(ls_graph_create(&g, m->golden));
    ASSERT_OK(m->build(g, config, m->batch));
    lowered(g, m->batch);
    if (type == LS_F64)
        ASSERT_OK(ls_pass_to_float(&g, LS_F64));
    ls_value loss = LS_NONE;
    for (int i = 0; i < g->n_outputs; i++)
        if (!strcmp(g->outputs[i].name, "loss"))
            loss = g->outputs[i].value;
    for (int i = 0; i < g->n_nodes; i++)
        if (!strcmp(g->nodes[i]->op->name, "param")) {
            assert_true(n < MAX_PARAMETERS);
            names[n] = ((const ls_source_attrs *)g->nodes[i]->attrs)->name;
            parameters[n++] = g->nodes[i]->out[0];
        }
    g->phase = LS_PHASE_BACKWARD;
    ASSERT_OK(ls_backward(g, loss, ls_fill(g, LS_SCALAR(type), 1.0), n, parameters, gradients));
    for (int i = 0; i < n; i++)
        ls_output(g, ls_arena_printf(&g->arena, "grad.%s", names[i]), gradients[i]);
    ASSERT_OK(ls_graph_finish(g));
    if (fused) {
        ASSERT_OK(ls_pass_cse(&g));
        ASSERT_OK(ls_pass_fuse(&g));
        ASSERT_OK(ls_pass_dce(&g));
    }
    return g;
}

/* "NAME" of the output "grad.NAME"; NULL: the output is not a gradient. */
static const char *parameter_of(const char *output)
{
    return strncmp(output, "grad.", strlen("grad.")) ? NULL : output + strlen("grad.");
}

static int64_t count_targets(const text_model *m, const int32_t *targets)
{
    int64_t n = 0;
    for (int64_t i = 0; i < m->batch * m->targets; i++)
        n += targets[i] != -100;
    return n;
}

static void fill(const text_model *m, const ls_weights *golden, const ls_graph *g, ls_session *s)
{
    int32_t *ids = golden_values_as(golden_get(golden, "ids"), LS_I32),
            *targets = golden_values_as(golden_get(golden, "targets"), LS_I32);
    for (int i = 0; i < g->n_outputs; i++) {
        const char *parameter = parameter_of(g->outputs[i].name);
        if (parameter)
            golden_put_parameter(s, parameter);
    }
    value_put(s, "ids", ids, sizeof *ids * (size_t)(m->batch * m->source));
    value_put(s, "targets", targets, sizeof *targets * (size_t)(m->batch * m->targets));
    bool balanced = false;
    for (int i = 0; i < g->n_nodes; i++)
        balanced = balanced ||
                   (g->nodes[i]->op == &ls_op_input &&
                    !strcmp(((const ls_source_attrs *)g->nodes[i]->attrs)->name, "balance, divisor"));
    value_fill(s, balanced ? "cross_entropy, divisor" : "loss, divisor", (double)count_targets(m, targets));
    if (balanced) {
        const int32_t real = (int32_t)m->batch;
        ls_place p;
        value_fill(s, "balance, divisor", (double)m->batch);
        ASSERT_OK(ls_session_place_of(s, (ls_identity){ .what = LS_IS_REAL }, "real", &p));
        ASSERT_OK(ls_session_write(&p, &real, sizeof real));
    }
    free(ids);
    free(targets);
}

static void check(const text_model *m, const text_case *c, const ls_weights *golden, const ls_device *d,
                  bool fused, ls_dtype type, double tolerance)
{
    ls_graph *g = build(m, c->config, type, fused);
    ls_plan *p;
    ls_session *s;
    char what[96];
    int n = 0;
    ASSERT_OK(ls_plan_create(&p, g, d, NULL));
    ASSERT_OK(ls_session_create(&s, 1, &p, NULL));
    fill(m, golden, g, s);
    ASSERT_OK(ls_session_run(s, 0, false));
    snprintf(what, sizeof what, "%s, %s %s, %d threads%s", c->name, d->ops->name, d->arch->name, d->threads,
             fused ? ", fused" : "");
    golden_expect_value(what, s, "logits", golden_get(golden, "%s.logits", c->name), tolerance);
    golden_expect_value_scaled(what, s, "loss", golden_get(golden, "%s.loss", c->name), tolerance,
                               golden_scalar(golden, "%s.loss", c->name));
    for (int i = 0; i < g->n_outputs; i++) {
        const char *gradient = g->outputs[i].name, *parameter = parameter_of(gradient);
        if (!parameter)
            continue;
        golden_expect_value_scaled(what, s, gradient, golden_get(golden, "%s.%s", c->name, gradient),
                                   tolerance, golden_scalar(golden, "%s.grad_max.%s", c->name, parameter));
        n++;
    }
    assert_int_equal(n, c->parameters);
    ls_session_destroy(&s);
    ls_plan_destroy(&p);
    ls_graph_destroy(&g);
}

void text_model_gradients(const text_model *m, int n, const text_case *cases, double tolerance)
{
    ls_weights *golden = golden_open(m->golden);
    for (int fused = 0; fused < 2; fused++) {
        ls_device d;
        ASSERT_OK(ls_device_open(&d, "ref", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
        for (int i = 0; i < n; i++)
            check(m, &cases[i], golden, &d, fused, LS_F64, tolerance);
        for (int isa = next_level(-1); isa < LS_ISA_COUNT; isa = next_level(isa)) {
            ASSERT_OK(ls_device_open(
                &d, "cpu",
                &(ls_device_opts){ LS_DEVICE_DEFAULTS, .isa = level_name(isa), .threads = 1 + fused }));
            for (int i = 0; i < n; i++)
                check(m, &cases[i], golden, &d, fused, LS_F32, 1e-5);
        }
    }
    ls_weights_close(&golden);
}

static void five_steps(const text_model *m, const text_case *c, const ls_weights *golden,
                       const ls_trainer_opts *o, double tolerance, double losses[5])
{
    int32_t *ids = golden_values_as(golden_get(golden, "ids"), LS_I32),
            *targets = golden_values_as(golden_get(golden, "targets"), LS_I32);
    ls_trainer *t = training_start(m->build, c->config, o);
    for (int k = 0; k < 5; k++) {
        const int32_t *of_step = targets + k * m->batch * m->targets;
        ls_step_result r;
        ASSERT_OK(
            ls_trainer_step(t, ids + k * m->batch * m->source, of_step, count_targets(m, of_step), 1e-3, &r));
        assert_false(r.skipped);
        losses[k] = r.loss;
    }
    training_expect_losses(training_describe(o), losses, 5, golden_get(golden, "%s.losses", c->name),
                           tolerance);
    ls_trainer_destroy(&t);
    free(ids);
    free(targets);
}

#define ADAMW .optimizer = { LS_OPTIMIZER_DEFAULTS, .kind = LS_ADAMW, .weight_decay = 0.1 }
static void check_steps(const text_model *m, const text_case *c, const ls_weights *golden)
{
    double truth[5], first[5], losses[5];
    char units[64];
    snprintf(units, sizeof units, "class:%s", c->block);
    five_steps(m, c, golden,
               &(ls_trainer_opts){ LS_TRAINER_DEFAULTS, ADAMW, .device = "ref", .param = LS_F64,
                                   .micro_batch = m->batch },
               1e-10, truth);
    for (int isa = next_level(-1); isa < LS_ISA_COUNT; isa = next_level(isa)) {
        if (isa && training_elsewhere())
            break;
        ls_trainer_opts o = { LS_TRAINER_DEFAULTS,    ADAMW,
                              .isa = level_name(isa), .threads = 1,
                              .micro_batch = 1,       .micro_batches = m->batch };
        /* Adam's first steps follow the signs of tiny gradients */
        five_steps(m, c, golden, &o, 2e-5, first);
        o.threads = 2;
        o.recompute = units;
        o.parallel.units = units;
        five_steps(m, c, golden, &o, 2e-5, losses);
        assert_memory_equal(losses, first, sizeof losses); /* the same bits */
        o.param = LS_BF16;                                 /* 8 bits of each activation */
        five_steps(m, c, golden, &o, 0.02, losses);
        o.param = LS_F16;
        o.scaler.init = 4096; /* with more, gradients of Gemma overflow, and steps are skipped */
        five_steps(m, c, golden, &o, 0.01, losses); /* Gemma: 0.008 */
    }
}

void text_model_steps(const text_model *m, int n, const text_case *cases)
{
    ls_weights *golden = golden_open(m->golden);
    for (int i = 0; i < n; i++)
        check_steps(m, &cases[i], golden);
    ls_weights_close(&golden);
}
