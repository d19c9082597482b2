/* test_cpu_limits.c - the quota of control groups of version 1 and 2, nested and in a container, from made-up
 * folders; and what decides the number of threads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu_limits.h"
#include "base/file.h"
#include "base/thread_pool.h"
#include "support/support.h"

static const char *root;
static void put(const char *name, const char *text)
{
    char *path = ls_path_join(root, name);
    ASSERT_OK(ls_make_parent(path));
    ASSERT_OK(ls_file_write(path, text, strlen(text)));
    free(path);
}

static double cores(const char *groups) { return ls_cpu_quota_read(root, groups).cores; }

static void version_2(void **state)
{
    (void)state;
    root = ls_test_path("v2");
    put("a/b/cpu.max", "max 100000\n");
    put("a/cpu.max", "250000 100000\n");
    put("a/c/cpu.max", "50000 100000\n");
    put("d/cpu.max", "max 100000\n");
    assert_float_equal(cores("0::/a/b\n"), 2.5, 1e-12); /* the parent's */
    assert_float_equal(cores("0::/a/c\n"), 0.5, 1e-12); /* the smaller one */
    assert_float_equal(cores("0::/a\n"), 2.5, 1e-12);
    assert_float_equal(cores("0::/d\n"), 0, 0);
    assert_float_equal(cores("0::/\n"), 0, 0);
    assert_float_equal(cores(""), 0, 0);
    assert_float_equal(cores("nonsense\n1\n:\n"), 0, 0);
    /* processes of one group share its quota: the group is the one that sets it */
    assert_true(ls_cpu_quota_read(root, "0::/a/b\n").group == ls_cpu_quota_read(root, "0::/a\n").group);
    assert_true(ls_cpu_quota_read(root, "0::/a/c\n").group != ls_cpu_quota_read(root, "0::/a\n").group);
    /* a container sees its own group as the mount, under the path of the host or outside of its name space */
    put("cpu.max", "150000 100000\n");
    assert_float_equal(cores("0::/kubepods/pod1/c2\n"), 1.5, 1e-12);
    assert_float_equal(cores("0::/../../other\n"), 1.5, 1e-12);
}

static void version_1(void **state)
{
    (void)state;
    root = ls_test_path("v1");
    put("cpu,cpuacct/slurm/job_1/step_0/cpu.cfs_quota_us", "-1\n");
    put("cpu,cpuacct/slurm/job_1/step_0/cpu.cfs_period_us", "100000\n");
    put("cpu,cpuacct/slurm/job_1/cpu.cfs_quota_us", "300000\n");
    put("cpu,cpuacct/slurm/job_1/cpu.cfs_period_us", "100000\n");
    assert_float_equal(cores("9:memory:/\n4:cpu,cpuacct:/slurm/job_1/step_0\n0::/x\n"), 3, 1e-12);
    assert_float_equal(cores("4:cpuacct,cpuset:/slurm/job_1\n"), 0, 0); /* cpu is not part of cpuset */
    put("cpu/own/cpu.cfs_quota_us", "50000");
    put("cpu/own/cpu.cfs_period_us", "100000");
    assert_float_equal(cores("1:cpu:/own"), 0.5, 1e-12);
    put("unified/b/cpu.max", "20000 100000"); /* both versions at once: the least */
    assert_float_equal(cores("1:cpu:/own\n0::/b\n"), 0.2, 1e-12);
}

static void the_least_decides(void **state)
{
    (void)state;
    ls_cpu_limit by = LS_CPU_AFFINITY;
    char text[64];
    assert_int_equal(ls_quota_threads(0.5), 1);
    assert_int_equal(ls_quota_threads(1.9), 1);
    assert_int_equal(ls_quota_threads(4), 4);
    assert_int_equal(ls_threads_within(0, 3, 8, &by), 8);
    assert_int_equal(ls_threads_within(9, 2, 4, &by), 4);
    assert_int_equal(by, LS_CPU_AFFINITY);
    assert_int_equal(ls_threads_within(5, 3, 2, &by), 1); /* each has its part of the quota */
    assert_int_equal(by, LS_CPU_QUOTA);
    by = LS_CPU_AFFINITY;
    unsetenv("OMP_NUM_THREADS");
    unsetenv("SLURM_CPUS_PER_TASK");
    assert_int_equal(ls_threads_told(8, &by), 8);
    assert_int_equal(by, LS_CPU_AFFINITY);
    setenv("OMP_NUM_THREADS", "6,2", 1); /* the outermost level */
    assert_int_equal(ls_threads_told(8, &by), 6);
    assert_string_equal(ls_cpu_limit_text(text, by), "OMP_NUM_THREADS");
    setenv("SLURM_CPUS_PER_TASK", "3", 1);
    assert_int_equal(ls_threads_told(8, &by), 3);
    assert_string_equal(ls_cpu_limit_text(text, by), "SLURM_CPUS_PER_TASK");
    assert_int_equal(ls_threads_told(2, &by), 2);
    static const char *const NONE[] = { "0", "-2", "", "many", "3x", "99999999999999999999" };
    unsetenv("SLURM_CPUS_PER_TASK");
    for (size_t i = 0; i < sizeof NONE / sizeof *NONE; i++) {
        setenv("OMP_NUM_THREADS", NONE[i], 1);
        assert_int_equal(ls_threads_told(8, &by), 8);
    }
    unsetenv("OMP_NUM_THREADS");
    assert_true(ls_default_threads(1, &by) <= ls_cpu_count());
    assert_int_equal(ls_default_threads(1 << 20, &by), 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    assert_int_equal(ls_default_threads(1, &by), 1);
    unsetenv("OMP_NUM_THREADS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_2),
        cmocka_unit_test(version_1),
        cmocka_unit_test(the_least_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
