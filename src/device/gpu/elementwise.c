/* elementwise.c - see elementwise.h. */
#include "elementwise.h"
#include <stdarg.h>

#include "base/c_locale.h"
#include "base/check.h"
#include "kernels/elementwise.h"
#include "shapes.h"

enum { THREADS = 256 };

void ls_gpu_put(ls_gpu_text *t, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const int n = ls_vsnprintf(t->at + t->n, sizeof t->at - t->n, format, list);
    va_end(list);
    LS_CHECK(n >= 0 && (size_t)n < sizeof t->at - t->n);
    t->n += (size_t)n;
}

static const char *raw(const ls_tensor *t)
{
    switch (ls_dtype_size(t->type.dtype)) {
    case 1: return "u8";
    case 2: return "u16";
    case 4: return "u32";
    default: return "u64";
    }
}

/* Equal programs on equal types have the same text. */
static void write_text(ls_gpu_text *t, ls_gpu_registers kind, int n, const ls_tensor *in,
                       const ls_tensor *out, const char *steps, int result, int wide)
{
    const char *value = kind == LS_GPU_FLOATS     ? "float"
                        : kind == LS_GPU_INTEGERS ? "i64"
                                                  : raw(out),
               *type = kind == LS_GPU_RAW ? value : ls_gpu_type(out);
    ls_gpu_put(t,
               "#include \"dialect.h\"\n#include \"opcodes.h\"\n#define VALUE %s\n#define INPUTS %d\n"
               "#define WIDE %d\n#define OUT %s\n#define OF_VALUE",
               value, n, wide, type);
    if (kind == LS_GPU_FLOATS)
        ls_gpu_put(t, " %s_of_float", type);
    else if (kind == LS_GPU_INTEGERS)
        ls_gpu_put(t, " (%s)", type);
    ls_gpu_put(t, "\n#define EACH_INPUT(DO)");
    for (int k = 0; k < n; k++) {
        if (kind == LS_GPU_FLOATS)
            ls_gpu_put(t, " DO(%d, %s, %s_to_float)", k, ls_gpu_type(&in[k]), ls_gpu_type(&in[k]));
        else if (kind == LS_GPU_INTEGERS)
            ls_gpu_put(t, " DO(%d, %s, (i64))", k, ls_gpu_type(&in[k]));
        else
            ls_gpu_put(t, " DO(%d, %s, )", k, value);
    }
    ls_gpu_put(t, "\n#define REGISTERS(e)");
    for (int k = 0; k < n; k++)
        ls_gpu_put(t, "%s x%d[e]", k ? "," : "", k);
    ls_gpu_put(t, "\nDEVICE VALUE chain(");
    for (int k = 0; k < n; k++)
        ls_gpu_put(t, "%sVALUE r%d", k ? ", " : "", k);
    ls_gpu_put(t, ")\n{\n%s    return r%d;\n}\n", steps, result);
}

/* Bytes of `wide` elements that are loaded at once. */
static int64_t piece(const ls_tensor *t, int wide)
{
    const int64_t bytes = wide * (int64_t)ls_dtype_size(t->type.dtype);
    return bytes < 16 ? bytes : 16;
}

/* Whether vectors of neighbours may be loaded: rows consist of whole vectors, which begin at multiples of
 * their size. One row may have a rest. */
static bool in_vectors(const ls_gpu_dims *d, int n, const ls_tensor *in, const ls_tensor *out, int wide)
{
    const int last = d->ndim - 1;
    if ((uintptr_t)out->data % (uint64_t)piece(out, wide) || (d->ndim > 1 && d->size[last] % wide))
        return false;
    for (int k = 0; k < n; k++) {
        if (d->strides[k][last] == 0)
            continue;
        if (d->strides[k][last] != 1 || (uintptr_t)in[k].data % (uint64_t)piece(&in[k], wide))
            return false;
        for (int i = 0; i < last; i++)
            if (d->strides[k][i] * (int64_t)ls_dtype_size(in[k].type.dtype) % piece(&in[k], wide))
                return false;
    }
    return true;
}

void ls_gpu_elementwise(struct ls_queue *q, ls_gpu_registers kind, int n, const ls_tensor *in,
                        const ls_tensor *out, const char *steps, int result)
{
    size_t smallest = ls_dtype_size(out->type.dtype), largest = smallest;
    for (int k = 0; k < n; k++) {
        const size_t size = ls_dtype_size(in[k].type.dtype);
        smallest = size < smallest ? size : smallest;
        largest = size > largest ? size : largest;
    }
    /* 16 bytes of the smallest type, but not more than 32 of the largest */
    int wide = (int)(16 / smallest);
    while (wide * (int)largest > 32)
        wide /= 2;

    ls_gpu_dims d;
    ls_gpu_dims_broadcast(&d, &out->type, n, in);
    elementwise_args a = { .n = ls_gpu_count(&out->type), .out = ls_gpu_at(out->data) };
    for (int k = 0; k < n; k++)
        a.in[k] = ls_gpu_strided(&in[k], &d, k);
    const bool vectors = in_vectors(&d, n, in, out, wide);
    if (vectors && d.ndim > 1)
        d.size[d.ndim - 1] /= wide;
    a.shape = ls_gpu_shape(d.ndim, d.size);
    ls_gpu_text text;
    text.n = 0;
    write_text(&text, kind, n, in, out, steps, result, wide);
    ls_gpu_run(q, &(ls_gpu_launch){ .file = "elementwise.cu",
                                    .function = vectors ? "vectors" : "each",
                                    .before = text.at,
                                    .blocks = ls_gpu_blocks(a.n, THREADS * (vectors ? wide : 1)),
                                    .args = &a,
                                    .bytes = offsetof(elementwise_args, in) + (size_t)n * sizeof a.in[0] });
}
