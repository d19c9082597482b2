/* macros.c - the macros that take options in C: without any, with one, inside each other. Free of warnings
 * under -Wall -Wextra -pedantic (tests/build/macros.sh). */
#include <lockstep/lockstep.h>
#include <stdio.h>

static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    (void)config;
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, batch, 8));
    x = ls_gelu(g, ls_linear(g, "outer", ls_linear(g, "inner", x, 8), 4, .bias = false));
    ls_output(g, "y", ls_reshape(g, ls_add(g, x, LS_NONE), 4, 4));
    return ls_graph_finish(g);
}

int main(void)
{
    ls_trainer *t = NULL;
    ls_dataset *set = NULL;
    ls_run *run = NULL;
    const ls_optimizer sgd = { LS_OPTIMIZER_DEFAULTS };
    if (ls_trainer_create(&t, build, NULL) == LS_OK ||
        ls_trainer_create(&t, build, NULL, .threads = 1, .optimizer = sgd, .micro_batch = 4) == LS_OK)
        return 1;
    if (ls_dataset_open(&set, "nothing", LS_SPLIT_TRAIN, .fallback = false) == LS_OK ||
        ls_run_open(&run, "", "", NULL, .keep = 3) == LS_OK)
        return 1;
    printf("%s %s\n", ls_version(), LS_VERSION);
    return 0;
}
