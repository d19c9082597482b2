/* test_text_cache.c - tokens in the cache: made once, shared by ranks and processes, damage is found, and
 * what the system refuses. */
#include <dirent.h>
#include <sys/wait.h>

#include "base/fault.h"
#include "base/hash.h"
#include "base/log.h"
#include "data/corpus.h"
#include "data/loader.h"
#include "data/tokens.h"
#include "files.h"
#include "lockstep/tokenizer.h"
#include "data/text_folder.h"

/* ---- the loader */

static void ranks_share_tokens(void **state)
{
    (void)state;
    ls_dataset *set;
    put("all.txt", "abcdefgh\nij\nklmnopq\nrst\nuvw\nx\nyzABC\n");
    assert_ok(OPEN(&set, LS_SPLIT_TRAIN, in(text_folder, "all.txt"), 5, .documents = LS_DOCUMENTS_LINE,
                   .pack = false, .eval_path = in(text_folder, "all.txt")));
    const ls_order o = { .n = set->n, .global_batch = 4, .micro_batch = 1, .seed = 3, .shuffle = true };
    assert_int_equal(set->n, 6);
    for (int64_t k = 0; k < 4; k++) { /* two epochs of a whole step and a ragged one */
        int64_t valid = 0;
        for (int r = 0; r < 2; r++) {
            ls_loader *l;
            ls_loader_step step;
            bool done;
            assert_ok(ls_loader_create(&l, set, &o, .epoch = k / 2, .step = k % 2, .share = { r, 2, 2 }));
            assert_ok(ls_loader_next(l, &step, &done));
            assert_int_equal(step.samples, k % 2 ? 2 : 4);
            assert_int_equal(step.fields[1].count, ls_order_count(&o, set, 1, k / 2, k % 2));
            for (int64_t m = 0; m < 2; m++) {
                int32_t ids[5], targets[5];
                assert_ok(ls_order_fill(&o, set, k / 2, k % 2, r + 2 * m, (void *const[]){ ids, targets }));
                assert_memory_equal((const int32_t *)step.fields[0].data + 5 * m, ids, sizeof ids);
                assert_memory_equal((const int32_t *)step.fields[1].data + 5 * m, targets, sizeof targets);
                for (int t = 0; t < 5; t++)
                    valid += targets[t] != LS_IGNORE_LABEL;
            }
            ls_loader_destroy(&l);
        }
        assert_int_equal(valid, ls_order_count(&o, set, 1, k / 2, k % 2)); /* over both ranks */
    }
    ls_dataset_close(&set);
}

/* ---- the cache */

static const char *cached(void)
{
    DIR *d = opendir(in(text_folder, "cache/tokens"));
    const char *path = NULL;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (strstr(e->d_name, ".tokens")) {
            char name[300];
            snprintf(name, sizeof name, "cache/tokens/%s", e->d_name);
            path = in(text_folder, name);
        }
    closedir(d);
    return path;
}

static void open_and_close(const char *path, ls_documents documents)
{
    ls_dataset *set;
    assert_ok(OPEN(&set, LS_SPLIT_TRAIN, path, 3, .documents = documents));
    assert_string_equal(sample_text(set, 0), "abc>bc|");
    ls_dataset_close(&set);
}

static void tokenizes_once(void **state)
{
    (void)state;
    const char *path = put("a.txt", "abc\n\ndef\n\nghi\n");
    for (int again = 0; again < 2; again++)
        open_and_close(path, LS_DOCUMENTS_LINE);
    assert_int_equal(tokenized, 1);
    /* content counts, not the name */
    open_and_close(put("same.txt", "abc\n\ndef\n\nghi\n"), LS_DOCUMENTS_LINE);
    assert_int_equal(tokenized, 1);
    open_and_close(path, LS_DOCUMENTS_BLANK);
    assert_int_equal(tokenized, 2);
    put("a.txt", "abc\n\nxyz\n\nghi\n");
    open_and_close(path, LS_DOCUMENTS_LINE);
    assert_int_equal(tokenized, 3);
    assert_int_equal(files_in_cache(".tokens"), 3);
}

static void damage_is_found(void **state)
{
    (void)state;
    char *whole, *copy, file[512], path[512];
    size_t n;
    snprintf(path, sizeof path, "%s", put("a.txt", "abc\n\ndef\n\nghi\n"));
    open_and_close(path, LS_DOCUMENTS_LINE);
    snprintf(file, sizeof file, "%s", cached());
    assert_ok(ls_file_read(&whole, &n, file));
    copy = malloc(n);
    for (size_t at = 0; at < n; at += 3) { /* ids, ends, footer */
        memcpy(copy, whole, n);
        copy[at] ^= 1;
        assert_ok(ls_file_write(file, copy, n));
        *logged = 0;
        open_and_close(path, LS_DOCUMENTS_LINE);
        assert_non_null(strstr(logged, "tokenized"));
    }
    assert_ok(ls_file_write(file, whole, n - 8));
    open_and_close(path, LS_DOCUMENTS_LINE);
    memcpy(copy, whole, n);
    copy[3] = 0x7f; /* an id that cannot be, under checksums that are right: found when it is read */
    ls_token_footer f;
    memcpy(&f, copy + n - sizeof f, sizeof f);
    f.ids_hash = ls_hash64(copy, (size_t)(f.tokens * f.width));
    f.hash = ls_hash64(&f, offsetof(ls_token_footer, hash));
    memcpy(copy + n - sizeof f, &f, sizeof f);
    assert_ok(ls_file_write(file, copy, n));
    ls_dataset *set;
    int32_t ids[3], targets[3];
    assert_ok(OPEN(&set, LS_SPLIT_TRAIN, path, 3, .documents = LS_DOCUMENTS_LINE));
    assert_fails(LS_E_FORMAT, set->read(set, 0, (void *const[]){ ids, targets }), "is not below 257",
                 "delete the folder tokens");
    ls_dataset_close(&set);
    ls_token_store t;
    memcpy(&f, whole + n - sizeof f, sizeof f);
    f.documents = INT64_MAX / 4 + 1; /* eight bytes of each are 2^64 */
    f.hash = ls_hash64(&f, offsetof(ls_token_footer, hash));
    memcpy(copy, whole, n);
    memcpy(copy + n - sizeof f, &f, sizeof f);
    assert_fails(LS_E_FORMAT, ls_tokens_parse(&t, copy, n, f.key, "file"), "2305843009213693952 documents",
                 "");
    free(whole);
    free(copy);
}

static uint64_t digest_of(const char *path, ls_split split, int64_t length, double fraction,
                          ls_dataset_part *text)
{
    ls_dataset *set;
    assert_ok(OPEN(&set, split, path, length, .documents = LS_DOCUMENTS_LINE, .eval_fraction = fraction));
    const uint64_t digest = set->digest;
    assert_int_equal(set->n_parts, 2);
    assert_string_equal(set->parts[0].what, "tokenizer");
    assert_string_equal(set->parts[0].path, "bytes");
    assert_string_equal(set->parts[1].what, "text");
    assert_string_equal(set->parts[1].path, path);
    *text = (ls_dataset_part){ "text", "", set->parts[1].digest };
    ls_dataset_close(&set);
    return digest;
}

/* Same samples, same digest, whatever the files are called; anything that makes others makes another. */
static void digest_is_of_the_samples(void **state)
{
    (void)state;
    const char *text = "abc\n\ndef\n\nghi\njkl\nmno\npqr\n";
    char path[512], copy[512];
    ls_dataset_part a, b;
    snprintf(path, sizeof path, "%s", put("a.txt", text));
    const uint64_t digest = digest_of(path, LS_SPLIT_TRAIN, 3, 0.2, &a);
    assert_true(digest && digest == digest_of(path, LS_SPLIT_TRAIN, 3, 0.2, &b) && a.digest == b.digest);
    snprintf(copy, sizeof copy, "%s", put("copy.txt", text));
    assert_true(digest == digest_of(copy, LS_SPLIT_TRAIN, 3, 0.2, &b) && a.digest == b.digest);
    assert_true(digest != digest_of(path, LS_SPLIT_EVAL, 3, 0.2, &b) && a.digest == b.digest);
    assert_true(digest != digest_of(path, LS_SPLIT_TRAIN, 4, 0.2, &b));
    assert_true(digest != digest_of(path, LS_SPLIT_TRAIN, 3, 0.6, &b));
    snprintf(copy, sizeof copy, "%s", put("other.txt", "abc\n\ndef\n\nghj\njkl\nmno\npqr\n"));
    assert_true(digest != digest_of(copy, LS_SPLIT_TRAIN, 3, 0.2, &b) && a.digest != b.digest);
}

/* Enough documents for several batches, some long: the file does not depend on the number of threads, nor do
 * ids on their width. */
static void threads_do_not_matter(void **state)
{
    (void)state;
    uint64_t hash[2];
    FILE *f = fopen(in(text_folder, "big.txt"), "w");
    for (int i = 0; i < 40000; i++)
        fprintf(f, "%d%*s\n", i, i % 100 ? i % 7 : 2000, "x");
    fclose(f);
    for (int k = 0; k < 2; k++) {
        ls_dataset *set;
        char *tokens;
        size_t n;
        assert_ok(ls_text_open(&set, LS_SPLIT_TRAIN, in(text_folder, "big.txt"), "bytes", 512,
                               .documents = LS_DOCUMENTS_LINE, .threads = k ? 3 : 1));
        ls_dataset_close(&set);
        assert_ok(ls_file_read(&tokens, &n, cached()));
        hash[k] = ls_hash64(tokens, n);
        free(tokens);
        remove(cached());
    }
    assert_true(hash[0] == hash[1]);
}

/* Four processes at once: one tokenizes, the others wait for it. */
static void processes_wait(void **state)
{
    (void)state;
    FILE *f = fopen(in(text_folder, "big.txt"), "w");
    int made = 0;
    fputs("abc\n", f);
    for (int i = 0; i < 50000; i++)
        fprintf(f, "%d some words to be tokenized\n", i);
    fclose(f);
    pid_t child[4];
    for (int i = 0; i < 4; i++)
        if (!(child[i] = fork())) {
            ls_dataset *set;
            int32_t ids[3], targets[3];
            ls_status s = ls_text_open(&set, LS_SPLIT_TRAIN, in(text_folder, "big.txt"), "bytes", 3,
                                       .documents = LS_DOCUMENTS_LINE, .threads = 1,
                                       .progress = count_progress, .eval_path = "-");
            if (s == LS_OK)
                s = set->read(set, 0, (void *const[]){ ids, targets });
            _exit(s != LS_OK || ids[0] != 'a' || targets[2] != END ? 100 : tokenized);
        }
    for (int i = 0; i < 4; i++) {
        int status;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 100);
        made += WEXITSTATUS(status);
    }
    assert_int_equal(made, 1);
    assert_int_equal(files_in_cache(".tokens"), 1);
}

/* Whatever call fails, there is a message and no damage: the next attempt works. */
static void survives_faults(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s", put("a.txt", "abc\n\ndef\n\nghi\n"));
    for (int64_t n = 0, points = 1; n < points; n++) {
        ls_dataset *set;
        ls_fault_arm(LS_POINTS_ALL, n, LS_FAIL_ONCE);
        const ls_status s = OPEN(&set, LS_SPLIT_TRAIN, path, 3, .documents = LS_DOCUMENTS_LINE);
        points = ls_fault_disarm();
        if (s == LS_OK)
            ls_dataset_close(&set);
        else
            assert_true(*ls_error_message() && !set);
        open_and_close(path, LS_DOCUMENTS_LINE);
        remove(cached());
        assert_int_equal(files_in_cache(".tokens"), 0);
        points = points < n + 2 && s != LS_OK ? n + 2 : points; /* one that failed early saw no later ones */
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_text_folder, drop_text_folder)
    const struct CMUnitTest tests[] = {
        TEST(ranks_share_tokens),       TEST(tokenizes_once),        TEST(damage_is_found),
        TEST(digest_is_of_the_samples), TEST(threads_do_not_matter), TEST(processes_wait),
        TEST(survives_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
