/* loop.c - the training loop. Every rank runs it. All numbers that decide something (losses, evaluations,
 * requests) are the same on all ranks. */
#include "loop.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/file.h"
#include "base/str.h"
#include "base/sys.h"
#include "comm/axes.h"
#include "comm/comm.h"
#include "comm/group_calls.h"
#include "early_stopping.h"
#include "record/heartbeat.h"
#include "skips.h"
#include "base/memory.h"

static const double SAVED_A_SECOND =
    100e6; /* bytes: a guess of the disk's speed, used until the first save */

/* Sums over the running epoch. `start` is when the epoch would have begun, had one process run all of it. */
typedef struct epoch_sum {
    double loss; /* sum over `count` targets */
    int64_t samples, count, skipped; /* skipped: steps that changed no weight */
    bool targets;                    /* a step of this attempt had some that count */
    double start;     /* on the clock of ls_now */
    int64_t replaced; /* by this rank's loader, since the attempt began */
    double waited;    /* seconds for this rank's loader, since then */
} epoch_sum;

/* Whether the epoch ends with an evaluation. `last`: training ends with it. */
static bool evaluates(const ls_loop *l, int64_t epoch, bool last)
{
    const int64_t every = l->recipe->eval.every_epochs;
    return l->eval && (last || (every > 0 && (epoch + 1) % every == 0));
}

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
    return ls_requests_take(&l->requests, (last || b->step + 3 > l->steps_per_epoch) &&
                                              evaluates(l, b->epoch, last));
}

static int digits(int64_t n) { return snprintf(NULL, 0, "%lld", (long long)n); }

static bool is_text(const ls_dataset *set)
{
    const ls_field *targets = ls_dataset_field(set, "targets");
    return targets && targets->type.ndim > 0 && targets->type.dtype == LS_I32;
}

/* "loss 0.1234", or "no loss" where it has no value. */
static const char *loss_text(char out[32], double loss)
{
    if (isnan(loss))
        return "no loss";
    ls_snprintf(out, 32, "loss %.4f", loss);
    return out;
}

static bool is_images(const ls_dataset *set) { return ls_dataset_field(set, "images"); }

static ls_status one_step(ls_loop *l, const ls_loader_step *b, epoch_sum *sum)
{
    double lr = ls_schedule_rate(&l->setup->schedule, l->setup->lr, l->step);
    ls_step_result r = { .skip = LS_SKIP_NONE };
    if (l->step == l->from.step) {
        if (l->started)
            l->started(l);
        LS_TRY(ls_rundir_save_result(l->run, LS_RUN_RUNNING, NULL));
    }
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
                        .targets = is_text(l->train) ? r.count : 0,
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
                    (long long)b->epoch, digits(l->total_steps), (long long)l->step,
                    (long long)l->total_steps,
                    r.skip == LS_SKIP_LOSS && isnan(r.loss) ? "loss nan" : loss_text(loss, r.loss), lr,
                    1e3 * seconds,
                    (double)r.count / seconds,
                    is_text(l->train)     ? "tokens"
                    : is_images(l->train) ? "images"
                                          : "samples",
                    r.skipped ? "  (skipped: " : "", ls_skip_name(r.skip), r.skipped ? ")" : "");
    return LS_OK;
}

static void show(const ls_loop *l, const ls_loader_step *b, double start)
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
                                    .note = loss_text(note, l->run->metrics.loss) });
}

/* What this rank does, for `lockstep watch`. */
static void beat(const ls_loop *l, const char *doing, bool now)
{
    ls_heartbeat h = { .ranks = l->group ? ls_group_size(l->group) : 1,
                       .step = l->step,
                       .steps = l->total_steps,
                       .seconds = ls_now() - l->began,
                       .waited = ls_session_ledger(l->trainer->session).waited,
                       .planned = (int64_t)ls_trainer_bytes(l->trainer) };
    snprintf(h.doing, sizeof h.doing, "%s", doing);
    ls_heartbeat_write(l->run, &h, now);
}

/* Saves a checkpoint. `ended` is the row of the epoch that ended with this step; then `sum` is not stored. */
static ls_status snapshot(ls_loop *l, const epoch_sum *sum, int64_t epoch, const ls_epoch_row *ended,
                          bool best)
{
    ls_resume_point at = { .step = l->step,
                           .epoch = ls_resume_epoch(&l->from, l->step),
                           .epoch_step = ls_resume_epoch_step(&l->from, l->step),
                           .steps_per_epoch = l->steps_per_epoch,
                           .base_step = l->from.base_step,
                           .base_epoch = l->from.base_epoch,
                           .metrics = l->run->metrics,
                           .ended = ended,
                           .train = l->train,
                           .eval = l->eval };
    if (at.epoch_step > 0) {
        at.sums.loss = sum->loss;
        at.sums.samples = sum->samples;
        at.sums.count = sum->count;
        at.sums.skipped = sum->skipped;
        at.sums.seconds = ls_now() - sum->start;
    }
    return ls_snapshot_save(&l->snapshots, l->trainer, l->recipe, l->run, &at, epoch, best);
}

static bool saves(const ls_loop *l) { return l->recipe->checkpoint.every_epochs >= 0; }

/* Answers requests in a run that saves nothing (checkpoint.every_epochs: -1). */
static ls_status answer_unsaved(ls_loop *l, uint32_t asked)
{
    char reason[128];
    ls_requests_answered(&l->requests);
    if (!(asked & (LS_REQUEST_STOP | LS_REQUEST_TIME))) {
        ls_log_warn("nothing is saved on request: checkpoint.every_epochs is -1");
        return LS_OK;
    }
    LS_TRY(ls_rundir_save_result(l->run, LS_RUN_STOPPING, NULL));
    ls_requests_reason(reason, &l->requests, asked);
    return ls_fail(LS_E_STOPPED,
                   "stopped after step %lld of %lld %s; nothing is saved, because checkpoint.every_epochs "
                   "is -1: the next start begins with step 1",
                   (long long)l->step, (long long)l->total_steps, reason);
}

/* Answers the requests after a step: saves, and ends the loop (LS_E_STOPPED) if that was requested. */
static ls_status answer(ls_loop *l, const epoch_sum *sum, int64_t epoch, uint32_t asked)
{
    char reason[128];
    const bool stop = asked & (LS_REQUEST_STOP | LS_REQUEST_TIME);
    if (!stop && !(asked & LS_REQUEST_SAVE))
        return LS_OK;
    if (!saves(l))
        return answer_unsaved(l, asked);
    if (stop)
        LS_TRY(ls_rundir_save_result(l->run, LS_RUN_STOPPING, NULL));
    LS_TRY(snapshot(l, sum, epoch, NULL, false));
    LS_TRY(ls_snapshots_finish(&l->snapshots, l->run));
    ls_requests_answered(&l->requests);
    if (!stop) {
        ls_log_info("saved after step %lld of %lld on request: %s/latest", (long long)l->step,
                    (long long)l->total_steps, l->snapshots.dir);
        return LS_OK;
    }
    ls_requests_reason(reason, &l->requests, asked);
    return ls_fail(
        LS_E_STOPPED,
        "stopped after step %lld of %lld %s; everything is saved in %s/latest: start it again to continue",
        (long long)l->step, (long long)l->total_steps, reason, l->snapshots.dir);
}

/* The evaluation in the line of its epoch. */
static void describe(ls_str *out, const ls_loop *l, const ls_eval_result *e, const ls_rouge_mean *rouge)
{
    char loss[32];
    ls_str_printf(out, "  eval %s", loss_text(loss, e->loss));
    if (isnan(e->loss))
        ls_str_printf(out, " (%s)", ls_evaluate_why(e, "loss"));
    if (is_text(l->eval) && !isnan(e->loss) && isnan(ls_evaluation_get(&e->metrics, "perplexity")))
        ls_str_printf(out, "  perplexity %.4g", exp(e->loss));
    for (int i = 1; i < e->metrics.n; i++)
        if (isnan(e->metrics.at[i].value))
            ls_str_printf(out, "  no %s", e->metrics.at[i].name);
        else if (!strcmp(e->metrics.at[i].name, "accuracy"))
            ls_str_printf(out, "  accuracy %.2f%% (%lld of %lld)", 100 * e->accuracy, (long long)e->correct,
                          (long long)e->count);
        else
            ls_str_printf(out, "  %s %.4g", e->metrics.at[i].name, e->metrics.at[i].value);
    if (rouge->texts)
        ls_str_printf(out, "  rouge1 %.4f  rouge2 %.4f  rougeL %.4f", rouge->mean.rouge1, rouge->mean.rouge2,
                      rouge->mean.rougeL);
}

/* How many samples of the epoch all ranks replaced because they were broken, since this attempt began. */
static ls_status count_replaced(const ls_loop *l, const epoch_sum *sum, int64_t epoch, int64_t *out)
{
    *out = sum->replaced;
    if (l->group && l->recipe->data.on_error == LS_ON_ERROR_SKIP) {
        const ls_mesh *mesh = &l->trainer->compiled.parallel.mesh;
        int64_t *all = ls_sys_malloc(sizeof *all * (size_t)ls_group_size(l->group));
        LS_TRY(ls_sys_have(all));
        const ls_status s = ls_group_all_gather_same(l->group, &sum->replaced, sizeof *all, all);
        *out = 0;
        for (int r = 0; r < ls_group_size(l->group) && s == LS_OK; r++)
            if (ls_mesh_position(mesh, r, ls_mesh_model_axes(mesh)) == 0)
                *out += all[r]; /* the others of its model axes read the same samples */
        free(all);
        LS_TRY(s);
    }
    if (*out)
        ls_log_warn("epoch %lld: %lld broken pictures were replaced by others", (long long)epoch,
                    (long long)*out);
    return LS_OK;
}

/* Whether an epoch that evaluated, or did not, has measured the metric of checkpoint.best. */
static bool measures_best(const ls_loop *l, bool evaluated)
{
    const char *metric = l->recipe->checkpoint.best.metric;
    return !strcmp(metric, "train_loss") || (evaluated && (l->generate || strncmp(metric, "eval_rouge", 10)));
}

/* The metric of checkpoint.best is undefined: says so and why, the first time in an attempt. */
static void say_undefined(ls_loop *l, int64_t epoch, const ls_eval_result *e)
{
    const char *metric = l->recipe->checkpoint.best.metric,
               *why = !strcmp(metric, "train_loss")        ? "no step of the epoch has a loss"
                      : !strncmp(metric, "eval_rouge", 10) ? "no text was generated"
                                                           : ls_evaluate_why(e, metric + strlen("eval_"));
    if (l->said_undefined)
        return;
    l->said_undefined = true;
    snprintf(l->run->no_best, sizeof l->run->no_best, "%s is undefined: %s", metric, why);
    ls_log_warn("epoch %lld: %s. While it is undefined, no epoch becomes the best (checkpoint.best.metric)%s",
                (long long)epoch, l->run->no_best,
                l->recipe->train.early_stopping.patience
                    ? ", and early stopping counts the epochs as ones without improvement"
                    : "");
}

/* An epoch in which no target counts is an error: it has changed no weight. So is a run that ends within its
 * first epoch without one that counts. */
static ls_status check_targets(int64_t epoch, const epoch_sum *sum, bool whole)
{
    if (sum->count || sum->targets || !(whole || epoch == 0))
        return LS_OK;
    return ls_fail(LS_E_NUMERIC,
                   "epoch %lld: no target counts in any of its %lld samples, so there is no loss, and no "
                   "weight has changed: all are ignored, masked or of weight 0. Look at the targets: "
                   "`lockstep data RECIPE` shows what the model sees",
                   (long long)epoch, (long long)sum->samples);
}

/* Ends an epoch: evaluates if it is due, writes the epoch's row, and saves if it is due. */
static ls_status end_epoch(ls_loop *l, int64_t epoch, const epoch_sum *sum, bool whole, bool last)
{
    const ls_recipe *r = l->recipe;
    ls_epoch_row row = { .epoch = epoch,
                         .step = l->step,
                         .samples = sum->samples,
                         .train_loss = sum->count ? sum->loss / (double)sum->count : NAN,
                         .skipped = sum->skipped,
                         .lr = ls_schedule_rate(&l->setup->schedule, l->setup->lr, l->step - 1),
                         .seconds = ls_now() - sum->start,
                         .data_seconds = sum->waited,
                         .memory = ls_anonymous_rss() };
    LS_TRY(check_targets(epoch, sum, whole));
    LS_TRY(count_replaced(l, sum, epoch, &row.replaced));
    char duration[32], loss[32];
    ls_str evaluated = { 0 };
    const bool evaluate = evaluates(l, epoch, last);
    ls_eval_result e = { .metrics = { .n = 0 } };
    const bool averaged = evaluate && r->eval.ema;
    if (averaged)
        LS_TRY(ls_trainer_exchange_ema(l->trainer));
    if (evaluate) {
        beat(l, "evaluating", l->requests.evaluation > 1);
        LS_TRY(ls_evaluate(l->trainer, l->eval, r->train.micro_batch, l->ui, &e));
        l->run->eval_seconds += e.seconds;
        l->requests.evaluation = fmax(l->requests.evaluation, e.seconds);
        row.eval = e.metrics;
    }
    if (evaluate && l->generate) {
        beat(l, "generating", true);
        LS_TRY(l->generate(l, &row.eval_rouge));
        l->run->eval_seconds += row.eval_rouge.seconds;
        l->requests.evaluation = fmax(l->requests.evaluation, e.seconds + row.eval_rouge.seconds);
    }
    if (averaged)
        LS_TRY(ls_trainer_exchange_ema(l->trainer));
    const double value = ls_epoch_row_metric(&row, r->checkpoint.best.metric);
    const bool measured = measures_best(l, evaluate),
               best = ls_rundir_is_best(l->run, value, r->checkpoint.best.mode == LS_MODE_MAX, l->step,
                                        epoch);
    if (evaluate) {
        LS_TRY(ls_metrics_eval(
            l->run, &(ls_eval_row){ l->step, epoch, e.samples, e.seconds, row.eval, row.eval_rouge }));
        describe(&evaluated, l, &e, &row.eval_rouge);
    }
    ls_log_info("epoch %lld  step %*lld/%lld  train %s%s  %s%s%s", (long long)epoch, digits(l->total_steps),
                (long long)l->step, (long long)l->total_steps, loss_text(loss, row.train_loss),
                ls_str_text(&evaluated), ls_format_duration(duration, row.seconds),
                best ? "  best so far" : "",
                evaluate && l->eval->builtin ? "  on the BUILT-IN shapes, not real data" : "");
    ls_str_release(&evaluated);
    if (measured && isnan(value))
        say_undefined(l, epoch, &e);
    LS_TRY(ls_metrics_epoch(l->run, &row));
    ls_early_stopping_note(&l->run->metrics, r, measured, value);
    last = last || ls_early_stopping_due(&l->run->metrics, r);
    if (!saves(l))
        return LS_OK;
    bool due = last || best ||
               (r->checkpoint.every_epochs > 0 && (epoch + 1) % r->checkpoint.every_epochs == 0);
    if (!due)
        LS_TRY(ls_snapshots_among_best(&l->snapshots, l->run, l->group, r, &row, &due));
    return due ? snapshot(l, sum, epoch, &row, best) : LS_OK;
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

static ls_status steps(ls_loop *l, ls_loader *loader)
{
    double start = l->began = ls_now();
    epoch_sum sum = { .loss = l->from.sums.loss,
                      .samples = l->from.sums.samples,
                      .count = l->from.sums.count,
                      .skipped = l->from.sums.skipped,
                      .start = start - l->from.sums.seconds };
    const ls_recipe *r = l->recipe;
    while (l->step < l->total_steps && !ls_early_stopping_due(&l->run->metrics, r)) {
        ls_loader_step b;
        bool done, writing;
        const double before = ls_now();
        LS_TRY(ls_loader_next(loader, &b, &done));
        sum.waited += ls_now() - before;
        if (done)
            break;
        LS_TRY(ls_profiler_before(&l->profiler, l->trainer, l->step + 1, l->step - l->from.step));
        LS_TRY(ls_snapshots_before_step(&l->snapshots, &writing));
        l->trainer->request = (l->group ? take_requests(l, &b) : 0) | (writing ? LS_REQUEST_WAIT : 0);
        LS_TRY(one_step(l, &b, &sum));
        LS_TRY(
            ls_snapshots_after_step(&l->snapshots, l->run, (l->trainer->requested & LS_REQUEST_WAIT) != 0));
        LS_TRY(ls_profiler_after(&l->profiler, l->trainer, l->run, l->calibration, l->ui->out, l->step,
                                 l->step - l->from.step - 1));
        show(l, &b, start);
        beat(l, "training", l->step == l->from.step + 1);
        l->run->train_seconds = ls_now() - start;
        bool epoch_end = b.step + 1 == l->steps_per_epoch, last = l->step == l->total_steps;
        if (epoch_end || last) {
            if (l->ui && l->ui->progress)
                l->ui->progress(l->ui->context, NULL);
            LS_TRY(end_epoch(l, b.epoch, &sum, epoch_end, last));
            sum = (epoch_sum){ .start = ls_now() };
        }
        if (r->checkpoint.every_steps > 0 && l->step % r->checkpoint.every_steps == 0)
            LS_TRY(snapshot(l, &sum, b.epoch, NULL, false));
        if (!last)
            /* one rank need not exchange requests with a step, so it takes them after it */
            LS_TRY(answer(l, &sum, b.epoch, l->group ? l->trainer->requested : take_requests(l, &b)));
    }
    return ls_snapshots_finish(&l->snapshots, l->run);
}

ls_status ls_loop_run(ls_loop *l)
{
    ls_order order = ls_setup_order(l->recipe, l->train);
    LS_TRY(ls_trainer_check_data(l->trainer, l->train));
    l->seconds = ls_sys_malloc(sizeof(double) * LS_LOOP_TIMES);
    if (!l->seconds)
        return ls_fail(LS_E_MEMORY, "out of memory for the times of steps");
    l->step = l->from.step;
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
    ls_profiler_release(&l->profiler);
    ls_loader_destroy(&loader);
    if (l->ui && l->ui->progress)
        l->ui->progress(l->ui->context, NULL);
    find_median(l);
    if (s == LS_OK) {
        end(l);
        beat(l, "finished", true);
    }
    return s;
}
