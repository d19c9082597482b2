/* test_views.c - views in a plan: parts of another value, packs, strides, and the copies where a kernel
 * cannot follow. */
#include <string.h>

#include "lockstep/graph.h" /* before rules.h: with call sites */
#include "ops/rules.h"
#include "plan/internal.h"
#include "support/support.h"
#include "plan/planned.h"
#include "plan/tags.h"

/* In place only when every view of the operand is dead. */
static void views_keep_storage(void **state)
{
    (void)state;
    ls_graph *g = new_graph();
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 8, 8));
    ls_value a = ls_exp(g, x), top = ls_slice(g, a, 0, 0, 4);
    ls_value b = ls_exp(g, a); /* a as itself is dead here, but `top` is not */
    ls_output(g, "y", ls_exp(g, ls_add(g, ls_slice(g, b, 0, 4, 4), top)));
    ls_plan *p = plan_of(g);
    assert_int_not_equal(place_of(p, "exp", 1)->alloc, place_of(p, "exp", 0)->alloc);
    /* views wait for their reader: b's comes first */
    assert_int_equal(place_of(p, "slice", 0)->alloc, place_of(p, "exp", 1)->alloc);
    assert_int_equal(place_of(p, "slice", 1)->alloc, place_of(p, "exp", 0)->alloc);
    release(p, g);
}

/* Weight gradients land in the flat buffer, which is the output "grad.flat"; one pack with a gap runs
 * (zeros), one without is dropped. */
static void flat_gradients(void **state)
{
    (void)state;
    for (int gap = 0; gap < 2; gap++) {
        ls_graph *g = new_graph();
        ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 16, 8)), dy = ls_input(g, "dy", LS_TYPE(LS_F32, 16, 4));
        g->phase = LS_PHASE_BACKWARD;
        ls_value dw = ls_linear_dw(g, dy, x, true), db = ls_nth(g, dw, 1);
        ls_value parts[2] = { ls_reshape(g, dw, 32), db };
        ls_output_of(g, GRADIENT, "flat",
                     ls_pack(g, 2, parts, 0, gap ? 52 : 36, (int64_t[]){ 0, gap ? 48 : 32 }));
        ls_plan *p = plan_of(g);
        const ls_location *flat = place_of(p, "pack", 0), *w = place_of(p, "linear_dw", 0);
        assert_int_equal(w->alloc, flat->alloc);
        assert_int_equal(w->offset, 0);
        assert_int_equal(p->locations[value_of(p, "linear_dw", 0) + 1].offset, gap ? 192 : 128);
        assert_int_equal(p->allocs[flat->alloc].memory, LS_MEM_IO);
        assert_int_equal(p->allocs[flat->alloc].category, LS_CAT_GRADIENTS);
        assert_int_equal(count_steps(p, "pack"), gap);
        assert_int_equal(arena_allocs(p), 0);
        release(p, g);
    }
}

/* With gradients in the arena, a value that ends before a part of the gradient begins lies there. Of a
 * forward pass that keeps a, b and c, only a, which the last part needs, has memory beside the gradient. */
static void activations_lie_in_gradients(void **state)
{
    (void)state;
    enum { N = 64 * 64, BYTES = 4 * N };
    ls_graph *g = new_graph();
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 64, 64)), w = ls_input(g, "w", LS_TYPE(LS_F32, 64, 64));
    ls_value a = ls_matmul_wt(g, x, w, LS_NONE), b = ls_matmul_wt(g, a, w, LS_NONE),
             c = ls_matmul_wt(g, b, w, LS_NONE);
    g->phase = LS_PHASE_BACKWARD;
    ls_value third = ls_linear_dw(g, c, b, false), second = ls_linear_dw(g, third, b, false),
             first = ls_linear_dw(g, second, a, false);
    ls_value parts[3] = { ls_reshape(g, first, N), ls_reshape(g, second, N), ls_reshape(g, third, N) };
    ls_output_of(g, GRADIENT, "flat", ls_pack(g, 3, parts, 0, 3 * N, (int64_t[]){ 0, N, 2 * N }));
    ASSERT_OK(ls_graph_finish(g));
    for (int inside = 0; inside < 2; inside++) {
        ls_plan *p;
        ASSERT_OK(ls_plan_create(&p, g, &DEVICE, &(ls_plan_opts){ .gradients_in_arena = inside }));
        check_tags(p);
        assert_int_equal(p->arena_bytes, inside ? 4 * BYTES : 3 * BYTES + 1024); /* (of linear) */
        assert_int_equal(p->io_bytes, inside ? 2 * BYTES : 5 * BYTES);
        assert_int_equal(p->arena_bytes, p->live_peak_bytes);
        const ls_location *at = place_of(p, "pack", 0);
        assert_int_equal(p->allocs[at->alloc].memory, inside ? LS_MEM_GRADIENT : LS_MEM_IO);
        assert_int_equal(p->peak_by_category[LS_CAT_GRADIENTS], inside ? BYTES : 3 * BYTES);
        ls_plan_destroy(&p);
    }
    ls_graph_destroy(&g);
}

/* dq, dk, dv side by side: row-strided outputs where the kernel can, copies where not. */
static void strided_parts(void **state)
{
    (void)state;
    ls_graph *g = new_graph();
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 2, 3, 4));
    ls_value parts[4] = { ls_relu(g, x), ls_exp(g, x),
                          ls_reshape(g, ls_relu(g, ls_reshape(g, x, 6, 4)), 2, 3, 4),
                          ls_reshape(g, ls_relu(g, ls_reshape(g, x, 24)), 2, 3, 4) };
    ls_value packed = ls_concat(g, 2, 4, parts);
    ls_output(g, "y", ls_exp(g, packed));
    ls_plan *p = plan_of(g);
    const ls_location *whole = place_of(p, "pack", 0), *first = place_of(p, "relu", 0),
                      *third = place_of(p, "relu", 1);
    assert_int_equal(first->alloc, whole->alloc);
    assert_int_equal(first->offset, 0);
    assert_int_equal(first->strides[1], 16);
    assert_int_equal(first->strides[0], 48);
    assert_int_equal(third->alloc, whole->alloc);
    assert_int_equal(third->offset, 8 * sizeof(float));
    assert_int_equal(third->strides[0], 16);
    /* 24 in a row cannot be rows of 4, 16 apart */
    assert_int_not_equal(place_of(p, "relu", 2)->alloc, whole->alloc);
    /* exp writes contiguous only: pack copies this part */
    assert_int_not_equal(place_of(p, "exp", 0)->alloc, whole->alloc);
    assert_int_equal(count_steps(p, "pack"), 1);
    release(p, g);
}

/* A reader that needs contiguous memory gets a copy of a value that is computed strided. */
static void copies_for_the_strict(void **state)
{
    (void)state;
    ls_graph *g = new_graph();
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 6, 8));
    ls_value left = ls_slice(g, x, 1, 0, 4), top = ls_slice(g, x, 0, 1, 2);
    ls_output(g, "a", ls_relu(g, left)); /* takes rows */
    ls_output(g, "b", ls_exp(g, left));  /* does not */
    ls_output(g, "c", ls_exp(g, top));   /* contiguous anyway */
    ls_output(g, "d", ls_exp(g, ls_reshape(g, left, 24)));
    ls_plan *p = plan_of(g);
    assert_int_equal(count_steps(p, "copy"), 1); /* one contiguous twin serves both readers */
    release(p, g);
}

/* The class token [64, 1, 128] of [64, 17, 128]: the row stride must survive the size-1 dim that hides it. */
static void size_one_dims(void **state)
{
    (void)state;
    ls_graph *g = new_graph();
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 64, 17, 128));
    ls_value token = ls_slice(g, x, 1, 3, 1);
    ls_output(g, "y", ls_relu(g, token));
    ls_output(g, "z", ls_relu(g, ls_reshape(g, token, 64, 128)));
    ls_plan *p = plan_of(g);
    assert_int_equal(count_steps(p, "copy"), 0);
    const ls_location *at = place_of(p, "slice", 0);
    assert_int_equal(at->strides[0], 17 * 128);
    assert_int_equal(at->strides[1], 17 * 128);
    assert_int_equal(at->strides[2], 1);
    assert_int_equal(place_of(p, "reshape", 0)->strides[0], 17 * 128);
    release(p, g);
}

/* A pack of packs of reshapes: the innermost product is written at its final place. And a value wanted in two
 * packs has one home. */
static void nested_packs(void **state)
{
    (void)state;
    ls_graph *g = new_graph();
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 4, 4));
    ls_value a = ls_relu(g, x), b = ls_relu(g, a), c = ls_exp(g, x);
    ls_value ab[2] = { a, b };
    ls_value inner = ls_concat(g, 1, 2, ab); /* [4, 8], strided parts */
    ls_value parts[3] = { ls_reshape(g, c, 16), ls_reshape(g, inner, 32), ls_reshape(g, b, 16) };
    ls_output(g, "flat", ls_concat(g, 0, 3, parts));
    ls_plan *p = plan_of(g);
    const ls_location *flat = place_of(p, "pack", 1);
    assert_int_equal(place_of(p, "pack", 0)->alloc, flat->alloc);
    assert_int_equal(place_of(p, "pack", 0)->offset, 64);
    assert_int_equal(place_of(p, "relu", 0)->alloc, flat->alloc);
    assert_int_equal(place_of(p, "relu", 0)->offset, 64);
    assert_int_equal(place_of(p, "relu", 0)->strides[0], 8);
    assert_int_equal(place_of(p, "exp", 0)->offset, 0);
    /* b: at home in the outer pack, copied into the inner one */
    assert_int_equal(place_of(p, "relu", 1)->alloc, flat->alloc);
    assert_int_equal(place_of(p, "relu", 1)->offset, 192);
    release(p, g);
}

/* A part that is also an output, or a source, or updated state, keeps its own home. */
static void parts_with_homes(void **state)
{
    (void)state;
    ls_graph *g = new_graph();
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 16));
    ls_value a = ls_exp(g, x);
    ls_output(g, "a", a);
    ls_value parts[3] = { x, a, ls_exp(g, a) };
    ls_output(g, "y", ls_exp(g, ls_concat(g, 0, 3, parts)));
    ls_plan *p = plan_of(g);
    assert_ptr_equal(&p->allocs[place_of(p, "exp", 0)->alloc], alloc_named(p, "a"));
    assert_int_equal(place_of(p, "exp", 1)->alloc, place_of(p, "pack", 0)->alloc);
    assert_int_not_equal(place_of(p, "exp", 0)->alloc, place_of(p, "pack", 0)->alloc);
    assert_int_equal(count_steps(p, "pack"), 1);
    release(p, g);
}

/* A small piece of a large value as output is copied out, so the large one can die. */
static void partial_output(void **state)
{
    (void)state;
    ls_graph *g = new_graph();
    ls_value big = ls_exp(g, ls_input(g, "x", LS_TYPE(LS_F32, 1024)));
    ls_output(g, "y", ls_slice(g, big, 0, 5, 3));
    /* stays where it is */
    ls_output(g, "from_input", ls_slice(g, ls_input(g, "z", LS_TYPE(LS_F32, 8)), 0, 2, 4));
    ls_plan *p = plan_of(g);
    assert_int_equal(count_steps(p, "copy"), 1);
    assert_int_equal(alloc_named(p, "y")->bytes, 12);
    assert_null(alloc_named(p, "from_input"));
    release(p, g);
}

/* A value of which a part is an output is needed until the end: no value takes over its place in a pack. */
static void partial_output_of_a_part(void **state)
{
    (void)state;
    ls_graph *g = new_graph();
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 4, 6)), a = ls_relu(g, x),
             two[2] = { ls_relu(g, a), ls_relu(g, x) };
    ls_output(g, "whole", ls_exp(g, ls_concat(g, 0, 2, two)));
    ls_output(g, "part", ls_slice(g, a, 0, 0, 1));
    ls_plan *p = plan_of(g); /* (simulates it) */
    assert_int_equal(count_steps(p, "copy"), 1);
    release(p, g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_keep_storage),
        cmocka_unit_test(flat_gradients),
        cmocka_unit_test(strided_parts),
        cmocka_unit_test(copies_for_the_strict),
        cmocka_unit_test(size_one_dims),
        cmocka_unit_test(nested_packs),
        cmocka_unit_test(parts_with_homes),
        cmocka_unit_test(partial_output),
        cmocka_unit_test(partial_output_of_a_part),
        cmocka_unit_test(activations_lie_in_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
