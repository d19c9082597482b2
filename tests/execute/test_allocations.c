/* test_allocations.c - a step allocates nothing. Counts malloc and mmap during a training step with strided
 * parts, workspace and an update. */
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "passes/autodiff.h"
#include "lockstep/graph.h"
#include "ops/rules.h"
#include "execute/internal.h"
#include "support/allocations.h"
#include "support/support.h"

static void counters_count(void **state)
{
    (void)state;
    int allocations, mappings;
    ls_test_count_begin();
    void *volatile p = malloc(10), *volatile q = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                                                      0);
    free(p);
    munmap(q, 4096);
    ls_test_count_end(&allocations, &mappings);
    assert_int_equal(allocations, 1);
    assert_int_equal(mappings, LS_TEST_SANITIZED ? 0 : 1);
}

static void step_allocates_nothing(void **state)
{
    (void)state;
    const char *devices[] = { "ref", "cpu" };
    for (int k = 0; k < 2; k++) {
        ls_device d;
        ASSERT_OK(ls_device_open(&d, devices[k], &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 2 }));
        ls_graph *g[2];
        ls_plan *p[2];
        const ls_type flat = LS_TYPE(LS_F32, 32 * 64 + 64);
        ASSERT_OK(ls_graph_create(&g[0], "micro"));
        ls_value x = ls_input(g[0], "x", LS_TYPE(LS_F32, 8, 16, 64)),
                 root = ls_state(g[0], "unit root", flat, (ls_init){ 0 });
        ls_value w = ls_flat_view(g[0], root, 0, &LS_TYPE(LS_F32, 32, 64)),
                 gain = ls_flat_view(g[0], root, 32 * 64, &LS_TYPE(LS_F32, 32));
        ls_value h = ls_matmul_wt(g[0], x, w, LS_NONE);
        h = ls_layer_norm_op(g[0], h, gain, gain, 1e-5);
        h = ls_attention(g[0], h, h, h, LS_NONE, 16, 0.25, true);
        ls_value both[2] = { ls_gelu(g[0], h), h };
        h = ls_concat(g[0], 2, 2, both);
        ls_value loss = ls_sum_to(g[0], ls_mul(g[0], h, h), 0, NULL), grad;
        g[0]->phase = LS_PHASE_BACKWARD;
        ASSERT_OK(ls_backward(g[0], loss, ls_fill(g[0], LS_SCALAR(LS_F32), 1), 1, &root, &grad));
        ls_output(g[0], "loss", loss);
        ls_output(g[0], "grad.unit root", grad);
        ASSERT_OK(ls_graph_create(&g[1], "update"));
        const ls_adam_attrs adam = { .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 };
        ls_value step = ls_state(g[1], "step", LS_SCALAR(LS_I64), (ls_init){ 0 });
        step = ls_graph_apply(g[1], &ls_op_count_step, 2, (ls_value[]){ step, LS_NONE }, NULL);
        ls_value in[8] = { ls_state(g[1], "unit root", flat, (ls_init){ 0 }),
                           ls_input(g[1], "grad.unit root", flat),
                           ls_state(g[1], "m", flat, (ls_init){ 0 }),
                           ls_state(g[1], "v", flat, (ls_init){ 0 }),
                           step,
                           ls_input(g[1], "lr", LS_SCALAR(LS_F64)) };
        ls_graph_apply(g[1], &ls_op_adam, 8, in, &adam);
        ls_session *s;
        for (int i = 0; i < 2; i++) {
            ASSERT_OK(ls_graph_finish(g[i]));
            ASSERT_OK(ls_plan_create(&p[i], g[i], &d, NULL));
        }
        ASSERT_OK(ls_session_create(&s, 2, p, NULL));
        for (int profile = 0; profile < 2; profile++) {
            ls_session_profile(s, profile);
            for (int i = 0; i < 2; i++) /* starts the threads */
                ASSERT_OK(ls_session_run(s, i, false));
            /* A sanitizer allocates when a thread begins. Each may begin late, once. */
            int allocations = 1, mappings = 1;
            for (int late = 0; (allocations || mappings) && late < (LS_TEST_SANITIZED ? 4 : 1); late++) {
                while (s->prefaulting && !atomic_load(&s->touched))
                    sched_yield();
                ls_test_count_begin();
                for (int run = 0; run < 6; run++)
                    if (ls_session_run(s, run % 2, run == 5) != LS_OK)
                        abort();
                ls_test_count_end(&allocations, &mappings);
            }
            assert_int_equal(allocations, 0);
            assert_int_equal(mappings, 0);
        }
        ls_session_destroy(&s);
        for (int i = 0; i < 2; i++) {
            ls_plan_destroy(&p[i]);
            ls_graph_destroy(&g[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(counters_count),
                                        cmocka_unit_test(step_allocates_nothing) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
