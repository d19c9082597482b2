/* prepare.c - see prepare.h. */
#include "prepare.h"

#include "graph/tensor_attrs.h"

static ls_device ref(void) { return (ls_device){ .ops = &ls_device_ref, .threads = 1 }; }

void prepare_norm(const op_case *c, ls_tensor *in)
{
    const ls_device d = ref();
    ls_tensor y = { .type = in[1].type };
    y = ls_tensor_of(exact_alloc(ls_type_bytes(&y.type)), &y.type);
    run_op(&d, "layer_norm", c->attrs, 3, (ls_tensor[]){ in[1], in[2], in[2] }, 3,
           (ls_tensor[]){ y, in[3], in[4] });
    case_free(1, &y);
}

void prepare_rms_norm(const op_case *c, ls_tensor *in)
{
    const ls_device d = ref();
    ls_tensor y = ls_tensor_of(exact_alloc(ls_type_bytes(&in[1].type)), &in[1].type);
    run_op(&d, "rms_norm", c->attrs, 2, (ls_tensor[]){ in[1], in[2] }, 2, (ls_tensor[]){ y, in[3] });
    case_free(1, &y);
}

/* attention: q, k, v, bias?, ids: of sample b all but the first 1 + 5 b keys are padding, whose id is -100;
 * of the last sample all */
static void fill_ids(const ls_tensor *ids)
{
    const int64_t n = ids->type.dims[0], keys = ids->type.dims[1];
    for (int64_t i = 0; i < n * keys; i++)
        element_put(ids, i,
                    i % keys < 1 + 5 * (i / keys) && (n == 1 || i / keys < n - 1) ? (double)(i % 7) : -100);
}
void prepare_padding(const op_case *c, ls_tensor *in)
{
    if (c->in[4].fill == FILL_RESULT)
        fill_ids(&in[4]);
}

void prepare_attention(const op_case *c, ls_tensor *in)
{
    const ls_device d = ref();
    if (c->n_in > 7 && c->in[7].fill == FILL_RESULT)
        fill_ids(&in[7]);
    const ls_tensor none = { .type.ndim = -1 };
    ls_tensor operands[7] = { in[1], in[2], in[3], in[4], none, none, none };
    for (int j = 7; j < c->n_in; j++)
        operands[j - 3] = in[j];
    run_op_at(&d, "attention", c->attrs, c->at, 7, operands, 2, in + 5);
}

void prepare_softmax(const op_case *c, ls_tensor *in)
{
    const ls_device d = ref();
    run_op(&d, "softmax", c->attrs, 1, in, 1, in + 1); /* any softmax will do */
}

void prepare_log_softmax(const op_case *c, ls_tensor *in)
{
    const ls_device d = ref();
    run_op(&d, "log_softmax", c->attrs, 1, in, 1, in + 1);
}

void prepare_cross_entropy(const op_case *c, ls_tensor *in)
{
    const ls_device d = ref();
    ls_type scalar = LS_SCALAR(in[2].type.dtype);
    ls_tensor loss = ls_tensor_of(exact_alloc(ls_type_bytes(&scalar)), &scalar);
    ls_tensor rows = ls_tensor_of(exact_alloc(ls_type_bytes(&in[2].type)), &in[2].type);
    run_op(&d, "cross_entropy", c->attrs, 3, (ls_tensor[]){ in[0], in[1], in[3] }, 3,
           (ls_tensor[]){ loss, in[2], rows });
    case_free(1, &loss);
    case_free(1, &rows);
}

void prepare_squares(const op_case *c, ls_tensor *in)
{
    const ls_device d = ref();
    run_op(&d, "max_abs", NULL, c->n_in - 1, in + 1, 1, in);
}
void prepare_norm_from_squares(const op_case *c, ls_tensor *in)
{
    (void)c;
    const ls_device d = ref();
    float x[7] = { 3, -4, 0.5f, 1e-3f, 12, 84, -7 };
    ls_tensor t = ls_tensor_of(x, &LS_TYPE(LS_F32, 7));
    run_op(&d, "max_abs", NULL, 1, &t, 1, in);
    run_op(&d, "sum_squares", NULL, 2, (ls_tensor[]){ in[0], t }, 1, in + 1);
}

void prepare_max_pool(const op_case *c, ls_tensor *in)
{
    const ls_max_pool_attrs *a = c->attrs;
    const ls_device d = ref();
    op_case picture = { .n_in = 1,
                        .in = { { LS_F32,
                                  FILL_NORMAL,
                                  0,
                                  4,
                                  { in[0].type.dims[0], in[0].type.dims[1], a->height, a->width } } } };
    ls_tensor x[CASE_MAX_IN], y = in[0];
    case_inputs(&picture, LS_F32, EXTREME_NONE, 5, x);
    y.type.dtype = LS_F32;
    y = ls_tensor_of(exact_alloc(ls_type_bytes(&y.type)), &y.type);
    run_op(&d, "max_pool2d", a, 1, x, 2, (ls_tensor[]){ y, in[1] });
    case_free(1, x);
    case_free(1, &y);
}

void prepare_batch_norm(const op_case *c, ls_tensor *in)
{
    const ls_device d = ref();
    ls_tensor y = ls_tensor_of(exact_alloc(ls_type_bytes(&in[1].type)), &in[1].type);
    ls_tensor variance = ls_tensor_of(exact_alloc(ls_type_bytes(&in[3].type)), &in[3].type);
    run_op(&d, "batch_norm", c->attrs, 3, (ls_tensor[]){ in[1], in[2], in[2] }, 4,
           (ls_tensor[]){ y, in[3], in[4], variance });
    case_free(1, &y);
    case_free(1, &variance);
}

void prepare_group_norm(const op_case *c, ls_tensor *in)
{
    const ls_device d = ref();
    ls_tensor y = ls_tensor_of(exact_alloc(ls_type_bytes(&in[1].type)), &in[1].type);
    run_op(&d, "group_norm", c->attrs, 3, (ls_tensor[]){ in[1], in[2], in[2] }, 3,
           (ls_tensor[]){ y, in[3], in[4] });
    case_free(1, &y);
}

/* What the weights of a layer's input make of its tokens, of some size. */
static ls_tensor any_input(const ls_tensor *y, int64_t features)
{
    ls_type t = y->type;
    t.dims[2] = features;
    const ls_tensor x = ls_tensor_of(exact_alloc(ls_type_bytes(&t)), &t);
    for (int64_t i = 0; i < ls_type_count(&t); i++)
        element_put(&x, i, (double)(i * 37 % 101 - 50) / 32);
    return x;
}

void prepare_lstm(const op_case *c, ls_tensor *in)
{
    const ls_device d = ref();
    const ls_tensor none = { .type.ndim = -1 };
    ls_type t = in[4].type;
    t.dims[2] /= 4;
    ls_tensor x = any_input(&in[4], in[4].type.dims[2]);
    ls_tensor y = ls_tensor_of(exact_alloc(ls_type_bytes(&t)), &t);
    run_op(&d, "lstm", c->attrs, 4, (ls_tensor[]){ x, in[2], none, c->n_in > 5 ? in[5] : none }, 3,
           (ls_tensor[]){ y, in[3], in[4] });
    case_free(1, &x);
    case_free(1, &y);
}

void prepare_gru(const op_case *c, ls_tensor *in)
{
    const ls_device d = ref();
    const ls_tensor none = { .type.ndim = -1 };
    ls_tensor x = any_input(&in[3], in[1].type.dims[0]);
    run_op(&d, "gru", c->attrs, 4, (ls_tensor[]){ x, in[1], none, c->n_in > 4 ? in[4] : none }, 2, in + 2);
    case_free(1, &x);
}

void prepare_order(const op_case *c, ls_tensor *in)
{
    enum { GROUPS = 5 };
    const ls_device d = ref();
    const int64_t rows = c->in[1].dims[0], n = ((const ls_group_attrs *)c->attrs)->n;
    const ls_type types[] = { LS_TYPE(LS_I32, n, rows / n), LS_TYPE(LS_I32, GROUPS + 1) };
    ls_tensor index = ls_tensor_of(exact_alloc(ls_type_bytes(&types[0])), &types[0]),
              offsets = ls_tensor_of(exact_alloc(ls_type_bytes(&types[1])), &types[1]);
    for (int64_t i = 0; i < rows; i++)
        element_put(&index, i, (double)((i * 7 + i / 3) % GROUPS));
    run_op(&d, "group_order", &(ls_group_attrs){ .n = GROUPS }, 1, &index, 3,
           (ls_tensor[]){ in[1], in[2], offsets });
    case_free(1, &index);
    case_free(1, &offsets);
}

void prepare_begins(const op_case *c, ls_tensor *in)
{
    const int64_t n = ((const ls_received_attrs *)c->attrs)->ranks, each = c->in[0].dims[0] / n;
    for (int64_t i = 0; i < n * each; i++)
        element_put(&in[0], i, (double)((i / each + 1) * (i % each) * (i % each)));
}

void prepare_offsets(const op_case *c, ls_tensor *in)
{
    const int k = c->in[1].dtype == LS_I32 ? 1 : 2; /* dw has them last */
    const int64_t groups = c->in[k].dims[0] - 1, rows = c->in[0].dims[0] - (int64_t)c->in[k].value;
    for (int64_t g = 0; g <= groups; g++)
        element_put(&in[k], g, (double)(g < 2 && groups > 2 ? 0 : rows * g * g / (groups * groups)));
}
