/* hf_shards.c - joins the files of HuggingFaceStorageWriter's ranks to whole tensors (hf_shards.h has the
 * format). What the files say comes from outside, so every number is checked before it is used. */
#include "ckpt/hf_shards.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "base/sys.h"
#include "ckpt/parts.h"
#include "ckpt/safetensors.h"

#define INFO "DCP_SHARDING_INFO"

/* ---- the files of a folder */

static bool read_name(const char *name, int *file, int *files)
{
    int rank, end = 0;
    return sscanf(name, "shard-%5d-model-%5d-of-%5d.safetensors%n", &rank, file, files, &end) == 3 && end &&
           !name[end] && *file >= 1 && *file <= *files;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A rank that had nothing to save wrote no file, so ranks may be missing. Every one of the model's files has
 * a tensor. */
static ls_status check_names(const char *const *names, int n, const char *dir)
{
    int file, files, other;
    for (int wanted = 1; n && read_name(names[0], &file, &files) && wanted <= files; wanted++) {
        bool found = false;
        for (int i = 0; i < n; i++)
            found = found || (read_name(names[i], &file, &other) && other == files && file == wanted);
        if (!found)
            return ls_fail(LS_E_FORMAT,
                           "%s: %s belongs to a model of %d files, and no shard has a part of file %d: copy "
                           "the folder again",
                           dir, names[0], files, wanted);
    }
    return LS_OK;
}

ls_status ls_hf_shard_names(const char ***names, int *n, ls_arena *arena, const char *dir)
{
    DIR *d = opendir(dir);
    int room = 0, file, files;
    *names = NULL;
    *n = 0;
    if (!d)
        return LS_OK;
    for (const struct dirent *e; (e = readdir(d));) {
        if (!read_name(e->d_name, &file, &files))
            continue;
        if (*n == room) {
            const char **all = LS_ARENA_ARRAY(arena, const char *, 2 * room + 16);
            if (all && *n)
                memcpy(all, *names, sizeof *all * (size_t)*n);
            *names = all;
            room = 2 * room + 16;
        }
        const char *name = ls_arena_strdup(arena, e->d_name);
        if (*names)
            (*names)[(*n)++] = name;
    }
    closedir(d);
    LS_TRY(ls_arena_status(arena));
    if (*n > 1)
        qsort(*names, (size_t)*n, sizeof **names, compare_texts);
    return check_names(*names, *n, dir);
}

/* ---- where each block begins */

static ls_status hf_shards_bad(const char *path, const char *name, const char *what)
{
    char shown[128];
    return ls_fail(LS_E_FORMAT, "%s: tensor \"%s\": %s: copy the folder again or save it again", path,
                   ls_shown_name(shown, name), what);
}

/* *out: NULL if the file says nothing, and then has whole tensors. */
static ls_status read_info(json_t **out, const json_t *metadata, const char *path)
{
    const char *text = json_string_value(json_object_get(metadata, INFO));
    *out = NULL;
    return text && *text ? ls_json_parse(out, text, strlen(text), path) : LS_OK;
}

ls_status ls_hf_shard_is(bool *is, const char *path, const json_t *metadata)
{
    const char *slash = strrchr(path, '/'), *key;
    int file, files;
    json_t *info, *entry, *offset;
    size_t i;
    *is = false;
    if (!json_object_get(metadata, INFO))
        return LS_OK;
    LS_TRY(read_info(&info, metadata, path));
    bool part = read_name(slash ? slash + 1 : path, &file, &files);
    json_object_foreach(info, key, entry)
    {
        json_array_foreach(json_object_get(entry, "saved_offsets"), i, offset)
            part = part || json_integer_value(offset) != 0;
    }
    json_decref(info);
    *is = part;
    return LS_OK;
}

/* A block of a tensor. */
typedef struct block {
    ls_weight *tensor;
    int64_t order;
    ls_box box; /* its `whole` is known when all blocks are */
} block;

static ls_status read_block(block *b, ls_weight *t, int64_t order, const json_t *info)
{
    const json_t *offsets = json_object_get(json_object_get(info, t->name), "saved_offsets");
    *b = (block){ .tensor = t, .order = order, .box = ls_box_of(&t->type) };
    if (!info)
        return LS_OK;
    if (!json_is_array(offsets) || json_array_size(offsets) != (size_t)t->type.ndim)
        return hf_shards_bad(t->file, t->name, INFO " does not say where in each dimension its part begins");
    for (int d = 0; d < t->type.ndim; d++) {
        const json_t *offset = json_array_get(offsets, (size_t)d);
        b->box.start[d] = json_integer_value(offset);
        if (!json_is_integer(offset) || b->box.start[d] < 0 ||
            __builtin_add_overflow(b->box.start[d], b->box.size[d], &b->box.whole[d]))
            return hf_shards_bad(t->file, t->name, "a number of " INFO " cannot be an offset");
    }
    return LS_OK;
}

static ls_status read_blocks(block *blocks, const ls_hf_shard *files, int n_files)
{
    int64_t at = 0;
    for (int f = 0; f < n_files; f++) {
        json_t *info;
        ls_status s = read_info(&info, files[f].metadata, files[f].path);
        for (int64_t i = 0; i < files[f].n && s == LS_OK; i++, at++)
            s = read_block(&blocks[at], &files[f].list[i], at, info);
        json_decref(info);
        LS_TRY(s);
    }
    return LS_OK;
}

/* ---- joining */

static int hf_shards_by_name(const void *a, const void *b)
{
    const block *x = a, *y = b;
    const int names = strcmp(x->tensor->name, y->tensor->name);
    return names ? names : (x->order > y->order) - (x->order < y->order);
}

/* Sets the shape of the whole in *type and in every block. */
static ls_status find_shape(ls_type *type, block *blocks, int64_t n)
{
    const ls_weight *first = blocks->tensor;
    int64_t count = 1;
    *type = first->type;
    for (int64_t i = 0; i < n; i++) {
        const ls_weight *t = blocks[i].tensor;
        if (t->type.ndim != type->ndim || strcmp(t->stored, first->stored) != 0)
            return hf_shards_bad(t->file, t->name, "another rank's file has another one there");
        for (int d = 0; d < type->ndim; d++)
            type->dims[d] = blocks[i].box.whole[d] > type->dims[d] ? blocks[i].box.whole[d] : type->dims[d];
    }
    for (int d = 0; d < type->ndim; d++)
        if (__builtin_mul_overflow(count, type->dims[d], &count))
            return hf_shards_bad(first->file, first->name, "its sizes do not fit in 63 bits");
    for (int64_t i = 0; i < n; i++)
        memcpy(blocks[i].box.whole, type->dims, sizeof type->dims);
    return LS_OK;
}

/* Joins n blocks of one tensor. */
static ls_status hf_shards_join(ls_weight *out, ls_arena *arena, block *blocks, int64_t n, const char *dir)
{
    char what[100];
    ls_type type;
    LS_TRY(find_shape(&type, blocks, n));
    struct ls_weight_parts *parts = LS_ARENA_NEW(arena, struct ls_weight_parts);
    LS_TRY(ls_sys_have(parts));
    parts->at = LS_ARENA_ARRAY(arena, struct ls_weight_part, n);
    LS_TRY(ls_sys_have(parts->at));
    uint64_t bytes = 0;
    for (int64_t i = 0; i < n; i++) {
        if (ls_box_count(&blocks[i].box) > 0) /* (a rank without rows has an empty block) */
            parts->at[parts->n++] = (struct ls_weight_part){ blocks[i].box, blocks[i].tensor };
        bytes += blocks[i].tensor->bytes;
    }
    if (!ls_parts_cover(parts->at, sizeof *parts->at, parts->n, ls_type_count(&type), ls_stop_asked, what)) {
        LS_TRY(ls_stop_check("opening %s", dir));
        return hf_shards_bad(dir, blocks->tensor->name, what);
    }
    *out = parts->n ? *parts->at[0].tensor : *blocks->tensor;
    out->type = type;
    if (parts->n > 1) {
        out->file = dir;
        out->offset = 0;
        out->bytes = bytes;
        out->data = NULL;
        out->parts = parts;
    }
    return LS_OK;
}

typedef struct joined {
    int64_t order;
    ls_weight tensor;
} joined;

static int by_order(const void *a, const void *b)
{
    const joined *x = a, *y = b;
    return (x->order > y->order) - (x->order < y->order);
}

static ls_status join_all(ls_weight **out, int64_t *count, ls_arena *arena, block *blocks, int64_t n,
                          const char *dir)
{
    joined *all = ls_sys_calloc((size_t)n + 1, sizeof *all);
    int64_t used = 0;
    ls_status s = ls_sys_have(all);
    for (int64_t i = 0, end; i < n && s == LS_OK; i = end) {
        for (end = i + 1; end < n && strcmp(blocks[end].tensor->name, blocks[i].tensor->name) == 0;)
            end++;
        all[used].order = blocks[i].order;
        s = hf_shards_join(&all[used++].tensor, arena, &blocks[i], end - i, dir);
    }
    *out = LS_ARENA_ARRAY(arena, ls_weight, n + 1);
    if (s == LS_OK)
        s = ls_sys_have(*out);
    if (s == LS_OK && used > 1)
        qsort(all, (size_t)used, sizeof *all, by_order);
    for (*count = 0; *count < used && s == LS_OK; ++*count)
        (*out)[*count] = all[*count].tensor;
    free(all);
    return s;
}

ls_status ls_hf_shards_join(ls_weight **out, int64_t *count, ls_arena *arena, const ls_hf_shard *files,
                            int n_files, const char *dir)
{
    int64_t n = 0;
    for (int f = 0; f < n_files; f++)
        n += files[f].n;
    block *blocks = ls_sys_calloc((size_t)n + 1, sizeof *blocks);
    ls_status s = ls_sys_have(blocks);
    if (s == LS_OK)
        s = read_blocks(blocks, files, n_files);
    if (s == LS_OK && n > 1)
        qsort(blocks, (size_t)n, sizeof *blocks, hf_shards_by_name);
    if (s == LS_OK)
        s = join_all(out, count, arena, blocks, n, dir);
    free(blocks);
    return s;
}
