/* parameters.c - loads, collects and saves a trainer's parameters and buffers by name. A rank keeps only its
 * local shards. It writes memory that other ranks read between ls_session_enter and ls_session_leave.
 *
 * Buffers (t->buffers, in ls_state_lists after the parameters) are whole on every rank. They advance from
 * micro-batch 0, which rank 0 computes, so between evaluations only those of rank 0 are current. Saving
 * takes them from rank 0; other readers call ls_trainer_share_buffers first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/hash.h"
#include "base/sys.h"
#include "ckpt/elements.h"
#include "comm/agree.h"
#include "rows.h"
#include "state.h"
#include "trainer.h"
#include "graph/identity.h"
#include "ops/rules.h"

/* The range of elements of a local shard. */
static ls_range range_of(const ls_local_shard *h)
{
    return (ls_range){ .first = h->first, .count = h->count, .box = &h->box };
}

/* Elements `first` .. `first + n - 1` of the slice of the unit that has parameter i. */
static ls_place part_of_unit(const ls_trainer *t, int i, int64_t first, int64_t n)
{
    const ls_slot *s = &t->compiled.units.slots[i];
    return ls_place_part(&t->units[s->unit], first,
                         &(ls_type){ .dtype = s->type.dtype, .ndim = 1, .dims = { n } });
}

static ls_local_shard local_shard(const ls_trainer *t, int i, int rank)
{
    return ls_slot_local_shard(&t->compiled.units, &t->compiled.parallel.mesh, i, rank);
}

ls_status ls_trainer_bind_weights(ls_trainer *t, int i)
{
    const char *why = NULL;
    LS_TRY(ls_session_place_of(t->session, (ls_identity){ .what = LS_IS_WEIGHTS, .unit = i },
                               t->compiled.units.units[i].state, &t->weights[i]));
    t->round_to[i] = (ls_cast_attrs){ t->weights[i].type.dtype };
    const ls_tensor in = ls_tensor_of(NULL, &t->units[i].type), out = ls_tensor_of(NULL, &t->weights[i].type);
    t->round = ls_device_find(
        &t->compiled.device, "cast",
        &(ls_kernel_args){ .n_in = 1, .n_out = 1, .in = &in, .out = &out, .attrs = &t->round_to[i] }, &why);
    return t->round ? LS_OK : ls_fail(LS_E_UNSUPPORTED, "rounding weights: %s", why);
}

ls_status ls_trainer_round_weights(ls_trainer *t)
{
    if (t->rounded || !t->round)
        return LS_OK;
    LS_TRY(ls_session_enter(t->session, "rounding weights"));
    for (int i = 0; i < t->compiled.units.n; i++)
        if (ls_place_present(&t->weights[i]))
            ls_session_call(t->round, 1, (const ls_place *const[]){ &t->units[i] }, &t->weights[i],
                            &t->round_to[i]);
    LS_TRY(ls_session_leave(t->session));
    t->rounded = true;
    return LS_OK;
}

/* The offset of the whole parameter i in t->whole, in bytes. */
static size_t parameters_start(const ls_units *u, int i)
{
    size_t at = 0;
    for (int k = 0; k < i; k++)
        at += (ls_type_bytes(&u->slots[k].whole) + 63) / 64 * 64;
    return at;
}

/* The size of the largest local shard of parameter i, in elements. */
static int64_t most(const ls_trainer *t, int i)
{
    int64_t n = 0;
    for (int r = 0; r < ls_group_size(t->group); r++) {
        const int64_t count = local_shard(t, i, r).count;
        n = count > n ? count : n;
    }
    return n;
}

/* Memory for gathering parameter i: this rank's local shard, then room for that of each rank. */
static size_t room_of(const ls_trainer *t, int i)
{
    return (size_t)(most(t, i) * (1 + ls_group_size(t->group))) *
           ls_dtype_size(t->compiled.units.slots[i].type.dtype);
}

/* Copies the elements of a range, which lie at `part`, to the whole tensor. */
static void scatter(const ls_range *r, size_t size, const char *part, char *whole)
{
    for (int64_t k = 0, n; k < r->count; k += n) {
        char *there = whole + (size_t)ls_range_piece(r, k, &n) * size;
        memcpy(there, part + (size_t)k * size, (size_t)n * size);
    }
}

/* Gathers parameter i at `whole`, or (NULL) only sends this rank's local shard. Of equal copies it uses
 * number 0. Collective. */
static ls_status parameters_gather(ls_trainer *t, int i, char *room, char *whole)
{
    const ls_units *u = &t->compiled.units;
    const size_t size = ls_dtype_size(u->slots[i].type.dtype), each = (size_t)most(t, i) * size;
    ls_local_shard h = local_shard(t, i, t->compiled.parallel.rank);
    const ls_place mine = part_of_unit(t, i, h.at, h.count);
    LS_TRY(ls_session_read(&mine, room, (size_t)h.count * size));
    LS_TRY(ls_group_all_gather(t->group, room, each, room + each));
    for (int rank = 0; whole && rank < ls_group_size(t->group); rank++) {
        h = local_shard(t, i, rank);
        const ls_range r = range_of(&h);
        if (h.copy == 0)
            scatter(&r, size, room + (size_t)(rank + 1) * each, whole);
    }
    return LS_OK;
}

/* Gathers all parameters in t->whole, on every rank (`everywhere`) or on rank 0. Collective. */
static ls_status collect(ls_trainer *t, bool everywhere)
{
    const ls_units *u = &t->compiled.units;
    const bool keep = everywhere || ls_group_rank(t->group) == 0;
    size_t largest = 0;
    if (!t->whole && keep)
        t->whole = ls_sys_calloc(parameters_start(u, u->n_slots), 1);
    for (int i = 0; i < u->n_slots; i++)
        largest = room_of(t, i) > largest ? room_of(t, i) : largest;
    char *room = ls_sys_malloc(largest);
    ls_status s = (t->whole || !keep) && room
                      ? LS_OK
                      : ls_fail(LS_E_MEMORY, "out of memory for a copy of all parameters");
    s = ls_checkpoint_together(t->group, s);
    for (int i = 0; i < u->n_slots && s == LS_OK; i++)
        s = parameters_gather(t, i, room, keep ? (char *)t->whole + parameters_start(u, i) : NULL);
    free(room);
    return s;
}

/* The place of parameter i, if every rank has all of it, or of buffer i - n_slots. */
static ls_place whole_place(const ls_trainer *t, int i)
{
    const ls_units *u = &t->compiled.units;
    if (i >= u->n_slots)
        return t->buffers[i - u->n_slots].place;
    return ls_place_part(&t->units[u->slots[i].unit], u->slots[i].offset, &u->slots[i].whole);
}

/* Lists parameters, then buffers: in t->whole, or in the session's own memory. */
static ls_status all_tensors(const ls_trainer *t, ls_tensor_list *out)
{
    const ls_units *u = &t->compiled.units;
    const int n = u->n_slots + t->n_buffers;
    ls_named_tensor *tensors = ls_sys_calloc((size_t)n, sizeof *tensors);
    ls_range *mine = ls_sys_calloc((size_t)n, sizeof *mine);
    *out = (ls_tensor_list){ .n = n, .tensors = tensors, .mine = mine };
    if (!tensors || !mine)
        return ls_fail(LS_E_MEMORY, "out of memory for a list of %d tensors", n);
    for (int i = 0; i < n; i++) {
        const ls_type *type = i < u->n_slots ? &u->slots[i].whole : &t->buffers[i - u->n_slots].place.type;
        tensors[i] = (ls_named_tensor){ i < u->n_slots ? u->slots[i].name : t->buffers[i - u->n_slots].name,
                                        ls_tensor_of(NULL, type) };
        mine[i].count = ls_type_count(type);
        if (i < u->n_slots && !ls_units_everywhere(u))
            mine[i].data = (char *)t->whole + parameters_start(u, i);
        else
            mine[i].place = whole_place(t, i);
    }
    return LS_OK;
}

ls_status ls_trainer_whole(ls_trainer *t, ls_tensor_list *out)
{
    LS_TRAINER_USE(t);
    *out = (ls_tensor_list){ 0 };
    if (!ls_units_everywhere(&t->compiled.units))
        LS_TRY(collect(t, true));
    return all_tensors(t, out);
}

static void parameters_release(ls_tensor_list *l)
{
    free((void *)(uintptr_t)l->tensors);
    free((void *)(uintptr_t)l->mine);
    *l = (ls_tensor_list){ 0 };
}

void ls_trainer_forget_whole(ls_trainer *t, ls_tensor_list *l)
{
    parameters_release(l);
    free(t->whole);
    t->whole = NULL;
}

/* ---- one by name */

int ls_trainer_parameters(const ls_trainer *t, ls_named_tensor *out, int max)
{
    LS_ARG_OR(t, -1);
    const ls_units *u = &t->compiled.units;
    for (int i = 0; out && i < u->n_slots && i < max; i++)
        out[i] = (ls_named_tensor){ u->slots[i].name, ls_tensor_of(NULL, &u->slots[i].whole) };
    return u->n_slots;
}

int ls_trainer_buffers(const ls_trainer *t, ls_named_tensor *out, int max)
{
    LS_ARG_OR(t, -1);
    for (int i = 0; out && i < t->n_buffers && i < max; i++)
        out[i] = (ls_named_tensor){ t->buffers[i].name, ls_tensor_of(NULL, &t->buffers[i].place.type) };
    return t->n_buffers;
}

static bool is_float(ls_dtype d) { return d == LS_F32 || d == LS_F64; }

/* Finds the parameter or buffer of this name, for values of its type: *i is its number, for a buffer plus
 * n_slots. *of: its type. */
static ls_status parameters_find(const ls_trainer *t, const char *name, const ls_tensor *values,
                                 const char *call, int *i, const ls_type **of)
{
    const int n = t->compiled.units.n_slots;
    char a[128], b[128];
    LS_TRY(ls_trainer_needs_weights(t, call));
    for (*i = 0; *i < n + t->n_buffers; ++*i) {
        const ls_slot *s = &t->compiled.units.slots[*i < n ? *i : 0];
        if (strcmp(*i < n ? s->name : t->buffers[*i - n].name, name))
            continue;
        ls_type have = values->type;
        *of = *i < n ? &s->whole : &t->buffers[*i - n].place.type;
        have.dtype = is_float(have.dtype) && is_float((*of)->dtype) ? (*of)->dtype : have.dtype;
        if (!ls_type_equal(&have, *of))
            return ls_fail(LS_E_SHAPE, "%s: \"%s\" is %s in the model, but the values given are %s", call,
                           name, ls_type_text(a, *of), ls_type_text(b, &values->type));
        return values->data ? LS_OK : ls_fail(LS_E_ARG, "%s: \"%s\": data is NULL", call, name);
    }
    return ls_fail(LS_E_ARG,
                   "%s: the model has no parameter or buffer \"%s\"; ls_trainer_parameters and "
                   "ls_trainer_buffers list them",
                   call, name);
}

ls_status ls_trainer_get(ls_trainer *t, const char *name, const ls_tensor *values)
{
    LS_ARG(t);
    LS_ARG(name);
    LS_ARG(values);
    LS_ARG_TYPE(values->type);
    LS_TRAINER_USE(t);
    const int n = t->compiled.units.n_slots;
    int i = 0;
    const ls_type *of = NULL;
    char *room = NULL, *whole = NULL;
    ls_status s = parameters_find(t, name, values, "ls_trainer_get", &i, &of);
    const bool apart = s == LS_OK && i < n && !ls_slot_everywhere(&t->compiled.units, i);
    if (s == LS_OK) {
        room = ls_sys_malloc(apart ? room_of(t, i) : 1);
        whole = ls_sys_malloc(ls_type_bytes(of));
        s = ls_sys_have(room && whole ? room : NULL);
    }
    s = ls_checkpoint_together(t->group, s);
    if (s == LS_OK && i >= n)
        s = ls_trainer_share_buffers(t);
    if (s == LS_OK && apart) {
        s = parameters_gather(t, i, room, whole);
    } else if (s == LS_OK) {
        const ls_place from = whole_place(t, i);
        s = ls_session_read(&from, whole, ls_type_bytes(of));
    }
    if (s == LS_OK)
        ls_rows_give(values, whole, of->dtype);
    free(room);
    free(whole);
    return s;
}

/* Puts this rank's local shard of the whole parameter i to its place. */
static ls_status put_mine(ls_trainer *t, int i, const char *whole)
{
    const size_t size = ls_dtype_size(t->compiled.units.slots[i].type.dtype);
    const ls_local_shard h = local_shard(t, i, t->compiled.parallel.rank);
    const ls_range r = range_of(&h);
    for (int64_t k = 0, n; k < r.count; k += n) {
        const char *from = whole + (size_t)ls_range_piece(&r, k, &n) * size;
        const ls_place to = part_of_unit(t, i, h.at + k, n);
        LS_TRY(ls_session_put(&to, from, (size_t)n * size));
    }
    return LS_OK;
}

ls_status ls_trainer_set(ls_trainer *t, const char *name, const ls_tensor *values)
{
    LS_ARG(t);
    LS_ARG(name);
    LS_ARG(values);
    LS_ARG_TYPE(values->type);
    LS_TRAINER_USE(t);
    const ls_units *u = &t->compiled.units;
    int i = 0;
    const ls_type *of = NULL;
    char *whole = NULL, line[64] = "";
    ls_status s = ls_trainer_needs_parameters(t, "ls_trainer_set");
    if (s == LS_OK)
        s = parameters_find(t, name, values, "ls_trainer_set", &i, &of);
    if (s == LS_OK)
        s = ls_sys_have(whole = ls_sys_malloc(ls_type_bytes(of)));
    s = ls_checkpoint_together(t->group, s);
    if (s == LS_OK) {
        ls_rows_take(whole, of->dtype, values);
        snprintf(line, sizeof line, "values with hash %016llx\n",
                 (unsigned long long)ls_hash64(whole, ls_type_bytes(of)));
        s = t->group ? ls_ranks_same(t->group, line, "ls_trainer_set") : LS_OK;
    }
    if (s == LS_OK)
        s = ls_session_enter(t->session, "setting a parameter");
    if (s == LS_OK && i < u->n_slots) {
        s = put_mine(t, i, whole);
    } else if (s == LS_OK) {
        s = ls_session_put(&t->buffers[i - u->n_slots].place, whole, ls_type_bytes(of));
    }
    if (s == LS_OK)
        s = ls_session_wait(t->session);
    if (s == LS_OK) {
        t->rounded = false;
        s = ls_session_leave(t->session);
    }
    free(whole);
    return s;
}

/* ---- loading and saving */

/* Removes the tensors that `reset` names from the list of tensors to load. */
static ls_status leave_out(ls_tensor_list *l, const char *reset)
{
    ls_named_tensor *tensors = (ls_named_tensor *)(uintptr_t)l->tensors; /* in the arena of the lists */
    ls_range *mine = (ls_range *)(uintptr_t)l->mine;
    char word[256];
    int64_t n = 0;
    for (int used; sscanf(reset + n, "%255s%n", word, &used) == 1; n += used) {
        bool found = false;
        for (int64_t i = 0; i < l->n && !found; i++)
            found = ls_words_freeze(word + (*word == '!'), tensors[i].name);
        if (!found)
            return ls_fail(LS_E_USAGE,
                           "reset: %s: the model has no parameter or module of that name (lockstep inspect "
                           "RECIPE lists them)",
                           word);
    }
    const ls_tensor_list all = *l;
    n = 0;
    for (int64_t i = 0; i < all.n; i++)
        if (!ls_words_freeze(reset, tensors[i].name)) {
            tensors[n] = tensors[i];
            mine[n++] = mine[i];
        } else {
            l->finite -= i < all.finite;
            l->numbers -= i < all.numbers;
        }
    l->n = n;
    return LS_OK;
}

/* Each rank reads only its ranges of the file. */
static ls_status parameters_load(ls_trainer *t, const ls_weights *w, bool strict, const char *reset)
{
    const ls_weights_load_opts opts = { LS_WEIGHTS_LOAD_DEFAULTS, .convert = true,
                                        .allow_unexpected = !strict, .allow_missing = !strict };
    ls_state_lists l;
    ls_pieces p = { 0 };
    LS_TRY(ls_trainer_needs_parameters(t, "loading weights"));
    ls_status s = ls_state_lists_make(&l, &t->compiled, t->session);
    if (s == LS_OK)
        s = leave_out(&l.model, reset);
    if (s == LS_OK && !t->compiled.plans[LS_MICRO]) /* an evaluation shows the effect of such weights */
        l.model.finite = l.model.numbers = 0;
    if (s == LS_OK)
        s = ls_pieces_open(&p, &l.model);
    if (s == LS_OK)
        s = ls_session_enter(t->session, "loading weights");
    /* other states than weights get the values of ls_trainer_init */
    if (s == LS_OK && !t->ready)
        s = ls_trainer_init_states(t, &p);
    if (s == LS_OK)
        s = ls_ranges_load_by(&p, w, &l.model, &opts);
    s = ls_checkpoint_together(t->group, ls_pieces_close(&p, s));
    if (s == LS_OK)
        s = ls_session_leave(t->session);
    t->used = true;
    t->ready = t->ready || s == LS_OK;
    t->rounded = t->buffers_moved = false;
    ls_state_lists_release(&l);
    return s;
}

ls_status ls_trainer_load(ls_trainer *t, const ls_weights *w)
{
    LS_ARG(t);
    LS_ARG(w);
    LS_TRAINER_USE(t);
    return parameters_load(t, w, true, "");
}

ls_status ls_trainer_init_from(ls_trainer *t, uint64_t seed, const ls_weights *w, bool strict,
                               const char *reset)
{
    if (!strict || *reset)
        LS_TRY(ls_trainer_init(t, seed));
    LS_TRAINER_USE(t);
    LS_TRY(parameters_load(t, w, strict, reset));
    return ls_trainer_put_seed(t, seed);
}

ls_status ls_trainer_load_partly(ls_trainer *t, const ls_weights *w)
{
    LS_ARG(t);
    LS_ARG(w);
    LS_TRAINER_USE(t);
    LS_TRY(ls_trainer_needs_weights(t, "ls_trainer_load_partly"));
    return parameters_load(t, w, false, "");
}

static ls_status save_all(ls_trainer *t, const char *path)
{
    ls_tensor_list all;
    ls_status s = all_tensors(t, &all);
    if (s == LS_OK)
        s = ls_tensors_save(path, &all);
    parameters_release(&all);
    return s;
}

ls_status ls_trainer_save(ls_trainer *t, const char *path)
{
    LS_ARG(t);
    LS_ARG(path);
    LS_TRAINER_USE(t);
    LS_TRY(ls_trainer_needs_weights(t, "ls_trainer_save"));
    if (!ls_units_everywhere(&t->compiled.units))
        LS_TRY(collect(t, false));
    return ls_checkpoint_together(t->group,
                                  t->group && ls_group_rank(t->group) != 0 ? LS_OK : save_all(t, path));
}

int64_t ls_trainer_parameter_count(const ls_trainer *t)
{
    LS_ARG_OR(t, 0);
    return t->compiled.units.parameters;
}
int64_t ls_trainer_classes(const ls_trainer *t)
{
    LS_ARG_OR(t, 0);
    return t->compiled.classes;
}
size_t ls_trainer_bytes(const ls_trainer *t)
{
    LS_ARG_OR(t, 0);
    size_t put = 0;
    for (int i = 0; i < t->n_fields; i++)
        put += (size_t)((t->fields[i].put != NULL) + (t->fields[i].converted != NULL)) *
               (size_t)ls_trainer_room(t) * ls_trainer_sample_bytes(t, &t->fields[i]);
    return ls_session_bytes(t->session) + t->compiled.staging_bytes + put +
           (t->shared_buffers ? ls_trainer_buffer_bytes(t) : 0);
}
