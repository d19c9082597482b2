/* tensor.c - tensor parallelism (Shoeybi et al. 2019) as a rewrite of the forward graph: parameters become this rank's blocks, shape rules run again, and
 * two identities with the right gradients stand where activations enter and leave what is split (docs/ranks.md). */
#define LS_NO_CALL_SITES /* nodes made here keep the model's line */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "ops/rules.h"
#include "tensor.h"

/* `auto`: the projections of decoders, by Hugging Face's names; and, where the ranks divide it, what has a row for each word of the vocabulary. */
static const char LAYERS[] = "colwise:q_proj colwise:k_proj colwise:v_proj colwise:gate_proj colwise:up_proj rowwise:o_proj rowwise:down_proj";
static const char VOCABULARY[] = "rowwise:embed_tokens colwise:lm_head";

typedef ls_tensor_job job;

/* The last names of module `path` (what stands before the parameter's own) are those of `rule`. */
static bool names(const char *rule, size_t n, const char *path)
{
    const char *dot = strrchr(path, '.');
    const size_t m = dot ? (size_t)(dot - path) : 0;
    return m >= n && !strncmp(path + m - n, rule, n) && (m == n || path[m - n - 1] == '.');
}

static int rule_of(const char *rules, const char *parameter)
{
    for (const char *w = rules; *w; w += *w == ' ') {
        const size_t n = strcspn(w, " ");
        if (n > 8 && names(w + 8, n - 8, parameter)) /* "colwise:", "rowwise:" */
            return *w == 'c' ? LS_COLUMNS : LS_ROWS;
        w += n;
    }
    return LS_WHOLE;
}

static ls_status split_param(job *j, const ls_node *n)
{
    ls_source_attrs a = *(const ls_source_attrs *)n->attrs;
    int kind = rule_of(j->rules, a.name);
    if (kind == LS_WHOLE && a.type.ndim > 0 && a.type.dims[0] % j->ranks == 0)
        kind = rule_of(j->rules_where_divided, a.name);
    if (kind == LS_ROWS && a.type.ndim == 1)
        kind = LS_WHOLE; /* a bias is added to the sum */
    if (j->table[n->out[0].id] && kind == LS_COLUMNS)
        return ls_fail(LS_E_USAGE, "parallel.tensor: %s is the table of an embedding, which is split by its rows: say rowwise", a.name);
    if (j->table[n->out[0].id] && kind == LS_ROWS)
        kind = LS_COLUMNS; /* of the logits, where it is the head's weight, too */
    if (kind != LS_WHOLE) {
        const int dim = kind == LS_ROWS;
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

const char *ls_tensor_place(const job *j, const ls_node *n) { return j->r.to->scope->path[0] ? j->r.to->scope->path : n->op->name; }

ls_value ls_tensor_enter(job *j, ls_value old)
{
    ls_value *copy = &j->entered[old.id];
    const ls_value v = ls_rewrite_value(&j->r, old);
    if (!ls_present(*copy))
        *copy = ls_replicate(j->r.to, v, &(ls_replicate_attrs){ .group = "tp", .unit = j->r.to->scope->path, .ranks = j->ranks,
                                                                .via = ls_value_type(j->r.to, v).dtype == LS_F64 ? LS_F64 : LS_F32 });
    return *copy;
}

void ls_tensor_leave(job *j, ls_value old, ls_value part)
{
    const ls_dtype t = ls_value_type(j->r.to, part).dtype;
    j->r.map[old.id] = ls_all_reduce(j->r.to, part, &(ls_reduce_attrs){ .group = "tp", .unit = ls_tensor_place(j, ls_node_of(j->r.from, old)), .ranks = j->ranks, .to = t,
                                                                        .via = t == LS_F64 ? LS_F64 : LS_F32, .how = LS_HOW_SHARED });
}

ls_status ls_tensor_refuse(const ls_node *n, const char *why)
{
    return ls_fail(LS_E_USAGE, "parallel.tensor: %s in %s %s (%s:%d)", n->op->name, n->scope->path[0] ? n->scope->path : "the root", why, n->file ? n->file : "?", n->line);
}

static ls_status linear(job *j, const ls_node *n)
{
    const int kind = j->kind[n->in[1].id];
    const bool split = j->layout[n->in[0].id];
    ls_value in[8];
    LS_CHECK(n->n_in <= 8, "linear with %d operands", n->n_in);
    if (split != (kind == LS_ROWS))
        return ls_tensor_refuse(n, split ? "takes a value that is split over axis tp, and is not split by rows" : "is split by rows, but what it takes is whole on every rank");
    for (int k = 0; k < n->n_in; k++)
        in[k] = ls_rewrite_value(&j->r, n->in[k]);
    if (kind == LS_COLUMNS) {
        in[0] = ls_tensor_enter(j, n->in[0]);
        j->layout[n->out[0].id] = LS_COLUMNS;
    }
    if (kind != LS_ROWS) {
        ls_rewrite_copy_with(&j->r, n, in, n->attrs);
        return LS_OK;
    }
    ls_tensor_leave(j, n->out[0], ls_matmul_wt(j->r.to, in[0], in[1], LS_NONE));
    if (n->n_in > 2 && ls_present(in[2]))
        j->r.map[n->out[0].id] = ls_add(j->r.to, ls_rewrite_value(&j->r, n->out[0]), in[2]);
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
        if (ls_present(n->in[k]) && j->kind[n->in[k].id] != LS_WHOLE)
            return ls_tensor_refuse(n, "takes a parameter that is split, and is neither a linear layer nor an embedding");
    for (int k = 0; k < n->n_in; k++)
        if (ls_present(n->in[k]))
            *(j->layout[n->in[k].id] ? &split : &whole) += ls_dtype_is_float(ls_type_of(j->r.from, n->in[k])->dtype);
    if (split && !takes_columns(n))
        return ls_tensor_refuse(n, "cannot take a value that is split over axis tp");
    if (split && whole)
        return ls_tensor_refuse(n, "takes one value that is split over axis tp, and one that is whole");
    for (int k = 0; k < n->n_in && split; k++) { /* before the shape rule of the op says it in other words */
        const int64_t head = n->op == &ls_op_attention ? ((const ls_attention_attrs *)n->attrs)->head_dim : n->op == &ls_op_rope ? ((const ls_rope_attrs *)n->attrs)->head_dim : 1;
        const ls_type t = ls_value_type(j->r.to, ls_rewrite_value(&j->r, n->in[k]));
        if (j->layout[n->in[k].id] && t.dims[t.ndim - 1] % head)
            return ls_fail(LS_E_USAGE, "parallel.mesh: %s has %lld heads, which the %d ranks of axis tp do not divide", n->scope->path,
                           (long long)(t.dims[t.ndim - 1] * j->ranks / head), j->ranks);
    }
    if (split && n->op == &ls_op_dropout)
        return split_dropout(j, n);
    ls_rewrite_copy(&j->r, n);
    for (int k = 0; k < n->n_out && split; k++)
        j->layout[n->out[k].id] = LS_COLUMNS;
    return LS_OK;
}

static ls_status node(job *j, const ls_node *n)
{
    ls_rewrite_like(&j->r, n);
    if (n->op == &ls_op_param)
        return split_param(j, n);
    if (n->op == &ls_op_linear)
        return linear(j, n);
    if (n->op == &ls_op_embedding)
        return ls_tensor_embedding(j, n);
    if (n->op == &ls_op_cross_entropy && j->layout[n->in[0].id] == LS_COLUMNS)
        return ls_tensor_cross_entropy(j, n);
    if (n->op == &ls_op_argmax && j->layout[n->in[0].id] == LS_COLUMNS)
        return ls_tensor_argmax(j, n);
    return other(j, n);
}

static ls_status rewrite(job *j, ls_graph **gp)
{
    const ls_graph *g = *gp;
    ls_arena *arena = &j->r.to->arena;
    j->kind = LS_ARENA_ARRAY(arena, int, g->n_vals + 1);
    j->layout = LS_ARENA_ARRAY(arena, int, g->n_vals + 1);
    j->table = LS_ARENA_ARRAY(arena, bool, g->n_vals + 1);
    j->entered = LS_ARENA_ARRAY(arena, ls_value, g->n_vals + 1);
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == &ls_op_embedding)
            j->table[g->nodes[i]->in[1].id] = true;
    for (int i = 0; i < g->n_nodes && j->r.to->status == LS_OK; i++)
        LS_TRY(node(j, g->nodes[i]));
    if (!j->n_split)
        return ls_fail(LS_E_USAGE, "parallel.tensor: %s: the model has no such layer to split over the %d ranks of axis tp; give them to dp or shard", j->p->tensor, j->ranks);
    for (int i = 0; i < g->n_outputs; i++)
        if (j->layout[g->outputs[i].value.id])
            return ls_fail(LS_E_USAGE, "parallel.tensor: output \"%s\" of the model would be split over axis tp", g->outputs[i].name);
    return LS_OK;
}

ls_status ls_pass_tensor(ls_graph **gp, const ls_parallel *p)
{
    const bool automatic = !strcmp(p->tensor, "auto");
    job j = { .p = p, .ranks = ls_mesh_group_size(&p->mesh, "tp"), .position = ls_mesh_position(&p->mesh, p->rank, "tp"),
              .rules = automatic ? LAYERS : p->tensor, .rules_where_divided = automatic ? VOCABULARY : "" };
    if (j.ranks == 1)
        return LS_OK;
    LS_TRY(ls_rewrite_begin(&j.r, *gp));
    const ls_status s = rewrite(&j, gp);
    if (s == LS_OK)
        return ls_rewrite_end(&j.r, gp);
    ls_rewrite_abort(&j.r);
    return s;
}
