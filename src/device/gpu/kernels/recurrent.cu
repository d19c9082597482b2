/* recurrent.cu - one token of LSTM and GRU, and of their gradients: a launch for each token. A block reads
 * what all units were before, multiplies it by the weights of its own units, and computes these units. The
 * host defines X, the type, and GATES: 4 (LSTM) or 3 (GRU). */
#include "dialect.h"
#include "math.h"
#include "recurrent.h"

/* A slice of a product's operands. The odd length of rows keeps the threads of a warp in different banks. */
typedef struct recurrent_shared {
    float state[RECURRENT_ROWS][RECURRENT_SLICE + 1];
    float w[GATES * RECURRENT_UNITS][RECURRENT_SLICE + 1];
} recurrent_shared;

/* The sequence and the unit of this thread. */
typedef struct cell {
    i64 b, u;
    int row, column; /* in the block's tile */
    int inside;
} cell;
DEVICE cell cell_of(const recurrent_args *a)
{
    const i64 columns = (a->hidden + RECURRENT_UNITS - 1) / RECURRENT_UNITS, row = BLOCK / columns;
    cell c;
    c.row = THREAD / RECURRENT_UNITS;
    c.column = THREAD % RECURRENT_UNITS;
    c.b = row * RECURRENT_ROWS + c.row;
    c.u = (BLOCK - row * columns) * RECURRENT_UNITS + c.column;
    c.inside = c.b < a->batch && c.u < a->hidden;
    return c;
}

/* The row, in [batch, tokens, ..], of the token of sequence b that is read as number `step`. */
DEVICE i64 row_of(const recurrent_args *a, i64 b, i64 step)
{
    return b * a->tokens + (a->reverse ? a->tokens - 1 - step : step);
}

/* Element u of the states before the token; 0 where they are absent. */
DEVICE float state_before(const recurrent_args *a, i64 b, i64 u)
{
    if (a->step)
        return LOAD(X, AT(const X, a->y), row_of(a, b, a->step - 1) * a->hidden + u);
    return a->h0 ? LOAD(X, AT(const X, a->h0), b * a->hidden + u) : 0;
}

/* sum[k] = what row k * hidden + u of w makes of the states before. All threads of the block take part. */
DEVICE void multiply(const recurrent_args *a, recurrent_shared *s, const cell *c, float sum[GATES])
{
    const i64 H = a->hidden, b0 = c->b - c->row, u0 = c->u - c->column;
    const X *w = AT(const X, a->w);
    for (int k = 0; k < GATES; k++)
        sum[k] = 0;
    if (!a->step && !a->h0) /* the same for all threads */
        return;
    for (i64 first = 0; first < H; first += RECURRENT_SLICE) {
        const int lane = THREAD % RECURRENT_SLICE, warp = THREAD / RECURRENT_SLICE,
                  warps = RECURRENT_THREADS / RECURRENT_SLICE;
        for (int r = warp; r < RECURRENT_ROWS; r += warps)
            s->state[r][lane] = b0 + r < a->batch && first + lane < H ? state_before(a, b0 + r, first + lane)
                                                                      : 0;
        for (int r = warp; r < GATES * RECURRENT_UNITS; r += warps) {
            const i64 u = u0 + r % RECURRENT_UNITS;
            s->w[r][lane] = u < H && first + lane < H
                                ? LOAD(X, w, (r / RECURRENT_UNITS * H + u) * H + first + lane)
                                : 0;
        }
        BARRIER();
        for (int i = 0; i < RECURRENT_SLICE; i++) {
            const float state = s->state[c->row][i];
            for (int k = 0; k < GATES; k++)
                sum[k] = fma_(s->w[k * RECURRENT_UNITS + c->column][i], state, sum[k]);
        }
        BARRIER();
    }
}

/* What the gradients of the gates, dz [batch, GATES * hidden] in f32, give to unit u of the states before. */
DEVICE float multiply_back(const recurrent_args *a, recurrent_shared *s, const cell *c, const f32 *dz)
{
    const i64 H = a->hidden, rows = GATES * H, b0 = c->b - c->row, u0 = c->u - c->column;
    const X *w = AT(const X, a->w);
    float sum = 0;
    for (i64 first = 0; first < rows; first += RECURRENT_SLICE) {
        const int lane = THREAD % RECURRENT_SLICE;
        for (int r = THREAD / RECURRENT_SLICE; r < RECURRENT_ROWS; r += RECURRENT_THREADS / RECURRENT_SLICE)
            s->state[r][lane] = b0 + r < a->batch && first + lane < rows ? dz[(b0 + r) * rows + first + lane]
                                                                         : 0;
        for (int r = c->row; r < RECURRENT_SLICE; r += RECURRENT_ROWS)
            s->w[c->column][r] = c->u < H && first + r < rows ? LOAD(X, w, (first + r) * H + u0 + c->column)
                                                              : 0;
        BARRIER();
        for (int i = 0; i < RECURRENT_SLICE; i++)
            sum = fma_(s->w[c->column][i], s->state[c->row][i], sum);
        BARRIER();
    }
    return sum;
}

#if GATES == 4

DEVICE float cell_before(const recurrent_args *a, i64 b, i64 u)
{
    if (a->step)
        return AT(const f32, a->cells)[row_of(a, b, a->step - 1) * a->hidden + u];
    return a->c0 ? LOAD(X, AT(const X, a->c0), b * a->hidden + u) : 0;
}

KERNEL_SHARED(lstm, recurrent_args, RECURRENT_THREADS, recurrent_shared)
{
    const cell c = cell_of(&a);
    float z[GATES];
    multiply(&a, s, &c, z);
    if (!c.inside)
        return;
    const i64 row = row_of(&a, c.b, a.step), H = a.hidden;
    const X *x = AT(const X, a.x) + row * 4 * H + c.u;
    X *gates = AT(X, a.gates) + row * 4 * H + c.u;
    for (int k = 0; k < GATES; k++) {
        z[k] = LOAD(X, x, k * H) + z[k];
        z[k] = k == 2 ? tanh_(z[k]) : sigmoid_(z[k]);
        STORE(X, gates, k * H, z[k]);
    }
    const float sum = fma_(z[1], cell_before(&a, c.b, c.u), z[0] * z[2]);
    AT(f32, a.cells)[row * H + c.u] = sum;
    STORE(X, AT(X, a.y), row * H + c.u, z[3] * tanh_(sum));
}

/* Gradients go from the last token that was read to the first, and one step more, -1, which writes those of
 * the first states. given: dz of this token, for the next launch; dz_before: of the one that was read after
 * it; rest: gradients of the cells, which stay with their thread. */
KERNEL_SHARED(lstm_grad, recurrent_args, RECURRENT_THREADS, recurrent_shared)
{
    const cell c = cell_of(&a);
    const int last = a.step == a.tokens - 1;
    float dh = last ? 0 : multiply_back(&a, s, &c, AT(const f32, a.dz_before));
    if (!c.inside)
        return;
    const i64 H = a.hidden, here = c.b * H + c.u;
    float dc = last ? 0 : AT(const f32, a.rest)[here];
    if (a.step < 0) {
        STORE(X, AT(X, a.dh0), here, dh);
        STORE(X, AT(X, a.dc0), here, dc);
        return;
    }
    const i64 row = row_of(&a, c.b, a.step), at = row * H + c.u;
    const X *gates = AT(const X, a.gates) + row * 4 * H + c.u;
    const float i = LOAD(X, gates, 0), f = LOAD(X, gates, H), g = LOAD(X, gates, 2 * H),
                o = LOAD(X, gates, 3 * H), t = tanh_(AT(const f32, a.cells)[at]);
    if (a.dy)
        dh = dh + LOAD(X, AT(const X, a.dy), at);
    dc = dc + dh * o * (1.0f - t * t);
    if (a.dcells)
        dc = dc + AT(const f32, a.dcells)[at];
    const float d[GATES] = { dc * g * i * (1.0f - i), dc * cell_before(&a, c.b, c.u) * f * (1.0f - f),
                             dc * i * (1.0f - g * g), dh * t * o * (1.0f - o) };
    for (int k = 0; k < GATES; k++) {
        AT(f32, a.given)[c.b * 4 * H + k * H + c.u] = d[k];
        STORE(X, AT(X, a.dx) + row * 4 * H, k * H + c.u, d[k]);
    }
    AT(f32, a.rest)[here] = dc * f;
}

#else

KERNEL_SHARED(gru, recurrent_args, RECURRENT_THREADS, recurrent_shared)
{
    const cell c = cell_of(&a);
    float h[GATES];
    multiply(&a, s, &c, h);
    if (!c.inside)
        return;
    const i64 row = row_of(&a, c.b, a.step), H = a.hidden;
    const X *x = AT(const X, a.x) + row * 3 * H + c.u, *bias = AT(const X, a.bias);
    X *gates = AT(X, a.gates) + row * 4 * H + c.u;
    for (int k = 0; k < GATES; k++)
        h[k] = h[k] + (a.bias ? LOAD(X, bias, k * H + c.u) : 0);
    const float r = sigmoid_(LOAD(X, x, 0) + h[0]), z = sigmoid_(LOAD(X, x, H) + h[1]),
                n = tanh_(fma_(r, h[2], LOAD(X, x, 2 * H)));
    STORE(X, gates, 0, r);
    STORE(X, gates, H, z);
    STORE(X, gates, 2 * H, n);
    STORE(X, gates, 3 * H, h[2]);
    STORE(X, AT(X, a.y), row * H + c.u, fma_(z, state_before(&a, c.b, c.u), (1.0f - z) * n));
}

/* Steps and workspace as in lstm_grad, but rest: what goes around w. */
KERNEL_SHARED(gru_grad, recurrent_args, RECURRENT_THREADS, recurrent_shared)
{
    const cell c = cell_of(&a);
    const int last = a.step == a.tokens - 1;
    float dh = last ? 0 : multiply_back(&a, s, &c, AT(const f32, a.dz_before));
    if (!c.inside)
        return;
    const i64 H = a.hidden, here = c.b * H + c.u;
    dh = last ? 0 : dh + AT(const f32, a.rest)[here];
    if (a.step < 0) {
        STORE(X, AT(X, a.dh0), here, dh);
        return;
    }
    const i64 row = row_of(&a, c.b, a.step);
    const X *gates = AT(const X, a.gates) + row * 4 * H + c.u;
    const float r = LOAD(X, gates, 0), z = LOAD(X, gates, H), n = LOAD(X, gates, 2 * H),
                part = LOAD(X, gates, 3 * H), d = dh + LOAD(X, AT(const X, a.dy), row * H + c.u),
                dn = d * (1.0f - z) * (1.0f - n * n);
    const float of[GATES] = { dn * part * r * (1.0f - r),
                              d * (state_before(&a, c.b, c.u) - n) * z * (1.0f - z), dn * r };
    for (int k = 0; k < GATES; k++) {
        const i64 at = row * 3 * H + k * H + c.u;
        AT(f32, a.given)[c.b * 3 * H + k * H + c.u] = of[k];
        STORE(X, AT(X, a.dx), at, k < 2 ? of[k] : dn);
        STORE(X, AT(X, a.dw_part), at, of[k]);
    }
    AT(f32, a.rest)[here] = d * z;
}

#endif
