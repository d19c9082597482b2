/* loop.c - the training loop. Every rank runs it. All numbers that decide something (losses, evaluations,
 * requests) are the same on all ranks. */
#include "loop.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/code_hash.h"
#include "base/log.h"
#include "base/file.h"
#include "base/str.h"
#include "base/sys.h"
#include "comm/comm.h"
#include "digests.h"
#include "early_stopping.h"
#include "epoch_end.h"
#include "recipe/recipe_setting.h"
#include "skips.h"

static const double SAVED_A_SECOND =
    100e6; /* bytes: a guess of the disk's speed, used until the first save */

/* The requests to this rank, before step `b`. */
static uint32_t take_requests(ls_loop *l, const ls_loader_step *b)
{
    /* until the first evaluation: as long as training on its samples would take */
    if (l->eval && l->run->eval_seconds == 0)
        l->requests.evaluation = l->requests.step * (double)l->eval->n /
                                 (double)l->recipe->train.global_batch;
    if (l->snapshots.took > 0)
        ls_requests_saved(&l->requests, l->snapshots.took);
    const bool last = l->step + 3 > l->total_steps;
    const int64_t every = l->recipe->eval.every_steps;
    const bool ends = last || b->step + 3 > l->steps_per_epoch,
               within = l->eval && every > 0 && (l->step + 3) / every > l->step / every;
    return ls_requests_take(&l->requests, within || (ends && ls_epoch_evaluates(l, b->epoch, l->step, last)));
}

/* Before the first work of this attempt: a step, or the evaluation that an earlier attempt did not end. */
static ls_status loop_begin(ls_loop *l)
{
    if (l->started)
        l->started(l);
    l->started = NULL;
    char layout[LS_LAYOUT_BYTES];
    const ls_compiled *c = &l->trainer->compiled;
    ls_setup_bits_layout(layout, l->recipe, c);
    const ls_run_build build = { .code = ls_code_hash(NULL),
                                 .device = ls_device_bits(c->device.ops->name),
                                 .isa = c->device.arch->name,
                                 .layout = layout,
                                 .ranks = ls_mesh_ranks(&c->parallel.mesh) };
    LS_TRY(ls_rundir_trained_by(l->run, &build, l->step));
    return ls_rundir_save_result(l->run, LS_RUN_RUNNING, NULL);
}

static ls_status one_step(ls_loop *l, const ls_loader_step *b, ls_epoch_sum *sum)
{
    double lr = ls_schedule_rate(&l->setup->schedule, l->setup->lr, l->step);
    ls_step_result r = { .skip = LS_SKIP_NONE };
    if (l->step == l->from.step)
        LS_TRY(loop_begin(l));
    if (l->group) { /* for messages about ranks that do not come */
        char doing[32];
        snprintf(doing, sizeof doing, "step %lld", (long long)(l->step + 1));
        ls_group_doing(l->group, doing);
    }
    double start = ls_now();
    ls_status s = ls_trainer_step_from(l->trainer, b, lr, &r);
    if (s == LS_E_PEER)
        return s; /* its message says what the other rank did */
    if (s != LS_OK)
        return ls_skips_failed(l, s, b->epoch, &r);
    double seconds = ls_now() - start;
    if (l->step == l->from.step)
        l->first_step_seconds = seconds;
    l->seconds[(l->step++ - l->from.step) % LS_LOOP_TIMES] = seconds;
    l->requests.step = fmax(l->requests.step, seconds);
    const int64_t meant = r.skip == LS_SKIP_LOSS ? 0 : r.count; /* targets of a loss that is a number */
    sum->loss += meant ? r.loss * (double)meant : 0;
    sum->count += meant;
    sum->targets = sum->targets || r.count;
    sum->skipped += r.skipped;
    sum->samples += b->samples;
    sum->replaced += b->replaced;
    ls_step_row row = { .step = l->step,
                        .epoch = b->epoch,
                        .samples = b->samples,
                        .targets = ls_dataset_is_text(l->train) ? r.count : 0,
                        .loss = (float)r.loss,
                        .lr = lr,
                        .seconds = seconds,
                        .grad_norm = r.grad_norm,
                        .loss_scale = r.loss_scale,
                        .skipped = r.skipped,
                        .nonfinite = r.skip < LS_SKIP_LOSS ? NULL : ls_skip_name(r.skip) };
    ls_skips_note(l, b->epoch, &r);
    LS_TRY(ls_metrics_step(l->run, &row));
    char loss[32];
    if (l->step % l->recipe->log.every == 0 || l->step == l->from.step + 1)
        ls_log_info("epoch %lld  step %*lld/%lld  %s  lr %.3g  %6.1f ms  %6.0f %s/s%s%s%s",
                    (long long)b->epoch, ls_digits(l->total_steps), (long long)l->step,
                    (long long)l->total_steps,
                    r.skip == LS_SKIP_LOSS && isnan(r.loss) ? "loss nan" : ls_loss_text(loss, r.loss), lr,
                    1e3 * seconds, (double)r.count / seconds,
                    ls_dataset_is_text(l->train)           ? "tokens"
                    : ls_dataset_field(l->train, "images") ? "images"
                                                           : "samples",
                    r.skipped ? "  (skipped: " : "", ls_skip_name(r.skip), r.skipped ? ")" : "");
    return LS_OK;
}

static void loop_show(const ls_loop *l, const ls_loader_step *b, double start)
{
    if (!l->ui || !l->ui->progress)
        return;
    char what[48], note[32];
    snprintf(what, sizeof what, "epoch %lld of 0-%lld", (long long)b->epoch,
             (long long)l->recipe->train.epochs - 1);
    l->ui->progress(l->ui->context,
                    &(ls_progress){ .what = what,
                                    .done = l->step,
                                    .total = l->total_steps,
                                    .unit = "steps",
                                    .rate = (double)(l->step - l->from.step) / (ls_now() - start),
                                    .note = ls_loss_text(note, l->run->metrics.loss) });
}

/* Says why training has ended. */
static void end(const ls_loop *l)
{
    ls_run_metrics *m = &l->run->metrics;
    if (l->step < l->total_steps) {
        ls_early_stopping_text(l->run->ended, sizeof l->run->ended, m, l->recipe);
        ls_log_info("%s; %lld of %lld steps are done", l->run->ended, (long long)l->step,
                    (long long)l->total_steps);
    } else {
        snprintf(l->run->ended, sizeof l->run->ended, "all %lld steps are done", (long long)l->total_steps);
    }
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void find_median(ls_loop *l)
{
    const int64_t done = l->step - l->from.step;
    if (done < 1)
        return;
    int64_t kept = done < LS_LOOP_TIMES ? done : LS_LOOP_TIMES;
    int first = kept == done && kept > 1; /* leaves out the first step, which takes page faults */
    double *rest = l->seconds + first;
    int64_t n = kept - first;
    qsort(rest, (size_t)n, sizeof *rest, by_value);
    l->step_median = rest[n / 2];
    l->run->step_median = l->step_median;
}

/* What follows a step that may end an epoch, or the run. */
static ls_status after_step(ls_loop *l, int64_t epoch, ls_epoch_sum *sum, bool whole, bool last)
{
    const int64_t every = l->recipe->checkpoint.every_steps;
    bool saved = false;
    if (whole || last) {
        if (l->ui && l->ui->progress)
            l->ui->progress(l->ui->context, NULL);
        LS_TRY(ls_epoch_end(l, epoch, sum, whole, last));
        *sum = ls_epoch_begin();
    } else if (ls_epoch_is_due(l, l->step)) {
        if (l->ui && l->ui->progress)
            l->ui->progress(l->ui->context, NULL);
        LS_TRY(ls_epoch_within(l, epoch, sum, &saved));
    }
    return every > 0 && l->step % every == 0 && !saved ? ls_loop_save(l, sum, epoch, NULL, false) : LS_OK;
}

/* An earlier attempt was stopped in the evaluation at the end of an epoch: ends that epoch. */
static ls_status end_epoch_before(ls_loop *l, ls_epoch_sum *sum)
{
    LS_TRY(loop_begin(l));
    sum->targets = true; /* that attempt has looked */
    return after_step(l, l->from.epoch, sum, l->from.epoch_step == l->steps_per_epoch,
                      l->step >= l->total_steps);
}

static ls_status steps(ls_loop *l, ls_loader *loader)
{
    ls_epoch_sum sum = ls_epoch_begin();
    const double start = l->began = sum.began;
    sum.loss = l->from.sums.loss;
    sum.samples = l->from.sums.samples;
    sum.count = l->from.sums.count;
    sum.skipped = l->from.sums.skipped;
    sum.replaced_before = l->from.sums.replaced;
    sum.start -= l->from.sums.seconds;
    if (ls_resume_ending(&l->from, l->total_steps))
        LS_TRY(end_epoch_before(l, &sum));
    else if (ls_epoch_is_due(l, l->from.step) && l->from.epoch_step > 0 &&
             l->run->metrics.eval_step != l->from.step) {
        /* the same of an evaluation of eval.every_steps */
        bool saved = false;
        LS_TRY(loop_begin(l));
        LS_TRY(ls_epoch_within(l, l->from.epoch, &sum, &saved));
    }
    while (l->step < l->total_steps && !ls_early_stopping_due(&l->run->metrics, l->recipe)) {
        ls_loader_step b;
        bool done, writing;
        const double before = ls_now();
        LS_TRY(ls_loader_next(loader, &b, &done));
        sum.waited += ls_now() - before;
        if (done)
            break;
        LS_TRY(ls_profiler_before(&l->profiler, l->trainer, l->step + 1, l->step - l->from.step));
        LS_TRY(ls_snapshots_before_step(&l->snapshots, l->run, &writing));
        l->trainer->request = (l->group ? take_requests(l, &b) : 0) | (writing ? LS_REQUEST_WAIT : 0);
        LS_TRY(one_step(l, &b, &sum));
        LS_TRY(ls_loop_digests(l, b.epoch, false));
        LS_TRY(
            ls_snapshots_after_step(&l->snapshots, l->run, (l->trainer->requested & LS_REQUEST_WAIT) != 0));
        LS_TRY(ls_profiler_after(&l->profiler, l->trainer, l->run, l->calibration, l->ui->out, l->step,
                                 l->step - l->from.step - 1));
        loop_show(l, &b, start);
        ls_loop_beat(l, "training", l->step == l->from.step + 1);
        l->run->train_seconds = ls_now() - start;
        const bool last = l->step == l->total_steps;
        LS_TRY(after_step(l, b.epoch, &sum, b.step + 1 == l->steps_per_epoch, last));
        if (last)
            continue;
        /* one rank need not exchange requests with a step, so it takes them after it */
        const uint32_t asked = l->group ? l->trainer->requested : take_requests(l, &b);
        LS_TRY(ls_loop_answer(l, &sum, b.epoch, asked | (l->step == l->until ? LS_REQUEST_STOP : 0)));
    }
    return ls_snapshots_finish(&l->snapshots, l->run);
}

static ls_status check_evaluation(const ls_loop *l)
{
    const ls_status s = ls_evaluate_check(l->trainer, l->eval);
    return s == LS_E_USAGE ? ls_fail_in(s, "%s", ls_recipe_where(l->recipe, "eval.batch")) : s;
}

ls_status ls_loop_run(ls_loop *l)
{
    ls_order order = ls_setup_order(l->recipe, l->train);
    LS_TRY(ls_trainer_check_data(l->trainer, l->train));
    if (l->eval) /* before the first step, not behind the last one of an epoch */
        LS_TRY(check_evaluation(l));
    if (l->until && l->until <= l->from.step)
        return ls_fail(LS_E_USAGE, "--until %lld: the run continues behind step %lld", (long long)l->until,
                       (long long)l->from.step);
    l->seconds = ls_sys_malloc(sizeof(double) * LS_LOOP_TIMES);
    if (!l->seconds)
        return ls_fail(LS_E_MEMORY, "out of memory for the times of steps");
    l->step = l->compared = l->from.step;
    l->setup->schedule.cuts = l->from.metrics.plateau_cuts;
    LS_TRY(ls_requests_init(&l->requests, l->ui, l->recipe, l->run->rank,
                            (double)ls_trainer_bytes(l->trainer) / SAVED_A_SECOND));
    ls_loader *loader;
    LS_TRY(ls_loader_create(&loader, l->train, &order, .epoch = ls_resume_epoch(&l->from, l->step),
                            .step = ls_resume_epoch_step(&l->from, l->step),
                            .epochs = l->recipe->train.epochs, .share = l->setup->share,
                            .deadline = l->recipe->failure.stall_seconds));
    ls_status s = steps(l, loader);
    if (s == LS_OK)
        s = ls_skips_end(l);
    if (s == LS_OK)
        s = ls_profiler_end(&l->profiler, l->trainer, l->run, l->calibration, l->ui->out,
                            l->step); /* the loop ended before profile_last */
    /* first of all, so that the other ranks report this failure and not its consequences */
    if (s != LS_OK && s != LS_E_STOPPED && s != LS_E_PEER && l->group)
        ls_group_fail(l->group, s, ls_error_message());
    if (s != LS_OK)
        ls_snapshots_abandon(&l->snapshots, l->run);
    ls_loader_destroy(&loader);
    if (l->ui && l->ui->progress)
        l->ui->progress(l->ui->context, NULL);
    find_median(l);
    if (s == LS_OK)
        end(l);
    if (s == LS_OK || s == LS_E_STOPPED) /* after a failure it says what the rank did last */
        ls_loop_beat(l, s == LS_OK ? "finished" : "stopped", true);
    return s;
}
