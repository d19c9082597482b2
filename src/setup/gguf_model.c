/* gguf_model.c - see gguf_model.h. */
#include "gguf_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "base/sys.h"
#include "ckpt/adapter.h"
#include "folder.h"
#include "gguf_names.h"
#include "gguf_tokenizer.h"
#include "recipe/model_row.h"

/* ---- names */

typedef struct model {
    const ls_recipe *r;
    const ls_gguf_arch *row;
    const ls_weights *w;
    ls_gguf_tensor *tensors;
    int64_t n;
    int64_t *seen; /* [layers]: how many tensors of each */
    /* Llama 3's slower rotations, which llama.cpp has as a tensor: by what the angle of each pair is divided
     */
    ls_weight rotations;
    float *divisors;
} model;

/* What no layer uses, and the head that is the table of the embedding. */
static bool is_left_out(const model *m, const char *name)
{
    const ls_second_name *second = ls_recipe_model(m->r)->second_names;
    for (; second && second->name; second++)
        if (!strcmp(second->name, name))
            return !second->if_tied || m->r->model.tied;
    return strstr(name, "rotary_emb.inv_freq") || ls_ends_with(name, ".attn.bias") ||
           ls_ends_with(name, ".attn.masked_bias"); /* masks in older files of GPT-2 */
}

static ls_status check_heads(const model *m, const ls_weight *t, int64_t n)
{
    const int64_t rows = t->type.dims[0], want = n * ls_recipe_head_dim(m->r);
    return rows == want ? LS_OK
                        : ls_fail(LS_E_SHAPE, "%s: tensor \"%s\" has %lld rows; %lld heads of %lld have %lld",
                                  t->file, t->name, (long long)rows, (long long)n,
                                  (long long)ls_recipe_head_dim(m->r), (long long)want);
}

static int64_t heads_of(const ls_recipe *r, ls_gguf_way way)
{
    return way == LS_GGUF_KEYS && r->model.kv_heads ? r->model.kv_heads : r->model.heads;
}

/* Where the model rotates neighbours, and these are rows of heads. */
static ls_status take_turns(const model *m, const ls_gguf_name *row, const ls_weight *t, ls_gguf_tensor *to)
{
    if (!m->row->turns || (row->way != LS_GGUF_QUERIES && row->way != LS_GGUF_KEYS))
        return LS_OK;
    to->change = LS_GGUF_TAKE_TURNS;
    to->heads = heads_of(m->r, row->way);
    return check_heads(m, t, to->heads);
}

/* Sets the name of a tensor that transformers calls `name`. NULL: llama.cpp has none of it. */
static const ls_gguf_name *translate(model *m, const char *name, ls_gguf_tensor *to)
{
    static const char OWN[] = "transformer.";
    name += m->row->gpt2 && !strncmp(name, OWN, strlen(OWN)) ? strlen(OWN) : 0;
    const size_t n = strlen(m->row->layers);
    const char *ending;
    char *rest;
    const ls_gguf_name *row = ls_gguf_name_find(m->row->top, name, &ending);
    if (row) {
        snprintf(to->name, sizeof to->name, "%s%s", row->ours, ending);
    } else if (!strncmp(name, m->row->layers, n)) {
        const long layer = strtol(name + n, &rest, 10);
        row = *rest == '.' && layer >= 0 && layer < m->r->model.layers
                  ? ls_gguf_name_find(m->row->layer, rest + 1, &ending)
                  : NULL;
        if (row) {
            snprintf(to->name, sizeof to->name, "blk.%ld.%s%s", layer, row->ours, ending);
            m->seen[layer]++;
        }
    }
    return row;
}

static ls_status add_tensor(model *m, const ls_weight *t)
{
    const char *name = t->name;
    ls_gguf_tensor *to = &m->tensors[m->n];
    if (is_left_out(m, name))
        return LS_OK;
    *to = (ls_gguf_tensor){ .from = t };
    const ls_gguf_name *row = translate(m, name, to);
    if (!row || t->type.ndim < 1 || t->type.ndim > 2 || !t->loadable || !ls_dtype_is_float(t->type.dtype))
        return ls_fail(LS_E_UNSUPPORTED,
                       "%s: tensor \"%s\": llama.cpp's %s has no tensor for it: export a plain %s model%s",
                       t->file, name, m->row->arch, m->row->type,
                       strstr(name, "lora_") ? " (--merge merges its adapters)" : "");
    if (row->way == LS_GGUF_TURNED && t->type.ndim == 2)
        to->change = LS_GGUF_TRANSPOSE;
    else if (row->way == LS_GGUF_NORM)
        to->change = LS_GGUF_ADD_ONE;
    else
        LS_TRY(take_turns(m, row, t, to));
    m->n++;
    return LS_OK;
}

/* "model.layers.0.self_attn.q_proj.lora_B.weight" becomes "blk.0.attn_q.weight.lora_b". Of B the rows are
 * those of the layer. */
static ls_status add_adapter(model *m, const ls_weight *t)
{
    static const char *const ENDS[] = { ".lora_A.weight", ".lora_B.weight" };
    ls_gguf_tensor *to = &m->tensors[m->n];
    char plain[256];
    const ls_gguf_name *row = NULL;
    bool b = false;
    *to = (ls_gguf_tensor){ .from = t, .kind = ls_gguf_kind_named("F32") };
    for (int i = 0; i < 2 && !row; i++)
        if (ls_ends_with(t->name, ENDS[i]) && strlen(t->name) < sizeof plain) {
            snprintf(plain, sizeof plain, "%.*s.weight", (int)(strlen(t->name) - strlen(ENDS[i])), t->name);
            row = translate(m, plain, to);
            b = i;
        }
    const size_t n = strlen(to->name);
    if (!row || t->type.ndim != 2 || !t->loadable || n + 8 > sizeof to->name)
        return ls_fail(
            LS_E_UNSUPPORTED,
            "%s: tensor \"%s\": llama.cpp's adapters of %s have no tensor for it: --merge writes the whole "
            "model",
            t->file, t->name, m->row->arch);
    memcpy(to->name + n, b ? ".lora_b" : ".lora_a", 8);
    if (b)
        LS_TRY(take_turns(m, row, t, to));
    m->n++;
    return LS_OK;
}

static const ls_gguf_tensor *find_tensor(const model *m, const char *name)
{
    for (int64_t i = 0; i < m->n; i++)
        if (!strcmp(m->tensors[i].name, name))
            return &m->tensors[i];
    return NULL;
}

static ls_status missing(const char *dir, const char *what)
{
    return ls_fail(LS_E_SHAPE, "%s: its weights have no %s, which config.json describes", dir, what);
}

static ls_status check_whole(const model *m, const char *dir)
{
    char what[64];
    const ls_gguf_tensor *table = find_tensor(m, "token_embd.weight");
    if (!table || table->from->type.dims[0] != m->r->model.vocab_size)
        return missing(dir, "table of embeddings with vocab_size rows");
    if (!find_tensor(m, "output_norm.weight"))
        return missing(dir, "last norm");
    if (!m->r->model.tied && !find_tensor(m, "output.weight"))
        return missing(dir, "head");
    if (m->row->gpt2 && !find_tensor(m, "position_embd.weight"))
        return missing(dir, "table of positions");
    for (int64_t i = 0; i < m->r->model.layers; i++)
        if (!m->seen[i] || m->seen[i] != m->seen[0]) {
            snprintf(what, sizeof what, "whole layer %lld", (long long)i);
            return missing(dir, what);
        }
    return LS_OK;
}

/* As ls_rope_scaled turns them. */
static ls_status add_rotations(model *m)
{
    const ls_recipe *r = m->r;
    const int64_t width = ls_recipe_head_dim(r), pairs = width / 2;
    const double low = r->model.rope_low, high = r->model.rope_high;
    if (r->model.rope_scaling != LS_ROPE_LLAMA3)
        return LS_OK;
    LS_TRY(ls_sys_have(m->divisors = ls_sys_malloc(sizeof *m->divisors * (size_t)pairs)));
    for (int64_t i = 0; i < pairs; i++) {
        const double angle = pow(r->model.rope_theta, -2.0 * (double)i / (double)width),
                     turns = (double)r->model.rope_original * angle / 6.283185307179586,
                     part = turns < low    ? 0
                            : turns > high ? 1
                                           : (turns - low) / (high - low);
        m->divisors[i] = (float)(1 / ((1 - part) / r->model.rope_factor + part));
    }
    m->rotations = (ls_weight){ .name = "rope_freqs",
                                .file = "config.json",
                                .stored = "F32",
                                .loadable = true,
                                .type = LS_TYPE(LS_F32, pairs),
                                .bytes = sizeof *m->divisors * (uint64_t)pairs,
                                .data = m->divisors };
    m->tensors[m->n++] = (ls_gguf_tensor){ .from = &m->rotations, .name = "rope_freqs.weight" };
    return LS_OK;
}

static ls_status collect(model *m, ls_status (*add)(model *m, const ls_weight *t))
{
    const int64_t n = ls_weights_count(m->w);
    m->tensors = ls_sys_calloc((size_t)n + 2, sizeof *m->tensors); /* with rotations */
    m->seen = ls_sys_calloc((size_t)m->r->model.layers + 1, sizeof *m->seen);
    LS_TRY(ls_sys_have(m->tensors && m->seen ? m->tensors : NULL));
    for (int64_t i = 0; i < n; i++)
        LS_TRY(add(m, ls_weights_at(m->w, i)));
    return LS_OK;
}

/* ---- types */

static const struct {
    const char *matrices;
    uint32_t file_type; /* llama.cpp's number */
} MIXES[] = {
    [LS_GGUF_MIX_F32] = { "F32", 0 },    [LS_GGUF_MIX_F16] = { "F16", 1 },
    [LS_GGUF_MIX_BF16] = { "BF16", 32 }, [LS_GGUF_MIX_Q8_0] = { "Q8_0", 7 },
    [LS_GGUF_MIX_Q4_0] = { "Q4_0", 2 },  [LS_GGUF_MIX_Q4_K_M] = { "Q4_K", 15 },
};

static ls_gguf_mix resolved(ls_gguf_mix mix, const model *m)
{
    for (int64_t i = 0; mix == LS_GGUF_UNCHANGED && i < m->n; i++)
        if (m->tensors[i].from->type.ndim == 2)
            mix = m->tensors[i].from->type.dtype == LS_BF16  ? LS_GGUF_MIX_BF16
                  : m->tensors[i].from->type.dtype == LS_F16 ? LS_GGUF_MIX_F16
                                                             : LS_GGUF_MIX_F32;
    return mix == LS_GGUF_UNCHANGED ? LS_GGUF_MIX_F32 : mix;
}

/* The first and the last eighth of the layers, and every third of the others. */
static bool has_more_bits(int64_t layer, int64_t layers)
{
    return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

/* The matrix that gives the logits counts most, then values and the way out of the MLP. */
static bool is_important(const model *m, const ls_gguf_tensor *t, ls_gguf_mix mix)
{
    long long layer;
    char what[32] = "";
    if (!strcmp(t->name, "output.weight") ||
        (!strcmp(t->name, "token_embd.weight") && !find_tensor(m, "output.weight")))
        return true;
    return mix == LS_GGUF_MIX_Q4_K_M && sscanf(t->name, "blk.%lld.%31s", &layer, what) == 2 &&
           (!strcmp(what, "attn_v.weight") || !strcmp(what, "ffn_down.weight")) &&
           has_more_bits(layer, m->r->model.layers);
}

/* Norms, biases and a table of positions stay f32. Rows that are not whole blocks take smaller blocks, or
 * none. */
static const ls_gguf_kind *kind_of(const model *m, const ls_gguf_tensor *t, ls_gguf_mix mix)
{
    const int64_t row = ls_gguf_row(t);
    if (t->from->type.ndim < 2 || !strcmp(t->name, "position_embd.weight"))
        return ls_gguf_kind_named("F32");
    const bool packed = mix == LS_GGUF_MIX_Q4_0 || mix == LS_GGUF_MIX_Q4_K_M,
               important = packed && is_important(m, t, mix);
    const ls_gguf_kind *k = ls_gguf_kind_named(important ? "Q6_K" : MIXES[mix].matrices);
    if (row % k->block)
        k = ls_gguf_kind_named(important ? "Q8_0" : "Q5_0");
    return row % k->block ? ls_gguf_kind_named("F16") : k;
}

static void set_kinds(model *m, ls_gguf_mix mix)
{
    int64_t others = 0;
    for (int64_t i = 0; i < m->n; i++) {
        ls_gguf_tensor *t = &m->tensors[i];
        t->kind = kind_of(m, t, mix);
        others += t->from->type.ndim == 2 && ls_gguf_row(t) % ls_gguf_kind_named(MIXES[mix].matrices)->block;
    }
    if (others)
        ls_log_info(
            "%lld matrices have rows that are not whole blocks of %d: they take types with smaller blocks",
            (long long)others, ls_gguf_kind_named(MIXES[mix].matrices)->block);
}

/* ---- keys */

static void key_name(char out[96], const model *m, const char *key)
{
    snprintf(out, 96, "%s.%s", m->row->arch, key);
}

static void put_u32(ls_gguf_keys *k, const model *m, const char *key, int64_t value)
{
    char name[96];
    key_name(name, m, key);
    ls_gguf_u32(k, name, (uint32_t)value);
}

static void put_f32(ls_gguf_keys *k, const model *m, const char *key, double value)
{
    char name[96];
    key_name(name, m, key);
    ls_gguf_f32(k, name, (float)value);
}

static void put_model(ls_gguf_keys *k, const model *m, ls_gguf_mix mix)
{
    const ls_recipe *r = m->r;
    const int64_t width = ls_recipe_head_dim(r);
    ls_gguf_text(k, "general.architecture", m->row->arch);
    ls_gguf_text(k, "general.type", "model");
    ls_gguf_u32(k, "general.file_type", MIXES[mix].file_type);
    ls_gguf_u32(k, "general.quantization_version", 2);
    put_u32(k, m, "vocab_size", r->model.vocab_size);
    put_u32(k, m, "context_length", m->row->gpt2 ? r->model.positions : r->data.seq_length);
    put_u32(k, m, "embedding_length", r->model.hidden_size);
    put_u32(k, m, "block_count", r->model.layers);
    put_u32(k, m, "feed_forward_length", r->model.mlp_size);
    put_u32(k, m, "attention.head_count", r->model.heads);
    if (m->row->gpt2) {
        put_f32(k, m, "attention.layer_norm_epsilon", r->model.norm_eps);
        return;
    }
    put_u32(k, m, "attention.head_count_kv", heads_of(r, LS_GGUF_KEYS));
    put_u32(k, m, "attention.key_length", width);
    put_u32(k, m, "attention.value_length", width);
    put_f32(k, m, "attention.layer_norm_rms_epsilon", r->model.norm_eps);
    put_u32(k, m, "rope.dimension_count", width);
    put_f32(k, m, "rope.freq_base", r->model.rope_theta);
    if (r->model.rope_scaling == LS_ROPE_LINEAR) {
        char name[96];
        key_name(name, m, "rope.scaling.type");
        ls_gguf_text(k, name, "linear");
        put_f32(k, m, "rope.scaling.factor", r->model.rope_factor);
    }
    if (m->row->gemma) {
        put_u32(k, m, "attention.sliding_window", r->model.window);
        put_u32(k, m, "attention.sliding_window_pattern", r->model.global_every);
        put_f32(k, m, "rope.freq_base_swa", r->model.local_theta);
    }
}

/* ---- */

static ls_status export_model(model *m, const char *dir, const char *to, ls_gguf_mix mix,
                              const ls_weights_export_opts *o)
{
    enum { MOST_ENDS = 8 };
    ls_gguf_keys keys = { 0 };
    int32_t ends[MOST_ENDS];
    int n_ends;
    LS_TRY(ls_folder_ends(ends, MOST_ENDS, &n_ends, dir));
    LS_TRY(ls_gguf_arch_find(&m->row, m->r, dir));
    LS_TRY(collect(m, add_tensor));
    LS_TRY(add_rotations(m));
    LS_TRY(check_whole(m, dir));
    mix = resolved(mix, m);
    set_kinds(m, mix);
    put_model(&keys, m, mix);
    ls_status s = ls_gguf_tokenizer(&keys, dir, m->r->model.vocab_size, ends, n_ends);
    if (s == LS_OK)
        s = ls_str_status(&keys.text);
    if (s == LS_OK)
        s = ls_gguf_write(to, &keys, m->n, m->tensors, o);
    ls_str_release(&keys.text);
    return s;
}

ls_status ls_gguf_export(const ls_weights *w, const char *dir, const char *to, ls_gguf_mix mix,
                         const ls_weights_export_opts *o)
{
    ls_recipe *r = NULL;
    if (!ls_file_in(dir, "config.json"))
        return ls_fail(
            LS_E_USAGE,
            "%s: GGUF needs the model's settings and its tokenizer beside the weights: give a run, a "
            "checkpoint, or a folder with config.json and tokenizer.json",
            dir);
    LS_TRY(ls_folder_recipe(&r, dir, 0, NULL));
    model m = { .r = r, .w = w };
    const ls_status s = export_model(&m, dir, to, mix, o);
    free(m.tensors);
    free(m.seen);
    free(m.divisors);
    ls_recipe_destroy(&r);
    return s;
}

static ls_status export_adapter(model *m, const ls_adapter *x, const char *dir, const char *to,
                                const ls_weights_export_opts *o)
{
    ls_gguf_keys keys = { 0 };
    LS_TRY(ls_gguf_arch_find(&m->row, m->r, dir));
    LS_TRY(collect(m, add_adapter));
    ls_gguf_text(&keys, "general.architecture", m->row->arch);
    ls_gguf_text(&keys, "general.type", "adapter");
    ls_gguf_text(&keys, "adapter.type", "lora");
    /* (llama.cpp divides by the rank) */
    ls_gguf_f32(&keys, "adapter.lora.alpha",
                (float)(x->rslora ? x->alpha * sqrt((double)x->rank) : x->alpha));
    ls_status s = ls_str_status(&keys.text);
    if (s == LS_OK)
        s = ls_gguf_write(to, &keys, m->n, m->tensors, o);
    ls_str_release(&keys.text);
    return s;
}

ls_status ls_gguf_export_adapter(const ls_weights *w, const ls_adapter *x, const char *dir, const char *base,
                                 const char *to, const ls_weights_export_opts *o)
{
    ls_recipe *r = NULL;
    char *described = NULL;
    LS_TRY(ls_folder_config(&described, dir, base ? base : ""));
    ls_status s = ls_folder_recipe(&r, described, 0, NULL);
    model m = { .r = r, .w = w };
    if (s == LS_OK)
        s = export_adapter(&m, x, dir, to, o);
    free(m.tensors);
    free(m.seen);
    free(m.divisors);
    ls_recipe_destroy(&r);
    free(described);
    return s;
}
