/* test_random_programs.c - random graphs as programs of a session: planned and executed, they compute what an
 * interpreter computes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/graph.h"
#include "interpret.h"
#include "ops/rules.h"
#include "execute/internal.h"
#include "support/values.h"
#include "execute/planned.h"

static uint64_t seed = 1;
static int below(int n)
{
    return (int)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33) % n;
}
static float any(void) { return (float)(below(2001) - 1000) / 1000; }

/* Gives a source random elements. Returns a copy of them. */
static float *fill_randomly(ls_session *s, const char *name)
{
    ls_type type;
    float *x = value_copy(s, name, &type);
    for (int64_t i = 0; i < ls_type_count(&type); i++)
        x[i] = any();
    value_put(s, name, x, ls_type_bytes(&type));
    return x;
}

/* Runs g on the device twice (state must not leak through the arena) and compares every output with the
 * interpreter. */
static void compare(ls_graph *g, const char *dev, float tolerance)
{
    ls_plan *p = plan_of(g, dev, 2);
    ls_session *s;
    ASSERT_OK(ls_plan_check(p));
    ASSERT_OK(ls_session_create(&s, 1, &p, NULL));
    for (int run = 0; run < 2; run++) {
        void **values = calloc((size_t)g->n_vals, sizeof *values);
        for (int i = 0; i < g->n_nodes; i++) {
            if (!(g->nodes[i]->op->flags & LS_OP_SOURCE))
                continue;
            values[g->nodes[i]->out[0].id] = fill_randomly(s, ls_source_name(g->nodes[i]));
        }
        interpret(g, values);
        ASSERT_OK(ls_session_run(s, 0, run == 1));
        for (int i = 0; i < g->n_outputs; i++) {
            ls_type type;
            float *got = value_copy(s, g->outputs[i].name, &type);
            const float *want = values[g->outputs[i].value.id];
            for (int64_t k = 0; k < ls_type_count(&type); k++)
                if (!(fabsf(got[k] - want[k]) <= tolerance * (1 + fabsf(want[k]))))
                    fail_msg("%s run %d: output %s, element %d: %.9g, expected %.9g", dev, run,
                             g->outputs[i].name, (int)k, got[k], want[k]);
            free(got);
        }
        interpret_release(g, values);
        free(values);
    }
    ls_session_destroy(&s);
    ls_plan_destroy(&p);
}

/* Random programs over views, packs, in-place ops, products, transfers, and outputs of every kind. */
static ls_graph *random_graph(void)
{
    ls_graph *g = new_graph("random");
    ls_value pool[40];
    int n = 0;
    pool[n++] = ls_input(g, "x", LS_TYPE(LS_F32, 4, 6));
    pool[n++] = ls_param(g, "w", LS_TYPE(LS_F32, 4, 6), (ls_init){ 0 });
    while (n < 36) {
        ls_value a = pool[below(n)], b = pool[below(n)], out;
        if (n == 18)
            g->phase = LS_PHASE_BACKWARD;
        switch (below(13)) {
        case 0: out = ls_tanh(g, ls_add(g, a, b)); break;
        case 1: out = ls_mul(g, a, b); break;
        case 2: out = ls_relu(g, a); break;
        case 3: out = ls_tanh(g, a); break;
        case 4: out = ls_reshape(g, ls_tanh(g, ls_reshape(g, a, 24)), 4, 6); break;
        case 5: {
            ls_value two[2] = { ls_slice(g, a, 0, below(3), 2), ls_slice(g, b, 0, below(3), 2) };
            out = ls_concat(g, 0, 2, two);
            break;
        }
        case 6: {
            ls_value two[2] = { ls_relu(g, a), ls_sub(g, a, b) };
            out = ls_slice(g, ls_concat(g, 1, 2, two), 1, below(7), 6);
            break;
        }
        case 7: {
            ls_value two[2] = { ls_relu(g, a), b }, inner = ls_concat(g, 0, 2, two);
            ls_value outer[2] = { ls_tanh(g, inner), inner };
            out = ls_slice(g, ls_concat(g, 1, 2, outer), 0, below(5), 4);
            out = ls_slice(g, out, 1, below(7), 6);
            break;
        }
        case 8: /* products of strided operands, into flat buffers with a gap */
            out = ls_matmul_wt(g, a,
                               ls_matmul_wt(g, ls_reshape(g, ls_slice(g, b, 1, 0, 3), 3, 4),
                                            ls_reshape(g, b, 6, 4), LS_NONE),
                               LS_NONE);
            out = ls_pack(g, 1, &out, 1, 6, (int64_t[]){ below(4) });
            break;
        case 10: out = ls_graph_apply(g, &ls_op_to_device, 1, &a, NULL); break;
        case 11: out = ls_graph_apply(g, &ls_op_to_host, 1, &a, NULL); break;
        default: out = ls_reshape(g, ls_permute(g, a, 1, 0), 4, 6); break;
        }
        pool[n++] = out;
    }
    ls_output(g, "a", ls_tanh(g, pool[n - 1]));
    ls_output(g, "b", pool[n - 2]);
    ls_output(g, "c", ls_slice(g, pool[n - 3], 0, 1, 2));
    ls_output(g, "x", ls_add(g, ls_slice(g, pool[0], 0, 0, 4), pool[n - 4])); /* replaces the input */
    return g;
}

static void programs_mean_their_graphs(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        ls_graph *g = random_graph();
        compare(g, "ref", 0); /* the same kernels: the same bits */
        compare(g, "cpu", 1e-5f);
        compare(g, "emulated", 1e-5f); /* also transfers beside kernels */
        ls_graph_destroy(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_mean_their_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
