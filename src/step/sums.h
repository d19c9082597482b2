/* sums.h - what an evaluation keeps of a loss or a metric while it goes over samples, and the value in the
 * end. Sums are exact and counts are integers, so no order of samples and no number of ranks changes a bit.
 */
#pragma once
#include "base/exact.h"
#include "passes/objective.h"

/* The sums of one term. They are plain data: ranks send them to each other. */
typedef struct ls_sums {
    ls_exact rows, divisor;
    double largest, smallest;
    /* LS_R2: four ls_exact for each column: squared error, weights, targets, squared targets. LS_F1: tp, fp,
     * fn of each class. LS_AUC: rows of class 0, then of class 1, in each of 65,536 intervals of the score.
     */
    int64_t more[];
} ls_sums;

size_t ls_sums_bytes(const ls_term *t);
void ls_sums_clear(ls_sums *s, const ls_term *t);
/* Adds row i of the term, whose target is `target` (where it has any) and which counts `weight`, above 0.
 * What it counts of the divisor is ls_sums_count's. False: it is not finite, or it is of no class. */
bool ls_sums_add(ls_sums *s, const ls_term *t, int64_t i, double row, double target, double weight);
void ls_sums_count(ls_sums *s, double weight);
void ls_sums_merge(ls_sums *to, const ls_sums *from, const ls_term *t);
/* NaN: it is undefined. `before`: the sums of the term before it. */
double ls_sums_value(const ls_sums *s, const ls_sums *before, const ls_term *t);
/* Why it is undefined: nothing counted, or, of an AUC, one class only. */
const char *ls_sums_undefined(const ls_sums *s, const ls_sums *before, const ls_term *t);
