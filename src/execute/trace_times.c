/* trace_times.c - the time of each step of a plan over the runs of a profile: from memory, or from the file
 * of a trace. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "internal.h"
#include "plan/node.h"
#include "trace.h"

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* times: [steps][runs] */
static void medians(double *out, int steps, int runs, double *times)
{
    for (int k = 0; k < steps; k++) {
        double *t = times + (size_t)k * (size_t)runs;
        qsort(t, (size_t)runs, sizeof *t, by_value);
        out[k] = runs % 2 ? t[runs / 2] : (t[runs / 2 - 1] + t[runs / 2]) / 2;
    }
}

ls_status ls_profile_times(ls_step_times *out, ls_arena *a, const ls_profile *p, const ls_plan *plan)
{
    const int n = plan->n_steps;
    *out = (ls_step_times){ .seconds = LS_ARENA_ARRAY(a, double, n + 1) };
    for (const ls_profile_run *r = ls_profile_first(p); r; r = r->next)
        out->runs += r->plan == plan;
    double *times = LS_ARENA_ARRAY(a, double, (int64_t)n * out->runs + 1);
    LS_TRY(ls_arena_status(a));
    int run = 0;
    for (const ls_profile_run *r = ls_profile_first(p); r; r = r->next) {
        for (int k = 0; r->plan == plan && k < n; k++)
            times[(size_t)k * (size_t)out->runs + (size_t)run] = r->times[n + k];
        run += r->plan == plan;
    }
    medians(out->seconds, n, out->runs, times);
    return LS_OK;
}

/* ---- the file */

static const char *trace_times_text_of(const json_t *event, const char *key)
{
    const char *text = json_string_value(json_object_get(event, key));
    return text ? text : "";
}

static bool is_program(const json_t *event, const ls_plan *p)
{
    return !strcmp(trace_times_text_of(event, "cat"), "program") &&
           !strcmp(trace_times_text_of(event, "name"), p->graph->name);
}

/* The step of the event of an operation or of a half of a collective; -1: another event. */
static int64_t trace_times_step_of(const json_t *event)
{
    const json_t *step = json_object_get(json_object_get(event, "args"), "step");
    return json_is_integer(step) ? json_integer_value(step) : -1;
}

/* Checks that the event of step k has the op and the shapes of the plan. */
static ls_status check_step(const json_t *event, const ls_plan *p, int64_t k, const char *path)
{
    const json_t *args = json_object_get(event, "args");
    const char *op = json_string_value(json_object_get(args, "op"));
    ls_str text = { 0 };
    if (k < p->n_steps)
        ls_node_text(&text, p->graph, p->graph->nodes[p->steps[k].node]);
    ls_status s = ls_str_status(&text);
    const bool same = k < p->n_steps &&
                      (op ? p->steps[k].part == LS_PART_RUN && !strcmp(op, ls_str_text(&text))
                          : p->steps[k].part != LS_PART_RUN);
    if (s == LS_OK && !same)
        s = ls_fail(
            LS_E_USAGE,
            "%s: step %lld of program %s was \"%s\", and is \"%s\" in this recipe: the trace is of another "
            "recipe, number of ranks, rank or version. Give the settings of the run that was profiled.",
            path, (long long)k, p->graph->name, op ? op : trace_times_text_of(event, "name"),
            k < p->n_steps ? ls_str_text(&text) : "none");
    ls_str_release(&text);
    return s;
}

/* Fills times [steps][runs] from the events of the program's runs. */
static ls_status read_runs(const json_t *events, const ls_plan *p, int runs, double *times, const char *path)
{
    int run = -1;
    bool inside = false;
    int64_t seen = 0;
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event)
    {
        if (!strcmp(trace_times_text_of(event, "cat"), "program")) {
            inside = is_program(event, p);
            run += inside;
            continue;
        }
        const int64_t k = inside ? trace_times_step_of(event) : -1;
        if (k < 0)
            continue;
        LS_TRY(check_step(event, p, k, path));
        times[(size_t)k * (size_t)runs + (size_t)run] = json_number_value(json_object_get(event, "dur")) *
                                                        1e-6;
        seen++;
    }
    return seen == (int64_t)p->n_steps * runs
               ? LS_OK
               : ls_fail(LS_E_USAGE,
                         "%s: program %s has %lld steps in %d runs, and %d a run in this recipe: the trace "
                         "is of another "
                         "recipe, number of ranks, rank or version. Give the settings of the run that was "
                         "profiled.",
                         path, p->graph->name, (long long)seen, runs, p->n_steps);
}

static ls_status plan_times(ls_step_times *out, ls_arena *a, const json_t *events, const ls_plan *p,
                            const char *path)
{
    size_t i;
    json_t *event;
    *out = (ls_step_times){ .seconds = LS_ARENA_ARRAY(a, double, p->n_steps + 1) };
    json_array_foreach(events, i, event) out->runs += is_program(event, p);
    if (!out->runs)
        return ls_fail(LS_E_FORMAT,
                       "%s: no run of program %s is in it. --profile takes log/rank-N.trace.json, which "
                       "`lockstep train RECIPE --profile` writes into the run directory.",
                       path, p->graph->name);
    double *times = LS_ARENA_ARRAY(a, double, (int64_t)p->n_steps * out->runs + 1);
    LS_TRY(ls_arena_status(a));
    LS_TRY(read_runs(events, p, out->runs, times, path));
    medians(out->seconds, p->n_steps, out->runs, times);
    return LS_OK;
}

ls_status ls_trace_times(ls_step_times *out, ls_arena *a, const char *path, int n, ls_plan *const *plans)
{
    char *text;
    size_t size;
    json_t *root = NULL;
    LS_TRY(ls_file_read(&text, &size, path));
    ls_status s = ls_json_parse(&root, text, size, path);
    free(text);
    for (int i = 0; s == LS_OK && i < n; i++)
        s = plan_times(&out[i], a, json_object_get(root, "traceEvents"), plans[i], path);
    json_decref(root);
    return s;
}
