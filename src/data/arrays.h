/* arrays.h - what else a data set of ls_arrays_open does, where its files have the rows of both splits. */
#pragma once
#include "lockstep/data.h"

/* From now on the samples are these rows, copied; before anything reads the set, which is one of
 * ls_arrays_open. LS_E_MEMORY. */
ls_status ls_arrays_keep(ls_dataset *set, const int64_t *rows, int64_t n);

/* The row of its files that sample i is, from 0 on; -1: sample i is row i, or the set has no rows. */
int64_t ls_arrays_row(const ls_dataset *set, int64_t i);
