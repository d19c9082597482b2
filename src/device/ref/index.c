/* index.c - elements by their numbers along a dimension, and running sums along one. A tensor is seen as
 * [outer, n, inner], n along the dimension. */
#include "ref.h"
#include "graph/tensor_attrs.h"

typedef struct along {
    int64_t outer, inner;
} along;

static along along_dim(const ls_type *t, int64_t dim)
{
    along l = { 1, 1 };
    for (int d = 0; d < t->ndim; d++)
        *(d < dim ? &l.outer : &l.inner) *= d == dim ? 1 : t->dims[d];
    return l;
}

/* The number of element (o, i, k) of what is taken, n elements along the dimension. */
static int64_t ref_index_number(const ls_kernel_args *a, along l, int64_t n, int64_t o, int64_t i, int64_t k)
{
    return (int64_t)flat_get(
        &a->in[1], a->in[1].type.ndim == 1 && a->in[0].type.ndim > 1 ? i : (o * n + i) * l.inner + k);
}

void ls_ref_gather(const ls_kernel_args *a) /* a, index -> y */
{
    const int64_t dim = ((const ls_index_attrs *)a->attrs)->dim, size = a->in[0].type.dims[dim],
                  n = a->out[0].type.dims[dim];
    const along l = along_dim(&a->in[0].type, dim);
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < l.inner; k++) {
                const int64_t from = ref_index_number(a, l, n, o, i, k);
                flat_put(&a->out[0], (o * n + i) * l.inner + k,
                         from >= 0 && from < size ? flat_get(&a->in[0], (o * size + from) * l.inner + k)
                                                  : (double)NAN);
            }
}

size_t ls_ref_scatter_add_workspace(const ls_kernel_args *a)
{
    return sizeof(double) * (size_t)((const ls_index_attrs *)a->attrs)->size;
}

void ls_ref_scatter_add(const ls_kernel_args *a) /* x, index -> y */
{
    const int64_t dim = ((const ls_index_attrs *)a->attrs)->dim, n = a->in[0].type.dims[dim],
                  size = a->out[0].type.dims[dim];
    const along l = along_dim(&a->in[0].type, dim);
    double *sum = a->workspace; /* [size] */
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t k = 0; k < l.inner; k++) {
            for (int64_t i = 0; i < size; i++)
                sum[i] = 0;
            for (int64_t i = 0; i < n; i++) {
                const int64_t to = ref_index_number(a, l, n, o, i, k);
                const bool there = to >= 0 && to < size;
                sum[there ? to : 0] += there ? flat_get(&a->in[0], (o * n + i) * l.inner + k) : (double)NAN;
            }
            for (int64_t i = 0; i < size; i++)
                flat_put(&a->out[0], (o * size + i) * l.inner + k, sum[i]);
        }
}

void ls_ref_cumsum(const ls_kernel_args *a) /* x -> y, which may have x's memory */
{
    const ls_cumsum_attrs *at = a->attrs;
    const along l = along_dim(&a->in[0].type, at->dim);
    const int64_t n = a->in[0].type.dims[at->dim];
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t k = 0; k < l.inner; k++) {
            double sum = 0;
            for (int64_t s = 0; s < n; s++) {
                const int64_t i = (o * n + (at->reverse ? n - 1 - s : s)) * l.inner + k;
                sum += flat_get(&a->in[0], i);
                flat_put(&a->out[0], i, sum);
            }
        }
}
