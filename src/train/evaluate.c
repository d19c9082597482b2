/* evaluate.c - one pass over a split. */
#include "evaluate.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"

typedef struct sums { __int128 loss; int64_t correct, samples; } sums;

static ls_status add_batch(sums *s, int64_t batch, const int32_t *labels, const float *loss, const int32_t *predicted, int64_t first)
{
    for (int64_t i = 0; i < batch; i++) {
        if (labels[i] == LS_IGNORE_LABEL)
            continue;
        if (!(fabsf(loss[i]) < 0x1p40f)) /* NaN too; the sum of 2^26 such fits */
            return ls_fail(LS_E_NUMERIC, "evaluation: the loss of sample %lld is %g; the weights are damaged or training diverged",
                           (long long)(first + i), (double)loss[i]);
        s->loss += (__int128)ldexp((double)loss[i], 60);
        s->correct += predicted[i] == labels[i];
        s->samples++;
    }
    return LS_OK;
}

ls_status ls_evaluate(ls_trainer *t, const ls_dataset *set, int64_t batch, const ls_ui *ui, ls_eval_result *out)
{
    double start = ls_now();
    ls_order order = { .n = set->n, .global_batch = batch, .micro_batch = batch, .shuffle = false, .drop_last = false };
    LS_TRY(ls_order_check(&order));
    int64_t steps = ls_order_steps(&order);
    float *loss = malloc(sizeof *loss * (size_t)batch);
    int32_t *predicted = malloc(sizeof *predicted * (size_t)batch);
    ls_loader *loader = NULL;
    sums s = { 0 };
    bool done = false;
    ls_status status = loss && predicted ? ls_loader_create(&loader, set, &order, .epochs = 1) : ls_fail(LS_E_MEMORY, "out of memory for evaluation");
    for (int64_t k = 0; k < steps && status == LS_OK; k++) {
        ls_loader_step b;
        LS_TRY_TO(status, ls_loader_next(loader, &b, &done), end);
        LS_TRY_TO(status, ls_trainer_eval(t, b.images, b.labels, loss, predicted, NULL), end);
        LS_TRY_TO(status, add_batch(&s, batch, b.labels, loss, predicted, k * batch), end);
        if (ui && ui->progress)
            ui->progress(ui->context, &(ls_progress){ .what = "evaluating", .done = s.samples, .total = set->n, .unit = "samples",
                                                      .rate = (double)s.samples / (ls_now() - start) });
    }
    if (status == LS_OK)
        *out = (ls_eval_result){ .loss = ldexp((double)s.loss, -60) / (double)s.samples, .accuracy = (double)s.correct / (double)s.samples,
                                 .seconds = ls_now() - start, .samples = s.samples, .correct = s.correct };
end:
    if (ui && ui->progress)
        ui->progress(ui->context, NULL);
    ls_loader_destroy(&loader);
    free(loss);
    free(predicted);
    return status;
}
