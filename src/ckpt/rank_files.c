/* rank_files.c - one file for each rank: makes the header of a rank's file, and joins the files of all ranks
 * to whole tensors (rank_files.h has the format). What the files say comes from outside, so every number is
 * checked before it is used. */
#include "ckpt/rank_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "base/sys.h"
#include "ckpt/parts.h"
#include "ckpt/safetensors.h"

void ls_rank_file_name(char name[64], const char *base, int rank)
{
    snprintf(name, 64, "%.16s-rank-%05d.safetensors", base, rank);
}

/* ---- writing */

/* Whether the rank's file has this tensor: it has elements of it, or it is rank 0 and there are none. */
static bool rank_has_tensor(const ls_tensor_list *list, int64_t i, int rank)
{
    return list->mine[i].count > 0 || (rank == 0 && ls_type_count(&list->tensors[i].tensor.type) == 0);
}

static void put_sizes(ls_json *j, const char *key, const int64_t *sizes, int n)
{
    ls_json_array(j, key);
    for (int d = 0; d < n; d++)
        ls_json_int(j, NULL, sizes[d]);
    ls_json_close_array(j);
}

static void put_parts(ls_json *j, const ls_tensor_list *list, int rank, int ranks)
{
    ls_json_object(j, NULL);
    ls_json_int(j, "rank", rank);
    ls_json_int(j, "ranks", ranks);
    ls_json_int(j, "count", list->n);
    ls_json_object(j, "tensors");
    for (int64_t i = 0; i < list->n; i++) {
        const ls_type *type = &list->tensors[i].tensor.type;
        const ls_range *r = &list->mine[i];
        const ls_box box = r->box ? *r->box : ls_box_of(type);
        if (!rank_has_tensor(list, i, rank))
            continue;
        ls_json_object(j, list->tensors[i].name);
        ls_json_int(j, "number", i);
        put_sizes(j, "shape", type->dims, type->ndim);
        put_sizes(j, "whole", box.whole, box.ndim);
        put_sizes(j, "start", box.start, box.ndim);
        put_sizes(j, "size", box.size, box.ndim);
        ls_json_int(j, "first", r->first);
        ls_json_close_object(j);
    }
    ls_json_close_object(j);
    ls_json_close_object(j);
}

static ls_status make_file(ls_layout_file *f, const char *base, const ls_tensor_list *list, int rank,
                           int ranks)
{
    ls_named_tensor *flat = ls_sys_calloc((size_t)list->n + 1, sizeof *flat);
    LS_TRY(ls_sys_have(flat));
    int64_t n = 0;
    ls_rank_file_name(f->name, base, rank);
    f->end = list->n;
    for (int64_t i = 0; i < list->n; i++) {
        const ls_type type = LS_TYPE(list->tensors[i].tensor.type.dtype, list->mine[i].count);
        if (!rank_has_tensor(list, i, rank))
            continue;
        flat[n++] = (ls_named_tensor){ list->tensors[i].name, ls_tensor_of(NULL, &type) };
        f->size += ls_type_bytes(&type);
    }
    ls_json parts = { 0 };
    put_parts(&parts, list, rank, ranks);
    ls_safetensors_begin(&f->head, n, flat, LS_RANK_PARTS, ls_str_text(&parts.out));
    ls_str_inherit(&f->head, &parts.out);
    f->size += f->head.len;
    ls_str_release(&parts.out);
    free(flat);
    return ls_str_status(&f->head);
}

ls_status ls_rank_layout_make(ls_layout *out, const char *base, const ls_tensor_list *list, int rank,
                              int ranks)
{
    *out = (ls_layout){ 0 };
    LS_TRY(ls_safetensors_names(base, list->n, list->tensors));
    out->files = ls_sys_calloc(1, sizeof *out->files);
    LS_TRY(ls_sys_have(out->files));
    out->n = 1;
    return make_file(out->files, base, list, rank, ranks);
}

/* ---- reading */

/* A rank's file that has been parsed. */
typedef struct rank_file {
    const char *path;
    ls_weight *flat; /* its n tensors */
    int64_t n;
    json_t *parts;
    int64_t rank, ranks, count; /* what it says of itself */
} rank_file;

/* A run of elements of one tensor in one rank's file. */
typedef struct run {
    int64_t number, first;
    const ls_weight *flat;
    ls_type shape;
    ls_box box;
} run;

static ls_status rank_files_bad(const char *path, const char *name, const char *what)
{
    char shown[128];
    return ls_fail(LS_E_FORMAT,
                   "%s: tensor \"%s\": %s: the file is damaged, or of another checkpoint: use another one",
                   path, ls_shown_name(shown, name), what);
}

/* Reads a list of sizes. False: it is something else, or their product does not fit in 63 bits. */
static bool read_sizes(json_t *list, int64_t *sizes, int *n, int64_t *product)
{
    *n = (int)json_array_size(list);
    *product = 1;
    bool sound = json_is_array(list) && json_array_size(list) <= LS_MAX_DIMS;
    for (int d = 0; sound && d < *n; d++) {
        json_t *size = json_array_get(list, (size_t)d);
        sizes[d] = json_integer_value(size);
        sound = json_is_integer(size) && sizes[d] >= 0 &&
                !__builtin_mul_overflow(*product, sizes[d], product);
    }
    return sound;
}

/* A number of `least` to `most`. */
static bool read_number(json_t *object, const char *key, int64_t least, int64_t most, int64_t *out)
{
    json_t *value = json_object_get(object, key);
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= least && *out <= most;
}

static ls_status read_run(run *r, const rank_file *f, const ls_weight *flat, json_t *entry, int64_t count)
{
    int64_t all, whole, product, bytes;
    int n[3];
    *r = (run){ .flat = flat };
    if (flat->type.ndim != 1 || !read_number(entry, "number", 0, count - 1, &r->number))
        return rank_files_bad(f->path, flat->name,
                              "it is not a list of elements with its place among the tensors");
    if (!read_sizes(json_object_get(entry, "shape"), r->shape.dims, &r->shape.ndim, &all) ||
        !read_sizes(json_object_get(entry, "whole"), r->box.whole, &r->box.ndim, &whole) ||
        !read_sizes(json_object_get(entry, "start"), r->box.start, &n[0], &product) ||
        !read_sizes(json_object_get(entry, "size"), r->box.size, &n[1], &product) || all != whole ||
        n[0] != r->box.ndim || n[1] != r->box.ndim || !ls_box_inside(&r->box) ||
        __builtin_mul_overflow(all, (int64_t)8, &bytes))
        return rank_files_bad(f->path, flat->name, "its block (whole, start, size) is not part of a tensor");
    const int64_t block = ls_box_count(&r->box);
    if (!read_number(entry, "first", 0, block, &r->first) || flat->type.dims[0] > block - r->first)
        return rank_files_bad(f->path, flat->name, "it has more elements than its block");
    r->shape.dtype = flat->type.dtype;
    return LS_OK;
}

/* Reads the header of a rank's file. */
static ls_status parse_file(rank_file *f, ls_arena *arena, const ls_mapping *map, const char *path)
{
    *f = (rank_file){ .path = ls_arena_strdup(arena, path) };
    LS_TRY(ls_sys_have(f->path));
    json_t *metadata = NULL;
    LS_TRY(ls_safetensors_parse(arena, map->data, map->size, f->path, &f->flat, &f->n, &metadata));
    const char *text = json_string_value(json_object_get(metadata, LS_RANK_PARTS));
    ls_status s = text ? ls_json_parse(&f->parts, text, strlen(text), f->path) : LS_OK;
    json_decref(metadata);
    if (s == LS_OK && (!read_number(f->parts, "ranks", 1, 99999, &f->ranks) ||
                       !read_number(f->parts, "rank", 0, f->ranks - 1, &f->rank) ||
                       !read_number(f->parts, "count", 0, INT64_MAX, &f->count)))
        s = ls_fail(LS_E_FORMAT,
                    "%s: its __metadata__ does not say in \"" LS_RANK_PARTS
                    "\" which rank's file it is, and how many tensors there are: use another checkpoint",
                    f->path);
    return s;
}

/* Reads what file number `at` says of its tensors. */
static ls_status rank_files_read_file(run *runs, const rank_file *f, int at, const rank_file *first)
{
    json_t *list = json_object_get(f->parts, "tensors");
    if (f->rank != at || f->ranks != first->ranks || f->count != first->count)
        return ls_fail(LS_E_FORMAT,
                       "%s: is the file of rank %" PRId64 " of %" PRId64 " with %" PRId64
                       " tensors, and should be that of rank %d of %" PRId64 " with %" PRId64
                       ": it is of another checkpoint: use another one",
                       f->path, f->rank, f->ranks, f->count, at, first->ranks, first->count);
    if ((int64_t)json_object_size(list) != f->n)
        return ls_fail(LS_E_FORMAT,
                       "%s: \"" LS_RANK_PARTS "\" does not list its tensors: use another checkpoint",
                       f->path);
    for (int64_t i = 0; i < f->n; i++)
        LS_TRY(read_run(&runs[i], f, &f->flat[i], json_object_get(list, f->flat[i].name), f->count));
    return LS_OK;
}

static int by_number(const void *a, const void *b)
{
    const run *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static bool of_one_tensor(const run *a, const run *b)
{
    return !strcmp(a->flat->name, b->flat->name) && a->flat->stored == b->flat->stored &&
           ls_type_equal(&a->shape, &b->shape) && a->box.ndim == b->box.ndim &&
           !memcmp(a->box.whole, b->box.whole, sizeof a->box.whole);
}

static int64_t boxes_of(const run *r)
{
    int64_t n = 0;
    ls_box box;
    for (int64_t done = 0, all = r->flat->type.dims[0]; done < all; n++)
        done += ls_box_cut(&box, &r->box, r->first + done, all - done);
    return n;
}

/* Cuts a run into boxes, and adds each to `parts`, whose memory is enough for them. */
static ls_status add_boxes(struct ls_weight_parts *parts, ls_arena *arena, const run *r)
{
    const size_t size = r->flat->type.dims[0] ? r->flat->bytes / (uint64_t)r->flat->type.dims[0] : 0;
    for (int64_t done = 0, n; done < r->flat->type.dims[0]; done += n) {
        struct ls_weight_part *part = &parts->at[parts->n++];
        n = ls_box_cut(&part->box, &r->box, r->first + done, r->flat->type.dims[0] - done);
        part->tensor = ls_arena_dup(arena, r->flat, sizeof *r->flat);
        LS_TRY(ls_sys_have(part->tensor));
        part->tensor->type.ndim = part->box.ndim;
        memcpy(part->tensor->type.dims, part->box.size, sizeof part->box.size);
        part->tensor->bytes = (uint64_t)n * size;
        part->tensor->offset += (uint64_t)done * size;
        part->tensor->data = (const uint8_t *)part->tensor->data + (uint64_t)done * size;
    }
    return LS_OK;
}

/* Joins n runs to one tensor. */
static ls_status rank_files_join(ls_weight *out, ls_arena *arena, const run *runs, int64_t n)
{
    const ls_weight *flat = runs->flat;
    char what[100];
    struct ls_weight_parts *parts = LS_ARENA_NEW(arena, struct ls_weight_parts);
    LS_TRY(ls_sys_have(parts));
    int64_t most = 1;
    for (int64_t i = 0; i < n; i++)
        most += boxes_of(&runs[i]);
    parts->at = LS_ARENA_ARRAY(arena, struct ls_weight_part, most);
    LS_TRY(ls_sys_have(parts->at));
    for (int64_t i = 0; i < n; i++) {
        if (!of_one_tensor(runs, &runs[i]))
            return rank_files_bad(runs[i].flat->file, runs[i].flat->name,
                                  "another rank's file has another one there");
        LS_TRY(add_boxes(parts, arena, &runs[i]));
    }
    if (!ls_parts_cover(parts->at, sizeof *parts->at, parts->n, ls_type_count(&runs->shape), NULL, what))
        return rank_files_bad(flat->file, flat->name, what);
    *out = parts->n == 1 ? *parts->at[0].tensor : *flat;
    out->type = runs->shape;
    out->bytes = flat->type.dims[0]
                     ? flat->bytes / (uint64_t)flat->type.dims[0] * (uint64_t)ls_type_count(&runs->shape)
                     : 0;
    if (parts->n > 1) {
        out->data = NULL;
        out->parts = parts;
    }
    return LS_OK;
}

static ls_status join_all(ls_weight **out, int64_t *n, ls_arena *arena, const run *runs, int64_t n_runs,
                          int64_t count, const char *path)
{
    *out = LS_ARENA_ARRAY(arena, ls_weight, n_runs + 1);
    LS_TRY(ls_sys_have(*out));
    *n = 0;
    for (int64_t i = 0, end; i < n_runs; i = end) {
        for (end = i + 1; end < n_runs && runs[end].number == runs[i].number;)
            end++;
        if (runs[i].number != *n)
            break;
        LS_TRY(rank_files_join(&(*out)[(*n)++], arena, &runs[i], end - i));
    }
    return *n == count ? LS_OK
                       : ls_fail(LS_E_FORMAT,
                                 "%s: no rank's file has tensor number %" PRId64 " of %" PRId64
                                 ": the checkpoint is damaged: use another one",
                                 path, *n, count);
}

static ls_status join_files(ls_weight **out, int64_t *n, ls_arena *arena, const rank_file *files)
{
    const int ranks = (int)files->ranks;
    int64_t n_runs = 0, at = 0;
    for (int r = 0; r < ranks; r++)
        n_runs += files[r].n;
    run *runs = ls_sys_calloc((size_t)n_runs + 1, sizeof *runs);
    ls_status s = ls_sys_have(runs);
    for (int r = 0; r < ranks && s == LS_OK; at += files[r++].n)
        s = rank_files_read_file(runs + at, &files[r], r, files);
    if (s == LS_OK && n_runs > 1)
        qsort(runs, (size_t)n_runs, sizeof *runs, by_number);
    if (s == LS_OK)
        s = join_all(out, n, arena, runs, n_runs, files->count, files->path);
    free(runs);
    return s;
}

/* ---- opening */

/* The path of another rank's file, beside the first one's. */
static char *other_path(ls_arena *arena, const char *first, int rank)
{
    const int base = (int)(strlen(first) - strlen(LS_RANK_FILE_FIRST));
    return ls_arena_printf(arena, "%.*s-rank-%05d.safetensors", base, first, rank);
}

/* Maps and parses all files. *files, with one entry for each that was parsed, is allocated in `arena`. */
static ls_status read_files(rank_file **files, int *parsed, ls_arena *arena, ls_mapping **maps, int *mapped,
                            const char *path)
{
    rank_file first;
    ls_status s = parse_file(&first, arena, *maps, path);
    const size_t ranks = s == LS_OK ? (size_t)first.ranks : 1;
    ls_mapping *all = LS_ARENA_ARRAY(arena, ls_mapping, ranks);
    *files = LS_ARENA_ARRAY(arena, rank_file, ranks);
    if (!all || !*files) {
        json_decref(first.parts);
        return ls_arena_status(arena);
    }
    all[0] = **maps;
    *maps = all;
    (*files)[(*parsed)++] = first;
    if (s == LS_OK && (first.rank != 0 || !ls_ends_with(path, LS_RANK_FILE_FIRST)))
        return ls_fail(LS_E_USAGE,
                       "%s: holds only what rank %" PRId64 " of %" PRId64
                       " wrote of a checkpoint: name the folder that it is in",
                       path, first.rank, first.ranks);
    for (int r = 1; s == LS_OK && r < first.ranks; r++) {
        char *other = other_path(arena, path, r);
        LS_TRY(ls_sys_have(other));
        s = ls_file_map(&all[r], other);
        if (s != LS_OK)
            return s == LS_E_IO ? ls_fail_in(s, "%s belongs to this file", path) : s;
        ++*mapped;
        s = parse_file(&(*files)[(*parsed)++], arena, &all[r], other);
    }
    return s;
}

ls_status ls_rank_files_read(ls_weight **out, int64_t *n, ls_arena *arena, ls_mapping **maps, int *mapped,
                             const char *path)
{
    rank_file *files = NULL;
    int parsed = 0;
    ls_status s = read_files(&files, &parsed, arena, maps, mapped, path);
    if (s == LS_OK)
        s = join_files(out, n, arena, files);
    for (int r = 0; r < parsed; r++)
        json_decref(files[r].parts);
    return s;
}

ls_status ls_rank_files_check(const char *path)
{
    ls_arena arena;
    ls_mapping first, *maps = &first;
    ls_weight *tensors;
    int64_t n;
    int mapped = 1;
    ls_arena_init(&arena);
    LS_TRY(ls_file_map(&first, path));
    const ls_status s = ls_rank_files_read(&tensors, &n, &arena, &maps, &mapped, path);
    for (int i = 0; i < mapped; i++)
        ls_file_unmap(&maps[i]);
    ls_arena_release(&arena);
    return s;
}
