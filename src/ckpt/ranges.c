/* ranges.c - rank 0 makes files of the right sizes with their headers; then every rank writes what it has where it belongs, and remembers the
 * checksums of what it wrote; rank 0 puts those together in the manifest. */
#include "ckpt/ranges.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/oserror.h"
#include "base/sys.h"
#include "ckpt/layout.h"
#include "ckpt/manifest.h"

typedef struct writing {
    const char *dir;
    ls_group *group;
    bool first; /* rank 0 */
    ls_manifest manifest;
} writing;

static ls_status put(int fd, const char *path, const void *data, uint64_t n, uint64_t offset)
{
    for (uint64_t at = 0; at < n;) {
        ssize_t k = ls_sys_pwrite(fd, (const char *)data + at, n - at, (off_t)(offset + at));
        if (k < 0 && errno != EINTR)
            return ls_fail_os(path, "write", errno);
        at += k > 0 ? (uint64_t)k : 0;
    }
    return LS_OK;
}

static ls_status sync_file(int fd, const char *path) { return ls_sys_fsync(fd) == 0 ? LS_OK : ls_fail_os(path, "sync", errno); }

/* The same, remembered. */
static ls_status put_pieces(writing *w, int fd, const char *path, int file, const void *data, uint64_t n, uint64_t offset)
{
    for (uint64_t at = 0; at < n; at += LS_MANIFEST_PIECE) {
        const char *p = (const char *)data + at;
        uint64_t length = n - at < LS_MANIFEST_PIECE ? n - at : LS_MANIFEST_PIECE;
        ls_manifest_add(&w->manifest, 1, &(ls_piece){ (uint64_t)file, offset + at, length, ls_hash64(p, length) });
        LS_TRY(put(fd, path, p, length, offset + at));
    }
    return LS_OK;
}

/* A new file of `size` bytes that begins with these `n`. Complete, it goes to disk at once; else with the data. */
static ls_status create(writing *w, int file, const void *data, uint64_t n, uint64_t size)
{
    char *path = ls_path_join(w->dir, w->manifest.files[file].name);
    int fd = ls_sys_open(path, O_WRONLY | O_CREAT | O_EXCL);
    ls_status s = fd < 0 ? ls_fail_os(path, "create", errno) : LS_OK;
    if (s == LS_OK)
        s = put_pieces(w, fd, path, file, data, n, 0);
    if (s == LS_OK && size > n && ls_sys_ftruncate(fd, (off_t)size) != 0)
        s = ls_fail_os(path, "enlarge", errno);
    if (s == LS_OK && size == n)
        s = sync_file(fd, path);
    if (fd >= 0)
        close(fd);
    free(path);
    return s;
}

static ls_status create_text(writing *w, const char *name, const char *text, size_t n)
{
    json_t *parsed = NULL;
    LS_TRY(ls_json_parse(&parsed, text, n, name)); /* a checkpoint that cannot be read must not be written */
    json_decref(parsed);
    return create(w, ls_manifest_add_file(&w->manifest, name, n), text, n, n);
}

/* Rank 0's part before the others begin. The files of the layouts, which every rank numbers in the same way, come first. */
static ls_status create_files(writing *w, const ls_checkpoint_contents *c, int n, const ls_layout *layouts)
{
    int file = 0;
    LS_TRY(create_text(w, "config.json", c->config, strlen(c->config)));
    LS_TRY(create_text(w, "trainer.json", c->trainer, strlen(c->trainer)));
    for (int l = 0; l < n; l++) {
        for (int k = 0; k < layouts[l].n; k++, file++)
            LS_TRY(create(w, file, layouts[l].files[k].head.data, layouts[l].files[k].head.len, layouts[l].files[k].size));
        if (layouts[l].index.len > 0)
            LS_TRY(create_text(w, layouts[l].index_name, layouts[l].index.data, layouts[l].index.len));
    }
    return LS_OK;
}

static bool has_any(const ls_layout_file *f, const ls_tensor_list *list)
{
    bool any = false;
    for (int64_t i = f->first; i < f->end; i++)
        any = any || list->mine[i].count > 0;
    return any;
}

/* This rank's ranges of one file. */
static ls_status fill(writing *w, int file, const ls_layout_file *f, const ls_tensor_list *list)
{
    if (!has_any(f, list) && !w->first)
        return LS_OK;
    char *path = ls_path_join(w->dir, f->name);
    int fd = ls_sys_open(path, O_WRONLY);
    ls_status s = LS_OK;
    if (fd < 0)
        s = errno == ENOENT ? ls_fail(LS_E_IO, "%s: rank 0 has made it, but it is not there for rank %d: the folder must be the same on all hosts", path,
                                      ls_group_rank(w->group))
                            : ls_fail_os(path, "open", errno);
    uint64_t at = f->head.len;
    for (int64_t i = f->first; i < f->end && s == LS_OK; i++) {
        const size_t size = ls_dtype_size(list->tensors[i].tensor.type.dtype);
        const ls_range *r = &list->mine[i];
        s = put_pieces(w, fd, path, file, r->data, (uint64_t)r->count * size, at + (uint64_t)r->first * size);
        at += ls_type_bytes(&list->tensors[i].tensor.type);
    }
    if (s == LS_OK)
        s = sync_file(fd, path);
    if (fd >= 0)
        close(fd);
    free(path);
    return s;
}

/* The pieces of all ranks, on rank 0. */
static ls_status collect(writing *w)
{
    if (!w->group)
        return LS_OK;
    const int ranks = ls_group_size(w->group);
    int64_t counts[ranks], most = 0;
    LS_TRY(ls_group_all_gather(w->group, &w->manifest.n, sizeof(int64_t), counts));
    for (int r = 0; r < ranks; r++)
        most = counts[r] > most ? counts[r] : most;
    const size_t each = (size_t)most;
    ls_piece *mine = ls_sys_calloc(each, sizeof *mine), *all = ls_sys_calloc(each * (size_t)ranks, sizeof *all);
    if (each > 0 && (!mine || !all)) {
        free(mine);
        free(all);
        return ls_fail(LS_E_MEMORY, "out of memory for checksums");
    }
    if (w->manifest.n > 0)
        memcpy(mine, w->manifest.pieces, sizeof *mine * (size_t)w->manifest.n);
    ls_status s = ls_group_all_gather(w->group, mine, sizeof *mine * each, all);
    for (int r = 1; r < ranks && s == LS_OK && w->first; r++)
        ls_manifest_add(&w->manifest, counts[r], all + (size_t)r * each);
    free(mine);
    free(all);
    return s;
}

static ls_status write_manifest(writing *w)
{
    ls_str text = { 0 };
    ls_status s = ls_manifest_text(&text, &w->manifest);
    if (s == LS_OK)
        s = create(w, ls_manifest_add_file(&w->manifest, LS_MANIFEST, text.len), text.data, text.len, text.len);
    ls_str_release(&text);
    return s;
}

static ls_status write_all(writing *w, const ls_checkpoint_contents *c, int n, const ls_tensor_list *lists, const ls_layout *layouts)
{
    int file = 0;
    for (int l = 0; l < n; l++)
        for (int k = 0; k < layouts[l].n; k++)
            ls_manifest_add_file(&w->manifest, layouts[l].files[k].name, layouts[l].files[k].size);
    if (w->first)
        LS_TRY(create_files(w, c, n, layouts));
    if (w->group)
        LS_TRY(ls_group_barrier(w->group));
    for (int l = 0; l < n; l++)
        for (int k = 0; k < layouts[l].n; k++)
            LS_TRY(fill(w, file++, &layouts[l].files[k], &lists[l]));
    LS_TRY(collect(w));
    return w->first ? write_manifest(w) : LS_OK;
}

ls_status ls_ranges_write(const char *dir, const ls_checkpoint_contents *c, ls_group *g, uint64_t *bytes)
{
    writing w = { .dir = dir, .group = g && ls_group_size(g) > 1 ? g : NULL, .first = !g || ls_group_rank(g) == 0 };
    const ls_tensor_list lists[2] = { c->model, c->optimizer };
    const int n = c->optimizer.n > 0 ? 2 : 1;
    ls_layout layouts[2] = { 0 };
    ls_status s = ls_layout_make(&layouts[0], "model", c->max_file, c->model.n, c->model.tensors);
    if (s == LS_OK && n > 1)
        s = ls_layout_make(&layouts[1], "optimizer", c->max_file, c->optimizer.n, c->optimizer.tensors);
    if (s == LS_OK)
        s = write_all(&w, c, n, lists, layouts);
    uint64_t total = 0;
    for (int l = 0; l < n; l++) {
        for (int k = 0; k < layouts[l].n; k++)
            total += layouts[l].files[k].size;
        ls_layout_release(&layouts[l]);
    }
    if (bytes)
        *bytes = total;
    ls_manifest_release(&w.manifest);
    return s;
}
