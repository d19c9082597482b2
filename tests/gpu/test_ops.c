/* test_ops.c - every kernel for GPUs against ref: all cases of tests/ops in f32, bf16 and f16, with ordinary
 * and extreme values, and the same bits whatever the order of blocks and threads is (two seeds of the shim).
 * An argument: only the test of this name. LS_TEST_BRIEF=1: each case in one type, briefly.
 * LS_TEST_OPS=softmax,linear: only cases of these ops. LS_TEST_KERNELS=cublaslt: products by that library,
 * which does not promise that a row's result is the same beside other rows. LS_TEST_SEED=5: other orders.
 * LS_TEST_DEVICE: another device than cuda. LS_TEST_BITS: a file that gets hashes of all results (bits.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "ops/bits.h"
#include "ops/kernels.h"
#include "support/support.h"

/* What a GPU need not have, with the reason. */
static const struct {
    const char *op, *why;
} ALLOWED[] = {
    { "linear", "weights of 4 bits" }, /* passes/unpack.c leaves them to dequantize */
    { "linear_dx", "weights of 4 bits" },
    { "linear_cross_entropy", "this device has no kernel for it" }, /* its parts stay apart there */
    { NULL, NULL },
};

static bool may_lack(const char *op, const char *why)
{
    for (int i = 0; ALLOWED[i].op; i++)
        if (!strcmp(ALLOWED[i].op, op) && strstr(why, ALLOWED[i].why))
            return true;
    return false;
}

/* Says each reason once for each op. */
static bool refused(const op_case *c, const char *why)
{
    static char said[1 << 14];
    char text[256];
    snprintf(text, sizeof text, "%s: %s\n", c->op, why);
    if (!strstr(said, text) && strlen(said) + strlen(text) < sizeof said) {
        strcat(said, text);
        print_message("  refused%s %s", may_lack(c->op, why) ? "" : ", and must not be:", text);
    }
    return may_lack(c->op, why);
}

static bool wanted(const char *op)
{
    const char *list = getenv("LS_TEST_OPS");
    const size_t n = strlen(op);
    for (const char *at = list; at && *at;) {
        const size_t word = strcspn(at, ",");
        if (word == n && !strncmp(at, op, n))
            return true;
        at += word + (at[word] == ',');
    }
    return !list || !*list;
}

static void open_device(ls_device *d)
{
    const char *name = getenv("LS_TEST_DEVICE"), *kernels = getenv("LS_TEST_KERNELS");
    ASSERT_OK(ls_device_open(d, name ? name : "cuda",
                             &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1, .kernels = kernels }));
    kernel_failures = 0;
    kernel_refused = refused;
    kernel_result = getenv("LS_TEST_BITS") ? bits_write : NULL;
}

static void every_kernel_agrees_with_ref(void **state)
{
    const ls_dtype type = *(const ls_dtype *)*state;
    ls_device d;
    open_device(&d);
    int runs = 0;
    kernel_brief = getenv("LS_TEST_BRIEF") != NULL;
    for (const op_case *c = ls_test_cases; c->op; c++) {
        static const ls_dtype TYPES[] = { LS_F32, LS_BF16, LS_F16 };
        if (kernel_brief && type != (c->f32_only ? LS_F32 : TYPES[(c - ls_test_cases) % 3]))
            continue;
        if (!kernel_exists(c) || !wanted(c->op) || (c->f32_only && type != LS_F32))
            continue;
        op_case own = *c;
        if (d.overrides)
            own.batch_in = 0;
        runs += kernel_check(&d, &own, type, EXTREME_NONE);
        if (c->extreme != EXTREME_NONE && !kernel_brief)
            runs += kernel_check(&d, &own, type, c->extreme);
    }
    print_message("%s: %d runs\n", ls_dtype_name(type), runs);
    assert_int_equal(kernel_failures, 0);
}

/* Cases whose inputs have rows, with numbers of rows that divide nothing. */
static void every_number_of_rows(void **state)
{
    static const int64_t ROWS[] = { 0, 1, 17 };
    static const ls_dtype TYPES[] = { LS_F32, LS_BF16, LS_F16 };
    ls_device d;
    (void)state;
    if (getenv("LS_TEST_BRIEF")) {
        print_message("not in a brief run (LS_TEST_BRIEF): gpu.ops.rows has it\n");
        skip();
    }
    open_device(&d);
    int runs = 0;
    kernel_brief = ls_device_apart(&d); /* other layouts and orders are tried with the rows that cases have */
    for (const op_case *c = ls_test_cases; c->op; c++) {
        if (!kernel_exists(c) || !wanted(c->op) || !c->batch_in || c->at)
            continue;
        for (size_t k = 0; k < sizeof ROWS / sizeof *ROWS; k++) {
            op_case own = *c;
            char what[128];
            snprintf(what, sizeof what, "%s%s%lld rows", c->what ? c->what : "", c->what ? ", " : "",
                     (long long)ROWS[k]);
            own.what = what;
            for (int j = 0; j < c->n_in; j++)
                if (c->batch_in >> j & 1)
                    own.in[j].dims[0] = ROWS[k];
            if (!ROWS[k] || d.overrides)
                own.batch_in = 0; /* there is no row to compute alone */
            runs += kernel_check(&d, &own, c->f32_only ? LS_F32 : TYPES[k], EXTREME_NONE);
        }
    }
    print_message("%d runs\n", runs);
    assert_int_equal(kernel_failures, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    if (!access(LS_TEST_SHIMS, F_OK)) { /* "LOCKSTEP_CUDA_LIBRARIES=" is for a real GPU */
        setenv("LOCKSTEP_CUDA_LIBRARIES", LS_TEST_SHIMS, 0);
        setenv("LOCKSTEP_KERNEL_CACHE", LS_TEST_KERNELS, 0);
    }
    if (getenv("LS_TEST_BITS"))
        remove(getenv("LS_TEST_BITS"));
    static ls_dtype types[] = { LS_F32, LS_BF16, LS_F16 };
    const struct CMUnitTest tests[] = {
        { "f32", every_kernel_agrees_with_ref, NULL, NULL, &types[0] },
        { "bf16", every_kernel_agrees_with_ref, NULL, NULL, &types[1] },
        { "f16", every_kernel_agrees_with_ref, NULL, NULL, &types[2] },
        { "rows", every_number_of_rows, NULL, NULL, NULL },
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
