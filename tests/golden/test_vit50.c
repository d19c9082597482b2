/* test_vit50.c - the acceptance run on real data: 50 steps of 128 unshuffled Fashion-MNIST images, Adam 1e-3.
 * Every loss within 1e-5 of PyTorch float32's, and every weight tensor afterwards within 1e-3 of the distance
 * that it travelled. (PyTorch's own float32 against its float64: 1.7e-6 and 3.8e-5.) `make parity` compares
 * all of it with a live PyTorch; here the stored sample of each tensor is compared. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "golden/training.h"

enum { BATCH = 128, STEPS = 50 };

/* Errors and distances over the stored sample; of in_proj_bias without the K part (golden README). */
static void check_weights(const char *what, const ls_weights *golden, const ls_named_tensor *p)
{
    int64_t count = ls_type_count(&p->tensor.type);
    const ls_weight *want = golden_get(golden, "f32.weight.%s", p->name);
    int64_t n = golden_count(want);
    float *initial = malloc(sizeof *initial * (size_t)count);
    golden_parameter(p->name, &p->tensor.type, initial);
    double *theirs = golden_values(want), error = 0, travelled = 0;
    bool biased = strstr(p->name, "in_proj_bias") != NULL;
    for (int64_t k = 0; k < n; k++) {
        int64_t i = golden_sampled(k, n, count);
        if (biased && i >= count / 3 && i < 2 * (count / 3))
            continue;
        error += pow((double)((const float *)p->tensor.data)[i] - theirs[k], 2);
        travelled += pow(theirs[k] - (double)initial[i], 2);
    }
    /* the sample must be a fair one, or its distance would say nothing about the tensor's */
    double whole = golden_scalar(golden, "f32.travelled.%s", p->name), part = (double)n / (double)count;
    assert_true(sqrt(travelled) > 0.5 * whole * sqrt(part) && sqrt(travelled) < 2 * whole * sqrt(part));
    if (!(sqrt(error) <= 1e-3 * sqrt(travelled)))
        fail_msg("%s: %s: differs from PyTorch's by %.3g, which is %.3g of the distance it travelled; "
                 "allowed 1e-3",
                 what, p->name, sqrt(error), sqrt(error / travelled));
    free(initial);
    free(theirs);
}

static void fifty_steps(void **state)
{
    (void)state;
    const char *folder = ls_test_data("fashion-mnist");
    training_data d = training_data_fashion_mnist(folder, BATCH * STEPS);
    ls_weights *golden = golden_open("vit50");
    static const struct {
        int micro_batches;
        bool recompute;
    } WAYS[] = { { 1, false }, { 2, true }, { 4, false } };
    ls_isa levels[LS_ISA_COUNT];
    int n = training_levels(levels);
    for (int l = 0; l < n; l++) {
        /* threads and recompute do not change bits (test_vit): one way a level is enough */
        int way = (n - 1 - l) % 3, m = WAYS[way].micro_batches;
        ls_trainer_opts o = {
            LS_TRAINER_DEFAULTS, .isa = ls_isa_name(levels[l]),
            .threads = 2,        .micro_batch = BATCH / m,
            .micro_batches = m,  .recompute = WAYS[way].recompute ? "class:EncoderBlock" : NULL
        };
        ls_trainer *t = training_start(training_build_vit, &training_vit, &o);
        double losses[STEPS];
        training_steps(t, &d, BATCH, 0, STEPS, 1e-3, losses);
        training_expect_losses(training_describe(&o), losses, STEPS, golden_get(golden, "f32.losses"), 1e-5);
        ls_named_tensor p[128];
        assert_int_equal(training_parameters(t, p, 128), 128);
        for (int i = 0; i < 128; i++)
            check_weights(training_describe(&o), golden, &p[i]);
        training_release(p, 128);
        ls_trainer_destroy(&t);
    }
    ls_weights_close(&golden);
    training_data_release(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(fifty_steps) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
