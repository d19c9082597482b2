/* npy.c - reads and writes the header of an .npy array. Every number in it comes from outside: after
 * ls_npy_parse the elements lie inside the file. */
#include "data/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/signature.h"

static const char MAGIC[6] = { (char)0x93, 'N', 'U', 'M', 'P', 'Y' };
enum { VERSION = 6, LENGTH = 8 }; /* offsets: two bytes of version, then the header's length */

/* How NumPy writes a type, little-endian. The first row of a type is the one that is written. */
static const struct {
    const char *descr;
    ls_dtype dtype;
} TYPES[] = { { "<f4", LS_F32 }, { "<f8", LS_F64 }, { "<f2", LS_F16 }, { "<i4", LS_I32 },
              { "<i8", LS_I64 }, { "|u1", LS_U8 },  { "|b1", LS_U8 } };
enum { N_TYPES = sizeof TYPES / sizeof *TYPES };

/* The header's text while it is read. */
typedef struct reader {
    const char *at, *end, *what;
} reader;

static ls_status npy_refuse(const reader *r, const char *expected)
{
    const int shown = r->end - r->at < 20 ? (int)(r->end - r->at) : 20;
    char text[21];
    for (int i = 0; i < shown; i++)
        text[i] = r->at[i] >= ' ' && r->at[i] <= '~' ? r->at[i] : '?';
    text[shown] = 0;
    return ls_fail(LS_E_FORMAT, "%s: its .npy header has \"%s\" where %s should be: the file is damaged",
                   r->what, text, expected);
}

static void skip_space(reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n'))
        r->at++;
}

static bool next_is(reader *r, char c)
{
    skip_space(r);
    return r->at < r->end && *r->at == c;
}

/* Takes this character if it is next. */
static bool npy_take(reader *r, char c)
{
    const bool is = next_is(r, c);
    r->at += is;
    return is;
}

static bool take_word(reader *r, const char *word)
{
    skip_space(r);
    const size_t n = strlen(word);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0)
        return false;
    r->at += n;
    return true;
}

/* A text in quotes, of at most room - 1 characters. */
static bool read_text(reader *r, char *out, size_t room)
{
    skip_space(r);
    const char quote = r->at < r->end ? *r->at : 0;
    if (quote != '\'' && quote != '"')
        return false;
    const char *close = memchr(r->at + 1, quote, (size_t)(r->end - r->at - 1));
    const size_t n = close ? (size_t)(close - r->at - 1) : room;
    if (n >= room || memchr(r->at + 1, 0, n))
        return false;
    memcpy(out, r->at + 1, n);
    out[n] = 0;
    r->at = close + 1;
    return true;
}

static ls_status read_size(reader *r, int64_t *out)
{
    skip_space(r);
    const char *digits = r->at;
    int64_t n = 0;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *r->at++ - '0', &n))
            return ls_fail(LS_E_FORMAT, "%s: its .npy header has a size beyond 2^63: the file is damaged",
                           r->what);
    *out = n;
    return r->at > digits ? LS_OK : npy_refuse(r, "a size of the shape");
}

static ls_status read_shape(reader *r, ls_type *type)
{
    if (!npy_take(r, '('))
        return npy_refuse(r, "a shape");
    while (!npy_take(r, ')')) {
        if (type->ndim == LS_MAX_DIMS)
            return ls_fail(LS_E_UNSUPPORTED, "%s: more than %d dimensions: reshape the array in NumPy",
                           r->what, LS_MAX_DIMS);
        LS_TRY(read_size(r, &type->dims[type->ndim]));
        type->ndim++;
        if (!npy_take(r, ',') && !next_is(r, ')'))
            return npy_refuse(r, "a comma");
    }
    return LS_OK;
}

static ls_status find_dtype(ls_dtype *out, const char *descr, const char *what)
{
    for (int k = 0; k < N_TYPES; k++)
        if (strcmp(TYPES[k].descr, descr) == 0) {
            *out = TYPES[k].dtype;
            return LS_OK;
        }
    if (descr[0] && strchr("US", descr[1]))
        return ls_fail(LS_E_UNSUPPORTED,
                       "%s: its elements are texts ('%s'): save their numbers, as "
                       "numpy.unique(array, return_inverse=True)[1]",
                       what, descr);
    return ls_fail(
        LS_E_UNSUPPORTED,
        "%s: its elements are of NumPy's type '%s'; float16, float32, float64, int32, int64, uint8 "
        "and bool are read, little-endian: save array.astype('float32') or the like",
        what, descr);
}

static ls_status read_header(reader *r, ls_type *type)
{
    char key[16], descr[16];
    bool have_type = false, have_order = false, have_shape = false;
    if (!npy_take(r, '{'))
        return npy_refuse(r, "a dictionary");
    while (!npy_take(r, '}')) {
        if (!read_text(r, key, sizeof key) || !npy_take(r, ':'))
            return npy_refuse(r, "the name of an entry");
        if (strcmp(key, "descr") == 0 && !have_type) {
            if (!read_text(r, descr, sizeof descr))
                return ls_fail(LS_E_UNSUPPORTED,
                               "%s: its elements are records of several fields: save each field by itself",
                               r->what);
            LS_TRY(find_dtype(&type->dtype, descr, r->what));
            have_type = true;
        } else if (strcmp(key, "fortran_order") == 0 && !have_order) {
            have_order = take_word(r, "False");
            if (!have_order && take_word(r, "True"))
                return ls_fail(LS_E_UNSUPPORTED,
                               "%s: the array lies columns first: save numpy.ascontiguousarray(array)",
                               r->what);
            if (!have_order)
                return npy_refuse(r, "True or False");
        } else if (strcmp(key, "shape") == 0 && !have_shape) {
            LS_TRY(read_shape(r, type));
            have_shape = true;
        } else {
            return ls_fail(LS_E_FORMAT,
                           "%s: its .npy header has an entry '%s' that is unknown or twice there", r->what,
                           key);
        }
        npy_take(r, ',');
    }
    return have_type && have_order && have_shape
               ? LS_OK
               : ls_fail(LS_E_FORMAT, "%s: its .npy header names no %s: the file is damaged", r->what,
                         !have_type    ? "type"
                         : !have_order ? "order"
                                       : "shape");
}

/* The bytes of an array of this type. LS_E_FORMAT if it does not fit in memory's range. */
static ls_status bytes_of(size_t *out, const ls_type *type, const char *what)
{
    size_t n = ls_dtype_size(type->dtype);
    for (int d = 0; d < type->ndim; d++)
        if (__builtin_mul_overflow(n, (size_t)type->dims[d], &n))
            return ls_fail(LS_E_FORMAT, "%s: the sizes of its shape multiply to more than 2^64", what);
    *out = n;
    return LS_OK;
}

/* The first `there` bytes of an array of `size` bytes: the header must be among them. */
static ls_status parse_start(ls_npy *out, const void *bytes, size_t there, size_t size, const char *what)
{
    const uint8_t *p = bytes;
    if (there < LENGTH + 2 || memcmp(p, MAGIC, sizeof MAGIC) != 0) {
        const char *kind = ls_signature(p, there);
        return ls_fail(LS_E_FORMAT, "%s: not an .npy array: it %s%s", what,
                       kind ? "is " : "does not begin with \\x93NUMPY", kind ? kind : "");
    }
    const int version = p[VERSION], wide = version > 1 ? 4 : 2; /* versions 2 and 3 have a longer length */
    if (version < 1 || version > 3 || there < (size_t)(LENGTH + wide))
        return ls_fail(LS_E_FORMAT, "%s: version %d of the .npy format is not known: 1, 2 and 3 are", what,
                       version);
    size_t length = 0;
    for (int i = wide - 1; i >= 0; i--)
        length = length << 8 | p[LENGTH + i];
    const size_t start = LENGTH + (size_t)wide;
    if (length > there - start)
        return ls_fail(LS_E_FORMAT, "%s: cut inside its header: %zu of %zu bytes are there", what,
                       there - start, length);
    reader r = { (const char *)p + start, (const char *)p + start + length, what };
    ls_npy array = { .data = p + start + length };
    LS_TRY(read_header(&r, &array.type));
    LS_TRY(bytes_of(&array.bytes, &array.type, what));
    if (array.bytes != size - start - length)
        return ls_fail(LS_E_FORMAT, "%s: its shape takes %zu bytes, and %zu follow the header: it is %s",
                       what, array.bytes, size - start - length,
                       array.bytes > size - start - length ? "cut" : "damaged");
    *out = array;
    return LS_OK;
}

ls_status ls_npy_parse(ls_npy *out, const void *bytes, size_t size, const char *what)
{
    return parse_start(out, bytes, size, size, what);
}

ls_status ls_npy_check(const void *start, size_t n, size_t size, const char *what)
{
    ls_npy array;
    return parse_start(&array, start, n, size, what);
}

ls_status ls_npy_header(ls_str *out, const ls_type *type) { return ls_npy_header_of(out, type, 0); }

ls_status ls_npy_header_of(ls_str *out, const ls_type *type, size_t size)
{
    int k = 0;
    while (k < N_TYPES && TYPES[k].dtype != type->dtype)
        k++;
    if (k == N_TYPES)
        return ls_fail(LS_E_UNSUPPORTED, "NumPy has no %s", ls_dtype_name(type->dtype));
    ls_str text = { 0 };
    ls_str_printf(&text, "{'descr': '%s', 'fortran_order': False, 'shape': (", TYPES[k].descr);
    for (int d = 0; d < type->ndim; d++)
        ls_str_printf(&text, "%s%" PRId64, d > 0 ? ", " : "", type->dims[d]);
    ls_str_add(&text, type->ndim == 1 ? ",), }" : "), }"); /* (3,) is how Python writes one size */
    const size_t begun = LENGTH + 2 + text.len;
    const int pad = begun < size ? (int)(size - begun - 1) : 63 - (int)(begun % 64);
    ls_str_printf(&text, "%*s\n", pad, "");
    const uint8_t start[LENGTH + 2 - sizeof MAGIC] = { 1, 0, (uint8_t)text.len, (uint8_t)(text.len >> 8) };
    ls_str_add_n(out, MAGIC, sizeof MAGIC);
    ls_str_add_n(out, (const char *)start, sizeof start);
    ls_str_append(out, &text);
    ls_str_release(&text);
    return ls_str_status(out);
}
