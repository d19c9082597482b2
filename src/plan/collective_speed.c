/* collective_speed.c - measures the speed of collectives, and reads and writes their file. */
#include "collective_speed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/str.h"
#include "base/sys.h"
#include "comm/comm.h"
#include "comm/remote_ways.h"
#include "plan/strides.h"

enum { SMALL = 16, LARGE = 1 << 22, TURNS = 9, VERSION = 2 }; /* f32; the large ones are 16 MiB */

/* What is measured: an all_reduce of an axis. Ranks that do not move are still meanwhile. */
typedef struct measured {
    ls_group *group;
    ls_axis *axis;
    const ls_window *window;
    void *result;
    bool moves;
} measured;

/* Seconds of processor time of this process. */
static double processor_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Seconds of an all_reduce of `count` numbers, as the slowest rank of the group saw them: the median. *busy:
 * the processor time of it, as a part of it, on this rank. */
static ls_status seconds_of(double *out, double *busy, const measured *m, int64_t count)
{
    const int calls = count == SMALL ? 200 : 1;
    ls_collective *c;
    LS_TRY(ls_collective_create(&c, &(ls_collective_desc){ .kind = LS_ALL_REDUCE,
                                                           .axis = m->axis,
                                                           .count = count,
                                                           .from = LS_F32,
                                                           .to = LS_F32,
                                                           .via = LS_F32,
                                                           .window = m->window,
                                                           .result = m->result,
                                                           .threads = 1,
                                                           .label = "measuring" }));
    double turns[TURNS], worked = 0, took = 0;
    ls_status s = LS_OK;
    for (int i = -1; i < TURNS && s == LS_OK; i++) { /* the first touches pages */
        s = ls_group_barrier(m->group);
        const double start = ls_now(), used = processor_seconds();
        for (int k = 0; k < calls && m->moves && s == LS_OK; k++) {
            s = ls_collective_start(c);
            s = s == LS_OK ? ls_collective_wait(c) : s;
        }
        double seconds = (ls_now() - start) / calls;
        worked += i >= 0 ? processor_seconds() - used : 0;
        took += i >= 0 ? seconds * calls : 0;
        s = s == LS_OK ? ls_group_all_reduce(m->group, &seconds, 1, LS_F64, LS_REDUCE_MAX) : s;
        int k = i;
        for (; k > 0 && turns[k - 1] > seconds; k--)
            turns[k] = turns[k - 1];
        if (k >= 0)
            turns[k] = seconds;
    }
    ls_collective_destroy(&c);
    *out = turns[TURNS / 2];
    *busy = took > 0 && worked < took ? worked / took : 1;
    return s;
}

/* `moved`: the bytes of a large all_reduce that count for the bandwidth. `waits`: the turns in which its
 * members wait for each other, whose time does not count for it; `few`: the same of a small one. */
static ls_status measure_axis(ls_collective_speed *out, ls_group *g, const char *name, int n,
                              const int *members, double moved, double waits, double few, bool moves)
{
    measured m = { .group = g, .moves = moves };
    ls_window *window = NULL;
    double small = 0, large = 0, busy = 0;
    m.result = ls_sys_aligned_alloc(LS_ALIGN, sizeof(float) * LARGE);
    ls_status s = ls_sys_have(m.result);
    s = s == LS_OK ? ls_axis_create(&m.axis, g, name, n, members) : s;
    s = s == LS_OK ? ls_window_create(&window, m.axis, sizeof(float) * LARGE, 0) : s;
    m.window = window;
    if (s == LS_OK)
        memset(window->mine, 0, sizeof(float) * LARGE);
    s = s == LS_OK ? seconds_of(&small, &busy, &m, SMALL) : s;
    s = s == LS_OK ? seconds_of(&large, &busy, &m, LARGE) : s;
    busy = moves ? busy : 0;
    s = s == LS_OK ? ls_group_all_reduce(g, &busy, 1, LS_F64, LS_REDUCE_MAX) : s;
    if (s == LS_OK) {
        const double latency = small / few;
        *out = (ls_collective_speed){
            .latency = latency,
            .bandwidth = moved / (large > 1.1 * waits * latency ? large - waits * latency : large),
            .busy = busy
        };
        s = ls_group_barrier(g);
    }
    ls_window_destroy(&window);
    ls_axis_destroy(&m.axis);
    free(m.result);
    return s;
}

static double waits_between(int hosts, int64_t count)
{
    return (double)ls_collective_messages(LS_ALL_REDUCE, hosts, 1, count, LS_F32, LS_F32, LS_F32).waits;
}

/* Between hosts: all ranks at once, for the bandwidth of a host; and the first rank of each host alone. */
static ls_status measure_network(ls_collective_speed *out, ls_group *g, int hosts, int each,
                                 const int *members)
{
    const double bytes = sizeof(float) * (double)LARGE, rank = 2 * bytes * (hosts - 1) / hosts,
                 waits = waits_between(hosts, LARGE), few = waits_between(hosts, SMALL);
    ls_collective_speed alone = { 0 };
    LS_TRY(measure_axis(out, g, "hosts", hosts, members, each * rank, each > 1 ? few : waits, few, true));
    if (each > 1) {
        LS_TRY(
            measure_axis(&alone, g, "first", hosts, members, rank, waits, few, ls_group_local_rank(g) == 0));
        double first[3] = { 0 };
        if (ls_group_rank(g) == 0)
            memcpy(first, (double[]){ alone.latency, alone.bandwidth, alone.busy }, sizeof first);
        LS_TRY(ls_group_all_reduce(g, first, 3, LS_F64, LS_REDUCE_MAX));
        out->latency = first[0];
        out->alone = first[1];
        out->busy = first[2];
    }
    return LS_OK;
}

ls_status ls_collective_speeds_measure(ls_collective_speed wires[LS_COLLECTIVE_SPEEDS], ls_group *g)
{
    const int size = ls_group_size(g), hosts = ls_group_hosts(g), each = size / hosts,
              rank = ls_group_rank(g);
    if (each * hosts != size || each != ls_group_local_size(g))
        return ls_fail(
            LS_E_UNSUPPORTED,
            "collectives are measured with the same number of ranks on each host; here are %d ranks "
            "on %d hosts",
            size, hosts);
    const double bytes = sizeof(float) * (double)LARGE;
    int *members = ls_sys_calloc((size_t)(each > hosts ? each : hosts), sizeof *members);
    LS_TRY(ls_sys_have(members));
    ls_status s = LS_OK;
    for (int i = 0; i < each; i++)
        members[i] = rank / each * each + i;
    /* As plan/cost.c counts it: operand and result, and what of both crosses ranks. Where ranks share cores,
     * the time in which they meet is that in which the kernel gives them a turn. */
    if (each > 1 && each <= ls_calibration_cores())
        s = measure_axis(&wires[LS_SPEED_HOST], g, "host", each, members, bytes * (1 + 1.0 / each + 2), 2, 2,
                         true);
    wires[LS_SPEED_HOST].busy = 0; /* the ranks' own threads move the bytes */
    for (int i = 0; i < hosts; i++)
        members[i] = i * each + rank % each;
    if (s == LS_OK && hosts > 1)
        s = measure_network(&wires[LS_SPEED_NETWORK], g, hosts, each, members);
    free(members);
    return s;
}

/* ---- the file */

static const char *const NAMES[LS_COLLECTIVE_SPEEDS] = {
    [LS_SPEED_HOST] = "host", [LS_SPEED_NETWORK] = "network"
};

static char *wires_path_of(void)
{
    char cpu[64], name[48], *dir = ls_cache_dir();
    ls_calibration_cpu(cpu);
    snprintf(name, sizeof name, "wires-%08x.json", (unsigned)ls_hash_text(cpu));
    char *path = ls_path_join(dir, name);
    free(dir);
    return path;
}

void ls_collective_speeds_load(ls_collective_speed wires[LS_COLLECTIVE_SPEEDS])
{
    char *path = wires_path_of(), *text = NULL;
    size_t size;
    json_t *root = NULL;
    memset(wires, 0, sizeof *wires * LS_COLLECTIVE_SPEEDS);
    if (ls_file_read(&text, &size, path) == LS_OK && ls_json_parse(&root, text, size, path) == LS_OK &&
        json_integer_value(json_object_get(root, "version")) == VERSION)
        for (int i = 0; i < LS_COLLECTIVE_SPEEDS; i++) {
            const json_t *o = json_object_get(root, NAMES[i]);
            const double latency = json_number_value(json_object_get(o, "latency")),
                         bandwidth = json_number_value(json_object_get(o, "bandwidth"));
            if (latency > 0 && bandwidth > 0)
                wires[i] = (ls_collective_speed){ .latency = latency,
                                                  .bandwidth = bandwidth,
                                                  .alone = json_number_value(json_object_get(o, "alone")),
                                                  .busy = json_number_value(json_object_get(o, "busy")) };
        }
    json_decref(root);
    free(text);
    free(path);
}

ls_status ls_collective_speeds_save(const ls_collective_speed wires[LS_COLLECTIVE_SPEEDS])
{
    char *path = wires_path_of();
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_text(&j, "what",
                 "how fast collectives are, measured by `lockstep doctor`: seconds that ranks wait for each "
                 "other, bytes/s of a rank on its host and of a host on the network; it may be deleted");
    ls_json_int(&j, "version", VERSION);
    for (int i = 0; i < LS_COLLECTIVE_SPEEDS; i++) {
        if (!(wires[i].bandwidth > 0))
            continue;
        ls_json_object(&j, NAMES[i]);
        ls_json_f64(&j, "latency", wires[i].latency);
        ls_json_f64(&j, "bandwidth", wires[i].bandwidth);
        if (i == LS_SPEED_NETWORK) {
            ls_json_f64(&j, "alone", wires[i].alone);
            ls_json_f64(&j, "busy", wires[i].busy);
        }
        ls_json_close_object(&j);
    }
    ls_json_close_object(&j);
    const ls_status s = ls_json_write(&j, path);
    free(path);
    return s;
}

ls_status ls_wire_parse(ls_collective_speed *out, const char *text)
{
    char *end, size[32] = "";
    const double latency = ls_strtod(text, &end);
    const double unit = !strncmp(end, "us,", 3) ? 1e-6 : !strncmp(end, "ms,", 3) ? 1e-3 : 0;
    int64_t bytes = 0;
    const char *rate = unit > 0 ? end + 3 : "", *slash = strstr(rate, "/s");
    if (slash && !slash[2] && slash - rate < (long)sizeof size)
        memcpy(size, rate, (size_t)(slash - rate));
    if (slash && slash > rate && slash[-1] == 'b')
        return ls_fail(LS_E_USAGE, "%s: %s is in bits: divide it by 8, as 100Gb/s are 12.5GB/s", text, rate);
    if (!(latency > 0 && latency < 1e6) || unit <= 0 || !*size || !ls_parse_bytes(size, &bytes) || bytes < 1)
        return ls_fail(LS_E_USAGE,
                       "%s: write latency and bandwidth of a host's connection, as in 20us,12.5GB/s", text);
    *out = (ls_collective_speed){ .latency = latency * unit, .bandwidth = (double)bytes };
    return LS_OK;
}
