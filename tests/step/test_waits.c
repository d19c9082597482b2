/* test_waits.c - how often the host waits for its device: once a step, an evaluation batch, a batch of
 * predictions, a prompt and a token, whatever the step has: micro-batches, clipping, f16, batch norm,
 * dropout, several losses, averages, ranks. A read in between adds a wait, during which an accelerator is
 * idle. On a device whose memory is its own, and whose queues run late, the numbers are the same bits. Ranks
 * are threads. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generate/generator_own.h"
#include "golden/training.h"
#include "lockstep/nn.h"
#include "step/evaluate.h"
#include "step/predictor.h"
#include "step/trainer.h"
#include "support/ranks.h"
#include "support/support.h"

enum { IN = 6, HIDDEN = 8, OUT = 4, ROWS = 4, STEPS = 3, SAMPLES = 22, MOST = 4 };

typedef struct model {
    bool norm, dropout, two_losses;
} model;

static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    const model *m = config;
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, batch, IN)),
             y = ls_input(g, "y", LS_TYPE(LS_F32, batch, OUT));
    ls_value h = ls_linear(g, "in", x, HIDDEN);
    if (m->norm)
        h = ls_batch_norm(g, "bn", h, .track = ls_graph_is_evaluation(g) ? LS_NONE : ls_track(g));
    if (m->dropout)
        h = ls_dropout(g, "drop", h, 0.5);
    ls_value out = ls_linear(g, "out", ls_tanh(g, h), OUT);
    ls_output(g, "out", out);
    ls_output(g, "h", h);
    ls_wide_begin(g);
    ls_loss(g, "mse", ls_square(g, ls_sub(g, out, y)), 1, LS_BY_ELEMENT, NULL);
    if (m->two_losses)
        ls_loss(g, "small", ls_square(g, out), 0.1, LS_BY_ELEMENT, NULL);
    ls_wide_end(g);
    return ls_graph_finish(g);
}

static const struct {
    const char *what;
    model model;
    int64_t micro_batches; /* of each rank */
    double clip, ema;
    ls_dtype param;
    bool wide; /* samples in f64 */
    ls_accumulation how;
} CASES[] = {
    { "one micro-batch", .micro_batches = 1, .param = LS_F32 },
    { "four", .micro_batches = 4, .param = LS_F32 },
    { "a running sum", .micro_batches = 3, .param = LS_F32, .how = LS_SUM_RUNNING },
    { "clipping", .micro_batches = 1, .clip = 1, .param = LS_F32 },
    { "f16", .micro_batches = 1, .clip = 1, .param = LS_F16 },
    { "f16 of four", .micro_batches = 4, .param = LS_F16 },
    { "bf16", .micro_batches = 1, .param = LS_BF16 },
    { "batch norm", { .norm = true }, .micro_batches = 4, .param = LS_F32 },
    { "dropout", { .dropout = true }, .micro_batches = 4, .param = LS_F32 },
    { "samples in f64", .micro_batches = 4, .param = LS_F32, .wide = true },
    { "all", { true, true, true }, .micro_batches = 4, .clip = 1, .ema = 0.9, .param = LS_BF16 },
};
enum { CASES_N = sizeof CASES / sizeof CASES[0] };

static ls_status read_sample(const ls_dataset *set, int64_t i, void *const *to)
{
    for (int k = 0; k < IN; k++) {
        const double x = sin((double)(i * 7 + k * 3));
        if (set->fields[0].type.dtype == LS_F64)
            ((double *)to[0])[k] = x;
        else
            ((float *)to[0])[k] = (float)x;
    }
    for (int k = 0; k < OUT; k++)
        ((float *)to[1])[k] = (float)((i + k) % 5);
    return LS_OK;
}

static const ls_field FIELDS[2][2] = {
    { { .name = "x", .type = { LS_F32, 1, { IN } } }, { .name = "y", .type = { LS_F32, 1, { OUT } } } },
    { { .name = "x", .type = { LS_F64, 1, { IN } } }, { .name = "y", .type = { LS_F32, 1, { OUT } } } }
};

static ls_dataset data_set(bool wide)
{
    return (ls_dataset){ .name = "test",
                         .source = "test",
                         .split = LS_SPLIT_TRAIN,
                         .n = SAMPLES,
                         .n_fields = 2,
                         .fields = FIELDS[wide],
                         .read = read_sample };
}

typedef struct job {
    int number, ranks;
    ls_data_parallel data;
    const char *device;
    double loss[STEPS], norm[STEPS], evaluated; /* of rank 0 */
} job;

/* One wait a step, also of a step that is skipped. */
static ls_status steps(ls_group *g, ls_trainer *t, job *j)
{
    float x[MOST * ROWS * IN], y[MOST * ROWS * OUT];
    double wide[MOST * ROWS * IN];
    const int64_t n = CASES[j->number].micro_batches * ROWS;
    for (int step = 0; step < STEPS; step++) {
        ls_step_result r;
        for (int64_t i = 0; i < n * IN; i++)
            x[i] = (float)(wide[i] = sin((double)(i + step + 100 * ls_group_rank(g))));
        for (int64_t i = 0; i < n * OUT; i++)
            y[i] = (float)((i + ls_group_rank(g)) % 3);
        if (step == STEPS - 1 && ls_group_rank(g) == 0)
            y[0] = 1e30f;
        const bool f64 = CASES[j->number].wide;
        ls_fed fed[] = { { f64 ? (void *)wide : x, f64 ? LS_F64 : LS_F32, -1 }, { y, LS_F32, -1 } };
        for (int i = 0; i < t->n_fields; i++)
            t->fed[i] = fed[!strcmp(t->fields[i].name, "y")];
        const int64_t before = ls_session_waits(t->session);
        LS_TRY(ls_trainer_step_fed(t, n * j->ranks, 1e-2, &r));
        RANK_CHECK(r.skip == (step == STEPS - 1 ? LS_SKIP_LOSS : LS_SKIP_NONE));
        if (ls_group_rank(g) == 0) {
            j->loss[step] = r.loss;
            j->norm[step] = r.grad_norm;
        }
        if (step > 0) /* the first one also rounds the weights, between enter and leave */
            RANK_CHECK(ls_session_waits(t->session) - before == 1);
    }
    return LS_OK;
}

/* One wait a batch, besides what an evaluation takes as a whole: sharing the buffers of several ranks, and
 * rounding weights. */
static ls_status evaluation(ls_group *g, ls_trainer *t, job *j)
{
    const ls_dataset set = data_set(CASES[j->number].wide);
    ls_eval_result e;
    int64_t waits[2];
    for (int i = 0; i < 2; i++) {
        const int64_t before = ls_session_waits(t->session);
        LS_TRY(ls_evaluate(t, &set, NULL, NULL, &e));
        ls_eval_result_release(&e); /* its plain numbers stay */
        waits[i] = ls_session_waits(t->session) - before;
    }
    const int64_t batches = (SAMPLES + ROWS * j->ranks - 1) / (ROWS * j->ranks);
    RANK_CHECK(waits[1] == batches && waits[0] <= batches + 2);
    if (ls_group_rank(g) == 0)
        j->evaluated = e.loss;
    return LS_OK;
}

static ls_status rank(ls_group *g, void *context)
{
    job *j = context;
    ls_trainer_opts o = { LS_TRAINER_DEFAULTS,
                          .device = j->device,
                          .threads = 1,
                          .micro_batch = ROWS,
                          .micro_batches = CASES[j->number].micro_batches * j->ranks,
                          .clip_norm = CASES[j->number].clip,
                          .ema_decay = CASES[j->number].ema,
                          .param = CASES[j->number].param,
                          .accumulation = CASES[j->number].how,
                          .nonfinite = LS_NONFINITE_SKIP,
                          .padding = !CASES[j->number].model.norm,
                          .group = g };
    ls_trainer *t;
    o.scaler.init = 1;
    o.parallel.mesh = (ls_mesh){ .n = 1, .axes = { { "dp", j->ranks } } };
    o.parallel.rank = ls_group_rank(g);
    o.parallel.data = j->data;
    LS_TRY(ls_trainer_create_with(&t, build, &CASES[j->number].model, &o));
    LS_TRY(ls_trainer_init(t, 3));
    LS_TRY(steps(g, t, j));
    LS_TRY(evaluation(g, t, j));
    ls_trainer_destroy(&t);
    return LS_OK;
}

static void steps_and_evaluations(void **state)
{
    static const struct {
        int ranks;
        ls_data_parallel data;
    } LAYOUTS[] = { { 1, LS_DATA_FSDP }, { 2, LS_DATA_FSDP }, { 2, LS_DATA_DDP } };
    (void)state;
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < CASES_N; i++) {
            job cpu = { .number = i, .ranks = LAYOUTS[k].ranks, .data = LAYOUTS[k].data, .device = "cpu" };
            job apart = cpu;
            apart.device = "emulated";
            for (int d = 0; d < 2; d++)
                if (run_ranks(cpu.ranks, rank, d ? &apart : &cpu) != LS_OK)
                    fail_msg("%s, layout %d, %s: %s", CASES[i].what, k, d ? "emulated" : "cpu",
                             ls_error_message());
            if (memcmp(cpu.loss, apart.loss, sizeof cpu.loss) ||
                memcmp(cpu.norm, apart.norm, sizeof cpu.norm) || cpu.evaluated != apart.evaluated)
                fail_msg("%s, layout %d: other numbers on device emulated: %.17g %.17g, cpu %.17g %.17g",
                         CASES[i].what, k, apart.loss[1], apart.evaluated, cpu.loss[1], cpu.evaluated);
        }
}

/* A call of ls_trainer_eval, whatever it is asked for. */
static void evaluations_of_a_batch(void **state)
{
    (void)state;
    static const ls_mlp_config MLP = {
        .image_size = 2, .in_channels = 1, .classes = 3, .n_hidden = 1, .hidden = { 4 }, .mean = 0, .std = 1
    };
    ls_trainer *t;
    float loss[ROWS], probability[ROWS * 3];
    int32_t predicted[ROWS];
    ASSERT_OK(ls_trainer_create(&t, training_build_mlp, &MLP, .threads = 1, .micro_batch = ROWS,
                                .eval_only = true));
    ASSERT_OK(ls_trainer_init(t, 3));
    for (int ask = 0; ask < 8; ask++) {
        const int64_t before = ls_session_waits(t->session);
        ASSERT_OK(ls_trainer_eval(t, (uint8_t[ROWS * 4]){ 1 }, (int32_t[ROWS]){ 1 }, ask & 1 ? loss : NULL,
                                  ask & 2 ? predicted : NULL, ask & 4 ? probability : NULL));
        assert_int_equal(ls_session_waits(t->session) - before, 1);
    }
    ls_trainer_destroy(&t);
}

static void predictions(void **state)
{
    (void)state;
    const model m = { .norm = true };
    static float x[5 * ROWS * IN];
    ls_trainer *t;
    ls_predictor *p;
    ASSERT_OK(ls_trainer_create(&t, build, &m, .threads = 1, .micro_batch = ROWS));
    ASSERT_OK(ls_trainer_init(t, 3));
    ASSERT_OK(ls_predictor_of(&p, t, .outputs = "out h"));
    for (int n = 1; n <= 5 * ROWS; n += 9) {
        const ls_tensor tx = ls_tensor_of(x, &LS_TYPE(LS_F32, n, IN));
        ASSERT_OK(ls_predictor_put(p, "x", &tx));
        const int64_t before = ls_session_waits(ls_predictor_session(p));
        ASSERT_OK(ls_predictor_run(p, n));
        assert_int_equal(ls_session_waits(ls_predictor_session(p)) - before, (n + ROWS - 1) / ROWS);
    }
    ls_predictor_destroy(&p);
    ls_trainer_destroy(&t);
}

enum { VOCABULARY = 37, SOURCE = 20, TARGET = 30 };

static ls_status build_t5(ls_graph *g, const void *config, int64_t batch)
{
    return ls_t5_build(g, config, batch);
}

/* A T5: its source waits for nothing, and each token once. */
static void tokens(void **state)
{
    (void)state;
    const ls_t5_config config = { .source_length = SOURCE,
                                  .target_length = TARGET,
                                  .vocab_size = VOCABULARY,
                                  .hidden_size = 24,
                                  .mlp_size = 40,
                                  .layers = 1,
                                  .decoder_layers = 1,
                                  .heads = 3,
                                  .head_dim = 10,
                                  .buckets = 8,
                                  .max_distance = 20,
                                  .norm_eps = 1e-6,
                                  .init_factor = 1,
                                  .tied = true,
                                  .start_token = 3 };
    const char *path = ls_test_path("model.safetensors");
    ls_trainer *t;
    ls_weights *w;
    ls_generator *g;
    const float *logits;
    ASSERT_OK(ls_trainer_create(&t, build_t5, &config, .threads = 1, .micro_batch = 1, .eval_only = true));
    ASSERT_OK(ls_trainer_init(t, 7));
    ASSERT_OK(ls_trainer_save(t, path));
    ls_trainer_destroy(&t);
    ASSERT_OK(ls_weights_open(&w, path));
    ASSERT_OK(ls_generator_create_t5(&g, &config, w, .threads = 1));
    int64_t before = ls_session_waits(g->session);
    ASSERT_OK(ls_generator_read(g, (int32_t[]){ 4, 5, 6 }, 3));
    assert_int_equal(ls_session_waits(g->session), before);
    for (int i = 0; i < 5; i++)
        ASSERT_OK(ls_generator_feed(g, &(int32_t){ 3 + i }, 1, &logits));
    assert_int_equal(ls_session_waits(g->session) - before, 5);
    /* three tokens are three runs of `decode`, which are waited for together */
    before = ls_session_waits(g->session);
    ASSERT_OK(ls_generator_feed(g, (int32_t[]){ 7, 8, 9 }, 3, &logits));
    assert_int_equal(ls_session_waits(g->session) - before, 1);
    ls_generator_destroy(&g);
    ls_weights_close(&w);
}

int main(void)
{
    setenv("LOCKSTEP_EMULATED", "seed=5,delay=20us", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_and_evaluations),
        cmocka_unit_test(evaluations_of_a_batch),
        cmocka_unit_test(predictions),
        cmocka_unit_test(tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
