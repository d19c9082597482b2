/* checkpoint.c - checkpoint directories as transactions: written under a name that nobody reads, renamed when whole. Removal goes the same
 * way back. Whatever an interrupted process leaves under such a name is deleted by the next save in that folder. */
#include "ckpt/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "base/oserror.h"
#include "ckpt/manifest.h"

#define UNFINISHED ".lockstep-unfinished-" /* a name that begins so is nobody's checkpoint */

/* PATH without trailing slashes, cut into parent and name. All malloc'ed. */
typedef struct place {
    char *dir, *parent, *name;
    char *unfinished; /* PARENT/UNFINISHED NAME */
} place;

static void place_init(place *p, const char *dir)
{
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/')
        n--;
    p->dir = strndup(dir, n);
    LS_CHECK(p->dir != NULL, "out of memory");
    const char *slash = strrchr(p->dir, '/');
    p->parent = !slash ? strdup(".") : slash == p->dir ? strdup("/") : strndup(p->dir, (size_t)(slash - p->dir));
    p->name = strdup(slash ? slash + 1 : p->dir);
    char *hidden;
    LS_CHECK(p->parent && p->name && asprintf(&hidden, UNFINISHED "%s", p->name) >= 0, "out of memory");
    p->unfinished = ls_path_join(p->parent, hidden);
    free(hidden);
}

static void place_release(place *p)
{
    free(p->dir);
    free(p->parent);
    free(p->name);
    free(p->unfinished);
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st, (void)kind, (void)where;
    return remove(path);
}

/* Says nothing: what cannot be deleted is met again, with a message, when its name is needed. */
static void remove_tree(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void remove_unfinished(const char *parent)
{
    DIR *d = opendir(parent);
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (strncmp(e->d_name, UNFINISHED, strlen(UNFINISHED)) == 0) {
            char *path = ls_path_join(parent, e->d_name);
            remove_tree(path);
            free(path);
        }
    closedir(d);
}

static ls_status sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return ls_fail_os(path, "open", errno);
    int error = fsync(fd) != 0 && errno != EINVAL ? errno : 0; /* some file systems cannot sync a folder, and need not */
    close(fd);
    return error ? ls_fail_os(path, "sync", error) : LS_OK;
}

static ls_status rename_to(const char *from, const char *to)
{
    return rename(from, to) == 0 ? LS_OK : ls_fail_os(to, "create", errno);
}

static ls_status write_text(const char *dir, const char *name, const char *text)
{
    json_t *parsed = NULL;
    LS_TRY(ls_json_parse(&parsed, text, strlen(text), name)); /* a checkpoint that cannot be read must not be written */
    json_decref(parsed);
    char *path = ls_path_join(dir, name);
    ls_status s = ls_file_write(path, text, strlen(text));
    free(path);
    return s;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int not_dots(const struct dirent *e)
{
    return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

/* The manifest of everything that was written. */
static ls_status write_manifest(const char *dir)
{
    struct dirent **list = NULL;
    int n = scandir(dir, &list, not_dots, by_name);
    if (n < 0)
        return ls_fail_os(dir, "list", errno);
    const char **names = calloc((size_t)n + 1, sizeof *names);
    LS_CHECK(names != NULL, "out of memory");
    for (int i = 0; i < n; i++)
        names[i] = list[i]->d_name;
    ls_status s = ls_manifest_write(dir, n, names);
    for (int i = 0; i < n; i++)
        free(list[i]);
    free(list);
    free(names);
    return s;
}

static ls_status fill(const char *dir, const char *config, const char *trainer, int64_t n, const ls_named_tensor *tensors, uint64_t max_file)
{
    if (mkdir(dir, 0777) != 0)
        return ls_fail_os(dir, "create folder", errno);
    LS_TRY(write_text(dir, "config.json", config));
    LS_TRY(ls_weights_save_dir(dir, max_file, n, tensors));
    LS_TRY(write_text(dir, "trainer.json", trainer));
    return write_manifest(dir); /* each write has synced its file and, after its rename, the folder */
}

ls_status ls_checkpoint_save_model(const char *dir, const char *config, const char *trainer, int64_t n, const ls_named_tensor *tensors,
                                   const ls_checkpoint_opts *o)
{
    place p;
    struct stat st;
    place_init(&p, dir);
    ls_status s;
    if (lstat(p.dir, &st) == 0) {
        s = ls_fail(LS_E_IO, "%s: already there; a checkpoint is never overwritten: remove it, or save under another name", p.dir);
        goto done;
    }
    LS_TRY_TO(s, ls_make_dirs(p.parent), done);
    remove_unfinished(p.parent);
    s = fill(p.unfinished, config, trainer, n, tensors, o->max_file);
    if (s == LS_OK)
        s = rename_to(p.unfinished, p.dir);
    if (s == LS_OK)
        s = sync_folder(p.parent);
    if (s != LS_OK) {
        remove_tree(p.unfinished);
        ls_fail_in(s, "saving checkpoint %s", p.dir);
    }
done:
    place_release(&p);
    return s;
}

ls_status ls_checkpoint_verify(const char *dir, ls_verify how, int *files)
{
    return ls_manifest_check(dir, how, files);
}

static ls_status read_text(char **out, const char *dir, const char *name)
{
    char *path = ls_path_join(dir, name);
    size_t size = 0;
    ls_status s = ls_file_read(out, &size, path);
    free(path);
    return s;
}

ls_status ls_checkpoint_open(ls_checkpoint *out, const char *dir, ls_verify how)
{
    ls_checkpoint c = { 0 };
    ls_status s;
    LS_TRY_TO(s, ls_manifest_check(dir, how, NULL), failed);
    LS_TRY_TO(s, read_text(&c.config, dir, "config.json"), failed);
    LS_TRY_TO(s, read_text(&c.trainer, dir, "trainer.json"), failed);
    LS_TRY_TO(s, ls_weights_open(&c.weights, dir), failed);
    c.dir = strdup(dir);
    LS_CHECK(c.dir != NULL, "out of memory");
    *out = c;
    return LS_OK;
failed:
    ls_checkpoint_release(&c);
    *out = c;
    return s;
}

void ls_checkpoint_release(ls_checkpoint *c)
{
    free(c->dir);
    free(c->config);
    free(c->trainer);
    ls_weights_close(&c->weights);
    *c = (ls_checkpoint){ 0 };
}

bool ls_checkpoint_is(const char *dir)
{
    char *path = ls_path_join(dir, LS_MANIFEST);
    bool there = ls_file_exists(path);
    free(path);
    return there;
}

ls_status ls_checkpoint_point(const char *parent, const char *link, const char *name)
{
    char hidden[300];
    snprintf(hidden, sizeof hidden, UNFINISHED "%.250s", link);
    char *temporary = ls_path_join(parent, hidden), *path = ls_path_join(parent, link);
    struct stat st;
    ls_status s;
    if (lstat(path, &st) == 0 && !S_ISLNK(st.st_mode)) {
        s = ls_fail(LS_E_IO, "%s: is there and not a symbolic link: move it away", path);
        goto done;
    }
    unlink(temporary);
    if (symlink(name, temporary) != 0) {
        s = ls_fail_os(path, "link", errno);
        goto done;
    }
    s = rename_to(temporary, path);
    if (s == LS_OK)
        s = sync_folder(parent);
    else
        unlink(temporary);
done:
    free(temporary);
    free(path);
    return s;
}

ls_status ls_checkpoint_remove(const char *dir)
{
    place p;
    place_init(&p, dir);
    ls_status s;
    struct stat st;
    if (lstat(p.dir, &st) != 0)
        s = ls_fail_os(p.dir, "remove", errno);
    else if (!S_ISDIR(st.st_mode) || !ls_checkpoint_is(p.dir))
        s = ls_fail(LS_E_ARG, "%s: not a checkpoint (no " LS_MANIFEST "); not removed", p.dir);
    else {
        remove_tree(p.unfinished);
        s = rename(p.dir, p.unfinished) == 0 ? sync_folder(p.parent) : ls_fail_os(p.dir, "remove", errno);
        if (s == LS_OK)
            remove_tree(p.unfinished);
    }
    place_release(&p);
    return s;
}
