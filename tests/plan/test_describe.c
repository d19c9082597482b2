/* test_describe.c - descriptions of plans for people: their numbers and words are those of the plan, and the
 * JSON can be read. */
#include <stdlib.h>
#include <string.h>

#include "lockstep/graph.h"
#include "ops/rules.h"
#include "plan/describe.h"
#include "plan/internal.h"
#include "plan/simulate.h"
#include "support/support.h"

static const ls_identity UNIT = { .what = LS_IS_UNIT }, GRADIENT = { .what = LS_IS_GRADIENT };

/* A training step in small: flat state "unit root" = w [4, 8] at 0 and b [4] at 48; gradient lands in
 * "grad.unit root"; then sgd. */
static void programs(ls_graph *g[2], ls_plan *p[2])
{
    ls_device d;
    ASSERT_OK(ls_device_open(&d, "ref", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    const ls_type flat = LS_TYPE(LS_F32, 64), w_type = LS_TYPE(LS_F32, 4, 8), b_type = LS_TYPE(LS_F32, 4);
    ASSERT_OK(ls_graph_create(&g[0], "micro"));
    ls_value root = ls_state_of(g[0], UNIT, "unit root", flat, (ls_init){ 0 });
    ls_value x = ls_input(g[0], "x", LS_TYPE(LS_F32, 16, 8));
    ls_scope_push(g[0], "fc", "Layer");
    ls_value w = ls_flat_view(g[0], root, 0, &w_type), b = ls_flat_view(g[0], root, 48, &b_type);
    ls_value y = ls_matmul_wt(g[0], x, w, b), z = ls_relu(g[0], y);
    g[0]->phase = LS_PHASE_BACKWARD;
    ls_value dw = ls_linear_dw(g[0], z, x, true);
    ls_value parts[2] = { ls_reshape(g[0], dw, 32), ls_nth(g[0], dw, 1) };
    ls_value grad = ls_pack(g[0], 2, parts, 0, 64, (int64_t[]){ 0, 48 });
    ls_scope_pop(g[0]);
    ls_output_of(g[0], GRADIENT, "unit root", grad);
    ASSERT_OK(ls_graph_create(&g[1], "update"));
    g[1]->phase = LS_PHASE_UPDATE;
    const ls_sgd_attrs sgd = { 0 };
    ls_value in[7] = { ls_state_of(g[1], UNIT, "unit root", flat, (ls_init){ 0 }),
                       ls_input_of(g[1], GRADIENT, "unit root", flat), LS_NONE,
                       ls_state(g[1], "step", LS_SCALAR(LS_I64), (ls_init){ 0 }),
                       ls_input(g[1], "lr", LS_SCALAR(LS_F64)) };
    ls_graph_apply(g[1], &ls_op_sgd, 7, in, &sgd);
    const ls_calibration c = {
        .flops = 1e9, .gemm_efficiency = 0.5, .bytes_cache = 1e9, .bytes_memory = 1e8, .op_overhead = 1e-6
    };
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(ls_graph_finish(g[i]));
        ASSERT_OK(ls_plan_create(&p[i], g[i], &d, &(ls_plan_opts){ .calibration = &c }));
    }
}

static void release(ls_graph *g[2], ls_plan *p[2])
{
    for (int i = 0; i < 2; i++) {
        ls_plan_destroy(&p[i]);
        ls_graph_destroy(&g[i]);
    }
}

static void estimates(void **state)
{
    (void)state;
    ls_graph *g[2];
    ls_plan *p[2];
    programs(g, p);
    double seconds = 0, flops = 0;
    for (int i = 0; i < p[0]->n_steps; i++) {
        const ls_step *s = &p[0]->steps[i];
        /* all of it fits the cache */
        const double arithmetic = s->cost.flops / 0.5e9, traffic = s->cost.bytes / 1e9;
        assert_float_equal(s->seconds, (arithmetic > traffic ? arithmetic : traffic) + 1e-6, 1e-12);
        seconds += s->seconds;
        flops += s->cost.flops;
    }
    assert_float_equal(p[0]->seconds, seconds, 1e-12);
    assert_float_equal(p[0]->flops, flops, 0);
    const ls_step *linear = &p[0]->steps[0], *pack = &p[0]->steps[p[0]->n_steps - 1];
    assert_true(linear->cost.flops >= 2 * 16 * 8 * 4);
    /* Both parts are computed in place: pack only zeroes the gaps of 12 + 16 elements (36 of 64 are parts).
     */
    assert_string_equal(p[0]->graph->nodes[pack->node]->op->name, "pack");
    assert_float_equal(pack->cost.bytes, 4 * (64 - 36), 0);
    release(g, p);
}

/* A collective costs in its wait: what a rank reads of all and writes, at the speed of memory; a mapping of
 * equal types moves nothing. */
static void estimates_of_collectives(void **state)
{
    (void)state;
    ls_device d;
    ls_parallel parallel = { LS_PARALLEL_DEFAULTS };
    parallel.mesh.axes[0].size = 4;
    const ls_calibration c = {
        .flops = 1e9, .gemm_efficiency = 0.5, .bytes_cache = 1e9, .bytes_memory = 1e8, .op_overhead = 1e-6
    };
    ASSERT_OK(ls_device_open(&d, "ref", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    for (int map = 0; map < 2; map++) {
        ls_graph *g;
        ls_plan *p;
        ASSERT_OK(ls_graph_create(&g, "micro"));
        ls_value slice = ls_state_of(g, UNIT, "unit a", LS_TYPE(LS_F32, 16), (ls_init){ 0 });
        ls_value whole = ls_all_gather(g, slice,
                                       &(ls_gather_attrs){ .group = "dp",
                                                           .unit = "unit a",
                                                           .ranks = 4,
                                                           .to = LS_F32,
                                                           .via = LS_F32,
                                                           .map = map,
                                                           .is = UNIT });
        ls_value sum = ls_reduce_scatter(
            g, ls_tanh(g, whole),
            &(ls_reduce_attrs){ .group = "dp", .unit = "unit a", .ranks = 4, .to = LS_F32, .via = LS_F32 });
        ls_output(g, "y", sum);
        ASSERT_OK(ls_graph_finish(g));
        ASSERT_OK(ls_plan_create(&p, g, &d, &(ls_plan_opts){ .calibration = &c, .parallel = &parallel }));
        assert_int_equal(p->n_collectives, 2);
        const double gather = map ? 0 : 4 * (64 + 64), reduce = 4 * 64 + 64;
        assert_float_equal(p->collectives[0].seconds, gather / 1e8 + 2e-6, 1e-12);
        assert_float_equal(p->collectives[1].seconds, reduce / 1e8 + 2e-6, 1e-12);
        double seconds = 0, bytes = 0;
        for (int i = 0; i < p->n_steps; i++) {
            seconds += p->steps[i].seconds;
            bytes += p->steps[i].part == LS_PART_RUN ? 0 : p->steps[i].cost.bytes;
        }
        assert_float_equal(bytes, gather + reduce, 0);
        assert_float_equal(p->seconds, seconds, 1e-12);
        ls_traffic rows[LS_TRAFFIC_ROWS];
        int n = ls_plan_traffic(rows, 0, p, 3);
        n = ls_plan_traffic(rows, n, p, 1);
        assert_int_equal(n, 2);
        assert_int_equal(rows[0].calls, 4);
        assert_float_equal(rows[0].bytes, map ? 0 : 4 * 3 * 64, 0);
        assert_float_equal(rows[1].bytes, 4 * 3 * 64, 0);
        ls_footprint f;
        ls_plans_footprint(&f, 1, &p);
        assert_int_equal(f.node, map ? 256 : 0);
        assert_int_equal(f.state, map ? 0 : 64); /* a slice of what is mapped is there already */
        /* the state, when it is read in place; the reduction's operand */
        assert_int_equal(f.window, (map ? 0 : 64) + f.symmetric);
        ls_str s = { 0 };
        ls_explain_text(&s, p, false);
        ASSERT_CONTAINS(s.data,
                        map ? "a mapping on this node: nothing moves  wait at " : "192 B received  wait at ");
        ASSERT_CONTAINS(s.data, "overlaps nothing");
        ls_str_release(&s);
        ls_plan_destroy(&p);
        ls_graph_destroy(&g);
    }
}

static void footprint(void **state)
{
    (void)state;
    ls_graph *g[2];
    ls_plan *p[2];
    programs(g, p);
    ls_footprint f;
    ls_plans_footprint(&f, 2, p);
    assert_int_equal(f.state, 256 + 64);          /* unit root once, step */
    assert_int_equal(f.io, 512 + 256 + 64);       /* x, the gradient once, lr */
    assert_int_equal(f.arena, p[0]->arena_bytes); /* update needs less */
    assert_int_equal(f.total, f.state + f.io + f.arena);
    assert_int_equal(f.by_category[LS_CAT_PARAMETERS], 256);
    assert_int_equal(f.by_category[LS_CAT_GRADIENTS], 256);
    assert_int_equal(f.by_category[LS_CAT_OPTIMIZER], 64);
    assert_int_equal(f.by_category[LS_CAT_DATA], 512 + 64);
    size_t sum = 0;
    for (int c = 0; c < LS_CAT_COUNT; c++)
        sum += f.by_category[c];
    assert_int_equal(sum, f.state + f.io + p[0]->live_peak_bytes);
    release(g, p);
}

static void texts(void **state)
{
    (void)state;
    ls_graph *g[2];
    ls_plan *p[2];
    programs(g, p);
    ls_str s = { 0 };
    ls_plan_text(&s, p[0], 5);
    const char *summary[] = { "program micro: ", "packing loses 0.0 %", "parameters",
                              "gradients",       "unit root",           "fc" };
    for (size_t i = 0; i < sizeof summary / sizeof *summary; i++)
        ASSERT_CONTAINS(s.data, summary[i]);
    ls_str_clear(&s);
    ls_explain_text(&s, p[0], true);
    const char *schedule[] = { "forward  fc\n",
                               "backward  fc\n",
                               "[view]",
                               "state \"unit root\" +192",
                               "io \"grad.unit root\" +192",
                               "computed inside",
                               "(over %",
                               "f32 [16, 4]" };
    for (size_t i = 0; i < sizeof schedule / sizeof *schedule; i++)
        ASSERT_CONTAINS(s.data, schedule[i]);
    ls_str_clear(&s);
    ls_explain_text(&s, p[1], true);
    ASSERT_CONTAINS(s.data, "updated in place");
    ls_str_clear(&s);
    ls_explain_param_text(
        &s,
        &(ls_stored_at){ .name = "fc.bias", .state = "unit root", .offset = 48, .type = LS_TYPE(LS_F32, 4) },
        2, p);
    const char *life[] = { "fc.bias  f32 [4]",
                           "elements 48 to 52",
                           "program micro",
                           "forward   read by linear in fc",
                           "backward  gradient, computed in its place in the flat buffer by linear_dw in fc",
                           "program update",
                           "update by sgd" };
    for (size_t i = 0; i < sizeof life / sizeof *life; i++)
        ASSERT_CONTAINS(s.data, life[i]);
    ls_str_clear(&s);
    ls_explain_param_text(
        &s, &(ls_stored_at){ .name = "gone", .state = "unit other", .unit = 1, .type = LS_TYPE(LS_F32, 4) },
        2, p);
    ASSERT_CONTAINS(s.data, "no program reads it");
    ls_str_release(&s);
    release(g, p);
}

static json_t *parsed(ls_json *j)
{
    json_t *root;
    ASSERT_OK(ls_json_parse(&root, j->out.data, j->out.len, "description"));
    ls_str_release(&j->out);
    *j = (ls_json){ 0 };
    return root;
}

static void documents(void **state)
{
    (void)state;
    ls_graph *g[2];
    ls_plan *p[2];
    programs(g, p);
    ls_json j = { 0 };
    ls_plan_json(&j, NULL, p[0], 3);
    json_t *root = parsed(&j);
    assert_int_equal(json_integer_value(json_object_get(root, "arena_bytes")), p[0]->arena_bytes);
    assert_int_equal(json_integer_value(json_object_get(
                         json_object_get(json_object_get(root, "peak"), "by_category"), "parameters")),
                     256);
    assert_true(json_number_value(json_object_get(root, "seconds")) == p[0]->seconds);
    assert_int_equal(json_array_size(json_object_get(json_object_get(root, "peak"), "largest")), 3);
    json_decref(root);

    ls_explain_json(&j, NULL, p[0]);
    root = parsed(&j);
    const json_t *nodes = json_object_get(root, "nodes");
    assert_int_equal(json_array_size(nodes), p[0]->graph->n_nodes);
    int steps = 0;
    for (size_t i = 0; i < json_array_size(nodes); i++)
        steps += json_object_get(json_array_get(nodes, i), "step") != NULL;
    assert_int_equal(steps, p[0]->n_steps);
    json_decref(root);

    ls_json_object(&j, NULL);
    ls_explain_param_json(
        &j, &(ls_stored_at){ .name = "fc.weight", .state = "unit root", .type = LS_TYPE(LS_F32, 4, 8) }, 2,
        p);
    ls_json_close_object(&j);
    root = parsed(&j);
    assert_int_equal(json_array_size(json_object_get(root, "events")), 3); /* read, gradient, update */
    json_decref(root);
    release(g, p);
}

/* A program of messages to and from the other rank, each of half a second, with a kernel before each and one
 * at the end. */
typedef struct line {
    ls_step steps[7];
    ls_plan_collective messages[3];
    ls_graph graph;
    ls_plan plan;
} line;

static void make_line(line *l, int peer, const bool sends[3], const double before[3], double after)
{
    *l = (line){ .graph = { .name = "micro" } };
    for (int i = 0; i < 3; i++) {
        l->steps[2 * i] = (ls_step){ .collective = -1, .seconds = before[i] };
        l->steps[2 * i + 1] = (ls_step){ .collective = i, .part = LS_PART_WAIT };
        l->messages[i] = (ls_plan_collective){
            .kind = sends[i] ? LS_SEND : LS_RECEIVE, .group = "pp", .n = 2, .peer = peer, .own = 0.5
        };
    }
    l->steps[6] = (ls_step){ .collective = -1, .seconds = after };
    l->plan = (ls_plan){
        .graph = &l->graph, .steps = l->steps, .n_steps = 7, .collectives = l->messages, .n_collectives = 3
    };
}

static ls_status play_two(const line *first, const line *second, double *seconds)
{
    const ls_mesh mesh = { .n = 1, .axes = { { .name = "pp", .size = 2 } }, .roles = { LS_ROLE_PIPELINE } };
    ls_player two[] = { { .rank = 0, .n_programs = 1, .programs = { &first->plan }, .runs = { 1 } },
                        { .rank = 1, .n_programs = 1, .programs = { &second->plan }, .runs = { 1 } } };
    ls_arena arena;
    ls_arena_init(&arena);
    const ls_status s = ls_simulate(&arena, 2, two, &mesh, (int[]){ 0, 1 });
    *seconds = two[0].seconds > two[1].seconds ? two[0].seconds : two[1].seconds;
    ls_arena_release(&arena);
    return s;
}

/* Two programs that send to each other through mailboxes of one place. */
static void programs_that_wait_for_messages(void **state)
{
    (void)state;
    line first, second;
    double seconds;
    make_line(&first, 1, (bool[]){ true, true, false }, (double[]){ 1, 1, 0 }, 1);
    make_line(&second, 0, (bool[]){ false, false, true }, (double[]){ 0, 4, 2 }, 0);
    /* sent at 1.5, taken at 2; sent at 3.5, taken at 6.5; sent at 9, taken at 9.5 */
    ASSERT_OK(play_two(&first, &second, &seconds));
    assert_true(seconds == 10.5);
    /* 5 s later: the second message waits for the first to be taken */
    second.steps[0].seconds = 5;
    ASSERT_OK(play_two(&first, &second, &seconds));
    assert_true(seconds == 5.5 + 4.5 + 2.5 + 0.5 + 1);
    first.messages[1].kind = LS_RECEIVE; /* both wait for each other */
    ASSERT_FAILS(play_two(&first, &second, &seconds), LS_E_INTERNAL, "waits for ever in step");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(estimates), cmocka_unit_test(estimates_of_collectives),
        cmocka_unit_test(footprint), cmocka_unit_test(texts),
        cmocka_unit_test(documents), cmocka_unit_test(programs_that_wait_for_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
