/* test_embedding.c - the gradient of a table behind ls_embedding, as a step of SGD with rate 1 applies it,
 * against differences of the loss, in f64 on ref. Numbers of rows repeat within a sample and over samples;
 * one row does not occur. */
#include <math.h>

#include "lockstep/data.h"
#include "lockstep/nn.h"
#include "lockstep/trainer.h"
#include "support/support.h"

enum { N = 4, IDS = 3, ROWS = 7, DIM = 2, TABLE = ROWS * DIM, UNUSED = 5 };

static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    (void)config;
    const ls_value ids = ls_input(g, "ids", LS_TYPE(LS_I32, batch, IDS)),
                   rows = ls_reshape(g, ls_embedding(g, "kind", ids, ROWS, DIM), batch, -1),
                   y = ls_add(g, ls_tanh(g, rows), ls_square(g, rows));
    ls_loss(g, "loss", ls_exp(g, ls_mean(g, y, 1, false)), 1, LS_BY_SAMPLE, NULL);
    return ls_graph_finish(g);
}

static const int32_t NUMBERS[N * IDS] = { 3, 0, 3, 1, 6, 3, 2, 2, 2, 4, 0, 6 };

static void set_table(ls_trainer *t, const double *values)
{
    const ls_type type = LS_TYPE(LS_F64, ROWS, DIM);
    const ls_tensor table = ls_tensor_of((void *)(uintptr_t)values, &type);
    ASSERT_OK(ls_trainer_set(t, "kind.weight", &table));
}

static double loss_at(ls_trainer *t, const ls_dataset *set, const double *table, int i, double h)
{
    double moved[TABLE];
    ls_metric loss;
    int n;
    for (int k = 0; k < TABLE; k++)
        moved[k] = table[k] + (k == i ? h : 0);
    set_table(t, moved);
    ASSERT_OK(ls_trainer_evaluate(t, set, &loss, 1, &n));
    return loss.value;
}

static void gradients_are_the_differences(void **state)
{
    (void)state;
    ls_dataset *set = NULL;
    ls_trainer *t;
    ls_step_result r;
    double before[TABLE], after[TABLE];
    const ls_type type = LS_TYPE(LS_I32, N, IDS), table = LS_TYPE(LS_F64, ROWS, DIM);
    const ls_tensor ids = ls_tensor_of((void *)(uintptr_t)NUMBERS, &type), got = ls_tensor_of(after, &table);
    ASSERT_OK(ls_dataset_put(&set, "ids", &ids));
    ls_trainer_opts o = { LS_TRAINER_DEFAULTS };
    o.device = "ref";
    o.threads = 1;
    o.micro_batch = 2;
    o.micro_batches = N / 2;
    o.param = o.output = o.parallel.reduce = LS_F64;
    o.optimizer.kind = LS_SGD;
    ASSERT_OK(ls_trainer_create_with(&t, build, NULL, &o));
    ASSERT_OK(ls_trainer_init(t, 1));
    for (int k = 0; k < TABLE; k++)
        before[k] = 0.4 * sin(1.7 * k);
    set_table(t, before);
    ASSERT_OK(ls_trainer_put(t, "ids", &ids, 0));
    ASSERT_OK(ls_trainer_run(t, N, 1, &r));
    ASSERT_OK(ls_trainer_get(t, "kind.weight", &got));
    for (int k = 0; k < TABLE; k++) {
        const double h = 1e-4, gradient = before[k] - after[k],
                     quotient = (loss_at(t, set, before, k, h) - loss_at(t, set, before, k, -h)) / (2 * h);
        if (!(fabs(gradient - quotient) < 1e-8))
            fail_msg("element %d: gradient %.12g, difference quotient %.12g", k, gradient, quotient);
        assert_true((k / DIM == UNUSED) == (gradient == 0));
    }
    ls_trainer_destroy(&t);
    ls_dataset_close(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(gradients_are_the_differences) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
