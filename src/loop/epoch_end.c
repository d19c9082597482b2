/* epoch_end.c - see epoch_end.h. */
#include "epoch_end.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/str.h"
#include "comm/comm.h"
#include "comm/group_calls.h"
#include "early_stopping.h"
#include "plateau.h"
#include "record/run_confusion.h"
#include "text/rouge.h"

bool ls_epoch_is_due(const ls_loop *l, int64_t step)
{
    const int64_t every = l->recipe->eval.every_steps;
    return l->eval && every > 0 && step > 0 && step % every == 0;
}

bool ls_epoch_evaluates(const ls_loop *l, int64_t epoch, int64_t step, bool last)
{
    const int64_t every = l->recipe->eval.every_epochs;
    return l->eval && (last || (every > 0 && (epoch + 1) % every == 0) || ls_epoch_is_due(l, step));
}

int ls_digits(int64_t n) { return snprintf(NULL, 0, "%lld", (long long)n); }

const char *ls_loss_text(char out[32], double loss)
{
    if (isnan(loss))
        return "no loss";
    char number[32];
    ls_snprintf(out, 32, "loss %.26s", ls_format_number(number, "%.4f", loss));
    return out;
}

/* The evaluation in the line of its epoch. */
static void epoch_end_describe(ls_str *out, const ls_loop *l, const ls_eval_result *e)
{
    char loss[32];
    ls_str_printf(out, "  eval %s", ls_loss_text(loss, e->loss));
    if (isnan(e->loss))
        ls_str_printf(out, " (%s)", ls_evaluate_why(e, "loss"));
    if (ls_dataset_is_text(l->eval) && !isnan(e->loss) &&
        isnan(ls_metric_list_find(&e->metrics, "perplexity")))
        ls_str_printf(out, "  perplexity %.4g", ls_evaluate_perplexity(e));
    for (int i = 1; i < e->metrics.n; i++)
        if (isnan(e->metrics.at[i].value))
            ls_str_printf(out, "  no %s", e->metrics.at[i].name);
        else if (!strcmp(e->metrics.at[i].name, "accuracy"))
            ls_str_printf(out, "  accuracy %.2f%% (%lld of %lld)", 100 * e->accuracy, (long long)e->correct,
                          (long long)e->count);
        else
            ls_str_printf(out, "  %s %.4g", e->metrics.at[i].name, e->metrics.at[i].value);
}

/* Whether an epoch that evaluated, or did not, has measured the metric of checkpoint.best. */
static bool measures_best(const ls_loop *l, bool evaluated)
{
    const char *metric = l->recipe->checkpoint.best.metric;
    return !strcmp(metric, "train_loss") || (evaluated && (l->generate || !ls_metric_of_texts(metric)));
}

/* schedule plateau counts every evaluation, and train_loss at the ends of epochs. */
static void follow_plateau(ls_loop *l, int64_t epoch, bool measured, double value)
{
    const ls_recipe *r = l->recipe;
    if (!ls_plateau_note(&l->run->metrics, r, measured, value))
        return;
    l->setup->schedule.cuts = l->run->metrics.plateau_cuts;
    ls_log_info("epoch %lld: %s has not improved for %lld evaluations: the learning rate is now %.3g",
                (long long)epoch, r->checkpoint.best.metric, (long long)r->schedule.patience + 1,
                ls_schedule_rate(&l->setup->schedule, l->setup->lr, l->step));
}

/* The metric of checkpoint.best is undefined: says so and why, the first time in an attempt. */
static void say_undefined(ls_loop *l, int64_t epoch, const ls_eval_result *e)
{
    const char *metric = l->recipe->checkpoint.best.metric,
               *why = !strcmp(metric, "train_loss") ? "no step of the epoch has a loss"
                      : ls_metric_of_texts(metric)  ? "no text was generated"
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
static ls_status check_targets(int64_t epoch, const ls_epoch_sum *sum, bool whole)
{
    if (sum->count || sum->targets || !(whole || epoch == 0))
        return LS_OK;
    return ls_fail(LS_E_NUMERIC,
                   "epoch %lld: no target counts in any of its %lld samples, so there is no loss, and no "
                   "weight has changed: all are ignored, masked or of weight 0. Look at the targets: "
                   "`lockstep data RECIPE` shows what the model sees",
                   (long long)epoch, (long long)sum->samples);
}

/* The requests to stop of this rank. An attempt that begins with an evaluation does not look at its time
 * there, so that it makes progress however little time it has. */
static uint32_t asked_to_stop(void *context)
{
    const ls_loop *l = context;
    const uint32_t asked = ls_requests_stop(&l->requests);
    return l->step > l->from.step ? asked : asked & ~(uint32_t)LS_REQUEST_TIME;
}

/* Begins with what was asked of any rank before the last step. */
static ls_rounds rounds_of(ls_loop *l)
{
    return (ls_rounds){ .group = l->group,
                        .asked_here = asked_to_stop,
                        .context = l,
                        .asked = l->trainer->requested & (LS_REQUEST_STOP | LS_REQUEST_TIME) };
}

/* The evaluation of an epoch. *asked: it ended early, because this was asked. *generated: the seconds that
 * generating texts took. */
static ls_status evaluate(ls_loop *l, ls_eval_result *e, ls_epoch_row *row, double *generated,
                          uint32_t *asked)
{
    const bool averaged = l->recipe->eval.ema;
    ls_rounds w = rounds_of(l);
    if (l->group) { /* for messages about ranks that do not come */
        char doing[64];
        snprintf(doing, sizeof doing, "step %lld, evaluation", (long long)l->step);
        ls_group_doing(l->group, doing);
    }
    if (averaged)
        LS_TRY(ls_trainer_exchange_ema(l->trainer));
    ls_loop_beat(l, "evaluating", l->requests.evaluation > 1);
    ls_status s = ls_evaluate(l->trainer, l->eval, l->ui, &w, e);
    if (s == LS_OK) {
        l->run->eval_seconds += e->seconds;
        l->requests.evaluation = fmax(l->requests.evaluation, e->seconds);
    }
    if (s == LS_OK && l->generate) {
        ls_loop_beat(l, "generating", true);
        w = rounds_of(l); /* its rounds take longer */
        s = l->generate(l, &w, &e->metrics, &row->eval_texts, generated);
        l->run->eval_seconds += *generated;
        l->requests.evaluation = fmax(l->requests.evaluation, e->seconds + *generated);
    }
    row->eval = e->metrics;
    if (averaged && (s == LS_OK || w.asked))
        LS_TRY(ls_trainer_exchange_ema(l->trainer));
    *asked = w.asked;
    return s;
}

/* The evaluation was asked to end early. */
static ls_status stop(ls_loop *l, int64_t epoch, const ls_epoch_sum *sum, bool whole, double seconds,
                      uint32_t asked)
{
    ls_epoch_sum at = *sum;
    at.ending = whole ? l->steps_per_epoch : ls_resume_epoch_step(&l->from, l->step);
    at.start = ls_now() - seconds; /* of the steps alone */
    return ls_loop_answer(l, &at, epoch, asked);
}

/* Of all ranks the most. Collective. */
static ls_status find_memory(ls_epoch_row *row, const ls_loop *l)
{
    int64_t most[] = { row->memory, (int64_t)l->planned };
    if (l->group)
        LS_TRY(ls_group_all_reduce(l->group, most, 2, LS_I64, LS_REDUCE_MAX));
    row->memory_most = most[0];
    row->memory_planned = most[1];
    return LS_OK;
}

/* A row for each rank, if there are several. Collective. */
static ls_status write_memory(ls_loop *l, const ls_epoch_row *row)
{
    const ls_memory_row mine = {
        .epoch = row->epoch, .step = row->step, .memory = row->memory, .planned = (int64_t)l->planned
    };
    ls_memory_row *all = NULL;
    ls_status s = LS_OK;
    if (!l->group)
        return LS_OK;
    LS_TRY(ls_group_all_gather_new(l->group, &mine, sizeof mine, (void **)&all));
    for (int r = 0; r < ls_group_size(l->group) && s == LS_OK; r++) {
        all[r].rank = r;
        s = ls_metrics_memory(l->run, &all[r]);
    }
    free(all);
    return s;
}

/* How busy this rank's process, its host and its device were. */
static void find_use(ls_epoch_row *row, const ls_loop *l, const ls_epoch_sum *sum)
{
    const double steps = (double)sum->samples / (double)l->recipe->train.global_batch,
                 peak = l->calibration ? ls_calibration_peak(l->calibration, l->recipe->precision.param) : 0,
                 rate = ls_compiled_model_flops(&l->trainer->compiled) * steps / fmax(row->seconds, 1e-9);
    row->cpu = (ls_processor_seconds() - sum->processors) / fmax(ls_now() - sum->began, 1e-9);
    row->load = ls_host_load();
    row->gflops = 1e-9 * rate;
    row->mfu = peak > 0 ? rate / peak : 0;
}

static ls_status write_evaluation(ls_loop *l, const ls_eval_result *e, const ls_epoch_row *row,
                                  double generated)
{
    LS_TRY(ls_metrics_eval(l->run, &(ls_eval_row){ .step = l->step,
                                                   .epoch = row->epoch,
                                                   .samples = e->samples,
                                                   .seconds = e->seconds,
                                                   .eval = row->eval,
                                                   .texts = row->eval_texts,
                                                   .generate_seconds = generated }));
    return l->run->rank ? LS_OK : ls_run_confusion_write(l->run->path, l->step, row->epoch, &e->confusions);
}

static ls_status within(ls_loop *l, int64_t epoch, ls_epoch_sum *sum, ls_eval_result *e, bool *saved)
{
    const ls_recipe *r = l->recipe;
    ls_epoch_row row = { .epoch = epoch, .step = l->step, .train_loss = NAN };
    ls_str evaluated = { 0 };
    double generated = 0;
    uint32_t asked = 0;
    const double start = ls_now();
    const ls_status s = evaluate(l, e, &row, &generated, &asked);
    sum->start += ls_now() - start; /* the epoch's time is that of its steps */
    if (asked)
        return ls_loop_answer(l, sum, epoch, asked);
    LS_TRY(s);
    const double value = ls_epoch_row_metric(&row, r->checkpoint.best.metric);
    const bool best = ls_rundir_is_best(l->run, value, r->checkpoint.best.mode == LS_MODE_MAX, l->step,
                                        epoch);
    LS_TRY(write_evaluation(l, e, &row, generated));
    epoch_end_describe(&evaluated, l, e);
    ls_log_info("epoch %lld  step %*lld/%lld%s%s", (long long)epoch, ls_digits(l->total_steps),
                (long long)l->step, (long long)l->total_steps, ls_str_text(&evaluated),
                best ? "  best so far" : "");
    ls_str_release(&evaluated);
    follow_plateau(l, epoch, measures_best(l, true) && strcmp(r->checkpoint.best.metric, "train_loss"),
                   value);
    *saved = best && ls_loop_saves(l);
    if (!*saved)
        return LS_OK;
    LS_TRY(ls_loop_save(l, sum, epoch, NULL, true));
    return ls_loop_export_best(l, epoch, value);
}

ls_status ls_epoch_within(ls_loop *l, int64_t epoch, ls_epoch_sum *sum, bool *saved)
{
    ls_eval_result e = { .samples = 0 };
    const ls_status s = within(l, epoch, sum, &e, saved);
    ls_eval_result_release(&e);
    return s;
}

static ls_status end_epoch(ls_loop *l, int64_t epoch, const ls_epoch_sum *sum, bool whole, bool last,
                           ls_eval_result *e)
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
    LS_TRY(ls_epoch_replaced(&row.replaced, l, sum));
    LS_TRY(find_memory(&row, l));
    find_use(&row, l, sum);
    if (row.replaced)
        ls_log_warn("epoch %lld: %lld broken picture%s replaced by %s", (long long)epoch,
                    (long long)row.replaced, row.replaced == 1 ? " was" : "s were",
                    row.replaced == 1 ? "another" : "others");
    char duration[32], loss[32];
    ls_str evaluated = { 0 };
    const bool evaluates = ls_epoch_evaluates(l, epoch, l->step, last);
    double generated = 0;
    if (evaluates) {
        uint32_t asked = 0;
        const ls_status s = evaluate(l, e, &row, &generated, &asked);
        if (asked)
            return stop(l, epoch, sum, whole, row.seconds, asked);
        LS_TRY(s);
    }
    const double value = ls_epoch_row_metric(&row, r->checkpoint.best.metric);
    const bool measured = measures_best(l, evaluates),
               best = ls_rundir_is_best(l->run, value, r->checkpoint.best.mode == LS_MODE_MAX, l->step,
                                        epoch);
    if (evaluates) {
        LS_TRY(write_evaluation(l, e, &row, generated));
        epoch_end_describe(&evaluated, l, e);
    }
    ls_log_info("epoch %lld  step %*lld/%lld  train %s%s  %s%s%s", (long long)epoch,
                ls_digits(l->total_steps), (long long)l->step, (long long)l->total_steps,
                ls_loss_text(loss, row.train_loss), ls_str_text(&evaluated),
                ls_format_duration(duration, row.seconds), best ? "  best so far" : "",
                evaluates && l->eval->builtin ? "  on the BUILT-IN shapes, not real data" : "");
    ls_str_release(&evaluated);
    if (measured && isnan(value))
        say_undefined(l, epoch, e);
    LS_TRY(ls_metrics_epoch(l->run, &row));
    LS_TRY(write_memory(l, &row));
    ls_early_stopping_note(&l->run->metrics, r, measured, value);
    follow_plateau(l, epoch, measured, value);
    last = last || ls_early_stopping_due(&l->run->metrics, r);
    if (!ls_loop_saves(l))
        return LS_OK;
    bool due = last || best ||
               (r->checkpoint.every_epochs > 0 && (epoch + 1) % r->checkpoint.every_epochs == 0);
    if (!due)
        LS_TRY(ls_snapshot_among_best(&l->snapshots, l->run, l->group, r, &row, &due));
    if (due)
        LS_TRY(ls_loop_save(l, sum, epoch, &row, best));
    return best ? ls_loop_export_best(l, epoch, value) : LS_OK;
}

ls_status ls_epoch_end(ls_loop *l, int64_t epoch, const ls_epoch_sum *sum, bool whole, bool last)
{
    ls_eval_result e = { .samples = 0 };
    const ls_status s = end_epoch(l, epoch, sum, whole, last, &e);
    ls_eval_result_release(&e);
    return s;
}
