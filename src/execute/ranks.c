/* ranks.c - the part of a session for its group: axes, windows, collectives with fixed addresses, and the
 * fence between programs.
 *
 * The fence protects memory that other ranks read without asking: slices of states, mapped units, and
 * gradients between two programs. A program begins when every rank has finished its previous program. Inside
 * a program the planner's lifetimes protect this memory (comm/comm.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/sys.h"
#include "base/check.h"
#include "comm/axes.h"
#include "comm/group_calls.h"
#include "internal.h"
#include "plan/linked.h"

static ls_status add_axis(ls_session *s, const char *name)
{
    ls_ranks *r = s->ranks;
    int *members = LS_ARENA_ARRAY(&s->arena, int, ls_mesh_ranks(&r->parallel.mesh)), position;
    LS_TRY(ls_sys_have(members));
    const int n = ls_mesh_group(&r->parallel.mesh, r->parallel.rank, name, members, &position);
    if (n < 1)
        return ls_fail(LS_E_INTERNAL, "session: \"%s\" names no group of the mesh", name);
    snprintf(r->axes[r->n_axes].name, sizeof r->axes[r->n_axes].name, "%s", name);
    return ls_axis_create(&r->axes[r->n_axes++].axis, r->group, name, n, members);
}

enum { NAMES = 16 }; /* groups that the programs of one rank name */

/* Makes an axis of each group that a plan names, in order of appearance. All ranks make the same ones in the
 * same order; the stages of a pipeline have other programs, so they list the names of all ranks. */
static ls_status add_axes(ls_session *s, int n_plans, ls_plan *const *plans)
{
    ls_ranks *r = s->ranks;
    typedef struct list {
        char name[NAMES][sizeof r->axes->name];
    } list;
    list mine = { 0 }, *all = &mine;
    int n = 0;
    for (int i = 0; i < n_plans; i++)
        for (int k = 0; k < plans[i]->n_collectives; k++) {
            const char *name = plans[i]->collectives[k].group;
            int at = 0;
            while (at < n && strcmp(mine.name[at], name))
                at++;
            LS_CHECK(at < NAMES, "raise NAMES");
            if (at == n)
                snprintf(mine.name[n++], sizeof mine.name[0], "%s", name);
        }
    const int lists = r->differ ? ls_group_size(r->group) : 1;
    if (r->differ)
        LS_TRY(ls_group_all_gather_new(r->group, &mine, sizeof mine, (void **)&all));
    r->axes = ls_arena_alloc(&s->arena, sizeof *r->axes * (size_t)(lists * NAMES));
    ls_status status = ls_arena_status(&s->arena);
    for (int i = 0; i < lists * NAMES && status == LS_OK; i++) {
        const char *name = all[i / NAMES].name[i % NAMES];
        if (*name && ls_ranks_axis(r, name) < 0)
            status = add_axis(s, name);
    }
    if (r->differ)
        free(all);
    return status;
}

ls_status ls_ranks_create(ls_session *s, int n_plans, ls_plan *const *plans, ls_group *group,
                          const ls_parallel *parallel)
{
    int collectives = 0;
    for (int i = 0; i < n_plans; i++)
        collectives += plans[i]->n_collectives;
    const int ranks = group ? ls_group_size(group) : 1;
    if (ranks == 1 && !collectives)
        return LS_OK;
    if (!parallel || ls_mesh_ranks(&parallel->mesh) != ranks ||
        parallel->rank != (group ? ls_group_rank(group) : 0))
        return ls_fail(
            LS_E_ARG, "session: the programs were planned for rank %d of %lld, but this is rank %d of %d",
            parallel ? parallel->rank : 0, (long long)(parallel ? ls_mesh_ranks(&parallel->mesh) : 1),
            group ? ls_group_rank(group) : 0, ranks);
    ls_ranks *r = s->ranks = LS_ARENA_NEW(&s->arena, ls_ranks);
    LS_TRY(ls_sys_have(r));
    r->group = group;
    r->parallel = *parallel;
    r->pipeline = ls_mesh_axis(&parallel->mesh, LS_ROLE_PIPELINE);
    r->differ = ls_mesh_group_size(&parallel->mesh, r->pipeline) > 1;
    int *all = LS_ARENA_ARRAY(&s->arena, int, ranks);
    LS_TRY(ls_arena_status(&s->arena));
    for (int i = 0; i < ranks; i++)
        all[i] = i;
    LS_TRY(ls_axis_create(&r->world, group, "world", ranks, all));
    for (int i = 0; i < n_plans; i++)
        r->mailbox_bytes += plans[i]->mailbox_bytes;
    return add_axes(s, n_plans, plans);
}

/* All ranks' parts of a window are of the same size: the largest that one needs. */
static ls_status largest(size_t *bytes, const ls_ranks *r)
{
    size_t *all;
    if (!r->differ)
        return LS_OK;
    LS_TRY(ls_group_all_gather_new(r->group, bytes, sizeof *bytes, (void **)&all));
    for (int i = 0; i < ls_group_size(r->group); i++)
        *bytes = all[i] > *bytes ? all[i] : *bytes;
    free(all);
    return LS_OK;
}

ls_status ls_ranks_map(ls_session *s, const ls_device *d)
{
    ls_ranks *r = s->ranks;
    size_t bytes = r->shared_bytes + s->region_bytes[LS_MEM_SYMMETRIC] + r->host_bytes;
    LS_TRY(largest(&bytes, r));
    LS_TRY(ls_window_create(&r->window, r->world, bytes, 0));
    if (r->mailbox_bytes) /* (fresh memory is zero, so the counters are) */
        LS_TRY(ls_window_create(&r->mailboxes, r->axes[ls_ranks_axis(r, r->pipeline)].axis, r->mailbox_bytes,
                                0));
    if (!s->ops->apart) {
        s->region[LS_REGION_SHARED] = r->window->mine;
        s->region[LS_MEM_SYMMETRIC] = r->window->mine + r->shared_bytes;
    }
    if (s->ops->reach && r->window->bytes) {
        LS_TRY(s->ops->reach(r->window->mine, d, r->window->bytes));
        r->reached = true;
    }
    for (int i = 0; i < r->n_axes; i++)
        if (r->axes[i].node_bytes)
            LS_TRY(ls_window_create(&r->axes[i].node, r->axes[i].axis, 0, r->axes[i].node_bytes));
    return LS_OK;
}

static const char *label(ls_session *s, const ls_plan *p, const ls_plan_collective *c)
{
    return ls_arena_printf(&s->arena, "%s of %s over %s, program %s", ls_collective_name(c->kind),
                           *c->unit ? c->unit : "a number", c->group, p->graph->name);
}

/* Copies of operand and result between the device and the window. A result that is made in place is in the
 * window, too; other results have staging memory. */
static void stage(ls_session *s, const ls_program *g, int k, ls_collective_desc *d, char *operand, char *to)
{
    const ls_plan_collective *c = &g->plan->collectives[k];
    const int64_t in = c->count * (c->kind == LS_REDUCE_SCATTER ? c->n : 1),
                  out = c->kind == LS_ALL_TO_ALL ? c->row * c->room
                                                 : c->count * (c->kind == LS_ALL_GATHER ? c->n : 1);
    ls_staged *x = &g->staged[k];
    *x = (ls_staged){ .operand = operand,
                      .window = s->ranks->window->mine + d->offset,
                      .operand_bytes = c->sent ? 0 : (size_t)in * ls_dtype_size(c->from),
                      .to = to,
                      .result_bytes = (size_t)out * ls_dtype_size(c->to) };
    d->result = x->result = c->staging < 0 ? x->window : g->where[c->staging];
    if (c->kind != LS_ALL_TO_ALL)
        return;
    x->begins = (const char *)d->begins;
    x->host_begins = x->result + ls_staged_begins(g->plan, c);
    x->begins_bytes = (size_t)(c->n * (c->groups + 1)) * sizeof *d->begins;
    d->begins = (const int32_t *)(const void *)x->host_begins;
}

/* The offset of the operand in the window of each member of the group, if they have different programs. */
static ls_status find_offsets(ls_session *s, const ls_plan_collective *c, size_t mine, const size_t **out)
{
    const ls_ranks *r = s->ranks;
    const ls_mesh *mesh = &r->parallel.mesh;
    if (!r->differ || !ls_mesh_group_has(c->group, r->pipeline))
        return LS_OK;
    size_t *all, *offsets = LS_ARENA_ARRAY(&s->arena, size_t, c->n);
    int *members = LS_ARENA_ARRAY(&s->arena, int, ls_mesh_ranks(mesh)), position;
    LS_TRY(ls_arena_status(&s->arena));
    LS_TRY(ls_group_all_gather_new(r->group, &mine, sizeof mine, (void **)&all));
    ls_mesh_group(mesh, r->parallel.rank, c->group, members, &position);
    for (int i = 0; i < c->n; i++)
        offsets[i] = all[members[i]];
    free(all);
    *out = offsets;
    return LS_OK;
}

/* Where the mailboxes of a program begin: each has its own, since the counters in them go on. */
static size_t mailboxes_of(const ls_session *s, const ls_program *g)
{
    size_t at = 0;
    for (const ls_program *p = s->programs; p < g; p++)
        at += p->plan->mailbox_bytes;
    return at;
}

/* Of a device whose memory is its own, a message is staged between the device and the mailbox: its copy of
 * the device needs no empty mailbox. */
static ls_status prepare_message(ls_session *s, const ls_program *g, int k, ls_collective **out)
{
    const ls_ranks *r = s->ranks;
    const ls_plan *p = g->plan;
    const ls_plan_collective *c = &p->collectives[k];
    const ls_node *n = p->graph->nodes[c->node];
    const bool sends = c->kind == LS_SEND;
    const ls_location *at = &p->locations[sends ? n->in[0].id : n->out[0].id];
    char *place = g->where[at->alloc] + at->offset;
    if (ls_device_apart(&p->device)) {
        const size_t bytes = (size_t)c->count * ls_dtype_size(c->from);
        char *staging = g->where[c->staging];
        g->staged[k] = sends ? (ls_staged){ .operand = place, .window = staging, .operand_bytes = bytes }
                             : (ls_staged){ .to = place, .result = staging, .result_bytes = bytes };
        place = staging;
    }
    return ls_collective_create(out, &(ls_collective_desc){ .kind = c->kind,
                                                            .axis = r->axes[ls_ranks_axis(r, c->group)].axis,
                                                            .count = c->count,
                                                            .from = c->from,
                                                            .to = c->to,
                                                            .via = c->via,
                                                            .window = r->mailboxes,
                                                            .offset = mailboxes_of(s, g) + c->offset,
                                                            .result = sends ? NULL : place,
                                                            .operand = sends ? place : NULL,
                                                            .peer = c->peer,
                                                            .mailbox = c->mailbox,
                                                            .label = label(s, p, c) });
}

static ls_status ranks_prepare(ls_session *s, const ls_program *g, int k, ls_collective **out)
{
    const ls_ranks *r = s->ranks;
    const ls_plan *p = g->plan;
    const ls_plan_collective *c = &p->collectives[k];
    const ls_node *n = p->graph->nodes[c->node];
    if (ls_is_message(c))
        return prepare_message(s, g, k, out);
    const bool alias = ls_is_alias_gather(p->graph, n);
    if (alias || p->device.linked)
        return LS_OK;
    const ls_location *in = &p->locations[n->in[0].id], *result = &p->locations[n->out[0].id];
    char *operand = g->where[in->alloc] + in->offset;
    char *to = g->where[result->alloc] + result->offset;
    const bool mapped = c->kind == LS_ALL_GATHER && c->map;
    const char *window = p->on_host ? r->window->mine : s->region[LS_REGION_SHARED];
    ls_collective_desc d = {
        .kind = c->kind,
        .axis = r->axes[ls_ranks_axis(r, c->group)].axis,
        .count = c->count,
        .from = c->from,
        .to = c->to,
        .via = c->via,
        .window = r->window,
        .offset = mapped ? 0 : (size_t)(operand - window),
        .result = mapped ? NULL : to,
        .settled = c->settled,
        .map_to = mapped ? to : NULL,
        .map_from = mapped ? operand : NULL,
        .row = c->row,
        .groups = c->groups,
        .room = c->room,
        .back = c->back,
        .threads = p->device.threads,
        .label = label(s, p, c),
    };
    if (c->kind == LS_ALL_TO_ALL) {
        const ls_location *begins = &p->locations[n->in[1].id];
        d.begins = (const int32_t *)(const void *)(g->where[begins->alloc] + begins->offset);
    }
    LS_TRY(find_offsets(s, c, d.offset, &d.offsets));
    if (ls_device_apart(&p->device))
        stage(s, g, k, &d, operand, to);
    return ls_collective_create(out, &d);
}

static const char *doing(ls_session *s, const ls_plan *p, const ls_step *step)
{
    const ls_node *n = p->graph->nodes[step->node];
    const char *path = n->scope->path[0] ? n->scope->path : "the root";
    if (step->part == LS_PART_RUN)
        return ls_arena_printf(&s->arena, "%s, %s of %s", p->graph->name, n->op->name, path);
    const char *unit = ls_half_unit(p, step),
               *what = step->collective < 0 ? n->op->name
                                            : ls_collective_name(p->collectives[step->collective].kind);
    return ls_arena_printf(&s->arena, "%s, %s of %s", p->graph->name, what, *unit ? unit : "a number");
}

/* Lists the shared states that a program changes. */
static ls_status find_written(ls_session *s, ls_program *g)
{
    const ls_plan *p = g->plan;
    bool *seen = LS_ARENA_ARRAY(&s->arena, bool, p->n_allocs + 1);
    g->written = LS_ARENA_ARRAY(&s->arena, ls_shared_range, p->n_allocs + 1);
    LS_TRY(ls_arena_status(&s->arena));
    for (int i = 0; i < p->n_steps && ls_device_apart(&p->device); i++) {
        const ls_node *n = p->graph->nodes[p->steps[i].node];
        for (int k = 0; k < n->n_out; k++) {
            const int at = p->locations[n->out[k].id].alloc;
            if (at < 0) /* nobody reads this output */
                continue;
            const ls_alloc *a = &p->allocs[at];
            /* (another program may be the one that shares it, so the plan does not say) */
            const size_t offset = (size_t)(g->where[at] - s->region[LS_REGION_SHARED]);
            if (a->memory != LS_MEM_STATE || a->host || offset >= s->ranks->shared_bytes || seen[at])
                continue;
            seen[at] = true;
            g->written[g->n_written++] = (ls_shared_range){ offset, a->bytes };
        }
    }
    return LS_OK;
}

ls_status ls_ranks_prepare(ls_session *s, ls_program *g)
{
    const ls_plan *p = g->plan;
    g->collectives = LS_ARENA_ARRAY(&s->arena, ls_collective *, p->n_collectives + 1);
    g->staged = LS_ARENA_ARRAY(&s->arena, ls_staged, p->n_collectives + 1);
    LS_TRY(ls_arena_status(&s->arena));
    for (int k = 0; k < p->n_collectives; k++)
        LS_TRY(ranks_prepare(s, g, k, &g->collectives[k]));
    LS_TRY(find_written(s, g));
    for (int i = 0; i < p->n_steps; i++) {
        g->calls[i].doing = doing(s, p, &p->steps[i]);
        if (p->steps[i].collective < 0 || ls_goes_linked(p, &p->collectives[p->steps[i].collective]))
            continue;
        g->calls[i].collective = g->collectives[p->steps[i].collective];
        if (ls_device_apart(&p->device))
            g->calls[i].staged = &g->staged[p->steps[i].collective];
    }
    return ls_arena_status(&s->arena);
}

void ls_ranks_destroy(ls_session *s)
{
    ls_ranks *r = s->ranks;
    if (!r)
        return;
    for (int i = 0; i < s->n_programs; i++)
        for (int k = 0; s->programs[i].collectives && k < s->programs[i].plan->n_collectives; k++)
            ls_collective_destroy(&s->programs[i].collectives[k]);
    ls_window_destroy(&r->mailboxes);
    for (int i = 0; i < r->n_axes; i++) {
        ls_window_destroy(&r->axes[i].node);
        ls_axis_destroy(&r->axes[i].axis);
    }
    if (r->reached)
        s->ops->unreach(r->window->mine);
    ls_window_destroy(&r->window);
    ls_axis_destroy(&r->world);
    s->ranks = NULL;
}

void ls_ranks_doing(ls_ranks *r, const char *what)
{
    const size_t room = sizeof r->doing - r->prefix - 1, n = strlen(what);
    memcpy(r->doing + r->prefix, what, n < room ? n : room);
    r->doing[r->prefix + (n < room ? n : room)] = 0;
    ls_group_doing(r->group, r->doing);
}

/* ---- in the queue's time */

static ls_status half(void *context)
{
    const ls_call *c = context;
    ls_ranks_doing(c->session->ranks, c->doing);
    return c->part == LS_PART_START ? ls_collective_start(c->collective) : ls_collective_wait(c->collective);
}

void ls_ranks_half(ls_session *s, ls_call *c)
{
    const ls_staged *x = c->staged;
    if (x && c->part == LS_PART_START && x->operand_bytes)
        s->ops->copy(s->queue, x->window, x->operand, x->operand_bytes);
    if (x && c->part == LS_PART_START && x->begins_bytes)
        s->ops->copy(s->queue, x->host_begins, x->begins, x->begins_bytes);
    s->ops->host(s->queue, half, c);
    if (x && c->part == LS_PART_WAIT && x->result_bytes)
        s->ops->copy(s->queue, x->to, x->result, x->result_bytes);
}

static ls_status fence(void *context)
{
    const ls_program *g = context;
    return ls_axis_fence(g->session->ranks->world, g->plan->graph->name);
}

static ls_status arrive(void *context)
{
    const ls_session *s = context;
    ls_axis_arrive(s->ranks->world);
    return LS_OK;
}

/* Copies a shared state into the window, where other ranks read it without asking. */
static void publish(ls_session *s, size_t offset, size_t bytes)
{
    s->ops->copy(s->queue, s->ranks->window->mine + offset, s->region[LS_REGION_SHARED] + offset, bytes);
}

/* (Over links, nobody reads another rank's memory without asking.) */
void ls_ranks_begin(ls_session *s, ls_program *g)
{
    if (!g->plan->device.linked)
        s->ops->host(s->queue, fence, g);
}

void ls_ranks_end(ls_session *s, ls_program *g)
{
    if (g->plan->device.linked)
        return;
    for (int i = 0; i < g->n_written; i++)
        publish(s, g->written[i].offset, g->written[i].bytes);
    s->ops->host(s->queue, arrive, s);
}

void ls_session_label(ls_session *s, const char *text)
{
    if (!s->ranks)
        return;
    ls_ranks *r = s->ranks;
    snprintf(r->doing, sizeof r->doing, "%.40s, ", text);
    r->prefix = strlen(r->doing);
}

ls_status ls_session_enter(ls_session *s, const char *what)
{
    if (!s->ranks)
        return LS_OK;
    LS_TRY(ls_session_wait(s));
    return ls_axis_fence(s->ranks->world, what);
}

ls_status ls_session_leave(ls_session *s)
{
    if (!s->ranks)
        return LS_OK;
    if (s->ops->apart)
        publish(s, 0, s->ranks->shared_bytes);
    s->ops->host(s->queue, arrive, s);
    return ls_ranks_settle(s);
}

ls_status ls_ranks_settle(ls_session *s)
{
    return s->ops->apart && s->ranks && !ls_axis_one_machine(s->ranks->world) ? ls_session_wait(s) : LS_OK;
}

ls_ledger ls_session_ledger(const ls_session *s)
{
    ls_ledger sum = { 0 };
    for (int i = 0; s->ranks && i < s->ranks->n_axes; i++) {
        const ls_ledger *l = ls_axis_ledger(s->ranks->axes[i].axis);
        sum.calls += l->calls;
        sum.bytes += l->bytes;
        sum.waited += l->waited;
    }
    return sum;
}
