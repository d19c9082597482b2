/* fuzz_hub.c - any text as the list of files of a hub: refused with a message, or files with a size and a
 * checksum, which lie inside their folder. */
#include <stdlib.h>
#include <string.h>
#include "net/hub.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool leaves_folder(const char *path)
{
    const size_t n = strlen(path);
    return !n || *path == '/' || !strcmp(path, "..") || !strncmp(path, "../", 3) || strstr(path, "/../") ||
           (n > 2 && !strcmp(path + n - 3, "/.."));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ls_hub_repo r = { 0 };
    if (ls_hub_read_list(&r, (const char *)data, size, "fuzz") == LS_OK) {
        if (strlen(r.commit) != 40)
            abort();
        int64_t all = 0; /* callers add the sizes */
        for (int i = 0; i < r.n; i++) {
            const ls_hub_file *f = &r.files[i];
            if (f->bytes < 0 || __builtin_add_overflow(all, f->bytes, &all) || leaves_folder(f->path) ||
                !f->sha256 == !f->git_sha1 ||
                strlen(f->sha256 ? f->sha256 : f->git_sha1) != (f->sha256 ? 64u : 40u))
                abort();
        }
    } else if (!*ls_error_message())
        abort();
    ls_hub_release(&r);
    return 0;
}
