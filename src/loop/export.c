/* export.c - checkpoint.export and checkpoint.export_best: the whole model when a run has finished all its
 * steps, and at each improvement. Rank 0 copies it from a checkpoint, which all ranks wrote, so no rank ever
 * holds the whole model. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "base/sys.h"
#include "loop.h"
#include "record/remote_hosts.h"
#include "setup/base.h"
#include "setup/export_model.h"

static ls_status write_model(const char *from, const char *to, const ls_recipe *r)
{
    ls_checkpoint c;
    const ls_weights_export_opts opts = { LS_WEIGHTS_EXPORT_DEFAULTS, .replace = true };
    const ls_export_how how = { .format = ls_export_format_of(to), .opts = &opts };
    ls_str said = { 0 };
    LS_TRY(ls_checkpoint_open(&c, from, LS_VERIFY_SIZES, NULL));
    ls_weights *w = c.weights;
    ls_status s = r->eval.ema ? ls_checkpoint_use_ema(&c) : LS_OK;
    if (s == LS_OK)
        s = ls_base_merge(&c, r); /* of adapters: the whole model */
    if (s == LS_OK)
        s = ls_export_model(w, from, to, &how);
    if (s == LS_OK) {
        ls_export_said(&said, ls_weights_count(w), to, how.format);
        ls_log_info("model  %s", ls_str_text(&said));
    }
    ls_str_release(&said);
    ls_checkpoint_release(&c);
    return s;
}

/* Makes the folders above `path`: a file, or a folder whose name ends in a slash. */
static ls_status make_parent(const char *path)
{
    char *parent = ls_sys_strdup(path);
    if (!parent)
        return ls_fail(LS_E_MEMORY, "%s: no memory for its name", path);
    const size_t n = strlen(parent);
    if (n && parent[n - 1] == '/')
        parent[n - 1] = 0;
    char *slash = strrchr(parent, '/');
    if (slash)
        *slash = 0;
    ls_status s = ls_make_dirs(parent);
    free(parent);
    return s;
}

/* Copies the weights of a checkpoint of the run to `name` in its folder. */
static ls_status export_to(const ls_loop *l, const char *key, const char *checkpoint, const char *name,
                           bool replace)
{
    struct stat st;
    char *from = ls_path_join(l->run->path, checkpoint), *to = ls_path_join(l->run->path, name);
    ls_status s = ls_sys_have(from);
    if (s == LS_OK)
        s = ls_sys_have(to);
    if (s == LS_OK && (replace || stat(to, &st))) {
        s = make_parent(to);
        s = s == LS_OK ? write_model(from, to, l->recipe) : s;
    }
    free(from);
    free(to);
    return s == LS_OK          ? s
           : s == LS_E_STOPPED ? ls_fail(s, "%s: %s; start it again to write %s/%s", key, ls_error_message(),
                                         l->run->path, name)
                               : ls_fail_in(s, "%s", key);
}

/* Fetches the files of ranks on other hosts, which share no folder with this one. */
static ls_status complete(const ls_loop *l)
{
    return l->snapshots.apart ? ls_remote_complete(l->snapshots.remote) : LS_OK;
}

ls_status ls_loop_export(ls_loop *l, bool replace)
{
    const char *name = l->recipe->checkpoint.export_to;
    if (l->run->rank)
        return LS_OK;
    if (complete(l) != LS_OK) {
        if (*name)
            return ls_fail_in(LS_E_IO, "checkpoint.export");
        ls_log_warn("%s; the checkpoints here have the files of this host's ranks only, and the same command "
                    "fetches the others",
                    ls_error_message());
    }
    return !*name ? LS_OK : export_to(l, "checkpoint.export", "checkpoints/latest", name, replace);
}

/* ---- at each improvement */

/* Appends `pattern` with values in place of {date} and so on. Other text in braces stays. */
static void fill_in(ls_str *out, const char *pattern, const ls_loop *l, int64_t epoch, double value)
{
    char date[32];
    struct tm parts;
    const time_t now = time(NULL);
    localtime_r(&now, &parts);
    strftime(date, sizeof date, "%Y-%m-%d-%H-%M-%S", &parts);
    while (*pattern) {
        if (!strncmp(pattern, "{date}", 6))
            ls_str_add(out, date);
        else if (!strncmp(pattern, "{epoch}", 7))
            ls_str_printf(out, "%" PRId64, epoch);
        else if (!strncmp(pattern, "{step}", 6))
            ls_str_printf(out, "%" PRId64, l->step);
        else if (!strncmp(pattern, "{value}", 7))
            ls_str_printf(out, "%.4f", value);
        else {
            ls_str_add_n(out, pattern++, 1);
            continue;
        }
        pattern += strcspn(pattern, "}") + 1;
    }
}

ls_status ls_loop_export_best(ls_loop *l, int64_t epoch, double value)
{
    ls_str name = { 0 };
    if (!*l->recipe->checkpoint.export_best || l->run->rank)
        return LS_OK;
    fill_in(&name, l->recipe->checkpoint.export_best, l, epoch, value);
    ls_status s = ls_str_status(&name);
    if (s == LS_OK)
        s = complete(l);
    if (s == LS_OK)
        s = export_to(l, "checkpoint.export_best", "checkpoints/best", name.data, true);
    ls_str_release(&name);
    return s;
}
