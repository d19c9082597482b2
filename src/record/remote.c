/* remote.c - see remote.h. */
#include "record/remote.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"
#include "base/log.h"
#include "base/oserror.h"
#include "base/str.h"
#include "base/sys.h"
#include "net/s3.h"
#include "record/step_folder.h"

#define CHECKPOINTS "checkpoints"
#define MANIFEST "manifest.json"
#define RECIPE "recipe.yaml"

/* After a request to stop the last checkpoint is still sent, as long as the bucket's server takes it: seconds
 * without a byte. */
static const double PATIENCE = 5;

struct ls_remote {
    ls_s3 *s3;
    char *folder;  /* the run directory on this machine */
    char *storage; /* as the recipe has it, for messages */
    int64_t *done; /* steps whose checkpoints are in the bucket as they are here */
    size_t n_done;
};

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

/* The step of the checkpoint that a key lies in, with *file behind its folder; -1: it lies in none. */
static int64_t remote_step_of(const char *key, const char **file)
{
    static const char PREFIX[] = CHECKPOINTS "/";
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

static bool is_whole(const ls_s3_list *l, int64_t step)
{
    const char *file;
    for (size_t i = 0; i < l->n; i++)
        if (remote_step_of(l->at[i].key, &file) == step && !strcmp(file, MANIFEST))
            return true;
    return false;
}

static int64_t newest_there(const ls_s3_list *l)
{
    const char *file;
    int64_t newest = -1;
    for (size_t i = 0; i < l->n; i++) {
        const int64_t step = remote_step_of(l->at[i].key, &file);
        newest = step > newest && !strcmp(file, MANIFEST) ? step : newest;
    }
    return newest;
}

/* "checkpoints/step-00000468/FILE" */
static void add_key(ls_str *out, int64_t step, const char *file)
{
    char name[LS_STEP_FOLDER_ROOM];
    ls_str_printf(out, CHECKPOINTS "/%s/%s", ls_step_folder(name, step), file);
}

/* Whether checkpoint `step` is whole here. */
static bool is_here(const ls_remote *r, int64_t step)
{
    ls_str key = { 0 };
    add_key(&key, step, MANIFEST);
    char *path = ls_path_join(r->folder, ls_str_text(&key));
    const bool there = path && ls_file_exists(path);
    free(path);
    ls_str_release(&key);
    return there;
}

/* The steps of the folders of checkpoints here, newest last; *n of them; malloc'ed. */
static ls_status steps_here(const ls_remote *r, int64_t **steps, size_t *n)
{
    char *folder = ls_path_join(r->folder, CHECKPOINTS);
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
    return !strcmp(key, CHECKPOINTS "/latest") || !strcmp(key, CHECKPOINTS "/best");
}

/* A pointer, as a link, when what it points to is here or comes now. */
static ls_status fetch_link(ls_remote *r, const ls_s3_object *o, int64_t comes)
{
    char *name = NULL, *path = ls_path_join(r->folder, o->key);
    size_t n = 0;
    ls_status s = path ? ls_make_parent(path) : ls_fail(LS_E_MEMORY, "%s: out of memory", r->storage);
    if (s == LS_OK)
        s = ls_s3_get(&name, &n, r->s3, o->key);
    const int64_t step = s == LS_OK ? ls_step_folder_parse(name) : -1;
    if (step >= 0 && (step == comes || is_here(r, step))) {
        ls_sys_remove(path);
        if (ls_sys_symlink(name, path) != 0)
            s = ls_fail_os(path, "link", errno);
    }
    free(name);
    free(path);
    return s;
}

/* The checkpoint under a name of its own first, so that here too it is whole or not there. */
static ls_status fetch_checkpoint(ls_remote *r, const ls_s3_list *l, int64_t step)
{
    char name[LS_STEP_FOLDER_ROOM];
    ls_step_folder(name, step);
    ls_str hidden = { 0 };
    ls_str_printf(&hidden, "%s/" CHECKPOINTS "/.fetching-%s", r->folder, name);
    ls_status s = ls_make_dirs(ls_str_text(&hidden));
    for (size_t i = 0; s == LS_OK && i < l->n; i++) {
        const char *file;
        if (remote_step_of(l->at[i].key, &file) != step || strchr(file, '/'))
            continue;
        char *path = ls_path_join(ls_str_text(&hidden), file);
        s = path ? ls_s3_get_file(r->s3, &l->at[i], path)
                 : ls_fail(LS_E_MEMORY, "%s: out of memory", r->storage);
        free(path);
    }
    ls_str final = { 0 };
    ls_str_printf(&final, "%s/" CHECKPOINTS "/%s", r->folder, name);
    if (s == LS_OK && ls_sys_rename(ls_str_text(&hidden), ls_str_text(&final)) != 0)
        s = ls_fail_os(ls_str_text(&final), "finish", errno);
    ls_str_release(&final);
    ls_str_release(&hidden);
    return s;
}

/* The recipe last of the files, and the checkpoint behind all: ls_remote_pull sees by them whether everything
 * is here, also after a fetch that was broken off. */
static ls_status fetch_run(ls_remote *r, const ls_s3_list *l, int64_t newest)
{
    const char *file;
    uint64_t bytes = 0;
    char size[32];
    for (size_t i = 0; i < l->n; i++) {
        const int64_t step = remote_step_of(l->at[i].key, &file);
        bytes += step < 0 || step == newest ? (uint64_t)l->at[i].bytes : 0;
    }
    ls_log_info("fetching %s (%s) into %s", r->storage, ls_format_bytes(size, bytes), r->folder);
    for (int recipe = 0; recipe < 2; recipe++)
        for (size_t i = 0; i < l->n; i++)
            if (remote_step_of(l->at[i].key, &file) < 0 && !is_link(l->at[i].key) &&
                (strcmp(l->at[i].key, RECIPE) == 0) == recipe)
                LS_TRY(fetch(r, &l->at[i]));
    for (size_t i = 0; i < l->n; i++)
        if (is_link(l->at[i].key))
            LS_TRY(fetch_link(r, &l->at[i], newest));
    return newest >= 0 ? fetch_checkpoint(r, l, newest) : LS_OK;
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
    if (!r)
        return LS_OK;
    ls_s3_list l;
    int64_t *steps = NULL, here = -1;
    size_t n = 0;
    LS_TRY(ls_s3_list_all(&l, r->s3, ""));
    ls_status s = check_keys(r, &l);
    if (s == LS_OK)
        s = steps_here(r, &steps, &n);
    for (size_t i = 0; i < n; i++)
        here = is_here(r, steps[i]) ? steps[i] : here;
    free(steps);
    char *recipe = ls_path_join(r->folder, RECIPE);
    const int64_t newest = newest_there(&l);
    if (s == LS_OK && l.n && (newest > here || !ls_file_exists(recipe)))
        s = fetch_run(r, &l, newest > here ? newest : -1);
    free(recipe);
    ls_s3_list_release(&l);
    return s == LS_OK ? ls_s3_clean(r->s3, "") : s;
}

/* ---- sending */

static ls_status send(ls_remote *r, const char *key)
{
    char *path = ls_path_join(r->folder, key);
    const ls_status s = path ? ls_s3_put_file(r->s3, key, path)
                             : ls_fail(LS_E_MEMORY, "%s: out of memory", r->storage);
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

/* Whether the bucket's checkpoint with this manifest is as good as the one here. It is left alone then, even
 * if it lacks the end of its epoch, which the next start would do again: to replace it means that for some
 * time there is none. */
static ls_status same_checkpoint(ls_remote *r, const char *key, bool *same)
{
    char *path = ls_path_join(r->folder, key), *here = NULL, *there = NULL;
    size_t n = 0, m = 0;
    ls_status s = path ? ls_file_read(&here, &n, path)
                       : ls_fail(LS_E_MEMORY, "%s: out of memory", r->storage);
    if (s == LS_OK)
        s = ls_s3_get(&there, &m, r->s3, key);
    *same = s == LS_OK && same_tensors(here, there);
    free(there);
    free(here);
    free(path);
    return s;
}

/* The files of a checkpoint, the manifest last. */
static ls_status send_files(ls_remote *r, int64_t step)
{
    ls_str key = { 0 };
    add_key(&key, step, "");
    char *folder = ls_path_join(r->folder, ls_str_text(&key));
    DIR *d = folder ? opendir(folder) : NULL;
    ls_status s = d ? LS_OK : ls_fail_os(folder ? folder : r->folder, "read", errno);
    for (const struct dirent *e; s == LS_OK && (e = readdir(d));) {
        if (*e->d_name == '.' || !strcmp(e->d_name, MANIFEST))
            continue;
        ls_str_clear(&key);
        add_key(&key, step, e->d_name);
        s = send(r, ls_str_text(&key));
    }
    if (d)
        closedir(d);
    free(folder);
    ls_str_clear(&key);
    add_key(&key, step, MANIFEST);
    if (s == LS_OK)
        s = send(r, ls_str_text(&key));
    ls_str_release(&key);
    return s;
}

static ls_status send_checkpoint(ls_remote *r, const ls_s3_list *l, int64_t step)
{
    for (size_t i = 0; i < r->n_done; i++)
        if (r->done[i] == step)
            return LS_OK;
    ls_str manifest = { 0 };
    bool same = false;
    ls_status s = LS_OK;
    add_key(&manifest, step, MANIFEST);
    if (is_whole(l, step)) { /* perhaps another one of this step */
        s = same_checkpoint(r, ls_str_text(&manifest), &same);
        if (s == LS_OK && !same)
            s = ls_s3_remove(r->s3, ls_str_text(&manifest));
    }
    ls_str_release(&manifest);
    if (s == LS_OK && !same)
        s = send_files(r, step);
    int64_t *grown = s == LS_OK ? ls_sys_realloc(r->done, (r->n_done + 1) * sizeof *grown) : NULL;
    if (grown) { /* without memory for it the next call compares again */
        r->done = grown;
        r->done[r->n_done++] = step;
    }
    return s;
}

/* The checkpoints that are gone here, or half: the manifests first, so that none is taken for whole. */
static ls_status remove_gone(ls_remote *r, const ls_s3_list *l)
{
    for (int manifests = 1; manifests >= 0; manifests--)
        for (size_t i = 0; i < l->n; i++) {
            const char *file;
            const int64_t step = remote_step_of(l->at[i].key, &file);
            if (step >= 0 && !is_here(r, step) && (strcmp(file, MANIFEST) == 0) == manifests)
                LS_TRY(ls_s3_remove(r->s3, l->at[i].key));
        }
    return LS_OK;
}

static ls_status send_links(ls_remote *r)
{
    static const char *const LINKS[] = { CHECKPOINTS "/latest", CHECKPOINTS "/best" };
    for (int i = 0; i < 2; i++) {
        char *path = ls_path_join(r->folder, LINKS[i]), name[64] = "";
        const ssize_t n = path ? readlink(path, name, sizeof name - 1) : -1;
        free(path);
        if (n > 0)
            LS_TRY(ls_s3_put(r->s3, LINKS[i], name, (size_t)n));
    }
    return LS_OK;
}

/* The files of the folder `below` of the run ("", "log/"), without those of checkpoints. */
static ls_status send_rest(ls_remote *r, const char *below)
{
    char *folder = ls_path_join(r->folder, below);
    DIR *d = folder ? opendir(folder) : NULL;
    ls_status s = LS_OK;
    for (const struct dirent *e; s == LS_OK && d && (e = readdir(d));) {
        char *path = ls_path_join(folder, e->d_name);
        struct stat st;
        ls_str key = { 0 };
        ls_str_printf(&key, "%s%s", below, e->d_name);
        const bool skip = *e->d_name == '.' || !path || lstat(path, &st) != 0 || strstr(e->d_name, ".tmp-") ||
                          !strcmp(ls_str_text(&key), "lock.txt") || !strcmp(ls_str_text(&key), CHECKPOINTS);
        if (!skip && S_ISREG(st.st_mode))
            s = send(r, ls_str_text(&key));
        if (!skip && S_ISDIR(st.st_mode)) {
            ls_str_add(&key, "/");
            s = send_rest(r, ls_str_text(&key));
        }
        ls_str_release(&key);
        free(path);
    }
    if (d)
        closedir(d);
    free(folder);
    return s;
}

static ls_status push(ls_remote *r)
{
    ls_s3_list l;
    int64_t *steps = NULL;
    size_t n = 0;
    LS_TRY(ls_s3_list_all(&l, r->s3, CHECKPOINTS "/"));
    ls_status s = steps_here(r, &steps, &n);
    for (size_t i = 0; s == LS_OK && i < n; i++)
        if (is_here(r, steps[i]))
            s = send_checkpoint(r, &l, steps[i]);
    if (s == LS_OK)
        s = send_links(r); /* they must not point to what goes now */
    if (s == LS_OK)
        s = remove_gone(r, &l);
    if (s == LS_OK)
        s = send_rest(r, "");
    free(steps);
    ls_s3_list_release(&l);
    return s;
}

ls_status ls_remote_push(ls_remote *r)
{
    if (!r)
        return LS_OK;
    ls_s3_set_patience(r->s3, PATIENCE);
    const ls_status s = push(r);
    ls_s3_set_patience(r->s3, 0);
    return s;
}
