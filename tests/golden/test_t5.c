/* test_t5.c - small T5s against Hugging Face's, computed in float64: logits, loss and every gradient, on ref
 * in f64 and on cpu in f32 at every level, as built and after the passes of a training step; five steps of a
 * trainer; and the bucket of every distance. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "device/position.h"
#include "golden/training.h"
#include "passes/autodiff.h"
#include "passes/passes.h"
#include "plan/plan.h"
#include "execute/session.h"

enum { BATCH = 3, SOURCE = 13, TARGET = 7, MAX_PARAMETERS = 80 };
#define SMALL                                                                                              \
    .source_length = SOURCE, .target_length = TARGET, .vocab_size = 37, .hidden_size = 24, .mlp_size = 40, \
    .layers = 2, .buckets = 8, .max_distance = 10, .init_factor = 1, .start_token = 3
static const ls_t5_config relu = { SMALL,         .decoder_layers = 3, .heads = 4,
                                   .head_dim = 6, .norm_eps = 1e-6,    .tied = true };
static const ls_t5_config gated = { SMALL,          .decoder_layers = 2, .heads = 3,
                                    .head_dim = 10, .norm_eps = 1e-5,    .gated = true };

static const ls_t5_config unscaled = {
    SMALL, .decoder_layers = 3, .heads = 4, .head_dim = 6, .norm_eps = 1e-6, .tied = true, .scale_output = -1
};

static int64_t counted(const int32_t *targets)
{
    int64_t n = 0;
    for (int i = 0; i < BATCH * TARGET; i++)
        n += targets[i] != -100;
    return n;
}

/* The model with its gradients as outputs "grad.NAME"; with the passes of a training step if `fused`. */
static void build(ls_graph **g, const ls_t5_config *c, ls_dtype type, bool fused)
{
    ls_value parameters[MAX_PARAMETERS], gradients[MAX_PARAMETERS];
    const char *names[MAX_PARAMETERS];
    int n = 0;
    ASSERT_OK(ls_graph_create(g, "t5"));
    ASSERT_OK(ls_t5_build(*g, c, BATCH));
    if (type == LS_F64)
        ASSERT_OK(ls_pass_to_float(g, LS_F64));
    ls_value loss = LS_NONE;
    for (int i = 0; i < (*g)->n_outputs; i++)
        if (!strcmp((*g)->outputs[i].name, "loss"))
            loss = (*g)->outputs[i].value;
    for (int i = 0; i < (*g)->n_nodes; i++)
        if (!strcmp((*g)->nodes[i]->op->name, "param")) {
            assert_true(n < MAX_PARAMETERS);
            names[n] = ((const ls_source_attrs *)(*g)->nodes[i]->attrs)->name;
            parameters[n++] = (*g)->nodes[i]->out[0];
        }
    (*g)->phase = LS_PHASE_BACKWARD;
    ASSERT_OK(ls_backward(*g, loss, ls_fill(*g, LS_SCALAR(type), 1.0), n, parameters, gradients));
    for (int i = 0; i < n; i++)
        ls_output(*g, ls_arena_printf(&(*g)->arena, "grad.%s", names[i]), gradients[i]);
    ASSERT_OK(ls_graph_finish(*g));
    if (fused) {
        ASSERT_OK(ls_pass_cse(g));
        ASSERT_OK(ls_pass_fuse(g));
        ASSERT_OK(ls_pass_dce(g));
    }
}

static void put(ls_session *s, const char *name, const void *from)
{
    ls_tensor t;
    ASSERT_OK(ls_session_tensor(s, name, &t));
    memcpy(t.data, from, ls_type_bytes(&t.type));
}

static void expect(const char *what, ls_session *s, const char *output, const ls_weight *want,
                   double tolerance, double scale)
{
    ls_tensor t;
    ASSERT_OK(ls_session_tensor(s, output, &t));
    assert_true(ls_tensor_is_contiguous(&t));
    golden_expect_scaled(what, t.data, &t.type, want, tolerance, scale);
}

static void check(const ls_weights *golden, const char *name, const ls_t5_config *c, const ls_device *d,
                  bool fused, ls_dtype type, double tolerance)
{
    int32_t *ids = golden_values_as(golden_get(golden, "ids"), LS_I32),
            *targets = golden_values_as(golden_get(golden, "targets"), LS_I32);
    ls_graph *g;
    ls_plan *p;
    ls_session *s;
    ls_tensor t;
    build(&g, c, type, fused);
    ASSERT_OK(ls_plan_create(&p, g, d, NULL));
    ASSERT_OK(ls_session_create(&s, 1, &p));
    for (int i = 0; i < g->n_outputs; i++) {
        const char *gradient = g->outputs[i].name, *parameter = gradient + strlen("grad.");
        if (strncmp(gradient, "grad.", strlen("grad.")))
            continue;
        ASSERT_OK(ls_session_tensor(s, parameter, &t));
        golden_parameter(parameter, &t.type, t.data);
    }
    put(s, "ids", ids);
    put(s, "targets", targets);
    const double count = (double)counted(targets);
    put(s, "count", type == LS_F64 ? (const void *)&count : &(float){ (float)count });
    ASSERT_OK(ls_session_run(s, 0, false));

    char what[96];
    int n = 0;
    snprintf(what, sizeof what, "%s, %s %s, %d threads%s", name, d->ops->name, ls_isa_name(d->isa),
             d->threads, fused ? ", fused" : "");
    ASSERT_OK(ls_session_tensor(s, "logits", &t));
    golden_expect(what, t.data, &t.type, golden_get(golden, "%s.logits", name), tolerance);
    expect(what, s, "loss", golden_get(golden, "%s.loss", name), tolerance,
           golden_scalar(golden, "%s.loss", name));
    for (int i = 0; i < g->n_outputs; i++) {
        const char *gradient = g->outputs[i].name;
        if (strncmp(gradient, "grad.", strlen("grad.")))
            continue;
        expect(what, s, gradient, golden_get(golden, "%s.%s", name, gradient), tolerance,
               golden_scalar(golden, "%s.grad_max.%s", name, gradient + strlen("grad.")));
        n++;
    }
    assert_int_equal(n, c->tied ? 5 + 2 * 8 + 3 * 13 : 6 + 2 * 9 + 2 * 14); /* Hugging Face has as many */
    ls_session_destroy(&s);
    ls_plan_destroy(&p);
    ls_graph_destroy(&g);
    free(ids);
    free(targets);
}

static void both(const ls_weights *golden, const ls_device *d, bool fused, ls_dtype type, double tolerance)
{
    check(golden, "relu", &relu, d, fused, type, tolerance);
    check(golden, "gated", &gated, d, fused, type, tolerance);
    check(golden, "unscaled", &unscaled, d, fused, type, tolerance);
}

static void logits_loss_and_gradients(void **state)
{
    (void)state;
    ls_weights *golden = golden_open("t5");
    for (int fused = 0; fused < 2; fused++) {
        ls_device d;
        ASSERT_OK(ls_device_open(&d, "ref", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
        both(golden, &d, fused, LS_F64, 1e-11);
        for (int isa = 0; isa <= (int)ls_isa_best(); isa++) {
            if (!ls_device_cpu.tables((ls_isa)isa))
                continue;
            ASSERT_OK(ls_device_open(
                &d, "cpu", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .isa = isa, .threads = 1 + fused }));
            both(golden, &d, fused, LS_F32, 1e-5);
        }
    }
    ls_weights_close(&golden);
}

static ls_status build_t5(ls_graph *g, const void *config, int64_t batch)
{
    return ls_t5_build(g, config, batch);
}

/* Losses of five steps of AdamW, three pairs each. */
static void five_steps(const ls_weights *golden, const char *name, const ls_t5_config *c,
                       const ls_trainer_opts *o, double tolerance, double *losses)
{
    int32_t *ids = golden_values_as(golden_get(golden, "ids"), LS_I32),
            *targets = golden_values_as(golden_get(golden, "targets"), LS_I32);
    ls_trainer *t = training_start(build_t5, c, o);
    for (int k = 0; k < 5; k++) {
        const int32_t *of_step = targets + k * BATCH * TARGET;
        ls_step_result r;
        ASSERT_OK(ls_trainer_step(t, ids + k * BATCH * SOURCE, of_step, counted(of_step), 1e-3, &r));
        losses[k] = r.loss;
    }
    training_expect_losses(training_describe(o), losses, 5, golden_get(golden, "%s.losses", name), tolerance);
    ls_trainer_destroy(&t);
    free(ids);
    free(targets);
}

#define ADAMW .optimizer = { LS_OPTIMIZER_DEFAULTS, .kind = LS_ADAMW, .weight_decay = 0.1 }
static void trainer_steps(void **state)
{
    (void)state;
    ls_weights *golden = golden_open("t5");
    double truth[5], first[5], losses[5];
    for (int m = 0; m < 2; m++) {
        const char *name = m ? "gated" : "relu";
        const ls_t5_config *c = m ? &gated : &relu;
        five_steps(golden, name, c,
                   &(ls_trainer_opts){ LS_TRAINER_DEFAULTS, ADAMW, .device = "ref", .param = LS_F64,
                                       .micro_batch = BATCH },
                   1e-10, truth);
        for (int isa = 0; isa <= (int)ls_isa_best(); isa++) {
            ls_trainer_opts o = { LS_TRAINER_DEFAULTS,   ADAMW, .isa = isa, .threads = 1, .micro_batch = 1,
                                  .micro_batches = BATCH };
            /* Adam's first steps follow the signs of tiny gradients */
            five_steps(golden, name, c, &o, 2e-5, first);
            o.threads = 2;
            o.recompute = "T5Block";
            o.parallel.units = "class:T5Block";
            five_steps(golden, name, c, &o, 2e-5, losses);
            assert_memory_equal(losses, first, sizeof losses); /* the same bits */
            o.param = LS_BF16;                                 /* 8 bits of each activation */
            five_steps(golden, name, c, &o, 0.02, losses);
            o.param = LS_F16;
            five_steps(golden, name, c, &o, 0.005, losses);
        }
    }
    ls_weights_close(&golden);
}

static void buckets(void **state)
{
    (void)state;
    ls_weights *golden = golden_open("t5");
    static const ls_position_bias_attrs tables[] = { { .buckets = 32, .max_distance = 128 },
                                                     { .buckets = 8, .max_distance = 10 },
                                                     { .buckets = 64, .max_distance = 256 },
                                                     { .buckets = 20, .max_distance = 100 } };
    for (int i = 0; i < 4; i++)
        for (int both_ways = 0; both_ways < 2; both_ways++) {
            ls_position_bias_attrs a = tables[i];
            a.both = both_ways;
            int32_t *want = golden_values_as(
                golden_get(golden, "bucket.%d.%d.%d", (int)a.buckets, (int)a.max_distance, both_ways),
                LS_I32);
            for (int d = -300; d <= 300; d++)
                if (ls_position_bucket(&a, d) != want[d + 300])
                    fail_msg("distance %d of %d buckets to %d: %d, theirs %d", d, (int)a.buckets,
                             (int)a.max_distance, (int)ls_position_bucket(&a, d), want[d + 300]);
            free(want);
        }
    ls_weights_close(&golden);
}

/* A source of nothing but padding gives numbers, not NaN; and what cannot be is refused with the numbers. */
static void edges(void **state)
{
    (void)state;
    int32_t ids[2 * SOURCE] = { 5 }, targets[2 * TARGET] = { 1, 2, 3 };
    ls_step_result r;
    ls_trainer *t = training_start(
        build_t5, &gated,
        &(ls_trainer_opts){ LS_TRAINER_DEFAULTS, .threads = 1, .micro_batch = 2, .clip_norm = 1 });
    ASSERT_OK(ls_trainer_step(t, ids, targets, 2 * TARGET, 1e-3, &r));
    assert_true(r.loss > 0 && r.loss < 100 && r.grad_norm > 0 && r.grad_norm < 1e6);
    ls_trainer_destroy(&t);
    ls_t5_config start = relu, odd = relu, near = relu;
    start.start_token = 37;
    odd.buckets = 7;
    near.max_distance = 2;
    const struct {
        const ls_t5_config *c;
        const char *says;
    } cases[] = { { &start, "start_token 37 must be ids of a vocabulary of 37" },
                  { &odd, "7 buckets do not part" },
                  { &near, "max_distance 2 is not above 2" } };
    for (int i = 0; i < 3; i++) {
        ls_graph *g;
        ASSERT_OK(ls_graph_create(&g, "t5"));
        assert_int_equal(ls_t5_build(g, cases[i].c, 1), LS_E_SHAPE);
        assert_non_null(strstr(ls_error_message(), cases[i].says));
        ls_graph_destroy(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(logits_loss_and_gradients),
                                        cmocka_unit_test(trainer_steps), cmocka_unit_test(buckets),
                                        cmocka_unit_test(edges) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
