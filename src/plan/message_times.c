/* message_times.c - see message_times.h. */
#include "message_times.h"

static bool is_message(const ls_plan *p, const ls_step *s)
{
    if (s->collective < 0 || s->part != LS_PART_WAIT)
        return false;
    const ls_collective_kind k = p->collectives[s->collective].kind;
    return k == LS_SEND || k == LS_RECEIVE;
}

ls_status ls_message_times_of(ls_message_times *out, ls_arena *arena, const ls_plan *p)
{
    *out = (ls_message_times){ .events = LS_ARENA_ARRAY(arena, ls_message_time, p->n_collectives + 1) };
    LS_TRY(ls_arena_status(arena));
    for (int i = 0; i < p->n_steps; i++) {
        const ls_step *s = &p->steps[i];
        out->busy += s->seconds;
        if (!is_message(p, s)) {
            out->after += s->seconds;
            continue;
        }
        const ls_plan_collective *c = &p->collectives[s->collective];
        out->events[out->n++] = (ls_message_time){ .before = out->after,
                                                   .seconds = s->seconds,
                                                   .sends = c->kind == LS_SEND,
                                                   .peer = c->peer,
                                                   .offset = c->offset };
        out->after = 0;
    }
    return LS_OK;
}

typedef struct mailbox {
    int sender;
    size_t offset;
    bool full;
    double since; /* when it became full, or empty */
} mailbox;

typedef struct player {
    const ls_message_times *lines;
    mailbox *boxes;
    int n_boxes;
    int *next; /* [lines] */
    double *time;
} player;

static mailbox *mailbox_of(player *p, int sender, size_t offset)
{
    for (int i = 0; i < p->n_boxes; i++)
        if (p->boxes[i].sender == sender && p->boxes[i].offset == offset)
            return &p->boxes[i];
    p->boxes[p->n_boxes] = (mailbox){ .sender = sender, .offset = offset };
    return &p->boxes[p->n_boxes++];
}

static bool advance(player *p, int k)
{
    const ls_message_times *t = &p->lines[k];
    const int from = p->next[k];
    for (; p->next[k] < t->n; p->next[k]++) {
        const ls_message_time *e = &t->events[p->next[k]];
        mailbox *box = mailbox_of(p, e->sends ? k : e->peer, e->offset);
        if (box->full == e->sends)
            break;
        const double ready = p->time[k] + e->before;
        p->time[k] = box->since = (box->since > ready ? box->since : ready) + e->seconds;
        box->full = e->sends;
    }
    return p->next[k] > from;
}

static ls_status play(double *seconds, int n, player *p, ls_arena *arena)
{
    int events = 0;
    for (int k = 0; k < n; k++)
        events += p->lines[k].n;
    p->boxes = LS_ARENA_ARRAY(arena, mailbox, events + 1);
    p->next = LS_ARENA_ARRAY(arena, int, n);
    p->time = LS_ARENA_ARRAY(arena, double, n);
    LS_TRY(ls_arena_status(arena));
    for (bool moved = true; moved;) {
        moved = false;
        for (int k = 0; k < n; k++)
            moved |= advance(p, k);
    }
    *seconds = 0;
    for (int k = 0; k < n; k++) {
        if (p->next[k] < p->lines[k].n)
            return ls_fail(LS_E_INTERNAL, "plan: program %d of %d waits for ever before its message %d", k, n,
                           p->next[k]);
        const double end = p->time[k] + p->lines[k].after;
        *seconds = end > *seconds ? end : *seconds;
    }
    return LS_OK;
}

ls_status ls_message_times_play(double *seconds, int n, const ls_message_times *lines)
{
    ls_arena arena;
    ls_arena_init(&arena);
    player p = { .lines = lines };
    const ls_status s = play(seconds, n, &p, &arena);
    ls_arena_release(&arena);
    return s;
}
