/* cublaslt.h - the functions of NVIDIA's library for matrix products (libcublasLt.so.13 or .12) that Lockstep
 * calls, opened when `kernels: cublaslt` asks for it: it is not needed to build. Names, numbers and types are
 * those of the vendor's documentation ("cuBLAS: Using the cuBLASLt API"), written here as C types.
 *
 * Matrices are column-major: element (i, j) is at i + j * ld. */
#pragma once
#include "driver.h"

typedef int lt_status;
typedef struct lt_handle_st *lt_handle;
typedef struct lt_operation_st *lt_operation;
typedef struct lt_layout_st *lt_layout;
typedef struct lt_preference_st *lt_preference;
typedef struct lt_algorithm { /* opaque */
    uint64_t data[8];
} lt_algorithm;
typedef struct lt_choice {
    lt_algorithm algorithm;
    size_t workspace; /* bytes that it needs */
    lt_status state;  /* the members above are valid if it is LT_SUCCESS */
    float waves;
    int reserved[4];
} lt_choice;

enum {
    LT_SUCCESS = 0,
    LT_NOT_INITIALIZED = 1,
    LT_ALLOC_FAILED = 3,
    LT_INVALID_VALUE = 7,
    LT_EXECUTION_FAILED = 13,
    LT_NOT_SUPPORTED = 15,
};
enum { LT_R_32F = 0, LT_R_16F = 2, LT_R_16BF = 14 };    /* types of elements */
enum { LT_COMPUTE_32F = 68 };                           /* what sums are made in */
enum { LT_OP_N = 0, LT_OP_T = 1 };                      /* transposition */
enum { LT_EPILOGUE_DEFAULT = 1, LT_EPILOGUE_BIAS = 4 }; /* bias: one element for each row of D */
enum { LT_REDUCTION_INPLACE = 1, LT_REDUCTION_COMPUTE_TYPE = 2, LT_REDUCTION_OUTPUT_TYPE = 4 };

/* Attributes, with the type of each. A descriptor's create function sets what is not listed. */
enum {
    LT_LAYOUT_BATCH_COUNT = 5,  /* int32_t, default 1 */
    LT_LAYOUT_BATCH_STRIDE = 6, /* int64_t elements, default 0 */
};
enum {
    LT_OPERATION_TRANS_A = 3,      /* int32_t, default LT_OP_N */
    LT_OPERATION_TRANS_B = 4,      /* int32_t, default LT_OP_N */
    LT_OPERATION_EPILOGUE = 7,     /* uint32_t, default LT_EPILOGUE_DEFAULT */
    LT_OPERATION_BIAS_POINTER = 8, /* const void *; a heuristic sees its alignment */
    LT_OPERATION_BIAS_TYPE = 26,   /* int32_t; that of D */
};
enum {
    LT_PREFERENCE_WORKSPACE = 1,   /* uint64_t bytes at most, default 0 */
    LT_PREFERENCE_REDUCTIONS = 3,  /* uint32_t mask of LT_REDUCTION_ ..., default all; 0: none but no split */
    LT_PREFERENCE_ALIGNMENT_A = 5, /* uint32_t bytes, default 256; then of B, C and D */
};

/* F(field, symbol, arguments); each returns an lt_status */
#define LT_FUNCTIONS(F)                                                                                  \
    F(create, cublasLtCreate, (lt_handle * h))                                                           \
    F(operation_create, cublasLtMatmulDescCreate, (lt_operation * o, int compute, int scale_type))       \
    F(operation_destroy, cublasLtMatmulDescDestroy, (lt_operation o))                                    \
    F(operation_set, cublasLtMatmulDescSetAttribute,                                                     \
      (lt_operation o, int attribute, const void *value, size_t bytes))                                  \
    F(layout_create, cublasLtMatrixLayoutCreate,                                                         \
      (lt_layout * l, int type, uint64_t rows, uint64_t columns, int64_t ld))                            \
    F(layout_destroy, cublasLtMatrixLayoutDestroy, (lt_layout l))                                        \
    F(layout_set, cublasLtMatrixLayoutSetAttribute,                                                      \
      (lt_layout l, int attribute, const void *value, size_t bytes))                                     \
    F(preference_create, cublasLtMatmulPreferenceCreate, (lt_preference * p))                            \
    F(preference_destroy, cublasLtMatmulPreferenceDestroy, (lt_preference p))                            \
    F(preference_set, cublasLtMatmulPreferenceSetAttribute,                                              \
      (lt_preference p, int attribute, const void *value, size_t bytes))                                 \
    F(choices, cublasLtMatmulAlgoGetHeuristic,                                                           \
      (lt_handle h, lt_operation o, lt_layout a, lt_layout b, lt_layout c, lt_layout d, lt_preference p, \
       int most, lt_choice *list, int *n)) /* the fastest first */                                       \
    F(matmul, cublasLtMatmul,              /* D = epilogue(alpha op(A) op(B) + beta C) */                \
      (lt_handle h, lt_operation o, const void *alpha, const void *a, lt_layout la, const void *b,       \
       lt_layout lb, const void *beta, const void *c, lt_layout lc, void *d, lt_layout ld,               \
       const lt_algorithm *algorithm, void *workspace, size_t workspace_bytes, cu_stream s))

#define LT_FIELD(field, symbol, arguments) lt_status(*field) arguments;
typedef struct lt_functions {
    LT_FUNCTIONS(LT_FIELD)
    size_t (*version)(void);                 /* cublasLtGetVersion; 120903: 12.9.3 */
    const char *(*status_name)(lt_status r); /* cublasLtGetStatusName */
} lt_functions;
