/* test_collective.c - collectives of ranks that are threads, against plain loops: every kind, 1 to 4 and 7
 * ranks, all types, odd sizes, bit for bit; and when an operand may be used again. */
#include "comm/comm.h"
#include "comm/reduce.h"
#include "base/rng.h"
#include "device/ref/ref.h"
#include "support/ranks.h"
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct test {
    ls_collective_kind kind;
    ls_dtype from, via, to;
    int64_t count;
    bool in_place, settled, map;
    int threads;
};

/* ---- the obvious */

static double number(const void *data, ls_dtype t, int64_t i)
{
    ls_type type = LS_TYPE(t, INT64_MAX);
    ls_tensor x = ls_tensor_of((void *)data, &type);
    return ls_ref_get(&x, i);
}

static void set(void *data, ls_dtype t, int64_t i, double value)
{
    ls_type type = LS_TYPE(t, INT64_MAX);
    ls_tensor x = ls_tensor_of(data, &type);
    ls_ref_put(&x, i, value);
}

static double rounded(double x, ls_dtype t)
{
    char element[8];
    set(element, t, 0, x);
    return number(element, t, 0);
}

/* Element i of a rank's operand: ordinary numbers, and now and then an extreme one. Drawn once. */
enum { ROUNDS = 2, RANKS = 7, MOST = 8000 };
static double drawn[ROUNDS][RANKS][MOST];

static double draw(int rank, int64_t i, int round)
{
    static const double odd[] = { 0.0, -0.0, INFINITY, NAN, 1e-40, -6e-8, 65519.9, 3e38, 1e-30, 1.00390625 };
    uint32_t bits[4];
    ls_rng_block(ls_rng_key_of(7, (uint64_t)round), (uint64_t)i, (uint64_t)rank, bits);
    if (bits[1] % 16 == 0)
        return odd[bits[2] % 10];
    return ldexp((double)(int32_t)bits[0], (int)(bits[3] % 12) - 35);
}

static int draw_all(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++)
        for (int rank = 0; rank < RANKS; rank++)
            for (int64_t i = 0; i < MOST; i++)
                drawn[round][rank][i] = draw(rank, i, round);
    return 0;
}

static double operand(int rank, int64_t i, int round) { return drawn[round][rank][i % MOST]; }

static double add(double a, double b, const struct test *t)
{
    if (t->kind == LS_ALL_REDUCE_MAX)
        return isnan(a) || a > b ? a : b;
    return rounded(t->via == LS_F64 ? a + b : (double)((float)a + (float)b), t->via);
}

/* Left: the largest power of two below n. */
static double tree(const struct test *t, int first, int n, int64_t i, int round)
{
    if (n == 1) {
        double x = rounded(operand(first, i, round), t->from);
        return t->kind == LS_ALL_REDUCE_MAX ? x : rounded(x, t->via);
    }
    int left = 1;
    while (left * 2 < n)
        left *= 2;
    return add(tree(t, first, left, i, round), tree(t, first + left, n - left, i, round), t);
}

static __int128 wide(int rank, int64_t pair, int round)
{
    uint32_t w[4];
    ls_rng_block(ls_rng_key_of(9, (uint64_t)round), (uint64_t)pair, (uint64_t)rank, w);
    unsigned __int128 x = (unsigned __int128)w[0] << 96 | (unsigned __int128)w[1] << 64 |
                          (uint64_t)w[2] << 32 | w[3];
    return (__int128)x >> 3;
}

/* ---- a rank */

static bool same(double a, double b) { return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b); }

static double expected(const struct test *t, int n, int rank, int64_t i, int round)
{
    double x = t->kind == LS_ALL_GATHER ? rounded(operand((int)(i / t->count), i % t->count, round), t->from)
               : t->kind == LS_REDUCE_SCATTER ? tree(t, 0, n, rank * t->count + i, round)
                                              : tree(t, 0, n, i, round);
    return rounded(x, t->to);
}

static void fill(const struct test *t, void *mine, int64_t n, int rank, int round)
{
    for (int64_t i = 0; i < n; i++)
        if (t->kind != LS_ALL_REDUCE_WIDE)
            set(mine, t->from, i, operand(rank, i, round));
        else if (i % 2 == 0) {
            __int128 x = wide(rank, i, round);
            memcpy((char *)mine + 8 * i, &x, 16);
        }
}

static bool right(const struct test *t, const void *result, int64_t n, int ranks, int rank, int round)
{
    if (t->kind == LS_ALL_REDUCE_WIDE) {
        for (int64_t i = 0; i < n; i += 2) {
            __int128 sum = 0;
            for (int r = 0; r < ranks; r++)
                sum = (__int128)((unsigned __int128)sum + (unsigned __int128)wide(r, i, round));
            if (memcmp((const char *)result + 8 * i, &sum, 16))
                return false;
        }
        return true;
    }
    for (int64_t i = 0; i < n; i++)
        if (!same(number(result, t->to, i), expected(t, ranks, rank, i, round)))
            return false;
    return true;
}

static ls_status one_rank(ls_group *g, void *context)
{
    const struct test *t = context;
    int n = ls_group_size(g), r = ls_group_rank(g), all[n];
    for (int i = 0; i < n; i++)
        all[i] = i;
    int64_t in = t->kind == LS_REDUCE_SCATTER ? t->count * n : t->count,
            out = t->kind == LS_ALL_GATHER ? t->count * n : t->count;
    size_t in_bytes = (size_t)in * ls_dtype_size(t->from), out_bytes = (size_t)out * ls_dtype_size(t->to),
           offset = 128;
    ls_axis *a;
    ls_window *w;
    ls_collective *c;
    LS_TRY(ls_axis_create(&a, g, "dp", n, all));
    LS_TRY(ls_window_create(&w, a, offset + in_bytes, t->map ? out_bytes : 0));
    char *own = malloc(out_bytes + 1), *result = t->map ? w->shared : t->in_place ? w->mine + offset : own;
    char label[96];
    snprintf(label, sizeof label, "%s of %s via %s to %s, %lld elements", ls_collective_name(t->kind),
             ls_dtype_name(t->from), ls_dtype_name(t->via), ls_dtype_name(t->to), (long long)t->count);
    LS_TRY(ls_collective_create(&c, &(ls_collective_desc){ .kind = t->kind,
                                                           .axis = a,
                                                           .count = t->count,
                                                           .from = t->from,
                                                           .to = t->to,
                                                           .via = t->via,
                                                           .window = w,
                                                           .offset = offset,
                                                           .result = t->map ? NULL : result,
                                                           .settled = t->settled,
                                                           .map_to = t->map ? w->shared : NULL,
                                                           .threads = t->threads,
                                                           .label = label }));
    bool good = true;
    for (int round = 0; round < ROUNDS; round++) {
        fill(t, w->mine + offset, in, r, round);
        if (t->settled) {
            ls_axis_arrive(a);
            LS_TRY(ls_axis_fence(a, "settled"));
        }
        LS_TRY(ls_collective_start(c));
        LS_TRY(ls_collective_wait(c));
        good = good && right(t, result, out, n, r, round);
        if (t->in_place && !t->map)
            memset(w->mine + offset, 0, in_bytes); /* free at once */
        ls_axis_arrive(a);
        LS_TRY(ls_axis_fence(a, "everybody has read"));
    }
    double bytes = ls_collective_bytes(t->kind, n, t->count,
                                       t->kind == LS_REDUCE_SCATTER || t->kind == LS_ALL_REDUCE ? t->via
                                       : ls_dtype_size(t->to) < ls_dtype_size(t->from)          ? t->to
                                                                                                : t->from);
    good = good && ls_axis_ledger(a)->calls == ROUNDS &&
           ls_axis_ledger(a)->bytes == (t->map && t->from == t->to ? 0 : ROUNDS * (int64_t)bytes);
    ls_collective_destroy(&c);
    ls_window_destroy(&w);
    ls_axis_destroy(&a);
    free(own);
    return good ? LS_OK
                : ls_fail(LS_E_INTERNAL, "%s on %d ranks%s%s%s", label, n, t->in_place ? ", in place" : "",
                          t->settled ? ", settled" : "", t->map ? ", map" : "");
}

static void on_all(struct test t)
{
    for (int n = 1; n <= 4; n++)
        for (int some = 0; some < 2; some++) { /* one element: some ranks have none of it */
            t.count = some ? 2215 / n : 1;
            ASSERT_OK(run_ranks(n, one_rank, &t));
        }
}

static const ls_dtype FLOATS[] = { LS_F32, LS_F64, LS_BF16, LS_F16 };

static void gathers(void **state)
{
    (void)state;
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 4; to++)
            for (int how = 0; how < 3; how++)
                on_all((struct test){ .kind = LS_ALL_GATHER,
                                      .from = FLOATS[from],
                                      .to = FLOATS[to],
                                      .settled = how == 1,
                                      .map = how == 2,
                                      .threads = 1 });
    on_all((struct test){ .kind = LS_ALL_GATHER, .from = LS_I64, .to = LS_I64, .threads = 2 });
    on_all((struct test){ .kind = LS_ALL_GATHER, .from = LS_U8, .to = LS_U8, .threads = 1 });
}

static void sums(void **state)
{
    (void)state;
    for (int from = 0; from < 4; from++)
        for (int via = 0; via < 4; via++) {
            on_all((struct test){ .kind = LS_REDUCE_SCATTER,
                                  .from = FLOATS[from],
                                  .via = FLOATS[via],
                                  .to = FLOATS[(from + via) % 4],
                                  .threads = 1 });
            on_all((struct test){ .kind = LS_ALL_REDUCE,
                                  .from = FLOATS[from],
                                  .via = FLOATS[via],
                                  .to = FLOATS[(from + via + 1) % 4],
                                  .threads = 1 });
            on_all((struct test){ .kind = LS_ALL_REDUCE,
                                  .from = FLOATS[from],
                                  .via = FLOATS[via],
                                  .to = FLOATS[from],
                                  .in_place = true,
                                  .threads = 1 });
        }
    struct test many = { .kind = LS_ALL_REDUCE,
                         .from = LS_F32,
                         .via = LS_F32,
                         .to = LS_F32,
                         .count = 999,
                         .in_place = true,
                         .threads = 1 };
    ASSERT_OK(run_ranks(7, one_rank, &many));
}

static void maxima_and_wide_sums(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        for (int in_place = 0; in_place < 2; in_place++)
            on_all((struct test){ .kind = LS_ALL_REDUCE_MAX,
                                  .from = FLOATS[t],
                                  .via = FLOATS[t],
                                  .to = FLOATS[t],
                                  .in_place = in_place,
                                  .threads = 1 });
    for (int n = 1; n <= 4; n++)
        for (int64_t count = 2; count < 2000; count = count * 3 + 2)
            for (int in_place = 0; in_place < 2; in_place++) {
                struct test t = { .kind = LS_ALL_REDUCE_WIDE,
                                  .from = LS_I64,
                                  .via = LS_I64,
                                  .to = LS_I64,
                                  .count = count / 2 * 2,
                                  .in_place = in_place,
                                  .threads = 1 };
                ASSERT_OK(run_ranks(n, one_rank, &t));
            }
}

/* Results that are written past the caches (8 MiB and more): small whole numbers, so that sums are plain in
 * any type. */
static ls_status large(ls_group *g, void *context)
{
    const struct test *t = context;
    int n = ls_group_size(g), r = ls_group_rank(g);
    int64_t in = t->kind == LS_REDUCE_SCATTER ? t->count * n : t->count,
            out = t->kind == LS_ALL_GATHER ? t->count * n : t->count;
    ls_axis *a;
    ls_window *w;
    ls_collective *c;
    LS_TRY(ls_axis_create(&a, g, "dp", n, (int[]){ 0, 1 }));
    LS_TRY(ls_window_create(&w, a, (size_t)in * ls_dtype_size(t->from), 0));
    char *result = malloc((size_t)out * ls_dtype_size(t->to));
    LS_TRY(ls_collective_create(&c, &(ls_collective_desc){ .kind = t->kind,
                                                           .axis = a,
                                                           .count = t->count,
                                                           .from = t->from,
                                                           .to = t->to,
                                                           .via = t->via,
                                                           .window = w,
                                                           .result = result,
                                                           .threads = t->threads,
                                                           .label = "a large one" }));
    for (int64_t i = 0; i < in; i++)
        if (t->from == LS_F32)
            ((float *)(void *)w->mine)[i] = (float)(i % 61 + r);
        else
            set(w->mine, t->from, i, (double)(i % 61 + r));
    LS_TRY(ls_collective_start(c));
    LS_TRY(ls_collective_wait(c));
    for (int64_t i = 0; i < out; i += i < 5000 || i > out - 5000 ? 1 : 7) {
        int64_t at = t->kind == LS_REDUCE_SCATTER ? i + r * t->count : i;
        double right_one = t->kind == LS_ALL_GATHER ? (double)(i % t->count % 61 + i / t->count)
                                                    : (double)(2 * (at % 61) + 1);
        RANK_CHECK(number(result, t->to, i) == right_one);
    }
    ls_collective_destroy(&c);
    ls_window_destroy(&w);
    ls_axis_destroy(&a);
    free(result);
    return LS_OK;
}

static void past_the_caches(void **state)
{
    (void)state;
    int64_t count = (8 << 20) / 4 + 17;
    struct test t[] = {
        { .kind = LS_ALL_REDUCE, .from = LS_F32, .via = LS_F32, .to = LS_F32, .count = count, .threads = 1 },
        { .kind = LS_REDUCE_SCATTER,
          .from = LS_BF16,
          .via = LS_F32,
          .to = LS_F64,
          .count = count / 2,
          .threads = 2 },
        { .kind = LS_ALL_GATHER, .from = LS_F32, .to = LS_F32, .count = count / 2, .threads = 1 },
        { .kind = LS_ALL_GATHER, .from = LS_F32, .to = LS_BF16, .count = count, .threads = 1 },
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++)
        ASSERT_OK(run_ranks(2, large, &t[i]));
}

/* Sums of f32 that begin and end anywhere in a line of the result. */
static void lines_past_the_caches(void **state)
{
    (void)state;
    enum { COUNT = 300, EDGE = 32 };
    const struct test t = { .kind = LS_ALL_REDUCE, .from = LS_F32, .via = LS_F32, .to = LS_F32 };
    static float in[5][COUNT + 1];
    _Alignas(64) float out[EDGE + COUNT + EDGE];
    const char *from[5];
    for (int r = 0; r < 5; r++) {
        from[r] = (const char *)&in[r][r % 2]; /* operands need not lie as the result does */
        for (int i = 0; i < COUNT; i++)
            set(&in[r][r % 2], LS_F32, i, operand(r, i, 0));
    }
    for (int n = 2; n <= 5; n++)
        for (int at = 0; at <= 17; at++)
            for (int count = 1; count <= COUNT; count = count < 40 ? count + 1 : count + 43) {
                for (int i = 0; i < EDGE + COUNT + EDGE; i++)
                    out[i] = 7;
                ls_reduce_run(&(ls_reduce){ .by = LS_BY_SUM,
                                            .from = LS_F32,
                                            .via = LS_F32,
                                            .to = LS_F32,
                                            .n = n,
                                            .in = from,
                                            .out = (char *)(out + at),
                                            .count = count,
                                            .stream = true,
                                            .threads = 1 });
                for (int i = 0; i < count; i++)
                    assert_true(same((double)out[at + i], rounded(tree(&t, 0, n, i, 0), LS_F32)));
                for (int i = 0; i < at; i++)
                    assert_true(out[i] == 7);
                assert_true(out[at + count] == 7);
            }
}

/* No conversion makes a number or an infinity of a NaN whose only bit of the fraction is the last. */
static void nans_stay(void **state)
{
    (void)state;
    static const struct {
        ls_dtype type;
        uint64_t nan;
    } NANS[] = {
        { LS_F32, 0x7f800001 }, { LS_F64, 0xfff0000000000001 }, { LS_BF16, 0x7f81 }, { LS_F16, 0xfc01 }
    };
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 4; to++) {
            uint64_t there = 0;
            double back = 0;
            ls_convert((char *)&there, NANS[to].type, (const char *)&NANS[from].nan, NANS[from].type, 1,
                       false, 1);
            ls_convert((char *)&back, LS_F64, (const char *)&there, NANS[to].type, 1, false, 1);
            assert_true(isnan(back));
        }
}

static void several_threads(void **state)
{
    (void)state;
    struct test t = {
        .kind = LS_ALL_REDUCE, .from = LS_F32, .via = LS_F32, .to = LS_F32, .count = 40001, .threads = 3
    };
    ASSERT_OK(run_ranks(2, one_rank, &t));
    t.kind = LS_REDUCE_SCATTER;
    ASSERT_OK(run_ranks(2, one_rank, &t));
    t.kind = LS_ALL_GATHER;
    t.to = LS_BF16;
    ASSERT_OK(run_ranks(2, one_rank, &t));
}

/* What cannot be, refused when it is made. */
static void refused(void **state)
{
    (void)state;
    ls_group *g;
    ls_axis *a;
    ls_window *w;
    ls_collective *c;
    ASSERT_OK(ls_group_self(&g));
    ASSERT_OK(ls_axis_create(&a, g, "dp", 1, (int[]){ 0 }));
    ASSERT_OK(ls_window_create(&w, a, 100, 0));
    ls_collective_desc d = { .kind = LS_ALL_REDUCE,
                             .axis = a,
                             .count = 20,
                             .from = LS_F32,
                             .via = LS_F32,
                             .to = LS_F32,
                             .window = w,
                             .offset = 64,
                             .threads = 1,
                             .label = "all_reduce of unit a" };
    ASSERT_FAILS(ls_collective_create(&c, &d), LS_E_ARG, "all_reduce of unit a", "80 bytes at 64",
                 "100 bytes");
    d.offset = 0;
    d.via = LS_I32;
    ASSERT_FAILS(ls_collective_create(&c, &d), LS_E_ARG, "via i32", "floats");
    d.kind = LS_ALL_REDUCE_MAX;
    d.from = LS_BF16;
    ASSERT_FAILS(ls_collective_create(&c, &d), LS_E_ARG, "f32 or f64");
    d.kind = LS_ALL_REDUCE_WIDE;
    ASSERT_FAILS(ls_collective_create(&c, &d), LS_E_ARG, "pairs of i64");
    d.from = d.to = LS_I64;
    d.count = 5; /* two and a half of them */
    ASSERT_FAILS(ls_collective_create(&c, &d), LS_E_ARG, "pairs of i64, not 5");
    d.kind = LS_ALL_GATHER;
    d.from = LS_BF16;
    d.to = LS_I32;
    ASSERT_FAILS(ls_collective_create(&c, &d), LS_E_ARG, "cannot convert bf16 to i32");
    ls_window_destroy(&w);
    ls_axis_destroy(&a);
    ls_group_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused),
        cmocka_unit_test(gathers),
        cmocka_unit_test(sums),
        cmocka_unit_test(maxima_and_wide_sums),
        cmocka_unit_test(nans_stay),
        cmocka_unit_test(several_threads),
        cmocka_unit_test(past_the_caches),
        cmocka_unit_test(lines_past_the_caches),
    };
    return cmocka_run_group_tests(tests, draw_all, NULL);
}
