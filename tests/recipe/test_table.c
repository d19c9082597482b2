/* test_table.c - the table of keys: every key is set, printed and read back; the keys that rows list are in
 * the table, in its order; the page in docs is what the table says. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/field.h"
#include "base/file.h"
#include "recipe/data_row.h"
#include "recipe/model_row.h"
#include "recipe/optim_row.h"
#include "recipe/recipe_fields.h"
#include "support/support.h"
#include "recipe/load.h"

#define WEIGHTS LS_TEST_SOURCE_DIR "/tests/golden/mlp.safetensors"

/* ---- every key */

static void assert_same_recipe(const ls_recipe *a, const ls_recipe *b)
{
    char *difference = ls_recipe_difference(a, b);
    assert_string_equal(difference, "");
    free(difference);
}

/* A value of the key that is not its default and that the rest of a recipe can live with. */
static const char *other_value(const ls_key *k, char buffer[64])
{
    static const char *const SPECIAL[][2] = {
        { "workers", "{min: 1, max: 4}" },
        { "device", "ref" },
        { "kernels", "tf32" },
        { "model.type", "mlp" },
        { "model.patch_size", "14" },
        { "model.heads", "4" },
        { "model.image_size", "56" },
        { "model.hidden_size", "64" },
        { "data.type", "idx" },
        { "train.micro_batch", "32" },
        { "train.global_batch", "256" },
        { "optimizer.type", "sgd" },
        { "optimizer.nesterov", "true" },
        { "schedule.type", "cosine" },
        { "parallel.mesh", "{dp: auto, tp: 1}" },
        { "parallel.units", "\"size:1e6\"" },
        { "parallel.tensor", "colwise:fc1 rowwise:fc2" },
        { "parallel.slices", "4" },
        { "parallel.stages", "3 5" },
        { "model.init", WEIGHTS },
        { "parallel.reshard_after_forward", "false" },
        { "parallel.recompute", "\"class:EncoderBlock\"" },
        { "parallel.gather", "copy" },
        { "precision.output", "bf16" },
        { "precision.param", "bf16" },
        { "precision.reduce", "f16" },
        { "precision.modules", "class:LayerNorm=bf16" },
        { "precision.scaler.growth", "4" },
        { "precision.scaler.backoff", "0.125" },
        { "checkpoint.best.metric", "eval_accuracy" },
        { "checkpoint.best.mode", "max" },
        { "checkpoint.export", "\"full model/m.pt\"" },
        { "checkpoint.export_best", "\"{date}-{epoch}.pt\"" },
        { "schedule.min_lr", "1e-5" },
        { "data.sampler", "balanced" },
        { "schedule.div_factor", "10" },
        { "schedule.final_div_factor", "100" },
        { "optimizer.decay_rate", "-0.5" },
        { "optimizer.betas", "[0.5, 0.75]" },
        { "optimizer.groups", "[{match: \"pattern:*bias\", lr_factor: 0.5}]" },
        { "model.rename", "[{from: \"a.*\", to: b}]" },
        { "model.hidden", "[3, 5]" },
        { "model.head_dim", "32" },
        { "model.config", "{\"a\":{\"b\":[1,0.5,\"x\"]}}" },
        { "data.config", "{\"a\":true}" },
        { "data.size", "28" },
        { "data.augment.crop_scale", "[0.25, 0.5]" },
        { "data.augment.crop_ratio", "[1, 2]" },
        { "data.augment.erase_scale", "[0.1, 0.25]" },
        { "data.augment.erase_ratio", "[0.5, 2]" },
        { "data.resize", "40" },
        { "model.position_buckets", "64" },
        { "model.rope_theta", "500000" },
        { "model.rope_factor", "2.5" },
        { "model.rope_high", "5.5" },
        { "model.local_theta", "500" },
        { "model.inputs", "{x: [8], t: []}" },
        { "model.outputs", "{z: [2, 3], y: []}" },
        { "loss", "[{type: huber, of: y, delta: 0.5}, {type: mae, of: z, target: u, mask: m, factor: 2}]" },
        { "data.train", "{x: \"a b.npy\", y: c.npy}" },
        { "data.eval", "{x: d.npy}" },
        { "data.class_names", "{y: \"no, never,yes\"}" }
    };
    for (size_t i = 0; i < sizeof SPECIAL / sizeof SPECIAL[0]; i++)
        if (!strcmp(SPECIAL[i][0], k->key))
            return SPECIAL[i][1];
    switch (k->kind) {
    case LS_KEY_WORDS:
    case LS_KEY_PATHS:
    case LS_KEY_TEXT: return "\"a \\\"b\\\": #c $${d}\\\\\"";
    case LS_KEY_INT: snprintf(buffer, 64, "%d", 1 + atoi(k->fallback)); return buffer;
    case LS_KEY_REAL:
    case LS_KEY_REALS: return k->max > 1 ? "0.30000000000000004" : "0.125";
    case LS_KEY_BOOL: return *k->fallback == 't' ? "false" : "true";
    case LS_KEY_CHOICE:
    case LS_KEY_WORD: return ls_key_word(k, !strcmp(ls_key_word(k, 0), k->fallback));
    case LS_KEY_BYTES: return "3MiB";
    default: fail_msg("%s: the test knows no value for it", k->key); return NULL;
    }
}

/* What must be said besides the key itself so that it belongs to the recipe: "data.type=idx", ... */
static int conditions(const ls_key *k, const char **sets, char (*made)[64])
{
    int n = 0;
    ls_str types = { 0 };
    char only[128] = "";
    if (k->type) {
        ls_key_types(&types, k);
        const char *first = ls_str_text(&types) + 1;
        snprintf(only, sizeof only, "%s %s", k->type, first);
        snprintf(made[0], 64, "%s=%.*s", k->type, (int)strcspn(first, " "), first);
        sets[n++] = made[0];
        ls_str_release(&types);
    }
    if (!strcmp(k->key, "data.type") || !strncmp(only, "data.type idx", 13))
        sets[n++] = "data={train_images: a, train_labels: b, eval_images: c, eval_labels: d}";
    if (!strcmp(only, "data.type arrays") ||
        strstr("model.inputs model.outputs model.scale model.refit loss", k->key)) {
        sets[n++] = "model={type: mlp, inputs: {x: [1]}, outputs: {y: [1], z: []}}";
        sets[n++] = "loss=[{type: mse, of: y}, {type: mse, of: z}]";
        sets[n++] = "data={type: arrays, train: {x: a.npy}, eval: {x: b.npy}}";
    }
    if (!strcmp(k->key, "data.class_names")) {
        sets[n++] = "model.outputs={y: [2]}";
        sets[n++] = "loss={type: cross_entropy, of: y}";
    }
    if (!strcmp(k->key, "data.ignore")) {
        sets[n++] = "model={type: unet, inputs: {x: [1, 32, 32]}, outputs: {y: [32, 32, 3]}}";
        sets[n++] = "loss={type: cross_entropy, of: y}";
    }
    if (!strncmp(only, "data.type text", 14))
        sets[n++] = "model.type=llama";
    if (!strncmp(only, "data.type text", 14) || strstr(only, "model.type llama") ||
        !strncmp(only, "model.type mistral", 18) || !strncmp(only, "model.type gemma3", 17) ||
        !strncmp(only, "model.type gpt2", 15) || !strncmp(only, "model.type mixtral", 18) ||
        !strncmp(only, "model.type qwen", 15) || !strncmp(only, "model.type olmoe", 16))
        sets[n++] = "data={type: text, train_text: a, tokenizer: bytes}";
    if (!strncmp(only, "data.type chat", 14)) {
        sets[n++] = "model={type: llama}";
        sets[n++] = "data={type: chat, train_text: a, tokenizer: bytes}";
    }
    if (!strcmp(only, "data.type pairs"))
        sets[n++] = "model.type=t5";
    if (!strncmp(only, "model.type unet", 15)) {
        sets[n++] = "model.inputs={x: [1, 4096, 4096]}";
        sets[n++] = "model.outputs={y: [4096, 4096]}";
        sets[n++] = "loss={type: mse, of: y}";
        sets[n++] = "data={type: arrays, train: {x: a.npy}, eval: {x: b.npy}}";
    }
    if (!strncmp(only, "model.type bert", 15)) {
        sets[n++] = "model={inputs: {x: [1]}, outputs: {y: [2]}}";
        sets[n++] = "loss={type: cross_entropy, of: y}";
        sets[n++] = "data={type: arrays, train: {x: a.csv}, eval: {x: b.csv}, tokenizer: bytes}";
    }
    if (!strncmp(only, "model.type convnext", 19))
        sets[n++] = "model.image_size=32";
    if (!strcmp(only, "model.type module") || !strcmp(only, "data.type module")) {
        sets[n++] = "model.path=a.so";
        sets[n++] = "model.type=module";
        sets[n++] = "data.type=module";
    }
    if (!strcmp(only, "data.type pairs") || !strcmp(only, "model.type t5"))
        sets[n++] = "data={type: pairs, train_text: a, tokenizer: bytes}";
    if (!strcmp(k->key, "optimizer.nesterov") || !strcmp(k->key, "optimizer.dampening"))
        sets[n++] = "optimizer.momentum=0.5";
    if (!strcmp(k->key, "parallel.tensor") || !strcmp(k->key, "parallel.sequence"))
        sets[n++] = "parallel.mesh={dp: auto, tp: 1}";
    if (!strcmp(k->key, "parallel.schedule") || !strcmp(k->key, "parallel.stages"))
        sets[n++] = "parallel.mesh={dp: auto, pp: 1}";
    if (!strcmp(k->key, "parallel.chunks"))
        sets[n++] = "parallel={mesh: {dp: auto, pp: 1}, schedule: interleaved}";
    if (!strncmp(k->key, "precision.scaler", 16) || !strcmp(k->key, "precision.cast_forward_inputs"))
        sets[n++] = "precision.param=f16";
    if (!strncmp(k->key, "eval.generate.", 14))
        sets[n++] = "eval.generate={tokens: 3, beams: 3}";
    if (!strcmp(k->key, "train.early_stopping.min_delta"))
        sets[n++] = "train.early_stopping.patience=3";
    if ((!strncmp(k->key, "train.lora.", 11) && strcmp(k->key, "train.lora.rank")) ||
        !strcmp(k->key, "checkpoint.base"))
        sets[n++] = "train.lora.rank=3";
    if (!strcmp(k->key, "model.rope_factor") || !strcmp(k->key, "model.rope_original") ||
        !strcmp(k->key, "model.rope_low") || !strcmp(k->key, "model.rope_high"))
        sets[n++] = "model.rope_scaling=llama3";
    if (!strcmp(k->key, "eval.ema"))
        sets[n++] = "optimizer.ema_decay=0.5";
    if (!strcmp(k->key, "model.init_strict") || !strcmp(k->key, "model.reset") ||
        !strcmp(k->key, "model.rename") || !strcmp(k->key, "model.refit") ||
        !strcmp(k->key, "checkpoint.frozen"))
        sets[n++] = "model.init=" WEIGHTS;
    if (!strcmp(k->key, "checkpoint.frozen"))
        sets[n++] = "train.freeze=layers.0";
    if (!strcmp(k->key, "parallel.bucket"))
        sets[n++] = "parallel.data=ddp";
    if (!strcmp(k->key, "data.augment.padding"))
        sets[n++] = "data.augment.crop=padded";
    if (!strncmp(k->key, "data.augment.crop_", 18))
        sets[n++] = "data.augment.crop=resized";
    if (!strncmp(k->key, "data.augment.erase_", 19))
        sets[n++] = "data.augment.erase=0.5";
    if (!strcmp(k->key, "data.augment.randaugment.magnitude") ||
        !strcmp(k->key, "data.augment.randaugment.bins"))
        sets[n++] = "data.augment.randaugment.ops=2";
    if (!strcmp(k->key, "data.augment.jitter.saturation") || !strcmp(k->key, "data.augment.jitter.hue"))
        sets[n++] = "model.in_channels=3";
    if (!strcmp(k->key, "data.too_long"))
        sets[n++] = "data.pack=documents";
    if (!strcmp(k->key, "data.field"))
        sets[n++] = "data.documents=json";
    if (!strcmp(k->key, "failure.grow"))
        sets[n++] = "failure.max_failures=3";
    if (!strcmp(k->key, "checkpoint.best.metric"))
        sets[n++] = "checkpoint.best.mode=max";
    if (!strcmp(k->key, "checkpoint.best.mode")) /* of eval_accuracy the mode follows */
        sets[n++] = "checkpoint.best.metric=eval_mine";
    return n;
}

static void every_key_is_set_printed_and_read_back(void **state)
{
    (void)state;
    for (int i = 0; i < ls_key_count(); i++) {
        const ls_key *k = ls_key_at(i);
        char buffer[64], made[4][64], set[256];
        const char *sets[8], *value = other_value(k, buffer);
        int n = conditions(k, sets, made);
        ls_recipe *r, *plain, *again;
        ls_status s = load(&plain, MINIMAL, n, sets);
        if (s != LS_OK && strcmp(k->key, "data.type") && strncmp(k->key, "checkpoint.best", 15))
            fail_msg("%s without it: %s", k->key, ls_error_message());
        snprintf(set, sizeof set, "%s=%s", k->key, value);
        sets[n++] = set;
        if (load(&r, MINIMAL, n, sets) != LS_OK)
            fail_msg("%s: %s", set, ls_error_message());
        assert_string_equal(ls_recipe_origin(r, k->key), "--set");
        char *yaml = ls_recipe_yaml(r, true), *one = ls_recipe_value(r, k->key);
        assert_non_null(strstr(yaml, "# --set"));
        if (load(&again, yaml, 0, NULL) != LS_OK)
            fail_msg("%s: %s in\n%s", set, ls_error_message(), yaml);
        char *yaml2 = ls_recipe_yaml(again, false), *yaml1 = ls_recipe_yaml(r, false);
        assert_string_equal(yaml1, yaml2);
        assert_same_recipe(r, again);
        if (s == LS_OK && k->kind != LS_KEY_DTYPE) {
            /* it did something: another value, and another run unless it may change */
            char *before = ls_recipe_value(plain, k->key), *difference = ls_recipe_difference(r, plain);
            if (strcmp(k->key, "run.name"))
                assert_string_not_equal(before, one);
            assert_int_equal(*difference != 0, !k->may_change);
            free(before);
            free(difference);
        }
        if (s == LS_OK)
            ls_recipe_destroy(&plain);
        free(yaml);
        free(yaml1);
        free(yaml2);
        free(one);
        ls_recipe_destroy(&r);
        ls_recipe_destroy(&again);
    }
}

/* ---- the rest */

static void the_table_is_in_order(void **state)
{
    (void)state;
    for (int i = 0; i < ls_key_count(); i++) {
        assert_int_equal(ls_key_find(ls_key_at(i)->key), i); /* no key twice */
        assert_true(*ls_key_at(i)->help);
        if (ls_key_at(i)->kind == LS_KEY_INT || ls_key_at(i)->kind == LS_KEY_REAL ||
            ls_key_at(i)->kind == LS_KEY_BYTES)
            assert_true(ls_key_at(i)->min < ls_key_at(i)->max); /* every number has bounds */
        for (int j = 0; j < i; j++) {                           /* members do not overlap by a wrong AT() */
            if (ls_key_at(i)->offset == ls_key_at(j)->offset)
                fail_msg("%s and %s have one place", ls_key_at(i)->key, ls_key_at(j)->key);
        }
    }
    char *text = ls_recipe_reference(false);
    for (int i = 0; i < ls_key_count(); i++)
        ASSERT_CONTAINS(text, ls_key_at(i)->key);
    free(text);
}

static void the_reference_in_docs_is_current(void **state)
{
    (void)state;
    char *written, *made = ls_recipe_reference(true);
    size_t size;
    ASSERT_OK(ls_file_read(&written, &size, LS_TEST_SOURCE_DIR "/docs/recipe.md"));
    if (strcmp(written, made))
        fail_msg("docs/recipe.md is not what `lockstep recipe --reference` prints; run it again");
    free(written);
    free(made);
}

/* The words of a key that has none of its own are the names of the rows of its table. */
static void words_are_names_of_rows(void **state)
{
    (void)state;
    int n = 0, models = 0;
    for (; LS_MODELS[models]; models++) {
        const ls_model_row *m = LS_MODELS[models];
        assert_string_equal(m->name, ls_key_word(ls_key_named("model.type"), models));
        assert_ptr_equal(ls_model_row_find(m->name), m);
        assert_non_null(m->build);
    }
    assert_null(ls_key_word(ls_key_named("model.type"), models));
    assert_null(ls_model_row_find("no such model"));
    for (n = 0; LS_DATA[n].name; n++)
        assert_string_equal(LS_DATA[n].name, ls_key_word(ls_key_named("data.type"), n));
    assert_null(ls_key_word(ls_key_named("data.type"), n));
    assert_string_equal(ls_key_word(ls_key_named("optimizer.type"), LS_ADAFACTOR), "adafactor");
    assert_null(ls_key_word(ls_key_named("optimizer.type"), LS_ADAFACTOR + 1));
    assert_string_equal(ls_key_word(ls_key_named("schedule.type"), LS_SCHED_PLATEAU), "plateau");
    assert_null(ls_key_word(ls_key_named("schedule.type"), LS_SCHED_PLATEAU + 1));
    char list[LS_MODEL_LIST];
    assert_string_equal(ls_model_list(list, ls_model_makes_text),
                        "llama, qwen2, qwen3, mistral, gemma3_text, mixtral, qwen2_moe, qwen3_moe, olmoe, "
                        "gpt2, t5");
}

/* What a checkpoint's config.json has of the section model: rows with `config`, unless their needs say that
 * the key has no effect. Dropout and stochastic depth do not change what a checkpoint predicts. */
static void config_json_has_what_rows_say(void **state)
{
    (void)state;
    static const char *const CASES[][2] = {
        { "model: {type: vit, dropout: 0.1}\ndata: {type: mnist}\n",
          "{\"type\":\"vit\",\"image_size\":28,\"patch_size\":7,\"in_channels\":1,\"layers\":10,\"heads\":2,"
          "\"hidden_size\":128,\"mlp_size\":128,\"classes\":10}" },
        { "model: {type: vit, outputs: {age: []}}\nloss: {type: mse, of: age}\n"
          "data: {type: images, path: a}\n",
          "{\"type\":\"vit\",\"image_size\":28,\"patch_size\":7,\"in_channels\":1,\"layers\":10,\"heads\":2,"
          "\"hidden_size\":128,\"mlp_size\":128,\"outputs\":{\"age\": []}}" },
        { "model: {type: mlp, hidden: [8]}\ndata: {type: mnist}\n",
          "{\"type\":\"mlp\",\"image_size\":28,\"in_channels\":1,\"hidden\":[8],\"act\":\"relu\","
          "\"classes\":10}" },
        { "model: {type: mlp, inputs: {x: [2]}, outputs: {y: []}}\nloss: {type: mse, of: y}\n"
          "data: {type: arrays, train: {x: a.npy, y: b.npy}}\neval: {every_epochs: -1}\n",
          "{\"type\":\"mlp\",\"inputs\":{\"x\": [2]},\"outputs\":{\"y\": "
          "[]},\"hidden\":[128],\"act\":\"relu\","
          "\"scale\":\"standard\"}" },
        { "model: {type: unet, inputs: {x: [1, 16, 16]}, outputs: {y: [16, 16]}}\n"
          "loss: {type: mse, of: y}\ndata: {type: arrays, train: {x: a.npy, y: b.npy}}\n"
          "eval: {every_epochs: -1}\n",
          "{\"type\":\"unet\",\"inputs\":{\"x\": [1, 16, 16]},\"outputs\":{\"y\": [16, 16]},\"channels\":64,"
          "\"levels\":4,\"up\":\"transposed\"}" },
        { "model: {type: convnext_tiny, image_size: 32}\ndata: {type: images, path: a}\n",
          "{\"type\":\"convnext_tiny\",\"image_size\":32,\"in_channels\":1,\"classes\":10}" },
        { "model: {type: module, path: a.so, config: {b: 1}}\ndata: {type: module}\n",
          "{\"type\":\"module\",\"path\":\"a.so\",\"config\":{\"b\":1}}" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char expected[400];
        ls_recipe *r;
        ASSERT_OK(load(&r, CASES[i][0], 0, NULL));
        char *json = ls_recipe_config_json(r, NULL);
        snprintf(expected, sizeof expected, "{\"model\":%s,", CASES[i][1]);
        if (strncmp(json, expected, strlen(expected)))
            fail_msg("%s\nis not\n%s", json, expected);
        free(json);
        ls_recipe_destroy(&r);
    }
}

/* Every name in `keys` is the last one of a key that asks that table. */
static void lists_known_keys(const char *type, const char *row, const char *keys)
{
    char word[64];
    for (int used; sscanf(keys, "%63s%n", word, &used) == 1; keys += used) {
        int found = 0;
        for (int i = 0; i < ls_key_count(); i++) {
            const char *dot = strrchr(ls_key_at(i)->key, '.');
            found += !strcmp(dot ? dot + 1 : ls_key_at(i)->key, word) && ls_key_at(i)->type &&
                     !strcmp(ls_key_at(i)->type, type);
        }
        if (found != 1)
            fail_msg("the row %s lists the key %s, which %d keys of %s are", row, word, found, type);
    }
}

static void rows_and_keys_agree(void **state)
{
    (void)state;
    for (int i = 0; LS_MODELS[i]; i++)
        lists_known_keys("model.type", LS_MODELS[i]->name, LS_MODELS[i]->keys);
    for (int i = 0; LS_DATA[i].name; i++)
        lists_known_keys("data.type", LS_DATA[i].name, LS_DATA[i].keys);
    for (int i = 0; LS_OPTIMIZERS[i].name; i++)
        lists_known_keys("optimizer.type", LS_OPTIMIZERS[i].name, LS_OPTIMIZERS[i].keys);
    for (int i = 0; LS_SCHEDULES[i].name; i++)
        lists_known_keys("schedule.type", LS_SCHEDULES[i].name, LS_SCHEDULES[i].keys);
    for (int i = 0; i < ls_key_count(); i++) {
        ls_str types = { 0 };
        if (ls_key_at(i)->type)
            ls_key_types(&types, ls_key_at(i));
        if (ls_key_at(i)->type && !types.len)
            fail_msg("%s is a key of no %s: no row lists it", ls_key_at(i)->key, ls_key_at(i)->type);
        ls_str_release(&types);
    }
}

/* The message about an option begins with the place of its key. */
static void options_lead_to_keys(void **state)
{
    (void)state;
    ls_recipe *r;
    ASSERT_OK(load(&r, MINIMAL "parallel: {units: \"class:Block\"}\n", 0, NULL));
    for (const ls_option_key *k = LS_OPTION_KEYS; k->option; k++) {
        ls_fail_field(LS_E_SHAPE, k->option, "cannot be");
        assert_int_equal(ls_recipe_blame(r, LS_E_USAGE), LS_E_USAGE);
        assert_memory_equal(ls_error_message(), "here.yaml", 9);
        const char *rest = strstr(ls_error_message(), ": cannot be");
        assert_non_null(rest);
        assert_string_equal(rest, ": cannot be");
        if (!strcmp(k->option, "units"))
            assert_string_equal(ls_error_message(), "here.yaml:3: parallel.units: cannot be");
    }
    ls_fail(LS_E_USAGE, "units: of something else");
    assert_int_equal(ls_recipe_blame(r, LS_E_USAGE), LS_E_USAGE);
    assert_string_equal(ls_error_message(), "units: of something else");
    assert_int_equal(ls_recipe_blame(r, LS_OK), LS_OK);
    ls_recipe_destroy(&r);
}

/* Finds the options that a call names: the literals of its argument number `argument`, from 0. */
static void note_options(const char *path, const char *call, int argument, bool *named)
{
    int depth = 0, commas = 0;
    for (const char *c = strchr(call, '(') + 1; commas <= argument; c++) {
        assert_true(*c);
        depth += *c == '(' ? 1 : *c == ')' ? -1 : 0;
        commas += *c == ',' && depth == 0;
        if (*c != '"' || commas != argument)
            continue;
        const char *end = strchr(c + 1, '"');
        const ls_option_key *k = LS_OPTION_KEYS;
        while (k->option &&
               (strlen(k->option) != (size_t)(end - c - 1) || memcmp(k->option, c + 1, strlen(k->option))))
            k++;
        if (!k->option)
            fail_msg("%s: no key fills the option %.*s: it has no row in LS_OPTION_KEYS", path,
                     (int)(end - c - 1), c + 1);
        named[k - LS_OPTION_KEYS] = true;
        c = end;
    }
}

/* Names of options are text: this finds one that is written wrongly, and a row that nothing uses. */
static void the_sources_name_these_options(void **state)
{
    (void)state;
    bool named[64] = { 0 };
    glob_t files;
    assert_int_equal(glob(LS_TEST_SOURCE_DIR "/src/*/*.c", 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        if (strstr(files.gl_pathv[i], "/base/status.c")) /* the function itself */
            continue;
        char *text;
        size_t size;
        ASSERT_OK(ls_file_read(&text, &size, files.gl_pathv[i]));
        /* (step/memory.c hands its option on) */
        static const char *const CALLS[] = { [1] = "ls_fail_field(", [2] = "memory_refuse(" };
        for (int k = 1; k <= 2; k++)
            for (const char *c = strstr(text, CALLS[k]); c; c = strstr(c + 1, CALLS[k]))
                note_options(files.gl_pathv[i], c, k, named);
        free(text);
    }
    globfree(&files);
    for (int k = 0; LS_OPTION_KEYS[k].option; k++)
        if (!named[k])
            fail_msg("no source file refuses the option %s, which has a row in LS_OPTION_KEYS",
                     LS_OPTION_KEYS[k].option);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_names_of_rows),
        cmocka_unit_test(config_json_has_what_rows_say),
        cmocka_unit_test(rows_and_keys_agree),
        cmocka_unit_test(options_lead_to_keys),
        cmocka_unit_test(the_sources_name_these_options),
        cmocka_unit_test(every_key_is_set_printed_and_read_back),
        cmocka_unit_test(the_table_is_in_order),
        cmocka_unit_test(the_reference_in_docs_is_current),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
