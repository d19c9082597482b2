/* test_redistribute.c - every cell of the table of redistributions: the result, put together, is the input;
 * the gradient with the source's placement is the given one with the target's placement. Exact, in f64, on 2
 * and 4 ranks. */
#include <stdio.h>
#include <string.h>

#include "passes/autodiff.h"
#include "lockstep/nn.h"
#include "ops/rules.h"
#include "passes/over_ranks.h"
#include "support/ranks.h"
#include "support/support.h"

static const ls_type WHOLE = { LS_F64, 3, { 4, 8, 12 } };
enum { COUNT = 4 * 8 * 12 };

typedef struct cell {
    ls_placement from, to;
} cell;

/* How the gradient of a value lies that is placed so. */
static ls_placement of_gradient(ls_placement p)
{
    p.kind = p.kind == LS_REPLICATE ? LS_PARTIAL : p.kind == LS_PARTIAL ? LS_REPLICATE : p.kind;
    return p;
}

/* What this rank has of `whole`; of Partial a term, and the terms of all ranks add up to it. */
static void place(double *out, const double *whole, ls_placement p, const ls_shard_axis *axis, uint64_t seed)
{
    block_of(out, whole, &WHOLE, p, axis);
    for (int r = 0; p.kind == LS_PARTIAL && r < axis->ranks; r++) {
        double term[COUNT];
        fill_exact(term, COUNT, seed + (uint64_t)r);
        for (int i = 0; i < COUNT; i++) { /* rank r gives this to the next */
            out[i] = r == 0 && axis->position > 0 ? 0 : out[i];
            out[i] += axis->position == r ? -term[i] : axis->position == (r + 1) % axis->ranks ? term[i] : 0;
        }
    }
}

static ls_status sum_of_ranks(ls_group *g, double *v)
{
    double all[8 * COUNT];
    LS_TRY(ls_group_all_gather(g, v, sizeof(double) * COUNT, all));
    memset(v, 0, sizeof(double) * COUNT);
    for (int r = 0; r < ls_group_size(g); r++)
        for (int i = 0; i < COUNT; i++)
            v[i] += all[r * COUNT + i];
    return LS_OK;
}

static ls_status expect(ls_group *g, double *is, const double *whole, ls_placement p,
                        const ls_shard_axis *axis, const char *what)
{
    double want[COUNT];
    ls_type mine;
    char text[32];
    ls_placed_type(&mine, &WHOLE, p, axis);
    block_of(want, whole, &WHOLE, p, axis);
    if (p.kind == LS_PARTIAL)
        LS_TRY(sum_of_ranks(g, is));
    for (int64_t i = 0; i < ls_type_count(&mine); i++)
        if (is[i] != want[i])
            return ls_fail(LS_E_INTERNAL, "%s, which is %s: rank %d has %g for %g in element %lld", what,
                           ls_placement_text(text, p), axis->position, is[i], want[i], (long long)i);
    return LS_OK;
}

static ls_status one_rank(ls_group *group, void *context)
{
    const cell *c = context;
    const ls_shard_axis axis = { "tp", ls_group_size(group), ls_group_rank(group), 0, 1 };
    double x[COUNT], dy[COUNT], mine[COUNT], given[COUNT], y[COUNT], dx[COUNT];
    fill_exact(x, COUNT, 1);
    fill_exact(dy, COUNT, 2);
    place(mine, x, c->from, &axis, 10);
    place(given, dy, of_gradient(c->to), &axis, 20);
    ls_type type;
    ls_graph *g;
    ls_placed_type(&type, &WHOLE, c->from, &axis);
    LS_TRY(ls_graph_create(&g, "cell"));
    ls_value in = ls_input(g, "x", type), out = ls_redistribute(g, in, &WHOLE, c->from, c->to, &axis, "here");
    ls_value weight = ls_input(g, "dy", ls_value_type(g, out)),
             loss = ls_sum_to(g, ls_mul(g, out, weight), 0, NULL), gradient = LS_NONE;
    ls_status s = ls_graph_status(g);
    if (s == LS_OK)
        s = ls_backward(g, loss, ls_fill(g, LS_SCALAR(LS_F64), 1), 1, &in, &gradient);
    ls_output(g, "y", out);
    ls_output(g, "dx", gradient);
    if (s == LS_OK)
        s = run_over_ranks(group, g, (feed[]){ { "x", mine }, { "dy", given }, { 0 } },
                           (double *const[]){ y, dx });
    ls_graph_destroy(&g);
    LS_TRY(s);
    LS_TRY(expect(group, y, x, c->to, &axis, "the value"));
    return expect(group, dx, dy, of_gradient(c->from), &axis, "the gradient");
}

static bool exists(ls_placement from, ls_placement to)
{
    if (from.kind == LS_INVARIANT || from.kind == LS_PARTIAL)
        return true;
    if (from.kind == LS_REPLICATE)
        return to.kind != LS_INVARIANT;
    return to.kind == LS_REPLICATE || to.kind == LS_INVARIANT ||
           (to.kind == LS_SHARD && from.dim == to.dim && from.dims == to.dims);
}

static void every_cell(void **state)
{
    (void)state;
    const ls_placement all[] = { { LS_INVARIANT, 0, 0 }, { LS_REPLICATE, 0, 0 }, LS_SHARDED(0),
                                 LS_SHARDED(1),          LS_SHARDED(2),          LS_ROWS_SHARDED(2),
                                 LS_ROWS_SHARDED(3),     { LS_PARTIAL, 0, 0 } };
    const int n = sizeof all / sizeof *all;
    int there = 0;
    for (int ranks = 2; ranks <= 4; ranks += 2)
        for (int i = 0; i < n; i++)
            for (int k = 0; k + 1 < n; k++) { /* nothing becomes Partial */
                char a[32], b[32];
                const cell c = { all[i], all[k] };
                const ls_status s = run_ranks(ranks, one_rank, (void *)&c);
                if (exists(c.from, c.to)
                        ? s != LS_OK
                        : s != LS_E_UNSUPPORTED || !strstr(ls_error_message(), "there is no way from"))
                    fail_msg("%s to %s on %d ranks: %s", ls_placement_text(a, c.from),
                             ls_placement_text(b, c.to), ranks, s ? ls_error_message() : "there is a way");
                there += s == LS_OK;
            }
    assert_int_equal(there, 2 * (7 + 7 + 6 + 5 + 5 + 5));
}

static void blocks_are_equal(void **state)
{
    (void)state;
    ls_graph *g;
    ls_type mine;
    const ls_shard_axis three = { "tp", 3, 1, 0, 1 };
    assert_false(ls_placed_type(&mine, &WHOLE, LS_SHARDED(1), &three));
    assert_true(ls_placed_type(&mine, &WHOLE, LS_SHARDED(2), &three));
    assert_int_equal(mine.dims[2], 4);
    ASSERT_OK(ls_graph_create(&g, "three"));
    ls_redistribute(g, ls_input(g, "x", WHOLE), &WHOLE, (ls_placement){ LS_INVARIANT, 0, 0 }, LS_SHARDED(1),
                    &three, "");
    ASSERT_FAILS(ls_graph_status(g), LS_E_USAGE,
                 "f64 [4, 8, 12] cannot become Shard(1): the 3 ranks of axis tp do not divide it");
    ls_graph_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_cell), cmocka_unit_test(blocks_are_equal) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
