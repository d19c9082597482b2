/* batch.c - finds the inputs of a model that a batch fills, by the names in its graph. */
#include <string.h>

#include "ops/rules.h"
#include "trainer.h"

static bool is_one_of(const char *name, const char *const *names)
{
    while (*names && strcmp(name, *names))
        names++;
    return *names;
}

ls_status ls_batch_inputs(const ls_graph *g, const char **inputs, const char **targets)
{
    static const char *const TARGETS[] = { "labels", "targets", NULL }, *const NUMBERS[] = { "count", "track",
                                                                                             "sample_places",
                                                                                             NULL };
    *inputs = *targets = NULL;
    for (int i = 0; i < g->n_nodes; i++) {
        if (g->nodes[i]->op != &ls_op_input)
            continue;
        const char *name = ((const ls_source_attrs *)g->nodes[i]->attrs)->name;
        if (is_one_of(name, NUMBERS))
            continue;
        const char **found = is_one_of(name, TARGETS) ? targets : inputs;
        if (*found)
            return ls_fail(LS_E_ARG,
                           "the model has inputs \"%s\" and \"%s\"; a batch fills one input of samples, and "
                           "\"labels\" or \"targets\"",
                           *found, name);
        *found = name;
    }
    return *inputs && *targets ? LS_OK
                               : ls_fail(LS_E_ARG, "the model has no input for %s",
                                         *inputs ? "targets, \"labels\" or \"targets\"" : "samples");
}
