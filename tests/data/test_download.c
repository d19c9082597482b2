/* test_download.c - downloads a set from a small HTTP server of this test, which can be slow, unable to
 * continue, wrong or absent. It needs no network. */
#include "files.h"

#include <pthread.h>

#include "base/sha.h"
#include "data/known.h"
#include "support/server.h"

enum { SIZE = 50000 };

static uint8_t content[4][SIZE];

/* ---- a set of four files on it */

static char names[4][8], hashes[4][65], url[64], dead_url[64];
static ls_known known;

static int start(void **state)
{
#ifdef LS_TEST_NO_CURL
    fprintf(stderr, "skipped: this build has no libcurl (Debian: libcurl4-openssl-dev)\n");
    exit(77);
#endif
    (void)state;
    static ls_served files[4];
    static char paths[4][16];
    snprintf(url, sizeof url, "%s/data/", ls_server_start());
    snprintf(dead_url, sizeof dead_url, "%s/", ls_server_nobody());
    known = (ls_known){ .name = "made", .mirrors = { dead_url, url } };
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < SIZE; k++)
            content[i][k] = (uint8_t)(k * 31 + k / 251 + i);
        ls_sha sha;
        ls_sha256_init(&sha);
        ls_sha_add(&sha, content[i], SIZE);
        ls_sha_hex(&sha, hashes[i]);
        snprintf(names[i], sizeof names[i], "f%d.gz", i);
        known.files[i] = (ls_known_file){ names[i], SIZE, hashes[i] };
        snprintf(paths[i], sizeof paths[i], "/data/f%d.gz", i);
        files[i] = (ls_served){ paths[i], content[i], SIZE };
    }
    ls_server_serve(files, 4);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    ls_server_stop();
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
    ls_server_behave(LS_SERVE_WHOLE);
    ls_dataset_options o = { LS_DATASET_DEFAULTS, .progress = on_progress, .context = &progress };
    assert_ok(ls_known_download(&known, in(dir, "new/made"), &o));
    assert_whole(in(dir, "new/made"));
    assert_int_equal(ls_server_requests(), 4);
    assert_true(progress.calls >= 4);
    assert_int_equal(progress.last, SIZE);
    assert_int_equal(progress.total, SIZE);
    assert_true(progress.rate > 0);
    assert_ok(ls_known_download(&known, in(dir, "new/made"), &o)); /* nothing to do: nothing is asked */
    assert_int_equal(ls_server_requests(), 4);
    remove_tree(dir);
}

static void test_continues(void **state)
{
    (void)state;
    char *dir = make_folder();
    ls_dataset_options o = { LS_DATASET_DEFAULTS };
    ls_server_behave(LS_SERVE_CUT);
    assert_fails(LS_E_IO, ls_known_download(&known, dir, &o), url, "closed"); /* the last mirror */
    assert_null(strstr(ls_error_message(), dead_url));
    assert_false(ls_file_exists(in(dir, "f0.gz")));
    assert_int_equal(ls_file_size(in(dir, "f0.gz.part")), SIZE / 2);
    ls_server_behave(LS_SERVE_WHOLE);
    assert_ok(ls_known_download(&known, dir, &o));
    assert_whole(dir);
    assert_int_equal(ls_server_continued(), 1);
    assert_int_equal(ls_server_requests(), 4);

    /* The server cannot continue: from the beginning. */
    const ls_manner cannot[] = { LS_SERVE_NO_RANGES, LS_SERVE_BAD_RANGE };
    for (int i = 0; i < 2; i++) {
        remove(in(dir, "f1.gz"));
        write_bytes(in(dir, "f1.gz.part"), (bytes){ content[1], 1000 });
        ls_server_behave(cannot[i]);
        assert_ok(ls_known_download(&known, dir, &o));
        assert_whole(dir);
        assert_int_equal(ls_server_requests(), 2);
    }

    /* What lies there is something else, shorter, of the right size, or longer: noticed by the checksum, from
     * the beginning. */
    const size_t sizes[] = { 1000, SIZE, SIZE + 5 };
    for (int i = 0; i < 3; i++) {
        uint8_t *junk = calloc(1, SIZE + 5);
        remove(in(dir, "f2.gz"));
        write_bytes(in(dir, "f2.gz.part"), (bytes){ junk, sizes[i] });
        free(junk);
        ls_server_behave(LS_SERVE_WHOLE);
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
    ls_server_behave(LS_SERVE_WRONG_BYTES);
    assert_fails(LS_E_FORMAT, ls_known_download(&known, dir, &o), "SHA-256", hashes[0]);
    assert_false(ls_file_exists(in(dir, "f0.gz")));
    assert_false(ls_file_exists(in(dir, "f0.gz.part")));
    ls_server_behave(LS_SERVE_TOO_MANY);
    assert_fails(LS_E_FORMAT, ls_known_download(&known, dir, &o), "more than the 50000 bytes", "f0.gz");
    assert_false(ls_file_exists(in(dir, "f0.gz.part")));
    ls_server_behave(LS_SERVE_ABSENT);
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
    ls_server_behave(LS_SERVE_WHOLE);
    pthread_t t[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&t[i], NULL, download_too, dir), 0);
    for (int i = 0; i < 3; i++) {
        void *r;
        pthread_join(t[i], &r);
        assert_int_equal((intptr_t)r, LS_OK);
    }
    assert_whole(dir);
    assert_int_equal(ls_server_requests(), 4);
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
