/* test_join_loss.c - a head and its loss as one op: the bits of the separate ops, in every type and at every
 * level, whatever rows have targets; and where they stay separate. */
#include <stdio.h>

#include "device/cpu/isa.h"
#include "ops/linear_loss.h"
#include "passes/evaluate.h"
#include "passes/join_loss.h"
#include "support/support.h"

enum { ROWS = 592, CLASSES = 40, DEPTH = 48, RUN = 16, MOST = LS_LOSS_BLOCK * CLASSES };

typedef struct head_case {
    const char *what;
    ls_dtype t;
    bool x, w, bias, tokens, predicts, squared; /* x, w: trained; tokens: x is [batch, tokens, depth] */
    double limit, smoothing; /* a run of rows has targets where a number in +-1 is above it */
} head_case;

/* Classes 0 to 2, -100 in whole runs of rows and in single ones. */
static ls_value labels(ls_graph *g, double limit)
{
    const ls_type runs = LS_TYPE(LS_F32, ROWS / RUN, 1), all = LS_TYPE(LS_F32, ROWS / RUN, RUN);
    const ls_value run = ls_broadcast_dims(g, ls_input(g, "run", runs), 2, all.dims),
                   each = ls_add_const(g, ls_input(g, "each", all), 0.8),
                   class = ls_cast(g, ls_input(g, "class", LS_TYPE(LS_I32, ROWS / RUN, RUN)), LS_F32),
                   zero = ls_fill(g, LS_SCALAR(LS_F32), limit);
    ls_value valid = ls_mul(g, ls_gt(g, run, zero), ls_gt(g, each, ls_fill(g, LS_SCALAR(LS_F32), 0)));
    valid = ls_mul(g, valid, ls_add_const(g, class, 100));
    return ls_reshape(g, ls_cast(g, ls_add_const(g, valid, -100), LS_I32), ROWS);
}

static ls_graph *head_graph(const head_case *c, ls_value *logits)
{
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "head"));
    const ls_type x = c->tokens ? LS_TYPE(c->t, 8, ROWS / 8, DEPTH) : LS_TYPE(c->t, ROWS, DEPTH),
                  w = LS_TYPE(c->t, CLASSES, DEPTH);
    const ls_init init = { .kind = LS_INIT_ZERO };
    const ls_value xs = c->x ? ls_param(g, "x", x, init) : ls_input(g, "x", x),
                   ws = c->w ? ls_param(g, "w", w, init) : ls_input(g, "w", w),
                   bias = c->bias ? ls_input(g, "bias", LS_TYPE(c->t, CLASSES)) : LS_NONE;
    *logits = ls_matmul_wt(g, xs, ws, bias);
    const ls_value z = ls_reshape(g, *logits, ROWS, CLASSES);
    const ls_value target = labels(g, c->limit);
    const ls_loss_attrs attrs = { .ignore_index = LS_IGNORE_LABEL, .smoothing = c->smoothing };
    const ls_type count = LS_SCALAR(c->t == LS_F64 ? LS_F64 : LS_F32);
    const ls_value loss = ls_cross_entropy_sum(g, z, target, ls_input(g, "loss, divisor", count), &attrs);
    ls_output(g, "loss", c->squared ? ls_square(g, loss) : loss);
    ls_output(g, "rows", ls_nth(g, loss, 2));
    if (c->predicts)
        ls_output(g, "predicted", ls_argmax(g, *logits));
    if (c->x || c->w)
        add_gradients(g);
    ASSERT_OK(ls_graph_status(g));
    return g;
}

static ls_graph *joined(const ls_graph *before)
{
    ls_graph *after = copy_graph(before);
    ASSERT_OK(ls_pass_dce(&after));
    ASSERT_OK(ls_pass_join_loss(&after, MOST));
    ASSERT_OK(ls_pass_dce(&after));
    return after;
}

static const head_case SAME[] = {
    { .what = "everything", .t = LS_F32, .x = true, .w = true },
    { .what = "all rows", .t = LS_F32, .x = true, .w = true, .limit = -2 },
    { .what = "no row", .t = LS_F32, .x = true, .w = true, .limit = 2 },
    { .what = "tokens, smoothed", .t = LS_F32, .x = true, .w = true, .tokens = true, .smoothing = 0.1 },
    { .what = "weight alone", .t = LS_F32, .w = true },
    { .what = "bias", .t = LS_F32, .x = true, .bias = true },
    { .what = "predictions", .t = LS_F32, .predicts = true, .tokens = true },
    { .what = "everything", .t = LS_F64, .x = true, .w = true, .tokens = true, .smoothing = 0.1 },
    { .what = "frozen weight", .t = LS_BF16, .x = true, .tokens = true },
    { .what = "frozen weight, no row", .t = LS_BF16, .x = true, .limit = 2 },
    { .what = "frozen weight", .t = LS_F16, .x = true, .bias = true, .smoothing = 0.2 },
    { .what = "predictions", .t = LS_BF16, .predicts = true, .bias = true },
};

static void same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof SAME / sizeof *SAME; i++) {
        const head_case *c = &SAME[i];
        ls_value logits;
        ls_graph *before = head_graph(c, &logits), *after = joined(before);
        if (count_ops(after, "linear_cross_entropy") != 1 || count_ops(after, "linear") ||
            count_ops(after, "linear_dx") || count_ops(after, "linear_dw") || count_ops(after, "argmax"))
            fail_msg("%s: not joined:\n%s", c->what, ls_graph_print(after, false));
        const char *device;
        int isa;
        for (int k = 0; evaluate_device(k, &device, &isa) && (c->t != LS_F64 || !k); k++) {
            evaluated a = evaluate(before, device, isa, 1, NULL), b = evaluate(after, device, isa, 2, NULL);
            char what[120];
            snprintf(what, sizeof what, "%s, %s, %s %s", c->what, ls_dtype_name(c->t), device,
                     k ? ls_isa_name((ls_isa)isa) : "");
            expect_same_bits(&a, &b, what);
            evaluated_release(&a);
            evaluated_release(&b);
        }
        ls_graph_destroy(&before);
        ls_graph_destroy(&after);
    }
}

/* What must stay as it is. */
static void stays_separate(void **state)
{
    (void)state;
    for (int k = 0; k < 5; k++) {
        head_case c = { .t = LS_F32, .x = true };
        ls_value logits;
        c.w = k == 0;
        c.squared = k == 3;              /* the gradient is not known before the loss */
        c.t = k == 0 ? LS_BF16 : LS_F32; /* a trained weight of 16 bits */
        ls_graph *g = head_graph(&c, &logits);
        if (k == 1)
            ls_output(g, "logits", logits);
        if (k == 2) /* a second reader */
            ls_output(g, "largest", ls_amax(g, logits, 1, false));
        ls_graph *after = copy_graph(g);
        ASSERT_OK(ls_pass_dce(&after));
        ASSERT_OK(ls_pass_join_loss(&after, k == 4 ? (int64_t)ROWS * CLASSES * 17 : MOST)); /* too small */
        if (count_ops(after, "linear_cross_entropy"))
            fail_msg("case %d is joined", k);
        ls_graph_destroy(&after);
        ls_graph_destroy(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits),
        cmocka_unit_test(stays_separate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
