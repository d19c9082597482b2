/* gguf_read.c - reads the part of a GGUF file that comes before the tensors' data. Everything in it comes
 * from outside: no number is used before it is known to lie inside the file. */
#include <inttypes.h>
#include <string.h>

#include "base/c_locale.h"
#include "ckpt/gguf.h"
#include "ckpt/safetensors.h"

enum { SHOWN_ITEMS = 8, SHOWN_BYTES = 4096, MOST_DEPTH = 4, MOST_ALIGNMENT = 1 << 20 };

typedef struct source {
    const uint8_t *bytes;
    size_t size, at;
    const char *path;
    ls_arena *arena;
    uint64_t alignment;
} source;

static ls_status cut(const source *f, const char *what)
{
    return ls_fail(
        LS_E_FORMAT,
        "%s: %s at byte %zu goes beyond the end of the file, which has %zu bytes: the file is cut or "
        "damaged: copy it again",
        f->path, what, f->at, f->size);
}

static ls_status get(source *f, uint64_t *out, int bytes, const char *what)
{
    *out = 0;
    if (f->size - f->at < (size_t)bytes)
        return cut(f, what);
    for (int i = 0; i < bytes; i++)
        *out |= (uint64_t)f->bytes[f->at + (size_t)i] << (8 * i);
    f->at += (size_t)bytes;
    return LS_OK;
}

/* A text inside the file; it has no NUL at its end. */
static ls_status get_text(source *f, const char **text, uint64_t *n, const char *what)
{
    LS_TRY(get(f, n, 8, what));
    if (*n > f->size - f->at)
        return cut(f, what);
    *text = (const char *)f->bytes + f->at;
    f->at += (size_t)*n;
    return LS_OK;
}

/* The same, copied: a name, in which no NUL may be. */
static ls_status get_name(source *f, const char **out, const char *what)
{
    const char *text = NULL;
    uint64_t n;
    LS_TRY(get_text(f, &text, &n, what));
    json_t *sound = n && n < 65536 && !memchr(text, 0, (size_t)n) ? json_stringn(text, (size_t)n) : NULL;
    json_decref(sound);
    if (!sound)
        return ls_fail(LS_E_FORMAT,
                       "%s: %s before byte %zu is not 1 to 65535 bytes of UTF-8: the file is damaged",
                       f->path, what, f->at);
    char *copy = ls_arena_alloc(f->arena, (size_t)n + 1);
    LS_TRY(ls_arena_status(f->arena));
    memcpy(copy, text, (size_t)n);
    copy[n] = 0;
    *out = copy;
    return LS_OK;
}

/* ---- values */

static const struct {
    int bytes;
    char of; /* u, i, f, b: unsigned, signed, float, bool */
} SCALARS[] = { { 1, 'u' }, { 1, 'i' }, { 2, 'u' }, { 2, 'i' }, { 4, 'u' }, { 4, 'i' }, { 4, 'f' },
                { 1, 'b' }, { 0, 0 },   { 0, 0 },   { 8, 'u' }, { 8, 'i' }, { 8, 'f' } };
enum { N_TYPES = sizeof SCALARS / sizeof SCALARS[0] };

static json_t *scalar(uint64_t bits, int bytes, char of)
{
    const int shift = 64 - 8 * bytes;
    float f;
    double d;
    char room[32];
    const uint32_t low = (uint32_t)bits;
    memcpy(&f, &low, sizeof f);
    memcpy(&d, &bits, sizeof d);
    return of == 'b'   ? json_boolean(bits)
           : of == 'i' ? json_integer((json_int_t)((int64_t)(bits << shift) >> shift))
           : of == 'u' ? json_integer((json_int_t)bits)
                       : json_real(bytes == 4 ? ls_strtod(ls_format_f32(room, f), NULL) : d);
}

/* Texts need not be UTF-8, and may be long. */
static json_t *shown_text(const char *text, uint64_t n)
{
    json_t *whole = n <= SHOWN_BYTES && !memchr(text, 0, (size_t)n) ? json_stringn(text, (size_t)n) : NULL;
    return whole ? whole : json_sprintf("(%" PRIu64 " bytes)", n);
}

static ls_status get_value(source *f, uint32_t type, int depth, const char *key, json_t **out);

static ls_status get_array(source *f, int depth, const char *key, json_t **out)
{
    uint64_t type, n;
    char shown[128];
    LS_TRY(get(f, &type, 4, "the type of an array"));
    LS_TRY(get(f, &n, 8, "the length of an array"));
    const int bytes = type < N_TYPES ? SCALARS[type].bytes : 0;
    if (bytes && n > (f->size - f->at) / (size_t)bytes)
        return cut(f, "an array");
    json_t *items = json_array();
    ls_status s = depth < MOST_DEPTH ? LS_OK
                                     : ls_fail(LS_E_FORMAT, "%s: key %s: arrays in arrays, more than %d deep",
                                               f->path, ls_shown_name(shown, key), (int)MOST_DEPTH);
    for (uint64_t i = 0; i < n && s == LS_OK;
         i++) { /* each item takes bytes, so a wrong n ends at the file's end */
        json_t *item = NULL;
        s = get_value(f, (uint32_t)type, depth + 1, key, &item);
        if (item && i < SHOWN_ITEMS)
            json_array_append(items, item);
        json_decref(item);
        if (bytes && i + 1 == SHOWN_ITEMS) { /* the others are not shown */
            f->at += (size_t)(n - SHOWN_ITEMS) * (size_t)bytes;
            break;
        }
    }
    if (s == LS_OK && n <= SHOWN_ITEMS)
        *out = json_incref(items);
    else if (s == LS_OK)
        *out = json_pack("{s:I, s:O}", "items", (json_int_t)n, "first", items);
    json_decref(items);
    return s;
}

static ls_status get_value(source *f, uint32_t type, int depth, const char *key, json_t **out)
{
    char shown[128];
    const char *text = NULL;
    uint64_t n;
    if (type >= N_TYPES)
        return ls_fail(LS_E_FORMAT, "%s: key %s has a value of type %u, which GGUF version 3 does not have",
                       f->path, ls_shown_name(shown, key), type);
    if (type == LS_GGUF_ARRAY)
        return get_array(f, depth, key, out);
    if (type == LS_GGUF_TEXT) {
        LS_TRY(get_text(f, &text, &n, "a text"));
        *out = shown_text(text, n);
    } else {
        LS_TRY(get(f, &n, SCALARS[type].bytes, "a number"));
        *out = scalar(n, SCALARS[type].bytes, SCALARS[type].of);
    }
    return LS_OK;
}

static ls_status get_key(source *f, json_t *keys)
{
    const char *key;
    uint64_t type;
    json_t *value = NULL;
    char shown[128];
    LS_TRY(get_name(f, &key, "the name of a key"));
    LS_TRY(get(f, &type, 4, "the type of a value"));
    LS_TRY(get_value(f, (uint32_t)type, 0, key, &value));
    const bool twice = json_object_get(keys, key) != NULL;
    const json_int_t number = json_integer_value(value);
    const bool alignment = !strcmp(key, "general.alignment");
    json_object_set(keys, key, value ? value : json_null());
    json_decref(value);
    if (twice)
        return ls_fail(LS_E_FORMAT, "%s: key %s is there twice", f->path, ls_shown_name(shown, key));
    if (alignment && (number < 8 || number > MOST_ALIGNMENT || (number & (number - 1))))
        return ls_fail(LS_E_FORMAT, "%s: general.alignment must be a power of two from 8 to %d", f->path,
                       (int)MOST_ALIGNMENT);
    f->alignment = alignment ? (uint64_t)number : f->alignment;
    return LS_OK;
}

/* ---- tensors */

static ls_status wrong(const source *f, const ls_weight *t, const char *what)
{
    char shown[128];
    return ls_fail(LS_E_FORMAT, "%s: tensor \"%s\": %s: the file is damaged: copy it again", f->path,
                   ls_shown_name(shown, t->name), what);
}

/* The sizes, whose last dimension comes first. */
static ls_status get_sizes(source *f, ls_weight *t)
{
    uint64_t n, size;
    int64_t all = 1;
    LS_TRY(get(f, &n, 4, "the dimensions of a tensor"));
    if (n < 1 || n > 4)
        return wrong(f, t, "it has not 1 to 4 dimensions");
    t->type.ndim = (int)n;
    for (int d = (int)n; d-- > 0;) {
        LS_TRY(get(f, &size, 8, "a size of a tensor"));
        if (size > INT64_MAX / 8 || __builtin_mul_overflow(all, (int64_t)size, &all) || all > INT64_MAX / 8)
            return wrong(f, t, "its sizes are too large");
        t->type.dims[d] = (int64_t)size;
    }
    return LS_OK;
}

static ls_status get_tensor(source *f, ls_weight *t)
{
    char shown[128];
    uint64_t type;
    *t = (ls_weight){ .file = f->path };
    LS_TRY(get_name(f, &t->name, "the name of a tensor"));
    LS_TRY(get_sizes(f, t));
    LS_TRY(get(f, &type, 4, "the type of a tensor"));
    LS_TRY(get(f, &t->offset, 8, "the place of a tensor"));
    const ls_gguf_kind *kind = ls_gguf_kind_at((uint32_t)type);
    if (!kind)
        return ls_fail(LS_E_UNSUPPORTED, "%s: tensor \"%s\" is of type %u, which this version does not know",
                       f->path, ls_shown_name(shown, t->name), (unsigned)type);
    if (t->type.dims[t->type.ndim - 1] % kind->block)
        return wrong(f, t, "its rows are not whole blocks");
    t->stored = kind->name;
    t->loadable = kind->dtype >= 0;
    t->type.dtype = t->loadable ? (ls_dtype)kind->dtype : LS_F32;
    t->bytes = (uint64_t)ls_type_count(&t->type) / (uint64_t)kind->block * (uint64_t)kind->bytes;
    return LS_OK;
}

/* Sets the places of the data, which begin behind the head. */
static ls_status gguf_place(const source *f, int64_t n, ls_weight *list)
{
    const uint64_t begin = (f->at + f->alignment - 1) / f->alignment * f->alignment;
    for (int64_t i = 0; i < n; i++) {
        ls_weight *t = &list[i];
        if (t->offset % f->alignment)
            return wrong(f, t, "its data do not begin at a multiple of the alignment");
        if (begin > f->size || t->offset > f->size - begin || t->bytes > f->size - begin - t->offset)
            return wrong(f, t, "its data go beyond the end of the file");
        t->offset += begin;
        t->data = f->bytes + t->offset;
    }
    return LS_OK;
}

bool ls_gguf_is(const uint8_t *bytes, size_t size) { return size >= 4 && !memcmp(bytes, "GGUF", 4); }

static ls_status parse(source *f, ls_weight **tensors, int64_t *count, json_t *keys)
{
    uint64_t version, n, n_keys;
    LS_TRY(get(f, &version, 4, "the magic"));
    LS_TRY(get(f, &version, 4, "the version"));
    if (version != 2 && version != 3)
        return ls_fail(LS_E_UNSUPPORTED, "%s: GGUF of version %" PRIu64 "; this version reads 2 and 3",
                       f->path, version);
    LS_TRY(get(f, &n, 8, "the number of tensors"));
    LS_TRY(get(f, &n_keys, 8, "the number of keys"));
    if (n > (f->size - f->at) / 32 || n_keys > (f->size - f->at) / 13) /* the least bytes of each */
        return cut(f, "the list of keys and tensors");
    for (uint64_t i = 0; i < n_keys; i++)
        LS_TRY(get_key(f, keys));
    ls_weight *list = LS_ARENA_ARRAY(f->arena, ls_weight, n + 1);
    LS_TRY(ls_arena_status(f->arena));
    for (uint64_t i = 0; i < n; i++)
        LS_TRY(get_tensor(f, &list[i]));
    LS_TRY(gguf_place(f, (int64_t)n, list));
    *tensors = list;
    *count = (int64_t)n;
    return LS_OK;
}

ls_status ls_gguf_parse(ls_arena *arena, const uint8_t *bytes, size_t size, const char *path,
                        ls_weight **tensors, int64_t *count, json_t **keys)
{
    source f = { .bytes = bytes, .size = size, .path = path, .arena = arena, .alignment = 32 };
    json_t *all = json_object();
    *tensors = NULL;
    *count = 0;
    *keys = NULL;
    if (!all)
        return ls_fail(LS_E_MEMORY, "%s: out of memory", path);
    const ls_status s = parse(&f, tensors, count, all);
    if (s == LS_OK)
        *keys = all;
    else
        json_decref(all);
    return s;
}
