/* remote_share.c - see remote_share.h. Messages arrive in staging memory, from which all members of the
 * machine copy them. A member overwrites a place there only after a barrier that follows all reads of it. */
#include "remote_share.h"

#include "reduce.h"

/* In memory that the machine shares, one member writes each slice: the owner its own, and for slices of other
 * machines the member that received them. */
static bool takes(const ls_route *t, const ls_slice_share *x, int machine, int local)
{
    if (!x->mapped)
        return true;
    return t->each > 1 ? local == t->local
                       : machine == t->machine || (t->first_here && !t->axis.counters[machine]);
}

static char *staging_of(const ls_remote_group *r, const ls_route *t, int local)
{
    return r->staging->peer[t->axis.members[t->machine * t->each + local] - r->group->first];
}

/* Pass k's part of my slice, as it travels. */
static void write_own(const ls_route *t, const ls_slice_share *x, const ls_way *w, int64_t k, char *to)
{
    ls_convert(to, x->travels, x->mine + (size_t)(k * w->step) * ls_dtype_size(x->from), x->from,
               ls_split_in_pass(x->split, t->axis.position, k, w->step), false, x->threads);
}

static void take(const ls_route *t, const ls_slice_share *x, const ls_way *w, int64_t k, int machine,
                 int local, const char *staging)
{
    const int p = machine * t->each + local;
    if (takes(t, x, machine, local))
        ls_convert(x->all + (size_t)(ls_split_begin(x->split, p) + k * w->step) * ls_dtype_size(x->to), x->to,
                   staging, x->travels, ls_split_in_pass(x->split, p, k, w->step), false, x->threads);
}

/* ---- turns: staging memory has places for my slice, and for those that arrive */

static char *own_place(char *staging, int64_t k) { return staging + k % LS_REMOTE_FLIGHTS * LS_REMOTE_PIECE; }
static char *place_of(char *staging, int n)
{
    return staging + (LS_REMOTE_FLIGHTS + n % LS_REMOTE_FLIGHTS) * LS_REMOTE_PIECE;
}

size_t ls_share_bytes(void)
{
    const size_t turns = 2 * LS_REMOTE_FLIGHTS * (size_t)LS_REMOTE_PIECE;
    return turns > LS_REMOTE_REGION ? turns : LS_REMOTE_REGION;
}

static ls_status begin_turn(ls_remote_group *r, const ls_route *t, const ls_slice_share *x, const ls_way *w,
                            const ls_turn *at, bool first)
{
    ls_flight *f = &r->flight[at->n % LS_REMOTE_FLIGHTS];
    const int h = t->machine ^ at->t;
    const int64_t mine = ls_split_in_pass(x->split, t->axis.position, at->k, w->step),
                  theirs = ls_split_in_pass(x->split, h * t->each + t->local, at->k, w->step);
    const size_t size = ls_dtype_size(x->travels);
    char *own = own_place(r->staging->mine, at->k);
    if (theirs)
        LS_TRY(ls_slices_put(r, f, t, h, NULL, place_of(r->staging->mine, at->n), (size_t)theirs * size));
    if (first)
        write_own(t, x, w, at->k, own);
    return mine ? ls_slices_put(r, f, t, h, own, NULL, (size_t)mine * size) : LS_OK;
}

static ls_status share_in_turns(ls_remote_group *r, ls_route *t, const ls_slice_share *x, const ls_way *w,
                                const char *what)
{
    ls_turn at = { .n = -1 }, ahead = at;
    bool more = ls_turn_next(&ahead, t, w);
    for (int i = 0; i < 2 && more; i++) {
        LS_TRY(begin_turn(r, t, x, w, &ahead, ahead.n % (t->machines - 1) == 0));
        more = ls_turn_next(&ahead, t, w);
    }
    while (ls_turn_next(&at, t, w)) {
        LS_TRY(ls_flight_await(r, &r->flight[at.n % LS_REMOTE_FLIGHTS], t, what));
        if (t->each > 1)
            LS_TRY(ls_slices_meet(t, what));
        if (more) {
            LS_TRY(begin_turn(r, t, x, w, &ahead, ahead.n % (t->machines - 1) == 0));
            more = ls_turn_next(&ahead, t, w);
        }
        for (int l = 0; l < t->each; l++) {
            char *staging = staging_of(r, t, l);
            if (at.n % (t->machines - 1) == 0)
                take(t, x, w, at.k, t->machine, l, own_place(staging, at.k));
            take(t, x, w, at.k, t->machine ^ at.t, l, place_of(staging, at.n));
        }
    }
    return LS_OK;
}

/* ---- doubling: staging memory has two halves, of even and of odd passes */

static ls_status share_by_doubling(ls_remote_group *r, ls_route *t, const ls_slice_share *x, const ls_way *w,
                                   const char *what)
{
    for (int64_t k = 0; k < w->passes; k++) {
        const size_t half = (size_t)(k & 1) * (LS_REMOTE_REGION / 2),
                     bytes = (size_t)ls_split_in_pass((ls_slices){ x->split.part, x->split.part }, 0, k,
                                                      w->step) *
                             ls_dtype_size(x->travels);
        write_own(t, x, w, k, r->staging->mine + half);
        LS_TRY(ls_slices_double(r, t, r->staging->mine + half, bytes, what));
        if (t->each > 1)
            LS_TRY(ls_slices_meet(t, what));
        for (int l = 0; l < t->each; l++)
            for (int h = 0; h < t->machines; h++)
                take(t, x, w, k, h, l, staging_of(r, t, l) + half + (size_t)ls_slices_block(t, h) * bytes);
    }
    return LS_OK;
}

ls_status ls_remote_share(ls_remote_group *r, ls_route *t, const ls_slice_share *x, const char *what)
{
    const ls_way w = ls_way_to_share(t->machines, x->split.part, ls_dtype_size(x->travels));
    LS_TRY(w.doubling ? share_by_doubling(r, t, x, &w, what) : share_in_turns(r, t, x, &w, what));
    return t->each > 1 || x->mapped ? ls_slices_meet(t, what) : LS_OK;
}
