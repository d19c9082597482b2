/* tokens.c - rows of kernels for what models of text begin with: embeddings, rotations, and T5's bias by
 * distance. */
#include <math.h>

#include "device/position.h"
#include "gpu.h"
#include "kernels/tokens.h"
#include "rows_of.h"
#include "sort.h"

static void gpu_tokens_launch(const ls_kernel_args *a, const char *file, const char *function,
                              const char *before, int64_t blocks, const void *args, size_t bytes)
{
    ls_gpu_run(a->queue, &(ls_gpu_launch){ file, function, before, blocks, args, bytes });
}

/* ---- embedding */

static void run_embedding(const ls_kernel_args *a)
{ /* ids, table -> y */
    const ls_tensor *table = &a->in[1], *y = &a->out[0];
    const int64_t size = (int64_t)ls_dtype_size(table->type.dtype), bytes = table->type.dims[1] * size;
    const int64_t word = rows_word(table) == 16 && rows_word(y) == 16 ? 16 : size;
    embedding_args k = { .ids = ls_gpu_at(a->in[0].data),
                         .table = ls_gpu_at(table->data),
                         .y = ls_gpu_at(y->data),
                         .n = ls_gpu_count(&a->in[0].type),
                         .rows = table->type.dims[0],
                         .first = ls_at_start(a, 0),
                         .whole = ls_at_whole(a, 0, table->type.dims[0]),
                         .words = bytes / word,
                         .table_words = row_stride_of(table) * size / word,
                         .y_words = row_stride_of(y) * size / word,
                         .nan = table->type.dtype == LS_F32    ? 0x7fc00000
                                : table->type.dtype == LS_BF16 ? 0x7fc07fc0
                                                               : 0x7e007e00 };
    gpu_tokens_launch(a, "tokens.cu", "embedding",
                      word == 16  ? "#define WORD word16\n"
                      : word == 4 ? "#define WORD u32\n"
                                  : "#define WORD u16\n",
                      ls_gpu_blocks(k.n, TOKEN_THREADS / 32), &k, sizeof k);
}

/* The places of the workspace; returns its size. */
typedef struct grad_room {
    size_t rows[2], places[2], counts, bounds, parts;
} grad_room;
static size_t gpu_tokens_take(size_t *end, int64_t bytes)
{
    const size_t here = *end;
    *end += ((size_t)bytes + 63) / 64 * 64;
    return here;
}
static size_t gpu_tokens_lay_out(const ls_kernel_args *a, grad_room *r)
{
    const int64_t n = ls_gpu_count(&a->in[1].type), rows = a->out[0].type.dims[0], k = a->out[0].type.dims[1];
    size_t end = 0;
    for (int i = 0; i < 2; i++) {
        r->rows[i] = gpu_tokens_take(&end, n * 4);
        r->places[i] = gpu_tokens_take(&end, n * 4);
    }
    r->counts = gpu_tokens_take(&end, ls_gpu_sort_counts(n));
    r->bounds = gpu_tokens_take(&end, rows * 8);
    r->parts = gpu_tokens_take(&end, (n / SUM_SLOT + 1) * k * 4);
    return end;
}
static size_t embedding_grad_workspace(const ls_kernel_args *a)
{
    grad_room r;
    return gpu_tokens_lay_out(a, &r);
}

static void run_embedding_grad(const ls_kernel_args *a)
{ /* dy, ids, addend? -> dtable */
    const ls_tensor *dy = &a->in[0], *out = &a->out[0];
    const bool adds = a->n_in > 2 && ls_gpu_present(&a->in[2]);
    grad_room r;
    gpu_tokens_lay_out(a, &r);
    const gpu_address room = ls_gpu_at(a->workspace);
    embedding_grad_args k = { .dy = ls_gpu_at(dy->data),
                              .addend = adds ? ls_gpu_at(a->in[2].data) : 0,
                              .dtable = ls_gpu_at(out->data),
                              .starts = room + r.bounds,
                              .ends = room + r.bounds + (gpu_address)out->type.dims[0] * 4,
                              .parts = room + r.parts,
                              .n = ls_gpu_count(&a->in[1].type),
                              .rows = out->type.dims[0],
                              .k = out->type.dims[1],
                              .dy_row = row_stride_of(dy) };
    ls_gpu_sort_run(a->queue, &(ls_gpu_sort){ .ids = ls_gpu_at(a->in[1].data),
                                              .n = k.n,
                                              .rows = k.rows,
                                              .first = ls_at_start(a, 0),
                                              .list_rows = { room + r.rows[0], room + r.rows[1] },
                                              .list_places = { room + r.places[0], room + r.places[1] },
                                              .counts = room + r.counts });
    const int list = ls_gpu_sort_result(k.rows);
    k.sorted = room + r.rows[list];
    k.places = room + r.places[list];
    ls_gpu_fill(a->queue, (char *)a->workspace + r.bounds, 0, (size_t)k.rows * 8);
    char before[64];
    snprintf(before, sizeof before, "#define X %s\n#define VECTOR %d\n", ls_gpu_type(out),
             rows_word(dy) == 16 && rows_word(out) == 16 && (!adds || rows_word(&a->in[2]) == 16));
    gpu_tokens_launch(a, "embedding_grad.cu", "sum_bounds", before, ls_gpu_blocks(k.n, SUM_THREADS), &k,
                      sizeof k);
    gpu_tokens_launch(a, "embedding_grad.cu", "sum_parts", before, ls_gpu_blocks(k.n, SUM_THREADS / 32), &k,
                      sizeof k);
    gpu_tokens_launch(a, "embedding_grad.cu", "sum_rows", before, ls_gpu_blocks(k.rows, SUM_THREADS / 32), &k,
                      sizeof k);
}

static const char *embedding_grad_supports(const ls_kernel_args *a)
{
    return ls_gpu_count(&a->in[1].type) > INT32_MAX ? "more than 2^31 - 1 ids" : ls_gpu_no_f64(a);
}

/* ---- positions */

static void run_rope(const ls_kernel_args *a)
{ /* x, positions? -> y */
    const ls_rope_attrs *of = a->attrs;
    const ls_tensor *x = &a->in[0], *y = &a->out[0];
    const int64_t half = of->head_dim / 2, wide = 16 / (int64_t)ls_dtype_size(x->type.dtype);
    rope_args k = { .x = ls_gpu_at(x->data),
                    .positions = a->n_in > 1 && ls_gpu_present(&a->in[1]) ? ls_gpu_at(a->in[1].data) : 0,
                    .y = ls_gpu_at(y->data),
                    .rows = x->type.dims[0] * x->type.dims[1],
                    .tokens = x->type.dims[1],
                    .first_token = ls_at_start(a, 1),
                    .heads = x->type.dims[2] / of->head_dim,
                    .x_row = row_stride_of(x),
                    .y_row = row_stride_of(y),
                    .half = (i32)half,
                    .inverse = of->inverse != 0 };
    char before[64];
    snprintf(before, sizeof before, "#define X %s\n#define VECTOR %d\n", ls_gpu_type(x),
             half % wide == 0 && rows_word(x) == 16 && rows_word(y) == 16);
    for (; k.first < half; k.first += ROPE_PAIRS) {
        k.pairs = (i32)(half - k.first < ROPE_PAIRS ? half - k.first : ROPE_PAIRS);
        for (int i = 0; i < k.pairs; i++)
            k.frequency[i] = ls_rope_frequency(of, k.first + i);
        gpu_tokens_launch(a, "tokens.cu", "rope", before, ls_gpu_blocks(k.rows, TOKEN_THREADS / k.pairs), &k,
                          sizeof k);
    }
}

static void run_shift_right(const ls_kernel_args *a)
{ /* ids -> y */
    const ls_shift_attrs *of = a->attrs;
    const ls_type *t = &a->in[0].type;
    const shift_args k = { .ids = ls_gpu_at(a->in[0].data),
                           .y = ls_gpu_at(a->out[0].data),
                           .n = ls_gpu_count(t),
                           .tokens = t->dims[t->ndim - 1],
                           .start = (i32)of->start,
                           .pad = (i32)of->pad };
    gpu_tokens_launch(a, "tokens.cu", "shift_right", "#define X f32\n#define VECTOR 0\n",
                      ls_gpu_blocks(k.n, TOKEN_THREADS), &k, sizeof k);
}

/* Where the far buckets begin: buckets never fall with the distance. */
static position_args positions_of(const ls_position_bias_attrs *of, int64_t heads)
{
    position_args k = { .heads = heads,
                        .distances = of->queries + of->keys - 1,
                        .queries = of->queries,
                        .buckets = of->buckets,
                        .both = of->both != 0 };
    k.half = (i32)(of->both ? of->buckets / 2 : of->buckets);
    k.exact = k.half / 2;
    k.n_far = k.half - k.exact - 1;
    for (int i = 0; i < k.n_far; i++) {
        int64_t low = k.exact, high = INT32_MAX; /* the bucket is reached behind low, at high or before */
        while (high - low > 1) {
            const int64_t middle = (low + high) / 2;
            *(ls_position_bucket(of, -middle) > k.exact + i ? &high : &low) = middle;
        }
        k.far[i] = (i32)high;
    }
    return k;
}

static void run_position_bias(const ls_kernel_args *a)
{ /* table -> y */
    position_args k = positions_of(a->attrs, a->in[0].type.dims[1]);
    k.table = ls_gpu_at(a->in[0].data);
    k.y = ls_gpu_at(a->out[0].data);
    char before[64];
    snprintf(before, sizeof before, "#define X %s\n#define VECTOR 0\n", ls_gpu_type(&a->in[0]));
    gpu_tokens_launch(a, "tokens.cu", "position_bias", before,
                      ls_gpu_blocks(k.heads * k.distances, TOKEN_THREADS), &k, sizeof k);
}

static void run_position_bias_grad(const ls_kernel_args *a)
{ /* dy -> dtable */
    position_args k = positions_of(a->attrs, a->in[0].type.dims[0]);
    k.dy = ls_gpu_at(a->in[0].data);
    k.dtable = ls_gpu_at(a->out[0].data);
    char before[64];
    snprintf(before, sizeof before, "#define X %s\n#define VECTOR 0\n", ls_gpu_type(&a->in[0]));
    gpu_tokens_launch(a, "tokens.cu", "position_bias_grad", before,
                      ls_gpu_blocks(k.heads * k.buckets, TOKEN_THREADS / 32), &k, sizeof k);
}

static const char *positions_support(const ls_kernel_args *a)
{
    const ls_position_bias_attrs *of = a->attrs;
    return of->buckets > FAR_BUCKETS            ? "more than 512 buckets of distances"
           : of->queries + of->keys > (1 << 30) ? "more than 2^30 distances"
                                                : ls_gpu_no_f64(a);
}

const ls_kernel ls_gpu_tokens[] = {
    { .op = "embedding",
      .run = run_embedding,
      .supports = ls_gpu_no_f64,
      .rows_in = LS_OPERAND(1),
      .rows_out = LS_OPERAND(0) },
    { .op = "embedding_grad",
      .run = run_embedding_grad,
      .workspace = embedding_grad_workspace,
      .supports = embedding_grad_supports,
      .rows_in = LS_OPERAND(0) },
    { .op = "rope",
      .run = run_rope,
      .supports = ls_gpu_no_f64,
      .rows_in = LS_OPERAND(0),
      .rows_out = LS_OPERAND(0) },
    { .op = "shift_right", .run = run_shift_right },
    { .op = "position_bias", .run = run_position_bias, .supports = positions_support },
    { .op = "position_bias_grad", .run = run_position_bias_grad, .supports = positions_support },
    { 0 },
};
