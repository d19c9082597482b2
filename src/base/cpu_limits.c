/* cpu_limits.c - see cpu_limits.h. */
#include "cpu_limits.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "c_locale.h"
#include "thread_pool.h"

static bool read_line(char *text, int size, const char *folder, const char *name)
{
    char path[1400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "re");
    const bool got = f && fgets(text, size, f);
    if (f)
        fclose(f);
    return got;
}

/* Takes the quota of one group if it is smaller. v2: "50000 100000" or "max 100000"; v1: two files, -1 for
 * none. */
static void ask_group(ls_cpu_quota *least, const char *folder, bool v2)
{
    char text[64];
    long long quota = 0, period = 0;
    if (v2) {
        if (!read_line(text, sizeof text, folder, "cpu.max") ||
            sscanf(text, "%lld %lld", &quota, &period) != 2)
            return;
    } else {
        if (!read_line(text, sizeof text, folder, "cpu.cfs_quota_us") || sscanf(text, "%lld", &quota) != 1 ||
            !read_line(text, sizeof text, folder, "cpu.cfs_period_us") || sscanf(text, "%lld", &period) != 1)
            return;
    }
    struct stat st;
    if (quota <= 0 || period <= 0 || stat(folder, &st))
        return;
    const double cores = (double)quota / (double)period;
    if (least->cores == 0 || cores < least->cores)
        *least = (ls_cpu_quota){ cores, (uint64_t)st.st_dev << 40 ^ (uint64_t)st.st_ino };
}

/* The group `path` below `mount`, and all groups above it. In a container the path may be the host's and not
 * exist here; the mount's own folder, which is the container's group, is always read. */
static void ask_groups(ls_cpu_quota *least, const char *mount, const char *path, bool v2)
{
    char folder[1300];
    const size_t top = (size_t)snprintf(folder, sizeof folder, "%s", mount);
    if (top < sizeof folder && !strstr(path, "/.."))
        snprintf(folder + top, sizeof folder - top, "%s", path);
    for (;;) {
        ask_group(least, folder, v2);
        char *slash = strrchr(folder + top, '/');
        if (!slash)
            return;
        *slash = 0;
    }
}

/* Whether `name` is one of the words of "cpu,cpuacct". */
static bool lists(const char *words, size_t n, const char *name)
{
    const size_t size = strlen(name);
    for (const char *p = words; p + size <= words + n; p += strcspn(p, ",:") + 1)
        if (!strncmp(p, name, size) && (p[size] == ',' || p[size] == ':'))
            return true;
    return false;
}

/* A line of /proc/self/cgroup: "0::/a/b" (v2), "4:cpu,cpuacct:/a/b" (v1). Both may be there; v2 is then
 * mounted in a folder `unified`, and v1 in one of its controllers' names. */
static void ask_line(ls_cpu_quota *least, const char *root, const char *line)
{
    char path[1024], mount[200];
    const char *controllers = strchr(line, ':'), *at = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!at)
        return;
    controllers++;
    const size_t n = (size_t)(at - controllers);
    snprintf(path, sizeof path, "%.*s", (int)strcspn(at + 1, "\n"), at + 1);
    if (n == 0) {
        ask_groups(least, root, path, true);
        snprintf(mount, sizeof mount, "%s/unified", root);
        ask_groups(least, mount, path, true);
    } else if (lists(controllers, n, "cpu")) {
        static const char *const FOLDERS[] = { "cpu", "cpu,cpuacct", "cpuacct,cpu" };
        for (int i = 0; i < 3; i++) {
            snprintf(mount, sizeof mount, "%s/%s", root, FOLDERS[i]);
            ask_groups(least, mount, path, false);
        }
    }
}

ls_cpu_quota ls_cpu_quota_read(const char *root, const char *groups)
{
    ls_cpu_quota least = { 0 };
    for (const char *line = groups; *line; line += strcspn(line, "\n"), line += *line == '\n')
        ask_line(&least, root, line);
    return least;
}

ls_cpu_quota ls_cpu_quota_here(void)
{
    char text[8192];
    FILE *f = fopen("/proc/self/cgroup", "re");
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = 0;
    return ls_cpu_quota_read(LS_CGROUP_ROOT, text);
}

int ls_quota_threads(double cores) { return cores < 1 ? 1 : cores < 1 << 20 ? (int)cores : 1 << 20; }

/* OMP_NUM_THREADS may be a list, one number for each level of nesting: the first counts. */
static int number_in(const char *variable)
{
    const char *text = getenv(variable);
    char *end;
    const long n = text ? strtol(text, &end, 10) : 0;
    return n > 0 && n < 1 << 20 && (!*end || *end == ',') ? (int)n : 0;
}

int ls_threads_told(int threads, ls_cpu_limit *limit)
{
    static const char *const VARIABLES[] = { "OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK" };
    for (int i = 0; i < 2; i++) {
        const int n = number_in(VARIABLES[i]);
        if (n && n < threads) {
            threads = n;
            *limit = i ? LS_CPU_SLURM : LS_CPU_OMP;
        }
    }
    return threads;
}

int ls_threads_within(double quota, int sharers, int threads, ls_cpu_limit *limit)
{
    const int allowed = ls_quota_threads(quota / sharers);
    if (quota <= 0 || allowed >= threads)
        return threads;
    *limit = LS_CPU_QUOTA;
    return allowed;
}

int ls_default_threads(int ranks, ls_cpu_limit *limit)
{
    ls_cpu_limit by = LS_CPU_AFFINITY;
    int threads = ls_threads_within(ls_cpu_quota_here().cores, ranks, ls_cpu_count() / ranks, &by);
    threads = ls_threads_told(threads > 0 ? threads : 1, &by);
    if (limit)
        *limit = by;
    return threads;
}

const char *ls_cpu_limit_text(char text[64], ls_cpu_limit limit)
{
    static const char *const WORDS[] = { "cores", "cgroup quota", "OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK" };
    snprintf(text, 64, "%s", WORDS[limit]);
    if (limit == LS_CPU_QUOTA)
        ls_snprintf(text, 64, "cgroup quota of %.2f cores", ls_cpu_quota_here().cores);
    return text;
}
