/* program.c - finds the file that a shell would execute. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sys.h"
#include "launch.h"

static ls_status may_execute(const char *path, const char *name)
{
    struct stat st;
    if (stat(path, &st))
        return ls_fail(LS_E_USAGE, "the program %s is not there: %s", name, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return ls_fail(LS_E_USAGE, "the program %s is a directory", name);
    if (access(path, X_OK))
        return ls_fail(LS_E_USAGE, "the program %s cannot be executed: %s (chmod +x %s)", name,
                       strerror(errno), path);
    return LS_OK;
}

static bool in_folders(char path[PATH_MAX], const char *folders, const char *name)
{
    for (const char *at = folders; at; at = *at ? at + 1 : NULL) {
        const size_t n = strcspn(at, ":");
        const int length = snprintf(path, PATH_MAX, "%.*s/%s", n ? (int)n : 1, n ? at : ".", name);
        struct stat st;
        if (length < PATH_MAX && !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK))
            return true;
        at += n;
    }
    return false;
}

ls_status ls_launch_find(char **path, const char *name)
{
    *path = NULL;
    if (strchr(name, '/')) {
        *path = ls_sys_strdup(name);
        LS_TRY(ls_sys_have(*path));
        ls_status s = may_execute(*path, name);
        if (s != LS_OK) {
            free(*path);
            *path = NULL;
        }
        return s;
    }
    const char *folders = getenv("PATH");
    char found[PATH_MAX];
    if (in_folders(found, folders ? folders : "/usr/local/bin:/usr/bin:/bin", name))
        return ls_sys_have(*path = ls_sys_strdup(found));
    return ls_fail(LS_E_USAGE, "the program %s is in no folder of PATH%s%s%s", name,
                   ls_file_exists(name) ? "; for the one in this folder write ./" : "",
                   ls_file_exists(name) ? name : "", "");
}
