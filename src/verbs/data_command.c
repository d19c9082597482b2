/* data_command.c - `lockstep data`: what the model will see of an epoch, as tables on the terminal or as a
 * page. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/file.h"
#include "base/log.h"
#include "base/shown.h"
#include "base/sys.h"
#include "commands.h"
#include "data/weighted_set.h"
#include "data_chat.h"
#include "data_page.h"
#include "recipe/model_row.h"
#include "screen/table.h"

static const char *number(char out[32], double x)
{
    ls_snprintf(out, 32, "%.6g", x);
    return out;
}

static void fields(ls_table *t, const ls_data_view *v)
{
    for (int k = 0; k < v->set->n_fields; k++) {
        const ls_field *f = &v->set->fields[k];
        const ls_view_stats s = ls_data_view_stats(v, k, v->drawn[k], 1, 1, 0);
        char type[128], room[4][32], missing[64] = "";
        if (s.missing)
            snprintf(missing, sizeof missing, "%lld do not count", (long long)s.missing);
        ls_table_row(t,
                     (const char *[]){ f->name, ls_type_text(type, &f->type), number(room[0], s.least),
                                       number(room[1], s.most), number(room[2], s.mean),
                                       number(room[3], s.deviation), missing },
                     NULL);
    }
}

static void classes(ls_table *t, const ls_data_view *v)
{
    const ls_field *f = &v->set->fields[v->labels];
    for (int64_t c = 0; c < f->below; c++) {
        char of[32], n[32], share[32];
        snprintf(of, sizeof of, "%lld", (long long)c);
        snprintf(n, sizeof n, "%lld", (long long)v->counts[c]);
        ls_snprintf(share, sizeof share, "%.2f%%", 100 * (double)v->counts[c] / (double)v->set->n);
        ls_table_row(t, (const char *[]){ f->names ? f->names[c] : of, n, share }, NULL);
    }
}

/* Says when classes are so unequal that weights may help, and nothing does it yet. */
static void advise(FILE *out, const ls_data_view *v)
{
    enum { UNEQUAL = 10 };
    const int64_t n = v->set->fields[v->labels].below;
    int64_t least = -1, most = 0;
    for (int64_t c = 0; c < n; c++) {
        const int64_t count = v->counts[c];
        most = count > most ? count : most;
        least = count && (least < 0 || count < least) ? count : least;
    }
    if (v->set->split == LS_SPLIT_TRAIN && least > 0 && most >= UNEQUAL * least &&
        !ls_recipe_weighs_classes(v->recipe) && !v->order.draws)
        fprintf(out,
                "The largest class has %lld times as many samples as the smallest: `loss.class_weights: "
                "balanced` or `data.sampler: balanced` might help (docs/classes.md).\n\n",
                (long long)(most / least));
}

static ls_status samples(ls_table *t, const ls_data_view *v)
{
    ls_status s = LS_OK;
    for (int64_t k = 0; k < v->n && s == LS_OK; k++) {
        const ls_viewed *at = &v->samples[k];
        ls_str label = { 0 }, steps = { 0 };
        char sample[32], step[32], row[32];
        char *file = v->set->file ? v->set->file(v->set, at->sample) : NULL;
        if (v->set->file && s == LS_OK)
            s = ls_sys_have(file);
        snprintf(row, sizeof row, "%lld", (long long)ls_weighted_row(v->set, at->sample));
        snprintf(sample, sizeof sample, "%lld", (long long)at->sample);
        snprintf(step, sizeof step, "%lld", (long long)at->step);
        ls_data_view_target(v, k, &label);
        ls_data_view_steps(v, k, &steps);
        if (v->tokenizer && s == LS_OK)
            s = ls_data_view_text(v, 0, k, &steps);
        ls_table_row(
            t, (const char *[]){ step, sample, ls_str_text(&label), ls_str_text(&steps), file ? file : row },
            NULL);
        free(file);
        if (s == LS_OK)
            s = ls_str_status(&steps);
        ls_str_release(&label);
        ls_str_release(&steps);
    }
    return s;
}

static ls_status print(FILE *out, ls_table *t, int width, ls_status s)
{
    if (s == LS_OK && t->n_rows)
        s = ls_table_print(out, t, width);
    if (s == LS_OK)
        fputs("\n", out);
    ls_table_release(t);
    return s;
}

static ls_status tables(const ls_data_view *v, const ls_ui *ui)
{
    static const ls_column FIELDS[] = { { "field", true, 0 }, { "type", true, 0 },  { "min", false, 0 },
                                        { "max", false, 0 },  { "mean", false, 0 }, { "deviation", false, 0 },
                                        { "", true, 1 } },
                           CLASSES[] = { { "class", true, 0 },
                                         { "samples", false, 0 },
                                         { "share", false, 0 } },
                           CHANGES[] = { { "step", false, 2 },
                                         { "sample", false, 0 },
                                         { "label", true, 0 },
                                         { "changes", true, 0 } },
                           TEXTS[] = { { "step", false, 2 },
                                       { "sample", false, 0 },
                                       { "label", true, 0 },
                                       { "text", true, 0 } };
    ls_table t = { .n_columns = 7, .columns = FIELDS };
    fprintf(ui->out, "%s, %s split: %lld samples; %s\n", v->set->name,
            v->set->split == LS_SPLIT_TRAIN ? "training" : "evaluation", (long long)v->set->n,
            v->set->source);
    fprintf(ui->out, "the first %lld samples of epoch %lld:\n\n", (long long)v->n, (long long)v->epoch);
    fields(&t, v);
    LS_TRY(print(ui->out, &t, ui->width, LS_OK));
    if (v->counts) {
        t = (ls_table){ .n_columns = 3, .columns = CLASSES };
        classes(&t, v);
        LS_TRY(print(ui->out, &t, ui->width, LS_OK));
        advise(ui->out, v);
    }
    if (!strcmp(v->set->name, "chat"))
        return ls_data_chat_print(v, ui);
    /* where a sample is, if its number does not say it */
    ls_column columns[5] = { [4] = { v->set->file ? "file" : "row", true, 1 } };
    memcpy(columns, v->tokenizer ? TEXTS : CHANGES, 4 * sizeof *columns);
    t = (ls_table){ .n_columns = 4 + (v->set->file || ls_weighted_row(v->set, 0) >= 0), .columns = columns };
    return print(ui->out, &t, ui->width, samples(&t, v));
}

static ls_status page(const ls_data_view *v, const char *path)
{
    ls_str out = { 0 };
    ls_status s = ls_data_page(v, &out);
    if (s == LS_OK)
        s = ls_file_write_text(path, &out);
    ls_str_release(&out);
    if (s == LS_OK)
        ls_log_info("wrote %s: %lld samples of epoch %lld", path, (long long)v->n, (long long)v->epoch);
    return s;
}

ls_status ls_data_command(const ls_data_opts *o, const ls_ui *ui)
{
    ls_data_view v;
    LS_TRY(ls_data_view_open(&v, &o->recipe, o->eval_split ? LS_SPLIT_EVAL : LS_SPLIT_TRAIN, o->epoch,
                             o->samples, ui));
    const ls_status s = o->out ? page(&v, o->out) : tables(&v, ui);
    ls_data_view_release(&v);
    return s;
}
