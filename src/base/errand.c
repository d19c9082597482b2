/* errand.c - see errand.h. The output of a command comes through a pipe. */
#include "errand.h"

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

enum { MOST = 1 << 20 }; /* bytes of output that are kept */

typedef struct runner {
    pid_t pid; /* 0: it has ended */
    int pipe;
    ls_str text;
} runner;

void ls_errand_word(ls_errand *e, const char *word)
{
    if (e->n < LS_ERRAND_WORDS)
        snprintf(e->words[e->n++], sizeof e->words[0], "%s", word);
}

void ls_errand_words(ls_errand *e, const char *words)
{
    for (const char *at = words; *(at += strspn(at, " "));) {
        const int n = (int)strcspn(at, " ");
        if (e->n < LS_ERRAND_WORDS)
            snprintf(e->words[e->n++], sizeof e->words[0], "%.*s", n, at);
        at += n;
    }
}

static void start(ls_errand *e, runner *r)
{
    char *words[LS_ERRAND_WORDS + 1] = { NULL };
    int ends[2] = { -1, -1 };
    for (int i = 0; i < e->n; i++)
        words[i] = e->words[i];
    *r = (runner){ .pipe = -1 };
    e->status = LS_ERRAND_NOT_STARTED;
    if (pipe2(ends, O_CLOEXEC))
        return;
    r->pid = ls_sys_fork();
    if (r->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setpgid(0, 0); /* its own children end with it */
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
        dup2(nothing, STDIN_FILENO);
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        execvp(words[0], words);
        dprintf(STDERR_FILENO, "%s: %s\n", words[0], strerror(errno));
        _exit(LS_ERRAND_NOT_STARTED);
    }
    close(ends[1]);
    r->pipe = ends[0];
    fcntl(r->pipe, F_SETFL, O_NONBLOCK);
    if (r->pid < 0)
        r->pid = 0;
}

static void hear(runner *r)
{
    char more[1024];
    for (ssize_t n; r->pipe >= 0 && (n = read(r->pipe, more, sizeof more)) > 0;)
        if (r->text.len < MOST)
            ls_str_printf(&r->text, "%.*s", (int)n, more);
}

static bool look(ls_errand *e, runner *r, bool late)
{
    int status;
    if (!r->pid)
        return true;
    hear(r);
    const bool over = waitpid(r->pid, &status, WNOHANG) == r->pid;
    if (!over && !late)
        return false;
    if (!over) {
        kill(-r->pid, SIGKILL);
        kill(r->pid, SIGKILL);
        waitpid(r->pid, &status, 0);
    }
    hear(r);
    e->status = !over ? LS_ERRAND_LATE : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    r->pid = 0;
    return true;
}

/* Keeps the last line that is not empty, and hands the whole text on. */
static void keep(ls_errand *e, runner *r)
{
    const char *text = ls_str_text(&r->text);
    for (size_t n; *(text += strspn(text, "\r\n")); text += n) {
        n = strcspn(text, "\r\n");
        if (strspn(text, " \t") < n)
            snprintf(e->said, sizeof e->said, "%.*s", n < 500 ? (int)n : 500, text);
    }
    if (e->whole) {
        ls_str_release(e->whole);
        *e->whole = r->text;
    } else {
        ls_str_release(&r->text);
    }
}

ls_status ls_errands_run(ls_errand *all, int n, double seconds, const char *doing)
{
    runner *r = ls_sys_calloc((size_t)n, sizeof *r);
    LS_TRY(ls_sys_have(r));
    const double until = ls_now() + seconds;
    for (int i = 0; i < n; i++) {
        r[i].pipe = -1;
        if (all[i].n)
            start(&all[i], &r[i]);
    }
    for (bool over = false; !over;) {
        over = true;
        for (int i = 0; i < n; i++)
            over = look(&all[i], &r[i], ls_now() >= until || ls_stop_asked()) && over;
        if (!over)
            poll(NULL, 0, 5);
    }
    for (int i = 0; i < n; i++) {
        if (all[i].n)
            keep(&all[i], &r[i]);
        if (r[i].pipe >= 0)
            close(r[i].pipe);
    }
    free(r);
    return ls_stop_check("%s", doing);
}
