/* held_out.h - which of n documents, or pairs, are kept for evaluation when no files are. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Marks round(fraction * n) of them, scattered: at least one, and not all. The same for every seed, so that
 * runs can be compared. False: n < 2. */
bool ls_mark_evaluation(char *marks, int64_t n, double fraction);
