/* dropout.c - dropout on GPUs, and the key of a step's random numbers: the bits of device/dropout.h. */
#include "dropout.h"
#include "device/dropout.h"
#include "kernels/dropout.h"
#include "shapes.h"

enum { THREADS = 256 };

void ls_gpu_random_key(const ls_kernel_args *a) /* seed, step, places -> key */
{
    const key_args k = { ls_gpu_at(a->in[0].data), ls_gpu_at(a->in[1].data), ls_gpu_at(a->in[2].data),
                         ls_gpu_at(a->out[0].data) };
    ls_gpu_run(a->queue, &(ls_gpu_launch){ .file = "dropout.cu",
                                           .function = "key",
                                           .before = "#define X f32\n",
                                           .blocks = 1,
                                           .args = &k,
                                           .bytes = sizeof k });
}

/* The sample's dimensions, as they are here, with the strides that they have in the whole sample. */
static void place_sample(dropout_args *k, const ls_box *box)
{
    ls_gpu_dims d = { .operands = 1 };
    int64_t strides[LS_MAX_DIMS], size[LS_MAX_DIMS], stride = 1;
    for (int i = box->ndim - 1; i > 0; i--) {
        strides[i] = stride;
        k->start += box->start[i] * stride;
        stride *= box->whole[i];
    }
    for (int i = 1; i < box->ndim; i++)
        ls_gpu_dims_add(&d, box->size[i], &strides[i]);
    size[0] = box->size[0];
    for (int i = 0; i < d.ndim; i++) {
        size[i + 1] = d.size[i];
        k->strides[i + 1] = d.strides[0][i];
    }
    k->shape = ls_gpu_shape(d.ndim + 1, size);
    k->first = box->start[0];
}

/* Whether groups of 64 elements here are such groups in the whole sample. */
static bool in_groups(const dropout_args *k)
{
    const int last = k->shape.ndim - 1;
    if (last == 0 || k->strides[last] != 1 || k->shape.dims[last].size % 64 || k->start % 64)
        return false;
    for (int d = 1; d < last; d++)
        if (k->strides[d] % 64)
            return false;
    return ((k->x | k->addend | k->out) & 15) == 0;
}

void ls_gpu_dropout(const ls_kernel_args *a) /* x, key, addend? -> y */
{
    char before[64];
    const ls_dropout_attrs *o = a->attrs;
    const ls_type *t = &a->out[0].type;
    const ls_box box = a->at ? *a->at : ls_box_of(t);
    dropout_args k = { .x = ls_gpu_at(a->in[0].data),
                       .key = ls_gpu_at(a->in[1].data),
                       .addend = ls_gpu_at(a->n_in > 2 ? a->in[2].data : NULL),
                       .out = ls_gpu_at(a->out[0].data),
                       .n = ls_gpu_count(t),
                       .purpose = o->purpose,
                       .below = (u32)ls_dropping_below(o->p),
                       .scale = (float)ls_dropping_scale(o->p) };
    place_sample(&k, &box);
    const bool groups = in_groups(&k);
    snprintf(before, sizeof before, "#define X %s\n", ls_gpu_type(&a->out[0]));
    ls_gpu_run(a->queue, &(ls_gpu_launch){ .file = "dropout.cu",
                                           .function = groups ? "groups" : "each",
                                           .before = before,
                                           .blocks = ls_gpu_blocks(k.n, groups ? 8 * THREADS : THREADS),
                                           .args = &k,
                                           .bytes = sizeof k });
}
