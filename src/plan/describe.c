/* describe.c - a summary of a plan: cost, memory by category, and the values that are live at the peak. */
#include "describe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/check.h"
#include "internal.h"

/* "linear_dx  encoder.layers.encoder_layer_3.mlp" */
static void step_label(ls_str *out, const ls_plan *p, int step)
{
    const ls_step *s = &p->steps[step];
    const ls_node *n = p->graph->nodes[s->node];
    if (s->part != LS_PART_RUN) {
        ls_str_printf(out, "%s %s  %s", s->part == LS_PART_START ? "start" : "wait for", n->op->name,
                      ls_half_unit(p, s));
        return;
    }
    ls_str_printf(out, "%s%s%s", n->op->name, n->scope->path[0] ? "  " : "", n->scope->path);
}

static int name_order(const ls_alloc *a, const ls_alloc *b)
{
    return ls_identity_order(a->is, a->name, b->is, b->name);
}

/* Counts a named allocation of the session, which any of its programs may have. */
static void count_name(ls_footprint *out, const ls_alloc *a)
{
    const size_t bytes = ls_align_up(a->bytes);
    if (a->memory == LS_MEM_NODE) {
        out->node += bytes;
        return;
    }
    *(a->memory == LS_MEM_STATE ? &out->state : &out->io) += bytes;
    out->fixed[a->category] += bytes;
    out->window += a->shared ? bytes : 0;
    out->host += a->host ? bytes : 0;
    out->host_window += a->host && a->shared ? bytes : 0;
    out->on_host[a->category] += a->host ? bytes : 0;
}

/* Whether unpacked allocation k of plan i counts for its name. Of several programs' allocations with one
 * name, the first one that is a state counts, or else the first one. A slice of a mapped unit does not count,
 * because only the programs that gather the unit know that it is a slice. */
static bool counts(int n_plans, ls_plan *const *plans, int i, int k)
{
    const ls_alloc *a = &plans[i]->allocs[plans[i]->unpacked[k]];
    if (a->memory == LS_MEM_GRADIENT)
        return false;
    for (int p = 0; p < n_plans; p++)
        for (int x = 0; x < plans[p]->n_unpacked; x++) {
            const ls_alloc *b = &plans[p]->allocs[plans[p]->unpacked[x]];
            if (name_order(a, b))
                continue;
            const int state = (b->memory == LS_MEM_STATE) - (a->memory == LS_MEM_STATE);
            if (b->inside || state > 0 || (!state && (p < i || (p == i && x < k))))
                return false;
        }
    return true;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

void ls_plans_footprint(ls_footprint *out, int n_plans, ls_plan *const *plans)
{
    *out = (ls_footprint){ 0 };
    size_t worst = 0, host_arena = 0;
    for (int i = 0; i < n_plans; i++) {
        const ls_plan *p = plans[i];
        for (int k = 0; k < p->n_unpacked; k++)
            if (counts(n_plans, plans, i, k))
                count_name(out, &p->allocs[p->unpacked[k]]);
        out->symmetric = larger(out->symmetric, p->symmetric_bytes);
        out->mailboxes += p->mailbox_bytes;
        if (p->on_host) {
            host_arena = larger(host_arena, p->arena_bytes);
            continue;
        }
        out->arena = larger(out->arena, p->arena_bytes);
        if (p->live_peak_bytes > worst || i == 0) {
            worst = p->live_peak_bytes;
            out->peak_plan = i;
        }
    }
    out->fixed[LS_CAT_STAGING] += out->mailboxes;
    memcpy(out->by_category, out->fixed, sizeof out->by_category);
    const ls_plan *peak = n_plans ? plans[out->peak_plan] : NULL;
    for (int k = 0; peak && k < peak->n_allocs; k++) {
        const ls_alloc *a = &peak->allocs[k];
        if (ls_is_transient(a) && a->first <= peak->peak_step && peak->peak_step <= a->last)
            out->by_category[a->category] += ls_align_up(a->bytes);
    }
    out->window += out->symmetric + out->mailboxes;
    out->arena += host_arena;
    out->host += host_arena;
    out->total = out->state + out->io + out->arena + out->symmetric + out->mailboxes;
}

int ls_plan_traffic(ls_traffic *rows, int n, const ls_plan *p, int64_t runs)
{
    for (int i = 0; i < p->n_collectives; i++) {
        const ls_plan_collective *c = &p->collectives[i];
        int k = 0;
        while (k < n && (rows[k].kind != c->kind || rows[k].map != c->map || strcmp(rows[k].group, c->group)))
            k++;
        if (k == n) {
            LS_CHECK(n < LS_TRAFFIC_ROWS, "more than %d kinds of collectives", LS_TRAFFIC_ROWS);
            rows[n] = (ls_traffic){ .kind = c->kind, .ranks = c->n, .map = c->map };
            snprintf(rows[n++].group, sizeof rows[0].group, "%s", c->group);
        }
        rows[k].calls += runs;
        rows[k].bytes += (double)runs * c->bytes;
        rows[k].seconds += (double)runs * c->seconds;
    }
    return n;
}

void ls_traffic_text(ls_str *out, const ls_traffic *t)
{
    ls_str_printf(out, "%s over %s%s", ls_collective_name(t->kind), t->group, t->map ? ", mapped" : "");
}

static int by_size(const void *pa, const void *pb)
{
    const ls_alloc *a = *(const ls_alloc *const *)pa, *b = *(const ls_alloc *const *)pb;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return a->first != b->first ? a->first - b->first : (a > b) - (a < b);
}

/* Allocations of this rank that are live at a step, the largest first. `out` has room for p->n_allocs.
 * Returns how many. */
static int plan_alive(const ls_plan *p, int step, const ls_alloc **out)
{
    int n = 0;
    for (int i = 0; i < p->n_allocs; i++) {
        const ls_alloc *a = &p->allocs[i];
        if (ls_is_lasting(a) || (ls_is_transient(a) && a->first <= step && step <= a->last))
            out[n++] = a;
    }
    qsort(out, (size_t)n, sizeof *out, by_size);
    return n;
}

static int alive_by_size(const void *pa, const void *pb)
{
    const size_t a = ((const ls_alive *)pa)->alloc->bytes, b = ((const ls_alive *)pb)->alloc->bytes;
    return (a < b) - (a > b);
}

int ls_plans_alive(ls_arena *arena, int n_plans, ls_plan *const *plans, int running, int step, ls_alive **out)
{
    int most = 0, n = 0;
    for (int i = 0; i < n_plans; i++)
        most += plans[i]->n_allocs;
    ls_alive *all = *out = LS_ARENA_ARRAY(arena, ls_alive, most + 1);
    const ls_alloc **alive = LS_ARENA_ARRAY(arena, const ls_alloc *, most + 1);
    for (int i = 0; alive && i < n_plans; i++) {
        const ls_plan *plan = plans[(running + i) % n_plans];
        const int k = plan_alive(plan, i ? -1 : step, alive);
        for (int a = 0; a < k; a++) {
            bool there = false;
            for (int h = 0; h < n && i && !there; h++)
                there = ls_is_lasting(all[h].alloc) && !name_order(all[h].alloc, alive[a]);
            if (!there)
                all[n++] = (ls_alive){ alive[a], plan };
        }
    }
    if (n)
        qsort(all, (size_t)n, sizeof *all, alive_by_size);
    return n;
}

void ls_alloc_text(ls_str *out, const ls_plan *p, const ls_alloc *a)
{
    const ls_node *n =
        p->graph->nodes[a->value < 0 ? p->steps[a->first].node : p->graph->vals[a->value].node];
    if (a->name)
        ls_str_add(out, a->name);
    else
        ls_str_printf(out, "%s%s%s%s",
                      a->value < 0                    ? "workspace of "
                      : a->category == LS_CAT_STAGING ? "staging of "
                                                      : "",
                      n->op->name, n->scope->path[0] ? "  " : "", n->scope->path);
}

static const char *flops_text(char b[32], double flops)
{
    const char *const UNITS[] = { "FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP" };
    int u = 0;
    for (; flops >= 1000 && u < 5; u++)
        flops /= 1000;
    ls_snprintf(b, 32, u ? "%.2f %s" : "%.0f %s", flops, UNITS[u]);
    return b;
}

static double lost(const ls_plan *p)
{
    return p->live_peak_bytes ? (double)(p->arena_bytes + p->symmetric_bytes - p->live_peak_bytes) /
                                    (double)p->live_peak_bytes
                              : 0;
}

static const ls_placed *placed(const ls_plan *p, const ls_alloc *a)
{
    return a->value < 0 ? NULL : p->graph->vals[a->value].placed;
}

void ls_plan_text(ls_str *out, ls_plan *p, int top)
{
    char a[32], b[32], c[32];
    ls_str_printf(out, "program %s: %d steps, %s, %s moved", p->graph->name, p->n_steps,
                  flops_text(a, p->flops), ls_format_bytes(b, (uint64_t)p->bytes));
    if (p->n_collectives)
        ls_str_printf(out, ", %d collectives", p->n_collectives);
    if (p->seconds > 0)
        ls_str_printf(out, ", about %s", ls_format_duration(c, p->seconds));
    ls_str_printf(out, "\n  state %s, inputs and outputs %s, ", ls_format_bytes(a, p->state_bytes),
                  ls_format_bytes(b, p->io_bytes));
    ls_str_printf(out, "arena %s", ls_format_bytes(a, p->arena_bytes));
    if (p->symmetric_bytes)
        ls_str_printf(out, " + %s in the window", ls_format_bytes(a, p->symmetric_bytes));
    ls_str_printf(out, " (live peak %s, packing loses %.1f %%)\n", ls_format_bytes(b, p->live_peak_bytes),
                  100 * lost(p));
    if (p->node_bytes)
        ls_str_printf(out, "  %s that the ranks of a host have once\n", ls_format_bytes(a, p->node_bytes));
    if (p->pinned_bytes)
        ls_str_printf(out, "  results of collectives pass through %s of host memory\n",
                      ls_format_bytes(a, p->pinned_bytes));
    if (!p->n_steps)
        return;
    ls_str_printf(out, "  most is alive at step %d of %d: ", p->peak_step, p->n_steps);
    step_label(out, p, p->peak_step);
    ls_str_add(out, "\n");
    for (int k = 0; k < LS_CAT_COUNT; k++)
        if (p->peak_by_category[k])
            ls_str_printf(out, "    %-12s %12s\n", ls_category_name((ls_category)k),
                          ls_format_bytes(a, p->peak_by_category[k]));
    ls_arena scratch;
    ls_arena_init(&scratch);
    const ls_alloc **alive = LS_ARENA_ARRAY(&scratch, const ls_alloc *, p->n_allocs);
    ls_str_add(out, alive ? "" : NULL);
    const int n = alive ? plan_alive(p, p->peak_step, alive) : 0;
    if (top > 0 && n)
        ls_str_add(out, "  the largest of it\n");
    for (int i = 0; i < n && i < top; i++) {
        ls_str_printf(out, "    %12s  %-11s ", ls_format_bytes(a, alive[i]->bytes),
                      ls_category_name(alive[i]->category));
        ls_alloc_text(out, p, alive[i]);
        if (placed(p, alive[i]))
            ls_str_add(out, " ");
        ls_placed_text(out, placed(p, alive[i]));
        if (ls_is_transient(alive[i]))
            ls_str_printf(out, "  (steps %d-%d)", alive[i]->first, alive[i]->last);
        ls_str_add(out, "\n");
    }
    ls_arena_release(&scratch);
}

void ls_plan_json(ls_json *j, const char *key, ls_plan *p, int top)
{
    ls_str text = { 0 };
    ls_json_object(j, key);
    ls_json_text(j, "program", p->graph->name);
    ls_json_text(j, "device", p->device.ops->name);
    ls_json_text(j, "isa", p->device.arch->name);
    ls_json_int(j, "threads", p->device.threads);
    ls_json_int(j, "steps", p->n_steps);
    ls_json_f64(j, "flops", p->flops);
    ls_json_f64(j, "bytes", p->bytes);
    ls_json_f64(j, "seconds", p->seconds > 0 ? p->seconds : NAN);
    ls_json_int(j, "state_bytes", (int64_t)p->state_bytes);
    ls_json_int(j, "io_bytes", (int64_t)p->io_bytes);
    ls_json_int(j, "arena_bytes", (int64_t)p->arena_bytes);
    ls_json_int(j, "symmetric_bytes", (int64_t)p->symmetric_bytes);
    ls_json_int(j, "node_bytes", (int64_t)p->node_bytes);
    ls_json_int(j, "pinned_bytes", (int64_t)p->pinned_bytes);
    ls_json_int(j, "host_bytes", (int64_t)p->host_bytes);
    ls_json_int(j, "live_peak_bytes", (int64_t)p->live_peak_bytes);
    ls_json_int(j, "collectives", p->n_collectives);
    ls_json_object(j, "peak");
    ls_json_int(j, "step", p->peak_step);
    if (p->n_steps)
        step_label(&text, p, p->peak_step);
    ls_json_text(j, "at", ls_str_text(&text));
    ls_json_object(j, "by_category");
    for (int k = 0; k < LS_CAT_COUNT; k++)
        ls_json_int(j, ls_category_name((ls_category)k), (int64_t)p->peak_by_category[k]);
    ls_json_close_object(j);
    ls_arena scratch;
    ls_arena_init(&scratch);
    const ls_alloc **alive = LS_ARENA_ARRAY(&scratch, const ls_alloc *, p->n_allocs);
    ls_str_add(&j->out, alive ? "" : NULL);
    const int n = alive ? plan_alive(p, p->peak_step, alive) : 0;
    ls_json_array(j, "largest");
    for (int i = 0; i < n && i < top; i++) {
        ls_str_clear(&text);
        ls_alloc_text(&text, p, alive[i]);
        ls_json_object(j, NULL);
        ls_json_text(j, "what", ls_str_text(&text));
        ls_placed_json(j, placed(p, alive[i]));
        ls_json_text(j, "category", ls_category_name(alive[i]->category));
        ls_json_int(j, "bytes", (int64_t)alive[i]->bytes);
        ls_json_int(j, "first", alive[i]->first);
        ls_json_int(j, "last", alive[i]->last);
        ls_json_close_object(j);
    }
    ls_json_close_array(j);
    ls_json_close_object(j);
    ls_json_close_object(j);
    ls_arena_release(&scratch);
    ls_str_release(&text);
}

const char *ls_plan_step_text(ls_arena *a, const ls_plan *p, int step)
{
    const ls_step *s = &p->steps[step];
    const ls_node *n = p->graph->nodes[s->node];
    if (s->part != LS_PART_RUN)
        return ls_arena_printf(a, "%s %s of %s", s->part == LS_PART_START ? "start" : "wait for", n->op->name,
                               ls_half_unit(p, s));
    return ls_arena_printf(a, "%s%s%s%s", n->op->name, n->phase == LS_PHASE_BACKWARD ? " (backward)" : "",
                           n->scope->path[0] ? " in " : "", n->scope->path);
}

void ls_placed_json(ls_json *j, const ls_placed *p)
{
    char text[32];
    if (!p)
        return;
    ls_json_object(j, "placement");
    for (; p; p = p->next)
        ls_json_text(j, p->axis, ls_placement_text(text, p->p));
    ls_json_close_object(j);
}
