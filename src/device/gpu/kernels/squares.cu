/* squares.cu - the gradient norm as an exact integer sum, whose bits depend neither on order nor on the
 * device (docs/ops.md).
 *
 * With max = m 2^e, 0.5 <= m < 1, each square is rounded to a multiple of the unit 2^(2e - 87), ties to even,
 * and these are added in 128 bits. All of it is integer arithmetic, because some GPUs have little f64. */
#include "pieces.h"
#include "totals.h"

#if defined(__CUDACC__)
#define sqrt_64(x) __dsqrt_rn(x)
#else
#define sqrt_64(x) sqrt(x)
#endif

typedef struct wide {
    u64 low, high;
} wide;

DEVICE wide wide_sum(wide a, wide b)
{
    a.low += b.low;
    a.high += b.high + (a.low < b.low);
    return a;
}
DEVICE int is_finite_(float x) { return (bits_of(x) & 0x7f800000u) != 0x7f800000u; }

/* |x| = mantissa * 2^(exponent - 149), where exponent >= 0. */
DEVICE u32 mantissa_of(float x, int *exponent)
{
    const u32 b = bits_of(x) & 0x7fffffffu, e = b >> 23;
    *exponent = e ? (int)e - 1 : 0;
    return e ? (b & 0x7fffffu) | 0x800000u : b;
}
/* max < 2^e, the smallest such e, plus 149; of 0 what the host's frexp says of it. */
DEVICE int scale_of(float max)
{
    int e;
    u32 m = mantissa_of(max, &e);
    if (!m)
        return 149;
    for (; m; m >>= 1)
        e++;
    return e;
}

/* The square of x in units, for a scale from scale_of. */
DEVICE wide square_of(float x, int scale)
{
    int e;
    const u64 m = mantissa_of(x, &e), square = m * m; /* below 2^48 */
    const int shift = 2 * (e - scale) + FRACTION_BITS;
    wide w = { 0, 0 };
    if (shift >= 64) {
        w.high = square << (shift - 64);
    } else if (shift > 0) {
        w.low = square << shift;
        w.high = square >> (64 - shift);
    } else if (shift > -50) {
        const int down = -shift;
        const u64 whole = square >> down, rest = square - (whole << down),
                  half = down ? 1ull << (down - 1) : 1;
        w.low = whole + (rest > half || (rest == half && (whole & 1)));
    }
    return w;
}

/* ---- many tensors in one launch. Each tensor's blocks begin at a.first and are those of a.before on. */

typedef struct tensor_part {
    const X *x;
    i64 n, block, blocks; /* which of the tensor's blocks this is */
} tensor_part;

DEVICE tensor_part tensor_of(const tensors_args *a)
{
    const i64 block = BLOCK + a->before;
    int low = 0, high = (int)a->count; /* the tensor is in [low, high) */
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (a->first[middle] <= block)
            low = middle;
        else
            high = middle;
    }
    const i64 end = low + 1 < (int)a->count ? a->first[low + 1] : a->before + BLOCKS;
    tensor_part p;
    p.x = AT(const X, a->x[low]);
    p.n = a->n[low];
    p.block = block - a->first[low];
    p.blocks = end - a->first[low];
    return p;
}

/* The first n numbers at x, and zeros; V of them at once, if VECTOR. */
DEVICE piece piece_read_tail(const X *x, int n)
{
    piece p = { { 0, 0, 0, 0 } };
    if (VECTOR && n == V)
        return *(const piece *)x;
    UNROLL for (int e = 0; e < V; e++) if (e < n) piece_put_raw(&p, e, RAW(X, x[e]));
    return p;
}
enum { TENSOR_SPAN = TENSOR_THREADS * TENSOR_PIECES * V };

/* Reads the pieces of this thread from element `from` on. */
DEVICE void tensor_read(const tensor_part *t, i64 from, piece *held)
{
    UNROLL for (int j = 0; j < TENSOR_PIECES; j++)
    {
        const i64 i = from + (j * TENSOR_THREADS + THREAD) * V, rest = t->n - i;
        held[j] = piece_read_tail(t->x + i, rest <= 0 ? 0 : rest < V ? (int)rest : V);
    }
}

typedef struct tensor_shared {
    u32 most[WARP];
    wide sums[WARP];
} tensor_shared;

/* As integers, the bits of |x| order NaN above infinity. For thread 0 alone. */
DEVICE u32 block_most(u32 most, u32 *parts)
{
    for (int mask = WARP / 2; mask; mask /= 2) {
        const u32 other = WARP_XOR(most, mask);
        most = other > most ? other : most;
    }
    if (THREAD % WARP == 0)
        parts[THREAD / WARP] = most;
    BARRIER();
    if (THREAD == 0)
        for (int w = 1; w < THREADS / WARP; w++)
            most = parts[w] > most ? parts[w] : most;
    return most;
}
DEVICE wide block_wide(wide sum, wide *parts)
{
    for (int mask = WARP / 2; mask; mask /= 2) {
        wide other;
        other.low = WARP_XOR(sum.low, mask);
        other.high = WARP_XOR(sum.high, mask);
        sum = wide_sum(sum, other);
    }
    if (THREAD % WARP == 0)
        parts[THREAD / WARP] = sum;
    BARRIER();
    if (THREAD == 0)
        for (int w = 1; w < THREADS / WARP; w++)
            sum = wide_sum(sum, parts[w]);
    return sum;
}

KERNEL_SHARED(max_abs, tensors_args, TENSOR_THREADS, tensor_shared)
{
    const tensor_part t = tensor_of(&a);
    u32 most = 0;
    for (i64 from = t.block * TENSOR_SPAN; from < t.n; from += t.blocks * TENSOR_SPAN) {
        piece held[TENSOR_PIECES];
        tensor_read(&t, from, held);
        UNROLL for (int j = 0; j < TENSOR_PIECES; j++) UNROLL for (int e = 0; e < V; e++)
        {
            const u32 b = bits_of(piece_get(&held[j], e)) & 0x7fffffffu;
            most = b > most ? b : most;
        }
    }
    most = block_most(most, s->most);
    if (THREAD == 0)
        AT(u32, a.parts)[BLOCK + a.before] = most;
}

KERNEL_SHARED(max_abs_join, tensors_join_args, TENSOR_JOIN_THREADS, tensor_shared)
{
    u32 most = 0;
    for (i64 p = THREAD; p < a.n_parts; p += TENSOR_JOIN_THREADS) {
        const u32 b = AT(const u32, a.parts)[p];
        most = b > most ? b : most;
    }
    most = block_most(most, s->most);
    if (THREAD == 0)
        AT(u32, a.out)[0] = most;
}

KERNEL_SHARED(sum_squares, tensors_args, TENSOR_THREADS, tensor_shared)
{
    const tensor_part t = tensor_of(&a);
    const float max = AT(const float, a.max)[0];
    const int scale = scale_of(max);
    wide sum = { 0, 0 };
    for (i64 from = t.block * TENSOR_SPAN; from < t.n && is_finite_(max); from += t.blocks * TENSOR_SPAN) {
        piece held[TENSOR_PIECES];
        tensor_read(&t, from, held);
        UNROLL for (int j = 0; j < TENSOR_PIECES; j++) UNROLL for (int e = 0; e < V; e++)
            sum = wide_sum(sum, square_of(piece_get(&held[j], e), scale));
    }
    sum = block_wide(sum, s->sums);
    if (THREAD == 0)
        AT(wide, a.parts)[BLOCK + a.before] = sum;
}

KERNEL_SHARED(sum_squares_join, tensors_join_args, TENSOR_JOIN_THREADS, tensor_shared)
{
    wide sum = { 0, 0 };
    for (i64 p = THREAD; p < a.n_parts; p += TENSOR_JOIN_THREADS)
        sum = wide_sum(sum, AT(const wide, a.parts)[p]);
    sum = block_wide(sum, s->sums);
    if (THREAD == 0)
        AT(wide, a.out)[0] = sum;
}

DEVICE double two_to(int n) /* -1022 <= n <= 1023 */
{
    double x = 1;
    const double by = n < 0 ? 0.5 : 2;
    for (int i = n < 0 ? -n : n; i; i--)
        x = x * by;
    return x;
}

/* To nearest even: of 128 bits the highest 64, of which the lowest says whether there is something below. */
DEVICE double wide_to_double(wide w)
{
    int shift = 0; /* bits of the high word: at most 63, as sums are below 2^127 */
    for (u64 high = w.high; high; high >>= 1)
        shift++;
    if (!shift)
        return (double)w.low;
    const u64 top = w.high << (64 - shift) | w.low >> shift, rest = w.low & ((1ull << shift) - 1);
    return (double)(top | (rest != 0)) * two_to(shift);
}

KERNEL(norm_from_squares, scalar_args, WARP)
{
    const float max = AT(const float, a.max)[0];
    if (THREAD)
        return;
    if (!is_finite_(max)) {
        AT(float, a.out)[0] = max;
        return;
    }
    /* an even power of two is taken out of the root, which is exact */
    const double root = sqrt_64(wide_to_double(AT(const wide, a.total)[0]) * two_to(-FRACTION_BITS));
    AT(float, a.out)[0] = (float)(root * two_to(scale_of(max) - 149));
}
