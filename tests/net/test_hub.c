/* Repositories of a hub, from a server of our own that speaks as Hugging Face's does: lists, the cache's
 * layout, interrupted and wrong files, tokens, hostile lists, no network. */
#include "net/hub.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "base/find.h"
#include "base/hub_cache.h"
#include "base/sha.h"
#include "base/str.h"
#include "net/download.h"
#include "support/server.h"
#include "support/support.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"
enum { LARGE = 70000 };

static const char *endpoint;
static char large[LARGE], list[4096], large_hash[LS_SHA256_HEX], small_hash[LS_SHA1_HEX];
static const char small[] = "{\"model_type\": \"qwen2\"}\n";

static void hash_all(void)
{
    ls_sha sha;
    for (int i = 0; i < LARGE; i++)
        large[i] = (char)(i * 7 + i / 253);
    ls_sha256_init(&sha);
    ls_sha_add(&sha, large, LARGE);
    ls_sha_hex(&sha, large_hash);
    char head[32];
    const int n = snprintf(head, sizeof head, "blob %zu", sizeof small - 1);
    ls_sha1_init(&sha);
    ls_sha_add(&sha, head, (size_t)n + 1);
    ls_sha_add(&sha, small, sizeof small - 1);
    ls_sha_hex(&sha, small_hash);
}

static ls_served files[] = {
    { "/api/models/me/tiny/revision/main?blobs=true", list, 0 },
    { "/api/models/me/tiny/revision/a%20tag?blobs=true", list, 0 },
    { "/api/datasets/me/words/revision/main?blobs=true", list, 0 },
    { "/me/tiny/resolve/" COMMIT "/config.json", small, sizeof small - 1 },
    { "/me/tiny/resolve/" COMMIT "/model.safetensors", large, LARGE },
    { "/datasets/me/words/resolve/" COMMIT "/sub/one%20file.txt", small, sizeof small - 1 },
};

/* The list of a repository: `large_path` is a file of the large store, `small_path` one of git's. */
static void set_list(const char *large_path, const char *small_path)
{
    ls_server_serve(NULL, 0); /* its thread reads them no more */
    snprintf(list, sizeof list,
             "{\"id\": \"me/tiny\", \"sha\": \"" COMMIT "\", \"siblings\": ["
             "{\"rfilename\": \"%s\", \"size\": 9, \"blobId\": \"x\", \"lfs\": {\"sha256\": \"%s\", "
             "\"size\": %d}},"
             "{\"rfilename\": \"%s\", \"size\": %zu, \"blobId\": \"%s\"}]}",
             large_path, large_hash, LARGE, small_path, sizeof small - 1, small_hash);
    for (int i = 0; i < 3; i++)
        files[i].n = strlen(list);
    ls_server_serve(files, sizeof files / sizeof *files);
}

static void fresh_cache(void)
{
    static int n;
    char name[32];
    snprintf(name, sizeof name, "home%d", n++);
    setenv("HF_HOME", ls_test_path(name), 1);
    set_list("model.safetensors", "config.json");
    ls_server_behave(LS_SERVE_WHOLE);
}

static void want_all(ls_hub_repo *r)
{
    for (int i = 0; i < r->n; i++)
        r->files[i].wanted = true;
}

static ls_status get(const char *name, const char *to, ls_hub_load *l)
{
    ls_hub_repo r;
    *l = (ls_hub_load){ .to = to };
    LS_TRY(ls_hub_list(&r, name, "main", NULL));
    want_all(&r);
    const ls_status s = ls_hub_get(&r, l);
    ls_hub_release(&r);
    return s;
}

static void holds(const char *folder, const char *name, const char *data, size_t n)
{
    char *path = ls_path_join(folder, name), *text;
    size_t size;
    ASSERT_OK(ls_file_read(&text, &size, path));
    assert_int_equal(size, n);
    assert_memory_equal(text, data, n);
    free(text);
    free(path);
}

/* Hugging Face's own layout, which finds the files again without the network. */
static void loads_into_the_cache(void **state)
{
    (void)state;
    ls_hub_load l;
    char link[512] = "";
    fresh_cache();
    char *found;
    ASSERT_OK(ls_find(&found, "me/tiny", ls_find_any));
    assert_null(found);
    ASSERT_OK(get("me/tiny", NULL, &l));
    holds(l.folder, "config.json", small, sizeof small - 1);
    holds(l.folder, "model.safetensors", large, LARGE);
    assert_int_equal(l.loaded_files, 2);
    assert_int_equal(l.loaded, LARGE + (int)sizeof small - 1);
    ASSERT_CONTAINS(l.folder, "/hub/models--me--tiny/snapshots/" COMMIT);
    char *model = ls_path_join(l.folder, "model.safetensors");
    assert_true(readlink(model, link, sizeof link - 1) > 0);
    ASSERT_CONTAINS(link, "../../blobs/");
    ASSERT_CONTAINS(link, large_hash);
    free(model);
    ASSERT_OK(ls_find(&found, "me/tiny", ls_find_any));
    assert_string_equal(found, l.folder);
    free(found);
    free(l.folder);

    const int asked = ls_server_requests();
    ASSERT_OK(get("me/tiny", NULL, &l)); /* asks for the list and loads nothing */
    assert_int_equal(ls_server_requests(), asked + 1);
    assert_int_equal(l.loaded_files, 0);
    free(l.folder);
}

static void loads_a_data_set_and_other_revisions(void **state)
{
    (void)state;
    ls_hub_load l;
    ls_hub_repo r;
    fresh_cache();
    set_list("unused", "sub/one file.txt");
    ASSERT_OK(ls_hub_list(&r, "datasets/me/words", "main", NULL));
    r.files[1].wanted = true;
    l = (ls_hub_load){ 0 };
    ASSERT_OK(ls_hub_get(&r, &l));
    holds(l.folder, "sub/one file.txt", small, sizeof small - 1);
    free(l.folder);
    ls_hub_release(&r);
    char *path = ls_hub_path("datasets/me/words/sub/one file.txt");
    assert_true(ls_file_exists(path));
    free(path);
    assert_null(ls_hub_path("datasets/me/other/sub/one file.txt"));

    set_list("model.safetensors", "config.json");
    ASSERT_OK(ls_hub_list(&r, "me/tiny", "a tag", endpoint));
    want_all(&r);
    ASSERT_OK(ls_hub_get(&r, &l));
    char *there = ls_hub_snapshot("me/tiny", "a tag"), *main_one = ls_hub_snapshot("me/tiny", "main");
    assert_string_equal(there, l.folder);
    assert_null(main_one);
    free(there);
    free(l.folder);
    ls_hub_release(&r);
}

static void loads_into_a_folder(void **state)
{
    (void)state;
    ls_hub_load l;
    char to[512];
    fresh_cache();
    snprintf(to, sizeof to, "%s", ls_test_path("plain"));
    ASSERT_OK(get("me/tiny", to, &l));
    holds(to, "config.json", small, sizeof small - 1);
    holds(to, "model.safetensors", large, LARGE);
    free(l.folder);
    ASSERT_OK(get("me/tiny", to, &l));
    assert_int_equal(l.loaded_files, 0);
    free(l.folder);
    char *config = ls_path_join(to, "config.json"); /* the user's own */
    ASSERT_OK(ls_file_write(config, "{}", 2));
    ASSERT_FAILS(get("me/tiny", to, &l), LS_E_FORMAT, "config.json", "another content", "me/tiny");
    holds(to, "config.json", "{}", 2);
    free(config);
}

static void goes_on_where_it_stopped(void **state)
{
    (void)state;
    ls_hub_load l;
    ls_hub_repo r;
    fresh_cache();
    ASSERT_OK(ls_hub_list(&r, "me/tiny", "main", NULL));
    want_all(&r);
    ls_server_behave(LS_SERVE_CUT);
    l = (ls_hub_load){ 0 };
    ASSERT_FAILS(ls_hub_get(&r, &l), LS_E_IO, "model.safetensors", "closed");
    assert_null(ls_hub_snapshot("me/tiny", "main")); /* no ref: not loaded yet */
    ls_server_behave(LS_SERVE_REDIRECT);             /* as the hub does for large files */
    ASSERT_OK(ls_hub_get(&r, &l));
    assert_true(ls_server_continued() > 0);
    holds(l.folder, "model.safetensors", large, LARGE);
    free(l.folder);
    ls_hub_release(&r);
}

static void wrong_bytes_are_refused(void **state)
{
    (void)state;
    ls_hub_load l = { 0 };
    ls_hub_repo r;
    fresh_cache();
    ASSERT_OK(ls_hub_list(&r, "me/tiny", "main", NULL));
    r.files[1].wanted = true; /* git's checksum, then SHA-256 */
    ls_server_behave(LS_SERVE_WRONG_BYTES);
    ASSERT_FAILS(ls_hub_get(&r, &l), LS_E_FORMAT, "config.json", "git's SHA-1", small_hash);
    r.files[0].wanted = true;
    ASSERT_FAILS(ls_hub_get(&r, &l), LS_E_FORMAT, "model.safetensors", "SHA-256", large_hash);
    ls_server_behave(LS_SERVE_TOO_MANY);
    ASSERT_FAILS(ls_hub_get(&r, &l), LS_E_FORMAT, "more than the 70000 bytes");
    ls_hub_release(&r);
}

/* Without a checksum, as a bucket may be, the size alone says what is whole. */
static void a_file_without_checksum_has_its_size(void **state)
{
    (void)state;
    char url[200], path[450], part[460];
    snprintf(url, sizeof url, "%s/me/tiny/resolve/" COMMIT "/model.safetensors", endpoint);
    const char *const urls[] = { url, NULL };
    ls_server_behave(LS_SERVE_WHOLE);
    for (int more = -1; more <= 1; more++) {
        snprintf(path, sizeof path, "%s", ls_test_path(more < 0 ? "less" : more ? "more" : "same"));
        snprintf(part, sizeof part, "%s.part", path);
        ls_download d = { .path = path, .name = "a file", .urls = urls, .bytes = LARGE + more };
        if (more > 0)
            ASSERT_FAILS(ls_download_file(&d), LS_E_FORMAT, "70000 bytes came, expected 70001");
        else if (more < 0)
            ASSERT_FAILS(ls_download_file(&d), LS_E_FORMAT, "more than the 69999 bytes of a file came");
        else
            ASSERT_OK(ls_download_file(&d));
        assert_int_equal(ls_file_size(path), more ? -1 : LARGE);
        assert_false(ls_file_exists(part));
    }
    snprintf(path, sizeof path, "%s", ls_test_path("told"));
    ASSERT_FAILS(
        ls_download_file(&(ls_download){
            .path = path, .name = "a file", .urls = urls, .bytes = LARGE + 1, .sha256 = large_hash }),
        LS_E_FORMAT, "70000 bytes with SHA-256", "expected 70001 bytes");
    /* what an earlier start has left is more than the file: it is another one */
    char *longer = calloc(LARGE + 1, 1);
    snprintf(path, sizeof path, "%s", ls_test_path("again"));
    snprintf(part, sizeof part, "%s.part", path);
    ASSERT_OK(ls_file_write(part, longer, LARGE + 1));
    free(longer);
    ls_download d = { .path = path, .name = "a file", .urls = urls, .bytes = LARGE };
    ASSERT_OK(ls_download_file(&d));
    assert_int_equal(ls_file_size(path), LARGE);
}

/* A repository as ls_hub_list begins it for a server that speaks https, which this one does not. */
static ls_hub_repo trusted(const char *token)
{
    return (ls_hub_repo){ .name = strdup("me/tiny"),
                          .revision = strdup("main"),
                          .endpoint = strdup(endpoint),
                          .token = strdup(token) };
}

static void the_token_goes_to_its_server_only(void **state)
{
    (void)state;
    fresh_cache();
    ls_server_behave(LS_SERVE_TOKEN);
    ls_hub_load l = { 0 };
    ls_hub_repo r = trusted("wrong");
    ASSERT_FAILS(ls_hub_ask(&r), LS_E_USAGE, "refuses the token");
    ls_hub_release(&r);
    r = trusted("secret");
    ASSERT_OK(ls_hub_ask(&r));
    want_all(&r);
    ASSERT_OK(ls_hub_get(&r, &l));
    free(l.folder);
    assert_int_equal(ls_server_tokens(), 4); /* also that of the wrong one */

    fresh_cache();
    ls_server_behave(LS_SERVE_REDIRECT); /* to the same origin */
    ASSERT_OK(ls_hub_get(&r, &l));
    free(l.folder);
    assert_int_equal(ls_server_requests(), 4);
    assert_int_equal(ls_server_tokens(), 4);

    fresh_cache();
    ls_server_behave(LS_SERVE_ELSEWHERE); /* as the hub does for large files */
    ASSERT_OK(ls_hub_get(&r, &l));
    free(l.folder);
    assert_int_equal(ls_server_requests(), 4);
    assert_int_equal(ls_server_tokens(), 2);
    ls_hub_release(&r);
}

static void plain_http_gets_no_token(void **state)
{
    (void)state;
    ls_hub_load l;
    ls_hub_repo r;
    fresh_cache();
    ls_server_behave(LS_SERVE_TOKEN);
    ASSERT_FAILS(get("me/tiny", NULL, &l), LS_E_USAGE, "me/tiny", "wants a token", "HF_TOKEN");
    setenv("HF_TOKEN", "secret\n", 1);
    ASSERT_FAILS(get("me/tiny", NULL, &l), LS_E_USAGE, "wants a token", "only over https");
    ls_server_behave(LS_SERVE_WHOLE);
    ASSERT_OK(ls_hub_list(&r, "me/tiny", "main", NULL));
    assert_string_equal(r.token, "secret");
    assert_true(r.withheld);
    want_all(&r);
    l = (ls_hub_load){ 0 };
    ASSERT_OK(ls_hub_get(&r, &l)); /* a public repository needs none */
    free(l.folder);
    assert_int_equal(ls_server_tokens(), 0);
    fresh_cache();
    ls_server_behave(LS_SERVE_TOKEN);
    ASSERT_FAILS(ls_hub_get(&r, &l), LS_E_USAGE, "model.safetensors", "only over https");
    ls_hub_release(&r);
    unsetenv("HF_TOKEN");

    fresh_cache();
    ASSERT_OK(ls_make_dirs(getenv("HF_HOME")));
    char *file = ls_path_join(getenv("HF_HOME"), "token"); /* where `hf auth login` puts it */
    ASSERT_OK(ls_file_write(file, "hidden\n", 7));
    free(file);
    ASSERT_OK(ls_hub_list(&r, "me/tiny", "main", NULL));
    assert_string_equal(r.token, "hidden");
    ls_hub_release(&r);
}

/* A file of the cache is named by its checksum. */
static void a_damaged_file_of_the_cache_is_loaded_again(void **state)
{
    (void)state;
    ls_hub_load l;
    fresh_cache();
    ASSERT_OK(get("me/tiny", NULL, &l));
    static const size_t SIZES[] = { LARGE, LARGE / 2 };
    for (int i = 0; i < 2; i++) {
        char *blob = ls_path_join(l.folder, "model.safetensors");
        large[7] ^= 1;
        char *target = realpath(blob, NULL);
        ASSERT_OK(ls_file_write(target, large, SIZES[i]));
        large[7] ^= 1;
        free(target);
        free(blob);
        free(l.folder);
        ASSERT_OK(get("me/tiny", NULL, &l));
        assert_int_equal(l.loaded_files, 1);
        holds(l.folder, "model.safetensors", large, LARGE);
    }
    free(l.folder);
}

static void sizes_of_a_list_are_checked(void **state)
{
    (void)state;
    ls_hub_load l;
    ls_hub_repo r;
    fresh_cache();
    ASSERT_OK(get("me/tiny", NULL, &l));
    char *path = ls_path_join(l.folder, "model.safetensors");
    free(l.folder);
    ASSERT_OK(ls_hub_list(&r, "me/tiny", "main", NULL));
    want_all(&r);
    r.files[0].bytes = LARGE + 1; /* the file with that checksum is here */
    l = (ls_hub_load){ 0 };
    ASSERT_FAILS(ls_hub_get(&r, &l), LS_E_FORMAT, "model.safetensors", "says 70001 bytes", "has 70000");
    assert_true(ls_file_exists(path));
    free(path);
    ls_hub_release(&r);
    ls_server_serve(NULL, 0);
    snprintf(list, sizeof list,
             "{\"sha\": \"" COMMIT
             "\", \"siblings\": [{\"rfilename\": \"a\", \"blobId\": \"%s\", \"size\": %lld}]}",
             small_hash, 1LL << 62);
    files[0].n = strlen(list);
    ls_server_serve(files, sizeof files / sizeof *files);
    ASSERT_FAILS(ls_hub_list(&r, "me/tiny", "main", NULL), LS_E_FORMAT, "a has 4611686018427387904 bytes",
                 "more than any file");
}

static void refusals(void **state)
{
    (void)state;
    ls_hub_repo r;
    fresh_cache();
    ls_server_behave(LS_SERVE_WHOLE);
    ASSERT_FAILS(ls_hub_list(&r, "me/none", "main", NULL), LS_E_USAGE, "me/none", "no such repository");
    ASSERT_FAILS(ls_hub_list(&r, "qwen", "main", NULL), LS_E_USAGE, "OWNER/NAME");
    ASSERT_FAILS(ls_hub_list(&r, "a/b/c", "main", NULL), LS_E_USAGE, "OWNER/NAME");
    ASSERT_FAILS(ls_hub_list(&r, "../b", "main", NULL), LS_E_USAGE, "OWNER/NAME");
    ASSERT_FAILS(ls_hub_list(&r, "me/tiny", "main", ls_server_nobody()), LS_E_IO, "without a network",
                 "lockstep get me/tiny --to FOLDER");
    setenv("HF_HUB_OFFLINE", "1", 1);
    ASSERT_FAILS(ls_hub_list(&r, "me/tiny", "main", NULL), LS_E_IO, "HF_HUB_OFFLINE=1");
    unsetenv("HF_HUB_OFFLINE");
    char secret[128]; /* in the address of a server */
    snprintf(secret, sizeof secret, "http://user:pass@%s", endpoint + 7);
    ASSERT_FAILS(ls_hub_list(&r, "me/none", "main", secret), LS_E_USAGE, "no such repository");
    assert_null(strstr(ls_error_message(), "pass"));
    snprintf(secret, sizeof secret, "http://user:pass@%s", ls_server_nobody() + 7);
    ASSERT_FAILS(ls_hub_list(&r, "me/tiny", "main", secret), LS_E_IO, "http://127.0.0.1");
    assert_null(strstr(ls_error_message(), "pass"));
}

static void hostile_lists_are_refused(void **state)
{
    (void)state;
    static const char *const PATHS[] = {
        "../x", "/etc/x", "a/../../x", "a//x", "a/./x", "", "a\\u0007x", ".."
    };
    static const char *const TEXTS[] = { "",
                                         "[]",
                                         "{\"sha\": \"" COMMIT "\"}",
                                         "{\"sha\": \"x\", \"siblings\": []}",
                                         "{\"sha\": \"" COMMIT "\", \"siblings\": [{}]}",
                                         "{\"sha\": \"" COMMIT
                                         "\", \"siblings\": [{\"rfilename\": \"a\", \"size\": "
                                         "-1}]}",
                                         "<html>welcome to the hotel</html>" };
    ls_hub_repo r;
    fresh_cache();
    for (size_t i = 0; i < sizeof PATHS / sizeof *PATHS; i++) {
        set_list("model.safetensors", PATHS[i]);
        ASSERT_FAILS(ls_hub_list(&r, "me/tiny", "main", NULL), LS_E_FORMAT, "outside its folder");
    }
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        ls_server_serve(NULL, 0);
        snprintf(list, sizeof list, "%s", TEXTS[i]);
        files[0].n = strlen(list);
        ls_server_serve(files, sizeof files / sizeof *files);
        ASSERT_FAILS(ls_hub_list(&r, "me/tiny", "main", NULL), LS_E_FORMAT, "/api/models/me/tiny");
    }
    small_hash[0] = 0;
    set_list("model.safetensors", "config.json");
    ASSERT_FAILS(ls_hub_list(&r, "me/tiny", "main", NULL), LS_E_FORMAT, "config.json has no checksum");
    hash_all();
}

static int start(void **state)
{
    (void)state;
    static const char *const VARIABLES[] = { "HF_HUB_CACHE", "HF_TOKEN", "HF_HUB_OFFLINE", "LOCKSTEP_DATA" };
    for (int i = 0; i < 4; i++)
        unsetenv(VARIABLES[i]);
    endpoint = ls_server_start();
    setenv("HF_ENDPOINT", endpoint, 1);
    setenv("LOCKSTEP_CACHE", ls_test_path("cache"), 1);
    hash_all();
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
        cmocka_unit_test(loads_into_the_cache),
        cmocka_unit_test(loads_a_data_set_and_other_revisions),
        cmocka_unit_test(loads_into_a_folder),
        cmocka_unit_test(goes_on_where_it_stopped),
        cmocka_unit_test(wrong_bytes_are_refused),
        cmocka_unit_test(a_file_without_checksum_has_its_size),
        cmocka_unit_test(the_token_goes_to_its_server_only),
        cmocka_unit_test(plain_http_gets_no_token),
        cmocka_unit_test(a_damaged_file_of_the_cache_is_loaded_again),
        cmocka_unit_test(sizes_of_a_list_are_checked),
        cmocka_unit_test(refusals),
        cmocka_unit_test(hostile_lists_are_refused),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
