/* decoder.c - language models of the Llama family (Touvron et al. 2023; Qwen2 has biases on q, k and v) with
 * Hugging Face's names, structure and initial values: pre-norm blocks of rotary, causal, grouped-query
 * attention and a gated MLP. */
#include <math.h>
#include <stdio.h>

#include "classifier.h"
#include "generation.h"
#include "lockstep/models.h"
#include "lockstep/nn.h"
#include "base/argument.h"

/* Of each pair of layers, the first is split by its outputs and the second by its inputs. In training the
 * vocabulary is split by rows if the number of ranks divides it; in generation each rank has all of it and
 * thus all logits, and of the caches its heads. */
#define LAYERS                                                                                       \
    "colwise:q_proj colwise:k_proj colwise:v_proj rowwise:o_proj colwise:gate_proj colwise:up_proj " \
    "rowwise:down_proj "
static const char TENSOR_PLAN[] = LAYERS "rowwise:embed_tokens? colwise:lm_head?",
                  CACHED_PLAN[] = LAYERS "lastdim:cache";

typedef struct builder {
    ls_graph *g;
    const ls_decoder_config *c;
    ls_init weight, zero;
    /* Positions of the tokens in their documents, and so in the caches of keys and values. LS_NONE: the
     * tokens are whole sequences. */
    ls_value positions;
    /* The row whose text each row goes on from. LS_NONE: each from itself or, in a program that reads
     * prompts, the tokens belong to the first beam of each prompt. */
    ls_value from;
    int64_t prompts, beams; /* prompts 0: there are no caches */
} builder;

static ls_value linear(const builder *b, const char *name, ls_value x, int64_t out, bool bias)
{
    return ls_linear(b->g, name, x, out, .bias = bias, .weight_init = &b->weight, .bias_init = &b->zero);
}

/* Writes the rows of the new tokens, keys ("k") or values ("v"), to the layer's cache. Returns the whole
 * cache. */
static ls_value remember(const builder *b, const char *what, int64_t layer, ls_value rows)
{
    char name[48];
    snprintf(name, sizeof name, "cache.%lld.%s", (long long)layer, what);
    const ls_type type = LS_TYPE(LS_F32, b->prompts * b->beams, b->c->seq_length,
                                 b->c->kv_heads * b->c->head_dim);
    ls_value cache = ls_state(b->g, name, type, b->zero);
    if (b->beams > 1)
        cache = b->from.id ? ls_cache_reorder(b->g, cache, b->from)
                           : ls_reshape(b->g, cache, b->prompts, b->beams * type.dims[1], type.dims[2]);
    return ls_cache_write(b->g, cache, rows, b->positions);
}

static ls_value attention(const builder *b, ls_value x, int64_t i)
{
    LS_SCOPE(b->g, "self_attn", "Attention");
    const ls_decoder_config *c = b->c;
    ls_value q = linear(b, "q_proj", x, c->heads * c->head_dim, c->qkv_bias);
    ls_value k = linear(b, "k_proj", x, c->kv_heads * c->head_dim, c->qkv_bias);
    ls_value v = linear(b, "v_proj", x, c->kv_heads * c->head_dim, c->qkv_bias);
    const double scale = 1.0 / sqrt((double)c->head_dim);
    q = ls_rope(b->g, q, b->positions, c->head_dim, c->rope_theta);
    k = ls_rope(b->g, k, b->positions, c->head_dim, c->rope_theta);
    if (!b->prompts) {
        ls_value y = ls_packed_attention(b->g, q, k, v, b->positions, c->head_dim, scale);
        return linear(b, "o_proj", ls_attention_dropout(b->g, "dropout", y, c->attention_dropout),
                      c->hidden_size, c->output_bias);
    }
    k = remember(b, "k", i, k);
    v = remember(b, "v", i, v);
    return linear(b, "o_proj", ls_attention_cached(b->g, q, k, v, b->positions, LS_NONE, c->head_dim, scale),
                  c->hidden_size, c->output_bias);
}

static ls_value mlp(const builder *b, ls_value x)
{
    LS_SCOPE(b->g, "mlp", "MLP");
    const ls_decoder_config *c = b->c;
    ls_value gate = linear(b, "gate_proj", x, c->mlp_size, c->mlp_bias),
             up = linear(b, "up_proj", x, c->mlp_size, c->mlp_bias);
    return linear(b, "down_proj", ls_swiglu(b->g, gate, up), c->hidden_size, c->mlp_bias);
}

static ls_value layer(const builder *b, ls_value x, int64_t i)
{
    char name[48];
    snprintf(name, sizeof name, "model.layers.%lld", (long long)i);
    LS_SCOPE(b->g, name, b->c->block);
    x = ls_add(b->g, x, attention(b, ls_rms_norm(b->g, "input_layernorm", x, b->c->norm_eps), i));
    return ls_add(b->g, x, mlp(b, ls_rms_norm(b->g, "post_attention_layernorm", x, b->c->norm_eps)));
}

static ls_status decoder_check(const ls_decoder_config *c)
{
    if (c->seq_length < 1 || c->vocab_size < 2 || c->hidden_size < 1 || c->mlp_size < 1 || c->layers < 1)
        return ls_fail(LS_E_SHAPE,
                       "decoder: seq_length %lld, vocab_size %lld, hidden_size %lld, mlp_size %lld and "
                       "layers %lld must be positive",
                       (long long)c->seq_length, (long long)c->vocab_size, (long long)c->hidden_size,
                       (long long)c->mlp_size, (long long)c->layers);
    if (c->heads < 1 || c->kv_heads < 1 || c->heads % c->kv_heads)
        return ls_fail(LS_E_SHAPE, "decoder: heads %lld is not a multiple of kv_heads %lld",
                       (long long)c->heads, (long long)c->kv_heads);
    if (c->head_dim < 2 || c->head_dim % 2)
        return ls_fail(LS_E_SHAPE,
                       "decoder: head_dim %lld must be even: rotary positions rotate pairs of features",
                       (long long)c->head_dim);
    return LS_OK;
}

static builder decoder_begin(ls_graph *g, const ls_decoder_config *c)
{
    return (builder){
        .g = g, .c = c, .weight = { LS_INIT_NORMAL, 0, c->init_deviation }, .zero = { .kind = LS_INIT_ZERO }
    };
}

static ls_value embed(const builder *b, ls_value ids, ls_value *table)
{
    LS_SCOPE(b->g, "model.embed_tokens", "Embedding");
    *table = ls_param(b->g, "weight", LS_TYPE(LS_F32, b->c->vocab_size, b->c->hidden_size), b->weight);
    return ls_embedding_op(b->g, ids, *table);
}

/* From ids to the input of the output head. *table becomes the embedding's weight, which the head shares if
 * it is tied. */
static ls_value layers(const builder *b, ls_value ids, ls_value *table)
{
    const ls_decoder_config *c = b->c;
    ls_value x = embed(b, ids, table);
    for (int64_t i = 0; i < c->layers; i++)
        x = layer(b, x, i);
    return ls_reshape(b->g, ls_rms_norm(b->g, "model.norm", x, c->norm_eps), -1, c->hidden_size);
}

static ls_value decoder_head(const builder *b, ls_value x, ls_value table)
{
    return b->c->tied ? ls_matmul_wt(b->g, x, table, LS_NONE)
                      : linear(b, "lm_head", x, b->c->vocab_size, false);
}

ls_status ls_decoder_build(ls_graph *g, const ls_decoder_config *c, int64_t batch)
{
    LS_ARG(g);
    LS_ARG(c);
    LS_TRY(decoder_check(c));
    ls_tensor_plan(g, TENSOR_PLAN);
    builder b = decoder_begin(g, c);
    const ls_type ids = LS_TYPE(LS_I32, batch, c->seq_length);
    if (c->packed)
        b.positions = ls_input(g, "positions", ids);
    ls_value table, x = layers(&b, ls_input(g, "ids", ids), &table), logits = decoder_head(&b, x, table);
    ls_language_outputs(g, logits, ls_input(g, "targets", ids));
    return ls_graph_finish(g);
}

ls_status ls_decoder_build_cached(ls_graph *g, const ls_decoder_config *c, int64_t prompts, int64_t beams,
                                  int64_t tokens)
{
    LS_ARG(g);
    LS_ARG(c);
    LS_TRY(decoder_check(c));
    ls_tensor_plan(g, CACHED_PLAN);
    builder b = decoder_begin(g, c);
    char ids[32], positions[32];
    const int64_t rows = prompts * beams;
    snprintf(ids, sizeof ids, "ids.%lld", (long long)tokens);
    snprintf(positions, sizeof positions, "positions.%lld", (long long)tokens);
    const ls_type type = LS_TYPE(LS_I32, tokens > 1 ? prompts : rows, tokens);
    b.prompts = prompts;
    b.beams = beams;
    b.positions = ls_input(g, positions, type);
    if (beams > 1 && tokens == 1)
        b.from = ls_input(g, "from", LS_TYPE(LS_I32, rows));
    ls_value table, x = layers(&b, ls_input(g, ids, type), &table);
    /* of no more than the rows that are wanted */
    ls_output(g, "logits",
              decoder_head(&b, ls_embedding_op(g, ls_input(g, "row", LS_TYPE(LS_I32, rows)), x), table));
    return ls_graph_finish(g);
}

static ls_status decoder_decode(ls_graph *g, const ls_generation *m, int64_t prompts, int64_t beams,
                                int64_t tokens)
{
    ls_decoder_config c = *(const ls_decoder_config *)m->config;
    c.seq_length = m->places;
    return ls_decoder_build_cached(g, &c, prompts, beams, tokens);
}

ls_generation ls_decoder_generation(const ls_decoder_config *c)
{
    return (ls_generation){
        .config = c, .vocabulary = c->vocab_size, .places = c->seq_length, .decode = decoder_decode
    };
}
