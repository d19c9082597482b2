/* test_arguments.c - calls every public function with NULL for each of its pointers, in a process of its own.
 * No call ends the program; a function that needs the argument returns LS_E_ARG with a message that names it.
 * tools/public_functions.awk makes the calls from the headers, so a new function is tested as soon as it is
 * declared. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/samples.h"

/* What may be NULL; functions named destroy, close, free and release take NULL anyway. */
static const char *const OPTIONAL[] = {
    "ls_arrays_save_with.g",
    "ls_arrays_save_with.o",
    "ls_arrays_save_async_with.g",
    "ls_arrays_save_async_with.o",
    "ls_arrays_load_with.g",
    "ls_arrays_load_with.o",
    "ls_dataset_open_with.options",
    "ls_images_open_with.options",
    "ls_text_open_with.options",
    "ls_pairs_open_with.options",
    "ls_loader_create_with.options",
    "ls_parallel_over.g",
    "ls_generator_create_t5_with.o",
    "ls_generator_create_with.o",
    "ls_generator_open_with.o",
    "ls_sample.s",
    "ls_conv2d_op.o",
    "ls_conv_transpose2d_op.o",
    "ls_conv_transpose3d_op.o",
    "ls_conv1d_op.o",
    "ls_conv_transpose1d_op.o",
    "ls_conv3d_op.o",
    "ls_linear_with.o",
    "ls_patch_embedding.o",
    "ls_conv2d_with.o",
    "ls_add_lora_with.o",
    "ls_lstm_with.o",
    "ls_gru_with.o",
    "ls_conv1d_with.o",
    "ls_conv3d_with.o",
    "ls_conv_transpose2d_with.o",
    "ls_conv_transpose3d_with.o",
    "ls_conv_transpose1d_with.o",
    "ls_batch_norm_with.o",
    "ls_update_build.o",
    "ls_run_open_with.group",
    "ls_run_open_with.o",
    "ls_run_load.c",
    "ls_report_with.c",
    "ls_report_with.o",
    "ls_run_finish.result",
    "ls_scope_push.block",
    "ls_at.file",
    "ls_group_fail.message",
    "ls_trainer_create_with.config",
    "ls_trainer_create_with.o",
    "ls_predictor_of_with.o",
    "ls_predictor_open_with.o",
    "ls_predictor_inputs.out",
    "ls_predictor_outputs.out",
    "ls_trainer_eval.loss",
    "ls_trainer_eval.predicted",
    "ls_trainer_eval.probability",
    "ls_live_open_with.o",
    "ls_live_start.schedule",
    "ls_live_stop.steps",
    "ls_live_stop.last",
    "ls_live_fill.total",
    "ls_live_fill.done",
    "ls_trainer_parameters.out",
    "ls_trainer_buffers.out",
    "ls_weights_leave_out.of",
    "ls_weights_load_with.o",
    "ls_weights_export_with.o",
    "ls_recipe_bundled.summary",
    "ls_recipe_bundled.text",
    "ls_fail.format",
    "ls_fail_in.format",
    "ls_trace.file",
    "ls_trace.function",
    "ls_tensor_of.data",
    "ls_stop_on.flag",
};

static void *volatile nothing_;
#define nothing nothing_

#pragma GCC diagnostic ignored "-Wformat-security" /* a format that is NULL is the point */
#include "public_arguments.inc"                    /* CALLS */

/* ---- every function with every argument */

static bool may_be_null(const struct call *c)
{
    static const char *const ENDS[] = { "_destroy", "_close", "_free", "_release" };
    char name[128];
    snprintf(name, sizeof name, "%s.%s", c->function, c->argument);
    for (size_t i = 0; i < sizeof OPTIONAL / sizeof *OPTIONAL; i++)
        if (!strcmp(OPTIONAL[i], name))
            return true;
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++)
        if (strlen(c->function) > strlen(ENDS[i]) &&
            !strcmp(c->function + strlen(c->function) - strlen(ENDS[i]), ENDS[i]))
            return true;
    return false;
}

/* In the child: the call, and whether it said what it must. */
static int look(const struct call *c)
{
    char want[128];
    ls_fail(LS_OK, "%s", "");
    const ls_status status = c->run();
    const char *message = ls_error_message();
    snprintf(want, sizeof want, "%s is NULL", c->argument);
    if (!message[0] && ls_graph_status(s.graph) != LS_OK) /* a builder call's error waits in the graph */
        message = ls_error_message();
    if (may_be_null(c) || ((!c->status || status == LS_E_ARG) && strstr(message, want)))
        return 0;
    printf("%s with %s NULL: status %d, \"%s\"\n", c->function, c->argument, status, message);
    return 1;
}

static void no_null_ends_the_program(void **state)
{
    (void)state;
    int wrong = 0;
    assert_int_equal(chdir(ls_test_dir()), 0);
    make_samples();
    for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++) {
        int how;
        fflush(stdout);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (!child) {
            for (int k = 1; k < 16; k++) /* cmocka's handlers would go on with the tests */
                signal(k, SIG_DFL);
            alarm(60);
            how = look(&CALLS[i]);
            fflush(stdout);
            _exit(how);
        }
        assert_int_equal(waitpid(child, &how, 0), child);
        if (!WIFEXITED(how))
            printf("%s with %s NULL ends the program: signal %d\n", CALLS[i].function, CALLS[i].argument,
                   WTERMSIG(how));
        else if (WEXITSTATUS(how) > 1)
            printf("%s with %s NULL ends the program: status %d\n", CALLS[i].function, CALLS[i].argument,
                   WEXITSTATUS(how));
        wrong += how != 0;
    }
    drop_samples();
    assert_int_equal(wrong, 0);
}

/* What is called optional is an argument that there is. */
static void the_list_is_true(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof OPTIONAL / sizeof *OPTIONAL; i++) {
        bool found = false;
        for (size_t k = 0; k < sizeof CALLS / sizeof *CALLS; k++) {
            char name[128];
            snprintf(name, sizeof name, "%s.%s", CALLS[k].function, CALLS[k].argument);
            found |= !strcmp(name, OPTIONAL[i]);
        }
        if (!found)
            fail_msg("%s", OPTIONAL[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(no_null_ends_the_program),
                                        cmocka_unit_test(the_list_is_true) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
