/* live.c - a queue of samples: opening it, putting samples into it, closing it. fill.c takes samples out.
 *
 * What a push does is a function of the pushes before it on this rank, and of nothing else, so a run of the
 * same calls has the same bits. Samples lie in one ring for each field; a reservoir uses the ring from 0 on.
 */
#include "live.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/finite.h"
#include "base/hash.h"
#include "base/str.h"
#include "base/sys.h"
#include "comm/agree.h"
#include "comm/axes.h"
#include "graph/op.h"
#include "step/rows.h"

/* ---- opening */

static bool has_scaling(const ls_trainer *t)
{
    for (int i = 0; i < t->n_buffers; i++)
        if (!strncmp(t->buffers[i].name, "scaling.", 8))
            return true;
    return false;
}

static ls_status check_options(const ls_trainer *t, const ls_live_opts *o)
{
    const ls_mesh *mesh = &t->compiled.parallel.mesh;
    if (o->capacity < 1)
        return ls_fail(LS_E_ARG, "ls_live_open: a capacity of %lld samples: it must be at least 1",
                       (long long)o->capacity);
    if (o->hold_out < 0 || o->hold_out == 1)
        return ls_fail(LS_E_ARG,
                       "ls_live_open: hold_out %lld: every k-th sample is held out, k at least 2; 0: none",
                       (long long)o->hold_out);
    if ((o->keep != LS_LIVE_FIFO && o->keep != LS_LIVE_RESERVOIR) ||
        (o->full != LS_LIVE_REFUSE && o->full != LS_LIVE_DROP_OLDEST))
        return ls_fail(LS_E_ARG, "ls_live_open: keep %d, full %d: no such value", (int)o->keep, (int)o->full);
    if (o->keep == LS_LIVE_RESERVOIR && o->full != LS_LIVE_REFUSE)
        return ls_fail(LS_E_ARG, "ls_live_open: a reservoir never is full, so .full has no effect on it");
    if (o->fit < 0 || o->fit > o->capacity * (t->group ? ls_group_size(t->group) : 1))
        return ls_fail(LS_E_ARG,
                       "ls_live_open: fit %lld: the queues of all ranks together never have so many samples, "
                       "with a capacity of %lld",
                       (long long)o->fit, (long long)o->capacity);
    if (o->fit && !has_scaling(t))
        return ls_fail(LS_E_ARG,
                       "ls_live_open: fit %lld, but no field of the model has a scaling (ls_scaling_of)",
                       (long long)o->fit);
    if (!t->compiled.plans[LS_MICRO])
        return ls_fail(LS_E_ARG, "ls_live_open: this trainer was made for evaluation only");
    if (!t->compiled.padding)
        return ls_fail(LS_E_ARG,
                       "ls_live_open: a rank may have fewer samples than its share of a step, for which the "
                       "trainer was not made: say .padding = true");
    if (t->group && ls_mesh_data_ranks(mesh) != ls_group_size(t->group))
        return ls_fail(
            LS_E_ARG,
            "ls_live_open: the mesh has the axes %s, whose ranks compute the same samples; a queue "
            "needs ranks with samples of their own",
            ls_mesh_model_axes(mesh));
    if (t->guest)
        return ls_fail(LS_E_ARG, "ls_live_open: the trainer has a queue already; close that one first");
    if (t->left_behind)
        return ls_fail(LS_E_ARG,
                       "ls_live_open: the checkpoint that was loaded has samples of a queue; open the queue "
                       "before ls_trainer_load_checkpoint");
    return LS_OK;
}

/* Memory of one field. */
static ls_status make_field(ls_live *q, int i)
{
    ls_live_field *f = &q->fields[i];
    f->bytes = ls_trainer_sample_bytes(q->t, &q->t->fields[i]);
    f->kept = ls_sys_calloc((size_t)q->o.capacity, f->bytes);
    f->held = ls_sys_calloc((size_t)q->held_room + 1, f->bytes);
    f->spare = ls_sys_calloc(1, f->bytes);
    if (!f->kept || !f->held || !f->spare)
        return ls_fail(LS_E_MEMORY, "ls_live_open: out of memory for %lld samples of %zu bytes of \"%s\"",
                       (long long)q->o.capacity, f->bytes, q->t->fields[i].name);
    q->bytes += (q->o.capacity + q->held_room + 2) * (int64_t)f->bytes;
    return ls_trainer_put_room(q->t, &q->t->fields[i]);
}

static ls_status live_make(ls_live *q)
{
    q->fields = ls_sys_calloc((size_t)q->n_fields, sizeof *q->fields);
    q->seen = ls_sys_calloc((size_t)q->o.capacity, 1);
    q->fresh = ls_sys_calloc((size_t)ls_trainer_room(q->t), sizeof *q->fresh);
    q->offers = ls_sys_calloc((size_t)q->ranks, sizeof *q->offers);
    if (!q->fields || !q->seen || !q->fresh || !q->offers)
        return ls_fail(LS_E_MEMORY, "ls_live_open: out of memory for a queue of %lld samples",
                       (long long)q->o.capacity);
    size_t largest = 1;
    for (int i = 0; i < q->n_fields; i++) {
        LS_TRY(make_field(q, i));
        largest = q->fields[i].bytes > largest ? q->fields[i].bytes : largest;
    }
    q->scratch = ls_sys_malloc(largest);
    q->bytes += q->o.capacity + (int64_t)largest;
    LS_TRY(ls_sys_have(q->scratch));
    return ls_live_record_open(q);
}

/* The trainer is destroyed before the queue. */
static void gone(void *context)
{
    ls_live *q = context;
    ls_live_join(q);
    q->t = NULL;
}

static ls_status can_be_saved(void *context)
{
    const ls_live *q = context;
    return ls_live_pending(q)
               ? ls_fail(LS_E_ARG, "a checkpoint between ls_live_fill and ls_trainer_run would "
                                   "lose the samples that were taken: run them first")
               : LS_OK;
}

static ls_status same_options(ls_trainer *t, const ls_live_opts *o)
{
    ls_str lines = { 0 };
    if (!t->group)
        return LS_OK;
    ls_str_printf(&lines, "capacity %lld\nkeep %d\nfull %d\nseed %llu\nhold_out %lld\nfit %lld\nrecord %s\n",
                  (long long)o->capacity, (int)o->keep, (int)o->full, (unsigned long long)o->seed,
                  (long long)o->hold_out, (long long)o->fit, o->record ? o->record : "");
    const ls_status s = ls_ranks_same(t->group, ls_str_text(&lines), "ls_live_open");
    ls_str_release(&lines);
    return s;
}

ls_status ls_live_open_with(ls_live **out, ls_trainer *t, const ls_live_opts *o)
{
    LS_ARG(out);
    LS_ARG(t);
    LS_TRAINER_USE(t);
    o = o ? o : &(const ls_live_opts){ LS_LIVE_DEFAULTS };
    *out = NULL;
    LS_TRY(same_options(t, o));
    LS_TRY(check_options(t, o)); /* so it ends alike on all ranks */
    ls_live *q = ls_sys_calloc(1, sizeof *q);
    ls_status s = ls_sys_have(q);
    if (q) {
        pthread_condattr_t clock;
        pthread_condattr_init(&clock);
        pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
        pthread_cond_init(&q->changed, &clock);
        pthread_condattr_destroy(&clock);
        pthread_mutex_init(&q->lock, NULL);
        q->t = t;
        q->o = *o;
        q->rank = t->group ? ls_group_rank(t->group) : 0;
        q->ranks = t->group ? ls_group_size(t->group) : 1;
        q->n_fields = t->n_fields;
        q->held_room = o->hold_out ? (o->capacity + o->hold_out - 1) / o->hold_out : 0;
        s = live_make(q);
    }
    if (t->group)
        s = ls_ranks_agree(t->group, s);
    if (s != LS_OK) {
        ls_live_close(&q);
        return s;
    }
    q->guest = (ls_trainer_guest){ q, can_be_saved, ls_live_save, ls_live_load, gone };
    t->guest = &q->guest;
    *out = q;
    return LS_OK;
}

void ls_live_close(ls_live **out)
{
    if (!out || !*out)
        return;
    ls_live *q = *out;
    ls_live_join(q);
    if (q->t && q->t->guest == &q->guest) {
        q->t->guest = NULL;
        q->t->taken = false;
    }
    ls_live_record_close(q);
    for (int i = 0; q->fields && i < q->n_fields; i++) {
        free(q->fields[i].kept);
        free(q->fields[i].held);
        free(q->fields[i].spare);
        free(q->fields[i].staged);
    }
    free(q->fields);
    free(q->seen);
    free(q->fresh);
    free(q->scratch);
    free(q->offers);
    pthread_mutex_destroy(&q->lock);
    pthread_cond_destroy(&q->changed);
    free(q);
    *out = NULL;
}

/* ---- putting */

static ls_status check_numbers(const ls_live *q, int i, int64_t m, const char *rows)
{
    const ls_place *own = &q->t->fields[i].own;
    const int64_t each = ls_type_count(&own->type) / q->t->compiled.micro_batch,
                  at = ls_first_wild(own->type.dtype, rows, m * each, false);
    if (at < 0)
        return LS_OK;
    return ls_fail(
        LS_E_NUMERIC,
        "ls_live_put: \"%s\": number %lld of sample %lld is not finite as %s: a step with it would "
        "have no finite loss",
        q->t->fields[i].name, (long long)(at % each), (long long)(at / each), ls_dtype_name(own->type.dtype));
}

static ls_status live_put(ls_live *q, const char *field, const ls_tensor *values)
{
    int i = 0;
    int64_t m = 0;
    LS_TRY(ls_live_usable(q, "ls_live_put"));
    if (q->finished)
        return ls_fail(LS_E_ARG, "ls_live_put after ls_live_finish: this rank has no more samples");
    LS_TRY(ls_trainer_put_find(&i, q->t, field, "ls_live_put"));
    ls_live_field *f = &q->fields[i];
    const ls_place *own = &q->t->fields[i].own;
    LS_TRY(ls_rows_check("ls_live_put", field, values, &own->type, q->t->compiled.micro_batch, &m));
    char *to = f->staged;
    if (m > f->space || (m && f->put)) { /* what was put before stays until these are known to be right */
        to = ls_sys_malloc((size_t)m * f->bytes);
        if (!to)
            return ls_fail(LS_E_MEMORY, "ls_live_put: out of memory for %lld samples of \"%s\"", (long long)m,
                           field);
    }
    ls_rows_take(to, own->type.dtype, values);
    const ls_status s = check_numbers(q, i, m, to);
    char *unused = s == LS_OK ? f->staged : to;
    if (to != f->staged)
        free(unused);
    if (s != LS_OK)
        return s;
    f->space = to != f->staged ? m : f->space;
    f->staged = to;
    f->put = m;
    return LS_OK;
}

ls_status ls_live_put(ls_live *q, const char *field, const ls_tensor *values)
{
    LS_ARG(q);
    LS_ARG(field);
    LS_ARG(values);
    LS_ARG_TYPE(values->type);
    pthread_mutex_lock(&q->lock);
    const ls_status s = live_put(q, field, values);
    pthread_mutex_unlock(&q->lock);
    return s;
}

static ls_status check_push(const ls_live *q, int64_t m)
{
    LS_TRY(ls_live_usable(q, "ls_live_push"));
    LS_TRY(ls_live_thread_lives(q));
    if (q->finished)
        return ls_fail(LS_E_ARG, "ls_live_push after ls_live_finish: this rank has no more samples");
    if (m < 0)
        return ls_fail(LS_E_ARG, "ls_live_push: m is %lld: a number of samples from 0 up is needed",
                       (long long)m);
    for (int i = 0; i < q->n_fields && m; i++)
        if (q->fields[i].put != m)
            return ls_fail(LS_E_ARG,
                           "ls_live_push: %lld samples, but \"%s\" was put for %lld: put every field for the "
                           "samples of one push",
                           (long long)m, q->t->fields[i].name, (long long)q->fields[i].put);
    if (ls_live_lacks_room(q, m))
        return ls_fail(
            LS_E_ARG,
            "ls_live_push: %lld samples, but the queue has room for %lld of its %lld: call "
            "ls_live_fill and ls_trainer_run more often, give it a larger capacity, or say .full = "
            "LS_LIVE_DROP_OLDEST or .keep = LS_LIVE_RESERVOIR",
            (long long)ls_live_unheld(q, m), (long long)(q->o.capacity - q->kept), (long long)q->o.capacity);
    return LS_OK;
}

/* Where a reservoir of `room` samples, of which it has n, keeps the sample that is number i of those that
 * came: whatever number came, all are kept with the same chance (Vitter's algorithm R). -1: nowhere. */
static int64_t place(const ls_live *q, const char *purpose, int64_t i, int64_t n, int64_t room)
{
    if (n < room)
        return n;
    const int64_t at = (int64_t)ls_rng_below(ls_live_key(q, purpose, 0), (uint64_t)i, (uint64_t)i + 1);
    return at < room ? at : -1;
}

static void hold(ls_live *q, int64_t row)
{
    const int64_t at = place(q, "hold out", ls_live_held_of(q, q->pushed), q->held, q->held_room);
    for (int i = 0; i < q->n_fields && at >= 0; i++)
        memcpy(q->fields[i].held + (size_t)at * q->fields[i].bytes,
               q->fields[i].staged + (size_t)row * q->fields[i].bytes, q->fields[i].bytes);
    q->held += q->held < q->held_room;
}

static void live_keep(ls_live *q, int64_t row)
{
    const int64_t capacity = q->o.capacity;
    int64_t at;
    if (q->o.keep == LS_LIVE_RESERVOIR) {
        at = place(q, "keep", q->pushed - ls_live_held_of(q, q->pushed), q->kept, capacity);
        q->dropped += at < 0 || (q->kept == capacity && !q->seen[at]);
    } else {
        if (q->kept == capacity) {
            q->first = (q->first + 1) % capacity;
            q->kept--;
            q->dropped++;
        }
        at = (q->first + q->kept) % capacity;
    }
    if (at < 0)
        return;
    for (int i = 0; i < q->n_fields; i++)
        memcpy(q->fields[i].kept + (size_t)at * q->fields[i].bytes,
               q->fields[i].staged + (size_t)row * q->fields[i].bytes, q->fields[i].bytes);
    q->seen[at] = 0;
    q->kept += q->kept < capacity;
}

ls_status ls_live_push(ls_live *q, int64_t m)
{
    LS_ARG(q);
    pthread_mutex_lock(&q->lock);
    const ls_status s = check_push(q, m);
    if (s != LS_OK && ls_live_unheld(q, m) <= q->o.capacity)
        q->refused = q->refused || ls_live_lacks_room(q, m);
    for (int64_t row = 0; row < m && s == LS_OK; row++, q->pushed++)
        if (ls_live_held_of(q, q->pushed + 1) > ls_live_held_of(q, q->pushed))
            hold(q, row);
        else
            live_keep(q, row);
    for (int i = 0; i < q->n_fields && m && s == LS_OK; i++)
        q->fields[i].put = 0;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return s;
}

ls_status ls_live_finish(ls_live *q)
{
    LS_ARG(q);
    LS_TRY(ls_live_usable(q, "ls_live_finish"));
    pthread_mutex_lock(&q->lock);
    q->finished = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return LS_OK;
}

ls_status ls_live_count(ls_live *q, ls_live_numbers *out)
{
    LS_ARG(q);
    LS_ARG(out);
    pthread_mutex_lock(&q->lock);
    const bool refuses = q->o.keep == LS_LIVE_FIFO && q->o.full == LS_LIVE_REFUSE;
    int64_t room = q->o.capacity - q->kept;
    /* of the samples that come, those that are held out need no room in the ring */
    if (q->o.hold_out)
        room += (q->pushed % q->o.hold_out + room) / (q->o.hold_out - 1);
    *out = (ls_live_numbers){ .pushed = q->pushed,
                              .held = q->held,
                              .waiting = q->kept,
                              .trained = q->trained,
                              .dropped = q->dropped,
                              .room = refuses ? room : INT64_MAX,
                              .bytes = q->bytes,
                              .ranks = q->dealt_from };
    pthread_mutex_unlock(&q->lock);
    return LS_OK;
}

ls_live_opts ls_live_opts_default(void) { return (ls_live_opts){ LS_LIVE_DEFAULTS }; }
