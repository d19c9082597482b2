/* match.c - the names that a pattern of parallel.units, train.freeze or precision.modules matches. */
#include "passes.h"

#include <fnmatch.h>
#include <string.h>

bool ls_path_matches(const char *glob, const char *path)
{
    char a[512], b[512];
    size_t n = strlen(glob), m = strlen(path);
    if (n >= sizeof a || m >= sizeof b)
        return false;
    for (size_t i = 0; i <= n; i++)
        a[i] = glob[i] == '.' ? '/' : glob[i];
    for (size_t i = 0; i <= m; i++)
        b[i] = path[i] == '.' ? '/' : path[i];
    return fnmatch(a, b, FNM_PATHNAME) == 0;
}
