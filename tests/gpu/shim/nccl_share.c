/* nccl_share.c - how the shim's NCCL moves bytes: for each two ranks a box of shared memory, which one fills
 * and the other one empties. Who can do neither sleeps until something changes. */
#define _GNU_SOURCE
#include "nccl.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LONG = 20 /* seconds, after which a wait is reported */ };

static size_t size_for(int n) { return sizeof(share) + (size_t)(n * n) * sizeof(box); }

/* A file without a name, which the others open by the process that has it. */
bool nccl_make_share(nccl_id *id)
{
    static _Atomic unsigned made;
    const int file = memfd_create("lockstep-shim-nccl", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)size_for(NCCL_RANKS)))
        return false;
    memset(id, 0, sizeof *id);
    snprintf(id->bytes, sizeof id->bytes, "shim %d %d %u", getpid(), file, atomic_fetch_add(&made, 1));
    return true;
}

share *nccl_map_share(const nccl_id *id, int n, size_t *mapped)
{
    int process, file;
    char path[64];
    if (sscanf(id->bytes, "shim %d %d", &process, &file) != 2)
        return NULL;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", process, file);
    const int own = open(path, O_RDWR | O_CLOEXEC);
    if (own < 0)
        return NULL;
    *mapped = size_for(n);
    share *s = mmap(NULL, *mapped, PROT_READ | PROT_WRITE, MAP_SHARED, own, 0);
    close(own);
    return s == MAP_FAILED ? NULL : s;
}

void nccl_wake(_Atomic unsigned *word) { syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0); }

bool nccl_sleep(_Atomic unsigned *word, unsigned seen)
{
    const struct timespec most = { .tv_sec = LONG };
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &most, NULL, 0);
    return atomic_load(word) != seen;
}

void nccl_changed(share *s)
{
    atomic_fetch_add(&s->changes, 1);
    if (atomic_load(&s->waiters))
        nccl_wake(&s->changes);
}

bool nccl_wait_change(share *s, unsigned seen)
{
    atomic_fetch_add(&s->waiters, 1);
    const bool changed = nccl_sleep(&s->changes, seen);
    atomic_fetch_sub(&s->waiters, 1);
    return changed;
}

static const char *name_of(int kind, bool sends)
{
    return kind == ALL_GATHER ? "ncclAllGather" : sends ? "ncclSend" : "ncclRecv";
}

/* Real ranks would wait for ever, or write beyond their memory. */
static void mismatch(op *o, const part *p, const box *b)
{
    share *s = o->comm->s;
    if (!atomic_exchange(&s->broken, 1)) {
        snprintf(s->why, sizeof s->why,
                 "ranks disagree: %s of rank %d gets %zu bytes of rank %d, whose %s gives %zu",
                 name_of(o->kind, false), o->comm->rank, p->bytes, p->peer, name_of(b->kind, true), b->total);
        fprintf(stderr, "shim: %s\n", s->why);
    }
    nccl_changed(s);
}

/* As much as fits, or is there: whether it was anything. */
static bool move(op *o, part *p)
{
    const nccl_comm c = o->comm;
    box *b = &c->s->boxes[p->sends ? c->rank * c->n + p->peer : p->peer * c->n + c->rank];
    if (p->moved || atomic_load(&b->full) == p->sends)
        return false;
    if (p->sends) {
        b->kind = o->kind;
        b->total = p->bytes;
        b->bytes = p->bytes - p->done < NCCL_CHUNK ? p->bytes - p->done : NCCL_CHUNK;
        memcpy(b->data, p->at + p->done, b->bytes);
    } else if (b->kind != (int)o->kind || b->total != p->bytes) {
        mismatch(o, p, b);
        return false;
    } else {
        memcpy(p->at + p->done, b->data, b->bytes);
    }
    p->done += b->bytes;
    p->moved = p->done == p->bytes;
    atomic_store(&b->full, p->sends);
    nccl_changed(c->s);
    return true;
}

static void report(const op *o)
{
    for (int i = 0; i < o->n; i++)
        if (!o->parts[i].moved)
            fprintf(stderr, "shim: operation %llu of rank %d: %s waits for rank %d (%zu of %zu bytes)\n",
                    (unsigned long long)o->number, o->comm->rank, name_of(o->kind, o->parts[i].sends),
                    o->parts[i].peer, o->parts[i].done, o->parts[i].bytes);
}

static bool ends(const op *o) { return atomic_load(&o->comm->aborted) || atomic_load(&o->comm->s->broken); }

void nccl_run(void *context)
{
    op *o = context;
    const nccl_comm c = o->comm;
    bool all = false;
    if (atomic_exchange(&c->works, true)) {
        fprintf(stderr, "shim: two operations of one communicator run at once\n");
        _exit(86);
    }
    for (int i = 0; i < o->n; i++) {
        o->parts[i].done = 0;
        o->parts[i].moved = !o->parts[i].bytes;
    }
    while (!all && !ends(o)) {
        const unsigned seen = atomic_load(&c->s->changes);
        bool any = false;
        all = !o->lost;
        for (int i = 0; i < o->n && !o->lost; i++) {
            any |= move(o, &o->parts[i]);
            all &= o->parts[i].moved;
        }
        if (!any && !all && !ends(o) && !nccl_wait_change(c->s, seen))
            report(o);
    }
    if (atomic_load(&c->s->broken)) {
        shim_release(&c->error);
        atomic_store(&c->error, NCCL_INVALID_USAGE);
    }
    atomic_store(&c->works, false);
}
