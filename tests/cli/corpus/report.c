/* report.c - `report STORAGE NAME` writes report.html of a run as it is, for cli.corpus. The command does so
 * only after training. What does not come from the run's files is fixed here: plans, the machine, times. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "pages/report.h"

static ls_status of_recipe(const char *dir)
{
    ls_recipe *r = NULL;
    ls_rundir *d = NULL;
    LS_TRY(ls_recipe_load_run(&r, dir, 0, NULL));
    ls_status s = ls_rundir_open_ranks(&d, r, NULL, false);
    const ls_report report = { .recipe = r,
                               .state = s == LS_OK ? d->before : LS_RUN_NEW,
                               .data_note = "the data",
                               .hardware = "the hardware",
                               .isa = "generic",
                               .threads = 1,
                               .plan_arena = 20 << 20,
                               .plan_state = 4 << 20,
                               .plan_io = 1 << 20,
                               .plan_step_seconds = 0.05,
                               .plan_step_flops = 6.5e9,
                               .model_flops = 6.5e9,
                               .peak_flops = 2e11,
                               .measured_step_seconds = 0.0625,
                               .first_step_seconds = 0.125,
                               .measured_rss = (size_t)50 << 20,
                               .parameters = 27 };
    if (s == LS_OK)
        s = ls_report_write(d, &report);
    ls_rundir_close(&d, LS_RUN_NEW, NULL);
    ls_recipe_destroy(&r);
    return s;
}

static ls_status of_program(const char *storage, const char *name, const char *dir)
{
    ls_rundir *d = NULL;
    char *path = ls_path_join(dir, LS_RUN_CONFIG), *config = NULL;
    size_t size;
    ls_status s = ls_file_read(&config, &size, path);
    if (s == LS_OK)
        s = ls_rundir_open_own(&d, &(ls_own_run){ storage, name, config, "residual" }, NULL);
    if (s == LS_OK)
        s = ls_report_write(d, &(ls_report){ .state = d->before });
    ls_rundir_close(&d, LS_RUN_NEW, NULL);
    free(config);
    free(path);
    return s;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    char *dir = ls_path_join(argv[1], argv[2]);
    const ls_status s = ls_file_in(dir, LS_RUN_CONFIG) ? of_program(argv[1], argv[2], dir) : of_recipe(dir);
    if (s != LS_OK)
        fprintf(stderr, "error: %s\n", ls_error_message());
    free(dir);
    return s == LS_OK ? 0 : 1;
}
