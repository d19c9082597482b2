/* kernels.c - see kernels.h. */
#include "kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"

/* Says what is wrong and goes on, so that one run shows everything; the test fails at its end. */
int kernel_failures;
bool kernel_brief;
bool (*kernel_refused)(const op_case *c, const char *why);
void (*kernel_result)(const op_case *c, ls_dtype data, const char *how, int output, const ls_tensor *t);
#define WRONG(...) (print_error(__VA_ARGS__), print_error("\n"), (void)kernel_failures++)

typedef enum layout { CONTIGUOUS, STRIDED, REPEATED, LAYOUTS } layout;
static const char *const LAYOUT_NAME[] = { "contiguous", "strided", "repeated" };

/* A tensor and the memory around it. `exact`: ends with the tensor, for sanitizers; else 64 bytes on both
 * sides that nobody may write. */
typedef struct placed {
    char *base;
    size_t bytes;
    ls_tensor t;
} placed;

enum { GUARD = 64 };

/* Strides for a tensor that may be row-strided (rows) or anything (any); returns the elements its memory
 * spans, from `*first` on. */
static int64_t choose_strides(ls_tensor *t, layout l, bool rows, bool any, int64_t *first)
{
    const int n = t->type.ndim;
    int64_t span = 1;
    *first = l == CONTIGUOUS ? 0 : 1; /* a view may begin anywhere */
    if (any && l != CONTIGUOUS && n > 0) {
        /* dimensions in reverse order, the first one repeated by stride 0 */
        for (int d = 0; d < n; d++) {
            t->strides[d] = l == REPEATED && d == 0 ? 0 : span;
            span += l == REPEATED && d == 0 ? 0 : (t->type.dims[d] - 1) * t->strides[d] + 1;
        }
    } else {
        for (int d = n - 1; d >= 0; d--) {
            t->strides[d] = span;
            span *= t->type.dims[d];
            if (d == n - 1 && rows && l != CONTIGUOUS)
                span += 3;
        }
    }
    return *first + span;
}

static placed place(const ls_type *type, layout l, bool rows, bool any, bool exact)
{
    placed p = { .t = ls_tensor_of(NULL, type) };
    if (type->ndim < 0)
        return p;
    int64_t first;
    const size_t size = ls_dtype_size(type->dtype), guard = exact ? 0 : GUARD;
    const size_t span = (size_t)choose_strides(&p.t, l, rows, any, &first) * size;
    p.bytes = span + 2 * guard;
    p.base = exact_alloc(p.bytes);
    p.t.data = p.base + guard + (size_t)first * size;
    return p;
}

/* Bytes from the first element to each one in turn: `at` begins as zeros. */
static int64_t offset_of(const ls_tensor *t, const int64_t at[LS_MAX_DIMS])
{
    int64_t offset = 0;
    for (int d = 0; d < t->type.ndim; d++)
        offset += at[d] * t->strides[d];
    return offset * (int64_t)ls_dtype_size(t->type.dtype);
}
static void go_on(const ls_type *t, int64_t at[LS_MAX_DIMS])
{
    for (int d = t->ndim - 1; d >= 0 && ++at[d] == t->dims[d]; d--)
        at[d] = 0;
}

/* Whether the elements are contiguous. */
static bool packed(const ls_tensor *t)
{
    int64_t span = 1;
    for (int d = t->type.ndim - 1; d >= 0; span *= t->type.dims[d--])
        if (t->type.dims[d] != 1 && t->strides[d] != span)
            return false;
    return true;
}

static void copy_elements(const ls_tensor *to, const ls_tensor *from)
{
    int64_t at[LS_MAX_DIMS] = { 0 };
    const size_t size = ls_dtype_size(to->type.dtype);
    if (packed(to) && packed(from)) {
        memcpy(to->data, from->data, ls_type_bytes(&to->type));
        return;
    }
    for (int64_t n = ls_type_count(&to->type); n > 0; n--, go_on(&to->type, at))
        memcpy((char *)to->data + offset_of(to, at), (char *)from->data + offset_of(from, at), size);
}

/* Bytes of p that are not an element must still be 0xff. */
static bool untouched_around(const placed *p)
{
    char *element = calloc(p->bytes, 1);
    int64_t at[LS_MAX_DIMS] = { 0 };
    const size_t size = ls_dtype_size(p->t.type.dtype);
    if (packed(&p->t))
        memset(element + ((char *)p->t.data - p->base), 1, ls_type_bytes(&p->t.type));
    else
        for (int64_t n = ls_type_count(&p->t.type); n > 0; n--, go_on(&p->t.type, at))
            memset(element + ((char *)p->t.data - p->base) + offset_of(&p->t, at), 1, size);
    bool good = true;
    for (size_t b = 0; b < p->bytes; b++)
        good &= element[b] || p->base[b] == (char)0xff;
    free(element);
    return good;
}

/* One run: inputs laid out anew, outputs into `out` (contiguous copies of what the kernel wrote). */
typedef struct run {
    const op_case *c;
    const ls_tensor *in;
    int n_out;
    ls_type out_type[LS_MAX_OUT];
    layout l;
    int inplace;              /* input that output 0 overwrites, or -1 */
    const ls_kernel *strides; /* whose rows_in, any_in, rows_out say what may be strided */
    ls_dtype data;
    char how[64]; /* what operands hold, and how they lie */
    char label[400];
} run;

static bool bit(uint32_t bits, int j) { return j < 32 && (bits >> j & 1); }

static void run_on(const ls_device *d, const run *r, ls_tensor out[LS_MAX_OUT])
{
    const op_case *c = r->c;
    const ls_op *op = ls_op_find(c->op);
    placed in[CASE_MAX_IN], result[LS_MAX_OUT];
    ls_tensor in_t[CASE_MAX_IN], out_t[LS_MAX_OUT];
    for (int j = 0; j < c->n_in; j++) {
        bool written = r->inplace == j;
        for (int o = 0; o < r->n_out; o++)
            written |= op->alias[o] == j + 1;
        in[j] = place(&r->in[j].type, written ? CONTIGUOUS : r->l, bit(r->strides->rows_in, j),
                      bit(r->strides->any_in, j), !written);
        if (in[j].base)
            copy_elements(&in[j].t, &r->in[j]);
        in_t[j] = in[j].t;
    }
    for (int o = 0; o < r->n_out; o++) {
        const int shared = o == 0 && r->inplace >= 0 ? r->inplace : op->alias[o] - 1;
        result[o] = shared >= 0 ? in[shared]
                                : place(&r->out_type[o], r->l, bit(r->strides->rows_out, o), false, false);
        result[o].t.type = r->out_type[o];
        out_t[o] = result[o].t;
    }
    op_range ranges[OP_RANGES];
    int n = 0;
    for (int j = 0; j < c->n_in; j++)
        if (in[j].base)
            ranges[n++] = (op_range){ in[j].base, in[j].bytes };
    for (int o = 0; o < r->n_out; o++)
        if (!(o == 0 && r->inplace >= 0) && !op->alias[o])
            ranges[n++] = (op_range){ result[o].base, result[o].bytes };
    run_op_in(d, c->op, c->attrs, c->at, c->n_in, in_t, r->n_out, out_t, n, ranges);
    for (int o = 0; o < r->n_out; o++) {
        if (!untouched_around(&result[o]))
            WRONG("%s, device %s, %d threads: bytes around output %d were written", r->label, d->ops->name,
                  d->threads, o);
        out[o] = ls_tensor_of(exact_alloc(ls_type_bytes(&r->out_type[o])), &r->out_type[o]);
        copy_elements(&out[o], &result[o].t);
        bool shared = o == 0 && r->inplace >= 0;
        if (!shared && !op->alias[o])
            free(result[o].base);
    }
    for (int j = 0; j < c->n_in; j++)
        free(in[j].base);
}

static double spacing(ls_dtype t) { return t == LS_BF16 ? 0x1p-7 : t == LS_F16 ? 0x1p-10 : 0; }
static double smallest(ls_dtype t) { return t == LS_BF16 ? 0x1p-133 : t == LS_F16 ? 0x1p-24 : 0x1p-149; }

static void compare(const run *r, const ls_device *d, int o, const ls_tensor *expected, const ls_tensor *got)
{
    const op_case *c = r->c;
    const ls_dtype t = got->type.dtype;
    const int64_t n = ls_type_count(&got->type);
    const double eps = 0x1p-23, ulps = c->ulps ? c->ulps : 1;
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        const double x = fabs(element_get(expected, i));
        largest = isfinite(x) ? fmax(largest, x) : largest;
    }
    int64_t worst = -1;
    double worst_ratio = 1, worst_tolerance = 0;
    for (int64_t i = 0; i < n; i++) {
        const double x = element_get(expected, i), y = element_get(got, i);
        if (x == y || (isnan(x) && isnan(y)))
            continue;
        double tolerance = 0;
        if (c->compare == COMPARE_ELEMENT)
            tolerance = (ulps * eps + spacing(t)) * fabs(x) + c->absolute * eps + smallest(t);
        else if (c->compare == COMPARE_SUM)
            tolerance = (ulps * eps * sqrt((double)c->reduce + 4) +
                         2 * spacing(c->fed_back ? r->out_type[0].dtype : t)) *
                            largest +
                        c->absolute * eps + smallest(t);
        const double off = fabs(x - y), ratio = off / tolerance;
        if (isnan(ratio) || ratio > worst_ratio) {
            worst = i;
            worst_ratio = isnan(ratio) ? HUGE_VAL : ratio;
            worst_tolerance = tolerance;
        }
    }
    if (worst >= 0)
        WRONG("%s, %d thread: output %d, element %lld: %.9g, ref %.9g, %.3g times the tolerance %.3g",
              r->label, d->threads, o, (long long)worst, element_get(got, worst),
              element_get(expected, worst), worst_ratio, worst_tolerance);
}

static void same_bits(const run *r, const char *what, int o, const ls_tensor *a, const ls_tensor *b)
{
    const size_t size = ls_dtype_size(a->type.dtype);
    for (int64_t i = 0; i < ls_type_count(&a->type); i++)
        if (memcmp((char *)a->data + (size_t)i * size, (char *)b->data + (size_t)i * size, size) != 0) {
            WRONG("%s: output %d, element %lld: %.9g, but %.9g %s", r->label, o, (long long)i,
                  element_get(a, i), element_get(b, i), what);
            return;
        }
}

/* Kernel of the case on this device; NULL where it is refused for the only good reason: f64 belongs to ref.
 */
static const ls_kernel *kernel_of(const ls_device *d, const run *r)
{
    ls_tensor out[LS_MAX_OUT];
    bool f64 = false;
    for (int o = 0; o < r->n_out; o++) {
        out[o] = ls_tensor_of(NULL, &r->out_type[o]);
        f64 |= out[o].type.dtype == LS_F64;
    }
    for (int j = 0; j < r->c->n_in; j++)
        f64 |= r->in[j].type.ndim >= 0 && r->in[j].type.dtype == LS_F64;
    const ls_kernel_args a = { .n_in = r->c->n_in,
                               .n_out = r->n_out,
                               .in = r->in,
                               .out = out,
                               .attrs = r->c->attrs,
                               .at = r->c->at,
                               .threads = d->threads,
                               .arch = d->arch };
    const char *why = NULL;
    const ls_kernel *k = ls_device_find(d, r->c->op, &a, &why);
    if (!k && !f64 && !(kernel_refused && kernel_refused(r->c, why)))
        WRONG("%s: refused: %s", r->label, why);
    return k;
}

static void check_layout(const ls_device *cpu, run *r, const ls_tensor expected[LS_MAX_OUT])
{
    ls_tensor one[LS_MAX_OUT], got[LS_MAX_OUT];
    ls_device d = *cpu;
    /* on a device with memory of its own: two queues, whose order of blocks the shim draws (tests/gpu) */
    const int most = kernel_brief ? 1 : !ls_device_apart(&d) ? 3 : r->l == CONTIGUOUS ? 2 : 1;
    for (d.threads = 1; d.threads <= most; d.threads++) {
        run_on(&d, r, d.threads == 1 ? one : got);
        for (int o = 0; o < r->n_out; o++)
            if (d.threads == 1) {
                compare(r, &d, o, &expected[o], &one[o]);
                if (kernel_result)
                    kernel_result(r->c, r->data, r->how, o, &one[o]);
            } else
                same_bits(r, d.threads == 2 ? "with 2 threads" : "with 3 threads", o, &one[o], &got[o]);
        if (d.threads > 1)
            case_free(r->n_out, got);
    }
    if (r->l == CONTIGUOUS && r->inplace < 0 && !kernel_brief) /* written over an input: the same bits */
        for (r->inplace = 0; r->inplace < r->c->n_in; r->inplace++)
            if (bit(ls_op_find(r->c->op)->inplace, r->inplace) &&
                ls_type_equal(&r->in[r->inplace].type, &r->out_type[0])) {
                d.threads = 2;
                run_on(&d, r, got);
                same_bits(r, "when written over an input", 0, &one[0], &got[0]);
                case_free(r->n_out, got);
            }
    r->inplace = -1;
    case_free(r->n_out, one);
}

/* One index of dimension 0 alone: the batch inputs cut to it, the others as they are. `full`: output 0 of
 * all. */
static void check_alone(const ls_device *d, const run *whole, const ls_tensor *full, int64_t index)
{
    const op_case *c = whole->c;
    ls_tensor in[CASE_MAX_IN], alone[LS_MAX_OUT];
    memcpy(in, whole->in, sizeof in);
    for (int j = 0; j < c->n_in; j++)
        if (bit(c->batch_in, j)) {
            in[j].type.dims[0] = 1;
            in[j].data = (char *)in[j].data +
                         index * in[j].strides[0] * (int64_t)ls_dtype_size(in[j].type.dtype);
        }
    run r = *whole;
    r.in = in;
    r.n_out = case_outputs(c, in, r.out_type);
    run_on(d, &r, alone);
    ls_tensor part = *full;
    part.type.dims[0] = 1;
    part.data = (char *)part.data + index * part.strides[0] * (int64_t)ls_dtype_size(part.type.dtype);
    same_bits(&r, "when computed alone", 0, &part, &alone[0]);
    case_free(r.n_out, alone);
}

/* The first, the middle and the last index; briefly only the last. */
static void check_some_alone(const ls_device *d, const run *r)
{
    ls_tensor full[LS_MAX_OUT];
    const int64_t last = r->out_type[0].dims[0] - 1;
    run_on(d, r, full);
    check_alone(d, r, &full[0], last);
    if (!kernel_brief && last > 0)
        check_alone(d, r, &full[0], 0);
    if (!kernel_brief && last > 1)
        check_alone(d, r, &full[0], last / 2);
    case_free(r->n_out, full);
}

bool kernel_exists(const op_case *c) { return !(ls_op_find(c->op)->flags & (LS_OP_SOURCE | LS_OP_VIEW)); }

int kernel_check(const ls_device *cpu, const op_case *c, ls_dtype data, case_extreme extreme)
{
    const ls_device ref = { .ops = &ls_device_ref, .threads = 1 };
    ls_tensor in[CASE_MAX_IN], expected[LS_MAX_OUT];
    case_inputs(c, data, extreme, 11, in);
    run r = { .c = c, .in = in, .inplace = -1, .data = data };
    r.n_out = case_outputs(c, in, r.out_type);
    const char *how = (const char *const[]){ "", ", special values", ", wide range",
                                             ", large values" }[extreme];
    const int n = snprintf(r.label, sizeof r.label, "%s%s%s%s, %s, %s%s", c->op,
                           c->what && *c->what ? " (" : "", c->what ? c->what : "",
                           c->what && *c->what ? ")" : "", ls_dtype_name(data), cpu->arch->name, how);
    int runs = 0;
    r.strides = kernel_of(cpu, &r);
    for (r.l = CONTIGUOUS; r.strides && r.l < (kernel_brief ? STRIDED : LAYOUTS); r.l++) {
        snprintf(r.label + n, sizeof r.label - (size_t)n, ", %s", LAYOUT_NAME[r.l]);
        snprintf(r.how, sizeof r.how, "%s%s", LAYOUT_NAME[r.l], how);
        if (r.l == REPEATED && !r.strides->any_in)
            continue;
        if (r.l != STRIDED) { /* strided operands have the values of contiguous ones */
            if (runs)
                case_free(r.n_out, expected);
            run_on(&ref, &r, expected);
        }
        check_layout(cpu, &r, expected);
        runs++;
    }
    if (runs)
        case_free(r.n_out, expected);
    r.l = CONTIGUOUS;
    r.label[n] = 0;
    if (r.strides && c->batch_in) {
        ls_device two = *cpu;
        two.threads = 2;
        check_some_alone(&two, &r);
    }
    case_free(c->n_in, in);
    return runs;
}
