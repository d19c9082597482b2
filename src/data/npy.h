/* npy.h - arrays in NumPy's format: a magic number, a version, a header that is the text of a Python
 * dictionary ('descr': type, 'fortran_order', 'shape'), and the elements in row-major order. NumPy's
 * documentation of numpy.lib.format specifies it. An .npz file is a zip archive of such arrays. */
#pragma once
#include "base/str.h"
#include "lockstep/types.h"

/* A parsed array. It points into bytes that the caller owns. */
typedef struct ls_npy {
    ls_type type;     /* the whole array's; bool is u8 */
    const void *data; /* maybe unaligned inside an archive: copy elements with memcpy */
    size_t bytes;
} ls_npy;

/* Parses an array of `size` bytes, no more and no fewer. Messages begin with `what` (a path). LS_E_FORMAT: no
 * such file, cut, or longer than its shape says. LS_E_UNSUPPORTED, with what to do in NumPy: an element type
 * that is none of ls_dtype's, big-endian, columns first, more than LS_MAX_DIMS dimensions. */
ls_status ls_npy_parse(ls_npy *out, const void *bytes, size_t size, const char *what);

/* Checks an array of `size` bytes by its first n, at most LS_NPY_START, among which the header must be:
 * before the rest is inflated. Fails as ls_npy_parse. */
enum { LS_NPY_START = 1 << 16 };
ls_status ls_npy_check(const void *start, size_t n, size_t size, const char *what);

/* Appends what comes before the elements of an array of this type: a multiple of 64 bytes. LS_E_UNSUPPORTED:
 * bf16, which NumPy does not have. */
ls_status ls_npy_header(ls_str *out, const ls_type *type);
/* The same of exactly `size` bytes, a multiple of 64, for a file that grows: 256 are enough for any type. */
ls_status ls_npy_header_of(ls_str *out, const ls_type *type, size_t size);
