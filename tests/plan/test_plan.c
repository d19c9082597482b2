/* test_plan.c - the plan of a graph: lifetimes, reuse of memory, values in place, state, order; random
 * graphs. */
#include <string.h>

#include "lockstep/graph.h" /* before rules.h: with call sites */
#include "ops/rules.h"
#include "plan/internal.h"
#include "plan/occupied.h"
#include "support/support.h"
#include "plan/planned.h"

/* x [256] f32 (1 KiB): a = exp x, b = linear a, c = permute b, d = c + b, y = linear d. Live by hand: step 0
 * a; 1 a, b and workspace; 2 b, c; 3 d in place of c, b; 4 d and workspace, y being IO. Peak 2 KiB + 1000
 * bytes (rounded to 64) at step 1. */
static void peak_by_hand(void **state)
{
    (void)state;
    ls_graph *g = new_graph();
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 16, 16)),
             w = ls_param(g, "w", LS_TYPE(LS_F32, 16, 16), (ls_init){ 0 });
    ls_value a = ls_exp(g, x), b = ls_matmul_wt(g, a, w, LS_NONE), c = ls_permute(g, b, 1, 0),
             d = ls_add(g, c, b);
    ls_output(g, "y", ls_matmul_wt(g, d, w, LS_NONE));
    ls_plan *p = plan_of(g);
    assert_int_equal(p->n_steps, 5);
    assert_int_equal(p->live_peak_bytes, 2048 + 1024);
    assert_int_equal(p->arena_bytes, 2048 + 1024);
    assert_int_equal(p->peak_step, 1);
    assert_int_equal(p->io_bytes, 2048);
    assert_int_equal(p->state_bytes, 1024);
    assert_int_equal(p->peak_by_category[LS_CAT_ACTIVATIONS], 2048 + 1024); /* and the output */
    assert_int_equal(p->peak_by_category[LS_CAT_DATA], 1024);
    assert_int_equal(p->peak_by_category[LS_CAT_PARAMETERS], 1024);
    assert_int_equal(p->peak_by_category[LS_CAT_WORKSPACE], 1024);
    assert_int_equal(place_of(p, "add", 0)->alloc, place_of(p, "permute", 0)->alloc);
    const ls_timeline_point *t = ls_plan_timeline(p);
    const size_t live[5] = { 1024, 2048, 2048, 2048, 1024 };
    for (int i = 0; i < 5; i++)
        assert_int_equal(t[i].bytes[LS_CAT_ACTIVATIONS], live[i] + 1024);
    release(p, g);
}

/* A chain long enough that a dead value's memory must be used again: three live at most, whatever the length.
 */
static void memory_is_reused(void **state)
{
    (void)state;
    ls_graph *g = new_graph();
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 100)),
             w = ls_param(g, "w", LS_TYPE(LS_F32, 100, 100), (ls_init){ 0 });
    ls_value h = ls_reshape(g, x, 1, 100);
    for (int i = 0; i < 20; i++)
        h = ls_matmul_wt(g, h, w, LS_NONE);
    ls_output(g, "y", h);
    ls_plan *p = plan_of(g);
    /* Two vectors of 400 -> 448 bytes, and the workspace of 1000 -> 1024. */
    assert_int_equal(p->live_peak_bytes, 2 * 448 + 1024);
    assert_int_equal(p->arena_bytes, p->live_peak_bytes);
    assert_int_equal(p->state_bytes, ls_align_up(40000));
    assert_int_equal(p->peak_by_category[LS_CAT_WORKSPACE], 1024);
    assert_int_equal(p->peak_by_category[LS_CAT_PARAMETERS], ls_align_up(40000));
    release(p, g);
}

/* An operand of half the memory, or one that is seen in two ways by the same op, is not overwritten. */
static void in_place_needs_the_whole(void **state)
{
    (void)state;
    ls_graph *g = new_graph();
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 8, 8));
    ls_value a = ls_exp(g, x);
    ls_value s = ls_add(g, ls_slice(g, a, 0, 0, 4), ls_slice(g, a, 0, 4, 4));
    ls_output(g, "s", ls_exp(g, s));
    ls_value sq = ls_exp(g, ls_input(g, "z", LS_TYPE(LS_F32, 4, 4)));
    ls_value turned = ls_reshape(g, sq, 2, 8);
    /* same bytes, same place, another name: not taken */
    ls_output(g, "t", ls_exp(g, ls_mul(g, ls_reshape(g, sq, 2, 8), turned)));
    ls_value d = ls_exp(g, x);
    ls_output(g, "u", ls_exp(g, ls_mul(g, d, d))); /* the same operand twice: taken */
    ls_plan *p = plan_of(g);
    assert_int_not_equal(place_of(p, "add", 0)->alloc, place_of(p, "exp", 0)->alloc);
    assert_int_not_equal(place_of(p, "mul", 0)->alloc, place_of(p, "reshape", 0)->alloc);
    const ls_node *square = p->graph->nodes[p->graph->vals[value_of(p, "mul", 1)].node];
    assert_int_equal(place_of(p, "mul", 1)->alloc, p->locations[square->in[0].id].alloc);
    release(p, g);
}

/* A gradient that is a sum is made where it belongs from its first addend on, unless somebody reads that
 * later. */
static void sums_in_place(void **state)
{
    (void)state;
    for (int read_later = 0; read_later < 2; read_later++) {
        ls_graph *g = new_graph();
        ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 16, 8)), dy = ls_input(g, "dy", LS_TYPE(LS_F32, 16, 4));
        g->phase = LS_PHASE_BACKWARD;
        ls_value head = ls_linear_dw(g, dy, x, false), late = ls_linear_dw(g, ls_relu(g, dy), x, false);
        ls_value parts[2] = { ls_fill(g, LS_TYPE(LS_F32, 16), 0), ls_reshape(g, ls_add(g, head, late), 32) };
        ls_output_of(g, GRADIENT, "flat", ls_pack(g, 2, parts, 0, 48, (int64_t[]){ 0, 16 }));
        if (read_later)
            ls_output(g, "y", ls_exp(g, head));
        ls_plan *p = plan_of(g);
        const ls_location *flat = place_of(p, "pack", 0), *sum = place_of(p, "add", 0),
                          *first = place_of(p, "linear_dw", 0), *second = place_of(p, "linear_dw", 1);
        assert_int_equal(sum->alloc, flat->alloc);
        assert_int_equal(sum->offset, 64);
        const ls_location *in_place = read_later ? second : first, *elsewhere = read_later ? first : second;
        assert_int_equal(in_place->alloc, flat->alloc);
        assert_int_equal(in_place->offset, 64);
        assert_int_not_equal(elsewhere->alloc, flat->alloc);
        release(p, g);
    }
}

/* Another operand that looks at a part of the first one: it must not change while it is read. */
static void sums_with_themselves(void **state)
{
    (void)state;
    ls_graph *g = new_graph();
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 16, 8)), dy = ls_input(g, "dy", LS_TYPE(LS_F32, 16, 4));
    ls_value dw = ls_linear_dw(g, dy, x, false), sum = ls_add(g, dw, ls_slice(g, dw, 0, 0, 1));
    ls_output_of(g, GRADIENT, "flat",
                 ls_pack(g, 1, (ls_value[]){ ls_reshape(g, sum, 32) }, 0, 32, (int64_t[]){ 0 }));
    ls_plan *p = plan_of(g);
    assert_int_equal(place_of(p, "add", 0)->alloc, place_of(p, "pack", 0)->alloc);
    assert_int_not_equal(place_of(p, "linear_dw", 0)->alloc, place_of(p, "pack", 0)->alloc);
    release(p, g);
}

static ls_value adam(ls_graph *g, ls_value p, ls_value grad, ls_value m, ls_value v, ls_value step,
                     ls_value lr)
{
    const ls_adam_attrs a = { .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 };
    ls_value in[8] = { p, grad, m, v, step, lr };
    return ls_graph_apply(g, &ls_op_adam, 8, in, &a);
}

/* Updates happen in the state's own memory; outputs that are updated state stay there. Flat state: two
 * ranges, two updates. */
static void state_in_place(void **state)
{
    (void)state;
    ls_graph *g = new_graph();
    const ls_type flat = LS_TYPE(LS_F32, 64), part = LS_TYPE(LS_F32, 4, 8);
    ls_value w = ls_param(g, "w", flat, (ls_init){ 0 }), m = ls_state(g, "m", flat, (ls_init){ 0 }),
             v = ls_state(g, "v", flat, (ls_init){ 0 });
    ls_value step = ls_state(g, "step", LS_SCALAR(LS_I64), (ls_init){ 0 }),
             lr = ls_input(g, "lr", LS_SCALAR(LS_F64));
    g->phase = LS_PHASE_UPDATE;
    ls_value now = ls_graph_apply(g, &ls_op_count_step, 2, (ls_value[]){ step, LS_NONE }, NULL);
    ls_value up[2];
    for (int i = 0; i < 2; i++) {
        ls_value grad = ls_input_of(g, (ls_identity){ .what = LS_IS_GRADIENT, .unit = i }, i ? "1" : "0",
                                    part);
        up[i] = adam(g, ls_flat_view(g, w, 32 * i, &part), grad, ls_flat_view(g, m, 32 * i, &part),
                     ls_flat_view(g, v, 32 * i, &part), now, lr);
    }
    ls_output(g, "w.0", up[0]);
    ls_plan *p = plan_of(g);
    assert_int_equal(p->n_steps, 3);
    assert_int_equal(arena_allocs(p), 0);
    assert_int_equal(p->state_bytes, 3 * 256 + 64);
    for (int i = 0; i < 2; i++) {
        assert_ptr_equal(&p->allocs[place_of(p, "adam", i)->alloc], alloc_named(p, "w"));
        assert_int_equal(place_of(p, "adam", i)->offset, 128 * i);
    }
    assert_int_equal(alloc_named(p, "m")->category, LS_CAT_OPTIMIZER);
    assert_int_equal(alloc_named(p, "w")->category, LS_CAT_PARAMETERS);
    assert_int_equal(alloc_named(p, "grad.0")->category, LS_CAT_GRADIENTS);
    assert_null(alloc_named(p, "w.0"));
    release(p, g);
}

/* Reading a parameter under its old name after its update is refused, and a cast of it that waits is run
 * before the update. */
static void old_state_is_gone(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        ls_graph *g = new_graph();
        const ls_type t = LS_TYPE(LS_F32, 16);
        ls_value w = ls_param(g, "w", t, (ls_init){ 0 }), m = ls_state(g, "m", t, (ls_init){ 0 }),
                 v = ls_state(g, "v", t, (ls_init){ 0 });
        ls_value step = ls_state(g, "step", LS_SCALAR(LS_I64), (ls_init){ 0 }),
                 lr = ls_input(g, "lr", LS_SCALAR(LS_F64));
        ls_value grad = ls_input(g, "grad", t), old = ls_cast(g, w, LS_BF16);
        ls_value new = adam(g, w, grad, m, v, step, lr);
        ls_output(g, "new", ls_exp(g, new));
        ls_output(g, "old", late ? ls_exp(g, w) : ls_exp(g, old));
        if (late) {
            ls_plan *p;
            assert_int_equal(ls_plan_create(&p, g, &DEVICE, NULL), LS_E_UNSUPPORTED);
            ASSERT_CONTAINS(ls_error_message(), "adam");
            ASSERT_CONTAINS(ls_error_message(), "test_plan.c:");
            assert_null(p);
            ls_graph_destroy(&g);
        } else {
            ls_plan *p = plan_of(g);
            assert_string_equal(p->graph->nodes[p->steps[0].node]->op->name, "cast");
            release(p, g);
        }
    }
}

/* An output named like an input replaces it: in place where the op may, else by a copy at the end. */
static void replaced_inputs(void **state)
{
    (void)state;
    for (int in_place = 0; in_place < 2; in_place++) {
        ls_graph *g = new_graph();
        ls_value acc = ls_input(g, "acc", LS_TYPE(LS_F32, 4, 8)), x = ls_input(g, "x", LS_TYPE(LS_F32, 4, 8));
        ls_output(g, "acc", ls_add(g, acc, x));
        if (!in_place)
            ls_output(g, "later", ls_exp(g, acc));
        ls_plan *p = plan_of(g);
        assert_int_equal(count_steps(p, "copy"), !in_place);
        const int out = p->graph->outputs[0].value.id;
        assert_ptr_equal(&p->allocs[p->locations[out].alloc], alloc_named(p, "acc"));
        assert_int_equal(place_of(p, "add", 0)->alloc == p->locations[out].alloc, in_place);
        release(p, g);
    }
}

/* Parts of a pack that replaces a source are computed in the source's memory, but not where the kernel still
 * reads the old numbers while it writes the new ones. */
static void parts_in_a_source(void **state)
{
    (void)state;
    ls_graph *g = new_graph();
    const ls_type flat = LS_TYPE(LS_F32, 64), square = LS_TYPE(LS_F32, 4, 8);
    ls_value w = ls_param(g, "w", flat, (ls_init){ 0 }), first = ls_flat_view(g, w, 0, &square),
             second = ls_flat_view(g, w, 32, &square);
    ls_value turned = ls_reshape(g, ls_permute(g, first, 1, 0), 32), from_second = ls_exp(g, second);
    ls_value other = ls_reshape(g, ls_permute(g, from_second, 1, 0), 32);
    ls_output(g, "w", ls_pack(g, 2, (ls_value[]){ turned, other }, 0, 64, (int64_t[]){ 0, 32 }));
    ls_plan *p = plan_of(g);
    const int memory = place_of(p, "pack", 0)->alloc;
    assert_ptr_equal(&p->allocs[memory], alloc_named(p, "w"));
    assert_int_not_equal(place_of(p, "permute", 0)->alloc, memory); /* it reads what it would overwrite */
    assert_int_equal(place_of(p, "permute", 1)->alloc, memory);
    assert_int_equal(place_of(p, "permute", 1)->offset, 128);
    release(p, g);
}

/* Constants, casts of parameters and recompute clones are made where they are needed; nodes that nothing
 * needs are not run. */
static void lazy_nodes(void **state)
{
    (void)state;
    ls_graph *g = new_graph();
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 256)),
             w = ls_param(g, "w", LS_TYPE(LS_F32, 256), (ls_init){ 0 });
    ls_value one = ls_fill(g, LS_TYPE(LS_F32, 256), 1.0), c = ls_cast(g, w, LS_BF16);
    ls_exp(g, x); /* dead */
    ls_value h = ls_exp(g, x);
    for (int i = 0; i < 3; i++)
        h = ls_exp(g, h);
    ls_output(g, "y", ls_exp(g, ls_mul(g, h, one)));
    ls_output(g, "z", ls_exp(g, c));
    ls_plan *p = plan_of(g);
    const char *want[] = { "exp", "exp", "exp", "exp", "fill", "mul", "exp", "cast", "exp" };
    assert_int_equal(p->n_steps, 9);
    for (int i = 0; i < 9; i++)
        assert_string_equal(p->graph->nodes[p->steps[i].node]->op->name, want[i]);
    for (int i = 0; i < p->n_allocs; i++)
        if (p->allocs[i].value == value_of(p, "cast", 0))
            assert_int_equal(p->allocs[i].category, LS_CAT_PARAMETERS);
    release(p, g);
}

static void refusals(void **state)
{
    (void)state;
    ls_plan *p;
    ls_graph *g = new_graph();
    ls_scope_push(g, "block", "");
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F64, 8));
    ls_output(g, "y", ls_add(g, x, x));
    ls_scope_pop(g);
    assert_int_equal(ls_plan_create(&p, g, &DEVICE, NULL), LS_E_UNSUPPORTED);
    const char *parts[] = { "add(f64 [8], f64 [8])", "test_plan.c:", "block", "f64 is for device ref",
                            "test" };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        ASSERT_CONTAINS(ls_error_message(), parts[i]);
    ls_graph_destroy(&g);

    g = new_graph();
    ls_output(g, "y", ls_tanh(g, ls_input(g, "x", LS_TYPE(LS_F32, 8))));
    ASSERT_FAILS(ls_plan_create(&p, g, &DEVICE, NULL), LS_E_UNSUPPORTED, "tanh", "no kernel");
    ls_graph_destroy(&g);

    g = new_graph();
    ls_output(g, "x", ls_slice(g, ls_exp(g, ls_input(g, "x", LS_TYPE(LS_F32, 8))), 0, 0, 4));
    ASSERT_FAILS(ls_plan_create(&p, g, &DEVICE, NULL), LS_E_SHAPE, "\"x\"", "f32 [4]", "f32 [8]");
    ls_graph_destroy(&g);
}

/* ls_plan_check sees an overlap that is put there on purpose. */
static void check_finds_overlap(void **state)
{
    (void)state;
    ls_graph *g = new_graph();
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 16, 16)), a = ls_exp(g, x), b = ls_exp(g, x);
    ls_output(g, "y", ls_permute(g, ls_mul(g, a, b), 1, 0));
    ls_plan *p = plan_of(g);
    p->allocs[place_of(p, "exp", 1)->alloc].offset = p->allocs[place_of(p, "exp", 0)->alloc].offset + 64;
    p->arena_bytes += 4096;
    ASSERT_FAILS(ls_plan_check(p), LS_E_INTERNAL, "overlaps", "exp");
    release(p, g);
}

static uint64_t seed = 12345;
static int below(int n)
{
    return (int)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33) % n;
}

/* Random graphs over every mechanism at once. */
static void random_graphs(void **state)
{
    (void)state;
    for (int round = 0; round < 60; round++) {
        ls_graph *g = new_graph();
        ls_value pool[40];
        int n = 0;
        pool[n++] = ls_input(g, "x", LS_TYPE(LS_F32, 4, 6));
        pool[n++] = ls_param(g, "w", LS_TYPE(LS_F32, 4, 6), (ls_init){ 0 });
        while (n < 38) {
            ls_value a = pool[below(n)], b = pool[below(n)], out;
            switch (below(8)) {
            case 0: out = ls_add(g, a, b); break;
            case 1: out = ls_mul(g, a, b); break;
            case 2: out = ls_relu(g, a); break;
            case 3: out = ls_exp(g, a); break;
            case 4: out = ls_reshape(g, ls_exp(g, ls_reshape(g, a, 24)), 4, 6); break;
            case 5: { /* rows of both */
                ls_value two[2] = { ls_slice(g, a, 0, below(3), 2), ls_slice(g, b, 0, below(3), 2) };
                out = ls_concat(g, 0, 2, two);
                break;
            }
            case 6: { /* columns of a pack of fresh values */
                ls_value two[2] = { ls_relu(g, a), ls_add(g, a, b) };
                out = ls_slice(g, ls_concat(g, 1, 2, two), 1, below(7), 6);
                break;
            }
            default: { /* pack of packs */
                ls_value two[2] = { ls_relu(g, a), b }, inner = ls_concat(g, 0, 2, two);
                ls_value three[2] = { ls_exp(g, inner), inner };
                out = ls_slice(g, ls_concat(g, 1, 2, three), 0, below(5), 4);
                out = ls_slice(g, out, 1, below(7), 6);
                break;
            }
            }
            pool[n++] = out;
        }
        ls_output(g, "a", ls_exp(g, pool[n - 1]));
        ls_output(g, "b", pool[n - 2]);
        ls_output(g, "c", pool[n - 3]);
        ls_plan *p = plan_of(g);
        assert_true(p->arena_bytes >= p->live_peak_bytes);
        release(p, g);
    }
}

/* The lowest free bytes among lifetimes on any side of each other: those that a look at all of them finds. */
static void lowest_free_bytes(void **state)
{
    (void)state;
    enum { RANGES = 400 };
    struct {
        int first, last;
        size_t begin, end;
    } r[RANGES];
    const int schedules[] = { 1, 2, 3, 64, 100, 1000 };
    for (int k = 0; k < 6; k++) {
        const int steps = schedules[k];
        ls_occupied o;
        ASSERT_OK(ls_occupied_init(&o, steps));
        for (int i = -RANGES; i < RANGES; i++) {
            const int n = i < 0 ? i + RANGES : i, first = below(steps), most = below(4) ? 5 : steps;
            const int last = first + below(most < steps - first ? most : steps - first);
            const size_t size = (size_t)(1 + below(below(8) ? 4 : 40));
            size_t lowest = 0;
            for (int x = 0; x < n; x++) /* (starts again behind each range that is in the way) */
                if (r[x].first <= last && first <= r[x].last && r[x].begin < lowest + size &&
                    lowest < r[x].end) {
                    lowest = r[x].end;
                    x = -1;
                }
            assert_int_equal(ls_occupied_lowest(&o, first, last, size), lowest);
            r[n].first = first;
            r[n].last = last;
            r[n].begin = lowest + (below(3) ? 0 : (size_t)below(9)); /* perhaps over others */
            r[n].end = r[n].begin + size;
            ASSERT_OK(ls_occupied_add(&o, first, last, r[n].begin, r[n].end));
            if (i == -1)
                ls_occupied_clear(&o);
        }
        ls_occupied_release(&o);
    }
}

/* Large-first fills an arena without a gap for most lifetimes; where it does not, the other orders may.
 * Nothing that lives at once overlaps. */
static void several_orders_of_packing(void **state)
{
    (void)state;
    enum { PLANS = 300, ALLOCS = 9, STEPS = 8 };
    uint64_t x = 1;
    int perfect = 0;
    for (int k = 0; k < PLANS; k++) {
        ls_alloc allocs[ALLOCS];
        for (int i = 0; i < ALLOCS; i++) {
            uint64_t draw[3];
            for (int d = 0; d < 3; d++)
                draw[d] = (x = x * 6364136223846793005u + 1442695040888963407u) >> 33;
            const int first = (int)(draw[0] % STEPS), last = first + (int)(draw[1] % 4);
            allocs[i] = (ls_alloc){ .memory = LS_MEM_ARENA,
                                    .value = -1,
                                    .bytes = LS_ALIGN * (1 + draw[2] % 7),
                                    .first = first,
                                    .last = last < STEPS ? last : STEPS - 1 };
        }
        ls_plan p = { .allocs = allocs, .n_allocs = ALLOCS, .n_steps = STEPS };
        ls_arena_init(&p.arena);
        ls_planner_pack_arena(&p);
        for (int i = 0; i < ALLOCS; i++) {
            assert_true(allocs[i].offset + allocs[i].bytes <= p.arena_bytes);
            for (int j = 0; j < i; j++) {
                const ls_alloc *a = &allocs[i], *b = &allocs[j];
                assert_true(a->first > b->last || b->first > a->last || a->offset >= b->offset + b->bytes ||
                            b->offset >= a->offset + a->bytes);
            }
        }
        assert_true(p.arena_bytes >= p.live_peak_bytes);
        perfect += p.arena_bytes == p.live_peak_bytes;
        ls_arena_release(&p.arena);
    }
    assert_true(perfect >= 286); /* 288; with the first order alone 268, with two 283 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peak_by_hand),
        cmocka_unit_test(memory_is_reused),
        cmocka_unit_test(in_place_needs_the_whole),
        cmocka_unit_test(sums_in_place),
        cmocka_unit_test(sums_with_themselves),
        cmocka_unit_test(state_in_place),
        cmocka_unit_test(old_state_is_gone),
        cmocka_unit_test(replaced_inputs),
        cmocka_unit_test(parts_in_a_source),
        cmocka_unit_test(lazy_nodes),
        cmocka_unit_test(refusals),
        cmocka_unit_test(check_finds_overlap),
        cmocka_unit_test(lowest_free_bytes),
        cmocka_unit_test(several_orders_of_packing),
        cmocka_unit_test(random_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
