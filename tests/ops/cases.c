/* cases.c - the table. Sizes are small and odd on purpose: below, at and above vector widths, tiles and
 * blocks of 64 rows; every optional operand is there once and absent once. */
#include "cases.h"

/* clang-format off */
#define ARRAY(type, ...) (const type[]){ __VA_ARGS__ }
#define COUNT(type, ...) (int64_t)(sizeof((const type[]){ __VA_ARGS__ }) / sizeof(type))
#define I64S(...) { COUNT(int64_t, __VA_ARGS__), ARRAY(int64_t, __VA_ARGS__) }
#define F64S(...) { COUNT(double, __VA_ARGS__), ARRAY(double, __VA_ARGS__) }
#define ATTRS(type, ...) &(const type){ __VA_ARGS__ }
#define CODE(...) I64S(__VA_ARGS__)

/* Operands. */
#define X(...) { DATA, FILL_NORMAL, 0, (int)COUNT(int64_t, __VA_ARGS__), { __VA_ARGS__ } }
#define PLAIN(...) { DATA, FILL_PLAIN, 0, (int)COUNT(int64_t, __VA_ARGS__), { __VA_ARGS__ } }
#define POSITIVE(...) { DATA, FILL_POSITIVE, 0, (int)COUNT(int64_t, __VA_ARGS__), { __VA_ARGS__ } }
#define TYPED(t, ...) { t, FILL_NORMAL, 0, (int)COUNT(int64_t, __VA_ARGS__), { __VA_ARGS__ } }
#define TYPED_POSITIVE(t, ...) { t, FILL_POSITIVE, 0, (int)COUNT(int64_t, __VA_ARGS__), { __VA_ARGS__ } }
#define INDEX(n, ...) { LS_I32, FILL_INDEX, n, (int)COUNT(int64_t, __VA_ARGS__), { __VA_ARGS__ } }
#define ID(n, ...) { LS_I32, FILL_ID, n, (int)COUNT(int64_t, __VA_ARGS__), { __VA_ARGS__ } }
#define SCALAR(t, x) { t, FILL_CONST, x, 0, { 0 } }
#define X_SCALAR { DATA, FILL_NORMAL, 0, 0, { 0 } }
#define RESULT(t, ...) { t, FILL_RESULT, 0, (int)COUNT(int64_t, __VA_ARGS__), { __VA_ARGS__ } }
#define RESULT_SCALAR(t) { t, FILL_RESULT, 0, 0, { 0 } }
#define ABSENT { 0, FILL_CONST, 0, -1, { 0 } }
/* clang-format on */

static ls_device ref(void) { return (ls_device){ .ops = &ls_device_ref, .threads = 1 }; }

/* layer_norm_grad: dy, x, gain, mean, rstd, addend? */
static void prepare_norm(const op_case *c, ls_tensor *in)
{
    const ls_device d = ref();
    ls_tensor y = { .type = in[1].type };
    y = ls_tensor_of(exact_alloc(ls_type_bytes(&y.type)), &y.type);
    run_op(&d, "layer_norm", c->attrs, 3, (ls_tensor[]){ in[1], in[2], in[2] }, 3,
           (ls_tensor[]){ y, in[3], in[4] });
    case_free(1, &y);
}

/* rms_norm_grad: dy, x, gain, rstd, addend? */
static void prepare_rms_norm(const op_case *c, ls_tensor *in)
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
static void prepare_padding(const op_case *c, ls_tensor *in)
{
    if (c->in[4].fill == FILL_RESULT)
        fill_ids(&in[4]);
}

/* attention_grad: dy, q, k, v, bias?, y, lse, ids?, key? */
static void prepare_attention(const op_case *c, ls_tensor *in)
{
    const ls_device d = ref();
    if (c->n_in > 7 && c->in[7].fill == FILL_RESULT)
        fill_ids(&in[7]);
    const ls_tensor none = { .type.ndim = -1 };
    run_op_at(
        &d, "attention", c->attrs, c->at, 6,
        (ls_tensor[]){ in[1], in[2], in[3], in[4], c->n_in > 7 ? in[7] : none, c->n_in > 8 ? in[8] : none },
        2, in + 5);
}

/* softmax_grad: dy, y */
static void prepare_softmax(const op_case *c, ls_tensor *in)
{
    const ls_device d = ref();
    run_op(&d, "softmax", c->attrs, 1, in, 1, in + 1); /* any softmax will do */
}

/* cross_entropy_grad: logits, labels, lse, count, dloss */
static void prepare_cross_entropy(const op_case *c, ls_tensor *in)
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

/* sum_squares: max, tensors; norm_from_squares: max, total, with a third operand beyond n_in that is summed
 */
static void prepare_squares(const op_case *c, ls_tensor *in)
{
    const ls_device d = ref();
    run_op(&d, "max_abs", NULL, c->n_in - 1, in + 1, 1, in);
}
static void prepare_norm_from_squares(const op_case *c, ls_tensor *in)
{
    (void)c;
    const ls_device d = ref();
    float x[7] = { 3, -4, 0.5f, 1e-3f, 12, 84, -7 };
    ls_tensor t = ls_tensor_of(x, &LS_TYPE(LS_F32, 7));
    run_op(&d, "max_abs", NULL, 1, &t, 1, in);
    run_op(&d, "sum_squares", NULL, 2, (ls_tensor[]){ in[0], t }, 1, in + 1);
}

/* max_pool2d_grad: dy, where; the positions of the largest of a random picture */
static void prepare_max_pool(const op_case *c, ls_tensor *in)
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

/* batch_norm_grad: dy, x, gain, mean, rstd */
static void prepare_batch_norm(const op_case *c, ls_tensor *in)
{
    const ls_device d = ref();
    ls_tensor y = ls_tensor_of(exact_alloc(ls_type_bytes(&in[1].type)), &in[1].type);
    ls_tensor variance = ls_tensor_of(exact_alloc(ls_type_bytes(&in[3].type)), &in[3].type);
    run_op(&d, "batch_norm", c->attrs, 3, (ls_tensor[]){ in[1], in[2], in[2] }, 4,
           (ls_tensor[]){ y, in[3], in[4], variance });
    case_free(1, &y);
    case_free(1, &variance);
}

/* clang-format off */
/* BOX(n, { sizes of the whole }, { starts }, { sizes }) */
#define BOX(n, ...) (&(const ls_box){ n, __VA_ARGS__ })
#define ATTENTION(D, c, s) ATTRS(ls_attention_attrs, .head_dim = D, .causal = c, .scale = s, .pad = -100)
#define ATTENTION_DROPPED(D, c) ATTRS(ls_attention_attrs, .head_dim = D, .causal = c, .scale = 0.4, \
    .dropout = 0.3, .purpose = 0x1234567890abcdef)
#define KEY { LS_I64, FILL_ID, 1e15, 1, { 3 } }
#define LINEAR_ACT(a) ATTRS(ls_linear_attrs, .act = a)
/* Rows of no whole number of groups of 64, parts of them, a plane beyond 2^32. */
#define DROPOUT(about, x, ...) \
    { .op = "dropout", .what = about, .n_in = 2, .in = { x, KEY }, \
      .attrs = ATTRS(ls_dropout_attrs, 0.3, 0x1234567890abcdef), __VA_ARGS__, \
      .compare = COMPARE_EXACT, .extreme = EXTREME_SPECIAL }
#define BINARY(name, ...) { .op = name, .n_in = 2, .in = { __VA_ARGS__ }, .compare = COMPARE_EXACT, \
    .extreme = EXTREME_SPECIAL }
#define UNARY(name, x, cmp, ...) { .op = name, .n_in = 1, .in = { x }, .compare = cmp, \
    .extreme = EXTREME_SPECIAL, __VA_ARGS__ }
#define NUMBER(name, x) \
    { .op = name, .n_in = 1, .in = { X(3, 37) }, .attrs = ATTRS(ls_number_attrs, x), \
        .compare = COMPARE_EXACT, .extreme = EXTREME_SPECIAL }
#define LINEAR(about, R, K, N, ...) \
    { .op = "linear", .what = about, .n_in = 2, .in = { X(R, K), X(N, K) }, \
        .attrs = LINEAR_ACT(LS_ACT_NONE), .compare = COMPARE_SUM, \
      .reduce = K, .extreme = EXTREME_WIDE, .batch_in = 1, __VA_ARGS__ }
#define LINEAR_DX(about, R, N, K, ...) \
    { .op = "linear_dx", .what = about, .n_in = 2, .in = { X(R, N), X(N, K) }, \
        .attrs = LINEAR_ACT(LS_ACT_NONE), .compare = COMPARE_SUM, \
      .reduce = N, .extreme = EXTREME_WIDE, .batch_in = 1, __VA_ARGS__ }
#define LINEAR_DW(about, R, N, K, b) \
    { .op = "linear_dw", .what = about, .n_in = 2, .in = { X(R, N), X(R, K) }, \
        .attrs = ATTRS(ls_linear_dw_attrs, .bias = b), \
      .compare = COMPARE_SUM, .reduce = R, .extreme = EXTREME_WIDE }
#define NORM(R, K, ...) \
    { .op = "layer_norm", .n_in = 3, .in = { X(R, K), X(K), X(K) }, .attrs = ATTRS(ls_norm_attrs, 1e-5), \
        .compare = COMPARE_SUM, \
      .reduce = K, .extreme = EXTREME_WIDE, .batch_in = 1, __VA_ARGS__ }
#define NORM_GRAD(R, K, n, ...) \
    { .op = "layer_norm_grad", .n_in = n, .in = { X(R, K), X(R, K), X(K), RESULT(STAT, R), RESULT(STAT, R), \
        __VA_ARGS__ }, \
      .attrs = ATTRS(ls_norm_attrs, 1e-5), .prepare = prepare_norm, .compare = COMPARE_SUM, \
          .reduce = K > R ? K : R, \
      .batch_in = 1 | 2 | 8 | 16 | (n > 5 ? 32 : 0) }
#define RMS_NORM(R, K) \
    { .op = "rms_norm", .n_in = 2, .in = { X(R, K), X(K) }, .attrs = ATTRS(ls_norm_attrs, 1e-5), \
        .compare = COMPARE_SUM, .reduce = K, \
      .extreme = EXTREME_WIDE, .batch_in = 1 }
#define RMS_NORM_GRAD(R, K, n, ...) \
    { .op = "rms_norm_grad", .n_in = n, .in = { X(R, K), X(R, K), X(K), RESULT(STAT, R), __VA_ARGS__ }, \
        .attrs = ATTRS(ls_norm_attrs, 1e-5), \
      .prepare = prepare_rms_norm, .compare = COMPARE_SUM, .reduce = K > R ? K : R, \
          .batch_in = 1 | 2 | 8 | (n > 4 ? 16 : 0) }
#define EMBEDDING(about, ids, table, ...) \
    { .op = "embedding", .what = about, .n_in = 2, .in = { ids, table }, \
        .compare = COMPARE_EXACT, __VA_ARGS__ }
#define EMBEDDING_GRAD(about, rows, n, ...) \
    { .op = "embedding_grad", .what = about, .n_in = n, .in = { __VA_ARGS__ }, \
        .attrs = ATTRS(ls_embedding_attrs, rows), .compare = COMPARE_SUM, \
      .reduce = 131, .extreme = EXTREME_WIDE }
#define ROPE(about, D, back, n, ...) \
    { .op = "rope", .what = about, .n_in = n, .in = { __VA_ARGS__ }, \
        .attrs = ATTRS(ls_rope_attrs, .head_dim = D, .inverse = back, .theta = 1e4), \
      .compare = COMPARE_SUM, .reduce = 2, .extreme = EXTREME_WIDE, .batch_in = n > 1 ? 3 : 1 }
/* B batches, H query heads, G key heads of D, Tq queries, Tk keys */
#define ATTEND(about, B, H, G, D, Tq, Tk, c, n, bias) \
    { .op = "attention", .what = about, .n_in = n, \
        .in = { X(B, Tq, H * D), X(B, Tk, G * D), X(B, Tk, G * D), bias }, \
      .attrs = ATTENTION(D, c, 0.4), .compare = COMPARE_SUM, .reduce = Tk + D, .extreme = EXTREME_LARGE, \
          .batch_in = n > 3 ? 0 : 7 }, \
    { .op = "attention_grad", .what = about, .n_in = 7, \
      .in = { X(B, Tq, H * D), X(B, Tq, H * D), X(B, Tk, G * D), X(B, Tk, G * D), bias, \
          RESULT(DATA, B, Tq, H * D), RESULT(STAT, B, H, Tq) }, \
      .attrs = ATTENTION(D, c, 0.4), .prepare = prepare_attention, .compare = COMPARE_SUM, .ulps = 4, \
          .reduce = Tq + Tk + D, \
      .batch_in = n > 3 ? 0 : 1 | 2 | 4 | 8 | 32 | 64 }
/* The same with dropout, of samples and heads 2 and on of more */
#define LATER_HEADS(B, Tq, H, D) \
    BOX(3, { B + 3, Tq, (H + 3) * D }, { 2, 0, 2 * D }, { B, Tq, H * D })
#define ATTEND_DROPPED(about, B, H, G, D, Tq, Tk, c, bias) \
    { .op = "attention", .what = about, .n_in = 6, \
        .in = { X(B, Tq, H * D), X(B, Tk, G * D), X(B, Tk, G * D), bias, ABSENT, KEY }, \
      .attrs = ATTENTION_DROPPED(D, c), .at = LATER_HEADS(B, Tq, H, D), .compare = COMPARE_SUM, \
          .reduce = Tk + D, \
          .extreme = EXTREME_LARGE }, \
    { .op = "attention_grad", .what = about, .n_in = 9, \
      .in = { X(B, Tq, H * D), X(B, Tq, H * D), X(B, Tk, G * D), X(B, Tk, G * D), bias, \
          RESULT(DATA, B, Tq, H * D), RESULT(STAT, B, H, Tq), ABSENT, KEY }, \
      .attrs = ATTENTION_DROPPED(D, c), .at = LATER_HEADS(B, Tq, H, D), .prepare = prepare_attention, \
          .compare = COMPARE_SUM, .ulps = 4, \
          .reduce = Tq + Tk + D }
/* The same with ids of the keys, some of which are padding */
#define ATTEND_PADDED(about, B, H, G, D, Tq, Tk, c, bias, ids) \
    { .op = "attention", .what = about, .n_in = 5, \
        .in = { X(B, Tq, H * D), X(B, Tk, G * D), X(B, Tk, G * D), bias, ids }, \
      .attrs = ATTENTION(D, c, 0.4), .prepare = prepare_padding, .compare = COMPARE_SUM, .reduce = Tk + D, \
          .extreme = EXTREME_LARGE, .batch_in = 1 | 2 | 4 | 16 }, \
    { .op = "attention_grad", .what = about, .n_in = 8, \
      .in = { X(B, Tq, H * D), X(B, Tq, H * D), X(B, Tk, G * D), X(B, Tk, G * D), bias, \
          RESULT(DATA, B, Tq, H * D), RESULT(STAT, B, H, Tq), ids }, \
      .attrs = ATTENTION(D, c, 0.4), .prepare = prepare_attention, .compare = COMPARE_SUM, .ulps = 4, \
          .reduce = B * Tq + Tk + D, \
      .batch_in = 1 | 2 | 4 | 8 | 32 | 64 | 128 }
#define POSITIONS(about, q, k, n, far, two) \
    { .op = "position_bias", .what = about, .n_in = 1, .in = { X(n, 3) }, .compare = COMPARE_EXACT, \
        .extreme = EXTREME_SPECIAL, \
      .attrs = ATTRS(ls_position_bias_attrs, .queries = q, .keys = k, .buckets = n, .max_distance = far, \
          .both = two) }, \
    { .op = "position_bias_grad", .what = about, .n_in = 1, .in = { X(3, q + k - 1) }, \
        .compare = COMPARE_SUM, .reduce = q, .extreme = EXTREME_WIDE, \
      .attrs = ATTRS(ls_position_bias_attrs, .queries = q, .keys = k, .buckets = n, .max_distance = far, \
          .both = two) }
/* the same with a cache of C places, of which positions below N (some beyond the cache, some before it)
 * say how many are seen */
#define ATTEND_CACHED(about, B, H, G, D, T, C, N) \
    { .op = "attention_cached", .what = about, .n_in = 4, \
        .in = { X(B, T, H * D), X(B, C, G * D), X(B, C, G * D), INDEX(N, B, T) }, \
      .attrs = ATTENTION(D, 1, 0.4), .compare = COMPARE_SUM, .reduce = C + D, .extreme = EXTREME_LARGE, \
          .batch_in = 15 }
#define SOFTMAX(R, C) \
    { .op = "softmax", .n_in = 1, .in = { X(R, C) }, .compare = COMPARE_SUM, .reduce = C, \
        .extreme = EXTREME_LARGE, .batch_in = 1 }, \
    { .op = "softmax_grad", .n_in = 2, .in = { X(R, C), RESULT(DATA, R, C) }, .prepare = prepare_softmax, \
        .compare = COMPARE_SUM, \
      .reduce = C, .batch_in = 3 }
#define CROSS_ENTROPY(R, C, n) \
    { .op = "cross_entropy", .n_in = 3, .in = { X(R, C), INDEX(C, R), SCALAR(STAT, n) }, \
        .attrs = ATTRS(ls_loss_attrs, -100), \
      .compare = COMPARE_SUM, .reduce = C, .extreme = EXTREME_LARGE }, \
    { .op = "cross_entropy_grad", .n_in = 5, .in = { X(R, C), INDEX(C, R), RESULT(STAT, R), SCALAR(STAT, n), \
        SCALAR(STAT, 0.75) }, \
      .attrs = ATTRS(ls_loss_attrs, -100), .prepare = prepare_cross_entropy, .compare = COMPARE_SUM, \
          .absolute = 0.75 / n, .reduce = C, \
      .extreme = EXTREME_LARGE }
/* Columns 9 and on of C classes: this rank's. */
#define FROM_NINE(R, n, C) BOX(2, { R, C }, { 0, 9 }, { R, n })
#define CROSS_ENTROPY_PART(R, n, C, parts) \
    { .op = "cross_entropy_part", .n_in = 2, .in = { X(R, n), INDEX(C, R) }, \
        .at = FROM_NINE(R, n, C), .compare = COMPARE_SUM, .reduce = n, \
      .extreme = EXTREME_LARGE }, \
    { .op = "cross_entropy", .what = "of parts", .n_in = 4, \
        .in = { X(R, n), INDEX(C, R), SCALAR(STAT, R), TYPED_POSITIVE(STAT, parts, R, 3) }, \
      .attrs = ATTRS(ls_loss_attrs, -100), .at = FROM_NINE(R, n, C), .compare = COMPARE_SUM, \
          .reduce = parts, .no_gradient = true }, \
    { .op = "cross_entropy_grad", .what = "of a part", .n_in = 5, \
        .in = { X(R, n), INDEX(C, R), TYPED_POSITIVE(STAT, R), SCALAR(STAT, R), SCALAR(STAT, 0.75) }, \
      .attrs = ATTRS(ls_loss_attrs, -100), .at = FROM_NINE(R, n, C), .compare = COMPARE_SUM, \
          .absolute = 0.75 / R, .reduce = n }
#define ADAM(about, n, wd, dec, t, ...) \
    { .op = "adam", .what = about, .n_in = n, \
      .in = { TYPED(LS_F32, 3, 41), X(3, 41), TYPED(LS_F32, 3, 41), TYPED_POSITIVE(LS_F32, 3, 41), \
          SCALAR(LS_I64, t), SCALAR(LS_F64, 0.01), \
              __VA_ARGS__ }, \
      .attrs = ATTRS(ls_adam_attrs, 0.9, 0.999, 1e-8, wd, dec), .ulps = 4, .absolute = 4 }
#define SGD(about, n, buf, t, mom, damp, wd, nest, ...) \
    { .op = "sgd", .what = about, .n_in = n, .in = { TYPED(LS_F32, 131), X(131), buf, SCALAR(LS_I64, t), \
        SCALAR(LS_F64, 0.01), __VA_ARGS__ }, \
      .attrs = ATTRS(ls_sgd_attrs, mom, damp, wd, nest), .ulps = 2, .absolute = 4 }
#define SCALE_UPDATE(about, good, ok) \
    { .op = "loss_scale_update", .what = about, .n_in = 3, \
        .in = { SCALAR(LS_F32, 1024), SCALAR(LS_I32, good), SCALAR(LS_I32, ok) }, \
      .attrs = ATTRS(ls_scale_update_attrs, 2, 0.5, 20), .compare = COMPARE_EXACT, .f32_only = true }
/* N pictures of C x H x W, O results of them by kernels K x L, in G groups; stride S, padding P, dilation
 * D (all for the height; for the width
 * R, Q, E); the result is I x J. */
#define CONV(about, N, C, H, W, O, K, L, S, R, P, Q, D, E, G, I, J, ...) \
    { .op = "conv2d", .what = about, .n_in = 2, .in = { X(N, C, H, W), X(O, C / G, K, L) }, \
        .attrs = CONV_ATTRS(S, R, P, Q, D, E, G, 0, 0, 0), \
      .compare = COMPARE_SUM, .reduce = C / G * K * L, .extreme = EXTREME_WIDE, .batch_in = 1, \
          __VA_ARGS__ }, \
    { .op = "conv2d_dx", .what = about, .n_in = 2, .in = { X(N, O, I, J), X(O, C / G, K, L) }, \
      .attrs = CONV_ATTRS(S, R, P, Q, D, E, G, H, W, 0), .compare = COMPARE_SUM, .reduce = O / G * K * L, \
          .extreme = EXTREME_WIDE, .batch_in = 1, \
      __VA_ARGS__ }, \
    { .op = "conv2d_dw", .what = about, .n_in = 2, .in = { X(N, O, I, J), X(N, C, H, W) }, \
        .attrs = CONV_ATTRS(S, R, P, Q, D, E, G, K, L, 1), \
      .compare = COMPARE_SUM, .reduce = N * I * J, .extreme = EXTREME_WIDE, __VA_ARGS__ }
#define CONV_ATTRS(S, R, P, Q, D, E, G, H, W, b) ATTRS(ls_conv_attrs, S, R, P, Q, D, E, G, H, W, b)
#define BATCH_NORM(n, about, ...) \
    { .op = "batch_norm", .what = about, .n_in = 3, .in = { X(__VA_ARGS__), X(n), X(n) }, \
        .attrs = ATTRS(ls_batch_norm_attrs, 1e-5, LS_ACT_NONE), \
      .compare = COMPARE_SUM, .reduce = 100, .extreme = EXTREME_WIDE }, \
    { .op = "batch_norm_grad", .what = about, .n_in = 5, \
        .in = { X(__VA_ARGS__), X(__VA_ARGS__), X(n), RESULT(STAT, n), RESULT(STAT, n) }, \
      .attrs = ATTRS(ls_batch_norm_attrs, 1e-5, LS_ACT_NONE), .prepare = prepare_batch_norm, \
          .compare = COMPARE_SUM, .reduce = 100 }, \
    { .op = "batch_norm_eval", .what = about, .n_in = 5, \
      .in = { X(__VA_ARGS__), X(n), X(n), TYPED(STAT, n), TYPED_POSITIVE(STAT, n) }, \
          .attrs = ATTRS(ls_batch_norm_attrs, 1e-3, LS_ACT_NONE), \
      .compare = COMPARE_SUM, .batch_in = 1 }
#define BATCH_NORM_JOINED(n, about, ...) \
    { .op = "batch_norm", .what = about ", residual and relu", .n_in = 4, \
        .in = { X(__VA_ARGS__), X(n), X(n), X(__VA_ARGS__) }, \
      .attrs = ATTRS(ls_batch_norm_attrs, 1e-5, LS_ACT_RELU), .no_gradient = true, .compare = COMPARE_SUM, \
          .reduce = 100 }, \
    { .op = "batch_norm", .what = about ", residual", .n_in = 4, \
        .in = { X(__VA_ARGS__), X(n), X(n), X(__VA_ARGS__) }, \
      .attrs = ATTRS(ls_batch_norm_attrs, 1e-5, LS_ACT_NONE), .no_gradient = true, .compare = COMPARE_SUM, \
          .reduce = 100 }, \
    { .op = "batch_norm_grad", .what = about ", relu", .n_in = 6, \
      .in = { X(__VA_ARGS__), X(__VA_ARGS__), X(n), RESULT(STAT, n), RESULT(STAT, n), X(__VA_ARGS__) }, \
      .attrs = ATTRS(ls_batch_norm_attrs, 1e-5, LS_ACT_RELU), .prepare = prepare_batch_norm, \
          .no_gradient = true, .compare = COMPARE_SUM, \
      .reduce = 100 }, \
    { .op = "batch_norm_eval", .what = about ", residual and relu", .n_in = 6, \
      .in = { X(__VA_ARGS__), X(n), X(n), TYPED(STAT, n), TYPED_POSITIVE(STAT, n), X(__VA_ARGS__) }, \
      .attrs = ATTRS(ls_batch_norm_attrs, 1e-3, LS_ACT_RELU), .no_gradient = true, .compare = COMPARE_SUM, \
          .batch_in = 1 | 1 << 5 }
#define BATCH_NORM_UPDATE(about, count, n, ...) \
    { .op = "batch_norm_update", .what = about, .n_in = count, \
      .in = { TYPED(LS_F32, n), TYPED_POSITIVE(LS_F32, n), SCALAR(LS_I64, 5), TYPED(LS_F32, n), \
          TYPED_POSITIVE(LS_F32, n), __VA_ARGS__ }, \
      .attrs = ATTRS(ls_batch_norm_update_attrs, 0.1), .f32_only = true, .ulps = 2, .absolute = 2 }
#define MAX_POOL(about, N, C, H, W, K, L, S, R, P, Q, I, J) \
    { .op = "max_pool2d", .what = about, .n_in = 1, .in = { X(N, C, H, W) }, \
        .attrs = ATTRS(ls_max_pool_attrs, K, L, S, R, P, Q, 0, 0), \
      .compare = COMPARE_EXACT, .extreme = EXTREME_SPECIAL, .batch_in = 1 }, \
    { .op = "max_pool2d_grad", .what = about, .n_in = 2, \
        .in = { X(N, C, I, J), RESULT(LS_I32, N, C, I, J) }, \
      .attrs = ATTRS(ls_max_pool_attrs, K, L, S, R, P, Q, H, W), .prepare = prepare_max_pool, \
          .compare = COMPARE_SUM, .reduce = K * L, .batch_in = 3 }
#define AVG_POOL(N, C, H, W, I, J) \
    { .op = "adaptive_avg_pool2d", .n_in = 1, .in = { X(N, C, H, W) }, \
        .attrs = ATTRS(ls_avg_pool_attrs, I, J), .compare = COMPARE_SUM, \
      .reduce = H * W, .extreme = EXTREME_WIDE, .batch_in = 1 }, \
    { .op = "adaptive_avg_pool2d_grad", .n_in = 1, .in = { X(N, C, I, J) }, \
        .attrs = ATTRS(ls_avg_pool_attrs, H, W), .compare = COMPARE_SUM, \
      .reduce = 4, .extreme = EXTREME_WIDE, .batch_in = 1 }
#define SOURCE(source, about) \
    { .op = source, .n_in = 0, .attrs = ATTRS(ls_source_attrs, .name = about, \
        .type = { LS_F64, 2, { 3, 5 } }, .init = LS_INIT_ONE), .f32_only = true }

const op_case ls_test_cases[] = {
    SOURCE("input", "x"), SOURCE("param", "w"), SOURCE("state", "s"), SOURCE("buffer", "b"),
    { .op = "fill", .n_in = 0, .attrs = ATTRS(ls_fill_attrs, { LS_F32, 2, { 5, 13 } }, 0.3),
        .compare = COMPARE_EXACT, .f32_only = true },
    { .op = "fill", .what = "integers", .n_in = 0, .attrs = ATTRS(ls_fill_attrs, { LS_I64, 1, { 3 } }, -7),
        .compare = COMPARE_EXACT,
      .f32_only = true },
    { .op = "fill", .what = "bf16", .n_in = 0, .attrs = ATTRS(ls_fill_attrs, { LS_BF16, 0, { 0 } }, 1.01),
        .compare = COMPARE_EXACT, .f32_only = true },

    { .op = "copy", .n_in = 1, .in = { X(3, 5, 17) }, .compare = COMPARE_EXACT, .extreme = EXTREME_SPECIAL },
    { .op = "copy", .what = "integers", .n_in = 1, .in = { INDEX(50, 19) }, .compare = COMPARE_EXACT,
        .f32_only = true },
    { .op = "reshape", .n_in = 1, .in = { X(4, 6) }, .attrs = ATTRS(ls_reshape_attrs, I64S(2, -1, 3)) },
    { .op = "reshape", .what = "to a scalar", .n_in = 1, .in = { X(1, 1) },
        .attrs = ATTRS(ls_reshape_attrs, { 0, NULL }) },
    { .op = "slice", .n_in = 1, .in = { X(4, 6, 2) }, .attrs = ATTRS(ls_slice_attrs, 1, 2, 3) },
    { .op = "flat_view", .n_in = 1, .in = { X(30) }, .attrs = ATTRS(ls_flat_view_attrs, 7, I64S(4, 5)) },
    { .op = "permute", .n_in = 1, .in = { X(3, 5, 7) }, .attrs = ATTRS(ls_permute_attrs, I64S(2, 0, 1)),
        .compare = COMPARE_EXACT,
      .extreme = EXTREME_SPECIAL },
    { .op = "permute", .what = "patches of a picture", .n_in = 1, .in = { X(2, 3, 4, 3, 7) },
      .attrs = ATTRS(ls_permute_attrs, I64S(0, 1, 3, 2, 4)), .compare = COMPARE_EXACT },
    { .op = "permute", .what = "transposed", .n_in = 1, .in = { X(19, 33) },
        .attrs = ATTRS(ls_permute_attrs, I64S(1, 0)),
      .compare = COMPARE_EXACT },
    { .op = "pack", .what = "with gaps", .n_in = 3, .in = { X(3, 2, 5), X(3, 1, 5), X(3, 4, 5) },
      .attrs = ATTRS(ls_pack_attrs, 1, 11, I64S(1, 3, 6)), .compare = COMPARE_EXACT,
          .extreme = EXTREME_SPECIAL },
    { .op = "pack", .what = "last dimension", .n_in = 2, .in = { X(5, 7), X(5, 9) },
        .attrs = ATTRS(ls_pack_attrs, 1, 16, I64S(0, 7)),
      .compare = COMPARE_EXACT },
    { .op = "pack", .what = "more parts than a rule lists", .n_in = 10,
      .in = { X(4, 2), X(4, 1), X(4, 2), X(4, 1), X(4, 2), X(4, 1), X(4, 2), X(4, 1), X(4, 2), X(4, 1) },
      .attrs = ATTRS(ls_pack_attrs, 1, 15, I64S(0, 2, 3, 5, 6, 8, 9, 11, 12, 14)), .compare = COMPARE_EXACT },
    { .op = "pack", .what = "flat", .n_in = 2, .in = { X(31), X(8) },
        .attrs = ATTRS(ls_pack_attrs, 0, 64, I64S(0, 48)), .compare = COMPARE_EXACT },
    { .op = "broadcast_to", .n_in = 1, .in = { X(3, 1, 7) },
        .attrs = ATTRS(ls_broadcast_attrs, I64S(2, -1, 5, 7)), .compare = COMPARE_EXACT },
    { .op = "broadcast_to", .what = "a scalar", .n_in = 1, .in = { X_SCALAR },
        .attrs = ATTRS(ls_broadcast_attrs, I64S(3, 21)),
      .compare = COMPARE_EXACT },
    { .op = "sum_to", .n_in = 1, .in = { X(2, 3, 5, 7) }, .attrs = ATTRS(ls_broadcast_attrs, I64S(3, 1, 7)),
        .compare = COMPARE_SUM,
      .reduce = 10, .extreme = EXTREME_WIDE },
    { .op = "sum_to", .what = "rows", .n_in = 1, .in = { X(131, 19) },
        .attrs = ATTRS(ls_broadcast_attrs, I64S(19)), .compare = COMPARE_SUM,
      .reduce = 131 },
    { .op = "sum_to", .what = "columns", .n_in = 1, .in = { X(5, 83) },
        .attrs = ATTRS(ls_broadcast_attrs, I64S(5, 1)), .compare = COMPARE_SUM,
      .reduce = 83 },
    { .op = "sum_to", .what = "a scalar", .n_in = 1, .in = { X(9, 31) },
        .attrs = ATTRS(ls_broadcast_attrs, { 0, NULL }),
      .compare = COMPARE_SUM, .reduce = 279 },

    BINARY("add", X(3, 37), X(3, 37)), BINARY("add", X(5, 1, 7), X(3, 1)), BINARY("add", X(4, 19), X(19)),
        BINARY("add", X_SCALAR, X(2, 3)),
    BINARY("sub", X(3, 37), X(3, 37)), BINARY("sub", X(19), X(4, 19)), BINARY("sub", X(2, 1, 5), X(1, 3, 1)),
    BINARY("mul", X(3, 37), X(3, 37)), BINARY("mul", X(7, 1), X(7, 9)), BINARY("mul", X(2, 1, 5), X(1, 3, 1)),
    BINARY("div", X(3, 37), POSITIVE(3, 37)), BINARY("div", X(7, 9), POSITIVE(7, 1)),
        BINARY("div", X(5), POSITIVE(3, 1)),
    BINARY("max", X(3, 37), X(3, 37)), BINARY("max", X(3, 37), X(37)),
    BINARY("min", X(3, 37), X(3, 37)), BINARY("min", X(3, 37), X_SCALAR),
    UNARY("neg", X(3, 37), COMPARE_EXACT), UNARY("sqrt", POSITIVE(3, 37), COMPARE_EXACT),
        UNARY("square", X(3, 37), COMPARE_EXACT),
    UNARY("relu", X(3, 37), COMPARE_EXACT), UNARY("exp", X(3, 37), COMPARE_ELEMENT, .ulps = 2),
    UNARY("log", POSITIVE(3, 37), COMPARE_ELEMENT, .ulps = 2),
        UNARY("tanh", X(3, 37), COMPARE_ELEMENT, .ulps = 4),
    UNARY("gelu", X(3, 37), COMPARE_ELEMENT, .ulps = 4, .absolute = 2),
        UNARY("gelu_tanh", X(3, 37), COMPARE_ELEMENT, .ulps = 4, .absolute = 2),
    UNARY("silu", X(3, 37), COMPARE_ELEMENT, .ulps = 4, .absolute = 2),
    { .op = "swiglu", .n_in = 2, .in = { X(3, 37), PLAIN(37) }, .ulps = 4, .absolute = 8,
        .extreme = EXTREME_SPECIAL },
    BINARY("relu_grad", X(3, 37), X(3, 37)),
    { .op = "gelu_grad", .n_in = 2, .in = { PLAIN(3, 37), X(3, 37) }, .ulps = 4, .absolute = 8,
        .extreme = EXTREME_SPECIAL },
    { .op = "gelu_tanh_grad", .n_in = 2, .in = { PLAIN(3, 37), X(3, 37) }, .ulps = 4, .absolute = 8,
        .extreme = EXTREME_SPECIAL },
    { .op = "silu_grad", .n_in = 2, .in = { PLAIN(3, 37), X(3, 37) }, .ulps = 4, .absolute = 8,
        .extreme = EXTREME_SPECIAL },
    NUMBER("add_const", 0.3), NUMBER("mul_const", -1.7), NUMBER("div_const", 0.3),
    UNARY("cast", X(3, 37), COMPARE_EXACT, .attrs = ATTRS(ls_cast_attrs, LS_F32)),
    UNARY("cast", X(3, 37), COMPARE_EXACT, .what = "to bf16", .attrs = ATTRS(ls_cast_attrs, LS_BF16),
        .no_gradient = true),
    UNARY("cast", X(3, 37), COMPARE_EXACT, .what = "to f16", .attrs = ATTRS(ls_cast_attrs, LS_F16),
        .no_gradient = true),
    UNARY("cast", INDEX(200, 37), COMPARE_EXACT, .what = "from i32", .attrs = ATTRS(ls_cast_attrs, LS_F32),
        .f32_only = true),
    { .op = "cast", .what = "from u8", .n_in = 1, .in = { { LS_U8, FILL_INDEX, 256, 1, { 300 } } },
        .attrs = ATTRS(ls_cast_attrs, LS_F32),
      .compare = COMPARE_EXACT, .f32_only = true },
    { .op = "cast", .what = "from i64", .n_in = 1, .in = { { LS_I64, FILL_INDEX, 100000, 1, { 37 } } },
        .attrs = ATTRS(ls_cast_attrs, LS_F32),
      .compare = COMPARE_EXACT, .f32_only = true },
    { .op = "cast", .what = "f32 to f64", .n_in = 1, .in = { TYPED(LS_F32, 3, 7) },
        .attrs = ATTRS(ls_cast_attrs, LS_F64), .f32_only = true,
      .no_gradient = false, .compare = COMPARE_EXACT },

    /* r3 = r0 * r1, r4 = r3 + r2, r5 = relu(r4), r6 = r5 / 3 */
    { .op = "fused", .what = "f32 steps", .n_in = 3, .in = { X(3, 37), X(37), X(3, 1) },
      .attrs = ATTRS(ls_fused_attrs, CODE(LS_EW_MUL, 0, 1, LS_F32, LS_EW_ADD, 3, 2, LS_F32, LS_EW_RELU, 4,
          -1, LS_F32, LS_EW_DIV_CONST, 5, -1, LS_F32),
                     F64S(0, 0, 0, 3), LS_F32), .compare = COMPARE_EXACT, .extreme = EXTREME_SPECIAL },
    /* every step rounded to bf16, as the unfused graph would: r2 = r0 + r1, r3 = gelu(r2), r4 = r3 - r0,
     * r5 = cast */
    { .op = "fused", .what = "bf16 steps", .n_in = 2, .in = { TYPED(LS_BF16, 5, 33), TYPED(LS_BF16, 5, 33) },
      .attrs = ATTRS(ls_fused_attrs, CODE(LS_EW_ADD, 0, 1, LS_BF16, LS_EW_GELU, 2, -1, LS_BF16, LS_EW_SUB,
          3, 0, LS_BF16, LS_EW_CAST, 4, -1, LS_F32),
                     F64S(0, 0, 0, 0), LS_F32), .f32_only = true, .ulps = 4, .absolute = 1 << 17 },
    { .op = "fused", .what = "pixels", .n_in = 2, .in = { { LS_U8, FILL_INDEX, 256, 2, { 3, 41 } },
        TYPED(LS_F16, 41) },
      .attrs = ATTRS(ls_fused_attrs, CODE(LS_EW_CAST, 0, -1, LS_F32, LS_EW_DIV_CONST, 2, -1, LS_F32,
          LS_EW_ADD_CONST, 3, -1, LS_F32,
                                          LS_EW_CAST, 1, -1, LS_F32, LS_EW_MAX, 4, 5, LS_F32, LS_EW_CAST, 6,
                                              -1, LS_F16),
                     F64S(0, 255, -0.5, 0, 0, 0), LS_F16), .compare = COMPARE_EXACT, .f32_only = true },
    /* gelu_grad(r0, r1) * r2 + r0, and exp, log, sqrt, tanh, square, min, neg once each */
    { .op = "fused", .what = "functions", .n_in = 3, .in = { X(3, 37), X(3, 37), POSITIVE(3, 37) },
      .attrs = ATTRS(ls_fused_attrs,
                     CODE(LS_EW_GELU_GRAD, 0, 1, LS_F32, LS_EW_MUL, 3, 2, LS_F32, LS_EW_ADD, 4, 0, LS_F32,
                         LS_EW_LOG, 2, -1, LS_F32,
                          LS_EW_SQRT, 2, -1, LS_F32, LS_EW_TANH, 1, -1, LS_F32, LS_EW_SQUARE, 8, -1, LS_F32,
                              LS_EW_MIN, 6, 7, LS_F32,
                          LS_EW_NEG, 10, -1, LS_F32, LS_EW_EXP, 11, -1, LS_F32, LS_EW_ADD, 12, 5, LS_F32,
                              LS_EW_ADD, 13, 9, LS_F32,
                          LS_EW_GELU_TANH_GRAD, 14, 1, LS_F32, LS_EW_GELU_TANH, 15, -1, LS_F32,
                              LS_EW_RELU_GRAD, 16, 1, LS_F32,
                          LS_EW_MUL_CONST, 17, -1, LS_F32),
                     F64S(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1.5), LS_F32), .ulps = 16,
                         .absolute = 64 },

    { .op = "random_key", .n_in = 3, .in = { SCALAR(LS_I64, 7), SCALAR(LS_I64, 1e12),
        { LS_I64, FILL_ID, 1e6, 1, { 2 } } }, .compare = COMPARE_EXACT, .f32_only = true },
    DROPOUT("", X(3, 67), .at = NULL), DROPOUT("whole groups", X(2, 4, 128), .at = NULL),
        DROPOUT("a sample is one element", X(70), .at = NULL),
    DROPOUT("columns of more", X(3, 5, 33), .at = BOX(3, { 3, 5, 66 }, { 0, 0, 33 }, { 3, 5, 33 })),
    DROPOUT("rows of more", X(3, 2, 37), .at = BOX(3, { 3, 9, 37 }, { 0, 4, 0 }, { 3, 2, 37 })),
    DROPOUT("samples, rows and columns of more", X(3, 2, 37),
        .at = BOX(3, { 7, 9, 90 }, { 2, 4, 41 }, { 3, 2, 37 })),
    { .op = "dropout", .what = "addend", .n_in = 3, .in = { X(3, 5, 41), KEY, X(3, 5, 41) },
        .attrs = ATTRS(ls_dropout_attrs, .p = 0.5, .purpose = 99),
      .compare = COMPARE_EXACT, .extreme = EXTREME_SPECIAL, .no_gradient = true },

    LINEAR("", 5, 7, 3), LINEAR("one of each", 1, 1, 1), LINEAR("a row", 1, 67, 33),
        LINEAR("a column", 37, 19, 1),
    LINEAR("more than a tile", 71, 130, 100), LINEAR("long sums", 9, 700, 35),
    { .op = "linear", .what = "with bias, three dimensions", .n_in = 3,
        .in = { X(3, 5, 17), X(18, 17), X(18) }, .attrs = LINEAR_ACT(LS_ACT_NONE),
      .compare = COMPARE_SUM, .reduce = 17, .extreme = EXTREME_WIDE, .batch_in = 1 },
    { .op = "linear", .what = "with residual", .n_in = 4, .in = { X(15, 17), X(18, 17), ABSENT, X(15, 18) },
        .attrs = LINEAR_ACT(LS_ACT_NONE),
      .compare = COMPARE_SUM, .reduce = 17, .no_gradient = true, .batch_in = 9 },
    { .op = "linear", .what = "relu", .n_in = 3, .in = { X(15, 17), X(18, 17), X(18) },
        .attrs = LINEAR_ACT(LS_ACT_RELU),
      .compare = COMPARE_SUM, .reduce = 17, .no_gradient = true, .batch_in = 1 },
    { .op = "linear", .what = "gelu", .n_in = 3, .in = { X(31, 50), X(65, 50), X(65) },
        .attrs = LINEAR_ACT(LS_ACT_GELU),
      .compare = COMPARE_SUM, .reduce = 50, .no_gradient = true, .batch_in = 1 },
    { .op = "linear", .what = "tanh gelu and all operands", .n_in = 4,
        .in = { X(15, 17), X(34, 17), X(34), X(15, 34) },
      .attrs = LINEAR_ACT(LS_ACT_GELU_TANH), .compare = COMPARE_SUM, .reduce = 17, .no_gradient = true,
          .batch_in = 9 },
    LINEAR_DX("", 5, 7, 3), LINEAR_DX("one of each", 1, 1, 1), LINEAR_DX("a row", 1, 67, 33),
        LINEAR_DX("more than a tile", 71, 130, 100),
    LINEAR_DX("long sums", 9, 700, 35),
    { .op = "linear_dx", .what = "relu", .n_in = 3, .in = { X(3, 5, 17), X(17, 18), X(3, 5, 18) },
        .attrs = LINEAR_ACT(LS_ACT_RELU),
      .compare = COMPARE_SUM, .reduce = 17, .batch_in = 5 },
    { .op = "linear_dx", .what = "gelu and addend", .n_in = 4,
        .in = { X(31, 50), X(50, 65), X(31, 65), X(31, 65) },
      .attrs = LINEAR_ACT(LS_ACT_GELU), .compare = COMPARE_SUM, .reduce = 50, .batch_in = 13 },
    { .op = "linear_dx", .what = "tanh gelu", .n_in = 3, .in = { X(15, 17), X(17, 18), X(15, 18) },
        .attrs = LINEAR_ACT(LS_ACT_GELU_TANH),
      .compare = COMPARE_SUM, .reduce = 17, .batch_in = 5 },
    { .op = "linear_dx", .what = "addend only", .n_in = 4,
        .in = { X(15, 17), X(17, 18), ABSENT, X(15, 18) }, .attrs = LINEAR_ACT(LS_ACT_NONE),
      .compare = COMPARE_SUM, .reduce = 17, .batch_in = 9 },
    LINEAR_DW("", 5, 7, 3, 0), LINEAR_DW("one of each", 1, 1, 1, 1), LINEAR_DW("with bias", 83, 37, 35, 1),
        LINEAR_DW("a tile and more", 130, 100, 71, 0),
    LINEAR_DW("many rows", 700, 33, 17, 1),
    { .op = "linear_dw", .what = "three dimensions", .n_in = 2, .in = { X(3, 5, 7), X(3, 5, 9) },
        .attrs = ATTRS(ls_linear_dw_attrs, .bias = 1),
      .compare = COMPARE_SUM, .reduce = 15 },

    NORM(5, 8), NORM(3, 37), NORM(70, 128), NORM(2, 300), NORM(4, 1, .no_gradient = true),
    { .op = "layer_norm", .what = "three dimensions", .n_in = 3, .in = { X(2, 3, 19), X(19), X(19) },
        .attrs = ATTRS(ls_norm_attrs, 1e-6),
      .compare = COMPARE_SUM, .reduce = 19, .batch_in = 1 },
    NORM_GRAD(5, 8, 5), NORM_GRAD(3, 37, 5), NORM_GRAD(131, 128, 5), NORM_GRAD(5, 19, 6, X(5, 19)),
        NORM_GRAD(2, 300, 6, X(2, 300)),

    RMS_NORM(5, 8), RMS_NORM(3, 37), RMS_NORM(70, 128), RMS_NORM(2, 300), RMS_NORM(4, 1),
    { .op = "rms_norm", .what = "three dimensions", .n_in = 2, .in = { X(2, 3, 19), X(19) },
        .attrs = ATTRS(ls_norm_attrs, 1e-6),
      .compare = COMPARE_SUM, .reduce = 19, .batch_in = 1 },
    RMS_NORM_GRAD(5, 8, 4), RMS_NORM_GRAD(3, 37, 4), RMS_NORM_GRAD(131, 128, 4),
        RMS_NORM_GRAD(5, 19, 5, X(5, 19)),
    RMS_NORM_GRAD(2, 300, 5, X(2, 300)),

    EMBEDDING("", ID(7, 5), X(7, 19), .extreme = EXTREME_SPECIAL, .batch_in = 1),
    EMBEDDING("two dimensions", ID(1000, 3, 37), X(1000, 33), .batch_in = 1),
    EMBEDDING("no such rows", INDEX(9, 11), X(7, 8), .no_gradient = true),
    EMBEDDING("rows 4 and on of 20", ID(20, 131), X(7, 8), .at = BOX(2, { 20, 8 }, { 4, 0 }, { 7, 8 }),
        .batch_in = 1),
    EMBEDDING("rows 4 and on of 12, others missing", INDEX(20, 131), X(7, 8),
        .at = BOX(2, { 12, 8 }, { 4, 0 }, { 7, 8 }), .no_gradient = true),
    { .op = "embedding_grad", .what = "rows 4 and on of 20", .n_in = 2, .in = { X(131, 37), ID(20, 131) },
        .attrs = ATTRS(ls_embedding_attrs, 7), .at = BOX(2, { 20, 37 }, { 4, 0 }, { 7, 37 }),
      .compare = COMPARE_SUM, .reduce = 131, .extreme = EXTREME_WIDE },
    EMBEDDING_GRAD("", 7, 2, X(5, 19), ID(7, 5)), EMBEDDING_GRAD("one row", 1, 2, X(3, 5, 8), ID(1, 3, 5)),
    EMBEDDING_GRAD("rows of many places", 9, 2, X(131, 37), ID(9, 131)),
        EMBEDDING_GRAD("many rows", 5000, 2, X(131, 7), ID(5000, 131)),
    EMBEDDING_GRAD("no such rows", 7, 2, X(37, 3), INDEX(9, 37)),
        EMBEDDING_GRAD("addend", 130, 3, X(131, 150), ID(130, 131), X(130, 150)),
    ROPE("", 8, 0, 1, X(2, 7, 24)), ROPE("odd half", 38, 0, 1, X(3, 5, 76)),
        ROPE("vectors", 64, 0, 1, X(1, 70, 128)),
    ROPE("back", 8, 1, 1, X(2, 7, 24)),
    { .op = "rope", .what = "tokens 5 and on of 20", .n_in = 1, .in = { X(2, 7, 24) },
        .attrs = ATTRS(ls_rope_attrs, .head_dim = 8, .theta = 1e4),
      .at = BOX(3, { 2, 20, 24 }, { 0, 5, 0 }, { 2, 7, 24 }), .compare = COMPARE_SUM, .reduce = 2 },
    ROPE("positions", 6, 0, 2, X(2, 7, 18), ID(100000, 2, 7)),

    ATTEND("", 2, 2, 2, 8, 5, 5, 0, 3, ABSENT),
    ATTEND("the ViT's shape", 1, 2, 2, 64, 17, 17, 0, 3, ABSENT),
    ATTEND("grouped, causal, more keys", 2, 4, 2, 5, 3, 6, 1, 3, ABSENT),
    ATTEND("causal", 2, 1, 1, 7, 6, 6, 1, 3, ABSENT),
    ATTEND("bias", 2, 3, 1, 4, 5, 7, 0, 4, X(2, 3, 5, 7)),
    ATTEND("shared bias, causal", 3, 2, 2, 3, 4, 4, 1, 4, X(1, 2, 4, 4)),
    ATTEND("one query", 1, 2, 1, 16, 1, 33, 1, 3, ABSENT),
    ATTEND("long rows", 1, 1, 1, 33, 35, 150, 1, 3, ABSENT),
    ATTEND("bias by distance", 2, 3, 1, 4, 5, 7, 0, 4, X(3, 11)),
    ATTEND("bias by distance, long", 1, 2, 2, 3, 70, 135, 1, 4, X(2, 204)),
    ATTEND_PADDED("padded", 3, 2, 1, 5, 4, 9, 0, ABSENT, RESULT(LS_I32, 3, 9)),
    ATTEND_PADDED("padding anywhere, causal", 2, 2, 2, 8, 6, 6, 1, X(1, 2, 6, 6), INDEX(5, 2, 6)),
    ATTEND_PADDED("padded and long, bias by distance", 4, 1, 1, 7, 67, 130, 0, X(1, 196),
        RESULT(LS_I32, 4, 130)),
    POSITIONS("both directions", 5, 9, 8, 6, 1),
    POSITIONS("one direction", 40, 37, 32, 24, 0),
    { .op = "shift_right", .n_in = 1, .in = { INDEX(9, 3, 11) },
        .attrs = ATTRS(ls_shift_attrs, .start = 7, .pad = 2), .compare = COMPARE_EXACT, .f32_only = true },

    ATTEND_DROPPED("dropout", 2, 2, 2, 8, 5, 5, 0, ABSENT),
        ATTEND_DROPPED("dropout, the ViT's shape", 2, 2, 2, 16, 17, 17, 0, ABSENT),
    ATTEND_DROPPED("dropout, grouped, causal, more keys", 2, 4, 2, 5, 3, 6, 1, ABSENT),
        ATTEND_DROPPED("dropout and bias", 2, 3, 1, 4, 5, 7, 0, X(2, 3, 5, 7)),
    ATTEND_DROPPED("dropout, long rows", 1, 1, 1, 33, 67, 150, 0, ABSENT),
    { .op = "cache_write", .n_in = 3, .in = { X(2, 9, 5), X(2, 3, 5), ID(9, 2, 3) },
        .compare = COMPARE_EXACT },
    { .op = "cache_write", .what = "places that are not there", .n_in = 3,
        .in = { X(3, 9, 37), X(3, 7, 37), INDEX(12, 3, 7) }, .compare = COMPARE_EXACT },
    ATTEND_CACHED("", 2, 4, 2, 5, 3, 20, 23), ATTEND_CACHED("one query", 1, 14, 2, 64, 1, 70, 70),
        ATTEND_CACHED("many queries", 1, 6, 2, 10, 37, 150, 150),
    ATTEND_CACHED("long cache", 2, 3, 1, 33, 2, 300, 320),
        ATTEND_CACHED("as many key heads", 1, 3, 3, 16, 5, 65, 66),

    SOFTMAX(5, 10), SOFTMAX(3, 37), SOFTMAX(4, 1), SOFTMAX(2, 1000),
    { .op = "softmax", .what = "one row", .n_in = 1, .in = { X(19) }, .compare = COMPARE_SUM, .reduce = 19 },
    CROSS_ENTROPY(7, 10, 6), CROSS_ENTROPY(1, 3, 1), CROSS_ENTROPY(131, 37, 256), CROSS_ENTROPY(3, 1000, 3),
    CROSS_ENTROPY_PART(7, 10, 40, 4), CROSS_ENTROPY_PART(131, 37, 50, 2),
        CROSS_ENTROPY_PART(3, 1000, 2000, 3),
    { .op = "argmax_part", .n_in = 1, .in = { X(37, 100) },
        .at = BOX(2, { 37, 500 }, { 0, 300 }, { 37, 100 }),
        .compare = COMPARE_EXACT, .extreme = EXTREME_SPECIAL },
    { .op = "argmax_part", .n_in = 1, .in = { X(2, 3, 33) },
        .at = BOX(3, { 2, 3, 66 }, { 0, 0, 33 }, { 2, 3, 33 }),
        .compare = COMPARE_EXACT },
    { .op = "argmax_join", .n_in = 1, .in = { TYPED(STAT, 4, 37, 2) }, .compare = COMPARE_EXACT },
    { .op = "argmax_join", .what = "ties", .n_in = 1, .in = { { STAT, FILL_CONST, 2, 4, { 3, 2, 5, 2 } } },
        .compare = COMPARE_EXACT },
    { .op = "argmax", .n_in = 1, .in = { X(3, 5, 10) }, .compare = COMPARE_EXACT,
        .extreme = EXTREME_SPECIAL },
    { .op = "argmax", .n_in = 1, .in = { X(37, 100) }, .compare = COMPARE_EXACT, .extreme = EXTREME_SPECIAL },
    { .op = "argmax", .what = "ties", .n_in = 1, .in = { { DATA, FILL_CONST, 2, 2, { 3, 33 } } },
        .compare = COMPARE_EXACT },
    { .op = "argmax", .what = "one class", .n_in = 1, .in = { X(3, 1) }, .compare = COMPARE_EXACT },

    { .op = "max_abs", .n_in = 3, .in = { X(3, 37), X_SCALAR, X(1000) }, .compare = COMPARE_EXACT,
        .extreme = EXTREME_SPECIAL },
    { .op = "max_abs", .what = "zeros", .n_in = 1, .in = { { DATA, FILL_CONST, 0, 1, { 5 } } },
        .compare = COMPARE_EXACT },
    { .op = "sum_squares", .n_in = 3, .in = { RESULT_SCALAR(STAT), X(3, 37), X(1000) },
        .prepare = prepare_squares, .compare = COMPARE_EXACT,
      .extreme = EXTREME_WIDE },
    { .op = "sum_squares", .what = "zeros", .n_in = 2,
        .in = { RESULT_SCALAR(STAT), { DATA, FILL_CONST, 0, 1, { 5 } } }, .prepare = prepare_squares,
      .compare = COMPARE_EXACT },
    { .op = "norm_from_squares", .n_in = 2, .in = { RESULT_SCALAR(LS_F32), RESULT(LS_I64, 2) },
        .prepare = prepare_norm_from_squares,
      .compare = COMPARE_EXACT, .f32_only = true },
    { .op = "is_finite", .n_in = 1, .in = { SCALAR(LS_F32, 3e38) }, .compare = COMPARE_EXACT,
        .f32_only = true },
    { .op = "is_finite", .what = "infinity", .n_in = 1, .in = { SCALAR(LS_F32, 1e300) },
        .compare = COMPARE_EXACT, .f32_only = true },
    { .op = "is_finite", .what = "NaN", .n_in = 1, .in = { SCALAR(LS_F32, __builtin_nan("")) },
        .compare = COMPARE_EXACT, .f32_only = true },

    { .op = "count_step", .n_in = 1, .in = { SCALAR(LS_I64, 7) }, .compare = COMPARE_EXACT,
        .f32_only = true },
    { .op = "count_step", .what = "skipped", .n_in = 2, .in = { SCALAR(LS_I64, 7), SCALAR(LS_I32, 0) },
        .compare = COMPARE_EXACT, .f32_only = true },
    ADAM("first step", 6, 0, 0, 1), ADAM("weight decay", 6, 0.1, 0, 10), ADAM("AdamW", 6, 0.1, 1, 10),
    ADAM("with scale", 7, 0.1, 1, 1000, SCALAR(LS_F32, 0.37)),
        ADAM("skipped", 8, 0.1, 1, 10, ABSENT, SCALAR(LS_I32, 0)),
    ADAM("applied", 8, 0.1, 1, 10, SCALAR(LS_F32, 0.37), SCALAR(LS_I32, 1)),
    SGD("plain", 5, ABSENT, 1, 0, 0, 0, 0), SGD("weight decay", 5, ABSENT, 4, 0, 0, 0.1, 0),
    SGD("momentum, first step", 5, TYPED(LS_F32, 131), 1, 0.9, 0.1, 0, 0),
        SGD("momentum", 5, TYPED(LS_F32, 131), 4, 0.9, 0.1, 0.1, 0),
    SGD("Nesterov, with scale", 6, TYPED(LS_F32, 131), 4, 0.9, 0, 0.1, 1, SCALAR(LS_F32, 0.37)),
    SGD("skipped", 7, TYPED(LS_F32, 131), 4, 0.9, 0, 0.1, 1, ABSENT, SCALAR(LS_I32, 0)),
    SGD("applied", 7, TYPED(LS_F32, 131), 4, 0.9, 0, 0.1, 1, ABSENT, SCALAR(LS_I32, 1)),
    SCALE_UPDATE("overflow", 5, 0), SCALE_UPDATE("good", 5, 1), SCALE_UPDATE("grows", 19, 1),
    { .op = "loss_scale_update", .what = "never infinite", .n_in = 3,
        .in = { SCALAR(LS_F32, 3e38), SCALAR(LS_I32, 19), SCALAR(LS_I32, 1) },
      .attrs = ATTRS(ls_scale_update_attrs, 2, 0.5, 20), .compare = COMPARE_EXACT, .f32_only = true },
    /*   N  C  H  W   O  K  L  S  R  P  Q  D  E  G  I  J */
    CONV("one of each", 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1),
    CONV("padded", 2, 3, 5, 4, 2, 3, 3, 1, 1, 1, 1, 1, 1, 1, 5, 4),
    CONV("all different", 2, 2, 7, 8, 3, 2, 3, 3, 2, 1, 2, 2, 1, 1, 3, 5),
    CONV("strides that skip", 3, 2, 5, 6, 2, 1, 1, 2, 2, 0, 0, 1, 1, 1, 3, 3),
    CONV("groups", 2, 6, 4, 3, 4, 3, 2, 1, 1, 1, 0, 1, 1, 2, 4, 2),
    CONV("depthwise", 2, 5, 4, 4, 10, 3, 3, 1, 1, 1, 1, 1, 1, 5, 4, 4),
    CONV("a stem", 3, 1, 14, 13, 37, 7, 7, 2, 2, 3, 3, 1, 1, 1, 7, 7),
    CONV("a dilated stem", 17, 3, 9, 40, 20, 3, 5, 1, 2, 1, 2, 1, 2, 1, 9, 18),
    CONV("a stem's long lines", 1, 1, 3, 250, 2, 3, 3, 1, 1, 1, 1, 1, 1, 1, 3, 250),
    CONV("one image's strides", 1, 9, 5, 37, 35, 3, 3, 2, 3, 1, 1, 1, 1, 1, 3, 13),
    CONV("more than a chain", 1, 600, 2, 3, 3, 2, 2, 1, 1, 1, 0, 1, 1, 1, 3, 2),
    CONV("more than a tile", 17, 33, 3, 3, 58, 1, 3, 1, 1, 0, 1, 1, 1, 1, 3, 3),
    CONV("mostly padding", 9, 20, 1, 1, 35, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1),
    CONV("more than a batch block", 71, 9, 3, 3, 5, 3, 3, 2, 2, 1, 1, 1, 1, 1, 2, 2),
    CONV("more than a block of chains", 33, 2, 9, 8, 3, 1, 1, 1, 1, 0, 0, 1, 1, 1, 9, 8, .no_gradient = true),
    CONV("long sums", 2, 300, 1, 2, 5, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 2),
    CONV("long planes", 2, 9, 19, 17, 3, 2, 2, 1, 1, 0, 0, 1, 1, 1, 18, 16),
    CONV("squares", 3, 16, 8, 8, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1, 8, 8, .no_gradient = true),
    CONV("odd squares", 2, 21, 9, 13, 37, 3, 3, 1, 1, 1, 0, 1, 1, 1, 9, 11, .no_gradient = true),
    CONV("squares beyond the padding", 1, 35, 6, 5, 17, 3, 3, 1, 1, 3, 4, 1, 1, 1, 10, 11,
        .no_gradient = true),
    CONV("squares of groups", 2, 34, 10, 11, 38, 3, 3, 1, 1, 0, 1, 1, 1, 2, 8, 11, .no_gradient = true),
    CONV("squares of many images", 6, 16, 8, 8, 18, 3, 3, 1, 1, 1, 1, 1, 1, 1, 8, 8, .no_gradient = true,
        .f32_only = true),
    CONV("squares over long chains", 1, 130, 8, 8, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1, 8, 8, .no_gradient = true,
        .f32_only = true),
    CONV("a long row of squares", 1, 16, 8, 131, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1, 8, 131, .no_gradient = true,
        .f32_only = true),
    { .op = "conv2d", .what = "squares, with bias", .n_in = 3,
        .in = { X(2, 16, 9, 8), X(19, 16, 3, 3), X(19) },
      .attrs = CONV_ATTRS(1, 1, 1, 1, 1, 1, 1, 0, 0, 0), .compare = COMPARE_SUM, .reduce = 144,
          .extreme = EXTREME_WIDE, .batch_in = 1,
      .no_gradient = true },
    { .op = "conv2d", .what = "with bias", .n_in = 3, .in = { X(2, 3, 5, 6), X(4, 3, 3, 3), X(4) },
        .attrs = CONV_ATTRS(1, 1, 1, 1, 1, 1, 1, 0, 0, 0),
      .compare = COMPARE_SUM, .reduce = 27, .extreme = EXTREME_WIDE, .batch_in = 1 },
    { .op = "conv2d", .what = "with bias, groups", .n_in = 3, .in = { X(2, 6, 5, 3), X(4, 3, 2, 2), X(4) },
      .attrs = CONV_ATTRS(2, 1, 1, 0, 1, 2, 2, 0, 0, 0), .compare = COMPARE_SUM, .reduce = 12,
          .extreme = EXTREME_WIDE, .batch_in = 1 },
    { .op = "conv2d_dw", .what = "without bias", .n_in = 2, .in = { X(2, 3, 4, 4), X(2, 5, 4, 4) },
        .attrs = CONV_ATTRS(1, 1, 1, 1, 1, 1, 1, 3, 3, 0),
      .compare = COMPARE_SUM, .reduce = 32, .extreme = EXTREME_WIDE },
    MAX_POOL("overlapping", 2, 3, 7, 6, 3, 3, 2, 2, 1, 1, 4, 3),
        MAX_POOL("plain", 3, 2, 4, 6, 2, 3, 2, 3, 0, 0, 2, 2),
    MAX_POOL("one window", 1, 2, 3, 3, 3, 3, 1, 1, 0, 0, 1, 1),
        MAX_POOL("wide", 2, 3, 9, 70, 3, 3, 2, 2, 1, 1, 5, 35),
    AVG_POOL(2, 3, 5, 7, 1, 1), AVG_POOL(3, 2, 5, 7, 2, 3), AVG_POOL(2, 2, 3, 2, 5, 2),
        AVG_POOL(3, 33, 1, 1, 1, 1), AVG_POOL(2, 3, 7, 9, 1, 1),
    BATCH_NORM(3, "", 4, 3, 5, 2), BATCH_NORM(5, "vectors", 7, 5),
        BATCH_NORM(67, "one position", 9, 67, 1, 1),
    BATCH_NORM(37, "small pictures", 3, 37, 7, 7), BATCH_NORM(2, "large pictures", 2, 2, 33, 32),
        BATCH_NORM(1, "one channel", 2, 1, 3, 3),
    BATCH_NORM_JOINED(37, "small pictures", 3, 37, 3, 3),
        BATCH_NORM_JOINED(3, "large pictures", 3, 3, 11, 13),
    BATCH_NORM_UPDATE("", 5, 37), BATCH_NORM_UPDATE("skipped", 6, 5, SCALAR(LS_I32, 0)),
        BATCH_NORM_UPDATE("applied", 6, 5, SCALAR(LS_I32, 1)),
    { 0 },
};
/* clang-format on */
