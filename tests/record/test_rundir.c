/* test_rundir.c - the run directory: what is made, what is refused, rows that read back exactly, states as
 * others see them, a full disk. */
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/file.h"
#include "base/json.h"
#include "record/metrics.h"
#include "support/ranks.h"
#include "support/support.h"

static ls_recipe *recipe(const char *storage, const char *extra)
{
    ls_recipe *r;
    char set[600];
    snprintf(set, sizeof set, "run.storage=%s", storage);
    const char *const sets[] = { set, extra };
    const char *text = "run: {name: one}\nmodel: {type: mlp}\ndata: {type: mnist}\n";
    ASSERT_OK(ls_recipe_load_text(&r, text, strlen(text), "test.yaml", extra ? 2 : 1, sets));
    return r;
}

/* The whole file "storage/one/NAME". */
static char *contents(const char *storage, const char *name)
{
    char path[800], *text;
    size_t size;
    snprintf(path, sizeof path, "%s/one/%s", storage, name);
    ASSERT_OK(ls_file_read(&text, &size, path));
    return text;
}

static json_t *parsed(const char *text, size_t n)
{
    json_t *tree;
    ASSERT_OK(ls_json_parse(&tree, text, n, "test"));
    return tree;
}

/* Row number `i` of metrics.jsonl. */
static json_t *row(const char *storage, int i)
{
    char *text = contents(storage, "metrics.jsonl"), *p = text;
    while (i--)
        p = strchr(p, '\n') + 1;
    json_t *tree = parsed(p, strcspn(p, "\n"));
    free(text);
    return tree;
}

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "(none)";
}

static void a_new_run_has_its_files(void **state)
{
    (void)state;
    const char *storage = ls_test_path("new");
    ls_recipe *r = recipe(storage, NULL), *again;
    ls_rundir *d;
    ls_run_info info;
    ASSERT_OK(ls_rundir_open(&d, r));
    assert_int_equal(d->before, LS_RUN_NEW);
    assert_int_equal(d->attempt, 0);
    ASSERT_OK(ls_run_info_read(&info, d->path));
    assert_int_equal(info.state, LS_RUN_STARTING);
    ls_rundir_log(d, LS_WARN, "hello");
    d->data_note = "a set";
    d->startup = (ls_startup){ 1, { { "load", 0.25 } }, 0.5 };
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_FINISHED, NULL));
    assert_null(d);
    ASSERT_OK(ls_recipe_load(&again, ls_test_path("new/one/recipe.yaml"), 0, NULL));
    assert_null(ls_recipe_difference(r, again));
    char *log = contents(storage, "log/rank-0.log"), *csv = contents(storage, "metrics.csv"),
         *result = contents(storage, "result.json");
    ASSERT_CONTAINS(log, "warning hello\n");
    assert_string_equal(csv, "epoch,step,samples,loss,eval_loss,eval_accuracy,lr,seconds,attempt\n");
    json_t *tree = parsed(result, strlen(result));
    assert_string_equal(text_of(tree, "state"), "finished");
    assert_string_equal(text_of(tree, "data"), "a set");
    assert_true(json_is_null(json_object_get(tree, "error")));
    assert_true(json_number_value(json_object_get(
                    json_object_get(json_object_get(tree, "timings"), "startup"), "load")) == 0.25);
    json_decref(tree);
    ASSERT_OK(ls_rundir_open(&d, r)); /* looked at, nothing done: not a byte changes */
    ASSERT_OK(ls_rundir_close(&d, d->before, NULL));
    char *same = contents(storage, "result.json");
    assert_string_equal(result, same);
    free(same);
    free(log);
    free(csv);
    free(result);
    ls_recipe_destroy(&r);
    ls_recipe_destroy(&again);
}

static void losses_read_back_as_the_same_float(void **state)
{
    (void)state;
    const char *storage = ls_test_path("floats");
    ls_recipe *r = recipe(storage, NULL);
    ls_rundir *d;
    const float values[] = { 2.3025851f, 1e-45f,        3.4028235e38f, 0.1f,
                             1.0f / 3,   5.9604645e-8f, 0.0f,          16777216.0f };
    int n = (int)(sizeof values / sizeof values[0]);
    ASSERT_OK(ls_rundir_open(&d, r));
    for (int i = 0; i < n; i++)
        ASSERT_OK(ls_metrics_step(d, &(ls_step_row){ .step = i + 1,
                                                     .epoch = 0,
                                                     .samples = 128,
                                                     .loss = values[i],
                                                     .lr = 0.1,
                                                     .seconds = 0.5,
                                                     .grad_norm = -1 }));
    ASSERT_OK(ls_metrics_step(
        d,
        &(ls_step_row){ .step = n + 1, .loss = NAN, .grad_norm = 2, .loss_scale = 1024, .skipped = true }));
    const ls_step_row low = { .step = n + 2, .loss = 1, .grad_norm = -1, .loss_scale = 0.5 };
    ASSERT_OK(ls_metrics_step(d, &low));
    assert_int_equal(d->metrics.step, n + 2);
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_FAILED, "the loss is NaN"));
    char *text = contents(storage, "metrics.jsonl");
    const char *p = text;
    for (int i = 0; i < n; i++) {
        const char *loss = strstr(p, "\"loss\":") + 7;
        assert_true(strtof(loss, NULL) == values[i]);
        p = strchr(p, '\n') + 1;
    }
    free(text);
    json_t *first = row(storage, 0), *last = row(storage, n), *lowest = row(storage, n + 1);
    assert_string_equal(text_of(first, "kind"), "step");
    assert_int_equal(json_integer_value(json_object_get(first, "samples")), 128);
    assert_int_equal(json_integer_value(json_object_get(first, "attempt")), 0);
    assert_null(json_object_get(first, "grad_norm"));
    assert_true(json_is_null(json_object_get(last, "loss")));
    assert_true(json_is_true(json_object_get(last, "skipped")));
    assert_true(json_number_value(json_object_get(last, "grad_norm")) == 2);
    assert_true(json_number_value(json_object_get(lowest, "loss_scale")) == 0.5);
    assert_true(json_is_false(json_object_get(lowest, "skipped")));
    char csv[LS_CSV_ROW];
    /* no norm, the scale, not skipped, attempt 0 */
    ASSERT_CONTAINS(ls_step_row_csv(csv, &low, 0), ",,0.5,0,0\n");
    json_decref(lowest);
    json_decref(first);
    json_decref(last);
    ls_recipe_destroy(&r);
}

static void evaluations_find_the_best(void **state)
{
    (void)state;
    const double losses[] = { NAN, 0.7, 0.4, 0.5, 0.4 }, accuracies[] = { 0.8, 0.9, 0.85, 0.1, 0.9 };
    const bool best_loss[] = { false, true, true, false, false },
               best_accuracy[] = { true, true, false, false, false };
    for (int which = 0; which < 2; which++) {
        const char *storage = ls_test_path(which ? "acc" : "loss");
        ls_recipe *r = recipe(storage, which ? "checkpoint.best={metric: eval_accuracy, mode: max}" : NULL);
        ls_rundir *d;
        ls_run_info info;
        ASSERT_OK(ls_rundir_open(&d, r));
        for (int i = 0; i < 5; i++) {
            const double value = which ? accuracies[i] : losses[i];
            assert_int_equal(ls_rundir_is_best(d, value, which, 10 * i, i),
                             which ? best_accuracy[i] : best_loss[i]);
            ASSERT_OK(ls_metrics_eval(d, &(ls_eval_row){ .step = 10 * i,
                                                         .epoch = i,
                                                         .samples = 100,
                                                         .loss = losses[i],
                                                         .accuracy = accuracies[i] }));
        }
        ASSERT_OK(ls_metrics_epoch(d, &(ls_epoch_row){ .epoch = 4,
                                                       .step = 40,
                                                       .samples = 100,
                                                       .loss = 0.25,
                                                       .eval_loss = NAN,
                                                       .eval_accuracy = NAN,
                                                       .lr = 0.5,
                                                       .seconds = 2 }));
        ASSERT_OK(
            ls_make_dirs(ls_test_path(which ? "acc/one/checkpoints/step-1" : "loss/one/checkpoints/step-1")));
        ls_rundir_add_checkpoint(d, "checkpoints/step-0", 0, false); /* removed since: not listed */
        ls_rundir_add_checkpoint(d, "checkpoints/step-1", 1, false);
        ls_rundir_add_checkpoint(d, "checkpoints/step-1", 1, true); /* the best after all: listed once */
        ASSERT_OK(ls_metrics_checkpoint(
            d, &(ls_checkpoint_row){ .step = 1, .path = "checkpoints/step-1", .bytes = 5 }));
        ASSERT_OK(ls_run_info_read(&info, d->path));
        assert_string_equal(info.checkpoint, "checkpoints/step-1");
        assert_true(info.metrics.best_value == (which ? 0.9 : 0.4));
        assert_int_equal(info.metrics.best_step, which ? 10 : 20);
        assert_int_equal(info.state, LS_RUN_STARTING);
        ASSERT_OK(ls_rundir_close(&d, LS_RUN_FINISHED, NULL));
        char *csv = contents(storage, "metrics.csv"), *result = contents(storage, "result.json");
        ASSERT_CONTAINS(csv, "\n4,40,100,0.25,,,0.5,2,0\n");
        assert_null(strstr(result, "step-0"));
        free(csv);
        free(result);
        /* and the run opened again knows all that */
        ASSERT_OK(ls_rundir_open(&d, r));
        assert_int_equal(d->before, LS_RUN_FINISHED);
        assert_int_equal(d->attempt, 1);
        assert_true(d->metrics.best_value == (which ? 0.9 : 0.4));
        ASSERT_OK(ls_rundir_save_result(d, LS_RUN_FINISHED, NULL));
        result = contents(storage, "result.json");
        ASSERT_CONTAINS(
            result,
            "\"checkpoints\":[{\"path\":\"checkpoints/"
            "step-1\",\"step\":1,\"epoch\":0,\"metrics\":{\"eval_loss\":0.4,\"eval_accuracy\":0.9}}]");
        ASSERT_CONTAINS(result, "\"best_checkpoint\":\"checkpoints/step-1\"");
        free(result);
        ASSERT_OK(ls_rundir_close(&d, LS_RUN_NEW, NULL));
        ls_recipe_destroy(&r);
    }
}

static void one_process_at_a_time(void **state)
{
    (void)state;
    char pid[64];
    ls_recipe *r = recipe(ls_test_path("lock"), NULL);
    ls_rundir *d, *second;
    ASSERT_OK(ls_rundir_open(&d, r));
    snprintf(pid, sizeof pid, "process %ld", (long)getpid());
    ASSERT_FAILS(ls_rundir_open(&second, r), LS_E_USAGE, "lock/one", "being trained", pid, "host ");
    assert_null(second);
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_STOPPED, NULL));
    ASSERT_OK(ls_rundir_open(&d, r));
    assert_int_equal(d->before, LS_RUN_STOPPED);
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_NEW, NULL));
    ls_recipe_destroy(&r);
}

/* Others look at a run all the time (`lockstep runs`): that keeps nobody from opening it, and what they see
 * is never a run that died. */
typedef struct onlooker {
    char path[700];
    _Atomic bool ended;
    bool died;
} onlooker;

static void *look_on(void *context)
{
    onlooker *o = context;
    ls_run_info info;
    while (!atomic_load(&o->ended))
        o->died = o->died || (ls_run_info_read(&info, o->path) == LS_OK && info.state == LS_RUN_DIED);
    return NULL;
}

static void looking_disturbs_nobody(void **state)
{
    (void)state;
    const char *storage = ls_test_path("looked-at");
    ls_recipe *r = recipe(storage, NULL);
    ls_rundir *d;
    onlooker o = { .died = false };
    pthread_t thread;
    snprintf(o.path, sizeof o.path, "%s/one", storage);
    assert_int_equal(pthread_create(&thread, NULL, look_on, &o), 0);
    ls_status s = LS_OK;
    for (int i = 0; i < 200 && s == LS_OK; i++) {
        s = ls_rundir_open(&d, r);
        if (s == LS_OK && i > 0)
            s = ls_rundir_save_result(d, LS_RUN_STARTING, NULL);
        if (s == LS_OK)
            s = ls_rundir_close(&d, LS_RUN_STOPPED, NULL);
    }
    atomic_store(&o.ended, true);
    pthread_join(thread, NULL);
    ASSERT_OK(s);
    assert_false(o.died);
    ls_recipe_destroy(&r);
}

static ls_run_state shown(const ls_rundir *d)
{
    ls_run_info info;
    ASSERT_OK(ls_run_info_read(&info, d->path));
    return info.state;
}

static void states_are_shown_as_they_come(void **state)
{
    (void)state;
    ls_recipe *r = recipe(ls_test_path("states"), NULL);
    ls_rundir *d;
    ASSERT_OK(ls_rundir_open(&d, r));
    assert_int_equal(shown(d), LS_RUN_STARTING);
    ASSERT_OK(ls_metrics_saving(d)); /* nothing runs yet */
    assert_int_equal(shown(d), LS_RUN_STARTING);
    ASSERT_OK(ls_rundir_save_result(d, LS_RUN_RUNNING, NULL));
    ASSERT_OK(ls_metrics_saving(d));
    assert_int_equal(shown(d), LS_RUN_SAVING);
    ASSERT_OK(ls_metrics_checkpoint(d, &(ls_checkpoint_row){ .step = 1, .path = "checkpoints/step-1" }));
    assert_int_equal(shown(d), LS_RUN_RUNNING);
    ASSERT_OK(ls_rundir_save_result(d, LS_RUN_STOPPING, NULL));
    ASSERT_OK(ls_metrics_saving(d));
    ASSERT_OK(ls_metrics_checkpoint(d, &(ls_checkpoint_row){ .step = 2, .path = "checkpoints/step-2" }));
    assert_int_equal(shown(d), LS_RUN_STOPPING); /* until the end */
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_STOPPED, NULL));
    ls_recipe_destroy(&r);
}

static void states_go_their_ways_only(void **state)
{
    (void)state;
    for (ls_run_state s = LS_RUN_NEW; s <= LS_RUN_DIED; s++) {
        assert_true(ls_run_state_may(s, s));
        assert_false(s != LS_RUN_NEW && ls_run_state_may(s, LS_RUN_NEW));
        assert_false(s != LS_RUN_DIED && ls_run_state_may(s, LS_RUN_DIED)); /* nobody writes that */
        assert_true(s == LS_RUN_NEW || s == LS_RUN_FAILED || ls_run_state_may(s, LS_RUN_FAILED));
        assert_int_equal(ls_run_state_may(s, LS_RUN_STARTING),
                         s == LS_RUN_STARTING || s == LS_RUN_RESTARTING || !ls_run_state_lives(s));
    }
    assert_false(ls_run_state_may(LS_RUN_RUNNING, LS_RUN_STOPPED)); /* not without saying that it stops */
    assert_false(ls_run_state_may(LS_RUN_STOPPING, LS_RUN_RUNNING));
    /* a checkpoint is being written: steps go on, a stop is asked for, or the run ends */
    assert_true(ls_run_state_may(LS_RUN_RUNNING, LS_RUN_SAVING) &&
                ls_run_state_may(LS_RUN_SAVING, LS_RUN_RUNNING));
    assert_true(ls_run_state_may(LS_RUN_SAVING, LS_RUN_STOPPING) &&
                ls_run_state_may(LS_RUN_SAVING, LS_RUN_FINISHED));
    assert_false(ls_run_state_may(LS_RUN_FINISHED, LS_RUN_RUNNING));
}

static void another_recipe_is_refused(void **state)
{
    (void)state;
    const char *storage = ls_test_path("other");
    ls_recipe *r = recipe(storage, NULL), *micro = recipe(storage, NULL),
              *batch = recipe(storage, "train.global_batch=64"), *longer = recipe(storage, "train.epochs=9");
    ls_rundir *d;
    ASSERT_OK(ls_recipe_set(r, "train.micro_batch", "32", "resolved"));
    ASSERT_OK(ls_rundir_open(&d, r));
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_STOPPED, NULL));
    ASSERT_FAILS(ls_rundir_open(&d, batch), LS_E_USAGE, "other/one", "train.global_batch: 64 here, 128 there",
                 "run.name");
    assert_int_equal(ls_rundir_micro_batch(micro), 32);
    assert_int_equal(ls_rundir_micro_batch(batch), 0);
    ASSERT_FAILS(ls_rundir_open(&d, micro), LS_E_USAGE, "train.micro_batch: 0 here, 32 there");
    ASSERT_OK(ls_recipe_set(micro, "train.micro_batch", "32", "kept"));
    ASSERT_OK(ls_rundir_open(&d, micro));
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_NEW, NULL));
    ASSERT_OK(ls_recipe_set(longer, "train.micro_batch", "32", "kept"));
    ASSERT_OK(ls_rundir_open(&d, longer)); /* may change */
    ASSERT_OK(ls_rundir_save_recipe(d, longer));
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_NEW, NULL));
    char *yaml = contents(storage, "recipe.yaml");
    ASSERT_CONTAINS(yaml, "epochs: 9\n");
    ASSERT_CONTAINS(yaml, "micro_batch: 32\n");
    free(yaml);
    ASSERT_OK(ls_file_write(ls_test_path("other/one/recipe.yaml"), "nonsense: [", 11));
    ASSERT_FAILS(ls_rundir_open(&d, r), LS_E_USAGE, "other/one exists, but its recipe does not load",
                 "recipe.yaml:");
    ls_recipe_destroy(&r);
    ls_recipe_destroy(&micro);
    ls_recipe_destroy(&batch);
    ls_recipe_destroy(&longer);
}

static int lines_of(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* Rank 0 opens the run, rank 1 follows: the same numbers, its own log, no rows. */
static ls_status opened_by_rank(ls_group *g, void *context)
{
    ls_recipe *r = context;
    ls_rundir *d;
    int rank = ls_group_rank(g);
    LS_TRY(ls_rundir_open_ranks(&d, r, g, false));
    RANK_CHECK(d->rank == rank && d->before == LS_RUN_FINISHED && d->attempt == 1 && d->metrics.step == 7);
    ls_rundir_log(d, LS_INFO, rank ? "from one" : "from zero");
    LS_TRY(ls_metrics_step(d, &(ls_step_row){ .step = 8, .loss = 1, .grad_norm = -1 }));
    RANK_CHECK(ls_rundir_is_best(d, 0.5, false, 8, 0));
    LS_TRY(ls_metrics_eval(d, &(ls_eval_row){ .step = 8, .loss = 0.5 }));
    LS_TRY(ls_metrics_epoch(d, &(ls_epoch_row){ .step = 8, .eval_loss = NAN }));
    RANK_CHECK(d->metrics.step == 8);
    return ls_rundir_close(&d, rank ? LS_RUN_FAILED : LS_RUN_FINISHED, NULL);
}

static void ranks_share_a_run(void **state)
{
    (void)state;
    const char *storage = ls_test_path("ranks");
    ls_recipe *r = recipe(storage, NULL);
    ls_rundir *d;
    ls_run_info info;
    ASSERT_OK(ls_rundir_open(&d, r));
    ASSERT_OK(ls_metrics_step(d, &(ls_step_row){ .step = 7, .loss = 2, .grad_norm = -1 }));
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_FINISHED, NULL));
    ASSERT_OK(run_ranks(2, opened_by_rank, r));
    char *rows = contents(storage, "metrics.jsonl"), *csv = contents(storage, "metrics.csv"),
         *zero = contents(storage, "log/rank-0.log"), *one = contents(storage, "log/rank-1.log");
    assert_int_equal(lines_of(rows), 4); /* step 7; step 8, evaluation and epoch once */
    assert_int_equal(lines_of(csv), 2);
    assert_null(strstr(zero, "from one"));
    ASSERT_CONTAINS(zero, "from zero");
    ASSERT_CONTAINS(one, "from one");
    assert_null(strstr(one, "from zero"));
    ASSERT_OK(ls_run_info_read(&info, ls_test_path("ranks/one")));
    assert_int_equal(info.state, LS_RUN_FINISHED);
    free(rows);
    free(csv);
    free(zero);
    free(one);
    ls_recipe_destroy(&r);
}

static void a_foreign_folder_stays_untouched(void **state)
{
    (void)state;
    ls_recipe *r = recipe(ls_test_path("mine"), NULL);
    ls_rundir *d;
    ASSERT_OK(ls_make_dirs(ls_test_path("mine/one")));
    ASSERT_OK(ls_file_write(ls_test_path("mine/one/thesis.tex"), "x", 1));
    ASSERT_FAILS(ls_rundir_open(&d, r), LS_E_USAGE, "mine/one exists and is no run directory");
    assert_int_equal(ls_test_count(ls_test_path("mine/one")), 1);
    ls_recipe_destroy(&r);
    r = recipe(ls_test_path("mine/one/thesis.tex"), NULL); /* storage is a file */
    ASSERT_FAILS(ls_rundir_open(&d, r), LS_E_IO, "thesis.tex");
    ls_recipe_destroy(&r);
}

static void run_in_child(void (*body)(const char *), const char *storage)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        body(storage);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void start_and_die(const char *storage)
{
    ls_rundir *d;
    ls_recipe *r = recipe(storage, NULL);
    if (ls_rundir_open(&d, r) != LS_OK)
        _exit(1);
    if (ls_metrics_step(d, &(ls_step_row){ .step = 1, .loss = 1, .grad_norm = -1 }) != LS_OK)
        _exit(2);
}

static int a_dead_process(void)
{
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return (int)child;
}

/* A process of another host cannot be seen: its run is its own as long as result.json says that it trains and
 * is fresh. */
static void the_owner_on_another_host_is_left_alone(void **state)
{
    (void)state;
    const char *storage = ls_test_path("elsewhere"), *owner = "host elsewhere, process 1\n";
    char path[700], lock[710];
    snprintf(path, sizeof path, "%s/one", storage);
    snprintf(lock, sizeof lock, "%s/lock.txt", path);
    ls_recipe *r = recipe(storage, NULL);
    ls_rundir *d;
    ASSERT_OK(ls_rundir_open(&d, r));
    ASSERT_OK(ls_rundir_save_result(d, LS_RUN_STARTING, NULL));
    ASSERT_OK(ls_rundir_save_result(d, LS_RUN_RUNNING, NULL));
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_NEW, NULL)); /* as if it trained on */
    ASSERT_OK(ls_file_write(lock, owner, strlen(owner)));
    ASSERT_FAILS(ls_rundir_open(&d, r), LS_E_USAGE, "belongs to host elsewhere, process 1", "nobody can see",
                 "/lock.txt");
    assert_null(d);
    ASSERT_OK(ls_file_write(lock, "", 0));
    ASSERT_OK(ls_rundir_open(&d, r));
    ASSERT_OK(ls_rundir_save_result(d, LS_RUN_STARTING, NULL));
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_STOPPED, NULL));
    ASSERT_OK(ls_file_write(lock, owner, strlen(owner)));
    ASSERT_OK(ls_rundir_open(&d, r)); /* it says itself that it stopped */
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_STOPPED, NULL));
    ls_recipe_destroy(&r);
}

static void between_attempts_the_parent_keeps_the_run(void **state)
{
    (void)state;
    const char *storage = ls_test_path("between");
    ls_recipe *r = recipe(storage, NULL);
    ls_rundir *d;
    ls_run_info info;
    char path[700];
    snprintf(path, sizeof path, "%s/one", storage);
    ASSERT_OK(ls_rundir_open_between(&d, r, false)); /* the first attempt failed before it had made the run */
    assert_int_equal(d->attempt, 1);
    assert_int_equal(ls_metrics_last_step(d, 0), -1);
    ASSERT_OK(ls_metrics_restart(d, &(ls_restart_row){ .cause = "rank 1: early", .pause = 0.5 }));
    ASSERT_OK(ls_run_info_read(&info, path));
    assert_int_equal(info.state, LS_RUN_RESTARTING);
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_RESTARTING, NULL));
    ASSERT_OK(ls_run_info_read(&info, path));
    /* nobody holds it until the ranks do, but their parent lives */
    assert_int_equal(info.state, LS_RUN_RESTARTING);
    char *lock = ls_path_join(path, "lock.txt"), host[64] = "", owner[128];
    gethostname(host, sizeof host - 1);
    snprintf(owner, sizeof owner, "host %s, process %d\n", host, a_dead_process());
    ASSERT_OK(ls_file_write(lock, owner, strlen(owner)));
    free(lock);
    ASSERT_OK(ls_run_info_read(&info, path));
    assert_int_equal(info.state, LS_RUN_DIED);
    ASSERT_OK(ls_rundir_open_between(&d, r, false)); /* the next one left nothing either */
    assert_int_equal(d->attempt, 2);
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_RESTARTING, NULL));
    ASSERT_OK(ls_rundir_open(&d, r)); /* attempt 2 */
    assert_int_equal(d->attempt, 2);
    ASSERT_OK(ls_metrics_step(d, &(ls_step_row){ .step = 1, .loss = 1, .grad_norm = -1 }));
    ASSERT_OK(ls_rundir_save_result(d, LS_RUN_STARTING, NULL));
    d->data_note = "a set";
    d->startup = (ls_startup){ 1, { { "load", 0.25 } }, 0.5 };
    d->train_seconds = 3;
    ASSERT_OK(ls_rundir_save_result(d, LS_RUN_RUNNING, NULL));
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_NEW, NULL)); /* killed */
    ASSERT_OK(ls_rundir_open_between(&d, r, false));
    assert_int_equal(d->attempt, 3);
    assert_int_equal(ls_metrics_last_step(d, 0), 1);
    assert_int_equal(ls_metrics_last_step(d, 1000), -1); /* not from there on */
    assert_string_equal(d->data_note, "a set");          /* what only the ranks knew */
    assert_true(d->startup.n == 1 && d->startup.parts[0].seconds == 0.25 && d->startup.total == 0.5 &&
                d->train_seconds == 3);
    ASSERT_OK(ls_metrics_restart(
        d, &(ls_restart_row){ .cause = "rank 0: late", .step = 0, .lost = 1, .pause = 1 }));
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_STOPPED, NULL));
    ASSERT_OK(ls_run_info_read(&info, path));
    assert_int_equal(info.state, LS_RUN_STOPPED);
    assert_int_equal(info.restarts, 2);
    json_t *first = row(storage, 0), *third = row(storage, 2);
    assert_string_equal(text_of(first, "kind"), "restart");
    assert_string_equal(text_of(first, "cause"), "rank 1: early");
    assert_int_equal(json_integer_value(json_object_get(third, "steps_lost")), 1);
    assert_int_equal(json_integer_value(json_object_get(third, "attempt")), 3);
    json_decref(first);
    json_decref(third);
    ls_recipe_destroy(&r);
}

static void a_killed_run_is_seen_as_died(void **state)
{
    (void)state;
    const char *storage = ls_test_path("died");
    char path[700];
    ls_run_info info;
    run_in_child(start_and_die, storage);
    snprintf(path, sizeof path, "%s/one", storage);
    ASSERT_OK(ls_run_info_read(&info, path));
    assert_int_equal(info.state, LS_RUN_DIED);
    /* the machine crashed inside a row */
    ASSERT_OK(ls_file_append(ls_test_path("died/one/metrics.jsonl"), "{\"kind\":\"st", 11));
    ls_recipe *r = recipe(storage, NULL);
    ls_rundir *d;
    ASSERT_OK(ls_rundir_open(&d, r));
    assert_int_equal(d->before, LS_RUN_DIED);
    ASSERT_OK(ls_rundir_save_result(d, LS_RUN_STARTING, NULL));
    ASSERT_OK(ls_metrics_step(d, &(ls_step_row){ .step = 2, .loss = 1, .grad_norm = -1 }));
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_FINISHED, NULL));
    json_t *third = row(storage, 2);
    assert_int_equal(json_integer_value(json_object_get(third, "step")), 2);
    assert_int_equal(json_integer_value(json_object_get(third, "attempt")), 1);
    json_decref(third);
    ls_recipe_destroy(&r);
}

/* A file size limit behaves like a full disk: the write is short. */
static void write_until_full(const char *storage)
{
    ls_rundir *d;
    ls_recipe *r = recipe(storage, NULL);
    signal(SIGXFSZ, SIG_IGN);
    if (ls_rundir_open(&d, r) != LS_OK)
        _exit(1);
    struct rlimit limit = { 3000, 3000 };
    setrlimit(RLIMIT_FSIZE, &limit);
    int step = 1;
    while (step < 1000 &&
           ls_metrics_step(d, &(ls_step_row){ .step = step, .loss = 1, .grad_norm = -1 }) == LS_OK)
        step++;
    if (step == 1000 || !strstr(ls_error_message(), "metrics.jsonl"))
        _exit(2);
}

static void a_full_disk_leaves_whole_rows(void **state)
{
    (void)state;
    const char *storage = ls_test_path("full");
    run_in_child(write_until_full, storage);
    char *text = contents(storage, "metrics.jsonl");
    size_t n = strlen(text);
    assert_true(n > 2000 && n <= 3000 && text[n - 1] == '\n');
    for (const char *p = text; *p; p = strchr(p, '\n') + 1)
        json_decref(parsed(p, strcspn(p, "\n")));
    free(text);
}

static char *runs_text_within(const char *storage, bool json, int width)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    ASSERT_OK(ls_runs_print(f, storage, json, width));
    fclose(f);
    return text;
}

static char *runs_text(const char *storage, bool json) { return runs_text_within(storage, json, 0); }

static void runs_lists_all_and_says_what_is_broken(void **state)
{
    (void)state;
    const char *storage = ls_test_path("many");
    ls_recipe *r = recipe(storage, NULL);
    ls_rundir *d;
    ASSERT_OK(ls_rundir_open(&d, r));
    ASSERT_OK(ls_metrics_step(d, &(ls_step_row){ .step = 77, .epoch = 2, .loss = 0.125f, .grad_norm = -1 }));
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_FAILED, "the disk was full"));
    ASSERT_OK(ls_make_dirs(ls_test_path("many/broken")));
    ASSERT_OK(ls_make_dirs(ls_test_path("many/no-run")));
    ASSERT_OK(ls_file_write(ls_test_path("many/broken/recipe.yaml"), "x", 1));
    ASSERT_OK(ls_file_write(ls_test_path("many/broken/result.json"), "{\"state\":", 9));
    char *text = runs_text(storage, false), *json = runs_text(storage, true);
    ASSERT_CONTAINS(text, "run     state   step  epoch    loss  ");
    ASSERT_CONTAINS(text, "\nbroken  broken\n    ");
    ASSERT_CONTAINS(text, "\none     failed    77      2  0.1250  ");
    ASSERT_CONTAINS(text, "\n    the disk was full\n");
    assert_null(strstr(text, "no-run"));
    free(text);
    text = runs_text_within(storage, false, 30);
    ASSERT_CONTAINS(text, "run     state   step    loss\n"); /* what matters least is left out */
    json_t *list = parsed(json, strlen(json));
    assert_int_equal(json_array_size(list), 2);
    assert_string_equal(text_of(json_array_get(list, 0), "name"), "broken");
    ASSERT_CONTAINS(text_of(json_array_get(list, 0), "broken"), "result.json");
    assert_int_equal(json_integer_value(json_object_get(json_array_get(list, 1), "step")), 77);
    json_decref(list);
    free(text);
    free(json);
    ASSERT_OK(
        ls_file_write(ls_test_path("many/broken/result.json"), "{\"state\":\"resting\",\"time\":1}", 28));
    text = runs_text(storage, false);
    ASSERT_CONTAINS(text, "no result of a run");
    free(text);
    text = runs_text(ls_test_path("many/no-run"), false);
    ASSERT_CONTAINS(text, "no runs in");
    free(text);
    ASSERT_FAILS(ls_runs_print(stdout, ls_test_path("nowhere"), false, 0), LS_E_USAGE, "nowhere",
                 "no such folder");
    ls_recipe_destroy(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_run_has_its_files),
        cmocka_unit_test(losses_read_back_as_the_same_float),
        cmocka_unit_test(evaluations_find_the_best),
        cmocka_unit_test(one_process_at_a_time),
        cmocka_unit_test(states_are_shown_as_they_come),
        cmocka_unit_test(states_go_their_ways_only),
        cmocka_unit_test(another_recipe_is_refused),
        cmocka_unit_test(ranks_share_a_run),
        cmocka_unit_test(a_foreign_folder_stays_untouched),
        cmocka_unit_test(the_owner_on_another_host_is_left_alone),
        cmocka_unit_test(between_attempts_the_parent_keeps_the_run),
        cmocka_unit_test(looking_disturbs_nobody),
        cmocka_unit_test(a_killed_run_is_seen_as_died),
        cmocka_unit_test(a_full_disk_leaves_whole_rows),
        cmocka_unit_test(runs_lists_all_and_says_what_is_broken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
