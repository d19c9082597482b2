/* watch_read.c - follows the files of a run: result.json, metrics.jsonl, heartbeats, logs. A file that is
 * being replaced is read at the next call. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sys.h"
#include "watch_frame.h"

enum { TAIL = 16384 };            /* bytes of a log that are looked through */
static const double WINDOW = 5.0; /* seconds over which waits are measured */

static ls_status read_result(ls_watch *w)
{
    ls_run_info info;
    *w->broken = 0;
    w->begun = ls_file_in(w->dir, "result.json");
    if (!w->begun)
        return LS_OK;
    if (ls_run_info_read(&info, w->dir) == LS_OK) {
        ls_run_info_release(&w->info);
        w->info = info;
    } else {
        snprintf(w->broken, sizeof w->broken, "%s", ls_error_message());
    }
    return LS_OK;
}

static void read_rank(ls_watch_rank *r, const char *dir, int rank)
{
    ls_heartbeat h;
    if (!ls_heartbeat_read(&h, dir, rank))
        return;
    const bool again = r->known && (h.attempt != r->before.attempt || h.seconds < r->before.seconds);
    if (!r->known || again) {
        r->before = h;
        r->share = h.seconds > 0 ? h.waited / h.seconds : 0;
    } else if (h.seconds - r->before.seconds >= WINDOW) {
        r->share = (h.waited - r->before.waited) / (h.seconds - r->before.seconds);
        r->before = h;
    }
    r->now = h;
    r->known = true;
}

static ls_status read_ranks(ls_watch *w)
{
    ls_heartbeat first;
    if (!ls_heartbeat_read(&first, w->dir, 0))
        return LS_OK;
    while (w->cap_ranks < first.ranks) {
        ls_watch_rank *more = ls_sys_realloc(w->ranks, sizeof *more * (size_t)first.ranks);
        LS_TRY(ls_sys_have(more));
        memset(more + w->cap_ranks, 0, sizeof *more * (size_t)(first.ranks - w->cap_ranks));
        w->ranks = more;
        w->cap_ranks = first.ranks;
    }
    w->n_ranks = first.ranks;
    for (int i = 0; i < w->n_ranks; i++)
        read_rank(&w->ranks[i], w->dir, i);
    return LS_OK;
}

/* ---- warnings of logs: lines "2026-11-23T22:15:56.860Z warning MESSAGE" */

static bool warns(const char *line)
{
    const char *level = strchr(line, ' ');
    return level && level - line > 20 && (!strncmp(level, " warning ", 9) || !strncmp(level, " error ", 7));
}

static void keep_warning(ls_watch *w, const char *line)
{
    int at = 0;
    while (at < LS_WATCH_WARNINGS && w->warnings[at] && strcmp(w->warnings[at], line) < 0)
        at++; /* they begin with the time, so this is their order */
    if (at < LS_WATCH_WARNINGS && w->warnings[at] && !strcmp(w->warnings[at], line))
        return;
    char *copy = ls_sys_strdup(line);
    if (!copy)
        return;
    if (!w->warnings[LS_WATCH_WARNINGS - 1]) { /* there is room: later ones move back */
        memmove(w->warnings + at + 1, w->warnings + at,
                sizeof *w->warnings * (size_t)(LS_WATCH_WARNINGS - at - 1));
        w->warnings[at] = copy;
    } else if (at == 0) { /* older than all */
        free(copy);
    } else { /* the oldest one leaves */
        free(w->warnings[0]);
        memmove(w->warnings, w->warnings + 1, sizeof *w->warnings * (size_t)(at - 1));
        w->warnings[at - 1] = copy;
    }
}

static void read_log(ls_watch *w, int rank)
{
    char *path = ls_sys_text("%s/log/rank-%d.log", w->dir, rank), text[TAIL + 1];
    const int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    free(path);
    struct stat info;
    const off_t size = fd >= 0 && fstat(fd, &info) == 0 ? info.st_size : 0,
                from = size > TAIL ? size - TAIL : 0;
    const ssize_t n = size ? pread(fd, text, TAIL, from) : 0;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    char *line = text;
    if (from > 0) /* the first line is cut */
        line = strchr(text, '\n') ? strchr(text, '\n') + 1 : text + strlen(text);
    for (char *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        if (warns(line))
            keep_warning(w, line);
    }
}

ls_status ls_watch_read(ls_watch *w)
{
    LS_TRY(read_result(w));
    LS_TRY(read_ranks(w));
    if (ls_file_in(w->dir, "metrics.jsonl"))
        LS_TRY(ls_history_follow(&w->history, w->dir));
    for (int i = 0; i < (w->n_ranks > 0 ? w->n_ranks : 1); i++)
        read_log(w, i);
    return LS_OK;
}

void ls_watch_release(ls_watch *w)
{
    ls_history_release(&w->history);
    ls_run_info_release(&w->info);
    for (int i = 0; i < LS_WATCH_WARNINGS; i++)
        free(w->warnings[i]);
    free(w->ranks);
    *w = (ls_watch){ 0 };
}
