/* remote_control.c - failures between machines. A failure on one machine becomes the failure of all. If a
 * rank of another machine does not come, its own machine is asked what it did last. */
#include "remote_control.h"

#include <stdio.h>
#include <unistd.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "wait.h"

static const double NOTICE_SECONDS = 1; /* longest time for sending a notice */
static const double ANSWER_SECONDS = 2; /* longest wait for an answer */

static bool is_here(const ls_group *g, int rank) { return rank >= g->first && rank < g->first + g->here; }

ls_status ls_remote_broken(ls_remote_group *r)
{
    ls_group *g = r->group;
    ls_control_fail(g->control, g->rank, g->rank, LS_E_PEER, r->transport.error);
    return ls_group_failure(g);
}

ls_status ls_remote_listen(ls_remote_group *r)
{
    r->listens = r->ops->receive(&r->transport, &r->listening, &r->heard, sizeof r->heard, LS_TRANSPORT_ANY,
                                 LS_REMOTE_CONTROL);
    return r->listens ? LS_OK : ls_remote_broken(r);
}

/* Sends a notice to those of the ranks [from, to) that are on other machines. It waits until the transport
 * has taken the message, not until it arrives. */
static void say(ls_remote_group *r, const ls_notice *what, const char *text, int from, int to)
{
    r->said = *what;
    r->said.from = r->group->rank;
    snprintf(r->said.text, sizeof r->said.text, "%s", text);
    for (int i = from; i < to; i++) {
        ls_message m;
        bool done = false;
        if (is_here(r->group, i) || !r->ops->send(&r->transport, &m, &r->said, sizeof r->said,
                                                  r->transport_rank[i], LS_REMOTE_CONTROL))
            continue;
        for (double until = ls_now() + NOTICE_SECONDS; !done && ls_now() < until;)
            if (!r->ops->test(&r->transport, &m, &done) || (!done && usleep(100)))
                break;
    }
}

/* What rank `about` of this machine waits for, and `text`: what that rank does. */
static ls_notice answer_of(const ls_group *g, int about, char text[LS_DESCRIPTION_BYTES])
{
    const int local = ls_control_blocker(g->control, about - g->first);
    ls_control_describe(g->control, local, text);
    return (ls_notice){ .kind = LS_NOTICE_ANSWER,
                        .about = about,
                        .rank = g->first + local,
                        .waits_for = atomic_load(&ls_control_record(g->control, local)->waits_for_remote) -
                                     1 };
}

static void hear(ls_remote_group *r, const ls_notice *w)
{
    ls_group *g = r->group;
    char text[LS_DESCRIPTION_BYTES], said[8 * LS_ANSWER_WORDS], host[64] = "";
    switch (w->kind) {
    case LS_NOTICE_FAILURE:
        r->told = true; /* the sender has told all the others too */
        if (w->missed == LS_MISSED_NOT)
            ls_control_fail(g->control, w->rank, w->reporter, (ls_status)w->code, w->text);
        else
            ls_control_missed(g->control, w->rank, w->reporter, (ls_missed)w->missed, w->text);
        break;
    case LS_NOTICE_QUESTION: {
        const ls_notice a = answer_of(g, w->about, text);
        gethostname(host, sizeof host - 1);
        snprintf(said, sizeof said, "on host %s %s", host, text);
        say(r, &a, said, w->from, w->from + 1);
        break;
    }
    case LS_NOTICE_ANSWER: /* (of each rank there; some may come late) */
        if (!r->answered && w->about == r->about)
            r->answer = *w;
        r->answered = r->answered || w->about == r->about;
        break;
    }
}

ls_status ls_remote_look(ls_remote_group *r)
{
    ls_control_block *control = r->group->control;
    bool done = false;
    while (r->listens && !r->deaf && r->ops->test(&r->transport, &r->listening, &done) && done) {
        ls_notice w = r->heard;
        r->listens = false;
        LS_TRY(ls_remote_listen(r));
        hear(r, &w);
    }
    if (!ls_control_failed(control))
        return LS_OK;
    if (!r->told && !r->deaf) {
        r->told = true;
        const ls_failure *f = &control->failure;
        say(r,
            &(ls_notice){ .kind = LS_NOTICE_FAILURE,
                          .rank = f->rank,
                          .reporter = f->reporter,
                          .code = f->code,
                          .missed = f->missed },
            f->text, 0, r->group->size);
    }
    return ls_group_failure(r->group);
}

/* Asks the ranks on the machine of `rank` for what it waits: r->answered, r->answer. */
static ls_status ask_machine(ls_remote_group *r, int rank)
{
    const ls_group *g = r->group;
    int first = rank / g->here * g->here;
    r->about = rank;
    r->answered = is_here(g, rank);
    if (r->answered) {
        char text[LS_DESCRIPTION_BYTES];
        r->answer = answer_of(g, rank, text);
        snprintf(r->answer.text, sizeof r->answer.text, "%s", text);
        return LS_OK;
    }
    say(r, &(ls_notice){ .kind = LS_NOTICE_QUESTION, .about = rank }, "", first, first + g->here);
    for (double patience = ANSWER_SECONDS, began; !r->answered && patience > 0;
         patience -= ls_patience_spent(ls_now() - began)) {
        began = ls_now();
        LS_TRY(ls_remote_look(r));
        usleep(1000);
    }
    return LS_OK;
}

/* From machine to machine, as far as ranks there wait for others: the stages of a pipeline wait in a chain. A
 * rank that waits for this one is not asked further: it is late for another reason. */
static ls_status control_ask(ls_remote_group *r, int rank)
{
    enum { HOPS = 64 };
    LS_TRY(ask_machine(r, rank));
    for (int i = 0; i < HOPS && r->answered && r->answer.waits_for >= 0 &&
                    r->answer.waits_for != r->group->rank && r->answer.waits_for != rank;
         i++)
        LS_TRY(ask_machine(r, r->answer.waits_for));
    return LS_OK;
}

static const char *answer(const ls_remote_group *r) { return r->answered ? r->answer.text : LS_SAID_NOTHING; }

ls_status ls_remote_lag(ls_remote_group *r, ls_lag_timer *l, int rank, const char *what)
{
    LS_TRY(control_ask(r, rank));
    const int blocker = r->answered ? r->answer.rank : r->about;
    /* ranks that wait for this one then name it too, with this answer */
    ls_control_set_answer(ls_group_record(r->group), answer(r));
    atomic_store(&ls_group_record(r->group)->waits_for_remote, 1 + blocker);
    ls_lag_report(r->group, l, blocker, what, answer(r));
    return LS_OK;
}

ls_status ls_remote_missing(ls_remote_group *r, const ls_route *t, int rank, const char *what, bool again)
{
    ls_group *g = r->group;
    char text[LS_DESCRIPTION_BYTES + 512];
    LS_TRY(control_ask(r, rank));
    if (r->about != rank && !again)
        return LS_OK;
    ls_snprintf(text, sizeof text,
                "did not come within %g s; rank %d waited for it in %s of axis \"%s\"; %.351s", g->deadline,
                g->rank, what, t->axis.name, answer(r));
    ls_control_missed(g->control, r->answered ? r->answer.rank : r->about, g->rank, LS_MISSED_LATE, text);
    return ls_remote_look(r);
}
