/* softmax.cu - softmax and its logarithm over the last dimension, and their gradients: a team of threads for
 * each row. */
#include "exp_sum.h"
#include "softmax.h"

/* The row's sum; held: the row's pieces, if they all fit. */
DEVICE exp_sum sum_of_row(const X *x, place k, piece *held, row_shared *s)
{
    exp_sum mine;
    mine.top = -infinity_();
    mine.sum = 0;
    row_read(held, x, 0, k);
    EACH_STEP(from, k)
    {
        READ_AGAIN(held, x, from, k);
        exp_sum_add(&mine, held, from, k);
    }
    return exp_sum_joined(mine, s->parts[0], s->parts[1]);
}

KERNEL_SHARED(softmax, softmax_args, BLOCK_THREADS, row_shared)
{
    const i64 row = ROW;
    const place k = row < a.rows ? (place)a.k : 0;
    const X *x = AT(const X, a.x) + row * a.k;
    X *y = AT(X, a.y) + row * a.k;
    piece held[PIECES];
    const exp_sum sum = sum_of_row(x, k, held, s);
    const float scale = 1.0f / sum.sum;
    EACH_STEP(from, k)
    {
        READ_AGAIN(held, x, from, k);
        UNROLL for (int j = 0; j < PIECES; j++)
        {
            const place i = piece_at(from, j);
            piece p;
            UNROLL for (int e = 0; e < V; e++)
                piece_put(&p, e, exp_below_zero(piece_get(&held[j], e) - sum.top) * scale);
            piece_write(y + i, &p, piece_n(i, k));
        }
    }
}

KERNEL_SHARED(log_softmax, softmax_args, BLOCK_THREADS, row_shared)
{
    const i64 row = ROW;
    const place k = row < a.rows ? (place)a.k : 0;
    const X *x = AT(const X, a.x) + row * a.k;
    X *y = AT(X, a.y) + row * a.k;
    piece held[PIECES];
    const exp_sum sum = sum_of_row(x, k, held, s);
    const float log_sum = log_(sum.sum);
    EACH_STEP(from, k)
    {
        READ_AGAIN(held, x, from, k);
        UNROLL for (int j = 0; j < PIECES; j++)
        {
            const place i = piece_at(from, j);
            piece p;
            UNROLL for (int e = 0; e < V; e++) piece_put(&p, e, piece_get(&held[j], e) - sum.top - log_sum);
            piece_write(y + i, &p, piece_n(i, k));
        }
    }
}

#if PIECES <= 4 /* a gradient holds two rows, so the host gives it no more */
/* dx = y * (dy - sum of dy * y) */
KERNEL_SHARED(softmax_grad, softmax_args, BLOCK_THREADS, row_shared)
{
    const i64 row = ROW;
    const place k = row < a.rows ? (place)a.k : 0;
    const X *dy = AT(const X, a.dy) + row * a.k, *y = AT(const X, a.y) + row * a.k;
    X *dx = AT(X, a.dx) + row * a.k;
    piece dys[PIECES], ys[PIECES];
    row_read(dys, dy, 0, k);
    row_read(ys, y, 0, k);
    float dot = 0;
    EACH_STEP(from, k)
    {
        READ_AGAIN(dys, dy, from, k);
        READ_AGAIN(ys, y, from, k);
        UNROLL for (int j = 0; j < PIECES; j++) UNROLL for (int e = 0; e < V; e++)
            dot = fma_(piece_get(&dys[j], e), piece_get(&ys[j], e), dot);
    }
    dot = team_sum(dot, s->parts[0]);
    EACH_STEP(from, k)
    {
        READ_AGAIN(dys, dy, from, k);
        READ_AGAIN(ys, y, from, k);
        UNROLL for (int j = 0; j < PIECES; j++)
        {
            const place i = piece_at(from, j);
            piece p;
            UNROLL for (int e = 0; e < V; e++)
                piece_put(&p, e, piece_get(&ys[j], e) * (piece_get(&dys[j], e) - dot));
            piece_write(dx + i, &p, piece_n(i, k));
        }
    }
}

/* dx = dy - exp(y) * sum of dy */
KERNEL_SHARED(log_softmax_grad, softmax_args, BLOCK_THREADS, row_shared)
{
    const i64 row = ROW;
    const place k = row < a.rows ? (place)a.k : 0;
    const X *dy = AT(const X, a.dy) + row * a.k, *y = AT(const X, a.y) + row * a.k;
    X *dx = AT(X, a.dx) + row * a.k;
    piece dys[PIECES], ys[PIECES];
    row_read(dys, dy, 0, k);
    row_read(ys, y, 0, k);
    float sum = 0;
    EACH_STEP(from, k)
    {
        READ_AGAIN(dys, dy, from, k);
        UNROLL for (int j = 0; j < PIECES; j++) UNROLL for (int e = 0; e < V; e++)
            sum = sum + piece_get(&dys[j], e);
    }
    sum = team_sum(sum, s->parts[0]);
    EACH_STEP(from, k)
    {
        READ_AGAIN(dys, dy, from, k);
        READ_AGAIN(ys, y, from, k);
        UNROLL for (int j = 0; j < PIECES; j++)
        {
            const place i = piece_at(from, j);
            piece p;
            UNROLL for (int e = 0; e < V; e++)
                piece_put(&p, e, fma_(-exp_below_zero(piece_get(&ys[j], e)), sum, piece_get(&dys[j], e)));
            piece_write(dx + i, &p, piece_n(i, k));
        }
    }
}
#endif
