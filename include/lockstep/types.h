/* types.h - element types, shapes and tensors: the words every other header uses. */
#pragma once
#ifndef LS_WARN_IN_HEADERS
/* for programs that are compiled with -Wextra or -pedantic: the macros use GNU's C */
#pragma GCC system_header
#endif
#include "status.h"
#ifdef __cplusplus
#include <initializer_list>
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define LS_MAX_DIMS 8

typedef enum ls_dtype { LS_F32, LS_F64, LS_BF16, LS_F16, LS_I32, LS_I64, LS_U8, LS_DTYPE_COUNT } ls_dtype;

LS_API size_t ls_dtype_size(ls_dtype t);      /* bytes per element */
LS_API const char *ls_dtype_name(ls_dtype t); /* "f32", "bf16", ... as in recipes and the printed graph */
LS_API bool ls_dtype_is_float(ls_dtype t);
LS_API bool ls_dtype_parse(const char *name, ls_dtype *out);

/* A type: what a value of the graph is. ndim 0 is a scalar. Sizes are elements. */
typedef struct ls_type {
    ls_dtype dtype;
    int ndim;
    int64_t dims[LS_MAX_DIMS];
} ls_type;

/* LS_TYPE(LS_F32, 64, 17, 128); LS_SCALAR(LS_F32). LS_LIST(2, 3): how many numbers, and where they lie, as
 * two arguments of a call. */
#ifdef __cplusplus
inline ls_type ls_type_from(ls_dtype dtype, std::initializer_list<int64_t> dims)
{
    ls_type t = {};
    t.dtype = dtype;
    for (int64_t size : dims)
        t.dims[t.ndim++ % LS_MAX_DIMS] = size;
    return t;
}
#define LS_TYPE(t, ...) ls_type_from((t), { __VA_ARGS__ })
#define LS_SCALAR(t) ls_type_from((t), {})
#define LS_LIST(...)                                           \
    (int)std::initializer_list<int64_t>{ __VA_ARGS__ }.size(), \
        std::initializer_list<int64_t>{ __VA_ARGS__ }.begin()
#else
#define LS_TYPE(t, ...)                                                              \
    ((ls_type){ .dtype = (t),                                                        \
                .ndim = (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), \
                .dims = { __VA_ARGS__ } })
#define LS_SCALAR(t) ((ls_type){ .dtype = (t), .ndim = 0 })
#define LS_LIST(...) \
    (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }
#endif

LS_API int64_t ls_type_count(const ls_type *t); /* number of elements */
LS_API size_t ls_type_bytes(const ls_type *t);  /* bytes when contiguous */
LS_API bool ls_type_equal(const ls_type *a, const ls_type *b);
/* Number of rows when the last dimension is taken as columns; 1 for scalars and vectors. */
LS_API int64_t ls_type_rows(const ls_type *t);

/* Memory with a shape. Strides are elements; a contiguous tensor has the row-major ones. Does not own `data`.
 */
typedef struct ls_tensor {
    void *data;
    ls_type type;
    int64_t strides[LS_MAX_DIMS];
} ls_tensor;

LS_API ls_tensor ls_tensor_of(void *data, const ls_type *type); /* contiguous */
LS_API bool ls_tensor_is_contiguous(const ls_tensor *t);

/* A number with a name. */
typedef struct ls_metric {
    const char *name; /* letters, digits and _-./@%: */
    double value;
} ls_metric;

#ifdef __cplusplus
}
#endif
