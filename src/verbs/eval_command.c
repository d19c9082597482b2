/* eval_command.c - `lockstep eval`: loss and accuracy of a run's weights on the evaluation split. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/c_locale.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/shown.h"
#include "base/str.h"
#include "split_texts.h"
#include "ckpt/manifest.h"
#include "comm/agree.h"
#include "loop/data_record.h"
#include "screen/confusion_table.h"
#include "step/evaluate.h"
#include "launch/rank.h"
#include "workers.h"

/* What comparing generated texts with their targets measured. */
typedef struct generated {
    ls_metric_list metrics;
    ls_texts_made made;
} generated;

static ls_status print(const ls_ui *ui, const ls_saved_model *t, const ls_dataset *set,
                       const ls_eval_result *e, int64_t step, const char *other_data, const generated *g,
                       bool json)
{
    const bool text = ls_dataset_is_text(set) && !isnan(e->accuracy) &&
                      isnan(ls_metric_list_find(&e->metrics, "perplexity"));
    char perplexity[40] = "", number[32];
    if (!json) {
        if (text)
            ls_snprintf(perplexity, sizeof perplexity, "  perplexity %.6g", ls_evaluate_perplexity(e));
        if (t->checkpoint)
            ls_print_line(ui->out, "%s  step %lld", t->checkpoint, (long long)step);
        else
            ls_print_line(ui->out, "%s", t->recipe->model.init);
        ls_print_line(ui->out, "%s%s", set->source, set->builtin ? "  BUILT-IN SHAPES, not real data" : "");
        ls_str line = { 0 };
        if (isnan(e->loss))
            ls_str_printf(&line, "no loss (%s)", ls_evaluate_why(e, "loss"));
        else
            ls_str_printf(&line, "loss %s%s", ls_format_number(number, "%.6f", e->loss), perplexity);
        for (int i = 1; i < e->metrics.n; i++)
            if (isnan(e->metrics.at[i].value))
                ls_str_printf(&line, "  no %s (%s)", e->metrics.at[i].name,
                              ls_evaluate_why(e, e->metrics.at[i].name));
            else if (strcmp(e->metrics.at[i].name, "accuracy") != 0)
                ls_str_printf(&line, "  %s %.6g", e->metrics.at[i].name, e->metrics.at[i].value);
            else
                ls_str_printf(&line, "  accuracy %.4f  (%lld of %lld)", e->accuracy, (long long)e->correct,
                              (long long)e->count);
        ls_print_line(ui->out, "%s  %.2f s", ls_str_text(&line), e->seconds);
        ls_str_release(&line);
        for (int i = 0; g && i < g->metrics.n; i++)
            ls_str_printf(&line, "%s %.4f  ", g->metrics.at[i].name, g->metrics.at[i].value);
        if (g)
            ls_print_line(ui->out, "%s(%lld texts)  %.2f s", ls_str_text(&line), (long long)g->made.texts,
                          g->made.seconds);
        ls_str_release(&line);
        for (int i = 0; i < e->confusions.n; i++)
            LS_TRY(ls_confusion_print(ui->out, &e->confusions.at[i], e->confusions.n > 1, ui->width));
        return LS_OK;
    }
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_text(&j, t->checkpoint ? "checkpoint" : "model",
                 t->checkpoint ? t->checkpoint : t->recipe->model.init);
    if (t->checkpoint)
        ls_json_int(&j, "step", step);
    ls_json_text(&j, "data", set->source);
    ls_json_bool(&j, "builtin_data", set->builtin);
    if (other_data)
        ls_json_text(&j, "other_data", other_data);
    ls_json_f64(&j, "loss", e->loss);
    if (text)
        ls_json_f64(&j, "perplexity", ls_evaluate_perplexity(e));
    for (int i = 1; i < e->metrics.n; i++)
        ls_json_f64(&j, e->metrics.at[i].name, e->metrics.at[i].value);
    if (!isnan(e->accuracy))
        ls_json_int(&j, "correct", e->correct);
    if (isnan(e->loss))
        ls_json_bool(&j, "skipped", true);
    ls_json_int(&j, "targets", e->count);
    ls_json_int(&j, "samples", e->samples);
    ls_json_f64(&j, "seconds", e->seconds);
    if (g) {
        ls_metric_list_write(&j, "", &g->metrics);
        ls_json_int(&j, "texts", g->made.texts);
        ls_json_f64(&j, "generate_seconds", g->made.seconds);
    }
    ls_confusions_write(&j, &e->confusions);
    ls_json_close_object(&j);
    return ls_print_result(ui->out, &j.out);
}

/* Texts are made in one process, by a model that reads sources. */
static ls_status check_generate(const ls_saved_model *t, bool several)
{
    const ls_model_row *m = ls_recipe_model(t->recipe);
    if (!ls_model_reads_sources(m))
        return ls_fail(LS_E_USAGE,
                       "--generate needs a T5, which writes a text for each source; this model is of type %s",
                       m->name);
    return several ? ls_fail(LS_E_USAGE,
                             "--generate runs in one process, with all its threads: leave out workers")
                   : LS_OK;
}

static ls_status generate(generated *out, const ls_recipe_arg *model, const ls_dataset *set,
                          const ls_split_opts *o, const ls_ui *ui)
{
    ls_text_model m;
    LS_TRY(ls_text_model_open(&m, model, !ls_saved_model_is_folder(model), true));
    const ls_status s = ls_split_compare(&out->metrics, &out->made, &m, set, o, ui);
    ls_text_model_release(&m);
    return s;
}

static ls_status evaluate(const ls_saved_model *t, ls_group *g, const ls_eval_opts *o, const ls_ui *ui)
{
    ls_setup setup;
    ls_trainer *trainer = NULL;
    ls_dataset *set = NULL;
    ls_eval_result e = { .samples = 0 };
    generated texts = { .made = { 0 } };
    ls_rounds rounds = ls_rounds_of_flag(g, ui->stop);
    char *other_data = NULL;
    int64_t step = 0;
    LS_TRY(ls_saved_model_trainer(t, g, &setup, &trainer, &step));
    ls_status s = ls_setup_data(&set, t->recipe, &setup, LS_SPLIT_EVAL, ui);
    if (s == LS_OK)
        s = ls_setup_balance(&set, t->recipe, &setup, LS_SPLIT_EVAL, ui);
    if (g)
        s = ls_ranks_agree(g, s);
    if (s == LS_OK)
        s = ls_data_agree(g, NULL, set);
    LS_TRY_TO(s, s, end);
    other_data = !g || ls_group_rank(g) == 0 ? ls_saved_model_other_data(t, set) : NULL;
    LS_TRY_TO(s, ls_evaluate(trainer, set, ui, &rounds, &e), end);
    if (o->generate) {
        ls_rounds writing = ls_rounds_of_flag(NULL, ui->stop);
        const ls_split_opts all = {
            .samples.n = set->n, .how = o->how, .beams = o->beams, .rounds = &writing
        };
        ls_trainer_destroy(&trainer);
        LS_TRY_TO(s, generate(&texts, &o->model, set, &all, ui), end);
    }
    if (!g || ls_group_rank(g) == 0)
        s = print(ui, t, set, &e, step, other_data, o->generate ? &texts : NULL, o->json);
end:
    ls_eval_result_release(&e);
    ls_metric_list_release(&texts.metrics);
    free(other_data);
    ls_trainer_destroy(&trainer);
    ls_dataset_close(&set);
    return s;
}

/* The digest of a checkpoint's manifest, which has a checksum of every byte; 0: there is none. */
static ls_status identify(uint64_t *out, const ls_saved_model *t)
{
    char *path = t->checkpoint ? ls_path_join(t->checkpoint, LS_MANIFEST) : NULL, *text = NULL;
    size_t n = 0;
    *out = 0;
    const ls_status s = path && access(path, F_OK) == 0 ? ls_file_read(&text, &n, path) : LS_OK;
    if (s == LS_OK && text)
        *out = ls_hash64(text, n);
    free(text);
    free(path);
    return s;
}

/* Each host opens the model by its name. `s` is what came of that. LS_E_USAGE if a host has not that of
 * rank 0. Collective. */
static ls_status agree_on_model(ls_group *g, const ls_saved_model *t, ls_status s)
{
    const bool elsewhere = ls_group_hosts(g) > 1 && ls_group_rank(g) > 0;
    uint64_t own = 0, first;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    if (s == LS_OK)
        s = identify(&own, t);
    else if (elsewhere)
        s = ls_fail(s, "host %s: %s; all hosts read the model, so it has to be in a folder that they share",
                    host, ls_error_message());
    first = own;
    LS_TRY(ls_group_broadcast(g, &first, sizeof first, 0));
    if (s == LS_OK && own != first && ls_group_hosts(g) == 1)
        s = ls_fail(
            LS_E_USAGE,
            "%s is not the checkpoint that rank 0 has under this name: if the run is still trained, it "
            "has saved meanwhile, so start eval again",
            t->checkpoint ? t->checkpoint : "the model");
    else if (s == LS_OK && own != first)
        s = ls_fail(
            LS_E_USAGE,
            "host %s: %s is not the checkpoint that rank 0 has under this name: all hosts read it, so "
            "it has to be in a folder that they share",
            host, t->checkpoint ? t->checkpoint : "the model");
    return ls_ranks_agree(g, s);
}

/* Runs as a rank of an existing group, as the parent of the ranks that it starts, or as the only process. */
static ls_status eval_run(ls_group *g, const ls_eval_opts *o, const ls_ui *ui)
{
    ls_saved_model t;
    ls_status s = ls_saved_model_is_folder(&o->model) ? ls_saved_model_open_folder(&t, &o->model)
                                                      : ls_saved_model_open(&t, &o->model);
    LS_TRY(g ? agree_on_model(g, &t, s) : s);
    ls_launch_opts ranks = { .ranks = 1, .argv = o->argv, .stop = ui->stop, .pass = ui->pass };
    ls_hosts *hosts = NULL;
    if (o->generate)
        s = check_generate(&t, g || ls_saved_model_several(&t) || o->hosts.list || o->hosts.file);
    if (s == LS_OK && !g)
        s = ls_workers_told(&ranks, &hosts, &o->hosts, t.recipe);
    if (s == LS_OK)
        s = ranks.ranks > 1 || hosts || ranks.cores ? ls_launch(&ranks) : evaluate(&t, g, o, ui);
    ls_hosts_free(&hosts);
    ls_saved_model_release(&t);
    return s;
}

ls_status ls_eval_command(const ls_eval_opts *o, const ls_ui *ui)
{
    ls_group *g = NULL;
    char message[4096] = "";
    ls_status s = ls_rank_join(&g, ui);
    if (s == LS_OK)
        s = eval_run(g, o, ui);
    if (s != LS_OK)
        snprintf(message, sizeof message, "%s", ls_error_message());
    if (g && s != LS_OK && s != LS_E_PEER)
        ls_group_fail(g, s, message);
    s = s == LS_OK ? s : ls_rank_say(g, s, message, ui);
    ls_group_destroy(&g);
    return s;
}
