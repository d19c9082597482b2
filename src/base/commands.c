/* commands.c - see commands.h. A command's stdout (its answer) and stderr (its complaint) come through two
 * pipes. */
#include "commands.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/stop.h"
#include "base/sys.h"

enum {
    MOST = 1 << 20, /* bytes of output that are kept */
    READS = 64 /* at a time: a command that prints without end does not keep the others from being ended */
};

enum { ANSWER, COMPLAINT }; /* stdout, stderr */

typedef struct runner {
    pid_t pid; /* 0: it has ended */
    int pipes[2];
    ls_str text[2];
} runner;

void ls_command_word(ls_command *e, const char *word)
{
    if (e->n < LS_COMMAND_WORDS)
        snprintf(e->words[e->n++], sizeof e->words[0], "%s", word);
}

void ls_command_words(ls_command *e, const char *words)
{
    for (const char *at = words; *(at += strspn(at, " "));) {
        const int n = (int)strcspn(at, " ");
        if (e->n < LS_COMMAND_WORDS)
            snprintf(e->words[e->n++], sizeof e->words[0], "%.*s", n, at);
        at += n;
    }
}

static void shut(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void become(char *const words[], const int ends[2])
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0); /* its own children end with it */
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO);
    dup2(ends[ANSWER], STDOUT_FILENO);
    dup2(ends[COMPLAINT], STDERR_FILENO);
    execvp(words[0], words);
    dprintf(STDERR_FILENO, "%s: %s\n", words[0], strerror(errno));
    _exit(LS_COMMAND_NOT_STARTED);
}

static void errand_start(ls_command *e, runner *r)
{
    char *words[LS_COMMAND_WORDS + 1] = { NULL };
    int ends[2] = { -1, -1 };
    for (int i = 0; i < e->n; i++)
        words[i] = e->words[i];
    e->status = LS_COMMAND_NOT_STARTED;
    for (int i = 0; i < 2; i++) {
        int both[2] = { -1, -1 };
        if (pipe2(both, O_CLOEXEC) == 0)
            fcntl(both[0], F_SETFL, O_NONBLOCK);
        r->pipes[i] = both[0];
        ends[i] = both[1];
    }
    r->pid = ends[ANSWER] >= 0 && ends[COMPLAINT] >= 0 ? ls_sys_fork() : -1;
    if (r->pid == 0)
        become(words, ends);
    shut(&ends[ANSWER]);
    shut(&ends[COMPLAINT]);
    if (r->pid < 0)
        r->pid = 0;
}

static void hear(runner *r)
{
    char more[MOST / READS];
    for (int i = 0; i < 2; i++)
        for (int reads = 0; reads < READS; reads++) {
            const ssize_t n = r->pipes[i] >= 0 ? read(r->pipes[i], more, sizeof more) : 0;
            if (n <= 0)
                break;
            if (r->text[i].len < MOST)
                ls_str_printf(&r->text[i], "%.*s", (int)n, more);
        }
}

static bool errand_look(ls_command *e, runner *r, bool late)
{
    int status;
    if (!r->pid)
        return true;
    hear(r);
    const pid_t ended = waitpid(r->pid, &status, WNOHANG);
    /* -1: somebody else has reaped it, as the launcher does when it ends what mpirun has left */
    const bool lost = ended < 0 && errno == ECHILD, over = ended == r->pid;
    if (!over && !lost && !late)
        return false;
    if (!over && !lost) {
        kill(-r->pid, SIGKILL);
        kill(r->pid, SIGKILL);
        waitpid(r->pid, &status, 0);
    }
    hear(r);
    e->status = !over ? LS_COMMAND_LATE : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    r->pid = 0;
    return true;
}

static void last_line(char said[512], const char *text)
{
    for (size_t n; *(text += strspn(text, "\r\n")); text += n) {
        n = strcspn(text, "\r\n");
        if (strspn(text, " \t") < n)
            snprintf(said, 512, "%.*s", n < 500 ? (int)n : 500, text);
    }
}

/* Keeps the last line, of the answer where the command succeeded, else of what it said on stderr, if there is
 * one; and hands the whole answer on. */
static void errand_keep(ls_command *e, runner *r)
{
    const bool failed = e->status != 0;
    last_line(e->said, ls_str_text(&r->text[failed ? ANSWER : COMPLAINT]));
    last_line(e->said, ls_str_text(&r->text[failed ? COMPLAINT : ANSWER]));
    if (e->whole) {
        ls_str_release(e->whole);
        *e->whole = r->text[ANSWER];
    } else {
        ls_str_release(&r->text[ANSWER]);
    }
    ls_str_release(&r->text[COMPLAINT]);
}

struct ls_commands {
    ls_command *all;
    runner *r; /* [n] */
    int n;
    double until;
};

ls_status ls_commands_start(ls_commands **out, ls_command *all, int n, double seconds)
{
    ls_commands *c = *out = ls_sys_malloc(sizeof *c);
    LS_TRY(ls_sys_have(c));
    *c = (ls_commands){ all, ls_sys_calloc((size_t)n, sizeof *c->r), n, ls_now() + seconds };
    if (!c->r) {
        free(c);
        *out = NULL;
        return ls_sys_have(NULL);
    }
    for (int i = 0; i < n; i++) {
        c->r[i].pipes[ANSWER] = c->r[i].pipes[COMPLAINT] = -1;
        if (all[i].n)
            errand_start(&all[i], &c->r[i]);
    }
    return LS_OK;
}

static bool look_at_all(ls_commands *c, bool late)
{
    bool over = true;
    for (int i = 0; i < c->n; i++)
        over = errand_look(&c->all[i], &c->r[i], late) && over;
    return over;
}

bool ls_commands_over(ls_commands *c) { return look_at_all(c, ls_now() >= c->until || ls_stop_asked()); }

void ls_commands_end(ls_commands **out)
{
    ls_commands *c = *out;
    if (!c)
        return;
    look_at_all(c, true);
    for (int i = 0; i < c->n; i++) {
        if (c->all[i].n)
            errand_keep(&c->all[i], &c->r[i]);
        shut(&c->r[i].pipes[ANSWER]);
        shut(&c->r[i].pipes[COMPLAINT]);
    }
    free(c->r);
    free(c);
    *out = NULL;
}

ls_status ls_commands_run(ls_command *all, int n, double seconds, const char *doing)
{
    ls_commands *c;
    LS_TRY(ls_commands_start(&c, all, n, seconds));
    while (!ls_commands_over(c))
        poll(NULL, 0, 5);
    ls_commands_end(&c);
    return ls_stop_check("%s", doing);
}
