/* groups.c - finds the optimizer's group of each parameter: the first group that names it. Parameters of
 * different groups lie in different units (layout.c), so an update has one rule and one set of settings for
 * its whole unit. */
#include <stdio.h>
#include <string.h>

#include "base/field.h"
#include "ops/rules.h"
#include "passes.h"

/* Puts the parameters that a word names into group `group`, unless they are in an earlier one. Returns how
 * many it names; *taken counts those that it gets. */
static int groups_take(ls_units *u, const ls_node *const *params, const char *word, int group, int *taken)
{
    int named = 0;
    for (int i = 0; i < u->n_slots; i++) {
        ls_slot *s = &u->slots[i];
        if (!ls_word_names_parameter(word, params[i]->scope, s->name))
            continue;
        named++;
        if (!s->frozen && !s->group) {
            s->group = group;
            ++*taken;
        }
    }
    return named;
}

/* Whether a parameter, or a view of it, is a table (of an embedding): its rows are not outputs of a layer. */
static bool is_table(const ls_graph *g, const ls_node *param)
{
    for (int i = param->id + 1; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_in; k++)
            if (g->nodes[i]->in[k].id == param->out[0].id &&
                (g->nodes[i]->op == &ls_op_embedding || g->nodes[i]->op == &ls_op_position_bias ||
                 ((g->nodes[i]->op->flags & LS_OP_VIEW) && is_table(g, g->nodes[i]))))
                return true;
    return false;
}

static void mark_matrices(ls_units *u, const ls_graph *g, const ls_node *const *params, uint64_t plain)
{
    for (int i = 0; i < u->n_slots; i++) {
        ls_slot *s = &u->slots[i];
        s->matrix = !s->frozen && s->whole.ndim == 2 && !(s->group && plain >> (s->group - 1) & 1) &&
                    !is_table(g, params[i]);
    }
}

ls_status ls_units_group(ls_units *u, const ls_graph *g, const ls_node *const *params, const ls_trained *what)
{
    for (int k = 0; what && k < what->n_groups; k++) {
        const char *words = what->groups[k];
        char word[512];
        int taken = 0, n = 0;
        for (int used; sscanf(words, "%511s%n", word, &used) == 1; words += used, n++)
            if (!groups_take(u, params, word, k + 1, &taken))
                return ls_fail_field(
                    LS_E_USAGE, "groups",
                    "group %d: %s names no parameter; words are class:NAME (of modules) and "
                    "pattern:GLOB (of whole names of parameters), and lockstep inspect RECIPE "
                    "lists both",
                    k + 1, word);
        if (!n)
            return ls_fail_field(LS_E_USAGE, "groups", "group %d: match is empty", k + 1);
        if (!taken)
            return ls_fail_field(LS_E_USAGE, "groups",
                                 "group %d (%s) gets no parameter: all that it names are frozen or in an "
                                 "earlier group",
                                 k + 1, what->groups[k]);
    }
    if (what && what->matrices)
        mark_matrices(u, g, params, what->plain);
    return LS_OK;
}
