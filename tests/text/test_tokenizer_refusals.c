/* test_tokenizer_refusals.c - tokenizers that are refused, stopped, or out of memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/file.h"
#include "lockstep/tokenizer.h"
#include "support/support.h"
#include "text/expected.h"

/* One word may be as long as a file. */
static void stops(void **state)
{
    (void)state;
    static const char *const FILES[] = { "tokenizer_bpe.json", "tokenizer_unigram.json" };
    static volatile sig_atomic_t flag = 1;
    static char word[1 << 18];
    memset(word, 'e', sizeof word);
    for (int i = 0; i < 2; i++) {
        ls_tokenizer *t;
        ls_tokens ids = { 0 };
        char path[512];
        snprintf(path, sizeof path, LS_TEST_SOURCE_DIR "/tests/golden/%s", FILES[i]);
        ASSERT_OK(ls_tokenizer_open(&t, path));
        ls_stop_on(&flag);
        ASSERT_FAILS(ls_tokenizer_encode(t, word, sizeof word, false, &ids), LS_E_STOPPED, "stopped while");
        assert_int_equal(ids.n, 0);
        ls_stop_on(NULL);
        ASSERT_OK(ls_tokenizer_encode(t, word, sizeof word, false, &ids));
        assert_true(ids.n > 0);
        free(ids.ids);
        ls_tokenizer_close(&t);
    }
}

static ls_status open_and_encode(void *path)
{
    char text[512];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = i % 7 ? (char)('a' + i % 26) : ' ';
    ls_tokenizer *t = NULL;
    ls_tokens ids = { 0 };
    char *back = NULL;
    size_t n;
    ls_status s = ls_tokenizer_open(&t, path);
    if (s == LS_OK)
        s = ls_tokenizer_encode(t, text, sizeof text, true, &ids);
    if (s == LS_OK)
        s = ls_tokenizer_decode(t, ids.ids, ids.n, true, &back, &n);
    free(back);
    free(ids.ids);
    ls_tokenizer_close(&t);
    return s;
}

/* Every allocation fails once: opening or encoding ends with LS_E_MEMORY, and nothing aborts. */
static void no_memory(void **state)
{
    (void)state;
    static const char *const FILES[] = { "tokenizer_bpe.json", "tokenizer_unigram.json" };
    for (int f = 0; f < 2; f++) {
        char path[512];
        snprintf(path, sizeof path, LS_TEST_SOURCE_DIR "/tests/golden/%s", FILES[f]);
        assert_true(ls_test_memory(open_and_encode, path, 1) > 10);
    }
}

static void refusals(void **state)
{
    (void)state;
    static const char MODEL[] =
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}";
    static const struct {
        const char *json, *says;
        ls_status status;
    } CASES[] = {
        { "[1]", "not a tokenizer.json", LS_E_FORMAT },
        { "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}}}", "model \"WordLevel\" is not supported",
          LS_E_UNSUPPORTED },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a b\"]}}", "merge 0",
          LS_E_FORMAT },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", "the id is taken",
          LS_E_FORMAT },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-3},\"merges\":[]}}", "", LS_E_FORMAT },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":4000000000},\"merges\":[]}}", "too large",
          LS_E_FORMAT },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":500000000},\"merges\":[]}}",
          "2 tokens have ids up to 500000000", LS_E_FORMAT },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"\"]}}", "merge 0 is not a pair",
          LS_E_FORMAT },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}", "merge 0 is not a pair",
          LS_E_FORMAT },
        { "{\"model\":{\"type\":\"Unigram\",\"unk_id\":7,\"vocab\":[[\"a\",-1]]}}", "unk_id", LS_E_FORMAT },
        { "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\",-1],[\"a\",-2]]}}", "twice",
          LS_E_FORMAT },
        { "{\"normalizer\":{\"type\":\"Nmt\"},%s}", "normalizer \"Nmt\" is not supported", LS_E_UNSUPPORTED },
        { "{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"},%s}",
          "precompiled_charsmap is damaged", LS_E_FORMAT },
        { "{\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"},%s}", "pre-tokenizer \"UnicodeScripts\"",
          LS_E_UNSUPPORTED },
        { "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a\"},\"behavior\":\"Isolated\"},%"
          "s}",
          "pattern (a is wrong", LS_E_FORMAT },
        { "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\" "
          "\"},\"behavior\":\"MergedWithNext\"},%s}",
          "MergedWithNext", LS_E_UNSUPPORTED },
        { "{\"decoder\":{\"type\":\"CTC\"},%s}", "decoder \"CTC\"", LS_E_UNSUPPORTED },
        { "{\"post_processor\":{\"type\":\"BertProcessing\"},%s}", "the post-processor has no cls and sep",
          LS_E_FORMAT },
        { "{\"post_processor\":{\"type\":\"RobertaProcessing\"},%s}", "the post-processor has no cls and sep",
          LS_E_FORMAT },
        { "{\"post_processor\":{\"type\":\"OtherProcessing\"},%s}", "post-processor \"OtherProcessing\"",
          LS_E_UNSUPPORTED },
        { "{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"</"
          "s>\"}}],\"special_tokens\":{}},%s}",
          "\"</s>\"", LS_E_FORMAT },
        { "{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Token\":1}]},%s}",
          "neither SpecialToken nor Sequence", LS_E_FORMAT },
        { "{\"added_tokens\":[{\"id\":9,\"content\":\"<s>\"}],\"post_processor\":{\"type\":"
          "\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}}],"
          "\"special_tokens\":{\"x\":{\"ids\":[5]}}},%s}",
          "ids that are not tokens", LS_E_FORMAT },
        { "{\"added_tokens\":[{\"id\":1,\"content\":\"new\"}],%s}", "the id is taken", LS_E_FORMAT },
        { "{\"model\":{\"type\":\"BPE\"", "not valid JSON", LS_E_FORMAT },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        ls_tokenizer *t = NULL;
        char text[600];
        const char *path = ls_test_path("tokenizer.json");
        snprintf(text, sizeof text, CASES[i].json, MODEL);
        ASSERT_OK(ls_file_write(path, text, strlen(text)));
        ASSERT_FAILS(ls_tokenizer_open(&t, path), CASES[i].status, "tokenizer.json", CASES[i].says);
        assert_null(t);
    }
    ls_tokenizer *t;
    ASSERT_FAILS(ls_tokenizer_open(&t, ls_test_path("nothing")), LS_E_IO, "nothing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals),
        cmocka_unit_test(stops),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, read_golden, drop_golden);
}
