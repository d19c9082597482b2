/* test_machine.c - files of machines: the bundled ones, what is refused, printing. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "recipe/machine_file.h"
#include "support/support.h"

static ls_arena arena;

static ls_status load(ls_machine *m, const char *text)
{
    char path[256];
    ls_str s = { 0 };
    snprintf(path, sizeof path, "%s", ls_test_path("m.yaml"));
    ls_str_add(&s, text);
    LS_TRY(ls_file_write_text(path, &s));
    ls_str_release(&s);
    return ls_machine_load(m, &arena, path);
}

/* Each says what it is in its first line, and where its figures are from; printed, it is the same again. */
static void bundled(void **state)
{
    (void)state;
    static const char *const NEEDED[] = { "a100", "epyc-9654", "h100", "h100-96gb", "h200", "xeon-8480" };
    const char *name, *summary;
    int found = 0;
    for (int i = 0; (name = ls_machine_bundled(i, &summary)); i++) {
        ls_machine m, again;
        ls_str text = { 0 }, twice = { 0 };
        assert_true(strlen(summary) > 10);
        ASSERT_OK(ls_machine_load(&m, &arena, name));
        assert_true(strlen(m.source) > 20);
        ls_machine_print(&text, &m);
        ASSERT_OK(load(&again, ls_str_text(&text)));
        ls_machine_print(&twice, &again);
        assert_string_equal(ls_str_text(&text), ls_str_text(&twice));
        assert_true(again.device.flops == m.device.flops && again.host.memory == m.host.memory);
        for (size_t k = 0; k < sizeof NEEDED / sizeof *NEEDED; k++)
            found += !strcmp(name, NEEDED[k]);
        ls_str_release(&text);
        ls_str_release(&twice);
    }
    assert_int_equal(found, 6);
    assert_null(ls_machine_bundled(-1, &summary));
}

#define DEVICE "device: {type: cpu, f32: 1TFLOP/s, efficiency: 0.5, bandwidth: 100GB/s, kernel: 1us}\n"
#define HEAD "name: mine\nsource: guessed\nhost: {ranks: 4, cores: 8, memory: 64GiB}\n"

static void units(void **state)
{
    (void)state;
    ls_machine m;
    ASSERT_OK(load(&m, HEAD DEVICE "link: {latency: 300ps, bandwidth: 5TiB/s}\n"
                                   "network: {nics: 2, latency: 3\u00b5s, bandwidth: 1GB/s}\n"));
    assert_float_equal(m.link.latency, 3e-10, 1e-15);
    assert_float_equal(m.network.latency, 3e-6, 1e-12);
    ASSERT_OK(load(&m, HEAD DEVICE "network: {nics: 2, latency: 2.5 ms, bandwidth: 0.5 GB/s, busy: 1}\n"
                                   "switches: [{hosts: 4, oversubscription: 1.5}, {hosts: 16, "
                                   "oversubscription: 3}]\n"));
    assert_float_equal(m.network.latency, 2.5e-3, 1e-12);
    assert_float_equal(m.network.bandwidth, 5e8, 1);
    assert_int_equal(m.host.memory, (int64_t)64 << 30);
    assert_int_equal(m.n_switches, 2);
    assert_float_equal(m.switches[0].oversubscription, 1.5, 0);
    ls_calibration c = { 0 };
    ls_machine_wires(&c, &m);
    assert_float_equal(c.wires[LS_SPEED_NETWORK].bandwidth, 1e9, 1); /* two adapters */
    assert_float_equal(c.wires[LS_SPEED_NETWORK].alone, 5e8, 1);     /* a rank has one */
    ls_device d;
    ASSERT_OK(ls_device_open(&d, "cpu", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 2 }));
    ls_machine_calibration(&c, &m, &d);
    assert_float_equal(c.flops, 2.5e11, 1); /* two of eight cores */
    assert_float_equal(c.all_flops, 1e12, 1);
    assert_int_equal(c.host_cores, 8);
}

static void refusals(void **state)
{
    (void)state;
    static const char *const CASES[][3] = {
        { "", "a machine is a map of keys", "machines/h100.yaml" },
        { "- 1\n", "a machine is a map of keys", "" },
        { HEAD, "device.type is missing", "cpu or cuda" },
        { "name: [1]\n", "m.yaml:1: name", "a text of one line is needed" },
        { HEAD "hots: 3\n", "m.yaml:4: hots", "no such key" },
        { HEAD "network: {nic: 1}\n", "m.yaml:4: network.nic", "did you mean network.nics?" },
        { "host: {ranks: 1.5}\n", "host.ranks: '1.5'", "a whole number from 1 to 1048576" },
        { "host: {ranks: 0}\n", "host.ranks: '0'", "a whole number from 1 to 1048576" },
        { "host: {ranks: -1}\n", "host.ranks: '-1'", "a whole number from 1 to 1048576" },
        { "host: {ranks: 99999999999}\n", "host.ranks", "a whole number from 1 to 1048576" },
        { "host: [8, 64]\n", "m.yaml:1: host: it is a map of keys", "{ranks: 8, cores: 64}" },
        { "name: x\nhost:\n", "m.yaml:2: host: it is a map of keys", "" },
        { "link: 3us\n", "m.yaml:1: link: it is a map of keys", "{latency: 2us, bandwidth: 30GB/s}" },
        { "hosts: {ranks: 8}\n", "m.yaml:1: hosts", "did you mean host?" },
        { "name: \"a\\x1b[31m\"\n", "m.yaml:1: name", "a text of one line" },
        { "host: {memory: 64}\nhost: {}\n", "host", "" },
        { "host: {memory: 64}\n", "host.memory: '64'", "512GiB" },
        { "host: {memory: 64Gi}\n", "host.memory", "512GiB" },
        { "host: {memory: [1]}\n", "host.memory", "512GiB" },
        { "device: {f32: 67TFLOPS}\n", "device.f32: '67TFLOPS'", "989TFLOP/s" },
        { "device: {f32: nanTFLOP/s}\n", "device.f32", "989TFLOP/s" },
        { "device: {f32: 1e300TFLOP/s}\n", "device.f32: '1e300TFLOP/s'", "from 1MFLOP/s to 1000PFLOP/s" },
        { "device: {bandwidth: 1e-300B/s}\n", "device.bandwidth: '1e-300B/s'", "from 1kB/s to" },
        { "device: {kernel: 0s}\n", "device.kernel: '0s'", "from 1ps to 1000s" },
        { "host: {memory: 0.2B}\n", "host.memory: '0.2B'", "from 1MB to 1000PB" },
        { "network: {bandwidth: 100Gb/s}\n", "network.bandwidth: '100Gb/s' is in bits", "12.5GB/s" },
        { "network: {bandwidth: 400 Gbps}\n", "network.bandwidth: '400 Gbps' is in bits", "12.5GB/s" },
        { "device: {bandwidth: 3TB}\n", "device.bandwidth: '3TB'", "3.35TB/s" },
        { "device: {kernel: 3Ms}\n", "device.kernel: '3Ms'", "3us" },
        { "device: {efficiency: 1.5}\n", "device.efficiency: '1.5'", "at most 1" },
        { HEAD "device: {type: tpu, f32: 1TFLOP/s, efficiency: 1, bandwidth: 1GB/s, kernel: 1us}\n",
          "device.type: 'tpu'", "cpu or cuda" },
        { HEAD "device: {type: cuda, f32: 1TFLOP/s, efficiency: 1, bandwidth: 1GB/s, kernel: 1us}\n",
          "device.isa", "device.copies" },
        { HEAD
          "device: {type: cpu, isa: sm_90, f32: 1TFLOP/s, efficiency: 1, bandwidth: 1GB/s, kernel: 1us}\n",
          "device.isa: 'sm_90': device cpu has generic, avx2, avx512, avx512bf16, amx", "" },
        { HEAD
          "device: {type: cpu, isa: avx9, f32: 1TFLOP/s, efficiency: 1, bandwidth: 1GB/s, kernel: 1us}\n",
          "device.isa: 'avx9'", "" },
        { HEAD
          "device: {type: cuda, isa: avx512, f32: 1TFLOP/s, efficiency: 1, bandwidth: 1GB/s, kernel: 1us}\n",
          "device.isa: 'avx512': device cuda has sm_80, ", "" },
        { HEAD "device: {type: cpu, f32: 1TFLOP/s, efficiency: 70%, bandwidth: 1GB/s, kernel: 1us}\n",
          "device.efficiency: '70%': it has to be above 0 and at most 1", "" },
        { HEAD DEVICE "link: {latency: 1us}\n", "link: latency and bandwidth", "" },
        { HEAD DEVICE "network: {nics: 1}\n", "network: nics, bandwidth and latency", "" },
        { HEAD DEVICE "switches: 3\n", "m.yaml:5: switches", "[{hosts: 32" },
        { HEAD DEVICE "switches: [3]\n", "m.yaml:5: switches: a level is a map", "[{hosts: 32" },
        { HEAD DEVICE "switches: [{hosts: 4}]\n", "m.yaml:5: switches: a level needs hosts and over", "" },
        { HEAD DEVICE "switches: [{hosts: 4, oversubscription: 2}]\n", "switches: without network.nics", "" },
        { HEAD DEVICE "network: {message: 1us}\n", "network.message: without network.nics",
          "changes nothing" },
        { HEAD
          "device: {type: cpu, f32: 1TFLOP/s, efficiency: 1, bandwidth: 1GB/s, kernel: 1us, memory: 1GB}\n",
          "device.memory: device cpu works in host memory", "" },
        { HEAD DEVICE "switches: [{hosts: 4, over: 2}]\n", "switches: over", "[{hosts: 32" },
        { HEAD DEVICE "switches: [{hosts: 4, oversubscription: 0.5}]\n", "oversubscription: '0.5'",
          "from 1 to" },
        { HEAD DEVICE "switches: [{hosts: 4, oversubscription: 1}, {hosts: 4, oversubscription: 1}]\n",
          "more hosts than the one before", "which has 4" },
    };
    ls_machine m;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        ASSERT_FAILS(load(&m, CASES[i][0]), LS_E_USAGE, CASES[i][1], CASES[i][2]);
    ASSERT_FAILS(ls_machine_load(&m, &arena, "/nowhere/m.yaml"), LS_E_USAGE, "/nowhere/m.yaml", "h100");
}

static int begin(void **state)
{
    (void)state;
    ls_arena_init(&arena);
    return 0;
}

static int end(void **state)
{
    (void)state;
    ls_arena_release(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bundled),
        cmocka_unit_test(units),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
