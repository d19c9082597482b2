/* hosts.c - see hosts.h. */
#include "hosts_own.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "base/sys.h"

/* ---- reading */

/* Whether the name is that of this host: a socket can be bound to its address. */
static bool is_here(const char *name)
{
    struct addrinfo *all = NULL, hints = { .ai_socktype = SOCK_DGRAM };
    char own[256] = "";
    bool here = false;
    gethostname(own, sizeof own - 1);
    if (!strcmp(name, own) || !strcmp(name, "localhost"))
        return true;
    if (getaddrinfo(name, NULL, &hints, &all) != 0)
        return false;
    for (struct addrinfo *a = all; a && !here; a = a->ai_next) {
        int s = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        here = s >= 0 && bind(s, a->ai_addr, a->ai_addrlen) == 0;
        if (s >= 0)
            close(s);
    }
    freeaddrinfo(all);
    return here;
}

/* Reads "a", "a:4" or "a slots=4". `where` begins messages. */
static ls_status hosts_add(ls_hosts *h, const char *text, size_t n, const char *where)
{
    char name[300], *end;
    long slots = 0;
    snprintf(name, sizeof name, "%.*s", (int)n, text);
    char *colon = strrchr(name, ':'), *said = strstr(name, "slots=");
    char *number = said ? said + strlen("slots=") : colon ? colon + 1 : NULL;
    errno = 0;
    if (number) {
        slots = strtol(number, &end, 10);
        if (end == number || end[strspn(end, " \t\r")] || errno || slots < 1 || slots > 100000)
            return ls_fail(LS_E_USAGE, "%s: %s: HOST:N is needed, N ranks on that host", where, name);
    }
    if (colon && !said)
        *colon = 0;
    const char *rest = name + strcspn(name, " \t\r");
    rest += strspn(rest, " \t\r");
    if (*rest && rest != said)
        return ls_fail(LS_E_USAGE, "%s: '%s' after the name of the host: HOST:N or HOST slots=N is needed",
                       where, rest);
    name[strcspn(name, " \t\r")] = 0;
    if (!*name || *name == '-')
        return ls_fail(LS_E_USAGE, "%s: the name of a host is needed, not '%.*s'", where, (int)n, text);
    for (int i = 0; i < h->n; i++)
        if (!strcmp(h->all[i].name, name))
            return ls_fail(LS_E_USAGE, "%s: host %s is there twice", where, name);
    if (h->n && (int)slots != h->each)
        return ls_fail(LS_E_USAGE,
                       "%s: host %s has a different number of ranks than host %s; all hosts need the same "
                       "number",
                       where, name, h->all[0].name);
    h->each = (int)slots;
    ls_host *more = ls_sys_realloc(h->all, sizeof *h->all * (size_t)(h->n + 1));
    LS_TRY(ls_sys_have(more));
    h->all = more;
    h->all[h->n] = (ls_host){ .here = is_here(name) };
    snprintf(h->all[h->n++].name, sizeof h->all->name, "%.255s", name);
    return LS_OK;
}

static ls_status read_list(ls_hosts *h, const char *list)
{
    for (const char *at = list;; at++) {
        const size_t n = strcspn(at, ",");
        LS_TRY(hosts_add(h, at, n, "--hosts"));
        at += n;
        if (!*at)
            return LS_OK;
    }
}

static ls_status hosts_read_file(ls_hosts *h, const char *path)
{
    char *text = NULL;
    size_t size = 0;
    LS_TRY(ls_file_read(&text, &size, path));
    ls_status s = LS_OK;
    int line = 1;
    for (const char *at = text; s == LS_OK && *at; line++) {
        const size_t n = strcspn(at, "\n"), before = strspn(at, " \t"), told = strcspn(at, "#\n");
        char where[300];
        snprintf(where, sizeof where, "%.280s:%d", path, line);
        size_t last = told;
        while (last > before && strchr(" \t\r", at[last - 1]))
            last--;
        if (last > before)
            s = hosts_add(h, at + before, last - before, where);
        at += n + (at[n] == '\n');
    }
    free(text);
    if (s == LS_OK && !h->n)
        s = ls_fail(LS_E_USAGE, "--hostfile %s: it names no host", path);
    return s;
}

/* ---- Slurm */

/* The number of tasks of each host; 0: not told. Slurm tells it as "2(x3)", or "2,1" if they differ. */
static ls_status tasks_of_each(int *tasks, const ls_hosts_opts *o)
{
    const char *per_node = getenv("SLURM_NTASKS_PER_NODE"), *all = getenv("SLURM_TASKS_PER_NODE");
    *tasks = per_node && atoi(per_node) > 0 ? atoi(per_node) : 0;
    if (*tasks || o->ranks || o->per_host || !all)
        return LS_OK;
    if (strchr(all, ','))
        return ls_fail(LS_E_USAGE,
                       "--hosts slurm: the tasks of this job are distributed unevenly over its hosts "
                       "(SLURM_TASKS_PER_NODE=%.200s), and all hosts need the same number of ranks: start "
                       "the job with --ntasks-per-node=N, or give --workers-per-host N",
                       all);
    *tasks = atoi(all) > 0 ? atoi(all) : 0;
    return LS_OK;
}

static ls_status read_slurm(ls_hosts *h, const ls_hosts_opts *o)
{
    char *names, *rest;
    ls_str text = { 0 };
    int tasks;
    if (!h->slurm)
        return ls_fail(LS_E_USAGE,
                       "--hosts slurm: this is not a Slurm job (SLURM_JOB_ID is not set): use it in "
                       "sbatch or salloc");
    LS_TRY(tasks_of_each(&tasks, o));
    ls_status s = ls_hosts_ask_slurm(&text);
    if (s != LS_OK) {
        ls_str_release(&text);
        return ls_fail_in(s, "--hosts slurm");
    }
    LS_TRY(ls_sys_have(names = rest = ls_str_take(&text)));
    for (char *line; s == LS_OK && (line = strsep(&rest, "\r\n"));)
        if (*line)
            s = hosts_add(h, line, strlen(line), "--hosts slurm");
    free(names);
    h->each = tasks;
    return s;
}

/* Sets the number of ranks of each host, if the names have none. */
static ls_status count_each(ls_hosts *h, const ls_hosts_opts *o)
{
    if (h->each && o->per_host && h->each != o->per_host)
        return ls_fail(LS_E_USAGE, "workers_per_host: %d, but the hosts are given %d ranks each", o->per_host,
                       h->each);
    if (!h->each)
        h->each = o->per_host;
    if (!h->each && o->ranks % h->n)
        return ls_fail(LS_E_USAGE, "%d workers cannot be divided evenly among %d hosts", o->ranks, h->n);
    if (!h->each)
        h->each = o->ranks ? o->ranks / h->n : 1;
    return LS_OK;
}

ls_status ls_hosts_read(ls_hosts **out, const ls_hosts_opts *o)
{
    *out = NULL;
    if (!o->list && !o->file)
        return LS_OK;
    ls_hosts *h = ls_sys_calloc(1, sizeof *h);
    LS_TRY(ls_sys_have(h));
    h->rsh = o->rsh && *o->rsh ? o->rsh : "ssh";
    h->slurm = getenv("SLURM_JOB_ID") != NULL;
    ls_status s = o->file                     ? hosts_read_file(h, o->file)
                  : !strcmp(o->list, "slurm") ? read_slurm(h, o)
                                              : read_list(h, o->list);
    if (s == LS_OK)
        s = count_each(h, o);
    if (s == LS_OK)
        *out = h;
    else
        ls_hosts_free(&h);
    return s;
}

void ls_hosts_free(ls_hosts **h)
{
    if (*h) {
        ls_hosts_stop_asking(*h);
        free((*h)->all);
    }
    free(*h);
    *h = NULL;
}

/* ---- distributing ranks */

static int count_answers(const ls_hosts *h)
{
    int n = 0;
    for (int i = 0; i < h->n; i++)
        n += h->all[i].answers;
    return n;
}

int ls_hosts_room(const ls_hosts *h) { return count_answers(h) * h->each; }

bool ls_hosts_fit(ls_hosts *h, int ranks)
{
    const int there = count_answers(h);
    for (int used = 1; used <= there; used++)
        if (ranks % used == 0 && ranks / used <= h->each) {
            h->used = used;
            h->per = ranks / used;
            return true;
        }
    return false;
}

const ls_host *ls_hosts_used(const ls_hosts *h, int i)
{
    for (int k = 0; k < h->n; k++)
        if (h->all[k].answers && i-- == 0)
            return &h->all[k];
    return NULL;
}
