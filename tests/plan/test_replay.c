/* Kernel calls of a plan are measured: on the CPU, and on a queue of a device whose memory is its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "device/queue.h"
#include "plan/plan.h"
#include "plan/replay.h"
#include "support/support.h"

static const ls_calibration SPEEDS = { .device = "cpu",
                                       .threads = 1,
                                       .cores = 1,
                                       .flops = 1e9,
                                       .gemm_efficiency = 0.5,
                                       .bytes_cache = 1e9,
                                       .bytes_memory = 1e8,
                                       .op_overhead = 1e-6 };

static void chain(ls_graph **g, int64_t rows)
{
    ASSERT_OK(ls_graph_create(g, "micro"));
    ls_value x = ls_input(*g, "x", LS_TYPE(LS_F32, rows, 64)),
             w = ls_param(*g, "w", LS_TYPE(LS_F32, 64, 64), (ls_init){ 0 });
    for (int i = 0; i < 12; i++)
        x = ls_matmul_wt(*g, x, w, LS_NONE);
    ls_output(*g, "y", x);
    ASSERT_OK(ls_graph_finish(*g));
}

/* A call of a plan is measured once, whatever repeats; the plan then takes its time, and a file keeps it. */
static void replayed(void **state)
{
    (void)state;
    ls_device d;
    ASSERT_OK(ls_device_open(&d, "cpu", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    setenv("LOCKSTEP_CACHE", ls_test_path("cache"), 1);
    ls_calibration c = SPEEDS, back;
    c.arch = d.arch->name;
    c.all_flops = c.all_memory = 1e9;
    ls_calibration_cpu(c.hardware);
    for (int k = 0; k < 2; k++) {
        ls_graph *g;
        ls_plan *p;
        chain(&g, 32 << k);
        ASSERT_OK(ls_plan_create(&p, g, &d, &(ls_plan_opts){ .calibration = &c }));
        assert_int_equal(p->n_kernels, 12);
        assert_int_equal(p->n_measured, 0);
        const double before = p->seconds;
        ASSERT_OK(ls_calibration_replay(&c, p));
        assert_int_equal(c.n_times, k + 1);
        ASSERT_OK(ls_plan_estimate(p, &c, NULL));
        assert_int_equal(p->n_measured, 12);
        assert_float_equal(p->seconds, 12 * c.times[k].seconds, 1e-12);
        assert_true(p->seconds != before && c.times[k].seconds > 0);
        const double once = c.times[k].seconds;
        ASSERT_OK(ls_calibration_replay(&c, p)); /* nothing is left to measure */
        assert_true(c.times[k].seconds == once);
        ls_device other = d;
        other.threads = 2;
        p->device = other;
        ASSERT_FAILS(ls_calibration_replay(&c, p), LS_E_UNSUPPORTED, "measured on the machine that has them");
        ls_plan_destroy(&p);
        ls_graph_destroy(&g);
    }
    assert_true(c.times[1].flops == 2 * c.times[0].flops && c.times[0].kind == c.times[1].kind);
    ASSERT_OK(ls_calibration_save(&c));
    ASSERT_OK(ls_calibration_load(&back, &d));
    assert_int_equal(back.n_times, 2);
    for (int k = 0; k < 2; k++) {
        assert_true(back.times[k].call == c.times[k].call && back.times[k].kind == c.times[k].kind &&
                    back.times[k].seconds == c.times[k].seconds && back.times[k].flops == c.times[k].flops);
        ASSERT_CONTAINS(back.times[k].text, "linear(f32 [");
    }
    ls_calibration_release(&back);
    ls_calibration_release(&c);
}

/* A device whose memory is its own, as far as plans and calibrations know: a CPU that says so. */
static ls_queue_ops far_queue;
static ls_device_ops far_ops;
static int waits, kernels, most_kernels; /* kernels in the queue since the last wait; the most of them */

static ls_status count_wait(ls_queue *q, int64_t *failed)
{
    waits++;
    most_kernels = kernels > most_kernels ? kernels : most_kernels;
    kernels = 0;
    return ls_queue_direct.wait(q, failed);
}

static void count_kernel(ls_queue *q, const ls_kernel *k, const ls_kernel_args *a)
{
    kernels++;
    ls_queue_direct.run(q, k, a);
}

static ls_status bad_memory(ls_queue *q, int64_t *failed)
{
    (void)q;
    *failed = 3;
    return ls_fail(LS_E_IO, "bad memory");
}

static void open_far(ls_device *out)
{
    ASSERT_OK(ls_device_open(out, "cpu", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    far_queue = ls_queue_direct;
    far_queue.apart = true;
    far_queue.wait = count_wait;
    far_queue.run = count_kernel;
    far_ops = *out->ops;
    far_ops.name = "far";
    far_ops.queue = &far_queue;
    out->ops = &far_ops;
}

/* Its link is measured, too, and the CPU beside it; both have files of their own. */
static void a_far_device(void **state)
{
    (void)state;
    ls_device far, cpu;
    open_far(&far);
    ASSERT_OK(ls_device_open(&cpu, "cpu", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    setenv("LOCKSTEP_CACHE", ls_test_path("cache-far"), 1);
    ls_calibration c, back;
    ASSERT_OK(ls_calibration_measure(&c, &far));
    assert_true(c.to_device > 1e6 && c.to_host > 1e6 && c.host && c.host->flops > 0);
    assert_true(c.host->to_device == 0 && c.host->to_host == 0 && !c.host->host);
    ASSERT_OK(ls_calibration_save(&c));
    ASSERT_OK(ls_calibration_load(&back, &far));
    assert_string_equal(back.device, "far");
    assert_true(back.to_device == c.to_device && back.to_host == c.to_host && back.flops == c.flops);
    assert_string_equal(back.host->device, "cpu");
    assert_true(back.host->flops == c.host->flops);
    ls_calibration_release(&back);
    ASSERT_OK(ls_calibration_load(&back, &cpu));
    assert_true(back.to_device == 0 && !back.host && back.flops == c.host->flops);
    c.to_device = 0;
    ASSERT_OK(ls_calibration_save(&c));
    ASSERT_FAILS(ls_calibration_load(&back, &far), LS_E_FORMAT, "\"to_device\" must be a positive number");
    c.to_device = 1;
    c.to_host = -1;
    ASSERT_OK(ls_calibration_save(&c));
    ASSERT_FAILS(ls_calibration_load(&back, &far), LS_E_FORMAT, "\"to_host\" must be a positive number");
    c.to_host = 1;
    ls_calibration *host = c.host;
    c.host = NULL;
    setenv("LOCKSTEP_CACHE", ls_test_path("cache-without-host"), 1);
    ASSERT_OK(ls_calibration_save(&c));
    ASSERT_FAILS(ls_calibration_load(&back, &far), LS_E_IO, "calibration-");
    ASSERT_OK(ls_calibration_save(host));
    ASSERT_OK(ls_calibration_load(&back, &far));
    ls_calibration_release(&back);
    c.host = host;
    ls_calibration_release(&c);
}

/* On its queue several calls wait for their turn, and the host waits rarely. A program on the host beside it
 * is measured there. */
static void replayed_far_away(void **state)
{
    (void)state;
    ls_device far, cpu;
    open_far(&far);
    ASSERT_OK(ls_device_open(&cpu, "cpu", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    ls_calibration c = SPEEDS, host = SPEEDS;
    c.device = "far";
    c.arch = host.arch = cpu.arch->name;
    c.host = &host;
    for (int k = 0; k < 2; k++) {
        ls_graph *g;
        ls_plan *p;
        chain(&g, 32);
        ASSERT_OK(ls_plan_create(&p, g, k ? &cpu : &far, &(ls_plan_opts){ .calibration = &c }));
        waits = kernels = most_kernels = 0;
        if (!k) {
            far_queue.wait = bad_memory;
            ASSERT_FAILS(ls_calibration_replay(&c, p), LS_E_IO, "\"micro\"",
                         "step 3 of 12 (linear): bad memory");
            far_queue.wait = count_wait;
        }
        kernels = 0;
        ASSERT_OK(ls_calibration_replay(&c, p));
        assert_int_equal(c.n_times, 1);
        assert_int_equal(host.n_times, k);
        assert_int_equal(most_kernels, k ? 0 : 8);
        assert_true(k ? waits == 0 : waits >= 4 && waits <= 2 * 6); /* two passes or more, of 12 calls */
        ASSERT_OK(ls_plan_estimate(p, &c, NULL));
        assert_int_equal(p->n_measured, 12);
        assert_float_equal(p->seconds, 12 * (k ? host : c).times[0].seconds, 1e-12);
        ls_plan_destroy(&p);
        ls_graph_destroy(&g);
    }
    c.host = NULL;
    ls_calibration_release(&c);
    ls_calibration_release(&host);
}

/* The same on device emulated, whose memory faults if the host touches it. */
static void on_emulated(void **state)
{
    (void)state;
    ls_device d;
    ls_calibration c, back;
    setenv("LOCKSTEP_EMULATED", "seed=1,delay=10us", 1);
    setenv("LOCKSTEP_CACHE", ls_test_path("cache-emulated"), 1);
    ASSERT_OK(ls_device_open(&d, "emulated", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    ASSERT_OK(ls_calibration_measure(&c, &d));
    assert_string_equal(c.device, "emulated");
    assert_true(c.flops > 1e7 && c.op_overhead > 0 && c.to_device > 1e6 && c.to_host > 1e6 && c.host);
    ls_graph *g;
    ls_plan *p;
    chain(&g, 32);
    ASSERT_OK(ls_plan_create(&p, g, &d, &(ls_plan_opts){ .calibration = &c }));
    ASSERT_OK(ls_calibration_replay(&c, p));
    assert_int_equal(c.n_times, 1);
    assert_true(c.times[0].seconds > 0);
    ASSERT_OK(ls_calibration_save(&c));
    ASSERT_OK(ls_calibration_load(&back, &d));
    assert_int_equal(back.n_times, 1);
    assert_true(back.times[0].seconds == c.times[0].seconds);
    ls_calibration_release(&back);
    ls_calibration_release(&c);
    setenv("LOCKSTEP_EMULATED", "fail=2", 1); /* the first task fills a room */
    c = (ls_calibration){ .arch = d.arch->name, .device = "emulated", .threads = 1 };
    ASSERT_FAILS(ls_calibration_replay(&c, p), LS_E_DEVICE,
                 "while kernels of program \"micro\" were measured", "task 2 of the first queue");
    assert_int_equal(c.n_times, 0);
    unsetenv("LOCKSTEP_EMULATED");
    ls_plan_destroy(&p);
    ls_graph_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replayed),
        cmocka_unit_test(a_far_device),
        cmocka_unit_test(replayed_far_away),
        cmocka_unit_test(on_emulated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
