/* recipe_foreign_keys.c - names and values of other programs, and what a recipe has in their place: PyTorch
 * (DataLoader, DDP, FSDP, schedulers, profiler, torchrun), Ray Train, Hugging Face Trainer and Accelerate,
 * torchtitan, PEFT, TRL, Axolotl, Lightning, DeepSpeed. A recipe that uses such a name is still an error: its
 * message says what to write. recipe_hint.c searches the table.
 */
#include "recipe_read.h"

#define MICRO "the samples of one forward pass on one rank"
#define GLOBAL "the samples of an optimizer step over all ranks and micro-batches"
#define DEGREE "a map of axes: {dp: auto, tp: 2}; one may be auto"
#define NOT_NEEDED "not needed, leave it out: "
#define MISSING "not in this version: "
#define USE_PROFILE "use `lockstep train RECIPE --profile` (docs/howto/profiling.md)"
#define IN_A_MODULE "not a key: a layer of your own is built in C (docs/modules.md)"

const ls_foreign_name LS_FOREIGN_NAMES[] = {
    /* batches */
    { "batch_size train_batch_size train_batch global_batch_size total_batch_size batch",
      "train.global_batch", GLOBAL "; what one rank takes at a time is train.micro_batch" },
    { "per_device_train_batch_size per_gpu_train_batch_size per_device_batch_size micro_batch_size "
      "local_batch_size train_micro_batch_size_per_gpu batch_size_per_device batch_size_per_gpu",
      "train.micro_batch", MICRO "; train.global_batch counts those of a whole optimizer step" },
    { "per_device_eval_batch_size per_gpu_eval_batch_size eval_batch_size val_batch_size eval_batch "
      "valid_batch_size validation_batch_size test_batch_size "
      "eval.batch_size eval.micro_batch eval_micro_batch_size validation.local_batch_size",
      "eval.batch", "samples that each rank evaluates at once; 0: train.micro_batch" },
    { "gradient_accumulation_steps accumulate_grad_batches gradient_accumulation grad_accum_steps "
      "grad_accumulation_steps accumulation_steps accum_steps grad_accum",
      "train.global_batch",
      GLOBAL "; they are accumulated: global_batch / (micro_batch x data ranks) times" },
    { "drop_last dataloader_drop_last", "train.drop_last",
      "true by default, where PyTorch's DataLoader and the Trainer have false" },
    { "auto_find_batch_size auto_scale_batch_size", NULL,
      MISSING "`lockstep plan RECIPE` says what memory a train.micro_batch needs" },
    { "num_workers scaling_config", "workers",
      "the ranks, as Ray's ScalingConfig counts them; a DataLoader's workers have no key: the threads of a "
      "rank load its data" },
    { "data.num_workers dataloader.num_workers loader.num_workers train.num_workers", NULL,
      NOT_NEEDED "the threads of a rank load its data" },
    { "cpus_per_worker resources_per_worker cpus_per_task", "cores_per_worker", "of each rank" },
    { "workers_per_node ranks_per_node tasks_per_node ntasks_per_node", "workers_per_host",
      "the most ranks of a host" },
    { "dataloader_num_workers dataset_processes dataset_num_proc num_proc preprocessing_num_workers "
      "num_data_workers loader_workers",
      "threads", "of a rank: they load its data and compute; there are no loader processes" },
    { "pin_memory dataloader_pin_memory pin_memory_device prefetch_factor dataloader_prefetch "
      "dataloader_prefetch_factor "
      "persistent_workers dataloader_persistent_workers multiprocessing_context worker_init_fn collate_fn "
      "batch_sampler in_order non_blocking reload_dataloaders_every_n_epochs dispatch_batches "
      "split_batches even_batches use_seedable_sampler",
      NULL, NOT_NEEDED "one thread of each rank reads the samples of the next steps" },
    { "num_replicas set_epoch use_distributed_sampler distributed_sampler replace_sampler_ddp "
      "sortish_sampler",
      NULL,
      NOT_NEEDED "the order follows from run.seed and the epoch, and each data rank reads its own "
                 "samples" },
    { "sampler weighted_sampler weighted_random_sampler balanced_sampling class_balanced", "data.sampler",
      "uniform, balanced, or weights:FIELD" },
    { "group_by_length length_column_name bucket_by_length", NULL,
      MISSING "data.pack: documents needs little padding" },
    /* how long */
    { "num_train_epochs num_epochs run.epochs max_epochs n_epochs nepochs total_epochs", "train.epochs",
      "a whole number" },
    { "max_steps train_steps training_steps num_train_steps num_training_steps num_steps max_iters "
      "train_iters iters iterations num_iterations total_iters training.steps run.steps",
      "train.steps", "optimizer steps; it ends a run before train.epochs do, and 0 is not a limit" },
    { "debug_steps limit_train_batches max_steps_per_epoch batches_per_epoch overfit_batches",
      "train.steps_per_epoch", "optimizer steps, a whole number; 0: all samples" },
    { "min_epochs min_steps", NULL, MISSING "train.early_stopping.patience is what ends a run early" },
    { "fast_dev_run dry_run dummy", NULL,
      "use `lockstep train RECIPE --dry-run`, or a few steps: train.steps: 5" },
    { "num_sanity_val_steps sanity_check", NULL,
      NOT_NEEDED "before the first step the training, update and evaluation programs are all compiled" },
    { "start_epoch last_step last_epoch initial_epoch resume_epoch ignore_data_skip load_step "
      "run_resume_demo",
      NULL,
      NOT_NEEDED "the same command continues the run at its next sample; --resume CHECKPOINT names another "
                 "checkpoint" },
    { "early_stopping_patience patience early_stop_patience early_stopping_rounds early_stop",
      "train.early_stopping.patience",
      "epochs without an improvement of checkpoint.best's metric after which training ends" },
    { "early_stopping_threshold min_delta early_stopping_min_delta", "train.early_stopping.min_delta",
      "an improvement is larger than this" },
    { "max_time max_duration time_budget_s time_limit_s max_train_time", "run.time_limit", "seconds" },
    { "do_train do_eval do_predict evaluate eval_only test_only", NULL,
      NOT_NEEDED "`lockstep train`, `lockstep eval` and `lockstep predict` are commands" },
    /* optimizer */
    { "learning_rate base_lr initial_lr peak_lr init_lr", "optimizer.lr", "the rate before the schedule" },
    { "max_lr", "optimizer.lr", "the highest rate: schedules begin with a warm-up up to it" },
    { "beta1 beta2 adam_beta1 adam_beta2 adam_betas", "optimizer.betas", "both in one list: [0.9, 0.999]" },
    { "eps epsilon adam_epsilon adam_eps", "optimizer.eps",
      "added to the root of the second moment, as PyTorch does" },
    { "weight_decay wd l2 l2_reg", "optimizer.weight_decay",
      "decoupled with optimizer.type adamw, added to the gradient with adam and sgd; of every parameter" },
    { "optimizer optim optimizer_type optimizer_name optim_type opt optimizer.name optimizer.class "
      "optimizer_class",
      "optimizer.type", "adam, adamw, sgd, lion, muon or adafactor" },
    { "adam_w_mode", "optimizer.type: adamw", "adam adds weight_decay to the gradient" },
    { "no_decay norm_weight_decay bias_weight_decay param_groups optim_target_modules lr_mult "
      "layer_decay llrd embedding_lr embedding_lr_scale",
      "optimizer.groups", "maps such as {match: \"pattern:*bias\", weight_decay: 0, lr_factor: 0.1}" },
    { "optim_args optimizer_kwargs optimizer_params optim_kwargs optimizer.params optimizer.kwargs",
      "optimizer", "its keys stand beside optimizer.type" },
    { "foreach fused capturable differentiable set_to_none optimizer.implementation zero_grad "
      "fused_optimizer early_step_in_backward optimizer_in_backward",
      NULL, NOT_NEEDED "an update is one pass over each unit, and gradients are not kept between steps" },
    { "amsgrad maximize rho hessian_update_interval", NULL,
      MISSING "`lockstep recipe --reference` lists the keys of each optimizer" },
    { "max_grad_norm grad_clip gradient_clip_val gradient_clipping clip_grad clip_grad_norm clip_grad_norm_ "
      "max_norm clip grad_norm_clip gradient_clip",
      "train.clip_norm", "the global norm over all ranks; 0, the default, clips nothing" },
    { "clip_grad_value clip_value gradient_clip_algorithm grad_clip_value norm_type", NULL,
      MISSING "train.clip_norm clips the 2-norm of all gradients" },
    { "error_if_nonfinite detect_anomaly terminate_on_nan check_nan logging_nan_inf_filter nan_to_num "
      "skip_nan",
      "train.nonfinite", "stop, the default, names the operation; skip goes on without the step" },
    { "average_tokens_across_devices", "train.loss_mean", "global, the default, is that" },
    { "freeze freeze_layers frozen_parameters requires_grad freeze_backbone trainable_parameters",
      "train.freeze", "names of parameters or modules that are not trained, separated by spaces" },
    { "ema ema_alpha ema_rate use_ema model_ema model_ema_decay ema_decay_rate", "optimizer.ema_decay",
      "a decay such as 0.999; eval.ema evaluates with the averages" },
    { "swa swa_lr swa_start swa_epochs stochastic_weight_avg", NULL,
      MISSING "optimizer.ema_decay keeps a moving average of the weights" },
    { "neftune_noise_alpha noise_alpha gradient_noise", NULL, MISSING "no noise is added" },
    /* loss */
    { "criterion loss_fn loss_function loss_type loss_func", "loss",
      "of a model with model.outputs; a classifier has the cross-entropy without it (docs/arrays.md)" },
    { "label_smoothing_factor smoothing", "train.label_smoothing", "0 to below 1" },
    { "reduction size_average", "train.loss_mean",
      "global: one mean over all targets of a step; micro_batch: the mean of the micro-batches' means" },
    { "ignore_index", NULL,
      NOT_NEEDED
      "a label of -100 never counts, nor does padding of a text; of masks data.ignore is the value "
      "that does not count" },
    { "class_weights class_weight", "loss: {class_weights: balanced}",
      "or a list with a weight for each class, in a loss of type cross_entropy" },
    { "pos_weight loss_weight loss_weights", NULL,
      MISSING "a loss of model.outputs takes a field with a weight for each sample (docs/arrays.md)" },
    /* schedule */
    { "num_warmup_steps warmup_iters lr_warmup_steps lr_warmup_iters warmup_num_steps",
      "schedule.warmup_steps", "optimizer steps" },
    { "warmup_ratio lr_warmup_ratio warmup_fraction warmup_epochs warmup warmup_proportion lr_warmup_epochs",
      "schedule.warmup_steps", "a number of optimizer steps, not a part of the run or epochs" },
    { "schedule lr_scheduler_type lr_scheduler scheduler scheduler_type lr_decay_style decay_type "
      "lr_schedule "
      "scheduler_name lr_policy learning_rate_decay lr_decay schedule.decay optimizer.decay sched "
      "schedule.name scheduler.name scheduler.type lr_scheduler.type",
      "schedule.type", "the shape of the rate, which begins with schedule.warmup_steps" },
    { "min_learning_rate lr_min eta_min end_lr lr_end final_lr", "schedule.min_lr", "a rate" },
    { "min_lr_rate min_lr_factor min_lr_ratio cosine_min_lr_ratio end_factor", "schedule.min_lr",
      "a rate, not a factor of optimizer.lr" },
    { "t_max lr_decay_iters lr_decay_steps total_num_steps schedule.epochs schedule.steps cosine_steps "
      "lr_scheduler.total_steps",
      "schedule.total_steps", "optimizer steps, not epochs" },
    { "lr_gamma lr_step_size decay_factor", "schedule.gamma",
      "with schedule.type: step and schedule.step_size or schedule.step_epochs" },
    { "milestones lr_steps", NULL,
      MISSING "schedule.type: step cuts the rate after equal numbers of steps or epochs" },
    { "lr_scheduler_kwargs scheduler_kwargs scheduler_params scheduler_config", "schedule",
      "its keys stand beside schedule.type" },
    { "t_0 first_cycle_steps", "schedule.period", "steps of the first cosine of schedule.type: restarts" },
    { "t_mult cycle_mult", "schedule.period_factor", "of schedule.type: restarts" },
    { "anneal_strategy num_cycles cycle_momentum base_momentum max_momentum three_phase start_factor "
      "cooldown threshold_mode decay_ratio lr_decay_rate lr_decay_ratio lr_lambda",
      NULL, MISSING "`lockstep recipe --reference` lists the keys of each schedule.type" },
    /* precision */
    { "bf16 bfloat16 use_bf16 bf16_full_eval bf16.enabled downcast_bf16", "precision.param: bf16",
      "master weights stay in f32" },
    { "fp16 float16 use_fp16 half fp16_full_eval fp16.enabled half_precision fp16_opt_level",
      "precision.param: f16", "with dynamic loss scaling; master weights stay in f32" },
    { "amp use_amp autocast precision mixed_precision mixed_precision_param param_dtype torch_dtype dtype "
      "amp_dtype autocast_dtype mp_policy mp_param_dtype precision.type precision.compute precision.mixed "
      "precision.train mixed_precision_policy training.dtype",
      "precision.param", "bf16, f16 (with dynamic loss scaling) or f32; master weights stay in f32" },
    { "reduce_dtype mixed_precision_reduce grad_reduce_dtype precision.grad communication_data_type "
      "fp32_reduce_scatter "
      "ddp_comm_hook comm_hook mixed_precision.reduce gradient_dtype",
      "precision.reduce", "f32, bf16 or f16: sums of gradients over ranks" },
    { "output_dtype", "precision.output", "as MixedPrecisionPolicy has it, of the whole model" },
    { "cast_inputs cast_root_forward_inputs", "precision.cast_forward_inputs", "true or false" },
    { "buffer_dtype keep_low_precision_grads fp32_residual_connection", NULL,
      MISSING "buffers stay in f32, and the optimizer reads sums in f32" },
    { "init_scale loss_scale initial_scale_power", "precision.scaler.init",
      "f16: the scale of the loss at first" },
    { "growth_factor scale_factor", "precision.scaler.growth", "f16: a factor above 1" },
    { "backoff_factor", "precision.scaler.backoff", "f16: a factor below 1" },
    { "growth_interval loss_scale_window", "precision.scaler.interval", "f16: good steps in a row" },
    { "grad_scaler gradscaler use_scaler hysteresis min_loss_scale fp16_backend half_precision_backend "
      "scaler cache_enabled use_grad_scaler auto_cast",
      NULL, NOT_NEEDED "precision.param: f16 scales the loss by itself (precision.scaler)" },
    { "tf32 allow_tf32 float32_matmul_precision set_float32_matmul_precision matmul_precision",
      "kernels: tf32", "with device: cuda" },
    { "float8 fp8 fp8_recipe enable_fsdp_float8_all_gather load_in_8bit quantization quantize "
      "quantization_config",
      NULL,
      MISSING "precision.param has f32, bf16 and f16, and model.base: nf4 stores frozen weights in 4 bits" },
#include "foreign_finetune.inc"
    /* ranks */
    { "world_size nproc_per_node num_processes devices gpus num_gpus n_gpus nprocs nproc n_gpu "
      "num_devices gpus_per_node ngpus_per_node gpus_per_trial",
      "workers", "the ranks of the run; on several hosts mpirun or srun starts them (docs/ranks.md)" },
    { "nnodes num_nodes num_machines nodes n_nodes hostfile hosts", NULL,
      "use `lockstep train RECIPE --hosts a:4,b:4` (docs/howto/several-hosts.md)" },
    { "world_rank global_rank node_rank machine_rank rank0_only dp_rank tp_rank local_world_size "
      "local_rank master_addr master_port main_process_ip main_process_port dist_url init_method "
      "rdzv_backend rdzv_endpoint rdzv_id rdzv_conf standalone start_method process_group group_rank "
      "multiprocessing_distributed main_training_function same_network monitor_interval pg_options "
      "world_size_env process_group_backend",
      NULL,
      NOT_NEEDED "`lockstep train RECIPE --workers N` starts the ranks, --hosts those of several hosts" },
    { "dist_backend ddp_backend nccl gloo distributed_backend nccl_p2p_disable nccl_debug "
      "nccl_async_error_handling parallel.backend "
      "nccl_socket_ifname nccl_ib_disable torch_distributed_debug torch_nccl_blocking_wait",
      NULL, NOT_NEEDED "ranks of a host share memory, hosts speak MPI, GPUs use NCCL where it is found" },
    { "device_id device_ids output_device gpu gpu_id gpu_ids cuda_device cuda_visible_devices main_gpu "
      "map_location to_device move_to_device device_placement set_device use_mps_device",
      NULL, NOT_NEEDED "each rank takes its own cores or its own GPU (of those in CUDA_VISIBLE_DEVICES)" },
    { "ddp ddp_config", "parallel.data: ddp", "fsdp is the default" },
    { "fsdp fsdp_config strategy sharding_strategy parallelism distributed_type parallel_strategy "
      "fsdp_version zero_optimization zero_stage zero_optimization.stage deepspeed distributed "
      "data_parallel parallel.sharding fsdp2 fully_shard deepspeed_config fsdp_plugin distributed_strategy",
      "parallel.data",
      "fsdp (the default), ddp, hybrid or none; FSDP1's FULL_SHARD and the like are taken too" },
    { "auto_wrap_policy fsdp_auto_wrap_policy fsdp_transformer_layer_cls_to_wrap transformer_layer_cls "
      "transformer_layer_cls_to_wrap fsdp_min_num_params min_num_params wrap_policy wrapping_policy "
      "fsdp_wrap_policy auto_wrap fsdp_wrap_modules parallel.wrap wrap_modules module_classes_to_ignore",
      "parallel.units", "class:NAME, pattern:GLOB or size:1e6, or several of them" },
    { "fsdp_reshard_after_forward fsdp_sharding_strategy reshard", "parallel.reshard_after_forward",
      "true, false or a number of slices" },
    { "sync_module_states fsdp_sync_module_states use_orig_params fsdp_use_orig_params param_init_fn "
      "fsdp_cpu_ram_efficient_loading cpu_ram_efficient_loading init_sync init_empty_weights meta_device "
      "low_cpu_mem_usage broadcast_from_rank0 device_map",
      NULL,
      NOT_NEEDED "each rank makes or reads only the slices that it stores, under the model's own names" },
    { "limit_all_gathers overlap_comm contiguous_gradients round_robin_gradients "
      "stage3_prefetch_bucket_size stage3_max_live_parameters stage3_max_reuse_distance "
      "stage3_param_persistence_threshold sub_group_size set_modules_to_forward_prefetch",
      NULL, NOT_NEEDED "the compiler places gathers and sums; parallel.prefetch says how far ahead" },
    { "find_unused_parameters ddp_find_unused_parameters static_graph gradient_as_bucket_view "
      "broadcast_buffers ddp_broadcast_buffers check_reduction delay_all_reduce_named_params join "
      "zero_allow_untested_optimizer prescale_gradients sparse_gradients gradient_predivide_factor",
      NULL, NOT_NEEDED "the step is compiled: it is known which parameters get a gradient, and when" },
    { "ignored_modules ignored_states ignored_params ignored_parameters shard_placement_fn "
      "fsdp_ignored_modules",
      NULL, MISSING "every parameter is in a unit; train.freeze keeps values as they are" },
    { "no_sync require_backward_grad_sync sync_each_batch set_requires_gradient_sync "
      "set_is_last_backward gradient_sync",
      "parallel.synchronize",
      "once: gradients are reduced after the last micro-batch; each: after every one" },
    { "tensor_parallel_degree tensor_model_parallel_size tensor_parallel_size tp tp_size tp_degree "
      "tensor_parallel tp_mesh",
      "parallel.mesh", DEGREE ": axis tp splits layers" },
    { "context_parallel_degree context_parallel_size context_parallel cp cp_size cp_degree", "parallel.mesh",
      DEGREE ": axis cp splits tokens" },
    { "context_parallel_load_balancer context_parallel_rotate_method set_rotate_method", NULL,
      NOT_NEEDED "causal tokens are dealt evenly over axis cp, and keys and values are gathered" },
    { "tp_mapping parallelize_plan tp_plan parallelize_module", "parallel.tensor",
      "auto, or words such as \"colwise:q_proj rowwise:o_proj\"" },
    { "data_parallel_shard_degree dp_shard dp_shard_size fsdp_size", "parallel.mesh",
      DEGREE "; parallel.data: fsdp shards over all data ranks, hybrid over axis shard" },
    { "data_parallel_replicate_degree dp_replicate dp_replicate_size", "parallel.mesh",
      DEGREE "; parallel.data: hybrid copies over axis dp, shards over axis shard" },
    { "data_parallel_degree data_parallel_size dp dp_size device_mesh mesh_shape mesh_dim_names dp_mesh",
      "parallel.mesh", DEGREE },
    { "sequence_parallel enable_sequence_parallel sp", "parallel.sequence", "true or false, beside axis tp" },
    { "loss_parallel disable_loss_parallel enable_loss_parallel", NULL,
      NOT_NEEDED "where axis tp splits the output layer, the cross-entropy is computed on split logits" },
    { "pipeline_parallel_degree pipeline_parallel pp pp_size pipeline_model_parallel_size", "parallel.mesh",
      "{dp: auto, pp: 2}: axis pp is pipeline parallel" },
    { "pipeline_parallel_split_points pipeline_parallel_layers_per_stage", "parallel.stages",
      "how many modules each stage has, as [3, 5]" },
    { "pipeline_parallel_schedule", "parallel.schedule", "1f1b, gpipe, zero_bubble or interleaved" },
    { "num_virtual_stages_per_pipeline_rank virtual_pipeline_model_parallel_size", "parallel.chunks",
      "stages of each rank with schedule: interleaved" },
    { "pipeline_parallel_microbatch_size", "train.micro_batch", "samples of a micro-batch" },
    { "expert_parallel_degree expert_parallel ep enable_async_tensor_parallel", NULL,
      MISSING "parallel.mesh has axes that replicate, shard, split tensors or tokens, or have stages" },
    { "gradient_checkpointing use_gradient_checkpointing activation_checkpointing activation_checkpoint "
      "checkpoint_activations fsdp_activation_checkpointing recompute_granularity "
      "activation_checkpoint.mode apply_activation_checkpointing grad_checkpointing remat use_reentrant "
      "gradient_checkpointing_kwargs partition_activations activation_checkpointing_policy "
      "selective_ac_option",
      "parallel.recompute", "units or class:NAME in place of true" },
    { "cpu_offload offload_params offload_policy enable_cpu_offload fsdp_offload_params offload "
      "offload_optimizer offload_param offload_param.device offload_optimizer.device",
      "parallel.offload", "cpu in place of true" },
    { "backward_prefetch fsdp_backward_prefetch", "parallel.prefetch.backward",
      "how many units ahead, BACKWARD_PRE or BACKWARD_POST" },
    { "forward_prefetch fsdp_forward_prefetch", "parallel.prefetch.forward", "how many units ahead" },
    { "bucket_cap_mb ddp_bucket_cap_mb reduce_bucket_size allgather_bucket_size bucket_size",
      "parallel.bucket", "bytes, as 25MiB" },
    { "sync_batchnorm sync_bn convert_sync_batchnorm", "parallel.sync_batch_norm", "true or false; resnet" },
    { "num_threads torch_num_threads omp_num_threads set_num_threads", "threads",
      "of a rank; 0: cores / ranks" },
    { "accelerator use_cpu no_cuda use_gpu cuda use_cuda device_type no_accel", "device",
      "auto, the default, takes a GPU where there is one; cpu, cuda and ref are named" },
    { "no_mps mps tpu_num_cores use_ipex tpu xla ipex", NULL, MISSING "device has cpu and cuda" },
    { "max_memory gpu_memory_limit memory_fraction set_per_process_memory_fraction", "device_memory",
      "a size, as 16GiB" },
    /* compiler and kernels */
    { "compile compile.enable compile.components torch_compile torch_compile_backend torch_compile_mode "
      "torchdynamo dynamo_backend fullgraph "
      "jit_mode_eval jit_mode enable_compiled_autograd jit torchscript inductor use_compile compile_model",
      NULL, NOT_NEEDED "every step is compiled before it runs" },
    { "attn_implementation use_flash_attention flash_attention use_flash_attention_2 sdp_attention "
      "xformers_attention use_liger_kernel liger_kernel liger_kernel_config use_cache channels_last "
      "memory_format inplace "
      "gc_freq "
      "torch_empty_cache_steps empty_cache expandable_segments pytorch_cuda_alloc_conf",
      NULL, NOT_NEEDED "the compiler chooses kernels, layouts and memory before the first step" },
    { "deterministic full_determinism cudnn_benchmark cudnn_deterministic use_deterministic_algorithms "
      "benchmark cublas_workspace_config deterministic_algorithms",
      NULL, NOT_NEEDED "results are deterministic (docs/numerics.md)" },
#include "foreign_data.inc"
    /* evaluation */
    { "eval_steps eval.steps eval_interval eval_freq val_check_interval val_freq val_interval "
      "validation.freq "
      "eval_every eval_every_steps evaluation_interval",
      "eval.every_steps", "optimizer steps; eval.every_epochs counts epochs" },
    { "check_val_every_n_epoch eval.frequency eval.freq evals_per_epoch eval_strategy evaluation_strategy "
      "run_validation "
      "validation validate eval.every eval.interval validation.enable",
      "eval.every_epochs", "epochs; 0: only after the last; -1: never" },
    { "eval_accumulation_steps prediction_loss_only include_inputs_for_metrics "
      "batch_eval_metrics past_index use_legacy_prediction_loop inference_mode eval_use_gather_object",
      NULL, NOT_NEEDED "an evaluation is compiled, and counts its metrics as it runs" },
    { "eval_delay eval_on_start", NULL, MISSING "the first evaluation follows epoch eval.every_epochs" },
    { "compute_metrics metrics metric", "eval.metrics", "a list of f1, auc and perplexity" },
    { "predict_with_generate generation_max_length max_new_tokens generation_config", "eval.generate.tokens",
      "the most tokens of a text; 0: none (t5)" },
    { "generation_num_beams num_beams beam_size", "eval.generate.beams", "1: no beam search (t5)" },
    { "no_repeat_ngram_size", "eval.generate.no_repeat", "0: no limit (t5)" },
    /* checkpoints */
    { "save_steps save_interval checkpoint_interval checkpoint_every every_n_train_steps "
      "checkpoint.interval checkpoint.every checkpoint.steps checkpoint.save_steps ckpt_interval "
      "save_every steps_per_checkpoint save_every_steps",
      "checkpoint.every_steps", "optimizer steps; 0: none by steps; checkpoint.every_epochs counts epochs" },
    { "save_strategy save_freq save_every_n_epochs checkpoint.frequency checkpoint.freq checkpoint_frequency "
      "saves_per_epoch every_n_epochs checkpoint.enable "
      "checkpoint.enable_checkpoint enable_checkpointing enable_checkpoint save_every_epochs "
      "train_time_interval save_epochs",
      "checkpoint.every_epochs", "epochs; 0: only after the last; -1: none" },
    { "save_total_limit num_to_keep keep_latest_k max_to_keep keep_checkpoints max_checkpoints keep_last",
      "checkpoint.keep", "the latest ones; checkpoint.keep_best ones are kept besides" },
    { "save_top_k top_k save_best save_best_only", "checkpoint.keep_best",
      "the best ones, by checkpoint.best" },
    { "metric_for_best_model load_best_model_at_end checkpoint_score_attribute monitor best_metric "
      "checkpoint_metric",
      "checkpoint.best.metric", "train_loss, eval_loss, eval_NAME; the best is RUN/checkpoints/best" },
    { "greater_is_better checkpoint.mode checkpoint_score_order", "checkpoint.best.mode", "min or max" },
    { "async_save async_mode async_checkpoint", "checkpoint.async", "true or false" },
    { "single_file_per_rank state_dict_type fsdp_state_dict_type save_on_each_node full_state_dict",
      "checkpoint.files", "whole (a full state dict) or per_rank (a sharded one)" },
    { "max_shard_size", "checkpoint.max_file", "a size, as 5GiB" },
    { "save_model save_final_model checkpoint_dir_name save_weights_only save_only_model export export_path "
      "last_save_model_only last_save_in_hf stage3_gather_16bit_weights_on_model_save save_file model_out "
      "save_name file_save_name full_model",
      "checkpoint.export",
      "a file for the whole model, as whole.pt; checkpoints have the optimizer state too" },
    { "export_dtype save_dtype", NULL, "use `lockstep export RUN --to FILE --dtype bf16`" },
    { "offload_to_cpu save_safetensors save_optimizer checkpoint.format save_last "
      "restore_callback_states_from_checkpoint state_dict "
      "model_state_dict optimizer_state_dict optim_state_dict save_on_train_epoch_end "
      "flatten_optimizer_state_dict create_seed_checkpoint enable_first_step_checkpoint metadata_path",
      NULL, NOT_NEEDED "a checkpoint has weights (safetensors), optimizer state and place in the data" },
    { "resume_from_checkpoint auto_resume_from_checkpoints resume ckpt_path restore_from checkpoint_id "
      "resume_from resume_training reload auto_resume resume_path",
      NULL,
      "the same command continues the run of run.name from its latest checkpoint; --resume CHECKPOINT names "
      "another, and model.init begins a new run with its weights" },
    /* the run */
    { "output_dir output outdir out_dir save_dir default_root_dir dump_folder storage_path work_dir "
      "model_dir run.dir run.project "
      "dirpath checkpoint_dir ckpt_dir checkpoint.folder checkpoint.dir save_path checkpoint.path "
      "results_dir",
      "run.storage", "the folder that holds runs; this one's is run.storage/run.name" },
    { "run_name run.id run_id experiment_name job_name wandb_run_name exp_name run_config experiment",
      "run.name", "the run's folder in run.storage" },
    { "overwrite_output_dir", NULL,
      NOT_NEEDED "a run continues by itself; another run.name begins a new one" },
    { "random_seed generator manual_seed data_seed manual_seed_all sampler_seed seed_everything global_seed",
      "run.seed", "of initial weights, sample order and dropout" },
    { "logging_steps log_every_n_steps log_interval log_freq log.interval log.frequency log.freq log.steps "
      "print_freq steps_per_print logging_interval "
      "print_every log_every display_freq",
      "log.every", "steps between printed lines; metrics.jsonl has every step" },
    { "report_to tensorboard use_tensorboard enable_tensorboard logging_dir log.dir logger log_with "
      "save_tb_folder "
      "tensorboard_dir log_dir",
      "log.tensorboard", "true or false: event files in RUN/tensorboard" },
    { "wandb use_wandb enable_wandb wandb_project wandb_entity mlflow mlflow_tracking_uri project_name comet",
      NULL, MISSING "log.tensorboard, metrics.csv and `lockstep runs --html` show runs" },
    { "logging_strategy logging_first_step log_on_each_node log_level_replica track_memory "
      "skip_memory_metrics include_num_input_tokens_seen track_grad_norm log_memory enable_model_summary "
      "print_config auto_insert_metric_name save_for_all_ranks mem_alloc_tracker",
      NULL, NOT_NEEDED "metrics.jsonl has loss, rate, norm, speed and memory of every step" },
    { "disable_tqdm enable_progress_bar progress_bar_refresh_rate tqdm no_progress progress_bar", NULL,
      "use `lockstep train RECIPE --no-progress`" },
    { "log_level log.level verbose verbosity debug logging_level quiet", NULL,
      "use `lockstep train RECIPE --verbose` or --quiet" },
    { "profile profiler profile_memory record_shapes with_stack with_flops with_modules activities "
      "enable_profiling profile_freq enable_memory_snapshot wall_clock_breakdown on_trace_ready "
      "flops_profiler save_traces_folder torch_profiler use_profiler wait active repeat skip_first "
      "schedule.wait schedule.active schedule.repeat",
      NULL, USE_PROFILE },
    { "max_restarts max_retries failure.retries retries fault_tolerance failure_config",
      "failure.max_failures", "restarts from the last checkpoint; -1: no limit" },
    { "ddp_timeout ddp_timeout_seconds timeout timeout_s train_timeout_seconds distributed_timeout_minutes "
      "init_timeout_seconds "
      "nccl_timeout",
      "failure.stall_seconds", "seconds" },
    { "csv_monitor csv_logger", NULL, NOT_NEEDED "metrics.csv and metrics.jsonl are always written" },
    { "elasticity elastic", "workers", "as {min: 1, max: 4}" },
    { "autotuning autotune", NULL,
      "use `lockstep plan RECIPE --search`: layouts and micro-batches, the fastest first" },
    { "curriculum_learning data_efficiency compression_training aio aio.block_size sparse_attention "
      "progressive_layer_drop eigenvalue moe num_experts num_experts_per_tok router_aux_loss_coef",
      NULL, MISSING "docs/status.md lists what there is" },
    { "push_to_hub hub_model_id hub_token hub_strategy hub_always_push hub_revision hub_private_repo "
      "push_to_hub_model_id",
      NULL, MISSING "`lockstep export RUN --to whole.safetensors` writes a file that you can upload" },
    { "train_loop_config train_loop_per_worker training_args trainer training_arguments hparams "
      "hyperparameters callbacks plugins config_file",
      NULL, "not a key: its parts are keys of a recipe (docs/from-pytorch.md)" },
    { NULL, NULL, NULL },
};
