/* train.c - calls of module lockstep_train: ranks, trainers, evaluation, predictors, queues. */
#include <stdlib.h>
#include <string.h>

#include "glue.h"

/* ---- ranks */

int lsf_group_rank(ls_group *const *g) { return ls_group_rank(*g); }
int lsf_group_size(ls_group *const *g) { return ls_group_size(*g); }
ls_status lsf_group_barrier(ls_group *const *g) { return ls_group_barrier(*g); }

ls_status lsf_group_all_reduce(ls_group *const *g, const CFI_cdesc_t *values, int how)
{
    ls_tensor x;
    LS_TRY(lsf_tensor(&x, values, "ls_group_all_reduce"));
    if (!ls_tensor_is_contiguous(&x))
        return ls_fail(LS_E_ARG, "ls_group_all_reduce: the array is a section with gaps: pass a whole array");
    return ls_group_all_reduce(*g, x.data, ls_type_count(&x.type), x.type.dtype, (ls_reduction)how);
}

/* ---- training */

/* The number of the word in `words`, which NULL ends. LS_E_ARG: another word. "": *out stays. */
static ls_status word(int *out, const char *key, const CFI_cdesc_t *value, const char *const *words)
{
    char text[LSF_TEXT], all[256] = "";
    if (!lsf_text(text, value))
        return ls_fail(LS_E_ARG, "%s has more than %d characters", key, LSF_TEXT - 1);
    if (!text[0])
        return LS_OK;
    for (int i = 0; words[i]; i++) {
        if (!strcmp(words[i], text)) {
            *out = i;
            return LS_OK;
        }
        strcat(strcat(all, i ? ", " : ""), words[i]);
    }
    return ls_fail(LS_E_ARG, "%s=\"%s\": it can be %s", key, text, all);
}

static const char *const
    OPTIMIZERS[] = { "adam", "adamw", "sgd", "lion", "muon", "adafactor", NULL }, /* ls_optimizer_kind */
    *const PRECISIONS[] = { "f32", "f64", "bf16", "f16", NULL },                  /* ls_dtype */
        *const LAYOUTS[] = { "fsdp", "ddp", "hybrid", "none", NULL },             /* ls_data_parallel */
            *const NONFINITE[] = { "stop", "skip", NULL };                        /* ls_nonfinite */

typedef struct texts {
    char units[LSF_TEXT], recompute[LSF_TEXT], freeze[LSF_TEXT], tensor[LSF_TEXT], metrics[LSF_TEXT],
        mesh[LSF_TEXT];
} texts;

/* "dp=2 tp=auto" for the ranks of a group. */
static ls_status mesh_of(ls_mesh *out, char *words, int64_t ranks)
{
    ls_mesh m = { 0 };
    char *rest = NULL;
    for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *size = strchr(word, '='), *end = size;
        const long n = !size ? -1 : !strcmp(size + 1, "auto") ? 0 : strtol(size + 1, &end, 10);
        const bool sized = size && (n > 0 ? end > size + 1 && !*end : !strcmp(size + 1, "auto"));
        if (!sized || size == word || size - word >= (int)sizeof m.axes[0].name)
            return ls_fail(
                LS_E_ARG,
                "ls_trainer_create: mesh: \"%s\" is not an axis with its size, such as dp=2 or dp=auto",
                word);
        if (m.n == LS_MESH_AXES)
            return ls_fail(LS_E_ARG, "ls_trainer_create: mesh: more than %d axes", LS_MESH_AXES);
        memcpy(m.axes[m.n].name, word, (size_t)(size - word));
        m.axes[m.n++].size = n;
    }
    return ls_mesh_resolve(out, &m, ranks);
}

static void set(double *option, const double *given) { *option = given ? *given : *option; }

ls_status lsf_trainer_create(lsf_trainer *out, void (*build)(ls_graph *, int), ls_group *const *group,
                             const int *micro_batch, const int *micro_batches, const int *threads,
                             int padding, const CFI_cdesc_t *optimizer, const double *beta1,
                             const double *beta2, const double *eps, const double *weight_decay,
                             const double *momentum, int nesterov, const double *clip_norm,
                             const double *ema_decay, const CFI_cdesc_t *precision,
                             const CFI_cdesc_t *data_parallel, const CFI_cdesc_t *units,
                             const CFI_cdesc_t *recompute, const CFI_cdesc_t *freeze, const CFI_cdesc_t *mesh,
                             const CFI_cdesc_t *tensor, int sequence, const CFI_cdesc_t *metrics,
                             const CFI_cdesc_t *nonfinite, const int *max_skips)
{
    int kind = LS_ADAM, type = LS_F32, layout = LS_DATA_FSDP, bad = LS_NONFINITE_STOP;
    texts t;
    ls_trainer_opts o = ls_trainer_opts_default();
    *out = (lsf_trainer){ 0 };
    LS_TRY(word(&kind, "ls_trainer_create: optimizer", optimizer, OPTIMIZERS));
    LS_TRY(word(&type, "ls_trainer_create: precision", precision, PRECISIONS));
    LS_TRY(word(&layout, "ls_trainer_create: data_parallel", data_parallel, LAYOUTS));
    LS_TRY(word(&bad, "ls_trainer_create: nonfinite", nonfinite, NONFINITE));
    if (!lsf_text(t.units, units) || !lsf_text(t.recompute, recompute) || !lsf_text(t.freeze, freeze) ||
        !lsf_text(t.tensor, tensor) || !lsf_text(t.metrics, metrics) || !lsf_text(t.mesh, mesh))
        return ls_fail(LS_E_ARG, "ls_trainer_create: a text has more than %d characters", LSF_TEXT - 1);
    o.group = group ? *group : NULL;
    o.parallel = ls_parallel_over(o.group);
    if (t.mesh[0])
        LS_TRY(mesh_of(&o.parallel.mesh, t.mesh, o.group ? ls_group_size(o.group) : 1));
    o.parallel.data = (ls_data_parallel)layout;
    o.parallel.tensor = t.tensor[0] ? t.tensor : o.parallel.tensor;
    o.parallel.sequence = sequence;
    o.metrics = t.metrics[0] ? t.metrics : NULL;
    o.parallel.units = t.units[0] ? t.units : o.parallel.units;
    o.micro_batch = micro_batch ? *micro_batch : o.micro_batch;
    o.micro_batches = micro_batches ? *micro_batches : ls_mesh_data_ranks(&o.parallel.mesh);
    o.threads = threads ? *threads : o.threads;
    o.padding = padding;
    o.nonfinite = (ls_nonfinite)bad;
    o.max_skips = max_skips ? *max_skips : o.max_skips;
    o.optimizer.kind = (ls_optimizer_kind)kind;
    o.optimizer.nesterov = nesterov;
    set(&o.optimizer.beta1, beta1);
    set(&o.optimizer.beta2, beta2);
    set(&o.optimizer.eps, eps);
    set(&o.optimizer.weight_decay, weight_decay);
    set(&o.optimizer.momentum, momentum);
    set(&o.clip_norm, clip_norm);
    set(&o.ema_decay, ema_decay);
    o.param = (ls_dtype)type;
    o.output = type == LS_F64 ? LS_F64 : LS_F32;
    o.parallel.reduce = type == LS_F64 ? LS_F64 : LS_F32;
    o.recompute = t.recompute[0] ? t.recompute : NULL;
    o.freeze = t.freeze[0] ? t.freeze : NULL;
    const lsf_builder builder = { build };
    LS_TRY(ls_trainer_create_with(&out->at, lsf_build, &builder, &o));
    out->micro_batch = o.micro_batch;
    out->micro_batches = o.micro_batches;
    const ls_status s = ls_parallel_share(&out->share, &o.parallel, o.micro_batches);
    if (s != LS_OK)
        ls_trainer_destroy(&out->at);
    return s;
}

ls_status lsf_trainer_init(ls_trainer *const *t, int seed)
{
    return ls_trainer_init(*t, (uint64_t)(unsigned)seed);
}

ls_status lsf_trainer_exchange_ema(ls_trainer *const *t) { return ls_trainer_exchange_ema(*t); }
ls_status lsf_trainer_fit(ls_trainer *const *t, ls_dataset *const *set) { return ls_trainer_fit(*t, *set); }

ls_status lsf_trainer_load(ls_trainer *const *t, const CFI_cdesc_t *path)
{
    ls_weights *w = NULL;
    LSF_TEXT_OF(text, path);
    LS_TRY(ls_weights_open(&w, text));
    const ls_status s = ls_trainer_load(*t, w);
    ls_weights_close(&w);
    return s;
}

ls_status lsf_trainer_save(ls_trainer *const *t, const CFI_cdesc_t *path)
{
    LSF_TEXT_OF(text, path);
    return ls_trainer_save(*t, text);
}

ls_status lsf_trainer_save_checkpoint(ls_trainer *const *t, const CFI_cdesc_t *folder)
{
    LSF_TEXT_OF(text, folder);
    return ls_trainer_save_checkpoint(*t, text);
}

ls_status lsf_trainer_load_checkpoint(ls_trainer *const *t, const CFI_cdesc_t *folder)
{
    LSF_TEXT_OF(text, folder);
    return ls_trainer_load_checkpoint(*t, text);
}

ls_status lsf_trainer_put(ls_trainer *const *t, const CFI_cdesc_t *field, const CFI_cdesc_t *values,
                          const int *first)
{
    ls_tensor x;
    LSF_TEXT_OF(name, field);
    LS_TRY(lsf_tensor(&x, values, "ls_trainer_put"));
    return ls_trainer_put(*t, name, &x, first ? *first - 1 : 0);
}

lsf_step_result lsf_step_result_of(const ls_step_result *r)
{
    return (lsf_step_result){ r->loss,  r->grad_norm, r->loss_scale, r->seconds,
                              r->count, r->skipped,   (int)r->skip };
}

ls_status lsf_trainer_run(ls_trainer *const *t, int samples, double lr, lsf_step_result *out)
{
    ls_step_result r;
    LS_TRY(ls_trainer_run(*t, samples, lr, &r));
    *out = lsf_step_result_of(&r);
    return LS_OK;
}

int64_t lsf_trainer_parameter_count(ls_trainer *const *t) { return ls_trainer_parameter_count(*t); }

ls_status lsf_trainer_get(ls_trainer *const *t, const CFI_cdesc_t *name, const CFI_cdesc_t *values)
{
    ls_tensor x;
    LSF_TEXT_OF(text, name);
    LS_TRY(lsf_tensor(&x, values, "ls_trainer_get"));
    return ls_trainer_get(*t, text, &x);
}

ls_status lsf_trainer_set(ls_trainer *const *t, const CFI_cdesc_t *name, const CFI_cdesc_t *values)
{
    ls_tensor x;
    LSF_TEXT_OF(text, name);
    LS_TRY(lsf_tensor(&x, values, "ls_trainer_set"));
    return ls_trainer_set(*t, text, &x);
}

/* ---- evaluation */

ls_status lsf_dataset_put(ls_dataset **set, const CFI_cdesc_t *field, const CFI_cdesc_t *values)
{
    ls_tensor x;
    LSF_TEXT_OF(name, field);
    LS_TRY(lsf_tensor(&x, values, "ls_dataset_put"));
    return ls_dataset_put(set, name, &x);
}

enum { METRICS = 64 };

/* One of the metrics that an evaluation has found. */
static ls_status pick(double *value, const char *call, const char *name, const ls_metric *all, int n)
{
    char names[1024] = "";
    for (int i = 0; i < n && i < METRICS; i++) {
        if (!strcmp(all[i].name, name)) {
            *value = all[i].value;
            return LS_OK;
        }
        if (strlen(names) + strlen(all[i].name) + 3 < sizeof names)
            strcat(strcat(names, i ? ", " : ""), all[i].name);
    }
    return ls_fail(LS_E_ARG, "%s: no metric \"%s\"; there are %s", call, name, names);
}

ls_status lsf_trainer_evaluate(ls_trainer *const *t, ls_dataset *const *set, const CFI_cdesc_t *metric,
                               double *value)
{
    ls_metric all[METRICS];
    int n = 0;
    LSF_TEXT_OF(name, metric);
    LS_TRY(ls_trainer_evaluate(*t, *set, all, METRICS, &n));
    return pick(value, "ls_trainer_evaluate", name, all, n);
}

/* Several of them by one evaluation. */
ls_status lsf_trainer_evaluate_all(ls_trainer *const *t, ls_dataset *const *set, const CFI_cdesc_t *names,
                                   const CFI_cdesc_t *values)
{
    ls_metric all[METRICS];
    int n = 0;
    const CFI_index_t wanted = names->dim[0].extent;
    if (wanted != values->dim[0].extent)
        return ls_fail(LS_E_ARG, "ls_trainer_evaluate: %lld names, room for %lld values", (long long)wanted,
                       (long long)values->dim[0].extent);
    LS_TRY(ls_trainer_evaluate(*t, *set, all, METRICS, &n));
    for (CFI_index_t i = 0; i < wanted; i++) {
        char name[LSF_TEXT];
        lsf_text_at(name, names, i);
        LS_TRY(pick((double *)((char *)values->base_addr + i * values->dim[0].sm), "ls_trainer_evaluate",
                    name, all, n));
    }
    return LS_OK;
}

/* ---- predictions */

ls_status lsf_predictor_of(ls_predictor **out, ls_trainer *const *t, const CFI_cdesc_t *outputs)
{
    ls_predictor_opts o = ls_predictor_opts_default();
    *out = NULL;
    LSF_TEXT_OF(names, outputs);
    o.outputs = names[0] ? names : NULL;
    return ls_predictor_of_with(out, *t, &o);
}

ls_status lsf_predictor_open(ls_predictor **out, const CFI_cdesc_t *path, void (*build)(ls_graph *, int),
                             const CFI_cdesc_t *outputs, const int *batch, const int *threads)
{
    ls_predictor_opts o = ls_predictor_opts_default();
    const lsf_builder builder = { build };
    *out = NULL;
    LSF_TEXT_OF(folder, path);
    LSF_TEXT_OF(names, outputs);
    o.outputs = names[0] ? names : NULL;
    o.batch = batch ? *batch : o.batch;
    o.threads = threads ? *threads : o.threads;
    o.build = build ? lsf_build : NULL;
    o.config = &builder;
    return ls_predictor_open_with(out, folder, &o);
}

ls_status lsf_predictor_put(ls_predictor *const *p, const CFI_cdesc_t *field, const CFI_cdesc_t *values)
{
    ls_tensor x;
    LSF_TEXT_OF(name, field);
    LS_TRY(lsf_tensor(&x, values, "ls_predictor_put"));
    return ls_predictor_put(*p, name, &x);
}

ls_status lsf_predictor_run(ls_predictor *const *p, int n) { return ls_predictor_run(*p, n); }

ls_status lsf_predictor_get(ls_predictor *const *p, const CFI_cdesc_t *output, const CFI_cdesc_t *values)
{
    ls_tensor x;
    LSF_TEXT_OF(name, output);
    LS_TRY(lsf_tensor(&x, values, "ls_predictor_get"));
    return ls_predictor_get(*p, name, &x);
}

/* ---- live data */

static const char *const KEEPS[] = { "fifo", "reservoir", NULL }, /* ls_live_keep */
    *const FULLS[] = { "refuse", "drop_oldest", NULL };           /* ls_live_full */

ls_status lsf_live_open(ls_live **out, ls_trainer *const *t, const int *capacity, const CFI_cdesc_t *keep,
                        const CFI_cdesc_t *full, const int *hold_out, const int *seed,
                        const CFI_cdesc_t *record, const int *fit)
{
    ls_live_opts o = ls_live_opts_default();
    int kept = (int)o.keep, refuses = (int)o.full;
    *out = NULL;
    LSF_TEXT_OF(folder, record);
    LS_TRY(word(&kept, "ls_live_open: keep", keep, KEEPS));
    LS_TRY(word(&refuses, "ls_live_open: full", full, FULLS));
    o.keep = (ls_live_keep)kept;
    o.full = (ls_live_full)refuses;
    o.capacity = capacity ? *capacity : o.capacity;
    o.hold_out = hold_out ? *hold_out : o.hold_out;
    o.seed = seed ? (uint64_t)(unsigned)*seed : o.seed;
    o.record = folder[0] ? folder : NULL;
    o.fit = fit ? *fit : o.fit;
    return ls_live_open_with(out, *t, &o);
}

ls_status lsf_live_put(ls_live *const *q, const CFI_cdesc_t *field, const CFI_cdesc_t *values)
{
    ls_tensor x;
    LSF_TEXT_OF(name, field);
    LS_TRY(lsf_tensor(&x, values, "ls_live_put"));
    return ls_live_put(*q, name, &x);
}

ls_status lsf_live_push(ls_live *const *q, int m) { return ls_live_push(*q, m); }
ls_status lsf_live_finish(ls_live *const *q) { return ls_live_finish(*q); }

ls_status lsf_live_fill(ls_live *const *q, int *samples, int *total, bool *done)
{
    int64_t mine = 0, all = 0;
    LS_TRY(ls_live_fill(*q, &mine, &all, done));
    *samples = (int)mine;
    *total = (int)all;
    return LS_OK;
}

ls_status lsf_live_start(ls_live *const *q, double lr, const int *least)
{
    return ls_live_start(*q, lr, NULL, least ? *least : 0);
}

ls_status lsf_live_stop(ls_live *const *q, int *steps, lsf_step_result *last)
{
    int64_t n = 0;
    ls_step_result r = { 0 };
    LS_TRY(ls_live_stop(*q, &n, &r));
    if (steps)
        *steps = (int)n;
    if (last)
        *last = lsf_step_result_of(&r);
    return LS_OK;
}

ls_status lsf_live_push_wait(ls_live *const *q, int m, double seconds)
{
    return ls_live_push_wait(*q, m, seconds);
}

ls_status lsf_live_count(ls_live *const *q, ls_live_numbers *out) { return ls_live_count(*q, out); }

ls_status lsf_live_evaluate(ls_live *const *q, const CFI_cdesc_t *metric, double *value)
{
    ls_metric all[METRICS];
    int n = 0;
    LSF_TEXT_OF(name, metric);
    LS_TRY(ls_live_evaluate(*q, all, METRICS, &n));
    return pick(value, "ls_live_evaluate", name, all, n);
}
