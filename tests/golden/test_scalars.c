/* test_scalars.c - learning rate schedules against torch.optim.lr_scheduler, the dynamic loss scale against
 * torch.amp.GradScaler, clipping against clip_grad_norm_. */
#include <math.h>
#include <stdlib.h>
#include "golden/values.h"
#include "lockstep/optim.h"
#include "plan/plan.h"

static const struct {
    const char *name;
    ls_schedule s;
} SCHEDULES[] = {
    { "constant", { .kind = LS_SCHED_CONSTANT } },
    { "step", { .kind = LS_SCHED_STEP, .step_size = 7, .gamma = 0.5 } },
    { "cosine", { .kind = LS_SCHED_COSINE, .total_steps = 50, .min_lr = 0.001 } },
    { "linear", { .kind = LS_SCHED_LINEAR, .total_steps = 40, .min_lr = 0.001 } },
    { "warmup_constant", { .kind = LS_SCHED_CONSTANT, .warmup_steps = 8 } },
    { "warmup_step", { .kind = LS_SCHED_STEP, .warmup_steps = 8, .step_size = 7, .gamma = 0.5 } },
    { "warmup_cosine", { .kind = LS_SCHED_COSINE, .warmup_steps = 8, .total_steps = 50, .min_lr = 0.001 } },
    { "warmup_linear", { .kind = LS_SCHED_LINEAR, .warmup_steps = 8, .total_steps = 50, .min_lr = 0.001 } },
};

static void schedules(void **state)
{
    (void)state;
    ls_weights *w = golden_open("scalars");
    for (size_t k = 0; k < sizeof SCHEDULES / sizeof SCHEDULES[0]; k++) {
        double rates[50];
        for (int s = 0; s < 50; s++)
            rates[s] = ls_schedule_rate(&SCHEDULES[k].s, 0.1, s);
        ls_type t = LS_TYPE(LS_F64, 50);
        golden_expect("", rates, &t, golden_get(w, "schedule.%s", SCHEDULES[k].name), 1e-14);
    }
    ls_weights_close(&w);
}

/* One weight through 16 steps, some of which overflow: the update program must skip exactly those, and
 * neither Adam's counter nor SGD's momentum may notice them. The program's growth interval is 2000 as
 * PyTorch's default; the golden run's is 3, so here the scale is played by hand: what is compared of the
 * program is the backing off and the counting, modulo the interval. */
static void loss_scale(void **state)
{
    (void)state;
    ls_weights *w = golden_open("scalars");
    int32_t *applied = golden_values_as(golden_get(w, "scaler.applied"), LS_I32),
            *good = golden_values_as(golden_get(w, "scaler.good"), LS_I32);
    double *scale = golden_values(golden_get(w, "scaler.scale")),
           *gradient = golden_values(golden_get(w, "scaler.gradient"));
    for (int k = 0; k < 2; k++) {
        ls_optimizer optimizer = { LS_OPTIMIZER_DEFAULTS };
        if (k)
            optimizer = (ls_optimizer){ LS_OPTIMIZER_DEFAULTS, .kind = LS_SGD, .momentum = 0.9 };
        ls_graph *g;
        ASSERT_OK(ls_graph_create(&g, "update"));
        ASSERT_OK(ls_update_build(
            g, 1, &(ls_update_unit){ .name = "unit", .type = LS_TYPE(LS_F32, 16), .via = LS_F32 },
            &(ls_update_opts){ LS_UPDATE_DEFAULTS, .optimizer = optimizer, .loss_scaling = true }));
        ls_device d;
        ASSERT_OK(ls_device_open(&d, "cpu", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
        ls_plan *p;
        ASSERT_OK(ls_plan_create(&p, g, &d, NULL));
        ls_session *s;
        ASSERT_OK(ls_session_create(&s, 1, &p, NULL));
        float grad[16] = { 0 };
        value_fill(s, "loss_scale", 65536);
        value_set(s, "unit", 0, 1);
        value_fill(s, "lr", k ? 0.5 : 0.01);
        float seen[16];
        int64_t steps = 0;
        for (int i = 0; i < 16; i++) {
            grad[0] = (float)gradient[i] * (float)value_number(s, "loss_scale", 0);
            grad[3] = applied[i] ? 0 : i % 2 ? INFINITY : NAN;
            value_put(s, "grad.unit", grad, sizeof grad);
            ASSERT_OK(ls_session_run(s, 0, false));
            seen[i] = (float)value_number(s, "unit", 0);
            steps += applied[i];
            assert_int_equal(value_number(s, "step", 0), steps);
            assert_int_equal((int)value_number(s, "loss_scale_good_steps", 0) % 3, good[i]);
            if (value_number(s, "loss_scale_good_steps", 0) == 3) { /* what its interval would do */
                value_fill(s, "loss_scale_good_steps", 0);
                value_fill(s, "loss_scale", 2 * value_number(s, "loss_scale", 0));
            }
            assert_true(value_number(s, "loss_scale", 0) == scale[i]);
        }
        ls_type t = LS_TYPE(LS_F32, 16);
        golden_expect("", seen, &t, golden_get(w, "scaler.%s.weight", k ? "sgd" : "adam"), 1e-6);
        ls_session_destroy(&s);
        ls_plan_destroy(&p);
        ls_graph_destroy(&g);
    }
    free(applied);
    free(good);
    free(scale);
    free(gradient);
    ls_weights_close(&w);
}

/* clip_grad_norm_, through an update by SGD with rate 1 from zero: the weights become minus the clipped
 * gradient. */
static void clipping(void **state)
{
    (void)state;
    ls_weights *w = golden_open("ops");
    for (int k = 0; k < 2; k++) {
        const char *name = k ? "clip_not" : "clip";
        ls_graph *g;
        ls_plan *p;
        ls_session *s;
        ls_device d;
        ASSERT_OK(ls_graph_create(&g, "update"));
        ASSERT_OK(ls_update_build(
            g, 1, &(ls_update_unit){ .name = "unit", .type = LS_TYPE(LS_F64, 60), .via = LS_F64 },
            &(ls_update_opts){ LS_UPDATE_DEFAULTS, .optimizer = { LS_OPTIMIZER_DEFAULTS, .kind = LS_SGD },
                               .clip_norm = golden_scalar(w, "%s.limit", name) }));
        ASSERT_OK(ls_device_open(&d, "ref", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
        ASSERT_OK(ls_plan_create(&p, g, &d, NULL));
        ASSERT_OK(ls_session_create(&s, 1, &p, NULL));
        double weight[60];
        golden_put(s, "grad.unit", golden_get(w, "%s.grad", name));
        value_fill(s, "lr", 1);
        ASSERT_OK(ls_session_run(s, 0, false));
        value_get(s, "unit", weight, sizeof weight);
        for (int i = 0; i < 60; i++)
            weight[i] = -weight[i];
        ls_type t = LS_TYPE(LS_F64, 60);
        golden_expect("ref", weight, &t, golden_get(w, "%s.clipped", name), 1e-12);
        golden_expect_value("ref", s, "grad_norm", golden_get(w, "%s.norm", name), 1e-12);
        ls_session_destroy(&s);
        ls_plan_destroy(&p);
        ls_graph_destroy(&g);
    }
    ls_weights_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(schedules), cmocka_unit_test(loss_scale),
                                        cmocka_unit_test(clipping) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
