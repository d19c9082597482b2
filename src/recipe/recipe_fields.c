/* recipe_fields.c - the table of keys. To add a key, add a member in include/lockstep/recipe.h and a row
 * here. Reading, --set, --help, the resolved recipe and docs/recipe.md use the row. Write docs/recipe.md with
 * `lockstep recipe --reference > docs/recipe.md`; a test compares. */
#include "recipe_fields.h"

#include <string.h>

#include "data_row.h"
#include "model_row.h"
#include "optim_row.h"

#define AT(member) .offset = offsetof(ls_recipe, member)
#define WORDS(...) \
    .words = (const char *const[]) { __VA_ARGS__, NULL }
#define NEEDS(...) \
    .needs = (const char *const[]) { __VA_ARGS__, NULL }
#define MAX_COUNT 1e15

#define FLOATS "f32 bf16 f16 f64"
#define GATHERS "parallel.data fsdp hybrid"
#define SAVES "checkpoint.every_epochs !-1"
#define DATA_RANKS "parallel.data fsdp ddp hybrid"

const ls_key LS_KEYS[] = {
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
      .help = "threads of a rank; 0: cores_per_worker, or else cores / ranks" },
    { "device", LS_KEY_CHOICE, AT(device), "cpu", WORDS("cpu", "cuda", "ref"), .now = "cpu ref",
      .later = "this version has no GPU module",
      .help = "`cpu`; `ref`: slow and readable reference kernels, also in f64" },
    { "device_memory", LS_KEY_BYTES, AT(device_memory), "0", 0, 1e18, .may_change = true,
      .help = "limit of the device memory that a program may use; 0: none. A step that needs more is "
              "refused; parallel.offload needs less" },
    { "kernels", LS_KEY_CHOICE, AT(kernels), "own", WORDS("own", "onednn"),
      .help = "matrix products and convolutions of device cpu: `own` (the same bits on any number of "
              "threads) or `onednn`" },
    { "isa", LS_KEY_WORD, AT(isa), "auto", WORDS("auto", "generic", "avx2", "avx512", "avx512bf16", "amx"),
      .help = "instruction set of the kernels; `auto`: LOCKSTEP_ISA, else the best of this machine" },

    { "model.type", LS_KEY_WORD, AT(model.type), NULL, .words = LS_MODEL_WORDS,
      .help = "the architecture; llama and qwen2 predict the next token of text, t5 reads one text and "
              "writes another" },
    { "model.image_size", LS_KEY_INT, AT(model.image_size), "28", 1, 65536, .type = "model.type",
      NEEDS("model.inputs {}"), .help = "height and width of an image" },
    { "model.patch_size", LS_KEY_INT, AT(model.patch_size), "7", 1, 65536, .type = "model.type",
      .help = "height and width of a patch; divides `image_size`" },
    { "model.in_channels", LS_KEY_INT, AT(model.in_channels), "1", 1, 4096, .type = "model.type",
      NEEDS("model.inputs {}"), .help = "channels of an image" },
    { "model.layers", LS_KEY_INT, AT(model.layers), "10", 1, 10000, .type = "model.type",
      .help = "number of blocks; for t5 those of the encoder" },
    { "model.heads", LS_KEY_INT, AT(model.heads), "2", 1, 10000, .type = "model.type",
      .help = "attention heads; divides `hidden_size` unless `head_dim` is set" },
    { "model.hidden_size", LS_KEY_INT, AT(model.hidden_size), "128", 1, 1e6, .type = "model.type",
      .help = "hidden size: width of a token" },
    { "model.mlp_size", LS_KEY_INT, AT(model.mlp_size), "128", 1, 1e6, .type = "model.type",
      .help = "width inside a block's MLP" },
    { "model.vocab_size", LS_KEY_INT, AT(model.vocab_size), "257", 2, 1e9, .type = "model.type",
      .help = "size of the vocabulary, at least that of `data.tokenizer` (bytes: 257)" },
    { "model.kv_heads", LS_KEY_INT, AT(model.kv_heads), "0", 0, 10000, .type = "model.type",
      .help = "key and value heads (grouped-query attention); divides `heads`; 0: as many as `heads`" },
    { "model.head_dim", LS_KEY_INT, AT(model.head_dim), "0", 0, 65536, .type = "model.type",
      .help = "width of a head (llama, qwen2: even); 0: hidden_size / heads" },
    { "model.norm_eps", LS_KEY_REAL, AT(model.norm_eps), "1e-6", 0, 1, .above = true, .type = "model.type",
      .help = "epsilon of RMS norm" },
    { "model.rope_theta", LS_KEY_REAL, AT(model.rope_theta), "10000", 1, 1e12, .type = "model.type",
      .help = "base of the rotary positions" },
    { "model.tied", LS_KEY_BOOL, AT(model.tied), "false", .type = "model.type",
      .help = "the output layer shares the embedding's weight; t5: see `scale_output`" },
    { "model.init_deviation", LS_KEY_REAL, AT(model.init_deviation), "0.02", 0, 100, .type = "model.type",
      .help = "standard deviation of initial weights" },
    { "model.decoder_layers", LS_KEY_INT, AT(model.decoder_layers), "0", 0, 10000, .type = "model.type",
      .help = "blocks of the decoder; 0: `layers`" },
    { "model.feed_forward", LS_KEY_CHOICE, AT(model.feed_forward), "relu", WORDS("relu", "gated-gelu"),
      .type = "model.type", .help = "a block's MLP: `relu` (the first T5) or `gated-gelu` (T5 v1.1)" },
    { "model.position_buckets", LS_KEY_INT, AT(model.position_buckets), "32", 4, 1e6, .type = "model.type",
      .help = "number of buckets of relative positions; even" },
    { "model.position_distance", LS_KEY_INT, AT(model.position_distance), "128", 2, 1e9, .type = "model.type",
      .help = "distances from here on share one bucket; greater than position_buckets / 2" },
    { "model.init_factor", LS_KEY_REAL, AT(model.init_factor), "1", 0, 100, .above = true,
      .type = "model.type", .help = "factor of the standard deviations of initial weights" },
    { "model.scale_output", LS_KEY_CHOICE, AT(model.scale_output), "auto", WORDS("auto", "true", "false"),
      .type = "model.type",
      .help = "multiply the input of the output layer by hidden_size^-0.5; `auto`: if `tied`" },
    { "model.start_token", LS_KEY_INT, AT(model.start_token), "0", 0, 1e9, .type = "model.type",
      .help = "first token id of the decoder" },
    { "model.hidden", LS_KEY_INTS, AT(model.hidden), "[128]", 1, 1e6, .type = "model.type",
      .help = "widths of the hidden layers; `[]`: none" },
    { "model.act", LS_KEY_CHOICE, AT(model.act), "relu", WORDS("relu", "gelu", "gelu_tanh"),
      .type = "model.type", .help = "activation after each hidden layer" },
    { "model.inputs", LS_KEY_PORTS, AT(model.inputs), "{}", .type = "model.type",
      .help = "in place of an image: float fields of the samples and their shapes, `[]` for one number; they "
              "are flattened and concatenated (docs/arrays.md)" },
    { "model.outputs", LS_KEY_PORTS, AT(model.outputs), "{}", .type = "model.type",
      .help = "with `inputs`: names and shapes of what the model computes and `loss` looks at" },
    { "model.scale", LS_KEY_CHOICE, AT(model.scale), "standard", WORDS("standard", "none"),
      .type = "model.type", NEEDS("model.inputs !{}"),
      .help = "`standard`: inputs, and targets of mse, mae and huber, are computed with as (value - mean) / "
              "deviation of the training split; outputs and metrics are in the data's own units" },
    { "model.refit", LS_KEY_BOOL, AT(model.refit), "false", .type = "model.type",
      NEEDS("model.scale standard", "model.inputs !{}", "model.init !random"),
      .help = "true: mean and deviation are found again; false: those of `init` are kept" },
    { "model.dropout", LS_KEY_REAL, AT(model.dropout), "0", 0, 1, .below = true, .type = "model.type",
      .help = "dropout probability: behind the positions (t5: the embeddings and the last norms), the "
              "attention (t5: and on its probabilities) and both layers of the MLP" },
    { "model.attention_dropout", LS_KEY_REAL, AT(model.attention_dropout), "0", 0, 1, .below = true,
      .type = "model.type", .help = "dropout probability of attention's probabilities" },
    { "model.classes", LS_KEY_INT, AT(model.classes), "10", 2, 1e6, .type = "model.type",
      NEEDS("model.inputs {}"), .help = "number of classes" },
    { "model.path", LS_KEY_TEXT, AT(model.path), "", .type = "model.type", .may_change = true,
      .help =
          "shared object that builds the model (docs/modules.md). Runs and checkpoints load no code: to use "
          "one, give `--module FILE`" },
    { "model.config", LS_KEY_TREE, AT(model.config), "{}", .type = "model.type", .may_change = true,
      .help = "settings that the shared object reads, `{hidden: 64}`; `--set model.config.hidden=64` sets "
              "one of them" },
    { "model.init", LS_KEY_TEXT, AT(model.init), "random",
      .help = "`random`, or the weights to begin with: a .safetensors or .pt file, a checkpoint, a directory "
              "of torch.distributed.checkpoint, or a Hugging Face folder, whose config.json sets the model "
              "keys that the recipe leaves out. Searched for in the same places as data.tokenizer" },
    { "model.init_strict", LS_KEY_BOOL, AT(model.init_strict), "true", NEEDS("model.init !random"),
      .help = "false, as load_state_dict(strict=False): names that only `init` or only the model has are "
              "skipped and listed; such parameters of the model keep their random values" },
    { "model.reset", LS_KEY_WORDS, AT(model.reset), "", NEEDS("model.init !random"),
      .help =
          "parameters or modules that keep their random values, as a new head. Names as in train.freeze" },
    { "model.rename", LS_KEY_MAPS, AT(model.rename), "[]", .maps = &LS_RENAME_MAPS,
      NEEDS("model.init !random"),
      .help = "other names for tensors of `init`: `[{from: \"classifier.*\", to: \"heads.head.*\"}]`; `*` is "
              "any text. The first rule that fits a tensor counts; one that fits none is refused" },

    { "loss", LS_KEY_LOSSES, AT(loss), "{}", .type = "model.type",
      .help = "of a model with `inputs`, or of a module that declares none: `type` mse, mae, huber, bce or "
              "cross_entropy; `of` an output; "
              "`target` the field that it is compared with (the one of the output's name); `weight` a field "
              "with a number for each sample, or `mask` one with a number for each element; `factor` (1); "
              "huber: `delta` (1)" },

    { "data.type", LS_KEY_WORD, AT(data.type), NULL, .words = LS_DATA_WORDS,
      .help = "data set by name; `idx`: images of your own; `shapes`: the built-in procedural set; `arrays`: "
              "arrays and tables of your own (docs/arrays.md); `text`: text files of your own, `pairs`: of "
              "source and target texts (docs/text.md)" },
    { "data.path", LS_KEY_TEXT, AT(data.path), "", .type = "data.type", .may_change = true,
      NEEDS("data.type @data.download"),
      .help = "folder of the data set, or a folder that holds it. Empty: LOCKSTEP_DATA, then the cache, then "
              "a download, then the built-in set with a warning" },
    { "data.config", LS_KEY_TREE, AT(data.config), "{}", .type = "data.type",
      .help = "settings that the data of the model's shared object read" },
    { "data.train_images", LS_KEY_TEXT, AT(data.train_images), "", .type = "data.type",
      .help = "IDX file, plain or gzip" },
    { "data.train_labels", LS_KEY_TEXT, AT(data.train_labels), "", .type = "data.type",
      .help = "IDX file, plain or gzip" },
    { "data.eval_images", LS_KEY_TEXT, AT(data.eval_images), "", .type = "data.type",
      .help = "IDX file, plain or gzip" },
    { "data.eval_labels", LS_KEY_TEXT, AT(data.eval_labels), "", .type = "data.type",
      .help = "IDX file, plain or gzip" },
    { "data.download", LS_KEY_BOOL, AT(data.download), "true", .type = "data.type", .may_change = true,
      .help = "a missing data set may be downloaded into the cache" },
    { "data.fallback", LS_KEY_BOOL, AT(data.fallback), "true", .type = "data.type", .may_change = true,
      .help = "true: the built-in set stands in for a data set that cannot be found or downloaded; false: "
              "this is an error" },
    { "data.mirror", LS_KEY_TEXT, AT(data.mirror), "", .type = "data.type", .may_change = true,
      NEEDS("data.path \"\"", "data.download true"),
      .help = "URL of a folder with the data set's files; empty: the known mirrors" },
    { "data.train_text", LS_KEY_TEXT, AT(data.train_text), "", .type = "data.type",
      .help = "a file, plain or gzip, or a pattern such as `books/*.txt`. Searched for in the working "
              "folder, in LOCKSTEP_DATA, then as datasets/OWNER/NAME/FILE among the files that `lockstep "
              "get` downloaded. pairs: CSV with a header, or JSON lines" },
    { "data.eval_text", LS_KEY_TEXT, AT(data.eval_text), "", .type = "data.type",
      .help = "the same for evaluation; empty: `eval_fraction` of the documents or pairs" },
    { "data.eval_fraction", LS_KEY_REAL, AT(data.eval_fraction), "0.05", 0, 1, .above = true, .below = true,
      .type = "data.type", NEEDS("data.eval_text \"\""),
      .help =
          "fraction of the documents or pairs that is held out for evaluation if there is no `eval_text`" },
    { "data.train_percentage", LS_KEY_REAL, AT(data.train_percentage), "100", 0, 100, .above = true,
      .type = "data.type",
      .help = "train on the first percent of the documents only, as `train[:5%]` of Hugging Face datasets" },
    { "data.tokenizer", LS_KEY_TEXT, AT(data.tokenizer), "", .type = "data.type",
      .help = "a tokenizer.json or spiece.model, or a folder with one, searched for in the working folder, "
              "in LOCKSTEP_DATA and in the cache's folder `data`; or OWNER/NAME, downloaded by `lockstep "
              "get`; or the built-in `bytes`" },
    { "data.documents", LS_KEY_CHOICE, AT(data.documents), "file", WORDS("file", "line", "blank", "json"),
      .type = "data.type",
      .help = "what a document is: a whole file, a `line`, lines up to an empty one (`blank`), or a text in "
              "each line's JSON object (`json`)" },
    { "data.field", LS_KEY_TEXT, AT(data.field), "text", .type = "data.type", NEEDS("data.documents json"),
      .help = "with documents: json, the member of the object that holds the text" },
    { "data.source", LS_KEY_TEXT, AT(data.source), "source", .type = "data.type",
      .help = "column, or member of each line's JSON object, that the model reads" },
    { "data.target", LS_KEY_TEXT, AT(data.target), "target", .type = "data.type",
      .help = "the same for the text that the model writes" },
    { "data.prefix", LS_KEY_TEXT, AT(data.prefix), "", .type = "data.type",
      .help = "text in front of each source, such as `\"summarize: \"`" },
    { "data.source_length", LS_KEY_INT, AT(data.source_length), "512", 2, 16777216, .type = "data.type",
      .help = "tokens of a source with its prefix and end token; longer ones are truncated, shorter ones "
              "padded" },
    { "data.target_length", LS_KEY_INT, AT(data.target_length), "150", 2, 16777216, .type = "data.type",
      .help = "the same for a target" },
    { "data.train_samples", LS_KEY_INT, AT(data.train_samples), "0", 0, MAX_COUNT, .type = "data.type",
      .help = "use only the first pairs, this many; 0: all" },
    { "data.eval_samples", LS_KEY_INT, AT(data.eval_samples), "0", 0, MAX_COUNT, .type = "data.type",
      .help = "the same for evaluation" },
    { "data.end_token", LS_KEY_TEXT, AT(data.end_token), "", .type = "data.type",
      .help = "token that ends a document, a source or a target; empty: the tokenizer's <|endoftext|>, "
              "<|end_of_text|>, </s> or <eos>" },
    { "data.seq_length", LS_KEY_INT, AT(data.seq_length), "512", 2, 16777216, .type = "data.type",
      .help = "tokens of a sample" },
    { "data.pack", LS_KEY_BOOL, AT(data.pack), "true", .type = "data.type",
      .help = "true: samples are windows of the concatenated documents; false: one document each, padded or "
              "truncated" },
    { "data.mean", LS_KEY_REAL, AT(data.mean), "0.5", -1e6, 1e6, .type = "data.type",
      .help = "a pixel p of 0..255 becomes (p / 255 - mean) / std" },
    { "data.std", LS_KEY_REAL, AT(data.std), "0.5", 0, 1e6, .above = true, .type = "data.type",
      .help = "see `mean`" },
    { "data.train", LS_KEY_FILES, AT(data.train), "{}", .type = "data.type", .may_change = true,
      .help = "fields and their files: `x.npy`, `all.npz:NAME`, `all.csv:COLUMN,COLUMN`, `all.h5:NAME` "
              "(docs/arrays.md), which are looked for here and in LOCKSTEP_DATA" },
    { "data.eval", LS_KEY_FILES, AT(data.eval), "{}", .type = "data.type", .may_change = true,
      .help = "the same for evaluation" },
    { "data.missing", LS_KEY_CHOICE, AT(data.missing), "error", WORDS("error", "mask"), .type = "data.type",
      .help = "NaN in a target of mse, mae, huber or bce: an `error`, or it does not count (`mask`)" },
    { "data.shuffle", LS_KEY_BOOL, AT(data.shuffle), "true",
      .help = "false: every epoch has the order of the files" },

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
    { "train.accumulate", LS_KEY_CHOICE, AT(train.accumulate), "tree", WORDS("tree", "running"),
      .help = "gradient accumulation: `tree` (the same bits on 1, 2, 4 ranks) or `running` (less memory)" },
    { "train.loss_mean", LS_KEY_CHOICE, AT(train.loss_mean), "global", WORDS("global", "micro_batch"),
      .help = "the loss of a step: `global`, one mean over all its targets, or `micro_batch`, the mean of "
              "the micro-batches' means, as when each rank averages its own batch" },
    { "train.freeze", LS_KEY_WORDS, AT(train.freeze), "",
      .help = "names of parameters or modules that are not trained; `*` matches inside one part of a name. "
              "They have no gradient and no optimizer state" },
    { "train.clip_norm", LS_KEY_REAL, AT(train.clip_norm), "0", 0, 1e9,
      .help = "gradient clipping: largest global norm over all ranks; 0: no clipping" },

    { "optimizer.type", LS_KEY_CHOICE, AT(optimizer.type), "adam", .words = LS_OPTIMIZER_WORDS,
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
      WORDS("original", "match_rms_adamw"), .type = "optimizer.type",
      .help = "PyTorch's adjust_lr_fn: how the shape of a matrix changes its rate" },
    { "optimizer.scale_parameter", LS_KEY_BOOL, AT(optimizer.scale_parameter), "true",
      .type = "optimizer.type", .help = "the rate is times the parameter's root mean square" },
    { "optimizer.relative_step", LS_KEY_BOOL, AT(optimizer.relative_step), "true", .type = "optimizer.type",
      .help = "the rate is min(1e-2, 1 / sqrt(step)), and `lr` and the schedule do not count" },
    { "optimizer.warmup_init", LS_KEY_BOOL, AT(optimizer.warmup_init), "false", .type = "optimizer.type",
      NEEDS("optimizer.relative_step true"), .help = "1e-6 step in place of 1e-2" },
    { "optimizer.clip_threshold", LS_KEY_REAL, AT(optimizer.clip_threshold), "1", 0, 1e6, .above = true,
      .type = "optimizer.type", .help = "largest root mean square of an update before the rate" },
    { "optimizer.decay_rate", LS_KEY_REAL, AT(optimizer.decay_rate), "-0.8", -10, 0, .below = true,
      .type = "optimizer.type", .help = "the second moments keep 1 - step^decay_rate of themselves" },
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

    { "schedule.type", LS_KEY_CHOICE, AT(schedule.type), "constant", .words = LS_SCHEDULE_WORDS,
      .help = "shape after the warm-up" },
    { "schedule.warmup_steps", LS_KEY_INT, AT(schedule.warmup_steps), "0", 0, MAX_COUNT,
      .help = "warm-up: steps in which the rate grows linearly to `lr`" },
    { "schedule.step_size", LS_KEY_INT, AT(schedule.step_size), "1000", 1, MAX_COUNT, .type = "schedule.type",
      NEEDS("schedule.step_epochs 0"), .help = "optimizer steps between cuts of the rate" },
    { "schedule.step_epochs", LS_KEY_INT, AT(schedule.step_epochs), "0", 0, 1e9, .type = "schedule.type",
      .help = "epochs between cuts, instead of `step_size`; 0: use `step_size`" },
    { "schedule.gamma", LS_KEY_REAL, AT(schedule.gamma), "0.1", 0, 100, .type = "schedule.type",
      .help = "factor of each cut" },
    { "schedule.total_steps", LS_KEY_INT, AT(schedule.total_steps), "0", 0, MAX_COUNT,
      .type = "schedule.type", .help = "step at which the rate reaches `min_lr`; 0: the run's last one" },
    { "schedule.min_lr", LS_KEY_REAL, AT(schedule.min_lr), "0", 0, 1e6, .type = "schedule.type",
      .help = "rate at the end" },

    { "parallel.mesh", LS_KEY_MESH, AT(parallel.mesh), "{dp: auto}", .may_change = true,
      .help = "device mesh: axes in order, outermost first. One size may be `auto`: `workers` divided by the "
              "others. Axes dp (or data_parallel) and shard are data parallel, axis tp is tensor parallel: "
              "`{dp: auto, tp: 2}`. An axis of another name has a role (replicate, shard or tensor, as dp, "
              "shard and tp): `{rows: auto, columns: {size: 2, role: tensor}}`" },
    { "parallel.data", LS_KEY_CHOICE, AT(parallel.data), "fsdp", WORDS("fsdp", "ddp", "hybrid", "none"),
      .other = (const char *const[]){ "FULL_SHARD fsdp", "SHARD_GRAD_OP fsdp", "NO_SHARD ddp",
                                      "HYBRID_SHARD hybrid", NULL },
      .may_change = true,
      .help = "data parallelism: `fsdp` shards parameters, gradients and optimizer state over all data ranks "
              "(ZeRO 3; ZeRO 2 with reshard_after_forward: false), `ddp` replicates them, `hybrid` (HSDP) "
              "shards over axis shard and replicates over axis dp, `none`: one data rank. FSDP1's names are "
              "accepted: FULL_SHARD (fsdp, reshard_after_forward true), SHARD_GRAD_OP (fsdp, false), "
              "NO_SHARD (ddp), HYBRID_SHARD (hybrid)" },
    { "parallel.units", LS_KEY_WORDS, AT(parallel.units), "none", .may_change = true,
      .help = "modules that are FSDP units, each gathered and reduced as a whole: words `class:NAME`, "
              "`pattern:GLOB` (of their names) and `size:1e6` (elements), or a list of them, such as "
              "`[class:T5Block, class:Embedding]`; `none`: one unit. The root unit has all other parameters. "
              "With ddp they are only the blocks of `recompute: units`" },
    { "parallel.reshard_after_forward", LS_KEY_RESHARD, AT(parallel.reshard_after_forward), "true",
      .may_change = true,
      .help = "true: a gathered unit is freed after its forward pass and gathered again for its backward "
              "pass; false: it is kept; N: a 1/N slice of it is kept and gathered over N neighbours (N "
              "divides the ranks that shard)" },
    { "parallel.gather", LS_KEY_CHOICE, AT(parallel.gather), "auto", WORDS("auto", "map", "copy"),
      .may_change = true, NEEDS(GATHERS),
      .help = "where gathered units lie: `map`, one copy per host; `copy`, one per rank; `auto`, map if the "
              "ranks that gather share a host and nothing is offloaded" },
    { "parallel.prefetch.forward", LS_KEY_INT, AT(parallel.prefetch.forward), "1", 0, 1000,
      .may_change = true, NEEDS(GATHERS, "parallel.prefetch.memory 0"),
      .help = "units that are gathered ahead in the forward pass" },
    { "parallel.prefetch.backward", LS_KEY_INT, AT(parallel.prefetch.backward), "1", 0, 1000,
      .may_change = true, NEEDS(GATHERS, "parallel.prefetch.memory 0"),
      .help = "units that are gathered ahead in the backward pass; 1 is BACKWARD_PRE" },
    { "parallel.prefetch.memory", LS_KEY_BYTES, AT(parallel.prefetch.memory), "0", 0, 1e18,
      .may_change = true, NEEDS(GATHERS),
      .help = "memory for units that are gathered ahead, instead of the numbers `forward` and `backward`; 0: "
              "use the numbers" },
    { "parallel.tensor", LS_KEY_WORDS, AT(parallel.tensor), "auto", .may_change = true,
      .help = "layers that axis tp splits: `auto` (projections of a decoder or a ViT; embedding and output "
              "layer if the ranks divide the vocabulary), or words `colwise:MODULE` (a linear layer or a "
              "convolution by its outputs, a packed one part by part) and `rowwise:MODULE` (by its inputs; "
              "an embedding by the rows of its table). MODULE is the end of a name, such as q_proj" },
    { "parallel.sequence", LS_KEY_BOOL, AT(parallel.sequence), "false", .may_change = true,
      .help = "sequence parallel: between the layers that axis tp splits, each of its ranks has a part of "
              "the tokens; less memory for activations (docs/ranks.md)" },
    { "parallel.synchronize", LS_KEY_CHOICE, AT(parallel.synchronize), "auto", WORDS("auto", "each", "once"),
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
    { "parallel.offload", LS_KEY_CHOICE, AT(parallel.offload), "none", WORDS("none", "cpu"),
      .may_change = true,
      .help = "`cpu`: sharded parameters, gradients and optimizer state are kept in host memory; fsdp and "
              "hybrid" },
    { "parallel.recompute", LS_KEY_WORDS, AT(parallel.recompute), "none", .may_change = true,
      .help = "activation checkpointing of these modules: `none`, `units`, or words `class:NAME` and "
              "`pattern:GLOB`; the bits of the result do not change" },

    { "precision.param", LS_KEY_DTYPE, AT(precision.param), "f32", .now = FLOATS,
      .later = "compute precision is one of these",
      .help = "mixed precision: type of matrix products and activations: f32, bf16 or f16 (with dynamic loss "
              "scaling); f64: device ref" },
    { "precision.reduce", LS_KEY_DTYPE, AT(precision.reduce), "f32", .now = FLOATS,
      .later = "sums are kept in one of these",
      .help = "type of gradient sums over ranks; the same bits on 1, 2 and 4 ranks in f32 and f64 only" },
    { "precision.output", LS_KEY_DTYPE, AT(precision.output), "f32", .now = FLOATS,
      .later = "outputs have one of these",
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
      .help = "metric of the best checkpoint, at the end of an epoch: `loss`, the epoch's training loss, or "
              "`eval_NAME` of the model's losses and metrics; `eval_rougeL` needs `eval.generate.tokens`" },
    { "checkpoint.best.mode", LS_KEY_CHOICE, AT(checkpoint.best.mode), "min", WORDS("min", "max"),
      .may_change = true,
      .help = "whether the smallest or the largest value is best; need not be set where the metric says it" },
    { "checkpoint.async", LS_KEY_BOOL, AT(checkpoint.async), "false", .may_change = true, NEEDS(SAVES),
      .help = "true: copy the state and write it while training goes on" },
    { "checkpoint.files", LS_KEY_CHOICE, AT(checkpoint.files), "whole", WORDS("whole", "per_rank"),
      .may_change = true, NEEDS(SAVES),
      .help = "`whole`: model.safetensors, which other programs read; `per_rank`: each rank writes a file of "
              "its own, which any number of ranks reads" },
    { "checkpoint.max_file", LS_KEY_BYTES, AT(checkpoint.max_file), "5GiB", 1024, 1e18, .may_change = true,
      NEEDS(SAVES, "checkpoint.files whole"), .help = "larger models are split into several files" },
    { "checkpoint.export", LS_KEY_TEXT, AT(checkpoint.export_to), "", .may_change = true, NEEDS(SAVES),
      .help = "file in the run's folder to which the whole model is exported when the run is finished, as by "
              "`lockstep export`: `model.pt`, `full_model/model.safetensors`, or `dcp/`, a directory of "
              "torch.distributed.checkpoint; empty: none" },
    { "checkpoint.verify", LS_KEY_CHOICE, AT(checkpoint.verify), "full", WORDS("full", "sizes"),
      .may_change = true,
      .help =
          "what is checked when a checkpoint is read: `full`, every byte; `sizes`, the sizes of the files" },

    { "failure.max_failures", LS_KEY_INT, AT(failure.max_failures), "0", -1, 1e6, .may_change = true,
      .help = "number of restarts from the last checkpoint after ranks were killed, crashed or stalled; -1: "
              "no limit" },
    { "failure.stall_seconds", LS_KEY_REAL, AT(failure.stall_seconds), "300", 0, 1e9, .above = true,
      .may_change = true, .help = "seconds after which waiting for data or for another rank is an error" },

    { "log.every", LS_KEY_INT, AT(log.every), "50", 1, 1e12, .may_change = true,
      .help = "steps between printed lines; metrics.jsonl always has every step" },
    { "log.tensorboard", LS_KEY_BOOL, AT(log.tensorboard), "false", .may_change = true,
      .help = "also write the metrics as event files for TensorBoard, to the run's folder `tensorboard`" },
};
const int LS_KEY_COUNT = sizeof LS_KEYS / sizeof *LS_KEYS;
_Static_assert(sizeof LS_KEYS / sizeof *LS_KEYS <= LS_KEY_MAX, "LS_KEY_MAX is too small");

int ls_key_find(const char *key)
{
    for (int i = 0; i < LS_KEY_COUNT; i++)
        if (!strcmp(LS_KEYS[i].key, key))
            return i;
    return -1;
}
