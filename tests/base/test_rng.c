/* test_rng.c - Philox against the published vectors; distributions against their moments and frequencies (the
 * seeds are fixed, so these tests are exact computations; the bounds are five standard errors); the
 * permutation has every number once, for every n. */
#include "base/rng.h"
#include "support/support.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void known_answers(void **state)
{
    (void)state;
    /* Random123's kat_vectors: philox4x32 10 */
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } VECTORS[] = {
        { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { ~0u, ~0u, ~0u, ~0u }, { ~0u, ~0u }, { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
          { 0xa4093822, 0x299f31d0 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (int i = 0; i < 3; i++) {
        const uint32_t *c = VECTORS[i].counter;
        uint32_t out[4];
        ls_rng_block((ls_rng_key){ { VECTORS[i].key[0], VECTORS[i].key[1] } }, (uint64_t)c[1] << 32 | c[0],
                     (uint64_t)c[3] << 32 | c[2], out);
        assert_memory_equal(out, VECTORS[i].out, sizeof out);
    }
}

static void keys_differ(void **state)
{
    (void)state;
    enum { N = 100 };
    ls_rng_key keys[N * N];
    for (uint64_t seed = 0; seed < N; seed++)
        for (uint64_t purpose = 0; purpose < N; purpose++)
            keys[seed * N + purpose] = ls_rng_key_of(seed, purpose);
    for (int i = 0; i < N * N; i++)
        for (int k = 0; k < i; k++)
            if (memcmp(&keys[i], &keys[k], sizeof *keys) == 0)
                fail_msg("keys %d and %d are equal", k, i);
}

static void uniform(void **state)
{
    (void)state;
    enum { N = 200000, BINS = 64 };
    int bins[BINS] = { 0 };
    double sum = 0, product = 0, last = 0.5;
    ls_rng_key key = ls_rng_key_of(7, 1);
    for (uint64_t i = 0; i < N; i++) {
        double u = ls_rng_uniform(key, i);
        assert_true(u >= 0 && u < 1);
        bins[(int)(u * BINS)]++;
        sum += u;
        product += (u - 0.5) * (last - 0.5);
        last = u;
    }
    assert_true(fabs(sum / N - 0.5) < 5 * sqrt(1.0 / 12 / N));
    assert_true(fabs(product / N) < 5 * (1.0 / 12) / sqrt(N));
    double chi2 = 0, expected = (double)N / BINS;
    for (int i = 0; i < BINS; i++)
        chi2 += (bins[i] - expected) * (bins[i] - expected) / expected;
    assert_true(fabs(chi2 - (BINS - 1)) < 5 * sqrt(2.0 * (BINS - 1)));
}

static void normal(void **state)
{
    (void)state;
    enum { N = 400000 };
    double m1 = 0, m2 = 0, m3 = 0, m4 = 0, product = 0, last = 0;
    int beyond = 0;
    ls_rng_key key = ls_rng_key_of(0, 99);
    for (uint64_t i = 0; i < N; i++) {
        double x = ls_rng_normal(key, i);
        assert_true(isfinite(x));
        m1 += x, m2 += x * x, m3 += x * x * x, m4 += x * x * x * x;
        product += x * last;
        last = x;
        beyond += fabs(x) > 1.959963984540054; /* 5 % */
    }
    assert_true(fabs(m1 / N) < 5 / sqrt(N));
    assert_true(fabs(m2 / N - 1) < 5 * sqrt(2.0 / N));
    assert_true(fabs(m3 / N) < 5 * sqrt(15.0 / N));
    assert_true(fabs(m4 / N - 3) < 5 * sqrt(96.0 / N));
    assert_true(fabs(product / N) < 5 / sqrt(N));
    assert_true(fabs((double)beyond / N - 0.05) < 5 * sqrt(0.05 * 0.95 / N));
}

/* Our own logarithm and cosine against the C library's in long double, through what they compute: Box-Muller
 * from the same block. */
static void normal_is_box_muller(void **state)
{
    (void)state;
    ls_rng_key key = ls_rng_key_of(3, 4);
    for (uint64_t i = 0; i < 100000; i++) {
        uint32_t x[4];
        ls_rng_block(key, i, 1, x);
        double u = (double)((((uint64_t)x[1] << 32 | x[0]) >> 11) + 1) * 0x1p-53,
               t = (double)(((uint64_t)x[3] << 32 | x[2]) >> 11) * 0x1p-53;
        double expected = (double)(sqrtl(-2 * logl(u)) * cosl(2 * 3.14159265358979323846264338L * t));
        if (fabs(ls_rng_normal(key, i) - expected) > 1.5e-15 * (1 + fabs(expected)))
            fail_msg("draw %d: %.17g, expected %.17g", (int)i, ls_rng_normal(key, i), expected);
    }
}

static void below(void **state)
{
    (void)state;
    ls_rng_key key = ls_rng_key_of(5, 6);
    enum { N = 70000 };
    int counts[7] = { 0 };
    for (uint64_t i = 0; i < N; i++)
        counts[ls_rng_below(key, i, 7)]++;
    for (int i = 0; i < 7; i++)
        assert_true(fabs(counts[i] - N / 7.0) < 5 * sqrt(N * (1.0 / 7) * (6.0 / 7)));
    assert_int_equal(ls_rng_below(key, 0, 1), 0);
    /* n = 3/4 of 2^64: a plain remainder or product would give the first third twice as often; and every draw
     * stays below n */
    uint64_t n = (uint64_t)3 << 62, low = 0;
    for (uint64_t i = 0; i < N; i++) {
        uint64_t x = ls_rng_below(key, i, n);
        assert_true(x < n);
        low += x % 3 == 0;
    }
    assert_true(fabs((double)low / N - 1.0 / 3) < 5 * sqrt(2.0 / 9 / N));
    assert_true(ls_rng_below(key, 1, UINT64_MAX) < UINT64_MAX);
}

static void permutes(uint64_t n, ls_rng_key key)
{
    unsigned char *seen = calloc(n, 1);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t p = ls_permute_index(key, i, n);
        if (p >= n || seen[p]++)
            fail_msg("n %d: position %d gives %d, out of range or twice", (int)n, (int)i, (int)p);
    }
    free(seen);
}

static void permutation(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 300; n++)
        for (uint64_t seed = 0; seed < 3; seed++)
            permutes(n, ls_rng_key_of(seed, 2));
    static const uint64_t LARGE[] = { 1023, 1024, 1025, 4096, 4097, 60000, 65536, 65537, 262145 };
    for (size_t i = 0; i < sizeof LARGE / sizeof *LARGE; i++)
        permutes(LARGE[i], ls_rng_key_of(1, 2));
    for (uint64_t i = 0; i < 1000; i++) { /* n too large to mark: in range, and neighbours are torn apart */
        assert_true(ls_permute_index(ls_rng_key_of(1, 2), i, UINT64_MAX) < UINT64_MAX);
        assert_true(ls_permute_index(ls_rng_key_of(1, 2), i, (uint64_t)1 << 40) < (uint64_t)1 << 40);
    }
}

/* It looks random: over many keys each element comes first equally often, also for small n; within one
 * permutation positions and elements are uncorrelated; different keys agree in about one place. */
static void permutation_mixes(void **state)
{
    (void)state;
    enum { KEYS = 20000 };
    for (int n = 2; n <= 10; n += 4) {
        int first[10] = { 0 }, pair = 0;
        for (uint64_t k = 0; k < KEYS; k++) {
            ls_rng_key key = ls_rng_key_of(k, 11);
            uint64_t a = ls_permute_index(key, 0, (uint64_t)n), b = ls_permute_index(key, 1, (uint64_t)n);
            first[a]++;
            pair += a < b;
        }
        double p = 1.0 / n;
        for (int i = 0; i < n; i++)
            if (fabs(first[i] - KEYS * p) > 5 * sqrt(KEYS * p * (1 - p)))
                fail_msg("n %d: element %d comes first %d times of %d", n, i, first[i], KEYS);
        assert_true(fabs(pair - KEYS / 2.0) < 5 * sqrt(KEYS / 4.0));
    }
    enum { N = 60000 };
    ls_rng_key one = ls_rng_key_of(0, 0), two = ls_rng_key_of(1, 0);
    double correlation = 0, steps = 0;
    uint64_t last = 0;
    int agree = 0;
    for (uint64_t i = 0; i < N; i++) {
        uint64_t p = ls_permute_index(one, i, N);
        correlation += ((double)i / N - 0.5) * ((double)p / N - 0.5);
        steps += i && p == last + 1;
        last = p;
        agree += p == ls_permute_index(two, i, N);
    }
    assert_true(fabs(correlation / N * 12) < 5 / sqrt(N));
    assert_true(steps < 10);
    assert_true(agree < 10);
}

static void eight_blocks_are_eight_calls(void **state)
{
    (void)state;
    const ls_rng_key key = ls_rng_key_of(7, 11);
    const uint64_t firsts[] = { 0, 5, UINT32_MAX - 3ull, UINT64_MAX - 20 };
    for (int f = 0; f < 4; f++) {
        uint32_t eight[8][4], one[4];
        ls_rng_blocks8(key, firsts[f], 3, eight);
        for (int i = 0; i < 8; i++) {
            ls_rng_block(key, firsts[f] + (uint64_t)i, 3, one);
            assert_memory_equal(one, eight[i], sizeof one);
        }
    }
}

static void eight_normals_at_a_time(void **state)
{
    (void)state;
    ls_rng_key key = ls_rng_key_of(11, 5);
    for (uint64_t first = 0; first < 40000; first += first < 100 ? 1 : 997) {
        double x[8];
        ls_rng_normals8(key, first, x);
        for (uint64_t i = 0; i < 8; i++) {
            double one = ls_rng_normal(key, first + i);
            assert_memory_equal(&x[i], &one, sizeof one);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_blocks_are_eight_calls),
        cmocka_unit_test(known_answers),
        cmocka_unit_test(keys_differ),
        cmocka_unit_test(uniform),
        cmocka_unit_test(normal),
        cmocka_unit_test(normal_is_box_muller),
        cmocka_unit_test(below),
        cmocka_unit_test(permutation),
        cmocka_unit_test(permutation_mixes),
        cmocka_unit_test(eight_normals_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
