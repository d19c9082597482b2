/* test_affinity.c - divides hardware threads among ranks, on made-up topologies: every rank gets whole,
 * contiguous cores, or no rank is bound. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/affinity.h"
#include "base/file.h"
#include "base/topology.h"
#include "support/support.h"

static ls_cpu_set set_of(const int *cpus, int n)
{
    ls_cpu_set s = { 0 };
    for (int i = 0; i < n; i++)
        s.bits[(size_t)cpus[i] / (8 * sizeof(long))] |= 1ul << (size_t)cpus[i] % (8 * sizeof(long));
    return s;
}

static void put(const char *sys, const char *name, const char *text)
{
    char path[700], folder[700];
    snprintf(path, sizeof path, "%s/%s", sys, name);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    ASSERT_OK(ls_make_dirs(folder));
    ASSERT_OK(ls_file_write(path, text, strlen(text)));
}

/* /sys of a machine: hardware thread i is one of core[i] in package[i]. */
static const char *machine(const char *name, int n, const int *core, const int *package)
{
    char file[200], text[32];
    const char *sys = ls_test_path(name);
    for (int i = 0; i < n; i++) {
        snprintf(file, sizeof file, "cpu/cpu%d/topology/core_id", i);
        snprintf(text, sizeof text, "%d\n", core[i]);
        put(sys, file, text);
        snprintf(file, sizeof file, "cpu/cpu%d/topology/physical_package_id", i);
        snprintf(text, sizeof text, "%d\n", package[i]);
        put(sys, file, text);
    }
    return sys;
}

static const int ALL[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };
#define ASSERT_PART(part, expected) assert_string_equal(ls_cpu_set_text(text, sizeof text, &(part)), expected)

static void ranks_get_whole_cores(void **state)
{
    (void)state;
    char text[64];
    ls_cpu_set parts[8], all = set_of(ALL, 8);
    /* the usual numbering: first one hardware thread of each core, then the others */
    const char *sys = machine("smt", 8, (int[]){ 0, 1, 2, 3, 0, 1, 2, 3 }, (int[8]){ 0 });
    assert_true(ls_cpu_set_divide(parts, &all, 2, 1, sys));
    ASSERT_PART(parts[0], "0-1,4-5");
    ASSERT_PART(parts[1], "2-3,6-7");
    assert_true(ls_cpu_set_divide(parts, &all, 3, 2, sys));
    ASSERT_PART(parts[0], "0,4");
    ASSERT_PART(parts[1], "1,5");
    ASSERT_PART(parts[2], "2-3,6-7");
    /* fewer cores than ranks: a hardware thread each, neighbours on one core */
    assert_true(ls_cpu_set_divide(parts, &all, 8, 1, sys));
    ASSERT_PART(parts[0], "0");
    ASSERT_PART(parts[1], "4");
    assert_true(ls_cpu_set_divide(parts, &all, 4, 2, sys));
    ASSERT_PART(parts[3], "3,7");
    assert_int_equal(ls_cpu_set_cores(&all, sys), 4);
    assert_int_equal(ls_cpu_set_cores(&parts[3], sys), 1);
    assert_int_equal(ls_cpu_set_cores(&all, ls_test_path("no such sys")), 8);
}

static void neighbours_share_package_and_node(void **state)
{
    (void)state;
    char text[64];
    ls_cpu_set parts[4], all = set_of(ALL, 8);
    const char *sys = machine("packages", 8, (int[]){ 0, 0, 1, 1, 2, 2, 3, 3 },
                              (int[]){ 0, 1, 0, 1, 0, 1, 0, 1 });
    assert_true(ls_cpu_set_divide(parts, &all, 2, 4, sys));
    ASSERT_PART(parts[0], "0,2,4,6");
    ASSERT_PART(parts[1], "1,3,5,7");
    /* packages number their cores alike */
    sys = machine("alike", 4, (int[4]){ 0 }, (int[]){ 0, 0, 1, 1 });
    all = set_of(ALL, 4);
    assert_int_equal(ls_cpu_set_cores(&all, sys), 2);
    all = set_of(ALL, 8);
    sys = machine("nodes", 8, (int[]){ 0, 1, 2, 3, 4, 5, 6, 7 }, (int[8]){ 0 });
    put(sys, "node/node0/cpulist", "0-1,6-7\n");
    put(sys, "node/node1/cpulist", "2-5\n");
    assert_true(ls_cpu_set_divide(parts, &all, 2, 4, sys));
    ASSERT_PART(parts[0], "0-1,6-7");
    ASSERT_PART(parts[1], "2-5");
}

static void only_what_the_process_may_use_is_divided(void **state)
{
    (void)state;
    char text[64];
    ls_cpu_set parts[4], some = set_of((int[]){ 2, 3, 6, 7 }, 4);
    const char *sys = machine("mask", 8, (int[]){ 0, 1, 2, 3, 0, 1, 2, 3 }, (int[8]){ 0 });
    assert_true(ls_cpu_set_divide(parts, &some, 2, 1, sys));
    ASSERT_PART(parts[0], "2,6");
    ASSERT_PART(parts[1], "3,7");
    assert_false(ls_cpu_set_meet(&parts[0], &parts[1]));
    assert_true(ls_cpu_set_meet(&parts[0], &some));
}

static void too_few_bind_nobody(void **state)
{
    (void)state;
    ls_cpu_set parts[16], all = set_of(ALL, 4);
    const char *sys = machine("few", 4, (int[]){ 0, 1, 2, 3 }, (int[4]){ 0 });
    assert_false(ls_cpu_set_divide(parts, &all, 5, 1, sys));
    assert_false(ls_cpu_set_divide(parts, &all, 2, 3, sys));
    assert_false(ls_cpu_set_divide(parts, &all, 3, 2, sys)); /* 1, 1 and 2 */
    assert_true(ls_cpu_set_divide(parts, &all, 2, 2, sys));
    /* every hardware thread a core */
    assert_true(ls_cpu_set_divide(parts, &all, 4, 1, ls_test_path("no such sys")));
}

static void this_thread_has_a_set(void **state)
{
    (void)state;
    ls_cpu_set mine, again;
    assert_true(ls_cpu_set_read(&mine));
    assert_true(ls_cpu_set_count(&mine) >= 1);
    assert_true(ls_cpu_set_apply(&mine));
    assert_true(ls_cpu_set_read(&again));
    assert_memory_equal(&mine, &again, sizeof mine);
}

static void sets_are_written_short(void **state)
{
    (void)state;
    char text[16];
    ls_cpu_set s = set_of((int[]){ 0, 1, 2, 64, 8191 }, 5),
               odd = set_of((int[]){ 1, 3, 5, 7, 9, 11, 13, 15, 17 }, 9);
    assert_string_equal(ls_cpu_set_text(text, sizeof text, &s), "0-2,64,8191");
    assert_int_equal(ls_cpu_set_count(&s), 5);
    assert_string_equal(ls_cpu_set_text(text, sizeof text, &odd), "1,3,5,7,9,11...");
    assert_string_equal(ls_cpu_set_text(text, sizeof text, &(ls_cpu_set){ 0 }), "");
}

static void hwloc_tells_the_machine(void **state)
{
    (void)state;
    char text[160] = "";
#ifndef LS_TEST_HWLOC
    ls_test_skip("this build has no hwloc (Debian: libhwloc-dev)");
#endif
    if (!dlopen("libhwloc.so.15", RTLD_NOW))
        ls_test_skip("libhwloc.so.15 is not here");
    assert_true(ls_topology_text(text));
    ASSERT_CONTAINS(text, "core");
    ASSERT_CONTAINS(text, "hardware thread");
    ASSERT_CONTAINS(text, "memory node");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_get_whole_cores),
        cmocka_unit_test(neighbours_share_package_and_node),
        cmocka_unit_test(only_what_the_process_may_use_is_divided),
        cmocka_unit_test(too_few_bind_nobody),
        cmocka_unit_test(this_thread_has_a_set),
        cmocka_unit_test(sets_are_written_short),
        cmocka_unit_test(hwloc_tells_the_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
