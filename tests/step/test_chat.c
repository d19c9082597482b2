/* test_chat.c - a step on conversations, whose targets are uneven: loss and gradient are those of a sum by
 * hand in f64, on any number of ranks and with any size of micro-batch. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "golden/training.h"
#include "data/chat.h"
#include "lockstep/data.h"
#include "lockstep/models.h"
#include "step/trainer.h"
#include "support/ranks.h"
#include "support/support.h"

enum { ROWS = 16, TOKENS = 96, PARAMETERS = 16, MOST = 1 << 14 };
static const ls_decoder_config MODEL = { .seq_length = TOKENS,
                                         .vocab_size = 257,
                                         .hidden_size = 8,
                                         .mlp_size = 12,
                                         .layers = 1,
                                         .heads = 2,
                                         .kv_heads = 1,
                                         .head_dim = 4,
                                         .norm_eps = 1e-6,
                                         .rope_theta = 1e4,
                                         .init_deviation = 0.3,
                                         .tied = true,
                                         .block = "LlamaDecoderLayer" };
#define SGD .optimizer = { LS_OPTIMIZER_DEFAULTS, .kind = LS_SGD }, .threads = 1

static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    return ls_decoder_build(g, config, batch);
}

static int32_t ids[ROWS][TOKENS], targets[ROWS][TOKENS];
static int64_t count[ROWS];

/* Conversations with answers of 1 to 31 bytes and an end token. */
static int make_rows(void **state)
{
    (void)state;
    ls_str text = { 0 };
    ls_dataset *set;
    const char *path = ls_test_path("talks.jsonl");
    for (int i = 0; i < ROWS; i++)
        ls_str_printf(&text,
                      "{\"messages\": [{\"role\": \"user\", \"content\": \"%.*s\"}, "
                      "{\"role\": \"assistant\", \"content\": \"%.*s\"}]}\n",
                      1 + 5 * i % 7, "what is", 1 + i * 2, "an answer, which may be rather long");
    ASSERT_OK(ls_file_write_text(path, &text));
    ls_str_release(&text);
    /* all but one, which is held out: it is read from the other split */
    for (int split = 0, row = 0; split < 2; split++) {
        ASSERT_OK(ls_chat_open(&set, (ls_split)split, path, "bytes", TOKENS, .template = "chatml",
                               .text = { LS_TEXT_DEFAULTS, .pack = LS_PACK_NONE, .eval_fraction = 0.05 }));
        for (int64_t i = 0; i < set->n; i++, row++) {
            ASSERT_OK(set->read(set, i, (void *const[]){ ids[row], targets[row] }));
            count[row] = set->count(set, i, 1);
        }
        assert_true(split == 0 || row == ROWS);
        ls_dataset_close(&set);
    }
    return 0;
}

/* What a step of SGD with a rate of 1 takes from the weights: the gradient. */
typedef struct result {
    double loss, gradient[MOST];
    int n;
} result;

static int flat(ls_trainer *t, double *to)
{
    static _Thread_local ls_named_tensor p[PARAMETERS];
    const int n = training_parameters(t, p, PARAMETERS);
    int at = 0;
    for (int i = 0; i < n; i++)
        for (int64_t k = 0; k < ls_type_count(&p[i].tensor.type); k++)
            to[at++] = p[i].tensor.type.dtype == LS_F64 ? ((const double *)p[i].tensor.data)[k]
                                                        : (double)((const float *)p[i].tensor.data)[k];
    training_release(p, n);
    return at;
}

static ls_status step(ls_trainer *t, const int32_t *inputs, const int32_t *wanted, int64_t n, result *out)
{
    static _Thread_local double before[MOST], after[MOST];
    ls_step_result r;
    LS_TRY(ls_trainer_init(t, 3));
    flat(t, before);
    LS_TRY(ls_trainer_step(t, inputs, wanted, n, 1, &r));
    out->n = flat(t, after);
    out->loss = r.loss;
    for (int i = 0; i < out->n; i++)
        out->gradient[i] = before[i] - after[i];
    return LS_OK;
}

/* Each conversation alone, in f64: the sum over all targets, divided by their number. */
static void by_hand(result *sum)
{
    static result one;
    int64_t all = 0;
    ls_trainer *t;
    ASSERT_OK(ls_trainer_create(&t, build, &MODEL, SGD, .device = "ref", .param = LS_F64, .micro_batch = 1));
    for (int i = 0; i < ROWS; i++) {
        ASSERT_OK(step(t, ids[i], targets[i], count[i], &one));
        all += count[i];
        sum->n = one.n;
        sum->loss += one.loss * (double)count[i];
        for (int k = 0; k < one.n; k++)
            sum->gradient[k] += one.gradient[k] * (double)count[i];
    }
    sum->loss /= (double)all;
    for (int k = 0; k < sum->n; k++)
        sum->gradient[k] /= (double)all;
    ls_trainer_destroy(&t);
}

typedef struct job {
    int ranks, micro_batch;
    result out;
} job;

static ls_status rank(ls_group *g, void *context)
{
    job *j = context;
    const int me = ls_group_rank(g), share = ROWS / j->ranks;
    int64_t all = 0;
    ls_trainer_opts o = { LS_TRAINER_DEFAULTS, SGD, .micro_batch = j->micro_batch,
                          .micro_batches = ROWS / j->micro_batch, .group = g };
    o.parallel.mesh = (ls_mesh){ .n = 1, .axes = { { "dp", j->ranks } } };
    o.parallel.rank = me;
    for (int i = 0; i < ROWS; i++)
        all += count[i];
    ls_trainer *t;
    result *out = calloc(1, sizeof *out);
    LS_TRY(ls_trainer_create_with(&t, build, &MODEL, &o));
    const ls_status s = step(t, ids[me * share], targets[me * share], all, out);
    if (me == 0)
        j->out = *out;
    free(out);
    ls_trainer_destroy(&t);
    return s;
}

static void uneven_targets(void **state)
{
    (void)state;
    static result want;
    static job j;
    double largest = 0;
    int few = ROWS, many = 0;
    by_hand(&want);
    for (int k = 0; k < want.n; k++)
        largest = fmax(largest, fabs(want.gradient[k]));
    for (int i = 0; i < ROWS; i++) {
        few = count[i] < few ? (int)count[i] : few;
        many = count[i] > many ? (int)count[i] : many;
    }
    assert_true(few == 2 && many == 32 && largest > 0.01);
    for (int ranks = 1; ranks <= 4; ranks *= 2)
        for (int micro_batch = 1; micro_batch <= 4; micro_batch *= 2) {
            j = (job){ .ranks = ranks, .micro_batch = micro_batch };
            ASSERT_OK(run_ranks(ranks, rank, &j));
            assert_true(fabs(j.out.loss - want.loss) < 1e-6 * want.loss);
            for (int k = 0; k < want.n; k++)
                if (!(fabs(j.out.gradient[k] - want.gradient[k]) < 1e-6 * largest))
                    fail_msg("%d ranks, micro_batch %d: element %d of the gradient is %.9g, not %.9g", ranks,
                             micro_batch, k, j.out.gradient[k], want.gradient[k]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(uneven_targets) };
    return cmocka_run_group_tests(tests, make_rows, NULL);
}
