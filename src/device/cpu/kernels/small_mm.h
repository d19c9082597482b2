/* small_mm.h - products of tiles that are in L1 or L2 already, for attention: nothing is packed, and the left
 * operand may have any strides.
 *
 * Each element of C is one chain of multiply-adds over k in ascending order, which starts from 0 or from C,
 * whatever tile computes it. A step of k takes one word of 4 bytes from every row of A and every column of B:
 * an f32, or two bf16 that follow each other in depth, the even one in the low half (as in gemm.h). */
#pragma once
#include "kernel.h"

/* C[m, n] = A[m, k] B[k, n] (+ C). Words of A are a_row and a_k apart. n is a multiple of VF_LANES. */
void LS_NAME(ls_small_mm)(int64_t m, int64_t n, int64_t k, const float *a, int64_t a_row, int64_t a_k,
                          const float *b, int64_t ldb, float *c, int64_t ldc, bool add);
#ifdef LS_LEVEL_avx512bf16
/* The same with words of two bf16, by vdpbf16ps. C is f32. */
void LS_NAME(ls_small_dot_mm)(int64_t m, int64_t n, int64_t k, const float *a, int64_t a_row, int64_t a_k,
                              const float *b, int64_t ldb, float *c, int64_t ldc, bool add);
#endif
/* to[d][j] = rows[j][d] for j < n, of any words; 0 behind them up to a whole vector. d is rounded up to a
 * multiple of VF_LANES, which `rows` must contain. */
void LS_NAME(ls_small_transpose)(float *to, int64_t ldt, const float *rows, int64_t ld, int64_t n, int64_t d);
