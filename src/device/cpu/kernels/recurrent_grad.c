/* recurrent_grad.c - the gradients of LSTM and GRU over time (recurrent.h), from the last token that was read
 * to the first. `state` has the gradient of the states; `other` that of LSTM's cells. */
#include "tensor_ops.h"
#include "recurrent.h"

/* The rows of w, padded: row k * units + v is what gate k of unit v gives back to the states. */
SIMD_FN void pad_weights(ls_dtype T, const recurrent_job *j, int64_t begin, int64_t end)
{
    for (int64_t k = begin; k < end; k++) /* a gate */
        for (int64_t v = 0; v < j->units; v++) {
            float *to = j->weights + (k * j->units + v) * j->units;
            for (int64_t c = 0; c < j->units; c += VF_LANES) {
                const int n = v < j->hidden ? (int)min_i64(VF_LANES, j->hidden - c) : 0;
                vf_store(to + c, n > 0
                                     ? get_padded(T, j->w->data, (k * j->hidden + v) * j->hidden + c, n, 0.0f)
                                     : vf_zero());
            }
        }
}
RECURRENT_TASK(pad_task, pad_weights)

static const ls_tensor *recurrent_grad_given(const ls_kernel_args *a, int k)
{
    return k < a->n_in && present(&a->in[k]) ? &a->in[k] : NULL;
}

/* state = what the gates' gradients z give back, on top of what is there if `add`. */
SIMD_FN void multiply(const recurrent_job *j, int64_t begin, int64_t end, bool add)
{
    const int64_t depth = j->gates * j->units;
    LS_NAME(ls_small_mm)
    (end - begin, j->units, depth, j->z + begin * depth, depth, 1, j->weights, j->units,
     j->state + begin * j->units, j->units, add);
}

SIMD_FN void clear(const recurrent_job *j, float *rows, int64_t columns, int64_t begin, int64_t end)
{
    (void)j;
    memset(rows + begin * columns, 0, sizeof(float) * (size_t)((end - begin) * columns));
}

/* Rows [begin, end) of a result [batch, hidden]. */
SIMD_FN void put_rows(ls_dtype T, const recurrent_job *j, const ls_tensor *to, const float *from,
                      int64_t begin, int64_t end)
{
    for (int64_t b = begin; b < end; b++)
        for (int64_t c = 0; c < j->hidden; c += VF_LANES)
            vf_put_n(to->data, T, b * j->hidden + c, vf_load(from + b * j->units + c),
                     (int)min_i64(VF_LANES, j->hidden - c));
}

/* dy?, dcells?, w, cells, gates, c0? -> dx, dh0, dc0 */
SIMD_FN void lstm_sequences(ls_dtype T, const recurrent_job *j, int64_t begin, int64_t end)
{
    const ls_kernel_args *a = j->a;
    const int64_t H = j->hidden, U = j->units;
    const ls_tensor *dy = recurrent_grad_given(a, 0), *dcells = recurrent_grad_given(a, 1),
                    *c0 = recurrent_grad_given(a, 5);
    const float *cells = a->in[3].data;
    clear(j, j->z, 4 * U, begin, end); /* units beyond `hidden` stay 0 */
    clear(j, j->state, U, begin, end);
    clear(j, j->other, U, begin, end);
    for (int64_t s = j->tokens - 1; s >= 0; s--) {
        for (int64_t b = begin; b < end; b++) {
            const int64_t r = recurrent_row(j, b, s);
            const char *acts = elem_at(&a->in[4], r * 4 * H);
            char *dx = elem_at(&a->out[0], r * 4 * H);
            float *z = j->z + b * 4 * U, *dh = j->state + b * U, *dc = j->other + b * U;
            for (int64_t c = 0; c < H; c += VF_LANES) {
                const int n = (int)min_i64(VF_LANES, H - c);
                const vf in = get_padded(T, acts, c, n, 0.0f), forget = get_padded(T, acts, H + c, n, 0.0f),
                         g = get_padded(T, acts, 2 * H + c, n, 0.0f),
                         out = get_padded(T, acts, 3 * H + c, n, 0.0f),
                         t = vf_tanh(get_padded(LS_F32, cells, r * H + c, n, 0.0f));
                vf before = vf_zero(), h = vf_load(dh + c), cell = vf_load(dc + c);
                if (s)
                    before = get_padded(LS_F32, cells, recurrent_row(j, b, s - 1) * H + c, n, 0.0f);
                else if (c0)
                    before = get_padded(T, c0->data, b * H + c, n, 0.0f);
                if (dy)
                    h += get_padded(T, dy->data, r * H + c, n, 0.0f);
                cell += h * out * (1.0f - t * t);
                if (dcells)
                    cell += get_padded(LS_F32, dcells->data, r * H + c, n, 0.0f);
                const vf d[4] = { cell * g * in * (1.0f - in), cell * before * forget * (1.0f - forget),
                                  cell * in * (1.0f - g * g), h * t * out * (1.0f - out) };
                for (int k = 0; k < 4; k++) {
                    vf_store_n(z + k * U + c, d[k], n);
                    vf_put_n(dx, T, k * H + c, d[k], n);
                }
                vf_store_n(dc + c, cell * forget, n);
            }
        }
        multiply(j, begin, end, false);
    }
    put_rows(T, j, &a->out[1], j->state, begin, end);
    put_rows(T, j, &a->out[2], j->other, begin, end);
}
RECURRENT_TASK(lstm_task, lstm_sequences)

/* dy, w, y, gates, h0? -> dx, the gradient of w's part, dh0 */
SIMD_FN void gru_sequences(ls_dtype T, const recurrent_job *j, int64_t begin, int64_t end)
{
    const ls_kernel_args *a = j->a;
    const int64_t H = j->hidden, U = j->units;
    const ls_tensor *h0 = recurrent_grad_given(a, 4);
    clear(j, j->z, 3 * U, begin, end);
    clear(j, j->state, U, begin, end);
    for (int64_t s = j->tokens - 1; s >= 0; s--) {
        for (int64_t b = begin; b < end; b++) {
            const int64_t row = recurrent_row(j, b, s);
            const char *acts = elem_at(&a->in[3], row * 4 * H);
            char *dx = elem_at(&a->out[0], row * 3 * H), *dw = elem_at(&a->out[1], row * 3 * H);
            float *gate = j->z + b * 3 * U, *dh = j->state + b * U;
            for (int64_t c = 0; c < H; c += VF_LANES) {
                const int n = (int)min_i64(VF_LANES, H - c);
                const vf r = get_padded(T, acts, c, n, 0.0f), z = get_padded(T, acts, H + c, n, 0.0f),
                         candidate = get_padded(T, acts, 2 * H + c, n, 0.0f),
                         part = get_padded(T, acts, 3 * H + c, n, 0.0f),
                         d = vf_load(dh + c) + get_padded(T, a->in[0].data, row * H + c, n, 0.0f),
                         dn = d * (1.0f - z) * (1.0f - candidate * candidate);
                vf before = vf_zero();
                if (s)
                    before = get_padded(T, a->in[2].data, recurrent_row(j, b, s - 1) * H + c, n, 0.0f);
                else if (h0)
                    before = get_padded(T, h0->data, b * H + c, n, 0.0f);
                const vf of[3] = { dn * part * r * (1.0f - r), d * (before - candidate) * z * (1.0f - z),
                                   dn * r };
                for (int k = 0; k < 3; k++) {
                    vf_store_n(gate + k * U + c, of[k], n);
                    vf_put_n(dx, T, k * H + c, k < 2 ? of[k] : dn, n);
                    vf_put_n(dw, T, k * H + c, of[k], n);
                }
                vf_store_n(dh + c, d * z, n); /* what goes around the weights */
            }
        }
        multiply(j, begin, end, true);
    }
    put_rows(T, j, &a->out[2], j->state, begin, end);
}
RECURRENT_TASK(gru_task, gru_sequences)

static void recurrent_grad_run(const ls_kernel_args *a, const ls_tensor *w, ls_range_fn sequences)
{
    recurrent_job j = recurrent_job_of(a, w, &a->out[0], true);
    ls_parallel_for(threads_for(a, count_of(w)), j.gates, pad_task, &j);
    ls_parallel_for(threads_for(a, count_of(&a->out[0])), j.batch, sequences, &j);
}

static size_t recurrent_grad_workspace(const ls_kernel_args *a, const ls_tensor *w)
{
    const recurrent_job j = recurrent_job_of(a, w, &a->out[0], true);
    return recurrent_bytes(&j);
}

KERNEL(lstm_grad) { recurrent_grad_run(a, &a->in[2], lstm_task); }
KERNEL(gru_grad) { recurrent_grad_run(a, &a->in[1], gru_task); }
KERNEL_WORKSPACE(lstm_grad) { return recurrent_grad_workspace(a, &a->in[2]); }
KERNEL_WORKSPACE(gru_grad) { return recurrent_grad_workspace(a, &a->in[1]); }
