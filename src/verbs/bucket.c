/* bucket.c - see bucket.h. */
#include "verbs/bucket.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "comm/agree.h"
#include "comm/launched.h"
#include "net/s3.h"
#include "recipe/recipe_fields.h"
#include "record/run_owner.h"
#include "record/shared.h"

/* Whether this process asks the bucket: the user started it, and no other process is training the run, whose
 * files and uploads it could disturb. (A second `train` of a run finds that out when it opens the run
 * directory.) */
static bool is_ours(const ls_remote *r)
{
    return r && !ls_launch_watched() && !ls_run_is_held(ls_remote_folder(r));
}

/* The host of the command that started the ranks, for them to know. */
#define STARTED_ON "LOCKSTEP_STARTED_ON"

ls_status ls_bucket_begin(ls_remote **r, const ls_recipe *recipe)
{
    char host[256] = "";
    if (*r)
        return LS_OK;
    if (!ls_launch_watched() && gethostname(host, sizeof host - 1) == 0)
        setenv(STARTED_ON, host, 1);
    LS_TRY(ls_remote_open(r, recipe->run.storage, recipe->run.name));
    const ls_status s = is_ours(*r) ? ls_remote_pull(*r) : LS_OK;
    if (s != LS_OK) /* nothing is sent to a bucket that cannot be asked */
        ls_remote_close(r);
    return s;
}

/* What hosts that share no folder need. */
static ls_status check_apart(const ls_recipe *recipe)
{
    char host[256] = "";
    const char *started_on = getenv(STARTED_ON), *where = ls_recipe_origin(recipe, "checkpoint.files");
    gethostname(host, sizeof host - 1);
    if (recipe->checkpoint.files == LS_FILES_WHOLE && strcmp(where, "default"))
        return ls_fail(
            LS_E_USAGE,
            "%s: whole is one file that all ranks write, and the hosts of this run share no "
            "folder: set per_rank (lockstep export makes one file of them), or LOCKSTEP_CACHE to a "
            "folder that all hosts share",
            ls_recipe_where(recipe, "checkpoint.files"));
    if (ls_launch_watched() && started_on && strcmp(started_on, host))
        return ls_fail(LS_E_USAGE,
                       "rank 0 is on host %s, which shares no folder with host %s, where this command runs "
                       "and keeps account of the run: start it on %s, the first of the hosts",
                       host, started_on, host);
    return LS_OK;
}

ls_status ls_bucket_join(ls_remote **r, bool *apart, const ls_recipe *recipe, ls_group *g)
{
    const bool first = ls_group_rank(g) == 0;
    *apart = false;
    if (!r)
        return LS_OK;
    LS_TRY(ls_ranks_agree(g, first ? ls_bucket_begin(r, recipe) : LS_OK));
    LS_TRY(ls_remote_join(r, apart, recipe->run.storage, recipe->run.name, g, recipe->failure.stall_seconds));
    if (!*apart)
        return LS_OK;
    LS_TRY(ls_ranks_agree(g, first ? check_apart(recipe) : LS_OK));
    ls_log_info("the %d hosts share no folder: each rank sends files of its own to %s (checkpoint.files: "
                "per_rank)",
                ls_group_hosts(g), recipe->run.storage);
    return LS_OK;
}

ls_status ls_bucket_share(ls_remote *r, bool apart, char path[4096], ls_group *g, const ls_recipe *recipe,
                          ls_sparse *sparse)
{
    const bool verified = recipe->checkpoint.verify == LS_VERIFY_CHOICE_FULL;
    LS_TRY(ls_group_broadcast(g, path, 4096, 0));
    if (ls_s3_is(recipe->run.storage))
        LS_TRY(ls_remote_fetch(r, apart, path, g, verified ? sparse : NULL));
    const bool there = !*path || *sparse->dir;
    return ls_ranks_agree(g, there ? LS_OK : ls_shared_sees(path, recipe->run.storage));
}

ls_status ls_bucket_end(ls_remote **r, ls_status s, const char *message)
{
    char reason[2048];
    const ls_status sent = is_ours(*r) ? ls_remote_push(*r) : LS_OK;
    snprintf(reason, sizeof reason, "%s", sent == LS_OK ? "" : ls_error_message());
    ls_remote_close(r);
    if (s != LS_OK && sent != LS_OK)
        ls_log_warn("%s", reason);
    if (s != LS_OK)
        return ls_fail(s, "%s", message);
    return sent == LS_OK
               ? LS_OK
               : ls_fail(sent,
                         "%s; the run is complete in this machine's cache; the same command uploads "
                         "it",
                         reason);
}
