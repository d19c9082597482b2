/* test_predict.c - `predict` on terminals of several widths and into files: images as text, images that are
 * too wide, images that are too large to draw. Also the weights that a run, a recipe and a checkpoint stand
 * for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "support/support.h"
#include "verbs/commands.h"

enum { SAMPLES = 12000, SIDE = 6 };
static char recipe[450];

/* A run of two steps with eval samples 0, 1, 2, ..., each picture in one gray. */
static int begin(void **state)
{
    (void)state;
    const char *work = ls_test_dir();
    uint8_t images[16 + SAMPLES * SIDE * SIDE] = { 0, 0, 8,    3, 0, 0, SAMPLES >> 8, SAMPLES & 255, 0,
                                                   0, 0, SIDE, 0, 0, 0, SIDE };
    uint8_t labels[8 + SAMPLES] = { 0, 0, 8, 1, 0, 0, SAMPLES >> 8, SAMPLES & 255 };
    for (int i = 0; i < SAMPLES; i++) {
        memset(images + 16 + i * SIDE * SIDE, i % 2 ? 255 : 0, SIDE * SIDE);
        labels[8 + i] = (uint8_t)(i % 10);
    }
    setenv("LOCKSTEP_CACHE", ls_test_path("cache"), 1);
    ASSERT_OK(ls_file_write(ls_test_path("images"), images, sizeof images));
    ASSERT_OK(ls_file_write(ls_test_path("labels"), labels, sizeof labels));
    ls_str yaml = { 0 };
    ls_str_printf(&yaml,
                  "model: {type: mlp, image_size: %d, hidden: [6]}\nrun: {name: one, storage: %s/runs}\n",
                  SIDE, work);
    ls_str_printf(&yaml, "data: {type: idx, train_images: %s/images, train_labels: %s/labels, ", work, work);
    ls_str_printf(&yaml, "eval_images: %s/images, eval_labels: %s/labels}\n", work, work);
    ls_str_add(&yaml, "train: {steps: 2, global_batch: 8}\neval: {every_epochs: 0}\ncheckpoint: "
                      "{every_steps: 1}\nthreads: 1\n");
    snprintf(recipe, sizeof recipe, "%s", ls_test_path("one.yaml"));
    ASSERT_OK(ls_file_write(recipe, yaml.data, yaml.len));
    ls_str_release(&yaml);
    char *text = NULL;
    size_t size;
    const ls_ui ui = { .out = open_memstream(&text, &size) };
    ASSERT_OK(ls_train_command(&(ls_train_opts){ .recipe = { .name = recipe } }, &ui));
    fclose(ui.out);
    free(text);
    return 0;
}

/* What it prints; the caller frees it. */
static char *predict(int width, ls_predict_opts o, ls_status expected)
{
    char *text = NULL;
    size_t size;
    const ls_ui ui = { .out = open_memstream(&text, &size), .width = width };
    o.model.name = recipe;
    o.count = o.count ? o.count : 3;
    assert_int_equal(ls_predict_command(&o, &ui), expected);
    fclose(ui.out);
    return text;
}

static void pictures_beside_each_other(void **state)
{
    (void)state;
    char *text = predict(34, (ls_predict_opts){ .show = true }, LS_OK); /* two and a gap; the third below */
    const char *first = "                  @@@@@@\n                  @@@@@@\n                  "
                        "@@@@@@\nlabel: 0          label: 1\npred: ";
    if (strncmp(text, first, strlen(first)))
        fail_msg("not two pictures side by side:\n%s", text);
    ASSERT_CONTAINS(text, "\n\n      \n      \n      \nlabel: 2\npred: ");
    ASSERT_CONTAINS(text, "\nsample ");
    free(text);
    text = predict(0, (ls_predict_opts){ .show = true }, LS_OK); /* a file: one below the other */
    ASSERT_CONTAINS(text, "\n\n@@@@@@\n@@@@@@\n@@@@@@\nlabel: 1\n");
    free(text);
    text = predict(0, (ls_predict_opts){ 0 }, LS_OK);
    assert_int_equal(strncmp(text, "sample ", 7), 0);
    free(text);
}

static void what_is_too_wide_or_too_large(void **state)
{
    (void)state;
    free(predict(SIDE, (ls_predict_opts){ .show = true }, LS_OK));
    free(predict(SIDE - 1, (ls_predict_opts){ .show = true }, LS_E_USAGE));
    ASSERT_CONTAINS(ls_error_message(),
                    "--show: a picture of 6 x 6 needs 6 columns, and the terminal has 5: widen");
    char path[450];
    snprintf(path, sizeof path, "%s", ls_test_path("large.png"));
    char *text = predict(0, (ls_predict_opts){ .count = 9000, .out = path }, LS_E_USAGE);
    assert_string_equal(text, ""); /* told before anything is predicted */
    free(text);
    ASSERT_CONTAINS(ls_error_message(), "large.png: 9000 samples in ");
    ASSERT_CONTAINS(ls_error_message(), "more than the 100 million of a PNG; ask for ");
    free(predict(0, (ls_predict_opts){ .count = 1000000, .out = path }, LS_E_USAGE));
    ASSERT_CONTAINS(ls_error_message(), "large.png: 12000 samples in one picture: at most 10000");
    assert_false(ls_file_exists(path));
    free(predict(0, (ls_predict_opts){ .count = 2, .out = path }, LS_OK));
    assert_true(ls_file_exists(path));
}

static int64_t step_of_eval(const char *model)
{
    char *text = NULL;
    size_t size;
    json_t *j;
    const ls_ui ui = { .out = open_memstream(&text, &size) };
    ASSERT_OK(ls_eval_command(&(ls_eval_opts){ .model = { .name = model }, .json = true }, &ui));
    fclose(ui.out);
    ASSERT_OK(ls_json_parse(&j, text, strlen(text), "output"));
    const int64_t step = json_integer_value(json_object_get(j, "step"));
    json_decref(j);
    free(text);
    return step;
}

static void a_run_stands_for_its_latest_checkpoint(void **state)
{
    (void)state;
    const char *best = ls_test_path("runs/one/checkpoints/best");
    (void)unlink(best);
    assert_int_equal(symlink("step-00000001", best), 0);
    assert_int_equal(step_of_eval(ls_test_path("runs/one")), 2);
    assert_int_equal(step_of_eval(recipe), 2);
    assert_int_equal(step_of_eval(best), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(pictures_beside_each_other),
                                        cmocka_unit_test(what_is_too_wide_or_too_large),
                                        cmocka_unit_test(a_run_stands_for_its_latest_checkpoint) };
    return cmocka_run_group_tests(tests, begin, NULL);
}
