/* server.c - see server.h. */
#include "server.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "support.h"

static struct {
    int listener;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    ls_manner manner;
    int requests, continued, tokens, n;
    int port;
    const ls_served *files;
} server = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void send_all(int fd, const void *data, size_t n)
{
    for (const char *p = data; n;) {
        const ssize_t w = send(fd, p, n, MSG_NOSIGNAL);
        if (w <= 0)
            return;
        p += w;
        n -= (size_t)w;
    }
}

static void send_error(int fd, const char *status, const char *header)
{
    char head[1024];
    snprintf(head, sizeof head, "HTTP/1.1 %s\r\n%sContent-Length: 9\r\nConnection: close\r\n\r\nnot here\n",
             status, header);
    send_all(fd, head, strlen(head));
}

/* The file that the request's first line asks for. */
static const ls_served *asked_for(const char *path, size_t n)
{
    static const char MOVED[] = "/moved";
    if (n > sizeof MOVED - 1 && !strncmp(path, MOVED, sizeof MOVED - 1)) {
        path += sizeof MOVED - 1;
        n -= sizeof MOVED - 1;
    }
    for (int i = 0; i < server.n; i++)
        if (strlen(server.files[i].path) == n && !strncmp(server.files[i].path, path, n))
            return &server.files[i];
    return NULL;
}

static void send_file(int fd, const ls_served *f, size_t from, ls_manner how)
{
    enum { MORE = 100 };
    from -= from && how == LS_SERVE_WRONG_RANGE;
    const size_t length = f->n - from + (how == LS_SERVE_TOO_MANY ? MORE : 0);
    char head[256], *body = calloc(1, f->n + MORE);
    int n = snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: %zu\r\nConnection: close\r\n",
                     from ? "206 Partial Content" : "200 OK", length);
    if (from)
        n += snprintf(head + n, sizeof head - (size_t)n, "Content-Range: bytes %zu-%zu/%zu\r\n", from,
                      f->n - 1, f->n);
    snprintf(head + n, sizeof head - (size_t)n, "\r\n");
    send_all(fd, head, strlen(head));
    memcpy(body, f->data, f->n);
    if (how == LS_SERVE_WRONG_BYTES)
        body[f->n - 1] ^= 1;
    send_all(fd, body + from, how == LS_SERVE_CUT ? length / 2 : length);
    free(body);
}

static void answer(int fd, const char *request, ls_manner how)
{
    const char *path = strchr(request, ' ') ? strchr(request, ' ') + 1 : request,
               *range = strstr(request, "Range: bytes=");
    const size_t n = strcspn(path, " ");
    const ls_served *f = how == LS_SERVE_ABSENT ? NULL : asked_for(path, n);
    const size_t from = range && how != LS_SERVE_NO_RANGES ? (size_t)atol(range + 13) : 0;
    char header[700], host[64] = "";
    if (how == LS_SERVE_ELSEWHERE)
        snprintf(host, sizeof host, "http://localhost:%d", server.port);
    if (how == LS_SERVE_A_FILE)
        snprintf(host, sizeof host, "file:///etc/hostname?");
    snprintf(header, sizeof header, "Location: %s%s%.*s\r\n", host,
             how == LS_SERVE_IN_CIRCLES ? "" : "/moved", (int)(n < 500 ? n : 500), path);
    if (how == LS_SERVE_TOKEN && !strstr(request, "Authorization: Bearer secret\r\n"))
        send_error(fd, "401 Unauthorized", "");
    else if (!f)
        send_error(fd, "404 Not Found", "");
    else if (how == LS_SERVE_BAD_RANGE && from)
        send_error(fd, "416 Range Not Satisfiable", "");
    else if (how == LS_SERVE_IN_CIRCLES || how == LS_SERVE_A_FILE ||
             ((how == LS_SERVE_REDIRECT || how == LS_SERVE_ELSEWHERE) && strncmp(path, "/moved", 6)))
        send_error(fd, "302 Found", header);
    else
        send_file(fd, f, from, how);
}

static void *serve(void *unused)
{
    (void)unused;
    for (;;) {
        const int fd = accept(server.listener, NULL, NULL);
        if (fd < 0)
            return NULL;
        char request[4096];
        size_t n = 0;
        for (ssize_t r;
             n + 1 < sizeof request && (r = recv(fd, request + n, sizeof request - 1 - n, 0)) > 0;) {
            request[n += (size_t)r] = 0;
            if (strstr(request, "\r\n\r\n"))
                break;
        }
        request[n] = 0;
        pthread_mutex_lock(&server.lock);
        server.requests++;
        server.continued += strstr(request, "Range:") != NULL;
        server.tokens += strcasestr(request, "\r\nAuthorization:") != NULL ||
                         strcasestr(request, "\r\nx-amz-security-token:") != NULL;
        const bool mute = server.manner == LS_SERVE_MUTE;
        if (!mute)
            answer(fd, request, server.manner);
        pthread_mutex_unlock(&server.lock);
        while (mute && recv(fd, request, sizeof request, 0) > 0)
            ; /* until the client gives up */
        close(fd);
    }
}

static int bound(int fd)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof a;
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) || getsockname(fd, (struct sockaddr *)&a, &size))
        fail_msg("no port on this machine");
    return ntohs(a.sin_port);
}

const char *ls_server_start(void)
{
    static char url[64];
    setenv("no_proxy", "127.0.0.1,localhost", 1);
    server.listener = socket(AF_INET, SOCK_STREAM, 0);
    server.port = bound(server.listener);
    if (listen(server.listener, 8) || pthread_create(&server.thread, NULL, serve, NULL))
        fail_msg("the test's server does not start");
    snprintf(url, sizeof url, "http://127.0.0.1:%d", server.port);
    return url;
}

void ls_server_stop(void)
{
    shutdown(server.listener, SHUT_RDWR);
    pthread_join(server.thread, NULL);
    close(server.listener);
}

const char *ls_server_nobody(void)
{
    static char url[64];
    const int fd = socket(AF_INET, SOCK_STREAM, 0), port = bound(fd); /* bound, then closed */
    close(fd);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", port);
    return url;
}

void ls_server_serve(const ls_served *files, int n)
{
    pthread_mutex_lock(&server.lock);
    server.files = files;
    server.n = n;
    pthread_mutex_unlock(&server.lock);
}

void ls_server_behave(ls_manner manner)
{
    pthread_mutex_lock(&server.lock);
    server.manner = manner;
    server.requests = server.continued = server.tokens = 0;
    pthread_mutex_unlock(&server.lock);
}

static int count(const int *counter)
{
    pthread_mutex_lock(&server.lock);
    const int n = *counter;
    pthread_mutex_unlock(&server.lock);
    return n;
}

int ls_server_requests(void) { return count(&server.requests); }
int ls_server_continued(void) { return count(&server.continued); }
int ls_server_tokens(void) { return count(&server.tokens); }
