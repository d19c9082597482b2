/* test_session.c - sessions: inputs, programs that share names, profiles, numbers that are not finite,
 * watched memory. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/graph.h"
#include "ops/rules.h"
#include "execute/internal.h"
#include "graph/identity.h"
#include "support/ranks.h"
#include "support/support.h"
#include "support/values.h"
#include "execute/planned.h"

static float get(ls_session *s, const char *name, int i) { return (float)value_number(s, name, i); }

/* Whether `part` begins with element `first` of `whole`. */
static bool lies_in(ls_session *s, const char *part, const char *whole, int64_t first)
{
    ls_place a, b;
    ASSERT_OK(ls_session_place(s, part, &a));
    ASSERT_OK(ls_session_place(s, whole, &b));
    b = ls_place_part(&b, first, &a.type);
    return place_same(&a, &b);
}

/* x [3, 4] -> linear -> relu -> sum of squares, by hand. */
static void numbers_by_hand(void **state)
{
    (void)state;
    const char *devices[] = { "ref", "cpu" };
    for (int k = 0; k < 2; k++) {
        ls_graph *g = new_graph("hand");
        ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 3, 4)),
                 w = ls_param(g, "w", LS_TYPE(LS_F32, 2, 4), (ls_init){ 0 });
        ls_value b = ls_param(g, "b", LS_TYPE(LS_F32, 2), (ls_init){ 0 });
        ls_value y = ls_relu(g, ls_matmul_wt(g, x, w, b));
        ls_output(g, "y", y);
        ls_output(g, "sum", ls_sum_to(g, ls_mul(g, y, y), 0, NULL));
        ls_plan *p = plan_of(g, devices[k], 1);
        ls_session *s;
        ASSERT_OK(ls_session_create(&s, 1, &p, NULL));
        for (int i = 0; i < 12; i++)
            value_set(s, "x", i, i);
        for (int i = 0; i < 8; i++)
            value_set(s, "w", i, i < 4 ? 1 : -1);
        value_put(s, "b", (float[]){ 0.5f, 30.0f }, sizeof(float[2]));
        ASSERT_OK(ls_session_run(s, 0, false));
        const float want[6] = { 6.5f, 24, 22.5f, 8, 38.5f, 0 };
        float sum = 0;
        for (int i = 0; i < 6; i++) {
            assert_true(get(s, "y", i) == want[i]);
            sum += want[i] * want[i];
        }
        assert_true(get(s, "sum", 0) == sum);
        assert_true(ls_session_bytes(s) >= p->state_bytes + p->io_bytes + p->arena_bytes);
        ls_session_destroy(&s);
        ls_plan_destroy(&p);
        ls_graph_destroy(&g);
    }
}

/* A plan of another machine has figures, and cannot run. */
static void plan_of_another_machine(void **state)
{
    (void)state;
    ls_graph *g = new_graph("far");
    ls_output(g, "y", ls_relu(g, ls_input(g, "x", LS_TYPE(LS_F32, 4))));
    ls_plan *p = plan_of(g, "cpu", 1);
    p->device.here = false;
    ls_session *s;
    ASSERT_FAILS(ls_session_create(&s, 1, &p, NULL), LS_E_UNSUPPORTED, "program \"far\" was planned for",
                 p->device.arch->name, "which this machine does not have");
    ls_plan_destroy(&p);
    ls_graph_destroy(&g);
}

/* A step as two programs: `micro` makes gradients inside one flat output, `update` reads one of them and
 * changes the state that micro reads. And what does not fit together is refused. */
static void programs_share_names(void **state)
{
    (void)state;
    const ls_type flat = LS_TYPE(LS_F32, 16);
    ls_graph *micro = new_graph("micro"), *update = new_graph("update"), *wrong;
    ls_value w = ls_state(micro, "w", flat, (ls_init){ 0 });
    ls_value parts[2] = { ls_mul_const(micro, w, 2), ls_add_const(micro, w, 1) };
    ls_value both = ls_concat(micro, 0, 2, parts);
    ls_output(micro, "grad", both);
    ls_output(micro, "grad.second", ls_slice(micro, both, 0, 16, 16));

    ls_value old = ls_state(update, "w", flat, (ls_init){ 0 }),
             second = ls_input(update, "grad.second", flat);
    ls_output(update, "w", ls_add(update, old, second));
    ls_value g2 = ls_input(update, "grad", LS_TYPE(LS_F32, 32));
    ls_output(update, "total", ls_sum_to(update, g2, 0, NULL));

    ls_plan *plans[3] = { plan_of(micro, "ref", 1), plan_of(update, "ref", 1) };
    ls_session *s;
    ASSERT_OK(ls_session_create(&s, 2, plans, NULL));
    for (int i = 0; i < 16; i++)
        value_set(s, "w", i, (float)i);
    assert_true(lies_in(s, "grad.second", "grad", 16));
    ASSERT_OK(ls_session_run(s, 0, false));
    ASSERT_OK(ls_session_run(s, 1, false));
    for (int i = 0; i < 16; i++)
        assert_true(get(s, "w", i) == (float)(2 * i + 1));
    assert_true(get(s, "total", 0) == 3 * 120 + 16);
    ls_place none;
    ASSERT_FAILS(ls_session_place(s, "nothing", &none), LS_E_ARG, "\"nothing\"");
    assert_false(ls_place_present(&none));
    ASSERT_FAILS(ls_session_run(s, 2, false), LS_E_ARG, "2");
    ls_session_destroy(&s);

    for (int more = 0; more < 2; more++) {
        wrong = new_graph("wrong");
        ls_output(wrong, "y", ls_relu(wrong, ls_input(wrong, "w", LS_TYPE(LS_F32, more ? 17 : 15))));
        plans[2] = plan_of(wrong, "ref", 1);
        ASSERT_FAILS(ls_session_create(&s, 3, plans, NULL), LS_E_SHAPE, "\"w\"", "f32 [16]",
                     more ? "f32 [17]" : "f32 [15]");
        assert_null(s);
        ls_plan_destroy(&plans[2]);
        ls_graph_destroy(&wrong);
    }
    wrong = new_graph("wrong"); /* as many elements of another type */
    ls_output(wrong, "y", ls_relu(wrong, ls_input(wrong, "w", LS_TYPE(LS_BF16, 16))));
    plans[2] = plan_of(wrong, "ref", 1);
    ASSERT_FAILS(ls_session_create(&s, 3, plans, NULL), LS_E_SHAPE, "\"w\"", "f32 [16]", "bf16 [16]");
    ls_plan_destroy(&plans[2]);
    ls_graph_destroy(&wrong);
    wrong = new_graph("wrong"); /* inside the same output, at another place */
    both = ls_add_const(wrong, ls_input(wrong, "total", LS_TYPE(LS_F32, 32)), 1);
    ls_output(wrong, "grad", both);
    ls_output(wrong, "grad.second", ls_slice(wrong, both, 0, 8, 16));
    plans[2] = plan_of(wrong, "ref", 1);
    ASSERT_FAILS(ls_session_create(&s, 3, plans, NULL), LS_E_UNSUPPORTED, "\"grad.second\"", "\"grad\"",
                 "\"wrong\"", "elsewhere");
    for (int i = 0; i < 3; i++)
        ls_plan_destroy(&plans[i]);
    ls_graph_destroy(&micro);
    ls_graph_destroy(&update);
    ls_graph_destroy(&wrong);
}

/* Memory inside memory inside memory: a half of one program's output, and another program's quarter of that
 * half. */
static void parts_of_parts(void **state)
{
    (void)state;
    ls_graph *makes = new_graph("makes"), *reads = new_graph("reads");
    ls_value flat = ls_add_const(makes, ls_input(makes, "x", LS_TYPE(LS_F32, 32)), 1);
    ls_output(makes, "flat", flat);
    ls_output(makes, "half", ls_slice(makes, flat, 0, 16, 16));
    ls_value half = ls_input(reads, "half", LS_TYPE(LS_F32, 16));
    ls_output(reads, "quarter", ls_slice(reads, half, 0, 4, 8));
    ls_output(reads, "sum", ls_sum_to(reads, half, 0, NULL));
    ls_plan *plans[2] = { plan_of(makes, "ref", 1), plan_of(reads, "ref", 1) };
    ls_session *s;
    ASSERT_OK(ls_session_create(&s, 2, plans, NULL));
    assert_true(lies_in(s, "half", "flat", 16));
    assert_true(lies_in(s, "quarter", "flat", 20));
    for (int i = 0; i < 32; i++)
        value_set(s, "x", i, (float)i);
    ASSERT_OK(ls_session_run(s, 0, false));
    ASSERT_OK(ls_session_run(s, 1, false));
    assert_true(get(s, "quarter", 0) == 21 && get(s, "sum", 0) == 16 * 24.5f);
    ls_session_destroy(&s);
    for (int i = 0; i < 2; i++)
        ls_plan_destroy(&plans[i]);
    ls_graph_destroy(&makes);
    ls_graph_destroy(&reads);
}

/* Programs that share a gradient in the arena have to agree on its place there. */
static void gradients_lie_at_one_place(void **state)
{
    (void)state;
    const ls_identity gradient = { .what = LS_IS_GRADIENT };
    const ls_type flat = LS_TYPE(LS_F32, 16);
    ls_device d;
    ASSERT_OK(ls_device_open(&d, "ref", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    ls_graph *g[2] = { new_graph("backward"), new_graph("update") };
    ls_plan *plans[2];
    ls_session *s;
    ls_output_of(g[0], gradient, "0", ls_mul_const(g[0], ls_input(g[0], "x", flat), 2));
    ls_output(g[1], "y", ls_add_const(g[1], ls_input_of(g[1], gradient, "0", flat), 1));
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(ls_graph_finish(g[i]));
        ASSERT_OK(ls_plan_create(&plans[i], g[i], &d, &(ls_plan_opts){ .gradients_in_arena = true }));
    }
    ls_alloc *there[2];
    for (int i = 0; i < 2; i++)
        for (there[i] = plans[i]->allocs; there[i]->memory != LS_MEM_GRADIENT;)
            there[i]++;
    const ls_alloc as_planned = *there[1];
    for (int wrong = 0; wrong < 4; wrong++) {
        *there[1] = as_planned;
        there[1]->offset += wrong == 1 ? 64 : 0;
        there[1]->shared = wrong == 2;
        there[0]->memory = wrong == 3 ? LS_MEM_IO : LS_MEM_GRADIENT;
        if (!wrong) {
            ASSERT_OK(ls_session_create(&s, 2, plans, NULL));
            ls_session_destroy(&s);
        } else {
            ASSERT_FAILS(ls_session_create(&s, 2, plans, NULL), LS_E_INTERNAL, "lies elsewhere in program");
        }
    }
    for (int i = 0; i < 2; i++) {
        ls_plan_destroy(&plans[i]);
        ls_graph_destroy(&g[i]);
    }
}

/* Both ranks have finite numbers; what the collective adds has none. No step behind it computes with them. */
static ls_status add_over_ranks(ls_group *group, void *context)
{
    const ls_mesh mesh = { .n = 1, .axes = { { "dp", 2 } } };
    const ls_parallel p = { LS_PARALLEL_DEFAULTS, .mesh = mesh, .rank = ls_group_rank(group) };
    ls_graph *g;
    ls_plan *plan = NULL;
    ls_session *s = NULL;
    ls_device d;
    ls_place x;
    float numbers[64];
    for (int i = 0; i < 64; i++)
        numbers[i] = *(const float *)context;
    LS_TRY(ls_device_open(&d, "ref", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    LS_TRY(ls_graph_create(&g, "sums"));
    ls_value sent = ls_relu(g, ls_input(g, "x", LS_TYPE(LS_F32, 64)));
    const ls_reduce_attrs over = { .group = "dp", .unit = "u", .ranks = 2, .to = LS_F32 };
    ls_output(g, "y", ls_reduce_scatter(g, sent, &over));
    ls_status status = ls_graph_finish(g);
    if (status == LS_OK)
        status = ls_plan_create(&plan, g, &d, &(ls_plan_opts){ .parallel = &p });
    if (status == LS_OK)
        status = ls_session_create(&s, 1, &plan, &(ls_session_opts){ .group = group, .parallel = &p });
    if (status == LS_OK)
        status = ls_session_place(s, "x", &x);
    if (status == LS_OK)
        status = ls_session_write(&x, numbers, sizeof numbers);
    if (status == LS_OK)
        status = ls_session_run(s, 0, true);
    ls_session_destroy(&s);
    ls_plan_destroy(&plan);
    ls_graph_destroy(&g);
    return status;
}

static void sums_of_finite_numbers_are_blamed(void **state)
{
    (void)state;
    ASSERT_OK(run_ranks(2, add_over_ranks, &(float){ 1e38f }));
    ASSERT_FAILS(run_ranks(2, add_over_ranks, &(float){ 3e38f }), LS_E_NUMERIC, "output 0 of reduce_scatter",
                 "32 of 32 elements");
}

static void bad_numbers_are_blamed(void **state)
{
    (void)state;
    ls_graph *g = new_graph("blame");
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 8));
    ls_value a = ls_reshape(g, ls_add_const(g, ls_reshape(g, x, 2, 4), 1), 8);
    ls_scope_push(g, "encoder.layer_3", "EncoderBlock");
    ls_value b = ls_log_e(g, a);
    ls_scope_pop(g);
    ls_output(g, "y", ls_exp(g, b));
    ls_plan *p = plan_of(g, "ref", 1);
    ls_session *s;
    ASSERT_OK(ls_session_create(&s, 1, &p, NULL));
    for (int i = 0; i < 8; i++)
        value_set(s, "x", i, 1);
    ASSERT_OK(ls_session_run(s, 0, true));
    value_set(s, "x", 5, -3);
    ASSERT_FAILS(ls_session_run(s, 0, true), LS_E_NUMERIC, "encoder.layer_3", "log", "1 of 8", "element 5",
                 "\"blame\"", "test_session.c:");
    value_set(s, "x", 2, INFINITY);
    ASSERT_FAILS(ls_session_run(s, 0, true), LS_E_NUMERIC, "input \"x\"", "element 2");
    ASSERT_OK(ls_session_run(s, 0, false));
    ls_session_destroy(&s);
    ls_plan_destroy(&p);
    ls_graph_destroy(&g);

    /* columns of an input: its other numbers do not count */
    g = new_graph("columns");
    ls_output(g, "y", ls_relu(g, ls_slice(g, ls_input(g, "x", LS_TYPE(LS_F32, 2, 4)), 1, 1, 2)));
    p = plan_of(g, "ref", 1);
    ASSERT_OK(ls_session_create(&s, 1, &p, NULL));
    for (int i = 0; i < 8; i++)
        value_set(s, "x", i, i % 4 == 0 || i % 4 == 3 ? (double)NAN : 1);
    ASSERT_OK(ls_session_run(s, 0, true));
    value_set(s, "x", 6, (double)NAN);
    ASSERT_FAILS(ls_session_run(s, 0, true), LS_E_NUMERIC, "input \"x\"", "1 of 4", "element 3");
    ls_session_destroy(&s);
    ls_plan_destroy(&p);
    ls_graph_destroy(&g);

    /* 16-bit types, of which the largest number is one; and several bad ones in two dimensions */
    static const struct {
        ls_dtype type;
        uint16_t most, infinite;
    } HALVES[] = { { LS_BF16, 0x7f7f, 0x7f80 }, { LS_F16, 0x7bff, 0xfc00 } };
    for (int k = 0; k < 2; k++) {
        g = new_graph("halves");
        ls_output(g, "y", ls_relu(g, ls_input(g, "x", LS_TYPE(HALVES[k].type, 2, 3))));
        p = plan_of(g, "ref", 1);
        ASSERT_OK(ls_session_create(&s, 1, &p, NULL));
        uint16_t h[6];
        for (int i = 0; i < 6; i++)
            h[i] = i % 2 ? HALVES[k].most : 0;
        value_put(s, "x", h, sizeof h);
        ASSERT_OK(ls_session_run(s, 0, true));
        h[2] = h[4] = h[5] = HALVES[k].infinite;
        value_put(s, "x", h, sizeof h);
        ASSERT_FAILS(ls_session_run(s, 0, true), LS_E_NUMERIC, "input \"x\"", "3 of 6", "element 2");
        ls_session_destroy(&s);
        ls_plan_destroy(&p);
        ls_graph_destroy(&g);
    }
}

static void profile_records_times(void **state)
{
    (void)state;
    ls_graph *g = new_graph("profile");
    ls_value h = ls_input(g, "x", LS_TYPE(LS_F32, 1000));
    for (int i = 0; i < 5; i++)
        h = ls_tanh(g, h);
    ls_output(g, "y", h);
    ls_plan *p = plan_of(g, "ref", 1);
    ls_session *s;
    ASSERT_OK(ls_session_create(&s, 1, &p, NULL));
    ls_session_profile(s, true);
    ASSERT_OK(ls_session_run(s, 0, false));
    const double *t = ls_session_times(s, 0);
    for (int i = 0; i < 5; i++) {
        assert_true(t[5 + i] > 0);
        if (i)
            assert_true(t[i] >= t[i - 1] + t[5 + i - 1]);
    }
    ls_session_profile(s, false);
    const double before = t[9];
    ASSERT_OK(ls_session_run(s, 0, false));
    assert_true(t[9] == before);
    ls_session_destroy(&s);
    ls_plan_destroy(&p);
    ls_graph_destroy(&g);
}

#ifdef LS_POISON_ARENA
static bool dies(void (*act)(volatile char *), char *at)
{
    const pid_t child = fork();
    if (child == 0) {
        fclose(stderr);
        signal(SIGSEGV, SIG_DFL); /* cmocka's handlers would go on with the tests */
        signal(SIGBUS, SIG_DFL);
        act(at);
        /* not _exit: ThreadSanitizer would report the thread that prefaults memory, which the parent joins */
        syscall(SYS_exit_group, 0);
    }
    int status;
    waitpid(child, &status, 0);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void write_byte(volatile char *at) { *at = 1; }
#endif

/* Development builds: a write beyond a region kills the process at the spot, and the arena holds no readable
 * number between runs. */
static void watched_memory(void **state)
{
    (void)state;
#ifdef LS_POISON_ARENA
    ls_graph *g = new_graph("watched");
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 1024));
    ls_output(g, "y",
              ls_tanh(g, ls_permute(g, ls_reshape(g, ls_permute(g, ls_reshape(g, x, 2, 512), 1, 0), 2, 512),
                                    1, 0)));
    ls_plan *p = plan_of(g, "ref", 1);
    ls_session *s;
    ASSERT_OK(ls_session_create(&s, 1, &p, NULL));
    assert_true(p->arena_bytes >= 4096);
    ASSERT_OK(ls_session_run(s, 0, false));
#ifdef LS_ASAN
    assert_true(dies(write_byte, s->region[LS_MEM_ARENA]));
#else
    for (size_t i = 0; i < p->arena_bytes / 4; i++)
        assert_true(isnan(((const float *)s->region[LS_MEM_ARENA])[i]));
#endif
#ifdef LS_DEV
    assert_false(dies(write_byte, s->region[LS_MEM_IO]));
    assert_true(dies(write_byte, s->region[LS_MEM_IO] - 1));
    assert_true(dies(write_byte, s->region[LS_MEM_IO] + 8192)); /* x and y are two pages */
    assert_true(dies(write_byte, s->memory + s->bytes - 1));
#endif
    ls_session_destroy(&s);
    ls_plan_destroy(&p);
    ls_graph_destroy(&g);
#else
    skip(); /* a release build does not watch */
#endif
}

/* A program may only read a strided part of another one's output if it reads it where it is: an input is
 * contiguous. */
static void strided_parts_are_no_inputs(void **state)
{
    (void)state;
    ls_graph *makes = new_graph("makes"), *reads = new_graph("reads");
    ls_value all = ls_add_const(makes, ls_input(makes, "x", LS_TYPE(LS_F32, 4, 8)), 1);
    ls_output(makes, "all", all);
    ls_output(makes, "columns", ls_slice(makes, all, 1, 2, 4));
    ls_output(reads, "y", ls_neg(reads, ls_input(reads, "columns", LS_TYPE(LS_F32, 4, 4))));
    ls_plan *plans[2] = { plan_of(makes, "ref", 1), plan_of(reads, "ref", 1) };
    ls_session *s;
    ASSERT_FAILS(ls_session_create(&s, 2, plans, NULL), LS_E_UNSUPPORTED, "\"columns\" is part of \"all\"",
                 "program \"reads\"", "only contiguous");
    for (int i = 0; i < 2; i++)
        ls_plan_destroy(&plans[i]);
    ls_graph_destroy(&makes);
    ls_graph_destroy(&reads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_by_hand),
        cmocka_unit_test(plan_of_another_machine),
        cmocka_unit_test(programs_share_names),
        cmocka_unit_test(parts_of_parts),
        cmocka_unit_test(gradients_lie_at_one_place),
        cmocka_unit_test(bad_numbers_are_blamed),
        cmocka_unit_test(sums_of_finite_numbers_are_blamed),
        cmocka_unit_test(profile_records_times),
        cmocka_unit_test(watched_memory),
        cmocka_unit_test(strided_parts_are_no_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
