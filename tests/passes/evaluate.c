/* evaluate.c - see evaluate.h. */
#include "passes/evaluate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "device/ref/ref.h"
#include "passes/autodiff.h"
#include "graph/rewrite.h"
#include "ops/rules.h"
#include "support/levels.h"
#include "support/values.h"

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

static void fill(const char *name, ls_dtype t, int64_t n, void *data)
{
    uint64_t key = ls_hash_text(name);
    const ls_tensor all = ls_tensor_of(data, &(ls_type){ .dtype = t, .ndim = 1, .dims = { n } });
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = mix(key + 0x9e3779b97f4a7c15 * (uint64_t)(i + 1));
        double x = (double)(bits >> 40) * 0x1p-23 - 1.0;
        if (!strcmp(name, "loss, divisor"))
            x = 4;
        if (!strcmp(name, "loss_scale"))
            x = 1024;
        if (!ls_dtype_is_float(t))
            x = (double)(t == LS_U8 ? bits >> 8 & 255 : bits % 3);
        ls_ref_put(&all, i, (double)(float)x);
    }
}

evaluated evaluate(const ls_graph *g, const char *device, int isa, int threads, const ls_units *units)
{
    evaluated e = { 0 };
    ls_device d;
    ls_plan *p;
    ls_session *s;
    ASSERT_OK(ls_graph_verify(g));
    ASSERT_OK(ls_device_open(
        &d, device, &(ls_device_opts){ LS_DEVICE_DEFAULTS, .isa = level_name(isa), .threads = threads }));
    ASSERT_OK(ls_plan_create(&p, g, &d, NULL));
    ASSERT_OK(ls_plan_check(p));
    ASSERT_OK(ls_session_create(&s, 1, &p, NULL));
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        if (!(n->op->flags & LS_OP_SOURCE))
            continue;
        const ls_source_attrs *a = n->attrs;
        const ls_type t = value_type(s, a->name);
        char *x = calloc(ls_type_bytes(&t) + 1, 1);
        const bool whole = !units || strcmp(a->name, units->units[0].state);
        if (whole)
            fill(a->name, t.dtype, ls_type_count(&t), x);
        for (int k = 0; !whole && k < units->n_slots; k++)
            fill(units->slots[k].name, t.dtype, ls_type_count(&units->slots[k].type),
                 x + (size_t)units->slots[k].offset * ls_dtype_size(t.dtype));
        value_put(s, a->name, x, ls_type_bytes(&t));
        free(x);
    }
    ASSERT_OK(ls_session_run(s, 0, false));
    assert_true(g->n_outputs <= EVALUATE_OUTPUTS);
    for (int i = 0; i < g->n_outputs; i++) {
        snprintf(e.name[e.n], sizeof e.name[e.n], "%s", g->outputs[i].name);
        e.data[e.n] = value_copy(s, g->outputs[i].name, &e.type[e.n]);
        e.n++;
    }
    e.arena_bytes = p->arena_bytes;
    e.arena_live = p->live_peak_bytes;
    ls_session_destroy(&s);
    ls_plan_destroy(&p);
    return e;
}

void evaluated_release(evaluated *e)
{
    for (int i = 0; i < e->n; i++)
        free(e->data[i]);
    *e = (evaluated){ 0 };
}

double evaluated_number(const evaluated *e, int output, int64_t i)
{
    const ls_tensor t = ls_tensor_of(e->data[output], &e->type[output]);
    return ls_ref_get(&t, i);
}

static int find(const evaluated *e, const char *name, const char *what)
{
    for (int i = 0; i < e->n; i++)
        if (!strcmp(e->name[i], name))
            return i;
    fail_msg("%s: no output \"%s\"", what, name);
    return 0;
}

void expect_same_bits(const evaluated *a, const evaluated *b, const char *what)
{
    assert_true(a->n > 0);
    for (int i = 0; i < a->n; i++) {
        int j = find(b, a->name[i], what);
        assert_true(ls_type_equal(&a->type[i], &b->type[j]));
        const size_t item = ls_dtype_size(a->type[i].dtype);
        for (int64_t k = 0; k < ls_type_count(&a->type[i]); k++)
            if (memcmp((char *)a->data[i] + (size_t)k * item, (char *)b->data[j] + (size_t)k * item, item) &&
                !(isnan(evaluated_number(a, i, k)) && isnan(evaluated_number(b, j, k))))
                fail_msg("%s: output \"%s\"[%lld] is %.17g before and %.17g after", what, a->name[i],
                         (long long)k, evaluated_number(a, i, k), evaluated_number(b, j, k));
    }
}

void expect_close(const evaluated *a, const evaluated *b, double relative, const char *what)
{
    assert_true(a->n > 0);
    for (int i = 0; i < a->n; i++) {
        int j = find(b, a->name[i], what);
        assert_int_equal(ls_type_count(&a->type[i]), ls_type_count(&b->type[j]));
        double largest = 0;
        for (int64_t k = 0; k < ls_type_count(&a->type[i]); k++)
            largest = fmax(largest, fabs(evaluated_number(a, i, k)));
        for (int64_t k = 0; k < ls_type_count(&a->type[i]); k++)
            if (!(fabs(evaluated_number(a, i, k) - evaluated_number(b, j, k)) <= relative * largest))
                fail_msg("%s: output \"%s\"[%lld] is %.9g before and %.9g after, largest %.9g", what,
                         a->name[i], (long long)k, evaluated_number(a, i, k), evaluated_number(b, j, k),
                         largest);
    }
}

bool evaluate_device(int k, const char **device, int *isa)
{
    *device = k ? "cpu" : "ref";
    *isa = -1;
    for (int i = 0; i < k; i++)
        *isa = next_level(*isa);
    return *isa < LS_ISA_COUNT;
}

int count_ops(const ls_graph *g, const char *op)
{
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++)
        n += !strcmp(g->nodes[i]->op->name, op);
    return n;
}

void add_gradients(ls_graph *g)
{
    ls_value wrt[EVALUATE_OUTPUTS], grads[EVALUATE_OUTPUTS], loss = LS_NONE;
    int n = 0;
    for (int i = 0; i < g->n_outputs; i++)
        if (!strcmp(g->outputs[i].name, "loss"))
            loss = g->outputs[i].value;
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == &ls_op_param) {
            assert_true(n < EVALUATE_OUTPUTS);
            wrt[n++] = g->nodes[i]->out[0];
        }
    g->phase = LS_PHASE_BACKWARD;
    ASSERT_OK(ls_backward(g, loss, ls_fill(g, ls_value_type(g, loss), 1), n, wrt, grads));
    for (int i = 0; i < n; i++) {
        char name[96];
        snprintf(name, sizeof name, "grad.%s", ((const ls_source_attrs *)ls_node_of(g, wrt[i])->attrs)->name);
        ls_output(g, name, grads[i]);
    }
    g->phase = LS_PHASE_FORWARD;
    ASSERT_OK(ls_graph_status(g));
}

ls_graph *copy_graph(const ls_graph *g)
{
    ls_rewrite r;
    ASSERT_OK(ls_rewrite_begin(&r, g));
    for (int i = 0; i < g->n_nodes; i++)
        assert_non_null(ls_rewrite_copy(&r, g->nodes[i]));
    ls_graph *none = NULL;
    ASSERT_OK(ls_rewrite_end(&r, &none));
    return none;
}
