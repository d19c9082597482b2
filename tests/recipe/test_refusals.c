/* test_refusals.c - recipes that are refused: unknown keys, names of other programs, wrong values, keys that
 * do not fit each other. Every message names the place and what to write. */
#include <stdio.h>
#include <string.h>
#include "recipe/data_row.h"
#include "recipe/model_row.h"
#include "recipe/optim_row.h"
#include "recipe/recipe_fields.h"
#include "recipe/recipe_read.h"
#include "support/support.h"
#include "recipe/load.h"

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
    SET_REFUSED("model.layer=1", "did you mean model.layers?");
    SET_REFUSED("modl.layers=1", "did you mean model.layers?");
    SET_REFUSED("modl.layerz=1", "did you mean model.layers?");
    SET_REFUSED("parallel.prefetch.forwards=1", "did you mean parallel.prefetch.forward?");
    SET_REFUSED("train.seed=1", "did you mean run.seed?");
    SET_REFUSED("data.drop_last=1", "did you mean train.drop_last?");
    SET_REFUSED("Max-Steps=1", "did you mean train.steps?");
    SET_REFUSED("train.epochs", "section.key=value");
    SET_REFUSED("=1", "key is missing");
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
    SET_REFUSED("data.augment=some", "data.augment: keys are needed here");
    SET_REFUSED("train=none", "train: keys are needed here");
    SET_REFUSED("data.augment.crop=random", "none, padded, resized");
    SET_REFUSED("data.augment={crop: resized, crop_scale: [1, 0.5]}", "the smaller number is first");
    SET_REFUSED("data.augment.randaugment={ops: 2, magnitude: 31}", "magnitude 31 is not below the 31 bins");
    SET_REFUSED("data.augment.randaugment={ops: 9}", "out of range");
    SET_REFUSED("data.augment.mixup=-1", "out of range");
    SET_REFUSED("train.label_smoothing=1", "out of range");
    SET_REFUSED("data.mean=[0.1, 0.2]",
                "2 numbers, and model.in_channels is 1: give one number, or one for each");
    SET_REFUSED("data.std=[0.5, 0]", "0 is out of range");
    SET_REFUSED("data.mean=[]", "a number, or a list such as [0.5, 0.4, 0.4]");
    SET_REFUSED("device=cpuu", "did you mean 'cpu'?");
    SET_REFUSED("checkpoint.max_file=many", "512MiB");
    SET_REFUSED("precision.param=f31", "element type");
    SET_REFUSED("precision.param=i32", "precision.param", "i32");
    SET_REFUSED("train=3", "keys are needed here");
    SET_REFUSED("train.early_stopping=3", "such as `train.early_stopping: {patience: 3}`");
    SET_REFUSED("train.early_stopping=true", "such as `train.early_stopping: {patience: ...}`");
    SET_REFUSED("checkpoint.best=eval_loss", "such as `checkpoint.best: {metric: eval_loss}`");
    SET_REFUSED("loss={type: CrossEntropyLoss, of: y}", "did you mean cross_entropy?");
    SET_REFUSED("loss={type: nn.L1Loss, of: y}", "did you mean mae?");
    SET_REFUSED("loss={type: smooth_l1, of: y}", "did you mean huber?", "divided by `delta`");
    SET_REFUSED("loss={type: cross_entropy, of: y, label_smoothing: 0.1}",
                "a loss has no 'label_smoothing'; did you mean the key train.label_smoothing?");
    SET_REFUSED("loss={type: cross_entropy, of: y, weight: [1, 2]}", "did you mean class_weights, which");
    SET_REFUSED("loss={type: cross_entropy, of: y, weight: balanced}", "did you mean class_weights, which");
    SET_REFUSED("loss={type: cross_entropy, of: y, ignore_index: 255}",
                "a loss has no 'ignore_index'; not needed, leave it out: a label of -100 never counts");
    SET_REFUSED("loss={type: mse, off: y}", "there is no 'off'; did you mean 'of'?");
    SET_REFUSED("parallel.mesh={dp: auto, tp: auto}", "only one axis");
    SET_REFUSED("parallel.mesh={DP: 1}", "not a name for an axis");
    SET_REFUSED("parallel.mesh={dp:2}", "'dp:2' is not a name for an axis",
                "a space behind the colon: {dp: 2}");
    SET_REFUSED("parallel.mesh={}", "axes such as");
    SET_REFUSED("parallel.units=blocks", "class:NAME");
    SET_REFUSED("parallel.units=size:big", "number of elements");
    SET_REFUSED("parallel.units=", "it is empty: write none");
    SET_REFUSED("parallel.units=[]", "it is empty: write none");
    SET_REFUSED("parallel.units=[none, class:A]", "'none' is not a policy");
    SET_REFUSED("parallel.units=[class:A, [class:B]]",
                "--set parallel.units: a list of words is needed here");
    SET_REFUSED("parallel.units={class: A}", "a text");
    SET_REFUSED("parallel.units=size:10 size:20", "two words size:N");
    SET_REFUSED("parallel.recompute=[class:A, \"size:10\"]",
                "'class:A size:10': write none, or units, class:NAME");
    SET_REFUSED("parallel.recompute=[class:A, \"save:nothing\"]", "write save:OP with an operation");
    SET_REFUSED("parallel.recompute=\"save:linear\"", "it names no module");
    SET_REFUSED("parallel.recompute=units", "needs parallel.units");
    REFUSED(MINIMAL "parallel: {recompute: units, units: \"size:5\"}\n",
            "here.yaml:3: parallel.recompute: 'units': ", "not by size; or write class:NAME");
    SET_REFUSED("eval.generate.tokens=5", "eval.generate.tokens", "t5");
    SET_REFUSED("run.name=a/b", "folder's name");
    SET_REFUSED("run.name=..", "folder's name");
    SET_REFUSED("run.storage=gs://bucket/runs", "--set run.storage: gs://bucket/runs: gs:// is not supported",
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
    SET_REFUSED("train.micro_batch=3", "--set train.micro_batch: 3 does not divide the 128 samples of a step",
                "example with --set train.micro_batch=1");
    REFUSED(MINIMAL "train: {global_batch: 16,\n  micro_batch: 32}\n",
            ": train.micro_batch: 32 does not divide the 16 samples of a step (", ": train.global_batch)",
            "change one of the two, for example with --set train.micro_batch=4");
    REFUSED(MINIMAL "train: {global_batch: 6, micro_batch: 4}\n", "--set train.micro_batch=2");
    SET_REFUSED("precision.param=f64", "device ref");
    SET_REFUSED("checkpoint.best={metric: eval_accuracy, mode: min}", "better when it is larger",
                "checkpoint.best.mode: max");
    SET_REFUSED("checkpoint.best.metric=accuracy",
                "or eval_NAME of a metric, such as eval_loss or eval_accuracy");
    SET_REFUSED("checkpoint.best.metric=f1_kind", "such as eval_loss or eval_f1_kind");
    SET_REFUSED("checkpoint.best.metric=eval_", "or eval_NAME of a metric");
    SET_REFUSED("optimizer={type: sgd, nesterov: true}", "momentum");
    SET_REFUSED("schedule={type: cosine, total_steps: 5, warmup_steps: 5}", "warm-up");
    SET_REFUSED("schedule={type: cosine, min_lr: 1}", "schedule.min_lr",
                "larger than optimizer.lr, from which the rate falls");
    REFUSED(
        "model: {type: llama, heads: 4, kv_heads: 3}\ndata: {type: text, train_text: a, tokenizer: bytes}\n",
        "3 kv_heads do not divide 4 heads");
    SET_REFUSED("data.type=idx", "data.train_images");
    REFUSED("model: {type: vit}\ndata: {type: mnist}\ndevice: ref\nisa: avx2\n", "here.yaml:4: isa",
            "device ref");
    REFUSED("model: {type: vit}\ndata: {type: mnist}\ndevice: ref\nkernels: tf32\n", "here.yaml:4: kernels");
    SET_REFUSED("model={image_size: 65536, patch_size: 1, in_channels: 4096}", "model.image_size",
                "too large");
    REFUSED("model: {type: t5, heads: 3}\n" PAIRS, "here.yaml:1: model.heads",
            "3 heads do not divide hidden_size 128", "model.head_dim");
    REFUSED("model: {type: t5, position_buckets: 9}\n" PAIRS, "model.position_buckets", "9 is odd");
    REFUSED("model: {type: t5, position_distance: 16}\n" PAIRS, "model.position_distance",
            "16 must be above 16");
    REFUSED("model: {type: t5, vocab_size: 300, start_token: 300}\n" PAIRS, "model.start_token",
            "token id 300 is out of range: the vocabulary has ids 0 to 299");
    REFUSED("model: {type: t5}\ndata: {type: text, train_text: a, tokenizer: bytes}\n", "text",
            "model.type t5 is one of pairs of texts");
}

static void keys_of_another_type_are_refused(void **state)
{
    (void)state;
    REFUSED("model: {type: mlp, heads: 2}\ndata: {type: mnist}\n", "here.yaml:1: model.heads",
            "model.type vit", "model.type mlp (here.yaml:1)");
    SET_REFUSED("model.hidden=[3]", "--set model.hidden", "model.type mlp", "says model.type vit");
    REFUSED("model: {type: resnet50, patch_size: 7}\ndata: {type: mnist}\n", "here.yaml:1: model.patch_size",
            "model.type vit");
    SET_REFUSED("model.type=convnext_tiny", "model.image_size", "28 is too small", "32");
    SET_REFUSED("model.levels=3", "model.type unet");
    SET_REFUSED("optimizer.momentum=0.9", "optimizer.type sgd", "adam (default)");
    SET_REFUSED("schedule.gamma=0.9", "schedule.type step");
    REFUSED("model: {type: vit}\ndata: {type: shapes, download: true}\n", "data.download",
            "fashion-mnist mnist");
}

static void what_belongs_to_another_device_is_refused(void **state)
{
    (void)state;
    REFUSED("model: {type: vit}\ndata: {type: mnist}\ndevice: cuda\nisa: avx2\n",
            "avx2 is an instruction set of CPUs");
    REFUSED("model: {type: vit}\ndata: {type: mnist}\ndevice: cpu\nkernels: tf32\n",
            "tf32 is for device cuda");
    REFUSED("model: {type: vit}\ndata: {type: mnist}\ndevice: cpu\nkernels: cublaslt\n",
            "cublaslt is for device cuda");
    REFUSED("model: {type: vit}\ndata: {type: mnist}\ndevice: cpu\nisa: sm_90\n",
            "sm_90 is an architecture of GPUs");
}

/* ---- ranks */

static void layouts_that_no_number_of_ranks_makes_right(void **state)
{
    (void)state;
    REFUSED("model: {type: vit}\ndata: {type: mnist}\nparallel:\n  mesh: {dp: 2, zz: 2}\n",
            "here.yaml:4: parallel.mesh: mesh: there is no axis 'zz'");
    SET_REFUSED("parallel={mesh: {pp: 2}, stages: [3, x]}", "parallel.stages: '3 x' is neither auto nor");
    SET_REFUSED("parallel.stages=[3, 5]", "--set parallel.stages: has no effect: the mesh has no axis");
    SET_REFUSED("parallel.tensor=q_proj",
                "--set parallel.tensor: 'q_proj' is neither auto nor words colwise:MODULE");
    REFUSED("model: {type: vit}\ndata: {type: mnist}\nparallel:\n  gather: map\n  offload: cpu\n",
            "here.yaml:4: parallel.gather: map keeps", "copy or auto");
    SET_REFUSED("parallel.mesh={dp: 2, rows: {size: 2}}",
                "axis rows: {size: N, role: replicate | shard | tensor | context | pipeline | expert} is "
                "needed");
    SET_REFUSED("parallel.mesh={dp: 2, rows: {size: 2, role: column}}",
                "axis rows: {size: N, role: replicate | shard | tensor | context | pipeline | expert} is "
                "needed");
    SET_REFUSED("parallel.data=hybrid", "--set parallel.data: hybrid shards over an axis shard",
                "has no axis shard", "{dp: auto, shard: 2}");
    SET_REFUSED("parallel={data: hybrid, mesh: {shard: 2, dp: auto}}",
                "--set parallel.data: hybrid needs shard inside dp");
    SET_REFUSED("parallel={data: none, mesh: {dp: 2}}", "--set parallel.data: none", "over 2 ranks");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_keys_name_the_nearest),
        cmocka_unit_test(wrong_values_say_what_is_needed),
        cmocka_unit_test(impossible_combinations_are_refused),
        cmocka_unit_test(keys_of_another_type_are_refused),
        cmocka_unit_test(what_belongs_to_another_device_is_refused),
        cmocka_unit_test(layouts_that_no_number_of_ranks_makes_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
