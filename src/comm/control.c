/* control.c - the control block: its layout, the first failure, and what its records tell about ranks. */
#include "control.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "process.h"

/* "lsblock" and the sizes of its structs: programs of another version cannot join */
static const uint64_t MAGIC = 0x6b636f6c62736cull ^ (uint64_t)sizeof(ls_control_block) << 32 ^
                              (uint64_t)sizeof(ls_rank_record) << 8;
/* longest wait for a rank that is writing the message of its failure */
static const double WRITER_SECONDS = 10;
enum { PAGE = 4096 };

/* ---- layout */

static size_t up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

static size_t counters_at(int ranks)
{
    return offsetof(ls_control_block, rest) + sizeof(ls_rank_record) * (size_t)ranks;
}

static size_t staging_at(int ranks)
{
    return up(counters_at(ranks) + sizeof(ls_counters) * LS_CONTROL_AXES * (size_t)ranks, PAGE);
}

size_t ls_control_bytes(int ranks) { return staging_at(ranks) + (size_t)LS_STAGING_BYTES * (size_t)ranks; }

void ls_control_init(ls_control_block *c, int ranks)
{
    c->ranks = ranks;
    c->magic = MAGIC;
    atomic_store(&c->end, ls_control_bytes(ranks));
}

bool ls_control_valid(const ls_control_block *c, size_t bytes)
{
    return bytes >= sizeof *c && c->magic == MAGIC && c->ranks > 0 && c->ranks <= LS_CONTROL_RANKS &&
           bytes >= ls_control_bytes(c->ranks);
}

ls_rank_record *ls_control_record(ls_control_block *c, int local)
{
    return (ls_rank_record *)(void *)c->rest + local;
}

ls_counters *ls_control_counters(ls_control_block *c, int axis, int local)
{
    return (ls_counters *)(void *)((char *)c + counters_at(c->ranks)) + (size_t)axis * (size_t)c->ranks +
           (size_t)local;
}

char *ls_control_staging(ls_control_block *c, int local)
{
    return (char *)c + staging_at(c->ranks) + (size_t)local * LS_STAGING_BYTES;
}

/* ---- the first failure */

static _Atomic(ls_control_block *) report;
void ls_control_report_to(ls_control_block *c) { atomic_store(&report, c); }
ls_control_block *ls_control_report(void) { return atomic_load(&report); }

static void keep_first(ls_control_block *c, int rank, int reporter, ls_status code, ls_missed how,
                       const char *text)
{
    ls_failure *f = &c->failure;
    int none = LS_FAILURE_NONE;
    if (!atomic_compare_exchange_strong(&f->state, &none, (int)getpid()))
        return;
    f->rank = rank;
    f->reporter = reporter;
    f->code = (int)code;
    f->missed = (int)how;
    snprintf(f->text, sizeof f->text, "%s", text);
    atomic_store(&f->state, LS_FAILURE_READY);
}

void ls_control_report_failure(const ls_failure *f)
{
    if (ls_control_report())
        keep_first(ls_control_report(), f->rank, f->reporter, (ls_status)f->code, (ls_missed)f->missed,
                   f->text);
}

void ls_control_fail(ls_control_block *c, int rank, int reporter, ls_status code, const char *text)
{
    keep_first(c, rank, reporter, code, LS_MISSED_NOT, text);
    if (ls_control_report())
        keep_first(ls_control_report(), rank, reporter, code, LS_MISSED_NOT, text);
}

void ls_control_missed(ls_control_block *c, int rank, int reporter, ls_missed how, const char *text)
{
    keep_first(c, rank, reporter, LS_E_PEER, how, text);
    if (ls_control_report())
        keep_first(ls_control_report(), rank, reporter, LS_E_PEER, how, text);
}

bool ls_control_failed(ls_control_block *c)
{
    return atomic_load_explicit(&c->failure.state, memory_order_acquire) == LS_FAILURE_READY;
}

/* Waits until the failure's message is complete. Its writer may have lost its core for a moment. A writer
 * whose process has ended will never finish, and one that is stopped may not; so the wait has a limit. */
bool ls_control_failure_ready(ls_control_block *c)
{
    for (double until = ls_now() + WRITER_SECONDS; ls_now() < until;) {
        const int writer = atomic_load(&c->failure.state);
        if (writer == LS_FAILURE_NONE || writer == LS_FAILURE_READY || !ls_process_start_time(writer, NULL))
            break;
        nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
    }
    return ls_control_failed(c);
}

/* ---- the run directory */

void ls_control_set_run(ls_control_block *c, const char *path)
{
    const size_t n = strlen(path);
    atomic_store(&c->run.known, 0);
    if (!n || n >= LS_RUN_PATH_BYTES)
        return;
    memcpy(c->run.path, path, n + 1);
    atomic_store(&c->run.known, 1);
}

void ls_control_run(const ls_control_block *c, char path[LS_RUN_PATH_BYTES])
{
    path[0] = 0;
    if (!atomic_load(&c->run.known))
        return;
    memcpy(path, c->run.path, LS_RUN_PATH_BYTES);
    if (!atomic_load(&c->run.known)) /* rank 0 changes it now; the next look finds it */
        path[0] = 0;
}

/* ---- what ranks do */

static void put_text(_Atomic uint64_t *to, int n, const char *text, size_t length)
{
    for (int i = 0; i < n; i++) {
        const size_t at = 8 * (size_t)i;
        uint64_t word = 0;
        if (at < length)
            memcpy(&word, text + at, length - at < 8 ? length - at : 8);
        atomic_store_explicit(&to[i], word, memory_order_relaxed);
    }
}

/* If the rank writes a new text at the same time, the result mixes words of both. That is acceptable. */
static void get_text(char *text, _Atomic uint64_t *from, int n)
{
    for (int i = 0; i < n; i++) {
        uint64_t word = atomic_load_explicit(&from[i], memory_order_relaxed);
        memcpy(text + 8 * i, &word, 8);
    }
    text[8 * n - 1] = 0;
}

void ls_control_set_doing(ls_rank_record *s, const char *what)
{
    put_text(s->doing, LS_DOING_WORDS, what, strnlen(what, 120));
}

void ls_control_doing(ls_control_block *c, int local, char text[128])
{
    get_text(text, ls_control_record(c, local)->doing, LS_DOING_WORDS);
}

void ls_control_set_answer(ls_rank_record *s, const char *what)
{
    put_text(s->answer, LS_ANSWER_WORDS, what, strnlen(what, 8 * LS_ANSWER_WORDS - 1));
}

void ls_control_answer(ls_control_block *c, int local, char text[8 * LS_ANSWER_WORDS])
{
    get_text(text, ls_control_record(c, local)->answer, LS_ANSWER_WORDS);
}

void ls_control_describe(ls_control_block *c, int local, char text[LS_DESCRIPTION_BYTES])
{
    char doing[128];
    bool stopped = false;
    int pid = atomic_load(&ls_control_record(c, local)->pid);
    ls_control_doing(c, local, doing);
    if (pid)
        ls_process_start_time(pid, &stopped);
    snprintf(text, LS_DESCRIPTION_BYTES, "%s%s%s", doing[0] ? "it last did: " : "it had not begun to work",
             doing, stopped ? "; " LS_SAID_STOPPED : "");
}

/* If ranks wait for each other in a circle, because they make their calls in different orders, the result is
 * the rank in question itself. */
int ls_control_blocker(ls_control_block *c, int local)
{
    int at = local;
    for (int i = 0; i < c->ranks; i++) {
        const ls_rank_record *r = ls_control_record(c, at);
        const int own = atomic_load(&r->waits_for[0]), next = own ? own : atomic_load(&r->waits_for[1]);
        if (!next)
            return at;
        at = next - 1;
    }
    return local;
}

static bool has_ended(int pid, uint64_t start)
{
    const uint64_t now = ls_process_start_time(pid, NULL);
    return !now || (now != start && now != LS_START_UNKNOWN && start != LS_START_UNKNOWN);
}

const char *ls_rank_gone(ls_rank_record *s)
{
    int state = atomic_load(&s->state), pid = atomic_load(&s->pid);
    if (state == LS_RANK_LEFT)
        return "has left the group";
    if (state == LS_RANK_JOINED && pid && has_ended(pid, atomic_load(&s->start_time)))
        return "its process is gone";
    return NULL;
}
