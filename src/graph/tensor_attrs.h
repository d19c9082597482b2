/* tensor_attrs.h - the constants of ops over dimensions, by index and over time. It continues attrs.h. */
#pragma once
#include <stdint.h>

/* clang-format off */
/* gather, scatter_add: the dimension that is indexed; size: of the result along it (scatter_add) */
typedef struct ls_index_attrs { int64_t dim, size; } ls_index_attrs;
/* cumsum. reverse 1: element i is the sum from i on, which is the gradient */
typedef struct ls_cumsum_attrs { int64_t dim, reverse; } ls_cumsum_attrs;
/* batch_matmul. 1: the last two dimensions of a, of b, are transposed; not of both */
typedef struct ls_matmul_attrs { int64_t transpose_a, transpose_b; } ls_matmul_attrs;
/* group_norm and its gradient: channels of a group */
typedef struct ls_group_norm_attrs { int64_t channels; double eps; } ls_group_norm_attrs;
/* lstm, gru and their gradients. reverse 1: from the last token to the first */
typedef struct ls_recurrent_attrs { int64_t reverse; } ls_recurrent_attrs;
/* top_k: how many of the last dimension */
typedef struct ls_top_k_attrs { int64_t k; } ls_top_k_attrs;
/* n: of group_order the number of groups, of combine that of tokens, of grouped_linear_dw a group. rows: of
 * grouped_linear and its gradients, how many rows belong to a group if they are spread evenly; 0: all do */
typedef struct ls_group_attrs { int64_t n, rows; } ls_group_attrs;
/* received_groups: a rank's position, and how many ranks send it rows */
typedef struct ls_received_attrs { int64_t position, ranks; } ls_received_attrs;
/* clang-format on */
