/* shared.c - see shared.h. Rank 0 makes a file with a name that no host has looked for before, because
 * network file systems remember for some seconds that a file is not there. */
#include "shared.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/sys.h"
#include "comm/agree.h"
#include "comm/group_calls.h"
#include "net/s3.h"

ls_status ls_shared_sees(const char *path, const char *storage)
{
    char host[256] = "";
    if (access(path, F_OK) == 0)
        return LS_OK;
    gethostname(host, sizeof host - 1);
    return ls_fail(
        LS_E_USAGE,
        ls_s3_is(storage)
            ? "host %s does not see %s, which rank 0 has: a checkpoint that is not in the bucket of "
              "the run has to be in a folder that all hosts share"
            : "host %s does not see %s, which rank 0 has: the hosts of a run read and write each "
              "checkpoint together, so run.storage has to be a folder that all hosts share, or a "
              "bucket (s3://)",
        host, path);
}

static ls_status sees_mark(const char *folder, const char *name, const char *storage)
{
    char *path = ls_path_join(folder, name);
    LS_TRY(ls_sys_have(path));
    const ls_status s = ls_shared_sees(path, storage);
    free(path);
    return s;
}

ls_status ls_shared_folder(const char *folder, const char *storage, ls_group *g)
{
    char name[64] = "", *path = NULL;
    if (!g || ls_group_hosts(g) == 1)
        return LS_OK;
    ls_status s = LS_OK;
    if (ls_group_rank(g) == 0) {
        snprintf(name, sizeof name, ".shared-%d-%lld", (int)getpid(), (long long)(1e9 * ls_now()));
        path = ls_path_join(folder, name);
        s = ls_sys_have(path);
        if (s == LS_OK)
            s = ls_file_write(path, "", 0);
    }
    ls_status sent = ls_group_broadcast(g, name, sizeof name, 0);
    if (s == LS_OK && sent == LS_OK && ls_group_rank(g))
        s = sees_mark(folder, name, storage);
    s = sent == LS_OK ? ls_ranks_agree(g, s) : sent;
    if (path)
        ls_sys_remove(path);
    free(path);
    return s;
}

/* ---- hosts that need not share it */

static char *mark_of(const char *folder, const char *token, int rank)
{
    return ls_sys_text("%s/.shared-%s-%d", folder, token, rank);
}

static ls_status make_mark(const char *folder, const char *path)
{
    LS_TRY(ls_sys_have(path));
    LS_TRY(ls_make_dirs(folder));
    return ls_file_write(path, "", 0);
}

/* How many of the marks that the hosts' first ranks have made this host sees. */
static int count_marks(const char *folder, const char *token, const int *first, int ranks)
{
    int seen = 0;
    for (int r = 0; r < ranks; r++) {
        char *path = first[r] ? mark_of(folder, token, r) : NULL;
        seen += path && access(path, F_OK) == 0;
        free(path);
    }
    return seen;
}

static ls_status judge(bool *apart, const char *folder, ls_group *g, int seen)
{
    int *all, least, most;
    LS_TRY(ls_group_all_gather_new(g, &seen, sizeof seen, (void **)&all));
    least = most = seen;
    for (int r = 0; r < ls_group_size(g); r++) {
        least = all[r] < least ? all[r] : least;
        most = all[r] > most ? all[r] : most;
    }
    free(all);
    *apart = most == 1;
    if (most == 1 || least == ls_group_hosts(g))
        return LS_OK;
    return ls_ranks_agree(g, ls_group_rank(g)
                                 ? LS_OK
                                 : ls_fail(LS_E_USAGE,
                                           "some of the %d hosts share %s, and some do not: set "
                                           "LOCKSTEP_CACHE to a folder that all hosts share, or to one that "
                                           "each host has on a disk of its own",
                                           ls_group_hosts(g), folder));
}

ls_status ls_shared_apart(bool *apart, const char *folder, ls_group *g)
{
    char token[48] = "", *mine = NULL;
    int *first;
    *apart = false;
    if (!g || ls_group_hosts(g) == 1)
        return LS_OK;
    const int is_first = ls_group_local_rank(g) == 0;
    if (ls_group_rank(g) == 0)
        snprintf(token, sizeof token, "%d-%lld", (int)getpid(), (long long)(1e9 * ls_now()));
    LS_TRY(ls_group_broadcast(g, token, sizeof token, 0));
    LS_TRY(ls_group_all_gather_new(g, &is_first, sizeof is_first, (void **)&first));
    ls_status s = LS_OK;
    if (is_first) {
        mine = mark_of(folder, token, ls_group_rank(g));
        s = make_mark(folder, mine);
    }
    s = ls_ranks_agree(g, s);
    if (s == LS_OK)
        s = judge(apart, folder, g, count_marks(folder, token, first, ls_group_size(g)));
    if (mine)
        ls_sys_remove(mine);
    free(mine);
    free(first);
    return s;
}
