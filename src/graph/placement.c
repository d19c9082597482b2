/* placement.c - names and comparisons of placements (placement.h). */
#include "placement.h"

#include <stdio.h>

const char *ls_placement_text(char text[32], ls_placement p)
{
    static const char *const NAMES[] = { [LS_INVARIANT] = "Invariant",
                                         [LS_REPLICATE] = "Replicate",
                                         [LS_SHARD] = "Shard",
                                         [LS_PARTIAL] = "Partial" };
    if (p.kind != LS_SHARD)
        snprintf(text, 32, "%s", NAMES[p.kind]);
    else if (p.dims > 1)
        snprintf(text, 32, "Shard(%d..%d)", p.dim, p.dim + p.dims - 1);
    else
        snprintf(text, 32, "Shard(%d)", p.dim);
    return text;
}

const ls_placed *ls_placed_copy(ls_arena *arena, const ls_placed *p)
{
    if (!p)
        return NULL;
    const ls_placed copy = { ls_arena_strdup(arena, p->axis), p->p, ls_placed_copy(arena, p->next) };
    return ls_arena_dup(arena, &copy, sizeof copy);
}

const ls_placed *ls_placed_gradient(ls_arena *arena, const ls_placed *p)
{
    static const ls_placement_kind OF[] = { [LS_INVARIANT] = LS_INVARIANT,
                                            [LS_REPLICATE] = LS_PARTIAL,
                                            [LS_SHARD] = LS_SHARD,
                                            [LS_PARTIAL] = LS_REPLICATE };
    if (!p)
        return NULL;
    ls_placed g = { p->axis, p->p, ls_placed_gradient(arena, p->next) };
    g.p.kind = OF[p->p.kind];
    return ls_arena_dup(arena, &g, sizeof g);
}

void ls_placed_text(ls_str *out, const ls_placed *p)
{
    char text[32];
    const char *between = "{";
    for (const ls_placed *at = p; at; at = at->next, between = ", ")
        ls_str_printf(out, "%s%s: %s", between, at->axis, ls_placement_text(text, at->p));
    if (p)
        ls_str_add(out, "}");
}
