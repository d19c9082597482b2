/* profiler.c - the schedule of a profile, and the files of its repetitions. */
#include "profiler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "pages/memory_page.h"
#include "setup/step_html.h"

enum {
    TABLE = 15, /* ops that are printed */
    FIRST =
        32, /* runs of a program that are recorded of the first steps, which may have many micro-batches */
};

/* Without a schedule: the first step is left out, because it takes page faults. */
static const ls_profile_schedule FIRST_STEPS = { .skip = 1, .active = 4, .repeat = 1 };

static const ls_profile_schedule *schedule_of(const ls_profiler *p)
{
    return p->schedule.active ? &p->schedule : &FIRST_STEPS;
}

ls_profile_phase ls_profile_phase_of(const ls_profile_schedule *s, int64_t k, int64_t *repetition, bool *last)
{
    const int64_t cycle = s->wait + s->warmup + s->active, at = k - s->skip;
    *repetition = at < 0 || !s->active ? 0 : at / cycle + 1;
    *last = false;
    if (!*repetition || (s->repeat && *repetition > s->repeat) || at % cycle < s->wait)
        return LS_PROFILE_OFF;
    *last = at % cycle == cycle - 1;
    return at % cycle < s->wait + s->warmup ? LS_PROFILE_WARMUP : LS_PROFILE_ACTIVE;
}

static void record_run(void *context, ls_trainer *t, int program)
{
    ls_profiler *p = context;
    if (p->schedule.active || p->runs[program]++ < FIRST)
        ls_profile_add(p->taking, t->session, t->session_plan[program]);
}

ls_status ls_profiler_before(ls_profiler *p, ls_trainer *t, int64_t step, int64_t k)
{
    bool last;
    int64_t repetition;
    const ls_profile_phase phase = ls_profile_phase_of(schedule_of(p), k, &repetition, &last);
    ls_session_profile(t->session, phase != LS_PROFILE_OFF);
    if (phase != LS_PROFILE_ACTIVE)
        return LS_OK;
    if (!p->taking) {
        LS_TRY(ls_profile_create(&p->taking));
        p->repetition = repetition;
        p->first = step;
        t->after_run = record_run;
        t->context = p;
    }
    ls_profile_step(p->taking, step);
    return LS_OK;
}

/* "RUN/log/rank-N.WHAT", or "RUN/log/rank-N.R.WHAT" of repetition R where there may be several. */
static char *file_of(const ls_profiler *p, const ls_rundir *d, const char *what)
{
    char name[80], number[32] = "";
    if (p->schedule.repeat != 1)
        snprintf(number, sizeof number, "%lld.", (long long)p->repetition);
    snprintf(name, sizeof name, "log/rank-%d.%s%s", d->rank, number, what);
    return ls_path_join(d->path, name);
}

static ls_status find_times(ls_profiler *p, const ls_trainer *t)
{
    ls_arena_release(&p->arena);
    ls_arena_init(&p->arena);
    for (int i = 0; i < LS_EVAL; i++)
        LS_TRY(ls_profile_times(&p->times[i], &p->arena, p->taking, t->compiled.plans[i]));
    return LS_OK;
}

/* The page of the step, with the times of this profile. */
static ls_status write_step(const ls_profiler *p, const ls_trainer *t, const ls_rundir *d)
{
    char *path = file_of(p, d, "step.html");
    const char *name = strrchr(d->path, '/');
    const ls_status s = ls_step_html(path, name ? name + 1 : d->path, &t->compiled, ls_profiler_times(p));
    free(path);
    return s;
}

static void tell(const ls_profiler *p, const ls_calibration *c, FILE *out, int64_t step, const char *trace,
                 const char *page, const char *peak)
{
    ls_str table = { 0 };
    ls_profile_table(&table, p->taking, c, TABLE);
    fputs(ls_str_text(&table), out);
    ls_str_release(&table);
    ls_log_info("trace of steps %lld to %lld: %s (open it in Perfetto)", (long long)p->first, (long long)step,
                trace);
    ls_log_info("memory over them: %s; %s", page, peak);
}

static ls_status write_files(const ls_profiler *p, ls_trainer *t, const ls_rundir *d, const ls_calibration *c,
                             FILE *out, int64_t step)
{
    char *trace = file_of(p, d, "trace.json"), *page = file_of(p, d, "memory.html");
    ls_str peak = { 0 };
    ls_status s = ls_trace_write(trace, p->taking);
    if (s == LS_OK)
        s = ls_memory_page_write(page, t, p->taking, d->rank, &peak);
    if (s == LS_OK)
        s = write_step(p, t, d);
    if (s == LS_OK && d->rank == 0)
        tell(p, c, out, step, trace, page, ls_str_text(&peak));
    ls_str_release(&peak);
    free(trace);
    free(page);
    return s;
}

ls_status ls_profiler_end(ls_profiler *p, ls_trainer *t, const ls_rundir *d, const ls_calibration *c,
                          FILE *out, int64_t step)
{
    if (!p->taking)
        return LS_OK;
    t->after_run = NULL;
    ls_session_profile(t->session, false);
    ls_status s = find_times(p, t);
    if (s == LS_OK && p->schedule.active)
        s = write_files(p, t, d, c, out, step);
    ls_profile_destroy(&p->taking);
    return s;
}

ls_status ls_profiler_after(ls_profiler *p, ls_trainer *t, const ls_rundir *d, const ls_calibration *c,
                            FILE *out, int64_t step, int64_t k)
{
    bool last;
    int64_t repetition;
    return p->taking && ls_profile_phase_of(schedule_of(p), k, &repetition, &last) == LS_PROFILE_ACTIVE &&
                   last
               ? ls_profiler_end(p, t, d, c, out, step)
               : LS_OK;
}

const ls_step_times *ls_profiler_times(const ls_profiler *p)
{
    return p->times[LS_MICRO].runs && p->times[LS_UPDATE].runs ? p->times : NULL;
}

void ls_profiler_release(ls_profiler *p)
{
    ls_profile_destroy(&p->taking);
    ls_arena_release(&p->arena);
}
