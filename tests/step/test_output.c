/* test_output.c - precision.output rounds the outputs of the model like output_dtype of FSDP's
 * MixedPrecisionPolicy. Losses, gradients, predictions and probabilities have the bits of a model that ends
 * in a cast, on ranks in every layout. */
#include <string.h>

#include "base/hash.h"
#include "lockstep/nn.h"
#include "golden/training.h"
#include "models/classifier.h"
#include "support/ranks.h"
#include "support/support.h"
#include "step/state.h"
#include "step/trainer.h"

enum { STEPS = 4, M = 4, ROWS = 3, SIDE = 8, CLASSES = 7, HIDDEN = 24 };

/* `config`: the type that the model casts its logits to. */
static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    ls_value x = ls_reshape(g, ls_image_input(g, batch, 1, SIDE, 0.5, 0.5, NULL, NULL), batch, SIDE * SIDE);
    x = ls_relu(g, ls_linear(g, "body", x, HIDDEN));
    ls_classifier_outputs(g, ls_cast(g, ls_linear(g, "head", x, CLASSES), *(const ls_dtype *)config), NULL);
    return ls_graph_finish(g);
}

typedef struct outcome {
    double losses[STEPS], norms[STEPS];
    uint64_t weights;
    float rows[ROWS], probability[ROWS * CLASSES];
    int32_t predicted[ROWS];
} outcome;

typedef struct job {
    ls_trainer_opts o;
    ls_dtype cast;
    outcome out;
} job;

static void fill(uint8_t image[SIDE * SIDE], int32_t *label, int64_t sample)
{
    *label = (int32_t)(sample % CLASSES);
    for (int i = 0; i < SIDE * SIDE; i++)
        image[i] = (uint8_t)(i % (*label + 2) * 40 + (sample * 7 + i) % 11);
}

static ls_status train(job *j, ls_trainer *t)
{
    const ls_share share = t->compiled.share;
    uint8_t images[M][ROWS][SIDE * SIDE];
    int32_t labels[M][ROWS];
    ls_named_tensor p[8];
    outcome *out = &j->out;
    LS_TRY(ls_trainer_init(t, 3));
    for (int step = 0; step < STEPS; step++) {
        for (int64_t k = 0; k < share.count; k++)
            for (int r = 0; r < ROWS; r++)
                fill(images[k][r], &labels[k][r], (share.first + k * share.stride) * ROWS + r + step);
        ls_step_result result;
        LS_TRY(ls_trainer_step(t, images, &labels[0][0], M * ROWS, 1e-2, &result));
        out->losses[step] = result.loss;
        out->norms[step] = result.grad_norm;
    }
    for (int r = 0; r < ROWS; r++)
        fill(images[0][r], &labels[0][r], 40 + r);
    LS_TRY(ls_trainer_eval(t, images, &labels[0][0], out->rows, out->predicted, out->probability));
    const int n = training_parameters(t, p, 8);
    for (int i = 0; i < n; i++)
        out->weights = ls_hash64_more(out->weights, p[i].tensor.data, ls_type_bytes(&p[i].tensor.type));
    training_release(p, n);
    return n == 4 ? LS_OK : LS_E_INTERNAL;
}

static ls_status rank(ls_group *g, void *context)
{
    job *j = context, mine = *j;
    ls_trainer *t;
    mine.o.group = g;
    mine.o.parallel.rank = ls_group_rank(g);
    LS_TRY(ls_trainer_create_with(&t, build, &j->cast, &mine.o));
    const ls_status s = train(&mine, t);
    ls_trainer_destroy(&t);
    if (ls_group_rank(g) == 0)
        j->out = mine.out;
    return s;
}

static outcome run(ls_dtype param, ls_dtype output, ls_dtype cast, int dp, int shard, ls_data_parallel data)
{
    job j = { .o = { LS_TRAINER_DEFAULTS, .threads = 1, .micro_batch = ROWS, .micro_batches = M,
                     .clip_norm = 0.5, .param = param, .output = output },
              .cast = cast };
    j.o.parallel.mesh = (ls_mesh){ .n = 2, .axes = { { "dp", dp }, { "shard", shard } } };
    j.o.parallel.data = data;
    ASSERT_OK(run_ranks(dp * shard, rank, &j));
    return j.out;
}

static void expect_same(const outcome *a, const outcome *b)
{
    assert_memory_equal(a->losses, b->losses, sizeof a->losses);
    assert_memory_equal(a->norms, b->norms, sizeof a->norms);
    assert_memory_equal(a->rows, b->rows, sizeof a->rows);
    assert_memory_equal(a->predicted, b->predicted, sizeof a->predicted);
    assert_memory_equal(a->probability, b->probability, sizeof a->probability);
    assert_true(a->weights == b->weights);
}

static void as_a_cast_of_the_model(void **state)
{
    (void)state;
    static const struct {
        ls_dtype param, output;
        bool rounds;
    } CASES[] = { { LS_F32, LS_BF16, true },   { LS_F32, LS_F16, true },   { LS_BF16, LS_F16, true },
                  { LS_BF16, LS_BF16, false }, { LS_BF16, LS_F32, false }, { LS_F32, LS_F32, false } };
    static const struct {
        int dp, shard;
        ls_data_parallel data;
    } MESHES[] = { { 2, 1, LS_DATA_DDP },
                   { 2, 1, LS_DATA_FSDP },
                   { 2, 2, LS_DATA_FSDP },
                   { 2, 2, LS_DATA_HYBRID },
                   { 4, 1, LS_DATA_DDP } };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        const ls_dtype param = CASES[i].param, output = CASES[i].output;
        const outcome one = run(param, output, LS_F32, 1, 1, LS_DATA_FSDP),
                      cast = run(param, LS_F32, output, 1, 1, LS_DATA_FSDP),
                      plain = run(param, LS_F32, LS_F32, 1, 1, LS_DATA_FSDP);
        expect_same(&one, &cast);
        assert_int_equal(memcmp(one.losses, plain.losses, sizeof one.losses) != 0, CASES[i].rounds);
        assert_int_equal(memcmp(one.probability, plain.probability, sizeof one.probability) != 0,
                         CASES[i].rounds);
        for (size_t k = 0; k < sizeof MESHES / sizeof MESHES[0]; k++) {
            const outcome some = run(param, output, LS_F32, MESHES[k].dp, MESHES[k].shard, MESHES[k].data);
            expect_same(&some, &one);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(as_a_cast_of_the_model) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
