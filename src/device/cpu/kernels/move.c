/* move.c - ops that only move elements, of any type: fill, copy, permute, pack, broadcast_to. Outputs are
 * contiguous. */
#include "table.h"
#include "walk.h"

KERNEL(fill)
{
    const ls_fill_attrs *at = a->attrs;
    const ls_dtype t = a->out[0].type.dtype;
    const int64_t n = count_of(&a->out[0]);
    void *p = a->out[0].data;
    switch (t) {
    case LS_F64:
        for (int64_t i = 0; i < n; i++)
            ((double *)p)[i] = at->value;
        break;
    case LS_I64:
        for (int64_t i = 0; i < n; i++)
            ((int64_t *)p)[i] = (int64_t)at->value;
        break;
    case LS_I32:
        for (int64_t i = 0; i < n; i++)
            ((int32_t *)p)[i] = (int32_t)at->value;
        break;
    case LS_U8: memset(p, (int)at->value, (size_t)n); break;
    default: {
        const vf v = vf_set1((float)at->value);
        int64_t i = 0;
        for (; i + VF_LANES <= n; i += VF_LANES)
            vf_put(p, t, i, v);
        vf_put_n(p, t, i, v, (int)(n - i));
    }
    }
}

/* Copies n elements of `size` bytes, which are `stride` elements apart in the input. */
SIMD_FN void move_run(char *to, const char *from, int64_t n, int64_t stride, int64_t size)
{
    if (stride == 1) {
        memcpy(to, from, (size_t)(n * size));
        return;
    }
    switch (size) {
    case 1:
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i * stride];
        break;
    case 2:
        for (int64_t i = 0; i < n; i++)
            memcpy(to + 2 * i, from + 2 * i * stride, 2);
        break;
    case 4:
        for (int64_t i = 0; i < n; i++)
            memcpy(to + 4 * i, from + 4 * i * stride, 4);
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            memcpy(to + 8 * i, from + 8 * i * stride, 8);
        break;
    }
}

typedef struct move_job {
    walk in;
    char *out;
    int64_t n, size;
} move_job;
enum { MOVE_CHUNK = 4096 };

static void move_chunks(void *context, int64_t begin, int64_t end, int worker)
{
    const move_job *j = context;
    (void)worker;
    int64_t i = begin * MOVE_CHUNK;
    const int64_t stop = min_i64(end * MOVE_CHUNK, j->n), inner = j->in.strides[j->in.ndim - 1];
    while (i < stop) {
        int64_t left, offset = walk_at(&j->in, i, &left);
        left = min_i64(left, stop - i);
        move_run(j->out + i * j->size, j->in.data + offset * j->size, left, inner, j->size);
        i += left;
    }
}

static void move(const ls_kernel_args *a, walk in)
{
    move_job j = {
        .in = in, .out = a->out[0].data, .n = count_of(&a->out[0]), .size = elem_size(a->out[0].type.dtype)
    };
    ls_parallel_for(threads_for(a, j.n), (j.n + MOVE_CHUNK - 1) / MOVE_CHUNK, move_chunks, &j);
}

KERNEL(copy) { move(a, walk_make(a->in[0].data, a->in[0].type.ndim, a->in[0].type.dims, a->in[0].strides)); }

KERNEL(broadcast_to) { move(a, walk_broadcast(&a->in[0], &a->out[0].type)); }

KERNEL(permute)
{
    const ls_permute_attrs *at = a->attrs;
    int64_t strides[LS_MAX_DIMS];
    for (int d = 0; d < a->out[0].type.ndim; d++)
        strides[d] = a->in[0].strides[at->perm.v[d]];
    move(a, walk_make(a->in[0].data, a->out[0].type.ndim, a->out[0].type.dims, strides));
}

/* pack: the output as [outer, extent, inner]. A task is an outer index. */
typedef struct pack_job {
    const ls_kernel_args *a;
    int64_t extent, inner;
    int dim;
} pack_job;

static void pack_rows(void *context, int64_t begin, int64_t end, int worker)
{
    const pack_job *j = context;
    const ls_kernel_args *a = j->a;
    const int64_t *starts = ((const ls_pack_attrs *)a->attrs)->starts.v;
    (void)worker;
    for (int64_t o = begin; o < end; o++) {
        char *row = (char *)a->out[0].data + o * j->extent * j->inner;
        int64_t covered = 0; /* parts are in the order of their starts, and what lies between them is zero */
        for (int i = 0; i < a->n_in; i++) {
            const ls_tensor *part = &a->in[i];
            const int64_t start = starts[i] * j->inner, bytes = part->type.dims[j->dim] * j->inner;
            memset(row + covered, 0, (size_t)(start - covered));
            if (part->data != (char *)a->out[0].data + start) /* (else the part was computed in place) */
                memcpy(row + start, (const char *)part->data + o * bytes, (size_t)bytes);
            covered = start + bytes;
        }
        memset(row + covered, 0, (size_t)(j->extent * j->inner - covered));
    }
}

KERNEL(pack)
{
    const ls_pack_attrs *at = a->attrs;
    const ls_type *t = &a->out[0].type;
    pack_job j = { .a = a, .extent = t->dims[at->dim], .inner = elem_size(t->dtype), .dim = (int)at->dim };
    int64_t outer = 1;
    for (int d = 0; d < t->ndim; d++) {
        if (d < at->dim)
            outer *= t->dims[d];
        else if (d > at->dim)
            j.inner *= t->dims[d];
    }
    ls_parallel_for(threads_for(a, outer * j.extent * j.inner / 4), outer, pack_rows, &j);
}
