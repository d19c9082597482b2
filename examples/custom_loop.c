/* custom_loop.c - a training loop of one's own that never loses its run: it reports each epoch with a
 * checkpoint, and started again, after Ctrl-C, a kill or a power cut, it goes on with the same numbers, on as
 * many ranks as there are now.
 *
 *     cc custom_loop.c $(pkg-config --cflags --libs lockstep) -pthread -o custom_loop
 *     ./custom_loop runs mine 2               two ranks, threads of this process
 *     lockstep launch --workers 4 --max-failures 3 ./custom_loop runs mine     processes, started again
 *     mpirun -n 4 ./custom_loop runs mine     ranks that are processes, here or on several hosts
 *     lockstep runs                           how it stands
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <lockstep/lockstep.h>

/* epochs of so many steps, for an example that is soon done */
enum { EPOCHS = 6, STEPS = 16, MAX_RANKS = 4 };
/* 256 samples a step over all ranks: 1, 2 or 4 of them give the same bits */
enum { MICRO_BATCH = 64, MICRO_BATCHES = 4 };

static volatile sig_atomic_t stop_asked;
static void ask_to_stop(int signal) { stop_asked = signal; }

static ls_status build(ls_graph *g, const void *context, int64_t batch)
{
    const ls_dataset *set = context;
    ls_value images = ls_input(g, "images",
                               LS_TYPE(LS_U8, batch, set->fields[0].type.dims[0], set->fields[0].type.dims[1],
                                       set->fields[0].type.dims[2]));
    ls_value x = ls_reshape(g, ls_normalize_pixels(g, images, 0.5, 0.5), batch, -1);
    ls_value logits = ls_linear(g, "fc2", ls_relu(g, ls_linear(g, "fc1", x, 64)), set->fields[1].below);
    ls_value labels = ls_input(g, "labels", LS_TYPE(LS_I32, batch));
    ls_loss(g, "loss", ls_cross_entropy(g, logits, labels), 1, LS_BY_VALID, "labels");
    ls_measure_against(g, "accuracy", LS_ACCURACY, logits, labels, LS_BY_VALID, "labels");
    ls_output(g, "logits", logits);
    return ls_graph_finish(g);
}

/* The learning rate is the loop's own affair, so it goes into the checkpoint as text, exactly (%a); the
 * trainer knows what it keeps. */
static ls_status loop(ls_run *run, ls_trainer *trainer, ls_loader *loader)
{
    double lr = 1e-2, lowest = 1e9;
    char text[64];
    const ls_run_contents everything = { .trainer = trainer, .text = text };
    const ls_run_checkpoint *last = ls_latest_checkpoint(run);
    if (last && sscanf(last->text, "%la %la", &lr, &lowest) != 2)
        return ls_fail(LS_E_FORMAT, "%s is not this program's", last->path);
    LS_TRY(last ? ls_run_load(run, last->path, &everything) : ls_trainer_init(trainer, 0));
    int64_t epoch = last ? last->epoch + 1 : 0;
    LS_TRY(ls_loader_seek(loader, 0, epoch * STEPS));
    for (bool stop = false; epoch < EPOCHS; epoch++) {
        double loss = 0;
        for (int step = 0; step < STEPS; step++) {
            ls_loader_step batch;
            ls_step_result r;
            LS_TRY(ls_loader_next(loader, &batch, &(bool){ false }));
            LS_TRY(ls_trainer_step_from(trainer, &batch, lr, &r));
            loss += r.loss / STEPS;
        }
        if (ls_run_where(run)->rank == 0)
            printf("epoch %lld  loss %.6f  lr %g\n", (long long)epoch, loss, lr);
        const ls_metric metrics[] = { { "loss", loss }, { "lr", lr } };
        lr *= loss < 0.9 * lowest ? 1 : 0.5;
        lowest = loss < lowest ? loss : lowest;
        snprintf(text, sizeof text, "%a %a", lr, lowest);
        LS_TRY(ls_report(run, metrics, 2, &everything, .step = (epoch + 1) * STEPS, .epoch = epoch));
        LS_TRY(ls_run_stop_requested(run, stop_asked, &stop));
        if (stop)
            return ls_fail(LS_E_STOPPED, "stopped after epoch %lld: start it again to continue",
                           (long long)epoch);
    }
    return LS_OK;
}

static ls_status train(ls_run *run, ls_group *group)
{
    ls_dataset *set = NULL;
    ls_loader *loader = NULL;
    ls_trainer *trainer = NULL;
    ls_share share;
    const ls_run_place *here = ls_run_where(run);
    ls_parallel parallel = { LS_PARALLEL_DEFAULTS, .mesh = { .n = 1, .axes = { { "dp", here->ranks } } },
                             .rank = here->rank, .ranks_per_host = here->ranks / here->hosts };
    LS_TRY(ls_parallel_share(&share, &parallel, MICRO_BATCHES));
    LS_TRY(ls_dataset_open(&set, "shapes", LS_SPLIT_TRAIN));
    ls_order order = { .n = set->n,
                       .global_batch = MICRO_BATCH * MICRO_BATCHES,
                       .micro_batch = MICRO_BATCH,
                       .shuffle = true,
                       .drop_last = true };
    LS_TRY(ls_loader_create(&loader, set, &order, .share = share));
    ls_status s = ls_trainer_create(&trainer, build, set, .micro_batch = MICRO_BATCH,
                                    .micro_batches = MICRO_BATCHES, .threads = 1, .parallel = parallel,
                                    .group = group);
    if (s == LS_OK)
        s = loop(run, trainer, loader);
    ls_loader_destroy(&loader);
    ls_trainer_destroy(&trainer);
    ls_dataset_close(&set);
    return s;
}

static char **words; /* STORAGE NAME */

static void *rank(void *argument)
{
    ls_group *group = argument;
    ls_run *run = NULL;
    ls_status s = ls_run_open(&run, words[1], words[2], group, .best = "loss", .config = "fc1 64, adam\n");
    if (s == LS_OK)
        s = ls_run_finish(&run, train(run, group), NULL);
    if (s != LS_OK)
        fprintf(stderr, "rank %d: %s\n", ls_group_rank(group), ls_error_message());
    ls_group_destroy(&group);
    return (void *)(intptr_t)(s == LS_OK ? EXIT_SUCCESS : s == LS_E_STOPPED ? 75 : EXIT_FAILURE);
}

int main(int argc, char **argv)
{
    int ranks = argc == 4 ? atoi(argv[3]) : 1;
    ls_group *groups[MAX_RANKS];
    pthread_t threads[MAX_RANKS];
    if (argc < 3 || argc > 4 || ranks < 1 || ranks > MAX_RANKS)
        return fprintf(stderr, "usage: custom_loop STORAGE NAME [RANKS]   (1, 2 or 4 threads; else as mpirun "
                               "or the like started it)\n"),
               2;
    if ((argc == 4 ? ls_group_threads(groups, ranks) : ls_group_from_environment(groups)) != LS_OK)
        return fprintf(stderr, "%s\n", ls_error_message()), EXIT_FAILURE;
    words = argv;
    signal(SIGINT, ask_to_stop);
    signal(SIGTERM, ask_to_stop);
    for (int r = 1; r < ranks; r++)
        pthread_create(&threads[r], NULL, rank, groups[r]);
    void *status = rank(groups[0]);
    for (int r = 1; r < ranks; r++)
        pthread_join(threads[r], NULL);
    return (int)(intptr_t)status;
}
