/* test_gguf.c - a Llama with SentencePiece's tokenizer as a GGUF file: keys, names, scores, the order of
 * rows; what becomes of the weights of GPT-2 and Gemma 3; and models and tokenizers that are refused, because
 * llama.cpp would compute or split something else. cli.leave has byte-level tokenizers and the command. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "setup/gguf_model.h"
#include "support/support.h"

#define CONFIG                                                                                               \
    "{\"model_type\":\"llama\",\"hidden_size\":8,\"intermediate_size\":32,\"num_hidden_layers\":1,"          \
    "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"vocab_size\":265,\"max_position_embeddings\":16," \
    "\"rms_norm_eps\":1e-5,\"tie_word_embeddings\":true,\"eos_token_id\":[2,264]}"

/* <unk> <s> </s>, 256 bytes, then a b c ab abc; merges in the order of SentencePiece's pieces */
#define MERGES "[[\"a\",\"b\"],[\"ab\",\"c\"]]"
#define SPACES                                                                                  \
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":" \
    "\"\xe2\x96\x81\"},"                                                                        \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xe2\x96\x81\"}]},"
#define BEGIN                                                                                            \
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"," \
    "\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"special_tokens\":{\"<s>\":{\"id\":"  \
    "\"<s>\",\"ids\":[1],\"tokens\":[\"<s>\"]}}},"

static void write_text(const char *name, const char *text)
{
    ASSERT_OK(ls_file_write(ls_test_path(name), text, strlen(text)));
}

static void write_tokenizer(const char *before, const char *merges, const char *model)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    fprintf(f, "{%s\"added_tokens\":[", before);
    static const char *const SPECIAL[] = { "<unk>", "<s>", "</s>" };
    for (int i = 0; i < 3; i++)
        fprintf(f, "%s{\"id\":%d,\"content\":\"%s\",\"special\":true}", i ? "," : "", i, SPECIAL[i]);
    fprintf(f, "],\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",%s\"merges\":%s,\"vocab\":{", model,
            merges);
    for (int i = 0; i < 3; i++)
        fprintf(f, "\"%s\":%d,", SPECIAL[i], i);
    for (int b = 0; b < 256; b++)
        fprintf(f, "\"<0x%02X>\":%d,", (unsigned)b, b + 3);
    fprintf(f, "\"ab\":259,\"abc\":260,\"a\":261,\"b\":262,\"c\":263%s}}}",
            strstr(merges, "[\"b\",\"c\"]") ? ",\"bc\":264" : "");
    fclose(f);
    write_text("tokenizer.json", text);
    free(text);
}

static const struct {
    const char *name;
    int64_t rows, columns;
} TENSORS[] = {
    { "model.embed_tokens.weight", 265, 8 },
    { "model.norm.weight", 8, 0 },
    { "model.layers.0.input_layernorm.weight", 8, 0 },
    { "model.layers.0.post_attention_layernorm.weight", 8, 0 },
    { "model.layers.0.self_attn.q_proj.weight", 8, 8 },
    { "model.layers.0.self_attn.k_proj.weight", 4, 8 },
    { "model.layers.0.self_attn.v_proj.weight", 4, 8 },
    { "model.layers.0.self_attn.o_proj.weight", 8, 8 },
    { "model.layers.0.mlp.gate_proj.weight", 32, 8 },
    { "model.layers.0.mlp.up_proj.weight", 32, 8 },
    { "model.layers.0.mlp.down_proj.weight", 8, 32 },
};
enum { N = sizeof TENSORS / sizeof TENSORS[0] };

/* Tensor `without` is left out, tensor `other` has the name "model.other.weight". */
static void write_weights(int without, int other)
{
    static float x[265 * 8];
    ls_named_tensor list[N];
    int n = 0;
    for (int i = 0; i < 265 * 8; i++)
        x[i] = (float)(i % 97) / 64;
    for (int i = 0; i < N; i++) {
        const ls_type t = TENSORS[i].columns
                              ? (ls_type){ .dtype = LS_F32,
                                           .ndim = 2,
                                           .dims = { TENSORS[i].rows, TENSORS[i].columns } }
                              : (ls_type){ .dtype = LS_F32, .ndim = 1, .dims = { TENSORS[i].rows } };
        if (i != without)
            list[n++] = (ls_named_tensor){ i == other ? "model.other.weight" : TENSORS[i].name,
                                           ls_tensor_of(x, &t) };
    }
    ASSERT_OK(ls_weights_save(ls_test_path("model.safetensors"), n, list));
}

static ls_status export_to(const char *name, ls_gguf_mix mix)
{
    const ls_weights_export_opts opts = { LS_WEIGHTS_EXPORT_DEFAULTS };
    ls_weights *w;
    LS_TRY(ls_weights_open(&w, ls_test_dir()));
    const ls_status s = ls_gguf_export(w, ls_test_dir(), ls_test_path(name), mix, &opts);
    ls_weights_close(&w);
    return s;
}

static int make(void **state)
{
    (void)state;
    write_text("config.json", CONFIG);
    write_tokenizer(SPACES BEGIN, MERGES, "\"byte_fallback\":true,");
    write_text("tokenizer_config.json", "{\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":\"</s>\","
                                        "\"chat_template\":[{\"name\":\"tools\",\"template\":\"no\"},"
                                        "{\"name\":\"default\",\"template\":\"{{ messages }}\"}]}");
    write_weights(-1, -1);
    return 0;
}

static void a_llama_leaves_with_its_tokenizer(void **state)
{
    (void)state;
    ls_weights *w;
    char *bytes;
    size_t n;
    ASSERT_OK(export_to("a.gguf", LS_GGUF_UNCHANGED));
    ASSERT_OK(ls_weights_open(&w, ls_test_path("a.gguf")));
    char *keys = json_dumps(ls_gguf_keys_of(w), JSON_COMPACT | JSON_REAL_PRECISION(15));
    static const char *const HAS[] = { "\"general.architecture\":\"llama\"",
                                       "\"llama.context_length\":16",
                                       "\"llama.attention.head_count_kv\":1",
                                       "\"llama.rope.dimension_count\":4",
                                       "\"tokenizer.ggml.model\":\"llama\"",
                                       "\"tokenizer.ggml.bos_token_id\":1",
                                       "\"tokenizer.ggml.eos_token_id\":2",
                                       "\"tokenizer.ggml.eot_token_id\":264",
                                       "\"tokenizer.ggml.add_bos_token\":true",
                                       "\"tokenizer.ggml.add_space_prefix\":true",
                                       "\"tokenizer.chat_template\":\"{{ messages }}\"" };
    for (size_t i = 0; i < sizeof HAS / sizeof HAS[0]; i++)
        ASSERT_CONTAINS(keys, HAS[i]);
    free(keys);
    float q[8 * 8];
    ASSERT_OK(ls_weight_read(ls_weights_find(w, "blk.0.attn_q.weight"), LS_F32, q));
    static const int FROM[] = { 0, 2, 1, 3, 4, 6, 5, 7 }; /* halves of heads of 4 rows take turns */
    for (int r = 0; r < 8; r++)
        assert_true(q[8 * r] == (float)(8 * FROM[r] % 97) / 64);
    assert_null(ls_weights_find(w, "output.weight"));
    ls_weights_close(&w);
    ASSERT_OK(ls_file_read(&bytes, &n, ls_test_path("a.gguf")));
    /* tokens 0 and 261 to 264 have no score; ab -1, abc -2; <unk> unknown, <s> control, bytes, the last one
     * unused */
    if (ls_hash64(bytes, n) != 0x6901e01befc2f0bd)
        print_message("%zu bytes, hash %016llx\n", n, (unsigned long long)ls_hash64(bytes, n));
    assert_true(ls_hash64(bytes, n) == 0x6901e01befc2f0bd);
    free(bytes);
}

static void types_follow_the_rows(void **state)
{
    (void)state;
    ls_weights *w;
    ASSERT_OK(export_to("k.gguf", LS_GGUF_MIX_Q4_K_M));
    ASSERT_OK(ls_weights_open(&w, ls_test_path("k.gguf")));
    assert_string_equal(ls_weights_find(w, "token_embd.weight")->stored, "F16"); /* rows of 8 */
    assert_string_equal(ls_weights_find(w, "blk.0.ffn_down.weight")->stored,
                        "Q8_0"); /* of 32, an important one */
    assert_string_equal(ls_weights_find(w, "output_norm.weight")->stored, "F32");
    ls_weights_close(&w);
}

static void other_tokenizers_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *before, *merges, *model, *say;
    } CASES[] = {
        { SPACES BEGIN, "[[\"ab\",\"c\"],[\"a\",\"b\"]]", "\"byte_fallback\":true,",
          NULL }, /* in another order: fine */
        { SPACES, "[[\"a\",\"b\"]]", "\"byte_fallback\":true,", "token 260 (\"abc\") is not made wherever" },
        { SPACES, "[[\"a\",\"b\"],[\"b\",\"c\"],[\"ab\",\"c\"]]", "\"byte_fallback\":true,",
          "token 260 (\"abc\") is not made wherever" }, /* nor of a and bc */
        { "", MERGES, "\"byte_fallback\":true,", "does more than to put U+2581" },
        { "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\",\"prepend_scheme\":"
          "\"first\","
          "\"split\":true},",
          MERGES, "\"byte_fallback\":true,", "does more than to put U+2581" },
        { "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\",\"prepend_scheme\":"
          "\"never\","
          "\"split\":false},",
          MERGES, "\"byte_fallback\":true,", NULL },
        { "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true},", MERGES, "",
          "(another ByteLevel)" },
        { "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},", MERGES,
          "\"ignore_merges\":true,", "(bytes, words of GPT-2) is none of those" },
        { "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},", MERGES, "", NULL },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        write_tokenizer(CASES[i].before, CASES[i].merges, CASES[i].model);
        if (CASES[i].say)
            ASSERT_FAILS(export_to("no.gguf", LS_GGUF_UNCHANGED), LS_E_UNSUPPORTED, "tokenizer.json",
                         CASES[i].say);
        else
            ASSERT_OK(export_to("no.gguf", LS_GGUF_UNCHANGED));
    }
    make(state);
}

static void other_weights_are_refused(void **state)
{
    (void)state;
    write_weights(10, -1);
    write_text("config.json", "{\"model_type\":\"llama\",\"hidden_size\":8,\"intermediate_size\":32,"
                              "\"num_hidden_layers\":2,\"num_attention_heads\":2,\"vocab_size\":265}");
    ASSERT_FAILS(export_to("no.gguf", LS_GGUF_UNCHANGED), LS_E_SHAPE,
                 "\"model.layers.0.self_attn.k_proj.weight\"", "has 4 rows; 2 heads of 4 have 8");
    make(state);
    write_weights(1, -1);
    ASSERT_FAILS(export_to("no.gguf", LS_GGUF_UNCHANGED), LS_E_SHAPE, "have no last norm");
    write_weights(-1, 8);
    ASSERT_FAILS(export_to("no.gguf", LS_GGUF_UNCHANGED), LS_E_UNSUPPORTED, "\"model.other.weight\"",
                 "llama.cpp's llama has no tensor for it");
    write_weights(-1, -1);
    write_text("config.json", "{\"model_type\":\"t5\"}");
    ASSERT_FAILS(export_to("no.gguf", LS_GGUF_UNCHANGED), LS_E_UNSUPPORTED, "type t5 cannot become GGUF",
                 "for decoders: llama, mistral, qwen2, qwen3");
    make(state);
}

/* ---- models with other names and changes */

typedef struct shape {
    const char *name;
    int64_t rows, columns;
} shape;

/* x[i] = i / 64, of each tensor */
static void write_shapes(const shape *shapes, int n)
{
    static float x[265 * 8];
    ls_named_tensor list[16];
    for (int i = 0; i < 265 * 8; i++)
        x[i] = (float)i / 64;
    for (int i = 0; i < n; i++) {
        const ls_type t = { .dtype = LS_F32,
                            .ndim = shapes[i].columns ? 2 : 1,
                            .dims = { shapes[i].rows, shapes[i].columns } };
        list[i] = (ls_named_tensor){ shapes[i].name, ls_tensor_of(x, &t) };
    }
    ASSERT_OK(ls_weights_save(ls_test_path("model.safetensors"), n, list));
}

#define SIZES "\"vocab_size\":265,\"tie_word_embeddings\":true,\"eos_token_id\":2,"

/* Matrices of GPT-2 are [in, out]; the files of the hub have names without "transformer.", and masks. */
static void gpt2_is_turned(void **state)
{
    static const shape HUB[] = { { "wte.weight", 265, 8 },          { "wpe.weight", 16, 8 },
                                 { "ln_f.weight", 8, 0 },           { "ln_f.bias", 8, 0 },
                                 { "h.0.ln_1.weight", 8, 0 },       { "h.0.attn.c_attn.weight", 8, 24 },
                                 { "h.0.attn.c_attn.bias", 24, 0 }, { "h.0.attn.c_proj.weight", 8, 8 },
                                 { "h.0.mlp.c_fc.weight", 8, 32 },  { "h.0.mlp.c_proj.weight", 32, 8 },
                                 { "h.0.attn.bias", 8, 8 } };
    ls_weights *w;
    float x[24 * 8];
    write_text("config.json", "{\"model_type\":\"gpt2\"," SIZES "\"n_embd\":8,\"n_layer\":1,\"n_head\":2,"
                              "\"n_positions\":16}");
    write_shapes(HUB, 11);
    ASSERT_OK(export_to("gpt2.gguf", LS_GGUF_MIX_BF16));
    ASSERT_OK(ls_weights_open(&w, ls_test_path("gpt2.gguf")));
    char *keys = json_dumps(ls_gguf_keys_of(w), JSON_COMPACT);
    ASSERT_CONTAINS(keys, "\"gpt2.context_length\":16");
    ASSERT_CONTAINS(keys, "\"gpt2.attention.layer_norm_epsilon\":");
    assert_null(strstr(keys, "rope"));
    free(keys);
    assert_int_equal(ls_weights_count(w), 10);
    const ls_weight *qkv = ls_weights_find(w, "blk.0.attn_qkv.weight");
    assert_true(qkv && qkv->type.dims[0] == 24 && qkv->type.dims[1] == 8);
    ASSERT_OK(ls_weight_read(qkv, LS_F32, x));
    assert_true(x[1] == 24.0F / 64 && x[8] == 1.0F / 64);
    assert_string_equal(ls_weights_find(w, "position_embd.weight")->stored, "F32");
    assert_non_null(ls_weights_find(w, "blk.0.attn_qkv.bias"));
    ls_weights_close(&w);
    write_shapes(HUB + 2, 9);
    ASSERT_FAILS(export_to("no.gguf", LS_GGUF_UNCHANGED), LS_E_SHAPE, "have no table of embeddings");
    make(state);
}

#define GEMMA(more)                                                                               \
    "{\"model_type\":\"gemma3_text\"," SIZES "\"hidden_size\":8,\"intermediate_size\":32,"        \
    "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"num_key_value_heads\":1,\"head_dim\":4," \
    "\"hidden_activation\":\"gelu_pytorch_tanh\",\"rope_local_base_freq\":500," more "}"
#define FITS "\"query_pre_attn_scalar\":4,\"sliding_window\":8"

/* A norm of Gemma multiplies by 1 + w. */
static void gemma_gets_one_more(void **state)
{
    static const shape LAYER[] = { { "model.embed_tokens.weight", 265, 8 },
                                   { "model.norm.weight", 8, 0 },
                                   { "model.layers.0.self_attn.q_norm.weight", 4, 0 },
                                   { "model.layers.0.pre_feedforward_layernorm.weight", 8, 0 },
                                   { "model.layers.0.post_attention_layernorm.weight", 8, 0 } };
    ls_weights *w;
    float x[8];
    write_text("config.json", GEMMA(FITS));
    write_shapes(LAYER, 5);
    ASSERT_OK(export_to("gemma.gguf", LS_GGUF_MIX_F32));
    ASSERT_OK(ls_weights_open(&w, ls_test_path("gemma.gguf")));
    char *keys = json_dumps(ls_gguf_keys_of(w), JSON_COMPACT);
    ASSERT_CONTAINS(keys, "\"gemma3.attention.sliding_window\":8");
    ASSERT_CONTAINS(keys, "\"gemma3.rope.freq_base_swa\":500");
    free(keys);
    static const char *const NORMS[] = { "output_norm.weight", "blk.0.ffn_norm.weight",
                                         "blk.0.post_attention_norm.weight" };
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(ls_weight_read(ls_weights_find(w, NORMS[i]), LS_F32, x));
        assert_true(x[0] == 1 && x[7] == 1 + 7.0F / 64);
    }
    ls_weights_close(&w);
    write_text("config.json", GEMMA("\"query_pre_attn_scalar\":8,\"sliding_window\":8"));
    ASSERT_FAILS(export_to("no.gguf", LS_GGUF_UNCHANGED), LS_E_UNSUPPORTED,
                 "query_pre_attn_scalar is 8, and llama.cpp's gemma3 with 1 layers has 4");
    write_text("config.json", GEMMA(FITS ",\"sliding_window_pattern\":3"));
    ASSERT_FAILS(export_to("no.gguf", LS_GGUF_UNCHANGED), LS_E_UNSUPPORTED, "a window in five of six layers",
                 "all but every layer number 3");
    make(state);
}

static ls_status again(void *name) { return export_to(name, LS_GGUF_MIX_Q8_0); }

static void no_memory_is_a_status(void **state)
{
    (void)state;
    assert_true(ls_test_memory(again, (char[]){ "memory.gguf" }, 7) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_llama_leaves_with_its_tokenizer),
        cmocka_unit_test(types_follow_the_rows),
        cmocka_unit_test(other_tokenizers_are_refused),
        cmocka_unit_test(other_weights_are_refused),
        cmocka_unit_test(gpt2_is_turned),
        cmocka_unit_test(gemma_gets_one_more),
        cmocka_unit_test(no_memory_is_a_status),
    };
    return cmocka_run_group_tests(tests, make, NULL);
}
