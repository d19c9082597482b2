/* test_combine.c - the kernels that add pieces of several ranks give the bits of comm/reduce.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "comm/reduce.h"
#include "device/link.h"
#include "support/support.h"

enum { MOST = 64 << 10 }; /* bytes of all pieces, and of the result */

typedef struct room {
    ls_device d;
    const ls_queue_ops *ops;
    ls_queue *q;
    char *in, *out;   /* of the device */
    char *host, *got; /* pinned */
} room;

static void open_room(room *t)
{
    ASSERT_OK(ls_device_open(&t->d, "cuda", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    t->ops = t->d.ops->queue;
    ASSERT_OK(t->ops->open(&t->q, &t->d));
    ASSERT_OK(t->ops->room((void **)&t->in, &t->d, MOST));
    ASSERT_OK(t->ops->room((void **)&t->out, &t->d, MOST));
    ASSERT_OK(t->ops->pinned((void **)&t->host, &t->d, MOST));
    ASSERT_OK(t->ops->pinned((void **)&t->got, &t->d, MOST));
}

static void close_room(room *t)
{
    t->ops->close(&t->q);
    t->ops->release(t->in, MOST);
    t->ops->release(t->out, MOST);
    t->ops->unpin(t->host, MOST);
    t->ops->unpin(t->got, MOST);
}

/* Numbers whose sums round at every step, with all signs and zeros; infinities and, for maxima, NaN. */
static float drawn(ls_rng_key key, uint64_t i, bool nan)
{
    const double u = ls_rng_uniform(key, 2 * i), v = ls_rng_uniform(key, 2 * i + 1);
    if (u < 0.02)
        return u < 0.01 ? 0.0f : -0.0f;
    if (nan && u > 0.9)
        return u > 0.95 ? NAN : -INFINITY;
    return (float)ldexp(u < 0.5 ? v : -v, (int)(u * 40) % 12);
}

static void fill_pieces(room *t, const ls_combination *c, int seed)
{
    const ls_rng_key key = ls_rng_key_of((uint64_t)seed, 7);
    memset(t->host, 0x7b, MOST);
    for (int p = 0; p < c->n; p++)
        for (int64_t i = 0; i < c->count; i++) {
            char *at = t->host + (size_t)p * c->stride + (size_t)i * ls_dtype_size(c->from);
            const float x = drawn(key, (uint64_t)(p * c->count + i), c->by == LS_COMBINE_MAX);
            const uint64_t bits = (uint64_t)(ls_rng_uniform(key, (uint64_t)(p * c->count + i)) * 0x1p64);
            if (c->by == LS_COMBINE_WIDE)
                memcpy(at, &bits, 8);
            else
                ls_convert(at, c->from, (const char *)&x, LS_F32, 1, false, 1);
        }
}

/* shift: bytes by which pieces and result lie behind a multiple of 16 */
static void check_one(room *t, ls_combination c, size_t shift, bool in_place)
{
    const char *in[LS_LINK_PIECES];
    static _Alignas(64) char expected[MOST];
    const size_t result = (size_t)c.count * ls_dtype_size(c.to);
    c.stride = ((size_t)c.count * ls_dtype_size(c.from) + 15) / 16 * 16 + 16;
    assert_true(shift + c.stride * (size_t)c.n <= MOST && shift + result + 64 <= MOST);
    fill_pieces(t, &c, c.n);
    for (int p = 0; p < c.n; p++)
        in[p] = t->host + (size_t)p * c.stride;
    ls_reduce_run(&(ls_reduce){ .by = (unsigned)c.by,
                                .from = c.from,
                                .via = c.via,
                                .to = c.to,
                                .n = c.n,
                                .in = in,
                                .out = expected,
                                .count = c.count,
                                .threads = 1 });
    c.in = t->in + shift;
    c.out = in_place ? t->in + shift : t->out + shift;
    t->ops->copy(t->q, t->in + shift, t->host, MOST - shift);
    t->ops->fill(t->q, t->out, 0x55, MOST);
    ls_device_cuda.link->combine(t->q, &c);
    t->ops->copy(t->q, t->got, c.out, result + 64);
    ASSERT_OK(t->ops->wait(t->q, NULL));
    if (memcmp(t->got, expected, result)) {
        size_t at = 0;
        while (t->got[at] == expected[at])
            at++;
        fail_msg("%d pieces of %lld %s via %s to %s, by %d, shift %zu: byte %zu is %02x, not %02x", c.n,
                 (long long)c.count, ls_dtype_name(c.from), ls_dtype_name(c.via), ls_dtype_name(c.to),
                 (int)c.by, shift, at, t->got[at] & 0xff, expected[at] & 0xff);
    }
    for (size_t i = result; i < result + 64 && !in_place; i++)
        assert_int_equal(t->got[i], 0x55);
}

static const ls_dtype FLOATS[] = { LS_F32, LS_BF16, LS_F16 };

/* Every number of pieces as f32; each combination of types for some. */
static void sums(void **state)
{
    (void)state;
    room t;
    open_room(&t);
    for (int n = 1; n <= 9; n++)
        check_one(&t, (ls_combination){ .from = LS_F32, .via = LS_F32, .to = LS_F32, .n = n, .count = 1021 },
                  0, n % 2);
    for (int k = 0; k < 27; k++) {
        const ls_combination c = { .from = FLOATS[k % 3], .via = FLOATS[k / 3 % 3], .to = FLOATS[k / 9] };
        const int pieces[] = { 1, 3, 6 };
        for (int i = 0; i < 3; i++) {
            ls_combination one = c;
            one.n = pieces[i];
            one.count = 515 + i;
            check_one(&t, one, 0, false);
        }
    }
    close_room(&t);
}

static void many_pieces(void **state)
{
    (void)state;
    room t;
    open_room(&t);
    const int pieces[] = { 16, 17, 31, 64, 100, 1000, 1024 };
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        ls_combination c = { .from = LS_F32, .via = LS_F32, .to = LS_F32, .n = pieces[i] };
        c.count = pieces[i] > 100 ? 5 : 77;
        check_one(&t, c, 0, false);
        c.from = c.via = LS_BF16;
        check_one(&t, c, 0, false);
    }
    close_room(&t);
}

static void addresses_that_are_not_aligned(void **state)
{
    (void)state;
    room t;
    open_room(&t);
    for (int64_t count = 1; count <= 9; count++) {
        check_one(&t,
                  (ls_combination){ .from = LS_BF16, .via = LS_F32, .to = LS_BF16, .n = 4, .count = count },
                  2, false);
        check_one(&t,
                  (ls_combination){ .from = LS_BF16, .via = LS_F32, .to = LS_F32, .n = 4, .count = count }, 4,
                  false);
        check_one(&t, (ls_combination){ .from = LS_F32, .via = LS_F16, .to = LS_F16, .n = 4, .count = count },
                  8, false);
    }
    check_one(&t, (ls_combination){ .from = LS_F32, .via = LS_F32, .to = LS_F32, .n = 2 }, 0, false);
    close_room(&t);
}

static void maxima_and_wide_sums(void **state)
{
    (void)state;
    room t;
    open_room(&t);
    for (int n = 1; n <= 64; n = n < 9 ? n + 1 : n * 4) {
        check_one(&t, (ls_combination){ LS_COMBINE_MAX, LS_F32, LS_F32, LS_F32, .n = n, .count = 203 }, 0,
                  n % 2);
        check_one(&t, (ls_combination){ LS_COMBINE_WIDE, LS_I64, LS_I64, LS_I64, .n = n, .count = 102 }, 0,
                  n % 2);
    }
    close_room(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(sums), cmocka_unit_test(many_pieces),
                                        cmocka_unit_test(addresses_that_are_not_aligned),
                                        cmocka_unit_test(maxima_and_wide_sums) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
