/* wrong_page.c - see wrong_page.h. The worst samples seen so far are kept, with their pixels, so the split
 * may be larger than memory. */
#include "wrong_page.h"

#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/sys.h"
#include "data/image.h"
#include "data/image_set.h"
#include "pages/page.h"
#include "step/trainer.h"

typedef struct mistake {
    int64_t sample;
    int32_t is, said;
    float of_true, of_said; /* probabilities of the two classes */
    uint8_t *image;
} mistake;

typedef struct wrong_job {
    const ls_predict_opts *o;
    const ls_saved_model *saved;
    const ls_ui *ui;
    ls_setup setup;
    ls_trainer *trainer;
    ls_dataset *set;
    int64_t step, n, wrong, counted; /* kept; mistakes; samples with a label */
    size_t image_bytes;
    mistake *at; /* [count], the worst first */
    uint8_t *images;
    int32_t *labels, *predicted; /* of a batch */
    float *probability;
} wrong_job;

static ls_status keep(wrong_job *j, const mistake *m, const uint8_t *image)
{
    int64_t at = j->n;
    while (at > 0 && j->at[at - 1].of_true > m->of_true) /* of equal ones the first of the split */
        at--;
    if (at == j->o->count)
        return LS_OK;
    uint8_t *own = j->n < j->o->count ? ls_sys_malloc(j->image_bytes) : j->at[j->n - 1].image;
    LS_TRY(ls_sys_have(own));
    j->n += j->n < j->o->count;
    memmove(&j->at[at + 1], &j->at[at], sizeof *j->at * (size_t)(j->n - 1 - at));
    j->at[at] = *m;
    j->at[at].image = memcpy(own, image, j->image_bytes);
    return LS_OK;
}

/* Samples first .. first + n - 1; the rest of the batch is padding. */
static ls_status wrong_batch(wrong_job *j, int64_t first, int64_t n)
{
    const int64_t batch = j->setup.trainer.eval_batch, classes = j->setup.classes;
    for (int64_t i = 0; i < n; i++) {
        void *const to[] = { j->images + (size_t)i * j->image_bytes, &j->labels[i] };
        const int64_t replaced = ls_images_replaced();
        LS_TRY(j->set->read(j->set, first + i, to));
        if (ls_images_replaced() != replaced) /* broken: the image and label are those of another */
            j->labels[i] = LS_IGNORE_LABEL;
    }
    for (int64_t i = n; i < batch; i++)
        j->labels[i] = LS_IGNORE_LABEL;
    LS_TRY(ls_trainer_eval(j->trainer, j->images, j->labels, NULL, j->predicted, j->probability));
    for (int64_t i = 0; i < n; i++) {
        const int32_t is = j->labels[i], said = j->predicted[i];
        const float *p = j->probability + i * classes;
        if (is < 0)
            continue;
        j->counted++;
        if (is == said)
            continue;
        j->wrong++;
        LS_TRY(keep(
            j,
            &(mistake){ .sample = first + i, .is = is, .said = said, .of_true = p[is], .of_said = p[said] },
            j->images + (size_t)i * j->image_bytes));
    }
    return LS_OK;
}

static ls_status predict_all(wrong_job *j)
{
    const int64_t batch = j->setup.trainer.eval_batch;
    const double start = ls_now();
    for (int64_t at = 0, n; at < j->set->n; at += n) {
        n = j->set->n - at < batch ? j->set->n - at : batch;
        LS_TRY(
            ls_stop_check("predicting: %lld of %lld samples are done", (long long)at, (long long)j->set->n));
        LS_TRY(wrong_batch(j, at, n));
        if (j->ui->progress)
            j->ui->progress(j->ui->context, &(ls_progress){ .what = "predicting",
                                                            .done = at + n,
                                                            .total = j->set->n,
                                                            .unit = "samples",
                                                            .rate = (double)(at + n) / (ls_now() - start) });
    }
    return LS_OK;
}

static void add_class_name(ls_str *out, const wrong_job *j, int32_t class)
{
    const ls_field *labels = ls_dataset_field(j->set, "labels");
    if (labels && labels->names && class < labels->below)
        ls_html_add(out, labels->names[class]);
    else
        ls_str_printf(out, "%d", class);
}

/* The name of its file, or its number. */
static ls_status add_sample_name(ls_str *out, const wrong_job *j, int64_t sample)
{
    char *file = j->set->file ? j->set->file(j->set, sample) : NULL;
    if (j->set->file)
        LS_TRY(ls_sys_have(file));
    if (file)
        ls_html_add(out, file);
    else
        ls_str_printf(out, "%s %lld", j->o->train_split ? "train" : "eval", (long long)sample);
    free(file);
    return LS_OK;
}

static ls_status add_mistake(ls_str *out, const wrong_job *j, const mistake *m)
{
    const int size = j->setup.size, channels = j->setup.channels == 3 ? 3 : 1;
    const int64_t plane = (int64_t)size * size;
    uint8_t *pixels = ls_sys_malloc((size_t)(plane * channels)), *png = NULL;
    size_t bytes = 0;
    LS_TRY(ls_sys_have(pixels));
    for (int64_t i = 0; i < plane * channels; i++) /* other numbers of channels: the first one, as gray */
        pixels[i] = m->image[i % channels * plane + i / channels];
    ls_status s = ls_png_encode(&png, &bytes, channels, size, size, pixels);
    free(pixels);
    LS_TRY(s);
    char text[32];
    ls_str_add(out, "<figure><img alt=\"");
    s = add_sample_name(out, j, m->sample);
    ls_str_add(out, "\" src=\"data:image/png;base64,");
    ls_str_add_base64(out, png, bytes);
    free(png);
    LS_TRY(s);
    ls_str_add(out, "\"/><figcaption><b>");
    add_class_name(out, j, m->is);
    ls_str_printf(out, "</b> %s<br/>predicted: <b>", ls_html_number(text, "%.4f", (double)m->of_true));
    add_class_name(out, j, m->said);
    ls_str_printf(out, "</b> %s<br/>", ls_html_number(text, "%.4f", (double)m->of_said));
    LS_TRY(add_sample_name(out, j, m->sample));
    ls_str_add(out, "</figcaption></figure>\n");
    return LS_OK;
}

static ls_status page(const wrong_job *j)
{
    ls_str out = { 0 };
    char text[2][32];
    ls_status s = LS_OK;
    ls_page_begin(&out, "worst mistakes", true);
    ls_str_add(&out, "<h1>Worst mistakes of ");
    ls_html_add(&out, j->saved->recipe->run.name);
    ls_str_add(&out, "</h1>\n<p class=\"sub\">");
    ls_html_add(&out, j->saved->checkpoint);
    ls_str_printf(&out, " · step %s · ", ls_html_count(text[0], j->step));
    ls_html_add(&out, j->set->source);
    ls_str_printf(&out, "</p>\n<p class=\"sub\">%s of %s samples are predicted wrong.",
                  ls_html_count(text[0], j->wrong), ls_html_count(text[1], j->counted));
    ls_str_add(&out,
               " Those whose true class has the lowest probability come first. A caption has the true class "
               "and the predicted one, each with its probability.</p>\n");
    if (j->set->builtin)
        ls_str_add(&out,
                   "<p class=\"warn\">These are the <b>built-in drawn shapes</b>, not real data.</p>\n");
    ls_str_add(&out, "<div class=\"samples\">\n");
    for (int64_t i = 0; i < j->n && s == LS_OK; i++)
        s = add_mistake(&out, j, &j->at[i]);
    ls_str_add(&out, "</div>\n");
    ls_page_end(&out, "");
    if (s == LS_OK)
        s = ls_file_write_text(j->o->out, &out);
    ls_str_release(&out);
    return s;
}

static ls_status wrong_run(wrong_job *j)
{
    LS_TRY(ls_saved_model_trainer(j->saved, NULL, &j->setup, &j->trainer, &j->step));
    LS_TRY(ls_setup_data(&j->set, j->saved->recipe, &j->setup,
                         j->o->train_split ? LS_SPLIT_TRAIN : LS_SPLIT_EVAL, j->ui));
    free(ls_saved_model_other_data(j->saved, j->set));
    const size_t batch = (size_t)j->setup.trainer.eval_batch;
    j->image_bytes = (size_t)j->setup.channels * (size_t)j->setup.size * (size_t)j->setup.size;
    j->at = ls_sys_calloc((size_t)j->o->count + 1, sizeof *j->at);
    j->images = ls_sys_calloc(batch, j->image_bytes);
    j->labels = ls_sys_calloc(batch, sizeof *j->labels);
    j->predicted = ls_sys_calloc(batch, sizeof *j->predicted);
    j->probability = ls_sys_calloc(batch * (size_t)j->setup.classes, sizeof *j->probability);
    LS_TRY(ls_sys_have(j->at && j->images && j->labels && j->predicted ? j->probability : NULL));
    LS_TRY(predict_all(j));
    LS_TRY(page(j));
    fprintf(j->ui->out, "%s: the worst %lld of %lld mistakes, of %lld samples\n", j->o->out, (long long)j->n,
            (long long)j->wrong, (long long)j->counted);
    return LS_OK;
}

ls_status ls_wrong_command(const ls_predict_opts *o, const ls_saved_model *saved, const ls_ui *ui)
{
    wrong_job j = { .o = o, .saved = saved, .ui = ui };
    const ls_status s = wrong_run(&j);
    if (ui->progress)
        ui->progress(ui->context, NULL);
    for (int64_t i = 0; i < j.n; i++)
        free(j.at[i].image);
    free(j.at);
    free(j.images);
    free(j.labels);
    free(j.predicted);
    free(j.probability);
    ls_dataset_close(&j.set);
    ls_trainer_destroy(&j.trainer);
    return s;
}
