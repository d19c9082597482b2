/* source.c - values that come from outside of a step (input), that live between steps (param, state), and
 * constants (fill). */
#define LS_NO_CALL_SITES
#include <string.h>

#include "base/argument.h"
#include "base/hash.h"
#include "graph/identity.h"
#include "rules.h"

static ls_status infer_source(ls_infer *i)
{
    const ls_source_attrs *a = i->attrs;
    for (int d = 0; d < a->type.ndim; d++)
        LS_RULE_CHECK(i, a->type.dims[d] > 0, "\"%s\" has size %lld in dimension %d", a->name,
                      (long long)a->type.dims[d], d);
    i->out[0] = a->type;
    return LS_OK;
}

static ls_status infer_fill(ls_infer *i)
{
    i->out[0] = ((const ls_fill_attrs *)i->attrs)->type;
    return LS_OK;
}

static const char *const INIT_WORDS[] = {
    [LS_INIT_ZERO] = "zero",     [LS_INIT_ONE] = "one",         [LS_INIT_CONST] = "const",
    [LS_INIT_NORMAL] = "normal", [LS_INIT_UNIFORM] = "uniform", [LS_INIT_TRUNC_NORMAL] = "trunc_normal",
};

static const char *const WHAT_WORDS[] = {
    [LS_IS_NAMED] = "named",
    [LS_IS_UNIT] = "unit",
    [LS_IS_WEIGHTS] = "weights",
    [LS_IS_MOMENT] = "moment",
    [LS_IS_GRADIENT] = "gradient",
    [LS_IS_GATHERED] = "gathered",
    [LS_IS_STEP] = "step",
    [LS_IS_RATE] = "rate",
    [LS_IS_LOSS_SCALE] = "loss_scale",
    [LS_IS_GOOD_STEPS] = "good_steps",
    [LS_IS_GRAD_NORM] = "grad_norm",
    [LS_IS_APPLIED] = "applied",
    [LS_IS_LOSS] = "loss",
    [LS_IS_LARGEST_LOSS] = "largest_loss",
    [LS_IS_DIVISOR] = "divisor",
    [LS_IS_ROWS] = "rows",
    [LS_IS_TARGETS] = "targets",
    [LS_IS_PREDICTED] = "predicted",
    [LS_IS_PROBABILITY] = "probability",
    [LS_IS_REAL] = "real",
    [LS_IS_TRACK] = "track",
    [LS_IS_PLACES] = "places",
    [LS_IS_SEED] = "seed",
    [LS_IS_EVAL_INPUT] = "eval_input",
};

static const ls_attr_field SOURCE_FIELDS[] = {
    { "name", LS_FIELD_TEXT, offsetof(ls_source_attrs, name), NULL },
    { "type", LS_FIELD_TYPE, offsetof(ls_source_attrs, type), NULL },
    { "init", LS_FIELD_I64, offsetof(ls_source_attrs, init), INIT_WORDS },
    { "a", LS_FIELD_F64, offsetof(ls_source_attrs, init_a), NULL },
    { "b", LS_FIELD_F64, offsetof(ls_source_attrs, init_b), NULL },
    { "is", LS_FIELD_I64, offsetof(ls_source_attrs, is.what), WHAT_WORDS },
    { "unit", LS_FIELD_I64, offsetof(ls_source_attrs, is.unit), NULL },
    { "moment", LS_FIELD_I64, offsetof(ls_source_attrs, is.moment), NULL },
    { 0 },
};
static const ls_attr_field FILL_FIELDS[] = {
    { "type", LS_FIELD_TYPE, offsetof(ls_fill_attrs, type), NULL },
    { "value", LS_FIELD_F64, offsetof(ls_fill_attrs, value), NULL },
    { 0 },
};

const ls_op ls_op_input = {
    .name = "input",
    .n_out = 1,
    .flags = LS_OP_SOURCE,
    .attrs_size = sizeof(ls_source_attrs),
    .fields = SOURCE_FIELDS,
    .infer = infer_source,
    .summary = "Holds what the caller puts in before each run.",
};
const ls_op ls_op_param = {
    .name = "param",
    .n_out = 1,
    .flags = LS_OP_SOURCE | LS_OP_AT /* a rank's block of a packed parameter */,
    .attrs_size = sizeof(ls_source_attrs),
    .fields = SOURCE_FIELDS,
    .infer = infer_source,
    .summary = "Holds a trained tensor, named as PyTorch names it.",
};
const ls_op ls_op_state = {
    .name = "state",
    .n_out = 1,
    .flags = LS_OP_SOURCE,
    .attrs_size = sizeof(ls_source_attrs),
    .fields = SOURCE_FIELDS,
    .infer = infer_source,
    .summary = "Holds a value that lives between steps and is not differentiated.",
};
const ls_op ls_op_buffer = {
    .name = "buffer",
    .n_out = 1,
    .flags = LS_OP_SOURCE,
    .attrs_size = sizeof(ls_source_attrs),
    .fields = SOURCE_FIELDS,
    .infer = infer_source,
    .summary = "Holds state of the model that is saved with its weights and not trained.",
};
const ls_op ls_op_fill = {
    .name = "fill",
    .n_out = 1,
    .attrs_size = sizeof(ls_fill_attrs),
    .fields = FILL_FIELDS,
    .infer = infer_fill,
    .flags = LS_OP_NO_GRAD,
    .summary = "Fills a tensor with a constant.",
};

static uint64_t source_hash(ls_identity is, const char *name)
{
    const int64_t numbers[] = { (int64_t)is.what, is.unit, is.moment };
    return is.what == LS_IS_NAMED ? ls_hash64(name, strlen(name)) : ls_hash64(numbers, sizeof numbers);
}

/* The place in g->sources of the source with this identity, or the free one where it would be. */
static int *source_place(const ls_graph *g, ls_identity is, const char *name)
{
    const uint64_t mask = (uint64_t)g->cap_sources - 1;
    for (uint64_t i = source_hash(is, name) & mask;; i = (i + 1) & mask) {
        const ls_node *n = g->sources[i] ? g->nodes[g->sources[i] - 1] : NULL;
        if (!n || !ls_identity_order(ls_source_is(n), ((const ls_source_attrs *)n->attrs)->name, is, name))
            return &g->sources[i];
    }
}

/* Brings the index up to the last node: a model may have tens of thousands of parameters. NULL: no memory. */
static int *index_sources(ls_graph *g)
{
    if (2 * (g->n_sources + g->n_nodes - g->n_indexed) >= g->cap_sources) {
        int cap = 64;
        while (cap < 4 * g->n_nodes)
            cap *= 2;
        g->sources = LS_ARENA_ARRAY(&g->arena, int, cap);
        g->cap_sources = g->sources ? cap : 0;
        g->n_indexed = g->n_sources = 0;
    }
    for (; g->sources && g->n_indexed < g->n_nodes; g->n_indexed++) {
        const ls_node *n = g->nodes[g->n_indexed];
        if (!(n->op->flags & LS_OP_SOURCE))
            continue;
        *source_place(g, ls_source_is(n), ((const ls_source_attrs *)n->attrs)->name) = g->n_indexed + 1;
        g->n_sources++;
    }
    return g->sources;
}

static ls_value source(ls_graph *g, const ls_op *op, ls_identity is, const char *name, ls_type type,
                       ls_init init)
{
    if (g->status != LS_OK)
        return (ls_value){ .id = -1 };
    LS_BUILD_ENUM(g, ls_dtype, type.dtype, LS_DTYPE_COUNT - 1, ((ls_value){ .id = -1 }));
    LS_BUILD_ENUM(g, ls_init_kind, init.kind, LS_INIT_TRUNC_NORMAL, ((ls_value){ .id = -1 }));
    if (!index_sources(g)) {
        ls_graph_room(g);
        return (ls_value){ .id = -1 };
    }
    const int taken = *source_place(g, is, name);
    if (taken) {
        const ls_node *n = g->nodes[taken - 1];
        if (g->shares && op == &ls_op_param && n->op == op && ls_type_equal(ls_type_of(g, n->out[0]), &type))
            return n->out[0];
        ls_graph_error(g, LS_E_ARG, "the name \"%s\" is taken by the %s of %s:%d", name, n->op->name,
                       n->file ? n->file : "?", n->line);
        return (ls_value){ .id = -1 };
    }
    ls_source_attrs a = {
        .name = name, .type = type, .init = (int64_t)init.kind, .init_a = init.a, .init_b = init.b, .is = is
    };
    return ls_graph_apply(g, op, 0, NULL, &a);
}

ls_value ls_input(ls_graph *g, const char *name, ls_type type)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    LS_BUILD_ARG(g, name, ((ls_value){ .id = -1 }));
    return source(g, &ls_op_input, (ls_identity){ 0 }, name, type, (ls_init){ 0 });
}

ls_value ls_param(ls_graph *g, const char *name, ls_type type, ls_init init)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    LS_BUILD_ARG(g, name, ((ls_value){ .id = -1 }));
    const char *path = g->scope->path;
    return source(g, &ls_op_param, (ls_identity){ 0 },
                  path[0] ? ls_arena_printf(&g->arena, "%s.%s", path, name) : name, type, init);
}

/* A buffer is a state whose name is a scope path, like a parameter's. */
ls_value ls_buffer(ls_graph *g, const char *name, ls_type type, ls_init init)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    LS_BUILD_ARG(g, name, ((ls_value){ .id = -1 }));
    const char *path = g->scope->path;
    return source(g, &ls_op_buffer, (ls_identity){ 0 },
                  path[0] ? ls_arena_printf(&g->arena, "%s.%s", path, name) : name, type, init);
}

ls_value ls_state(ls_graph *g, const char *name, ls_type type, ls_init init)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    LS_BUILD_ARG(g, name, ((ls_value){ .id = -1 }));
    return source(g, &ls_op_state, (ls_identity){ 0 }, name, type, init);
}

ls_value ls_input_of(ls_graph *g, ls_identity is, const char *unit, ls_type type)
{
    return source(g, &ls_op_input, is, ls_identity_name(&g->arena, is, unit), type, (ls_init){ 0 });
}

ls_value ls_state_of(ls_graph *g, ls_identity is, const char *unit, ls_type type, ls_init init)
{
    return source(g, &ls_op_state, is, ls_identity_name(&g->arena, is, unit), type, init);
}

ls_value ls_fill(ls_graph *g, ls_type type, double value)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    LS_BUILD_ENUM(g, ls_dtype, type.dtype, LS_DTYPE_COUNT - 1, ((ls_value){ .id = -1 }));
    return ls_graph_apply(g, &ls_op_fill, 0, NULL, &(ls_fill_attrs){ .type = type, .value = value });
}
