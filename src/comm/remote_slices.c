/* remote_slices.c - see remote_slices.h. */
#include "remote_slices.h"

#include "wait.h"

int64_t ls_split_begin(ls_slices s, int64_t p) { return p * s.part < s.total ? p * s.part : s.total; }

int64_t ls_split_in_pass(ls_slices s, int p, int64_t k, int64_t step)
{
    int64_t left = ls_split_begin(s, p + 1) - ls_split_begin(s, p) - k * step;
    return left < 0 ? 0 : left < step ? left : step;
}

bool ls_turn_next(ls_turn *at, const ls_route *t, const ls_way *w)
{
    int most = 1;
    while (most < t->machines)
        most *= 2;
    do {
        if (++at->t == most) {
            at->t = 1;
            at->k++;
        }
    } while ((t->machine ^ at->t) >= t->machines);
    at->n++;
    return at->k < w->passes;
}

ls_status ls_slices_put(ls_remote_group *r, ls_flight *f, const ls_route *t, int machine, const void *send,
                        void *receive, size_t bytes)
{
    return ls_flight_put(r, f, t->peer[machine], t->axis.number, send, receive, bytes);
}

ls_status ls_slices_meet(ls_route *t, const char *what)
{
    return ls_axis_await_all(&t->axis, LS_TICKS, ls_axis_raise(&t->axis, LS_TICKS), what);
}

int ls_slices_block(const ls_route *t, int machine)
{
    return machine >= t->machine ? machine - t->machine : machine - t->machine + t->machines;
}

/* (Bruck et al., 1997: any number of machines) */
ls_status ls_slices_double(ls_remote_group *r, const ls_route *t, char *blocks, size_t bytes,
                           const char *what)
{
    const int m = t->machine, n = t->machines;
    for (int64_t d = 1; d < n; d *= 2) {
        const int64_t carried = d < n - d ? d : n - d;
        LS_TRY(ls_slices_put(r, &r->flight[0], t, (int)((m + d) % n), NULL, blocks + (size_t)d * bytes,
                             (size_t)carried * bytes));
        LS_TRY(ls_slices_put(r, &r->flight[0], t, (int)((m - d + n) % n), blocks, NULL,
                             (size_t)carried * bytes));
        LS_TRY(ls_flight_await(r, &r->flight[0], t, what));
    }
    return LS_OK;
}
