/* verb_use.c - options of the verbs that look at runs, and get and use trained models: runs, eval, predict,
 * inspect, export, get. */
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "cli.h"
#include "record/rundir.h"
#include "record/runs_page.h"
#include "verbs/metrics_table.h"

/* RUN is a folder, or the name of a run in STORAGE, as `lockstep runs` shows it. */
static ls_status show_metrics(const ls_args *a, const char *storage, const ls_ui *ui)
{
    const char *run = ls_args_value(a, "--metrics");
    const ls_metrics_format format = ls_args_has(a, "--csv")    ? LS_METRICS_CSV
                                     : ls_args_has(a, "--json") ? LS_METRICS_JSON
                                                                : LS_METRICS_TEXT;
    char *named = ls_path_join(storage, run);
    ls_status s = ls_metrics_print(ui->out, !ls_dir_exists(run) && ls_dir_exists(named) ? named : run,
                                   ls_args_has(a, "--steps"), format, ui->width);
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
    const char *storage = a->n_words ? a->words[0] : "runs";
    const bool csv = ls_args_has(a, "--csv"), json = ls_args_has(a, "--json");
    if (csv && json)
        return ls_fail(LS_E_USAGE, "--csv and --json: give one of them");
    if (ls_args_has(a, "--metrics") && ls_args_has(a, "--html"))
        return ls_fail(LS_E_USAGE, "--metrics and --html: give one of them; each run has a report.html");
    if (ls_args_has(a, "--metrics"))
        return show_metrics(a, storage, ui);
    if (ls_args_has(a, "--html"))
        return json || csv ? ls_fail(LS_E_USAGE, "--html and %s: give one of them", csv ? "--csv" : "--json")
                           : write_page(ls_args_value(a, "--html"), storage);
    if (csv || ls_args_has(a, "--steps"))
        return ls_fail(LS_E_USAGE, "%s goes with --metrics RUN", csv ? "--csv" : "--steps");
    return ls_runs_print(ui->out, storage, json, ui->width);
}

/* Options of texts. */
static const char *const TEXT[] = { "--tokens",         "--min-tokens",     "--no-repeat", "--temperature",
                                    "--top-k",          "--top-p",          "--seed",      "--beams",
                                    "--length-penalty", "--early-stopping", NULL };

static ls_status refuse_any(const ls_args *a, const char *const *options, const char *why)
{
    for (const char *const *o = options; *o; o++)
        if (ls_args_has(a, *o))
            return ls_fail(LS_E_USAGE, "%s %s", *o, why);
    return LS_OK;
}

static ls_status sampling(const ls_args *a, ls_sampling *s)
{
    static const char *const CHANCE[] = { "--top-k", "--top-p", "--seed", NULL };
    int64_t seed = 0;
    LS_TRY(ls_args_number(a, "--temperature", 0, 100, &s->temperature));
    LS_TRY(ls_args_int(a, "--top-k", 1, &s->top_k));
    LS_TRY(ls_args_number(a, "--top-p", 0, 1, &s->top_p));
    LS_TRY(ls_args_int(a, "--seed", 0, &seed));
    s->seed = (uint64_t)seed;
    if (!(s->top_p > 0))
        return ls_fail(LS_E_USAGE, "--top-p %s: more than 0 is needed", ls_args_value(a, "--top-p"));
    return s->temperature == 0
               ? refuse_any(a, CHANCE, "needs --temperature T: without it the most likely token is taken")
               : LS_OK;
}

static ls_status beam_search(const ls_args *a, ls_generate_opts *how, int64_t *beams)
{
    static const char *const BEAMS[] = { "--length-penalty", "--early-stopping", NULL };
    static const char *const STOPS[] = { "false", "true", "never" };
    const char *stop = ls_args_value(a, "--early-stopping");
    LS_TRY(ls_args_int(a, "--beams", 1, beams));
    LS_TRY(ls_args_number(a, "--length-penalty", -100, 100, &how->length_penalty));
    for (int i = 0; i < 3; i++)
        if (stop && !strcmp(stop, STOPS[i]))
            how->early_stopping = (ls_early_stopping)i;
    if (stop && strcmp(stop, STOPS[how->early_stopping]) != 0)
        return ls_fail(LS_E_USAGE, "--early-stopping %s: false, true or never is needed", stop);
    if (*beams == 1)
        return refuse_any(a, BEAMS, "needs --beams N: without it one text is generated");
    if (*beams > 1024)
        return ls_fail(LS_E_USAGE, "--beams %lld is too large: at most 1024 are possible", (long long)*beams);
    if (how->sampling.temperature > 0)
        return ls_fail(LS_E_USAGE,
                       "--beams and --temperature: beam search does not sample; give one of them");
    return LS_OK;
}

/* How texts are made. */
static ls_status text_options(const ls_args *a, ls_generate_opts *how, int64_t *beams)
{
    *how = ls_generate_opts_default();
    *beams = 1;
    LS_TRY(ls_args_int(a, "--tokens", 1, &how->tokens));
    LS_TRY(ls_args_int(a, "--min-tokens", 0, &how->least));
    LS_TRY(ls_args_int(a, "--no-repeat", 1, &how->no_repeat));
    LS_TRY(sampling(a, &how->sampling));
    if (how->tokens > 1 << 24)
        return ls_fail(LS_E_USAGE, "--tokens %lld is too large: at most %d are possible",
                       (long long)how->tokens, 1 << 24);
    return beam_search(a, how, beams);
}

ls_status ls_verb_eval(const ls_args *a, const ls_ui *ui)
{
    ls_eval_opts o = { .target = ls_args_recipe(a),
                       .json = ls_args_has(a, "--json"),
                       .generate = ls_args_has(a, "--generate"),
                       .hosts = ls_args_hosts(a),
                       .argv = a->argv };
    if (!o.generate)
        LS_TRY(refuse_any(a, TEXT, "goes with --generate"));
    LS_TRY(text_options(a, &o.how, &o.beams));
    return ls_eval_command(&o, ui);
}

/* Refuses options for images where text is made, and the other way round. `rows`: --out is a file of every
 * prediction of a split; `lines`: or text. */
static ls_status check_kind(const ls_args *a, bool prompt, bool rows, bool lines)
{
    static const char *const SPLIT[] = { "--split", "--first", "--count", "--out", "--output", NULL };
    static const char *const IMAGES[] = { "--resize", "--show", NULL };
    static const char *const ROWS[] = { "--output", NULL };
    if (prompt)
        LS_TRY(refuse_any(a, SPLIT, "is for samples of a split, and --prompt is one text"));
    if (prompt || rows)
        LS_TRY(refuse_any(a, IMAGES, "is for models of images"));
    if (!prompt && !lines)
        LS_TRY(refuse_any(a, TEXT, "goes with --prompt TEXT or --out FILE.jsonl"));
    if (!rows)
        LS_TRY(refuse_any(a, ROWS, "goes with --out FILE.npy, FILE.csv or FILE.jsonl"));
    if (prompt && a->n_words > 1)
        return ls_fail(LS_E_USAGE, "%s: an image, and --prompt is for models that generate text",
                       a->words[1]);
    return LS_OK;
}

static bool ends_in(const char *name, const char *const *ends)
{
    const char *dot = name ? strrchr(name, '.') : NULL;
    for (int i = 0; dot && ends[i]; i++)
        if (!strcmp(dot, ends[i]))
            return true;
    return false;
}

ls_status ls_verb_predict(const ls_args *a, const ls_ui *ui)
{
    static const char *const ROWS[] = { ".npy", ".csv", ".jsonl", NULL }, *const LINES[] = { ".jsonl", NULL },
                             *const PICTURES[] = { ".svg", ".png", NULL };
    const char *split = ls_args_value(a, "--split"), *out = ls_args_value(a, "--out");
    const bool rows = ends_in(out, ROWS);
    ls_predict_opts o = { .target = ls_args_recipe(a),
                          .n_inputs = a->n_words - 1,
                          .inputs = a->words + 1,
                          .train_split = split && !strcmp(split, "train"),
                          .count = rows ? INT64_MAX : 10,
                          .resize = ls_args_has(a, "--resize"),
                          .out = out,
                          .output = ls_args_value(a, "--output"),
                          .show = ls_args_has(a, "--show"),
                          .prompt = ls_args_value(a, "--prompt"),
                          .json = ls_args_has(a, "--json"),
                          .argv = a->argv };
    LS_TRY(check_kind(a, o.prompt != NULL, rows, ends_in(out, LINES)));
    LS_TRY(text_options(a, &o.how, &o.beams));
    if (split && strcmp(split, "train") && strcmp(split, "eval"))
        return ls_fail(LS_E_USAGE, "--split %s: eval or train is needed", split);
    LS_TRY(ls_args_int(a, "--first", 0, &o.first));
    LS_TRY(ls_args_int(a, "--count", 1, &o.count));
    if (o.show && o.json)
        return ls_fail(LS_E_USAGE, "--show and --json: give one of them");
    if (o.n_inputs && (split || ls_args_has(a, "--first") || ls_args_has(a, "--count")))
        return ls_fail(
            LS_E_USAGE,
            "--split, --first and --count choose samples of the data set; with image files leave them out");
    if (out && !rows && !ends_in(out, PICTURES))
        return ls_fail(
            LS_E_USAGE,
            "--out %s: the name must end in .svg or .png for a picture, or in .npy, .csv or .jsonl "
            "for every prediction of the split (texts: .jsonl)",
            out);
    return ls_predict_command(&o, ui);
}

ls_status ls_verb_inspect(const ls_args *a, const ls_ui *ui)
{
    const ls_inspect_opts o = { .target = ls_args_recipe(a),
                                .prefix = ls_args_value(a, "--prefix"),
                                .verify = ls_args_has(a, "--verify"),
                                .json = ls_args_has(a, "--json"),
                                .html = ls_args_value(a, "--html") };
    return ls_inspect_command(&o, ui);
}

ls_status ls_verb_export(const ls_args *a, const ls_ui *ui)
{
    const char *type = ls_args_value(a, "--dtype");
    ls_export_opts o = { .from = a->words[0],
                         .to = ls_args_value(a, "--to"),
                         .convert = type != NULL,
                         .optimizer = ls_args_has(a, "--optimizer"),
                         .ema = ls_args_has(a, "--ema"),
                         .prefix = ls_args_value(a, "--prefix"),
                         .module = ls_args_value(a, "--module"),
                         .strip_prefix = ls_args_has(a, "--strip-prefix"),
                         .ignore_frozen = ls_args_has(a, "--ignore-frozen"),
                         .force = ls_args_has(a, "--force") };
    if (o.strip_prefix && (!o.module || o.optimizer))
        return ls_fail(LS_E_USAGE, "--strip-prefix: %s",
                       o.optimizer ? "the optimizer's state keeps the names of the whole model"
                                   : "say which module's: --module NAME");
    if (!o.to || !*o.to)
        return ls_fail(LS_E_USAGE,
                       "lockstep export needs --to FILE.safetensors, --to FILE.pt or --to DIRECTORY/");
    int64_t ranks = 1;
    LS_TRY(ls_args_int(a, "--ranks", 1, &ranks));
    o.ranks = ranks < INT32_MAX ? (int)ranks : INT32_MAX;
    const char *end = strrchr(o.to, '.');
    const bool directory = o.to[strlen(o.to) - 1] == '/';
    if (!directory && (!end || (strcmp(end, ".safetensors") && strcmp(end, ".pt"))))
        return ls_fail(LS_E_USAGE,
                       "--to %s: its name must end in .safetensors or .pt, or, for a directory, in /: that "
                       "says what to write",
                       o.to);
    if (ls_args_has(a, "--ranks") && !directory)
        return ls_fail(LS_E_USAGE, "--ranks: only a directory has one file per rank: --to %s/", o.to);
    if (o.optimizer && !directory)
        return ls_fail(LS_E_USAGE, "--optimizer: only a directory can hold the optimizer state: --to %s/",
                       o.to);
    if (type &&
        (!ls_dtype_parse(type, &o.dtype) || (o.dtype != LS_F32 && o.dtype != LS_BF16 && o.dtype != LS_F16)))
        return ls_fail(LS_E_USAGE, "--dtype %s: f32, bf16 or f16 is needed", type);
    return ls_export_command(&o, ui);
}

ls_status ls_verb_new(const ls_args *a, const ls_ui *ui) { return ls_new_command(a->words[0], ui); }

ls_status ls_verb_get(const ls_args *a, const ls_ui *ui)
{
    const ls_get_opts o = { .name = a->words[0],
                            .revision = ls_args_value(a, "--revision"),
                            .n_files = a->n_words - 1,
                            .files = a->words + 1,
                            .to = ls_args_value(a, "--to"),
                            .mirror = ls_args_value(a, "--mirror"),
                            .list = ls_args_has(a, "--list"),
                            .json = ls_args_has(a, "--json") };
    return ls_get_command(&o, ui);
}
