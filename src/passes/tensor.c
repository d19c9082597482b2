/* tensor.c - tensor parallelism (Shoeybi et al. 2019) as a rewrite of the forward graph: parameters become this rank's blocks, shape rules run again, and
 * two identities with the right gradients stand where activations enter and leave what is split (docs/ranks.md). With parallel.sequence (Korthikanti et al. 2022) these are a gather
 * and a reduce_scatter of tokens. */
#define LS_NO_CALL_SITES /* nodes made here keep the model's line */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/str.h"
#include "ops/rules.h"
#include "tensor.h"

/* `auto`: the projections of decoders, by Hugging Face's names; and, where the ranks divide it, what has a row for each word of the vocabulary. */
static const char LAYERS[] = "colwise:q_proj colwise:k_proj colwise:v_proj colwise:gate_proj colwise:up_proj rowwise:o_proj rowwise:down_proj "
                             "colwise:q colwise:k colwise:v rowwise:o colwise:wi colwise:wi_0 colwise:wi_1 rowwise:wo";
static const char VOCABULARY[] = "rowwise:embed_tokens colwise:lm_head";

typedef ls_tensor_job job;

enum { ATTENTION_BIAS = 3 }; /* operand of attention */

/* The last names of module `path` (what stands before the parameter's own) are those of `rule`. */
static bool names(const char *rule, size_t n, const char *path)
{
    const char *dot = strrchr(path, '.');
    const size_t m = dot ? (size_t)(dot - path) : 0;
    return m >= n && !strncmp(path + m - n, rule, n) && (m == n || path[m - n - 1] == '.');
}

enum { KIND = 8 }; /* bytes of "colwise:" and of "rowwise:" */

static bool word_names(const char *word, const char *parameter)
{
    const size_t n = strcspn(word, " ");
    return n > KIND && names(word + KIND, n - KIND, parameter);
}

static const char *next_word(const char *w)
{
    w += strcspn(w, " ");
    return w + (*w == ' ');
}

/* The first word of `rules` that names the parameter; NULL: none does. */
static const char *word_of(const char *rules, const char *parameter)
{
    for (const char *w = rules; *w; w = next_word(w))
        if (word_names(w, parameter))
            return w;
    return NULL;
}

static int rule_of(const char *rules, const char *parameter)
{
    const char *w = word_of(rules, parameter);
    return !w ? LS_WHOLE : *w == 'c' ? LS_COLUMNS : LS_ROWS;
}

/* Of "layers.0.mlp.fc1.weight" the module's last `parts` names. */
static const char *module_end(ls_arena *a, const char *parameter, int parts)
{
    const char *dot = strrchr(parameter, '.'), *end = dot ? dot : parameter, *from = end;
    while (from > parameter && (from[-1] != '.' || --parts > 0))
        from--;
    return ls_arena_printf(a, "%.*s", (int)(end - from), from);
}

static ls_status useless_word(const ls_graph *g, const char *word)
{
    const int n = (int)strcspn(word, " ");
    ls_arena a;
    ls_arena_init(&a);
    const char **modules = LS_ARENA_ARRAY(&a, const char *, g->n_nodes + 1);
    int found = 0, parts = 1;
    bool taken = false;
    for (int i = 0; i < n; i++)
        parts += word[i] == '.';
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == &ls_op_param) {
            const char *name = ((const ls_source_attrs *)g->nodes[i]->attrs)->name;
            taken |= word_names(word, name);
            modules[found++] = module_end(&a, name, parts);
        }
    const char *near = ls_nearest_name(ls_arena_printf(&a, "%.*s", n - KIND, word + KIND), modules, found);
    ls_status s;
    if (taken)
        s = ls_fail(LS_E_USAGE, "parallel.tensor: %.*s: the words before it name every layer that it does; leave it out", n, word);
    else if (near)
        s = ls_fail(LS_E_USAGE, "parallel.tensor: %.*s: the model has no layer of that name; did you mean %.*s%s?", n, word, KIND, word, near);
    else
        s = ls_fail(LS_E_USAGE, "parallel.tensor: %.*s: the model has no layer of that name (lockstep inspect RECIPE lists them)", n, word);
    ls_arena_release(&a);
    return s;
}

/* Every word splits some layer: one that is wrong on four ranks is wrong on one too. */
static ls_status check_words(const ls_graph *g, const char *rules)
{
    for (const char *w = rules; *w; w = next_word(w)) {
        bool used = false;
        for (int i = 0; i < g->n_nodes && !used; i++)
            used = g->nodes[i]->op == &ls_op_param && word_of(rules, ((const ls_source_attrs *)g->nodes[i]->attrs)->name) == w;
        if (!used)
            return useless_word(g, w);
    }
    return LS_OK;
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

/* What sums over the axis are rounded to: activations are no gradients, whatever precision.reduce says of those. */
static ls_dtype via(const job *j, ls_value v) { return ls_value_type(j->r.to, v).dtype == LS_F64 ? LS_F64 : LS_F32; }

static ls_value flat(const job *j, ls_value v) { return ls_reshape_dims(j->r.to, v, 1, (int64_t[]){ -1 }); }

static ls_value gather_tokens(job *j, ls_value old)
{
    const ls_value v = ls_rewrite_value(&j->r, old);
    const ls_type *whole = ls_type_of(j->r.from, old);
    const ls_gather_attrs a = { .group = "tp", .unit = ls_tensor_place(j, ls_node_of(j->r.from, old)), .ranks = j->ranks, .to = LS_TO_SAME, .via = via(j, v) };
    return ls_reshape_dims(j->r.to, ls_all_gather(j->r.to, flat(j, v), &a), whole->ndim, whole->dims);
}

ls_value ls_tensor_enter(job *j, ls_value old)
{
    ls_value *copy = &j->entered[old.id];
    const ls_value v = ls_rewrite_value(&j->r, old);
    if (!ls_present(*copy))
        *copy = j->layout[old.id] == LS_TOKENS ? gather_tokens(j, old)
                                               : ls_replicate(j->r.to, v, &(ls_replicate_attrs){ .group = "tp", .unit = j->r.to->scope->path, .ranks = j->ranks, .via = via(j, v) });
    return *copy;
}

ls_status ls_tensor_leave(job *j, ls_value old, ls_value part)
{
    const ls_type t = ls_value_type(j->r.to, part);
    const ls_reduce_attrs a = { .group = "tp", .unit = ls_tensor_place(j, ls_node_of(j->r.from, old)), .ranks = j->ranks, .to = j->p->sequence ? LS_TO_SAME : (int64_t)t.dtype,
                                .via = via(j, part), .how = j->p->sequence ? LS_HOW_SUM : LS_HOW_SHARED };
    if (!j->p->sequence) {
        j->r.map[old.id] = ls_all_reduce(j->r.to, part, &a);
        return LS_OK;
    }
    const int64_t features = t.dims[t.ndim - 1], tokens = ls_type_count(&t) / features;
    if (tokens % j->ranks)
        return ls_fail(LS_E_USAGE, "parallel.sequence: a micro-batch has %lld tokens, which the %d ranks of axis tp do not divide", (long long)tokens, j->ranks);
    j->r.map[old.id] = ls_reshape_dims(j->r.to, ls_reduce_scatter(j->r.to, flat(j, part), &a), 2, (int64_t[]){ -1, features });
    j->layout[old.id] = LS_TOKENS;
    return LS_OK;
}

ls_status ls_tensor_refuse(const ls_node *n, const char *why)
{
    return ls_fail(LS_E_USAGE, "parallel.tensor: %s in %s %s (%s:%d)", n->op->name, n->scope->path[0] ? n->scope->path : "the root", why, n->file ? n->file : "?", n->line);
}

static ls_status linear(job *j, const ls_node *n)
{
    const int kind = j->kind[n->in[1].id];
    const int layout = j->layout[n->in[0].id];
    ls_value in[8];
    LS_CHECK(n->n_in <= 8, "linear with %d operands", n->n_in);
    if (layout == LS_TOKENS && kind != LS_COLUMNS)
        return ls_tensor_refuse(n, "takes a value whose tokens are split over axis tp (parallel.sequence), and is not split by columns");
    if (layout != LS_TOKENS && (layout == LS_COLUMNS) != (kind == LS_ROWS))
        return ls_tensor_refuse(n, layout ? "takes a value that is split over axis tp, and is not split by rows" : "is split by rows, but what it takes is whole on every rank");
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
    LS_TRY(ls_tensor_leave(j, n->out[0], ls_matmul_wt(j->r.to, in[0], in[1], LS_NONE)));
    if (n->n_in > 2 && ls_present(in[2]))
        j->r.map[n->out[0].id] = ls_add(j->r.to, ls_rewrite_value(&j->r, n->out[0]), j->p->sequence ? ls_tensor_enter(j, n->in[2]) : in[2]);
    return LS_OK;
}

static bool is_elementwise(const ls_node *n) { return (n->op->flags & LS_OP_ELEMENTWISE) || n->op == &ls_op_cast; }

/* What works on each column, or each head, for itself. */
static bool takes_columns(const ls_node *n) { return is_elementwise(n) || n->op == &ls_op_rope || n->op == &ls_op_attention || n->op == &ls_op_dropout; }

/* Each rank drops the elements of its columns that one rank would drop of all. */
static ls_status split_dropout(job *j, const ls_node *n)
{
    ls_dropout_attrs a = *(const ls_dropout_attrs *)n->attrs;
    const ls_type t = ls_value_type(j->r.to, ls_rewrite_value(&j->r, n->in[0]));
    if (a.extent)
        return ls_tensor_refuse(n, "takes a value that is split over axis tp, and of which it has only a part");
    a.dim = t.ndim - 1;
    a.start = j->position * t.dims[a.dim];
    a.extent = j->ranks * t.dims[a.dim];
    ls_value in[] = { ls_rewrite_value(&j->r, n->in[0]), ls_rewrite_value(&j->r, n->in[1]) };
    ls_rewrite_copy_with(&j->r, n, in, &a);
    j->layout[n->out[0].id] = LS_COLUMNS;
    return LS_OK;
}

/* Of a bias that is the same on every rank, what belongs to this one's heads. */
static ls_value bias_of_heads(job *j, ls_value old)
{
    const ls_type *t = ls_type_of(j->r.from, old);
    const int dim = t->ndim == 4;
    const int64_t heads = t->dims[dim] / j->ranks;
    return ls_slice(j->r.to, ls_tensor_enter(j, old), dim, j->position * heads, heads);
}

/* Attention of this rank's heads. Dropout of a head's probabilities asks for its number. */
static void split_heads(job *j, const ls_node *n)
{
    ls_attention_attrs a = *(const ls_attention_attrs *)n->attrs;
    ls_value in[8];
    for (int k = 0; k < n->n_in; k++)
        in[k] = k == ATTENTION_BIAS && ls_present(n->in[k]) ? bias_of_heads(j, n->in[k]) : ls_rewrite_value(&j->r, n->in[k]);
    a.first_head = j->position * ls_value_type(j->r.to, in[0]).dims[2] / a.head_dim;
    ls_rewrite_copy_with(&j->r, n, in, &a);
}

/* What works on each token for itself. Gains and biases of features are the same on every rank; their gradients are sums over the tokens of all. */
static ls_status tokens(job *j, const ls_node *n)
{
    const ls_type *out = ls_type_of(j->r.from, n->out[0]), *first = ls_type_of(j->r.from, n->in[0]);
    ls_value in[8];
    LS_CHECK(n->n_in <= 8, "%s with %d operands", n->op->name, n->n_in);
    for (int k = 0; k < n->n_out; k++)
        j->layout[n->out[k].id] = LS_TOKENS;
    if (n->op == &ls_op_reshape && first->dims[first->ndim - 1] == out->dims[out->ndim - 1]) {
        j->r.map[n->out[0].id] = ls_rewrite_value(&j->r, n->in[0]); /* the same rows */
        return LS_OK;
    }
    if (!is_elementwise(n) && n->op != &ls_op_rms_norm && n->op != &ls_op_layer_norm)
        return ls_tensor_refuse(n, "cannot take a value whose tokens are split over axis tp (parallel.sequence)");
    for (int k = 0; k < n->n_in; k++) {
        const bool split = j->layout[n->in[k].id] == LS_TOKENS;
        if (ls_present(n->in[k]) && !split && ls_type_of(j->r.from, n->in[k])->ndim > 1)
            return ls_tensor_refuse(n, "takes one value whose tokens are split over axis tp (parallel.sequence), and one that is whole; the table of an embedding must be split too, by its rows");
        in[k] = split || !ls_present(n->in[k]) ? ls_rewrite_value(&j->r, n->in[k]) : ls_tensor_enter(j, n->in[k]);
    }
    ls_rewrite_copy_with(&j->r, n, in, n->attrs);
    return LS_OK;
}

static bool any_tokens(const job *j, const ls_node *n)
{
    for (int k = 0; k < n->n_in; k++)
        if (j->layout[n->in[k].id] == LS_TOKENS)
            return true;
    return false;
}

static ls_status other(job *j, const ls_node *n)
{
    const int bias = n->op == &ls_op_attention ? ATTENTION_BIAS : -1;
    int split = 0, whole = 0;
    for (int k = 0; k < n->n_in; k++)
        if (ls_present(n->in[k]) && j->kind[n->in[k].id] != LS_WHOLE)
            return ls_tensor_refuse(n, "takes a parameter that is split, and is neither a linear layer nor an embedding");
    if (any_tokens(j, n))
        return tokens(j, n);
    for (int k = 0; k < n->n_in; k++)
        if (ls_present(n->in[k]) && k != bias)
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
    if (split && n->op == &ls_op_attention)
        split_heads(j, n);
    else
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
    if (!automatic)
        LS_TRY(check_words(*gp, j.rules));
    if (j.ranks == 1)
        return LS_OK;
    LS_TRY(ls_rewrite_begin(&j.r, *gp));
    const ls_status s = rewrite(&j, gp);
    if (s == LS_OK)
        return ls_rewrite_end(&j.r, gp);
    ls_rewrite_abort(&j.r);
    return s;
}
