/* test_arrays.c - arrays of a user's program: blocks with ghost cells, sharded in any way over 1 to 4 ranks,
 * are saved as whole arrays and loaded into blocks that are sharded in other ways. What does not fit is an
 * error, and a failure on any rank leaves nothing. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/fault.h"
#include "base/file.h"
#include "lockstep/checkpoint.h"
#include "lockstep/weights.h"
#include "support/ranks.h"
#include "support/support.h"

enum { X = 7, Y = 6, Z = 5, ROWS = 9, GHOST = 1 };
static const float OUTSIDE = -1;

typedef struct job {
    const char *dir;
    int ranks, shard; /* shard: which way */
    const char *text;
    bool partial, convert, per_rank;
    int wrong; /* what rank 1 does wrong; 0: nothing */
} job;

typedef struct mine {
    ls_array arrays[4];
    float *space; /* [nx + 2][ny + 2][nz + 2], the outer ones ghosts */
    double rows[ROWS];
    int64_t step;
    uint8_t table[4];
} mine;

static int64_t edge(int64_t n, int parts, int k) { return n * k / parts; }

/* Where this rank's block of the space is: ranks in two rows and columns, slabs of any dimension, or all on
 * the last rank. */
static void place(int64_t start[3], int64_t size[3], const job *j, int rank)
{
    const int64_t whole[3] = { X, Y, Z };
    int parts[3] = { 1, 1, 1 }, at[3] = { 0 };
    if (j->shard < 3) {
        parts[j->shard] = j->ranks;
        at[j->shard] = rank;
    } else if (j->ranks == 4) {
        parts[0] = parts[2] = 2;
        at[0] = rank / 2;
        at[2] = rank % 2;
    }
    for (int d = 0; d < 3; d++) {
        start[d] = edge(whole[d], parts[d], at[d]);
        size[d] = edge(whole[d], parts[d], at[d] + 1) - start[d];
    }
    if (j->shard >= 3 && j->ranks != 4 && rank != j->ranks - 1)
        size[1] = 0;
}

static void make(mine *m, const job *j, int rank)
{
    int64_t start[3], n[3];
    place(start, n, j, rank);
    *m = (mine){ .space = malloc(sizeof(float) * (size_t)((n[0] + 2) * (n[1] + 2) * (n[2] + 2))),
                 .step = -1 };
    for (int64_t i = 0; i < (n[0] + 2) * (n[1] + 2) * (n[2] + 2); i++)
        m->space[i] = OUTSIDE;
    const int64_t plane = (n[1] + 2) * (n[2] + 2), line = n[2] + 2;
    const ls_type block = LS_TYPE(LS_F32, n[0], n[1], n[2]), scalar = LS_SCALAR(LS_I64),
                  table = LS_TYPE(LS_U8, 4);
    const int64_t first = edge(ROWS, j->ranks, rank), last = edge(ROWS, j->ranks, rank + 1);
    const ls_type rows = LS_TYPE(LS_F64, last - first);
    m->arrays[0] = (ls_array){ "space",
                               LS_TYPE(LS_F32, X, Y, Z),
                               { start[0], start[1], start[2] },
                               { m->space + plane + line + 1, block, { plane, line, 1 } } };
    m->arrays[1] = (ls_array){ "rows", LS_TYPE(LS_F64, ROWS), { first }, ls_tensor_of(m->rows, &rows) };
    m->arrays[2] = (ls_array){ "step", scalar, { 0 }, ls_tensor_of(&m->step, &scalar) };
    m->arrays[3] = (ls_array){ "table", table, { 0 }, ls_tensor_of(m->table, &table) };
}

static float value(int64_t x, int64_t y, int64_t z) { return (float)((x * Y + y) * Z + z) / 8; }

static void fill(mine *m)
{
    const ls_array *a = &m->arrays[0];
    const int64_t *n = a->block.type.dims;
    for (int64_t x = 0; x < n[0]; x++)
        for (int64_t y = 0; y < n[1]; y++)
            for (int64_t z = 0; z < n[2]; z++)
                m->space[((x + 1) * (n[1] + 2) + y + 1) * (n[2] + 2) + z + 1] = value(
                    a->start[0] + x, a->start[1] + y, a->start[2] + z);
    for (int64_t i = 0; i < m->arrays[1].block.type.dims[0]; i++)
        m->rows[i] = 0.5 * (double)(m->arrays[1].start[0] + i);
    m->step = 12;
    memcpy(m->table, "abcd", 4);
}

/* Every element of the block is right, and every ghost as it was. */
static ls_status check(const mine *m, const ls_group *g)
{
    const ls_array *a = &m->arrays[0];
    const int64_t *n = a->block.type.dims;
    for (int64_t x = -1; x <= n[0]; x++)
        for (int64_t y = -1; y <= n[1]; y++)
            for (int64_t z = -1; z <= n[2]; z++) {
                const bool inside = x >= 0 && y >= 0 && z >= 0 && x < n[0] && y < n[1] && z < n[2];
                RANK_CHECK(m->space[((x + 1) * (n[1] + 2) + y + 1) * (n[2] + 2) + z + 1] ==
                           (inside ? value(a->start[0] + x, a->start[1] + y, a->start[2] + z) : OUTSIDE));
            }
    for (int64_t i = 0; i < m->arrays[1].block.type.dims[0]; i++)
        RANK_CHECK(m->rows[i] == 0.5 * (double)(m->arrays[1].start[0] + i));
    RANK_CHECK(m->step == 12 && !memcmp(m->table, "abcd", 4));
    return LS_OK;
}

static ls_status save(ls_group *g, void *context)
{
    const job *j = context;
    const int rank = g ? ls_group_rank(g) : 0;
    mine m;
    make(&m, j, rank);
    fill(&m);
    if (rank == 1 && j->wrong == 1)
        m.arrays[1].name = "lines";
    if (rank == 1 && j->wrong == 2)
        m.arrays[1].block.type.dims[0]--;
    if (rank == 1 && j->wrong == 3)
        m.arrays[0].start[1] = 1;
    ls_status s = ls_arrays_save(j->dir, 4, m.arrays, g, .text = j->text, .per_rank = j->per_rank);
    free(m.space);
    return s;
}

/* In the background; the memory is overwritten and freed before it is written. */
static ls_status save_meanwhile(ls_group *g, void *context)
{
    const job *j = context;
    ls_arrays_saving *saving, *other;
    mine m;
    make(&m, j, g ? ls_group_rank(g) : 0);
    fill(&m);
    char *names[4];
    for (int i = 0; i < 4; i++)
        m.arrays[i].name = names[i] = strdup(m.arrays[i].name);
    ls_status s = ls_arrays_save_async(&saving, j->dir, 4, m.arrays, g, .text = j->text,
                                       .per_rank = j->per_rank);
    for (int i = 0; i < 4; i++) {
        memset(names[i], 'x', strlen(names[i]));
        free(names[i]);
    }
    memset(m.rows, 1, sizeof m.rows);
    memset(m.table, 1, sizeof m.table);
    m.step = 0;
    free(m.space);
    LS_TRY(s);
    int64_t one = 1;
    const ls_status meanwhile = g ? ls_group_all_reduce(g, &one, 1, LS_I64, LS_REDUCE_SUM) : LS_OK;
    const ls_status second = g ? LS_E_ARG : ls_arrays_save_async(&other, j->dir, 4, m.arrays, g);
    while (j->wrong == 9 && !ls_arrays_written(saving))
        sched_yield();
    s = ls_arrays_wait(&saving);
    RANK_CHECK(!saving && ls_arrays_wait(&saving) == LS_OK);
    LS_TRY(s);
    LS_TRY(meanwhile); /* the group is free meanwhile */
    RANK_CHECK((!g || one == j->ranks) && second == LS_E_ARG);
    return LS_OK;
}

/* The head that every checkpoint has: no step is known, and no metric. */
static void check_head(const char *dir, int ranks)
{
    char expected[200], *path = ls_path_join(dir, "trainer.json"), *json;
    size_t size;
    snprintf(expected, sizeof expected,
             "{\"step\":null,\"last_epoch\":null,\"world\":%d,\"version\":\"" LS_VERSION
             "\",\"metrics\":{},\"text\":\"t = \\\"1/4\\\"\"}\n",
             ranks);
    ASSERT_OK(ls_file_read(&json, &size, path));
    assert_string_equal(json, expected);
    free(json);
    free(path);
}

static ls_status load(ls_group *g, void *context)
{
    const job *j = context;
    mine m;
    make(&m, j, g ? ls_group_rank(g) : 0);
    ls_status s = ls_arrays_load(j->dir, 4, m.arrays, g);
    if (s == LS_OK)
        s = check(&m, g);
    free(m.space);
    return s;
}

static ls_status on(int ranks, rank_fn fn, job j)
{
    j.ranks = ranks;
    return ranks > 1 ? run_ranks(ranks, fn, &j) : fn(NULL, &j);
}

static void saves_meanwhile(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks++) {
        char name[32];
        snprintf(name, sizeof name, "async-%d", ranks);
        const char *dir = ls_test_path(name);
        ASSERT_OK(
            on(ranks, save_meanwhile,
               (job){ .dir = dir, .shard = ranks % 4, .text = "a", .wrong = 9, .per_rank = ranks % 2 }));
        for (int others = 1; others <= 2; others++)
            ASSERT_OK(on(others, load, (job){ .dir = dir, .shard = others }));
    }
    ASSERT_FAILS(on(2, save_meanwhile, (job){ .dir = ls_test_path("async-1") }), LS_E_IO, "already there");
    ls_arrays_saving *saving, *other; /* two saves: in another folder, and in the same one */
    mine m;
    make(&m, &(job){ .ranks = 1 }, 0);
    fill(&m);
    ASSERT_OK(ls_arrays_save_async(&saving, ls_test_path("one/step"), 4, m.arrays, NULL));
    ASSERT_OK(ls_arrays_save_async(&other, ls_test_path("two/step"), 4, m.arrays, NULL));
    ASSERT_FAILS(ls_arrays_save(ls_test_path("one/other"), 4, m.arrays, NULL), LS_E_ARG, "one/other",
                 "another save is under way in the folder around it", "ls_arrays_wait");
    ASSERT_OK(ls_arrays_wait(&saving));
    ASSERT_OK(ls_arrays_save(ls_test_path("one/other"), 4, m.arrays, NULL));
    ASSERT_OK(ls_arrays_wait(&other));
    free(m.space);
}

static void any_ranks_load_what_any_ranks_save(void **state)
{
    (void)state;
    int made = 0;
    for (int ranks = 1; ranks <= 4; ranks++)
        for (int shard = 0; shard < (ranks > 1 ? 4 : 1); shard++) {
            char name[32], dir[450];
            snprintf(name, sizeof name, "save-%d", made++);
            snprintf(dir, sizeof dir, "%s", ls_test_path(name));
            ASSERT_OK(on(ranks, save, (job){ .dir = dir, .shard = shard, .text = "t = \"1/4\"" }));
            for (int others = 1; others <= 4; others++)
                ASSERT_OK(on(others, load, (job){ .dir = dir, .shard = (shard + others) % 4 }));
            char *text, *one, *this;
            size_t n, k;
            ASSERT_OK(ls_arrays_text(&text, dir));
            assert_string_equal(text, "t = \"1/4\"");
            free(text);
            check_head(dir, ranks);
            char *path = ls_path_join(dir, "model.safetensors"); /* the file of one rank, byte for byte */
            ASSERT_OK(ls_file_read(&this, &n, path));
            ASSERT_OK(ls_file_read(&one, &k, ls_test_path("save-0/model.safetensors")));
            assert_int_equal(n, k);
            assert_memory_equal(this, one, n);
            free(path);
            free(one);
            free(this);
        }
}

/* A file for each rank: blocks sharded in any way are read by any other, and what is exported of them is the
 * file of whole arrays, byte for byte. */
static void any_ranks_load_the_ranks_files(void **state)
{
    (void)state;
    char whole[450], file[450];
    snprintf(whole, sizeof whole, "%s", ls_test_path("whole"));
    snprintf(file, sizeof file, "%s", ls_test_path("model.safetensors"));
    ASSERT_OK(on(1, save, (job){ .dir = whole }));
    for (int ranks = 1; ranks <= 4; ranks++)
        for (int shard = 0; shard < (ranks > 1 ? 4 : 1); shard++) {
            char name[32], dir[450];
            ls_weights *w;
            snprintf(name, sizeof name, "ranks-%d-%d", ranks, shard);
            snprintf(dir, sizeof dir, "%s", ls_test_path(name));
            ASSERT_OK(on(ranks, save, (job){ .dir = dir, .shard = shard, .per_rank = true }));
            assert_int_equal(ls_test_count(dir), ranks + 3); /* with config, trainer and manifest */
            for (int others = 1; others <= 4; others++)
                ASSERT_OK(on(others, load, (job){ .dir = dir, .shard = (shard + others) % 4 }));
            ASSERT_OK(ls_weights_open(&w, dir));
            assert_int_equal(ls_weights_file_count(w), ranks);
            ASSERT_OK(ls_weights_export(w, file));
            ls_weights_close(&w);
            ls_test_same_file(ls_test_dir(), whole, "model.safetensors");
        }
}

static void tells_mistakes_before_anything_is_written(void **state)
{
    (void)state;
    const char *dir = ls_test_path("wrong");
    ASSERT_FAILS(on(2, save, (job){ .dir = dir, .wrong = 1 }), LS_E_USAGE, "rank 1 names other arrays");
    ASSERT_FAILS(on(2, save, (job){ .dir = dir, .wrong = 2 }), LS_E_ARG, "\"rows\"", "8 elements", "has 9");
    ASSERT_FAILS(on(2, save, (job){ .dir = dir, .wrong = 3 }), LS_E_ARG, "\"space\"", "leads out");
    assert_false(ls_dir_exists(dir));
    ASSERT_OK(on(1, save, (job){ .dir = dir }));
    ASSERT_FAILS(on(1, save, (job){ .dir = dir }), LS_E_IO, "already there");
    ASSERT_FAILS(ls_arrays_load(dir, 0, NULL, NULL), LS_E_ARG, "at least one array");
    ASSERT_FAILS(on(3, load, (job){ .dir = ls_test_path("nowhere") }), LS_E_IO, "nowhere");
}

/* What is asked for and no more, as another type; PyTorch's directories too. */
static void loads_parts_of_what_is_there(void **state)
{
    (void)state;
    const char *dir = ls_test_path("parts");
    ASSERT_OK(on(4, save, (job){ .dir = dir, .shard = 3 }));
    double corner[2][3];
    const ls_type block = LS_TYPE(LS_F64, 1, 2, 3);
    const ls_array some = { "space", LS_TYPE(LS_F64, X, Y, Z), { 6, 4, 2 }, ls_tensor_of(corner, &block) };
    ASSERT_FAILS(ls_arrays_load(dir, 1, &some, NULL, .convert = true), LS_E_SHAPE, "unexpected", "rows");
    ASSERT_FAILS(ls_arrays_load(dir, 1, &some, NULL, .partial = true), LS_E_SHAPE, "of another type");
    ASSERT_OK(ls_arrays_load(dir, 1, &some, NULL, .partial = true, .convert = true));
    for (int y = 0; y < 2; y++)
        for (int z = 0; z < 3; z++)
            assert_true(corner[y][z] == (double)value(6, 4 + y, 2 + z));

    float middle[2][2];
    const ls_type two = LS_TYPE(LS_F32, 2, 2);
    /* where four ranks' blocks meet */
    const ls_array both = { "both", LS_TYPE(LS_F32, 4, 6), { 1, 2 }, ls_tensor_of(middle, &two) };
    ASSERT_OK(
        ls_arrays_load(LS_TEST_SOURCE_DIR "/tests/golden/dcp_layouts", 1, &both, NULL, .partial = true));
    for (int r = 0; r < 2; r++)
        for (int c = 0; c < 2; c++)
            assert_true(middle[r][c] == (float)((1 + r) * 6 + 2 + c) / 4 - 1);
}

/* A sum for each of 25,600 rows of 8 bytes would make a manifest of a megabyte. */
static ls_status save_columns(ls_group *g, void *context)
{
    enum { LINES = 6400 };
    static const double ZEROS[LINES];
    const ls_type block = LS_TYPE(LS_F64, LINES, 1);
    const ls_array a = {
        "columns", LS_TYPE(LS_F64, LINES, 4), { 0, ls_group_rank(g) }, ls_tensor_of((void *)ZEROS, &block)
    };
    return ls_arrays_save(context, 1, &a, g);
}

static void short_rows_have_few_sums(void **state)
{
    (void)state;
    const char *dir = ls_test_path("columns");
    ASSERT_OK(run_ranks(4, save_columns, (void *)dir));
    assert_true(ls_file_size(ls_test_path("columns/manifest.json")) < 2000);
}

static void tells_damage(void **state)
{
    (void)state;
    const char *dir = ls_test_path("damaged");
    ASSERT_OK(on(2, save, (job){ .dir = dir, .shard = 1 }));
    char *path = ls_path_join(dir, "model.safetensors"), *bytes;
    size_t n;
    ASSERT_OK(ls_file_read(&bytes, &n, path));
    bytes[n - 20] ^= 1;
    ASSERT_OK(ls_file_write(path, bytes, n));
    ASSERT_FAILS(on(1, load, (job){ .dir = dir }), LS_E_FORMAT, "model.safetensors", "damaged", "manifest");
    ASSERT_FAILS(on(3, load, (job){ .dir = dir }), LS_E_FORMAT, "model.safetensors", "damaged");
    free(bytes);
    free(path);
}

/* A call of the system fails on one of two ranks: both say so, and nothing of the checkpoint is there. */
static void a_failure_leaves_nothing(void **state)
{
    (void)state;
    const char *dir = ls_test_path("faults/step");
    for (int64_t k = 0;; k += 3) {
        ls_fault_arm(LS_POINTS_OF_FILES & ~(1u << LS_POINT_REMOVE), k, LS_FAIL_ONCE);
        ls_status s = on(2, k % 2 ? save_meanwhile : save, (job){ .dir = dir, .shard = 2 });
        const int64_t points = ls_fault_disarm();
        if (k >= points) {
            ASSERT_OK(s);
            break;
        }
        if (s == LS_OK || ls_dir_exists(dir)) { /* whole, and only its name may not be on the disk */
            ASSERT_OK(on(1, load, (job){ .dir = dir }));
            char other[450];
            snprintf(other, sizeof other, "%s-%d", dir, (int)k);
            assert_int_equal(rename(dir, other), 0);
        }
    }
    ASSERT_OK(on(3, load, (job){ .dir = dir }));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_ranks_load_what_any_ranks_save),
        cmocka_unit_test(any_ranks_load_the_ranks_files),
        cmocka_unit_test(tells_mistakes_before_anything_is_written),
        cmocka_unit_test(loads_parts_of_what_is_there),
        cmocka_unit_test(short_rows_have_few_sums),
        cmocka_unit_test(tells_damage),
        cmocka_unit_test(a_failure_leaves_nothing),
        cmocka_unit_test(saves_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
