/* test_cases.c - every op of the table has a case, every case an op, and every optional operand is present in
 * one case and absent in another. Every op has a row in docs/ops.md. */
#include <stdio.h>
#include <string.h>

#include "cases.h"
#include "device/cpu/isa.h"
#include "support/support.h"

static void every_op_has_a_case(void **state)
{
    (void)state;
    int missing = 0;
    for (const ls_op *const *op = ls_ops; *op; op++) {
        if (case_is_over_ranks(*op))
            continue;
        uint32_t with = 0, without = 0;
        int n = 0;
        for (const op_case *c = ls_test_cases; c->op; c++) {
            if (strcmp(c->op, (*op)->name) != 0)
                continue;
            n++;
            for (int j = 0; j < 32; j++)
                *(j < c->n_in && c->in[j].ndim >= 0 ? &with : &without) |= 1u << j;
        }
        if (!n) {
            print_error("%s: no case in tests/ops/cases.c\n", (*op)->name);
            missing++;
        }
        for (int j = 0; j < 32; j++)
            if (n && ((*op)->optional_in >> j & 1) && !((with & without) >> j & 1)) {
                print_error("%s: operand %d is optional and needs a case %s it\n", (*op)->name, j,
                            with >> j & 1 ? "without" : "with");
                missing++;
            }
    }
    assert_int_equal(missing, 0);
}

static void every_case_has_an_op_and_fits_its_shape_rule(void **state)
{
    (void)state;
    for (const op_case *c = ls_test_cases; c->op; c++) {
        const ls_op *op = ls_op_find(c->op);
        if (!op)
            fail_msg("the case %s %s names no op", c->op, c->what ? c->what : "");
        assert_in_range(c->n_in, (unsigned)op->min_in, op->max_in < 0 ? CASE_MAX_IN : (unsigned)op->max_in);
        ls_tensor in[CASE_MAX_IN];
        ls_type out[LS_MAX_OUT];
        case_inputs(c, LS_F32, EXTREME_NONE, 1, in);
        assert_true(case_outputs(c, in, out) >= 1);
        case_free(c->n_in, in);
    }
}

/* Devices whose kernels are rows of a table: no row may name an op that does not exist. */
static void every_kernel_has_an_op(void **state)
{
    (void)state;
    for (const ls_kernel *k = *ls_device_ref.tables(NULL); k->op; k++)
        if (!ls_op_find(k->op))
            fail_msg("device ref has a kernel \"%s\", and there is no such op", k->op);
    for (int isa = 0; isa < LS_ISA_COUNT; isa++)
        for (const ls_kernel *const *t = ls_cpu_tables((ls_isa)isa); t && *t; t++)
            for (const ls_kernel *k = *t; k->op; k++)
                if (!ls_op_find(k->op))
                    fail_msg("device cpu (%s) has a kernel \"%s\", and there is no such op",
                             ls_isa_name((ls_isa)isa), k->op);
}

/* docs/ops.md says what each computes; element-wise ones are those of a list that it names. */
static void every_op_is_documented(void **state)
{
    (void)state;
    static char page[1 << 17];
    FILE *f = fopen(LS_TEST_SOURCE_DIR "/docs/ops.md", "r");
    assert_non_null(f);
    const size_t n = fread(page, 1, sizeof page - 1, f);
    fclose(f);
    assert_in_range(n, 1, sizeof page - 2);
    int missing = 0;
    for (const ls_op *const *op = ls_ops; *op; op++) {
        char row[80];
        snprintf(row, sizeof row, "`%s`", (*op)->name);
        bool found = case_is_over_ranks(*op) || (*op)->flags & LS_OP_ELEMENTWISE;
        for (const char *line = page; !found && (line = strstr(line, "\n| `")); line++) {
            const char *name = strstr(line, row), *end = strstr(line, " | ");
            found = name && end && name < end;
        }
        if (!found) {
            print_error("%s: no row in docs/ops.md\n", (*op)->name);
            missing++;
        }
    }
    assert_int_equal(missing, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_has_a_case),
        cmocka_unit_test(every_case_has_an_op_and_fits_its_shape_rule),
        cmocka_unit_test(every_kernel_has_an_op),
        cmocka_unit_test(every_op_is_documented),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
