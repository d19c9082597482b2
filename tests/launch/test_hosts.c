/* test_hosts.c - lists of hosts, the hosts of a Slurm job (squeue and scontrol have stand-ins), and how ranks
 * are distributed over those that answer. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include "base/file.h"
#include "base/log.h"
#include "launch/hosts.h"
#include "support/support.h"

static void script(const char *name, const char *text)
{
    const char *path = ls_test_path(name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\n%s\n", text);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, 0755), 0);
}

/* A job that has these hosts, separated by spaces. */
static void job(const char *hosts)
{
    char text[300], path[4200];
    snprintf(text, sizeof text, "[ \"$*\" = '-h -j 7 -o %%N' ] && echo '%s'", hosts);
    script("squeue", text);
    script("scontrol", "[ \"$1 $2\" = 'show hostnames' ] && printf '%s\\n' $3");
    snprintf(path, sizeof path, "%s:/usr/bin:/bin", ls_test_dir());
    setenv("PATH", path, 1);
    setenv("SLURM_JOB_ID", "7", 1);
}

static int warnings;
static void hear(void *context, ls_level level, const char *message)
{
    (void)context;
    warnings += level == LS_WARN;
    if (level == LS_WARN)
        ASSERT_CONTAINS(message, "host n1 does not answer: it does not belong to Slurm job 7");
}

static void hosts_of_a_job(void **state)
{
    (void)state;
    ls_hosts *h;
    job("n1 n10 n2");
    setenv("SLURM_TASKS_PER_NODE", "2(x3)", 1);
    ASSERT_OK(ls_hosts_read(&h, &(ls_hosts_opts){ .list = "slurm" }));
    assert_int_equal(h->n, 3);
    assert_string_equal(h->all[1].name, "n10");
    ASSERT_OK(ls_hosts_ask(h, true));
    assert_int_equal(ls_hosts_room(h), 6);
    assert_true(ls_hosts_fit(h, 6));
    assert_int_equal(h->used, 3);
    assert_int_equal(h->per, 2);

    job("n10 n2 gn1"); /* n1 has left it, whose name is a part of others */
    ASSERT_FAILS(ls_hosts_ask(h, true), LS_E_PEER, "host n1 does not answer");
    ls_log_set(hear, NULL, LS_INFO);
    ASSERT_OK(ls_hosts_ask(h, false));
    ls_log_set(NULL, NULL, LS_ERROR);
    assert_int_equal(warnings, 1);
    assert_int_equal(ls_hosts_room(h), 4);
    assert_false(ls_hosts_fit(h, 6));
    assert_false(ls_hosts_fit(h, 3));
    assert_true(ls_hosts_fit(h, 4));
    assert_string_equal(ls_hosts_used(h, 0)->name, "n10");
    assert_string_equal(ls_hosts_used(h, 1)->name, "n2");
    assert_null(ls_hosts_used(h, 2));
    assert_true(ls_hosts_fit(h, 2)); /* as few hosts as possible */
    assert_int_equal(h->used, 1);

    /* a task of a job array: squeue lists all of them for the number of the array, which the last one has */
    setenv("SLURM_ARRAY_JOB_ID", "7", 1);
    setenv("SLURM_ARRAY_TASK_ID", "2", 1);
    script("squeue", "case \"$*\" in '-h -j 7_2 -o %N') echo n1 n2 n10 ;; *) echo n1; echo n3 ;; esac");
    ASSERT_OK(ls_hosts_ask(h, true));
    unsetenv("SLURM_ARRAY_JOB_ID");
    unsetenv("SLURM_ARRAY_TASK_ID");

    script("squeue", "echo squeue: a warning >&2; echo 'n1 n10 n2'");
    ASSERT_OK(ls_hosts_ask(h, true));
    ls_hosts *again;
    ASSERT_OK(ls_hosts_read(&again, &(ls_hosts_opts){ .list = "slurm" }));
    assert_int_equal(again->n, 3);
    ls_hosts_free(&again);

    script("squeue", "echo no controller >&2; exit 1");
    ASSERT_FAILS(ls_hosts_ask(h, false), LS_E_PEER,
                 "squeue does not say which hosts this job has: no controller");
    script("squeue", "true");
    ASSERT_FAILS(ls_hosts_ask(h, false), LS_E_PEER, "it names none");
    script("scontrol", "echo a warning >&2");
    ASSERT_FAILS(ls_hosts_read(&again, &(ls_hosts_opts){ .list = "slurm" }), LS_E_PEER,
                 "which hosts this job has: a warning");
    ls_hosts_free(&h);
}

static void count_warnings(void *context, ls_level level, const char *message)
{
    (void)context;
    (void)message;
    warnings += level == LS_WARN;
}

/* Two hosts, of which n1 is lost; RSH says with status 0 which one answers. */
static ls_hosts *n1_is_lost(void)
{
    ls_hosts *h;
    script("rsh", "exit 0");
    unsetenv("SLURM_JOB_ID");
    ASSERT_OK(
        ls_hosts_read(&h, &(ls_hosts_opts){ .list = "n1,n2", .per_host = 1, .rsh = ls_test_path("rsh") }));
    ASSERT_OK(ls_hosts_ask(h, true));
    script("rsh", "[ $1 = n2 ]");
    ls_log_set(count_warnings, NULL, LS_INFO);
    ASSERT_OK(ls_hosts_ask(h, false));
    assert_int_equal(ls_hosts_room(h), 1);
    return h;
}

/* A host that was lost is back when it has answered twice in a row. One that has never been lost is not
 * asked, and neither is one on which the run failed when it had come back. */
static void a_host_that_is_back(void **state)
{
    (void)state;
    char text[400];
    setenv("LOCKSTEP_GROW", "0.001", 1);
    setenv("PATH", "/usr/bin:/bin", 1);
    ls_hosts *h = n1_is_lost();
    assert_null(h->asking);
    /* the first and the third answer are good, and then all: the fourth makes it one that is back */
    snprintf(text, sizeof text, "echo $1 >>%s/asked; [ $(wc -l <%s/asked) != 2 ]", ls_test_dir(),
             ls_test_dir());
    script("rsh", text);
    while (!ls_hosts_look_again(h))
        assert_false(ls_hosts_is_back(&h->all[0]));
    assert_true(ls_hosts_is_back(&h->all[0]));
    assert_false(ls_hosts_is_back(&h->all[1]));
    char *asked;
    size_t size;
    ASSERT_OK(ls_file_read(&asked, &size, ls_test_path("asked")));
    assert_string_equal(asked, "n1\nn1\nn1\nn1\n");
    free(asked);
    assert_int_equal(ls_hosts_room(h), 1); /* the ranks that run are not there */
    for (int i = 0; i < 100; i++)
        assert_false(ls_hosts_look_again(h)); /* told once */
    ASSERT_OK(ls_hosts_ask(h, false));
    assert_int_equal(ls_hosts_room(h), 2);
    assert_false(ls_hosts_is_back(&h->all[0]));

    /* it is on trial until the run has done a step there: one failure may pass, with the second it is refused
     */
    assert_true(ls_hosts_judge(h, &(ls_attempt_end){ false, true, -1 }));
    ASSERT_OK(ls_hosts_ask(h, false));
    assert_int_equal(ls_hosts_room(h), 2);
    ls_hosts trusted = *h;
    ls_host copies[2] = { h->all[0], h->all[1] };
    trusted.all = copies;
    assert_false(ls_hosts_judge(&trusted, &(ls_attempt_end){ true, false, -1 }));
    assert_false(ls_hosts_judge(&trusted, &(ls_attempt_end){ false, false, -1 }));
    assert_int_equal(ls_hosts_room(&trusted), 2);
    assert_true(ls_hosts_judge(h, &(ls_attempt_end){ false, true, -1 }));
    assert_int_equal(ls_hosts_room(h), 1);
    ASSERT_OK(ls_hosts_ask(h, false));
    assert_int_equal(ls_hosts_room(h), 1);
    assert_false(ls_hosts_judge(h, &(ls_attempt_end){ false, false, -1 })); /* the other one was never lost */
    for (int i = 0; i < 100; i++)
        assert_false(ls_hosts_look_again(h));
    ls_hosts_free(&h); /* perhaps while a question is under way */
    ls_log_set(NULL, NULL, LS_ERROR);
    unsetenv("LOCKSTEP_GROW");
}

/* A host that comes back and fails again is to blame for three failures, and then it is not used again. The
 * others never are, and neither is one that has stayed for an hour, or whose failure would come again. */
static void a_host_that_comes_and_goes(void **state)
{
    (void)state;
    const ls_attempt_end first = { true, true, 0 }, second = { true, true, 1 }, own = { true, false, 0 },
                         unknown = { true, true, -1 };
    ls_hosts *h = n1_is_lost();
    assert_false(ls_hosts_judge(h, &first)); /* n2 has failed, the first that answers */
    script("rsh", "exit 0");
    ASSERT_OK(ls_hosts_ask(h, false));
    h->all[0].back_at -= 3601;
    assert_false(ls_hosts_judge(h, &first));
    for (int time = 1; time <= 3; time++) {
        script("rsh", "[ $1 = n2 ]");
        ASSERT_OK(ls_hosts_ask(h, false));
        script("rsh", "exit 0");
        ASSERT_OK(ls_hosts_ask(h, false));
        assert_false(ls_hosts_judge(h, &second));
        assert_false(ls_hosts_judge(h, &own));
        assert_int_equal(ls_hosts_room(h), 2);
        warnings = 0;
        /* where it is not known which host it was, the one that came back is taken for it */
        assert_true(ls_hosts_judge(h, time == 2 ? &unknown : &first));
        assert_int_equal(warnings, time == 3);
        assert_int_equal(ls_hosts_room(h), time == 3 ? 1 : 2);
        if (time < 3) /* it has failed, and was not away since */
            assert_false(ls_hosts_judge(h, &first));
        h->all[0].lost = time; /* which that has forgotten */
    }
    assert_true(h->all[0].refused);
    ASSERT_OK(ls_hosts_ask(h, false));
    assert_int_equal(ls_hosts_room(h), 1);
    ls_hosts_free(&h);
    ls_log_set(NULL, NULL, LS_ERROR);
}

/* The number of ranks of each host: what the user says, else what the job has. */
static void tasks_of_a_job(void **state)
{
    (void)state;
    static const struct {
        const char *per_node, *all;
        int ranks, per_host, each; /* each 0: refused */
    } CASES[] = {
        { NULL, "1(x2)", 0, 0, 1 }, { NULL, "3(x2)", 0, 0, 3 }, { NULL, "3(x2)", 8, 0, 4 },
        { NULL, "3(x2)", 0, 2, 2 }, { NULL, "2,1", 0, 0, 0 },   { NULL, "2,1", 4, 0, 2 },
        { NULL, "2,1", 0, 1, 1 },   { "4", "4(x2)", 0, 0, 4 },  { NULL, NULL, 0, 0, 1 },
    };
    job("a b");
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        ls_hosts *h;
        CASES[i].per_node ? setenv("SLURM_NTASKS_PER_NODE", CASES[i].per_node, 1)
                          : unsetenv("SLURM_NTASKS_PER_NODE");
        CASES[i].all ? setenv("SLURM_TASKS_PER_NODE", CASES[i].all, 1) : unsetenv("SLURM_TASKS_PER_NODE");
        const ls_hosts_opts o = { .list = "slurm", .ranks = CASES[i].ranks, .per_host = CASES[i].per_host };
        if (!CASES[i].each) {
            ASSERT_FAILS(ls_hosts_read(&h, &o), LS_E_USAGE, "SLURM_TASKS_PER_NODE=2,1", "--workers-per-host");
            continue;
        }
        ASSERT_OK(ls_hosts_read(&h, &o));
        if (h->each != CASES[i].each)
            fail_msg("case %zu: %d ranks on each host", i, h->each);
        ls_hosts_free(&h);
    }
    unsetenv("SLURM_JOB_ID");
    ls_hosts *none;
    ASSERT_FAILS(ls_hosts_read(&none, &(ls_hosts_opts){ .list = "slurm" }), LS_E_USAGE,
                 "this is not a Slurm job");
    assert_null(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(hosts_of_a_job),
                                        cmocka_unit_test(a_host_that_is_back),
                                        cmocka_unit_test(a_host_that_comes_and_goes),
                                        cmocka_unit_test(tasks_of_a_job) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
