/* held_out.c - selects documents for evaluation from a single set. */
#include "data/held_out.h"

#include <math.h>

#include "base/hash.h"
#include "base/rng.h"

bool ls_mark_evaluation(char *marks, int64_t n, double fraction)
{
    int64_t k = llround(fraction * (double)n);
    const ls_rng_key key = ls_rng_key_of(0, ls_hash_text("evaluation documents"));
    if (n < 2)
        return false;
    k = k < 1 ? 1 : k > n - 1 ? n - 1 : k;
    for (int64_t p = 0; p < k; p++)
        marks[ls_permute_index(key, (uint64_t)p, (uint64_t)n)] = 1;
    return true;
}
