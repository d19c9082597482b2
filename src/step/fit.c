/* fit.c - finds the scaling of fields: mean and deviation of each channel over a data set. Each rank reads a
 * part of the samples. Sums are exact, so the ranks change no bit; values are shifted by those of the first
 * sample, so squares of large numbers do not swallow the deviation. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/exact.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/sys.h"
#include "ckpt/checkpoint.h"
#include "comm/group_calls.h"
#include "trainer.h"

typedef struct channel {
    ls_exact sum, squares; /* sums of value - shift */
    double shift;
    int64_t n;
} channel;

/* A field that has a scaling. */
typedef struct fitted {
    const char *field;
    /* number of the field, and of FIELD.valid, in the set; valid -1: there is none */
    int k, valid;
    ls_place mean, deviation; /* buffers */
    int64_t each, channels;   /* elements of a sample; element e is of channel e % channels */
    channel *of;              /* [channels] */
    ls_number *numbers;       /* [channels][mean, deviation], as they are put */
    void *values, *present;   /* of one sample */
} fitted;

static double element(const void *values, ls_dtype type, int64_t i)
{
    return type == LS_F64 ? ((const double *)values)[i] : (double)((const float *)values)[i];
}

static int field_number(const ls_dataset *set, const char *name)
{
    int k = 0;
    while (k < set->n_fields && strcmp(set->fields[k].name, name))
        k++;
    return k < set->n_fields ? k : -1;
}

/* The buffer "scaling.FIELD.WHAT" of a field, by the name of its mean. */
static const ls_place *deviation_of(const ls_trainer *t, const char *mean, int field_length)
{
    char name[160];
    snprintf(name, sizeof name, "%.*s.deviation", (int)strlen("scaling.") + field_length, mean);
    for (int i = 0; i < t->n_buffers; i++)
        if (!strcmp(t->buffers[i].name, name))
            return &t->buffers[i].place;
    return NULL;
}

static ls_status fit_prepare(fitted *f, const ls_dataset *set, const ls_place *mean,
                             const ls_place *deviation, char *name)
{
    char valid[160];
    snprintf(valid, sizeof valid, "%s.valid", name);
    *f = (fitted){ .field = name,
                   .k = field_number(set, name),
                   .valid = field_number(set, valid),
                   .mean = *mean,
                   .deviation = *deviation,
                   .channels = ls_type_count(&mean->type) };
    if (f->k < 0)
        return ls_fail(LS_E_SHAPE, "%s has no field \"%s\", whose scaling is to be found", set->name, name);
    const ls_type *type = &set->fields[f->k].type;
    f->each = ls_type_count(type);
    if ((type->dtype != LS_F32 && type->dtype != LS_F64) || f->each % f->channels)
        return ls_fail(LS_E_SHAPE, "field \"%s\" must be f32 or f64, of %lld channels", name,
                       (long long)f->channels);
    f->of = ls_sys_calloc((size_t)f->channels, sizeof *f->of);
    f->numbers = ls_sys_calloc(2 * (size_t)f->channels, sizeof *f->numbers);
    f->values = ls_sys_malloc(ls_type_bytes(type));
    f->present = ls_sys_malloc(ls_type_bytes(type));
    return f->of && f->numbers && f->values && f->present ? LS_OK
                                                          : ls_fail(LS_E_MEMORY, "no memory for a scaling");
}

static ls_status fit_read_sample(const ls_dataset *set, int64_t i, int n, const fitted *all, void **to)
{
    for (int k = 0; k < set->n_fields; k++)
        to[k] = NULL;
    for (int j = 0; j < n; j++) {
        to[all[j].k] = all[j].values;
        if (all[j].valid >= 0)
            to[all[j].valid] = all[j].present;
    }
    return set->read(set, i, to);
}

static bool is_there(const fitted *f, const ls_dataset *set, int64_t e)
{
    return f->valid < 0 || element(f->present, set->fields[f->valid].type.dtype, e) != 0;
}

/* The first value of each channel among the first samples. */
static ls_status find_shifts(const ls_dataset *set, int n, fitted *all, void **to)
{
    enum { MOST = 4096 }; /* samples; a channel without a number in all of them is not shifted */
    bool all_found = false;
    for (int64_t i = 0; i < set->n && i < MOST && !all_found; i++) {
        LS_TRY(ls_stop_check("finding the scaling of %s", set->name));
        LS_TRY(fit_read_sample(set, i, n, all, to));
        all_found = true;
        for (int j = 0; j < n; j++) {
            fitted *f = &all[j];
            for (int64_t e = f->each - 1; e >= 0; e--) {
                channel *c = &f->of[e % f->channels];
                if (is_there(f, set, e) && (c->n == 0 || c->n == i + 1)) {
                    c->shift = element(f->values, set->fields[f->k].type.dtype, e);
                    c->n = i + 1;
                }
            }
            for (int64_t k = 0; k < f->channels; k++)
                all_found = all_found && f->of[k].n;
        }
    }
    for (int j = 0; j < n; j++)
        for (int64_t k = 0; k < all[j].channels; k++)
            all[j].of[k].n = 0;
    return LS_OK;
}

static ls_status add_samples(const ls_dataset *set, int64_t from, int64_t end, int n, fitted *all, void **to)
{
    for (int64_t i = from; i < end; i++) {
        if (i % 1024 == 0)
            LS_TRY(ls_stop_check("finding the scaling of %s", set->name));
        LS_TRY(fit_read_sample(set, i, n, all, to));
        for (int j = 0; j < n; j++) {
            fitted *f = &all[j];
            for (int64_t e = 0; e < f->each; e++) {
                channel *c = &f->of[e % f->channels];
                if (!is_there(f, set, e))
                    continue;
                const double x = element(f->values, set->fields[f->k].type.dtype, e) - c->shift;
                if (!isfinite(x * x))
                    return ls_fail(
                        LS_E_NUMERIC,
                        "field \"%s\" of sample %lld: its numbers differ by %g, which has no square",
                        f->field, (long long)i, x);
                ls_exact_add(&c->sum, x);
                ls_exact_add(&c->squares, x * x);
                c->n++;
            }
        }
    }
    return LS_OK;
}

/* Adds the sums of the other ranks. */
static ls_status combine(fitted *f, ls_group *group)
{
    enum { PART = 64 }; /* channels of a message */
    const int ranks = ls_group_size(group);
    channel *in = ls_sys_malloc(sizeof *in * (size_t)(PART * ranks));
    ls_status s = ls_checkpoint_together(group, ls_sys_have(in));
    for (int64_t first = 0, n; first < f->channels && s == LS_OK; first += n) {
        n = f->channels - first < PART ? f->channels - first : PART;
        s = ls_group_all_gather(group, f->of + first, sizeof *in * (size_t)n, in);
        for (int64_t k = 0; k < n && s == LS_OK; k++) {
            channel *to = &f->of[first + k];
            *to = in[k];
            for (int r = 1; r < ranks; r++) {
                ls_exact_merge(&to->sum, &in[n * r + k].sum);
                ls_exact_merge(&to->squares, &in[n * r + k].squares);
                to->n += in[n * r + k].n;
            }
        }
    }
    free(in);
    return s;
}

static ls_status fit_put(const ls_place *p, int64_t i, ls_number *room, double x)
{
    const ls_place one = ls_place_part(p, i, &LS_SCALAR(p->type.dtype));
    return ls_put_number(&one, room, x);
}

static ls_status finish(const fitted *f, bool log)
{
    for (int64_t k = 0; k < f->channels; k++) {
        const channel *c = &f->of[k];
        const double n = c->n ? (double)c->n : 1, mean = ls_exact_value(&c->sum) / n,
                     square = ls_exact_value(&c->squares) / n - mean * mean,
                     deviation = square > 0 ? sqrt(square) : 0;
        const bool constant = (float)deviation == 0 || !isfinite((float)deviation);
        LS_TRY(fit_put(&f->mean, k, &f->numbers[2 * k], c->shift + mean));
        LS_TRY(fit_put(&f->deviation, k, &f->numbers[2 * k + 1], constant ? 1 : deviation));
        char channel_text[32] = "";
        if (f->channels > 1)
            snprintf(channel_text, sizeof channel_text, "[%s%lld]", f->each > f->channels ? ".., " : "",
                     (long long)k);
        if (constant && log)
            ls_log_warn("scaling: %s%s has %s in the training data: its deviation is taken as 1", f->field,
                        channel_text, c->n ? "one value" : "no value");
    }
    return ls_session_wait(f->mean.session);
}

/* Lists the fields with a scaling, except those whose scaling is in `have`. */
static ls_status list(fitted *all, int *n, char (*names)[128], const ls_trainer *t, const ls_dataset *set,
                      const ls_weights *have)
{
    for (int i = 0; i < t->n_buffers; i++) {
        const char *name = t->buffers[i].name, *field = name + strlen("scaling.");
        const size_t length = strlen(name);
        if (strncmp(name, "scaling.", 8) || length < 14 || strcmp(name + length - 5, ".mean") ||
            (have && ls_weights_find(have, name)))
            continue;
        const int of_field = (int)(length - 8 - 5);
        const ls_place *deviation = deviation_of(t, name, of_field);
        if (!deviation || of_field > 127)
            continue;
        snprintf(names[*n], 128, "%.*s", of_field, field);
        LS_TRY(fit_prepare(&all[*n], set, &t->buffers[i].place, deviation, names[*n]));
        ++*n;
    }
    return LS_OK;
}

ls_status ls_trainer_fit_missing(ls_trainer *t, const ls_dataset *set, const ls_weights *have)
{
    const int64_t ranks = t->group ? ls_group_size(t->group) : 1,
                  rank = t->group ? ls_group_rank(t->group) : 0;
    const size_t room = (size_t)t->n_buffers + 1;
    int n = 0;
    fitted *all = ls_sys_calloc(room, sizeof *all);
    char(*names)[128] = ls_sys_calloc(room, sizeof *names);
    void **to = ls_sys_calloc((size_t)set->n_fields, sizeof *to);
    ls_status s = all && names && to ? list(all, &n, names, t, set, have)
                                     : ls_fail(LS_E_MEMORY, "no memory for a scaling");
    if (s == LS_OK && n)
        s = find_shifts(set, n, all, to);
    if (s == LS_OK && n)
        s = add_samples(set, set->n * rank / ranks, set->n * (rank + 1) / ranks, n, all, to);
    if (t->group)
        s = ls_checkpoint_together(t->group, s);
    for (int j = 0; j < n && s == LS_OK && t->group; j++)
        s = combine(&all[j], t->group);
    for (int j = 0; j < n && s == LS_OK; j++)
        s = finish(&all[j], rank == 0);
    for (size_t j = 0; j < room && all; j++) {
        free(all[j].of);
        free(all[j].numbers);
        free(all[j].values);
        free(all[j].present);
    }
    free(all);
    free(names);
    free(to);
    return s;
}

ls_status ls_trainer_fit(ls_trainer *t, const ls_dataset *set)
{
    LS_ARG(t);
    LS_ARG(set);
    LS_TRAINER_USE(t);
    LS_TRY(ls_trainer_needs_weights(t, "ls_trainer_fit"));
    LS_TRY(ls_checkpoint_together(t->group, ls_trainer_check_data(t, set)));
    return ls_trainer_fit_missing(t, set, NULL);
}
