/* lora.c - low-rank adapters (Hu et al. 2021), with the names, initial values and order of PEFT's layers. */
#define LS_NO_CALL_SITES
#include "lora.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/argument.h"
#include "graph/graph.h"

ls_lora_opts ls_lora_opts_default(void) { return (ls_lora_opts){ LS_LORA_DEFAULTS }; }

ls_status ls_add_lora_with(ls_graph *g, const ls_lora_opts *o)
{
    LS_ARG(g);
    const ls_lora_opts all = o ? *o : ls_lora_opts_default();
    if (all.rank < 1 || !(all.alpha > 0) || isinf(all.alpha) || !(all.dropout >= 0 && all.dropout < 1))
        return ls_fail(
            LS_E_ARG,
            "ls_add_lora: rank %lld, alpha %g and dropout %g: a rank from 1, an alpha above 0 and a "
            "dropout from 0 and below 1 are needed",
            (long long)all.rank, all.alpha, all.dropout);
    if (!all.targets || !*all.targets)
        return ls_fail(LS_E_ARG, "ls_add_lora: targets is empty: name layers, or all-linear");
    ls_lora_opts *copy = LS_ARENA_NEW(&g->arena, ls_lora_opts);
    const char *targets = ls_arena_strdup(&g->arena, all.targets);
    LS_TRY(ls_arena_status(&g->arena));
    *copy = all;
    copy->targets = targets;
    g->lora = copy;
    g->lora_unused = ls_arena_printf(&g->arena, "%s%s%s", g->lora_unused ? g->lora_unused : "",
                                     g->lora_unused && *g->lora_unused ? " " : "", targets);
    return ls_arena_status(&g->arena);
}

/* Whether a word of `targets` names the layer of this path. */
static bool lora_names(const char *word, const char *path)
{
    const size_t n = strlen(word), m = strlen(path);
    const char *dot = strrchr(path, '.'), *last = dot ? dot + 1 : path;
    if (!strcmp(word, "all-linear"))
        return strcmp(last, "lm_head") != 0;
    return m >= n && !strcmp(path + m - n, word) && (m == n || path[m - n - 1] == '.');
}

/* Takes a word out of the words that have named no layer yet. */
static void used_word(ls_graph *g, const char *word)
{
    const size_t n = strlen(word);
    for (char *at = g->lora_unused; at && (at = strstr(at, word)); at += n)
        if ((at == g->lora_unused || at[-1] == ' ') && (!at[n] || at[n] == ' ')) {
            memmove(at, at + n + (at[n] == ' '), strlen(at + n + (at[n] == ' ')) + 1);
            return;
        }
}

static bool targeted(ls_graph *g, const char *targets, const char *path)
{
    char word[256];
    bool named = false;
    for (int used; sscanf(targets, "%255s%n", word, &used) == 1; targets += used)
        if (lora_names(word, path)) {
            named = true;
            used_word(g, word);
        }
    return named;
}

/* As ls_linear, which it cannot call: that has the hook. */
static ls_value product(ls_graph *g, const char *name, ls_value x, int64_t in, int64_t out, ls_init init)
{
    LS_SCOPE(g, name, "Linear");
    return ls_matmul_wt(g, x, ls_param(g, "weight", LS_TYPE(LS_F32, out, in), init), LS_NONE);
}

ls_value ls_lora_adapt(ls_graph *g, ls_value x, ls_value y, int64_t out)
{
    const ls_lora_opts o = *g->lora;
    const char *path = g->scope->path;
    const ls_type t = ls_value_type(g, x);
    const int64_t in = t.ndim > 0 ? t.dims[t.ndim - 1] : 1;
    if (g->status != LS_OK || !targeted(g, o.targets, path))
        return y;
    if (o.rank > in || o.rank > out) {
        ls_graph_error(
            g, LS_E_USAGE,
            "an adapter of rank %lld for a layer of %lld inputs and %lld outputs: the rank can be no "
            "more than the smaller of them",
            (long long)o.rank, (long long)in, (long long)out);
        return y;
    }
    const double scale = o.alpha / (o.rslora ? sqrt((double)o.rank) : (double)o.rank);
    ls_value h = o.dropout > 0 ? ls_dropout(g, "lora_dropout", x, o.dropout) : x;
    const double a = 1 / sqrt((double)in); /* as a linear layer begins */
    h = product(g, "lora_A", h, in, o.rank, (ls_init){ LS_INIT_UNIFORM, -a, a });
    h = scale != 1 ? ls_mul_const(g, h, scale) : h;
    return ls_add(g, product(g, "lora_B", h, o.rank, out, (ls_init){ .kind = LS_INIT_ZERO }), y);
}
