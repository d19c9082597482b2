/* model_bert.c - the row of Hugging Face's BERT with heads for classes or numbers. The keys of its
 * config.json, and the values of absent keys, are those of transformers 4 and 5 (configuration_bert.py). */
#include "data_row.h"
#include "key_row.h"
#include "model_row.h"
#include "models/bert.h"
#include "recipe_setting.h"

#include <stdio.h>
#include <string.h>

static ls_bert_config config_of(const ls_recipe *r, const ls_loss_list *losses)
{
    const ls_port *text = &r->model.inputs.at[0];
    return (ls_bert_config){ .input = text->name,
                             .tokens = text->type.ndim == 1 ? text->type.dims[0] : 0,
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

static ls_status bert_check(const ls_recipe *r)
{
    const ls_port_list *in = &r->model.inputs;
    const char *missing = in->n != 1 ? "model.inputs" : !r->model.outputs.n ? "model.outputs" : "loss";
    if (in->n != 1 || !r->model.outputs.n || !r->loss.n)
        return ls_fail(LS_E_USAGE,
                       "%s: a bert has one text, outputs and a loss, as in `model: {type: bert, inputs: "
                       "{review: [128]}, outputs: {stars: [5]}}`, `loss: {type: cross_entropy, of: stars}`; "
                       "%s is missing",
                       ls_recipe_where(r, missing), missing);
    if (!*r->data.tokenizer && !strcmp(r->data.type, "arrays"))
        return ls_fail(
            LS_E_USAGE,
            "%s: the texts of bert need data.tokenizer: a tokenizer.json or spiece.model, or a folder "
            "with one",
            ls_recipe_where(r, "data.type"));
    if (in->at[0].type.ndim != 1)
        return ls_fail(LS_E_USAGE, "%s: %s: a text is [tokens], as in {review: [128]}",
                       ls_recipe_where(r, "model.inputs"), in->at[0].name);
    if (in->at[0].type.dims[0] > r->model.positions)
        return ls_fail(LS_E_USAGE, "%s: %s: %lld tokens, and the model has %lld positions (model.positions)",
                       ls_recipe_where(r, "model.inputs"), in->at[0].name, (long long)in->at[0].type.dims[0],
                       (long long)r->model.positions);
    if (r->model.pad_token >= r->model.vocab_size)
        return ls_fail(LS_E_USAGE, "%s: token id %lld is out of range: the vocabulary has ids 0 to %lld",
                       ls_recipe_where_either(r, "model.pad_token", "model.vocab_size"),
                       (long long)r->model.pad_token, (long long)r->model.vocab_size - 1);
    LS_TRY(ls_recipe_check_heads(r, false));
    const ls_bert_config c = config_of(r, &r->loss);
    if (ls_bert_check(&c) != LS_OK)
        return ls_fail_in(LS_E_USAGE, "%s", ls_recipe_where(r, "model.outputs"));
    return ls_recipe_check_losses(r);
}

/* ---- config.json */

static const ls_config_key KEYS[] = {
    LS_CONFIG_READ_OR("vocab_size", "model.vocab_size", "30522"),
    LS_CONFIG_READ_OR("hidden_size", "model.hidden_size", "768"),
    LS_CONFIG_READ_OR("num_hidden_layers", "model.layers", "12"),
    LS_CONFIG_READ_OR("num_attention_heads", "model.heads", "12"),
    LS_CONFIG_READ_OR("intermediate_size", "model.mlp_size", "3072"),
    LS_CONFIG_READ_OR("hidden_dropout_prob", "model.dropout", "0.1"),
    LS_CONFIG_READ_OR("attention_probs_dropout_prob", "model.attention_dropout", "0.1"),
    LS_CONFIG_READ("classifier_dropout", "model.classifier_dropout"),
    LS_CONFIG_READ_OR("max_position_embeddings", "model.positions", "512"),
    LS_CONFIG_READ_OR("type_vocab_size", "model.token_types", "2"),
    LS_CONFIG_READ("initializer_range", "model.init_deviation"),
    LS_CONFIG_READ_OR("layer_norm_eps", "model.norm_eps", "1e-12"),
    LS_CONFIG_READ("pad_token_id", "model.pad_token"),
    LS_CONFIG_ONLY("hidden_act", "\"gelu\""),
    LS_CONFIG_ONLY("position_embedding_type", "\"absolute\""),
    LS_CONFIG_OFF("is_decoder"),
    LS_CONFIG_OFF("is_encoder_decoder"),
    LS_CONFIG_OFF("add_cross_attention"),
    LS_CONFIG_NO_EFFECT("tie_word_embeddings"),
    LS_CONFIG_NO_EFFECT("directionality"),
    LS_CONFIG_NO_EFFECT("pooler_fc_size"),
    LS_CONFIG_NO_EFFECT("pooler_num_attention_heads"),
    LS_CONFIG_NO_EFFECT("pooler_num_fc_layers"),
    LS_CONFIG_NO_EFFECT("pooler_size_per_head"),
    LS_CONFIG_NO_EFFECT("pooler_type"),
    LS_CONFIG_END,
};

static void write_config(ls_json *j, const ls_recipe *r)
{
    ls_config_real(j, "attention_probs_dropout_prob", r->model.attention_dropout);
    if (r->model.classifier_dropout >= 0)
        ls_config_real(j, "classifier_dropout", r->model.classifier_dropout);
    ls_json_text(j, "hidden_act", "gelu");
    ls_config_real(j, "hidden_dropout_prob", r->model.dropout);
    ls_json_int(j, "hidden_size", r->model.hidden_size);
    const ls_type *head = &r->model.outputs.at[0].type;
    const char *names = ls_recipe_class_names(r, r->model.outputs.at[0].name);
    ls_json_object(j, "id2label"); /* so many labels the head has; without a loss of classes one number */
    for (int64_t i = 0; i < (head->ndim ? head->dims[head->ndim - 1] : 1); i++) {
        char id[24], label[80];
        snprintf(id, sizeof id, "%lld", (long long)i);
        snprintf(label, sizeof label, "LABEL_%lld", (long long)i);
        if (names && *names) {
            snprintf(label, sizeof label, "%.*s", (int)strcspn(names, ","), names);
            names += strcspn(names, ",");
            names += *names == ',';
        }
        ls_json_text(j, id, label);
    }
    ls_json_close_object(j);
    ls_config_real(j, "initializer_range", r->model.init_deviation);
    ls_json_int(j, "intermediate_size", r->model.mlp_size);
    ls_config_real(j, "layer_norm_eps", r->model.norm_eps);
    ls_json_int(j, "max_position_embeddings", r->model.positions);
    ls_json_text(j, "model_type", "bert");
    ls_json_int(j, "num_attention_heads", r->model.heads);
    ls_json_int(j, "num_hidden_layers", r->model.layers);
    ls_json_int(j, "pad_token_id", r->model.pad_token);
    ls_json_int(j, "type_vocab_size", r->model.token_types);
}

static const ls_huggingface BERT = { .architecture = "BertForSequenceClassification",
                                     .most_tokens = "max_position_embeddings",
                                     .keys = KEYS,
                                     .write = write_config };

/* What published files have for other tasks. */
static const ls_second_name SECOND[] = { { "cls.predictions.bias", NULL, false },
                                         { "cls.predictions.transform.dense.weight", NULL, false },
                                         { "cls.predictions.transform.dense.bias", NULL, false },
                                         { "cls.predictions.transform.LayerNorm.weight", NULL, false },
                                         { "cls.predictions.transform.LayerNorm.bias", NULL, false },
                                         { "cls.predictions.decoder.weight", NULL, false },
                                         { "cls.predictions.decoder.bias", NULL, false },
                                         { "cls.seq_relationship.weight", NULL, false },
                                         { "cls.seq_relationship.bias", NULL, false },
                                         { "bert.embeddings.position_ids", NULL, false },
                                         { NULL, NULL, false } };

static const ls_key BERT_ROWS[] = {
    { "model.positions", LS_KEY_INT, AT(model.positions), "512", 1, 1e6, .type = "model.type",
      .help = "the longest text in tokens: rows of the table of positions" },
    { "model.token_types", LS_KEY_INT, AT(model.token_types), "2", 1, 1000, .type = "model.type",
      .help = "rows of the table of token types; a text is of type 0" },
    { "model.pad_token", LS_KEY_INT, AT(model.pad_token), "0", 0, 1e9, .type = "model.type",
      .help = "token id that fills up short texts; no token attends to it" },
    { "model.classifier_dropout", LS_KEY_REAL, AT(model.classifier_dropout), "-1", -1, 1, .below = true,
      .type = "model.type", .help = "dropout of what the heads take; -1: `dropout`" },
};

extern const ls_model_row ls_bert_row;
const ls_model_row ls_bert_row = {
    .name = "bert",
    .keys = "layers heads hidden_size mlp_size vocab_size norm_eps init_deviation dropout attention_dropout "
            "positions token_types pad_token classifier_dropout inputs outputs loss label_smoothing",
    OWN_KEYS(BERT_ROWS),
    .samples = LS_SAMPLES_FIELDS,
    .build = bert_build,
    .check = bert_check,
    .huggingface = &BERT,
    .second_names = SECOND
};
