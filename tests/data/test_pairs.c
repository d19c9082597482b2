/* test_pairs.c - pairs of texts: CSV and JSON lines, what a sample holds, splits, ranks, the cache; what is
 * refused. Ids against Hugging Face's tokenizers (tests/golden/pairs.json, made by tools/golden/pairs.py);
 * real pairs when LOCKSTEP_DATA has them. */
#include "base/fault.h"
#include "base/json.h"
#include "base/log.h"
#include "data/csv.h"
#include "data/loader.h"
#include "data/tokens.h"
#include "files.h"

enum { END = 256 }; /* of the tokenizer `bytes` */

static char *dir;
static char logged[4096];

static void keep_log(void *context, ls_level level, const char *message)
{
    (void)context, (void)level;
    snprintf(logged, sizeof logged, "%s", message);
}

static int make(void **state)
{
    (void)state;
    dir = make_folder();
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

/* Training pairs of all of a file. */
#define OPEN(set, path, source, target, ...)                                                \
    ls_pairs_open((set), LS_SPLIT_TRAIN, (path), "bytes", (source), (target), .threads = 2, \
                  .eval_path = "-", ##__VA_ARGS__)

/* "abc|__>de|.": ids (| an end, _ filled up), targets (. ignored). */
static const char *say(const ls_dataset *set, int64_t i)
{
    static char text[8][256];
    static int next;
    int32_t ids[128], targets[128];
    const int64_t n = set->fields[0].type.dims[0], m = set->fields[1].type.dims[0];
    char *out = text[next++ % 8];
    int64_t valid = 0;
    assert_ok(set->read(set, i, (void *const[]){ ids, targets }));
    for (int64_t k = 0; k < n; k++)
        *out++ = ids[k] == END ? '|' : ids[k] == 0 ? '_' : (char)ids[k];
    *out++ = '>';
    for (int64_t k = 0; k < m; k++) {
        *out++ = targets[k] == END ? '|' : targets[k] == LS_IGNORE_LABEL ? '.' : (char)targets[k];
        valid += targets[k] != LS_IGNORE_LABEL;
    }
    *out = 0;
    assert_int_equal(set->count(set, i, 1), valid);
    return out - n - m - 1;
}

static void expect(const char *path, int n, const char *const *samples)
{
    ls_dataset *set;
    assert_ok(OPEN(&set, path, 6, 4));
    assert_int_equal(set->n, n);
    for (int i = 0; i < n; i++)
        assert_string_equal(say(set, i), samples[i]);
    ls_dataset_close(&set);
}

/* ---- files */

static void fields_of_csv(void **state)
{
    (void)state;
    const char *text = "a,\"b,\"\"c\"\"\nd\",,e\"f\n\"\",g,\n\"h\"";
    const char *const want[] = { "a", "b,\"c\"\nd", "", "e\"f!", "", "g", "!", "h!" };
    size_t at = 0;
    bool last;
    for (int i = 0; i < 8; i++) {
        ls_str field = { 0 };
        assert_ok(ls_csv_field(text, strlen(text), &at, &field, &last));
        if (last)
            ls_str_add(&field, "!");
        assert_string_equal(ls_str_text(&field), want[i]);
        ls_str_release(&field);
    }
    assert_int_equal(at, strlen(text));
}

static void csv_and_json_say_the_same(void **state)
{
    (void)state;
    const char *const want[] = { "abc|__>de|.", "a,\"b|_>x\ny|", "fghij|>klm|", "n o|__>p|.." };
    expect(put("a.csv",
               "target,other,source\nde,1,abc\n\"x\ny\",\"2\",\"a,\"\"b\"\n\nklmnop,3,fghijklm\np,,n o"),
           4, want);
    expect(put("b.csv", "\xef\xbb\xbfother,source,target\r\n1,abc,de\r\n2,\"a,\"\"b\",\"x\r\ny\"\r\n3,"
                        "fghijklm,klmnop\r\n\r\n,n o,p\r\n"),
           4, want);
    expect(put("c.jsonl", "\n{\"target\": \"de\", \"source\": \"abc\"}\n{\"source\": \"a,\\\"b\", "
                          "\"target\": [\"x\\ny\", \"z\"], \"more\": 1}\n"
                          "\n{\"source\": [\"fghijklm\"], \"target\": [\"klmnop\"]}\n{\"source\": [\"n\", "
                          "\"o\"], \"target\": \"p\"}\n"),
           4, want);
    char *text;
    size_t n;
    assert_ok(ls_file_read(&text, &n, in(dir, "b.csv")));
    bytes gz = make_gzip((bytes){ (uint8_t *)text, n });
    write_bytes(in(dir, "d.csv.gz"), gz);
    expect(in(dir, "d.csv.gz"), 4, want);
    setenv("LOCKSTEP_DATA", dir, 1);
    expect("[d]*.gz", 4, want);
    free_bytes(&gz);
    free(text);
}

static void names_and_prefix(void **state)
{
    (void)state;
    ls_dataset *set;
    put("a.csv", "headline,title,text\nh1,t1,x1\nh2,t2,x2\n");
    assert_ok(OPEN(&set, in(dir, "a.csv"), 10, 4, .source = "text", .target = "headline", .prefix = "sum: "));
    assert_string_equal(say(set, 1), "sum: x2|__>h2|.");
    assert_non_null(
        strstr(set->source,
               "a.csv (2 of 2 pairs, 22 tokens; cut: 0 sources to 10, 0 targets to 4; tokenizer bytes)"));
    assert_non_null(strstr(logged, "2 pairs, 22 tokens"));
    assert_int_equal(set->fields[1].below, 257);
    assert_true(ls_type_equal(&set->fields[0].type, &LS_TYPE(LS_I32, 10)) &&
                ls_type_equal(&set->fields[1].type, &LS_TYPE(LS_I32, 4)));
    ls_dataset_close(&set);
    *logged = 0; /* other lengths are cut out of the same tokens; other names and another prefix are others */
    assert_ok(OPEN(&set, in(dir, "a.csv"), 3, 2, .source = "text", .target = "headline", .prefix = "sum: "));
    assert_string_equal(say(set, 0), "su|>h|");
    assert_non_null(strstr(set->source, "cut: 2 sources to 3, 2 targets to 2;"));
    assert_string_equal(logged, "");
    ls_dataset_close(&set);
    assert_ok(OPEN(&set, in(dir, "a.csv"), 8, 4, .source = "text", .target = "title", .prefix = "sum: "));
    assert_string_equal(say(set, 0), "sum: x1|>t1|.");
    ls_dataset_close(&set);
    assert_ok(OPEN(&set, in(dir, "a.csv"), 8, 4, .source = "text", .target = "title"));
    assert_string_equal(say(set, 0), "x1|_____>t1|.");
    ls_dataset_close(&set);
}

/* ---- splits, ranks */

static void splits_and_limits(void **state)
{
    (void)state;
    ls_dataset *set;
    char text[2048] = "source,target\n";
    int seen[100] = { 0 };
    for (int i = 0; i < 100; i++)
        sprintf(text + strlen(text), "%02d,t\n", i);
    put("all.csv", text);
    for (int split = 0; split < 2; split++) {
        assert_ok(
            ls_pairs_open(&set, (ls_split)split, in(dir, "all.csv"), "bytes", 3, 2, .eval_fraction = 0.1));
        assert_int_equal(set->n, split ? 10 : 90);
        for (int i = 0; i < set->n; i++)
            seen[atoi(say(set, i))]++;
        if (split)
            assert_memory_equal(say(set, 0), "25|", 3); /* the documents that text keeps */
        ls_dataset_close(&set);
    }
    for (int i = 0; i < 100; i++)
        assert_int_equal(seen[i], 1);
    assert_ok(OPEN(&set, in(dir, "all.csv"), 3, 2, .samples = 7));
    assert_int_equal(set->n, 7);
    assert_memory_equal(say(set, 6), "06|", 3);
    ls_dataset_close(&set);
    assert_ok(OPEN(&set, in(dir, "all.csv"), 3, 2, .samples = 101));
    assert_int_equal(set->n, 100);
    ls_dataset_close(&set);
    put("two.csv", "source,target\nxx,t\n");
    assert_ok(ls_pairs_open(&set, LS_SPLIT_EVAL, in(dir, "all.csv"), "bytes", 3, 2,
                            .eval_path = in(dir, "two.csv")));
    assert_string_equal(say(set, 0), "xx|>t|");
    ls_dataset_close(&set);
}

/* Two ranks have the steps of one; each pair is evaluated once, and the count is that of all ranks. */
static void ranks_share_pairs(void **state)
{
    (void)state;
    ls_dataset *set;
    put("all.csv", "source,target\na,b\ncd,efgh\ni,jk\nl,m\nno,pqr\n");
    assert_ok(OPEN(&set, in(dir, "all.csv"), 3, 4));
    const ls_order o = { .n = set->n, .global_batch = 4, .micro_batch = 1 };
    int seen[128] = { 0 };
    for (int64_t k = 0; k < 2; k++) {
        int64_t valid = 0;
        for (int r = 0; r < 2; r++) {
            ls_loader *l;
            ls_loader_step step;
            bool done;
            assert_ok(ls_loader_create(&l, set, &o, .step = k, .epochs = 1, .share = { r, 2, 2 }));
            assert_ok(ls_loader_next(l, &step, &done));
            assert_int_equal(step.fields[1].count, k ? 4 : 2 + 4 + 3 + 2);
            for (int64_t m = 0; m < 2; m++) {
                int32_t ids[3], targets[4];
                assert_ok(ls_order_fill(&o, set, 0, k, r + 2 * m, (void *const[]){ ids, targets }));
                assert_memory_equal((const int32_t *)step.fields[0].data + 3 * m, ids, sizeof ids);
                assert_memory_equal((const int32_t *)step.fields[1].data + 4 * m, targets, sizeof targets);
                seen[targets[0] == LS_IGNORE_LABEL ? 0 : ids[0] & 127]++;
                for (int t = 0; t < 4; t++)
                    valid += targets[t] != LS_IGNORE_LABEL;
            }
            ls_loader_destroy(&l);
        }
        assert_int_equal(valid, k ? 4 : 11);
    }
    for (const char *p = "aciln"; *p; p++)
        assert_int_equal(seen[(int)*p], 1);
    assert_int_equal(seen[0], 3); /* rows of padding */
    ls_dataset_close(&set);
}

/* ---- what is refused */

static void refuses_csv(void **state)
{
    (void)state;
    ls_dataset *set;
    const struct {
        const char *text, *where, *what;
    } cases[] = {
        { "text,headline\na,b\n",
          "source: ", "x.csv has no column \"source\"; its first line names: text, headline" },
        { "source,headline\na,b\n",
          "target: ", "x.csv has no column \"target\"; its first line names: source, headline" },
        { "source,target,source\na,b,c\n", "x.csv, header: columns 1 and 3",
          "both called \"source\" (option source)" },
        { "\"source,target\na,b\n", "header", "none closes it" },
        { "source,target\na,b\n\nc\n",
          "x.csv, pair at line 4: ", "1 fields, and the header names 2 columns" },
        { "source,target\na,\"b\nb\"\nc,d,e\n", "pair at line 4: ", "3 fields" },
        { "source,target\na,b\n\"c,d\ne,f\n",
          "pair at line 3: ", "a quote opens a field, and none closes it" },
        { "source,target\na,b\n\"c\" ,d\n", "pair at line 3: ", "a quote inside a field is written twice" },
        { "source,target\na,b\nc, \n", "pair at line 3: ", "its target is empty" },
        { "source,target\n,b\n", "pair at line 2: ", "its source is empty" },
        { "source,target\na,b\xff\n", "x.csv: byte 17 is 0xff", "not UTF-8" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_fails(strstr(cases[i].what, "no column") ? LS_E_USAGE : LS_E_FORMAT,
                     OPEN(&set, put("x.csv", cases[i].text), 4, 4), cases[i].where, cases[i].what);
    assert_fails(LS_E_FORMAT, OPEN(&set, put("x.csv", "source,target\n,b\n"), 4, 4, .prefix = "p: "),
                 "line 2", "its source is empty");
    assert_fails(LS_E_USAGE, OPEN(&set, put("x.csv", "source,target\n"), 4, 4), "x.csv: no pair in this file",
                 "");
    assert_fails(LS_E_USAGE, OPEN(&set, put("x.csv", ""), 4, 4), "x.csv: no pair in this file", "");
}

static void refuses_json(void **state)
{
    (void)state;
    ls_dataset *set;
    const struct {
        const char *text, *where, *what;
    } cases[] = {
        { "{\"source\": \"a\", \"target\": \"b\"}\n\n{\"source\": oh}\n",
          "x.jsonl, pair at line 3: ", "JSON" },
        { "{\"source\": \"a\"}\n", "pair at line 1: ", "called \"target\" (option target)" },
        { "{\"source\": 3, \"target\": \"b\"}\n", "pair at line 1: ", "called \"source\" (option source)" },
        { "{\"source\": [\"a\", 3], \"target\": \"b\"}\n",
          "pair at line 1: ", "called \"source\" (option source)" },
        { "{\"source\": \"a\", \"target\": []}\n", "pair at line 1: ", "its target is empty" },
        { "{\"source\": \"a\", \"target\": [\" \"]}\n", "pair at line 1: ", "its target is empty" },
        { "{\"source\": [], \"target\": \"b\"}\n", "pair at line 1: ", "its source is empty" },
        { "{\"source\": \"a\", \"target\": \"b\"}\n[]\n", "pair at line 2: ", "not a JSON object" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_fails(LS_E_FORMAT, OPEN(&set, put("x.jsonl", cases[i].text), 4, 4), cases[i].where,
                     cases[i].what);
}

static void refuses_settings(void **state)
{
    (void)state;
    ls_dataset *set;
    const char *path = put("a.csv", "source,target\na,b\n");
    assert_fails(LS_E_USAGE, ls_pairs_open(&set, LS_SPLIT_TRAIN, "", "bytes", 4, 4), "pairs need a path",
                 "CSV");
    assert_fails(LS_E_USAGE, ls_pairs_open(&set, LS_SPLIT_TRAIN, path, "", 4, 4), "pairs need a tokenizer",
                 "`bytes`");
    assert_fails(LS_E_USAGE, OPEN(&set, path, 1, 4), "source_length 1", "");
    assert_fails(LS_E_USAGE, OPEN(&set, path, 4, 1), "target_length 1", "");
    assert_fails(LS_E_USAGE, OPEN(&set, path, 4, 4, .target = "source"),
                 "target: \"source\" is the source, too", "");
    assert_fails(LS_E_USAGE, OPEN(&set, path, 4, 4, .vocabulary = 256), "the model's vocabulary is 256",
                 "set it to 257");
    assert_fails(LS_E_USAGE, ls_pairs_open(&set, LS_SPLIT_TRAIN, path, "bytes", 4, 4), "a.csv is one pair",
                 "name a file for evaluation");
    put("own.json",
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"<pad>\": 1, \"</s>\": 2}, \"merges\": []}}");
    assert_fails(LS_E_UNSUPPORTED, ls_pairs_open(&set, LS_SPLIT_TRAIN, path, in(dir, "own.json"), 4, 4),
                 "<pad> of", "is id 1");
    assert_null(set);
}

/* Whatever call fails, there is a message and no damage. */
static void survives_faults(void **state)
{
    (void)state;
    const char *path = put("a.csv", "source,target\nabc,de\nf,g\n");
    for (int64_t n = 0, points = 1; n < points; n++) {
        ls_dataset *set;
        ls_fault_arm(LS_POINTS_ALL, n, LS_FAIL_ONCE);
        const ls_status s = OPEN(&set, path, 6, 4);
        points = ls_fault_disarm();
        if (s == LS_OK)
            ls_dataset_close(&set);
        else
            assert_true(*ls_error_message() && !set);
        expect(path, 2, (const char *[]){ "abc|__>de|.", "f|____>g|.." });
        points = points < n + 2 && s != LS_OK ? n + 2 : points; /* one that failed early saw no later ones */
    }
}

/* ---- Hugging Face's ids */

static void check_golden(const json_t *golden, const char *tokenizer, const char *name)
{
    const json_t *want = json_object_get(golden, name), *list;
    ls_dataset *set;
    int32_t ids[24], targets[8];
    ls_str lines = { 0 };
    size_t i, k;
    const json_t *pair, *id;
    json_array_foreach(json_object_get(golden, "pairs"), i, pair)
    {
        char *line = json_dumps(pair, 0);
        ls_str_printf(&lines, "%s\n", line);
        free(line);
    }
    const char *path = put("golden.jsonl", ls_str_text(&lines));
    assert_ok(ls_pairs_open(&set, LS_SPLIT_TRAIN, path, tokenizer, 24, 8, .source = "text",
                            .target = "headline", .prefix = "summarize: ", .end_token = "</s>",
                            .eval_path = "-"));
    assert_int_equal(set->n, json_array_size(want));
    for (i = 0; i < (size_t)set->n; i++) {
        assert_ok(set->read(set, (int64_t)i, (void *const[]){ ids, targets }));
        list = json_object_get(json_array_get(want, i), "source_ids");
        assert_int_equal(json_array_size(list), 24);
        json_array_foreach(list, k, id) assert_int_equal(ids[k], json_integer_value(id));
        list = json_object_get(json_array_get(want, i), "target_ids"); /* the tutorial's: filled up with 0 */
        assert_int_equal(json_array_size(list), 8);
        json_array_foreach(list, k, id)
            assert_int_equal(targets[k] == LS_IGNORE_LABEL ? 0 : targets[k], json_integer_value(id));
    }
    ls_dataset_close(&set);
    ls_str_release(&lines);
}

static void ids_of_hugging_face(void **state)
{
    (void)state;
    char *text;
    size_t n;
    json_t *golden;
    assert_ok(ls_file_read(&text, &n, LS_TEST_SOURCE_DIR "/tests/golden/pairs.json"));
    assert_ok(ls_json_parse(&golden, text, n, "pairs.json"));
    check_golden(golden, LS_TEST_SOURCE_DIR "/tests/golden/tokenizer_unigram.json", "unigram");
    json_decref(golden);
    free(text);
}

/* ---- real data */

static void ids_of_t5(void **state)
{
    (void)state;
    char *text;
    size_t n;
    json_t *golden;
    setenv("LOCKSTEP_DATA", ls_test_data("t5-base"), 1);
    assert_ok(ls_file_read(&text, &n, LS_TEST_SOURCE_DIR "/tests/golden/pairs.json"));
    assert_ok(ls_json_parse(&golden, text, n, "pairs.json"));
    check_golden(golden, "t5-base", "t5-base");
    json_decref(golden);
    free(text);
}

static void real_pairs(void **state)
{
    (void)state;
    setenv("LOCKSTEP_DATA", ls_test_data("scitldr-a"), 1);
    static const struct {
        const char *csv, *json;
        int n;
    } files[] = { { "scitldr-a/scitldr_train.csv", "scitldr-a/train.jsonl", 1992 },
                  { "scitldr-a/scitldr_val.csv", "scitldr-a/dev.jsonl", 619 } };
    for (int f = 0; f < 2; f++) {
        ls_dataset *csv, *json;
        static int32_t a[512 + 150], b[512 + 150];
        assert_ok(ls_pairs_open(&csv, LS_SPLIT_TRAIN, files[f].csv, "t5-base", 512, 150, .source = "text",
                                .target = "headline", .eval_path = "-"));
        assert_ok(ls_pairs_open(&json, LS_SPLIT_TRAIN, files[f].json, "t5-base", 512, 150, .eval_path = "-"));
        assert_int_equal(csv->n, files[f].n);
        assert_int_equal(json->n, files[f].n);
        for (int64_t i = 0; i < csv->n; i++) {
            assert_ok(csv->read(csv, i, (void *const[]){ a, a + 512 }));
            assert_ok(json->read(json, i, (void *const[]){ b, b + 512 }));
            assert_memory_equal(a, b, sizeof a);
        }
        fprintf(stderr, "%s\n", json->source);
        ls_dataset_close(&csv);
        ls_dataset_close(&json);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make, drop)
    const struct CMUnitTest tests[] = {
        TEST(fields_of_csv),     TEST(csv_and_json_say_the_same),
        TEST(names_and_prefix),  TEST(splits_and_limits),
        TEST(ranks_share_pairs), TEST(refuses_csv),
        TEST(refuses_json),      TEST(refuses_settings),
        TEST(survives_faults),   TEST(ids_of_hugging_face),
        TEST(ids_of_t5),         TEST(real_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
