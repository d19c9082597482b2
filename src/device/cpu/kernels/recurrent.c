/* recurrent.c - LSTM and GRU over time (recurrent.h). */
#include "tensor_ops.h"
#include "recurrent.h"

/* Column block [k][gate k's units] of row u of `weights`: what state element u gives to every gate. */
SIMD_FN void turn_weights(ls_dtype T, const recurrent_job *j, int64_t begin, int64_t end)
{
    for (int64_t k = begin; k < end; k++) /* a gate */
        for (int64_t first = 0; first < j->units; first += UNIT)
            for (int64_t u = 0; u < j->hidden; u++) {
                float *to = j->weights + (u * j->gates + k) * j->units;
                for (int64_t v = first; v < first + UNIT; v++)
                    to[v] = v < j->hidden ? f_get(j->w->data, T, (k * j->hidden + v) * j->hidden + u) : 0.0f;
            }
}
RECURRENT_TASK(turn_task, turn_weights)

/* Element c and on of row r of a tensor with rows of `columns`; the first n lanes. */
SIMD_FN vf at(ls_dtype T, const ls_tensor *t, int64_t r, int64_t columns, int64_t c, int n)
{
    return get_padded(T, t->data, r * columns + c, n, 0.0f);
}

/* The states before the first token. */
SIMD_FN void begin_states(ls_dtype T, const recurrent_job *j, float *to, const ls_tensor *from, int64_t begin,
                          int64_t end)
{
    for (int64_t b = begin; b < end; b++)
        for (int64_t c = 0; c < j->units; c += VF_LANES) {
            const int n = (int)min_i64(VF_LANES, j->hidden - c);
            vf_store(to + b * j->units + c, n > 0 && from ? at(T, from, b, j->hidden, c, n) : vf_zero());
        }
}

static const ls_tensor *recurrent_given(const ls_kernel_args *a, int k)
{
    return k < a->n_in && present(&a->in[k]) ? &a->in[k] : NULL;
}

/* z = what w makes of the states, added to what is there. */
SIMD_FN void multiply(const recurrent_job *j, int64_t begin, int64_t end)
{
    const int64_t columns = j->gates * j->units;
    LS_NAME(ls_small_mm)
    (end - begin, columns, j->hidden, j->state + begin * j->units, j->units, 1, j->weights, columns,
     j->z + begin * columns, columns, true);
}

SIMD_FN void lstm_sequences(ls_dtype T, const recurrent_job *j, int64_t begin, int64_t end)
{
    const ls_kernel_args *a = j->a;
    const int64_t H = j->hidden, columns = 4 * j->units;
    begin_states(T, j, j->state, recurrent_given(a, 2), begin, end);
    begin_states(T, j, j->other, recurrent_given(a, 3), begin, end);
    for (int64_t s = 0; s < j->tokens; s++) {
        for (int64_t b = begin; b < end; b++)
            for (int k = 0; k < 4; k++)
                for (int64_t c = 0; c < H; c += VF_LANES)
                    vf_store(j->z + b * columns + k * j->units + c,
                             at(T, &a->in[0], recurrent_row(j, b, s), 4 * H, k * H + c,
                                (int)min_i64(VF_LANES, H - c)));
        multiply(j, begin, end);
        for (int64_t b = begin; b < end; b++) {
            const int64_t r = recurrent_row(j, b, s);
            const float *z = j->z + b * columns;
            float *h = j->state + b * j->units, *cell = j->other + b * j->units;
            for (int64_t c = 0; c < H; c += VF_LANES) {
                const int n = (int)min_i64(VF_LANES, H - c);
                const vf in = vf_sigmoid(vf_load(z + c)), forget = vf_sigmoid(vf_load(z + j->units + c)),
                         g = vf_tanh(vf_load(z + 2 * j->units + c)),
                         out = vf_sigmoid(vf_load(z + 3 * j->units + c)),
                         sum = forget * vf_load(cell + c) + in * g, y = out * vf_tanh(sum);
                vf_put_n(a->out[2].data, T, r * 4 * H + c, in, n);
                vf_put_n(a->out[2].data, T, r * 4 * H + H + c, forget, n);
                vf_put_n(a->out[2].data, T, r * 4 * H + 2 * H + c, g, n);
                vf_put_n(a->out[2].data, T, r * 4 * H + 3 * H + c, out, n);
                vf_store_n((float *)a->out[1].data + r * H + c, sum, n);
                vf_put_n(a->out[0].data, T, r * H + c, y, n);
                vf_store(cell + c, sum);
                vf_store(h + c, vf_round_to(y, T)); /* as the next token would read it */
            }
        }
    }
}
RECURRENT_TASK(lstm_task, lstm_sequences)

SIMD_FN void gru_sequences(ls_dtype T, const recurrent_job *j, int64_t begin, int64_t end)
{
    const ls_kernel_args *a = j->a;
    const int64_t H = j->hidden, U = j->units, columns = 3 * U;
    const ls_tensor *bias = recurrent_given(a, 2);
    begin_states(T, j, j->state, recurrent_given(a, 3), begin, end);
    for (int64_t s = 0; s < j->tokens; s++) {
        for (int64_t b = begin; b < end; b++)
            for (int k = 0; k < 3; k++)
                for (int64_t c = 0; c < H; c += VF_LANES)
                    vf_store(j->z + b * columns + k * U + c,
                             bias ? at(T, bias, 0, 0, k * H + c, (int)min_i64(VF_LANES, H - c)) : vf_zero());
        multiply(j, begin, end);
        for (int64_t b = begin; b < end; b++) {
            const int64_t row = recurrent_row(j, b, s);
            const float *w = j->z + b * columns;
            float *h = j->state + b * U;
            char *acts = elem_at(&a->out[1], row * 4 * H);
            for (int64_t c = 0; c < H; c += VF_LANES) {
                const int n = (int)min_i64(VF_LANES, H - c);
                const vf r = vf_sigmoid(at(T, &a->in[0], row, 3 * H, c, n) + vf_load(w + c)),
                         z = vf_sigmoid(at(T, &a->in[0], row, 3 * H, H + c, n) + vf_load(w + U + c)),
                         part = vf_load(w + 2 * U + c),
                         candidate = vf_tanh(at(T, &a->in[0], row, 3 * H, 2 * H + c, n) + r * part),
                         y = (1.0f - z) * candidate + z * vf_load(h + c);
                vf_put_n(acts, T, c, r, n);
                vf_put_n(acts, T, H + c, z, n);
                vf_put_n(acts, T, 2 * H + c, candidate, n);
                vf_put_n(acts, T, 3 * H + c, part, n);
                vf_put_n(a->out[0].data, T, row * H + c, y, n);
                vf_store(h + c, vf_round_to(y, T));
            }
        }
    }
}
RECURRENT_TASK(gru_task, gru_sequences)

static void recurrent_run(const ls_kernel_args *a, ls_range_fn sequences)
{
    recurrent_job j = recurrent_job_of(a, &a->in[1], &a->out[0], false);
    ls_parallel_for(threads_for(a, count_of(&a->in[1])), j.gates, turn_task, &j);
    ls_parallel_for(threads_for(a, count_of(&a->in[0])), j.batch, sequences, &j);
}

static size_t recurrent_workspace(const ls_kernel_args *a)
{
    const recurrent_job j = recurrent_job_of(a, &a->in[1], &a->out[0], false);
    return recurrent_bytes(&j);
}

KERNEL(lstm) { recurrent_run(a, lstm_task); }
KERNEL(gru) { recurrent_run(a, gru_task); }
KERNEL_WORKSPACE(lstm) { return recurrent_workspace(a); }
KERNEL_WORKSPACE(gru) { return recurrent_workspace(a); }
