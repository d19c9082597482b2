/* safetensors.c - reading and checking the header of one safetensors file. Every number in it comes from
 * outside: it is checked before it is used, and after a successful parse each tensor's `bytes` lie inside the
 * file and belong to no other tensor. The rules are those of the format's reference reader (header of at most
 * 100,000,000 bytes, offsets contiguous from 0 to the end of the file, no duplicates). */
#include "ckpt/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"

#define MAX_HEADER 100000000u

static const struct {
    const char *name;
    int bits, type;
} DTYPES[] = {
    { "F32", 32, LS_F32 }, { "F64", 64, LS_F64 },    { "F16", 16, LS_F16 },    { "BF16", 16, LS_BF16 },
    { "I32", 32, LS_I32 }, { "I64", 64, LS_I64 },    { "U8", 8, LS_U8 },       { "BOOL", 8, -1 },
    { "I8", 8, -1 },       { "I16", 16, -1 },        { "U16", 16, -1 },        { "U32", 32, -1 },
    { "U64", 64, -1 },     { "C64", 64, -1 },        { "F8_E5M2", 8, -1 },     { "F8_E4M3", 8, -1 },
    { "F8_E8M0", 8, -1 },  { "F8_E4M3FNUZ", 8, -1 }, { "F8_E5M2FNUZ", 8, -1 }, { "F6_E2M3", 6, -1 },
    { "F6_E3M2", 6, -1 },  { "F4", 4, -1 },
};
#define N_DTYPES (sizeof DTYPES / sizeof DTYPES[0])

bool ls_safetensors_dtype(const char *name, const char **stored, int *bits, int *type)
{
    for (size_t i = 0; i < N_DTYPES; i++)
        if (strcmp(DTYPES[i].name, name) == 0) {
            *stored = DTYPES[i].name;
            *bits = DTYPES[i].bits;
            *type = DTYPES[i].type;
            return true;
        }
    return false;
}

const char *ls_safetensors_name(ls_dtype t)
{
    for (size_t i = 0; i < N_DTYPES; i++)
        if (DTYPES[i].type == (int)t)
            return DTYPES[i].name;
    return "?";
}

const char *ls_shown_name(char buffer[128], const char *name)
{
    size_t n = strlen(name), limit = 120;
    size_t take = n < limit ? n : limit;
    for (size_t i = 0; i < take; i++)
        buffer[i] = (unsigned char)name[i] < 32 || name[i] == 127 ? '?' : name[i];
    strcpy(buffer + take, n > limit ? "..." : "");
    return buffer;
}

const char *ls_shown_dims(char buffer[192], const ls_type *t)
{
    size_t used = (size_t)snprintf(buffer, 192, "[");
    for (int i = 0; i < t->ndim; i++)
        used += (size_t)snprintf(buffer + used, 192 - used, "%s%" PRId64, i ? ", " : "", t->dims[i]);
    snprintf(buffer + used, 192 - used, "]");
    return buffer;
}

static ls_status safetensors_bad(const char *path, const char *name, const char *what)
{
    char shown[128];
    return ls_fail(LS_E_FORMAT,
                   "%s: tensor \"%s\": %s; the file is damaged or was not written by a safetensors writer: "
                   "copy or export it again",
                   path, ls_shown_name(shown, name), what);
}

/* Reads the shape into type.dims, and computes the bytes that it needs. */
static ls_status read_shape(ls_weight *t, json_t *shape, int bits, const char *path)
{
    char what[160];
    if (!json_is_array(shape))
        return safetensors_bad(path, t->name, "\"shape\" is not a list of sizes");
    size_t ndim = json_array_size(shape);
    if (ndim > LS_MAX_DIMS) {
        char shown[128];
        return ls_fail(
            LS_E_UNSUPPORTED,
            "%s: tensor \"%s\" has %zu dimensions; at most %d are supported: reshape it before saving", path,
            ls_shown_name(shown, t->name), ndim, LS_MAX_DIMS);
    }
    t->type.ndim = (int)ndim;
    int64_t count = 1, total_bits;
    for (size_t i = 0; i < ndim; i++) {
        json_t *d = json_array_get(shape, i);
        if (!json_is_integer(d) || json_integer_value(d) < 0)
            return safetensors_bad(path, t->name,
                                   "\"shape\" holds something that is not a size (an integer, 0 or more)");
        t->type.dims[i] = json_integer_value(d);
        if (__builtin_mul_overflow(count, t->type.dims[i], &count))
            return safetensors_bad(path, t->name, "the product of its \"shape\" does not fit in 63 bits");
    }
    if (__builtin_mul_overflow(count, (int64_t)bits, &total_bits))
        return safetensors_bad(path, t->name, "the size of its \"shape\" does not fit in 63 bits");
    if (total_bits % 8 != 0) {
        snprintf(what, sizeof what, "%" PRId64 " elements of %d bits do not fill whole bytes", count, bits);
        return safetensors_bad(path, t->name, what);
    }
    t->bytes = (uint64_t)total_bits / 8;
    return LS_OK;
}

static ls_status read_entry(ls_weight *t, json_t *entry, const char *path, const uint8_t *bytes,
                            uint64_t data_start, uint64_t data_size)
{
    char what[240], dims[192];
    if (!json_is_object(entry))
        return safetensors_bad(path, t->name,
                               "its header entry is not an object with dtype, shape and data_offsets");
    /* (other keys are ignored, as the reference reader does) */
    json_t *dtype = json_object_get(entry, "dtype"), *offsets = json_object_get(entry, "data_offsets");
    if (!json_is_string(dtype))
        return safetensors_bad(path, t->name, "\"dtype\" is missing or not a text");
    int bits, type;
    if (!ls_safetensors_dtype(json_string_value(dtype), &t->stored, &bits, &type)) {
        char shown[128];
        snprintf(what, sizeof what, "element type \"%s\" is not one of the format's",
                 ls_shown_name(shown, json_string_value(dtype)));
        return safetensors_bad(path, t->name, what);
    }
    t->loadable = type >= 0;
    t->type.dtype = type >= 0 ? (ls_dtype)type : LS_U8;
    LS_TRY(read_shape(t, json_object_get(entry, "shape"), bits, path));

    json_t *first = json_array_get(offsets, 0), *second = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(second))
        return safetensors_bad(path, t->name, "\"data_offsets\" is not a pair of integers");
    int64_t begin = json_integer_value(first), end = json_integer_value(second);
    if (begin < 0 || end < begin || (uint64_t)end > data_size) {
        snprintf(what, sizeof what,
                 "data_offsets [%" PRId64 ", %" PRId64 "] do not lie in the file's %" PRIu64 " bytes of data",
                 begin, end, data_size);
        return safetensors_bad(path, t->name, what);
    }
    if ((uint64_t)(end - begin) != t->bytes) {
        snprintf(what, sizeof what,
                 "data_offsets [%" PRId64 ", %" PRId64 "] hold %" PRId64 " bytes, %s %s needs %" PRIu64,
                 begin, end, end - begin, t->stored, ls_shown_dims(dims, &t->type), t->bytes);
        return safetensors_bad(path, t->name, what);
    }
    t->offset = data_start + (uint64_t)begin;
    t->data = bytes + t->offset;
    return LS_OK;
}

static int by_offset(const void *a, const void *b)
{
    const ls_weight *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1; /* (an empty tensor has the same offset as the one after it) */
    return strcmp(x->name, y->name);
}

/* Sorted by offset, each tensor must begin where the previous one ends, and the last one must end with the
 * file. */
static ls_status check_cover(const ls_weight *t, int64_t n, const char *path, uint64_t data_start,
                             uint64_t data_size)
{
    uint64_t at = 0;
    char what[200], shown[128];
    for (int64_t i = 0; i < n; i++) {
        uint64_t begin = t[i].offset - data_start;
        if (begin < at) {
            snprintf(what, sizeof what,
                     "its data begin at %" PRIu64 ", inside those of \"%.60s\", which end at %" PRIu64, begin,
                     ls_shown_name(shown, t[i - 1].name), at);
            return safetensors_bad(path, t[i].name, what);
        }
        if (begin > at) {
            snprintf(what, sizeof what,
                     "its data begin at %" PRIu64 ", %" PRIu64 " bytes after the end of what lies before",
                     begin, begin - at);
            return safetensors_bad(path, t[i].name, what);
        }
        at = begin + t[i].bytes;
    }
    if (at != data_size)
        return ls_fail(LS_E_FORMAT,
                       "%s: the tensors of the header end at byte %" PRIu64
                       " of the data, the file holds %" PRIu64
                       "; it is damaged or holds something else: copy or export it again",
                       path, at, data_size);
    return LS_OK;
}

static ls_status check_metadata(json_t *metadata, const char *path)
{
    if (json_is_null(metadata))
        return LS_OK;
    if (!json_is_object(metadata))
        return ls_fail(LS_E_FORMAT, "%s: \"__metadata__\" of the header is not an object of texts", path);
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value)
    {
        char shown[128];
        if (!json_is_string(value))
            return ls_fail(LS_E_FORMAT, "%s: \"__metadata__\": the value of \"%s\" is not a text", path,
                           ls_shown_name(shown, key));
    }
    return LS_OK;
}

/* How many bytes of white space a text begins with. */
static size_t blanks(const char *text, size_t n)
{
    size_t i = 0;
    while (i < n && (text[i] == ' ' || text[i] == '\n' || text[i] == '\r' || text[i] == '\t'))
        i++;
    return i;
}

ls_status ls_safetensors_parse(ls_arena *arena, const uint8_t *bytes, size_t size, const char *path,
                               ls_weight **tensors, int64_t *count, json_t **metadata)
{
    *metadata = NULL;
    if (size < 8)
        return ls_fail(
            LS_E_FORMAT,
            "%s: %zu bytes are too few for a safetensors file (8 bytes of header length come first)", path,
            size);
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--)
        n = n << 8 | bytes[i];
    if (n > MAX_HEADER)
        return ls_fail(LS_E_FORMAT,
                       "%s: its first 8 bytes announce a header of %" PRIu64
                       " bytes, more than the format's limit of %u: not a safetensors file",
                       path, n, MAX_HEADER);
    if (n > size - 8)
        return ls_fail(
            LS_E_FORMAT,
            "%s: a header of %" PRIu64
            " bytes is announced, the file has %zu after its first 8: truncated, or not a safetensors file",
            path, n, size - 8);
    const char *text = (const char *)bytes + 8;
    const size_t blank = n ? blanks(text, (size_t)n) : 0;
    if (blank == n || text[blank] != '{')
        return ls_fail(LS_E_FORMAT, "%s: the header does not begin with '{': not a safetensors file", path);
    if (text[n - 1] == 0)
        return ls_fail(
            LS_E_FORMAT,
            "%s: the header is padded with NUL bytes, and the format has spaces there: save it again "
            "with the safetensors package, which refuses it too",
            path);

    json_t *root = NULL;
    LS_TRY(ls_json_parse(&root, text, (size_t)n, path));
    ls_status s = LS_OK;
    uint64_t data_start = 8 + n, data_size = size - data_start;
    ls_weight *list = LS_ARENA_ARRAY(arena, ls_weight, json_object_size(root) + 1);
    int64_t used = 0;
    const char *file = ls_arena_strdup(arena, path);
    LS_TRY_TO(s, ls_arena_status(arena), done);
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value)
    {
        if (strcmp(key, "__metadata__") == 0) {
            LS_TRY_TO(s, check_metadata(value, path), done);
            *metadata = json_is_null(value) ? NULL : json_incref(value);
            continue;
        }
        ls_weight *t = &list[used++];
        t->name = ls_arena_strdup(arena, key);
        t->file = file;
        LS_TRY_TO(s, read_entry(t, value, path, bytes, data_start, data_size), done);
    }
    if (used > 0)
        qsort(list, (size_t)used, sizeof *list, by_offset);
    LS_TRY_TO(s, check_cover(list, used, path, data_start, data_size), done);
    *tensors = list;
    *count = used;
done:
    json_decref(root);
    if (s != LS_OK && *metadata) {
        json_decref(*metadata);
        *metadata = NULL;
    }
    return s;
}
