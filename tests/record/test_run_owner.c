/* test_run_owner.c - who owns a run: one process at a time, processes that died, owners on other hosts.
 * Reading a run disturbs no owner. */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/fault.h"
#include "base/file.h"
#include "base/json.h"
#include "record/metrics.h"
#include "support/ranks.h"
#include "support/support.h"
#include "record/run.h"

static void one_process_at_a_time(void **state)
{
    (void)state;
    char pid[64];
    ls_recipe *r = make_recipe(ls_test_path("lock"), NULL);
    ls_rundir *d, *second;
    ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false));
    snprintf(pid, sizeof pid, "process %ld", (long)getpid());
    ASSERT_FAILS(ls_rundir_open_ranks(&second, r, NULL, false), LS_E_USAGE, "lock/one", "being trained", pid,
                 "host ");
    assert_null(second);
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_STOPPED, NULL));
    ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false));
    assert_int_equal(d->before, LS_RUN_STOPPED);
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_NEW, NULL));
    ls_recipe_destroy(&r);
}

/* Others look at a run all the time (`lockstep runs`): that keeps nobody from opening it, and what they see
 * is never a run that died. */
typedef struct onlooker {
    char path[700];
    _Atomic bool ended;
    bool died;
} onlooker;

static void *look_on(void *context)
{
    onlooker *o = context;
    ls_run_info info;
    while (!atomic_load(&o->ended))
        if (ls_run_info_read(&info, o->path) == LS_OK) {
            o->died = o->died || info.state == LS_RUN_DIED;
            ls_run_info_release(&info);
        }
    return NULL;
}

static void looking_disturbs_nobody(void **state)
{
    (void)state;
    const char *storage = ls_test_path("looked-at");
    ls_recipe *r = make_recipe(storage, NULL);
    ls_rundir *d;
    onlooker o = { .died = false };
    pthread_t thread;
    snprintf(o.path, sizeof o.path, "%s/one", storage);
    assert_int_equal(pthread_create(&thread, NULL, look_on, &o), 0);
    ls_status s = LS_OK;
    for (int i = 0; i < 200 && s == LS_OK; i++) {
        s = ls_rundir_open_ranks(&d, r, NULL, false);
        if (s == LS_OK && i > 0)
            s = ls_rundir_save_result(d, LS_RUN_STARTING, NULL);
        if (s == LS_OK)
            s = ls_rundir_close(&d, LS_RUN_STOPPED, NULL);
    }
    atomic_store(&o.ended, true);
    pthread_join(thread, NULL);
    ASSERT_OK(s);
    assert_false(o.died);
    ls_recipe_destroy(&r);
}

static void start_and_die(const char *storage)
{
    ls_rundir *d;
    ls_recipe *r = make_recipe(storage, NULL);
    if (ls_rundir_open_ranks(&d, r, NULL, false) != LS_OK)
        _exit(1);
    if (ls_metrics_step(d, &(ls_step_row){ .step = 1, .loss = 1, .grad_norm = -1 }) != LS_OK)
        _exit(2);
}

static int a_dead_process(void)
{
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return (int)child;
}

/* A process of another host cannot be seen: its run is its own as long as result.json says that it trains and
 * is fresh. */
static void the_owner_on_another_host_is_left_alone(void **state)
{
    (void)state;
    const char *storage = ls_test_path("elsewhere"), *owner = "host elsewhere, process 1\n";
    char path[700], lock[710];
    snprintf(path, sizeof path, "%s/one", storage);
    snprintf(lock, sizeof lock, "%s/lock.txt", path);
    ls_recipe *r = make_recipe(storage, NULL);
    ls_rundir *d;
    ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false));
    ASSERT_OK(ls_rundir_save_result(d, LS_RUN_STARTING, NULL));
    ASSERT_OK(ls_rundir_save_result(d, LS_RUN_RUNNING, NULL));
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_NEW, NULL)); /* as if it trained on */
    ASSERT_OK(ls_file_write(lock, owner, strlen(owner)));
    ASSERT_FAILS(ls_rundir_open_ranks(&d, r, NULL, false), LS_E_USAGE, "belongs to host elsewhere, process 1",
                 "nobody can see", "/lock.txt");
    assert_null(d);
    ASSERT_OK(ls_file_write(lock, "", 0));
    ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false));
    ASSERT_OK(ls_rundir_save_result(d, LS_RUN_STARTING, NULL));
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_STOPPED, NULL));
    ASSERT_OK(ls_file_write(lock, owner, strlen(owner)));
    ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false)); /* it says itself that it stopped */
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_STOPPED, NULL));
    ls_recipe_destroy(&r);
}

static void between_attempts_the_parent_keeps_the_run(void **state)
{
    (void)state;
    const char *storage = ls_test_path("between");
    ls_recipe *r = make_recipe(storage, NULL);
    ls_rundir *d;
    ls_run_info info;
    char path[700];
    snprintf(path, sizeof path, "%s/one", storage);
    ASSERT_OK(ls_rundir_open_between(&d, r, false)); /* the first attempt failed before it had made the run */
    assert_int_equal(d->attempt, 1);
    assert_int_equal(ls_metrics_last_step(d, 0), -1);
    ASSERT_OK(ls_metrics_restart(d, &(ls_restart_row){ .cause = "rank 1: early", .pause = 0.5 }));
    ASSERT_OK(ls_run_info_read(&info, path));
    ls_run_info_release(&info);
    assert_int_equal(info.state, LS_RUN_RESTARTING);
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_RESTARTING, NULL));
    ASSERT_OK(ls_run_info_read(&info, path));
    ls_run_info_release(&info);
    /* nobody holds it until the ranks do, but their parent lives */
    assert_int_equal(info.state, LS_RUN_RESTARTING);
    char *lock = ls_path_join(path, "lock.txt"), host[64] = "", owner[128];
    gethostname(host, sizeof host - 1);
    snprintf(owner, sizeof owner, "host %s, process %d\n", host, a_dead_process());
    ASSERT_OK(ls_file_write(lock, owner, strlen(owner)));
    free(lock);
    ASSERT_OK(ls_run_info_read(&info, path));
    ls_run_info_release(&info);
    assert_int_equal(info.state, LS_RUN_DIED);
    ASSERT_OK(ls_rundir_open_between(&d, r, false)); /* the next one left nothing either */
    assert_int_equal(d->attempt, 2);
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_RESTARTING, NULL));
    ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false)); /* attempt 2 */
    assert_int_equal(d->attempt, 2);
    ASSERT_OK(ls_metrics_step(d, &(ls_step_row){ .step = 1, .loss = 1, .grad_norm = -1 }));
    ASSERT_OK(ls_rundir_save_result(d, LS_RUN_STARTING, NULL));
    d->data_note = "a set";
    d->startup = (ls_startup){ 1, { { "load", 0.25 } }, 0.5 };
    d->train_seconds = 3;
    ASSERT_OK(ls_rundir_save_result(d, LS_RUN_RUNNING, NULL));
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_NEW, NULL)); /* killed */
    ASSERT_OK(ls_rundir_open_between(&d, r, false));
    assert_int_equal(d->attempt, 3);
    assert_int_equal(ls_metrics_last_step(d, 0), 1);
    assert_int_equal(ls_metrics_last_step(d, 1000), -1); /* not from there on */
    assert_string_equal(d->data_note, "a set");          /* what only the ranks knew */
    assert_true(d->startup.n == 1 && d->startup.parts[0].seconds == 0.25 && d->startup.total == 0.5 &&
                d->train_seconds == 3);
    ASSERT_OK(ls_metrics_restart(
        d, &(ls_restart_row){ .cause = "rank 0: late", .step = 0, .lost = 1, .pause = 1 }));
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_STOPPED, NULL));
    ASSERT_OK(ls_run_info_read(&info, path));
    ls_run_info_release(&info);
    assert_int_equal(info.state, LS_RUN_STOPPED);
    assert_int_equal(info.restarts, 2);
    json_t *first = metrics_row(storage, 0), *third = metrics_row(storage, 2);
    assert_string_equal(text_of(first, "kind"), "restart");
    assert_string_equal(text_of(first, "cause"), "rank 1: early");
    assert_int_equal(json_integer_value(json_object_get(third, "steps_lost")), 1);
    assert_int_equal(json_integer_value(json_object_get(third, "attempt")), 3);
    json_decref(first);
    json_decref(third);
    ls_recipe_destroy(&r);
}

/* The run of a user's program: nothing that the parent does not know is lost, and config.txt stays. */
static void between_attempts_a_program_keeps_its_run(void **state)
{
    (void)state;
    const char *storage = ls_test_path("programs");
    ls_rundir *d;
    char path[700];
    snprintf(path, sizeof path, "%s/one", storage);
    ASSERT_FAILS(ls_rundir_open_own_between(&d, path), LS_E_IO, "result.json");
    assert_null(d);
    assert_false(ls_dir_exists(path)); /* the ranks make it, and nobody else */
    ASSERT_OK(ls_rundir_open_own(&d, &(ls_own_run){ storage, "one", "cells 64\n", "drag" }, NULL));
    ls_metric_list m = { .n = 0 };
    ls_metric_list_set(&m, "a name that is longer than the sixty-three bytes of a metric of a model", 4);
    ls_metric_list_set(&m, "drag", 2);
    ASSERT_OK(ls_metrics_report(d, &(ls_report_row){ 0, 20, 0, 1, m }));
    ls_rundir_is_best(d, 2, false, 20, 0);
    ls_rundir_add_checkpoint(d, "checkpoints", 20, true);
    ASSERT_OK(ls_make_parent(ls_test_path("programs/one/checkpoints/x")));
    ASSERT_OK(ls_metrics_report(d, &(ls_report_row){ 1, 30, 0, 1, m }));
    ls_metric_list_release(&m);
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_NEW, NULL)); /* killed */
    ASSERT_OK(ls_rundir_open_own_between(&d, path));
    assert_int_equal(d->attempt, 1);
    assert_int_equal(ls_metrics_last_step(d, 0), 30);
    ASSERT_OK(ls_metrics_restart(d, &(ls_restart_row){ .cause = "rank 0: late", .step = 20, .lost = 10 }));
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_RESTARTING, NULL));
    char *result, *config;
    size_t size;
    ASSERT_OK(ls_file_read(&result, &size, ls_test_path("programs/one/result.json")));
    ASSERT_OK(ls_file_read(&config, &size, ls_test_path("programs/one/config.txt")));
    ASSERT_CONTAINS(result, "\"state\":\"restarting\",\"attempt\":1,");
    ASSERT_CONTAINS(result, "\"metrics\":{\"a name that is longer than the sixty-three bytes of a metric of "
                            "a model\":4,\"drag\":2}");
    ASSERT_CONTAINS(result, "\"best\":{\"metric\":\"drag\",\"value\":2,\"step\":20,\"epoch\":0}");
    ASSERT_CONTAINS(result, "\"best_checkpoint\":\"checkpoints\"");
    ASSERT_CONTAINS(result, "\"restarts\":[{\"attempt\":1,\"step\":20,\"steps_lost\":10,");
    assert_string_equal(config, "cells 64\n");
    free(result);
    free(config);
}

static void a_killed_run_is_seen_as_died(void **state)
{
    (void)state;
    const char *storage = ls_test_path("died");
    char path[700];
    ls_run_info info;
    run_in_child(start_and_die, storage);
    snprintf(path, sizeof path, "%s/one", storage);
    ASSERT_OK(ls_run_info_read(&info, path));
    ls_run_info_release(&info);
    assert_int_equal(info.state, LS_RUN_DIED);
    FILE *rows = fopen(ls_test_path("died/one/metrics.jsonl"), "a");
    assert_true(rows && fputs("{\"kind\":\"st", rows) > 0); /* the machine crashed inside a row */
    assert_int_equal(fclose(rows), 0);
    ls_recipe *r = make_recipe(storage, NULL);
    ls_rundir *d;
    ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false));
    assert_int_equal(d->before, LS_RUN_DIED);
    ASSERT_OK(ls_rundir_save_result(d, LS_RUN_STARTING, NULL));
    ASSERT_OK(ls_metrics_step(d, &(ls_step_row){ .step = 2, .loss = 1, .grad_norm = -1 }));
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_FINISHED, NULL));
    json_t *third = metrics_row(storage, 2);
    assert_int_equal(json_integer_value(json_object_get(third, "step")), 2);
    assert_int_equal(json_integer_value(json_object_get(third, "attempt")), 1);
    json_decref(third);
    ls_recipe_destroy(&r);
}

/* Dies when result.json is written and has not got its name yet. */
static void start_and_die_writing(const char *storage)
{
    ls_rundir *d;
    ls_recipe *r = make_recipe(storage, NULL);
    if (ls_rundir_open_ranks(&d, r, NULL, false) != LS_OK)
        _exit(1);
    ls_fault_arm(1u << LS_POINT_NAME, 0, LS_FAIL_KILL);
    (void)!ls_rundir_save_result(d, LS_RUN_STARTING, NULL);
    _exit(2);
}

/* Such a file has the name of a temporary, which an upload leaves out, and the next start removes it. */
static void a_half_written_result_goes(void **state)
{
    (void)state;
    const char *storage = ls_test_path("half");
    int status, left = 0, others = 0;
    const pid_t child = fork();
    if (child == 0)
        start_and_die_writing(storage);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    for (int start = 0; start < 2; start++) {
        DIR *d = opendir(ls_test_path("half/one"));
        assert_non_null(d);
        for (const struct dirent *e; (e = readdir(d));)
            if (!strncmp(e->d_name, "result.json.", 12)) {
                left += start == 0;
                others += start || !strstr(e->d_name, ".tmp-");
            }
        closedir(d);
        if (start == 0) {
            ls_recipe *r = make_recipe(storage, NULL);
            ls_rundir *run;
            ASSERT_OK(ls_rundir_open_ranks(&run, r, NULL, false));
            ASSERT_OK(ls_rundir_close(&run, LS_RUN_NEW, NULL));
            ls_recipe_destroy(&r);
        }
    }
    assert_int_equal(left, 1);
    assert_int_equal(others, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_process_at_a_time),
        cmocka_unit_test(the_owner_on_another_host_is_left_alone),
        cmocka_unit_test(between_attempts_the_parent_keeps_the_run),
        cmocka_unit_test(between_attempts_a_program_keeps_its_run),
        cmocka_unit_test(looking_disturbs_nobody),
        cmocka_unit_test(a_killed_run_is_seen_as_died),
        cmocka_unit_test(a_half_written_result_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
