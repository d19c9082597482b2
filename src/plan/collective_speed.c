/* collective_speed.c - measures the speed of collectives, and reads and writes their file. */
#include "collective_speed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/str.h"
#include "base/sys.h"
#include "comm/comm.h"
#include "plan/strides.h"

enum { SMALL = 16, LARGE = 1 << 22, TURNS = 9, VERSION = 1 }; /* f32; the large ones are 16 MiB */

/* Seconds of an all_reduce of `count` numbers, as the slowest rank of the group saw them: the median. */
static ls_status seconds_of(double *out, ls_group *g, ls_axis *axis, const ls_window *window, void *result,
                            int64_t count)
{
    const int calls = count == SMALL ? 200 : 1;
    ls_collective *c;
    LS_TRY(ls_collective_create(&c, &(ls_collective_desc){ .kind = LS_ALL_REDUCE,
                                                           .axis = axis,
                                                           .count = count,
                                                           .from = LS_F32,
                                                           .to = LS_F32,
                                                           .via = LS_F32,
                                                           .window = window,
                                                           .result = result,
                                                           .threads = 1,
                                                           .label = "measuring" }));
    double turns[TURNS];
    ls_status s = LS_OK;
    for (int i = -1; i < TURNS && s == LS_OK; i++) { /* the first touches pages */
        s = ls_group_barrier(g);
        double start = ls_now();
        for (int k = 0; k < calls && s == LS_OK; k++) {
            s = ls_collective_start(c);
            s = s == LS_OK ? ls_collective_wait(c) : s;
        }
        double seconds = (ls_now() - start) / calls;
        s = s == LS_OK ? ls_group_all_reduce(g, &seconds, 1, LS_F64, LS_REDUCE_MAX) : s;
        int k = i;
        for (; k > 0 && turns[k - 1] > seconds; k--)
            turns[k] = turns[k - 1];
        if (k >= 0)
            turns[k] = seconds;
    }
    ls_collective_destroy(&c);
    *out = turns[TURNS / 2];
    return s;
}

/* `moved`: the bytes of a large all_reduce that count for the bandwidth. */
static ls_status measure_axis(ls_collective_speed *out, ls_group *g, const char *name, int n,
                              const int *members, double moved)
{
    ls_axis *axis = NULL;
    ls_window *window = NULL;
    double small = 0, large = 0;
    void *result = ls_sys_aligned_alloc(LS_ALIGN, sizeof(float) * LARGE);
    ls_status s = ls_sys_have(result);
    s = s == LS_OK ? ls_axis_create(&axis, g, name, n, members) : s;
    s = s == LS_OK ? ls_window_create(&window, axis, sizeof(float) * LARGE, 0) : s;
    if (s == LS_OK)
        memset(window->mine, 0, sizeof(float) * LARGE);
    s = s == LS_OK ? seconds_of(&small, g, axis, window, result, SMALL) : s;
    s = s == LS_OK ? seconds_of(&large, g, axis, window, result, LARGE) : s;
    if (s == LS_OK) {
        out->latency = small / 2; /* it has two turns */
        out->bandwidth = moved / (large > 1.1 * small ? large - small : large);
        s = ls_group_barrier(g);
    }
    ls_window_destroy(&window);
    ls_axis_destroy(&axis);
    free(result);
    return s;
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
    if (each > 1) /* as plan/cost.c counts it: operand and result, and what of both crosses ranks */
        s = measure_axis(&wires[LS_SPEED_HOST], g, "host", each, members, bytes * (1 + 1.0 / each + 2));
    for (int i = 0; i < hosts; i++)
        members[i] = i * each + rank % each;
    if (s == LS_OK && hosts > 1)
        s = measure_axis(&wires[LS_SPEED_NETWORK], g, "hosts", hosts, members,
                         each * 2 * bytes * (hosts - 1) / hosts);
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
                wires[i] = (ls_collective_speed){ latency, bandwidth };
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
    if (!(latency > 0 && latency < 1e6) || unit <= 0 || !*size || !ls_parse_bytes(size, &bytes) || bytes < 1)
        return ls_fail(LS_E_USAGE,
                       "%s: write latency and bandwidth of a host's connection, as in 20us,12.5GB/s", text);
    *out = (ls_collective_speed){ latency * unit, (double)bytes };
    return LS_OK;
}
