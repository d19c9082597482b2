/* test_all_to_all.c - rows go to the members that have their groups, in the order of members and groups, and
 * back to where they were. */
#include <stdlib.h>
#include <string.h>

#include "comm/collective.h"
#include "support/ranks.h"
#include "support/support.h"

enum { OWN = 3, ROW = 5, ROUNDS = 4 };

typedef struct scene {
    int64_t rows, room; /* of each member; of the result */
} scene;

/* How many rows member `from` has for a group; some have none, and one member has all of its rows in one. */
static int64_t rows_of(int from, int64_t group, int groups, int64_t rows, int round)
{
    if (from == round % 2)
        return group == groups - 1 ? rows : 0;
    const int64_t each = 2 * rows / groups, n = group % 2 ? 0 : each;
    return group == groups - 1 ? rows - groups / 2 * each : n;
}

static float value(int from, int64_t row, int column, int round)
{
    return (float)(((from * 100 + row) * ROW + column) * 10 + round);
}

static ls_status moves(ls_group *g, const scene *s, const ls_window *w, ls_collective *there,
                       ls_collective *back, int32_t *begins, float *got, const float *again)
{
    const int n = ls_group_size(g), me = ls_group_rank(g), groups = n * OWN;
    float *mine = (float *)(void *)w->mine, *returned = mine + s->rows * ROW;
    for (int round = 0; round < ROUNDS; round++) {
        for (int from = 0; from < n; from++)
            for (int k = 0, at = 0; k <= groups; k++) {
                begins[from * (groups + 1) + k] = at;
                at += k < groups ? (int)rows_of(from, k, groups, s->rows, round) : 0;
            }
        for (int64_t i = 0; i < s->rows * ROW; i++)
            mine[i] = value(me, i / ROW, (int)(i % ROW), round);
        LS_TRY(ls_collective_start(there));
        LS_TRY(ls_collective_wait(there));
        int64_t at = 0;
        for (int from = 0; from < n; from++) {
            const int32_t *b = begins + from * (groups + 1);
            for (int64_t row = b[me * OWN]; row < b[(me + 1) * OWN]; row++, at++)
                for (int c = 0; c < ROW; c++)
                    RANK_CHECK(got[at * ROW + c] == value(from, row, c, round));
        }
        memcpy(returned, got, sizeof *got * (size_t)(at * ROW));
        LS_TRY(ls_collective_start(back));
        LS_TRY(ls_collective_wait(back));
        RANK_CHECK(!memcmp(again, mine, sizeof *mine * (size_t)(s->rows * ROW)));
        LS_TRY(ls_group_barrier(g));
    }
    return LS_OK;
}

static ls_status one_rank(ls_group *g, void *context)
{
    const scene *s = context;
    const int n = ls_group_size(g), groups = n * OWN;
    int all[8];
    for (int i = 0; i < n; i++)
        all[i] = i;
    ls_axis *a;
    ls_window *w;
    ls_collective *there, *back;
    const size_t row = ROW * sizeof(float);
    int32_t *begins = calloc((size_t)(n * (groups + 1)), sizeof *begins);
    float *got = calloc((size_t)s->room, row), *again = calloc((size_t)s->rows, row);
    LS_TRY(ls_axis_create(&a, g, "ep", n, all));
    LS_TRY(ls_window_create(&w, a, (size_t)(s->rows + s->room) * row, 0));
    ls_collective_desc d = { .kind = LS_ALL_TO_ALL,
                             .axis = a,
                             .count = s->rows * ROW,
                             .from = LS_F32,
                             .via = LS_F32,
                             .to = LS_F32,
                             .row = ROW,
                             .groups = groups,
                             .room = s->room,
                             .begins = begins,
                             .window = w,
                             .result = got,
                             .threads = 1,
                             .label = "rows" };
    LS_TRY(ls_collective_create(&there, &d));
    d.back = true;
    d.count = s->room * ROW;
    d.room = s->rows;
    d.offset = (size_t)s->rows * row;
    d.result = again;
    LS_TRY(ls_collective_create(&back, &d));
    const ls_status status = moves(g, s, w, there, back, begins, got, again);
    if (status == LS_OK && n == 1)
        RANK_CHECK(ls_axis_ledger(a)->bytes == 0);
    ls_collective_destroy(&there);
    ls_collective_destroy(&back);
    ls_window_destroy(&w);
    ls_axis_destroy(&a);
    free(begins);
    free(got);
    free(again);
    return status;
}

static void there_and_back(void **state)
{
    (void)state;
    for (int n = 1; n <= 4; n++)
        for (int64_t rows = 1; rows < 100; rows *= 7) {
            scene s = { rows, n * rows };
            ASSERT_OK(run_ranks(n, one_rank, &s));
        }
}

static void too_little_room(void **state)
{
    (void)state;
    scene s = { 30, 39 };
    const ls_status status = run_ranks(2, one_rank, &s);
    assert_int_equal(status, LS_E_USAGE);
    if (!strstr(ls_error_message(), "rows: rank 1 gets 40 rows for its experts, and has room for 39"))
        fail_msg("%s", ls_error_message());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(too_little_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
