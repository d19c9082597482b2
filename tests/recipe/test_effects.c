/* test_effects.c - a recipe with a key that has no effect is refused. Each key of the table gets a value that
 * cannot take effect, or a reason why every value of it has an effect. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "recipe/recipe_fields.h"
#include "support/support.h"
#include "setup/compiled_recipe.h"

enum { MOST = 4 };

/* Settings with which the key has no effect, and what the refusal says of it. */
typedef struct useless {
    const char *key, *sets[MOST], *says;
} useless;
#define MASKS                                                                  \
    "model={type: unet, inputs: {x: [1, 32, 32]}, outputs: {y: [32, 32, 3]}}", \
        "loss={type: cross_entropy, of: y}"
#define WEIGHTS LS_TEST_SOURCE_DIR "/tests/golden/mlp.safetensors"
#define TEXT "data={type: text, train_text: a, tokenizer: bytes}"
#define ARRAYS "data={type: arrays, train: {x: a.npy}, eval: {x: a.npy}}"
static const useless USELESS[] = {
#include "useless_keys.inc"
};

/* Why every value that such a key takes has its effect, in every recipe. */
static const struct {
    const char *key, *why;
} ALWAYS[] = {
    { "run.name", "the run's folder has it" },
    { "run.storage", "the run's folder is in it" },
    { "run.seed",
      "part of what run it is; the order of samples, initial weights and dropout are drawn from it" },
    { "workers", "so many ranks are started" },
    { "cores_per_worker", "every rank is bound to so many, or refused" },
    { "workers_per_host", "no host gets more ranks" },
    { "threads", "so many compute" },
    { "device", "its kernels compute" },
    { "device_memory", "a step that needs more is refused" },
    { "model.type", "it is the model" },
    { "model.init", "every recipe begins with it" },
    { "model.base", "weights of linear layers rest so; a model without any refuses it" },
    { "data.type", "it is the data" },
    { "data.shuffle", "every epoch has an order" },
    { "train.epochs", "the last step follows from it" },
    { "train.steps", "the last step follows from it" },
    { "train.steps_per_epoch", "every epoch looks at it" },
    { "train.global_batch", "every step has it" },
    { "train.micro_batch", "every forward pass has it" },
    { "train.accumulate", "every sum of micro-batches is built so; of one micro-batch both are the same" },
    { "train.loss_mean", "every loss is divided so" },
    { "train.clip_norm", "every update looks at it" },
    { "train.nonfinite", "every step may have a loss that is not finite" },
    { "train.max_skips", "in every run steps may be skipped" },
    { "optimizer.type", "every update is its" },
    { "optimizer.weight_decay", "every optimizer has one" },
    { "optimizer.ema_decay", "every update looks at it" },
    { "schedule.warmup_steps", "every schedule begins with it" },
    { "parallel.slices", "what axes tp and cp would split is split so; a model without refuses it" },
    { "parallel.data", "the layout for every number of ranks" },
    { "precision.param", "every product has it" },
    { "eval.every_epochs", "every run has epochs" },
    { "eval.batch", "every evaluation and prediction has a batch" },
    { "eval.metrics", "every evaluation has them; without an accuracy they are refused" },
    { "checkpoint.every_epochs", "every run has epochs" },
    { "checkpoint.verify", "every checkpoint is opened so" },
    { "failure.max_failures", "every run may fail" },
    { "failure.stall_seconds", "every rank waits for data" },
    { "failure.digest_every", "every run has weights" },
    { "log.every", "every run prints" },
    { "log.tensorboard", "every run has metrics" },
};

static const char *recipe_file(void)
{
    static const char BASE[] = "model: {type: vit}\ndata: {type: mnist}\ntrain: {global_batch: 4}\n";
    ASSERT_OK(ls_file_write(ls_test_path("base.yaml"), BASE, strlen(BASE)));
    return ls_test_path("base.yaml");
}

/* Planning with these settings is wrong usage, and the message says so. */
static void refused(const char *key, const char *const *sets, int n, const char *says)
{
    ls_compiled_recipe c;
    const ls_recipe_arg arg = { .name = recipe_file(), .n_sets = n, .sets = sets };
    const ls_status s = ls_compiled_recipe_make(&c, &arg, 0, NULL);
    if (s == LS_OK)
        fail_msg("%s: %s %s has no effect and is not refused", key, sets[0], n > 1 ? sets[1] : "");
    assert_int_equal(s, LS_E_USAGE);
    ASSERT_CONTAINS(ls_error_message(), says);
}

/* A key of one model, data set, optimizer or schedule, in a recipe of another. */
static void refused_elsewhere(const ls_key *k)
{
    static const char *const OTHERS[] = { "model.type=mlp",         "model.type=vit",
                                          "data.type=mnist",        "data.type=shapes",
                                          "optimizer.type=adam",    "optimizer.type=sgd",
                                          "schedule.type=constant", "model.type=llama",
                                          "data.type=text" };
    const size_t n = strlen(k->type);
    for (size_t i = 0; i < sizeof OTHERS / sizeof OTHERS[0]; i++) {
        char set[128];
        const char *value = strchr(OTHERS[i], '=') + 1, *sets[] = { OTHERS[i], set };
        if (strncmp(OTHERS[i], k->type, n) || OTHERS[i][n] != '=' || ls_key_is_of(k, value))
            continue;
        snprintf(set, sizeof set, "%s=1", k->key);
        ls_recipe *r = NULL;
        const char *const plain = "model: {type: vit}\ndata: {type: mnist}\n";
        ASSERT_FAILS(ls_recipe_load_text(&r, plain, strlen(plain), "plain", 2, sets), LS_E_USAGE, k->key,
                     "this key is for");
        return;
    }
    fail_msg("%s: the test knows no recipe that it is not for (%s)", k->key, k->type);
}

static void no_key_is_ignored(void **state)
{
    (void)state;
    for (int i = 0; i < ls_key_count(); i++) {
        const ls_key *k = ls_key_at(i);
        int cases = 0, needs = 0;
        for (size_t j = 0; j < sizeof USELESS / sizeof USELESS[0]; j++)
            cases += !strcmp(USELESS[j].key, k->key);
        while (k->needs && k->needs[needs])
            needs++;
        if (cases < needs)
            fail_msg(
                "%s needs %d things, and the test leaves it without effect %d times: add a case to USELESS",
                k->key, needs, cases);
        if (k->type)
            refused_elsewhere(k);
        bool always = false;
        for (size_t j = 0; j < sizeof ALWAYS / sizeof ALWAYS[0]; j++)
            always |= !strcmp(ALWAYS[j].key, k->key);
        const bool sometimes = cases || k->type;
        if (always && sometimes)
            fail_msg("%s has its effect always, and not: take it out of ALWAYS", k->key);
        if (!always && !sometimes)
            fail_msg("%s: a new key? add a value that cannot take effect to USELESS, or the reason why each "
                     "does to ALWAYS",
                     k->key);
    }
}

static void useless_values_are_refused(void **state)
{
    (void)state;
    for (size_t j = 0; j < sizeof USELESS / sizeof USELESS[0]; j++) {
        const useless *u = &USELESS[j];
        int n = 0;
        while (n < MOST && u->sets[n])
            n++;
        assert_true(ls_key_find(u->key) >= 0);
        refused(u->key, u->sets, n, u->says);
        ASSERT_CONTAINS(ls_error_message(), u->key);
    }
}

/* The default stands in every resolved recipe, so it is not an error where it has no effect; records of older
 * versions load. */
static void defaults_and_records(void **state)
{
    (void)state;
    static const char *const text = "model: {type: vit}\ndata: {type: mnist, path: a, mirror: b}\nparallel: "
                                    "{data: ddp, gather: auto, sequence: true}\n";
    const char *sets[] = { "data.mirror=\"\"", "parallel.sequence=false", "data.mirror=c" };
    ls_recipe *r = NULL;
    ASSERT_FAILS(ls_recipe_load_text(&r, text, strlen(text), "t", 0, NULL), LS_E_USAGE,
                 "t:3: parallel.sequence: has no effect");
    ASSERT_FAILS(ls_recipe_load_text(&r, text, strlen(text), "t", 1, sets + 1), LS_E_USAGE,
                 "t:2: data.mirror: has no effect with data.path a (t:2); it needs data.path empty, or its "
                 "default, \"\"");
    ASSERT_OK(ls_recipe_load_text(&r, text, strlen(text), "t", 2, sets));
    ls_recipe_destroy(&r);
    ASSERT_OK(ls_recipe_load_record(&r, text, strlen(text), "t", 0, NULL));
    ls_recipe_destroy(&r);
    ASSERT_FAILS(ls_recipe_load_record(&r, text, strlen(text), "t", 1, sets + 2), LS_E_USAGE,
                 "--set data.mirror: has no effect");
}

/* A word that older versions accepted: refused where somebody writes it, with what to write instead, and kept
 * in the recipes of older runs, which are compared. */
static void a_removed_word_is_only_in_records(void **state)
{
    (void)state;
    static const char *const text = "model: {type: vit}\ndata: {type: mnist}\nkernels: onednn\n";
    const char *sets[] = { "kernels=own", "kernels=onednn", "kernels=onedn", "kernels=owm" };
    ls_recipe *r = NULL, *now;
    ASSERT_FAILS(ls_recipe_load_text(&r, text, strlen(text), "t", 0, NULL), LS_E_USAGE,
                 "t:3: kernels: onednn is refused: oneDNN was removed, because own kernels are as fast or "
                 "faster and give the same bits on any number of threads. Write own; a run that began with "
                 "onednn continues with --set kernels=own --allow-change (accepted: own tf32 cublaslt)");
    ASSERT_OK(ls_recipe_load_text(&now, text, strlen(text), "t", 1, sets));
    ASSERT_FAILS(ls_recipe_load_record(&r, text, strlen(text), "t", 1, sets + 1), LS_E_USAGE,
                 "--set kernels: onednn is refused");
    ASSERT_FAILS(ls_recipe_load_text(&r, text, strlen(text), "t", 1, sets + 2), LS_E_USAGE,
                 "--set kernels: one of own, tf32, cublaslt is needed here, not 'onedn'");
    ASSERT_FAILS(ls_recipe_load_text(&r, text, strlen(text), "t", 1, sets + 3), LS_E_USAGE,
                 "--set kernels: there is no 'owm'; did you mean 'own'? (one of: own, tf32, cublaslt)");
    ASSERT_OK(ls_recipe_load_record(&r, text, strlen(text), "t", 0, NULL));
    assert_int_equal(r->kernels, LS_KERNELS_ONEDNN); /* programs are compiled with the numbers */
    assert_true(LS_KERNELS_OWN == 0 && LS_KERNELS_ONEDNN == 1 && LS_KERNELS_TF32 == 2 &&
                LS_KERNELS_CUBLASLT == 3);
    char *difference = ls_recipe_difference(now, r);
    assert_string_equal(difference, "kernels: own here, onednn there");
    free(difference);
    ls_setup s;
    ASSERT_OK(ls_setup_inference(&s, r, 1, 0, 0)); /* it predicts, with the kernels that there are */
    assert_string_equal(s.trainer.kernels, "own");
    ls_recipe_destroy(&now);
    ls_recipe_destroy(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(no_key_is_ignored),
                                        cmocka_unit_test(useless_values_are_refused),
                                        cmocka_unit_test(defaults_and_records),
                                        cmocka_unit_test(a_removed_word_is_only_in_records) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
