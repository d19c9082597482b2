/* test_types.c - parameters of several types in one model: a frozen base in bf16, and a head that is trained
 * in f32. Tests them on ranks and in a checkpoint. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ckpt/checkpoint.h"
#include "lockstep/nn.h"
#include "models/classifier.h"
#include "support/ranks.h"
#include "support/support.h"
#include "step/state.h"
#include "step/trainer.h"

enum { STEPS = 5, M = 4, ROWS = 3, SIDE = 8, CLASSES = 5, HIDDEN = 33 };

static ls_status build(ls_graph *g, const void *type, int64_t batch)
{
    const ls_init init = ls_init_fan_in(SIDE * SIDE);
    ls_value x = ls_reshape(g, ls_image_input(g, batch, 1, SIDE, 0.5, 0.5), batch, SIDE * SIDE);
    ls_value base = ls_param(g, "base.weight", LS_TYPE(*(const ls_dtype *)type, HIDDEN, SIDE * SIDE), init);
    x = ls_relu(g, ls_matmul_wt(g, x, ls_cast(g, base, LS_F32), LS_NONE));
    ls_classifier_outputs(g, ls_linear(g, "head", x, CLASSES));
    return ls_graph_finish(g);
}

typedef struct job {
    ls_trainer_opts o;
    ls_dtype base;
    const char *save, *load;
    double losses[STEPS];
    uint16_t before[HIDDEN * SIDE * SIDE], after[HIDDEN * SIDE * SIDE]; /* of the base, bf16 */
} job;

static ls_status values(ls_trainer *t, uint16_t *out)
{
    ls_named_tensor p[4];
    LS_TRY(ls_trainer_parameters(t, p, 4) == 3 ? LS_OK : LS_E_INTERNAL);
    if (p[0].tensor.type.dtype == LS_BF16)
        memcpy(out, p[0].tensor.data, sizeof(uint16_t) * HIDDEN * SIDE * SIDE);
    return LS_OK;
}

static ls_status train(ls_group *g, job *j, ls_trainer *t)
{
    const ls_share share = t->compiled.share;
    uint8_t images[M][ROWS][SIDE * SIDE];
    int32_t labels[M][ROWS];
    LS_TRY(j->load ? ls_trainer_load_checkpoint(t, j->load) : ls_trainer_init(t, 4));
    LS_TRY(values(t, j->before));
    for (int step = j->load ? STEPS - 1 : 0; step < STEPS; step++) {
        for (int64_t k = 0; k < share.count; k++)
            for (int r = 0; r < ROWS; r++) {
                const int64_t m = share.first + k * share.stride;
                labels[k][r] = (int32_t)((m + r + step) % CLASSES);
                for (int i = 0; i < SIDE * SIDE; i++)
                    images[k][r][i] = (uint8_t)(i % (labels[k][r] + 2) * 40 + (m * r + i) % 7);
            }
        ls_step_result result;
        LS_TRY(ls_trainer_step(t, images, &labels[0][0], M * ROWS, 1e-2, &result));
        if (ls_group_rank(g) == 0)
            j->losses[step] = result.loss;
        if (j->save && step == STEPS - 2)
            LS_TRY(ls_trainer_save_state(t, j->save,
                                         &(ls_checkpoint_contents){ .config = "{}", .trainer = "{}" }, NULL));
    }
    return values(t, j->after);
}

static ls_status rank(ls_group *g, void *context)
{
    job *j = context, mine = *j;
    ls_trainer *t;
    mine.o.group = g;
    mine.o.parallel.rank = ls_group_rank(g);
    LS_TRY(ls_trainer_create_with(&t, build, &j->base, &mine.o));
    const ls_status s = train(g, &mine, t);
    ls_trainer_destroy(&t);
    if (ls_group_rank(g) == 0)
        *j = mine;
    return s;
}

static job on(int ranks, ls_data_parallel data, ls_gather_choice gather)
{
    job j = { .base = LS_BF16,
              .o = { LS_TRAINER_DEFAULTS, .threads = 1, .micro_batch = ROWS, .micro_batches = M,
                     .freeze = "base" } };
    j.o.parallel.mesh.axes[0].size = ranks;
    j.o.parallel.data = data;
    j.o.parallel.gather = gather;
    return j;
}

static void over_ranks(void **state)
{
    (void)state;
    char dir[512];
    snprintf(dir, sizeof dir, "%s", ls_test_path("types/step-4"));
    job one = on(1, LS_DATA_FSDP, LS_GATHER_AUTO);
    one.save = dir;
    ASSERT_OK(run_ranks(1, rank, &one));
    assert_true(one.losses[STEPS - 1] < one.losses[0] - 0.05);
    assert_memory_equal(one.before, one.after, sizeof one.before);
    assert_true(one.before[0] != 0 && one.before[0] != one.before[1]);
    for (int k = 0; k < 4; k++) {
        job j = k == 3 ? on(4, LS_DATA_DDP, LS_GATHER_AUTO)
                       : on(k == 2 ? 4 : 2, LS_DATA_FSDP, k == 0 ? LS_GATHER_MAP : LS_GATHER_COPY);
        ASSERT_OK(run_ranks((int)j.o.parallel.mesh.axes[0].size, rank, &j));
        assert_memory_equal(j.losses, one.losses, sizeof one.losses);
        assert_memory_equal(j.after, one.after, sizeof one.after);
        j.load = dir;
        ASSERT_OK(run_ranks((int)j.o.parallel.mesh.axes[0].size, rank, &j));
        assert_true(j.losses[STEPS - 1] == one.losses[STEPS - 1]);
    }
    ls_weights *w;
    ASSERT_OK(ls_weights_open(&w, dir));
    assert_int_equal(ls_weights_find(w, "base.weight")->type.dtype, LS_BF16);
    assert_int_equal(ls_weights_find(w, "head.weight")->type.dtype, LS_F32);
    assert_memory_equal(ls_weights_find(w, "base.weight")->data, one.after, sizeof one.after);
    ls_weights_close(&w);
}

/* The rounded values compute what the same ones in f32 do. */
static void half_the_memory(void **state)
{
    (void)state;
    const ls_dtype narrow = LS_BF16, wide = LS_F32;
    job j = on(1, LS_DATA_FSDP, LS_GATHER_AUTO), k = j;
    ls_compiled a, b;
    ASSERT_OK(ls_compile(&a, build, &narrow, &j.o, NULL));
    ASSERT_OK(ls_compile(&b, build, &wide, &j.o, NULL));
    assert_int_equal(a.units.n, 2);
    assert_int_equal(b.units.units[1].elements * 4, 2 * a.units.units[1].elements * 2);
    ls_compiled_release(&a);
    ls_compiled_release(&b);
    k.base = LS_F32;
    ASSERT_OK(run_ranks(1, rank, &j));
    ASSERT_OK(run_ranks(1, rank, &k));
    for (int i = 0; i < STEPS; i++)
        assert_true(j.losses[i] != k.losses[i] && fabs(j.losses[i] - k.losses[i]) < 0.01);
}

static void what_cannot_be(void **state)
{
    (void)state;
    ls_compiled c;
    ls_dtype type = LS_BF16;
    job j = on(1, LS_DATA_FSDP, LS_GATHER_AUTO);
    j.o.freeze = NULL;
    ASSERT_FAILS(ls_compile(&c, build, &type, &j.o, NULL), LS_E_UNSUPPORTED,
                 "parameter base.weight is bf16: trained parameters are stored as f32", "freeze it");
    j.o.freeze = "base";
    type = LS_F16;
    ASSERT_FAILS(ls_compile(&c, build, &type, &j.o, NULL), LS_E_UNSUPPORTED,
                 "parameter base.weight is f16: frozen parameters are f32, bf16 or f64");
}

/* ---- a model whose outputs are of types that the trainer does not read */

typedef struct narrow {
    ls_dtype loss, rows, logits;
    bool squares; /* the loss is the mean square of the logits, in the type that they are computed in */
    enum { FITS, LOSSES, FEW_ROWS, FLAT_LOGITS, COUNT, LABELS } wrong;
} narrow;

static ls_status build_narrow(ls_graph *g, const void *config, int64_t batch)
{
    const narrow *c = config;
    ls_value x = ls_reshape(g, ls_image_input(g, batch, 1, SIDE, 0.5, 0.5), batch, SIDE * SIDE);
    ls_value logits = ls_linear(g, "head", x, CLASSES),
             labels = ls_input(g, "labels", LS_TYPE(c->wrong == LABELS ? LS_I64 : LS_I32, batch));
    ls_value count = ls_input(g, "count", LS_SCALAR(c->wrong == COUNT ? LS_BF16 : LS_F32));
    if (c->wrong == LABELS)
        labels = ls_cast(g, labels, LS_I32);
    ls_value entropy = ls_cross_entropy(g, logits, labels,
                                        c->wrong == COUNT ? ls_cast(g, count, LS_F32) : count, -100),
             loss = entropy;
    if (c->squares)
        loss = ls_mul_const(g, ls_sum_to(g, ls_square(g, logits), 0, NULL), 1.0 / (ROWS * CLASSES));
    else
        loss = ls_cast(g, loss, c->loss);
    ls_value rows = ls_cast(g, ls_nth(g, entropy, 2), c->rows);
    ls_output(g, "loss", c->wrong == LOSSES ? rows : loss);
    ls_output(g, "rows", c->wrong == FEW_ROWS ? ls_slice(g, rows, 0, 0, 1) : rows);
    ls_output(g, "logits",
              c->wrong == FLAT_LOGITS ? ls_reshape(g, logits, batch * CLASSES)
                                      : ls_cast(g, logits, c->logits));
    return ls_graph_finish(g);
}

typedef struct read_back {
    double loss;
    float rows[ROWS], probability[ROWS * CLASSES];
    int32_t predicted[ROWS];
} read_back;

static read_back read_narrow(const narrow *c, const char *device, ls_dtype param)
{
    static uint8_t images[ROWS * SIDE * SIDE];
    static const int32_t labels[ROWS] = { 1, 4, 2 };
    read_back r;
    ls_step_result step;
    ls_trainer *t;
    for (size_t i = 0; i < sizeof images; i++)
        images[i] = (uint8_t)(i * i % 251);
    ASSERT_OK(ls_trainer_create(&t, build_narrow, c, .device = device, .threads = 1, .micro_batch = ROWS,
                                .param = param));
    ASSERT_OK(ls_trainer_init(t, 4));
    ASSERT_OK(ls_trainer_eval(t, images, labels, r.rows, r.predicted, r.probability));
    ASSERT_OK(ls_trainer_step(t, images, labels, ROWS, 1e-2, &step));
    r.loss = step.loss;
    ls_trainer_destroy(&t);
    return r;
}

/* Read as f32, two bf16 make a number near 0 or one that follows the wrong bits. */
static void outputs_of_16_bits(void **state)
{
    (void)state;
    static const ls_dtype types[] = { LS_BF16, LS_F16 };
    static const char *const devices[] = { "cpu", "ref" };
    const read_back want = read_narrow(&(narrow){ .loss = LS_F32, .rows = LS_F32, .logits = LS_F32 }, "cpu",
                                       LS_F32);
    const double squares =
        read_narrow(&(narrow){ .squares = true, .rows = LS_F32, .logits = LS_F32 }, "cpu", LS_F32).loss;
    assert_true(want.loss > 0.5 && squares > 0.01);
    for (int i = 0; i < 4; i++) {
        const ls_dtype type = types[i / 2];
        const read_back got = read_narrow(&(narrow){ .loss = type, .rows = type, .logits = type },
                                          devices[i % 2], LS_F32);
        const double near = type == LS_BF16 ? 0x1p-8 : 0x1p-11; /* a rounding, and what devices differ by */
        assert_true(fabs(got.loss - want.loss) <= (near + 1e-5) * want.loss);
        for (int k = 0; k < ROWS; k++)
            assert_true(fabs(got.rows[k] - want.rows[k]) <= (near + 1e-5) * want.rows[k]);
        for (int k = 0; k < ROWS * CLASSES; k++) /* logits of a few units, rounded */
            assert_true(fabs(got.probability[k] - want.probability[k]) <= 8 * near);
        assert_memory_equal(got.predicted, want.predicted, sizeof got.predicted);
        const read_back low = read_narrow(&(narrow){ .squares = true, .rows = LS_F32, .logits = LS_F32 },
                                          devices[i % 2], type);
        assert_true(fabs(low.loss - squares) <= 0.03 * squares);
    }
}

static void outputs_that_cannot_be_read(void **state)
{
    (void)state;
    static const struct {
        narrow c;
        const char *says;
    } cases[] = {
        { { LS_I32, LS_F32, LS_F32, false, FITS },
          "output \"loss\" is i32 []: it must be one number of a float type" },
        { { LS_F32, LS_F32, LS_F32, false, LOSSES }, "output \"loss\" is f32 [3]" },
        { { LS_F32, LS_F32, LS_F32, false, FEW_ROWS },
          "output \"rows\" is f32 [1]: it must be a loss for each row of \"logits\"" },
        { { LS_F32, LS_I64, LS_F32, false, FITS }, "output \"rows\" is i64 [3]" },
        { { LS_F32, LS_F32, LS_F32, false, FLAT_LOGITS },
          "output \"logits\" is f32 [15]: it must be [targets, classes]" },
        { { LS_F32, LS_F32, LS_I32, false, FITS }, "output \"logits\" is i32 [3, 5]" },
        { { LS_F32, LS_F32, LS_F32, false, COUNT }, "input \"count\" is bf16 []" },
        { { LS_F32, LS_F32, LS_F32, false, LABELS }, "input \"labels\" is i64 [3]: it must be i32" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ls_trainer *t = NULL;
        ASSERT_FAILS(ls_trainer_create(&t, build_narrow, &cases[i].c, .threads = 1, .micro_batch = ROWS),
                     LS_E_ARG, cases[i].says);
        assert_null(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(outputs_of_16_bits),
                                        cmocka_unit_test(outputs_that_cannot_be_read),
                                        cmocka_unit_test(over_ranks), cmocka_unit_test(half_the_memory),
                                        cmocka_unit_test(what_cannot_be) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
