/* predictor.c - runs the forward pass of a model, for any number of rows. A predictor contains a trainer of
 * one rank with a single program, which ls_compile_predictions makes. This file feeds it batch after
 * batch. */
#include "predictor.h"

#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/str.h"
#include "base/sys.h"
#include "ckpt/elements.h"
#include "comm/agree.h"
#include "rows.h"
#include "step/trainer.h"

/* Rows of an input or an output. */
typedef struct ls_predictor_rows {
    const char *name;
    ls_place own; /* place of one batch in the session */
    char *data;   /* rows that were put or computed, contiguous */
    /* rows that `data` has room for, in whole batches; rows -1: none were put or computed */
    int64_t room, rows;
} ls_predictor_rows;

struct ls_predictor {
    ls_trainer *t;
    ls_predictor_rows *inputs, *outputs; /* [t->n_fields], [n_outputs] */
    int n_outputs;
};

ls_session *ls_predictor_session(const ls_predictor *p) { return p->t->session; }

static int64_t batch_of(const ls_predictor *p) { return p->t->compiled.eval_batch; }

static size_t row_bytes(const ls_predictor *p, const ls_predictor_rows *k)
{
    return ls_type_bytes(&k->own.type) / (size_t)batch_of(p);
}

void ls_predictor_destroy(ls_predictor **pp)
{
    if (!pp || !*pp)
        return;
    ls_predictor *p = *pp;
    for (int i = 0; p->inputs && i < p->t->n_fields; i++)
        free(p->inputs[i].data);
    for (int i = 0; p->outputs && i < p->n_outputs; i++)
        free(p->outputs[i].data);
    free(p->inputs);
    free(p->outputs);
    ls_trainer_destroy(&p->t);
    free(p);
    *pp = NULL;
}

static ls_status list_rows(ls_predictor *p)
{
    const ls_trainer *t = p->t;
    const ls_graph *g = t->compiled.plans[LS_EVAL]->graph;
    p->inputs = ls_sys_calloc((size_t)t->n_fields + 1, sizeof *p->inputs);
    p->outputs = ls_sys_calloc((size_t)g->n_outputs, sizeof *p->outputs);
    LS_TRY(ls_sys_have(p->inputs ? p->outputs : NULL));
    for (int i = 0; i < t->n_fields; i++)
        p->inputs[i] = (ls_predictor_rows){ .name = t->fields[i].name, .own = t->fields[i].own, .rows = -1 };
    for (int i = 0; i < g->n_outputs; i++, p->n_outputs++) {
        ls_predictor_rows *k = &p->outputs[i];
        *k = (ls_predictor_rows){ .name = g->outputs[i].name, .rows = -1 };
        LS_TRY(ls_session_place_of(t->session, g->outputs[i].is, k->name, &k->own));
    }
    return LS_OK;
}

static ls_status predictor_compile(ls_predictor **out, const ls_graph *model, int64_t batch,
                                   const char *outputs, const ls_precision *precision, const ls_device *d)
{
    ls_compiled c;
    LS_TRY(ls_compile_predictions(&c, model, batch, outputs, precision, d));
    ls_predictor *p = ls_sys_calloc(1, sizeof *p);
    if (!p) {
        ls_compiled_release(&c);
        return ls_sys_have(p);
    }
    ls_status s = ls_trainer_from_compiled(&p->t, &c, NULL);
    if (s == LS_OK)
        s = list_rows(p);
    if (s != LS_OK)
        ls_predictor_destroy(&p);
    *out = p;
    return s;
}

/* Builds the model for `batch` samples and compiles it. */
static ls_status build_and_compile(ls_predictor **out, ls_build_fn build, const void *config, int64_t batch,
                                   const char *outputs, const ls_precision *precision, const ls_device *d)
{
    ls_graph *g;
    LS_TRY(ls_graph_create(&g, "predict"));
    ls_graph_evaluate(g);
    ls_status s = build(g, config, batch);
    if (s == LS_OK)
        s = predictor_compile(out, g, batch, outputs, precision, d);
    ls_graph_destroy(&g);
    return s;
}

static void have_weights(ls_predictor *p) { p->t->ready = p->t->used = true; }

ls_status ls_predictor_make(ls_predictor **out, ls_build_fn build, const void *config,
                            const ls_trainer_opts *like, const ls_predictor_opts *o, const ls_weights *w)
{
    const ls_precision precision = ls_trainer_precision(like);
    const int64_t batch = o->batch ? o->batch : like->eval_batch ? like->eval_batch : like->micro_batch;
    ls_tensor_list want = { 0 };
    ls_device d;
    *out = NULL;
    if (batch < 1)
        return ls_fail(LS_E_ARG, "a predictor's batch is %lld: it must be positive", (long long)batch);
    LS_TRY(ls_precision_check(&precision));
    LS_TRY(ls_device_open(&d, like->device,
                          &(ls_device_opts){ .isa = like->isa,
                                             .threads = o->threads ? o->threads : like->threads,
                                             .kernels = like->kernels }));
    LS_TRY(ls_compile_check_type(like->param, &d));
    ls_status s = build_and_compile(out, build, config, batch, o->outputs, &precision, &d);
    if (s == LS_OK)
        s = ls_trainer_whole((*out)->t, &want);
    if (s == LS_OK)
        s = ls_ranges_load(
            w, &want,
            &(ls_weights_load_opts){ LS_WEIGHTS_LOAD_DEFAULTS, .convert = true, .allow_unexpected = true });
    if (*out)
        ls_trainer_forget_whole((*out)->t, &want);
    if (s == LS_OK)
        have_weights(*out);
    else
        ls_predictor_destroy(out);
    return s;
}

/* ---- of a trainer */

static ls_status compile_like(ls_predictor **out, const ls_trainer *t, const ls_predictor_opts *o)
{
    const ls_compiled *c = &t->compiled;
    const int64_t batch = o->batch ? o->batch : c->eval_batch;
    ls_device d = c->device;
    d.threads = o->threads > 0 ? o->threads : d.threads;
    if (batch < 1 || o->threads < 0)
        return ls_fail(LS_E_ARG, "ls_predictor_of: batch %lld, threads %d: both must be positive",
                       (long long)batch, o->threads);
    if (o->build)
        return build_and_compile(out, o->build, o->config, batch, o->outputs, &c->precision, &d);
    if (batch != c->eval_batch)
        return ls_fail(LS_E_ARG,
                       "ls_predictor_of: batch %lld, the trainer's model was built for %lld samples: for "
                       "another batch say .build and .config, too",
                       (long long)batch, (long long)c->eval_batch);
    return predictor_compile(out, c->model, batch, o->outputs, &c->precision, &d);
}

static ls_status copy_weights(ls_predictor *p, const ls_tensor_list *from)
{
    ls_tensor_list want = { 0 };
    ls_status s = ls_trainer_whole(p->t, &want);
    if (s == LS_OK)
        s = ls_tensors_copy(&want, from);
    ls_trainer_forget_whole(p->t, &want);
    have_weights(p);
    return s;
}

/* The same outcome for all ranks. */
static ls_status predictor_agree(const ls_trainer *t, ls_status s)
{
    return t->group ? ls_ranks_agree(t->group, s) : s;
}

ls_status ls_predictor_of_with(ls_predictor **out, ls_trainer *t, const ls_predictor_opts *o)
{
    LS_ARG(out);
    LS_ARG(t);
    LS_TRAINER_USE(t);
    o = o ? o : &(const ls_predictor_opts){ LS_PREDICTOR_DEFAULTS };
    ls_tensor_list have = { 0 };
    *out = NULL;
    if (o->ema)
        return ls_fail(LS_E_ARG,
                       "ls_predictor_of: .ema is for ls_predictor_open; call ls_trainer_exchange_ema");
    if (o->best)
        return ls_fail(LS_E_ARG, "ls_predictor_of: .best is for ls_predictor_open of a run");
    LS_TRY(ls_trainer_needs_weights(t, "ls_predictor_of"));
    ls_status s = predictor_agree(t, compile_like(out, t, o));
    if (s == LS_OK)
        s = ls_trainer_share_buffers(t);
    if (s == LS_OK)
        s = ls_trainer_whole(t, &have);
    s = s == LS_OK ? predictor_agree(t, copy_weights(*out, &have)) : s;
    ls_trainer_forget_whole(t, &have);
    if (s != LS_OK)
        ls_predictor_destroy(out);
    return s;
}

/* ---- using one */

static ls_status predictor_find(const char *call, const char *what, ls_predictor_rows *of, int n,
                                const char *name, ls_predictor_rows **out)
{
    ls_str all = { 0 };
    const char *near = NULL, *names[64];
    for (int i = 0; i < n; i++)
        if (!strcmp(of[i].name, name)) {
            *out = &of[i];
            return LS_OK;
        }
    for (int i = 0; i < n; i++) {
        names[i < 64 ? i : 63] = of[i].name;
        ls_str_printf(&all, "%s%s", i ? ", " : "", of[i].name);
    }
    near = ls_nearest_name(name, names, n < 64 ? n : 64);
    const ls_status s = ls_fail(LS_E_ARG, "%s: no %s \"%s\"%s%s%s; the predictor has %s", call, what, name,
                                near ? ", is it \"" : "", near ? near : "", near ? "\"?" : "",
                                all.len ? ls_str_text(&all) : "none");
    ls_str_release(&all);
    return s;
}

/* Makes room for n rows, in whole batches, and keeps the contents. */
static ls_status predictor_grow(const ls_predictor *p, ls_predictor_rows *k, int64_t n)
{
    const int64_t batch = batch_of(p), room = (n + batch - 1) / batch * batch;
    size_t bytes;
    if (room <= k->room)
        return LS_OK;
    void *more = __builtin_mul_overflow((size_t)room, row_bytes(p, k), &bytes)
                     ? NULL
                     : ls_sys_realloc(k->data, bytes ? bytes : 1);
    if (!more)
        return ls_fail(LS_E_MEMORY, "out of memory for %lld rows of \"%s\"", (long long)n, k->name);
    k->data = more;
    k->room = room;
    return LS_OK;
}

ls_status ls_predictor_put(ls_predictor *p, const char *field, const ls_tensor *values)
{
    LS_ARG(p);
    LS_ARG(field);
    LS_ARG(values);
    LS_ARG_TYPE(values->type);
    LS_TRAINER_USE(p->t);
    ls_predictor_rows *k = NULL;
    int64_t n;
    LS_TRY(predictor_find(__func__, "input", p->inputs, p->t->n_fields, field, &k));
    LS_TRY(ls_rows_check(__func__, field, values, &k->own.type, batch_of(p), &n));
    LS_TRY(predictor_grow(p, k, n));
    ls_rows_take(k->data, k->own.type.dtype, values);
    k->rows = n;
    return LS_OK;
}

ls_status ls_predictor_check_data(const ls_predictor *p, const ls_dataset *set)
{
    return ls_trainer_check_data(p->t, set);
}

static ls_status check_run(const ls_predictor *p, int64_t n)
{
    if (n < 0)
        return ls_fail(LS_E_ARG, "ls_predictor_run: n is %lld: a number of rows from 0 up is needed",
                       (long long)n);
    for (int i = 0; i < p->t->n_fields; i++) {
        const ls_predictor_rows *k = &p->inputs[i];
        if (k->rows < 0)
            return ls_fail(LS_E_ARG,
                           "ls_predictor_run: \"%s\" was not put since the last run: call "
                           "ls_predictor_put for every input first",
                           k->name);
        if (k->rows < n)
            return ls_fail(
                LS_E_ARG,
                "ls_predictor_run: %lld rows, but \"%s\" was put for %lld: put every input for all rows",
                (long long)n, k->name, (long long)k->rows);
    }
    return LS_OK;
}

/* Computes the batch that begins with row `first`. Padding after the last row repeats row `first`. */
static ls_status run_batch(ls_predictor *p, int64_t first, int64_t n)
{
    const int64_t batch = batch_of(p), real = n - first < batch ? n - first : batch;
    for (int i = 0; i < p->t->n_fields; i++) {
        ls_predictor_rows *k = &p->inputs[i];
        const size_t bytes = row_bytes(p, k);
        char *rows = k->data + (size_t)first * bytes;
        for (int64_t r = real; r < batch; r++)
            memcpy(rows + (size_t)r * bytes, rows, bytes);
        p->t->fed[i] = (ls_fed){ rows, k->own.type.dtype, -1 };
    }
    LS_TRY(ls_trainer_eval_fed(p->t));
    for (int i = 0; i < p->n_outputs; i++) {
        const ls_predictor_rows *k = &p->outputs[i];
        ls_type rows = k->own.type;
        rows.dims[0] = rows.dims[0] / batch * real;
        const ls_place part = ls_place_part(&k->own, 0, &rows);
        LS_TRY(ls_session_fetch(&part, k->data + (size_t)first * row_bytes(p, k), ls_type_bytes(&rows)));
    }
    return ls_session_wait(p->t->session);
}

ls_status ls_predictor_run(ls_predictor *p, int64_t n)
{
    LS_ARG(p);
    LS_TRAINER_USE(p->t);
    LS_TRY(check_run(p, n));
    for (int i = 0; i < p->n_outputs; i++)
        LS_TRY(predictor_grow(p, &p->outputs[i], n));
    for (int i = 0; i < p->n_outputs; i++)
        p->outputs[i].rows = -1;
    for (int64_t first = 0; first < n; first += batch_of(p))
        LS_TRY(run_batch(p, first, n));
    for (int i = 0; i < p->n_outputs; i++)
        p->outputs[i].rows = n;
    for (int i = 0; i < p->t->n_fields; i++)
        p->inputs[i].rows = -1;
    return LS_OK;
}

ls_status ls_predictor_get(ls_predictor *p, const char *output, const ls_tensor *values)
{
    LS_ARG(p);
    LS_ARG(output);
    LS_ARG(values);
    LS_ARG_TYPE(values->type);
    LS_TRAINER_USE(p->t);
    ls_predictor_rows *k = NULL;
    int64_t n;
    LS_TRY(predictor_find(__func__, "output", p->outputs, p->n_outputs, output, &k));
    if (k->rows < 0)
        return ls_fail(LS_E_ARG, "ls_predictor_get before ls_predictor_run: there is no \"%s\" yet", output);
    LS_TRY(ls_rows_check(__func__, output, values, &k->own.type, batch_of(p), &n));
    if (n != k->rows)
        return ls_fail(LS_E_SHAPE, "ls_predictor_get: \"%s\" for %lld rows, the last run had %lld", output,
                       (long long)n, (long long)k->rows);
    ls_rows_give(values, k->data, k->own.type.dtype);
    return LS_OK;
}

static int list(const ls_predictor *p, const ls_predictor_rows *of, int n, ls_named_tensor *out, int max)
{
    for (int i = 0; out && i < n && i < max; i++) {
        ls_type type = of[i].own.type;
        type.dims[0] /= batch_of(p);
        out[i] = (ls_named_tensor){ of[i].name, ls_tensor_of(NULL, &type) };
    }
    return n;
}

int ls_predictor_inputs(const ls_predictor *p, ls_named_tensor *out, int max)
{
    LS_ARG_OR(p, 0);
    return list(p, p->inputs, p->t->n_fields, out, max);
}

int ls_predictor_outputs(const ls_predictor *p, ls_named_tensor *out, int max)
{
    LS_ARG_OR(p, 0);
    return list(p, p->outputs, p->n_outputs, out, max);
}

size_t ls_predictor_bytes(const ls_predictor *p)
{
    LS_ARG_OR(p, 0);
    size_t bytes = ls_trainer_bytes(p->t);
    for (int i = 0; i < p->t->n_fields; i++)
        bytes += (size_t)p->inputs[i].room * row_bytes(p, &p->inputs[i]);
    for (int i = 0; i < p->n_outputs; i++)
        bytes += (size_t)p->outputs[i].room * row_bytes(p, &p->outputs[i]);
    return bytes;
}

ls_predictor_opts ls_predictor_opts_default(void) { return (ls_predictor_opts){ LS_PREDICTOR_DEFAULTS }; }
