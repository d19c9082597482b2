/* checkpoint.c - saving and loading a model with Adam's moments (1.2 GB) over ranks of this machine, as
 * training does it: bench/torch_checkpoint.py times PyTorch's.
 *
 *   bench_checkpoint FOLDER [--ranks 2] [--layers 14] [--rounds 3] [--serve]
 *
 * The model is a vision transformer of width 768, fully sharded; nothing is computed. A round saves a new
 * checkpoint, loads it with all checksums compared, and saves it once more as checkpoint.async does. Prints
 * one JSON line a round, in seconds: `save`, `load`, `stage` (what training would wait for), `copy` (memcpy
 * of the same bytes: the least that could be) and `background`. --serve answers every line of stdin with one
 * round. FOLDER must be there; what is made in it is removed. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "lockstep/lockstep.h"
#include "processes.h"
#include "step/state.h"
#include "step/trainer.h"

typedef struct bench {
    int ranks, layers, rounds, round;
    char folder[512], dir[600];
    ls_group *group;
    ls_trainer *trainer;
    char *copy; /* as large as the staging */
    ls_saved saved;
} bench;

static ls_status make(bench *b)
{
    const ls_vit_config vit = { .image_size = 224,
                                .patch_size = 16,
                                .in_channels = 3,
                                .layers = b->layers,
                                .heads = 12,
                                .hidden_size = 768,
                                .mlp_size = 3072,
                                .classes = 1000,
                                .mean = 0.5,
                                .std = 0.5 };
    LS_TRY(processes_start(&b->group, b->ranks));
    ls_parallel parallel = { LS_PARALLEL_DEFAULTS, .units = "class:EncoderBlock" };
    parallel.rank = ls_group_rank(b->group);
    parallel.mesh.axes[0].size = b->ranks;
    LS_TRY(ls_trainer_create(&b->trainer, (ls_build_fn)(void (*)(void))ls_vit_build, &vit, .device = "null",
                             .threads = 1, .micro_batch = 1, .micro_batches = b->ranks, .stage_saves = true,
                             .parallel = parallel, .group = b->group));
    b->copy = malloc(b->trainer->compiled.staging_bytes);
    if (!b->copy)
        return ls_fail(LS_E_MEMORY, "out of memory");
    memset(b->copy, 1, b->trainer->compiled.staging_bytes); /* takes its page faults now */
    return ls_trainer_init(b->trainer, 0);
}

/* Seconds since *start, over all ranks; the next part begins. */
static ls_status lap(bench *b, double *start, double *seconds)
{
    LS_TRY(ls_group_barrier(b->group));
    const double now = ls_now();
    *seconds = now - *start;
    *start = now;
    return LS_OK;
}

static ls_status load(bench *b)
{
    ls_checkpoint c;
    LS_TRY(ls_checkpoint_open(&c, b->dir, LS_VERIFY_LOADED, b->group));
    const ls_status s = ls_trainer_load_state(b->trainer, &c, NULL);
    ls_checkpoint_release(&c);
    return s;
}

static ls_status remove_it(bench *b)
{
    return ls_group_rank(b->group) ? LS_OK : ls_checkpoint_remove(b->dir);
}

static ls_status rounds(bench *b)
{
    static const ls_checkpoint_contents EMPTY = { .config = "{}\n", .trainer = "{}\n" };
    double start = 0, save = 0, loaded = 0, copy = 0, stage = 0, background = 0, ignored;
    ls_saving *v = NULL;
    ls_state_lists lists;
    for (int i = 0; i < b->rounds; i++) {
        snprintf(b->dir, sizeof b->dir, "%s/checkpoint-%d", b->folder, b->round++);
        LS_TRY(lap(b, &start, &ignored));
        LS_TRY(ls_trainer_save_state(b->trainer, b->dir, &EMPTY, &b->saved));
        LS_TRY(lap(b, &start, &save));
        LS_TRY(load(b));
        LS_TRY(lap(b, &start, &loaded));
        LS_TRY(remove_it(b));
        LS_TRY(lap(b, &start, &ignored));
        memcpy(b->copy, b->trainer->staging, b->trainer->compiled.staging_bytes);
        LS_TRY(lap(b, &start, &copy));
        LS_TRY(ls_trainer_stage_state(&v, &lists, b->trainer, b->dir, &EMPTY, b->trainer->staging));
        LS_TRY(lap(b, &start, &stage));
        LS_TRY(ls_saving_write(v));
        LS_TRY(ls_saving_collect(v));
        LS_TRY(ls_saving_commit(v));
        LS_TRY(lap(b, &start, &background));
        ls_saving_end(&v);
        ls_state_lists_release(&lists);
        LS_TRY(remove_it(b));
        if (ls_group_rank(b->group) == 0)
            printf("{\"ranks\": %d, \"bytes\": %llu, \"save\": %.4f, \"load\": %.4f, \"copy\": %.4f, "
                   "\"stage\": %.4f, \"background\": %.4f}\n",
                   b->ranks, (unsigned long long)b->saved.bytes, save, loaded, copy, stage, background);
        fflush(stdout);
    }
    return LS_OK;
}

/* Rank 0 reads a line, all make a round; the end of the input ends it. */
static ls_status serve(bench *b)
{
    char line[128];
    if (ls_group_rank(b->group) == 0)
        puts("{\"ready\": true}");
    fflush(stdout);
    for (;;) {
        b->rounds = ls_group_rank(b->group) == 0 && fgets(line, sizeof line, stdin) ? 1 : 0;
        LS_TRY(ls_group_broadcast(b->group, &b->rounds, sizeof b->rounds, 0));
        if (!b->rounds)
            return LS_OK;
        LS_TRY(rounds(b));
    }
}

static bool choose(bench *b, const char *option, const char *value)
{
    if (!strcmp(option, "--ranks"))
        return (b->ranks = atoi(value)) > 0;
    if (!strcmp(option, "--layers"))
        return (b->layers = atoi(value)) > 0;
    return !strcmp(option, "--rounds") && (b->rounds = atoi(value)) > 0;
}

int main(int argc, char **argv)
{
    bench b = { .ranks = 2, .layers = 14, .rounds = 3 };
    bool serving = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--serve"))
            serving = true;
        else if (argv[i][0] != '-' && !b.folder[0])
            snprintf(b.folder, sizeof b.folder, "%s", argv[i]);
        else if (i + 1 < argc && choose(&b, argv[i], argv[i + 1]))
            i++;
        else {
            fprintf(stderr, "bench_checkpoint: %s?\n", argv[i]);
            return 2;
        }
    }
    if (!b.folder[0]) {
        fprintf(stderr, "usage: bench_checkpoint FOLDER [--ranks 2] [--layers 14] [--rounds 3] [--serve]\n");
        return 2;
    }
    ls_status s = make(&b);
    if (s == LS_OK)
        s = serving ? serve(&b) : rounds(&b);
    ls_trainer_destroy(&b.trainer);
    free(b.copy);
    return processes_end("bench_checkpoint", &b.group, s);
}
