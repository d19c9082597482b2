/* mpi_train.c - training inside a program that has MPI already, on a communicator of its own: every rank but
 * the last trains, the last one does something else meanwhile.
 *
 *     mpicc mpi_train.c $(pkg-config --cflags --libs lockstep) -o mpi_train
 *     mpirun -n 3 ./mpi_train mnist model.safetensors
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include <lockstep/lockstep.h>

/* of a step, over all ranks: the same weights on 1, 2 or 4 of them */
enum { MICRO_BATCH = 16, MICRO_BATCHES = 4, STEPS = 50 };

static ls_status build(ls_graph *g, const void *context, int64_t batch)
{
    const ls_dataset *set = context;
    ls_value images = ls_input(g, "images",
                               LS_TYPE(LS_U8, batch, set->fields[0].type.dims[0], set->fields[0].type.dims[1],
                                       set->fields[0].type.dims[2]));
    ls_value x = ls_reshape(g, ls_normalize_pixels(g, images, 0.5, 0.5), batch, -1);
    x = ls_relu(g, ls_linear(g, "fc1", x, 128));
    ls_value logits = ls_linear(g, "fc2", x, set->fields[1].below);
    ls_value labels = ls_input(g, "labels", LS_TYPE(LS_I32, batch));
    ls_loss(g, "loss", ls_cross_entropy(g, logits, labels), 1, LS_BY_VALID, "labels");
    ls_measure_against(g, "accuracy", LS_ACCURACY, logits, labels, LS_BY_VALID, "labels");
    ls_output(g, "logits", logits);
    return ls_graph_finish(g);
}

/* Parameters, gradients and optimizer state are sharded over all ranks of the group; each rank computes a
 * part of every step's samples. */
static ls_status train(ls_group *group, const char *set_name, const char *path)
{
    int ranks = ls_group_size(group), rank = ls_group_rank(group);
    ls_dataset *set = NULL;
    ls_loader *loader = NULL;
    ls_trainer *trainer = NULL;
    ls_share share;
    const ls_parallel parallel = ls_parallel_over(group);
    LS_TRY(ls_dataset_open(&set, set_name, LS_SPLIT_TRAIN));
    ls_order order = { .n = set->n,
                       .global_batch = MICRO_BATCH * MICRO_BATCHES,
                       .micro_batch = MICRO_BATCH,
                       .seed = 0,
                       .shuffle = true,
                       .drop_last = true };
    LS_TRY(ls_parallel_share(&share, &parallel, MICRO_BATCHES));
    LS_TRY(ls_trainer_create(&trainer, build, set, .micro_batch = MICRO_BATCH, .micro_batches = MICRO_BATCHES,
                             .threads = 1, .parallel = parallel, .group = group));
    LS_TRY(ls_trainer_init(trainer, 0));
    LS_TRY(ls_loader_create(&loader, set, &order, .share = share));
    ls_loader_step batch;
    ls_step_result r;
    for (int step = 0; step < STEPS; step++) {
        bool done;
        LS_TRY(ls_loader_next(loader, &batch, &done));
        LS_TRY(ls_trainer_step_from(trainer, &batch, 1e-3, &r));
        if (rank == 0 && step % 10 == 9)
            printf("%d ranks on %d hosts  step %d  loss %.6f\n", ranks, ls_group_hosts(group), step + 1,
                   r.loss);
    }
    LS_TRY(ls_trainer_save(trainer, path));
    ls_loader_destroy(&loader);
    ls_trainer_destroy(&trainer);
    ls_dataset_close(&set);
    return LS_OK;
}

int main(int argc, char **argv)
{
    int level, rank, ranks;
    MPI_Comm comm; /* of those that train */
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    bool trains = argc == 3 && (rank < ranks - 1 || ranks == 1);
    MPI_Comm_split(MPI_COMM_WORLD, trains, rank, &comm);
    if (trains) {
        ls_group *group = NULL;
        bool failed = ls_group_from_mpi(&group, &comm) != LS_OK || train(group, argv[1], argv[2]) != LS_OK;
        if (failed) {
            fprintf(stderr, "rank %d: %s\n", rank, ls_error_message());
            /* what becomes of the program is the program's decision */
            MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
        }
        ls_group_destroy(&group);
    } else if (rank == 0) {
        fprintf(stderr, "usage: mpi_train DATASET OUT.safetensors   (mnist, fashion-mnist, shapes)\n");
    }
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return argc == 3 ? EXIT_SUCCESS : EXIT_FAILURE;
}
