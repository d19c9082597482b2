/* texts_command.c - `lockstep predict --out FILE.jsonl`: what a T5 writes for the samples of a split, one
 * JSON object on a line. The file is written when all lines are there. */
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "generate_command.h"
#include "split_texts.h"

typedef struct job {
    ls_str lines;
    int64_t n; /* of them */
} job;

static ls_status add_line(void *context, const ls_sample_text *t)
{
    job *j = context;
    ls_json line = { 0 };
    ls_json_object(&line, NULL);
    ls_json_int(&line, "sample", t->sample);
    ls_json_text(&line, "text", t->text);
    ls_json_text(&line, "target", t->target);
    ls_json_close_object(&line);
    ls_str_add(&line.out, "\n");
    ls_status s = ls_str_status(&line.out);
    if (s == LS_OK) {
        ls_str_append(&j->lines, &line.out);
        s = ls_str_status(&j->lines);
    }
    ls_str_release(&line.out);
    j->n++;
    return s;
}

static ls_status texts_run(job *j, ls_text_model *m, const ls_predict_opts *o, const ls_ui *ui)
{
    ls_rounds rounds = ls_rounds_of_flag(NULL, ui->stop);
    ls_split_opts all = {
        .how = o->how, .beams = o->beams, .rounds = &rounds, .on_text = add_line, .context = j
    };
    ls_dataset *set = NULL;
    ls_writer file = { .fd = -1 };
    if (!ls_model_reads_sources(m->setup.model))
        return ls_fail(
            LS_E_USAGE,
            "--out %s: only a T5 writes texts for a split, and this model is of type %s; give it --prompt "
            "TEXT to continue",
            o->out, m->setup.model->name);
    LS_TRY(
        ls_setup_data(&set, m->saved.recipe, &m->setup, o->train_split ? LS_SPLIT_TRAIN : LS_SPLIT_EVAL, ui));
    /* fails before the long work. A file gets its temporary name behind it, so nothing is left of a process
     * that is killed meanwhile; a pipe stays open. */
    ls_status s = ls_split_choose(&all.samples, o, set->n);
    if (s == LS_OK)
        s = ls_writer_open(&file, o->out);
    if (s == LS_OK) {
        if (file.tmp)
            ls_writer_abort(&file);
        s = ls_split_texts(m, set, &all, ui);
    }
    if (s == LS_OK && file.fd < 0)
        s = ls_writer_open(&file, o->out);
    if (s == LS_OK)
        s = ls_writer_put(&file, ls_str_text(&j->lines), j->lines.len);
    if (s == LS_OK)
        s = ls_writer_commit(&file);
    else
        ls_writer_abort(&file);
    ls_str_release(&j->lines);
    ls_dataset_close(&set);
    return s;
}

ls_status ls_texts_command(const ls_predict_opts *o, const ls_ui *ui)
{
    job j = { .n = 0 };
    ls_text_model m;
    LS_TRY(ls_text_model_open(&m, &o->model, true, true));
    const ls_status s = texts_run(&j, &m, o, ui);
    if (s == LS_OK)
        ls_log_info("%lld texts in %s", (long long)j.n, o->out);
    ls_text_model_release(&m);
    return s;
}
