/* test_resume.c - where a run stands, through trainer.json of a checkpoint and back; and files of older
 * versions, which had other names for some of it. */
#include "loop/resume.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden/training.h"
#include "step/state.h"
#include "support/support.h"

static const ls_mlp_config MLP = {
    .image_size = 8, .in_channels = 1, .classes = 5, .n_hidden = 1, .hidden = { 2 }, .mean = 0.5, .std = 0.5
};
static const ls_dataset SET = { .name = "none", .source = "none", .split = LS_SPLIT_TRAIN, .n = 8 };

/* The text with each of the n pairs {there, instead} replaced. */
static char *replaced(const char *text, int n, const char *const (*pairs)[2])
{
    char *out = strdup(text);
    for (int i = 0; i < n; i++) {
        char *at = strstr(out, pairs[i][0]), *next = NULL;
        if (!at)
            fail_msg("%s is not in %s", pairs[i][0], out);
        *at = 0;
        assert_true(asprintf(&next, "%s%s%s", out, pairs[i][1], at + strlen(pairs[i][0])) > 0);
        free(out);
        out = next;
    }
    return out;
}

/* Saves a checkpoint with this trainer.json, and reads it. */
static void through(ls_resume_point *out, ls_epoch_row *ended, ls_trainer *t, const ls_recipe *r,
                    const char *text, const char *name)
{
    ls_saved saved;
    ls_resume_change change = { 0 };
    const char *dir = ls_test_path(name);
    ls_metric_list_release(&out->evaluated);
    if (ended)
        ls_metric_list_release(&ended->eval);
    ASSERT_OK(ls_trainer_save_state(
        t, dir, &(ls_checkpoint_contents){ .config = "{}", .trainer = text, .max_file = 1 << 30 }, &saved));
    ASSERT_OK(
        ls_resume_load(out, &change, dir, t, r, &(ls_resume_now){ .train = &SET, .steps_per_epoch = 3 }));
    assert_null(change.what);
    if (ended)
        assert_true(ls_resume_ended(ended, dir, &SET, NULL));
}

/* At the end of an epoch, or within one. */
static void through_versions(bool within, const char *const (*older_names)[2])
{
    static const char TEXT[] = "model: {type: mlp}\ndata: {type: shapes}\n";
    ls_recipe *r;
    ls_trainer *t;
    ls_epoch_row row = { .train_loss = 0.75 }, ended = { .epoch = 0 };
    ls_metric_list_set(&row.eval, "loss", 0.5);
    ASSERT_OK(ls_recipe_load_text(&r, TEXT, strlen(TEXT), "here.yaml", 0, NULL));
    ASSERT_OK(ls_trainer_create(&t, training_build_mlp, &MLP, .micro_batch = 2, .threads = 1));
    ASSERT_OK(ls_trainer_init(t, 1));
    const ls_resume_point point = {
        .step = 9 + within,
        .epoch = 3,
        .epoch_step = within,
        .steps_per_epoch = 3,
        .sums = { .loss = 6, .seconds = 2, .samples = 8, .count = 4, .skipped = 1 },
        .metrics = { .epoch = 2 + within, .loss = 0.125, .lr = 0.5, .best_value = NAN, .stop_value = NAN },
        .ended = &row,
        .train = &SET
    };
    ls_resume_point p = { .step = 0 };
    char *text = ls_resume_text(&point, r, t), head[256], *older = replaced(text, 5, older_names),
         *none = replaced(text, 1, &(const char *const[2]){ "\"epoch_targets\":4,", "\"epoch_targets\":0," }),
         *between = replaced(text, 1, older_names);
    snprintf(head, sizeof head,
             "{\"step\":%d,\"last_epoch\":%d,\"world\":1,\"version\":\"" LS_VERSION
             "\",\"metrics\":{\"loss\":0.125},\"text\":\"\",\"epoch\":",
             9 + within, 2 + within);
    assert_memory_equal(text, head, strlen(head));
    through(&p, &ended, t, r, text, within ? "now-1" : "now");
    assert_true(p.step == point.step && p.epoch == 3 && p.epoch_step == within &&
                p.metrics.epoch == 2 + within);
    assert_true(p.sums.loss == 6 && p.sums.samples == 8 && p.sums.count == 4 && p.sums.skipped == 1);
    assert_true(ended.train_loss == 0.75 && ls_metric_list_find(&ended.eval, "loss") == 0.5);
    assert_true(p.metrics.loss == 0.125 && isnan(p.metrics.stop_value));
    /* it had one target a sample, and did not count steps that changed nothing */
    through(&p, &ended, t, r, older, within ? "older-1" : "older");
    assert_true(p.step == point.step && p.epoch == 3 && p.epoch_step == within &&
                p.metrics.epoch == 2 + within);
    assert_true(p.sums.count == 8 && p.sums.skipped == 0 && ended.train_loss == 0.75);
    /* no target of the epoch has counted so far */
    through(&p, &ended, t, r, none, within ? "nothing-1" : "nothing");
    assert_int_equal(p.sums.count, 0);
    /* it had `epoch`, of the last step, and no last_epoch */
    through(&p, NULL, t, r, between, within ? "between-1" : "between");
    assert_true(p.epoch == 3 && p.metrics.epoch == 2 + within);
    free(between);
    ls_metric_list_release(&p.evaluated);
    ls_metric_list_release(&ended.eval);
    ls_metric_list_release(&row.eval);
    free(text);
    free(older);
    free(none);
    ls_trainer_destroy(&t);
    ls_recipe_destroy(&r);
}

/* Stopped in the evaluation behind an epoch of 3 steps. Then an epoch has more steps. */
static void an_epoch_whose_end_is_to_come(void **state)
{
    (void)state;
    static const char TEXT[] = "model: {type: mlp}\ndata: {type: shapes}\n";
    ls_recipe *r;
    ls_trainer *t;
    const ls_epoch_row row = { .train_loss = 0.75 };
    ls_resume_change change = { 0 };
    ASSERT_OK(ls_recipe_load_text(&r, TEXT, strlen(TEXT), "here.yaml", 0, NULL));
    ASSERT_OK(ls_trainer_create(&t, training_build_mlp, &MLP, .micro_batch = 2, .threads = 1));
    ASSERT_OK(ls_trainer_init(t, 1));
    ls_resume_point point = { .step = 9,
                              .epoch = 2,
                              .epoch_step = 3,
                              .steps_per_epoch = 3,
                              .sums = { .loss = 6, .samples = 8, .count = 4, .replaced = 5 },
                              .metrics = { .epoch = 2 },
                              .train = &SET },
                    p = { .step = 0 };
    char *text = ls_resume_text(&point, r, t);
    through(&p, NULL, t, r, text, "ending");
    free(text);
    assert_true(p.epoch == 2 && p.epoch_step == 3 && p.metrics.epoch == 2 && p.sums.replaced == 5);
    assert_true(ls_resume_ending(&p, 12) && ls_resume_ending(&p, 9));
    assert_true(ls_resume_epoch(&p, 9) == 3 && ls_resume_epoch_step(&p, 9) == 0); /* of the next step */
    ls_metric_list_release(&p.evaluated);
    ASSERT_OK(ls_resume_load(&p, &change, ls_test_path("ending"), t, r,
                             &(ls_resume_now){ .train = &SET, .steps_per_epoch = 5 }));
    assert_true(ls_resume_ending(&p, 12) && p.epoch == 2 && p.epoch_step == 5 && p.sums.samples == 8);
    assert_true(ls_resume_epoch(&p, 9) == 3 && ls_resume_epoch_step(&p, 10) == 1);
    /* in the middle of an epoch, unless the run ends there and its end is not done */
    point.step = 8;
    point.epoch_step = 2;
    text = ls_resume_text(&point, r, t);
    through(&p, NULL, t, r, text, "middle");
    free(text);
    assert_true(!ls_resume_ending(&p, 12) && ls_resume_ending(&p, 8));
    point.ended = &row;
    text = ls_resume_text(&point, r, t);
    through(&p, NULL, t, r, text, "cut");
    free(text);
    assert_false(ls_resume_ending(&p, 8));
    ls_metric_list_release(&p.evaluated);
    ls_trainer_destroy(&t);
    ls_recipe_destroy(&r);
}

static void of_this_version_and_of_older_ones(void **state)
{
    (void)state;
    static const char *const END[][2] = {
        { "\"last_epoch\":2,", "" },
        { "\"epoch\":2,\"next_epoch\":3,\"next_epoch_step\":0,", "\"epoch\":3,\"epoch_step\":0," },
        { "\"epoch_targets\":4,", "" },
        { "\"epoch_skipped\":1,", "" },
        { "\"train_loss\":0.75", "\"loss\":0.75" },
    };
    static const char *const WITHIN[][2] = {
        { "\"last_epoch\":3,", "" },
        { "\"epoch\":3,\"next_epoch\":3,\"next_epoch_step\":1,", "\"epoch\":3,\"epoch_step\":1," },
        { "\"epoch_targets\":4,", "" },
        { "\"epoch_skipped\":1,", "" },
        { "\"train_loss\":0.75", "\"loss\":0.75" },
    };
    through_versions(false, END);
    through_versions(true, WITHIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(an_epoch_whose_end_is_to_come),
                                        cmocka_unit_test(of_this_version_and_of_older_ones) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
