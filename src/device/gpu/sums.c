/* sums.c - sums of elements on GPUs: over dimensions (sum_to, max_to), running ones (cumsum), and by index
 * (scatter_add). All are in an order that depends on shapes only. */
#include "moves.h"

#include "elementwise.h"
#include "graph/tensor_attrs.h"
#include "kernels/sums.h"
#include "shapes.h"

enum {
    SIZE = 256,      /* threads of a block */
    BLOCKS = 1056,   /* enough to keep a GPU busy: eight for each multiprocessor of an H100 */
    TERMS_LEAST = 16 /* of a thread, in a part */
};

static const char *before_of(char text[64], const ls_tensor *x)
{
    snprintf(text, 64, "#define X %s\n", ls_gpu_type(x));
    return text;
}

/* ---- sum_to, max_to */

/* How a block's threads share outputs and terms. Neighbouring threads read neighbours: terms if those are
 * contiguous, else outputs. */
static reduce_args layout_of(const ls_gpu_dims *kept, const ls_gpu_dims *summed)
{
    reduce_args k = { .outputs = 1, .terms = 1, .parts = 1 };
    for (int d = 0; d < kept->ndim; d++)
        k.outputs *= kept->size[d];
    for (int d = 0; d < summed->ndim; d++)
        k.terms *= summed->size[d];
    k.part_terms = k.terms;
    k.kept = ls_gpu_shape(kept->ndim, kept->size);
    k.summed = ls_gpu_shape(summed->ndim, summed->size);
    for (int d = 0; d < LS_MAX_DIMS; d++) {
        k.kept_strides[d] = kept->strides[0][d];
        k.summed_strides[d] = summed->strides[0][d];
    }
    k.terms_first = summed->strides[0][summed->ndim - 1] == 1 && k.terms >= 32;
    k.columns = k.terms_first ? (k.terms >= SIZE ? 1 : SIZE / 32) : k.terms >= 16 ? 32 : SIZE;
    while (k.columns > 1 && k.columns / 2 >= k.outputs)
        k.columns /= 2;
    return k;
}

/* Splits the input's dimensions into those of the output and those that are summed. */
static reduce_args reduction_of(const ls_kernel_args *a)
{
    const ls_tensor *in = &a->in[0], *out = &a->out[0];
    const int lead = in->type.ndim - out->type.ndim;
    ls_gpu_dims kept = { .operands = 1 }, summed = { .operands = 1 };
    for (int d = 0; d < in->type.ndim; d++)
        ls_gpu_dims_add(d >= lead && out->type.dims[d - lead] == in->type.dims[d] ? &kept : &summed,
                        in->type.dims[d], &in->strides[d]);
    ls_gpu_dims_end(&kept);
    ls_gpu_dims_end(&summed);
    reduce_args k = layout_of(&kept, &summed);
    const int64_t sharing = SIZE / k.columns, blocks = ls_gpu_blocks(k.outputs, k.columns),
                  most = ls_gpu_blocks(k.terms, sharing * TERMS_LEAST);
    int64_t parts = blocks ? ls_gpu_blocks(BLOCKS, blocks) : 1;
    parts = parts > most ? most : parts;
    if (parts > 1) {
        k.part_terms = ls_gpu_blocks(ls_gpu_blocks(k.terms, parts), sharing) * sharing;
        k.parts = ls_gpu_blocks(k.terms, k.part_terms);
    }
    return k;
}

size_t ls_gpu_sum_to_workspace(const ls_kernel_args *a)
{
    const reduce_args k = reduction_of(a);
    return k.parts > 1 ? sizeof(float) * (size_t)(k.parts * k.outputs) : 0;
}

static void gpu_sums_launch(struct ls_queue *q, const reduce_args *k, const char *x, const char *y,
                            bool largest)
{
    char before[96];
    snprintf(before, sizeof before, "#define X %s\n#define Y %s\n#define LARGEST %d\n", x, y, largest);
    ls_gpu_run(q, &(ls_gpu_launch){ .file = "sums.cu",
                                    .function = "reduce",
                                    .before = before,
                                    .blocks = ls_gpu_blocks(k->outputs, k->columns) * k->parts,
                                    .args = k,
                                    .bytes = sizeof *k });
}

static void gpu_sums_reduce(const ls_kernel_args *a, bool largest)
{
    const char *type = ls_gpu_type(&a->in[0]);
    reduce_args k = reduction_of(a);
    const bool parts = k.parts > 1;
    k.in = ls_gpu_at(a->in[0].data);
    k.out = ls_gpu_at(parts ? a->workspace : a->out[0].data);
    gpu_sums_launch(a->queue, &k, type, parts ? "f32" : type, largest);
    if (!parts)
        return;
    ls_gpu_dims outputs = { .operands = 1 }, summed = { .operands = 1 };
    ls_gpu_dims_add(&outputs, k.outputs, &(int64_t){ 1 });
    ls_gpu_dims_end(&outputs);
    ls_gpu_dims_add(&summed, k.parts, &(int64_t){ k.outputs });
    k = layout_of(&outputs, &summed);
    k.in = ls_gpu_at(a->workspace);
    k.out = ls_gpu_at(a->out[0].data);
    gpu_sums_launch(a->queue, &k, "f32", type, largest);
}

void ls_gpu_sum_to(const ls_kernel_args *a) { gpu_sums_reduce(a, false); }
void ls_gpu_max_to(const ls_kernel_args *a) { gpu_sums_reduce(a, true); }

/* ---- along a dimension: [outer, n, inner] */

static void along(const ls_type *t, int64_t dim, int64_t *outer, int64_t *inner)
{
    *outer = *inner = 1;
    for (int d = 0; d < t->ndim; d++)
        *(d < dim ? outer : inner) *= d == dim ? 1 : t->dims[d];
}

void ls_gpu_cumsum(const ls_kernel_args *a) /* x -> y, which may have x's memory */
{
    char before[64];
    const ls_cumsum_attrs *o = a->attrs;
    cumsum_args k = { .in = ls_gpu_at(a->in[0].data),
                      .out = ls_gpu_at(a->out[0].data),
                      .n = a->in[0].type.dims[o->dim],
                      .reverse = (i32)o->reverse };
    int64_t outer, inner;
    along(&a->in[0].type, o->dim, &outer, &inner);
    k.outer = outer;
    k.inner = inner;
    /* a block for each column, if threads for columns would be few, or would read what lies apart */
    const bool rows = inner == 1 ? k.n >= 32 : outer * inner < 2048 && k.n >= SIZE;
    ls_gpu_run(a->queue,
               &(ls_gpu_launch){ .file = "cumsum.cu",
                                 .function = rows ? "rows" : "columns",
                                 .before = before_of(before, &a->in[0]),
                                 .blocks = rows ? outer * inner : ls_gpu_blocks(outer * inner, SIZE),
                                 .args = &k,
                                 .bytes = sizeof k });
}

static bool of_slices(const ls_kernel_args *a) { return a->in[1].type.ndim == 1 && a->out[0].type.ndim > 1; }

/* Numbers for elements are added to f32 in memory. */
size_t ls_gpu_scatter_add_workspace(const ls_kernel_args *a)
{
    return of_slices(a) || a->out[0].type.dtype == LS_F32
               ? 0
               : sizeof(float) * (size_t)ls_gpu_count(&a->out[0].type);
}

void ls_gpu_scatter_add(const ls_kernel_args *a) /* x, index -> y */
{
    char before[64];
    const ls_tensor *in = &a->in[0], *out = &a->out[0];
    const int64_t dim = ((const ls_index_attrs *)a->attrs)->dim;
    const bool slices = of_slices(a);
    ls_tensor sums = *out;
    scatter_args k = { .in = ls_gpu_at(in->data),
                       .index = ls_gpu_at(a->in[1].data),
                       .n = in->type.dims[dim],
                       .size = out->type.dims[dim] };
    int64_t outer, inner;
    along(&in->type, dim, &outer, &inner);
    k.outer = outer;
    k.inner = inner;
    if (!slices) {
        sums.type.dtype = LS_F32;
        sums.data = out->type.dtype == LS_F32 ? out->data : a->workspace;
        ls_gpu_fill(a->queue, sums.data, 0, (size_t)ls_type_bytes(&sums.type));
    }
    k.out = ls_gpu_at(sums.data);
    const int64_t warps = outer * k.size * ls_gpu_blocks(inner, 32 * 8);
    ls_gpu_run(a->queue, &(ls_gpu_launch){ .file = "scatter.cu",
                                           .function = slices ? "slices" : "elements",
                                           .before = before_of(before, in),
                                           .blocks = slices ? ls_gpu_blocks(warps, 8)
                                                            : ls_gpu_blocks(outer * inner, SIZE),
                                           .args = &k,
                                           .bytes = sizeof k });
    if (sums.data != out->data)
        ls_gpu_elementwise(a->queue, LS_GPU_FLOATS, 1, &sums, out, "", 0);
}
