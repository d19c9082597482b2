/* gemm_finish.c - turns the finished f32 sums of a tile into outputs while they are still in L1. linear:
 * bias, activation, residual. linear_dx: gradient of the activation, addend. Each step is rounded to the
 * tensor's type, as if it were an op of its own that stores its result. */
#include "gemm.h"

/* Goes through the rows of a tensor, one `next` after the other. For an absent tensor every row is NULL. */
typedef struct walk {
    char *row;
    int64_t step;
} walk;
SIMD_FN walk walk_of(const ls_tensor *t, int64_t i)
{
    if (t->type.ndim < 0)
        return (walk){ NULL, 0 };
    const int64_t step = row_stride(t) * elem_size(t->type.dtype);
    return (walk){ (char *)t->data + i * step, step };
}
SIMD_FN void *next(walk *w)
{
    void *row = w->row;
    w->row += w->step;
    return row;
}

/* One row, n columns from j0 on: two vectors at a time (the width of a tile), then what is left. bias,
 * residual: NULL if absent. `pre` receives the activation's input. */
SIMD_FN void finish_linear(ls_dtype t, ls_act act, const float *sums, const void *bias, const void *residual,
                           void *pre, void *y, int64_t j0, int n)
{
    int j = 0;
    for (; j + 2 * VF_LANES <= n; j += 2 * VF_LANES) {
        const int64_t at = j0 + j, next = at + VF_LANES;
        vf v = vf_load(sums + j), w = vf_load(sums + j + VF_LANES);
        if (bias) {
            v += vf_get(bias, t, at);
            w += vf_get(bias, t, next);
        }
        if (act != LS_ACT_NONE) {
            vf_round2(t, &v, &w);
            vf_put2_rounded(pre, t, at, v, w);
            v = vf_act(act, v);
            w = vf_act(act, w);
        }
        if (residual) {
            vf_round2(t, &v, &w);
            v += vf_get(residual, t, at);
            w += vf_get(residual, t, next);
        }
        vf_put2(y, t, at, v, w);
    }
    for (; j < n; j += VF_LANES) {
        const int m = n - j < VF_LANES ? n - j : VF_LANES;
        vf v = vf_load(sums + j);
        if (bias)
            v += vf_get_n(bias, t, j0 + j, m);
        if (act != LS_ACT_NONE) {
            vf_put_n(pre, t, j0 + j, v, m);
            v = vf_act(act, vf_round_to(v, t));
        }
        if (residual)
            v = vf_round_to(v, t) + vf_get_n(residual, t, j0 + j, m);
        vf_put_n(y, t, j0 + j, v, m);
    }
}

/* The gradient v times the activation's slope at `pre`. */
SIMD_FN vf sloped(ls_act act, vf v, vf pre)
{
    if (act == LS_ACT_RELU) /* a selection, because v may be infinite: 0 * inf is NaN */
        return vf_select(vf_lt(vf_zero(), pre), v, vf_zero());
    return v * vf_act_slope(act, pre);
}

SIMD_FN void finish_dx(ls_dtype t, ls_act act, const float *sums, const void *pre, const void *addend,
                       void *dx, int64_t j0, int n)
{
    int j = 0;
    for (; j + 2 * VF_LANES <= n; j += 2 * VF_LANES) {
        const int64_t at = j0 + j, next = at + VF_LANES;
        vf v = vf_load(sums + j), w = vf_load(sums + j + VF_LANES);
        if (act != LS_ACT_NONE) {
            vf_round2(t, &v, &w);
            v = sloped(act, v, vf_get(pre, t, at));
            w = sloped(act, w, vf_get(pre, t, next));
        }
        if (addend) {
            vf_round2(t, &v, &w);
            v += vf_get(addend, t, at);
            w += vf_get(addend, t, next);
        }
        vf_put2(dx, t, at, v, w);
    }
    for (; j < n; j += VF_LANES) {
        const int m = n - j < VF_LANES ? n - j : VF_LANES;
        vf v = vf_load(sums + j);
        if (act != LS_ACT_NONE)
            v = sloped(act, vf_round_to(v, t), vf_get_n(pre, t, j0 + j, m));
        if (addend)
            v = vf_round_to(v, t) + vf_get_n(addend, t, j0 + j, m);
        vf_put_n(dx, t, j0 + j, v, m);
    }
}

/* Calls f(t, ACT, ...) with a constant ACT, so that the compiler makes a loop for each activation. */
#define BY_ACT(t, act, f, ...)                                             \
    do {                                                                   \
        switch (act) {                                                     \
        case LS_ACT_RELU: f(t, LS_ACT_RELU, __VA_ARGS__); break;           \
        case LS_ACT_GELU: f(t, LS_ACT_GELU, __VA_ARGS__); break;           \
        case LS_ACT_GELU_TANH: f(t, LS_ACT_GELU_TANH, __VA_ARGS__); break; \
        default: f(t, LS_ACT_NONE, __VA_ARGS__); break;                    \
        }                                                                  \
    } while (0)

typedef struct work {
    const ls_kernel_args *a;
    const float *sums;
    int64_t ld, i0, j0;
    int rows, cols;
} work;

/* Most tiles are as wide as a panel. Where the compiler knows the width, no loop over columns is left. */
#define BY_WIDTH(f, t, act, w)           \
    do {                                 \
        if ((w)->cols == 2 * VF_LANES)   \
            f(t, act, w, 2 * VF_LANES);  \
        else                             \
            f(t, act, w, (w)->cols);     \
    } while (0)

SIMD_FN void rows_linear(ls_dtype t, ls_act act, const work *w, int cols)
{
    const ls_kernel_args *a = w->a;
    const void *bias = a->in[2].type.ndim >= 0 ? a->in[2].data : NULL;
    walk residual = walk_of(&a->in[3], w->i0), y = walk_of(&a->out[0], w->i0),
         pre = act ? walk_of(&a->out[1], w->i0) : y;
    for (int i = 0; i < w->rows; i++)
        finish_linear(t, act, w->sums + i * w->ld, bias, next(&residual), next(&pre), next(&y), w->j0,
                      cols);
}
SIMD_FN void rows_dx(ls_dtype t, ls_act act, const work *w, int cols)
{
    const ls_kernel_args *a = w->a;
    walk pre = walk_of(&a->in[2], w->i0), addend = walk_of(&a->in[3], w->i0), dx = walk_of(&a->out[0], w->i0);
    for (int i = 0; i < w->rows; i++)
        finish_dx(t, act, w->sums + i * w->ld, next(&pre), next(&addend), next(&dx), w->j0, cols);
}
SIMD_FN void width_linear(ls_dtype t, ls_act act, const work *w) { BY_WIDTH(rows_linear, t, act, w); }
SIMD_FN void width_dx(ls_dtype t, ls_act act, const work *w) { BY_WIDTH(rows_dx, t, act, w); }
SIMD_FN void any_linear(ls_dtype t, int64_t act, const work *w) { BY_ACT(t, act, width_linear, w); }
SIMD_FN void any_dx(ls_dtype t, int64_t act, const work *w) { BY_ACT(t, act, width_dx, w); }
SIMD_FN void any_dw(ls_dtype t, const work *w)
{
    walk dw = walk_of(&w->a->out[0], w->i0);
    for (int i = 0; i < w->rows; i++)
        finish_linear(t, LS_ACT_NONE, w->sums + i * w->ld, NULL, NULL, NULL, next(&dw), w->j0, w->cols);
}

void LS_NAME(ls_gemm_finish)(const ls_kernel_args *a, gemm_kind kind, const float *sums, int64_t ld,
                             int64_t i0, int rows, int64_t j0, int cols)
{
    const work w = { .a = a, .sums = sums, .ld = ld, .i0 = i0, .j0 = j0, .rows = rows, .cols = cols };
    const ls_dtype t = a->out[0].type.dtype;
    const int64_t act = kind != GEMM_DW ? ((const ls_linear_attrs *)a->attrs)->act : LS_ACT_NONE;
    if (kind == GEMM_LINEAR)
        BY_FLOAT(t, any_linear, act, &w);
    else if (kind == GEMM_DX)
        BY_FLOAT(t, any_dx, act, &w);
    else
        BY_FLOAT(t, any_dw, &w);
}

SIMD_FN void store(ls_dtype t, const ls_tensor *to, const float *from)
{
    const int64_t count = count_of(to);
    for (int64_t i = 0; i < count; i++)
        f_put(to->data, t, i, from[i]);
}
void LS_NAME(ls_gemm_store)(const ls_tensor *to, const float *from)
{
    BY_FLOAT(to->type.dtype, store, to, from);
}
