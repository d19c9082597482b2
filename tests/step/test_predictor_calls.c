/* test_predictor_calls.c - which calls on a predictor are refused, and how: another name, type, shape, order
 * or thread; memory. None does harm. */
#include <pthread.h>
#include <string.h>

#include "base/fault.h"
#include "step/predicted.h"

static void *run_it(void *p) { return (void *)(uintptr_t)(ls_predictor_run(p, 1) == LS_E_ARG); }

static void misuse(void **state)
{
    (void)state;
    ls_trainer *t;
    ls_predictor *p;
    float x[8 * IN] = { 0 };
    int32_t ids[8] = { 0 };
    ls_tensor in = rows_of(x, LS_TYPE(LS_F32, 8, IN)), two = rows_of(x, LS_TYPE(LS_F32, 8, 2)),
              whole = rows_of(ids, LS_TYPE(LS_I32, 8)), y = rows_of(x, LS_TYPE(LS_F32, 4, OUT));
    ASSERT_OK(ls_trainer_create(&t, build_own, NULL, .micro_batch = 4, .threads = 1));
    ASSERT_FAILS(ls_predictor_of(&p, t), LS_E_ARG, "ls_predictor_of before the trainer has weights");
    ASSERT_OK(ls_trainer_init(t, 2));
    ASSERT_FAILS(ls_predictor_of(&p, t, .outputs = "y eror"), LS_E_USAGE, "no output \"eror\"",
                 "is it \"error\"?", "it has y, fc.weight, x, id, error");
    ASSERT_FAILS(ls_predictor_of(&p, t, .outputs = "logits"), LS_E_USAGE, "no output \"logits\"");
    ASSERT_FAILS(ls_predictor_of(&p, t, .outputs = " "), LS_E_USAGE, "no name");
    ASSERT_FAILS(ls_predictor_of(&p, t, .batch = 5), LS_E_ARG, "batch 5", "for 4 samples", ".build");
    ASSERT_FAILS(ls_predictor_of(&p, t, .batch = -1), LS_E_ARG, "batch -1");
    ASSERT_FAILS(ls_predictor_of(&p, t, .ema = true), LS_E_ARG, "ls_trainer_exchange_ema");
    assert_null(p);
    ASSERT_OK(ls_predictor_of(&p, t, .outputs = "y id"));
    ASSERT_FAILS(ls_predictor_get(p, "y", &y), LS_E_ARG, "ls_predictor_get before ls_predictor_run");
    ASSERT_FAILS(ls_predictor_put(p, "ix", &in), LS_E_ARG, "no input \"ix\"", "has x, id");
    ASSERT_FAILS(ls_predictor_put(p, "idd", &in), LS_E_ARG, "is it \"id\"?");
    ASSERT_FAILS(ls_predictor_put(p, "y", &y), LS_E_ARG, "no input \"y\"");
    ASSERT_FAILS(ls_predictor_put(p, "x", &two), LS_E_SHAPE,
                 "\"x\" is f32 [8, 2], the model takes f32 [8, 3]");
    ASSERT_FAILS(ls_predictor_put(p, "x", &whole), LS_E_SHAPE, "\"x\" is i32 [8]",
                 "dimension 0 is the samples");
    ASSERT_FAILS(ls_predictor_put(p, "id", &in), LS_E_SHAPE, "\"id\" is f32 [8, 3]", "i32 [8]");
    ASSERT_OK(ls_predictor_put(p, "x", &in));
    ASSERT_FAILS(ls_predictor_run(p, 2), LS_E_ARG, "\"id\" was not put since the last run");
    ASSERT_OK(ls_predictor_put(p, "id", &whole));
    ASSERT_FAILS(ls_predictor_run(p, 9), LS_E_ARG, "9 rows, but \"x\" was put for 8");
    ASSERT_FAILS(ls_predictor_run(p, -1), LS_E_ARG, "n is -1");
    ASSERT_OK(ls_predictor_run(p, 5));
    ASSERT_FAILS(ls_predictor_run(p, 5), LS_E_ARG, "was not put since the last run");
    ASSERT_FAILS(ls_predictor_get(p, "y", &y), LS_E_SHAPE, "for 4 rows, the last run had 5");
    ASSERT_FAILS(ls_predictor_get(p, "y", &two), LS_E_SHAPE, "for 8 rows, the last run had 5");
    ASSERT_FAILS(ls_predictor_get(p, "error", &y), LS_E_ARG, "no output \"error\"", "has y, id");
    y = rows_of(x, LS_TYPE(LS_F32, 5, 3));
    ASSERT_FAILS(ls_predictor_get(p, "y", &y), LS_E_SHAPE, "\"y\" is f32 [5, 3], the model gives f32 [5, 2]");
    y = rows_of(NULL, LS_TYPE(LS_F32, 5, 2));
    ASSERT_FAILS(ls_predictor_get(p, "y", &y), LS_E_ARG, "data is NULL");
    /* another thread */
    pthread_t thread;
    void *refused;
    ls_trainer *entered = NULL;
    ls_trainer **inside = (ls_trainer **)p; /* its first member */
    ASSERT_OK(ls_trainer_enter(&entered, *inside, "test"));
    pthread_create(&thread, NULL, run_it, p);
    pthread_join(thread, &refused);
    ls_trainer_leave(&entered);
    assert_non_null(refused);
    ls_predictor_destroy(&p);
    ls_predictor_destroy(&p);
    ls_trainer_destroy(&t);
}

static ls_status build_scalar(ls_graph *g, const void *config, int64_t batch)
{
    (void)config;
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, batch, IN)), y = ls_linear(g, "fc", x, 1);
    ls_loss(g, "y", y, 1, LS_BY_ELEMENT, NULL);
    ls_output(g, "sum", ls_sum(g, y, LS_ALL_DIMS, false));
    return ls_graph_finish(g);
}

static void an_output_has_rows(void **state)
{
    (void)state;
    ls_trainer *t;
    ls_predictor *p;
    ASSERT_OK(ls_trainer_create(&t, build_scalar, NULL, .micro_batch = 4, .threads = 1));
    ASSERT_OK(ls_trainer_init(t, 2));
    ASSERT_FAILS(ls_predictor_of(&p, t), LS_E_SHAPE, "\"sum\" is f32 []", "[batch, ..]");
    ls_trainer_destroy(&t);
}

/* ---- memory refused */

static ls_status whole_life(ls_trainer *t, const char *dir, float *to)
{
    ls_predictor *p = NULL;
    ls_status s = dir ? ls_predictor_open(&p, dir, .build = training_build_vit, .config = &VIT)
                      : ls_predictor_of(&p, t);
    for (int n = 1; n <= 21 && s == LS_OK; n += 20)
        s = logits(p, 0, n, to);
    ls_predictor_destroy(&p);
    return s;
}

static void refused_memory(void **state)
{
    (void)state;
    ls_trainer *t;
    float want[21 * CLASSES], have[21 * CLASSES];
    START(t, .micro_batch = 8, .threads = 1);
    const char *dir = ls_test_path("refused");
    ASSERT_OK(ls_trainer_save_checkpoint(t, dir));
    ASSERT_OK(whole_life(t, NULL, want));
    for (int open = 0; open < 2; open++) {
        const unsigned kinds = 1u << LS_POINT_MEMORY | 1u << LS_POINT_MAP;
        ls_fault_arm(kinds, -1, LS_FAIL_ONCE);
        ASSERT_OK(whole_life(t, open ? dir : NULL, have));
        const int64_t points = ls_fault_disarm();
        assert_true(points > 100);
        for (int64_t n = 0; n<points; n += points> 400 && n > 20 && n < points - 60 ? 7 : 1) {
            ls_fault_arm(kinds, n, LS_FAIL_ONCE);
            const ls_status s = whole_life(t, open ? dir : NULL, have);
            ls_fault_disarm();
            if (s != LS_OK && s != LS_E_MEMORY)
                fail_msg("point %lld: %d %s", (long long)n, (int)s, ls_error_message());
            if (s == LS_OK)
                assert_memory_equal(have, want, sizeof want);
        }
        ASSERT_OK(whole_life(t, open ? dir : NULL, have));
        assert_memory_equal(have, want, sizeof want);
    }
    ls_trainer_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(misuse), cmocka_unit_test(an_output_has_rows),
                                        cmocka_unit_test(refused_memory) };
    return cmocka_run_group_tests(tests, make_images, NULL);
}
