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
#define ARRAYS "data={type: arrays, train: {x: a.npy}, eval: {x: a.npy}}"
static const useless USELESS[] = {
    { "kernels", { "device=ref", "kernels=tf32" }, "tf32 is for device cuda" },
    { "isa", { "device=ref", "isa=avx2" }, "device ref has no instruction sets" },
    { "data.path", { "data={type: shapes, path: a}" }, "no effect with data.type shapes" },
    { "data.mirror", { "data={path: a, mirror: b}" }, "no effect with data.path a" },
    { "data.mirror", { "data={download: false, mirror: b}" }, "no effect with data.download false" },
    { "model.inputs", { "model={type: mlp, inputs: {x: [8]}}" }, "model.outputs is missing" },
    { "model.outputs", { "model={type: mlp, outputs: {y: [3]}}" }, "model.inputs is missing" },
    { "loss", { "model.type=mlp", "loss={type: mse, of: y}" }, "model.inputs is missing" },
    { "model.scale", { "model={type: mlp, scale: none}" }, "no effect with model.inputs {}" },
    { "model.refit", { "model={type: mlp, init: ., refit: true}" }, "no effect with model.inputs {}" },
    { "model.refit",
      { "model={type: mlp, inputs: {x: [8]}, outputs: {y: [3]}, init: ., scale: none, refit: true}",
        "loss={type: mse, of: y}", ARRAYS },
      "no effect with model.scale none" },
    { "model.image_size",
      { "model={type: mlp, inputs: {x: [8]}, outputs: {y: [3]}, image_size: 20}", "loss={type: mse, of: y}",
        ARRAYS },
      "no effect with model.inputs {x: [8]}" },
    { "model.in_channels",
      { "model={type: mlp, inputs: {x: [8]}, outputs: {y: [3]}, in_channels: 20}", "loss={type: mse, of: y}",
        ARRAYS },
      "no effect with model.inputs {x: [8]}" },
    { "model.classes",
      { "model={type: mlp, inputs: {x: [8]}, outputs: {y: [3]}, classes: 20}", "loss={type: mse, of: y}",
        ARRAYS },
      "no effect with model.outputs {y: [3]}" },
    { "model.refit",
      { "model={type: mlp, inputs: {x: [8]}, outputs: {y: [3]}, refit: true}", "loss={type: mse, of: y}",
        ARRAYS },
      "no effect with model.init random" },
    { "data.missing",
      { "model={type: mlp, inputs: {x: [8]}, outputs: {y: [3]}}", "loss={type: cross_entropy, of: y}",
        "data={type: arrays, train: {x: a.npy}, eval: {x: a.npy}, missing: mask}" },
      "no loss has a target of floats" },
    { "data.size", { MASKS, "data={type: images, path: a, size: 32}" }, "no effect with model.inputs" },
    { "data.mean", { MASKS, "data={type: images, path: a, mean: 0.4}" }, "no effect with model.inputs" },
    { "data.std", { MASKS, "data={type: images, path: a, std: 0.2}" }, "no effect with model.inputs" },
    { "data.ignore",
      { "model={type: vit, image_size: 28}", "data={type: images, path: a, ignore: 255}" },
      "no effect with model.inputs {}" },
    { "data.augment.erase",
      { MASKS, "data={type: images, path: a, augment: {erase: 0.1}}" },
      "pictures with masks cannot be erased" },
    { "data.augment.mixup",
      { MASKS, "data={type: images, path: a, augment: {mixup: 0.1}}" },
      "samples with masks cannot be mixed" },
    { "data.augment.cutmix",
      { MASKS, "data={type: images, path: a, augment: {cutmix: 1}}" },
      "samples with masks cannot be mixed" },
    { "data.augment.padding", { "data.augment.padding=2" }, "no effect with data.augment.crop none" },
    { "data.augment.crop_scale",
      { "data.augment={crop: padded, crop_scale: [0.5, 1]}" },
      "no effect with data.augment.crop padded" },
    { "data.augment.crop_ratio",
      { "data.augment.crop_ratio=[1, 1]" },
      "no effect with data.augment.crop none" },
    { "data.augment.randaugment.magnitude",
      { "data.augment.randaugment.magnitude=5" },
      "no effect with data.augment.randaugment.ops 0" },
    { "data.augment.randaugment.bins",
      { "data.augment.randaugment.bins=11" },
      "no effect with data.augment.randaugment.ops 0" },
    { "data.augment.jitter.saturation",
      { "data.augment.jitter.saturation=0.5" },
      "images of 1 channel have no saturation" },
    { "data.augment.jitter.hue", { "data.augment.jitter.hue=0.5" }, "have no hue" },
    { "data.augment.erase_scale",
      { "data.augment.erase_scale=[0.1, 0.2]" },
      "no effect with data.augment.erase 0" },
    { "data.augment.erase_ratio",
      { "data.augment.erase_ratio=[1, 1]" },
      "no effect with data.augment.erase 0" },
    { "data.augment.mixup",
      { "data.augment.mixup=0.2", "train={global_batch: 4, micro_batch: 1}" },
      "train.micro_batch is 1" },
    { "data.augment.cutmix",
      { "data.augment.cutmix=1", "train={global_batch: 4, micro_batch: 1}" },
      "train.micro_batch is 1" },
    { "train.label_smoothing",
      { "model={type: mlp, inputs: {x: [8]}, outputs: {y: [3]}}", "loss={type: mse, of: y}", ARRAYS,
        "train.label_smoothing=0.1" },
      "no effect with model.outputs {y: [3]}" },
    { "train.class_weights",
      { "model={type: mlp, inputs: {x: [8]}, outputs: {y: [3]}}", "loss={type: mse, of: y}", ARRAYS,
        "train.class_weights=balanced" },
      "need one loss of type cross_entropy" },
    { "data.sampler", { "data={shuffle: false, sampler: balanced}" }, "no effect with data.shuffle false" },
    { "data.eval_fraction",
      { "model={type: llama}",
        "data={type: text, train_text: a, tokenizer: bytes, eval_text: b, eval_fraction: 0.5}" },
      "no effect with data.eval_text b" },
    { "data.eval_fraction",
      { "model.type=vit", "data={type: images, eval_images: b, eval_fraction: 0.1}" },
      "no effect with data.eval_images b" },
    { "data.eval_fraction",
      { "model.type=vit", "data={type: images, eval_fraction: 0.1}", "eval.every_epochs=-1" },
      "nothing is" },
    { "data.field",
      { "model={type: llama}", "data={type: text, train_text: a, tokenizer: bytes, field: f}" },
      "no effect with data.documents file" },
    { "train.drop_last",
      { "model={type: resnet18, image_size: 28}", "train.drop_last=false" },
      "batch_norm" },
    { "train.freeze",
      { "train.freeze=nothing" },
      "--set train.freeze: nothing: the model has no parameter or module of that name" },
    { "optimizer.groups",
      { "optimizer.groups=[{match: \"class:LayerNorm pattern:*.gamma\", lr_factor: 2}]" },
      "--set optimizer.groups: group 1: pattern:*.gamma names no parameter" },
    { "optimizer.groups",
      { "optimizer.groups=[{match: \"pattern:*\"}, {match: class:LayerNorm}]" },
      "group 2 (class:LayerNorm) gets no parameter" },
    { "optimizer.groups",
      { "optimizer.groups=[{match: class:LayerNorm, adamw: true}]" },
      "adamw is for optimizer muon" },
    { "optimizer.lr",
      { "optimizer={type: adafactor, lr: 2e-3}" },
      "no effect with optimizer.relative_step true" },
    { "schedule.type",
      { "optimizer={type: adafactor}", "schedule={type: cosine}" },
      "no effect with optimizer.relative_step true" },
    { "optimizer.groups",
      { "optimizer={type: adafactor, groups: [{match: class:LayerNorm, lr_factor: 0.5}]}" },
      "lr_factor 0.5 has no effect with adafactor's relative_step" },
    { "optimizer.warmup_init",
      { "optimizer={type: adafactor, relative_step: false, warmup_init: true}" },
      "no effect with optimizer.relative_step false" },
    { "optimizer.min_scale",
      { "optimizer={type: adafactor, scale_parameter: false, min_scale: 0.5}" },
      "no effect with optimizer.scale_parameter false" },
    { "parallel.offload",
      { "optimizer={type: muon}", "parallel={offload: cpu}" },
      "optimizer muon gathers whole parameters" },
    { "parallel.mesh",
      { "optimizer={type: adafactor}", "parallel={mesh: {dp: auto, tp: 2}}", "workers=2" },
      "optimizer adafactor needs whole matrices, and an axis of role tensor shards" },
    { "eval.ema", { "eval.ema=true" }, "no effect with optimizer.ema_decay 0" },
    { "model.reset", { "model.reset=heads" }, "no effect with model.init random" },
    { "model.rename", { "model.rename=[{from: a, to: b}]" }, "no effect with model.init random" },
    { "model.init_strict", { "model.init_strict=false" }, "no effect with model.init random" },
    { "optimizer.dampening",
      { "optimizer={type: sgd, dampening: 0.5}" },
      "no effect with optimizer.momentum 0" },
    { "optimizer.nesterov", { "optimizer={type: sgd, nesterov: true}" }, "momentum above 0" },
    { "schedule.step_size",
      { "schedule={type: step, step_size: 5, step_epochs: 1}" },
      "no effect with schedule.step_epochs 1" },
    { "parallel.units",
      { "parallel.units=class:Nothing" },
      "--set parallel.units: class:Nothing: no module with parameters of the model matches" },
    { "parallel.reshard_after_forward",
      { "parallel={data: ddp, reshard_after_forward: 2}" },
      "ddp shards nothing" },
    { "parallel.gather", { "parallel={data: ddp, gather: map}" }, "no effect with parallel.data ddp" },
    { "parallel.prefetch.forward",
      { "parallel={data: ddp, prefetch: {forward: 2}}" },
      "no effect with parallel.data ddp" },
    { "parallel.prefetch.forward",
      { "parallel={prefetch: {memory: 1MiB, forward: 2}}" },
      "no effect with parallel.prefetch.memory 1MiB" },
    { "parallel.prefetch.backward",
      { "parallel={data: none, prefetch: {backward: 2}}" },
      "no effect with parallel.data none" },
    { "parallel.prefetch.backward",
      { "parallel={prefetch: {memory: 1MiB, backward: 2}}" },
      "no effect with parallel.prefetch.memory 1MiB" },
    { "parallel.prefetch.memory",
      { "parallel={data: ddp, prefetch: {memory: 1MiB}}" },
      "no effect with parallel.data ddp" },
    { "parallel.tensor", { "parallel.tensor=colwise:mlp.0" }, "no axis of role tensor" },
    { "parallel.tensor",
      { "parallel={mesh: {dp: auto, tp: 1}, tensor: colwise:mlp.9}" },
      "did you mean colwise:mlp.0?" },
    { "parallel.sequence", { "parallel.sequence=true" }, "no axis of role tensor" },
    { "parallel.synchronize",
      { "parallel={data: none, synchronize: once}" },
      "no effect with parallel.data none" },
    { "parallel.bucket", { "parallel={bucket: 1MiB}" }, "no effect with parallel.data fsdp" },
    { "parallel.sync_batch_norm",
      { "model={type: resnet18, image_size: 28}", "parallel={data: none, sync_batch_norm: true}" },
      "no effect with parallel.data none" },
    { "parallel.offload", { "parallel={data: ddp, offload: cpu}" }, "fsdp or hybrid" },
    { "parallel.recompute", { "parallel.recompute=class:Nothing" }, "no block" },
    { "precision.reduce",
      { "device=ref", "precision={param: f64, reduce: bf16}" },
      "no effect with precision.param f64" },
    { "precision.output",
      { "device=ref", "precision={param: f64, output: bf16}" },
      "no effect with precision.param f64" },
    { "precision.output",
      { "device=ref", "precision={param: f32, output: f64}" },
      "f64 needs precision.param f64" },
    { "precision.modules",
      { "precision={modules: \"class:LayerNorm=f32\"}" },
      "changes nothing: the whole model computes in f32" },
    { "precision.modules",
      { "precision={param: bf16, modules: \"class:BatchNorm2d=f32\"}" },
      "no module that matches" },
    { "precision.modules",
      { "device=ref", "precision={param: f64, modules: \"class:LayerNorm=f32\"}" },
      "no effect with param f64" },
    { "precision.cast_forward_inputs",
      { "precision={cast_forward_inputs: false}" },
      "everything computes in one type" },
    { "precision.cast_forward_inputs",
      { "precision={param: bf16, cast_forward_inputs: false}" },
      "--set precision.cast_forward_inputs: false, and " },
    { "precision.scaler.init", { "precision={scaler: {init: 8}}" }, "nothing computes in f16" },
    { "precision.scaler.growth",
      { "precision={param: bf16, scaler: {growth: 8}}" },
      "nothing computes in f16" },
    { "precision.scaler.backoff", { "precision={scaler: {backoff: 0.25}}" }, "nothing computes in f16" },
    { "precision.scaler.interval", { "precision={scaler: {interval: 8}}" }, "nothing computes in f16" },
    { "checkpoint.best.metric",
      { "eval.every_epochs=-1", "checkpoint={best: {metric: eval_accuracy, mode: max}}" },
      "no effect with eval.every_epochs -1" },
    { "checkpoint.best.metric",
      { "checkpoint={best: {metric: eval_rougeL, mode: max}}" },
      "eval_rougeL needs eval.generate.tokens" },
    { "eval.generate.tokens",
      { "model={type: t5}", "data={type: pairs, train_text: a, tokenizer: bytes}",
        "eval={every_epochs: -1, generate: {tokens: 5}}" },
      "no effect with eval.every_epochs -1" },
    { "eval.generate.beams",
      { "model={type: t5}", "data={type: pairs, train_text: a, tokenizer: bytes}",
        "eval={generate: {beams: 2}}" },
      "no effect with eval.generate.tokens 0" },
    { "eval.generate.no_repeat",
      { "model={type: t5}", "data={type: pairs, train_text: a, tokenizer: bytes}",
        "eval={generate: {no_repeat: 2}}" },
      "no effect with eval.generate.tokens 0" },
    { "eval.generate.length_penalty",
      { "model={type: t5}", "data={type: pairs, train_text: a, tokenizer: bytes}",
        "eval={generate: {tokens: 5, length_penalty: 2}}" },
      "no effect with eval.generate.beams 1" },
    { "eval.generate.samples",
      { "model={type: t5}", "data={type: pairs, train_text: a, tokenizer: bytes}",
        "eval={generate: {samples: 2}}" },
      "no effect with eval.generate.tokens 0" },
    { "checkpoint.best.metric",
      { "checkpoint={every_epochs: -1, best: {metric: eval_accuracy, mode: max}}" },
      "no effect with checkpoint.every_epochs -1" },
    { "eval.every_steps",
      { "eval={every_epochs: -1, every_steps: 5}" },
      "no effect with eval.every_epochs -1" },
    { "checkpoint.every_steps",
      { "checkpoint={every_epochs: -1, every_steps: 5}" },
      "no effect with checkpoint.every_epochs -1" },
    { "checkpoint.keep",
      { "checkpoint={every_epochs: -1, keep: 5}" },
      "no effect with checkpoint.every_epochs -1" },
    { "train.early_stopping.patience",
      { "train.early_stopping.patience=2", "eval.every_epochs=0" },
      "eval_loss is not measured while the model trains" },
    { "train.early_stopping.min_delta",
      { "train.early_stopping.min_delta=0.5" },
      "no effect with train.early_stopping.patience 0" },
    { "checkpoint.keep_best",
      { "checkpoint={every_epochs: -1, keep_best: 3}" },
      "no effect with checkpoint.every_epochs -1" },
    { "checkpoint.export",
      { "checkpoint={every_epochs: -1, export: model.pt}" },
      "no effect with checkpoint.every_epochs -1" },
    { "checkpoint.export", { "checkpoint.export=model.zip" }, "must end in .safetensors, .pt or" },
    { "checkpoint.export", { "checkpoint.export=../model.pt" }, "below the run's folder" },
    { "checkpoint.export", { "checkpoint.export=checkpoints/a.pt" }, "below the run's folder" },
    { "checkpoint.export_best",
      { "checkpoint={every_epochs: -1, export_best: model.pt}" },
      "no effect with checkpoint.every_epochs -1" },
    { "checkpoint.export_best",
      { "checkpoint={async: true, export_best: model.pt}" },
      "no effect with checkpoint.async true" },
    { "checkpoint.export_best", { "checkpoint.export_best=log/{epoch}.pt" }, "below the run's folder" },
    { "checkpoint.async",
      { "checkpoint={every_epochs: -1, async: true}" },
      "no effect with checkpoint.every_epochs -1" },
    { "checkpoint.max_file",
      { "checkpoint={every_epochs: -1, max_file: 1MiB}" },
      "no effect with checkpoint.every_epochs -1" },
    { "checkpoint.max_file",
      { "checkpoint={files: per_rank, max_file: 1MiB}" },
      "no effect with checkpoint.files per_rank" },
    { "checkpoint.files",
      { "checkpoint={every_epochs: -1, files: per_rank}" },
      "no effect with checkpoint.every_epochs -1" },
    { "run.time_limit",
      { "run.time_limit=5", "checkpoint.every_epochs=-1" },
      "no effect with checkpoint.every_epochs -1" },
    { "checkpoint.best.mode",
      { "checkpoint={best: {mode: max}}" },
      "eval_loss is better when it is smaller" },
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
    { "parallel.data", "the layout for every number of ranks" },
    { "precision.param", "every product has it" },
    { "eval.every_epochs", "every run has epochs" },
    { "eval.metrics", "every evaluation has them; without an accuracy they are refused" },
    { "checkpoint.every_epochs", "every run has epochs" },
    { "checkpoint.verify", "every checkpoint is opened so" },
    { "failure.max_failures", "every run may fail" },
    { "failure.stall_seconds", "every rank waits for data" },
    { "log.every", "every run prints" },
    { "log.tensorboard", "every run has metrics" },
};

static const char *recipe_file(void)
{
    static const char TEXT[] = "model: {type: vit}\ndata: {type: mnist}\ntrain: {global_batch: 4}\n";
    ASSERT_OK(ls_file_write(ls_test_path("base.yaml"), TEXT, strlen(TEXT)));
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
