/* adafactor.c - the row of Adafactor: a few launches for each parameter. */
#include "graph/update_attrs.h"
#include "kernels/adafactor.h"
#include "update_rows.h"

/* The workspace and its addresses in *k, whose sizes are set. Returns its bytes. */
static size_t gpu_adafactor_lay_out(adafactor_args *k, gpu_address from)
{
    k->sums = from;
    k->columns = k->sums + ls_gpu_room(2 * k->blocks, sizeof(double));
    k->means = k->columns +
               ls_gpu_room(k->batch * ls_gpu_blocks(k->rows, FACTOR_ROWS) * k->cols, sizeof(double));
    k->numbers = k->means + ls_gpu_room(k->batch, sizeof(float));
    return (size_t)(k->numbers + ls_gpu_room(2, sizeof(float)) - from);
}

static adafactor_args sizes_of(const ls_adafactor_attrs *o)
{
    adafactor_args k = { .batch = o->batch, .rows = o->rows, .cols = o->cols };
    k.count = o->batch * o->rows * (o->cols ? o->cols : 1);
    k.blocks = ls_gpu_blocks(k.count, FACTOR_EACH);
    return k;
}

size_t ls_gpu_adafactor_room(const ls_kernel_args *a)
{
    adafactor_args k = sizes_of(a->attrs);
    return gpu_adafactor_lay_out(&k, 0);
}

static void gpu_adafactor_launch(const ls_kernel_args *a, const char *function, int64_t blocks,
                                 const adafactor_args *k)
{
    char before[32];
    snprintf(before, sizeof before, "#define G %s\n", ls_gpu_type(&a->in[1]));
    ls_gpu_run(a->queue, &(ls_gpu_launch){ .file = "adafactor.cu",
                                           .function = function,
                                           .before = before,
                                           .blocks = blocks,
                                           .args = k,
                                           .bytes = sizeof *k });
}

void ls_gpu_adafactor(const ls_kernel_args *a)
{ /* p, g, whole p? (absent: p is whole), row, col?, lr, step, scale?, apply? -> p, row, col? */
    const ls_adafactor_attrs *o = a->attrs;
    adafactor_args k = sizes_of(o);
    gpu_adafactor_lay_out(&k, ls_gpu_at(a->workspace));
    k.p = ls_gpu_at(a->out[0].data) + (gpu_address)((o->offset - o->first) * (int64_t)sizeof(float));
    k.g = ls_gpu_input(a, 1) + (gpu_address)o->offset * ls_dtype_size(a->in[1].type.dtype);
    k.whole = (ls_gpu_input(a, 2) ? ls_gpu_input(a, 2) : ls_gpu_input(a, 0)) +
              (gpu_address)o->offset * sizeof(float);
    k.row = ls_gpu_at(a->out[1].data);
    k.col = o->cols ? ls_gpu_at(a->out[2].data) : 0;
    k.lr = ls_gpu_input(a, 5);
    k.step = ls_gpu_input(a, 6);
    k.scale = ls_gpu_input(a, 7);
    k.apply = ls_gpu_input(a, 8);
    k.clip_threshold = o->clip_threshold;
    k.decay_rate = o->decay_rate;
    k.min_scale = o->min_scale;
    k.weight_decay = o->weight_decay;
    k.eps = LS_ADAFACTOR_EPS;
    k.scale_parameter = o->scale_parameter != 0;
    k.relative_step = o->relative_step != 0;
    k.warmup_init = o->warmup_init != 0;
    if (o->cols) {
        const int64_t across = ls_gpu_blocks(o->cols, FACTOR_THREADS);
        gpu_adafactor_launch(a, "adafactor_rows", o->batch * o->rows, &k);
        gpu_adafactor_launch(a, "adafactor_columns", o->batch * ls_gpu_blocks(o->rows, FACTOR_ROWS) * across,
                             &k);
        gpu_adafactor_launch(a, "adafactor_columns_end", ls_gpu_blocks(o->batch * o->cols, FACTOR_THREADS),
                             &k);
        gpu_adafactor_launch(a, "adafactor_means", o->batch, &k);
    }
    gpu_adafactor_launch(a, "adafactor_squares", k.blocks, &k);
    gpu_adafactor_launch(a, "adafactor_numbers", 1, &k);
    if (ls_gpu_update_part(a, o->offset, o->first, k.count, &k.from, &k.to)) /* moments are every rank's */
        gpu_adafactor_launch(a, "adafactor_end", ls_gpu_blocks(k.to - k.from, FACTOR_EACH), &k);
}
