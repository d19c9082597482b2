/* test_scores.c - a token of a text has one log-probability, bit for bit: in training, in an evaluation, and
 * computed from the logits of a generator; alone in a row or packed among other documents; with adapters,
 * whose base has f32, bf16 or 4 bits; with windows; with the loss apart from the output layer or joined to
 * it. */
#include <stdlib.h>
#include <string.h>

#include "generate/of_recipe.h"
#include "lockstep/data.h"
#include "lockstep/nn.h"
#include "models/generation.h"
#include "ops/linear_loss.h"
#include "step/compile.h"
#include "step/compile_own.h"
#include "step/trainer.h"
#include "support/values.h"

enum { VOCABULARY = 37, TEXT = 40, BEFORE = 29, WINDOW = 96, SCORES = TEXT - 1 };

/* A way to compute. */
typedef struct way {
    ls_dtype param, output;
    bool nf4, adapters, gemma; /* gemma: windows of 8 tokens, in every second layer none */
} way;

typedef struct model {
    const way *way;
    ls_decoder_config decoder;
} model;

static const ls_lora_opts LORA = { LS_LORA_DEFAULTS, .rank = 3, .alpha = 12 };

static model model_of(const way *v, bool packed)
{
    return (model){ .way = v,
                    .decoder = { .seq_length = packed ? WINDOW : TEXT,
                                 .vocab_size = VOCABULARY,
                                 .hidden_size = 64,
                                 .mlp_size = 128,
                                 .layers = 2,
                                 .heads = 4,
                                 .kv_heads = 2,
                                 .head_dim = 16,
                                 .norm_eps = 1e-6,
                                 .rope_theta = 1e4,
                                 .init_deviation = 0.2,
                                 .tied = true,
                                 .packed = packed,
                                 .gemma = v->gemma,
                                 .head_norms = v->gemma,
                                 .window = v->gemma ? 8 : 0,
                                 .global_every = v->gemma ? 2 : 0,
                                 .local_theta = 500,
                                 .block = "Layer" } };
}

static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    const model *m = config;
    if (m->way->adapters)
        LS_TRY(ls_add_lora_with(g, &LORA));
    if (m->way->nf4)
        LS_TRY(ls_base_nf4(g));
    return ls_decoder_build(g, &m->decoder, batch);
}

/* Number i of the text, or of a document of another kind. */
static int32_t id_of(int64_t kind, int64_t i)
{
    return (int32_t)((i * i + 3 * i + 5 + 11 * kind) % VOCABULARY);
}

typedef struct row {
    int32_t ids[WINDOW], targets[WINDOW], positions[WINDOW];
    int64_t first; /* of the text */
} row;

/* The text in a row of its own, or between two documents; only the token behind its token `only` is a target,
 * or each for -1. */
static row row_of(bool packed, int64_t only)
{
    row r = { .first = packed ? BEFORE : 0 };
    for (int64_t i = 0; i < WINDOW; i++) {
        const int64_t at = i - r.first, kind = at < 0 ? 1 : at < TEXT ? 0 : 2;
        const int64_t p = kind == 0 ? at : kind == 1 ? i : at - TEXT;
        r.ids[i] = id_of(kind, p);
        r.positions[i] = (int32_t)p;
        r.targets[i] = kind == 0 && at < SCORES && (only < 0 || at == only) ? id_of(0, p + 1)
                                                                            : LS_IGNORE_LABEL;
    }
    return r;
}

static ls_trainer *trainer(const model *m)
{
    ls_trainer *t;
    const ls_trainer_opts o = { LS_TRAINER_DEFAULTS,
                                .threads = 2,
                                .micro_batch = 1,
                                .param = m->way->param,
                                .output = m->way->output,
                                .optimizer = { LS_OPTIMIZER_DEFAULTS, .kind = LS_SGD },
                                .freeze = m->way->adapters ? LS_LORA_FREEZE : "* !pattern:*norm*" };
    ASSERT_OK(ls_trainer_create_with(&t, build, m, &o));
    return t;
}

static double step(ls_trainer *t, const model *m, const row *r, double lr)
{
    const ls_type type = LS_TYPE(LS_I32, 1, m->decoder.seq_length);
    const ls_tensor ids = ls_tensor_of((void *)r->ids, &type),
                    targets = ls_tensor_of((void *)r->targets, &type),
                    positions = ls_tensor_of((void *)r->positions, &type);
    ls_step_result result;
    ASSERT_OK(ls_trainer_put(t, "ids", &ids, 0));
    ASSERT_OK(ls_trainer_put(t, "targets", &targets, 0));
    if (m->decoder.packed)
        ASSERT_OK(ls_trainer_put(t, "positions", &positions, 0));
    ASSERT_OK(ls_trainer_run(t, 1, lr, &result));
    return result.loss;
}

static double evaluate(ls_trainer *t, const model *m, const row *r)
{
    const ls_type type = LS_TYPE(LS_I32, 1, m->decoder.seq_length);
    const ls_tensor ids = ls_tensor_of((void *)r->ids, &type),
                    targets = ls_tensor_of((void *)r->targets, &type),
                    positions = ls_tensor_of((void *)r->positions, &type);
    ls_dataset *set = NULL;
    ls_metric got[4];
    int n;
    ASSERT_OK(ls_dataset_put(&set, "ids", &ids));
    ASSERT_OK(ls_dataset_put(&set, "targets", &targets));
    if (m->decoder.packed)
        ASSERT_OK(ls_dataset_put(&set, "positions", &positions));
    ASSERT_OK(ls_trainer_evaluate(t, set, got, 4, &n));
    assert_string_equal(got[0].name, "loss");
    ls_dataset_close(&set);
    return got[0].value;
}

/* Weights behind some steps, so that no adapter is zero. */
static ls_weights *weights_of(const way *v)
{
    const model m = model_of(v, false);
    const row all = row_of(false, -1);
    const char *path = ls_test_path("scores.safetensors");
    ls_weights *w;
    ls_trainer *t = trainer(&m);
    ASSERT_OK(ls_trainer_init(t, 7));
    const double first = step(t, &m, &all, 0.1);
    for (int i = 0; i < 3; i++)
        (void)step(t, &m, &all, 0.1);
    assert_true(step(t, &m, &all, 0) < 0.9 * first);
    ASSERT_OK(ls_trainer_save(t, path));
    ls_trainer_destroy(&t);
    ASSERT_OK(ls_weights_open(&w, path));
    return w;
}

/* ---- from logits */

static ls_status build_loss(ls_graph *g, const void *config, int64_t batch)
{
    (void)config;
    const ls_value logits = ls_input(g, "logits", LS_TYPE(LS_F32, batch, VOCABULARY));
    ls_output(g, "loss", ls_cross_entropy(g, logits, ls_input(g, "labels", LS_TYPE(LS_I32, batch))));
    return ls_graph_finish(g);
}

static void from_generator(const way *v, const ls_weights *w, double scores[SCORES])
{
    const model m = model_of(v, false);
    ls_generation how = ls_decoder_generation(&m.decoder);
    ls_generator *g;
    ls_device d;
    ls_plan *plan;
    ls_session *s;
    how.lora = v->adapters ? &LORA : NULL;
    how.nf4 = v->nf4;
    ASSERT_OK(ls_generator_of(
        &g, &how, w,
        &(ls_generator_opts){ LS_GENERATOR_DEFAULTS, .threads = 2, .param = v->param, .output = v->output }));
    ASSERT_OK(ls_device_open(&d, "cpu", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    ASSERT_OK(ls_compile_inference(&plan, "loss", build_loss, NULL, 1,
                                   &(ls_precision){ LS_PRECISION_DEFAULTS }, &d, NULL));
    ASSERT_OK(ls_session_create(&s, 1, &plan, NULL));
    for (int64_t i = 0; i < SCORES; i++) {
        const int32_t id = id_of(0, i), next = id_of(0, i + 1);
        const float *logits;
        ASSERT_OK(ls_generator_feed(g, &id, 1, &logits));
        value_put(s, "logits", logits, VOCABULARY * sizeof *logits);
        value_put(s, "labels", &next, sizeof next);
        ASSERT_OK(ls_session_run(s, 0, false));
        scores[i] = value_number(s, "loss", 0);
    }
    ls_session_destroy(&s);
    ls_plan_destroy(&plan);
    ls_generator_destroy(&g);
}

/* ---- from a trainer */

static bool joined(const ls_plan *p)
{
    for (int i = 0; i < p->graph->n_nodes; i++)
        if (p->graph->nodes[i]->op == &ls_op_linear_cross_entropy)
            return true;
    return false;
}

static void check_trainer(const way *v, const ls_weights *w, bool packed, bool join, const double *scores)
{
    const model m = model_of(v, packed);
    const int64_t logits = m.decoder.seq_length * VOCABULARY;
    const int64_t kept = ls_logits_at_a_time;
    ls_logits_at_a_time = join ? logits : 16 * logits + 16;
    ls_trainer *t = trainer(&m);
    ls_logits_at_a_time = kept;
    assert_true(joined(t->compiled.plans[LS_MICRO]) == join && joined(t->compiled.plans[LS_EVAL]) == join);
    ASSERT_OK(ls_trainer_load(t, w));
    for (int64_t i = 0; i < SCORES; i += 7) {
        const row one = row_of(packed, i);
        const double evaluated = evaluate(t, &m, &one), trained = step(t, &m, &one, 0);
        if (evaluated != scores[i] || trained != scores[i])
            fail_msg("%s%s, base %s, %s, %s: token %lld has %.9g in training, %.9g in an evaluation, and "
                     "%.9g by a "
                     "generator",
                     ls_dtype_name(v->param), v->gemma ? ", gemma" : "", v->nf4 ? "nf4" : "of floats",
                     packed ? "packed" : "alone", join ? "joined" : "apart", (long long)i, trained, evaluated,
                     scores[i]);
    }
    ls_trainer_destroy(&t);
}

static void one_score(void **state)
{
    (void)state;
    static const way WAYS[] = {
        { LS_F32, LS_F32, .adapters = true },
        { LS_BF16, LS_F32, .adapters = true },
        { LS_BF16, LS_BF16, .adapters = true },
        { LS_BF16, LS_F32, .adapters = false },
        { LS_F32, LS_F32, .nf4 = true, .adapters = true },
        { LS_BF16, LS_BF16, .nf4 = true, .adapters = true },
        { LS_BF16, LS_F32, .adapters = true, .gemma = true },
    };
    for (size_t k = 0; k < sizeof WAYS / sizeof *WAYS; k++) {
        double scores[SCORES];
        ls_weights *w = weights_of(&WAYS[k]);
        from_generator(&WAYS[k], w, scores);
        for (int i = 0; i < 4; i++)
            check_trainer(&WAYS[k], w, i % 2, i / 2, scores);
        ls_weights_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(one_score) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
