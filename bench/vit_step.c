/* vit_step.c - the training step of tutorial 1's ViT, the way bench/peer.py times PyTorch's: same
 * shapes, same data flow, Adam.
 *
 *   bench_vit_step [--threads 1] [--batch 64] [--steps 10] [--dtype f32|bf16|f16] [--recompute] [--serve]
 *
 * Prints one JSON line: seconds of each step, their median and minimum, the rate of a burst of multiply-adds
 * timed between the steps (clocks drift), the share of it that the model's own 6.6 GFLOP per 64 images make,
 * and this process's peak resident memory. --serve answers every line "STEPS [THREADS]" of stdin with such a
 * line, so that bench/run.py can let two programs take turns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "base/str.h"
#include "lockstep/lockstep.h"
#include "device/cpu/peak_rate.h"
#include "step/trainer.h"

typedef struct bench {
    int threads, batch, steps;
    ls_dtype dtype;
    const char *recompute;
    ls_trainer *trainer;
    uint8_t *images;
    int32_t *labels;
} bench;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static ls_status make(bench *b)
{
    static const ls_vit_config vit = { .image_size = 28,
                                       .patch_size = 7,
                                       .in_channels = 1,
                                       .layers = 10,
                                       .heads = 2,
                                       .hidden_size = 128,
                                       .mlp_size = 128,
                                       .classes = 10,
                                       .mean = 0.5,
                                       .std = 0.5 };
    ls_trainer_destroy(&b->trainer);
    LS_TRY(ls_trainer_create(&b->trainer, (ls_build_fn)(void (*)(void))ls_vit_build, &vit,
                             .threads = b->threads, .micro_batch = b->batch, .param = b->dtype,
                             .recompute = b->recompute));
    LS_TRY(ls_trainer_init(b->trainer, 0));
    ls_step_result r;
    for (int i = 0; i < 3; i++)
        LS_TRY(ls_trainer_step(b->trainer, b->images, b->labels, b->batch, 1e-3, &r));
    return LS_OK;
}

static ls_status measure(bench *b)
{
    double *seconds = calloc((size_t)b->steps, sizeof *seconds),
           *sorted = calloc((size_t)b->steps, sizeof *sorted), burst = 0;
    ls_step_result r;
    ls_status s = LS_OK;
    for (int i = 0; i < b->steps && s == LS_OK; i++) {
        double rate = ls_cpu_peak_rate(b->trainer->compiled.device.arch, LS_F32, b->threads, 1);
        burst = rate > burst ? rate : burst;
        double start = ls_now();
        s = ls_trainer_step(b->trainer, b->images, b->labels, b->batch, 1e-3, &r);
        sorted[i] = seconds[i] = ls_now() - start;
    }
    LS_TRY(s);
    qsort(sorted, (size_t)b->steps, sizeof *sorted, by_value);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double flops = 6.6e9 / 64 * b->batch, median = sorted[b->steps / 2];
    printf("{\"threads\": %d, \"batch\": %d, \"dtype\": \"%s\", \"isa\": \"%s\", \"seconds\": [", b->threads,
           b->batch, ls_dtype_name(b->dtype), b->trainer->compiled.device.arch->name);
    for (int i = 0; i < b->steps; i++)
        printf("%s%.6f", i ? ", " : "", seconds[i]);
    printf("], \"median\": %.6f, \"min\": %.6f, \"burst_gflops\": %.1f, \"share_of_burst\": %.3f, "
           "\"planned_mb\": %.1f, \"peak_rss_mb\": %.1f}\n",
           median, sorted[0], 1e-9 * burst, flops / median / burst,
           (double)ls_trainer_bytes(b->trainer) / 1048576, (double)usage.ru_maxrss / 1024);
    fflush(stdout);
    free(seconds);
    free(sorted);
    return LS_OK;
}

static ls_status serve(bench *b)
{
    char line[128];
    puts("{\"ready\": true}");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        int steps = 0, threads = b->threads;
        if (sscanf(line, "%d %d", &steps, &threads) < 1 || steps < 1)
            continue;
        b->steps = steps;
        if (threads != b->threads) {
            b->threads = threads;
            LS_TRY(make(b));
        }
        LS_TRY(measure(b));
    }
    return LS_OK;
}

static ls_status run(bench *b, bool serving)
{
    b->images = malloc((size_t)b->batch * 28 * 28);
    b->labels = malloc(sizeof(int32_t) * (size_t)b->batch);
    for (int i = 0; i < b->batch * 784; i++)
        b->images[i] = (uint8_t)(((unsigned)i * 2654435761u) >> 24);
    for (int i = 0; i < b->batch; i++)
        b->labels[i] = i % 10;
    LS_TRY(make(b));
    return serving ? serve(b) : measure(b);
}

int main(int argc, char **argv)
{
    bench b = { .threads = 1, .batch = 64, .steps = 10, .dtype = LS_F32 };
    bool serving = false;
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--serve"))
            serving = true;
        else if (!strcmp(argv[i], "--recompute"))
            b.recompute = "class:EncoderBlock";
        else if (!strcmp(argv[i], "--threads") && ++i)
            b.threads = atoi(next);
        else if (!strcmp(argv[i], "--batch") && ++i)
            b.batch = atoi(next);
        else if (!strcmp(argv[i], "--steps") && ++i)
            b.steps = atoi(next);
        else if (!strcmp(argv[i], "--dtype") && ls_dtype_parse(next, &b.dtype))
            i++;
        else {
            fprintf(stderr, "bench_vit_step: %s?\n", argv[i]);
            return 2;
        }
    }
    if (b.threads < 1 || b.batch < 1 || b.steps < 1 || run(&b, serving) != LS_OK) {
        fprintf(stderr, "bench_vit_step: %s\n", ls_error_message());
        return 1;
    }
    ls_trainer_destroy(&b.trainer);
    free(b.images);
    free(b.labels);
    return 0;
}
