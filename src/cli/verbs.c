/* verbs.c - the table of verbs: the function of each, and the texts of `lockstep --help`, `lockstep VERB
 * --help`, completion and the manual page. */
#include <string.h>
#include "cli.h"

#define END { 0 }
#define JSON { "--json", 0, NULL, "the result as JSON" }
#define HOSTS { "--ranks-per-host", 0, "N", "ranks of each host (default: all on one)" }
/* How texts are made. */
#define TEXTS                                                                                               \
    { "--tokens", 0, "N", "the most tokens to make (default 128)" },                                        \
        { "--min-tokens", 0, "N", "the fewest tokens before the text may end (default 0)" },                \
        { "--no-repeat", 0, "N", "never the same N tokens in a row twice (no_repeat_ngram_size)" },         \
        { "--beams", 0, "N", "search with N beams (default 1: none)" },                                     \
        { "--length-penalty", 0, "X", "with beams: divide scores by length^X (default 1)" },                \
        { "--early-stopping", 0, "false|true|never", "with beams: when the search stops (default false)" }, \
        { "--temperature", 0, "T",                                                                          \
          "choose tokens at random, from softmax(logits / T) (default 0: the most likely)" },               \
        { "--top-k", 0, "K", "choose from the K most likely tokens only" },                                 \
        { "--top-p", 0, "P", "choose from the fewest tokens that together have probability P only" },       \
    {                                                                                                       \
        "--seed", 0, "N", "seed of the random choices (default 0)"                                          \
    }
#define PLACES                                                                                               \
    { "--hosts", 0, "A:N,B:N",                                                                               \
      "ranks on these hosts, N on each, by mpirun (in a Slurm job by srun; `slurm`: all its hosts)" },       \
        { "--hostfile", 0, "FILE", "the same from a file, a line a host: A:N or A slots=N" },                \
        { "--workers-per-host", 0, "N", "the most ranks of a host; the N of --hosts that does not say it" }, \
        { "--cores-per-worker", 0, "C", "cores that each rank is bound to (default: its share of all)" },    \
    {                                                                                                        \
        "--rsh", 0, "COMMAND", "what runs a command on a host: COMMAND HOST WORDS (default ssh)"             \
    }

const ls_verb LS_VERBS[] = {
    { "train", "RECIPE", 1, 1, true, "train a model",
      "Trains the model of RECIPE, a file or the name of a bundled recipe. The run directory\n"
      "storage/name gets metrics.jsonl with a row for every step, result.json, checkpoints and\n"
      "report.html. A run that was stopped or killed continues from its newest checkpoint when it is\n"
      "started again, on any number of workers. A finished run does nothing, unless train.epochs or\n"
      "train.steps is larger now.",
      "lockstep train vit-fashion-mnist                       # a bundled recipe\n"
      "lockstep train my.yaml --set train.epochs=3            # one key changed\n"
      "lockstep train my.yaml --resume runs/my/checkpoints/step-00000468 --set run.name=other   # from "
      "there, as another run\n"
      "lockstep train my.yaml --resume dcp-of-pytorch --resume-at 3:120   # what PyTorch has begun\n"
      "lockstep train vit-fashion-mnist --hosts a:4,b:4       # on two hosts, by mpirun or srun\n"
      "lockstep train vit-fashion-mnist --dry-run             # everything up to the first step\n"
      "lockstep train mlp-mnist --profile 11:20               # a Chrome trace of steps 11 to 20",
      (const ls_option[]){
          { "--resume", 0, "auto|never|CHECKPOINT",
            "where to continue; auto: newest checkpoint; never: an existing run is an error; or a directory "
            "with model and optimizer of torch.distributed.checkpoint (default auto)" },
          { "--resume-at", 0, "EPOCH:STEP", "with a directory of PyTorch: the next step" },
          { "--prefix", 0, "PREFIX",
            "with a directory of PyTorch: how names of model and optimizer begin, as app." },
          { "--allow-change", 0, NULL, "continue although keys that decide the result have changed" },
          { "--dry-run", 0, NULL, "everything up to the first step, nothing written" },
          { "--profile", 0, "[FIRST:LAST|wait=W,warmup=U,active=A,repeat=R]",
            "write a trace and a page of memory of these steps, and print the costliest ops (default 11:20); "
            "or as torch.profiler.schedule: of each repetition, to the end without repeat" },
          PLACES,
          END },
      ls_verb_train },
    { "launch", "[--] PROGRAM [WORD...]", 1, 1, false,
      "ranks of a program of your own, watched and restarted",
      "Starts PROGRAM several times, as the ranks of one group, each with its share of the cores. The\n"
      "program calls ls_group_from_environment. If a rank is killed, crashes or stalls, the message\n"
      "names it and what it did last, and all ranks end. With --max-failures they are started again.\n"
      "SIGTERM and SIGINT are passed on as SIGTERM. The exit status is 75 if ranks save and end with\n"
      "status 75.",
      "lockstep launch --workers 4 ./my_program --epochs 3\n"
      "lockstep launch --workers 4 --max-failures 3 -- ./my_program   # started again after a failure\n"
      "lockstep launch --workers 1:8 -- ./my_program                  # as many ranks as there are cores\n"
      "lockstep launch --hosts a:4,b:4 --max-failures 3 ./my_program  # on two hosts, by mpirun or srun",
      (const ls_option[]){
          { "--workers", 0, "N",
            "ranks; LEAST:MOST: as many as there are cores, chosen again at each restart" },
          { "--max-failures", 0, "K",
            "start all ranks again after up to K failures (default 0; -1: no limit)" },
          { "--stall-seconds", 0, "S", "a rank that others wait for so long has failed (default 300)" },
          PLACES,
          END },
      ls_verb_launch },
    { "eval", "RUN|CHECKPOINT|RECIPE", 1, 1, true, "loss and metrics on the evaluation split",
      "Counts every sample exactly once, with any number of ranks. A recipe stands for its run. One\n"
      "process evaluates with all its threads. With --workers N, --hosts or mpirun the weights are\n"
      "sharded over ranks, for a model that is too large for one. With --generate a T5 also writes a\n"
      "text for each source, in one process, and ROUGE compares the texts with the targets.",
      "lockstep eval runs/vit-fashion-mnist                   # the last checkpoint of a run\n"
      "lockstep eval runs/vit-fashion-mnist/checkpoints/best  # this checkpoint\n"
      "lockstep eval runs/vit-fashion-mnist --hosts a:4,b:4   # sharded over two hosts\n"
      "lockstep eval runs/t5-summarise --generate --beams 4 --length-penalty 2",
      (const ls_option[]){ { "--generate", 0, NULL, "make texts, and compare them with the targets (ROUGE)" },
                           TEXTS,
                           PLACES,
                           JSON,
                           END },
      ls_verb_eval },
    { "predict", "RUN|CHECKPOINT [IMAGE...]", 1, LS_MAX_ARGS, true,
      "predictions for samples or images; text after a prompt",
      "Without IMAGE files (PGM, PPM, PNG) it takes samples of the evaluation split. It prints a table.\n"
      "--out also draws a picture, --show prints small images on the terminal. With --prompt a language\n"
      "model continues the text, and a T5 writes the target of the text: with the most likely token each\n"
      "time, with --beams, or with --temperature at random, reproducibly for a given --seed. Then the\n"
      "first word may also be a Hugging Face folder with a llama, qwen2 or t5. With --out FILE.npy,\n"
      "FILE.csv or FILE.jsonl it writes an output of the model for every sample of the split, in its\n"
      "order; a T5 writes texts, to FILE.jsonl.",
      "lockstep predict runs/vit-fashion-mnist --count 24 --out predictions.svg\n"
      "lockstep predict runs/vit-fashion-mnist shoe.png --resize\n"
      "lockstep predict runs/vit-fashion-mnist --out logits.npy --output logits\n"
      "lockstep predict runs/llama-shakespeare --prompt \"My lord,\" --tokens 200 --temperature 0.8 --top-k "
      "40\n"
      "lockstep predict runs/t5-summarise --prompt \"A long story\" --beams 4\n"
      "lockstep predict runs/t5-summarise --out summaries.jsonl",
      (const ls_option[]){
          { "--split", 0, "eval|train", "which samples (default eval)" },
          { "--first", 0, "N", "number of the first sample (default 0)" },
          { "--count", 0, "N", "how many (default 10; with --out FILE.npy, .csv, .jsonl all)" },
          { "--resize", 0, NULL, "scale image files to the model's size" },
          { "--out", 0, "FILE",
            "a picture: .svg, .png; every prediction: .npy, .csv, .jsonl; texts: .jsonl" },
          { "--output", 0, "NAME,..",
            "outputs for --out FILE.npy, .csv, .jsonl (default all of the model's; "
            "a classifier's probability)" },
          { "--show", 0, NULL, "the images on the terminal, too, each with its label and prediction" },
          { "--prompt", 0, "TEXT", "text for a language model to continue, or for a T5 to read" },
          TEXTS,
          JSON,
          END },
      ls_verb_predict },
    { "plan", "RECIPE", 1, 1, true, "memory, cost and time of a step, without running it",
      "Prints what the compiled step needs, for any number of ranks: memory by category and the moment\n"
      "of its peak, collectives, FLOPs, bytes, estimated time. It starts no rank and reads no data.\n"
      "With --isa and --threads it plans for another machine. --compare prints several settings side by\n"
      "side. The estimate of time uses the measurement of `lockstep doctor`, or with --measure of this\n"
      "very step's kernels.",
      "lockstep plan vit-fashion-mnist --workers 4\n"
      "lockstep plan vit-fashion-mnist --workers 2 --compare parallel.reshard_after_forward=true,false "
      "--compare parallel.gather=map,copy\n"
      "lockstep plan vit-fashion-mnist --workers 2 --search --memory 64MiB --measure   # the fastest that "
      "fits\n"
      "lockstep plan vit-fashion-mnist --set train.global_batch=256 --isa avx512 --threads 16 --json",
      (const ls_option[]){
          { "--isa", 0, "LEVEL", "instruction set: generic, avx2, avx512, avx512bf16, amx" },
          { "--threads", 0, "N", "threads of a rank" },
          { "--search", 0, NULL, "rank layouts and micro-batches by time; keys that --set names stay" },
          { "--memory", 0, "SIZE", "with --search: what a rank may use, as 8GiB" },
          { "--network", 0, "LATENCY,RATE",
            "of each host, as 20us,12.5GB/s (default: as `doctor` measured it over hosts)" },
          { "--measure", 0, NULL, "first run the kernels of this step that were not measured here yet" },
          { "--compare", 0, "KEY=V1,V2", "one column for each value; repeated: for each combination" },
          HOSTS,
          JSON,
          END },
      ls_verb_plan },
    { "explain", "RECIPE", 1, 1, true, "the compiled step, op by op",
      "Prints the step as a rank runs it: every kernel call with shapes, memory and cost, every\n"
      "collective with its unit, its bytes and what it overlaps. Repeated blocks are shown once. If an\n"
      "axis splits layers, each value has its placement over the ranks: Shard(d), Partial, Replicate or\n"
      "Invariant. --param prints the life of one parameter, from storage to update, and the rank that\n"
      "holds each part of it.",
      "lockstep explain vit-fashion-mnist --workers 4 --rank 1\n"
      "lockstep explain vit-fashion-mnist --param encoder.layers.encoder_layer_0.mlp.0.weight",
      (const ls_option[]){ { "--rank", 0, "R", "as this rank runs it (default 0)" },
                           { "--param", 0, "NAME", "only what happens to one parameter" },
                           { "--full", 0, NULL, "every block, also those that equal the one before" },
                           HOSTS,
                           JSON,
                           END },
      ls_verb_explain },
    { "export", "RUN|CHECKPOINT", 1, 1, false,
      "weights for others: a .safetensors or .pt file, or a DCP directory",
      "Writes all weights, with PyTorch's names, to one file: safetensors, or a state dict for\n"
      "torch.load(FILE, weights_only=True). If the name ends in /, it writes a directory for\n"
      "torch.distributed.checkpoint.load. Of a run it takes the latest checkpoint, and compares every\n"
      "byte with the checksums first. A weight file may be given in place of a run. An existing file or\n"
      "directory is replaced only with --force.",
      "lockstep export runs/vit-fashion-mnist --to vit.pt\n"
      "lockstep export runs/vit-fashion-mnist/checkpoints/best --to vit.safetensors --dtype bf16\n"
      "lockstep export runs/vit-fashion-mnist --to checkpoint/ --optimizer\n"
      "lockstep export resnet18.pth --to resnet18.safetensors # another program's weights",
      (const ls_option[]){
          { "--to", 0, "FILE", "what to write: its name ends in .safetensors or .pt, a directory's in /" },
          { "--dtype", 0, "TYPE", "float weights as f32, bf16 or f16 (default: as they are)" },
          { "--optimizer", 0, NULL, "into a directory: the optimizer's state, too" },
          { "--ranks", 0, "N",
            "into a directory: N files, as N ranks would have written it, each with its rows of every tensor "
            "(default 1)" },
          { "--prefix", 0, "PREFIX",
            "from a directory of PyTorch's: the model whose names begin so, as app.; without it" },
          { "--module", 0, "NAME", "only the tensors of this module, as encoder.layers" },
          { "--strip-prefix", 0, NULL, "with --module: names without it" },
          { "--ignore-frozen", 0, NULL, "without what train.freeze kept as it was" },
          { "--force", 0, NULL, "replace an existing file or DCP directory" },
          END },
      ls_verb_export },
    { "inspect", "PATH", 1, 1, true, "what is in a checkpoint, weight file, run or recipe",
      "Prints tensors with types, shapes and where they are, and the module tree with counts. Nothing\n"
      "in PyTorch's files is executed. Of a recipe it builds the model; with --workers it prints the\n"
      "rank that holds each part.",
      "lockstep inspect runs/vit-fashion-mnist/checkpoints/latest --verify\n"
      "lockstep inspect resnet18.pth\n"
      "lockstep inspect vit-fashion-mnist",
      (const ls_option[]){
          { "--verify", 0, NULL, "compare every byte with the checksums" },
          { "--prefix", 0, "PREFIX", "in a directory of PyTorch's: the model whose names begin so, as app." },
          JSON,
          END },
      ls_verb_inspect },
    { "recipe", "[RECIPE]", 0, 1, true, "a recipe with where each value came from",
      "Prints the resolved recipe: every key with its value and, as a comment, where it was set.\n"
      "Without RECIPE it lists the bundled recipes.",
      "lockstep recipe                                        # bundled recipes\n"
      "lockstep recipe vit-fashion-mnist > my.yaml            # a start for your own\n"
      "lockstep recipe --reference                            # every key (docs/recipe.md)",
      (const ls_option[]){
          { "--reference", 0, NULL, "every key with type, default and meaning, as Markdown" },
          { "--source", 0, NULL, "the text of a bundled recipe as it was written" },
          END },
      ls_verb_recipe },
    { "runs", "[STORAGE]", 0, 1, false, "the runs and their states, or the metrics of one",
      "Lists the runs in STORAGE (default: runs): state, last step and loss, last evaluation, restarts,\n"
      "newest checkpoint. --metrics prints the epochs or the steps of one run, which may be running.\n"
      "Steps that were repeated after a restart appear once, as the later attempt computed them.",
      "lockstep runs\n"
      "lockstep runs results --json\n"
      "lockstep runs --metrics vit-fashion-mnist              # the epochs as a table\n"
      "lockstep runs --metrics vit-fashion-mnist --steps --csv > steps.csv",
      (const ls_option[]){
          { "--metrics", 0, "RUN", "the epochs of this run: its folder, or its name in STORAGE" },
          { "--steps", 0, NULL, "with --metrics: the steps instead" },
          { "--csv", 0, NULL, "with --metrics: comma-separated values" },
          JSON,
          END },
      ls_verb_runs },
    { "get", "NAME [FILE...]", 1, LS_MAX_ARGS, false, "download a model or a data set from Hugging Face",
      "NAME is OWNER/NAME for a model and datasets/OWNER/NAME for a data set, as in the addresses of "
      "huggingface.co. Of a model it loads the\n"
      "configuration, the tokenizer and the weights, of a data set all files; FILE, also with * and ?, names "
      "others. Each file is compared with its\n"
      "checksum, and an interrupted download goes on where it stopped. The files go into Hugging Face's "
      "cache "
      "(HF_HOME), where recipes find them under\n"
      "NAME, or into the folder of --to. A private or gated repository needs a token in HF_TOKEN.",
      "lockstep get Qwen/Qwen2.5-0.5B                         # then: model.init: Qwen/Qwen2.5-0.5B\n"
      "lockstep get google-t5/t5-small tokenizer.json spiece.model --to t5-small\n"
      "lockstep get datasets/OWNER/NAME --list                # what there is\n"
      "lockstep get OWNER/NAME --mirror https://mirror.example.org",
      (const ls_option[]){
          { "--to", 0, "DIR", "put the files into this folder, not into the cache" },
          { "--revision", 0, "NAME", "a branch, a tag or a commit (default main)" },
          { "--mirror", 0, "URL", "another server (default: HF_ENDPOINT, else https://huggingface.co)" },
          { "--list", 0, NULL, "only show the files" },
          JSON,
          END },
      ls_verb_get },
    { "doctor", "", 0, 0, false, "what this machine offers and what is missing",
      "Prints CPU features, cores, memory, limits, libraries and data sets. Measures kernels and\n"
      "collectives, and stores the result for `plan`. Under a launcher it measures collectives among\n"
      "the ranks that were started, over hosts the network too.",
      "lockstep doctor\n"
      "mpirun --host a,b lockstep doctor        # the network between two hosts",
      (const ls_option[]){ { "--no-measure", 0, NULL, "leave the measurement out" }, END }, ls_verb_doctor },
    END
};

const ls_verb *ls_verb_find(const char *name)
{
    for (const ls_verb *v = LS_VERBS; v->name; v++)
        if (!strcmp(v->name, name))
            return v;
    return NULL;
}

ls_status ls_verb_unknown(const char *name)
{
    const char *names[32];
    int n = 0;
    for (const ls_verb *v = LS_VERBS; v->name; v++)
        names[n++] = v->name;
    const char *near = ls_nearest_name(name, names, n);
    if (near)
        return ls_fail(LS_E_USAGE, "there is no `lockstep %s`; did you mean `lockstep %s`?", name, near);
    return ls_fail(LS_E_USAGE, "there is no `lockstep %s` (lockstep --help lists the verbs)", name);
}
