/* lost_pages.c - the message when a mapped file is cut short, or its disk fails. Reading a lost page raises
 * SIGBUS. /proc/self/maps tells which file the page is of, so the library keeps no table. The command
 * installs the handler; the library does not, because a program that uses it may have its own.
 *
 * What else ends a process without an error that a call returns (comm/last_words.h) is printed here, too.
 *
 * All functions here are safe in a signal handler. `record` is not, in general: it allocates memory and
 * writes files. But the signal comes at the instruction that reads the lost page, and none of our locks and
 * none of malloc's is held there. */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/sys.h"
#include "cli.h"
#include "comm/last_words.h"
#include "comm/launched.h"

enum {
    EXIT_FAILED = 1, /* exit status of any other error (main.c) */
    PATIENCE = 10,   /* seconds to record the failure */
};

/* Set before the handler is installed, which may run on any thread and only reads them. */
static bool as_json, over_line;
static int launched; /* as which rank a launcher of ours started this process; -1: none did */
static void (*record)(const char *why);

/* ---- which file */

typedef struct reader {
    int fd;
    char buffer[1024];
    ssize_t n, at;
} reader;

static int next(reader *r)
{
    if (r->at == r->n) {
        r->n = read(r->fd, r->buffer, sizeof r->buffer);
        r->at = 0;
    }
    return r->n > 0 ? (unsigned char)r->buffer[r->at++] : -1;
}

static uintptr_t hexadecimal(reader *r, int *end)
{
    uintptr_t x = 0;
    for (;;) {
        const int c = *end = next(r), digit = c >= '0' && c <= '9'   ? c - '0'
                                              : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                                                     : -1;
        if (digit < 0)
            return x;
        x = x << 4 | (uintptr_t)digit;
    }
}

/* Path of the file that is mapped at the address, from lines "BEGIN-END rwxp OFFSET DEVICE INODE   PATH"; ""
 * if there is none. */
static void find_file(char *path, size_t size, uintptr_t address)
{
    static reader r;
    size_t n = 0;
    r.fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    for (int c = 0; r.fd >= 0 && c >= 0 && !n;) {
        const uintptr_t begin = hexadecimal(&r, &c), end = hexadecimal(&r, &c);
        const bool here = address >= begin && address < end;
        for (int words = 1; c >= 0 && c != '\n' && words < 5; words += c == ' ')
            c = next(&r);
        while (c == ' ')
            c = next(&r);
        for (; c >= 0 && c != '\n'; c = next(&r))
            if (here && n + 1 < size)
                path[n++] = (char)c;
    }
    path[n] = 0;
}

/* ---- the message */

typedef struct line {
    char text[4096 + 512];
    size_t n;
} line;

static void add(line *l, const char *text)
{
    for (; *text && l->n < sizeof l->text - 1; text++)
        l->text[l->n++] = *text;
    l->text[l->n] = 0;
}

/* Adds a text without control characters, escaped for JSON if it is to be. */
static void add_shown(line *l, const char *text, bool escaped)
{
    for (; *text; text++) {
        const char c = (unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text;
        if (escaped && (c == '"' || c == '\\'))
            add(l, "\\");
        add(l, (const char[]){ c, 0 });
    }
}

static void add_number(line *l, int64_t x)
{
    char digits[24];
    int at = sizeof digits - 1;
    digits[at] = 0;
    do
        digits[--at] = (char)('0' + x % 10);
    while (x /= 10);
    add(l, digits + at);
}

/* What is wrong, without the level and the rank. */
static void describe(line *l, const char *path)
{
    add_shown(l, *path ? path : "SIGBUS", false);
    if (!*path)
        add(l, ": memory of this process cannot be read: the machine may have a defect");
    else if (!strncmp(path, "/dev/shm/", 9) || !strncmp(path, "/memfd:", 7))
        add(l, ": no memory is left for what processes share: free some, or start fewer workers");
    else
        add(l, ": a part of it is gone: the file was cut short while it was in use, or its disk fails; put "
               "the whole file back and start again");
}

static void say(const char *what, int rank)
{
    static line l;
    struct timespec now = { 0 };
    clock_gettime(CLOCK_REALTIME, &now);
    if (as_json) {
        add(&l, "{\"time\":");
        add_number(&l, (int64_t)now.tv_sec);
        add(&l, ",\"level\":\"error\",\"message\":\"");
    } else {
        add(&l, over_line ? "\r\033[Kerror: " : "error: ");
    }
    if (rank >= 0) {
        add(&l, "rank ");
        add_number(&l, rank);
        add(&l, ": ");
    }
    add_shown(&l, what, as_json);
    add(&l, as_json ? "\"}\n" : "\n");
    ls_sys_write(STDERR_FILENO, l.text, l.n);
}

/* A function of a module that calls exit() comes here, too. */
static void last_words(const char *what, int rank, bool said)
{
    alarm(PATIENCE); /* its default action ends the process, if another thread holds what `record` needs */
    if (!said)
        say(what, rank >= 0 ? rank : launched);
    record(what);
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    static atomic_flag taken = ATOMIC_FLAG_INIT;
    static char path[4096];
    static line what;
    (void)context;
    if (info->si_code <= 0) { /* a process sent the signal: no page is lost */
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    while (atomic_flag_test_and_set(&taken)) /* another thread prints the message and ends the process */
        pause();
    find_file(path, sizeof path, (uintptr_t)info->si_addr);
    if (path[0] != '/') /* "[heap]", "[stack]": not a file */
        path[0] = 0;
    describe(&what, path);
    if (ls_last_words(LS_E_IO, what.text) || launched < 0)
        _exit(EXIT_FAILED);
    /* the access repeats and ends the process by SIGBUS, which the launcher reports */
    signal(number, SIG_DFL);
}

void ls_lost_pages_take(bool json, bool bars, void (*record_failure)(const char *why))
{
    const struct sigaction action = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO };
    as_json = json;
    over_line = bars;
    launched = ls_launch_rank();
    record = record_failure;
    ls_last_words_to(last_words);
    sigaction(SIGBUS, &action, NULL);
}
