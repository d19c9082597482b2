/* reduce.c - reduces operands of several ranks to one result: sums in a balanced tree, maxima, exact wide
 * sums, and conversion between types.
 *
 * The work is done in blocks that stay in L1. A block of each operand is read into an accumulator (f32 for
 * f32, bf16 and f16; f64; integers). Accumulators are added like the carries of a binary counter, which makes
 * the balanced tree; the last one is stored. Elements never mix, so neither vector width nor threads change a
 * bit, and the same loops are compiled for two instruction sets. A result may have the same memory as an
 * operand: a block is read from all operands before it is stored. */
#include "reduce.h"

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/bf16.h"
#include "base/check.h"
#include "base/thread_pool.h"

enum {
    BLOCK_BYTES = 4096, /* of a block; the accumulators of all levels stay in L1 and L2 */
    LEVELS = 12,        /* of the tree */
    TASK_BLOCKS = 16,   /* blocks that a thread takes at a time */
    LINE = 16,          /* f32 in a cache line */
    AHEAD = 8 * LINE    /* f32 that are prefetched ahead */
};
_Static_assert(1 << (LEVELS - 2) >= LS_REDUCE_OPERANDS, "a tree over all operands needs more levels");

#define LOOP static inline __attribute__((always_inline))

/* ---- 16-bit floats, without branches; the same numbers as device/ref/access.c */

LOOP float float_of(uint32_t bits)
{
    union {
        uint32_t u;
        float f;
    } x = { .u = bits };
    return x.f;
}
LOOP uint32_t bits_of(float f)
{
    union {
        float f;
        uint32_t u;
    } x = { .f = f };
    return x.u;
}

LOOP float from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, x = (uint32_t)(h & 0x7fff) << 13, e = x & 0x0f800000;
    /* exponent bias 15 -> 127 */
    uint32_t normal = x + 0x38000000;
    /* subnormal: exact subtraction of 2^-14 */
    uint32_t small = bits_of(float_of(x + 0x38800000) - float_of(0x38800000));
    uint32_t special = (x + 0x70000000) | (x > 0x0f800000 ? 0x400000 : 0);
    return float_of(sign | (e == 0x0f800000 ? special : e == 0 ? small : normal));
}

LOOP uint16_t to_f16(float f)
{
    uint32_t w = bits_of(f), x = w & 0x7fffffff, sign = w >> 16 & 0x8000;
    uint32_t normal = (x - 0x38000000 + 0xfff + (x >> 13 & 1)) >> 13;
    /* 0.5's last bit is worth 2^-24, f16's smallest step */
    uint32_t small = bits_of(float_of(x) + 0.5f) - 0x3f000000;
    uint32_t huge = x > 0x7f800000 ? ((x >> 13 & 0x3ff) | 0x7e00) : 0x7c00;
    return (uint16_t)(sign | (x < 0x38800000 ? small : x < 0x47800000 ? normal : huge));
}

/* ---- accumulators: blocks of f32, f64, i32 or i64 */

typedef union block {
    float f[BLOCK_BYTES / 4];
    double d[BLOCK_BYTES / 8];
    int32_t i[BLOCK_BYTES / 4];
    int64_t l[BLOCK_BYTES / 8];
    _Alignas(64) char bytes[BLOCK_BYTES];
} block;

#define EACH(count) for (int64_t i = 0; i < (count); i++)

LOOP void round_block(float *x, ls_dtype to, int64_t n)
{
    if (to == LS_BF16)
        EACH(n) x[i] = ls_from_bf16(ls_to_bf16(x[i]));
    else if (to == LS_F16)
        EACH(n) x[i] = from_f16(to_f16(x[i]));
}

LOOP void load_f32(float *x, const char *in, ls_dtype from, int64_t n)
{
    const uint16_t *h = (const uint16_t *)(const void *)in;
    const double *d = (const double *)(const void *)in;
    switch (from) {
    case LS_BF16: EACH(n) x[i] = ls_from_bf16(h[i]); break;
    case LS_F16: EACH(n) x[i] = from_f16(h[i]); break;
    case LS_F64: EACH(n) x[i] = (float)d[i]; break;
    default: memcpy(x, in, (size_t)n * 4);
    }
}

LOOP void load_f64(double *x, const char *in, ls_dtype from, int64_t n)
{
    const uint16_t *h = (const uint16_t *)(const void *)in;
    const float *f = (const float *)(const void *)in;
    switch (from) {
    case LS_BF16: EACH(n) x[i] = (double)ls_from_bf16(h[i]); break;
    case LS_F16: EACH(n) x[i] = (double)from_f16(h[i]); break;
    case LS_F32: EACH(n) x[i] = (double)f[i]; break;
    default: memcpy(x, in, (size_t)n * 8);
    }
}

LOOP void store_f32(char *out, ls_dtype to, const float *x, int64_t n)
{
    uint16_t *h = (uint16_t *)(void *)out;
    double *d = (double *)(void *)out;
    switch (to) {
    case LS_BF16: EACH(n) h[i] = ls_to_bf16(x[i]); break;
    case LS_F16: EACH(n) h[i] = to_f16(x[i]); break;
    case LS_F64: EACH(n) d[i] = (double)x[i]; break;
    default: memcpy(out, x, (size_t)n * 4);
    }
}

LOOP void store_f64(char *out, ls_dtype to, const double *x, int64_t n)
{
    uint16_t *h = (uint16_t *)(void *)out;
    float *f = (float *)(void *)out;
    switch (to) {
    case LS_BF16: EACH(n) h[i] = ls_to_bf16((float)x[i]); break;
    case LS_F16: EACH(n) h[i] = to_f16((float)x[i]); break;
    case LS_F32: EACH(n) f[i] = (float)x[i]; break;
    default: memcpy(out, x, (size_t)n * 8);
    }
}

/* The type of the accumulator for sums of type `via`. */
LOOP ls_dtype kept_in(ls_dtype via) { return via == LS_BF16 || via == LS_F16 ? LS_F32 : via; }

LOOP void load(block *x, const char *in, ls_dtype from, ls_dtype via, int64_t n)
{
    switch (kept_in(via)) {
    case LS_F64: load_f64(x->d, in, from, n); break;
    case LS_F32:
        load_f32(x->f, in, from, n);
        if (from != via)
            round_block(x->f, via, n);
        break;
    default: memcpy(x, in, (size_t)n * ls_dtype_size(via)); /* integers */
    }
}

/* Copies past the caches: the destination's memory is not read before it is written, and the caches keep
 * their contents. */
LOOP void stream_bytes(char *out, const char *in, size_t bytes)
{
    size_t at = 0;
#if defined(__SSE2__)
    size_t head = -(uintptr_t)out % 64;
    at = head < bytes ? head : bytes;
    memcpy(out, in, at);
    for (; at + 64 <= bytes; at += 64)
        for (size_t k = at; k < at + 64; k += 16)
            _mm_stream_si128((__m128i *)(void *)(out + k),
                             _mm_loadu_si128((const __m128i *)(const void *)(in + k)));
#endif
    memcpy(out + at, in + at, bytes - at);
}

LOOP void store(char *out, ls_dtype to, ls_dtype via, const block *x, int64_t n)
{
    switch (kept_in(via)) {
    case LS_F64: store_f64(out, to, x->d, n); break;
    case LS_F32: store_f32(out, to, x->f, n); break;
    default: memcpy(out, x, (size_t)n * ls_dtype_size(via));
    }
}

/* ---- a += b, and the like; the left operand is the one of lower ranks */

#define LARGER(a, b) ((a) > (b) || (a) != (a) ? (a) : (b)) /* NaN is the largest */

LOOP void add_wide(int64_t *restrict a, const int64_t *restrict b, int64_t n)
{
    for (int64_t i = 0; i < n; i += 2) {
        uint64_t low = (uint64_t)a[i] + (uint64_t)b[i], carry = low < (uint64_t)a[i];
        a[i] = (int64_t)low;
        a[i + 1] = (int64_t)((uint64_t)a[i + 1] + (uint64_t)b[i + 1] + carry);
    }
}

LOOP void merge(block *restrict a, const block *restrict b, int by, ls_dtype via, int64_t n)
{
    bool max = by == LS_BY_MAX;
    switch (kept_in(via)) {
    case LS_F64:
        if (max)
            EACH(n) a->d[i] = LARGER(a->d[i], b->d[i]);
        else
            EACH(n) a->d[i] += b->d[i];
        break;
    case LS_F32:
        if (max)
            EACH(n) a->f[i] = LARGER(a->f[i], b->f[i]);
        else
            EACH(n) a->f[i] += b->f[i];
        round_block(a->f, via, n);
        break;
    case LS_I32:
        if (max)
            EACH(n) a->i[i] = a->i[i] > b->i[i] ? a->i[i] : b->i[i];
        else
            EACH(n) a->i[i] = (int32_t)((uint32_t)a->i[i] + (uint32_t)b->i[i]);
        break;
    default:
        if (by == LS_BY_WIDE_SUM)
            add_wide(a->l, b->l, n);
        else if (max)
            EACH(n) a->l[i] = a->l[i] > b->l[i] ? a->l[i] : b->l[i];
        else
            EACH(n) a->l[i] = (int64_t)((uint64_t)a->l[i] + (uint64_t)b->l[i]);
    }
}

/* ---- the tree */

LOOP int64_t block_elements(ls_dtype via)
{
    return (int64_t)BLOCK_BYTES / (int64_t)ls_dtype_size(kept_in(via));
}

/* Sums up to four f32 operands, the usual case, in one pass. */
LOOP bool are_few(const ls_reduce *r)
{
    return r->by == LS_BY_SUM && r->from == LS_F32 && r->via == LS_F32 && r->to == LS_F32 && r->n >= 2 &&
           r->n <= 4;
}

/* The result may be one of the operands, but must not overlap one in part. */
#define EACH_APART(begin, end) _Pragma(IVDEP) for (int64_t i = (begin); i < (end); i++)
#if defined(__clang__)
#define IVDEP "clang loop vectorize(assume_safety)"
#else
#define IVDEP "GCC ivdep"
#endif

LOOP void operands(const float *x[4], const ls_reduce *r)
{
    for (int p = 0; p < r->n; p++)
        x[p] = (const float *)(const void *)r->in[p];
}

LOOP void sum_few(const ls_reduce *r, int64_t begin, int64_t end)
{
    const float *x[4] = { 0 };
    operands(x, r);
    const float *a = x[0], *b = x[1], *c = x[2], *d = x[3];
    float *out = (float *)(void *)r->out;
    if (r->n == 2)
        EACH_APART(begin, end) out[i] = a[i] + b[i];
    else if (r->n == 3)
        EACH_APART(begin, end) out[i] = (a[i] + b[i]) + c[i];
    else
        EACH_APART(begin, end) out[i] = (a[i] + b[i]) + (c[i] + d[i]);
}

#if defined(__SSE2__)
LOOP __m128 sum_of(const float *const x[4], int n, int64_t i)
{
    __m128 left = _mm_add_ps(_mm_loadu_ps(x[0] + i), _mm_loadu_ps(x[1] + i));
    if (n == 2)
        return left;
    __m128 right = _mm_loadu_ps(x[2] + i);
    return _mm_add_ps(left, n == 3 ? right : _mm_add_ps(right, _mm_loadu_ps(x[3] + i)));
}

/* Adds n operands in whole cache lines and writes past the caches. Prefetching by software is needed because
 * the processor's stops at the end of a page, and windows have small pages. `n` is a constant here, so that
 * the operands' addresses stay in registers; that alone saves a third of the time. */
LOOP void stream_lines(float *out, const float *const x[4], int n, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i += LINE) {
        for (int p = 0; p < n; p++)
            __builtin_prefetch(x[p] + i + AHEAD);
        for (int64_t k = i; k < i + LINE; k += 4)
            _mm_stream_ps(out + k, sum_of(x, n, k));
    }
}
#endif

/* Adds up to four operands and writes past the caches. The tree, with its blocks in L1, would take a fifth
 * longer. */
LOOP void stream_few(const ls_reduce *r, int64_t begin, int64_t end)
{
#if defined(__SSE2__)
    float *out = (float *)(void *)r->out;
    const float *x[4] = { 0 };
    operands(x, r);
    int64_t first = begin + (int64_t)(-(uintptr_t)(out + begin) / sizeof(float) % LINE),
            last = end - (end - first) % LINE;
    if (first < last) {
        sum_few(r, begin, first);
        if (r->n == 2)
            stream_lines(out, x, 2, first, last);
        else if (r->n == 3)
            stream_lines(out, x, 3, first, last);
        else
            stream_lines(out, x, 4, first, last);
        begin = last;
    }
#endif
    sum_few(r, begin, end);
}

/* The balanced tree: after operand p, as many pairs are added as adding 1 to p in binary makes carries.
 * After the last operand all remaining levels are added. */
LOOP void reduce_tree(const ls_reduce *r, char *out, int64_t at, int64_t n)
{
    block stack[LEVELS];
    int depth = 0;
    for (int p = 0; p < r->n; p++) {
        load(&stack[depth++], r->in[p] + (size_t)at * ls_dtype_size(r->from), r->from, r->via, n);
        for (int carries = __builtin_ctz((unsigned)p + 1); depth > 1 && (carries > 0 || p == r->n - 1);
             carries--) {
            merge(&stack[depth - 2], &stack[depth - 1], (int)r->by, r->via, n);
            depth--;
        }
    }
    store(out, r->to, r->via, &stack[0], n);
}

LOOP void reduce_block(const ls_reduce *r, int64_t at, int64_t n)
{
    block whole[2]; /* a result of f64 from f32 has twice the accumulator's size */
    size_t size = ls_dtype_size(r->to);
    char *result = r->out + (size_t)at * size, *out = r->stream ? whole[0].bytes : result;
    if (r->n == 1 && r->from == r->to && r->via == r->to)
        out = (char *)(uintptr_t)r->in[0] + (size_t)at * size;
    else
        reduce_tree(r, out, at, n);
    if (r->stream)
        stream_bytes(result, out, (size_t)n * size);
    else if (out != result)
        memcpy(result, out, (size_t)n * size);
}

LOOP void reduce_blocks(const ls_reduce *r, int64_t begin, int64_t end)
{
    const int64_t each = block_elements(r->via);
    if (are_few(r) && r->stream)
        stream_few(r, begin, end);
    else if (are_few(r))
        sum_few(r, begin, end);
    else
        for (int64_t at = begin; at < end; at += each)
            reduce_block(r, at, end - at < each ? end - at : each);
}

/* ---- the same loops at two levels */

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void reduce_avx2(const ls_reduce *r, int64_t begin, int64_t end)
{
    reduce_blocks(r, begin, end);
}
#endif
static void reduce_generic(const ls_reduce *r, int64_t begin, int64_t end) { reduce_blocks(r, begin, end); }

static void at_level(const ls_reduce *r, int64_t begin, int64_t end)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        reduce_avx2(r, begin, end);
        return;
    }
#endif
    reduce_generic(r, begin, end);
}

static void task(void *context, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const ls_reduce *r = context;
    int64_t each = block_elements(r->via) * TASK_BLOCKS;
    at_level(r, begin * each, end * each < r->count ? end * each : r->count);
#if defined(__SSE2__)
    if (r->stream)
        _mm_sfence(); /* streamed stores become visible before anything that this thread writes next */
#endif
}

void ls_reduce_run(const ls_reduce *r)
{
    LS_CHECK(r->n >= 1 && r->n <= LS_REDUCE_OPERANDS && (r->by != LS_BY_WIDE_SUM || r->count % 2 == 0),
             "%d operands, %lld elements", r->n, (long long)r->count);
    int64_t each = block_elements(r->via) * TASK_BLOCKS;
    ls_reduce copy = *r;
    ls_parallel_for(r->threads, (r->count + each - 1) / each, task, &copy);
}

void ls_convert(char *out, ls_dtype to, const char *in, ls_dtype from, int64_t count, bool stream,
                int threads)
{
    if (out == in && to == from)
        return;
    if (to == from && (!ls_dtype_is_float(to) || (!stream && threads == 1))) {
        memcpy(out, in, (size_t)count * ls_dtype_size(to));
        return;
    }
    /* the larger type: nothing is lost in between */
    ls_dtype via = ls_dtype_size(from) > ls_dtype_size(to) ? from : to;
    ls_reduce_run(&(ls_reduce){ .by = LS_BY_SUM,
                                .from = from,
                                .via = via,
                                .to = to,
                                .n = 1,
                                .in = &in,
                                .out = out,
                                .count = count,
                                .stream = stream,
                                .threads = threads });
}
