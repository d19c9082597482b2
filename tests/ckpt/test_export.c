/* test_export.c - weights written for others: the same values in both formats, the layout that torch.save
 * uses, sizes and offsets that 32 bits cannot hold, and what a failure leaves behind. That PyTorch itself
 * reads the result is shown by tools/golden/pt.py check. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include "base/file.h"
#include "ckpt/pt.h"
#include "ckpt/zip.h"
#include "lockstep/weights.h"
#include "support/support.h"

#define GOLDEN LS_TEST_SOURCE_DIR "/tests/golden/pt_"

static ls_weights *opened(const char *path)
{
    ls_weights *w;
    ASSERT_OK(ls_weights_open(&w, path));
    return w;
}

static void assert_same_file(const char *a, const char *b)
{
    char *x, *y;
    size_t n, m;
    ASSERT_OK(ls_file_read(&x, &n, a));
    ASSERT_OK(ls_file_read(&y, &m, b));
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

static void keeps_values_order_and_places(void **state)
{
    (void)state;
    ls_weights *from = opened(GOLDEN "tensors.pt"), *want = opened(GOLDEN "tensors.safetensors");
    static const char *const NAMES[] = { "out.pt", "out.safetensors" };
    for (int k = 0; k < 2; k++) {
        const char *path = ls_test_path(NAMES[k]);
        ASSERT_OK(ls_weights_export(from, path));
        ls_weights *got = opened(path);
        assert_int_equal(ls_weights_count(got), ls_weights_count(from));
        for (int64_t i = 0; i < ls_weights_count(got); i++) {
            const ls_weight *a = ls_weights_at(got, i), *b = ls_weights_find(want, a->name);
            if (k == 0) /* in a safetensors file an empty tensor's place among its neighbours is not told */
                assert_string_equal(a->name, ls_weights_at(from, i)->name);
            assert_true(ls_type_equal(&a->type, &b->type));
            assert_null(a->strides);
            assert_memory_equal(a->data, b->data, b->bytes);
            assert_true(k == 1 || a->offset % 64 == 0);
        }
        ls_weights_close(&got);
    }
    int64_t entries;
    ASSERT_OK(ls_pt_verify(ls_test_path("out.pt"), &entries));
    assert_int_equal(entries, ls_weights_count(from) - 1 + 5); /* "parameter" and "tied" are one */
    ls_mapping m; /* an empty entry has no descriptor, and no flag for one */
    ASSERT_OK(ls_file_map(&m, ls_test_path("out.pt")));
    uint64_t empty = 0;
    for (size_t i = 0; i + 30 < m.size; i++)
        if (!memcmp(m.data + i, "PK\3\4", 4) && !memcmp(m.data + i + 6, "\0\x08", 2)) {
            empty = i + 30 + m.data[i + 26] + m.data[i + 28];
            assert_memory_equal(m.data + empty, "PK\3\4", 4);
        }
    assert_true(empty > 0);
    ls_file_unmap(&m);
    ASSERT_OK(ls_weights_export(from, ls_test_path("again.pt"))); /* neither name nor time is in it */
    assert_same_file(ls_test_path("out.pt"), ls_test_path("again.pt"));
    ls_weights_close(&from);
    ls_weights_close(&want);
}

static void writes_safetensors_as_save_does(void **state)
{
    (void)state;
    ls_weights *w = opened(GOLDEN "module.pt");
    ls_named_tensor list[16];
    int64_t n = ls_weights_count(w);
    assert_true(n <= 16);
    for (int64_t i = 0; i < n; i++) {
        const ls_weight *t = ls_weights_at(w, i);
        list[i] = (ls_named_tensor){ t->name, ls_tensor_of((void *)t->data, &t->type) };
    }
    ASSERT_OK(ls_weights_save(ls_test_path("saved.safetensors"), n, list));
    ASSERT_OK(ls_weights_export(w, ls_test_path("exported.safetensors")));
    assert_same_file(ls_test_path("saved.safetensors"), ls_test_path("exported.safetensors"));
    ls_weights_close(&w);
}

/* Entry by entry what PyTorch wrote, but for the pickle (the same values without PyTorch's shorthands) and
 * the random id at the end. */
static void lays_out_archives_as_pytorch_does(void **state)
{
    (void)state;
    ls_weights *w = opened(GOLDEN "module.pt");
    ASSERT_OK(ls_weights_export(w, ls_test_path("out.pt")));
    ls_weights_close(&w);
    ls_mapping ours, theirs;
    ls_arena arena;
    ls_zip a, b;
    ls_arena_init(&arena);
    ASSERT_OK(ls_file_map(&ours, ls_test_path("out.pt")));
    ASSERT_OK(ls_file_map(&theirs, GOLDEN "module.pt"));
    ASSERT_OK(ls_zip_read(&a, &arena, ours.data, ours.size, "ours", false));
    ASSERT_OK(ls_zip_read(&b, &arena, theirs.data, theirs.size, "theirs", false));
    assert_int_equal(a.count, b.count - 1);
    for (int64_t i = 0; i < a.count; i++) {
        const ls_zip_entry *x = &a.entries[i], *y = &b.entries[i];
        assert_string_equal(strchr(x->name, '/'), strchr(y->name, '/'));
        assert_int_equal(x->offset % 64, y->offset % 64);
        if (i > 0) {
            assert_int_equal(x->crc, y->crc);
            assert_int_equal(x->bytes, y->bytes);
            assert_memory_equal(a.bytes + x->offset, b.bytes + y->offset, x->bytes);
            /* the descriptor */
            assert_memory_equal(a.bytes + x->offset + x->bytes, b.bytes + y->offset + y->bytes, 16);
        }
    }
    /* a local header, up to the name */
    assert_memory_equal(ours.data, theirs.data, 26);
    /* the end records, up to the count */
    assert_memory_equal(ours.data + ours.size - 98, theirs.data + theirs.size - 98, 24);
    ls_file_unmap(&ours);
    ls_file_unmap(&theirs);
    ls_arena_release(&arena);
}

static void converts_floats_only(void **state)
{
    (void)state;
    ls_weights *w = opened(GOLDEN "module.pt");
    ls_dtype types[] = { LS_BF16, LS_F16, LS_F32 };
    for (int k = 0; k < 3; k++) {
        ASSERT_OK(ls_weights_export(w, ls_test_path("small.pt"), .floats = &types[k]));
        ls_weights *got = opened(ls_test_path("small.pt"));
        const ls_weight *t = ls_weights_find(got, "0.weight");
        assert_int_equal(t->type.dtype, types[k]);
        assert_int_equal(ls_weights_find(got, "1.num_batches_tracked")->type.dtype, LS_I64);
        uint8_t expected[64];
        ASSERT_OK(ls_weight_read(ls_weights_find(w, "0.weight"), types[k], expected));
        assert_memory_equal(t->data, expected, t->bytes);
        ls_weights_close(&got);
    }
    ls_dtype integer = LS_I32;
    ASSERT_FAILS(ls_weights_export(w, ls_test_path("small.pt"), .floats = &integer), LS_E_ARG, "float type",
                 "i32");
    ls_weights_close(&w);

    float values[] = { NAN, -65504, -65520 }; /* the last one rounds to infinity */
    ls_named_tensor one = { "layer.weight", ls_tensor_of(values, &LS_TYPE(LS_F32, 3)) };
    ASSERT_OK(ls_weights_save(ls_test_path("large.safetensors"), 1, &one));
    w = opened(ls_test_path("large.safetensors"));
    ls_dtype half = LS_F16;
    ASSERT_FAILS(ls_weights_export(w, ls_test_path("large.pt"), .floats = &half), LS_E_NUMERIC,
                 "large.safetensors", "element 2", "layer.weight", "65504", "bf16");
    assert_false(ls_file_exists(ls_test_path("large.pt")));
    ls_weights_close(&w);
    values[2] = 65504;
    ASSERT_OK(ls_weights_save(ls_test_path("large.safetensors"), 1, &one));
    w = opened(ls_test_path("large.safetensors"));
    ASSERT_OK(ls_weights_export(w, ls_test_path("large.pt"), .floats = &half));
    ls_weights_close(&w);
}

static bool stop_after_two(void *context, uint64_t done, uint64_t total)
{
    assert_true(done <= total);
    return ++*(int *)context < 2;
}

static void replaces_all_or_nothing(void **state)
{
    (void)state;
    const char *target = ls_test_path("target.pt");
    ls_weights *w = opened(GOLDEN "module.pt");
    ASSERT_OK(ls_weights_export(w, target));
    ls_weights_close(&w);
    w = opened(target);
    ASSERT_OK(ls_weights_export(w, target)); /* over itself */
    ls_weights_close(&w);
    w = opened(target);
    assert_int_equal(ls_weights_count(w), 7);
    ls_weights_close(&w);

    int before = ls_test_count(ls_test_dir()), calls = 0;
    w = opened(GOLDEN "tensors.pt");
    ASSERT_FAILS(ls_weights_export(w, target, .progress = stop_after_two, .context = &calls), LS_E_STOPPED,
                 "target.pt", "not written");
    assert_int_equal(calls, 2);
    ASSERT_FAILS(ls_weights_export(w, ls_test_path("target.onnx")), LS_E_ARG, "target.onnx",
                 ".safetensors, .pt or");
    ASSERT_FAILS(ls_weights_export(w, ls_test_path("nowhere/target.pt")), LS_E_IO, "nowhere/target.pt");
    assert_int_equal(symlink("/dev/full", ls_test_path("full.pt")), 0);
    ASSERT_FAILS(ls_weights_export(w, ls_test_path("full.pt")), LS_E_IO, "full.pt", "No space left");
    unlink(ls_test_path("full.pt"));
    ls_weights_close(&w);
    w = opened(GOLDEN "other_types.pt");
    ASSERT_FAILS(ls_weights_export(w, target), LS_E_UNSUPPORTED, "other_types.pt", "\"bool\"", "BOOL");
    ls_weights_close(&w);
    assert_int_equal(ls_test_count(ls_test_dir()), before); /* no left-overs */
    w = opened(target);
    assert_int_equal(ls_weights_count(w), 7);
    ls_weights_close(&w);
}

static uint32_t crc_of_zeros(uint64_t n)
{
    uint32_t crc = 0, piece = (uint32_t)crc32_z(0, (const uint8_t *)"\0", 1);
    for (uint64_t length = 1; n; n >>= 1, length *= 2) {
        if (n & 1)
            crc = crc ? (uint32_t)crc32_combine(crc, piece, (z_off_t)length) : piece;
        piece = (uint32_t)crc32_combine(piece, piece, (z_off_t)length);
    }
    return crc;
}

/* `n` zeros as a hole in the file. */
static void put_hole(ls_zip_writer *z, uint64_t n)
{
    assert_int_equal(write(z->out->fd, z->out->buffer, z->out->used), z->out->used);
    z->out->used = 0;
    assert_true(lseek(z->out->fd, (off_t)n, SEEK_CUR) > 0);
    z->out->offset += n;
    z->now.put = n;
    z->now.crc = crc_of_zeros(n);
}

static void assert_bytes_at(const char *path, uint64_t at, const void *expected, size_t n)
{
    uint8_t bytes[64];
    int fd = open(path, O_RDONLY);
    assert_int_equal(pread(fd, bytes, n, (off_t)at), n);
    close(fd);
    assert_memory_equal(bytes, expected, n);
}

/* A storage of 5 GiB, one of 4 GiB - 1 (which only looks as if it fitted), and small ones behind them. */
static void writes_what_32_bits_cannot_hold(void **state)
{
    (void)state;
    enum { N = 5 };
    const uint64_t sizes[N] = { 5ull << 30, UINT32_MAX, UINT32_MAX - 1, 4, 256 };
    ls_named_tensor list[N];
    char names[N][16];
    for (int i = 0; i < N; i++) {
        snprintf(names[i], 16, "t%d", i);
        list[i] = (ls_named_tensor){ names[i], ls_tensor_of(NULL, &LS_TYPE(LS_U8, (int64_t)sizes[i])) };
    }
    const char *path = ls_test_path("huge.pt");
    ls_zip_writer z;
    ls_str pickle = { 0 };
    ls_pt_pickle(&pickle, N, list, (const int64_t[N]){ 0, 1, 2, 3, 4 });
    ASSERT_OK(ls_zip_create(&z, path, "archive"));
    ASSERT_OK(ls_zip_add(&z, "data.pkl", pickle.data, pickle.len));
    for (int i = 0; i < 3; i++) {
        snprintf(names[i], 16, "data/%d", i);
        ASSERT_OK(ls_zip_begin(&z, names[i], sizes[i]));
        put_hole(&z, sizes[i]);
        ASSERT_OK(ls_zip_end(&z));
    }
    static const char small[256] = "abcd";
    ASSERT_OK(ls_zip_add(&z, "data/3", small, 4));
    ASSERT_OK(ls_zip_add(&z, "data/4", small, 256));
    ASSERT_OK(ls_zip_commit(&z));
    ls_str_release(&pickle);

    ls_weights *w = opened(path);
    uint64_t offset[N];
    for (int i = 0; i < N; i++) {
        const ls_weight *t = ls_weights_at(w, i);
        offset[i] = t->offset;
        assert_int_equal(t->bytes, sizes[i]);
        assert_int_equal(t->offset % 64, 0);
    }
    assert_true(offset[3] > UINT32_MAX);
    assert_memory_equal(ls_weights_at(w, 3)->data, "abcd", 4);
    ls_weights_close(&w);

    /* Before 5 GiB: version 4.5, both sizes in the zip64 field; behind them a descriptor with 64-bit sizes,
     * then the next header. */
    uint64_t header = 0; /* of data/0: the second one */
    for (char signature[4] = ""; header == 0 || memcmp(signature, "PK\3\4", 4) != 0;) {
        int fd = open(path, O_RDONLY);
        assert_int_equal(pread(fd, signature, 4, (off_t)++header), 4);
        close(fd);
        assert_true(header < offset[0]);
    }
    assert_bytes_at(path, header + 4, "\x2d\0", 2);
    assert_bytes_at(path, header + 18, "\xff\xff\xff\xff\xff\xff\xff\xff\x0e\0", 10);
    assert_bytes_at(path, header + 44,
                    "\1\0\x10\0"
                    "\0\0\0\x40\1\0\0\0"
                    "\0\0\0\x40\1\0\0\0"
                    "FB",
                    22);
    assert_bytes_at(path, offset[0] + sizes[0], "PK\7\10", 4);
    assert_bytes_at(path, offset[0] + sizes[0] + 8,
                    "\0\0\0\x40\1\0\0\0"
                    "\0\0\0\x40\1\0\0\0"
                    "PK\3\4",
                    20);
    /* the largest that fits */
    assert_bytes_at(path, offset[2] + sizes[2] + 8,
                    "\xfe\xff\xff\xff\xfe\xff\xff\xff"
                    "PK\3\4",
                    12);

    /* In the directory the last entry's offset is in a zip64 field of 8 bytes, and nowhere else. */
    uint64_t field = (uint64_t)ls_file_size(path) - 98 - 12;
    assert_bytes_at(path, field, "\1\0\x08\0", 4);
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, "\1\0\4\0", 4, (off_t)field), 4);
    ASSERT_FAILS(ls_weights_open(&w, path), LS_E_FORMAT, "huge.pt", "data/4 is not where");
    assert_int_equal(pwrite(fd, "\2\0\x08\0", 4, (off_t)field), 4);
    ASSERT_FAILS(ls_weights_open(&w, path), LS_E_FORMAT, "huge.pt", "data/4 is not where");
    close(fd);
}

/* A pickle of more than 64 MiB is refused as a state dict. */
static void refuses_a_huge_pickle(void **state)
{
    (void)state;
    ls_weights *w;
    ls_zip_writer z;
    ASSERT_OK(ls_zip_create(&z, ls_test_path("pickle.pt"), "archive"));
    ASSERT_OK(ls_zip_begin(&z, "data.pkl", (64u << 20) + 1));
    put_hole(&z, (64u << 20) + 1);
    ASSERT_OK(ls_zip_end(&z));
    ASSERT_OK(ls_zip_commit(&z));
    ASSERT_FAILS(ls_weights_open(&w, ls_test_path("pickle.pt")), LS_E_UNSUPPORTED, "pickle.pt", "67108865",
                 "state_dict()");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_values_order_and_places),
        cmocka_unit_test(writes_safetensors_as_save_does),
        cmocka_unit_test(lays_out_archives_as_pytorch_does),
        cmocka_unit_test(converts_floats_only),
        cmocka_unit_test(replaces_all_or_nothing),
        cmocka_unit_test(writes_what_32_bits_cannot_hold),
        cmocka_unit_test(refuses_a_huge_pickle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
