/* test_gguf.c - GGUF files: blocks with the bytes of ggml's own functions, a file that is read back, and what
 * is refused. That llama.cpp reads the files is shown by tools/parity_gguf.py. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "ckpt/gguf.h"
#include "support/support.h"

static uint64_t fnv(const uint8_t *bytes, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ bytes[i]) * 0x100000001b3u;
    return h;
}

enum { N = 4096 };

/* Uneven numbers; groups of zeros, a group without negative ones, an element far from all others. */
static void numbers(float *x)
{
    for (uint32_t i = 0; i < N; i++) {
        const float u = (float)((int64_t)(i * 2654435761u >> 16) - 32768) / 32768;
        x[i] = u * u * u;
        if ((i >= 64 && i < 96) || (i >= 512 && i < 768))
            x[i] = 0;
        if (i >= 256 && i < 512)
            x[i] = fabsf(x[i]);
    }
    x[800] = 3;
    for (int i = 0; i < N; i++)
        x[i] *= 0.125f;
}

static void blocks_have_the_bytes_of_ggml(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t hash; /* of ggml_quantize_chunk of these numbers */
    } TYPES[] = { { "Q8_0", 0xe5a9a591d5580f72 },
                  { "Q4_0", 0xf0c165364dc1205a },
                  { "Q5_0", 0xc858d6b61f18da64 },
                  { "Q4_K", 0x9911fcf5fb318274 },
                  { "Q6_K", 0xf9cc227f7b775527 } };
    static float x[N];
    static uint8_t out[N * 2];
    numbers(x);
    for (size_t k = 0; k < sizeof TYPES / sizeof TYPES[0]; k++) {
        const ls_gguf_kind *kind = ls_gguf_kind_named(TYPES[k].name);
        for (int i = 0; i < N / kind->block; i++)
            kind->pack(x + i * kind->block, out + i * kind->bytes);
        const uint64_t hash = fnv(out, (size_t)(N / kind->block * kind->bytes));
        if (hash != TYPES[k].hash)
            print_message("%s: %016llx\n", kind->name, (unsigned long long)hash);
        assert_true(hash == TYPES[k].hash);
    }
    memset(x, 0, sizeof x); /* the smallest numbers have no inverse */
    for (int i = 0; i < 256; i++)
        x[i] = 1e-40f * (float)(i % 7);
    for (size_t k = 0; k < sizeof TYPES / sizeof TYPES[0]; k++)
        ls_gguf_kind_named(TYPES[k].name)->pack(x, out);
}

/* ---- a file */

typedef struct made {
    float matrix[6][64], norm[64];
    ls_weight weights[2];
    ls_gguf_tensor tensors[2];
    ls_gguf_keys keys;
} made;

static void make(made *m)
{
    *m = (made){ 0 };
    for (int i = 0; i < 6 * 64; i++)
        m->matrix[i / 64][i % 64] = (float)i / 64;
    for (int i = 0; i < 64; i++)
        m->norm[i] = (float)i;
    m->weights[0] = (ls_weight){ .name = "a.weight",
                                 .file = "made",
                                 .stored = "F32",
                                 .loadable = true,
                                 .type = { .dtype = LS_F32, .ndim = 2, .dims = { 6, 64 } },
                                 .bytes = sizeof m->matrix,
                                 .data = m->matrix };
    m->weights[1] = m->weights[0];
    m->weights[1].name = "b.weight";
    m->weights[1].type = (ls_type){ .dtype = LS_F32, .ndim = 1, .dims = { 64 } };
    m->weights[1].bytes = sizeof m->norm;
    m->weights[1].data = m->norm;
    for (int i = 0; i < 2; i++)
        m->tensors[i] = (ls_gguf_tensor){ .from = &m->weights[i], .kind = ls_gguf_kind_named("F32") };
    strcpy(m->tensors[0].name, "a");
    strcpy(m->tensors[1].name, "b");
    ls_gguf_text(&m->keys, "general.architecture", "llama");
    ls_gguf_u32(&m->keys, "number", 7);
    ls_gguf_f32(&m->keys, "eps", 1e-5f);
    ls_gguf_bool(&m->keys, "yes", true);
    ls_gguf_array(&m->keys, "tokens", LS_GGUF_TEXT, 9);
    for (int i = 0; i < 9; i++)
        ls_gguf_item_text(&m->keys, "token", 5);
    ls_gguf_array(&m->keys, "types", LS_GGUF_I32, 2);
    ls_gguf_item_i32(&m->keys, -1);
    ls_gguf_item_i32(&m->keys, 2);
}

static const ls_weights_export_opts OPTS = { LS_WEIGHTS_EXPORT_DEFAULTS };

static ls_status write_made(made *m, const char *name)
{
    return ls_gguf_write(ls_test_path(name), &m->keys, 2, m->tensors, &OPTS);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    made m;
    ls_weights *w;
    float x[6 * 64];
    make(&m);
    ASSERT_OK(write_made(&m, "a.gguf"));
    ASSERT_OK(ls_weights_open(&w, ls_test_path("a.gguf")));
    assert_int_equal(ls_weights_count(w), 2);
    const ls_weight *t = ls_weights_find(w, "a");
    assert_int_equal(t->type.dims[0], 6);
    assert_int_equal(t->type.dims[1], 64);
    assert_int_equal(t->offset % 32, 0);
    ASSERT_OK(ls_weight_read(t, LS_F32, x));
    assert_memory_equal(x, m.matrix, sizeof x);
    char *text = json_dumps(ls_gguf_keys_of(w), JSON_COMPACT | JSON_REAL_PRECISION(15));
    assert_string_equal(
        text, "{\"general.architecture\":\"llama\",\"number\":7,\"eps\":1e-5,\"yes\":true,"
              "\"tokens\":{\"items\":9,\"first\":[\"token\",\"token\",\"token\",\"token\",\"token\","
              "\"token\",\"token\",\"token\"]},\"types\":[-1,2]}");
    free(text);
    ls_weights_close(&w);
    ls_str_release(&m.keys.text);
}

static void tensors_change_on_their_way(void **state)
{
    (void)state;
    made m;
    ls_weights *w;
    float x[6 * 64];
    make(&m);
    m.tensors[0].change = LS_GGUF_TAKE_TURNS;
    m.tensors[0].heads = 1;
    m.tensors[1].change = LS_GGUF_ADD_ONE;
    ASSERT_OK(write_made(&m, "turns.gguf"));
    ASSERT_OK(ls_weights_open(&w, ls_test_path("turns.gguf")));
    ASSERT_OK(ls_weight_read(ls_weights_find(w, "a"), LS_F32, x));
    static const int FROM[] = { 0, 3, 1, 4, 2, 5 };
    for (int r = 0; r < 6; r++)
        assert_memory_equal(x + 64 * r, m.matrix[FROM[r]], sizeof m.matrix[0]);
    ASSERT_OK(ls_weight_read(ls_weights_find(w, "b"), LS_F32, x));
    assert_true(x[0] == 1 && x[63] == 64);
    ls_weights_close(&w);
    m.tensors[0].change = LS_GGUF_TRANSPOSE;
    ASSERT_OK(write_made(&m, "turned.gguf"));
    ASSERT_OK(ls_weights_open(&w, ls_test_path("turned.gguf")));
    const ls_weight *t = ls_weights_find(w, "a");
    assert_true(t->type.dims[0] == 64 && t->type.dims[1] == 6);
    ASSERT_OK(ls_weight_read(t, LS_F32, x));
    assert_true(x[1] == m.matrix[1][0] && x[6] == m.matrix[0][1]);
    ls_weights_close(&w);
    ls_str_release(&m.keys.text);
}

static bool stop(void *context, uint64_t done, uint64_t total)
{
    (void)context;
    return done < total;
}

static ls_status write_again(void *m) { return write_made(m, "memory.gguf"); }

static void a_failure_leaves_no_file(void **state)
{
    (void)state;
    made m;
    make(&m);
    const int before = ls_test_count(ls_test_dir());
    m.tensors[0].kind = ls_gguf_kind_named("F16");
    m.matrix[3][5] = 7e4f;
    ASSERT_FAILS(write_made(&m, "x.gguf"), LS_E_NUMERIC, "x.gguf", "a.weight", "70000", "F16 cannot hold",
                 "export as bf16 or f32");
    m.tensors[0].kind = ls_gguf_kind_named("Q8_0");
    m.matrix[3][5] = NAN;
    ASSERT_FAILS(write_made(&m, "x.gguf"), LS_E_NUMERIC, "a.weight", "Q8_0 cannot hold", "export as f32");
    m.matrix[3][5] = 1e6f;
    ASSERT_FAILS(write_made(&m, "x.gguf"), LS_E_NUMERIC, "1e+06");
    m.matrix[3][5] = 0;
    ASSERT_FAILS(ls_gguf_write(ls_test_path("x.gguf"), &m.keys, 2, m.tensors,
                               &(ls_weights_export_opts){ LS_WEIGHTS_EXPORT_DEFAULTS, .progress = stop }),
                 LS_E_STOPPED, "x.gguf", "not written");
    assert_int_equal(ls_test_count(ls_test_dir()), before);
    assert_int_equal(symlink("/dev/full", ls_test_path("full.gguf")), 0);
    ASSERT_FAILS(write_made(&m, "full.gguf"), LS_E_IO, "full.gguf", "No space left");
    unlink(ls_test_path("full.gguf"));
    assert_true(ls_test_memory(write_again, &m, 1) >= 3);
    ls_str_release(&m.keys.text);
}

/* ---- what comes from outside: no cut or changed file is read beyond its end (fuzz.gguf has the rest) */

static void a_cut_file_is_refused(void **state)
{
    (void)state;
    made m;
    char *bytes;
    size_t size;
    make(&m);
    ASSERT_OK(write_made(&m, "a.gguf"));
    ASSERT_OK(ls_file_read(&bytes, &size, ls_test_path("a.gguf")));
    for (size_t n = 4; n < size; n += n < 600 ? 1 : 97) {
        ls_weights *w;
        char *copy = malloc(n);
        memcpy(copy, bytes, n);
        ASSERT_FAILS(ls_weights_open_memory(&w, copy, n, "cut"), LS_E_FORMAT, "cut");
        free(copy);
    }
    static const struct {
        size_t at;
        uint8_t is;
        ls_status code;
        const char *say;
    } CHANGES[] = {
        { 4, 9, LS_E_UNSUPPORTED, "GGUF of version 9" },
        { 15, 1, LS_E_FORMAT, "beyond the end" },    /* tensors */
        { 23, 1, LS_E_FORMAT, "beyond the end" },    /* keys */
        { 31, 0x7f, LS_E_FORMAT, "beyond the end" }, /* a name's length */
        { 32, 0xff, LS_E_FORMAT, "UTF-8" },
        { 52, 77, LS_E_FORMAT, "type 77" },
    };
    for (size_t i = 0; i < sizeof CHANGES / sizeof CHANGES[0]; i++) {
        ls_weights *w;
        const char was = bytes[CHANGES[i].at];
        bytes[CHANGES[i].at] = (char)CHANGES[i].is;
        ASSERT_FAILS(ls_weights_open_memory(&w, bytes, size, "changed"), CHANGES[i].code, "changed",
                     CHANGES[i].say);
        bytes[CHANGES[i].at] = was;
    }
    free(bytes);
    ls_str_release(&m.keys.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_have_the_bytes_of_ggml), cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(tensors_change_on_their_way),   cmocka_unit_test(a_failure_leaves_no_file),
        cmocka_unit_test(a_cut_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
