/* test_helper.c - the helpers of golden tests: the formula of parameters is that of the scripts, and the
 * comparison finds differences. */
#include "golden/golden.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void formula(void **state)
{
    (void)state;
    ls_weights *w = golden_open("ops");
    static const struct {
        const char *name;
        double amplitude, center;
    } STORED[] = {
        { "layer_norm_offset.x", 2, 64 },
        { "layer_norm.gain", 0.5, 1 },
        { "softmax.x", 8, 0 },
        { "attention_gqa.k", 2, 0 },
    };
    for (int k = 0; k < 4; k++) {
        const ls_weight *t = golden_get(w, "%s", STORED[k].name);
        double *want = golden_values(t);
        for (int64_t i = 0; i < golden_count(t); i++)
            assert_true(golden_formula(t->name, i, STORED[k].amplitude, STORED[k].center) == want[i]);
        free(want);
    }
    ls_weights_close(&w);

    /* parameters: each kind */
    float x[8];
    double y[8];
    ls_type f32 = LS_TYPE(LS_F32, 8), f64 = LS_TYPE(LS_F64, 2, 4);
    golden_parameter("encoder.ln.weight", &f32, x);
    for (int i = 0; i < 8; i++)
        assert_true(x[i] >= 0.875f && x[i] < 1.125f &&
                    (double)x[i] == golden_formula("encoder.ln.weight", i, 0.125, 1));
    golden_parameter("conv_proj.weight", &f64, y);
    for (int i = 0; i < 8; i++)
        assert_true(y[i] == golden_formula("conv_proj.weight", i, 0.125, 0));
    golden_parameter("conv_proj.bias", &f32, x);
    for (int i = 0; i < 8; i++)
        assert_true((double)x[i] == golden_formula("conv_proj.bias", i, 0.0625, 0));
}

static void comparison(void **state)
{
    (void)state;
    double want_data[3] = { 1, -4, 2 };
    ls_weight want = { .name = "want",
                       .file = "-",
                       .stored = "F64",
                       .loadable = true,
                       .type = LS_TYPE(LS_F64, 3),
                       .bytes = 24,
                       .data = want_data };
    float ours[7] = { 1, 9, -4.5f, 9, 2, 9, 9 }; /* elements 0, 2, 4 are what a sample of 3 of 7 holds */
    ls_type t = LS_TYPE(LS_F32, 7), three = LS_TYPE(LS_F32, 3);
    golden_error e = golden_compare(ours, &t, &want);
    assert_true(e.worst == 0.5 && e.at == 2 && e.ours == -4.5 && e.want == -4 && e.norm == 0.5 &&
                e.largest == 4);
    float same[3] = { 1, NAN, 2 };
    assert_true(isinf(golden_compare(same, &three, &want).worst));
    want_data[1] = NAN;
    assert_true(golden_compare(same, &three, &want).worst == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(formula), cmocka_unit_test(comparison) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
