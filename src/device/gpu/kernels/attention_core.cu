/* attention_core.cu - attention and its gradient without tensor cores, for every type and head_dim: tiles of
 * 64 queries and 64 keys, whose scores stay in shared memory, and the softmax relative to the running maximum
 * (FlashAttention, Dao et al. 2022). X, D (head_dim) and what attention_scores.h needs are defined in front.
 *
 * A block has 16 x 16 threads; thread (y, x) has the rows y + 16 r and the columns x + 16 c of a tile. Large
 * heads have several blocks, each for CORE_COLUMNS columns of the output; all of them compute the scores. */
#include "dialect.h"
#include "math.h"
#include "attention_scores.h"

enum { LD = TILE + 1, CHUNKS = (D < CORE_COLUMNS ? D + TILE - 1 : CORE_COLUMNS) / TILE };
#define Y (THREAD / 16)
#define XX (THREAD % 16)

typedef struct core_shared {
    float a[TILE][LD], b[TILE][LD], p[TILE][LD];
    keep_tile keep;
    float lse[TILE], delta[TILE];
} core_shared;

/* Columns c .. c + TILE of n rows; zeros where there is none. */
DEVICE void load_chunk(float (*to)[LD], const X *rows, i64 stride, int n, int c)
{
    for (int i = THREAD; i < TILE * TILE; i += CORE_THREADS) {
        const int r = i / TILE, k = i % TILE;
        to[r][k] = r < n && c + k < D ? LOAD(X, rows, r * stride + c + k) : 0;
    }
}

/* dots[r][c] = row r of u times row c of v */
DEVICE void dot_rows(core_shared *s, float dots[4][4], const X *u, i64 u_row, int u_n, const X *v, i64 v_row,
                     int v_n)
{
    UNROLL for (int i = 0; i < 16; i++) dots[i / 4][i % 4] = 0;
    for (int c = 0; c < D; c += TILE) {
        BARRIER();
        load_chunk(s->a, u, u_row, u_n, c);
        load_chunk(s->b, v, v_row, v_n, c);
        BARRIER();
        for (int k = 0; k < (D - c < TILE ? D - c : TILE); k++)
            UNROLL for (int i = 0; i < 16; i++) dots[i / 4][i % 4] = fma_(
                s->a[Y + 16 * (i / 4)][k], s->b[XX + 16 * (i % 4)][k], dots[i / 4][i % 4]);
    }
}

/* sums += s->p times the rows, or its transposed: columns of this split */
DEVICE void add_product(core_shared *s, float sums[CHUNKS][4][4], int transposed, const X *rows, i64 stride,
                        int n, int split)
{
    UNROLL for (int chunk = 0; chunk < CHUNKS; chunk++)
    {
        BARRIER();
        load_chunk(s->b, rows, stride, n, split * CORE_COLUMNS + chunk * TILE);
        BARRIER();
        for (int k = 0; k < TILE; k++)
            UNROLL for (int i = 0; i < 16; i++)
            {
                const int r = Y + 16 * (i / 4);
                sums[chunk][i / 4][i % 4] = fma_(transposed ? s->p[k][r] : s->p[r][k],
                                                 s->b[k][XX + 16 * (i % 4)], sums[chunk][i / 4][i % 4]);
            }
    }
}
DEVICE void clear_sums(float sums[CHUNKS][4][4])
{
    UNROLL for (int i = 0; i < CHUNKS * 16; i++) sums[i / 16][i / 4 % 4][i % 4] = 0;
}
DEVICE void store_sums(float sums[CHUNKS][4][4], X *rows, i64 stride, int n, int split, const float factor[4])
{
    UNROLL for (int i = 0; i < CHUNKS * 16; i++)
    {
        const int r = Y + 16 * (i / 4 % 4), c = split * CORE_COLUMNS + i / 16 * TILE + XX + 16 * (i % 4);
        if (r < n && c < D)
            STORE(X, rows, r * stride + c, sums[i / 16][i / 4 % 4][i % 4] * factor[i / 4 % 4]);
    }
}

/* over the threads that share a row */
DEVICE float row_max(float v)
{
    for (int mask = 8; mask; mask /= 2) {
        const float other = WARP_XOR(v, mask);
        v = max_(v, other);
    }
    return v;
}
DEVICE float row_sum(float v)
{
    for (int mask = 8; mask; mask /= 2) {
        const float other = WARP_XOR(v, mask);
        v = v + other;
    }
    return v;
}

KERNEL_SHARED(core_forward, attention_args, CORE_THREADS, core_shared)
{
    const tile_place p = queries_of(&a, BLOCK, TILE, a.splits);
    const X *q = AT(const X, a.q) + (p.b * a.Tq + p.from) * a.q_row + p.h * D;
    const dropping drop = dropping_of(&a, p.b);
    float top[4], sum[4], sums[CHUNKS][4][4];
    UNROLL for (int r = 0; r < 4; r++)
    {
        top[r] = -infinity_();
        sum[r] = 0;
    }
    clear_sums(sums);
    const i64 end = keys_end(&a, p.from + p.n);
    for (i64 from = keys_start(&a, p.b, p.from); from < end; from += TILE) {
        const int n = (int)(a.Tk - from < TILE ? a.Tk - from : TILE);
        float x[4][4];
        dot_rows(s, x, q, a.q_row, p.n, AT(const X, a.k) + (p.b * a.Tk + from) * a.k_row + p.g * D, a.k_row,
                 n);
#if DROPS
        keep_fill(&a, &s->keep, drop, p.h, p.from, from, TILE);
        BARRIER();
#endif
        const tile_view view = view_of(&a, p.b, p.h, p.from, from);
        UNROLL for (int r = 0; r < 4; r++)
        {
            const int row = Y + 16 * r;
            float most = top[r];
            UNROLL for (int c = 0; c < 4; c++)
            {
                x[r][c] = score_of(&view, x[r][c], a.scale, 1, row, XX + 16 * c);
                most = max_(most, x[r][c]);
            }
            most = row_max(most);
            const float base = most == -infinity_() ? 0 : most, shrink = exp_(top[r] - base);
            top[r] = most;
            sum[r] = sum[r] * shrink;
            UNROLL for (int i = 0; i < CHUNKS * 4; i++)
                sums[i / 4][r][i % 4] = sums[i / 4][r][i % 4] * shrink;
            UNROLL for (int c = 0; c < 4; c++)
            {
                float e = exp_(x[r][c] - base);
                sum[r] = sum[r] + e;
#if DROPS
                e = keeps(&s->keep, row, XX + 16 * c) ? e * a.kept : 0;
#endif
                s->p[row][XX + 16 * c] = e;
            }
        }
        add_product(s, sums, 0, AT(const X, a.v) + (p.b * a.Tk + from) * a.v_row + p.g * D, a.v_row, n,
                    p.split);
    }
    (void)drop;
    UNROLL for (int r = 0; r < 4; r++)
    {
        sum[r] = row_sum(sum[r]);
        const int row = Y + 16 * r;
        if (row < p.n && XX == 0 && p.split == 0)
            AT(float, a.lse)
        [(p.b * a.H + p.h) * a.Tq + p.from + row] = sum[r] == 0 ? -infinity_() : top[r] + log_(sum[r]);
        sum[r] = sum[r] == 0 ? 0 : 1.0f / sum[r];
    }
    store_sums(sums, AT(X, a.y) + (p.b * a.Tq + p.from) * a.y_row + p.h * D, a.y_row, p.n, p.split, sum);
}

/* starts and ends of sample BLOCK: a thread has a part of the rows, in shared memory the first and the last
 * document that begins in it. */
typedef struct part_shared {
    i32 first[CORE_THREADS], last[CORE_THREADS]; /* -1: none */
} part_shared;
KERNEL_SHARED(attention_documents, attention_args, CORE_THREADS, part_shared)
{
    const i32 *positions = AT(const i32, a.positions) + BLOCK * a.Tk;
    i32 *starts = AT(i32, a.starts) + BLOCK * a.Tk, *ends = AT(i32, a.ends) + BLOCK * a.Tk;
    const int rows = (int)((a.Tk + CORE_THREADS - 1) / CORE_THREADS), from = THREAD * rows,
              to = from + rows < a.Tk ? from + rows : (int)a.Tk;
    i32 first = -1, last = -1;
    for (int i = from; i < to; i++)
        if (i == 0 || positions[i] == 0) {
            first = first < 0 ? i : first;
            last = i;
        }
    s->first[THREAD] = first;
    s->last[THREAD] = last;
    BARRIER();
    i32 begin = 0, end = (i32)a.Tk;
    for (int t = THREAD - 1; t >= 0 && begin == 0; t--)
        begin = s->last[t] > 0 ? s->last[t] : 0;
    for (int t = CORE_THREADS - 1; t > THREAD; t--)
        end = s->first[t] >= 0 ? s->first[t] : end;
    for (int i = from; i < to; i++) {
        begin = positions[i] == 0 ? i : begin;
        starts[i] = begin;
    }
    for (int i = to - 1; i >= from; i--) {
        ends[i] = end;
        end = positions[i] == 0 ? i : end;
    }
}

/* delta of each query and head: the sum of dy * y. A warp has one. */
KERNEL(attention_delta, attention_args, CORE_THREADS)
{
    const i64 i = BLOCK * (CORE_THREADS / WARP) + THREAD / WARP, row = i / a.H, h = i % a.H;
    if (row >= a.B * a.Tq)
        return;
    const X *dy = AT(const X, a.dy) + row * a.dy_row + h * D, *y = AT(const X, a.y) + row * a.y_row + h * D;
    float sum = 0;
    for (int c = THREAD % WARP; c < D; c += WARP)
        sum = fma_(LOAD(X, dy, c), LOAD(X, y, c), sum);
    sum = warp_sum(sum);
    if (THREAD % WARP == 0)
        AT(float, a.delta)[(row / a.Tq * a.H + h) * a.Tq + row % a.Tq] = sum;
}

/* The gradient of the scores of a tile: queries from q0, keys from k0. f: dropout's factor. */
typedef struct tile_grad {
    float ds[4][4], fp[4][4]; /* fp: f * p */
} tile_grad;

DEVICE void grad_tile(const attention_args *a, core_shared *s, tile_grad *t, dropping drop, i64 b, i64 h,
                      i64 q0, i64 k0)
{
    const i64 g = h / (a->H / a->G), first = (b * a->H + h) * a->Tq + q0;
    const int nq = (int)(a->Tq - q0 < TILE ? a->Tq - q0 : TILE),
              nk = (int)(a->Tk - k0 < TILE ? a->Tk - k0 : TILE);
    float dp[4][4];
    dot_rows(s, t->ds, AT(const X, a->q) + (b * a->Tq + q0) * a->q_row + h * D, a->q_row, nq,
             AT(const X, a->k) + (b * a->Tk + k0) * a->k_row + g * D, a->k_row, nk);
    dot_rows(s, dp, AT(const X, a->dy) + (b * a->Tq + q0) * a->dy_row + h * D, a->dy_row, nq,
             AT(const X, a->v) + (b * a->Tk + k0) * a->v_row + g * D, a->v_row, nk);
    if (THREAD < nq) {
        s->lse[THREAD] = AT(const float, a->lse)[first + THREAD];
        s->delta[THREAD] = AT(const float, a->delta)[first + THREAD];
    }
#if DROPS
    keep_fill(a, &s->keep, drop, h, q0, k0, TILE);
#endif
    (void)drop;
    BARRIER();
    const tile_view view = view_of(a, b, h, q0, k0);
    UNROLL for (int i = 0; i < 16; i++)
    {
        const int row = Y + 16 * (i / 4), column = XX + 16 * (i % 4);
        const float x = score_of(&view, t->ds[i / 4][i % 4], a->scale, 1, row, column);
        float e = 0, f = 1;
        if (x != -infinity_())
            e = exp_(x - s->lse[row]);
#if DROPS
        f = keeps(&s->keep, row, column) ? a->kept : 0;
#endif
        t->fp[i / 4][i % 4] = f * e;
        t->ds[i / 4][i % 4] = x == -infinity_() ? 0 : e * (f * dp[i / 4][i % 4] - s->delta[row]);
    }
}
/* to s->p, which nobody reads before the next barrier */
DEVICE void put_tile(core_shared *s, float x[4][4])
{
    UNROLL for (int i = 0; i < 16; i++) s->p[Y + 16 * (i / 4)][XX + 16 * (i % 4)] = x[i / 4][i % 4];
}

KERNEL_SHARED(core_dq, attention_args, CORE_THREADS, core_shared)
{
    const tile_place p = queries_of(&a, BLOCK, TILE, a.splits);
    const i64 g = p.g, end = keys_end(&a, p.from + p.n);
    const dropping drop = dropping_of(&a, p.b);
    float sums[CHUNKS][4][4];
    clear_sums(sums);
    for (i64 from = keys_start(&a, p.b, p.from); from < end; from += TILE) {
        tile_grad t;
        grad_tile(&a, s, &t, drop, p.b, p.h, p.from, from);
        put_tile(s, t.ds);
        add_product(s, sums, 0, AT(const X, a.k) + (p.b * a.Tk + from) * a.k_row + g * D, a.k_row,
                    (int)(a.Tk - from < TILE ? a.Tk - from : TILE), p.split);
    }
    const float scale[4] = { a.scale, a.scale, a.scale, a.scale };
    store_sums(sums, AT(X, a.dq) + (p.b * a.Tq + p.from) * a.dq_row + p.h * D, a.dq_row, p.n, p.split, scale);
}

/* The heads that share a key head are added in their order. */
KERNEL_SHARED(core_dkdv, attention_args, CORE_THREADS, core_shared)
{
    const tile_place p = place_of(BLOCK, a.G, a.Tk, TILE, a.splits);
    const i64 group = a.H / a.G, start = queries_start(&a, p.from) / TILE * TILE,
              end = queries_end(&a, p.b, p.from + p.n - 1);
    const dropping drop = dropping_of(&a, p.b);
    float dk[CHUNKS][4][4], dv[CHUNKS][4][4];
    clear_sums(dk);
    clear_sums(dv);
    for (i64 h = p.g * group; h < (p.g + 1) * group; h++)
        for (i64 from = start; from < end; from += TILE) {
            const int n = (int)(a.Tq - from < TILE ? a.Tq - from : TILE);
            tile_grad t;
            grad_tile(&a, s, &t, drop, p.b, h, from, p.from);
            put_tile(s, t.fp);
            add_product(s, dv, 1, AT(const X, a.dy) + (p.b * a.Tq + from) * a.dy_row + h * D, a.dy_row, n,
                        p.split);
            BARRIER();
            put_tile(s, t.ds);
            add_product(s, dk, 1, AT(const X, a.q) + (p.b * a.Tq + from) * a.q_row + h * D, a.q_row, n,
                        p.split);
        }
    const float scale[4] = { a.scale, a.scale, a.scale, a.scale }, one[4] = { 1, 1, 1, 1 };
    store_sums(dk, AT(X, a.dk) + (p.b * a.Tk + p.from) * a.dk_row + p.g * D, a.dk_row, p.n, p.split, scale);
    store_sums(dv, AT(X, a.dv) + (p.b * a.Tk + p.from) * a.dv_row + p.g * D, a.dv_row, p.n, p.split, one);
}

/* dbias of a tile: of its sample, or the sum over all samples, in order. By distance: the sums of the tile's
 * diagonals go to `parts`. */
KERNEL_SHARED(core_dbias, attention_args, CORE_THREADS, core_shared)
{
    const i64 k_tiles = (a.Tk + TILE - 1) / TILE, q_tiles = (a.Tq + TILE - 1) / TILE,
              tile = BLOCK % (k_tiles * q_tiles), h = BLOCK / (k_tiles * q_tiles) % a.H,
              only = BLOCK / (k_tiles * q_tiles) / a.H;
    const i64 q0 = tile / k_tiles * TILE, k0 = tile % k_tiles * TILE;
    const i64 first = a.bias_batch ? only : 0, last = a.bias_batch ? only + 1 : a.B;
    float sums[4][4];
    UNROLL for (int i = 0; i < 16; i++) sums[i / 4][i % 4] = 0;
    for (i64 b = first; b < last && k0 < keys_end(&a, q0 + TILE); b++) {
        tile_grad t;
        grad_tile(&a, s, &t, dropping_of(&a, b), b, h, q0, k0);
        UNROLL for (int i = 0; i < 16; i++) sums[i / 4][i % 4] = sums[i / 4][i % 4] + t.ds[i / 4][i % 4];
    }
    if (!a.distances) {
        UNROLL for (int i = 0; i < 16; i++)
        {
            const i64 query = q0 + Y + 16 * (i / 4), key = k0 + XX + 16 * (i % 4);
            if (query < a.Tq && key < a.Tk)
                STORE(X, AT(X, a.dbias), bias_place(&a, only, h, query, key), sums[i / 4][i % 4]);
        }
        return;
    }
    put_tile(s, sums);
    BARRIER();
    if (THREAD < DIAGONALS) {
        const int apart = THREAD - (TILE - 1); /* key - query */
        float sum = 0;
        for (int i = apart < 0 ? -apart : 0; i < TILE && i + apart < TILE; i++)
            sum = sum + s->p[i][i + apart];
        AT(float, a.parts)[BLOCK * DIAGONALS + THREAD] = sum;
    }
}

KERNEL(core_distances, attention_args, CORE_THREADS)
{
    const i64 distances = a.Tq + a.Tk - 1, i = BLOCK * CORE_THREADS + THREAD, h = i / distances,
              apart = i % distances - (a.Tq - 1);
    const i64 k_tiles = (a.Tk + TILE - 1) / TILE, q_tiles = (a.Tq + TILE - 1) / TILE;
    if (h >= a.H)
        return;
    float sum = 0;
    for (i64 q = 0; q < q_tiles; q++)
        for (i64 k = (q * TILE + apart) / TILE - 1; k <= (q * TILE + apart) / TILE + 1; k++) {
            const i64 diagonal = apart - (k - q) * TILE + TILE - 1;
            if (k >= 0 && k < k_tiles && diagonal >= 0 && diagonal < DIAGONALS - 1)
                sum = sum +
                      AT(const float, a.parts)[((h * q_tiles + q) * k_tiles + k) * DIAGONALS + diagonal];
        }
    STORE(X, AT(X, a.dbias), i, sum);
}
