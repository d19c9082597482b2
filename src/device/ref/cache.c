/* cache.c - a cache of keys or values: rows written at given positions, and attention of one query row at a
 * time to the cache. */
#include "ref.h"

static int64_t at3(const ls_tensor *t, int64_t b, int64_t i, int64_t c)
{
    return b * t->strides[0] + i * t->strides[1] + c * t->strides[2];
}
static double get3(const ls_tensor *t, int64_t b, int64_t i, int64_t c)
{
    return ls_ref_get(t, at3(t, b, i, c));
}

void ls_ref_cache_write(const ls_kernel_args *a) /* cache, x, positions -> cache */
{
    const ls_tensor *x = &a->in[1], *cache = &a->out[0];
    const int64_t T = x->type.dims[1], places = cache->type.dims[1], F = x->type.dims[2];
    for (int64_t row = 0; row < x->type.dims[0] * T; row++) {
        const int64_t b = row / T, t = row % T, to = (int64_t)flat_get(&a->in[2], row);
        for (int64_t c = 0; c < F && to >= 0 && to < places; c++)
            ls_ref_put(cache, at3(cache, b, to, c), get3(x, b, t, c));
    }
}

void ls_ref_cache_reorder(const ls_kernel_args *a) /* cache, from -> cache */
{
    const ls_tensor *cache = &a->out[0];
    const int64_t B = cache->type.dims[0], places = cache->type.dims[1], F = cache->type.dims[2];
    double *old = a->workspace; /* [B]: of one place and feature */
    for (int64_t i = 0; i < places * F; i++) {
        for (int64_t b = 0; b < B; b++)
            old[b] = get3(cache, b, i / F, i % F);
        for (int64_t b = 0; b < B; b++) {
            const int64_t from = (int64_t)flat_get(&a->in[1], b);
            if (from >= 0 && from < B)
                ls_ref_put(cache, at3(cache, b, i / F, i % F), old[from]);
        }
    }
}

size_t ls_ref_cache_reorder_workspace(const ls_kernel_args *a)
{
    return sizeof(double) * (size_t)a->in[0].type.dims[0];
}

/* What the bias by distance adds for key j: its last column is the distance 0. */
static double bias_of(const ls_kernel_args *a, int64_t h, int64_t n, int64_t j)
{
    if (!given(a, 4))
        return 0;
    const ls_tensor *bias = &a->in[4];
    return ls_ref_get(bias, h * bias->strides[0] + (bias->type.dims[1] - n + j) * bias->strides[1]);
}

void ls_ref_attention_cached(const ls_kernel_args *a) /* q, k, v, positions, bias? -> y */
{
    const ls_attention_attrs *at = a->attrs;
    const ls_tensor *q = &a->in[0], *k = &a->in[1], *v = &a->in[2], *y = &a->out[0];
    const int64_t D = at->head_dim, T = q->type.dims[1], H = q->type.dims[2] / D,
                  group = q->type.dims[2] / k->type.dims[2], places = k->type.dims[1];
    double *p = a->workspace; /* [places] */
    for (int64_t task = 0; task < q->type.dims[0] * T * H; task++) {
        const int64_t h = task % H, t = task / H % T, b = task / H / T, g = h / group;
        const double position = flat_get(&a->in[3], b * T + t);
        const int64_t n = position < 0 ? 0 : position + 1 < (double)places ? (int64_t)position + 1 : places;
        const int64_t first = at->window && n > at->window ? n - at->window : 0;
        double max = -HUGE_VAL, sum = 0;
        for (int64_t j = first; j < n; j++) {
            double dot = 0;
            for (int64_t d = 0; d < D; d++)
                dot += get3(q, b, t, h * D + d) * get3(k, b, j, g * D + d);
            p[j] = at->scale * dot + bias_of(a, h, n, j);
            max = fmax(max, p[j]);
        }
        for (int64_t j = first; j < n; j++)
            sum += p[j] = p[j] == -HUGE_VAL ? 0 : exp(p[j] - max);
        for (int64_t d = 0; d < D; d++) {
            double total = 0;
            for (int64_t j = first; j < n; j++)
                total += p[j] * get3(v, b, j, g * D + d);
            ls_ref_put(y, at3(y, b, t, h * D + d), sum == 0 ? 0 : total / sum);
        }
    }
}

size_t ls_ref_attention_cached_workspace(const ls_kernel_args *a)
{
    return sizeof(double) * (size_t)a->in[1].type.dims[1];
}
