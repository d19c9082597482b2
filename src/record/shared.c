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
#include "net/s3.h"

ls_status ls_shared_sees(const char *path, const char *storage)
{
    char host[256] = "";
    if (access(path, F_OK) == 0)
        return LS_OK;
    gethostname(host, sizeof host - 1);
    return ls_s3_is(storage)
               ? ls_fail(
                     LS_E_USAGE,
                     "host %s does not see %s, which is in the cache of rank 0: the hosts of a run read and "
                     "write each checkpoint together before it goes to the bucket, so LOCKSTEP_CACHE has "
                     "to name a folder that all hosts share",
                     host, path)
               : ls_fail(LS_E_USAGE,
                         "host %s does not see %s, which rank 0 has: the hosts of a run read and write each "
                         "checkpoint together, so run.storage has to be a folder that all hosts share",
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
