/* test_metrics.c - rows of metrics.jsonl: numbers that read back exactly, the best evaluation, whole rows on
 * a full disk. */
#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "base/fault.h"
#include "base/file.h"
#include "base/json.h"
#include "graph/graph.h"
#include "record/curves.h"
#include "record/history.h"
#include "record/metrics_csv.h"
#include "support/support.h"
#include "record/run.h"

/* What every metrics.csv of a recipe's run begins with, in this and in older versions. */
#define EPOCH_CSV "epoch,step,samples,train_loss,eval_loss,eval_accuracy,lr,seconds,attempt"
#define BEFORE_CSV "epoch,step,samples,loss,eval_loss,eval_accuracy,lr,seconds,attempt"

static char *csv_of(const ls_step_row *row)
{
    ls_str out = { 0 };
    ls_row_csv_cells(&out, &LS_STEP_ROW, row, 0);
    return ls_str_take(&out);
}

static void losses_read_back_as_the_same_float(void **state)
{
    (void)state;
    const char *storage = ls_test_path("floats");
    ls_recipe *r = make_recipe(storage, NULL);
    ls_rundir *d;
    const float values[] = { 2.3025851f, 1e-45f,        3.4028235e38f, 0.1f,
                             1.0f / 3,   5.9604645e-8f, 0.0f,          16777216.0f };
    int n = (int)(sizeof values / sizeof values[0]);
    ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false));
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
    char *text = file_of_run(storage, "metrics.jsonl");
    const char *p = text;
    for (int i = 0; i < n; i++) {
        const char *loss = strstr(p, "\"loss\":") + 7;
        assert_true(strtof(loss, NULL) == values[i]);
        p = strchr(p, '\n') + 1;
    }
    free(text);
    json_t *first = metrics_row(storage, 0), *last = metrics_row(storage, n),
           *lowest = metrics_row(storage, n + 1);
    assert_string_equal(text_of(first, "kind"), "step");
    assert_int_equal(json_integer_value(json_object_get(first, "samples")), 128);
    assert_int_equal(json_integer_value(json_object_get(first, "attempt")), 0);
    assert_null(json_object_get(first, "grad_norm"));
    assert_true(json_is_null(json_object_get(last, "loss")));
    assert_true(json_is_true(json_object_get(last, "skipped")));
    assert_true(json_number_value(json_object_get(last, "grad_norm")) == 2);
    assert_true(json_number_value(json_object_get(lowest, "loss_scale")) == 0.5);
    assert_true(json_is_false(json_object_get(lowest, "skipped")));
    char *csv = csv_of(&low);
    ASSERT_CONTAINS(csv, ",,0.5,0,0"); /* no norm, the scale, not skipped, attempt 0 */
    free(csv);
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
        ls_recipe *r = make_recipe(storage,
                                   which ? "checkpoint.best={metric: eval_accuracy, mode: max}" : NULL);
        ls_rundir *d;
        ls_run_info info;
        ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false));
        for (int i = 0; i < 5; i++) {
            const double value = which ? accuracies[i] : losses[i];
            assert_int_equal(ls_rundir_is_best(d, value, which, 10 * i, i),
                             which ? best_accuracy[i] : best_loss[i]);
            ASSERT_OK(ls_metrics_eval(
                d, &(ls_eval_row){ .step = 10 * i,
                                   .epoch = i,
                                   .samples = 100,
                                   .eval = { .n = 2,
                                             .at = (ls_metric[]){ { "loss", losses[i] },
                                                                  { "accuracy", accuracies[i] } } } }));
        }
        ASSERT_OK(ls_metrics_epoch(
            d, &(ls_epoch_row){
                   .epoch = 4, .step = 40, .samples = 100, .train_loss = 0.25, .lr = 0.5, .seconds = 2 }));
        ASSERT_OK(
            ls_make_dirs(ls_test_path(which ? "acc/one/checkpoints/step-1" : "loss/one/checkpoints/step-1")));
        ls_rundir_add_checkpoint(d, "checkpoints/step-0", 0, false); /* removed since: not listed */
        ls_rundir_add_checkpoint(d, "checkpoints/step-1", 1, false);
        ls_rundir_add_checkpoint(d, "checkpoints/step-1", 1, true); /* the best after all: listed once */
        ASSERT_OK(ls_metrics_checkpoint(
            d, &(ls_checkpoint_row){ .step = 1, .path = "checkpoints/step-1", .bytes = 5 }));
        ASSERT_OK(ls_run_info_read(&info, d->path));
        assert_string_equal(info.checkpoint, "checkpoints/step-1");
        ls_run_info_release(&info);
        assert_true(info.metrics.best_value == (which ? 0.9 : 0.4));
        assert_int_equal(info.metrics.best_step, which ? 10 : 20);
        assert_int_equal(info.state, LS_RUN_STARTING);
        ASSERT_OK(ls_rundir_close(&d, LS_RUN_FINISHED, NULL));
        char *csv = file_of_run(storage, "metrics.csv"), *result = file_of_run(storage, "result.json");
        ASSERT_CONTAINS(csv, "\n4,40,100,0.25,,,0.5,2,0\n");
        assert_null(strstr(result, "step-0"));
        free(csv);
        free(result);
        /* and the run opened again knows all that */
        ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false));
        assert_int_equal(d->before, LS_RUN_FINISHED);
        assert_int_equal(d->attempt, 1);
        assert_true(d->metrics.best_value == (which ? 0.9 : 0.4));
        ASSERT_OK(ls_rundir_save_result(d, LS_RUN_FINISHED, NULL));
        result = file_of_run(storage, "result.json");
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

/* A file size limit behaves like a full disk: the write is short. */
static void write_until_full(const char *storage)
{
    ls_rundir *d;
    ls_recipe *r = make_recipe(storage, NULL);
    signal(SIGXFSZ, SIG_IGN);
    if (ls_rundir_open_ranks(&d, r, NULL, false) != LS_OK)
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
    char *text = file_of_run(storage, "metrics.jsonl");
    size_t n = strlen(text);
    assert_true(n > 2000 && n <= 3000 && text[n - 1] == '\n');
    for (const char *p = text; *p; p = strchr(p, '\n') + 1)
        json_decref(parse_json(p, strcspn(p, "\n")));
    free(text);
}

/* Means of generated texts are in every place that has an evaluation; without texts in none. */
static void means_of_texts(void **state)
{
    (void)state;
    const char *storage = ls_test_path("rouge");
    static ls_metric plain[] = { { "loss", 1 }, { "accuracy", 0.5 } }, all[] = {
        { "loss", 1 }, { "accuracy", 0.5 }, { "rouge1", 0.5 }, { "rouge2", 0.125 }, { "rougeL", 0.25 }
    };
    ls_recipe *r = make_recipe(storage, NULL);
    ls_rundir *d;
    ls_run_info info;
    ls_history h;
    ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false));
    ASSERT_OK(ls_metrics_eval(d, &(ls_eval_row){ .step = 1, .eval = { .n = 2, .at = plain } }));
    ASSERT_OK(ls_metrics_eval(
        d, &(ls_eval_row){ .step = 2, .eval = { .n = 5, .at = all }, .texts = 7, .generate_seconds = 2 }));
    const ls_epoch_row row = { .step = 2, .train_loss = 1, .eval = { .n = 5, .at = all }, .eval_texts = 7 };
    ASSERT_OK(ls_metrics_epoch(d, &row));
    assert_true(ls_epoch_row_metric(&row, "eval_rouge1") == 0.5);
    assert_true(ls_epoch_row_metric(&row, "eval_rouge2") == 0.125);
    assert_true(ls_epoch_row_metric(&row, "eval_rougeL") == 0.25);
    assert_true(isnan(ls_epoch_row_metric(&(ls_epoch_row){ .train_loss = 1 }, "eval_rougeL")));
    ASSERT_OK(ls_run_info_read(&info, d->path));
    assert_int_equal(info.metrics.eval_texts, 7);
    assert_true(info.eval.n == 5 && ls_metric_list_find(&info.eval, "rougeL") == 0.25);
    ls_run_info_release(&info);
    ASSERT_OK(ls_history_read(&h, d->path));
    assert_int_equal(h.n_evals, 2);
    assert_int_equal(h.evals[0].row.texts, 0);
    assert_int_equal(h.evals[1].row.texts, 7);
    assert_int_equal(h.evals[1].row.eval.n, 5);
    assert_true(ls_metric_list_find(&h.epochs[0].row.eval, "rouge2") == 0.125 &&
                h.epochs[0].row.eval_texts == 7 && h.epochs[0].row.eval.n == 5);
    ls_history_release(&h);
    ls_rundir_forget_evaluations(d);
    assert_true(d->metrics.eval_texts == 0 && d->eval.n == 0);
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_FINISHED, NULL));
    char *rows = file_of_run(storage, "metrics.jsonl"), *csv = file_of_run(storage, "metrics.csv");
    ASSERT_CONTAINS(rows, "\"accuracy\":0.5,\"rouge1\":0.5,\"rouge2\":0.125,\"rougeL\":0.25,\"samples\":0,"
                          "\"seconds\":0,\"texts\":7,\"generate_seconds\":2,");
    assert_null(strstr(csv, "rouge"));
    free(csv);
    ASSERT_CONTAINS(rows, "\"step\":1,\"epoch\":0,\"loss\":1,\"accuracy\":0.5,\"samples\":0,\"seconds\":0,"
                          "\"attempt\"");
    free(rows);
    ls_recipe_destroy(&r);
}

/* A model's own metrics are in every place by name; metrics.csv gets a column for each when it comes. */
static void metrics_by_name(void **state)
{
    (void)state;
    const char *storage = ls_test_path("named");
    ls_recipe *r = make_recipe(storage, "checkpoint.best={metric: eval_rmse, mode: min}");
    ls_rundir *d;
    ls_run_info info;
    ls_history h;
    const ls_metric_list
        first = { .n = 3, .at = (ls_metric[]){ { "loss", 2 }, { "rmse", 0.5 }, { "a.b/c-d", NAN } } },
        second = { .n = 3, .at = (ls_metric[]){ { "loss", 1 }, { "rmse", 0.25 }, { "r2", -3.5 } } };
    ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false));
    ASSERT_OK(ls_metrics_step(d, &(ls_step_row){ .step = 1, .samples = 8, .loss = 1, .grad_norm = -1 }));
    ASSERT_OK(ls_metrics_eval(d, &(ls_eval_row){ .step = 1, .samples = 9, .eval = first }));
    ASSERT_OK(ls_metrics_epoch(d, &(ls_epoch_row){ .step = 1, .train_loss = 3, .eval = first }));
    ASSERT_OK(
        ls_metrics_epoch(d, &(ls_epoch_row){ .epoch = 1, .step = 2, .train_loss = 3 })); /* no evaluation */
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_FINISHED, NULL));
    ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false)); /* the next attempt finds the columns */
    ASSERT_OK(ls_metrics_eval(d, &(ls_eval_row){ .step = 3, .samples = 9, .eval = second }));
    const ls_epoch_row row = { .epoch = 2, .step = 3, .train_loss = 3, .eval = second };
    ASSERT_OK(ls_metrics_epoch(d, &row));
    assert_true(ls_epoch_row_metric(&row, "eval_rmse") == 0.25 &&
                ls_epoch_row_metric(&row, "train_loss") == 3 && ls_epoch_row_metric(&row, "eval_loss") == 1 &&
                isnan(ls_epoch_row_metric(&row, "eval_mae")));
    assert_true(ls_rundir_is_best(d, ls_epoch_row_metric(&row, "eval_rmse"), false, 3, 2));
    ASSERT_OK(ls_make_dirs(ls_test_path("named/one/checkpoints/step-3")));
    ls_rundir_add_checkpoint(d, "checkpoints/step-3", 3, true);
    ASSERT_OK(ls_rundir_save_result(d, d->state, NULL));
    ASSERT_OK(ls_run_info_read(&info, d->path));
    assert_true(ls_metric_list_find(&info.eval, "r2") == -3.5 && info.eval.n == 3);
    ls_run_info_release(&info);
    ASSERT_OK(ls_history_read(&h, d->path));
    assert_true(ls_metric_list_find(&h.epochs[2].row.eval, "rmse") == 0.25);
    assert_int_equal(h.epochs[1].row.eval.n, 0);
    ls_curves curves;
    ASSERT_OK(ls_curves_make(&curves, &h));
    assert_true(ls_curve_of(&curves, "eval_rmse")->n == 2 && ls_curve_of(&curves, "eval_r2")->n == 1);
    assert_int_equal(ls_curve_of(&curves, "eval_a.b/c-d")->n, 0); /* it was never a number */
    ls_curves_release(&curves);
    ls_history_release(&h);
    ls_rundir_forget_evaluations(d);
    assert_int_equal(d->eval.n, 0);
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_FINISHED, NULL));
    char *rows = file_of_run(storage, "metrics.jsonl"), *csv = file_of_run(storage, "metrics.csv");
    ASSERT_CONTAINS(rows, "\"loss\":2,\"rmse\":0.5,\"a.b/c-d\":null,\"samples\":9,");
    ASSERT_CONTAINS(rows,
                    "\"train_loss\":3,\"eval_loss\":2,\"eval_rmse\":0.5,\"eval_a.b/c-d\":null,\"lr\":0");
    ASSERT_CONTAINS(rows, "\"train_loss\":3,\"lr\":0,");
    assert_string_equal(csv, EPOCH_CSV ",eval_rmse,eval_a.b/c-d,eval_r2\n"
                                       "0,1,0,3,2,,0,0,0,0.5,,\n1,2,0,3,,,0,0,0,,,\n"
                                       "2,3,0,3,1,,0,0,1,0.25,,-3.5\n");
    free(rows);
    free(csv);
    ls_recipe_destroy(&r);
}

/* metrics.csv of a run that an older version began gets this version's names; its rows stay, and so do the
 * columns behind them. One that something else has written is refused. */
static void older_columns(void **state)
{
    (void)state;
    static const char *const FILES[][2] = {
        { BEFORE_CSV ",eval_rmse\n0,1,8,3,2,,0,0,0,0.5\n",
          EPOCH_CSV ",eval_rmse,eval_mae\n0,1,8,3,2,,0,0,0,0.5,\n1,2,8,4,,,0,0,1,,0.25\n" },
        { BEFORE_CSV "\n", EPOCH_CSV ",eval_mae\n1,2,8,4,,,0,0,1,0.25\n" },
        { "epoch,step,samples,lo", EPOCH_CSV ",eval_mae\n1,2,8,4,,,0,0,1,0.25\n" },
        { "epoch,step,samples,losses\n0,1,8,3\n", NULL },
    };
    for (size_t i = 0; i < sizeof FILES / sizeof FILES[0]; i++) {
        char name[32], path[600];
        snprintf(name, sizeof name, "older-%zu", i);
        const char *storage = ls_test_path(name);
        snprintf(path, sizeof path, "%s/one/metrics.csv", storage);
        ls_recipe *r = make_recipe(storage, NULL);
        ls_rundir *d;
        ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false));
        ASSERT_OK(ls_rundir_close(&d, LS_RUN_FINISHED, NULL));
        ASSERT_OK(ls_file_write(path, FILES[i][0], strlen(FILES[i][0])));
        ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false));
        const ls_epoch_row row = { .epoch = 1,
                                   .step = 2,
                                   .samples = 8,
                                   .train_loss = 4,
                                   .eval = { .n = 1, .at = (ls_metric[]){ { "mae", 0.25 } } } };
        if (FILES[i][1])
            ASSERT_OK(ls_metrics_epoch(d, &row));
        else
            ASSERT_FAILS(ls_metrics_epoch(d, &row), LS_E_FORMAT, "does not begin with " EPOCH_CSV);
        ASSERT_OK(ls_rundir_close(&d, LS_RUN_FINISHED, NULL));
        char *csv = file_of_run(storage, "metrics.csv");
        assert_string_equal(csv, FILES[i][1] ? FILES[i][1] : FILES[i][0]);
        free(csv);
        ls_recipe_destroy(&r);
    }
}

/* A step and an evaluation in which nothing counted: null, and said. */
static void nothing_counted(void **state)
{
    (void)state;
    const char *storage = ls_test_path("nothing");
    ls_recipe *r = make_recipe(storage, "log.tensorboard=true");
    ls_rundir *d;
    ls_run_info info;
    const ls_metric_list none = { .n = 2, .at = (ls_metric[]){ { "loss", NAN }, { "auc", NAN } } };
    const ls_step_row step = { .step = 1, .samples = 8, .loss = NAN, .grad_norm = -1, .skipped = true };
    ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false));
    ASSERT_OK(ls_metrics_step(d, &step));
    ASSERT_OK(ls_metrics_eval(d, &(ls_eval_row){ .step = 1, .samples = 9, .eval = none }));
    ASSERT_OK(ls_metrics_epoch(
        d, &(ls_epoch_row){ .step = 1, .samples = 8, .train_loss = NAN, .skipped = 1, .eval = none }));
    snprintf(d->no_best, sizeof d->no_best, "eval_auc is undefined: why");
    d->metrics.stop_waited = 1;
    ASSERT_OK(ls_rundir_save_result(d, d->state, NULL));
    ASSERT_OK(ls_run_info_read(&info, d->path));
    assert_true(isnan(info.metrics.loss) && isnan(info.metrics.best_value) && isnan(info.metrics.stop_value));
    assert_int_equal(info.metrics.stop_waited, 1);
    ls_run_info_release(&info);
    char *result = file_of_run(storage, "result.json");
    ASSERT_CONTAINS(result, "\"loss\":null,\"skipped\":true,");
    ASSERT_CONTAINS(result, "\"eval\":{\"step\":1,\"loss\":null,\"auc\":null,\"skipped\":true}");
    ASSERT_CONTAINS(result, "\"no_best\":\"eval_auc is undefined: why\"");
    free(result);
    assert_true(ls_rundir_is_best(d, 0.5, true, 2, 1)); /* a best one after all */
    ASSERT_OK(ls_metrics_step(d, &(ls_step_row){ .step = 2, .samples = 8, .loss = 1, .grad_norm = -1 }));
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_FINISHED, NULL));
    result = file_of_run(storage, "result.json");
    char *rows = file_of_run(storage, "metrics.jsonl");
    assert_null(strstr(result, "no_best"));
    ASSERT_CONTAINS(result, "\"loss\":1,\"lr\"");
    ASSERT_CONTAINS(rows,
                    "\"loss\":null,\"lr\":0,\"samples\":8,\"seconds\":0,\"skipped\":true,\"attempt\":0}");
    ASSERT_CONTAINS(rows, "\"loss\":null,\"auc\":null,\"skipped\":true,\"samples\":9,");
    ASSERT_CONTAINS(rows, "\"train_loss\":null,\"eval_loss\":null,\"eval_auc\":null,");
    ASSERT_CONTAINS(rows, "\"skipped\":1,\"attempt\":0}");
    char *csv = csv_of(&step);
    assert_string_equal(csv, "1,0,8,,0,0,,,1,0");
    free(csv);
    free(rows);
    free(result);
    ls_recipe_destroy(&r);
}

/* The step path allocates nothing: all but the first row of a run are written where every allocation is
 * refused. */
static void a_step_allocates_nothing(void **state)
{
    (void)state;
    ls_recipe *r = make_recipe(ls_test_path("steps"), "log.tensorboard=true");
    const ls_step_row row = { .step = 1,
                              .samples = 8,
                              .targets = 3,
                              .loss = NAN,
                              .lr = 0.1,
                              .seconds = 0.5,
                              .grad_norm = 1.0 / 3,
                              .loss_scale = 2,
                              .skipped = true,
                              .nonfinite = "gradient" };
    ls_rundir *d;
    ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false));
    ASSERT_OK(ls_metrics_step(d, &row));
    ls_fault_arm(1u << LS_POINT_MEMORY, 0, LS_FAIL_ON);
    for (int i = 0; i < 100; i++)
        ASSERT_OK(ls_metrics_step(d, &row));
    assert_int_equal(ls_fault_disarm(), 0); /* none was asked for */
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_FINISHED, NULL));
    ls_recipe_destroy(&r);
}

/* Files that users have begin with these columns: new ones go behind them, or a run cannot continue. */
static void the_first_columns_stay(void **state)
{
    (void)state;
    static const struct {
        const ls_row_kind *kind;
        const char *want;
    } KINDS[] = { { &LS_EPOCH_ROW, EPOCH_CSV },
                  { &LS_STEP_ROW, "step,epoch,samples,loss,lr,seconds,grad_norm,loss_scale,skipped,attempt" },
                  { &LS_REPORT_ROW, "report,step,epoch,seconds,attempt" } };
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++) {
        ls_str titles = { 0 };
        ls_row_csv_titles(&titles, KINDS[i].kind, false);
        assert_string_equal(ls_str_text(&titles), KINDS[i].want);
        ls_str_release(&titles);
    }
}

/* A column behind the first ones is in the files from the row on that first has it; a run that an older
 * version began continues. */
static void a_column_behind(void **state)
{
    (void)state;
    typedef struct {
        int64_t epoch;
        double cost;
        ls_metric_list eval;
    } paid;
    static const ls_row_column COLUMNS[] = {
        { "epoch", LS_CELL_INT, .at = offsetof(paid, epoch), .csv = 1 },
        { "cost", LS_CELL_F64, .at = offsetof(paid, cost), .unread = NAN, .csv = LS_CSV_BEHIND },
        { "eval_", LS_CELL_NAMED, .at = offsetof(paid, eval) },
        { "attempt", .type = LS_CELL_ATTEMPT, .csv = 2 },
    };
    static const ls_row_kind KIND = { "paid", 4, COLUMNS };
    const char *storage = ls_test_path("behind");
    const ls_own_run run = { storage, "one", "", NULL };
    const paid first = { 0, 0.5, { .n = 1, .at = &(ls_metric){ "mae", 2 } } };
    ls_rundir *d;
    ASSERT_OK(ls_rundir_open_own(&d, &run, NULL));
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_NEW, NULL));
    ASSERT_OK(ls_file_write(ls_test_path("behind/one/metrics.csv"), "epoch,attempt,eval_mae\n7,0,3\n", 30));
    ASSERT_OK(ls_rundir_open_own(&d, &run, NULL));
    ASSERT_OK(ls_csv_add(d, &KIND, &first));
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_NEW, NULL));
    char *csv = file_of_run(storage, "metrics.csv");
    assert_string_equal(csv, "epoch,attempt,eval_mae,cost\n7,0,3,\n0,1,2,0.5\n");
    free(csv);
}

/* A model cannot declare a metric with a key that rows of evaluations have. */
static void keys_of_evaluations_are_reserved(void **state)
{
    (void)state;
    for (int i = 0; i < LS_EVAL_ROW.n; i++) {
        const char *key = LS_EVAL_ROW.columns[i].key;
        if (!ls_row_has_key(&LS_EVAL_ROW, key))
            continue;
        ls_graph *g;
        ASSERT_OK(ls_graph_create(&g, "test"));
        ls_measure(g, key, ls_input(g, "x", LS_TYPE(LS_F32, 4)), LS_MEAN, LS_BY_SAMPLE, NULL);
        ASSERT_FAILS(ls_graph_status(g), LS_E_ARG, key, "have this key");
        ls_graph_destroy(&g);
    }
}

/* The last step is found at the end of a file of which only a part is read. */
static void the_last_step_of_a_long_file(void **state)
{
    (void)state;
    const char *storage = ls_test_path("long");
    ls_recipe *r = make_recipe(storage, NULL);
    ls_rundir *d;
    ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false));
    for (int step = 1; step <= 400; step++)
        ASSERT_OK(ls_metrics_step(d, &(ls_step_row){ .step = step, .loss = 1, .grad_norm = -1 }));
    assert_int_equal(ls_metrics_last_step(d, 0), 400);
    assert_int_equal(ls_metrics_last_step(d, 1000), 400);
    assert_int_equal(ls_metrics_last_step(d, 1 << 20), -1); /* nothing from there on */
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_FINISHED, NULL));
    ls_recipe_destroy(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_read_back_as_the_same_float),
        cmocka_unit_test(evaluations_find_the_best),
        cmocka_unit_test(a_full_disk_leaves_whole_rows),
        cmocka_unit_test(means_of_texts),
        cmocka_unit_test(metrics_by_name),
        cmocka_unit_test(older_columns),
        cmocka_unit_test(nothing_counted),
        cmocka_unit_test(the_last_step_of_a_long_file),
        cmocka_unit_test(a_step_allocates_nothing),
        cmocka_unit_test(the_first_columns_stay),
        cmocka_unit_test(a_column_behind),
        cmocka_unit_test(keys_of_evaluations_are_reserved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
