/* run_list.c - the runs of a folder. */
#include "run_list.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/oserror.h"
#include "base/sys.h"
#include "record/rundir.h"

ls_metric_list ls_run_list_metrics(const ls_run_list *l)
{
    ls_metric_list out = { .n = 0 };
    for (int r = 0; r < l->n; r++)
        for (int k = 0; !l->at[r].broken && k < l->at[r].info.named.n; k++) {
            const ls_metric *m = &l->at[r].info.named.at[k];
            if (!isnan(m->value) && strcmp(m->name, "loss"))
                ls_metric_list_set(&out, m->name, NAN);
        }
    return out;
}

/* A damaged run is in the list with its error. */
static ls_status run_list_add(ls_run_list *l, const char *storage, const char *name)
{
    char *dir = ls_path_join(storage, name);
    if (!ls_run_is(dir)) {
        const ls_status s = ls_sys_have(dir);
        free(dir);
        return s;
    }
    ls_run_entry *more = ls_sys_grow(l->at, l->n, &l->cap, sizeof *l->at);
    l->at = more ? more : l->at;
    if (!more || !(more[l->n].name = ls_sys_strdup(name))) {
        free(dir);
        return ls_fail(LS_E_MEMORY, "%s: no memory for the list of runs", storage);
    }
    ls_run_entry *e = &l->at[l->n++];
    e->dir = dir;
    e->broken = NULL;
    e->info = (ls_run_info){ .attempt = 0 };
    if (ls_run_info_read(&e->info, dir) == LS_OK)
        return LS_OK;
    e->broken = ls_sys_strdup(ls_error_message());
    return ls_sys_have(e->broken);
}

static ls_status no_such_folder(const char *storage)
{
    char *run = ls_path_join("runs", storage);
    const bool is = run && ls_run_is(run);
    free(run);
    return is ? ls_fail(
                    LS_E_USAGE,
                    "%s: no such folder of runs; it is a run in runs/, whose epochs `lockstep runs --metrics "
                    "%s` shows",
                    storage, storage)
              : ls_fail(LS_E_USAGE, "%s: no such folder of runs", storage);
}

ls_status ls_run_list_read(ls_run_list *out, const char *storage)
{
    struct dirent **entries;
    const int n = scandir(storage, &entries, NULL, alphasort);
    *out = (ls_run_list){ 0 };
    if (n < 0 && errno != ENOENT)
        return ls_fail_os(storage, "read", errno);
    if (n < 0)
        return strcmp(storage, "runs") ? no_such_folder(storage) : LS_OK;
    ls_status s = LS_OK;
    for (int i = 0; i < n; i++) {
        if (s == LS_OK && entries[i]->d_name[0] != '.')
            s = run_list_add(out, storage, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return s;
}

void ls_run_list_release(ls_run_list *l)
{
    for (int i = 0; i < l->n; i++) {
        free(l->at[i].name);
        free(l->at[i].dir);
        free(l->at[i].broken);
        ls_run_info_release(&l->at[i].info);
    }
    free(l->at);
    *l = (ls_run_list){ 0 };
}

/* When a run last wrote, by the times of its files; 0: it is not a run. */
static double last_write(const char *dir)
{
    static const char *const FILES[] = { LS_RUN_RECIPE, LS_RUN_CONFIG, "result.json", "metrics.jsonl" };
    double latest = 0;
    for (size_t i = 0; ls_run_is(dir) && i < sizeof FILES / sizeof FILES[0]; i++) {
        char *path = ls_path_join(dir, FILES[i]);
        struct stat info;
        if (path && stat(path, &info) == 0)
            latest = fmax(latest, (double)info.st_mtim.tv_sec + 1e-9 * (double)info.st_mtim.tv_nsec);
        free(path);
    }
    return latest;
}

ls_status ls_runs_latest(char **out, const char *storage)
{
    DIR *dir = opendir(storage);
    double latest = 0;
    ls_status s = LS_OK;
    *out = NULL;
    if (!dir)
        return errno == ENOENT || errno == ENOTDIR ? LS_OK : ls_fail_os(storage, "read", errno);
    for (const struct dirent *e; s == LS_OK && (e = readdir(dir));) {
        if (*e->d_name == '.')
            continue;
        char *path = ls_path_join(storage, e->d_name);
        const double at = path ? last_write(path) : 0;
        s = ls_sys_have(path);
        if (at > latest) {
            free(*out);
            *out = path;
            latest = at;
        } else {
            free(path);
        }
    }
    closedir(dir);
    return s;
}
