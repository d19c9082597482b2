/* test_all_to_all.c - rows go to the members that have their groups, in the order of members and groups, and
 * back to where they were. */
#include <stdlib.h>
#include <string.h>

#include "comm/collective.h"
#include "comm/remote_ways.h"
#include "hosts.h"
#include "support/ranks.h"
#include "support/support.h"

enum { OWN = 3, ROW = 5, ROUNDS = 4 };

typedef struct scene {
    int64_t rows, room; /* of each member; of the result */
    int members;        /* the first ranks, the others have axes of their own; 0: all */
    bool even;          /* as many rows for each group */
    bool idle;          /* makes everything, and moves nothing */
} scene;

/* How many rows member `from` has for a group; some have none, and one member has all of its rows in one. */
static int64_t rows_of(const scene *s, int from, int64_t group, int groups, int round)
{
    const int64_t rows = s->rows;
    if (s->even)
        return rows / groups;
    if (from == round % 2)
        return group == groups - 1 ? rows : 0;
    const int64_t each = 2 * rows / groups, n = group % 2 ? 0 : each;
    return group == groups - 1 ? rows - groups / 2 * each : n;
}

static float value(int from, int64_t row, int column, int round)
{
    return (float)(((from * 100 + row) * ROW + column) * 10 + round);
}

static ls_status moves(ls_group *g, int n, int me, const scene *s, const ls_window *w, ls_collective *there,
                       ls_collective *back, int32_t *begins, float *got, const float *again)
{
    const int groups = n * OWN;
    float *mine = (float *)(void *)w->mine, *returned = mine + s->rows * ROW;
    for (int round = 0; round < ROUNDS; round++) {
        for (int from = 0; from < n; from++)
            for (int k = 0, at = 0; k <= groups; k++) {
                begins[from * (groups + 1) + k] = at;
                at += k < groups ? (int)rows_of(s, from, k, groups, round) : 0;
            }
        for (int64_t i = 0; i < s->rows * ROW; i++)
            mine[i] = value(me, i / ROW, (int)(i % ROW), round);
        if (s->idle) {
            LS_TRY(ls_group_barrier(g));
            continue;
        }
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
    const int members = s->members ? s->members : ls_group_size(g), r = ls_group_rank(g),
              n = r < members ? members : 1, groups = n * OWN;
    int all[8];
    for (int i = 0; i < n; i++)
        all[i] = r < members ? i : r;
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
    const ls_status status = moves(g, n, r % n, s, w, there, back, begins, got, again);
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
            scene s = { .rows = rows, .room = n * rows };
            ASSERT_OK(run_ranks(n, one_rank, &s));
        }
}

static void too_little_room(void **state)
{
    (void)state;
    scene s = { .rows = 30, .room = 39 };
    const ls_status status = run_ranks(2, one_rank, &s);
    assert_int_equal(status, LS_E_USAGE);
    if (!strstr(ls_error_message(), "rows: rank 1 gets 40 rows for its experts, and has room for 39"))
        fail_msg("%s", ls_error_message());
}

/* ---- over hosts */

static ls_status on_hosts(ls_group *g, int started_as, void *context)
{
    (void)started_as;
    return one_rank(g, context);
}

/* Also with members on two hosts of which one has more of them. */
static void between_hosts(void **state)
{
    (void)state;
    static const struct {
        int hosts, members;
        bool slow;
    } CASES[] = { { 2, 4, false }, { 4, 4, true }, { 2, 3, false }, { 2, 4, true }, { 4, 3, false } };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        for (int64_t rows = 1; rows < 100; rows *= 7) {
            scene s = { rows, 4 * rows, CASES[i].members, false, false };
            mailbox box;
            runner all[4];
            mailbox_init(&box, 4, CASES[i].hosts);
            box.slow = CASES[i].slow;
            run_all(all, &box, on_hosts, &s);
            assert_all_ok(all, 4);
            mailbox_release(&box);
        }
}

/* What one exchange sends, of rows that are spread evenly, is what is counted. */
static void messages_are_counted(void **state)
{
    (void)state;
    enum { RANKS = 4, ROWS = 24 * RANKS * OWN };
    for (int hosts = 2; hosts <= 4; hosts *= 2) {
        long sends[2], bytes[2], most = 0;
        const ls_message_count t = ls_collective_messages(LS_ALL_TO_ALL, hosts, RANKS / hosts, ROWS * ROW,
                                                          LS_F32, LS_F32, LS_F32);
        for (int k = 0; k < 2; k++) { /* the rest of what is sent is the same with rows and without */
            scene s = { ROWS, RANKS * ROWS, RANKS, true, k == 0 };
            mailbox box;
            runner all[RANKS];
            mailbox_init(&box, RANKS, hosts);
            run_all(all, &box, on_hosts, &s);
            assert_all_ok(all, RANKS);
            sends[k] = box.sends[1];
            bytes[k] = box.sent[1];
            most = box.most[1];
            mailbox_release(&box);
        }
        assert_int_equal(most, t.most);
        assert_int_equal(t.least, t.most);
        assert_int_equal(t.messages, RANKS - RANKS / hosts);
        assert_int_equal(sends[1] - sends[0], 2 * ROUNDS * t.messages);
        assert_true(bytes[1] - bytes[0] == 2 * ROUNDS * (long)t.bytes);
    }
}

static void too_little_room_between_hosts(void **state)
{
    (void)state;
    scene s = { .rows = 30, .room = 39 };
    mailbox box;
    runner all[2];
    mailbox_init(&box, 2, 2);
    run_all(all, &box, on_hosts, &s);
    assert_int_equal(all[1].status, LS_E_USAGE);
    for (int r = 0; r < 2; r++)
        if (!strstr(all[r].message, "rank 1 gets 40 rows for its experts, and has room for 39"))
            fail_msg("%s", all[r].message);
    mailbox_release(&box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(too_little_room),
        cmocka_unit_test(between_hosts),
        cmocka_unit_test(messages_are_counted),
        cmocka_unit_test(too_little_room_between_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
