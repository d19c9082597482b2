/* gguf.h - GGUF files, version 3, which llama.cpp reads: keys with values, a list of tensors, the tensors'
 * data. Numbers are little-endian. A file has
 *
 *     "GGUF", u32 version, u64 tensors, u64 keys
 *     keys:     text, u32 type, value               (a text is u64 bytes, the bytes)
 *     tensors:  text, u32 dimensions, u64 sizes (the last dimension first), u32 type, u64 offset in the data
 *     data:     begins, as each tensor does, at a multiple of `general.alignment` bytes, 32 by default
 *
 * Rows of a quantised tensor are divided into blocks of 32 or 256 elements; each block has scales. */
#pragma once
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "lockstep/weights.h"

/* A type of elements. */
typedef struct ls_gguf_kind {
    uint32_t id;
    const char *name;
    int block, bytes; /* elements of a block, and its bytes */
    int dtype;        /* ls_dtype; -1: none */
    /* Packs a block. NULL: this version does not write the type. */
    void (*pack)(const float *x, uint8_t *out);
} ls_gguf_kind;
const ls_gguf_kind *ls_gguf_kind_at(uint32_t id);         /* NULL: not known */
const ls_gguf_kind *ls_gguf_kind_named(const char *name); /* "Q8_0"; NULL: not known */

/* gguf_quants.c and gguf_kquants.c: one block each, with the bytes of ggml's reference functions. (Steps of a
 * group whose scale is 0 mean nothing, and may differ.) */
void ls_gguf_pack_q8_0(const float *x, uint8_t *out);
void ls_gguf_pack_q4_0(const float *x, uint8_t *out);
void ls_gguf_pack_q5_0(const float *x, uint8_t *out);
void ls_gguf_pack_q4_k(const float *x, uint8_t *out);
void ls_gguf_pack_q6_k(const float *x, uint8_t *out);

/* ---- writing */

/* The keys of a file, as its bytes. The text remembers that memory ran out. */
typedef struct ls_gguf_keys {
    ls_str text;
    uint64_t n;
} ls_gguf_keys;
enum {
    LS_GGUF_U32 = 4,
    LS_GGUF_I32 = 5,
    LS_GGUF_F32 = 6,
    LS_GGUF_BOOL = 7,
    LS_GGUF_TEXT = 8,
    LS_GGUF_ARRAY = 9
};
void ls_gguf_u32(ls_gguf_keys *k, const char *key, uint32_t value);
void ls_gguf_f32(ls_gguf_keys *k, const char *key, float value);
void ls_gguf_bool(ls_gguf_keys *k, const char *key, bool value);
void ls_gguf_text(ls_gguf_keys *k, const char *key, const char *value);
/* An array of n items of one type, which follow: ls_gguf_item_... */
void ls_gguf_array(ls_gguf_keys *k, const char *key, uint32_t type, uint64_t n);
void ls_gguf_item_text(ls_gguf_keys *k, const char *text, size_t bytes);
void ls_gguf_item_i32(ls_gguf_keys *k, int32_t value);
void ls_gguf_item_f32(ls_gguf_keys *k, float value);

/* What is done to a tensor on its way. */
typedef enum ls_gguf_change {
    LS_GGUF_AS_IS,
    /* Rows of a head: those of its two halves take turns, because llama.cpp rotates neighbours of a llama */
    LS_GGUF_TAKE_TURNS,
    LS_GGUF_TRANSPOSE, /* [in, out] to [out, in] */
    LS_GGUF_ADD_ONE    /* the file has w of a norm that multiplies by 1 + w */
} ls_gguf_change;
typedef struct ls_gguf_tensor {
    char name[64];
    const ls_weight *from; /* of a float type, 1 or 2 dimensions */
    const ls_gguf_kind *kind;
    ls_gguf_change change;
    int64_t heads; /* that the rows have; LS_GGUF_TAKE_TURNS */
} ls_gguf_tensor;
/* The elements of a row, which the block of `kind` must divide. */
int64_t ls_gguf_row(const ls_gguf_tensor *t);
/* Writes the file, complete or not at all; it holds one block of rows at a time in memory (of a tensor that
 * is transposed all of it). Of `o` it uses `progress`. LS_E_NUMERIC for an element that the type cannot hold,
 * LS_E_STOPPED. */
ls_status ls_gguf_write(const char *path, const ls_gguf_keys *keys, int64_t n, const ls_gguf_tensor *tensors,
                        const ls_weights_export_opts *o);

/* ---- reading */

bool ls_gguf_is(const uint8_t *bytes, size_t size); /* begins as a GGUF file does */
/* Reads and checks everything before the data. Tensors and texts are allocated in `arena`; their `data` point
 * into `bytes`. *keys: an object with a text for each key, in order (a new reference): of a long array the
 * number of its items and the first ones. LS_E_FORMAT, with path, place and numbers. */
ls_status ls_gguf_parse(ls_arena *arena, const uint8_t *bytes, size_t size, const char *path,
                        ls_weight **tensors, int64_t *count, json_t **keys);
const json_t *ls_gguf_keys_of(const ls_weights *w); /* these keys; NULL: the weights are of another format */
