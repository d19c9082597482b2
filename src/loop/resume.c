/* resume.c - continues from a checkpoint. The order of samples, the learning rate and random numbers are
 * functions of the step, so a checkpoint stores only the step for them. Everything else that decides the bits
 * of the result is compared before the state is loaded. */
#include "resume.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "ckpt/checkpoint_head.h"
#include "data_record.h"
#include "module_record.h"
#include "net/s3.h"
#include "record/remote.h"
#include "record/step_folder.h"
#include "setup/base.h"
#include "step/state.h"
#include "text/rouge.h"

/* ---- trainer.json */

/* The plain numbers of trainer.json: X(key, member of ls_resume_point). A number that is not known is null in
 * the file and NAN here. */
#define NUMBERS(X)                   \
    X("epoch_loss", sums.loss)       \
    X("epoch_seconds", sums.seconds) \
    X("loss", metrics.loss)          \
    X("lr", metrics.lr) X("stop_value", metrics.stop_value) X("plateau_value", metrics.plateau_value)
#define COUNTS(X)                                                     \
    X("epoch", metrics.epoch) /* as last_epoch, for older versions */ \
    X("next_epoch", epoch)                                            \
    X("next_epoch_step", epoch_step)                                  \
    X("epoch_samples", sums.samples)                                  \
    X("epoch_targets", sums.count)                                    \
    X("epoch_skipped", sums.skipped)                                  \
    X("epoch_replaced", sums.replaced)                                \
    X("steps_per_epoch", steps_per_epoch)                             \
    X("base_step", base_step)                                         \
    X("base_epoch", base_epoch)                                       \
    X("eval_step", metrics.eval_step)                                 \
    X("best_step", metrics.best_step)                                 \
    X("best_epoch", metrics.best_epoch)                               \
    X("stop_waited", metrics.stop_waited)                             \
    X("plateau_waited", metrics.plateau_waited)                       \
    X("plateau_cuts", metrics.plateau_cuts) X("nonfinite_steps", metrics.nonfinite_steps)

/* An evaluation: eval_loss and eval_accuracy are always there, null where they are not known. */
static void write_common(ls_json *j, const ls_metric_list *eval)
{
    ls_json_f64(j, "eval_loss", ls_metric_list_find(eval, "loss"));
    ls_json_f64(j, "eval_accuracy", ls_metric_list_find(eval, "accuracy"));
}

static void write_others(ls_json *j, const ls_metric_list *eval, int64_t texts)
{
    ls_metric_list_write_others(j, "eval_", eval);
    if (texts)
        ls_json_int(j, "eval_texts", texts);
}

/* In trainer.json null also stands for what was not evaluated. */
static ls_metric_list read_evaluation(const json_t *object)
{
    ls_metric_list l = ls_metric_list_read(object, "eval_");
    ls_metric_list_remove(&l, "step");
    ls_metric_list_remove(&l, "texts");
    for (int i = l.n - 1; i >= 0; i--)
        if (isnan(l.at[i].value))
            ls_metric_list_remove(&l, l.at[i].name);
    return l;
}

char *ls_resume_text(const ls_resume_point *p, const ls_recipe *r, const ls_trainer *t)
{
    const ls_compiled *c = &t->compiled;
    char mesh[128], *yaml = ls_recipe_yaml(r, false);
    ls_metric_list metrics = ls_run_metrics_list(&p->metrics, &p->evaluated, false);
    const ls_checkpoint_head head = { .step = p->step,
                                      .last_epoch = p->metrics.epoch,
                                      .world = ls_mesh_ranks(&c->parallel.mesh),
                                      .n_metrics = metrics.n,
                                      .metrics = metrics.at };
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_checkpoint_head_write(&j, &head);
#define COUNT(key, member) ls_json_int(&j, key, p->member);
#define NUMBER(key, member) ls_json_f64(&j, key, p->member);
    COUNTS(COUNT)
    NUMBERS(NUMBER)
#undef COUNT
#undef NUMBER
    write_common(&j, &p->evaluated);
    ls_json_f64(&j, "best_value", p->metrics.best_value);
    write_others(&j, &p->evaluated, p->metrics.eval_texts);
    if (p->ended) {
        ls_json_object(&j, "epoch_end");
        ls_json_f64(&j, "train_loss", p->ended->train_loss);
        write_common(&j, &p->ended->eval);
        write_others(&j, &p->ended->eval, p->ended->eval_texts);
        ls_json_close_object(&j);
    }
    ls_json_int(&j, "skips", t->skips); /* of steps, in a row */
    ls_json_int(&j, "nonfinite_skips", t->bad_skips);
    ls_json_int(&j, "seed", r->run.seed);
    ls_json_int(&j, "global_batch", r->train.global_batch);
    ls_json_int(&j, "micro_batch", r->train.micro_batch);
    ls_json_text(&j, "mesh", ls_mesh_text(mesh, &c->parallel.mesh));
    ls_json_text(&j, "device", c->device.ops->name);
    ls_json_text(&j, "isa", c->device.arch->name);
    ls_json_bool(&j, "builtin_data", p->train && p->train->builtin);
    if (p->train)
        ls_data_record(&j, p->train, p->eval);
    ls_module_record(&j, r);
    ls_base_record(&j, r, p->base);
    ls_json_text(&j, "recipe", yaml);
    ls_json_close_object(&j);
    ls_str_add(&j.out, yaml && !metrics.no_memory ? "\n" : NULL);
    ls_metric_list_release(&metrics);
    free(yaml);
    return ls_str_take(&j.out);
}

static double number_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void read_point(ls_resume_point *p, const json_t *j)
{
    ls_checkpoint_head head;
    ls_checkpoint_head_read(&head, j);
    *p = (ls_resume_point){ .step = head.step };
#define COUNT(key, member) p->member = json_integer_value(json_object_get(j, key));
#define NUMBER(key, member) p->member = number_at(j, key);
    COUNTS(COUNT)
    NUMBERS(NUMBER)
#undef COUNT
#undef NUMBER
    if (!json_object_get(j, "next_epoch")) { /* an older version wrote the file */
        p->epoch = json_integer_value(json_object_get(j, "epoch"));
        p->epoch_step = json_integer_value(json_object_get(j, "epoch_step"));
    }
    if (!json_object_get(j, "epoch_targets"))
        p->sums.count = p->sums.samples; /* the same; it had one target a sample */
    if (!p->steps_per_epoch && p->epoch > 0)
        /* the same; in the first epoch the number cannot be known */
        p->steps_per_epoch = (p->step - p->epoch_step) / p->epoch;
    p->epoch_ended = json_object_get(j, "epoch_end");
    p->metrics.best_value = number_at(j, "best_value");
    p->evaluated = read_evaluation(j);
    p->metrics.eval_texts = json_integer_value(json_object_get(j, "eval_texts"));
    p->metrics.step = p->step;
    p->metrics.epoch = head.last_epoch;
}

int64_t ls_resume_epoch(const ls_resume_point *p, int64_t step)
{
    return p->base_epoch + (step - p->base_step) / p->steps_per_epoch;
}
int64_t ls_resume_epoch_step(const ls_resume_point *p, int64_t step)
{
    return (step - p->base_step) % p->steps_per_epoch;
}

bool ls_resume_ending(const ls_resume_point *p, int64_t total_steps)
{
    return p->sums.samples > 0 && !p->epoch_ended &&
           (p->epoch_step == p->steps_per_epoch || p->step >= total_steps);
}

/* Sets the number of steps of an epoch from now on. If it changes, finished epochs stay finished, and the
 * running one begins again, unless only its end, or that of the run after `total` steps, is to come. */
static void set_steps_per_epoch(ls_resume_point *p, int64_t now, int64_t total)
{
    const int64_t before = p->steps_per_epoch;
    p->steps_per_epoch = now;
    if (!before || before == now)
        return;
    const bool ends = p->epoch_step == before;
    ls_log_warn("an epoch has %lld steps now, and had %lld: epoch %lld begins %s after step %lld",
                (long long)now, (long long)before, (long long)(p->epoch + ends),
                p->epoch_step && !ends ? "anew" : "as planned", (long long)p->step);
    p->base_step = p->step;
    p->base_epoch = p->epoch + ends;
    p->epoch_step = ends ? now : 0;
    if (ends || p->step >= total)
        return;
    memset(&p->sums, 0, sizeof p->sums);
}

/* ---- what must not have changed */

/* What depends on a key. Keys are found by how they begin. */
static const char *affected(const char *key)
{
    static const struct {
        const char *begin, *what;
    } EFFECTS[] = {
        { "model.", "what the weights mean" },
        { "data.", "the samples" },
        { "run.seed", "the order of the samples" },
        { "train.global_batch", "which samples a step takes; the run goes on at the same step number" },
        { "train.micro_batch", "how sums are rounded, with what is normalized over a batch" },
        { "train.drop_last", "how many steps an epoch has" },
        { "train.steps_per_epoch", "how many steps an epoch has" },
        { "train.", "how gradients are added and scaled" },
        { "optimizer.", "the update, and what its state means" },
        { "schedule.", "the learning rate of every step" },
        { "parallel.sync_batch_norm", "what is normalized together" },
        { "precision.", "how numbers are rounded" },
    };
    for (size_t i = 0; i < sizeof EFFECTS / sizeof EFFECTS[0]; i++)
        if (!strncmp(key, EFFECTS[i].begin, strlen(EFFECTS[i].begin)))
            return EFFECTS[i].what;
    return "how numbers are rounded";
}

/* Appends "KEY: A here, B there; KEY: ..." and, for each key, what it affects. */
static void explain(ls_str *out, const char *differences)
{
    for (const char *p = differences, *end; *p; p = *end ? end + 2 : end) {
        end = strstr(p, "; ");
        end = end ? end : p + strlen(p);
        ls_str_printf(out, "%s%.*s (%s)", out->len ? "; " : "", (int)(end - p), p, affected(p));
    }
}

/* Compares the samples and the tokenizer. *eval_data becomes true unless the samples of evaluation are known
 * to be the same. */
static void compare_data(ls_str *out, bool *eval_data, const json_t *j, const ls_resume_now *now)
{
    ls_str data = { 0 };
    ls_data_difference(&data, j, now->train);
    *eval_data = now->eval && json_object_get(j, "data") && !ls_data_difference(&data, j, now->eval);
    ls_data_tokenizer_difference(&data, j, now->train);
    if (data.len)
        ls_str_printf(out,
                      "%s%s (the samples; data.path, LOCKSTEP_DATA or the data.* keys say where they are)",
                      out->len ? "; " : "", data.data);
    ls_str_inherit(out, &data);
    ls_str_release(&data);
}

static ls_status resume_compare(ls_str *out, ls_resume_change *change, const json_t *j, const char *path,
                                const ls_trainer *t, const ls_recipe *r, const ls_resume_now *now)
{
    const char *yaml = json_string_value(json_object_get(j, "recipe")),
               *isa = json_string_value(json_object_get(j, "isa")),
               *device = json_string_value(json_object_get(j, "device"));
    const char *here = t->compiled.device.arch->name, *now_on = t->compiled.device.ops->name;
    const int64_t ranks = ls_mesh_ranks(&t->compiled.parallel.mesh);
    ls_checkpoint_head head;
    ls_recipe *there;
    ls_checkpoint_head_read(&head, j);
    if (!yaml || !isa)
        return ls_fail(
            LS_E_FORMAT,
            "%s/trainer.json contains no recipe: your own program or an older version wrote it; begin "
            "with its weights: --set model.init=%s and another run.name",
            path, path);
    LS_TRY(ls_recipe_load_record(&there, yaml, strlen(yaml), "the recipe in trainer.json", 0, NULL));
    ls_status s = ls_recipe_set(there, "run.name", r->run.name, ""); /* another run may continue from there */
    char *difference = s == LS_OK ? ls_recipe_difference(r, there) : NULL;
    if (s == LS_OK)
        s = difference ? LS_OK : LS_E_MEMORY;
    if (s == LS_OK)
        explain(out, difference);
    free(difference);
    change->best = strcmp(r->checkpoint.best.metric, there->checkpoint.best.metric) != 0 ||
                   (ls_metric_of_texts(r->checkpoint.best.metric) &&
                    memcmp(&r->eval.generate, &there->eval.generate, sizeof r->eval.generate) != 0);
    ls_recipe_destroy(&there);
    LS_TRY(s);
    /* Two devices have no levels to compare, unless one gives the bits of the other. */
    const bool same = !device || !strcmp(ls_device_bits(device), ls_device_bits(now_on));
    if (!same)
        ls_str_printf(out, "%sdevice: %s here, %s there (how numbers are rounded; --set device=%s)",
                      out->len ? "; " : "", now_on, device, device);
    if (same && strcmp(isa, here))
        ls_str_printf(
            out,
            "%sISA level: %s here, %s there (how numbers are rounded; --set isa=%s where the machine has it)",
            out->len ? "; " : "", here, isa, isa);
    if (head.world != ranks && r->precision.reduce != LS_F32 && r->precision.reduce != LS_F64)
        ls_str_printf(out, "%sranks: %lld here, %lld there (sums over ranks are rounded to %s)",
                      out->len ? "; " : "", (long long)ranks, (long long)head.world,
                      ls_dtype_name(r->precision.reduce));
    ls_module_difference(out, j, r);
    compare_data(out, &change->eval_data, j, now);
    if (head.world != ranks && r->parallel.sync_batch_norm)
        ls_str_printf(out,
                      "%sranks: %lld here, %lld there (what batch norm's statistics are over: "
                      "parallel.sync_batch_norm)",
                      out->len ? "; " : "", (long long)ranks, (long long)head.world);
    return LS_OK;
}

static ls_status check_unchanged(ls_resume_change *change, const json_t *j, const char *path,
                                 const ls_trainer *t, const ls_recipe *r, const ls_resume_now *now)
{
    ls_str changed = { 0 };
    ls_status s = resume_compare(&changed, change, j, path, t, r, now);
    if (s == LS_OK)
        s = ls_str_status(&changed);
    if (s == LS_OK && changed.len > 0 && !now->allow_change)
        s = ls_fail(LS_E_USAGE,
                    "%s was made with other settings: %s; set run.name for a new run, or continue with these "
                    "changes: --allow-change",
                    path, changed.data);
    else if (s == LS_OK && changed.len > 0)
        ls_log_warn("changed since %s: %s", path, changed.data);
    if (s == LS_OK && changed.len > 0)
        change->what = ls_str_take(&changed);
    ls_str_release(&changed);
    return s;
}

/* ---- finding and loading */

static char *folder_of(const ls_recipe *r)
{
    char *run = ls_storage_run(r->run.storage, r->run.name), *folder = ls_path_join(run, "checkpoints");
    free(run);
    return folder;
}

int64_t ls_resume_newest(const char *folder)
{
    DIR *d = folder ? opendir(folder) : NULL;
    int64_t step = -1;
    for (const struct dirent *e; d && (e = readdir(d));) {
        const int64_t found = ls_step_folder_parse(e->d_name);
        step = found > step ? found : step;
    }
    if (d)
        closedir(d);
    return step;
}

static ls_status read_trainer(json_t **out, const char *checkpoint)
{
    char *text = NULL, *file = ls_path_join(checkpoint, "trainer.json");
    size_t size = 0;
    *out = NULL;
    ls_status s = ls_file_read(&text, &size, file);
    if (s == LS_OK)
        s = ls_json_parse(out, text, size, file);
    free(text);
    free(file);
    return s;
}

ls_status ls_resume_step(int64_t *step, const char *checkpoint)
{
    json_t *j;
    *step = 0;
    if (!ls_checkpoint_is(checkpoint) && ls_dcp_is(checkpoint))
        return LS_OK;
    ls_checkpoint_head head;
    ls_status s = read_trainer(&j, checkpoint);
    ls_checkpoint_head_read(&head, j);
    *step = s == LS_OK && head.step > 0 ? head.step : 0;
    json_decref(j);
    return s;
}

bool ls_resume_ended(ls_epoch_row *row, const char *checkpoint, const ls_dataset *train,
                     const ls_dataset *eval)
{
    json_t *j;
    ls_str differences = { 0 };
    ls_status s = read_trainer(&j, checkpoint);
    const json_t *ended = json_object_get(j, "epoch_end");
    const char *loss = json_object_get(ended, "train_loss") ? "train_loss" : "loss"; /* of an older version */
    *row = (ls_epoch_row){ .train_loss = number_at(ended, loss),
                           .eval = read_evaluation(ended),
                           .eval_texts = json_integer_value(json_object_get(ended, "eval_texts")) };
    const bool known = s == LS_OK && ended && !row->eval.no_memory &&
                       (!train || ls_data_difference(&differences, j, train)) &&
                       (!eval || ls_data_difference(&differences, j, eval));
    json_decref(j);
    ls_str_release(&differences);
    return known;
}

static ls_status find_asked(char path[4096], const char *folder, const ls_resume_ask *ask, int64_t last)
{
    const char *asked = ask->from;
    const bool checkpoint = ls_checkpoint_is(asked), foreign = !checkpoint && ls_dcp_is(asked);
    if (!checkpoint && !foreign)
        return ls_fail(
            LS_E_USAGE,
            "--resume %s: this is not a checkpoint: a checkpoint folder has a manifest.json, a PyTorch "
            "directory a .metadata; the checkpoints of a run are in RUN/checkpoints/; weights alone begin a "
            "run "
            "with --set model.init=%s",
            asked, asked);
    if (!foreign && (ask->prefix || ask->epoch >= 0))
        return ls_fail(LS_E_USAGE,
                       "--resume %s: a checkpoint contains its step; %s is for PyTorch directories", asked,
                       ask->prefix ? "--prefix" : "--resume-at");
    snprintf(path, 4096, "%s", asked);
    char name[LS_STEP_FOLDER_ROOM];
    int64_t step;
    LS_TRY(ls_resume_step(&step, asked));
    if (foreign && last >= 0)
        return ls_fail(
            LS_E_USAGE,
            "--resume %s: the run has a checkpoint of its own, %s/%s; without --resume it continues from "
            "there; set run.name for another run",
            asked, folder, ls_step_folder(name, last));
    if (last > step)
        return ls_fail(LS_E_USAGE,
                       "--resume %s: the run has a newer checkpoint, %s/%s; remove it to go back to step "
                       "%lld, or set run.name",
                       asked, folder, ls_step_folder(name, last), (long long)step);
    return LS_OK;
}

ls_status ls_resume_find(char path[4096], const ls_recipe *r, const ls_resume_ask *ask)
{
    const char *asked = ask ? ask->from : NULL;
    path[0] = 0;
    if (asked && !strcmp(asked, "never"))
        return LS_OK;
    char *folder = folder_of(r), name[LS_STEP_FOLDER_ROOM];
    ls_checkpoint_settle(folder);
    const int64_t last = ls_resume_newest(folder);
    ls_status s = LS_OK;
    if (asked && strcmp(asked, "auto"))
        s = find_asked(path, folder, ask, last);
    else if (last >= 0)
        snprintf(path, 4096, "%s/%s", folder, ls_step_folder(name, last));
    free(folder);
    return s;
}

ls_status ls_resume_find_again(char path[4096], const ls_recipe *r, const ls_resume_ask *asked)
{
    LS_TRY(ls_resume_find(path, r, NULL));
    return path[0] ? LS_OK : ls_resume_find(path, r, asked);
}

enum { ADVICE_ROOM = 4096 + 256 }; /* of what to do with a damaged checkpoint */
static const char *advice(char text[ADVICE_ROOM], const char *path, const ls_recipe *r)
{
    snprintf(
        text, ADVICE_ROOM,
        "Lockstep does not fall back to an older checkpoint by itself: delete %s%s, and the run continues "
        "from the checkpoint before it; or use --resume CHECKPOINT with another run.name",
        path, ls_s3_is(r->run.storage) ? ", on every host and in the bucket" : "");
    return text;
}

ls_status ls_resume_load(ls_resume_point *out, ls_resume_change *change, const char *path, ls_trainer *t,
                         const ls_recipe *r, const ls_resume_now *now)
{
    ls_checkpoint c;
    json_t *j = NULL;
    uint64_t base = 0;
    char text[ADVICE_ROOM];
    ls_status s;
    if (!ls_checkpoint_is(path) && ls_dcp_is(path))
        return ls_resume_load_dcp(out, change, path, t, r, now);
    const bool full = r->checkpoint.verify == LS_VERIFY_CHOICE_FULL;
    s = ls_checkpoint_open_sparse(&c, now->sparse, path, full ? LS_VERIFY_LOADED : LS_VERIFY_SIZES, t->group);
    if (s != LS_OK)
        return s == LS_E_FORMAT ? ls_fail(s, "%s. %s", ls_error_message(), advice(text, path, r)) : s;
    if (!c.optimizer) {
        s = ls_fail(
            LS_E_FORMAT,
            "%s holds weights without optimizer state and cannot be continued; begin with them: --set "
            "model.init=%s and another run.name",
            path, path);
        goto done;
    }
    LS_TRY_TO(s, ls_json_parse(&j, c.trainer, strlen(c.trainer), path), done);
    LS_TRY_TO(s, check_unchanged(change, j, path, t, r, now), done);
    LS_TRY_TO(s, ls_base_check(&c, r, &t->compiled.units), done);
    LS_TRY_TO(s, ls_base_join(&c, r, t->group, &base), done);
    LS_TRY_TO(s, ls_trainer_load_state(t, &c, advice(text, path, r)), done);
    t->skips = json_integer_value(json_object_get(j, "skips"));
    t->bad_skips = json_integer_value(json_object_get(j, "nonfinite_skips"));
    read_point(out, j);
    out->base = base;
    set_steps_per_epoch(out, now->steps_per_epoch, r->train.steps > 0 ? r->train.steps : INT64_MAX);
    t->step_number = out->step; /* for messages */
    s = ls_metric_list_status(&out->evaluated);
done:
    json_decref(j);
    ls_checkpoint_release(&c);
    return s;
}
