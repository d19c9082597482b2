/* rank.c - see rank.h. */
#include "rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "base/str.h"
#include "comm/comm.h"
#include "comm/environment.h"
#include "comm/launched.h"

static const double LAST_WORDS = 0.8; /* seconds; mpirun kills ranks after one second */

/* Whether this rank prints nothing if it could not join the group: then only one rank of each host prints. */
static bool is_quiet(void)
{
    return ls_launch_watched() || ls_environment_local_rank() > 0; /* watched: its parent prints */
}

/* Reports a late rank. Every rank that waits for it writes to its log. Rank 0 prints it on the terminal, or
 * rank 1 if rank 0 is late. */
static void tell_lag(void *context, const ls_group *g, const ls_lag *lag)
{
    const ls_ui *ui = context;
    const bool speaks = ls_group_rank(g) == (lag->rank == 0), was = ui->silent && *ui->silent;
    char what[40], seconds[32];
    ls_format_duration(seconds, lag->seconds);
    if (ui->silent)
        *ui->silent = !speaks;
    if (lag->over)
        ls_log_info("rank %d goes on: rank %d waited %s for it", lag->rank, ls_group_rank(g), seconds);
    else
        ls_log_warn("waiting for rank %d: rank %d has waited %s for it in %s; %s", lag->rank,
                    ls_group_rank(g), seconds, lag->what, lag->doing);
    if (!lag->over && ui->progress) {
        snprintf(what, sizeof what, "waiting for rank %d", lag->rank);
        ui->progress(ui->context, &(ls_progress){ .what = what, .done = (int64_t)lag->seconds, .unit = "s" });
    }
    if (ui->silent)
        *ui->silent = was;
}

/* Reports an error of the launcher's ranks as a whole, which every rank finds. Only rank 0 prints it. The
 * others wait for a moment, so that mpirun does not kill rank 0 before. */
static ls_status say_once(ls_status s)
{
    char message[4096];
    snprintf(message, sizeof message, "%s", ls_error_message());
    const bool speaks = ls_environment_number() == 0;
    if (!speaks)
        nanosleep(&(struct timespec){ .tv_nsec = (long)(1e9 * LAST_WORDS) }, NULL);
    return ls_fail(s, "%s", speaks ? message : "");
}

ls_status ls_rank_alone(const char *refusal)
{
    ls_environment e;
    ls_status s = ls_environment_read(&e);
    if (s == LS_OK && e.launcher != LS_LAUNCHER_NONE && e.size != 1)
        s = ls_fail(LS_E_USAGE, "%s", refusal);
    return s == LS_OK ? s : say_once(s);
}

bool ls_rank_is_first(const char *verb, bool of_each_host)
{
    const int number = ls_environment_number();
    if (number == 0 || (of_each_host && ls_environment_local_rank() == 0))
        return true;
    ls_log_info(
        "%s: the first task%s does it, and this is task %d. For other work in each task, start each by "
        "itself (srun -n 1, mpirun -n 1)",
        verb, of_each_host ? " of each host" : "", number);
    return false;
}

ls_status ls_rank_join(ls_group **g, const ls_ui *ui)
{
    bool ignored, *silent = ui->silent ? ui->silent : &ignored;
    ls_status s = ls_group_from_environment(
        g); /* while it waits, one of each host says so (comm/join_watch.h) */
    *silent = is_quiet();
    if (s != LS_OK && ls_launch_watched() && ls_launch_rank() < 0)
        return ls_fail(s, "%s", ""); /* another process has reported it */
    if (s == LS_E_USAGE)
        return say_once(s);
    LS_TRY(s);
    *silent = ls_group_rank(*g) > 0;
    ls_group_on_lag(*g, tell_lag, (void *)(uintptr_t)ui);
    if (ls_group_size(*g) == 1 && !ls_launch_watched())
        ls_group_destroy(g);
    return LS_OK;
}

ls_status ls_rank_say(const ls_group *g, ls_status s, const char *message, const ls_ui *ui)
{
    if (!g || s == LS_OK || s == LS_E_STOPPED)
        return ls_fail(s, "%s", message);
    if (ls_launch_watched() || ls_group_rank(g) != ls_group_reporter(g))
        return ls_fail(s, "%s", "");
    if (ui->silent)
        *ui->silent = false;
    return s == LS_E_PEER ? ls_fail(s, "%s", message) : ls_fail(s, "rank %d: %s", ls_group_rank(g), message);
}

ls_status ls_rank_say_now(const ls_group *g, ls_status s, const char *message, const ls_ui *ui)
{
    s = ls_rank_say(g, s, message, ui);
    if (s == LS_OK || s == LS_E_STOPPED || !g || !*ls_error_message())
        return s;
    struct ls_rundir *run = ui->log_to ? *ui->log_to : NULL;
    if (run)
        *ui->log_to = NULL; /* closing the run writes it to the run's log */
    ls_log(LS_ERROR, "%s", ls_error_message());
    if (run)
        *ui->log_to = run;
    return ls_fail(s, "%s", "");
}

void ls_rank_end(const ls_group *g, ls_status s)
{
    if (g && s != LS_OK && s != LS_E_STOPPED && !ls_launch_watched() && ls_group_rank(g) > 0)
        ls_group_await_end(g, 0, LAST_WORDS);
}
