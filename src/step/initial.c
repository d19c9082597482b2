/* initial.c - initial values of a trainer's parameters and states. A rank fills its local shards. Values are
 * made in host memory, piece by piece, and copied to their places. */
#include <math.h>

#include "base/argument.h"
#include "ckpt/nf4.h"
#include "graph/identity.h"
#include "nn/init.h"
#include "ops/rules.h"
#include "trainer.h"

/* Puts the initial values of a range of elements to their place. */
static ls_status draw(ls_pieces *p, const ls_range *r, ls_dtype type, ls_init init, uint64_t seed,
                      const char *name, int threads)
{
    const size_t size = ls_dtype_size(type);
    for (int64_t at = 0, n; at < r->count; at += n) {
        void *piece;
        n = ls_piece_length(p, r, type, at);
        LS_TRY(ls_piece_begin(p, r, type, at, n, &piece));
        for (int64_t k = 0, run; k < n; k += run) {
            const int64_t first = ls_range_piece(r, at + k, &run);
            run = run < n - k ? run : n - k;
            ls_init_values((char *)piece + (size_t)k * size, type, first, run, init, seed, name, threads);
        }
        LS_TRY(ls_piece_put(p, r, type, at, n, piece));
    }
    return LS_OK;
}

static ls_status init_state(ls_trainer *t, const ls_source_attrs *a, ls_pieces *p)
{
    ls_place x;
    LS_TRY(ls_session_place_of(t->session, a->is, a->name, &x));
    if (t->used) /* fresh memory is zero; clearing it would only take page faults */
        ls_session_clear(&x);
    if (a->init != LS_INIT_CONST && a->init != LS_INIT_ONE)
        return LS_OK;
    const ls_init init = { (ls_init_kind)a->init, a->init_a, a->init_b };
    const ls_range r = { .count = ls_type_count(&x.type), .place = x };
    return draw(p, &r, x.type.dtype, init, 0, a->name, 1);
}

ls_status ls_trainer_init_states(ls_trainer *t, ls_pieces *p)
{
    for (int k = 0; k < LS_PROGRAMS; k++) {
        const ls_graph *g = t->compiled.plans[k] ? t->compiled.plans[k]->graph : NULL;
        for (int i = 0; g && i < g->n_nodes; i++)
            if (g->nodes[i]->op == &ls_op_state || g->nodes[i]->op == &ls_op_buffer)
                LS_TRY(init_state(t, g->nodes[i]->attrs, p));
    }
    return LS_OK;
}

typedef struct drawing {
    const ls_slot *slot;
    uint64_t seed;
    int threads;
} drawing;

static ls_status draw_numbers(void *context, int64_t first, int64_t n, bool again, float *out)
{
    const drawing *d = context;
    (void)again;
    ls_init_values(out, LS_F32, first, n, d->slot->init, d->seed, d->slot->name, d->threads);
    return LS_OK;
}

/* Lists the parameters, and this rank's ranges of them. */
static ls_status list_slots(ls_tensor_list *out, ls_arena *a, const ls_trainer *t)
{
    const ls_units *u = &t->compiled.units;
    ls_named_tensor *tensors = LS_ARENA_ARRAY(a, ls_named_tensor, u->n_slots);
    ls_range *mine = LS_ARENA_ARRAY(a, ls_range, u->n_slots);
    ls_local_shard *shards = LS_ARENA_ARRAY(a, ls_local_shard, u->n_slots);
    LS_TRY(ls_arena_status(a));
    for (int i = 0; i < u->n_slots; i++) {
        const ls_slot *s = &u->slots[i];
        ls_local_shard *h = &shards[i];
        *h = ls_slot_local_shard(u, &t->compiled.parallel.mesh, i, t->compiled.parallel.rank);
        tensors[i] = (ls_named_tensor){ s->name, ls_tensor_of(NULL, &s->whole) };
        mine[i] = (ls_range){ .first = h->first,
                              .count = h->count,
                              .place = ls_place_part(&t->units[s->unit], h->at,
                                                     &LS_TYPE(s->type.dtype, h->count)),
                              .box = &h->box };
    }
    *out = (ls_tensor_list){ .n = u->n_slots, .tensors = tensors, .mine = mine };
    return LS_OK;
}

static ls_status init_slots(ls_trainer *t, uint64_t seed, ls_pieces *p)
{
    const ls_units *u = &t->compiled.units;
    ls_arena arena;
    ls_tensor_list l;
    ls_arena_init(&arena);
    ls_status s = list_slots(&l, &arena, t);
    for (int i = 0; i < u->n_slots && s == LS_OK; i++) {
        drawing d = { &u->slots[i], seed, t->compiled.device.threads };
        ls_nf4_slots slots;
        bool part;
        if (ls_nf4_is(&slots, &part, &l, i))
            s = ls_nf4_quantize(p, &l, &slots, draw_numbers, &d, d.threads);
        else if (!part)
            s = draw(p, &l.mine[i], u->slots[i].type.dtype, u->slots[i].init, seed, u->slots[i].name,
                     d.threads);
    }
    ls_arena_release(&arena);
    return s;
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
    ls_pieces p;
    ls_status s = ls_pieces_open(&p, NULL);
    if (s == LS_OK)
        s = ls_session_enter(t->session, "initial weights");
    if (s == LS_OK)
        s = ls_trainer_init_states(t, &p);
    if (s == LS_OK)
        s = init_slots(t, seed, &p);
    if (s == LS_OK)
        s = ls_trainer_put_seed(t, seed);
    LS_TRY(ls_checkpoint_together(t->group, ls_pieces_close(&p, s)));
    t->ready = t->used = true;
    t->left_behind = false;
    t->skips = t->bad_skips = 0;
    t->last_lr = NAN;
    t->averaged = t->rounded = t->buffers_moved = false;
    LS_TRY(ls_session_leave(t->session));
    return LS_OK;
}
