/* remote_send.c - copies a run to its bucket (remote.h). */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/oserror.h"
#include "base/sys.h"
#include "record/remote_own.h"
#include "record/step_folder.h"

static ls_status send(ls_remote *r, const char *key)
{
    char *path = ls_path_join(r->folder, key);
    const ls_status s = path ? ls_s3_put_file(r->s3, key, path)
                             : ls_fail(LS_E_MEMORY, "%s: out of memory", r->storage);
    free(path);
    return s;
}

/* The files of a checkpoint, the manifest last. */
static ls_status send_files(ls_remote *r, const char *name)
{
    ls_str key = { 0 };
    ls_remote_add_key(&key, name, "");
    char *folder = ls_path_join(r->folder, ls_str_text(&key));
    DIR *d = folder ? opendir(folder) : NULL;
    ls_status s = d ? LS_OK : ls_fail_os(folder ? folder : r->folder, "read", errno);
    for (const struct dirent *e; s == LS_OK && (e = readdir(d));) {
        if (*e->d_name == '.' || !strcmp(e->d_name, LS_REMOTE_MANIFEST))
            continue;
        ls_str_clear(&key);
        ls_remote_add_key(&key, name, e->d_name);
        s = send(r, ls_str_text(&key));
    }
    if (d)
        closedir(d);
    free(folder);
    ls_str_clear(&key);
    ls_remote_add_key(&key, name, LS_REMOTE_MANIFEST);
    if (s == LS_OK)
        s = send(r, ls_str_text(&key));
    ls_str_release(&key);
    return s;
}

ls_status ls_remote_send_folder(ls_remote *r, const ls_s3_list *l, const char *name)
{
    ls_str manifest = { 0 };
    bool same = false;
    ls_status s = LS_OK;
    if (!ls_remote_has_all(r, name))
        return LS_OK;
    ls_remote_add_key(&manifest, name, LS_REMOTE_MANIFEST);
    if (ls_remote_is_there(l, ls_str_text(&manifest))) {
        s = ls_remote_same_checkpoint(r, ls_str_text(&manifest), ls_step_folder_parse(name) < 0, &same);
        if (s == LS_OK && !same)
            s = ls_s3_remove(r->s3, ls_str_text(&manifest));
    }
    ls_str_release(&manifest);
    return s == LS_OK && !same ? send_files(r, name) : s;
}

static ls_status send_step(ls_remote *r, const ls_s3_list *l, int64_t step)
{
    char name[LS_STEP_FOLDER_ROOM];
    for (size_t i = 0; i < r->n_done; i++)
        if (r->done[i] == step)
            return LS_OK;
    const ls_status s = ls_remote_send_folder(r, l, ls_step_folder(name, step));
    int64_t *grown = s == LS_OK ? ls_sys_realloc(r->done, (r->n_done + 1) * sizeof *grown) : NULL;
    if (grown) { /* without memory for it the next call compares again */
        r->done = grown;
        r->done[r->n_done++] = step;
    }
    return s;
}

/* Those of a user's program that have names of their own. */
static ls_status send_named(ls_remote *r, const ls_s3_list *l)
{
    char *folder = ls_path_join(r->folder, LS_REMOTE_CHECKPOINTS);
    DIR *d = folder ? opendir(folder) : NULL;
    ls_status s = LS_OK;
    for (const struct dirent *e; s == LS_OK && d && (e = readdir(d));)
        if (*e->d_name != '.' && ls_step_folder_parse(e->d_name) < 0 && strcmp(e->d_name, "latest") &&
            strcmp(e->d_name, "best") && ls_remote_has(r, e->d_name))
            s = ls_remote_send_folder(r, l, e->d_name);
    if (d)
        closedir(d);
    free(folder);
    return s;
}

/* The checkpoints of steps that are gone here, or half: the manifests first, so that none is taken for whole.
 */
static ls_status remove_gone(ls_remote *r, const ls_s3_list *l)
{
    for (int manifests = 1; manifests >= 0; manifests--)
        for (size_t i = 0; i < l->n; i++) {
            const char *file;
            const int64_t step = ls_remote_step_of(l->at[i].key, &file);
            if (step >= 0 && !ls_remote_has_step(r, step) &&
                (strcmp(file, LS_REMOTE_MANIFEST) == 0) == manifests)
                LS_TRY(ls_s3_remove(r->s3, l->at[i].key));
        }
    return LS_OK;
}

static ls_status send_links(ls_remote *r)
{
    static const char *const LINKS[] = { LS_REMOTE_CHECKPOINTS "/latest", LS_REMOTE_CHECKPOINTS "/best" };
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
                          !strcmp(ls_str_text(&key), "lock.txt") ||
                          !strcmp(ls_str_text(&key), LS_REMOTE_CHECKPOINTS);
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
    LS_TRY(ls_s3_list_all(&l, r->s3, LS_REMOTE_CHECKPOINTS "/"));
    ls_status s = ls_remote_steps(r, &steps, &n);
    for (size_t i = 0; s == LS_OK && i < n; i++)
        if (ls_remote_has_step(r, steps[i]))
            s = send_step(r, &l, steps[i]);
    if (s == LS_OK)
        s = send_named(r, &l);
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
    if (!r || r->part)
        return LS_OK;
    ls_s3_set_patience(r->s3, LS_REMOTE_PATIENCE);
    const ls_status s = push(r);
    ls_s3_set_patience(r->s3, 0);
    return s;
}
