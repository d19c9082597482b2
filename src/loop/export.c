/* export.c - checkpoint.export: writes the whole model when a run has finished all its steps. Rank 0 copies
 * it from the last checkpoint, which all ranks wrote, so no rank ever holds the whole model. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "base/sys.h"
#include "loop.h"
#include "setup/folder.h"

static ls_status write_model(const char *from, const char *to, bool ema)
{
    ls_checkpoint c;
    char size[32] = "a DCP directory";
    LS_TRY(ls_checkpoint_open(&c, from, LS_VERIFY_SIZES, NULL));
    ls_weights *w = c.weights;
    ls_status s = ema ? ls_checkpoint_use_ema(&c) : LS_OK;
    if (s == LS_OK)
        s = ls_folder_add_names_for(w, from, to);
    if (s == LS_OK)
        s = ls_weights_export(w, to, .replace = true);
    if (s == LS_OK) {
        if (to[strlen(to) - 1] != '/')
            ls_format_bytes(size, (uint64_t)ls_file_size(to));
        ls_log_info("model  %s: %lld tensors, %s", to, (long long)ls_weights_count(w), size);
    }
    ls_checkpoint_release(&c);
    return s;
}

/* Makes the folders above `path`: a file, or a folder whose name ends in a slash. */
static ls_status make_parent(const char *path)
{
    char *parent = ls_sys_strdup(path);
    if (!parent)
        return ls_fail(LS_E_MEMORY, "%s: no memory for its name", path);
    const size_t n = strlen(parent);
    if (n && parent[n - 1] == '/')
        parent[n - 1] = 0;
    char *slash = strrchr(parent, '/');
    if (slash)
        *slash = 0;
    ls_status s = ls_make_dirs(parent);
    free(parent);
    return s;
}

ls_status ls_loop_export(ls_loop *l, bool replace)
{
    const char *name = l->recipe->checkpoint.export_to;
    struct stat st;
    if (!*name || l->run->rank)
        return LS_OK;
    char *from = ls_path_join(l->run->path, "checkpoints/latest"), *to = ls_path_join(l->run->path, name);
    ls_status s = LS_OK;
    if (replace || stat(to, &st)) {
        s = make_parent(to);
        s = s == LS_OK ? write_model(from, to, l->recipe->eval.ema) : s;
    }
    free(from);
    free(to);
    return s == LS_OK           ? s
           : s == LS_E_STOPPED ? ls_fail(s, "checkpoint.export: %s; start it again to write %s/%s",
                                         ls_error_message(), l->run->path, name)
                               : ls_fail_in(s, "checkpoint.export");
}
