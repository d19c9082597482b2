/* dcp_index.c - reads `.metadata` of a DCP directory: a pickle with a few known classes. Names and numbers in
 * it come from outside, so each is checked. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/stop.h"
#include "ckpt/dcp.h"
#include "ckpt/dcp_ways.h"
#include "ckpt/parts.h"
#include "ckpt/pt.h"
#include "ckpt/safetensors.h"

#define METADATA "torch.distributed.checkpoint.metadata "
#define BEFORE_2_3 "torch.distributed._shard.sharded_tensor.metadata "
#define STORAGE_INFO "torch.distributed.checkpoint.filesystem _StorageInfo"

/* about 250,000 chunks. PyTorch writes 3.5 bytes a value; in memory a value takes some 70. */
enum { MAX_INDEX = 64 << 20, MAX_VALUES = 1 << 25 };

static const char *const NAMES[] = {
    METADATA "Metadata",
    METADATA "TensorStorageMetadata",
    METADATA "BytesStorageMetadata",
    METADATA "ChunkStorageMetadata",
    METADATA "TensorProperties",
    METADATA "MetadataIndex",
    METADATA "StorageMeta",
    METADATA "_MEM_FORMAT_ENCODING",
    BEFORE_2_3 "TensorProperties",
    BEFORE_2_3 "MEM_FORMAT_ENCODING",
    STORAGE_INFO,
    "torch.serialization _get_layout",
    "builtins getattr" /* how some Pythons write an enum's member */,
    "pathlib PosixPath",
    "pathlib WindowsPath",
    "pathlib._local PosixPath",
    "pathlib._local WindowsPath",
};

static bool known(const char *global)
{
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (strcmp(NAMES[i], global) == 0)
            return true;
    const ls_pt_name *name = ls_pt_name_find(global);
    return name && (name->role == LS_PT_DTYPE || name->role == LS_PT_OTHER);
}

enum { NO_TENSOR = -1 };

/* Where a chunk or an object is. */
typedef struct place {
    const ls_pickle *tensor;
    int ndim; /* NO_TENSOR: it is an object */
    int64_t start[LS_MAX_DIMS];
    const ls_pickle *info;
} place;

typedef struct reader {
    ls_dcp_index *out;
    ls_arena *arena, *scratch;
    const char *path;
    ls_dcp_ways ways;
    place *places; /* sorted */
    size_t n_places;
} reader;

static ls_status dcp_index_damaged(const reader *r, const char *what)
{
    return ls_fail(LS_E_FORMAT,
                   "%s: %s: it is damaged, or of a version of PyTorch that is not known: save it again",
                   r->path, what);
}

static ls_status dcp_index_bad(const reader *r, const char *name, const char *what)
{
    char shown[128];
    return ls_fail(LS_E_FORMAT, "%s: tensor \"%s\": %s: copy the directory again or save it again", r->path,
                   ls_shown_name(shown, name), what);
}

static bool is_a(const ls_pickle *v, const char *name)
{
    return v && v->kind == LS_PICKLE_OBJECT && strcmp(v->items[0]->text, name) == 0;
}

/* An attribute of an object; NULL: it has no such attribute. */
static const ls_pickle *get(const ls_pickle *object, const char *attribute)
{
    return object->kind == LS_PICKLE_OBJECT && object->n == 3 ? ls_pickle_find(object->items[2], attribute)
                                                              : NULL;
}

static const ls_pickle *get_dict(const ls_pickle *object, const char *attribute)
{
    const ls_pickle *v = get(object, attribute);
    return v && v->kind == LS_PICKLE_DICT ? v : NULL;
}

/* Reads torch.Size((d0, d1, ...)). False: it is something else, or has more than LS_MAX_DIMS dimensions. */
static bool read_size(const ls_pickle *v, int64_t *dims, int *ndim)
{
    if (!v || v->kind != LS_PICKLE_CALL || strcmp(v->items[0]->text, "torch Size") != 0 ||
        v->items[1]->n != 1)
        return false;
    const ls_pickle *list = v->items[1]->items[0];
    if ((list->kind != LS_PICKLE_TUPLE && list->kind != LS_PICKLE_LIST) || list->n > LS_MAX_DIMS)
        return false;
    *ndim = (int)list->n;
    for (size_t i = 0; i < list->n; i++) {
        if (list->items[i]->kind != LS_PICKLE_INT || list->items[i]->number < 0)
            return false;
        dims[i] = list->items[i]->number;
    }
    return true;
}

/* ---- positions of chunks */

static int compare_places(const void *a, const void *b)
{
    const place *x = a, *y = b;
    const int names = ls_pickle_compare(x->tensor, y->tensor);
    if (names || x->ndim != y->ndim)
        return names ? names : x->ndim - y->ndim;
    for (int i = 0; i < x->ndim; i++)
        if (x->start[i] != y->start[i])
            return x->start[i] < y->start[i] ? -1 : 1;
    return 0;
}

static ls_status read_places(reader *r, const ls_pickle *storage)
{
    r->places = LS_ARENA_ARRAY(r->scratch, place, storage->n / 2 + 1);
    LS_TRY(ls_arena_status(r->scratch));
    for (size_t i = 0; i < storage->n; i += 2) {
        const ls_pickle *index = storage->items[i], *info = storage->items[i + 1],
                        *tensor = is_a(index, METADATA "MetadataIndex") ? get(index, "fqn") : NULL;
        if (!tensor || tensor->kind != LS_PICKLE_TEXT || !is_a(info, STORAGE_INFO))
            return dcp_index_damaged(r, "an entry of storage_data is not (MetadataIndex, _StorageInfo)");
        place *p = &r->places[r->n_places];
        *p = (place){ .tensor = tensor, .info = info };
        if (!read_size(get(index, "offset"), p->start, &p->ndim))
            p->ndim = NO_TENSOR;
        r->n_places++;
    }
    if (r->n_places > 1)
        qsort(r->places, r->n_places, sizeof *r->places, compare_places);
    return LS_OK;
}

/* The index of a file in the list, where it is added if it is new; -1: it is not the name of a file in the
 * directory. */
static int file_number(reader *r, const ls_pickle *name)
{
    ls_dcp_index *x = r->out;
    if (name->length == 0 || name->length > 255 || memchr(name->text, '/', name->length) ||
        memchr(name->text, 0, name->length) || ls_pickle_is(name, ".") || ls_pickle_is(name, ".."))
        return -1;
    for (int i = x->n_files - 1; i >= 0; i--) /* consecutive chunks are often in one file */
        if (ls_pickle_is(name, x->files[i]))
            return i;
    /* the list grows when n is a power of two: room for 1, 2, 4, ... */
    if ((x->n_files & (x->n_files - 1)) == 0) {
        const char **more = LS_ARENA_ARRAY(r->arena, const char *, 2 * x->n_files + 1);
        if (!more)
            return -1; /* ls_dcp_index_read says why */
        if (x->n_files)
            memcpy(more, x->files, sizeof *more * (size_t)x->n_files);
        x->files = more;
    }
    x->files[x->n_files] = ls_arena_printf(r->arena, "%.*s", (int)name->length, name->text);
    return x->n_files++;
}

static ls_status locate(reader *r, const char *name, const place *wanted, ls_dcp_place *out)
{
    const place *p = r->n_places ? bsearch(wanted, r->places, r->n_places, sizeof *wanted, compare_places)
                                 : NULL;
    if (!p)
        return dcp_index_bad(r, name, "it does not say in which file one of the chunks is");
    const ls_pickle *file = get(p->info, "relative_path"), *offset = get(p->info, "offset"),
                    *length = get(p->info, "length");
    const ls_pickle *transforms = get(p->info, "transform_descriptors");
    if (!file || file->kind != LS_PICKLE_TEXT || !offset || offset->kind != LS_PICKLE_INT ||
        offset->number < 0 || !length || length->kind != LS_PICKLE_INT || length->number < 0)
        return dcp_index_bad(r, name, "the place of a chunk is not a file, an offset and a length");
    if (transforms && transforms->kind != LS_PICKLE_NONE)
        return ls_fail(LS_E_UNSUPPORTED,
                       "%s: its files are compressed or otherwise transformed (transform_descriptors): save "
                       "it without extensions",
                       r->path);
    *out = (ls_dcp_place){ file_number(r, file), (uint64_t)offset->number, (uint64_t)length->number };
    return out->file >= 0
               ? LS_OK
               : dcp_index_bad(r, name, "a chunk's file is not the name of a file beside the index");
}

static ls_status locate_chunk(reader *r, const ls_dcp_tensor *t, const ls_pickle *key, ls_dcp_chunk *c)
{
    place wanted = { .tensor = key, .ndim = t->type.ndim };
    memcpy(wanted.start, c->box.start, sizeof wanted.start);
    return locate(r, t->name, &wanted, &c->at);
}

/* ---- tensors */

static ls_status check_cover(const reader *r, ls_dcp_tensor *t)
{
    char what[100];
    if (ls_parts_cover(t->chunks, sizeof *t->chunks, t->n, ls_type_count(&t->type), ls_stop_asked, what))
        return LS_OK;
    LS_TRY(ls_stop_check("checking %s", r->path));
    return dcp_index_bad(r, t->name, what);
}

static ls_status read_chunks(reader *r, ls_dcp_tensor *t, const ls_pickle *key, const ls_pickle *chunks)
{
    if (!chunks || chunks->kind != LS_PICKLE_LIST)
        return dcp_index_bad(r, t->name, "it has no list of chunks");
    /* A list may have one chunk many times over; each chunk of a tensor has a place of its own. */
    const size_t most = chunks->n < r->n_places ? chunks->n : r->n_places;
    t->chunks = LS_ARENA_ARRAY(r->arena, ls_dcp_chunk, most + 1);
    LS_TRY(ls_arena_status(r->arena));
    for (size_t i = 0; i < chunks->n; i++) {
        ls_dcp_chunk *c = &t->chunks[t->n];
        const ls_pickle *v = chunks->items[i];
        int ndim[2];
        c->box = ls_box_of(&t->type);
        if (!is_a(v, METADATA "ChunkStorageMetadata") ||
            !read_size(get(v, "offsets"), c->box.start, &ndim[0]) ||
            !read_size(get(v, "sizes"), c->box.size, &ndim[1]) || ndim[0] != t->type.ndim ||
            ndim[1] != t->type.ndim)
            return dcp_index_bad(r, t->name, "a chunk has no offsets and sizes of its dimensions");
        if (!ls_box_inside(&c->box))
            return dcp_index_bad(r, t->name, "a chunk leads out of it");
        if (ls_box_count(&c->box) == 0) { /* a rank without rows: nothing was written */
            *c = (ls_dcp_chunk){ 0 };
            continue;
        }
        LS_TRY(locate_chunk(r, t, key, c));
        if ((size_t)t->n++ == most)
            return dcp_index_bad(r, t->name, "two of its parts overlap");
    }
    return check_cover(r, t);
}

static ls_status keep_name(reader *r, const char **out, const ls_str *name)
{
    LS_TRY(ls_str_status(name));
    json_t *valid = json_stringn(ls_str_text(name), name->len);
    const bool good = valid && name->len > 0 && strlen(name->data) == name->len;
    json_decref(valid);
    *out = ls_arena_strdup(r->arena, ls_str_text(name));
    if (!name->len && r->ways.optimizer)
        return ls_fail(
            LS_E_SHAPE,
            "%s: it numbers the parameters that its optimizer has states of, and there are more than "
            "the %" PRId64 " of this model: save the state dict of get_state_dict, which names them",
            r->path, r->ways.ask->n);
    return good ? LS_OK : dcp_index_bad(r, *out, "its name is empty or not UTF-8");
}

static ls_status read_tensor(reader *r, ls_dcp_tensor *t, const ls_pickle *key, const ls_pickle *value)
{
    const ls_pickle *properties = get(value, "properties"), *state = NULL, *dtype = NULL;
    if (properties && properties->kind == LS_PICKLE_OBJECT && properties->n == 3)
        state = properties->items[2];
    if (state)
        dtype = state->kind == LS_PICKLE_TUPLE && state->n > 0 ? state->items[0]
                                                               : ls_pickle_find(state, "dtype");
    const ls_pt_name *name = dtype && dtype->kind == LS_PICKLE_GLOBAL ? ls_pt_name_find(dtype->text) : NULL;
    if (!name || name->role != LS_PT_DTYPE)
        return dcp_index_bad(r, t->name, "it has no element type");
    const int type = ls_pt_element(name, &t->stored);
    t->loadable = type >= 0;
    if (!read_size(get(value, "size"), t->type.dims, &t->type.ndim))
        return dcp_index_bad(r, t->name, "it has no sizes, or more than 8");
    t->type.dtype = t->loadable ? (ls_dtype)type : LS_U8;
    int64_t count = 1;
    for (int i = 0; i < t->type.ndim; i++)
        if (__builtin_mul_overflow(count, t->type.dims[i], &count))
            return dcp_index_bad(r, t->name, "its sizes do not fit in 63 bits");
    if (__builtin_mul_overflow(count, (int64_t)name->bits / 8, &count))
        return dcp_index_bad(r, t->name, "its sizes do not fit in 63 bits");
    t->bytes = (uint64_t)count;
    return read_chunks(r, t, key, get(value, "chunks"));
}

/* ---- reading the index */

static int compare_orders(const void *a, const void *b)
{
    const ls_dcp_tensor *x = a, *y = b;
    return x->order != y->order ? (x->order > y->order) - (x->order < y->order) : strcmp(x->name, y->name);
}

static ls_status read_entry(reader *r, const ls_pickle *key, const ls_pickle *value, const char *name,
                            int64_t order)
{
    ls_dcp_index *x = r->out;
    if (is_a(value, METADATA "TensorStorageMetadata")) {
        ls_dcp_tensor *t = &x->tensors[x->n++];
        t->name = name;
        t->order = order;
        return read_tensor(r, t, key, value);
    }
    ls_dcp_object *o = &x->objects[x->n_objects++];
    o->name = name;
    return locate(r, name, &(place){ .tensor = key, .ndim = NO_TENSOR }, &o->at);
}

static ls_status read_entries(reader *r, const ls_pickle *metadata)
{
    ls_dcp_index *x = r->out;
    ls_str name = { 0 };
    ls_status s = LS_OK;
    x->tensors = LS_ARENA_ARRAY(r->arena, ls_dcp_tensor, metadata->n / 2 + 1);
    x->objects = LS_ARENA_ARRAY(r->arena, ls_dcp_object, metadata->n / 2 + 1);
    LS_TRY(ls_arena_status(r->arena));
    for (size_t i = 0; i < metadata->n && s == LS_OK; i += 2) {
        const ls_pickle *key = metadata->items[i], *value = metadata->items[i + 1];
        const char *kept = NULL;
        int64_t order = (int64_t)i;
        ls_str_clear(&name);
        if (key->kind != LS_PICKLE_TEXT)
            s = dcp_index_damaged(r, "an entry of state_dict_metadata has no name");
        else if ((is_a(value, METADATA "TensorStorageMetadata") ||
                  (r->ways.optimizer && is_a(value, METADATA "BytesStorageMetadata"))) &&
                 ls_dcp_ways_name(&name, &order, &r->ways, key)) {
            s = ls_stop_check("reading %s", r->path);
            if (s == LS_OK)
                s = keep_name(r, &kept, &name);
            if (s == LS_OK)
                s = read_entry(r, key, value, kept, order);
        }
    }
    ls_str_release(&name);
    if (x->n > 1)
        qsort(x->tensors, (size_t)x->n, sizeof *x->tensors, compare_orders);
    return s;
}

/* Fails because no name has the wanted prefix. */
static ls_status no_prefix(const reader *r)
{
    ls_str words = { 0 };
    ls_dcp_ways_begin(&words, &r->ways);
    ls_status s = ls_fail(LS_E_USAGE, "%s: nothing in it has the prefix %s; its names begin with %s", r->path,
                          ls_str_text(&r->ways.prefix), ls_str_text(&words));
    ls_str_release(&words);
    return s;
}

static ls_status read_index(reader *r, const ls_pickle *root, const ls_dcp_ask *ask)
{
    const ls_pickle *storage = get_dict(root, "storage_data"),
                    *metadata = get_dict(root, "state_dict_metadata"),
                    *planned = get_dict(root, "planner_data");
    if (!is_a(root, METADATA "Metadata") || !storage || !metadata)
        return dcp_index_damaged(r, "it is not a Metadata with state_dict_metadata and storage_data");
    LS_TRY(read_places(r, storage));
    if (!ls_dcp_ways_read(&r->ways, r->scratch, planned, ask))
        return dcp_index_damaged(r, "an entry of planner_data is not a name and its path");
    LS_TRY(read_entries(r, metadata));
    return r->ways.prefix.len && !r->ways.optimizer && !r->out->n ? no_prefix(r) : LS_OK;
}

ls_status ls_dcp_index_read(ls_dcp_index *out, ls_arena *arena, const uint8_t *bytes, size_t size,
                            const char *path, const ls_dcp_ask *ask)
{
    if (size > MAX_INDEX)
        return ls_fail(LS_E_UNSUPPORTED,
                       "%s: has %zu bytes; at most %d are read (some 250,000 chunks): save the model from "
                       "fewer ranks, or alone",
                       path, size, (int)MAX_INDEX);
    ls_arena scratch;
    ls_arena_init(&scratch);
    *out = (ls_dcp_index){ 0 };
    const ls_pickle_source source = {
        .bytes = bytes,
        .size = size,
        .path = path,
        .known = known,
        .objects = true,
        .most = MAX_VALUES,
        .what = "the index of a DCP directory",
        .advice = "save it with torch.distributed.checkpoint.save of plain state dicts"
    };
    ls_pickle_result result;
    ls_status s = ls_pickle_read(&result, &scratch, &source);
    if (s == LS_OK) {
        reader r = { .out = out, .arena = arena, .scratch = &scratch, .path = path };
        s = read_index(&r, result.value, ask);
        if (r.ways.prefix.no_memory)
            s = ls_str_status(&r.ways.prefix);
        ls_dcp_ways_release(&r.ways);
    }
    s = ls_arena_outcome(&scratch, ls_arena_outcome(arena, s));
    ls_arena_release(&scratch);
    return s;
}
