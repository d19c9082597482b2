/* remote.c - the bucket of a run, and fetching the run from it (remote.h). */
#include "record/remote_own.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/oserror.h"
#include "base/stop.h"
#include "base/str.h"
#include "base/sys.h"
#include "ckpt/checkpoint.h"
#include "net/s3.h"
#include "record/rundir.h"
#include "record/step_folder.h"

static char *storage_folder(const char *storage)
{
    if (!strncmp(storage, "file://", 7))
        return ls_sys_strdup(storage + 7);
    if (!ls_s3_is(storage))
        return ls_sys_strdup(storage);
    char *cache = ls_cache_dir(), *all = cache ? ls_path_join(cache, "storage") : NULL,
         *folder = all ? ls_path_join(all, storage + 5) : NULL;
    free(all);
    free(cache);
    return folder;
}

char *ls_storage_run(const char *storage, const char *name)
{
    char *folder = storage_folder(storage), *run = folder ? ls_path_join(folder, name) : NULL;
    free(folder);
    return run;
}

ls_status ls_remote_open(ls_remote **out, const char *storage, const char *name)
{
    *out = NULL;
    if (!ls_s3_is(storage))
        return LS_OK;
    ls_str place = { 0 };
    ls_str_printf(&place, "%s/%s", storage, name);
    ls_remote *r = ls_sys_calloc(1, sizeof *r);
    ls_status s = r ? ls_s3_open(&r->s3, ls_str_text(&place))
                    : ls_fail(LS_E_MEMORY, "%s: out of memory", storage);
    if (s == LS_OK) {
        r->folder = ls_storage_run(storage, name);
        r->storage = ls_sys_strdup(ls_str_text(&place));
        s = r->folder && r->storage ? LS_OK : ls_fail(LS_E_MEMORY, "%s: out of memory", storage);
    }
    ls_str_release(&place);
    if (s == LS_OK)
        *out = r;
    else
        ls_remote_close(&r);
    return s;
}

void ls_remote_close(ls_remote **r)
{
    if (!*r)
        return;
    ls_s3_close(&(*r)->s3);
    free((*r)->folder);
    free((*r)->storage);
    free((*r)->done);
    free(*r);
    *r = NULL;
}

const char *ls_remote_folder(const ls_remote *r) { return r->folder; }

/* ---- checkpoints in the bucket, and here */

int64_t ls_remote_step_of(const char *key, const char **file)
{
    static const char PREFIX[] = LS_REMOTE_CHECKPOINTS "/";
    char name[LS_STEP_FOLDER_ROOM];
    const char *begin = key + sizeof PREFIX - 1, *slash;
    *file = "";
    if (strncmp(key, PREFIX, sizeof PREFIX - 1) || !(slash = strchr(begin, '/')) ||
        (size_t)(slash - begin) >= sizeof name)
        return -1;
    snprintf(name, sizeof name, "%.*s", (int)(slash - begin), begin);
    *file = slash + 1;
    return ls_step_folder_parse(name);
}

static int64_t newest_there(const ls_s3_list *l)
{
    const char *file;
    int64_t newest = -1;
    for (size_t i = 0; i < l->n; i++) {
        const int64_t step = ls_remote_step_of(l->at[i].key, &file);
        newest = step > newest && !strcmp(file, LS_REMOTE_MANIFEST) ? step : newest;
    }
    return newest;
}

void ls_remote_add_key(ls_str *out, const char *name, const char *file)
{
    ls_str_printf(out, LS_REMOTE_CHECKPOINTS "/%s/%s", name, file);
}

bool ls_remote_has(const ls_remote *r, const char *name)
{
    ls_str key = { 0 };
    ls_remote_add_key(&key, name, LS_REMOTE_MANIFEST);
    char *path = ls_path_join(r->folder, ls_str_text(&key));
    const bool there = path && ls_file_exists(path);
    free(path);
    ls_str_release(&key);
    return there;
}

bool ls_remote_has_step(const ls_remote *r, int64_t step)
{
    char name[LS_STEP_FOLDER_ROOM];
    return ls_remote_has(r, ls_step_folder(name, step));
}

bool ls_remote_has_all(const ls_remote *r, const char *name)
{
    ls_str folder = { 0 };
    ls_str_printf(&folder, "%s/" LS_REMOTE_CHECKPOINTS "/%s", r->folder, name);
    const bool all = ls_remote_has(r, name) &&
                     ls_checkpoint_verify(ls_str_text(&folder), LS_VERIFY_SIZES, NULL) == LS_OK;
    ls_str_release(&folder);
    return all;
}

static bool has_all_of(const ls_remote *r, int64_t step)
{
    char name[LS_STEP_FOLDER_ROOM];
    return ls_remote_has_all(r, ls_step_folder(name, step));
}

bool ls_remote_is_there(const ls_s3_list *l, const char *key)
{
    for (size_t i = 0; i < l->n; i++)
        if (!strcmp(l->at[i].key, key))
            return true;
    return false;
}

/* The manifest with this key, as it is here and in the bucket; malloc'ed, also after a failure. */
static ls_status manifests(ls_remote *r, const char *key, char **here, size_t *n, char **there, size_t *m)
{
    char *path = ls_path_join(r->folder, key);
    *here = *there = NULL;
    ls_status s = path ? ls_file_read(here, n, path) : ls_fail(LS_E_MEMORY, "%s: out of memory", r->storage);
    if (s == LS_OK)
        s = ls_s3_get(there, m, r->s3, key);
    free(path);
    return s;
}

/* The next line of a manifest, without the comma behind it, that does not depend on trainer.json. NULL: there
 * is none. */
static const char *next_line(const char **at, size_t *n)
{
    while (**at) {
        const char *line = *at;
        *n = strcspn(line, "\n");
        *at = line + *n + (line[*n] == '\n');
        while (*n && strchr(",]", line[*n - 1]))
            --*n;
        if (strncmp(line, "{\"name\":\"trainer.json\"", 22) && strncmp(line, "\"digest\"", 8))
            return line;
    }
    return NULL;
}

/* Whether two checkpoints of one step have the same weights and optimizer state. */
static bool same_tensors(const char *a, const char *b)
{
    for (;;) {
        size_t n = 0, m = 0;
        const char *x = next_line(&a, &n), *y = next_line(&b, &m);
        if (!x || !y)
            return !x && !y;
        if (n != m || memcmp(x, y, n))
            return false;
    }
}

ls_status ls_remote_same_checkpoint(ls_remote *r, const char *key, bool all_files, bool *same)
{
    char *here, *there;
    size_t n = 0, m = 0;
    const ls_status s = manifests(r, key, &here, &n, &there, &m);
    *same = s == LS_OK && (all_files ? n == m && !memcmp(here, there, n) : same_tensors(here, there));
    free(there);
    free(here);
    return s;
}

ls_status ls_remote_steps(const ls_remote *r, int64_t **steps, size_t *n)
{
    char *folder = ls_path_join(r->folder, LS_REMOTE_CHECKPOINTS);
    DIR *d = folder ? opendir(folder) : NULL;
    ls_status s = LS_OK;
    *steps = NULL;
    *n = 0;
    for (const struct dirent *e; s == LS_OK && d && (e = readdir(d));) {
        const int64_t step = ls_step_folder_parse(e->d_name);
        if (step < 0)
            continue;
        int64_t *grown = ls_sys_realloc(*steps, (*n + 1) * sizeof *grown);
        if (!grown) {
            s = ls_fail(LS_E_MEMORY, "%s: out of memory", r->storage);
            break;
        }
        *steps = grown;
        size_t at = (*n)++;
        for (; at > 0 && grown[at - 1] > step; at--)
            grown[at] = grown[at - 1];
        grown[at] = step;
    }
    if (d)
        closedir(d);
    free(folder);
    return s;
}

ls_status ls_remote_with_list(ls_remote *r, const char *name,
                              ls_status (*act)(ls_remote *r, const ls_s3_list *l, const char *name))
{
    ls_str below = { 0 };
    ls_s3_list l;
    ls_remote_add_key(&below, name, "");
    ls_status s = ls_s3_list_all(&l, r->s3, ls_str_text(&below));
    ls_str_release(&below);
    LS_TRY(s);
    s = act(r, &l, name);
    ls_s3_list_release(&l);
    return s;
}

bool ls_remote_again(const ls_remote *r, ls_status s, double began, bool *said)
{
    enum { SLICE_MS = 50, SLICES = 20 };
    if (s != LS_E_IO || ls_now() - began >= r->insists)
        return false;
    if (!*said)
        ls_log_warn("%s; tries again for %g s", ls_error_message(), r->insists);
    *said = true;
    for (int i = 0; i < SLICES && !ls_stop_asked(); i++)
        nanosleep(&(struct timespec){ .tv_nsec = SLICE_MS * 1000000L }, NULL);
    return !ls_stop_asked();
}

/* ---- fetching */

/* Fetches one object; what lies in its place is replaced. */
static ls_status fetch(ls_remote *r, const ls_s3_object *o)
{
    char *path = ls_path_join(r->folder, o->key);
    ls_status s = path ? ls_make_parent(path) : ls_fail(LS_E_MEMORY, "%s: out of memory", r->storage);
    if (s == LS_OK && ls_file_exists(path) && ls_sys_remove(path) != 0)
        s = ls_fail_os(path, "replace", errno);
    if (s == LS_OK)
        s = ls_s3_get_file(r->s3, o, path);
    free(path);
    return s;
}

static bool is_link(const char *key)
{
    return !strcmp(key, LS_REMOTE_CHECKPOINTS "/latest") || !strcmp(key, LS_REMOTE_CHECKPOINTS "/best");
}

/* *step becomes that of the bucket's best checkpoint, if it is whole there and not here; else -1. */
static ls_status find_best(ls_remote *r, const ls_s3_list *l, int64_t *step)
{
    static const char LINK[] = LS_REMOTE_CHECKPOINTS "/best";
    const char *file;
    char *name = NULL;
    size_t size = 0, link = 0;
    int64_t best;
    *step = -1;
    while (link < l->n && strcmp(l->at[link].key, LINK))
        link++;
    if (link == l->n)
        return LS_OK;
    LS_TRY(ls_s3_get(&name, &size, r->s3, LINK));
    best = ls_step_folder_parse(name);
    free(name);
    for (size_t i = 0; best >= 0 && i < l->n && !has_all_of(r, best); i++)
        if (ls_remote_step_of(l->at[i].key, &file) == best && !strcmp(file, LS_REMOTE_MANIFEST))
            *step = best;
    return LS_OK;
}

/* A pointer, as a link, when what it points to is here or comes now. */
static ls_status fetch_link(ls_remote *r, const ls_s3_object *o, int64_t comes, int64_t best)
{
    char *name = NULL, *path = ls_path_join(r->folder, o->key);
    size_t n = 0;
    ls_status s = path ? ls_make_parent(path) : ls_fail(LS_E_MEMORY, "%s: out of memory", r->storage);
    if (s == LS_OK)
        s = ls_s3_get(&name, &n, r->s3, o->key);
    const int64_t step = s == LS_OK ? ls_step_folder_parse(name) : -1;
    if (step >= 0 && (step == comes || step == best || ls_remote_has_step(r, step))) {
        ls_sys_remove(path);
        if (ls_sys_symlink(name, path) != 0)
            s = ls_fail_os(path, "link", errno);
    }
    free(name);
    free(path);
    return s;
}

/* Fetches the files of a checkpoint to a folder; unless `all`, only those that are not there. */
static ls_status fetch_files(ls_remote *r, const ls_s3_list *l, const char *name, const char *folder,
                             bool all)
{
    ls_status s = LS_OK;
    ls_str below = { 0 };
    ls_remote_add_key(&below, name, "");
    for (size_t i = 0; s == LS_OK && i < l->n; i++) {
        const char *file = l->at[i].key + below.len;
        if (strncmp(l->at[i].key, ls_str_text(&below), below.len) || strchr(file, '/'))
            continue;
        char *path = ls_path_join(folder, file);
        s = path ? LS_OK : ls_fail(LS_E_MEMORY, "%s: out of memory", r->storage);
        if (s == LS_OK && (all || !ls_file_exists(path) || ls_file_size(path) != l->at[i].bytes))
            s = ls_s3_get_file(r->s3, &l->at[i], path);
        free(path);
    }
    s = s == LS_OK ? ls_str_status(&below) : s;
    ls_str_release(&below);
    return s;
}

ls_status ls_remote_check(const ls_remote *r, const char *folder, const char *name)
{
    const ls_status s = ls_checkpoint_verify(folder, LS_VERIFY_SIZES, NULL);
    char why[2048];
    snprintf(why, sizeof why, "%s", s == LS_OK ? "" : ls_error_message());
    return s != LS_E_FORMAT && s != LS_E_IO
               ? s
               : ls_fail(s,
                         "%s/" LS_REMOTE_CHECKPOINTS "/%s is damaged in the bucket: %s. Lockstep does not "
                         "fall back to an older checkpoint by itself: delete this one there and its folder "
                         "in %s/" LS_REMOTE_CHECKPOINTS " on every host, and the run continues from the "
                         "checkpoint before it",
                         r->storage, name, why, r->folder);
}

/* Keeps the error message. */
static void remove_quietly(const char *folder)
{
    char message[4096];
    snprintf(message, sizeof message, "%s", ls_error_message());
    (void)ls_checkpoint_remove(folder);
    ls_fail(LS_E_FORMAT, "%s", message);
}

/* The checkpoint under a name of its own first, so that here too it is whole or not there. */
static ls_status fetch_whole(ls_remote *r, const ls_s3_list *l, const char *name, const char *final)
{
    ls_str hidden = { 0 };
    ls_str_printf(&hidden, "%s/" LS_REMOTE_CHECKPOINTS "/.fetching-%s", r->folder, name);
    ls_status s = ls_make_dirs(ls_str_text(&hidden));
    if (s == LS_OK)
        s = fetch_files(r, l, name, ls_str_text(&hidden), true);
    if (s == LS_OK && (s = ls_remote_check(r, ls_str_text(&hidden), name)) != LS_OK)
        remove_quietly(ls_str_text(&hidden)); /* the next start sees what the bucket has then */
    if (s == LS_OK && ls_sys_rename(ls_str_text(&hidden), final) != 0)
        s = ls_fail_os(final, "finish", errno);
    ls_str_release(&hidden);
    return s;
}

ls_status ls_remote_fetch_folder(ls_remote *r, const ls_s3_list *l, const char *name)
{
    ls_str final = { 0 }, key = { 0 };
    bool same = false;
    ls_str_printf(&final, "%s/" LS_REMOTE_CHECKPOINTS "/%s", r->folder, name);
    ls_remote_add_key(&key, name, LS_REMOTE_MANIFEST);
    ls_status s = LS_OK;
    if (!ls_remote_is_there(l, ls_str_text(&key)))
        s = ls_fail(LS_E_FORMAT,
                    "%s has no %s: delete %s on every host, and the run continues from the "
                    "checkpoint before it",
                    r->storage, ls_str_text(&key), ls_str_text(&final));
    else if (ls_remote_has(r, name))
        s = ls_remote_same_checkpoint(r, ls_str_text(&key), true, &same);
    if (s == LS_OK && !same && ls_remote_has(r, name))
        s = ls_checkpoint_remove(ls_str_text(&final));
    if (s == LS_OK && !same)
        s = fetch_whole(r, l, name, ls_str_text(&final));
    else if (s == LS_OK) {
        s = fetch_files(r, l, name, ls_str_text(&final), false);
        s = s == LS_OK ? ls_remote_check(r, ls_str_text(&final), name) : s;
    }
    ls_str_release(&key);
    ls_str_release(&final);
    return s;
}

/* The file that makes a folder a run. */
static bool is_marker(const char *key) { return !strcmp(key, LS_RUN_RECIPE) || !strcmp(key, LS_RUN_CONFIG); }

/* The recipe, or config.txt of a program, last of the files, and the checkpoint behind all: ls_remote_pull
 * sees by them whether everything is here, also after a fetch that was broken off. */
static ls_status fetch_run(ls_remote *r, const ls_s3_list *l, int64_t newest)
{
    const char *file;
    uint64_t bytes = 0;
    char size[32], name[LS_STEP_FOLDER_ROOM];
    int64_t best;
    LS_TRY(find_best(r, l, &best));
    best = best == newest ? -1 : best;
    for (size_t i = 0; i < l->n; i++) {
        const int64_t step = ls_remote_step_of(l->at[i].key, &file);
        bytes += step < 0 || step == newest || step == best ? (uint64_t)l->at[i].bytes : 0;
    }
    ls_log_info("fetching %s (%s) into %s", r->storage, ls_format_bytes(size, bytes), r->folder);
    for (int marker = 0; marker < 2; marker++)
        for (size_t i = 0; i < l->n; i++)
            if (ls_remote_step_of(l->at[i].key, &file) < 0 && !is_link(l->at[i].key) &&
                is_marker(l->at[i].key) == marker)
                LS_TRY(fetch(r, &l->at[i]));
    for (size_t i = 0; i < l->n; i++)
        if (is_link(l->at[i].key))
            LS_TRY(fetch_link(r, &l->at[i], newest, best));
    if (best >= 0)
        LS_TRY(ls_remote_fetch_folder(r, l, ls_step_folder(name, best)));
    return newest >= 0 ? ls_remote_fetch_folder(r, l, ls_step_folder(name, newest)) : LS_OK;
}

/* A path of the bucket's must stay inside the run directory. */
static ls_status check_keys(const ls_remote *r, const ls_s3_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        const char *key = l->at[i].key;
        if (!*key || *key == '/' || strstr(key, "//") || strstr(key, "..") || key[strlen(key) - 1] == '/')
            return ls_fail(LS_E_FORMAT,
                           "%s: the object \"%s\" is not a file of a run; remove it, or name another place",
                           r->storage, key);
    }
    return LS_OK;
}

ls_status ls_remote_pull(ls_remote *r)
{
    if (!r || r->part)
        return LS_OK;
    ls_s3_list l;
    int64_t *steps = NULL, here = -1;
    size_t n = 0;
    LS_TRY(ls_s3_list_all(&l, r->s3, ""));
    ls_status s = check_keys(r, &l);
    if (s == LS_OK)
        s = ls_remote_steps(r, &steps, &n);
    for (size_t i = 0; i < n; i++)
        here = has_all_of(r, steps[i]) ? steps[i] : here;
    free(steps);
    const int64_t newest = newest_there(&l);
    if (s == LS_OK && l.n && (newest > here || !ls_run_is(r->folder)))
        s = fetch_run(r, &l, newest > here ? newest : -1);
    ls_s3_list_release(&l);
    return s == LS_OK ? ls_s3_clean(r->s3, "") : s;
}
