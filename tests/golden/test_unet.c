/* test_unet.c - a small U-Net against PyTorch, of classes, with bilinear interpolation, and of a mask:
 * logits, loss and every gradient of a step, five steps of AdamW, on ref in f64 and on cpu at every level;
 * and what it refuses. */
#include <stdlib.h>

#include "golden/training.h"

enum { H = 8, W = 16, CHANNELS = 2, BATCH = 2, STEPS = 5, PIXELS = H * W, IMAGE = CHANNELS * PIXELS };
enum { PARAMETERS = 3 * 6 + 2 * 8 + 2, BILINEAR_PARAMETERS = PARAMETERS - 2 * 2 };

static const ls_task_loss CLASSES_LOSS = { .kind = LS_LOSS_CROSS_ENTROPY, .of = "y", .factor = 1 },
                          MASK_LOSS = { .kind = LS_LOSS_BCE, .of = "y", .factor = 1 };
#define IMAGE_PORT                        \
    {                                     \
        "image",                          \
        {                                 \
            LS_F32, 3, { CHANNELS, H, W } \
        }                                 \
    }
static const ls_unet_config CLASSES = { .input = IMAGE_PORT,
                                        .output = { "y", { LS_F32, 3, { H, W, 3 } } },
                                        .n_losses = 1,
                                        .losses = &CLASSES_LOSS,
                                        .channels = 3,
                                        .levels = 2 },
                            BILINEAR = { .input = IMAGE_PORT,
                                         .output = { "y", { LS_F32, 3, { H, W, 3 } } },
                                         .n_losses = 1,
                                         .losses = &CLASSES_LOSS,
                                         .channels = 3,
                                         .levels = 2,
                                         .up = LS_UP_BILINEAR },
                            MASK = { .input = IMAGE_PORT,
                                     .output = { "y", { LS_F32, 2, { H, W } } },
                                     .n_losses = 1,
                                     .losses = &MASK_LOSS,
                                     .channels = 3,
                                     .levels = 2 };

static ls_weights *golden;

static int set_up(void **state)
{
    (void)state;
    golden = golden_open("unet");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ls_weights_close(&golden);
    return 0;
}

static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    return ls_unet_build(g, config, batch);
}

/* The samples of step k, by the formulas of tools/golden/unet.py. */
static double step(ls_trainer *t, bool classes, int64_t k, double rate)
{
    static float image[BATCH * IMAGE], mask[BATCH * PIXELS];
    static int32_t labels[BATCH * PIXELS];
    for (int64_t i = 0; i < BATCH * IMAGE; i++)
        image[i] = (float)golden_formula("unet.images", k * BATCH * IMAGE + i, 1, 0);
    for (int64_t i = 0; i < BATCH * PIXELS; i++) {
        const int64_t at = k * BATCH * PIXELS + i;
        labels[i] = (int32_t)(golden_formula("unet.labels", at, 2, 0) + 2);
        labels[i] = labels[i] == 3 ? LS_IGNORE_LABEL : labels[i];
        mask[i] = (float)(golden_formula("unet.mask", at, 0.5, 0) + 0.5);
    }
    const ls_tensor x = ls_tensor_of(image, &LS_TYPE(LS_F32, BATCH, CHANNELS, H, W)),
                    y = classes ? ls_tensor_of(labels, &LS_TYPE(LS_I32, BATCH, H, W))
                                : ls_tensor_of(mask, &LS_TYPE(LS_F32, BATCH, H, W));
    ls_step_result r;
    ASSERT_OK(ls_trainer_put(t, "image", &x, 0));
    ASSERT_OK(ls_trainer_put(t, "y", &y, 0));
    ASSERT_OK(ls_trainer_run(t, BATCH, rate, &r));
    return r.loss;
}

static void check(const ls_unet_config *c, const ls_trainer_opts *o, double gradients, double losses_within)
{
    const char *what = training_describe(o);
    const bool classes = c != &MASK;
    const char *name = c == &CLASSES ? "classes" : c == &BILINEAR ? "bilinear" : "mask";
    const int parameters = c->up == LS_UP_BILINEAR ? BILINEAR_PARAMETERS : PARAMETERS;
    double losses[STEPS];
    ls_trainer *t = training_start(build, c, o);
    losses[0] = step(t, classes, 0, 0.0);
    training_expect_losses(what, losses, 1, golden_get(golden, "%s.loss", name), losses_within);
    assert_int_equal(t->compiled.units.n_slots, parameters);
    for (int i = 0; i < parameters; i++) {
        ls_named_tensor g = training_gradient(t, i);
        golden_expect_scaled(what, g.tensor.data, &g.tensor.type,
                             golden_get(golden, "%s.grad.%s", name, g.name), gradients,
                             golden_scalar(golden, "%s.grad_max.%s", name, g.name));
        training_release(&g, 1);
    }
    ls_trainer_destroy(&t);
    t = training_start(build, c, o);
    for (int k = 0; k < STEPS; k++)
        losses[k] = step(t, classes, k, 1e-3);
    training_expect_losses(what, losses, STEPS, golden_get(golden, "%s.losses", name), losses_within);
    ls_trainer_destroy(&t);
}

#define ADAMW .optimizer = { LS_OPTIMIZER_DEFAULTS, .kind = LS_ADAMW, .weight_decay = 0.05 }

static const ls_unet_config *const CASES[] = { &CLASSES, &BILINEAR, &MASK };
enum { N_CASES = sizeof CASES / sizeof *CASES };

static void on_ref(void **state)
{
    (void)state;
    for (int k = 0; k < N_CASES; k++)
        check(CASES[k],
              &(ls_trainer_opts){ LS_TRAINER_DEFAULTS, .device = "ref", .param = LS_F64, .output = LS_F64,
                                  .micro_batch = BATCH, ADAMW },
              1e-7, 1e-7); /* the samples are rounded to f32 */
}

static void on_cpu(void **state)
{
    (void)state;
    ls_isa levels[LS_ISA_COUNT];
    const int n = training_levels(levels);
    for (int l = 0; l < n; l++)
        for (int k = 0; k < N_CASES; k++)
            check(CASES[k],
                  &(ls_trainer_opts){ LS_TRAINER_DEFAULTS, .isa = ls_isa_name(levels[l]),
                                      .threads = 1 + k % 2, .micro_batch = BATCH, ADAMW },
                  1e-4, 1e-4);
}

static void refuses(void **state)
{
    (void)state;
    static const struct {
        ls_type input, output;
        int64_t channels, levels;
        bool classes;
        const char *says;
    } BAD[] = {
        { { LS_F32, 3, { 3, 8, 8 } }, { LS_F32, 2, { 8, 8 } }, 4, 0, false, "levels 0 from 1 to" },
        { { LS_F32, 2, { 8, 8 } }, { LS_F32, 2, { 8, 8 } }, 4, 1, false, "[channels, height, width]" },
        { { LS_F32, 3, { 3, 8, 10 } },
          { LS_F32, 2, { 8, 10 } },
          4,
          2,
          false,
          "8 x 10 must be multiples of 4" },
        { { LS_F32, 3, { 3, 8, 8 } }, { LS_F32, 2, { 8, 8 } }, 4, 1, true, "[height, width, classes]" },
        { { LS_F32, 3, { 3, 8, 8 } }, { LS_F32, 3, { 5, 8, 8 } }, 4, 1, true, "[height, width, classes]" },
        { { LS_F32, 3, { 3, 8, 8 } }, { LS_F32, 3, { 8, 8, 5 } }, 4, 1, false, "or [height, width]" },
    };
    for (size_t k = 0; k < sizeof BAD / sizeof *BAD; k++) {
        ls_graph *g;
        const ls_unet_config c = { .input = { "x", BAD[k].input },
                                   .output = { "y", BAD[k].output },
                                   .n_losses = 1,
                                   .losses = BAD[k].classes ? &CLASSES_LOSS : &MASK_LOSS,
                                   .channels = BAD[k].channels,
                                   .levels = BAD[k].levels };
        ASSERT_OK(ls_graph_create(&g, "unet"));
        ASSERT_FAILS(ls_unet_build(g, &c, 1), LS_E_SHAPE, BAD[k].says);
        ls_graph_destroy(&g);
    }
    const ls_task_loss both[] = { CLASSES_LOSS, MASK_LOSS };
    ls_unet_config c = CLASSES;
    c.n_losses = 2;
    c.losses = both;
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "unet"));
    ASSERT_FAILS(ls_unet_build(g, &c, 1), LS_E_SHAPE, "cannot be added");
    ls_graph_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(on_ref), cmocka_unit_test(on_cpu),
                                        cmocka_unit_test(refuses) };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
