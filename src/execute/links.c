/* links.c - collectives over links. The tasks of one are put into a queue beside that of the kernels: it
 * begins when the operand is complete, and the kernels' queue awaits its end where the plan waits.
 *
 * The host does not take part, so nothing here notices that another rank is lost, and the device would wait
 * for it forever. A thread looks at the group meanwhile (comm/look.c), and severs the links. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/sys.h"
#include "comm/agree.h"
#include "comm/axis.h"
#include "comm/group.h"
#include "device/link.h"
#include "internal.h"
#include "plan/linked.h"

static const long LOOK_NANOSECONDS = 20000000; /* between two looks at the group */

/* A collective with all addresses. */
struct ls_crossing {
    const ls_plan_collective *collective;
    ls_linked how;
    ls_axis *axis;
    ls_link *link;
    int position; /* this rank's */
    char *operand, *result, *scratch;
    ls_event *ready, *began, *done; /* began: of profiled runs */
};

struct ls_links {
    const ls_link_ops *ops;
    ls_group *group;
    ls_queue *queue;
    int n;
    ls_link **list; /* [axes of the session]; NULL: no program has a collective over it */
    pthread_t thread;
    bool watched;
    _Atomic bool ends, severed;
    _Atomic double since; /* ls_now() when this rank began to wait for its device; 0: it does not wait */
};

/* ---- the thread */

static bool all_is_well(ls_links *l, double since)
{
    const char *why = NULL;
    if (ls_group_look(l->group, ls_now() - since) != LS_OK)
        return false;
    for (int i = 0; i < l->n && !why; i++)
        if (l->list[i])
            l->ops->ask(l->list[i], &why);
    if (why)
        ls_group_fail(l->group, LS_E_DEVICE, why);
    return !why;
}

static void *watch(void *context)
{
    ls_links *l = context;
    while (!atomic_load(&l->ends)) {
        nanosleep(&(struct timespec){ .tv_nsec = LOOK_NANOSECONDS }, NULL);
        const double since = atomic_load(&l->since);
        if (since > 0 && !all_is_well(l, since)) {
            atomic_store(&l->severed, true);
            for (int i = 0; i < l->n; i++)
                if (l->list[i])
                    l->ops->sever(l->list[i]);
            break;
        }
    }
    return NULL;
}

void ls_links_wait(ls_session *s, bool begins)
{
    if (s->links)
        atomic_store(&s->links->since, begins ? ls_now() : 0);
}

ls_status ls_links_status(const ls_session *s)
{
    return s->links && atomic_load(&s->links->severed) ? ls_group_look(s->links->group, 0) : LS_OK;
}

ls_queue *ls_links_queue(const ls_session *s) { return s->links ? s->links->queue : NULL; }

/* ---- making and ending them */

static bool any(int n, ls_plan *const *plans)
{
    for (int i = 0; i < n; i++)
        if (plans[i]->device.linked && plans[i]->n_collectives)
            return true;
    return false;
}

/* The links of all axes: each axis' first member invites the others. */
static ls_status links_join(ls_session *s, const ls_device *d)
{
    const ls_ranks *r = s->ranks;
    ls_links *l = s->links;
    const int ranks = ls_group_size(r->group);
    unsigned char mine[LS_LINK_ID] = { 0 }, *all;
    int *members = LS_ARENA_ARRAY(&s->arena, int, ranks), position;
    all = LS_ARENA_ARRAY(&s->arena, unsigned char, LS_LINK_ID *ranks);
    LS_TRY(ls_arena_status(&s->arena));
    for (int i = 0; i < r->n_axes; i++) {
        const int n = ls_mesh_group(&r->parallel.mesh, r->parallel.rank, r->axes[i].name, members, &position);
        LS_TRY(ls_ranks_agree(r->group, position ? LS_OK : l->ops->invite(mine)));
        LS_TRY(ls_group_all_gather(r->group, mine, sizeof mine, all));
        LS_TRY(ls_ranks_agree(
            r->group, l->ops->join(&l->list[i], d, all + (size_t)members[0] * LS_LINK_ID, n, position)));
    }
    return LS_OK;
}

ls_status ls_links_create(ls_session *s, int n_plans, ls_plan *const *plans)
{
    const ls_device *d = &plans[0]->device;
    if (!s->ranks || !s->ranks->group || !d->ops->link)
        return LS_OK;
    LS_TRY(ls_ranks_same(s->ranks->group, d->linked ? "by links of the devices" : "through host memory",
                         "how values travel between ranks"));
    if (!any(n_plans, plans))
        return LS_OK;
    ls_links *l = s->links = LS_ARENA_NEW(&s->arena, ls_links);
    LS_TRY(ls_sys_have(l));
    l->ops = d->ops->link;
    l->group = s->ranks->group;
    l->n = s->ranks->n_axes;
    l->list = LS_ARENA_ARRAY(&s->arena, ls_link *, l->n + 1);
    LS_TRY(ls_arena_status(&s->arena));
    LS_TRY(s->ops->open(&l->queue, d));
    s->ops->number(l->queue, -1);
    LS_TRY(links_join(s, d));
    l->watched = ls_sys_thread(&l->thread, watch, l) == 0;
    return l->watched ? LS_OK : ls_fail(LS_E_MEMORY, "session: no thread to watch over links");
}

void ls_links_close(ls_session *s)
{
    if (s->links && s->links->queue)
        s->ops->close(&s->links->queue);
}

void ls_links_destroy(ls_session *s)
{
    ls_links *l = s->links;
    if (!l)
        return;
    for (int i = 0; i < s->n_programs; i++)
        for (int k = 0; s->programs[i].crossings && k < s->programs[i].plan->n_collectives; k++) {
            s->ops->forget(&s->programs[i].crossings[k].ready);
            s->ops->forget(&s->programs[i].crossings[k].began);
            s->ops->forget(&s->programs[i].crossings[k].done);
        }
    atomic_store(&l->ends, true);
    if (l->watched)
        pthread_join(l->thread, NULL);
    ls_links_close(s);
    const bool alone = atomic_load(&l->severed) || ls_group_look(l->group, 0) != LS_OK;
    for (int i = 0; i < l->n; i++) {
        if (l->list[i] && alone && !atomic_load(&l->severed))
            l->ops->sever(l->list[i]);
        if (l->list[i])
            l->ops->leave(&l->list[i]);
    }
    s->links = NULL;
}

static ls_status links_prepare(ls_crossing *x, const ls_program *g, int k)
{
    const ls_session *s = g->session;
    const ls_plan *p = g->plan;
    const ls_plan_collective *c = &p->collectives[k];
    const ls_node *n = p->graph->nodes[c->node];
    const ls_location *in = &p->locations[n->in[0].id], *out = &p->locations[n->out[0].id];
    const int axis = ls_ranks_axis(s->ranks, c->group);
    *x = (ls_crossing){ .collective = c,
                        .how = ls_linked_of(c),
                        .axis = s->ranks->axes[axis].axis,
                        .link = s->links->list[axis],
                        .position = ls_axis_position(s->ranks->axes[axis].axis),
                        .operand = g->where[in->alloc] + in->offset,
                        .result = g->where[out->alloc] + out->offset,
                        .scratch = c->staging < 0 ? NULL : g->where[c->staging] };
    LS_TRY(s->ops->event(&x->ready, &p->device));
    LS_TRY(s->ops->event(&x->began, &p->device));
    return s->ops->event(&x->done, &p->device);
}

ls_status ls_links_prepare(ls_session *s, ls_program *g)
{
    const ls_plan *p = g->plan;
    g->crossings = LS_ARENA_ARRAY(&s->arena, ls_crossing, p->n_collectives + 1);
    LS_TRY(ls_arena_status(&s->arena));
    for (int k = 0; k < p->n_collectives; k++)
        if (ls_goes_linked(p, &p->collectives[k]))
            LS_TRY(links_prepare(&g->crossings[k], g, k));
    for (int i = 0; i < p->n_steps; i++)
        if (p->steps[i].collective >= 0 && g->crossings[p->steps[i].collective].link)
            g->calls[i].crossing = &g->crossings[p->steps[i].collective];
    return LS_OK;
}

/* ---- tasks */

static void links_copy(ls_session *s, void *to, const void *from, size_t bytes)
{
    if (to != from)
        s->ops->copy(s->links->queue, to, from, bytes);
}

/* Converts from one type to another; a copy if the types are equal. */
static void convert(ls_session *s, void *to, ls_dtype as, const void *from, ls_dtype is, int64_t count)
{
    const ls_combination c = {
        .by = LS_COMBINE_SUM, .from = is, .via = as, .to = as, .n = 1, .in = from, .out = to, .count = count
    };
    if (is == as)
        links_copy(s, to, from, (size_t)count * ls_dtype_size(as));
    else
        s->links->ops->combine(s->links->queue, &c);
}

/* Adds the pieces that have arrived. */
static void combine(ls_session *s, const ls_crossing *x, void *out, int64_t count)
{
    const ls_plan_collective *c = x->collective;
    const bool sum = c->kind == LS_ALL_REDUCE || c->kind == LS_REDUCE_SCATTER;
    const ls_combination all = { .by = c->kind == LS_ALL_REDUCE_MAX    ? LS_COMBINE_MAX
                                       : c->kind == LS_ALL_REDUCE_WIDE ? LS_COMBINE_WIDE
                                                                       : LS_COMBINE_SUM,
                                 .from = x->how.travels,
                                 .via = sum ? c->via : c->from,
                                 .to = c->to,
                                 .n = c->n,
                                 .stride = x->how.piece,
                                 .in = x->scratch + x->how.at_received,
                                 .out = out,
                                 .count = count };
    s->links->ops->combine(s->links->queue, &all);
}

static void links_gather(ls_session *s, const ls_crossing *x)
{
    const ls_plan_collective *c = x->collective;
    char *all = x->how.receives ? x->scratch + x->how.at_received : x->result;
    convert(s, all + (size_t)x->position * x->how.piece, x->how.travels, x->operand, c->from, c->count);
    s->links->ops->gather(s->links->queue, x->link, all, x->how.piece);
    if (x->how.receives)
        convert(s, x->result, c->to, all, x->how.travels, c->count * c->n);
}

/* Sends each member its piece of this rank's operand, and receives this rank's piece of all operands. */
static void exchange(ls_session *s, const ls_crossing *x, int64_t count)
{
    char *sent = x->how.sends ? x->scratch + x->how.at_sent : x->operand;
    if (x->how.sends)
        convert(s, sent, x->how.travels, x->operand, x->collective->from, count);
    s->links->ops->exchange(s->links->queue, x->link, sent, x->scratch + x->how.at_received, x->how.piece);
}

static void scatter(ls_session *s, const ls_crossing *x)
{
    exchange(s, x, x->collective->count * x->collective->n);
    combine(s, x, x->result, x->collective->count);
}

static void reduce_whole(ls_session *s, const ls_crossing *x)
{
    const ls_plan_collective *c = x->collective;
    char *all = x->scratch + x->how.at_received;
    convert(s, all + (size_t)x->position * x->how.piece, x->how.travels, x->operand, c->from, c->count);
    s->links->ops->gather(s->links->queue, x->link, all, x->how.piece);
    combine(s, x, x->result, c->count);
}

/* (The result may lie in the operand's memory: the operand has been sent when the pieces of others have
 * arrived.) */
static void reduce_pieces(ls_session *s, const ls_crossing *x)
{
    const ls_plan_collective *c = x->collective;
    char *all = x->how.makes ? x->scratch + x->how.at_made : x->result;
    exchange(s, x, c->count);
    combine(s, x, all + (size_t)x->position * x->how.made, x->how.each);
    s->links->ops->gather(s->links->queue, x->link, all, x->how.made);
    links_copy(s, x->result, all, (size_t)c->count * ls_dtype_size(c->to));
}

void ls_link_half(ls_session *s, const ls_call *call)
{
    const ls_crossing *x = call->crossing;
    ls_queue *q = s->links->queue;
    if (call->part == LS_PART_WAIT) {
        s->ops->await(s->queue, x->done);
        return;
    }
    s->ops->record(s->queue, x->ready);
    s->ops->await(q, x->ready);
    if (s->profile)
        s->ops->record(q, x->began);
    if (x->collective->kind == LS_ALL_GATHER)
        links_gather(s, x);
    else if (x->collective->kind == LS_REDUCE_SCATTER)
        scatter(s, x);
    else
        (x->how.whole ? reduce_whole : reduce_pieces)(s, x);
    s->ops->record(q, x->done);
}

void ls_links_begin(ls_program *g)
{
    const ls_plan *p = g->plan;
    ls_group_began(g->session->ranks->group, p->graph->name);
    for (int k = 0; k < p->n_collectives; k++)
        if (g->crossings[k].link)
            ls_axis_count(g->crossings[k].axis, 1, (int64_t)p->collectives[k].bytes);
}

void ls_links_times(const ls_program *g, double *out)
{
    const ls_queue_ops *ops = g->session->ops;
    for (int k = 0; k < g->plan->n_collectives; k++) {
        if (!g->crossings[k].link)
            continue;
        out[2 * k] = ops->elapsed(g->events[0], g->crossings[k].began);
        out[2 * k + 1] = ops->elapsed(g->crossings[k].began, g->crossings[k].done);
    }
}
