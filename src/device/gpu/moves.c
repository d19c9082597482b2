/* moves.c - rows of ops that move elements of any type on GPUs: fill, copy, permute, pack, broadcast_to and
 * gather. Those that sum elements are in sums.c. */
#include "moves.h"
#include <math.h>
#include <string.h>

#include "base/bf16.h"
#include "elementwise.h"
#include "graph/tensor_attrs.h"
#include "kernels/moves.h"
#include "shapes.h"

enum { THREADS = 256, TILE = 32 };

/* ---- fill */

/* as f16_of_float of the kernels (dialect.h) */
static uint16_t f16_of(float x)
{
    uint32_t sum;
    const float size = fabsf(x), half = size + 0.5f; /* the addition rounds to multiples of 2^-24 */
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    if (isnan(x))
        return sign | 0x7e00;
    if (size >= 65520.0f)
        return sign | 0x7c00;
    memcpy(&sum, size < 0x1p-14f ? &half : &size, sizeof sum);
    if (size < 0x1p-14f)
        return (uint16_t)(sign | (sum - 0x3f000000u));
    return (uint16_t)(sign | (sum - 0x38000000u + 0xfff + (sum >> 13 & 1)) >> 13);
}

/* An element of the type, repeated in 8 bytes. */
static uint64_t pattern_of(ls_dtype t, double value)
{
    uint64_t pattern = 0;
    size_t size = ls_dtype_size(t);
    const float f = (float)value;
    switch (t) {
    case LS_F64: memcpy(&pattern, &value, 8); break;
    case LS_I64: pattern = (uint64_t)(int64_t)value; break;
    case LS_I32: pattern = (uint32_t)(int32_t)value; break;
    case LS_U8: pattern = (uint8_t)(int)value; break;
    case LS_BF16: pattern = ls_to_bf16(f); break;
    case LS_F16: pattern = f16_of(f); break;
    default: memcpy(&pattern, &f, 4); break;
    }
    for (; size < 8; size *= 2)
        pattern |= pattern << 8 * size;
    return pattern;
}

static void gpu_moves_fill(struct ls_queue *q, void *to, int64_t bytes, uint64_t pattern)
{
    const uint64_t byte = (pattern & 0xff) * UINT64_C(0x0101010101010101);
    if (!bytes)
        return;
    if (pattern == byte) {
        ls_gpu_fill(q, to, (int)(pattern & 0xff), (size_t)bytes);
        return;
    }
    const fill_args k = { .out = ls_gpu_at(to), .bytes = bytes, .pattern = pattern };
    ls_gpu_run(q, &(ls_gpu_launch){ .file = "moves.cu",
                                    .function = "fill",
                                    .blocks = ls_gpu_blocks(bytes + 8, 8 * THREADS),
                                    .args = &k,
                                    .bytes = sizeof k });
}

static void run_fill(const ls_kernel_args *a)
{
    const ls_tensor *out = &a->out[0];
    gpu_moves_fill(a->queue, out->data, (int64_t)ls_type_bytes(&out->type),
                   pattern_of(out->type.dtype, ((const ls_fill_attrs *)a->attrs)->value));
}

/* ---- copy, broadcast_to, permute: an input of any strides to a contiguous output */

/* Dimension t is contiguous in the input, and the last one in the output. */
static void turn(struct ls_queue *q, const ls_tensor *in, const ls_tensor *out, const ls_gpu_dims *d, int t)
{
    const int last = d->ndim - 1;
    int64_t out_strides[LS_MAX_DIMS], others[LS_MAX_DIMS], blocks = 1;
    int n = 0;
    out_strides[last] = 1;
    for (int i = last; i > 0; i--)
        out_strides[i - 1] = out_strides[i] * d->size[i];
    turn_args k = { .in = ls_gpu_at(in->data),
                    .out = ls_gpu_at(out->data),
                    .in_size = d->size[t],
                    .out_size = d->size[last],
                    .in_stride = d->strides[0][last],
                    .out_stride = out_strides[t],
                    .in_tiles = ls_gpu_blocks(d->size[t], TILE),
                    .out_tiles = ls_gpu_blocks(d->size[last], TILE) };
    for (int i = 0; i < last; i++)
        if (i != t) {
            others[n] = d->size[i];
            k.others_in[n] = d->strides[0][i];
            k.others_out[n++] = out_strides[i];
            blocks *= d->size[i];
        }
    k.others = ls_gpu_shape(n, others);
    static const char *const TYPE[] = {
        [1] = "#define T u8\n", [2] = "#define T u16\n", [4] = "#define T u32\n", [8] = "#define T u64\n"
    };
    ls_gpu_run(q, &(ls_gpu_launch){ .file = "turn.cu",
                                    .function = "turn",
                                    .before = TYPE[ls_dtype_size(in->type.dtype)],
                                    .blocks = blocks * k.in_tiles * k.out_tiles,
                                    .args = &k,
                                    .bytes = sizeof k });
}

/* in: with the output's dimensions, to which it may be broadcast. */
static void move(struct ls_queue *q, const ls_tensor *in, const ls_tensor *out)
{
    ls_gpu_dims d;
    if (!ls_gpu_count(&out->type))
        return;
    ls_gpu_dims_broadcast(&d, &out->type, 1, in);
    const int last = d.ndim - 1;
    if (last == 0 && d.strides[0][0] == 1) {
        if (in->data != out->data)
            ls_gpu_copy(q, out->data, in->data, (size_t)ls_type_bytes(&out->type));
        return;
    }
    if (d.strides[0][last] > 1)
        for (int t = 0; t < last; t++)
            if (d.strides[0][t] == 1) {
                turn(q, in, out, &d, t);
                return;
            }
    ls_gpu_elementwise(q, LS_GPU_RAW, 1, in, out, "", 0);
}

static void run_move(const ls_kernel_args *a) { move(a->queue, &a->in[0], &a->out[0]); }

static void run_permute(const ls_kernel_args *a)
{
    const ls_permute_attrs *o = a->attrs;
    ls_tensor turned = a->in[0];
    for (int d = 0; d < turned.type.ndim; d++) {
        turned.type.dims[d] = a->in[0].type.dims[o->perm.v[d]];
        turned.strides[d] = a->in[0].strides[o->perm.v[d]];
    }
    move(a->queue, &turned, &a->out[0]);
}

/* ---- rows of bytes */

/* The largest unit of copies for which all of these are multiples. */
static int unit_of(uint64_t all)
{
    int unit = 16;
    while (all % (uint64_t)unit)
        unit /= 2;
    return unit;
}

/* Copies `rows` rows, or writes zeros (from NULL); both are `row` bytes of a longer one. */
static void gpu_moves_put(struct ls_queue *q, char *to, int64_t to_row, const char *from, int64_t from_row,
                          int64_t rows, int64_t row)
{
    if (!rows || !row)
        return;
    if (rows == 1 || (to_row == row && from_row == row)) {
        if (from)
            ls_gpu_copy(q, to, from, (size_t)(rows * row));
        else
            ls_gpu_fill(q, to, 0, (size_t)(rows * row));
        return;
    }
    const int unit = unit_of((uint64_t)(uintptr_t)to | (uint64_t)(uintptr_t)from | (uint64_t)to_row |
                             (uint64_t)from_row | (uint64_t)row);
    put_args k = { .from = ls_gpu_at(from),
                   .to = ls_gpu_at(to),
                   .from_row = from_row,
                   .to_row = to_row,
                   .unit = unit,
                   .shape = ls_gpu_shape(2, (int64_t[]){ rows, row / unit }) };
    ls_gpu_run(q, &(ls_gpu_launch){ .file = "moves.cu",
                                    .function = "put",
                                    .blocks = ls_gpu_blocks(rows * (row / unit), THREADS),
                                    .args = &k,
                                    .bytes = sizeof k });
}

/* The output as [outer, extent, inner]. Parts are in the order of their starts, and what lies between them is
 * zero. */
static void run_pack(const ls_kernel_args *a)
{
    const ls_pack_attrs *o = a->attrs;
    const ls_type *t = &a->out[0].type;
    int64_t outer = 1, inner = (int64_t)ls_dtype_size(t->dtype), covered = 0;
    for (int d = 0; d < t->ndim; d++)
        *(d < o->dim ? &outer : &inner) *= d == o->dim ? 1 : t->dims[d];
    char *out = a->out[0].data;
    const int64_t row = t->dims[o->dim] * inner;
    for (int i = 0; i < a->n_in; i++) {
        const int64_t start = o->starts.v[i] * inner, bytes = a->in[i].type.dims[o->dim] * inner;
        gpu_moves_put(a->queue, out + covered, row, NULL, row, outer, start - covered);
        if (a->in[i].data != out + start) /* (else the part was computed in place) */
            gpu_moves_put(a->queue, out + start, row, a->in[i].data, bytes, outer, bytes);
        covered = start + bytes;
    }
    gpu_moves_put(a->queue, out + covered, row, NULL, row, outer, row - covered);
}

static void run_gather(const ls_kernel_args *a) /* a, index -> y */
{
    const ls_type *whole = &a->in[0].type;
    const int64_t dim = ((const ls_index_attrs *)a->attrs)->dim, size = (int64_t)ls_dtype_size(whole->dtype);
    int64_t outer = 1, inner = size;
    for (int d = 0; d < whole->ndim; d++)
        *(d < dim ? &outer : &inner) *= d == dim ? 1 : whole->dims[d];
    const bool slices = a->in[1].type.ndim == 1 && whole->ndim > 1;
    const int unit = slices ? unit_of((uint64_t)(uintptr_t)a->in[0].data |
                                      (uint64_t)(uintptr_t)a->out[0].data | (uint64_t)inner)
                            : (int)size;
    const int64_t n = a->out[0].type.dims[dim], units = inner / unit;
    gather_args k = { .from = ls_gpu_at(a->in[0].data),
                      .index = ls_gpu_at(a->in[1].data),
                      .to = ls_gpu_at(a->out[0].data),
                      .size = whole->dims[dim],
                      .nan = pattern_of(whole->dtype, (double)NAN),
                      .unit = unit,
                      .slices = slices,
                      .shape = ls_gpu_shape(3, (int64_t[]){ outer, n, units }) };
    ls_gpu_run(a->queue, &(ls_gpu_launch){ .file = "moves.cu",
                                           .function = "gather",
                                           .blocks = ls_gpu_blocks(outer * n * units, THREADS),
                                           .args = &k,
                                           .bytes = sizeof k });
}

const ls_kernel ls_gpu_moves[] = {
    { .op = "fill", .run = run_fill },
    { .op = "pack", .run = run_pack },
    { .op = "copy", .run = run_move, .any_in = LS_OPERAND(0) },
    { .op = "broadcast_to", .run = run_move, .any_in = LS_OPERAND(0) },
    { .op = "permute", .run = run_permute, .any_in = LS_OPERAND(0) },
    { .op = "gather", .run = run_gather, .supports = ls_gpu_no_f64 },
    { .op = "sum_to", .run = ls_gpu_sum_to, .workspace = ls_gpu_sum_to_workspace, .supports = ls_gpu_no_f64 },
    { .op = "max_to", .run = ls_gpu_max_to, .workspace = ls_gpu_sum_to_workspace, .supports = ls_gpu_no_f64 },
    { .op = "cumsum", .run = ls_gpu_cumsum, .supports = ls_gpu_no_f64 },
    { .op = "scatter_add",
      .run = ls_gpu_scatter_add,
      .workspace = ls_gpu_scatter_add_workspace,
      .supports = ls_gpu_no_f64 },
    { 0 },
};
