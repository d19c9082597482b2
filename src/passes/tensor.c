/* tensor.c - tensor parallelism (Shoeybi et al. 2019) as a rewrite of the forward graph: parameters become this rank's blocks, shape rules run again, and
 * two identities with the right gradients stand where activations enter and leave what is split (docs/ranks.md). */
#define LS_NO_CALL_SITES /* nodes made here keep the model's line */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "graph/rewrite.h"
#include "ops/rules.h"
#include "passes.h"

enum { WHOLE, COLUMNS, ROWS };

/* The projections of decoders, by Hugging Face's names. */
static const char AUTO[] = "colwise:q_proj colwise:k_proj colwise:v_proj colwise:gate_proj colwise:up_proj rowwise:o_proj rowwise:down_proj";

typedef struct job {
    ls_rewrite r;
    const ls_parallel *p;
    const char *rules;
    int ranks, position;
    int *kind;          /* per old value: of a parameter, how it is split */
    bool *split;        /* per old value: of an activation, whether its last dimension is */
    ls_value *entered;  /* per old value: its copy for the axis */
    int n_split;        /* parameters */
} job;

/* The last names of module `path` (what stands before the parameter's own) are those of `rule`. */
static bool names(const char *rule, size_t n, const char *path)
{
    const char *dot = strrchr(path, '.');
    const size_t m = dot ? (size_t)(dot - path) : 0;
    return m >= n && !strncmp(path + m - n, rule, n) && (m == n || path[m - n - 1] == '.');
}

static int rule_of(const job *j, const char *parameter)
{
    for (const char *w = j->rules; *w; w += *w == ' ') {
        const size_t n = strcspn(w, " ");
        if (n > 8 && names(w + 8, n - 8, parameter)) /* "colwise:", "rowwise:" */
            return *w == 'c' ? COLUMNS : ROWS;
        w += n;
    }
    return WHOLE;
}

static ls_status split_param(job *j, const ls_node *n)
{
    ls_source_attrs a = *(const ls_source_attrs *)n->attrs;
    int kind = rule_of(j, a.name);
    if (kind == ROWS && a.type.ndim == 1)
        kind = WHOLE; /* a bias is added to the sum */
    if (kind != WHOLE) {
        const int dim = kind == ROWS;
        if (a.type.ndim > 2 || a.type.dims[dim] % j->ranks)
            return ls_fail(LS_E_USAGE, "parallel.mesh: dimension %d of parameter %s has size %lld, which the %d ranks of axis tp do not divide", dim, a.name,
                           (long long)a.type.dims[dim], j->ranks);
        a.split = (ls_tp_split){ dim, j->position, j->ranks };
        a.type.dims[dim] /= j->ranks;
        j->n_split++;
    }
    j->kind[n->out[0].id] = kind;
    ls_rewrite_copy_with(&j->r, n, NULL, &a);
    return LS_OK;
}

/* The same value on every rank of the axis, for layers that each use a part of: its gradient is the sum of what the parts give. */
static ls_value enter(job *j, ls_value old)
{
    ls_value *copy = &j->entered[old.id];
    const ls_value v = ls_rewrite_value(&j->r, old);
    if (!ls_present(*copy))
        *copy = ls_replicate(j->r.to, v, &(ls_replicate_attrs){ .group = "tp", .unit = j->r.to->scope->path, .ranks = j->ranks,
                                                                .via = ls_value_type(j->r.to, v).dtype == LS_F64 ? LS_F64 : LS_F32 });
    return *copy;
}

static ls_value leave(job *j, ls_value part)
{
    const ls_dtype t = ls_value_type(j->r.to, part).dtype;
    return ls_all_reduce(j->r.to, part, &(ls_reduce_attrs){ .group = "tp", .unit = j->r.to->scope->path, .ranks = j->ranks, .to = t, .via = t == LS_F64 ? LS_F64 : LS_F32,
                                                            .how = LS_HOW_SHARED });
}

static ls_status refuse(const ls_node *n, const char *why)
{
    return ls_fail(LS_E_USAGE, "parallel.tensor: %s in %s %s (%s:%d)", n->op->name, n->scope->path[0] ? n->scope->path : "the root", why, n->file ? n->file : "?", n->line);
}

static ls_status linear(job *j, const ls_node *n)
{
    const int kind = j->kind[n->in[1].id];
    const bool split = j->split[n->in[0].id];
    ls_value in[8];
    LS_CHECK(n->n_in <= 8, "linear with %d operands", n->n_in);
    if (split != (kind == ROWS))
        return refuse(n, split ? "takes a value that is split over axis tp, and is not split by rows" : "is split by rows, but what it takes is whole on every rank");
    for (int k = 0; k < n->n_in; k++)
        in[k] = ls_rewrite_value(&j->r, n->in[k]);
    if (kind == COLUMNS) {
        in[0] = enter(j, n->in[0]);
        j->split[n->out[0].id] = true;
    }
    if (kind != ROWS) {
        ls_rewrite_copy_with(&j->r, n, in, n->attrs);
        return LS_OK;
    }
    ls_value y = leave(j, ls_matmul_wt(j->r.to, in[0], in[1], LS_NONE));
    j->r.map[n->out[0].id] = n->n_in > 2 && ls_present(in[2]) ? ls_add(j->r.to, y, in[2]) : y;
    return LS_OK;
}

/* What works on each column, or each head, for itself. */
static bool takes_columns(const ls_node *n)
{
    return (n->op->flags & LS_OP_ELEMENTWISE) || n->op == &ls_op_rope || n->op == &ls_op_attention || n->op == &ls_op_cast || n->op == &ls_op_dropout;
}

/* Each rank drops the elements of its columns that one rank would drop of all. */
static ls_status split_dropout(job *j, const ls_node *n)
{
    ls_dropout_attrs a = *(const ls_dropout_attrs *)n->attrs;
    const ls_type t = ls_value_type(j->r.to, ls_rewrite_value(&j->r, n->in[0]));
    if (a.extent)
        return refuse(n, "takes a value that is split over axis tp, and of which it has only a part");
    a.dim = t.ndim - 1;
    a.start = j->position * t.dims[a.dim];
    a.extent = j->ranks * t.dims[a.dim];
    ls_value in[] = { ls_rewrite_value(&j->r, n->in[0]), ls_rewrite_value(&j->r, n->in[1]) };
    ls_rewrite_copy_with(&j->r, n, in, &a);
    j->split[n->out[0].id] = true;
    return LS_OK;
}

static ls_status other(job *j, const ls_node *n)
{
    int split = 0, whole = 0;
    for (int k = 0; k < n->n_in; k++)
        if (ls_present(n->in[k]) && j->kind[n->in[k].id] != WHOLE)
            return refuse(n, "takes a parameter that is split, and is no linear layer");
    for (int k = 0; k < n->n_in; k++)
        if (ls_present(n->in[k]))
            *(j->split[n->in[k].id] ? &split : &whole) += ls_dtype_is_float(ls_type_of(j->r.from, n->in[k])->dtype);
    if (split && !takes_columns(n))
        return refuse(n, "cannot take a value that is split over axis tp");
    if (split && whole)
        return refuse(n, "takes one value that is split over axis tp, and one that is whole");
    for (int k = 0; k < n->n_in && split; k++) { /* before the shape rule of the op says it in other words */
        const int64_t head = n->op == &ls_op_attention ? ((const ls_attention_attrs *)n->attrs)->head_dim : n->op == &ls_op_rope ? ((const ls_rope_attrs *)n->attrs)->head_dim : 1;
        const ls_type t = ls_value_type(j->r.to, ls_rewrite_value(&j->r, n->in[k]));
        if (j->split[n->in[k].id] && t.dims[t.ndim - 1] % head)
            return ls_fail(LS_E_USAGE, "parallel.mesh: %s has %lld heads, which the %d ranks of axis tp do not divide", n->scope->path,
                           (long long)(t.dims[t.ndim - 1] * j->ranks / head), j->ranks);
    }
    if (split && n->op == &ls_op_dropout)
        return split_dropout(j, n);
    ls_rewrite_copy(&j->r, n);
    for (int k = 0; k < n->n_out && split; k++)
        j->split[n->out[k].id] = true;
    return LS_OK;
}

static ls_status node(job *j, const ls_node *n)
{
    ls_rewrite_like(&j->r, n);
    return n->op == &ls_op_param ? split_param(j, n) : n->op == &ls_op_linear ? linear(j, n) : other(j, n);
}

static ls_status rewrite(job *j, ls_graph **gp)
{
    const ls_graph *g = *gp;
    ls_arena *arena = &j->r.to->arena;
    j->kind = LS_ARENA_ARRAY(arena, int, g->n_vals + 1);
    j->split = LS_ARENA_ARRAY(arena, bool, g->n_vals + 1);
    j->entered = LS_ARENA_ARRAY(arena, ls_value, g->n_vals + 1);
    for (int i = 0; i < g->n_nodes && j->r.to->status == LS_OK; i++)
        LS_TRY(node(j, g->nodes[i]));
    if (!j->n_split)
        return ls_fail(LS_E_USAGE, "parallel.tensor: %s: the model has no such layer to split over the %d ranks of axis tp; give them to dp or shard", j->p->tensor, j->ranks);
    for (int i = 0; i < g->n_outputs; i++)
        if (j->split[g->outputs[i].value.id])
            return ls_fail(LS_E_USAGE, "parallel.tensor: output \"%s\" of the model would be split over axis tp", g->outputs[i].name);
    return LS_OK;
}

ls_status ls_pass_tensor(ls_graph **gp, const ls_parallel *p)
{
    job j = { .p = p, .ranks = ls_mesh_group_size(&p->mesh, "tp"), .position = ls_mesh_position(&p->mesh, p->rank, "tp"),
              .rules = strcmp(p->tensor, "auto") ? p->tensor : AUTO };
    if (j.ranks == 1)
        return LS_OK;
    LS_TRY(ls_rewrite_begin(&j.r, *gp));
    const ls_status s = rewrite(&j, gp);
    if (s == LS_OK)
        return ls_rewrite_end(&j.r, gp);
    ls_rewrite_abort(&j.r);
    return s;
}
