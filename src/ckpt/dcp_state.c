/* dcp_state.c - reads model and optimizer from a DCP directory (dcp_state.h). */
#include "ckpt/dcp_state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/shown.h"
#include "ckpt/pt.h"
#include "ckpt/safetensors.h"

ls_status ls_dcp_state_open(ls_dcp_state *s, const char *dir, const char *prefix)
{
    *s = (ls_dcp_state){ .dir = dir, .prefix = prefix, .steps = -1 };
    ls_arena_init(&s->arena);
    ls_status status = ls_dcp_open(&s->model, dir, &(ls_dcp_ask){ .prefix = prefix });
    if (status != LS_OK)
        ls_dcp_state_release(s);
    return status;
}

void ls_dcp_state_release(ls_dcp_state *s)
{
    ls_weights_close(&s->model);
    ls_weights_close(&s->optimizer);
    ls_arena_release(&s->arena);
    *s = (ls_dcp_state){ 0 };
}

double ls_dcp_state_rate(const ls_dcp_state *s)
{
    double rate = NAN;
    for (int64_t i = 0; i < s->n; i++)
        if (!strcmp(s->settings[i].is.name, "lr") && s->settings[i].is.kind == LS_DCP_FLOAT)
            rate = s->settings[i].is.a;
    return rate;
}

static const char *behind(const char *text, const char *begin)
{
    const size_t n = strlen(begin);
    return strncmp(text, begin, n) == 0 ? text + n : NULL;
}

/* ---- steps */

static ls_status add_steps(ls_dcp_state *s, const char *of, double steps)
{
    char shown[128];
    if (!(steps >= 0 && steps < 9e15) || steps != floor(steps))
        return ls_fail(LS_E_FORMAT,
                       "%s: the optimizer's step of \"%s\" is %g, no number of steps: save it again", s->dir,
                       ls_shown_name(shown, of), steps);
    if (s->steps >= 0 && s->steps != (int64_t)steps)
        return ls_fail(LS_E_UNSUPPORTED,
                       "%s: the optimizer has made %.0f steps of \"%s\" and %" PRId64
                       " of others: Lockstep counts them together, so it cannot go on from there",
                       s->dir, steps, ls_shown_name(shown, of), s->steps);
    s->steps = (int64_t)steps;
    return LS_OK;
}

static ls_status read_steps(ls_dcp_state *s)
{
    for (int64_t i = 0; i < ls_weights_count(s->optimizer); i++) {
        const ls_weight *t = ls_weights_at(s->optimizer, i);
        const char *of = behind(t->name, "step.");
        char shown[128];
        double steps = 0;
        if (!of)
            continue;
        if (t->loadable && ls_type_count(&t->type) != 1)
            return ls_fail(LS_E_FORMAT, "%s: the optimizer's step of \"%s\" is not one number: save it again",
                           s->dir, ls_shown_name(shown, of));
        if (t->loadable && t->type.dtype == LS_I64) {
            int64_t whole;
            LS_TRY(ls_weight_read(t, LS_I64, &whole));
            steps = (double)whole;
        } else {
            LS_TRY(ls_weight_read(t, LS_F64, &steps));
        }
        LS_TRY(add_steps(s, of, steps));
    }
    return LS_OK;
}

/* ---- settings */

static bool number_of(double *out, const ls_pickle *v)
{
    *out = v->kind == LS_PICKLE_FLOAT ? v->real : (double)v->number;
    return v->kind == LS_PICKLE_FLOAT || v->kind == LS_PICKLE_INT;
}

/* Whether an object is a plain value. Texts, lists and tensors are not: they do not decide what a step
 * computes. */
static bool read_setting(ls_dcp_setting *out, const ls_pickle *v)
{
    out->kind = v->kind == LS_PICKLE_NONE   ? LS_DCP_NONE
                : v->kind == LS_PICKLE_BOOL ? LS_DCP_BOOL
                : v->n == 2                 ? LS_DCP_PAIR
                                            : LS_DCP_FLOAT;
    out->a = (double)v->number;
    if (v->kind == LS_PICKLE_NONE || v->kind == LS_PICKLE_BOOL)
        return true;
    if (v->n == 2 && (v->kind == LS_PICKLE_TUPLE || v->kind == LS_PICKLE_LIST))
        return number_of(&out->a, v->items[0]) && number_of(&out->b, v->items[1]);
    return number_of(&out->a, v);
}

/* The parameters of a group: their names, or, if they are numbers, how many there are. */
static ls_status count_parameters(ls_dcp_state *s, const char *group, const ls_pickle *list, int64_t *numbers,
                                  int *groups)
{
    ls_dcp_member *all = LS_ARENA_ARRAY(&s->arena, ls_dcp_member, s->n_members + (int64_t)list->n + 1);
    LS_TRY(ls_arena_status(&s->arena));
    ++*groups;
    if (s->n_members)
        memcpy(all, s->members, sizeof *all * (size_t)s->n_members);
    s->members = all;
    for (size_t i = 0; list->kind == LS_PICKLE_LIST && i < list->n; i++)
        if (list->items[i]->kind == LS_PICKLE_TEXT)
            all[s->n_members++] = (ls_dcp_member){
                group, ls_arena_printf(&s->arena, "%.*s", (int)list->items[i]->length, list->items[i]->text)
            };
    for (size_t i = 0; list->kind == LS_PICKLE_LIST && i < list->n; i++)
        if (list->items[i]->kind == LS_PICKLE_INT) {
            s->numbered = true;
            if (list->items[i]->number != (*numbers)++ || *groups > 1)
                return ls_fail(LS_E_UNSUPPORTED,
                               "%s: its optimizer numbers the parameters, in %s, so that nothing tells which "
                               "they are: save the state dict of get_state_dict, which names them",
                               s->dir, *groups > 1 ? "several groups" : "an order of its own");
        }
    return LS_OK;
}

static ls_status read_object(ls_dcp_state *s, const ls_dcp_bytes *o, ls_arena *scratch, int64_t *numbers,
                             int *groups)
{
    ls_pt_file file = { .bytes = o->bytes, .size = o->size, .path = o->path };
    const char *group = behind(o->name, "param_groups."), *of = behind(o->name, "step."),
               *dot = group ? strrchr(group, '.') : NULL;
    double steps;
    if (!dot && !of)
        return LS_OK; /* (a moment that is None) */
    if (!ls_pt_is(o->bytes, o->size))
        return ls_fail(LS_E_FORMAT, "%s: where %s should be is not of torch.save: copy the directory again",
                       o->path, o->name);
    LS_TRY(ls_pt_file_read(&file, scratch));
    if (of)
        return number_of(&steps, file.root) ? add_steps(s, of, steps) : LS_OK;
    const char *of_group = ls_arena_printf(&s->arena, "%.*s", (int)(dot - group), group);
    if (!strcmp(dot, ".params"))
        return count_parameters(s, of_group, file.root, numbers, groups);
    ls_dcp_group_setting *set = &s->settings[s->n];
    set->group = of_group;
    set->is.name = ls_arena_strdup(&s->arena, dot + 1);
    s->n += read_setting(&set->is, file.root);
    return LS_OK;
}

static ls_status read_objects(ls_dcp_state *s, int64_t parameters)
{
    int64_t n, numbers = 0;
    int groups = 0;
    const ls_dcp_bytes *list = ls_dcp_objects(s->optimizer, &n);
    ls_arena scratch;
    ls_status status = LS_OK;
    s->settings = LS_ARENA_ARRAY(&s->arena, ls_dcp_group_setting, n + 1);
    LS_TRY(ls_arena_status(&s->arena));
    ls_arena_init(&scratch);
    for (int64_t i = 0; i < n && status == LS_OK; i++)
        status = read_object(s, &list[i], &scratch, &numbers, &groups);
    status = ls_arena_outcome(&s->arena, status);
    ls_arena_release(&scratch);
    if (status == LS_OK && s->numbered && numbers != parameters)
        status = ls_fail(
            LS_E_UNSUPPORTED,
            "%s: its optimizer numbers %" PRId64 " parameters, and the model has %" PRId64
            ", so that nothing tells which they are: save the state dict of get_state_dict, which "
            "names them",
            s->dir, numbers, parameters);
    return status;
}

ls_status ls_dcp_state_optimizer(ls_dcp_state *s, int64_t n, const char *const *parameters)
{
    const ls_dcp_ask ask = { .prefix = s->prefix, .optimizer = true, .n = n, .parameters = parameters };
    int64_t objects;
    LS_TRY(ls_dcp_open(&s->optimizer, s->dir, &ask));
    ls_dcp_objects(s->optimizer, &objects);
    if (!objects && !ls_weights_count(s->optimizer))
        return ls_fail(
            LS_E_UNSUPPORTED,
            "%s holds no state of an optimizer (nothing lies under optimizer or optim%s%s) and cannot "
            "be continued; begin with its weights: --set model.init=%s",
            s->dir, s->prefix ? " behind the prefix " : "", s->prefix ? s->prefix : "", s->dir);
    LS_TRY(read_steps(s));
    return read_objects(s, n);
}
