/* memory_room.c - checks whether there is room for more memory. Two limits count: the memory that the
 * machine has free or can free, and the memory that the control groups of this process (v1 and v2) still
 * allow. They are read before memory is allocated, because the kernel kills a process that exceeds them. */
#include "memory_room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

/* The value of the line "KEY N" or "KEY: N" of a file, in the file's units. */
static bool read_key(const char *path, const char *key, uint64_t *value)
{
    char line[256];
    bool found = false;
    size_t n = strlen(key);
    FILE *f = fopen(path, "re");
    while (f && !found && fgets(line, sizeof line, f))
        found = !strncmp(line, key, n) && sscanf(line + n, "%*[: \t]%lu", value) == 1;
    if (f)
        fclose(f);
    return found;
}

static bool read_number(const char *path, uint64_t *value) /* false for "max", which means no limit */
{
    FILE *f = fopen(path, "re");
    bool found = f && fscanf(f, "%lu", value) == 1;
    if (f)
        fclose(f);
    return found;
}

/* Lowers *room to what one control group still allows: its limit minus the memory that it uses and cannot
 * drop. */
static void ask_group(const char *folder, const char *limit_file, const char *usage_file,
                      const char *cache_key, uint64_t *room)
{
    char path[1200];
    uint64_t limit, used = 0, cache = 0;
    snprintf(path, sizeof path, "%s/%s", folder, limit_file);
    if (!read_number(path, &limit))
        return;
    snprintf(path, sizeof path, "%s/%s", folder, usage_file);
    read_number(path, &used);
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    read_key(path, cache_key, &cache);
    used -= cache < used ? cache : used;
    uint64_t left = limit > used ? limit - used : 0;
    if (left < *room)
        *room = left;
}

/* Applies the limits of a control group and of all groups above it. `line` is a line of /proc/self/cgroup:
 * "0::/a/b" (v2) or "4:memory:/a/b" (v1). In a container the path may be the machine's and not exist; then
 * the root is read. */
static void ask_groups(char *line, uint64_t *room)
{
    char folder[1100];
    bool v2 = !strncmp(line, "0::", 3);
    char *path = v2 ? line + 3 : strstr(line, ":memory:");
    if (!path)
        return;
    path += v2 ? 0 : strlen(":memory:");
    path[strcspn(path, "\n")] = 0;
    for (;;) {
        snprintf(folder, sizeof folder, "/sys/fs/cgroup%s%s", v2 ? "" : "/memory", path);
        if (v2)
            ask_group(folder, "memory.max", "memory.current", "inactive_file", room);
        else
            ask_group(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", room);
        char *slash = strrchr(path, '/');
        if (!slash)
            return;
        *slash = 0;
    }
}

uint64_t ls_memory_room(void)
{
    uint64_t room = UINT64_MAX, kib;
    char line[1024];
    if (read_key("/proc/meminfo", "MemAvailable", &kib))
        room = kib * 1024;
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && fgets(line, sizeof line, f))
        ask_groups(line, &room);
    if (f)
        fclose(f);
    return room;
}

ls_status ls_check_room(size_t bytes, const char *what)
{
    char need[32], have[32];
    uint64_t room = ls_memory_room();
    if (bytes <= room)
        return LS_OK;
    return ls_fail(LS_E_MEMORY,
                   "%s need %s (%zu bytes), and %s (%zu bytes) are available here; use fewer ranks, a "
                   "smaller micro_batch, or a machine with more memory",
                   what, ls_format_bytes(need, bytes), bytes, ls_format_bytes(have, room), (size_t)room);
}
