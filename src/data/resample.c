/* resample.c - see resample.h. First the height changes, then the width. Both are weighted sums of rows of
 * bytes, which compilers turn into vector code: for the width, rows and columns are exchanged before and
 * after. */
#include "data/resample.h"

#include <math.h>
#include <string.h>

enum { BITS = 14, ONE = 1 << BITS, HALF = ONE / 2 };
enum { BLOCK = 16 };

#if defined(__x86_64__) && !defined(LS_TSAN) && !defined(LS_ASAN)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

typedef uint8_t block_row __attribute__((vector_size(BLOCK)));

/* ---- filters */

static int most_taps(double scale) { return 2 * (int)ceil(scale > 1 ? scale : 1) + 1; }

static size_t taps_bytes(int n, int taps)
{
    const size_t bytes = (size_t)n * (sizeof(int32_t) + (size_t)taps * sizeof(int16_t));
    return (bytes + 63) / 64 * 64;
}

/* Element o has its centre at begin + (o + 0.5) * scale. Source elements are lo to hi - 1. Returns the memory
 * behind the filter. */
static char *fill_taps(ls_taps *t, char *memory, int n, double begin, double scale, int lo, int hi)
{
    const double reach = scale > 1 ? scale : 1;
    *t = (ls_taps){ .n = n, .taps = most_taps(scale), .first = (int32_t *)(void *)memory };
    t->taps = t->taps < hi - lo ? t->taps : hi - lo;
    t->weight = (int16_t *)(void *)(t->first + n);
    for (int o = 0; o < n; o++) {
        const double centre = begin + (o + 0.5) * scale;
        int first = (int)floor(centre - reach + 0.5), last = (int)floor(centre + reach + 0.5);
        first = first < lo ? lo : first > hi - 1 ? hi - 1 : first;
        last = last > hi ? hi : last <= first ? first + 1 : last;
        last = last > first + t->taps ? first + t->taps : last;
        int16_t *w = t->weight + (size_t)o * (size_t)t->taps;
        double sum = 0;
        for (int i = first; i < last; i++)
            sum += fmax(0, 1 - fabs((i + 0.5 - centre) / reach));
        int left = ONE, largest = 0;
        for (int i = first; i < last; i++) {
            const double part = sum > 0 ? fmax(0, 1 - fabs((i + 0.5 - centre) / reach)) / sum : i == first;
            w[i - first] = (int16_t)lround(part * ONE);
            left -= w[i - first];
            largest = w[i - first] > w[largest] ? i - first : largest;
        }
        w[largest] = (int16_t)(w[largest] + left); /* the sum is exact, so a plain surface stays as it is */
        /* every element has `taps` of them: those beyond `last` weigh nothing, and must lie inside */
        const int shift = first + t->taps > hi ? first + t->taps - hi : 0;
        memset(w + (last - first), 0, sizeof *w * (size_t)(t->taps - (last - first)));
        if (shift) {
            memmove(w + shift, w, sizeof *w * (size_t)(t->taps - shift));
            memset(w, 0, sizeof *w * (size_t)shift);
        }
        t->first[o] = first - shift;
    }
    return memory + taps_bytes(n, t->taps);
}

/* The source elements that a filter reads, as [*first, *first + *n); the filter then counts from *first. */
static void range(ls_taps *t, int *first, int *n)
{
    *first = t->first[0];
    *n = t->first[t->n - 1] + t->taps - t->first[0];
    for (int o = t->n; o-- > 0;)
        t->first[o] -= *first;
}

static int at_most(double x, int most) { return x < 0 ? 0 : x > most ? most : (int)x; }

ls_status ls_resample_plan(ls_resampler *out, const ls_cut *cut, int shrunk, int whole_height,
                           int whole_width, int out_height, int out_width, ls_room *room)
{
    const double s = shrunk, x = cut->x / s, y = cut->y / s, across = cut->width / s / out_width,
                 down = cut->height / s / out_height;
    char *memory = ls_room_get(room, LS_ROOM_TAPS,
                               taps_bytes(out_width, most_taps(across)) +
                                   taps_bytes(out_height, most_taps(down)));
    if (!memory)
        return ls_fail(LS_E_MEMORY, "no memory for resizing to %d x %d pixels", out_width, out_height);
    const double right = x + cut->width / s, bottom = y + cut->height / s;
    const int left = cut->around ? 0 : at_most(floor(x), whole_width - 1),
              top = cut->around ? 0 : at_most(floor(y), whole_height - 1);
    int end = cut->around ? whole_width : at_most(ceil(right), whole_width),
        end_down = cut->around ? whole_height : at_most(ceil(bottom), whole_height);
    end = end > left ? end : left + 1;
    end_down = end_down > top ? end_down : top + 1;
    memory = fill_taps(&out->across, memory, out_width, x, across, left, end);
    fill_taps(&out->down, memory, out_height, y, down, top, end_down);
    range(&out->across, &out->x, &out->width);
    range(&out->down, &out->y, &out->height);
    return LS_OK;
}

/* ---- pixels */

/* to[i] = the weighted sum of rows at element i. */
WIDE static void add_rows(uint8_t *restrict to, const uint8_t *restrict rows, size_t stride, int taps,
                          const int16_t *restrict w, size_t n)
{
    enum { PART = 128 };
    for (size_t at = 0; at < n; at += PART) {
        int32_t sum[PART];
        const size_t part = n - at < PART ? n - at : PART;
        for (int i = 0; i < PART; i++)
            sum[i] = HALF;
        for (int k = 0; k < taps; k++) {
            const uint8_t *row = rows + (size_t)k * stride + at;
            const int32_t weight = w[k];
            if (part == PART)
                for (int i = 0; i < PART; i++)
                    sum[i] += weight * row[i];
            else
                for (size_t i = 0; i < part; i++)
                    sum[i] += weight * row[i];
        }
        for (size_t i = 0; i < part; i++)
            to[at + i] = (uint8_t)(sum[i] >> BITS);
    }
}

/* 16 x 16 bytes: four times row i is interleaved with row i + 8, which exchanges rows and columns. */
WIDE static void turn_block(uint8_t *restrict to, size_t to_stride, const uint8_t *restrict from,
                            size_t stride)
{
    block_row a[BLOCK], b[BLOCK];
    for (size_t i = 0; i < BLOCK; i++)
        memcpy(&a[i], from + i * stride, BLOCK);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < BLOCK / 2; i++) {
            b[2 * i] = __builtin_shufflevector(a[i], a[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6,
                                               22, 7, 23);
            b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13,
                                                   29, 14, 30, 15, 31);
        }
        memcpy(a, b, sizeof a);
    }
    for (size_t i = 0; i < BLOCK; i++)
        memcpy(to + i * to_stride, &a[i], BLOCK);
}

/* from [n, m] -> to [m, n], with rows so many bytes apart */
static void turn(uint8_t *restrict to, size_t to_stride, const uint8_t *restrict from, size_t stride,
                 size_t n, size_t m)
{
    for (size_t i = 0; i < n; i += BLOCK)
        for (size_t j = 0; j < m; j += BLOCK) {
            if (n - i >= BLOCK && m - j >= BLOCK) {
                turn_block(to + j * to_stride + i, to_stride, from + i * stride + j, stride);
                continue;
            }
            for (size_t y = i; y < i + BLOCK && y < n; y++)
                for (size_t x = j; x < j + BLOCK && x < m; x++)
                    to[x * to_stride + y] = from[y * stride + x];
        }
}

ls_status ls_resample(const ls_resampler *r, const uint8_t *pixels, size_t stride, int kinds, uint8_t *to,
                      ls_room *room)
{
    const size_t n = (size_t)r->width * (size_t)kinds, height = (size_t)r->down.n,
                 width = (size_t)r->across.n, column = (size_t)kinds * height,
                 most = (size_t)r->width > width ? (size_t)r->width : width;
    uint8_t *rows = ls_room_get(room, LS_ROOM_ROWS, 2 * most * column), *columns = rows + most * column;
    if (!rows)
        return ls_fail(LS_E_MEMORY, "no memory for %zu x %zu pixels", most, height);
    for (size_t o = 0; o < height; o++)
        add_rows(rows + o * n, pixels + (size_t)r->down.first[o] * stride, stride, r->down.taps,
                 r->down.weight + o * (size_t)r->down.taps, n);
    turn(columns, height, rows, n, height, n); /* [width of the source, kinds, height] */
    for (size_t o = 0; o < width; o++)
        add_rows(rows + o * column, columns + (size_t)r->across.first[o] * column, column, r->across.taps,
                 r->across.weight + o * (size_t)r->across.taps, column);
    for (size_t c = 0; c < (size_t)kinds; c++)
        turn(to + c * width * height, width, rows + c * height, column, width, height);
    return LS_OK;
}
