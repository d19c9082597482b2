/* initial.c - initial values of a trainer's parameters and states. A rank fills what it holds. Values are
 * made in host memory, part by part, and written to their places. */
#include <stdlib.h>

#include "base/argument.h"
#include "base/sys.h"
#include "ckpt/checkpoint.h"
#include "graph/identity.h"
#include "nn/init.h"
#include "ops/rules.h"
#include "trainer.h"

enum { PART = 1 << 20 }; /* elements that are made at a time */

/* Writes elements first .. first + n - 1 of a parameter to elements at .. of a contiguous place. `room` has
 * space for PART elements. */
static ls_status draw(const ls_place *to, int64_t at, int64_t first, int64_t n, ls_init init, uint64_t seed,
                      const char *name, int threads, void *room)
{
    for (int64_t done = 0, part; done < n; done += part) {
        part = n - done < PART ? n - done : PART;
        const ls_type type = { .dtype = to->type.dtype, .ndim = 1, .dims = { part } };
        const ls_place place = ls_place_part(to, at + done, &type);
        ls_init_values(room, type.dtype, first + done, part, init, seed, name, threads);
        LS_TRY(ls_session_write(&place, room, ls_type_bytes(&type)));
    }
    return LS_OK;
}

static ls_status init_state(ls_trainer *t, const ls_source_attrs *a, void *room)
{
    ls_place x;
    LS_TRY(ls_session_place_of(t->session, a->is, a->name, &x));
    if (t->used) /* fresh memory is zero; clearing it would only take page faults */
        ls_session_clear(&x);
    if (a->init != LS_INIT_CONST && a->init != LS_INIT_ONE)
        return LS_OK;
    const ls_init init = { (ls_init_kind)a->init, a->init_a, a->init_b };
    return draw(&x, 0, 0, ls_type_count(&x.type), init, 0, a->name, 1, room);
}

static ls_status init_states(ls_trainer *t, void *room)
{
    for (int p = 0; p < LS_PROGRAMS; p++) {
        const ls_graph *g = t->compiled.plans[p] ? t->compiled.plans[p]->graph : NULL;
        for (int i = 0; g && i < g->n_nodes; i++)
            if (g->nodes[i]->op == &ls_op_state || g->nodes[i]->op == &ls_op_buffer)
                LS_TRY(init_state(t, g->nodes[i]->attrs, room));
    }
    return LS_OK;
}

static void *make_room(void) { return ls_sys_malloc(PART * sizeof(double)); }

ls_status ls_trainer_init_states(ls_trainer *t)
{
    void *room = make_room();
    LS_TRY(ls_sys_have(room));
    const ls_status s = init_states(t, room);
    free(room);
    return s;
}

static ls_status init_slots(ls_trainer *t, uint64_t seed, void *room)
{
    const ls_units *u = &t->compiled.units;
    for (int i = 0; i < u->n_slots; i++) {
        const ls_slot *s = &u->slots[i];
        const ls_held h = ls_slot_held(u, &t->compiled.parallel.mesh, i, t->compiled.parallel.rank);
        const ls_range r = { .first = h.first, .count = h.count, .box = &h.box };
        for (int64_t k = 0, n; k < r.count; k += n) {
            const int64_t first = ls_range_piece(&r, k, &n);
            LS_TRY(draw(&t->units[s->unit], h.at + k, first, n, s->init, seed, s->name,
                        t->compiled.device.threads, room));
        }
    }
    return LS_OK;
}

ls_status ls_trainer_put_seed(ls_trainer *t, uint64_t seed)
{
    return ls_place_present(&t->random_seed) ? ls_session_write(&t->random_seed, &seed, sizeof seed) : LS_OK;
}

/* Sets every state of the programs, and the parameters in units, to its declared initial value. */
ls_status ls_trainer_init(ls_trainer *t, uint64_t seed)
{
    LS_ARG(t);
    LS_TRAINER_USE(t);
    void *room = make_room();
    ls_status s = ls_sys_have(room);
    if (s == LS_OK)
        s = ls_session_enter(t->session, "initial weights");
    if (s == LS_OK)
        s = init_states(t, room);
    if (s == LS_OK)
        s = init_slots(t, seed, room);
    if (s == LS_OK)
        s = ls_trainer_put_seed(t, seed);
    free(room);
    LS_TRY(ls_checkpoint_together(t->group, s));
    t->ready = t->used = true;
    t->left_behind = false;
    t->skips = t->bad_skips = 0;
    t->averaged = t->rounded = t->buffers_moved = false;
    ls_session_leave(t->session);
    return LS_OK;
}
