/* linear_loss.c - linear and cross_entropy, with their gradients, for a few rows at a time. Rows without a
 * target are left out, in training; those that remain are copied together. The products and the loss of a
 * group of rows are those of gemm.c and loss.c, so every result has the bits of the separate ops.
 *
 * dw adds rows in blocks of LS_LOSS_BLOCK, as linear_dw does (gemm.h). In f32 the rows that are left out,
 * whose gradients are zero, change no bit of a block. So each block is added by itself. In 16 bits products
 * take rows in pairs, and the sums of a group would be rounded: there is no dw. */
#include "gemm.h"
#include "linear_loss.h"

_Static_assert((int)LS_LOSS_BLOCK == (int)GEMM_KC, "the blocks of dw");
enum { X, W, LABELS, BIAS, COUNT, DLOSS };

/* Sizes, and where the parts of the workspace begin. */
typedef struct loss_plan {
    int64_t rows, classes, depth, most; /* most: rows at a time */
    ls_dtype type;
    bool top, dx, dw;
    size_t chosen, x, z, labels, lse, part, first, weight, dxs, products;
    size_t bytes; /* of all parts but the products' */
} loss_plan;

/* Operands of a product of n rows, without memory. */
typedef struct rows_args {
    ls_kernel_args a;
    ls_tensor in[4], out[1];
    ls_linear_attrs linear;
    ls_linear_dw_attrs dw;
} rows_args;

static ls_tensor matrix(ls_dtype t, int64_t rows, int64_t cols, void *data)
{
    return (ls_tensor){ .data = data, .type = LS_TYPE(t, rows, cols), .strides = { cols, 1 } };
}
static ls_tensor line(ls_dtype t, int64_t n, void *data)
{
    return (ls_tensor){ .data = data, .type = LS_TYPE(t, n), .strides = { 1 } };
}
static const ls_tensor NONE = { .type.ndim = -1 };

static void product_of(rows_args *r, const ls_kernel_args *a, gemm_kind kind, int64_t n, char *x, char *z,
                       char *out)
{
    const ls_dtype t = a->in[X].type.dtype;
    const int64_t depth = cols_of(&a->in[X]), classes = rows_of(&a->in[W]);
    const ls_tensor xs = matrix(t, n, depth, x), zs = matrix(t, n, classes, z);
    memset(r, 0, sizeof *r);
    r->a = (ls_kernel_args){
        .n_in = 2, .n_out = 1, .in = r->in, .out = r->out, .threads = a->threads, .arch = a->arch
    };
    r->a.attrs = kind == GEMM_DW ? (const void *)&r->dw : (const void *)&r->linear;
    r->in[0] = kind == GEMM_LINEAR ? xs : zs;
    r->in[1] = kind == GEMM_DW ? xs : a->in[W];
    r->in[2] = r->in[3] = NONE;
    if (kind == GEMM_LINEAR && present(&a->in[BIAS])) {
        r->in[2] = a->in[BIAS];
        r->a.n_in = 3;
    }
    r->out[0] = kind == GEMM_LINEAR ? zs
                : kind == GEMM_DX   ? matrix(t, n, depth, out)
                                    : matrix(LS_F32, classes, depth, out);
}

static size_t product_bytes(const ls_kernel_args *a, gemm_kind kind, int64_t most)
{
    size_t bytes = 0;
    for (int64_t n = 1; n <= most; n++) { /* (they do not grow with n) */
        rows_args r;
        product_of(&r, a, kind, n, NULL, NULL, NULL);
        const size_t needs = LS_NAME(ls_gemm_kernels)[kind].workspace(&r.a);
        bytes = needs > bytes ? needs : bytes;
    }
    return bytes;
}

static size_t loss_place(loss_plan *p, int64_t bytes)
{
    const size_t at = p->bytes;
    p->bytes += (size_t)round_up(bytes, GEMM_LINE);
    return at;
}

static loss_plan plan_of(const ls_kernel_args *a)
{
    const ls_linear_loss_attrs *at = a->attrs;
    loss_plan p = { .rows = rows_of(&a->in[X]), .classes = rows_of(&a->in[W]), .depth = cols_of(&a->in[X]) };
    p.type = a->in[X].type.dtype;
    p.top = at->top;
    p.dx = at->dx;
    p.dw = at->dw;
    p.most = min_i64(at->rows, p.rows);
    const int64_t size = elem_size(p.type);
    p.chosen = loss_place(&p, p.rows * (int64_t)sizeof(int32_t));
    p.x = loss_place(&p, p.most * p.depth * size);
    p.z = loss_place(&p, p.most * p.classes * size);
    p.labels = loss_place(&p, p.most * (int64_t)sizeof(int32_t));
    p.lse = loss_place(&p, p.most * (int64_t)sizeof(float));
    p.part = loss_place(&p, p.most * (int64_t)sizeof(float));
    p.first = loss_place(&p, p.most * (int64_t)sizeof(int32_t));
    p.weight = loss_place(&p, p.most * (int64_t)sizeof(float));
    p.dxs = loss_place(&p, p.dx ? p.most * p.depth * size : 0);
    p.products = p.bytes; /* the workspace of the products is the last part */
    return p;
}

KERNEL_WORKSPACE(linear_cross_entropy)
{
    const loss_plan p = plan_of(a);
    size_t most = product_bytes(a, GEMM_LINEAR, p.most);
    for (int k = 0; k < 2; k++)
        if (k ? p.dw : p.dx) {
            const size_t bytes = product_bytes(a, k ? GEMM_DW : GEMM_DX, p.most);
            most = bytes > most ? bytes : most;
        }
    return p.bytes + most;
}

KERNEL_SUPPORTS(linear_cross_entropy)
{
    const ls_linear_loss_attrs *at = a->attrs;
    if (at->dw && (a->in[X].type.dtype != LS_F32 || cols_of(&a->in[X]) % 16))
        return "the weight's gradient needs f32, and a multiple of 16 features";
    return is_float16_or_32(a->in[X].type.dtype) ? NULL : "f64 is for device ref";
}

typedef struct loss_run {
    const ls_kernel_args *a;
    loss_plan p;
    char *room;
    int32_t *chosen; /* [n], ascending */
    int64_t n;
    char *dw; /* f32 [classes, depth] */
    bool added;
} loss_run;

/* The rows that are computed: all if predictions are wanted, else those with a target. */
static void choose_rows(loss_run *r)
{
    const int32_t *labels = r->a->in[LABELS].data;
    const int64_t ignore = ((const ls_linear_loss_attrs *)r->a->attrs)->ignore_index;
    for (int64_t i = 0; i < r->p.rows; i++)
        if (r->p.top || labels[i] != ignore)
            r->chosen[r->n++] = (int32_t)i;
}

/* Rows of `size` bytes, or elements: from their place among all to their place among the chosen, or back. */
static void collect_rows(const loss_run *r, int64_t begin, int64_t n, char *to, const void *from,
                         int64_t size)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(to + i * size, (const char *)from + r->chosen[begin + i] * size, (size_t)size);
}
static void spread_rows(const loss_run *r, int64_t begin, int64_t n, void *to, const char *from, int64_t size)
{
    for (int64_t i = 0; i < n; i++)
        memcpy((char *)to + r->chosen[begin + i] * size, from + i * size, (size_t)size);
}

static void multiply(const loss_run *r, gemm_kind kind, int64_t n, char *x, char *z, char *out)
{
    rows_args args;
    product_of(&args, r->a, kind, n, x, z, out);
    args.a.workspace = r->room + r->p.products;
    if (kind == GEMM_DW)
        LS_NAME(ls_gemm_add_dw)(&args.a, r->added);
    else
        LS_NAME(ls_gemm_kernels)[kind].run(&args.a);
}

/* Adds chosen rows [begin, begin + n) to dw: a block of all rows at a time, or several of which every row is
 * chosen. */
static void add_dw(loss_run *r, int64_t begin, int64_t n)
{
    const int64_t size = elem_size(r->p.type), end = begin + n;
    for (int64_t i = begin, next; i < end; i = next) {
        for (next = i + 1; next < end; next++)
            if ((next - i) % LS_LOSS_BLOCK &&
                r->chosen[next] / LS_LOSS_BLOCK != r->chosen[next - 1] / LS_LOSS_BLOCK)
                break;
        multiply(r, GEMM_DW, next - i, r->room + r->p.x + (i - begin) * r->p.depth * size,
                 r->room + r->p.z + (i - begin) * r->p.classes * size, r->dw);
        r->added = true;
    }
}

/* Chosen rows [begin, begin + n). */
static void group_of_rows(loss_run *r, int64_t begin, int64_t n)
{
    const ls_kernel_args *a = r->a;
    const ls_linear_loss_attrs *at = a->attrs;
    const loss_plan *p = &r->p;
    char *room = r->room, *x = room + p->x, *z = room + p->z;
    const int64_t row = p->depth * elem_size(p->type);
    const bool each = present(&a->in[DLOSS]) && a->in[DLOSS].type.ndim == 1;
    const ls_loss_attrs loss = { .ignore_index = at->ignore_index, .smoothing = at->smoothing };
    float total;
    collect_rows(r, begin, n, x, a->in[X].data, row);
    collect_rows(r, begin, n, room + p->labels, a->in[LABELS].data, sizeof(int32_t));
    multiply(r, GEMM_LINEAR, n, x, z, NULL);
    ls_kernel_args c = { .attrs = &loss, .threads = a->threads, .arch = a->arch };
    const ls_tensor logits = matrix(p->type, n, p->classes, z), labels = line(LS_I32, n, room + p->labels),
                    lse = line(LS_F32, n, room + p->lse), rows = line(LS_F32, n, room + p->part),
                    first = line(LS_I32, n, room + p->first);
    ls_tensor out[3] = { { .data = &total, .type = LS_SCALAR(LS_F32) }, lse, rows };
    ls_tensor in[5] = { logits, labels, NONE, NONE };
    c.in = in;
    c.out = out;
    c.n_in = 4;
    c.n_out = 3;
    LS_NAME(ls_cross_entropy)(&c);
    spread_rows(r, begin, n, a->out[1].data, room + p->part, sizeof(float));
    if (p->top) {
        out[0] = first;
        c.n_in = c.n_out = 1;
        LS_NAME(ls_argmax)(&c);
        spread_rows(r, begin, n, a->out[2].data, room + p->first, sizeof(int32_t));
    }
    if (!p->dx && !p->dw)
        return;
    in[2] = lse;
    in[3] = a->in[COUNT];
    in[4] = a->in[DLOSS];
    if (each) {
        collect_rows(r, begin, n, room + p->weight, a->in[DLOSS].data, sizeof(float));
        in[4] = line(LS_F32, n, room + p->weight);
    }
    out[0] = logits;
    c.n_in = 5;
    c.n_out = 1;
    LS_NAME(ls_cross_entropy_grad)(&c);
    if (p->dx) {
        multiply(r, GEMM_DX, n, NULL, z, room + p->dxs);
        spread_rows(r, begin, n, a->out[2 + p->top].data, room + p->dxs, row);
    }
    if (p->dw)
        add_dw(r, begin, n);
}

/* The end of the group of chosen rows that begins here. With dw, a block of rows is in one group. */
static int64_t group_end(const loss_run *r, int64_t begin)
{
    int64_t end = min_i64(begin + r->p.most, r->n);
    while (r->p.dw && end < r->n && r->chosen[end] / LS_LOSS_BLOCK == r->chosen[end - 1] / LS_LOSS_BLOCK)
        end--;
    return end;
}

KERNEL(linear_cross_entropy) /* x, w, labels, bias?, count?, dloss? -> loss, rows, top?, dx?, dw? */
{
    loss_run r = { .a = a, .p = plan_of(a), .room = a->workspace };
    r.chosen = (int32_t *)(void *)(r.room + r.p.chosen);
    if (r.p.dw)
        r.dw = a->out[a->n_out - 1].data;
    choose_rows(&r);
    memset(a->out[1].data, 0, (size_t)r.p.rows * sizeof(float));
    if (r.p.dx && r.n < r.p.rows) /* rows without a target */
        memset(a->out[2 + r.p.top].data, 0, (size_t)(r.p.rows * r.p.depth * elem_size(r.p.type)));
    for (int64_t begin = 0, end; begin < r.n; begin = end) {
        end = group_end(&r, begin);
        group_of_rows(&r, begin, end - begin);
    }
    if (r.p.dw && !r.added)
        memset(r.dw, 0, (size_t)(r.p.classes * r.p.depth) * sizeof(float));
    LS_NAME(ls_loss_total)
    (a->out[0].data, a->out[1].data, r.p.rows,
     present(&a->in[COUNT]) ? *(const float *)a->in[COUNT].data : 1.0f);
}
