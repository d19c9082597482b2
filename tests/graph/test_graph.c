/* test_graph.c - building, printing, checking and rewriting graphs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/rewrite.h"
#include "lockstep/nn.h"
#include "graph/op.h"
#include "ops/rules.h"
#include "base/metric_list.h"
#include "support/support.h"

static ls_graph *new_graph(void)
{
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "test"));
    return g;
}

/* "test_graph.c:LINE:" of the line before */
static char here[64];
#define REMEMBER_LINE() (void)snprintf(here, sizeof here, "test_graph.c:%d:", __LINE__ - 1)

/* The first error wins, says where in the model, and everything after it is silent and invalid. */
static void errors_are_sticky(void **state)
{
    (void)state;
    ls_graph *g = new_graph();
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 4, 8)), w = LS_NONE;
    {
        LS_SCOPE(g, "encoder", "Encoder");
        LS_SCOPE(g, "mlp", "");
        w = ls_param(g, "weight", LS_TYPE(LS_F32, 3, 7), (ls_init){ 0 });
        x = ls_matmul_wt(g, x, w, LS_NONE);
        REMEMBER_LINE();
    }
    assert_true(x.id < 0);
    assert_true(ls_gelu(g, x).id < 0);
    ls_output(g, "y", ls_add(g, x, w));
    ASSERT_FAILS(ls_graph_status(g), LS_E_SHAPE, here, "linear", "x has 8 features, w wants 7",
                 "in encoder.mlp");
    ASSERT_FAILS(ls_graph_finish(g), LS_E_SHAPE, here, "x has 8 features");
    ls_graph_destroy(&g);
    assert_null(g);
    ls_graph_destroy(&g);
}

/* A builder of this library has no file in a message: the scope says where it is (LS_FILE, CMakeLists.txt).
 */
static void our_own_sources_are_not_named(void **state)
{
    (void)state;
    static const struct {
        const char *file, *before, *after;
    } CASES[] = { { "model.c", "model.c:7: ", " (model.c:7)" },
                  { "lockstep:src/models/vit.c", "", "" },
                  { NULL, "", "" } };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char site[LS_SITE_SIZE];
        assert_string_equal(ls_site_before(site, CASES[i].file, 7), CASES[i].before);
        assert_string_equal(ls_site_after(site, CASES[i].file, 7), CASES[i].after);
    }
    char path[1200], site[LS_SITE_SIZE];
    memset(path, 'd', sizeof path - 1); /* the line is there behind a long path, too */
    path[sizeof path - 1] = 0;
    assert_true(strstr(ls_site_before(site, path, 77), "d:77: "));
    assert_true(strstr(ls_site_after(site, path, 77), "d:77)"));
}

/* A request to stop ends building, and copying, also of a graph of a million nodes. */
static void a_request_to_stop_is_heard(void **state)
{
    (void)state;
    static volatile sig_atomic_t flag;
    ls_graph *g = new_graph();
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 4));
    ls_rewrite r;
    ls_stop_on(&flag);
    ASSERT_OK(ls_graph_status(g));
    flag = 1;
    ASSERT_FAILS(ls_rewrite_begin(&r, g), LS_E_STOPPED, "stopped while the program", "was compiled");
    for (int i = 0; i < 600; i++)
        x = ls_gelu(g, x);
    ls_stop_on(NULL);
    assert_true(x.id < 0);
    ASSERT_FAILS(ls_graph_status(g), LS_E_STOPPED, "stopped while a model of", "operations by now was built");
    ls_graph_destroy(&g);
}

/* A layer's error is the model's line, not one inside the layer. */
static void layers_report_the_models_line(void **state)
{
    (void)state;
    ls_graph *g = new_graph();
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 4, 8));
    ls_linear(g, "head", x, 0);
    REMEMBER_LINE();
    ASSERT_FAILS(ls_graph_status(g), LS_E_SHAPE, here, "head");
    ls_graph_destroy(&g);
}

static void wrong_use_is_refused(void **state)
{
    (void)state;
    static const struct {
        int kind;
        const char *part;
    } cases[] = {
        { 0, "two outputs are named \"y\"" },       { 1, "output \"z\" is not a value" },
        { 2, "has 1 outputs, asked for number 3" }, { 3, "operand 1 of linear is required" },
        { 4, "is not a value of graph" },           { 6, "ls_scope_pop: no scope is open" },
        { 5, "scope \"open\" is still open" },
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ls_graph *g = new_graph();
        ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 4, 8));
        ls_output(g, "y", x);
        switch (cases[k].kind) {
        case 0: ls_output(g, "y", x); break;
        case 1: ls_output(g, "z", LS_NONE); break;
        case 2: ls_nth(g, x, 3); break;
        case 3: ls_matmul_wt(g, x, LS_NONE, LS_NONE); break;
        case 4: ls_gelu(g, (ls_value){ .id = 77 }); break;
        case 6: ls_scope_pop(g); break;
        default: ls_scope_push(g, "open", NULL); break;
        }
        ASSERT_FAILS(ls_graph_finish(g), LS_E_ARG, cases[k].part);
        ls_graph_destroy(&g);
    }
}

/* "Names must be unique in the graph" (graph.h). */
/* Its number is a value here, too; but not this one. */
static void anothers_value_is_refused(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        ls_graph *g = new_graph(), *other = new_graph();
        const ls_value mine = ls_input(g, "x", LS_TYPE(LS_F32, 4, 8)),
                       there = ls_input(other, "x", LS_TYPE(LS_F32, 4, 8));
        assert_int_equal(mine.id, there.id);
        assert_int_equal(ls_value_type(g, there).ndim, -1);
        switch (kind) {
        case 0: ls_add(g, mine, there); break;
        case 1: ls_output(g, "y", there); break;
        case 2: ls_nth(g, there, 0); break;
        default:
            ls_output(
                g, "y",
                ls_nth(other, ls_rms_norm_op(other, there, ls_fill(other, LS_TYPE(LS_F32, 8), 1), 1e-5), 1));
            break;
        }
        ASSERT_FAILS(ls_graph_finish(g), LS_E_ARG, "another");
        ls_graph_destroy(&g);
        ls_graph_destroy(&other);
    }
}

static void equal_names_are_refused(void **state)
{
    (void)state;
    ls_graph *g = new_graph();
    ls_param(g, "w", LS_TYPE(LS_F32, 4), (ls_init){ 0 });
    ls_value again = ls_param(g, "w", LS_TYPE(LS_F32, 4), (ls_init){ 0 });
    ls_output(g, "y", again);
    assert_true(ls_graph_finish(g) != LS_OK);
    ASSERT_CONTAINS(ls_error_message(), "\"w\"");
    ls_graph_destroy(&g);
}

static ls_graph *small_model(void)
{
    ls_graph *g = new_graph();
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 2, 3, 4));
    {
        LS_SCOPE(g, "block_0", "Block");
        ls_value h = ls_layer_norm(g, "ln", x, 1e-6);
        x = ls_add(g, x, ls_gelu(g, ls_linear(g, "mlp", h, 4, .bias = false)));
    }
    ls_value half = ls_slice(g, x, 1, 0, 1);
    ls_output(g, "y", ls_mul_const(g, ls_reshape(g, half, 2, 4), 0.5));
    return g;
}

static void printed_text(void **state)
{
    (void)state;
    ls_graph *g = small_model();
    ASSERT_OK(ls_graph_finish(g));
    static const char expected[] =
        "graph \"test\"\n"
        "%1 = input \"x\"    f32 [2, 3, 4]\n"
        "# block_0.ln  LayerNorm\n"
        "%2 = param \"block_0.ln.weight\"    f32 [4]\n"
        "%3 = param \"block_0.ln.bias\"    f32 [4]\n"
        "%4, %5, %6 = layer_norm %1 %2 %3  eps=1e-6    f32 [2, 3, 4], f32 [2, 3], f32 [2, 3]\n"
        "# block_0.mlp  Linear\n"
        "%7 = param \"block_0.mlp.weight\"    f32 [4, 4]\n"
        "%8 = linear %4 %7  act=none    f32 [2, 3, 4]\n"
        "# block_0  Block\n"
        "%9 = gelu %8    f32 [2, 3, 4]\n"
        "%10 = add %1 %9    f32 [2, 3, 4]\n"
        "# (top)\n"
        "%11 = slice %10  dim=1  start=0  count=1    f32 [2, 1, 4]\n"
        "%12 = reshape %11  dims=[2 4]    f32 [2, 4]\n"
        "%13 = mul_const %12  value=0.5    f32 [2, 4]\n"
        "output \"y\" = %13\n";
    char *text = ls_graph_print(g, false);
    assert_string_equal(text, expected);
    free(text);
    text = ls_graph_print(g, true);
    ASSERT_CONTAINS(text, "%9 = gelu %8    f32 [2, 3, 4]    @ ");
    ASSERT_CONTAINS(text, "test_graph.c:");
    free(text);
    ls_graph_destroy(&g);
}

/* Every kind of damage that a pass could do is found. */
static void damage_is_found(void **state)
{
    (void)state;
    for (int kind = 0; kind < 8; kind++) {
        ls_graph *g = small_model();
        ASSERT_OK(ls_graph_finish(g));
        ls_node *gelu = g->nodes[6], *add = g->nodes[7], *norm = g->nodes[3];
        assert_string_equal(gelu->op->name, "gelu");
        const char *part = "";
        switch (kind) {
        case 0:
            gelu->in[0] = add->out[0];
            part = "is computed later";
            break;
        case 1:
            gelu->in[0].id = 1000;
            part = "is not a value";
            break;
        case 2:
            gelu->in[0] = LS_NONE;
            part = "is missing";
            break;
        case 3:
            g->vals[gelu->out[0].id].type.dims[2] = 5;
            part = "its rule says";
            break;
        case 4:
            gelu->id = 3;
            part = "carries the id 3";
            break;
        case 6:
            gelu->in[0] = gelu->out[0];
            part = "is computed later";
            break; /* it would need itself */
        case 5:
            g->vals[norm->out[1].id].out = 2;
            part = "output 1 of node 3";
            break;
        default:
            g->outputs[0].value.id = 1000;
            part = "output \"y\" is not a value";
            break;
        }
        assert_true(ls_graph_verify(g) != LS_OK);
        ASSERT_CONTAINS(ls_error_message(), part);
        ls_graph_destroy(&g);
    }
}

/* A copy node by node is the same graph: scopes, blocks, phases, call sites, clones, outputs. */
static void rewriting_keeps_everything(void **state)
{
    (void)state;
    ls_graph *g = small_model();
    g->nodes[7]->phase = LS_PHASE_BACKWARD;
    g->nodes[6]->clone_of = 5;
    char *before = ls_graph_print(g, true);
    ls_rewrite r;
    ASSERT_OK(ls_rewrite_begin(&r, g));
    for (int i = 0; i < g->n_nodes; i++)
        assert_non_null(ls_rewrite_copy(&r, g->nodes[i]));
    ASSERT_OK(ls_rewrite_end(&r, &g));
    char *after = ls_graph_print(g, true);
    assert_string_equal(before, after);
    assert_int_equal(g->nodes[7]->phase, LS_PHASE_BACKWARD);
    assert_int_equal(g->nodes[6]->clone_of, 5);
    assert_string_equal(g->nodes[5]->scope->path, "block_0.mlp");
    assert_string_equal(g->nodes[5]->scope->parent->block, "Block");
    free(before);
    free(after);
    ls_graph_destroy(&g);
}

/* Types spread from a changed source; a clone still names the node it repeats when ids have moved; a dropped
 * value is an error. */
static void rewriting_changes(void **state)
{
    (void)state;
    ls_graph *g = new_graph();
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 4)), unused = ls_gelu(g, x), a = ls_relu(g, x),
             b = ls_relu(g, x);
    (void)unused;
    ls_node_of(g, b)->clone_of = ls_node_of(g, a)->id;
    ls_output(g, "y", ls_add(g, a, b));
    ls_rewrite r;
    ASSERT_OK(ls_rewrite_begin(&r, g));
    ls_rewrite_like(&r, g->nodes[0]);
    r.map[x.id] = ls_input(r.to, "x", LS_TYPE(LS_F64, 4));
    for (int i = 2; i < g->n_nodes; i++)
        assert_non_null(ls_rewrite_copy(&r, g->nodes[i]));
    ASSERT_OK(ls_rewrite_end(&r, &g));
    assert_int_equal(g->n_nodes, 4);
    assert_int_equal(ls_type_of(g, g->outputs[0].value)->dtype, LS_F64);
    assert_int_equal(g->nodes[2]->clone_of, 1);

    ASSERT_OK(ls_rewrite_begin(&r, g));
    ls_rewrite_copy(&r, g->nodes[0]);
    ls_rewrite_copy(&r, g->nodes[1]);
    ASSERT_FAILS(ls_rewrite_end(&r, &g), LS_E_ARG, "output \"y\" is not a value");
    assert_int_equal(g->n_nodes, 4); /* the old graph stays */
    ls_graph_destroy(&g);
}

/* There may be 255 of them beside the loss's sum, as in a report. */
static void too_many_metrics_are_refused(void **state)
{
    (void)state;
    ls_graph *g = new_graph();
    const ls_value rows = ls_input(g, "x", LS_TYPE(LS_F32, 4));
    for (int i = 0; i < LS_MOST_METRICS; i++) {
        char name[16];
        assert_int_equal(ls_graph_status(g), LS_OK);
        snprintf(name, sizeof name, "m%d", i);
        ls_measure(g, name, rows, LS_MEAN, LS_BY_SAMPLE, NULL);
    }
    ASSERT_FAILS(ls_graph_status(g), LS_E_ARG, "at most 255");
    ls_graph_destroy(&g);
}

/* The words of an attribute stand at the values of its enum: an enum that grows in the middle moves none. */
static void words_of_attributes(void **state)
{
    (void)state;
    const ls_attr_field *is = ls_op_param.fields;
    while (is->name && strcmp(is->name, "is"))
        is++;
    assert_string_equal(is->words[LS_IS_NAMED], "named");
    assert_string_equal(is->words[LS_IS_WEIGHTS], "weights");
    assert_string_equal(is->words[LS_IS_LARGEST_LOSS], "largest_loss");
    assert_string_equal(is->words[LS_IS_TARGETS], "targets");
    assert_string_equal(is->words[LS_IS_SEED], "seed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_sticky),
        cmocka_unit_test(our_own_sources_are_not_named),
        cmocka_unit_test(a_request_to_stop_is_heard),
        cmocka_unit_test(layers_report_the_models_line),
        cmocka_unit_test(wrong_use_is_refused),
        cmocka_unit_test(anothers_value_is_refused),
        cmocka_unit_test(equal_names_are_refused),
        cmocka_unit_test(printed_text),
        cmocka_unit_test(words_of_attributes),
        cmocka_unit_test(damage_is_found),
        cmocka_unit_test(rewriting_keeps_everything),
        cmocka_unit_test(rewriting_changes),
        cmocka_unit_test(too_many_metrics_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
