/* test_text.c - text as samples: documents, windows of tokens, the two splits, what is refused, and real
 * text. */
#include <math.h>
#include "base/hash.h"
#include "base/log.h"
#include "data/corpus.h"
#include "data/tokens.h"
#include "files.h"
#include "data/held_out.h"
#include "data/text_folder.h"
#include "lockstep/tokenizer.h"

static void expect(const ls_dataset *set, int n, const char *const *samples)
{
    assert_int_equal(set->n, n);
    for (int i = 0; i < n; i++)
        assert_string_equal(sample_text(set, i), samples[i]);
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

/* A request to stop ends whatever is under way: inflating, reading, tokenizing. Nothing is left of it. */
static void stops(void **state)
{
    (void)state;
    volatile sig_atomic_t flag = 1;
    ls_text_file f;
    ls_dataset *set;
    bytes gz = make_gzip((bytes){ (uint8_t *)"some text", 9 });
    write_bytes(in(text_folder, "a.gz"), gz);
    free_bytes(&gz);
    put("a.txt", "one two\nthree\n"), put("a.csv", "source,target\na,b\n");
    ls_stop_on(&flag);
    assert_fails(LS_E_STOPPED, ls_text_file_open(&f, in(text_folder, "a.gz")), "stopped while inflating",
                 "a.gz");
    assert_fails(LS_E_STOPPED, ls_text_file_open(&f, in(text_folder, "a.txt")), "stopped while reading",
                 "a.txt");
    assert_fails(LS_E_STOPPED, OPEN(&set, LS_SPLIT_TRAIN, in(text_folder, "a.txt"), 4), "stopped while",
                 "a.txt");
    ls_stop_on(NULL);
    assert_ok(OPEN(&set, LS_SPLIT_TRAIN, in(text_folder, "a.txt"), 4, .eval_path = in(text_folder, "a.txt")));
    ls_dataset_close(&set);
}


static void finds_files(void **state)
{
    (void)state;
    ls_corpus c;
    put("b.txt", "x"), put("a.txt", "xy"), put("c.md", ""), put("odd[1].txt", "z");
    assert_ok(ls_corpus_find(&c, in(text_folder, "[ab].txt")));
    assert_int_equal(c.n, 2);
    assert_int_equal(c.bytes, 3);
    assert_string_equal(c.paths[0], in(text_folder, "a.txt"));
    ls_corpus_release(&c);
    assert_ok(ls_corpus_find(&c, in(text_folder, "{c.md,a.txt,nothing}")));
    assert_int_equal(c.n, 2);
    assert_string_equal(c.paths[1], in(text_folder, "c.md"));
    ls_corpus_release(&c);
    assert_ok(ls_corpus_find(&c, in(text_folder, "odd[1].txt")));
    assert_int_equal(c.n, 1);
    ls_corpus_release(&c);
    assert_fails(LS_E_USAGE, ls_corpus_find(&c, text_folder), "is a folder", "/*.txt");
    assert_fails(LS_E_USAGE, ls_corpus_find(&c, "nothing-*.txt"), "nothing-*.txt: no such file here",
                 "LOCKSTEP_DATA is not set");
    setenv("LOCKSTEP_DATA", text_folder, 1);
    assert_ok(ls_corpus_find(&c, "*.md"));
    assert_string_equal(c.paths[0], in(text_folder, "c.md"));
    ls_corpus_release(&c);
    assert_fails(LS_E_USAGE, ls_corpus_find(&c, "nothing-*.txt"), "neither here nor in LOCKSTEP_DATA",
                 text_folder);
    /* A folder of that name, here or there, is not a file. */
    char *here = getcwd(NULL, 0);
    assert_ok(ls_make_dirs(in(text_folder, "sub")));
    assert_int_equal(chdir(text_folder), 0);
    assert_fails(LS_E_USAGE, ls_corpus_find(&c, "sub"), "sub is a folder", "sub/*.txt");
    assert_fails(LS_E_USAGE, ls_corpus_find(&c, "su[b]"), "su[b]: no such file, neither here nor",
                 text_folder);
    setenv("LOCKSTEP_DATA", in(text_folder, "none"), 1);
    assert_fails(LS_E_USAGE, ls_corpus_find(&c, "sub"), "sub is a folder", "sub/*.txt");
    assert_fails(LS_E_USAGE, ls_corpus_find(&c, "su[b]"), "su[b]: no such file, neither here nor", "none");
    setenv("LOCKSTEP_DATA", text_folder, 1);
    assert_int_equal(chdir("/"), 0);
    assert_fails(LS_E_USAGE, ls_corpus_find(&c, "sub"), "sub: no such file, neither here nor", text_folder);
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
    assert_true(ls_type_equal(&set->fields[0].type, &LS_TYPE(LS_I32, 4)) &&
                ls_type_equal(&set->fields[1].type, &LS_TYPE(LS_I32, 4)));
    assert_int_equal(set->fields[1].below, 257);
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
                 OPEN(&set, LS_SPLIT_TRAIN, in(text_folder, "short.txt"), 4, .documents = LS_DOCUMENTS_LINE,
                      .pack = false, .eval_path = all),
                 "no document has two tokens", "");
}

static void json_lines(void **state)
{
    (void)state;
    ls_dataset *set;
    put("a.jsonl", "{\"text\": \"a\\u00e9\", \"id\": 1}\n\n{\"text\":\"bc\"}\n");
    assert_ok(OPEN(&set, LS_SPLIT_TRAIN, in(text_folder, "a.jsonl"), 6, .documents = LS_DOCUMENTS_JSON,
                   .eval_path = in(text_folder, "a.jsonl")));
    expect(set, 1, (const char *[]){ "a\xc3\xa9|bc>\xc3\xa9|bc|" });
    ls_dataset_close(&set);
    assert_fails(LS_E_FORMAT,
                 OPEN(&set, LS_SPLIT_TRAIN, in(text_folder, "a.jsonl"), 6, .documents = LS_DOCUMENTS_JSON,
                      .field = "body"),
                 "document at line 1", "\"body\" (option field)");
    put("b.jsonl", "{\"text\": \"a\"}\n\n{\"text\": oh}\n");
    assert_fails(LS_E_FORMAT,
                 OPEN(&set, LS_SPLIT_TRAIN, in(text_folder, "b.jsonl"), 6, .documents = LS_DOCUMENTS_JSON),
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
            assert_ok(OPEN(&set, (ls_split)split, in(text_folder, "all.txt"), pack ? 3 : 2,
                           .documents = LS_DOCUMENTS_BLANK, .eval_fraction = 0.1, .pack = pack));
            assert_int_equal(set->n, split ? 10 : 90);
            for (int i = 0; i < set->n; i++)
                seen[split][atoi(sample_text(set, i))]++;
            snprintf(first, sizeof first, "%.2s %.2s %.2s", sample_text(set, 0), sample_text(set, 1),
                     sample_text(set, 2));
            /* promised: a later version evaluates on the same documents */
            assert_string_equal(first, split ? "25 38 63" : "00 01 02");
            ls_dataset_close(&set);
        }
    for (int i = 0; i < 100; i++)
        assert_true(seen[0][i] + seen[1][i] == 2 && seen[0][i] * seen[1][i] == 0);
    assert_int_equal(tokenized, 1);
}

/* ---- what is refused */

/* How many samples, of a document each, the first `percent` of a.txt has. */
static int64_t samples_of(double percent, ls_documents how)
{
    ls_dataset *set;
    assert_ok(OPEN(&set, LS_SPLIT_TRAIN, in(text_folder, "*.txt"), 4, .pack = false, .documents = how,
                   .train_percentage = percent, .eval_path = in(text_folder, "*.txt")));
    const int64_t n = set->n;
    ls_dataset_close(&set);
    return n;
}

/* train_percentage cuts the rows that the source has, blank lines among them, as train[:40%] does. */
static void percentage_cuts_rows(void **state)
{
    (void)state;
    put("a.txt", "\n = a =\n\nbb\ncc\n\n \ndd\n"); /* 8 rows, 4 documents */
    put("b.txt", "ee\n\n");                          /* 2 rows, 1 document */
    assert_int_equal(samples_of(100, LS_DOCUMENTS_LINE), 5);
    assert_int_equal(samples_of(80, LS_DOCUMENTS_LINE), 4);
    assert_int_equal(samples_of(90, LS_DOCUMENTS_LINE), 5);
    assert_int_equal(samples_of(70, LS_DOCUMENTS_LINE), 3);
    assert_int_equal(samples_of(40, LS_DOCUMENTS_LINE), 2);
    assert_int_equal(samples_of(20, LS_DOCUMENTS_LINE), 1);
    assert_int_equal(samples_of(25, LS_DOCUMENTS_LINE), 1); /* 2.5 rows are 2, */
    assert_int_equal(samples_of(35, LS_DOCUMENTS_LINE), 2); /* and 3.5 are 4 */
    assert_int_equal(samples_of(50, LS_DOCUMENTS_BLANK), 2); /* 4 documents are 4 rows */
    put("0.txt", "");
    assert_int_equal(samples_of(67, LS_DOCUMENTS_FILE), 1); /* 3 files are 3 rows, and the first is empty */
}

/* WikiText's test file has 4358 rows: train[:5%] of it is 218 rows, of which 136 are not blank. */
static void percentage_of_real_text(void **state)
{
    (void)state;
    const char *data = ls_test_data("wikitext-2");
    char path[4096];
    ls_dataset *set;
    snprintf(path, sizeof path, "%s/wikitext-2/test.txt", data);
    assert_ok(OPEN(&set, LS_SPLIT_TRAIN, path, 16, .pack = false, .documents = LS_DOCUMENTS_LINE,
                   .train_percentage = 5, .eval_path = path));
    assert_int_equal(set->n, 136);
    ls_dataset_close(&set);
}

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
        setenv("LOCKSTEP_DATA", "elsewhere", 1); /* also where that is not an absolute path */
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
    assert_fails(LS_E_USAGE, ls_text_open(&set, LS_SPLIT_TRAIN, path, in(text_folder, "own.json"), 4),
                 "end_token: name the token", "<|endoftext|>");
    put("other.txt", "not yet tokenized\n");
    ls_stop_on(&(const volatile sig_atomic_t){ 1 });
    assert_fails(LS_E_STOPPED, OPEN(&set, LS_SPLIT_TRAIN, in(text_folder, "other.txt"), 4), "stopped while",
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
    const char *data = ls_test_data("tinyshakespeare");
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
    assert_ok(set->read(set, 0, (void *const[]){ ids, targets }));
    for (int i = 0; i < 64; i++)
        assert_true(ids[i] != '\r' && (i || ids[i] < 0x80));
    ls_dataset_close(&set);
}

/* The ids of a line of wikitext-2 are those of the tokenizer itself. */
static void real_tokenizer(void **state)
{
    (void)state;
    const char *data = ls_test_data("wikitext-2");
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
    assert_ok(ls_file_write(in(text_folder, "one.txt"), line, strcspn(line, "\n")));
    snprintf(path, sizeof path, "%s/qwen2.5", data);
    assert_ok(ls_tokenizer_open(&t, path));
    assert_ok(ls_tokenizer_encode(t, line, strcspn(line, "\n"), true, &want));
    assert_ok(ls_text_open(&set, LS_SPLIT_TRAIN, in(text_folder, "one.txt"), "qwen2.5", 64, .pack = false,
                           .eval_path = "-", .vocabulary = 151936));
    assert_ok(set->read(set, 0, (void *const[]){ ids, targets }));
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
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_text_folder, drop_text_folder)
    const struct CMUnitTest tests[] = {
        TEST(cuts_documents),
        TEST(stops),
        TEST(finds_files),
        TEST(windows_hold_every_token_once),
        TEST(rows_are_documents),
        TEST(json_lines),
        TEST(splits_by_documents),
        TEST(both_splits_have_documents),
        TEST(percentage_cuts_rows),
        TEST(percentage_of_real_text),
        TEST(refuses),
        TEST(real_text),
        TEST(real_tokenizer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
