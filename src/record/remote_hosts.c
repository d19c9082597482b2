/* remote_hosts.c - see remote_hosts.h. */
#include "record/remote_hosts.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/sys.h"
#include "comm/agree.h"
#include "record/remote_own.h"
#include "record/remote_sparse.h"
#include "record/shared.h"
#include "record/step_folder.h"

ls_status ls_remote_join(ls_remote **r, bool *apart, const char *storage, const char *name, ls_group *g,
                         double insists)
{
    *apart = false;
    if (!ls_s3_is(storage) || ls_group_hosts(g) == 1)
        return LS_OK;
    char *run = ls_storage_run(storage, name), *slash = run ? strrchr(run, '/') : NULL;
    if (slash)
        *slash = 0; /* the run itself may not exist yet */
    ls_status s = ls_ranks_agree(g, ls_sys_have(run));
    if (s == LS_OK)
        s = ls_shared_apart(apart, run, g);
    free(run);
    if (s != LS_OK || !*apart)
        return s;
    s = *r ? LS_OK : ls_remote_open(r, storage, name);
    if (s == LS_OK) {
        (*r)->part = ls_group_rank(g) != 0;
        (*r)->insists = insists;
    }
    return ls_ranks_agree(g, s);
}

/* ---- the checkpoint that the run continues from */

/* The other hosts have no use for checkpoints before it. */
static void remove_older(ls_remote *r, int64_t step)
{
    int64_t *steps = NULL;
    size_t n = 0;
    char name[LS_STEP_FOLDER_ROOM];
    if (ls_remote_steps(r, &steps, &n) != LS_OK)
        return;
    for (size_t i = 0; i < n; i++) {
        char *dir = steps[i] < step ? ls_sys_text("%s/" LS_REMOTE_CHECKPOINTS "/%s", r->folder,
                                                  ls_step_folder(name, steps[i]))
                                    : NULL;
        if (dir)
            (void)ls_checkpoint_remove(dir); /* (one that cannot be removed only takes room) */
        free(dir);
    }
    free(steps);
}

static ls_status on_this_host(ls_status s)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    return s == LS_OK ? s : ls_fail_in(s, "host %s", host);
}

enum { NAME_ROOM = 256 };

/* The name of the run's checkpoint at `path`; "": it is none of this run. */
static void name_at(char name[NAME_ROOM], const ls_remote *r, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *run = ls_path_join(r->folder, LS_REMOTE_CHECKPOINTS);
    const bool ours = slash && run && strlen(run) == (size_t)(slash - path) &&
                      !strncmp(path, run, strlen(run)) && strlen(slash) < NAME_ROOM;
    free(run);
    snprintf(name, NAME_ROOM, "%s", ours ? slash + 1 : "");
}

/* A checkpoint to be fetched, by a rank of a group. */
typedef struct fetching {
    ls_remote *r;
    char name[NAME_ROOM];
    int rank;
    ls_sparse *sparse; /* NULL: all of it */
} fetching;

static ls_status fetch(void *context)
{
    const fetching *f = context;
    const bool sparse = f->sparse && f->rank && !ls_remote_has_all(f->r, f->name);
    LS_TRY(ls_remote_drop_sparse(f->r));
    LS_TRY(on_this_host(
        ls_remote_with_list(f->r, f->name, sparse ? ls_remote_make_sparse : ls_remote_fetch_folder)));
    if (f->rank)
        remove_older(f->r, ls_step_folder_parse(f->name));
    return LS_OK;
}

/* Before it is fetched: sends a checkpoint of a run on one host, which the bucket could not take then, and
 * takes back the half uploads of ranks that were killed. */
static ls_status offer(void *context)
{
    const fetching *f = context;
    ls_status s = ls_s3_clean(f->r->s3, "");
    if (s == LS_OK)
        s = ls_remote_with_list(f->r, f->name, ls_remote_send_folder);
    return on_this_host(s);
}

ls_status ls_remote_fetch(ls_remote *r, bool apart, char path[4096], ls_group *g, ls_sparse *sparse)
{
    const bool first = ls_group_rank(g) == 0;
    fetching f = { .r = r, .rank = ls_group_rank(g), .sparse = sparse };
    if (r && first)
        name_at(f.name, r, path);
    LS_TRY(ls_group_broadcast(g, f.name, sizeof f.name, 0));
    if (!*f.name)
        return LS_OK;
    if (!apart) /* there may have been other hosts before */
        return ls_ranks_await(g, first && !ls_remote_has_all(r, f.name) ? fetch : NULL, &f);
    LS_TRY(ls_ranks_await(g, first ? offer : NULL, &f));
    LS_TRY(ls_ranks_await(g, ls_group_local_rank(g) == 0 ? fetch : NULL, &f));
    /* (the cache may have another name than on rank 0's host) */
    snprintf(path, 4096, "%s/" LS_REMOTE_CHECKPOINTS "/%s", r->folder, f.name);
    return sparse ? ls_remote_open_sparse(sparse, r, f.name) : LS_OK;
}

/* The checkpoint that an entry of the folder of checkpoints leads to: by a link, or with a name of its own;
 * "": none. */
static void led_to(char name[NAME_ROOM], const char *folder, const char *entry)
{
    char *path = ls_path_join(folder, entry);
    const ssize_t n = path ? readlink(path, name, NAME_ROOM - 1) : -1;
    free(path);
    name[n > 0 ? n : 0] = 0;
    if (n <= 0 && *entry != '.' && ls_step_folder_parse(entry) < 0)
        snprintf(name, NAME_ROOM, "%s", entry);
}

ls_status ls_remote_complete(ls_remote *r)
{
    char *folder = ls_path_join(r->folder, LS_REMOTE_CHECKPOINTS), name[NAME_ROOM];
    DIR *d = folder ? opendir(folder) : NULL;
    ls_status s = ls_sys_have(folder);
    for (const struct dirent *e; s == LS_OK && d && (e = readdir(d));) {
        led_to(name, folder, e->d_name);
        if (*name && ls_remote_has(r, name) && !ls_remote_has_all(r, name))
            s = ls_remote_with_list(r, name, ls_remote_fetch_folder);
    }
    if (d)
        closedir(d);
    free(folder);
    return s;
}

/* ---- saving */

/* Its manifest first, so that it is not taken for whole. */
static ls_status clear_once(ls_remote *r, const ls_s3_list *l, const char *name)
{
    (void)name;
    for (int manifests = 1; manifests >= 0; manifests--)
        for (size_t i = 0; i < l->n; i++)
            if ((strcmp(strrchr(l->at[i].key, '/') + 1, LS_REMOTE_MANIFEST) == 0) == manifests)
                LS_TRY(ls_s3_remove(r->s3, l->at[i].key));
    return LS_OK;
}

static ls_status clear(void *context, const char *name)
{
    ls_status s;
    bool said = false;
    const double began = ls_now();
    do
        s = ls_remote_with_list(context, name, clear_once);
    while (ls_remote_again(context, s, began, &said));
    return s;
}

static ls_status send_one(void *context, const char *name, const char *file, const char *path)
{
    ls_remote *r = context;
    ls_str key = { 0 };
    bool said = false;
    const double began = ls_now();
    ls_remote_add_key(&key, name, file);
    ls_status s = ls_str_status(&key);
    if (s == LS_OK) {
        ls_s3_set_patience(r->s3, LS_REMOTE_PATIENCE);
        do
            s = ls_s3_put_file(r->s3, ls_str_text(&key), path);
        while (ls_remote_again(r, s, began, &said));
        ls_s3_set_patience(r->s3, 0);
    }
    ls_str_release(&key);
    return s;
}

ls_away ls_remote_away(ls_remote *r) { return (ls_away){ .clear = clear, .send = send_one, .context = r }; }
