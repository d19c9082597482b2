/* muon.c - the row of Muon: Newton and Schulz's iteration with the matrix products of linear (x w^T) and
 * linear_dx (x w), in f32. */
#include <string.h>

#include "graph/update_attrs.h"
#include "kernels/muon.h"
#include "update_rows.h"

enum { BY_ROWS, BY_COLUMNS }; /* x [m, k] times w: [n, k] transposed, or [k, n] */

/* out [m, n] = x [m, k] w. Returns the bytes of scratch memory; out 0: nothing else is done. */
static size_t gpu_muon_product(const ls_kernel_args *a, int how, gpu_address out, gpu_address x,
                               gpu_address w, int64_t m, int64_t k, int64_t n, gpu_address scratch)
{
    const ls_type shapes[] = { LS_TYPE(LS_F32, m, k),
                               how == BY_ROWS ? LS_TYPE(LS_F32, n, k) : LS_TYPE(LS_F32, k, n),
                               { .ndim = -1 },
                               { .ndim = -1 } },
                  shape = LS_TYPE(LS_F32, m, n);
    ls_tensor in[4], y = ls_tensor_of((void *)(uintptr_t)out, &shape);
    const gpu_address data[4] = { x, w, 0, 0 };
    for (int i = 0; i < 4; i++)
        in[i] = ls_tensor_of((void *)(uintptr_t)data[i], &shapes[i]);
    const ls_linear_attrs attrs = { LS_ACT_NONE };
    const ls_kernel_args args = { .n_in = 2,
                                  .n_out = 1,
                                  .in = in,
                                  .out = &y,
                                  .attrs = &attrs,
                                  .workspace = (void *)(uintptr_t)scratch,
                                  .threads = a->threads,
                                  .arch = a->arch,
                                  .queue = a->queue };
    const ls_kernel *row = ls_gpu_products;
    while (strcmp(row->op, how == BY_ROWS ? "linear" : "linear_dx") != 0 ||
           (row->supports && row->supports(&args)))
        row++;
    if (out)
        row->run(&args);
    return row->workspace ? row->workspace(&args) : 0;
}

typedef struct room {
    int64_t m, n; /* the matrix lying: m <= n */
    gpu_address x, y, gram, square, parts, factor, scratch;
    size_t bytes;
} room;

static room room_of(const ls_kernel_args *a)
{
    const ls_muon_attrs *o = a->attrs;
    const int64_t m = o->rows < o->cols ? o->rows : o->cols, n = o->rows + o->cols - m;
    const size_t matrix = ls_gpu_room(m * n, sizeof(float)), square = ls_gpu_room(m * m, sizeof(float));
    room r = { .m = m, .n = n };
    r.x = ls_gpu_at(a->workspace);
    r.y = r.x + matrix;
    r.gram = r.y + matrix;
    r.square = r.gram + square;
    r.parts = r.square + square;
    r.factor = r.parts + ls_gpu_room(ls_gpu_blocks(m * n, MUON_EACH), sizeof(double));
    r.scratch = r.factor + ls_gpu_room(1, sizeof(float));
    const size_t bytes[] = { gpu_muon_product(a, BY_ROWS, 0, 0, 0, m, n, m, 0),
                             gpu_muon_product(a, BY_ROWS, 0, 0, 0, m, m, m, 0),
                             gpu_muon_product(a, BY_COLUMNS, 0, 0, 0, m, m, n, 0) };
    size_t most = 0;
    for (int i = 0; i < 3; i++)
        most = bytes[i] > most ? bytes[i] : most;
    r.bytes = (size_t)(r.scratch - r.x) + most;
    return r;
}

size_t ls_gpu_muon_room(const ls_kernel_args *a) { return room_of(a).bytes; }

static void gpu_muon_launch(const ls_kernel_args *a, const char *function, int64_t blocks, const void *args,
                            size_t bytes)
{
    ls_gpu_run(a->queue,
               &(ls_gpu_launch){
                   .file = "muon.cu", .function = function, .blocks = blocks, .args = args, .bytes = bytes });
}

/* out = s x + t y, all of n numbers */
static void sum(const ls_kernel_args *a, int64_t n, gpu_address out, double s, gpu_address x, double t,
                gpu_address y)
{
    const muon_sum_args k = { out, x, y, n, (float)s, (float)t };
    gpu_muon_launch(a, "muon_sum", ls_gpu_blocks(n, MUON_EACH), &k, sizeof k);
}

void ls_gpu_muon(const ls_kernel_args *a)
{ /* p, u, lr, apply? -> p */
    const ls_muon_attrs *o = a->attrs;
    const room r = room_of(a);
    const int64_t m = r.m, n = r.n, tiles = ls_gpu_blocks(m, MUON_TILE) * ls_gpu_blocks(n, MUON_TILE);
    muon_end_args end = { .x = r.x,
                          .lr = ls_gpu_input(a, 2),
                          .apply = ls_gpu_input(a, 3),
                          .m = m,
                          .n = n,
                          .weight_decay = o->weight_decay,
                          .ratio = o->ratio,
                          .high = o->rows > o->cols };
    if (!ls_gpu_update_part(a, o->offset, o->first, m * n, &end.from, &end.to))
        return;
    end.p = ls_gpu_at(a->out[0].data) + (gpu_address)((o->offset - o->first) * (int64_t)sizeof(float));
    const muon_begin_args begin = { .u = ls_gpu_input(a, 1) + (gpu_address)o->offset * sizeof(float),
                                    .x = r.x,
                                    .parts = r.parts,
                                    .factor = r.factor,
                                    .m = m,
                                    .n = n,
                                    .blocks = ls_gpu_blocks(m * n, MUON_EACH),
                                    .eps = LS_MUON_EPS,
                                    .high = end.high };
    gpu_muon_launch(a, "muon_squares", begin.blocks, &begin, sizeof begin);
    gpu_muon_launch(a, "muon_norm", 1, &begin, sizeof begin);
    gpu_muon_launch(a, "muon_begin", tiles, &begin, sizeof begin);
    for (int step = 0; step < LS_MUON_STEPS; step++) { /* gram and its square are symmetric */
        gpu_muon_product(a, BY_ROWS, r.gram, r.x, r.x, m, n, m, r.scratch);
        gpu_muon_product(a, BY_ROWS, r.square, r.gram, r.gram, m, m, m, r.scratch);
        sum(a, m * m, r.gram, LS_MUON_B, r.gram, LS_MUON_C, r.square);
        gpu_muon_product(a, BY_COLUMNS, r.y, r.gram, r.x, m, m, n, r.scratch);
        sum(a, m * n, r.x, LS_MUON_A, r.x, 1, r.y);
    }
    gpu_muon_launch(a, "muon_end", tiles, &end, sizeof end);
}
