/* storage.c - see storage.h. */
#include "verbs/storage.h"
#include <stdio.h>
#include "base/log.h"
#include "comm/launched.h"

ls_status ls_storage_begin(ls_remote **r, const ls_recipe *recipe)
{
    if (*r)
        return LS_OK;
    LS_TRY(ls_remote_open(r, recipe->run.storage, recipe->run.name));
    const ls_status s = !ls_launch_watched() ? ls_remote_pull(*r) : LS_OK;
    if (s != LS_OK) /* nothing is sent to a bucket that cannot be asked */
        ls_remote_close(r);
    return s;
}

ls_status ls_storage_end(ls_remote **r, ls_status s, const char *message)
{
    char reason[2048];
    const ls_status sent = !ls_launch_watched() ? ls_remote_push(*r) : LS_OK;
    snprintf(reason, sizeof reason, "%s", sent == LS_OK ? "" : ls_error_message());
    ls_remote_close(r);
    if (s != LS_OK) {
        if (sent != LS_OK)
            ls_log_warn("%s", reason);
        return ls_fail(s, "%s", message);
    }
    return sent == LS_OK
               ? LS_OK
               : ls_fail(sent, "%s; the run is whole in this machine's cache, and the same command sends it",
                         reason);
}
