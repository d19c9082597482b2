/* field_any_ranks.c - a simulation's field, sharded into blocks of rows with a ghost row on either side:
 * saved by any number of ranks, loaded by any other.
 *
 *     mpirun -n 4 ./field_any_ranks save step-100
 *     mpirun -n 3 ./field_any_ranks load step-100
 *     ./field_any_ranks load step-100
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/lockstep.h>

enum { ROWS = 50, COLUMNS = 40 };

static ls_status run(ls_group *group, bool save, const char *dir)
{
    const int64_t rank = ls_group_rank(group), ranks = ls_group_size(group), first = ROWS * rank / ranks,
                  rows = ROWS * (rank + 1) / ranks - first;
    /* ghosts all around */
    double(*field)[COLUMNS + 2] = calloc((size_t)rows + 2, sizeof *field), time = 0, sum = 0;
    if (!field)
        return ls_fail(LS_E_MEMORY, "out of memory for the field");
    const ls_type block = LS_TYPE(LS_F64, rows, COLUMNS), scalar = LS_SCALAR(LS_F64);
    const ls_array all[] = {
        { "field", LS_TYPE(LS_F64, ROWS, COLUMNS), .start = { first },
          .block = { &field[1][1], block, { COLUMNS + 2, 1 } } },
        { "time", scalar, .block = ls_tensor_of(&time, &scalar) }, /* every rank has it */
    };
    for (int64_t r = 0; r < rows && save; r++)
        for (int64_t c = 0; c < COLUMNS; c++)
            field[r + 1][c + 1] = (double)((first + r) * COLUMNS + c);
    time = save ? 0.25 : 0;
    ls_status s = save ? ls_arrays_save(dir, 2, all, group, .text = "after 100 steps")
                       : ls_arrays_load(dir, 2, all, group);
    for (int64_t r = 0; r < rows + 2; r++)
        for (int64_t c = 0; c < COLUMNS + 2; c++)
            sum += field[r][c];
    free(field);
    if (s == LS_OK)
        s = ls_group_all_reduce(group, &sum, 1, LS_F64, LS_REDUCE_SUM);
    if (s == LS_OK && rank == 0)
        printf("%s %s on %d ranks: time %g, sum %.0f\n", save ? "saved" : "loaded", dir, (int)ranks, time,
               sum);
    return s;
}

int main(int argc, char **argv)
{
    ls_group *group = NULL;
    if (argc != 3 || (strcmp(argv[1], "save") && strcmp(argv[1], "load")))
        return fprintf(stderr, "usage: field_any_ranks save|load DIRECTORY\n"), 2;
    ls_status s = ls_group_from_environment(&group);
    if (s == LS_OK)
        s = run(group, !strcmp(argv[1], "save"), argv[2]);
    if (s != LS_OK)
        fprintf(stderr, "%s\n", ls_error_message());
    ls_group_destroy(&group);
    return s == LS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
