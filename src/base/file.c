/* file.c - reading: mappings, whole files, folders and paths. writer.c writes. */
#include "file.h"
#include "check.h"
#include "oserror.h"
#include "sys.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static ls_status file_refuse(const char *path, mode_t mode)
{
    const char *what = S_ISFIFO(mode)                   ? "a pipe"
                       : S_ISSOCK(mode)                 ? "a socket"
                       : S_ISCHR(mode) || S_ISBLK(mode) ? "a device"
                                                        : "no file";
    return S_ISDIR(mode) ? ls_fail_os(path, "read", EISDIR)
                         : ls_fail(LS_E_IO,
                                   "%s: cannot read: it is %s, not a regular file; copy its content into a "
                                   "file and name that",
                                   path, what);
}

/* stat checks first, because opening a device can have effects. O_NONBLOCK: a pipe may have replaced the file
 * since, and opening it would wait. */
ls_status ls_file_open(int *fd, size_t *size, const char *path)
{
    struct stat st;
    if (path && stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return file_refuse(path, st.st_mode);
    *fd = ls_sys_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0)
        return ls_fail_os(path, "open", errno);
    if (fstat(*fd, &st) != 0) {
        int error = errno;
        close(*fd);
        *fd = -1;
        return ls_fail_os(path, "look at", error);
    }
    if (!S_ISREG(st.st_mode)) {
        close(*fd);
        *fd = -1;
        return file_refuse(path, st.st_mode);
    }
    *size = (size_t)st.st_size;
    return LS_OK;
}

ls_status ls_file_check(const char *path)
{
    int fd = -1;
    size_t size = 0;
    LS_TRY(ls_file_open(&fd, &size, path));
    close(fd);
    return LS_OK;
}

ls_status ls_file_map(ls_mapping *out, const char *path)
{
    int fd = -1;
    size_t size = 0;
    LS_TRY(ls_file_open(&fd, &size, path));
    ls_mapping m = { .size = size };
    if (size > 0) {
        m.base = ls_sys_mmap(size, PROT_READ, MAP_SHARED, fd, 0);
        if (m.base == MAP_FAILED) {
            int error = errno;
            close(fd);
            return ls_fail_os(path, "map", error);
        }
        m.data = m.base;
    }
    close(fd);
    *out = m;
    return LS_OK;
}

void ls_file_unmap(ls_mapping *m)
{
    if (m->base)
        munmap(m->base, m->size);
    *m = (ls_mapping){ 0 };
}

ls_status ls_file_read(char **out, size_t *size, const char *path)
{
    int fd = -1;
    size_t expect = 0;
    LS_TRY(ls_file_open(&fd, &expect, path));
    /* Files of /proc have size 0 and contents, and other files may grow: read until the end, not until the
     * size. */
    size_t cap = expect + 1, used = 0;
    char *text = ls_sys_malloc(cap);
    for (;;) {
        if (!text) {
            close(fd);
            return ls_fail(LS_E_MEMORY, "%s: cannot read: %zu bytes do not fit in memory", path, cap);
        }
        if (used + 1 >= cap) { /* leaves room for the NUL */
            char probe;
            ssize_t more = read(fd, &probe, 1);
            if (more == 0)
                break;
            if (more < 0 && errno == EINTR)
                continue;
            if (more > 0) {
                char *larger = ls_sys_realloc(text, cap = 2 * cap + 4096);
                if (!larger)
                    free(text);
                else
                    larger[used++] = probe;
                text = larger;
                continue;
            }
        } else {
            ssize_t n = read(fd, text + used, cap - 1 - used);
            if (n == 0)
                break;
            if (n > 0) {
                used += (size_t)n;
                continue;
            }
            if (errno == EINTR)
                continue;
        }
        int error = errno;
        free(text);
        close(fd);
        return ls_fail_os(path, "read", error);
    }
    close(fd);
    text[used] = 0;
    *out = text;
    if (size)
        *size = used;
    return LS_OK;
}

ls_status ls_make_dirs(const char *path)
{
    if (path && !*path)
        return ls_fail(LS_E_ARG, "cannot create a folder without a name");
    char *part = ls_sys_strdup(path);
    if (!part)
        return ls_fail_os(path, "create folder", ENOMEM);
    int error = 0;
    for (char *p = part + 1; !error; p++) {
        char c = *p;
        if (c != '/' && c)
            continue;
        *p = 0;
        int made = ls_sys_mkdir(part) == 0 ? 0 : errno;
        if (made != 0 &&
            !ls_dir_exists(part)) /* an existing parent may be read-only: only missing folders are made */
            error = made == EEXIST ? ENOTDIR : made;
        *p = c;
        if (!c)
            break;
    }
    free(part);
    return error ? ls_fail_os(path, "create folder", error) : LS_OK;
}

ls_status ls_make_parent(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    if (path && (!slash || slash == path))
        return LS_OK;
    char *folder = path ? ls_sys_strndup(path, (size_t)(slash - path)) : NULL;
    const ls_status s = ls_make_dirs(folder);
    free(folder);
    return s;
}

bool ls_file_exists(const char *path)
{
    struct stat st;
    return path && stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
}

bool ls_dir_exists(const char *path)
{
    struct stat st;
    return path && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool ls_dir_writable(const char *path)
{
    char *part = ls_sys_strdup(path ? path : "");
    bool can = false;
    errno = ENOMEM;
    while (part && !(can = !access(*part ? part : ".", W_OK | X_OK)) && errno == ENOENT && *part) {
        char *slash = strrchr(part, '/');
        *(!slash ? part : slash == part ? part + 1 : slash) = 0;
    }
    if (can && !ls_dir_exists(*part ? part : ".")) {
        can = false;
        errno = ENOTDIR;
    }
    const int why = errno;
    free(part);
    errno = why;
    return can;
}

int64_t ls_file_size(const char *path)
{
    struct stat st;
    return path && stat(path, &st) == 0 ? (int64_t)st.st_size : -1;
}

ls_status ls_path_check(const char *what, const char *path)
{
    const size_t scheme = strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");
    if (!scheme || strncmp(path + scheme, "://", 3))
        return LS_OK;
    return ls_fail(LS_E_USAGE,
                   "%s: %s: %.*s:// is not supported; what is: a path in a file system, as runs, /data/runs "
                   "or ../model.safetensors (a disk, memory, "
                   "NFS, Lustre, anything mounted)",
                   what, path, (int)scheme, path);
}

bool ls_file_in(const char *folder, const char *name)
{
    char path[PATH_MAX];
    return folder && snprintf(path, sizeof path, "%s/%s", *folder ? folder : ".", name) < PATH_MAX &&
           ls_file_exists(path);
}

char *ls_path_join(const char *a, const char *b)
{
    if (!a || !b)
        return NULL;
    size_t n = strlen(a);
    if (n == 0 || b[0] == '/')
        return ls_sys_strdup(b);
    return ls_sys_text("%s%s%s", a, a[n - 1] == '/' ? "" : "/", b);
}

static atomic_bool cache_frozen;

void ls_cache_freeze(void) { cache_frozen = true; }
bool ls_cache_is_frozen(void) { return cache_frozen; }

char *ls_cache_dir(void)
{
    const char *own = getenv("LOCKSTEP_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (own && *own)
        return ls_sys_strdup(own);
    if (xdg && xdg[0] == '/') /* the XDG specification ignores relative paths */
        return ls_path_join(xdg, "lockstep");
    if (home && *home)
        return ls_path_join(home, ".cache/lockstep");
    char user[32];
    snprintf(user, sizeof user, "lockstep-cache-%u", (unsigned)getuid());
    return ls_path_join("/tmp", user); /* accounts of services may have no home */
}
