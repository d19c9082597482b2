/* test_faults.c - a whole run in which one call of the system fails, or all calls from one on because the
 * disk is full, or the process dies. What is left is sound. The same run, started again, ends with the bytes
 * of a run without faults. */
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
#include "base/json.h"
#include "base/str.h"
#include "ckpt/checkpoint.h"
#include "lockstep/recipe.h"
#include "support/support.h"
#include "verbs/commands.h"

#if defined(LS_ASAN) || defined(LS_TSAN)
#define SLOWER 7 /* every seventh point is enough there */
#else
#define SLOWER 1
#endif

enum { SAMPLES = 24, SIDE = 4 };
static char work[400], recipe[450];

/* FOLDER/NAME, valid until the eighth call after this one. */
static const char *in(const char *folder, const char *name)
{
    static char *paths[8];
    static unsigned n;
    char **path = &paths[n++ % 8], *before = *path;
    *path = ls_path_join(folder, name);
    free(before);
    return *path;
}

static int begin(void **state)
{
    (void)state;
    if (ls_dir_exists("/dev/shm"))
        setenv("TMPDIR", "/dev/shm", 1); /* thousands of fsync that test nothing */
    uint8_t images[16 + SAMPLES * SIDE * SIDE] = {
        0, 0, 8, 3, 0, 0, 0, SAMPLES, 0, 0, 0, SIDE, 0, 0, 0, SIDE
    };
    uint8_t labels[8 + SAMPLES] = { 0, 0, 8, 1, 0, 0, 0, SAMPLES };
    for (int i = 0; i < SAMPLES * SIDE * SIDE; i++)
        images[16 + i] = (uint8_t)((uint32_t)i * 2654435761u >> 24);
    for (int i = 0; i < SAMPLES; i++)
        labels[8 + i] = (uint8_t)(i % 10);
    snprintf(work, sizeof work, "%s", ls_test_path("work"));
    snprintf(recipe, sizeof recipe, "%s/small.yaml", work);
    setenv("LOCKSTEP_CACHE", in(work, "cache"), 1);
    ASSERT_OK(ls_make_dirs(work));
    ASSERT_OK(ls_file_write(in(work, "images"), images, sizeof images));
    ASSERT_OK(ls_file_write(in(work, "labels"), labels, sizeof labels));
    ls_str yaml = { 0 };
    ls_str_printf(&yaml, "model: {type: mlp, image_size: %d, hidden: [6]}\n", SIDE);
    ls_str_printf(&yaml, "data: {type: idx, train_images: %s/images, train_labels: %s/labels, ", work, work);
    ls_str_printf(&yaml, "eval_images: %s/images, eval_labels: %s/labels}\n", work, work);
    ls_str_add(&yaml, "train: {epochs: 1, global_batch: 8, micro_batch: 4}\ncheckpoint: {every_steps: 2, "
                      "keep: 1}\nthreads: 1\n");
    ls_str_printf(&yaml, "run: {storage: %s/runs}\n", work);
    ASSERT_OK(ls_file_write(recipe, yaml.data, yaml.len));
    ls_str_release(&yaml);
    return 0;
}

static ls_status train(const char *name, bool async)
{
    char set[100];
    const char *const sets[] = { set, async ? "checkpoint.async=true" : "checkpoint.async=false" };
    const ls_train_opts o = { .recipe = { .name = recipe, .n_sets = 2, .sets = sets } };
    const ls_ui ui = { .out = stdout };
    snprintf(set, sizeof set, "run.name=%s", name);
    return ls_train_command(&o, &ui);
}

static char *text_of(const char *path, size_t *size)
{
    char *text;
    ASSERT_OK(ls_file_read(&text, size, path));
    return text;
}

static void same_file(const char *what, const char *a, const char *b)
{
    size_t n, m;
    char *x = text_of(a, &n), *y = text_of(b, &m);
    if (n != m || memcmp(x, y, n))
        fail_msg("%s: %s and %s differ", what, a, b);
    free(x);
    free(y);
}

/* Whatever has a name that is read is whole. */
static void expect_sound(const char *what, const char *run)
{
    char checkpoints[900];
    json_t *tree;
    ls_recipe *r;
    snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", run);
    if (ls_file_exists(in(run, "recipe.yaml"))) {
        if (ls_recipe_load(&r, in(run, "recipe.yaml"), 0, NULL) != LS_OK)
            fail_msg("%s: %s", what, ls_error_message());
        ls_recipe_destroy(&r);
    }
    if (ls_file_exists(in(run, "result.json"))) {
        size_t size;
        char *text = text_of(in(run, "result.json"), &size);
        if (ls_json_parse(&tree, text, size, "result.json") != LS_OK)
            fail_msg("%s: %s", what, ls_error_message());
        json_decref(tree);
        free(text);
    }
    DIR *d = opendir(checkpoints);
    for (struct dirent *e; d && (e = readdir(d));) {
        const char *name = e->d_name;
        if (!strcmp(name, "latest") || !strcmp(name, "best") || !strncmp(name, "step-", 5)) {
            if (ls_checkpoint_verify(in(checkpoints, name), LS_VERIFY_FULL, NULL) != LS_OK)
                fail_msg("%s: %s", what, ls_error_message());
        } else if (name[0] != '.')
            fail_msg("%s: what is %s?", what, name);
    }
    if (d)
        closedir(d);
}

/* Started again it ends like the run `whole`, and leaves nothing behind. */
static void expect_end(const char *what, const char *run)
{
    if (train("one", false) != LS_OK)
        fail_msg("%s: started again: %s", what, ls_error_message());
    expect_sound(what, run);
    static const char *const FILES[] = { "model.safetensors", "optimizer.safetensors", "config.json" };
    for (int i = 0; i < 3; i++)
        same_file(what, in(in(in(work, "runs/whole"), "checkpoints/latest"), FILES[i]),
                  in(in(run, "checkpoints/latest"), FILES[i]));
    char *text = text_of(in(run, "result.json"), NULL);
    if (!strstr(text, "\"state\":\"finished\"") || !ls_file_exists(in(run, "report.html")))
        fail_msg("%s: not finished", what);
    free(text);
    DIR *d = opendir(run);
    for (struct dirent *e; (e = readdir(d));)
        if (strstr(e->d_name, ".tmp-") || strstr(e->d_name, ".new"))
            fail_msg("%s: %s was left behind", what, e->d_name);
    closedir(d);
    char remove[1000];
    snprintf(remove, sizeof remove, "rm -r '%s'", run);
    assert_int_equal(system(remove), 0);
}

static void any_call_fails(void **state)
{
    (void)state;
    char run[500], what[300];
    snprintf(run, sizeof run, "%s/runs/one", work);
    for (int how = LS_FAIL_ONCE; how <= LS_FAIL_SHORT; how++) {
        bool reached = true;
        for (int n = how; reached; n += how == LS_FAIL_ONCE ? SLOWER : 5 * SLOWER) {
            ls_fault_arm(LS_POINTS_OF_FILES, n, (ls_failing)how);
            const ls_status s = train("one", n / SLOWER % 2);
            reached = ls_fault_disarm() > n;
            snprintf(what, sizeof what, "how %d, at %d (%.150s)", how, n,
                     s == LS_OK ? "ok" : ls_error_message());
            if (s != LS_OK && !strstr(ls_error_message(), work))
                fail_msg("%s: the message names no path", what);
            expect_sound(what, run);
            expect_end(what, run);
        }
    }
}

static void killed_anywhere(void **state)
{
    (void)state;
    char run[500], what[100];
    snprintf(run, sizeof run, "%s/runs/one", work);
    ASSERT_OK(train("whole", false));
    bool killed = true;
    int n;
    for (n = 0; killed; n += 2 * SLOWER) {
        snprintf(what, sizeof what, "killed at %d", n);
        fflush(NULL);
        const pid_t child = fork();
        if (child == 0) {
            ls_fault_arm(LS_POINTS_OF_FILES, n, LS_FAIL_KILL);
            _exit(train("one", n / 2 / SLOWER % 2) != LS_OK);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        if (!killed && status)
            fail_msg("%s: status %d", what, status);
        expect_sound(what, run);
        expect_end(what, run);
    }
    assert_true(n > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(killed_anywhere), cmocka_unit_test(any_call_fails) };
    return cmocka_run_group_tests(tests, begin, NULL);
}
