/* remote_control.c - when something goes wrong: a failure on one host becomes the failure of all, and a rank
 * of another host that does not come is named with what it did last, as its own host tells. */
#include "remote.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

static const double WORD_SECONDS = 1, ANSWER_SECONDS = 2; /* what saying something may take, and a question */

static bool is_here(const ls_group *g, int rank) { return rank >= g->first && rank < g->first + g->here; }

ls_status ls_remote_broken(ls_remote *r)
{
    ls_group *g = r->group;
    ls_block_fail(g->block, g->rank, g->rank, LS_E_PEER, r->transport.error);
    return ls_group_failure(g);
}

ls_status ls_remote_listen(ls_remote *r)
{
    r->listens = r->ops->receive(&r->transport, &r->listening, &r->heard, sizeof r->heard, LS_TRANSPORT_ANY,
                                 LS_REMOTE_CONTROL);
    return r->listens ? LS_OK : ls_remote_broken(r);
}

/* To the ranks [from, to) of other hosts. Small messages leave at once; whether they arrive cannot be waited
 * for here. */
static void say(ls_remote *r, int kind, int rank, int code, const char *text, int from, int to)
{
    r->said = (ls_word){ .kind = kind, .from = r->group->rank, .rank = rank, .code = code };
    snprintf(r->said.text, sizeof r->said.text, "%s", text);
    for (int i = from; i < to; i++) {
        ls_message m;
        bool done = false;
        if (is_here(r->group, i) ||
            !r->ops->send(&r->transport, &m, &r->said, sizeof r->said, r->place[i], LS_REMOTE_CONTROL))
            continue;
        for (double until = ls_now() + WORD_SECONDS; !done && ls_now() < until;)
            if (!r->ops->test(&r->transport, &m, &done) || (!done && usleep(100)))
                break;
    }
}

static void hear(ls_remote *r, const ls_word *w)
{
    ls_group *g = r->group;
    char text[LS_DESCRIPTION_BYTES];
    switch (w->kind) {
    case LS_WORD_FAILURE:
        r->told = true; /* whoever tells me has told the others */
        ls_block_fail(g->block, w->rank, -1, (ls_status)w->code, w->text);
        break;
    case LS_WORD_QUESTION: {
        int seat = ls_block_culprit(g->block, w->rank - g->first);
        ls_block_describe(g->block, seat, text);
        say(r, LS_WORD_ANSWER, g->first + seat, 0, text, w->from, w->from + 1);
        break;
    }
    case LS_WORD_ANSWER:
        if (!r->answered)
            r->answer = *w;
        r->answered = true;
        break;
    }
}

ls_status ls_remote_look(ls_remote *r)
{
    ls_block *b = r->group->block;
    bool done = false;
    while (r->listens && r->ops->test(&r->transport, &r->listening, &done) && done) {
        ls_word w = r->heard;
        r->listens = false;
        LS_TRY(ls_remote_listen(r));
        hear(r, &w);
    }
    if (!ls_block_failed(b))
        return LS_OK;
    if (!r->told) {
        r->told = true;
        say(r, LS_WORD_FAILURE, b->failure.rank, b->failure.code, b->failure.text, 0, r->group->size);
    }
    return ls_group_failure(r->group);
}

/* Asks the ranks of the host of `rank` what it does: r->answered, r->answer. */
static ls_status ask(ls_remote *r, int rank)
{
    const ls_group *g = r->group;
    int first = rank / g->here * g->here;
    r->answered = false;
    say(r, LS_WORD_QUESTION, rank, 0, "", first, first + g->here);
    for (double patience = ANSWER_SECONDS, began; !r->answered && patience > 0;
         patience -= ls_patience_spent(ls_now() - began)) {
        began = ls_now();
        LS_TRY(ls_remote_look(r));
        usleep(1000);
    }
    return LS_OK;
}

static const char *answer(const ls_remote *r, int rank)
{
    return r->answered               ? r->answer.text
           : is_here(r->group, rank) ? "it is on this host"
                                     : "its host does not answer";
}

ls_status ls_remote_lag(ls_remote *r, ls_lagging *l, int rank, const char *what)
{
    LS_TRY(ask(r, rank));
    const int culprit = r->answered ? r->answer.rank : rank;
    /* those that wait for me name it too */
    atomic_store(&ls_block_seat(r->group->block, ls_group_seat(r->group))->abroad, 1 + culprit);
    ls_lag_tell(r->group, l, culprit, what, answer(r, rank));
    return LS_OK;
}

ls_status ls_remote_blame(ls_remote *r, const ls_route *t, int rank, const char *what)
{
    ls_group *g = r->group;
    char text[LS_DESCRIPTION_BYTES + 512];
    LS_TRY(ask(r, rank));
    snprintf(text, sizeof text,
             "did not come within %g s; rank %d waited for it in %s of axis \"%s\"; %.240s", g->deadline,
             g->rank, what, t->axis.name, answer(r, rank));
    ls_block_fail(g->block, r->answered ? r->answer.rank : rank, g->rank, LS_E_PEER, text);
    return ls_remote_look(r);
}
