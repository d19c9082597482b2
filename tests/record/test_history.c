/* test_history.c - reading metrics.jsonl: which rows count in a run with restarts, damaged lines, a run that
 * is being written, and the tables made of it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "record/curves.h"
#include "record/run_lock.h"
#include "support/support.h"
#include "verbs/metrics_table.h"

static const char *run_of(const char *rows)
{
    ASSERT_OK(ls_make_dirs(ls_test_path("run")));
    FILE *f = fopen(ls_test_path("run/metrics.jsonl"), "we");
    assert_true(f && fputs(rows, f) >= 0 && fclose(f) == 0);
    ASSERT_OK(ls_file_write(ls_test_path("run/recipe.yaml"), "", 0)); /* by which a run is known */
    return ls_test_path("run");
}

#define STEP(attempt, step, loss)                                       \
    "{\"kind\":\"step\",\"step\":" #step ",\"epoch\":0,\"loss\":" #loss \
    ",\"lr\":0.1,\"samples\":8,\"seconds\":0.5,\"attempt\":" #attempt "}\n"
#define EVAL(attempt, step, loss)                                       \
    "{\"kind\":\"eval\",\"step\":" #step ",\"epoch\":0,\"loss\":" #loss \
    ",\"accuracy\":0.5,\"samples\":8,\"seconds\":1,\"attempt\":" #attempt "}\n"
#define EPOCH_OF(key, attempt, epoch, step, loss)                                                   \
    "{\"kind\":\"epoch\",\"epoch\":" #epoch ",\"step\":" #step ",\"samples\":24,\"" key "\":" #loss \
    ",\"lr\":0.1,\"seconds\":2,\"attempt\":" #attempt "}\n"
#define EPOCH(attempt, epoch, step, loss) EPOCH_OF("train_loss", attempt, epoch, step, loss)
#define OLDER_EPOCH(attempt, epoch, step, loss) EPOCH_OF("loss", attempt, epoch, step, loss)
#define SAVED(attempt, step)                   \
    "{\"kind\":\"checkpoint\",\"step\":" #step \
    ",\"epoch\":0,\"path\":\"x\",\"bytes\":10,\"seconds\":1,\"attempt\":" #attempt "}\n"
#define RESTART(attempt, step, lost)                                 \
    "{\"kind\":\"restart\",\"step\":" #step ",\"steps_lost\":" #lost \
    ",\"cause\":\"rank 1: killed\",\"pause\":0.5,\"attempt\":" #attempt "}\n"

/* Killed after step 3, restarted from the checkpoint of step 1; started again by hand from step 3, after a
 * line that a crash has cut. */
static const char RESTARTED[] = STEP(0, 1, 4) SAVED(0, 1) STEP(0, 2, 3) EVAL(0, 2, 9) SAVED(0, 2)
    STEP(0, 3, 2) EPOCH(0, 0, 3, 3) RESTART(1, 1, 2) STEP(1, 2, 3.5) STEP(1, 3, 2.5) EVAL(1, 3, 2.75)
        OLDER_EPOCH(1, 0, 3, 3.25) SAVED(1, 3) STEP(1, 4, null) "{\"kind\":\"st\n" STEP(2, 4, 2.25)
            EPOCH(2, 1, 4, 2);

static void what_was_done_again_counts_once(void **state)
{
    (void)state;
    ls_history h;
    ASSERT_OK(ls_history_read(&h, run_of(RESTARTED)));
    const double want[] = { 4, 3.5, 2.5, 2.25 };
    const int64_t attempts[] = { 0, 1, 1, 2 };
    assert_int_equal(h.n_steps, 4);
    for (int i = 0; i < 4; i++)
        assert_true(h.steps[i].row.step == i + 1 && (double)h.steps[i].row.loss == want[i] &&
                    h.steps[i].attempt == attempts[i]);
    assert_true(h.steps[0].row.grad_norm < 0 && h.steps[0].row.loss_scale == 0 &&
                h.steps[0].row.samples == 8 && h.steps[0].row.seconds == 0.5);
    assert_int_equal(h.n_epochs, 2);
    assert_true(h.epochs[0].row.train_loss == 3.25 && h.epochs[0].attempt == 1 &&
                h.epochs[0].row.eval.n == 0);
    assert_int_equal(h.n_evals, 1);
    assert_true(h.evals[0].row.step == 3 && ls_metric_list_find(&h.evals[0].row.eval, "loss") == 2.75);
    assert_int_equal(h.n_checkpoints, 2); /* of steps 1 and 3 */
    assert_int_equal(h.checkpoints[1].step, 3);
    assert_int_equal(h.n_starts, 2);
    assert_true(h.starts[0].attempt == 1 && h.starts[0].step == 1 && h.starts[0].lost == 2);
    assert_string_equal(h.starts[0].cause, "rank 1: killed");
    assert_true(h.starts[1].attempt == 2 && h.starts[1].step == 3 && h.starts[1].lost == 1 &&
                !h.starts[1].cause);
    assert_int_equal(h.attempt, 2);
    assert_int_equal(h.bad_lines, 1);
    ls_history_release(&h);
}

static void an_epoch_that_was_lengthened_ends_once(void **state)
{
    (void)state;
    ls_history h;
    ASSERT_OK(ls_history_read(&h, run_of(STEP(0, 1, 4) EPOCH(0, 0, 1, 4) STEP(1, 2, 3) EPOCH(1, 0, 2, 3.5))));
    assert_int_equal(h.n_epochs, 1);
    assert_true(h.epochs[0].row.step == 2 && h.epochs[0].row.train_loss == 3.5);
    assert_true(h.n_starts == 1 && h.starts[0].lost == 0 && h.starts[0].step == 1);
    ls_history_release(&h);
}

/* Stopped in the evaluation after step 2; killed in its second step from there on; the evaluation again. */
static void an_attempt_may_begin_with_an_evaluation(void **state)
{
    (void)state;
    ls_history h;
    static const char ROWS[] = STEP(0, 1, 4) STEP(0, 2, 3) SAVED(0, 2) EVAL(1, 2, 9) EPOCH(1, 0, 2, 3.5)
        SAVED(1, 2) STEP(1, 3, 2) EVAL(2, 2, 9) EPOCH(2, 0, 2, 3.5) SAVED(2, 2) STEP(2, 3, 2);
    ASSERT_OK(ls_history_read(&h, run_of(ROWS)));
    assert_int_equal(h.n_steps, 3);
    assert_true(h.n_evals == 1 && h.evals[0].attempt == 2 && h.n_epochs == 1 && h.n_checkpoints == 1);
    assert_int_equal(h.n_starts, 2);
    assert_true(h.starts[0].attempt == 1 && h.starts[0].step == 2 && h.starts[0].lost == 0);
    assert_true(h.starts[1].attempt == 2 && h.starts[1].step == 2 && h.starts[1].lost == 1);
    ls_history_release(&h);
    /* already that evaluation takes the step behind it back */
    ASSERT_OK(ls_history_read(&h, run_of(STEP(0, 2, 3) EVAL(1, 2, 9) STEP(1, 3, 2) EVAL(2, 2, 9))));
    assert_true(h.n_steps == 1 && h.steps[0].row.step == 2 && h.n_evals == 1 && h.starts[1].lost == 1);
    ls_history_release(&h);
}

/* However far its last row has come. */
static void a_run_is_read_while_it_is_written(void **state)
{
    (void)state;
    static const char ROWS[] = STEP(0, 1, 4) STEP(0, 2, 3);
    char part[sizeof ROWS];
    ls_history h;
    int lock;
    const size_t first = (size_t)(strchr(ROWS, '\n') - ROWS) + 1;
    ASSERT_OK(ls_run_lock(&lock, run_of("")));
    for (size_t n = 0; n < sizeof ROWS; n++) {
        snprintf(part, sizeof part, "%.*s", (int)n, ROWS);
        ASSERT_OK(ls_history_read(&h, run_of(part)));
        assert_int_equal(h.bad_lines, 0);
        assert_int_equal(h.n_steps, n < first - 1 ? 0 : n < sizeof ROWS - 2 ? 1 : 2);
        ls_history_release(&h);
    }
    /* that nobody writes on is damage, as it is when the next attempt has ended the line */
    close(lock);
    ASSERT_OK(ls_history_read(&h, run_of(STEP(0, 1, 4) "{\"kind\":\"step\"")));
    assert_true(h.n_steps == 1 && h.bad_lines == 1);
    ls_history_release(&h);
    /* nothing that is known */
    ASSERT_OK(ls_history_read(&h, run_of("7\n[]\n{}\n{\"kind\":7}\n{\"kind\":\"other\",\"step\":3}\n\n")));
    assert_int_equal(h.n_steps + h.n_evals + h.n_epochs + h.n_checkpoints + h.n_starts, 0);
    ls_history_release(&h);
    ASSERT_FAILS(ls_history_read(&h, ls_test_path("nowhere")), LS_E_IO, "metrics.jsonl");
    ls_history_release(&h);
}

static char *printed(const char *rows, bool steps, ls_metrics_format format)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    ASSERT_OK(ls_metrics_print(f, run_of(rows), steps, format, 0));
    fclose(f);
    return text;
}

/* A norm that was not finite, and a metric that was undefined, are null, and stay so. */
static void rows_are_printed_as_they_stand(void **state)
{
    (void)state;
    static const char FULL[] =
        "{\"kind\":\"step\",\"step\":1,\"epoch\":0,\"loss\":null,\"lr\":0.1,\"samples\":8,\"targets\":3,"
        "\"seconds\":0.5,\"grad_norm\":null,\"loss_scale\":2,\"skipped\":true,\"nonfinite\":\"gradient\","
        "\"attempt\":0}\n",
                      EVALUATED[] =
                          "{\"kind\":\"epoch\",\"epoch\":0,\"step\":1,\"samples\":8,\"train_loss\":null,"
                          "\"eval_loss\":2,\"eval_f1\":null,\"eval_rouge1\":0.5,\"eval_texts\":7,\"lr\":0.1,"
                          "\"seconds\":2,\"data_seconds\":0.5,\"replaced\":1,\"skipped\":1,\"memory\":4096,"
                          "\"attempt\":0}\n",
                      REPORTED[] = "{\"kind\":\"report\",\"report\":0,\"step\":10,\"epoch\":0,\"loss\":null,"
                                   "\"lr\":0.5,\"seconds\":2,\"attempt\":0}\n";
    static const char *const ALL[] = { FULL, STEP(0, 1, 4), EVALUATED, REPORTED };
    for (int i = 0; i < 4; i++) {
        char *text = printed(ALL[i], i < 2, LS_METRICS_JSON);
        text[strlen(text) - 2] = 0; /* the array's bracket and the end of the line */
        assert_int_equal(strncmp(text + 1, ALL[i], strlen(ALL[i]) - 1), 0);
        assert_int_equal(strlen(text + 1), strlen(ALL[i]) - 1);
        free(text);
    }
}

static void tables_show_the_series_that_counts(void **state)
{
    (void)state;
    const struct {
        bool steps;
        ls_metrics_format format;
        const char *want;
    } ALL[] = {
        { false, LS_METRICS_CSV,
          "epoch,step,samples,train_loss,eval_loss,eval_accuracy,lr,seconds,attempt\n0,3,24,3.25,,,0.1,2,"
          "1\n1,4,24,"
          "2,,,0.1,2,2\n" },
        { true, LS_METRICS_CSV,
          "step,epoch,samples,loss,lr,seconds,grad_norm,loss_scale,skipped,attempt\n1,0,8,4,0.1,0.5,,,,0\n2,"
          "0,8,3.5,0.1,0.5,,,,1\n"
          "3,0,8,2.5,0.1,0.5,,,,1\n4,0,8,2.25,0.1,0.5,,,,2\n" },
        { false, LS_METRICS_TEXT,
          "epoch  step  train loss   lr   time  attempt\n    0     3      3.2500  0.1  2.0 s        1\n    1 "
          "    4      2.0000  0.1  2.0 s        2\n"
          "attempt 1 began after step 1 (2 steps done again): rank 1: killed\n"
          "attempt 2 began after step 3 (1 step done again): the run was started again\n" },
    };
    for (size_t i = 0; i < sizeof ALL / sizeof ALL[0]; i++) {
        char *text = printed(RESTARTED, ALL[i].steps, ALL[i].format);
        assert_string_equal(text, ALL[i].want);
        free(text);
    }
    char *json = printed(RESTARTED, true, LS_METRICS_JSON),
         *one = printed(STEP(0, 1, 4), true, LS_METRICS_JSON),
         *none = printed(STEP(0, 1, 4), false, LS_METRICS_TEXT),
         *steps = printed(RESTARTED, true, LS_METRICS_TEXT);
    ASSERT_CONTAINS(json, "\"step\":2,\"epoch\":0,\"loss\":3.5,");
    assert_null(strstr(json, "\"loss\":3,"));
    one[strlen(one) - 2] = '\n';
    assert_string_equal(one + 1, STEP(0, 1, 4) "\n"); /* as it stands in the file, in an array */
    ASSERT_CONTAINS(none, "no epoch is finished; --steps shows its 1 steps");
    ASSERT_CONTAINS(steps, "step  epoch    loss   lr    time  samples/s  attempt\n   1      0  4.0000 "
                           " 0.1  500 ms         16        0\n");
    ASSERT_FAILS(ls_metrics_print(stdout, ls_test_path("nowhere"), false, LS_METRICS_TEXT, 0), LS_E_USAGE,
                 "nowhere: no such run");
    free(json);
    free(one);
    free(none);
    free(steps);
}

static void the_last_epochs_are_enough_at_the_end(void **state)
{
    (void)state;
    ls_history h;
    char *text = NULL;
    size_t n;
    ASSERT_OK(ls_history_read(&h, run_of(RESTARTED)));
    FILE *f = open_memstream(&text, &n);
    ls_epochs_print(f, &h, 4, 1, 35);
    fclose(f);
    /* narrow: lr, step and time are left out */
    assert_int_equal(strncmp(text, "epoch  train loss  attempt\n", 27), 0);
    assert_null(strstr(text, "3.2500"));
    ASSERT_CONTAINS(text, "  best\n");
    free(text);
    ls_history_release(&h);
}

typedef struct to_print {
    const char *run;
    int format;
} to_print;

static ls_status print_metrics(void *context)
{
    const to_print *p = context;
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    const ls_status s = ls_metrics_print(f, p->run, false, (ls_metrics_format)p->format, 0);
    fclose(f);
    free(text);
    return s;
}

/* Metrics by any name, which need not be in every report. */
static void reports_of_other_programs_are_shown(void **state)
{
    (void)state;
    static const char ROWS[] = "{\"kind\":\"report\",\"report\":0,\"step\":10,\"epoch\":0,\"loss\":0.5,"
                               "\"seconds\":2,\"attempt\":0}\n"
                               "{\"kind\":\"report\",\"report\":1,\"step\":20,\"epoch\":0,\"loss\":0.25,"
                               "\"seconds\":4,\"attempt\":0}\n"
                               "{\"kind\":\"report\",\"report\":1,\"step\":20,\"epoch\":1,\"loss\":null,"
                               "\"bleu\":31.5,\"seconds\":4,\"attempt\":1}\n";
    char *text = printed(ROWS, false, LS_METRICS_TEXT), *csv = printed(ROWS, false, LS_METRICS_CSV),
         *json = printed(ROWS, false, LS_METRICS_JSON);
    assert_string_equal(text, "report  step  epoch   time  attempt  loss  bleu\n     0    10      0  2.0 s   "
                              "     0   0.5\n     1    20      1  4.0 s        1        31.5\n"
                              "attempt 1 began after step 10: the run was started again\n");
    assert_string_equal(csv,
                        "report,step,epoch,seconds,attempt,loss,bleu\n0,10,0,2,0,0.5,\n1,20,1,4,1,,31.5\n");
    ASSERT_CONTAINS(json, "{\"kind\":\"report\",\"report\":1,\"step\":20,\"epoch\":1,\"loss\":null,\"bleu\":"
                          "31.5,\"seconds\":4,\"attempt\":1}]");
    for (int format = LS_METRICS_TEXT; format <= LS_METRICS_JSON; format++) { /* it has no steps */
        char *steps = printed(ROWS, true, format);
        assert_string_equal(steps, format == LS_METRICS_TEXT ? text : format == LS_METRICS_CSV ? csv : json);
        free(steps);
    }
    free(text);
    free(csv);
    free(json);
    for (int format = LS_METRICS_TEXT; format <= LS_METRICS_JSON; format++)
        assert_true(ls_test_memory(print_metrics, &(to_print){ run_of(ROWS), format }, 1) > 10);
}

/* An attempt that continued with other settings has a row for it, and says how many steps it repeats. */
static void a_change_begins_an_attempt(void **state)
{
    (void)state;
    ls_history h;
    ASSERT_OK(ls_history_read(
        &h,
        run_of(STEP(0, 1, 4) STEP(0, 2, 3) STEP(
            0, 3, 2) "{\"kind\":\"change\",\"step\":1,\"what\":\"optimizer.lr\",\"attempt\":1}\n" STEP(1, 2,
                                                                                                       3.5)
                   STEP(1, 3, 3) "{\"kind\":\"change\",\"step\":3,\"what\":\"run.seed\",\"attempt\":2}\n")));
    assert_int_equal(h.n_starts, 2);
    assert_true(h.starts[0].attempt == 1 && h.starts[0].step == 1 && h.starts[0].lost == 2);
    assert_string_equal(h.starts[0].cause, "started again with --allow-change: optimizer.lr");
    assert_true(h.starts[1].attempt == 2 && h.starts[1].step == 3 && h.starts[1].lost == 0);
    assert_int_equal(h.n_steps, 3);
    ls_history_release(&h);
}

/* By name, in the order in which the rows name them; a point for each row that has the number, also where a
 * file has rows of steps and reports. */
static void all_numbers_have_a_curve(void **state)
{
    (void)state;
    static const char ROWS[] = STEP(0, 1, 4) STEP(0, 2, null)
        EVAL(0, 2, 9) "{\"kind\":\"report\",\"report\":0,\"step\":5,\"epoch\":0,\"loss\":1,\"energy\":null,"
                      "\"never\":null,"
                      "\"seconds\":1,\"attempt\":0}\n"
                      "{\"kind\":\"report\",\"report\":1,\"step\":6,\"epoch\":0,\"energy\":3,\"eval_loss\":2,"
                      "\"seconds\":1,\"attempt\":0}\n";
    static const char *const NAMES[] = { "loss", "lr", "seconds", "eval_loss", "eval_accuracy", "energy" };
    static const int POINTS[] = { 3, 2, 2, 2, 1, 2 };
    ls_history h;
    ls_curves all;
    ls_curve smooth;
    ASSERT_OK(ls_history_read(&h, run_of(ROWS)));
    ASSERT_OK(ls_curves_make(&all, &h));
    assert_int_equal(all.n, 6);
    for (int i = 0; i < all.n; i++) {
        assert_string_equal(all.at[i].name, NAMES[i]);
        assert_int_equal(all.at[i].n, POINTS[i]);
    }
    const ls_curve *loss = ls_curve_of(&all, "loss"), *energy = ls_curve_of(&all, "energy");
    assert_true(loss->x[2] == 5 && ls_curve_last(loss) == 1 && ls_curve_at(loss, 1) == 4);
    assert_true(isnan(ls_curve_at(loss, 2)) && isnan(ls_curve_at(loss, 3)) && isnan(energy->y[0]));
    assert_true(ls_curve_of(&all, "no such")->n == 0 && isnan(ls_curve_last(ls_curve_of(&all, "no such"))));
    ASSERT_OK(ls_curve_smooth(&smooth, &all, loss));
    assert_true(smooth.n == 3 && smooth.y[1] == 2.5);
    ls_curves_release(&all);
    ls_history_release(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_numbers_have_a_curve),
        cmocka_unit_test(a_change_begins_an_attempt),
        cmocka_unit_test(what_was_done_again_counts_once),
        cmocka_unit_test(an_epoch_that_was_lengthened_ends_once),
        cmocka_unit_test(an_attempt_may_begin_with_an_evaluation),
        cmocka_unit_test(a_run_is_read_while_it_is_written),
        cmocka_unit_test(rows_are_printed_as_they_stand),
        cmocka_unit_test(tables_show_the_series_that_counts),
        cmocka_unit_test(the_last_epochs_are_enough_at_the_end),
        cmocka_unit_test(reports_of_other_programs_are_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
