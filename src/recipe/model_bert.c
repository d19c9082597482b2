/* model_bert.c - the rows of Hugging Face's BERT and RoBERTa with heads for classes or numbers. The keys of
 * their config.json, and the values of absent keys, are those of transformers 4 and 5 (configuration_bert.py,
 * configuration_roberta.py). */
#include "base/str.h"
#include "data_row.h"
#include "key_row.h"
#include "model_row.h"
#include "data/array_file.h"
#include "models/bert.h"
#include "recipe_setting.h"

#include <stdio.h>
#include <string.h>

static bool is_roberta(const ls_recipe *r) { return !strcmp(r->model.type, "roberta"); }

static ls_bert_config config_of(const ls_recipe *r, const ls_loss_list *losses)
{
    return (ls_bert_config){ .roberta = is_roberta(r),
                             .n_inputs = r->model.inputs.n,
                             .inputs = r->model.inputs.at,
                             .vocab_size = r->model.vocab_size,
                             .hidden_size = r->model.hidden_size,
                             .mlp_size = r->model.mlp_size,
                             .layers = r->model.layers,
                             .heads = r->model.heads,
                             .positions = r->model.positions,
                             .token_types = r->model.token_types,
                             .pad_token = r->model.pad_token,
                             .norm_eps = r->model.norm_eps,
                             .init_deviation = r->model.init_deviation,
                             .dropout = r->model.dropout,
                             .attention_dropout = r->model.attention_dropout,
                             .classifier_dropout = r->model.classifier_dropout < 0
                                                       ? r->model.dropout
                                                       : r->model.classifier_dropout,
                             .n_outputs = r->model.outputs.n,
                             .outputs = r->model.outputs.at,
                             .n_losses = losses->n,
                             .losses = losses->at };
}

static ls_status bert_build(ls_graph *g, const ls_recipe *r, const void *preset, int64_t batch)
{
    (void)preset;
    ls_recipe_losses_own own;
    const ls_loss_list losses = ls_recipe_losses(r, &own);
    const ls_bert_config c = config_of(r, &losses);
    return ls_bert_build(g, &c, batch);
}

static bool is_in_batch(const ls_recipe *r) { return r->loss.at[0].kind == LS_LOSS_IN_BATCH; }

static ls_status check_in_batch(const ls_recipe *r)
{
    const ls_task_loss *l = &r->loss.at[0];
    const char *name = r->model.outputs.at[0].name;
    if (strcmp(l->of, name) != 0)
        return ls_fail(LS_E_USAGE,
                       "%s: in_batch_negatives is of the output: write {type: in_batch_negatives, "
                       "of: %s}",
                       ls_recipe_where(r, "loss"), name);
    if (l->target || l->weight || l->mask || r->data.missing == LS_MISSING_MASK)
        return ls_fail(LS_E_USAGE,
                       "%s: in_batch_negatives compares the two inputs: it has no target, weight, "
                       "mask or missing number",
                       ls_recipe_where(r, "loss"));
    if (r->train.micro_batch == 1 || r->train.global_batch == 1 || r->eval.batch == 1)
        return ls_fail(LS_E_USAGE,
                       "%s: a batch of 1 has no other text, and in_batch_negatives compares a text "
                       "with those of its micro-batch: make it larger",
                       ls_recipe_where(r, r->train.micro_batch == 1    ? "train.micro_batch"
                                          : r->train.global_batch == 1 ? "train.global_batch"
                                                                       : "eval.batch"));
    return LS_OK;
}

/* A text is a column, a pair two. */
static ls_status check_columns(const ls_recipe *r)
{
    const ls_file_list *lists[] = { &r->data.train, &r->data.eval };
    for (int i = 0; i < r->model.inputs.n; i++)
        for (int k = 0; k < 2 * LS_RECIPE_LIST; k++) {
            const ls_file_list *l = lists[k / LS_RECIPE_LIST];
            const ls_port *p = &r->model.inputs.at[i];
            const int at = k % LS_RECIPE_LIST;
            if (at >= l->n || strcmp(l->at[at].field, p->name) != 0 || strcmp(r->data.type, "arrays") != 0)
                continue;
            int columns = 1;
            for (const char *c = ls_array_file_part(l->at[at].file); *c; c++)
                columns += *c == ',';
            if (columns != p->type.ndim)
                return ls_fail(LS_E_USAGE,
                               "%s: %s: a text is one column and [tokens], a pair of texts is two "
                               "columns, x.csv:FIRST,SECOND, and [2, tokens]; here are %d and %d dimension%s",
                               ls_recipe_where(r, k < LS_RECIPE_LIST ? "data.train" : "data.eval"), p->name,
                               columns, p->type.ndim, p->type.ndim == 1 ? "" : "s");
        }
    return LS_OK;
}

static ls_status bert_check(const ls_recipe *r)
{
    const ls_port_list *in = &r->model.inputs;
    const char *missing = !in->n ? "model.inputs" : !r->model.outputs.n ? "model.outputs" : "loss";
    if (!in->n || !r->model.outputs.n || !r->loss.n)
        return ls_fail(
            LS_E_USAGE,
            "%s: a bert or roberta has a text, outputs and a loss, as in `model: {type: bert, inputs: "
            "{review: [128]}, outputs: {stars: [5]}}`, `loss: {type: cross_entropy, of: stars}`; "
            "%s is missing",
            ls_recipe_where(r, missing), missing);
    if (!*r->data.tokenizer && !strcmp(r->data.type, "arrays"))
        return ls_fail(LS_E_USAGE,
                       "%s: texts need data.tokenizer: a tokenizer.json or spiece.model, or a folder "
                       "with one",
                       ls_recipe_where(r, "data.type"));
    if (r->model.pad_token >= r->model.vocab_size)
        return ls_fail(LS_E_USAGE, "%s: token id %lld is out of range: the vocabulary has ids 0 to %lld",
                       ls_recipe_where_either(r, "model.pad_token", "model.vocab_size"),
                       (long long)r->model.pad_token, (long long)r->model.vocab_size - 1);
    LS_TRY(ls_recipe_check_heads(r, false));
    const ls_bert_config c = config_of(r, &r->loss);
    if (ls_bert_check(&c) != LS_OK)
        return ls_fail_in(LS_E_USAGE, "%s", ls_recipe_where_either(r, "model.inputs", "model.outputs"));
    LS_TRY(check_columns(r));
    return is_in_batch(r) ? check_in_batch(r) : ls_recipe_check_losses(r);
}

/* ---- config.json */

#define ALL_KEYS                                                                                             \
    LS_CONFIG_READ_OR("vocab_size", "model.vocab_size", "30522"),                                            \
        LS_CONFIG_READ_OR("hidden_size", "model.hidden_size", "768"),                                        \
        LS_CONFIG_READ_OR("num_hidden_layers", "model.layers", "12"),                                        \
        LS_CONFIG_READ_OR("num_attention_heads", "model.heads", "12"),                                       \
        LS_CONFIG_READ_OR("intermediate_size", "model.mlp_size", "3072"),                                    \
        LS_CONFIG_READ_OR("hidden_dropout_prob", "model.dropout", "0.1"),                                    \
        LS_CONFIG_READ_OR("attention_probs_dropout_prob", "model.attention_dropout", "0.1"),                 \
        LS_CONFIG_READ("classifier_dropout", "model.classifier_dropout"),                                    \
        LS_CONFIG_READ_OR("max_position_embeddings", "model.positions", "512"),                              \
        LS_CONFIG_READ_OR("type_vocab_size", "model.token_types", "2"),                                      \
        LS_CONFIG_READ("initializer_range", "model.init_deviation"),                                         \
        LS_CONFIG_READ_OR("layer_norm_eps", "model.norm_eps", "1e-12"),                                      \
        LS_CONFIG_ONLY("hidden_act", "\"gelu\""), LS_CONFIG_ONLY("position_embedding_type", "\"absolute\""), \
        LS_CONFIG_OFF("is_decoder"), LS_CONFIG_OFF("is_encoder_decoder"),                                    \
        LS_CONFIG_OFF("add_cross_attention"), LS_CONFIG_NO_EFFECT("tie_word_embeddings"),                    \
        LS_CONFIG_NO_EFFECT("directionality"), LS_CONFIG_NO_EFFECT("pooler_fc_size"),                        \
        LS_CONFIG_NO_EFFECT("pooler_num_attention_heads"), LS_CONFIG_NO_EFFECT("pooler_num_fc_layers"),      \
        LS_CONFIG_NO_EFFECT("pooler_size_per_head"), LS_CONFIG_NO_EFFECT("pooler_type")

static const ls_config_key BERT_KEYS[] = { ALL_KEYS, LS_CONFIG_READ("pad_token_id", "model.pad_token"),
                                           LS_CONFIG_END };
static const ls_config_key ROBERTA_KEYS[] = { ALL_KEYS,
                                              LS_CONFIG_READ_OR("pad_token_id", "model.pad_token", "1"),
                                              LS_CONFIG_END };

static const char *architecture_of(const ls_recipe *r)
{
    const ls_type *head = &r->model.outputs.at[0].type;
    static const char *const NAMES[][2] = { { "BertModel", "RobertaModel" },
                                            { "BertForTokenClassification", "RobertaForTokenClassification" },
                                            { "BertForSequenceClassification",
                                              "RobertaForSequenceClassification" } };
    return NAMES[is_in_batch(r) ? 0 : head->ndim == 2 ? 1 : 2][is_roberta(r)];
}

/* What transformers takes for the loss of the head. */
static const char *problem_of(const ls_recipe *r)
{
    const ls_task_loss *l = &r->loss.at[0];
    return r->model.outputs.at[0].type.ndim == 2 || is_in_batch(r) ? NULL
           : l->kind == LS_LOSS_CROSS_ENTROPY                      ? "single_label_classification"
           : l->kind == LS_LOSS_BCE                                ? "multi_label_classification"
                                                                   : "regression";
}

/* id2label, or label2id: as many as the head has numbers. */
static void write_labels(ls_json *j, const ls_recipe *r, bool inverse)
{
    const ls_type *head = &r->model.outputs.at[0].type;
    const char *target = r->loss.at[0].target,
               *names = ls_recipe_class_names(r, target ? target : r->model.outputs.at[0].name);
    const int64_t n = head->ndim ? head->dims[head->ndim - 1] : 1;
    ls_str label = { 0 };
    ls_json_object(j, inverse ? "label2id" : "id2label");
    for (int64_t i = 0; i < n; i++) {
        char id[24];
        snprintf(id, sizeof id, "%lld", (long long)i);
        ls_str_clear(&label);
        if (names && *names) {
            ls_str_add_n(&label, names, strcspn(names, ","));
            names += strcspn(names, ",");
            names += *names == ',';
        } else
            ls_str_printf(&label, "LABEL_%s", id);
        inverse ? ls_json_int(j, ls_str_text(&label), i) : ls_json_text(j, id, ls_str_text(&label));
    }
    ls_json_close_object(j);
    ls_str_inherit(&j->out, &label);
    ls_str_release(&label);
}

static void write_config(ls_json *j, const ls_recipe *r)
{
    ls_config_real(j, "attention_probs_dropout_prob", r->model.attention_dropout);
    if (r->model.classifier_dropout >= 0)
        ls_config_real(j, "classifier_dropout", r->model.classifier_dropout);
    ls_json_text(j, "hidden_act", "gelu");
    ls_config_real(j, "hidden_dropout_prob", r->model.dropout);
    ls_json_int(j, "hidden_size", r->model.hidden_size);
    const bool classes = !is_in_batch(r);
    if (classes)
        write_labels(j, r, false);
    ls_config_real(j, "initializer_range", r->model.init_deviation);
    ls_json_int(j, "intermediate_size", r->model.mlp_size);
    if (classes)
        write_labels(j, r, true);
    ls_config_real(j, "layer_norm_eps", r->model.norm_eps);
    ls_json_int(j, "max_position_embeddings", r->model.positions);
    ls_json_text(j, "model_type", is_roberta(r) ? "roberta" : "bert");
    ls_json_int(j, "num_attention_heads", r->model.heads);
    ls_json_int(j, "num_hidden_layers", r->model.layers);
    ls_json_int(j, "pad_token_id", r->model.pad_token);
    if (problem_of(r))
        ls_json_text(j, "problem_type", problem_of(r));
    ls_json_int(j, "type_vocab_size", r->model.token_types);
}

#define HUGGINGFACE(its_keys, its_prefix)                                                               \
    {                                                                                                   \
        .architecture_of = architecture_of, .most_tokens = "max_position_embeddings", .keys = its_keys, \
        .prefix = its_prefix, .write = write_config                                                     \
    }
static const ls_huggingface BERT = HUGGINGFACE(BERT_KEYS, "bert."),
                            ROBERTA = HUGGINGFACE(ROBERTA_KEYS, "roberta.");

/* The pooler is for classes and numbers of whole texts. */
static bool has_no_pooler(const ls_recipe *r)
{
    bool texts = false;
    for (int i = 0; i < r->model.outputs.n; i++)
        texts |= r->model.outputs.at[i].type.ndim < 2;
    return !texts || is_in_batch(r) || is_roberta(r);
}

/* What published files have for other tasks. */
static const ls_second_name BERT_SECOND[] = { { "cls.*", NULL, false, NULL },
                                              { "bert.embeddings.position_ids", NULL, false, NULL },
                                              { "bert.pooler.*", NULL, false, has_no_pooler },
                                              { "classifier.*", NULL, false, is_in_batch },
                                              { NULL, NULL, false, NULL } },
                            ROBERTA_SECOND[] = { { "lm_head.*", NULL, false, NULL },
                                                 { "roberta.embeddings.position_ids", NULL, false, NULL },
                                                 { "roberta.pooler.*", NULL, false, NULL },
                                                 { "classifier.*", NULL, false, is_in_batch },
                                                 { NULL, NULL, false, NULL } };

static const ls_key BERT_ROWS[] = {
    { "model.token_types", LS_KEY_INT, AT(model.token_types), "2", 1, 1000, .type = "model.type",
      .help = "rows of the table of token types; a text is of type 0" },
    { "model.pad_token", LS_KEY_INT, AT(model.pad_token), "0", 0, 1e9, .type = "model.type",
      .help = "token id that fills up short texts; no token attends to it" },
    { "model.classifier_dropout", LS_KEY_REAL, AT(model.classifier_dropout), "-1", -1, 1, .below = true,
      .type = "model.type", .help = "dropout of what the heads take; -1: `dropout`" },
};

extern const ls_model_row ls_bert_row, ls_roberta_row;
#define ROW(word, its_huggingface, its_second)                                                              \
    {                                                                                                       \
        .name = word,                                                                                       \
        .keys = "layers heads hidden_size mlp_size vocab_size norm_eps init_deviation dropout "             \
                "attention_dropout positions token_types pad_token classifier_dropout inputs outputs loss " \
                "label_smoothing",                                                                          \
        OWN_KEYS(BERT_ROWS), .samples = LS_SAMPLES_FIELDS, .build = bert_build, .check = bert_check,        \
        .huggingface = &(its_huggingface), .second_names = its_second                                       \
    }
const ls_model_row ls_bert_row = ROW("bert", BERT, BERT_SECOND),
                   ls_roberta_row = ROW("roberta", ROBERTA, ROBERTA_SECOND);
