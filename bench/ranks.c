/* ranks.c - the training step of a tutorial over ranks of this machine, the way bench/torch_ranks.py times
 * PyTorch's: one thread a rank, or --threads. The model is the ViT of tutorial 1, or one on pictures of
 * `size`, from 100 on with three channels.
 *
 *   bench_ranks [--model vit|resnet18|resnet50|vit_b_16|convnext_tiny] [--size 28] [--ranks 2]
 *               [--data fsdp|ddp] [--gather map|copy] [--reshard true|false] [--batch 64] [--threads 1]
 *               [--dtype f32|bf16] [--steps 10] [--serve]
 *
 * Every rank has `batch` samples. Prints one JSON line: rank 0's seconds of each step, their median and
 * minimum, the GFLOP of its step and what a burst of multiply-adds reaches on its core before and after
 * (while the other ranks have theirs), and rank 0's memory. --serve answers every line "STEPS" of stdin with
 * such a line, so that bench/run.py can let programs take turns. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "lockstep/lockstep.h"
#include "device/cpu/peak_rate.h"
#include "processes.h"
#include "step/trainer.h"

typedef struct bench {
    int ranks, batch, steps, size, threads;
    const struct model *model;
    ls_dtype dtype;
    ls_parallel parallel;
    const char *gather;
    ls_group *group;
    ls_trainer *trainer;
    uint8_t *images;
    int32_t *labels;
} bench;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static ls_status step(bench *b)
{
    ls_step_result r;
    return ls_trainer_step(b->trainer, b->images, b->labels, (int64_t)b->batch * b->ranks, 1e-3, &r);
}

/* ---- models: each builds itself for pictures of the bench's size */

static int channels(const bench *b) { return b->size < 100 ? 1 : 3; }

static ls_status vit(ls_graph *g, const void *bench_, int64_t batch)
{
    (void)bench_;
    return ls_vit_build(g,
                        &(ls_vit_config){ .image_size = 28,
                                          .patch_size = 7,
                                          .in_channels = 1,
                                          .layers = 10,
                                          .heads = 2,
                                          .hidden_size = 128,
                                          .mlp_size = 128,
                                          .classes = 10,
                                          .mean = 0.5,
                                          .std = 0.5 },
                        batch);
}

static ls_status vit_b_16(ls_graph *g, const void *bench_, int64_t batch)
{
    const bench *b = bench_;
    const ls_vit_config c = { .image_size = b->size,
                              .patch_size = 16,
                              .in_channels = channels(b),
                              .layers = 12,
                              .heads = 12,
                              .hidden_size = 768,
                              .mlp_size = 3072,
                              .classes = 1000,
                              .mean = 0.5,
                              .std = 0.5 };
    return ls_vit_build(g, &c, batch);
}

static ls_status resnet(ls_graph *g, const bench *b, int64_t depth, int64_t classes, int64_t batch)
{
    return ls_resnet_build(g,
                           &(ls_resnet_config){ .depth = depth,
                                                .image_size = b->size,
                                                .in_channels = channels(b),
                                                .classes = classes,
                                                .mean = 0.5,
                                                .std = 0.5 },
                           batch);
}
static ls_status resnet18(ls_graph *g, const void *b, int64_t batch) { return resnet(g, b, 18, 10, batch); }
static ls_status resnet50(ls_graph *g, const void *b, int64_t batch) { return resnet(g, b, 50, 1000, batch); }

static ls_status convnext_tiny(ls_graph *g, const void *bench_, int64_t batch)
{
    const bench *b = bench_;
    const ls_convnext_config c = { .image_size = b->size,
                                   .in_channels = channels(b),
                                   .classes = 1000,
                                   .depths = { 3, 3, 9, 3 },
                                   .widths = { 96, 192, 384, 768 },
                                   .mean = 0.5,
                                   .std = 0.5 };
    return ls_convnext_build(g, &c, batch);
}

typedef struct model {
    const char *name;
    ls_build_fn build;
    const char *units;
} model;
static const model MODELS[] = { { "vit", vit, "class:EncoderBlock" },
                                { "resnet18", resnet18, "class:BasicBlock" },
                                { "resnet50", resnet50, "class:Bottleneck" },
                                { "vit_b_16", vit_b_16, "class:EncoderBlock" },
                                { "convnext_tiny", convnext_tiny, "class:CNBlock" } };

static const model *find(const char *name)
{
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++)
        if (!strcmp(MODELS[i].name, name))
            return &MODELS[i];
    return NULL;
}

/* ---- */

static ls_status make(bench *b)
{
    const int pixels = b->batch * (b->model == MODELS ? 784 : channels(b) * b->size * b->size);
    b->images = malloc((size_t)pixels);
    b->labels = malloc(sizeof(int32_t) * (size_t)b->batch);
    for (int i = 0; i < pixels; i++)
        b->images[i] = (uint8_t)(((unsigned)i * 2654435761u) >> 24);
    for (int i = 0; i < b->batch; i++)
        b->labels[i] = i % 10;
    LS_TRY(processes_start(&b->group, b->ranks));
    b->parallel.rank = ls_group_rank(b->group);
    b->parallel.mesh.axes[0].size = b->ranks;
    LS_TRY(ls_trainer_create(&b->trainer, b->model->build, b, .threads = b->threads, .micro_batch = b->batch,
                             .micro_batches = b->ranks, .param = b->dtype, .parallel = b->parallel,
                             .group = b->group));
    LS_TRY(ls_trainer_init(b->trainer, 0));
    for (int i = 0; i < 3; i++)
        LS_TRY(step(b));
    return LS_OK;
}

static void print(const bench *b, const double *seconds, double *sorted, double burst)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    qsort(sorted, (size_t)b->steps, sizeof *sorted, by_value);
    printf("{\"ranks\": %d, \"data\": \"%s\", \"gather\": \"%s\", \"batch\": %d, \"dtype\": \"%s\", \"isa\": "
           "\"%s\", \"seconds\": [",
           b->ranks, b->parallel.data == LS_DATA_DDP ? "ddp" : "fsdp", b->gather, b->batch,
           ls_dtype_name(b->dtype), b->trainer->compiled.device.arch->name);
    for (int i = 0; i < b->steps; i++)
        printf("%s%.6f", i ? ", " : "", seconds[i]);
    printf("], \"median\": %.6f, \"min\": %.6f, \"gflop\": %.4f, \"burst_gflops\": %.2f, \"planned_mb\": "
           "%.1f, \"peak_rss_mb\": %.1f}\n",
           sorted[b->steps / 2], sorted[0], ls_compiled_flops(&b->trainer->compiled) * 1e-9, burst * 1e-9,
           (double)ls_trainer_bytes(b->trainer) / 1048576, (double)usage.ru_maxrss / 1024);
    fflush(stdout);
}

static ls_status measure(bench *b)
{
    double *seconds = calloc((size_t)b->steps, sizeof *seconds),
           *sorted = calloc((size_t)b->steps, sizeof *sorted);
    ls_status s = ls_group_barrier(b->group);
    double burst = ls_cpu_peak_rate(b->trainer->compiled.device.arch, LS_F32, b->threads, 4);
    for (int i = 0; i < b->steps && s == LS_OK; i++) {
        double start = ls_now();
        s = step(b);
        sorted[i] = seconds[i] = ls_now() - start;
    }
    const double after = ls_cpu_peak_rate(b->trainer->compiled.device.arch, LS_F32, b->threads, 4);
    if (s == LS_OK && b->parallel.rank == 0)
        print(b, seconds, sorted, after > burst ? after : burst);
    free(seconds);
    free(sorted);
    return s;
}

/* Rank 0 reads how many steps, all make them; 0: the input has ended. */
static ls_status serve(bench *b)
{
    char line[128];
    if (b->parallel.rank == 0)
        puts("{\"ready\": true}");
    fflush(stdout);
    for (;;) {
        b->steps = 0;
        if (b->parallel.rank == 0 && fgets(line, sizeof line, stdin))
            b->steps = atoi(line);
        LS_TRY(ls_group_broadcast(b->group, &b->steps, sizeof b->steps, 0));
        if (b->steps < 1)
            return LS_OK;
        LS_TRY(measure(b));
    }
}

static bool choose(bench *b, const char *option, const char *value)
{
    if (!strcmp(option, "--model")) {
        b->model = find(value);
        b->parallel.units = b->model ? b->model->units : "";
        return b->model != NULL;
    }
    if (!strcmp(option, "--threads"))
        return (b->threads = atoi(value)) > 0;
    if (!strcmp(option, "--size"))
        return (b->size = atoi(value)) > 0;
    if (!strcmp(option, "--ranks"))
        return (b->ranks = atoi(value)) > 0;
    if (!strcmp(option, "--batch"))
        return (b->batch = atoi(value)) > 0;
    if (!strcmp(option, "--steps"))
        return (b->steps = atoi(value)) > 0;
    if (!strcmp(option, "--dtype"))
        return ls_dtype_parse(value, &b->dtype);
    if (!strcmp(option, "--data")) {
        b->parallel.data = strcmp(value, "ddp") ? LS_DATA_FSDP : LS_DATA_DDP;
        return !strcmp(value, "ddp") || !strcmp(value, "fsdp");
    }
    if (!strcmp(option, "--gather")) {
        b->gather = value;
        b->parallel.gather = strcmp(value, "copy") ? LS_GATHER_MAP : LS_GATHER_COPY;
        return !strcmp(value, "copy") || !strcmp(value, "map");
    }
    if (!strcmp(option, "--reshard")) {
        b->parallel.reshard_after_forward = strcmp(value, "false") ? -1 : 0;
        return !strcmp(value, "false") || !strcmp(value, "true");
    }
    return false;
}

int main(int argc, char **argv)
{
    bench b = { .ranks = 2,
                .batch = 64,
                .steps = 10,
                .size = 28,
                .threads = 1,
                .model = MODELS,
                .dtype = LS_F32,
                .gather = "auto",
                .parallel = { LS_PARALLEL_DEFAULTS, .units = "class:EncoderBlock" } };
    bool serving = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--serve"))
            serving = true;
        else if (i + 1 < argc && choose(&b, argv[i], argv[i + 1]))
            i++;
        else {
            fprintf(stderr, "bench_ranks: %s?\n", argv[i]);
            return 2;
        }
    }
    ls_status s = make(&b);
    if (s == LS_OK)
        s = serving ? serve(&b) : measure(&b);
    ls_trainer_destroy(&b.trainer);
    free(b.images);
    free(b.labels);
    return processes_end("bench_ranks", &b.group, s);
}
