/* test_reservoir.c - a queue that keeps a random choice of all samples: that the choice is uniform, what a
 * step draws, and on another number of ranks. */
#include "simulation.h"

#include <string.h>

#include "base/file.h"
#include "data/npy.h"
#include "live/live.h"

/* Each sample that came is kept with the same chance: over 400 seeds each tenth of the samples as often. */
static void a_reservoir_is_uniform(void **state)
{
    (void)state;
    enum { CAME = 100, ROOM = 10, SEEDS = 400 };
    ls_trainer *t;
    int tenth[2][10] = { { 0 } };
    ASSERT_OK(simulation_trainer(&t, NULL));
    const int x = ls_trainer_field_find(t, "x");
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        ls_live *q;
        ls_live_numbers n;
        ASSERT_OK(
            ls_live_open(&q, t, .capacity = ROOM, .keep = LS_LIVE_RESERVOIR, .seed = seed, .hold_out = 2));
        for (int k = 0; k < CAME; k += 20) /* of each pair the second is held out */
            ASSERT_OK(simulation_push(q, k, 20));
        ASSERT_OK(ls_live_count(q, &n));
        assert_true(n.waiting == ROOM && n.held == ROOM / 2 && n.dropped == CAME / 2 - ROOM);
        for (int i = 0; i < ROOM + ROOM / 2; i++) {
            const float *have = (const float *)(const void *)(i < ROOM ? q->fields[x].kept
                                                                       : q->fields[x].held) +
                                (i < ROOM ? i : i - ROOM) * IN;
            float want[IN], y[OUT];
            int id = 0;
            do
                simulation_sample(id++, want, y);
            while (memcmp(have, want, sizeof want) && id < CAME);
            assert_int_equal((id - 1) % 2, i >= ROOM); /* what is held out is never trained */
            tenth[i >= ROOM][(id - 1) / (CAME / 10)]++;
        }
        ls_live_close(&q);
    }
    for (int i = 0; i < 10; i++) {
        /* 400 +- 4 deviations of a binomial number of 4000 times 1/10; half as many are held out */
        assert_in_range(tenth[0][i], 400 - 80, 400 + 80);
        assert_in_range(tenth[1][i], 200 - 56, 200 + 56);
    }
    ls_trainer_destroy(&t);
}

/* A step draws different samples, another step others; a reservoir is done when all ranks have finished. */
static void draws_of_a_reservoir(void **state)
{
    (void)state;
    ls_trainer *t;
    ls_live *q;
    ls_step_result r;
    int64_t samples, total;
    bool done, used[16] = { false };
    int different = 0;
    ASSERT_OK(simulation_trainer(&t, NULL));
    ASSERT_OK(
        ls_live_open(&q, t, .capacity = 16, .keep = LS_LIVE_RESERVOIR, .record = ls_test_path("drawn")));
    ASSERT_OK(simulation_push(q, 0, 16));
    const int x = ls_trainer_field_find(t, "x");
    for (int k = 0; k < 40; k++) {
        ASSERT_OK(ls_live_fill(q, &samples, &total, &done));
        assert_true(samples == MICRO && total == MICRO && !done);
        for (int i = 0; i < MICRO; i++) {
            for (int j = 0; j < i; j++)
                assert_true(memcmp(t->fields[x].put + (size_t)i * 12, t->fields[x].put + (size_t)j * 12, 12));
            for (int id = 0; id < 16; id++) {
                float want[IN], y[OUT];
                simulation_sample(id, want, y);
                different += !memcmp(t->fields[x].put + (size_t)i * 12, want, 12) && !used[id];
                used[id] = used[id] || !memcmp(t->fields[x].put + (size_t)i * 12, want, 12);
            }
        }
        ASSERT_OK(ls_trainer_run(t, samples, 1e-2, &r));
    }
    assert_int_equal(different, 16); /* 160 draws of 16 */
    ls_mapping m;
    ls_npy a;
    ASSERT_OK(ls_file_map(&m, ls_test_path("drawn/x.npy")));
    ASSERT_OK(ls_npy_parse(&a, m.data, m.size, "x.npy"));
    assert_true(a.type.dims[0] == 16 && a.type.dims[1] == IN); /* each once */
    ls_file_unmap(&m);
    ASSERT_OK(ls_live_finish(q));
    ASSERT_OK(ls_live_fill(q, &samples, &total, &done));
    assert_true(!samples && !total && done);
    ls_live_close(&q);
    ls_trainer_destroy(&t);
}

/* A reservoir that has less room on fewer ranks keeps different samples of what all had, and is full. */
static ls_status fewer_rooms(ls_group *g, void *context)
{
    const bool second = *(const bool *)context;
    const char *dir = ls_test_path("reservoir");
    ls_trainer *t;
    ls_live *q;
    LS_TRY(simulation_trainer(&t, g));
    LS_TRY(ls_live_open(&q, t, .capacity = second ? 12 : 8, .keep = LS_LIVE_RESERVOIR, .hold_out = 4));
    if (!second) {
        LS_TRY(simulation_push(q, 1000 * ls_group_rank(g), 40));
        LS_TRY(ls_trainer_save_checkpoint(t, dir));
    } else {
        ls_live_numbers n;
        const int x = ls_trainer_field_find(t, "x");
        LS_TRY(ls_trainer_load_checkpoint(t, dir));
        LS_TRY(ls_live_count(q, &n));
        RANK_CHECK(n.waiting == 12 && n.held == 3 && n.pushed == 80 && n.ranks == 4);
        for (int i = 0; i < 12; i++)
            for (int j = 0; j < i; j++)
                RANK_CHECK(memcmp(q->fields[x].kept + i * 12, q->fields[x].kept + j * 12, 12) != 0);
        LS_TRY(simulation_push(q, 5000, 9));
        LS_TRY(ls_live_count(q, &n));
        RANK_CHECK(n.waiting == 12 && n.held == 3 && n.pushed == 89);
    }
    ls_live_close(&q);
    ls_trainer_destroy(&t);
    return LS_OK;
}

static void a_reservoir_is_dealt(void **state)
{
    (void)state;
    ASSERT_OK(run_ranks(4, fewer_rooms, &(bool){ false }));
    ASSERT_OK(run_ranks(2, fewer_rooms, &(bool){ true }));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_reservoir_is_uniform),
                                        cmocka_unit_test(draws_of_a_reservoir),
                                        cmocka_unit_test(a_reservoir_is_dealt) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
