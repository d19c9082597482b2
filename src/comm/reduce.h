/* reduce.h - the arithmetic of collectives: operands of several ranks are reduced to one result. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "lockstep/types.h"

enum { LS_REDUCE_OPERANDS = 1024 }; /* most operands of one reduction */

/* A sum associates in the balanced tree over operands: (0+1)+(2+3). Operands are rounded to `via`, and so is
 * each partial sum; the result is stored as `to`. */
typedef struct ls_reduce {
    enum ls_reduce_by { LS_BY_SUM, LS_BY_MAX, LS_BY_WIDE_SUM } by;
    ls_dtype from, via, to; /* of f32, f64, bf16, f16; or all three i32 or all three i64 (wide: i64 pairs) */
    int n;
    const char *const *in; /* n operands; the result may be one of them */
    char *out;
    int64_t count; /* elements; wide: an even number of i64 */
    bool stream;   /* the result is much larger than the caches, and no operand: write it past them */
    int threads;
} ls_reduce;
void ls_reduce_run(const ls_reduce *r);
/* Copies, converting between float types. Nothing happens when `out` is `in` and the types agree. */
void ls_convert(char *out, ls_dtype to, const char *in, ls_dtype from, int64_t count, bool stream,
                int threads);
