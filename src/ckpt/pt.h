/* pt.h - files that torch.save writes (.pt, .pth, .bin): reads them as tensors, and writes state dicts.
 * Private to src/ckpt, except ls_pt_verify.
 *
 * The file is a zip archive of one folder. data.pkl is a pickle, in which a tensor names its storage, offset,
 * sizes and strides; data/KEY contains the bytes of a storage. Before PyTorch 1.6 a file was several pickles
 * followed by the storages; such files are read too. */
#pragma once
#include "base/arena.h"
#include "base/str.h"
#include "ckpt/pickle.h"
#include "ckpt/zip.h"
#include "lockstep/weights.h"

bool ls_pt_is(const uint8_t *bytes, size_t size); /* judges by the first bytes */

/* The tensors, in the order of the state dict (docs/weights.md says which dict of a file that is). They and
 * their names are allocated in `arena`; their `data` point into the file `path`, whose `size` bytes are at
 * `bytes`. */
ls_status ls_pt_parse(ls_arena *arena, const uint8_t *bytes, size_t size, const char *path,
                      ls_weight **tensors, int64_t *count);

/* Compares every entry of the zip archive with its checksum. LS_E_UNSUPPORTED: the file is older than PyTorch
 * 1.6 and has none. */
ls_status ls_pt_verify(const char *path, int64_t *entries);

/* pt_write.c: an archive. The pickle of an OrderedDict of these tensors (whose `data` are not looked at);
 * tensor i is all of storage data/NUMBER, the number storages[i]. */
void ls_pt_pickle(ls_str *out, int64_t n, const ls_named_tensor *tensors, const int64_t *storages);
/* for one tensor alone, whose storage is data/0 */
void ls_pt_pickle_tensor(ls_str *out, const ls_type *type);
/* The records before the storages, in the order of PyTorch 2.7 and later. */
ls_status ls_pt_put_head(ls_zip_writer *z, const ls_str *pickle);
ls_status ls_pt_put_tail(ls_zip_writer *z); /* the record after the storages */

/* pt_file.c: the parts of a file. The bytes of storages lie inside the file. */
typedef struct ls_pt_storage {
    const char *key; /* `length` bytes */
    size_t length;
    uint64_t offset, bytes, elements;
} ls_pt_storage;

typedef struct ls_pt_file {
    const uint8_t *bytes;
    size_t size;
    const char *path;
    ls_pickle *root;
    size_t pickle_bytes;
    ls_pt_storage *storages; /* sorted by key */
    size_t count;
} ls_pt_file;

/* `f` has bytes, size and path. */
ls_status ls_pt_file_read(ls_pt_file *f, ls_arena *arena);

/* pt_names.c: the known globals, and what they mean here. Functions that make a tensor of another one come
 * after the role of what they may be given. */
typedef enum ls_pt_role {
    LS_PT_STORAGE,
    LS_PT_DTYPE,
    LS_PT_TENSOR,            /* (storage, first element, sizes, strides, ...) */
    LS_PT_TENSOR_WITH_DTYPE, /* the same, with the element type in argument 6 */
    LS_PT_MOVED,             /* (tensor, element type, device, requires_grad) */
    LS_PT_TYPED,             /* (function, class, its arguments, attributes) */
    LS_PT_PARAMETER,         /* (tensor, requires_grad, hooks[, attributes]) */
    LS_PT_REFUSED,           /* makes a tensor that cannot be read */
    LS_PT_CLASS,             /* a class of tensors: a value like any other, unless it is called */
    LS_PT_ARRAY,             /* makes an array of NumPy */
    LS_PT_OTHER              /* makes, or is, a value that is not a tensor */
} ls_pt_role;
typedef struct ls_pt_name {
    const char *global;
    ls_pt_role role;
    /* STORAGE and DTYPE: the element type, by its name in safetensors, or in PyTorch where safetensors has
     * none; NULL: none. REFUSED and CLASS: what the tensor is, and what to save instead */
    const char *stored;
    int bits;        /* STORAGE and DTYPE: of an element in a file */
    int least, most; /* numbers of arguments that a function has */
} ls_pt_name;
const ls_pt_name *ls_pt_name_find(const char *global); /* NULL: not known */
/* What to save instead of an object with this unknown global; NULL: nothing is known of it. */
const char *ls_pt_advice(const char *global);
/* The ls_dtype of a STORAGE or a DTYPE; -1: it has none. *stored: its name, as ls_weight has it. */
int ls_pt_element(const ls_pt_name *type, const char **stored);
const char *ls_pt_storage_global(const char *stored); /* "F32" -> "torch FloatStorage" */
const char *ls_pt_dtype_global(const char *stored);   /* "F32" -> "torch float32" */

/* Where a tensor's elements are: the storage that a PERSISTENT names. */
typedef struct ls_pt_place {
    const ls_pt_name *type;
    const ls_pt_storage *storage;
} ls_pt_place;
ls_status ls_pt_place_find(ls_pt_place *out, const ls_pt_file *f, const ls_pickle *persistent);
