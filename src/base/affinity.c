/* affinity.c - sets of hardware threads: reading, applying, printing and dividing them. */
#include "affinity.h"
#include "sys.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD = 8 * sizeof(unsigned long) };

static bool has(const ls_cpu_set *s, int cpu) { return s->bits[cpu / WORD] >> cpu % WORD & 1; }
static void affinity_add(ls_cpu_set *s, int cpu) { s->bits[cpu / WORD] |= 1ul << cpu % WORD; }

bool ls_cpu_set_read(ls_cpu_set *out)
{
    memset(out, 0, sizeof *out);
    return sched_getaffinity(0, sizeof *out, (cpu_set_t *)out->bits) == 0;
}

bool ls_cpu_set_apply(const ls_cpu_set *s)
{
    return sched_setaffinity(0, sizeof *s, (const cpu_set_t *)s->bits) == 0;
}

int ls_cpu_set_count(const ls_cpu_set *s)
{
    int n = 0;
    for (size_t i = 0; i < sizeof s->bits / sizeof s->bits[0]; i++)
        n += __builtin_popcountl(s->bits[i]);
    return n;
}

void ls_cpu_set_keep(ls_cpu_set *s, int n)
{
    const int word = 8 * (int)sizeof s->bits[0];
    for (int i = 0; i < LS_MAX_CPUS; i++)
        if (s->bits[i / word] >> (i % word) & 1 && --n < 0)
            s->bits[i / word] &= ~(1ul << (i % word));
}

bool ls_cpu_set_meet(const ls_cpu_set *a, const ls_cpu_set *b)
{
    for (size_t i = 0; i < sizeof a->bits / sizeof a->bits[0]; i++)
        if (a->bits[i] & b->bits[i])
            return true;
    return false;
}

const char *ls_cpu_set_text(char *text, int size, const ls_cpu_set *s)
{
    int n = 0;
    *text = 0;
    for (int cpu = 0; cpu < LS_MAX_CPUS && n < size; cpu++) {
        int first = cpu;
        while (cpu < LS_MAX_CPUS && has(s, cpu))
            cpu++;
        if (cpu > first)
            n += snprintf(text + n, (size_t)(size - n), cpu - first > 1 ? "%s%d-%d" : "%s%d", n ? "," : "",
                          first, cpu - 1);
    }
    if (n >= size)
        memcpy(text + size - 4, "...", 4);
    return text;
}

/* ---- division */

typedef struct place {
    int cpu, package, node, core;
} place;

static int by_place(const void *a, const void *b)
{
    const place *x = a, *y = b;
    int order = x->package - y->package;
    order = order ? order : x->node - y->node;
    order = order ? order : x->core - y->core;
    return order ? order : x->cpu - y->cpu;
}

/* The number that a file of /sys contains; -1 if there is none. */
static int number_in(const char *path)
{
    int value = -1;
    FILE *f = fopen(path, "re");
    if (!f)
        return -1;
    if (fscanf(f, "%d", &value) != 1)
        value = -1;
    fclose(f);
    return value;
}

/* Reads the list of hardware threads of memory node `node`, such as "0-3,8-11", and marks those in `at` with
 * the node's number. False: there is no such node. */
static bool mark_node(place *at, int n, const char *sys, int node)
{
    char path[512];
    int first, last;
    snprintf(path, sizeof path, "%s/node/node%d/cpulist", sys, node);
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    while (fscanf(f, "%d", &first) == 1) {
        last = first;
        if (fscanf(f, "-%d", &last) != 1)
            last = first;
        for (int i = 0; i < n; i++)
            if (at[i].cpu >= first && at[i].cpu <= last)
                at[i].node = node;
        if (fgetc(f) != ',')
            break;
    }
    fclose(f);
    return true;
}

static int read_places(place *at, const ls_cpu_set *all, const char *sys)
{
    char path[512];
    int n = 0;
    for (int cpu = 0; cpu < LS_MAX_CPUS; cpu++) {
        if (!has(all, cpu))
            continue;
        at[n] = (place){ .cpu = cpu };
        snprintf(path, sizeof path, "%s/cpu/cpu%d/topology/physical_package_id", sys, cpu);
        at[n].package = number_in(path);
        snprintf(path, sizeof path, "%s/cpu/cpu%d/topology/core_id", sys, cpu);
        int core = number_in(path);
        at[n++].core = core < 0 ? cpu : core; /* unknown: each hardware thread counts as a core */
    }
    for (int node = 0; mark_node(at, n, sys, node);)
        node++;
    qsort(at, (size_t)n, sizeof *at, by_place);
    return n;
}

static bool same_core(const place *a, const place *b)
{
    return a->package == b->package && a->node == b->node && a->core == b->core;
}

int ls_cpu_set_cores(const ls_cpu_set *s, const char *sys)
{
    place *at = ls_sys_malloc(sizeof *at * LS_MAX_CPUS);
    int cores = 0;
    const int n = at ? read_places(at, s, sys) : 0;
    for (int i = 0; i < n; i++)
        cores += !i || !same_core(&at[i], &at[i - 1]);
    free(at);
    return cores;
}

bool ls_cpu_set_divide(ls_cpu_set *parts, const ls_cpu_set *all, int ranks, int threads, const char *sys)
{
    place *at = ls_sys_malloc(sizeof *at * LS_MAX_CPUS);
    int *begin = ls_sys_malloc(sizeof *begin * (LS_MAX_CPUS + 1)); /* [cores + 1]: first in `at` */
    if (!at || !begin) {
        free(at);
        free(begin);
        return false;
    }
    int n = read_places(at, all, sys), cores = 0;
    for (int i = 0; i < n; i++)
        if (!i || !same_core(&at[i], &at[i - 1]))
            begin[cores++] = i;
    begin[cores] = n;
    bool whole = cores >= ranks, enough = n >= ranks;
    int count = whole ? cores : n;
    memset(parts, 0, sizeof *parts * (size_t)ranks);
    for (int r = 0; r < ranks && enough; r++) {
        int first = (int)((int64_t)count * r / ranks), end = (int)((int64_t)count * (r + 1) / ranks);
        if (whole) {
            first = begin[first];
            end = begin[end];
        }
        for (int i = first; i < end; i++)
            affinity_add(&parts[r], at[i].cpu);
        enough = end - first >= threads;
    }
    free(at);
    free(begin);
    return enough;
}
