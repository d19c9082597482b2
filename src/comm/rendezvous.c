/* rendezvous.c - passes a descriptor to every rank of the machine, over an abstract unix socket. */
#include "rendezvous.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/oserror.h"
#include "base/stop.h"
#include "base/str.h"
#include "base/sys.h"
#include "shm.h"

#define TICK 0.1 /* seconds between two looks for a request to stop */

static socklen_t address_of(struct sockaddr_un *a, const char *name)
{
    *a = (struct sockaddr_un){ .sun_family = AF_UNIX };
    size_t length = strnlen(name, sizeof a->sun_path - 1);
    memcpy(a->sun_path + 1, name, length); /* sun_path[0] == 0: abstract */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

static bool same_user(int connection)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return !getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) && peer.uid == geteuid();
}

/* Waits until there is something to read, `until` has come, or a stop is requested. */
static bool ready(int fd, double until)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    int n;
    do { /* another thread may have taken the signal, so it need not interrupt this wait */
        const double left = until - ls_now();
        n = poll(&p, 1, left <= 0 ? 0 : left > TICK ? (int)(1e3 * TICK) : (int)(1e3 * left) + 1);
    } while (n <= 0 && ls_now() < until && !ls_stop_asked());
    return n > 0;
}

static ls_status take_name(int *listener, const char *name)
{
    struct sockaddr_un a;
    socklen_t length = address_of(&a, name);
    *listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (*listener >= 0 && !bind(*listener, (struct sockaddr *)&a, length) && !listen(*listener, 1024))
        return LS_OK;
    int error = errno;
    if (*listener >= 0)
        close(*listener);
    return error == EADDRINUSE ? ls_fail(LS_E_USAGE,
                                         "the meeting place '%s' is taken: another job of yours uses the "
                                         "same MASTER_PORT, or two ranks say that "
                                         "they are local rank 0",
                                         name)
                               : ls_fail_os(name, "open the meeting place of this host's ranks", error);
}

/* The answer is a byte: with the descriptor it means yes, without it no. No byte: the other end is gone. */
static bool give(int connection, int fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = { 0 };
    char byte = 0;
    struct iovec part = { &byte, 1 };
    struct msghdr m = { .msg_iov = &part,
                        .msg_iovlen = 1,
                        .msg_control = control.bytes,
                        .msg_controllen = sizeof control.bytes };
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    return sendmsg(connection, &m, MSG_NOSIGNAL) == 1;
}

typedef enum answer { NO_ANSWER, REFUSED, TAKEN } answer;

static answer rendezvous_take(int connection, int *fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = { 0 };
    char byte;
    struct iovec part = { &byte, 1 };
    struct msghdr m = { .msg_iov = &part,
                        .msg_iovlen = 1,
                        .msg_control = control.bytes,
                        .msg_controllen = sizeof control.bytes };
    if (recvmsg(connection, &m, MSG_CMSG_CLOEXEC) != 1)
        return NO_ANSWER;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (!c || c->cmsg_type != SCM_RIGHTS)
        return REFUSED;
    memcpy(fd, CMSG_DATA(c), sizeof *fd);
    return TAKEN;
}

static ls_status rendezvous_missing(const bool *came, int others, double seconds)
{
    ls_str names = { 0 };
    int n = 0;
    for (int i = 1; i <= others; i++)
        if (!came[i])
            ls_str_printf(&names, "%s%d", n++ ? ", " : "", i);
    ls_status s = ls_fail(LS_E_PEER, "local rank%s %s did not come to the start within %g s",
                          n == 1 ? "" : "s", ls_str_text(&names), seconds);
    ls_str_release(&names);
    return s;
}

/* Sends `fd` to the other local ranks as they connect. */
static ls_status serve(int listener, int fd, int others, double seconds)
{
    double until = ls_now() + seconds;
    bool *came = ls_sys_calloc((size_t)others + 1, sizeof *came);
    ls_status s = came ? LS_OK : ls_fail(LS_E_MEMORY, "no memory for %d ranks", others + 1);
    for (int left = others; s == LS_OK && left;) {
        if (!ready(listener, until)) {
            s = ls_stop_check("waiting for the other ranks of this host");
            if (s == LS_OK)
                s = rendezvous_missing(came, others, seconds);
            break;
        }
        int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC), rank = 0;
        if (connection < 0)
            continue;
        /* a process of another user, or a rank that ended meanwhile, does not count */
        if (same_user(connection) && ready(connection, ls_now() + 5) &&
            recv(connection, &rank, sizeof rank, 0) == sizeof rank) {
            if (rank < 1 || rank > others || came[rank]) {
                send(connection, "", 1, MSG_NOSIGNAL);
            } else if (give(connection, fd)) {
                came[rank] = true;
                left--;
            }
        }
        close(connection);
    }
    free(came);
    return s;
}

/* Local rank 0 makes the control block. It closes the name at the end: a rank that asks later finds nobody.
 */
static ls_status rendezvous_make(int *fd, const char *name, int size, double seconds)
{
    int listener;
    LS_TRY(take_name(&listener, name));
    ls_status s = ls_shm_create(size, fd);
    if (s == LS_OK)
        s = serve(listener, *fd, size - 1, seconds);
    close(listener);
    return s;
}

static ls_status rendezvous_ask(int *fd, const char *name, int rank, double seconds)
{
    struct sockaddr_un a;
    socklen_t length = address_of(&a, name);
    double until = ls_now() + seconds;
    for (useconds_t pause = 200;; pause = pause < 20000 ? 2 * pause : pause) {
        int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (connection < 0)
            return ls_fail_os(name, "open a socket to local rank 0", errno);
        bool mine = !connect(connection, (struct sockaddr *)&a, length) && same_user(connection);
        answer got = mine && send(connection, &rank, sizeof rank, MSG_NOSIGNAL) == sizeof rank &&
                             ready(connection, until)
                         ? rendezvous_take(connection, fd)
                         : NO_ANSWER;
        close(connection);
        if (got == TAKEN)
            return LS_OK;
        LS_TRY(ls_stop_check("waiting for local rank 0"));
        if (got == REFUSED)
            return ls_fail(LS_E_PEER,
                           "local rank 0 took no local rank %d: two ranks say that they are this one, or "
                           "their numbers exceed "
                           "LOCAL_WORLD_SIZE",
                           rank);
        if (mine && ls_now() < until)
            return ls_fail(LS_E_PEER,
                           "local rank 0 did not answer local rank %d: it has ended, and says why, or all "
                           "its ranks had come, and two say that they "
                           "are this one",
                           rank);
        if (ls_now() >= until)
            return ls_fail(
                LS_E_PEER,
                "local rank 0 did not come to the start within %g s (local rank %d waited at '%s')", seconds,
                rank, name);
        usleep(pause);
    }
}

ls_status ls_rendezvous_join_within(ls_group **out, const char *name, int rank, int size, double seconds)
{
    int fd = -1;
    ls_status s = rank ? rendezvous_ask(&fd, name, rank, seconds) : rendezvous_make(&fd, name, size, seconds);
    if (s == LS_OK)
        s = ls_shm_join(out, fd, rank);
    if (fd >= 0)
        close(fd);
    return s;
}

ls_status ls_rendezvous_join(ls_group **out, const char *name, int rank, int size)
{
    return ls_rendezvous_join_within(out, name, rank, size, 300);
}
