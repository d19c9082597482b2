/* heartbeat.c - the file has a fixed size: JSON, padded with spaces. So each write replaces the whole text
 * where it is, and no reader sees the end of an older one. */
#include "heartbeat.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/sys.h"
#include "rundir_own.h"

enum { FILE_BYTES = 512, MOST_RANKS = 1000000 /* of a mesh; a reader makes room for so many */ };
#define EVERY 1.0 /* seconds between writes */

static char *heartbeat_path_of(const char *run_dir, int rank)
{
    return ls_sys_text("%s/log/rank-%d.heartbeat.json", run_dir, rank);
}

static double wall_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-3 * (double)(now.tv_nsec / 1000000);
}

static int open_file(const ls_rundir *d)
{
    char *path = heartbeat_path_of(d->path, d->rank);
    const int fd = ls_sys_open(path, O_WRONLY | O_CREAT);
    free(path);
    return fd;
}

void ls_heartbeat_write(ls_rundir *d, const ls_heartbeat *h, bool now)
{
    struct ls_rundir_private *own = d->own;
    char host[64] = "";
    if (!now && ls_now() - own->last_beat < EVERY)
        return;
    own->last_beat = ls_now();
    if (own->beat < 0 && (own->beat = open_file(d)) < 0)
        return;
    gethostname(host, sizeof host - 1);
    ls_json *j = &own->row;
    ls_str_clear(&j->out);
    j->depth = 0;
    ls_json_object(j, NULL);
    ls_json_int(j, "rank", d->rank);
    ls_json_int(j, "ranks", h->ranks);
    ls_json_text(j, "host", host);
    ls_json_int(j, "attempt", d->attempt);
    ls_json_f64(j, "time", wall_clock());
    ls_json_text(j, "doing", h->doing);
    ls_json_int(j, "step", h->step);
    ls_json_int(j, "steps", h->steps);
    ls_json_int(j, "from", h->from);
    ls_json_f64(j, "start", h->start);
    ls_json_f64(j, "seconds", h->seconds);
    ls_json_f64(j, "waited", h->waited);
    ls_json_int(j, "memory", ls_anonymous_rss());
    ls_json_int(j, "planned", h->planned);
    ls_json_close_object(j);
    char text[FILE_BYTES];
    memset(text, ' ', sizeof text);
    text[sizeof text - 1] = '\n';
    if (ls_str_status(&j->out) == LS_OK && j->out.len < sizeof text) {
        memcpy(text, j->out.data, j->out.len);
        (void)!ls_sys_pwrite(own->beat, text, sizeof text, 0);
    }
}

static void copy_text(char *out, size_t size, const json_t *tree, const char *key)
{
    const char *text = json_string_value(json_object_get(tree, key));
    snprintf(out, size, "%s", text ? text : "");
}

bool ls_heartbeat_read(ls_heartbeat *out, const char *run_dir, int rank)
{
    char *path = heartbeat_path_of(run_dir, rank), text[FILE_BYTES];
    const int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    free(path);
    const ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof text, 0);
    if (fd >= 0)
        close(fd);
    json_t *t = n > 0 ? json_loadb(text, (size_t)n, 0, NULL) : NULL;
    *out = (ls_heartbeat){ .rank = rank };
    if (t) {
        const json_int_t ranks = json_integer_value(json_object_get(t, "ranks"));
        out->ranks = ranks > 0 && ranks <= MOST_RANKS ? (int)ranks : 0;
        out->attempt = json_integer_value(json_object_get(t, "attempt"));
        out->step = json_integer_value(json_object_get(t, "step"));
        out->steps = json_integer_value(json_object_get(t, "steps"));
        out->from = json_integer_value(json_object_get(t, "from"));
        out->start = json_number_value(json_object_get(t, "start"));
        out->seconds = json_number_value(json_object_get(t, "seconds"));
        out->waited = json_number_value(json_object_get(t, "waited"));
        out->memory = json_integer_value(json_object_get(t, "memory"));
        out->planned = json_integer_value(json_object_get(t, "planned"));
        out->age = wall_clock() - json_number_value(json_object_get(t, "time"));
        copy_text(out->doing, sizeof out->doing, t, "doing");
        copy_text(out->host, sizeof out->host, t, "host");
    }
    json_decref(t);
    return t && out->ranks > 0;
}
