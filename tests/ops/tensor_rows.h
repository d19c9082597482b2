/* tensor_rows.h - macros for the rows of tensor_cases.inc. */
#pragma once
#include "case_rows.h"
#include "graph/tensor_attrs.h"

/* clang-format off */
#define LOG_SOFTMAX(R, C) \
    { .op = "log_softmax", .n_in = 1, .in = { X(R, C) }, .compare = COMPARE_SUM, .reduce = C, \
        .extreme = EXTREME_LARGE, .batch_in = 1 }, \
    { .op = "log_softmax_grad", .n_in = 2, .in = { X(R, C), RESULT(DATA, R, C) }, \
        .prepare = prepare_log_softmax, .compare = COMPARE_SUM, .reduce = C, .batch_in = 3 }
/* N samples of G groups of k channels */
#define GROUP_NORM(about, N, G, k, H, W) \
    { .op = "group_norm", .what = about, .n_in = 3, .in = { X(N, G * k, H, W), X(G * k), X(G * k) }, \
        .attrs = ATTRS(ls_group_norm_attrs, k, 1e-5), .compare = COMPARE_SUM, .reduce = k * H * W, \
        .batch_in = 1 }, \
    { .op = "group_norm_grad", .what = about, .n_in = 5, \
        .in = { X(N, G * k, H, W), X(N, G * k, H, W), X(G * k), RESULT(STAT, N, G), RESULT(STAT, N, G) }, \
        .attrs = ATTRS(ls_group_norm_attrs, k, 1e-5), .prepare = prepare_group_norm, \
        .compare = COMPARE_SUM, .reduce = k * H * W * N }
/* B sequences of T tokens, H units */
#define LSTM(about, back, B, T, H, n, ...) \
    { .op = "lstm", .what = about, .n_in = n, .in = { X(B, T, 4 * H), X(4 * H, H), __VA_ARGS__ }, \
        .attrs = ATTRS(ls_recurrent_attrs, back), .compare = COMPARE_SUM, .ulps = 4, .reduce = H * T, \
        .fed_back = true, .batch_in = n > 2 ? 13 : 1 }
#define LSTM_GRAD(about, back, B, T, H, n, ...) \
    { .op = "lstm_grad", .what = about, .n_in = n, \
        .in = { __VA_ARGS__ }, .attrs = ATTRS(ls_recurrent_attrs, back), .prepare = prepare_lstm, \
        .compare = COMPARE_SUM, .ulps = 8, .reduce = H * T }
#define GRU(about, back, B, T, H, n, ...) \
    { .op = "gru", .what = about, .n_in = n, .in = { X(B, T, 3 * H), X(3 * H, H), __VA_ARGS__ }, \
        .attrs = ATTRS(ls_recurrent_attrs, back), .compare = COMPARE_SUM, .ulps = 4, .reduce = H * T, \
        .batch_in = n > 3 ? 9 : 1 }
#define GRU_GRAD(about, back, B, T, H, n, ...) \
    { .op = "gru_grad", .what = about, .n_in = n, \
        .in = { X(B, T, H), X(3 * H, H), RESULT(DATA, B, T, H), RESULT(DATA, B, T, 4 * H), __VA_ARGS__ }, \
        .attrs = ATTRS(ls_recurrent_attrs, back), .prepare = prepare_gru, \
        .compare = COMPARE_SUM, .ulps = 8, .reduce = H * T }
/* k: what is summed over */
#define BATCH_MATMUL(about, ta, tb, k, x, y, ...) \
    { .op = "batch_matmul", .what = about, .n_in = 2, .in = { x, y }, \
        .attrs = ATTRS(ls_matmul_attrs, ta, tb), .compare = COMPARE_SUM, .reduce = k, \
        .extreme = EXTREME_WIDE, .batch_in = 3, __VA_ARGS__ }
/* sums along dimension d of size n */
#define CUMSUM(about, n, d, back, x, ...) \
    { .op = "cumsum", .what = about, .n_in = 1, .in = { x }, .attrs = ATTRS(ls_cumsum_attrs, d, back), \
        .compare = COMPARE_SUM, .reduce = n, .extreme = EXTREME_WIDE, __VA_ARGS__ }
/* dimension d has `size` elements; scatter_add: n of them are added */
#define GATHER(about, d, x, index, ...) \
    { .op = "gather", .what = about, .n_in = 2, .in = { x, index }, \
        .attrs = ATTRS(ls_index_attrs, .dim = d), .compare = COMPARE_EXACT, __VA_ARGS__ }
#define SCATTER_ADD(about, d, to, n, x, index, ...) \
    { .op = "scatter_add", .what = about, .n_in = 2, .in = { x, index }, \
        .attrs = ATTRS(ls_index_attrs, d, to), .compare = COMPARE_SUM, .reduce = n, \
        .extreme = EXTREME_WIDE, __VA_ARGS__ }
/* R rows in an order of their groups, of n tokens */
#define ROWS_MOVED(name, about, R, n, x) \
    { .op = name, .what = about, .n_in = 3, .in = { x, RESULT(LS_I32, R), RESULT(LS_I32, R) }, \
        .attrs = ATTRS(ls_group_attrs, n, 0), .prepare = prepare_order, .compare = COMPARE_SUM, \
        .reduce = R / n }
/* The last `none` rows are of no group. */
#define OFFSETS(groups, none) { LS_I32, FILL_RESULT, none, 1, { groups + 1 } }
#define GROUPED(name, about, n, none, k, ...) \
    { .op = name, .what = about, .n_in = n, .in = { __VA_ARGS__ }, .prepare = prepare_offsets, \
        .compare = COMPARE_SUM, .reduce = k, .no_gradient = none > 0 }
#define GROUPED_DW(about, g, R, groups, N, K) \
    { .op = "grouped_linear_dw", .what = about, .n_in = 3, .in = { X(R, N), X(R, K), OFFSETS(groups, 0) }, \
        .attrs = ATTRS(ls_group_attrs, g, 0), .prepare = prepare_offsets, .compare = COMPARE_SUM, \
        .reduce = R }
#define RECEIVED(about, position, ranks, groups) \
    { .op = "received_groups", .what = about, .n_in = 1, \
        .in = { { LS_I32, FILL_RESULT, 0, 1, { ranks * (groups + 1) } } }, \
        .attrs = ATTRS(ls_received_attrs, position, ranks), .prepare = prepare_begins, \
        .compare = COMPARE_EXACT, .no_gradient = true }
/* clang-format on */
