/* test_choices.c - calls every public function that takes an enum, itself or inside a struct of options, with
 * numbers that are not a value of it, each in its own process. No call ends the program. A function that
 * looks at the value returns an error that the same call with a real value does not return. Sizes, counts and
 * positions are tried with -1 and 0, which end no program either.
 * tools/public_functions.awk makes the calls from the headers, so a new enum is tested as soon as it is
 * declared. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "api/samples.h"

/* Calls that take any number: they do not look at it, or have an answer for it ("?", 0, false). */
static const char *const ANY[] = {
    "ls_arrays_load_with.arrays.block.type.dtype", /* `block` is all of the array */
    "ls_arrays_save_with.arrays.block.type.dtype",
    "ls_arrays_save_async_with.arrays.block.type.dtype",
    "ls_live_start.schedule.kind", /* a schedule that is not known is constant: ls_schedule_rate */
    "ls_parallel_share.p.", /* ls_parallel_check is for these */
    "ls_run_finish.how",
    "ls_fail.code",
    "ls_fail_in.code",
    "ls_trace.s",
};

#pragma GCC diagnostic ignored "-Wformat-zero-length"
#include "public_choices.inc" /* CHOICES */

/* What a call ended with, in memory that the children share. */
static struct outcome {
    ls_status status;
    char message[4096];
} *seen;

/* In the child. */
static void call(const struct choice *c, const int *v)
{
    ls_fail(LS_OK, "%s", "");
    seen->status = c->run(v);
    if (seen->status == LS_OK && s.graph) /* a builder call's error waits in the graph */
        seen->status = ls_graph_status(s.graph);
    snprintf(seen->message, sizeof seen->message, "%s", seen->status == LS_OK ? "" : ls_error_message());
}

/* False: the call ended the program. */
static bool try(const struct choice *c, const int *v)
{
    int how;
    fflush(stdout);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        for (int k = 1; k < 16; k++) /* cmocka's handlers would go on with the tests */
            signal(k, SIG_DFL);
        alarm(60);
        call(c, v);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    if (how)
        printf("%s with %s %d ends the program: %s %d\n", c->function, c->argument, v ? *v : 0,
               WIFEXITED(how) ? "status" : "signal", WIFEXITED(how) ? WEXITSTATUS(how) : WTERMSIG(how));
    return !how;
}

static bool takes_any(const struct choice *c)
{
    char name[160];
    snprintf(name, sizeof name, "%s.%s", c->function, c->argument);
    for (size_t i = 0; i < sizeof ANY / sizeof *ANY; i++)
        if (!strncmp(name, ANY[i], strlen(ANY[i])))
            return true;
    return (!c->status && !c->graph) || strncmp(c->type, "ls_", 3);
}

static void no_number_ends_the_program(void **state)
{
    (void)state;
    static const int NUMBERS[] = { -1, 1000 }, SIZES[] = { -1, 0 };
    int wrong = 0;
    assert_int_equal(chdir(ls_test_dir()), 0);
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(seen != MAP_FAILED);
    make_samples();
    for (size_t i = 0; i < sizeof CHOICES / sizeof *CHOICES; i++) {
        const struct choice *c = &CHOICES[i];
        struct outcome real = { 0 };
        wrong += !try(c, NULL);
        real = *seen;
        const int *numbers = strncmp(c->type, "ls_", 3) ? SIZES : NUMBERS;
        for (int k = 0; k < 2; k++) {
            if (!try(c, &numbers[k]))
                wrong++;
            else if (!takes_any(c) && (seen->status == LS_OK || !strcmp(seen->message, real.message))) {
                wrong++;
                printf("%s with %s %d, which is not of %s: status %d, \"%s\": check it with LS_ARG_ENUM\n",
                       c->function, c->argument, numbers[k], c->type, seen->status, seen->message);
            }
        }
    }
    drop_samples();
    munmap(seen, sizeof *seen);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(no_number_ends_the_program) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
