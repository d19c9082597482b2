/* test_weights.c - safetensors: the contents of a good file, every kind of damaged file is refused with its
 * reason, and the bytes that the writer writes. */
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/fault.h"
#include "base/file.h"
#include "base/str.h"
#include "lockstep/weights.h"
#include "support/support.h"

#define F32_2X3 "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}"

static ls_named_tensor named(const char *name, void *data, ls_type type)
{
    return (ls_named_tensor){ .name = name, .tensor = ls_tensor_of(data, &type) };
}

/* A file in memory: length, header, `data` bytes counting up. */
static uint8_t file[1 << 16];
static size_t make_file(const char *header, size_t header_bytes, size_t data)
{
    memset(file, 0, sizeof file);
    for (int i = 0; i < 8; i++)
        file[i] = (uint8_t)(header_bytes >> (8 * i));
    memcpy(file + 8, header, header_bytes);
    for (size_t i = 0; i < data; i++)
        file[8 + header_bytes + i] = (uint8_t)i;
    return 8 + header_bytes + data;
}

static ls_status open_text(ls_weights **w, const char *header, size_t data)
{
    return ls_weights_open_memory(w, file, make_file(header, strlen(header), data), "the/file");
}

static void reads_a_good_file(void **state)
{
    (void)state;
    ls_weights *w;
    /* out of order in the header, an unpadded header (data at an odd address), an empty tensor, a scalar, one
     * that we cannot load */
    assert_int_equal(open_text(&w,
                               "{\"b\":{\"shape\":[],\"dtype\":\"I64\",\"data_offsets\":[24,32]},"
                               "\"__metadata__\":{\"format\":\"pt\"}," F32_2X3 ","
                               "\"none\":{\"dtype\":\"BF16\",\"shape\":[4,0],\"data_offsets\":[24,24]},"
                               "\"f8\":{\"dtype\":\"F8_E4M3\",\"shape\":[3],\"data_offsets\":[32,35]}}  ",
                               35),
                     LS_OK);
    assert_int_equal(ls_weights_count(w), 4);
    assert_string_equal(ls_weights_at(w, 0)->name, "a");
    assert_string_equal(ls_weights_at(w, 1)->name, "none");
    assert_string_equal(ls_weights_at(w, 2)->name, "b");
    assert_string_equal(ls_weights_at(w, 3)->name, "f8");
    assert_null(ls_weights_at(w, 4));
    assert_null(ls_weights_find(w, "c"));
    assert_string_equal(ls_weights_metadata(w, "format"), "pt");
    assert_null(ls_weights_metadata(w, "more"));
    assert_int_equal(ls_weights_file_count(w), 1);

    const ls_weight *a = ls_weights_find(w, "a");
    ls_type want = LS_TYPE(LS_F32, 2, 3);
    assert_true(ls_type_equal(&a->type, &want));
    assert_int_equal(a->bytes, 24);
    uint8_t bytes[24];
    ASSERT_OK(ls_weight_read(a, LS_F32, bytes));
    for (int i = 0; i < 24; i++)
        assert_int_equal(bytes[i], i);
    assert_int_equal(ls_weights_find(w, "b")->type.ndim, 0);
    const ls_weight *f8 = ls_weights_find(w, "f8");
    assert_false(f8->loadable);
    assert_string_equal(f8->stored, "F8_E4M3");
    ASSERT_FAILS(ls_weight_read(f8, LS_F32, bytes), LS_E_UNSUPPORTED, "the/file", "f8", "F8_E4M3");
    ASSERT_FAILS(ls_weight_read(ls_weights_find(w, "b"), LS_F32, bytes), LS_E_SHAPE, "\"b\"", "I64", "f32");
    ls_weights_close(&w);
    assert_null(w);

    assert_int_equal(open_text(&w, "{}", 0), LS_OK);
    assert_int_equal(ls_weights_count(w), 0);
    assert_null(ls_weights_find(w, "a"));
    ls_weights_close(&w);
}

#define ENTRY(dtype, shape, offsets) \
    "{\"x\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
static const struct {
    const char *header;
    size_t data;
    const char *says;
} BAD[] = {
    { "[1]", 0, "'{'" },
    { "{\"a\":", 0, "the/file" },
    { "{} x", 0, "the/file" },
    { "{" F32_2X3 "," F32_2X3 "}", 24, "uplicate" },
    { "{\"a\xff\":1}", 0, "the/file" },
    { "{" F32_2X3 "}", 23, "23 bytes" },
    { "{" F32_2X3 "}", 25, "25" },
    { "{}", 1, "holds 1" },
    { "{\"x\":7}", 0, "not an object" },
    { ENTRY("3", "[1]", "[0,4]"), 4, "\"dtype\"" },
    { ENTRY("\"F33\"", "[1]", "[0,4]"), 4, "F33" },
    { ENTRY("\"F32\"", "3", "[0,4]"), 4, "\"shape\"" },
    { ENTRY("\"F32\"", "[-1]", "[0,4]"), 4, "\"shape\"" },
    { ENTRY("\"F32\"", "[1.0]", "[0,4]"), 4, "\"shape\"" },
    { ENTRY("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "9 dimensions" },
    { ENTRY("\"F32\"", "[4294967296,4294967296]", "[0,4]"), 4, "63 bits" },
    { ENTRY("\"F32\"", "[4294967296,2147483647]", "[0,4]"), 4, "63 bits" },
    { ENTRY("\"F32\"", "[4611686018427387904,4,0]", "[0,0]"), 0, "63 bits" },
    { ENTRY("\"F4\"", "[3]", "[0,2]"), 2, "whole bytes" },
    { ENTRY("\"F32\"", "[1]", "[0]"), 4, "data_offsets" },
    { ENTRY("\"F32\"", "[1]", "[0,4,8]"), 4, "data_offsets" },
    { ENTRY("\"F32\"", "[1]", "[0,\"4\"]"), 4, "data_offsets" },
    { ENTRY("\"F32\"", "[1]", "[4,0]"), 4, "[4, 0]" },
    { ENTRY("\"F32\"", "[1]", "[-4,0]"), 4, "[-4, 0]" },
    { ENTRY("\"F32\"", "[1]", "[4,8]"), 4, "4 bytes of data" },
    { ENTRY("\"F32\"", "[2]", "[0,4]"), 4, "needs 8" },
    { ENTRY("\"F32\"", "[1]", "[0,9223372036854775807]"), 4, "do not lie" },
    { ENTRY("\"F32\"", "[1]", "[0,9223372036854775808]"), 4, "the/file" },
    { ENTRY("\"F32\"", "[1]", "[4,8]"), 8, "4 bytes after" },
    { "{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"y\":{\"dtype\":\"U8\",\"shape\":[2],"
      "\"data_offsets\":[1,3]}}",
      3, "inside those of \"x\"" },
    { "{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"y\":{\"dtype\":\"U8\",\"shape\":[1],"
      "\"data_offsets\":[2,3]}}",
      3, "1 bytes after" },
    { "{\"__metadata__\":3}", 0, "__metadata__" },
    { "{\"__metadata__\":{\"n\":3}}", 0, "\"n\"" },
};

static void refuses_bad_files(void **state)
{
    (void)state;
    ls_weights *w;
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        ls_status s = open_text(&w, BAD[i].header, BAD[i].data);
        assert_null(w);
        if (s == LS_OK || !strstr(ls_error_message(), BAD[i].says) || !strstr(ls_error_message(), "the/file"))
            fail_msg("case %zu %s: status %s, message: %s", i, BAD[i].header, ls_status_name(s),
                     ls_error_message());
    }
}

static void refuses_bad_lengths(void **state)
{
    (void)state;
    ls_weights *w;
    size_t n = make_file("{" F32_2X3 "}", strlen("{" F32_2X3 "}"), 24);
    for (size_t cut = 0; cut < n; cut++) /* every truncation */
        ASSERT_FAILS(ls_weights_open_memory(&w, file, cut, "cut"), LS_E_FORMAT, "cut",
                     cut < 8        ? "too few"
                     : cut < n - 24 ? "truncated"
                                    : "do not lie");
    ASSERT_OK(ls_weights_open_memory(&w, file, n, "whole"));
    ls_weights_close(&w);
    file[4] = 1; /* 4 GiB of header */
    ASSERT_FAILS(ls_weights_open_memory(&w, file, n, "huge"), LS_E_FORMAT, "limit of 100000000");
    memset(file, 0xff, 8);
    ASSERT_FAILS(ls_weights_open_memory(&w, file, n, "huge"), LS_E_FORMAT, "18446744073709551615");
    memset(file, 0, 8);
    ASSERT_FAILS(ls_weights_open_memory(&w, file, n, "empty"), LS_E_FORMAT, "'{'");
    file[1] = 0x10;
    ASSERT_FAILS(ls_weights_open_memory(&w, file, n, "long"), LS_E_FORMAT, "4096", "truncated");
}

static void writes_exact_bytes(void **state)
{
    (void)state;
    float a[6] = { 0, 1, 2, 3, 4, 5 };
    int64_t step = 7;
    ls_named_tensor t[] = { named("w.z", a, LS_TYPE(LS_F32, 2, 3)), named("step", &step, LS_SCALAR(LS_I64)),
                            named("void", NULL, LS_TYPE(LS_U8, 0, 5)) };
    char path[512];
    snprintf(path, sizeof path, "%s", ls_test_path("out.safetensors"));
    ASSERT_OK(ls_weights_save(path, 3, t));
    static const char HEADER[] = "{\"__metadata__\":{\"format\":\"pt\"},\"w.z\":{\"dtype\":\"F32\",\"shape\":"
                                 "[2,3],\"data_offsets\":[0,24]},"
                                 "\"step\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[24,32]},"
                                 "\"void\":{\"dtype\":\"U8\",\"shape\":[0,5],\"data_offsets\":[32,32]}}";
    size_t header = (strlen(HEADER) + 7) / 8 * 8, size;
    char *bytes;
    ASSERT_OK(ls_file_read(&bytes, &size, path));
    assert_int_equal(size, 8 + header + 32);
    assert_int_equal((uint8_t)bytes[0] | (uint8_t)bytes[1] << 8, header);
    assert_memory_equal(bytes + 8, HEADER, strlen(HEADER));
    for (size_t i = strlen(HEADER); i < header; i++)
        assert_int_equal(bytes[8 + i], ' ');
    assert_memory_equal(bytes + 8 + header, a, 24);
    assert_memory_equal(bytes + 8 + header + 24, &step, 8);
    free(bytes);

    ls_weights *w;
    ASSERT_OK(ls_weights_open(&w, path));
    assert_int_equal(ls_weights_find(w, "w.z")->offset % 8, 0);
    assert_int_equal(ls_weights_count(w), 3);
    ls_weights_close(&w);

    char name[] = "abcdefghi";
    for (int n = 1; n < 9; n++) { /* headers of every length modulo 8 */
        ls_named_tensor one = named(name + n, a, LS_TYPE(LS_F32, 6));
        ASSERT_OK(ls_weights_save(path, 1, &one));
        ASSERT_OK(ls_weights_open(&w, path));
        assert_int_equal(ls_weights_find(w, name + n)->offset % 8, 0);
        ls_weights_close(&w);
    }

    ls_named_tensor twice[] = { t[0], t[0] };
    ASSERT_FAILS(ls_weights_save(path, 2, twice), LS_E_ARG, "w.z");
    t[0].tensor.strides[0] = 7;
    ASSERT_FAILS(ls_weights_save(path, 1, t), LS_E_ARG, "contiguous");
    ASSERT_FAILS(ls_weights_save(ls_test_path("w.pt"), 1, t), LS_E_USAGE, "let the name end in .safetensors");
    ls_named_tensor reserved = named("__metadata__", a, LS_TYPE(LS_F32, 1));
    ASSERT_FAILS(ls_weights_save(path, 1, &reserved), LS_E_ARG, "name");
    ASSERT_FAILS(ls_weights_save(ls_test_path("no/such/folder"), 0, t), LS_E_IO, "no/such/folder");
    ASSERT_OK(ls_weights_open(&w, path)); /* the refused saves left it alone */
    ls_weights_close(&w);
    ASSERT_FAILS(ls_weights_open(&w, ls_test_path("none.safetensors")), LS_E_IO, "none.safetensors");
}

static void shards(void **state)
{
    (void)state;
    float a[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    ls_named_tensor t[] = { named("c", a, LS_TYPE(LS_F32, 4)), named("a", a + 4, LS_TYPE(LS_F32, 2)),
                            named("b", a + 6, LS_TYPE(LS_F32, 2)) };
    char dir[512];
    snprintf(dir, sizeof dir, "%s", ls_test_path("sharded"));
    ASSERT_OK(ls_make_dirs(dir));
    ls_weights *w;
    ASSERT_FAILS(ls_weights_open(&w, dir), LS_E_IO, "sharded", "model.safetensors.index.json");
    ASSERT_OK(ls_weights_save_dir(dir, 15, 3, t)); /* c alone is larger than the limit */
    assert_int_equal(ls_test_count(dir), 4);
    ASSERT_OK(ls_weights_save_dir(dir, 16, 3, t)); /* [c] [a b]; older shards beside it do not matter */
    ASSERT_OK(ls_weights_open(&w, dir));
    assert_int_equal(ls_weights_file_count(w), 2);
    assert_int_equal(ls_weights_count(w), 3);
    float back[8] = { 0 };
    ls_named_tensor want[] = { named("a", back + 4, LS_TYPE(LS_F32, 2)),
                               named("b", back + 6, LS_TYPE(LS_F32, 2)),
                               named("c", back, LS_TYPE(LS_F32, 4)) };
    ASSERT_OK(ls_weights_load(w, 3, want));
    assert_memory_equal(a, back, sizeof a);
    ls_weights_close(&w);
    char index[600];
    snprintf(index, sizeof index, "%s/model.safetensors.index.json", dir);
    ASSERT_OK(ls_weights_open(&w, index));
    ls_weights_close(&w);
    char *text;
    ASSERT_OK(ls_file_read(&text, NULL, index));
    ASSERT_CONTAINS(text, "\"total_size\":32}"); /* bytes of all tensors */
    free(text);

    static const struct {
        const char *text;
        ls_status code;
        const char *says;
    } BAD_INDEX[] = {
        { "{", LS_E_FORMAT, "index.json" },
        { "{}", LS_E_FORMAT, "weight_map" },
        { "{\"weight_map\":{\"c\":3}}", LS_E_FORMAT, "does not name a file" },
        { "{\"weight_map\":{\"c\":\"../x\"}}", LS_E_FORMAT, "beside the index" },
        { "{\"weight_map\":{\"c\":\"gone.safetensors\"}}", LS_E_IO, "gone.safetensors" },
        { "{\"weight_map\":{\"b\":\"model-00002-of-00002.safetensors\"}}", LS_E_FORMAT, "\"a\"" },
        { "{\"weight_map\":{\"c\":\"model-00001-of-00002.safetensors\",\"a\":\"model-00002-of-00002."
          "safetensors\"}}",
          LS_E_FORMAT, "\"b\"" },
        { "{\"weight_map\":{\"c\":\"model-00001-of-00002.safetensors\",\"d\":\"model-00001-of-00002."
          "safetensors\"}}",
          LS_E_FORMAT, "\"d\"" },
        { "{\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\",\"b\":\"model-00002-of-00002."
          "safetensors\","
          "\"c\":\"model-00001-of-00002.safetensors\"}}",
          LS_E_FORMAT, "but is in" },
        { "{\"weight_map\":{\"a\":\"model-00002-of-00002.safetensors\",\"b\":\"model-00002-of-00003."
          "safetensors\","
          "\"c\":\"model-00001-of-00002.safetensors\"}}",
          LS_E_FORMAT, "both in" },
    };
    for (size_t i = 0; i < sizeof BAD_INDEX / sizeof BAD_INDEX[0]; i++) {
        ASSERT_OK(ls_file_write(index, BAD_INDEX[i].text, strlen(BAD_INDEX[i].text)));
        ASSERT_FAILS(ls_weights_open(&w, dir), BAD_INDEX[i].code, BAD_INDEX[i].says);
        assert_null(w);
    }
}

static void load_reports_everything(void **state)
{
    (void)state;
    ls_weights *w;
    assert_int_equal(open_text(&w,
                               "{" F32_2X3
                               ",\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[24,28]},"
                               "\"c\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[28,32]},"
                               "\"extra\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[32,33]}}",
                               33),
                     LS_OK);
    float a[6], b[2] = { -1, -1 }, c[1];
    char names[6][8] = { "m0", "m1", "m2", "m3", "m4", "m5" };
    ls_named_tensor want[9] = { named("a", a, LS_TYPE(LS_F32, 3, 2)), named("b", b, LS_TYPE(LS_F32, 2)),
                                named("c", c, LS_TYPE(LS_F32, 1)) };
    for (int i = 0; i < 6; i++)
        want[3 + i] = named(names[i], a, LS_TYPE(LS_F32, 1));
    ASSERT_FAILS(ls_weights_load(w, 9, want), LS_E_SHAPE, "the/file",
                 "6 missing: m0 [1]; m1 [1]; m2 [1]; m3 [1]; ...", "1 unexpected: extra [1]",
                 "1 of another shape: a is [2, 3], wanted [3, 2]",
                 "2 of another type: b is BF16, wanted f32");
    ASSERT_FAILS(ls_weights_load(w, 9, want, .convert = true), LS_E_SHAPE, "1 of another type: c is I32");
    ASSERT_FAILS(ls_weights_load(w, 0, want), LS_E_SHAPE, "4 unexpected");
    want[0] = named("a", a, LS_TYPE(LS_F32, 2, 3));
    ASSERT_FAILS(ls_weights_load(w, 2, want, .convert = true), LS_E_SHAPE, "2 unexpected: c [1]; extra [1]");
    assert_true(b[0] == -1); /* refused: nothing was copied */
    ls_fault_arm(1u << LS_POINT_MEMORY, 0, LS_FAIL_ONCE);
    /* with misfits in hand: asan sees that they are freed */
    ASSERT_FAILS(ls_weights_load(w, 9, want), LS_E_MEMORY, "out of memory");
    ls_fault_disarm();
    ASSERT_OK(ls_weights_load(w, 2, want, .convert = true, .allow_unexpected = true, .check_only = true));
    assert_true(b[0] == -1);
    ASSERT_OK(ls_weights_load(w, 2, want, .convert = true, .allow_unexpected = true));
    uint8_t bf[4] = { 24, 25, 26, 27 }; /* the bytes of b as bf16: the upper halves of floats */
    uint32_t u = (uint32_t)(bf[0] | bf[1] << 8) << 16;
    float f;
    memcpy(&f, &u, 4);
    assert_true(b[0] == f);
    want[0].tensor.data = NULL;
    ASSERT_FAILS(ls_weights_load(w, 2, want, .convert = true, .allow_unexpected = true), LS_E_ARG, "\"a\"");
    ls_weights_close(&w);
}

/* Every bf16 and f16 goes to f64 and back unchanged; halfway cases go to even; what a float cannot hold
 * becomes infinite. */
static void conversions(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        ls_dtype type = k ? LS_F16 : LS_BF16;
        static uint16_t in[65536], out[65536];
        static double wide[65536];
        for (int i = 0; i < 65536; i++)
            in[i] = (uint16_t)i;
        ls_weight t = { .name = "t",
                        .file = "f",
                        .stored = "?",
                        .loadable = true,
                        .type = LS_TYPE(type, 65536),
                        .bytes = sizeof in,
                        .data = in };
        ASSERT_OK(ls_weight_read(&t, LS_F64, wide));
        t.type.dtype = LS_F64;
        t.data = wide;
        t.bytes = sizeof wide;
        ASSERT_OK(ls_weight_read(&t, type, out));
        for (int i = 0; i < 65536; i++)
            if (!isnan(wide[i]))
                assert_int_equal(out[i], in[i]);
            else
                assert_true((out[i] & (k ? 0x7c00 : 0x7f80)) == (k ? 0x7c00 : 0x7f80) &&
                            (out[i] & (k ? 0x3ff : 0x7f)) != 0);
    }
    static const struct {
        double x;
        uint16_t bf16, f16;
    } CASES[] = {
        { 1.0, 0x3f80, 0x3c00 },
        { -2.0, 0xc000, 0xc000 },
        { 0.0, 0, 0 },
        { -0.0, 0x8000, 0x8000 },
        /* halfway in bf16: to even, down and up */
        { 1.00390625, 0x3f80, 0x3c04 },
        { 1.01171875, 0x3f82, 0x3c0c },
        /* a float in between would round this down */
        { 1.00390625 + 0x1p-40, 0x3f81, 0x3c04 },
        { 65504, 0x4780, 0x7bff },
        { 65519.99, 0x4780, 0x7bff },
        { 65520, 0x4780, 0x7c00 },
        { 0x1p-24, 0x3380, 0x0001 },
        { 0x1p-25, 0x3300, 0x0000 },
        { 0x1.8p-25, 0x3340, 0x0001 },
        { 0x1.8p-24, 0x33c0, 0x0002 },
        { 0x1p-133, 0x0001, 0 },
        { 0x1p-134, 0, 0 },
        { 1e39, 0x7f80, 0x7c00 },
        { INFINITY, 0x7f80, 0x7c00 },
        { -INFINITY, 0xff80, 0xfc00 },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        double x = CASES[i].x;
        ls_weight t = { .name = "t",
                        .file = "f",
                        .stored = "F64",
                        .loadable = true,
                        .type = LS_SCALAR(LS_F64),
                        .bytes = 8,
                        .data = &x };
        uint16_t h;
        ASSERT_OK(ls_weight_read(&t, LS_BF16, &h));
        assert_int_equal(h, CASES[i].bf16);
        ASSERT_OK(ls_weight_read(&t, LS_F16, &h));
        assert_int_equal(h, CASES[i].f16);
    }
}

/* What is there twice may be left out; what only seems to be is not. */
static void copies_are_left_out(void **state)
{
    (void)state;
    float table[6] = { 1, 2, 3, 4, 5, 6 }, other[6] = { 1, 2, 3, 4, 5, 7 };
    const ls_type type = LS_TYPE(LS_F32, 2, 3);
    const ls_named_tensor t[] = { { "a.copy", ls_tensor_of(table, &type) },
                                  { "b.other", ls_tensor_of(other, &type) },
                                  { "c.nobody", ls_tensor_of(other, &type) },
                                  { "shared", ls_tensor_of(table, &type) } };
    const char *path = ls_test_path("twice.safetensors");
    ls_weights *w;
    ASSERT_OK(ls_weights_save(path, 4, t));
    ASSERT_OK(ls_weights_open(&w, path));
    ls_weights_leave_out(w, "a.copy", "shared");
    ls_weights_leave_out(w, "b.other", "shared");
    ls_weights_leave_out(w, "c.nobody", NULL);
    ls_weights_leave_out(w, "d.absent", "shared");
    ls_weights_leave_out(w, "shared", "absent");
    assert_int_equal(ls_weights_count(w), 2);
    assert_null(ls_weights_find(w, "a.copy"));
    assert_null(ls_weights_find(w, "c.nobody"));
    assert_string_equal(ls_weights_at(w, 0)->name, "b.other");
    assert_true(!memcmp(ls_weights_find(w, "b.other")->data, other, sizeof other) &&
                !memcmp(ls_weights_find(w, "shared")->data, table, sizeof table));
    ls_weights_close(&w);
}

/* Thousands of tensors in hundreds of shards take memory for the tensors once or twice, not once for every
 * shard. */
static void many_shards(void **state)
{
    (void)state;
    enum { SHARDS = 500, EACH = 40 };
    static char header[EACH * 100];
    ls_str index = { 0 };
    ls_weights *w;
    ASSERT_OK(ls_make_dirs(ls_test_path("many")));
    ls_str_add(&index, "{\"weight_map\":{");
    for (int s = 0; s < SHARDS; s++) {
        char name[64];
        size_t n = 0;
        snprintf(name, sizeof name, "many/%d.safetensors", s);
        for (int i = 0; i < EACH; i++) {
            n += (size_t)sprintf(header + n,
                                 "%c\"w%d.%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                                 i ? ',' : '{', s, i, i, i + 1);
            ls_str_printf(&index, "%s\"w%d.%d\":\"%d.safetensors\"", s || i ? "," : "", s, i, s);
        }
        header[n++] = '}';
        FILE *f = fopen(ls_test_path(name), "w"); /* ls_file_write would wait for the disk each time */
        assert_non_null(f);
        const size_t bytes = make_file(header, n, EACH);
        assert_int_equal(fwrite(file, 1, bytes, f), bytes);
        assert_int_equal(fclose(f), 0);
    }
    ls_str_add(&index, "}}");
    ASSERT_OK(ls_file_write(ls_test_path("many/model.safetensors.index.json"), index.data, index.len));
    ls_str_release(&index);
    const size_t before = mallinfo2().uordblks + mallinfo2().hblkhd; /* 0 with a sanitizer's allocator */
    ASSERT_OK(ls_weights_open(&w, ls_test_path("many")));
    const size_t taken = mallinfo2().uordblks + mallinfo2().hblkhd - before;
    assert_int_equal(ls_weights_count(w), SHARDS * EACH);
    assert_in_range(taken, 0, 64 << 20);
    ls_weights_close(&w);
}

/* A request to stop ends opening, and checking. */
static void stops(void **state)
{
    (void)state;
    static volatile sig_atomic_t flag = 1;
    float a[2] = { 1, 2 };
    ls_weights *w;
    const char *path = ls_test_path("stop.safetensors");
    ASSERT_OK(ls_weights_save(path, 1, (ls_named_tensor[]){ named("a", a, LS_TYPE(LS_F32, 2)) }));
    ls_stop_on(&flag);
    ASSERT_FAILS(ls_weights_open(&w, path), LS_E_STOPPED, "stopped while opening", "stop.safetensors");
    assert_null(w);
    ls_stop_on(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_good_file),
        cmocka_unit_test(refuses_bad_files),
        cmocka_unit_test(refuses_bad_lengths),
        cmocka_unit_test(writes_exact_bytes),
        cmocka_unit_test(shards),
        cmocka_unit_test(load_reports_everything),
        cmocka_unit_test(conversions),
        cmocka_unit_test(copies_are_left_out),
        cmocka_unit_test(many_shards),
        cmocka_unit_test(stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
