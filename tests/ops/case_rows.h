/* case_rows.h - macros for the rows of cases.c: operands, attributes, and cases of ops with many variants. */
#pragma once
#include "graph/loss_attrs.h"
#include "cases.h"
#include "prepare.h"
#include "graph/update_attrs.h"

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
#define BYTES(...) { LS_U8, FILL_ID, 256, (int)COUNT(int64_t, __VA_ARGS__), { __VA_ARGS__ } }
#define SCALAR(t, x) { t, FILL_CONST, x, 0, { 0 } }
#define X_SCALAR { DATA, FILL_NORMAL, 0, 0, { 0 } }
#define RESULT(t, ...) { t, FILL_RESULT, 0, (int)COUNT(int64_t, __VA_ARGS__), { __VA_ARGS__ } }
#define RESULT_SCALAR(t) { t, FILL_RESULT, 0, 0, { 0 } }
#define ABSENT { 0, FILL_CONST, 0, -1, { 0 } }

#define DEQUANTIZE(about, type) \
    { .op = "dequantize", .what = about, .n_in = 2, .in = { BYTES(6, 128), TYPED(LS_F32, 6, 4) }, \
        .attrs = ATTRS(ls_cast_attrs, type), .compare = COMPARE_EXACT, .f32_only = true }

/* BOX(n, { sizes of the whole }, { starts }, { sizes }) */
#define BOX(n, ...) (&(const ls_box){ n, __VA_ARGS__ })
/* c: 1: causal; more: with a window of so many keys */
#define ATTENTION(D, c, s) ATTRS(ls_attention_attrs, .head_dim = D, .causal = (c) > 0, .scale = s, \
    .pad = -100, .window = (c) > 1 ? (c) : 0)
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
#define LINEAR_CODES(about, R, K, N) \
    { .op = "linear", .what = "4 bits, " about, .n_in = 5, \
        .in = { X(R, K), BYTES(N, (K) / 2), X(N), X(R, N), TYPED(LS_F32, N, (K) / 64) }, \
        .attrs = LINEAR_ACT(LS_ACT_NONE), .compare = COMPARE_SUM, .reduce = K, .no_gradient = true, \
      .batch_in = 9 }
#define LINEAR_DX_CODES(about, R, N, K) \
    { .op = "linear_dx", .what = "4 bits, " about, .n_in = 5, \
        .in = { X(R, N), BYTES(N, (K) / 2), ABSENT, X(R, K), TYPED(LS_F32, N, (K) / 64) }, \
        .attrs = LINEAR_ACT(LS_ACT_NONE), .compare = COMPARE_SUM, .reduce = N, .batch_in = 9 }
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
#define ROPE_SCALED(about, ...) \
    { .op = "rope", .what = about, .n_in = 1, .in = { X(2, 7, 24) }, \
        .attrs = ATTRS(ls_rope_attrs, .head_dim = 8, .theta = 100, .scaling = F64S(__VA_ARGS__)), \
      .compare = COMPARE_SUM, .reduce = 2 }
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
/* Queries of a sequence from number `first` on, of `Tk`. */
#define LATER_QUERIES(B, Tq, Tk, first, HD) BOX(3, { B, Tk, HD }, { 0, first, 0 }, { B, Tq, HD })
/* Documents side by side: a position 0 begins one. With dropout (KEY) or without (ABSENT) */
#define ATTEND_PACKED(about, B, H, G, D, T, Tk, attributes, key, box, positions) \
    { .op = "attention", .what = about, .n_in = 7, \
        .in = { X(B, T, H * D), X(B, Tk, G * D), X(B, Tk, G * D), ABSENT, ABSENT, key, positions }, \
      .attrs = attributes, .at = box, .compare = COMPARE_SUM, .reduce = Tk + D, .extreme = EXTREME_LARGE }, \
    { .op = "attention_grad", .what = about, .n_in = 10, \
      .in = { X(B, T, H * D), X(B, T, H * D), X(B, Tk, G * D), X(B, Tk, G * D), ABSENT, \
          RESULT(DATA, B, T, H * D), RESULT(STAT, B, H, T), ABSENT, key, positions }, \
      .attrs = attributes, .at = box, .prepare = prepare_attention, .compare = COMPARE_SUM, .ulps = 4, \
          .reduce = 2 * Tk + D }
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
#define ATTEND_CACHED(about, B, H, G, D, T, C, N) ATTEND_RECENT(about, 1, B, H, G, D, T, C, N)
#define ATTEND_RECENT(about, c, B, H, G, D, T, C, N) \
    { .op = "attention_cached", .what = about, .n_in = 4, \
        .in = { X(B, T, H * D), X(B, C, G * D), X(B, C, G * D), INDEX(N, B, T) }, \
      .attrs = ATTENTION(D, c, 0.4), .compare = COMPARE_SUM, .reduce = C + D, .extreme = EXTREME_LARGE, \
          .batch_in = 15 }
#define ATTEND_CACHED_BIAS(about, B, H, G, D, T, C, N) \
    { .op = "attention_cached", .what = about, .n_in = 5, \
        .in = { X(B, T, H * D), X(B, C, G * D), X(B, C, G * D), INDEX(N, B, T), X(H, C) }, \
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
        .attrs = ATTRS(ls_loss_attrs, -100, 0), \
      .compare = COMPARE_SUM, .reduce = C, .extreme = EXTREME_LARGE }, \
    { .op = "cross_entropy_grad", .n_in = 5, .in = { X(R, C), INDEX(C, R), RESULT(STAT, R), SCALAR(STAT, n), \
        SCALAR(STAT, 0.75) }, \
      .attrs = ATTRS(ls_loss_attrs, -100, 0), .prepare = prepare_cross_entropy, .compare = COMPARE_SUM, \
          .absolute = 0.75 / n, .reduce = C, \
      .extreme = EXTREME_LARGE }
/* Rows of the logits of w [C, K]; the other results are chosen by `top`, `dx` and `dw`. In f32 alone: in 16
 * bits the logits are rounded, so a loss differs by more than its own type shows
 * (tests/passes/test_join_loss.c compares them with the separate ops). */
#define LINEAR_LOSS(about, R, C, K, bias, count, weight, smooth, t, x, w) \
    { .op = "linear_cross_entropy", .what = about, .n_in = 6, \
        .in = { X(R, K), X(C, K), INDEX(C, R), bias, count, weight }, \
      .attrs = ATTRS(ls_linear_loss_attrs, -100, smooth, LS_LOSS_BLOCK, t, x, w), .compare = COMPARE_SUM, \
          .absolute = 1, .reduce = C + K, .f32_only = true, .no_gradient = true }
/* With smoothing; the gradient of the rows, whose count is absent, beside that of the loss. */
#define SMOOTH(R, C, n) \
    { .op = "cross_entropy", .what = "smoothed", .n_in = 3, .in = { X(R, C), INDEX(C, R), SCALAR(STAT, n) }, \
        .attrs = ATTRS(ls_loss_attrs, -100, 0.1), .compare = COMPARE_SUM, .reduce = C }, \
    { .op = "cross_entropy_grad", .what = "smoothed", .n_in = 5, \
        .in = { X(R, C), INDEX(C, R), RESULT(STAT, R), SCALAR(STAT, n), SCALAR(STAT, 0.75) }, \
      .attrs = ATTRS(ls_loss_attrs, -100, 0.1), .prepare = prepare_cross_entropy, .compare = COMPARE_SUM, \
          .absolute = 0.75 / n, .reduce = C }, \
    { .op = "cross_entropy_grad", .what = "of rows", .n_in = 5, \
        .in = { X(R, C), INDEX(C, R), RESULT(STAT, R), ABSENT, TYPED(STAT, R) }, \
      .attrs = ATTRS(ls_loss_attrs, -100, 0.25), .prepare = prepare_cross_entropy, .compare = COMPARE_SUM, \
          .absolute = 4, .reduce = C }, \
    { .op = "cross_entropy_part", .what = "smoothed", .n_in = 2, .in = { X(R, C), INDEX(2 * C, R) }, \
        .attrs = ATTRS(ls_loss_attrs, -100, 0.1), .at = BOX(2, { R, 2 * C }, { 0, C }, { R, C }), \
        .compare = COMPARE_SUM, .reduce = C }, \
    { .op = "cross_entropy_grad", .what = "smoothed, of a part", .n_in = 5, \
        .in = { X(R, C), INDEX(2 * C, R), TYPED_POSITIVE(STAT, R), SCALAR(STAT, R), SCALAR(STAT, 0.75) }, \
      .attrs = ATTRS(ls_loss_attrs, -100, 0.1), .at = BOX(2, { R, 2 * C }, { 0, C }, { R, C }), \
          .compare = COMPARE_SUM, .absolute = 0.75 / R, .reduce = C }
#define LABELS(n, ...) INDEX(n, __VA_ARGS__) /* each fifth is not a label */
#define ROW_SUM(about, rows, weights, real, divisor, e) \
    { .op = "row_sum", .what = about, .n_in = 4, .in = { rows, weights, real, divisor }, \
        .attrs = ATTRS(ls_row_sum_attrs, e, -100), .compare = COMPARE_SUM, .reduce = 64 }, \
    { .op = "row_sum_grad", .what = about, .n_in = 5, \
        .in = { rows, weights, real, divisor, SCALAR(STAT, 0.75) }, \
        .attrs = ATTRS(ls_row_sum_attrs, e, -100), .compare = COMPARE_ELEMENT, .ulps = 2 }
/* Columns 9 and on of C classes: this rank's. */
#define FROM_NINE(R, n, C) BOX(2, { R, C }, { 0, 9 }, { R, n })
#define CROSS_ENTROPY_PART(R, n, C, parts) \
    { .op = "cross_entropy_part", .n_in = 2, .in = { X(R, n), INDEX(C, R) }, \
        .attrs = ATTRS(ls_loss_attrs, -100, 0), .at = FROM_NINE(R, n, C), .compare = COMPARE_SUM, \
      .reduce = n, .extreme = EXTREME_LARGE }, \
    { .op = "cross_entropy", .what = "of parts", .n_in = 4, \
        .in = { X(R, n), INDEX(C, R), SCALAR(STAT, R), TYPED_POSITIVE(STAT, parts, R, 3) }, \
      .attrs = ATTRS(ls_loss_attrs, -100, 0), .at = FROM_NINE(R, n, C), .compare = COMPARE_SUM, \
          .reduce = parts, .no_gradient = true }, \
    { .op = "cross_entropy_grad", .what = "of a part", .n_in = 5, \
        .in = { X(R, n), INDEX(C, R), TYPED_POSITIVE(STAT, R), SCALAR(STAT, R), SCALAR(STAT, 0.75) }, \
      .attrs = ATTRS(ls_loss_attrs, -100, 0), .at = FROM_NINE(R, n, C), .compare = COMPARE_SUM, \
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
#define LION(about, n, wd, ...) \
    { .op = "lion", .what = about, .n_in = n, \
      .in = { TYPED(LS_F32, 3, 43), X(3, 43), TYPED(LS_F32, 3, 43), SCALAR(LS_F64, 0.01), __VA_ARGS__ }, \
      .attrs = ATTRS(ls_lion_attrs, 0.9, 0.99, wd), .ulps = 4, .absolute = 4 }
/* of a unit of 100 elements, of which p has 50 from `first` on */
#define MUON(about, n, R, C, offset, first, ...) \
    { .op = "muon", .what = about, .n_in = n, \
      .in = { TYPED(LS_F32, 50), TYPED(LS_F32, 100), SCALAR(LS_F64, 0.01), __VA_ARGS__ }, \
      .attrs = ATTRS(ls_muon_attrs, offset, R, C, first, 0.1, 1.5), .ulps = 64, .absolute = 64 }
/* a parameter at element 16 of a unit of 128, of which p has `here` elements from `first` on */
#define ADAFACTOR(about, n, here, first, whole, B, R, C, t, col, ...) \
    { .op = "adafactor", .what = about, .n_in = n, \
      .in = { TYPED(LS_F32, here), X(128), whole, TYPED_POSITIVE(LS_F32, (B) * (R)), col, \
              SCALAR(LS_F64, 0.01), SCALAR(LS_I64, t), __VA_ARGS__ }, \
      .attrs = ATTRS(ls_adafactor_attrs, 16, B, R, C, first, 1, 0, 0, 0.5, -0.8, 1e-3, 0.1), .ulps = 64, \
          .absolute = 64 }
/* the same of more numbers, `unit` in all, which several blocks of a GPU share */
#define MUON_LARGE(about, unit, R, C, offset) \
    { .op = "muon", .what = about, .n_in = 3, \
      .in = { TYPED(LS_F32, unit), TYPED(LS_F32, unit), SCALAR(LS_F64, 0.01) }, \
      .attrs = ATTRS(ls_muon_attrs, offset, R, C, 0, 0.1, 1.5), .ulps = 64, .absolute = 64 }
#define ADAFACTOR_LARGE(about, unit, B, R, C, col) \
    { .op = "adafactor", .what = about, .n_in = 7, \
      .in = { TYPED(LS_F32, unit), X(unit), ABSENT, TYPED_POSITIVE(LS_F32, (B) * (R)), col, \
              SCALAR(LS_F64, 0.01), SCALAR(LS_I64, 30) }, \
      .attrs = ATTRS(ls_adafactor_attrs, 5, B, R, C, 0, 1, 1, 1, 0.5, -0.8, 1e-3, 0.1), .ulps = 64, \
          .absolute = 64 }
#define EMA(about, n, t, ...) \
    { .op = "ema", .what = about, .n_in = n, \
      .in = { TYPED(LS_F32, 3, 43), TYPED(LS_F32, 3, 43), SCALAR(LS_I64, t), __VA_ARGS__ }, \
      .attrs = ATTRS(ls_ema_attrs, 0.9), .ulps = 4, .absolute = 4 }
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
/* The same with kernels of 3 x 3 and enough channels for Winograd's method, whose errors are two to
 * four times those of plain sums (docs/numerics.md). */
#define SQUARES(about, N, C, H, W, O, P, Q, G, I, J, ...) \
    CONV(about, N, C, H, W, O, 3, 3, 1, 1, P, Q, 1, 1, G, I, J, .no_gradient = true, .ulps = 2, __VA_ARGS__)
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
    { .op = "avg_pool2d", .what = "evenly", .n_in = 1, .in = { X(N, C, H, W) }, \
        .attrs = ATTRS(ls_avg_pool_attrs, .height = I, .width = J), .compare = COMPARE_SUM, \
      .reduce = H * W, .extreme = EXTREME_WIDE, .batch_in = 1 }, \
    { .op = "avg_pool2d_grad", .what = "evenly", .n_in = 1, .in = { X(N, C, I, J) }, \
        .attrs = ATTRS(ls_avg_pool_attrs, .height = H, .width = W), .compare = COMPARE_SUM, \
      .reduce = 4, .extreme = EXTREME_WIDE, .batch_in = 1 }
/* windows of K x L, strides S R, padding P Q; W: padding counts */
#define AVG_POOL_WINDOWS(about, N, C, H, W, K, L, S, R, P, Q, all, I, J) \
    { .op = "avg_pool2d", .what = about, .n_in = 1, .in = { X(N, C, H, W) }, \
        .attrs = ATTRS(ls_avg_pool_attrs, I, J, K, L, S, R, P, Q, all), .compare = COMPARE_SUM, \
      .reduce = K * L, .extreme = EXTREME_WIDE, .batch_in = 1 }, \
    { .op = "avg_pool2d_grad", .what = about, .n_in = 1, .in = { X(N, C, I, J) }, \
        .attrs = ATTRS(ls_avg_pool_attrs, H, W, K, L, S, R, P, Q, all), .compare = COMPARE_SUM, \
      .reduce = K * L, .extreme = EXTREME_WIDE, .batch_in = 1 }
#define RESIZE(about, how, N, C, H, W, I, J) \
    { .op = "resize2d", .what = about, .n_in = 1, .in = { X(N, C, H, W) }, \
        .attrs = ATTRS(ls_resize_attrs, I, J, how), .compare = COMPARE_SUM, \
      .reduce = 4, .extreme = EXTREME_WIDE, .batch_in = 1 }, \
    { .op = "resize2d_grad", .what = about, .n_in = 1, .in = { X(N, C, I, J) }, \
        .attrs = ATTRS(ls_resize_attrs, H, W, how), .compare = COMPARE_SUM, \
      .reduce = 4 * (I * J / (H * W) + 1), .extreme = EXTREME_WIDE, .batch_in = 1 }
#define SOURCE(source, about) \
    { .op = source, .n_in = 0, .attrs = ATTRS(ls_source_attrs, .name = about, \
        .type = { LS_F64, 2, { 3, 5 } }, .init = LS_INIT_ONE), .f32_only = true }
/* clang-format on */
