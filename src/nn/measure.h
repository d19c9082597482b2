/* measure.h - metrics that an evaluation is asked for, beside those that the model declares. */
#pragma once
#include "graph/graph.h"

/* After the model was built with g->metrics: LS_E_USAGE for a word that is not a metric, and where the model
 * has no accuracy that it could stand beside. Local. */
ls_status ls_measure_check_asked(const ls_graph *g);
bool ls_measure_may_ask(const char *word); /* whether g->metrics may have it */
