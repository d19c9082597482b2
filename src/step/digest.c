/* digest.c - compares the programs of all ranks before the first step. Ranks with different programs would
 * wait for each other forever; the comparison makes this an error. */
#include "digest.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/str.h"
#include "base/sys.h"
#include "comm/agree.h"
#include "plan/linked.h"
#include "plan/strides.h"

static const char *const PARTS[] = {
    [LS_PART_RUN] = "", [LS_PART_START] = " start", [LS_PART_WAIT] = " wait"
};

/* Where the others read this rank's operand, if it is in the window: behind what the same kind of memory has
 * before it, as the session places it. In memory that is only this rank's, places may differ. */
static void add_place(ls_str *out, const ls_plan *p, const ls_plan_collective *c)
{
    const ls_location *at = &p->locations[p->graph->nodes[c->node]->in[0].id];
    const ls_alloc *a = &p->allocs[at->alloc];
    size_t offset = at->offset;
    if (a->memory == LS_MEM_SYMMETRIC)
        offset += a->offset;
    else if (a->shared)
        for (const ls_alloc *b = p->allocs; b < a; b++)
            offset += b->shared ? ls_align_up(b->bytes) : 0;
    else
        return;
    ls_str_printf(out, " at %zu of the window's %s", offset, a->shared ? "states" : "arena");
}

static void add_step(ls_str *out, const ls_plan *p, const ls_step *step, bool scopes)
{
    const ls_node *n = p->graph->nodes[step->node];
    char type[128];
    ls_str_printf(out, "%s%s", n->op->name, PARTS[step->part]);
    if (step->collective >= 0) {
        const ls_plan_collective *c = &p->collectives[step->collective];
        ls_str_printf(out, " %s over %s of %d, %lld x %s to %s via %s", c->unit, c->group, c->n,
                      (long long)c->count, ls_dtype_name(c->from), ls_dtype_name(c->to),
                      ls_dtype_name(c->via));
        if (!ls_is_message(c))
            add_place(out, p, c);
    }
    for (int k = 0; k < n->n_out; k++)
        ls_str_printf(out, " %s", ls_type_text(type, ls_type_of(p->graph, n->out[k])));
    ls_str_printf(out, scopes ? "  (%s)\n" : "\n", n->scope->path);
}

/* Appends the programs as text, a line for each step. It has what must be the same on every rank (ops, types,
 * collectives, their order, where others find their operands), and nothing that may differ (which slice a
 * rank has). scopes: with the scope of each op. */
static void program_text(ls_str *out, int n, ls_plan *const *plans, bool scopes)
{
    for (int i = 0; i < n; i++) {
        const ls_plan *p = plans[i];
        ls_str_printf(out, "program %s on %s, %s, window %zu\n", p->graph->name, p->device.ops->name,
                      p->device.arch->name, p->symmetric_bytes);
        for (int k = 0; k < p->n_steps; k++)
            add_step(out, p, &p->steps[k], scopes);
    }
}

static int line_end(const char *text) { return (int)strcspn(text, "\n"); }

static ls_status difference(const char *here, const char *there, int rank, int root)
{
    int line = 1;
    while (*here && *there && line_end(here) == line_end(there) &&
           !strncmp(here, there, (size_t)line_end(here))) {
        here += line_end(here) + (here[line_end(here)] != 0);
        there += line_end(there) + (there[line_end(there)] != 0);
        line++;
    }
    return ls_fail(LS_E_USAGE,
                   "rank %d would run another program than rank %d; the first difference is line %d:\n  rank "
                   "%d: %.*s\n  rank %d: %.*s\n"
                   "All ranks need the same recipe, the same build and the same instruction set (isa:)",
                   rank, root, line, root, *there ? line_end(there) : 5, *there ? there : "(end)", rank,
                   *here ? line_end(here) : 5, *here ? here : "(end)");
}

/* The first rank that runs the same programs as this one: that of its stage. */
static int first_alike(const ls_mesh *m, int rank)
{
    const char *pipeline = ls_mesh_axis(m, LS_ROLE_PIPELINE);
    int r = 0;
    while (ls_mesh_position(m, r, pipeline) != ls_mesh_position(m, rank, pipeline))
        r++;
    return r;
}

ls_status ls_programs_agree(ls_group *g, const ls_mesh *mesh, int n, ls_plan *const *plans)
{
    const int ranks = ls_group_size(g), rank = ls_group_rank(g);
    ls_str text = { 0 };
    /* on an axis of role expert, ranks do the same for experts whose scopes have other numbers */
    program_text(&text, n, plans, !*ls_mesh_axis(mesh, LS_ROLE_EXPERT));
    uint64_t mine[2] = { ls_hash64(ls_str_text(&text), text.len), text.len };
    uint64_t *all = ls_sys_malloc(sizeof mine * (size_t)ranks);
    ls_status s = ls_ranks_agree(g, all ? ls_str_status(&text) : ls_sys_have(all));
    if (s == LS_OK)
        s = ls_group_all_gather(g, mine, sizeof mine, all);
    bool same = true;
    for (int r = 1; r < ranks && s == LS_OK; r++)
        same = same && !memcmp(&all[2 * r], &all[2 * first_alike(mesh, r)], sizeof mine);
    for (int root = 0; root < ranks && s == LS_OK && !same; root++) {
        if (first_alike(mesh, root) != root)
            continue;
        const size_t length = (size_t)all[2 * root + 1];
        char *first = ls_sys_calloc(1, length + 1);
        s = ls_ranks_agree(g, ls_sys_have(first));
        if (s == LS_OK && rank == root)
            memcpy(first, ls_str_text(&text), text.len);
        if (s == LS_OK)
            s = ls_group_broadcast(g, first, length, root);
        if (s == LS_OK && first_alike(mesh, rank) == root && memcmp(mine, &all[2 * root], sizeof mine) != 0) {
            s = difference(ls_str_text(&text), first, rank, root);
            ls_group_fail(g, s, ls_error_message());
        } else if (s == LS_OK) {
            s = ls_group_barrier(g); /* ends with the message of the rank that differs */
        }
        free(first);
    }
    free(all);
    ls_str_release(&text);
    return s;
}
