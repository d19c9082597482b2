/* test_dcp.c - DCP directories of PyTorch: those that PyTorch wrote (tests/golden/dcp_*, made by
 * tools/golden/dcp.py), damaged ones, and those that export writes. That PyTorch itself loads the latter is
 * shown by tools/golden/dcp.py check. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/fault.h"
#include "base/file.h"
#include "ckpt/checkpoint.h"
#include "ckpt/dcp.h"
#include "ckpt/dcp_state.h"
#include "ckpt/elements.h"
#include "ckpt/parts.h"
#include "ckpt/safetensors.h"
#include "support/support.h"

#define GOLDEN LS_TEST_SOURCE_DIR "/tests/golden/dcp_"

static ls_weights *opened(const char *path)
{
    ls_weights *w;
    ASSERT_OK(ls_weights_open(&w, path));
    return w;
}

/* The two hold the same tensors: names, types, shapes, values. */
static void assert_same(const char *dcp, const char *other)
{
    ls_weights *got = opened(dcp), *want = opened(other);
    assert_int_equal(ls_weights_count(got), ls_weights_count(want));
    for (int64_t i = 0; i < ls_weights_count(got); i++) {
        const ls_weight *a = ls_weights_at(got, i), *b = ls_weights_find(want, a->name);
        if (!b || !ls_type_equal(&a->type, &b->type) || strcmp(a->stored, b->stored) || a->bytes != b->bytes)
            fail_msg("%s: tensor %s is another one", dcp, a->name);
        void *values = malloc(a->bytes + 1);
        ASSERT_OK(ls_weight_read(a, a->type.dtype, values));
        if (memcmp(values, b->data, b->bytes))
            fail_msg("%s: tensor %s has other values", dcp, a->name);
        free(values);
    }
    ls_weights_close(&got);
    ls_weights_close(&want);
}

static void reads_what_pytorch_wrote(void **state)
{
    (void)state;
    /* 4 ranks: rows, columns, blocks, copies, an empty chunk */
    assert_same(GOLDEN "layouts", GOLDEN "layouts.safetensors");
    assert_same(GOLDEN "toy", GOLDEN "toy.safetensors"); /* 2 ranks, with an optimizer */
    /* the state dict itself, with names that begin with "model." */
    assert_same(GOLDEN "root", GOLDEN "root.safetensors");
    assert_same(GOLDEN "app", GOLDEN "root.safetensors"); /* one object of the program's around it */
    ls_weights *w = opened(GOLDEN "layouts");
    assert_int_equal(ls_weights_file_count(w), 4);
    assert_null(ls_weights_find(w, "rows")->data);
    assert_null(ls_weights_find(w, "plain")->parts);      /* in one piece, where it lies */
    const ls_weight *plain = ls_weights_find(w, "plain"); /* `offset` is in its file */
    char *bytes;
    size_t n;
    ASSERT_OK(ls_file_read(&bytes, &n, plain->file));
    assert_true(plain->offset + plain->bytes <= n);
    assert_memory_equal(bytes + plain->offset, plain->data, plain->bytes);
    free(bytes);
    double converted[15];
    ASSERT_OK(ls_weight_read(ls_weights_find(w, "rows"), LS_F64, converted));
    for (int i = 0; i < 15; i++)
        assert_true(converted[i] == i / 4.0 - 1);
    ls_weights_close(&w);
}

/* Whatever run of elements a rank wants, it gets those. */
static void reads_any_range(void **state)
{
    (void)state;
    ls_weights *w = opened(GOLDEN "layouts"), *whole = opened(GOLDEN "layouts.safetensors");
    for (int64_t i = 0; i < ls_weights_count(w); i++) {
        const ls_weight *t = ls_weights_at(w, i), *want = ls_weights_find(whole, t->name);
        const size_t size = ls_dtype_size(t->type.dtype);
        const ls_named_tensor named = { t->name, ls_tensor_of(NULL, &t->type) };
        const int64_t all = ls_type_count(&t->type);
        char got[24 * 8];
        for (int64_t first = 0; first < all; first++)
            for (int64_t n = 1; n <= all - first; n++) {
                const ls_range mine = { .first = first, .count = n, .data = got };
                ASSERT_OK(ls_ranges_load(
                    w, &(ls_tensor_list){ .n = 1, .tensors = &named, .mine = &mine },
                    &(ls_weights_load_opts){ LS_WEIGHTS_LOAD_DEFAULTS, .allow_unexpected = true }));
                if (memcmp(got, (const char *)want->data + (size_t)first * size, (size_t)n * size))
                    fail_msg("%s: elements %d to %d", t->name, (int)first, (int)(first + n));
            }
    }
    ls_weights_close(&w);
    ls_weights_close(&whole);
}

/* A tied tensor may lie in chunks under both of its names. */
static void compares_tensors_in_chunks(void **state)
{
    (void)state;
    ls_weights *w = opened(GOLDEN "layouts"), *whole = opened(GOLDEN "layouts.safetensors");
    for (int64_t i = 0; i < ls_weights_count(w); i++) {
        const ls_weight *t = ls_weights_at(w, i), *twin = ls_weights_find(whole, t->name);
        assert_true(ls_weight_equal(t, t) && ls_weight_equal(t, twin) && ls_weight_equal(twin, t));
    }
    ls_weight other = *ls_weights_find(whole, "rows");
    float values[15];
    memcpy(values, other.data, sizeof values);
    values[14] += 1;
    other.data = values;
    assert_false(ls_weight_equal(ls_weights_find(w, "rows"), &other));
    assert_null(ls_weights_find(w, "both")->data);
    ls_weights_leave_out(w, "both", "middle"); /* of one type and size, in another shape */
    assert_non_null(ls_weights_find(w, "both"));
    ls_weights_leave_out(w, "both", "both");
    assert_null(ls_weights_find(w, "both"));
    ls_weights_close(&w);
    ls_weights_close(&whole);
}

/* A copy of a golden that may be damaged. */
static const char *copy(const char *golden, char dir[450])
{
    static const char *const FILES[] = { ".metadata", "__0_0.distcp", "__1_0.distcp" };
    static int number;
    char name[32], *data;
    size_t n;
    snprintf(name, sizeof name, "damaged-%d", number++);
    snprintf(dir, 450, "%s", ls_test_path(name));
    ASSERT_OK(ls_make_dirs(dir));
    for (size_t i = 0; i < sizeof FILES / sizeof FILES[0]; i++) {
        char *from = ls_path_join(golden, FILES[i]), *to = ls_path_join(dir, FILES[i]);
        if (ls_file_exists(from)) {
            ASSERT_OK(ls_file_read(&data, &n, from));
            ASSERT_OK(ls_file_write(to, data, n));
            free(data);
        }
        free(from);
        free(to);
    }
    return dir;
}

static void tells_damage(void **state)
{
    (void)state;
    char dir[450], path[500];
    ls_weights *w;
    copy(GOLDEN "toy", dir);
    snprintf(path, sizeof path, "%s/__1_0.distcp", dir);
    assert_int_equal(truncate(path, 20000), 0);
    ASSERT_FAILS(ls_weights_open(&w, dir), LS_E_FORMAT, "__1_0.distcp", "holds 20000 bytes", "net", "cut");
    assert_int_equal(truncate(path, 60000), 0); /* as long as it should be, and zeros */
    ASSERT_FAILS(ls_weights_open(&w, dir), LS_E_FORMAT, "__1_0.distcp, from byte", "damaged");
    assert_int_equal(remove(path), 0);
    ASSERT_FAILS(ls_weights_open(&w, dir), LS_E_IO, "__1_0.distcp", ".metadata names this file");

    copy(GOLDEN "toy", dir); /* the files of two ranks mixed up */
    char other[500];
    snprintf(path, sizeof path, "%s/__0_0.distcp", dir);
    snprintf(other, sizeof other, "%s/__1_0.distcp", dir);
    assert_int_equal(rename(other, path), 0);
    assert_int_equal(symlink("__0_0.distcp", other), 0);
    ASSERT_FAILS(ls_weights_open(&w, dir), LS_E_FORMAT, "__0_0.distcp");
}

/* An index that ends at any byte is refused. */
static void tells_a_cut_index(void **state)
{
    (void)state;
    char *bytes;
    size_t n;
    ASSERT_OK(ls_file_read(&bytes, &n, GOLDEN "layouts/.metadata"));
    for (size_t k = 0; k < n; k += 7) {
        ls_arena arena;
        ls_dcp_index x;
        ls_arena_init(&arena);
        uint8_t *cut = malloc(k + 1); /* so that a sanitizer sees what is read behind it */
        memcpy(cut, bytes, k);
        ASSERT_FAILS(ls_dcp_index_read(&x, &arena, cut, k, "cut", NULL), LS_E_FORMAT, "cut");
        free(cut);
        ls_arena_release(&arena);
    }
    free(bytes);
}

static void refuses_what_does_not_add_up(void **state)
{
    (void)state;
    static const struct {
        const char *name, *says[2];
        ls_status code;
    } BAD[] = {
        { "gap", { "\"w\"", "hold 3 of its 4 elements" }, LS_E_FORMAT },
        { "overlap", { "\"w\"", "overlap" }, LS_E_FORMAT },
        { "again", { "\"w\"", "overlap" }, LS_E_FORMAT }, /* one chunk 2001 times: room for one is enough */
        { "outside", { "\"w\"", "leads out of it" }, LS_E_FORMAT },
        { "huge", { "\"w\"", "63 bits" }, LS_E_FORMAT },
        { "nowhere", { "\"w\"", "in which file" }, LS_E_FORMAT },
        { "elsewhere", { "\"w\"", "not the name of a file beside the index" }, LS_E_FORMAT },
        { "system", { "posix system", "nothing in a file is ever executed" }, LS_E_UNSUPPORTED },
        { "itself", { "not a Metadata", "damaged" }, LS_E_FORMAT },
        { "state_twice", { "its state twice", "damaged" }, LS_E_FORMAT },
        { "empty", { "STOP", "damaged" }, LS_E_FORMAT },
    };
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        char path[512], *bytes;
        size_t n;
        ls_arena arena;
        ls_dcp_index x;
        ls_arena_init(&arena);
        snprintf(path, sizeof path, LS_TEST_SOURCE_DIR "/tests/fuzz/corpus/dcp/%s", BAD[i].name);
        ASSERT_OK(ls_file_read(&bytes, &n, path));
        ASSERT_FAILS(ls_dcp_index_read(&x, &arena, (uint8_t *)bytes, n, BAD[i].name, NULL), BAD[i].code,
                     BAD[i].name, BAD[i].says[0], BAD[i].says[1]);
        free(bytes);
        ls_arena_release(&arena);
    }
}

static void assert_same_bytes(const char *a, const char *b, const char *name)
{
    char *x = ls_path_join(a, name), *y = ls_path_join(b, name), *p, *q;
    size_t n, m;
    ASSERT_OK(ls_file_read(&p, &n, x));
    ASSERT_OK(ls_file_read(&q, &m, y));
    assert_int_equal(n, m);
    assert_memory_equal(p, q, n);
    free(x);
    free(y);
    free(p);
    free(q);
}

static void writes_what_it_reads(void **state)
{
    (void)state;
    char first[450], second[450];
    snprintf(first, sizeof first, "%s/", ls_test_path("first"));
    snprintf(second, sizeof second, "%s/", ls_test_path("deep/second"));
    ls_weights *w = opened(GOLDEN "layouts");
    ASSERT_OK(ls_weights_export(w, first));
    assert_same(first, GOLDEN "layouts.safetensors");
    ASSERT_FAILS(ls_weights_export(w, first), LS_E_IO, "first", "already there");
    ls_weights_close(&w);
    w = opened(first);
    ASSERT_OK(ls_weights_export(w, second)); /* from one chunk each: the same bytes */
    ls_weights_close(&w);
    assert_same_bytes(first, second, ".metadata");
    assert_same_bytes(first, second, "__0_0.distcp");
    assert_int_equal(ls_test_count(first), 2);
}

/* As ranks write it: a file each, and the tensors are sharded by rows; more ranks than rows; the same bytes
 * from what was sharded before. */
static void writes_a_file_a_rank(void **state)
{
    (void)state;
    char dirs[3][450];
    ls_weights *w = opened(GOLDEN "layouts");
    static const int RANKS[] = { 2, 7, 7 };
    for (int k = 0; k < 3; k++) {
        char name[32];
        snprintf(name, sizeof name, "ranks-%d", k);
        snprintf(dirs[k], sizeof dirs[k], "%s/", ls_test_path(name));
        ASSERT_OK(ls_weights_export(w, dirs[k], .ranks = RANKS[k]));
        assert_same(dirs[k], GOLDEN "layouts.safetensors");
        assert_int_equal(ls_test_count(dirs[k]), RANKS[k] + 1);
        ls_weights_close(&w);
        w = opened(dirs[k]);
        const ls_weight *rows = ls_weights_find(w, "rows"), *count = ls_weights_find(w, "count");
        assert_true(rows->parts && rows->parts->n == (k ? 5 : 2) && !count->parts);
    }
    ls_weights_close(&w);
    assert_same_bytes(dirs[1], dirs[2], ".metadata");
    assert_same_bytes(dirs[1], dirs[2], "__4_0.distcp");
    w = opened(GOLDEN "layouts");
    ASSERT_FAILS(ls_weights_export(w, dirs[0], .ranks = 0), LS_E_ARG, "1 to 512 ranks");
    ls_weights_close(&w);
}

/* A tensor without elements is one chunk, of rank 0. */
static void writes_an_empty_tensor(void **state)
{
    (void)state;
    ls_dcp_writer writer;
    char dir[450], index[500];
    snprintf(dir, sizeof dir, "%s", ls_test_path("empty"));
    ASSERT_OK(ls_dcp_create(&writer, dir, 2, false));
    ASSERT_OK(ls_dcp_put_tensor(&writer, 1, &(ls_dcp_step){ .word = "none" }, &LS_TYPE(LS_F32, 0, 3), ""));
    ASSERT_OK(ls_dcp_commit(&writer));
    char *bytes;
    size_t n;
    snprintf(index, sizeof index, "%s/.metadata", dir);
    ASSERT_OK(ls_file_read(&bytes, &n, index));
    assert_non_null(memmem(bytes, n, "ChunkStorageMetadata", 20));
    assert_non_null(memmem(bytes, n, "__0_0.distcp", 12));
    assert_null(memmem(bytes, n, "__1_0.distcp", 12));
    free(bytes);
    ls_weights *w = opened(dir);
    const ls_weight *none = ls_weights_find(w, "none");
    assert_true(none && ls_type_equal(&none->type, &LS_TYPE(LS_F32, 0, 3)));
    ls_weights_close(&w);
}

static bool stop(void *context, uint64_t done, uint64_t total)
{
    (void)context, (void)done, (void)total;
    return false;
}

/* A failure, or a stop, leaves nothing of the directory. */
static void writes_all_or_nothing(void **state)
{
    (void)state;
    char dir[450];
    snprintf(dir, sizeof dir, "%s/", ls_test_path("alone/out"));
    ls_weights *w = opened(GOLDEN "toy");
    ASSERT_FAILS(ls_weights_export(w, dir, .progress = stop), LS_E_STOPPED, "out", "not written");
    assert_int_equal(ls_test_count(ls_test_path("alone")), 0);
    int failures = 0;
    for (int64_t n = 0;; n++) {
        ls_fault_arm(LS_POINTS_OF_FILES & ~(1u << LS_POINT_REMOVE), n, LS_FAIL_ONCE);
        ls_status s = ls_weights_export(w, dir);
        const int64_t points = ls_fault_disarm();
        if (n >= points) {
            ASSERT_OK(s);
            break;
        }
        failures += s != LS_OK;
        assert_true(s == LS_OK || strlen(ls_error_message()) > 0);
        if (ls_dir_exists(dir)) { /* all was done but the last sync of the folder above */
            assert_same(dir, GOLDEN "toy.safetensors");
            char *parts[] = { ls_path_join(dir, ".metadata"), ls_path_join(dir, "__0_0.distcp") };
            for (int i = 0; i < 2; i++) {
                assert_int_equal(remove(parts[i]), 0);
                free(parts[i]);
            }
            assert_int_equal(rmdir(dir), 0);
        }
        assert_int_equal(ls_test_count(ls_test_path("alone")), 0);
    }
    assert_true(failures > 5);
    assert_same(dir, GOLDEN "toy.safetensors");
    ls_weights_close(&w);
}

/* The optimizer's part: every name that PyTorch's has, in the index. */
static void writes_the_optimizer(void **state)
{
    (void)state;
    static const float VALUES[6] = { 1, 2, 3, 4, 5, 6 };
    const ls_type type = LS_TYPE(LS_F32, 2, 3), scalar = LS_SCALAR(LS_I64);
    const ls_tensor t = ls_tensor_of((void *)VALUES, &type), steps = ls_tensor_of(&(int64_t){ 7 }, &scalar);
    ASSERT_OK(ls_weights_save(ls_test_path("m.safetensors"), 2,
                              (ls_named_tensor[]){ { "w", t }, { "frozen", t } }));
    ASSERT_OK(
        ls_weights_save(ls_test_path("o.safetensors"), 3,
                        (ls_named_tensor[]){ { "exp_avg.w", t }, { "exp_avg_sq.w", t }, { "step", steps } }));
    ls_weights *m = opened(ls_test_path("m.safetensors")), *o = opened(ls_test_path("o.safetensors"));
    const ls_dcp_setting settings[] = { { "lr", LS_DCP_FLOAT, 0.5, 0 },
                                        { "betas", LS_DCP_PAIR, 0.5, 0.25 },
                                        { "amsgrad", LS_DCP_BOOL, 0, 0 } };
    const char *dir = ls_test_path("state");
    ASSERT_OK(ls_dcp_export(
        m,
        &(ls_dcp_optimizer){
            .state = o, .steps = 7, .n = 1, .groups = &(ls_dcp_settings){ 3, settings }, .epoch = -1 },
        NULL, dir, &(ls_weights_export_opts){ LS_WEIGHTS_EXPORT_DEFAULTS }));
    assert_same(dir, ls_test_path("m.safetensors")); /* reading, it is not looked at */
    char *index, *path = ls_path_join(dir, ".metadata");
    size_t n;
    ASSERT_OK(ls_file_read(&index, &n, path));
    static const char *const KEYS[] = { "model.w",
                                        "model.frozen",
                                        "optimizer.state.w.exp_avg",
                                        "optimizer.state.w.exp_avg_sq",
                                        "optimizer.state.w.step",
                                        "optimizer.param_groups.0.lr",
                                        "optimizer.param_groups.0.betas",
                                        "optimizer.param_groups.0.amsgrad",
                                        "optimizer.param_groups.0.params" };
    for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++)
        if (!memmem(index, n, KEYS[i], strlen(KEYS[i])))
            fail_msg("%s is not in the index", KEYS[i]);
    assert_null(memmem(index, n, "state.frozen", 12));
    free(index);
    free(path);
    ls_weights_close(&m);
    ls_weights_close(&o);
}

static ls_status steps_of(int64_t *steps, const char *dir, float written)
{
    const ls_type one = LS_TYPE(LS_F32, 1);
    const float value = 1;
    ls_dcp_writer w;
    ls_dcp_state s;
    const ls_dcp_step model[] = { { .word = "model" }, { .word = "w" } };
    ls_dcp_step state[] = {
        { .word = "optimizer" }, { .word = "state" }, { .word = "w" }, { .word = "exp_avg" }
    };
    ASSERT_OK(ls_dcp_create(&w, dir, 1, true));
    ASSERT_OK(ls_dcp_put_tensor(&w, 2, model, &one, &value));
    ASSERT_OK(ls_dcp_put_tensor(&w, 4, state, &one, &value));
    state[3].word = "step";
    ASSERT_OK(ls_dcp_put_tensor(&w, 4, state, &LS_SCALAR(LS_F32), &written));
    ASSERT_OK(ls_dcp_commit(&w));
    ASSERT_OK(ls_dcp_state_open(&s, dir, NULL));
    const ls_status status = ls_dcp_state_optimizer(&s, 1, (const char *const[]){ "w" });
    *steps = s.steps;
    ls_dcp_state_release(&s);
    return status;
}

static void counts_whole_steps(void **state)
{
    (void)state;
    const char *dir = ls_test_path("steps");
    const float wrong[] = { 2.5F, -1, 1e16F, NAN };
    int64_t steps;
    ASSERT_OK(steps_of(&steps, dir, 7));
    assert_int_equal(steps, 7);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ASSERT_FAILS(steps_of(&steps, dir, wrong[i]), LS_E_FORMAT, "\"w\"", "no number of steps");
}

/* A directory that has more than PyTorch's files is somebody's work. */
static void replaces_only_its_own_kind(void **state)
{
    (void)state;
    char note[600];
    const char *dir = ls_test_path("replaced");
    int64_t steps;
    ls_dcp_writer w;
    for (int i = 0; i < 2; i++)
        ASSERT_OK(steps_of(&steps, dir, 7));
    snprintf(note, sizeof note, "%s/note.txt", dir);
    ASSERT_OK(ls_file_write(note, "x", 1));
    ASSERT_FAILS(ls_dcp_create(&w, dir, 1, true), LS_E_USAGE, dir, "only a DCP directory");
    assert_true(ls_file_exists(note) && ls_dcp_is(dir));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_pytorch_wrote),
        cmocka_unit_test(reads_any_range),
        cmocka_unit_test(tells_damage),
        cmocka_unit_test(tells_a_cut_index),
        cmocka_unit_test(refuses_what_does_not_add_up),
        cmocka_unit_test(writes_what_it_reads),
        cmocka_unit_test(writes_all_or_nothing),
        cmocka_unit_test(writes_the_optimizer),
        cmocka_unit_test(writes_a_file_a_rank),
        cmocka_unit_test(writes_an_empty_tensor),
        cmocka_unit_test(compares_tensors_in_chunks),
        cmocka_unit_test(counts_whole_steps),
        cmocka_unit_test(replaces_only_its_own_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
