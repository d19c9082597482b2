/* test_recipe.c - what a recipe means: defaults, values in their members, bundled recipes, one key changed by
 * --set, differences of two recipes. */
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "recipe/data_row.h"
#include "recipe/model_row.h"
#include "recipe/optim_row.h"
#include "recipe/recipe_fields.h"
#include "support/support.h"
#include "recipe/load.h"

static void defaults_are_those_of_the_contract(void **state)
{
    (void)state;
    ls_recipe *r;
    ASSERT_OK(load(&r, MINIMAL, 0, NULL));
    assert_string_equal(r->run.name, "here");
    assert_string_equal(r->run.storage, "runs");
    assert_int_equal(r->workers.min, 1);
    assert_int_equal(r->workers.max, 1);
    assert_int_equal(r->device, LS_RUN_AUTO);
    assert_int_equal(r->model.image_size, 28);
    assert_int_equal(r->model.layers, 10);
    assert_int_equal(r->model.mlp_size, 128);
    assert_string_equal(r->model.init, "random");
    assert_true(r->data.mean.n == 1 && r->data.mean.at[0] == 0.5 && r->data.std.at[0] == 0.5 &&
                r->data.shuffle);
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

/* ---- ranks */

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
        { "parallel.units=[class:A, \"size:1e6\", pattern:b.*]", "parallel.units",
          "\"class:A size:1e6 pattern:b.*\"" },
        { "parallel.units=class:A class:B", "parallel.units", "\"class:A class:B\"" },
        { "parallel.units=[none]", "parallel.units", "none" },
        { "train.freeze=[]", "train.freeze", "\"\"" },
        { "data.mean=[0.485]", "data.mean", "0.485" },
        { "optimizer.groups=[{weight_decay: 0, match: [class:A, pattern:*bias]}, {match: class:B}]",
          "optimizer.groups", "[{match: \"class:A pattern:*bias\", weight_decay: 0}, {match: \"class:B\"}]" },
        { "optimizer.groups=[{match: class:B, lr_factor: 1}]", "optimizer.groups", "[{match: \"class:B\"}]" },
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

/* ---- the rest */

static void bundled_recipes_load(void **state)
{
    (void)state;
    const char *name, *summary, *text;
    int n = 0;
    bool vit = false;
    for (; (name = ls_recipe_bundled(n, &summary, &text)); n++) {
        ls_recipe *r;
        ASSERT_OK(ls_recipe_load(&r, name, 1, (const char *const[]){ "model.init=random" })); /* no weights */
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

static char *whole; /* what load_and_print makes when nothing is refused */

static ls_status load_and_print(void *context)
{
    ls_recipe *r = NULL;
    const char *const SETS[] = { "train.global_batch=64", "optimizer.betas=[0.9, 0.95]" };
    ls_status s = load(&r, context, 2, SETS);
    char *yaml = s == LS_OK ? ls_recipe_yaml(r, true) : NULL,
         *difference = yaml ? ls_recipe_difference(r, r) : NULL;
    if (s == LS_OK && !difference)
        s = LS_E_MEMORY;
    for (int i = 0; i < 30 && s == LS_OK; i++) /* so that the recipe's memory is asked for more */
        s = ls_recipe_set(r, "train.micro_batch", "32", "resolved");
    char *again = s == LS_OK ? ls_recipe_yaml(r, false) : NULL;
    if (s == LS_OK && !again)
        s = LS_E_MEMORY;
    if (again && !whole)
        whole = strdup(again);
    if (again)
        assert_string_equal(again, whole); /* no value was lost */
    free(again);
    free(yaml);
    free(difference);
    ls_recipe_destroy(&r);
    return s;
}

/* A group without a decay has the optimizer's; 0 is one. */
static void decays_of_groups(void **state)
{
    (void)state;
    ls_recipe *r;
    ASSERT_OK(load(&r,
                   "model: {type: mlp}\ndata: {type: mnist}\n"
                   "optimizer: {type: adamw, weight_decay: 0.5, groups: [{match: \"pattern:*bias\", "
                   "weight_decay: 0}, {match: \"pattern:*1*\", lr_factor: 2}]}\n",
                   0, NULL));
    assert_true(ls_recipe_weight_decay(r, 0) == 0.5);
    assert_true(ls_recipe_weight_decay(r, 1) == 0);
    assert_true(ls_recipe_weight_decay(r, 2) == 0.5);
    ls_recipe_destroy(&r);
}

/* Every seventh allocation is refused in turn. */
static void a_recipe_is_loaded_without_memory(void **state)
{
    (void)state;
    static char text[] = "model: {type: vit, hidden_size: '${WIDTH}', heads: &n 4}\n"
                         "data: {type: mnist}\nrun: {name: \"a $${WIDTH} b\"}\n"
                         "optimizer: {type: adam, weight_decay: 0.1}\n"
                         "parallel: {mesh: {dp: auto}}\n";
    setenv("WIDTH", "128", 1);
    ASSERT_OK(load_and_print(text));
    assert_true(ls_test_memory(load_and_print, text, 7) > 100);
    free(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_contract),
        cmocka_unit_test(values_arrive_in_their_members),
        cmocka_unit_test(values_are_printed_as_they_are_read),
        cmocka_unit_test(names_of_fsdp1_mean_what_they_meant),
        cmocka_unit_test(bundled_recipes_load),
        cmocka_unit_test(set_changes_one_key_or_nothing),
        cmocka_unit_test(decays_of_groups),
        cmocka_unit_test(a_recipe_is_loaded_without_memory),
        cmocka_unit_test(differences_name_the_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
