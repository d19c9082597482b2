/* heat_surrogate.c - a simulation trains its own surrogate while it runs, and is then replaced by it.
 *
 * A plate of SIZE x SIZE cells, whose ends meet: heat spreads through it, faster where it is hot, while a
 * torch heats one place after another. The rows are divided over the ranks of MPI. Each step of SUBSTEPS
 * small ones depends on the PATCH x PATCH cells around a cell; a small network learns that dependence:
 *
 *   1. for TRAINING steps the solver runs; each rank pushes some of its cells, before and after the step, and
 *      all ranks train;
 *   2. for REPLACED steps the network runs in place of the solver. The solver runs beside it, only to show
 *      how far they are apart.
 *
 *     mpicc heat_surrogate.c $(pkg-config --cflags --libs lockstep) -lm -o heat_surrogate
 *     mpirun -n 4 ./heat_surrogate heat
 *
 * The folder `heat` gets a checkpoint of field, network and waiting samples every SAVE steps. The same
 * command continues from the newest one, with the same bits on as many ranks. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <lockstep/lockstep.h>

enum { SIZE = 48, SUBSTEPS = 2, PATCH = 2 * SUBSTEPS + 1, CELLS = 64, MICRO_BATCH = 64 };
enum { TRAINING = 600, UPDATES = 4, REPLACED = 40, SAVE = 200 };
/* a step changes a cell by about 1 / SCALE; the network computes numbers around 1 */
static const double SCALE = 8;

/* The rows [first, first + rows) of the plate, with SUBSTEPS rows of each neighbour above and below. */
typedef struct plate {
    int rank, ranks, first, rows;
    double (*u)[SIZE], (*next)[SIZE];
} plate;

/* ---- the simulation */

static int wrap(int i) { return (i + SIZE) % SIZE; }

static void exchange_ghosts(plate *p, MPI_Comm comm)
{
    const int n = SUBSTEPS * SIZE, above = (p->rank + p->ranks - 1) % p->ranks,
              below = (p->rank + 1) % p->ranks;
    MPI_Sendrecv(p->u[SUBSTEPS], n, MPI_DOUBLE, above, 0, p->u[SUBSTEPS + p->rows], n, MPI_DOUBLE, below, 0,
                 comm, MPI_STATUS_IGNORE);
    MPI_Sendrecv(p->u[p->rows], n, MPI_DOUBLE, below, 1, p->u[0], n, MPI_DOUBLE, above, 1, comm,
                 MPI_STATUS_IGNORE);
}

static double flow(double a, double b) /* from a cell to its neighbour; the conductivity grows with heat */
{
    const double middle = (a + b) / 2;
    return 0.08 * (1 + middle * middle) * (a - b);
}

/* One step. Each small step needs one ghost row less. */
static void solve(plate *p, MPI_Comm comm)
{
    exchange_ghosts(p, comm);
    for (int k = 1; k <= SUBSTEPS; k++) {
        for (int r = k; r < p->rows + 2 * SUBSTEPS - k; r++)
            for (int c = 0; c < SIZE; c++) {
                const double u = p->u[r][c];
                p->next[r][c] = 0.995 * (u - flow(u, p->u[r - 1][c]) - flow(u, p->u[r + 1][c]) -
                                         flow(u, p->u[r][wrap(c - 1)]) - flow(u, p->u[r][wrap(c + 1)]));
            }
        double(*swap)[SIZE] = p->u;
        p->u = p->next;
        p->next = swap;
    }
}

/* A number in [0, 1) that is a function of its arguments, the same on every rank. */
static double chance(unsigned a, unsigned b)
{
    unsigned h = a * 2654435761u ^ (b + 0x9e3779b9u) * 2246822519u;
    h = (h ^ h >> 15) * 3266489917u;
    h = (h ^ h >> 13) * 668265263u;
    return (double)(h ^ h >> 16) / 4294967296.0;
}

/* The torch heats another place in every step. */
static void heat(plate *p, int step)
{
    const double row = chance((unsigned)step, 0) * SIZE, column = chance((unsigned)step, 1) * SIZE,
                 power = 0.1 + 0.3 * chance((unsigned)step, 2);
    for (int r = 0; r < p->rows; r++)
        for (int c = 0; c < SIZE; c++) {
            const double y = remainder(p->first + r - row, SIZE), x = remainder(c - column, SIZE);
            p->u[SUBSTEPS + r][c] += power * exp(-(x * x + y * y) / 18);
        }
}

static ls_status make_plate(plate *p, int rank, int ranks)
{
    *p = (plate){ rank, ranks, SIZE * rank / ranks, SIZE * (rank + 1) / ranks - SIZE * rank / ranks,
                  NULL, NULL };
    p->u = calloc((size_t)p->rows + 2 * SUBSTEPS, sizeof *p->u);
    p->next = calloc((size_t)p->rows + 2 * SUBSTEPS, sizeof *p->next);
    return p->u && p->next ? LS_OK : ls_fail(LS_E_MEMORY, "out of memory for the plate");
}

/* ---- the network: the cells around a cell -> how much a step changes it */

static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    (void)config;
    ls_value cells = ls_input(g, "cells", LS_TYPE(LS_F32, batch, PATCH * PATCH)),
             change = ls_input(g, "change", LS_TYPE(LS_F32, batch, 1));
    ls_value x = ls_tanh(g, ls_linear(g, "hidden.0", cells, 48));
    x = ls_tanh(g, ls_linear(g, "hidden.1", x, 48));
    ls_value y = ls_add(g, ls_linear(g, "out", x, 1), ls_linear(g, "skip", cells, 1));
    ls_value error = ls_sub(g, y, change);
    ls_loss(g, "mse", ls_square(g, error), 1, LS_BY_ELEMENT, NULL);
    ls_measure(g, "worst", ls_square(g, error), LS_LARGEST, LS_BY_SAMPLE, NULL);
    ls_output(g, "change", y);
    return ls_graph_finish(g);
}

static void around(const plate *p, int r, int c, float *to)
{
    for (int i = 0; i < PATCH; i++)
        for (int k = 0; k < PATCH; k++)
            *to++ = (float)p->u[r + i][wrap(c + k - SUBSTEPS)];
}

/* Pushes CELLS cells of this rank, as they are before and after a step; makes the step. */
static ls_status solve_and_push(plate *p, MPI_Comm comm, ls_live *q, int step)
{
    static float cells[CELLS][PATCH * PATCH];
    static double change[CELLS];
    int row[CELLS], column[CELLS];
    exchange_ghosts(p, comm);
    for (int i = 0; i < CELLS; i++) {
        row[i] = (int)(chance((unsigned)(step * CELLS + i), 3 + 2 * (unsigned)p->rank) * p->rows);
        column[i] = (int)(chance((unsigned)(step * CELLS + i), 4 + 2 * (unsigned)p->rank) * SIZE);
        around(p, row[i], column[i], cells[i]);
        change[i] = p->u[SUBSTEPS + row[i]][column[i]];
    }
    solve(p, comm);
    for (int i = 0; i < CELLS; i++)
        change[i] = SCALE * (p->u[SUBSTEPS + row[i]][column[i]] - change[i]);
    const ls_tensor x = ls_tensor_of(cells, &LS_TYPE(LS_F32, CELLS, PATCH * PATCH)),
                    y = ls_tensor_of(change, &LS_TYPE(LS_F64, CELLS, 1));
    LS_TRY(ls_live_put(q, "cells", &x));
    LS_TRY(ls_live_put(q, "change", &y));
    return ls_live_push(q, CELLS);
}

/* ---- checkpoints: the field beside the network with the samples that wait */

static void name(char to[512], const char *dir, const char *what, int step)
{
    snprintf(to, 512, "%.400s/%s-%04d", dir, what, step);
}

static ls_array field_of(plate *p)
{
    const ls_type rows = LS_TYPE(LS_F64, p->rows, SIZE);
    return (ls_array){ "field", LS_TYPE(LS_F64, SIZE, SIZE), .start = { p->first },
                       .block = ls_tensor_of(p->u[SUBSTEPS], &rows) };
}

static bool there(const char *path, MPI_Comm comm, int rank) /* rank 0 looks */
{
    struct stat st;
    int found = rank == 0 && stat(path, &st) == 0;
    MPI_Bcast(&found, 1, MPI_INT, 0, comm);
    return found;
}

static ls_status save(plate *p, MPI_Comm comm, ls_trainer *t, ls_group *group, const char *dir, int step)
{
    char path[512];
    const ls_array field = field_of(p);
    name(path, dir, "field", step); /* a run that was killed here has left the same one */
    if (!there(path, comm, p->rank))
        LS_TRY(ls_arrays_save(path, 1, &field, group));
    name(path, dir, "network", step); /* the last one: where it is, the field is, too */
    return ls_trainer_save_checkpoint(t, path);
}

/* The newest step that was saved; 0: none. */
static int newest(const char *dir, MPI_Comm comm, int rank)
{
    char path[512];
    for (int step = TRAINING / SAVE * SAVE; step > 0; step -= SAVE) {
        name(path, dir, "network", step);
        if (there(path, comm, rank))
            return step;
    }
    return 0;
}

static ls_status load(plate *p, ls_trainer *t, ls_group *group, const char *dir, int step)
{
    char path[512];
    const ls_array field = field_of(p);
    name(path, dir, "network", step);
    LS_TRY(ls_trainer_load_checkpoint(t, path));
    name(path, dir, "field", step);
    return ls_arrays_load(path, 1, &field, group);
}

/* ---- 1: the solver runs, and the network learns */

static ls_status train(plate *p, MPI_Comm comm, ls_group *group, ls_trainer *t, ls_live *q, const char *dir)
{
    int64_t samples, total;
    bool done;
    ls_step_result r;
    ls_metric m[4];
    int n, step = newest(dir, comm, p->rank);
    if (step)
        LS_TRY(load(p, t, group, dir, step));
    if (step && p->rank == 0)
        printf("continues after step %d\n", step);
    while (step < TRAINING) {
        heat(p, step);
        LS_TRY(solve_and_push(p, comm, q, step++));
        for (int k = 0; k < UPDATES; k++) {
            const double left = 1 - (step - 1 + (double)k / UPDATES) / TRAINING;
            LS_TRY(ls_live_fill(q, &samples, &total, &done));
            if (total > 0)
                LS_TRY(ls_trainer_run(t, samples, 6e-3 * left + 1e-5, &r));
        }
        if (step % SAVE)
            continue;
        LS_TRY(ls_live_evaluate(q, m, 4, &n));
        if (p->rank == 0)
            printf("step %d  loss %.6f  of samples that were held out %.6f\n", step, r.loss, m[0].value);
        LS_TRY(save(p, comm, t, group, dir, step));
    }
    return LS_OK;
}

/* ---- 2: the network in place of the solver */

static ls_status replace(plate *p, MPI_Comm comm, ls_predictor *network, float *cells, float *change)
{
    const int64_t n = (int64_t)p->rows * SIZE;
    const ls_tensor x = ls_tensor_of(cells, &LS_TYPE(LS_F32, n, PATCH * PATCH)),
                    y = ls_tensor_of(change, &LS_TYPE(LS_F32, n, 1));
    exchange_ghosts(p, comm);
    for (int64_t i = 0; i < n; i++)
        around(p, (int)(i / SIZE), (int)(i % SIZE), cells + i * PATCH * PATCH);
    LS_TRY(ls_predictor_put(network, "cells", &x));
    LS_TRY(ls_predictor_run(network, n));
    LS_TRY(ls_predictor_get(network, "change", &y));
    for (int64_t i = 0; i < n; i++)
        p->u[SUBSTEPS + i / SIZE][i % SIZE] += (double)change[i] / SCALE;
    return LS_OK;
}

static ls_status compare(plate *p, plate *exact, MPI_Comm comm, ls_predictor *network)
{
    const size_t n = (size_t)p->rows * SIZE;
    double sums[2] = { 0 };
    float *cells = malloc(n * PATCH * PATCH * sizeof *cells), *change = malloc(n * sizeof *change);
    ls_status s = cells && change ? LS_OK : ls_fail(LS_E_MEMORY, "out of memory for the cells");
    memcpy(exact->u, p->u, ((size_t)p->rows + 2 * SUBSTEPS) * sizeof *p->u);
    for (int step = TRAINING; step < TRAINING + REPLACED && s == LS_OK; step++) {
        heat(p, step);
        heat(exact, step);
        s = replace(p, comm, network, cells, change);
        solve(exact, comm);
    }
    for (int r = SUBSTEPS; r < SUBSTEPS + p->rows; r++)
        for (int c = 0; c < SIZE; c++) {
            sums[0] += (p->u[r][c] - exact->u[r][c]) * (p->u[r][c] - exact->u[r][c]);
            sums[1] += exact->u[r][c] * exact->u[r][c];
        }
    free(cells);
    free(change);
    LS_TRY(s);
    MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, comm);
    if (p->rank == 0)
        printf("after %d steps of the network in place of the solver: relative error %.5f\n", REPLACED,
               sqrt(sums[0] / sums[1]));
    return LS_OK;
}

/* ---- both */

static ls_status simulate(MPI_Comm comm, const char *dir)
{
    ls_group *group = NULL;
    ls_trainer *t = NULL;
    ls_live *q = NULL;
    ls_predictor *network = NULL;
    plate p, exact;
    char path[512];
    LS_TRY(ls_group_from_mpi(&group, &comm)); /* a duplicate: its messages do not meet the simulation's */
    const int rank = ls_group_rank(group), ranks = ls_group_size(group);
    const ls_parallel parallel = { LS_PARALLEL_DEFAULTS, .mesh = { .n = 1, .axes = { { "dp", ranks } } },
                                   .rank = rank, .ranks_per_host = ranks / ls_group_hosts(group) };
    LS_TRY(make_plate(&p, rank, ranks));
    LS_TRY(make_plate(&exact, rank, ranks));
    LS_TRY(ls_trainer_create(&t, build, NULL, .micro_batch = MICRO_BATCH, .micro_batches = ranks,
                             .padding = true, .threads = 1, .parallel = parallel, .group = group));
    LS_TRY(ls_trainer_init(t, 0));
    LS_TRY(ls_live_open(&q, t, .capacity = 2048, .keep = LS_LIVE_RESERVOIR, .hold_out = 16));
    LS_TRY(train(&p, comm, group, t, q, dir));
    snprintf(path, sizeof path, "%.400s/network.safetensors", dir);
    LS_TRY(ls_trainer_save(t, path));
    LS_TRY(ls_predictor_of(&network, t)); /* all ranks; from here on no rank waits for another */
    ls_live_close(&q);
    ls_trainer_destroy(&t);
    LS_TRY(compare(&p, &exact, comm, network));
    ls_predictor_destroy(&network);
    ls_group_destroy(&group);
    free(p.u);
    free(p.next);
    free(exact.u);
    free(exact.next);
    return LS_OK;
}

int main(int argc, char **argv)
{
    int level, rank;
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(comm, &rank);
    if (argc != 2 && rank == 0)
        fprintf(stderr, "usage: heat_surrogate FOLDER\n");
    if (argc == 2 && simulate(comm, argv[1]) != LS_OK) {
        fprintf(stderr, "rank %d: %s\n", rank, ls_error_message());
        MPI_Abort(comm, EXIT_FAILURE); /* what becomes of the program is the program's decision */
    }
    MPI_Finalize();
    return argc == 2 ? EXIT_SUCCESS : EXIT_FAILURE;
}
