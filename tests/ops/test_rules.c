/* test_rules.c - every op has a rule, or is made after values are placed. Where a case splits a loop, the
 * shape rule takes the blocks and gives blocks. */
#include <string.h>

#include "cases.h"
#include "device/device.h"
#include "ops/rules.h"
#include "support/support.h"

static bool is_later(const ls_op *op) { return op->rule && !strcmp(op->rule, LS_RULE_LATER); }

static void every_op_has_a_rule(void **state)
{
    (void)state;
    int missing = 0;
    for (const ls_op *const *op = ls_ops; *op; op++) {
        const bool source = (*op)->max_in == 0;
        assert_true((*op)->max_in <= LS_KERNEL_INPUTS); /* or raise it */
        if (!source && !(*op)->rule && !(*op)->dims) {
            print_error("%s: no rule; say its loops (ops/rule.h), or LS_RULE_LATER\n", (*op)->name);
            missing++;
        }
        if (!is_later(*op) && *op != &ls_op_param &&
            !((*op)->flags & LS_OP_AT) != !((*op)->rule && strchr((*op)->rule, '@'))) {
            print_error("%s: LS_OP_AT goes with an operand with @\n", (*op)->name);
            missing++;
        }
        if (is_later(*op) && (*op)->dims) {
            print_error("%s: is made later, and has loops\n", (*op)->name);
            missing++;
        }
    }
    assert_int_equal(missing, 0);
}

/* The page of a step shows it of every kernel: a sentence, and not more than two lines. */
static void every_op_has_a_sentence(void **state)
{
    (void)state;
    int bad = 0;
    for (const ls_op *const *op = ls_ops; *op; op++) {
        const char *s = (*op)->summary;
        const size_t n = s ? strlen(s) : 0;
        if (n < 12 || n > 120 || s[0] < 'A' || s[0] > 'Z' || s[n - 1] != '.' || !strchr(s, ' ')) {
            print_error("%s: summary: say in a sentence what it computes\n", (*op)->name);
            bad++;
        }
    }
    assert_int_equal(bad, 0);
}

/* Operands and results of one rank of two. False: a dimension does not divide. */
static bool halve(const ls_rule *r, const ls_infer *whole, int loop, ls_type *in, ls_type *out)
{
    for (int k = 0; k < whole->n_in; k++) {
        int64_t start;
        in[k] = whole->in[k];
        ls_rule_slide_of(r, whole, k, loop, 2, 0, &start, &in[k].dims[r->slide.dim]);
        for (int d = 0; d < in[k].ndim; d++)
            if (ls_rule_in(r, k, d) == loop) {
                const int64_t unit = r->heads[k < LS_RULE_IN ? k : LS_RULE_IN - 1] >> d & 1 ? r->head_dim : 1;
                if (in[k].dims[d] % (2 * unit))
                    return false;
                in[k].dims[d] /= 2;
            }
    }
    for (int k = 0; k < whole->n_out; k++) {
        out[k] = whole->out[k];
        for (int d = 0; d < out[k].ndim; d++)
            if (r->out[k][d] == loop) {
                if (out[k].dims[d] % 2)
                    return false;
                out[k].dims[d] /= 2;
            }
    }
    return true;
}

static void shape_rules_take_blocks(void **state)
{
    (void)state;
    int split = 0;
    ls_arena a;
    ls_arena_init(&a);
    for (const op_case *c = ls_test_cases; c->op; c++) {
        const ls_op *op = ls_op_find(c->op);
        ls_type types[CASE_MAX_IN], in[CASE_MAX_IN], out[LS_MAX_OUT];
        if (is_later(op) || op->max_in == 0)
            continue;
        for (int k = 0; k < c->n_in; k++)
            types[k] = case_type(c, k, LS_F32);
        ls_infer whole = { .op = op, .n_in = c->n_in, .in = types, .attrs = c->attrs, .n_out = op->n_out };
        ASSERT_OK(op->infer(&whole));
        ls_rule r;
        if (ls_rule_of(&r, &whole) != LS_OK)
            fail_msg("%s %s: %s", c->op, c->what ? c->what : "", ls_error_message());
        for (int l = 0; l < r.n; l++) {
            if (r.loop[l].fixed || r.loop[l].join || !halve(&r, &whole, l, in, out))
                continue;
            void *attrs = ls_attrs_copy(&a, op, c->attrs);
            if (op->local)
                op->local(&a, attrs, &out[0]);
            ls_infer mine = { .op = op, .n_in = c->n_in, .in = in, .attrs = attrs, .n_out = op->n_out };
            if (op->infer(&mine) != LS_OK)
                fail_msg("%s %s, loop %d: %s", c->op, c->what ? c->what : "", l, ls_error_message());
            for (int k = 0; k < mine.n_out; k++)
                if (!ls_type_equal(&mine.out[k], &out[k]))
                    fail_msg("%s %s, loop %d: result %d has another type than its block", c->op,
                             c->what ? c->what : "", l, k);
            split++;
        }
    }
    ls_arena_release(&a);
    assert_true(split > 50);
}

static ls_rule rule_of(const ls_op *op, int n_in, const ls_type *in, const void *attrs)
{
    ls_rule r;
    ls_infer i = { .op = op, .n_in = n_in, .in = in, .attrs = attrs, .n_out = op->n_out };
    ASSERT_OK(op->infer(&i));
    ASSERT_OK(ls_rule_of(&r, &i));
    return r;
}

/* Parts of a sum can be given to what adds, not to an activation. */
static void an_activation_wants_the_whole_sum(void **state)
{
    (void)state;
    const ls_type in[] = { LS_TYPE(LS_F32, 6, 4), LS_TYPE(LS_F32, 8, 4) };
    for (int act = LS_ACT_NONE; act <= LS_ACT_RELU; act++) {
        const ls_rule r = rule_of(&ls_op_linear, 2, in, &(ls_linear_attrs){ .act = act });
        assert_int_equal(r.loop[ls_rule_in(&r, 0, 1)].fixed, act != LS_ACT_NONE);
        assert_false(r.loop[ls_rule_in(&r, 0, 0)].fixed || r.loop[ls_rule_in(&r, 1, 0)].fixed);
    }
}

/* All dimensions of a broadcast but the last. */
static void rows_are_what_is_before_the_features(void **state)
{
    (void)state;
    const ls_type in[] = { LS_TYPE(LS_F32, 2, 3, 4), LS_TYPE(LS_F32, 4) };
    const ls_rule r = rule_of(&ls_op_add, 2, in, NULL);
    for (int d = 0; d < 3; d++)
        assert_int_equal(r.loop[ls_rule_in(&r, 0, d)].rows, d < 2);
    assert_int_equal(ls_rule_in(&r, 1, 0), ls_rule_in(&r, 0, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_has_a_rule),
        cmocka_unit_test(every_op_has_a_sentence),
        cmocka_unit_test(shape_rules_take_blocks),
        cmocka_unit_test(an_activation_wants_the_whole_sum),
        cmocka_unit_test(rows_are_what_is_before_the_features),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
