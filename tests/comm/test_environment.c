/* test_environment.c - the variables that launchers set: what they mean, and what is refused. Ranks that
 * torchrun or lockstep started find each other. */
#include "comm/comm.h"
#include "comm/environment.h"
#include "comm/launched.h"
#include "comm/module.h"
#include "comm/rendezvous.h"
#include "comm/shm.h"
#include "support/support.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const ALL[] = { "LOCKSTEP_RANK",
                                   "LOCKSTEP_RANKS",
                                   "LOCKSTEP_CONTROL_FD",
                                   "LOCKSTEP_FAKE_NODES",
                                   "LOCKSTEP_MPI_MODULE",
                                   "RANK",
                                   "WORLD_SIZE",
                                   "LOCAL_RANK",
                                   "LOCAL_WORLD_SIZE",
                                   "MASTER_PORT",
                                   "TORCHELASTIC_RUN_ID",
                                   "TORCHELASTIC_RESTART_COUNT",
                                   "OMPI_COMM_WORLD_RANK",
                                   "OMPI_COMM_WORLD_SIZE",
                                   "PMI_RANK",
                                   "PMI_SIZE",
                                   "PMIX_RANK",
                                   "SLURM_PROCID",
                                   "SLURM_STEP_NUM_TASKS" };

/* "A=1 B=2": these and no other. */
static void environment(const char *text)
{
    for (size_t i = 0; i < sizeof ALL / sizeof ALL[0]; i++)
        unsetenv(ALL[i]);
    char copy[512];
    snprintf(copy, sizeof copy, "%s", text);
    for (char *save = NULL, *pair = strtok_r(copy, " ", &save); pair; pair = strtok_r(NULL, " ", &save)) {
        char *value = strchr(pair, '=');
        *value = 0;
        setenv(pair, value + 1, 1);
    }
}

#define TORCHRUN "RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 "
#define OPENMPI "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 "

static void places(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        ls_launcher launcher;
        int rank, size;
        const char *module;
    } CASES[] = {
        { "", LS_LAUNCHER_NONE, 0, 1, NULL },
        { "LOCKSTEP_RANK=3 LOCKSTEP_RANKS=4 LOCKSTEP_CONTROL_FD=5", LS_LAUNCHER_OWN, 3, 4, NULL },
        { OPENMPI, LS_LAUNCHER_MPI, 2, 4, LS_MODULE_MPI },
        { "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", LS_LAUNCHER_NONE, 0, 1, NULL },
        { "PMI_RANK=1 PMI_SIZE=2", LS_LAUNCHER_MPI, 1, 2, LS_MODULE_MPICH },
        { "PMIX_RANK=1 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1", LS_LAUNCHER_MPI, 1, 2, LS_MODULE_MPI },
        { "PMIX_RANK=1", LS_LAUNCHER_MPI, 1, 0, LS_MODULE_MPI },
        { "SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0", LS_LAUNCHER_NONE, 0, 1, NULL },
        { TORCHRUN "MASTER_PORT=29500", LS_LAUNCHER_TORCHRUN, 1, 4, NULL },
        { TORCHRUN "TORCHELASTIC_RUN_ID=none", LS_LAUNCHER_TORCHRUN, 1, 4, NULL },
        { "RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1", LS_LAUNCHER_NONE, 0, 1, NULL },
        /* the innermost launcher: lockstep's own; torchrun inside a step of srun; a script that passes
           mpirun's numbers on */
        { OPENMPI "LOCKSTEP_RANK=1 LOCKSTEP_RANKS=2 LOCKSTEP_CONTROL_FD=5", LS_LAUNCHER_OWN, 1, 2, NULL },
        { "PMIX_RANK=0 SLURM_STEP_NUM_TASKS=2 TORCHELASTIC_RUN_ID=7 MASTER_PORT=1 " TORCHRUN,
          LS_LAUNCHER_TORCHRUN, 1, 4, NULL },
        { "PMIX_RANK=0 SLURM_STEP_NUM_TASKS=1 MASTER_PORT=1 " TORCHRUN, LS_LAUNCHER_TORCHRUN, 1, 4, NULL },
        { OPENMPI "RANK=2 WORLD_SIZE=4 LOCAL_RANK=2 LOCAL_WORLD_SIZE=4", LS_LAUNCHER_MPI, 2, 4,
          LS_MODULE_MPI },
        { OPENMPI "LOCKSTEP_FAKE_NODES=2", LS_LAUNCHER_MPI, 2, 4, LS_MODULE_MPI },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        ls_environment p;
        environment(CASES[i].text);
        if (ls_environment_read(&p) != LS_OK)
            fail_msg("%s: %s", CASES[i].text, ls_error_message());
        if (p.launcher != CASES[i].launcher || p.rank != CASES[i].rank || p.size != CASES[i].size ||
            (CASES[i].module && strcmp(p.module, CASES[i].module)))
            fail_msg("%s: launcher %d, rank %d of %d", CASES[i].text, (int)p.launcher, p.rank, p.size);
    }
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        ls_status status;
        const char *message;
    } CASES[] = {
        { "LOCKSTEP_RANK=3 LOCKSTEP_RANKS=4", LS_E_USAGE,
          "LOCKSTEP_RANK, LOCKSTEP_RANKS set, but not LOCKSTEP_CONTROL_FD" },
        { "LOCKSTEP_RANK=4 LOCKSTEP_RANKS=4 LOCKSTEP_CONTROL_FD=5", LS_E_USAGE,
          "LOCKSTEP_RANK=4: a whole number from 0 to 3" },
        { "RANK=0 WORLD_SIZE=2", LS_E_USAGE,
          "RANK, WORLD_SIZE set, but not LOCAL_RANK, LOCAL_WORLD_SIZE: torchrun sets all of them" },
        { TORCHRUN, LS_E_USAGE, "neither MASTER_PORT nor TORCHELASTIC_RUN_ID" },
        { "RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_PORT=1", LS_E_USAGE,
          "lockstep launch --hosts A:" },
        { "RANK=1 WORLD_SIZE=4 LOCAL_RANK=2 LOCAL_WORLD_SIZE=4 MASTER_PORT=1", LS_E_USAGE,
          "RANK=1, LOCAL_RANK=2" },
        { "RANK=one WORLD_SIZE=4 LOCAL_RANK=2 LOCAL_WORLD_SIZE=4 MASTER_PORT=1", LS_E_USAGE,
          "RANK=one: a whole number" },
        { "OMPI_COMM_WORLD_SIZE=4", LS_E_USAGE, "OMPI_COMM_WORLD_SIZE set, but not OMPI_COMM_WORLD_RANK" },
        { "PMI_RANK=1", LS_E_USAGE, "PMI_RANK set, but not PMI_SIZE" },
        { "SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=1", LS_E_USAGE, "srun --mpi=pmix" },
        { "LOCKSTEP_FAKE_NODES=2", LS_E_USAGE,
          "LOCKSTEP_FAKE_NODES splits the ranks that mpirun or srun started" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        ls_environment p;
        environment(CASES[i].text);
        ASSERT_FAILS(ls_environment_read(&p), CASES[i].status, CASES[i].message);
    }
}

static void alone(void **state)
{
    (void)state;
    ls_group *g;
    environment("");
    ASSERT_OK(ls_group_from_environment(&g));
    assert_string_equal(ls_group_kind(g), "self");
    ls_group_destroy(&g);
}

/* ---- ranks that are processes */

static ls_status meet(void)
{
    ls_group *g = NULL;
    LS_TRY(ls_group_from_environment(&g));
    int64_t sum = ls_group_rank(g);
    LS_TRY(ls_group_all_reduce(g, &sum, 1, LS_I64, LS_REDUCE_SUM));
    bool right = ls_group_size(g) == 3 && sum == 3 && !strcmp(ls_group_kind(g), "shm");
    ls_group_destroy(&g);
    return right ? LS_OK : ls_fail(LS_E_INTERNAL, "a wrong group");
}

/* `format` takes the rank twice. */
static void start_three(const char *format)
{
    pid_t child[3];
    for (int r = 0; r < 3; r++) {
        child[r] = fork();
        if (child[r] == 0) {
            char text[512];
            snprintf(text, sizeof text, format, r, r);
            environment(text);
            ls_status s = meet();
            if (s != LS_OK)
                fprintf(stderr, "rank %d: %s\n", r, ls_error_message());
            _exit(s != LS_OK);
        }
    }
    for (int r = 0; r < 3; r++) {
        int status;
        assert_int_equal(waitpid(child[r], &status, 0), child[r]);
        assert_int_equal(status, 0);
    }
}

static void torchrun(void **state)
{
    (void)state;
    char format[256];
    snprintf(format, sizeof format,
             "RANK=%%d LOCAL_RANK=%%d WORLD_SIZE=3 LOCAL_WORLD_SIZE=3 MASTER_PORT=29500 "
             "TORCHELASTIC_RUN_ID=test-%d",
             (int)getpid());
    start_three(format);
    start_three(format); /* the name is free again */
}

static void own_launcher(void **state)
{
    (void)state;
    int fd;
    char format[256];
    ASSERT_OK(ls_shm_create(3, &fd));
    snprintf(format, sizeof format,
             "LOCKSTEP_RANK=%%d LOCKSTEP_RANKS=3 LOCKSTEP_CONTROL_FD=%d PMI_RANK=%%d PMI_SIZE=3", fd);
    start_three(format);
    close(fd);
}

static void own_launcher_refused(void **state)
{
    (void)state;
    ls_group *g;
    int fd;
    environment("LOCKSTEP_RANK=0 LOCKSTEP_RANKS=4 LOCKSTEP_CONTROL_FD=987");
    ASSERT_FAILS(ls_group_from_environment(&g), LS_E_USAGE, "LOCKSTEP_CONTROL_FD=987 is not an open file");
    assert_null(g);
    ASSERT_OK(ls_shm_create(2, &fd));
    char text[128];
    snprintf(text, sizeof text, "LOCKSTEP_RANK=0 LOCKSTEP_RANKS=4 LOCKSTEP_CONTROL_FD=%d", fd);
    environment(text);
    ASSERT_FAILS(ls_group_from_environment(&g), LS_E_USAGE,
                 "LOCKSTEP_RANKS=4, but the control block is of 2 ranks");
    assert_null(g);
    close(fd);
}

/* ---- meeting places */

static void who_does_not_come(void **state)
{
    (void)state;
    ls_group *g = NULL;
    char name[64];
    snprintf(name, sizeof name, "lockstep-test-%d", (int)getpid());
    ASSERT_FAILS(ls_rendezvous_join_within(&g, name, 0, 4, 0.05), LS_E_PEER,
                 "local ranks 1, 2, 3 did not come to the start within 0.05 s");
    ASSERT_FAILS(ls_rendezvous_join_within(&g, name, 2, 4, 0.05), LS_E_PEER,
                 "local rank 0 did not come to the start within 0.05 s");
}

static void a_rank_twice(void **state)
{
    (void)state;
    ls_group *g = NULL;
    char name[64];
    snprintf(name, sizeof name, "lockstep-test-%d", (int)getpid());
    pid_t leader = fork();
    if (leader == 0)
        _exit(ls_rendezvous_join_within(&g, name, 0, 3, 60) != LS_OK);
    ASSERT_OK(ls_rendezvous_join_within(&g, name, 1, 3, 60));
    ls_group_destroy(&g);
    ASSERT_FAILS(ls_rendezvous_join_within(&g, name, 1, 3, 60), LS_E_PEER,
                 "two ranks say that they are this one");
    ASSERT_FAILS(ls_rendezvous_join_within(&g, name, 0, 3, 60), LS_E_USAGE, "is taken");
    kill(leader, SIGKILL); /* it still waits for rank 2 */
    assert_int_equal(waitpid(leader, NULL, 0), leader);
}

static volatile sig_atomic_t stop;
static void ask(int number)
{
    (void)number;
    stop = 1;
}

/* Nobody else comes, and the wait ends long before its deadline. */
static void a_request_to_stop_ends_the_wait(void **state)
{
    (void)state;
    ls_group *g = NULL;
    char name[64];
    const struct itimerval soon = { .it_value = { .tv_usec = 50000 } };
    snprintf(name, sizeof name, "lockstep-test-%d", (int)getpid());
    ls_stop_on(&stop);
    signal(SIGALRM, ask);
    for (int rank = 0; rank < 2; rank++) {
        stop = 0;
        setitimer(ITIMER_REAL, &soon, NULL);
        ASSERT_FAILS(ls_rendezvous_join_within(&g, name, rank, 2, 20), LS_E_STOPPED,
                     rank ? "waiting for local rank 0" : "waiting for the other ranks of this host");
    }
    ls_stop_on(NULL);
}

/* Of several that find the same mistake one speaks, and a process that nobody started with others always
 * does. */
static void who_speaks(void **state)
{
    (void)state;
    static const struct {
        const char *variables;
        int number;
    } CASES[] = {
        { "", 0 },
        { "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=3", 2 },
        { "PMIX_RANK=1 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1", 1 },
        { "SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=3", 3 },
        { "SLURM_PROCID=3", 0 },
        { "OMPI_COMM_WORLD_RANK=2", 0 },
        { "LOCKSTEP_RANK=1 LOCKSTEP_RANKS=2 LOCKSTEP_CONTROL_FD=99", 0 },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        environment(CASES[i].variables);
        if (ls_environment_number() != CASES[i].number)
            fail_msg("%s: number %d", CASES[i].variables, ls_environment_number());
    }
    environment("");
}

/* Local rank 0 fails before it has answered: that it is gone is all that the others know, and they do not
 * blame themselves. */
static void a_leader_that_ends(void **state)
{
    (void)state;
    ls_group *g = NULL;
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    const int n = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "lockstep-test-%d", (int)getpid());
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), rank;
    assert_int_equal(bind(listener, (struct sockaddr *)&a,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)),
                     0);
    assert_int_equal(listen(listener, 1), 0);
    pid_t other = fork();
    if (other == 0)
        _exit(ls_rendezvous_join_within(&g, a.sun_path + 1, 1, 2, 60) != LS_E_PEER ||
              !strstr(ls_error_message(), "it has ended, and says why"));
    int connection = accept(listener, NULL, NULL), status;
    assert_int_equal(recv(connection, &rank, sizeof rank, 0), sizeof rank);
    assert_int_equal(rank, 1);
    close(connection);
    close(listener);
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(status, 0);
}

/* The variables alone make no rank: the descriptor must be a file without a name, as a control block is. */
static void a_rank_of_the_launcher(void **state)
{
    (void)state;
    static const struct {
        bool named;
        int rank;
    } CASES[] = { { true, -1 }, { false, 1 } };
    for (size_t i = 0; i < 2; i++) {
        int status;
        const pid_t child = fork(); /* the answer is remembered */
        if (child == 0) {
            char fd[16];
            const char *path = ls_test_path("named");
            snprintf(fd, sizeof fd, "%d", open(path, O_RDWR | O_CREAT, 0600));
            if (!CASES[i].named)
                unlink(path);
            environment("LOCKSTEP_RANK=1 LOCKSTEP_RANKS=2");
            setenv("LOCKSTEP_CONTROL_FD", fd, 1);
            _exit(ls_launch_rank() == CASES[i].rank && ls_launch_watched() == (CASES[i].rank >= 0) ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

/* ---- modules */

static void modules(void **state)
{
    (void)state;
    ls_group *g;
    ls_str text = { 0 };
    environment(OPENMPI "LOCKSTEP_MPI_MODULE=/nowhere/at-all.so");
    ASSERT_FAILS(ls_group_from_environment(&g), LS_E_UNSUPPORTED, "/nowhere/at-all.so does not load");
    environment("");
    const ls_transport_ops *ops;
    ASSERT_FAILS(ls_module_open(&ops, "lockstep-none.so"), LS_E_UNSUPPORTED, "lockstep-none.so is not in /",
                 "LOCKSTEP_MPI_MODULE");
    assert_false(ls_module_describe(&text, "lockstep-none.so"));
    ASSERT_CONTAINS(ls_str_text(&text), "lockstep-none.so is not in /");
    ls_str_release(&text);
    setenv("LOCKSTEP_MPI_MODULE", "libz.so.1", 1);
    ASSERT_FAILS(ls_module_open(&ops, LS_MODULE_MPI), LS_E_UNSUPPORTED,
                 "libz.so.1 is not a module of this version");
    environment("");
    ASSERT_FAILS(ls_group_from_mpi(&g, NULL), LS_E_ARG, "comm is NULL");
    ASSERT_FAILS(ls_group_from_mpi_handle(&g, 0), LS_E_UNSUPPORTED, "this program is not linked with MPI");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places),
        cmocka_unit_test(refused),
        cmocka_unit_test(alone),
        cmocka_unit_test(torchrun),
        cmocka_unit_test(own_launcher),
        cmocka_unit_test(own_launcher_refused),
        cmocka_unit_test(a_request_to_stop_ends_the_wait),
        cmocka_unit_test(who_speaks),
        cmocka_unit_test(a_rank_of_the_launcher),
        cmocka_unit_test(a_rank_twice),
        cmocka_unit_test(who_does_not_come),
        cmocka_unit_test(a_leader_that_ends),
        cmocka_unit_test(modules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
