/* rng.c - Philox4x32-10 and the numbers drawn from it. Each kind of draw uses its own range of upper counter
 * halves, so that uniform and normal numbers of one key are never correlated.
 *
 * Logarithm and cosine are our own. The C library chooses between versions with and without fused
 * multiply-add, and their last bits differ; initial weights must not depend on the machine. */
#include "rng.h"
#include "check.h"
#include <math.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(LS_TSAN) && !defined(LS_ASAN)
/* Wider vectors give the same bits, because nothing is contracted. */
#define LS_WIDE __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define LS_WIDE
#endif

enum {
    DRAW_UNIFORM = 0,
    DRAW_NORMAL = 1,
    DRAW_KEY = 2,
    DRAW_ROUND_KEYS = 3,
    DRAW_BELOW = 16 /* + the number of the attempt */
};

void ls_rng_block(ls_rng_key key, uint64_t counter_lo, uint64_t counter_hi, uint32_t out[4])
{
    uint32_t c0 = (uint32_t)counter_lo, c1 = (uint32_t)(counter_lo >> 32), c2 = (uint32_t)counter_hi,
             c3 = (uint32_t)(counter_hi >> 32);
    uint32_t k0 = key.k[0], k1 = key.k[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53 * c0, p1 = (uint64_t)0xCD9E8D57 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

LS_WIDE void ls_rng_blocks8(ls_rng_key key, uint64_t first, uint64_t counter_hi, uint32_t out[8][4])
{
    uint32_t c0[8], c1[8], c2[8], c3[8], k0 = key.k[0], k1 = key.k[1];
    for (int i = 0; i < 8; i++) {
        c0[i] = (uint32_t)(first + (uint64_t)i);
        c1[i] = (uint32_t)((first + (uint64_t)i) >> 32);
        c2[i] = (uint32_t)counter_hi;
        c3[i] = (uint32_t)(counter_hi >> 32);
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 8; i++) { /* independent lanes, so that the compiler vectorizes */
            uint64_t p0 = (uint64_t)0xD2511F53 * c0[i], p1 = (uint64_t)0xCD9E8D57 * c2[i];
            c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
            c1[i] = (uint32_t)p1;
            c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
            c3[i] = (uint32_t)p0;
        }
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    for (int i = 0; i < 8; i++) {
        out[i][0] = c0[i];
        out[i][1] = c1[i];
        out[i][2] = c2[i];
        out[i][3] = c3[i];
    }
}

static uint64_t rng_join(uint32_t low, uint32_t high) { return (uint64_t)high << 32 | low; }

ls_rng_key ls_rng_key_of(uint64_t seed, uint64_t purpose)
{
    uint32_t x[4];
    ls_rng_block((ls_rng_key){ { (uint32_t)seed, (uint32_t)(seed >> 32) } }, purpose, DRAW_KEY, x);
    return (ls_rng_key){ { x[0], x[1] } };
}

double ls_rng_uniform(ls_rng_key key, uint64_t index)
{
    uint32_t x[4];
    ls_rng_block(key, index, DRAW_UNIFORM, x);
    return (double)(rng_join(x[0], x[1]) >> 11) * 0x1p-53;
}

/* Natural logarithm of 0 < x <= 1, within about one unit in the last place. With x = 2^e m: log m = 2
 * atanh((m-1)/(m+1)). */
static double log_of(double x)
{
    int e;
    double m = frexp(x, &e);
    if (m < 0.70710678118654752) {
        m *= 2;
        e--;
    }
    /* s2 < 0.0295: after 11 terms the rest is below 1e-19 */
    double s = (m - 1) / (m + 1), s2 = s * s, sum = 0;
    for (int k = 11; k >= 1; k--)
        sum = sum * s2 + 1.0 / (2 * k + 1);
    return (double)e * 0.69314718055994531 + 2 * (s + s * s2 * sum);
}

/* cos(2 pi t) for 0 <= t < 1. The nearest quarter turn is subtracted exactly; a Taylor series on [-pi/4,
 * pi/4] does the rest. */
static double cos_turns(double t)
{
    int quarter = (int)(4 * t + 0.5);
    double x = (t - 0.25 * quarter) * 6.2831853071795865, x2 = x * x;
    double c = 1, s = 1;
    for (int k = 9; k >= 1; k--) {
        c = 1 - c * x2 / ((2 * k - 1) * (2 * k));
        s = 1 - s * x2 / ((2 * k) * (2 * k + 1));
    }
    s *= x;
    switch (quarter % 4) {
    case 0: return c;
    case 1: return -s;
    case 2: return -c;
    default: return s;
    }
}

double ls_rng_normal(ls_rng_key key, uint64_t index)
{
    uint32_t x[4];
    ls_rng_block(key, index, DRAW_NORMAL, x);
    /* in (0, 1], so that the logarithm is finite */
    double u = (double)((rng_join(x[0], x[1]) >> 11) + 1) * 0x1p-53;
    double turns = (double)(rng_join(x[2], x[3]) >> 11) * 0x1p-53;
    return sqrt(-2 * log_of(u)) * cos_turns(turns);
}

/* Eight normal numbers at a time, with the same operations in each lane: vector instructions, and divisions
 * that overlap. */
typedef double lanes __attribute__((vector_size(64)));
typedef int64_t lanes_i __attribute__((vector_size(64)));

LS_WIDE void ls_rng_normals8(ls_rng_key key, uint64_t first, double out[8])
{
    uint32_t x[8][4];
    lanes u, t, whole;
    lanes_i quarter, bits;
    ls_rng_blocks8(key, first, DRAW_NORMAL, x);
    for (int i = 0; i < 8; i++) {
        u[i] = (double)(int64_t)((rng_join(x[i][0], x[i][1]) >> 11) + 1) * 0x1p-53;
        t[i] = (double)(int64_t)(rng_join(x[i][2], x[i][3]) >> 11) * 0x1p-53;
        quarter[i] = (int)(4 * t[i] + 0.5);
        whole[i] = (double)quarter[i];
    }
    memcpy(&bits, &u, sizeof bits); /* in place of frexp: u is never subnormal */
    lanes_i exponent = (bits >> 52) - 1022;
    bits = (bits & 0xFFFFFFFFFFFFF) | (int64_t)1022 << 52;
    lanes m;
    memcpy(&m, &bits, sizeof m);
    const lanes_i low = m < 0.70710678118654752; /* -1 (all bits) where true */
    m = m * (1.0 - __builtin_convertvector(low, lanes));
    exponent += low;
    const lanes s0 = (m - 1.0) / (m + 1.0), s2 = s0 * s0;
    lanes sum = s0 * 0.0;
    for (int k = 11; k >= 1; k--)
        sum = sum * s2 + 1.0 / (2 * k + 1);
    const lanes l = __builtin_convertvector(exponent, lanes) * 0.69314718055994531 +
                    2.0 * (s0 + s0 * s2 * sum);
    const lanes angle = (t - 0.25 * whole) * 6.2831853071795865, x2 = angle * angle;
    lanes c = x2 * 0.0 + 1.0, s = c;
    for (int k = 9; k >= 1; k--) {
        c = 1.0 - c * x2 / (double)((2 * k - 1) * (2 * k));
        s = 1.0 - s * x2 / (double)((2 * k) * (2 * k + 1));
    }
    s *= angle;
    for (int i = 0; i < 8; i++) {
        const double value = quarter[i] & 1 ? s[i] : c[i];
        out[i] = sqrt(-2 * l[i]) * ((quarter[i] + 1) & 2 ? -value : value);
    }
}

uint32_t ls_rng_bits16(ls_rng_key key, uint64_t plane, uint64_t index)
{
    const uint64_t half = index % 64 / 8;
    uint32_t x[4];
    ls_rng_block(key, index / 64 * 8 + index % 8, plane, x);
    return x[half % 4] >> 16 * (half / 4) & 0xffff;
}

/* D. Lemire, "Fast random integer generation in an interval" (2019): the result is the upper half of x * n.
 * If the lower half is below 2^64 mod n, x is one of the surplus values that would make the result uneven,
 * and another x is drawn. */
uint64_t ls_rng_below(ls_rng_key key, uint64_t index, uint64_t n)
{
    LS_CHECK(n > 0);
    uint64_t surplus = (0 - n) % n; /* 2^64 mod n */
    for (uint64_t attempt = 0;; attempt++) {
        uint32_t x[4];
        ls_rng_block(key, index, DRAW_BELOW + attempt, x);
        for (int i = 0; i < 4; i += 2) {
            unsigned __int128 product = (unsigned __int128)rng_join(x[i], x[i + 1]) * n;
            if ((uint64_t)product >= surplus)
                return (uint64_t)(product >> 64);
        }
    }
}

enum { ROUNDS = 8 };

/* The round function of the Feistel network. Any function makes a bijection; this one (multiply and fold)
 * mixes all bits of x and the key. */
static uint32_t mix(uint32_t x, uint32_t round_key)
{
    x ^= round_key;
    x *= 0x85ebca6b;
    x ^= x >> 13;
    x *= 0xc2b2ae35;
    return x ^ x >> 16;
}

/* A balanced Feistel network permutes the numbers below 2^bits, the smallest power of four >= n. Applying it
 * again until the result is below n gives a permutation of [0, n). That takes at most 4 steps on average. */
uint64_t ls_permute_index(ls_rng_key key, uint64_t position, uint64_t n)
{
    LS_CHECK(position < n, "position %llu of %llu", (unsigned long long)position, (unsigned long long)n);
    int half = 1;
    while (half < 32 && (uint64_t)1 << (2 * half) < n)
        half++;
    uint32_t mask = half == 32 ? UINT32_MAX : ((uint32_t)1 << half) - 1;
    uint32_t round_keys[ROUNDS];
    for (uint64_t i = 0; i < ROUNDS / 4; i++)
        ls_rng_block(key, i, DRAW_ROUND_KEYS, round_keys + 4 * i);
    uint64_t x = position;
    do {
        uint32_t left = (uint32_t)(x >> half) & mask, right = (uint32_t)x & mask;
        for (int r = 0; r < ROUNDS; r++) {
            uint32_t next = left ^ (mix(right, round_keys[r]) & mask);
            left = right;
            right = next;
        }
        x = (uint64_t)left << half | right;
    } while (x >= n);
    return x;
}
