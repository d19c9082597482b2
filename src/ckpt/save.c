/* save.c - writes safetensors: a header whose length is filled up with spaces to a multiple of 8, then the
 * tensors in the given order without gaps; in one file, or in several with an index. The bytes depend on
 * names, types, shapes and values only. */
#include <inttypes.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/argument.h"
#include "base/file.h"
#include "base/json.h"
#include "base/sys.h"
#include "ckpt/elements.h"
#include "ckpt/layout.h"
#include "ckpt/pieces.h"
#include "ckpt/safetensors.h"

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const ls_named_tensor *const *)a)->name, (*(const ls_named_tensor *const *)b)->name);
}

ls_status ls_safetensors_names(const char *path, int64_t n, const ls_named_tensor *tensors)
{
    const ls_named_tensor **list = ls_sys_malloc(sizeof *list * (size_t)(n + 1));
    if (!list)
        return ls_fail(LS_E_MEMORY, "%s: out of memory", path);
    ls_status s = LS_OK;
    for (int64_t i = 0; i < n && s == LS_OK; i++) {
        const ls_named_tensor *t = &tensors[i];
        list[i] = t;
        if (!t->name || !t->name[0] || strcmp(t->name, "__metadata__") == 0)
            s = ls_fail(LS_E_ARG, "%s: tensor %" PRId64 " has no name that can be written", path, i);
    }
    if (s == LS_OK && n > 1) {
        qsort(list, (size_t)n, sizeof *list, compare_names);
        for (int64_t i = 1; i < n && s == LS_OK; i++)
            if (strcmp(list[i - 1]->name, list[i]->name) == 0)
                s = ls_fail(LS_E_ARG, "%s: two tensors are named \"%s\"", path, list[i]->name);
    }
    free(list);
    return s;
}

static ls_status check_data(const char *path, int64_t n, const ls_named_tensor *tensors)
{
    for (int64_t i = 0; i < n; i++) {
        const ls_named_tensor *t = &tensors[i];
        if (!ls_tensor_is_contiguous(&t->tensor))
            return ls_fail(LS_E_ARG, "%s: tensor \"%s\" is not contiguous", path, t->name);
        if (!t->tensor.data && ls_type_count(&t->tensor.type) > 0)
            return ls_fail(LS_E_ARG, "%s: tensor \"%s\" has no data", path, t->name);
    }
    return LS_OK;
}

void ls_safetensors_begin(ls_str *out, int64_t n, const ls_named_tensor *tensors, const char *key,
                          const char *value)
{
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_object(&j, "__metadata__");
    ls_json_text(&j, "format", "pt"); /* other readers require it */
    if (key)
        ls_json_text(&j, key, value);
    ls_json_close_object(&j);
    uint64_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        const ls_type *type = &tensors[i].tensor.type;
        uint64_t bytes = ls_type_bytes(type);
        ls_json_object(&j, tensors[i].name);
        ls_json_text(&j, "dtype", ls_safetensors_name(type->dtype));
        ls_json_array(&j, "shape");
        for (int d = 0; d < type->ndim; d++)
            ls_json_int(&j, NULL, type->dims[d]);
        ls_json_close_array(&j);
        ls_json_array(&j, "data_offsets");
        ls_json_int(&j, NULL, (int64_t)at);
        ls_json_int(&j, NULL, (int64_t)(at + bytes));
        ls_json_close_array(&j);
        ls_json_close_object(&j);
        at += bytes;
    }
    ls_json_close_object(&j);
    for (size_t pad = -j.out.len % 8; pad > 0; pad--)
        ls_str_add(&j.out, " ");
    char length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (char)((uint64_t)j.out.len >> (8 * i));
    ls_str_add_n(out, length, sizeof length);
    ls_str_append(out, &j.out);
    ls_str_release(&j.out);
}

static ls_status put_header(ls_writer *w, int64_t n, const ls_named_tensor *tensors)
{
    ls_str header = { 0 };
    ls_safetensors_begin(&header, n, tensors, NULL, NULL);
    ls_status s = ls_str_status(&header);
    if (s == LS_OK)
        s = ls_writer_put(w, header.data, header.len);
    ls_str_release(&header);
    return s;
}

static ls_status put_range(ls_writer *w, ls_pieces *p, const ls_range *r, ls_dtype type)
{
    for (int64_t at = 0, n; at < r->count; at += n) {
        const void *data;
        n = r->count - at;
        LS_TRY(ls_piece_get(p, r, type, at, &n, &data));
        LS_TRY(ls_writer_put(w, data, (size_t)n * ls_dtype_size(type)));
    }
    return LS_OK;
}

/* `mine` NULL: the tensors have data. */
static ls_status save(const char *path, ls_pieces *p, int64_t n, const ls_named_tensor *tensors,
                      const ls_range *mine)
{
    ls_writer w;
    LS_TRY(ls_writer_open(&w, path));
    ls_status s = put_header(&w, n, tensors);
    for (int64_t i = 0; i < n && s == LS_OK; i++) {
        const ls_tensor *t = &tensors[i].tensor;
        s = put_range(&w, p,
                      mine ? &mine[i] : &(ls_range){ .count = ls_type_count(&t->type), .data = t->data },
                      t->type.dtype);
    }
    if (s == LS_OK)
        return ls_writer_commit(&w);
    ls_writer_abort(&w);
    return s;
}

/* The name of another format would mislead readers of the file. */
static ls_status check_ending(const char *path)
{
    static const char *const others[] = { ".pt",  ".pth", ".bin",  ".ckpt", ".npy",
                                          ".npz", ".h5",  ".onnx", ".gguf" };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (ls_ends_with(path, others[i]))
            return ls_fail(LS_E_USAGE,
                           "%s: the file would be in the format of safetensors: let the name end in "
                           ".safetensors (lockstep export makes .pt files of a checkpoint)",
                           path);
    return LS_OK;
}

ls_status ls_tensors_save(const char *path, const ls_tensor_list *l)
{
    ls_pieces p;
    LS_TRY(check_ending(path));
    LS_TRY(ls_safetensors_names(path, l->n, l->tensors));
    LS_TRY(ls_pieces_open(&p, l));
    return ls_pieces_close(&p, save(path, &p, l->n, l->tensors, l->mine));
}

ls_status ls_weights_save(const char *path, int64_t n, const ls_named_tensor *tensors)
{
    LS_ARG(path);
    if (n)
        LS_ARG(tensors);
    for (int64_t i = 0; i < n; i++)
        LS_ARG_TYPE(tensors[i].tensor.type);
    LS_TRY(check_ending(path));
    LS_TRY(ls_safetensors_names(path, n, tensors));
    LS_TRY(check_data(path, n, tensors));
    return save(path, &(ls_pieces){ 0 }, n, tensors, NULL);
}

/* How many tensors, from `first` on, fit into a file of at most max_file bytes; at least one. */
static int64_t shard_end(int64_t first, uint64_t max_file, int64_t n, const ls_named_tensor *tensors)
{
    uint64_t bytes = 0;
    int64_t i = first;
    for (; i < n; i++) {
        bytes += ls_type_bytes(&tensors[i].tensor.type);
        if (max_file > 0 && bytes > max_file && i > first)
            break;
    }
    return i;
}

static void make_index(ls_layout *l, const char *base, int64_t n, const ls_named_tensor *tensors)
{
    uint64_t total = 0;
    for (int64_t i = 0; i < n; i++)
        total += ls_type_bytes(&tensors[i].tensor.type);
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_object(&j, "metadata");
    ls_json_int(&j, "total_size", (int64_t)total);
    ls_json_close_object(&j);
    ls_json_object(&j, "weight_map");
    for (int k = 0; k < l->n; k++)
        for (int64_t i = l->files[k].first; i < l->files[k].end; i++)
            ls_json_text(&j, tensors[i].name, l->files[k].name);
    ls_json_close_object(&j);
    ls_json_close_object(&j);
    ls_str_add(&j.out, "\n");
    l->index = j.out;
    snprintf(l->index_name, sizeof l->index_name, "%.12s.safetensors.index.json", base);
}

ls_status ls_layout_make(ls_layout *out, const char *base, uint64_t max_file, int64_t n,
                         const ls_named_tensor *tensors)
{
    *out = (ls_layout){ 0 };
    LS_TRY(ls_safetensors_names(base, n, tensors));
    int files = 0;
    for (int64_t first = 0; first < n || files == 0; first = shard_end(first, max_file, n, tensors))
        files++;
    out->files = ls_sys_calloc((size_t)files, sizeof *out->files);
    if (!out->files)
        return ls_fail(LS_E_MEMORY, "out of memory for a list of %d files", files);
    out->n = files;
    int64_t first = 0;
    for (int k = 0; k < files; k++) {
        ls_layout_file *f = &out->files[k];
        snprintf(f->name, sizeof f->name, "%.16s.safetensors", base);
        if (files > 1)
            snprintf(f->name, sizeof f->name, "%.16s-%05d-of-%05d.safetensors", base, k + 1, files);
        f->first = first;
        f->end = first = shard_end(first, max_file, n, tensors);
        ls_safetensors_begin(&f->head, f->end - f->first, tensors + f->first, NULL, NULL);
        LS_TRY(ls_str_status(&f->head));
        f->size = f->head.len;
        for (int64_t i = f->first; i < f->end; i++)
            f->size += ls_type_bytes(&tensors[i].tensor.type);
    }
    if (files > 1)
        make_index(out, base, n, tensors);
    return ls_str_status(&out->index);
}

void ls_layout_release(ls_layout *l)
{
    for (int k = 0; k < l->n; k++)
        ls_str_release(&l->files[k].head);
    free(l->files);
    ls_str_release(&l->index);
    *l = (ls_layout){ 0 };
}

/* the index comes last: without it several files are not a model */
ls_status ls_weights_save_dir(const char *dir, uint64_t max_file, int64_t n, const ls_named_tensor *tensors)
{
    LS_ARG(dir);
    if (n)
        LS_ARG(tensors);
    for (int64_t i = 0; i < n; i++)
        LS_ARG_TYPE(tensors[i].tensor.type);
    ls_layout l;
    ls_status s = ls_layout_make(&l, "model", max_file, n, tensors);
    for (int k = 0; k < l.n && s == LS_OK; k++) {
        char *path = ls_path_join(dir, l.files[k].name);
        s = ls_weights_save(path, l.files[k].end - l.files[k].first, tensors + l.files[k].first);
        free(path);
    }
    if (s == LS_OK && l.n > 1) {
        char *path = ls_path_join(dir, l.index_name);
        s = ls_file_write_text(path, &l.index);
        free(path);
    }
    ls_layout_release(&l);
    return s == LS_OK ? s : ls_trace(s, __FILE__, __LINE__, __func__);
}
