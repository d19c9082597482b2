/* test_trainer_models.c - models of a user's program: any names of parameters and inputs, the source line of
 * each node, frozen parameters. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "golden/training.h"
#include "lockstep/nn.h"
#include "models/classifier.h"
#include "support/ranks.h"
#include "step/evaluate.h"
#include "step/state.h"
#include "step/images.h"

/* ---- evaluation */

/* Messages and `explain` name the model's line: what a pass or autodiff makes stands for the line that it was
 * made from. */
static void nodes_keep_the_models_line(void **state)
{
    (void)state;
    ls_trainer *t;
    ASSERT_OK(ls_trainer_create(&t, training_build_vit, &training_vit, .micro_batch = 2, .param = LS_BF16,
                                .recompute = "class:EncoderBlock"));
    int from_model = 0;
    for (int p = 0; p < LS_PROGRAMS; p++)
        for (int i = 0; i < t->compiled.plans[p]->graph->n_nodes; i++) {
            const char *file = t->compiled.plans[p]->graph->nodes[i]->file;
            if (file && (strstr(file, "src/passes/") || strstr(file, "src/graph/")))
                fail_msg("%s of program %s is said to come from %s",
                         t->compiled.plans[p]->graph->nodes[i]->op->name, ls_program_names[p], file);
            from_model += file && strstr(file, "models/vit.c");
        }
    assert_true(from_model > 200);
    ls_trainer_destroy(&t);
}

/* Frozen parameters keep their values and have no moments; what is trained goes the same way as when all are.
 */
static void frozen_parameters_stay(void **state)
{
    (void)state;
    ls_trainer *all, *some;
    ls_named_tensor a[64], b[64];
    ls_named_tensor before[64];
    ls_step_result r;
    const ls_optimizer plain = { LS_OPTIMIZER_DEFAULTS, .kind = LS_SGD, .momentum = 0.9 };
    START(all, .micro_batch = 8, .micro_batches = 2, .optimizer = plain);
    START(some, .micro_batch = 8, .micro_batches = 2, .optimizer = plain,
          .freeze = "encoder.layers.encoder_layer_0 heads.head.bias");
    const int n = training_parameters(some, before, 64);
    ASSERT_OK(ls_trainer_step(all, images, labels, 16, 1e-2, &r));
    ASSERT_OK(ls_trainer_step(some, images, labels, 16, 1e-2, &r));
    assert_int_equal(training_parameters(all, a, 64), n);
    assert_int_equal(training_parameters(some, b, 64), n);
    int frozen = 0;
    for (int i = 0; i < n; i++) {
        const bool stays = !strncmp(b[i].name, "encoder.layers.encoder_layer_0.", 31) ||
                           !strcmp(b[i].name, "heads.head.bias");
        const size_t bytes = ls_type_bytes(&b[i].tensor.type);
        frozen += stays;
        if (memcmp(b[i].tensor.data, (stays ? before : a)[i].tensor.data, bytes) != 0)
            fail_msg("%s %s", b[i].name,
                     stays ? "is frozen, and moved" : "moved otherwise than with nothing frozen");
        if (!stays && memcmp(b[i].tensor.data, before[i].tensor.data, bytes) == 0)
            fail_msg("%s did not move", b[i].name);
    }
    training_release(a, n);
    training_release(b, n);
    training_release(before, n);
    assert_int_equal(frozen, 13);
    ls_state_lists l;
    ASSERT_OK(ls_trainer_lists(&l, some));
    assert_int_equal(l.model.n, n);
    assert_int_equal(l.sliced_optimizer, n - frozen);
    ls_state_lists_release(&l);
    assert_true(ls_trainer_bytes(some) < ls_trainer_bytes(all));
    ls_trainer_destroy(&all);
    ls_trainer_destroy(&some);
}

/* A classifier with a state beside its logits: what it is called is the model's business. */
typedef struct names {
    const char *scope, *state;
} names;

static ls_status build_named(ls_graph *g, const void *config, int64_t batch)
{
    const names *n = config;
    ls_value x = ls_reshape(g, ls_image_input(g, batch, 1, 8, 0.5, 0.5, NULL, NULL), batch, PIXELS);
    x = ls_mul(g, x, ls_state(g, n->state, LS_SCALAR(LS_F32), (ls_init){ LS_INIT_CONST, 0.5, 0 }));
    ls_scope_push(g, n->scope, "Block");
    x = ls_linear(g, "fc", x, 5);
    ls_scope_pop(g);
    ls_classifier_outputs(g, x, NULL);
    return ls_graph_finish(g);
}

/* Three steps and a checkpoint: the weights, and how many tensors the trainer keeps beside them. */
static uint64_t train_named(const names *n, int64_t *kept)
{
    ls_trainer *t;
    ls_step_result r;
    ls_state_lists l;
    ls_named_tensor p[2];
    ASSERT_OK(ls_trainer_create(&t, build_named, n, .micro_batch = 10, .micro_batches = 2, .clip_norm = 0.1));
    ASSERT_OK(ls_trainer_init(t, 5));
    for (int k = 0; k < 3; k++)
        ASSERT_OK(ls_trainer_step(t, images, labels, 20, 1e-2, &r));
    ASSERT_OK(ls_trainer_lists(&l, t));
    *kept = l.optimizer.n;
    ls_state_lists_release(&l);
    assert_int_equal(training_parameters(t, p, 2), 2);
    const uint64_t weights = ls_hash64(p[0].tensor.data, ls_type_bytes(&p[0].tensor.type));
    training_release(p, 2);
    ls_trainer_destroy(&t);
    return weights;
}

/* Programs find units, moments and gradients by what they are, so a model may take any of their names. */
static void names_are_the_models(void **state)
{
    (void)state;
    static const names NAMES[] = { { "unit x", "unit root" },
                                   { "grad.y", "grad.unit root" },
                                   { "root", "time unit x" },
                                   { "exp_avg.unit root", "exp_avg.unit root" },
                                   { "lr", "lr" },
                                   { "grad_norm", "grad_norm" },
                                   { "step", "unit root, gathered" } };
    int64_t plain, kept;
    const uint64_t weights = train_named(&(names){ "block", "factor" }, &plain);
    assert_int_equal(plain, 2 * 2 + 2); /* moments; the step counter, the model's state */
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        const names twin = { NAMES[i].scope, "factor" }; /* initial weights follow from names */
        const uint64_t want = train_named(&twin, &kept);
        if (train_named(&NAMES[i], &kept) != want || kept != plain)
            fail_msg("a state \"%s\" changes the weights, or is not kept", NAMES[i].state);
        assert_true(want != weights);
    }
    static const names TAKEN[] = { { "b", "step" }, { "b", "exp_avg.b.fc.bias" } };
    for (int i = 0; i < 2; i++) {
        ls_trainer *t;
        ASSERT_FAILS((ls_trainer_create(&t, build_named, &TAKEN[i], .micro_batch = 10)), LS_E_ARG,
                     TAKEN[i].state, "checkpoint");
    }
}

/* What a batch fills is the input that the graph declares, whatever its name and type. */
static ls_status build_inputs(ls_graph *g, const void *config, int64_t batch)
{
    const names *n = config;
    ls_value x = ls_input(g, n->scope, LS_TYPE(LS_F32, batch, 4));
    if (n->state)
        x = ls_add(g, x, ls_input(g, n->state, LS_TYPE(LS_F32, batch, 4)));
    ls_classifier_outputs(g, ls_linear(g, "fc", x, 5), NULL);
    return ls_graph_finish(g);
}

static void samples_have_any_name(void **state)
{
    (void)state;
    static const names ONE = { "measurements", NULL }, TWO = { "left", "right" };
    const float x[2][4] = { { 1, 2, 3, 4 }, { 4, 3, 2, 1 } };
    const int32_t y[2] = { 0, 1 };
    float probability[2][5];
    ls_trainer *t;
    ls_step_result r;
    ASSERT_OK(ls_trainer_create(&t, build_inputs, &ONE, .micro_batch = 2));
    ASSERT_OK(ls_trainer_init(t, 5));
    ASSERT_OK(ls_trainer_step(t, x, y, 2, 1e-2, &r));
    ASSERT_OK(ls_trainer_eval(t, x, y, NULL, NULL, probability[0]));
    assert_true(isfinite(r.loss) && probability[0][0] > 0);
    ls_trainer_destroy(&t);
    ASSERT_OK(ls_trainer_create(&t, build_inputs, &TWO, .micro_batch = 2));
    ASSERT_OK(ls_trainer_init(t, 5));
    ASSERT_FAILS(ls_trainer_step(t, x, y, 2, 1e-2, &r), LS_E_ARG, "one more field", "ls_trainer_step_from");
    ls_trainer_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_keep_the_models_line),
        cmocka_unit_test(names_are_the_models),
        cmocka_unit_test(samples_have_any_name),
        cmocka_unit_test(frozen_parameters_stay),
    };
    return cmocka_run_group_tests(tests, make_images, NULL);
}
