/* test_ring.c - which samples of a queue each fill takes, and that a checkpoint has the others. */
#include "simulation.h"

#include <string.h>

#include "live/live.h"

/* A fill, which takes the n samples from number `first` on. */
static void fill_has(ls_live *q, ls_trainer *t, int64_t first, int64_t n)
{
    int64_t samples, total;
    bool done;
    ls_step_result r;
    ASSERT_OK(ls_live_fill(q, &samples, &total, &done));
    assert_int_equal(samples, n);
    for (int64_t row = 0; row < n; row++) {
        float x[IN], y[OUT];
        simulation_sample(first + row, x, y);
        for (int field = 0; field < q->n_fields; field++)
            if (!strcmp(t->fields[field].name, "x"))
                assert_memory_equal(t->fields[field].put + (size_t)row * q->fields[field].bytes, x, sizeof x);
    }
    if (total)
        ASSERT_OK(ls_trainer_run(t, samples, 1e-3, &r));
}

/* What each fill takes is next in the order of pushes, also where the ring begins again, where a fill takes
 * fewer than the queue has, exactly what it has, or a whole share, and after a checkpoint. */
static void fills_follow_one_another(void **state)
{
    (void)state;
    static const int PUSHES[] = { 6, 2, 0, 5, 4, 1, 3, 0, 6, 2, 4, 6 };
    ls_trainer *t, *u;
    ls_live *q, *p;
    int64_t pushed = 0, taken = 0;
    const char *dir = ls_test_path("ring");
    ASSERT_OK(simulation_trainer(&t, NULL));
    ASSERT_OK(ls_live_open(&q, t, .capacity = 7));
    for (size_t k = 0; k < sizeof PUSHES / sizeof PUSHES[0]; k++) {
        ASSERT_OK(simulation_push(q, 100 + pushed, PUSHES[k]));
        pushed += PUSHES[k];
        const int64_t n = pushed - taken < MICRO ? pushed - taken : MICRO;
        fill_has(q, t, 100 + taken, n);
        taken += n;
    }
    assert_true(taken > 21 && pushed - taken == 2);
    ASSERT_OK(ls_trainer_save_checkpoint(t, dir));
    ASSERT_OK(simulation_trainer(&u, NULL));
    ASSERT_OK(ls_live_open(&p, u, .capacity = 7));
    ASSERT_OK(ls_trainer_load_checkpoint(u, dir));
    fill_has(p, u, 100 + taken, 2);
    fill_has(q, t, 100 + taken, 2);
    ls_live_close(&p);
    ls_live_close(&q);
    ls_trainer_destroy(&u);
    ls_trainer_destroy(&t);
}

/* A checkpoint knows whether a rank ever had a sample to pad with. */
static void spare_samples_are_saved(void **state)
{
    (void)state;
    for (int had = 0; had < 2; had++) {
        ls_trainer *t, *u;
        ls_live *q, *p;
        const char *dir = ls_test_path(had ? "spare" : "no-spare");
        ASSERT_OK(simulation_trainer(&t, NULL));
        ASSERT_OK(ls_live_open(&q, t, .capacity = 7));
        ASSERT_OK(simulation_push(q, 40, had ? 3 : 0));
        fill_has(q, t, 40, had ? 3 : 0);
        ASSERT_OK(ls_trainer_save_checkpoint(t, dir));
        ASSERT_OK(simulation_trainer(&u, NULL));
        ASSERT_OK(ls_live_open(&p, u, .capacity = 7));
        ASSERT_OK(ls_trainer_load_checkpoint(u, dir));
        assert_int_equal(p->has_spare, had);
        for (int field = 0; field < p->n_fields && had; field++)
            assert_memory_equal(p->fields[field].spare, q->fields[field].spare, p->fields[field].bytes);
        ls_live_close(&p);
        ls_live_close(&q);
        ls_trainer_destroy(&u);
        ls_trainer_destroy(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(fills_follow_one_another),
                                        cmocka_unit_test(spare_samples_are_saved) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
