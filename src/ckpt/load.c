/* load.c - from weight files to a model's tensors: the comparison that reports everything at once, and the
 * copy, with conversion between float types where that was asked for. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/str.h"
#include "base/sys.h"
#include "ckpt/dcp.h"
#include "ckpt/manifest.h"
#include "ckpt/safetensors.h"

/* A double holds every value of the four float types exactly, so one widening and one narrowing function per
 * type make all conversions. */
static double widen(const uint8_t *p, ls_dtype t)
{
    uint16_t h;
    uint32_t u;
    float f;
    double d;
    switch (t) {
    case LS_F32: memcpy(&f, p, 4); return (double)f;
    case LS_F64: memcpy(&d, p, 8); return d;
    case LS_BF16:
        memcpy(&h, p, 2);
        u = (uint32_t)h << 16;
        memcpy(&f, &u, 4);
        return (double)f;
    default: /* LS_F16 */ memcpy(&h, p, 2); break;
    }
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                       : exponent == 0 ? ldexp(fraction, -24)
                                       : ldexp(1024 + fraction, exponent - 25);
    return h & 0x8000 ? -magnitude : magnitude;
}

/* |x| as sign-less bits of a format with `bits` bits of fraction and `exponent_bits` of exponent, rounded to
 * nearest even. */
static uint32_t narrow_magnitude(double x, int bits, int exponent_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1;
    uint32_t infinite = (uint32_t)((1 << exponent_bits) - 1) << bits;
    if (isnan(x))
        return infinite | 1u << (bits - 1);
    if (isinf(x))
        return infinite;
    if (x == 0)
        return 0;
    int e;
    frexp(x, &e); /* x = f * 2^e, 0.5 <= f < 1 */
    /* exponent of the last place; below the normal range it stays */
    int unit = (e - 1 < 1 - bias ? 1 - bias : e - 1) - bits;
    uint32_t places = (uint32_t)nearbyint(ldexp(x, -unit)); /* exact scaling, then the one rounding */
    /* A normal number's leading 1 in `places` counts the exponent field up by one; so does a carry out of the
     * rounding. */
    uint32_t out = ((uint32_t)(unit + bits + bias - 1) << bits) + places;
    return out > infinite ? infinite : out;
}

static void narrow(uint8_t *p, ls_dtype t, double x)
{
    uint16_t h;
    float f = (float)x;
    switch (t) {
    case LS_F32: memcpy(p, &f, 4); return;
    case LS_F64: memcpy(p, &x, 8); return;
    default:
        h = (uint16_t)(t == LS_BF16 ? narrow_magnitude(fabs(x), 7, 8) : narrow_magnitude(fabs(x), 10, 5));
        h = (uint16_t)(h | (signbit(x) ? 0x8000 : 0));
        memcpy(p, &h, 2);
        return;
    }
}

static bool convertible(const ls_weight *t, ls_dtype to)
{
    return ls_dtype_is_float(t->type.dtype) && ls_dtype_is_float(to);
}

/* `n` elements, which are `step` elements apart, side by side into `out`. */
static void copy_run(uint8_t *out, ls_dtype to, const uint8_t *in, ls_dtype from, int64_t n, int64_t step)
{
    size_t size = ls_dtype_size(from), to_size = ls_dtype_size(to);
    if (from == to && step == 1) {
        memcpy(out, in, (size_t)n * size);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        if (from == to)
            memcpy(out + (size_t)i * size, in + (size_t)(i * step) * size, size);
        else
            narrow(out + (size_t)i * to_size, to, widen(in + (size_t)(i * step) * size, from));
}

static ls_status can_read(const ls_weight *t, ls_dtype to)
{
    char shown[128];
    if (!t->loadable)
        return ls_fail(LS_E_UNSUPPORTED,
                       "%s: tensor \"%s\" is stored as %s, which cannot be loaded: export it as F32 or BF16",
                       t->file, ls_shown_name(shown, t->name), t->stored);
    if (t->type.dtype != to && !convertible(t, to))
        return ls_fail(
            LS_E_SHAPE,
            "%s: tensor \"%s\" is stored as %s and cannot become %s: only float types are converted", t->file,
            ls_shown_name(shown, t->name), t->stored, ls_dtype_name(to));
    return LS_OK;
}

static ls_status read_range(const ls_weight *t, ls_dtype to, int64_t first, int64_t n, void *out);

/* The same of a tensor that lies in parts: of each the rows that reach into the range. */
static ls_status read_parts(const ls_weight *t, ls_dtype to, int64_t first, int64_t n, uint8_t *out)
{
    for (int64_t k = 0; k < t->parts->n; k++) {
        const struct ls_weight_part *part = &t->parts->at[k];
        const ls_box_rows rows = ls_box_rows_of(&part->box);
        for (int64_t row = ls_box_row_after(&rows, first), at;
             row < rows.n && (at = ls_box_row(&rows, row)) < first + n; row++) {
            const int64_t skip = first > at ? first - at : 0,
                          end = first + n - at < rows.length ? first + n - at : rows.length;
            LS_TRY(read_range(part->tensor, to, row * rows.length + skip, end - skip,
                              out + (size_t)(at + skip - first) * ls_dtype_size(to)));
        }
    }
    return LS_OK;
}

/* `n` elements from number `first` of the tensor, row by row where it is a view. */
static ls_status read_range(const ls_weight *t, ls_dtype to, int64_t first, int64_t n, void *out)
{
    LS_TRY(can_read(t, to));
    const size_t size = ls_dtype_size(t->type.dtype), to_size = ls_dtype_size(to);
    if (t->parts)
        return read_parts(t, to, first, n, out);
    if (n > 0 && !t->strides)
        copy_run(out, to, (const uint8_t *)t->data + (size_t)first * size, t->type.dtype, n, 1);
    if (!t->strides)
        return LS_OK;
    const int last = t->type.ndim - 1;
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
    return read_range(t, to, 0, t->bytes ? ls_type_count(&t->type) : 0, out);
}

/* Block by block: the tensors may be large, and views and parts have to be put together first. */
bool ls_weight_equal(const ls_weight *a, const ls_weight *b)
{
    enum { BLOCK = 4096 }; /* elements */
    uint8_t x[BLOCK * 8], y[BLOCK * 8];
    const ls_dtype type = a->type.dtype;
    if (!a->loadable || !b->loadable || !ls_type_equal(&a->type, &b->type))
        return false;
    for (int64_t first = 0, all = a->bytes ? ls_type_count(&a->type) : 0, n; first < all; first += n) {
        n = all - first < BLOCK ? all - first : BLOCK;
        if (read_range(a, type, first, n, x) != LS_OK || read_range(b, type, first, n, y) != LS_OK ||
            memcmp(x, y, (size_t)n * ls_dtype_size(type)))
            return false;
    }
    return true;
}

/* One kind of misfit: how many there are, and the first few in words. */
typedef struct misfits {
    const char *label;
    int64_t count;
    ls_str text;
} misfits;

#define SHOWN 4

static void misfit_add(misfits *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void misfit_add(misfits *m, const char *format, ...)
{
    if (m->count++ >= SHOWN)
        return;
    char line[700];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    ls_str_printf(&m->text, "%s%s", m->text.len ? "; " : "", line);
}

static bool same_dims(const ls_type *a, const ls_type *b)
{
    return a->ndim == b->ndim && memcmp(a->dims, b->dims, sizeof a->dims[0] * (size_t)a->ndim) == 0;
}

static int compare_wanted(const void *a, const void *b)
{
    return strcmp((*(const ls_named_tensor *const *)a)->name, (*(const ls_named_tensor *const *)b)->name);
}

/* A sorted view of `want`: the "unexpected" half of the comparison looks names up in it. */
static const ls_named_tensor **sorted(int64_t n, const ls_named_tensor *want)
{
    const ls_named_tensor **list = ls_sys_malloc(sizeof *list * (size_t)(n + 1));
    for (int64_t i = 0; list && i < n; i++)
        list[i] = &want[i];
    if (list && n > 1)
        qsort(list, (size_t)n, sizeof *list, compare_wanted);
    return list;
}

static ls_status compare(const ls_weights *w, int64_t n, const ls_named_tensor *want,
                         const ls_weights_load_opts *o)
{
    enum { MISSING, UNEXPECTED, SHAPE, TYPE, KINDS };
    misfits kinds[KINDS] = { { .label = "missing" },
                             { .label = "unexpected" },
                             { .label = "of another shape" },
                             { .label = "of another type" } };
    char name[128], have_dims[192], want_dims[192];
    const ls_named_tensor **list = o->allow_unexpected ? NULL : sorted(n, want);
    if (!list && !o->allow_unexpected)
        return ls_fail(LS_E_MEMORY, "out of memory comparing %" PRId64 " tensors", n);
    for (int64_t i = 0; i < n; i++) {
        const ls_type *type = &want[i].tensor.type;
        const ls_weight *t = ls_weights_find(w, want[i].name);
        if (!t) {
            misfit_add(&kinds[MISSING], "%s %s", want[i].name, ls_shown_dims(want_dims, type));
            continue;
        }
        if (!same_dims(&t->type, type))
            misfit_add(&kinds[SHAPE], "%s is %s, wanted %s", ls_shown_name(name, t->name),
                       ls_shown_dims(have_dims, &t->type), ls_shown_dims(want_dims, type));
        if (!t->loadable || (t->type.dtype != type->dtype && !(o->convert && convertible(t, type->dtype))))
            misfit_add(&kinds[TYPE], "%s is %s, wanted %s", ls_shown_name(name, t->name), t->stored,
                       ls_dtype_name(type->dtype));
    }
    if (!o->allow_unexpected) {
        for (int64_t i = 0; i < ls_weights_count(w); i++) {
            const ls_weight *t = ls_weights_at(w, i);
            ls_named_tensor key = { .name = t->name };
            const ls_named_tensor *wanted = &key;
            if (n == 0 || !bsearch(&wanted, list, (size_t)n, sizeof *list, compare_wanted))
                misfit_add(&kinds[UNEXPECTED], "%s %s", ls_shown_name(name, t->name),
                           ls_shown_dims(have_dims, &t->type));
        }
    }
    free(list);

    ls_str text = { 0 };
    for (int k = 0; k < KINDS; k++) {
        if (kinds[k].count > 0)
            ls_str_printf(&text, "%s%" PRId64 " %s: %s%s", text.len ? " | " : "", kinds[k].count,
                          kinds[k].label, ls_str_text(&kinds[k].text), kinds[k].count > SHOWN ? "; ..." : "");
        ls_str_release(&kinds[k].text);
    }
    ls_status s = LS_OK;
    if (text.len > 0) {
        const ls_weight *any = ls_weights_at(w, 0);
        s = ls_fail(LS_E_SHAPE,
                    "%s does not fit the model (%" PRId64 " tensors in the file, %" PRId64
                    " wanted): %s. Use weights of this very configuration%s",
                    any ? any->file : "the weight file", ls_weights_count(w), n, text.data,
                    kinds[TYPE].count > 0 && !o->convert ? ", or ask for the types to be converted" : "");
    }
    ls_str_release(&text);
    return s;
}

ls_status ls_weights_load_with(const ls_weights *w, int64_t n, const ls_named_tensor *want,
                               const ls_weights_load_opts *o)
{
    LS_ARG(w);
    if (n)
        LS_ARG(want);
    o = o ? o : &(const ls_weights_load_opts){ LS_WEIGHTS_LOAD_DEFAULTS };
    LS_TRY(compare(w, n, want, o));
    if (o->check_only)
        return LS_OK;
    for (int64_t i = 0; i < n; i++)
        if (!ls_tensor_is_contiguous(&want[i].tensor) ||
            (!want[i].tensor.data && ls_type_count(&want[i].tensor.type) > 0))
            return ls_fail(LS_E_ARG, "tensor \"%s\" to be loaded is not contiguous or has no memory",
                           want[i].name);
    for (int64_t i = 0; i < n; i++)
        LS_TRY(
            ls_weight_read(ls_weights_find(w, want[i].name), want[i].tensor.type.dtype, want[i].tensor.data));
    return LS_OK;
}

/* In steps that stay in the cache between the comparison and the copy. */
static ls_status prove_and_read(const ls_weight *t, ls_manifest *proof, ls_dtype to, const ls_range *r)
{
    const uint64_t size = ls_dtype_size(t->type.dtype);
    const int64_t step = (int64_t)(LS_MANIFEST_PIECE / size);
    const uint8_t *file = (const uint8_t *)t->data - t->offset;
    for (int64_t at = r->first, end = r->first + r->count; at < end; at += step) {
        const int64_t n = end - at < step ? end - at : step;
        LS_TRY(ls_manifest_prove(proof, t->file, file, t->offset + (uint64_t)at * size,
                                 t->offset + (uint64_t)(at + n) * size));
        LS_TRY(read_range(t, to, at, n, (char *)r->data + (size_t)(at - r->first) * ls_dtype_size(to)));
    }
    return LS_OK;
}

ls_status ls_ranges_load(const ls_weights *w, const ls_tensor_list *l, const ls_weights_load_opts *o)
{
    LS_TRY(compare(w, l->n, l->tensors, o));
    ls_manifest *proof = ls_weights_proof(w);
    for (int64_t i = 0; i < l->n && !o->check_only; i++) {
        const ls_weight *t = ls_weights_find(w, l->tensors[i].name);
        const ls_range *r = &l->mine[i];
        const ls_dtype to = l->tensors[i].tensor.type.dtype;
        for (int64_t k = 0, n; k < r->count; k += n) {
            const int64_t first = ls_range_piece(r, k, &n);
            void *data = (char *)r->data + (size_t)k * ls_dtype_size(to);
            LS_TRY(proof
                       ? prove_and_read(t, proof, to, &(ls_range){ .first = first, .count = n, .data = data })
                       : read_range(t, to, first, n, data));
        }
    }
    return LS_OK;
}

ls_weights_load_opts ls_weights_load_opts_default(void)
{
    return (ls_weights_load_opts){ LS_WEIGHTS_LOAD_DEFAULTS };
}
