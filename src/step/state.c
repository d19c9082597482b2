/* state.c - saves a trainer's state as a checkpoint, and loads one. */
#include "state.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "comm/agree.h"
#include "trainer.h"

ls_status ls_trainer_lists(ls_state_lists *out, ls_trainer *t)
{
    return ls_state_lists_make(out, &t->compiled, t->session);
}

ls_status ls_trainer_save_state(ls_trainer *t, const char *dir, const ls_checkpoint_contents *texts,
                                ls_saved *saved)
{
    LS_TRAINER_USE(t);
    ls_state_lists l;
    if (t->guest)
        LS_TRY(t->guest->check(t->guest->context));
    ls_status s = ls_trainer_lists(&l, t);
    if (s != LS_OK)
        return ls_checkpoint_together(t->group, s);
    ls_checkpoint_contents c = ls_state_share(&t->compiled, &l, texts);
    if (t->guest)
        s = t->guest->save(t->guest->context, &l.arena, &c.live);
    s = ls_arena_outcome(&l.arena, s);
    s = s == LS_OK ? ls_checkpoint_save(dir, &c, t->group, saved) : ls_checkpoint_together(t->group, s);
    ls_state_lists_release(&l);
    return s;
}

/* ---- staging */

/* Begins to copy this rank's ranges to *to, and moves *to behind them. *l becomes the list of the copies. */
static ls_status stage(char **to, ls_arena *arena, ls_tensor_list *l)
{
    ls_range *mine = ls_arena_dup(arena, l->mine, sizeof *mine * (size_t)l->n);
    ls_named_tensor *tensors = ls_arena_dup(arena, l->tensors, sizeof *tensors * (size_t)l->n);
    for (int64_t i = 0; mine && tensors && i < l->n; i++) {
        tensors[i].name = ls_arena_strdup(arena, tensors[i].name);
        const size_t bytes = ls_state_range_bytes(l, i);
        const ls_type type = LS_TYPE(l->tensors[i].tensor.type.dtype, mine[i].count);
        const ls_place from = ls_place_part(&mine[i].place, 0, &type);
        LS_TRY(ls_session_fetch(&from, *to, bytes));
        mine[i].place = (ls_place){ 0 };
        mine[i].data = *to;
        *to += (bytes + 63) / 64 * 64;
    }
    *l = (ls_tensor_list){ mine && tensors ? l->n : 0, tensors, mine, l->finite, l->numbers };
    return ls_arena_status(arena);
}

/* The guest's samples lie in its queue or, already copied, in the arena. */
static ls_status stage_guest(ls_arena *arena, ls_tensor_list *l)
{
    ls_range *mine = ls_arena_dup(arena, l->mine, sizeof *mine * (size_t)l->n);
    for (int64_t i = 0; mine && i < l->n; i++)
        mine[i].data = mine[i].count ? ls_arena_dup(arena, mine[i].data, ls_state_range_bytes(l, i)) : NULL;
    l->mine = mine;
    return ls_arena_status(arena);
}

static ls_status stage_all(ls_trainer *t, ls_arena *arena, ls_checkpoint_contents *c, char *to)
{
    ls_status s = t->guest ? t->guest->save(t->guest->context, arena, &c->live) : LS_OK;
    s = ls_arena_outcome(arena, s);
    if (s == LS_OK && t->guest)
        s = stage_guest(arena, &c->live);
    LS_TRY(s);
    ls_background_wait(&t->prefault);
    LS_TRY(stage(&to, arena, &c->model));
    LS_TRY(stage(&to, arena, &c->optimizer));
    return ls_session_wait(t->session);
}

ls_status ls_trainer_stage_state(ls_saving **out, ls_state_lists *l, ls_trainer *t, const char *dir,
                                 const ls_checkpoint_contents *texts, char *room)
{
    *out = NULL;
    LS_TRAINER_USE(t);
    if (t->guest)
        LS_TRY(t->guest->check(t->guest->context));
    ls_status s = ls_trainer_lists(l, t);
    if (s != LS_OK)
        return ls_checkpoint_together(t->group, s);
    ls_checkpoint_contents c = ls_state_share(&t->compiled, l, texts);
    s = stage_all(t, &l->arena, &c, room);
    s = s == LS_OK ? ls_saving_begin(out, dir, &c, t->group) : ls_checkpoint_together(t->group, s);
    if (s != LS_OK)
        ls_state_lists_release(l);
    return s;
}

/* ---- loading */

/* Frozen parameters are stored in the type of their use, so those of a checkpoint may be of another 16 bits
 * or f32. Nothing else is converted: a state that continues has the bits that were saved. */
static bool only_frozen_differ(const ls_units *u, const ls_weights *w)
{
    bool only = true;
    for (int i = 0; i < u->n_slots; i++) {
        const ls_weight *there = ls_weights_find(w, u->slots[i].name);
        const ls_dtype here = u->slots[i].type.dtype, type = there ? there->type.dtype : here;
        only = only && (type == here || (u->slots[i].frozen && type != LS_F64 && here != LS_F64));
    }
    return only;
}

typedef struct bringing {
    const ls_checkpoint *c;
    const ls_state_lists *l;
    const char *advice;
} bringing;

static ls_status bring(void *context)
{
    const bringing *b = context;
    char host[256] = "";
    ls_status s = ls_ranges_bring(b->c->weights, &b->l->model);
    s = s == LS_OK ? ls_ranges_bring(b->c->optimizer, &b->l->optimizer) : s;
    if (s == LS_OK)
        return s;
    gethostname(host, sizeof host - 1);
    return ls_fail(s, "host %s: %s%s%s", host, ls_error_message(), s == LS_E_FORMAT ? ". " : "",
                   s == LS_E_FORMAT && b->advice ? b->advice : "");
}

static ls_status load_lists(ls_trainer *t, const ls_checkpoint *c, ls_state_lists *l, ls_pieces *p,
                            const char *advice)
{
    const ls_weights_load_opts o = { LS_WEIGHTS_LOAD_DEFAULTS };
    if (!c->optimizer)
        return ls_fail(LS_E_FORMAT,
                       "%s holds weights without optimizer state and cannot be continued; "
                       "ls_trainer_load takes its weights",
                       c->dir);
    LS_TRY(ls_trainer_lists(l, t));
    LS_TRY(ls_ranges_load(c->optimizer, &l->optimizer,
                          &(ls_weights_load_opts){ LS_WEIGHTS_LOAD_DEFAULTS, .check_only = true }));
    if (c->sparse) /* first of all, because it takes as long as the network does */
        LS_TRY(ls_ranks_await(t->group, bring, &(bringing){ c, l, advice }));
    LS_TRY(ls_pieces_open(p, NULL));
    LS_TRY(ls_session_enter(t->session, "loading a checkpoint"));
    if (t->guest)
        LS_TRY(t->guest->load(t->guest->context, c->live, c->dir));
    const ls_weights_load_opts model = { LS_WEIGHTS_LOAD_DEFAULTS,
                                         .convert = only_frozen_differ(&t->compiled.units, c->weights) };
    LS_TRY(ls_ranges_load_by(p, c->weights, &l->model, &model));
    return ls_ranges_load_by(p, c->optimizer, &l->optimizer, &o);
}

/* The learning rate that a checkpoint tells; NAN: none. */
static double rate_of(const ls_checkpoint *c)
{
    json_t *j = NULL;
    if (!c->trainer || ls_json_parse(&j, c->trainer, strlen(c->trainer), c->dir) != LS_OK)
        return NAN;
    const json_t *lr = json_object_get(j, "lr");
    const double rate = json_is_number(lr) ? json_number_value(lr) : NAN;
    json_decref(j);
    return rate;
}

ls_status ls_trainer_load_state(ls_trainer *t, const ls_checkpoint *c, const char *advice)
{
    LS_TRAINER_USE(t);
    ls_state_lists l = { 0 };
    ls_pieces p = { 0 };
    ls_status s = ls_pieces_close(&p, load_lists(t, c, &l, &p, advice));
    if ((s == LS_E_FORMAT || s == LS_E_NUMERIC) && advice && !strstr(ls_error_message(), advice))
        s = ls_fail(s, "%s. %s", ls_error_message(), advice);
    s = ls_checkpoint_together(t->group, s);
    t->used = true;
    t->ready = t->ready || s == LS_OK;
    t->left_behind = s == LS_OK && c->live && !t->guest;
    t->skips = t->bad_skips = 0;
    t->averaged = t->rounded = t->buffers_moved = false;
    t->last_lr = rate_of(c);
    if (s == LS_OK)
        s = ls_session_leave(t->session);
    ls_state_lists_release(&l);
    return s;
}
