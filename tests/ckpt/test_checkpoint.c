/* test_checkpoint.c - a checkpoint folder is complete or does not exist. A damaged byte anywhere is found and
 * named. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"
#include "base/hash.h"
#include "base/str.h"
#include "ckpt/checkpoint.h"
#include "support/support.h"

static const char CONFIG[] = "{\"type\": \"mlp\"}\n", TRAINER[] = "{\"step\": 3}\n";
static float values[3000];
static ls_named_tensor tensors[2];

static ls_named_tensor named(const char *name, void *data, ls_type type)
{
    return (ls_named_tensor){ .name = name, .tensor = ls_tensor_of(data, &type) };
}

static void fill(void)
{
    for (int i = 0; i < 3000; i++)
        values[i] = (float)i / 7;
    tensors[0] = named("fc1.weight", values, LS_TYPE(LS_F32, 20, 100));
    tensors[1] = named("fc1.bias", values + 2000, LS_TYPE(LS_F32, 1000));
}

/* Tensors that one rank holds whole. */
static ls_status save_alone(const char *dir, const char *config, const char *trainer, int64_t n,
                            const ls_named_tensor *list, uint64_t max_file)
{
    ls_range mine[3];
    for (int64_t i = 0; i < n; i++)
        mine[i] = (ls_range){ .count = ls_type_count(&list[i].tensor.type), .data = list[i].tensor.data };
    return ls_checkpoint_save(
        dir,
        &(ls_checkpoint_contents){ config, trainer, .model = { .n = n, .tensors = list, .mine = mine },
                                   .max_file = max_file },
        NULL, NULL);
}

static ls_status save(const char *dir, uint64_t max_file)
{
    return save_alone(dir, CONFIG, TRAINER, 2, tensors, max_file);
}

static char *slurp(const char *dir, const char *name, size_t *size)
{
    char *path = ls_path_join(dir, name), *text;
    ASSERT_OK(ls_file_read(&text, size, path));
    free(path);
    return text;
}

static void round_trip(void **state)
{
    (void)state;
    fill();
    char dir[512];
    snprintf(dir, sizeof dir, "%s", ls_test_path("ck/step-00000003/"));
    ASSERT_OK(save(dir, 0));
    assert_int_equal(ls_test_count(ls_test_path("ck")), 1);
    assert_int_equal(ls_test_count(dir), 4);
    assert_true(ls_checkpoint_is(dir));
    int files;
    ASSERT_OK(ls_checkpoint_verify(dir, LS_VERIFY_FULL, &files));
    assert_int_equal(files, 3);
    ls_checkpoint c;
    ASSERT_OK(ls_checkpoint_open(&c, dir, LS_VERIFY_FULL, NULL));
    assert_string_equal(c.config, CONFIG);
    assert_string_equal(c.trainer, TRAINER);
    static float back[3000];
    ls_named_tensor want[] = { named("fc1.bias", back + 2000, LS_TYPE(LS_F32, 1000)),
                               named("fc1.weight", back, LS_TYPE(LS_F32, 20, 100)) };
    ASSERT_OK(ls_weights_load(c.weights, 2, want));
    assert_memory_equal(values, back, sizeof values);
    ls_checkpoint_release(&c);

    ASSERT_FAILS(save(dir, 0), LS_E_IO, "step-00000003", "already there");

    /* equal weights give equal files; shards verify too */
    ASSERT_OK(save(ls_test_path("ck/step-00000004"), 8000));
    ASSERT_OK(ls_checkpoint_verify(ls_test_path("ck/step-00000004"), LS_VERIFY_FULL, &files));
    assert_int_equal(files, 5);
    ASSERT_OK(save(ls_test_path("ck/step-00000005"), 0));
    size_t n, m;
    char *a = slurp(dir, "model.safetensors", &n),
         *b = slurp(ls_test_path("ck/step-00000005"), "model.safetensors", &m);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    free(a);
    free(b);
}

/* Before the first step the averages are zeros, which are not the model. */
static void averages_begin_with_step_1(void **state)
{
    (void)state;
    fill();
    for (int64_t step = 0; step < 2; step++) {
        float zeros[1000] = { 0 }, back[1000];
        const ls_named_tensor own[] = { named("ema.fc1.bias", zeros, LS_TYPE(LS_F32, 1000)),
                                        named("step", &step, LS_SCALAR(LS_I64)) };
        ls_range mine[] = { { .count = 1000, .data = zeros }, { .count = 1, .data = &step } },
                 all[] = { { .count = 2000, .data = values }, { .count = 1000, .data = values + 2000 } };
        const char *dir = ls_test_path(step ? "ema-1" : "ema-0");
        const ls_tensor_list model = { .n = 2, .tensors = tensors, .mine = all },
                             state_of_it = { .n = 2, .tensors = own, .mine = mine };
        ASSERT_OK(ls_checkpoint_save(
            dir, &(ls_checkpoint_contents){ CONFIG, TRAINER, .model = model, .optimizer = state_of_it }, NULL,
            NULL));
        ls_checkpoint c;
        ASSERT_OK(ls_checkpoint_open(&c, dir, LS_VERIFY_FULL, NULL));
        ASSERT_OK(ls_checkpoint_use_ema(&c));
        ASSERT_OK(ls_weight_read(ls_weights_find(c.weights, "fc1.bias"), LS_F32, back));
        assert_memory_equal(back, step ? zeros : values + 2000, sizeof back);
        ls_checkpoint_release(&c);
    }
}

/* The message of a failed verification names file and range: that of one piece, with byte `at` in it. */
static void expect_damage(const char *dir, const char *file, size_t at)
{
    ASSERT_FAILS(ls_checkpoint_verify(dir, LS_VERIFY_FULL, NULL), LS_E_FORMAT, file, "damaged");
    long long from = -1, to = -1;
    assert_int_equal(sscanf(strstr(ls_error_message(), ": bytes "), ": bytes %lld to %lld", &from, &to), 2);
    assert_true(from <= (long long)at && (long long)at <= to && to - from < 8 << 20);
}

/* Flips one byte of each file at a few places, cuts it, appends to it, removes it: verification names the
 * file every time. */
static void finds_damage(void **state)
{
    (void)state;
    fill();
    char dir[512];
    snprintf(dir, sizeof dir, "%s", ls_test_path("damage"));
    ASSERT_OK(save(dir, 0));
    static const char *const FILES[] = { "config.json", "model.safetensors", "trainer.json",
                                         "manifest.json" };
    for (int f = 0; f < 4; f++) {
        size_t n;
        char *good = slurp(dir, FILES[f], &n);
        char *path = ls_path_join(dir, FILES[f]);
        for (size_t at = 0; at < n; at += n / 5) {
            char *bad = malloc(n);
            memcpy(bad, good, n);
            bad[at] ^= 4;
            ASSERT_OK(ls_file_write(path, bad, n));
            free(bad);
            expect_damage(dir, FILES[f], at);
            if (f < 3)
                ASSERT_OK(ls_checkpoint_verify(dir, LS_VERIFY_SIZES, NULL));
        }
        for (size_t cut = 0; cut < 3; cut++) {
            ASSERT_OK(ls_file_write(path, good, cut == 2 ? n - 1 : cut * n / 2));
            ASSERT_FAILS(ls_checkpoint_verify(dir, LS_VERIFY_SIZES, NULL), LS_E_FORMAT, FILES[f],
                         f < 3 ? "the manifest says" : "damaged");
        }
        assert_int_equal(unlink(path), 0);
        ls_checkpoint c;
        ASSERT_FAILS(ls_checkpoint_open(&c, dir, LS_VERIFY_SIZES, NULL), f == 3 ? LS_E_IO : LS_E_FORMAT,
                     FILES[f], "not there");
        assert_null(c.weights);
        ASSERT_OK(ls_file_write(path, good, n));
        ASSERT_OK(ls_checkpoint_verify(dir, LS_VERIFY_FULL, NULL));
        free(path);
        free(good);
    }
}

/* More than one piece: the message names the piece. */
static void names_the_piece(void **state)
{
    (void)state;
    size_t n = ((size_t)17 << 20) + 5;
    uint8_t *bytes = calloc(n, 1);
    ls_named_tensor big = named("big", bytes, LS_TYPE(LS_U8, (int64_t)n));
    char dir[512];
    snprintf(dir, sizeof dir, "%s", ls_test_path("pieces"));
    ASSERT_OK(save_alone(dir, CONFIG, TRAINER, 1, &big, 0));
    char *path = ls_path_join(dir, "model.safetensors");
    FILE *f = fopen(path, "r+b");
    const long at = (16 << 20) + 500;
    fseek(f, at, SEEK_SET);
    fputc(1, f);
    fclose(f);
    expect_damage(dir, path, (size_t)at);
    free(path);
    free(bytes);
}

static void points_and_removes(void **state)
{
    (void)state;
    fill();
    char parent[512];
    snprintf(parent, sizeof parent, "%s", ls_test_path("links"));
    ASSERT_OK(save(ls_test_path("links/step-1"), 0));
    ASSERT_OK(save(ls_test_path("links/step-2"), 0));
    ASSERT_OK(ls_checkpoint_point(parent, "latest", "step-1"));
    ASSERT_OK(ls_checkpoint_point(parent, "latest", "step-2"));
    char target[64] = "";
    assert_true(readlink(ls_test_path("links/latest"), target, sizeof target - 1) > 0);
    assert_string_equal(target, "step-2");
    ls_checkpoint c;
    ASSERT_OK(ls_checkpoint_open(&c, ls_test_path("links/latest"), LS_VERIFY_FULL, NULL));
    ls_checkpoint_release(&c);
    ASSERT_FAILS(ls_checkpoint_point(parent, "step-1", "step-2"), LS_E_IO, "not a symbolic link");
    ASSERT_FAILS(ls_checkpoint_remove(ls_test_path("links/latest")), LS_E_ARG, "not a checkpoint");
    ASSERT_FAILS(ls_checkpoint_remove(parent), LS_E_ARG, "not a checkpoint");
    ASSERT_OK(ls_checkpoint_remove(ls_test_path("links/step-1")));
    assert_int_equal(ls_test_count(parent), 2);
    ASSERT_FAILS(ls_checkpoint_remove(ls_test_path("links/step-1")), LS_E_IO, "step-1");
}

/* Whatever stops a save, the name does not appear, and the next save cleans up. */
static void failures_leave_nothing(void **state)
{
    (void)state;
    fill();
    char dir[512];
    snprintf(dir, sizeof dir, "%s", ls_test_path("failing/step-1"));
    /* of a process that was killed */
    ASSERT_OK(ls_make_dirs(ls_test_path("failing/.lockstep-unfinished-step-0/deeper")));
    ASSERT_FAILS(save_alone(dir, "{", TRAINER, 2, tensors, 0), LS_E_FORMAT, "step-1", "config.json");
    assert_int_equal(ls_test_count(ls_test_path("failing")), 0);

    /* no file may grow beyond `limit`: the n-th byte of the first too large file fails */
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit old, limited;
    getrlimit(RLIMIT_FSIZE, &old);
    static const rlim_t LIMITS[] = { 0, 5, 14, 100, 4000, 12000 };
    for (size_t i = 0; i < sizeof LIMITS / sizeof LIMITS[0]; i++) {
        limited = old;
        limited.rlim_cur = LIMITS[i];
        setrlimit(RLIMIT_FSIZE, &limited);
        ls_status s = save(dir, 0);
        setrlimit(RLIMIT_FSIZE, &old);
        ASSERT_FAILS(s, LS_E_IO, "step-1", "model.safetensors");
        assert_int_equal(ls_test_count(ls_test_path("failing")), 0);
    }
    limited.rlim_cur = 100; /* without tensors, the manifest is the largest */
    setrlimit(RLIMIT_FSIZE, &limited);
    ls_status s = save_alone(dir, CONFIG, TRAINER, 0, tensors, 0);
    setrlimit(RLIMIT_FSIZE, &old);
    ASSERT_FAILS(s, LS_E_IO, "step-1", "manifest.json");
    assert_int_equal(ls_test_count(ls_test_path("failing")), 0);

    ASSERT_OK(save(dir, 0));
    ASSERT_OK(ls_checkpoint_verify(dir, LS_VERIFY_FULL, NULL));
    ASSERT_OK(ls_file_write(ls_test_path("plain"), "x", 1));
    ASSERT_FAILS(save(ls_test_path("plain/step-1"), 0), LS_E_IO, "plain");
}

static void write_manifest(const char *dir, int version, const char *entries)
{
    ls_str text = { 0 };
    char path[600];
    ls_str_printf(&text, "{\"format\":\"lockstep checkpoint\",\"version\":%d,\"files\":[\n%s],\n", version,
                  entries);
    ls_str_printf(&text, "\"digest\":\"%016" PRIx64 "\"}\n", ls_hash64(text.data, text.len));
    snprintf(path, sizeof path, "%s/manifest.json", dir);
    ASSERT_OK(ls_file_write(path, text.data, text.len));
    ls_str_release(&text);
}

/* A manifest comes from outside, and its digest says only that nobody damaged it: what it claims is checked.
 * SUM stands for that of file a. */
static void manifests_that_mislead(void **state)
{
    (void)state;
    static const struct {
        int version;
        const char *entry, *says;
    } CASES[] = {
        { 1, "{\"name\":\"a\",\"size\":4,\"pieces\":[[0,4,\"SUM\"]]}", NULL },
        { 2, "{\"name\":\"a\",\"size\":4,\"pieces\":[[0,4,\"SUM\"]]}", "version 2" },
        { 0, "{\"name\":\"a\",\"size\":4,\"pieces\":[[0,4,\"SUM\"]]}", "version 0" },
        { 1, "{\"name\":\"sub/a\",\"size\":4,\"pieces\":[[0,4,\"SUM\"]]}", "no plain name" },
        { 1, "{\"name\":\"../misled/a\",\"size\":4,\"pieces\":[[0,4,\"SUM\"]]}", "no plain name" },
        { 1, "{\"name\":\"\",\"size\":4,\"pieces\":[[0,4,\"SUM\"]]}", "no plain name" },
        { 1, "{\"name\":\"a\",\"size\":-4,\"pieces\":[[0,4,\"SUM\"]]}", "no plain name" },
        { 1, "{\"name\":\"b\",\"size\":4,\"pieces\":[[0,4,\"SUM\"]]}", "/b: not there" },
        { 1, "{\"name\":\"a\",\"size\":5,\"pieces\":[[0,5,\"SUM\"]]}", "holds 4 bytes, the manifest says 5" },
        { 1, "{\"name\":\"a\",\"size\":4,\"pieces\":[[0,0,\"SUM\"],[0,4,\"SUM\"]]}", "piece 0 of \"a\"" },
        { 1, "{\"name\":\"a\",\"size\":4,\"pieces\":[[1,3,\"SUM\"]]}", "piece 0 of \"a\"" },
        { 1, "{\"name\":\"a\",\"size\":4,\"pieces\":[[0,5,\"SUM\"]]}", "piece 0 of \"a\"" },
        { 1, "{\"name\":\"a\",\"size\":4,\"pieces\":[[0,4,\"0\"]]}", "piece 0 of \"a\"" },
        { 1, "{\"name\":\"a\",\"size\":4,\"pieces\":[[0,3,\"SUM\"]]}", "end at byte 3 of 4" },
        { 1, "{\"name\":\"a\",\"size\":4,\"pieces\":[]}", "end at byte 0 of 4" },
    };
    char dir[512], sum[17];
    snprintf(dir, sizeof dir, "%s", ls_test_path("misled"));
    ASSERT_OK(ls_make_dirs(ls_test_path("misled/sub")));
    ASSERT_OK(ls_file_write(ls_test_path("misled/a"), "data", 4));
    ASSERT_OK(ls_file_write(ls_test_path("misled/sub/a"), "data", 4));
    snprintf(sum, sizeof sum, "%016" PRIx64, ls_hash64("data", 4));
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        ls_str text = { 0 };
        for (const char *p = CASES[i].entry, *at; *p; p = *at ? at + 3 : at) {
            at = strstr(p, "SUM");
            at = at ? at : p + strlen(p);
            ls_str_add_n(&text, p, (size_t)(at - p));
            ls_str_add(&text, *at ? sum : "");
        }
        write_manifest(dir, CASES[i].version, ls_str_text(&text));
        ls_str_release(&text);
        if (CASES[i].says)
            ASSERT_FAILS(ls_checkpoint_verify(dir, LS_VERIFY_FULL, NULL), LS_E_FORMAT, CASES[i].says);
        else
            ASSERT_OK(ls_checkpoint_verify(dir, LS_VERIFY_FULL, NULL));
    }
}

/* With LOADED the header of a file is verified when it is opened, up to its last byte: here that is a piece
 * of its own, of which a changed byte is still a valid header. */
static void verifies_all_of_a_header(void **state)
{
    (void)state;
    static const char HEADER[] = "{\"w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}    ";
    char dir[512], bytes[128] = { (char)(sizeof HEADER - 1) };
    const size_t n = 8 + sizeof HEADER - 1 + 2, at[] = { 0, n - 6, n - 2, n };
    ls_str entries = { 0 };
    ls_checkpoint c;
    snprintf(dir, sizeof dir, "%s", ls_test_path("header"));
    ASSERT_OK(ls_make_dirs(dir));
    memcpy(bytes + 8, HEADER, sizeof HEADER);
    ASSERT_OK(ls_file_write(ls_test_path("header/config.json"), "{}", 2));
    ASSERT_OK(ls_file_write(ls_test_path("header/trainer.json"), "{}", 2));
    for (int i = 0; i < 2; i++)
        ls_str_printf(&entries, "{\"name\":\"%s.json\",\"size\":2,\"pieces\":[[0,2,\"%016" PRIx64 "\"]]},\n",
                      i ? "trainer" : "config", ls_hash64("{}", 2));
    ls_str_printf(&entries, "{\"name\":\"model.safetensors\",\"size\":%zu,\"pieces\":[", n);
    for (int i = 0; i < 3; i++)
        ls_str_printf(&entries, "%s[%zu,%zu,\"%016" PRIx64 "\"]", i ? "," : "", at[i], at[i + 1] - at[i],
                      ls_hash64(bytes + at[i], at[i + 1] - at[i]));
    ls_str_add(&entries, "]}");
    write_manifest(dir, 1, ls_str_text(&entries));
    ls_str_release(&entries);
    ASSERT_OK(ls_file_write(ls_test_path("header/model.safetensors"), bytes, n));
    ASSERT_OK(ls_checkpoint_open(&c, dir, LS_VERIFY_LOADED, NULL));
    ls_checkpoint_release(&c);
    bytes[n - 3] = '\n';
    ASSERT_OK(ls_file_write(ls_test_path("header/model.safetensors"), bytes, n));
    ASSERT_FAILS(ls_checkpoint_open(&c, dir, LS_VERIFY_LOADED, NULL), LS_E_FORMAT, "model.safetensors",
                 "are damaged");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(averages_begin_with_step_1),
        cmocka_unit_test(finds_damage),
        cmocka_unit_test(names_the_piece),
        cmocka_unit_test(points_and_removes),
        cmocka_unit_test(failures_leave_nothing),
        cmocka_unit_test(manifests_that_mislead),
        cmocka_unit_test(verifies_all_of_a_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
