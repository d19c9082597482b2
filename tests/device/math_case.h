/* math_case.h - runs one op on device ref and on every level of device cpu that this machine has, with 1, 2
 * and 3 threads. cpu must agree with ref within a tolerance, and every number of threads with one thread bit
 * by bit. Outputs and workspaces lie between guards; what lies between the rows of a strided output must not
 * change. */
#pragma once
#include "device/cpu/isa.h"

enum { CASE_MAX = 10 };

/* What fills an operand. */
typedef enum fill_kind {
    FILL_NORMAL,   /* about normal, times `scale` */
    FILL_POSITIVE, /* its absolute value plus a little */
    FILL_EXTREME,  /* zeros, infinities, NaN, huge, tiny, mixed with normal ones */
    FILL_MIXED,    /* sizes from 2^-30 to 2^10 */
    FILL_COUNT,    /* 0 .. scale-1, for labels */
    FILL_VALUE,    /* `scale` itself */
    FILL_DATA,     /* doubles at `data`, in row-major order */
} fill_kind;

typedef struct operand {
    ls_type type;
    int64_t pad;            /* elements between rows; the tensor is row-strided if not 0 */
    const int64_t *strides; /* any strides (inputs only), else NULL */
    fill_kind kind;
    double scale;
    const double *data;
    int alias; /* output: 1 + the input that it updates in place; 0 none */
} operand;
#define ABSENT ((operand){ .type = { .ndim = -1 } })
#define NORMAL(t, size) ((operand){ .type = (t), .kind = FILL_NORMAL, .scale = (size) })
#define POSITIVE(t, size) ((operand){ .type = (t), .kind = FILL_POSITIVE, .scale = (size) })
#define EXTREME(t, size) ((operand){ .type = (t), .kind = FILL_EXTREME, .scale = (size) })
#define BELOW(t, n) ((operand){ .type = (t), .kind = FILL_COUNT, .scale = (n) })
#define VALUE(t, x) ((operand){ .type = (t), .kind = FILL_VALUE, .scale = (x) })
#define DATA(t, numbers) ((operand){ .type = (t), .kind = FILL_DATA, .data = (numbers) })
#define PLAIN(t) ((operand){ .type = (t) })                            /* an output */
#define UPDATES(t, input) ((operand){ .type = (t), .alias = (input) }) /* 1 + the input; 0 a new tensor */

typedef struct math_case {
    const char *op;
    int n_in, n_out;
    operand in[CASE_MAX], out[CASE_MAX];
    const void *attrs;
    double rel,
        /* |cpu - ref| <= rel |ref| + of_max * largest |ref| of the output (+ the rounding of the output's
           type) */
        of_max,
        /* of_max of outputs of bf16 at levels where products take bf16 (0: no different) */
        of_max_bf16;
    uint64_t seed;
} math_case;

#define EPS 1.1920929e-7

void math_check(const math_case *c);

/* Pieces, for tests with a question of their own. */
int math_levels(ls_isa levels[LS_ISA_COUNT]); /* those built and runnable here */
typedef struct math_run {
    ls_tensor in[CASE_MAX], out[CASE_MAX];
    void *blocks[2 * CASE_MAX];
    int n_blocks;
} math_run;
void math_make(math_run *r, const math_case *c);                        /* allocates and fills */
void math_execute(math_run *r, const math_case *c, const ls_device *d); /* checks guards too */
void math_free(math_run *r);
ls_device math_cpu(ls_isa isa, int threads);
uint64_t math_bits(const ls_tensor *t, int64_t i); /* element number i in row-major order */
double math_value(const ls_tensor *t, int64_t i);
