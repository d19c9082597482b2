/* rope.c - rotary position embedding. Angles are reduced in f64, and their sines are polynomials of our own.
 * So position 100,000 is rotated as exactly as the first, and the bits do not depend on the C library. The
 * sines of a row are computed once for all its heads. */
#include "device/position.h"
#include "table.h"
#include "kernel.h"

enum { HALF_MAX = 512 };

typedef struct rope_job {
    const ls_kernel_args *a;
    int64_t half, heads;
    double frequency[HALF_MAX];
} rope_job;

/* |angle| < 2^31. Taylor series on [-pi/4, pi/4], with errors below 2e-9, a thirtieth of f32's spacing. */
SIMD_FN void sine(double angle, float *sin_out, float *cos_out)
{
    /* multiples of pi/2; pi/2 is in two parts, of which the first has 33 bits */
    const double quarter = __builtin_rint(angle * 0x1.45f306dc9c883p-1);
    const double r = angle - quarter * 0x1.921fb544p+0 - quarter * 0x1.0b4611a626331p-34, z = r * r;
    const double s = r + r * z * (-1.0 / 6 + z * (1.0 / 120 + z * (-1.0 / 5040 + z * (1.0 / 362880))));
    const double c = 1 +
                     z * (-0.5 + z * (1.0 / 24 + z * (-1.0 / 720 + z * (1.0 / 40320 - z * (1.0 / 3628800)))));
    const int64_t turn = (int64_t)quarter;
    const double first = turn & 1 ? c : s, second = turn & 1 ? s : c;
    *sin_out = (float)(turn & 2 ? -first : first);
    *cos_out = (float)((turn + 1) & 2 ? -second : second);
}

SIMD_FN void turn_vector(ls_dtype T, char *y, const char *x, int64_t u, int64_t v, vf s, vf c, int n)
{
    const vf a = get_padded(T, x, u, n, 0.0f), b = get_padded(T, x, v, n, 0.0f);
    const vf first = vf_fnma(b, s, a * c), second = vf_fma(a, s, b * c);
    if (n == VF_LANES) {
        vf_put(y, T, u, first);
        vf_put(y, T, v, second);
    } else {
        vf_put_n(y, T, u, first, n);
        vf_put_n(y, T, v, second, n);
    }
}

SIMD_FN void turn_rows(ls_dtype T, const rope_job *j, int64_t begin, int64_t end)
{
    const ls_kernel_args *a = j->a;
    const int32_t *positions = a->n_in > 1 && present(&a->in[1]) ? a->in[1].data : NULL;
    const int64_t xs = row_stride(&a->in[0]), ys = row_stride(&a->out[0]), tokens = a->in[0].type.dims[1],
                  half = j->half, first = ls_at_start(a, 1); /* first: number of the first token */
    const bool back = ((const ls_rope_attrs *)a->attrs)->inverse != 0;
    float s[HALF_MAX], c[HALF_MAX];
    for (int64_t r = begin; r < end; r++) {
        const double position = (double)(positions ? positions[r] : first + r % tokens);
        for (int64_t i = 0; i < half; i++)
            sine(back ? -position * j->frequency[i] : position * j->frequency[i], s + i, c + i);
        const char *x = elem_at(&a->in[0], r * xs);
        char *y = elem_at(&a->out[0], r * ys);
        for (int64_t h = 0; h < j->heads; h++)
            for (int64_t i = 0; i < half; i += VF_LANES) {
                const int n = (int)min_i64(half - i, VF_LANES);
                const vf sv = n == VF_LANES ? vf_load(s + i) : vf_load_n(s + i, n),
                         cv = n == VF_LANES ? vf_load(c + i) : vf_load_n(c + i, n);
                turn_vector(T, y, x, 2 * h * half + i, (2 * h + 1) * half + i, sv, cv, n);
            }
    }
}

static void turn_task(void *context, int64_t begin, int64_t end, int worker)
{
    const rope_job *j = context;
    (void)worker;
    BY_FLOAT(j->a->in[0].type.dtype, turn_rows, j, begin, end);
}

KERNEL(rope)
{ /* x, positions? -> y */
    const ls_rope_attrs *at = a->attrs;
    rope_job j = { .a = a, .half = at->head_dim / 2, .heads = cols_of(&a->in[0]) / at->head_dim };
    for (int64_t i = 0; i < j.half; i++)
        j.frequency[i] = ls_rope_frequency(at, i);
    const int64_t rows = rows_of(&a->in[0]);
    ls_parallel_for(threads_for(a, rows * j.half * (2 * j.heads + 8)), rows, turn_task, &j);
}

KERNEL_SUPPORTS(rope)
{
    return ((const ls_rope_attrs *)a->attrs)->head_dim > 2 * HALF_MAX ? "heads of more than 1024 features"
                                                                      : LS_NAME(ls_no_f64)(a);
}
