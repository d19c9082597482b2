/* held_out.h - selects which of n documents, or pairs, are kept for evaluation if there are no files for
 * it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Marks round(fraction * n) of them, at least one and not all, spread over the set. The choice does not
 * depend on the seed, so that runs can be compared. False: n < 2. */
bool ls_mark_evaluation(char *marks, int64_t n, double fraction);
