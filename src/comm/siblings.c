/* siblings.c - see siblings.h. A process belongs to the ranks if its environment has the same name of the
 * job, which mpirun and srun give to each start; mpirun of MPICH gives none, so there the same parent counts.
 */
#include "siblings.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "base/sys.h"
#include "process.h"

enum { MOST = 1 << 20 }; /* bytes of an environment that are read */

static bool read_host(char out[64], const char *process)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%.20s/ns/uts", process);
    const ssize_t n = readlink(path, out, 63);
    out[n > 0 ? n : 0] = 0;
    return n > 0;
}

static bool read_environment(ls_str *out, int process)
{
    char path[32], part[4096];
    ssize_t n = 0;
    snprintf(path, sizeof path, "/proc/%d/environ", process);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && out->len < MOST && (n = read(fd, part, sizeof part)) > 0)
        ls_str_add_n(out, part, (size_t)n);
    if (fd >= 0)
        close(fd);
    return fd >= 0 && n >= 0 && out->len;
}

/* The end of the entry of /proc/PID/environ that begins so; NULL: there is none. */
static const char *after(const ls_str *all, const char *beginning)
{
    const size_t n = strlen(beginning);
    for (const char *at = all->data, *end = at + all->len; at < end; at += strlen(at) + 1)
        if (!strncmp(at, beginning, n))
            return at + n;
    return NULL;
}

static bool has_entry(const ls_str *all, const char *entry)
{
    const char *end = after(all, entry);
    return !*entry || (end && !*end);
}

static int parent_of(int process)
{
    char path[32];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    FILE *f = fopen(path, "re");
    char text[512] = "";
    if (f && fgets(text, sizeof text, f)) {
        const char *rest = strrchr(text, ')'); /* the name in parentheses may contain anything */
        if (rest && sscanf(rest + 1, " %*c %d", &parent) != 1)
            parent = 0;
    }
    if (f)
        fclose(f);
    return parent;
}

/* The rank of a process; -1: it is none of ours. */
static int rank_of(const ls_kin *k, const char *process)
{
    char path[32], host[64];
    struct stat is;
    const int number = atoi(process);
    int rank = -1;
    snprintf(path, sizeof path, "/proc/%d", number);
    if (stat(path, &is) || is.st_uid != geteuid() || !read_host(host, process) || strcmp(host, k->host))
        return -1;
    if (!*k->job && parent_of(number) != k->parent)
        return -1;
    ls_str all = { 0 };
    if (read_environment(&all, number) && has_entry(&all, k->job) && has_entry(&all, k->step)) {
        const char *text = after(&all, k->rank_name);
        rank = text && *text == '=' && isdigit((unsigned char)text[1]) ? atoi(text + 1) : -1;
    }
    ls_str_release(&all);
    return rank;
}

static bool has_joining_thread(int process)
{
    char path[64], name[16];
    bool has = false;
    snprintf(path, sizeof path, "/proc/%d/task", process);
    DIR *all = opendir(path);
    for (struct dirent *e; all && !has && (e = readdir(all));) {
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/comm", process, e->d_name);
        FILE *f = *e->d_name != '.' ? fopen(path, "re") : NULL;
        has = f && fgets(name, sizeof name, f) && !strncmp(name, LS_JOINING, strlen(LS_JOINING));
        if (f)
            fclose(f);
    }
    if (all)
        closedir(all);
    return has;
}

bool ls_sibling_look(ls_sibling *s)
{
    s->stopped = false;
    if (!ls_process_start_time(s->process, &s->stopped))
        return false;
    s->joins = has_joining_thread(s->process);
    return true;
}

static int by_rank(const void *a, const void *b)
{
    const ls_sibling *x = a, *y = b;
    return x->rank != y->rank ? x->rank - y->rank : x->process - y->process;
}

static void sibling_add(ls_sibling **all, int *n, int *cap, ls_sibling s)
{
    char path[32];
    ls_sibling *more = ls_sys_grow(*all, *n, cap, sizeof *more);
    if (!more)
        return;
    *all = more;
    snprintf(path, sizeof path, "/proc/%d/comm", s.process);
    FILE *f = fopen(path, "re");
    if (f && fgets(s.name, sizeof s.name, f))
        s.name[strcspn(s.name, "\n")] = 0;
    if (f)
        fclose(f);
    if (ls_sibling_look(&s))
        more[(*n)++] = s;
}

/* An entry "NAME=value" of this process's environment; "" if there is none, or it is too long. */
static bool keep_entry(char *out, size_t size, const char *name)
{
    const char *value = getenv(name);
    const int n = value && *value ? snprintf(out, size, "%s=%s", name, value) : 0;
    if (n < 0 || (size_t)n >= size)
        *out = 0;
    return *out;
}

void ls_kin_read(ls_kin *out)
{
    static const char *const RANKS[] = { "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK" };
    *out = (ls_kin){ .parent = getppid() };
    for (int i = 0; i < 3 && !out->rank_name; i++)
        out->rank_name = getenv(RANKS[i]) ? RANKS[i] : NULL;
    if (!keep_entry(out->job, sizeof out->job, "PMIX_NAMESPACE") &&
        keep_entry(out->job, sizeof out->job, "SLURM_JOB_ID"))
        keep_entry(out->step, sizeof out->step, "SLURM_STEP_ID");
    read_host(out->host, "self");
}

int ls_siblings_find(ls_sibling **out, const ls_kin *k)
{
    int n = 0, cap = 0;
    *out = NULL;
    DIR *all = k->rank_name && *k->host ? opendir("/proc") : NULL;
    for (struct dirent *e; all && (e = readdir(all));) {
        const int rank = isdigit((unsigned char)*e->d_name) ? rank_of(k, e->d_name) : -1;
        if (rank >= 0)
            sibling_add(out, &n, &cap, (ls_sibling){ .rank = rank, .process = atoi(e->d_name) });
    }
    if (all)
        closedir(all);
    if (n)
        qsort(*out, (size_t)n, sizeof **out, by_rank);
    return n;
}
