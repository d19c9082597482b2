/* recipe_foreign_keys.c - names of other programs for the keys of a recipe: PyTorch (DataLoader, DDP, FSDP),
 * Hugging Face Trainer and Accelerate, torchtitan, Axolotl, Lightning, DeepSpeed, Megatron, Ray Train. The
 * message about an unknown key names ours and says how it differs. A recipe that uses such a name is still an
 * error.
 */
#include <ctype.h>
#include <string.h>
#include "recipe_read.h"

#define MICRO "the samples of one forward pass on one rank"
#define GLOBAL "the samples of an optimizer step over all ranks and micro-batches"
#define DEGREE "a map of axes: {dp: auto, tp: 2}; one may be auto"

const ls_foreign_name LS_FOREIGN_NAMES[] = {
    /* batches */
    { "batch_size train_batch_size global_batch_size total_batch_size", "train.global_batch",
      GLOBAL "; what one rank takes at a time is train.micro_batch" },
    { "per_device_train_batch_size per_gpu_train_batch_size per_device_batch_size micro_batch_size "
      "local_batch_size train_micro_batch_size_per_gpu "
      "batch_size_per_device",
      "train.micro_batch", MICRO "; train.global_batch counts those of a whole optimizer step" },
    { "per_device_eval_batch_size eval_batch_size val_batch_size", "train.micro_batch",
      MICRO ", in evaluation too" },
    { "gradient_accumulation_steps accumulate_grad_batches gradient_accumulation grad_accum_steps "
      "grad_accumulation_steps",
      "train.global_batch",
      GLOBAL "; they are accumulated: global_batch / (micro_batch x data ranks) times" },
    { "drop_last dataloader_drop_last", "train.drop_last",
      "true by default, where PyTorch's DataLoader and the Trainer have false" },
    { "num_workers", "workers",
      "the ranks, as Ray's ScalingConfig counts them; a DataLoader's workers have no key: the threads of a "
      "rank load its data" },
    { "cpus_per_worker resources_per_worker cpus_per_task", "cores_per_worker", "of each rank" },
    { "workers_per_node ranks_per_node tasks_per_node ntasks_per_node", "workers_per_host",
      "the most ranks of a host" },
    { "dataloader_num_workers dataset_processes dataset_num_proc num_proc", "threads",
      "of a rank: they load its data and compute; there are no loader processes" },
    /* how long */
    { "num_train_epochs num_epochs max_epochs n_epochs", "train.epochs", "a whole number" },
    { "max_steps train_steps training_steps num_train_steps num_training_steps num_steps max_iters "
      "train_iters",
      "train.steps", "optimizer steps; it ends a run before train.epochs do, and 0 is not a limit" },
    { "early_stopping_patience patience early_stop_patience early_stopping_rounds",
      "train.early_stopping.patience",
      "epochs without an improvement of checkpoint.best's metric after which training ends" },
    { "early_stopping_threshold min_delta early_stopping_min_delta", "train.early_stopping.min_delta",
      "an improvement is larger than this" },
    { "max_time max_duration time_budget_s time_limit_s", "run.time_limit", "seconds" },
    /* optimizer */
    { "learning_rate base_lr max_lr initial_lr", "optimizer.lr", "the rate before the schedule" },
    { "beta1 beta2 adam_beta1 adam_beta2 adam_betas", "optimizer.betas", "both in one list: [0.9, 0.999]" },
    { "eps epsilon adam_epsilon adam_eps", "optimizer.eps",
      "added to the root of the second moment, as PyTorch does" },
    { "weight_decay wd", "optimizer.weight_decay",
      "decoupled with optimizer.type adamw, added to the gradient with adam and sgd; of every parameter" },
    { "optim optimizer_type optimizer_name", "optimizer.type", "adam, adamw or sgd" },
    { "max_grad_norm grad_clip gradient_clip_val gradient_clipping clip_grad clip_grad_norm clip_grad_norm_ "
      "max_norm",
      "train.clip_norm", "the global norm over all ranks; 0, the default, clips nothing" },
    { "average_tokens_across_devices", "train.loss_mean", "global, the default, is that" },
    { "freeze freeze_layers frozen_parameters", "train.freeze",
      "names of parameters or modules, separated by spaces" },
    /* schedule */
    { "num_warmup_steps warmup_iters lr_warmup_steps lr_warmup_iters", "schedule.warmup_steps",
      "optimizer steps" },
    { "warmup_ratio warmup_fraction warmup_epochs warmup", "schedule.warmup_steps",
      "a number of optimizer steps, not a part of the run or epochs" },
    { "lr_scheduler_type lr_scheduler scheduler scheduler_type lr_decay_style decay_type", "schedule.type",
      "constant, step, cosine or linear; each begins with schedule.warmup_steps" },
    { "min_learning_rate lr_min eta_min", "schedule.min_lr", "a rate" },
    { "min_lr_rate min_lr_factor min_lr_ratio cosine_min_lr_ratio", "schedule.min_lr",
      "a rate, not a factor of optimizer.lr" },
    { "t_max lr_decay_iters lr_decay_steps", "schedule.total_steps", "optimizer steps, not epochs" },
    /* precision */
    { "bf16 fp16 amp precision mixed_precision mixed_precision_param param_dtype torch_dtype dtype",
      "precision.param", "bf16, f16 (with dynamic loss scaling) or f32; master weights stay in f32" },
    { "reduce_dtype mixed_precision_reduce grad_reduce_dtype", "precision.reduce",
      "f32, bf16 or f16: sums of gradients over ranks" },
    { "output_dtype", "precision.output", "as MixedPrecisionPolicy has it, of the whole model" },
    { "cast_inputs", "precision.cast_forward_inputs", "true or false" },
    { "init_scale loss_scale initial_scale_power", "precision.scaler.init",
      "f16: the scale of the loss at first" },
    { "growth_factor", "precision.scaler.growth", "f16: a factor above 1" },
    { "backoff_factor", "precision.scaler.backoff", "f16: a factor below 1" },
    { "growth_interval loss_scale_window", "precision.scaler.interval", "f16: good steps in a row" },
    /* ranks */
    { "world_size nproc_per_node num_processes devices gpus num_gpus n_gpus num_nodes", "workers",
      "the ranks of the run; on several hosts mpirun or srun starts them (docs/ranks.md)" },
    { "fsdp fsdp_config strategy sharding_strategy parallelism distributed_type", "parallel.data",
      "fsdp (the default), ddp, hybrid or none; FSDP1's FULL_SHARD and the like are taken too" },
    { "auto_wrap_policy fsdp_auto_wrap_policy fsdp_transformer_layer_cls_to_wrap "
      "transformer_layer_cls_to_wrap fsdp_min_num_params",
      "parallel.units", "class:NAME, pattern:GLOB or size:1e6, or several of them" },
    { "fsdp_reshard_after_forward fsdp_sharding_strategy", "parallel.reshard_after_forward",
      "true, false or a number of slices" },
    { "tensor_parallel_degree tensor_model_parallel_size tensor_parallel_size tp tp_size tp_degree",
      "parallel.mesh", DEGREE ": axis tp splits layers" },
    { "data_parallel_shard_degree dp_shard dp_shard_size fsdp_size", "parallel.mesh",
      DEGREE "; parallel.data: fsdp shards over all data ranks, hybrid over axis shard" },
    { "data_parallel_replicate_degree dp_replicate dp_replicate_size", "parallel.mesh",
      DEGREE "; parallel.data: hybrid copies over axis dp, shards over axis shard" },
    { "data_parallel_degree data_parallel_size dp dp_size device_mesh", "parallel.mesh", DEGREE },
    { "sequence_parallel enable_sequence_parallel", "parallel.sequence", "true or false, beside axis tp" },
    { "gradient_checkpointing use_gradient_checkpointing activation_checkpointing activation_checkpoint "
      "checkpoint_activations fsdp_activation_checkpointing "
      "recompute_granularity",
      "parallel.recompute", "units or class:NAME in place of true" },
    { "cpu_offload offload_params offload_policy enable_cpu_offload fsdp_offload_params", "parallel.offload",
      "cpu in place of true" },
    { "backward_prefetch fsdp_backward_prefetch", "parallel.prefetch.backward",
      "how many units ahead; 1 is BACKWARD_PRE" },
    { "forward_prefetch fsdp_forward_prefetch", "parallel.prefetch.forward", "how many units ahead" },
    { "bucket_cap_mb ddp_bucket_cap_mb", "parallel.bucket", "bytes, as 25MiB" },
    { "sync_batchnorm sync_bn", "parallel.sync_batch_norm", "true or false; resnet" },
    { "num_threads torch_num_threads omp_num_threads", "threads", "of a rank; 0: cores / ranks" },
    { "accelerator use_cpu no_cuda use_gpu", "device", "cpu or ref" },
    /* data */
    { "sequence_len sequence_length seq_len max_length max_seq_length max_seq_len block_size context_length "
      "model_max_length cutoff_len",
      "data.seq_length", "the tokens of a sample" },
    { "max_source_length max_input_length", "data.source_length", "tokens, with prefix and end token" },
    { "max_target_length max_output_length", "data.target_length", "tokens, with the end token" },
    { "sample_packing packing", "data.pack",
      "true, the default, cuts windows out of the concatenated documents" },
    { "dataset dataset_name datasets", "data.type",
      "a set that is known, or idx, text or pairs for files of your own" },
    { "data_path data_dir dataset_path dataset_dir root", "data.path",
      "the folder of a known set; files of text are data.train_text, images data.train_images" },
    { "train_file train_files data_files", "data.train_text",
      "a file or a pattern; images: data.train_images and data.train_labels" },
    { "validation_file eval_file test_file", "data.eval_text",
      "a file or a pattern; images: data.eval_images and data.eval_labels" },
    { "val_set_size validation_split val_split test_size", "data.eval_fraction",
      "a part of the documents between 0 and 1, not their number" },
    { "text_column dataset_text_field text_field", "data.field", "with data.documents: json" },
    { "tokenizer_name tokenizer_path tokenizer_name_or_path tokenizer_config", "data.tokenizer",
      "a tokenizer.json or spiece.model, a folder with one, or bytes" },
    { "source_prefix", "data.prefix", "put before each source" },
    { "max_train_samples", "data.train_samples", "pairs; 0: all" },
    { "max_eval_samples max_val_samples", "data.eval_samples", "pairs; 0: all" },
    /* model */
    { "model_name_or_path pretrained_model_name_or_path base_model model_name pretrained initial_load_path "
      "init_from load",
      "model.init",
      "a file or folder of weights, looked for here, in LOCKSTEP_DATA and in the cache; nothing is "
      "downloaded" },
    { "model_type arch architecture base_model_type", "model.type", "the architecture" },
    { "hidden_dim d_model n_embd embed_dim dim", "model.hidden_size", "the width of a token" },
    { "num_layers n_layer n_layers num_hidden_layers depth", "model.layers", "blocks" },
    { "num_heads n_head n_heads num_attention_heads", "model.heads", "attention heads" },
    { "num_key_value_heads num_kv_heads n_kv_heads", "model.kv_heads", "0: as many as model.heads" },
    { "intermediate_size d_ff ffn_dim mlp_dim ffn_hidden_size", "model.mlp_size",
      "the width inside a block's MLP" },
    { "num_classes n_classes num_labels", "model.classes", "the size of the output" },
    { "activation hidden_act", "model.act", "relu, gelu or gelu_tanh" },
    { "rms_norm_eps layer_norm_epsilon", "model.norm_eps", "of RMS norm" },
    { "tie_word_embeddings tie_weights weight_tying", "model.tied", "true or false" },
    { "initializer_range", "model.init_deviation", "of initial weights" },
    { "dropout_rate hidden_dropout_prob", "model.dropout", "the part of elements that is 0" },
    { "attention_probs_dropout_prob attn_dropout attn_pdrop", "model.attention_dropout",
      "the part of attention's probabilities that is 0" },
    /* evaluation, checkpoints, the run */
    { "eval_steps eval_interval eval_freq val_check_interval check_val_every_n_epoch evals_per_epoch "
      "eval_strategy evaluation_strategy",
      "eval.every_epochs", "epochs, not steps; 0: only after the last; -1: never" },
    { "save_steps save_interval checkpoint_interval checkpoint_every every_n_train_steps",
      "checkpoint.every_steps", "optimizer steps; 0: none by steps; checkpoint.every_epochs counts epochs" },
    { "save_strategy save_freq checkpoint_frequency saves_per_epoch every_n_epochs",
      "checkpoint.every_epochs", "epochs; 0: only after the last; -1: none" },
    { "save_total_limit num_to_keep keep_latest_k", "checkpoint.keep",
      "the latest ones; checkpoint.keep_best ones are kept besides" },
    { "save_top_k top_k", "checkpoint.keep_best", "the best ones, by checkpoint.best" },
    { "metric_for_best_model load_best_model_at_end checkpoint_score_attribute monitor",
      "checkpoint.best.metric", "train_loss, eval_loss, eval_NAME; the best is RUN/checkpoints/best" },
    { "greater_is_better checkpoint_score_order", "checkpoint.best.mode", "min or max" },
    { "async_save async_mode async_checkpoint", "checkpoint.async", "true or false" },
    { "single_file_per_rank state_dict_type fsdp_state_dict_type", "checkpoint.files",
      "whole (a full state dict) or per_rank (a sharded one)" },
    { "max_shard_size", "checkpoint.max_file", "a size, as 5GiB" },
    { "resume_from_checkpoint auto_resume_from_checkpoints resume ckpt_path restore_from", "run.name",
      "a run of that name continues from its latest checkpoint by itself; --resume CHECKPOINT names another, "
      "and model.init begins a new run with its weights" },
    { "output_dir out_dir save_dir default_root_dir dump_folder storage_path logging_dir work_dir",
      "run.storage", "the folder that holds runs; this one's is run.storage/run.name" },
    { "run_name experiment_name job_name wandb_run_name", "run.name", "the run's folder in run.storage" },
    { "random_seed manual_seed data_seed", "run.seed", "of initial weights, sample order and dropout" },
    { "logging_steps log_every_n_steps log_interval log_freq print_freq", "log.every",
      "steps between printed lines; metrics.jsonl has every step" },
    { "report_to tensorboard use_tensorboard enable_tensorboard", "log.tensorboard", "true or false" },
    { "max_restarts max_retries fault_tolerance", "failure.max_failures",
      "restarts from the last checkpoint; -1: no limit" },
    { "ddp_timeout timeout timeout_s train_timeout_seconds distributed_timeout_minutes",
      "failure.stall_seconds", "seconds" },
    { NULL, NULL, NULL },
};

/* Upper and lower case are the same, and so are - and _, because flags of a command line have -. */
static bool is_name(const char *name, size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++)
        if (name[i] != (word[i] == '-' ? '_' : tolower((unsigned char)word[i])))
            return false;
    return !word[n];
}

const ls_foreign_name *ls_foreign_name_find(const char *word)
{
    for (const ls_foreign_name *f = LS_FOREIGN_NAMES; f->theirs; f++)
        for (const char *name = f->theirs; *name; name += *name == ' ') {
            const size_t n = strcspn(name, " ");
            if (is_name(name, n, word))
                return f;
            name += n;
        }
    return NULL;
}
