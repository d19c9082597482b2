/* kernels.h - one case on a device against ref: in the layouts that the kernel says it takes, written
 * over an input where the op allows it; the same bits for 1, 2 and 3 threads, and for a row whatever rows are
 * beside it.
 *
 * Tolerances, with eps = 2^-23 of f32 arithmetic and `ulp` the spacing of a bf16 or f16 output. A result near
 * the middle of two numbers may be rounded either way, and a sum of rounded terms twice.
 *
 *   COMPARE_ELEMENT  (ulps * eps + ulp) * |element| + absolute * eps
 *   COMPARE_SUM      (ulps * eps * sqrt(reduce + 4) + 2 ulp) * largest element of the output + absolute * eps
 *
 * The smallest subnormal of the type is always added. */
#pragma once
#include "cases.h"

/* What was wrong so far: each failure is printed, and the tests compare with 0 at their end. */
extern int kernel_failures;

/* One run of each case and one of a row alone, with contiguous operands: for sanitizers. */
extern bool kernel_brief;
/* Asked when the device has no kernel for a case, other than for f64: whether that may be. NULL: no. */
extern bool (*kernel_refused)(const op_case *c, const char *why);
/* Gets what the device computed, contiguous. NULL: nobody wants it. */
extern void (*kernel_result)(const op_case *c, ls_dtype data, const char *how, int output,
                             const ls_tensor *t);

/* Whether the op of the case has kernels: sources and views have none. */
bool kernel_exists(const op_case *c);
/* Returns how many runs were compared. */
int kernel_check(const ls_device *d, const op_case *c, ls_dtype data, case_extreme extreme);
