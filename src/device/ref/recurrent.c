/* recurrent.c - LSTM and GRU over time, and their gradients. A state is read back as it was stored. */
#include "ref.h"
#include "graph/tensor_attrs.h"

typedef struct layer {
    int64_t batch, tokens, hidden;
    bool reverse;
} layer;

static layer layer_of(const ls_kernel_args *a, const ls_tensor *y, int64_t hidden)
{
    return (layer){ y->type.dims[0], y->type.dims[1], hidden,
                    ((const ls_recurrent_attrs *)a->attrs)->reverse != 0 };
}
/* The token that is read as number s, and the row of it in [batch, tokens, ..]. */
static int64_t row_of(layer l, int64_t b, int64_t s)
{
    return b * l.tokens + (l.reverse ? l.tokens - 1 - s : s);
}

/* Element u of the state before the token that is read as number s. */
static double before(const ls_kernel_args *a, const ls_tensor *states, int first, layer l, int64_t b,
                     int64_t s, int64_t u)
{
    if (s)
        return row_get(ref_row(states, row_of(l, b, s - 1)), u);
    return given(a, first) ? row_get(ref_row(&a->in[first], b), u) : 0;
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* The product of row `gate` of w with the state before token s. */
static double recur(const ls_kernel_args *a, int first, layer l, int64_t b, int64_t s, int64_t gate)
{
    double sum = 0;
    for (int64_t u = 0; u < l.hidden; u++)
        sum += row_get(ref_row(&a->in[1], gate), u) * before(a, &a->out[0], first, l, b, s, u);
    return sum;
}

void ls_ref_lstm(const ls_kernel_args *a) /* x, w, h0?, c0? -> y, cells, gates i f g o */
{
    const int64_t H = a->in[1].type.dims[1];
    const layer l = layer_of(a, &a->out[0], H);
    for (int64_t b = 0; b < l.batch; b++)
        for (int64_t s = 0; s < l.tokens; s++) {
            const int64_t r = row_of(l, b, s);
            for (int64_t u = 0; u < H; u++) {
                double z[4];
                for (int64_t k = 0; k < 4; k++) {
                    z[k] = row_get(ref_row(&a->in[0], r), k * H + u) + recur(a, 2, l, b, s, k * H + u);
                    z[k] = k == 2 ? tanh(z[k]) : sigmoid(z[k]);
                    row_put(ref_row(&a->out[2], r), k * H + u, z[k]);
                }
                const double c = z[1] * before(a, &a->out[1], 3, l, b, s, u) + z[0] * z[2];
                row_put(ref_row(&a->out[1], r), u, c);
                row_put(ref_row(&a->out[0], r), u, z[3] * tanh(c));
            }
        }
}

void ls_ref_gru(const ls_kernel_args *a) /* x, w, bias?, h0? -> y, gates r z n and w's part of n */
{
    const int64_t H = a->in[1].type.dims[1];
    const layer l = layer_of(a, &a->out[0], H);
    for (int64_t b = 0; b < l.batch; b++)
        for (int64_t s = 0; s < l.tokens; s++) {
            const ls_ref_row x = ref_row(&a->in[0], row_of(l, b, s)),
                             y = ref_row(&a->out[0], row_of(l, b, s)),
                             acts = ref_row(&a->out[1], row_of(l, b, s));
            for (int64_t u = 0; u < H; u++) {
                double h[3];
                for (int64_t k = 0; k < 3; k++)
                    h[k] = recur(a, 3, l, b, s, k * H + u) +
                           (given(a, 2) ? flat_get(&a->in[2], k * H + u) : 0);
                const double r = sigmoid(row_get(x, u) + h[0]), z = sigmoid(row_get(x, H + u) + h[1]),
                             n = tanh(row_get(x, 2 * H + u) + r * h[2]);
                row_put(acts, u, r);
                row_put(acts, H + u, z);
                row_put(acts, 2 * H + u, n);
                row_put(acts, 3 * H + u, h[2]);
                row_put(y, u, (1 - z) * n + z * before(a, &a->out[0], 3, l, b, s, u));
            }
        }
}

/* What the gradients of the gates, dz [gates * H], give to the state before. */
static double back(const ls_tensor *w, const double *dz, int64_t gates, int64_t H, int64_t u)
{
    double sum = 0;
    for (int64_t k = 0; k < gates * H; k++)
        sum += dz[k] * row_get(ref_row(w, k), u);
    return sum;
}

size_t ls_ref_lstm_grad_workspace(const ls_kernel_args *a)
{
    return sizeof(double) * 6 * (size_t)a->in[2].type.dims[1];
}

void ls_ref_lstm_grad(const ls_kernel_args *a) /* dy?, dcells?, w, cells, gates, c0? -> dx, dh0, dc0 */
{
    const int64_t H = a->in[2].type.dims[1];
    const layer l = layer_of(a, &a->in[4], H);
    double *dh = a->workspace, *dc = dh + H, *dz = dc + H;
    for (int64_t b = 0; b < l.batch; b++) {
        for (int64_t u = 0; u < H; u++)
            dh[u] = dc[u] = 0;
        for (int64_t s = l.tokens - 1; s >= 0; s--) {
            const int64_t r = row_of(l, b, s);
            const ls_ref_row acts = ref_row(&a->in[4], r);
            for (int64_t u = 0; u < H; u++) {
                const double i = row_get(acts, u), f = row_get(acts, H + u), g = row_get(acts, 2 * H + u),
                             o = row_get(acts, 3 * H + u), t = tanh(row_get(ref_row(&a->in[3], r), u));
                dh[u] += given(a, 0) ? row_get(ref_row(&a->in[0], r), u) : 0;
                dc[u] += dh[u] * o * (1 - t * t) + (given(a, 1) ? row_get(ref_row(&a->in[1], r), u) : 0);
                dz[u] = dc[u] * g * i * (1 - i);
                dz[H + u] = dc[u] * before(a, &a->in[3], 5, l, b, s, u) * f * (1 - f);
                dz[2 * H + u] = dc[u] * i * (1 - g * g);
                dz[3 * H + u] = dh[u] * t * o * (1 - o);
                dc[u] *= f;
            }
            for (int64_t u = 0; u < H; u++)
                dh[u] = back(&a->in[2], dz, 4, H, u);
            for (int64_t k = 0; k < 4 * H; k++)
                row_put(ref_row(&a->out[0], r), k, dz[k]);
        }
        for (int64_t u = 0; u < H; u++) {
            row_put(ref_row(&a->out[1], b), u, dh[u]);
            row_put(ref_row(&a->out[2], b), u, dc[u]);
        }
    }
}

size_t ls_ref_gru_grad_workspace(const ls_kernel_args *a)
{
    return sizeof(double) * 5 * (size_t)a->in[1].type.dims[1];
}

void ls_ref_gru_grad(const ls_kernel_args *a) /* dy, w, y, gates, h0? -> dx, d of w's part, dh0 */
{
    const int64_t H = a->in[1].type.dims[1];
    const layer l = layer_of(a, &a->in[2], H);
    double *dh = a->workspace, *kept = dh + H, *dz = kept + H; /* kept: what goes around w */
    for (int64_t b = 0; b < l.batch; b++) {
        for (int64_t u = 0; u < H; u++)
            dh[u] = 0;
        for (int64_t s = l.tokens - 1; s >= 0; s--) {
            const int64_t row = row_of(l, b, s);
            const ls_ref_row acts = ref_row(&a->in[3], row), dx = ref_row(&a->out[0], row);
            for (int64_t u = 0; u < H; u++) {
                const double r = row_get(acts, u), z = row_get(acts, H + u), n = row_get(acts, 2 * H + u),
                             d = dh[u] + row_get(ref_row(&a->in[0], row), u), dn = d * (1 - z) * (1 - n * n);
                kept[u] = d * z;
                dz[u] = dn * row_get(acts, 3 * H + u) * r * (1 - r);
                dz[H + u] = d * (before(a, &a->in[2], 4, l, b, s, u) - n) * z * (1 - z);
                dz[2 * H + u] = dn * r;
                row_put(dx, u, dz[u]);
                row_put(dx, H + u, dz[H + u]);
                row_put(dx, 2 * H + u, dn);
            }
            for (int64_t u = 0; u < H; u++)
                dh[u] = kept[u] + back(&a->in[1], dz, 3, H, u);
            for (int64_t k = 0; k < 3 * H; k++)
                row_put(ref_row(&a->out[1], row), k, dz[k]);
        }
        for (int64_t u = 0; u < H; u++)
            row_put(ref_row(&a->out[2], b), u, dh[u]);
    }
}
