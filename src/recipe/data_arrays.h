/* data_arrays.h - data.type arrays, for the table of data sets. */
#pragma once
#include "data_row.h"

/* A field as the model takes it: its type, classes and texts. */
ls_array_field ls_recipe_array_field(const ls_recipe *r, const char *field, const char *file);
ls_status ls_check_arrays(const ls_recipe *r);
ls_status ls_open_arrays(ls_dataset **out, const ls_recipe *r, ls_split split, const ls_data_opening *o);
/* The part of the samples that is held out where no files for evaluation are named. Where nothing is
 * evaluated, all are trained on. */
static inline double ls_recipe_held_out(const ls_recipe *r)
{
    return r->eval.every_epochs < 0 ? 0 : r->data.eval_fraction;
}
