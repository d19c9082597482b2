/* checkpoint.c - checkpoint folders as transactions. A checkpoint is written under a temporary name, and
 * renamed when it is complete; to remove it, it is renamed back first. What an interrupted process leaves
 * under a temporary name is deleted by the next save to the same folder. */
#include "ckpt/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/oserror.h"
#include "base/sys.h"
#include "ckpt/folder.h"
#include "ckpt/rank_files.h"
#include "ckpt/ranges.h"
#include "comm/agree.h"

/* Calls `act` for each entry whose name begins with `prefix`, with the rest of the name. parent NULL: there
 * was no memory for it, which the caller reports. */
static void each(const char *parent, const char *prefix, void (*act)(const char *parent, const char *rest))
{
    DIR *d = parent ? opendir(parent) : NULL;
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (strncmp(e->d_name, prefix, strlen(prefix)) == 0)
            act(parent, e->d_name + strlen(prefix));
    closedir(d);
}

char *ls_checkpoint_unfinished(const char *parent, const char *name)
{
    return ls_sys_text("%s/" LS_UNFINISHED "%s", parent, name);
}

static void remove_unfinished(const char *parent, const char *name)
{
    char *path = ls_checkpoint_unfinished(parent, name);
    if (path)
        ls_remove_tree(path);
    free(path);
}

void ls_checkpoint_settle(const char *parent) { each(parent, LS_REPLACED, ls_folder_settle); }

void ls_checkpoint_clean(const char *parent)
{
    ls_checkpoint_settle(parent);
    each(parent, LS_UNFINISHED, remove_unfinished);
}

ls_status ls_checkpoint_together(ls_group *g, ls_status s)
{
    if (g && s != LS_OK && s != LS_E_PEER)
        ls_group_fail(g, s, ls_error_message());
    return g && s == LS_OK ? ls_group_barrier(g) : s;
}

struct ls_saving {
    ls_folder folder; /* made by rank 0 */
    ls_group *group;
    ls_ranges ranges;
    ls_away away; /* send NULL: all ranks see the folder */
};

/* Adds the checkpoint's name to the message of a failed part of a save. */
static ls_status of_saving(const ls_saving *v, ls_status s)
{
    return s == LS_OK || s == LS_E_PEER ? s : ls_fail_in(s, "saving checkpoint %s", v->folder.dir);
}

/* Whether this rank makes the folder: rank 0 does, and of hosts that share none the first rank of each. */
static bool makes_folder(const ls_saving *v)
{
    return v->ranges.rank == 0 || (v->away.send && ls_group_local_rank(v->group) == 0);
}

static ls_status make_files(void *context)
{
    ls_saving *v = context;
    ls_checkpoint_clean(v->folder.parent);
    LS_TRY(ls_folder_begin(&v->folder));
    if (v->ranges.rank)
        return LS_OK;
    if (v->away.send)
        LS_TRY(v->away.clear(v->away.context, v->folder.name));
    return ls_ranges_create(&v->ranges);
}

/* When rank 0 has made its files. */
static ls_status find_files(ls_saving *v)
{
    if (!v->away.send)
        LS_TRY(ls_ranges_find(&v->ranges));
    return v->ranges.per_rank && v->ranges.rank > 0 ? ls_ranges_create(&v->ranges) : LS_OK;
}

ls_status ls_saving_begin(ls_saving **out, const char *dir, const ls_checkpoint_contents *c, ls_group *g)
{
    g = g && ls_group_size(g) > 1 ? g : NULL; /* one rank asks nobody, so its thread may end the save */
    ls_saving *v = *out = ls_sys_calloc(1, sizeof *v);
    if (!v)
        return ls_checkpoint_together(g, ls_fail(LS_E_MEMORY, "saving checkpoint %s: no memory", dir));
    v->group = g;
    ls_status s = ls_folder_init(&v->folder, dir);
    if (s == LS_OK)
        s = ls_ranges_init(&v->ranges, v->folder.unfinished, c, g ? ls_group_rank(g) : 0,
                           g ? ls_group_size(g) : 1);
    if (c->away && g)
        v->away = *c->away;
    v->folder.replace = c->replace || (v->away.send && v->ranges.rank); /* a copy that was fetched */
    if (c->per_rank) /* (the sizes of the other ranks' files are not known) */
        s = ls_checkpoint_together(g, of_saving(v, s));
    if (s == LS_OK)
        s = ls_ranges_list(&v->ranges, g);
    if (s == LS_OK && v->away.send)
        s = ls_ranks_await(g, makes_folder(v) ? make_files : NULL, v);
    else if (s == LS_OK && v->ranges.rank == 0)
        s = make_files(v);
    s = ls_checkpoint_together(g, of_saving(v, s));
    if (s == LS_OK)
        s = ls_checkpoint_together(g, of_saving(v, find_files(v)));
    if (s != LS_OK)
        ls_saving_end(out);
    return s;
}

static ls_status send_file(const ls_saving *v, const char *file)
{
    char *path = ls_path_join(v->folder.unfinished, file);
    const ls_status s = path ? v->away.send(v->away.context, v->folder.name, file, path) : ls_sys_have(path);
    free(path);
    return s;
}

/* This rank's files of tensors; rank 0's texts, which are behind those of all ranks. */
static ls_status send_files(void *context)
{
    const ls_saving *v = context;
    const ls_ranges *w = &v->ranges;
    if (w->gone)
        return LS_OK;
    for (int l = 0; l < w->n_lists; l++)
        LS_TRY(send_file(v, w->layouts[l].files->name));
    for (int k = w->n_lists * w->ranks; k < w->manifest.n_files; k++)
        LS_TRY(send_file(v, w->manifest.files[k].name));
    return LS_OK;
}

ls_status ls_saving_write(ls_saving *v)
{
    ls_status s = ls_ranges_write(&v->ranges);
    if (s == LS_OK && v->away.send)
        s = send_files(v);
    return of_saving(v, s);
}

ls_status ls_saving_collect(ls_saving *v) { return of_saving(v, ls_ranges_collect(&v->ranges, v->group)); }

ls_status ls_saving_commit(ls_saving *v)
{
    if (v->ranges.rank)
        return LS_OK;
    ls_status s = v->away.send ? LS_OK : ls_ranges_prove(&v->ranges); /* (the others' files are elsewhere) */
    if (s == LS_OK)
        s = ls_ranges_write_manifest(&v->ranges);
    if (s == LS_OK && v->away.send)
        s = send_file(v, LS_MANIFEST);
    if (s == LS_OK)
        s = ls_folder_commit(&v->folder);
    return of_saving(v, s);
}

ls_saved ls_saving_result(const ls_saving *v)
{
    const ls_ranges *w = &v->ranges;
    const bool optimizer = w->n_lists > 1 && !strcmp(w->names[1], "optimizer");
    return (ls_saved){ w->bytes, w->digests[0], optimizer ? w->digests[1] : 0 };
}

void ls_saving_end(ls_saving **out)
{
    ls_saving *v = *out;
    if (!v)
        return;
    ls_ranges_release(&v->ranges);
    ls_folder_release(&v->folder);
    free(v);
    *out = NULL;
}

ls_status ls_checkpoint_save(const char *dir, const ls_checkpoint_contents *c, ls_group *g, ls_saved *saved)
{
    ls_saving *v;
    LS_TRY(ls_saving_begin(&v, dir, c, g));
    ls_status s = of_saving(v, ls_ranges_write(&v->ranges));
    if (s == LS_OK && v->away.send)
        s = of_saving(v, ls_ranks_await(g, send_files, v));
    if (s == LS_OK)
        s = ls_saving_collect(v);
    if (s == LS_OK)
        s = ls_saving_commit(v);
    s = ls_checkpoint_together(g, s);
    if (saved)
        *saved = ls_saving_result(v);
    ls_saving_end(&v);
    return s;
}

ls_status ls_checkpoint_verify(const char *dir, ls_verify how, int *files)
{
    ls_manifest m;
    if (files)
        *files = 0;
    LS_TRY(ls_manifest_read(&m, dir));
    const ls_status s = ls_manifest_check(&m, dir, how, 0, 1);
    if (files && s == LS_OK)
        *files = m.n_files;
    ls_manifest_release(&m);
    return s;
}

static ls_status read_text(char **out, const char *dir, const char *name)
{
    char *path = ls_path_join(dir, name);
    size_t size = 0;
    ls_status s = ls_file_read(out, &size, path);
    free(path);
    return s;
}

/* A list of tensors that a checkpoint may lack: one file, several with an index, or one for each rank. */
static ls_status open_maybe(ls_weights **out, const char *dir, const char *name)
{
    static const char *const ENDS[] = { ".safetensors", ".safetensors.index.json", LS_RANK_FILE_FIRST };
    ls_status s = LS_OK;
    for (int i = 0; i < 3 && s == LS_OK && !*out; i++) {
        char file[64];
        snprintf(file, sizeof file, "%s%s", name, ENDS[i]);
        if (!ls_file_in(dir, file))
            continue;
        char *path = ls_path_join(dir, file);
        s = path ? ls_weights_open(out, path) : ls_sys_have(path);
        free(path);
    }
    return s;
}

static ls_status open_all(ls_checkpoint *c, const char *dir)
{
    LS_TRY(read_text(&c->config, dir, "config.json"));
    LS_TRY(read_text(&c->trainer, dir, "trainer.json"));
    LS_TRY(ls_weights_open(&c->weights, dir));
    LS_TRY(open_maybe(&c->optimizer, dir, "optimizer"));
    return open_maybe(&c->live, dir, "live");
}

ls_status ls_checkpoint_open(ls_checkpoint *out, const char *dir, ls_verify how, ls_group *g)
{
    *out = (ls_checkpoint){ .dir = ls_sys_strdup(dir) };
    out->manifest = ls_sys_calloc(1, sizeof *out->manifest);
    ls_status s = out->dir && out->manifest ? ls_manifest_read(out->manifest, dir)
                                            : ls_fail(LS_E_MEMORY, "%s: no memory to open it", dir);
    if (s == LS_OK)
        s = ls_manifest_check(out->manifest, dir, how, g ? ls_group_rank(g) : 0, g ? ls_group_size(g) : 1);
    s = ls_checkpoint_together(g, s);
    if (s == LS_OK) /* (not opened if a rank found damage, perhaps in another rank's part) */
        s = ls_checkpoint_together(g, open_all(out, dir));
    if (s == LS_OK && how == LS_VERIFY_LOADED) {
        ls_weights_prove(out->weights, out->manifest);
        ls_weights_prove(out->optimizer, out->manifest);
        ls_weights_prove(out->live, out->manifest);
    }
    if (s != LS_OK)
        ls_checkpoint_release(out);
    return s;
}

ls_status ls_checkpoint_open_sparse(ls_checkpoint *out, const ls_sparse *s, const char *dir, ls_verify how,
                                    ls_group *g)
{
    const bool here = s && *s->dir;
    LS_TRY(ls_checkpoint_open(out, here ? s->dir : dir, how, g));
    out->sparse = s && s->bring;
    out->manifest->sparse = here ? s : NULL;
    return LS_OK;
}

void ls_checkpoint_release(ls_checkpoint *c)
{
    free(c->dir);
    free(c->config);
    free(c->trainer);
    ls_weights_close(&c->weights);
    ls_weights_close(&c->optimizer);
    ls_weights_close(&c->live);
    if (c->manifest)
        ls_manifest_release(c->manifest);
    free(c->manifest);
    *c = (ls_checkpoint){ 0 };
}

bool ls_checkpoint_is(const char *dir) { return ls_file_in(dir, LS_MANIFEST); }

ls_status ls_checkpoint_point(const char *parent, const char *link, const char *name)
{
    char hidden[300];
    snprintf(hidden, sizeof hidden, LS_UNFINISHED "%.250s", link);
    char *temporary = ls_path_join(parent, hidden), *path = ls_path_join(parent, link);
    struct stat st;
    ls_status s;
    if (path && lstat(path, &st) == 0 && !S_ISLNK(st.st_mode)) {
        s = ls_fail(LS_E_IO, "%s: is there and not a symbolic link: move it away", path);
        goto done;
    }
    ls_sys_remove(temporary);
    if (ls_sys_symlink(name, temporary) != 0) {
        s = ls_fail_os(path, "link", errno);
        goto done;
    }
    s = ls_sys_rename(temporary, path) == 0 ? LS_OK : ls_fail_os(path, "create", errno);
    if (s == LS_OK)
        s = ls_sync_folder(parent);
    else
        ls_sys_remove(temporary);
done:
    free(temporary);
    free(path);
    return s;
}

ls_status ls_checkpoint_remove(const char *dir)
{
    ls_folder p;
    ls_status s = ls_folder_init(&p, dir);
    struct stat st;
    if (s != LS_OK)
        ;
    else if (lstat(p.dir, &st) != 0)
        s = ls_fail_os(p.dir, "remove", errno);
    else if (!S_ISDIR(st.st_mode) || !ls_checkpoint_is(p.dir))
        s = ls_fail(LS_E_ARG, "%s: not a checkpoint (no " LS_MANIFEST "); not removed", p.dir);
    else {
        ls_remove_tree(p.unfinished);
        s = ls_sys_rename(p.dir, p.unfinished) == 0 ? ls_sync_folder(p.parent)
                                                    : ls_fail_os(p.dir, "remove", errno);
        if (s == LS_OK)
            ls_remove_tree(p.unfinished);
    }
    ls_folder_release(&p);
    return s;
}

/* Gives each tensor NAME for which `by` has "PREFIX.NAME" that one's elements. Returns how many they are. */
static int64_t replace(ls_weights *w, const ls_weights *by, const char *prefix)
{
    const size_t length = strlen(prefix);
    int64_t n = 0;
    for (int64_t i = 0; i < ls_weights_count(by); i++) {
        const ls_weight *from = ls_weights_at(by, i);
        if (strncmp(from->name, prefix, length) || from->name[length] != '.')
            continue;
        ls_weight *to = (ls_weight *)(uintptr_t)ls_weights_find(w, from->name + length + 1);
        if (!to)
            continue;
        const char *name = to->name;
        *to = *from;
        to->name = name;
        n++;
    }
    return n;
}

static bool has_ema(const ls_weights *w)
{
    for (int64_t i = 0; i < ls_weights_count(w); i++)
        if (strncmp(ls_weights_at(w, i)->name, "ema.", 4) == 0)
            return true;
    return false;
}

ls_status ls_checkpoint_use_ema(ls_checkpoint *c)
{
    /* The averages begin as zeros and become the parameters in step 1: before it the weights are their own.
     */
    const ls_weight *step = c->optimizer ? ls_weights_find(c->optimizer, "step") : NULL;
    int64_t steps = 1;
    if (step)
        LS_TRY(ls_weight_read(step, LS_I64, &steps));
    if (steps == 0 && has_ema(c->optimizer))
        return LS_OK;
    return c->optimizer && replace(c->weights, c->optimizer, "ema")
               ? LS_OK
               : ls_fail(
                     LS_E_USAGE,
                     "%s has no moving averages of the weights: it was trained without optimizer.ema_decay",
                     c->dir);
}
