/* model_row.c - the table of models, and how a row is found. */
#include "model_row.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "graph/graph.h"
#include "lockstep/nn.h"
#include "ops/rules.h"
#include "recipe_fields.h"
#include "recipe_use.h"

extern const ls_model_row ls_vit_row, ls_mlp_row, ls_resnet18_row, ls_resnet34_row, ls_resnet50_row,
    ls_convnext_tiny_row, ls_convnext_small_row, ls_convnext_base_row, ls_llama_row, ls_qwen2_row,
    ls_qwen3_row, ls_mistral_row, ls_gemma3_row, ls_mixtral_row, ls_qwen2_moe_row, ls_qwen3_moe_row,
    ls_olmoe_row, ls_gpt2_row, ls_t5_row, ls_unet_row, ls_bert_row, ls_roberta_row, ls_module_row;

const ls_model_row *const LS_MODELS[] = { &ls_vit_row,
                                          &ls_mlp_row,
                                          &ls_resnet18_row,
                                          &ls_resnet34_row,
                                          &ls_resnet50_row,
                                          &ls_convnext_tiny_row,
                                          &ls_convnext_small_row,
                                          &ls_convnext_base_row,
                                          &ls_llama_row,
                                          &ls_qwen2_row,
                                          &ls_qwen3_row,
                                          &ls_mistral_row,
                                          &ls_gemma3_row,
                                          &ls_mixtral_row,
                                          &ls_qwen2_moe_row,
                                          &ls_qwen3_moe_row,
                                          &ls_olmoe_row,
                                          &ls_gpt2_row,
                                          &ls_t5_row,
                                          &ls_unet_row,
                                          &ls_bert_row,
                                          &ls_roberta_row,
                                          &ls_module_row,
                                          NULL };

const char *ls_model_word(int row) { return LS_MODELS[row] ? LS_MODELS[row]->name : NULL; }

const ls_model_row *ls_model_row_find(const char *name)
{
    const ls_model_row *const *m = LS_MODELS;
    while (*m && strcmp((*m)->name, name) != 0)
        m++;
    return *m;
}

const ls_model_row *ls_recipe_model(const ls_recipe *r)
{
    const ls_model_row *m = ls_model_row_find(r->model.type);
    LS_CHECK(m, "model.type %s has no row", r->model.type);
    return m;
}

static ls_status check_nf4(const ls_graph *g, const ls_recipe *r)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == &ls_op_dequantize)
            return LS_OK;
    return ls_fail(LS_E_USAGE, "%s: nf4, but model.type %s has no linear layer of this kind: leave it out",
                   ls_recipe_where(r, "model.base"), ls_recipe_model(r)->name);
}

ls_status ls_recipe_build(ls_graph *g, const void *recipe, int64_t batch)
{
    const ls_recipe *r = recipe;
    const ls_model_row *m = ls_recipe_model(r);
    ls_lora_opts lora;
    if (r->model.base == LS_BASE_NF4)
        LS_TRY(ls_base_nf4(g));
    if (ls_recipe_lora(&lora, r))
        LS_TRY(ls_add_lora_with(g, &lora));
    const ls_status s = m->build(g, r, m->preset, batch);
    if (r->train.lora.rank && g->status == LS_E_USAGE)
        return ls_fail_in(ls_graph_status(g), "%s", ls_recipe_where(r, "train.lora.rank"));
    LS_TRY(s);
    return r->model.base == LS_BASE_NF4 ? check_nf4(g, r) : LS_OK;
}

const char *ls_model_list(char out[LS_MODEL_LIST], ls_model_test passes)
{
    size_t at = 0;
    out[0] = 0;
    for (const ls_model_row *const *m = LS_MODELS; *m; m++)
        if (passes(*m) && at < LS_MODEL_LIST)
            at += (size_t)snprintf(out + at, LS_MODEL_LIST - at, "%s%s", at ? ", " : "", (*m)->name);
    return out;
}

ls_samples ls_recipe_samples(const ls_recipe *r)
{
    return r->model.inputs.n ? LS_SAMPLES_FIELDS : ls_recipe_model(r)->samples;
}

bool ls_model_has_key(const ls_model_row *m, const char *last_name)
{
    return ls_words_have(m->keys, last_name);
}

bool ls_model_makes_text(const ls_model_row *m) { return m->generation != NULL; }
bool ls_model_reads_sources(const ls_model_row *m) { return m->generation && m->samples == LS_SAMPLES_PAIRS; }
bool ls_model_is_huggingfaces(const ls_model_row *m) { return m->huggingface != NULL; }
