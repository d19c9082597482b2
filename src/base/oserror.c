/* oserror.c - advice for the errno values that a user can do something about. */
#include "oserror.h"
#include <errno.h>
#include <string.h>

static const char *advice(int error)
{
    switch (error) {
    case ENOENT: return "check the path";
    case EACCES:
    case EPERM: return "check the permissions of the file and of the folders above it";
    case EROFS: return "the file system is read-only: choose another place";
    case ENOSPC: return "the disk is full: free some space or choose another place";
    case EDQUOT: return "your quota is used up: free some space or choose another place";
    case EFBIG: return "a file size limit was reached: see ulimit -f, or choose another file system";
    case EISDIR: return "this is a folder, a file is needed";
    case ENOTDIR: return "a part of this path is a file, not a folder";
    case ENAMETOOLONG: return "choose a shorter name";
    case EMFILE:
    case ENFILE: return "too many open files: see ulimit -n";
    case ENOMEM: return "not enough memory";
    case EIO: return "the device or network file system failed: see the kernel's log";
    case ESTALE: return "the network file system was changed or remounted: try again";
    default: return NULL;
    }
}

ls_status ls_fail_os(const char *path, const char *doing, int error)
{
    if (!path) /* base/file.h: there was no memory for it */
        return ls_fail(LS_E_MEMORY, "out of memory: cannot %s a file: no memory for its path", doing);
    char text[128];
    const char *why = strerror_r(error, text, sizeof text), *what = advice(error);
    return ls_fail(error == ENOMEM ? LS_E_MEMORY : LS_E_IO, "%s: cannot %s: %s%s%s%s", path, doing, why,
                   what ? " (" : "", what ? what : "", what ? ")" : "");
}
