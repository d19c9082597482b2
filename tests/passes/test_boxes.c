/* test_boxes.c - the box of a node's operand in its whole tensor (ls_graph.at): slices and splits compose,
 * every pass keeps it, and random masks are those of the whole tensor. */
#include <stdlib.h>
#include <string.h>

#include "lockstep/nn.h"
#include "ops/rules.h"
#include "passes/autodiff.h"
#include "passes/evaluate.h"
#include "passes/over_ranks.h"
#include "passes/propagate.h"
#include "support/ranks.h"
#include "support/support.h"

enum { B = 4, T = 6, F = 8, FROM = 2, ROWS = 3 };

/* Rows FROM and on of what a dropout leaves of parameter x (plus that). */
static ls_graph *sliced(ls_dtype type, bool residual)
{
    ls_graph *g;
    ls_value dropped;
    ASSERT_OK(ls_graph_create(&g, "boxes"));
    const ls_value x = ls_param(g, "x", LS_TYPE(type, B, T, F), (ls_init){ 0 });
    {
        LS_SCOPE(g, "block", "Block");
        const ls_value h = ls_tanh(g, x);
        dropped = ls_dropout(g, "drop", h, 0.4);
        dropped = ls_tanh(g, residual ? ls_add(g, dropped, h) : dropped);
        ls_output(g, "y", ls_slice(g, dropped, 1, FROM, ROWS));
    }
    ls_output(g, "loss", ls_sum_to(g, ls_slice(g, dropped, 1, FROM, ROWS), 0, NULL));
    return g;
}

/* x is split in dimension `dim` over axis.ranks. */
static ls_status split(ls_graph **g, int dim, const ls_shard_axis *axis)
{
    const ls_parallel p = { LS_PARALLEL_DEFAULTS, .mesh = { .n = 1, .axes = { { "tp", axis->ranks } } },
                            .rank = axis->position };
    ls_seed seeds[32] = { { 0 } };
    ls_placement placed[4];
    for (int i = 0; i < (*g)->n_nodes; i++)
        if ((*g)->nodes[i]->op == &ls_op_param)
            seeds[(*g)->nodes[i]->out[0].id] = (ls_seed){ "colwise:x", dim, 1 };
    return ls_propagate(g, &p, seeds, axis, placed);
}

/* How many nodes of the op are at `box`; -1 when one is elsewhere. */
static int count_at(const ls_graph *g, const ls_op *op, const ls_box *box)
{
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *node = g->nodes[i];
        if (node->op == op && (!node->at || !ls_box_equal(node->at, box)))
            return -1;
        n += node->op == op;
    }
    return n;
}

static ls_box rows_of_columns(int position)
{
    ls_box box = ls_box_of(&LS_TYPE(LS_F32, B, T, F));
    ls_box_slice(&box, 1, FROM, ROWS);
    assert_true(ls_box_split(&box, 2, 2, position));
    return box;
}

/* As a trainer compiles it, in bf16: the op, its gradient and its clone have one box, whatever passes put
 * around them. */
static void every_pass_keeps_it(void **state)
{
    (void)state;
    ls_graph *g = sliced(LS_F32, true);
    ls_units u;
    const ls_box box = rows_of_columns(1);
    const ls_parallel p = { LS_PARALLEL_DEFAULTS };
    ASSERT_OK(ls_pass_slices_up(&g));
    ASSERT_OK(split(&g, 2, &(ls_shard_axis){ .name = "tp", .ranks = 2, .each = 1, .position = 1 }));
    assert_int_equal(count_at(g, &ls_op_dropout, &box), 1);
    ASSERT_OK(ls_pass_units(&g, &(ls_precision){ LS_PRECISION_DEFAULTS, .param = LS_BF16 }, &p, NULL, &u));
    ls_value grad;
    const ls_value loss = g->outputs[g->n_outputs - 1].value;
    ASSERT_OK(ls_backward(g, loss, ls_fill(g, ls_value_type(g, loss), 1), 1, &u.units[0].use, &grad));
    assert_null(g->at);
    ls_output(g, "grad", grad);
    assert_int_equal(count_at(g, &ls_op_dropout, &box), 2);
    ASSERT_OK(ls_pass_recompute(&g, "class:Block"));
    ASSERT_OK(ls_pass_cse(&g));
    ASSERT_OK(ls_pass_fuse(&g));
    assert_int_equal(count_at(g, &ls_op_dropout, &box), 3);
    assert_int_equal(count_ops(g, "add"), 0); /* joined to dropout, and to what is fused */
    ASSERT_OK(ls_graph_verify(g));
    char *text = ls_graph_print(g, false);
    assert_non_null(strstr(text, "  at=[4, 2..4 of 6, 4..7 of 8]    bf16 [4, 3, 4]\n"));
    free(text);
    ls_units_release(&u);
    ls_graph_destroy(&g);
}

/* Equal ops on equal operands with different boxes are two. */
static void common_subexpressions_have_one_box(void **state)
{
    (void)state;
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "cse"));
    const ls_type t = LS_TYPE(LS_F32, 2, 3, 8);
    const ls_value x = ls_input(g, "x", t);
    ls_box box[2] = { ls_box_of(&t), ls_box_of(&t) };
    for (int k = 0; k < 2; k++)
        box[k].whole[2] = 16;
    box[1].start[2] = 8;
    for (int k = 0; k < 5; k++) {
        g->at = k < 4 ? &box[k % 2] : NULL;
        const char *const names[] = { "a", "b", "c", "d", "e" };
        ls_output(g, names[k], ls_attention(g, x, x, x, LS_NONE, 4, 1, false));
    }
    g->at = &box[1];
    const ls_node *n = ls_node_of(g, ls_tanh(g, x)); /* asks for no box */
    assert_null(n->at);
    ASSERT_OK(ls_pass_cse(&g));
    assert_int_equal(count_ops(g, "attention"), 3);
    ls_graph_destroy(&g);
}

static void a_box_fits_its_operand(void **state)
{
    (void)state;
    static const struct {
        int ndim;
        int64_t whole, start, size;
    } cases[] = { { 2, 16, 0, 8 }, { 3, 16, 0, 4 }, { 3, 16, 9, 8 }, { 3, 16, -1, 8 } };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ls_graph *g;
        ASSERT_OK(ls_graph_create(&g, "refused"));
        const ls_type t = LS_TYPE(LS_F32, 2, 3, 8);
        const ls_value x = ls_input(g, "x", t);
        ls_box box = ls_box_of(&t);
        box.ndim = cases[k].ndim;
        box.whole[2] = cases[k].whole;
        box.start[2] = cases[k].start;
        box.size[2] = cases[k].size;
        g->at = &box;
        assert_int_equal(ls_attention(g, x, x, x, LS_NONE, 4, 1, false).id, -1);
        ASSERT_FAILS(ls_graph_status(g), LS_E_SHAPE, "attention", "box in the whole tensor");
        ls_graph_destroy(&g);
    }
}

typedef struct trial {
    double x[B * T * F], places[2], seed[1], step[1], want[B * T * F];
} trial;

static void feeds_of(feed f[5], const trial *t, const double *x)
{
    f[0] = (feed){ "x", x };
    f[1] = (feed){ "random_seed", t->seed };
    f[2] = (feed){ "step", t->step };
    f[3] = (feed){ "sample_places", t->places };
    f[4] = (feed){ 0 };
}

static ls_status whole(ls_group *group, void *context)
{
    trial *t = context;
    feed feeds[5];
    ls_graph *g;
    LS_TRY(ls_graph_create(&g, "whole"));
    const ls_value x = ls_param(g, "x", LS_TYPE(LS_F64, B, T, F), (ls_init){ 0 });
    {
        LS_SCOPE(g, "block", "Block");
        ls_output(g, "y", ls_tanh(g, ls_dropout(g, "drop", ls_tanh(g, x), 0.4)));
    }
    feeds_of(feeds, t, t->x);
    const ls_status s = run_over_ranks(group, g, feeds, (double *[]){ t->want });
    ls_graph_destroy(&g);
    return s;
}

/* A slice of a dropout, split in samples over one axis and in columns over another. */
static ls_status one_of_four(ls_group *g, void *context)
{
    const trial *t = context;
    const int rank = ls_group_rank(g);
    const ls_type all = LS_TYPE(LS_F64, B, T, F);
    ls_box mine = ls_box_of(&all), place;
    double x[B * T * F], y[B * T * F], loss;
    feed feeds[5];
    RANK_CHECK(ls_box_split(&mine, 0, 2, rank / 2) && ls_box_split(&mine, 2, 2, rank % 2));
    for (int64_t i = 0; i < ls_box_count(&mine); i++)
        x[i] = t->x[ls_box_run(&mine, i, NULL)];
    place = mine;
    ls_box_slice(&place, 1, FROM, ROWS);

    ls_graph *m = sliced(LS_F64, false);
    LS_TRY(ls_pass_slices_up(&m));
    m->n_outputs--; /* the loss would be summed over the ranks */
    LS_TRY(split(&m, 0, &(ls_shard_axis){ .name = "samples", .ranks = 2, .each = 1, .position = rank / 2 }));
    LS_TRY(split(
        &m, 2,
        &(ls_shard_axis){ .name = "columns", .ranks = 2, .each = 1, .position = rank % 2, .number = 1 }));
    RANK_CHECK(count_at(m, &ls_op_dropout, &place) == 1);
    feeds_of(feeds, t, x);
    LS_TRY(run_over_ranks(g, m, feeds, (double *[]){ y, &loss }));
    for (int64_t i = 0; i < ls_box_count(&place); i++)
        RANK_CHECK(y[i] == t->want[ls_box_run(&place, i, NULL)]);
    ls_graph_destroy(&m);
    return LS_OK;
}

static void masks_are_those_of_the_whole(void **state)
{
    (void)state;
    trial t = { .places = { 5, 3 }, .seed = { 7 }, .step = { 11 } };
    int dropped = 0;
    fill_exact(t.x, B * T * F, 3);
    for (int i = 0; i < B * T * F; i++)
        t.x[i] = t.x[i] == 0 ? 1 : t.x[i];
    ASSERT_OK(run_ranks(1, whole, &t));
    for (int i = 0; i < B * T * F; i++)
        dropped += t.want[i] == 0;
    assert_in_range(dropped, B * T * F / 5, B * T * F / 5 * 3);
    ASSERT_OK(run_ranks(4, one_of_four, &t));
}

/* Under a causal mask the ranks that split tokens have the same work: one chunk from each end. Every query is
 * on one rank. Without a mask a rank has one block. */
static void tokens_are_dealt_evenly(void **state)
{
    (void)state;
    enum { RANKS = 4, TOKENS = 16, WIDTH = 4 };
    for (int causal = 0; causal < 2; causal++) {
        int seen[TOKENS] = { 0 };
        for (int rank = 0; rank < RANKS; rank++) {
            const ls_parallel p = { LS_PARALLEL_DEFAULTS, .mesh = { .n = 1, .axes = { { "cp", RANKS } } },
                                    .rank = rank };
            ls_graph *g;
            int nodes = 0;
            int64_t work = 0;
            ASSERT_OK(ls_graph_create(&g, "tokens"));
            const ls_value ids = ls_input(g, "ids", LS_TYPE(LS_I32, 1, TOKENS)),
                           table = ls_param(g, "table", LS_TYPE(LS_F32, 9, WIDTH), (ls_init){ 0 }),
                           x = ls_embedding_op(g, ids, table);
            ls_output(g, "y", ls_attention(g, x, x, x, LS_NONE, WIDTH, 1, causal));
            ASSERT_OK(ls_pass_propagate(&g, &p));
            for (int i = 0; i < g->n_nodes; i++) {
                const ls_node *n = g->nodes[i];
                if (n->op != &ls_op_attention)
                    continue;
                nodes++;
                assert_non_null(n->at);
                for (int64_t t = n->at->start[1]; t < n->at->start[1] + n->at->size[1]; t++) {
                    seen[t]++;
                    work += t + 1;
                }
            }
            assert_int_equal(nodes, 1 + causal);
            assert_true(!causal || work == TOKENS * (TOKENS + 1) / 2 / RANKS);
            ls_graph_destroy(&g);
        }
        for (int t = 0; t < TOKENS; t++)
            assert_int_equal(seen[t], 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pass_keeps_it),     cmocka_unit_test(common_subexpressions_have_one_box),
        cmocka_unit_test(a_box_fits_its_operand),  cmocka_unit_test(masks_are_those_of_the_whole),
        cmocka_unit_test(tokens_are_dealt_evenly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
