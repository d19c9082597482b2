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
#include "models/in_batch.h"
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

/* A text in the graph: its ids [batch, tokens], and what the layers make of it. */
typedef struct text {
    int64_t tokens;
    ls_value ids, types, x; /* types: LS_NONE: all 0 */
} text;

/* The position of a text's first token. */
static int64_t first_place(const ls_bert_config *c) { return c->roberta ? c->pad_token + 1 : 0; }

/* The last dimension of a text or a pair. */
static int64_t tokens_of(const ls_port *p) { return p->type.ndim ? p->type.dims[p->type.ndim - 1] : 0; }

static text read_text(ls_graph *g, const ls_bert_config *c, const ls_port *p, int64_t batch)
{
    text t = { .tokens = tokens_of(p), .types = LS_NONE };
    if (p->type.ndim == 1) {
        t.ids = ls_input(g, p->name, LS_TYPE(LS_I32, batch, t.tokens));
        return t;
    }
    const ls_value pair = ls_input(g, p->name, LS_TYPE(LS_I32, batch, 2, t.tokens));
    t.ids = ls_reshape(g, ls_slice(g, pair, 1, 0, 1), batch, t.tokens);
    if (!c->roberta) /* its texts are all of type 0 */
        t.types = ls_reshape(g, ls_slice(g, pair, 1, 1, 1), batch, t.tokens);
    return t;
}

static ls_value embed(ls_graph *g, const ls_bert_config *c, const text *t)
{
    LS_SCOPE(g, "embeddings", "BertEmbeddings");
    ls_value words = table(g, c, "word_embeddings", c->vocab_size),
             places = table(g, c, "position_embeddings", c->positions),
             types = table(g, c, "token_type_embeddings", c->token_types);
    ls_value x = ls_embedding_op(g, t->ids, words);
    x = ls_add(g, x,
               ls_present(t->types) ? ls_embedding_op(g, t->types, types)
                                    : ls_reshape(g, ls_slice(g, types, 0, 0, 1), 1, 1, c->hidden_size));
    x = ls_add(
        g, x, ls_reshape(g, ls_slice(g, places, 0, first_place(c), t->tokens), 1, t->tokens, c->hidden_size));
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

/* [batch, hidden]: the first token of each text; BERT has a layer (pooler) behind it. */
static ls_value pool(ls_graph *g, const ls_bert_config *c, ls_value x, int64_t batch)
{
    x = ls_reshape(g, ls_slice(g, x, 1, 0, 1), batch, c->hidden_size);
    if (c->roberta) /* its heads have the layer */
        return x;
    LS_SCOPE(g, "pooler", "BertPooler");
    return ls_tanh(g, linear(g, c, "dense", x, c->hidden_size));
}

static bool of_tokens(const ls_bert_config *c, const ls_port *p)
{
    return p->type.ndim == 2 && p->type.dims[0] == tokens_of(&c->inputs[0]);
}

static bool is_in_batch(const ls_bert_config *c)
{
    for (int i = 0; i < c->n_losses; i++)
        if (c->losses[i].kind == LS_LOSS_IN_BATCH)
            return true;
    return false;
}

static ls_status check_text(const ls_bert_config *c, const ls_port *p)
{
    const int64_t n = tokens_of(p);
    if (p->type.ndim != 1 && (p->type.ndim != 2 || p->type.dims[0] != 2))
        return ls_fail(LS_E_SHAPE, "bert: input %s: a text is [tokens], a pair of texts [2, tokens]",
                       p->name);
    const int64_t most = c->positions - first_place(c);
    if (n < 1 || n > most)
        return ls_fail(LS_E_SHAPE, "bert: input %s: %lld tokens, and the model has %lld positions", p->name,
                       (long long)n, (long long)most);
    return p->type.ndim == 1 || c->token_types > 1 || c->roberta
               ? LS_OK
               : ls_fail(LS_E_SHAPE,
                         "bert: input %s: a pair of texts has two token types, and the model has %lld",
                         p->name, (long long)c->token_types);
}

static ls_status check_in_batch(const ls_bert_config *c)
{
    const ls_type *t = &c->outputs[0].type;
    if (c->n_inputs != 2 || c->inputs[0].type.ndim != 1 || c->inputs[1].type.ndim != 1)
        return ls_fail(LS_E_SHAPE,
                       "bert: in_batch_negatives compares two inputs, each a text [tokens], as in {query: "
                       "[64], passage: [256]}");
    if (c->n_outputs != 1 || c->n_losses != 1 || t->ndim != 1 || t->dims[0] != c->hidden_size)
        return ls_fail(LS_E_SHAPE,
                       "bert: in_batch_negatives is the only loss, of one output [hidden_size], here {%s: "
                       "[%lld]}",
                       c->outputs[0].name, (long long)c->hidden_size);
    return LS_OK;
}

ls_status ls_bert_check(const ls_bert_config *c)
{
    if (c->n_inputs < 1 || !c->n_outputs)
        return ls_fail(LS_E_SHAPE, c->n_inputs < 1 ? "bert: no input" : "bert: no output");
    for (int i = 0; i < c->n_inputs; i++)
        LS_TRY(check_text(c, &c->inputs[i]));
    if (c->vocab_size < 1 || c->layers < 1 || c->mlp_size < 1 || c->token_types < 1)
        return ls_fail(LS_E_SHAPE,
                       "bert: vocab_size %lld, layers %lld, mlp_size %lld and token_types %lld must be "
                       "positive",
                       (long long)c->vocab_size, (long long)c->layers, (long long)c->mlp_size,
                       (long long)c->token_types);
    if (c->heads < 1 || c->hidden_size < 1 || c->hidden_size % c->heads)
        return ls_fail(LS_E_SHAPE, "bert: hidden_size %lld is not a multiple of heads %lld",
                       (long long)c->hidden_size, (long long)c->heads);
    if (is_in_batch(c))
        return check_in_batch(c);
    if (c->n_inputs > 1)
        return ls_fail(LS_E_SHAPE,
                       "bert: %d inputs: classes and numbers are of one text, or of a pair [2, "
                       "tokens]; only in_batch_negatives has two inputs",
                       c->n_inputs);
    const int64_t tokens = tokens_of(&c->inputs[0]);
    for (int i = 0; i < c->n_outputs; i++)
        if (c->outputs[i].type.ndim > 1 && !of_tokens(c, &c->outputs[i]))
            return ls_fail(LS_E_SHAPE,
                           "bert: output %s: a text has [] or [classes], each of its %lld tokens [%lld, "
                           "classes]",
                           c->outputs[i].name, (long long)tokens, (long long)tokens);
    return LS_OK;
}

static ls_value roberta_head(ls_graph *g, const ls_bert_config *c, const char *name, ls_value x,
                             int64_t numbers)
{
    LS_SCOPE(g, name, "RobertaClassificationHead");
    x = ls_tanh(g, linear(g, c, "dense", x, c->hidden_size));
    return linear(g, c, "out_proj", ls_dropout(g, "dropout", x, c->classifier_dropout), numbers);
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
    const ls_value y = c->roberta && !of_tokens(c, p) ? roberta_head(g, c, name, x, numbers)
                                                      : linear(g, c, name, x, numbers);
    ls_output(g, p->name, ls_reshape_dims(g, y, t.ndim, t.dims));
}

/* Several texts go through the same layers, one after the other in each: so a layer that FSDP has gathered is
 * used for all. */
static void encode(ls_graph *g, const ls_bert_config *c, text *t, int64_t batch)
{
    for (int k = 0; k < c->n_inputs; k++)
        t[k] = read_text(g, c, &c->inputs[k], batch);
    g->shares = c->n_inputs > 1;
    for (int k = 0; k < c->n_inputs; k++)
        t[k].x = embed(g, c, &t[k]);
    for (int64_t i = 0; i < c->layers; i++)
        for (int k = 0; k < c->n_inputs; k++)
            t[k].x = layer(g, c, t[k].x, t[k].ids, i);
    g->shares = false;
}

static ls_status build_embeddings(ls_graph *g, const ls_bert_config *c, int64_t batch)
{
    text t[2];
    ls_value x[2];
    if (batch < 2 && !ls_graph_is_evaluation(g))
        return ls_fail(LS_E_SHAPE,
                       "bert: in_batch_negatives compares the samples of a micro-batch, and this one has 1");
    {
        LS_SCOPE(g, c->roberta ? "roberta" : "bert", "BertModel");
        encode(g, c, t, batch);
    }
    for (int k = 0; k < 2; k++) {
        const char *name = c->outputs[0].name;
        x[k] = ls_sentence_embedding(g, t[k].x, t[k].ids, c->pad_token);
        ls_output(g, k ? ls_arena_printf(&g->arena, "%s.%s", name, c->inputs[1].name) : name, x[k]);
    }
    ls_in_batch_loss(g, x[0], x[1]);
    return ls_graph_finish(g);
}

ls_status ls_bert_build(ls_graph *g, const ls_bert_config *c, int64_t batch)
{
    LS_ARG(g);
    LS_ARG(c);
    LS_TRY(ls_bert_check(c));
    ls_tensor_plan(g, TENSOR_PLAN);
    if (is_in_batch(c))
        return build_embeddings(g, c, batch);
    bool texts = false;
    for (int i = 0; i < c->n_outputs; i++)
        texts |= !of_tokens(c, &c->outputs[i]);
    ls_value whole = LS_NONE;
    text t;
    {
        LS_SCOPE(g, c->roberta ? "roberta" : "bert", "BertModel");
        encode(g, c, &t, batch);
        if (texts)
            whole = pool(g, c, t.x, batch);
    }
    const ls_value x = ls_dropout(g, "dropout_tokens", t.x, c->classifier_dropout);
    whole = texts ? ls_dropout(g, "dropout", whole, c->classifier_dropout) : whole;
    for (int i = 0; i < c->n_outputs; i++)
        head(g, c, &c->outputs[i], of_tokens(c, &c->outputs[i]) ? x : whole, batch);
    return c->n_losses ? ls_task_declare(g, c->n_losses, c->losses, batch) : ls_graph_finish(g);
}
