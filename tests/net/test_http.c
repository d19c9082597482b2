/* One HTTP request: where redirections lead and what goes along, requests to stop, ranges; and how an address
 * is shown. */
#include "net/http.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include "net/download.h"
#include "support/server.h"
#include "support/support.h"

static const char BODY[] = "twelve bytes";
static ls_served files[] = { { "/file", BODY, sizeof BODY - 1 } };
static const char *server;
static char url[128];
static volatile sig_atomic_t stop_wanted;

static ls_status ask(ls_http *r, const char *expected)
{
    char *text;
    size_t n;
    r->url = url;
    LS_TRY(ls_http_text(&text, &n, r, 1000));
    assert_int_equal(n, strlen(expected));
    assert_string_equal(text, expected);
    free(text);
    return LS_OK;
}

static void redirections_are_followed(void **state)
{
    (void)state;
    ls_http r = { .bearer = "secret" };
    ls_server_behave(LS_SERVE_REDIRECT);
    ASSERT_OK(ask(&r, BODY));
    assert_int_equal(r.answer, 200);
    assert_int_equal(ls_server_tokens(), 2);
    ls_server_behave(LS_SERVE_ELSEWHERE);
    ASSERT_OK(ask(&r, BODY));
    assert_int_equal(ls_server_requests(), 2);
    assert_int_equal(ls_server_tokens(), 1); /* the second server got none */
    ls_server_behave(LS_SERVE_A_FILE);
    ASSERT_FAILS(ask(&r, BODY), LS_E_IO, "redirects to file:///etc/hostname, which is not followed");
    ls_server_behave(LS_SERVE_IN_CIRCLES);
    ASSERT_FAILS(ask(&r, BODY), LS_E_IO, "/file", "more than 5 redirections");
    assert_int_equal(ls_server_requests(), 6);
}

static void signed_and_writing_requests_go_nowhere_else(void **state)
{
    (void)state;
    const ls_http_keys keys = { "here", "key", "secret", "session" };
    ls_server_behave(LS_SERVE_WHOLE);
    ls_http r = { .keys = &keys };
    ASSERT_OK(ask(&r, BODY));
    assert_int_equal(ls_server_tokens(), 1);
    ls_server_behave(LS_SERVE_ELSEWHERE);
    ASSERT_FAILS(ask(&r, BODY), LS_E_IO, "redirects to http://localhost:", "not for");
    assert_int_equal(ls_server_requests(), 1);
    r.errors_too = true;
    ASSERT_OK(ask(&r, "not here\n"));
    assert_int_equal(r.answer, 302);
    ASSERT_CONTAINS(r.moved, "http://localhost:");
    r = (ls_http){ .method = "PUT", .body = BODY, .body_size = 5 };
    ASSERT_FAILS(ask(&r, BODY), LS_E_IO, "redirects to http://localhost:");
    assert_int_equal(ls_server_requests(), 3);
}

static void begins_where_it_was_asked_to(void **state)
{
    (void)state;
    ls_http r = { .from = 7 };
    ls_server_behave(LS_SERVE_REDIRECT);
    ASSERT_OK(ask(&r, "bytes"));
    static const ls_manner WRONG[] = { LS_SERVE_NO_RANGES, LS_SERVE_WRONG_RANGE, LS_SERVE_BAD_RANGE };
    for (int i = 0; i < 3; i++) {
        ls_server_behave(WRONG[i]);
        ASSERT_FAILS(ask(&r, ""), LS_E_UNSUPPORTED, "/file", "cannot be continued at byte 7");
    }
}

static void a_request_to_stop_ends_it(void **state)
{
    (void)state;
    ls_http r = { 0 };
    ls_server_behave(LS_SERVE_WHOLE);
    ls_stop_on(&stop_wanted);
    stop_wanted = 1;
    ASSERT_FAILS(ask(&r, BODY), LS_E_STOPPED, "stopped while waiting for http://127.0.0.1:");
    assert_int_equal(ls_server_requests(), 0);
    r.patience = 5;
    ASSERT_OK(ask(&r, BODY));
    ls_server_behave(LS_SERVE_MUTE);
    r.patience = 0.1;
    ASSERT_FAILS(ask(&r, BODY), LS_E_STOPPED, "stopped while waiting");
    assert_int_equal(ls_server_requests(), 1);
    stop_wanted = 0;
    ls_stop_on(NULL);
}

/* Another process downloads the file, and does not end. */
static void a_request_to_stop_ends_the_wait_for_a_lock(void **state)
{
    (void)state;
    const char *const urls[] = { url, NULL };
    char path[512], part[520];
    snprintf(path, sizeof path, "%s", ls_test_path("file"));
    snprintf(part, sizeof part, "%s.part", path);
    const int fd = open(part, O_RDWR | O_CREAT, 0600);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    ls_stop_on(&stop_wanted);
    stop_wanted = 1;
    ls_download d = { .path = path, .name = "file", .urls = urls, .bytes = sizeof BODY - 1 };
    ASSERT_FAILS(ls_download_file(&d), LS_E_STOPPED, "stopped while another process downloaded file");
    stop_wanted = 0;
    ls_stop_on(NULL);
    close(fd);
    ls_server_behave(LS_SERVE_WHOLE);
    ASSERT_OK(ls_download_file(&d));
}

static void secrets_of_an_address_are_not_shown(void **state)
{
    (void)state;
    static const char *const CASES[][2] = {
        { "https://host/a/b.bin", "https://host/a/b.bin" },
        { "https://host/a?X-Amz-Signature=1234&b=c", "https://host/a" },
        { "https://host?token=1", "https://host" },
        { "https://host/a#token", "https://host/a" },
        { "http://user:pass@host:80/a@b", "http://host:80/a@b" },
        { "http://user:p@ss@host/", "http://host/" },
        { "http://user:pass@host?a@b", "http://host" },
        { "user:pass@host/a", "host/a" },
        { "", "" },
    };
    char shown[LS_URL_SHOWN], longer[2 * LS_URL_SHOWN];
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        assert_string_equal(ls_url_shown(shown, CASES[i][0]), CASES[i][1]);
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    assert_int_equal(strlen(ls_url_shown(shown, longer)), LS_URL_SHOWN - 1);
    ASSERT_CONTAINS(shown, "aaa...");

    ls_http r = { 0 };
    ls_server_behave(LS_SERVE_ABSENT);
    snprintf(url, sizeof url, "http://user:pass@%s/none?X-Amz-Signature=1234", server + 7);
    ASSERT_FAILS(ask(&r, ""), LS_E_IO, "/none: ", "404");
    assert_null(strstr(ls_error_message(), "pass"));
    assert_null(strstr(ls_error_message(), "1234"));
}

static void origins(void **state)
{
    (void)state;
    static const char A[] = "https://host:1/a";
    static const char *const SAME[] = { "https://host:1", "HTTPS://HOST:1/b", "https://u:p@host:1/",
                                        "https://host:1?b" };
    static const char *const OTHER[] = { "http://host:1/a",    "https://host:2/a",
                                         "https://host/a",     "https://host:1@x/",
                                         "https://host:11/",   "https://x/https://host:1/",
                                         "https://host:1.x/a", "host:1/a" };
    for (int i = 0; i < 4; i++)
        assert_true(ls_url_same_origin(A, SAME[i]));
    for (int i = 0; i < 8; i++)
        assert_false(ls_url_same_origin(A, OTHER[i]));
    assert_true(ls_url_is_https("HTTPS://x"));
    assert_false(ls_url_is_https("http://https://x"));
    assert_false(ls_url_is_https("x"));
    assert_true(ls_url_may_lead("http://a", "http://b"));
    assert_true(ls_url_may_lead("http://a", "https://b"));
    assert_true(ls_url_may_lead("https://a", "https://b"));
    assert_false(ls_url_may_lead("https://a", "http://b"));
    assert_false(ls_url_may_lead("http://a", "ftp://b"));
}

static int begin(void **state)
{
    (void)state;
    snprintf(url, sizeof url, "%s/file", server);
    return 0;
}

static int start(void **state)
{
    (void)state;
    server = ls_server_start();
    ls_server_serve(files, 1);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    ls_server_stop();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(redirections_are_followed, begin),
        cmocka_unit_test_setup(signed_and_writing_requests_go_nowhere_else, begin),
        cmocka_unit_test_setup(begins_where_it_was_asked_to, begin),
        cmocka_unit_test_setup(a_request_to_stop_ends_it, begin),
        cmocka_unit_test_setup(a_request_to_stop_ends_the_wait_for_a_lock, begin),
        cmocka_unit_test_setup(secrets_of_an_address_are_not_shown, begin),
        cmocka_unit_test_setup(origins, begin),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
