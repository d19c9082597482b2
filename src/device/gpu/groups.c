/* groups.c - rows of kernels for tokens that go to experts: top_k, group_order, received_groups,
 * dispatch, combine. */
#include "kernels/groups.h"
#include "graph/tensor_attrs.h"
#include "rows_of.h"
#include "sort.h"

static void groups_launch(const ls_kernel_args *a, const char *function, const char *before, int64_t blocks,
                          const void *args, size_t bytes)
{
    ls_gpu_run(a->queue, &(ls_gpu_launch){ "groups.cu", function, before, blocks, args, bytes });
}

static void run_top_k(const ls_kernel_args *a) /* x -> values, numbers */
{
    const ls_type *t = &a->in[0].type;
    const top_k_args k = { .x = ls_gpu_at(a->in[0].data),
                           .values = ls_gpu_at(a->out[0].data),
                           .numbers = ls_gpu_at(a->out[1].data),
                           .rows = ls_type_rows(t),
                           .n = t->dims[t->ndim - 1],
                           .k = ((const ls_top_k_attrs *)a->attrs)->k };
    char before[64];
    snprintf(before, sizeof before, "#define X %s\n#define VECTOR 0\n", ls_gpu_type(&a->in[0]));
    groups_launch(a, "top_k", before, ls_gpu_blocks(k.rows, GROUP_THREADS / 32), &k, sizeof k);
}

static const char *top_k_supports(const ls_kernel_args *a)
{
    const ls_type *t = &a->in[0].type;
    return t->dims[t->ndim - 1] > INT32_MAX ? "more than 2^31 - 1 elements of a row" : ls_gpu_no_f64(a);
}

/* ---- group_order: the sort's places are the order */

typedef struct order_room {
    size_t rows[2], other, counts, bytes;
} order_room;

static order_room order_lay_out(const ls_kernel_args *a)
{
    const size_t n = (size_t)ls_gpu_count(&a->in[0].type), list = (n * 4 + 63) / 64 * 64;
    return (order_room){ .rows = { 0, list },
                         .other = 2 * list,
                         .counts = 3 * list,
                         .bytes = 3 * list + (size_t)ls_gpu_sort_counts((int64_t)n) };
}
static size_t group_order_workspace(const ls_kernel_args *a) { return order_lay_out(a).bytes; }

static void run_group_order(const ls_kernel_args *a) /* index -> order, place, offsets */
{
    const order_room r = order_lay_out(a);
    const gpu_address room = ls_gpu_at(a->workspace), order = ls_gpu_at(a->out[0].data);
    ls_gpu_sort s = { .ids = ls_gpu_at(a->in[0].data),
                      .n = ls_gpu_count(&a->in[0].type),
                      .rows = a->out[2].type.dims[0] - 1,
                      .list_rows = { room + r.rows[0], room + r.rows[1] },
                      .counts = room + r.counts };
    const int result = ls_gpu_sort_result(s.rows);
    s.list_places[result] = order;
    s.list_places[!result] = room + r.other;
    ls_gpu_sort_run(a->queue, &s);
    const group_places_args k = { .sorted = s.list_rows[result],
                                  .order = order,
                                  .place = ls_gpu_at(a->out[1].data),
                                  .offsets = ls_gpu_at(a->out[2].data),
                                  .n = s.n,
                                  .groups = s.rows };
    groups_launch(a, "group_places", "#define X f32\n#define VECTOR 0\n", ls_gpu_blocks(s.n, GROUP_THREADS),
                  &k, sizeof k);
}

static void run_received_groups(const ls_kernel_args *a) /* offsets of all ranks -> those here */
{
    const ls_received_attrs *r = a->attrs;
    const int64_t groups = a->out[0].type.dims[0] - 1, own = groups / r->ranks;
    const received_groups_args k = { .begins = ls_gpu_at(a->in[0].data),
                                     .offsets = ls_gpu_at(a->out[0].data),
                                     .ranks = r->ranks,
                                     .groups = groups,
                                     .own = own,
                                     .first = r->position * own };
    groups_launch(a, "received_groups", "#define X f32\n#define VECTOR 0\n",
                  ls_gpu_blocks(groups + 1, GROUP_THREADS), &k, sizeof k);
}

/* ---- dispatch, combine */

static void run_dispatch(const ls_kernel_args *a) /* x, order, place -> y */
{
    const ls_tensor *x = &a->in[0], *y = &a->out[0];
    const int64_t size = (int64_t)ls_dtype_size(x->type.dtype), rows = a->in[1].type.dims[0],
                  bytes = rows ? ls_gpu_count(&y->type) / rows * size : 0;
    const bool whole = ((int64_t)(uintptr_t)x->data | (int64_t)(uintptr_t)y->data | bytes) % 16 == 0;
    const int64_t word = whole ? 16 : size;
    const dispatch_args k = { .x = ls_gpu_at(x->data),
                              .order = ls_gpu_at(a->in[1].data),
                              .y = ls_gpu_at(y->data),
                              .rows = rows,
                              .words = bytes / word,
                              .k = rows / x->type.dims[0],
                              .nan = x->type.dtype == LS_F32    ? 0x7fc00000
                                     : x->type.dtype == LS_BF16 ? 0x7fc07fc0
                                                                : 0x7e007e00 };
    groups_launch(a, "dispatch",
                  whole       ? "#define WORD word16\n"
                  : word == 4 ? "#define WORD u32\n"
                              : "#define WORD u16\n",
                  ls_gpu_blocks(k.rows * k.words, GROUP_THREADS), &k, sizeof k);
}

static void run_combine(const ls_kernel_args *a) /* x, order, place -> y */
{
    const ls_tensor *x = &a->in[0], *y = &a->out[0];
    const int64_t size = (int64_t)ls_dtype_size(x->type.dtype), tokens = y->type.dims[0];
    const combine_args k = { .x = ls_gpu_at(x->data),
                             .place = ls_gpu_at(a->in[2].data),
                             .y = ls_gpu_at(y->data),
                             .rows = x->type.dims[0],
                             .tokens = tokens,
                             .each = ls_gpu_count(&y->type) / tokens,
                             .k = x->type.dims[0] / tokens };
    const bool vector = ((int64_t)(uintptr_t)x->data | (int64_t)(uintptr_t)y->data | k.each * size) % 16 == 0;
    char before[64];
    snprintf(before, sizeof before, "#define X %s\n#define VECTOR %d\n", ls_gpu_type(x), vector);
    groups_launch(a, "combine", before,
                  ls_gpu_blocks(tokens * (vector ? k.each * size / 16 : k.each), GROUP_THREADS), &k,
                  sizeof k);
}

const ls_kernel ls_gpu_groups[] = {
    { .op = "top_k", .run = run_top_k, .supports = top_k_supports },
    { .op = "group_order", .run = run_group_order, .workspace = group_order_workspace },
    { .op = "received_groups", .run = run_received_groups },
    { .op = "dispatch", .run = run_dispatch, .supports = ls_gpu_no_f64 },
    { .op = "combine", .run = run_combine, .supports = ls_gpu_no_f64 },
    { 0 },
};
