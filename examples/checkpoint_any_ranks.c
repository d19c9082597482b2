/* checkpoint_any_ranks.c - tutorial 5: a small model under FSDP is saved by any number of ranks and loaded by
 * any other, or by one process without ranks.
 *
 *     cc checkpoint_any_ranks.c $(pkg-config --cflags --libs lockstep) -pthread -o checkpoint_any_ranks
 *     ./checkpoint_any_ranks save checkpoint 4             four ranks, threads of this process: a step of
 *                                                          training, then the checkpoint
 *     ./checkpoint_any_ranks load checkpoint 3 again       three ranks load it, and save it again: the same
 *                                                          bytes
 *     ./checkpoint_any_ranks load checkpoint               one process
 *     mpirun -n 4 ./checkpoint_any_ranks save checkpoint   ranks that are processes, here or on several hosts
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/lockstep.h>

enum { IN = 16, HIDDEN = 16, OUT = 8, SAMPLES = 24, MAX_RANKS = 12 };

/* net1, ReLU, net2: ToyModel. */
static ls_status build(ls_graph *g, const void *context, int64_t batch)
{
    (void)context;
    ls_value x = ls_normalize_pixels(g, ls_input(g, "images", LS_TYPE(LS_U8, batch, IN)), 0, 1);
    ls_value logits = ls_linear(g, "net2", ls_relu(g, ls_linear(g, "net1", x, HIDDEN)), OUT);
    ls_value labels = ls_input(g, "labels", LS_TYPE(LS_I32, batch));
    ls_loss(g, "loss", ls_cross_entropy(g, logits, labels), 1, LS_BY_VALID, "labels");
    ls_measure_against(g, "accuracy", LS_ACCURACY, logits, labels, LS_BY_VALID, "labels");
    ls_output(g, "logits", logits);
    return ls_graph_finish(g);
}

/* A step on this rank's samples. */
static ls_status step(ls_trainer *t, const ls_share *share)
{
    uint8_t images[SAMPLES][IN];
    int32_t labels[SAMPLES];
    ls_step_result r;
    for (int64_t k = 0; k < share->count; k++) {
        const int64_t sample = share->first + k * share->stride;
        for (int i = 0; i < IN; i++)
            images[k][i] = (uint8_t)(sample * 37 + i * 11);
        labels[k] = (int32_t)(sample % OUT);
    }
    return ls_trainer_step(t, images, labels, SAMPLES, 0.1, &r);
}

static ls_status run(ls_group *group, char **words, const char *again)
{
    const bool save = !strcmp(words[1], "save");
    const char *dir = words[2];
    const ls_parallel fsdp = { LS_PARALLEL_DEFAULTS,
                               .mesh = { .n = 1, .axes = { { "dp", ls_group_size(group) } } },
                               .rank = ls_group_rank(group), .data = LS_DATA_FSDP,
                               .ranks_per_host = ls_group_local_size(group) };
    ls_trainer *t;
    ls_share share;
    float weight[HIDDEN][IN];
    const ls_tensor whole = ls_tensor_of(weight, &LS_TYPE(LS_F32, HIDDEN, IN));
    LS_TRY(ls_parallel_share(&share, &fsdp, SAMPLES));
    LS_TRY(ls_trainer_create(&t, build, NULL, .micro_batch = 1, .micro_batches = SAMPLES,
                             .optimizer = { LS_OPTIMIZER_DEFAULTS }, .threads = 1, .parallel = fsdp,
                             .group = group));
    ls_status s = save ? ls_trainer_init(t, 0) : ls_trainer_load_checkpoint(t, dir);
    if (s == LS_OK && save)
        s = step(t, &share);
    if (s == LS_OK && save)
        s = ls_trainer_save_checkpoint(t, dir);
    if (s == LS_OK && again)
        s = ls_trainer_save_checkpoint(t, again);
    if (s == LS_OK)
        s = ls_trainer_get(t, "net1.weight", &whole); /* from all ranks, to have something to print */
    if (s == LS_OK && ls_group_rank(group) == 0)
        printf("%s %s on %d ranks: net1.weight[0] is %.9g\n", save ? "saved" : "loaded", dir,
               ls_group_size(group), (double)weight[0][0]);
    if (s == LS_OK && !save)
        s = step(t, &share); /* training goes on */
    ls_trainer_destroy(&t);
    return s;
}

/* ---- ranks as threads, or those of the launcher that started this process */

static char **words; /* PROGRAM save|load DIRECTORY [RANKS [AGAIN]] */
static const char *again;

static void *rank(void *argument)
{
    ls_group *group = argument;
    ls_status s = run(group, words, again);
    if (s != LS_OK && s != LS_E_PEER) /* the rank that failed says why */
        fprintf(stderr, "rank %d: %s\n", ls_group_rank(group), ls_error_message());
    if (s != LS_OK)
        ls_group_fail(group, s, ls_error_message());
    ls_group_destroy(&group);
    return (void *)(intptr_t)s;
}

int main(int argc, char **argv)
{
    int ranks = argc > 3 ? atoi(argv[3]) : 1;
    ls_group *groups[MAX_RANKS];
    pthread_t threads[MAX_RANKS];
    if (argc < 3 || argc > 5 || (strcmp(argv[1], "save") && strcmp(argv[1], "load")) || ranks < 1 ||
        ranks > MAX_RANKS || SAMPLES % ranks)
        return fprintf(stderr, "usage: checkpoint_any_ranks save|load DIRECTORY [RANKS [AGAIN]]   (1, 2, 3, "
                               "4, 6, 8 or 12 threads)\n"),
               2;
    if ((argc > 3 ? ls_group_threads(groups, ranks) : ls_group_from_environment(groups)) != LS_OK)
        return fprintf(stderr, "%s\n", ls_error_message()), EXIT_FAILURE;
    words = argv;
    again = argc > 4 ? argv[4] : NULL;
    for (int r = 1; r < ranks; r++)
        pthread_create(&threads[r], NULL, rank, groups[r]);
    bool failed = rank(groups[0]) != NULL;
    for (int r = 1; r < ranks; r++) {
        void *status;
        pthread_join(threads[r], &status);
        failed = failed || status;
    }
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
