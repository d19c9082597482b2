/* controller.c - makes attempts until one succeeds. Between two attempts no rank is running. */
#include "controller.h"

#include <stdio.h>
#include <time.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/log.h"

#define PAUSE 0.5      /* seconds before the first restart; each later pause is twice as long */
#define PAUSE_MAX 30.0 /* the longest pause */
#define TICK 0.1       /* seconds between two looks for a request to stop */
#define WAITS 20 /* failures in a row that are not counted, because Slurm has not noticed that a host died \
                  */

typedef struct controller {
    const ls_control_opts *o;
    ls_launch_opts next; /* of the next attempt */
    int failures, growths;
    bool grows;         /* the ranks were asked to stop, because there is room for more */
    ls_more more;       /* why there is */
    int failed_host;    /* of the last attempt (ls_launch_opts) */
    const char *spared; /* why the failure of the last attempt is not counted; NULL: it is */
    bool unstarted;     /* in the last attempt (ls_launch_opts) */
    int waits;          /* how often in a row a failure was not counted for that */
    bool out_of_memory; /* the kernel killed a rank of the last attempt for lack of memory */
    bool unchosen;      /* the number of ranks of the next attempt is not known yet */
} controller;

/* A failure that a rank reported itself would repeat. A crash, an end from outside, or a failure of a device
 * need not repeat. */
static bool may_pass(ls_status s) { return s == LS_E_PEER || s == LS_E_DEVICE; }

static bool stop_wanted(const controller *c) { return c->next.stop && *c->next.stop; }

double ls_control_pause(int failures)
{
    double seconds = PAUSE;
    for (int i = 1; i < failures && seconds < PAUSE_MAX; i++)
        seconds *= 2;
    return seconds < PAUSE_MAX ? seconds : PAUSE_MAX;
}

static void pause_for(const controller *c, double seconds)
{
    const double end = ls_now() + seconds;
    while (ls_now() < end && !stop_wanted(c))
        nanosleep(&(struct timespec){ .tv_nsec = (long)(1e9 * TICK) }, NULL);
}

/* There were more failures than max_failures. */
static ls_status give_up(const controller *c, ls_status s, const char *cause)
{
    return ls_fail(s, "%.3800s; that was failure %d, and %s is %lld", cause, c->failures, c->o->named,
                   (long long)c->o->max_failures);
}

/* Chooses the number of ranks again: the number of cores may have changed, and fewer ranks have more memory
 * each. One rank is as few as there can be. */
static ls_status choose_workers(controller *c, char text[96])
{
    const int before = c->next.ranks;
    text[0] = 0;
    c->unchosen = true;
    if (c->o->choose)
        LS_TRY(c->o->choose(c->o->context, c->out_of_memory ? before - 1 : 0, &c->next.ranks));
    c->unchosen = false;
    if (c->next.ranks != before)
        snprintf(text, 96, ", on %d worker%s instead of %d", c->next.ranks, c->next.ranks == 1 ? "" : "s",
                 before);
    return LS_OK;
}

/* Writes " from step 150, 3 steps are computed again", if a run directory records the attempts. */
static ls_status describe_loss(const controller *c, ls_restart *r, char text[128])
{
    text[0] = 0;
    LS_TRY(c->o->account->find_loss(c->o->account->context, r));
    if (r->step < 0)
        return LS_OK;
    const int n = snprintf(text, 128, " from step %lld", (long long)r->step);
    if (r->lost)
        snprintf(text + n, (size_t)(128 - n), ", %lld step%s computed again", (long long)r->lost,
                 r->lost == 1 ? " is" : "s are");
    return LS_OK;
}

/* The user has asked, after the ranks had ended. */
static ls_status stopped_before(const controller *c, const ls_restart *r)
{
    char what[160];
    if (c->grows)
        snprintf(what, sizeof what, "stopped on request, and not started again");
    else
        snprintf(what, sizeof what, "stopped on request before restart %d", r->number);
    return r->step >= 0 ? ls_fail(LS_E_STOPPED, "%s; start it again to continue from step %lld", what,
                                  (long long)r->step)
                        : ls_fail(LS_E_STOPPED, "%s", what);
}

static ls_status wait_for_next(controller *c, const char *cause)
{
    char text[4096], of[32] = "", from[128], workers[96];
    ls_restart r = { .cause = cause,
                     .grown = c->grows,
                     .number = c->failures + c->growths,
                     .pause = c->grows ? 0 : ls_control_pause(c->failures + c->waits),
                     .text = text };
    LS_TRY(describe_loss(c, &r, from));
    ls_status s = c->grows && stop_wanted(c) ? LS_E_STOPPED : choose_workers(c, workers);
    if (s == LS_E_STOPPED && c->grows)
        return stopped_before(c, &r);
    if (!may_pass(s) && s != LS_E_STOPPED) /* else hosts that do not answer now may answer after the pause */
        LS_TRY(s);
    if (c->unchosen && s != LS_E_STOPPED)
        snprintf(workers, sizeof workers, ", if there are hosts that answer then");
    r.workers = c->next.ranks;
    if (c->o->max_failures > 0)
        snprintf(of, sizeof of, " of %lld", (long long)c->o->max_failures);
    if (c->grows)
        snprintf(text, sizeof text, "%.3700s; continues%s%s", cause, from, workers);
    else if (c->spared)
        ls_snprintf(text, sizeof text, "%.3600s; that is not counted, because %s; continues in %g s%s%s",
                    cause, c->spared, r.pause, from, workers);
    else
        ls_snprintf(text, sizeof text, "%.3700s; restart %d%s in %g s%s%s", cause, c->failures, of, r.pause,
                    from, workers);
    ls_log(c->grows ? LS_INFO : LS_WARN, "%s", text);
    LS_TRY(c->o->account->restart(c->o->account->context, &r));
    pause_for(c, r.pause);
    return stop_wanted(c) ? stopped_before(c, &r) : LS_OK;
}

/* Called between two attempts. LS_OK: the next one begins. */
static ls_status after_attempt(controller *c, ls_status s)
{
    char cause[4096], message[4096];
    const ls_account *a = c->o->account;
    snprintf(cause, sizeof cause, "%s", c->grows ? c->more.why : ls_error_message());
    LS_TRY(a->open(a->context));
    s = c->o->max_failures >= 0 && c->failures > c->o->max_failures ? give_up(c, s, cause)
                                                                    : wait_for_next(c, cause);
    snprintf(message, sizeof message, "%s", s == LS_OK ? "" : ls_error_message());
    LS_TRY(a->close(a->context, s, message));
    return s == LS_OK ? s : ls_fail(s, "%s", message);
}

/* Called when a request to stop comes before the next attempt knows its number of ranks. */
static ls_status end_as_stopped(const controller *c)
{
    const ls_account *a = c->o->account;
    char message[4096];
    snprintf(message, sizeof message, "%s", ls_error_message());
    LS_TRY(a->open(a->context));
    LS_TRY(a->close(a->context, LS_E_STOPPED, message));
    return ls_fail(LS_E_STOPPED, "%s", message);
}

/* Called when no other attempt follows. */
static ls_status end_as_failed(const controller *c, ls_status s)
{
    char cause[4400];
    snprintf(cause, sizeof cause, "%s", ls_error_message());
    c->o->account->end(c->o->account->context, s, cause);
    return ls_fail(s, "%s", cause);
}

/* ls_launch_opts.leave */
static bool grows(void *context)
{
    controller *c = context;
    c->grows = c->o->more(c->o->context, c->next.ranks, &c->more);
    if (c->grows && c->o->account->tell_next(c->o->account->context, c->more.next) != LS_OK) {
        ls_log_warn("%s, and the run stays on %d worker%s: %s", c->more.why, c->next.ranks,
                    c->next.ranks == 1 ? "" : "s", ls_error_message());
        c->grows = false;
    }
    if (c->grows)
        ls_log_info("%s: the run is saved after this step, and continues there as well", c->more.why);
    return c->grows;
}

/* Called after an attempt that ended with s. Whether it failed on hosts that had come back, as where another
 * version is installed there, or where a host comes and goes. That must not end a run that works on the
 * others. */
static bool judge(const controller *c, ls_status s)
{
    const ls_account *a = c->o->account;
    const ls_attempt_end end = { .worked = s == LS_E_STOPPED || a->worked(a->context),
                                 .may_pass = may_pass(s),
                                 .host = c->failed_host };
    return c->o->judge && c->o->judge(c->o->context, &end);
}

/* Why a failure s is not counted. Slurm may take minutes to notice that a host has died (SlurmdTimeout), and
 * until then it starts no ranks there. */
static const char *not_counted(controller *c, ls_status s)
{
    const ls_account *a = c->o->account;
    if (judge(c, s))
        return "a host had just come back";
    c->waits = a->worked(a->context) ? 0 : c->waits;
    if (!c->unstarted || !c->next.restart || !may_pass(s) || c->waits == WAITS)
        return NULL;
    c->waits++;
    return "Slurm did not start all ranks";
}

/* Whether the ranks have stopped because they were asked to, for a larger attempt. They may have ended before
 * they were asked, by themselves or at a limit of time. */
static bool has_grown(const controller *c, ls_status s)
{
    const ls_account *a = c->o->account;
    return c->grows && a->heard_next(a->context) && s == LS_E_STOPPED;
}

ls_status ls_control(const ls_control_opts *o)
{
    controller c = { .o = o, .next = o->ranks };
    c.next.out_of_memory = &c.out_of_memory;
    c.next.failed_host = &c.failed_host;
    c.next.unstarted = &c.unstarted;
    if (o->more) {
        c.next.leave = grows;
        c.next.leave_context = &c;
    }
    for (;; c.next.restart = c.failures + c.growths) {
        o->account->begin(o->account->context);
        c.out_of_memory = false;
        c.failed_host = -1;
        c.grows = false;
        char ignored[96];
        ls_status s = c.unchosen ? choose_workers(&c, ignored) : LS_OK;
        if (s == LS_E_STOPPED)
            return end_as_stopped(&c);
        if (s == LS_OK)
            s = ls_launch(&c.next);
        else
            c.unstarted = false;
        c.grows = has_grown(&c, s);
        c.spared = NULL;
        if (c.grows) {
            c.growths++;
            judge(&c, s);
        } else {
            if (s == LS_OK || s == LS_E_STOPPED)
                return s;
            c.spared = not_counted(&c, s);
            if (!c.spared && (!may_pass(s) || o->max_failures == 0))
                return end_as_failed(&c, s);
            c.failures += c.spared == NULL;
            c.growths += c.spared != NULL;
        }
        LS_TRY(after_attempt(&c, s));
    }
}
