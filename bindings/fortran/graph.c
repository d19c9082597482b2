/* graph.c - builder calls of module lockstep_graph that are not the library's own functions: they have texts,
 * dimensions or options. */
#define LS_NO_CALL_SITES
#include <stdlib.h>
#include <string.h>

#include "glue.h"

/* Names are short: one that is too long is refused by the library as an empty one. */
#define NAME(name, text) \
    char name[LSF_TEXT]; \
    lsf_text(name, text)

static int ndim_of(const ls_graph *g, const ls_value *v) { return ls_value_type(g, *v).ndim; }

/* Dimension d of Fortran, from 1 on, of a value; LS_MAX_DIMS, which the library refuses, if there is none. */
static int dim_of(const ls_graph *g, const ls_value *v, int d)
{
    const int n = ndim_of(g, v);
    return d >= 1 && d <= n ? n - d : LS_MAX_DIMS;
}

ls_status lsf_build(ls_graph *g, const void *config, int64_t batch)
{
    ((const lsf_builder *)config)->build(g, (int)batch);
    return ls_graph_finish(g);
}

static ls_type type_of(ls_dtype dtype, const CFI_cdesc_t *dims)
{
    ls_type t = { .dtype = dtype };
    t.ndim = lsf_dims(t.dims, dims);
    return t;
}

ls_value lsf_input(ls_graph *g, const CFI_cdesc_t *name, const CFI_cdesc_t *dims, const int *dtype)
{
    NAME(text, name);
    return ls_input(g, text, type_of(dtype ? (ls_dtype)*dtype : LS_F32, dims));
}

ls_value lsf_param(ls_graph *g, const CFI_cdesc_t *name, const CFI_cdesc_t *dims, int kind, const double *a,
                   const double *b)
{
    NAME(text, name);
    const ls_init init = { (ls_init_kind)kind, a ? *a : 0, b ? *b : 0 };
    return ls_param(g, text, type_of(LS_F32, dims), init);
}

ls_value lsf_fill(ls_graph *g, const CFI_cdesc_t *dims, double value)
{
    return ls_fill(g, type_of(LS_F32, dims), value);
}

void lsf_output(ls_graph *g, const CFI_cdesc_t *name, const ls_value *v)
{
    NAME(text, name);
    ls_output(g, text, *v);
}

int lsf_size(const ls_graph *g, const ls_value *v, int d)
{
    const ls_type t = ls_value_type(g, *v);
    return !d ? t.ndim : d >= 1 && d <= t.ndim ? (int)t.dims[t.ndim - d] : -1;
}

ls_value lsf_reshape(ls_graph *g, const ls_value *a, const CFI_cdesc_t *dims)
{
    int64_t list[LS_MAX_DIMS];
    const int n = lsf_dims(list, dims);
    return ls_reshape_dims(g, *a, n, list);
}

ls_value lsf_broadcast(ls_graph *g, const ls_value *a, const CFI_cdesc_t *dims)
{
    int64_t list[LS_MAX_DIMS];
    const int n = lsf_dims(list, dims);
    return ls_broadcast_dims(g, *a, n, list);
}

ls_value lsf_sum_to(ls_graph *g, const ls_value *a, const CFI_cdesc_t *dims)
{
    int64_t list[LS_MAX_DIMS];
    const int n = lsf_dims(list, dims);
    return ls_sum_to(g, *a, n, list);
}

ls_value lsf_permute(ls_graph *g, const ls_value *a, const CFI_cdesc_t *dims)
{
    int64_t list[LS_MAX_DIMS] = { 0 };
    const int n = lsf_dims(list, dims);
    for (int i = 0; i < n && i < LS_MAX_DIMS; i++)
        list[i] = n - list[i]; /* a dimension that is not there stays out of range */
    return ls_permute_dims(g, *a, n, list);
}

ls_value lsf_slice(ls_graph *g, const ls_value *a, int dim, int first, int count)
{
    return ls_slice(g, *a, dim_of(g, a, dim), first - 1, count);
}

ls_value lsf_cumsum(ls_graph *g, const ls_value *a, int dim) { return ls_cumsum(g, *a, dim_of(g, a, dim)); }
ls_value lsf_gather(ls_graph *g, const ls_value *a, int dim, const ls_value *index)
{
    return ls_gather(g, *a, dim_of(g, a, dim), *index);
}
ls_value lsf_index_select(ls_graph *g, const ls_value *a, int dim, const ls_value *index)
{
    return ls_index_select(g, *a, dim_of(g, a, dim), *index);
}

ls_value lsf_scatter_add(ls_graph *g, const ls_value *a, int dim, const ls_value *index, const ls_value *x)
{
    return ls_scatter_add(g, *a, dim_of(g, a, dim), *index, *x);
}
ls_value lsf_index_add(ls_graph *g, const ls_value *a, int dim, const ls_value *index, const ls_value *x)
{
    return ls_index_add(g, *a, dim_of(g, a, dim), *index, *x);
}

ls_value lsf_concat(ls_graph *g, int dim, const CFI_cdesc_t *parts)
{
    const CFI_index_t n = parts->dim[0].extent;
    const ls_value failed = { .id = -1 };
    ls_value *list = calloc((size_t)(n > 0 ? n : 1), sizeof *list);
    if (!list) {
        ls_fail(LS_E_MEMORY, "out of memory for ls_concat");
        return failed;
    }
    for (CFI_index_t i = 0; i < n; i++)
        memcpy(&list[i], (const char *)parts->base_addr + i * parts->dim[0].sm, sizeof *list);
    const ls_value v = ls_concat(g, n > 0 ? dim_of(g, &list[0], dim) : 0, (int)n, list);
    free(list);
    return v;
}

void lsf_scope_push(ls_graph *g, const CFI_cdesc_t *name, const CFI_cdesc_t *block)
{
    NAME(text, name);
    NAME(class, block);
    ls_scope_push(g, text, class);
}

/* The graph keeps the address of the file's name, so it must stay: each name is stored once. */
void lsf_at(ls_graph *g, const CFI_cdesc_t *file, int line)
{
    static struct file {
        struct file *next;
        char name[];
    } * _Atomic files;
    NAME(text, file);
    struct file *f = files;
    while (f && strcmp(f->name, text))
        f = f->next;
    if (!f && (f = malloc(sizeof *f + strlen(text) + 1))) {
        strcpy(f->name, text);
        f->next = files;
        while (!__atomic_compare_exchange_n((struct file **)&files, &f->next, f, false, __ATOMIC_SEQ_CST,
                                            __ATOMIC_SEQ_CST))
            ;
    }
    if (f)
        ls_at(g, f->name, line);
}

/* ---- the library's calls as they are, but with values by reference (lockstep_graph.f90 says why) */

#define OP1(op) \
    ls_value lsf_##op(ls_graph *g, const ls_value *a) { return ls_##op(g, *a); }
#define OP2(op) \
    ls_value lsf_##op(ls_graph *g, const ls_value *a, const ls_value *b) { return ls_##op(g, *a, *b); }
#define OP3(op)                                                                             \
    ls_value lsf_##op(ls_graph *g, const ls_value *a, const ls_value *b, const ls_value *c) \
    {                                                                                       \
        return ls_##op(g, *a, *b, *c);                                                      \
    }
#define OP_CONSTANT(op) \
    ls_value lsf_##op(ls_graph *g, const ls_value *a, double c) { return ls_##op(g, *a, c); }

OP1(neg)
OP1(sqrt)
OP1(exp)
OP1(log_e)
OP1(tanh)
OP1(square)
OP1(abs)
OP1(sign)
OP1(sin)
OP1(cos)
OP1(sigmoid)
OP1(softplus)
OP1(hardswish)
OP1(relu)
OP1(gelu)
OP1(gelu_tanh)
OP1(silu)
OP1(softmax)
OP1(log_softmax)
OP1(argmax)
OP2(add)
OP2(sub)
OP2(mul)
OP2(div)
OP2(max)
OP2(min)
OP2(pow)
OP2(gt)
OP2(ge)
OP2(eq)
OP2(swiglu)
OP2(embedding_op)
OP2(cross_entropy)
OP2(correct)
OP3(where)
OP3(matmul_wt)
OP_CONSTANT(leaky_relu)
OP_CONSTANT(elu)
OP_CONSTANT(add_const)
OP_CONSTANT(mul_const)
OP_CONSTANT(div_const)
OP_CONSTANT(pow_const)

ls_value lsf_nth(ls_graph *g, const ls_value *v, int n) { return ls_nth(g, *v, n); }
ls_value lsf_cast(ls_graph *g, const ls_value *a, int dtype) { return ls_cast(g, *a, (ls_dtype)dtype); }
ls_value lsf_clamp(ls_graph *g, const ls_value *a, double low, double high)
{
    return ls_clamp(g, *a, low, high);
}

/* ---- losses and metrics */

void lsf_loss(ls_graph *g, const CFI_cdesc_t *name, const ls_value *rows, double factor, int weigh,
              const CFI_cdesc_t *field)
{
    NAME(text, name);
    NAME(of, field);
    ls_loss(g, text, *rows, factor, (ls_weigh)weigh, of[0] ? of : NULL);
}

void lsf_loss_scalar(ls_graph *g, const CFI_cdesc_t *name, const ls_value *v, double factor)
{
    NAME(text, name);
    ls_loss_scalar(g, text, *v, factor);
}

void lsf_measure(ls_graph *g, const CFI_cdesc_t *name, const ls_value *rows, int how, int weigh,
                 const CFI_cdesc_t *field)
{
    NAME(text, name);
    NAME(of, field);
    ls_measure(g, text, *rows, (ls_how)how, (ls_weigh)weigh, of[0] ? of : NULL);
}

void lsf_measure_against(ls_graph *g, const CFI_cdesc_t *name, int kind, const ls_value *predicted,
                         const ls_value *target, int weigh, const CFI_cdesc_t *field)
{
    NAME(text, name);
    NAME(of, field);
    ls_measure_against(g, text, (ls_metric_kind)kind, *predicted, *target, (ls_weigh)weigh,
                       of[0] ? of : NULL);
}

ls_value lsf_loss_rows(ls_graph *g, int kind, const ls_value *output, const ls_value *target,
                       const double *delta)
{
    return ls_loss_rows(g, (ls_loss_kind)kind, *output, *target, delta ? *delta : 1);
}

ls_scaling lsf_scaling_of(ls_graph *g, const CFI_cdesc_t *field, int channels)
{
    NAME(text, field);
    return ls_scaling_of(g, text, channels);
}

ls_value lsf_scale(ls_graph *g, const ls_scaling *s, const ls_value *x) { return ls_scale(g, *s, *x); }
ls_value lsf_unscale(ls_graph *g, const ls_scaling *s, const ls_value *x) { return ls_unscale(g, *s, *x); }

/* ---- products and reductions */

/* Fortran's a b is, with the dimensions turned around, b a. */
ls_value lsf_matmul(ls_graph *g, const ls_value *a, const ls_value *b, int transpose_a, int transpose_b)
{
    return ls_matmul(g, *b, *a, transpose_b, transpose_a);
}

static int over(const ls_graph *g, const ls_value *a, const int *dim)
{
    return dim ? dim_of(g, a, *dim) : LS_ALL_DIMS;
}

ls_value lsf_sum(ls_graph *g, const ls_value *a, const int *dim, int keep)
{
    return ls_sum(g, *a, over(g, a, dim), keep);
}
ls_value lsf_mean(ls_graph *g, const ls_value *a, const int *dim, int keep)
{
    return ls_mean(g, *a, over(g, a, dim), keep);
}
ls_value lsf_amax(ls_graph *g, const ls_value *a, const int *dim, int keep)
{
    return ls_amax(g, *a, over(g, a, dim), keep);
}
ls_value lsf_variance(ls_graph *g, const ls_value *a, const int *dim, int keep, const double *correction)
{
    return ls_variance(g, *a, over(g, a, dim), keep, correction ? *correction : 1);
}
ls_value lsf_argmax_over(ls_graph *g, const ls_value *a, const int *dim, int keep)
{
    return ls_argmax_over(g, *a, over(g, a, dim), keep);
}
