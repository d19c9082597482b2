/* eval_result.c - reads the result of an evaluation. */
#include "evaluate.h"

#include <math.h>
#include <string.h>

double ls_evaluate_perplexity(const ls_eval_result *e)
{
    const double alone = ls_metric_list_find(&e->metrics, "cross_entropy");
    return exp(isnan(alone) ? e->loss : alone);
}

const char *ls_evaluate_why(const ls_eval_result *e, const char *name)
{
    for (int i = 0; i < e->metrics.n && i < LS_MOST_METRICS; i++)
        if (!strcmp(e->metrics.at[i].name, name) && e->why[i])
            return e->why[i];
    return "the model has no such metric";
}
