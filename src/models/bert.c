/* bert.c - BERT (Devlin et al. 2018), from a text to named outputs, with Hugging Face's names, structure and
 * initial values: learned positions; blocks of bidirectional attention and an MLP, each followed by a norm.
 */
#include <math.h>
#include <stdio.h>

#include "base/argument.h"
#include "graph/graph.h"
#include "lockstep/models.h"
#include "lockstep/nn.h"
#include "models/bert.h"
#include "models/task.h"

/* Of each pair of layers, the first is split by its outputs and the second by its inputs. */
static const char TENSOR_PLAN[] = "colwise:query colwise:key colwise:value rowwise:output.dense "
                                  "colwise:intermediate.dense";

static const ls_init ZERO = { .kind = LS_INIT_ZERO };

static ls_init bert_weight(const ls_bert_config *c)
{
    return (ls_init){ LS_INIT_NORMAL, 0, c->init_deviation };
}

static ls_value linear(ls_graph *g, const ls_bert_config *c, const char *name, ls_value x, int64_t out)
{
    const ls_init weight = bert_weight(c);
    return ls_linear(g, name, x, out, .weight_init = &weight, .bias_init = &ZERO);
}

/* A table of which the first `rows` count. */
static ls_value table(ls_graph *g, const ls_bert_config *c, const char *name, int64_t rows)
{
    LS_SCOPE(g, name, "Embedding");
    return ls_param(g, "weight", LS_TYPE(LS_F32, rows, c->hidden_size), bert_weight(c));
}

static ls_value embed(ls_graph *g, const ls_bert_config *c, ls_value ids)
{
    LS_SCOPE(g, "embeddings", "BertEmbeddings");
    ls_value words = table(g, c, "word_embeddings", c->vocab_size),
             places = table(g, c, "position_embeddings", c->positions),
             types = table(g, c, "token_type_embeddings", c->token_types);
    ls_value x = ls_embedding_op(g, ids, words);
    x = ls_add(g, x, ls_reshape(g, ls_slice(g, types, 0, 0, 1), 1, 1, c->hidden_size));
    x = ls_add(g, x, ls_reshape(g, ls_slice(g, places, 0, 0, c->tokens), 1, c->tokens, c->hidden_size));
    return ls_dropout(g, "dropout", ls_layer_norm(g, "LayerNorm", x, c->norm_eps), c->dropout);
}

static ls_value self_attention(ls_graph *g, const ls_bert_config *c, ls_value x, ls_value ids)
{
    LS_SCOPE(g, "self", "BertSelfAttention");
    const int64_t head = c->hidden_size / c->heads;
    ls_value q = linear(g, c, "query", x, c->hidden_size), k = linear(g, c, "key", x, c->hidden_size),
             v = linear(g, c, "value", x, c->hidden_size);
    ls_value y = ls_padded_attention(g, q, k, v, LS_NONE, ids, c->pad_token, head, 1 / sqrt((double)head));
    return ls_attention_dropout(g, "dropout", y, c->attention_dropout);
}

/* What follows attention and the MLP: a linear layer, dropout, the block's input, a norm. */
static ls_value output(ls_graph *g, const ls_bert_config *c, ls_value x, ls_value input)
{
    LS_SCOPE(g, "output", "BertOutput");
    x = ls_dropout(g, "dropout", linear(g, c, "dense", x, c->hidden_size), c->dropout);
    return ls_layer_norm(g, "LayerNorm", ls_add(g, x, input), c->norm_eps);
}

static ls_value layer(ls_graph *g, const ls_bert_config *c, ls_value x, ls_value ids, int64_t i)
{
    char name[48];
    snprintf(name, sizeof name, "encoder.layer.%lld", (long long)i);
    LS_SCOPE(g, name, "BertLayer");
    {
        LS_SCOPE(g, "attention", "BertAttention");
        x = output(g, c, self_attention(g, c, x, ids), x);
    }
    ls_value h;
    {
        LS_SCOPE(g, "intermediate", "BertIntermediate");
        h = ls_gelu(g, linear(g, c, "dense", x, c->mlp_size));
    }
    return output(g, c, h, x);
}

/* [batch, hidden]: of the first token, through a layer of its own. */
static ls_value pool(ls_graph *g, const ls_bert_config *c, ls_value x, int64_t batch)
{
    LS_SCOPE(g, "pooler", "BertPooler");
    x = ls_reshape(g, ls_slice(g, x, 1, 0, 1), batch, c->hidden_size);
    return ls_tanh(g, linear(g, c, "dense", x, c->hidden_size));
}

static bool of_tokens(const ls_bert_config *c, const ls_port *p)
{
    return p->type.ndim == 2 && p->type.dims[0] == c->tokens;
}

ls_status ls_bert_check(const ls_bert_config *c)
{
    if (c->tokens < 1 || c->tokens > c->positions)
        return ls_fail(LS_E_SHAPE, "bert: a text of %lld tokens, and the model has %lld positions",
                       (long long)c->tokens, (long long)c->positions);
    if (c->vocab_size < 1 || c->layers < 1 || c->mlp_size < 1 || c->token_types < 1)
        return ls_fail(LS_E_SHAPE,
                       "bert: vocab_size %lld, layers %lld, mlp_size %lld and token_types %lld must be "
                       "positive",
                       (long long)c->vocab_size, (long long)c->layers, (long long)c->mlp_size,
                       (long long)c->token_types);
    if (c->heads < 1 || c->hidden_size < 1 || c->hidden_size % c->heads)
        return ls_fail(LS_E_SHAPE, "bert: hidden_size %lld is not a multiple of heads %lld",
                       (long long)c->hidden_size, (long long)c->heads);
    for (int i = 0; i < c->n_outputs; i++)
        if (c->outputs[i].type.ndim > 1 && !of_tokens(c, &c->outputs[i]))
            return ls_fail(LS_E_SHAPE,
                           "bert: output %s: a text has [] or [classes], each of its %lld tokens [%lld, "
                           "classes]",
                           c->outputs[i].name, (long long)c->tokens, (long long)c->tokens);
    return c->n_outputs ? LS_OK : ls_fail(LS_E_SHAPE, "bert: no output");
}

/* One output of its own name, several under their names. */
static void head(ls_graph *g, const ls_bert_config *c, const ls_port *p, ls_value x, int64_t batch)
{
    char name[128];
    snprintf(name, sizeof name, c->n_outputs > 1 ? "classifier.%s" : "classifier", p->name);
    ls_type t = { .dtype = LS_F32, .ndim = p->type.ndim + 1, .dims = { batch } };
    for (int d = 0; d < p->type.ndim; d++)
        t.dims[d + 1] = p->type.dims[d];
    const int64_t numbers = p->type.ndim ? p->type.dims[p->type.ndim - 1] : 1;
    ls_output(g, p->name, ls_reshape_dims(g, linear(g, c, name, x, numbers), t.ndim, t.dims));
}

ls_status ls_bert_build(ls_graph *g, const ls_bert_config *c, int64_t batch)
{
    LS_ARG(g);
    LS_ARG(c);
    LS_TRY(ls_bert_check(c));
    ls_tensor_plan(g, TENSOR_PLAN);
    bool texts = false;
    for (int i = 0; i < c->n_outputs; i++)
        texts |= !of_tokens(c, &c->outputs[i]);
    ls_value x, whole = LS_NONE;
    {
        LS_SCOPE(g, "bert", "BertModel");
        const ls_value ids = ls_input(g, c->input, LS_TYPE(LS_I32, batch, c->tokens));
        x = embed(g, c, ids);
        for (int64_t i = 0; i < c->layers; i++)
            x = layer(g, c, x, ids, i);
        if (texts)
            whole = pool(g, c, x, batch);
    }
    x = ls_dropout(g, "dropout", x, c->classifier_dropout);
    whole = texts ? ls_dropout(g, "dropout", whole, c->classifier_dropout) : whole;
    for (int i = 0; i < c->n_outputs; i++)
        head(g, c, &c->outputs[i], of_tokens(c, &c->outputs[i]) ? x : whole, batch);
    return c->n_losses ? ls_task_declare(g, c->n_losses, c->losses, batch) : ls_graph_finish(g);
}
