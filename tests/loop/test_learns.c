/* test_learns.c - ResNet18 learns. The recipe resnet18-mnist-cosine is scaled down to 60 steps of 32 of the
 * built-in shapes. It then predicts four of five new images correctly (ten classes, equally frequent).
 * docs/tutorials/resnet18-mnist.md has MNIST itself. */
#include <stdlib.h>
#include "golden/training.h"
#include "lockstep/recipe.h"
#include "setup/setup.h"

enum { STEPS = 60, BATCH = 32, TEST_BATCHES = 16, PIXELS = 28 * 28 };

static uint8_t images[BATCH * PIXELS];
static int32_t labels[BATCH];

static void read_batch(const ls_dataset *set, int64_t batch)
{
    for (int64_t i = 0; i < BATCH; i++)
        ASSERT_OK(set->read(set, batch * BATCH + i, (void *const[]){ images + i * PIXELS, &labels[i] }));
}

static ls_dataset *shapes(ls_split split)
{
    ls_dataset *set;
    ASSERT_OK(ls_dataset_open(&set, "shapes", split));
    return set;
}

static void resnet_learns(void **state)
{
    (void)state;
    ls_recipe *r;
    ls_setup setup;
    ls_trainer *t;
    ls_dataset *train = shapes(LS_SPLIT_TRAIN), *test = shapes(LS_SPLIT_EVAL);
    const char *const sets[] = { "data.type=shapes",     "train.steps=60",          "train.global_batch=32",
                                 "train.micro_batch=32", "schedule.total_steps=60", "threads=2" };
    ASSERT_OK(ls_recipe_load(&r, "resnet18-mnist-cosine", 6, sets));
    ASSERT_OK(ls_setup_make(&setup, r, 1, 0, 0));
    ASSERT_OK(ls_trainer_create_with(&t, ls_recipe_build, r, &setup.trainer));
    ASSERT_OK(ls_trainer_init(t, 0));
    ls_step_result result;
    for (int k = 0; k < STEPS; k++) {
        read_batch(train, k);
        ASSERT_OK(ls_trainer_step(t, images, labels, BATCH, ls_schedule_rate(&setup.schedule, setup.lr, k),
                                  &result));
    }
    int right = 0;
    for (int k = 0; k < TEST_BATCHES; k++) {
        int32_t predicted[BATCH];
        read_batch(test, k);
        ASSERT_OK(ls_trainer_eval(t, images, labels, NULL, predicted, NULL));
        for (int i = 0; i < BATCH; i++)
            right += predicted[i] == labels[i];
    }
    print_message("last loss %.3f, %d of %d right\n", result.loss, right, TEST_BATCHES * BATCH);
    assert_true(right * 5 >= TEST_BATCHES * BATCH * 4);
    ls_trainer_destroy(&t);
    ls_dataset_close(&train);
    ls_dataset_close(&test);
    ls_recipe_destroy(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(resnet_learns) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
