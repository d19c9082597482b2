/* predict_command.c - `lockstep predict`: predictions for samples of a split or for image files, as a table
 * and as a picture. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/c_locale.h"
#include "base/json.h"
#include "base/log.h"
#include "base/shown.h"
#include "base/stop.h"
#include "base/sys.h"
#include "data/image_set.h"
#include "data/image_view.h"
#include "generate_command.h"
#include "input_files.h"
#include "launch/rank.h"
#include "outputs_command.h"
#include "screen/table.h"
#include "split_choice.h"
#include "wrong_page.h"

typedef struct sample {
    char *name;
    int32_t label; /* -1: not known */
    int32_t predicted;
    float probability;
} sample;

typedef struct job {
    const ls_predict_opts *o;
    const ls_ui *ui;
    ls_saved_model saved;
    ls_setup setup;
    ls_trainer *trainer;
    ls_dataset *set; /* class names come from it, and samples if no files are given */
    int64_t step, n;
    ls_split_choice choice; /* of n samples of the set, if no files are given */
    size_t image_bytes;
    uint8_t *images; /* [n, channels, size, size] */
    sample *samples;
} job;

/* A broken image, whose message is the latest: LS_OK if it is left out. */
static ls_status skip_broken(const job *j)
{
    if (j->saved.recipe->data.on_error != LS_ON_ERROR_SKIP)
        return ls_fail(LS_E_FORMAT, "%s; leave the file out, or broken ones with --set data.on_error=skip",
                       ls_error_message());
    ls_log_warn("%s; the image is left out", ls_error_message());
    return LS_OK;
}

/* A file must have the model's size, unless it is to be resized. */
static ls_status read_file(const job *j, uint8_t *to, const char *path)
{
    ls_image image;
    LS_TRY(ls_image_read(&image, path));
    const ls_status s = ls_image_fit(&image, j->setup.channels, j->setup.size, j->setup.size, j->o->resize,
                                     path);
    if (s == LS_OK)
        memcpy(to, image.data, j->image_bytes);
    ls_image_release(&image);
    return s;
}

static ls_status read_files(job *j)
{
    const ls_recipe *r = j->saved.recipe;
    const ls_image_eval eval = ls_image_eval_of(j->setup.size, (int)r->data.resize);
    /* a model of pictures in files sees a new one as it saw those of its evaluation */
    const bool as_evaluation = !strcmp(r->data.type, "images") && !j->o->resize;
    const int64_t files = j->n;
    bool paths;
    LS_TRY(ls_input_files_alike(&paths, j->o->n_inputs, j->o->inputs));
    j->n = 0;
    for (int64_t i = 0; i < files; i++) {
        LS_TRY(ls_stop_check("reading image %lld of %lld", (long long)i + 1, (long long)files));
        const char *path = j->o->inputs[i];
        uint8_t *to = j->images + (size_t)j->n * j->image_bytes;
        if (access(path, F_OK))
            return ls_fail(LS_E_USAGE, "%s: no such image file", path);
        const ls_status s = as_evaluation ? ls_image_view_file(to, j->setup.channels, &eval, path)
                                          : read_file(j, to, path);
        if (s == LS_E_FORMAT) {
            LS_TRY(skip_broken(j));
            continue;
        }
        LS_TRY(s);
        j->samples[j->n].label = -1;
        j->samples[j->n++].name = ls_sys_strdup(ls_input_file_shown(path, paths));
        LS_TRY(ls_sys_have(j->samples[j->n - 1].name));
    }
    return j->n ? LS_OK : ls_fail(LS_E_FORMAT, "none of the %lld images can be read", (long long)files);
}

static ls_status read_samples(job *j)
{
    const int64_t samples = j->n;
    j->n = 0;
    for (int64_t i = 0; i < samples; i++) {
        LS_TRY(ls_stop_check("reading sample %lld of %lld", (long long)i + 1, (long long)samples));
        sample *to = &j->samples[j->n];
        void *const at[] = { j->images + (size_t)j->n * j->image_bytes, &to->label };
        const int64_t number = ls_split_sample(&j->choice, i), replaced = ls_images_replaced();
        LS_TRY(j->set->read(j->set, number, at));
        if (ls_images_replaced() != replaced) /* the set has named it */
            continue;
        j->n++;
        to->name = ls_sys_text("%s %lld", j->o->train_split ? "train" : "eval", (long long)number);
        LS_TRY(ls_sys_have(to->name));
    }
    return j->n ? LS_OK : ls_fail(LS_E_FORMAT, "none of the %lld samples can be read", (long long)samples);
}

static ls_status compute(job *j)
{
    int64_t batch = j->setup.trainer.eval_batch, classes = j->setup.classes;
    uint8_t *images = ls_sys_calloc((size_t)batch, j->image_bytes);
    int32_t *labels = ls_sys_malloc(sizeof *labels * (size_t)batch),
            *predicted = ls_sys_malloc(sizeof *predicted * (size_t)batch);
    float *probability = ls_sys_malloc(sizeof *probability * (size_t)(batch * classes));
    ls_status s = images && labels && predicted && probability
                      ? LS_OK
                      : ls_fail(LS_E_MEMORY, "out of memory for a batch of %lld", (long long)batch);
    for (int64_t at = 0; at < j->n && s == LS_OK; at += batch) {
        int64_t n = j->n - at < batch ? j->n - at : batch;
        memcpy(images, j->images + (size_t)at * j->image_bytes, (size_t)n * j->image_bytes);
        for (int64_t i = 0; i < batch; i++)
            labels[i] = LS_IGNORE_LABEL; /* no loss is computed */
        s = ls_stop_check("predicting: %lld of %lld samples are done", (long long)at, (long long)j->n);
        if (s == LS_OK)
            s = ls_trainer_eval(j->trainer, images, labels, NULL, predicted, probability);
        for (int64_t i = 0; i < n && s == LS_OK; i++) {
            j->samples[at + i].predicted = predicted[i];
            j->samples[at + i].probability = probability[i * classes + predicted[i]];
        }
    }
    free(images);
    free(labels);
    free(predicted);
    free(probability);
    return s;
}

static const char *class_name(const job *j, int32_t c)
{
    const ls_field *labels = j->set ? ls_dataset_field(j->set, "labels") : NULL;
    return c >= 0 && labels && labels->names && c < labels->below ? labels->names[c] : NULL;
}

static const char *class_text(const job *j, int32_t c, char buffer[16])
{
    const char *name = class_name(j, c);
    snprintf(buffer, 16, "%d", c);
    return name ? name : c < 0 ? "" : buffer;
}

static ls_status print_table(const job *j)
{
    const ls_column columns[] = { { "sample", true, 0 },
                                  { "label", true, 0 },
                                  { "predicted", true, 0 },
                                  { "probability", false, 0 },
                                  { "", true, 0 } };
    ls_table table = { .n_columns = 5, .columns = columns };
    char label[16], predicted[16], probability[32];
    int right = 0, known = 0;
    for (int64_t i = 0; i < j->n; i++) {
        const sample *s = &j->samples[i];
        known += s->label >= 0;
        right += s->label == s->predicted;
        ls_snprintf(probability, sizeof probability, "%.4f", (double)s->probability);
        const char *const cells[] = { s->name, class_text(j, s->label, label),
                                      class_text(j, s->predicted, predicted), probability,
                                      s->label >= 0 && s->label != s->predicted ? "wrong" : "" };
        ls_table_row(&table, cells, NULL);
    }
    const ls_status s = ls_table_print(j->ui->out, &table, j->ui->width);
    ls_table_release(&table);
    if (known)
        fprintf(j->ui->out, "%d of %d right\n", right, known);
    return s;
}

static ls_status print_json(const job *j)
{
    char text[16];
    ls_json out = { 0 };
    ls_json_array(&out, NULL);
    for (int64_t i = 0; i < j->n; i++) {
        const sample *s = &j->samples[i];
        ls_json_object(&out, NULL);
        ls_json_text(&out, "sample", s->name);
        if (s->label >= 0)
            ls_json_int(&out, "label", s->label);
        ls_json_int(&out, "predicted", s->predicted);
        ls_json_text(&out, "class", class_text(j, s->predicted, text));
        ls_json_f32(&out, "probability", s->probability);
        ls_json_close_object(&out);
    }
    ls_json_close_array(&out);
    return ls_print_result(j->ui->out, &out.out);
}

/* A picture takes a column of the terminal for each pixel of its width. Its height has no limit. */
static ls_status check_width(const job *j)
{
    const int width = j->ui->width, size = j->setup.size;
    if (!j->o->show || !width || size <= width)
        return LS_OK;
    return ls_fail(
        LS_E_USAGE,
        "--show: a picture of %d x %d needs %d columns, and the terminal has %d: widen the terminal, "
        "or write the pictures with --out FILE.png",
        size, size, size, width);
}

/* Caption of a sample: its label, or the name of its file, and the prediction. */
static void show_caption(const job *j, const sample *s, bool prediction, int width, bool last)
{
    char caption[96], buffer[16];
    const bool known = s->label >= 0;
    snprintf(caption, sizeof caption, "%s%s",
             prediction ? "pred: "
             : known    ? "label: "
                        : "",
             prediction ? class_text(j, s->predicted, buffer)
             : known    ? class_text(j, s->label, buffer)
                        : s->name);
    int letters = 0, n = 0;
    for (; caption[n] && letters + ((caption[n] & 0xc0) != 0x80) <= width; n++)
        letters += (caption[n] & 0xc0) != 0x80; /* the first byte of a letter in UTF-8 */
    fprintf(j->ui->out, "%.*s%*s%s", n, caption, last ? 0 : width - letters, "", last ? "\n" : "  ");
}

/* Prints the pictures in rows of as many as fit on the terminal; in a file one picture a row. */
static ls_status show(const job *j)
{
    enum { LEAST = 16, GAP = 2, MOST_BESIDE = 8 };
    /* at least as wide as a caption */
    const int size = j->setup.size, cell = size < LEAST ? LEAST : size;
    const int fit = (j->ui->width + GAP) / (cell + GAP), beside = fit < 1             ? 1
                                                                  : fit < MOST_BESIDE ? fit
                                                                                      : MOST_BESIDE;
    for (int64_t first = 0; first < j->n; first += beside) {
        const int n = j->n - first < beside ? (int)(j->n - first) : beside;
        char *texts[MOST_BESIDE], *rest[MOST_BESIDE];
        ls_status s = LS_OK;
        for (int k = 0; k < n; k++) {
            rest[k] = texts[k] = ls_image_text(j->images + (size_t)(first + k) * j->image_bytes,
                                               j->setup.channels, size, size, j->ui->colour);
            s = texts[k] ? s : LS_E_MEMORY;
        }
        for (int line = 0; s == LS_OK && line < (size + 1) / 2; line++)
            for (int k = 0; k < n; k++)
                fprintf(j->ui->out, "%s%*s", strsep(&rest[k], "\n"), k == n - 1 ? 0 : cell - size + GAP,
                        k == n - 1 ? "\n" : "");
        for (int line = 0; line < 2; line++)
            for (int k = 0; k < n; k++)
                show_caption(j, &j->samples[first + k], line == 1, cell, k == n - 1);
        fputs("\n", j->ui->out);
        for (int k = 0; k < n; k++)
            free(texts[k]);
        LS_TRY(s);
    }
    return LS_OK;
}

/* Draws the picture of --out. only_check: checks that it can be written, before there are predictions. */
static ls_status draw(const job *j, bool only_check)
{
    ls_picture_cell *cells = ls_sys_calloc((size_t)j->n, sizeof *cells);
    char(*text)[2][16] = ls_sys_calloc((size_t)j->n, sizeof *text);
    if (!cells || !text) {
        free(cells);
        free(text);
        return ls_fail(LS_E_MEMORY, "out of memory for a picture of %lld samples", (long long)j->n);
    }
    for (int64_t i = 0; i < j->n; i++)
        cells[i] = (ls_picture_cell){
            j->images + (size_t)i * j->image_bytes,
            j->samples[i].label < 0 ? NULL : class_text(j, j->samples[i].label, text[i][0]),
            class_text(j, j->samples[i].predicted, text[i][1]), j->samples[i].probability
        };
    char title[128];
    snprintf(title, sizeof title, "%s, step %lld", j->saved.recipe->run.name, (long long)j->step);
    bool builtin = j->set && j->set->builtin;
    ls_picture p = { .title = title,
                     .note = builtin ? "built-in shapes, not real data" : "",
                     .channels = j->setup.channels,
                     .height = j->setup.size,
                     .width = j->setup.size,
                     .columns = 0,
                     .n = j->n,
                     .cells = cells };
    ls_status s = only_check ? ls_picture_fits(j->o->out, &p) : ls_picture_write(j->o->out, &p);
    free(cells);
    free(text);
    if (s == LS_OK && !only_check)
        ls_log_info("picture %s", j->o->out);
    return s;
}

static ls_status predict_run(job *j)
{
    static const char *const WEIGHTS[] = { "loss", NULL };
    if (ls_recipe_weighs_classes(j->saved.recipe)) /* predictions need no weights of their classes */
        LS_TRY(ls_recipe_reset(j->saved.recipe, WEIGHTS));
    LS_TRY(ls_saved_model_trainer(&j->saved, NULL, &j->setup, &j->trainer, &j->step));
    j->image_bytes = (size_t)j->setup.channels * (size_t)j->setup.size * (size_t)j->setup.size;
    ls_status s = ls_setup_data(&j->set, j->saved.recipe, &j->setup,
                                j->o->train_split ? LS_SPLIT_TRAIN : LS_SPLIT_EVAL, j->ui);
    j->n = j->o->n_inputs;
    if (!j->n) {
        LS_TRY(s);
        LS_TRY(ls_split_choose(&j->choice, j->o, j->set->n));
        j->n = j->choice.n;
        if (!j->o->random && j->n < j->o->count)
            ls_log_info("%lld samples: the split has no more from sample %lld on", (long long)j->n,
                        (long long)j->o->first);
    }
    if (!j->o->n_inputs)
        free(ls_saved_model_other_data(&j->saved, j->set));
    LS_TRY(check_width(j));
    j->images = ls_sys_malloc((size_t)j->n * j->image_bytes);
    j->samples = ls_sys_calloc((size_t)j->n, sizeof *j->samples);
    if (!j->images || !j->samples)
        return ls_fail(LS_E_MEMORY, "out of memory for %lld images", (long long)j->n);
    LS_TRY(j->o->n_inputs ? read_files(j) : read_samples(j));
    if (j->o->out)
        LS_TRY(draw(j, true));
    LS_TRY(compute(j));
    if (j->o->show)
        LS_TRY(show(j));
    if (j->o->json)
        LS_TRY(print_json(j));
    else
        LS_TRY(print_table(j));
    if (j->set && j->set->builtin &&
        !strcmp(j->saved.recipe->data.type, "shapes")) /* for other types, opening the set has logged it */
        ls_log_warn("these are %s, not real data", j->set->source);
    return j->o->out ? draw(j, false) : LS_OK;
}

/* --out is a file of numbers or of texts, not a picture. */
static bool is_rows(const char *out)
{
    const char *dot = out ? strrchr(out, '.') : NULL;
    return dot && (!strcmp(dot, ".npy") || !strcmp(dot, ".csv") || !strcmp(dot, ".jsonl"));
}

/* Files have the model's size only where pictures in files are cut to it. */
static ls_status check_files(const job *j)
{
    return is_rows(j->o->out) && j->o->n_inputs && strcmp(j->saved.recipe->data.type, "images") &&
                   strcmp(j->saved.recipe->data.type, "arrays")
               ? ls_fail(LS_E_USAGE,
                         "%s: --out of this kind is for samples of a split, unless the recipe has data.type "
                         "images "
                         "or arrays",
                         j->o->inputs[0])
               : LS_OK;
}

static ls_status predict_wrong(job *j, bool images, bool arrays)
{
    ls_predict_opts o = *j->o;
    if (!images && !arrays)
        return ls_fail(LS_E_USAGE,
                       "%s: --wrong is for classifiers of images and tables; lockstep eval shows the metrics",
                       o.model.name);
    if (!images && o.out && !ls_ends_with(o.out, ".csv") && !ls_ends_with(o.out, ".jsonl"))
        return ls_fail(LS_E_USAGE,
                       "--out %s: --wrong writes rows of a table to a file whose name ends in .csv or .jsonl",
                       o.out);
    if (!images)
        return ls_outputs_command(&o, &j->saved, j->ui);
    if (o.out && !ls_ends_with(o.out, ".html"))
        return ls_fail(LS_E_USAGE, "--out %s: --wrong writes a page, whose name ends in .html", o.out);
    o.out = o.out ? o.out : "wrong.html";
    return ls_wrong_command(&o, &j->saved, j->ui);
}

static ls_status predict(job *j)
{
    const ls_predict_opts *o = j->o;
    const ls_samples kind = ls_recipe_samples(j->saved.recipe);
    if (ls_saved_model_several(&j->saved))
        return ls_fail(LS_E_USAGE,
                       "lockstep predict runs in one process, with all its threads: leave out workers");
    if (kind == LS_SAMPLES_PAIRS)
        return ls_fail(LS_E_USAGE,
                       "%s: a T5 needs --prompt TEXT, for which it writes a target, or --out FILE.jsonl for "
                       "the texts of a whole split",
                       o->model.name);
    const bool numbers = kind == LS_SAMPLES_IMAGES && j->saved.recipe->model.outputs.n;
    const bool arrays = !strcmp(j->saved.recipe->data.type, "arrays"), table = numbers || arrays;
    if (o->wrong)
        return predict_wrong(j, kind == LS_SAMPLES_IMAGES && !numbers, arrays);
    if (is_rows(o->out) || (table && !o->out && !o->show && !o->resize))
        return ls_outputs_command(o, &j->saved, j->ui);
    if (numbers)
        return ls_fail(LS_E_USAGE,
                       "%s: this model computes numbers: leave out --show, --resize and pictures of --out",
                       o->model.name);
    if (kind == LS_SAMPLES_TEXT)
        return ls_fail(
            LS_E_USAGE,
            "%s: a language model needs --prompt TEXT, which it continues; lockstep eval shows its "
            "loss",
            o->model.name);
    if (kind != LS_SAMPLES_IMAGES)
        return ls_fail(
            LS_E_USAGE,
            "%s: the predictions of this model go to a file: --out FILE.npy, FILE.csv or FILE.jsonl",
            o->model.name);
    return predict_run(j);
}

ls_status ls_predict_command(const ls_predict_opts *o, const ls_ui *ui)
{
    ls_predict_opts with_files = *o;
    ls_paths files;
    job j = { .o = &with_files, .ui = ui };
    const char *dot = o->out ? strrchr(o->out, '.') : NULL;
    if (o->prompt)
        return ls_generate_command(o, ui);
    if (!ls_rank_is_first("predict", false)) /* only --prompt is a matter of several ranks */
        return LS_OK;
    ls_status s = ls_input_files(&files, o->n_inputs, o->inputs);
    with_files.n_inputs = (int)files.n;
    with_files.inputs = (const char *const *)files.at;
    if (s == LS_OK)
        s = ls_saved_model_open(&j.saved, &o->model);
    if (s != LS_OK) {
        ls_paths_release(&files);
        return s;
    }
    const bool texts = dot && !strcmp(dot, ".jsonl") &&
                       ls_recipe_model(j.saved.recipe)->samples == LS_SAMPLES_PAIRS;
    s = check_files(&j);
    if (s == LS_OK)
        s = texts ? ls_texts_command(o, ui) : predict(&j);
    ls_trainer_destroy(&j.trainer);
    ls_dataset_close(&j.set);
    ls_saved_model_release(&j.saved);
    ls_paths_release(&files);
    for (int64_t i = 0; j.samples && i < j.n; i++)
        free(j.samples[i].name);
    free(j.images);
    free(j.samples);
    return s;
}
