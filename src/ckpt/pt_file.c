/* pt_file.c - the two forms of a .pt file: finds the object's pickle, and the bytes of each storage. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "ckpt/pt.h"
#include "ckpt/zip.h"

#define MAX_PICKLE                                                                                         \
    (64u << 20) /* a state dict needs some 150 bytes a tensor; values take many times their pickle's bytes \
                 */

enum { MAX_VALUES = 1 << 24 }; /* a tensor has about 25 */

static bool known(const char *global) { return ls_pt_name_find(global) != NULL; }

static ls_status pt_file_damaged(const char *path, const char *what)
{
    return ls_fail(LS_E_FORMAT, "%s: %s: the file is damaged, or torch.save did not write it: save it again",
                   path, what);
}

static int compare_keys(const void *a, const void *b)
{
    const ls_pt_storage *x = a, *y = b;
    if (x->length != y->length)
        return x->length < y->length ? -1 : 1;
    return memcmp(x->key, y->key, x->length);
}

static ls_pt_storage *pt_file_find(const ls_pt_file *f, const ls_pickle *key)
{
    const ls_pt_storage wanted = { .key = key->text, .length = key->length };
    return f->count ? bsearch(&wanted, f->storages, f->count, sizeof wanted, compare_keys) : NULL;
}

static void sort(ls_pt_file *f)
{
    if (f->count > 1)
        qsort(f->storages, f->count, sizeof *f->storages, compare_keys);
}

/* ("storage", type, key, location, number of elements), before 1.6 with a sixth item: None, or the view of a
 * storage that even older ones had. */
static ls_status check_id(const ls_pt_file *f, const ls_pickle *persistent, const ls_pt_name **type,
                          const ls_pickle **key, uint64_t *bytes)
{
    const ls_pickle *id = persistent->items[0];
    if (id->kind != LS_PICKLE_TUPLE || id->n < 5 || id->n > 6 || id->items[1]->kind != LS_PICKLE_GLOBAL ||
        id->items[2]->kind != LS_PICKLE_TEXT || id->items[4]->kind != LS_PICKLE_INT ||
        id->items[4]->number < 0)
        return pt_file_damaged(f->path, "a storage has no type, key and size");
    if (id->n == 6 && id->items[5]->kind != LS_PICKLE_NONE)
        return ls_fail(LS_E_UNSUPPORTED,
                       "%s: a storage is a view of another one, as before PyTorch 0.4: save it again with a "
                       "newer PyTorch",
                       f->path);
    *type = ls_pt_name_find(id->items[1]->text);
    *key = id->items[2];
    if (!*type || (*type)->role != LS_PT_STORAGE)
        return pt_file_damaged(f->path, "a storage's type is none");
    if (__builtin_mul_overflow((uint64_t)id->items[4]->number, (uint64_t)(*type)->bits / 8, bytes))
        return pt_file_damaged(f->path, "a storage's size does not fit in 64 bits");
    return LS_OK;
}

ls_status ls_pt_place_find(ls_pt_place *out, const ls_pt_file *f, const ls_pickle *persistent)
{
    const ls_pickle *key;
    uint64_t bytes;
    LS_TRY(check_id(f, persistent, &out->type, &key, &bytes));
    out->storage = pt_file_find(f, key);
    if (!out->storage || out->storage->bytes != bytes)
        return ls_fail(LS_E_FORMAT,
                       "%s: storage %.*s should hold %" PRIu64 " bytes, the file has %" PRIu64
                       " of it: the file is damaged or cut; copy it "
                       "again or save it again",
                       f->path, (int)(key->length < 40 ? key->length : 40), key->text, bytes,
                       out->storage ? out->storage->bytes : 0);
    return LS_OK;
}

static ls_status read_pickle(ls_pickle_result *out, const ls_pt_file *f, ls_arena *arena, uint64_t offset,
                             uint64_t bytes)
{
    if (bytes > MAX_PICKLE)
        return ls_fail(
            LS_E_UNSUPPORTED,
            "%s: its pickle has %" PRIu64
            " bytes; at most %u are read: save only the tensors, as torch.save(model.state_dict(), "
            "...) does",
            f->path, bytes, MAX_PICKLE);
    ls_pickle_source source = {
        .bytes = f->bytes + offset,
        .size = bytes,
        .offset = offset,
        .path = f->path,
        .known = known,
        .most = MAX_VALUES,
        .what = "a state dict",
        .advice = "save only the tensors, as torch.save(model.state_dict(), ...) does",
        .advice_for = ls_pt_advice
    };
    return ls_pickle_read(out, arena, &source);
}

static const ls_zip_entry *entry(const ls_zip *z, const char *folder, int folder_length, const char *name)
{
    for (int64_t i = 0; i < z->count; i++) {
        const char *full = z->entries[i].name;
        if (strncmp(full, folder, (size_t)folder_length) == 0 && strcmp(full + folder_length, name) == 0)
            return &z->entries[i];
    }
    return NULL;
}

static ls_status read_zip(ls_pt_file *f, ls_arena *arena)
{
    ls_zip z;
    LS_TRY(ls_zip_read(&z, arena, f->bytes, f->size, f->path, false));
    const char *folder = z.count ? z.entries[0].name : "", *slash = strchr(folder, '/');
    int length = slash ? (int)(slash + 1 - folder) : 0;
    const ls_zip_entry *pickle = entry(&z, folder, length, "data.pkl"),
                       *order = entry(&z, folder, length, "byteorder");
    if (!pickle)
        return ls_fail(LS_E_FORMAT, "%s: a zip archive without data.pkl, so not of torch.save", f->path);
    if (order && (order->bytes != 6 || memcmp(f->bytes + order->offset, "little", 6) != 0))
        return ls_fail(LS_E_UNSUPPORTED,
                       "%s: its numbers are in big-endian order: save it on a little-endian machine",
                       f->path);
    f->storages = LS_ARENA_ARRAY(arena, ls_pt_storage, z.count + 1);
    LS_TRY(ls_arena_status(arena));
    for (int64_t i = 0; i < z.count; i++) {
        const ls_zip_entry *e = &z.entries[i];
        if (strncmp(e->name, folder, (size_t)length) == 0 && strncmp(e->name + length, "data/", 5) == 0) {
            const char *key = e->name + length + 5;
            f->storages[f->count++] = (ls_pt_storage){
                .key = key, .length = strlen(key), .offset = e->offset, .bytes = e->bytes
            };
        }
    }
    sort(f);
    ls_pickle_result result;
    LS_TRY(read_pickle(&result, f, arena, pickle->offset, pickle->bytes));
    f->root = result.value;
    f->pickle_bytes = pickle->bytes;
    return LS_OK;
}

/* Lists the storages that tensors name, each once. Where their bytes are is not known yet. */
static ls_status list_storages(ls_pt_file *f, ls_arena *arena, const ls_pickle *persistent)
{
    f->storages = LS_ARENA_ARRAY(arena, ls_pt_storage, persistent->n + 1);
    LS_TRY(ls_arena_status(arena));
    for (size_t i = 0; i < persistent->n; i++) {
        const ls_pt_name *type;
        const ls_pickle *key;
        uint64_t bytes;
        LS_TRY(check_id(f, persistent->items[i], &type, &key, &bytes));
        uint64_t elements = (uint64_t)persistent->items[i]->items[0]->items[4]->number;
        f->storages[i] = (ls_pt_storage){
            .key = key->text, .length = key->length, .bytes = bytes, .elements = elements
        };
    }
    f->count = persistent->n;
    sort(f);
    size_t n = 0;
    for (size_t i = 0; i < f->count; i++)
        if (i == 0 || compare_keys(&f->storages[i], &f->storages[n - 1]) != 0)
            f->storages[n++] = f->storages[i];
    f->count = n;
    return LS_OK;
}

/* The storages follow the last pickle, in the order of `keys`: each is the number of elements in 8 bytes,
 * then the elements. */
static ls_status locate_storages(ls_pt_file *f, const ls_pickle *keys, uint64_t at)
{
    if (keys->kind != LS_PICKLE_LIST || keys->n != f->count)
        return pt_file_damaged(f->path, "its list of storages is not that of its tensors");
    for (size_t i = 0; i < keys->n; i++) {
        ls_pt_storage *s = keys->items[i]->kind == LS_PICKLE_TEXT ? pt_file_find(f, keys->items[i]) : NULL;
        if (!s || s->offset != 0)
            return pt_file_damaged(f->path, "its list of storages is not that of its tensors");
        uint64_t elements;
        if (f->size - at < 8 || s->bytes > f->size - at - 8)
            return pt_file_damaged(f->path, "it ends within the storages");
        memcpy(&elements, f->bytes + at, 8);
        if (elements != s->elements)
            return pt_file_damaged(f->path, "a storage has another size than its tensors say");
        s->offset = at + 8;
        at = s->offset + s->bytes;
    }
    return LS_OK;
}

/* Before 1.6: magic number, version, system, object and storage keys, a pickle each; then the storages. */
static ls_status read_row(ls_pt_file *f, ls_arena *arena)
{
    enum { MAGIC, VERSION, SYSTEM, OBJECT, KEYS, PICKLES };
    ls_pickle_result part[PICKLES];
    uint64_t at = 0;
    for (int i = 0; i < PICKLES; i++) {
        uint64_t left = f->size - at;
        LS_TRY(read_pickle(&part[i], f, arena, at, left < MAX_PICKLE ? left : MAX_PICKLE));
        at += part[i].used;
    }
    if (part[VERSION].value->kind != LS_PICKLE_INT || part[VERSION].value->number != 1001)
        return ls_fail(
            LS_E_UNSUPPORTED,
            "%s: a .pt file of before PyTorch 1.6, of an unknown version: save it again with a newer PyTorch",
            f->path);
    const ls_pickle *little = ls_pickle_find(part[SYSTEM].value, "little_endian");
    if (!little || little->kind != LS_PICKLE_BOOL || !little->number)
        return ls_fail(LS_E_UNSUPPORTED,
                       "%s: its numbers are in big-endian order: save it on a little-endian machine",
                       f->path);
    LS_TRY(list_storages(f, arena, &part[OBJECT].persistent));
    f->root = part[OBJECT].value;
    f->pickle_bytes = part[OBJECT].used;
    return locate_storages(f, part[KEYS].value, at);
}

static bool is_zip(const uint8_t *bytes, size_t size)
{
    /* a safetensors header begins there, with one of these */
    return size > 8 && (memcmp(bytes, "PK\3\4", 4) == 0 || memcmp(bytes, "PK\5\6", 4) == 0) &&
           !memchr("{ \n\r\t", bytes[8], 5);
}

bool ls_pt_is(const uint8_t *bytes, size_t size)
{
    static const uint8_t MAGIC[12] = { 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19 };
    return is_zip(bytes, size) ||
           (size >= 14 && bytes[0] == 0x80 && memcmp(bytes + 2, MAGIC, sizeof MAGIC) == 0);
}

ls_status ls_pt_file_read(ls_pt_file *f, ls_arena *arena)
{
    return is_zip(f->bytes, f->size) ? read_zip(f, arena) : read_row(f, arena);
}

ls_status ls_pt_verify(const char *path, int64_t *entries)
{
    ls_mapping m;
    ls_zip z;
    ls_arena arena;
    LS_TRY(ls_file_map(&m, path));
    ls_arena_init(&arena);
    ls_status s = !is_zip(m.data, m.size)
                      ? ls_fail(LS_E_UNSUPPORTED,
                                "%s: not a zip archive, so it holds no checksums to compare with", path)
                      : ls_zip_read(&z, &arena, m.data, m.size, path, false);
    if (s == LS_OK)
        s = ls_zip_verify(&z);
    if (s == LS_OK)
        *entries = z.count;
    ls_arena_release(&arena);
    ls_file_unmap(&m);
    return s;
}
