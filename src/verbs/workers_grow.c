/* workers_grow.c - whether a run takes hosts that are back (failure.grow). */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/sys.h"
#include "record/heartbeat.h"
#include "record/remote.h"
#include "workers_own.h"

/* ---- what is possible with them */

/* "4 workers on hosts a, b" */
static void name_next(const ls_hosts *h, int workers, char text[400])
{
    enum { NAMED = 6 };
    int n = snprintf(text, 400, "%d worker%s on host%s ", workers, workers == 1 ? "" : "s",
                     h->used == 1 ? "" : "s");
    for (int i = 0; i < h->used && i < NAMED; i++)
        n += snprintf(text + n, (size_t)(400 - n), "%s%.50s", i ? ", " : "", ls_hosts_used(h, i)->name);
    if (h->used > NAMED)
        snprintf(text + n, (size_t)(400 - n), " and %d more", h->used - NAMED);
}

/* The number of ranks with the hosts that are back, or why there are not more. Changes nothing: ranks are
 * running. */
static ls_status count_with_returned(const ls_workers *w, int *workers, char next[400], char why[700])
{
    ls_recipe *recipe = NULL;
    ls_setup setup = { 0 };
    ls_hosts hosts = *w->hosts;
    ls_workers trial = { .named = w->named, .recipe = &recipe, .setup = &setup, .hosts = &hosts };
    hosts.all = ls_sys_malloc(sizeof *hosts.all * (size_t)hosts.n);
    LS_TRY(ls_sys_have(hosts.all));
    for (int i = 0; i < hosts.n; i++) {
        hosts.all[i] = w->hosts->all[i];
        hosts.all[i].answers = hosts.all[i].answers || ls_hosts_is_back(&hosts.all[i]);
    }
    const ls_status s = ls_workers_choose(&trial, 0, workers);
    if (s == LS_OK)
        name_next(&hosts, *workers, next);
    if (s == LS_OK && !trial.why[0])
        snprintf(why, 700, "workers is %d", *workers);
    else
        snprintf(why, 700, "%s", s == LS_OK ? trial.why : ls_error_message());
    free(hosts.all);
    ls_recipe_destroy(&recipe);
    return s;
}

/* ---- whether it is worth the time */

/* A start is counted twice: the save, the end of the ranks and the time of mpirun itself are not measured. */
#define STARTS 2

/* Whether the run ends before more ranks could make up for the start that they cost. Even if a step took
 * `workers` / `with` of its time, they would save no more than (1 - workers / with) of the time that is left.
 */
static bool ends_before(const ls_workers *w, int workers, int with, char why[700])
{
    const ls_recipe *r = *w->recipe;
    char *run = ls_storage_run(r->run.storage, r->run.name), left_text[32], start_text[32];
    ls_heartbeat beat = { 0 };
    const bool known = run && ls_heartbeat_read(&beat, run, 0) && beat.step > beat.from;
    free(run);
    if (!known)
        return false;
    const int64_t end = w->until && w->until < beat.steps ? w->until : beat.steps;
    const double step = beat.seconds / (double)(beat.step - beat.from),
                 left = (double)(end - beat.step) * step;
    if (left * (1 - (double)workers / with) > STARTS * beat.start)
        return false;
    snprintf(why, 700, "it ends in %s, and to stop and start takes %s", ls_format_duration(left_text, left),
             ls_format_duration(start_text, STARTS * beat.start));
    return true;
}

/* ---- the question */

static void name_returned(const ls_hosts *h, char text[512])
{
    int n = 0, used = 0;
    for (int i = 0; i < h->n; i++)
        n += ls_hosts_is_back(&h->all[i]);
    used = snprintf(text, 512, "host%s ", n == 1 ? "" : "s");
    for (int i = 0, k = 0; i < h->n && used < 400; i++)
        if (ls_hosts_is_back(&h->all[i]))
            used += snprintf(text + used, (size_t)(512 - used), "%s%.100s", k++ ? ", " : "", h->all[i].name);
    snprintf(text + used, (size_t)(512 - used), " answer%s again", n == 1 ? "s" : "");
}

bool ls_workers_more(void *context, int workers, ls_more *out)
{
    const ls_workers *w = context;
    int with = 0;
    char why[700];
    if (!w->hosts || !(*w->recipe)->failure.grow || !ls_hosts_look_again(w->hosts))
        return false;
    name_returned(w->hosts, out->why);
    const ls_status s = count_with_returned(w, &with, out->next, why);
    if (s == LS_OK && with > workers && !ends_before(w, workers, with, why))
        return true;
    ls_log_info("%s, and the run stays on %d worker%s: %s", out->why, workers, workers == 1 ? "" : "s", why);
    return false;
}

bool ls_workers_judge(void *context, const ls_attempt_end *end)
{
    const ls_workers *w = context;
    return w->hosts && ls_hosts_judge(w->hosts, end);
}
