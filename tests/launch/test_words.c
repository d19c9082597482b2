/* test_words.c - what comes out of mpirun's stderr: messages, whole whatever stands around them; the ranks'
 * words, which pass; its own, which do not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "launch/message.h"
#include "launch/mpirun_words.h"
#include "support/support.h"

static ls_str passed, messages;

static void take(void *context, const char *line, bool is_message)
{
    (void)context;
    ls_str_printf(is_message ? &messages : &passed, "%s|", line);
}

static void hear(ls_mpirun_words *w, const char *text)
{
    ls_str_clear(&passed);
    ls_str_clear(&messages);
    for (const char *at = text; *at; at++) /* in the smallest pieces */
        ls_mpirun_words_take(w, at, 1, take, NULL);
    ls_mpirun_words_end(w, take, NULL);
}

static void words_are_told_apart(void **state)
{
    (void)state;
    ls_mpirun_words w = { .name = "/opt/mpi/bin/mpirun.openmpi" }; /* it says its name without the folder */
    hear(&w, "epoch 1\n\n[rank:3] hello\n\x1elockstep H 3 \x1f\nhalf a line\x1elockstep J 3 \x1f\nlast");
    assert_string_equal(ls_str_text(&passed), "epoch 1||[rank:3] hello|half a line|last|");
    assert_string_equal(ls_str_text(&messages), "lockstep H 3 |lockstep J 3 |");
    hear(&w, "mpirun.openmpi: Forwarding signal 12 to job\n[left:77] PMIX ERROR: gone\n"
             "--------------------------------------------------------------------------\n"
             "mpirun noticed that process rank 1 exited on signal 9.\n"
             "--------------------------------------------------------------------------\nmine\n");
    assert_string_equal(ls_str_text(&passed), "mine|");
    assert_non_null(strstr(ls_mpirun_words_said(&w), "mpirun noticed that process rank 1"));
    hear(&w, "/opt/mpi/bin/mpirun.openmpi: No such file or directory\nmpirun.openmpi is mine\n");
    assert_string_equal(ls_str_text(&passed), "mpirun.openmpi is mine|");
    hear(&w, "----------------------------------------------------------------------\na table\n"
             "----------------------------------------------------------------------\n");
    assert_string_equal(ls_str_text(&passed), "a table|");
    hear(&w, "loss \x1elockstep A 3 \x1f\n2.5 \x1elockstep A 2 \x1f\n\n\x1elockstep A 3 \x1f\nnext\n");
    assert_string_equal(ls_str_text(&passed), "loss 2.5 |next|");
    assert_string_equal(ls_str_text(&messages), "lockstep A 3 |lockstep A 2 |lockstep A 3 |");
    ls_mpirun_words_release(&w);
    ls_str_release(&passed);
    ls_str_release(&messages);
}

/* A line stays one line: what a rank says cannot end a message, and begin another one. */
static void a_message_is_one_line(void **state)
{
    (void)state;
    int pipes[2], kept = dup(STDERR_FILENO);
    char line[256];
    ls_rank_message f = { .kind = LS_MESSAGE_FAILURE, .rank = 1, .heard = { .rank = 2, .code = LS_E_IO } };
    snprintf(f.heard.text, sizeof f.heard.text, "one\ntwo\x1f\x1elockstep H 3 ");
    assert_int_equal(pipe(pipes), 0);
    dup2(pipes[1], STDERR_FILENO);
    ls_rank_message_send(&f);
    dup2(kept, STDERR_FILENO);
    close(pipes[1]);
    close(kept);
    const ssize_t n = read(pipes[0], line, sizeof line - 1);
    close(pipes[0]);
    assert_true(n > 2);
    line[n - 2] = 0; /* the end of the message, and of the line */
    assert_int_equal(strcspn(line + 1, "\n\x1e\x1f"), n - 3);
    assert_true(ls_rank_message_read(&f, line + 1));
    assert_string_equal(f.heard.text, "one two  lockstep H 3 ");
}

static void messages_arrive_as_they_were(void **state)
{
    (void)state;
    ls_rank_message f;
    assert_true(ls_rank_message_read(&f, "lockstep E 3 9 0 1 0 200 300 step 12, micro"));
    assert_int_equal(f.kind, LS_MESSAGE_END);
    assert_int_equal(f.rank, 3);
    assert_int_equal(f.status, 9);
    assert_int_equal(f.out_of_memory, 1);
    assert_int_equal(f.limit, 200);
    assert_int_equal(f.planned, 300);
    assert_string_equal(f.doing, "step 12, micro");
    assert_true(ls_rank_message_read(&f, "lockstep R 0 /my runs/one"));
    assert_int_equal(f.kind, LS_MESSAGE_RUN);
    assert_string_equal(f.run, "/my runs/one");
    assert_true(ls_rank_message_read(&f, "lockstep R 0 ")); /* it has none any more */
    assert_string_equal(f.run, "");
    assert_true(ls_rank_message_read(&f, "lockstep E 3 9 0 0 0 0 0 "));
    assert_string_equal(f.doing, "");
    assert_true(ls_rank_message_read(&f, "lockstep F 0 2 9 1 did not come within 3 s"));
    assert_int_equal(f.heard.rank, 2);
    assert_int_equal(f.heard.code, 9);
    assert_int_equal(f.heard.missed, LS_MISSED_LATE);
    assert_string_equal(f.heard.text, "did not come within 3 s");
    assert_false(ls_rank_message_read(&f, "lockstep F 0 2 99 1 no such status"));
    assert_false(ls_rank_message_read(&f, "lockstep E 3 9"));
    assert_false(ls_rank_message_read(&f, "lockstep ? 3 "));
    assert_false(ls_rank_message_read(&f, "something else"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_told_apart),
        cmocka_unit_test(a_message_is_one_line),
        cmocka_unit_test(messages_arrive_as_they_were),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
