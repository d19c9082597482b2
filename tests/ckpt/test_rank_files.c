/* test_rank_files.c - checkpoints with a file for each rank: ranks that have runs of elements of columns
 * write them, any number of ranks reads them; a gap, two writers, damage and files of another checkpoint are
 * errors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "ckpt/checkpoint.h"
#include "ckpt/parts.h"
#include "support/ranks.h"
#include "support/support.h"

enum { TENSORS = 5, MOST = 600 };
static const char *const NAMES[TENSORS] = { "weight", "none", "qkv", "bias", "scale" };
static const ls_type TYPES[TENSORS] = { { .dtype = LS_F32, .ndim = 2, .dims = { 30, 20 } },
                                        { .dtype = LS_F32, .ndim = 2, .dims = { 4, 0 } },
                                        { .dtype = LS_F64, .ndim = 2, .dims = { 36, 5 } },
                                        { .dtype = LS_BF16, .ndim = 1, .dims = { 7 } },
                                        { .dtype = LS_F32, .ndim = 0 } };
static uint8_t values[TENSORS][8 * MOST];

typedef struct job {
    const char *dir;
    int ranks, wrong; /* what rank 1 does wrong: 1: leaves out an element; 2: writes one that rank 0 has */
    ls_verify how;
} job;

/* What a rank has. Pairs of ranks have the same columns of "weight", and halves of the elements of them.
 * "qkv" is three parts of 12 rows, of which each rank has its own; "bias" is sharded anywhere. The values of
 * a range are malloc'ed: they lie one after the other. */
static void have(ls_range *r, ls_box *box, int64_t i, const job *j, int rank)
{
    const int pairs = j->ranks % 2 ? j->ranks : j->ranks / 2, copies = j->ranks / pairs;
    const int64_t all = ls_type_count(&TYPES[i]);
    *box = ls_box_of(&TYPES[i]);
    *r = (ls_range){ .box = box };
    if (i == 0) {
        const int64_t at = rank / copies;
        ls_box_slice(box, 1, 20 * at / pairs, 20 * (at + 1) / pairs - 20 * at / pairs);
        const int64_t n = ls_box_count(box);
        r->first = n * (rank % copies) / copies;
        r->count = n * (rank % copies + 1) / copies - r->first;
    } else if (i == 2) {
        *box = (ls_box){ .ndim = 3, .whole = { 3, 12, 5 }, .size = { 3, 12, 5 } };
        ls_box_slice(box, 1, 12 * rank / j->ranks, 12 * (rank + 1) / j->ranks - 12 * rank / j->ranks);
        r->count = ls_box_count(box);
    } else if (i == 3) {
        r->first = all * rank / j->ranks;
        r->count = all * (rank + 1) / j->ranks - r->first;
        r->box = NULL;
    } else {
        r->count = rank ? 0 : all;
    }
}

static void copy(const ls_range *r, int64_t i, bool in)
{
    const size_t size = ls_dtype_size(TYPES[i].dtype);
    for (int64_t k = 0, n; k < r->count; k += n) {
        const int64_t first = ls_range_piece(r, k, &n);
        char *mine = (char *)r->data + (size_t)k * size;
        uint8_t *whole = values[i] + (size_t)first * size;
        memcpy(in ? mine : (char *)whole, in ? (char *)whole : mine, (size_t)n * size);
    }
}

typedef struct rank_part {
    ls_named_tensor tensors[TENSORS];
    ls_range mine[TENSORS];
    ls_box boxes[TENSORS];
    char room[TENSORS][8 * MOST];
    ls_tensor_list list;
} rank_part;

static rank_part *part(const job *j, int rank)
{
    rank_part *p = calloc(1, sizeof *p);
    for (int i = 0; i < TENSORS; i++) {
        p->tensors[i] = (ls_named_tensor){ NAMES[i], ls_tensor_of(NULL, &TYPES[i]) };
        have(&p->mine[i], &p->boxes[i], i, j, rank);
        p->mine[i].data = p->room[i];
    }
    p->list = (ls_tensor_list){ .n = TENSORS, .tensors = p->tensors, .mine = p->mine };
    return p;
}

static ls_status save(ls_group *g, void *context)
{
    const job *j = context;
    const int rank = g ? ls_group_rank(g) : 0;
    rank_part *p = part(j, rank);
    for (int i = 0; i < TENSORS; i++)
        copy(&p->mine[i], i, true);
    if (rank == 1 && j->wrong == 1)
        p->mine[3].count--;
    if (rank == 1 && j->wrong == 2)
        p->mine[3].first--;
    if (rank == 1 && j->wrong == 3)
        p->tensors[2].name = "__metadata__";
    uint64_t files = 0;
    ls_saved saved;
    ls_status s = ls_checkpoint_save(
        j->dir,
        &(ls_checkpoint_contents){
            .config = "{}", .trainer = "{}", .model = p->list, .optimizer = p->list, .per_rank = true },
        g, &saved);
    for (int r = 0; r < j->ranks && s == LS_OK && rank == 0; r++)
        for (int l = 0; l < 2; l++) {
            char path[700];
            snprintf(path, sizeof path, "%s/%s-rank-%05d.safetensors", j->dir, l ? "optimizer" : "model", r);
            files += (uint64_t)ls_file_size(path);
        }
    if (s == LS_OK && rank == 0 && files != saved.bytes)
        s = ls_fail(LS_E_INTERNAL, "%llu bytes, and says %llu", (unsigned long long)files,
                    (unsigned long long)saved.bytes);
    free(p);
    return s;
}

static ls_status load_from(const ls_checkpoint *c, const job *j, int rank)
{
    ls_status s = LS_OK;
    for (int l = 0; l < 2 && s == LS_OK; l++) {
        rank_part *p = part(j, rank), *want = part(j, rank);
        s = ls_ranges_load(l ? c->optimizer : c->weights, &p->list,
                           &(ls_weights_load_opts){ LS_WEIGHTS_LOAD_DEFAULTS });
        for (int i = 0; i < TENSORS && s == LS_OK; i++) {
            copy(&want->mine[i], i, true);
            if (memcmp(want->room[i], p->room[i], sizeof p->room[i]))
                s = ls_fail(LS_E_INTERNAL, "rank %d of %d: %s is another", rank, j->ranks, NAMES[i]);
        }
        free(want);
        free(p);
    }
    return s;
}

static ls_status load(ls_group *g, void *context)
{
    const job *j = context;
    ls_checkpoint c;
    LS_TRY(ls_checkpoint_open(&c, j->dir, j->how, g));
    const ls_status s = load_from(&c, j, g ? ls_group_rank(g) : 0);
    ls_checkpoint_release(&c);
    return s;
}

static ls_status on(int ranks, rank_fn fn, job j)
{
    j.ranks = ranks;
    return ranks > 1 ? run_ranks(ranks, fn, &j) : fn(NULL, &j);
}

static int fill(void **state)
{
    (void)state;
    for (int i = 0; i < TENSORS; i++)
        for (int64_t k = 0; k < 8 * MOST; k++)
            values[i][k] = (uint8_t)(k * 31 + k / 256 + i);
    return 0;
}

static void any_ranks_read_them(void **state)
{
    (void)state;
    char dir[512];
    for (int ranks = 1; ranks <= 8; ranks++) {
        int files;
        snprintf(dir, sizeof dir, "%s", ls_test_path("step"));
        ASSERT_OK(on(ranks, save, (job){ .dir = dir }));
        ASSERT_OK(ls_checkpoint_verify(dir, LS_VERIFY_FULL, &files));
        assert_int_equal(files, 2 * ranks + 2);
        for (int others = 1; others <= 8; others++)
            ASSERT_OK(on(others, load, (job){ .dir = dir, .how = (ls_verify)((ranks + others) % 3) }));
        ls_weights *w;
        ASSERT_OK(ls_weights_open(&w, dir));
        assert_int_equal(ls_weights_count(w), TENSORS);
        for (int i = 0; i < TENSORS; i++) { /* in their own order, whole */
            const ls_weight *t = ls_weights_at(w, i);
            uint8_t read[8 * MOST];
            assert_string_equal(t->name, NAMES[i]);
            assert_true(ls_type_equal(&t->type, &TYPES[i]) && t->bytes == ls_type_bytes(&TYPES[i]));
            ASSERT_OK(ls_weight_read(t, TYPES[i].dtype, read));
            assert_memory_equal(read, values[i], t->bytes);
        }
        ls_weights_close(&w);
        ASSERT_OK(ls_checkpoint_remove(dir));
    }
}

/* An empty tensor, of which no rank has an element, is in rank 0's file alone. */
static void empty_tensors_are_written_once(void **state)
{
    (void)state;
    char dir[512];
    snprintf(dir, sizeof dir, "%s", ls_test_path("empty"));
    ASSERT_OK(on(3, save, (job){ .dir = dir }));
    for (int rank = 0; rank < 3; rank++) {
        char name[64], *path, *bytes;
        size_t n;
        snprintf(name, sizeof name, "model-rank-%05d.safetensors", rank);
        path = ls_path_join(dir, name);
        ASSERT_OK(ls_file_read(&bytes, &n, path));
        assert_int_equal(memmem(bytes, n, "\"none\"", 6) != NULL, rank == 0);
        free(bytes);
        free(path);
    }
}

/* A run of elements of a box is the elements of the boxes that it is cut into, in order. */
static void runs_are_cut_into_boxes(void **state)
{
    (void)state;
    uint32_t x = 7;
    for (int round = 0; round < 3000; round++) {
        ls_box box = { 0 };
        int64_t all = 1;
        for (box.ndim = 0; box.ndim < round % 5; box.ndim++) {
            x = x * 1664525u + 1013904223u;
            box.size[box.ndim] = 1 + (x >> 9) % 4;
            box.start[box.ndim] = (x >> 13) % 3;
            box.whole[box.ndim] = box.size[box.ndim] + box.start[box.ndim] + (x >> 17) % 2;
            all *= box.size[box.ndim];
        }
        x = x * 1664525u + 1013904223u;
        const int64_t first = (x >> 8) % (uint64_t)all;
        const int64_t count = 1 + (x >> 20) % (uint64_t)(all - first);
        int cuts = 0;
        for (int64_t done = 0, n; done < count; done += n, cuts++) {
            ls_box one;
            n = ls_box_cut(&one, &box, first + done, count - done);
            assert_true(n > 0 && done + n <= count && n == ls_box_count(&one) && ls_box_inside(&one));
            for (int64_t k = 0; k < n; k++)
                assert_int_equal(ls_box_run(&one, k, NULL), ls_box_run(&box, first + done + k, NULL));
        }
        assert_true(cuts <= (box.ndim ? 2 * box.ndim - 1 : 1));
    }
}

/* The ranks find each other's mistakes before the checkpoint has its name. */
static void mistakes_of_ranks(void **state)
{
    (void)state;
    char dir[512];
    snprintf(dir, sizeof dir, "%s", ls_test_path("wrong/step"));
    for (int wrong = 1; wrong <= 3; wrong++) {
        assert_true(on(3, save, (job){ .dir = dir, .wrong = wrong }) != LS_OK);
        ASSERT_CONTAINS(ls_error_message(), "saving checkpoint");
        ASSERT_CONTAINS(ls_error_message(), wrong == 1   ? "wrote is not every element once: "
                                            : wrong == 2 ? "tensor \"bias\": two of its parts overlap"
                                                         : "no name that can be written");
        if (wrong == 1)
            ASSERT_CONTAINS(ls_error_message(), "tensor \"bias\": its parts hold 6 of its 7 elements");
    }
    assert_int_equal(ls_test_count(ls_test_path("wrong")), 0);
}

/* ---- damage */

static char *file_of(const char *dir, int rank)
{
    char name[64];
    snprintf(name, sizeof name, "model-rank-%05d.safetensors", rank);
    return ls_path_join(dir, name);
}

static void any_damage_is_named(void **state)
{
    (void)state;
    char dir[512];
    snprintf(dir, sizeof dir, "%s", ls_test_path("damaged"));
    ASSERT_OK(on(3, save, (job){ .dir = dir }));
    for (int rank = 0; rank < 3; rank++) {
        char *path = file_of(dir, rank), *good;
        size_t n;
        ASSERT_OK(ls_file_read(&good, &n, path));
        for (size_t at = 0; at < n + 60; at += 30) { /* behind its end: it is cut, or not there */
            char *bad = malloc(n);
            memcpy(bad, good, n);
            if (at < n)
                bad[at] ^= 4;
            if (at < n || rank != 1)
                ASSERT_OK(ls_file_write(path, bad, at < n ? n : n - 1));
            else
                assert_int_equal(unlink(path), 0);
            for (int how = at < n ? LS_VERIFY_FULL : LS_VERIFY_SIZES; how <= LS_VERIFY_LOADED; how++)
                for (int ranks = 1; ranks <= 2; ranks++) {
                    assert_true(on(ranks, load, (job){ .dir = dir, .how = (ls_verify)how }) != LS_OK);
                    ASSERT_CONTAINS(ls_error_message(), path);
                    ASSERT_CONTAINS(ls_error_message(), at < n      ? "are damaged"
                                                        : rank != 1 ? "bytes, the manifest says"
                                                                    : "not there");
                }
            free(bad);
            ASSERT_OK(ls_file_write(path, good, n));
        }
        free(good);
        free(path);
    }
    for (int ranks = 1; ranks <= 2; ranks++)
        ASSERT_OK(on(ranks, load, (job){ .dir = dir, .how = LS_VERIFY_LOADED }));
    /* the bytes of a tensor have its name in the message */
    char *path = file_of(dir, 2), *bytes;
    size_t n;
    ASSERT_OK(ls_file_read(&bytes, &n, path));
    bytes[n - 1] ^= 1;
    ASSERT_OK(ls_file_write(path, bytes, n));
    ASSERT_FAILS(on(1, load, (job){ .dir = dir, .how = LS_VERIFY_LOADED }), LS_E_FORMAT, path,
                 "are damaged: tensor \"bias\"");
    free(bytes);
    free(path);
}

/* Writes `with` in place of the text `find`, of the same length, in the header of a rank's file. */
static void replace(const char *dir, int rank, const char *find, const char *with)
{
    char *path = file_of(dir, rank), *bytes;
    size_t n;
    ASSERT_OK(ls_file_read(&bytes, &n, path));
    char *at = memmem(bytes, n, find, strlen(find));
    if (!at || strlen(find) != strlen(with))
        fail_msg("%s is not in the header", find);
    memcpy(at, with, strlen(with));
    ASSERT_OK(ls_file_write(path, bytes, n));
    free(bytes);
    free(path);
}

/* Without a manifest, as when somebody copies single files. */
static void files_that_do_not_belong_together(void **state)
{
    (void)state;
    static const struct {
        const char *find, *with, *message;
    } CASES[] = {
        { "\\\"rank\\\":1", "\\\"rank\\\":0", "is the file of rank 0 of 2" },
        { "\\\"ranks\\\":2", "\\\"ranks\\\":3", "is the file of rank 1 of 3" },
        { "\\\"ranks\\\":2", "\\\"ranks\\\":1", "which rank's file it is" },
        { "\\\"count\\\":5", "\\\"count\\\":6", "with 6 tensors, and should be" },
        { "\\\"tensors\\\"", "\\\"tonsers\\\"", "does not list its tensors" },
        { "\\\"number\\\":3", "\\\"number\\\":4", "tensor \"bias\": its parts hold 3 of its 7" },
        { "\\\"number\\\":3", "\\\"number\\\":9", "not a list of elements with its place" },
        { "\\\"shape\\\":[7]", "\\\"shape\\\":[8]", "its block (whole, start, size)" },
        { "\\\"shape\\\":[7],\\\"whole\\\":[7]", "\\\"shape\\\":[9],\\\"whole\\\":[9]",
          "another rank's file has another one there" },
        { "\\\"start\\\":[0]", "\\\"start\\\":[1]", "its block (whole, start, size)" },
        { "\\\"start\\\":[0]", "\\\"start\\\":  0", "its block (whole, start, size)" },
        { "\\\"size\\\":[7]", "\\\"size\\\":[6]", "it has more elements than its block" },
        { "\\\"first\\\":3", "\\\"first\\\":2", "two of its parts overlap" },
        { "\\\"first\\\":3", "\\\"first\\\":4", "it has more elements than its block" },
        { "\\\"tensors\\\":{", "\\\"tensors\\\":[", "model-rank-00001.safetensors" },
        { "lockstep.parts", "lockstep.ports", "which rank's file it is" },
    };
    ls_weights *w;
    char dir[512];
    snprintf(dir, sizeof dir, "%s", ls_test_path("mixed"));
    ASSERT_OK(on(2, save, (job){ .dir = dir }));
    char *first = file_of(dir, 0), *second = file_of(dir, 1), *good;
    size_t n;
    ASSERT_OK(ls_file_read(&good, &n, second));
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        replace(dir, 1, CASES[i].find, CASES[i].with);
        ASSERT_FAILS(ls_weights_open(&w, dir), LS_E_FORMAT, dir, CASES[i].message);
        ASSERT_OK(ls_file_write(second, good, n));
    }
    ASSERT_OK(ls_weights_open(&w, dir)); /* also by the name of its first file, but of no other */
    ls_weights_close(&w);
    ASSERT_OK(ls_weights_open(&w, first));
    assert_int_equal(ls_weights_count(w), TENSORS);
    ls_weights_close(&w);
    ASSERT_FAILS(ls_weights_open(&w, second), LS_E_USAGE, second, "only what rank 1 of 2 wrote",
                 "name the folder");
    ASSERT_FAILS(ls_weights_open_memory(&w, good, n, "bytes"), LS_E_UNSUPPORTED, "one rank's part");
    assert_int_equal(unlink(second), 0);
    ASSERT_FAILS(ls_weights_open(&w, dir), LS_E_IO, second, "belongs to this file");
    free(good);
    free(first);
    free(second);
    ASSERT_OK(on(1, save, (job){ .dir = ls_test_path("short") }));
    replace(ls_test_path("short"), 0, "\\\"count\\\":5", "\\\"count\\\":6");
    ASSERT_FAILS(ls_weights_open(&w, ls_test_path("short")), LS_E_FORMAT,
                 "no rank's file has tensor number 5 of 6");
}

static ls_status open_all(void *context)
{
    ls_weights *w;
    LS_TRY(ls_weights_open(&w, context));
    ls_weights_close(&w);
    return LS_OK;
}

static void no_memory(void **state)
{
    (void)state;
    char dir[512];
    snprintf(dir, sizeof dir, "%s", ls_test_path("memory"));
    ASSERT_OK(on(3, save, (job){ .dir = dir }));
    assert_true(ls_test_memory(open_all, dir, 1) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_ranks_read_them),
        cmocka_unit_test(empty_tensors_are_written_once),
        cmocka_unit_test(runs_are_cut_into_boxes),
        cmocka_unit_test(mistakes_of_ranks),
        cmocka_unit_test(any_damage_is_named),
        cmocka_unit_test(files_that_do_not_belong_together),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
