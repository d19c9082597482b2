/* test_remote.c - ranks on several hosts, as threads that exchange messages through a mailbox: they have the
 * same bits as ranks of one host; numbers keep hosts together; failures on another host give a message. */
#include "base/clock.h"
#include "comm/machines.h"
#include "comm/comm.h"
#include "comm/fault.h"
#include "comm/group_own.h"
#include "hosts.h"
#include "scenes.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ls_status digest(ls_group *g, int started_as, void *digests)
{
    ls_group_inject(
        g, &(ls_fault){ .kind = LS_FAULT_DELAY, .at = -1, .seconds = 0.001, .seed = (uint64_t)started_as });
    return scenes_run(g, (uint64_t *)digests + ls_group_rank(g));
}

/* ---- tests */

/* Also when ranks come late at random. */
static void same_bits_as_one_host(void **state)
{
    (void)state;
    static const int RANKS[] = { 2, 4, 8, 6, 5 }, HOSTS[] = { 2, 2, 4, 3, 5 };
    for (int i = 0; i < 5; i++) {
        uint64_t expected[MAILBOX_RANKS], got[MAILBOX_RANKS];
        mailbox box;
        runner all[MAILBOX_RANKS];
        ASSERT_OK(scenes_run_threads(RANKS[i], expected));
        mailbox_init(&box, RANKS[i], HOSTS[i]);
        run_all(all, &box, digest, got);
        assert_all_ok(all, RANKS[i]);
        for (int r = 0; r < RANKS[i]; r++)
            if (got[r] != expected[r])
                fail_msg("%d ranks on %d hosts: rank %d has other bits", RANKS[i], HOSTS[i], r);
        mailbox_release(&box);
    }
}

static ls_status note_place(ls_group *g, int started_as, void *ranks)
{
    ((int *)ranks)[started_as] = ls_group_rank(g);
    if (ls_group_hosts(g) != 2 || ls_group_size(g) != 4 || strcmp(ls_group_kind(g), "mpi") != 0)
        return ls_fail(LS_E_INTERNAL, "%d hosts, %d ranks, %s", ls_group_hosts(g), ls_group_size(g),
                       ls_group_kind(g));
    return ls_group_barrier(g);
}

static void hosts_have_neighbouring_ranks(void **state)
{
    (void)state;
    mailbox box;
    runner all[4];
    int ranks[4];
    mailbox_init(&box, 4, 2);
    run_all(all, &box, note_place, ranks);
    assert_all_ok(all, 4);
    for (int r = 0; r < 4; r++)
        assert_int_equal(ranks[r], r);
    memcpy(box.machine_of, (int[]){ 0, 1, 0, 1 }, 4 * sizeof(int)); /* dealt in turns */
    run_all(all, &box, note_place, ranks);
    assert_all_ok(all, 4);
    assert_memory_equal(ranks, ((int[]){ 0, 2, 1, 3 }), sizeof ranks);
    mailbox_release(&box);
}

static ls_status one_host(ls_group *g, int started_as, void *context)
{
    (void)started_as, (void)context;
    if (ls_group_hosts(g) != 1 || strcmp(ls_group_kind(g), "shm") != 0)
        return ls_fail(LS_E_INTERNAL, "%d hosts, %s", ls_group_hosts(g), ls_group_kind(g));
    return ls_group_barrier(g);
}

static void one_host_needs_no_transport(void **state)
{
    (void)state;
    mailbox box;
    runner all[3];
    mailbox_init(&box, 3, 1);
    box.broken = 1;
    run_all(all, &box, one_host, NULL);
    assert_all_ok(all, 3);
    mailbox_release(&box);
}

enum { SLICE = 1000 };

static ls_status one_collective(ls_group *g, int started_as, void *kind)
{
    (void)started_as;
    static const int MEMBERS[] = { 0, 1, 2, 3 };
    float result[4 * SLICE];
    ls_axis *a;
    ls_window *w;
    ls_collective *c;
    LS_TRY(ls_axis_create(&a, g, "dp", 4, MEMBERS));
    LS_TRY(ls_window_create(&w, a, sizeof result, 0));
    LS_TRY(ls_collective_create(&c, &(ls_collective_desc){ .kind = (ls_collective_kind)abs(*(int *)kind),
                                                           .axis = a,
                                                           .count = SLICE,
                                                           .from = LS_F32,
                                                           .to = LS_BF16,
                                                           .via = LS_F32,
                                                           .window = w,
                                                           .result = result,
                                                           .threads = 1,
                                                           .label = "a test" }));
    if (*(int *)kind >= 0) {
        LS_TRY(ls_collective_start(c));
        LS_TRY(ls_collective_wait(c));
    }
    ls_collective_destroy(&c);
    ls_window_destroy(&w);
    ls_axis_destroy(&a);
    return ls_group_barrier(g);
}

/* On 2 hosts of 2 ranks each slice, in the smaller type, crosses once a rank, and no sum of one host twice.
 */
static void what_travels_is_small(void **state)
{
    (void)state;
    long sent[3];
    for (int i = 0; i < 3; i++) {
        mailbox box;
        runner all[4];
        int kind = i == 0 ? -1 : i == 1 ? LS_ALL_GATHER : LS_REDUCE_SCATTER;
        mailbox_init(&box, 4, 2);
        run_all(all, &box, one_collective, &kind);
        assert_all_ok(all, 4);
        sent[i] = box.sent[0] + box.sent[1] + box.sent[2] + box.sent[3];
        mailbox_release(&box);
    }
    assert_int_equal(sent[1] - sent[0], 4 * SLICE * 2);
    assert_int_equal(sent[2] - sent[0], 4 * SLICE * 4);
}

static void pretend_hosts(void **state)
{
    (void)state;
    mailbox box;
    runner all[4];
    int ranks[4];
    mailbox_init(&box, 4, 1);
    setenv("LOCKSTEP_FAKE_NODES", "2", 1);
    run_all(all, &box, note_place, ranks);
    assert_all_ok(all, 4);
    for (int i = 0; i < 3; i++) {
        setenv("LOCKSTEP_FAKE_NODES", (const char *const[]){ "3", "0", "2x" }[i], 1);
        run_all(all, &box, NULL, NULL);
        for (int r = 0; r < 4; r++) {
            assert_int_equal(all[r].status, LS_E_USAGE);
            ASSERT_CONTAINS(all[r].message, "does not divide the 4 ranks of a host");
        }
    }
    unsetenv("LOCKSTEP_FAKE_NODES");
    mailbox_release(&box);
}

static void hosts_of_unequal_size_are_refused(void **state)
{
    (void)state;
    mailbox box;
    runner all[4];
    mailbox_init(&box, 4, 2);
    memcpy(box.machine_of, (int[]){ 0, 0, 0, 3 }, 4 * sizeof(int));
    run_all(all, &box, NULL, NULL);
    for (int r = 0; r < 4; r++) {
        assert_int_equal(all[r].status, LS_E_USAGE);
        ASSERT_CONTAINS(all[r].message, "3 + 1 ranks on the hosts");
    }
    mailbox_release(&box);
}

static ls_status fail_on_two(ls_group *g, int started_as, void *context)
{
    (void)started_as, (void)context;
    LS_TRY(ls_group_barrier(g));
    if (ls_group_rank(g) == 2)
        return ls_fail(LS_E_NUMERIC, "step 3: the loss is NaN");
    return ls_group_barrier(g);
}

static void a_failure_is_heard_on_every_host(void **state)
{
    (void)state;
    for (int hosts = 2; hosts <= 4; hosts += 2) {
        mailbox box;
        runner all[4];
        mailbox_init(&box, 4, hosts);
        double began = ls_now();
        run_all(all, &box, fail_on_two, NULL);
        assert_true(ls_now() - began < 60); /* not the deadline */
        for (int r = 0; r < 4; r++) {
            assert_int_equal(all[r].status, r == 2 ? LS_E_NUMERIC : LS_E_PEER);
            ASSERT_CONTAINS(all[r].message,
                            r == 2 ? "step 3: the loss is NaN" : "rank 2: step 3: the loss is NaN");
        }
        mailbox_release(&box);
    }
}

static ls_status never_come(ls_group *g, int started_as, void *missing)
{
    (void)started_as;
    LS_TRY(ls_group_barrier(g));
    if (ls_group_rank(g) == 1) /* the others wait for as long as it takes */
        ls_group_set_deadline(g, 1);
    if (ls_group_rank(g) != *(int *)missing)
        return ls_group_barrier(g);
    ls_group_doing(g, "step 7, linear_dw of fc1");
    for (double until = ls_now() + 60; ls_now() < until && !ls_control_failed(g->control);)
        usleep(10000);
    return ls_group_failure(g);
}

static void who_does_not_come_is_named(void **state)
{
    (void)state;
    for (int hosts = 2; hosts <= 4; hosts += 2) {
        mailbox box;
        runner all[4];
        int missing = 3;
        mailbox_init(&box, 4, hosts);
        run_all(all, &box, never_come, &missing);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(all[r].status, LS_E_PEER);
            ASSERT_CONTAINS(all[r].message, "rank 3: did not come within 1 s; rank 1 waited for it");
            ASSERT_CONTAINS(all[r].message, "a barrier");
            ASSERT_CONTAINS(all[r].message, "it last did: step 7, linear_dw of fc1");
        }
        mailbox_release(&box);
    }
}

static ls_status cut(ls_group *g, int started_as, void *context)
{
    mailbox *box = context;
    LS_TRY(ls_group_barrier(g));
    if (started_as == 1) {
        pthread_mutex_lock(&box->lock);
        box->broken = 1;
        pthread_mutex_unlock(&box->lock);
    }
    ls_group_set_deadline(g, 0.3);
    return ls_group_barrier(g);
}

static void a_broken_transport_is_a_failure(void **state)
{
    (void)state;
    mailbox box;
    runner all[2];
    mailbox_init(&box, 2, 2);
    run_all(all, &box, cut, &box);
    assert_int_equal(all[1].status, LS_E_PEER);
    ASSERT_CONTAINS(all[1].message, "the cable is cut");
    assert_int_equal(all[0].status, LS_E_PEER);
    ASSERT_CONTAINS(all[0].message, "rank 1: did not come within 0.3 s");
    mailbox_release(&box);
}

static void another_mpi_is_refused(void **state)
{
    (void)state;
    mailbox box;
    ls_group *g;
    mailbox_init(&box, 1, 1);
    ASSERT_FAILS(ls_machines_join(&g, &mailbox_transport, &(mailbox_place){ &box, 0 }, 4), LS_E_UNSUPPORTED,
                 "4 ranks were started, but mailbox sees 1");
    assert_null(g);
    mailbox_release(&box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_as_one_host),
        cmocka_unit_test(hosts_have_neighbouring_ranks),
        cmocka_unit_test(one_host_needs_no_transport),
        cmocka_unit_test(pretend_hosts),
        cmocka_unit_test(hosts_of_unequal_size_are_refused),
        cmocka_unit_test(a_failure_is_heard_on_every_host),
        cmocka_unit_test(who_does_not_come_is_named),
        cmocka_unit_test(a_broken_transport_is_a_failure),
        cmocka_unit_test(another_mpi_is_refused),
        cmocka_unit_test(what_travels_is_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
