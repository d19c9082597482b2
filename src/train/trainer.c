/* trainer.c - a compiled step and its memory: feed, run, accumulate, update. Nothing here allocates once the trainer exists. */
#include "trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "nn/init.h"

static void put_scalar(const ls_tensor *t, double x)
{
    if (t->type.dtype == LS_F64)
        *(double *)t->data = x;
    else
        *(float *)t->data = (float)x;
}

static double scalar(const ls_tensor *t) { return t->type.dtype == LS_F64 ? *(double *)t->data : (double)*(float *)t->data; }

static ls_status optional(ls_session *s, const char *name, bool wanted, ls_tensor *out)
{
    return wanted ? ls_session_tensor(s, name, out) : LS_OK;
}

static ls_status bind(ls_trainer *t)
{
    const ls_compiled *c = &t->compiled;
    ls_session *s = t->session;
    bool training = c->plans[LS_MICRO] != NULL;
    char grad[80];
    (void)strcat(strcpy(grad, "grad."), c->units.state);
    LS_TRY(ls_session_tensor(s, c->units.state, &t->unit));
    LS_TRY(ls_session_tensor(s, "images", &t->images));
    LS_TRY(ls_session_tensor(s, "eval.rows", &t->eval_rows));
    LS_TRY(ls_session_tensor(s, "eval.predicted", &t->eval_predicted));
    LS_TRY(ls_session_tensor(s, "eval.probability", &t->eval_probability));
    LS_TRY(ls_session_tensor(s, "labels", &t->labels));
    LS_TRY(ls_session_tensor(s, "count", &t->count));
    LS_TRY(optional(s, grad, training, &t->grad));
    LS_TRY(optional(s, "loss", training, &t->loss));
    LS_TRY(optional(s, "lr", training, &t->lr));
    LS_TRY(optional(s, "step", training, &t->step));
    LS_TRY(optional(s, "grad_norm", training && c->clipping, &t->grad_norm));
    LS_TRY(optional(s, "applied", training && c->loss_scaling, &t->applied));
    LS_TRY(optional(s, "loss_scale", training && c->loss_scaling, &t->loss_scale));
    return LS_OK;
}

ls_status ls_trainer_from_compiled(ls_trainer **out, ls_compiled *compiled)
{
    ls_trainer *t = calloc(1, sizeof *t);
    if (!t) {
        ls_compiled_release(compiled);
        return ls_fail(LS_E_MEMORY, "out of memory for a trainer");
    }
    t->compiled = *compiled;
    ls_plan *plans[LS_PROGRAMS];
    int n = 0;
    for (int i = 0; i < LS_PROGRAMS; i++) {
        t->session_plan[i] = t->compiled.plans[i] ? n : -1;
        if (t->compiled.plans[i])
            plans[n++] = t->compiled.plans[i];
    }
    ls_status s;
    LS_TRY_TO(s, ls_session_create(&t->session, n, plans), fail);
    LS_TRY_TO(s, bind(t), fail);
    if (t->grad.data)
        LS_TRY_TO(s, ls_tree_create(&t->tree, &t->compiled.device, t->grad.type, t->compiled.tree_buffers,
                                    t->compiled.accumulation == LS_SUM_RUNNING), fail);
    *out = t;
    return LS_OK;
fail:
    ls_trainer_destroy(&t);
    return s;
}

ls_status ls_trainer_create_with(ls_trainer **out, ls_build_fn build, const void *config, const ls_trainer_opts *o)
{
    ls_compiled c;
    if (o->elsewhere)
        return ls_fail(LS_E_ARG, "a trainer runs here; plan for another machine with ls_compile");
    LS_TRY(ls_compile(&c, build, config, o, NULL));
    return ls_trainer_from_compiled(out, &c);
}

void ls_trainer_destroy(ls_trainer **tp)
{
    ls_trainer *t = *tp;
    if (!t)
        return;
    ls_tree_release(&t->tree);
    ls_session_destroy(&t->session);
    ls_compiled_release(&t->compiled);
    free(t);
    *tp = NULL;
}

/* Every state of the programs goes to its declared initial value; the unit's parameters to theirs. */
ls_status ls_trainer_init(ls_trainer *t, uint64_t seed)
{
    const ls_compiled *c = &t->compiled;
    for (int p = 0; p < LS_PROGRAMS; p++) {
        const ls_graph *g = c->plans[p] ? c->plans[p]->graph : NULL;
        for (int i = 0; g && i < g->n_nodes; i++) {
            if (strcmp(g->nodes[i]->op->name, "state"))
                continue;
            const ls_source_attrs *a = g->nodes[i]->attrs;
            ls_tensor x;
            LS_TRY(ls_session_tensor(t->session, a->name, &x));
            if (t->used) /* fresh memory is zero already, and untouched */
                memset(x.data, 0, ls_type_bytes(&x.type));
            if (a->init == LS_INIT_CONST || a->init == LS_INIT_ONE)
                ls_init_values(x.data, x.type.dtype, 0, ls_type_count(&x.type), (ls_init){ (ls_init_kind)a->init, a->init_a, a->init_b }, 0,
                               a->name, 1);
        }
    }
    for (int i = 0; i < c->units.n_slots; i++) {
        const ls_slot *s = &c->units.slots[i];
        ls_init_values((char *)t->unit.data + (size_t)s->offset * ls_dtype_size(c->units.dtype), c->units.dtype, 0, ls_type_count(&s->type),
                       s->init, seed, s->name, 1); /* the other cores take page faults meanwhile (run/session.c) */
    }
    t->used = true;
    return LS_OK;
}

static ls_named_tensor parameter(const ls_trainer *t, int i)
{
    const ls_slot *s = &t->compiled.units.slots[i];
    char *base = t->unit.data;
    return (ls_named_tensor){ s->name, ls_tensor_of(base + (size_t)s->offset * ls_dtype_size(s->type.dtype), &s->type) };
}

int ls_trainer_parameters(ls_trainer *t, ls_named_tensor *out, int max)
{
    int n = t->compiled.units.n_slots;
    for (int i = 0; i < n && i < max; i++)
        out[i] = parameter(t, i);
    return n;
}

static ls_status all_parameters(ls_trainer *t, ls_named_tensor **out, int *n)
{
    *n = t->compiled.units.n_slots;
    *out = calloc((size_t)*n, sizeof **out);
    if (!*out)
        return ls_fail(LS_E_MEMORY, "out of memory for a list of %d parameters", *n);
    ls_trainer_parameters(t, *out, *n);
    return LS_OK;
}

ls_status ls_trainer_load(ls_trainer *t, const ls_weights *w)
{
    ls_named_tensor *want;
    int n;
    LS_TRY(all_parameters(t, &want, &n));
    ls_status s = ls_weights_load(w, n, want, .convert = true);
    free(want);
    return s;
}

ls_status ls_trainer_save(ls_trainer *t, const char *path)
{
    ls_named_tensor *have;
    int n;
    LS_TRY(all_parameters(t, &have, &n));
    ls_status s = ls_weights_save(path, n, have);
    free(have);
    return s;
}

int64_t ls_trainer_parameter_count(const ls_trainer *t) { return t->compiled.units.parameters; }
int64_t ls_trainer_classes(const ls_trainer *t) { return t->compiled.classes; }
size_t ls_trainer_bytes(const ls_trainer *t) { return ls_session_bytes(t->session) + t->tree.bytes; }

static ls_status run(ls_trainer *t, int program)
{
    t->used = true;
    LS_TRY(ls_session_run(t->session, t->session_plan[program], false));
    if (t->after_run)
        t->after_run(t->context, t, program);
    return LS_OK;
}

/* The loss of micro-batch m is not finite: run it again, looking at every value, to say which op made the first one. */
static ls_status blame(ls_trainer *t, int64_t m)
{
    ls_status s = ls_session_run(t->session, t->session_plan[LS_MICRO], true);
    if (s != LS_OK)
        return ls_fail_in(s, "the loss of micro-batch %lld is not a number", (long long)m);
    return ls_fail(LS_E_NUMERIC, "the loss of micro-batch %lld is not a number, though every value of a second run is; is memory damaged?",
                   (long long)m);
}

static void feed(ls_trainer *t, const uint8_t *images, const int32_t *labels, int64_t targets)
{
    memcpy(t->images.data, images, ls_type_bytes(&t->images.type));
    memcpy(t->labels.data, labels, ls_type_bytes(&t->labels.type));
    put_scalar(&t->count, (double)targets);
}

ls_status ls_trainer_step(ls_trainer *t, const uint8_t *images, const int32_t *labels, int64_t targets, double lr, ls_step_result *r)
{
    const ls_compiled *c = &t->compiled;
    if (!c->plans[LS_MICRO])
        return ls_fail(LS_E_ARG, "this trainer was made for evaluation only");
    if (targets < 1)
        return ls_fail(LS_E_ARG, "a step needs at least one target, this one has %lld", (long long)targets);
    double start = ls_now();
    size_t image_bytes = ls_type_bytes(&t->images.type);
    int64_t rows = t->labels.type.dims[0];
    double loss = 0;
    ls_tree_begin(&t->tree);
    for (int64_t m = 0; m < c->micro_batches; m++) {
        feed(t, images + (size_t)m * image_bytes, labels + m * rows, targets);
        LS_TRY(run(t, LS_MICRO));
        loss = scalar(&t->loss);
        if (!isfinite(loss) && !c->loss_scaling)
            return blame(t, m);
        ls_tree_add(&t->tree, t->grad.data, &loss, m + 1 == c->micro_batches);
    }
    put_scalar(&t->lr, lr);
    LS_TRY(run(t, LS_UPDATE));
    *r = (ls_step_result){ .loss = loss, .grad_norm = c->clipping ? scalar(&t->grad_norm) : -1,
                           .loss_scale = c->loss_scaling ? scalar(&t->loss_scale) : 0,
                           .skipped = c->loss_scaling && !*(int32_t *)t->applied.data, .seconds = ls_now() - start };
    return LS_OK;
}

ls_status ls_trainer_eval(ls_trainer *t, const uint8_t *images, const int32_t *labels, float *loss, int32_t *predicted, float *probability)
{
    int64_t n = t->labels.type.dims[0];
    feed(t, images, labels, 1);
    LS_TRY(run(t, LS_EVAL));
    for (int64_t i = 0; i < n && loss; i++)
        loss[i] = t->eval_rows.type.dtype == LS_F64 ? (float)((double *)t->eval_rows.data)[i] : ((float *)t->eval_rows.data)[i];
    if (predicted)
        memcpy(predicted, t->eval_predicted.data, sizeof(int32_t) * (size_t)n);
    if (probability)
        memcpy(probability, t->eval_probability.data, ls_type_bytes(&t->eval_probability.type));
    return LS_OK;
}
