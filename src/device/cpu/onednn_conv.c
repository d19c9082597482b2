/* onednn_conv.c - conv2d, conv2d_dx and conv2d_dw computed by oneDNN (kernels: onednn), as onednn.c does for
 * products. Operands keep the order that all kernels use. The library's blocked layouts exist inside an op
 * only, so each op pays for copies to them and back. */
#ifdef LS_HAVE_ONEDNN
#include "onednn.h"

static onednn_key key_of(const ls_kernel_args *a, ls_conv_kind kind)
{
    onednn_key k;
    memset(&k, 0, sizeof k);
    k.kind = ONEDNN_CONV;
    k.dtype = a->in[0].type.dtype;
    k.threads = a->threads < 1 ? 1 : a->threads;
    k.conv.kind = kind;
    k.conv.s = ls_conv_of(a, kind);
    if (kind == LS_CONV_Y)
        k.conv.s.at.bias = a->n_in > 2 && a->in[2].type.ndim >= 0;
    return k;
}

static size_t onednn_conv_workspace(const ls_kernel_args *a, ls_conv_kind kind)
{
    const onednn_key k = key_of(a, kind);
    const onednn_op *o = ls_onednn_find(&k);
    return o ? ls_onednn_scratch(o) : 0;
}

static void onednn_conv_run(const ls_kernel_args *a, ls_conv_kind kind)
{
    const onednn_key k = key_of(a, kind);
    const void *operands[ONEDNN_OPERANDS] = { a->in[0].data, a->in[1].data };
    int n = 2;
    if (kind == LS_CONV_Y && k.conv.s.at.bias)
        operands[n++] = a->in[2].data;
    operands[n++] = a->out[0].data;
    if (kind == LS_CONV_DW && k.conv.s.at.bias)
        operands[n++] = a->out[1].data;
    ls_onednn_run(ls_onednn_find(&k), operands, a->workspace);
}

static const char *supports(const ls_kernel_args *a, ls_conv_kind kind)
{
    for (int i = 0; i < a->n_in + a->n_out; i++) {
        const ls_type *t = i < a->n_in ? &a->in[i].type : &a->out[i - a->n_in].type;
        if (t->ndim >= 0 && ((t->dtype != LS_F32 && t->dtype != LS_BF16 && t->dtype != LS_F16) ||
                             t->dtype != a->in[0].type.dtype))
            return "kernels: onednn wants operands of one type, f32 or bf16";
    }
    const onednn_key k = key_of(a, kind);
    return ls_onednn_find(&k)
               ? NULL
               : "this oneDNN has no such convolution of this type on this CPU (kernels: own has)";
}

#define FUNCTIONS(name, kind)                                                                               \
    void ls_onednn_##name(const ls_kernel_args *a) { onednn_conv_run(a, kind); }                            \
    size_t ls_onednn_##name##_workspace(const ls_kernel_args *a) { return onednn_conv_workspace(a, kind); } \
    const char *ls_onednn_##name##_supports(const ls_kernel_args *a) { return supports(a, kind); }
FUNCTIONS(conv2d, LS_CONV_Y)
FUNCTIONS(conv2d_dx, LS_CONV_DX)
FUNCTIONS(conv2d_dw, LS_CONV_DW)
#else
typedef int ls_onednn_not_built;
#endif
