/* test_rundir.c - the run directory: what is made, what is refused, its states, and the list of runs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "record/history.h"
#include "record/metrics.h"
#include "support/ranks.h"
#include "support/support.h"
#include "record/run.h"
#include "screen/runs.h"

static void assert_same_recipe(const ls_recipe *a, const ls_recipe *b)
{
    char *difference = ls_recipe_difference(a, b);
    assert_string_equal(difference, "");
    free(difference);
}

static void a_new_run_has_its_files(void **state)
{
    (void)state;
    const char *storage = ls_test_path("new");
    ls_recipe *r = make_recipe(storage, NULL), *again;
    ls_rundir *d;
    ls_run_info info;
    ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false));
    assert_int_equal(d->before, LS_RUN_NEW);
    assert_int_equal(d->attempt, 0);
    ASSERT_OK(ls_run_info_read(&info, d->path));
    ls_run_info_release(&info);
    assert_int_equal(info.state, LS_RUN_STARTING);
    ls_rundir_log(d, LS_WARN, "hello");
    d->data_note = "a set";
    d->startup = (ls_startup){ 1, { { "load", 0.25 } }, 0.5 };
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_FINISHED, NULL));
    assert_null(d);
    ASSERT_OK(ls_recipe_load(&again, ls_test_path("new/one/recipe.yaml"), 0, NULL));
    assert_same_recipe(r, again);
    char *log = file_of_run(storage, "log/rank-0.log"), *csv = file_of_run(storage, "metrics.csv"),
         *result = file_of_run(storage, "result.json");
    ASSERT_CONTAINS(log, "warning hello\n");
    assert_string_equal(csv, "epoch,step,samples,train_loss,eval_loss,eval_accuracy,lr,seconds,attempt\n");
    json_t *tree = parse_json(result, strlen(result));
    assert_string_equal(text_of(tree, "state"), "finished");
    assert_string_equal(text_of(tree, "data"), "a set");
    assert_true(json_is_null(json_object_get(tree, "error")));
    assert_true(json_number_value(json_object_get(
                    json_object_get(json_object_get(tree, "timings"), "startup"), "load")) == 0.25);
    json_decref(tree);
    ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false)); /* looked at, nothing done: not a byte changes */
    ASSERT_OK(ls_rundir_close(&d, d->before, NULL));
    char *same = file_of_run(storage, "result.json");
    assert_string_equal(result, same);
    free(same);
    free(log);
    free(csv);
    free(result);
    ls_recipe_destroy(&r);
    ls_recipe_destroy(&again);
}

/* What rank 0's process and its host did in an epoch: columns behind those of older files, and back again. */
static void use_of_the_host(void **state)
{
    (void)state;
    const char *storage = ls_test_path("use");
    ls_recipe *r = make_recipe(storage, NULL);
    ls_rundir *d;
    ls_history h;
    ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false));
    ASSERT_OK(ls_metrics_epoch(d, &(ls_epoch_row){ .step = 1, .train_loss = 3 })); /* an older version's */
    ASSERT_OK(ls_metrics_epoch(d, &(ls_epoch_row){ .epoch = 1,
                                                   .step = 2,
                                                   .train_loss = 3,
                                                   .memory = 13107200,
                                                   .cpu = 1.5,
                                                   .load = 2.25,
                                                   .gflops = 80,
                                                   .mfu = 0.5 }));
    ASSERT_OK(ls_metrics_memory(
        d, &(ls_memory_row){ .epoch = 1, .step = 2, .rank = 3, .memory = 4096, .planned = 2048 }));
    ASSERT_OK(ls_history_read(&h, d->path));
    assert_true(h.n_epochs == 2 && !(h.epochs[0].row.load > 0) && h.epochs[1].row.load == 2.25 &&
                h.epochs[1].row.cpu == 1.5 && h.epochs[1].row.gflops == 80 && h.epochs[1].row.mfu == 0.5);
    ls_history_release(&h);
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_FINISHED, NULL));
    char *rows = file_of_run(storage, "metrics.jsonl"), *csv = file_of_run(storage, "metrics.csv");
    ASSERT_CONTAINS(rows, "\"cpu\":1.5,\"load\":2.25,\"gflops\":80,\"mfu\":0.5,");
    ASSERT_CONTAINS(rows, "{\"kind\":\"memory\",\"epoch\":1,\"step\":2,\"rank\":3,\"memory\":4096,"
                          "\"planned\":2048,\"attempt\":0}\n");
    assert_string_equal(csv, "epoch,step,samples,train_loss,eval_loss,eval_accuracy,lr,seconds,attempt,"
                             "memory,cpu,load,gflops,mfu\n0,1,0,3,,,0,0,0,,,,,\n"
                             "1,2,0,3,,,0,0,0,13107200,1.5,2.25,80,0.5\n");
    free(rows);
    free(csv);
    ls_recipe_destroy(&r);
}

static ls_run_state shown(const ls_rundir *d)
{
    ls_run_info info;
    ASSERT_OK(ls_run_info_read(&info, d->path));
    ls_run_info_release(&info);
    return info.state;
}

static void states_are_shown_as_they_come(void **state)
{
    (void)state;
    ls_recipe *r = make_recipe(ls_test_path("states"), NULL);
    ls_rundir *d;
    ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false));
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
    ls_recipe *r = make_recipe(storage, NULL), *micro = make_recipe(storage, NULL),
              *batch = make_recipe(storage, "train.global_batch=64"),
              *longer = make_recipe(storage, "train.epochs=9");
    ls_rundir *d;
    ASSERT_OK(ls_recipe_set(r, "train.micro_batch", "32", "resolved"));
    ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false));
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_STOPPED, NULL));
    ASSERT_FAILS(ls_rundir_open_ranks(&d, batch, NULL, false), LS_E_USAGE, "other/one",
                 "train.global_batch: 64 here, 128 there",
                 "; set run.name for a new run, or continue with these changes: --allow-change");
    assert_int_equal(ls_rundir_micro_batch(micro), 32);
    assert_int_equal(ls_rundir_micro_batch(batch), 0);
    ASSERT_FAILS(ls_rundir_open_ranks(&d, micro, NULL, false), LS_E_USAGE,
                 "train.micro_batch: 0 here, 32 there");
    ASSERT_OK(ls_recipe_set(micro, "train.micro_batch", "32", "kept"));
    ASSERT_OK(ls_rundir_open_ranks(&d, micro, NULL, false));
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_NEW, NULL));
    ASSERT_OK(ls_recipe_set(longer, "train.micro_batch", "32", "kept"));
    ASSERT_OK(ls_rundir_open_ranks(&d, longer, NULL, false)); /* may change */
    ASSERT_OK(ls_rundir_save_recipe(d, longer));
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_NEW, NULL));
    char *yaml = file_of_run(storage, "recipe.yaml");
    ASSERT_CONTAINS(yaml, "epochs: 9\n");
    ASSERT_CONTAINS(yaml, "micro_batch: 32\n");
    free(yaml);
    ASSERT_OK(ls_file_write(ls_test_path("other/one/recipe.yaml"), "nonsense: [", 11));
    ASSERT_FAILS(ls_rundir_open_ranks(&d, r, NULL, false), LS_E_USAGE,
                 "other/one exists, but its recipe does not load", "recipe.yaml:");
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
    RANK_CHECK(d->eval.n == !rank && d->metrics.eval_step == 7); /* names are not sent */
    ls_rundir_log(d, LS_INFO, rank ? "from one" : "from zero");
    LS_TRY(ls_metrics_step(d, &(ls_step_row){ .step = 8, .loss = 1, .grad_norm = -1 }));
    RANK_CHECK(ls_rundir_is_best(d, 0.5, false, 8, 0));
    LS_TRY(ls_metrics_eval(
        d, &(ls_eval_row){ .step = 8, .eval = { .n = 1, .at = &(ls_metric){ "loss", 0.5 } } }));
    LS_TRY(ls_metrics_epoch(d, &(ls_epoch_row){ .step = 8 }));
    RANK_CHECK(d->metrics.step == 8);
    return ls_rundir_close(&d, rank ? LS_RUN_FAILED : LS_RUN_FINISHED, NULL);
}

static void ranks_share_a_run(void **state)
{
    (void)state;
    const char *storage = ls_test_path("ranks");
    ls_recipe *r = make_recipe(storage, NULL);
    ls_rundir *d;
    ls_run_info info;
    ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false));
    ASSERT_OK(ls_metrics_step(d, &(ls_step_row){ .step = 7, .loss = 2, .grad_norm = -1 }));
    ASSERT_OK(ls_metrics_eval(
        d, &(ls_eval_row){ .step = 7, .eval = { .n = 1, .at = &(ls_metric){ "loss", 0.5 } } }));
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_FINISHED, NULL));
    ASSERT_OK(run_ranks(2, opened_by_rank, r));
    char *rows = file_of_run(storage, "metrics.jsonl"), *csv = file_of_run(storage, "metrics.csv"),
         *zero = file_of_run(storage, "log/rank-0.log"), *one = file_of_run(storage, "log/rank-1.log");
    assert_int_equal(lines_of(rows), 5); /* step and evaluation 7; step 8, evaluation and epoch once */
    assert_int_equal(lines_of(csv), 2);
    assert_null(strstr(zero, "from one"));
    ASSERT_CONTAINS(zero, "from zero");
    ASSERT_CONTAINS(one, "from one");
    assert_null(strstr(one, "from zero"));
    ASSERT_OK(ls_run_info_read(&info, ls_test_path("ranks/one")));
    ls_run_info_release(&info);
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
    ls_recipe *r = make_recipe(ls_test_path("mine"), NULL);
    ls_rundir *d;
    ASSERT_OK(ls_make_dirs(ls_test_path("mine/one")));
    ASSERT_OK(ls_file_write(ls_test_path("mine/one/thesis.tex"), "x", 1));
    ASSERT_FAILS(ls_rundir_open_ranks(&d, r, NULL, false), LS_E_USAGE,
                 "mine/one exists and is not a run directory");
    assert_int_equal(ls_test_count(ls_test_path("mine/one")), 1);
    ls_recipe_destroy(&r);
    r = make_recipe(ls_test_path("mine/one/thesis.tex"), NULL); /* storage is a file */
    ASSERT_FAILS(ls_rundir_open_ranks(&d, r, NULL, false), LS_E_IO, "thesis.tex");
    ls_recipe_destroy(&r);
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
    ls_recipe *r = make_recipe(storage, NULL);
    ls_rundir *d;
    ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false));
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
    json_t *list = parse_json(json, strlen(json));
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
    ASSERT_CONTAINS(text, "not the result of a run");
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
        cmocka_unit_test(use_of_the_host),
        cmocka_unit_test(states_are_shown_as_they_come),
        cmocka_unit_test(states_go_their_ways_only),
        cmocka_unit_test(another_recipe_is_refused),
        cmocka_unit_test(ranks_share_a_run),
        cmocka_unit_test(a_foreign_folder_stays_untouched),
        cmocka_unit_test(runs_lists_all_and_says_what_is_broken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
