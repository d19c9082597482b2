/* verbs.c - the table of verbs: the function of each, its options (option.h), and the texts of `lockstep
 * --help`, `lockstep VERB --help`, completion and the manual page. */
#include <math.h>
#include <string.h>
#include "cli.h"

/* clang-format off */
#define AT LS_OPTION_AT
#define LIST(...) (const char *const[]){ __VA_ARGS__, NULL }
#define NEEDS(...) .needs = LIST(__VA_ARGS__)
#define EXCLUDES(...) .excludes = LIST(__VA_ARGS__)
#define WORDS(...) .words = LIST(__VA_ARGS__)

#define END { 0 }
/* Options that several verbs have; `T` is the struct of the verb's options. */
#define FLAG(name, T, member) name, LS_OPTION_FLAG, NULL, AT(T, member)
#define BEST_HELP \
    .help = "of a run the best checkpoint; default: the latest one, after early stopping the best"
#define BASE(...) \
    { "--base", LS_OPTION_FOLDER, "FOLDER", __VA_ARGS__, \
      .help = "the weights that the checkpoint or adapter leaves out", \
      .otherwise = "where the checkpoint or adapter_config.json says" }
#define ITS_BASE BASE(.key = "checkpoint.base")
#define PAGE(T) "--html", LS_OPTION_FILE, "FILE", AT(T, html), .page = true
#define JSON(T) { FLAG("--json", T, json), .help = "the result as JSON" }
#define HOSTS(T, member) \
    { "--ranks-per-host", LS_OPTION_INT, "N", AT(T, member), NULL, 1, INFINITY, \
      .otherwise = "all on one", .help = "plan for N ranks on each host" }
#define MEASURE(T) \
    { FLAG("--measure", T, measure), .help = "first measure the kernels of this step on this machine" }
/* How texts are generated. */
#define SAMPLING \
    NEEDS("--temperature"), .why = "without it the most likely token is taken"
#define SAMPLES(T, member, ...) \
    { "--temperature", LS_OPTION_REAL, "T", AT(T, member.temperature), "0", 0, 100, __VA_ARGS__, \
      .help = "sample from softmax(logits / T); 0: greedy" }, \
    { "--top-k", LS_OPTION_INT, "K", AT(T, member.top_k), NULL, 1, INFINITY, SAMPLING, \
      .help = "sample from the K most likely tokens" }, \
    { "--top-p", LS_OPTION_REAL, "P", AT(T, member.top_p), NULL, 0, 1, .above = true, SAMPLING, \
      .help = "sample from the fewest tokens whose probabilities add up to P" }
#define BEAMS NEEDS("--beams"), .why = "without it one text is generated"
#define TEXTS(T, needed) \
    { "--tokens", LS_OPTION_INT, "N", AT(T, how.tokens), "128", 1, 1 << 24, needed, \
      .help = "generate at most N tokens" }, \
    { "--min-tokens", LS_OPTION_INT, "N", AT(T, how.least), "0", 0, 1 << 24, needed, \
      .help = "generate at least N tokens" }, \
    { "--no-repeat", LS_OPTION_INT, "N", AT(T, how.no_repeat), NULL, 1, 1 << 24, needed, \
      .help = "no sequence of N tokens occurs twice (no_repeat_ngram_size)" }, \
    { "--beams", LS_OPTION_INT, "N", AT(T, beams), "1", 1, 1024, needed, \
      EXCLUDES("--temperature"), .why = "beam search does not sample", \
      .help = "beam search with N beams; 1: none" }, \
    { "--length-penalty", LS_OPTION_REAL, "X", AT(T, how.length_penalty), "1", -100, 100, BEAMS, \
      .help = "scores are divided by length^X" }, \
    { "--early-stopping", LS_OPTION_CHOICE, NULL, AT(T, how.early_stopping), "false", \
      WORDS("false", "true", "never"), BEAMS, .help = "when the search stops" }, \
    SAMPLES(T, how.sampling, needed)
#define SEED(T) "--seed", LS_OPTION_INT, "N", AT(T, how.sampling.seed), "0", 0, INFINITY
/* --out, with every sample of the split */
#define WHOLE_SPLIT "--out *.npy *.csv *.jsonl"
#define DIRECTORY "--to *.dcp", "--format dcp"
#define PLACES(T) \
    { "--hosts", LS_OPTION_TEXT, "A:N,B:N", AT(T, hosts.list), EXCLUDES("--hostfile"), \
      .help = "start N ranks on each host, with mpirun (in a Slurm job with srun; `slurm`: all its " \
              "hosts)" }, \
    { "--hostfile", LS_OPTION_FILE, "FILE", AT(T, hosts.file), \
      .help = "the same from a file, one host per line: A:N or A slots=N" }, \
    { "--rsh", LS_OPTION_TEXT, "COMMAND", AT(T, hosts.rsh), NEEDS("--hosts", "--hostfile"), \
      .otherwise = "ssh", \
      .help = "command that runs a program on a host" }
/* as recipe keys, and as members of the struct */
#define PER_HOST "--workers-per-host"
#define PER_HOST_HELP "at most N ranks on each host; for hosts without :N exactly N"
#define CORES "--cores-per-worker"
#define CORES_HELP "bind each rank to C cores"
#define ITS_SHARE .otherwise = "its share of all"
#define RECIPE_PLACES(T) \
    PLACES(T), \
    { PER_HOST, LS_OPTION_TEXT, "N", .key = "workers_per_host", .help = PER_HOST_HELP }, \
    { CORES, LS_OPTION_TEXT, "C", .key = "cores_per_worker", ITS_SHARE, .help = CORES_HELP }
/* clang-format on */

const ls_verb LS_VERBS[] = {
    { "train", "RECIPE", 1, 1, true, "train a model",
      "Trains the model of RECIPE, which is a file or the name of a bundled recipe. The run directory\n"
      "(runs/NAME by default) gets checkpoints, metrics.jsonl with a row for every step, result.json and\n"
      "report.html. The same command continues a run that was stopped or killed, from its newest\n"
      "checkpoint and on any number of workers. A finished run continues only if train.epochs or\n"
      "train.steps is larger now.",
      "lockstep train vit-fashion-mnist                       # a bundled recipe\n"
      "lockstep train my.yaml --set train.epochs=3            # one key changed\n"
      "lockstep train my.yaml --resume runs/my/checkpoints/step-00000468 --set run.name=other   # a new run "
      "from a checkpoint\n"
      "lockstep train my.yaml --resume dcp/ --resume-at 3:120 # continue a run of PyTorch\n"
      "lockstep train vit-fashion-mnist --hosts a:4,b:4       # on two hosts, by mpirun or srun\n"
      "lockstep train vit-fashion-mnist --dry-run             # everything up to the first step\n"
      "lockstep train mlp-mnist --find-lr --html lr.html      # which learning rate to begin with\n"
      "lockstep train mlp-mnist --profile 11:20               # a Chrome trace of steps 11 to 20",
      (const ls_option_row[]){
          { "--resume", LS_OPTION_FOLDER, "CHECKPOINT", AT(ls_train_opts, resume.from), "auto",
            WORDS("auto", "never"),
            .help = "auto: continue from the newest checkpoint; never: an existing run is an error; "
                    "CHECKPOINT: continue from this one, or from a directory of "
                    "torch.distributed.checkpoint" },
          { "--resume-at", LS_OPTION_TEXT, "EPOCH:STEP", NEEDS("--resume !never"),
            .help = "the next step in a PyTorch directory, both counted from 0" },
          { "--prefix", LS_OPTION_TEXT, "PREFIX", AT(ls_train_opts, resume.prefix), NEEDS("--resume !never"),
            .help = "prefix of the names of model and optimizer in a PyTorch directory, such as app." },
          { FLAG("--allow-change", ls_train_opts, allow_change),
            .help = "continue although the recipe or the data have changed" },
          { "--until", LS_OPTION_INT, "STEP", AT(ls_train_opts, until), NULL, 1, INFINITY,
            EXCLUDES("--dry-run"), .otherwise = "the end",
            .help = "stop after this step, as on request (status 75); schedules do not change, and the same "
                    "command without it goes on" },
          { FLAG("--dry-run", ls_train_opts, dry_run),
            .help = "do everything up to the first step, write nothing" },
          { "--find-lr", LS_OPTION_TEXT, "[STEPS]", EXCLUDES("--dry-run", "--profile", "--resume"),
            .why = "it begins with the recipe's weights, tries rising learning rates, and writes no run",
            .help = "train STEPS steps (default 100) with learning rates from 1e-7 to 10, print the losses "
                    "and suggest a rate; no run is written" },
          { "--json", LS_OPTION_FLAG, NULL, AT(ls_train_opts, find_lr.json), NEEDS("--find-lr"),
            .help = "the rates and losses as JSON" },
          { "--html", LS_OPTION_FILE, "FILE", AT(ls_train_opts, find_lr.html), .page = true,
            NEEDS("--find-lr"), .why = "a training writes report.html",
            .help = "write a page with the losses over the rates" },
          { "--profile", LS_OPTION_TEXT, "[FIRST:LAST|wait=W,warmup=U,active=A,repeat=R]",
            .help = "measure these steps (default 11:20, or a torch.profiler.schedule): write a trace, a "
                    "page of memory and a page of the step to RUN/log, and print the costliest ops" },
          RECIPE_PLACES(ls_train_opts),
          END },
      ls_verb_train, LS_TASKS_ALL },
    { "sweep", "RECIPE", 1, 1, true, "train a model under several settings, and compare them",
      "Trains RECIPE once for each combination of the values that --set lists, or for --random N draws.\n"
      "A value with commas stands in brackets or quotes. LOW..HIGH is a range for --random, logarithmic\n"
      "unless :linear follows; of whole numbers, as run.seed=1..25, it is all of them without --random.\n"
      "Every run is a run directory in STORAGE/NAME-sweep, with the results that\n"
      "`lockstep train` has with these settings. sweep.html there shows the runs, the best first, and their\n"
      "values as parallel coordinates. The same command continues a sweep: finished runs are not trained\n"
      "again, others continue from their newest checkpoint. A run that fails does not stop the others.\n"
      "The runs are compared by checkpoint.best.metric.",
      "lockstep sweep my.yaml --set optimizer.lr=1e-3,3e-4,1e-4 --parallel 2\n"
      "lockstep sweep my.yaml --set 'optimizer.betas=[0.9,0.95],[0.9,0.999]' --set run.seed=0,1,2\n"
      "lockstep sweep my.yaml --random 20 --set optimizer.lr=1e-5..1e-2 --set model.dropout=0..0.5:linear\n"
      "lockstep sweep my.yaml --set optimizer.lr=1e-3,3e-4 --slurm > job.sh && sbatch --time=1:00:00 job.sh",
      (const ls_option_row[]){
          { "--random", LS_OPTION_INT, "N", AT(ls_sweep_opts, random), NULL, 1, 10000,
            .otherwise = "every combination", .help = "draw N combinations" },
          { "--seed", LS_OPTION_INT, "N", AT(ls_sweep_opts, seed), "0", 0, INFINITY, NEEDS("--random"),
            .why = "a grid draws nothing; run.seed is the seed of a run", .help = "seed of the draws" },
          { "--parallel", LS_OPTION_INT, "N", AT(ls_sweep_opts, parallel), "1", 1, 1024,
            .help = "train N runs beside each other, as far as cores and planned memory allow" },
          { "--metric", LS_OPTION_TEXT, "NAME", .key = "checkpoint.best.metric",
            .help = "compare the runs by this metric, as eval_accuracy" },
          { "--slurm", LS_OPTION_FLAG, NULL, AT(ls_sweep_opts, slurm), EXCLUDES("--json", "--task"),
            .why = "it prints the script of a job, in which each task trains one run",
            .help = "train nothing, print the script of an array job" },
          { "--task", LS_OPTION_INT, "N", AT(ls_sweep_opts, task), NULL, 0, 9999, .otherwise = "all runs",
            .help = "train only run N, counted from 0, as a task of an array job" },
          JSON(ls_sweep_opts),
          END },
      ls_verb_sweep, LS_TASKS_ALL },
    { "launch", "[--] PROGRAM [WORD...]", 1, 1, false,
      "start your own program on several ranks, watch and restart it",
      "Starts PROGRAM once for each rank and gives each rank its share of the cores, as torchrun does. The\n"
      "program joins the group with ls_group_from_environment. If a rank is killed, crashes or stalls,\n"
      "launch ends all ranks; its message names the rank and what the rank did last. With --max-failures\n"
      "it then starts all ranks again. It passes SIGTERM, SIGINT, SIGHUP and SIGUSR2 on as SIGTERM. Its\n"
      "exit status is 75 if the ranks saved and ended with status 75.",
      "lockstep launch --workers 4 ./my_program --epochs 3\n"
      "lockstep launch --workers 4 --max-failures 3 -- ./my_program   # started again after a failure\n"
      "lockstep launch --workers 1:8 -- ./my_program                  # as many ranks as there are cores\n"
      "lockstep launch --hosts a:4,b:4 --max-failures 3 ./my_program  # on two hosts, by mpirun or srun",
      (const ls_option_row[]){
          { "--workers", LS_OPTION_TEXT, "N",
            .help = "number of ranks; LEAST:MOST: as many as there are cores, chosen at each start" },
          { "--max-failures", LS_OPTION_INT, "K", AT(ls_launch_command_opts, max_failures), "0", -1, INFINITY,
            .help = "restart all ranks after a failure, at most K times; -1: no limit" },
          { "--stall-seconds", LS_OPTION_REAL, "S", AT(ls_launch_command_opts, stall_seconds), NULL, 0.001,
            1e9, .otherwise = "300", .help = "a rank that others wait for longer than S seconds has failed" },
          PLACES(ls_launch_command_opts),
          { PER_HOST, LS_OPTION_INT, "N", AT(ls_launch_command_opts, hosts.per_host), NULL, 1, INT32_MAX,
            .help = PER_HOST_HELP },
          { CORES, LS_OPTION_INT, "C", AT(ls_launch_command_opts, cores), NULL, 1, INFINITY, ITS_SHARE,
            .help = CORES_HELP },
          END },
      ls_verb_launch, LS_TASKS_ALL },
    { "eval", "RUN|CHECKPOINT|FOLDER|RECIPE", 1, 1, true, "compute loss and metrics on the evaluation split",
      "Computes the loss and the metrics of a checkpoint over the whole evaluation split. Every sample\n"
      "counts exactly once, with any number of ranks. RECIPE stands for the run that it trained. By\n"
      "default one process evaluates with all its threads. --workers N, --hosts and mpirun shard the\n"
      "weights over ranks, for a model that is too large for one process. With --generate, a T5 model\n"
      "also generates a text for each source, in one process, and ROUGE compares it with the target.\n"
      "FOLDER is a language model or an adapter in Hugging Face's layout; --set says what to read.",
      "lockstep eval runs/vit-fashion-mnist                   # the last checkpoint of a run\n"
      "lockstep eval runs/vit-fashion-mnist/checkpoints/best  # this checkpoint\n"
      "lockstep eval runs/vit-fashion-mnist --hosts a:4,b:4   # sharded over two hosts\n"
      "lockstep eval runs/t5-summarise --generate --beams 4 --length-penalty 2\n"
      "lockstep eval Qwen/Qwen2.5-0.5B --set data.eval_text=my.txt --set data.seq_length=512",
      (const ls_option_row[]){ { FLAG("--best", ls_eval_opts, model.best), BEST_HELP },
                               ITS_BASE,
                               { FLAG("--generate", ls_eval_opts, generate),
                                 .help = "generate texts and compare them with the targets (ROUGE)" },
                               TEXTS(ls_eval_opts, NEEDS("--generate")),
                               { SEED(ls_eval_opts), SAMPLING, .help = "seed of the sampled tokens" },
                               RECIPE_PLACES(ls_eval_opts),
                               JSON(ls_eval_opts),
                               END },
      ls_verb_eval, LS_TASKS_ALL },
#include "verbs_text.inc"
    { "data", "RECIPE", 1, 1, true, "show the samples that the model will see",
      "Prints the fields of a sample, the classes of the whole split, and the first samples of an epoch,\n"
      "with the random changes that data.augment draws for each. --out writes a page that also shows\n"
      "each image beside the unchanged one, or the text of the tokens. `lockstep train` with this recipe\n"
      "reads the same samples. `data` itself trains nothing and needs no run.",
      "lockstep data vit-fashion-mnist\n"
      "lockstep data my.yaml --set data.augment.flip=0.5 --epoch 3 --samples 64 --out data.html",
      (const ls_option_row[]){ { "--split", LS_OPTION_CHOICE, NULL, AT(ls_data_opts, eval_split), "train",
                                 WORDS("train", "eval"), .help = "which samples" },
                               { "--epoch", LS_OPTION_INT, "N", AT(ls_data_opts, epoch), "0", 0, INFINITY,
                                 .help = "epoch, counted from 0" },
                               { "--samples", LS_OPTION_INT, "N", AT(ls_data_opts, samples), NULL, 1,
                                 INFINITY, .otherwise = "10; with --out 48", .help = "how many samples" },
                               { "--out", LS_OPTION_FILE, "FILE", AT(ls_data_opts, out), .page = true,
                                 .help = "write a page, FILE.html" },
                               END },
      ls_verb_data, LS_TASKS_FIRST },
    { "plan", "RECIPE", 1, 1, true, "print memory, traffic and time of a step, without running it",
      "Compiles the step for any number of ranks and prints what a rank needs: memory by category and its\n"
      "peak, collectives, FLOPs, bytes and the estimated time. It starts no rank and reads no data.\n"
      "--isa and --threads plan for another machine. --compare prints several settings side by side.\n"
      "The estimated time comes from the measurements of `lockstep doctor`; --measure first measures the\n"
      "kernels of this step.",
      "lockstep plan vit-fashion-mnist --workers 4\n"
      "lockstep plan vit-fashion-mnist --workers 2 --compare parallel.reshard_after_forward=true,false "
      "--compare parallel.gather=map,copy\n"
      "lockstep plan vit-fashion-mnist --workers 4 --compare parallel.data=ddp,fsdp --html steps.html\n"
      "lockstep plan vit-fashion-mnist --workers 2 --search --memory 64MiB --measure   # the fastest "
      "layout that fits\n"
      "lockstep plan vit-fashion-mnist --workers 16 --machine h100 --simulate --html ranks.html\n"
      "lockstep plan vit-fashion-mnist --workers 16 --compare machine=a100,h100,epyc-9654\n"
      "lockstep plan vit-fashion-mnist --set train.global_batch=256 --isa avx512 --threads 16 --json",
      (const ls_option_row[]){
          { "--isa", LS_OPTION_TEXT, "LEVEL", .key = "isa", .help = "instruction set" },
          { "--threads", LS_OPTION_TEXT, "N", .key = "threads", .help = "threads of a rank" },
          { FLAG("--simulate", ls_plan_command_opts, simulate), EXCLUDES("--search", "--compare"),
            .why = "it plays the step of one layout",
            .help = "play the step on all ranks, and show where it waits" },
          { FLAG("--search", ls_plan_command_opts, search),
            .help = "list layouts and micro-batches, the fastest first; keys given with --set stay fixed" },
          { "--memory", LS_OPTION_BYTES, "SIZE", AT(ls_plan_command_opts, memory), NEEDS("--search"),
            .otherwise = "what the machine has", .help = "memory of a rank, such as 8GiB" },
          { "--machine", LS_OPTION_FILE, "FILE", AT(ls_plan_command_opts, machine), .otherwise = "this one",
            .help = "plan for this machine: a file, or h100, h100-96gb, h200, a100, epyc-9654, xeon-8480" },
          { "--network", LS_OPTION_TEXT, "LATENCY,RATE", .otherwise = "what `doctor` measured",
            .help = "network of each host, such as 20us,12.5GB/s" },
          MEASURE(ls_plan_command_opts),
          { "--compare", LS_OPTION_TEXT, "KEY=V1,V2", .repeat = true, EXCLUDES("--search", "--measure"),
            .why = "`lockstep plan RECIPE --measure` comes first, --compare then uses its times",
            .help = "one column for each value; repeat it for each combination of values" },
          { PAGE(ls_plan_command_opts), NEEDS("--compare", "--simulate"),
            .why = "`lockstep explain RECIPE --html FILE` writes the page of one layout",
            .help = "write the steps side by side, or the lanes of all ranks, as a web page" },
          HOSTS(ls_plan_command_opts, where.ranks_per_host),
          JSON(ls_plan_command_opts),
          END },
      ls_verb_plan, LS_TASKS_FIRST },
    { "explain", "RECIPE", 1, 1, true, "print the compiled step, op by op",
      "Prints the step as a rank runs it: every kernel call with its shapes, memory and cost, and every\n"
      "collective with its unit, its bytes and the kernels that it overlaps. Repeated blocks are shown\n"
      "once. With tensor parallelism each value has its placement over the ranks: Shard(d), Partial,\n"
      "Replicate or Invariant. --param follows one parameter from storage to update and prints each\n"
      "rank's local shard of it. --html draws the step over time: forward, backward and update, the\n"
      "collectives above the kernels that they overlap, and memory by category.",
      "lockstep explain vit-fashion-mnist --workers 4 --rank 1\n"
      "lockstep explain vit-fashion-mnist --workers 4 --html step.html   # a page for the browser\n"
      "lockstep explain my.yaml --html step.html --profile runs/my/log/rank-0.trace.json   # with measured "
      "times\n"
      "lockstep explain vit-fashion-mnist --param encoder.layers.encoder_layer_0.mlp.0.weight",
      (const ls_option_row[]){
          { "--rank", LS_OPTION_INT, "R", AT(ls_explain_opts, rank), "0", 0, INFINITY,
            .help = "show the step of rank R" },
          { "--param", LS_OPTION_TEXT, "NAME", AT(ls_explain_opts, param),
            .help = "show one parameter, from storage to update" },
          { FLAG("--full", ls_explain_opts, full), .help = "show repeated blocks too" },
          { PAGE(ls_explain_opts), EXCLUDES("--json", "--param", "--full"),
            .why = "the page shows the whole step", .help = "write the step as a web page" },
          { "--profile", LS_OPTION_FILE, "TRACE", AT(ls_explain_opts, profile), NEEDS("--html"),
            .help = "times that `train --profile` measured (log/rank-R.trace.json)" },
          MEASURE(ls_explain_opts),
          HOSTS(ls_explain_opts, ranks_per_host),
          JSON(ls_explain_opts),
          END },
      ls_verb_explain, LS_TASKS_FIRST },
    { "export", "RUN|CHECKPOINT", 1, 1, false, "write the weights as .safetensors, .pt, .gguf or a folder",
      "The name of the target says what it writes, with all weights:\n"
      "  FILE.safetensors, FILE.pt  one file; PyTorch reads the second with torch.load(weights_only=True)\n"
      "  FOLDER/                    config.json, model.safetensors and the tokenizer, for transformers\n"
      "  FILE.gguf                  the model with its tokenizer, for llama.cpp\n"
      "  DIRECTORY.dcp              a directory for torch.distributed.checkpoint.load\n"
      "Of a run it takes the latest checkpoint (--best: the best), whose checksums it verifies first. It\n"
      "also converts a weight file. It replaces an existing target only with --force.",
      "lockstep export runs/vit-fashion-mnist --to vit.pt\n"
      "lockstep export runs/my-llama --to my-llama/            # for transformers\n"
      "lockstep export runs/my-llama --to my-llama.gguf --type q8_0\n"
      "lockstep export runs/vit-fashion-mnist --to checkpoint.dcp --optimizer\n"
      "lockstep export runs/my-adapter --merge --to merged/ --dtype bf16\n"
      "lockstep export resnet18.pth --to resnet18.safetensors # convert a weight file",
      (const ls_option_row[]){
          { "--to", LS_OPTION_FILE, "FILE", AT(ls_export_opts, to),
            .help = "what to write: FILE.safetensors, FILE.pt, FILE.gguf, FOLDER/ or DIRECTORY.dcp" },
          { "--type", LS_OPTION_CHOICE, NULL, AT(ls_export_opts, mix), "unchanged", WORDS(LS_GGUF_MIX_WORDS),
            NEEDS("--to *.gguf"),
            .help = "type of the matrices in a GGUF file; q8_0 takes a quarter of f32, q4_k_m a seventh" },
          { "--format", LS_OPTION_CHOICE, NULL, AT(ls_export_opts, format), "auto",
            WORDS([LS_EXPORT_BY_NAME] = "auto", [LS_EXPORT_DCP] = "dcp"),
            .help = "dcp: a directory for torch.distributed.checkpoint; auto: what the name says" },
          { FLAG("--best", ls_export_opts, best), BEST_HELP },
          { "--dtype", LS_OPTION_DTYPE, "TYPE", AT(ls_export_opts, dtype), WORDS("f32", "bf16", "f16"),
            .otherwise = "unchanged", EXCLUDES("--to *.gguf"), .why = "--type says the type in a GGUF file",
            .help = "convert float weights to this type" },
          { FLAG("--optimizer", ls_export_opts, optimizer), NEEDS(DIRECTORY), .help = "also its state" },
          { FLAG("--ema", ls_export_opts, ema), EXCLUDES("--optimizer"),
            .why = "PyTorch's optimizers keep no averages",
            .help = "write the moving averages of the weights (optimizer.ema_decay)" },
          { "--ranks", LS_OPTION_INT, "N", AT(ls_export_opts, ranks), "1", 1, INT32_MAX, NEEDS(DIRECTORY),
            .help = "write N files, as N ranks of FSDP2 do" },
          { "--prefix", LS_OPTION_TEXT, "PREFIX", AT(ls_export_opts, prefix),
            .help = "of names in a PyTorch directory: only names with it are read, without it; of any other "
                    "source the directory that is written gets it: app for an AppState" },
          { "--module", LS_OPTION_TEXT, "NAME", AT(ls_export_opts, module),
            .help = "only the tensors of this module, such as encoder.layers" },
          { FLAG("--strip-prefix", ls_export_opts, strip_prefix), NEEDS("--module"), EXCLUDES("--optimizer"),
            .help = "remove the module from the names" },
          { FLAG("--merge", ls_export_opts, merge),
            .help = "of adapters (train.lora): W + alpha / rank * B A; else they become a PEFT folder" },
          BASE(AT(ls_export_opts, base)),
          { FLAG("--ignore-frozen", ls_export_opts, ignore_frozen),
            .help = "leave out parameters that train.freeze froze" },
          { FLAG("--force", ls_export_opts, force), .help = "replace an existing file, model or directory" },
          END },
      ls_verb_export, LS_TASKS_FIRST },
    { "inspect", "PATH", 1, 1, true, "show what is in a checkpoint, weight file, run or recipe",
      "Prints the tensors of a checkpoint, a weight file or a run with their types and shapes, and the\n"
      "module tree with the numbers of parameters. It executes nothing in PyTorch's files. Of a recipe it\n"
      "builds the model; with --workers it prints each rank's local shard of each tensor.",
      "lockstep inspect runs/vit-fashion-mnist/checkpoints/latest --verify\n"
      "lockstep inspect vit-fashion-mnist --workers 4 --html model.html   # a page for the browser\n"
      "lockstep inspect resnet18.pth\n"
      "lockstep inspect vit-fashion-mnist",
      (const ls_option_row[]){
          { FLAG("--best", ls_inspect_opts, model.best), EXCLUDES("--prefix"), BEST_HELP },
          { FLAG("--verify", ls_inspect_opts, verify), .help = "verify the checksums of all bytes" },
          { FLAG("--digest", ls_inspect_opts, digest), EXCLUDES("--html", "--prefix"),
            .help = "print the digest of all weights, which `lockstep verify` and metrics.jsonl also have" },
          { PAGE(ls_inspect_opts), EXCLUDES("--json"),
            .help = "write a web page: the module tree, and each rank's local shard or each file's part" },
          { "--prefix", LS_OPTION_TEXT, "PREFIX", AT(ls_inspect_opts, prefix),
            .help = "in a PyTorch directory: only names with this prefix, such as app." },
          JSON(ls_inspect_opts),
          END },
      ls_verb_inspect, LS_TASKS_FIRST },
    { "recipe", "[RECIPE]", 0, 1, true, "print all keys of a recipe, and where each value was set",
      "Prints every key of the recipe with its value and, as a comment, where the value was set: in which\n"
      "line of a file, on the command line, or as a default. Without RECIPE it lists the bundled recipes.",
      "lockstep recipe                                        # bundled recipes\n"
      "lockstep recipe vit-fashion-mnist > my.yaml            # copy it and change it\n"
      "lockstep recipe --reference                            # every key (docs/recipe.md)\n"
      "lockstep recipe --reference ./model.so                 # those of a model of your own",
      (const ls_option_row[]){
          { "--reference", LS_OPTION_FLAG,
            .help = "print every key with type, default and meaning, as Markdown; with a model (vit, mlp, "
                    "and so on) or "
                    "a module's shared object in place of RECIPE, its keys" },
          { "--source", LS_OPTION_FLAG, .help = "print a bundled recipe as it was written" },
          END },
      ls_verb_recipe, LS_TASKS_FIRST },
    { "runs", "[STORAGE]", 0, 1, false, "list runs and their states, or the metrics of one",
      "Lists the runs in STORAGE (default: runs) with state, last step and loss, metrics of the last\n"
      "evaluation, restarts and newest checkpoint. --html writes a page with the curves of all runs in\n"
      "one chart and a table of the recipe keys in which they differ. --metrics prints the epochs or the\n"
      "steps of one run, finished or running. A step that a restart repeated appears once, as the later\n"
      "attempt computed it.",
      "lockstep runs\n"
      "lockstep runs results --json\n"
      "lockstep runs --html runs.html                         # compare runs in a browser\n"
      "lockstep runs --metrics vit-fashion-mnist              # the epochs as a table\n"
      "lockstep runs --metrics vit-fashion-mnist --steps --csv > steps.csv",
      (const ls_option_row[]){
          { "--metrics", LS_OPTION_FOLDER, "RUN", AT(ls_runs_opts, metrics), EXCLUDES("--html"),
            .why = "each run has a report.html",
            .help = "print the epochs of this run: its folder, or its name in STORAGE" },
          { FLAG("--steps", ls_runs_opts, steps), NEEDS("--metrics"),
            .help = "print steps instead of epochs" },
          { FLAG("--csv", ls_runs_opts, csv), NEEDS("--metrics"), EXCLUDES("--json"),
            .help = "comma-separated values" },
          { PAGE(ls_runs_opts), EXCLUDES("--json"),
            .help = "write a page: all runs, their curves, the keys in which they differ" },
          JSON(ls_runs_opts),
          END },
      ls_verb_runs, LS_TASKS_FIRST },
    { "verify", "RUN", 1, 1, true, "train steps of a run again, and compare the bits",
      "Trains steps of RUN again, from one of its checkpoints or from the beginning, and compares every\n"
      "loss, every metric, and the digests of weights and optimizer at each checkpoint. It needs RUN's\n"
      "recipe.yaml, metrics.jsonl and the checkpoint, and the data. RUN is only read. The number of ranks\n"
      "may be another one where it does not change the bits (docs/ranks.md). Status 1: something differs,\n"
      "or training the steps again failed.",
      "lockstep verify runs/vit-fashion-mnist                 # from the oldest checkpoint that is left\n"
      "lockstep verify runs/vit-fashion-mnist --from 0        # from the beginning\n"
      "lockstep verify runs/my --from 468 --to 936 --workers 4\n"
      "lockstep verify runs/my --hosts slurm --storage runs   # in a Slurm job, over all its hosts",
      (const ls_option_row[]){ { "--from", LS_OPTION_INT, "STEP", AT(ls_verify_opts, from), NULL, 0, INFINITY,
                                 .otherwise = "that of the oldest checkpoint",
                                 .help = "begin behind this step, which has a "
                                         "checkpoint; 0: at the beginning" },
                               { "--to", LS_OPTION_INT, "STEP", AT(ls_verify_opts, to), NULL, 1, INFINITY,
                                 .otherwise = "the last checkpoint",
                                 .help = "end with this step, of which a checkpoint was saved" },
                               { "--storage", LS_OPTION_FOLDER, "DIR", AT(ls_verify_opts, storage),
                                 .otherwise = "TMPDIR or /tmp",
                                 .help = "train in a new folder in DIR; with --hosts all hosts see it" },
                               RECIPE_PLACES(ls_verify_opts),
                               JSON(ls_verify_opts),
                               END },
      ls_verb_verify, LS_TASKS_ALL },
    { "watch", "[RUN]", 0, 1, false, "follow a run on the terminal while it trains",
      "Shows the loss curves, speed, time left, the last evaluation, the ranks with their memory and\n"
      "waits, checkpoints, restarts and warnings, and draws them again every second. RUN is the folder of\n"
      "a run, its name in runs/, or a folder of runs; by default it is the run in runs/ that wrote last.\n"
      "watch only reads files, so the run may train on another host that shares the file system. Key q\n"
      "quits, key l switches to a logarithmic loss. Without a terminal it prints the numbers once.",
      "lockstep watch\n"
      "lockstep watch vit-fashion-mnist\n"
      "lockstep watch vit-fashion-mnist --once > now.txt",
      (const ls_option_row[]){
          { "--once", LS_OPTION_FLAG, .help = "print the numbers once, without charts, and exit" }, END },
      ls_verb_watch, LS_TASKS_FIRST },
    { "new", "DIR", 1, 1, false, "make a project with a model of your own",
      "Writes a folder with a model in C, the data that it makes, a Makefile, a recipe and a README. It\n"
      "trains in seconds. Replace its layers, its loss and its samples with your own.",
      "lockstep new mine && cd mine && make && lockstep train recipe.yaml", NULL,
      ls_verb_new, LS_TASKS_FIRST },
    { "get", "NAME [FILE...]", 1, LS_MAX_ARGS, false, "download a model or a data set from Hugging Face",
      "Downloads the configuration, the tokenizer and the weights of the model OWNER/NAME, or all files of\n"
      "datasets/OWNER/NAME, as in the addresses of huggingface.co. FILE, which may contain * and ?, names\n"
      "other files. Every file is compared with its checksum. An interrupted download continues where it\n"
      "stopped. The files go to Hugging Face's cache (HF_HOME), where recipes find them under NAME, or to\n"
      "the folder of --to. A private or gated repository needs a token in HF_TOKEN.",
      "lockstep get Qwen/Qwen2.5-0.5B                         # then: model.init: Qwen/Qwen2.5-0.5B\n"
      "lockstep get google-t5/t5-small tokenizer.json spiece.model --to t5-small\n"
      "lockstep get datasets/OWNER/NAME --list                # list the files\n"
      "lockstep get OWNER/NAME --mirror https://mirror.example.org",
      (const ls_option_row[]){
          { "--to", LS_OPTION_FOLDER, "DIR", AT(ls_get_opts, to),
            .help = "put the files into this folder instead of the cache" },
          { "--revision", LS_OPTION_TEXT, "NAME", AT(ls_get_opts, revision), .otherwise = "main",
            .help = "branch, tag or commit" },
          { "--mirror", LS_OPTION_TEXT, "URL", AT(ls_get_opts, mirror),
            .otherwise = "HF_ENDPOINT, else https://huggingface.co", .help = "another server" },
          { FLAG("--list", ls_get_opts, list), .help = "list the files, download nothing" },
          JSON(ls_get_opts),
          END },
      ls_verb_get, LS_TASKS_FIRST_OF_HOST },
    { "doctor", "", 0, 0, false, "show what this machine offers and what is missing",
      "Prints CPU features, cores, memory, limits, the optional parts of this build, libraries and data\n"
      "sets. It measures kernels and collectives and stores the results for `plan`, unless two threads\n"
      "are no faster than one, because other programs use the cores. When mpirun or srun starts it, it\n"
      "measures the collectives among these ranks, and the network if they run on several hosts. With\n"
      "--quiet it prints problems only.",
      "lockstep doctor\n"
      "lockstep doctor --no-measure --quiet --need mpi,hdf5   # for scripts: status 1 if one is missing\n"
      "mpirun --host a,b lockstep doctor        # the network between two hosts\n"
      "mpirun --host a:4,b:4 --bind-to none lockstep doctor --write-machine cluster.yaml",
      (const ls_option_row[]){
          { "--no-measure", LS_OPTION_FLAG, .help = "measure nothing" },
          { "--write-machine", LS_OPTION_FILE, "FILE", EXCLUDES("--no-measure"),
            .why = "the file has what is measured",
            .help = "write this machine as a file for `plan --machine`" },
          { "--need", LS_OPTION_TEXT, "PART,..",
            .help = "fail unless these parts can be used, such as mpi,hdf5 (Parts lists all)" },
          { "--json", LS_OPTION_FLAG, .help = "the result as JSON" },
          END },
      ls_verb_doctor, LS_TASKS_ALL },
    END
};

const ls_verb *ls_verb_find(const char *name)
{
    for (const ls_verb *v = LS_VERBS; v->name; v++)
        if (!strcmp(v->name, name))
            return v;
    return NULL;
}
