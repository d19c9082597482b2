/* request.c - takes requests, and decides when the time is up.
 *
 * After the decision to stop come the running step, the step whose losses carry the request to the other
 * ranks, a save, and perhaps an evaluation. So the loop stops RESERVE times their longest times before the
 * end: a disk may be slower this time. ENDING seconds more are for report.html and for the processes to end.
 */
#include "request.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/commands.h"
#include "base/log.h"
#include "base/slurm.h"
#include "comm/launched.h"
#include "step/trainer.h"

static const double RESERVE = 2, ENDING = 0.5;
#define PATIENCE 5.0 /* seconds that squeue has to answer */

/* Reads "[[D-]H:]M:S", as squeue prints the time that is left. False: it is another text, such as
 * "UNLIMITED". */
static bool read_time_left(const char *text, double *seconds)
{
    int64_t parts[4] = { 0 }; /* days, hours, minutes, seconds */
    const char *dash = strchr(text, '-'), *at = text;
    int colons = 0, end = 0;
    for (const char *c = text; *c; c++)
        colons += *c == ':';
    if (colons < 1 || colons > 2 || (dash && colons != 2))
        return false;
    for (int i = dash ? 0 : 3 - colons; i < 4; i++) {
        long long part;
        if (*at < '0' || *at > '9' || sscanf(at, "%9lld%n", &part, &end) != 1)
            return false;
        parts[i] = part;
        at += end;
        if (i < 3 && *at++ != (i == 0 ? '-' : ':'))
            return false;
    }
    *seconds = (double)(((parts[0] * 24 + parts[1]) * 60 + parts[2]) * 60 + parts[3]);
    return !*at;
}

/* Asks squeue how long the job may still run; Slurm 22.05 sets no SLURM_JOB_END_TIME. Only one rank
 * asks, once an attempt, and it never fails, because the others do not ask. 0: there is no limit, or nobody
 * says so. */
static double ask_slurm(void)
{
    ls_command e = { 0 };
    char job[64];
    double left;
    ls_slurm_job(job);
    ls_command_words(&e, "squeue -h -o %L -j");
    ls_command_word(&e, job);
    const ls_status s = ls_commands_run(&e, 1, PATIENCE, "asking Slurm when this job ends");
    if (s == LS_E_STOPPED)
        return 0;
    if (s == LS_OK && e.status == 0 && read_time_left(e.said, &left))
        return ls_now() + left;
    if (s != LS_OK || e.status != 0 || strcmp(e.said, "UNLIMITED"))
        ls_log_warn("squeue does not say when this Slurm job ends: %s; the run stops in time only on SIGTERM "
                    "(sbatch --signal=TERM@120) or by run.time_limit",
                    s != LS_OK                    ? ls_error_message()
                    : e.status == LS_COMMAND_LATE ? "no answer within 5 s"
                    : *e.said                     ? e.said
                                                  : "it prints nothing");
    return 0;
}

static ls_status slurm_end(double *end, bool asks)
{
    const char *text = getenv("SLURM_JOB_END_TIME"), *job = getenv("SLURM_JOB_ID");
    char *rest = NULL;
    struct timespec now;
    *end = 0;
    if (!text || !*text) {
        *end = asks && job && *job ? ask_slurm() : 0;
        return LS_OK;
    }
    const long long at = strtoll(text, &rest, 10);
    if (*rest || at <= 0)
        return ls_fail(
            LS_E_USAGE,
            "SLURM_JOB_END_TIME=%s: seconds since 1970 are expected; unset it if this is not a Slurm job",
            text);
    clock_gettime(CLOCK_REALTIME, &now);
    *end = ls_now() + (double)(at - now.tv_sec) - 1e-9 * (double)now.tv_nsec;
    return LS_OK;
}

ls_status ls_requests_init(ls_requests *q, const ls_ui *ui, const ls_recipe *r, int rank, double save)
{
    *q = (ls_requests){ .ui = ui, .save = save, .saves = ui && ui->save ? *ui->save : 0 };
    double slurm;
    LS_TRY(slurm_end(&slurm, rank == 0));
    if (rank)
        return LS_OK;
    if (r->run.time_limit > 0) {
        q->end = ls_now() - ls_launch_age() + r->run.time_limit;
        ls_snprintf(q->end_of, sizeof q->end_of, "run.time_limit (%g s)", r->run.time_limit);
    }
    if (slurm > 0 && (q->end == 0 || slurm < q->end)) {
        q->end = slurm;
        const char *told = getenv("SLURM_JOB_END_TIME");
        snprintf(q->end_of, sizeof q->end_of, "the Slurm job (%s)",
                 told && *told ? "SLURM_JOB_END_TIME" : "squeue");
    }
    return LS_OK;
}

void ls_requests_saved(ls_requests *q, double seconds)
{
    q->save = q->saved ? fmax(q->save, seconds) : seconds;
    q->saved = true;
}

void ls_requests_answered(ls_requests *q)
{
    if (q->ui && q->ui->save)
        q->saves = *q->ui->save;
}

static bool time_is_up(const ls_requests *q, bool evaluates)
{
    return q->end > 0 &&
           q->end - ls_now() < RESERVE * (2 * q->step + q->save + (evaluates ? q->evaluation : 0)) + ENDING;
}

static uint32_t stops(const ls_requests *q, bool evaluates)
{
    return (time_is_up(q, evaluates) ? LS_REQUEST_TIME : 0) |
           (q->ui && q->ui->stop && *q->ui->stop ? LS_REQUEST_STOP : 0);
}

uint32_t ls_requests_stop(const ls_requests *q) { return stops(q, false); }

uint32_t ls_requests_take(ls_requests *q, bool evaluates)
{
    uint32_t asked = stops(q, evaluates);
    if (q->ui && q->ui->save && *q->ui->save != q->saves) {
        q->saves = *q->ui->save;
        asked |= LS_REQUEST_SAVE;
    }
    return asked;
}

void ls_requests_reason(char text[128], const ls_requests *q, uint32_t asked)
{
    const double left = q->end - ls_now();
    if (!(asked & LS_REQUEST_TIME) || q->end == 0)
        snprintf(text, 128, "on request");
    else if (left > 0)
        ls_snprintf(text, 128, "%.1f s before the end of %s", left, q->end_of);
    else
        snprintf(text, 128, "%.0f s after the end of %s", -left, q->end_of);
}
