/* test_by_name.c - ls_trainer_get and ls_trainer_set: parameters and buffers are copied whole, on any number
 * of ranks; what was set is trained on; mistakes change nothing. Ranks are threads. */
#include <string.h>

#include "golden/training.h"
#include "lockstep/nn.h"
#include "support/ranks.h"

enum { IN = 5, OUT = 3, BATCH = 4, M = 4 };

/* config: the hidden units, NULL: 7 */
static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    const int hidden = config ? *(const int *)config : 7;
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, batch, IN)),
             y = ls_input(g, "y", LS_TYPE(LS_F32, batch, OUT));
    ls_value t = ls_linear(g, "out", ls_tanh(g, ls_linear(g, "in", x, hidden)), OUT);
    t = ls_unscale(g, ls_scaling_of(g, "y", OUT), t);
    ls_loss(g, "mse", ls_square(g, ls_sub(g, t, y)), 1, LS_BY_ELEMENT, NULL);
    return ls_graph_finish(g);
}

static ls_status step(ls_trainer *t, double *loss)
{
    float x[M * BATCH][IN], y[M * BATCH][OUT];
    const ls_share share = t->compiled.share;
    const int64_t n = share.count * BATCH;
    ls_step_result r;
    for (int64_t k = 0; k < n; k++) {
        const int64_t sample = (share.first + k / BATCH * share.stride) + k % BATCH * M;
        for (int i = 0; i < IN; i++)
            x[k][i] = (float)((sample * 7 + i * 3) % 11) / 11;
        for (int i = 0; i < OUT; i++)
            y[k][i] = (float)((sample * 5 + i) % 7);
    }
    const ls_tensor tx = ls_tensor_of(x, &LS_TYPE(LS_F32, n, IN)),
                    ty = ls_tensor_of(y, &LS_TYPE(LS_F32, n, OUT));
    LS_TRY(ls_trainer_put(t, "x", &tx, 0));
    LS_TRY(ls_trainer_put(t, "y", &ty, 0));
    LS_TRY(ls_trainer_run(t, n, 1e-2, &r));
    *loss = r.loss;
    return LS_OK;
}

typedef struct job {
    int ranks;
    const char *wrong; /* what rank 1 does otherwise: "name", "shape", "values"; NULL: nothing */
    double losses[2];
    float weight[OUT][7];
} job;

static ls_status check_lists(ls_group *g, ls_trainer *t)
{
    ls_named_tensor p[4], b[2];
    RANK_CHECK(ls_trainer_parameters(t, p, 4) == 4 && ls_trainer_buffers(t, b, 2) == 2);
    RANK_CHECK(!strcmp(p[2].name, "out.weight") && !p[2].tensor.data && p[2].tensor.type.dims[1] == 7);
    RANK_CHECK(!strcmp(b[0].name, "scaling.y.mean") && !b[0].tensor.data && b[0].tensor.type.dims[0] == OUT);
    return LS_OK;
}

static ls_status rank(ls_group *g, void *context)
{
    job *j = context;
    ls_trainer *t;
    double losses[2], wide[OUT], mean[OUT] = { 3, 2.5, 0.5 };
    float columns[7][OUT], weight[OUT][7];
    const bool one = j->wrong && ls_group_rank(g) == 1;
    ls_tensor turned = ls_tensor_of(columns, &LS_TYPE(LS_F32, OUT, 7)),
              plain = ls_tensor_of(weight, &LS_TYPE(LS_F32, OUT, 7)),
              deviation = ls_tensor_of(wide, &LS_TYPE(LS_F64, OUT)),
              means = ls_tensor_of(mean, &LS_TYPE(LS_F64, OUT));
    turned.strides[0] = 1;
    turned.strides[1] = OUT;
    ls_parallel parallel = ls_parallel_over(g);
    LS_TRY(ls_trainer_create(&t, build, NULL, .micro_batch = BATCH, .micro_batches = M, .threads = 1,
                             .parallel = parallel, .group = g));
    LS_TRY(ls_trainer_init(t, 3));
    LS_TRY(check_lists(g, t));
    LS_TRY(ls_trainer_get(t, "out.weight", &turned));
    for (int i = 0; i < OUT; i++)
        for (int k = 0; k < 7; k++)
            columns[k][i] = 2 * columns[k][i] + (float)i;
    columns[6][2] += one && !strcmp(j->wrong, "values");
    plain.type.dims[0] -= one && !strcmp(j->wrong, "shape");
    ls_status s = ls_trainer_set(t, "out.weight", one && !strcmp(j->wrong, "shape") ? &plain : &turned);
    if (s == LS_OK)
        s = ls_trainer_get(t, one && !strcmp(j->wrong, "name") ? "out.weights" : "out.weight", &plain);
    for (int i = 0; s == LS_OK && i < OUT; i++)
        for (int k = 0; k < 7; k++)
            RANK_CHECK(weight[i][k] == columns[k][i]);
    if (s == LS_OK)
        s = ls_trainer_set(t, "scaling.y.mean", &means);
    if (s == LS_OK)
        s = ls_trainer_get(t, "scaling.y.deviation", &deviation);
    RANK_CHECK(s != LS_OK || (wide[0] == 1 && wide[2] == 1));
    for (int i = 0; s == LS_OK && i < 2; i++)
        s = step(t, &losses[i]);
    if (s == LS_OK)
        s = ls_trainer_get(t, "out.weight", &plain);
    if (s == LS_OK && ls_group_rank(g) == 0) {
        memcpy(j->losses, losses, sizeof losses);
        memcpy(j->weight, weight, sizeof weight);
    }
    ls_trainer_destroy(&t);
    return s;
}

static void same_on_any_number_of_ranks(void **state)
{
    (void)state;
    job jobs[3] = { { .ranks = 1 }, { .ranks = 2 }, { .ranks = 4 } };
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(run_ranks(jobs[i].ranks, rank, &jobs[i]));
        assert_memory_equal(jobs[i].losses, jobs[0].losses, sizeof jobs[0].losses);
        assert_memory_equal(jobs[i].weight, jobs[0].weight, sizeof jobs[0].weight);
    }
    assert_true(jobs[0].losses[0] > 1 && jobs[0].losses[1] < jobs[0].losses[0]);
}

/* Two ranks of axis tp, of which rank 1 has another rate or another sample; nothing is changed by that. */
static ls_status apart(ls_group *g, void *context)
{
    const bool second = ls_group_rank(g) == 1;
    float x[BATCH][IN] = { 0 }, y[BATCH][OUT] = { 0 };
    const ls_tensor tx = ls_tensor_of(x, &LS_TYPE(LS_F32, BATCH, IN)),
                    ty = ls_tensor_of(y, &LS_TYPE(LS_F32, BATCH, OUT));
    ls_trainer *t;
    ls_step_result r;
    (void)context;
    ls_parallel p = ls_parallel_over(g);
    p.mesh = (ls_mesh){ .n = 2, .axes = { { "dp", 1 }, { "tp", 2 } } };
    p.tensor = "colwise:in rowwise:out";
    LS_TRY(ls_trainer_create(&t, build, &(int){ 8 }, .micro_batch = BATCH, .padding = true, .threads = 1,
                             .parallel = p, .group = g));
    LS_TRY(ls_trainer_init(t, 3));
    LS_TRY(ls_trainer_put(t, "x", &tx, 0));
    LS_TRY(ls_trainer_put(t, "y", &ty, 0));
    RANK_CHECK(ls_trainer_run(t, BATCH, second ? 2e-3 : 1e-3, &r) == LS_E_ARG &&
               strstr(ls_error_message(), "rate is 0.001 on rank 0 and 0.002 on rank 1"));
    RANK_CHECK(ls_trainer_run(t, BATCH - second, 1e-3, &r) == LS_E_ARG &&
               strstr(ls_error_message(), "rank 1 was put other samples than rank 0"));
    x[3][4] = second;
    LS_TRY(ls_trainer_put(t, "x", &tx, 0));
    RANK_CHECK(ls_trainer_run(t, BATCH, 1e-3, &r) == LS_E_ARG &&
               strstr(ls_error_message(), "the ranks of axis tp compute the same samples"));
    RANK_CHECK(ls_trainer_run(t, BATCH - 1, 1e-3, &r) == LS_OK); /* the others are the same */
    ls_trainer_destroy(&t);
    return LS_OK;
}

static void ranks_call_alike(void **state)
{
    (void)state;
    ASSERT_OK(run_ranks(2, apart, NULL));
}

static void mistakes_are_told(void **state)
{
    (void)state;
    job name = { .ranks = 2, .wrong = "name" }, shape = { .ranks = 2, .wrong = "shape" },
        values = { .ranks = 2, .wrong = "values" };
    ASSERT_FAILS(run_ranks(2, rank, &name), LS_E_ARG, "ls_trainer_get", "\"out.weights\"",
                 "ls_trainer_parameters");
    ASSERT_FAILS(run_ranks(2, rank, &shape), LS_E_SHAPE, "ls_trainer_set",
                 "\"out.weight\" is f32 [3, 7] in the model, but the values given are f32 [2, 7]");
    ASSERT_FAILS(run_ranks(2, rank, &values), LS_E_USAGE, "ls_trainer_set", "rank 1 has values with hash");
    ls_trainer *t;
    float x[OUT];
    ls_tensor bias = ls_tensor_of(x, &LS_TYPE(LS_F32, OUT)), ids = ls_tensor_of(x, &LS_TYPE(LS_I32, OUT)),
              none = ls_tensor_of(NULL, &LS_TYPE(LS_F32, OUT));
    ASSERT_OK(ls_trainer_create(&t, build, NULL, .micro_batch = BATCH, .ema_decay = 0.5, .threads = 1));
    ASSERT_FAILS(ls_trainer_get(t, "out.bias", &bias), LS_E_ARG, "ls_trainer_get", "ls_trainer_init");
    ASSERT_OK(ls_trainer_init(t, 1));
    ASSERT_FAILS(ls_trainer_get(t, "out.bias", &ids), LS_E_SHAPE, "the values given are i32 [3]");
    ASSERT_FAILS(ls_trainer_set(t, "out.bias", &none), LS_E_ARG, "data is NULL");
    t->averaged = true;
    ASSERT_FAILS(ls_trainer_set(t, "out.bias", &bias), LS_E_ARG, "ls_trainer_exchange_ema");
    ls_trainer_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(same_on_any_number_of_ranks),
                                        cmocka_unit_test(ranks_call_alike),
                                        cmocka_unit_test(mistakes_are_told) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
