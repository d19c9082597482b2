/* train_command.c - `lockstep train`: recipe -> ranks -> data -> compiled step -> run directory -> loop ->
 * report. The user's process is the only rank, a rank of mpirun or the like, or their parent (launch.h). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "data/image_set.h"
#include "comm/fault.h"
#include "comm/launched.h"
#include "metrics_table.h"
#include "recipe/recipe_fields.h"
#include "recipe/recipe_use.h"
#include "comm/agree.h"
#include "launch/compare.h"
#include "launch/run_account.h"
#include "loop/data_record.h"
#include "loop/early_stopping.h"
#include "base/memory.h"
#include "launch/rank.h"
#include "loop/report_page.h"
#include "find_lr.h"
#include "init_weights.h"
#include "train_describe.h"
#include "train_generate.h"
#include "step/memory.h"
#include "train_warn.h"
#include "workers.h"

typedef struct training {
    ls_loop loop;
    ls_setup setup;
    ls_startup startup;
    double mark;
    ls_calibration calibration;
    const ls_calibration *known; /* NULL: not measured on this machine */
    char data_note[256];
    int64_t classes;         /* labels of the training images are below it; -1: not known */
    bool begun;              /* the loop has begun: an error is recorded in the run */
    char checkpoint[4096];   /* the run continues from this checkpoint; "": from none */
    ls_weights *init;        /* weights of model.init to begin with; NULL: random ones */
    ls_resume_change change; /* of recipe or data since that checkpoint */
    ls_workers workers;      /* how many ranks, and where */
    ls_remote *remote;       /* the bucket of run.storage; NULL: none, or another process's business */
    bool apart;              /* the hosts share no folder: each rank has the bucket */
    ls_sparse sparse;        /* then: of `checkpoint` */
    int threads;             /* of every rank, so that no two share a core; 0: one rank, or not known yet */
    ls_cpu_limit threads_by; /* what decided it */
} training;

/* Counts the time since the last mark as that of `name`. */
static void mark(training *t, const char *name)
{
    double now = ls_launch_lead() + ls_since_exec();
    if (t->startup.n < LS_STARTUP_PARTS) {
        t->startup.parts[t->startup.n].name = name;
        t->startup.parts[t->startup.n++].seconds = now - t->mark;
    }
    t->mark = now;
}

static void first_step_begins(ls_loop *l)
{
    training *t = l->context;
    mark(t, "start");
    t->startup.total = t->mark;
    l->run->startup = t->startup;
    ls_str s = { 0 };
    for (int i = 0; i < t->startup.n; i++)
        ls_str_printf(&s, "%s%s %.1f", i ? ", " : "", t->startup.parts[i].name,
                      1e3 * t->startup.parts[i].seconds);
    ls_log_info("%s after %.1f ms (%s)",
                ls_resume_ending(&l->from, l->total_steps) ? "evaluation" : "first step",
                1e3 * t->startup.total, ls_str_text(&s));
    ls_str_release(&s);
}

static ls_status open_data(training *t, const ls_ui *ui)
{
    ls_loop *l = &t->loop;
    LS_TRY(ls_setup_training_data(&l->train, l->recipe, &t->setup, LS_SPLIT_TRAIN, ui));
    if (l->recipe->eval.every_epochs >= 0)
        LS_TRY(ls_setup_training_data(&l->eval, l->recipe, &t->setup, LS_SPLIT_EVAL, ui));
    if (l->eval && !strcmp(l->recipe->data.type, "images"))
        LS_TRY(ls_recipe_blame(l->recipe, ls_images_check_classes(l->train, l->eval)));
    if (ls_recipe_samples(l->recipe) == LS_SAMPLES_IMAGES)
        LS_TRY(ls_images_count_classes(&t->classes, l->train));
    ls_order order = ls_setup_order(l->recipe, l->train);
    LS_TRY(ls_setup_check_order(l->recipe, &order));
    l->from.steps_per_epoch = l->steps_per_epoch = ls_order_steps(&order);
    snprintf(t->data_note, sizeof t->data_note, "%s: %lld + %lld samples, %s", l->train->name,
             (long long)l->train->n, (long long)(l->eval ? l->eval->n : 0), l->train->source);
    return LS_OK;
}

/* The number of steps of the run, and with it the schedule, when it is known where the run continues. */
static void count_steps(training *t)
{
    ls_loop *l = &t->loop;
    l->total_steps = ls_setup_total_steps(l->recipe, l->steps_per_epoch, l->from.base_step,
                                          l->from.base_epoch);
    if (t->setup.schedule.total_steps == 0)
        t->setup.schedule.total_steps = l->total_steps;
    ls_setup_cut_epochs(&t->setup.schedule, l->recipe, l->steps_per_epoch, l->from.base_step,
                        l->from.base_epoch);
}

static ls_status initial_weights(training *t)
{
    const ls_recipe *r = t->loop.recipe;
    ls_status s = t->init ? ls_init_weights(t->loop.trainer, r, t->init, &t->loop.from.base)
                          : ls_trainer_init(t->loop.trainer, (uint64_t)r->run.seed);
    LS_TRY(s);
    s = ls_trainer_fit_missing(t->loop.trainer, t->loop.train, r->model.refit ? NULL : t->init);
    ls_weights_close(&t->init);
    return s;
}

/* Opens an existing run, to continue it. *done: it is finished and has nothing more to do. */
static ls_status existing_run(training *t, bool *done)
{
    ls_rundir *d = t->loop.run;
    const ls_resume_point *from = &t->loop.from;
    const bool early = ls_early_stopping_due(&d->metrics, t->loop.recipe);
    *done = d->before == LS_RUN_FINISHED && (early || d->metrics.step >= t->loop.total_steps);
    if (*done && early) {
        char why[200];
        ls_early_stopping_text(why, sizeof why, &d->metrics, t->loop.recipe);
        ls_log_info("%s is finished after step %lld of %lld, by %s; nothing to do (with a larger "
                    "train.early_stopping.patience it continues)",
                    d->path, (long long)d->metrics.step, (long long)t->loop.total_steps, why);
    } else if (*done) {
        char loss[32] = "no loss in the last one", number[32];
        if (!isnan(d->metrics.loss))
            ls_snprintf(loss, sizeof loss, "last loss %.20s",
                        ls_format_number(number, "%.4f", d->metrics.loss));
        ls_log_info("%s is finished: %lld steps, %s; nothing to do (another run.name trains again)", d->path,
                    (long long)d->metrics.step, loss);
    }
    if (*done || (!t->checkpoint[0] && d->before == LS_RUN_NEW))
        return LS_OK;
    if (t->checkpoint[0])
        ls_log_info("continues after step %lld of %lld%s, from %s; %s %s", (long long)from->step,
                    (long long)t->loop.total_steps,
                    ls_resume_ending(from, t->loop.total_steps) ? ", with the evaluation" : "", t->checkpoint,
                    d->path, ls_run_state_past(d->before));
    else
        ls_log_info("%s %s before its first checkpoint: it starts from the beginning", d->path,
                    ls_run_state_past(d->before));
    d->metrics = from->metrics;
    ls_metric_list_move(&d->eval, &t->loop.from.evaluated);
    if (t->change.eval_data)
        ls_rundir_forget_evaluations(d);
    if (d->before == LS_RUN_NEW || t->change.best) { /* that run's best one is not in this run */
        d->metrics.best_value = d->metrics.stop_value = d->metrics.plateau_value = NAN;
        d->metrics.stop_waited = d->metrics.plateau_waited = 0; /* what plateau has cut stays cut */
    }
    if (t->change.what)
        LS_TRY(ls_metrics_change(d, from->step, t->change.what));
    if (d->rank)
        return LS_OK;
    LS_TRY(ls_rundir_save_recipe(d, t->loop.recipe)); /* with the new values of keys that may change */
    return ls_rundir_save_result(d, LS_RUN_STARTING, NULL);
}

/* Loads the checkpoint that the run continues from, else sets initial weights. */
static ls_status first_state(training *t, const ls_train_opts *o)
{
    ls_loop *l = &t->loop;
    l->from.metrics = (ls_run_metrics){ .loss = NAN, .lr = NAN, .best_value = NAN, .stop_value = NAN };
    l->from.metrics.plateau_value = NAN;
    if (!t->checkpoint[0])
        return initial_weights(t);
    const ls_resume_now now = {
        l->train, l->eval, l->steps_per_epoch, o->allow_change, &o->resume, &t->sparse
    };
    return ls_resume_load(&l->from, &t->change, t->checkpoint, l->trainer, l->recipe, &now);
}

/* ---- ranks */

static ls_status join_ranks(training *t)
{
    ls_group *g = t->loop.group;
    LS_TRY(ls_ranks_agree(g, ls_workers_recipe(&t->workers)));
    if (!ls_launch_watched() && t->loop.recipe->failure.max_failures)
        return ls_ranks_agree(g, ls_fail(LS_E_USAGE,
                                         "failure.max_failures: %lld, but only the launcher that started "
                                         "these ranks can start them again: set it to 0; the same command, "
                                         "started again, continues from the last checkpoint",
                                         (long long)t->loop.recipe->failure.max_failures));
    LS_TRY(ls_bucket_join(t->workers.remote, &t->apart, t->loop.recipe, g));
    ls_group_set_deadline(g, t->loop.recipe->failure.stall_seconds);
    LS_TRY(ls_ranks_compare(&t->threads, &t->threads_by, g, t->loop.recipe));
    LS_TRY(ls_workers_fit(&t->threads, g, t->loop.recipe));
    return ls_workers_micro_batch(t->loop.recipe, g);
}

/* Finds the checkpoint that the run continues from. Rank 0 looks for it. */
static ls_status find_checkpoint(training *t, const ls_train_opts *o)
{
    const ls_recipe *r = t->loop.recipe;
    ls_group *g = t->loop.group;
    ls_status s = LS_OK;
    if (!g || ls_group_rank(g) == 0)
        s = ls_launch_restart() ? ls_resume_find_again(t->checkpoint, r, &o->resume)
                                : ls_resume_find(t->checkpoint, r, &o->resume);
    LS_TRY(g ? ls_ranks_agree(g, s) : s);
    LS_TRY(g ? ls_bucket_share(t->remote, t->apart, t->checkpoint, g, r, &t->sparse) : LS_OK);
    s = t->checkpoint[0] ? LS_OK : ls_recipe_check_init(r, true);
    return g ? ls_ranks_agree(g, s) : s;
}

/* Joins the group of ranks, or starts the ranks and waits for them; *over says the latter. */
static ls_status join_or_start(training *t, const ls_train_opts *o, const ls_ui *ui, bool *over)
{
    ls_group **g = &t->loop.group;
    int workers = 1;
    LS_TRY(ls_rank_join(g, ui));
    if (*g)
        return join_ranks(t);
    LS_TRY(ls_workers_begin(&t->workers, &o->hosts, &workers));
    const ls_recipe *r = t->loop.recipe;
    *over = workers > 1 || t->workers.hosts || r->cores_per_worker ||
            (r->failure.max_failures && !o->dry_run);
    if (!*over)
        return ls_fault_alone();
    LS_TRY(find_checkpoint(t, o)); /* so that a wrong --resume fails before ranks start */
    const ls_launch_opts ranks = { .ranks = workers,
                                   .stall = r->failure.stall_seconds,
                                   .hosts = t->workers.hosts,
                                   .pass = ui->pass,
                                   .threads = (int)r->threads,
                                   .cores = (int)r->cores_per_worker,
                                   .argv = o->argv,
                                   .stop = ui->stop,
                                   .save = ui->save };
    ls_run_account run = { .recipe = (const ls_recipe *const *)&t->loop.recipe,
                           .resume = &o->resume,
                           .allow_change = o->allow_change };
    const ls_account account = ls_run_account_of(&run);
    const ls_control_opts control = { .ranks = ranks,
                                      .max_failures = r->failure.max_failures,
                                      .named = "failure.max_failures",
                                      .account = &account,
                                      .choose = ls_workers_choose_again,
                                      .more = ls_workers_more,
                                      .judge = ls_workers_judge,
                                      .context = &t->workers };
    return o->dry_run ? ls_launch(&ranks) : ls_control(&control);
}

/* ---- to the first step: first what a rank does alone */

static ls_status compile(training *t, ls_compiled *compiled, const ls_ui *ui)
{
    ls_loop *l = &t->loop;
    ls_group *g = l->group;
    int ranks = g ? ls_group_size(g) : 1, hosts = g ? ls_group_hosts(g) : 1;
    if (g)
        LS_TRY(ls_workers_check(l->recipe, ranks));
    LS_TRY(
        ls_setup_make(&t->setup, l->recipe, ranks, g ? ls_group_rank(g) : 0, hosts > 1 ? ranks / hosts : 0));
    t->setup.trainer.group = g;
    if (t->threads && !l->recipe->threads)
        t->setup.trainer.threads = t->threads;
    else
        t->threads_by = t->setup.threads_by;
    mark(t, "load");
    if (g)
        ls_group_doing(g, "opening the data");
    LS_TRY(open_data(t, ui));
    mark(t, "data");
    if (!t->checkpoint[0] && strcmp(l->recipe->model.init, "random"))
        LS_TRY(ls_setup_weights(&t->init,
                                l->recipe)); /* weights of another model fail before the model is built */
    if (g)
        ls_group_doing(g, "compiling the step");
    t->known = ls_setup_calibration(&t->calibration, &t->setup.trainer);
    l->calibration = t->known;
    LS_TRY(ls_setup_compile(compiled, &t->setup, l->recipe, t->known));
    LS_TRY(ls_setup_best(l->recipe, compiled));
    double compiled_at = ls_launch_lead() + ls_since_exec(), all = compiled_at - t->mark,
           plan = compiled->plan_seconds;
    t->mark = compiled_at - plan; /* building and planning alternate; their times are shown apart */
    t->startup.parts[t->startup.n].name = "build, compile";
    t->startup.parts[t->startup.n++].seconds = all - plan;
    mark(t, "plan");
    return LS_OK;
}

/* A data set that does not fit the model is wrong usage: the recipe brings the two together. */
static ls_status check_fields(const training *t, const ls_dataset *set, const char *key)
{
    const ls_recipe *r = t->loop.recipe;
    const ls_status s = ls_trainer_check_data(t->loop.trainer, set);
    const bool has = ls_key_applies(ls_key_named(key), r);
    return s == LS_E_SHAPE ? ls_fail_in(LS_E_USAGE, "%s", ls_recipe_where(r, has ? key : "data.type")) : s;
}

static ls_status prepare(training *t, const ls_train_opts *o, const ls_ui *ui)
{
    ls_loop *l = &t->loop;
    ls_compiled compiled = { 0 };
    LS_TRY(find_checkpoint(t, o));
    ls_status s = compile(t, &compiled, ui);
    s = l->group ? ls_ranks_agree(l->group, s) : s;
    if (s == LS_OK)
        s = ls_data_agree(l->group, l->train, l->eval);
    if (s != LS_OK) {
        ls_compiled_release(&compiled);
        return s;
    }
    LS_TRY(ls_trainer_from_compiled(&l->trainer, &compiled, l->group));
    const ls_step_memory memory = ls_compiled_memory(&l->trainer->compiled);
    l->planned = ls_trainer_bytes(l->trainer) - (memory.apart ? memory.device : 0);
    if (l->group)
        ls_group_planned(l->group, l->planned);
    LS_TRY(check_fields(t, l->train, "data.train"));
    if (l->eval)
        LS_TRY(check_fields(t, l->eval, "data.eval"));
    LS_TRY(first_state(t, o));
    count_steps(t);
    mark(t, t->checkpoint[0] ? "checkpoint" : "initial weights");
    return LS_OK;
}

/* What is profiled of the `left` steps of this start: by default ten, behind ten others where there are so
 * many; or from step `first` of the run on, or as the schedule says. */
static ls_profile_schedule schedule_of(const ls_train_opts *o, int64_t left, int64_t done)
{
    if (o->profile_schedule.active)
        return o->profile_schedule;
    if (!o->profile_first)
        return (
            ls_profile_schedule){ .skip = left > 20 ? 10 : 0, .active = left > 20 ? 10 : left, .repeat = 1 };
    const int64_t first = o->profile_first > done ? o->profile_first : done + 1;
    return (ls_profile_schedule){ .skip = first - done - 1,
                                  .active = o->profile_last >= first ? o->profile_last - first + 1 : 0,
                                  .repeat = 1 };
}

/* Logs what is trained, and what may surprise: on the terminal, and in the run's log. */
static void say_start(const training *t)
{
    ls_train_describe(&t->loop, &(ls_train_start){ t->data_note, t->threads_by, t->checkpoint[0] });
    ls_train_warn(&t->loop, t->classes, t->checkpoint[0], t->change.what);
}

static ls_status train_run(training *t, const ls_train_opts *o, const ls_ui *ui)
{
    ls_loop *l = &t->loop;
    l->setup = &t->setup;
    l->ui = ui;
    l->started = first_step_begins;
    l->context = t;
    bool over = false;
    LS_TRY(join_or_start(t, o, ui, &over));
    if (over)
        return LS_OK;
    LS_TRY(prepare(t, o, ui));
    l->generate = l->recipe->eval.generate.tokens ? ls_train_generate : NULL;
    if (o->dry_run) {
        say_start(t);
        if (!o->find_lr.steps)
            ls_log_info("dry run: everything up to the first step works; nothing was written");
        return o->find_lr.steps ? ls_find_lr(l, &o->find_lr, ui) : LS_OK;
    }
    LS_TRY(ls_rundir_open_ranks(&l->run, l->recipe, l->group, o->allow_change));
    if (ui->log_to)
        *ui->log_to = l->run;
    const ls_device *device = &l->trainer->compiled.device;
    snprintf(l->run->device, sizeof l->run->device, "%s", device->ops->name);
    ls_calibration_hardware(l->run->hardware, device);
    l->run->data_note = t->data_note;
    l->run->builtin_data = l->train->builtin;
    bool done;
    if (o->resume.from && !strcmp(o->resume.from, "never") && l->run->before != LS_RUN_NEW &&
        !ls_launch_restart())
        return ls_fail(
            LS_E_USAGE,
            "%s exists (%s), and --resume never asks for a new run: set run.name, or delete the folder",
            l->run->path, ls_run_state_name(l->run->before));
    LS_TRY(existing_run(t, &done));
    if (done)
        return ls_loop_export(l, false);
    say_start(t);
    t->begun = true;
    l->snapshots = (ls_snapshots){ .remote = t->remote, .apart = t->apart };
    LS_TRY(ls_snapshots_open(&l->snapshots, l->run, l->from.step));
    LS_TRY(ls_snapshots_continue(&l->snapshots, t->checkpoint));
    ls_snapshots_compare(&l->snapshots, l->recipe, l->train, l->eval);
    if (o->profile)
        l->profiler.schedule = schedule_of(o, l->total_steps - l->from.step, l->from.step);
    ls_status s = ls_loop_run(l);
    l->run->peak_rss = ls_anonymous_rss();
    if ((s != LS_OK && s != LS_E_STOPPED) || l->run->rank)
        return s;
    char message[512];
    snprintf(message, sizeof message, "%s", ls_error_message());
    if (s == LS_OK)
        LS_TRY(ls_loop_export(l, true));
    /* the report shows these times; the state becomes "finished" after the report is written */
    LS_TRY(ls_rundir_save_result(l->run, l->run->state, NULL));
    LS_TRY(ls_report_page(l, t->known, s == LS_OK ? LS_RUN_FINISHED : LS_RUN_STOPPED));
    if (s == LS_OK)
        LS_TRY(ls_summary_print(l->run, l->recipe, ui));
    ls_log_info("report %s/report.html", l->run->path);
    return s == LS_OK ? s : ls_fail(s, "%s", message);
}

/* The page of a run that failed shows the error beside the curves. Where it cannot be written, the first
 * error remains. */
static void report_failure(training *t, const char *message)
{
    ls_rundir *d = t->loop.run;
    if (ls_rundir_save_result(d, LS_RUN_FAILED, message) == LS_OK &&
        ls_report_page(&t->loop, t->known, LS_RUN_FAILED) == LS_OK)
        ls_log_info("report %s/report.html", d->path);
    else
        ls_log_warn("no report.html of the failed run: %s", ls_error_message());
}

static ls_status close_run(training *t, ls_status s, const char *message, const ls_ui *ui)
{
    ls_rundir **d = &t->loop.run;
    /* an error before the loop does not change the state of an existing run */
    bool untouched = (*d)->before != LS_RUN_NEW && !t->begun, failed = s != LS_OK && s != LS_E_STOPPED;
    if (failed)
        ls_rundir_log(*d, LS_ERROR, message);
    if (failed && t->begun && !(*d)->rank)
        report_failure(t, message);
    if (ui->log_to)
        *ui->log_to = NULL;
    ls_run_state state = untouched           ? (*d)->before
                         : s == LS_OK        ? LS_RUN_FINISHED
                         : s == LS_E_STOPPED ? LS_RUN_STOPPED
                                             : LS_RUN_FAILED;
    /* stopped behind the loop, in an export: all is saved */
    if (state == LS_RUN_STOPPED && (*d)->state == LS_RUN_RUNNING)
        LS_TRY(ls_rundir_save_result(*d, LS_RUN_STOPPING, NULL));
    return ls_rundir_close(d, state, failed && !untouched ? message : NULL);
}

static void release(training *t)
{
    ls_loop *l = &t->loop;
    free(t->change.what);
    free(l->seconds);
    ls_profiler_release(&l->profiler);
    ls_snapshots_release(&l->snapshots);
    ls_metric_list_release(&l->from.evaluated);
    ls_trainer_destroy(&l->trainer);
    ls_weights_close(&t->init);
    ls_dataset_close(&l->train);
    ls_dataset_close(&l->eval);
    ls_recipe_destroy(&l->recipe);
    ls_calibration_release(&t->calibration);
    ls_hosts_free(&t->workers.hosts);
    ls_group_destroy(&l->group);
}

/* Reports the first error: to the other ranks at once, and to the user by the rank that prints. Leaves the
 * error message that is still to be printed. */
static ls_status report(const training *t, ls_status s, char message[4096], const ls_ui *ui)
{
    snprintf(message, 4096, "%s", s == LS_OK ? "" : ls_error_message());
    if (t->loop.group && s != LS_OK && s != LS_E_STOPPED && s != LS_E_PEER)
        ls_group_fail(t->loop.group, s, message); /* so that they do not wait for this rank */
    return ls_rank_say_now(t->loop.group, s, message, ui);
}

ls_status ls_train_command(const ls_train_opts *o, const ls_ui *ui)
{
    training t = { .mark = ls_launch_lead(), .classes = -1, .loop.until = o->until };
    t.workers = (ls_workers){ .named = &o->recipe,
                              .recipe = &t.loop.recipe,
                              .setup = &t.setup,
                              .remote = o->dry_run ? NULL : &t.remote,
                              .until = o->until };
    char message[4096], left[4096];
    if (o->dry_run)
        ls_cache_freeze();
    t.startup = (ls_startup){ .n = t.mark > 0, .parts = { { "launch", t.mark } } };
    ls_status s = report(&t, train_run(&t, o, ui), message, ui);
    snprintf(left, sizeof left, "%s", ls_error_message());
    ls_status closed = t.loop.run ? close_run(&t, s, message, ui) : LS_OK;
    ls_rank_end(t.loop.group, s);
    if (s == LS_OK && closed != LS_OK) {
        s = report(&t, closed, message, ui);
        snprintf(left, sizeof left, "%s", ls_error_message());
    }
    release(&t);
    return ls_bucket_end(&t.remote, s, left);
}
