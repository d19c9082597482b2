/* safetensors.h - one safetensors file: 8 bytes little-endian header length, a JSON header, then the tensors'
 * bytes without holes. Private to src/ckpt: everybody else uses lockstep/weights.h, which puts several files
 * together. */
#pragma once
#include "base/arena.h"
#include "base/json.h"
#include "lockstep/weights.h"

/* The element type with this name in the format. type -1: it is known but cannot be loaded. False: the format
 * has no such name. */
bool ls_safetensors_dtype(const char *name, const char **stored, int *bits, int *type);
const char *ls_safetensors_name(ls_dtype t);

/* Reads and checks the header of file `path`, whose `size` bytes are at `bytes`. The tensors, in order of
 * offset, and their texts are allocated in `arena`; their `data` point into `bytes`. *metadata is the file's
 * `__metadata__` (a new reference) or NULL. */
ls_status ls_safetensors_parse(ls_arena *arena, const uint8_t *bytes, size_t size, const char *path,
                               ls_weight **tensors, int64_t *count, json_t **metadata);

/* Refuses names that a reader would refuse: LS_E_ARG, with `path`. */
ls_status ls_safetensors_names(const char *path, int64_t n, const ls_named_tensor *tensors);
/* The bytes before these tensors' data: length and header. Their `data` are not read. `key` (NULL: none): an
 * entry of __metadata__ with this value. */
void ls_safetensors_begin(ls_str *out, int64_t n, const ls_named_tensor *tensors, const char *key,
                          const char *value);

/* elements.c: elements `first` to `first + n` in row-major order, converted to type `to`. `out` has room for
 * n elements. LS_E_UNSUPPORTED or LS_E_SHAPE: the stored type cannot be loaded, or not as `to`. */
ls_status ls_weight_read_range(const ls_weight *t, ls_dtype to, int64_t first, int64_t n, void *out);
/* The stored type and `to` are both float types. */
bool ls_weight_convertible(const ls_weight *t, ls_dtype to);

/* Names come from outside, so they are shortened to a readable length, and control characters become '?'. */
const char *ls_shown_name(char buffer[128], const char *name);
/* "[64, 17, 128]" */
const char *ls_shown_dims(char buffer[192], const ls_type *t);
