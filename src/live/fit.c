/* fit.c - finds the scaling of the fields (ls_scaling_of) before the first step, over all samples that wait
 * on all ranks. They are gathered, so that every rank sees the same ones in the same order. */
#include "live.h"

#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "comm/agree.h"

typedef struct gathered {
    ls_dataset set; /* first: a reader gets the address of it */
    ls_live *q;
    int64_t most; /* samples of the rank that has most */
    char **all;   /* [n_fields]: [ranks][most] samples */
    ls_field *fields;
} gathered;

static ls_status read_gathered(const ls_dataset *set, int64_t i, void *const *to)
{
    const gathered *g = (const gathered *)(const void *)set;
    int r = 0;
    for (; i >= g->q->offers[r].kept; r++)
        i -= g->q->offers[r].kept;
    for (int k = 0; k < g->q->n_fields; k++)
        if (to[k])
            memcpy(to[k], g->all[k] + (size_t)(r * g->most + i) * g->q->fields[k].bytes,
                   g->q->fields[k].bytes);
    return LS_OK;
}

/* The oldest n samples, contiguous. */
static void in_order(const ls_live *q, int k, int64_t n, char *to)
{
    const ls_live_field *f = &q->fields[k];
    for (int64_t i = 0; i < n; i++)
        memcpy(to + (size_t)i * f->bytes, f->kept + (size_t)((q->first + i) % q->o.capacity) * f->bytes,
               f->bytes);
}

static ls_status fit_gather(gathered *g, int k)
{
    ls_live *q = g->q;
    const size_t each = (size_t)g->most * q->fields[k].bytes;
    char *mine = ls_sys_calloc(1, each);
    g->all[k] = ls_sys_calloc((size_t)q->ranks, each);
    ls_status s = mine && g->all[k] ? LS_OK
                                    : ls_fail(LS_E_MEMORY, "ls_live_fill: out of memory for a scaling");
    if (s == LS_OK) {
        pthread_mutex_lock(&q->lock);
        in_order(q, k, q->offers[q->rank].kept, mine);
        pthread_mutex_unlock(&q->lock);
    }
    if (s == LS_OK && !q->t->group)
        memcpy(g->all[k], mine, each);
    if (q->t->group)
        s = ls_ranks_agree(q->t->group, s);
    if (q->t->group && s == LS_OK)
        s = ls_group_all_gather(q->t->group, mine, each, g->all[k]);
    free(mine);
    return s;
}

ls_status ls_live_fit(ls_live *q)
{
    gathered g = { .q = q };
    g.all = ls_sys_calloc((size_t)q->n_fields, sizeof *g.all);
    g.fields = ls_sys_calloc((size_t)q->n_fields, sizeof *g.fields);
    ls_status s = g.all && g.fields ? LS_OK
                                    : ls_fail(LS_E_MEMORY, "ls_live_fill: out of memory for a scaling");
    if (q->t->group)
        s = ls_ranks_agree(q->t->group, s);
    g.set = (ls_dataset){ .name = "waiting samples",
                          .source = "",
                          .split = LS_SPLIT_TRAIN,
                          .n_fields = q->n_fields,
                          .fields = g.fields,
                          .read = read_gathered };
    for (int r = 0; r < q->ranks; r++) {
        g.set.n += q->offers[r].kept;
        g.most = q->offers[r].kept > g.most ? q->offers[r].kept : g.most;
    }
    for (int k = 0; k < q->n_fields && s == LS_OK; k++) {
        g.fields[k] = ls_live_field_of(q, k);
        s = fit_gather(&g, k);
    }
    if (s == LS_OK)
        s = ls_trainer_fit(q->t, &g.set);
    for (int k = 0; g.all && k < q->n_fields; k++)
        free(g.all[k]);
    free(g.all);
    free(g.fields);
    return s;
}
