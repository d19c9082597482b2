/* test_trainer_memory.c - a step allocates nothing, and the process uses little more memory than
 * ls_trainer_bytes says. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/small_vit.h"
#include "golden/training.h"
#include "execute/internal.h"
#include "support/allocations.h"
#include "base/memory.h"
#include "base/thread_pool.h"

/* A sanitizer allocates when a thread begins, and a worker of the pool may begin long after the first loop.
 */
typedef struct seen {
    pthread_t caller;
    atomic_bool worker;
} seen;

static void look(void *context, int64_t begin, int64_t end, int worker)
{
    (void)begin, (void)end, (void)worker;
    seen *s = context;
    if (!pthread_equal(pthread_self(), s->caller))
        atomic_store(&s->worker, true);
    sched_yield();
}

static void wait_for_worker(void)
{
    seen s = { .caller = pthread_self() };
    while (!atomic_load(&s.worker))
        ls_parallel_for(2, 2, look, &s);
}

static void a_step_allocates_nothing(void **state)
{
    (void)state;
    int allocations, mappings;
    const ls_vit_config vit = { SMALL_VIT, .hidden_size = 32, .mlp_size = 48 };
    enum { BATCH = 12 };
    uint8_t images[BATCH * 64] = { 3, 1, 4 };
    int32_t labels[BATCH] = { 0, 1, 2, 3, 4 };
    float loss[BATCH];
    for (int f16 = 0; f16 < 2; f16++) {
        ls_trainer *t;
        ls_step_result r;
        ASSERT_OK(ls_trainer_create(&t, training_build_vit, &vit, .micro_batch = 4, .micro_batches = 3,
                                    .threads = 2, .clip_norm = 1, .recompute = "class:EncoderBlock",
                                    .param = f16 ? LS_F16 : LS_F32));
        ASSERT_OK(ls_trainer_init(t, 1));
        ASSERT_OK(ls_trainer_step(t, images, labels, BATCH, 1e-3, &r)); /* starts the threads */
        if (ls_device_apart(&t->compiled.device)) /* it keeps a program's tasks when that first runs */
            ASSERT_OK(ls_trainer_eval(t, images, labels, loss, NULL, NULL));
        while (t->session->prefaulting && !atomic_load(&t->session->touched))
            sched_yield(); /* a sanitizer allocates when a thread begins, and this one may begin late */
        wait_for_worker();
        ls_test_count_begin();
        ls_status s = LS_OK;
        for (int k = 0; k < 4 && s == LS_OK; k++) {
            s = ls_trainer_step(t, images, labels, BATCH, 1e-3, &r);
            s = s == LS_OK ? ls_trainer_eval(t, images, labels, loss, NULL, NULL) : s;
        }
        ls_test_count_end(&allocations, &mappings);
        ASSERT_OK(s);
        assert_int_equal(allocations, 0);
        assert_int_equal(mappings, 0);
        ls_trainer_destroy(&t);
    }
}

/* The ViT of tutorial 1 at batch 64: beside the session a few megabytes for graphs, plans, threads and the C
 * library. */
static void resident_memory(void **state)
{
    (void)state;
#if LS_TEST_SANITIZED || defined(LS_POISON_ARENA)
    skip(); /* guarded and poisoned memory is another size */
#else
    enum { REST = 12 << 20 };
    ls_trainer *t;
    ls_step_result r;
    uint8_t *images = calloc(64, 28 * 28);
    int32_t labels[64] = { 0 };
    const int64_t before = ls_anonymous_rss();
    assert_true(before > 0);
    ASSERT_OK(ls_trainer_create(&t, training_build_vit, &training_vit, .micro_batch = 64, .threads = 2));
    ASSERT_OK(ls_trainer_init(t, 1));
    for (int k = 0; k < 5; k++)
        ASSERT_OK(ls_trainer_step(t, images, labels, 64, 1e-3, &r));
    const int64_t rss = ls_anonymous_rss(), session = (int64_t)ls_trainer_bytes(t);
    print_message("RSS %.1f MB (%.1f before), session %.1f MB\n", (double)rss / 1e6, (double)before / 1e6,
                  (double)session / 1e6);
    assert_true(rss <= session + REST);
    assert_true(rss >= session / 2); /* both are about the same thing */
    assert_true(rss < 100 << 20);
    ls_trainer_destroy(&t);
    free(images);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_step_allocates_nothing),
                                        cmocka_unit_test(resident_memory) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
