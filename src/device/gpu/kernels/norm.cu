/* norm.cu - layer normalisation (Ba, Kiros, Hinton 2016), and with RMS 1 root mean square normalisation
 * (Zhang and Sennrich 2019): a team of threads for each row, which is read once. */
#include "rows.h"
#include "norm.h"

typedef struct norm_shared {
    float parts[2][WARP];
} norm_shared;

KERNEL_SHARED(norm_rows, norm_args, BLOCK_THREADS, norm_shared)
{
    const i64 row = ROW;
    const int here = row < a.rows;
    const place k = here ? (place)a.k : 0; /* a team without a row goes along with its warp */
    const X *x = AT(const X, a.x) + row * a.x_stride, *gain = AT(const X, a.gain);
    X *y = AT(X, a.y) + row * a.y_stride;
    piece held[PIECES];
    row_read(held, x, 0, k);
    float mean = 0, squares = 0;
#if !RMS
    const X *bias = AT(const X, a.bias);
    EACH_STEP(from, k)
    {
        READ_AGAIN(held, x, from, k);
        UNROLL for (int j = 0; j < PIECES; j++) UNROLL for (int e = 0; e < V; e++)
            mean = mean + piece_get(&held[j], e);
    }
    mean = team_sum(mean, s->parts[0]) / (float)a.k;
#endif
    EACH_STEP(from, k)
    {
        READ_AGAIN(held, x, from, k);
        UNROLL for (int j = 0; j < PIECES; j++)
        {
            const place i = piece_at(from, j);
            UNROLL for (int e = 0; e < V; e++)
            {
                const float d = i + e < k ? piece_get(&held[j], e) - mean : 0.0f;
                squares = fma_(d, d, squares);
            }
        }
    }
    const float rstd = 1.0f / sqrt_(team_sum(squares, s->parts[1]) / (float)a.k + a.eps);
    EACH_STEP(from, k)
    {
        READ_AGAIN(held, x, from, k);
        UNROLL for (int j = 0; j < PIECES; j++)
        {
            const place i = piece_at(from, j);
            if (i >= k)
                continue;
            const int n = piece_n(i, k);
            const piece g = piece_read(gain + i, n);
#if !RMS
            const piece b = piece_read(bias + i, n);
#endif
            piece p;
            UNROLL for (int e = 0; e < V; e++)
            {
                const float x_hat = (piece_get(&held[j], e) - mean) * rstd;
#if RMS
                piece_put(&p, e, x_hat * piece_get(&g, e));
#else
                piece_put(&p, e, fma_(x_hat, piece_get(&g, e), piece_get(&b, e)));
#endif
            }
            piece_write(y + i, &p, n);
        }
    }
    if (here && LANE == 0) {
        AT(float, a.rstd)[row] = rstd;
#if !RMS
        AT(float, a.mean)[row] = mean;
#endif
    }
}
