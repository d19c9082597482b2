/* evaluate.c - one pass over a split. The ranks share its samples. */
#include "evaluate.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/sys.h"
#include "comm/axes.h"
#include "trainer.h"

typedef struct sums {
    __int128 loss; /* in units of 2^-60 */
    int64_t correct, count, samples;
    /* The first sample whose loss is NaN, infinite or too large for the sum; INT64_MAX: none. */
    int64_t wild;
    double wild_loss;
} sums;

/* Adds the `each` targets of a sample. A rank continues after a wild loss, because the others wait for it in
 * the next batch. */
static void add_sample(sums *s, int64_t sample, int64_t each, const int32_t *targets, const float *loss,
                       const int32_t *predicted)
{
    for (int64_t i = 0; i < each; i++) {
        if (targets[i] == LS_IGNORE_LABEL)
            continue;
        if (fabsf(loss[i]) < 0x1p32f) { /* a sum of 2^34 such losses fits in 128 bits */
            s->loss += (__int128)ldexp((double)loss[i], 60);
            s->correct += predicted[i] == targets[i];
            s->count++;
        } else if (sample < s->wild) {
            s->wild = sample;
            s->wild_loss = (double)loss[i];
        }
    }
    s->samples++;
}

static void add_batch(sums *s, const ls_order *order, int64_t step, int64_t m, int64_t each,
                      const int32_t *targets, const float *loss, const int32_t *predicted)
{
    for (int64_t row = 0; row < order->micro_batch; row++) {
        const int64_t sample = ls_order_sample(order, 0, step, m, row);
        if (sample >= 0)
            add_sample(s, sample, each, targets + row * each, loss + row * each, predicted + row * each);
    }
}

/* Adds the sums of all ranks. They are integers, so the result does not depend on which rank had which
 * sample. */
static ls_status combine(sums *s, ls_group *group, const ls_mesh *mesh)
{
    int ranks = ls_group_size(group);
    sums *all = ls_sys_malloc(sizeof *all * (size_t)ranks), total = { .wild = INT64_MAX };
    if (!all)
        return ls_fail(LS_E_MEMORY, "out of memory for the sums of %d ranks", ranks);
    ls_status status = ls_group_all_gather(group, s, sizeof *s, all);
    for (int r = 0; r < ranks && status == LS_OK; r++) {
        if (ls_mesh_position(mesh, r, ls_mesh_model_axes(mesh)) > 0)
            continue; /* it computed the same samples as position 0 of its model axes */
        total.loss += all[r].loss;
        total.correct += all[r].correct;
        total.count += all[r].count;
        total.samples += all[r].samples;
        if (all[r].wild < total.wild) {
            total.wild = all[r].wild;
            total.wild_loss = all[r].wild_loss;
        }
    }
    free(all);
    if (status == LS_OK)
        *s = total;
    return status;
}

static ls_status result(const sums *s, double start, ls_eval_result *out)
{
    if (s->wild != INT64_MAX)
        return ls_fail(
            LS_E_NUMERIC,
            "evaluation: the loss of sample %lld is %g; the weights are damaged or training diverged",
            (long long)s->wild, s->wild_loss);
    *out = (ls_eval_result){ .loss = ldexp((double)s->loss, -60) / (double)s->count,
                             .accuracy = (double)s->correct / (double)s->count,
                             .seconds = ls_now() - start,
                             .samples = s->samples,
                             .count = s->count,
                             .correct = s->correct };
    return LS_OK;
}

static void show(const ls_ui *ui, int64_t done, int64_t total, double start)
{
    if (ui && ui->progress)
        ui->progress(ui->context, &(ls_progress){ .what = "evaluating",
                                                  .done = done < total ? done : total,
                                                  .total = total,
                                                  .unit = "samples",
                                                  .rate = (double)done / (ls_now() - start) });
}

ls_status ls_evaluate(ls_trainer *t, const ls_dataset *set, int64_t batch, const ls_ui *ui,
                      ls_eval_result *out)
{
    double start = ls_now();
    const ls_mesh *mesh = &t->compiled.parallel.mesh;
    const int64_t ranks = ls_mesh_data_ranks(mesh), rank = ls_mesh_data_rank(mesh, t->compiled.parallel.rank);
    ls_order order = {
        .n = set->n, .global_batch = batch * ranks, .micro_batch = batch, .shuffle = false, .drop_last = false
    };
    LS_TRY(ls_trainer_check_data(t, set));
    LS_TRY(ls_order_check(&order));
    int64_t steps = ls_order_steps(&order), each = ls_type_count(&set->target);
    float *loss = ls_sys_malloc(sizeof *loss * (size_t)(batch * each));
    int32_t *predicted = ls_sys_malloc(sizeof *predicted * (size_t)(batch * each));
    ls_loader *loader = NULL;
    sums s = { .wild = INT64_MAX };
    bool done = false;
    ls_status status = loss && predicted
                           ? ls_loader_create(&loader, set, &order, .epochs = 1, .share = { rank, ranks, 1 })
                           : ls_fail(LS_E_MEMORY, "out of memory for evaluation");
    for (int64_t k = 0; k < steps && status == LS_OK; k++) {
        ls_loader_step b;
        LS_TRY_TO(status, ls_loader_next(loader, &b, &done), end);
        LS_TRY_TO(status, ls_trainer_eval(t, b.inputs, b.targets, loss, predicted, NULL), end);
        add_batch(&s, &order, k, rank, each, b.targets, loss, predicted);
        show(ui, (k + 1) * order.global_batch, set->n, start);
    }
    if (status == LS_OK && t->group)
        status = combine(&s, t->group, mesh);
    if (status == LS_OK)
        status = result(&s, start, out);
end:
    if (ui && ui->progress)
        ui->progress(ui->context, NULL);
    ls_loader_destroy(&loader);
    free(loss);
    free(predicted);
    return status;
}
