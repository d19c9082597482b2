/* test_faults.c - a save in which one call of the system fails, or in which the process dies. The save fails
 * with a message, earlier checkpoints are untouched, no incomplete folder has the name of a checkpoint, and
 * the next save succeeds. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/fault.h"
#include "base/file.h"
#include "ckpt/checkpoint.h"
#include "ckpt/folder.h"
#include "support/ranks.h"
#include "support/support.h"

enum { TENSORS = 3, SIZE = 400 };
static float values[TENSORS][SIZE];
static char folder[400];

typedef struct job {
    int step, ranks;
} job;

static const char *at_step(int step)
{
    static _Thread_local char path[450];
    snprintf(path, sizeof path, "%s/step-%d", folder, step);
    return path;
}

static bool per_rank; /* with a file for each rank instead */

/* Saves and moves `latest`, as a run does. Tensors are sharded over the ranks; with this limit the model is
 * two files and an index. */
static ls_status save(ls_group *g, void *context)
{
    const job *j = context;
    const int rank = g ? ls_group_rank(g) : 0;
    static const char *const NAMES[TENSORS] = { "a.weight", "b.weight", "c.weight" };
    const ls_type type = LS_TYPE(LS_F32, SIZE);
    ls_named_tensor t[TENSORS];
    ls_range mine[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        t[i] = (ls_named_tensor){ NAMES[i], ls_tensor_of(NULL, &type) };
        mine[i] = (ls_range){ .first = rank * SIZE / j->ranks,
                              .count = SIZE / j->ranks,
                              .data = values[i] + rank * SIZE / j->ranks };
    }
    const ls_checkpoint_contents c = { .config = "{}\n",
                                       .trainer = "{\"step\": 1}\n",
                                       .model = { .n = TENSORS, .tensors = t, .mine = mine },
                                       .optimizer = { .n = 1, .tensors = t, .mine = mine },
                                       .max_file = 2 * 4 * SIZE,
                                       .per_rank = per_rank };
    char name[32];
    snprintf(name, sizeof name, "step-%d", j->step);
    LS_TRY(ls_checkpoint_save(at_step(j->step), &c, g, NULL));
    return rank ? LS_OK : ls_checkpoint_point(folder, "latest", name);
}

static ls_status save_step(int step, int ranks)
{
    job j = { step, ranks };
    return ranks > 1 ? run_ranks(ranks, save, &j) : save(NULL, &j);
}

static bool is_there(int step) { return ls_dir_exists(at_step(step)); }

/* Checkpoint 1 is as it was; 2, if there is a folder of its name, is whole; `latest` is one of them, and 2
 * only when the save succeeded. */
static void expect_sound(const char *what, bool saved, int ranks)
{
    char link[450], target[64] = "";
    snprintf(link, sizeof link, "%s/latest", folder);
    if (readlink(link, target, sizeof target - 1) < 0)
        fail_msg("%s: `latest` is gone", what);
    const bool moved = !strcmp(target, "step-2");
    if ((!moved && strcmp(target, "step-1")) || (saved && !moved) || (moved && !is_there(2)))
        fail_msg("%s: `latest` is %s", what, target);
    for (int step = 1; step <= 1 + is_there(2); step++) {
        int files = 0;
        ls_checkpoint c;
        if (ls_checkpoint_verify(at_step(step), LS_VERIFY_FULL, &files) != LS_OK ||
            files != (step == 2 && per_rank ? 2 + 2 * ranks : 6))
            fail_msg("%s: step %d, %d files: %s", what, step, files, ls_error_message());
        if (ls_checkpoint_open(&c, at_step(step), LS_VERIFY_SIZES, NULL) != LS_OK)
            fail_msg("%s: step %d: %s", what, step, ls_error_message());
        ls_checkpoint_release(&c);
    }
}

/* The next save succeeds and leaves only checkpoints; then all is as it was before. */
static void expect_next(const char *what, int ranks)
{
    if (save_step(3, ranks) != LS_OK)
        fail_msg("%s: the next save: %s", what, ls_error_message());
    assert_int_equal(ls_test_count(folder), 3 + is_there(2));
    ASSERT_OK(ls_checkpoint_verify(at_step(3), LS_VERIFY_FULL, NULL));
    ASSERT_OK(ls_checkpoint_point(folder, "latest", "step-1"));
    ASSERT_OK(ls_checkpoint_remove(at_step(3)));
    if (is_there(2))
        ASSERT_OK(ls_checkpoint_remove(at_step(2)));
}

static int begin(void **state)
{
    (void)state;
    if (ls_dir_exists("/dev/shm"))
        setenv("TMPDIR", "/dev/shm", 1); /* thousands of fsync that test nothing */
    for (int t = 0; t < TENSORS; t++)
        for (int i = 0; i < SIZE; i++)
            values[t][i] = (float)(t * SIZE + i) / 7;
    snprintf(folder, sizeof folder, "%s", ls_test_path("run"));
    return save_step(1, 1) == LS_OK ? 0 : -1;
}

/* Points whose failure makes the save fail, whichever it is; left-overs, on the other hand, may stay. */
static const unsigned FATAL = 1u << LS_POINT_OPEN | 1u << LS_POINT_WRITE | 1u << LS_POINT_SYNC |
                              1u << LS_POINT_SIZE | 1u << LS_POINT_NAME;

static void every_failure(int ranks, unsigned kinds, ls_failing how, int least)
{
    int failures = 0;
    char what[200];
    bool reached = true;
    for (int n = 0; reached; n++) {
        ls_fault_arm(kinds, n, how);
        const ls_status s = save_step(2, ranks);
        reached = ls_fault_disarm() > n;
        failures += s != LS_OK;
        snprintf(what, sizeof what, "%d ranks, points %x, how %d, at %d (%.90s)", ranks, kinds, how, n,
                 s == LS_OK ? "ok" : ls_error_message());
        if (s != LS_OK && !(kinds & ~LS_POINTS_OF_FILES) && !strstr(ls_error_message(), folder))
            fail_msg("%s: the message names no path", what);
        if (s == LS_OK && reached && !(kinds & ~FATAL))
            fail_msg("%s: not reported", what);
        if (s != LS_OK && !strchr(ls_error_message(), ' '))
            fail_msg("%s: no message", what);
        expect_sound(what, s == LS_OK, ranks);
        expect_next(what, ranks);
    }
    if (failures < least)
        fail_msg("%d ranks, points %x, how %d: only %d failures", ranks, kinds, how, failures);
}

static void any_call_fails(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++) {
        every_failure(ranks, FATAL, LS_FAIL_ONCE, 35);
        every_failure(ranks, LS_POINTS_OF_FILES & ~FATAL, LS_FAIL_ONCE, 0);
        every_failure(ranks, LS_POINTS_OF_FILES, LS_FAIL_ON, 40);
        every_failure(ranks, 1u << LS_POINT_WRITE, LS_FAIL_SHORT, 10);
        every_failure(ranks, 1u << LS_POINT_MEMORY, LS_FAIL_ONCE, 3);
    }
    every_failure(2, 1u << LS_POINT_CALL, LS_FAIL_ONCE, 4);
}

static void any_call_fails_of_ranks_with_files_of_their_own(void **state)
{
    (void)state;
    per_rank = true;
    every_failure(2, FATAL, LS_FAIL_ONCE, 35);
    every_failure(2, LS_POINTS_OF_FILES, LS_FAIL_ON, 40);
    every_failure(2, 1u << LS_POINT_WRITE, LS_FAIL_SHORT, 10);
    every_failure(2, 1u << LS_POINT_MEMORY, LS_FAIL_ONCE, 10);
    every_failure(2, 1u << LS_POINT_CALL, LS_FAIL_ONCE, 4);
    per_rank = false;
}

/* Every file, the folder that holds them and its parent; `latest` is a link, which only its folder's sync
 * puts on disk. A crash of the machine cannot be tested, so they are counted. */
static void everything_is_synced(void **state)
{
    (void)state;
    ls_fault_arm(1u << LS_POINT_SYNC, -1, LS_FAIL_ONCE);
    ASSERT_OK(save_step(2, 1));
    const int files = ls_test_count(at_step(2));
    assert_int_equal(ls_fault_disarm(), files + 2 + 1);
    ls_fault_arm(1u << LS_POINT_SYNC, -1, LS_FAIL_ONCE);
    ASSERT_OK(save_step(4, 2)); /* each rank syncs the files of tensors, in which both write */
    assert_int_equal(ls_fault_disarm(), files + 3 + 2 + 1);
    ASSERT_OK(ls_checkpoint_point(folder, "latest", "step-1"));
    ASSERT_OK(ls_checkpoint_remove(at_step(2)));
    ASSERT_OK(ls_checkpoint_remove(at_step(4)));

    ls_folder f;
    ls_folder_init(&f, at_step(5));
    ASSERT_OK(ls_folder_begin(&f));
    ls_fault_arm(1u << LS_POINT_SYNC | 1u << LS_POINT_NAME, -1, LS_FAIL_ONCE);
    ASSERT_OK(ls_folder_commit(&f));
    assert_int_equal(ls_fault_disarm(), 3); /* the folder, its name, its parent */
    ls_folder_release(&f);
    ls_remove_tree(at_step(5));
}

/* Puts a folder with a directory of this name in the place of step 5. how: the first change of a name fails;
 * -1: none does. */
static ls_status put_folder(const char *inside, int how)
{
    ls_folder f;
    char path[600];
    ASSERT_OK(ls_folder_init(&f, at_step(5)));
    f.replace = true;
    ASSERT_OK(ls_folder_begin(&f));
    snprintf(path, sizeof path, "%s/%s", f.unfinished, inside);
    assert_int_equal(mkdir(path, 0777), 0);
    if (how >= 0)
        ls_fault_arm(1u << LS_POINT_NAME, 0, (ls_failing)how);
    const ls_status s = ls_folder_commit(&f);
    ls_fault_disarm();
    ls_folder_release(&f);
    return s;
}

static bool has_inside(const char *inside)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", at_step(5), inside);
    return ls_dir_exists(path);
}

/* Some file systems cannot exchange names. The old folder then makes way under another name, and gets its
 * name back if the new one does not come. */
static void replaced_without_an_exchange(void **state)
{
    (void)state;
    char aside[600];
    const int before = ls_test_count(folder);
    snprintf(aside, sizeof aside, "%s/" LS_REPLACED "step-5", folder);
    ASSERT_OK(put_folder("first", -1));
    ASSERT_OK(put_folder("second", LS_FAIL_ONCE)); /* the exchange */
    assert_true(has_inside("second") && !has_inside("first"));
    ASSERT_FAILS(put_folder("third", LS_FAIL_ON), LS_E_IO, "step-5");
    assert_true(has_inside("second"));
    assert_int_equal(ls_test_count(folder), before + 1);

    /* killed between the two changes of names, and behind them */
    assert_int_equal(rename(at_step(5), aside), 0);
    ls_checkpoint_settle(folder);
    assert_true(has_inside("second"));
    assert_int_equal(rename(at_step(5), aside), 0);
    ASSERT_OK(put_folder("fourth", LS_FAIL_ONCE));
    assert_true(has_inside("fourth"));
    assert_int_equal(mkdir(aside, 0777), 0);
    ls_checkpoint_clean(folder);
    assert_true(has_inside("fourth"));
    assert_int_equal(ls_test_count(folder), before + 1);
    ls_remove_tree(at_step(5));
}

static void killed_anywhere(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++) {
        bool killed = true;
        int n;
        for (n = 0; killed; n++) {
            char what[100];
            snprintf(what, sizeof what, "%d ranks, killed at %d", ranks, n);
            fflush(NULL);
            const pid_t child = fork();
            if (child == 0) {
                ls_fault_arm(LS_POINTS_ALL, n, LS_FAIL_KILL);
                _exit(save_step(2, ranks) != LS_OK);
            }
            int status;
            assert_int_equal(waitpid(child, &status, 0), child);
            killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
            if (!killed && status)
                fail_msg("%s: status %d", what, status);
            expect_sound(what, !killed, ranks);
            expect_next(what, ranks);
        }
        assert_true(n > 45);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(everything_is_synced),
                                        cmocka_unit_test(replaced_without_an_exchange),
                                        cmocka_unit_test(killed_anywhere), cmocka_unit_test(any_call_fails),
                                        cmocka_unit_test(any_call_fails_of_ranks_with_files_of_their_own) };
    return cmocka_run_group_tests(tests, begin, NULL);
}
