/* message.c - writes and reads messages as text. */
#include "message.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"

/* One write, so that no other output comes between. */
void ls_rank_message_send(const ls_rank_message *f)
{
    char line[3000];
    int n = snprintf(line, sizeof line, "%clockstep %c %d ", LS_MESSAGE_BEGIN, f->kind, f->rank);
    if (f->kind == LS_MESSAGE_FAILURE)
        n += snprintf(line + n, sizeof line - (size_t)n, "%d %d %d %.2000s", f->heard.rank,
                      (int)f->heard.code, (int)f->heard.missed, f->heard.text);
    else if (f->kind == LS_MESSAGE_RUN)
        n += snprintf(line + n, sizeof line - (size_t)n, "%s", f->run);
    else if (f->kind == LS_MESSAGE_HALTED)
        n += snprintf(line + n, sizeof line - (size_t)n, "%d %d %.120s", f->process, f->seconds, f->doing);
    else if (f->kind == LS_MESSAGE_END)
        n += snprintf(line + n, sizeof line - (size_t)n, "%d %d %d %d %llu %llu %.120s", f->status, f->killed,
                      f->out_of_memory, f->exec_error, (unsigned long long)f->limit,
                      (unsigned long long)f->planned, f->doing);
    for (int i = 1; i < n; i++)
        if ((unsigned char)line[i] < ' ')
            line[i] = ' ';
    line[n++] = LS_MESSAGE_OVER;
    line[n++] = '\n';
    ls_sys_write(STDERR_FILENO, line,
                 /* if the message is lost, the parent notices at the end of mpirun that something is
                  * missing */
                 (size_t)n);
}

bool ls_rank_message_read(ls_rank_message *f, const char *text)
{
    char kind;
    int at = 0, code = 0, missed = 0;
    unsigned long long limit = 0, planned = 0;
    *f = (ls_rank_message){ 0 };
    if (sscanf(text, "lockstep %c %d %n", &kind, &f->rank, &at) != 2 || !at)
        return false;
    f->kind = kind;
    const char *rest = text + at;
    at = 0;
    if (kind == LS_MESSAGE_FAILURE) {
        if (sscanf(rest, "%d %d %d %n", &f->heard.rank, &code, &missed, &at) != 3 || !at)
            return false;
        f->heard.code = (ls_status)code;
        f->heard.missed = (ls_missed)missed;
        snprintf(f->heard.text, sizeof f->heard.text, "%s", rest + at);
        return code > LS_OK && code < LS_STATUS_COUNT && missed >= 0 && missed <= LS_MISSED_GONE;
    }
    if (kind == LS_MESSAGE_HALTED) {
        if (sscanf(rest, "%d %d%n", &f->process, &f->seconds, &at) != 2)
            return false;
        snprintf(f->doing, sizeof f->doing, "%s", rest[at] ? rest + at + 1 : "");
        return true;
    }
    if (kind == LS_MESSAGE_RUN)
        snprintf(f->run, sizeof f->run, "%s", rest);
    if (kind != LS_MESSAGE_END)
        return kind == LS_MESSAGE_RUN || kind == LS_MESSAGE_HELLO || kind == LS_MESSAGE_JOINED ||
               kind == LS_MESSAGE_ALIVE;
    if (sscanf(rest, "%d %d %d %d %llu %llu %n", &f->status, &f->killed, &f->out_of_memory, &f->exec_error,
               &limit, &planned, &at) != 6)
        return false;
    f->limit = limit;
    f->planned = planned;
    snprintf(f->doing, sizeof f->doing, "%s", at ? rest + at : "");
    return true;
}
