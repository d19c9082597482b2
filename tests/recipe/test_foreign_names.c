/* test_foreign_names.c - names and values of PyTorch and of other programs: each leads to a key and a value
 * that exist, or the message says that nothing is needed, or that this version lacks it. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "recipe/data_row.h"
#include "recipe/model_row.h"
#include "recipe/optim_row.h"
#include "recipe/recipe_fields.h"
#include "recipe/recipe_read.h"
#include "support/support.h"
#include "recipe/load.h"

/* ---- what people type, by where it comes from, and what the message says */

static const struct {
    const char *told, *typed;
} NAMES[] = {
#include "recipe/foreign_names.inc"
};

static void every_name_leads_somewhere(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        for (const char *name = NAMES[i].typed; *name; name += *name == ' ') {
            char set[80];
            const int n = (int)strcspn(name, " ");
            snprintf(set, sizeof set, "%.*s=x", n, name);
            name += n;
            SET_REFUSED(set, NAMES[i].told);
            assert_null(strstr(ls_error_message(), "unknown key (docs/recipe.md"));
        }
}

static void values_are_translated(void **state)
{
    (void)state;
    static const char *const TOLD[][2] = {
        { "bf16=true", "did you mean precision.param: bf16?" },
        { "torch_dtype=torch.bfloat16", "did you mean precision.param: bf16?" },
        { "param_dtype=bfloat16", "did you mean precision.param: bf16?" },
        { "mixed_precision=fp16", "did you mean precision.param: f16?" },
        { "precision=16-mixed", "such as `precision: {param: f16}`" },
        { "precision.param=bfloat16", "there is no 'bfloat16'; did you mean bf16?" },
        { "precision.param=fp16", "there is no 'fp16'; did you mean f16?" },
        { "precision.param=fp8", "'fp8' is not in this version" },
        { "precision.reduce=torch.float32", "did you mean f32?" },
        { "precision.param=tf32", "did you mean kernels: tf32?" },
        { "backward_prefetch=BackwardPrefetch.BACKWARD_PRE",
          "did you mean parallel.prefetch.backward: BACKWARD_PRE?" },
        { "parallel.prefetch.backward=PRE", "did you mean BACKWARD_PRE?" },
        { "parallel.prefetch.backward=BackwardPrefetch.BACKWARD_POST", "did you mean BACKWARD_POST?" },
        { "fsdp_backward_prefetch=BACKWARD_POST", "did you mean parallel.prefetch.backward: BACKWARD_POST?" },
        { "parallel.data=zero3", "did you mean fsdp?" },
        { "parallel.data=zero2", "did you mean SHARD_GRAD_OP?" },
        { "parallel.data=_HYBRID_SHARD_ZERO2",
          "did you mean hybrid? (with parallel.reshard_after_forward: false" },
        { "sharding_strategy=ShardingStrategy.SHARD_GRAD_OP", "did you mean parallel.data: SHARD_GRAD_OP?" },
        { "zero_optimization={stage: 3}", "did you mean parallel.data: fsdp?" },
        { "parallel.offload=true", "did you mean cpu?" },
        { "optim=adamw_torch_fused", "did you mean optimizer.type: adamw?" },
        { "optimizer=AdamW", "such as `optimizer: {type: adamw}`" },
        { "optimizer.type=rmsprop", "'rmsprop' is not in this version" },
        { "model=ResNet18", "such as `model: {type: resnet18}`" },
        { "parallel=ddp", "such as `parallel: {data: ddp}`" },
        { "train=3", "such as `train: {epochs: 3}`" },
        { "schedule.type=StepLR", "did you mean step?" },
        { "scheduler=CosineAnnealingLR", "did you mean schedule.type: cosine?" },
        { "data.type=cifar10", "did you mean images?" },
        { "save_strategy=epoch", "did you mean checkpoint.every_epochs: 1?" },
        { "evaluation_strategy=no", "did you mean eval.every_epochs: -1?" },
        { "report_to=wandb", "did you mean log.tensorboard? ('wandb' is not in this version" },
        { "greater_is_better=true", "did you mean checkpoint.best.mode: max?" },
    };
    for (size_t i = 0; i < sizeof TOLD / sizeof *TOLD; i++)
        SET_REFUSED(TOLD[i][0], TOLD[i][1]);
    /* a device that the machine lacks is never offered */
    SET_REFUSED("device=gpu", "there is no 'gpu'; did you mean auto? (it takes a GPU where there is one");
    SET_REFUSED("device=cuda:0", "did you mean auto?");
    SET_REFUSED("device=mps", "not in this version: cpu, and cuda for NVIDIA's GPUs");
}

/* The sections of other programs: the message is about the name in them. */
static void names_in_sections_of_other_programs(void **state)
{
    (void)state;
    REFUSED(MINIMAL "training:\n  local_batch_size: 8\n", "here.yaml:4: training.local_batch_size",
            "train.micro_batch");
    REFUSED(MINIMAL "train:\n  dataloader: {pin_memory: true}\n", "here.yaml:4: train.dataloader.pin_memory",
            "not needed");
    REFUSED(MINIMAL "activation_checkpoint: {mode: full}\n", "did you mean parallel.recompute: units?");
    /* one message has all of them */
    REFUSED(MINIMAL "train:\n  batch_size: 8\n  amp: fp16\noptim: adamw_torch\n",
            "here.yaml:4: train.batch_size: ",
            "\nhere.yaml:5: train.amp: unknown key; did you mean precision.param: f16?",
            "\nhere.yaml:6: optim: unknown key; did you mean optimizer.type: adamw?");
    /* so has one of a section whose names lead to several places */
    REFUSED(MINIMAL "trainer: {epochs: 3, lr: 1e-3, quantum: 1}\n",
            "here.yaml:3: trainer.epochs: unknown key; did you mean train.epochs?",
            "\nhere.yaml:3: trainer.lr: unknown key; did you mean optimizer.lr?",
            "\nhere.yaml:3: trainer.quantum: unknown key (docs/recipe.md");
    /* a section of theirs is one of ours with another name, or says what a name in it is about */
    SET_REFUSED("dataset.train=x", "did you mean data.train?");
    SET_REFUSED("experiment.seed=x", "did you mean run.seed?");
    SET_REFUSED("trainer.steps=x", "did you mean train.steps?");
    SET_REFUSED("tensorboard.enabled=true", "did you mean log.tensorboard?");
    SET_REFUSED("deepspeed.of.mine=true", "did you mean parallel.data?");
    /* flags have other letters in place of dots */
    SET_REFUSED("optimizer_lr=1", "did you mean optimizer.lr?");
    SET_REFUSED("checkpoint-every-steps=1", "did you mean checkpoint.every_steps?");
    SET_REFUSED("parallel_prefetch_backward=BACKWARD_POST", "did you mean parallel.prefetch.backward");
    REFUSED(MINIMAL "training: {quantum: 8}\n", "here.yaml:3: training: unknown key (docs/recipe.md");
}

/* A guess goes no further than to what was meant. */
static void no_guess_leads_far(void **state)
{
    (void)state;
    static const char *const NOTHING[] = {
        "train.quantum=1",
        "train.type=1",
        "optimizer.warp_factor=1",
        "x=1",
        "eval.metrics.of.mine=1",
        "train.interval=1",
        "train.mode=1",
        "optimizer_lr_=1",
        "log.epochs=1",
        "model.tensorboard_of=1",
        "eval.train=1",
        "model.every=1",
        "data.name_of=1",
        "devices_of_rank=1",
        "checkpoints_of=1",
        "gpus_of=1",
    };
    for (size_t i = 0; i < sizeof NOTHING / sizeof NOTHING[0]; i++)
        SET_REFUSED(NOTHING[i], "unknown key (docs/recipe.md");
}

/* ---- the tables */

/* Whether some recipe takes the setting. */
static bool is_taken(const char *set)
{
    static const char *const RECIPES[] = {
        MINIMAL,
        MINIMAL "parallel: {mesh: {dp: 2, shard: 2}}\n",
        MINIMAL "parallel: {units: class:EncoderBlock}\n",
        MINIMAL "device: cuda\n",
        MINIMAL "device: ref\n",
        MINIMAL "schedule: {type: step}\n",
        MINIMAL "checkpoint: {best: {metric: eval_accuracy}}\n",
        "model: {type: mlp}\ndata: {type: mnist}\n",
        "model: {type: resnet18}\ndata: {type: mnist}\n",
        "model: {type: mlp, inputs: {x: [2]}, outputs: {y: [2]}}\n"
        "data: {type: arrays, train: {x: x.npy, y: y.npy}, eval: {x: x.npy, y: y.npy}}\nloss: {type: mse, "
        "of: y}\n",
        "model: {type: mlp, inputs: {x: [2]}, outputs: {y: []}}\n"
        "data: {type: arrays, train: {x: x.npy, y: y.npy}, eval: {x: x.npy, y: y.npy}}\nloss: {type: mse, "
        "of: y}\n",
        "model: {type: convnext_tiny, image_size: 32}\ndata: {type: images, path: x}\n",
        "model: {type: llama}\ndata: {type: text, train_text: a, tokenizer: bytes}\n",
        "model: {type: t5}\ndata: {type: pairs, train_text: a, tokenizer: bytes}\n",
    };
    for (size_t i = 0; i < sizeof RECIPES / sizeof *RECIPES; i++) {
        ls_recipe *r = NULL;
        const ls_status s = load_set(&r, RECIPES[i], set);
        ls_recipe_destroy(&r);
        if (s == LS_OK)
            return true;
    }
    return false;
}

/* "KEY: VALUE" becomes KEY=VALUE. */
static bool is_taken_as(const char *key, const char *value)
{
    char set[160];
    const char *colon = strchr(value, ':');
    if (colon)
        snprintf(set, sizeof set, "%.*s=%s", (int)(colon - value), value, colon + 2);
    else
        snprintf(set, sizeof set, "%s=%s", key, value);
    return is_taken(set);
}

static bool is_key(const char *name) { return ls_key_find(name) >= 0 || ls_key_is_section(name); }

/* A word SECTION.NAME in a message is a key. */
static void names_keys_only(const char *how)
{
    for (const char *p = how; p && *p;) {
        const size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789_.");
        char word[80], section[80];
        snprintf(word, sizeof word, "%.*s", (int)n, p);
        if (n && n < sizeof word && word[n - 1] == '.')
            word[n - 1] = 0;
        snprintf(section, sizeof section, "%.*s", (int)strcspn(word, "."), word);
        if (strchr(word, '.') && strlen(section) && ls_key_is_section(section) && !is_key(word))
            fail_msg("the message \"%s\" names %s, which is no key", how, word);
        p += n + !n;
    }
}

static bool is_in(const char *names, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = names; (p = strstr(p, word)); p += n)
        if ((p == names || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
            return true;
    return false;
}

static void names_lead_to_keys(void **state)
{
    (void)state;
    int n = 0;
    for (const ls_foreign_name *f = LS_FOREIGN_NAMES; f->theirs; f++) {
        char ours[64] = "";
        snprintf(ours, sizeof ours, "%.*s", f->ours ? (int)strcspn(f->ours, ":") : 0, f->ours ? f->ours : "");
        assert_true(f->ours || f->how);
        if (f->ours && strchr(f->ours, ':') && !is_taken_as(NULL, f->ours))
            fail_msg("%s: no recipe takes %s", f->theirs, f->ours);
        if (!f->ours || is_key(ours))
            names_keys_only(f->how);
        for (const char *name = f->theirs; *name; name += *name == ' ') {
            char word[64], set[80];
            snprintf(word, sizeof word, "%.*s", (int)strcspn(name, " "), name);
            name += strlen(word);
            if (f->ours &&
                !is_key(ours)) { /* a later version may have the key: the next row is for this one */
                if (f[1].theirs && is_in(f[1].theirs, word))
                    continue;
                fail_msg("%s leads to %s, which is no key", word, ours);
            }
            const ls_foreign_name *found = ls_foreign_name_find(word);
            if (found != f && !(found && found + 1 == f && found->ours && is_key(found->ours)))
                fail_msg("%s is there twice", word);
            if (found != f)
                continue;
            snprintf(set, sizeof set, "hf.%s=x", word); /* whatever section somebody puts it in, */
            SET_REFUSED(set, f->ours ? f->ours : f->how);
            if (is_key(word))
                continue;
            snprintf(set, sizeof set, "%s=x", word); /* or in none */
            SET_REFUSED(set, f->ours ? f->ours : f->how);
            n++;
        }
    }
    assert_true(n > 700);
}

static void values_are_taken(void **state)
{
    (void)state;
    for (const ls_foreign_value *f = LS_FOREIGN_VALUES; f->theirs; f++) {
        assert_true(f->ours || f->how);
        names_keys_only(f->how);
        for (const char *of = f->of; *of; of += *of == ' ') {
            char key[64];
            snprintf(key, sizeof key, "%.*s", (int)strcspn(of, " "), of);
            of += strlen(key);
            if (!strcmp(key, "loss.type")) { /* a member of the key `loss` (test_refusals.c) */
                assert_true(ls_key_find("loss") >= 0);
                continue;
            }
            assert_true(ls_key_find(key) >= 0);
            const bool with_value = f->ours && (strchr(f->ours, ':') || ls_key_find(f->ours) < 0);
            if (with_value && !is_taken_as(key, f->ours))
                fail_msg("%s: no recipe takes %s as %s: %s", f->theirs, f->ours, key, ls_error_message());
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_leads_somewhere),
        cmocka_unit_test(values_are_translated),
        cmocka_unit_test(names_in_sections_of_other_programs),
        cmocka_unit_test(no_guess_leads_far),
        cmocka_unit_test(names_lead_to_keys),
        cmocka_unit_test(values_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
