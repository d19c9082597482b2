/* test_types.c - parameters of several types in one model: a frozen base in bf16, and a head that is trained
 * in f32. Tests them on ranks and in a checkpoint. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ckpt/checkpoint.h"
#include "lockstep/nn.h"
#include "golden/training.h"
#include "models/classifier.h"
#include "support/ranks.h"
#include "support/support.h"
#include "step/state.h"
#include "step/trainer.h"
#include "support/mapping.h"

enum { STEPS = 5, M = 4, ROWS = 3, SIDE = 8, CLASSES = 5, HIDDEN = 33 };

static ls_status build(ls_graph *g, const void *type, int64_t batch)
{
    const ls_init init = ls_init_fan_in(SIDE * SIDE);
    ls_value x = ls_reshape(g, ls_image_input(g, batch, 1, SIDE, 0.5, 0.5, NULL, NULL), batch, SIDE * SIDE);
    ls_value base = ls_param(g, "base.weight", LS_TYPE(*(const ls_dtype *)type, HIDDEN, SIDE * SIDE), init);
    x = ls_relu(g, ls_matmul_wt(g, x, ls_cast(g, base, LS_F32), LS_NONE));
    ls_classifier_outputs(g, ls_linear(g, "head", x, CLASSES), NULL);
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
    LS_TRY(training_parameters(t, p, 4) == 3 ? LS_OK : LS_E_INTERNAL);
    if (p[0].tensor.type.dtype == LS_BF16)
        memcpy(out, p[0].tensor.data, sizeof(uint16_t) * HIDDEN * SIDE * SIDE);
    training_release(p, 3);
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
    j.o.parallel.gather = mapping_or_auto(gather);
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
    j.o.freeze = "base !base";
    ASSERT_FAILS(ls_compile(&c, build, &type, &j.o, NULL), LS_E_UNSUPPORTED, "base.weight is bf16");
    j.o.freeze = "base !bass";
    ASSERT_FAILS(ls_compile(&c, build, &type, &j.o, NULL), LS_E_USAGE, "!bass: the model has no parameter");
    j.o.freeze = "*";
    ASSERT_FAILS(ls_compile(&c, build, &type, &j.o, NULL), LS_E_USAGE, "every parameter is frozen");
}

/* A frozen base that the model declares as f32 rests in the type that it is used in, and computes what one
 * does that rests in f32 because a learning rate of 0 keeps it. "* !head" freezes all but the head. */
static void frozen_rests_in_the_type_of_its_use(void **state)
{
    (void)state;
    static const ls_dtype USED[] = { LS_BF16, LS_F16 };
    char dir[512];
    for (int k = 0; k < 2; k++) {
        snprintf(dir, sizeof dir, "%s", ls_test_path(k ? "types/narrow-f16" : "types/narrow-bf16"));
        const ls_optimizer_group still = { LS_OPTIMIZER_GROUP_DEFAULTS, .match = "pattern:base*",
                                           .lr_factor = 0 };
        job wide = on(1, LS_DATA_FSDP, LS_GATHER_AUTO);
        wide.base = LS_F32;
        wide.o.param = USED[k];
        wide.o.freeze = NULL;
        wide.o.n_groups = 1;
        wide.o.groups = &still;
        ASSERT_OK(run_ranks(1, rank, &wide));
        for (int ranks = 1; ranks <= 4; ranks *= 2) {
            job j = on(ranks, ranks == 4 ? LS_DATA_DDP : LS_DATA_FSDP, LS_GATHER_AUTO);
            j.base = LS_F32;
            j.o.param = USED[k];
            j.o.freeze = "* !head";
            j.save = ranks == 2 ? dir : NULL;
            ASSERT_OK(run_ranks(ranks, rank, &j));
            assert_memory_equal(j.losses, wide.losses, sizeof j.losses);
        }
        job next = on(1, LS_DATA_FSDP, LS_GATHER_AUTO);
        next.base = LS_F32;
        next.o.param = USED[k];
        next.load = dir;
        ASSERT_OK(run_ranks(1, rank, &next));
        assert_true(next.losses[STEPS - 1] == wide.losses[STEPS - 1]);
        if (USED[k] ==
            LS_BF16) { /* continued in f32: bf16 is converted (an f16 run has a loss scale besides) */
            next.o.param = LS_F32;
            ASSERT_OK(run_ranks(1, rank, &next));
            assert_true(fabs(next.losses[STEPS - 1] - wide.losses[STEPS - 1]) < 0.01);
        }
        ls_weights *w;
        ASSERT_OK(ls_weights_open(&w, dir));
        assert_int_equal(ls_weights_find(w, "base.weight")->type.dtype, USED[k]);
        assert_int_equal(ls_weights_find(w, "head.weight")->type.dtype, LS_F32);
        ls_weights_close(&w);
    }
}

/* ---- rows of 16 bits are rounded before they are added, so they are refused */

typedef struct rows {
    enum { FITS, NARROW, FEW, NONE, TWICE, NO_INPUT, OTHER_TYPE, NO_FIELD } wrong;
    bool wide;
} rows;

static ls_status build_rows(ls_graph *g, const void *config, int64_t batch)
{
    const rows *c = config;
    ls_value x = ls_reshape(g, ls_image_input(g, batch, 1, SIDE, 0.5, 0.5, NULL, NULL), batch, SIDE * SIDE);
    ls_value y = ls_linear(g, "head", x, 2), labels = ls_input(g, "labels", LS_TYPE(LS_I32, batch)),
             other = ls_input(g, "other", LS_TYPE(LS_I64, batch));
    if (c->wide)
        ls_wide_begin(g);
    ls_value squares = ls_square(g, y);
    squares = c->wrong == NARROW ? ls_cast(g, squares, LS_BF16) : squares;
    if (c->wide)
        ls_wide_end(g);
    (void)labels, (void)other;
    if (c->wrong != NONE)
        ls_loss(g, "squares", c->wrong == FEW ? ls_slice(g, squares, 0, 0, 1) : squares, 1,
                c->wrong == NO_INPUT || c->wrong == OTHER_TYPE || c->wrong == NO_FIELD ? LS_BY_VALID
                                                                                       : LS_BY_ELEMENT,
                c->wrong == NO_INPUT     ? "label"
                : c->wrong == OTHER_TYPE ? "other"
                                         : NULL);
    if (c->wrong == TWICE)
        ls_loss(g, "squares", squares, 1, LS_BY_SAMPLE, NULL);
    return ls_graph_finish(g);
}

static void rows_that_cannot_be(void **state)
{
    (void)state;
    static const struct {
        rows c;
        ls_dtype param;
        ls_status code;
        const char *says;
    } cases[] = {
        { { .wrong = NARROW }, LS_F32, LS_E_SHAPE, "\"squares\" is bf16 [3, 2], which rounds it" },
        { { .wide = false }, LS_BF16, LS_E_SHAPE, "between ls_wide_begin and ls_wide_end" },
        { { .wrong = FEW },
          LS_F32,
          LS_E_SHAPE,
          "loss \"squares\": rows are f32 [1, 2], but their first dimension must be a multiple of the batch, "
          "3" },
        { { .wrong = NONE }, LS_F32, LS_E_ARG, "the model declares no loss" },
        { { .wrong = TWICE }, LS_F32, LS_E_ARG, "there is a loss of that name already" },
        { { .wrong = NO_INPUT }, LS_F32, LS_E_ARG, "the model has no input \"label\"" },
        { { .wrong = OTHER_TYPE }, LS_F32, LS_E_SHAPE, "input \"other\" is i64 [3]: it must be i32" },
        { { .wrong = NO_FIELD }, LS_F32, LS_E_ARG, "need the name of an input, field is NULL" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ls_trainer *t = NULL;
        ASSERT_FAILS(ls_trainer_create(&t, build_rows, &cases[i].c, .threads = 1, .micro_batch = ROWS,
                                       .param = cases[i].param),
                     cases[i].code, cases[i].says);
        assert_null(t);
    }
    ls_trainer *t;
    const rows fits = { .wide = true };
    ASSERT_OK(ls_trainer_create(&t, build_rows, &fits, .threads = 1, .micro_batch = ROWS, .param = LS_BF16));
    ls_trainer_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rows_that_cannot_be), cmocka_unit_test(over_ranks),
                                        cmocka_unit_test(half_the_memory),
                                        cmocka_unit_test(frozen_rests_in_the_type_of_its_use),
                                        cmocka_unit_test(what_cannot_be) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
