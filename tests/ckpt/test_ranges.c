/* test_ranges.c - a checkpoint that several ranks write has the bytes of one that a single rank writes, and
 * any number of ranks can read it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "ckpt/checkpoint.h"
#include "ckpt/element_digest.h"
#include "ckpt/manifest.h"
#include "support/ranks.h"
#include "support/support.h"

enum { TENSORS = 7, ALL = 5000 };
static const int64_t SIZES[TENSORS] = { 1, 700, 0, 1299, 3, 2000, 990 };
static const char *const NAMES[2][TENSORS] = {
    { "a", "b.weight", "b.none", "c.weight", "d", "e.weight", "f" },
    { "m.a", "m.b.weight", "m.b.none", "m.c.weight", "m.d", "m.e.weight", "step" }
};
static float values[2][ALL];

static int fill(void **state)
{
    (void)state;
    for (int l = 0; l < 2; l++)
        for (int i = 0; i < ALL; i++)
            values[l][i] = (float)(l * ALL + i) / 7;
    return 0;
}

typedef struct job {
    const char *dir;
    int ranks;
    uint32_t seed; /* decides which rank has what */
    uint64_t max_file;
    int hole;    /* 1: an element that no rank writes; 2: one that two write; 3: a tensor that two write */
    bool differ; /* the tensor with the hole lies differently on the ranks, so its checksums are joined */
    int failing; /* rank that names a tensor as none may be named; -1: none */
    ls_verify how;
    ls_saved *saved; /* gets what rank 0 knows; NULL: nobody asks */
} job;

/* The whole list is one line of elements; `seed` decides where it is divided among the ranks. */
static void divide(int64_t edges[9], const job *j)
{
    uint32_t x = j->seed * 2654435761u + 1;
    edges[0] = 0;
    edges[j->ranks] = ALL - 7;
    for (int r = 1; r < j->ranks; r++) {
        x = x * 1664525u + 1013904223u;
        const int64_t left = edges[j->ranks] - edges[r - 1];
        /* 0: the last rank has all */
        edges[r] = edges[r - 1] + (j->seed % 5 == 0 ? 0 : (x >> 9) % (uint64_t)(left + 1));
    }
}

static void list(ls_tensor_list *out, ls_named_tensor *t, ls_range *mine, float *data,
                 const char *const *names, const job *j, int rank)
{
    int64_t edges[9], at = 0;
    divide(edges, j);
    const int64_t from = edges[rank], to = edges[rank + 1];
    for (int i = 0; i < TENSORS; i++) {
        const ls_type type = LS_TYPE(LS_F32, SIZES[i]);
        const int64_t begin = from > at ? from - at : 0, end = to - at < SIZES[i] ? to - at : SIZES[i];
        t[i] = (ls_named_tensor){ names[i], ls_tensor_of(NULL, &type) };
        mine[i] = (ls_range){ .first = begin,
                              .count = end > begin ? end - begin : 0,
                              .data = data + at + begin };
        at += SIZES[i];
    }
    *out = (ls_tensor_list){ .n = TENSORS, .tensors = t, .mine = mine };
}

static ls_checkpoint_contents contents(ls_named_tensor t[2][TENSORS], ls_range mine[2][TENSORS], const job *j,
                                       int rank)
{
    ls_checkpoint_contents c = { "{\"type\": \"mlp\"}\n", "{\"step\": 3}\n", .max_file = j->max_file };
    list(&c.model, t[0], mine[0], values[0], NAMES[0], j, rank);
    list(&c.optimizer, t[1], mine[1], values[1], NAMES[1], j, rank);
    return c;
}

static ls_status save(ls_group *g, void *context)
{
    const job *j = context;
    const int rank = g ? ls_group_rank(g) : 0;
    ls_named_tensor t[2][TENSORS];
    ls_range mine[2][TENSORS];
    const ls_checkpoint_contents c = contents(t, mine, j, rank);
    ls_range *e = &mine[1][5];
    if (j->hole == 1 && e->first == 0 && e->count > 0)
        e->count--;
    if (j->hole == 2 && e->first > 0 && e->count > 0)
        *e = (ls_range){ .first = e->first - 1, .count = e->count + 1, .data = (float *)e->data - 1 };
    if (j->hole == 3 && rank == 0)
        mine[1][6] = (ls_range){ .count = SIZES[6], .data = values[1] + ALL - 7 - SIZES[6] };
    e->differ = j->differ;
    if (rank == j->failing)
        t[1][3].name = "__metadata__";
    ls_saved saved;
    LS_TRY(ls_checkpoint_save(j->dir, &c, g, &saved));
    if (rank == 0 && j->saved)
        *j->saved = saved;
    return saved.bytes > 2 * 4 * 4900 ? LS_OK
                                      : ls_fail(LS_E_INTERNAL, "%llu bytes", (unsigned long long)saved.bytes);
}

static ls_status load_from(const ls_checkpoint *c, const job *j, int rank)
{
    float back[2][ALL];
    ls_named_tensor t[TENSORS];
    ls_range mine[TENSORS];
    ls_tensor_list l;
    for (int k = 0; k < 2; k++) {
        memset(back[k], 0, sizeof back[k]);
        list(&l, t, mine, back[k], NAMES[k], j, rank);
        LS_TRY(ls_ranges_load(k ? c->optimizer : c->weights, &l,
                              &(ls_weights_load_opts){ LS_WEIGHTS_LOAD_DEFAULTS }));
        int64_t edges[9];
        divide(edges, j);
        for (int64_t i = 0; i < ALL; i++)
            if (back[k][i] != (i >= edges[rank] && i < edges[rank + 1] ? values[k][i] : 0))
                return ls_fail(LS_E_INTERNAL, "rank %d: element %lld of list %d is %g", rank, (long long)i, k,
                               (double)back[k][i]);
    }
    return LS_OK;
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

static void any_ranks_write_the_same(void **state)
{
    (void)state;
    static const char *const WHOLE[] = { "config.json", "trainer.json", "model.safetensors",
                                         "optimizer.safetensors" };
    static const char *const SHARDS[] = { "model-00002-of-00003.safetensors",
                                          "optimizer.safetensors.index.json",
                                          "optimizer-00001-of-00003.safetensors" };
    for (uint64_t max_file = 0; max_file <= 9000; max_file += 9000) {
        char one[512], many[512];
        snprintf(one, sizeof one, "%s", ls_test_path(max_file ? "one/sharded" : "one/whole"));
        ls_saved alone, together;
        ASSERT_OK(save(
            NULL, &(job){ .dir = one, .ranks = 1, .max_file = max_file, .failing = -1, .saved = &alone }));
        assert_true(alone.model && alone.optimizer && alone.model != alone.optimizer);
        int files;
        ASSERT_OK(ls_checkpoint_verify(one, LS_VERIFY_FULL, &files));
        assert_int_equal(files, max_file ? 10 : 4);
        for (uint32_t k = 0; k < 5; k++) {
            const int ranks = (int[]){ 2, 4, 3, 8, 1 }[k];
            snprintf(many, sizeof many, "%s", ls_test_path("many/step-1"));
            ASSERT_OK(run_ranks(ranks, save,
                                &(job){ .dir = many,
                                        .ranks = ranks,
                                        .seed = k,
                                        .max_file = max_file,
                                        .failing = -1,
                                        .saved = &together }));
            assert_true(together.model == alone.model && together.optimizer == alone.optimizer);
            for (int i = 0; i < (max_file ? 3 : 4); i++)
                ls_test_same_file(one, many, max_file ? SHARDS[i] : WHOLE[i]);
            ASSERT_OK(load(NULL, &(job){ .dir = many, .ranks = 1, .how = LS_VERIFY_FULL }));
            ASSERT_OK(run_ranks(3, load,
                                &(job){ .dir = many, .ranks = 3, .seed = k + 1, .how = (ls_verify)(k % 3) }));
            assert_int_equal(ls_test_count(ls_test_path("many")), 1);
            ASSERT_OK(ls_checkpoint_remove(many));
        }
    }
}

/* A digest is the sum of its parts, and knows places, names and types. */
static void digests(void **state)
{
    (void)state;
    const float numbers[4] = { 1, 2, 3, 4 }, swapped[4] = { 1, 3, 2, 4 };
    const uint64_t seed = ls_element_seed("a", LS_F32),
                   whole = ls_element_digest(seed, numbers, sizeof *numbers, 0, 4);
    assert_true(whole == ls_element_digest(seed, numbers + 3, sizeof *numbers, 3, 1) +
                             ls_element_digest(seed, numbers, sizeof *numbers, 0, 3));
    assert_true(whole != ls_element_digest(seed, swapped, sizeof *numbers, 0, 4));
    assert_true(whole != ls_element_digest(ls_element_seed("b", LS_F32), numbers, sizeof *numbers, 0, 4));
    assert_true(whole != ls_element_digest(ls_element_seed("a", LS_I32), numbers, sizeof *numbers, 0, 4));
}

/* Every byte has one writer; a rank that fails ends the save on all, and nothing is left. */
static void failures(void **state)
{
    (void)state;
    char dir[512];
    snprintf(dir, sizeof dir, "%s", ls_test_path("failing/step-1"));
    for (int k = 0; k < 6; k++) {
        const int hole = 1 + k / 2;
        assert_true(
            run_ranks(
                2, save,
                &(job){ .dir = dir, .ranks = 2, .seed = 2, .hole = hole, .differ = k % 2, .failing = -1 }) !=
            LS_OK);
        ASSERT_CONTAINS(ls_error_message(), "step-1: optimizer.safetensors: byte");
        ASSERT_CONTAINS(ls_error_message(),
                        hole == 1 ? "was written by no rank" : "was written by two ranks");
        assert_int_equal(ls_test_count(ls_test_path("failing")), 0);
    }
    for (int rank = 0; rank < 3; rank++) {
        assert_true(run_ranks(3, save, &(job){ .dir = dir, .ranks = 3, .seed = 1, .failing = rank }) !=
                    LS_OK);
        ASSERT_CONTAINS(ls_error_message(), "no name that can be written");
        /* cleans up, had anything been left */
        ASSERT_OK(save(NULL, &(job){ .dir = dir, .ranks = 1, .failing = -1 }));
        assert_int_equal(ls_test_count(ls_test_path("failing")), 1);
        ASSERT_OK(ls_checkpoint_remove(dir));
    }
    ASSERT_OK(save(NULL, &(job){ .dir = dir, .ranks = 1, .failing = -1 }));
    assert_true(run_ranks(2, save, &(job){ .dir = dir, .ranks = 2, .failing = -1 }) != LS_OK);
    ASSERT_CONTAINS(ls_error_message(), "already there");
}

/* ---- a tensor that ranks have columns of */

enum { LONG = 2500, WIDE = 1024, PIECES = 2 }; /* 10 MB: two pieces, of 8 MiB and the rest */

typedef struct columns {
    const char *dir;
    bool damage;
} columns;

static ls_status damage(const char *dir)
{
    char path[700];
    snprintf(path, sizeof path, "%.*s.lockstep-unfinished-step-1/model.safetensors",
             (int)(strlen(dir) - strlen("step-1")), dir);
    FILE *f = fopen(path, "r+");
    if (!f || fseek(f, -1000, SEEK_END) || fputc(1, f) != 1 || fclose(f))
        return ls_fail(LS_E_INTERNAL, "%s", path);
    return LS_OK;
}

static ls_status save_columns(ls_group *g, void *context)
{
    const columns *x = context;
    const int ranks = g ? ls_group_size(g) : 1, rank = g ? ls_group_rank(g) : 0;
    const int64_t mine = WIDE / ranks;
    float *data = malloc(sizeof *data * (size_t)(LONG * mine)), bias = 5;
    for (int64_t i = 0; i < LONG * mine; i++)
        data[i] = (float)(i / mine * WIDE + rank * mine + i % mine);
    const ls_named_tensor t[2] = { { "bias", ls_tensor_of(NULL, &LS_TYPE(LS_F32, 1)) },
                                   { "weight", ls_tensor_of(NULL, &LS_TYPE(LS_F32, LONG, WIDE)) } };
    ls_box box = ls_box_of(&t[1].tensor.type);
    RANK_CHECK(ls_box_split(&box, 1, ranks, rank));
    const ls_range r[2] = { { .count = rank == 0, .data = &bias },
                            { .count = LONG * mine, .data = data, .box = &box } };
    const ls_checkpoint_contents c = { "{}", "{}", .model = { .n = 2, .tensors = t, .mine = r } };
    ls_saving *v = NULL;
    ls_status s = ls_saving_begin(&v, x->dir, &c, g);
    if (s == LS_OK)
        s = ls_saving_write(v);
    if (s == LS_OK)
        s = ls_saving_collect(v);
    if (s == LS_OK && x->damage && rank == 0)
        s = damage(x->dir);
    if (s == LS_OK)
        s = ls_saving_commit(v);
    ls_saving_end(&v);
    free(data);
    return s;
}

/* The manifest has no line for every row, and what is not what was written is noticed. */
static void columns_are_few_pieces(void **state)
{
    (void)state;
    char one[512], many[512];
    snprintf(one, sizeof one, "%s", ls_test_path("one/step-1"));
    snprintf(many, sizeof many, "%s", ls_test_path("columns/step-1"));
    ASSERT_OK(save_columns(NULL, &(columns){ one, false }));
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        ls_manifest m;
        int64_t pieces = 0;
        ASSERT_OK(run_ranks(ranks, save_columns, &(columns){ many, false }));
        ls_test_same_file(one, many, "model.safetensors");
        ASSERT_OK(ls_checkpoint_verify(many, LS_VERIFY_FULL, NULL));
        ASSERT_OK(ls_manifest_read(&m, many));
        for (int64_t i = 0; i < m.n; i++)
            pieces += !strcmp(m.files[m.pieces[i].file].name, "model.safetensors");
        assert_int_equal(pieces, 2 + PIECES); /* the header, the bias */
        ls_manifest_release(&m);
        ASSERT_OK(ls_checkpoint_remove(many));
    }
    assert_true(run_ranks(2, save_columns, &(columns){ many, true }) != LS_OK);
    ASSERT_CONTAINS(ls_error_message(), "are not what has just been written there");
    assert_int_equal(ls_test_count(ls_test_path("columns")), 0);
    ASSERT_OK(ls_checkpoint_remove(one));
}

/* Rank 1 sees another folder than rank 0, as hosts without a common file system do. */
static ls_status save_elsewhere(ls_group *g, void *context)
{
    job j = *(const job *)context;
    char other[600];
    snprintf(other, sizeof other, "%s-of-1", j.dir);
    j.dir = ls_group_rank(g) ? other : j.dir;
    return save(g, &j);
}

/* Rank 0 fails (`failing` 0), or somebody takes its files away (-1), before rank 1 has opened one. */
static ls_status save_late(ls_group *g, void *context)
{
    const job *j = context;
    const int rank = ls_group_rank(g);
    ls_named_tensor t[2][TENSORS];
    ls_range mine[2][TENSORS];
    const ls_checkpoint_contents c = contents(t, mine, j, rank);
    ls_saving *v;
    LS_TRY(ls_saving_begin(&v, j->dir, &c, g));
    ls_status s = rank == 0 ? ls_saving_write(v) : LS_OK;
    if (rank == 0 && j->failing == 0)
        ls_saving_end(&v);
    if (rank == 0 && j->failing < 0 && s == LS_OK) {
        char path[700];
        snprintf(path, sizeof path, "%.*s.lockstep-unfinished-step-1/model.safetensors",
                 (int)(strlen(j->dir) - strlen("step-1")), j->dir);
        s = unlink(path) == 0 ? LS_OK : ls_fail(LS_E_INTERNAL, "%s", path);
    }
    if (s == LS_OK)
        s = ls_group_barrier(g);
    if (s == LS_OK && !v)
        s = ls_fail(LS_E_IO, "rank 0's own reason");
    if (s == LS_OK && rank == 1)
        s = ls_saving_write(v);
    if (s == LS_OK)
        s = ls_saving_collect(v);
    ls_saving_end(&v);
    return s;
}

static void the_cause_is_told(void **state)
{
    (void)state;
    char dir[512];
    snprintf(dir, sizeof dir, "%s", ls_test_path("late/step-1"));
    job j = { .dir = dir, .ranks = 2, .seed = 3, .failing = -1 };
    assert_true(run_ranks(2, save_elsewhere, &j) != LS_OK);
    ASSERT_CONTAINS(ls_error_message(), "model.safetensors: rank 0 has made it, but it is not there for rank "
                                        "1: the folder must be the same on all hosts");
    assert_true(run_ranks(2, save_late, &j) != LS_OK);
    ASSERT_CONTAINS(ls_error_message(), "somebody removed files of it while rank 1 wrote them");
    j.failing = 0;
    assert_true(run_ranks(2, save_late, &j) != LS_OK);
    ASSERT_CONTAINS(ls_error_message(), "rank 0's own reason");
    assert_int_equal(ls_test_count(ls_test_path("late")), 0);
}

/* Each rank compares a part of the pieces; a flipped byte anywhere ends the call on all, with file and range.
 */
static void damage_is_found_together(void **state)
{
    (void)state;
    static const char *const FILES[] = { "model.safetensors", "optimizer.safetensors", "config.json" };
    char dir[512];
    snprintf(dir, sizeof dir, "%s", ls_test_path("damaged"));
    ASSERT_OK(run_ranks(4, save, &(job){ .dir = dir, .ranks = 4, .seed = 2, .failing = -1 }));
    for (int f = 0; f < 6; f++) {
        char *path = ls_path_join(dir, FILES[f / 2]);
        const long size = (long)ls_file_size(path);
        for (long at = 1; at < size; at += size / 6) {
            for (int back = 0; back < 2; back++) { /* and again: as it was */
                FILE *file = fopen(path, "r+b");
                fseek(file, at, SEEK_SET);
                const int c = fgetc(file);
                fseek(file, at, SEEK_SET);
                fputc(c ^ 16, file);
                fclose(file);
                job j = { .dir = dir, .ranks = 3, .how = f % 2 ? LS_VERIFY_FULL : LS_VERIFY_LOADED };
                if (back) {
                    ASSERT_OK(run_ranks(3, load, &j));
                    break;
                }
                assert_true(run_ranks(3, load, &j) != LS_OK);
                ASSERT_CONTAINS(ls_error_message(), path);
                ASSERT_CONTAINS(ls_error_message(), "are damaged");
                long long from = -1, to = -1;
                assert_int_equal(
                    sscanf(strstr(ls_error_message(), ": bytes "), ": bytes %lld to %lld", &from, &to), 2);
                assert_true(from <= at && at <= to);
            }
        }
        free(path);
    }
}

/* The tensor that has byte `at` of a file as `save` makes it; NULL: none. */
static const char *tensor_at(const char *path, const char *bytes, uint64_t at)
{
    const int l = strstr(path, "model.safetensors") ? 0 : strstr(path, "optimizer.safetensors") ? 1 : -1;
    uint64_t end;
    memcpy(&end, bytes, sizeof end);
    end += 8;
    for (int i = 0; l >= 0 && at >= end && i < TENSORS; i++)
        if (at < (end += 4 * (uint64_t)SIZES[i]))
            return NAMES[l][i];
    return NULL;
}

/* Any bit of any file is flipped, or the file is cut or missing: opening and loading name the file, and the
 * tensor where it is one's bytes. */
static void any_damage_is_named(void **state)
{
    (void)state;
    static const char *const FILES[] = { "model.safetensors", "optimizer.safetensors", "config.json",
                                         "trainer.json", "manifest.json" };
    char dir[512];
    snprintf(dir, sizeof dir, "%s", ls_test_path("any"));
    ASSERT_OK(run_ranks(2, save, &(job){ .dir = dir, .ranks = 2, .seed = 3, .failing = -1 }));
    uint32_t x = 12345;
    for (int round = 0; round < 60; round++) {
        char *path = ls_path_join(dir, FILES[round % 5]), *good, *bad, expected[80] = "";
        size_t n;
        ASSERT_OK(ls_file_read(&good, &n, path));
        x = x * 1664525u + 1013904223u;
        const size_t at = (x >> 4) % n;
        const int what = round / 5 % 4; /* 0 and 1: flip */
        bad = malloc(n);
        memcpy(bad, good, n);
        bad[at] ^= (char)(1 << (x & 7));
        if (what == 2)
            assert_int_equal(unlink(path), 0);
        else
            ASSERT_OK(ls_file_write(path, bad, what == 3 ? at : n));
        const char *tensor = what < 2 ? tensor_at(path, good, at) : NULL;
        if (tensor)
            snprintf(expected, sizeof expected, "are damaged: tensor \"%s\" (xxh3", tensor);
        const int ranks = 1 + round % 2 * 2;
        for (int how = LS_VERIFY_FULL; how <= LS_VERIFY_LOADED; how++) {
            job j = { .dir = dir, .ranks = ranks, .seed = (uint32_t)round, .how = (ls_verify)how };
            assert_true((ranks == 1 ? load(NULL, &j) : run_ranks(ranks, load, &j)) != LS_OK);
            ASSERT_CONTAINS(ls_error_message(), path);
            ASSERT_CONTAINS(ls_error_message(), what == 2 ? "not there" : tensor ? expected : ":");
        }
        ASSERT_OK(ls_file_write(path, good, n));
        free(path);
        free(good);
        free(bad);
    }
    ASSERT_OK(load(NULL, &(job){ .dir = dir, .ranks = 1, .how = LS_VERIFY_LOADED }));
}

/* The pieces that hold a range are compared, and no other: damage beside it stands in nobody's way. */
static void only_the_range_is_proved(void **state)
{
    (void)state;
    char dir[512];
    ls_manifest m;
    snprintf(dir, sizeof dir, "%s", ls_test_path("beside"));
    ASSERT_OK(save(NULL, &(job){ .dir = dir, .ranks = 1, .failing = -1 }));
    char *path = ls_path_join(dir, "model.safetensors"), *bytes;
    size_t n;
    ASSERT_OK(ls_file_read(&bytes, &n, path));
    ASSERT_OK(ls_manifest_read(&m, dir));
    int64_t last = m.n - 1;
    while (strcmp(m.files[m.pieces[last].file].name, "model.safetensors"))
        last--;
    const ls_piece *before = &m.pieces[last - 1], *p = &m.pieces[last];
    assert_true(before->file == p->file && before->offset + before->length == p->offset);
    bytes[p->offset] ^= 1;
    ASSERT_OK(ls_manifest_prove(&m, path, (const uint8_t *)bytes, 0, p->offset));
    ASSERT_FAILS(ls_manifest_prove(&m, path, (const uint8_t *)bytes, p->offset, p->offset + 1), LS_E_FORMAT,
                 "are damaged");
    bytes[p->offset] ^= 1;
    bytes[before->offset + before->length - 1] ^= 1;
    memset(m.proved, 0, (size_t)m.n * sizeof *m.proved);
    ASSERT_OK(ls_manifest_prove(&m, path, (const uint8_t *)bytes, p->offset, n));
    ASSERT_FAILS(ls_manifest_prove(&m, path, (const uint8_t *)bytes, p->offset - 1, n), LS_E_FORMAT,
                 "are damaged");
    ls_manifest_release(&m);
    free(bytes);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_ranks_write_the_same),
        cmocka_unit_test(digests),
        cmocka_unit_test(failures),
        cmocka_unit_test(columns_are_few_pieces),
        cmocka_unit_test(the_cause_is_told),
        cmocka_unit_test(damage_is_found_together),
        cmocka_unit_test(any_damage_is_named),
        cmocka_unit_test(only_the_range_is_proved),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
