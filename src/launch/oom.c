/* oom.c - reads counters and limits of memory control groups, v1 and v2, and the kernel's log. */
#include "oom.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads the line "oom_kill N". */
static bool read_kills(uint64_t *kills, const char *folder, bool v2)
{
    char path[1200], line[128];
    bool found = false;
    snprintf(path, sizeof path, "%s/%s", folder, v2 ? "memory.events" : "memory.oom_control");
    FILE *f = fopen(path, "re");
    while (f && !found && fgets(line, sizeof line, f))
        found = sscanf(line, "oom_kill %lu", kills) == 1;
    if (f)
        fclose(f);
    return found;
}

static bool try_folder(ls_oom *o, const char *root, const char *path)
{
    snprintf(o->folder, sizeof o->folder, "%s%s", root, path);
    for (int v2 = 1; v2 >= 0; v2--)
        if (read_kills(&o->kills, o->folder, v2)) {
            o->v2 = v2;
            return true;
        }
    o->folder[0] = 0;
    return false;
}

/* Finds the control group in /proc/self/cgroup, lines "0::/a/b" (v2) and "4:memory:/a/b" (v1). In a container
 * the path may be that of the host and not exist; then the root is the group. */
static void find_folder(ls_oom *o)
{
    char line[1024];
    const char *given = getenv("LOCKSTEP_CGROUP");
    if (given && *given) {
        try_folder(o, given, "");
        return;
    }
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && !o->folder[0] && fgets(line, sizeof line, f)) {
        const bool v2 = !strncmp(line, "0::", 3);
        char *path = v2 ? line + 3 : strstr(line, ":memory:");
        if (!path)
            continue;
        path += v2 ? 0 : strlen(":memory:");
        path[strcspn(path, "\n")] = 0;
        const char *root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
        if (!try_folder(o, root, path))
            try_folder(o, root, "");
    }
    if (f)
        fclose(f);
}

void ls_oom_begin(ls_oom *o)
{
    *o = (ls_oom){ .log = -1 };
    find_folder(o);
    if (!o->folder[0] && (o->log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC)) >= 0)
        lseek(o->log, 0, SEEK_END);
}

void ls_oom_end(ls_oom *o)
{
    if (o->log >= 0)
        close(o->log);
    o->log = -1;
}

/* Whether the log names the process. Each read returns one record. */
static bool log_names(int log, pid_t process)
{
    char record[1024], name[48];
    ssize_t n;
    snprintf(name, sizeof name, "Killed process %ld ", (long)process);
    while (log >= 0 && (n = read(log, record, sizeof record - 1)) > 0) {
        record[n] = 0;
        if (strstr(record, name))
            return true;
    }
    return false;
}

/* The smallest limit of the group and of the groups above it. */
static uint64_t find_limit(const ls_oom *o)
{
    char folder[1100], path[1200];
    uint64_t least = UINT64_MAX, one;
    snprintf(folder, sizeof folder, "%s", o->folder);
    for (char *slash; folder[0]; *slash = 0) {
        snprintf(path, sizeof path, "%s/%s", folder, o->v2 ? "memory.max" : "memory.limit_in_bytes");
        FILE *f = fopen(path, "re");
        if (f && fscanf(f, "%lu", &one) == 1 && one < least) /* "max" is not a number: there is no limit */
            least = one;
        if (f)
            fclose(f);
        if (!(slash = strrchr(folder, '/')))
            break;
    }
    return least < (uint64_t)1 << 60 ? least : 0; /* v1 has a huge number for "no limit" */
}

bool ls_oom_killed(const ls_oom *o, pid_t process, uint64_t *limit)
{
    uint64_t now = 0;
    *limit = find_limit(o);
    return o->folder[0] ? read_kills(&now, o->folder, o->v2) && now > o->kills : log_names(o->log, process);
}
