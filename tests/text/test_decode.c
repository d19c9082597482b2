/* test_decode.c - tokens back to text: whole, and in pieces as a stream. */
#include <stdio.h>
#include <string.h>

#include "lockstep/tokenizer.h"
#include "support/support.h"
#include "text/expected.h"

static void streams_bytes(void **state)
{
    (void)state;
    ls_tokenizer *t;
    ASSERT_OK(ls_tokenizer_open(&t, "bytes"));
    /* two, three and four bytes; cut characters, in the middle and at the end; a byte that is none; the end
     * token; ids beyond the tokenizer's */
    static int32_t ids[] = { 'a',  0xc3, 0xa9, 0xe2, 0x82, 0xac, 0xf0, 0x9f, 0x98, 0x80,
                             0xe2, 0x82, 'b',  0xff, 256,  'c',  5000, 0xf0, 0x9f };
    expect_streamed("bytes", t, &(ls_tokens){ ids, sizeof ids / sizeof ids[0], 0 },
                    "a\u00e9\u20ac\U0001f600\ufffdb\ufffdc\ufffd");
    /* a character comes with its last byte, not later */
    static const size_t given[] = { 1, 0, 2, 0, 0, 3, 0, 0, 0, 4 };
    ls_text_stream *s;
    ASSERT_OK(ls_text_stream_create(&s, t));
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        const char *text;
        size_t bytes;
        ASSERT_OK(ls_text_stream_add(s, ids[i], &text, &bytes));
        assert_int_equal(bytes, given[i]);
    }
    ls_text_stream_destroy(&s);
    ls_tokenizer_close(&t);
}

/* What Hugging Face's library makes of byte tokens: a run that is not text as a whole is U+FFFD for each of
 * its bytes. */
static void byte_fallback(void **state)
{
    (void)state;
    enum { END = -1, A = -2, SPACE = -3 };
    static const struct {
        int tokens[8];
        const char *text, *streamed;
    } CASES[] = {
        /* streamed: where it differs */
        { { 0x41, 0x80, 0x42, END }, "\ufffd\ufffd\ufffd", "A\ufffd\ufffd" },
        { { 0x41, END }, "A", NULL },
        { { 0xe2, 0x82, END }, "\ufffd\ufffd", NULL },
        { { A, 0xe2, 0x82, A, END }, "a\ufffd\ufffda", NULL },
        { { 0xe2, 0x82, 0xac, 0x41, END }, "\u20acA", NULL },
        { { A, 0x41, 0x80, SPACE, 0x42, END }, "a\ufffd\ufffd B", "aA\ufffd B" },
        { { 0xc3, A, 0xa9, END }, "\ufffda\ufffd", NULL },
        { { 0x80, 0x41, 0xe2, 0x82, 0xac, END }, "\ufffd\ufffd\ufffd\ufffd\ufffd", NULL },
        { { A, 0x20, 0x0a, A, END }, "a \na", NULL },
    };
    ls_tokenizer *t;
    ASSERT_OK(ls_tokenizer_open(&t, LS_TEST_SOURCE_DIR "/tests/golden/tokenizer_llama.json"));
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        int32_t ids[8];
        ls_tokens list = { ids, 0, 0 };
        for (; CASES[i].tokens[list.n] != END; list.n++) {
            char name[8];
            snprintf(name, sizeof name, "<0x%02X>", (unsigned)CASES[i].tokens[list.n] & 0xff);
            ids[list.n] = ls_tokenizer_id(t, CASES[i].tokens[list.n] == A       ? "a"
                                             : CASES[i].tokens[list.n] == SPACE ? "\u2581"
                                                                                : name);
            assert_true(ids[list.n] >= 0);
        }
        expect_text("llama", t, &list, true, CASES[i].text);
        expect_streamed("llama", t, &list, CASES[i].streamed ? CASES[i].streamed : CASES[i].text);
    }
    ls_tokenizer_close(&t);
}

static void expect_decoded(const char *decoder, const char *tokens, int64_t n, const char *want)
{
    char json[400];
    int32_t ids[3] = { 0, 1, 2 };
    snprintf(json, sizeof json, "{\"decoder\":%s,\"model\":{\"type\":\"BPE\",\"vocab\":{%s},\"merges\":[]}}",
             decoder, tokens);
    ls_tokenizer *t = make_tokenizer(json);
    expect_text(decoder, t, &(ls_tokens){ ids, n, n }, false, want);
    ls_tokenizer_close(&t);
}

/* The space before the first word, which "never" keeps; a byte-level token with a character that stands for
 * no byte, taken whole. */
static void decoders(void **state)
{
    (void)state;
    expect_decoded("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"always\"}",
                   "\"_a\":0,\"_b\":1", 2, "a b");
    expect_decoded("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"never\"}",
                   "\"_a\":0,\"_b\":1", 2, " a b");
    expect_decoded("{\"type\":\"ByteLevel\"}", "\"a\u4e2d\":0,\"\u0120b\":1", 2, "a\u4e2d b");
}

static void replacements(void **state)
{
    (void)state;
    ls_tokenizer *t = make_tokenizer(
        "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"ab\"},\"content\":\"c\"},"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2},\"merges\":[]}}");
    expect_small(t, "abaabb", 4, (int32_t[]){ 2, 0, 2, 1 });
    ls_tokenizer_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoders),
        cmocka_unit_test(replacements),
        cmocka_unit_test(streams_bytes),
        cmocka_unit_test(byte_fallback),
    };
    return cmocka_run_group_tests(tests, read_golden, drop_golden);
}
