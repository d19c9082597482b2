/* test_remote_scale.c - how slices and sums move between many hosts: the bits are those of one tree over all
 * ranks, and the messages are those that `plan` counts. */
#include "comm/comm.h"
#include "comm/reduce.h"
#include "comm/remote_ways.h"
#include "hosts.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

/* ---- what is computed */

static float value_of(int rank, int64_t i)
{
    uint64_t w = ((uint64_t)rank << 32 | (uint64_t)i) * 0x9e3779b97f4a7c15;
    w = (w ^ w >> 29) * 0xbf58476d1ce4e5b9;
    return ((float)(w >> 40) / 0x1p24f - 0.5f) * (w % 7 ? 1 : 1000);
}

/* Element i of the sum over n ranks: the balanced tree, from its definition. */
static float sum_of(int first, int n, int64_t i)
{
    int half = 1;
    if (n == 1)
        return value_of(first, i);
    while (2 * half < n)
        half *= 2;
    return sum_of(first, half, i) + sum_of(first + half, n - half, i);
}

typedef struct scene {
    int ranks, hosts;
    ls_collective_kind kind;
    int64_t count;
    bool doubling; /* what the messages must show */
} scene;

/* Slices of 16 KiB are the largest ones that 64 hosts share in one pass of doubling messages. */
static const scene SCENES[] = {
    { 64, 64, LS_ALL_GATHER, 4608, true },       { 64, 64, LS_REDUCE_SCATTER, 200, true },
    { 64, 64, LS_ALL_REDUCE, 3, true },          { 64, 64, LS_ALL_REDUCE, 64 * 128, true },
    { 12, 12, LS_ALL_GATHER, 512, true },        { 12, 12, LS_ALL_REDUCE, 100, true },
    { 12, 12, LS_REDUCE_SCATTER, 1024, false },  { 16, 8, LS_ALL_GATHER, 150016, false },
    { 16, 8, LS_REDUCE_SCATTER, 80000, false },  { 16, 8, LS_REDUCE_SCATTER, 40000, true },
    { 16, 8, LS_ALL_REDUCE, 16 * 70016, false }, { 6, 6, LS_REDUCE_SCATTER, 140032, false },
};
enum { N_SCENES = sizeof SCENES / sizeof *SCENES };

static int64_t operand_count(const scene *s)
{
    return s->count * (s->kind == LS_REDUCE_SCATTER ? s->ranks : 1);
}

static ls_status check(const scene *s, const ls_axis *a, const float *result)
{
    const int r = ls_axis_position(a), gathers = s->kind == LS_ALL_GATHER;
    const int64_t n = s->count * (gathers ? s->ranks : 1), step = n / 97 + 1;
    for (int64_t i = 0; i < n; i = i + step < n || i == n - 1 ? i + step : n - 1) {
        const float want = gathers ? value_of((int)(i / s->count), i % s->count)
                                   : sum_of(0, s->ranks, s->kind == LS_REDUCE_SCATTER ? r * s->count + i : i);
        if (memcmp(&want, &result[i], sizeof want) != 0)
            return ls_fail(LS_E_INTERNAL, "%s of %lld: rank %d has %.9g instead of %.9g at %lld",
                           ls_collective_name(s->kind), (long long)s->count, r, (double)result[i],
                           (double)want, (long long)i);
    }
    return LS_OK;
}

/* The scenes of one group of ranks. */
typedef struct stage {
    const scene *scenes;
    int n;
    mailbox *box;
} stage;

static void reset_count(mailbox *b, int r)
{
    pthread_mutex_lock(&b->lock);
    b->sends[r] = b->sent[r] = b->most[r] = 0;
    b->least[r] = 1l << 40;
    pthread_mutex_unlock(&b->lock);
}

static ls_status check_count(const scene *s, mailbox *b, int r)
{
    const ls_message_count t = ls_collective_messages(s->kind, s->hosts, s->ranks / s->hosts, s->count,
                                                      LS_F32, LS_F32, LS_F32);
    pthread_mutex_lock(&b->lock);
    const bool same = b->sends[r] == t.messages && (double)b->sent[r] == t.bytes && b->most[r] == t.most &&
                      b->least[r] == t.least;
    ls_status status =
        same ? LS_OK
             : ls_fail(LS_E_INTERNAL,
                       "%s of %lld on %d hosts: rank %d sends %ld messages of %ld to %ld bytes, %ld in "
                       "all; counted are %lld of %lld to %lld, %.0f",
                       ls_collective_name(s->kind), (long long)s->count, s->hosts, r, b->sends[r],
                       b->least[r], b->most[r], b->sent[r], (long long)t.messages, (long long)t.least,
                       (long long)t.most, t.bytes);
    pthread_mutex_unlock(&b->lock);
    return status;
}

static ls_status play_scene(const scene *s, mailbox *box, int sender, ls_axis *a, ls_window *w)
{
    const int64_t in = operand_count(s), out = s->count * (s->kind == LS_ALL_GATHER ? s->ranks : 1);
    float *result = malloc(sizeof *result * (size_t)out);
    ls_collective *c;
    for (int64_t i = 0; i < in; i++)
        ((float *)(void *)w->mine)[i] = value_of(ls_axis_position(a), i);
    LS_TRY(ls_collective_create(&c, &(ls_collective_desc){ .kind = s->kind,
                                                           .axis = a,
                                                           .count = s->count,
                                                           .from = LS_F32,
                                                           .to = LS_F32,
                                                           .via = LS_F32,
                                                           .window = w,
                                                           .result = result,
                                                           .threads = 1,
                                                           .label = "a scene" }));
    reset_count(box, sender);
    ls_status status = ls_collective_start(c);
    if (status == LS_OK)
        status = ls_collective_wait(c);
    if (status == LS_OK)
        status = check_count(s, box, sender);
    if (status == LS_OK)
        status = check(s, a, result);
    ls_collective_destroy(&c);
    free(result);
    return status;
}

static ls_status play(ls_group *g, int started_as, void *context)
{
    const stage *t = context;
    int members[MAILBOX_RANKS];
    int64_t most = 0;
    ls_axis *a;
    ls_window *w;
    ls_status s = LS_OK;
    for (int i = 0; i < ls_group_size(g); i++)
        members[i] = i;
    for (int i = 0; i < t->n; i++)
        most = operand_count(&t->scenes[i]) > most ? operand_count(&t->scenes[i]) : most;
    LS_TRY(ls_axis_create(&a, g, "dp", ls_group_size(g), members));
    LS_TRY(ls_window_create(&w, a, sizeof(float) * (size_t)most, 0));
    for (int i = 0; s == LS_OK && i < t->n; i++) {
        s = play_scene(&t->scenes[i], t->box, started_as, a, w);
        if (s == LS_OK)
            s = ls_group_barrier(g); /* all have read the operand */
    }
    ls_window_destroy(&w);
    ls_axis_destroy(&a);
    return s;
}

static void many_hosts(void **state)
{
    (void)state;
    runner *all = calloc(MAILBOX_RANKS, sizeof *all);
    for (int i = 0, n; i < N_SCENES; i += n) {
        const scene *s = &SCENES[i];
        mailbox box;
        for (n = 1; i + n < N_SCENES && s[n].ranks == s->ranks; n++)
            ;
        mailbox_init(&box, s->ranks, s->hosts);
        run_all(all, &box, play, &(stage){ s, n, &box });
        assert_all_ok(all, s->ranks);
        mailbox_release(&box);
    }
    for (int i = 0; i < N_SCENES; i++) {
        const scene *s = &SCENES[i];
        const ls_message_count t = ls_collective_messages(s->kind, s->hosts, s->ranks / s->hosts, s->count,
                                                          LS_F32, LS_F32, LS_F32);
        assert_int_equal(t.messages < s->hosts - 1, s->doubling); /* (of one pass) */
    }
    free(all);
}

/* ---- what is counted */

/* Llama 3 8B on 1,024 ranks of 128 hosts, fsdp: a block's parameters are gathered twice in bf16, its
 * gradients are added in f32. */
static void large_messages_on_many_hosts(void **state)
{
    (void)state;
    enum { HOSTS = 128, EACH = 8, BLOCKS = 32 };
    const int64_t slice = 218112000 / (HOSTS * EACH);
    ls_message_count step = { 0 };
    const ls_message_count gather = ls_collective_messages(LS_ALL_GATHER, HOSTS, EACH, slice, LS_F32, LS_BF16,
                                                           LS_BF16),
                           sum = ls_collective_messages(LS_REDUCE_SCATTER, HOSTS, EACH, slice, LS_F32, LS_F32,
                                                        LS_F32);
    assert_int_equal(gather.messages, HOSTS - 1);
    assert_int_equal(sum.messages, 2 * (HOSTS - 1));
    ls_message_count_add(&step, &gather, 2 * BLOCKS);
    ls_message_count_add(&step, &sum, BLOCKS);
    assert_int_equal(step.messages, 16256);
    assert_int_equal(step.small, 0);
    assert_true(step.least >= 256 << 10 && step.most <= 512 << 10);
    assert_true(step.bytes == (HOSTS - 1.0) * (double)slice * BLOCKS * 8);
    const ls_message_count number = ls_collective_messages(LS_ALL_REDUCE_MAX, HOSTS, EACH, 1, LS_F32, LS_F32,
                                                           LS_F32);
    ls_message_count_add(&step, &number, 2);
    assert_int_equal(step.small, 2 * 7); /* 1, 2, .. 64 numbers */
    assert_true(step.small_bytes == 2 * 4.0 * (HOSTS - 1));
}

/* Every movement has room for its messages, and every large slice goes in large ones, on any number of hosts.
 */
static void any_number_of_hosts(void **state)
{
    (void)state;
    for (int hosts = 2; hosts <= 1 << 20; hosts += hosts < 200 ? 1 : hosts / 3)
        for (int64_t part = 1; part < 1 << 26; part = part * 3 + 1) {
            const ls_way w[] = { ls_way_to_share(hosts, part, 2), ls_way_to_reduce(hosts, part, 2, 4) };
            for (int i = 0; i < 2; i++) {
                const int64_t wide = i ? 4 : 2;
                assert_true(w[i].step > 0 && w[i].passes * w[i].step >= part &&
                            (w[i].passes - 1) * w[i].step < part);
                assert_true(w[i].doubling ? w[i].step * wide * hosts <= LS_REMOTE_REGION / 2
                                          : w[i].step * 2 <= LS_REMOTE_PIECE &&
                                                w[i].step * wide <= 2 * LS_REMOTE_PIECE);
                if (part * 2 >= 256 << 10 && hosts >= 128)
                    assert_true(!w[i].doubling && (part < w[i].step || w[i].step * 2 >= 256 << 10));
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_hosts),
        cmocka_unit_test(large_messages_on_many_hosts),
        cmocka_unit_test(any_number_of_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
