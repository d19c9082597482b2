/* elements.c - the elements of one stored tensor: a range of them copied in row-major order and converted
 * between float types, or summed of three (an adapter that is merged); two tensors compared. */
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/cpu_limits.h"
#include "base/element.h"
#include "base/sys.h"
#include "base/thread_pool.h"
#include "ckpt/elements.h"
#include "ckpt/parts.h"
#include "ckpt/pieces.h"
#include "ckpt/safetensors.h"

bool ls_weight_convertible(const ls_weight *t, ls_dtype to)
{
    return ls_dtype_is_float(t->type.dtype) && ls_dtype_is_float(to);
}

/* Copies n elements that lie `step` elements apart to consecutive ones in `out`. */
static void copy_run(uint8_t *out, ls_dtype to, const uint8_t *in, ls_dtype from, int64_t n, int64_t step)
{
    size_t size = ls_dtype_size(from), to_size = ls_dtype_size(to);
    if (from == to && step == 1) {
        memcpy(out, in, (size_t)n * size);
        return;
    }
    if (from == LS_BF16 && to == LS_F32 && step == 1) { /* (vectorized: published weights are of bf16) */
        for (int64_t i = 0; i < n; i++) {
            uint16_t h;
            memcpy(&h, in + 2 * i, 2);
            const uint32_t bits = (uint32_t)h << 16, quiet = (bits & 0x7fffffff) > 0x7f800000
                                                                 ? 0x400000
                                                                 : 0; /* as a conversion makes it */
            const uint32_t wide = bits | quiet;
            memcpy(out + 4 * i, &wide, 4);
        }
        return;
    }
    for (int64_t i = 0; i < n; i++)
        if (from == to)
            memcpy(out + (size_t)i * size, in + (size_t)(i * step) * size, size);
        else
            ls_element_write(out + (size_t)i * to_size, to,
                             ls_element_read(in + (size_t)(i * step) * size, from));
}

static ls_status can_read(const ls_weight *t, ls_dtype to)
{
    char shown[128];
    if (!t->loadable)
        return ls_fail(LS_E_UNSUPPORTED,
                       "%s: tensor \"%s\" is stored as %s, which cannot be loaded: export it as F32 or BF16",
                       t->file, ls_shown_name(shown, t->name), t->stored);
    if (t->type.dtype != to && !ls_weight_convertible(t, to))
        return ls_fail(
            LS_E_SHAPE,
            "%s: tensor \"%s\" is stored as %s and cannot become %s: only float types are converted", t->file,
            ls_shown_name(shown, t->name), t->stored, ls_dtype_name(to));
    return LS_OK;
}

/* ls_weight_read_range for a tensor that is stored in parts: copies from each part the rows that
 * overlap the range. */
static ls_status read_parts(const ls_weight *t, ls_dtype to, int64_t first, int64_t n, uint8_t *out)
{
    for (int64_t k = 0; k < t->parts->n; k++) {
        const struct ls_weight_part *part = &t->parts->at[k];
        const ls_box_rows rows = ls_box_rows_of(&part->box);
        for (int64_t row = ls_box_row_after(&rows, first), at;
             row < rows.n && (at = ls_box_row(&rows, row)) < first + n; row++) {
            const int64_t skip = first > at ? first - at : 0,
                          end = first + n - at < rows.length ? first + n - at : rows.length;
            LS_TRY(ls_weight_read_range(part->tensor, to, row * rows.length + skip, end - skip,
                                        out + (size_t)(at + skip - first) * ls_dtype_size(to)));
        }
    }
    return LS_OK;
}

/* ---- sums: W + scale * B A (struct ls_weight_sum) */

typedef struct adding {
    const struct ls_weight_sum *sum;
    const float *a, *b; /* whole */
    float *rows;        /* [rows, in]: W, then the sum */
    int64_t first, in, rank;
} adding;

static void add_rows(void *context, int64_t begin, int64_t end, int worker)
{
    const adding *d = context;
    const float scale = (float)d->sum->scale;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        float part[512], *row = d->rows + i * d->in;
        const float *b = d->b + (d->first + i) * d->rank;
        for (int64_t at = 0, n; at < d->in; at += n) {
            n = d->in - at < 512 ? d->in - at : 512;
            memset(part, 0, sizeof part);
            for (int64_t k = 0; k < d->rank; k++)
                for (int64_t j = 0; j < n; j++)
                    part[j] += b[k] * d->a[k * d->in + at + j];
            for (int64_t j = 0; j < n; j++)
                row[at + j] += scale * part[j];
        }
    }
}

/* A whole matrix, turned or as it is stored. */
static ls_status read_matrix(float *out, const ls_weight *t, bool turned)
{
    const int64_t rows = t->type.dims[0], columns = t->type.dims[1];
    if (!turned)
        return ls_weight_read_range(t, LS_F32, 0, rows * columns, out);
    float *stored = ls_sys_malloc(sizeof *stored * (size_t)(rows * columns));
    LS_TRY(ls_sys_have(stored));
    const ls_status s = ls_weight_read_range(t, LS_F32, 0, rows * columns, stored);
    for (int64_t i = 0; i < rows * columns && s == LS_OK; i++)
        out[i % columns * rows + i / columns] = stored[i];
    free(stored);
    return s;
}

static ls_status read_rows(const adding *from, ls_dtype to, int64_t first, int64_t n, void *out)
{
    adding d = *from;
    const struct ls_weight_sum *s = d.sum;
    const int64_t rows = (first + n - 1) / d.in + 1 - first / d.in;
    float *a = (float *)(uintptr_t)d.a, *b = (float *)(uintptr_t)d.b;
    d.first = first / d.in;
    LS_TRY(read_matrix(a, s->transposed ? s->b : s->a, s->transposed));
    LS_TRY(read_matrix(b, s->transposed ? s->a : s->b, s->transposed));
    LS_TRY(ls_weight_read_range(s->w, LS_F32, d.first * d.in, rows * d.in, d.rows));
    ls_parallel_for(ls_default_threads(1, NULL), rows, add_rows, &d);
    const ls_weight made = { .name = s->w->name,
                             .file = s->w->file,
                             .stored = "F32",
                             .loadable = true,
                             .type = LS_TYPE(LS_F32, rows * d.in),
                             .data = d.rows };
    return ls_weight_read_range(&made, to, first - d.first * d.in, n, out);
}

static ls_status read_sum(const ls_weight *t, ls_dtype to, int64_t first, int64_t n, void *out)
{
    const struct ls_weight_sum *s = t->parts->sum;
    const int64_t in = s->w->type.dims[1], rank = s->a->type.dims[0], outputs = s->w->type.dims[0];
    if (n <= 0)
        return LS_OK;
    const int64_t rows = (first + n - 1) / in + 1 - first / in;
    float *room = ls_sys_malloc(sizeof *room * (size_t)(rank * (in + outputs) + rows * in));
    LS_TRY(ls_sys_have(room));
    const adding d = { .sum = s,
                       .a = room,
                       .b = room + rank * in,
                       .rows = room + rank * (in + outputs),
                       .in = in,
                       .rank = rank };
    const ls_status status = read_rows(&d, to, first, n, out);
    free(room);
    return status;
}

/* ---- */

ls_status ls_weight_read_range(const ls_weight *t, ls_dtype to, int64_t first, int64_t n, void *out)
{
    LS_TRY(can_read(t, to));
    const size_t size = ls_dtype_size(t->type.dtype), to_size = ls_dtype_size(to);
    if (t->parts && t->parts->sum)
        return read_sum(t, to, first, n, out);
    if (t->parts && t->parts->nf4)
        return t->parts->read(t->parts->nf4, to, first, n, out);
    if (t->parts)
        return read_parts(t, to, first, n, out);
    if (n > 0 && !t->strides)
        copy_run(out, to, (const uint8_t *)t->data + (size_t)first * size, t->type.dtype, n, 1);
    if (!t->strides)
        return LS_OK;
    const int last = t->type.ndim - 1; /* a strided view (.pt): row by row */
    for (int64_t done = 0, take; done < n; done += take) {
        int64_t columns = t->type.dims[last], column = (first + done) % columns,
                rest = (first + done) / columns, at = column * t->strides[last];
        for (int i = last - 1; i >= 0; rest /= t->type.dims[i--])
            at += rest % t->type.dims[i] * t->strides[i];
        take = n - done < columns - column ? n - done : columns - column;
        copy_run((uint8_t *)out + (size_t)done * to_size, to, (const uint8_t *)t->data + (size_t)at * size,
                 t->type.dtype, take, t->strides[last]);
    }
    return LS_OK;
}

ls_status ls_weight_read(const ls_weight *t, ls_dtype to, void *out)
{
    LS_ARG(t);
    if (t->loadable && t->bytes)
        LS_ARG(out);
    return ls_weight_read_range(t, to, 0, t->bytes ? ls_type_count(&t->type) : 0, out);
}

/* Compares block by block, because tensors may be large and a block of a view or of parts has to be collected
 * first. */
bool ls_weight_equal(const ls_weight *a, const ls_weight *b)
{
    enum { BLOCK = 4096 }; /* elements */
    uint8_t x[BLOCK * 8], y[BLOCK * 8];
    const ls_dtype type = a->type.dtype;
    if (!a->loadable || !b->loadable || !ls_type_equal(&a->type, &b->type))
        return false;
    if (a->data && a->data == b->data && !a->strides && !b->strides)
        return true; /* two names of one storage: how torch.save has tied weights, which may be large */
    for (int64_t first = 0, all = a->bytes ? ls_type_count(&a->type) : 0, n; first < all; first += n) {
        n = all - first < BLOCK ? all - first : BLOCK;
        if (ls_weight_read_range(a, type, first, n, x) != LS_OK ||
            ls_weight_read_range(b, type, first, n, y) != LS_OK ||
            memcmp(x, y, (size_t)n * ls_dtype_size(type)))
            return false;
    }
    return true;
}

/* Copies elements first .. first + n - 1 of tensor i to `to`. */
static ls_status copy_elements(ls_pieces *by, const ls_tensor_list *from, int64_t i, int64_t first, int64_t n,
                               ls_dtype type, char *to)
{
    const ls_range *r = &from->mine[i];
    ls_weight w = {
        .name = "", .file = "", .stored = "", .loadable = true, .type = from->tensors[i].tensor.type
    };
    for (int64_t done = 0, part; done < n; done += part) {
        part = n - done;
        LS_TRY(ls_piece_get(by, r, w.type.dtype, first + done, &part, &w.data));
        LS_TRY(ls_weight_read_range(&w, type, 0, part, to + (size_t)done * ls_dtype_size(type)));
    }
    return LS_OK;
}

/* Copies the range of a tensor from a whole one, by pieces for reading and for writing. */
static ls_status copy_tensor(ls_pieces by[2], const ls_named_tensor *to, const ls_range *range,
                             const ls_tensor_list *from)
{
    int64_t i = 0;
    while (i < from->n && strcmp(from->tensors[i].name, to->name))
        i++;
    const ls_named_tensor *t = &from->tensors[i];
    ls_type same = to->tensor.type;
    same.dtype = i < from->n ? t->tensor.type.dtype : same.dtype;
    if (i == from->n || !ls_type_equal(&t->tensor.type, &same))
        return ls_fail(LS_E_SHAPE, "%s: there is no tensor of this name and shape to copy", to->name);
    const ls_dtype type = to->tensor.type.dtype;
    for (int64_t at = 0, n; at < range->count; at += n) {
        void *piece;
        n = ls_piece_length(&by[1], range, type, at);
        LS_TRY(ls_piece_begin(&by[1], range, type, at, n, &piece));
        for (int64_t k = 0, run; k < n; k += run) {
            const int64_t first = ls_range_piece(range, at + k, &run);
            run = run < n - k ? run : n - k;
            LS_TRY(copy_elements(&by[0], from, i, first, run, type,
                                 (char *)piece + (size_t)k * ls_dtype_size(type)));
        }
        LS_TRY(ls_piece_put(&by[1], range, type, at, n, piece));
    }
    return LS_OK;
}

ls_status ls_tensors_copy(const ls_tensor_list *to, const ls_tensor_list *from)
{
    ls_pieces by[2] = { 0 };
    ls_status s = ls_pieces_open(&by[0], from);
    if (s == LS_OK)
        s = ls_pieces_open(&by[1], to);
    for (int64_t i = 0; i < to->n && s == LS_OK; i++)
        s = copy_tensor(by, &to->tensors[i], &to->mine[i], from);
    return ls_pieces_close(&by[0], ls_pieces_close(&by[1], s));
}
