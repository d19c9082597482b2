/* gemm_case.h - one call of linear, linear_dx or linear_dw on made-up numbers, with strides, guards after the
 * workspace, and sentinels between rows. For the tests of matrix products. */
#pragma once
#include "device/device.h"

typedef enum gemm_op { OP_LINEAR, OP_DX, OP_DW } gemm_op;

typedef struct gemm_case {
    gemm_op op;
    ls_dtype dtype;
    int64_t m, n, k; /* x [m, k], w [n, k], y [m, n] */
    ls_act act;
    bool bias, residual; /* linear_dx: residual = addend; linear_dw: bias = db */
    int pad;             /* elements between rows of everything that may be row-strided; 0: contiguous */
    uint64_t seed;
    const float *a_values, *b_values; /* instead of random numbers: first and second input, row after row */
} gemm_case;

/* Inputs and outputs as f64, contiguous, in the op's order; storage is the case's until gemm_release. */
typedef struct gemm_result {
    double *in[4], *out[2];
    int64_t in_rows[4], in_cols[4], out_rows[2], out_cols[2];
    void *raw_out[2]; /* contiguous bytes of the outputs as they were stored */
    size_t raw_bytes[2];
} gemm_result;

/* Runs rows [r0, r1) of the case (linear and linear_dx; others: all) on `device`, checks guards and
 * sentinels. */
void gemm_run(const gemm_case *c, const ls_device *device, int64_t r0, int64_t r1, gemm_result *out);
void gemm_release(gemm_result *r);
double gemm_act(ls_act act, double x);
double gemm_act_slope(ls_act act, double x);
double gemm_unit(ls_dtype t); /* half a unit in the last place, relative */
