/* state_dcp.c - loads a trainer's state from a DCP directory of PyTorch. Each rank reads its local shards, as
 * from a checkpoint. State that PyTorch does not store (loss scale, the model's own state) gets its initial
 * value. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "ckpt/dcp_state.h"
#include "ckpt/safetensors.h"
#include "state.h"
#include "trainer.h"

static int state_dcp_by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names of the tensors of `l`, sorted. */
static const char **names_of(ls_arena *arena, const ls_tensor_list *l, int64_t n)
{
    const char **names = LS_ARENA_ARRAY(arena, const char *, n + 1);
    for (int64_t i = 0; names && i < n; i++)
        names[i] = l->tensors[i].name;
    if (names && n > 1)
        qsort(names, (size_t)n, sizeof *names, state_dcp_by_name);
    return names;
}

static bool has_name(const char *const *names, int64_t n, const char *name)
{
    return n > 0 && bsearch(&name, names, (size_t)n, sizeof *names, state_dcp_by_name);
}

/* Leaves out further names of a tied tensor: a state dict has it under each of its names, the model under
 * one. */
static bool leave_out(ls_weights *w, const char *name, const ls_tensor_list *model)
{
    const int64_t before = ls_weights_count(w);
    for (int64_t k = 0; k < model->n && ls_weights_count(w) == before; k++)
        ls_weights_leave_out(w, name, model->tensors[k].name);
    return ls_weights_count(w) < before;
}

static void leave_out_second_names(ls_weights *w, ls_arena *arena, const ls_tensor_list *model)
{
    const char **wanted = names_of(arena, model, model->n);
    for (int64_t i = 0; wanted && i < ls_weights_count(w);) {
        const char *name = ls_weights_at(w, i)->name;
        i += has_name(wanted, model->n, name) || !leave_out(w, name, model);
    }
}

/* Checks that the directory's optimizer stores the same moments of each parameter as this one. */
static ls_status check_moments(const ls_dcp_state *s, const ls_tensor_list *moments,
                               const char *const *parameters, int64_t n_parameters)
{
    for (int64_t i = 0; i < ls_weights_count(s->optimizer); i++) {
        const char *name = ls_weights_at(s->optimizer, i)->name, *dot = strchr(name, '.');
        char shown[128];
        const size_t length = dot ? (size_t)(dot - name) : strlen(name);
        bool kept = length == 4 && !memcmp(name, "step", 4);
        for (int64_t k = 0; k < moments->n && !kept; k++)
            kept = !strncmp(moments->tensors[k].name, name, length) &&
                   moments->tensors[k].name[length] == '.';
        if (!kept)
            return ls_fail(
                LS_E_SHAPE,
                "%s: its optimizer keeps %.*s of every parameter, and the one here does not: it is "
                "another optimizer, or has other options",
                s->dir, (int)length, name);
        if (!dot || !has_name(parameters, n_parameters, dot + 1))
            return ls_fail(LS_E_SHAPE,
                           "%s: its optimizer keeps a state of \"%s\", which the model does not have", s->dir,
                           ls_shown_name(shown, dot ? dot + 1 : name));
    }
    return LS_OK;
}

static ls_tensor_list moments_of(const ls_state_lists *l)
{
    const int64_t n = l->sliced_optimizer;
    return (ls_tensor_list){ n, l->optimizer.tensors, l->optimizer.mine, n, n };
}

static ls_status open_optimizer(ls_dcp_state *s, ls_state_lists *l)
{
    const int64_t n = l->sliced_model;
    const char **sorted = names_of(&l->arena, &l->model, n),
               **ordered = LS_ARENA_ARRAY(&l->arena, const char *, n + 1);
    int64_t found = 0;
    LS_TRY(ls_arena_status(&l->arena));
    for (int64_t i = 0; i < ls_weights_count(s->model); i++) {
        const char *name = ls_weights_at(s->model, i)->name;
        if (has_name(sorted, n, name))
            ordered[found++] = name;
    }
    const ls_tensor_list moments = moments_of(l);
    LS_TRY(ls_dcp_state_optimizer(s, found, ordered));
    return check_moments(s, &moments, sorted, n);
}

static ls_status state_dcp_check(ls_dcp_state *s, ls_state_lists *l)
{
    const ls_weights_load_opts o = { LS_WEIGHTS_LOAD_DEFAULTS, .convert = true, .allow_unexpected = true,
                                     .check_only = true };
    const ls_tensor_list moments = moments_of(l);
    leave_out_second_names(s->model, &l->arena, &l->model);
    LS_TRY(ls_ranges_load(
        s->model, &l->model,
        &(ls_weights_load_opts){ LS_WEIGHTS_LOAD_DEFAULTS, .convert = true, .check_only = true }));
    LS_TRY(open_optimizer(s, l));
    return ls_ranges_load(s->optimizer, &moments, &o);
}

static ls_status load_moments(ls_trainer *t, const ls_dcp_state *s, const ls_state_lists *l)
{
    const ls_tensor_list moments = moments_of(l);
    LS_TRY(ls_session_enter(t->session, "loading the optimizer's state"));
    LS_TRY(ls_ranges_load(
        s->optimizer, &moments,
        &(ls_weights_load_opts){ LS_WEIGHTS_LOAD_DEFAULTS, .convert = true, .allow_unexpected = true }));
    return ls_session_write(&t->step, &s->steps, sizeof s->steps);
}

ls_status ls_trainer_load_dcp(ls_trainer *t, ls_dcp_state *s, int64_t steps)
{
    LS_TRAINER_USE(t);
    ls_state_lists l;
    if (t->compiled.averaging)
        return ls_fail(LS_E_USAGE,
                       "%s: PyTorch directories contain no moving averages of the weights, which "
                       "optimizer.ema_decay needs to continue: leave it out, or begin with the weights: "
                       "--set model.init=%s",
                       s->dir, s->dir);
    ls_status status = ls_state_lists_make(&l, &t->compiled, t->session);
    if (status != LS_OK)
        return ls_checkpoint_together(t->group, status);
    status = ls_checkpoint_together(t->group, state_dcp_check(s, &l));
    if (status == LS_OK) {
        s->steps = s->steps >= 0 ? s->steps : steps;
        status = ls_trainer_load(t, s->model);
    }
    if (status == LS_OK) {
        status = ls_checkpoint_together(t->group, load_moments(t, s, &l));
        if (status == LS_OK)
            status = ls_session_leave(t->session);
        t->ready = status == LS_OK;
        t->last_lr = ls_dcp_state_rate(s);
    }
    ls_state_lists_release(&l);
    return status;
}
