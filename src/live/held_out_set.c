/* held_out_set.c - evaluation over the samples that all ranks hold out, as a data set. Sample i of an
 * evaluation is read by rank i mod ranks, so each rank reads samples that it has; only where a rank holds
 * more than its part do the samples above it move to ranks that hold fewer. */
#include "live.h"

#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/sys.h"
#include "comm/agree.h"

typedef struct held_set {
    ls_dataset set; /* first: a reader gets the address of it */
    ls_live *q;
    int64_t own;   /* samples of this rank that it reads itself */
    int64_t moved; /* where its further ones begin among those that move */
    int64_t any;   /* an index of `pool` with a sample, for padding */
    int64_t each;  /* samples of each rank in `pool` */
    int64_t *more; /* [ranks]: samples above its part */
    char **pool;   /* [n_fields]: [ranks][each] samples */
    ls_field *fields;
} held_set;

static int64_t part(const held_set *h, int rank)
{
    const int ranks = h->q->ranks;
    return h->set.n / ranks + (rank < h->set.n % ranks);
}

/* The index in `pool` of number k of all samples that move. */
static int64_t pool_index(const held_set *h, int64_t k)
{
    int r = 0;
    for (; k >= h->more[r]; r++)
        k -= h->more[r];
    return r * h->each + k;
}

static ls_status read_held(const ls_dataset *set, int64_t i, void *const *to)
{
    const held_set *h = (const held_set *)(const void *)set;
    const ls_live *q = h->q;
    const int64_t at = i / q->ranks;
    const bool mine = i % q->ranks == q->rank; /* else it only pads a batch */
    const int64_t index = !mine ? h->any : at < h->own ? -1 : pool_index(h, h->moved + at - h->own);
    for (int k = 0; k < q->n_fields; k++) {
        const size_t bytes = q->fields[k].bytes;
        if (to[k])
            memcpy(to[k],
                   index < 0 ? q->fields[k].held + (size_t)at * bytes : h->pool[k] + (size_t)index * bytes,
                   bytes);
    }
    return LS_OK;
}

/* Who has how much, and what this rank lacks. */
static void divide(held_set *h, const int64_t *held)
{
    int64_t lacking = 0;
    h->each = 1; /* for the sample to pad with */
    h->any = -1;
    for (int r = 0; r < h->q->ranks; r++) {
        const int64_t own = part(h, r);
        h->more[r] = held[r] > own ? held[r] - own : 0;
        h->each = h->more[r] > h->each ? h->more[r] : h->each;
        if (r == h->q->rank) {
            h->own = held[r] < own ? held[r] : own;
            h->moved = lacking;
        }
        lacking += own > held[r] ? own - held[r] : 0;
    }
    for (int r = h->q->ranks - 1; r >= 0; r--)
        if (held[r])
            h->any = r * h->each;
}

/* Each rank gives the samples above its part; a rank without any of these gives its first. Collective. */
static ls_status held_gather(held_set *h, int k)
{
    const ls_live *q = h->q;
    const size_t bytes = q->fields[k].bytes, each = (size_t)h->each * bytes;
    const int64_t from = h->more[q->rank] ? h->own : 0, n = h->more[q->rank] ? h->more[q->rank] : q->held > 0;
    char *mine = ls_sys_calloc(1, each);
    h->pool[k] = ls_sys_calloc((size_t)q->ranks, each);
    ls_status s = mine && h->pool[k] ? LS_OK : ls_fail(LS_E_MEMORY, "ls_live_evaluate: out of memory");
    if (s == LS_OK)
        memcpy(mine, q->fields[k].held + (size_t)from * bytes, (size_t)n * bytes);
    if (s == LS_OK && !q->t->group)
        memcpy(h->pool[k], mine, each);
    if (q->t->group)
        s = ls_ranks_agree(q->t->group, s);
    if (q->t->group && s == LS_OK)
        s = ls_group_all_gather(q->t->group, mine, each, h->pool[k]);
    free(mine);
    return s;
}

static ls_status held_make(held_set *h, ls_live *q)
{
    int64_t *held = ls_sys_calloc((size_t)q->ranks, sizeof *held);
    h->q = q;
    h->more = ls_sys_calloc((size_t)q->ranks, sizeof *h->more);
    h->pool = ls_sys_calloc((size_t)q->n_fields, sizeof *h->pool);
    h->fields = ls_sys_calloc((size_t)q->n_fields, sizeof *h->fields);
    ls_status s = held && h->more && h->pool && h->fields
                      ? LS_OK
                      : ls_fail(LS_E_MEMORY, "ls_live_evaluate: out of memory");
    if (q->t->group)
        s = ls_ranks_agree(q->t->group, s);
    if (s == LS_OK)
        held[0] = q->held;
    if (s == LS_OK && q->t->group)
        s = ls_group_all_gather(q->t->group, &q->held, sizeof q->held, held);
    h->set = (ls_dataset){ .name = "held out samples",
                           .source = "",
                           .split = LS_SPLIT_EVAL,
                           .n_fields = q->n_fields,
                           .fields = h->fields,
                           .read = read_held };
    for (int r = 0; r < q->ranks && s == LS_OK; r++)
        h->set.n += held[r];
    if (s == LS_OK && !h->set.n)
        s = ls_fail(LS_E_ARG, "ls_live_evaluate: no rank holds out a sample yet");
    if (s == LS_OK)
        divide(h, held);
    for (int k = 0; k < q->n_fields && s == LS_OK; k++) {
        h->fields[k] = ls_live_field_of(q, k);
        s = held_gather(h, k);
    }
    free(held);
    return s;
}

static void held_release(held_set *h)
{
    for (int k = 0; h->pool && k < h->q->n_fields; k++)
        free(h->pool[k]);
    free(h->pool);
    free(h->more);
    free(h->fields);
}

ls_status ls_live_evaluate(ls_live *q, ls_metric *out, int max, int *n)
{
    LS_ARG(q);
    LS_ARG(out);
    LS_ARG(n);
    held_set h = { 0 };
    LS_TRY(ls_live_usable(q, "ls_live_evaluate"));
    LS_TRAINER_USE(q->t);
    if (!q->o.hold_out)
        return ls_fail(LS_E_ARG, "ls_live_evaluate: the queue holds out no samples: open it with .hold_out");
    LS_TRY(ls_trainer_needs_weights(q->t, "ls_live_evaluate"));
    pthread_mutex_lock(&q->lock);
    ls_status s = held_make(&h, q);
    if (s == LS_OK)
        s = ls_trainer_evaluate(q->t, &h.set, out, max, n);
    pthread_mutex_unlock(&q->lock);
    held_release(&h);
    return s;
}
