/* cases.h - for every op at least one call of it: operands (types, sizes, what they hold) and constants. The
 * tests of this folder run all of them: gradients by finite differences on ref, cpu kernels against ref. To
 * add an op, add its row and its cases (cases.c); test_cases fails until there is one. */
#pragma once
#include <string.h>
#include "device/queue.h"
#include "ops/rules.h"

/* Element type of an operand: that of the data (the test chooses: f64, f32, bf16, f16), that of statistics
 * (f32, f64 with f64 data), or one of ls_dtype. */
enum { DATA = -1, STAT = -2 };

typedef enum case_fill {
    FILL_NORMAL,   /* deviation 1, nothing within 0.05 of 0 (kinks); with f64 data multiples of 2^-10 */
    FILL_PLAIN,    /* the same, also in extreme runs */
    FILL_POSITIVE, /* 0.5 and more: denominators, logarithms */
    FILL_CONST,    /* `value` everywhere */
    FILL_INDEX,    /* integers 0 .. value-1, every fifth one -100 */
    FILL_ID,       /* integers 0 .. value-1 */
    FILL_RESULT,   /* the case's `prepare` writes it */
} case_fill;

typedef struct case_operand {
    int dtype;
    case_fill fill;
    double value;
    int ndim; /* -1: absent */
    int64_t dims[LS_MAX_DIMS];
} case_operand;

/* What a comparison of two kernels may show. */
typedef enum case_compare {
    /* relative to the element: `ulps` roundings of its type, plus `absolute` times f32's (or the type's) eps
     */
    COMPARE_ELEMENT,
    /* relative to the largest element: sums of `reduce` terms, error grows as its square root */
    COMPARE_SUM,
    COMPARE_EXACT,
} case_compare;

/* How far a case can be driven. */
typedef enum case_extreme {
    EXTREME_NONE,
    EXTREME_SPECIAL, /* zeros of both signs, subnormal, huge, infinite, NaN in every combination */
    EXTREME_WIDE,    /* magnitudes over many powers of two */
    EXTREME_LARGE,   /* magnitudes of thousands: what overflows an exp that forgets to subtract the maximum */
} case_extreme;

enum { CASE_MAX_IN = 10 };
typedef struct op_case {
    const char *op, *what;
    int n_in;
    case_operand in[CASE_MAX_IN];
    const void *attrs;
    const ls_box *at; /* of the operand with @; NULL: it is whole */
    /* fills the FILL_RESULT operands from the others, with ref */
    void (*prepare)(const struct op_case *c, ls_tensor *in);
    bool no_gradient; /* a form that only exists after differentiation (fused epilogues) */
    bool f32_only;    /* operands have fixed types: once is enough */
    case_compare compare;
    double ulps, absolute; /* ulps 0: 1 */
    int64_t reduce;
    /* output 0 is rounded and read again, so the other outputs are as far off as its type rounds */
    bool fed_back;
    case_extreme extreme;
    /* inputs whose dimension 0 is rows that must not influence each other; output 0 then has it too */
    uint32_t batch_in;
} op_case;

extern const op_case ls_test_cases[]; /* ended by op NULL */

ls_type case_type(const op_case *c, int operand, ls_dtype data); /* ndim -1: absent */
/* Makes and fills the operands; free with case_free. Element values depend on (case, operand, index, seed)
 * only. */
void case_inputs(const op_case *c, ls_dtype data, case_extreme extreme, uint64_t seed,
                 ls_tensor in[CASE_MAX_IN]);
void case_free(int n, ls_tensor *t);
/* Types of the outputs by the op's shape rule; returns how many. */
int case_outputs(const op_case *c, const ls_tensor *in, ls_type out[LS_MAX_OUT]);

/* One element as a double, any type, and back (rounded). */
double element_get(const ls_tensor *t, int64_t flat);
void element_put(const ls_tensor *t, int64_t flat, double x);

/* Memory that ends where the tensor ends (so that sanitizers see a stray access), 64-byte aligned, filled
 * with 0xff. */
void *exact_alloc(size_t bytes);

/* Runs one op on a device with these tensors. Fails the test if the device has no such kernel. */
void run_op(const ls_device *d, const char *op, const void *attrs, int n_in, const ls_tensor *in, int n_out,
            const ls_tensor *out);
void run_op_at(const ls_device *d, const char *op, const void *attrs, const ls_box *at, int n_in,
               const ls_tensor *in, int n_out, const ls_tensor *out);

/* Memory of the host that tensors lie in. On a device with memory of its own each range gets a room, which
 * has the range's bytes before the op and whose bytes come back behind it; so the tensors are as they would
 * be on a device that works in host memory. */
typedef struct op_range {
    void *base;
    size_t bytes;
} op_range;
enum { OP_RANGES = 64 };
void run_op_in(const ls_device *d, const char *op, const void *attrs, const ls_box *at, int n_in,
               const ls_tensor *in, int n_out, const ls_tensor *out, int n_ranges, const op_range *ranges);

/* Collectives, transfers, replicate and fork have no kernels of their own and no cases here:
 * tests/comm, tests/step/test_ranks.c and test_slices.c have them. */
static inline bool case_is_over_ranks(const ls_op *op)
{
    return op->flags & (LS_OP_COLLECTIVE | LS_OP_TRANSFER) || !strcmp(op->name, "replicate") ||
           !strcmp(op->name, "fork");
}
