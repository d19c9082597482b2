/* test_safetensors.c - variants of the format: what the safetensors package reads is read, and what it
 * refuses is refused with a reason (tests/golden/safetensors_variants.json, made by
 * tools/golden/safetensors_variants.py). */
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/json.h"
#include "lockstep/weights.h"
#include "support/support.h"

/* The package reads these, and they are refused here. */
static const struct {
    const char *name, *says;
} STRICTER[] = {
    { "dup_name", "uplicate" },          /* the package takes the last one */
    { "dup_meta_key", "uplicate" },      /* the same */
    { "entry_array", "not an object" },  /* ["F32", [2], [0, 8]] */
    { "nul_name", "NUL" },               /* no name in C */
    { "nine_dims", "9 dimensions" },     /* more than are supported */
    { "empty_huge", "too big integer" }, /* an empty tensor with a size of 2^64 - 1 */
    { "huge_empty", "too big integer" },
};
/* And these the other way round: both are harmless. */
static const char *const LOOSER[] = { "neg_zero_shape", "deep_unknown" };

static const char *stricter(const char *name)
{
    for (size_t i = 0; i < sizeof STRICTER / sizeof STRICTER[0]; i++)
        if (!strcmp(STRICTER[i].name, name))
            return STRICTER[i].says;
    return NULL;
}

static bool looser(const char *name) { return !strcmp(LOOSER[0], name) || !strcmp(LOOSER[1], name); }

static size_t from_hex(uint8_t *out, const char *hex)
{
    size_t n = strlen(hex) / 2;
    for (size_t i = 0; i < n; i++) {
        const char pair[3] = { hex[2 * i], hex[2 * i + 1], 0 };
        out[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return n;
}

static void reads_what_the_package_reads(void **state)
{
    (void)state;
    char *text;
    size_t size, i;
    json_t *rows, *row;
    int read = 0, refused = 0;
    ASSERT_OK(ls_file_read(&text, &size, LS_TEST_SOURCE_DIR "/tests/golden/safetensors_variants.json"));
    ASSERT_OK(ls_json_parse(&rows, text, size, "variants"));
    json_array_foreach(rows, i, row)
    {
        const char *name = json_string_value(json_object_get(row, "name")),
                   *hex = json_string_value(json_object_get(row, "file")), *says = stricter(name);
        const bool theirs = json_is_true(json_object_get(row, "read"));
        uint8_t *bytes = malloc(strlen(hex) / 2 + 1);
        const size_t n = from_hex(bytes, hex);
        ls_weights *w;
        const ls_status s = ls_weights_open_memory(&w, bytes, n, "the/file");
        const bool ours = s == LS_OK;
        if (ours != (says           ? false
                     : looser(name) ? true
                                    : theirs) ||
            (!ours && !strstr(ls_error_message(), "the/file")) ||
            (says && (!theirs || !strstr(ls_error_message(), says))) || (looser(name) && theirs))
            fail_msg("%s: the package %s, here: %s", name, theirs ? "reads it" : "refuses it",
                     ours ? "read" : ls_error_message());
        if (!strcmp(name, "nul_pad") && !strstr(ls_error_message(), "padded with NUL"))
            fail_msg("%s: %s", name, ls_error_message());
        if ((!strcmp(name, "limit_length") && !strstr(ls_error_message(), "truncated")) ||
            (!strcmp(name, "over_limit") && !strstr(ls_error_message(), "limit of 100000000")))
            fail_msg("%s: %s", name, ls_error_message());
        if (!strcmp(name, "null_metadata"))
            assert_null(ls_weights_metadata(w, "format"));
        read += ours;
        refused += !ours;
        ls_weights_close(&w);
        free(bytes);
    }
    assert_true(read > 40 && refused > 50);
    json_decref(rows);
    free(text);
}

/* A header of 20 MB that would take a gigabyte. */
static void counts_values_before_it_reads_them(void **state)
{
    (void)state;
    enum { MOST = 10000000 };
    static const char HEADER[] = "{\"\\\",,[\":[";
    const size_t begin = sizeof HEADER - 1, n = begin + 2 * MOST + 4;
    char *bytes = malloc(8 + n);
    ls_weights *w;
    memcpy(bytes, &(uint64_t){ n }, 8);
    memcpy(bytes + 8, HEADER, begin);
    for (size_t i = 0; i < MOST + 1; i++)
        memcpy(bytes + 8 + begin + 2 * i, "1,", 2);
    memcpy(bytes + 8 + n - 3, "1]}", 3);
    ASSERT_FAILS(ls_weights_open_memory(&w, bytes, 8 + n, "the/file"), LS_E_UNSUPPORTED, "the/file",
                 "more than 10000000 values");
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(reads_what_the_package_reads),
                                        cmocka_unit_test(counts_values_before_it_reads_them) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
