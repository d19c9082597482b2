/* state.c - saves a trainer's state as a checkpoint, and loads one. */
#include "state.h"

#include <string.h>

#include "base/thread_pool.h"
#include "trainer.h"

ls_status ls_trainer_lists(ls_state_lists *out, ls_trainer *t)
{
    return ls_state_lists_make(out, &t->compiled, t->session);
}

ls_status ls_trainer_save_state(ls_trainer *t, const char *dir, const ls_checkpoint_contents *texts,
                                uint64_t *bytes)
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
    s = s == LS_OK ? ls_checkpoint_save(dir, &c, t->group, bytes) : ls_checkpoint_together(t->group, s);
    ls_state_lists_release(&l);
    return s;
}

/* ---- staging */

typedef struct copying {
    char *to;
    const char *from;
    size_t bytes;
} copying;

enum { COPY_BLOCK = 1 << 20 };

static void copy_blocks(void *context, int64_t begin, int64_t end, int worker)
{
    const copying *c = context;
    const size_t from = (size_t)begin * COPY_BLOCK, to = (size_t)end * COPY_BLOCK;
    (void)worker;
    memcpy(c->to + from, c->from + from, (to < c->bytes ? to : c->bytes) - from);
}

/* Copies this rank's ranges to *to and moves *to behind them. Returns the list of the copies. */
static ls_tensor_list stage(char **to, ls_arena *arena, const ls_tensor_list *l, int threads)
{
    ls_range *mine = ls_arena_dup(arena, l->mine, sizeof *mine * (size_t)l->n);
    for (int64_t i = 0; mine && i < l->n; i++) {
        copying c = { *to, mine[i].data, ls_state_range_bytes(l, i) };
        ls_parallel_for(threads, (int64_t)((c.bytes + COPY_BLOCK - 1) / COPY_BLOCK), copy_blocks, &c);
        mine[i].data = *to;
        *to += (c.bytes + 63) / 64 * 64;
    }
    return (ls_tensor_list){ mine ? l->n : 0, l->tensors, mine, l->finite, l->numbers };
}

ls_status ls_trainer_stage_state(ls_saving **out, ls_state_lists *l, ls_trainer *t, const char *dir,
                                 const ls_checkpoint_contents *texts)
{
    *out = NULL;
    ls_status s = ls_trainer_lists(l, t);
    if (s != LS_OK)
        return ls_checkpoint_together(t->group, s);
    ls_checkpoint_contents c = ls_state_share(&t->compiled, l, texts);
    char *to = t->staging;
    ls_background_wait(&t->prefault);
    c.model = stage(&to, &l->arena, &c.model, t->compiled.device.threads);
    c.optimizer = stage(&to, &l->arena, &c.optimizer, t->compiled.device.threads);
    s = ls_arena_status(&l->arena);
    s = s == LS_OK ? ls_saving_begin(out, dir, &c, t->group) : ls_checkpoint_together(t->group, s);
    if (s != LS_OK)
        ls_state_lists_release(l);
    return s;
}

/* ---- loading */

static ls_status load_lists(ls_trainer *t, const ls_checkpoint *c, ls_state_lists *l)
{
    if (!c->optimizer)
        return ls_fail(LS_E_FORMAT,
                       "%s holds weights without optimizer state and cannot be continued; "
                       "ls_trainer_load takes its weights",
                       c->dir);
    LS_TRY(ls_trainer_lists(l, t));
    LS_TRY(ls_ranges_load(c->optimizer, &l->optimizer,
                          &(ls_weights_load_opts){ LS_WEIGHTS_LOAD_DEFAULTS, .check_only = true }));
    LS_TRY(ls_session_enter(t->session, "loading a checkpoint"));
    if (t->guest)
        LS_TRY(t->guest->load(t->guest->context, c->live, c->dir));
    LS_TRY(ls_ranges_load(c->weights, &l->model, &(ls_weights_load_opts){ LS_WEIGHTS_LOAD_DEFAULTS }));
    return ls_ranges_load(c->optimizer, &l->optimizer, &(ls_weights_load_opts){ LS_WEIGHTS_LOAD_DEFAULTS });
}

ls_status ls_trainer_load_state(ls_trainer *t, const ls_checkpoint *c, const char *advice)
{
    LS_TRAINER_USE(t);
    ls_state_lists l = { 0 };
    ls_status s = load_lists(t, c, &l);
    if ((s == LS_E_FORMAT || s == LS_E_NUMERIC) && advice)
        s = ls_fail(s, "%s. %s", ls_error_message(), advice);
    s = ls_checkpoint_together(t->group, s);
    t->used = true;
    t->ready = t->ready || s == LS_OK;
    t->left_behind = s == LS_OK && c->live && !t->guest;
    t->skips = t->bad_skips = 0;
    t->averaged = t->rounded = t->buffers_moved = false;
    if (s == LS_OK)
        ls_session_leave(t->session);
    ls_state_lists_release(&l);
    return s;
}
