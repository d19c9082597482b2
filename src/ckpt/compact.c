/* compact.c - fewer checksums. A weight that is split by columns is written row by row, and a checksum for
 * each row would make a manifest of megabytes. So when all ranks have written, rank 0 reads these rows again,
 * compares each with its checksum, and replaces the checksums by one for each piece of up to
 * LS_MANIFEST_PIECE bytes. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/oserror.h"
#include "base/sys.h"
#include "ckpt/ranges.h"

typedef struct area {
    uint64_t begin, end;
} area; /* a range of bytes of a file, in which pieces may be joined */

static ls_status get(int fd, const char *path, char *data, uint64_t n, uint64_t offset)
{
    for (uint64_t at = 0; at < n;) {
        const ssize_t k = pread(fd, data + at, n - at, (off_t)(offset + at));
        if (k == 0)
            return ls_fail(LS_E_IO, "%s: ends at byte %llu, where something has been written", path,
                           (unsigned long long)(offset + at));
        if (k < 0 && errno != EINTR)
            return ls_fail_os(path, "read", errno);
        at += k > 0 ? (uint64_t)k : 0;
    }
    return LS_OK;
}

/* Joins n neighbouring pieces to one, the first. */
static ls_status compact_join(int fd, const char *path, ls_piece *p, int64_t n, char *room)
{
    const ls_piece *last = &p[n - 1];
    const uint64_t length = last->offset + last->length - p->offset;
    if (n == 1)
        return LS_OK;
    LS_TRY(get(fd, path, room, length, p->offset));
    for (int64_t i = 0; i < n; i++)
        if (ls_hash64(room + (p[i].offset - p->offset), p[i].length) != p[i].sum)
            return ls_fail(LS_E_IO, "%s: bytes %llu to %llu are not what has just been written there", path,
                           (unsigned long long)p[i].offset,
                           (unsigned long long)(p[i].offset + p[i].length - 1));
    p->length = length;
    p->sum = ls_hash64(room, length);
    return LS_OK;
}

/* How many of the n pieces from `p` on can be joined: they lie in the area, follow one another, and together
 * are no longer than a piece may be. */
static int64_t neighbours(const ls_piece *p, int64_t n, area a)
{
    int64_t k = 1;
    while (k < n && p[k].file == p->file && p[k].offset == p[k - 1].offset + p[k - 1].length &&
           p->offset >= a.begin && p[k].offset + p[k].length <= a.end &&
           p[k].offset + p[k].length - p->offset <= LS_MANIFEST_PIECE)
        k++;
    return k;
}

/* Joins the pieces of one tensor, from number *from on, and writes the results from number *to on. Both are
 * advanced. */
static ls_status compact_area(ls_manifest *m, int fd, const char *path, int file, area a, char *room,
                              int64_t *from, int64_t *to)
{
    while (*from < m->n && (m->pieces[*from].file < (uint64_t)file ||
                            (m->pieces[*from].file == (uint64_t)file && m->pieces[*from].offset < a.end))) {
        ls_piece *p = &m->pieces[*from];
        const int64_t n = p->file == (uint64_t)file ? neighbours(p, m->n - *from, a) : 1;
        LS_TRY(compact_join(fd, path, p, n, room));
        m->pieces[(*to)++] = *p;
        *from += n;
    }
    return LS_OK;
}

/* Whether the rank's range of tensor i consists of several runs. (A block that is split by rows is one
 * run.) */
static bool strided(const ls_tensor_list *l, int64_t i)
{
    return l->mine[i].differ || (l->mine[i].box && ls_box_rows_of(l->mine[i].box).n > 1);
}

static ls_status compact_file(ls_ranges *w, int file, const ls_layout_file *f, const ls_tensor_list *list,
                              char *room, int64_t *from, int64_t *to)
{
    char *path = ls_path_join(w->dir, f->name);
    int fd = -1;
    size_t size = 0;
    ls_status s = ls_file_open(&fd, &size, path);
    uint64_t at = f->head.len;
    for (int64_t i = f->first; i < f->end && s == LS_OK; i++) {
        const uint64_t bytes = ls_type_bytes(&list->tensors[i].tensor.type);
        if (strided(list, i))
            s = compact_area(&w->manifest, fd, path, file, (area){ at, at + bytes }, room, from, to);
        at += bytes;
    }
    if (fd >= 0)
        close(fd);
    free(path);
    return s;
}

ls_status ls_ranges_compact(ls_ranges *w)
{
    ls_manifest *m = &w->manifest;
    bool any = false;
    for (int l = 0; l < w->n_lists && !w->per_rank; l++)
        for (int64_t i = 0; i < w->lists[l].n; i++)
            any = any || strided(&w->lists[l], i);
    if (!any)
        return LS_OK;
    char *room = ls_sys_malloc(LS_MANIFEST_PIECE);
    if (!room)
        return ls_fail(LS_E_MEMORY, "out of memory for checksums");
    ls_manifest_sort(m);
    ls_status s = LS_OK;
    int64_t from = 0, to = 0;
    for (int l = 0, file = 0; l < w->n_lists; l++)
        for (int k = 0; k < w->layouts[l].n && s == LS_OK; k++, file++)
            s = compact_file(w, file, &w->layouts[l].files[k], &w->lists[l], room, &from, &to);
    for (; from < m->n && s == LS_OK; from++)
        m->pieces[to++] = m->pieces[from];
    if (s == LS_OK)
        m->n = to;
    free(room);
    return s;
}
