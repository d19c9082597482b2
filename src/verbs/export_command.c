/* export_command.c - `lockstep export`: the weights of a run, a checkpoint or a weight file for other
 * programs. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/str.h"
#include "base/sys.h"
#include "ckpt/adapter.h"
#include "ckpt/checkpoint.h"
#include "ckpt/dcp.h"
#include "commands.h"
#include "export_adapter.h"
#include "export_optimizer.h"
#include "export_select.h"
#include "record/run_choice.h"
#include "record/rundir.h"
#include "setup/base.h"
#include "setup/folder.h"
#include "setup/setup.h"
#include "saved_model.h"

/* Where the weights of `name` are: a run's are in one of its checkpoints. */
static ls_status find_weights(char **out, const char *name, bool best)
{
    if (ls_run_is(name))
        return ls_run_choose(out, name, best);
    *out = ls_path_join(name, "");
    if (best && (ls_dir_exists(name) || ls_file_exists(name)))
        return ls_fail(LS_E_USAGE, "--best chooses among the checkpoints of a run, and %s is not a run",
                       name);
    if (!ls_dir_exists(name)) {
        free(*out);
        *out = ls_path_join("", name);
        return ls_file_exists(name) ? ls_sys_have(*out)
                                    : ls_fail(LS_E_USAGE, "%s: no such run, checkpoint or weight file", name);
    }
    return ls_sys_have(*out);
}

static bool progress(void *context, uint64_t done, uint64_t total)
{
    const ls_ui *ui = context;
    if (ui->progress)
        ui->progress(ui->context, &(ls_progress){ .what = "exporting",
                                                  .done = (int64_t)done,
                                                  .total = (int64_t)total,
                                                  .unit = "bytes" });
    return !ui->stop || !*ui->stop;
}

static void tell_number(const ls_export_opts *o, const ls_ui *ui, const char *from, int64_t tensors)
{
    ls_str said = { 0 };
    ls_export_said(&said, tensors, o->to, ls_adapter_is(o->to) ? LS_EXPORT_PEFT : o->format);
    const bool alone = ls_adapter_is(from) && !o->merge && o->format == LS_EXPORT_GGUF;
    fprintf(ui->out, "%s%s, from %s\n", ls_str_text(&said),
            alone ? ", the adapter without its base (--merge writes both)" : "", from);
    ls_str_release(&said);
}

static void tell(const ls_export_opts *o, const ls_ui *ui, const char *from, const ls_weights *w)
{
    tell_number(o, ui, from, ls_weights_count(w));
}

static bool is_dcp(const char *from) { return ls_dcp_is(from) && !ls_checkpoint_is(from); }

/* --prefix is of the names that are read, if there are any, else of those that are written. */
static const char *target_prefix(const ls_export_opts *o, const char *from)
{
    return is_dcp(from) ? NULL : o->prefix;
}

static ls_status export_dcp(const ls_export_opts *o, const ls_ui *ui, const char *from,
                            const ls_weights_export_opts *opts)
{
    ls_weights *w;
    LS_TRY(ls_saved_model_weights(&w, from, o->prefix));
    ls_status s = ls_export_select(w, from, o);
    if (s == LS_OK)
        s = ls_export_dcp_optimizer(w, from, o->prefix, &(ls_export_target){ o->to, NULL, opts });
    if (s == LS_OK)
        tell(o, ui, from, w);
    ls_weights_close(&w);
    return s;
}

/* Opens a checkpoint, with the weights that it leaves in its base. A copy of damaged ones would look whole,
 * so all bytes are verified. */
static ls_status open_whole(ls_checkpoint *c, const char *from, const ls_export_opts *o)
{
    ls_recipe *r = NULL;
    char *base = o->base ? ls_sys_text("checkpoint.base=%s", o->base) : NULL;
    const char *const sets[] = { base };
    LS_TRY(ls_checkpoint_open(c, from, LS_VERIFY_FULL, NULL));
    ls_status s = ls_sys_have(o->base && !base ? NULL : c);
    if (s == LS_OK && ls_part_is(from)) {
        s = ls_setup_recorded(&r, from, base ? 1 : 0, sets);
        s = s == LS_OK ? ls_base_join(c, r, NULL, NULL) : s;
    }
    ls_recipe_destroy(&r);
    free(base);
    if (s != LS_OK)
        ls_checkpoint_release(c);
    return s;
}

/* Exports the optimizer's state, too, which only a checkpoint or a DCP directory has. */
static ls_status export_state(const ls_export_opts *o, const ls_ui *ui, const char *from,
                              const ls_weights_export_opts *opts)
{
    ls_checkpoint c;
    if (is_dcp(from))
        return export_dcp(o, ui, from, opts);
    if (!ls_checkpoint_is(from))
        return ls_fail(LS_E_USAGE, "--optimizer: %s is neither a run, a checkpoint nor a DCP directory",
                       o->from);
    LS_TRY(open_whole(&c, from, o));
    ls_status s = ls_folder_add_names(c.weights, from);
    if (s == LS_OK)
        s = ls_export_select(c.weights, from, o);
    if (s == LS_OK)
        s = ls_export_optimizer(&c, &(ls_export_target){ o->to, o->prefix, opts });
    if (s == LS_OK)
        tell(o, ui, from, c.weights);
    ls_checkpoint_release(&c);
    return s;
}

static ls_status write_model(const ls_export_opts *o, const char *from, ls_weights *w, const char *prefix,
                             const ls_weights_export_opts *opts)
{
    LS_TRY(ls_export_select(w, from, o));
    return ls_export_model(
        w, from, o->to,
        &(ls_export_how){ .format = o->format, .mix = o->mix, .prefix = prefix, .opts = opts });
}

static ls_status export_checkpoint(const ls_export_opts *o, const ls_ui *ui, const char *from,
                                   const ls_weights_export_opts *opts)
{
    ls_checkpoint c;
    if (!ls_checkpoint_is(from))
        return ls_fail(LS_E_USAGE, "--ema: only a run or a checkpoint has moving averages of its weights");
    LS_TRY(open_whole(&c, from, o));
    ls_status s = o->ema ? ls_checkpoint_use_ema(&c) : LS_OK;
    if (s == LS_OK)
        s = write_model(o, from, c.weights, o->format == LS_EXPORT_DCP ? o->prefix : NULL, opts);
    if (s == LS_OK)
        tell(o, ui, from, c.weights);
    ls_checkpoint_release(&c);
    return s;
}

static ls_status export_weights(const ls_export_opts *o, const ls_ui *ui, const char *from,
                                const ls_weights_export_opts *opts)
{
    if (ls_checkpoint_is(from))
        LS_TRY(ls_checkpoint_verify(from, LS_VERIFY_FULL, NULL));
    ls_weights *w;
    const char *prefix = o->format == LS_EXPORT_DCP ? target_prefix(o, from) : NULL;
    LS_TRY(ls_saved_model_weights(&w, from, prefix ? NULL : o->prefix));
    ls_status s = write_model(o, from, w, prefix, opts);
    if (s == LS_OK)
        tell(o, ui, from, w);
    ls_weights_close(&w);
    return s;
}

/* A device, or a link to one, cannot be replaced by a new file: it is opened and written. */
static ls_status check_target(const ls_export_opts *o)
{
    struct stat st;
    if (o->force || stat(o->to, &st) || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
        return LS_OK;
    return ls_fail(LS_E_USAGE, "--to %s: already there; --force replaces it", o->to);
}

static ls_status check_base(const ls_export_opts *o, const char *from)
{
    const bool adapter = ls_adapter_is(from);
    if (!o->base || ls_part_is(from) || (adapter && (o->merge || o->format == LS_EXPORT_GGUF)))
        return LS_OK;
    return adapter
               ? ls_fail(LS_E_USAGE,
                         "--base: adapters are exported without it, unless with --merge or --to FILE.gguf")
               : ls_fail(LS_E_USAGE, "--base: %s leaves out no weights", from);
}

ls_status ls_export_command(const ls_export_opts *o, const ls_ui *ui)
{
    char *from;
    ls_status s = find_weights(&from, o->from, o->best);
    if (s == LS_OK)
        s = check_target(o);
    if (s == LS_OK)
        s = check_base(o, from);
    if (s == LS_OK) {
        const ls_weights_export_opts opts = { .floats = o->convert ? &o->dtype : NULL,
                                              .progress = progress,
                                              .context = (void *)ui,
                                              .replace = o->force,
                                              .ranks = o->ranks ? o->ranks : 1 };
        int64_t tensors = 0;
        if (o->merge || ls_adapter_is(from)) {
            s = ls_export_adapter(o, from, &opts, &tensors);
            if (s == LS_OK)
                tell_number(o, ui, from, tensors);
        } else
            s = (o->ema             ? export_checkpoint
                 : o->optimizer     ? export_state
                 : ls_part_is(from) ? export_checkpoint
                                    : export_weights)(o, ui, from, &opts);
        if (ui->progress)
            ui->progress(ui->context, NULL);
    }
    free(from);
    return s;
}
