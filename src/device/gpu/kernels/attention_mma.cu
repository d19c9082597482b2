/* attention_mma.cu - attention of bf16 and f16 on tensor cores (FlashAttention 2, Dao 2023): each warp has 16
 * or 32 queries, and goes through tiles of 64 keys, of which the next one is on its way. Scores,
 * probabilities and sums stay in registers: the fragments of a product are those that the next one needs. */
#include "dialect.h"
#include "attention_mma.h"

enum { GROUPS = ATTENTION_GROUPS(D, DROPS), QUERIES = ATTENTION_QUERIES(D, DROPS) };

typedef struct mma_stage {
    X k[TILE][LD], v[TILE][LD];
} mma_stage;
typedef struct mma_shared {
    mma_stage stage[2]; /* the second one holds the queries first */
#if DROPS
    keep_tile keep;
#endif
} mma_shared;

DEVICE void load_keys(const attention_args *a, mma_stage *to, const tile_place *p, i64 from)
{
    const int n = (int)(a->Tk - from < TILE ? a->Tk - from : TILE);
    load_rows(to->k, AT(const X, a->k) + (p->b * a->Tk + from) * a->k_row + p->g * D, a->k_row, TILE, n);
    load_rows(to->v, AT(const X, a->v) + (p->b * a->Tk + from) * a->v_row + p->g * D, a->v_row, TILE, n);
    COPY_COMMIT();
}

/* Scores become probabilities relative to the new maximum; earlier sums are rescaled. */
DEVICE void softmax_rows(float x[8][4], float sums[2 * STEPS][4], float top[2], float sum[2])
{
    UNROLL for (int r = 0; r < 2; r++)
    {
        float most = top[r];
        UNROLL for (int j = 0; j < 8; j++) most = max_(most, max_(x[j][2 * r], x[j][2 * r + 1]));
        UNROLL for (int mask = 1; mask < 4; mask *= 2)
        {
            const float other = WARP_XOR(most, mask);
            most = max_(most, other);
        }
        const float base = most == -infinity_() ? 0 : most, shrink = exp2_down(top[r] - base);
        top[r] = most;
        sum[r] = sum[r] * shrink;
        UNROLL for (int i = 0; i < 4 * STEPS; i++)
            sums[i / 2][2 * r + i % 2] = sums[i / 2][2 * r + i % 2] * shrink;
        UNROLL for (int i = 0; i < 16; i++)
        {
            const float e = exp2_down(x[i / 2][2 * r + i % 2] - base);
            x[i / 2][2 * r + i % 2] = e;
            sum[r] = sum[r] + e;
        }
    }
}

KERNEL_SHARED(mma_forward, attention_args, MMA_THREADS, mma_shared)
{
    const tile_place p = queries_of(&a, BLOCK, QUERIES, 1);
    const int first = THREAD / WARP * 16 * GROUPS; /* query of this warp in the block */
    const float scale = a.scale * LOG2_E;
    const int start = (int)keys_start(&a, p.b, p.from), end = (int)keys_end(&a, p.from + p.n);
    const dropping drop = dropping_of(&a, p.b);
    u32 q[GROUPS][STEPS][4];
    float sums[GROUPS][2 * STEPS][4], top[GROUPS][2], sum[GROUPS][2];
    load_rows(s->stage[1].k, AT(const X, a.q) + (p.b * a.Tq + p.from) * a.q_row + p.h * D, a.q_row, QUERIES,
              p.n);
    load_keys(&a, &s->stage[0], &p, start);
    COPY_WAIT(0);
    BARRIER();
    UNROLL for (int m = 0; m < GROUPS; m++)
    {
        rows_read(q[m], s->stage[1].k, first + m * 16);
        CLEAR(sums[m], 2 * STEPS);
        top[m][0] = top[m][1] = -infinity_();
        sum[m][0] = sum[m][1] = 0;
    }
    BARRIER();
    for (int from = start; from < end; from += TILE) {
        mma_stage *now = &s->stage[(from - start) / TILE % 2];
        if (from + TILE < end)
            load_keys(&a, &s->stage[(from - start) / TILE % 2 ^ 1], &p, from + TILE);
#if DROPS
        keep_fill(&a, &s->keep, drop, p.h, p.from, from, QUERIES);
        BARRIER();
#endif
        float x[GROUPS][8][4];
        UNROLL for (int m = 0; m < GROUPS; m++) CLEAR(x[m], 8);
        UNROLL for (int c = 0; c < STEPS; c++) UNROLL for (int j = 0; j < 8; j += 2)
        {
            u32 f[4];
            columns_read(f, now->k, j * 8, c);
            UNROLL for (int m = 0; m < GROUPS; m++)
            {
                MMA(X, x[m][j], q[m][c], f);
                MMA(X, x[m][j + 1], q[m][c], f + 2);
            }
        }
        const tile_view view = view_of(&a, p.b, p.h, p.from, from);
        const int plain = is_plain(&view, first, first + 16 * GROUPS - 1);
        UNROLL for (int m = 0; m < GROUPS; m++)
        {
            if (plain)
                UNROLL for (int i = 0; i < 32; i++) x[m][i / 4][i % 4] = x[m][i / 4][i % 4] * scale;
            else
                UNROLL for (int i = 0; i < 32; i++) x[m][i / 4][i % 4] = score_of(
                    &view, x[m][i / 4][i % 4], scale, LOG2_E, first + m * 16 + LANE / 4 + i % 4 / 2 * 8,
                    i / 4 * 8 + LANE % 4 * 2 + i % 2);
            softmax_rows(x[m], sums[m], top[m], sum[m]);
#if DROPS
            UNROLL for (int i = 0; i < 32;
                          i++) if (!keeps(&s->keep, first + m * 16 + LANE / 4 + i % 4 / 2 * 8,
                                          i / 4 * 8 + LANE % 4 * 2 + i % 2)) x[m][i / 4][i % 4] = 0;
#endif
        }
        UNROLL for (int j = 0; j < 8; j += 2)
        {
            u32 w[GROUPS][4];
            UNROLL for (int i = 0; i < GROUPS * 4; i++) w[i / 4][i % 4] = PAIR(
                X, x[i / 4][j + i % 4 / 2][i % 2 * 2], x[i / 4][j + i % 4 / 2][i % 2 * 2 + 1]);
            UNROLL for (int c = 0; c < STEPS; c++)
            {
                u32 f[4];
                depth_read(f, now->v, j * 8, c);
                UNROLL for (int m = 0; m < GROUPS; m++)
                {
                    MMA(X, sums[m][2 * c], w[m], f);
                    MMA(X, sums[m][2 * c + 1], w[m], f + 2);
                }
            }
        }
        COPY_WAIT(0);
        BARRIER();
    }
    (void)drop;
    UNROLL for (int i = 0; i < GROUPS * 2; i++)
    {
        float t = sum[i / 2][i % 2];
        UNROLL for (int mask = 1; mask < 4; mask *= 2)
        {
            const float other = WARP_XOR(t, mask);
            t = t + other;
        }
        const int row = first + i / 2 * 16 + LANE / 4 + i % 2 * 8;
        if (row >= p.n)
            continue;
        if (LANE % 4 == 0)
            AT(float, a.lse)
        [(p.b * a.H + p.h) * a.Tq + p.from + row] = t == 0 ? -infinity_()
                                                           : fma_(top[i / 2][i % 2], LN_2, log_(t));
        row_store(AT(X, a.y) + (p.b * a.Tq + p.from + row) * a.y_row + p.h * D, sums[i / 2], i % 2,
                  t == 0 ? 0 : a.kept / t);
    }
}
