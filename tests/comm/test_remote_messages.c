/* test_remote_messages.c - sends and receives between ranks of different hosts, as the stages of a pipeline
 * use them: nothing is lost or taken for another value, who is late is named, what fails is given up. */
#include "base/clock.h"
#include "comm/comm.h"
#include "comm/fault.h"
#include "comm/group_own.h"
#include "hosts.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VALUES = 3000, PLACES = 2, TURNS = 7 };

typedef struct wire {
    ls_collective *c;
    float values[VALUES];
} wire;

static float value_of(int sender, int turn, int i)
{
    return (float)(sender * 100000 + turn * 1000 + i % 997);
}

static ls_status open_wire(wire *x, ls_collective_kind kind, ls_axis *a, const ls_window *w, int peer,
                           int number)
{
    return ls_collective_create(
        &x->c, &(ls_collective_desc){ .kind = kind,
                                      .axis = a,
                                      .count = VALUES,
                                      .from = LS_F32,
                                      .to = LS_F32,
                                      .window = w,
                                      .offset = (size_t)number * LS_MAILBOX_BYTES(sizeof x->values),
                                      .result = kind == LS_RECEIVE ? x->values : NULL,
                                      .operand = kind == LS_SEND ? x->values : NULL,
                                      .peer = peer,
                                      .mailbox = number,
                                      .label = kind == LS_SEND ? "send of x" : "receive of x of stage" });
}

static ls_status pass(wire *x)
{
    LS_TRY(ls_collective_start(x->c));
    return ls_collective_wait(x->c);
}

static ls_status pass_on(wire *out, int rank, int turn)
{
    for (int i = 0; i < VALUES; i++)
        out->values[i] = value_of(rank, turn, i);
    ls_status s = pass(out);
    memset(out->values, 0, sizeof out->values); /* the operand is free */
    return s;
}

static ls_status take(wire *in, int sender, int turn)
{
    LS_TRY(pass(in));
    for (int i = 0; i < VALUES; i++)
        if (in->values[i] != value_of(sender, turn, i))
            return ls_fail(LS_E_INTERNAL, "turn %d of rank %d: element %d is %g", turn, sender, i,
                           (double)in->values[i]);
    return LS_OK;
}

typedef struct line_of_stages {
    wire forth[PLACES], from_before[PLACES]; /* to the next stage, from the previous one */
    wire back[PLACES], from_behind[PLACES];
    ls_axis *axis;
    ls_window *window;
} line_of_stages;

static ls_status open_line(line_of_stages *p, ls_group *g)
{
    const int n = ls_group_size(g), r = ls_group_rank(g);
    int members[MAILBOX_RANKS];
    for (int i = 0; i < n; i++)
        members[i] = i;
    LS_TRY(ls_axis_create(&p->axis, g, "pp", n, members));
    LS_TRY(ls_window_create(&p->window, p->axis,
                            (2 * PLACES + 1) * LS_MAILBOX_BYTES(sizeof p->from_behind[0].values), 0));
    for (int k = 0; k < PLACES; k++) {
        if (r + 1 < n)
            LS_TRY(open_wire(&p->forth[k], LS_SEND, p->axis, p->window, r + 1, k));
        if (r > 0)
            LS_TRY(open_wire(&p->from_before[k], LS_RECEIVE, p->axis, p->window, r - 1, k));
        if (r > 0)
            LS_TRY(open_wire(&p->back[k], LS_SEND, p->axis, p->window, r - 1, PLACES + k));
        if (r + 1 < n)
            LS_TRY(open_wire(&p->from_behind[k], LS_RECEIVE, p->axis, p->window, r + 1, PLACES + k));
    }
    return LS_OK;
}

static void close_line(line_of_stages *p)
{
    for (int k = 0; k < PLACES; k++) {
        ls_collective_destroy(&p->forth[k].c);
        ls_collective_destroy(&p->from_before[k].c);
        ls_collective_destroy(&p->back[k].c);
        ls_collective_destroy(&p->from_behind[k].c);
    }
    ls_window_destroy(&p->window);
    ls_axis_destroy(&p->axis);
}

/* Every stage passes more values than there are mailboxes: first all forward, two at a time taken in the
 * other order than sent, then all back. */
static ls_status pipeline(ls_group *g, int started_as, void *context)
{
    const int n = ls_group_size(g), r = ls_group_rank(g);
    line_of_stages *p = calloc(1, sizeof *p);
    ls_status s = open_line(p, g);
    (void)context;
    ls_group_inject(
        g, &(ls_fault){ .kind = LS_FAULT_DELAY, .at = -1, .seconds = 0.001, .seed = (uint64_t)started_as });
    for (int turn = 0; s == LS_OK && turn + 1 < TURNS; turn += 2) {
        for (int k = 1; s == LS_OK && k >= 0 && r > 0; k--)
            s = take(&p->from_before[k], r - 1, turn + k);
        for (int k = 0; s == LS_OK && k < 2 && r + 1 < n; k++)
            s = pass_on(&p->forth[k], r, turn + k);
    }
    for (int turn = 0; s == LS_OK && turn < TURNS; turn++) {
        if (r + 1 < n)
            s = take(&p->from_behind[turn % PLACES], r + 1, turn);
        if (s == LS_OK && r > 0)
            s = pass_on(&p->back[turn % PLACES], r, turn);
    }
    close_line(p);
    free(p);
    return s == LS_OK ? ls_group_barrier(g) : s;
}

static void stages_pass_values_between_hosts(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        mailbox box;
        runner all[4];
        mailbox_init(&box, 4, i < 2 ? 4 : 2);
        box.slow = i % 2;
        run_all(all, &box, pipeline, NULL);
        assert_all_ok(all, 4);
        mailbox_release(&box);
    }
}

/* Stage 0 computes for ever. The stages behind it wait in a chain: the blame goes to stage 0, from stage 1.
 */
static ls_status late_stage(ls_group *g, int started_as, void *context)
{
    line_of_stages *p = calloc(1, sizeof *p);
    ls_status s = open_line(p, g);
    (void)context;
    ls_group_set_deadline(g, 1);
    if (started_as == 0 && s == LS_OK) {
        ls_group_doing(g, "step 7, linear_dw of fc1");
        for (double until = ls_now() + 60; ls_now() < until && !ls_control_failed(g->control);)
            usleep(10000);
        s = ls_group_failure(g);
    }
    if (s == LS_OK)
        s = take(&p->from_before[0], started_as - 1, 0);
    close_line(p);
    free(p);
    return s;
}

static void a_late_stage_is_named_by_the_next(void **state)
{
    (void)state;
    mailbox box;
    runner all[4];
    mailbox_init(&box, 4, 4);
    run_all(all, &box, late_stage, NULL);
    for (int r = 0; r < 4; r++) {
        assert_int_equal(all[r].status, LS_E_PEER);
        ASSERT_CONTAINS(all[r].message,
                        "rank 0: did not come within 1 s; rank 1 waited for it in receive of x "
                        "of stage of axis \"pp\"; on host ");
        ASSERT_CONTAINS(all[r].message, " it last did: step 7, linear_dw of fc1");
    }
    mailbox_release(&box);
}

/* A value leaves while the communication thread of its sender is in a collective that others begin only when
 * they have the value: rank 1 begins it, and sends to 2, which passes the value on to 0, its neighbour. */
static ls_status send_during_a_collective(ls_group *g, int started_as, void *context)
{
    line_of_stages *p = calloc(1, sizeof *p);
    wire far = { 0 };
    ls_collective *sum = NULL;
    ls_axis *all;
    ls_window *w;
    float result[4];
    static const int MEMBERS[] = { 0, 1, 2, 3 };
    (void)context;
    ls_group_set_deadline(g, 10);
    ls_status s = open_line(p, g);
    LS_TRY(ls_axis_create(&all, g, "dp", 4, MEMBERS));
    LS_TRY(ls_window_create(&w, all, sizeof result, 0));
    LS_TRY(ls_collective_create(&sum, &(ls_collective_desc){ .kind = LS_ALL_REDUCE,
                                                             .axis = all,
                                                             .count = 4,
                                                             .from = LS_F32,
                                                             .to = LS_F32,
                                                             .via = LS_F32,
                                                             .window = w,
                                                             .result = result,
                                                             .threads = 1,
                                                             .label = "a sum" }));
    if (started_as == 2)
        LS_TRY(open_wire(&far, LS_SEND, p->axis, p->window, 0, 2 * PLACES));
    if (started_as == 0)
        LS_TRY(open_wire(&far, LS_RECEIVE, p->axis, p->window, 2, 2 * PLACES));
    if (started_as == 1) {
        LS_TRY(ls_collective_start(sum));
        usleep(20000); /* its thread sleeps for rank 0 */
        s = pass_on(&p->forth[0], 1, 5);
    }
    if (started_as == 2 && (s = take(&p->from_before[0], 1, 5)) == LS_OK)
        s = pass_on(&far, 2, 6);
    if (started_as == 0)
        s = take(&far, 2, 6);
    if (s == LS_OK && started_as != 1)
        s = ls_collective_start(sum);
    if (s == LS_OK)
        s = ls_collective_wait(sum);
    ls_collective_destroy(&sum);
    ls_collective_destroy(&far.c);
    ls_window_destroy(&w);
    ls_axis_destroy(&all);
    close_line(p);
    free(p);
    return s == LS_OK ? ls_group_barrier(g) : s;
}

static void values_leave_during_a_collective(void **state)
{
    (void)state;
    mailbox box;
    runner all[4];
    mailbox_init(&box, 4, 2);
    box.slow = true;
    run_all(all, &box, send_during_a_collective, NULL);
    assert_all_ok(all, 4);
    mailbox_release(&box);
}

/* The receiver fails and never takes the message: the sender's memory is given back all the same. */
static ls_status fail_with_message_under_way(ls_group *g, int started_as, void *context)
{
    line_of_stages *p = calloc(1, sizeof *p);
    ls_status s = open_line(p, g);
    (void)context;
    if (s == LS_OK && started_as == 0)
        s = pass_on(&p->forth[0], 0, 0);
    if (s == LS_OK && started_as == 0)
        s = pass_on(&p->forth[0], 0, 1); /* no room */
    if (s == LS_OK && started_as == 1)
        s = ls_fail(LS_E_NUMERIC, "the loss is NaN");
    if (s != LS_OK)
        ls_control_fail(g->control, ls_group_rank(g), ls_group_rank(g), s, ls_error_message());
    close_line(p);
    free(p);
    return s;
}

static void a_message_that_nobody_takes_is_given_up(void **state)
{
    (void)state;
    mailbox box;
    runner all[2];
    mailbox_init(&box, 2, 2);
    box.slow = true;
    run_all(all, &box, fail_with_message_under_way, NULL);
    assert_int_equal(all[0].status, LS_E_PEER);
    ASSERT_CONTAINS(all[0].message, "rank 1: the loss is NaN");
    assert_int_equal(all[1].status, LS_E_NUMERIC);
    mailbox_release(&box);
}

static ls_status mailbox_without_tag(ls_group *g, int started_as, void *context)
{
    line_of_stages *p = calloc(1, sizeof *p);
    ls_status s = open_line(p, g);
    wire extra = { 0 };
    (void)context;
    for (int k = 0; k < 2 && s == LS_OK && started_as == 0; k++) {
        const ls_collective_desc d = { .kind = LS_SEND,
                                       .axis = p->axis,
                                       .count = k ? (int64_t)1 << 31 : 1,
                                       .from = LS_U8,
                                       .to = LS_U8,
                                       .window = p->window,
                                       .peer = 1,
                                       .operand = extra.values,
                                       .mailbox = k ? 0 : MAILBOX_TAGS,
                                       .label = "send of x" };
        p->window->bytes += (size_t)k << 32;
        if (ls_collective_create(&extra.c, &d) != LS_E_UNSUPPORTED ||
            !strstr(ls_error_message(), k ? "MPI takes 2 GiB" : "this MPI tells 936 of them apart"))
            s = ls_fail(LS_E_INTERNAL, "not refused: %s", ls_error_message());
        p->window->bytes -= (size_t)k << 32;
    }
    close_line(p);
    free(p);
    return s;
}

static void messages_that_cannot_be_are_refused(void **state)
{
    (void)state;
    mailbox box;
    runner all[2];
    mailbox_init(&box, 2, 2);
    run_all(all, &box, mailbox_without_tag, NULL);
    assert_all_ok(all, 2);
    mailbox_release(&box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_pass_values_between_hosts),
        cmocka_unit_test(values_leave_during_a_collective),
        cmocka_unit_test(a_late_stage_is_named_by_the_next),
        cmocka_unit_test(a_message_that_nobody_takes_is_given_up),
        cmocka_unit_test(messages_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
