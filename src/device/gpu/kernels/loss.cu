/* loss.cu - cross-entropy of rows of logits with class numbers, and its gradient. A row is read once. */
#include "exp_sum.h"
#include "loss.h"

/* The row's exp_sum, and what the loss subtracts from its logarithm: the label's logit (0 if it is not one of
 * these columns), or with smoothing its mean with the logits of all classes, of which these give their part.
 * label counts from the first of these columns. */
DEVICE exp_sum row_numbers(const loss_args *a, row_shared *s, i64 row, i64 label, float *subtract)
{
    const place k = row < a->rows ? (place)a->k : 0;
    const X *x = AT(const X, a->logits) + row * a->k;
    exp_sum mine;
    mine.top = -infinity_();
    mine.sum = 0;
    float total = 0;
    piece held[PIECES];
    row_read(held, x, 0, k);
    EACH_STEP(from, k)
    {
        READ_AGAIN(held, x, from, k);
        exp_sum_add(&mine, held, from, k);
        if (a->each != 0.0f)
            UNROLL for (int j = 0; j < PIECES; j++) UNROLL for (int e = 0; e < V; e++)
                total = total + piece_get(&held[j], e);
    }
    const exp_sum all = exp_sum_joined(mine, s->parts[0], s->parts[1]);
    *subtract = label >= 0 && label < k ? LOAD(X, x, label) : 0.0f;
    if (a->each != 0.0f)
        *subtract = a->own * *subtract + a->each * team_sum(total, s->parts[2]);
    return all;
}

/* The log-sum-exp and the loss, which has the small difference first: the label's logit is often the largest.
 * NaN as in PyTorch if all logits are -inf, and if the label is none of the classes. */
DEVICE void put_loss(const loss_args *a, i64 row, i64 label, exp_sum t, float subtract)
{
    float loss = nan_(), lse = nan_();
    if (t.top != -infinity_()) {
        const float rest = log_(t.sum);
        lse = t.top + rest;
        loss = label >= 0 && label < a->classes ? t.top - subtract + rest : loss;
    }
    AT(float, a->lse)[row] = lse;
    AT(float, a->losses)[row] = label == a->ignore ? 0.0f : loss;
}

KERNEL_SHARED(loss_rows, loss_args, BLOCK_THREADS, row_shared)
{
    const i64 row = ROW, label = row < a.rows ? AT(const i32, a.labels)[row] : 0;
    float subtract;
    const exp_sum sum = row_numbers(&a, s, row, label, &subtract);
    if (row < a.rows && LANE == 0)
        put_loss(&a, row, label, sum, subtract);
}

KERNEL_SHARED(loss_part, loss_args, BLOCK_THREADS, row_shared)
{
    const i64 row = ROW, label = row < a.rows ? AT(const i32, a.labels)[row] - a.first : 0;
    float subtract;
    const exp_sum sum = row_numbers(&a, s, row, label, &subtract);
    if (row < a.rows && LANE == 0) {
        float *part = AT(float, a.parts) + row * PART_NUMBERS;
        part[PART_TOP] = sum.top;
        part[PART_SUM] = sum.sum;
        part[PART_AT_LABEL] = subtract;
    }
}

/* The loss of each row from the parts of all ranks, [n_parts, rows, 3]. */
KERNEL(loss_join, loss_args, JOIN_THREADS)
{
    const i64 row = BLOCK * JOIN_THREADS + THREAD;
    if (row >= a.rows)
        return;
    const float *parts = AT(const float, a.parts) + row * PART_NUMBERS;
    const i64 step = a.rows * PART_NUMBERS;
    exp_sum all;
    all.top = -infinity_();
    all.sum = 0;
    float subtract = 0;
    for (i64 p = 0; p < a.n_parts; p++)
        all.top = max_(all.top, parts[p * step + PART_TOP]);
    for (i64 p = 0; p < a.n_parts; p++) {
        const float sum = parts[p * step + PART_SUM];
        if (sum != 0.0f) /* else nothing but -inf */
            all.sum = all.sum + sum * exp_below_zero(parts[p * step + PART_TOP] - all.top);
        subtract = subtract + parts[p * step + PART_AT_LABEL];
    }
    put_loss(&a, row, AT(const i32, a.labels)[row], all, subtract);
}

/* dx = (exp(x - lse) - target) * dloss / count; 0 for rows that are ignored. */
KERNEL(loss_grad, loss_args, BLOCK_THREADS)
{
    const i64 row = ROW;
    if (row >= a.rows)
        return;
    const place k = (place)a.k;
    const X *x = AT(const X, a.logits) + row * a.k;
    X *dx = AT(X, a.dx) + row * a.k;
    const i64 label = AT(const i32, a.labels)[row], hot = label - a.first;
    const int ignored = label == a.ignore, valid = label >= 0 && label < a.classes;
    const float lse = valid ? AT(const float, a.lse)[row] : nan_(),
                weight = AT(const float, a.dloss)[row * a.dloss_stride] /
                         (a.count ? AT(const float, a.count)[0] : 1.0f);
    piece held[PIECES];
    row_read(held, x, 0, ignored ? 0 : k);
    EACH_STEP(from, k)
    {
        READ_AGAIN(held, x, from, ignored ? 0 : k);
        UNROLL for (int j = 0; j < PIECES; j++)
        {
            const place i = piece_at(from, j);
            piece p;
            UNROLL for (int e = 0; e < V; e++)
            {
                float d = exp_below_zero(piece_get(&held[j], e) - lse) - a.each;
                d = valid && i + e == hot ? d - a.own : d;
                piece_put(&p, e, ignored ? 0.0f : d * weight);
            }
            piece_write(dx + i, &p, piece_n(i, k));
        }
    }
}
