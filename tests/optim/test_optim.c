/* test_optim.c - schedules at their edges, clipping by the exact norm, steps that are skipped. tests/golden
 * compares the optimizers with PyTorch. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/optim.h"
#include "passes/passes.h"
#include "support/values.h"

static void rate_is(const ls_schedule *s, int64_t step, double want)
{
    double got = ls_schedule_rate(s, 0.8, step);
    if (!(fabs(got - want) <= 1e-15))
        fail_msg("kind %d: rate of step %lld is %.17g, not %.17g", (int)s->kind, (long long)step, got, want);
}

#define RATES(s, ...) \
    rates_are(s, (int)(sizeof(double[]){ __VA_ARGS__ } / sizeof(double)), (double[]){ __VA_ARGS__ })
static void rates_are(const ls_schedule *s, int n, const double *want)
{
    for (int i = 0; i < n; i++)
        rate_is(s, i, want[i]);
}

/* Numbers of PyTorch 2.13 with the same settings. */
static void schedules_as_pytorch(void **state)
{
    (void)state;
    const ls_schedule cycle = { .kind = LS_SCHED_ONE_CYCLE,
                                .total_steps = 10,
                                .pct_start = 0.3,
                                .div_factor = 25,
                                .final_div_factor = 1e4 },
                      half = { .kind = LS_SCHED_ONE_CYCLE,
                               .total_steps = 7,
                               .pct_start = 0.5,
                               .div_factor = 10,
                               .final_div_factor = 100 },
                      power = { .kind = LS_SCHED_POLYNOMIAL, .total_steps = 5, .power = 2 },
                      restarts = {
                          .kind = LS_SCHED_RESTARTS, .period = 2, .period_factor = 2, .min_lr = 0.1
                      };
    RATES(&cycle, 0.032000000000000028, 0.41600000000000004, 0.8, 0.76038770561077906, 0.64939652315981045,
          0.48900961754903144, 0.31099358245096859, 0.15060667684018961, 0.039615494389221032, 3.2e-06,
          3.2e-06);
    RATES(&half, 0.08, 0.32875388202501893, 0.73124611797498107, 0.76042715961380669, 0.48931936520894326,
          0.1512534751772501, 0.0008);
    RATES(&power, 0.8, 0.512, 0.288, 0.128, 0.032, 0, 0);
    RATES(&restarts, 0.8, 0.45, 0.8, 0.69748737341529166, 0.45, 0.20251262658470842, 0.8,
          0.77335783637895039);
}

static void stable_then_decay(void **state)
{
    (void)state;
    ls_schedule s = {
        .kind = LS_SCHED_WSD, .warmup_steps = 2, .total_steps = 10, .decay_steps = 4, .min_lr = 0.4
    };
    RATES(&s, 0.4, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.7, 0.6, 0.5, 0.4, 0.4);
    s.decay_steps = 0; /* a tenth of 8 steps, rounded up */
    RATES(&s, 0.4, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.4);
    s = (ls_schedule){ .kind = LS_SCHED_RESTARTS, .period = 4, .period_factor = 1, .warmup_steps = 1 };
    RATES(&s, 0.8, 0.8, 0.8 * 0.85355339059327373, 0.4, 0.8 * 0.14644660940672627, 0.8);
}

static void schedules(void **state)
{
    (void)state;
    const ls_schedule constant = { .kind = LS_SCHED_CONSTANT, .warmup_steps = 4, .total_steps = 10 };
    rate_is(&constant, 0, 0.2); /* the first step is not 0, the last of the ramp is the rate */
    rate_is(&constant, 3, 0.8);
    rate_is(&constant, 4, 0.8);
    rate_is(&constant, 1000, 0.8);
    const ls_schedule stairs = {
        .kind = LS_SCHED_STEP, .step_size = 3, .gamma = 0.5, .warmup_steps = 2, .total_steps = 20
    };
    rate_is(&stairs, 1, 0.8);
    rate_is(&stairs, 4, 0.8);
    rate_is(&stairs, 5, 0.4); /* counted from the end of the ramp */
    rate_is(&stairs, 7, 0.4);
    rate_is(&stairs, 8, 0.2);
    const ls_schedule cosine = {
        .kind = LS_SCHED_COSINE, .warmup_steps = 10, .total_steps = 110, .min_lr = 0.1
    };
    rate_is(&cosine, 9, 0.8);
    rate_is(&cosine, 10, 0.8);
    rate_is(&cosine, 60, 0.45);
    rate_is(&cosine, 35, 0.1 + 0.7 * (1 + sqrt(0.5)) / 2);
    rate_is(&cosine, 110, 0.1);
    rate_is(&cosine, 1 << 30, 0.1); /* it stays there */
    const ls_schedule linear = { .kind = LS_SCHED_LINEAR, .total_steps = 8, .min_lr = 0 };
    rate_is(&linear, 0, 0.8);
    rate_is(&linear, 2, 0.6);
    rate_is(&linear, 7, 0.1);
    rate_is(&linear, 8, 0);
    rate_is(&linear, 9, 0);
    const ls_schedule all_warmup = {
        .kind = LS_SCHED_COSINE, .warmup_steps = 5, .total_steps = 5, .min_lr = 0.1
    };
    rate_is(&all_warmup, 4, 0.8);
    rate_is(&all_warmup, 5, 0.1); /* no division by nothing */
}

enum { N = 6 };
typedef struct machine {
    ls_graph *g;
    ls_plan *plan;
    ls_session *s;
    bool moments, scaling, clipping; /* what the program has */
    /* Copies of its values, which `run` puts before the program runs, and gets behind it. */
    double lr;
    float p[N], grad[N], m[N], v[N], scale, norm;
    int64_t step;
    int32_t good, applied;
} machine;

static void move(const machine *k, void (*copy)(ls_session *, const char *, void *, size_t))
{
    machine *to = (machine *)(uintptr_t)k;
    copy(k->s, "unit root", to->p, sizeof k->p);
    copy(k->s, "grad.unit root", to->grad, sizeof k->grad);
    copy(k->s, "step", &to->step, sizeof k->step);
    copy(k->s, "lr", &to->lr, sizeof k->lr);
    copy(k->s, "applied", &to->applied, sizeof k->applied);
    if (k->moments) {
        copy(k->s, "exp_avg.unit root", to->m, sizeof k->m);
        copy(k->s, "exp_avg_sq.unit root", to->v, sizeof k->v);
    }
    if (k->scaling) {
        copy(k->s, "loss_scale", &to->scale, sizeof k->scale);
        copy(k->s, "loss_scale_good_steps", &to->good, sizeof k->good);
    }
    if (k->clipping)
        copy(k->s, "grad_norm", &to->norm, sizeof k->norm);
}

static void put(ls_session *s, const char *name, void *x, size_t bytes) { value_put(s, name, x, bytes); }

static void run(machine *k)
{
    move(k, put);
    ASSERT_OK(ls_session_run(k->s, 0, false));
    move(k, value_get);
}

static machine start(const ls_update_opts *o, const char *device)
{
    machine k = { .lr = 0.01,
                  .moments = o->optimizer.kind != LS_SGD,
                  .scaling = o->loss_scaling,
                  .clipping = o->clip_norm > 0 };
    ls_device d;
    ASSERT_OK(ls_graph_create(&k.g, "update"));
    const ls_update_unit unit = { .name = "unit root", .type = LS_TYPE(LS_F32, N), .via = LS_F32 };
    ASSERT_OK(ls_update_build(k.g, 1, &unit, o));
    ASSERT_OK(ls_pass_cse(&k.g)); /* as the trainer cleans it */
    ASSERT_OK(ls_pass_dce(&k.g));
    ASSERT_OK(ls_pass_fuse(&k.g));
    ASSERT_OK(ls_device_open(&d, device, &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 2 }));
    ASSERT_OK(ls_plan_create(&k.plan, k.g, &d, NULL));
    ASSERT_OK(ls_session_create(&k.s, 1, &k.plan, NULL));
    for (int i = 0; i < N; i++)
        k.p[i] = (float)(i + 1);
    return k;
}

static void stop(machine *k)
{
    ls_session_destroy(&k->s);
    ls_plan_destroy(&k->plan);
    ls_graph_destroy(&k->g);
}

static void gradients(machine *k, double scale)
{
    for (int i = 0; i < N; i++)
        k->grad[i] = (float)(scale * (i % 2 ? -1 : 1) * (i + 1));
}

static const char *const DEVICES[] = { "ref", "cpu" };

/* A step whose gradient is not finite leaves everything but the scale as it is, with clipping and without,
 * with a loss scale and without. A square that is not finite counts too, with clipping a norm. */
static void bad_gradients_change_nothing(void **state)
{
    (void)state;
    static const float bad[] = { INFINITY, -INFINITY, NAN, 3e38f };
    for (int kind = 0; kind < 32; kind++) {
        const bool scaled = kind / 16;
        machine k = start(&(ls_update_opts){ LS_UPDATE_DEFAULTS,
                                             .optimizer = { LS_OPTIMIZER_DEFAULTS, .weight_decay = 0.1 },
                                             .loss_scaling = scaled, .clip_norm = kind % 2 ? 1 : 0 },
                          DEVICES[kind / 2 % 2]);
        float before[3][N];
        if (scaled)
            k.scale = 1;
        gradients(&k, 1);
        run(&k);
        assert_int_equal(k.applied, 1);
        assert_int_equal(k.step, 1);
        assert_true(k.m[0] != 0);
        memcpy(before[0], k.p, sizeof before[0]);
        memcpy(before[1], k.m, sizeof before[0]);
        memcpy(before[2], k.v, sizeof before[0]);
        k.grad[kind % (N - 1)] = k.grad[kind % (N - 1) + 1] = bad[kind / 4 % 4];
        run(&k);
        assert_int_equal(k.applied, 0);
        assert_memory_equal(before[0], k.p, sizeof before[0]);
        assert_memory_equal(before[1], k.m, sizeof before[0]);
        assert_memory_equal(before[2], k.v, sizeof before[0]);
        assert_int_equal(k.step, 1);
        if (scaled) {
            assert_int_equal(k.good, 0);
            assert_true(k.scale == 0.5);
        }
        gradients(&k, 1e18); /* its square is finite */
        run(&k);
        assert_int_equal(k.applied, 1);
        assert_int_equal(k.step, 2);
        stop(&k);
    }
}

/* After 2000 good steps the scale doubles, and counting starts from 0. */
static void the_scale_grows(void **state)
{
    (void)state;
    machine k = start(
        &(ls_update_opts){ LS_UPDATE_DEFAULTS, .optimizer = { LS_OPTIMIZER_DEFAULTS }, .loss_scaling = true },
        "cpu");
    k.scale = 1024;
    k.good = 1998;
    gradients(&k, 1);
    run(&k);
    assert_true(k.scale == 1024 && k.good == 1999);
    run(&k);
    assert_true(k.scale == 2048 && k.good == 0);
    stop(&k);
}

/* The scale divides out exactly: a scaled gradient gives the update of the plain one. */
static void scaling_is_exact(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        const int d = kind % 2;
        /* adam hardly minds the size of a gradient */
        const ls_optimizer o = { LS_OPTIMIZER_DEFAULTS, .kind = kind < 2 ? LS_ADAM : LS_SGD };
        machine plain = start(&(ls_update_opts){ LS_UPDATE_DEFAULTS, .optimizer = o, .clip_norm = 3 },
                              DEVICES[d]);
        machine scaled = start(
            &(ls_update_opts){ LS_UPDATE_DEFAULTS, .optimizer = o, .clip_norm = 3, .loss_scaling = true },
            DEVICES[d]);
        scaled.scale = 4096;
        for (int k = 0; k < 3; k++) {
            gradients(&plain, 0.37 * (k + 1));
            gradients(&scaled, 0.37 * (k + 1));
            for (int i = 0; i < N; i++)
                scaled.grad[i] *= 4096;
            run(&plain);
            run(&scaled);
            assert_true(plain.norm == scaled.norm);
            assert_memory_equal(plain.p, scaled.p, sizeof plain.p);
        }
        stop(&plain);
        stop(&scaled);
    }
}

/* sgd with rate 1: p loses exactly grad * min(1, clip / (norm + 1e-6)), and norm is the correctly rounded
 * one. */
static void clipping(void **state)
{
    (void)state;
    for (int d = 0; d < 2; d++)
        for (int big = 0; big < 2; big++) {
            machine k = start(&(ls_update_opts){ LS_UPDATE_DEFAULTS,
                                                 .optimizer = { LS_OPTIMIZER_DEFAULTS, .kind = LS_SGD },
                                                 .clip_norm = 2.5 },
                              DEVICES[d]);
            k.lr = 1;
            gradients(&k, big ? 1.1 : 0.1);
            float grad[N], old[N];
            memcpy(grad, k.grad, sizeof grad);
            memcpy(old, k.p, sizeof old);
            double squares = 0;
            for (int i = 0; i < N; i++)
                squares += (double)grad[i] * (double)grad[i];
            run(&k);
            const float norm = (float)sqrt(squares), ratio = 2.5f / (norm + 1e-6f),
                        factor = ratio < 1 ? ratio : 1;
            assert_true(k.norm == norm);
            assert_true(big ? factor < 1 : factor == 1);
            for (int i = 0; i < N; i++)
                assert_true(k.p[i] == old[i] - grad[i] * factor);
            assert_int_equal(k.step, 1);
            stop(&k);
        }
}

/* Gradients whose squares leave f32 have a norm all the same. */
static void extreme_norms(void **state)
{
    (void)state;
    static const float sizes[] = { 1e30f, 1e-30f, 0 };
    for (int d = 0; d < 2; d++)
        for (int i = 0; i < 3; i++) {
            machine k = start(&(ls_update_opts){ LS_UPDATE_DEFAULTS, .optimizer = { LS_OPTIMIZER_DEFAULTS },
                                                 .clip_norm = 1 },
                              DEVICES[d]);
            for (int j = 0; j < N; j++)
                k.grad[j] = j == 2 ? 3 * sizes[i] : j == 4 ? 4 * sizes[i] : 0;
            run(&k);
            assert_true(fabsf(k.norm - 5 * sizes[i]) <= 1e-6f * 5 * sizes[i]);
            for (int j = 0; j < N; j++)
                assert_true(isfinite(k.p[j]) && isfinite(k.v[j]));
            stop(&k);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_as_pytorch),
        cmocka_unit_test(stable_then_decay),
        cmocka_unit_test(schedules),
        cmocka_unit_test(bad_gradients_change_nothing),
        cmocka_unit_test(the_scale_grows),
        cmocka_unit_test(scaling_is_exact),
        cmocka_unit_test(clipping),
        cmocka_unit_test(extreme_norms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
