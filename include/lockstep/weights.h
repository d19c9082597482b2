/* weights.h - tensors in files: safetensors, as one file or as a directory of shards, PyTorch's .pt files and
 * its distributed checkpoints (DCP). All calls are local.
 *
 * Opening maps the files and checks every number in their headers; nothing is copied until it is asked for,
 * and nothing is copied at all unless everything that was asked for fits. Writing is all or nothing. */
#pragma once
#ifndef LS_WARN_IN_HEADERS
/* for programs that are compiled with -Wextra or -pedantic: the macros use GNU's C */
#pragma GCC system_header
#endif
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Open weights do not change but by ls_weights_leave_out and ls_weights_add_name: any number of threads may
 * read them. */
typedef struct ls_weights ls_weights;

/* One tensor of a file. Valid until ls_weights_close. */
typedef struct ls_weight {
    const char *name;
    const char *file;   /* path of the file that holds it */
    const char *stored; /* its element type in safetensors' words: "F32", "BF16", "F8_E4M3", ... */
    /* false: `stored` has no ls_dtype; type.dtype means nothing then, the dimensions do */
    bool loadable;
    ls_type type;
    uint64_t offset; /* bytes from the start of the file */
    uint64_t bytes;  /* of all its elements */
    /* `bytes` bytes, little-endian, row-major, possibly unaligned: memcpy, or ls_weight_read */
    const void *data;
    /* NULL. In a file of PyTorch's a tensor may be a view: then elements are so many apart, and `data` is the
     * first one */
    const int64_t *strides;
    /* NULL. In a DCP directory a tensor may lie in parts: then `data` is NULL, and ls_weight_read joins them
     */
    const struct ls_weight_parts *parts;
} ls_weight;

/* `path` is a .safetensors file, a file of torch.save (known by its content), an index (....index.json), or a
 * directory with model.safetensors, pytorch_model.bin or the index of one, with the .metadata of
 * torch.distributed.checkpoint.save, or with the shards of its HuggingFaceStorageWriter. docs/weights.md says
 * what is read of PyTorch's. A damaged or inconsistent file is LS_E_FORMAT with path, tensor, numbers and
 * advice; one of PyTorch's with anything but plain data is LS_E_UNSUPPORTED: nothing in it is ever executed.
 * A directory without weights is LS_E_IO, with what it holds. */
LS_API ls_status ls_weights_open(ls_weights **out, const char *path);
/* The same for bytes in memory, which must outlive the result; `what` names them in messages. */
LS_API ls_status ls_weights_open_memory(ls_weights **out, const void *bytes, size_t n, const char *what);
LS_API void ls_weights_close(ls_weights **w); /* nulls *w; null is fine */

LS_API int64_t ls_weights_count(const ls_weights *w);
/* shard after shard, by offset; of a .pt file in its dict's order */
LS_API const ls_weight *ls_weights_at(const ls_weights *w, int64_t i);
LS_API const ls_weight *ls_weights_find(const ls_weights *w, const char *name); /* NULL if there is none */
/* Takes tensor `name` out of the list, if it is there, when it is the same as tensor `of`, or anyway (of
 * NULL): what a file holds twice, or for nobody. */
LS_API void ls_weights_leave_out(ls_weights *w, const char *name, const char *of);
/* Gives tensor `of` another name besides its own: a state dict of PyTorch's has a tied tensor under each of
 * its names. LS_E_ARG where there is no tensor `of`, or one that is called `name`. */
LS_API ls_status ls_weights_add_name(ls_weights *w, const char *name, const char *of);
LS_API int ls_weights_file_count(const ls_weights *w);
/* of the first file; NULL if there is none */
LS_API const char *ls_weights_metadata(const ls_weights *w, const char *key);

/* Copies one tensor to `out` (type_count * dtype_size bytes) as `to`. A different type is converted only
 * between float types, rounding to nearest even. LS_E_UNSUPPORTED if the stored type is not loadable,
 * LS_E_SHAPE if it is not convertible. */
LS_API ls_status ls_weight_read(const ls_weight *t, ls_dtype to, void *out);

/* A tensor with a name: what a model wants, or what it has to give. */
typedef struct ls_named_tensor {
    const char *name;
    ls_tensor tensor; /* contiguous */
} ls_named_tensor;

/* Fills `n` tensors by name. Every name must be there with exactly this shape and type, and nothing else may
 * be there; otherwise nothing is written and one LS_E_SHAPE message tells all that is missing, unexpected,
 * differently shaped or typed (counts, and the first few). */
typedef struct ls_weights_load_opts {
    bool convert;          /* float types may differ: converted, rounding to nearest even */
    bool allow_unexpected; /* the file may hold more than is wanted */
    bool allow_missing; /* the file may lack what is wanted, which then stays as it is; but not all of it */
    bool check_only;    /* compare names, shapes and types; `data` is not touched and may be NULL */
} ls_weights_load_opts;
#define LS_WEIGHTS_LOAD_DEFAULTS \
    .convert = false, .allow_unexpected = false, .allow_missing = false, .check_only = false
LS_API ls_weights_load_opts ls_weights_load_opts_default(void);
LS_API ls_status ls_weights_load_with(const ls_weights *w, int64_t n, const ls_named_tensor *want,
                                      const ls_weights_load_opts *o LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_weights_load(...) ls_weights_load_with(__VA_ARGS__)
#else
#define ls_weights_load(w, n, want, ...)              \
    LS_QUIETLY(ls_status,                             \
               ls_weights_load_with((w), (n), (want), \
                                    &(ls_weights_load_opts){ LS_WEIGHTS_LOAD_DEFAULTS, ##__VA_ARGS__ }))
#endif

/* Writes one .safetensors file: tensors in the given order, contiguous, `__metadata__` {"format": "pt"}, data
 * 8-byte aligned. Equal tensors give equal files. The file replaces an old one atomically; a failure leaves
 * that as it was. LS_E_USAGE: the name ends as that of another format, in .pt for example. */
LS_API ls_status ls_weights_save(const char *path, int64_t n, const ls_named_tensor *tensors);
/* Writes model.safetensors into an existing directory or, when the data exceed `max_file` bytes (0: no
 * limit), model-00001-of-0000N.safetensors
 * ... with model.safetensors.index.json. A tensor is never cut. */
LS_API ls_status ls_weights_save_dir(const char *dir, uint64_t max_file, int64_t n,
                                     const ls_named_tensor *tensors);

/* Writes the tensors of `w` with memory for one of them; the end of `path` says as what. One file,
 * .safetensors or .pt: what torch.save writes of an OrderedDict, which torch.load(..., weights_only=True)
 * reads; there the names of one tensor share a storage. It replaces an old one atomically, also one of `w`
 * itself. Or, with a slash at the end, a new directory, which torch.distributed.checkpoint.load reads into
 * { "model": model.state_dict() }; it appears when it is whole. */
typedef struct ls_weights_export_opts {
    /* what tensors of float types become, rounding to nearest even; NULL: they stay as they are */
    const ls_dtype *floats;
    /* bytes, after each tensor; false: LS_E_STOPPED, nothing is written. May be NULL */
    bool (*progress)(void *context, uint64_t done, uint64_t total);
    void *context;
    bool replace; /* a DCP directory that is there already, instead of an error */
    int ranks;    /* of a DCP directory: as so many ranks of FSDP2 would have written it, a file each */
} ls_weights_export_opts;
#define LS_WEIGHTS_EXPORT_DEFAULTS \
    .floats = NULL, .progress = NULL, .context = NULL, .replace = false, .ranks = 1
LS_API ls_weights_export_opts ls_weights_export_opts_default(void);
LS_API ls_status ls_weights_export_with(const ls_weights *w, const char *path,
                                        const ls_weights_export_opts *o LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_weights_export(...) ls_weights_export_with(__VA_ARGS__)
#else
#define ls_weights_export(w, path, ...) \
    LS_QUIETLY(ls_status,               \
               ls_weights_export_with(  \
                   (w), (path), &(ls_weights_export_opts){ LS_WEIGHTS_EXPORT_DEFAULTS, ##__VA_ARGS__ }))
#endif

#ifdef __cplusplus
}
#endif
