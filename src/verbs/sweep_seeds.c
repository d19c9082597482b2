/* sweep_seeds.c - the runs of a sweep that differ in run.seed alone: mean and deviation of their metric. How
 * far seeds lie apart says which differences between other settings mean something. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sweep.h"

/* Whether two runs have the same values, but for the seed. */
static bool alike(const ls_sweep_view *v, const char *const *a, const char *const *b)
{
    for (int k = 0; k < v->n_keys; k++)
        if (k != v->seed && strcmp(a[k], b[k]) != 0)
            return false;
    return true;
}

static ls_sweep_group *group_of(ls_sweep_view *v, const ls_sweep_line *l)
{
    for (int i = 0; i < v->n_groups; i++)
        if (alike(v, v->groups[i].values, l->values))
            return &v->groups[i];
    v->groups[v->n_groups] = (ls_sweep_group){ .values = l->values,
                                               .least = INFINITY,
                                               .greatest = -INFINITY };
    return &v->groups[v->n_groups++];
}

static int compare(const void *a, const void *b, void *highest)
{
    const ls_sweep_group *x = a, *y = b;
    return x->mean == y->mean ? 0 : (x->mean < y->mean) != *(const bool *)highest ? -1 : 1;
}

ls_status ls_sweep_view_seeds(ls_sweep_view *v, ls_sweep *s)
{
    v->seed = -1;
    for (int k = 0; k < v->n_keys; k++)
        v->seed = strcmp(v->keys[k], "run.seed") ? v->seed : k;
    if (v->seed < 0)
        return LS_OK;
    v->groups = LS_ARENA_ARRAY(&s->arena, ls_sweep_group, v->n);
    LS_TRY(ls_arena_status(&s->arena));
    for (int i = 0; i < v->n; i++) {
        const double x = v->lines[i].best;
        if (isnan(x))
            continue;
        ls_sweep_group *g = group_of(v, &v->lines[i]);
        const double before = g->mean;
        g->n++;
        g->mean += (x - before) / g->n;
        g->squares += (x - before) * (x - g->mean); /* Welford's: no digits are lost */
        g->least = fmin(g->least, x);
        g->greatest = fmax(g->greatest, x);
    }
    bool several = false;
    for (int i = 0; i < v->n_groups; i++)
        several = several || v->groups[i].n > 1;
    v->n_groups = several ? v->n_groups : 0; /* of one run each they say nothing new */
    for (int i = 0; i < v->n_groups; i++)
        v->groups[i].deviation = v->groups[i].n > 1 ? sqrt(v->groups[i].squares / (v->groups[i].n - 1)) : NAN;
    qsort_r(v->groups, (size_t)v->n_groups, sizeof *v->groups, compare, &v->highest);
    return LS_OK;
}
