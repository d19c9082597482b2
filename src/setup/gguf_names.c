/* gguf_names.c - see gguf_names.h. */
#include "gguf_names.h"

#include <string.h>

#include "base/str.h"
#include "recipe/model_row.h"

static const ls_gguf_name TOP[] = { { "model.embed_tokens", "token_embd", LS_GGUF_PLAIN },
                                    { "model.norm", "output_norm", LS_GGUF_PLAIN },
                                    { "lm_head", "output", LS_GGUF_PLAIN },
                                    { NULL, NULL, LS_GGUF_PLAIN } };
static const ls_gguf_name LAYER[] = { { "self_attn.q_proj", "attn_q", LS_GGUF_QUERIES },
                                      { "self_attn.k_proj", "attn_k", LS_GGUF_KEYS },
                                      { "self_attn.v_proj", "attn_v", LS_GGUF_PLAIN },
                                      { "self_attn.o_proj", "attn_output", LS_GGUF_PLAIN },
                                      { "mlp.gate_proj", "ffn_gate", LS_GGUF_PLAIN },
                                      { "mlp.up_proj", "ffn_up", LS_GGUF_PLAIN },
                                      { "mlp.down_proj", "ffn_down", LS_GGUF_PLAIN },
                                      { "input_layernorm", "attn_norm", LS_GGUF_PLAIN },
                                      { "post_attention_layernorm", "ffn_norm", LS_GGUF_PLAIN },
                                      { "self_attn.q_norm", "attn_q_norm", LS_GGUF_PLAIN }, /* qwen3 */
                                      { "self_attn.k_norm", "attn_k_norm", LS_GGUF_PLAIN },
                                      { NULL, NULL, LS_GGUF_PLAIN } };

static const ls_gguf_name GEMMA_TOP[] = { { "model.embed_tokens", "token_embd", LS_GGUF_PLAIN },
                                          { "model.norm", "output_norm", LS_GGUF_NORM },
                                          { "lm_head", "output", LS_GGUF_PLAIN },
                                          { NULL, NULL, LS_GGUF_PLAIN } };
static const ls_gguf_name GEMMA_LAYER[] = { { "self_attn.q_proj", "attn_q", LS_GGUF_PLAIN },
                                            { "self_attn.k_proj", "attn_k", LS_GGUF_PLAIN },
                                            { "self_attn.v_proj", "attn_v", LS_GGUF_PLAIN },
                                            { "self_attn.o_proj", "attn_output", LS_GGUF_PLAIN },
                                            { "self_attn.q_norm", "attn_q_norm", LS_GGUF_NORM },
                                            { "self_attn.k_norm", "attn_k_norm", LS_GGUF_NORM },
                                            { "mlp.gate_proj", "ffn_gate", LS_GGUF_PLAIN },
                                            { "mlp.up_proj", "ffn_up", LS_GGUF_PLAIN },
                                            { "mlp.down_proj", "ffn_down", LS_GGUF_PLAIN },
                                            { "input_layernorm", "attn_norm", LS_GGUF_NORM },
                                            { "post_attention_layernorm", "post_attention_norm",
                                              LS_GGUF_NORM },
                                            { "pre_feedforward_layernorm", "ffn_norm", LS_GGUF_NORM },
                                            { "post_feedforward_layernorm", "post_ffw_norm", LS_GGUF_NORM },
                                            { NULL, NULL, LS_GGUF_PLAIN } };

static const ls_gguf_name GPT2_TOP[] = { { "wte", "token_embd", LS_GGUF_PLAIN },
                                         { "wpe", "position_embd", LS_GGUF_PLAIN },
                                         { "ln_f", "output_norm", LS_GGUF_PLAIN },
                                         { "lm_head", "output", LS_GGUF_PLAIN },
                                         { NULL, NULL, LS_GGUF_PLAIN } };
static const ls_gguf_name GPT2_LAYER[] = { { "ln_1", "attn_norm", LS_GGUF_PLAIN },
                                           { "attn.c_attn", "attn_qkv", LS_GGUF_TURNED },
                                           { "attn.c_proj", "attn_output", LS_GGUF_TURNED },
                                           { "ln_2", "ffn_norm", LS_GGUF_PLAIN },
                                           { "mlp.c_fc", "ffn_up", LS_GGUF_TURNED },
                                           { "mlp.c_proj", "ffn_down", LS_GGUF_TURNED },
                                           { NULL, NULL, LS_GGUF_PLAIN } };

static const ls_gguf_arch MODELS[] = {
    { "llama", "llama", .turns = true, .layers = "model.layers.", .top = TOP, .layer = LAYER },
    { "mistral", "llama", .turns = true, .layers = "model.layers.", .top = TOP, .layer = LAYER },
    { "qwen2", "qwen2", .layers = "model.layers.", .top = TOP, .layer = LAYER },
    { "qwen3", "qwen3", .layers = "model.layers.", .top = TOP, .layer = LAYER },
    { "gemma3_text", "gemma3", .gemma = true, .layers = "model.layers.", .top = GEMMA_TOP,
      .layer = GEMMA_LAYER },
    { "gpt2", "gpt2", .gpt2 = true, .layers = "h.", .top = GPT2_TOP, .layer = GPT2_LAYER },
};
enum {
    N_MODELS = sizeof MODELS / sizeof MODELS[0],
    GEMMA_EVERY = 6,   /* llama.cpp: which layers of a Gemma 3 have no window */
    GEMMA_LARGEST = 62 /* layers of the 27B, whose scores it divides otherwise */
};

/* What llama.cpp's gemma3 takes as given. */
static ls_status check_gemma(const ls_recipe *r, const char *dir)
{
    const double width = (double)ls_recipe_head_dim(r),
                 own = r->model.layers == GEMMA_LARGEST
                           ? (double)r->model.hidden_size / (double)r->model.heads
                           : width,
                 scalar = r->model.query_scalar != 0 ? r->model.query_scalar : width;
    if (scalar != own)
        return ls_fail(LS_E_UNSUPPORTED,
                       "%s: query_pre_attn_scalar is %g, and llama.cpp's gemma3 with %lld layers has %g", dir,
                       scalar, (long long)r->model.layers, own);
    if (!r->model.window || r->model.global_every != GEMMA_EVERY)
        return ls_fail(LS_E_UNSUPPORTED,
                       "%s: llama.cpp's gemma3 has a window in five of six layers, and this model one of "
                       "%lld tokens in all but every layer number %lld",
                       dir, (long long)r->model.window, (long long)r->model.global_every);
    return LS_OK;
}

ls_status ls_gguf_arch_find(const ls_gguf_arch **out, const ls_recipe *r, const char *dir)
{
    ls_str names = { 0 };
    *out = NULL;
    for (int i = 0; i < N_MODELS && !*out; i++) {
        if (!strcmp(MODELS[i].type, r->model.type))
            *out = &MODELS[i];
        ls_str_printf(&names, "%s%s", i ? ", " : "", MODELS[i].type);
    }
    const ls_status s =
        *out ? LS_OK
             : ls_fail(
                   LS_E_UNSUPPORTED,
                   "%s: a model of type %s cannot become GGUF, which this version writes for decoders: %s; "
                   "other models leave as safetensors",
                   dir, r->model.type, ls_str_text(&names));
    ls_str_release(&names);
    LS_TRY(s);
    if ((*out)->gemma)
        return check_gemma(r, dir);
    return r->model.window
               ? ls_fail(LS_E_UNSUPPORTED,
                         "%s: llama.cpp's %s has no attention window, and this model one of %lld tokens", dir,
                         (*out)->arch, (long long)r->model.window)
               : LS_OK;
}

const ls_gguf_name *ls_gguf_name_find(const ls_gguf_name *rows, const char *name, const char **ending)
{
    for (; rows->theirs; rows++) {
        const size_t n = strlen(rows->theirs);
        *ending = name + n;
        if (!strncmp(name, rows->theirs, n) && (!strcmp(*ending, ".weight") || !strcmp(*ending, ".bias")))
            return rows;
    }
    return NULL;
}
