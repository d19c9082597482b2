/* test_step_folder.c - names of checkpoint folders: written and parsed for any step. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "record/step_folder.h"
#include "support/support.h"
#include "loop/resume.h"
#include "loop/resume.h"
#include "snapshots/snapshots.h"

static const int64_t STEPS[] = { 0, 7, 468, 99999999, 100000000, 1000000000000000, INT64_MAX };

static void test_names_come_back(void **state)
{
    (void)state;
    char name[LS_STEP_FOLDER_ROOM];
    assert_string_equal(ls_step_folder(name, 468), "step-00000468");
    for (size_t i = 0; i < sizeof STEPS / sizeof *STEPS; i++)
        assert_int_equal(ls_step_folder_parse(ls_step_folder(name, STEPS[i])), STEPS[i]);
}

static void test_other_names_are_none(void **state)
{
    (void)state;
    static const char *const OTHERS[] = { "",
                                          "step-",
                                          "step-7",
                                          "step-0000007",
                                          "step-000000007",
                                          "step-00000007x",
                                          "step--0000007",
                                          "step-+0000007",
                                          "step- 0000007",
                                          "Step-00000007",
                                          "step-99999999999999999999",
                                          "latest",
                                          "xstep-00000007" };
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
        assert_int_equal(ls_step_folder_parse(OTHERS[i]), -1);
}

/* By name, step-1000000000 would stand before step-20000000. */
static void test_large_steps_are_listed_last(void **state)
{
    (void)state;
    char path[600], name[LS_STEP_FOLDER_ROOM];
    const char *run = ls_test_dir();
    for (int i = 0; i < 6; i++) {
        snprintf(path, sizeof path, "%s/checkpoints/%s", run, ls_step_folder(name, STEPS[5 - i]));
        assert_int_equal(ls_make_dirs(path), LS_OK);
    }
    snprintf(path, sizeof path, "%s/checkpoints", run);
    assert_int_equal(ls_resume_newest(path), STEPS[5]);

    ls_snapshots s = { 0 };
    const ls_rundir d = { .path = (char *)run };
    assert_int_equal(ls_snapshots_open(&s, &d, STEPS[5]), LS_OK);
    assert_int_equal(s.n, 6);
    for (int i = 0; i < 6; i++)
        assert_int_equal(s.all[i].step, STEPS[i]);
    ls_snapshots_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_come_back),
        cmocka_unit_test(test_other_names_are_none),
        cmocka_unit_test(test_large_steps_are_listed_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
