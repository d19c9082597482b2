/* norm_grad.cu - the gradients of norm.cu. A block takes a fixed block of rows; its threads add the gradients
 * of their columns' parameters row after row. norm_join adds those of the blocks. Rows that do not fit into
 * registers (LONG) have a block each, and norm_columns sums their parameters' gradients.
 *
 * With xhat = (x - mean) * rstd and h = dy * gain: dx = rstd * (h - mean(h) - xhat * mean(h * xhat)), dgain =
 * sum of dy * xhat, dbias = sum of dy; of rms_norm without the means of x and h. */
#include "rows.h"
#include "norm.h"

typedef struct norm_grad_shared {
    float parts[4][WARP];
#if TEAMS > 1
    float gain[SPAN], bias[SPAN];
#endif
} norm_grad_shared;

/* dx of one row; the threads' sums of parameters grow by it. n: which row of the block, from 0. */
DEVICE void row_grad(const norm_grad_args *a, norm_grad_shared *s, i64 row, int here, int n, float *dgain,
                     float *dbias)
{
    const place k = here ? (place)a->k : 0;
    const X *x = AT(const X, a->x) + row * a->x_stride, *dy = AT(const X, a->dy) + row * a->dy_stride,
            *gain = AT(const X, a->gain), *addend = AT(const X, a->addend) + row * a->addend_stride;
    X *dx = AT(X, a->dx) + row * a->dx_stride;
    piece xs[PIECES], dys[PIECES];
    row_read(xs, x, 0, k);
    row_read(dys, dy, 0, k);
    const float rstd = here ? AT(const float, a->rstd)[row] : 0.0f;
#if RMS
    const float mean = 0;
#else
    const float mean = here ? AT(const float, a->mean)[row] : 0.0f;
#endif
    float sum = 0, along = 0; /* of h, and of h * xhat */
    EACH_STEP(from, k)
    {
        READ_AGAIN(xs, x, from, k);
        READ_AGAIN(dys, dy, from, k);
        UNROLL for (int j = 0; j < PIECES; j++)
        {
            const place i = piece_at(from, j);
            if (i >= k)
                continue;
            const piece g = piece_read(gain + i, piece_n(i, k));
            UNROLL for (int e = 0; e < V; e++) /* behind the row's end dy is 0 */
            {
                const float d = piece_get(&dys[j], e), h = d * piece_get(&g, e),
                            x_hat = (piece_get(&xs[j], e) - mean) * rstd;
                along = fma_(h, x_hat, along);
#if !RMS
                sum = sum + h;
#endif
#if !LONG
                dgain[j * V + e] = fma_(d, x_hat, dgain[j * V + e]);
#if !RMS
                dbias[j * V + e] = dbias[j * V + e] + d;
#endif
#endif
            }
        }
    }
    (void)dgain;
    (void)dbias;
    team_sums(&sum, &along, s->parts[n % 2 * 2], s->parts[n % 2 * 2 + 1]);
    sum = sum / (float)a->k;
    along = along / (float)a->k;
    EACH_STEP(from, k)
    {
        READ_AGAIN(xs, x, from, k);
        READ_AGAIN(dys, dy, from, k);
        UNROLL for (int j = 0; j < PIECES; j++)
        {
            const place i = piece_at(from, j);
            if (i >= k)
                continue;
            const int count = piece_n(i, k);
            const piece g = piece_read(gain + i, count);
            piece more = g, p;
            if (a->addend)
                more = piece_read(addend + i, count);
            UNROLL for (int e = 0; e < V; e++)
            {
                const float x_hat = (piece_get(&xs[j], e) - mean) * rstd,
                            h = piece_get(&dys[j], e) * piece_get(&g, e);
                float d = rstd * fma_(-x_hat, along, h - sum);
                if (a->addend) /* the unfused graph stores d before it adds */
                    d = ROUNDED(X, d) + piece_get(&more, e);
                piece_put(&p, e, d);
            }
            piece_write(dx + i, &p, count);
        }
    }
}

#if LONG
KERNEL_SHARED(norm_grad, norm_grad_args, BLOCK_THREADS, norm_grad_shared)
{
    row_grad(&a, s, ROW, 1, 0, 0, 0);
}

/* The parameters' gradients of a block of rows: a thread for each column. */
KERNEL(norm_columns, norm_grad_args, COLUMN_THREADS)
{
    const i64 blocks = (a.k + COLUMN_THREADS - 1) / COLUMN_THREADS, part = BLOCK / blocks,
              c = BLOCK % blocks * COLUMN_THREADS + THREAD, end = (part + 1) * a.part_rows;
    if (c >= a.k)
        return;
    float dgain = 0, dbias = 0;
    for (i64 row = part * a.part_rows; row < end && row < a.rows; row++) {
#if RMS
        const float mean = 0;
#else
        const float mean = AT(const float, a.mean)[row];
#endif
        const float d = LOAD(X, AT(const X, a.dy) + row * a.dy_stride, c),
                    x_hat = (LOAD(X, AT(const X, a.x) + row * a.x_stride, c) - mean) *
                            AT(const float, a.rstd)[row];
        dgain = fma_(d, x_hat, dgain);
        dbias = dbias + d;
    }
    float *to = AT(float, a.parts) + part * a.width;
    to[c] = dgain;
#if !RMS
    to[a.k + c] = dbias;
#endif
}
#else
KERNEL_SHARED(norm_grad, norm_grad_args, BLOCK_THREADS, norm_grad_shared)
{
    float dgain[PIECES * V], dbias[PIECES * V];
    UNROLL for (int i = 0; i < PIECES * V; i++) dgain[i] = dbias[i] = 0;
    const i64 begin = BLOCK * a.part_rows, last = begin + a.part_rows, end = last < a.rows ? last : a.rows;
    int n = 0;
    for (i64 row = begin; row < end; row += TEAMS, n++)
        row_grad(&a, s, row + THREAD / TEAM, row + THREAD / TEAM < end, n, dgain, dbias);
    float *to = AT(float, a.parts) + BLOCK * a.width;
#if TEAMS > 1 /* the teams' sums, one after the other */
    for (int team = 0; team < TEAMS; team++) {
        if (THREAD / TEAM == team)
            UNROLL for (int i = 0; i < PIECES * V; i++)
            {
                const int c = piece_at(0, i / V) + i % V;
                s->gain[c] = team ? s->gain[c] + dgain[i] : dgain[i];
                s->bias[c] = team ? s->bias[c] + dbias[i] : dbias[i];
            }
        BARRIER();
    }
    for (int c = THREAD; c < (int)a.k; c += BLOCK_THREADS) {
        to[c] = s->gain[c];
#if !RMS
        to[a.k + c] = s->bias[c];
#endif
    }
#else
    UNROLL for (int i = 0; i < PIECES * V; i++)
    {
        const int c = piece_at(0, i / V) + i % V;
        if (c < (int)a.k) {
            to[c] = dgain[i];
#if !RMS
            to[a.k + c] = dbias[i];
#endif
        }
    }
#endif
}
#endif

typedef struct join_shared {
    float sums[JOIN_GROUPS][JOIN_COLUMNS];
} join_shared;

/* Group g of threads adds the parts g, g + JOIN_GROUPS, ..; then come the groups in their order. */
KERNEL_SHARED(norm_join, norm_join_args, JOIN_COLUMNS *JOIN_GROUPS, join_shared)
{
    const int group = THREAD / JOIN_COLUMNS, column = THREAD % JOIN_COLUMNS;
    const i64 c = BLOCK * JOIN_COLUMNS + column;
    float sum = 0;
    if (c < a.width)
        for (i64 p = group; p < a.n_parts; p += JOIN_GROUPS)
            sum = sum + AT(const float, a.parts)[p * a.width + c];
    s->sums[group][column] = sum;
    BARRIER();
    if (group || c >= a.width)
        return;
    for (int g = 1; g < JOIN_GROUPS; g++)
        sum = sum + s->sums[g][column];
    if (c < a.k)
        STORE(X, AT(X, a.dgain), c, sum);
    else
        STORE(X, AT(X, a.dbias), c - a.k, sum);
}
