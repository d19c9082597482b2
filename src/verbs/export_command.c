/* export_command.c - `lockstep export`: the weights of a run, a checkpoint or a weight file as one file for other programs. */
#include <stdlib.h>

#include "base/file.h"
#include "base/str.h"
#include "ckpt/checkpoint.h"
#include "commands.h"
#include "record/rundir.h"

/* Where the weights of `name` are: a run's are in its latest checkpoint. */
static ls_status find_weights(char **out, const char *name)
{
    bool run = ls_run_is(name);
    *out = run ? ls_path_join(name, "checkpoints/latest") : ls_path_join(name, "");
    if (!ls_dir_exists(name)) {
        free(*out);
        *out = ls_path_join("", name);
        return ls_file_exists(name) ? LS_OK : ls_fail(LS_E_USAGE, "%s: no such run, checkpoint or weight file", name);
    }
    return !run || ls_checkpoint_is(*out) ? LS_OK : ls_fail(LS_E_IO, "%s: the run has no checkpoint yet; train it further (checkpoint.every_epochs, "
                                                            "every_steps)", name);
}

static bool progress(void *context, uint64_t done, uint64_t total)
{
    const ls_ui *ui = context;
    if (ui->progress)
        ui->progress(ui->context, &(ls_progress){ .what = "exporting", .done = (int64_t)done, .total = (int64_t)total, .unit = "bytes" });
    return !ui->stop || !*ui->stop;
}

static ls_status export(const ls_export_opts *o, const ls_ui *ui, const char *from)
{
    if (ls_checkpoint_is(from))
        LS_TRY(ls_checkpoint_verify(from, LS_VERIFY_FULL, NULL)); /* damage must not spread */
    ls_weights *w;
    LS_TRY(ls_weights_open(&w, from));
    ls_status s = ls_weights_export(w, o->to, .floats = o->convert ? &o->dtype : NULL, .progress = progress, .context = (void *)ui);
    if (ui->progress)
        ui->progress(ui->context, NULL);
    char size[32];
    if (s == LS_OK)
        fprintf(ui->out, "%s: %lld tensors, %s, from %s\n", o->to, (long long)ls_weights_count(w), ls_format_bytes(size, (uint64_t)ls_file_size(o->to)), from);
    ls_weights_close(&w);
    return s;
}

ls_status ls_export_command(const ls_export_opts *o, const ls_ui *ui)
{
    char *from;
    ls_status s = find_weights(&from, o->from);
    if (s == LS_OK)
        s = export(o, ui, from);
    free(from);
    return s;
}
