/* seeds.c - decides which parameters are split over an axis, and along which dimension: by the option
 * `tensor`, or by the plan that the model declares. Such a plan may also split states and inputs, such as
 * the caches of a text generator: `lastdim:NAME` splits those whose names begin with NAME and a dot by their
 * last dimension. */
#include <stdio.h>
#include <string.h>

#include "base/field.h"
#include "base/nf4.h"
#include "base/str.h"
#include "ops/rules.h"
#include "propagate.h"
#include "placed_node.h"

enum { KIND = 8 }; /* length of "colwise:", "rowwise:" and "lastdim:" */

/* Whether the module path of a parameter ends in the names of `rule`. `path`: the parameter's full name. */
static bool names(const char *rule, size_t n, const char *path)
{
    const char *dot = strrchr(path, '.');
    const size_t m = dot ? (size_t)(dot - path) : 0;
    return m >= n && !strncmp(path + m - n, rule, n) && (m == n || path[m - n - 1] == '.');
}

/* A word of a model's plan may end in `?`: it applies only if the ranks divide the dimension. */
static bool if_divided(const char *word)
{
    const size_t n = strcspn(word, " ");
    return n && word[n - 1] == '?';
}

/* A word for a layer splits its adapter too (nn/lora.h), on the side that it splits of the layer: colwise
 * M.lora_B, rowwise M.lora_A. The small side between them stays whole. */
static bool word_names(const char *word, const char *parameter)
{
    const size_t n = strcspn(word, " ") - if_divided(word);
    const char *adapter = strstr(parameter, *word == 'c' ? ".lora_B.weight" : ".lora_A.weight");
    char layer[512];
    if (n <= KIND)
        return false;
    if (adapter && (size_t)snprintf(layer, sizeof layer, "%.*s.weight", (int)(adapter - parameter),
                                    parameter) < sizeof layer)
        return names(word + KIND, n - KIND, layer);
    return names(word + KIND, n - KIND, parameter);
}

static const char *next_word(const char *w)
{
    w += strcspn(w, " ");
    return w + (*w == ' ');
}

/* The first word that names the parameter; NULL: none. */
static const char *word_of(const char *words, const char *parameter)
{
    for (const char *w = words; *w; w = next_word(w))
        if (*w != 'l' && word_names(w, parameter))
            return w;
    return NULL;
}

/* The word that names a state or an input; NULL: none. */
static const char *source_word(const char *words, const char *source)
{
    for (const char *w = words; *w; w = next_word(w)) {
        const size_t n = strcspn(w, " ") - KIND;
        if (*w == 'l' && !strncmp(source, w + KIND, n) && source[n] == '.')
            return w;
    }
    return NULL;
}

/* The last `parts` names of the module path: of "layers.0.mlp.fc1.weight", with 2, "mlp.fc1". */
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
    LS_TRY(ls_arena_status(&a));
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
        s = ls_fail_field(LS_E_USAGE, "tensor",
                          "%.*s: the words before it name every layer that it does; leave it out", n, word);
    else if (near)
        s = ls_fail_field(LS_E_USAGE, "tensor",
                          "%.*s: the model has no layer of that name; did you mean %.*s%s?", n, word, KIND,
                          word, near);
    else
        s = ls_fail_field(LS_E_USAGE, "tensor",
                          "%.*s: the model has no layer of that name (lockstep inspect RECIPE lists them)", n,
                          word);
    ls_arena_release(&a);
    return s;
}

/* Every word must name a layer. This is checked on one rank too, so that a plan which works on one rank works
 * on four. */
static ls_status check_words(const ls_graph *g, const char *words)
{
    for (const char *w = words; *w; w = next_word(w)) {
        bool used = false;
        for (int i = 0; i < g->n_nodes && !used; i++)
            used = g->nodes[i]->op == &ls_op_param &&
                   word_of(words, ((const ls_source_attrs *)g->nodes[i]->attrs)->name) == w;
        if (!used)
            return useless_word(g, w);
    }
    return LS_OK;
}

static bool has_rule(const ls_op *op)
{
    return op->rule ? strcmp(op->rule, LS_RULE_LATER) != 0 : op == &ls_op_batch_matmul;
}

/* The first node that reads the parameter and whose op has a rule; *k: the number of its operand. Codes of 4
 * bits are split as the weight is that they become, whose dimensions they have. */
static const ls_node *reader(const ls_graph *g, ls_value param, int *k)
{
    for (int i = ls_node_of(g, param)->id + 1; i < g->n_nodes; i++)
        for (*k = 0; *k < g->nodes[i]->n_in; ++*k)
            if (g->nodes[i]->in[*k].id == param.id && has_rule(g->nodes[i]->op))
                return g->nodes[i]->op == &ls_op_dequantize || g->nodes[i]->op == &ls_op_fork
                           ? reader(g, g->nodes[i]->out[0], k)
                           : g->nodes[i];
    return NULL;
}

/* The dimension along which a parameter is split; -1: it is not split. colwise: the first dimension whose
 * loop the results of its reader have too. rowwise: the first dimension that its reader sums over; a bias has
 * none. */
static ls_status dim_of(int *dim, const ls_graph *g, const ls_node *param, bool colwise)
{
    const ls_type *t = ls_type_of(g, param->out[0]);
    int k;
    const ls_node *n = reader(g, param->out[0], &k);
    *dim = colwise ? 0 : t->ndim > 1 ? 1 : -1;
    if (!n)
        return LS_OK;
    ls_placed_node p;
    ls_rule r;
    LS_TRY(ls_placed_node_of(&p, g, n));
    LS_TRY(ls_rule_of(&r, &p.infer));
    *dim = -1;
    for (int d = 0; d < t->ndim && *dim < 0; d++) {
        const int l = ls_rule_in(&r, k, d);
        if (l >= 0 && !r.loop[l].fixed && (ls_rule_out_dim(&r, &p.infer, 0, l) >= 0) == colwise)
            *dim = d;
    }
    return LS_OK;
}

static bool inside(const char *path, const char *module)
{
    const size_t n = strlen(module);
    return n && !strncmp(path, module, n) && (path[n] == '.' || !path[n]);
}

static ls_status refuse_heads(const ls_graph *g, const char *path, const ls_shard_axis *axis)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        if (n->op != &ls_op_attention || !inside(path, n->scope->path))
            continue;
        for (int k = 0; k < 2; k++) {
            const int64_t head = ((const ls_attention_attrs *)n->attrs)->head_dim,
                          heads = ls_type_of(g, n->in[k])->dims[2] / head;
            if (heads % axis->ranks)
                return ls_fail_field(
                    LS_E_USAGE, "mesh", "%s has %lld %sheads, which the %d ranks of axis %s do not divide",
                    n->scope->path, (long long)heads, k ? "key/value " : "", axis->ranks, axis->name);
        }
    }
    return LS_OK;
}

/* Before sizes of other layers are refused. */
static ls_status check_heads(const ls_graph *g, const char *words, const ls_shard_axis *axis)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_source_attrs *a = g->nodes[i]->attrs;
        const char *w = g->nodes[i]->op == &ls_op_param ? word_of(words, a->name) : NULL;
        if (w && *w == 'c' && !if_divided(w))
            LS_TRY(refuse_heads(g, a->name, axis));
    }
    return LS_OK;
}

/* block: bytes of a block of 4 bits a number, else 1 */
static ls_status not_divided(const ls_node *n, int dim, int64_t parts, int64_t block,
                             const ls_shard_axis *axis)
{
    const ls_source_attrs *a = n->attrs;
    return ls_fail_field(LS_E_USAGE, "mesh",
                         "dimension %d of %s %s has %s%lld%s, which the %d ranks of axis %s do not divide",
                         dim,
                         n->op == &ls_op_param   ? "parameter"
                         : n->op == &ls_op_state ? "state"
                                                 : "input",
                         a->name,
                         parts > 1   ? "parts of "
                         : block > 1 ? ""
                                     : "size ",
                         (long long)(a->type.dims[dim] / block / parts),
                         block > 1 ? " blocks of 64 numbers" : "", axis->ranks, axis->name);
}

static ls_status seed_source(ls_seed *out, const ls_node *n, const char *words, const ls_shard_axis *axis)
{
    const ls_source_attrs *a = n->attrs;
    const char *w = source_word(words, a->name);
    const int dim = a->type.ndim - 1;
    if (!w || dim < 0)
        return LS_OK;
    if (a->type.dims[dim] % axis->ranks)
        return not_divided(n, dim, 1, 1, axis);
    out[n->out[0].id] = (ls_seed){ .word = w, .dim = dim, .parts = 1 };
    return LS_OK;
}

ls_status ls_seeds(ls_seed *out, const ls_graph *g, const ls_parallel *p, const ls_shard_axis *axis)
{
    const bool automatic = !strcmp(p->tensor, "auto");
    const char *words = !automatic ? p->tensor : g->tensor_plan ? g->tensor_plan : "";
    int n = 0;
    if (!automatic)
        LS_TRY(check_words(g, words));
    if (axis->ranks == 1)
        return LS_OK;
    LS_TRY(check_heads(g, words, axis));
    for (int i = 0; i < g->n_nodes; i++) {
        if (g->nodes[i]->op == &ls_op_state || g->nodes[i]->op == &ls_op_input)
            LS_TRY(seed_source(out, g->nodes[i], words, axis));
        if (g->nodes[i]->op != &ls_op_param)
            continue;
        const ls_source_attrs *a = g->nodes[i]->attrs;
        const char *w = word_of(words, a->name);
        int dim;
        if (!w)
            continue;
        LS_TRY(dim_of(&dim, g, g->nodes[i], *w == 'c'));
        if (dim < 0 && (*w == 'c' || a->type.ndim > 1))
            return ls_fail_field(LS_E_USAGE, "tensor", "%.*s: what reads parameter %s cannot split it so",
                                 (int)strcspn(w, " "), w, a->name);
        if (dim < 0)
            continue;
        const int64_t parts = ls_packed_parts(g, g->nodes[i]->out[0], dim),
                      block = dim == 1 && a->type.dtype == LS_U8 ? LS_NF4_BLOCK / 2 : 1,
                      size = a->type.dims[dim] / block / parts;
        if (size % axis->ranks && if_divided(w))
            continue;
        if (size % axis->ranks)
            return not_divided(g->nodes[i], dim, parts, block, axis);
        out[g->nodes[i]->out[0].id] = (ls_seed){ .word = w, .dim = dim, .parts = parts };
        n++;
    }
    return n ? LS_OK
             : ls_fail_field(LS_E_USAGE, "tensor",
                             "%s: the model has no such layer to split over the %d ranks of axis "
                             "%s; give them to dp or shard",
                             p->tensor, axis->ranks, axis->name);
}
