/* ranges.c - writes a checkpoint's files from all ranks. Rank 0 makes the files with their headers and sizes,
 * or each rank makes its own. Then every rank writes its ranges to their positions (rank 0 also the texts),
 * and keeps checksums of what it wrote. Rank 0 collects the checksums in the manifest. */
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
#include "ckpt/adapter.h"
#include "ckpt/element_digest.h"
#include "ckpt/rank_files.h"
#include "comm/group_calls.h"

static ls_status ranges_put(int fd, const char *path, const void *data, uint64_t n, uint64_t offset)
{
    for (uint64_t at = 0; at < n;) {
        ssize_t k = ls_sys_pwrite(fd, (const char *)data + at, n - at, (off_t)(offset + at));
        if (k < 0 && errno != EINTR)
            return ls_fail_os(path, "write", errno);
        at += k > 0 ? (uint64_t)k : 0;
    }
    return LS_OK;
}

static ls_status sync_file(int fd, const char *path)
{
    return ls_sys_fsync(fd) == 0 ? LS_OK : ls_fail_os(path, "sync", errno);
}

static ls_status put_pieces(ls_ranges *w, int fd, const char *path, int file, const char *data, uint64_t n)
{
    for (uint64_t at = 0, length; at < n; at += length) {
        length = n - at < LS_MANIFEST_PIECE ? n - at : LS_MANIFEST_PIECE;
        LS_TRY(ls_manifest_add(&w->manifest, 1,
                               &(ls_piece){ (uint64_t)file, at, length, ls_hash64(data + at, length) }));
        LS_TRY(ranges_put(fd, path, data + at, length, at));
    }
    return LS_OK;
}

/* Makes a file of `size` bytes that begins with these n. sync: it is on disk afterwards. */
static ls_status create(ls_ranges *w, int file, const void *data, uint64_t n, uint64_t size, bool sync)
{
    char *path = ls_path_join(w->dir, w->manifest.files[file].name);
    int fd = ls_sys_open(path, O_WRONLY | O_CREAT | O_EXCL);
    ls_status s = fd < 0 ? ls_fail_os(path, "create", errno) : LS_OK;
    if (s == LS_OK)
        s = put_pieces(w, fd, path, file, data, n);
    if (s == LS_OK && size > n && ls_sys_ftruncate(fd, (off_t)size) != 0)
        s = ls_fail_os(path, "enlarge", errno);
    if (s == LS_OK && sync)
        s = sync_file(fd, path);
    if (fd >= 0)
        close(fd);
    free(path);
    return s;
}

static ls_status create_text(ls_ranges *w, const char *name, const char *text, size_t n)
{
    json_t *parsed = NULL;
    /* (a checkpoint that cannot be read must not be written) */
    LS_TRY(ls_json_parse(&parsed, text, n, name));
    json_decref(parsed);
    int file;
    LS_TRY(ls_manifest_add_file(&w->manifest, name, n, &file));
    return create(w, file, text, n, n, true);
}

/* The number in the manifest of file `k` of a layout. The tensors' files come first in it, so that all ranks
 * number them alike. */
static int ranges_number(const ls_ranges *w, int l, int k)
{
    if (w->per_rank)
        return l * w->ranks + w->rank;
    for (int i = 0; i < l; i++)
        k += w->layouts[i].n;
    return k;
}

ls_status ls_ranges_create(ls_ranges *w)
{
    for (int l = 0; l < w->n_lists; l++)
        for (int k = 0; k < w->layouts[l].n; k++) {
            const ls_layout_file *f = &w->layouts[l].files[k];
            /* reaches the disk together with the data */
            LS_TRY(create(w, ranges_number(w, l, k), f->head.data, f->head.len, f->size, false));
        }
    return LS_OK;
}

ls_status ls_ranges_find(const ls_ranges *w)
{
    ls_status s = LS_OK;
    for (int l = 0; l < w->n_lists; l++)
        for (int k = 0; k < w->layouts[l].n && s == LS_OK; k++) {
            /* (the first file of a list that has one for each rank is rank 0's) */
            const int file = w->per_rank ? l * w->ranks : ranges_number(w, l, k);
            char *path = ls_path_join(w->dir, w->manifest.files[file].name);
            s = ls_sys_have(path);
            if (s == LS_OK && !ls_file_exists(path))
                s = ls_fail(LS_E_IO,
                            "%s: rank 0 has made it, but it is not there for rank %d: the folder must be the "
                            "same on all hosts",
                            path, w->rank);
            free(path);
        }
    return s;
}

/* Another program's file, which need not be JSON. */
static ls_status create_beside(ls_ranges *w, const ls_beside *b)
{
    ls_mapping m = { .data = (const uint8_t *)b->text, .size = b->text ? strlen(b->text) : 0 };
    int file;
    if (!b->text)
        LS_TRY(ls_file_map(&m, b->path));
    ls_status s = ls_manifest_add_file(&w->manifest, b->name, m.size, &file);
    if (s == LS_OK)
        s = create(w, file, m.data, m.size, m.size, true);
    if (!b->text)
        ls_file_unmap(&m);
    return s;
}

static ls_status write_texts(ls_ranges *w)
{
    LS_TRY(create_text(w, "config.json", w->config, strlen(w->config)));
    LS_TRY(create_text(w, "trainer.json", w->trainer, strlen(w->trainer)));
    if (w->adapter)
        LS_TRY(create_text(w, LS_ADAPTER_CONFIG, w->adapter, strlen(w->adapter)));
    for (int l = 0; l < w->n_lists; l++)
        if (w->layouts[l].index.len > 0)
            LS_TRY(
                create_text(w, w->layouts[l].index_name, w->layouts[l].index.data, w->layouts[l].index.len));
    for (int i = 0; i < w->n_beside; i++)
        LS_TRY(create_beside(w, &w->beside[i]));
    return LS_OK;
}

static bool has_any(const ls_layout_file *f, const ls_tensor_list *list)
{
    bool any = false;
    for (int64_t i = f->first; i < f->end; i++)
        any = any || list->mine[i].count > 0;
    return any;
}

/* Checks elements at .. at + n - 1 of this rank's range of tensor i, and writes them to byte `offset` of the
 * file. Adds them to the hash or, if that is NULL, makes it of them: *sum. */
static ls_status put_block(ls_ranges *w, int fd, const char *path, const ls_tensor_list *list, int64_t i,
                           int64_t at, int64_t n, const void *data, uint64_t offset, ls_hasher *h,
                           uint64_t *sum)
{
    const size_t bytes = (size_t)n * ls_dtype_size(list->tensors[i].tensor.type.dtype);
    const ls_status s = ls_ranges_finite(list, i, at, n, data);
    if (s != LS_OK)
        return ls_fail(s, "no checkpoint is made (%s): %s", w->dir, ls_error_message());
    if (h)
        ls_hasher_add(h, data, bytes);
    else
        *sum = ls_hash64(data, bytes);
    return ranges_put(fd, path, data, bytes, offset);
}

/* Adds elements at .. at + n - 1 of this rank's range of tensor i to the digest of its list. */
static void add_digest(ls_ranges *w, const ls_tensor_list *list, int64_t i, int64_t at, int64_t n,
                       const uint8_t *data)
{
    const ls_dtype type = list->tensors[i].tensor.type.dtype;
    const size_t size = ls_dtype_size(type);
    const uint64_t seed = ls_element_seed(list->tensors[i].name, type);
    for (int64_t k = 0, part; k < n; k += part) {
        const int64_t first = ls_range_piece(&list->mine[i], at + k, &part);
        part = part < n - k ? part : n - k;
        w->digests[list - w->lists] += ls_element_digest(seed, data + (size_t)k * size, size, first, part);
    }
}

/* Writes elements at .. at + n - 1 of this rank's range of tensor i to byte `offset` of the file, and adds
 * their checksum to the manifest. */
static ls_status put_piece(ls_ranges *w, int fd, const char *path, int file, const ls_tensor_list *list,
                           int64_t i, int64_t at, int64_t n, uint64_t offset)
{
    const ls_dtype type = list->tensors[i].tensor.type.dtype;
    const size_t size = ls_dtype_size(type);
    ls_hasher *h = NULL;
    ls_status s = LS_OK;
    uint64_t sum = 0;
    for (int64_t k = 0, part; k < n && s == LS_OK; k += part) {
        const void *data;
        part = n - k;
        s = ls_piece_get(&w->pieces, &list->mine[i], type, at + k, &part, &data);
        if (s == LS_OK && part < n && !h)
            s = ls_sys_have(h = ls_hasher_create());
        if (s == LS_OK)
            s = put_block(w, fd, path, list, i, at + k, part, data, offset + (uint64_t)k * size, h, &sum);
        if (s == LS_OK)
            add_digest(w, list, i, at + k, part, data);
    }
    sum = h ? ls_hasher_end(&h) : sum;
    LS_TRY(s);
    return ls_manifest_add(&w->manifest, 1, &(ls_piece){ (uint64_t)file, offset, (uint64_t)n * size, sum });
}

/* Writes this rank's range of tensor i, whose first byte in the file is byte `at`. */
static ls_status put_range(ls_ranges *w, int fd, const char *path, int file, const ls_tensor_list *list,
                           int64_t i, uint64_t at)
{
    const size_t size = ls_dtype_size(list->tensors[i].tensor.type.dtype);
    const int64_t most = (int64_t)(LS_MANIFEST_PIECE / size);
    const ls_range *r = &list->mine[i];
    for (int64_t k = 0, n; k < r->count; k += n) {
        const int64_t first = ls_range_piece(r, k, &n);
        if (w->per_rank) /* nobody else's elements lie between its own */
            n = r->count - k;
        n = n < most ? n : most;
        LS_TRY(put_piece(w, fd, path, file, list, i, k, n, at + (uint64_t)(w->per_rank ? k : first) * size));
    }
    return LS_OK;
}

/* Writes this rank's ranges of one file. */
static ls_status ranges_fill(ls_ranges *w, int file, const ls_layout_file *f, const ls_tensor_list *list)
{
    if (!w->per_rank && !has_any(f, list) && w->rank > 0)
        return LS_OK;
    char *path = ls_path_join(w->dir, f->name);
    int fd = ls_sys_open(path, O_WRONLY);
    ls_status s = LS_OK;
    if (fd < 0 && errno == ENOENT && w->rank > 0) {
        /* rank 0 has failed and removed the file; its message will follow */
        w->gone = true;
        free(path);
        return LS_OK;
    }
    if (fd < 0)
        s = ls_fail_os(path, "open", errno);
    uint64_t at = f->head.len;
    for (int64_t i = f->first; i < f->end && s == LS_OK; i++) {
        const ls_type *type = &list->tensors[i].tensor.type;
        s = put_range(w, fd, path, file, list, i, at);
        at += w->per_rank ? (uint64_t)list->mine[i].count * ls_dtype_size(type->dtype) : ls_type_bytes(type);
    }
    if (s == LS_OK)
        s = sync_file(fd, path);
    if (fd >= 0)
        close(fd);
    free(path);
    return s;
}

/* Each rank begins with another file, because a file system handles one write to a file at a time. */
ls_status ls_ranges_write(ls_ranges *w)
{
    int n = 0;
    for (int l = 0; l < w->n_lists; l++)
        n += w->layouts[l].n;
    for (int i = 0; i < n; i++) {
        int l = 0, k = (int)(((int64_t)w->rank * n / w->ranks + i) % n);
        for (; k >= w->layouts[l].n; l++)
            k -= w->layouts[l].n;
        LS_TRY(ranges_fill(w, ranges_number(w, l, k), &w->layouts[l].files[k], &w->lists[l]));
    }
    return w->rank == 0 ? write_texts(w) : LS_OK;
}

static ls_status collect_digests(ls_ranges *w, ls_group *g)
{
    enum { N = sizeof w->digests / sizeof w->digests[0] };
    uint64_t *all;
    LS_TRY(ls_group_all_gather_new(g, w->digests, sizeof w->digests, (void **)&all));
    for (int k = N; k < N * w->ranks && w->rank == 0; k++)
        w->digests[k % N] += all[k];
    free(all);
    return LS_OK;
}

ls_status ls_ranges_collect(ls_ranges *w, ls_group *g)
{
    if (w->ranks == 1)
        return LS_OK;
    LS_TRY(collect_digests(w, g));
    int64_t *counts, most = 0;
    LS_TRY(ls_group_all_gather_new(g, &w->manifest.n, sizeof *counts, (void **)&counts));
    if (w->gone) { /* (and rank 0 has not failed) */
        free(counts);
        return ls_fail(LS_E_IO, "%s: somebody removed files of it while rank %d wrote them", w->dir, w->rank);
    }
    for (int r = 0; r < w->ranks; r++)
        most = counts[r] > most ? counts[r] : most;
    const size_t each = (size_t)most;
    ls_piece *mine = ls_sys_calloc(each, sizeof *mine),
             *all = ls_sys_calloc(each * (size_t)w->ranks, sizeof *all);
    if (each > 0 && (!mine || !all)) {
        free(mine);
        free(all);
        free(counts);
        return ls_fail(LS_E_MEMORY, "out of memory for checksums");
    }
    if (w->manifest.n > 0)
        memcpy(mine, w->manifest.pieces, sizeof *mine * (size_t)w->manifest.n);
    ls_status s = ls_group_all_gather(g, mine, sizeof *mine * each, all);
    for (int r = 1; r < w->ranks && s == LS_OK && w->rank == 0; r++)
        s = ls_manifest_add(&w->manifest, counts[r], all + (size_t)r * each);
    free(mine);
    free(all);
    free(counts);
    return s;
}

ls_status ls_ranges_prove(const ls_ranges *w)
{
    ls_status s = LS_OK;
    for (int l = 0; l < w->n_lists && w->per_rank && s == LS_OK; l++) {
        char *path = ls_path_join(w->dir, w->layouts[l].files->name);
        s = path ? ls_rank_files_check(path) : ls_sys_have(path);
        free(path);
    }
    return s == LS_E_FORMAT
               ? ls_fail(LS_E_ARG, "what the ranks wrote is not every element once: %s", ls_error_message())
               : s;
}

ls_status ls_ranges_write_manifest(ls_ranges *w)
{
    ls_str text = { 0 };
    LS_TRY(ls_ranges_compact(w));
    ls_status s = ls_manifest_text(&text, &w->manifest);
    int file = 0;
    if (s == LS_OK)
        s = ls_manifest_add_file(&w->manifest, LS_MANIFEST, text.len, &file);
    if (s == LS_OK)
        s = create(w, file, text.data, text.len, text.len, true);
    ls_str_release(&text);
    return s;
}

/* The lists of `c` end with the call that begins the save. */
static ls_status keep_beside(ls_ranges *w, const ls_checkpoint_contents *c)
{
    w->beside = ls_sys_calloc((size_t)c->n_beside + 1, sizeof *w->beside);
    LS_TRY(ls_sys_have(w->beside));
    for (; w->n_beside < c->n_beside; w->n_beside++) {
        const ls_beside *from = &c->beside[w->n_beside];
        ls_beside *to = &w->beside[w->n_beside];
        *to = (ls_beside){ .name = ls_sys_strdup(from->name),
                           .path = from->path ? ls_sys_strdup(from->path) : NULL,
                           .text = from->text ? ls_sys_strdup(from->text) : NULL };
        if (!to->name || (!to->path && !to->text)) {
            w->n_beside++; /* (to be released) */
            return ls_fail(LS_E_MEMORY, "%s: no memory to write it", w->dir);
        }
    }
    return LS_OK;
}

ls_status ls_ranges_init(ls_ranges *w, const char *dir, const ls_checkpoint_contents *c, int rank, int ranks)
{
    *w = (ls_ranges){ .dir = ls_sys_strdup(dir),
                      .rank = rank,
                      .ranks = ranks,
                      .config = ls_sys_strdup(c->config),
                      .trainer = ls_sys_strdup(c->trainer) };
    w->adapter = c->adapter ? ls_sys_strdup(c->adapter) : NULL;
    if (!w->dir || !w->config || !w->trainer || (c->adapter && !w->adapter))
        return ls_fail(LS_E_MEMORY, "%s: no memory to write it", dir);
    LS_TRY(keep_beside(w, c));
    const char *const NAMES[3] = { c->adapter ? LS_ADAPTER_WEIGHTS
                                   : c->part  ? LS_TRAINED_WEIGHTS
                                              : "model",
                                   "optimizer", "live" };
    const ls_tensor_list *all[3] = { &c->model, &c->optimizer, &c->live };
    w->per_rank = c->per_rank;
    for (int i = 0; i < 3; i++) {
        const int l = w->n_lists;
        if (i > 0 && !all[i]->n)
            continue;
        w->names[l] = NAMES[i];
        w->lists[w->n_lists++] = *all[i];
        LS_TRY(w->per_rank ? ls_rank_layout_make(&w->layouts[l], NAMES[i], all[i], rank, ranks)
                           : ls_layout_make(&w->layouts[l], NAMES[i], c->adapter && !i ? 0 : c->max_file,
                                            all[i]->n, all[i]->tensors)); /* PEFT reads one file */
        if (!w->pieces.room)
            LS_TRY(ls_pieces_open(&w->pieces, all[i]));
    }
    return LS_OK;
}

static ls_status list_file(ls_ranges *w, const char *name, uint64_t size)
{
    int file;
    w->bytes += size;
    return ls_manifest_add_file(&w->manifest, name, size, &file);
}

ls_status ls_ranges_list(ls_ranges *w, ls_group *g)
{
    uint64_t mine[3] = { 0 }, *sizes = mine; /* of each rank's files */
    char name[64];
    for (int l = 0; l < w->n_lists && !w->per_rank; l++)
        for (int k = 0; k < w->layouts[l].n; k++)
            LS_TRY(list_file(w, w->layouts[l].files[k].name, w->layouts[l].files[k].size));
    if (!w->per_rank)
        return LS_OK;
    for (int l = 0; l < w->n_lists; l++)
        mine[l] = w->layouts[l].files->size;
    if (g)
        LS_TRY(ls_group_all_gather_new(g, mine, sizeof mine, (void **)&sizes));
    ls_status s = LS_OK;
    for (int l = 0; l < w->n_lists; l++)
        for (int r = 0; r < w->ranks && s == LS_OK; r++) {
            ls_rank_file_name(name, w->names[l], r);
            s = list_file(w, name, sizes[3 * r + l]);
        }
    if (g)
        free(sizes);
    return s;
}

void ls_ranges_release(ls_ranges *w)
{
    for (int l = 0; l < w->n_lists; l++)
        ls_layout_release(&w->layouts[l]);
    ls_manifest_release(&w->manifest);
    (void)ls_pieces_close(&w->pieces, LS_OK); /* (nothing was put) */
    free(w->dir);
    free(w->config);
    free(w->trainer);
    for (int i = 0; i < w->n_beside; i++) {
        free(w->beside[i].name);
        free(w->beside[i].path);
        free(w->beside[i].text);
    }
    free(w->beside);
    free(w->adapter);
    *w = (ls_ranges){ 0 };
}
