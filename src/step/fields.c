/* fields.c - the fields of a batch and the inputs of the programs that take them, by name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/str.h"
#include "base/sys.h"
#include "graph/identity.h"
#include "graph/op.h"
#include "ops/rules.h"
#include "trainer.h"

static const char *field_name(const ls_node *n)
{
    const int64_t what = n->op == &ls_op_input ? ls_source_is(n).what : LS_IS_SEED;
    return what == LS_IS_NAMED || what == LS_IS_EVAL_INPUT ? ((const ls_source_attrs *)n->attrs)->name : NULL;
}

size_t ls_field_bytes(const ls_graph *g)
{
    size_t bytes = 0;
    for (int i = 0; i < g->n_nodes; i++)
        bytes += field_name(g->nodes[i]) ? ls_type_bytes(ls_type_of(g, g->nodes[i]->out[0])) : 0;
    return bytes;
}

int ls_trainer_field_find(const ls_trainer *t, const char *name)
{
    for (int i = 0; i < t->n_fields; i++)
        if (!strcmp(t->fields[i].name, name))
            return i;
    return -1;
}

static ls_status not_of_samples(const char *name, const ls_type *type)
{
    char text[128];
    return ls_fail(
        LS_E_ARG,
        "the model's input \"%s\" is %s: it takes a field of the samples, so it must be [batch, ..]", name,
        ls_type_text(text, type));
}

/* Finds or adds the field of an input, and binds the input. */
static ls_status bind_input(ls_trainer *t, const ls_node *n, bool evaluates)
{
    const char *name = field_name(n);
    const int64_t batch = evaluates ? t->compiled.eval_batch : t->compiled.micro_batch * t->compiled.unrolled;
    const int k = ls_trainer_field_find(t, name);
    ls_trainer_field *f = &t->fields[k < 0 ? t->n_fields : k];
    const bool same = evaluates && f->at && ls_source_is(n).what == LS_IS_NAMED;
    ls_place place = f->own;
    ls_binding *at = f->at;
    f->name = name;
    if (!same) {
        LS_TRY(ls_session_place_of(t->session, ls_source_is(n), name, &place));
        LS_TRY(ls_session_binding(t->session, ls_source_is(n), name, &at));
    }
    if (place.type.ndim < 1 || place.type.dims[0] % batch)
        return not_of_samples(name, &place.type);
    if (evaluates) {
        f->eval = place;
        f->eval_at = at;
    }
    if (!evaluates || k < 0) {
        f->own = place;
        f->own.type.dims[0] = place.type.dims[0] / batch * t->compiled.micro_batch;
        f->at = evaluates ? NULL : at;
    }
    t->n_fields += k < 0;
    return LS_OK;
}

ls_status ls_trainer_bind_fields(ls_trainer *t)
{
    static const int PROGRAMS[] = { LS_MICRO, LS_EVAL };
    int room = 1;
    for (int p = 0; p < 2; p++)
        room += t->compiled.plans[PROGRAMS[p]] ? t->compiled.plans[PROGRAMS[p]]->graph->n_nodes : 0;
    t->fields = ls_sys_calloc((size_t)room, sizeof *t->fields);
    t->fed = ls_sys_calloc((size_t)room, sizeof *t->fed);
    if (!t->fields || !t->fed)
        return ls_fail(LS_E_MEMORY, "out of memory for a trainer");
    for (int p = 0; p < 2; p++) {
        const ls_plan *plan = t->compiled.plans[PROGRAMS[p]];
        for (int i = 0; plan && i < plan->graph->n_nodes; i++)
            if (field_name(plan->graph->nodes[i]))
                LS_TRY(bind_input(t, plan->graph->nodes[i], PROGRAMS[p] == LS_EVAL));
    }
    return LS_OK;
}

/* ---- fields of a data set */

/* The sizes of a sample in a batch, without dimensions of 1. */
static int sizes(int64_t out[LS_MAX_DIMS], const ls_type *t, int64_t batch)
{
    int n = 0;
    for (int d = 0; d < t->ndim; d++) {
        const int64_t size = d == 0 ? t->dims[0] / batch : t->dims[d];
        if (size != 1)
            out[n++] = size;
    }
    return n;
}

static bool takes(const ls_type *input, int64_t batch, const ls_type *field)
{
    int64_t a[LS_MAX_DIMS], b[LS_MAX_DIMS];
    const bool same = input->dtype == field->dtype,
               floats = (input->dtype == LS_F32 || input->dtype == LS_F64) &&
                        (field->dtype == LS_F32 || field->dtype == LS_F64);
    const int n = sizes(a, input, batch);
    return (same || floats) && n == sizes(b, field, 1) && !memcmp(a, b, sizeof *a * (size_t)n);
}

static void sample_text(ls_str *out, const char *name, const ls_type *t, bool first)
{
    char text[128];
    ls_str_printf(out, "%s%s %s", first ? "" : ", ", name, ls_type_text(text, t));
}

static ls_type sample_of(const ls_type *batch, int64_t n)
{
    ls_type t = { .dtype = batch->dtype };
    for (int d = 0; d < batch->ndim; d++)
        if (d > 0 || batch->dims[0] != n)
            t.dims[t.ndim++] = d > 0 ? batch->dims[d] : batch->dims[0] / n;
    return t;
}

/* `why` says which field is missing or wrong. */
static ls_status fields_refuse(const ls_trainer *t, const char *name, const char *source,
                               const ls_field *const *fields, int n, const char *why)
{
    ls_str have = { 0 }, want = { 0 };
    for (int i = 0; i < t->n_fields; i++) {
        const ls_type sample = sample_of(&t->fields[i].own.type, t->compiled.micro_batch);
        sample_text(&want, t->fields[i].name, &sample, !i);
    }
    for (int k = 0; k < n; k++)
        sample_text(&have, fields[k]->name, &fields[k]->type, !k);
    const ls_status s = ls_fail(LS_E_SHAPE, "the model takes %s; %s%s%s has %s: %s", ls_str_text(&want), name,
                                *source ? ", " : "", source, ls_str_text(&have), why);
    ls_str_release(&have);
    ls_str_release(&want);
    return s;
}

/* The field that input number `input` takes; -1: none fits, with the reason. */
static int match(const ls_trainer *t, int input, const ls_field *const *fields, int n, char why[256])
{
    const ls_trainer_field *f = &t->fields[input];
    const char *names[64];
    char text[128];
    int k = 0;
    while (k < n && strcmp(fields[k]->name, f->name))
        k++;
    for (int i = 0; i < n && i < 64; i++)
        names[i] = fields[i]->name;
    if (k == n) {
        const char *near = ls_nearest_name(f->name, names, n < 64 ? n : 64);
        snprintf(why, 256, "no \"%s\"%s%s%s", f->name, near ? "; is it \"" : "", near ? near : "",
                 near ? "\"?" : "");
        return -1;
    }
    const ls_type sample = sample_of(&f->own.type, t->compiled.micro_batch);
    if (!takes(&f->own.type, t->compiled.micro_batch, &fields[k]->type)) {
        snprintf(why, 256, "\"%s\" must be %s", f->name, ls_type_text(text, &sample));
        return -1;
    }
    const ls_objective *o = &t->compiled.objective;
    for (int i = 0; i < o->n; i++)
        if (o->terms[i].weigh == LS_BY_VALID && !strcmp(o->terms[i].field, f->name) &&
            !fields[k]->ignorable) {
            snprintf(why, 256, "the valid entries of \"%s\" are counted, so it must be ignorable", f->name);
            return -1;
        }
    return k;
}

ls_status ls_trainer_check_data(const ls_trainer *t, const ls_dataset *set)
{
    LS_ARG(t);
    LS_ARG(set);
    const ls_field **fields = ls_sys_malloc(sizeof *fields * (size_t)(set->n_fields + 1));
    char why[256];
    LS_TRY(ls_sys_have(fields));
    ls_status s = LS_OK;
    for (int k = 0; k < set->n_fields; k++)
        fields[k] = &set->fields[k];
    for (int i = 0; i < t->n_fields && s == LS_OK; i++)
        if (match(t, i, fields, set->n_fields, why) < 0)
            s = fields_refuse(t, set->name, set->source, fields, set->n_fields, why);
    free(fields);
    return s;
}

/* ---- feeding a step */

ls_status ls_trainer_feed(ls_trainer *t, const ls_loader_step *b)
{
    enum { MOST = 64 };
    const ls_field *fields[MOST];
    char why[256];
    if (b->n_fields > MOST)
        return ls_fail(LS_E_ARG, "samples of %d fields: at most %d are possible", b->n_fields, MOST);
    for (int k = 0; k < b->n_fields; k++)
        fields[k] = b->fields[k].field;
    for (int i = 0; i < t->n_fields; i++) {
        const int k = match(t, i, fields, b->n_fields, why);
        if (k < 0)
            return fields_refuse(t, "the step", "", fields, b->n_fields, why);
        t->fed[i] = (ls_fed){ b->fields[k].data, b->fields[k].field->type.dtype, b->fields[k].count };
    }
    return LS_OK;
}

ls_status ls_trainer_feed_pair(ls_trainer *t, const void *inputs, const int32_t *targets, int64_t count,
                               const char *call)
{
    const ls_objective *o = &t->compiled.objective;
    const int target = o->n_losses == 1 && o->terms[0].weigh == LS_BY_VALID
                           ? ls_trainer_field_find(t, o->terms[0].field)
                           : -1;
    if (t->n_fields != 2 || target < 0)
        return ls_fail(
            LS_E_ARG,
            "%s is for a classifier or a language model: one loss by the valid entries of a field, and "
            "one more field; use ls_trainer_step_from",
            call);
    t->fed[target] = (ls_fed){ targets, LS_I32, count };
    t->fed[!target] = (ls_fed){ inputs, t->fields[!target].own.type.dtype, -1 };
    return LS_OK;
}

/* Converts batch k, of this type, from f32 to f64, or from f64 to f32. *out stays until the end of the step.
 */
static ls_status convert(ls_trainer *t, ls_trainer_field *f, const ls_type *type, int64_t k, const char *from,
                         const char **out)
{
    const int64_t n = ls_type_count(type);
    const size_t bytes = ls_type_bytes(type),
                 share = ls_type_bytes(&f->own.type) * (size_t)t->compiled.share.count,
                 eval = ls_type_bytes(&f->eval.type);
    if (!f->converted)
        f->converted = ls_sys_malloc(share > eval ? share : eval);
    LS_TRY(ls_sys_have(f->converted));
    char *to = f->converted + (size_t)k * bytes;
    for (int64_t i = 0; i < n; i++)
        if (f->own.type.dtype == LS_F32)
            ((float *)(void *)to)[i] = (float)((const double *)(const void *)from)[i];
        else
            ((double *)(void *)to)[i] = (double)((const float *)(const void *)from)[i];
    *out = to;
    return LS_OK;
}

ls_status ls_trainer_fill(ls_trainer *t, int64_t k)
{
    for (int i = 0; i < t->n_fields; i++) {
        ls_trainer_field *f = &t->fields[i];
        const ls_fed *fed = &t->fed[i];
        const bool evaluates = k < 0;
        const ls_type *type = evaluates ? &f->eval.type : &f->own.type;
        const int64_t batch = evaluates ? 0 : k;
        ls_binding *at = evaluates ? f->eval_at : f->at;
        const char *from = (const char *)fed->data +
                           (size_t)(batch * ls_type_count(type)) * ls_dtype_size(fed->type);
        if (!at)
            continue;
        const char *all = from;
        for (int64_t m = 0; fed->type != type->dtype && m < (evaluates ? 1 : t->compiled.unrolled); m++)
            LS_TRY(convert(t, f, type, batch + m,
                           all + (size_t)(m * ls_type_count(type)) * ls_dtype_size(fed->type),
                           m ? &(const char *){ NULL } : &from));
        LS_TRY(ls_session_bind(at, from));
    }
    return LS_OK;
}

void ls_trainer_unfeed(ls_trainer *t)
{
    for (int i = 0; i < t->n_fields; i++) /* (which cannot fail) */
        for (int p = 0; p < 2; p++) {
            ls_binding *at = p ? t->fields[i].eval_at : t->fields[i].at;
            if (at)
                (void)ls_session_bind(at, NULL);
        }
}

int64_t ls_trainer_room(const ls_trainer *t) { return t->compiled.share.count * t->compiled.micro_batch; }

size_t ls_trainer_sample_bytes(const ls_trainer *t, const ls_trainer_field *f)
{
    return ls_type_bytes(&f->own.type) / (size_t)t->compiled.micro_batch;
}
