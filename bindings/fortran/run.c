/* run.c - calls of module lockstep_run: data sets in files, the steps of a data set, runs with reports. */
#include <stdlib.h>

#include "glue.h"

/* ---- data */

static ls_status open_arrays(ls_dataset **out, int n, const CFI_cdesc_t *fields, const CFI_cdesc_t *files,
                             const CFI_cdesc_t *types, int missing, ls_array_field *all, char *texts)
{
    for (int i = 0; i < n; i++) {
        char *field = texts + (size_t)2 * (size_t)i * LSF_TEXT, *file = field + LSF_TEXT;
        if (!lsf_text_at(field, fields, i) || !lsf_text_at(file, files, i))
            return ls_fail(LS_E_ARG, "ls_arrays_open: name %d has more than %d characters", i + 1,
                           LSF_TEXT - 1);
        const int type = types ? *(const int *)((const char *)types->base_addr + i * types->dim[0].sm)
                               : LS_F32;
        all[i] = (ls_array_field){ .field = field,
                                   .file = file,
                                   .as = (ls_dtype)type,
                                   .ignorable = type == LS_I32,
                                   .missing = missing && (type == LS_F32 || type == LS_F64) };
    }
    return ls_arrays_open(out, LS_SPLIT_TRAIN, n, all);
}

ls_status lsf_arrays_open(ls_dataset **out, const CFI_cdesc_t *fields, const CFI_cdesc_t *files,
                          const CFI_cdesc_t *types, int missing)
{
    const CFI_index_t n = fields->dim[0].extent, m = files->dim[0].extent;
    *out = NULL;
    if (n < 1 || n > 1024 || n != m || (types && types->dim[0].extent != n))
        return ls_fail(LS_E_ARG,
                       "ls_arrays_open: %lld fields, %lld files and %lld types: each field needs one",
                       (long long)n, (long long)m, types ? (long long)types->dim[0].extent : (long long)n);
    ls_array_field *all = calloc((size_t)n, sizeof *all);
    char *texts = malloc((size_t)n * 2 * LSF_TEXT);
    const ls_status s = all && texts
                            ? open_arrays(out, (int)n, fields, files, types, missing, all, texts)
                            : ls_fail(LS_E_MEMORY, "ls_arrays_open: no memory for %d fields", (int)n);
    free(all);
    free(texts);
    return s;
}

int64_t lsf_dataset_size(ls_dataset *const *set) { return *set ? (*set)->n : 0; }

/* ---- the steps of a set */

ls_status lsf_loader_create(ls_loader **out, const lsf_trainer *t, ls_dataset *const *set, const int *seed,
                            const int *epoch, const int *epochs, int shuffle, int drop_last)
{
    *out = NULL;
    if (!t->at || !*set)
        return ls_fail(LS_E_ARG, "ls_loader_create: the %s was not made or is closed",
                       t->at ? "data set" : "trainer");
    LS_TRY(ls_trainer_check_data(t->at, *set));
    const ls_order order = { .n = (*set)->n,
                             .global_batch = t->micro_batch * t->micro_batches,
                             .micro_batch = t->micro_batch,
                             .seed = seed ? (uint64_t)(unsigned)*seed : 0,
                             .shuffle = shuffle,
                             .drop_last = drop_last,
                             .augment = true };
    ls_loader_options o = ls_loader_options_default();
    o.share = t->share;
    o.epoch = epoch ? *epoch : o.epoch;
    o.epochs = epochs ? *epochs : o.epochs;
    return ls_loader_create_with(out, *set, &order, &o);
}

ls_status lsf_trainer_step_from(const lsf_trainer *t, ls_loader *const *loader, double lr,
                                lsf_step_result *out, bool *done, int *epoch)
{
    ls_loader_step step = { 0 };
    ls_step_result r;
    bool end = false;
    if (!*loader)
        return ls_fail(LS_E_ARG, "ls_trainer_step_from: the loader was not made or is destroyed");
    LS_TRY(ls_loader_next(*loader, &step, &end));
    *done = end;
    *out = (lsf_step_result){ .grad_norm = -1 };
    if (end)
        return LS_OK;
    if (epoch)
        *epoch = (int)step.epoch;
    LS_TRY(ls_trainer_step_from(t->at, &step, lr, &r));
    *out = lsf_step_result_of(&r);
    return LS_OK;
}

/* ---- runs */

ls_status lsf_run_open(ls_run **out, const CFI_cdesc_t *storage, const CFI_cdesc_t *name,
                       ls_group *const *group, const CFI_cdesc_t *config, const int *keep,
                       const int *keep_best, const CFI_cdesc_t *best, int best_is_max, int async)
{
    ls_run_opts o = ls_run_opts_default();
    *out = NULL;
    LSF_TEXT_OF(folder, storage);
    LSF_TEXT_OF(text, name);
    LSF_TEXT_OF(metric, best);
    LSF_TEXT_OF(settings, config);
    o.config = settings;
    o.keep = keep ? *keep : o.keep;
    o.keep_best = keep_best ? *keep_best : o.keep_best;
    o.best = metric[0] ? metric : NULL;
    o.best_is_max = best_is_max;
    o.async = async;
    return ls_run_open_with(out, folder, text, group ? *group : NULL, &o);
}

bool lsf_latest_checkpoint(ls_run *const *run, lsf_checkpoint *out)
{
    const ls_run_checkpoint *last = *run ? ls_latest_checkpoint(*run) : NULL;
    if (last)
        *out = (lsf_checkpoint){ last->path, last->text ? last->text : "", last->step, last->epoch };
    return last;
}

ls_status lsf_run_load(ls_run *const *run, const CFI_cdesc_t *path, const lsf_trainer *t)
{
    LSF_TEXT_OF(folder, path);
    const ls_run_contents all = { .trainer = t->at };
    return ls_run_load(*run, folder, &all);
}

ls_status lsf_run_wait(ls_run *const *run) { return ls_run_wait(*run); }

static ls_status report(ls_run *run, int n, const CFI_cdesc_t *names, const CFI_cdesc_t *values,
                        const ls_run_contents *all, const ls_report_opts *o, ls_metric *metrics, char *texts)
{
    for (int i = 0; i < n; i++) {
        char *name = texts + (size_t)i * LSF_TEXT;
        if (!lsf_text_at(name, names, i))
            return ls_fail(LS_E_ARG, "ls_report: name %d has more than %d characters", i + 1, LSF_TEXT - 1);
        metrics[i] = (ls_metric){
            .name = name, .value = *(const double *)((const char *)values->base_addr + i * values->dim[0].sm)
        };
    }
    return ls_report_with(run, metrics, n, all, o);
}

ls_status lsf_report(ls_run *const *run, const CFI_cdesc_t *names, const CFI_cdesc_t *values,
                     const lsf_trainer *t, const int *epoch, const int64_t *step, const CFI_cdesc_t *text,
                     const CFI_cdesc_t *checkpoint)
{
    const CFI_index_t n = names->dim[0].extent;
    ls_report_opts o = ls_report_opts_default();
    LSF_TEXT_OF(state, text);
    LSF_TEXT_OF(folder, checkpoint);
    if (n != values->dim[0].extent || n > 1024)
        return ls_fail(LS_E_ARG,
                       "ls_report: %lld names, %lld values: each metric needs one of both, and there are "
                       "at most 1024",
                       (long long)n, (long long)values->dim[0].extent);
    o.epoch = epoch ? *epoch : o.epoch;
    o.step = step ? *step : o.step;
    o.checkpoint = folder[0] ? folder : NULL;
    const ls_run_contents all = { .trainer = t ? t->at : NULL, .text = state[0] ? state : NULL };
    ls_metric *metrics = calloc((size_t)n + 1, sizeof *metrics);
    char *texts = malloc((size_t)n * LSF_TEXT + 1);
    const ls_status s = metrics && texts
                            ? report(*run, (int)n, names, values, t ? &all : NULL, &o, metrics, texts)
                            : ls_fail(LS_E_MEMORY, "ls_report: no memory for %d metrics", (int)n);
    free(metrics);
    free(texts);
    return s;
}

ls_status lsf_run_stop_requested(ls_run *const *run, int asked, bool *any)
{
    return ls_run_stop_requested(*run, asked, any);
}

void lsf_run_log(ls_run *const *run, const CFI_cdesc_t *message)
{
    char text[LSF_TEXT];
    if (lsf_text(text, message))
        ls_run_log(*run, text);
}

ls_status lsf_run_finish(ls_run **run, const int *how)
{
    return ls_run_finish(run, how ? (ls_status)*how : LS_OK, NULL);
}
