/* mixture_set.h - several data sets of the same fields as one. */
#pragma once
#include "lockstep/data.h"

/* The samples of n sets, one set behind the other; takes the sets over, also on failure. weights [n]: each
 * position of an epoch draws a sample, with replacement: of set k with a probability proportional to
 * weights[k]. NULL: nothing is drawn. LS_E_SHAPE: other fields; LS_E_NUMERIC: no weight is above 0. */
ls_status ls_mixture_open(ls_dataset **out, int n, ls_dataset **sets, const double *weights);
