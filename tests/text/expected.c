/* expected.c - see expected.h. */
#include "text/expected.h"
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "support/support.h"

json_t *golden_tokenizers;

int read_golden(void **state)
{
    (void)state;
    char *text;
    size_t n;
    ASSERT_OK(ls_file_read(&text, &n, LS_TEST_SOURCE_DIR "/tests/golden/tokenizers.json"));
    ASSERT_OK(ls_json_parse(&golden_tokenizers, text, n, "tokenizers.json"));
    free(text);
    return 0;
}

int drop_golden(void **state)
{
    (void)state;
    json_decref(golden_tokenizers);
    return 0;
}

void expect_text(const char *name, const ls_tokenizer *t, const ls_tokens *ids, bool skip, const char *want)
{
    char *text;
    size_t bytes;
    ASSERT_OK(ls_tokenizer_decode(t, ids->ids, ids->n, skip, &text, &bytes));
    if (bytes != strlen(want) || memcmp(text, want, bytes) != 0)
        fail_msg("%s: ids give \"%s\" instead of \"%s\"", name, text, want);
    free(text);
}

void expect_streamed(const char *name, const ls_tokenizer *t, const ls_tokens *ids, const char *want)
{
    ls_text_stream *s;
    ls_str all = { 0 };
    ASSERT_OK(ls_text_stream_create(&s, t));
    for (int64_t i = 0; i <= ids->n; i++) {
        const char *text;
        size_t bytes;
        if (i < ids->n)
            ASSERT_OK(ls_text_stream_add(s, ids->ids[i], &text, &bytes));
        else
            ls_text_stream_end(s, &text, &bytes);
        if (ls_utf8_sound(text, bytes) != bytes)
            fail_msg("%s: token %lld of \"%s\" gave a part of a character", name, (long long)i, want);
        ls_str_add_n(&all, text, bytes);
    }
    if (strcmp(ls_str_text(&all), want))
        fail_msg("%s: one by one the ids give \"%s\" instead of \"%s\"", name, ls_str_text(&all), want);
    ls_str_release(&all);
    ls_text_stream_destroy(&s);
}

void expect_small(const ls_tokenizer *t, const char *text, int n, const int32_t *want)
{
    ls_tokens ids = { 0 };
    ASSERT_OK(ls_tokenizer_encode(t, text, strlen(text), true, &ids));
    assert_int_equal(ids.n, n);
    assert_memory_equal(ids.ids, want, sizeof *want * (size_t)n);
    free(ids.ids);
}

ls_tokenizer *make_tokenizer(const char *json)
{
    ls_tokenizer *t;
    const char *path = ls_test_path("tokenizer.json");
    ASSERT_OK(ls_file_write(path, json, strlen(json)));
    ASSERT_OK(ls_tokenizer_open(&t, path));
    return t;
}
