/* layout.c - decides which unit each parameter belongs to, and where it lies in the unit's flat buffer. Both
 * follow from the model and the options alone, so all ranks, and `plan` on another machine, decide the
 * same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/field.h"
#include "base/nf4.h"
#include "comm/axes.h"
#include "ops/rules.h"
#include "passes.h"
#include "stages.h"

void ls_units_release(ls_units *u)
{
    ls_arena_release(&u->arena);
    *u = (ls_units){ 0 };
}

int64_t ls_units_frozen(const ls_units *u)
{
    int64_t n = 0;
    for (int i = u->trained; i < u->n; i++)
        n += u->units[i].parameters;
    return n;
}

/* experts: of units with a part */
static ls_sharding sharding_of(const ls_parallel *p, bool experts)
{
    ls_sharding s = { .shard = "",
                      .replicate = "",
                      .shards = 1,
                      .replicas = 1,
                      .stages = 1,
                      .parts = 1,
                      .part = 1,
                      .each = true };
    if (!p)
        return s;
    const char *axis = ls_mesh_axis(&p->mesh, LS_ROLE_EXPERT);
    s.parts = ls_mesh_group_size(&p->mesh, axis);
    s.part = 1 + ls_mesh_position(&p->mesh, p->rank, axis);
    s.shard = experts ? ls_parallel_expert_shard_axes(p) : ls_parallel_shard_axes(p);
    s.replicate = experts ? ls_parallel_expert_replicate_axes(p) : ls_parallel_replicate_axes(p);
    if (*s.shard) {
        s.shards = ls_mesh_group_size(&p->mesh, s.shard);
        s.position = ls_mesh_position(&p->mesh, p->rank, s.shard);
    }
    if (*s.replicate)
        s.replicas = ls_mesh_group_size(&p->mesh, s.replicate);
    s.stages = ls_parallel_stages(p);
    s.stage = ls_parallel_stage(p);
    s.offload = p->offload == LS_OFFLOAD_CPU;
    s.map = s.shards > 1 && ls_parallel_maps(p);
    s.each = ls_parallel_synchronizes_each(p);
    return s;
}

static int64_t up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

/* ---- policies: the scope whose unit a parameter belongs to; NULL: the root unit */

typedef struct policy {
    const ls_graph *g;
    const char *words; /* ls_parallel.units */
    int64_t size;      /* of the word size: */
    int64_t *own;      /* size: for each scope id, the elements that no unit inside the scope has taken */
    bool *large;       /* size: [scope ids]: the scope is a unit; NULL: there is no such word */
} policy;

static const ls_scope *scope_of_unit(const policy *p, const ls_node *param)
{
    for (const ls_scope *s = param->scope; s && s->path[0]; s = s->parent) {
        if (ls_words_name(p->words, s) || (p->large && p->large[s->id]))
            return s;
    }
    return NULL;
}

/* Marks units by size, inner scopes first: a scope becomes a unit if it has `size` elements that no unit
 * inside it, by size or by name, has taken (as FSDP's size_based_auto_wrap_policy). Inner scopes have larger
 * ids than outer ones. */
static ls_status choose_by_size(policy *p, ls_arena *arena)
{
    const ls_graph *g = p->g;
    p->own = LS_ARENA_ARRAY(arena, int64_t, g->n_scopes + 1);
    p->large = LS_ARENA_ARRAY(arena, bool, g->n_scopes + 1);
    const ls_scope **scope = LS_ARENA_ARRAY(arena, const ls_scope *, g->n_scopes + 1);
    LS_TRY(ls_arena_status(arena));
    for (int i = 0; i < g->n_nodes; i++) {
        for (const ls_scope *s = g->nodes[i]->scope; s; s = s->parent)
            scope[s->id] = s;
        if (g->nodes[i]->op == &ls_op_param)
            p->own[g->nodes[i]->scope->id] += ls_type_count(ls_type_of(g, g->nodes[i]->out[0]));
    }
    for (int i = g->n_scopes; i > 0; i--) {
        if (!scope[i] || !scope[i]->path[0])
            continue;
        p->large[i] = p->own[i] >= p->size;
        if (!p->large[i] && !ls_words_name(p->words, scope[i]))
            p->own[scope[i]->parent->id] += p->own[i];
    }
    return LS_OK;
}

/* Whether the word makes a unit. */
static bool has_effect(const policy *p, const char *word)
{
    const bool size = !strncmp(word, "size:", 5);
    for (int i = 0; i < p->g->n_nodes; i++)
        for (const ls_scope *s = p->g->nodes[i]->scope; p->g->nodes[i]->op == &ls_op_param && s;
             s = s->parent)
            if (size ? p->large[s->id] : ls_words_name(word, s))
                return true;
    return false;
}

/* LS_E_USAGE if a word of `units` names nothing in this model. This is checked on one rank too, so that a
 * recipe which works on one rank works on four. */
static ls_status layout_choose(policy *p, ls_arena *arena)
{
    const char *size = strstr(p->words, "size:"), *words = p->words;
    char word[512];
    if (!strcmp(words, "none"))
        return LS_OK;
    if (size) {
        p->size = (int64_t)ls_strtod(size + 5, NULL);
        LS_TRY(choose_by_size(p, arena));
    }
    for (int used; sscanf(words, "%511s%n", word, &used) == 1; words += used)
        if (!has_effect(p, word))
            return ls_fail_field(LS_E_USAGE, "units",
                                 "%s: no module with parameters of the model matches (lockstep inspect "
                                 "RECIPE shows its modules and classes; `none` makes the whole model one "
                                 "FSDP module)",
                                 word);
    return LS_OK;
}

/* ---- frozen parameters */

/* Whether a word of `freeze` names a parameter, or a module that contains it. */
static bool word_matches(const char *word, const char *name)
{
    char path[512];
    if (!strncmp(word, "pattern:", 8))
        return ls_word_names_parameter(word, NULL, name);
    for (const char *end = name; end; end = strchr(end + 1, '.'))
        if (end > name && snprintf(path, sizeof path, "%.*s", (int)(end - name), name) < (int)sizeof path &&
            ls_path_matches(word, path))
            return true;
    return ls_path_matches(word, name);
}

bool ls_words_freeze(const char *freeze, const char *name)
{
    char word[256];
    bool frozen = false;
    for (int used; freeze && sscanf(freeze, "%255s%n", word, &used) == 1; freeze += used)
        if (word_matches(word + (*word == '!'), name))
            frozen = *word != '!';
    return frozen;
}

/* Whether slot i has the codes of a weight of 4 bits, whose other parts follow it. */
static bool has_codes(const ls_units *u, int i)
{
    return i + 1 < u->n_slots && u->slots[i].type.dtype == LS_U8 && ls_nf4_part(u->slots[i + 1].name) &&
           !ls_nf4_part(u->slots[i].name);
}

ls_status ls_units_check_codes(const ls_units *u, const char *freeze)
{
    for (int i = 0; i < u->n_slots; i++)
        if (has_codes(u, i) && !ls_words_freeze(freeze, u->slots[i].name))
            return ls_fail(LS_E_UNSUPPORTED,
                           "parameter %s has 4 bits a number (base nf4) and cannot be trained: freeze it, or "
                           "use lora",
                           u->slots[i].name);
    return LS_OK;
}

static ls_status freeze_slots(ls_units *u, const char *freeze)
{
    int left = 0;
    char word[256];
    for (int i = 0; i < u->n_slots; i++) {
        const char *name = u->slots[i].name;
        u->slots[i].frozen = has_codes(u, i) || ls_nf4_part(name) || ls_words_freeze(freeze, name);
        left += !u->slots[i].frozen;
    }
    for (int used; freeze && sscanf(freeze, "%255s%n", word, &used) == 1; freeze += used) {
        bool found = false;
        for (int i = 0; i < u->n_slots && !found; i++)
            found = word_matches(word + (*word == '!'), u->slots[i].name);
        if (!found)
            return ls_fail_field(LS_E_USAGE, "freeze",
                                 "%s: the model has no parameter or module of that name (lockstep "
                                 "inspect RECIPE lists them)",
                                 word);
    }
    return left ? LS_OK
                : ls_fail_field(LS_E_USAGE, "freeze",
                                "every parameter is frozen, so there is nothing to train");
}

/* Trained parameters have one type, in which optimizers compute. Frozen ones have any type of numbers. */
static ls_status master_type(ls_units *u)
{
    const ls_slot *first = NULL;
    for (int i = 0; i < u->n_slots; i++) {
        const ls_slot *s = &u->slots[i];
        first = first || s->frozen ? first : s;
        if (!s->frozen && s->type.dtype != LS_F32 && s->type.dtype != LS_F64)
            return ls_fail(
                LS_E_UNSUPPORTED,
                "parameter %s is %s: trained parameters are stored as f32 (f64 on device ref), and "
                "param says the type to compute in; or freeze it",
                s->name, ls_dtype_name(s->type.dtype));
        if (!s->frozen && s->type.dtype != first->type.dtype)
            return ls_fail(LS_E_UNSUPPORTED,
                           "parameter %s is %s, and %s is %s: trained parameters have one type", s->name,
                           ls_dtype_name(s->type.dtype), first->name, ls_dtype_name(first->type.dtype));
    }
    u->dtype = first->type.dtype;
    return LS_OK;
}

bool ls_param_keeps_type(const char *name, ls_dtype type)
{
    return !ls_dtype_is_float(type) || ls_nf4_part(name);
}

/* Frozen parameters rest in the type that they are used in: no update adds small changes to them, so nothing
 * reads the digits beyond that type. They take less memory, and no micro-batch casts them. */
static void narrow_frozen(ls_units *u, const ls_node *const *params)
{
    for (int i = 0; i < u->n_slots; i++) {
        ls_slot *s = &u->slots[i];
        const ls_dtype used = ls_policy_of(&u->policies, params[i]->scope)->param;
        if (s->frozen && !ls_param_keeps_type(s->name, s->type.dtype) &&
            ls_dtype_size(used) < ls_dtype_size(s->type.dtype))
            s->type.dtype = s->whole.dtype = used;
    }
}

/* ---- positions in units */

typedef struct layout {
    ls_units *u;
    const ls_scope **scope;  /* [units]: its scope; NULL for the root and for buckets */
    int *bucket;             /* [units]: its bucket; 0: none */
    const ls_policy **types; /* [slots] */
} layout;

/* The unit for a parameter with this slot's type, in a scope or in a bucket (counted from 1; 0: none). It is
 * added if it is new. */
static int unit_of(layout *l, const char *name, const ls_scope *scope, int bucket, int slot_number)
{
    ls_units *u = l->u;
    const ls_slot *slot = &u->slots[slot_number];
    const ls_policy *types = l->types[slot_number], *model = &u->policies.all[0];
    char full[700];
    const ls_dtype param = ls_param_keeps_type(slot->name, slot->type.dtype) ? slot->type.dtype
                                                                             : types->param;
    const bool shown = param == types->param && param != model->param;
    const bool other = slot->type.dtype != u->dtype;
    const unsigned sharded_by = ls_sharded_axes(&slot->sharded);
    char group[32] = "", stage[32] = "";
    if (u->sharding.stages > 1)
        snprintf(stage, sizeof stage, " stage %d", slot->stage);
    if (slot->group)
        snprintf(group, sizeof group, " group %d", slot->group);
    const char *matrices = slot->matrix ? " matrices" : "";
    /* (the parts have one name, so that the programs of all ranks can be compared) */
    snprintf(full, sizeof full, "%s%s%s%s%s%s%s%s%s%s%s%s%s", name, slot->part ? " experts" : "", stage,
             group, matrices, slot->frozen ? " frozen" : "", sharded_by ? " split" : "", other ? " " : "",
             other ? ls_dtype_name(slot->type.dtype) : "", shown ? " in " : "",
             shown ? ls_dtype_name(param) : "", types->reduce != model->reduce ? " reduced in " : "",
             types->reduce != model->reduce ? ls_dtype_name(types->reduce) : "");
    for (int i = 0; i < u->n; i++)
        if (l->scope[i] == scope && l->bucket[i] == bucket && u->units[i].dtype == slot->type.dtype &&
            u->units[i].stage == slot->stage && u->units[i].part == slot->part &&
            u->units[i].frozen == slot->frozen && u->units[i].group == slot->group &&
            u->units[i].matrices == slot->matrix && u->units[i].sharded_by == sharded_by &&
            u->units[i].param == param && u->units[i].reduce == types->reduce)
            return i;
    u->units[u->n] = (ls_unit){ .state = ls_arena_strdup(&u->arena, full),
                                .dtype = slot->type.dtype,
                                .param = param,
                                .reduce = types->reduce,
                                .frozen = slot->frozen,
                                .group = slot->group,
                                .matrices = slot->matrix,
                                .root = !scope && !bucket && !slot->frozen && !sharded_by && !slot->part,
                                .sharded_by = sharded_by,
                                .stage = slot->stage,
                                .part = slot->part };
    l->scope[u->n] = scope;
    l->bucket[u->n] = bucket;
    return u->n++;
}

/* Numbers of the model in a slot of this type: of a weight of 4 bits a byte has two, and its scales are none.
 */
static int64_t numbers_of(const ls_units *u, int slot, const ls_type *type)
{
    return ls_nf4_part(u->slots[slot].name) ? 0 : ls_type_count(type) * (has_codes(u, slot) ? 2 : 1);
}

static void layout_put(layout *l, ls_slot *s, int unit)
{
    ls_unit *u = &l->u->units[unit];
    s->unit = unit;
    s->offset = u->elements;
    u->elements += up(ls_type_count(&s->type), 64 / (int64_t)ls_dtype_size(u->dtype));
    u->parameters += numbers_of(l->u, (int)(s - l->u->slots), &s->type);
}

/* ddp: fills buckets in reverse order of declaration, which is about the order in which gradients are made.
 * The first bucket is small, so that its sum starts early (as in PyTorch's reducer). A bucket may exceed its
 * size by one tensor. */
static void fill_buckets(layout *l, int64_t bytes, int n_groups, int part)
{
    const int64_t first = 1 << 20, size = (int64_t)ls_dtype_size(l->u->dtype);
    char name[32];
    for (int k = 0; k < (n_groups + 1) << (LS_MESH_AXES + 1); k++) {
        const unsigned sharded_by = (unsigned)k % (1U << LS_MESH_AXES);
        const int group = k >> (LS_MESH_AXES + 1);
        const bool matrix = k >> LS_MESH_AXES & 1;
        int64_t limit = first < bytes ? first : bytes, used = 0;
        int bucket = 0;
        for (int i = l->u->n_slots - 1; i >= 0; i--) {
            const ls_slot *s = &l->u->slots[i];
            if (s->frozen || s->part != part || s->group != group || s->matrix != matrix ||
                ls_sharded_axes(&s->sharded) != sharded_by)
                continue;
            if (!bucket || used >= limit) {
                limit = bucket ? bytes : limit;
                used = 0;
                snprintf(name, sizeof name, "unit bucket %d", bucket++);
            }
            layout_put(l, &l->u->slots[i], unit_of(l, name, NULL, bucket, i));
            used += ls_type_count(&s->type) * size;
        }
    }
}

static void fill_all_buckets(layout *l, int64_t bytes, int n_groups)
{
    for (int part = 0; part <= l->u->sharding.parts; part++)
        fill_buckets(l, bytes, n_groups, part);
    for (int i = 0; i < l->u->n_slots; i++)
        if (l->u->slots[i].frozen)
            layout_put(l, &l->u->slots[i], unit_of(l, "unit", NULL, 0, i));
}

static void fill_units(layout *l, const policy *by, const ls_node **params)
{
    for (int k = 0; k < 2 * l->u->n_slots; k++) { /* first trained parameters, then frozen ones */
        const int i = k % l->u->n_slots;
        const bool frozen = k >= l->u->n_slots;
        if (l->u->slots[i].frozen != frozen)
            continue;
        const ls_scope *scope = l->u->sharding.shards > 1 ? scope_of_unit(by, params[i]) : NULL;
        char name[600];
        snprintf(name, sizeof name, "unit %s", scope ? scope->path : "root");
        layout_put(l, &l->u->slots[i], unit_of(l, name, scope, 0, i));
    }
}

/* Unit k of a part, in their order. NULL: it has fewer. */
static const ls_unit *unit_of_part(const ls_units *u, int part, int k)
{
    for (int i = 0; i < u->n; i++)
        if (u->units[i].part == part && k-- == 0)
            return &u->units[i];
    return NULL;
}

/* Ranks of all parts run the same programs, so their units must be alike. */
static ls_status check_parts(const ls_units *u)
{
    for (int part = 2; part <= u->sharding.parts; part++)
        for (int k = 0;; k++) {
            const ls_unit *a = unit_of_part(u, 1, k), *b = unit_of_part(u, part, k);
            if (!a && !b)
                break;
            if (!a || !b || strcmp(a->state, b->state) || a->elements != b->elements)
                return ls_fail_field(
                    LS_E_USAGE, "mesh",
                    "the experts of different ranks are not alike (%s): freeze, group and type "
                    "all experts of a layer in the same way",
                    a ? a->state : b->state);
        }
    return LS_OK;
}

ls_status ls_units_lay_out(ls_units *u, const ls_graph *g, const ls_parallel *p, const ls_trained *what,
                           const ls_precision *precision)
{
    *u = (ls_units){ .sharding = sharding_of(p, false), .experts = sharding_of(p, true) };
    ls_arena_init(&u->arena);
    for (int i = 0; i < g->n_nodes; i++)
        u->n_slots += g->nodes[i]->op == &ls_op_param;
    if (!u->n_slots)
        return ls_fail(LS_E_ARG, "model \"%s\" has no parameters", g->name);
    u->slots = LS_ARENA_ARRAY(&u->arena, ls_slot, u->n_slots);
    u->units = LS_ARENA_ARRAY(&u->arena, ls_unit, u->n_slots + 1);
    const ls_node **params = LS_ARENA_ARRAY(&u->arena, const ls_node *, u->n_slots);
    LS_TRY(ls_arena_status(&u->arena));
    for (int i = 0, k = 0; i < g->n_nodes; i++) {
        if (g->nodes[i]->op != &ls_op_param)
            continue;
        const ls_source_attrs *a = g->nodes[i]->attrs;
        u->slots[k] = (ls_slot){ .name = ls_arena_strdup(&u->arena, a->name),
                                 .type = a->type,
                                 .whole = a->type,
                                 .sharded = a->sharded,
                                 .parts = 1,
                                 .stage = g->nodes[i]->stage,
                                 .part = (int)a->part,
                                 .init = { (ls_init_kind)a->init, a->init_a, a->init_b } };
        if (p)
            u->slots[k].whole = ls_param_whole(g->nodes[i], &p->mesh, &u->slots[k].parts);
        params[k++] = g->nodes[i];
    }
    LS_TRY(ls_arena_status(&u->arena));
    LS_TRY(freeze_slots(u, what ? what->freeze : NULL));
    LS_TRY(ls_units_group(u, g, params, what));
    LS_TRY(master_type(u));
    ls_precision all = *precision;
    if (u->dtype == LS_F64)
        all.param = all.reduce = LS_F64;
    LS_TRY(ls_policies_make(&u->policies, &u->arena, g, &all));
    narrow_frozen(u, params);
    policy by = { .g = g, .words = p ? p->units : "none" };
    LS_TRY(layout_choose(&by, &u->arena));
    const ls_sharding *s = &u->sharding;
    layout l = { .u = u,
                 .scope = LS_ARENA_ARRAY(&u->arena, const ls_scope *, u->n_slots + 1),
                 .bucket = LS_ARENA_ARRAY(&u->arena, int, u->n_slots + 1),
                 .types = LS_ARENA_ARRAY(&u->arena, const ls_policy *, u->n_slots) };
    LS_TRY(ls_arena_status(&u->arena));
    for (int i = 0; i < u->n_slots; i++)
        l.types[i] = ls_policy_of(&u->policies, params[i]->scope);
    if (s->replicas > 1 && s->shards == 1)
        fill_all_buckets(&l, p->bucket_bytes, what ? what->n_groups : 0);
    else
        fill_units(&l, &by, params);
    for (int i = 0; i < u->n_slots; i++)
        u->parameters += numbers_of(u, i, &u->slots[i].whole);
    for (int i = 0; i < u->n; i++) {
        ls_unit *x = &u->units[i];
        s = ls_unit_sharding(u, i);
        const size_t used = ls_dtype_size(x->param), stored = ls_dtype_size(x->dtype),
                     narrow = used < stored ? used : stored;
        if (s->shards > 1)
            x->elements = up(x->elements, 64 / (int64_t)narrow * s->shards);
        x->slice = x->elements / s->shards;
        x->weights = precision->weights && !x->frozen && x->param != x->dtype && !s->offload &&
                     s->shards == 1 && (s->replicas == 1 || !s->each);
        u->elements += x->elements;
        u->slice += x->slice;
        u->trained += !x->frozen;
    }
    LS_TRY(check_parts(u));
    return ls_arena_status(&u->arena);
}
