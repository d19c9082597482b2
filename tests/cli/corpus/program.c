/* program.c - a user's own program for cli.corpus: `program STORAGE NAME REPORTS` writes this many reports,
 * each with a checkpoint of four numbers; it continues after the newest checkpoint. With a fourth word it
 * saves beside its work, and ends with a checkpoint that has this name. `residual` is NaN in the
 * first report, `energy` begins with the second, and `lr` and `memory` are also keys of Lockstep's own rows.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <lockstep/lockstep.h>

/* a name may have 100 bytes */
#define LONG_NAME "maximum_norm_of_the_residual_in_the_outermost_layer_of_cells_on_all_ranks"

static ls_status loop(ls_run *run, int64_t reports, const char *full)
{
    float x[4] = { 0 };
    char text[32];
    const ls_shard shard = { "x", LS_TYPE(LS_F32, 4), 0, 4, x };
    const ls_run_contents contents = { .shards = &shard, .n = 1, .text = text };
    const ls_run_checkpoint *last = ls_latest_checkpoint(run);
    if (last)
        LS_TRY(ls_run_load(run, last->path, &contents));
    for (int64_t i = last ? last->epoch + 1 : 0; i < reports; i++) {
        for (int k = 0; k < 4; k++)
            x[k] += 1.0f / (float)(k + 1);
        const ls_metric metrics[] = { { "loss", 1 / (double)(i + 1) },
                                      { "residual", i ? 0.5 / (double)(i + 1) : NAN },
                                      { "lr", 0.125 },
                                      { "memory", 4096 + (double)i },
                                      { LONG_NAME, 2.5 * (double)(i + 1) },
                                      { "eval_loss", 2 / (double)(i + 1) },
                                      { "eval_accuracy", 0.25 * (double)i / 2 },
                                      { "energy", -1.5e-7 * (double)i } };
        snprintf(text, sizeof text, "report %lld", (long long)i);
        LS_TRY(ls_report(run, metrics, i ? 8 : 7, &contents, .step = 10 * (i + 1), .epoch = i));
    }
    return full ? ls_report(run, NULL, 0, &contents, .checkpoint = full) : LS_OK;
}

int main(int argc, char **argv)
{
    ls_run *run = NULL;
    if (argc < 4 || argc > 5)
        return 2;
    ls_status s = ls_run_open(&run, argv[1], argv[2], NULL, .best = "residual", .keep = 1,
                              .config = "cells 64\nscheme <implicit> & stable\n", .async = argc == 5);
    if (s == LS_OK)
        s = ls_run_finish(&run, loop(run, atoll(argv[3]), argv[4]), NULL);
    if (s != LS_OK)
        fprintf(stderr, "error: %s\n", ls_error_message());
    return s == LS_OK ? 0 : 1;
}
