/* shm.c - ranks as processes of one host. They inherit an anonymous file: its first pages are the block,
 * windows lie behind them, and when the last process ends the kernel takes it back, however that process
 * ended. Nothing has a name. */
#include "internal.h"

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

enum { PAGE = 4096, HUGE = 2 << 20 };

/* ---- windows: ranges of the file, each used once */

static ls_status reserve(ls_group *g, size_t bytes, uint64_t *handle)
{
    uint64_t end = atomic_load(&g->block->end), align = bytes < HUGE ? PAGE : HUGE, at;
    do
        at = (end + align - 1) / align * align;
    while (!atomic_compare_exchange_weak(&g->block->end, &end, at + bytes));
    char text[32];
    /* The last page makes the file long enough, and never shorter; the others come when they are touched
     * (ls_window_create). */
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
    if (last) /* the pages go back; where this fails, they go with the file */
        (void)ls_sys_fallocate(g->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)handle,
                               (off_t)bytes);
}

static void leave(ls_group *g)
{
    munmap(g->block, ls_block_bytes(g->block->ranks));
    close(g->fd);
}

static const ls_sharing SHM = { "shm", reserve, map, unmap, leave };

/* ---- the block */

static ls_status map_block(ls_block **out, int fd)
{
    struct stat st;
    ls_block head;
    *out = NULL;
    if (fstat(fd, &st) != 0 || pread(fd, &head, sizeof head, 0) != sizeof head ||
        !ls_block_valid(&head, (size_t)st.st_size))
        return ls_fail(LS_E_FORMAT,
                       "descriptor %d is not the shared memory of a process group of this version", fd);
    const size_t bytes = ls_block_bytes(head.ranks);
    ls_block *b = ls_sys_mmap(bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (b == MAP_FAILED)
        return ls_fail(LS_E_MEMORY, "cannot map the process group's memory, %zu bytes: %s", bytes,
                       strerror(errno));
    *out = b;
    return LS_OK;
}

/* What ls_block_fail says, by a rank that could not map the block. */
static void leave_word(int fd, int rank, ls_status code)
{
    ls_failure f = { .state = LS_TOLD, .rank = rank, .code = (int)code };
    const off_t at = offsetof(ls_block, failure);
    snprintf(f.text, sizeof f.text, "%s", ls_error_message());
    if (ls_sys_pwrite(fd, &f.rank, sizeof f - offsetof(ls_failure, rank),
                      at + (off_t)offsetof(ls_failure, rank)) > 0)
        ls_sys_pwrite(fd, &f.state, sizeof f.state, at); /* last: then it is read */
}

ls_status ls_shm_create(int ranks, int *fd)
{
    *fd = -1;
    if (ranks < 1 || ranks > LS_BLOCK_RANKS)
        return ls_fail(LS_E_ARG, "a group of %d processes: 1 to %d are possible on a host", ranks,
                       LS_BLOCK_RANKS);
    size_t bytes = ls_block_bytes(ranks);
    int f = ls_sys_memory_file("lockstep");
    ls_block *b = f >= 0 && ls_sys_ftruncate(f, (off_t)bytes) == 0
                      ? ls_sys_mmap(bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0)
                      : MAP_FAILED;
    if (b == MAP_FAILED) {
        ls_status s = ls_fail(LS_E_MEMORY, "cannot make shared memory for %d ranks, %zu bytes: %s", ranks,
                              bytes, strerror(errno));
        if (f >= 0)
            close(f);
        return s;
    }
    ls_block_init(b, ranks);
    munmap(b, bytes);
    *fd = f;
    return LS_OK;
}

static ls_status take_seat(ls_block *b, int rank)
{
    if (rank < 0 || rank >= b->ranks)
        return ls_fail(LS_E_ARG, "rank %d of a group of %d processes", rank, b->ranks);
    ls_seat *s = ls_block_seat(b, rank);
    int nobody = 0;
    if (!atomic_compare_exchange_strong(&s->process, &nobody, (int)getpid()))
        return ls_fail(LS_E_ARG, "rank %d has joined already, as process %d", rank, nobody);
    atomic_store(&s->born, ls_process_born((int)getpid(), NULL));
    return LS_OK;
}

ls_status ls_shm_join(ls_group **out, int fd, int rank)
{
    ls_block *b;
    *out = NULL;
    ls_status s = map_block(&b, fd);
    if (s == LS_E_MEMORY)
        leave_word(fd, rank, s);
    LS_TRY(s);
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    s = own < 0 ? ls_fail(LS_E_IO, "cannot keep descriptor %d: %s", fd, strerror(errno)) : take_seat(b, rank);
    if (s == LS_OK) {
        s = ls_group_open(out, b, &SHM, own, rank, 0, b->ranks);
        if (s == LS_OK)
            return LS_OK;
        ls_block_fail(b, rank, rank, s, ls_error_message());
    }
    munmap(b, ls_block_bytes(b->ranks));
    if (own >= 0)
        close(own);
    return s;
}

/* ---- the launcher's view */

struct ls_shm_watch {
    ls_block *block;
};

ls_status ls_shm_watch_open(ls_shm_watch **out, int fd)
{
    *out = ls_sys_calloc(1, sizeof **out);
    if (!*out)
        return ls_fail(LS_E_MEMORY, "no memory to watch a process group");
    ls_status s = map_block(&(*out)->block, fd);
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
    munmap((*w)->block, ls_block_bytes((*w)->block->ranks));
    free(*w);
    *w = NULL;
}

void ls_shm_watch_gone(ls_shm_watch *w, int rank, const char *message)
{
    char doing[128], text[1024];
    ls_block_doing(w->block, rank, doing);
    snprintf(text, sizeof text, "%s%s%s", message, doing[0] ? "; it last did: " : "", doing);
    ls_block_fail(w->block, rank, -1, LS_E_PEER, text);
}

void ls_shm_watch_doing(const ls_shm_watch *w, int rank, char text[128])
{
    ls_block_doing(w->block, rank, text);
}

bool ls_shm_watch_ending(const ls_shm_watch *w, int rank)
{
    return ls_seat_gone(ls_block_seat(w->block, rank)) != NULL;
}

void ls_shm_watch_not_executed(ls_shm_watch *w, int rank, int error)
{
    atomic_store(&ls_block_seat(w->block, rank)->exec_error, error);
}
int ls_shm_watch_exec_error(const ls_shm_watch *w, int rank)
{
    return atomic_load(&ls_block_seat(w->block, rank)->exec_error);
}
uint64_t ls_shm_watch_planned(const ls_shm_watch *w, int rank)
{
    return atomic_load(&ls_block_seat(w->block, rank)->planned);
}

int ls_shm_watch_failure(const ls_shm_watch *w, ls_status *code, char text[4096])
{
    if (!ls_block_hear(w->block))
        return -1;
    *code = (ls_status)w->block->failure.code;
    snprintf(text, LS_FAILURE_BYTES, "%s", w->block->failure.text);
    return w->block->failure.rank;
}
