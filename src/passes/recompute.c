/* recompute.c - activation checkpointing. The forward nodes of a block are cloned before the first backward
 * node that reads one of their values. The backward pass reads the clones, so the originals are freed in the
 * forward pass. Clones that nothing needs are dead code, which a later pass removes. A value that leaves its
 * block is an input of another block and is kept, as in PyTorch's checkpoint. So is what the words save:OP
 * name, as in its selective checkpoint.
 *
 * Outside of such blocks, swiglu alone is computed again, in every model: its gradient needs both operands
 * anyway, and it takes less than a hundredth of the time of the products beside it, while its result is as
 * large as each of the two. A weight of 4 bits is made of its codes again too: the backward pass would else
 * keep it whole. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/field.h"
#include "base/sys.h"
#include "graph/rewrite.h"
#include "graph/op.h"
#include "ops/rules.h"
#include "passes.h"

/* Scope id of the outermost scope around this one that the words name; -1: none. */
static int block_of(const ls_scope *s, const char *words)
{
    int found = -1;
    for (; s; s = s->parent)
        if (ls_words_name(words, s))
            found = s->id;
    return found;
}

bool ls_recompute_saves(const char *word, ls_recompute_save *out)
{
    char name[64], after;
    int every = 1;
    const int n = sscanf(word, "save:%63[^/]/%d%c", name, &every, &after);
    const bool plain = n == 1 && !strchr(word, '/');
    if ((!plain && n != 2) || every < 1)
        return false;
    *out = (ls_recompute_save){ ls_op_find(name), every };
    return out->op != NULL;
}

/* LS_E_USAGE for a word that names no module. */
static ls_status check_words(const ls_graph *g, const char *words)
{
    char word[512];
    for (int used; sscanf(words, "%511s%n", word, &used) == 1; words += used) {
        bool found = !strncmp(word, "save:", 5);
        for (int i = 0; i < g->n_nodes && !found; i++)
            found = block_of(g->nodes[i]->scope, word) >= 0;
        if (!found)
            return ls_fail_field(LS_E_USAGE, "recompute",
                                 "the model \"%s\" has no block that %s names; write class:NAME or "
                                 "pattern:GLOB (lockstep inspect RECIPE shows modules and classes)",
                                 g->name, word);
    }
    return LS_OK;
}

typedef struct state {
    ls_rewrite r;
    /* [nodes]: scope id of its block; n_scopes + its number: it is a block of its own; -1: none */
    const int *block;
    const bool *saved; /* [nodes]: a word save:OP keeps its results */
    ls_value *again;   /* [old values]: the clone, for backward readers */
    bool *leaves;      /* [old values]: a forward node outside the block reads the value */
    bool *cloned;      /* [blocks] */
} state;

static void clone_block(state *t, int block, int upto)
{
    const ls_graph *g = t->r.from;
    t->cloned[block] = true;
    for (int i = 0; i < upto; i++) {
        const ls_node *n = g->nodes[i];
        if (t->block[i] != block || n->phase != LS_PHASE_FORWARD || t->saved[i] ||
            (n->op->flags & (LS_OP_SOURCE | LS_OP_EFFECT)))
            continue; /* a node that writes state must run once */
        ls_value *in = ls_rewrite_operands(&t->r, n);
        if (!in)
            return;
        for (int k = 0; k < n->n_in; k++)
            in[k] = t->again[n->in[k].id].id ? t->again[n->in[k].id] : in[k];
        ls_rewrite_like(&t->r, n);
        t->r.to->phase = LS_PHASE_BACKWARD;
        ls_node *copy = ls_graph_add(t->r.to, n->op, n->n_in, in, n->attrs);
        if (!copy)
            return;
        copy->clone_of = ls_present(n->out[0]) ? ls_node_of(t->r.to, t->r.map[n->out[0].id])->id : -1;
        for (int k = 0; k < n->n_out; k++) {
            t->again[n->out[k].id] = copy->out[k];
            t->r.to->vals[copy->out[k].id].placed = ls_val_of(t->r.to, t->r.map[n->out[k].id])->placed;
        }
    }
}

static void find_leaving(state *t)
{
    const ls_graph *g = t->r.from;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_in; k++) {
            ls_value v = g->nodes[i]->in[k];
            if (ls_present(v) && g->nodes[i]->phase == LS_PHASE_FORWARD &&
                t->block[ls_node_of(g, v)->id] != t->block[i])
                t->leaves[v.id] = true;
        }
    for (int i = 0; i < g->n_outputs; i++)
        t->leaves[g->outputs[i].value.id] = true;
}

/* Whether the backward pass reads all operands of the node anyway, also if it recomputes the node's
 * result. */
static bool keeps_operands(const ls_graph *g, const ls_node *n)
{
    bool all = true;
    for (int k = 0; k < n->n_in; k++) {
        bool read = false;
        for (int i = n->id + 1; i < g->n_nodes && !read; i++)
            for (int j = 0; j < g->nodes[i]->n_in && g->nodes[i]->phase == LS_PHASE_BACKWARD; j++)
                read = read || g->nodes[i]->in[j].id == n->in[k].id;
        all = all && read;
    }
    return all;
}

/* A weight of 4 bits and its scales are one block. */
static void again_with_scales(int *block, const ls_graph *g, const ls_node *n)
{
    const int own = g->n_scopes + n->id;
    for (; !(n->op->flags & LS_OP_SOURCE) && n->op != &ls_op_flat_view; n = ls_node_of(g, n->in[n->n_in > 1]))
        block[n->id] = own;
}

static ls_status find_blocks(int **out, const ls_graph *g, const char *words)
{
    int *block = *out = ls_sys_malloc(sizeof(int) * (size_t)(g->n_nodes + 1));
    LS_TRY(ls_sys_have(block));
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        block[i] = block_of(n->scope, words);
        if (block[i] < 0 && n->op == &ls_op_swiglu && n->phase == LS_PHASE_FORWARD && keeps_operands(g, n))
            block[i] = g->n_scopes + i;
        if (block[i] < 0 && n->op == &ls_op_dequantize)
            again_with_scales(block, g, n);
    }
    return LS_OK;
}

static ls_status compute_again(ls_graph **gp, const int *block, const bool *saved)
{
    const ls_graph *g = *gp;
    state t = { .block = block, .saved = saved };
    ls_status s = ls_rewrite_begin(&t.r, g);
    t.again = ls_sys_calloc((size_t)g->n_vals, sizeof *t.again);
    t.cloned = ls_sys_calloc((size_t)(g->n_scopes + g->n_nodes), sizeof *t.cloned);
    t.leaves = ls_sys_calloc((size_t)g->n_vals, sizeof *t.leaves);
    if (s == LS_OK && !(t.again && t.cloned && t.leaves)) {
        s = ls_sys_have(NULL);
        ls_rewrite_abort(&t.r);
    }
    if (s == LS_OK)
        find_leaving(&t);
    for (int i = 0; i < g->n_nodes && s == LS_OK && t.r.to->status == LS_OK; i++) {
        const ls_node *n = g->nodes[i];
        if (n->phase != LS_PHASE_BACKWARD) {
            ls_rewrite_copy(&t.r, n);
            continue;
        }
        ls_value *in = ls_rewrite_operands(&t.r, n);
        for (int k = 0; in && k < n->n_in; k++) {
            ls_value v = n->in[k];
            const ls_node *p = ls_present(v) ? ls_node_of(g, v) : NULL;
            const bool within = p && p->phase == LS_PHASE_FORWARD && block[p->id] >= 0 && !saved[p->id];
            const bool again = within && !(p->op->flags & LS_OP_SOURCE) &&
                               (block[p->id] >= g->n_scopes || !t.leaves[v.id]);
            if (again && !t.cloned[block[p->id]])
                clone_block(&t, block[p->id], i);
            in[k] = again ? t.again[v.id] : in[k];
        }
        if (in)
            ls_rewrite_copy_with(&t.r, n, in, n->attrs);
    }
    free(t.again);
    free(t.cloned);
    free(t.leaves);
    LS_TRY(s);
    return ls_rewrite_end(&t.r, gp);
}

/* What one word save:OP keeps: in each block the first node of the op, and each N-th behind it. `seen` has
 * room for a count for each block. */
static ls_status save_one(bool *saved, int *seen, const ls_graph *g, const int *block, const char *word)
{
    ls_recompute_save save;
    if (!ls_recompute_saves(word, &save))
        return ls_fail_field(LS_E_USAGE, "recompute", "'%s' names no operation", word);
    bool found = false;
    memset(seen, 0, sizeof *seen * (size_t)g->n_scopes);
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        if (n->op == save.op && n->phase == LS_PHASE_FORWARD && block[i] >= 0 && block[i] < g->n_scopes) {
            saved[i] = saved[i] || seen[block[i]]++ % save.every == 0;
            found = true;
        }
    }
    return found ? LS_OK
                 : ls_fail_field(LS_E_USAGE, "recompute",
                                 "'%s': the modules that are computed again have no operation %s (lockstep "
                                 "explain RECIPE shows what they have)",
                                 word, save.op->name);
}

static ls_status find_saved(bool **out, const ls_graph *g, const int *block, const char *words)
{
    char word[512];
    bool *saved = *out = ls_sys_calloc((size_t)g->n_nodes + 1, sizeof *saved);
    int *seen = ls_sys_malloc(sizeof *seen * ((size_t)g->n_scopes + 1));
    ls_status s = saved && seen ? LS_OK : ls_sys_have(NULL);
    for (int used; s == LS_OK && sscanf(words, "%511s%n", word, &used) == 1; words += used)
        if (!strncmp(word, "save:", 5))
            s = save_one(saved, seen, g, block, word);
    free(seen);
    return s;
}

ls_status ls_pass_recompute(ls_graph **gp, const char *words)
{
    const ls_graph *g = *gp;
    int *block;
    bool *saved = NULL;
    LS_TRY(check_words(g, words));
    ls_status s = find_blocks(&block, g, words);
    if (s == LS_OK)
        s = find_saved(&saved, g, block, words);
    if (s == LS_OK)
        s = compute_again(gp, block, saved);
    free(block);
    free(saved);
    return s;
}
