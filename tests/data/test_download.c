/* Fetching a set from a small HTTP server of our own that can be slow to finish, unable to continue, wrong or
 * absent. No network. */
#include "files.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/hash.h"
#include "data/known.h"

enum { SIZE = 50000 };
typedef enum { WHOLE, CUT, NO_RANGES, WRONG_BYTES, TOO_MANY, ABSENT, BAD_RANGE } manner;

/* ---- the server: one connection at a time */

static struct {
    int listener, port;
    pthread_t thread;
    pthread_mutex_t lock;
    manner manner;           /* of the next answers */
    int requests, continued; /* seen so far; with a Range */
} server = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint8_t content[4][SIZE];

static void send_all(int fd, const void *data, size_t n)
{
    for (const char *p = data; n;) {
        ssize_t w = send(fd, p, n, MSG_NOSIGNAL);
        if (w <= 0)
            return;
        p += w, n -= (size_t)w;
    }
}

static void answer(int fd, const char *request, manner how)
{
    int file = -1;
    long from = 0;
    for (int i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "/f%d.gz ", i);
        if (strstr(request, name))
            file = i;
    }
    const char *range = strstr(request, "Range: bytes=");
    if (range && how != NO_RANGES)
        from = atol(range + 13);
    char head[256];
    if (how == ABSENT || file < 0) {
        snprintf(head, sizeof head,
                 "HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\nConnection: close\r\n\r\nnot here\n");
        send_all(fd, head, strlen(head));
        return;
    }
    if (how == BAD_RANGE && from) {
        snprintf(head, sizeof head,
                 "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        send_all(fd, head, strlen(head));
        return;
    }
    long length = SIZE - from + (how == TOO_MANY ? 100 : 0);
    int n = snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: %ld\r\nConnection: close\r\n",
                     from ? "206 Partial Content" : "200 OK", length);
    if (from)
        n += snprintf(head + n, sizeof head - (size_t)n, "Content-Range: bytes %ld-%d/%d\r\n", from, SIZE - 1,
                      SIZE);
    snprintf(head + n, sizeof head - (size_t)n, "\r\n");
    send_all(fd, head, strlen(head));
    uint8_t *body = malloc(SIZE + 100);
    memset(body, 0, SIZE + 100);
    memcpy(body, content[file], SIZE);
    if (how == WRONG_BYTES)
        body[SIZE - 1] ^= 1;
    send_all(fd, body + from, (size_t)(how == CUT ? length / 2 : length));
    free(body);
}

static void *serve(void *unused)
{
    (void)unused;
    for (;;) {
        int fd = accept(server.listener, NULL, NULL);
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
        manner how = server.manner;
        server.requests++;
        server.continued += strstr(request, "Range:") != NULL;
        pthread_mutex_unlock(&server.lock);
        answer(fd, request, how);
        close(fd);
    }
}

static void behave(manner how)
{
    pthread_mutex_lock(&server.lock);
    server.manner = how;
    server.requests = server.continued = 0;
    pthread_mutex_unlock(&server.lock);
}

static int seen(int *counter)
{
    pthread_mutex_lock(&server.lock);
    int n = *counter;
    pthread_mutex_unlock(&server.lock);
    return n;
}

/* ---- a set of four files on it */

static char names[4][8], hashes[4][65], url[64], dead_url[64];
static ls_known known;

static int start(void **state)
{
    (void)state;
    setenv("no_proxy", "127.0.0.1", 1);
    server.listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof a;
    if (server.listener < 0 || bind(server.listener, (struct sockaddr *)&a, sizeof a) ||
        listen(server.listener, 8) || getsockname(server.listener, (struct sockaddr *)&a, &size) ||
        pthread_create(&server.thread, NULL, serve, NULL))
        return 1;
    server.port = ntohs(a.sin_port);
    snprintf(url, sizeof url, "http://127.0.0.1:%d/data/", server.port);
    /* A port that nobody listens on: bound, then closed. */
    int closed = socket(AF_INET, SOCK_STREAM, 0);
    a.sin_port = 0;
    if (bind(closed, (struct sockaddr *)&a, sizeof a) || getsockname(closed, (struct sockaddr *)&a, &size))
        return 1;
    snprintf(dead_url, sizeof dead_url, "http://127.0.0.1:%d/", ntohs(a.sin_port));
    close(closed);
    known = (ls_known){ .name = "made", .mirrors = { dead_url, url } };
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < SIZE; k++)
            content[i][k] = (uint8_t)(k * 31 + k / 251 + i);
        ls_sha256 sha;
        ls_sha256_init(&sha);
        ls_sha256_add(&sha, content[i], SIZE);
        ls_sha256_hex(&sha, hashes[i]);
        snprintf(names[i], sizeof names[i], "f%d.gz", i);
        known.files[i] = (ls_known_file){ names[i], SIZE, hashes[i] };
    }
    return 0;
}

static int stop(void **state)
{
    (void)state;
    shutdown(server.listener, SHUT_RDWR);
    pthread_join(server.thread, NULL);
    close(server.listener);
    return 0;
}

static void assert_whole(const char *dir)
{
    for (int i = 0; i < 4; i++) {
        char *data;
        size_t n;
        assert_ok(ls_file_read(&data, &n, in(dir, names[i])));
        assert_int_equal(n, SIZE);
        assert_memory_equal(data, content[i], SIZE);
        free(data);
        char part[64];
        snprintf(part, sizeof part, "%s.part", names[i]);
        assert_false(ls_file_exists(in(dir, part)));
    }
}

static struct {
    int calls;
    int64_t last, total;
    double rate;
} progress;
static void on_progress(void *context, const char *file, int64_t so_far, int64_t total, double rate)
{
    assert_ptr_equal(context, &progress);
    assert_non_null(strstr(file, "f"));
    progress.calls++;
    progress.last = so_far;
    progress.total = total;
    progress.rate = rate;
}

static void test_second_mirror_and_progress(void **state)
{
    (void)state;
    char *dir = make_folder();
    behave(WHOLE);
    ls_dataset_options o = { LS_DATASET_DEFAULTS, .progress = on_progress, .context = &progress };
    assert_ok(ls_known_download(&known, in(dir, "new/made"), &o));
    assert_whole(in(dir, "new/made"));
    assert_int_equal(seen(&server.requests), 4);
    assert_true(progress.calls >= 4);
    assert_int_equal(progress.last, SIZE);
    assert_int_equal(progress.total, SIZE);
    assert_true(progress.rate > 0);
    assert_ok(ls_known_download(&known, in(dir, "new/made"), &o)); /* nothing to do: nothing is asked */
    assert_int_equal(seen(&server.requests), 4);
    remove_tree(dir);
}

static void test_continues(void **state)
{
    (void)state;
    char *dir = make_folder();
    ls_dataset_options o = { LS_DATASET_DEFAULTS };
    behave(CUT);
    assert_fails(LS_E_IO, ls_known_download(&known, dir, &o), url, "closed"); /* the last mirror */
    assert_null(strstr(ls_error_message(), dead_url));
    assert_false(ls_file_exists(in(dir, "f0.gz")));
    assert_int_equal(ls_file_size(in(dir, "f0.gz.part")), SIZE / 2);
    behave(WHOLE);
    assert_ok(ls_known_download(&known, dir, &o));
    assert_whole(dir);
    assert_int_equal(seen(&server.continued), 1);
    assert_int_equal(seen(&server.requests), 4);

    /* The server cannot continue: from the beginning. */
    const manner cannot[] = { NO_RANGES, BAD_RANGE };
    for (int i = 0; i < 2; i++) {
        remove(in(dir, "f1.gz"));
        write_bytes(in(dir, "f1.gz.part"), (bytes){ content[1], 1000 });
        behave(cannot[i]);
        assert_ok(ls_known_download(&known, dir, &o));
        assert_whole(dir);
        assert_int_equal(seen(&server.requests), 2);
    }

    /* What lies there is something else, shorter, of the right size, or longer: noticed by the checksum, from
     * the beginning. */
    const size_t sizes[] = { 1000, SIZE, SIZE + 5 };
    for (int i = 0; i < 3; i++) {
        uint8_t *junk = calloc(1, SIZE + 5);
        remove(in(dir, "f2.gz"));
        write_bytes(in(dir, "f2.gz.part"), (bytes){ junk, sizes[i] });
        free(junk);
        behave(WHOLE);
        assert_ok(ls_known_download(&known, dir, &o));
        assert_whole(dir);
    }
    remove_tree(dir);
}

static void test_wrong_files_are_refused(void **state)
{
    (void)state;
    char *dir = make_folder();
    ls_dataset_options o = { LS_DATASET_DEFAULTS, .mirror = url };
    behave(WRONG_BYTES);
    assert_fails(LS_E_FORMAT, ls_known_download(&known, dir, &o), "SHA-256", hashes[0]);
    assert_false(ls_file_exists(in(dir, "f0.gz")));
    assert_false(ls_file_exists(in(dir, "f0.gz.part")));
    behave(TOO_MANY);
    assert_fails(LS_E_FORMAT, ls_known_download(&known, dir, &o), "more than the 50000 bytes", "f0.gz");
    assert_false(ls_file_exists(in(dir, "f0.gz.part")));
    behave(ABSENT);
    assert_fails(LS_E_IO, ls_known_download(&known, dir, &o), "404", "f0.gz");
    o.mirror = dead_url;
    assert_fails(LS_E_IO, ls_known_download(&known, dir, &o), dead_url, "f0.gz");
    /* no connection does not cost what is already there */
    write_bytes(in(dir, "f0.gz.part"), (bytes){ content[0], 1234 });
    assert_fails(LS_E_IO, ls_known_download(&known, dir, &o), dead_url, "f0.gz");
    assert_int_equal(ls_file_size(in(dir, "f0.gz.part")), 1234);
    remove_tree(dir);
}

static void *download_too(void *dir)
{
    ls_dataset_options o = { LS_DATASET_DEFAULTS, .mirror = url };
    return (void *)(intptr_t)ls_known_download(&known, dir, &o);
}

static void test_two_at_once(void **state)
{
    (void)state;
    char *dir = make_folder();
    behave(WHOLE);
    pthread_t t[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&t[i], NULL, download_too, dir), 0);
    for (int i = 0; i < 3; i++) {
        void *r;
        pthread_join(t[i], &r);
        assert_int_equal((intptr_t)r, LS_OK);
    }
    assert_whole(dir);
    assert_int_equal(seen(&server.requests), 4);
    remove_tree(dir);
}

static void test_file_mirror(void **state)
{
    (void)state;
    char *dir = make_folder(), mirror[600];
    assert_ok(ls_make_dirs(in(dir, "mirror")));
    for (int i = 0; i < 4; i++)
        write_bytes(in(in(dir, "mirror"), names[i]), (bytes){ content[i], SIZE });
    snprintf(mirror, sizeof mirror, "file://%s/mirror", dir);
    ls_dataset_options o = { LS_DATASET_DEFAULTS, .mirror = mirror };
    assert_ok(ls_known_download(&known, in(dir, "to"), &o));
    assert_whole(in(dir, "to"));
    remove_tree(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_second_mirror_and_progress),
        cmocka_unit_test(test_continues),
        cmocka_unit_test(test_wrong_files_are_refused),
        cmocka_unit_test(test_two_at_once),
        cmocka_unit_test(test_file_mirror),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
