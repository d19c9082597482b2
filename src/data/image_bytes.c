/* image_bytes.c - reads the bytes of one image of a list, from its file or from a mapped tar shard. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/image_list.h"

ls_status ls_image_file_bytes(const uint8_t **out, size_t *size, const char *path, ls_room *room)
{
    enum { MOST = 1 << 30 };
    int fd = -1;
    size_t got = 0, n = 0;
    LS_TRY(ls_file_open(&fd, &n, path));
    ls_status s = n <= MOST ? LS_OK
                            : ls_fail(LS_E_FORMAT,
                                      "%s: %zu bytes, and a picture has at most 2^26 pixels in 2^30 bytes; "
                                      "shrink it",
                                      path, n);
    uint8_t *to = s == LS_OK ? ls_room_get(room, LS_ROOM_FILE, n ? n : 1) : NULL;
    if (s == LS_OK && !to)
        s = ls_fail(LS_E_MEMORY, "%s: no memory for a file of %zu bytes", path, n);
    while (s == LS_OK && got < n) {
        const ssize_t r = read(fd, to + got, n - got);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            s = ls_fail(LS_E_IO, "%s: cannot read this picture: %s", path, strerror(errno));
        else if (r == 0)
            n = got; /* the file became shorter */
        else
            got += (size_t)r;
    }
    close(fd);
    *out = to;
    *size = got;
    return s;
}

void ls_image_list_name(ls_str *out, const ls_image_list *l, int64_t i)
{
    const ls_image_entry *e = &l->at[i];
    if (e->shard >= 0)
        ls_str_printf(out, "%s: %s", l->shards[e->shard].path, e->name);
    else if (*e->name == '/' || !*l->root)
        ls_str_add(out, e->name);
    else
        ls_str_printf(out, "%s/%s", l->root, e->name);
}

/* The bytes of a picture; the kernel is asked to read them at once, and no others. */
static const uint8_t *in_shard(const ls_mapping *map, uint64_t offset, size_t n)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), from = offset - offset % page;
    madvise((void *)((uintptr_t)map->data + from), (size_t)(offset - from) + n, MADV_WILLNEED); /* may fail */
    return map->data + offset;
}

ls_status ls_image_list_bytes(const uint8_t **out, size_t *n, const ls_image_list *l, int64_t i,
                              const char *name, ls_room *room)
{
    const ls_image_entry *e = &l->at[i];
    if (e->shard < 0)
        return ls_image_file_bytes(out, n, name, room);
    *n = (size_t)e->size;
    *out = in_shard(&l->shards[e->shard].map, e->offset, *n);
    return LS_OK;
}
