/* test_pack.c - documents as samples: side by side in windows, cut, left out or split where they are too
 * long, and with a mask of targets. */
#include "data/document_set.h"
#include "data/pack.h"
#include "data/text_folder.h"
#include "files.h"

/* ids>targets of a sample and, of packed documents, >positions as digits. */
static const char *packed_text(const ls_dataset *set, int64_t i)
{
    static char text[8][256];
    static int next;
    int32_t fields[3][64];
    const int64_t n = set->fields[0].type.dims[0];
    char *out = text[next++ % 8], *to = out;
    int64_t valid = 0;
    assert_ok(set->read(set, i, (void *const[]){ fields[0], fields[1], fields[2] }));
    for (int k = 0; k < set->n_fields; k++) {
        for (int64_t t = 0; t < n; t++) {
            const int32_t x = fields[k][t];
            *to++ = (char)(k == 2 ? '0' + x : x == END ? '|' : x == LS_IGNORE_LABEL ? '.' : x);
            valid += k == 1 && x != LS_IGNORE_LABEL;
        }
        *to++ = '>';
    }
    to[-1] = 0;
    assert_int_equal(set->count(set, i, 1), valid);
    /* a field that is not wanted is not written */
    assert_ok(set->read(set, i, (void *const[]){ NULL, NULL, NULL }));
    return out;
}

static void expect(ls_dataset *set, int n, const char *const *samples, const char *said)
{
    assert_int_equal(set->n, n);
    for (int i = 0; i < n; i++)
        assert_string_equal(packed_text(set, i), samples[i]);
    if (!strstr(set->source, said))
        assert_string_equal(set->source, said);
    ls_dataset_close(&set);
}

static const char *documents(void) { return put("all.txt", "abc\nd\ndefghi\njk\n"); }
#define LINES(set, length, ...)                                                    \
    OPEN(set, LS_SPLIT_TRAIN, documents(), length, .documents = LS_DOCUMENTS_LINE, \
         .eval_path = in(text_folder, "all.txt"), __VA_ARGS__)

/* The last target of a document is its end, never the next document. */
static void documents_side_by_side(void **state)
{
    (void)state;
    ls_dataset *set;
    assert_ok(LINES(&set, 8, .pack = LS_PACK_DOCUMENTS));
    assert_int_equal(set->n_fields, 3);
    assert_string_equal(set->fields[2].name, "positions");
    assert_int_equal(set->fields[2].below, 8);
    expect(set, 2, (const char *[]){ "abcd||||>bc||....>01200123", "defghijk>efghi|k|>01234501" },
           "(4 of 4 documents, 16 tokens in all, tokenizer bytes; packed into 2 windows, 75.0% full)");
}

static void too_long(void **state)
{
    (void)state;
    ls_dataset *set;
    /* what follows a cut is still a target */
    assert_ok(LINES(&set, 4, .pack = LS_PACK_DOCUMENTS));
    expect(set, 3, (const char *[]){ "abcd>bc||>0120", "defg>efgh>0123", "jk||>k|..>0101" },
           "; 1 longer than 4 tokens cut, 2 tokens lost; packed into 3 windows, 83.3% full)");
    assert_ok(LINES(&set, 4, .pack = LS_PACK_DOCUMENTS, .too_long = LS_TOO_LONG_DROP));
    expect(set, 2, (const char *[]){ "abcd>bc||>0120", "jk||>k|..>0101" },
           "; 1 longer than 4 tokens dropped, 6 tokens lost; packed");
    assert_ok(LINES(&set, 4, .pack = LS_PACK_DOCUMENTS, .too_long = LS_TOO_LONG_SPLIT));
    expect(set, 3, (const char *[]){ "abcd>bc||>0120", "defg>efgh>0123", "hijk>i|k|>0101" },
           "; 1 longer than 4 tokens split; packed into 3 windows, 100.0% full)");
    assert_fails(LS_E_USAGE,
                 ls_text_open(&set, LS_SPLIT_TRAIN, put("long.txt", "abcdef"), "bytes", 4, .eval_path = "-",
                              .pack = LS_PACK_DOCUMENTS, .too_long = LS_TOO_LONG_DROP),
                 "too_long: every document of", "is longer than 4 tokens");
    /* rows: without an end, as before; a rest of one token has no target */
    assert_ok(LINES(&set, 4, .pack = LS_PACK_NONE));
    expect(
        set, 3, (const char *[]){ "abc|>bc..", "defg>efg.", "jk||>k..." },
        "(3 of 4 documents, 16 tokens in all, tokenizer bytes; 1 longer than 4 tokens cut, 2 tokens lost)");
    assert_ok(LINES(&set, 4, .pack = LS_PACK_NONE, .too_long = LS_TOO_LONG_DROP));
    expect(set, 2, (const char *[]){ "abc|>bc..", "jk||>k..." }, "dropped, 6 tokens lost)");
    assert_ok(LINES(&set, 5, .pack = LS_PACK_NONE, .too_long = LS_TOO_LONG_SPLIT));
    expect(set, 3, (const char *[]){ "abc||>bc...", "defgh>efgh.", "jk|||>k...." },
           "; 1 longer than 5 tokens split, 1 tokens lost)");
}

/* Sets of other samples have another digest. */
static void digests_differ(void **state)
{
    (void)state;
    uint64_t digest[6];
    int n = 0;
    for (int pack = LS_PACK_NONE; pack <= LS_PACK_DOCUMENTS; pack += LS_PACK_DOCUMENTS)
        for (int how = LS_TOO_LONG_CUT; how <= LS_TOO_LONG_SPLIT; how++) {
            ls_dataset *set;
            assert_ok(LINES(&set, 4, .pack = (ls_pack_choice)pack, .too_long = (ls_too_long)how));
            digest[n++] = set->digest;
            ls_dataset_close(&set);
            for (int i = 0; i < n - 1; i++)
                assert_true(digest[i] != digest[n - 1]);
        }
}

/* A mask leaves targets out, in samples and in their counts; what has none left is left out, too. */
static void masks(void **state)
{
    (void)state;
    static const uint8_t ONLY[] = {
        0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0
    }; /* of abc| d| defghi| jk| */
    const ls_text_options packed = { LS_TEXT_DEFAULTS, .documents = LS_DOCUMENTS_LINE, .eval_path = "-",
                                     .pack = LS_PACK_DOCUMENTS, .threads = 1 };
    for (int pack = LS_PACK_NONE; pack <= LS_PACK_DOCUMENTS; pack++) {
        ls_dataset *set;
        ls_token_store tokens;
        ls_text_options o = packed;
        o.pack = (ls_pack_choice)pack;
        assert_ok(ls_tokens_open(&tokens, documents(), "bytes", NULL, NULL, &o));
        tokens.targets = ONLY;
        assert_ok(ls_document_set_open(
            &set, LS_SPLIT_TRAIN, &tokens,
            &(ls_document_set){
                .name = "text", .path = "all.txt", .tokenizer = "bytes", .length = 8, .predicts_end = true },
            &o));
        assert_null(tokens.ids);
        if (pack == LS_PACK_DOCUMENTS)
            expect(set, 2, (const char *[]){ "abc|||||>b.|.....>01201234", "defghi||>.f...|..>01234501" },
                   "; 2 without a target left out, 3 tokens lost; packed");
        else if (pack == LS_PACK_NONE)
            expect(set, 2, (const char *[]){ "abc|||||>b.|.....", "defghi||>.f...|.." }, "2 without");
        else
            expect(set, 2, (const char *[]){ "abc|d|de>b.|....f", "fghi|jk|>...|...." }, "all.txt");
    }
}

/* ---- packing */

/* The windows of best-fit decreasing, by looking at all of them; which of several of the same room does not
 * change their number. */
static int64_t windows_of(const int32_t *lengths, int64_t n, int64_t room)
{
    int64_t left[256], windows = 0;
    for (int64_t length = room; length > 0; length--)
        for (int64_t i = 0; i < n; i++) {
            int64_t best = -1;
            if (lengths[i] != length)
                continue;
            for (int64_t w = 0; w < windows; w++)
                if (left[w] >= length && (best < 0 || left[w] < left[best]))
                    best = w;
            if (best < 0)
                left[best = windows++] = room;
            left[best] -= length;
        }
    return windows;
}

static void best_fit_decreasing(void **state)
{
    (void)state;
    static const int64_t ROOMS[] = { 1, 7, 64, 1000, 5000, 300000 };
    for (size_t k = 0; k < sizeof ROOMS / sizeof *ROOMS; k++) {
        const int64_t room = ROOMS[k];
        enum { N = 200 };
        int32_t lengths[N];
        bool seen[N] = { false };
        for (int i = 0; i < N; i++) {
            const uint64_t x = ls_hash64(&(uint64_t){ (uint64_t)i * 977 + k }, 8);
            lengths[i] = (int32_t)(1 + x % (uint64_t)(i % 3 ? room : (room + 3) / 4));
        }
        ls_packing p;
        assert_ok(ls_packing_make(&p, lengths, N, room));
        assert_int_equal(p.windows, windows_of(lengths, N, room));
        for (int64_t w = 0, before = -1; w < p.windows; w++) {
            int64_t sum = 0;
            assert_true(p.first[w + 1] > p.first[w] && p.item[p.first[w]] > before);
            before = p.item[p.first[w]];
            for (int64_t i = p.first[w]; i < p.first[w + 1]; i++) {
                assert_true(i == p.first[w] || p.item[i] > p.item[i - 1]);
                assert_false(seen[p.item[i]]);
                seen[p.item[i]] = true;
                sum += lengths[p.item[i]];
            }
            assert_true(sum <= room);
        }
        assert_int_equal(p.first[p.windows], N);
        ls_packing_release(&p);
    }
    ls_packing none;
    assert_ok(ls_packing_make(&none, NULL, 0, 4));
    assert_int_equal(none.windows, 0);
    ls_packing_release(&none);
}

static ls_status pack_again(void *context)
{
    ls_packing p;
    (void)context;
    const ls_status s = ls_packing_make(&p, (int32_t[]){ 3, 1 }, 2, 4);
    ls_packing_release(&p);
    return s;
}

static void no_memory(void **state)
{
    (void)state;
    assert_int_equal(ls_test_memory(pack_again, NULL, 1), 7);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_text_folder, drop_text_folder)
    const struct CMUnitTest tests[] = {
        TEST(documents_side_by_side),
        TEST(too_long),
        TEST(digests_differ),
        TEST(masks),
        cmocka_unit_test(best_fit_decreasing),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
