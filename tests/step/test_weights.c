/* test_weights.c - weights in the type of computation are a state beside the parameters: the update writes
 * both, gradients take the weights' place, and what changes parameters outside of a step reaches them. */
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "step/compile.h"
#include "step/images.h"
#include "support/values.h"

static int nodes(const ls_plan *p, const char *op, size_t elements)
{
    int n = 0;
    for (int i = 0; i < p->n_steps; i++) {
        const ls_node *x = p->graph->nodes[p->steps[i].node];
        n += !strcmp(x->op->name, op) && (size_t)ls_type_count(ls_type_of(p->graph, x->out[0])) >= elements;
    }
    return n;
}

static void expect_rounded(const ls_trainer *t)
{
    float *p = place_copy(&t->units[0]);
    uint16_t *w = place_copy(&t->weights[0]);
    for (int64_t i = 0; i < ls_type_count(&t->units[0].type); i++)
        if (w[i] != ls_to_bf16(p[i]))
            fail_msg("weight %lld is not the rounded parameter", (long long)i);
    free(p);
    free(w);
}

static void step(ls_trainer *t, int samples)
{
    ls_step_result r;
    ASSERT_OK(ls_trainer_step(t, images, labels, samples, 1e-2, &r));
}

static void the_update_writes_them(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        const int batches = k & 1 ? 2 : 1;
        ls_trainer *t;
        START(t, .param = LS_BF16, .micro_batch = 6, .micro_batches = batches, .clip_norm = 0.5,
              .optimizer = { LS_OPTIMIZER_DEFAULTS, .kind = k & 2 ? LS_SGD : LS_ADAM });
        const ls_compiled *c = &t->compiled;
        const size_t all = (size_t)ls_type_count(&t->units[0].type);
        assert_int_equal(nodes(c->plans[LS_MICRO], "cast", all), batches - 1); /* of the gradients */
        assert_int_equal(nodes(c->plans[LS_EVAL], "cast", all), 0);
        assert_int_equal(nodes(c->plans[LS_UPDATE], "cast", all), k >> 1);
        assert_int_equal(c->gradients_in_weights, batches == 1);
        assert_true(place_same(&t->grads[0], &t->weights[0]) == (batches == 1));
        for (int i = 0; i < 2; i++) {
            step(t, 6 * batches);
            expect_rounded(t);
        }
        ls_trainer_destroy(&t);
    }
}

/* Every product's gradient is computed where its weight was. (One may be elsewhere: the last block's queries
 * are those of the class token alone, so two products read parts of one weight.) */
static void gradients_take_their_place(void **state)
{
    (void)state;
    ls_trainer *t;
    START(t, .param = LS_BF16, .micro_batch = 6, .micro_batches = 1);
    const ls_plan *p = t->compiled.plans[LS_MICRO];
    int products = 0, elsewhere = 0;
    for (int i = 0; i < p->n_steps; i++) {
        const ls_node *n = p->graph->nodes[p->steps[i].node];
        if (strcmp(n->op->name, "linear_dw"))
            continue;
        const ls_location *at = &p->locations[n->out[0].id];
        elsewhere += p->allocs[at->alloc].memory != LS_MEM_STATE;
        products++;
    }
    assert_true(products > 8 && elsewhere <= 1);
    ls_trainer_destroy(&t);
}

static float loss(ls_trainer *t)
{
    float rows[6];
    ASSERT_OK(ls_trainer_eval(t, images, labels, rows, NULL, NULL));
    return rows[0];
}

static void changes_reach_them(void **state)
{
    (void)state;
    ls_trainer *t;
    ls_named_tensor p[200];
    START(t, .param = LS_BF16, .micro_batch = 6, .micro_batches = 1);
    const float first = loss(t);
    step(t, 6);
    assert_true(loss(t) != first);
    ASSERT_OK(ls_trainer_init(t, 5));
    wake_head(t);
    assert_true(loss(t) == first);
    const int n = training_parameters(t, p, 200);
    for (int i = 0; i < n; i++)
        memset(p[i].tensor.data, 0, ls_type_bytes(&p[i].tensor.type));
    ASSERT_OK(training_set(t, p, n));
    training_release(p, n);
    assert_true(loss(t) != first);
    expect_rounded(t);
    ls_trainer_destroy(&t);
}

/* The moving averages in the parameters' place: the weights follow at the next use, there and back. Before
 * and after the first step the averages are the parameters themselves. */
static void averages_reach_them(void **state)
{
    (void)state;
    ls_trainer *t;
    float loss[6];
    START(t, .param = LS_BF16, .micro_batch = 6, .ema_decay = 0.5);
    const size_t bytes = ls_type_bytes(&t->units[0].type);
    for (int steps = 0; steps < 3; steps++) {
        void *before = place_copy(&t->units[0]);
        ASSERT_OK(ls_trainer_exchange_ema(t));
        void *averages = place_copy(&t->units[0]);
        assert_int_equal(memcmp(before, averages, bytes) == 0, steps < 2);
        ASSERT_OK(ls_trainer_eval(t, images, labels, loss, NULL, NULL));
        expect_rounded(t);
        ASSERT_OK(ls_trainer_exchange_ema(t));
        void *after = place_copy(&t->units[0]);
        assert_memory_equal(before, after, bytes);
        ASSERT_OK(ls_trainer_eval(t, images, labels, loss, NULL, NULL));
        expect_rounded(t);
        step(t, 6);
        free(before);
        free(averages);
        free(after);
    }
    ls_trainer_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_update_writes_them),
                                        cmocka_unit_test(averages_reach_them),
                                        cmocka_unit_test(gradients_take_their_place),
                                        cmocka_unit_test(changes_reach_them) };
    return cmocka_run_group_tests(tests, make_images, NULL);
}
