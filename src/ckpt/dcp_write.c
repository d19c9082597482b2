/* dcp_write.c - writes a DCP directory: archives of torch.save one after the other in the file of each rank,
 * and the index. The index's pickle uses no memo, so that each tensor's part has the same form. Members with
 * defaults in PyTorch (storage_meta, version) are left out, because older versions do not know them. */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/sys.h"
#include "ckpt/dcp.h"
#include "ckpt/pt.h"
#include "ckpt/safetensors.h"

#define METADATA "torch.distributed.checkpoint.metadata "
#define DATA_FILE "__%d_0.distcp"

/* Begins an object. Its state follows, and ends with "b". */
static void put_class(ls_str *out, const char *global)
{
    ls_pickle_put_global(out, global);
    ls_str_add(out, ")\x81");
}

static void put_size(ls_str *out, int n, const int64_t *dims)
{
    ls_pickle_put_global(out, "torch Size");
    ls_str_add(out, "(");
    ls_pickle_put_ints(out, n, dims);
    ls_str_add(out, "tR");
}

static void put_properties(ls_str *out, ls_dtype dtype)
{
    put_class(out, METADATA "TensorProperties");
    ls_str_add(out, "(");
    ls_pickle_put_global(out, ls_pt_dtype_global(ls_safetensors_name(dtype)));
    ls_pickle_put_global(out, "torch.serialization _get_layout");
    ls_pickle_put_text(out, "torch.strided");
    ls_str_add(out, "\x85R\x89"); /* requires_grad: False */
    ls_pickle_put_global(out, METADATA "_MEM_FORMAT_ENCODING");
    ls_pickle_put_int(out, 0);
    ls_str_add(out, "\x85R\x89tb"); /* pin_memory: False */
}

/* Of the rows of a tensor those of one rank: as torch.chunk, so the last ranks may have fewer, or none. */
static bool rows_of(const ls_type *type, int ranks, int rank, int64_t *first, int64_t *n)
{
    const int64_t all = type->ndim ? type->dims[0] : 1, each = type->ndim ? (all + ranks - 1) / ranks : 1,
                  end = (rank + 1) * each < all ? (rank + 1) * each : all;
    *first = rank * each;
    *n = end - *first;
    return *n > 0 || rank == 0;
}

static ls_type part_of(const ls_type *type, int64_t rows)
{
    ls_type part = *type;
    if (part.ndim)
        part.dims[0] = rows;
    return part;
}

static void put_starts(ls_str *out, const ls_type *type, int64_t first)
{
    put_size(out, type->ndim, (const int64_t[LS_MAX_DIMS]){ first });
}

static void put_tensor_metadata(ls_str *out, const ls_type *type, int ranks)
{
    put_class(out, METADATA "TensorStorageMetadata");
    ls_str_add(out, "}(");
    ls_pickle_put_text(out, "properties");
    put_properties(out, type->dtype);
    ls_pickle_put_text(out, "size");
    put_size(out, type->ndim, type->dims);
    ls_pickle_put_text(out, "chunks");
    ls_str_add(out, "](");
    for (int r = 0; r < ranks; r++) {
        int64_t first, n;
        if (!rows_of(type, ranks, r, &first, &n))
            break;
        const ls_type part = part_of(type, n);
        put_class(out, METADATA "ChunkStorageMetadata");
        ls_str_add(out, "}(");
        ls_pickle_put_text(out, "offsets");
        put_starts(out, type, first);
        ls_pickle_put_text(out, "sizes");
        put_size(out, type->ndim, part.dims);
        ls_str_add(out, "ub");
    }
    ls_str_add(out, "eub");
}

/* The entry of one item; type NULL: an object of rank 0. first: the first row of the item. */
static void put_place(ls_str *out, const char *key, const ls_type *type, int rank, int64_t first,
                      uint64_t offset, uint64_t length)
{
    char file[32];
    ls_snprintf(file, sizeof file, DATA_FILE, rank);
    put_class(out, METADATA "MetadataIndex");
    ls_str_add(out, "}(");
    ls_pickle_put_text(out, "fqn");
    ls_pickle_put_text(out, key);
    ls_pickle_put_text(out, "index");
    if (type)
        ls_pickle_put_int(out, rank);
    else
        ls_str_add(out, "N");
    if (type) {
        ls_pickle_put_text(out, "offset");
        put_starts(out, type, first);
    }
    ls_str_add(out, "ub");
    put_class(out, "torch.distributed.checkpoint.filesystem _StorageInfo");
    ls_str_add(out, "}(");
    ls_pickle_put_text(out, "relative_path");
    ls_pickle_put_text(out, file);
    ls_pickle_put_text(out, "offset");
    ls_pickle_put_int(out, (int64_t)offset);
    ls_pickle_put_text(out, "length");
    ls_pickle_put_int(out, (int64_t)length);
    ls_str_add(out, "ub");
}

static void put_way(ls_str *out, const char *key, int n, const ls_dcp_step *way)
{
    ls_pickle_put_text(out, key);
    ls_str_add(out, "(");
    for (int i = 0; i < n; i++)
        if (way[i].word)
            ls_pickle_put_text(out, way[i].word);
        else
            ls_pickle_put_int(out, way[i].number);
    ls_str_add(out, "t");
}

static ls_status put_archive(ls_writer *out, const ls_str *pickle, const ls_type *type, const void *data)
{
    ls_zip_writer z;
    ls_zip_start(&z, out, "archive");
    ls_status s = ls_pt_put_head(&z, pickle);
    if (s == LS_OK && type)
        s = ls_zip_add(&z, "data/0", data, ls_type_bytes(type));
    if (s == LS_OK)
        s = ls_pt_put_tail(&z);
    if (s == LS_OK)
        return ls_zip_finish(&z);
    ls_zip_abort(&z);
    return s;
}

static ls_status put_key(ls_dcp_writer *w, ls_str *key, int n, const ls_dcp_step *way)
{
    for (int i = 0; i < n; i++)
        if (way[i].word)
            ls_str_printf(key, "%s%s", i ? "." : "", way[i].word);
        else
            ls_str_printf(key, "%s%" PRId64, i ? "." : "", way[i].number);
    ls_pickle_put_text(&w->tensors, ls_str_text(key));
    put_way(&w->ways, ls_str_text(key), n, way);
    return ls_str_status(key);
}

/* One rank's rows. */
static ls_status put_part(ls_dcp_writer *w, const char *key, const ls_type *type, int rank, int64_t first,
                          int64_t rows, const char *data)
{
    ls_writer *out = &w->out[rank];
    const uint64_t offset = out->offset;
    const ls_type part = part_of(type, rows), row = part_of(type, 1);
    ls_str pickle = { 0 };
    ls_pt_pickle_tensor(&pickle, &part);
    ls_status s = ls_str_status(&pickle);
    if (s == LS_OK)
        s = put_archive(out, &pickle, &part, data + (size_t)first * ls_type_bytes(&row));
    ls_str_release(&pickle);
    put_place(&w->places, key, type, rank, first, offset, out->offset - offset);
    return s;
}

ls_status ls_dcp_put_tensor(ls_dcp_writer *w, int n, const ls_dcp_step *way, const ls_type *type,
                            const void *data)
{
    ls_str key = { 0 };
    int64_t first, rows;
    ls_status s = put_key(w, &key, n, way);
    put_tensor_metadata(&w->tensors, type, w->ranks);
    for (int r = 0; r < w->ranks && s == LS_OK && rows_of(type, w->ranks, r, &first, &rows); r++)
        s = put_part(w, key.data, type, r, first, rows, data);
    ls_str_release(&key);
    return s;
}

ls_status ls_dcp_put_object(ls_dcp_writer *w, int n, const ls_dcp_step *way, const ls_str *pickle)
{
    ls_str whole = { 0 }, key = { 0 };
    const uint64_t offset = w->out->offset;
    ls_str_add(&whole, "\x80\x02");
    ls_str_add_n(&whole, pickle->data, pickle->len);
    ls_str_add(&whole, ".");
    ls_status s = put_key(w, &key, n, way);
    put_class(&w->tensors, METADATA "BytesStorageMetadata");
    if (s == LS_OK)
        s = ls_str_status(&whole);
    if (s == LS_OK)
        s = put_archive(w->out, &whole, NULL, NULL);
    put_place(&w->places, ls_str_text(&key), NULL, 0, 0, offset, w->out->offset - offset);
    ls_str_release(&key);
    ls_str_release(&whole);
    return s;
}

/* Whether the folder contains a DCP directory and nothing else; only then it may be deleted. */
static ls_status check_replaced(const char *dir)
{
    DIR *d = opendir(dir);
    bool index = false, data = true;
    if (!d)
        return LS_OK;
    for (const struct dirent *e; (e = readdir(d));) {
        const char *end = strrchr(e->d_name, '.');
        const bool is_index = !strcmp(e->d_name, LS_DCP_INDEX);
        index = index || is_index;
        data = data && (is_index || !strcmp(e->d_name, LS_DCP_ENDED) || !strcmp(e->d_name, ".") ||
                        !strcmp(e->d_name, "..") || (end && !strcmp(end, ".distcp")));
    }
    closedir(d);
    return index && data
               ? LS_OK
               : ls_fail(LS_E_USAGE,
                         "%s: only a DCP directory (" LS_DCP_INDEX ", .distcp files and " LS_DCP_ENDED
                         ", nothing else) is replaced by another: choose a new "
                         "name",
                         dir);
}

static ls_status open_files(ls_dcp_writer *w, int ranks)
{
    w->out = ls_sys_calloc((size_t)ranks, sizeof *w->out);
    LS_TRY(ls_sys_have(w->out));
    for (int r = 0; r < ranks; r++)
        w->out[r].fd = -1;
    for (w->ranks = 0; w->ranks < ranks; w->ranks++) {
        char file[32];
        ls_snprintf(file, sizeof file, DATA_FILE, w->ranks);
        char *path = ls_path_join(w->folder.unfinished, file);
        ls_status s = path ? ls_writer_open(&w->out[w->ranks], path) : ls_sys_have(path);
        free(path);
        LS_TRY(s);
    }
    return LS_OK;
}

ls_status ls_dcp_create(ls_dcp_writer *w, const char *dir, int ranks, bool replace)
{
    *w = (ls_dcp_writer){ .out = NULL };
    if (ranks < 1 || ranks > LS_DCP_RANKS)
        return ls_fail(LS_E_ARG, "%s: 1 to %d ranks can have written it, not %d", dir, LS_DCP_RANKS, ranks);
    if (replace)
        LS_TRY(check_replaced(dir));
    ls_status s = ls_folder_init(&w->folder, dir);
    w->folder.replace = replace;
    if (s == LS_OK)
        s = ls_folder_begin(&w->folder);
    if (s == LS_OK)
        s = open_files(w, ranks);
    if (s != LS_OK)
        ls_dcp_abort(w);
    return s;
}

static void put_dict(ls_str *out, const char *attribute, const ls_str *entries)
{
    ls_pickle_put_text(out, attribute);
    ls_str_add(out, "}(");
    ls_str_append(out, entries);
    ls_str_add(out, "u");
}

static ls_status write_index(ls_dcp_writer *w)
{
    ls_str index = { 0 };
    ls_str_add(&index, "\x80\x02");
    put_class(&index, METADATA "Metadata");
    ls_str_add(&index, "}(");
    put_dict(&index, "state_dict_metadata", &w->tensors);
    put_dict(&index, "planner_data", &w->ways);
    put_dict(&index, "storage_data", &w->places);
    ls_str_add(&index, "ub.");
    char *path = ls_path_join(w->folder.unfinished, LS_DCP_INDEX);
    ls_status s = ls_file_write_text(path, &index);
    free(path);
    ls_str_release(&index);
    return s;
}

ls_status ls_dcp_commit(ls_dcp_writer *w)
{
    ls_status s = LS_OK;
    for (int r = 0; r < w->ranks && s == LS_OK; r++)
        s = ls_writer_commit(&w->out[r]);
    if (s == LS_OK)
        s = write_index(w);
    if (s == LS_OK)
        s = ls_folder_commit(&w->folder);
    ls_dcp_abort(w); /* (removes nothing after a commit) */
    return s;
}

void ls_dcp_abort(ls_dcp_writer *w)
{
    for (int r = 0; r < w->ranks; r++)
        ls_writer_abort(&w->out[r]);
    free(w->out);
    ls_folder_release(&w->folder);
    ls_str_release(&w->tensors);
    ls_str_release(&w->ways);
    ls_str_release(&w->places);
}
