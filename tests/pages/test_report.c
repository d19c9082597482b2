/* test_report.c - report.html: it is well-formed, has no external resources, and has its contents, also for
 * runs without steps and for hostile names. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "page.h"
#include "record/metrics.h"
#include "pages/report.h"
#include "pages/report_own.h"
#include "record/run.h"
#include "support/support.h"

/* Restarts and checkpoints, of which that of step 2 is kept, as the best; and, for a long run, rows that
 * nobody waits for. */
static void write_events(ls_rundir *d, int steps)
{
    char path[700];
    ASSERT_OK(ls_metrics_checkpoint(
        d, &(ls_checkpoint_row){ .step = 2, .path = "checkpoints/step-00000002", .bytes = 3 << 20 }));
    snprintf(path, sizeof path, "%s/checkpoints/step-00000002", d->path);
    ASSERT_OK(ls_make_dirs(path));
    snprintf(path, sizeof path, "%s/checkpoints/best", d->path);
    assert_int_equal(symlink("step-00000002", path), 0);
    snprintf(path, sizeof path, "%s/metrics.jsonl", d->path);
    FILE *f = fopen(path, "ae");
    assert_non_null(f);
    fprintf(f, "{\"kind\":\"restart\",\"step\":2,\"steps_lost\":3,\"cause\":\"rank <1>: "
               "killed\",\"pause\":0.5,\"attempt\":1}\n");
    for (int i = 3; i <= steps; i++) {
        fprintf(f,
                "{\"kind\":\"step\",\"step\":%d,\"epoch\":0,\"loss\":%g,\"lr\":0.001,\"samples\":128,"
                "\"seconds\":0.07,\"attempt\":1}\n",
                i, i == 50000 ? 9.0 : 0.5 + 0.001 * (i % 100));
        if (i % 100 == 0)
            fprintf(f,
                    "{\"kind\":\"checkpoint\",\"step\":%d,\"epoch\":0,\"path\":\"x\",\"bytes\":5,\"seconds\":"
                    "1,\"attempt\":1}\n",
                    i);
    }
    assert_int_equal(fclose(f), 0);
}

static char *write_report(const char *storage, int steps, bool builtin)
{
    static ls_timeline_point micro[40], update[3];
    static const char *labels[40];
    char storage_set[600];
    const char *sets[2] = { storage_set, "run.name=a <b>&\"c\"" };
    ls_recipe *r;
    ls_rundir *d;
    snprintf(storage_set, sizeof storage_set, "run.storage=%s", storage);
    ASSERT_OK(ls_recipe_load(&r, "vit-fashion-mnist", 2, sets));
    ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false));
    for (int i = 1; i <= steps && i <= 3000; i++)
        ASSERT_OK(ls_metrics_step(d, &(ls_step_row){ .step = i,
                                                     .epoch = 0,
                                                     .samples = 128,
                                                     .loss = i == 3 ? NAN : 2.3f / (float)i,
                                                     .lr = 1e-3,
                                                     .seconds = 0.07,
                                                     .grad_norm = -1 }));
    if (steps) {
        assert_true(ls_rundir_is_best(d, 0.4375, false, steps, 0));
        ASSERT_OK(ls_metrics_eval(
            d, &(ls_eval_row){
                   .step = steps,
                   .samples = 10000,
                   .eval = { .n = 2, .at = (ls_metric[]){ { "loss", 0.4375 }, { "accuracy", 0.8125 } } } }));
        ASSERT_OK(ls_metrics_epoch(
            d, &(ls_epoch_row){
                   .step = steps,
                   .samples = 59904,
                   .train_loss = 0.5,
                   .eval = { .n = 2, .at = (ls_metric[]){ { "loss", 0.4375 }, { "accuracy", 0.8125 } } },
                   .seconds = 3 }));
    }
    if (steps > 3000)
        write_events(d, steps);
    for (int i = 0; i < 40; i++) {
        micro[i].bytes[LS_CAT_ACTIVATIONS] = (size_t)(i < 20 ? i : 40 - i) << 20;
        micro[i].bytes[LS_CAT_PARAMETERS] = 4 << 20; /* as the planner does, with the state: counted once */
        labels[i] = i == 20 ? "gelu in encoder & <decoder>" : "linear";
    }
    d->startup = (ls_startup){ 2, { { "load", 0.001 }, { "build & compile", 0.002 } }, 0.003 };
    ls_report report = {
        .recipe = r,
        .data_note = "some <set>",
        .builtin_data = builtin,
        .hardware = "CPU & co",
        .isa = "avx2",
        .threads = 1,
        .ranks = builtin ? "2 ranks: dp=2 & more" : NULL,
        .n_programs = 2,
        .programs = { { "micro", 40, micro, { [LS_CAT_PARAMETERS] = 4 << 20 }, labels, 20, 0.05, 20 << 20 },
                      { "update", 3, update, { 0 }, NULL, 0, 0.001, 0 } },
        .state_by_category = { [LS_CAT_PARAMETERS] = 4 << 20 },
        .plan_arena = 20 << 20,
        .plan_state = 4 << 20,
        .plan_io = 1 << 20,
        .plan_step_seconds = 0.05,
        .plan_step_flops = 6.6e9,
        .model_flops = 5e9,
        .peak_flops = builtin ? 2e11 : 0,
        .measured_step_seconds = steps ? 0.0625 : 0,
        .measured_rss = (size_t)50 << 20,
        .parameters = 1234567
    };
    ASSERT_OK(ls_report_write(d, &report));
    char *path = ls_path_join(d->path, "report.html"), *text;
    size_t size;
    ASSERT_OK(ls_file_read(&text, &size, path));
    free(path);
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_FINISHED, NULL));
    ls_recipe_destroy(&r);
    return text;
}

static void the_page_is_whole_and_alone(void **state)
{
    (void)state;
    char *page = write_report(ls_test_path("page"), 3000, false);
    page_check(page);
    ASSERT_CONTAINS(page, "a &lt;b&gt;&amp;&quot;c&quot;");
    ASSERT_CONTAINS(page, "1,234,567 parameters");
    ASSERT_CONTAINS(page, "81.25");
    ASSERT_CONTAINS(page, "0.4375");
    ASSERT_CONTAINS(page, "measured / plan 1.25");
    ASSERT_CONTAINS(page, "most transient memory 20.0 MiB at call 20: gelu in encoder &amp; &lt;decoder&gt;");
    json_t *memory = page_chart(page, "memory over the step"); /* in MiB, at the peak */
    assert_string_equal(json_string_value(json_array_get(json_object_get(memory, "labels"), 20)),
                        "gelu in encoder & <decoder>");
    assert_true(page_number(page_points(memory, "inputs and outputs"), 20, 1) == 1);
    assert_true(page_number(page_points(memory, "parameters"), 20, 1) == 4);
    assert_true(page_number(page_points(memory, "activations"), 20, 1) == 20);
    assert_int_equal(json_array_size(json_object_get(memory, "series")), 3);
    json_decref(memory);
    ASSERT_CONTAINS(page, "units: &quot;class:EncoderBlock&quot;");
    ASSERT_CONTAINS(page, "the peak of this machine is not known: run `lockstep doctor`");
    ASSERT_CONTAINS(page, "prefers-color-scheme:dark");
    assert_null(strstr(page, "procedural"));
    assert_null(strstr(page, "nan"));
    free(page);
}

static void the_built_in_set_is_said(void **state)
{
    (void)state;
    char *page = write_report(ls_test_path("builtin"), 5, true);
    page_check(page);
    ASSERT_CONTAINS(page, "built-in drawn shapes");
    ASSERT_CONTAINS(page, "<td>MFU</td><td>–</td><td>40.0 %</td><td>of 200 GFLOP/s in f32, which `lockstep "
                          "doctor` measured as the peak of 1 thread</td>"); /* 5e9 in 0.0625 s */
    ASSERT_CONTAINS(page, "2 ranks: dp=2 &amp; more; times and bytes of a step are those of rank 0");
    assert_null(strstr(page, "nan")); /* the third loss is one: a gap in the curve */
    free(page);
}

static void a_run_without_steps_has_a_page(void **state)
{
    (void)state;
    char *page = write_report(ls_test_path("none"), 0, false);
    page_check(page);
    ASSERT_CONTAINS(page, "There are no numbers yet");
    free(page);
}

static void restarts_and_checkpoints_are_told(void **state)
{
    (void)state;
    char *page = write_report(ls_test_path("events"), 3001, false);
    page_check(page);
    ASSERT_CONTAINS(page, "<td>1</td><td>2</td><td>3</td><td>rank &lt;1&gt;: killed</td>");
    ASSERT_CONTAINS(page, "{\"x\":2,\"kind\":\"restart\",\"text\":\"1\"}");
    ASSERT_CONTAINS(page, "<td>2</td><td>0</td><td>1.1500</td><td>3.0 MiB</td><td>best</td>");
    ASSERT_CONTAINS(page, "{\"x\":2,\"kind\":\"kept\"}");
    ASSERT_CONTAINS(page, "{\"x\":100,\"kind\":\"removed\"}");
    ASSERT_CONTAINS(page, "30 others were removed when newer ones were there");
    free(page);
    page = write_report(ls_test_path("no-events"), 5, false);
    assert_null(strstr(page, "Restarts"));
    assert_null(strstr(page, "Checkpoints"));
    assert_null(strstr(page, "\"kind\":\"kept\""));
    free(page);
}

static ls_status open_and_report_own(void *context)
{
    static int number; /* each call makes a run of its own */
    char name[32];
    snprintf(name, sizeof name, "own-%d", ++number);
    const ls_own_run run = { context, name, "grid: <3>", "residual" };
    ls_metric at[] = {
        { "accuracy", 0.25 }, { "residual", 2 }, { "eval_accuracy", 0.125 }, { "energy", NAN }, { "late", 1 }
    };
    ls_rundir *d = NULL;
    ls_status s = ls_rundir_open_own(&d, &run, NULL);
    if (s == LS_OK)
        s = ls_rundir_save_result(d, LS_RUN_STARTING, NULL);
    if (s == LS_OK)
        s = ls_rundir_save_result(d, LS_RUN_RUNNING, NULL);
    for (int i = 0; i < 3 && s == LS_OK; i++) {
        at[1].value = 1.0 / (i + 1);
        at[2].value = i ? 0.125 : 0.75;
        const ls_metric_list metrics = { .n = i == 2 ? 5 : 4, .at = at };
        s = ls_metrics_report(d, &(ls_report_row){ i, 10 * (i + 1), 7, 1, metrics });
    }
    char *folder = s == LS_OK ? ls_path_join(d->path, "checkpoints/step-00000020") : NULL;
    if (s == LS_OK)
        s = ls_make_dirs(folder);
    free(folder);
    if (s == LS_OK)
        s = ls_metrics_checkpoint(
            d, &(ls_checkpoint_row){ 20, 7, "checkpoints/step-00000020", 1, 1, 1, NULL, NULL });
    if (s == LS_OK)
        s = ls_report_write(d, &(ls_report){ .state = LS_RUN_FINISHED });
    const ls_status closed = ls_rundir_close(&d, s == LS_OK ? LS_RUN_FINISHED : LS_RUN_FAILED, "why");
    return s == LS_OK ? closed : s;
}

/* A program's run has the sections for which it has data; its checkpoints show what it reported at their
 * steps. */
static void a_program_has_the_same_page(void **state)
{
    (void)state;
    char storage[600], *page;
    size_t size;
    snprintf(storage, sizeof storage, "%s", ls_test_path("programs"));
    ASSERT_OK(open_and_report_own(storage));
    ASSERT_OK(ls_file_read(&page, &size, ls_test_path("programs/own-1/report.html")));
    page_check(page);
    ASSERT_CONTAINS(page, "<h1>own-1<span class=\"state finished\">");
    ASSERT_CONTAINS(page, "your own program");
    ASSERT_CONTAINS(page, "<b>12.50%</b><span>evaluation accuracy</span> <small>best 75.00% at step "
                          "10</small></div>");
    ASSERT_CONTAINS(page, "<span>residual</span></div>"); /* nobody knows what is better */
    ASSERT_CONTAINS(page, "<b>30</b><span>steps, in epoch 7</span>");
    ASSERT_CONTAINS(page, "<h2>residual</h2>");
    ASSERT_CONTAINS(page, "<th>accuracy</th><th>residual</th><th>evaluation accuracy</th><th>size</th>");
    ASSERT_CONTAINS(page, "<td>20</td><td>7</td><td>25.00%</td><td>0.5</td><td>12.50%</td><td>1 B</td>");
    ASSERT_CONTAINS(page, "<pre>grid: &lt;3&gt;</pre>");
    char *accuracy = strstr(page, "<h2>Accuracy</h2>"); /* one chart for both */
    assert_true(accuracy && !strstr(accuracy + 1, "<h2>Accuracy</h2>"));
    static const char *const OTHERS[] = { "Planned", "Recipe", "Epochs",  "Restarts",
                                          "Memory",  "exec",   "a second" };
    for (size_t i = 0; i < sizeof OTHERS / sizeof OTHERS[0]; i++)
        assert_null(strstr(page, OTHERS[i]));
    free(page);
    snprintf(storage, sizeof storage, "%s", ls_test_path("programs-memory"));
    assert_true(ls_test_memory(open_and_report_own, storage, 1) > 50);
}

/* A hundred thousand steps and a thousand checkpoints: as many points as a screen shows. */
static void a_long_run_has_a_small_page(void **state)
{
    (void)state;
    char *page = write_report(ls_test_path("long"), 100000, false);
    page_check(page);
    json_t *loss = page_chart(page, "loss over steps");
    const json_t *points = page_points(loss, "training");
    assert_int_equal(json_array_size(points), 400);
    assert_true(page_number(points, 399, 0) > 99800);
    json_decref(loss);
    ASSERT_CONTAINS(page, "1000 others were removed");
    assert_null(strstr(page, "\"kind\":\"removed\"")); /* nobody could tell them apart */
    assert_in_range(strlen(page), 50000, 300000);
    free(page);
}

/* One step in a hundred thousand that differs is in the data, and in the table with its step. */
static void no_extreme_is_lost(void **state)
{
    (void)state;
    enum { N = 100000 };
    ls_curve c = { .n = N, .x = malloc(N * sizeof(double)), .y = malloc(N * sizeof(double)) };
    for (int i = 0; i < N; i++) {
        c.x[i] = i + 1;
        c.y[i] = i == 50123 ? 9 : i == 70001 ? -3 : i == 99000 ? NAN : 1;
    }
    ls_str out = { 0 };
    ls_chart_lines(&out, &(ls_chart){ .title = "t",
                                      .x_name = "step",
                                      .n = 1,
                                      .low = 0,
                                      .high = 10,
                                      .height = 320,
                                      .series = { { &c, "loss", "red", false, false } } });
    json_t *chart = page_chart(ls_str_text(&out), "t");
    const json_t *points = page_points(chart, "loss");
    assert_int_equal(json_array_size(points), 400);
    for (size_t k = 0; k < 400; k++) { /* each is of 250 steps */
        assert_true(page_number(points, k, 0) == 250.0 * (double)k + 126);
        assert_true(page_number(points, k, 3) == (k == 50123 / 250 ? 9 : 1));
        assert_true(page_number(points, k, 2) == (k == 70001 / 250 ? -3 : 1));
        if (k == 50123 / 250)
            assert_true(fabs(page_number(points, k, 1) - (249 + 9) / 250.0) < 1e-6);
    }
    ASSERT_CONTAINS(ls_str_text(&out),
                    "<td>-3 <small>at 70002</small></td><td>9 <small>at 50124</small></td></tr>");
    json_decref(chart);
    ls_str_release(&out);
    free(c.x);
    free(c.y);
}

/* One moment of 5000 is in the data of a chart of memory, with its label and with the beginning of its place.
 */
static void no_peak_is_lost(void **state)
{
    (void)state;
    enum { N = 5000, PEAK = 3003 };
    double *bytes = malloc(2 * N * sizeof(double));
    const char **labels = malloc(N * sizeof *labels);
    for (int i = 0; i < N; i++) {
        bytes[2 * i] = 1 << 20;
        bytes[2 * i + 1] = (i == PEAK ? 7 : i % 2) << 20;
        labels[i] = i == PEAK ? "the peak" : i % 2 ? "odd" : "even";
    }
    ls_str out = { 0 };
    ls_chart_stack(&out, &(ls_stack){ .title = "m",
                                      .x_name = "call",
                                      .columns = N,
                                      .bands = 2,
                                      .names = (const char *const[]){ "low", "high" },
                                      .colors = (const char *const[]){ "red", "blue" },
                                      .bytes = bytes,
                                      .labels = labels,
                                      .x1 = N,
                                      .peak = -1 });
    json_t *chart = page_chart(ls_str_text(&out), "m");
    const json_t *points = page_points(chart, "high");
    size_t at = 0;
    assert_in_range(json_array_size(points), 2, 800); /* equal neighbours share one */
    while (page_number(points, at, 1) != 7)
        assert_true(++at < json_array_size(points));
    assert_string_equal(json_string_value(json_array_get(json_object_get(chart, "labels"), at)), "the peak");
    assert_true(fabs(page_number(points, at, 0) - PEAK) <= N / 800.0);
    ASSERT_CONTAINS(ls_str_text(&out), "<th scope=\"row\">all</th>");
    ASSERT_CONTAINS(ls_str_text(&out), "<td>8.00 <small>at 3000</small></td></tr>"); /* the greatest */
    json_decref(chart);
    ls_str_release(&out);
    free(bytes);
    free(labels);
}

/* The drawing of the page, and its table, show the rows of metrics.jsonl. */
static void charts_show_the_history(void **state)
{
    (void)state;
    enum { STEPS = 300 };
    char *page = write_report(ls_test_path("shown"), STEPS, false), dir[700], text[96];
    snprintf(dir, sizeof dir, "%s/a <b>&\"c\"", ls_test_path("shown"));
    ls_history h;
    ASSERT_OK(ls_history_read(&h, dir));
    assert_int_equal(h.n_steps, STEPS);
    json_t *loss = page_chart(page, "loss over steps"), *lr = page_chart(page, "learning rate");
    const json_t *points = page_points(loss, "training");
    assert_int_equal(json_array_size(points), STEPS);
    for (size_t i = 0; i < STEPS; i++) {
        const ls_step_row *row = &h.steps[i].row;
        assert_true(page_number(points, i, 0) == (double)row->step);
        if (isnan(row->loss))
            assert_true(isnan(page_number(points, i, 1)));
        else
            assert_true((float)page_number(points, i, 1) == row->loss);
        assert_true((float)page_number(page_points(lr, "learning rate"), i, 1) == (float)row->lr);
    }
    const json_t *eval = page_points(loss, "evaluation");
    assert_int_equal(json_array_size(eval), 1);
    assert_true(page_number(eval, 0, 0) == STEPS && page_number(eval, 0, 1) == 0.4375);
    /* first, ten between, last, least, greatest */
    const char *row = strstr(page, "<th scope=\"row\">training</th>");
    assert_non_null(row);
    static const int AT[] = { 0, 27, 54, 81, 108, 135, 163, 190, 217, 244, 271, 299, 299, 0 };
    for (size_t k = 0; k < sizeof AT / sizeof *AT; k++) {
        snprintf(text, sizeof text, "<td>%.4g <small>at %d</small></td>", (double)h.steps[AT[k]].row.loss,
                 AT[k] + 1);
        row = strstr(row, text);
        if (!row)
            fail_msg("the table has no %s", text);
        row += strlen(text);
    }
    assert_int_equal(strncmp(row, "</tr>", 5), 0);
    json_decref(loss);
    json_decref(lr);
    ls_history_release(&h);
    free(page);
}

static ls_status open_and_report(void *context)
{
    ls_rundir *d = NULL;
    remove(ls_test_path("memory/one/metrics.jsonl")); /* else each call has more rows to read */
    ls_status s = ls_rundir_open_ranks(&d, context, NULL, false);
    if (s == LS_OK)
        s = ls_rundir_save_result(d, LS_RUN_STARTING, NULL);
    if (s == LS_OK)
        s = ls_rundir_save_result(d, LS_RUN_RUNNING, NULL);
    static const ls_timeline_point points[2] = { { .bytes = { 1, 2, 3 } } };
    const ls_report report = { .recipe = context,
                               .hardware = "",
                               .isa = "avx2",
                               .threads = 1,
                               .parameters = 7,
                               .n_programs = 1,
                               .programs = { { .name = "micro", .n = 2, .points = points } } };
    for (int i = 1; i <= 3 && s == LS_OK; i++)
        s = ls_metrics_step(d,
                            &(ls_step_row){ .step = i, .loss = 1, .lr = 1, .seconds = 1, .grad_norm = -1 });
    if (s == LS_OK)
        s = ls_metrics_eval(
            d, &(ls_eval_row){ .step = 3,
                               .samples = 1,
                               .eval = { .n = 2, .at = (ls_metric[]){ { "loss", 1 }, { "accuracy", 1 } } } });
    if (s == LS_OK)
        s = ls_metrics_checkpoint(
            d, &(ls_checkpoint_row){ 3, 0, "checkpoints/step-00000003", 1, 1, 1, NULL, NULL });
    if (s == LS_OK)
        s = ls_report_write(d, &report);
    const ls_status closed = ls_rundir_close(&d, s == LS_OK ? LS_RUN_FINISHED : LS_RUN_FAILED, "why");
    return s == LS_OK ? closed : s;
}

/* Every allocation is refused in turn: of the run's folder, its rows, its result and the page. */
static void a_run_is_written_without_memory(void **state)
{
    (void)state;
    ls_recipe *r = make_recipe(ls_test_path("memory"), NULL);
    assert_true(ls_test_memory(open_and_report, r, 1) > 100);
    ls_recipe_destroy(&r);
}

/* The mean is over as many steps on both sides, so a straight line stays where it is; a number that a row
 * lacks is in no mean. */
static void a_smooth_curve_does_not_lag(void **state)
{
    (void)state;
    enum { STEPS = 600, REACH = STEPS / 60 + 1 };
    ls_past_step steps[STEPS];
    ls_curves c;
    ls_curve smooth;
    for (int i = 0; i < STEPS; i++)
        steps[i] = (ls_past_step){ .row = { .step = i + 1, .loss = (float)i, .lr = 1, .seconds = 1 } };
    steps[300].row.loss = NAN;
    const ls_history h = { .steps = steps, .n_steps = STEPS };
    ASSERT_OK(ls_curves_make(&c, &h));
    ASSERT_OK(ls_curve_smooth(&smooth, &c, ls_curve_of(&c, "loss")));
    assert_int_equal(smooth.n, STEPS);
    assert_true(smooth.x[100] == 101 && smooth.y[100] == 100 && smooth.y[300] == 300);
    assert_true(smooth.y[0] == REACH / 2.0 && smooth.y[STEPS - 1] == STEPS - 1 - REACH / 2.0);
    ls_curves_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_smooth_curve_does_not_lag),       cmocka_unit_test(the_page_is_whole_and_alone),
        cmocka_unit_test(the_built_in_set_is_said),          cmocka_unit_test(a_run_without_steps_has_a_page),
        cmocka_unit_test(restarts_and_checkpoints_are_told), cmocka_unit_test(a_long_run_has_a_small_page),
        cmocka_unit_test(a_run_is_written_without_memory),   cmocka_unit_test(no_extreme_is_lost),
        cmocka_unit_test(charts_show_the_history),           cmocka_unit_test(no_peak_is_lost),
        cmocka_unit_test(a_program_has_the_same_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
