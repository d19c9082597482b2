/* decoder.c - language models of the Llama family (Touvron et al. 2023) with Hugging Face's names, structure
 * and initial values: pre-norm blocks of rotary, causal, grouped-query attention and a gated MLP. The
 * configuration says in what they differ: Qwen2 has biases on q, k and v, Qwen3 norms of their heads, Mistral
 * a window, Gemma 3 other norms and gates, and layers with and without a window; Mixtral, OLMoE and two of
 * Qwen's have experts for the MLP. */
#include <math.h>
#include <stdio.h>

#include "caches.h"
#include "classifier.h"
#include "experts.h"
#include "generation.h"
#include "lockstep/models.h"
#include "lockstep/nn.h"
#include "base/argument.h"

/* Of each pair of layers, the first is split by its outputs and the second by its inputs. In training the
 * vocabulary is split by rows if the number of ranks divides it; in generation each rank has all of it and
 * thus all logits, and of the caches its heads. */
#define MLP "colwise:gate_proj colwise:up_proj rowwise:down_proj colwise:w1 colwise:w3 rowwise:w2 "
#define LAYERS "colwise:q_proj colwise:k_proj colwise:v_proj rowwise:o_proj " MLP
static const char TENSOR_PLAN[] = LAYERS "rowwise:embed_tokens? colwise:lm_head?",
                  CACHED_PLAN[] = LAYERS "lastdim:cache",
                  /* norms over all heads: they stay together */
    WHOLE_PLAN[] = MLP "rowwise:embed_tokens? colwise:lm_head?", WHOLE_CACHED_PLAN[] = MLP;

typedef struct builder {
    ls_graph *g;
    const ls_decoder_config *c;
    ls_init weight, zero;
    /* Positions of the tokens in their documents, and so in the caches of keys and values. LS_NONE: the
     * tokens are whole sequences. */
    ls_value positions;
    ls_caches caches;
    ls_experts_balance *balance;
} builder;

static ls_value linear(const builder *b, const char *name, ls_value x, int64_t out, bool bias)
{
    return ls_linear(b->g, name, x, out, .bias = bias, .weight_init = &b->weight, .bias_init = &b->zero);
}

static ls_value norm(const builder *b, const char *name, ls_value x)
{
    if (!b->c->gemma)
        return ls_rms_norm(b->g, name, x, b->c->norm_eps);
    LS_SCOPE(b->g, name, "RMSNorm");
    const ls_type t = ls_value_type(b->g, x);
    const ls_type gain = LS_TYPE(LS_F32, t.ndim > 0 ? t.dims[t.ndim - 1] : 1);
    return ls_rms_norm_op(b->g, x, ls_add_const(b->g, ls_param(b->g, "weight", gain, b->zero), 1),
                          b->c->norm_eps);
}

/* A norm of the features of each head, or of all. x [batch, tokens, heads * head_dim] -> the same. */
static ls_value head_norm(const builder *b, const char *name, ls_value x)
{
    const ls_type t = ls_value_type(b->g, x);
    if (b->c->whole_norms)
        return norm(b, name, x);
    if (!b->c->head_norms || t.ndim != 3)
        return x;
    ls_value y = ls_reshape(b->g, x, t.dims[0], t.dims[1], t.dims[2] / b->c->head_dim, b->c->head_dim);
    return ls_reshape(b->g, norm(b, name, y), t.dims[0], t.dims[1], t.dims[2]);
}

/* Whether layer i is one of those that see all keys, among others that do not. */
static bool is_global(const ls_decoder_config *c, int64_t i)
{
    return c->global_every && (i + 1) % c->global_every == 0;
}

static ls_value rope(const builder *b, ls_value x, int64_t layer)
{
    const ls_decoder_config *c = b->c;
    const bool local = c->global_every && !is_global(c, layer);
    return ls_rope_scaled(b->g, x, b->positions, c->head_dim, local ? c->local_theta : c->rope_theta,
                          local ? &(ls_rope_scaling){ 0 } : &c->rope_scaling);
}

static ls_value clipped(const builder *b, ls_value x)
{
    return b->c->clip_qkv > 0 ? ls_clamp(b->g, x, -b->c->clip_qkv, b->c->clip_qkv) : x;
}

static ls_value attention(const builder *b, ls_value x, int64_t i)
{
    LS_SCOPE(b->g, "self_attn", "Attention");
    const ls_decoder_config *c = b->c;
    ls_value q = linear(b, "q_proj", x, c->heads * c->head_dim, c->qkv_bias);
    ls_value k = linear(b, "k_proj", x, c->kv_heads * c->head_dim, c->qkv_bias);
    ls_value v = linear(b, "v_proj", x, c->kv_heads * c->head_dim, c->qkv_bias);
    const double scale = 1.0 / sqrt(c->query_scalar > 0 ? c->query_scalar : (double)c->head_dim);
    const int64_t window = is_global(c, i) ? 0 : c->window;
    q = rope(b, clipped(b, head_norm(b, "q_norm", q)), i);
    k = rope(b, clipped(b, head_norm(b, "k_norm", k)), i);
    v = clipped(b, v);
    if (!b->caches.prompts) {
        ls_value y = ls_packed_attention(b->g, q, k, v, b->positions, c->head_dim, scale);
        y = ls_attention_window(b->g, y, window);
        return linear(b, "o_proj", ls_attention_dropout(b->g, "dropout", y, c->attention_dropout),
                      c->hidden_size, c->output_bias);
    }
    k = ls_caches_write(b->g, &b->caches, "k", i, k);
    v = ls_caches_write(b->g, &b->caches, "v", i, v);
    ls_value y = ls_attention_cached(b->g, q, k, v, b->positions, LS_NONE, c->head_dim, scale);
    return linear(b, "o_proj", ls_attention_window(b->g, y, window), c->hidden_size, c->output_bias);
}

static ls_value mlp(const builder *b, const char *name, ls_value x, int64_t size)
{
    LS_SCOPE(b->g, name, "MLP");
    const ls_decoder_config *c = b->c;
    ls_value gate = linear(b, "gate_proj", x, size, c->mlp_bias),
             up = linear(b, "up_proj", x, size, c->mlp_bias);
    ls_value both = c->gemma ? ls_mul(b->g, ls_gelu_tanh(b->g, gate), up) : ls_swiglu(b->g, gate, up);
    return linear(b, "down_proj", both, c->hidden_size, c->mlp_bias);
}

static ls_value experts(const builder *b, ls_value x)
{
    const ls_decoder_config *c = b->c;
    const bool mixtral = c->mixtral_names;
    LS_SCOPE(b->g, mixtral ? "block_sparse_moe" : "mlp", "Experts");
    const ls_experts_config of = { .experts = c->experts,
                                   .per_token = c->experts_per_token,
                                   .size = c->expert_size,
                                   .normalize = c->normalize_experts,
                                   .gate = mixtral ? "w1" : "gate_proj",
                                   .up = mixtral ? "w3" : "up_proj",
                                   .down = mixtral ? "w2" : "down_proj",
                                   .weight = b->weight };
    const ls_value y = ls_experts(b->g, x, &of, b->balance);
    if (!c->shared_expert_size)
        return y;
    const ls_value shared = mlp(b, "shared_expert", x, c->shared_expert_size),
                   open = ls_sigmoid(b->g, ls_router(b->g, "shared_expert_gate", x, 1, b->weight));
    return ls_add(b->g, y, ls_mul(b->g, shared, open));
}

static ls_value feed_forward(const builder *b, ls_value x, int64_t i)
{
    return b->c->experts && (i + 1) % b->c->experts_every == 0 ? experts(b, x)
                                                               : mlp(b, "mlp", x, b->c->mlp_size);
}

static ls_value layer(const builder *b, ls_value x, int64_t i)
{
    char name[48];
    snprintf(name, sizeof name, "model.layers.%lld", (long long)i);
    LS_SCOPE(b->g, name, b->c->block);
    const bool gemma = b->c->gemma; /* norms behind both parts too */
    ls_value y = attention(b, norm(b, "input_layernorm", x), i);
    x = ls_add(b->g, x, gemma ? norm(b, "post_attention_layernorm", y) : y);
    y = feed_forward(b, norm(b, gemma ? "pre_feedforward_layernorm" : "post_attention_layernorm", x), i);
    return ls_add(b->g, x, gemma ? norm(b, "post_feedforward_layernorm", y) : y);
}

static ls_status check_experts(const ls_decoder_config *c)
{
    if (c->experts < 0 || (c->experts && (c->expert_size < 1 || c->experts_every < 1)) ||
        c->shared_expert_size < 0)
        return ls_fail(LS_E_SHAPE,
                       "decoder: %lld experts of expert_size %lld in every %lldth layer, and "
                       "shared_expert_size %lld: sizes must be positive, or experts 0",
                       (long long)c->experts, (long long)c->expert_size, (long long)c->experts_every,
                       (long long)c->shared_expert_size);
    if (c->experts && (c->experts_per_token < 1 || c->experts_per_token > c->experts))
        return ls_fail(LS_E_SHAPE, "decoder: experts_per_token %lld must be from 1 to experts, %lld",
                       (long long)c->experts_per_token, (long long)c->experts);
    return LS_OK;
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
    if (c->window < 0 || c->global_every < 0)
        return ls_fail(LS_E_SHAPE, "decoder: window %lld and global_every %lld must not be below 0",
                       (long long)c->window, (long long)c->global_every);
    return check_experts(c);
}

static builder decoder_begin(ls_graph *g, const ls_decoder_config *c, ls_experts_balance *balance)
{
    return (builder){ .g = g,
                      .c = c,
                      .weight = { LS_INIT_NORMAL, 0, c->init_deviation },
                      .zero = { .kind = LS_INIT_ZERO },
                      .balance = balance };
}

static ls_value embed(const builder *b, ls_value ids, ls_value *table)
{
    LS_SCOPE(b->g, "model.embed_tokens", "Embedding");
    *table = ls_param(b->g, "weight", LS_TYPE(LS_F32, b->c->vocab_size, b->c->hidden_size), b->weight);
    const ls_value x = ls_embedding_op(b->g, ids, *table);
    return b->c->gemma ? ls_mul_const(b->g, x, sqrt((double)b->c->hidden_size)) : x;
}

/* From ids to the input of the output head. *table becomes the embedding's weight, which the head shares if
 * it is tied. */
static ls_value layers(const builder *b, ls_value ids, ls_value *table)
{
    const ls_decoder_config *c = b->c;
    ls_value x = embed(b, ids, table);
    for (int64_t i = 0; i < c->layers; i++)
        x = layer(b, x, i);
    return ls_reshape(b->g, norm(b, "model.norm", x), -1, c->hidden_size);
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
    ls_tensor_plan(g, c->whole_norms ? WHOLE_PLAN : TENSOR_PLAN);
    ls_experts_balance balance = { 0 };
    builder b = decoder_begin(g, c, &balance);
    const ls_type ids = LS_TYPE(LS_I32, batch, c->seq_length);
    if (c->packed)
        b.positions = ls_input(g, "positions", ids);
    ls_value table, x = layers(&b, ls_input(g, "ids", ids), &table), logits = decoder_head(&b, x, table);
    ls_language_outputs(g, logits, ls_input(g, "targets", ids),
                        balance.routed ? ls_experts_balance_rows(g, &balance) : LS_NONE, c->balance);
    if (balance.routed)
        ls_measure(g, "busiest_expert", ls_experts_busiest_rows(g, &balance), LS_MEAN, LS_BY_SAMPLE, NULL);
    return ls_graph_finish(g);
}

ls_status ls_decoder_build_cached(ls_graph *g, const ls_decoder_config *c, int64_t prompts, int64_t beams,
                                  int64_t tokens)
{
    LS_ARG(g);
    LS_ARG(c);
    LS_TRY(decoder_check(c));
    ls_tensor_plan(g, c->whole_norms ? WHOLE_CACHED_PLAN : CACHED_PLAN);
    ls_experts_balance balance = { 0 };
    builder b = decoder_begin(g, c, &balance);
    ls_value ids, table;
    b.caches = ls_caches_begin(g, prompts, beams, tokens, c->seq_length, &ids);
    b.positions = b.caches.positions;
    const ls_value x = layers(&b, ids, &table);
    ls_output(g, "logits", decoder_head(&b, ls_caches_wanted(g, &b.caches, x), table));
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
