/* test_adapter.c - adapter_config.json, and adapters as tensors: joined with their base, merged into it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "ckpt/adapter.h"
#include "support/support.h"

#define HEAD "{\"peft_type\":\"LORA\",\"r\":4,\"lora_alpha\":10,\"target_modules\":[\"q_proj\",\"mlp.up\"]"

static ls_status parse(ls_adapter *x, ls_arena *a, const char *text)
{
    return ls_adapter_parse(x, a, text, strlen(text), "a.json");
}

static void reads_settings(void **state)
{
    (void)state;
    ls_adapter x;
    ls_arena a;
    ls_arena_init(&a);
    /* what PEFT 0.21 writes of options that are off, and those that say nothing of the adapter */
    ASSERT_OK(parse(&x, &a,
                    HEAD
                    ",\"bias\":\"none\",\"use_dora\":false,\"alpha_pattern\":{},\"layers_to_transform\":null,"
                    "\"megatron_core\":\"megatron.core\",\"qalora_group_size\":16,\"init_lora_weights\":true,"
                    "\"lora_dropout\":0.05,\"use_rslora\":true,\"task_type\":\"CAUSAL_LM\",\"revision\":null,"
                    "\"modules_to_save\":[\"norm\"],\"base_model_name_or_path\":\"some/base\"}"));
    assert_int_equal(x.rank, 4);
    assert_true(x.alpha == 10 && x.dropout == 0.05 && x.rslora);
    assert_string_equal(x.targets, "q_proj mlp.up");
    assert_string_equal(x.base, "some/base");
    ASSERT_OK(parse(&x, &a, "{\"peft_type\":\"LORA\",\"target_modules\":\"all-linear\"}"));
    assert_string_equal(x.targets, "all-linear");
    assert_true(x.rank == 8 && x.alpha == 8 && !*x.base && !x.rslora); /* PEFT's defaults */
    ls_arena_release(&a);
}

static void refuses_options(void **state)
{
    (void)state;
    static const struct {
        const char *option;
        ls_status status;
        const char *says;
    } CASES[] = {
        { "\"use_dora\":true", LS_E_UNSUPPORTED, "\"use_dora\" is true" },
        { "\"bias\":\"all\"", LS_E_UNSUPPORTED, "\"bias\" is \"all\"" },
        { "\"rank_pattern\":{\"q\":2}", LS_E_UNSUPPORTED, "\"rank_pattern\" is {\"q\":2}" },
        { "\"alpha_pattern\":{\"q\":2}", LS_E_UNSUPPORTED, "\"alpha_pattern\"" },
        { "\"layers_to_transform\":[0]", LS_E_UNSUPPORTED, "\"layers_to_transform\"" },
        { "\"layer_replication\":[[0,2]]", LS_E_UNSUPPORTED, "\"layer_replication\"" },
        { "\"trainable_token_indices\":[1]", LS_E_UNSUPPORTED, "\"trainable_token_indices\"" },
        { "\"exclude_modules\":\"lm_head\"", LS_E_UNSUPPORTED, "\"exclude_modules\"" },
        { "\"init_lora_weights\":\"pissa_niter_4\"", LS_E_UNSUPPORTED, "\"init_lora_weights\"" },
        { "\"something_new\":1", LS_E_UNSUPPORTED, "\"something_new\" is 1" },
        { "\"peft_type\":\"IA3\"", LS_E_UNSUPPORTED, "\"peft_type\" is \"IA3\"" },
        { "\"target_modules\":\".*_proj\"", LS_E_UNSUPPORTED, "\"target_modules\" is \".*_proj\"" },
        { "\"target_modules\":[]", LS_E_UNSUPPORTED, "\"target_modules\"" },
        { "\"target_modules\":[3]", LS_E_FORMAT, "not the name of a module" },
        { "\"target_modules\":[\"a b\"]", LS_E_FORMAT, "not the name of a module" },
        { "\"r\":0", LS_E_FORMAT, "r 0" },
        { "\"r\":1.5", LS_E_FORMAT, "r 1.5" },
        { "\"r\":\"4\"", LS_E_FORMAT, "\"r\" is not a number" },
        { "\"lora_alpha\":0", LS_E_FORMAT, "lora_alpha 0" },
        { "\"lora_dropout\":1", LS_E_FORMAT, "lora_dropout 1" },
    };
    ls_adapter x;
    ls_arena a;
    ls_arena_init(&a);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char text[512];
        snprintf(text, sizeof text, HEAD ",%s}", CASES[i].option);
        /* (a key that is there twice is an error of its own) */
        if (strstr(CASES[i].option, "peft_type"))
            snprintf(text, sizeof text, "{%s}", CASES[i].option);
        else if (strstr(CASES[i].option, "target") || strstr(CASES[i].option, "\"r\"") ||
                 strstr(CASES[i].option, "lora_alpha"))
            snprintf(text, sizeof text, "{\"peft_type\":\"LORA\"%s,%s}",
                     strstr(CASES[i].option, "target") ? "" : ",\"target_modules\":[\"a\"]", CASES[i].option);
        ASSERT_FAILS(parse(&x, &a, text), CASES[i].status, "a.json", CASES[i].says);
    }
    ASSERT_FAILS(parse(&x, &a, "{\"r\":4}"), LS_E_UNSUPPORTED, "\"peft_type\" is missing");
    ASSERT_FAILS(parse(&x, &a, "[]"), LS_E_FORMAT, "not a JSON object");
    ASSERT_FAILS(parse(&x, &a, "{"), LS_E_FORMAT, "a.json");
    ls_arena_release(&a);
}

/* What is written is read again. */
static void writes_settings(void **state)
{
    (void)state;
    const ls_adapter x = { 3, 2.5, 0.1, true, true, "q k.v !o", "b" };
    ls_adapter y;
    ls_arena a;
    ls_arena_init(&a);
    char *text = ls_adapter_text(&x, "CAUSAL_LM", "model.norm");
    ASSERT_OK(parse(&y, &a, text));
    assert_true(y.rank == 3 && y.transposed && y.alpha == 2.5 && y.dropout == 0.1 && y.rslora);
    assert_string_equal(y.targets, "q k.v !o");
    ASSERT_CONTAINS(text, "\"target_modules\":[\"q\",\"k.v\"],\"exclude_modules\":[\"o\"]");
    assert_string_equal(y.base, "b");
    ASSERT_CONTAINS(text, "\"modules_to_save\":[\"model.norm\"]");
    ASSERT_CONTAINS(text, "\"task_type\":\"CAUSAL_LM\"");
    free(text);
    ls_arena_release(&a);
}

/* ---- tensors: fc [3, 4] and norm [4] are the base, rank 2 */

static const float W[12] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 }, NORM[4] = { 1, 1, 1, 1 },
                   A[8] = { 0.5F, 0.25F, -1, 2, 1, -0.5F, 0.75F, 4 }, B[6] = { 1, -2, 0.5F, 3, -0.25F, 1 },
                   OTHER[4] = { 2, 3, 4, 5 };

#define T(name, values, ...)                                                           \
    {                                                                                  \
        name, ls_tensor_of((void *)(uintptr_t)(values), &LS_TYPE(LS_F32, __VA_ARGS__)) \
    }

static const char *folder(const char *name)
{
    const char *dir = ls_test_path(name);
    ASSERT_OK(ls_make_dirs(dir));
    return dir;
}

static const char *base_file(void)
{
    const ls_named_tensor all[] = { T("fc.weight", W, 3, 4), T("norm.weight", NORM, 4) };
    ASSERT_OK(ls_weights_save(ls_test_path("base.safetensors"), 2, all));
    return ls_test_path("base.safetensors");
}

static ls_weights *open_adapter(const char *layer, int64_t in, int64_t out)
{
    char names[2][128], path[512];
    snprintf(names[0], sizeof names[0], LS_ADAPTER_PREFIX "%s.lora_A.weight", layer);
    snprintf(names[1], sizeof names[1], LS_ADAPTER_PREFIX "%s.lora_B.weight", layer);
    const ls_named_tensor all[] = { T(names[0], A, 2, in), T(names[1], B, out, 2),
                                    T(LS_ADAPTER_PREFIX "norm.weight", OTHER, 4) };
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", folder("adapter"));
    ASSERT_OK(ls_weights_save(path, 3, all));
    ls_weights *w;
    ASSERT_OK(ls_weights_open(&w, folder("adapter")));
    return w;
}

static void merges_into_its_base(void **state)
{
    (void)state;
    ls_weights *w = open_adapter("fc", 4, 3), *base;
    const ls_adapter x = { .rank = 2, .alpha = 3 };
    float out[12], row[5];
    ls_arena a;
    ls_arena_init(&a);
    assert_int_equal(ls_weights_count(w), 3);
    assert_non_null(ls_weights_find(w, "fc.lora_A.weight"));
    assert_string_equal(ls_adapter_modules(&a, w), "norm");
    ASSERT_OK(ls_weights_open(&base, base_file()));
    ASSERT_OK(ls_weights_join(w, &base));
    assert_null(base);
    assert_int_equal(ls_weights_count(w), 4);
    ASSERT_OK(ls_weight_read(ls_weights_find(w, "norm.weight"), LS_F32, out));
    assert_memory_equal(out, OTHER, sizeof OTHER); /* the trained one, not that of the base */
    ASSERT_OK(ls_weights_merge(w, &x));
    assert_int_equal(ls_weights_count(w), 2);
    ASSERT_OK(ls_weight_read(ls_weights_find(w, "fc.weight"), LS_F32, out));
    for (int i = 0; i < 12; i++) /* exact: small numbers in binary */
        assert_true(out[i] == W[i] + 1.5F * (B[i / 4 * 2] * A[i % 4] + B[i / 4 * 2 + 1] * A[4 + i % 4]));
    uint16_t half[12];
    ASSERT_OK(ls_weight_read(ls_weights_find(w, "fc.weight"), LS_BF16, half));
    ls_weights *again;
    ASSERT_OK(ls_weights_export(w, ls_test_path("merged.safetensors"), .replace = true));
    ASSERT_OK(ls_weights_open(&again, ls_test_path("merged.safetensors")));
    assert_memory_equal(ls_weights_find(again, "fc.weight")->data, out, sizeof out);
    ASSERT_OK(ls_weight_read(ls_weights_find(again, "norm.weight"), LS_F32, row));
    assert_memory_equal(row, OTHER, sizeof OTHER);
    ls_weights_close(&again);
    ls_weights_close(&w);
    ls_arena_release(&a);
}

/* W is [in, out], as GPT-2 has it: the product is turned. */
static void merges_turned(void **state)
{
    (void)state;
    const ls_named_tensor all[] = { T("fc.weight", W, 4, 3), T("norm.weight", NORM, 4) };
    const ls_adapter x = { .rank = 2, .alpha = 3, .transposed = true };
    ls_weights *w = open_adapter("fc", 4, 3), *base;
    float out[12];
    ASSERT_OK(ls_weights_save(ls_test_path("turned.safetensors"), 2, all));
    ASSERT_OK(ls_weights_open(&base, ls_test_path("turned.safetensors")));
    ASSERT_OK(ls_weights_join(w, &base));
    ASSERT_OK(ls_weights_merge(w, &x));
    ASSERT_OK(ls_weight_read(ls_weights_find(w, "fc.weight"), LS_F32, out));
    for (int i = 0; i < 12; i++)
        assert_true(out[i] == W[i] + 1.5F * (B[i % 3 * 2] * A[i / 3] + B[i % 3 * 2 + 1] * A[4 + i / 3]));
    ls_weights_close(&w);
}

static void misfit(const char *layer, int64_t in, int64_t out, int64_t rank, const char *says)
{
    const ls_adapter x = { .rank = rank, .alpha = 1 };
    ls_weights *w = open_adapter(layer, in, out), *base;
    ASSERT_OK(ls_weights_open(&base, base_file()));
    ASSERT_OK(ls_weights_join(w, &base));
    ASSERT_FAILS(ls_weights_merge(w, &x), LS_E_SHAPE, "adapter_model.safetensors", says);
    ls_weights_close(&w);
}

static void refuses_another_model(void **state)
{
    (void)state;
    misfit("proj", 4, 3, 2, "the adapter of proj belongs to a layer that the base does not have");
    misfit("fc", 3, 3, 2, "the adapter of fc has other sizes than the layer");
    misfit("fc", 4, 2, 2, "the adapter of fc has other sizes than the layer");
    misfit("fc", 4, 3, 3, "has another rank");
    ls_weights *w = open_adapter("transformer.h.0.attn.c_proj", 4, 3), *base;
    ASSERT_OK(ls_weights_open(&base, base_file()));
    ASSERT_OK(ls_weights_join(w, &base));
    ASSERT_FAILS(ls_weights_merge(w, &(ls_adapter){ .rank = 2, .alpha = 1 }), LS_E_FORMAT,
                 "weights of GPT-2 are [in, out]", "fan_in_fan_out");
    ls_weights_close(&w);
}

static bool is_fc(const void *context, const char *name)
{
    (void)context;
    return !strncmp(name, "fc.", 3);
}

static void names_the_base(void **state)
{
    (void)state;
    float changed[12];
    uint64_t all, fc, other, same;
    ls_weights *w;
    memcpy(changed, W, sizeof changed);
    ASSERT_OK(ls_weights_open(&w, base_file()));
    ASSERT_OK(ls_weights_digest(&all, w, NULL, NULL));
    ASSERT_OK(ls_weights_digest(&fc, w, is_fc, NULL));
    ls_weights_close(&w);
    for (int k = 0; k < 2; k++) { /* one bit more, or another order in the file */
        const ls_named_tensor tensors[] = { T("norm.weight", NORM, 4), T("fc.weight", changed, 3, 4) };
        ASSERT_OK(ls_weights_save(ls_test_path("other.safetensors"), 2, tensors));
        ASSERT_OK(ls_weights_open(&w, ls_test_path("other.safetensors")));
        ASSERT_OK(ls_weights_digest(k ? &other : &same, w, NULL, NULL));
        ls_weights_close(&w);
        changed[11] = nextafterf(changed[11], 100);
    }
    assert_true(all == same && all != other && all != fc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_settings),  cmocka_unit_test(refuses_options),
        cmocka_unit_test(writes_settings), cmocka_unit_test(merges_into_its_base),
        cmocka_unit_test(merges_turned),   cmocka_unit_test(refuses_another_model),
        cmocka_unit_test(names_the_base),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
