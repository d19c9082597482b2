/* bucket.c - see bucket.h. */
#include "verbs/bucket.h"
#include <stdio.h>
#include "base/log.h"
#include "comm/launched.h"
#include "record/run_owner.h"

/* Whether this process asks the bucket: the user started it, and no other process is training the run, whose
 * files and uploads it could disturb. (A second `train` of a run finds that out when it opens the run
 * directory.) */
static bool is_ours(const ls_remote *r)
{
    return r && !ls_launch_watched() && !ls_run_is_held(ls_remote_folder(r));
}

ls_status ls_bucket_begin(ls_remote **r, const ls_recipe *recipe)
{
    if (*r)
        return LS_OK;
    LS_TRY(ls_remote_open(r, recipe->run.storage, recipe->run.name));
    const ls_status s = is_ours(*r) ? ls_remote_pull(*r) : LS_OK;
    if (s != LS_OK) /* nothing is sent to a bucket that cannot be asked */
        ls_remote_close(r);
    return s;
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
