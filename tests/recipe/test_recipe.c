/* test_recipe.c - the recipe reader: defaults, every key of the table, errors with their places, includes,
 * environment, hostile texts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/field.h"
#include "base/file.h"
#include "recipe/data_row.h"
#include "recipe/model_row.h"
#include "recipe/optim_row.h"
#include "recipe/recipe_fields.h"
#include "recipe/recipe_read.h"
#include "support/support.h"

#define MINIMAL "model: {type: vit}\ndata: {type: mnist}\n"

static ls_status load(ls_recipe **r, const char *text, int n_sets, const char *const *sets)
{
    return ls_recipe_load_text(r, text, strlen(text), "here.yaml", n_sets, sets);
}

static ls_status load_set(ls_recipe **r, const char *text, const char *set)
{
    return load(r, text, set != NULL, &set);
}

/* The whole text is refused (exit status 2) with a message that contains all of these. */
#define REFUSED(text, ...)                                                     \
    do {                                                                       \
        ls_recipe *refused_ = NULL;                                            \
        ASSERT_FAILS(load(&refused_, text, 0, NULL), LS_E_USAGE, __VA_ARGS__); \
        assert_null(refused_);                                                 \
    } while (0)
#define SET_REFUSED(set, ...)                                                     \
    do {                                                                          \
        ls_recipe *refused_ = NULL;                                               \
        ASSERT_FAILS(load_set(&refused_, MINIMAL, set), LS_E_USAGE, __VA_ARGS__); \
        assert_null(refused_);                                                    \
    } while (0)

static void defaults_are_those_of_the_contract(void **state)
{
    (void)state;
    ls_recipe *r;
    ASSERT_OK(load(&r, MINIMAL, 0, NULL));
    assert_string_equal(r->run.name, "here");
    assert_string_equal(r->run.storage, "runs");
    assert_int_equal(r->workers.min, 1);
    assert_int_equal(r->workers.max, 1);
    assert_int_equal(r->device, LS_RUN_CPU);
    assert_int_equal(r->model.image_size, 28);
    assert_int_equal(r->model.layers, 10);
    assert_int_equal(r->model.mlp_size, 128);
    assert_string_equal(r->model.init, "random");
    assert_true(r->data.mean == 0.5 && r->data.std == 0.5 && r->data.shuffle);
    assert_int_equal(r->train.global_batch, 128);
    assert_int_equal(r->train.micro_batch, 0);
    assert_int_equal(r->optimizer.type, LS_ADAM);
    assert_true(r->optimizer.lr == 1e-3 && r->optimizer.betas[0] == 0.9 && r->optimizer.betas[1] == 0.999 &&
                r->optimizer.eps == 1e-8);
    assert_int_equal(r->parallel.mesh.n, 1);
    assert_string_equal(r->parallel.mesh.axes[0].name, "dp");
    assert_int_equal(r->parallel.mesh.axes[0].size, 0);
    assert_int_equal(r->parallel.reshard_after_forward, -1);
    assert_int_equal(r->precision.param, LS_F32);
    assert_int_equal(r->checkpoint.max_file, (int64_t)5 << 30);
    assert_int_equal(r->failure.stall_seconds, 300);
    assert_int_equal(r->log.every, 50);
    assert_string_equal(ls_recipe_origin(r, "train.epochs"), "default");
    assert_string_equal(ls_recipe_origin(r, "model.type"), "here.yaml:1");
    ls_recipe_destroy(&r);
    assert_null(r);
}

/* ---- every key */

/* A value of the key that is not its default and that the rest of a recipe can live with. */
static const char *other_value(const ls_key *k, char buffer[64])
{
    static const char *const SPECIAL[][2] = { { "workers", "{min: 1, max: 4}" },
                                              { "device", "ref" },
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
                                              { "model.init", "." },
                                              { "parallel.reshard_after_forward", "false" },
                                              { "parallel.recompute", "\"class:EncoderBlock\"" },
                                              { "parallel.gather", "copy" },
                                              { "precision.output", "bf16" },
                                              { "precision.param", "bf16" },
                                              { "precision.reduce", "f16" },
                                              { "checkpoint.best.metric", "eval_accuracy" },
                                              { "checkpoint.best.mode", "max" },
                                              { "checkpoint.export", "\"full model/m.pt\"" },
                                              { "schedule.min_lr", "1e-5" },
                                              { "optimizer.betas", "[0.5, 0.75]" },
                                              { "model.hidden", "[3, 5]" },
                                              { "model.head_dim", "32" },
                                              { "model.position_buckets", "64" },
                                              { "model.rope_theta", "500000" } };
    for (size_t i = 0; i < sizeof SPECIAL / sizeof SPECIAL[0]; i++)
        if (!strcmp(SPECIAL[i][0], k->key))
            return SPECIAL[i][1];
    switch (k->kind) {
    case LS_KEY_TEXT: return "\"a \\\"b\\\": #c $${d}\\\\\"";
    case LS_KEY_INT: snprintf(buffer, 64, "%d", 1 + atoi(k->fallback)); return buffer;
    case LS_KEY_REAL: return k->max > 1 ? "0.30000000000000004" : "0.125";
    case LS_KEY_BOOL: return *k->fallback == 't' ? "false" : "true";
    case LS_KEY_CHOICE:
    case LS_KEY_WORD: return strcmp(k->words[0], k->fallback) ? k->words[0] : k->words[1];
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
    if (!strcmp(k->key, "data.type") || !strcmp(only, "data.type idx"))
        sets[n++] = "data={train_images: a, train_labels: b, eval_images: c, eval_labels: d}";
    if (!strncmp(only, "data.type text", 14))
        sets[n++] = "model.type=llama";
    if (!strncmp(only, "data.type text", 14) || strstr(only, "model.type llama"))
        sets[n++] = "data={type: text, train_text: a, tokenizer: bytes}";
    if (!strcmp(only, "data.type pairs"))
        sets[n++] = "model.type=t5";
    if (!strcmp(only, "data.type pairs") || !strcmp(only, "model.type t5"))
        sets[n++] = "data={type: pairs, train_text: a, tokenizer: bytes}";
    if (!strcmp(k->key, "optimizer.nesterov") || !strcmp(k->key, "optimizer.dampening"))
        sets[n++] = "optimizer.momentum=0.5";
    if (!strcmp(k->key, "parallel.tensor") || !strcmp(k->key, "parallel.sequence"))
        sets[n++] = "parallel.mesh={dp: auto, tp: 1}";
    if (!strcmp(k->key, "parallel.bucket"))
        sets[n++] = "parallel.data=ddp";
    if (!strcmp(k->key, "data.field"))
        sets[n++] = "data.documents=json";
    if (!strcmp(k->key, "checkpoint.best.metric"))
        sets[n++] = "checkpoint.best.mode=max";
    if (!strcmp(k->key, "checkpoint.best.mode"))
        sets[n++] = "checkpoint.best.metric=eval_accuracy";
    return n;
}

static void every_key_is_set_printed_and_read_back(void **state)
{
    (void)state;
    for (int i = 0; i < LS_KEY_COUNT; i++) {
        const ls_key *k = &LS_KEYS[i];
        char buffer[64], made[4][64], set[256];
        const char *sets[8], *value = other_value(k, buffer);
        int n = conditions(k, sets, made);
        ls_recipe *r, *plain, *again;
        ls_status s = load(&plain, MINIMAL, n, sets);
        if (s != LS_OK && strcmp(k->key, "data.type") && strncmp(k->key, "checkpoint.best", 15))
            fail_msg("%s without it: %s", k->key, ls_error_message());
        snprintf(set, sizeof set, "%s=%s", k->key, value);
        sets[n++] = set;
#ifndef LS_HAVE_ONEDNN
        if (!strcmp(set, "kernels=onednn")) {
            ASSERT_FAILS(load(&r, MINIMAL, n, sets), LS_E_USAGE, "this build has no oneDNN");
            ls_recipe_destroy(&plain);
            continue;
        }
#endif
        if (load(&r, MINIMAL, n, sets) != LS_OK)
            fail_msg("%s: %s", set, ls_error_message());
        assert_string_equal(ls_recipe_origin(r, k->key), "--set");
        char *yaml = ls_recipe_yaml(r, true), *one = ls_recipe_value(r, k->key);
        assert_non_null(strstr(yaml, "# --set"));
        if (load(&again, yaml, 0, NULL) != LS_OK)
            fail_msg("%s: %s in\n%s", set, ls_error_message(), yaml);
        char *yaml2 = ls_recipe_yaml(again, false), *yaml1 = ls_recipe_yaml(r, false);
        assert_string_equal(yaml1, yaml2);
        assert_null(ls_recipe_difference(r, again));
        if (s == LS_OK && !k->now) {
            /* it did something: another value, and another run unless it may change */
            char *before = ls_recipe_value(plain, k->key), *difference = ls_recipe_difference(r, plain);
            if (strcmp(k->key, "run.name"))
                assert_string_not_equal(before, one);
            assert_int_equal(difference != NULL, !k->may_change);
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

static void values_arrive_in_their_members(void **state)
{
    (void)state;
    ls_recipe *r;
    const char *const text = "run:\n  name: x1\n  seed: 9007199254740992\nmodel:\n  type: mlp\n  hidden: "
                             "[64, 32]\n  act: gelu\ndata:\n  type: shapes\n  shuffle: false\n"
                             "optimizer:\n  type: sgd\n  lr: 1e-1\n  momentum: .9\n  nesterov: "
                             "true\nschedule: {type: step, step_size: 1e3, gamma: 0.5}\n"
                             "checkpoint: {max_file: 512MiB, best: {metric: eval_accuracy, mode: "
                             "max}}\nparallel: {prefetch: {forward: 3}}\nkernels: own\n";
    ASSERT_OK(load(&r, text, 0, NULL));
    assert_string_equal(r->run.name, "x1");
    assert_int_equal(r->run.seed, INT64_C(9007199254740992));
    assert_string_equal(r->model.type, "mlp");
    assert_int_equal(r->model.hidden.n, 2);
    assert_int_equal(r->model.hidden.at[1], 32);
    assert_int_equal(r->model.act, LS_MLP_ACT_GELU);
    assert_string_equal(r->data.type, "shapes");
    assert_false(r->data.shuffle);
    assert_int_equal(r->optimizer.type, LS_SGD);
    assert_true(r->optimizer.lr == 0.1 && r->optimizer.momentum == 0.9 && r->optimizer.nesterov);
    assert_int_equal(r->schedule.type, LS_SCHED_STEP);
    assert_int_equal(r->schedule.step_size, 1000);
    assert_int_equal(r->checkpoint.max_file, 512 << 20);
    assert_string_equal(r->checkpoint.best.metric, "eval_accuracy");
    assert_int_equal(r->checkpoint.best.mode, LS_MODE_MAX);
    assert_int_equal(r->parallel.prefetch.forward, 3);
    assert_int_equal(r->parallel.prefetch.backward, 1);
    assert_string_equal(ls_recipe_origin(r, "model.hidden"), "here.yaml:6");
    ls_recipe_destroy(&r);
}

/* ---- errors */

static void unknown_keys_name_the_nearest(void **state)
{
    (void)state;
    REFUSED("model: {type: vit}\ndata: {type: mnist}\ntrain:\n  epochs: 1\n  global_batchs: 3\n",
            "here.yaml:5: train.global_batchs", "did you mean train.global_batch?");
    REFUSED("modl: {type: vit}\n", "here.yaml:1: modl", "did you mean model?");
    REFUSED("lr: 1\n", "here.yaml:1: lr", "optimizer.lr");
    REFUSED(MINIMAL "train: {lr: 1}\n", "train.lr", "did you mean optimizer.lr?");
    REFUSED(MINIMAL "checkpoint: {best: {metrik: eval_loss}}\n", "checkpoint.best.metrik",
            "did you mean checkpoint.best.metric?");
    REFUSED(MINIMAL "train.epochs: 3\n", "here.yaml:3: train.epochs", "nested");
    REFUSED(MINIMAL "zzzzzzzz: 3\n", "zzzzzzzz", "unknown key");
    SET_REFUSED("trian.epochs=1", "--set trian.epochs", "did you mean train.epochs?");
    SET_REFUSED("train.epochs", "section.key=value");
    SET_REFUSED("=1", "key is missing");
}

static bool is_section(const char *word)
{
    for (int i = 0; i < LS_SECTION_COUNT; i++)
        if (!strcmp(LS_SECTIONS[i].name, word))
            return true;
    return false;
}

/* What people type who come from PyTorch, Hugging Face, torchtitan, Axolotl, Lightning or Ray. */
static void names_of_other_programs_lead_to_ours(void **state)
{
    (void)state;
    int n = 0;
    for (const ls_foreign_name *f = LS_FOREIGN_NAMES; f->theirs; f++) {
        if (ls_key_find(f->ours) < 0)
            fail_msg("recipe_names.c: %s is no key", f->ours);
        for (const char *name = f->theirs; *name; name += *name == ' ') {
            char word[64], set[80];
            snprintf(word, sizeof word, "%.*s", (int)strcspn(name, " "), name);
            name += strlen(word);
            if (ls_foreign_name_find(word) != f)
                fail_msg("recipe_names.c has %s twice", word);
            snprintf(set, sizeof set, "hf.%s=1", word); /* whatever section somebody puts it in, */
            SET_REFUSED(set, f->ours, f->how);
            if (is_section(word))
                continue;
            snprintf(set, sizeof set, "%s=1", word); /* or in none */
            SET_REFUSED(set, "unknown key; did you mean ", f->ours, f->how);
            n++;
        }
    }
    assert_true(n > 150);
    static const char *const WANTED[][2] = { { "train.batch_size", "train.global_batch" },
                                             { "per_device_train_batch_size", "train.micro_batch" },
                                             { "gradient_accumulation_steps", "train.global_batch" },
                                             { "optimizer.learning_rate", "optimizer.lr" },
                                             { "num_train_epochs", "train.epochs" },
                                             { "max_steps", "train.steps" },
                                             { "max_grad_norm", "train.clip_norm" },
                                             { "warmup_steps", "schedule.warmup_steps" },
                                             { "warmup_ratio", "schedule.warmup_steps" },
                                             { "lr_scheduler_type", "schedule.type" },
                                             { "bf16", "precision.param" },
                                             { "fp16", "precision.param" },
                                             { "gradient_checkpointing", "parallel.recompute" },
                                             { "data.num_workers", "workers" },
                                             { "dataloader_num_workers", "threads" },
                                             { "beta1", "optimizer.betas" },
                                             { "beta2", "optimizer.betas" },
                                             { "adam_beta1", "optimizer.betas" },
                                             { "eps", "optimizer.eps" },
                                             { "weight_decay", "optimizer.weight_decay" },
                                             { "fsdp", "parallel.data" },
                                             { "parallelism.tensor_parallel_degree", "parallel.mesh" },
                                             { "data_parallel_shard_degree", "parallel.mesh" },
                                             { "micro_batch_size", "train.micro_batch" },
                                             { "sequence_len", "data.seq_length" },
                                             { "seed", "run.seed" },
                                             { "train.seed", "run.seed" },
                                             { "save_steps", "checkpoint.every_steps" },
                                             { "save_total_limit", "checkpoint.keep" },
                                             { "eval_steps", "eval.every_epochs" },
                                             { "resume_from_checkpoint", "run.name" },
                                             { "output_dir", "run.storage" },
                                             { "--learning-rate", "optimizer.lr" },
                                             { "Max-Steps", "train.steps" },
                                             { "epochs", "train.epochs" },
                                             { "lr", "optimizer.lr" },
                                             { "data.drop_last", "train.drop_last" },
                                             { "model.layer", "model.layers" },
                                             { "modl.layers", "model.layers" },
                                             { "modl.layerz", "model.layers" },
                                             { "parallel.prefetch.forwards", "parallel.prefetch.forward" } };
    for (size_t i = 0; i < sizeof WANTED / sizeof WANTED[0]; i++) {
        char set[80], near[80];
        snprintf(set, sizeof set, "%s=1", WANTED[i][0] + 2 * !strncmp(WANTED[i][0], "--", 2));
        snprintf(near, sizeof near, "did you mean %s?", WANTED[i][1]);
        SET_REFUSED(set, near);
    }
    static const char *const NOTHING[] = { "train.quantum=1", "train.type=1", "optimizer.warp_factor=1",
                                           "x=1", "eval.metrics.of.mine=1" };
    for (size_t i = 0; i < sizeof NOTHING / sizeof NOTHING[0]; i++)
        SET_REFUSED(NOTHING[i], "unknown key (docs/recipe.md");
}

static void wrong_values_say_what_is_needed(void **state)
{
    (void)state;
    REFUSED("model: {type: vit}\ndata: {type: mnist}\ntrain: {epochs: five}\n", "here.yaml:3: train.epochs",
            "whole number", "'five'");
    SET_REFUSED("checkpoint.every_epochs=-2", "out of range", "from -1");
    SET_REFUSED("checkpoint.every_steps=-1", "out of range", "from 0");
    SET_REFUSED("train.epochs=1.5", "whole number");
    SET_REFUSED("train.epochs=0", "out of range", "from 1");
    SET_REFUSED("train.epochs=99999999999999999999999", "train.epochs");
    SET_REFUSED("train.epochs=0x10", "whole number");
    SET_REFUSED("train.epochs=[1]", "whole number", "[...]");
    SET_REFUSED("optimizer.lr=inf", "a number");
    SET_REFUSED("optimizer.lr=1e999", "a number");
    SET_REFUSED("optimizer.eps=0", "out of range", "above 0");
    SET_REFUSED("optimizer.betas=0.9", "list of two numbers");
    SET_REFUSED("optimizer.betas=[0.9]", "list of two numbers");
    SET_REFUSED("optimizer.betas=[0.9, 1.0]", "below 1");
    SET_REFUSED("data.shuffle=yes", "true or false");
    SET_REFUSED("device=cpuu", "did you mean 'cpu'?");
    SET_REFUSED("checkpoint.max_file=many", "512MiB");
    SET_REFUSED("precision.param=f31", "element type");
    SET_REFUSED("precision.param=i32", "precision.param", "i32");
    SET_REFUSED("train=3", "keys are needed here");
    SET_REFUSED("parallel.mesh={dp: auto, tp: auto}", "only one axis");
    SET_REFUSED("parallel.mesh={DP: 1}", "no name for an axis");
    SET_REFUSED("parallel.mesh={}", "axes such as");
    SET_REFUSED("parallel.units=blocks", "class:NAME");
    SET_REFUSED("parallel.units=size:big", "number of elements");
    SET_REFUSED("parallel.recompute=units", "needs parallel.units");
    SET_REFUSED("run.name=a/b", "folder's name");
    SET_REFUSED("run.name=..", "folder's name");
    SET_REFUSED("run.storage=s3://bucket/runs", "--set run.storage: s3://bucket/runs: s3:// is not supported",
                "a path in a file system");
    SET_REFUSED("model.init=hdfs://host:8020/model.safetensors",
                "--set model.init: ", "hdfs:// is not supported");
    REFUSED("data: {type: mnist}\n", "model.type is missing", "vit, mlp");
    REFUSED("", "model.type is missing");
    REFUSED("- 1\n", "keys are needed here");
    REFUSED("model: {type: mlp, hidden: [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}\ndata: {type: mnist}\n",
            "model.hidden", "more than 16");
}

#define PAIRS "data: {type: pairs, train_text: a, tokenizer: bytes}\n"
static void impossible_combinations_are_refused(void **state)
{
    (void)state;
    SET_REFUSED("model.heads=3", "--set model.heads", "3 heads do not divide hidden_size 128");
    SET_REFUSED("model.hidden_size=127", "--set model.hidden_size", "2 heads do not divide hidden_size 127");
    SET_REFUSED("model.patch_size=5", "do not divide an image of 28");
    SET_REFUSED("train.micro_batch=3", "does not divide global_batch 128");
    SET_REFUSED("precision.param=f64", "device ref");
    SET_REFUSED("checkpoint.best.metric=eval_accuracy", "checkpoint.best.mode: max");
    SET_REFUSED("optimizer={type: sgd, nesterov: true}", "momentum");
    SET_REFUSED("schedule={type: cosine, total_steps: 5, warmup_steps: 5}", "warm-up");
    SET_REFUSED("schedule={type: cosine, min_lr: 1}", "schedule.min_lr",
                "above optimizer.lr, from which the rate falls");
    REFUSED(
        "model: {type: llama, heads: 4, kv_heads: 3}\ndata: {type: text, train_text: a, tokenizer: bytes}\n",
        "3 kv_heads do not divide 4 heads");
    SET_REFUSED("data.type=idx", "data.train_images");
    REFUSED("model: {type: vit}\ndata: {type: mnist}\ndevice: ref\nisa: avx2\n", "here.yaml:4: isa",
            "device ref");
    REFUSED("model: {type: vit}\ndata: {type: mnist}\ndevice: ref\nkernels: onednn\n",
            "here.yaml:4: kernels");
    SET_REFUSED("model={image_size: 65536, patch_size: 1, in_channels: 4096}", "model.image_size",
                "more than");
    REFUSED("model: {type: t5, heads: 3}\n" PAIRS, "here.yaml:1: model.heads",
            "3 heads do not divide hidden_size 128", "model.head_dim");
    REFUSED("model: {type: t5, position_buckets: 9}\n" PAIRS, "model.position_buckets", "9 is odd");
    REFUSED("model: {type: t5, position_distance: 16}\n" PAIRS, "model.position_distance",
            "16 must be above 16");
    REFUSED("model: {type: t5, vocab_size: 300, start_token: 300}\n" PAIRS, "model.start_token",
            "300 is no token id: the vocabulary has ids 0 to 299");
    REFUSED("model: {type: t5}\ndata: {type: text, train_text: a, tokenizer: bytes}\n", "text",
            "model.type t5 is one of pairs of texts");
    REFUSED("model: {type: resnet34}\ndata: {type: mnist}\ntrain: {drop_last: false}\n",
            "here.yaml:3: train.drop_last", "batch norm", "model.type resnet34");
}

static void keys_of_another_type_are_refused(void **state)
{
    (void)state;
    REFUSED("model: {type: mlp, heads: 2}\ndata: {type: mnist}\n", "here.yaml:1: model.heads",
            "model.type vit", "model.type mlp (here.yaml:1)");
    SET_REFUSED("model.hidden=[3]", "--set model.hidden", "model.type mlp", "says model.type vit");
    REFUSED("model: {type: resnet50, patch_size: 7}\ndata: {type: mnist}\n", "here.yaml:1: model.patch_size",
            "model.type vit");
    SET_REFUSED("optimizer.momentum=0.9", "optimizer.type sgd", "adam (default)");
    SET_REFUSED("schedule.gamma=0.9", "schedule.type step");
    REFUSED("model: {type: vit}\ndata: {type: shapes, download: true}\n", "data.download",
            "fashion-mnist mnist");
}

static void what_comes_later_is_refused(void **state)
{
    (void)state;
    SET_REFUSED("device=cuda", "GPU module");
}

/* ---- ranks */

static void layouts_that_no_number_of_ranks_makes_right(void **state)
{
    (void)state;
    REFUSED("model: {type: vit}\ndata: {type: mnist}\nparallel:\n  mesh: {dp: 2, pp: 2}\n",
            "here.yaml:4: parallel.mesh: mesh: there is no axis 'pp'");
    SET_REFUSED("parallel.tensor=q_proj",
                "--set parallel.tensor: 'q_proj' is neither auto nor words colwise:MODULE");
    REFUSED("model: {type: vit}\ndata: {type: mnist}\nparallel:\n  gather: map\n  offload: cpu\n",
            "here.yaml:4: parallel.gather: map keeps", "copy or auto");
    SET_REFUSED("parallel.mesh={dp: 2, rows: {size: 2}}",
                "axis rows: {size: N, role: replicate | shard | tensor} is needed");
    SET_REFUSED("parallel.mesh={dp: 2, rows: {size: 2, role: column}}",
                "axis rows: {size: N, role: replicate | shard | tensor} is needed");
    SET_REFUSED("parallel.data=hybrid", "--set parallel.data: hybrid shards over an axis shard",
                "has no axis shard", "{dp: auto, shard: 2}");
    SET_REFUSED("parallel={data: hybrid, mesh: {shard: 2, dp: auto}}",
                "--set parallel.data: hybrid needs shard inside dp");
    SET_REFUSED("parallel={data: none, mesh: {dp: 2}}", "--set parallel.data: none", "2 data ranks");
    SET_REFUSED("parallel={data: ddp, reshard_after_forward: 2}",
                "--set parallel.reshard_after_forward: 2 slices", "ddp shards nothing");
    SET_REFUSED("parallel={data: ddp, offload: cpu}", "--set parallel.offload: cpu", "fsdp or hybrid");
    SET_REFUSED("parallel={mesh: {dp: 4}, reshard_after_forward: 3}",
                "--set parallel.reshard_after_forward: 3 does not divide the 4 ranks", "true, false, 2, 4");
    SET_REFUSED("parallel.mesh={dp: 1000000, shard: 1000000, tp: 1000000, a: 1000000, b: 1000000}",
                "--set parallel.mesh", "1 to 1000000");
    SET_REFUSED("parallel.synchronize=sometimes", "one of auto, each, once");
    SET_REFUSED("parallel.bucket=0", "out of range");
    SET_REFUSED("device_memory=lots", "a size such as 512MiB");
    SET_REFUSED("workers=0", "out of range");
    SET_REFUSED("workers={min: 4, max: 1}", "min 4 is above max 1");
    SET_REFUSED("workers={min: 4}", "{min: A, max: B}");
    SET_REFUSED("workers={min: 1, most: 2}", "no key 'most'");
    static const char *const GOOD[] = {
        "workers=4",
        "workers={min: 1, max: 4}",
        "parallel.data=ddp",
        "parallel={data: hybrid, mesh: {dp: auto, shard: 2}}",
        "parallel={data: hybrid, mesh: {data_parallel: auto, blocks: {size: 2, role: shard}}}",
        "parallel={mesh: {dp: auto, shard: 2}, reshard_after_forward: 4}",
        "parallel.reshard_after_forward=2",
        "parallel.offload=cpu",
        "parallel.units=pattern:encoder.*",
        "device_memory=64MiB"
    };
    for (size_t i = 0; i < sizeof GOOD / sizeof GOOD[0]; i++) {
        ls_recipe *r;
        ASSERT_OK(load_set(&r, MINIMAL, GOOD[i]));
        ls_recipe_destroy(&r);
    }
}

/* A value is printed so that it is read again as the same. */
static void values_are_printed_as_they_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *set, *key, *value;
    } CASES[] = {
        { "workers={min: 2, max: 2}", "workers", "2" },
        { "parallel.reshard_after_forward=1", "parallel.reshard_after_forward", "false" }, /* a whole slice */
        { "device_memory=1PiB", "device_memory", "1024TiB" },
        { "device_memory=1025KiB", "device_memory", "1025KiB" },
        { "run.name='null'", "run.name", "\"null\"" }, /* a text, not nothing */
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        ls_recipe *r, *again;
        ASSERT_OK(load_set(&r, MINIMAL, CASES[i].set));
        char *value = ls_recipe_value(r, CASES[i].key), *yaml = ls_recipe_yaml(r, false);
        assert_string_equal(value, CASES[i].value);
        ASSERT_OK(load(&again, yaml, 0, NULL));
        char *same = ls_recipe_value(again, CASES[i].key);
        assert_string_equal(same, value);
        free(value);
        free(same);
        free(yaml);
        ls_recipe_destroy(&r);
        ls_recipe_destroy(&again);
    }
}

/* FULL_SHARD and the like are what people know from PyTorch; the resolved recipe says what they mean, and
 * since when. */
static void names_of_fsdp1_mean_what_they_meant(void **state)
{
    (void)state;
    static const struct {
        const char *set, *data, *reshard, *origin;
    } CASES[] = {
        { "parallel.data=FULL_SHARD", "fsdp", "true", "default" },
        { "parallel.data=shard_grad_op", "fsdp", "false", "--set" },
        { "parallel.data=No_Shard", "ddp", "true", "default" },
        { "parallel={data: HYBRID_SHARD, mesh: {dp: auto, shard: 2}}", "hybrid", "true", "default" },
        { "parallel={data: SHARD_GRAD_OP, reshard_after_forward: false}", "fsdp", "false", "--set" },
        { "parallel={data: FULL_SHARD, reshard_after_forward: true}", "fsdp", "true", "--set" },
        { "parallel={data: fsdp, reshard_after_forward: false}", "fsdp", "false", "--set" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        ls_recipe *r, *again;
        ASSERT_OK(load_set(&r, MINIMAL, CASES[i].set));
        char *data = ls_recipe_value(r, "parallel.data"),
             *reshard = ls_recipe_value(r, "parallel.reshard_after_forward");
        char *yaml = ls_recipe_yaml(r, true);
        assert_string_equal(data, CASES[i].data);
        assert_string_equal(reshard, CASES[i].reshard);
        assert_string_equal(ls_recipe_origin(r, "parallel.reshard_after_forward"), CASES[i].origin);
        ASSERT_OK(load(&again, yaml, 0, NULL));
        char *data2 = ls_recipe_value(again, "parallel.data"),
             *reshard2 = ls_recipe_value(again, "parallel.reshard_after_forward");
        assert_string_equal(data2, data);
        assert_string_equal(reshard2, reshard);
        free(data);
        free(reshard);
        free(data2);
        free(reshard2);
        free(yaml);
        ls_recipe_destroy(&r);
        ls_recipe_destroy(&again);
    }
    REFUSED(MINIMAL "parallel:\n  data: FULL_SHARD\n  reshard_after_forward: false\n",
            "here.yaml:5: parallel.reshard_after_forward", "parallel.data: FULL_SHARD, which means true");
    REFUSED(MINIMAL "parallel:\n  data: FULL_SHARD\n  reshard_after_forward: 2\n",
            "here.yaml:5: parallel.reshard_after_forward", "contradicts");
    REFUSED(MINIMAL "parallel:\n  reshard_after_forward: true\n  data: shard_grad_op\n", "here.yaml:4",
            "parallel.data: shard_grad_op, which means false");
    SET_REFUSED("parallel={data: NO_SHARD, reshard_after_forward: 2}", "shards nothing");
    SET_REFUSED("parallel.data=FULL_SHRED", "parallel.data");
}

/* ---- YAML */

static void broken_and_hostile_yaml(void **state)
{
    (void)state;
    REFUSED("model: {type: vit\n", "here.yaml:", "not YAML");
    REFUSED("device: cpu\nmodel: {type: vit, init: ${HOME}/x}\n", "here.yaml:2", "${NAME} stands in quotes");
    REFUSED("model: {type: vit}\ndata: {type: mnist}\nmodel: {type: mlp}\n", "here.yaml:3",
            "'model' is given twice, first in line 1");
    REFUSED("model:\n  type: vit\n  type: vit\n", "here.yaml:3", "'type'", "line 2");
    REFUSED(MINIMAL "---\nmodel: {type: vit}\n", "second document");
    REFUSED("run: {name: \"a\\0b\"}\n", "NUL");
    REFUSED("? [a, b]\n: 1\n", "a key must be a plain word");
    REFUSED("run: *nowhere\n", "nothing before it has the anchor &nowhere");
    /* an alias inside what it names */
    REFUSED("model: &m {type: *m}\n", "nothing before it has the anchor &m");
    REFUSED("\xff\xfe\xff", "here.yaml");
    static const char raw_nul[] = "model: {type: vit}\0\n";
    ls_recipe *r = NULL;
    ASSERT_FAILS(ls_recipe_load_text(&r, raw_nul, sizeof raw_nul - 1, "nul", 0, NULL), LS_E_USAGE, "nul");
    char deep[4096] = "run: ";
    memset(deep + 5, '[', 4000);
    REFUSED(deep, "nested deeper than");
    ls_str bomb = { 0 };
    ls_str_add(&bomb, "run: {name: x}\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 30; i++)
        ls_str_printf(&bomb, "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i, i - 1,
                      i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
    REFUSED(bomb.data, "a0: unknown key");
    ls_str_clear(&bomb);
    ls_str_add(&bomb, "run: [");
    for (int i = 0; i < 6000; i++)
        ls_str_add(&bomb, "1,");
    ls_str_add(&bomb, "]\n");
    REFUSED(bomb.data, "more than 5000 values");
    ls_str_release(&bomb);
    char *large = malloc(LS_YAML_MAX_BYTES + 2);
    memset(large, ' ', LS_YAML_MAX_BYTES + 1);
    large[LS_YAML_MAX_BYTES + 1] = 0;
    REFUSED(large, "too large");
    free(large);
}

static void anchors_serve_where_they_help(void **state)
{
    (void)state;
    ls_recipe *r;
    ASSERT_OK(load(&r,
                   "model: {type: vit, hidden_size: &width 64, mlp_size: *width}\ndata: {type: "
                   "mnist}\nparallel: {prefetch: {forward: &n 2, backward: *n}}\n",
                   0, NULL));
    assert_int_equal(r->model.mlp_size, 64);
    assert_int_equal(r->parallel.prefetch.backward, 2);
    ls_recipe_destroy(&r);
}

static void environment_variables(void **state)
{
    (void)state;
    ls_recipe *r;
    const char *const text = "run: {name: \"n-${LS_TEST_A}\"}\nmodel: {type: vit}\ndata:\n  type: mnist\n  "
                             "path: ${LS_TEST_B:-some/where}/x\nparallel:\n  units: pattern:$${LS_TEST_A}\n"
                             "train:\n  epochs: ${LS_TEST_N}\n";
    setenv("LS_TEST_A", "one", 1);
    setenv("LS_TEST_N", "7", 1);
    unsetenv("LS_TEST_B");
    ASSERT_OK(load(&r, text, 0, NULL));
    assert_string_equal(r->run.name, "n-one");
    assert_string_equal(r->data.path, "some/where/x");
    assert_string_equal(r->parallel.units, "pattern:${LS_TEST_A}");
    assert_int_equal(r->train.epochs, 7);
    assert_string_equal(ls_recipe_origin(r, "run.name"), "here.yaml:1 (environment LS_TEST_A)");
    assert_string_equal(ls_recipe_origin(r, "data.path"), "here.yaml:5");
    ls_recipe_destroy(&r);
    setenv("LS_TEST_B", "there", 1);
    ASSERT_OK(load(&r, text, 0, NULL));
    assert_string_equal(r->data.path, "there/x");
    ls_recipe_destroy(&r);
    unsetenv("LS_TEST_N");
    REFUSED(text, "here.yaml:9", "LS_TEST_N is not set", "${LS_TEST_N:-default}");
    REFUSED("run: {name: \"${LS TEST}\"}\n", "here.yaml:1", "${NAME}");
    REFUSED("run:\n  name: ${open\n", "here.yaml:2", "without '}'");
}

static void write_file(const char *name, const char *text)
{
    ASSERT_OK(ls_file_write(ls_test_path(name), text, strlen(text)));
}

static void includes_speak_first(void **state)
{
    (void)state;
    ls_recipe *r;
    char origin[600];
    ASSERT_OK(ls_make_dirs(ls_test_path("sub")));
    write_file("base.yaml",
               "model: {type: vit, layers: 3}\ndata: {type: mnist}\ntrain: {epochs: 4, steps: 9}\n");
    write_file("sub/middle.yaml", "include: ../base.yaml\ntrain: {epochs: 5}\n");
    write_file("top.yaml", "train: {epochs: 6}\ninclude: [sub/middle.yaml]\n");
    ASSERT_OK(ls_recipe_load(&r, ls_test_path("top.yaml"), 0, NULL));
    assert_int_equal(r->model.layers, 3);
    assert_int_equal(r->train.epochs, 6);
    assert_int_equal(r->train.steps, 9);
    assert_string_equal(r->run.name, "top");
    snprintf(origin, sizeof origin, "%s/sub/../base.yaml:3", ls_test_dir());
    assert_string_equal(ls_recipe_origin(r, "train.steps"), origin);
    ls_recipe_destroy(&r);
    const char *set = "train.epochs=8";
    ASSERT_OK(ls_recipe_load(&r, ls_test_path("top.yaml"), 1, &set));
    assert_int_equal(r->train.epochs, 8);
    ls_recipe_destroy(&r);
    write_file("bundled.yaml", "include: mlp-mnist\nmodel: {hidden: [16]}\n");
    ASSERT_OK(ls_recipe_load(&r, ls_test_path("bundled.yaml"), 0, NULL));
    assert_int_equal(r->model.hidden.at[0], 16);
    assert_string_equal(r->data.type, "mnist");
    ls_recipe_destroy(&r);
    write_file("a.yaml", "include: b.yaml\n");
    write_file("b.yaml", "include: ./b2.yaml\n");
    write_file("b2.yaml", "include: b.yaml\n");
    ASSERT_FAILS(ls_recipe_load(&r, ls_test_path("a.yaml"), 0, NULL), LS_E_USAGE, "a.yaml:1: include");
    write_file("self.yaml", "include: self.yaml\n");
    ASSERT_FAILS(ls_recipe_load(&r, ls_test_path("self.yaml"), 0, NULL), LS_E_USAGE,
                 "self.yaml includes itself");
    write_file("gone.yaml", "include: gone2.yaml\n");
    ASSERT_FAILS(ls_recipe_load(&r, ls_test_path("gone.yaml"), 0, NULL), LS_E_USAGE, "gone.yaml:1: include",
                 "gone2.yaml: no such");
    ASSERT_FAILS(ls_recipe_load(&r, ls_test_dir(), 0, NULL), LS_E_USAGE, "is a folder");
    ASSERT_FAILS(ls_recipe_load(&r, "vit-fashion-mnst", 0, NULL), LS_E_USAGE, "vit-fashion-mnist");
}

/* ---- the rest */

static void bundled_recipes_load(void **state)
{
    (void)state;
    const char *name, *summary, *text;
    int n = 0;
    bool vit = false;
    for (; (name = ls_recipe_bundled(n, &summary, &text)); n++) {
        ls_recipe *r;
        ASSERT_OK(ls_recipe_load(&r, name, 0, NULL));
        assert_string_equal(r->run.name, name); /* the file's name, so that a run's folder says what it is */
        assert_true(*summary && text[0] == '#');
        vit = vit || !strcmp(name, "vit-fashion-mnist");
        ls_recipe_destroy(&r);
    }
    assert_true(n >= 2 && vit);
}

static void set_changes_one_key_or_nothing(void **state)
{
    (void)state;
    ls_recipe *r;
    ASSERT_OK(load(&r, MINIMAL, 0, NULL));
    ls_recipe *before;
    ASSERT_OK(load(&before, MINIMAL, 0, NULL));
    ASSERT_OK(ls_recipe_set(r, "train.micro_batch", "64", "resolved"));
    assert_int_equal(r->train.micro_batch, 64);
    assert_string_equal(ls_recipe_origin(r, "train.micro_batch"), "resolved");
    char *difference = ls_recipe_difference(r, before);
    ASSERT_CONTAINS(difference, "train.micro_batch: 64 here, 0 there");
    free(difference);
    ls_recipe_destroy(&before);
    ASSERT_FAILS(ls_recipe_set(r, "train.micro_batch", "63", "resolved"), LS_E_USAGE,
                 "resolved train.micro_batch", "does not divide");
    ASSERT_FAILS(ls_recipe_set(r, "nonsense", "63", "resolved"), LS_E_USAGE, "nonsense");
    assert_int_equal(r->train.micro_batch, 64);
    assert_string_equal(ls_recipe_origin(r, "train.micro_batch"), "resolved");
    assert_null(ls_recipe_value(r, "nonsense"));
    assert_null(ls_recipe_origin(r, "nonsense"));
    ls_recipe_destroy(&r);
}

static void differences_name_the_keys(void **state)
{
    (void)state;
    ls_recipe *a, *b;
    ASSERT_OK(load_set(&a, MINIMAL, "train.global_batch=64"));
    ASSERT_OK(load(&b,
                   "model: {type: vit}\ndata: {type: mnist}\nrun: {name: here}\ntrain: {epochs: "
                   "9}\noptimizer: {type: sgd}\n",
                   0, NULL));
    char *d = ls_recipe_difference(a, b);
    ASSERT_CONTAINS(d, "train.global_batch: 64 here, 128 there");
    ASSERT_CONTAINS(d, "optimizer.type: adam here, sgd there");
    ASSERT_CONTAINS(d, "optimizer.momentum: (none) here, 0 there");
    assert_null(strstr(d, "epochs"));
    free(d);
    ls_recipe_destroy(&a);
    ls_recipe_destroy(&b);
}

static void the_table_is_in_order(void **state)
{
    (void)state;
    for (int i = 0; i < LS_KEY_COUNT; i++) {
        assert_int_equal(ls_key_find(LS_KEYS[i].key), i); /* no key twice */
        assert_true(*LS_KEYS[i].help);
        if (LS_KEYS[i].kind == LS_KEY_INT || LS_KEYS[i].kind == LS_KEY_REAL ||
            LS_KEYS[i].kind == LS_KEY_BYTES)
            assert_true(LS_KEYS[i].min < LS_KEYS[i].max); /* every number has bounds */
        for (int j = 0; j < i; j++) {                     /* members do not overlap by a wrong AT() */
            if (LS_KEYS[i].offset == LS_KEYS[j].offset)
                fail_msg("%s and %s have one place", LS_KEYS[i].key, LS_KEYS[j].key);
        }
    }
    char *text = ls_recipe_reference(false);
    for (int i = 0; i < LS_KEY_COUNT; i++)
        ASSERT_CONTAINS(text, LS_KEYS[i].key);
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

/* Every word of model.type and data.type has its row, and every row its word; each row says what becomes of
 * config.json. */
static void rows_have_words(void **state)
{
    (void)state;
    int n = 0;
    for (; LS_MODELS[n]; n++) {
        const ls_model_row *m = LS_MODELS[n];
        assert_string_equal(m->name, LS_MODEL_WORDS[n]);
        assert_ptr_equal(ls_model_row_find(m->name), m);
        assert_true(m->build && (m->config == NULL) != (m->huggingface == NULL));
        for (const char *const *k = m->config; k && *k; k++) {
            char key[64];
            snprintf(key, sizeof key, "model.%s", *k);
            assert_true(ls_key_find(key) >= 0);
        }
    }
    assert_null(LS_MODEL_WORDS[n]);
    assert_null(ls_model_row_find("no such model"));
    for (n = 0; LS_DATA[n].name; n++)
        assert_string_equal(LS_DATA[n].name, LS_DATA_WORDS[n]);
    assert_null(LS_DATA_WORDS[n]);
    for (n = 0; LS_OPTIMIZERS[n].name; n++)
        assert_string_equal(LS_OPTIMIZERS[n].name, LS_OPTIMIZER_WORDS[n]);
    assert_null(LS_OPTIMIZER_WORDS[n]);
    for (n = 0; LS_SCHEDULES[n].name; n++)
        assert_string_equal(LS_SCHEDULES[n].name, LS_SCHEDULE_WORDS[n]);
    assert_null(LS_SCHEDULE_WORDS[n]);
    char list[LS_MODEL_LIST];
    assert_string_equal(ls_model_list(list, ls_model_continues_text), "llama, qwen2");
}

/* Every name in `keys` is the last one of a key that asks that table. */
static void lists_known_keys(const char *type, const char *row, const char *keys)
{
    char word[64];
    for (int used; sscanf(keys, "%63s%n", word, &used) == 1; keys += used) {
        int found = 0;
        for (int i = 0; i < LS_KEY_COUNT; i++) {
            const char *dot = strrchr(LS_KEYS[i].key, '.');
            found += dot && !strcmp(dot + 1, word) && LS_KEYS[i].type && !strcmp(LS_KEYS[i].type, type);
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
    for (int i = 0; i < LS_KEY_COUNT; i++) {
        ls_str types = { 0 };
        if (LS_KEYS[i].type)
            ls_key_types(&types, &LS_KEYS[i]);
        if (LS_KEYS[i].type && !types.len)
            fail_msg("%s is a key of no %s: no row lists it", LS_KEYS[i].key, LS_KEYS[i].type);
        ls_str_release(&types);
    }
}

/* Every option that a layer below can refuse leads to a key, and its message begins with the place of that.
 */
static void options_lead_to_keys(void **state)
{
    (void)state;
    ls_recipe *r;
    ASSERT_OK(load(&r, MINIMAL "parallel: {units: \"class:Block\"}\n", 0, NULL));
    for (ls_field f = LS_FIELD_NONE + 1; f < LS_FIELD_COUNT; f++) {
        ls_fail_field(LS_E_SHAPE, f, "cannot be");
        assert_int_equal(ls_recipe_blame(r, LS_E_USAGE), LS_E_USAGE);
        assert_memory_equal(ls_error_message(), "here.yaml", 9);
        const char *rest = strstr(ls_error_message(), ": cannot be");
        assert_non_null(rest);
        assert_string_equal(rest, ": cannot be");
        if (f == LS_FIELD_UNITS)
            assert_string_equal(ls_error_message(), "here.yaml:3: parallel.units: cannot be");
    }
    ls_fail(LS_E_USAGE, "units: of something else");
    assert_int_equal(ls_recipe_blame(r, LS_E_USAGE), LS_E_USAGE);
    assert_string_equal(ls_error_message(), "units: of something else");
    assert_int_equal(ls_recipe_blame(r, LS_OK), LS_OK);
    ls_recipe_destroy(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_have_words),
        cmocka_unit_test(rows_and_keys_agree),
        cmocka_unit_test(options_lead_to_keys),
        cmocka_unit_test(defaults_are_those_of_the_contract),
        cmocka_unit_test(every_key_is_set_printed_and_read_back),
        cmocka_unit_test(values_arrive_in_their_members),
        cmocka_unit_test(unknown_keys_name_the_nearest),
        cmocka_unit_test(names_of_other_programs_lead_to_ours),
        cmocka_unit_test(wrong_values_say_what_is_needed),
        cmocka_unit_test(impossible_combinations_are_refused),
        cmocka_unit_test(keys_of_another_type_are_refused),
        cmocka_unit_test(what_comes_later_is_refused),
        cmocka_unit_test(layouts_that_no_number_of_ranks_makes_right),
        cmocka_unit_test(values_are_printed_as_they_are_read),
        cmocka_unit_test(names_of_fsdp1_mean_what_they_meant),
        cmocka_unit_test(broken_and_hostile_yaml),
        cmocka_unit_test(anchors_serve_where_they_help),
        cmocka_unit_test(environment_variables),
        cmocka_unit_test(includes_speak_first),
        cmocka_unit_test(bundled_recipes_load),
        cmocka_unit_test(set_changes_one_key_or_nothing),
        cmocka_unit_test(differences_name_the_keys),
        cmocka_unit_test(the_table_is_in_order),
        cmocka_unit_test(the_reference_in_docs_is_current),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
