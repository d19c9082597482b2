/* train_command.c - `lockstep train`: recipe -> data -> compiled step -> run directory -> loop -> report. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "loop.h"
#include "memory.h"
#include "report_page.h"

typedef struct training {
    ls_loop loop;
    ls_setup setup;
    ls_startup startup;
    double mark;
    ls_calibration calibration;
    const ls_calibration *known; /* NULL: not measured on this machine */
    char data_note[256];
} training;

/* What has passed since the last mark belongs to `name`. */
static void mark(training *t, const char *name)
{
    double now = ls_since_exec();
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
        ls_str_printf(&s, "%s%s %.1f", i ? ", " : "", t->startup.parts[i].name, 1e3 * t->startup.parts[i].seconds);
    ls_log_info("first step after %.1f ms (%s)", 1e3 * t->startup.total, ls_str_text(&s));
    ls_str_release(&s);
}

static ls_status open_data(training *t, const ls_ui *ui)
{
    ls_loop *l = &t->loop;
    LS_TRY(ls_setup_data(&l->train, l->recipe, &t->setup, LS_SPLIT_TRAIN, ui));
    LS_TRY(ls_setup_data(&l->eval, l->recipe, &t->setup, LS_SPLIT_EVAL, ui));
    ls_order order = ls_setup_order(l->recipe, l->train);
    LS_TRY(ls_order_check(&order));
    l->steps_per_epoch = ls_order_steps(&order);
    l->total_steps = ls_setup_total_steps(l->recipe, l->steps_per_epoch);
    if (t->setup.schedule.total_steps == 0)
        t->setup.schedule.total_steps = l->total_steps;
    snprintf(t->data_note, sizeof t->data_note, "%s: %lld + %lld images, %s", l->train->name, (long long)l->train->n, (long long)l->eval->n,
             l->train->source);
    ls_log_info("data  %s", t->data_note);
    if (l->train->builtin && strcmp(l->recipe->data.type, "shapes"))
        ls_log_warn("the data set %s was not found: this run trains on BUILT-IN shapes, its numbers say nothing about %s", l->recipe->data.type,
                    l->recipe->data.type);
    return LS_OK;
}

static ls_status initial_weights(ls_trainer *trainer, const ls_recipe *r)
{
    LS_TRY(ls_trainer_init(trainer, (uint64_t)r->run.seed));
    if (!strcmp(r->model.init, "random"))
        return LS_OK;
    ls_weights *w;
    LS_TRY(ls_weights_open(&w, r->model.init));
    ls_status s = ls_trainer_load(trainer, w);
    ls_weights_close(&w);
    return s == LS_OK ? s : ls_fail_in(s, "model.init");
}

static void describe(const training *t)
{
    const ls_compiled *c = &t->loop.trainer->compiled;
    char total[32], arena[32], seconds[32] = "";
    if (ls_compiled_seconds(c) > 0)
        snprintf(seconds, sizeof seconds, ", about %.1f ms", 1e3 * ls_compiled_seconds(c));
    ls_log_info("model %s  %lld parameters in %d tensors  %s, %s, %d thread%s", ls_model_choice_name(t->loop.recipe->model.type),
                (long long)c->units.parameters, c->units.n_slots, c->device.ops->name, ls_isa_name(c->device.isa), c->device.threads,
                c->device.threads == 1 ? "" : "s");
    ls_log_info("step  %lld x %lld images  %.2f GFLOP%s  memory %s planned (arena %s)", (long long)c->micro_batches, (long long)c->micro_batch,
                1e-9 * ls_compiled_flops(c), seconds, ls_format_bytes(total, ls_trainer_bytes(t->loop.trainer)),
                ls_format_bytes(arena, c->plans[LS_MICRO]->arena_bytes));
}

/* A run that exists: finished and nothing more to do, or something that this version cannot continue. *done says that all is well. */
static ls_status existing_run(const training *t, bool *done)
{
    const ls_rundir *d = t->loop.run;
    *done = false;
    if (d->before == LS_RUN_NEW)
        return LS_OK;
    if (d->before == LS_RUN_FINISHED && d->metrics.step >= t->loop.total_steps) {
        *done = true;
        ls_log_info("%s is finished: %lld steps, last loss %.4f, accuracy %.4f; nothing to do (another run.name trains again)", d->path,
                    (long long)d->metrics.step, d->metrics.loss, d->metrics.eval_accuracy);
        return LS_OK;
    }
    return ls_fail(LS_E_UNSUPPORTED, "%s exists (%s, %lld of %lld steps) and cannot be continued: this version saves weights, not optimizer state. "
                   "Train under another name (--set run.name=...), starting from its weights if you like (--set model.init=%s/checkpoints/latest), "
                   "or delete the folder", d->path, ls_run_state_name(d->before), (long long)d->metrics.step, (long long)t->loop.total_steps, d->path);
}

static ls_status prepare(training *t, const ls_train_opts *o, const ls_ui *ui)
{
    ls_loop *l = &t->loop;
    LS_TRY(ls_recipe_load(&l->recipe, o->recipe.name, o->recipe.n_sets, o->recipe.sets));
    LS_TRY(ls_setup_make(&t->setup, l->recipe, 1, 0, 0));
    mark(t, "load");
    LS_TRY(open_data(t, ui));
    mark(t, "data");
    ls_compiled compiled;
    t->known = ls_setup_calibration(&t->calibration, &t->setup.trainer);
    l->calibration = t->known;
    LS_TRY(ls_compile(&compiled, t->setup.build, &t->setup.config, &t->setup.trainer, t->known));
    double compiled_at = ls_since_exec(), all = compiled_at - t->mark, plan = compiled.plan_seconds;
    t->mark = compiled_at - plan; /* the two are interleaved program by program; show them apart */
    t->startup.parts[t->startup.n].name = "build, compile";
    t->startup.parts[t->startup.n++].seconds = all - plan;
    mark(t, "plan");
    LS_TRY(ls_trainer_from_compiled(&l->trainer, &compiled, NULL));
    LS_TRY(initial_weights(l->trainer, l->recipe));
    mark(t, "initial weights");
    describe(t);
    return LS_OK;
}

static ls_status run(training *t, const ls_train_opts *o, const ls_ui *ui)
{
    ls_loop *l = &t->loop;
    l->setup = &t->setup;
    l->ui = ui;
    l->started = first_step_begins;
    l->context = t;
    LS_TRY(prepare(t, o, ui));
    if (o->dry_run) {
        ls_log_info("dry run: everything up to the first step works; nothing was written");
        return LS_OK;
    }
    LS_TRY(ls_rundir_open(&l->run, l->recipe));
    if (ui->log_to)
        *ui->log_to = l->run;
    l->run->data_note = t->data_note;
    l->run->builtin_data = l->train->builtin;
    bool done;
    if (o->resume_never && l->run->before != LS_RUN_NEW)
        return ls_fail(LS_E_USAGE, "%s exists (%s), and --resume never wants a new run: set run.name, or delete the folder", l->run->path,
                       ls_run_state_name(l->run->before));
    LS_TRY(existing_run(t, &done));
    if (done)
        return LS_OK;
    LS_TRY(ls_snapshots_open(&l->snapshots, l->run->path));
    if (o->profile) {
        l->profile_first = o->profile_first ? o->profile_first : l->total_steps > 20 ? 11 : 1;
        l->profile_last = o->profile_first ? o->profile_last : l->total_steps > 20 ? 20 : l->total_steps;
    }
    ls_status s = ls_loop_run(l);
    l->run->peak_rss = ls_anonymous_rss();
    if (s != LS_OK && s != LS_E_STOPPED)
        return s;
    char message[512];
    snprintf(message, sizeof message, "%s", ls_error_message());
    LS_TRY(ls_rundir_save_result(l->run, s == LS_OK ? LS_RUN_FINISHED : LS_RUN_STOPPED, NULL)); /* the page shows the state */
    LS_TRY(ls_report_page(l, t->known));
    ls_log_info("report %s/report.html", l->run->path);
    return s == LS_OK ? s : ls_fail(s, "%s", message);
}

ls_status ls_train_command(const ls_train_opts *o, const ls_ui *ui)
{
    training t = { 0 };
    ls_status s = run(&t, o, ui);
    ls_loop *l = &t.loop;
    char message[2048] = "";
    if (s != LS_OK)
        snprintf(message, sizeof message, "%s", ls_error_message());
    if (l->run) {
        if (ui->log_to)
            *ui->log_to = NULL;
        bool untouched = l->run->before != LS_RUN_NEW; /* an existing run keeps the state it had */
        ls_run_state state = untouched ? l->run->before : s == LS_OK ? LS_RUN_FINISHED : s == LS_E_STOPPED ? LS_RUN_STOPPED : LS_RUN_FAILED;
        ls_status closed = ls_rundir_close(&l->run, state, s == LS_OK || s == LS_E_STOPPED || untouched ? NULL : message);
        if (s == LS_OK)
            s = closed;
        else
            ls_fail(s, "%s", message); /* the first error is the one to report */
    }
    free(l->seconds);
    ls_snapshots_release(&l->snapshots);
    ls_trainer_destroy(&l->trainer);
    ls_dataset_close(&l->train);
    ls_dataset_close(&l->eval);
    ls_recipe_destroy(&l->recipe);
    return s;
}
