/* gpt2.c - GPT-2 (Radford et al. 2019) with Hugging Face's names, structure and initial values: pre-norm
 * blocks of causal attention and an MLP, layer norms, learned positions. Queries, keys and values lie in one
 * weight, and weights of linear layers are [in, out]. */
#include <math.h>
#include <stdio.h>

#include "caches.h"
#include "classifier.h"
#include "generation.h"
#include "lockstep/models.h"
#include "lockstep/nn.h"
#include "base/argument.h"

#define LAYERS "colwise:c_attn rowwise:attn.c_proj colwise:c_fc rowwise:mlp.c_proj "
static const char TENSOR_PLAN[] = LAYERS "rowwise:wte? colwise:lm_head?",
                  CACHED_PLAN[] = LAYERS "lastdim:cache";

typedef struct builder {
    ls_graph *g;
    const ls_gpt2_config *c;
    ls_init weight, residual, zero;
    ls_value positions; /* of the tokens in their documents. LS_NONE: the tokens are whole sequences */
    ls_caches caches;
} builder;

static ls_value gpt2_linear(const builder *b, const char *name, ls_value x, int64_t out,
                            const ls_init *weight)
{
    return ls_linear(b->g, name, x, out, .weight_init = weight, .bias_init = &b->zero, .transposed = true);
}

static ls_value attention(const builder *b, ls_value x, int64_t i)
{
    LS_SCOPE(b->g, "attn", "GPT2Attention");
    const int64_t hidden = b->c->hidden_size, head_dim = hidden / b->c->heads;
    const double scale = 1 / sqrt((double)head_dim);
    const ls_value qkv = gpt2_linear(b, "c_attn", x, 3 * hidden, &b->weight);
    ls_value q = ls_slice(b->g, qkv, 2, 0, hidden), k = ls_slice(b->g, qkv, 2, hidden, hidden),
             v = ls_slice(b->g, qkv, 2, 2 * hidden, hidden), y;
    if (b->caches.prompts) {
        k = ls_caches_write(b->g, &b->caches, "k", i, k);
        v = ls_caches_write(b->g, &b->caches, "v", i, v);
        y = ls_attention_cached(b->g, q, k, v, b->positions, LS_NONE, head_dim, scale);
    } else {
        y = ls_packed_attention(b->g, q, k, v, b->positions, head_dim, scale);
        y = ls_attention_dropout(b->g, "attn_dropout", y, b->c->attention_dropout);
    }
    return ls_dropout(b->g, "resid_dropout", gpt2_linear(b, "c_proj", y, hidden, &b->residual),
                      b->c->dropout);
}

static ls_value mlp(const builder *b, ls_value x)
{
    LS_SCOPE(b->g, "mlp", "GPT2MLP");
    x = ls_gelu_tanh(b->g, gpt2_linear(b, "c_fc", x, b->c->mlp_size, &b->weight));
    return ls_dropout(b->g, "dropout", gpt2_linear(b, "c_proj", x, b->c->hidden_size, &b->residual),
                      b->c->dropout);
}

static ls_value block(const builder *b, ls_value x, int64_t i)
{
    char name[32];
    snprintf(name, sizeof name, "h.%lld", (long long)i);
    LS_SCOPE(b->g, name, "GPT2Block");
    x = ls_add(b->g, x, attention(b, ls_layer_norm(b->g, "ln_1", x, b->c->norm_eps), i));
    return ls_add(b->g, x, mlp(b, ls_layer_norm(b->g, "ln_2", x, b->c->norm_eps)));
}

static ls_value table_of(const builder *b, const char *name, int64_t rows)
{
    LS_SCOPE(b->g, name, "Embedding");
    return ls_param(b->g, "weight", LS_TYPE(LS_F32, rows, b->c->hidden_size), b->weight);
}

/* From ids to the input of the output head. *table becomes the embedding's weight. */
static ls_value blocks(const builder *b, ls_value ids, ls_value *table)
{
    const ls_gpt2_config *c = b->c;
    LS_SCOPE(b->g, "transformer", "GPT2Model");
    *table = table_of(b, "wte", c->vocab_size);
    const ls_value positions = table_of(b, "wpe", c->positions);
    /* (a position of -1, of padding, has no row: what is computed of padding is NaN, and nothing reads it) */
    ls_value at = b->positions.id ? ls_embedding_op(b->g, b->positions, positions)
                                  : ls_slice(b->g, positions, 0, 0, c->seq_length);
    ls_value x = ls_dropout(b->g, "drop", ls_add(b->g, ls_embedding_op(b->g, ids, *table), at), c->dropout);
    for (int64_t i = 0; i < c->layers; i++)
        x = block(b, x, i);
    return ls_reshape(b->g, ls_layer_norm(b->g, "ln_f", x, c->norm_eps), -1, c->hidden_size);
}

static ls_value gpt2_head(const builder *b, ls_value x, ls_value table)
{
    return b->c->tied
               ? ls_matmul_wt(b->g, x, table, LS_NONE)
               : ls_linear(b->g, "lm_head", x, b->c->vocab_size, .bias = false, .weight_init = &b->weight);
}

static ls_status begin(builder *b, ls_graph *g, const ls_gpt2_config *c, const char *plan)
{
    if (c->seq_length < 1 || c->vocab_size < 2 || c->mlp_size < 1 || c->layers < 1)
        return ls_fail(
            LS_E_SHAPE,
            "gpt2: seq_length %lld, vocab_size %lld, mlp_size %lld and layers %lld must be positive",
            (long long)c->seq_length, (long long)c->vocab_size, (long long)c->mlp_size, (long long)c->layers);
    if (c->heads < 1 || c->hidden_size < 1 || c->hidden_size % c->heads)
        return ls_fail(LS_E_SHAPE, "gpt2: heads %lld do not divide hidden_size %lld", (long long)c->heads,
                       (long long)c->hidden_size);
    if (c->seq_length > c->positions)
        return ls_fail(LS_E_SHAPE, "gpt2: seq_length %lld is more than its %lld positions",
                       (long long)c->seq_length, (long long)c->positions);
    const double deep = c->init_deviation / sqrt(2 * (double)c->layers);
    *b = (builder){ .g = g,
                    .c = c,
                    .weight = { LS_INIT_NORMAL, 0, c->init_deviation },
                    .residual = { LS_INIT_NORMAL, 0, deep },
                    .zero = { .kind = LS_INIT_ZERO } };
    ls_tensor_plan(g, plan);
    return LS_OK;
}

ls_status ls_gpt2_build(ls_graph *g, const ls_gpt2_config *c, int64_t batch)
{
    LS_ARG(g);
    LS_ARG(c);
    builder b;
    LS_TRY(begin(&b, g, c, TENSOR_PLAN));
    const ls_type ids = LS_TYPE(LS_I32, batch, c->seq_length);
    if (c->packed)
        b.positions = ls_input(g, "positions", ids);
    ls_value table, x = blocks(&b, ls_input(g, "ids", ids), &table), logits = gpt2_head(&b, x, table);
    ls_language_outputs(g, logits, ls_input(g, "targets", ids), LS_NONE, 0);
    return ls_graph_finish(g);
}

ls_status ls_gpt2_build_cached(ls_graph *g, const ls_gpt2_config *c, int64_t prompts, int64_t beams,
                               int64_t tokens)
{
    LS_ARG(g);
    LS_ARG(c);
    builder b;
    LS_TRY(begin(&b, g, c, CACHED_PLAN));
    ls_value ids, table;
    b.caches = ls_caches_begin(g, prompts, beams, tokens, c->seq_length, &ids);
    b.positions = b.caches.positions;
    const ls_value x = blocks(&b, ids, &table);
    ls_output(g, "logits", gpt2_head(&b, ls_caches_wanted(g, &b.caches, x), table));
    return ls_graph_finish(g);
}

static ls_status gpt2_decode(ls_graph *g, const ls_generation *m, int64_t prompts, int64_t beams,
                             int64_t tokens)
{
    ls_gpt2_config c = *(const ls_gpt2_config *)m->config;
    c.seq_length = m->places;
    return ls_gpt2_build_cached(g, &c, prompts, beams, tokens);
}

ls_generation ls_gpt2_generation(const ls_gpt2_config *c)
{
    return (ls_generation){
        .config = c, .vocabulary = c->vocab_size, .places = c->seq_length, .decode = gpt2_decode
    };
}
