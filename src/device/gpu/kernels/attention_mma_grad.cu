/* attention_mma_grad.cu - the gradient of attention in bf16 and f16 on tensor cores, from the saved
 * log-sum-exp (FlashAttention 2, Dao 2023). One kernel goes through keys and sums dq, another through queries
 * and sums dk and dv, so that no sum is shared by blocks. Both compute the probabilities again. */
#include "dialect.h"
#include "attention_mma.h"

/* Keys that mma_dq, and queries that mma_dkdv takes at a time; and whether mma_dkdv holds its keys and values
 * in registers: wide heads need these for their sums. */
enum { KEYS = DP <= 64 ? 64 : 32, QUERIES = KEYS };
#define HOLDS (DP <= 64)

/* exponent of 2; queries that see no key have probabilities 0 whatever is subtracted */
DEVICE float base_of(float lse) { return lse == -infinity_() ? 0 : lse * LOG2_E; }

/* ---- dq */

typedef struct dq_stage {
    X k[TILE][LD], v[TILE][LD];
} dq_stage;
typedef struct dq_shared {
    dq_stage stage[2]; /* the second one holds q and dy first */
#if DROPS
    keep_tile keep;
#endif
} dq_shared;

DEVICE void load_keys(const attention_args *a, dq_stage *to, const tile_place *p, i64 from)
{
    const int n = (int)(a->Tk - from < TILE ? a->Tk - from : TILE);
    load_rows(to->k, AT(const X, a->k) + (p->b * a->Tk + from) * a->k_row + p->g * D, a->k_row, TILE, n);
    load_rows(to->v, AT(const X, a->v) + (p->b * a->Tk + from) * a->v_row + p->g * D, a->v_row, TILE, n);
    COPY_COMMIT();
}

KERNEL_SHARED(mma_dq, attention_args, MMA_THREADS, dq_shared)
{
    const tile_place p = queries_of(&a, BLOCK, TILE, 1);
    const int first = THREAD / WARP * 16; /* query of this warp in the block */
    const float scale = a.scale * LOG2_E;
    const i64 start = keys_start(&a, p.b, p.from), end = keys_end(&a, p.from + p.n),
              row = p.b * a.Tq + p.from;
    const dropping drop = dropping_of(&a, p.b);
    u32 q[STEPS][4], dy[STEPS][4];
    float dq[2 * STEPS][4], base[2], delta[2];
    load_rows(s->stage[1].k, AT(const X, a.q) + row * a.q_row + p.h * D, a.q_row, TILE, p.n);
    load_rows(s->stage[1].v, AT(const X, a.dy) + row * a.dy_row + p.h * D, a.dy_row, TILE, p.n);
    load_keys(&a, &s->stage[0], &p, start);
    UNROLL for (int r = 0; r < 2; r++)
    {
        const int i = first + LANE / 4 + r * 8;
        const i64 at_row = (p.b * a.H + p.h) * a.Tq + p.from + i;
        base[r] = i < p.n ? base_of(AT(const float, a.lse)[at_row]) : 0;
        delta[r] = i < p.n ? AT(const float, a.delta)[at_row] : 0;
    }
    COPY_WAIT(0);
    BARRIER();
    rows_read(q, s->stage[1].k, first);
    rows_read(dy, s->stage[1].v, first);
    CLEAR(dq, 2 * STEPS);
    BARRIER();
    for (i64 from = start; from < end; from += TILE) {
        dq_stage *now = &s->stage[(from - start) / TILE % 2];
        if (from + TILE < end)
            load_keys(&a, &s->stage[(from - start) / TILE % 2 ^ 1], &p, from + TILE);
#if DROPS
        keep_fill(&a, &s->keep, drop, p.h, p.from, from, TILE);
        BARRIER();
#endif
        const tile_view view = view_of(&a, p.b, p.h, p.from, from);
        const int plain = is_plain(&view, first, first + 15);
        UNROLL for (int part = 0; part < TILE; part += KEYS)
        {
            float x[KEYS / 8][4], dp[KEYS / 8][4];
            CLEAR(x, KEYS / 8);
            CLEAR(dp, KEYS / 8);
            TIMES_ROWS(x, q, now->k, part, KEYS / 8)
            TIMES_ROWS(dp, dy, now->v, part, KEYS / 8)
            if (plain)
                UNROLL for (int i = 0; i < KEYS / 2; i++) x[i / 4][i % 4] = x[i / 4][i % 4] * scale;
            else
                UNROLL for (int i = 0; i < KEYS / 2; i++) x[i / 4][i % 4] = score_of(
                    &view, x[i / 4][i % 4], scale, LOG2_E, first + LANE / 4 + i % 4 / 2 * 8,
                    part + i / 4 * 8 + LANE % 4 * 2 + i % 2);
            UNROLL for (int i = 0; i < KEYS / 2; i++)
            {
                const int r = i % 4 / 2;
                float f = 1;
#if DROPS
                f = keeps(&s->keep, first + LANE / 4 + r * 8, part + i / 4 * 8 + LANE % 4 * 2 + i % 2)
                        ? a.kept
                        : 0;
#endif
                x[i / 4][i % 4] = exp2_down(x[i / 4][i % 4] - base[r]) * (f * dp[i / 4][i % 4] - delta[r]);
            }
            ADD_PRODUCT(dq, x, now->k, part, KEYS / 8)
        }
        COPY_WAIT(0);
        BARRIER();
    }
    (void)drop;
    UNROLL for (int r = 0; r < 2; r++)
    {
        const int i = first + LANE / 4 + r * 8;
        if (i < p.n)
            row_store(AT(X, a.dq) + (row + i) * a.dq_row + p.h * D, dq, r, a.scale);
    }
}

/* ---- dk and dv: products are transposed, so that keys are the rows of a warp */

typedef struct dkdv_stage {
    X q[QUERIES][LD], dy[QUERIES][LD];
    float base[QUERIES], delta[QUERIES];
} dkdv_stage;
typedef struct dkdv_shared {
    X k[TILE][LD], v[TILE][LD];
    dkdv_stage stage[2];
#if DROPS
    keep_tile keep;
#endif
} dkdv_shared;

DEVICE void load_queries(const attention_args *a, dkdv_stage *to, i64 b, i64 h, i64 from)
{
    const int n = (int)(a->Tq - from < QUERIES ? a->Tq - from : QUERIES);
    const i64 row = b * a->Tq + from, number = (b * a->H + h) * a->Tq + from;
    load_rows(to->q, AT(const X, a->q) + row * a->q_row + h * D, a->q_row, QUERIES, n);
    load_rows(to->dy, AT(const X, a->dy) + row * a->dy_row + h * D, a->dy_row, QUERIES, n);
    COPY_COMMIT();
    if (THREAD < QUERIES) {
        to->base[THREAD] = THREAD < n ? base_of(AT(const float, a->lse)[number + THREAD]) : 0;
        to->delta[THREAD] = THREAD < n ? AT(const float, a->delta)[number + THREAD] : 0;
    }
}

KERNEL_SHARED(mma_dkdv, attention_args, MMA_THREADS, dkdv_shared)
{
    const tile_place p = place_of(BLOCK, a.G, a.Tk, TILE, 1);
    const int first = THREAD / WARP * 16; /* key of this warp in the block */
    const float scale = a.scale * LOG2_E;
    const i64 group = a.H / a.G, start = queries_start(&a, p.from) / QUERIES * QUERIES,
              tiles = (queries_end(&a, p.b, p.from + p.n - 1) - start + QUERIES - 1) / QUERIES,
              turns = group * tiles,
              row = p.b * a.Tk + p.from;
    const dropping drop = dropping_of(&a, p.b);
    u32 k[STEPS][4], v[STEPS][4];
    float dk[2 * STEPS][4], dv[2 * STEPS][4];
    load_rows(s->k, AT(const X, a.k) + row * a.k_row + p.g * D, a.k_row, TILE, p.n);
    load_rows(s->v, AT(const X, a.v) + row * a.v_row + p.g * D, a.v_row, TILE, p.n);
    if (turns > 0)
        load_queries(&a, &s->stage[0], p.b, p.g * group, start);
    COPY_WAIT(0);
    BARRIER();
#if HOLDS
    rows_read(k, s->k, first);
    rows_read(v, s->v, first);
#endif
    CLEAR(dk, 2 * STEPS);
    CLEAR(dv, 2 * STEPS);
    for (i64 turn = 0; turn < turns; turn++) {
        const i64 h = p.g * group + turn / tiles, from = start + turn % tiles * QUERIES, next = turn + 1;
        dkdv_stage *now = &s->stage[turn % 2];
        if (next < turns)
            load_queries(&a, &s->stage[next % 2], p.b, p.g * group + next / tiles,
                         start + next % tiles * QUERIES);
#if DROPS
        keep_fill(&a, &s->keep, drop, h, from, p.from, QUERIES);
        BARRIER();
#endif
        float x[QUERIES / 8][4], dp[QUERIES / 8][4];
        CLEAR(x, QUERIES / 8);
        CLEAR(dp, QUERIES / 8);
#if !HOLDS
        rows_read(k, s->k, first);
#endif
        TIMES_ROWS(x, k, now->q, 0, QUERIES / 8)
#if !HOLDS
        rows_read(v, s->v, first);
#endif
        TIMES_ROWS(dp, v, now->dy, 0, QUERIES / 8)
        const tile_view view = view_of(&a, p.b, h, from, p.from);
        const int plain = is_plain(&view, 0, QUERIES - 1);
        if (plain)
            UNROLL for (int i = 0; i < QUERIES / 2; i++) x[i / 4][i % 4] = x[i / 4][i % 4] * scale;
        else
            UNROLL for (int i = 0; i < QUERIES / 2; i++) x[i / 4][i % 4] = score_of(
                &view, x[i / 4][i % 4], scale, LOG2_E, i / 4 * 8 + LANE % 4 * 2 + i % 2,
                first + LANE / 4 + i % 4 / 2 * 8);
        UNROLL for (int i = 0; i < QUERIES / 2; i++)
        {
            const int query = i / 4 * 8 + LANE % 4 * 2 + i % 2;
            float *e = &x[i / 4][i % 4], *ds = &dp[i / 4][i % 4], f = 1;
#if DROPS
            f = keeps(&s->keep, query, first + LANE / 4 + i % 4 / 2 * 8) ? a.kept : 0;
#endif
            *e = exp2_down(*e - now->base[query]);
            *ds = *e * (f * *ds - now->delta[query]);
            *e = f * *e;
        }
        ADD_PRODUCT(dv, x, now->dy, 0, QUERIES / 8)
        ADD_PRODUCT(dk, dp, now->q, 0, QUERIES / 8)
        COPY_WAIT(0);
        BARRIER();
    }
    (void)drop;
    UNROLL for (int r = 0; r < 2; r++)
    {
        const int i = first + LANE / 4 + r * 8;
        if (i < p.n) {
            row_store(AT(X, a.dk) + (row + i) * a.dk_row + p.g * D, dk, r, a.scale);
            row_store(AT(X, a.dv) + (row + i) * a.dv_row + p.g * D, dv, r, 1);
        }
    }
}
