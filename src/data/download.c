/* download.c - fetches the files of a named set. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/log.h"
#include "base/sys.h"
#include "data/known.h"
#include "net/download.h"

static ls_status download_file(const ls_known *k, const ls_known_file *file, const char *dir,
                               const ls_dataset_options *o)
{
    enum { MIRRORS = sizeof k->mirrors / sizeof k->mirrors[0] };
    const char *own[] = { o->mirror, NULL }, *const *mirrors = *o->mirror ? own : k->mirrors;
    char *urls[MIRRORS + 1] = { NULL }, *path = ls_path_join(dir, file->name);
    ls_status s = ls_sys_have(path);
    for (int i = 0; s == LS_OK && i < MIRRORS && mirrors[i]; i++) {
        const bool slash = mirrors[i][strlen(mirrors[i]) - 1] == '/';
        urls[i] = ls_sys_text("%s%s%s", mirrors[i], slash ? "" : "/", file->name);
        s = ls_sys_have(urls[i]);
    }
    ls_download d = { .path = path,
                      .name = file->name,
                      .urls = (const char *const *)urls,
                      .bytes = file->bytes,
                      .sha256 = file->sha256,
                      .progress = o->progress,
                      .context = o->context };
    if (s == LS_OK && !ls_file_exists(path))
        ls_log_info("downloading %s of %s (%.1f MB) into %s", file->name, k->name, (double)file->bytes * 1e-6,
                    dir);
    if (s == LS_OK)
        s = ls_download_file(&d);
    for (int i = 0; i < MIRRORS; i++)
        free(urls[i]);
    free(path);
    return s;
}

ls_status ls_known_download(const ls_known *k, const char *dir, const ls_dataset_options *o)
{
    if (ls_cache_is_frozen())
        return ls_fail(LS_E_IO, "a dry run downloads nothing");
    LS_TRY(ls_make_dirs(dir));
    for (int i = 0; i < LS_KNOWN_FILES; i++) {
        char plain[64];
        snprintf(plain, sizeof plain, "%.*s", (int)strlen(k->files[i].name) - 3, k->files[i].name);
        if (!ls_file_in(dir, plain)) /* inflated by hand */
            LS_TRY(download_file(k, &k->files[i], dir, o));
    }
    return LS_OK;
}
