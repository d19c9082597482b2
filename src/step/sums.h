/* sums.h - the sums that an evaluation keeps of a loss or a metric, and the value that follows from them.
 * Sums are exact and counts are integers, so no order of samples and no number of ranks changes a bit. */
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
/* Adds row i of the term. `target`: its target, if the term has any. `weight`: above 0. Its part of the
 * divisor is added by ls_sums_count. False: the row is not finite, or its class does not exist. */
bool ls_sums_add(ls_sums *s, const ls_term *t, int64_t i, double row, double target, double weight);
void ls_sums_count(ls_sums *s, double weight);
/* The class of a target. Of a score it is 1 above 0.5, else 0. */
double ls_sums_class(const ls_term *t, double target);
void ls_sums_merge(ls_sums *to, const ls_sums *from, const ls_term *t);
/* The value of the term; NaN: it is undefined. `before`: the sums of the term before it. */
double ls_sums_value(const ls_sums *s, const ls_sums *before, const ls_term *t);
/* The reason why it is undefined: nothing counted, or, for an AUC, only one class occurred. */
const char *ls_sums_undefined(const ls_sums *s, const ls_sums *before, const ls_term *t);
