/* grouped_linear.c - rows of products of the experts. The tile is chosen as if all groups had as many rows,
 * so it is a function of shapes; no bit depends on it. */
#include "grouped_linear.h"
#include "graph/tensor_attrs.h"
#include "kernels/grouped_linear.h"
#include "rows_of.h"
#include "tiles.h"

enum { X, OFFSETS, WEIGHTS };
enum { NONE_BLOCKS = 64 };

static void grouped_launch(const ls_gpu_product *p, const ls_gpu_tile *t, const char *function,
                           int64_t blocks, const void *args, size_t bytes)
{
    char before[LS_GPU_TILE_TEXT];
    ls_gpu_tile_text(before, p, t);
    ls_gpu_run(p->queue, &(ls_gpu_launch){ "grouped_linear.cu", function, before, blocks, args, bytes });
}

static bool rows_are_whole(const ls_gpu_product *p)
{
    return p->k.y % 16 == 0 && p->k.ld_y * (int64_t)ls_dtype_size(p->type) % 16 == 0;
}

static ls_gpu_product grouped_product(const ls_kernel_args *a, ls_gpu_way way)
{
    return (ls_gpu_product){ .queue = a->queue,
                             .arch = a->arch,
                             .type = a->in[0].type.dtype,
                             .way = a->in[0].type.dtype == LS_F32 ? way : LS_GPU_MMA,
                             .batch = 1,
                             .k = { .left = ls_gpu_at(a->in[0].data),
                                    .y = ls_gpu_at(a->out[0].data),
                                    .ld_left = row_stride_of(&a->in[0]),
                                    .ld_y = row_stride_of(&a->out[0]),
                                    .parts = 1 } };
}

/* x, offsets, weights -> y; `turned`: weights are [n][k] */
static void rows_by_groups(const ls_kernel_args *a, ls_gpu_way way, bool turned)
{
    const int64_t groups = a->n_in - WEIGHTS, rows = a->in[X].type.dims[0];
    ls_gpu_product p = grouped_product(a, way);
    p.left_along_k = true;
    p.right_along_k = turned;
    p.k.m = rows;
    p.k.k = a->in[X].type.dims[1];
    p.k.n = a->out[0].type.dims[1];
    p.k.ld_right = a->in[WEIGHTS].type.dims[1];
    for (int g = 0; g < groups; g++) /* only for what they have in common: whether rows have whole words */
        p.k.right |= ls_gpu_at(a->in[WEIGHTS + g].data);
    const ls_gpu_tile *t = ls_gpu_tile_for(&p, ls_gpu_blocks(rows, groups), p.k.n, groups,
                                           ls_gpu_product_whole(&p));
    grouped_args k = { .x = p.k.left,
                       .offsets = ls_gpu_at(a->in[OFFSETS].data),
                       .y = p.k.y,
                       .rows = rows,
                       .n = p.k.n,
                       .k = p.k.k,
                       .ld_x = p.k.ld_left,
                       .ld_weight = p.k.ld_right,
                       .ld_y = p.k.ld_y,
                       .tiles_n = ls_gpu_blocks(p.k.n, t->n),
                       .whole = rows_are_whole(&p) };
    for (; k.first < groups; k.first += k.groups) {
        k.groups = (i32)(groups - k.first < GROUPED_MOST ? groups - k.first : GROUPED_MOST);
        for (int g = 0; g < k.groups; g++)
            k.weights[g] = ls_gpu_at(a->in[WEIGHTS + k.first + g].data);
        grouped_launch(&p, t, "grouped_rows", (rows / t->m + k.groups) * k.tiles_n, &k, sizeof k);
    }
    const grouped_none_args none = { k.offsets, k.y, rows, k.n, k.ld_y, (i32)groups };
    grouped_launch(&p, t, "grouped_none", NONE_BLOCKS, &none, sizeof none);
}

/* dy, x, offsets -> dw */
static void dw_of_group(const ls_kernel_args *a, ls_gpu_way way)
{
    const int64_t rows = a->in[0].type.dims[0];
    ls_gpu_product p = grouped_product(a, way);
    p.k.right = ls_gpu_at(a->in[1].data);
    p.k.ld_right = row_stride_of(&a->in[1]);
    p.k.m = a->out[0].type.dims[0];
    p.k.n = a->out[0].type.dims[1];
    p.k.k = rows;
    const ls_gpu_tile *t = ls_gpu_tile_for(&p, p.k.m, p.k.n, 1, ls_gpu_product_whole(&p));
    const grouped_dw_args k = { .dy = p.k.left,
                                .x = p.k.right,
                                .offsets = ls_gpu_at(a->in[2].data),
                                .dw = p.k.y,
                                .rows = rows,
                                .m = p.k.m,
                                .n = p.k.n,
                                .ld_dy = p.k.ld_left,
                                .ld_x = p.k.ld_right,
                                .ld_dw = p.k.ld_y,
                                .tiles_m = ls_gpu_blocks(p.k.m, t->m),
                                .tiles_n = ls_gpu_blocks(p.k.n, t->n),
                                .group = (i32)((const ls_group_attrs *)a->attrs)->n,
                                .whole = rows_are_whole(&p) };
    grouped_launch(&p, t, "grouped_dw", k.tiles_m * k.tiles_n, &k, sizeof k);
}

void ls_gpu_grouped_linear(const ls_kernel_args *a) { rows_by_groups(a, LS_GPU_FMA, true); }
void ls_gpu_grouped_linear_dx(const ls_kernel_args *a) { rows_by_groups(a, LS_GPU_FMA, false); }
void ls_gpu_grouped_linear_dw(const ls_kernel_args *a) { dw_of_group(a, LS_GPU_FMA); }
void ls_gpu_grouped_linear_tf32(const ls_kernel_args *a) { rows_by_groups(a, LS_GPU_TF32, true); }
void ls_gpu_grouped_linear_dx_tf32(const ls_kernel_args *a) { rows_by_groups(a, LS_GPU_TF32, false); }
void ls_gpu_grouped_linear_dw_tf32(const ls_kernel_args *a) { dw_of_group(a, LS_GPU_TF32); }
