/* verb_use.c - options of the verbs that look at runs, and get and use trained models: runs, eval, predict,
 * inspect, export, get. */
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/str.h"
#include "base/sys.h"
#include "cli.h"
#include "record/rundir.h"
#include "pages/runs_page.h"
#include "screen/runs.h"
#include "verbs/metrics_table.h"

/* RUN is a folder, or the name of a run in STORAGE, as `lockstep runs` shows it. */
static ls_status show_metrics(const ls_runs_opts *o, const ls_ui *ui)
{
    const ls_metrics_format format = o->csv ? LS_METRICS_CSV : o->json ? LS_METRICS_JSON : LS_METRICS_TEXT;
    char *named = ls_path_join(o->storage, o->metrics);
    ls_status s = ls_metrics_print(ui->out,
                                   !ls_dir_exists(o->metrics) && ls_dir_exists(named) ? named : o->metrics,
                                   o->steps, format, ui->width);
    free(named);
    return s;
}

static ls_status write_page(const char *path, const char *storage)
{
    LS_TRY(ls_runs_page_write(path, storage));
    ls_log_info("written %s", path);
    return LS_OK;
}

ls_status ls_verb_runs(const ls_args *a, const ls_ui *ui)
{
    ls_runs_opts o = { .storage = a->n_words ? a->words[0] : "runs" };
    LS_TRY(ls_args_take(a, a->verb->options, &o));
    return o.metrics ? show_metrics(&o, ui)
           : o.html  ? write_page(o.html, o.storage)
                     : ls_runs_print(ui->out, o.storage, o.json, ui->width);
}

ls_status ls_verb_verify(const ls_args *a, const ls_ui *ui)
{
    ls_verify_opts o = { .run = ls_args_recipe(a), .from = -1 };
    LS_TRY(ls_args_take(a, a->verb->options, &o));
    return ls_verify_command(&o, ui);
}

ls_status ls_verb_eval(const ls_args *a, const ls_ui *ui)
{
    ls_eval_opts o = { .model = ls_args_recipe(a), .how = ls_generate_opts_default(), .argv = a->argv };
    LS_TRY(ls_args_take(a, a->verb->options, &o));
    return ls_eval_command(&o, ui);
}

static bool ends_in(const char *name, const char *const *ends)
{
    const char *dot = name ? strrchr(name, '.') : NULL;
    for (int i = 0; dot && ends[i]; i++)
        if (!strcmp(dot, ends[i]))
            return true;
    return false;
}

static ls_status predict_wrong(ls_predict_opts *o, const ls_ui *ui)
{
    if (o->n_inputs)
        return ls_fail(LS_E_USAGE,
                       "%s: --wrong compares with the classes of the data set: leave out files; the name of "
                       "its page or table is --out FILE.html or FILE.csv",
                       o->inputs[0]);
    if (o->count > 100000)
        return ls_fail(LS_E_USAGE, "--count %lld: --wrong shows at most 100000 samples", (long long)o->count);
    return ls_predict_command(o, ui);
}

ls_status ls_verb_predict(const ls_args *a, const ls_ui *ui)
{
    static const char *const ROWS[] = { ".npy", ".csv", ".jsonl", NULL }, *const PICTURES[] = { ".svg",
                                                                                                ".png",
                                                                                                NULL };
    const bool rows = ends_in(ls_args_value(a, "--out"), ROWS);
    ls_predict_opts o = { .model = ls_args_recipe(a),
                          .n_inputs = a->n_words - 1,
                          .inputs = a->words + 1,
                          .count = ls_args_has(a, "--wrong") ? 60
                                   : rows                    ? INT64_MAX
                                                             : 10,
                          .how = ls_generate_opts_default(),
                          .argv = a->argv };
    LS_TRY(ls_args_take(a, a->verb->options, &o));
    if (o.prompt && o.n_inputs)
        return ls_fail(LS_E_USAGE, "%s: a file, and --prompt is for models that generate text", o.inputs[0]);
    if (o.n_inputs &&
        (ls_args_has(a, "--split") || ls_args_has(a, "--first") || ls_args_has(a, "--count") || o.random))
        return ls_fail(
            LS_E_USAGE,
            "--split, --first, --count and --random choose samples of the data set; with files leave them "
            "out");
    if (o.wrong)
        return predict_wrong(&o, ui);
    if (o.out && !rows && !ends_in(o.out, PICTURES))
        return ls_fail(
            LS_E_USAGE,
            "--out %s: the name must end in .svg or .png for a picture, or in .npy, .csv or .jsonl "
            "for every prediction of the split (texts: .jsonl); .html is for --wrong",
            o.out);
    return ls_predict_command(&o, ui);
}

ls_status ls_verb_chat(const ls_args *a, const ls_ui *ui)
{
    ls_chat_opts o = { .model = ls_args_recipe(a), .sampling = ls_sampling_default() };
    LS_TRY(ls_args_take(a, a->verb->options, &o));
    return ls_chat_command(&o, ui);
}

ls_status ls_verb_inspect(const ls_args *a, const ls_ui *ui)
{
    ls_inspect_opts o = { .model = ls_args_recipe(a) };
    LS_TRY(ls_args_take(a, a->verb->options, &o));
    return ls_inspect_command(&o, ui);
}

ls_status ls_verb_export(const ls_args *a, const ls_ui *ui)
{
    ls_export_opts o = { .from = a->words[0], .convert = ls_args_has(a, "--dtype") };
    LS_TRY(ls_args_take(a, a->verb->options, &o));
    if (!o.to || !*o.to)
        return ls_fail(LS_E_USAGE,
                       "lockstep export needs --to FILE.safetensors, FILE.pt, FILE.gguf or FOLDER/");
    const ls_export_format named = ls_export_format_of(o.to);
    if (o.format == LS_EXPORT_DCP && named != LS_EXPORT_BY_NAME && named != LS_EXPORT_DCP &&
        named != LS_EXPORT_FOLDER)
        return ls_fail(LS_E_USAGE,
                       "--to %s: the name is of a file, and --format dcp writes a directory: choose another "
                       "name, or leave out --format",
                       o.to);
    if (o.format == LS_EXPORT_BY_NAME && named == LS_EXPORT_BY_NAME)
        return ls_fail(LS_E_USAGE,
                       "--to %s: its name must end in " LS_EXPORT_NAMES ": that says what to write", o.to);
    o.format = o.format == LS_EXPORT_BY_NAME ? named : o.format;
    return ls_export_command(&o, ui);
}

ls_status ls_verb_new(const ls_args *a, const ls_ui *ui) { return ls_new_command(a->words[0], ui); }

ls_status ls_verb_get(const ls_args *a, const ls_ui *ui)
{
    ls_get_opts o = { .name = a->words[0], .n_files = a->n_words - 1, .files = a->words + 1 };
    LS_TRY(ls_args_take(a, a->verb->options, &o));
    return ls_get_command(&o, ui);
}
