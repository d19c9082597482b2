/* explain.c - a compiled step as text: every step with the place of its results and the reason why no copy
 * was needed, and every collective with the kernels that run at the same time. */
#include <string.h>

#include "describe.h"
#include "device/queue.h"
#include "explain_fold.h"
#include "internal.h"
#include "linked.h"
#include "ops/rules.h"

static const char *const PHASES[] = {
    [LS_PHASE_FORWARD] = "forward", [LS_PHASE_BACKWARD] = "backward", [LS_PHASE_UPDATE] = "update"
};
static const char *const MEMORIES[LS_MEM_COUNT] = { "arena", "state", "io",    "window",
                                                    "node",  "arena", "pinned" };

/* "state unit root", "io loss", "arena +1024 B"; beside a device whose memory is its own "host state unit
 * root" */
static void place_text(ls_str *out, const ls_plan *p, int value)
{
    const ls_location *at = &p->locations[value];
    if (at->alloc < 0) {
        ls_str_add(out, "nowhere");
        return;
    }
    const ls_alloc *a = &p->allocs[at->alloc];
    if (a->host && (p->on_host || ls_device_apart(&p->device)))
        ls_str_add(out, "host ");
    if (a->inside)
        ls_str_printf(out, "node \"%s\" +%zu", a->inside->name, a->inside_at + at->offset);
    else if (a->name && !at->offset)
        ls_str_printf(out, "%s \"%s\"", MEMORIES[a->memory], a->name);
    else if (a->name)
        ls_str_printf(out, "%s \"%s\" +%zu", MEMORIES[a->memory], a->name, at->offset);
    else
        ls_str_printf(out, "%s +%zu", MEMORIES[a->memory], a->offset + at->offset);
}

/* The reason for the place of output k of a step: "updated in place", "over %12", "inside %40", "" */
static void why_there(ls_str *out, const ls_plan *p, const ls_node *n, int k)
{
    const int v = n->out[k].id, alloc = p->locations[v].alloc;
    if (n->op->alias[k]) {
        ls_str_add(out, "updated in place");
        return;
    }
    for (int j = 0; k == 0 && j < n->n_in && j < 32; j++)
        if ((n->op->inplace >> j & 1) && ls_present(n->in[j]) && p->locations[n->in[j].id].alloc == alloc &&
            p->locations[n->in[j].id].offset == p->locations[v].offset) {
            ls_str_printf(out, "over %%%d", n->in[j].id);
            return;
        }
    const int base = alloc < 0 ? -1 : p->allocs[alloc].value;
    if (base > 0 && base != v && ls_type_bytes(ls_type_of(p->graph, n->out[k])) < p->allocs[alloc].bytes)
        ls_str_printf(out, "computed inside %%%d", base);
}

static void values_text(ls_str *out, const ls_graph *g, int n, const ls_value *v, bool types, bool placed)
{
    char type[128];
    for (int j = 0; j < n && j < 12; j++) {
        ls_str_add(out, j ? ", " : "");
        if (!ls_present(v[j]))
            ls_str_add(out, "-");
        else
            ls_str_printf(out, "%%%d", v[j].id);
        if (types && ls_present(v[j]))
            ls_str_printf(out, " %s", ls_type_text(type, ls_type_of(g, v[j])));
        if (placed && ls_present(v[j]) && ls_val_of(g, v[j])->placed) {
            ls_str_add(out, " ");
            ls_placed_text(out, ls_val_of(g, v[j])->placed);
        }
    }
    if (n > 12)
        ls_str_printf(out, ", ... %d more", n - 12);
}

static const char *remark(const ls_graph *g, const ls_node *n, int step)
{
    if (ls_is_source(n))
        return "from outside";
    if (ls_is_view(n))
        return "view";
    if (step < 0)
        return "all parts are computed in place";
    if (n->clone_of >= 0)
        return "computed again";
    if (n->op != &ls_op_copy)
        return "";
    /* a copy of contiguous data: reshard.c keeps a slice */
    const bool flat = ls_node_of(g, n->in[0])->op == &ls_op_flat_view;
    return flat ? "a slice of the unit, kept for the backward pass"
                : "copied, because the next op cannot follow these strides";
}

void ls_explain_legend(ls_str *out)
{
    ls_str_add(out, "%5 is a value; @ says where it lies, with a byte offset: state (lives between steps), "
                    "io (what the caller or the next program\n"
                    "reads), arena (this rank's, packed by lifetime), window (the same, and the other ranks "
                    "of the host read it), node (one copy for the ranks of\n"
                    "a host). A collective is two steps: start says that its operand is ready, wait returns "
                    "when its result is complete.\n");
}

/* The kernels that run between the start and the wait of a collective or a transfer. */
static void overlap_text(ls_str *out, const ls_plan *p, int start, int wait)
{
    int first = -1, last = -1, n = 0;
    double seconds = 0;
    for (int i = start + 1; i < wait; i++) {
        if (p->steps[i].part != LS_PART_RUN)
            continue;
        first = first < 0 ? i : first;
        last = i;
        n++;
        seconds += p->steps[i].seconds;
    }
    if (!n) {
        ls_str_add(out, ", overlaps nothing");
        return;
    }
    ls_str_printf(out, ", overlaps %d step%s: %s", n, n == 1 ? "" : "s",
                  p->graph->nodes[p->steps[first].node]->op->name);
    if (n > 1)
        ls_str_printf(out, " to %s", p->graph->nodes[p->steps[last].node]->op->name);
    if (seconds > 0)
        ls_str_printf(out, ", %.1f us", seconds * 1e6);
}

/* On a device whose memory is its own, a start and a wait copy, except over a link. */
static void copied_text(ls_str *out, const ls_plan *p, const ls_plan_collective *c, bool wait)
{
    const ls_node *n = p->graph->nodes[c->node];
    if (ls_goes_linked(p, c))
        ls_str_add(out, wait ? "" : ", from device to device");
    else if (ls_device_apart(&p->device) && c->kind != (wait ? LS_SEND : LS_RECEIVE) && (wait || !c->sent))
        ls_str_printf(out, ", %zu B copied to the %s",
                      ls_type_bytes(ls_type_of(p->graph, wait ? n->out[0] : n->in[0])),
                      wait               ? "device"
                      : ls_is_message(c) ? "host"
                                         : "window");
}

static void collective_text(ls_str *out, const ls_plan *p, int step)
{
    const ls_plan_collective *c = &p->collectives[p->steps[step].collective];
    if (p->steps[step].part == LS_PART_WAIT) {
        ls_str_printf(out, "%s %s  started at %d", ls_collective_name(c->kind), c->unit, c->start);
        copied_text(out, p, c, true);
        return;
    }
    ls_str_printf(out, "%s %s  over %s, %d ranks, ", ls_collective_name(c->kind), c->unit, c->group, c->n);
    if (c->map)
        ls_str_add(out, c->from == c->to ? "a mapping on this node: nothing moves"
                                         : "a mapping on this node: each rank converts its slice, ");
    if (c->kind == LS_SEND)
        ls_str_printf(out, "%.0f B sent", (double)c->count * (double)ls_dtype_size(c->from));
    if (c->bytes > 0)
        ls_str_printf(out, "%.0f B received", c->bytes);
    if (c->from != c->to)
        ls_str_printf(out, ", %s to %s", ls_dtype_name(c->from), ls_dtype_name(c->to));
    if (c->kind == LS_REDUCE_SCATTER || c->kind == LS_ALL_REDUCE)
        ls_str_printf(out, ", summed in %s", ls_dtype_name(c->via));
    copied_text(out, p, c, false);
    ls_str_printf(out, "  wait at %d", c->wait);
    overlap_text(out, p, c->start, c->wait);
}

static void transfer_text(ls_str *out, const ls_plan *p, int step)
{
    const ls_plan_transfer *t = &p->transfers[p->steps[step].transfer];
    ls_str_printf(out, "%s %s", p->graph->nodes[t->node]->op->name, t->unit);
    if (p->steps[step].part == LS_PART_WAIT) {
        ls_str_printf(out, "  started at %d", t->start);
        return;
    }
    ls_str_printf(out, "  %zu B  wait at %d", t->bytes, t->wait);
    overlap_text(out, p, t->start, t->wait);
}

static void outputs_text(ls_str *out, const ls_plan *p, const ls_node *n, int step)
{
    values_text(out, p->graph, n->n_out, n->out, true, true);
    ls_str_add(out, "  @ ");
    for (int k = 0; k < n->n_out; k++) {
        ls_str_add(out, k ? ", " : "");
        place_text(out, p, n->out[k].id);
        ls_str why = { 0 };
        if (step >= 0)
            why_there(&why, p, n, k);
        if (why.len)
            ls_str_printf(out, " (%s)", why.data);
        ls_str_release(&why);
    }
}

static void cost_text(ls_str *out, const ls_plan *p, const ls_step *s)
{
    char b[32];
    if (s->cost.flops > 0)
        ls_str_printf(out, "  %.3g MFLOP", s->cost.flops / 1e6);
    ls_str_printf(out, "  %s", ls_format_bytes(b, (uint64_t)s->cost.bytes));
    if (s->workspace >= 0)
        ls_str_printf(out, "  workspace %s", ls_format_bytes(b, p->allocs[s->workspace].bytes));
    if (s->seconds > 0)
        ls_str_printf(out, "  %.1f us", s->seconds * 1e6);
}

static void line_text(ls_str *out, const ls_plan *p, const ls_explain_line *l)
{
    const ls_node *n = p->graph->nodes[l->node];
    const ls_part part = l->step < 0 ? LS_PART_RUN : p->steps[l->step].part;
    if (l->step >= 0)
        ls_str_printf(out, "%5d  ", l->step);
    else
        ls_str_add(out, "       ");
    if (part != LS_PART_RUN) {
        ls_str_add(out, part == LS_PART_START ? "start  " : "wait   ");
        (p->steps[l->step].transfer >= 0 ? transfer_text : collective_text)(out, p, l->step);
        if (part == LS_PART_START) {
            ls_str_add(out, "\n                ");
            values_text(out, p->graph, n->n_in, n->in, true, false);
            ls_str_add(out, " -> ");
            outputs_text(out, p, n, l->step);
        }
        ls_str_add(out, "\n");
        return;
    }
    const ls_kernel *kernel = l->step < 0 ? NULL : p->steps[l->step].kernel;
    ls_str_printf(out, "%s ", n->op->name);
    if (kernel && kernel->by)
        ls_str_printf(out, "by %s ", kernel->by);
    values_text(out, p->graph, n->n_in, n->in, false, false);
    ls_str_add(out, n->n_in ? " -> " : "-> ");
    outputs_text(out, p, n, l->step);
    const char *note = remark(p->graph, n, l->step);
    if (note[0])
        ls_str_printf(out, "  [%s]", note);
    if (l->step >= 0)
        cost_text(out, p, &p->steps[l->step]);
    ls_str_add(out, "\n");
}

/* The lines of a span under headings: the phase and the scope of their kernels. */
static void span_text(ls_str *out, const ls_plan *p, const ls_explain_line *lines, const ls_explain_span *s,
                      const char **heading, ls_phase *phase)
{
    for (int i = s->first; i < s->end; i++) {
        int kernel = i;
        while (kernel < s->end &&
               (lines[kernel].step < 0 || p->steps[lines[kernel].step].part != LS_PART_RUN))
            kernel++;
        const ls_node *n = p->graph->nodes[lines[kernel < s->end ? kernel : i].node];
        if (kernel < s->end && (!*heading || n->phase != *phase || strcmp(*heading, n->scope->path))) {
            *phase = n->phase;
            *heading = n->scope->path;
            ls_str_printf(out, "%s  %s\n", PHASES[*phase], **heading ? *heading : "(top level)");
        }
        line_text(out, p, &lines[i]);
    }
}

/* Each repetition begins with a block of the model. */
static void fold_text(ls_str *out, const ls_explain_span *spans, const ls_explain_line *lines, int k)
{
    const ls_explain_span *first = &spans[k + 1], *last = &spans[spans[k].until];
    const int period = (spans[k].until - k) / spans[k].more;
    int from = first->first, to = last->end - 1;
    while (lines[from].step < 0)
        from++;
    while (lines[to].step < 0)
        to--;
    ls_str_printf(out, "  ...  the same %s for %s", PHASES[first->phase], first->block->path);
    if (spans[k].more > 1)
        ls_str_printf(out, " to %s (%d times)", spans[spans[k].until - period + 1].block->path,
                      spans[k].more);
    ls_str_printf(out, ": steps %d to %d\n", lines[from].step, lines[to].step);
}

void ls_explain_text(ls_str *out, const ls_plan *p, bool full)
{
    ls_arena scratch;
    ls_arena_init(&scratch);
    ls_explain_line *lines;
    ls_explain_span *spans;
    const int n_lines = ls_explain_lines(&scratch, p, &lines),
              n = scratch.no_memory ? 0 : ls_explain_spans(&scratch, p, n_lines, lines, &spans);
    ls_str_printf(out, "program %s on %s (%s, %d thread%s): %d steps", p->graph->name, p->device.ops->name,
                  p->device.arch->name, p->device.threads, p->device.threads == 1 ? "" : "s", p->n_steps);
    ls_str_add(out, scratch.no_memory ? NULL : "");
    ls_traffic traffic[LS_TRAFFIC_ROWS];
    const int kinds = ls_plan_traffic(traffic, 0, p, 1);
    for (int i = 0; i < kinds; i++) {
        char b[32];
        ls_str_printf(out, "%s%lld x ", i ? ", " : "; ", (long long)traffic[i].calls);
        ls_traffic_text(out, &traffic[i]);
        ls_str_printf(out, " (%s)", ls_format_bytes(b, (uint64_t)traffic[i].bytes));
    }
    ls_str_add(out, "\n");
    const char *heading = NULL;
    ls_phase phase = LS_PHASE_FORWARD;
    for (int k = 0; k < n; k++) {
        if (!spans[k].hidden || full)
            span_text(out, p, lines, &spans[k], &heading, &phase);
        if (spans[k].more && !full) {
            fold_text(out, spans, lines, k);
            heading = NULL;
        }
    }
    for (int i = 0; i < p->graph->n_outputs; i++) {
        ls_str_printf(out, "output \"%s\" = %%%d  @ ", p->graph->outputs[i].name,
                      p->graph->outputs[i].value.id);
        place_text(out, p, p->graph->outputs[i].value.id);
        ls_str_add(out, "\n");
    }
    ls_arena_release(&scratch);
}

static void value_json(ls_json *j, const ls_plan *p, ls_value v)
{
    char type[128];
    ls_json_object(j, NULL);
    ls_json_int(j, "value", v.id);
    ls_json_text(j, "type", ls_type_text(type, ls_type_of(p->graph, v)));
    ls_placed_json(j, ls_val_of(p->graph, v)->placed);
    const ls_location *at = &p->locations[v.id];
    if (at->alloc >= 0) {
        const ls_alloc *a = &p->allocs[at->alloc];
        ls_json_text(j, "memory", MEMORIES[a->inside ? LS_MEM_NODE : a->memory]);
        if (a->name)
            ls_json_text(j, "name", a->inside ? a->inside->name : a->name);
        ls_json_int(j, "offset",
                    (int64_t)((a->inside ? a->inside_at
                               : a->name ? 0
                                         : a->offset) +
                              at->offset));
    }
    ls_json_close_object(j);
}

static void node_json(ls_json *j, const ls_plan *p, const ls_node *n, int step)
{
    ls_json_object(j, NULL);
    if (step >= 0)
        ls_json_int(j, "step", step);
    ls_json_text(j, "op", n->op->name);
    const ls_kernel *kernel = step < 0 ? NULL : p->steps[step].kernel;
    if (kernel && kernel->by)
        ls_json_text(j, "by", kernel->by);
    ls_json_text(j, "phase", PHASES[n->phase]);
    ls_json_text(j, "scope", n->scope->path);
    ls_json_array(j, "in");
    for (int k = 0; k < n->n_in; k++)
        ls_json_int(j, NULL, n->in[k].id);
    ls_json_close_array(j);
    ls_json_array(j, "out");
    for (int k = 0; k < n->n_out; k++)
        value_json(j, p, n->out[k]);
    ls_json_close_array(j);
    ls_str why = { 0 };
    if (step >= 0)
        why_there(&why, p, n, 0);
    ls_json_text(j, "note", why.len ? why.data : remark(p->graph, n, step));
    ls_str_release(&why);
    if (step >= 0) {
        ls_json_f64(j, "flops", p->steps[step].cost.flops);
        ls_json_f64(j, "bytes", p->steps[step].cost.bytes);
        if (p->steps[step].seconds > 0)
            ls_json_f64(j, "seconds", p->steps[step].seconds);
    }
    ls_json_close_object(j);
}

/* The members of a collective and of a transfer about its halves. */
static void halves_json(ls_json *j, const ls_plan *p, int start, int wait)
{
    int overlaps = 0;
    for (int i = start + 1; i < wait; i++)
        overlaps += p->steps[i].part == LS_PART_RUN;
    ls_json_int(j, "start", start);
    ls_json_int(j, "wait", wait);
    ls_json_int(j, "overlaps", overlaps);
}

static void collective_json(ls_json *j, const ls_plan *p, const ls_plan_collective *c)
{
    ls_json_object(j, NULL);
    ls_json_text(j, "kind", ls_collective_name(c->kind));
    ls_json_text(j, "unit", c->unit);
    ls_json_text(j, "group", c->group);
    ls_json_int(j, "ranks", c->n);
    ls_json_int(j, "count", c->count);
    ls_json_text(j, "from", ls_dtype_name(c->from));
    ls_json_text(j, "to", ls_dtype_name(c->to));
    ls_json_text(j, "via", ls_dtype_name(c->via));
    ls_json_bool(j, "mapped", c->map);
    ls_json_f64(j, "bytes", c->bytes);
    halves_json(j, p, c->start, c->wait);
    if (c->seconds > 0)
        ls_json_f64(j, "seconds", c->seconds);
    ls_json_close_object(j);
}

static void transfer_json(ls_json *j, const ls_plan *p, const ls_plan_transfer *t)
{
    ls_json_object(j, NULL);
    ls_json_text(j, "kind", p->graph->nodes[t->node]->op->name);
    ls_json_text(j, "unit", t->unit);
    ls_json_f64(j, "bytes", (double)t->bytes);
    halves_json(j, p, t->start, t->wait);
    if (t->seconds > 0)
        ls_json_f64(j, "seconds", t->seconds);
    ls_json_close_object(j);
}

void ls_explain_json(ls_json *j, const char *key, const ls_plan *p)
{
    const ls_graph *g = p->graph;
    ls_arena scratch;
    ls_arena_init(&scratch);
    int *step_of = LS_ARENA_ARRAY(&scratch, int, g->n_nodes); /* [nodes]; for a collective, its start */
    ls_str_add(&j->out, step_of ? "" : NULL);
    for (int i = 0; step_of && i < g->n_nodes; i++)
        step_of[i] = -1;
    for (int i = 0; step_of && i < p->n_steps; i++)
        if (p->steps[i].part != LS_PART_WAIT)
            step_of[p->steps[i].node] = i;
    ls_json_object(j, key);
    ls_json_text(j, "program", g->name);
    ls_json_array(j, "nodes");
    for (int i = 0; i < g->n_nodes; i++)
        node_json(j, p, g->nodes[i], step_of ? step_of[i] : -1);
    ls_json_close_array(j);
    ls_json_array(j, "collectives");
    for (int i = 0; i < p->n_collectives; i++)
        collective_json(j, p, &p->collectives[i]);
    ls_json_close_array(j);
    ls_json_array(j, "transfers");
    for (int i = 0; i < p->n_transfers; i++)
        transfer_json(j, p, &p->transfers[i]);
    ls_json_close_array(j);
    ls_json_array(j, "outputs");
    for (int i = 0; i < g->n_outputs; i++) {
        ls_json_object(j, NULL);
        ls_json_text(j, "name", g->outputs[i].name);
        ls_json_int(j, "value", g->outputs[i].value.id);
        ls_json_close_object(j);
    }
    ls_json_close_array(j);
    ls_json_close_object(j);
    ls_arena_release(&scratch);
}
