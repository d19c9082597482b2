/* test_text.c - text data: files cut into documents, tokens in the cache, windows and rows, splits, ranks;
 * what is refused; processes that come at once; faults. Real text and tokenizers when LOCKSTEP_DATA has them.
 */
#include <dirent.h>
#include <math.h>
#include <sys/wait.h>

#include "base/fault.h"
#include "base/hash.h"
#include "base/log.h"
#include "data/corpus.h"
#include "data/held_out.h"
#include "data/tokens.h"
#include "files.h"
#include "lockstep/tokenizer.h"

enum { END = 256 }; /* of the tokenizer `bytes` */

static char *dir;
static int tokenized; /* files, of which there was progress to its end */
static char logged[4096];

static void count_progress(void *context, const char *file, int64_t done, int64_t total, double rate)
{
    (void)context, (void)file, (void)rate;
    tokenized += done == total;
}

static void keep_log(void *context, ls_level level, const char *message)
{
    (void)context, (void)level;
    snprintf(logged, sizeof logged, "%s", message);
}

static int make(void **state)
{
    (void)state;
    dir = make_folder();
    tokenized = 0;
    *logged = 0;
    ls_log_set(keep_log, NULL, LS_INFO);
    return 0;
}

static int drop(void **state)
{
    (void)state;
    ls_log_set(NULL, NULL, LS_INFO);
    remove_tree(dir);
    return 0;
}

static const char *put(const char *name, const char *text)
{
    const char *path = in(dir, name);
    assert_ok(ls_file_write(path, text, strlen(text)));
    return path;
}

#define OPEN(set, split, path, length, ...)                                                           \
    ls_text_open((set), (split), (path), "bytes", (length), .threads = 2, .progress = count_progress, \
                 ##__VA_ARGS__)

/* What the samples of a set say, as text: ids "abc|" (| an end, also as padding), targets "bc|." (. ignored).
 */
static const char *say(const ls_dataset *set, int64_t i)
{
    static char text[8][256];
    static int next;
    int32_t ids[64], targets[64];
    const int64_t n = set->input.dims[0];
    char *out = text[next++ % 8];
    assert_ok(set->read(set, i, ids, targets));
    int64_t valid = 0;
    for (int64_t k = 0; k < n; k++) {
        out[k] = ids[k] == END ? '|' : (char)ids[k];
        out[n + 1 + k] = targets[k] == LS_IGNORE_LABEL ? '.' : targets[k] == END ? '|' : (char)targets[k];
        valid += targets[k] != LS_IGNORE_LABEL;
    }
    out[n] = '>';
    out[2 * n + 1] = 0;
    assert_int_equal(set->count(set, i), valid);
    return out;
}

static void expect(const ls_dataset *set, int n, const char *const *samples)
{
    assert_int_equal(set->n, n);
    for (int i = 0; i < n; i++)
        assert_string_equal(say(set, i), samples[i]);
}

/* ---- documents */

static void expect_documents(const char *text, ls_documents how, const char *wanted)
{
    ls_text_file f = { .text = text, .n = strlen(text) };
    ls_document_cursor c = { 0, 1 };
    ls_document d;
    char got[256] = "";
    while (ls_document_next(&f, how, &c, &d))
        sprintf(got + strlen(got), "%d<%.*s>", (int)d.line, (int)d.n, text + d.begin);
    assert_string_equal(got, wanted);
}

static void cuts_documents(void **state)
{
    (void)state;
    const char *text = "\n  \na\nb \n\n\t\nc\n";
    expect_documents(text, LS_DOCUMENTS_FILE, "1<\n  \na\nb \n\n\t\nc\n>");
    expect_documents(text, LS_DOCUMENTS_LINE, "3<a>4<b >7<c>");
    expect_documents(text, LS_DOCUMENTS_BLANK, "3<a\nb >7<c>");
    expect_documents("a", LS_DOCUMENTS_BLANK, "1<a>");
    expect_documents("a\n\nb\nc", LS_DOCUMENTS_BLANK, "1<a>3<b\nc>");
    expect_documents("", LS_DOCUMENTS_FILE, "");
    expect_documents(" \n\n", LS_DOCUMENTS_LINE, "");
    expect_documents(" \n\n", LS_DOCUMENTS_BLANK, "");
}

static void reads_files(void **state)
{
    (void)state;
    ls_text_file f;
    bytes plain = { (uint8_t *)"\xef\xbb\xbfone\r\ntwo\rthree\r\n\r", 20 }, gz = make_gzip(plain),
          twice = { malloc(2 * gz.size), 2 * gz.size };
    memcpy(twice.data, gz.data, gz.size);
    memcpy(twice.data + gz.size, gz.data, gz.size);
    write_bytes(in(dir, "a.txt"), plain);
    write_bytes(in(dir, "a.txt.gz"), gz);
    write_bytes(in(dir, "two.gz"), twice);
    write_bytes(in(dir, "cut.gz"), (bytes){ gz.data, gz.size - 9 });
    for (int i = 0; i < 2; i++) {
        assert_ok(ls_text_file_open(&f, in(dir, i ? "a.txt.gz" : "a.txt")));
        assert_int_equal(f.n, 15);
        assert_memory_equal(f.text, "one\ntwo\rthree\n\r", 15);
        ls_text_file_close(&f);
    }
    assert_ok(ls_text_file_open(&f, in(dir, "two.gz")));
    assert_int_equal(f.n, 15 + 18); /* the second mark is inside: a character like any */
    ls_text_file_close(&f);
    assert_fails(LS_E_FORMAT, ls_text_file_open(&f, in(dir, "cut.gz")), "cut.gz: damaged gzip data at offset",
                 "");
    /* the checksum and the length behind the data, of the first member and of the last: cut, or another byte
     */
    for (size_t i = 1; i <= 8; i++) {
        write_bytes(in(dir, "cut.gz"), (bytes){ gz.data, gz.size - i });
        assert_fails(LS_E_FORMAT, ls_text_file_open(&f, in(dir, "cut.gz")),
                     "cut.gz: damaged gzip data at offset", "(cut short)");
        for (size_t member = 1; member <= 2; member++) {
            twice.data[member * gz.size - i] ^= 1;
            write_bytes(in(dir, "wrong.gz"), twice);
            assert_fails(LS_E_FORMAT, ls_text_file_open(&f, in(dir, "wrong.gz")),
                         "wrong.gz: damaged gzip data at offset", "incorrect");
            twice.data[member * gz.size - i] ^= 1;
        }
    }
    write_bytes(in(dir, "cut.gz"), (bytes){ twice.data, gz.size + 1 }); /* a byte of a second member */
    assert_fails(LS_E_FORMAT, ls_text_file_open(&f, in(dir, "cut.gz")), "cut.gz: damaged gzip data at offset",
                 "(cut short)");
    twice.data[gz.size] = 'x'; /* something else follows */
    write_bytes(in(dir, "wrong.gz"), twice);
    assert_fails(LS_E_FORMAT, ls_text_file_open(&f, in(dir, "wrong.gz")),
                 "wrong.gz: damaged gzip data at offset", "incorrect header");
    assert_fails(LS_E_FORMAT, ls_text_file_open(&f, put("latin", "na\xefve")), "latin: byte 2 is 0xef",
                 "not UTF-8");
    assert_fails(LS_E_FORMAT,
                 ls_text_file_open(&f, put("wide", "\xff\xfe"
                                                   "a")),
                 "wide: byte 0 is 0xff", "UTF-16");
    bytes wrong = make_gzip((bytes){ (uint8_t *)"ab\xc0", 3 });
    write_bytes(in(dir, "wrong.gz"), wrong);
    assert_fails(LS_E_FORMAT, ls_text_file_open(&f, in(dir, "wrong.gz")), "byte 2 of the inflated text", "");
    free_bytes(&gz);
    free_bytes(&twice);
    free_bytes(&wrong);
}

/* A request to stop ends whatever is under way: inflating, reading, tokenizing. Nothing is left of it. */
static void stops(void **state)
{
    (void)state;
    volatile sig_atomic_t flag = 1;
    ls_text_file f;
    ls_dataset *set;
    bytes gz = make_gzip((bytes){ (uint8_t *)"some text", 9 });
    write_bytes(in(dir, "a.gz"), gz);
    free_bytes(&gz);
    put("a.txt", "one two\nthree\n"), put("a.csv", "source,target\na,b\n");
    ls_stop_on(&flag);
    assert_fails(LS_E_STOPPED, ls_text_file_open(&f, in(dir, "a.gz")), "stopped while inflating", "a.gz");
    assert_fails(LS_E_STOPPED, ls_text_file_open(&f, in(dir, "a.txt")), "stopped while reading", "a.txt");
    assert_fails(LS_E_STOPPED, OPEN(&set, LS_SPLIT_TRAIN, in(dir, "a.txt"), 4), "stopped while", "a.txt");
    ls_stop_on(NULL);
    assert_ok(OPEN(&set, LS_SPLIT_TRAIN, in(dir, "a.txt"), 4, .eval_path = in(dir, "a.txt")));
    ls_dataset_close(&set);
}

/* Sound text may be cut between two parts anywhere in a character. */
static void checks_long_texts(void **state)
{
    (void)state;
    enum { PART = 1 << 24, N = PART + 64 };
    char *text = malloc(N);
    ls_text_file f;
    for (int shift = 0; shift < 4; shift++) {
        memset(text, 'a', N);
        memcpy(text + PART - shift, "\xf0\x9f\x98\x80", 4);
        write_bytes(in(dir, "long.txt"), (bytes){ (uint8_t *)text, N });
        assert_ok(ls_text_file_open(&f, in(dir, "long.txt")));
        assert_int_equal(f.n, N);
        ls_text_file_close(&f);
    }
    text[PART + 2] = (char)0xff;
    write_bytes(in(dir, "long.txt"), (bytes){ (uint8_t *)text, N });
    assert_fails(LS_E_FORMAT, ls_text_file_open(&f, in(dir, "long.txt")), "long.txt: byte 16777218 is 0xff",
                 "not UTF-8");
    free(text);
}

static void finds_files(void **state)
{
    (void)state;
    ls_corpus c;
    put("b.txt", "x"), put("a.txt", "xy"), put("c.md", ""), put("odd[1].txt", "z");
    assert_ok(ls_corpus_find(&c, in(dir, "[ab].txt")));
    assert_int_equal(c.n, 2);
    assert_int_equal(c.bytes, 3);
    assert_string_equal(c.paths[0], in(dir, "a.txt"));
    ls_corpus_release(&c);
    assert_ok(ls_corpus_find(&c, in(dir, "{c.md,a.txt,nothing}")));
    assert_int_equal(c.n, 2);
    assert_string_equal(c.paths[1], in(dir, "c.md"));
    ls_corpus_release(&c);
    assert_ok(ls_corpus_find(&c, in(dir, "odd[1].txt")));
    assert_int_equal(c.n, 1);
    ls_corpus_release(&c);
    assert_fails(LS_E_USAGE, ls_corpus_find(&c, dir), "is a folder", "/*.txt");
    assert_fails(LS_E_USAGE, ls_corpus_find(&c, "nothing-*.txt"), "nothing-*.txt: no such file here",
                 "LOCKSTEP_DATA is not set");
    setenv("LOCKSTEP_DATA", dir, 1);
    assert_ok(ls_corpus_find(&c, "*.md"));
    assert_string_equal(c.paths[0], in(dir, "c.md"));
    ls_corpus_release(&c);
    assert_fails(LS_E_USAGE, ls_corpus_find(&c, "nothing-*.txt"), "neither here nor in LOCKSTEP_DATA", dir);
    /* A folder of that name, here or there, is no file. */
    char *here = getcwd(NULL, 0);
    assert_ok(ls_make_dirs(in(dir, "sub")));
    assert_int_equal(chdir(dir), 0);
    assert_fails(LS_E_USAGE, ls_corpus_find(&c, "sub"), "sub is a folder", "sub/*.txt");
    assert_fails(LS_E_USAGE, ls_corpus_find(&c, "su[b]"), "su[b]: no such file, neither here nor", dir);
    setenv("LOCKSTEP_DATA", in(dir, "none"), 1);
    assert_fails(LS_E_USAGE, ls_corpus_find(&c, "sub"), "sub is a folder", "sub/*.txt");
    assert_fails(LS_E_USAGE, ls_corpus_find(&c, "su[b]"), "su[b]: no such file, neither here nor", "none");
    setenv("LOCKSTEP_DATA", dir, 1);
    assert_int_equal(chdir("/"), 0);
    assert_fails(LS_E_USAGE, ls_corpus_find(&c, "sub"), "sub: no such file, neither here nor", dir);
    assert_int_equal(chdir(here), 0);
    free(here);
}

/* ---- samples */

static void windows_hold_every_token_once(void **state)
{
    (void)state;
    ls_dataset *set;
    const char *all = put("all.txt", "abc\ndefg\nhi\n"), *eval = put("eval.txt", "xy");
    assert_ok(OPEN(&set, LS_SPLIT_TRAIN, all, 4, .documents = LS_DOCUMENTS_LINE, .eval_path = eval));
    expect(set, 3, (const char *[]){ "abc|>bc|d", "defg>efg|", "|hi|>hi|." });
    assert_true(ls_type_equal(&set->input, &LS_TYPE(LS_I32, 4)) &&
                ls_type_equal(&set->target, &LS_TYPE(LS_I32, 4)));
    assert_int_equal(set->classes, 257);
    assert_non_null(strstr(set->source, "all.txt (3 of 3 documents, 12 tokens in all, tokenizer bytes)"));
    ls_dataset_close(&set);
    /* exactly one */
    assert_ok(OPEN(&set, LS_SPLIT_TRAIN, all, 11, .documents = LS_DOCUMENTS_LINE, .eval_path = eval));
    expect(set, 1, (const char *[]){ "abc|defg|hi>bc|defg|hi|" });
    ls_dataset_close(&set);
    /* less than one */
    assert_ok(OPEN(&set, LS_SPLIT_EVAL, all, 4, .documents = LS_DOCUMENTS_LINE, .eval_path = eval));
    expect(set, 1, (const char *[]){ "xy||>y|.." });
    ls_dataset_close(&set);
    assert_fails(LS_E_USAGE,
                 OPEN(&set, LS_SPLIT_TRAIN, all, 12, .documents = LS_DOCUMENTS_LINE, .eval_path = eval),
                 "seq_length: 12", "are 12 tokens");
}

static void rows_are_documents(void **state)
{
    (void)state;
    ls_dataset *set;
    const char *all = put("all.txt", "abc\nd\ndefghi\njk\n");
    assert_ok(
        OPEN(&set, LS_SPLIT_TRAIN, all, 4, .documents = LS_DOCUMENTS_LINE, .pack = false, .eval_path = all));
    expect(set, 3, (const char *[]){ "abc|>bc..", "defg>efg.", "jk||>k..." });
    ls_dataset_close(&set);
    put("short.txt", "a\nb");
    assert_fails(LS_E_USAGE,
                 OPEN(&set, LS_SPLIT_TRAIN, in(dir, "short.txt"), 4, .documents = LS_DOCUMENTS_LINE,
                      .pack = false, .eval_path = all),
                 "no document has two tokens", "");
}

static void json_lines(void **state)
{
    (void)state;
    ls_dataset *set;
    put("a.jsonl", "{\"text\": \"a\\u00e9\", \"id\": 1}\n\n{\"text\":\"bc\"}\n");
    assert_ok(OPEN(&set, LS_SPLIT_TRAIN, in(dir, "a.jsonl"), 6, .documents = LS_DOCUMENTS_JSON,
                   .eval_path = in(dir, "a.jsonl")));
    expect(set, 1, (const char *[]){ "a\xc3\xa9|bc>\xc3\xa9|bc|" });
    ls_dataset_close(&set);
    assert_fails(
        LS_E_FORMAT,
        OPEN(&set, LS_SPLIT_TRAIN, in(dir, "a.jsonl"), 6, .documents = LS_DOCUMENTS_JSON, .field = "body"),
        "document at line 1", "\"body\" (option field)");
    put("b.jsonl", "{\"text\": \"a\"}\n\n{\"text\": oh}\n");
    assert_fails(LS_E_FORMAT,
                 OPEN(&set, LS_SPLIT_TRAIN, in(dir, "b.jsonl"), 6, .documents = LS_DOCUMENTS_JSON),
                 "b.jsonl, document at line 3", "JSON");
}

/* A hundred documents "d0" .. "d99": each is in one split, whatever the windows; the same ones every time. */
static void splits_by_documents(void **state)
{
    (void)state;
    char text[1024] = "";
    int seen[2][100] = { 0 };
    for (int i = 0; i < 100; i++)
        sprintf(text + strlen(text), "%02d\n\n", i);
    put("all.txt", text);
    for (int split = 0; split < 2; split++)
        for (int pack = 0; pack < 2; pack++) {
            ls_dataset *set;
            char first[64] = "";
            assert_ok(OPEN(&set, (ls_split)split, in(dir, "all.txt"), pack ? 3 : 2,
                           .documents = LS_DOCUMENTS_BLANK, .eval_fraction = 0.1, .pack = pack));
            assert_int_equal(set->n, split ? 10 : 90);
            for (int i = 0; i < set->n; i++)
                seen[split][atoi(say(set, i))]++;
            snprintf(first, sizeof first, "%.2s %.2s %.2s", say(set, 0), say(set, 1), say(set, 2));
            /* promised: a later version evaluates on the same documents */
            assert_string_equal(first, split ? "25 38 63" : "00 01 02");
            ls_dataset_close(&set);
        }
    for (int i = 0; i < 100; i++)
        assert_true(seen[0][i] + seen[1][i] == 2 && seen[0][i] * seen[1][i] == 0);
    assert_int_equal(tokenized, 1);
}

/* ---- the loader */

static void ranks_share_tokens(void **state)
{
    (void)state;
    ls_dataset *set;
    put("all.txt", "abcdefgh\nij\nklmnopq\nrst\nuvw\nx\nyzABC\n");
    assert_ok(OPEN(&set, LS_SPLIT_TRAIN, in(dir, "all.txt"), 5, .documents = LS_DOCUMENTS_LINE, .pack = false,
                   .eval_path = in(dir, "all.txt")));
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
            assert_int_equal(step.count, ls_order_count(&o, set, k / 2, k % 2));
            for (int64_t m = 0; m < 2; m++) {
                int32_t ids[5], targets[5];
                assert_ok(ls_order_fill(&o, set, k / 2, k % 2, r + 2 * m, ids, targets));
                assert_memory_equal((const int32_t *)step.inputs + 5 * m, ids, sizeof ids);
                assert_memory_equal(step.targets + 5 * m, targets, sizeof targets);
                for (int t = 0; t < 5; t++)
                    valid += targets[t] != LS_IGNORE_LABEL;
            }
            ls_loader_destroy(&l);
        }
        assert_int_equal(valid, ls_order_count(&o, set, k / 2, k % 2)); /* over both ranks */
    }
    ls_dataset_close(&set);
}

/* ---- the cache */

static int files_in_cache(const char *ending)
{
    DIR *d = opendir(in(dir, "cache/tokens"));
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += strlen(e->d_name) > strlen(ending) &&
             !strcmp(e->d_name + strlen(e->d_name) - strlen(ending), ending);
    if (d)
        closedir(d);
    return n;
}

static const char *cached(void)
{
    DIR *d = opendir(in(dir, "cache/tokens"));
    const char *path = NULL;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (strstr(e->d_name, ".tokens")) {
            char name[300];
            snprintf(name, sizeof name, "cache/tokens/%s", e->d_name);
            path = in(dir, name);
        }
    closedir(d);
    return path;
}

static void open_and_close(const char *path, ls_documents documents)
{
    ls_dataset *set;
    assert_ok(OPEN(&set, LS_SPLIT_TRAIN, path, 3, .documents = documents));
    assert_string_equal(say(set, 0), "abc>bc|");
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
    assert_fails(LS_E_FORMAT, set->read(set, 0, ids, targets), "is not below 257",
                 "delete the folder tokens");
    ls_dataset_close(&set);
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
    FILE *f = fopen(in(dir, "big.txt"), "w");
    for (int i = 0; i < 40000; i++)
        fprintf(f, "%d%*s\n", i, i % 100 ? i % 7 : 2000, "x");
    fclose(f);
    for (int k = 0; k < 2; k++) {
        ls_dataset *set;
        char *tokens;
        size_t n;
        assert_ok(ls_text_open(&set, LS_SPLIT_TRAIN, in(dir, "big.txt"), "bytes", 512,
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
    FILE *f = fopen(in(dir, "big.txt"), "w");
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
            ls_status s = ls_text_open(&set, LS_SPLIT_TRAIN, in(dir, "big.txt"), "bytes", 3,
                                       .documents = LS_DOCUMENTS_LINE, .threads = 1,
                                       .progress = count_progress, .eval_path = "-");
            if (s == LS_OK)
                s = set->read(set, 0, ids, targets);
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

/* ---- what is refused */

static void refuses(void **state)
{
    (void)state;
    ls_dataset *set;
    const char *path = put("a.txt", "abc\n\ndef\n");
    assert_fails(LS_E_USAGE, ls_text_open(&set, LS_SPLIT_TRAIN, "", "bytes", 4), "text needs a path", "");
    assert_fails(LS_E_USAGE, ls_text_open(&set, LS_SPLIT_TRAIN, path, "", 4), "text needs a tokenizer",
                 "`bytes`");
    for (int i = 0; i < 2; i++) {
        assert_fails(LS_E_USAGE, ls_text_open(&set, LS_SPLIT_TRAIN, path, "no/tokenizer", 4),
                     "tokenizer: no/tokenizer: no such file", "tokenizer.json");
        setenv("LOCKSTEP_DATA", "elsewhere", 1); /* also where that is no absolute path */
    }
    assert_fails(LS_E_USAGE, OPEN(&set, LS_SPLIT_TRAIN, path, 1), "seq_length: 1", "");
    assert_fails(LS_E_USAGE, OPEN(&set, LS_SPLIT_TRAIN, path, 4), "a.txt is one document",
                 "documents: blank");
    assert_fails(LS_E_USAGE, OPEN(&set, LS_SPLIT_TRAIN, path, 4, .end_token = "</s>"),
                 "end_token: the tokenizer bytes has no token </s>", "");
    assert_fails(LS_E_USAGE, OPEN(&set, LS_SPLIT_TRAIN, path, 4, .eval_path = path, .vocabulary = 256),
                 "ids up to 256, the model's vocabulary is 256", "set it to 257");
    assert_fails(LS_E_USAGE, OPEN(&set, LS_SPLIT_TRAIN, put("empty.txt", ""), 4),
                 "empty.txt: no text in this file", "");
    assert_fails(LS_E_USAGE,
                 OPEN(&set, LS_SPLIT_TRAIN, put("blank.txt", " \n\n"), 4, .documents = LS_DOCUMENTS_LINE),
                 "blank.txt: no text", "");
    put("own.json", "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}}");
    assert_fails(LS_E_USAGE, ls_text_open(&set, LS_SPLIT_TRAIN, path, in(dir, "own.json"), 4),
                 "end_token: name the token", "<|endoftext|>");
    put("other.txt", "not yet tokenized\n");
    ls_stop_on(&(const volatile sig_atomic_t){ 1 });
    assert_fails(LS_E_STOPPED, OPEN(&set, LS_SPLIT_TRAIN, in(dir, "other.txt"), 4), "stopped while",
                 "other.txt");
    ls_stop_on(NULL);
    assert_int_equal(files_in_cache(".tokens"), 1); /* a.txt's */
    setenv("LOCKSTEP_CACHE", put("file", ""), 1);
    assert_fails(LS_E_IO, OPEN(&set, LS_SPLIT_TRAIN, path, 4), "file/tokens",
                 "LOCKSTEP_CACHE names another folder");
    assert_null(set);
}

/* ---- real data */

static void real_text(void **state)
{
    (void)state;
    const char *data = getenv("LOCKSTEP_DATA_FOR_TESTS");
    if (!data) {
        fprintf(stderr, "LOCKSTEP_DATA is not set: no test with real text\n");
        skip();
    }
    setenv("LOCKSTEP_DATA", data, 1);
    ls_dataset *set, *eval;
    assert_ok(OPEN(&set, LS_SPLIT_TRAIN, "tinyshakespeare/input.txt", 256, .documents = LS_DOCUMENTS_BLANK,
                   .eval_fraction = 0.1));
    assert_ok(OPEN(&eval, LS_SPLIT_EVAL, "tinyshakespeare/input.txt", 256, .documents = LS_DOCUMENTS_BLANK,
                   .eval_fraction = 0.1));
    assert_non_null(strstr(set->source, "(6500 of 7222 documents,"));
    ls_dataset_close(&set);
    ls_dataset_close(&eval);
    /* the first with a mark and \r\n */
    assert_ok(OPEN(&set, LS_SPLIT_TRAIN, "gutenberg/*.txt.gz", 64, .eval_fraction = 0.5));
    int32_t ids[64], targets[64];
    assert_ok(set->read(set, 0, ids, targets));
    for (int i = 0; i < 64; i++)
        assert_true(ids[i] != '\r' && (i || ids[i] < 0x80));
    ls_dataset_close(&set);
}

/* The ids of a line of wikitext-2 are those of the tokenizer itself. */
static void real_tokenizer(void **state)
{
    (void)state;
    const char *data = getenv("LOCKSTEP_DATA_FOR_TESTS");
    if (!data) {
        fprintf(stderr, "LOCKSTEP_DATA is not set: no test with real text\n");
        skip();
    }
    setenv("LOCKSTEP_DATA", data, 1);
    ls_dataset *set;
    ls_tokenizer *t;
    ls_tokens want = { 0 };
    int32_t ids[64], targets[64];
    char path[512], *text, *line;
    size_t n;
    snprintf(path, sizeof path, "%s/wikitext-2/valid.txt", data);
    assert_ok(ls_file_read(&text, &n, path));
    line = strstr(text, "Homarus gammarus <unk>");
    line = line ? line - 1 : text + 2;
    assert_ok(ls_file_write(in(dir, "one.txt"), line, strcspn(line, "\n")));
    snprintf(path, sizeof path, "%s/qwen2.5", data);
    assert_ok(ls_tokenizer_open(&t, path));
    assert_ok(ls_tokenizer_encode(t, line, strcspn(line, "\n"), true, &want));
    assert_ok(ls_text_open(&set, LS_SPLIT_TRAIN, in(dir, "one.txt"), "qwen2.5", 64, .pack = false,
                           .eval_path = "-", .vocabulary = 151936));
    assert_ok(set->read(set, 0, ids, targets));
    for (int i = 0; i < 64; i++) {
        assert_int_equal(ids[i], i < want.n ? want.ids[i] : ls_tokenizer_id(t, "<|endoftext|>"));
        assert_int_equal(targets[i], i + 1 < want.n && i < 63 ? want.ids[i + 1] : LS_IGNORE_LABEL);
    }
    ls_dataset_close(&set);
    ls_tokenizer_close(&t);
    free(want.ids);
    free(text);
}

/* Whatever the fraction, each of the two splits has a document; of one document there are none. */
static void both_splits_have_documents(void **state)
{
    (void)state;
    for (int64_t n = 2; n <= 5; n++)
        for (int k = 0; k <= 10; k++) {
            char marks[5] = { 0 };
            int64_t marked = 0, want = llround(k / 10.0 * (double)n);
            assert_true(ls_mark_evaluation(marks, n, k / 10.0));
            for (int64_t i = 0; i < n; i++)
                marked += marks[i];
            assert_int_equal(marked, want < 1 ? 1 : want > n - 1 ? n - 1 : want);
        }
    assert_false(ls_mark_evaluation((char[1]){ 0 }, 1, 0.5));
}

int main(void)
{
    const char *data = getenv("LOCKSTEP_DATA");
    if (data && *data) /* make_folder() unsets it */
        setenv("LOCKSTEP_DATA_FOR_TESTS", data, 1);
#define TEST(f) cmocka_unit_test_setup_teardown(f, make, drop)
    const struct CMUnitTest tests[] = {
        TEST(cuts_documents),
        TEST(reads_files),
        TEST(checks_long_texts),
        TEST(stops),
        TEST(finds_files),
        TEST(windows_hold_every_token_once),
        TEST(rows_are_documents),
        TEST(json_lines),
        TEST(splits_by_documents),
        TEST(both_splits_have_documents),
        TEST(ranks_share_tokens),
        TEST(tokenizes_once),
        TEST(damage_is_found),
        TEST(digest_is_of_the_samples),
        TEST(threads_do_not_matter),
        TEST(processes_wait),
        TEST(survives_faults),
        TEST(refuses),
        TEST(real_text),
        TEST(real_tokenizer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
