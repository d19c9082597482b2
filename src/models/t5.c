/* t5.c - T5 (Raffel et al. 2020), from text to text, with Hugging Face's names, structure and initial values:
 * attention without a scale; relative positions, which the first block of a stack owns and all its blocks
 * use; no biases; RMS norms. */
#include <math.h>
#include <stdio.h>

#include "classifier.h"
#include "generation.h"
#include "lockstep/models.h"
#include "lockstep/nn.h"
#include "base/argument.h"

/* Of each pair of layers, the first is split by its outputs and the second by its inputs. In training the
 * vocabulary is split by columns if the number of ranks divides it; in generation each rank has all of it and
 * thus all logits, and of the caches and of the source its heads. */
#define LAYERS "colwise:q colwise:k colwise:v rowwise:o colwise:wi colwise:wi_0 colwise:wi_1 rowwise:wo "
static const char TENSOR_PLAN[] = LAYERS "colwise:lm_head?",
                  CACHED_PLAN[] = LAYERS "lastdim:cache lastdim:source";

/* The encoder, or the decoder. */
typedef struct stack {
    ls_graph *g;
    const ls_t5_config *c;
    ls_value ids;           /* of the source; i32 [batch, source_length] */
    ls_value source;        /* output of the encoder; LS_NONE in the encoder itself */
    ls_value position_bias; /* LS_NONE until the first block has made it */
    int64_t tokens;
    /* For a decoder that makes targets token by token: positions of the tokens in the caches, and the row
     * that each row continues. positions LS_NONE: the targets are whole. */
    ls_value positions, from;
    int64_t prompts, beams, layer;
} stack;

static bool generates(const stack *s) { return s->positions.id != 0; }
static bool decodes(const stack *s) { return s->source.id != 0 || generates(s); }

static ls_value linear(const stack *s, const char *name, ls_value x, int64_t out, double deviation)
{
    const ls_init init = { LS_INIT_NORMAL, 0, s->c->init_factor * deviation };
    return ls_linear(s->g, name, x, out, .bias = false, .weight_init = &init);
}

static double root(int64_t n) { return 1.0 / sqrt((double)n); }

static ls_value dropout(const stack *s, ls_value x) { return ls_dropout(s->g, "dropout", x, s->c->dropout); }

static ls_value norm(const stack *s, const char *name, ls_value x)
{
    LS_SCOPE(s->g, name, "T5LayerNorm");
    ls_value gain = ls_param(s->g, "weight", LS_TYPE(LS_F32, s->c->hidden_size),
                             (ls_init){ LS_INIT_CONST, s->c->init_factor, 0 });
    return ls_rms_norm_op(s->g, x, gain, s->c->norm_eps);
}

static ls_value position_bias(const stack *s)
{
    LS_SCOPE(s->g, "relative_attention_bias", "Embedding");
    const ls_init init = { LS_INIT_NORMAL, 0, s->c->init_factor * root(s->c->hidden_size) };
    ls_value table = ls_param(s->g, "weight", LS_TYPE(LS_F32, s->c->buckets, s->c->heads), init);
    return ls_position_bias(s->g, table, s->tokens, generates(s) ? 1 : s->tokens, s->c->max_distance,
                            !decodes(s));
}

/* "source.I.k", "cache.I.v": keys ("k") or values ("v") of layer i, of the source or of the target so far
 * ("cache"). */
typedef struct memory_name {
    char text[48];
} memory_name;
static memory_name name_of(const char *of, int64_t i, const char *what)
{
    memory_name name;
    snprintf(name.text, sizeof name.text, "%s.%lld.%s", of, (long long)i, what);
    return name;
}

static int64_t inner(const ls_t5_config *c) { return c->heads * c->head_dim; }

static ls_value keys(const stack *s, ls_value from)
{
    return linear(s, "k", from, inner(s->c), root(s->c->hidden_size));
}
static ls_value values(const stack *s, ls_value from)
{
    return linear(s, "v", from, inner(s->c), root(s->c->hidden_size));
}

/* Writes the keys or values of one token of each target to the cache. Returns the whole cache. */
static ls_value remember(const stack *s, const char *what, ls_value rows)
{
    const ls_type type = LS_TYPE(LS_F32, s->prompts * s->beams, s->tokens, inner(s->c));
    ls_value cache = ls_state(s->g, name_of("cache", s->layer, what).text, type,
                              (ls_init){ .kind = LS_INIT_ZERO });
    if (s->beams > 1)
        cache = ls_cache_reorder(s->g, cache, s->from);
    return ls_cache_write(s->g, cache, rows, s->positions);
}

/* Attention of one token of each target to the tokens before it. */
static ls_value attention_to_target(const stack *s, ls_value q, ls_value x)
{
    const ls_value k = remember(s, "k", keys(s, x)), v = remember(s, "v", values(s, x));
    return ls_attention_cached(s->g, q, k, v, s->positions, s->position_bias, s->c->head_dim, 1);
}

/* Attention of one token of each target to the source. The beams of a source are queries of one sample. */
static ls_value attention_to_source(const stack *s, ls_value q)
{
    const ls_type type = LS_TYPE(LS_F32, s->prompts, s->c->source_length, inner(s->c));
    const ls_value k = ls_input(s->g, name_of("source", s->layer, "k").text, type),
                   v = ls_input(s->g, name_of("source", s->layer, "v").text, type);
    q = ls_reshape(s->g, q, s->prompts, s->beams, -1);
    const ls_value y = ls_padded_attention(s->g, q, k, v, LS_NONE, s->ids, s->c->pad_token, s->c->head_dim,
                                           1);
    return ls_reshape(s->g, y, s->prompts * s->beams, 1, -1);
}

/* Attention with queries from x, and keys and values from `from`. */
static ls_value attention(stack *s, const char *name, ls_value x, ls_value from, bool self)
{
    LS_SCOPE(s->g, name, "T5Attention");
    const ls_t5_config *c = s->c;
    ls_value q = linear(s, "q", x, inner(c), root(c->hidden_size * c->head_dim));
    if (generates(s)) {
        if (self && !s->position_bias.id)
            s->position_bias = position_bias(s);
        ls_value y = self ? attention_to_target(s, q, x) : attention_to_source(s, q);
        return linear(s, "o", y, c->hidden_size, root(inner(c)));
    }
    ls_value k = keys(s, from), v = values(s, from);
    if (self && !s->position_bias.id)
        s->position_bias = position_bias(s);
    ls_value bias = self ? s->position_bias : LS_NONE;
    ls_value y = self && decodes(s)
                     ? ls_attention(s->g, q, k, v, bias, c->head_dim, 1, true)
                     : ls_padded_attention(s->g, q, k, v, bias, s->ids, c->pad_token, c->head_dim, 1);
    y = ls_attention_dropout(s->g, "dropout", y, c->dropout);
    return linear(s, "o", y, c->hidden_size, root(inner(c)));
}

static ls_value mlp(const stack *s, ls_value x)
{
    LS_SCOPE(s->g, "DenseReluDense", s->c->gated ? "T5DenseGatedActDense" : "T5DenseActDense");
    const double deviation = root(s->c->hidden_size);
    ls_value y;
    if (s->c->gated) {
        ls_value gate = ls_gelu_tanh(s->g, linear(s, "wi_0", x, s->c->mlp_size, deviation));
        y = ls_mul(s->g, gate, linear(s, "wi_1", x, s->c->mlp_size, deviation));
    } else {
        y = ls_relu(s->g, linear(s, "wi", x, s->c->mlp_size, deviation));
    }
    return linear(s, "wo", dropout(s, y), s->c->hidden_size, root(s->c->mlp_size));
}

static ls_value self_attention(stack *s, ls_value x)
{
    LS_SCOPE(s->g, "layer.0", "T5LayerSelfAttention");
    ls_value y = norm(s, "layer_norm", x);
    return ls_add(s->g, x, dropout(s, attention(s, "SelfAttention", y, y, true)));
}

static ls_value cross_attention(stack *s, ls_value x)
{
    LS_SCOPE(s->g, "layer.1", "T5LayerCrossAttention");
    return ls_add(s->g, x,
                  dropout(s, attention(s, "EncDecAttention", norm(s, "layer_norm", x), s->source, false)));
}

static ls_value feed_forward(const stack *s, ls_value x)
{
    LS_SCOPE(s->g, decodes(s) ? "layer.2" : "layer.1", "T5LayerFF");
    return ls_add(s->g, x, dropout(s, mlp(s, norm(s, "layer_norm", x))));
}

static ls_value block(stack *s, ls_value x, int64_t i)
{
    char name[32];
    snprintf(name, sizeof name, "block.%lld", (long long)i);
    LS_SCOPE(s->g, name, "T5Block");
    s->layer = i;
    x = self_attention(s, x);
    if (decodes(s))
        x = cross_attention(s, x);
    return feed_forward(s, x);
}

static ls_value t5_run(stack s, ls_value x, int64_t layers)
{
    LS_SCOPE(s.g, decodes(&s) ? "decoder" : "encoder", "T5Stack");
    x = dropout(&s, x);
    for (int64_t i = 0; i < layers; i++)
        x = block(&s, x, i);
    return ls_dropout(s.g, "final_dropout", norm(&s, "final_layer_norm", x), s.c->dropout);
}

static ls_status t5_check(const ls_t5_config *c)
{
    if (c->source_length < 1 || c->target_length < 1 || c->vocab_size < 2 || c->hidden_size < 1 ||
        c->mlp_size < 1 || c->layers < 1 || c->decoder_layers < 1 || c->heads < 1 || c->head_dim < 1)
        return ls_fail(LS_E_SHAPE,
                       "t5: source_length %lld, target_length %lld, vocab_size %lld, hidden_size %lld, "
                       "mlp_size %lld, layers %lld, decoder_layers %lld, "
                       "heads %lld and head_dim %lld must be positive",
                       (long long)c->source_length, (long long)c->target_length, (long long)c->vocab_size,
                       (long long)c->hidden_size, (long long)c->mlp_size, (long long)c->layers,
                       (long long)c->decoder_layers, (long long)c->heads, (long long)c->head_dim);
    if (c->pad_token < 0 || c->pad_token >= c->vocab_size || c->start_token < 0 ||
        c->start_token >= c->vocab_size)
        return ls_fail(LS_E_SHAPE,
                       "t5: pad_token %lld and start_token %lld must be ids of a vocabulary of %lld",
                       (long long)c->pad_token, (long long)c->start_token, (long long)c->vocab_size);
    return LS_OK;
}

/* Looks ids up in the table that encoder and decoder share. The first call makes it: *table is LS_NONE. */
static ls_value embed(ls_graph *g, const ls_t5_config *c, ls_value ids, ls_value *table)
{
    LS_SCOPE(g, "shared", "Embedding");
    const ls_init init = { LS_INIT_NORMAL, 0, c->init_factor };
    if (!table->id)
        *table = ls_param(g, "weight", LS_TYPE(LS_F32, c->vocab_size, c->hidden_size), init);
    return ls_embedding_op(g, ids, *table);
}

/* Logits [rows, vocabulary] of the output of the decoder. */
static ls_value t5_head(const stack *decoder, ls_value x, ls_value table)
{
    const ls_t5_config *c = decoder->c;
    x = ls_reshape(decoder->g, x, -1, c->hidden_size);
    if (c->scale_output > 0 || (c->scale_output == 0 && c->tied))
        x = ls_mul_const(decoder->g, x, root(c->hidden_size));
    return c->tied ? ls_matmul_wt(decoder->g, x, table, LS_NONE)
                   : linear(decoder, "lm_head", x, c->vocab_size, 1);
}

ls_status ls_t5_build(ls_graph *g, const ls_t5_config *c, int64_t batch)
{
    LS_ARG(g);
    LS_ARG(c);
    LS_TRY(t5_check(c));
    ls_tensor_plan(g, TENSOR_PLAN);
    ls_value ids = ls_input(g, "ids", LS_TYPE(LS_I32, batch, c->source_length)),
             targets = ls_input(g, "targets", LS_TYPE(LS_I32, batch, c->target_length));
    ls_value table = LS_NONE;
    stack encoder = { .g = g, .c = c, .ids = ids, .tokens = c->source_length },
          decoder = { .g = g, .c = c, .ids = ids, .tokens = c->target_length };
    decoder.source = t5_run(encoder, embed(g, c, ids, &table), c->layers);
    ls_value x = t5_run(decoder,
                        embed(g, c, ls_shift_right(g, targets, c->start_token, c->pad_token), &table),
                        c->decoder_layers);
    ls_language_outputs(g, t5_head(&decoder, x, table), targets, LS_NONE, 0);
    return ls_graph_finish(g);
}

/* Outputs the keys and values of the source for layer i of the decoder. */
static void output_source(const stack *s, ls_value source, int64_t i)
{
    char block[32];
    snprintf(block, sizeof block, "block.%lld", (long long)i);
    LS_SCOPE(s->g, "decoder", "T5Stack");
    LS_SCOPE(s->g, block, "T5Block");
    LS_SCOPE(s->g, "layer.1", "T5LayerCrossAttention");
    LS_SCOPE(s->g, "EncDecAttention", "T5Attention");
    ls_output(s->g, name_of("source", i, "k").text, keys(s, source));
    ls_output(s->g, name_of("source", i, "v").text, values(s, source));
}

ls_status ls_t5_build_encoder(ls_graph *g, const ls_t5_config *c, int64_t prompts)
{
    LS_ARG(g);
    LS_ARG(c);
    LS_TRY(t5_check(c));
    ls_tensor_plan(g, CACHED_PLAN);
    ls_value ids = ls_input(g, "ids", LS_TYPE(LS_I32, prompts, c->source_length));
    const stack encoder = { .g = g, .c = c, .ids = ids, .tokens = c->source_length };
    ls_value table = LS_NONE, source = t5_run(encoder, embed(g, c, ids, &table), c->layers);
    for (int64_t i = 0; i < c->decoder_layers; i++)
        output_source(&encoder, source, i);
    return ls_graph_finish(g);
}

ls_status ls_t5_build_cached(ls_graph *g, const ls_t5_config *c, int64_t prompts, int64_t beams)
{
    LS_ARG(g);
    LS_ARG(c);
    LS_TRY(t5_check(c));
    ls_tensor_plan(g, CACHED_PLAN);
    const int64_t rows = prompts * beams;
    ls_value ids = ls_input(g, "ids", LS_TYPE(LS_I32, prompts, c->source_length)),
             target = ls_input(g, "ids.1", LS_TYPE(LS_I32, rows, 1)), table = LS_NONE;
    stack decoder = {
        .g = g, .c = c, .ids = ids, .tokens = c->target_length, .prompts = prompts, .beams = beams
    };
    decoder.positions = ls_input(g, "positions.1", LS_TYPE(LS_I32, rows, 1));
    if (beams > 1)
        decoder.from = ls_input(g, "from", LS_TYPE(LS_I32, rows));
    ls_value x = t5_run(decoder, embed(g, c, target, &table), c->decoder_layers);
    ls_output(g, "logits", t5_head(&decoder, x, table));
    return ls_graph_finish(g);
}

static ls_t5_config sized(const ls_generation *m)
{
    ls_t5_config c = *(const ls_t5_config *)m->config;
    c.source_length = m->source;
    c.target_length = m->places;
    return c;
}

static ls_status t5_encode(ls_graph *g, const ls_generation *m, int64_t prompts)
{
    const ls_t5_config c = sized(m);
    return ls_t5_build_encoder(g, &c, prompts);
}

static ls_status t5_decode(ls_graph *g, const ls_generation *m, int64_t prompts, int64_t beams,
                           int64_t tokens)
{
    const ls_t5_config c = sized(m);
    (void)tokens;
    return ls_t5_build_cached(g, &c, prompts, beams);
}

ls_generation ls_t5_generation(const ls_t5_config *c)
{
    return (ls_generation){ .config = c,
                            .vocabulary = c->vocab_size,
                            .places = c->target_length,
                            .source = c->source_length,
                            .pad_token = c->pad_token,
                            .start_token = c->start_token,
                            .encode = t5_encode,
                            .decode = t5_decode };
}
