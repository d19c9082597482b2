/* hosts_again.c - asks hosts that were lost whether they answer again, while ranks run on the others. */
#include <stdio.h>
#include <stdlib.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "hosts_own.h"

#define PAUSE 30.0       /* seconds between two questions; LOCKSTEP_GROW in tests */
#define PAUSE_MAX 3600.0 /* it doubles each time a host comes back: one may come and go */

/* A host that has just started answers before all of its file systems are mounted. The same number of
 * attempts may fail on one that has come back. */
enum { ENOUGH = 2 };

#define TRUSTED 3600.0 /* seconds after its return for which the failure of a host is not counted */
#define TIMES 3        /* so many such failures in a row, and the host is not used again */

typedef struct ls_hosts_asking {
    ls_commands *running; /* NULL: no question is under way */
    ls_command *all;      /* [hosts] */
    double pause, next;   /* the time of the next question */
} ls_hosts_asking;

static ls_hosts_asking *begin(const ls_hosts *h)
{
    const char *text = getenv("LOCKSTEP_GROW");
    ls_hosts_asking *a = ls_sys_calloc(1, sizeof *a);
    if (!a)
        return NULL;
    a->pause = text && ls_strtod(text, NULL) > 0 ? ls_strtod(text, NULL) : PAUSE;
    a->next = ls_now() + a->pause;
    a->all = ls_sys_calloc((size_t)h->n, sizeof *a->all);
    if (a->all)
        return a;
    free(a);
    return NULL;
}

static void ask(ls_hosts *h)
{
    ls_hosts_asking *a = h->asking;
    for (int i = 0; i < h->n; i++)
        a->all[i] = (ls_command){ 0 };
    for (int i = 0; i < h->n; i++)
        if (!h->all[i].answers && !h->all[i].refused)
            ls_hosts_question(&a->all[i], h, &h->all[i]);
    if (ls_commands_start(&a->running, a->all, h->n, LS_HOST_PATIENCE) != LS_OK)
        a->next = ls_now() + a->pause;
}

/* Whether an answer makes a host one that is back. */
static bool take_answers(ls_hosts *h)
{
    ls_hosts_asking *a = h->asking;
    bool news = false;
    ls_commands_end(&a->running);
    for (int i = 0; i < h->n; i++) {
        ls_host *host = &h->all[i];
        const bool now = !host->answers && !host->refused && a->all[i].status == 0;
        host->again = now ? host->again + 1 : 0;
        news = news || host->again == ENOUGH;
    }
    if (news)
        a->pause = a->pause * 2 < PAUSE_MAX ? a->pause * 2 : PAUSE_MAX;
    a->next = ls_now() + a->pause;
    return news;
}

bool ls_hosts_is_back(const ls_host *host) { return host->again >= ENOUGH; }

bool ls_hosts_look_again(ls_hosts *h)
{
    bool lost = false;
    for (int i = 0; i < h->n && !h->slurm; i++)
        lost = lost || (!h->all[i].answers && !h->all[i].refused);
    if (!lost || (!h->asking && !(h->asking = begin(h))))
        return false;
    if (!h->asking->running && ls_now() >= h->asking->next)
        ask(h);
    return h->asking->running && ls_commands_over(h->asking->running) && take_answers(h);
}

static void refuse(ls_host *host, const char *why)
{
    host->refused = true;
    host->answers = false;
    snprintf(host->why, sizeof host->why, "%s", why);
    ls_log_warn(
        "host %s is not used again, because %s; to use it, mend it, then stop this command and start it "
        "again",
        host->name, why);
}

/* Whether hosts had returned, and no step was done. */
static bool judge_returned(ls_hosts *h, const ls_attempt_end *end)
{
    bool any = false;
    for (int i = 0; i < h->n; i++) {
        ls_host *host = &h->all[i];
        if (!host->returned)
            continue;
        any = any || !end->worked;
        host->failed = end->worked ? 0 : host->failed + 1;
        host->returned = !end->worked;
        if (!end->worked && (!end->may_pass || host->failed >= ENOUGH))
            refuse(host, "it had come back, and the run failed there before a step");
    }
    return any;
}

/* Whether the host has failed soon after it had come back: it comes and goes. */
static bool judge_failed(ls_host *host)
{
    const bool soon = host->back_at > 0 && ls_now() - host->back_at < TRUSTED;
    host->back_at = 0;
    host->lost = soon ? host->lost + 1 : 0;
    if (host->lost == TIMES)
        refuse(host, "three times it has come back and failed within an hour");
    return soon;
}

/* The host on which the attempt failed; if that is not known, the one that came back last. */
static ls_host *find_failed(ls_hosts *h, int host)
{
    ls_host *last = NULL;
    for (int i = 0, k = 0; i < h->n; i++) {
        if (h->all[i].answers && k++ == host)
            return &h->all[i];
        if (h->all[i].answers && h->all[i].back_at > (last ? last->back_at : 0))
            last = &h->all[i];
    }
    return host < 0 ? last : NULL;
}

bool ls_hosts_judge(ls_hosts *h, const ls_attempt_end *end)
{
    ls_host *failed = find_failed(h, end->host);
    if (judge_returned(h, end))
        return true;
    return failed && end->worked && end->may_pass && judge_failed(failed);
}

void ls_hosts_stop_asking(ls_hosts *h)
{
    if (!h->asking)
        return;
    ls_commands_end(&h->asking->running);
    free(h->asking->all);
    free(h->asking);
    h->asking = NULL;
}
