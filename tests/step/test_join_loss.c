/* test_join_loss.c - a head and its loss as one op, in a trainer: losses, gradients and predictions have the
 * bits of the separate ops on every mesh, and a token has one loss in training and in evaluation. */
#include <stdlib.h>
#include <string.h>

#include "ops/linear_loss.h"
#include "step/compile_own.h"
#include "step/split_model.h"
#include "support/support.h"

enum { LOGITS = ROWS * TOKENS * VOCABULARY };

static job head_of(int dp, int shard, int tp, ls_data_parallel data, bool frozen)
{
    job j = layout(dp, shard, tp, data);
    j.model.hidden_size = 32;
    j.model.head_dim = 8;
    j.o.threads = 2;
    if (frozen) {
        j.o.freeze = "model.embed_tokens";
        j.o.param = j.o.output = LS_BF16;
    }
    return j;
}

static int joined(const ls_plan *p)
{
    int n = 0;
    for (int i = 0; i < p->graph->n_nodes; i++)
        n += p->graph->nodes[i]->op == &ls_op_linear_cross_entropy;
    return n;
}

static void same_bits(job *j)
{
    job apart = *j;
    ls_logits_at_a_time = 16 * LOGITS + 16;
    run_job(&apart);
    ls_logits_at_a_time = LOGITS;
    run_job(j);
    assert_memory_equal(j->losses, apart.losses, sizeof apart.losses);
    assert_memory_equal(j->norms, apart.norms, sizeof apart.norms);
    assert_memory_equal(j->rows, apart.rows, sizeof apart.rows);
    assert_memory_equal(j->predicted, apart.predicted, sizeof apart.predicted);
}

static void over_ranks(void **state)
{
    (void)state;
    for (int frozen = 0; frozen < 2; frozen++) {
        job one = head_of(1, 1, 1, LS_DATA_FSDP, frozen);
        same_bits(&one);
        for (int k = 0; k < 5; k++) {
            job j = k == 0   ? head_of(2, 1, 1, LS_DATA_FSDP, frozen)
                    : k == 1 ? head_of(4, 1, 1, LS_DATA_DDP, frozen)
                    : k == 2 ? head_of(2, 2, 1, LS_DATA_HYBRID, frozen)
                    : k == 3 ? head_of(1, 1, 1, LS_DATA_FSDP, frozen)
                             : head_of(2, 1, 1, LS_DATA_FSDP, frozen);
            if (k >= 3)
                j.o.recompute = "class:Block";
            run_job(&j);
            assert_memory_equal(j.losses, one.losses, sizeof one.losses);
            assert_memory_equal(j.norms, one.norms, sizeof one.norms);
        }
        job split = head_of(1, 1, 2, LS_DATA_FSDP, frozen);
        split.o.parallel.tensor = LAYERS " " EMBEDDING;
        same_bits(&split); /* its classes are split: the ops stay separate */
    }
}

/* Programs with and without the op. */
static void where_it_is(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        job j = head_of(1, 1, 1, LS_DATA_FSDP, k < 2);
        ls_trainer *t;
        if (k == 3)
            j.o.param = j.o.output = LS_BF16; /* a trained table of 16 bits */
        ls_logits_at_a_time = k == 1 ? 16 * LOGITS + 16 : LOGITS;
        ASSERT_OK(ls_trainer_create_with(&t, build_decoder, &j.model, &j.o));
        assert_int_equal(joined(t->compiled.plans[LS_MICRO]), k != 1 && k != 3);
        assert_int_equal(joined(t->compiled.plans[LS_EVAL]), k != 1);
        ls_trainer_destroy(&t);
    }
}

/* The loss of a step with one target is that token's loss of an evaluation. */
static void one_loss_of_a_token(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        job j = head_of(1, 1, 1, LS_DATA_FSDP, true);
        int32_t ids[ROWS * TOKENS], targets[ROWS * TOKENS];
        float rows[ROWS * TOKENS];
        ls_step_result r;
        ls_trainer *t;
        j.o.micro_batches = 1;
        j.o.param = j.o.output = k ? LS_BF16 : LS_F32;
        ls_logits_at_a_time = LOGITS;
        ASSERT_OK(ls_trainer_create_with(&t, build_decoder, &j.model, &j.o));
        ASSERT_OK(ls_trainer_init(t, 3));
        for (int at = 0; at < ROWS * TOKENS; at += 5) {
            for (int i = 0; i < ROWS * TOKENS; i++) {
                ids[i] = 5 * i % VOCABULARY;
                targets[i] = i == at ? 7 : LS_IGNORE_LABEL;
            }
            ASSERT_OK(ls_trainer_eval(t, ids, targets, rows, NULL, NULL));
            ASSERT_OK(ls_trainer_step(t, ids, targets, 1, 0, &r));
            assert_true(rows[at] > 0 && r.loss == (double)rows[at]);
        }
        ls_trainer_destroy(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(over_ranks),
        cmocka_unit_test(where_it_is),
        cmocka_unit_test(one_loss_of_a_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
