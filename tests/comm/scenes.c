/* scenes.c - see scenes.h. The axes are all ranks, neighbours, every second rank, and all but the last, which
 * divide unevenly over hosts. */
#include "scenes.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "comm/comm.h"
#include "support/ranks.h"

static void add(uint64_t *digest, const void *data, size_t bytes)
{
    *digest = ls_hash64_more(*digest, data, bytes);
}

/* (Steele et al., splitmix64) */
static uint64_t next(uint64_t *x)
{
    uint64_t z = *x += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* Ordinary numbers of type t, or any bits of integers. */
static void fill(void *data, ls_dtype t, int64_t n, uint64_t rank, uint64_t scene)
{
    uint64_t seed = rank << 32 | scene;
    for (int64_t i = 0; i < n; i++) {
        uint64_t w = next(&seed);
        double x = ((double)(w >> 11) / 0x1p53 - 0.5) * (w % 8 ? 1 : 1000);
        if (t == LS_F64)
            memcpy((char *)data + 8 * i, &x, 8);
        else if (t == LS_I64)
            memcpy((char *)data + 8 * i, &w, 8);
        else if (t == LS_F32)
            ((float *)data)[i] = (float)x;
        else
            ((uint16_t *)data)[i] = (uint16_t)((t == LS_BF16 ? 0x3c00 + w % 0x300 : 0x3000 + w % 0x1000) |
                                               (w >> 20 & 0x8000));
    }
}

typedef struct scene {
    ls_collective_kind kind;
    int64_t count;
    ls_dtype from, via, to;
    enum { APART, IN_PLACE, MAPPED, SETTLED } how;
} scene;

enum { LARGE = 140001 }; /* f32: more than one message */
static const scene SCENES[] = {
    { LS_ALL_GATHER, 1, LS_F32, LS_F32, LS_F32, APART },
    { LS_ALL_GATHER, 1000, LS_F32, LS_F32, LS_BF16, APART },
    { LS_ALL_GATHER, 777, LS_BF16, LS_F32, LS_F32, SETTLED },
    { LS_ALL_GATHER, 128, LS_F32, LS_F32, LS_BF16, MAPPED },
    { LS_ALL_GATHER, LARGE, LS_F32, LS_F32, LS_F32, APART },
    { LS_ALL_GATHER, LARGE, LS_F32, LS_F32, LS_F32, MAPPED },
    { LS_ALL_GATHER, 77, LS_F32, LS_F32, LS_F16, SETTLED },
    { LS_REDUCE_SCATTER, 1, LS_F32, LS_F32, LS_F32, APART },
    { LS_REDUCE_SCATTER, 1001, LS_BF16, LS_F32, LS_F32, APART },
    { LS_REDUCE_SCATTER, 1001, LS_F32, LS_BF16, LS_F32, APART },
    { LS_REDUCE_SCATTER, 555, LS_F64, LS_F64, LS_F64, APART },
    { LS_REDUCE_SCATTER, 555, LS_F16, LS_F16, LS_F16, APART },
    { LS_REDUCE_SCATTER, LARGE, LS_F32, LS_F32, LS_F32, APART },
    { LS_ALL_REDUCE, 1, LS_F32, LS_F32, LS_F32, IN_PLACE },
    { LS_ALL_REDUCE, 1000, LS_F32, LS_F32, LS_F32, APART },
    { LS_ALL_REDUCE, 999, LS_BF16, LS_F32, LS_BF16, IN_PLACE },
    { LS_ALL_REDUCE, 999, LS_BF16, LS_BF16, LS_F32, APART },
    { LS_ALL_REDUCE, 4 * LARGE + 1, LS_F32, LS_F32, LS_F32, IN_PLACE },
    { LS_ALL_REDUCE_MAX, 3, LS_F32, LS_F32, LS_F32, IN_PLACE },
    { LS_ALL_REDUCE_MAX, 300, LS_F64, LS_F64, LS_F64, APART },
    { LS_ALL_REDUCE_WIDE, 2, LS_I64, LS_I64, LS_I64, IN_PLACE },
    { LS_ALL_REDUCE_WIDE, 1000, LS_I64, LS_I64, LS_I64, APART },
};
enum { COUNT = sizeof SCENES / sizeof SCENES[0] };

static int64_t operand_count(const scene *s, int n)
{
    return s->count * (s->kind == LS_REDUCE_SCATTER ? n : 1);
}
static int64_t result_count(const scene *s, int n) { return s->count * (s->kind == LS_ALL_GATHER ? n : 1); }

typedef struct stage {
    int n; /* members */
    ls_axis *axis;
    ls_window *window;
    char *operand[COUNT], *own[COUNT], *result[COUNT]; /* own: memory of results that lie nowhere else */
    ls_collective *collective[COUNT];
} stage;

static size_t up(size_t bytes) { return (bytes + 63) / 64 * 64; }

static ls_status open_scene(stage *t, int i, size_t at, size_t shared_at)
{
    const scene *s = &SCENES[i];
    int n = t->n;
    t->operand[i] = t->window->mine + at;
    if (s->how == APART || s->how == SETTLED)
        t->own[i] = malloc((size_t)result_count(s, n) * ls_dtype_size(s->to));
    t->result[i] = s->how == MAPPED     ? t->window->shared + shared_at
                   : s->how == IN_PLACE ? t->operand[i]
                                        : t->own[i];
    return ls_collective_create(&t->collective[i],
                                &(ls_collective_desc){ .kind = s->kind,
                                                       .axis = t->axis,
                                                       .count = s->count,
                                                       .from = s->from,
                                                       .to = s->to,
                                                       .via = s->via,
                                                       .window = t->window,
                                                       .offset = at,
                                                       .settled = s->how == SETTLED,
                                                       .map_to = s->how == MAPPED ? t->result[i] : NULL,
                                                       .map_from = s->how == MAPPED ? t->operand[i] : NULL,
                                                       .result = t->result[i],
                                                       .threads = 1,
                                                       .label = "a scene" });
}

static ls_status open_stage(stage *t, ls_group *g, const char *name, int n, const int *members)
{
    size_t bytes = 0, shared = 0, at[COUNT], shared_at[COUNT];
    *t = (stage){ .n = n };
    for (int i = 0; i < COUNT; i++) {
        at[i] = bytes;
        shared_at[i] = shared;
        bytes += up((size_t)operand_count(&SCENES[i], n) * ls_dtype_size(SCENES[i].from));
        shared += SCENES[i].how == MAPPED
                      ? up((size_t)result_count(&SCENES[i], n) * ls_dtype_size(SCENES[i].to))
                      : 0;
    }
    LS_TRY(ls_axis_create(&t->axis, g, name, n, members));
    LS_TRY(ls_window_create(&t->window, t->axis, bytes, shared));
    for (int i = 0; i < COUNT; i++)
        LS_TRY(open_scene(t, i, at[i], shared_at[i]));
    return LS_OK;
}

static void close_stage(stage *t)
{
    for (int i = 0; i < COUNT; i++) {
        ls_collective_destroy(&t->collective[i]);
        free(t->own[i]);
    }
    ls_window_destroy(&t->window);
    ls_axis_destroy(&t->axis);
}

/* Two collectives are under way at a time; a fence between rounds frees all operands, settles states, and has
 * something to do between its halves. */
static ls_status play(stage *t, ls_group *g, uint64_t *digest, int round)
{
    int n = t->n;
    for (int i = 0; i < COUNT; i++)
        fill(t->operand[i], SCENES[i].from, operand_count(&SCENES[i], n), (uint64_t)ls_group_rank(g),
             (uint64_t)(round * COUNT + i));
    ls_axis_arrive(t->axis);
    add(digest, &round, sizeof round);
    LS_TRY(ls_axis_fence(t->axis, "states are settled"));
    LS_TRY(ls_collective_start(t->collective[0]));
    for (int i = 0; i < COUNT; i++) {
        if (i + 1 < COUNT)
            LS_TRY(ls_collective_start(t->collective[i + 1]));
        LS_TRY(ls_collective_wait(t->collective[i]));
        add(digest, t->result[i], (size_t)result_count(&SCENES[i], n) * ls_dtype_size(SCENES[i].to));
    }
    ls_axis_arrive(t->axis);
    return ls_axis_fence(t->axis, "all have read");
}

static ls_status numbers(ls_group *g, uint64_t *digest)
{
    enum { N = 30000 };
    int n = ls_group_size(g), r = ls_group_rank(g);
    float *x = malloc(sizeof *x * N), *all = malloc(sizeof *x * N * (size_t)n);
    int64_t whole[3] = { r, -r, 1ll << (40 + r) };
    ls_status s = LS_OK;
    fill(x, LS_F32, N, (uint64_t)r, 999);
    LS_TRY_TO(s, ls_group_barrier(g), done);
    LS_TRY_TO(s, ls_group_all_gather(g, x, sizeof *x * N, all), done);
    add(digest, all, sizeof *x * N * (size_t)n);
    LS_TRY_TO(s, ls_group_all_reduce(g, x, N, LS_F32, LS_REDUCE_SUM), done);
    add(digest, x, sizeof *x * N);
    LS_TRY_TO(s, ls_group_all_reduce(g, whole, 3, LS_I64, LS_REDUCE_MAX), done);
    add(digest, whole, sizeof whole);
    x[5] = (float)r;
    LS_TRY_TO(s, ls_group_broadcast(g, x, sizeof *x * N, n - 1), done);
    add(digest, x, sizeof *x * N);
done:
    free(x);
    free(all);
    return s;
}

/* Members of the k-th axis that this rank is in. */
/* Calls that differ between rank 0 and the last: all ranks get the same error, and the group goes on. */
static ls_status mistakes(ls_group *g)
{
    static const char *const WANT[] = { "ls_group_all_reduce: count is",
                                        "dtype is f64",
                                        "how is",
                                        "calls ls_group_barrier where",
                                        "root is",
                                        "ls_group_broadcast: bytes is",
                                        "ls_group_all_gather: bytes is",
                                        "calls ls_group_all_gather where",
                                        NULL,
                                        "count is 70000" };
    const int n = ls_group_size(g), last = ls_group_rank(g) == n - 1;
    static const double zeros[70000];
    for (int k = 0; n > 1 && k < (int)(sizeof WANT / sizeof *WANT); k++) {
        double *x = malloc(sizeof zeros), *all = malloc(sizeof(double) * 4 * (size_t)n);
        ls_status s = LS_OK;
        memcpy(x, zeros, sizeof zeros);
        switch (k) {
        case 0: s = ls_group_all_reduce(g, x, last ? 3 : 2, LS_F32, LS_REDUCE_SUM); break;
        case 1: s = ls_group_all_reduce(g, x, 2, last ? LS_F64 : LS_F32, LS_REDUCE_SUM); break;
        case 2: s = ls_group_all_reduce(g, x, 2, LS_F32, last ? LS_REDUCE_MAX : LS_REDUCE_SUM); break;
        case 3: s = last ? ls_group_barrier(g) : ls_group_all_reduce(g, x, 2, LS_F32, LS_REDUCE_SUM); break;
        case 4: s = ls_group_broadcast(g, x, 8, last); break;
        case 5: s = ls_group_broadcast(g, x, last ? 8 : 4, 0); break;
        case 6: s = ls_group_all_gather(g, x, last ? 8 : 4, all); break;
        case 7: s = last ? ls_group_all_gather(g, x, 8, all) : ls_group_broadcast(g, x, 8, 0); break;
        case 8: s = ls_group_all_reduce(g, last ? NULL : x, 2, LS_F32, LS_REDUCE_SUM); break;
        default: s = ls_group_all_reduce(g, x, last ? 70000 : 2, LS_F64, LS_REDUCE_SUM); break;
        }
        free(x);
        free(all);
        const char *want = k == 8 ? (last ? "data is NULL" : "cannot make the call") : WANT[k];
        if (s != LS_E_ARG || !strstr(ls_error_message(), want))
            return ls_fail(LS_E_INTERNAL, "rank %d, mistake %d: status %d, \"%s\"", ls_group_rank(g), k,
                           (int)s, ls_error_message());
    }
    return LS_OK;
}

static int members_of(int k, int size, int rank, int *members)
{
    int n = 0;
    for (int r = 0; r < size; r++) {
        bool with = k == 0   ? true
                    : k == 1 ? r / 2 == rank / 2
                    : k == 2 ? r % 2 == rank % 2
                             : (r == size - 1) == (rank == size - 1);
        if (with)
            members[n++] = r;
    }
    return n;
}

ls_status scenes_run(ls_group *g, uint64_t *digest)
{
    static const char *const NAMES[] = { "all", "neighbours", "strided", "uneven" };
    int size = ls_group_size(g), rank = ls_group_rank(g), members[size];
    *digest = 0;
    LS_TRY(mistakes(g));
    LS_TRY(numbers(g, digest));
    stage t[4];
    for (int k = 0; k < 4; k++) {
        int n = members_of(k, size, rank, members);
        LS_TRY(open_stage(&t[k], g, NAMES[k], n, members));
    }
    for (int round = 0; round < 2; round++)
        for (int k = 0; k < 4; k++)
            LS_TRY(play(&t[k], g, digest, round));
    for (int k = 0; k < 4; k++)
        close_stage(&t[k]);
    return ls_group_barrier(g);
}

static ls_status run_one(ls_group *g, void *digests)
{
    return scenes_run(g, (uint64_t *)digests + ls_group_rank(g));
}

ls_status scenes_run_threads(int ranks, uint64_t *digests) { return run_ranks(ranks, run_one, digests); }
