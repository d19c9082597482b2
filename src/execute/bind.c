/* bind.c - binds inputs to the caller's memory, so that a batch is not copied once more before each step.
 * The few operands that lie in an input's memory are listed once; binding changes their addresses. */
#include <string.h>

#include "base/sys.h"
#include "internal.h"

/* Counts the operands of a program that lie in the input's memory (all of it, or a view), and writes them to
 * `list` unless it is NULL. */
static int find_operands(const ls_program *g, const ls_binding *b, ls_bound *list)
{
    int found = 0, n = 0;
    for (int i = 0; i < g->plan->n_steps; i++)
        n += ls_operands(g->plan->graph->nodes[g->plan->steps[i].node]);
    for (int i = 0; i < n; i++) {
        const char *at = g->operands[i].data;
        if (at < b->own || at >= b->own + b->bytes)
            continue;
        if (list)
            list[found] = (ls_bound){ &g->operands[i], (size_t)(at - b->own) };
        found++;
    }
    return found;
}

/* Whether other readers know the memory's address too: other ranks, or an output that is a view of it. */
static bool has_other_readers(const ls_session *s, const ls_named *input)
{
    for (int i = 0; i < s->n_names; i++)
        if (s->names[i].owner == (int)(input - s->names))
            return true;
    return input->memory != LS_MEM_IO || input->shared;
}

ls_status ls_session_binding(ls_session *s, ls_identity is, const char *name, ls_binding **out)
{
    ls_place p;
    LS_TRY(ls_session_place_of(s, is, name, &p));
    ls_binding *b = *out = LS_ARENA_ARRAY(&s->arena, ls_binding, 1);
    LS_TRY(ls_sys_have(b));
    *b = (ls_binding){
        .place = p, .own = ls_place_address(&p), .bytes = ls_type_bytes(&p.type), .copies = s->ops->apart
    };
    if (b->copies)
        return LS_OK;
    for (int i = 0; i < s->n_names; i++)
        if (s->names[i].tensor.data == b->own && !strcmp(s->names[i].name, name))
            b->copies = has_other_readers(s, &s->names[i]);
    for (int i = 0; i < s->n_programs; i++)
        b->n += find_operands(&s->programs[i], b, NULL);
    b->list = LS_ARENA_ARRAY(&s->arena, ls_bound, b->n);
    LS_TRY(ls_sys_have(b->list));
    for (int i = 0, n = 0; i < s->n_programs; i++)
        n += find_operands(&s->programs[i], b, b->list + n);
    return LS_OK;
}

ls_status ls_session_bind(ls_binding *b, const void *data)
{
    if (b->copies)
        return data ? ls_session_put(&b->place, data, b->bytes) : LS_OK;
    for (int i = 0; i < b->n; i++)
        b->list[i].operand->data = (data ? (char *)(uintptr_t)data : b->own) + b->list[i].offset;
    return LS_OK;
}
