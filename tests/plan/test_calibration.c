/* The calibration: general speeds, times of kernel calls, and collectives; its files; and what the planner
 * makes of them. */
#include <fcntl.h>
#include <glob.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#include "base/affinity.h"
#include "base/file.h"
#include "ops/rules.h"
#include "plan/plan.h"
#include "plan/collective_speed.h"
#include "support/support.h"

/* Measured on this machine, kept, read back; a file of another machine or a damaged one is refused. */
static void calibration(void **state)
{
    (void)state;
    ls_device d, ref;
    ASSERT_OK(ls_device_open(&d, "cpu", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    ASSERT_OK(ls_device_open(&ref, "ref", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    setenv("LOCKSTEP_CACHE", ls_test_path("cache"), 1);
    ls_calibration c, back;
    ASSERT_FAILS(ls_calibration_load(&c, &d), LS_E_IO, "calibration-");
    ASSERT_OK(ls_calibration_measure(&c, &d));
    /* No machine that runs this is slower; no upper bound, because an unoptimised build spoils the burst but
     * not the kernels. */
    assert_true(c.flops > 1e7 && c.gemm_efficiency > 0 && c.bytes_cache > 1e6 && c.bytes_memory > 1e6 &&
                c.op_overhead > 0);
    assert_true(c.cores >= 1 && c.all_flops > 0 && c.all_memory > 0);
    ASSERT_OK(ls_calibration_save(&c));
    ASSERT_OK(ls_calibration_load(&back, &d));
    assert_string_equal(back.hardware, c.hardware);
    assert_int_equal(back.n_times, 0);
    assert_true(!strcmp(back.arch, c.arch) && back.threads == 1);
    assert_true(back.flops == c.flops && back.gemm_efficiency == c.gemm_efficiency &&
                back.bytes_cache == c.bytes_cache && back.bytes_memory == c.bytes_memory &&
                back.op_overhead == c.op_overhead);
    d.threads = 2;
    ASSERT_FAILS(ls_calibration_load(&back, &d), LS_E_IO, "-2-");
    d.threads = 1;
    c.bytes_memory = 0;
    ASSERT_OK(ls_calibration_save(&c));
    ASSERT_FAILS(ls_calibration_load(&back, &d), LS_E_FORMAT, "bytes_memory", "doctor");
    ASSERT_FAILS(ls_calibration_measure(&c, &ref), LS_E_UNSUPPORTED, "ref");
}

static const ls_calibration SPEEDS = { .device = "cpu",
                                       .threads = 1,
                                       .cores = 1,
                                       .flops = 1e9,
                                       .gemm_efficiency = 0.5,
                                       .bytes_cache = 1e9,
                                       .bytes_memory = 1e8,
                                       .op_overhead = 1e-6 };

static ls_kernel_time timed(uint64_t call, uint64_t kind, double flops, double bytes, double seconds)
{
    return (ls_kernel_time){ call, kind, flops, bytes, seconds, strdup("a kernel") };
}

/* The very call, else the nearest of its kind by work, else the general speeds. */
static void nearest(void **state)
{
    (void)state;
    ls_calibration c = SPEEDS;
    ASSERT_OK(ls_calibration_add(&c, timed(1, 7, 1e6, 1e3, 1e-3 + 1e-6)));
    ASSERT_OK(ls_calibration_add(&c, timed(2, 7, 1e8, 1e5, 5e-2)));
    ASSERT_OK(ls_calibration_add(&c, timed(3, 8, 1e6, 1e3, 1)));
    ASSERT_OK(ls_calibration_add(&c, timed(2, 7, 1e8, 1e5, 6e-2))); /* measured again */
    assert_int_equal(c.n_times, 3);
    assert_true(ls_calibration_has(&c, 3) && !ls_calibration_has(&c, 4));
    const ls_cost small = { 2e6, 2e3 }, large = { 1.5e8, 1.5e5 };
    assert_float_equal(ls_calibration_seconds(&c, 2, 7, LS_F32, small), 6e-2, 0);
    assert_float_equal(ls_calibration_seconds(&c, 4, 7, LS_F32, small), 2e-3 + 1e-6, 1e-12);
    assert_float_equal(ls_calibration_seconds(&c, 4, 7, LS_F32, large), 9e-2, 1e-6);
    assert_float_equal(ls_calibration_seconds(&c, 4, 9, LS_F32, small), 4e-3 + 1e-6, 1e-12);
    ls_calibration_release(&c);
}

/* The number of files of the cache folder; *path becomes that of the first. */
static int list(char path[4096], const char *cache)
{
    glob_t found;
    char pattern[4096];
    snprintf(pattern, sizeof pattern, "%s/calibration-*", ls_test_path(cache));
    const int n = glob(pattern, 0, NULL, &found) ? 0 : (int)found.gl_pathc;
    if (n)
        snprintf(path, 4096, "%s", found.gl_pathv[0]);
    globfree(&found);
    return n;
}

/* A file that names no device is of device cpu. */
static void older_files(void **state)
{
    (void)state;
    ls_device d;
    ASSERT_OK(ls_device_open(&d, "cpu", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    setenv("LOCKSTEP_CACHE", ls_test_path("cache-older"), 1);
    ls_calibration c = SPEEDS;
    c.arch = d.arch->name;
    c.all_flops = c.all_memory = 1;
    ls_calibration_cpu(c.hardware);
    ASSERT_OK(ls_calibration_save(&c));
    char path[4096], *text;
    size_t size;
    assert_int_equal(list(path, "cache-older"), 1);
    for (int k = 0; k < 2; k++) {
        ASSERT_OK(ls_file_read(&text, &size, path));
        char *at = strstr(text, k ? "\"xevice\":\"cpu\"" : "\"device\":\"cpu\"");
        assert_non_null(at);
        memcpy(at, k ? "\"device\":\"gpu\"" : "\"xevice\"", k ? 14 : 8);
        ASSERT_OK(ls_file_write(path, text, size));
        free(text);
        if (k)
            ASSERT_FAILS(ls_calibration_load(&c, &d), LS_E_IO, "another processor, device,");
        else
            ASSERT_OK(ls_calibration_load(&c, &d));
    }
}

/* A file of another build is not used: its kernels may be other ones. */
static void another_build(void **state)
{
    (void)state;
    ls_device d;
    ASSERT_OK(ls_device_open(&d, "cpu", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    setenv("LOCKSTEP_CACHE", ls_test_path("cache-build"), 1);
    ls_calibration c = SPEEDS;
    c.arch = d.arch->name;
    c.all_flops = c.all_memory = 1;
    ls_calibration_cpu(c.hardware);
    ASSERT_OK(ls_calibration_save(&c));
    ASSERT_OK(ls_calibration_load(&c, &d));
    char path[4096], *text, *code;
    size_t size;
    assert_int_equal(list(path, "cache-build"), 1);
    ASSERT_OK(ls_file_read(&text, &size, path));
    code = strstr(text, "\"code\":\"");
    assert_non_null(code);
    code[8] = code[8] == '0' ? '1' : '0';
    ls_str changed = { 0 };
    ls_str_printf(&changed, "%.*s", (int)size, text);
    ASSERT_OK(ls_file_write_text(path, &changed));
    ASSERT_FAILS(ls_calibration_load(&c, &d), LS_E_IO, "another build");
    ls_str_release(&changed);
    free(text);
}

/* Speeds and times that cannot have been measured are refused, with their name. */
static void numbers_that_cannot_be(void **state)
{
    (void)state;
    ls_device d;
    ASSERT_OK(ls_device_open(&d, "cpu", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    setenv("LOCKSTEP_CACHE", ls_test_path("cache-numbers"), 1);
    ls_calibration back;
    for (int wrong = 0; wrong < 6; wrong++) {
        ls_calibration c = SPEEDS;
        c.arch = d.arch->name;
        c.all_flops = c.all_memory = 1;
        ls_calibration_cpu(c.hardware);
        ASSERT_OK(ls_calibration_add(&c, timed(1, 2, 0, wrong == 1 ? -1 : 0, wrong == 2 ? 0 : 1)));
        ASSERT_OK(ls_calibration_add(&c, timed(2, 2, wrong == 3 ? -1 : 0, 0, 1)));
        c.op_overhead = wrong == 4 ? -1 : 1;
        c.cores = wrong == 5 ? 0 : 1;
        ASSERT_OK(ls_calibration_save(&c));
        if (!wrong) {
            ASSERT_OK(ls_calibration_load(&back, &d));
            ls_calibration_release(&back);
        } else {
            ASSERT_FAILS(ls_calibration_load(&back, &d), LS_E_FORMAT, "doctor",
                         wrong == 4   ? "\"op_overhead\" must be a positive number"
                         : wrong == 5 ? "\"cores\" must be a positive number"
                         : wrong == 3 ? "number 1 of \"times\""
                                      : "number 0 of \"times\"");
        }
        ls_calibration_release(&c);
    }
}

/* Builds that are used in turns keep their files: the names have the hash of the code. The oldest go. */
static void builds_keep_their_files(void **state)
{
    (void)state;
    ls_device d;
    ASSERT_OK(ls_device_open(&d, "cpu", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    setenv("LOCKSTEP_CACHE", ls_test_path("cache-builds"), 1);
    ls_calibration c = SPEEDS;
    c.arch = d.arch->name;
    c.all_flops = c.all_memory = 1;
    ls_calibration_cpu(c.hardware);
    ASSERT_OK(ls_calibration_save(&c));
    char path[4096], other[4096], neighbour[4096];
    assert_int_equal(list(path, "cache-builds"), 1);
    char *hash = strrchr(path, '-');
    assert_int_equal(strlen(hash), strlen("-0123456789abcdef.json"));
    for (int i = 0; i < 2 * LS_CALIBRATIONS; i++) { /* older files of other builds, the first is the oldest */
        snprintf(other, sizeof other, "%.*s-%016x.json", (int)(hash - path), path, i);
        ASSERT_OK(ls_file_write(other, "{}", 2));
        const struct timespec old[2] = { { .tv_sec = 1000 + i }, { .tv_sec = 1000 + i } };
        assert_int_equal(utimensat(AT_FDCWD, other, old, 0), 0);
    }
    snprintf(neighbour, sizeof neighbour, "%.*s6-%016x.json", (int)(hash - path), path, 1); /* 16 threads */
    ASSERT_OK(ls_file_write(neighbour, "{}", 2));
    ASSERT_OK(ls_calibration_save(&c));
    ASSERT_OK(ls_calibration_load(&c, &d));
    assert_int_equal(list(path, "cache-builds"), LS_CALIBRATIONS + 1);
    assert_true(ls_file_exists(neighbour) && ls_file_exists(other));
    snprintf(other, sizeof other, "%.*s-%016x.json", (int)(hash - path), path, LS_CALIBRATIONS);
    assert_false(ls_file_exists(other));
}

/* Two threads on one core are no faster than one: such a measurement is too slow. */
static void a_crowded_machine(void **state)
{
    (void)state;
    ls_cpu_set all, one = { 0 };
    assert_true(ls_cpu_set_read(&all));
    for (int cpu = 0; !ls_cpu_set_count(&one); cpu++)
        one.bits[cpu / 64] = all.bits[cpu / 64] & 1ul << cpu % 64;
    assert_true(ls_cpu_set_apply(&one)); /* threads that are started from now on have it, too */
    ls_status s = LS_OK;
    ls_device d;
    ASSERT_OK(ls_device_open(&d, "cpu", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    for (int i = 0; i < 20 && s == LS_OK; i++) /* other programs may have stopped the one thread */
        s = ls_calibration_check(&d, 2);
    ASSERT_FAILS(s, LS_E_IO, "two threads compute no faster than one", "too slow");
    assert_int_equal(ls_calibration_cores(), 1);
    ASSERT_OK(ls_calibration_check(&d, 1)); /* where one is all there is, that says nothing */
    assert_true(ls_cpu_set_apply(&all));
}

/* Over hosts a gather counts as far as nothing is computed while it is under way. */
static void network(void **state)
{
    (void)state;
    ls_device d;
    ASSERT_OK(ls_device_open(&d, "ref", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    double seconds[3];
    for (int k = 0; k < 3; k++) {
        ls_parallel parallel = { LS_PARALLEL_DEFAULTS, .ranks_per_host = k ? 2 : 0 };
        parallel.mesh.axes[0].size = 4;
        ls_calibration c = SPEEDS;
        c.cores = 4;
        if (k == 2)
            c.wires[LS_SPEED_NETWORK] = (ls_collective_speed){ .latency = 1e-3, .bandwidth = 1e6 };
        ls_graph *g;
        ls_plan *p;
        ASSERT_OK(ls_graph_create(&g, "micro"));
        ls_value slice = ls_state(g, "s", LS_TYPE(LS_F32, 250), (ls_init){ 0 });
        ls_value whole = ls_all_gather(
            g, slice,
            &(ls_gather_attrs){ .group = "dp", .unit = "u", .ranks = 4, .to = LS_F32, .via = LS_F32 });
        ls_output(g, "y", ls_tanh(g, whole));
        ASSERT_OK(ls_graph_finish(g));
        ASSERT_OK(ls_plan_create(&p, g, &d, &(ls_plan_opts){ .calibration = &c, .parallel = &parallel }));
        seconds[k] = p->seconds;
        ls_plan_destroy(&p);
        ls_graph_destroy(&g);
    }
    assert_float_equal(seconds[0], seconds[1], 1e-12); /* nothing is known of the network */
    /* 2 ranks of a host share the link, and each takes in the slice of its partner: 2 x 1000 bytes */
    assert_float_equal(seconds[2], seconds[0] + 1e-3 + 2e3 / 1e6, 3e-6);
}

/* An all_reduce waits for the other ranks twice: it sums, and then shares. */
static void turns(void **state)
{
    (void)state;
    ls_device d;
    ASSERT_OK(ls_device_open(&d, "ref", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    double seconds[2];
    for (int k = 0; k < 2; k++) {
        ls_parallel parallel = { LS_PARALLEL_DEFAULTS };
        parallel.mesh.axes[0].size = 4;
        ls_calibration c = SPEEDS;
        c.wires[LS_SPEED_HOST] = (ls_collective_speed){ .latency = k ? 1e-3 : 1e-9, .bandwidth = 1e9 };
        ls_graph *g;
        ls_plan *p;
        ASSERT_OK(ls_graph_create(&g, "micro"));
        ls_value own = ls_tanh(g, ls_input(g, "x", LS_TYPE(LS_F32, 250)));
        const ls_reduce_attrs over = { .group = "dp", .unit = "u", .ranks = 4, .to = LS_F32, .via = LS_F32 };
        ls_output(g, "y", ls_tanh(g, ls_all_reduce(g, own, &over)));
        ASSERT_OK(ls_graph_finish(g));
        ASSERT_OK(ls_plan_create(&p, g, &d, &(ls_plan_opts){ .calibration = &c, .parallel = &parallel }));
        seconds[k] = p->seconds;
        ls_plan_destroy(&p);
        ls_graph_destroy(&g);
    }
    assert_float_equal(seconds[1], seconds[0] + 2e-3, 1e-6);
}

/* Ranks side by side share memory: what streams more than caches hold takes its share of all of it. Four
 * ranks share two cores, too. */
static void crowd(void **state)
{
    (void)state;
    ls_device d;
    ASSERT_OK(ls_device_open(&d, "ref", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    double seconds[2][3];
    for (int size = 0; size < 2; size++)
        for (int k = 0; k < 3; k++) { /* one rank, two and four on a host of two cores */
            ls_parallel parallel = { LS_PARALLEL_DEFAULTS };
            parallel.mesh.axes[0].size = 1 << k;
            ls_calibration c = SPEEDS;
            c.cores = 2;
            c.all_flops = 2e9;
            c.all_memory = 1.25e8;
            ls_graph *g;
            ls_plan *p;
            ASSERT_OK(ls_graph_create(&g, "micro"));
            ls_output(g, "y", ls_tanh(g, ls_input(g, "x", LS_TYPE(LS_F32, size ? 1 << 22 : 1 << 16))));
            ASSERT_OK(ls_graph_finish(g));
            ASSERT_OK(ls_plan_create(&p, g, &d, &(ls_plan_opts){ .calibration = &c, .parallel = &parallel }));
            seconds[size][k] = p->seconds;
            ls_plan_destroy(&p);
            ls_graph_destroy(&g);
        }
    assert_float_equal(seconds[0][1], seconds[0][0], 1e-12);
    const double bytes = 2.0 * 4 * (1 << 22);
    assert_float_equal(seconds[1][0], bytes / 1e8, 1e-4);
    assert_float_equal(seconds[1][1], 2 * bytes / 1.25e8, 1e-6);
    assert_float_equal(seconds[1][2], 2 * seconds[1][1], 1e-12);
    assert_float_equal(seconds[0][2], 2 * seconds[0][1], 1e-12);
}

/* Seconds of a program over hosts that gathers 250 floats of each of `ranks`, and computes `work` elements
 * meanwhile. *messages: those that a rank sends. */
static double gathered(const ls_calibration *c, int ranks, int per_host, int64_t work, double *messages)
{
    ls_device d;
    ls_graph *g;
    ls_plan *p;
    ASSERT_OK(ls_device_open(&d, "ref", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    ls_parallel parallel = { LS_PARALLEL_DEFAULTS, .ranks_per_host = per_host };
    parallel.mesh.axes[0].size = ranks;
    ASSERT_OK(ls_graph_create(&g, "micro"));
    const ls_gather_attrs over = { .group = "dp", .unit = "u", .ranks = ranks, .to = LS_F32, .via = LS_F32 };
    if (work)
        ls_output(g, "z", ls_tanh(g, ls_input(g, "x", LS_TYPE(LS_F32, work))));
    /* (it starts before, since its operand exists) */
    ls_value whole = ls_all_gather(g, ls_state(g, "s", LS_TYPE(LS_F32, 250), (ls_init){ 0 }), &over);
    ls_output(g, "y", ls_tanh(g, whole));
    ASSERT_OK(ls_graph_finish(g));
    ASSERT_OK(ls_plan_create(&p, g, &d, &(ls_plan_opts){ .calibration = c, .parallel = &parallel }));
    const double seconds = p->seconds;
    *messages = (double)p->collectives[0].outgoing.messages;
    ls_plan_destroy(&p);
    ls_graph_destroy(&g);
    return seconds;
}

/* Over hosts: one rank alone does not fill its host's connection, messages cost time, and switches above the
 * hosts pass less than the hosts' connections do. */
static void network_of_a_machine(void **state)
{
    (void)state;
    double messages;
    ls_calibration c = SPEEDS;
    c.cores = 8;
    const double none = gathered(&c, 8, 1, 0, &messages), eight = gathered(&c, 8, 2, 0, &messages);
    c.wires[LS_SPEED_NETWORK] = (ls_collective_speed){ .latency = 1e-3, .bandwidth = 1e6 };
    /* 8 hosts of a rank: 7 slices of 1000 bytes, in messages of 1, 2 and 4 of them */
    assert_float_equal(gathered(&c, 8, 1, 0, &messages), none + 3e-3 + 7e3 / 1e6, 3e-6);
    assert_float_equal(messages, 3, 0);
    c.wires[LS_SPEED_NETWORK].message = 1e-4;
    assert_float_equal(gathered(&c, 8, 1, 0, &messages), none + 3e-3 + 7e3 / 1e6 + 3e-4, 3e-6);
    /* 4 hosts of two ranks: each receives 3 slices, which the rank alone receives at 4e5 B/s */
    c.wires[LS_SPEED_NETWORK] = (ls_collective_speed){ .latency = 1e-3, .bandwidth = 1e6, .alone = 4e5 };
    assert_float_equal(gathered(&c, 8, 2, 0, &messages), eight + 2e-3 + 3e3 / 4e5, 3e-6);
    assert_float_equal(messages, 2, 0);
    /* of 7 hosts 6 are behind switches that pass a quarter */
    c.wires[LS_SPEED_NETWORK] = (ls_collective_speed){ .latency = 1e-3, .bandwidth = 1e6 };
    c.n_switches = 1;
    c.switches[0] = (ls_switch_level){ 2, 4 };
    assert_float_equal(gathered(&c, 8, 1, 0, &messages), none + 1e-3 + 4 * 6e3 / 1e6, 3e-6);
    c.switches[0].hosts = 8;
    assert_float_equal(gathered(&c, 8, 1, 0, &messages), none + 3e-3 + 7e3 / 1e6, 3e-6);
}

/* While messages are under way the communication thread takes a part of a core from computing, if there is no
 * other. */
static void computing_beside_messages(void **state)
{
    (void)state;
    double messages;
    ls_calibration c = SPEEDS;
    c.cores = 1;
    c.wires[LS_SPEED_NETWORK] = (ls_collective_speed){ .latency = 1, .bandwidth = 1e6 };
    const double idle = gathered(&c, 2, 1, 1 << 20, &messages);
    c.wires[LS_SPEED_NETWORK].busy = 0.5;
    c.host_cores = 2; /* a core is free */
    assert_float_equal(gathered(&c, 2, 1, 1 << 20, &messages), idle, 1e-9);
    c.host_cores = 1;
    const double work = 8.0 * (1 << 20) / 1e8; /* shorter than the second of the message, so it hides */
    assert_float_equal(gathered(&c, 2, 1, 1 << 20, &messages), idle, 1e-9);
    c.wires[LS_SPEED_NETWORK].latency = work / 2; /* work / 2 of messages hide work / 3 of computing */
    const double half = gathered(&c, 2, 1, 1 << 20, &messages);
    c.wires[LS_SPEED_NETWORK].busy = 0;
    assert_float_equal(half - gathered(&c, 2, 1, 1 << 20, &messages), work / 6, 0.01 * work);
}

static void *one_rank(void *group)
{
    ls_group *g = group;
    static ls_collective_speed wires[2][LS_COLLECTIVE_SPEEDS];
    const int rank = ls_group_rank(g);
    assert_int_equal(ls_collective_speeds_measure(wires[rank], g), LS_OK);
    ls_group_destroy(&g);
    return wires[rank];
}

static void wires(void **state)
{
    (void)state;
    ls_collective_speed w;
    ASSERT_OK(ls_wire_parse(&w, "20us,12.5GB/s"));
    assert_float_equal(w.latency, 2e-5, 1e-12);
    assert_float_equal(w.bandwidth, 12.5e9, 1);
    static const char *const WRONG[] = { "",         "20",         "20us",        "20us,",     "20us,3",
                                         "20us,3GB", "-1us,3GB/s", "nanus,3GB/s", "20s,1GB/s", "20us,0GB/s" };
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++)
        ASSERT_FAILS(ls_wire_parse(&w, WRONG[i]), LS_E_USAGE, "20us,12.5GB/s");
    ASSERT_FAILS(ls_wire_parse(&w, "5us,100Gb/s"), LS_E_USAGE, "100Gb/s is in bits", "12.5GB/s");
    setenv("LOCKSTEP_CACHE", ls_test_path("cache-wires"), 1);
    ls_group *groups[2];
    ASSERT_OK(ls_group_threads(groups, 2));
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, one_rank, groups[1]), 0);
    const ls_collective_speed *of0 = one_rank(groups[0]);
    void *of1;
    pthread_join(other, &of1);
    assert_true(of0[LS_SPEED_HOST].latency > 0 && of0[LS_SPEED_HOST].bandwidth > 0);
    assert_float_equal(of0[LS_SPEED_NETWORK].bandwidth, 0, 0);         /* there is one host */
    assert_memory_equal(of0, of1, sizeof *of0 * LS_COLLECTIVE_SPEEDS); /* the slower rank counts on both */
    ls_collective_speed back[LS_COLLECTIVE_SPEEDS];
    ls_collective_speeds_load(back);
    assert_float_equal(back[LS_SPEED_HOST].bandwidth, 0, 0);
    ASSERT_OK(ls_collective_speeds_save(of0));
    ls_collective_speeds_load(back);
    assert_memory_equal(of0, back, sizeof back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crowded_machine), /* first: no worker has started yet */
        cmocka_unit_test(calibration),
        cmocka_unit_test(nearest),
        cmocka_unit_test(older_files),
        cmocka_unit_test(another_build),
        cmocka_unit_test(numbers_that_cannot_be),
        cmocka_unit_test(builds_keep_their_files),
        cmocka_unit_test(network),
        cmocka_unit_test(crowd),
        cmocka_unit_test(network_of_a_machine),
        cmocka_unit_test(computing_beside_messages),
        cmocka_unit_test(turns),
        cmocka_unit_test(wires),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
