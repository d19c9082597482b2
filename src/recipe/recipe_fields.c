/* recipe_fields.c - the table of keys. To add a key, add a member in include/lockstep/recipe.h and a row
 * here, in the .inc file of its section, or in the file of the only family of models that has it
 * (model_*.c). Reading, --set, --help, the resolved recipe and docs/recipe.md use the row. Write
 * docs/recipe.md with `lockstep recipe --reference > docs/recipe.md`; a test compares. */
#include "recipe_fields.h"

#include <pthread.h>
#include <string.h>

#include "base/check.h"
#include "data_row.h"
#include "key_row.h"
#include "model_row.h"
#include "optim_row.h"

#define MAX_COUNT 1e15

#define FLOATS "f32 bf16 f16 f64"
#define GATHERS "parallel.data fsdp hybrid"
#define SAVES "checkpoint.every_epochs !-1"
#define DATA_RANKS "parallel.data fsdp ddp hybrid"

static const ls_key FIRST[] = {
    { "run.name", LS_KEY_TEXT, AT(run.name), "",
      .help = "folder of the run inside `storage`; empty: the recipe file's name" },
    { "run.storage", LS_KEY_TEXT, AT(run.storage), "runs", .may_change = true,
      .help = "folder that holds runs, or s3://BUCKET/PREFIX: then the run lies in the cache and is copied "
              "to the bucket" },
    { "run.seed", LS_KEY_INT, AT(run.seed), "0", 0, 9007199254740992.0,
      .help = "seed of initial weights, sample order and dropout" },
    { "run.time_limit", LS_KEY_REAL, AT(run.time_limit), "0", 0, 1e9, .may_change = true, NEEDS(SAVES),
      .help = "time limit of each start, in seconds: the run is saved before it ends (exit status 75). 0: "
              "none. The end of a Slurm job counts in any case" },

    { "workers", LS_KEY_RANGE, AT(workers), "1", 1, 1e6, .may_change = true,
      .help = "number of ranks, or `{min: 1, max: 4}`: as many as there are cores, chosen at each start and "
              "restart" },
    { "cores_per_worker", LS_KEY_INT, AT(cores_per_worker), "0", 0, 4096, .may_change = true,
      .help = "each rank is bound to this many cores. If there are too few, the run is refused; a range of "
              "`workers` takes fewer ranks. 0: its share of all cores" },
    { "workers_per_host", LS_KEY_INT, AT(workers_per_host), "0", 0, 4096, .may_change = true,
      .help = "at most this many ranks on each host; for `--hosts` without numbers exactly this many. 0: no "
              "limit" },
    { "threads", LS_KEY_INT, AT(threads), "0", 0, 4096, .may_change = true,
      .help =
          "threads of a rank; 0: cores_per_worker, or else cores / ranks, or fewer where a cgroup's quota, "
          "OMP_NUM_THREADS or SLURM_CPUS_PER_TASK says so" },
    { "device", LS_KEY_CHOICE, AT(device), "auto",
      WORDS([LS_RUN_CPU] = "cpu", [LS_RUN_CUDA] = "cuda", [LS_RUN_REF] = "ref", [LS_RUN_AUTO] = "auto",
            [LS_RUN_EMULATED] = "emulated"),
      .may_change = true,
      .help =
          "`auto`: what LOCKSTEP_DEVICE names, else `cuda` where there is a GPU, else `cpu`; `cuda`: "
          "NVIDIA's GPUs of sm_80 and newer, one for each rank; `ref`: slow and readable reference kernels, "
          "also in f64; `emulated`: for tests, the CPU's kernels behind memory that the host cannot read, "
          "with the CPU's bits. A run continues on a device with the same bits" },
    { "device_memory", LS_KEY_BYTES, AT(device_memory), "0", 0, 1e18, .may_change = true,
      .help = "limit of the device memory that a program may use; 0: what the device has. A step that needs "
              "more is refused; parallel.offload needs less" },
    { "kernels", LS_KEY_CHOICE, AT(kernels), "own",
      WORDS([LS_KERNELS_OWN] = "own", [LS_KERNELS_ONEDNN] = "onednn", [LS_KERNELS_TF32] = "tf32",
            [LS_KERNELS_CUBLASLT] = "cublaslt"),
      .now = "own tf32 cublaslt",
      .why_refused = "oneDNN was removed, because own kernels are as fast or faster and give the same bits "
                     "on any number of threads. Write own; a run that began with onednn continues with "
                     "--set kernels=own --allow-change",
      .help = "matrix products and convolutions: `own` (the same bits on any number of "
              "threads); of device cuda `tf32`: products of f32 on tensor cores, which "
              "round their operands to a mantissa of 10 bits, and `cublaslt`: matrix products by NVIDIA's "
              "library, in every type, without the promise of bits" },
    { "isa", LS_KEY_WORD, AT(isa), "auto", .may_change = true,
      WORDS("auto", "generic", "avx2", "avx512", "avx512bf16", "amx", "sm_80", "sm_86", "sm_89", "sm_90",
            "sm_100", "sm_103", "sm_120"),
      .help = "instruction set of the kernels; `auto`: of device cuda the GPU's; of device cpu LOCKSTEP_ISA, "
              "else the best of this machine. `sm_80` and so on: of GPUs, for plans of another machine" },

#include "keys_model.inc"
};

static const ls_key LAST[] = {
#include "keys_weights.inc"

#include "keys_data.inc"

#include "keys_augment.inc"

    { "train.epochs", LS_KEY_INT, AT(train.epochs), "1", 1, 1e9, .may_change = true,
      .help = "passes over the data" },
    { "train.steps", LS_KEY_INT, AT(train.steps), "0", 0, MAX_COUNT, .may_change = true,
      .help = "stop after this many optimizer steps; 0: no limit" },
    { "train.steps_per_epoch", LS_KEY_INT, AT(train.steps_per_epoch), "0", 0, MAX_COUNT,
      .help = "an epoch ends after this many optimizer steps, and the next epoch has another order; 0: after "
              "all samples" },
    { "train.global_batch", LS_KEY_INT, AT(train.global_batch), "128", 1, 1e9,
      .help = "global batch size: samples of an optimizer step over all ranks" },
    { "train.micro_batch", LS_KEY_INT, AT(train.micro_batch), "0", 0, 1e9,
      .help = "samples of one forward pass on one rank; divides `global_batch`. If a rank has several "
              "micro-batches, gradients are accumulated. 0: global_batch / data ranks, resolved at the run's "
              "first start and kept. Data ranks divide global_batch / micro_batch; the same number gives the "
              "same bits on 1, 2 and 4 ranks" },
    { "train.drop_last", LS_KEY_BOOL, AT(train.drop_last), "true",
      .help = "true: an epoch leaves out the incomplete last batch (PyTorch's DataLoader has false); false: "
              "it is trained on too, padded and masked; not with batch norm (resnet)" },
    { "train.accumulate", LS_KEY_CHOICE, AT(train.accumulate), "tree",
      WORDS([LS_SUM_TREE] = "tree", [LS_SUM_RUNNING] = "running"),
      .help = "gradient accumulation: `tree` (the same bits on 1, 2, 4 ranks) or `running` (less memory)" },
    { "train.loss_mean", LS_KEY_CHOICE, AT(train.loss_mean), "global",
      WORDS([LS_LOSS_MEAN_GLOBAL] = "global", [LS_LOSS_MEAN_MICRO_BATCH] = "micro_batch"),
      .help = "the loss of a step: `global`, one mean over all its targets, or `micro_batch`, the mean of "
              "the micro-batches' means, as when each rank averages its own batch" },
    { "train.freeze", LS_KEY_WORDS, AT(train.freeze), "",
      .help = "names of parameters or modules that are not trained; `*` matches inside one part of a name, "
              "and a word with ! in front takes names out again: `\"* !head\"` freezes all but head. They "
              "have no gradient and no optimizer state, and are stored in precision.param" },
#include "keys_lora.inc"
    { "train.label_smoothing", LS_KEY_REAL, AT(train.label_smoothing), "0", 0, 1, .below = true,
      .type = "model.type",
      .help = "of classifiers of images and of losses of type cross_entropy, as PyTorch's "
              "CrossEntropyLoss(label_smoothing): this share of a target is spread evenly over all classes. "
              "Evaluations have the same loss" },
    { "train.clip_norm", LS_KEY_REAL, AT(train.clip_norm), "0", 0, 1e9,
      .help = "gradient clipping: largest global norm over all ranks; 0: no clipping" },
    { "train.nonfinite", LS_KEY_CHOICE, AT(train.nonfinite), "stop",
      WORDS([LS_NONFINITE_STOP] = "stop", [LS_NONFINITE_SKIP] = "skip"), .may_change = true,
      .help = "a step whose loss or gradient norm is not finite never changes the weights: `stop` ends the "
              "run, and the message names the operation; `skip` goes on with the next step "
              "(docs/numerics.md)" },
    { "train.max_skips", LS_KEY_INT, AT(train.max_skips), "10", 1, 1e9, .may_change = true,
      .help = "with train.nonfinite: skip the run ends after this many steps in a row that were skipped "
              "because of numbers that are not finite; a run whose last steps, this many, changed no "
              "weight fails, also where gradients overflowed f16" },
    { "train.early_stopping.patience", LS_KEY_INT, AT(train.early_stopping.patience), "0", 0, 1e9,
      .may_change = true,
      .help = "early stopping: training ends when the metric of `checkpoint.best` has not improved for this "
              "many epochs that measured it; 0: never" },
    { "train.early_stopping.min_delta", LS_KEY_REAL, AT(train.early_stopping.min_delta), "0", 0, 3e38,
      .may_change = true, NEEDS("train.early_stopping.patience !0"),
      .help = "early stopping: the metric has improved if it is better by more than this" },

    { "optimizer.type", LS_KEY_CHOICE, AT(optimizer.type), "adam", .word = ls_optimizer_word,
      .help = "adam, adamw, sgd: as PyTorch defines them; lion, muon, adafactor: docs/optimizers.md" },
    { "optimizer.lr", LS_KEY_REAL, AT(optimizer.lr), "1e-3", 0, 1e6,
      .help = "learning rate before the schedule" },
    { "optimizer.betas", LS_KEY_PAIR, AT(optimizer.betas), "[0.9, 0.999]", 0, 1, .below = true,
      .type = "optimizer.type", .help = "decay of the two moments" },
    { "optimizer.eps", LS_KEY_REAL, AT(optimizer.eps), "1e-8", 0, 1, .above = true, .type = "optimizer.type",
      .help = "added to the root of the second moment" },
    { "optimizer.momentum", LS_KEY_REAL, AT(optimizer.momentum), "0", 0, 1, .below = true,
      .type = "optimizer.type", .help = "decay of the velocity; 0: none" },
    { "optimizer.dampening", LS_KEY_REAL, AT(optimizer.dampening), "0", 0, 1, .type = "optimizer.type",
      NEEDS("optimizer.momentum !0"), .help = "fraction of the gradient that does not enter the velocity" },
    { "optimizer.nesterov", LS_KEY_BOOL, AT(optimizer.nesterov), "false", .type = "optimizer.type",
      .help = "needs momentum, and no dampening" },
    { "optimizer.muon_momentum", LS_KEY_REAL, AT(optimizer.muon_momentum), "0.95", 0, 1, .below = true,
      .type = "optimizer.type", .help = "decay of the momentum, with Nesterov's step" },
    { "optimizer.adjust_lr", LS_KEY_CHOICE, AT(optimizer.adjust_lr), "original",
      WORDS([LS_ADJUST_ORIGINAL] = "original", [LS_ADJUST_MATCH_RMS] = "match_rms_adamw"),
      .type = "optimizer.type",
      .help = "PyTorch's adjust_lr_fn: how the shape of a matrix changes its rate" },
    { "optimizer.scale_parameter", LS_KEY_BOOL, AT(optimizer.scale_parameter), "true",
      .type = "optimizer.type", .help = "multiply the rate by the parameter's root mean square" },
    { "optimizer.relative_step", LS_KEY_BOOL, AT(optimizer.relative_step), "true", .type = "optimizer.type",
      .help = "the rate is min(1e-2, 1 / sqrt(step)), and `lr` and the schedule do not count" },
    { "optimizer.warmup_init", LS_KEY_BOOL, AT(optimizer.warmup_init), "false", .type = "optimizer.type",
      NEEDS("optimizer.relative_step true"), .help = "with `relative_step`: 1e-6 * step instead of 1e-2" },
    { "optimizer.clip_threshold", LS_KEY_REAL, AT(optimizer.clip_threshold), "1", 0, 1e6, .above = true,
      .type = "optimizer.type", .help = "largest root mean square of an update before the rate" },
    { "optimizer.decay_rate", LS_KEY_REAL, AT(optimizer.decay_rate), "-0.8", -10, 0, .below = true,
      .type = "optimizer.type", .help = "the decay of the second moments is 1 - step^decay_rate" },
    { "optimizer.min_scale", LS_KEY_REAL, AT(optimizer.min_scale), "1e-3", 0, 1, .type = "optimizer.type",
      NEEDS("optimizer.scale_parameter true"), .help = "least root mean square of a parameter" },
    { "optimizer.weight_decay", LS_KEY_REAL, AT(optimizer.weight_decay), "0", 0, 1e6,
      .help = "adam, sgd: added to the gradient; adamw, lion, muon, adafactor: decoupled" },
    { "optimizer.ema_decay", LS_KEY_REAL, AT(optimizer.ema_decay), "0", 0, 1, .below = true,
      .help = "above 0, as 0.999: keeps a moving average of the weights with this decay; see `eval.ema`" },
    { "optimizer.groups", LS_KEY_MAPS, AT(optimizer.groups), "[]", .maps = &LS_GROUP_MAPS,
      .help =
          "parameters with settings of their own, PyTorch's param_groups: maps of `match` (words "
          "`class:NAME`, `pattern:GLOB`), `lr_factor` and `weight_decay`, as in `[{match: "
          "\"class:LayerNorm pattern:*bias\", weight_decay: 0}]`; the first that names a parameter counts "
          "(docs/optimizers.md)" },

    { "schedule.type", LS_KEY_CHOICE, AT(schedule.type), "constant", .word = ls_schedule_word,
      .help = "shape after the warm-up (docs/optimizers.md): `wsd` is warmup-stable-decay, `one_cycle` "
              "OneCycleLR, `restarts` CosineAnnealingWarmRestarts, `plateau` ReduceLROnPlateau by "
              "`checkpoint.best`. None costs time or memory" },
    { "schedule.warmup_steps", LS_KEY_INT, AT(schedule.warmup_steps), "0", 0, MAX_COUNT,
      .help = "warm-up: steps in which the rate grows linearly to `lr`" },
    { "schedule.step_size", LS_KEY_INT, AT(schedule.step_size), "1000", 1, MAX_COUNT, .type = "schedule.type",
      NEEDS("schedule.step_epochs 0"), .help = "optimizer steps between cuts of the rate" },
    { "schedule.step_epochs", LS_KEY_INT, AT(schedule.step_epochs), "0", 0, 1e9, .type = "schedule.type",
      .help = "epochs between cuts, instead of `step_size`; 0: use `step_size`" },
    { "schedule.gamma", LS_KEY_REAL, AT(schedule.gamma), "0.1", 0, 100, .type = "schedule.type",
      .help = "factor of each cut; plateau: below 1" },
    { "schedule.total_steps", LS_KEY_INT, AT(schedule.total_steps), "0", 0, MAX_COUNT,
      .type = "schedule.type", .help = "step at which the decay ends; 0: the run's last one" },
    { "schedule.min_lr", LS_KEY_REAL, AT(schedule.min_lr), "0", 0, 1e6, .type = "schedule.type",
      .help = "rate at the end; restarts: of each period; plateau: the least" },
    { "schedule.power", LS_KEY_REAL, AT(schedule.power), "1", 0, 100, .above = true, .type = "schedule.type",
      .help = "exponent of the rest of the way; 1 is a line" },
    { "schedule.decay_steps", LS_KEY_INT, AT(schedule.decay_steps), "0", 0, MAX_COUNT,
      .type = "schedule.type",
      .help = "the last steps, in which the rate falls on a line to `min_lr`; 0: a tenth of those after the "
              "warm-up" },
    { "schedule.pct_start", LS_KEY_REAL, AT(schedule.pct_start), "0.3", 0, 1, .above = true, .below = true,
      .type = "schedule.type", .help = "fraction of the steps in which the rate rises to `lr`" },
    { "schedule.div_factor", LS_KEY_REAL, AT(schedule.div_factor), "25", 1, 1e12, .type = "schedule.type",
      .help = "the first rate is lr / div_factor" },
    { "schedule.final_div_factor", LS_KEY_REAL, AT(schedule.final_div_factor), "10000", 1, 1e12,
      .type = "schedule.type", .help = "the last rate is the first one / final_div_factor" },
    { "schedule.period", LS_KEY_INT, AT(schedule.period), "1000", 1, MAX_COUNT, .type = "schedule.type",
      .help = "steps of the first cosine (T_0)" },
    { "schedule.period_factor", LS_KEY_INT, AT(schedule.period_factor), "1", 1, 1000, .type = "schedule.type",
      .help = "the length of each period, as a multiple of the period before it (T_mult)" },
    { "schedule.patience", LS_KEY_INT, AT(schedule.patience), "10", 0, 1e9, .type = "schedule.type",
      .help =
          "after more evaluations than this without a better value of `checkpoint.best` the rate is cut" },
    { "schedule.threshold", LS_KEY_REAL, AT(schedule.threshold), "1e-4", 0, 1, .below = true,
      .type = "schedule.type",
      .help = "how much better a value must be, as a fraction of the best one (threshold_mode rel)" },

    { "parallel.mesh", LS_KEY_MESH, AT(parallel.mesh), "{dp: auto}", .may_change = true,
      .help =
          "device mesh: axes in order, outermost first. One size may be `auto`: `workers` divided by the "
          "others. Axes dp (or data_parallel) and shard are data parallel, axis tp is tensor parallel: "
          "`{dp: auto, tp: 2}`, axis cp context parallel, which splits the tokens of each sample and gathers "
          "keys and values: `{dp: auto, cp: 2}`, and axis pp pipeline parallel, whose ranks have layers one "
          "after the other: `{dp: auto, pp: 2}`. Axis ep deals samples as dp does, and each of its ranks has "
          "other experts of a mixture: `{dp: auto, ep: 2}`. An axis of another name has a role (replicate, "
          "shard, tensor, context, pipeline or expert, as dp, shard, tp, cp, pp and ep): "
          "`{rows: auto, columns: {size: 2, role: tensor}}`" },
    { "parallel.data", LS_KEY_CHOICE, AT(parallel.data), "fsdp",
      WORDS([LS_DATA_FSDP] = "fsdp", [LS_DATA_DDP] = "ddp", [LS_DATA_HYBRID] = "hybrid",
            [LS_DATA_NONE] = "none"),
      .other = (const char *const[]){ "FULL_SHARD fsdp", "SHARD_GRAD_OP fsdp", "NO_SHARD ddp",
                                      "HYBRID_SHARD hybrid", NULL },
      .may_change = true,
      .help = "data parallelism: `fsdp` shards parameters, gradients and optimizer state over all data ranks "
              "(ZeRO 3; ZeRO 2 with reshard_after_forward: false), `ddp` replicates them, `hybrid` (HSDP) "
              "shards over axis shard and replicates over axis dp, `none`: one data rank. FSDP1's names are "
              "accepted: FULL_SHARD (fsdp, reshard_after_forward true), SHARD_GRAD_OP (fsdp, false), "
              "NO_SHARD (ddp), HYBRID_SHARD (hybrid)" },
    { "parallel.units", LS_KEY_WORDS, AT(parallel.units), "none", .may_change = true,
      .help = "the FSDP modules (in PyTorch, the modules that fully_shard is applied to): each is a unit, "
              "gathered and reduced as a whole. Words `class:NAME`, `pattern:GLOB` (of their names) and "
              "`size:1e6` (elements), or a list of them, such as `[class:T5Block, class:Embedding]`; `none`: "
              "one unit. The root unit has all other parameters. With ddp units are buckets, and these words "
              "only name the blocks of `recompute: units`" },
    { "parallel.reshard_after_forward", LS_KEY_RESHARD, AT(parallel.reshard_after_forward), "true",
      .may_change = true,
      .help = "true: a gathered FSDP module is freed after its forward pass and gathered again for its "
              "backward pass; false: it is kept; N: a 1/N slice of it is kept and gathered over N neighbours "
              "(N divides the ranks that shard). With axis pp these passes are those of each micro-batch: "
              "true gathers often and keeps little, false gathers once a step" },
    { "parallel.gather", LS_KEY_CHOICE, AT(parallel.gather), "auto",
      WORDS([LS_GATHER_AUTO] = "auto", [LS_GATHER_MAP] = "map", [LS_GATHER_COPY] = "copy"),
      .may_change = true, NEEDS(GATHERS),
      .help =
          "where gathered FSDP modules lie: `map`, one copy per host; `copy`, one per rank; `auto`, map "
          "if the ranks that gather share a host, nothing is offloaded and the device works in host memory" },
    { "parallel.prefetch.forward", LS_KEY_INT, AT(parallel.prefetch.forward), "1", 0, 1000,
      .may_change = true, NEEDS(GATHERS, "parallel.prefetch.memory 0"),
      .help = "FSDP modules that are gathered ahead in the forward pass" },
    { "parallel.prefetch.backward", LS_KEY_INT, AT(parallel.prefetch.backward), "1", LS_BACKWARD_POST, 1000,
      .other = (const char *const[]){ "BACKWARD_PRE 1", "BACKWARD_POST -1", NULL }, .may_change = true,
      NEEDS(GATHERS, "parallel.prefetch.memory 0"),
      .help =
          "FSDP modules that are gathered ahead in the backward pass. FSDP1's names are accepted: "
          "BACKWARD_PRE is 1. BACKWARD_POST is -1: the gather of the next module starts after the last op "
          "that reads this one's parameters, and can use their memory" },
    { "parallel.prefetch.memory", LS_KEY_BYTES, AT(parallel.prefetch.memory), "0", 0, 1e18,
      .may_change = true, NEEDS(GATHERS),
      .help = "memory for FSDP modules that are gathered ahead, instead of the numbers `forward` and "
              "`backward`; 0: use the numbers" },
    { "parallel.tensor", LS_KEY_WORDS, AT(parallel.tensor), "auto", .may_change = true,
      .help = "layers that axis tp splits: `auto` (projections of a decoder or a ViT; embedding and output "
              "layer if the ranks divide the vocabulary), or words `colwise:MODULE` (a linear layer or a "
              "convolution by its outputs, a packed one part by part) and `rowwise:MODULE` (by its inputs; "
              "an embedding by the rows of its table). MODULE is the end of a name, such as q_proj" },
    { "parallel.sequence", LS_KEY_BOOL, AT(parallel.sequence), "false", .may_change = true,
      .help = "sequence parallel: between the layers that axis tp splits, each of its ranks has a part of "
              "the tokens; less memory for activations (docs/ranks.md)" },
    { "parallel.slices", LS_KEY_INT, AT(parallel.slices), "0", 0, LS_SLICES_MOST, .may_change = true,
      .help =
          "S: the same bits for 1, 2, .. S ranks of axes tp and cp. Tokens and layers are split into S "
          "slices, a power of two, whatever number of ranks there is, and sums over them are added in one "
          "balanced tree. It takes time and memory, which `lockstep plan` tells (docs/numerics.md); 0: "
          "none" },
    { "parallel.schedule", LS_KEY_CHOICE, AT(parallel.schedule), "1f1b",
      WORDS([LS_SCHEDULE_1F1B] = "1f1b", [LS_SCHEDULE_GPIPE] = "gpipe",
            [LS_SCHEDULE_ZERO_BUBBLE] = "zero_bubble", [LS_SCHEDULE_INTERLEAVED] = "interleaved"),
      .may_change = true,
      .help = "order of the passes of M micro-batches on each rank of axis pp. `gpipe`: all forward passes, "
              "then all backward passes; `1f1b`: a backward pass as soon as it can be, so a rank keeps "
              "activations of at most pp micro-batches; both are idle (pp - 1) / (M + pp - 1) of the time. "
              "`zero_bubble`: 1f1b with gradients of weights where it would wait: a third of that, more "
              "memory. `interleaved`: `chunks` stages a rank, shorter waits, more messages (docs/ranks.md)" },
    { "parallel.stages", LS_KEY_WORDS, AT(parallel.stages), "auto", .may_change = true,
      .help = "how many of the modules that `parallel.units` names each stage of axis pp has, as [3, 5]; "
              "`auto`: as many as balance the FLOPs, with those of the layers before and behind them" },
    { "parallel.chunks", LS_KEY_INT, AT(parallel.chunks), "2", 2, 1024, .may_change = true,
      NEEDS("parallel.schedule interleaved"),
      .help = "stages of each rank of axis pp: more shorten the waits, and each adds messages" },
    { "parallel.expert_room", LS_KEY_REAL, AT(parallel.expert_room), "0", 0, 1e6, .may_change = true,
      .help = "rows of tokens that a rank of axis ep has memory for, as a multiple of its even share "
              "(micro_batch x tokens x experts_per_token): a step that sends it more fails; 0: for all that "
              "can come, up to ep times the even share" },
    { "parallel.synchronize", LS_KEY_CHOICE, AT(parallel.synchronize), "auto",
      WORDS([LS_SYNCHRONIZE_AUTO] = "auto", [LS_SYNCHRONIZE_EACH] = "each", [LS_SYNCHRONIZE_ONCE] = "once"),
      .may_change = true, NEEDS(DATA_RANKS),
      .help = "reduce gradients after `each` micro-batch (rank r of R computes r, r+R, ...) or `once`, after "
              "the last one (no_sync; a rank computes consecutive micro-batches); `auto`: once for ddp "
              "without sync_batch_norm, else each" },
    { "parallel.bucket", LS_KEY_BYTES, AT(parallel.bucket), "25MiB", 1, 1e18, .may_change = true,
      NEEDS("parallel.data ddp"), .help = "ddp: size of a gradient bucket; the first bucket is smaller" },
    { "parallel.sync_batch_norm", LS_KEY_BOOL, AT(parallel.sync_batch_norm), "false", .type = "model.type",
      NEEDS(DATA_RANKS),
      .help = "statistics of batch norm are over the micro-batches that the data ranks compute at the same "
              "time (SyncBatchNorm); results then depend on the number of ranks" },
    { "parallel.offload", LS_KEY_CHOICE, AT(parallel.offload), "none",
      WORDS([LS_OFFLOAD_NONE] = "none", [LS_OFFLOAD_CPU] = "cpu"), .may_change = true,
      .help = "`cpu`: sharded parameters, gradients and optimizer state are kept in host memory; fsdp and "
              "hybrid" },
    { "parallel.recompute", LS_KEY_WORDS, AT(parallel.recompute), "none", .may_change = true,
      .help = "activation checkpointing of these modules: `none`, `units`, or words `class:NAME` and "
              "`pattern:GLOB`; a word `save:OP` keeps what an operation such as linear or attention made in "
              "them, `save:OP/2` the first and each second: more memory, less time; the bits of the result "
              "do not change" },

    { "precision.param", LS_KEY_DTYPE, AT(precision.param), "f32", .now = FLOATS,
      .why_refused = "compute precision is one of these",
      .help = "mixed precision: type of matrix products and activations: f32, bf16 or f16 (with dynamic loss "
              "scaling); f64: device ref" },
    { "precision.reduce", LS_KEY_DTYPE, AT(precision.reduce), "f32", .now = FLOATS,
      .why_refused = "sums are kept in one of these",
      .help = "type of gradient sums over ranks; the same bits on 1, 2 and 4 ranks in f32 and f64 only" },
    { "precision.output", LS_KEY_DTYPE, AT(precision.output), "f32", .now = FLOATS,
      .why_refused = "outputs have one of these",
      .help = "the model's outputs (logits) are rounded to this type before loss and predictions, as "
              "output_dtype of FSDP2's MixedPrecisionPolicy; a wider type rounds nothing. Losses and "
              "probabilities are computed in f32 in any case; f64 goes with precision.param f64" },
    { "precision.modules", LS_KEY_WORDS, AT(precision.modules), "",
      .help =
          "types of single modules: words `class:NAME=TYPE` or `pattern:GLOB=TYPE`, as in parallel.units; "
          "`,output=TYPE` (of the module's outputs) and `,reduce=TYPE` may follow: "
          "`class:LayerNorm=f32,output=bf16`. The innermost module counts, and the first word for a module" },
    { "precision.cast_forward_inputs", LS_KEY_BOOL, AT(precision.cast_forward_inputs), "true",
      .help = "inputs of a module are cast to its type; false: a model that does not cast them itself is "
              "refused. For single modules: `,cast_forward_inputs=false` in `modules`" },
    { "precision.scaler.init", LS_KEY_REAL, AT(precision.scaler.init), "65536", 0, 3e38, .above = true,
      .help = "f16: first loss scale, as init_scale of torch.amp.GradScaler" },
    { "precision.scaler.growth", LS_KEY_REAL, AT(precision.scaler.growth), "2", 1, 3e38, .above = true,
      .help = "f16: factor of the loss scale after `interval` good steps" },
    { "precision.scaler.backoff", LS_KEY_REAL, AT(precision.scaler.backoff), "0.5", 0, 1, .above = true,
      .below = true, .help = "f16: factor of the loss scale after a step whose gradients are not finite" },
    { "precision.scaler.interval", LS_KEY_INT, AT(precision.scaler.interval), "2000", 1, MAX_COUNT,
      .help = "f16: number of good steps in a row after which the loss scale grows" },

    { "eval.every_epochs", LS_KEY_INT, AT(eval.every_epochs), "1", -1, 1e9, .may_change = true,
      .help = "epochs between evaluations; 0: only after the last; -1: never" },
    { "eval.every_steps", LS_KEY_INT, AT(eval.every_steps), "0", 0, MAX_COUNT, .may_change = true,
      NEEDS("eval.every_epochs !-1"),
      .help = "optimizer steps between more evaluations, within epochs; 0: none. Each takes a pass over the "
              "evaluation data and can make a checkpoint the best. Schedule plateau counts all evaluations, "
              "early stopping those at ends of epochs. With every_epochs 0 they are the only ones before "
              "the last" },
    { "eval.batch", LS_KEY_INT, AT(eval.batch), "0", 0, 1e9, .may_change = true,
      .help =
          "samples that each rank evaluates or predicts at once; 0: train.micro_batch. A larger batch needs "
          "memory for its samples and activations, which `lockstep plan` counts, and none for gradients. "
          "Every sample counts once with any batch, and its numbers are the same bits; a loss or metric "
          "over the samples of a batch changes with it" },
    { "eval.metrics", LS_KEY_WORDS, AT(eval.metrics), "", .may_change = true,
      .help = "a list of more metrics, beside each `accuracy`: `f1`, `auc` (of two classes), `perplexity`" },
    { "eval.ema", LS_KEY_BOOL, AT(eval.ema), "false", .may_change = true, NEEDS("optimizer.ema_decay !0"),
      .help =
          "true: evaluations, `best`, `lockstep eval`, `predict` and checkpoint.export take the averages" },
    { "eval.generate.tokens", LS_KEY_INT, AT(eval.generate.tokens), "0", 0, 16777216, .type = "model.type",
      .may_change = true, NEEDS("eval.every_epochs !-1"),
      .help = "an evaluation generates a text of at most this many tokens for each sample and compares it "
              "with the target by ROUGE, as `lockstep eval --generate`; 0: none. While it generates, each "
              "rank has a whole copy of the weights" },
    { "eval.generate.beams", LS_KEY_INT, AT(eval.generate.beams), "1", 1, 1024, .type = "model.type",
      .may_change = true, NEEDS("eval.generate.tokens !0"), .help = "number of beams; 1: no beam search" },
    { "eval.generate.no_repeat", LS_KEY_INT, AT(eval.generate.no_repeat), "0", 0, 16777216,
      .type = "model.type", .may_change = true, NEEDS("eval.generate.tokens !0"),
      .help = "no sequence of this many tokens occurs twice in a text (no_repeat_ngram_size); 0: no limit" },
    { "eval.generate.length_penalty", LS_KEY_REAL, AT(eval.generate.length_penalty), "1", -100, 100,
      .type = "model.type", .may_change = true, NEEDS("eval.generate.beams !1"),
      .help = "with beams: scores are divided by length^length_penalty" },
    { "eval.generate.samples", LS_KEY_INT, AT(eval.generate.samples), "0", 0, MAX_COUNT, .type = "model.type",
      .may_change = true, NEEDS("eval.generate.tokens !0"),
      .help = "generate texts for the first pairs only, this many; 0: all" },

    { "checkpoint.every_epochs", LS_KEY_INT, AT(checkpoint.every_epochs), "1", -1, 1e9, .may_change = true,
      .help = "epochs between checkpoints; 0: only after the last; -1: no checkpoint, not even when the run "
              "is stopped" },
    { "checkpoint.every_steps", LS_KEY_INT, AT(checkpoint.every_steps), "0", 0, MAX_COUNT, .may_change = true,
      NEEDS(SAVES), .help = "steps between additional checkpoints; 0: none" },
    { "checkpoint.keep", LS_KEY_INT, AT(checkpoint.keep), "2", 1, 1e6, .may_change = true, NEEDS(SAVES),
      .help = "number of newest checkpoints that are kept, besides the best" },
    { "checkpoint.keep_best", LS_KEY_INT, AT(checkpoint.keep_best), "1", 1, 1e6, .may_change = true,
      NEEDS(SAVES),
      .help =
          "number of best checkpoints that are kept, by `best`; an epoch that ends among the best is saved" },
    { "checkpoint.best.metric", LS_KEY_TEXT, AT(checkpoint.best.metric), "eval_loss", .may_change = true,
      NEEDS(SAVES),
      .help = "metric of the best checkpoint, at the end of an epoch: `train_loss`, the mean loss of the "
              "epoch, or `eval_NAME` of the model's losses and metrics; `eval_rougeL` needs "
              "`eval.generate.tokens`" },
    { "checkpoint.best.mode", LS_KEY_CHOICE, AT(checkpoint.best.mode), "min",
      WORDS([LS_MODE_MIN] = "min", [LS_MODE_MAX] = "max"), .may_change = true,
      .help = "whether the smallest or the largest value is best; need not be set where the metric says it" },
    { "checkpoint.async", LS_KEY_BOOL, AT(checkpoint.async), "false", .may_change = true, NEEDS(SAVES),
      .help = "true: copy the state and write it while training goes on" },
    { "checkpoint.files", LS_KEY_CHOICE, AT(checkpoint.files), "whole",
      WORDS([LS_FILES_WHOLE] = "whole", [LS_FILES_PER_RANK] = "per_rank"), .may_change = true, NEEDS(SAVES),
      .help = "`whole`: model.safetensors, which other programs read; `per_rank`: each rank writes a file of "
              "its own, which any number of ranks reads. Hosts that share no folder always use per_rank "
              "(docs/run_directory.md)" },
    { "checkpoint.frozen", LS_KEY_CHOICE, AT(checkpoint.frozen), "copy",
      WORDS([LS_FROZEN_COPY] = "copy", [LS_FROZEN_REFERENCE] = "reference"), .may_change = true,
      NEEDS(SAVES, "train.freeze !\"\"", "model.init !random", "train.lora.rank 0"),
      .help = "weights of train.freeze: `copy`, in each checkpoint; `reference`, only in model.init. Such a "
              "checkpoint is as small as what is trained, and needs the weights of model.init, unchanged, "
              "wherever it is used (docs/checkpoint.md). Adapters always refer to their base" },
    { "checkpoint.base", LS_KEY_TEXT, AT(checkpoint.base), "", .may_change = true,
      .help = "where the weights are that a checkpoint or an adapter leaves out, if not where model.init or "
              "adapter_config.json says; looked for as model.init" },
    { "checkpoint.max_file", LS_KEY_BYTES, AT(checkpoint.max_file), "5GiB", 1024, 1e18, .may_change = true,
      NEEDS(SAVES, "checkpoint.files whole"), .help = "larger models are split into several files" },
    { "checkpoint.export", LS_KEY_TEXT, AT(checkpoint.export_to), "", .may_change = true, NEEDS(SAVES),
      .help = "file in the run's folder to which the whole model is exported when the run is finished, as by "
              "`lockstep export`: `model.pt`, `full_model/model.safetensors`, `my-llama.gguf` for llama.cpp, "
              "`my-llama/`, "
              "a folder for transformers, or `my-llama.dcp`, a directory of torch.distributed.checkpoint; "
              "empty: none" },
    { "checkpoint.export_best", LS_KEY_TEXT, AT(checkpoint.export_best), "", .may_change = true,
      NEEDS(SAVES, "checkpoint.async false"),
      .help = "file in the run's folder to which the whole model is exported at the end of each epoch that "
              "is the best so far, such as `T5-model-{date}-{epoch}-{value}.pt`: {value} is that of "
              "`best.metric`. "
              "Each file is as large as the weights, and stays; training waits while rank 0 writes it; "
              "empty: none" },
    { "checkpoint.verify", LS_KEY_CHOICE, AT(checkpoint.verify), "full",
      WORDS([LS_VERIFY_CHOICE_FULL] = "full", [LS_VERIFY_CHOICE_SIZES] = "sizes"), .may_change = true,
      .help =
          "what is checked when a checkpoint is read: `full`, every byte; `sizes`, the sizes of the files" },

#include "keys_failure.inc"
};

/* The rows in the order of a resolved recipe, in which the keys of a section follow each other: FIRST, the
 * keys of single families of models, LAST. */
static const ls_key *all[LS_KEY_MAX];
static int n_all;
static pthread_once_t collected = PTHREAD_ONCE_INIT;

static void add_rows(const ls_key *rows, int n)
{
    LS_CHECK(n_all + n <= LS_KEY_MAX, "LS_KEY_MAX is too small for all keys");
    for (int i = 0; i < n; i++)
        all[n_all++] = &rows[i];
}

static void collect(void)
{
    const ls_key *before = NULL; /* rows of one family share its keys */
    add_rows(FIRST, sizeof FIRST / sizeof *FIRST);
    for (const ls_model_row *const *m = LS_MODELS; *m; before = (*m++)->own)
        if ((*m)->own != before)
            add_rows((*m)->own, (*m)->n_own);
    add_rows(LAST, sizeof LAST / sizeof *LAST);
}

int ls_key_count(void)
{
    pthread_once(&collected, collect);
    return n_all;
}

const ls_key *ls_key_at(int i)
{
    LS_CHECK(i >= 0 && i < ls_key_count(), "there is no key %d", i);
    return all[i];
}

int ls_key_find(const char *key)
{
    for (int i = 0, n = ls_key_count(); i < n; i++)
        if (!strcmp(all[i]->key, key))
            return i;
    return -1;
}

const ls_key *ls_key_named(const char *key)
{
    const int row = ls_key_find(key);
    return row < 0 ? NULL : all[row];
}
