/* weighted_set.h - weights by which classes or samples count: counts of classes, a field with the weight of
 * each target's class, and the table by which samples are drawn (ls_order.draws). */
#pragma once
#include "lockstep/data.h"

/* Adds to counts[classes] how often each class occurs in field k, i32, of all samples; entries that are not
 * from 0 on and below `classes` do not count. Reads that field alone. */
ls_status ls_class_counts(const ls_dataset *set, int k, int64_t classes, int64_t *counts);
/* weights[c] = (entries / classes that occur) / counts[c], scikit-learn's "balanced"; 0 of a class that does
 * not occur. */
void ls_class_balance(int64_t classes, const int64_t *counts, double *weights);

/* Puts a set with one more field in the place of *set: `field` f32, of the shape of the i32 field `target`,
 * is the weight of the target's class, and 0 where the target does not count. `all`: another field f32
 * [classes], the weights of all classes; NULL: there is none. On failure *set is closed and NULL. */
ls_status ls_weighted_open(ls_dataset **set, const char *target, const char *field, const char *all,
                           int64_t classes, const double *weights);

/* The same for a set whose samples are drawn (ls_order.draws) by the field `name`: a float field [] of
 * weights or, with `balance`, an i32 field [] of classes, of which each then has the same sum of weights.
 * LS_E_SHAPE: no such field; LS_E_NUMERIC: a weight that is not a number from 0 on; no weight above 0. */
ls_status ls_draws_open(ls_dataset **set, const char *name, bool balance);
/* The same with the table itself, which is taken over, also on failure: draws[i] is the sum of the weights of
 * samples 0 to i. */
ls_status ls_draws_give(ls_dataset **set, double *draws);
/* As ls_arrays_row, also of a set with weights around one of rows. */
int64_t ls_weighted_row(const ls_dataset *set, int64_t i);
const double *ls_dataset_draws(const ls_dataset *set); /* NULL: its samples are not drawn */
