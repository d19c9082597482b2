/* test_memory_page.c - rank-N.memory.html: well-formed, alone, its numbers are the plan's, with and without a profile. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "golden/training.h"
#include "page.h"
#include "plan/describe.h"
#include "train/memory_page.h"

static void record(void *profile, ls_trainer *t, int program) { ls_profile_add(profile, t->session, t->session_plan[program]); }

static char *written(const ls_trainer *t, const ls_profile *p)
{
    const char *path = ls_test_path("rank-3.memory.html");
    char *text;
    size_t size;
    ASSERT_OK(ls_memory_page_write(path, t, p, 3));
    ASSERT_OK(ls_file_read(&text, &size, path));
    page_check(text);
    return text;
}

/* The most that any moment holds, from the allocations themselves. */
static size_t most_held(const ls_trainer *t)
{
    ls_footprint f;
    ls_plans_footprint(&f, LS_PROGRAMS, t->compiled.plans);
    size_t most = 0;
    for (int i = LS_MICRO; i <= LS_UPDATE; i++) {
        const ls_plan *p = t->compiled.plans[i];
        for (int k = 0; k < p->n_steps; k++) {
            size_t sum = 0;
            for (int a = 0; a < p->n_allocs; a++)
                if (ls_is_transient(&p->allocs[a]) && p->allocs[a].first <= k && k <= p->allocs[a].last)
                    sum += (p->allocs[a].bytes + 63) / 64 * 64;
            most = sum > most ? sum : most;
        }
    }
    return most + f.state + f.io + ls_compiled_tree_bytes(&t->compiled);
}

static void profiled_and_planned(void **state)
{
    (void)state;
    static const ls_vit_config SMALL = { .image_size = 8, .patch_size = 4, .in_channels = 1, .layers = 3, .heads = 2, .hidden_size = 16, .mlp_size = 32,
                                         .classes = 10, .mean = 0.5, .std = 0.5 };
    ls_trainer *t;
    ls_profile *p;
    ASSERT_OK(ls_trainer_create(&t, training_build_vit, &SMALL, .micro_batch = 4, .micro_batches = 2, .threads = 1));
    ASSERT_OK(ls_trainer_init(t, 0));
    ASSERT_OK(ls_profile_create(&p));
    ls_session_profile(t->session, true);
    t->after_run = record;
    t->context = p;
    static uint8_t images[8 * 64];
    static int32_t labels[8];
    ls_step_result r;
    for (int i = 0; i < 3; i++)
        ASSERT_OK(ls_trainer_step(t, images, labels, 8, 1e-3, &r));
    char bytes[32], expect[64];
    snprintf(expect, sizeof expect, "peak %s</text>", ls_format_bytes(bytes, most_held(t)));

    char *page = written(t, p);
    ASSERT_CONTAINS(page, "Memory of rank 3");
    ASSERT_CONTAINS(page, expect);
    ASSERT_CONTAINS(page, "times as measured");
    ASSERT_CONTAINS(page, "The profiled steps");
    ASSERT_CONTAINS(page, ">update</text>");
    ASSERT_CONTAINS(page, "exp_avg.unit root");
    ASSERT_CONTAINS(page, "encoder_layer_2");
    free(page);

    page = written(t, NULL);
    ASSERT_CONTAINS(page, expect);
    ASSERT_CONTAINS(page, "times as planned");
    assert_null(strstr(page, "The profiled steps"));
    free(page);
    ls_profile_destroy(&p);
    ls_trainer_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(profiled_and_planned) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
