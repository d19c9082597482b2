/* scratch.c - see scratch.h. */
#include "ckpt/scratch.h"
#include <dirent.h>
#include <ftw.h>
#include <unistd.h>

static char folder[256];

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st, (void)kind, (void)where;
    return remove(path);
}

int scratch_make(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/lockstep-test-XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

int scratch_remove(void **state)
{
    (void)state;
    return nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *scratch_path(const char *name)
{
    static char paths[64][512];
    static int next;
    char *p = paths[next++ % 64];
    snprintf(p, sizeof paths[0], "%s/%s", folder, name);
    return p;
}

int scratch_entries(const char *dir)
{
    DIR *d = opendir(dir);
    assert_non_null(d);
    int n = -2; /* . and .. */
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

void expect_failure(ls_status got, ls_status want, ...)
{
    if (got != want)
        fail_msg("status %s, expected %s; message: %s", ls_status_name(got), ls_status_name(want), ls_error_message());
    va_list texts;
    va_start(texts, want);
    for (const char *text; (text = va_arg(texts, const char *)) != NULL;)
        if (!strstr(ls_error_message(), text))
            fail_msg("the message lacks \"%s\": %s", text, ls_error_message());
    va_end(texts);
}

ls_named_tensor named(const char *name, void *data, ls_type type)
{
    return (ls_named_tensor){ .name = name, .tensor = ls_tensor_of(data, &type) };
}
