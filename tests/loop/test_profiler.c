/* test_profiler.c - schedules of profiles are those of torch.profiler.schedule (PyTorch 2.13). */
#include <string.h>

#include "loop/profiler.h"
#include "support/support.h"

enum { STEPS = 20 };

static void as_torch_schedules(void **state)
{
    (void)state;
    /* '.' nothing, 'w' warm-up, 'r' recorded, 'R' recorded and written */
    static const struct {
        ls_profile_schedule s;
        const char *phases;
    } CASES[] = {
        { { .wait = 1, .warmup = 1, .active = 3, .repeat = 2 }, ".wrrR.wrrR.........." },
        { { .active = 6, .repeat = 1 }, "rrrrrR.............." },
        { { .wait = 2, .active = 1 }, "..R..R..R..R..R..R.." },
        { { .skip = 3, .warmup = 2, .active = 2, .repeat = 2 }, "...wwrRwwrR........." },
        { { .skip = 2, .wait = 1, .warmup = 1, .active = 1 }, "...wR.wR.wR.wR.wR.wR" },
        { { 0 }, "...................." },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char phases[STEPS + 1] = "";
        int64_t repetition, before = 0;
        for (int k = 0; k < STEPS; k++) {
            bool last;
            const ls_profile_phase phase = ls_profile_phase_of(&CASES[i].s, k, &repetition, &last);
            phases[k] = phase == LS_PROFILE_OFF ? '.' : phase == LS_PROFILE_WARMUP ? 'w' : last ? 'R' : 'r';
            if (phases[k] == 'R')
                assert_int_equal(repetition, ++before);
        }
        assert_string_equal(phases, CASES[i].phases);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(as_torch_schedules) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
