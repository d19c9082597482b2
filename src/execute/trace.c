/* trace.c - writes recorded runs as a Chrome trace and as a table. The session gives seconds; a trace needs
 * microseconds. */
#include "trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "base/sys.h"
#include "device/queue.h"
#include "internal.h"
#include "plan/linked.h"

struct ls_profile {
    ls_arena arena;
    ls_profile_run *first, **last;
    int n;
    int64_t step; /* of the runs that are added now; 0: not said */
};

ls_status ls_profile_create(ls_profile **out)
{
    ls_profile *p = *out = ls_sys_calloc(1, sizeof *p);
    if (!p)
        return ls_fail(LS_E_MEMORY, "profile: out of memory");
    ls_arena_init(&p->arena);
    p->last = &p->first;
    return LS_OK;
}

void ls_profile_destroy(ls_profile **pp)
{
    if (*pp)
        ls_arena_release(&(*pp)->arena);
    free(*pp);
    *pp = NULL;
}

void ls_profile_add(ls_profile *p, const ls_session *s, int i)
{
    const ls_plan *plan = s->programs[i].plan;
    ls_profile_run *r = LS_ARENA_NEW(&p->arena, ls_profile_run);
    const double *times = ls_arena_dup(&p->arena, ls_session_times(s, i),
                                       2 * sizeof(double) *
                                           (size_t)(plan->n_steps + plan->n_transfers + plan->n_collectives));
    if (!r || !times)
        return; /* ls_trace_write says so */
    *r = (ls_profile_run){ .plan = plan, .step = p->step, .began = s->programs[i].began, .times = times };
    *p->last = r;
    p->last = &r->next;
    p->n++;
}

void ls_profile_step(ls_profile *p, int64_t step) { p->step = step; }

const ls_profile_run *ls_profile_first(const ls_profile *p) { return p->first; }

enum { STEPS, PROGRAMS, OPS, COLLECTIVES, TRANSFERS, COPIES, LINKS }; /* tracks of the trace */

static void event(ls_json *j, const char *name, const char *category, int thread, double start,
                  double seconds)
{
    ls_json_object(j, NULL);
    ls_json_text(j, "name", name);
    ls_json_text(j, "cat", category);
    ls_json_text(j, "ph", "X");
    ls_json_int(j, "pid", 1);
    ls_json_int(j, "tid", thread);
    ls_json_f64(j, "ts", start * 1e6);
    ls_json_f64(j, "dur", seconds * 1e6);
}

static void track_name(ls_json *j, int thread, const char *name)
{
    ls_json_object(j, NULL);
    ls_json_text(j, "name", "thread_name");
    ls_json_text(j, "ph", "M");
    ls_json_int(j, "pid", 1);
    ls_json_int(j, "tid", thread);
    ls_json_object(j, "args");
    ls_json_text(j, "name", name);
    ls_json_close_object(j);
    ls_json_close_object(j);
}

static const char *const PARTS[] = {
    [LS_PART_RUN] = "", [LS_PART_START] = "start ", [LS_PART_WAIT] = "wait "
};

/* "all_gather of unit root over dp" */
static void collective_text(ls_str *out, const ls_plan_collective *c)
{
    ls_str_printf(out, "%s%s%s over %s", ls_collective_name(c->kind), c->unit[0] ? " of " : "", c->unit,
                  c->group);
}

/* "to_device of unit root" */
static void transfer_text(ls_str *out, const ls_plan *p, const ls_plan_transfer *t)
{
    ls_str_printf(out, "%s%s%s", p->graph->nodes[t->node]->op->name, t->unit[0] ? " of " : "", t->unit);
}

static void half_event(ls_json *j, const ls_profile_run *r, int k, double base)
{
    const ls_step *s = &r->plan->steps[k];
    const ls_plan_collective *c = s->collective < 0 ? NULL : &r->plan->collectives[s->collective];
    const ls_plan_transfer *t = c ? NULL : &r->plan->transfers[s->transfer];
    ls_str text = { 0 };
    ls_str_add(&text, PARTS[s->part]);
    if (c)
        collective_text(&text, c);
    else
        transfer_text(&text, r->plan, t);
    event(j, ls_str_text(&text), c ? "collective" : "transfer", c ? COLLECTIVES : TRANSFERS,
          r->began - base + r->times[k], r->times[r->plan->n_steps + k]);
    ls_json_object(j, "args");
    ls_json_int(j, "step", k);
    ls_json_f64(j, "bytes", s->part != LS_PART_WAIT ? 0 : c ? c->bytes : (double)t->bytes);
    ls_json_close_object(j);
    ls_json_close_object(j);
    ls_str_release(&text);
}

/* From the beginning of the start to the end of the wait. Several collectives or transfers may be under way
 * at once, so these are asynchronous events. */
static void under_way(ls_json *j, const ls_profile_run *r, const char *name, int track, int start, int wait,
                      double base, int64_t id)
{
    const double ends[2] = { r->times[start], r->times[wait] + r->times[r->plan->n_steps + wait] };
    for (int i = 0; i < 2; i++) {
        ls_json_object(j, NULL);
        ls_json_text(j, "name", name);
        ls_json_text(j, "cat", "under way");
        ls_json_text(j, "ph", i ? "e" : "b");
        ls_json_int(j, "id", id);
        ls_json_int(j, "pid", 1);
        ls_json_int(j, "tid", track);
        ls_json_f64(j, "ts", (r->began - base + ends[i]) * 1e6);
        ls_json_close_object(j);
    }
}

static void all_under_way(ls_json *j, const ls_profile_run *r, double base, int64_t *id)
{
    const ls_plan *p = r->plan;
    for (int k = 0; k < p->n_collectives; k++) {
        ls_str text = { 0 };
        collective_text(&text, &p->collectives[k]);
        under_way(j, r, ls_str_text(&text), COLLECTIVES, p->collectives[k].start, p->collectives[k].wait,
                  base, ++*id);
        ls_str_release(&text);
    }
    for (int k = 0; k < p->n_transfers; k++) {
        ls_str text = { 0 };
        transfer_text(&text, p, &p->transfers[k]);
        under_way(j, r, ls_str_text(&text), TRANSFERS, p->transfers[k].start, p->transfers[k].wait, base,
                  ++*id);
        ls_str_release(&text);
    }
}

/* Types and sizes of the values that an operation reads or makes, under the names that PyTorch's traces
 * use. */
static void shapes(ls_json *j, const ls_graph *g, const char *dims, const char *types, int n,
                   const ls_value *v)
{
    ls_json_array(j, dims);
    for (int k = 0; k < n; k++) {
        const ls_type *t = ls_present(v[k]) ? ls_type_of(g, v[k]) : &LS_TYPE(LS_F32, 0);
        ls_json_array(j, NULL);
        for (int d = 0; d < t->ndim && ls_present(v[k]); d++)
            ls_json_int(j, NULL, t->dims[d]);
        ls_json_close_array(j);
    }
    ls_json_close_array(j);
    ls_json_array(j, types);
    for (int k = 0; k < n; k++)
        ls_json_text(j, NULL, ls_present(v[k]) ? ls_dtype_name(ls_type_of(g, v[k])->dtype) : "");
    ls_json_close_array(j);
}

static void op_event(ls_json *j, const ls_profile_run *r, int k, double base)
{
    static const char *const PHASES[] = {
        [LS_PHASE_FORWARD] = "forward", [LS_PHASE_BACKWARD] = "backward", [LS_PHASE_UPDATE] = "update"
    };
    const ls_plan *p = r->plan;
    const ls_step *s = &p->steps[k];
    const ls_node *n = p->graph->nodes[s->node];
    const double seconds = r->times[p->n_steps + k];
    ls_str text = { 0 };
    ls_str_printf(&text, "%s%s%s", n->scope->path, n->scope->path[0] ? " " : "", n->op->name);
    event(j, text.data, PHASES[n->phase], OPS, r->began - base + r->times[k], seconds);
    ls_json_object(j, "args");
    ls_str_clear(&text);
    ls_node_text(&text, p->graph, n);
    ls_json_text(j, "op", text.data);
    ls_json_int(j, "step", k);
    shapes(j, p->graph, "Input Dims", "Input type", n->n_in, n->in);
    shapes(j, p->graph, "Output Dims", "Output type", n->n_out, n->out);
    ls_str_clear(&text);
    if (n->file) {
        ls_str_printf(&text, "%s:%d", n->file, n->line);
        ls_json_text(j, "Call site", text.data);
    }
    ls_json_f64(j, "flops", s->cost.flops);
    ls_json_f64(j, "bytes", s->cost.bytes);
    ls_json_f64(j, "gflops_per_second", s->cost.flops / seconds / 1e9);
    ls_json_f64(j, "gbytes_per_second", s->cost.bytes / seconds / 1e9);
    ls_json_close_object(j);
    ls_json_close_object(j);
    ls_str_release(&text);
}

/* On a device with memory of its own transfers have a queue of their own, whose events say when each was
 * copied. */
static void copy_events(ls_json *j, const ls_profile_run *r, double base)
{
    const ls_plan *p = r->plan;
    const double *moved = r->times + 2 * p->n_steps;
    for (int k = 0; k < p->n_transfers && ls_device_apart(&p->device); k++) {
        ls_str text = { 0 };
        transfer_text(&text, p, &p->transfers[k]);
        event(j, ls_str_text(&text), "copy", COPIES, r->began - base + moved[2 * k], moved[2 * k + 1]);
        ls_json_object(j, "args");
        ls_json_f64(j, "bytes", (double)p->transfers[k].bytes);
        ls_json_f64(j, "gbytes_per_second", (double)p->transfers[k].bytes / moved[2 * k + 1] / 1e9);
        ls_json_close_object(j);
        ls_json_close_object(j);
        ls_str_release(&text);
    }
}

/* Collectives over links have a queue of their own, too. */
static void link_events(ls_json *j, const ls_profile_run *r, double base)
{
    const ls_plan *p = r->plan;
    const double *moved = r->times + 2 * (p->n_steps + p->n_transfers);
    for (int k = 0; k < p->n_collectives; k++) {
        if (!ls_goes_linked(p, &p->collectives[k]))
            continue;
        ls_str text = { 0 };
        collective_text(&text, &p->collectives[k]);
        event(j, ls_str_text(&text), "link", LINKS, r->began - base + moved[2 * k], moved[2 * k + 1]);
        ls_json_object(j, "args");
        ls_json_f64(j, "bytes", p->collectives[k].bytes);
        ls_json_f64(j, "gbytes_per_second", p->collectives[k].bytes / moved[2 * k + 1] / 1e9);
        ls_json_close_object(j);
        ls_json_close_object(j);
        ls_str_release(&text);
    }
}

static double end_of(const ls_profile_run *r)
{
    const int n = r->plan->n_steps;
    return r->began + (n ? r->times[n - 1] + r->times[2 * n - 1] : 0);
}

/* A marker over the runs of each step, with the name of PyTorch's traces, for which tools look. */
static void step_events(ls_json *j, const ls_profile *p, double base)
{
    for (const ls_profile_run *r = p->first, *last; r; r = last->next) {
        char name[48];
        for (last = r; last->next && last->next->step == r->step; last = last->next)
            ;
        if (!r->step)
            continue;
        snprintf(name, sizeof name, "ProfilerStep#%lld", (long long)r->step);
        event(j, name, "user_annotation", STEPS, r->began - base, end_of(last) - r->began);
        ls_json_close_object(j);
    }
}

/* On a device with queues of its own the events of each of its queues have a track. */
static void name_tracks(ls_json *j, const ls_device *d)
{
    const bool apart = d && ls_device_apart(d);
    char ops[64] = "ops", others[64];
    if (apart)
        snprintf(ops, sizeof ops, "ops (device %s, first queue)", d->ops->name);
    track_name(j, STEPS, "steps");
    track_name(j, PROGRAMS, "programs");
    track_name(j, OPS, ops);
    track_name(j, COLLECTIVES, "collectives");
    track_name(j, TRANSFERS, "transfers");
    if (apart) {
        snprintf(others, sizeof others, "copies (device %s, second queue)", d->ops->name);
        track_name(j, COPIES, others);
    }
    if (d && d->linked) {
        snprintf(others, sizeof others, "collectives (device %s, third queue)", d->ops->name);
        track_name(j, LINKS, others);
    }
}

ls_status ls_trace_write(const char *path, const ls_profile *p)
{
    LS_TRY(ls_arena_status(&p->arena));
    ls_json j = { 0 };
    const double base = p->first ? p->first->began : 0;
    ls_json_object(&j, NULL);
    ls_json_text(&j, "displayTimeUnit", "ms");
    ls_json_array(&j, "traceEvents");
    name_tracks(&j, p->first ? &p->first->plan->device : NULL);
    step_events(&j, p, base);
    int64_t id = 0;
    for (const ls_profile_run *r = p->first; r; r = r->next) {
        const int n = r->plan->n_steps;
        if (n) {
            event(&j, r->plan->graph->name, "program", PROGRAMS, r->began - base,
                  r->times[n - 1] + r->times[2 * n - 1]);
            ls_json_close_object(&j);
        }
        for (int k = 0; k < n; k++)
            (r->plan->steps[k].part == LS_PART_RUN ? op_event : half_event)(&j, r, k, base);
        all_under_way(&j, r, base, &id);
        copy_events(&j, r, base);
        link_events(&j, r, base);
    }
    ls_json_close_array(&j);
    ls_json_close_object(&j);
    return ls_json_write(&j, path);
}

/* what: the op and its operand types */
typedef struct row {
    char *what;
    double seconds, flops, bytes;
    double limit; /* seconds that the device needs at least; 0 without a calibration */
    int calls;
} row;

static int by_text(const void *a, const void *b)
{
    return strcmp(((const row *)a)->what, ((const row *)b)->what);
}
static int by_time(const void *pa, const void *pb)
{
    const row *a = pa, *b = pb;
    return a->seconds != b->seconds ? (a->seconds > b->seconds ? -1 : 1) : strcmp(a->what, b->what);
}

static double limit_of(const ls_plan *p, const ls_step *s, const ls_calibration *all)
{
    const ls_calibration *c = ls_calibration_for(all, &p->device);
    return c ? ls_calibration_least(c, ls_call_type(p->graph, p->graph->nodes[s->node]), s->cost) : 0;
}

/* Makes a row for each op with its operand types, most time first. Returns how many. */
static int trace_gather(ls_arena *scratch, const ls_profile *p, const ls_calibration *c, row **out,
                        double *total)
{
    int most = 0, n = 0;
    for (const ls_profile_run *r = p->first; r; r = r->next)
        most += r->plan->n_steps;
    row *rows = LS_ARENA_ARRAY(scratch, row, most);
    *total = 0;
    ls_str text = { 0 };
    for (const ls_profile_run *r = rows ? p->first : NULL; r; r = r->next)
        for (int k = 0; k < r->plan->n_steps; k++) {
            const ls_step *s = &r->plan->steps[k];
            ls_str_clear(&text);
            ls_str_add(&text, PARTS[s->part]);
            ls_node_text(&text, r->plan->graph, r->plan->graph->nodes[s->node]);
            const double seconds = r->times[r->plan->n_steps + k];
            rows[n++] = (row){ .what = ls_arena_strdup(scratch, text.no_memory ? NULL : text.data),
                               .seconds = seconds,
                               .flops = s->cost.flops,
                               .bytes = s->cost.bytes,
                               .limit = limit_of(r->plan, s, c),
                               .calls = 1 };
            *total += seconds;
        }
    ls_str_release(&text);
    if (scratch->no_memory)
        return 0;
    qsort(rows, (size_t)n, sizeof *rows, by_text);
    int kinds = 0;
    for (int k = 0; k < n; k++) {
        if (kinds && !strcmp(rows[kinds - 1].what, rows[k].what)) {
            row *same = &rows[kinds - 1];
            same->seconds += rows[k].seconds;
            same->flops += rows[k].flops;
            same->bytes += rows[k].bytes;
            same->limit += rows[k].limit;
            same->calls++;
        } else {
            rows[kinds++] = rows[k];
        }
    }
    qsort(rows, (size_t)kinds, sizeof *rows, by_time);
    *out = rows;
    return kinds;
}

void ls_profile_table(ls_str *out, const ls_profile *p, const ls_calibration *c, int top)
{
    ls_arena scratch;
    ls_arena_init(&scratch);
    row *rows = NULL;
    double total;
    const int n = trace_gather(&scratch, p, c, &rows, &total);
    ls_str_add(out, scratch.no_memory || p->arena.no_memory ? NULL : "");
    ls_str_printf(out, "%d runs, %.3f ms in ops\n%7s %10s %7s %9s %8s %8s  %s\n", p->n, total * 1e3, "calls",
                  "us/call", "share", "GFLOP/s", "GB/s", c ? "of limit" : "", "op");
    for (int k = 0; k < n && k < top; k++) {
        const row *r = &rows[k];
        ls_str_printf(out, "%7d %10.1f %6.1f%% %9.1f %8.1f ", r->calls, r->seconds / r->calls * 1e6,
                      100 * r->seconds / total, r->flops / r->seconds / 1e9, r->bytes / r->seconds / 1e9);
        if (c)
            ls_str_printf(out, "%7.0f%%", 100 * r->limit / r->seconds);
        else
            ls_str_printf(out, "%8s", "");
        ls_str_printf(out, "  %s\n", r->what);
    }
    if (!c)
        ls_str_add(out, "how near that is to what this machine can do is not known: `lockstep doctor` "
                        "measures it once\n");
    ls_arena_release(&scratch);
}
