/* held_out.c - selects documents, pictures or rows for evaluation from a single set. */
#include "data/held_out.h"

#include <math.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/field.h"
#include "base/rng.h"
#include "base/sys.h"

/* How many of n >= 2 samples are for evaluation: at least one, and not all. */
static int64_t share(double fraction, int64_t n)
{
    const int64_t k = llround(fraction * (double)n);
    return k < 1 ? 1 : k > n - 1 ? n - 1 : k;
}

bool ls_mark_evaluation(char *marks, int64_t n, double fraction)
{
    const ls_rng_key key = ls_rng_key_of(0, ls_hash_text("evaluation documents"));
    if (n < 2)
        return false;
    for (int64_t p = 0, k = share(fraction, n); p < k; p++)
        marks[ls_permute_index(key, (uint64_t)p, (uint64_t)n)] = 1;
    return true;
}

static int by_class_and_key(const void *a, const void *b)
{
    const ls_candidate *x = a, *y = b;
    return x->class != y->class ? (x->class > y->class) - (x->class < y->class)
           : x->key != y->key   ? (x->key > y->key) - (x->key < y->key)
                                : (x->sample > y->sample) - (x->sample < y->sample);
}

/* How many of the n of one class, sorted, are for evaluation. */
static int64_t held_out_count(const ls_candidate *of, int64_t n, double fraction)
{
    int64_t k = share(fraction, n);
    while (k > 0 && of[k].key == of[k - 1].key) /* one picture that is listed twice */
        k--;
    return k;
}

ls_status ls_held_out(int64_t **out, int64_t *n, ls_split split, double fraction, ls_candidate *all,
                      int64_t total, const char *what)
{
    char *marks = ls_sys_calloc((size_t)total + 1, 1);
    *out = ls_sys_malloc(sizeof **out * ((size_t)total + 1));
    *n = 0;
    ls_status s = ls_sys_have(marks ? *out : NULL);
    if (s == LS_OK)
        qsort(all, (size_t)total, sizeof *all, by_class_and_key);
    int64_t held = 0;
    for (int64_t first = 0, end; s == LS_OK && first < total; first = end) {
        for (end = first + 1; end < total && all[end].class == all[first].class;)
            end++;
        const int64_t k = end - first > 1 ? held_out_count(all + first, end - first, fraction) : 0;
        for (int64_t i = 0; i < k; i++)
            marks[all[first + i].sample] = 1;
        held += k;
    }
    if (s == LS_OK && !held)
        s = ls_fail_field(LS_E_USAGE, "eval_fraction",
                          "%s has no class of two samples or more, so none can be held out: add samples, or "
                          "name files for evaluation",
                          what);
    for (int64_t i = 0; s == LS_OK && i < total; i++)
        if (marks[i] == (split == LS_SPLIT_EVAL))
            (*out)[(*n)++] = i;
    free(marks);
    if (s != LS_OK) {
        free(*out);
        *out = NULL;
    }
    return s;
}
