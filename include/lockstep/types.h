/* types.h - element types, shapes and tensors: the words every other header uses. */
#pragma once
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LS_MAX_DIMS 8

typedef enum ls_dtype { LS_F32, LS_F64, LS_BF16, LS_F16, LS_I32, LS_I64, LS_U8, LS_DTYPE_COUNT } ls_dtype;

LS_API size_t ls_dtype_size(ls_dtype t);        /* bytes per element */
LS_API const char *ls_dtype_name(ls_dtype t);   /* "f32", "bf16", ... as in recipes and the printed graph */
LS_API bool ls_dtype_is_float(ls_dtype t);
LS_API bool ls_dtype_parse(const char *name, ls_dtype *out);

/* A type: what a value of the graph is. ndim 0 is a scalar. Sizes are elements. */
typedef struct ls_type {
    ls_dtype dtype;
    int ndim;
    int64_t dims[LS_MAX_DIMS];
} ls_type;

/* LS_TYPE(LS_F32, 64, 17, 128); LS_SCALAR(LS_F32) */
#define LS_TYPE(t, ...)                                                                            \
    ((ls_type){ .dtype = (t), .ndim = (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), \
                .dims = { __VA_ARGS__ } })
#define LS_SCALAR(t) ((ls_type){ .dtype = (t), .ndim = 0 })

LS_API int64_t ls_type_count(const ls_type *t); /* number of elements */
LS_API size_t ls_type_bytes(const ls_type *t);  /* bytes when contiguous */
LS_API bool ls_type_equal(const ls_type *a, const ls_type *b);
/* Number of rows when the last dimension is taken as columns; 1 for scalars and vectors. */
LS_API int64_t ls_type_rows(const ls_type *t);

/* Memory with a shape. Strides are elements; a contiguous tensor has the row-major ones. Does not own `data`. */
typedef struct ls_tensor {
    void *data;
    ls_type type;
    int64_t strides[LS_MAX_DIMS];
} ls_tensor;

LS_API ls_tensor ls_tensor_of(void *data, const ls_type *type); /* contiguous */
LS_API bool ls_tensor_is_contiguous(const ls_tensor *t);

#ifdef __cplusplus
}
#endif
