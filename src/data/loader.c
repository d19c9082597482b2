/* loader.c - the loader: threads that fill steps with samples ahead of the training thread.
 *
 * The rows of a step are dealt to the threads in pieces, in order: which thread fills which row changes no
 * bit. A loader thread uses its copy of the order, the data set's read function, and the rows that it took.
 * `lock` guards all counters. Step s is in entry s % (ring + 1) of the ring. An entry's memory belongs to the
 * loader threads until `filled` passes the entry, and then to the training thread until its next call. There
 * is one entry more than steps are loaded ahead, because the training thread still reads the latest step. */
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
#include "image_set.h"
#include "order_fill.h"

enum { PIECE_BYTES = 1 << 16 };

typedef struct entry {       /* of the ring: one step */
    ls_loader_field *fields; /* [fields] */
    int64_t epoch, step;
    /* guarded by lock: rows that are not filled yet, rows that are filled with another sample than the
     * order's */
    int64_t left, replaced;
} entry;

/* A piece of a step that a thread fills. */
typedef struct piece {
    entry *to;
    int64_t micro_batch; /* of the share */
    int64_t first, rows;
} piece;

typedef struct worker {
    struct ls_loader *loader;
    pthread_t thread;
    void **base, **at; /* [fields] each: room for addresses */
} worker;

struct ls_loader {
    ls_loader *next;      /* guarded by loaders_lock */
    ls_dataset *to_close; /* a set that was closed while this loader used it; NULL: none */
    const ls_dataset *set;
    ls_order order;
    ls_share share;
    int64_t steps, epochs; /* steps of an epoch; the first epoch that is not run, or -1 */
    double deadline;
    int ring;
    entry *entries;  /* [ring + 1] */
    int64_t rows;    /* of a step */
    int64_t chunk;   /* most rows of a piece */
    worker *workers; /* [threads] */
    int threads, started;
    bool ready; /* lock and changed are initialised */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Guarded by lock: */
    int64_t filled, taken; /* steps since the last seek */
    int64_t begun;         /* steps of which all rows are dealt */
    int64_t row;           /* of the step `begun`: the next row to deal */
    int64_t epoch, step;   /* of that step */
    int busy;              /* threads that fill a piece */
    bool stop, seeking;
    ls_status status; /* of a loader thread; returned after the steps that were filled before it */
    int64_t failed;   /* where: rows since the last seek. The earliest failure counts */
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
static void loader_leave(ls_loader *l)
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

/* ---- the loader threads */

static bool at_end(const ls_loader *l) { return l->epochs >= 0 && l->epoch >= l->epochs; }

/* With the lock held. False: there is nothing to fill now. */
static bool take_piece(ls_loader *l, piece *out)
{
    if (l->seeking || l->status != LS_OK || at_end(l) || l->begun - l->taken >= l->ring)
        return false;
    entry *to = &l->entries[l->begun % (l->ring + 1)];
    if (l->row == 0) {
        to->epoch = l->epoch;
        to->step = l->step;
        to->left = l->rows;
        to->replaced = 0;
    }
    const int64_t first = l->row % l->order.micro_batch, left = l->order.micro_batch - first;
    *out = (piece){ .to = to,
                    .micro_batch = l->row / l->order.micro_batch,
                    .first = first,
                    .rows = left < l->chunk ? left : l->chunk };
    l->row += out->rows;
    if (l->row == l->rows) {
        l->row = 0;
        l->begun++;
        l->step = l->step + 1 == l->steps ? 0 : l->step + 1;
        l->epoch += l->step == 0;
    }
    return true;
}

/* Where the fields of a micro-batch of the share begin. */
static void find_fields(const ls_loader *l, const entry *s, int64_t micro_batch, void **to)
{
    for (int k = 0; k < l->set->n_fields; k++)
        to[k] = (char *)s->fields[k].data +
                (size_t)(micro_batch * l->order.micro_batch) * ls_type_bytes(&l->set->fields[k].type);
}

/* What is left to do for a step of which all rows are filled. */
static void finish_step(const ls_loader *l, entry *s, void **to)
{
    const ls_dataset *set = l->set;
    for (int k = 0; k < set->n_fields; k++)
        s->fields[k].count = set->fields[k].ignorable ? ls_order_count(&l->order, set, k, s->epoch, s->step)
                                                      : -1;
    for (int64_t i = 0; i < l->share.count; i++) {
        find_fields(l, s, i, to);
        ls_order_fill_end(&l->order, set, s->epoch, s->step, l->share.first + i * l->share.stride, to);
    }
}

/* A loader thread. */
static void *loader_run(void *context)
{
    worker *w = context;
    ls_loader *l = w->loader;
    piece p;
    pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        if (!take_piece(l, &p)) {
            pthread_cond_wait(&l->changed, &l->lock);
            continue;
        }
        const entry *step = p.to;
        const int64_t position = (step->epoch * l->steps + step->step) * l->rows +
                                 p.micro_batch * l->order.micro_batch + p.first;
        l->busy++;
        pthread_mutex_unlock(&l->lock);
        find_fields(l, step, p.micro_batch, w->base);
        const int64_t before = ls_images_replaced();
        const ls_status s = ls_order_fill_rows(&l->order, l->set, step->epoch, step->step,
                                               l->share.first + p.micro_batch * l->share.stride, p.first,
                                               p.rows, w->base, w->at);
        pthread_mutex_lock(&l->lock);
        if (s != LS_OK && (l->status == LS_OK || position < l->failed)) {
            l->status = s;
            l->failed = position;
            snprintf(l->message, sizeof l->message, "epoch %lld, step %lld: %s", (long long)step->epoch,
                     (long long)step->step, ls_error_message());
        }
        if (s == LS_OK && p.to->left == p.rows) { /* the last rows of the step */
            pthread_mutex_unlock(&l->lock);
            finish_step(l, p.to, w->base);
            pthread_mutex_lock(&l->lock);
        }
        p.to->left -= s == LS_OK ? p.rows : 0;
        p.to->replaced += ls_images_replaced() - before;
        while (l->filled < l->begun && l->entries[l->filled % (l->ring + 1)].left == 0)
            l->filled++;
        l->busy--;
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
    l->entries = ls_sys_calloc((size_t)l->ring + 1, sizeof *l->entries);
    for (int i = 0; l->entries && i <= l->ring; i++) {
        entry *s = &l->entries[i];
        s->fields = ls_sys_calloc(n, sizeof *s->fields);
        bool have = s->fields;
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
    l->workers = ls_sys_calloc((size_t)l->threads, sizeof *l->workers);
    bool have = l->entries && l->workers;
    for (int i = 0; have && i < l->threads; i++) {
        worker *w = &l->workers[i];
        *w = (worker){ .loader = l, .base = ls_sys_calloc(2 * n, sizeof *w->base) };
        w->at = w->base ? w->base + n : NULL;
        have = w->base;
    }
    return have ? LS_OK : ls_fail(LS_E_MEMORY, "no memory for a loader");
}

static ls_status loader_start(ls_loader *l)
{
    pthread_condattr_t a;
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC); /* deadlines must not change with the wall clock */
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, &a);
    pthread_condattr_destroy(&a);
    sigset_t all, before;
    sigfillset(&all);
    /* but not the thread's own faults: SIGBUS comes from reading a mapped file that was truncated, SIGSEGV
     * from reading at an address that is not the host's */
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGSEGV);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the main thread handles signals */
    l->ready = true;
    int r = 0;
    while (!r && l->started < l->threads)
        if (!(r = ls_sys_thread(&l->workers[l->started].thread, loader_run, &l->workers[l->started])))
            l->started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return r ? ls_fail(LS_E_IO, "cannot start a loader thread: %s", strerror(r)) : LS_OK;
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
        return ls_fail(
            LS_E_ARG, "the order has %lld samples, but the data set %s has %lld: make the order for this set",
            (long long)order->n, set->name, (long long)set->n);
    if (o->ring < 1)
        return ls_fail(LS_E_ARG, "ls_loader_options.ring is %d: 1 step or more is needed", o->ring);
    int64_t micro_batches = order->global_batch / order->micro_batch;
    ls_share share = o->share.count == -1 ? (ls_share){ 0, 1, micro_batches } : o->share;
    LS_TRY(check_share(&share, micro_batches));
    ls_loader *l = ls_sys_calloc(1, sizeof *l);
    if (!l)
        return ls_fail(LS_E_MEMORY, "no memory for a loader");
    size_t sample = 1;
    for (int k = 0; k < set->n_fields; k++)
        sample += ls_type_bytes(&set->fields[k].type);
    *l = (ls_loader){ .set = set,
                      .order = *order,
                      .share = share,
                      .steps = ls_order_steps(order),
                      .epochs = o->epochs,
                      .deadline = o->deadline,
                      .ring = o->ring,
                      .rows = share.count * order->micro_batch,
                      /* small samples are copied in pieces that are worth taking a lock for */
                      .chunk = (int64_t)(PIECE_BYTES / sample) + 1,
                      .threads = set->threads > 1 ? set->threads : 1,
                      .epoch = o->epoch,
                      .step = o->step };
    ls_status s;
    enlist(l);
    LS_TRY_TO(s, check_start(l, o->epoch, o->step), fail);
    LS_TRY_TO(s, allocate(l), fail);
    LS_TRY_TO(s, loader_start(l), fail);
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
    if (l->ready) {
        pthread_mutex_lock(&l->lock);
        l->stop = true;
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->lock);
        for (int i = 0; i < l->started; i++)
            pthread_join(l->workers[i].thread, NULL);
        pthread_cond_destroy(&l->changed);
        pthread_mutex_destroy(&l->lock);
    }
    for (int i = 0; l->entries && i <= l->ring; i++) {
        for (int k = 0; l->entries[i].fields && k < l->set->n_fields; k++)
            free(l->entries[i].fields[k].data);
        free(l->entries[i].fields);
    }
    for (int i = 0; l->workers && i < l->threads; i++)
        free(l->workers[i].base);
    free(l->workers);
    free(l->entries);
    loader_leave(l); /* the set may be closed with it */
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

/* These three are called, and return, with the lock held. */
static bool is_over(const ls_loader *l) { return at_end(l) && l->begun == l->taken; }

/* Neither a step, nor an end, nor a failure, which counts when the steps before it are filled. */
static bool must_wait(const ls_loader *l)
{
    return l->filled == l->taken && !is_over(l) && (l->status == LS_OK || l->busy);
}

static ls_status wait_for_step(ls_loader *l)
{
    /* waits in short pieces: time during which the process was stopped does not count */
    double left = l->deadline;
    while (must_wait(l)) {
        const double part = left < 0.5 ? left : 0.5;
        struct timespec until = in_seconds(part);
        left -= pthread_cond_timedwait(&l->changed, &l->lock, &until) == ETIMEDOUT ? part : 0;
        if (left <= 0 && must_wait(l)) {
            const entry *s = &l->entries[l->taken % (l->ring + 1)];
            const bool begun = l->begun > l->taken || l->row > 0; /* else it waits for its first row */
            return ls_fail(
                LS_E_IO,
                "no data for epoch %lld, step %lld within %g s (%s); is the storage of %s slow or gone?",
                (long long)(begun ? s->epoch : l->epoch), (long long)(begun ? s->step : l->step), l->deadline,
                l->set->name, l->set->source);
        }
    }
    if (l->filled == l->taken && l->status != LS_OK)
        return ls_fail(l->status, "loading %s", l->message);
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
        const entry *from = &l->entries[l->taken % (l->ring + 1)];
        *step = (ls_loader_step){ .epoch = from->epoch,
                                  .step = from->step,
                                  .share = l->share,
                                  .samples = ls_order_samples(&l->order, from->step),
                                  .replaced = from->replaced,
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
    l->seeking = true; /* what is being filled is thrown away, and no more is begun */
    while (l->busy)
        pthread_cond_wait(&l->changed, &l->lock);
    l->seeking = false;
    l->filled = l->taken = l->begun = l->row = 0;
    l->epoch = epoch;
    l->step = step;
    l->status = LS_OK;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return LS_OK;
}

size_t ls_loader_bytes(size_t step_bytes, int ring) { return ((size_t)ring + 1) * step_bytes; }

ls_loader_options ls_loader_options_default(void) { return (ls_loader_options){ LS_LOADER_DEFAULTS }; }
