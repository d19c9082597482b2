/* main.c - finds the verb, parses its options, runs it, and turns its status into an exit status. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include "base/fault.h"
#include "base/shown.h"
#include "cli.h"
#include "comm/launched.h"
#include "launch/launch.h"
#include "launch/rank.h"
#include "launch/supervise.h"

static int exit_status(ls_status s)
{
    switch (s) {
    case LS_OK: return LS_EXIT_DONE;
    case LS_E_USAGE: return LS_EXIT_USAGE;
    case LS_E_STOPPED: return LS_EXIT_STOPPED;
    default: return LS_EXIT_FAILED;
    }
}

/* Results that could not be written to stdout (disk full, closed pipe) are an error. */
static ls_status flush_results(void)
{
    if (fflush(stdout) || ferror(stdout))
        return ls_fail(LS_E_IO, "stdout: %s", errno ? strerror(errno) : "write failed");
    return LS_OK;
}

static ls_status terminal_options(const ls_args *a, ls_terminal_opts *o)
{
    const int louder = ls_args_count(a, "--verbose");
    o->level = ls_args_has(a, "--quiet") ? LS_WARN : louder > 1 ? LS_TRACE : louder ? LS_DEBUG : LS_INFO;
    return ls_args_take(a, LS_COMMON_OPTIONS, o);
}

static int run_verb(const ls_verb *verb, int argc, char **argv)
{
    static ls_args a; /* kilobytes: not on the stack */
    ls_terminal_opts options = { .level = LS_INFO };
    ls_ui ui;
    if (ls_launch_rank() >= 0)
        prctl(PR_SET_NAME, program_invocation_short_name); /* started through /proc/self/exe, it would be
                                                              "exe" to ps and top */
    /* a write beyond ulimit -f then fails with a message that names the file, and does not end the process */
    signal(SIGXFSZ, SIG_IGN);
    ls_status s = ls_args_parse(&a, verb, argc - 2, argv + 2);
    a.argv = argv;
    if (s == LS_OK && ls_args_has(&a, "--help")) {
        ls_help_verb(stdout, verb);
        return exit_status(flush_results());
    }
    if (s == LS_OK)
        s = terminal_options(&a, &options);
    ls_terminal_open(&ui, &options);
    if (s == LS_OK)
        s = ls_args_check(&a);
    if (s == LS_OK)
        s = ls_fault_from_environment(ls_launch_rank());
    if (s == LS_OK)
        s = verb->tasks == LS_TASKS_ALL || ls_rank_is_first(verb->name, verb->tasks == LS_TASKS_FIRST_OF_HOST)
                ? verb->run(&a, &ui)
                : LS_OK;
    if (s == LS_OK)
        s = flush_results();
    if (s != LS_OK && *ls_error_message()) { /* else another process has printed it */
        fflush(stdout);
        ls_log(s == LS_E_STOPPED ? LS_INFO : LS_ERROR, "%s", ls_error_message());
        if (*ls_error_trace())
            ls_log_debug("passed on by\n%s", ls_error_trace());
    }
    ls_terminal_close();
    ls_args_release(&a);
    return exit_status(s);
}

/* A stack that overflows ends the process by SIGSEGV without a message. Threads have a size of their own
 * (base/sys.c). */
static ls_status check_stack(void)
{
    enum { LEAST = 1024 }; /* KiB */
    struct rlimit r;
    if (getrlimit(RLIMIT_STACK, &r) || r.rlim_cur == RLIM_INFINITY || r.rlim_cur >= 1024 * (rlim_t)LEAST)
        return LS_OK;
    return ls_fail(LS_E_USAGE,
                   "the stack is limited to %llu KiB (ulimit -s), and at least %d KiB are needed: ulimit -s "
                   "8192",
                   (unsigned long long)r.rlim_cur / 1024, LEAST);
}

static int early_failure(ls_status s)
{
    ls_print_line(stderr, "error: %s", ls_error_message());
    return exit_status(s);
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : NULL;
    if (!word) {
        ls_help_print(stderr);
        return LS_EXIT_USAGE;
    }
    if (!strcmp(word, LS_SUPERVISE_WORD) && getenv(LS_LAUNCH_JOB)) /* no verb: mpirun starts it for us */
        return ls_supervise(argv + 2);
    const ls_status stack = check_stack();
    if (stack != LS_OK)
        return early_failure(stack);
    const ls_verb *verb = ls_verb_find(word);
    if (verb)
        return run_verb(verb, argc, argv);
    if (!strcmp(word, "--version"))
        puts("lockstep " LS_VERSION);
    else if (!strcmp(word, "--verbs"))
        ls_help_table(stdout);
    else if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help"))
        argc > 2 && ls_verb_find(argv[2]) ? ls_help_verb(stdout, ls_verb_find(argv[2]))
                                          : ls_help_print(stdout);
    else if (*word == '-')
        return early_failure(
            ls_fail(LS_E_USAGE, "there is no option %s before the verb (lockstep --help)", word));
    else
        return early_failure(ls_verb_unknown(word));
    ls_status s = flush_results();
    return s == LS_OK ? LS_EXIT_DONE : early_failure(s);
}
