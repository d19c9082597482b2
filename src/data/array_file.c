/* array_file.c - finds a file of arrays and opens the array of a field in it. */
#include "data/array_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/find.h"
#include "base/hash.h"
#include "base/sys.h"
#include "comm/memory_room.h"
#include "data/array_csv.h"
#include "data/array_hdf5.h"
#include "data/array_npz.h"
#include "data/array_text.h"
#include "data/corpus.h"
#include "data/npy.h"
#include "data/signature.h"
#include "data/source_hash.h"

static ls_status find_file(char **out, const char *file)
{
    LS_TRY(ls_find(out, file, ls_find_any));
    if (*out && !ls_dir_exists(*out))
        return LS_OK;
    ls_str places = { 0 };
    ls_find_places(&places, file);
    const ls_status s = *out ? ls_fail(LS_E_USAGE, "%s: a folder, not a file", *out)
                             : ls_fail(LS_E_USAGE, "%s: no such file%s%s", file, places.len ? " " : "",
                                       ls_str_text(&places));
    ls_str_release(&places);
    free(*out);
    *out = NULL;
    return s;
}

/* The hash of the file's content: known from an earlier start, or computed. */
static ls_status hash(uint64_t *out, const char *path)
{
    char *cache = ls_cache_dir(), *dir = ls_path_join(cache, "inflated"), *known = ls_path_join(dir, "known");
    const ls_status s = ls_source_hash(out, path, known);
    free(known);
    free(dir);
    free(cache);
    return s;
}

static ls_status take_npy(ls_array_file *f, const ls_npy *array)
{
    f->type = array->type;
    f->data = array->data;
    return LS_OK;
}

/* Rows are read in any order. Of a file larger than memory only they are read: what the kernel would read
 * around each, up to some MiB, would push others out. */
static ls_status map_rows(ls_mapping *map, const char *path)
{
    LS_TRY(ls_file_map(map, path));
    if (map->size > ls_memory_room())
        madvise((void *)(uintptr_t)map->data, map->size, MADV_RANDOM); /* may fail */
    return LS_OK;
}

static ls_status open_npy(ls_array_file *f, const char *path, const char *what)
{
    (void)what;
    ls_npy array;
    LS_TRY(map_rows(&f->map, path));
    LS_TRY(ls_npy_parse(&array, f->map.data, f->map.size, f->path));
    return take_npy(f, &array);
}

static ls_status open_npz(ls_array_file *f, const char *path, const char *what)
{
    ls_npy array;
    LS_TRY(map_rows(&f->map, path));
    LS_TRY(ls_npz_find(&array, &f->heap, f->map.data, f->map.size, what, f->path));
    return take_npy(f, &array);
}

/* "a,b,c": one column is one number a sample, several are a vector. */
static ls_status open_csv(ls_array_file *f, const char *path, const char *what)
{
    enum { MOST = 4096 };
    ls_text_file text;
    char *names = ls_sys_strdup(what);
    const char **columns = ls_sys_malloc(sizeof *columns * MOST);
    int n = 0;
    int64_t rows = 0;
    ls_status s = names && columns ? LS_OK : ls_fail(LS_E_MEMORY, "%s: no memory for its columns", f->path);
    for (char *p = names; s == LS_OK && p; n++) {
        char *comma = strchr(p, ',');
        if (comma)
            *comma = 0;
        if (n == MOST)
            s = ls_fail(LS_E_UNSUPPORTED, "%s: more than %d columns", path, MOST);
        else
            columns[n] = p;
        p = comma ? comma + 1 : NULL;
    }
    if (s == LS_OK && n > (f->tokens.words ? 1 : 2) && f->tokens.tokenizer)
        s = ls_fail(LS_E_USAGE, "%s: a text is one column and a pair of texts two, and these are %d", f->path,
                    n);
    if (s == LS_OK && f->tokens.tokenizer) {
        if ((s = ls_text_file_open(&text, path)) == LS_OK) {
            s = ls_array_texts(f, path, text.text, text.n, n, columns, &f->tokens);
            ls_text_file_close(&text);
        }
        free(columns);
        free(names);
        return s;
    }
    if (s == LS_OK && (s = ls_text_file_open(&text, path)) == LS_OK) {
        s = ls_csv_labels((double **)&f->heap, &rows, text.text, text.n, n, columns, f->classes, path);
        ls_text_file_close(&text);
    }
    free(columns);
    free(names);
    f->data = f->heap;
    f->text = true;
    f->type = n > 1 ? LS_TYPE(LS_F64, rows, n) : LS_TYPE(LS_F64, rows);
    return s;
}

/* Elements that lie in the file as they are needed are mapped. Of others an array of up to so many bytes is
 * read at once, because rows in any order would inflate chunks again and again; a larger one by rows. */
size_t ls_array_file_whole = 256 << 20;

static ls_status open_hdf5(ls_array_file *f, const char *path, const char *what)
{
    ls_hdf5_array array;
    LS_TRY(ls_hdf5_open(&f->rows, &array, path, what, f->path));
    const size_t bytes = ls_type_bytes(&array.type);
    f->type = array.type;
    f->has_fill = array.has_fill;
    f->fill = array.fill;
    if (array.type.ndim < 1 || bytes == 0)
        return LS_OK; /* refused by who asks for samples */
    if (array.offset >= 0) {
        LS_TRY(map_rows(&f->map, path));
        if ((size_t)array.offset > f->map.size || bytes > f->map.size - (size_t)array.offset)
            return ls_fail(LS_E_FORMAT,
                           "%s: its elements end after the end of the file: the file is "
                           "incomplete",
                           f->path);
        f->data = f->map.data + array.offset;
    } else if (bytes <= ls_array_file_whole) {
        f->heap = ls_sys_malloc(bytes);
        if (!f->heap)
            return ls_fail(LS_E_MEMORY, "%s: no memory for its %zu bytes", f->path, bytes);
        LS_TRY(ls_hdf5_read(f->rows, 0, array.type.dims[0], f->heap));
        f->data = f->heap;
    }
    if (f->data)
        ls_hdf5_close(&f->rows);
    return LS_OK;
}

#define HDF5 "\x89HDF\r\n\x1a\n"

static const struct {
    const char *end; /* of the file's name */
    ls_status (*open)(ls_array_file *f, const char *path, const char *what);
    bool parts;        /* a file may have several arrays */
    const char *begin; /* such a file's first bytes; NULL: its reader says what it is instead */
} KINDS[] = { { ".npy", open_npy, false, NULL }, { ".npz", open_npz, true, "PK\3\4" },
              { ".csv", open_csv, true, NULL },  { ".csv.gz", open_csv, true, NULL },
              { ".h5", open_hdf5, true, HDF5 },  { ".hdf5", open_hdf5, true, HDF5 },
              { ".nc", open_hdf5, true, HDF5 } };
enum { N_KINDS = sizeof KINDS / sizeof *KINDS };

/* What a file that does not begin with `begin` is by its first bytes; NULL: of no known kind. */
static ls_status look_at(const char **out, const char *path, const char *begin)
{
    ls_mapping map;
    const size_t n = strlen(begin);
    LS_TRY(ls_file_map(&map, path));
    const bool is = n && map.size >= n && !memcmp(map.data, begin, n);
    *out = is ? NULL : ls_signature(map.data, map.size);
    ls_file_unmap(&map);
    return LS_OK;
}

static ls_status check_kind(int kind, const char *path)
{
    const char *is = NULL, *begin = KINDS[kind].begin;
    if (begin)
        LS_TRY(look_at(&is, path, begin));
    return !is ? LS_OK
               : ls_fail(LS_E_FORMAT, "%s: its name ends in %s, and it is %s", path, KINDS[kind].end, is);
}

/* A name that ends as no file of arrays does. It may be a file of another kind, with or without a :COLUMN. */
static ls_status no_kind(const char *file, const char *field)
{
    const char *is = NULL, *colon = strrchr(file, ':');
    char *path = ls_sys_strdup(file);
    if (path && colon && !ls_file_exists(path))
        path[colon - file] = 0;
    char *found = NULL;
    if (path && ls_find(&found, path, ls_find_any) == LS_OK && ls_file_exists(found))
        (void)look_at(&is, found, ""); /* what cannot be looked at is still no file of arrays */
    free(found);
    free(path);
    return ls_fail(LS_E_USAGE, "%s: field \"%s\" needs a file of arrays: " LS_ARRAY_FILES "%s%s", file, field,
                   is ? "; this is " : "", is ? is : "");
}

/* Finds the kind of a name like FILE.npz:ARRAY, and how long FILE.npz is. -1: none. */
static int kind_of(const char *file, size_t *length)
{
    for (int k = 0; k < N_KINDS; k++) {
        const size_t n = strlen(KINDS[k].end);
        for (const char *p = file; (p = strstr(p, KINDS[k].end)); p++)
            if (p > file && (!p[n] || (p[n] == ':' && p[n + 1] && KINDS[k].parts))) {
                *length = (size_t)(p - file) + n;
                return k;
            }
    }
    return -1;
}

const char *ls_array_file_part(const char *file)
{
    size_t length = strlen(file);
    (void)kind_of(file, &length);
    return file + length;
}

static ls_status open_kind(ls_array_file *f, int kind, const char *name, const char *what)
{
    char *path = NULL;
    LS_TRY(find_file(&path, name));
    f->path = KINDS[kind].parts ? ls_sys_text("%s:%s", path, what) : ls_sys_strdup(path);
    ls_status s = ls_sys_have(f->path);
    if (s == LS_OK)
        s = check_kind(kind, path);
    if (s == LS_OK)
        s = KINDS[kind].open(f, path, what);
    if (s == LS_OK)
        s = hash(&f->digest, path);
    if (KINDS[kind].parts)
        f->digest = ls_hash64_more(f->digest, what, strlen(what));
    if (f->tokens.tokenizer)
        f->digest = ls_hash64_more(f->digest, &f->tokenizer, sizeof f->tokenizer);
    free(path);
    return s;
}

ls_status ls_array_file_open(ls_array_file *out, const char *file, const char *field)
{
    return ls_array_labels_open(out, file, field, NULL, NULL);
}

ls_status ls_array_labels_open(ls_array_file *out, const char *file, const char *field, const char *classes,
                               const ls_array_tokens *tokens)
{
    *out = (ls_array_file){ .classes = classes };
    if (tokens)
        out->tokens = *tokens;
    size_t length = 0;
    const int kind = kind_of(file, &length);
    if (kind < 0)
        return no_kind(file, field);
    char *name = ls_sys_strndup(file, length);
    LS_TRY(ls_sys_have(name));
    const ls_status s = open_kind(out, kind, name, file[length] ? file + length + 1 : field);
    free(name);
    if (s != LS_OK)
        ls_array_file_close(out);
    return s;
}

/* IEEE's binary16: a sign, 5 bits of exponent, 10 of fraction. */
static double half(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double x = exponent == 31  ? (fraction ? (double)NAN : (double)INFINITY)
                     : exponent == 0 ? ldexp(fraction, -24)
                                     : ldexp(1024 + fraction, exponent - 25);
    return bits & 0x8000 ? -x : x;
}

double ls_array_number(const uint8_t *from, ls_dtype type, int64_t i)
{
    union {
        float f32;
        double f64;
        uint16_t f16;
        int32_t i32;
        int64_t i64;
    } x;
    const size_t size = ls_dtype_size(type);
    if (type == LS_U8)
        return from[i];
    memcpy(&x, from + (size_t)i * size, size);
    switch (type) {
    case LS_F32: return (double)x.f32;
    case LS_F64: return x.f64;
    case LS_F16: return half(x.f16);
    case LS_I32: return x.i32;
    default: return (double)x.i64;
    }
}

void ls_array_file_close(ls_array_file *f)
{
    ls_hdf5_close(&f->rows);
    ls_file_unmap(&f->map);
    free(f->heap);
    free(f->path);
    *f = (ls_array_file){ 0 };
}
