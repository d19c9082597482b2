/* shm.c - ranks as processes of one machine. They inherit an anonymous file. Its first pages are the control
 * block, windows follow. The file has no name: the kernel frees it when the last process ends, however that
 * process ends. */
#include "shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "base/sys.h"
#include "group_life.h"
#include "process.h"

enum { PAGE = 4096, HUGE = 2 << 20 };

/* ---- windows: ranges of the file, each used once */

static ls_status reserve(ls_group *g, size_t bytes, uint64_t *handle)
{
    uint64_t end = atomic_load(&g->control->end), align = bytes < HUGE ? PAGE : HUGE, at;
    do
        at = (end + align - 1) / align * align;
    while (!atomic_compare_exchange_weak(&g->control->end, &end, at + bytes));
    char text[32];
    /* Allocating the last page makes the file long enough and never shorter. ls_window_create allocates the
     * others. */
    if (ls_sys_fallocate(g->fd, 0, (off_t)(at + bytes - PAGE), PAGE) != 0)
        return ls_fail(LS_E_MEMORY, "cannot have %s of shared memory: %s", ls_format_bytes(text, bytes),
                       strerror(errno));
    *handle = at;
    return LS_OK;
}

static ls_status map(ls_group *g, uint64_t handle, size_t bytes, char **base)
{
    char text[32];
    void *p = ls_sys_mmap(bytes, PROT_READ | PROT_WRITE, MAP_SHARED, g->fd, (off_t)handle);
    if (p == MAP_FAILED)
        return ls_fail(LS_E_MEMORY, "cannot map %s of shared memory: %s", ls_format_bytes(text, bytes),
                       strerror(errno));
    *base = p;
    return LS_OK;
}

static void unmap(ls_group *g, uint64_t handle, size_t bytes, char *base, bool last)
{
    munmap(base, bytes);
    if (last) /* frees the pages; if this fails, they stay until the file is freed */
        (void)ls_sys_fallocate(g->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)handle,
                               (off_t)bytes);
}

static void shm_leave(ls_group *g)
{
    munmap(g->control, ls_control_bytes(g->control->ranks));
    close(g->fd);
}

static const ls_sharing SHM = { "shm", reserve, map, unmap, shm_leave };

/* ---- the control block */

static ls_status map_control(ls_control_block **out, int fd)
{
    struct stat st;
    ls_control_block head;
    *out = NULL;
    if (fstat(fd, &st) != 0 || pread(fd, &head, sizeof head, 0) != sizeof head ||
        !ls_control_valid(&head, (size_t)st.st_size))
        return ls_fail(LS_E_FORMAT,
                       "descriptor %d is not the shared memory of a process group of this version", fd);
    const size_t bytes = ls_control_bytes(head.ranks);
    ls_control_block *control = ls_sys_mmap(bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (control == MAP_FAILED)
        return ls_fail(LS_E_MEMORY, "cannot map the process group's memory, %zu bytes: %s", bytes,
                       strerror(errno));
    *out = control;
    return LS_OK;
}

/* Does the work of ls_control_fail for a rank that could not map the control block. */
static void write_failure(int fd, int rank, ls_status code)
{
    ls_failure f = { .state = LS_FAILURE_READY, .rank = rank, .code = (int)code };
    const off_t at = offsetof(ls_control_block, failure);
    snprintf(f.text, sizeof f.text, "%s", ls_error_message());
    if (ls_sys_pwrite(fd, &f.rank, sizeof f - offsetof(ls_failure, rank),
                      at + (off_t)offsetof(ls_failure, rank)) > 0)
        ls_sys_pwrite(fd, &f.state, sizeof f.state, at); /* last: then it is read */
}

ls_status ls_shm_create(int ranks, int *fd)
{
    *fd = -1;
    if (ranks < 1 || ranks > LS_CONTROL_RANKS)
        return ls_fail(LS_E_ARG, "a group of %d processes: 1 to %d are possible on a host", ranks,
                       LS_CONTROL_RANKS);
    size_t bytes = ls_control_bytes(ranks);
    int f = ls_sys_memory_file("lockstep");
    ls_control_block *control = f >= 0 && ls_sys_ftruncate(f, (off_t)bytes) == 0
                                    ? ls_sys_mmap(bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0)
                                    : MAP_FAILED;
    if (control == MAP_FAILED) {
        ls_status s = ls_fail(LS_E_MEMORY, "cannot make shared memory for %d ranks, %zu bytes: %s", ranks,
                              bytes, strerror(errno));
        if (f >= 0)
            close(f);
        return s;
    }
    ls_control_init(control, ranks);
    munmap(control, bytes);
    *fd = f;
    return LS_OK;
}

static ls_status take_record(ls_control_block *control, int rank)
{
    if (rank < 0 || rank >= control->ranks)
        return ls_fail(LS_E_ARG, "rank %d is not in the group, which has ranks 0 to %d", rank,
                       control->ranks - 1);
    ls_rank_record *s = ls_control_record(control, rank);
    int nobody = 0;
    if (!atomic_compare_exchange_strong(&s->pid, &nobody, (int)getpid()))
        return ls_fail(LS_E_ARG, "rank %d has joined already, as process %d", rank, nobody);
    atomic_store(&s->start_time, ls_process_start_time((int)getpid(), NULL));
    return LS_OK;
}

ls_status ls_shm_join(ls_group **out, int fd, int rank)
{
    ls_control_block *control;
    *out = NULL;
    ls_status s = map_control(&control, fd);
    if (s == LS_E_MEMORY)
        write_failure(fd, rank, s);
    LS_TRY(s);
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    s = own < 0 ? ls_fail(LS_E_IO, "cannot keep descriptor %d: %s", fd, strerror(errno))
                : take_record(control, rank);
    if (s == LS_OK) {
        s = ls_group_open(out, control, &SHM, own, rank, 0, control->ranks);
        if (s == LS_OK)
            return LS_OK;
        ls_control_fail(control, rank, rank, s, ls_error_message());
    }
    munmap(control, ls_control_bytes(control->ranks));
    if (own >= 0)
        close(own);
    return s;
}

/* ---- reports */

ls_status ls_shm_report_to(int fd)
{
    ls_control_block *c;
    LS_TRY(map_control(&c, fd));
    ls_control_report_to(c);
    close(fd);
    return LS_OK;
}

void ls_shm_report_joined(void)
{
    ls_rank_record *s = ls_control_record(ls_control_report(), 0);
    atomic_store(&s->pid, (int)getpid());
    atomic_store(&s->state, LS_RANK_JOINED);
}

/* ---- the launcher's view */

struct ls_shm_watch {
    ls_control_block *control;
};

ls_status ls_shm_watch_open(ls_shm_watch **out, int fd)
{
    *out = ls_sys_calloc(1, sizeof **out);
    if (!*out)
        return ls_fail(LS_E_MEMORY, "no memory to watch a process group");
    ls_status s = map_control(&(*out)->control, fd);
    if (s != LS_OK) {
        free(*out);
        *out = NULL;
    }
    return s;
}

void ls_shm_watch_close(ls_shm_watch **w)
{
    if (!*w)
        return;
    munmap((*w)->control, ls_control_bytes((*w)->control->ranks));
    free(*w);
    *w = NULL;
}

void ls_shm_watch_gone(ls_shm_watch *w, int rank, const char *message)
{
    char doing[128], text[1024];
    ls_control_doing(w->control, rank, doing);
    snprintf(text, sizeof text, "%s%s%s", message, doing[0] ? "; it last did: " : "", doing);
    ls_control_missed(w->control, rank, -1, LS_MISSED_GONE, text);
}

void ls_shm_watch_doing(const ls_shm_watch *w, int rank, char text[128])
{
    ls_control_doing(w->control, rank, text);
}

bool ls_shm_watch_joined(const ls_shm_watch *w, int rank)
{
    return atomic_load(&ls_control_record(w->control, rank)->state) != LS_RANK_ABSENT;
}

void ls_shm_watch_not_executed(ls_shm_watch *w, int rank, int error)
{
    atomic_store(&ls_control_record(w->control, rank)->exec_error, error);
}
int ls_shm_watch_exec_error(const ls_shm_watch *w, int rank)
{
    return atomic_load(&ls_control_record(w->control, rank)->exec_error);
}
uint64_t ls_shm_watch_planned(const ls_shm_watch *w, int rank)
{
    return atomic_load(&ls_control_record(w->control, rank)->planned);
}

void ls_shm_watch_run(const ls_shm_watch *w, char path[LS_RUN_PATH_BYTES])
{
    ls_control_run(w->control, path);
}

bool ls_shm_watch_failure(const ls_shm_watch *w, ls_heard *out)
{
    const ls_failure *f = &w->control->failure;
    if (!ls_control_failure_ready(w->control))
        return false;
    *out = (ls_heard){ .rank = f->rank, .code = (ls_status)f->code, .missed = (ls_missed)f->missed };
    snprintf(out->text, sizeof out->text, "%s", f->text);
    return true;
}

void ls_shm_watch_hear(ls_shm_watch *w, const ls_heard *h)
{
    if (h->missed == LS_MISSED_NOT)
        ls_control_fail(w->control, h->rank, -1, h->code, h->text);
    else
        ls_control_missed(w->control, h->rank, -1, h->missed, h->text);
}

void ls_shm_watch_hear_run(ls_shm_watch *w, const char *path) { ls_control_set_run(w->control, path); }

void ls_shm_watch_hear_joined(ls_shm_watch *w, int rank)
{
    atomic_store(&ls_control_record(w->control, rank)->state, LS_RANK_JOINED);
}

void ls_shm_watch_hear_doing(ls_shm_watch *w, int rank, const char *doing, uint64_t planned, int exec_error)
{
    ls_rank_record *s = ls_control_record(w->control, rank);
    ls_control_set_doing(s, doing);
    atomic_store(&s->planned, planned);
    atomic_store(&s->exec_error, exec_error);
}
