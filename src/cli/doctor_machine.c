/* doctor_machine.c - CPU, caches, memory, huge pages, shared memory, limits and cache folder, as Linux
 * reports them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>
#include "base/cpu_limits.h"
#include "base/file.h"
#include "base/sys.h"
#include "base/thread_pool.h"
#include "device/device.h"
#include "doctor.h"

/* The CPU features that choose a kernel, or could choose one. */
static void cpu_features(ls_doctor *d)
{
    static const char *const WANTED[] = { "avx2",        "fma",      "f16c",     "bmi2",        "avx512f",
                                          "avx512bw",    "avx512dq", "avx512vl", "avx512_bf16", "avx512_fp16",
                                          "avx512_vnni", "amx_bf16", "amx_tile" };
    char flags[8192], padded[8194];
    if (!ls_doctor_read(flags, sizeof flags, "/proc/cpuinfo", "flags"))
        return;
    snprintf(padded, sizeof padded, "%s ", flags);
    ls_str found = { 0 };
    for (size_t i = 0; i < sizeof WANTED / sizeof WANTED[0]; i++) {
        char word[32];
        snprintf(word, sizeof word, "%s ", WANTED[i]);
        const char *p = strstr(padded, word);
        if (p && (p == padded || p[-1] == ' '))
            ls_str_printf(&found, "%s%s", found.len ? " " : "", WANTED[i]);
    }
    ls_doctor_line(d, "features", "%s", found.len ? found.data : "none of those that kernels use");
    ls_str_release(&found);
}

static void levels(ls_doctor *d)
{
    ls_str usable = { 0 };
    const char *forced = getenv("LOCKSTEP_ISA");
    for (int i = 0; ls_device_cpu.usable(i); i++)
        ls_str_printf(&usable, "%s%s", i ? " " : "", ls_device_cpu.usable(i)->name);
    ls_doctor_line(d, "kernels", "%s", usable.data);
    ls_str_release(&usable);
    ls_device cpu;
    if (ls_device_open(&cpu, "cpu", &(ls_device_opts){ LS_DEVICE_DEFAULTS }) == LS_OK)
        ls_doctor_line(d, "chosen", "%s%s%s", cpu.arch->name, forced && *forced ? " (LOCKSTEP_ISA)" : "",
                       cpu.arch == ls_device_cpu.usable(0) ? ", slow" : "");
    else
        ls_doctor_note(d, "device cpu does not open: %s", ls_error_message());
}

static void cpu(ls_doctor *d)
{
    char model[256] = "unknown", by[64], bytes[4][32];
    ls_cpu_limit limit;
    ls_doctor_section(d, "CPU");
    if (ls_doctor_read(model, sizeof model, "/proc/cpuinfo", "model name"))
        ls_doctor_line(d, "model", "%s", model);
    cpu_features(d);
    levels(d);
    ls_doctor_line(d, "cores", "%d usable of %ld", ls_cpu_count(), sysconf(_SC_NPROCESSORS_ONLN));
    const double quota = ls_cpu_quota_here().cores;
    if (quota > 0)
        ls_doctor_line(d, "quota", "%.2f cores (control group)", quota);
    const int threads = ls_default_threads(1, &limit);
    ls_doctor_line(d, "threads", "%d by default (%s)", threads, ls_cpu_limit_text(by, limit));
    const int caches[] = { _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE };
    for (int i = 0; i < 3; i++) {
        long n = sysconf(caches[i]);
        snprintf(bytes[i], 32, "unknown");
        if (n > 0)
            ls_format_bytes(bytes[i], (uint64_t)n);
    }
    ls_doctor_line(d, "caches", "L1 %s, L2 %s, L3 %s", bytes[0], bytes[1], bytes[2]);
}

static void memory(ls_doctor *d)
{
    char text[256], bytes[32], free_bytes[32];
    ls_doctor_section(d, "Memory");
    long page = sysconf(_SC_PAGESIZE), all = sysconf(_SC_PHYS_PAGES);
    ls_doctor_line(d, "installed", "%s", ls_format_bytes(bytes, (uint64_t)page * (uint64_t)all));
    if (ls_doctor_read(text, sizeof text, "/proc/meminfo", "MemAvailable"))
        ls_doctor_line(d, "available", "%s", ls_format_bytes(bytes, strtoull(text, NULL, 10) * 1024));
    if (ls_doctor_read(text, sizeof text, "/sys/fs/cgroup/memory.max", NULL) && strcmp(text, "max"))
        ls_doctor_line(d, "limit", "%s (control group)", ls_format_bytes(bytes, strtoull(text, NULL, 10)));
    if (ls_doctor_read(text, sizeof text, "/sys/kernel/mm/transparent_hugepage/enabled", NULL)) {
        ls_doctor_line(d, "huge pages", "transparent: %s", text);
        if (strstr(text, "[never]"))
            ls_doctor_note(
                d, "transparent huge pages are off: large models run slower (enabled: madvise or always)");
    } else {
        ls_doctor_line(d, "huge pages", "not offered by this kernel");
    }
    struct statvfs shm;
    if (!statvfs("/dev/shm", &shm)) /* MPI uses it; Lockstep's own groups do not */
        ls_doctor_line(d, "/dev/shm", "%s free of %s",
                       ls_format_bytes(free_bytes, (uint64_t)shm.f_bavail * shm.f_frsize),
                       ls_format_bytes(bytes, (uint64_t)shm.f_blocks * shm.f_frsize));
}

static void limit(ls_doctor *d, const char *name, int which, bool bytes, rlim_t least)
{
    struct rlimit r;
    char text[32];
    if (getrlimit((__rlimit_resource_t)which, &r))
        return;
    if (r.rlim_cur == RLIM_INFINITY)
        snprintf(text, sizeof text, "unlimited");
    else if (bytes)
        ls_format_bytes(text, r.rlim_cur);
    else
        snprintf(text, sizeof text, "%llu", (unsigned long long)r.rlim_cur);
    ls_doctor_line(d, name, "%s", text);
    if (least && r.rlim_cur < least)
        ls_doctor_note(d, "limit of %s is low: %s", name, text);
}

static void limits(ls_doctor *d)
{
    ls_doctor_section(d, "Limits");
    limit(d, "locked", RLIMIT_MEMLOCK, true, 0);
    limit(d, "open files", RLIMIT_NOFILE, false, 256);
    limit(d, "stack", RLIMIT_STACK, true, 1 << 20);
    limit(d, "address", RLIMIT_AS, true, (rlim_t)1 << 30);
}

static void cache_folder(ls_doctor *d)
{
    char *path = ls_cache_dir();
    const bool writable = ls_dir_writable(path);
    ls_doctor_line(d, "cache", "%s%s", path, writable ? "" : " (not writable)");
    if (!writable)
        ls_doctor_note(d, "the cache folder %s cannot be written: %s; set LOCKSTEP_CACHE", path,
                       strerror(errno));
    free(path);
}

void ls_doctor_machine(ls_doctor *d)
{
    struct utsname os;
    cpu(d);
    memory(d);
    limits(d);
    ls_doctor_section(d, "System");
    if (!uname(&os))
        ls_doctor_line(d, "kernel", "%s %s %s", os.sysname, os.release, os.machine);
    cache_folder(d);
}
