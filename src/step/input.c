/* input.c - gives a step its samples: from a loader, as inputs and targets of a classifier, or copied field
 * by field from the caller's memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/hash.h"
#include "base/str.h"
#include "base/sys.h"
#include "ckpt/checkpoint.h"
#include "comm/axes.h"
#include "comm/group_calls.h"
#include "graph/op.h"
#include "rows.h"
#include "trainer.h"

ls_status ls_trainer_put_find(int *out, const ls_trainer *t, const char *name, const char *call)
{
    const int i = ls_trainer_field_find(t, name);
    ls_str names = { 0 };
    if ((*out = i) >= 0)
        return LS_OK;
    for (int k = 0; k < t->n_fields; k++)
        ls_str_printf(&names, "%s%s", k ? ", " : "", t->fields[k].name);
    const ls_status s = ls_fail(LS_E_ARG, "%s: no field \"%s\"; the model takes %s", call, name,
                                ls_str_text(&names));
    ls_str_release(&names);
    return s;
}

static ls_status check_put(const ls_trainer *t, const ls_trainer_field *f, const ls_tensor *x, int64_t first,
                           int64_t *n)
{
    LS_TRY(ls_rows_check("ls_trainer_put", f->name, x, &f->own.type, t->compiled.micro_batch, n));
    if (first < 0 || first + *n > ls_trainer_room(t))
        return ls_fail(LS_E_ARG,
                       "ls_trainer_put: \"%s\": samples %lld to %lld, this rank's share of a step is %lld",
                       f->name, (long long)first, (long long)(first + *n - 1), (long long)ls_trainer_room(t));
    return LS_OK;
}

ls_status ls_trainer_put_room(const ls_trainer *t, ls_trainer_field *f)
{
    if (!f->put)
        f->put = ls_sys_calloc((size_t)ls_trainer_room(t), ls_trainer_sample_bytes(t, f));
    return ls_sys_have(f->put);
}

ls_status ls_trainer_put(ls_trainer *t, const char *field, const ls_tensor *values, int64_t first)
{
    LS_ARG(t);
    LS_ARG(field);
    LS_ARG(values);
    LS_ARG_TYPE(values->type);
    LS_TRAINER_USE(t);
    int i = 0;
    if (!t->compiled.plans[LS_MICRO])
        return ls_fail(LS_E_ARG, "this trainer was made for evaluation only");
    LS_TRY(ls_trainer_put_find(&i, t, field, "ls_trainer_put"));
    ls_trainer_field *f = &t->fields[i];
    int64_t n;
    LS_TRY(check_put(t, f, values, first, &n));
    LS_TRY(ls_trainer_put_room(t, f));
    ls_rows_take(f->put + (size_t)first * ls_trainer_sample_bytes(t, f), f->own.type.dtype, values);
    f->put_to = first + n > f->put_to ? first + n : f->put_to;
    return LS_OK;
}

/* Whether valid entries of the field are counted. If so, its padding has none. */
static bool is_counted(const ls_trainer *t, const char *name)
{
    const ls_objective *o = &t->compiled.objective;
    for (int i = 0; i < o->n; i++)
        if (o->terms[i].weigh == LS_BY_VALID && !strcmp(o->terms[i].field, name))
            return true;
    return false;
}

/* Fills padding with the first sample of the micro-batch or of the step. If this rank has no sample, the
 * padding keeps the contents of the step before. */
static void pad(ls_trainer *t, int64_t samples)
{
    const int64_t batch = t->compiled.micro_batch;
    for (int i = 0; i < t->n_fields; i++) {
        ls_trainer_field *f = &t->fields[i];
        const size_t bytes = ls_trainer_sample_bytes(t, f);
        const bool counted = is_counted(t, f->name);
        for (int64_t row = samples; row < ls_trainer_room(t); row++) {
            const int64_t of_batch = row / batch * batch;
            char *to = f->put + (size_t)row * bytes;
            if (samples)
                memcpy(to, f->put + (size_t)(of_batch < samples ? of_batch : 0) * bytes, bytes);
            for (size_t k = 0; counted && k < bytes / sizeof(int32_t); k++)
                ((int32_t *)(void *)to)[k] = LS_IGNORE_LABEL;
        }
    }
}

/* The checks that a rank can make by itself. */
static ls_status check_run(const ls_trainer *t, int64_t samples, double lr)
{
    LS_TRY(ls_trainer_check_step(t, lr, "ls_trainer_run"));
    if (samples < 0 || samples > ls_trainer_room(t))
        return ls_fail(
            LS_E_ARG,
            "ls_trainer_run: %lld samples are out of range: this rank's share of a step is 0 to %lld",
            (long long)samples, (long long)ls_trainer_room(t));
    for (int i = 0; i < t->n_fields; i++)
        if (t->fields[i].put_to < samples || !t->fields[i].put)
            return ls_fail(LS_E_ARG,
                           "ls_trainer_run: %lld samples, but \"%s\" was put for %lld: put every field for "
                           "all samples of the step",
                           (long long)samples, t->fields[i].name, (long long)t->fields[i].put_to);
    if (t->taken && samples != t->taken_samples)
        return ls_fail(
            LS_E_ARG,
            "ls_trainer_run: %lld samples, but ls_live_fill has given %lld, and the rest would be lost",
            (long long)samples, (long long)t->taken_samples);
    if (!samples && !t->has_put)
        return ls_fail(LS_E_ARG,
                       "ls_trainer_run: this rank has had no sample yet, so it has none to pad with");
    return ls_trainer_check_whole(t, samples, ls_trainer_room(t));
}

/* A hash of the step's arguments on this rank. */
static uint64_t digest_of(const ls_trainer *t, int64_t samples)
{
    uint64_t h = ls_hash64(&samples, sizeof samples);
    for (int i = 0; i < t->n_fields; i++)
        h = ls_hash64_more(h, t->fields[i].put, (size_t)samples * ls_trainer_sample_bytes(t, &t->fields[i]));
    return h;
}

/* LS_E_ARG on all ranks if their arguments differ. With different rates, parts of one parameter would move
 * at different rates; with different samples, ranks of a tensor axis would compute parts of different ones.
 * Collective. */
static ls_status same_on_ranks(ls_trainer *t, int64_t samples, double lr)
{
    typedef struct said {
        double lr;
        uint64_t samples;
    } said;
    if (!t->group)
        return LS_OK;
    const ls_mesh *mesh = &t->compiled.parallel.mesh;
    const bool splits = ls_mesh_data_ranks(mesh) < ls_group_size(t->group);
    said *own = (said *)(void *)t->exchange, *all = own + 1;
    *own = (said){ lr, splits ? digest_of(t, samples) : 0 };
    LS_TRY(ls_group_all_gather_same(t->group, own, sizeof *own, all));
    for (int r = 1; r < ls_group_size(t->group); r++) {
        if (all[r].lr != all[0].lr)
            return ls_fail(LS_E_ARG,
                           "ls_trainer_run: the learning rate is %g on rank 0 and %g on rank %d: it must be "
                           "the same on all ranks",
                           all[0].lr, all[r].lr, r);
        for (int q = 0; q < r && splits; q++)
            if (ls_mesh_data_rank(mesh, q) == ls_mesh_data_rank(mesh, r) && all[q].samples != all[r].samples)
                return ls_fail(
                    LS_E_ARG,
                    "ls_trainer_run: rank %d was put other samples than rank %d: the ranks of axis "
                    "%s compute the same samples, so put the same ones on both",
                    r, q, ls_mesh_model_axes(mesh));
    }
    return LS_OK;
}

ls_status ls_trainer_run(ls_trainer *t, int64_t samples, double lr, ls_step_result *r)
{
    LS_ARG(t);
    LS_ARG(r);
    LS_TRAINER_USE(t);
    const int64_t batch = t->compiled.micro_batch;
    LS_TRY(ls_checkpoint_together(t->group, check_run(t, samples, lr)));
    LS_TRY(same_on_ranks(t, samples, lr));
    pad(t, samples);
    for (int64_t k = 0; k < t->compiled.share.count; k++) {
        const int64_t left = samples - k * batch;
        t->own[k] = left < 0 ? 0 : left < batch ? left : batch;
    }
    for (int i = 0; i < t->n_fields; i++) {
        t->fed[i] = (ls_fed){ t->fields[i].put, t->fields[i].own.type.dtype, -1 };
        t->fields[i].put_to = 0;
    }
    t->has_put = t->has_put || samples > 0;
    t->taken = false;
    return ls_trainer_step_fed(t, -1, lr, r);
}

/* ---- from a loader; of a classifier or a language model */

/* Checks that the loader's step has the samples that the trainer computes on this rank: otherwise samples
 * would be trained twice, or not at all. */
static ls_status check_share(const ls_trainer *t, const ls_loader_step *b)
{
    const ls_share *a = &b->share, *own = &t->compiled.share;
    const int64_t sample = b->n_fields ? (int64_t)ls_type_bytes(&b->fields[0].field->type) : 0,
                  samples = sample ? (int64_t)b->fields[0].bytes / sample : 0;
    if (a->count != own->count || a->first != own->first || (a->count > 1 && a->stride != own->stride))
        return ls_fail(
            LS_E_ARG,
            "ls_trainer_step_from: the loader has %lld micro-batches from %lld in strides of %lld, "
            "this rank's share is %lld from %lld in strides of %lld; make the loader with the share "
            "that ls_parallel_share gives",
            (long long)a->count, (long long)a->first, (long long)a->stride, (long long)own->count,
            (long long)own->first, (long long)own->stride);
    if (sample && samples != ls_trainer_room(t))
        return ls_fail(LS_E_ARG,
                       "ls_trainer_step_from: the loader's micro-batches have %lld samples, the trainer's "
                       "micro_batch is %lld",
                       (long long)(samples / a->count), (long long)t->compiled.micro_batch);
    return LS_OK;
}

ls_status ls_trainer_step_from(ls_trainer *t, const ls_loader_step *batch, double lr, ls_step_result *r)
{
    LS_ARG(t);
    LS_ARG(batch);
    LS_ARG(r);
    LS_TRAINER_USE(t);
    LS_TRY(ls_trainer_check_step(t, lr, "ls_trainer_step_from"));
    LS_TRY(check_share(t, batch));
    LS_TRY(ls_trainer_feed(t, batch));
    return ls_trainer_step_fed(t, batch->samples, lr, r);
}

ls_status ls_trainer_step(ls_trainer *t, const void *inputs, const int32_t *targets, int64_t count, double lr,
                          ls_step_result *r)
{
    LS_ARG(t);
    LS_ARG(inputs);
    LS_ARG(targets);
    LS_ARG(r);
    LS_TRAINER_USE(t);
    LS_TRY(ls_trainer_check_step(t, lr, "ls_trainer_step"));
    if (count < 1)
        return ls_fail(LS_E_ARG, "a step needs at least one target, this one has %lld", (long long)count);
    LS_TRY(ls_trainer_feed_pair(t, inputs, targets, count, "ls_trainer_step"));
    for (int64_t k = 0; k < t->compiled.share.count; k++)
        t->own[k] = t->compiled.micro_batch;
    return ls_trainer_step_fed(t, -1, lr, r);
}
