/* test_class_weights.c - weights of classes with label smoothing, against PyTorch's
 * CrossEntropyLoss(weight=w, label_smoothing=0.1): two steps of SGD and an evaluation. One label does not
 * count, and one class has weight 0. */
#include <math.h>

#include "data/weighted_set.h"
#include "lockstep/models.h"
#include "lockstep/nn.h"
#include "models/classifier.h"
#include "step/trainer.h"
#include "support/ranks.h"
#include "support/support.h"

enum { N = 8, IN = 3, CLASSES = 4, MICRO = 2 };

static const double LOSSES[2] = { 1.9042823506331144, 1.697840129679476 }, EVALUATION = 1.5229781489433933,
                    WEIGHT[CLASSES * IN] = { 0.8473594831702149,  0.47330650734695867, -0.6361122515465112,
                                             -0.7860657782765975, 0.07982916718761114, 0.6942021598586088,
                                             0.27623066059592827, -0.7903491595903553, -0.6617874671001523,
                                             0.4818445333790151,  1.1267803535994103,  0.26024482205271077 },
                    BIAS[CLASSES] = { 0.6053308310358967, -0.5481117680177436, -0.12284579648675115,
                                      0.9286731076405705 };

static void wave(float *out, int n, double k)
{
    for (int i = 0; i < n; i++)
        out[i] = (float)sin(k * (i + 1));
}

static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    (void)config;
    ls_classifier_outputs(g, ls_linear(g, "fc", ls_input(g, "x", LS_TYPE(LS_F32, batch, IN)), CLASSES),
                          &(ls_classifier_loss){ .label_smoothing = 0.1, .class_weights = true });
    return ls_graph_finish(g);
}

static ls_status make_set(ls_dataset **set)
{
    static const int32_t LABELS[N] = { 0, 1, 2, 3, 0, LS_IGNORE_LABEL, 3, 1 };
    static const double W[CLASSES] = { 0.5, 2, 0, 3 };
    float x[N * IN];
    wave(x, N * IN, 0.7);
    const ls_type types[] = { LS_TYPE(LS_F32, N, IN), LS_TYPE(LS_I32, N) };
    const ls_tensor t[] = { ls_tensor_of(x, &types[0]), ls_tensor_of((void *)(uintptr_t)LABELS, &types[1]) };
    LS_TRY(ls_dataset_put(set, "x", &t[0]));
    LS_TRY(ls_dataset_put(set, "labels", &t[1]));
    return ls_weighted_open(set, "labels", "labels.class_weight", "labels.class_weights", CLASSES, W);
}

typedef struct job {
    int ranks;
    double losses[2], evaluation;
    float weight[CLASSES * IN], bias[CLASSES];
} job;

static ls_status train(job *j, ls_trainer *t, const ls_dataset *set)
{
    const ls_type types[] = { LS_TYPE(LS_F32, CLASSES, IN), LS_TYPE(LS_F32, CLASSES) };
    const ls_tensor weight = ls_tensor_of(j->weight, &types[0]), bias = ls_tensor_of(j->bias, &types[1]);
    const ls_order order = { .n = N, .global_batch = N, .micro_batch = MICRO };
    ls_loader *loader;
    ls_metric metrics[4];
    int n;
    wave(j->weight, CLASSES * IN, 1.3);
    wave(j->bias, CLASSES, 2.1);
    LS_TRY(ls_trainer_init(t, 1));
    LS_TRY(ls_trainer_set(t, "fc.weight", &weight));
    LS_TRY(ls_trainer_set(t, "fc.bias", &bias));
    LS_TRY(ls_loader_create(&loader, set, &order, .share = t->compiled.share));
    ls_status s = LS_OK;
    for (int k = 0; k < 2 && s == LS_OK; k++) {
        ls_loader_step b;
        ls_step_result r = { 0 };
        bool done;
        s = ls_loader_next(loader, &b, &done);
        if (s == LS_OK)
            s = ls_trainer_step_from(t, &b, 0.5, &r);
        j->losses[k] = r.loss;
    }
    ls_loader_destroy(&loader);
    LS_TRY(s);
    LS_TRY(ls_trainer_get(t, "fc.weight", &weight));
    LS_TRY(ls_trainer_get(t, "fc.bias", &bias));
    LS_TRY(ls_trainer_evaluate(t, set, metrics, 4, &n));
    j->evaluation = metrics[0].value;
    return LS_OK;
}

static ls_status rank(ls_group *g, void *context)
{
    job *j = context, mine = *j;
    ls_dataset *set = NULL;
    ls_trainer *t = NULL;
    ls_trainer_opts o = { LS_TRAINER_DEFAULTS };
    o.device = "cpu";
    o.threads = 1;
    o.micro_batch = MICRO;
    o.micro_batches = N / MICRO;
    o.optimizer.kind = LS_SGD;
    o.parallel.mesh.axes[0].size = j->ranks;
    o.parallel.rank = ls_group_rank(g);
    o.group = g;
    LS_TRY(make_set(&set));
    ls_status s = ls_trainer_create_with(&t, build, NULL, &o);
    if (s == LS_OK)
        s = train(&mine, t, set);
    ls_trainer_destroy(&t);
    ls_dataset_close(&set);
    if (ls_group_rank(g) == 0)
        *j = mine;
    return s;
}

static void near(double is, double should)
{
    if (!(fabs(is - should) < 2e-6))
        fail_msg("%.9g in place of %.9g", is, should);
}

static void smoothed_as_in_pytorch(void **state)
{
    (void)state;
    job first = { .ranks = 1 };
    for (int ranks = 1; ranks <= 4; ranks *= 2) {
        job j = { .ranks = ranks };
        ASSERT_OK(run_ranks(ranks, rank, &j));
        for (int i = 0; i < 2; i++)
            near(j.losses[i], LOSSES[i]);
        near(j.evaluation, EVALUATION);
        for (int i = 0; i < CLASSES * IN; i++)
            near((double)j.weight[i], WEIGHT[i]);
        for (int i = 0; i < CLASSES; i++)
            near((double)j.bias[i], BIAS[i]);
        if (ranks == 1)
            first = j;
        j.ranks = 1;
        assert_memory_equal(j.weight, first.weight, sizeof j.weight); /* the same bits on any ranks */
        assert_true(j.losses[1] == first.losses[1] && j.evaluation == first.evaluation);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(smoothed_as_in_pytorch) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
