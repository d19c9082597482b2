/* test_decoder.c - small Qwen2 and Llama against Hugging Face's, computed in float64: logits, loss and every
 * gradient, on ref in f64 and on cpu in f32 at every level, as built and after the passes of a training step;
 * and five steps of a trainer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "golden/training.h"
#include "passes/autodiff.h"
#include "passes/passes.h"
#include "plan/plan.h"
#include "execute/session.h"

enum { BATCH = 3, TOKENS = 9, COUNTED = BATCH * TOKENS - 5, MAX_PARAMETERS = 64 };
#define SMALL                                                                                           \
    .seq_length = TOKENS, .vocab_size = 37, .hidden_size = 24, .mlp_size = 40, .layers = 2, .heads = 4, \
    .init_deviation = 0.02
static const ls_decoder_config qwen2 = { SMALL,
                                         .kv_heads = 2,
                                         .head_dim = 6,
                                         .norm_eps = 1e-6,
                                         .rope_theta = 1e6,
                                         .tied = true,
                                         .qkv_bias = true,
                                         .block = "Qwen2DecoderLayer" };
static const ls_decoder_config llama = {
    SMALL, .kv_heads = 1, .head_dim = 8, .norm_eps = 1e-5, .rope_theta = 1e4, .block = "LlamaDecoderLayer"
};

/* The model with its gradients as outputs "grad.NAME"; with the passes of a training step if `fused`. */
static void build(ls_graph **g, const ls_decoder_config *c, ls_dtype type, bool fused)
{
    ls_value parameters[MAX_PARAMETERS], gradients[MAX_PARAMETERS];
    const char *names[MAX_PARAMETERS];
    int n = 0;
    ASSERT_OK(ls_graph_create(g, "decoder"));
    ASSERT_OK(ls_decoder_build(*g, c, BATCH));
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

static void put(ls_session *s, const char *name, const ls_weight *from)
{
    ls_tensor t;
    ASSERT_OK(ls_session_tensor(s, name, &t));
    int32_t *all = golden_values_as(from, LS_I32);
    memcpy(t.data, all, ls_type_bytes(&t.type));
    free(all);
}

static void expect(const char *what, ls_session *s, const char *output, const ls_weight *want,
                   double tolerance, double scale)
{
    ls_tensor t;
    ASSERT_OK(ls_session_tensor(s, output, &t));
    assert_true(ls_tensor_is_contiguous(&t));
    golden_expect_scaled(what, t.data, &t.type, want, tolerance, scale);
}

static void check(const ls_weights *golden, const char *name, const ls_decoder_config *c, const ls_device *d,
                  bool fused, ls_dtype type, double tolerance)
{
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
    put(s, "ids", golden_get(golden, "ids"));
    put(s, "targets", golden_get(golden, "targets"));
    ASSERT_OK(ls_session_tensor(s, "count", &t));
    if (type == LS_F64)
        *(double *)t.data = COUNTED;
    else
        *(float *)t.data = COUNTED;
    ASSERT_OK(ls_session_run(s, 0, false));

    char what[96];
    int n = 0;
    snprintf(what, sizeof what, "%s, %s %s, %d threads%s", name, d->ops->name, ls_isa_name(d->isa),
             d->threads, fused ? ", fused" : "");
    const ls_weight *logits = golden_get(golden, "%s.logits", name);
    ASSERT_OK(ls_session_tensor(s, "logits", &t));
    golden_expect(what, t.data, &t.type, logits, tolerance);
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
    assert_int_equal(n, c == &qwen2 ? 2 + 2 * 12 : 3 + 2 * 9); /* Hugging Face has as many */
    ls_session_destroy(&s);
    ls_plan_destroy(&p);
    ls_graph_destroy(&g);
}

static void both(const ls_weights *golden, const ls_device *d, bool fused, ls_dtype type, double tolerance)
{
    check(golden, "qwen2", &qwen2, d, fused, type, tolerance);
    check(golden, "llama", &llama, d, fused, type, tolerance);
}

static void logits_loss_and_gradients(void **state)
{
    (void)state;
    ls_weights *golden = golden_open("decoder");
    for (int fused = 0; fused < 2; fused++) {
        ls_device d;
        ASSERT_OK(ls_device_open(&d, "ref", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
        both(golden, &d, fused, LS_F64, 1e-12);
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

static ls_status build_decoder(ls_graph *g, const void *config, int64_t batch)
{
    return ls_decoder_build(g, config, batch);
}

/* Losses of five steps of AdamW, three sequences each. */
static void five_steps(const ls_weights *golden, const char *name, const ls_decoder_config *c,
                       const ls_trainer_opts *o, double tolerance, double *losses)
{
    int32_t *ids = golden_values_as(golden_get(golden, "ids"), LS_I32),
            *targets = golden_values_as(golden_get(golden, "targets"), LS_I32);
    ls_trainer *t = training_start(build_decoder, c, o);
    for (int k = 0; k < 5; k++) {
        const int32_t *of_step = targets + k * BATCH * TOKENS;
        int64_t count = 0;
        for (int i = 0; i < BATCH * TOKENS; i++)
            count += of_step[i] != -100;
        assert_int_equal(count, k ? BATCH * TOKENS : COUNTED);
        ls_step_result r;
        ASSERT_OK(ls_trainer_step(t, ids + k * BATCH * TOKENS, of_step, count, 1e-3, &r));
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
    ls_weights *golden = golden_open("decoder");
    static const struct {
        const char *name;
        const ls_decoder_config *c;
    } models[] = { { "qwen2", &qwen2 }, { "llama", &llama } };
    double truth[5], first[5], losses[5];
    for (int m = 0; m < 2; m++) {
        const char *name = models[m].name;
        const ls_decoder_config *c = models[m].c;
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
            o.recompute = c->block;
            o.parallel.units = m ? "class:LlamaDecoderLayer" : "class:Qwen2DecoderLayer";
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

/* An id that the vocabulary has not cannot come from the loader; it stops the step, with the op's name. */
static void unknown_ids(void **state)
{
    (void)state;
    int32_t ids[TOKENS] = { 1, 2, 37 }, targets[TOKENS] = { 0 };
    ls_step_result r;
    ls_trainer *t = training_start(build_decoder, &llama,
                                   &(ls_trainer_opts){ LS_TRAINER_DEFAULTS, .threads = 1, .micro_batch = 1 });
    ASSERT_FAILS(ls_trainer_step(t, ids, targets, TOKENS, 1e-3, &r), LS_E_NUMERIC, "embedding");
    ls_trainer_destroy(&t);
}

/* What cannot be is refused with the numbers. */
static void refused(void **state)
{
    (void)state;
    ls_decoder_config odd = qwen2, heads = qwen2;
    odd.head_dim = 5;
    heads.kv_heads = 3;
    const struct {
        const ls_decoder_config *c;
        const char *says;
    } cases[] = { { &odd, "head_dim 5 must be even" }, { &heads, "heads 4 is no multiple of kv_heads 3" } };
    for (int i = 0; i < 2; i++) {
        ls_graph *g;
        ASSERT_OK(ls_graph_create(&g, "decoder"));
        assert_int_equal(ls_decoder_build(g, cases[i].c, 1), LS_E_SHAPE);
        assert_non_null(strstr(ls_error_message(), cases[i].says));
        ls_graph_destroy(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(logits_loss_and_gradients),
                                        cmocka_unit_test(trainer_steps), cmocka_unit_test(unknown_ids),
                                        cmocka_unit_test(refused) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
