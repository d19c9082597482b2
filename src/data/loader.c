/* loader.c - the loader: a thread that fills steps with samples ahead of the training thread.
 *
 * The loader thread uses its copy of the order, the data set's read function, and the slots between `taken`
 * and `taken + ring`. `lock` guards all counters. A slot's memory belongs to the loader thread until `filled`
 * passes the slot, and then to the training thread until its next call. Step s is in slot s % (ring + 1):
 * there is one slot more than the ring, because the training thread still reads the latest step. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/argument.h"
#include "base/sys.h"
#include "loader.h"

typedef struct slot {
    void **to;               /* [fields] */
    ls_loader_field *fields; /* [fields], with the same memory */
    int64_t epoch, step;
} slot;

struct ls_loader {
    ls_loader *next;      /* guarded by loaders_lock */
    ls_dataset *to_close; /* a set that was closed while this loader used it; NULL: none */
    const ls_dataset *set;
    ls_order order;
    ls_share share;
    int64_t steps, epochs; /* steps of an epoch; the first epoch that is not run, or -1 */
    double deadline;
    int ring;
    slot *slots; /* [ring + 1] */

    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Guarded by lock: */
    int64_t filled, taken; /* steps since the last seek */
    int64_t epoch, step;   /* of the next step to fill */
    uint64_t generation;   /* counts seeks: a step that was begun before the latest seek is thrown away */
    bool stop, ended;
    ls_status status; /* of the loader thread; returned after the steps that were filled before it */
    char message[1024];
};

/* ---- the list of loaders, so that a set lives as long as they do */

static pthread_mutex_t loaders_lock = PTHREAD_MUTEX_INITIALIZER;
static ls_loader *loaders;

static ls_loader *loader_on(const ls_dataset *set)
{
    ls_loader *l = loaders;
    while (l && l->set != set)
        l = l->next;
    return l;
}

static void enlist(ls_loader *l)
{
    pthread_mutex_lock(&loaders_lock);
    l->next = loaders;
    loaders = l;
    pthread_mutex_unlock(&loaders_lock);
}

/* Also closes the set if that was asked for and no other loader uses it. */
static void leave(ls_loader *l)
{
    pthread_mutex_lock(&loaders_lock);
    for (ls_loader **at = &loaders; *at; at = &(*at)->next)
        if (*at == l) {
            *at = l->next;
            break;
        }
    ls_dataset *last = l->to_close;
    ls_loader *other = last ? loader_on(last) : NULL;
    if (other) {
        other->to_close = last;
        last = NULL;
    }
    pthread_mutex_unlock(&loaders_lock);
    if (last)
        last->close(last);
}

bool ls_loader_keeps(ls_dataset *set)
{
    pthread_mutex_lock(&loaders_lock);
    ls_loader *l = loader_on(set);
    if (l)
        l->to_close = set;
    pthread_mutex_unlock(&loaders_lock);
    return l;
}

/* ---- the loader thread */

/* Fills a step; gives up early if nobody wants it any more. */
static ls_status fill(ls_loader *l, slot *to, uint64_t generation)
{
    const ls_dataset *set = l->set;
    bool wanted = true;
    for (int k = 0; k < set->n_fields; k++)
        to->fields[k].count = set->fields[k].ignorable
                                  ? ls_order_count(&l->order, set, k, to->epoch, to->step)
                                  : -1;
    for (int64_t i = 0; wanted && i < l->share.count; i++) {
        for (int k = 0; k < set->n_fields; k++)
            to->to[k] = (char *)to->fields[k].data +
                        (size_t)(i * l->order.micro_batch) * ls_type_bytes(&set->fields[k].type);
        LS_TRY(
            ls_order_fill(&l->order, set, to->epoch, to->step, l->share.first + i * l->share.stride, to->to));
        pthread_mutex_lock(&l->lock);
        wanted = !l->stop && l->generation == generation;
        pthread_mutex_unlock(&l->lock);
    }
    return LS_OK;
}

/* The loader thread. */
static void *run(void *context)
{
    ls_loader *l = context;
    pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        l->ended = l->epochs >= 0 && l->epoch >= l->epochs;
        if (l->ended)
            pthread_cond_broadcast(&l->changed);
        if (l->ended || l->status != LS_OK || l->filled - l->taken >= l->ring) {
            pthread_cond_wait(&l->changed, &l->lock);
            continue;
        }
        slot *to = &l->slots[l->filled % (l->ring + 1)];
        to->epoch = l->epoch;
        to->step = l->step;
        uint64_t generation = l->generation;
        pthread_mutex_unlock(&l->lock);

        ls_status s = fill(l, to, generation);

        pthread_mutex_lock(&l->lock);
        if (l->generation != generation || l->stop)
            continue;
        if (s != LS_OK) {
            l->status = s;
            snprintf(l->message, sizeof l->message, "%s", ls_error_message());
        } else {
            l->filled++;
            if (++l->step == l->steps) {
                l->step = 0;
                l->epoch++;
            }
        }
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static ls_status check_start(const ls_loader *l, int64_t epoch, int64_t step)
{
    if (epoch < 0 || step < 0 || step >= l->steps)
        return ls_fail(LS_E_ARG,
                       "the loader cannot start at epoch %lld, step %lld: an epoch has steps 0 to %lld",
                       (long long)epoch, (long long)step, (long long)l->steps - 1);
    return LS_OK;
}

static ls_status check_share(const ls_share *s, int64_t micro_batches)
{
    bool each = s->count >= 1 && s->count <= micro_batches && s->first >= 0 && s->first < micro_batches &&
                s->stride >= 1 && s->stride <= micro_batches;
    if (!each || s->first + (s->count - 1) * s->stride >= micro_batches)
        return ls_fail(LS_E_ARG,
                       "a share of %lld micro-batches from %lld in strides of %lld: the step has "
                       "micro-batches 0 to %lld",
                       (long long)s->count, (long long)s->first, (long long)s->stride,
                       (long long)micro_batches - 1);
    return LS_OK;
}

static ls_status allocate(ls_loader *l)
{
    const ls_dataset *set = l->set;
    const size_t samples = (size_t)(l->share.count * l->order.micro_batch), n = (size_t)set->n_fields;
    size_t all = 0;
    for (int k = 0; k < set->n_fields; k++)
        all += samples * ls_type_bytes(&set->fields[k].type);
    l->slots = ls_sys_calloc((size_t)l->ring + 1, sizeof *l->slots);
    for (int i = 0; l->slots && i <= l->ring; i++) {
        slot *s = &l->slots[i];
        s->to = ls_sys_calloc(n, sizeof *s->to);
        s->fields = ls_sys_calloc(n, sizeof *s->fields);
        bool have = s->to && s->fields;
        for (int k = 0; k < set->n_fields && have; k++) {
            const size_t bytes = samples * ls_type_bytes(&set->fields[k].type);
            s->fields[k] = (ls_loader_field){ .field = &set->fields[k],
                                              .data = ls_sys_aligned_alloc(64, (bytes + 63) / 64 * 64),
                                              .bytes = bytes };
            have = s->fields[k].data;
        }
        if (!have)
            return ls_fail(LS_E_MEMORY, "no memory for a loader's %zu bytes: %d steps",
                           ls_loader_bytes(all, l->ring), l->ring + 1);
    }
    return l->slots ? LS_OK : ls_fail(LS_E_MEMORY, "no memory for a loader");
}

static ls_status start(ls_loader *l)
{
    pthread_condattr_t a;
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC); /* deadlines must not change with the wall clock */
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, &a);
    pthread_condattr_destroy(&a);
    sigset_t all, before;
    sigfillset(&all);
    /* but not the thread's own faults: SIGBUS comes from reading a mapped file that was truncated */
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the main thread handles signals */
    int r = ls_sys_thread(&l->thread, run, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r)
        return ls_fail(LS_E_IO, "cannot start the loader thread: %s", strerror(r));
    l->started = true;
    return LS_OK;
}

ls_status ls_loader_create_with(ls_loader **out, const ls_dataset *set, const ls_order *order,
                                const ls_loader_options *o)
{
    LS_ARG(out);
    LS_ARG(set);
    LS_ARG(order);
    o = o ? o : &(const ls_loader_options){ LS_LOADER_DEFAULTS };
    *out = NULL;
    LS_TRY(ls_order_check(order));
    if (order->n != set->n)
        return ls_fail(LS_E_ARG, "the order is of %lld samples, %s has %lld", (long long)order->n, set->name,
                       (long long)set->n);
    if (o->ring < 1)
        return ls_fail(LS_E_ARG, "a loader's ring of %d steps: at least 1", o->ring);
    int64_t micro_batches = order->global_batch / order->micro_batch;
    ls_share share = o->share.count == -1 ? (ls_share){ 0, 1, micro_batches } : o->share;
    LS_TRY(check_share(&share, micro_batches));
    ls_loader *l = ls_sys_calloc(1, sizeof *l);
    if (!l)
        return ls_fail(LS_E_MEMORY, "no memory for a loader");
    *l = (ls_loader){ .set = set,
                      .order = *order,
                      .share = share,
                      .steps = ls_order_steps(order),
                      .epochs = o->epochs,
                      .deadline = o->deadline,
                      .ring = o->ring,
                      .epoch = o->epoch,
                      .step = o->step };
    ls_status s;
    enlist(l);
    LS_TRY_TO(s, check_start(l, o->epoch, o->step), fail);
    LS_TRY_TO(s, allocate(l), fail);
    LS_TRY_TO(s, start(l), fail);
    *out = l;
    return LS_OK;
fail:
    ls_loader_destroy(&l);
    return s;
}

void ls_loader_destroy(ls_loader **loader)
{
    if (!loader)
        return;
    ls_loader *l = *loader;
    if (!l)
        return;
    if (l->started) {
        pthread_mutex_lock(&l->lock);
        l->stop = true;
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->lock);
        pthread_join(l->thread, NULL);
        pthread_cond_destroy(&l->changed);
        pthread_mutex_destroy(&l->lock);
    }
    for (int i = 0; l->slots && i <= l->ring; i++) {
        for (int k = 0; l->slots[i].fields && k < l->set->n_fields; k++)
            free(l->slots[i].fields[k].data);
        free(l->slots[i].fields);
        free(l->slots[i].to);
    }
    free(l->slots);
    leave(l); /* the set may be closed with it */
    free(l);
    *loader = NULL;
}

static struct timespec in_seconds(double seconds)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    double whole = (double)(int64_t)seconds;
    t.tv_sec += (time_t)whole;
    t.tv_nsec += (long)((seconds - whole) * 1e9);
    if (t.tv_nsec >= 1000000000) {
        t.tv_nsec -= 1000000000;
        t.tv_sec++;
    }
    return t;
}

/* Called, and returns, with the lock held. */
static ls_status wait_for_step(ls_loader *l)
{
    /* waits in short pieces: time during which the process was stopped does not count */
    double left = l->deadline;
    while (l->filled == l->taken && l->status == LS_OK && !l->ended) {
        const double piece = left < 0.5 ? left : 0.5;
        struct timespec until = in_seconds(piece);
        left -= pthread_cond_timedwait(&l->changed, &l->lock, &until) == ETIMEDOUT ? piece : 0;
        if (left <= 0 && l->filled == l->taken && l->status == LS_OK && !l->ended)
            return ls_fail(
                LS_E_IO,
                "no data for epoch %lld, step %lld within %g s (%s); is the storage of %s slow or gone?",
                (long long)l->epoch, (long long)l->step, l->deadline, l->set->name, l->set->source);
    }
    if (l->filled == l->taken && l->status != LS_OK)
        return ls_fail(l->status, "loading epoch %lld, step %lld: %s", (long long)l->epoch,
                       (long long)l->step, l->message);
    return LS_OK;
}

ls_status ls_loader_next(ls_loader *l, ls_loader_step *step, bool *done)
{
    LS_ARG(l);
    LS_ARG(step);
    LS_ARG(done);
    *done = false;
    pthread_mutex_lock(&l->lock);
    ls_status s = wait_for_step(l);
    if (s == LS_OK && l->filled == l->taken) {
        *done = true;
    } else if (s == LS_OK) {
        const slot *from = &l->slots[l->taken % (l->ring + 1)];
        *step = (ls_loader_step){ .epoch = from->epoch,
                                  .step = from->step,
                                  .micro_batches = l->share.count,
                                  .samples = ls_order_samples(&l->order, from->step),
                                  .n_fields = l->set->n_fields,
                                  .fields = from->fields };
        l->taken++;
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    return s;
}

ls_status ls_loader_copy(const ls_loader_step *step, const char *field, void *to, size_t bytes)
{
    LS_ARG(step);
    LS_ARG(field);
    LS_ARG(to);
    for (int k = 0; k < step->n_fields; k++) {
        const ls_loader_field *f = &step->fields[k];
        if (strcmp(f->field->name, field))
            continue;
        if (f->bytes != bytes)
            return ls_fail(LS_E_SHAPE,
                           "ls_loader_copy: \"%s\" of a step has %zu bytes, there is room for %zu", field,
                           f->bytes, bytes);
        memcpy(to, f->data, bytes);
        return LS_OK;
    }
    return ls_fail(LS_E_ARG, "ls_loader_copy: the samples have no field \"%s\"", field);
}

ls_status ls_loader_seek(ls_loader *l, int64_t epoch, int64_t step)
{
    LS_ARG(l);
    LS_TRY(check_start(l, epoch, step));
    pthread_mutex_lock(&l->lock);
    l->generation++;
    l->filled = l->taken = 0;
    l->epoch = epoch;
    l->step = step;
    l->status = LS_OK;
    l->ended = false;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return LS_OK;
}

size_t ls_loader_bytes(size_t step_bytes, int ring) { return ((size_t)ring + 1) * step_bytes; }

ls_loader_options ls_loader_options_default(void) { return (ls_loader_options){ LS_LOADER_DEFAULTS }; }
