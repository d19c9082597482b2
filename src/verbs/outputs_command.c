/* outputs_command.c - `lockstep predict --out FILE.npy|.csv|.jsonl`: what a model computes for every sample
 * of a split, in its order, or for files of images. The file gets its name when it has all rows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/shown.h"
#include "base/sys.h"
#include "ckpt/checkpoint.h"
#include "data/image_set.h"
#include "data/npy.h"
#include "input_files.h"
#include "outputs_own.h"
#include "setup/base.h"
#include "recipe/data_row.h"
#include "recipe/recipe_use.h"
#include "screen/table.h"

/* ---- the samples */

static int field_of(const ls_outputs *j, const char *name)
{
    int k = 0;
    while (strcmp(j->set->fields[k].name, name)) /* ls_predictor_check_data has found it */
        k++;
    return k;
}

/* Memory for a batch of each input, as the data set has it, and of each output. */
static ls_status allocate(ls_outputs *j)
{
    for (int i = 0; i < j->n_inputs; i++) {
        ls_tensor *x = &j->inputs[i].tensor;
        x->type.dtype = j->set->fields[field_of(j, j->inputs[i].name)].type.dtype;
        x->data = ls_sys_malloc(ls_type_bytes(&x->type) * (size_t)j->batch);
        LS_TRY(ls_sys_have(x->data));
    }
    for (int i = 0; i < j->n_outputs; i++) {
        ls_tensor *y = &j->outputs[i].tensor;
        y->data = ls_sys_malloc(ls_type_bytes(&y->type) * (size_t)j->batch);
        LS_TRY(ls_sys_have(y->data));
    }
    j->broken = ls_sys_calloc((size_t)j->batch, sizeof *j->broken);
    LS_TRY(ls_sys_have(j->broken));
    return ls_outputs_targets_open(j);
}

static ls_tensor samples(const ls_named_tensor *one, int64_t n)
{
    ls_type t = one->tensor.type;
    t.dims[0] *= n;
    return ls_tensor_of(one->tensor.data, &t);
}

/* Samples `done` .. done+n-1 of those that were asked for. */
static ls_status compute(ls_outputs *j, int64_t done, int64_t n)
{
    const char *out = j->o->out;
    if (j->ui->stop && *j->ui->stop)
        return ls_fail(LS_E_STOPPED, "stopped after %lld of %lld samples%s%s%s", (long long)done,
                       (long long)j->n, out ? "; " : "", out ? out : "", out ? " is not written" : "");
    void **to = ls_sys_calloc((size_t)j->set->n_fields, sizeof *to);
    ls_status s = ls_sys_have(to);
    for (int64_t r = 0; r < n && s == LS_OK; r++) {
        for (int i = 0; i < j->n_inputs; i++)
            to[field_of(j, j->inputs[i].name)] = (char *)j->inputs[i].tensor.data +
                                                 (size_t)r * ls_type_bytes(&j->inputs[i].tensor.type);
        ls_outputs_targets_aim(j, r, to);
        const int64_t replaced = ls_images_replaced();
        s = j->set->read(j->set, ls_split_sample(&j->choice, done + r), to);
        j->broken[r] = ls_images_replaced() != replaced;
    }
    free(to);
    for (int i = 0; i < j->n_inputs && s == LS_OK; i++) {
        const ls_tensor x = samples(&j->inputs[i], n);
        s = ls_predictor_put(j->predictor, j->inputs[i].name, &x);
    }
    if (s == LS_OK)
        s = ls_predictor_run(j->predictor, n);
    for (int i = 0; i < j->n_outputs && s == LS_OK; i++) {
        const ls_tensor y = samples(&j->outputs[i], n);
        s = ls_predictor_get(j->predictor, j->outputs[i].name, &y);
    }
    if (s == LS_OK)
        ls_outputs_clear_broken(j, n);
    if (s == LS_OK)
        ls_outputs_probabilities(j, n);
    return s;
}

/* ---- the file */

static ls_status put_text(ls_outputs *j, ls_str *text)
{
    ls_status s = ls_str_status(text);
    if (s == LS_OK)
        s = ls_writer_put(&j->file, ls_str_text(text), text->len);
    ls_str_release(text);
    return s;
}

static ls_status put_header(ls_outputs *j)
{
    ls_str text = { 0 };
    if (ls_outputs_kind(j, ".jsonl"))
        return LS_OK;
    if (ls_outputs_kind(j, ".npy")) {
        ls_type all = j->outputs[0].tensor.type;
        all.dims[0] *= j->n;
        LS_TRY(ls_npy_header(&text, &all));
        return put_text(j, &text);
    }
    ls_outputs_header(j, &text);
    return put_text(j, &text);
}

static ls_status put_batch(ls_outputs *j, int64_t done, int64_t n)
{
    ls_str text = { 0 };
    const ls_tensor *first = &j->outputs[0].tensor;
    if (ls_outputs_kind(j, ".npy"))
        return ls_writer_put(&j->file, first->data, ls_type_bytes(&first->type) * (size_t)n);
    ls_status s = LS_OK;
    for (int64_t r = 0; r < n && s == LS_OK; r++)
        s = ls_outputs_line(j, &text, ls_split_sample(&j->choice, done + r), r, ls_outputs_kind(j, ".jsonl"));
    const ls_status put = put_text(j, &text); /* it also frees the text */
    return s == LS_OK ? put : s;
}

static ls_status write_all(ls_outputs *j)
{
    const double start = ls_now();
    LS_TRY(put_header(j));
    for (int64_t done = 0, n; done < j->n; done += n) {
        n = j->n - done < j->batch ? j->n - done : j->batch;
        LS_TRY(compute(j, done, n));
        LS_TRY(put_batch(j, done, n));
        if (j->ui->progress)
            j->ui->progress(j->ui->context,
                            &(ls_progress){ .what = "predicting",
                                            .done = done + n,
                                            .total = j->n,
                                            .unit = "samples",
                                            .rate = (double)(done + n) / (ls_now() - start) });
    }
    return LS_OK;
}

/* ---- the terminal */

/* "photo.jpg", "eval 7" */
static const char *name_of(const ls_outputs *j, int64_t sample, char out[32])
{
    const bool rows = !strcmp(j->saved.recipe->data.type, "arrays");
    if (j->o->n_inputs && !rows)
        return ls_input_file_shown(j->o->inputs[sample], j->paths);
    snprintf(out, 32, "%s %lld",
             j->o->n_inputs      ? "row"
             : j->o->train_split ? "train"
                                 : "eval",
             (long long)sample);
    return out;
}

static bool is_shown(const ls_outputs *j, int k)
{
    return j->as[k] == LS_AS_CLASSES || j->as[k] == LS_AS_WORDS ||
           ls_type_count(&j->outputs[k].tensor.type) == 1;
}

static ls_status check_shown(const ls_outputs *j)
{
    for (int k = 0; k < j->n_outputs; k++)
        if (!is_shown(j, k))
            return ls_fail(LS_E_USAGE,
                           "%s: output %s has %lld numbers for each sample: write them to a file with --out "
                           "FILE.npy, FILE.csv or FILE.jsonl",
                           j->o->model.name, j->outputs[k].name,
                           (long long)ls_type_count(&j->outputs[k].tensor.type));
    return LS_OK;
}

/* Of classes the class and its probability, else the number. */
static ls_status add_shown(const ls_outputs *j, ls_table *table, ls_json *json, int64_t sample, int64_t row)
{
    char name[32], title[160];
    const char *cells[1 + 3 * LS_OUTPUTS_MOST] = { name_of(j, sample, name) };
    ls_str numbers[LS_OUTPUTS_MOST] = { 0 }, class[LS_OUTPUTS_MOST] = { 0 }, targets[LS_OUTPUTS_MOST] = { 0 };
    ls_status s = LS_OK;
    int n = 1;
    if (ls_outputs_has_words(j))
        return ls_outputs_words_show(j, table, json, cells[0], sample, row);
    ls_json_object(json, NULL);
    ls_json_text(json, "sample", cells[0]);
    for (int k = 0; k < j->n_outputs; k++) {
        const bool classes = j->as[k] == LS_AS_CLASSES;
        const int64_t at = classes ? ls_outputs_class(j, k, row) : 0,
                      count = ls_type_count(&j->outputs[k].tensor.type);
        if (classes) {
            ls_outputs_add_class(&class[k], j, k, at);
            cells[n++] = ls_str_text(&class[k]);
            if (ls_outputs_texts(j, k))
                ls_json_text(json, j->outputs[k].name, ls_str_text(&class[k]));
            else
                ls_json_int(json, j->outputs[k].name, at);
            s = s == LS_OK ? ls_str_status(&class[k]) : s;
        }
        ls_outputs_number(&numbers[k], &j->outputs[k].tensor, row * count + at,
                          j->o->json       ? "null"
                          : j->broken[row] ? ""
                                           : NULL);
        cells[n++] = ls_str_text(&numbers[k]);
        ls_json_raw(json, ls_outputs_column(title, j, k), ls_str_text(&numbers[k]));
        if (s == LS_OK)
            s = ls_str_status(&numbers[k]);
    }
    for (int k = 0; k < j->n_outputs && s == LS_OK; k++) {
        if (j->targets[k].field < 0)
            continue;
        ls_outputs_add_target(&targets[k], j, k, row, 0, "");
        cells[n++] = ls_str_text(&targets[k]);
        s = ls_str_status(&targets[k]);
    }
    ls_outputs_targets_json(j, json, row);
    ls_json_close_object(json);
    if (s == LS_OK)
        ls_table_row(table, cells, NULL);
    for (int k = 0; k < j->n_outputs; k++) {
        ls_str_release(&numbers[k]);
        ls_str_release(&class[k]);
        ls_str_release(&targets[k]);
    }
    return s;
}

static ls_status show_all(ls_outputs *j)
{
    ls_column columns[1 + 3 * LS_OUTPUTS_MOST] = { { "sample", true, 0 } };
    char titles[2 * LS_OUTPUTS_MOST][160];
    ls_table table = { .n_columns = 1, .columns = columns };
    if (ls_outputs_has_words(j))
        columns[table.n_columns++] = (ls_column){ "word", true, 0 };
    for (int k = 0; k < j->n_outputs; k++) {
        if (j->as[k] == LS_AS_CLASSES || j->as[k] == LS_AS_WORDS)
            columns[table.n_columns++] = (ls_column){ j->outputs[k].name, ls_outputs_texts(j, k) != NULL, 0 };
        columns[table.n_columns++] = (ls_column){ ls_outputs_column(titles[k], j, k), false, 0 };
    }
    for (int k = 0; k < j->n_outputs; k++)
        if (j->targets[k].field >= 0)
            columns[table.n_columns++] = (ls_column){
                ls_outputs_target_column(titles[LS_OUTPUTS_MOST + k], j, k), ls_outputs_texts(j, k) != NULL, 0
            };
    ls_json json = { 0 };
    ls_status s = ls_input_files_alike(&j->paths, j->o->n_inputs, j->o->inputs);
    ls_json_array(&json, NULL);
    for (int64_t done = 0, n; done < j->n && s == LS_OK; done += n) {
        n = j->n - done < j->batch ? j->n - done : j->batch;
        s = compute(j, done, n);
        for (int64_t r = 0; r < n && s == LS_OK; r++)
            s = add_shown(j, &table, &json, ls_split_sample(&j->choice, done + r), r);
    }
    ls_json_close_array(&json);
    if (s == LS_OK)
        s = j->o->json ? ls_print_result(j->ui->out, &json.out)
                       : ls_table_print(j->ui->out, &table, j->ui->width);
    ls_str_release(&json.out);
    ls_table_release(&table);
    return s;
}

/* ---- the worst mistakes */

typedef struct mistake {
    float of_true; /* probability of its true class */
    int64_t sample;
} mistake;

static int worse_first(const void *a, const void *b)
{
    const mistake *x = a, *y = b;
    return x->of_true != y->of_true ? (x->of_true > y->of_true) - (x->of_true < y->of_true)
                                    : (x->sample > y->sample) - (x->sample < y->sample);
}

/* Predicts the whole split and chooses its worst mistakes, which are then predicted again. `all`: room for
 * every sample. */
static ls_status choose_mistakes(ls_outputs *j, mistake *all)
{
    const int k = ls_outputs_judged(j);
    int64_t n = 0, counted = 0;
    if (k < 0)
        return ls_fail(LS_E_USAGE,
                       "%s: --wrong is for classifiers of images, and of tables with one class for each "
                       "row; lockstep eval shows the metrics",
                       j->o->model.name);
    j->choice = (ls_split_choice){ .n = j->set->n };
    j->n = j->set->n;
    for (int64_t done = 0, batch; done < j->n; done += batch) {
        batch = j->n - done < j->batch ? j->n - done : j->batch;
        LS_TRY(compute(j, done, batch));
        for (int64_t r = 0; r < batch; r++) {
            bool counts;
            const bool wrong = ls_outputs_mistake(j, k, r, &counts, &all[n].of_true);
            counted += counts;
            all[n].sample = done + r;
            n += wrong;
        }
    }
    qsort(all, (size_t)n, sizeof *all, worse_first);
    j->n = n < j->o->count ? n : j->o->count;
    for (int64_t i = 0; i < j->n; i++)
        j->worst[i] = all[i].sample;
    j->choice = (ls_split_choice){ .n = j->n, .list = j->worst };
    fprintf(j->ui->out, "the worst %lld of %lld mistakes of %s, of %lld samples%s%s\n", (long long)j->n,
            (long long)n, j->outputs[k].name, (long long)counted, j->o->out ? ": " : "",
            j->o->out ? j->o->out : "");
    return LS_OK;
}

static ls_status find_mistakes(ls_outputs *j)
{
    mistake *all = ls_sys_malloc(sizeof *all * (size_t)(j->set->n + 1));
    j->worst = ls_sys_malloc(sizeof *j->worst * (size_t)(j->set->n + 1));
    ls_status s = ls_sys_have(all ? j->worst : NULL);
    if (s == LS_OK)
        s = choose_mistakes(j, all);
    free(all);
    return s;
}

/* ---- which outputs */

/* What is written where --output does not say it. NULL: all outputs. */
static const char *by_default(const ls_recipe *r)
{
    const ls_samples kind = ls_recipe_samples(r);
    if (r->loss.n && r->loss.at[0].kind == LS_LOSS_IN_BATCH) /* the second text has an output, too */
        return r->model.outputs.at[0].name;
    if (r->model.outputs.n)
        return NULL;
    return kind == LS_SAMPLES_IMAGES ? "probability" : kind == LS_SAMPLES_TEXT ? "predicted" : NULL;
}

static ls_status make_predictor(ls_outputs *j)
{
    ls_checkpoint c;
    const ls_recipe *r = j->saved.recipe;
    char *words = ls_sys_strdup(j->o->output ? j->o->output : by_default(r));
    for (char *p = words; p && *p; p++)
        *p = *p == ',' ? ' ' : *p;
    const ls_predictor_opts o = { LS_PREDICTOR_DEFAULTS, .outputs = words };
    ls_status s = ls_checkpoint_open(
        &c, j->saved.checkpoint,
        r->checkpoint.verify == LS_VERIFY_CHOICE_FULL ? LS_VERIFY_FULL : LS_VERIFY_SIZES, NULL);
    if (s == LS_OK) {
        s = ls_base_join(&c, r, NULL, NULL);
        if (s == LS_OK && r->eval.ema)
            s = ls_checkpoint_use_ema(&c);
        if (s == LS_OK)
            s = ls_saved_model_blame_model(
                &j->saved, ls_recipe_blame(r, ls_predictor_make(&j->predictor, ls_recipe_build, r,
                                                                &j->setup.trainer, &o, c.weights)));
        ls_checkpoint_release(&c);
    }
    free(words);
    return s;
}

static ls_status check_outputs(ls_outputs *j)
{
    ls_str names = { 0 };
    const int inputs = ls_predictor_inputs(j->predictor, j->inputs, LS_OUTPUTS_MOST),
              outputs = ls_predictor_outputs(j->predictor, j->outputs, LS_OUTPUTS_MOST);
    if (inputs > LS_OUTPUTS_MOST || outputs > LS_OUTPUTS_MOST)
        return ls_fail(LS_E_UNSUPPORTED, "%d inputs and %d outputs: at most %d of each can be written",
                       inputs, outputs, LS_OUTPUTS_MOST);
    j->n_inputs = inputs;
    j->n_outputs = outputs;
    for (int k = 0; k < outputs; k++)
        j->as[k] = ls_outputs_shown_as(j, k);
    for (int k = 0; k < outputs; k++)
        ls_str_printf(&names, "%s%s", k ? ", " : "", j->outputs[k].name);
    const ls_status s =
        outputs > 1 && ls_outputs_kind(j, ".npy")
            ? ls_fail(LS_E_USAGE,
                      "--out %s: the file holds one array, and there are %s: choose one with --output NAME",
                      j->o->out, ls_str_text(&names))
            : LS_OK;
    ls_str_release(&names);
    return s;
}

/* Rows of the user's files: the fields that the model reads. */
static ls_status open_rows(ls_outputs *j)
{
    const char *fields[LS_OUTPUTS_MOST];
    for (int i = 0; i < j->n_inputs; i++)
        fields[i] = j->inputs[i].name;
    LS_TRY(ls_recipe_rows(&j->set, j->saved.recipe, j->n_inputs, fields, j->o->n_inputs, j->o->inputs));
    j->n = j->set->n;
    return ls_predictor_check_data(j->predictor, j->set);
}

static ls_status open_samples(ls_outputs *j)
{
    const ls_predict_opts *o = j->o;
    j->batch = j->setup.trainer.eval_batch;
    j->n = o->n_inputs;
    if (o->n_inputs && !strcmp(j->saved.recipe->data.type, "arrays"))
        return open_rows(j);
    if (o->n_inputs) { /* the evaluation split has the names of the classes */
        if (!j->saved.recipe->model.outputs.n)
            (void)ls_setup_data(&j->named, j->saved.recipe, &j->setup, LS_SPLIT_EVAL, j->ui);
        return ls_recipe_pictures(&j->set, j->saved.recipe, o->n_inputs, o->inputs);
    }
    LS_TRY(ls_setup_data(&j->set, j->saved.recipe, &j->setup, o->train_split ? LS_SPLIT_TRAIN : LS_SPLIT_EVAL,
                         j->ui));
    LS_TRY(ls_split_choose(&j->choice, o, j->set->n));
    free(ls_saved_model_other_data(&j->saved, j->set));
    j->named = j->set;
    j->n = j->choice.n;
    return ls_predictor_check_data(j->predictor, j->set);
}

static ls_status outputs_run(ls_outputs *j)
{
    LS_TRY(ls_setup_inference(&j->setup, j->saved.recipe, 1, 0, 0));
    ls_saved_model_check_module(&j->saved);
    LS_TRY(make_predictor(j));
    LS_TRY(check_outputs(j));
    if (!j->o->out)
        LS_TRY(check_shown(j));
    LS_TRY(open_samples(j));
    LS_TRY(ls_outputs_words_open(j));
    LS_TRY(allocate(j));
    if (j->o->wrong)
        LS_TRY(find_mistakes(j));
    if (!j->o->out)
        return j->n ? show_all(j) : LS_OK;
    LS_TRY(ls_writer_open(&j->file, j->o->out)); /* fails before the long work */
    ls_status s = write_all(j);
    if (j->ui->progress)
        j->ui->progress(j->ui->context, NULL);
    if (s == LS_OK)
        s = ls_writer_commit(&j->file);
    else
        ls_writer_abort(&j->file);
    if (s == LS_OK)
        ls_log_info("%lld samples in %s", (long long)j->n, j->o->out);
    if (s == LS_OK && j->set->builtin && !strcmp(j->saved.recipe->data.type, "shapes"))
        ls_log_warn("these are %s, not real data", j->set->source);
    return s;
}

ls_status ls_outputs_command(const ls_predict_opts *o, ls_saved_model *saved, const ls_ui *ui)
{
    ls_outputs j = { .o = o, .ui = ui, .saved = *saved };
    const ls_status s = outputs_run(&j);
    for (int i = 0; i < j.n_inputs; i++)
        free(j.inputs[i].tensor.data);
    for (int i = 0; i < j.n_outputs; i++)
        free(j.outputs[i].tensor.data);
    ls_outputs_targets_release(&j);
    ls_array_words_close(&j.words);
    free(j.worst);
    free(j.broken);
    if (j.named != j.set)
        ls_dataset_close(&j.named);
    ls_dataset_close(&j.set);
    ls_predictor_destroy(&j.predictor);
    *saved = j.saved;
    return s;
}
