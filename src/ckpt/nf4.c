/* nf4.c - weights of 4 bits in files: finds them, and reads their numbers. */
#include "ckpt/nf4.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/element.h"
#include "base/json.h"
#include "base/str.h"
#include "base/sys.h"
#include "ckpt/safetensors.h"
#include "ckpt/weights_own.h"

#define STATE ".quant_state.bitsandbytes__"

enum { STATE_MOST = 4096 }; /* bytes of a quant_state */

/* What a quant_state says. */
typedef struct quant_state {
    const char *kind; /* "nf4" */
    int64_t block, nested_block;
    double offset;
    ls_type type;
} quant_state;

static ls_status bad(const ls_weight *t, const char *what)
{
    char shown[128];
    return ls_fail(LS_E_FORMAT, "%s: tensor \"%s\" %s: the file is damaged, or not of bitsandbytes", t->file,
                   ls_shown_name(shown, t->name), what);
}

static bool read_dims(ls_type *type, const json_t *shape)
{
    int64_t count = 1;
    type->ndim = (int)json_array_size(shape);
    if (!json_is_array(shape) || !type->ndim || json_array_size(shape) > LS_MAX_DIMS)
        return false;
    for (int d = 0; d < type->ndim; d++) {
        type->dims[d] = json_integer_value(json_array_get(shape, (size_t)d));
        if (type->dims[d] < 1 || type->dims[d] > ((int64_t)1 << 40) / count)
            return false;
        count *= type->dims[d];
    }
    return true;
}

/* `kind` is in the arena. */
static ls_status read_state(quant_state *q, ls_arena *a, const ls_weight *t)
{
    char text[STATE_MOST + 1];
    json_t *j = NULL;
    *q = (quant_state){ .type.dtype = LS_BF16 };
    if (!t->loadable || t->type.dtype != LS_U8 || t->bytes > STATE_MOST)
        return bad(t, "is not the state of a quantised weight");
    LS_TRY(ls_weight_read(t, LS_U8, text));
    if (ls_json_parse(&j, text, (size_t)t->bytes, t->name) != LS_OK)
        return bad(t, "is not the state of a quantised weight");
    const char *type = json_string_value(json_object_get(j, "dtype")),
               *kind = json_string_value(json_object_get(j, "quant_type"));
    q->kind = ls_arena_strdup(a, kind ? kind : "");
    q->block = json_integer_value(json_object_get(j, "blocksize"));
    q->nested_block = json_integer_value(json_object_get(j, "nested_blocksize"));
    q->offset = json_number_value(json_object_get(j, "nested_offset"));
    q->type.dtype = type && !strcmp(type, "float32")   ? LS_F32
                    : type && !strcmp(type, "float16") ? LS_F16
                                                       : LS_BF16;
    const bool fine = kind && read_dims(&q->type, json_object_get(j, "shape")) && isfinite(q->offset);
    json_decref(j);
    LS_TRY(ls_arena_status(a));
    return fine ? LS_OK : bad(t, "has no quant_type, shape or finite nested_offset");
}

static const ls_weight *part_of(const ls_weights *w, ls_arena *a, const char *name, const char *what)
{
    const char *all = ls_arena_printf(a, "%s.%s", name, what);
    return all ? ls_weights_find(w, all) : NULL;
}

static bool holds(const ls_weight *t, ls_dtype type, int64_t count)
{
    return t && t->loadable && t->type.dtype == type && ls_type_count(&t->type) == count;
}

/* Whether a table of values is ours, but for the last bit of its numbers: versions of torch round them. */
static ls_status same_map(bool *same, const ls_weight *t, const float *want, int64_t n)
{
    float have[LS_NF4_MAP];
    *same = holds(t, LS_F32, n);
    if (!*same)
        return LS_OK;
    LS_TRY(ls_weight_read(t, LS_F32, have));
    for (int64_t i = 0; i < n; i++)
        *same = *same && fabsf(have[i] - want[i]) <= 2e-7f * fabsf(want[i]);
    return LS_OK;
}

/* The scale of a block. *nested: number `*have` of the nested scales. */
static ls_status scale_of(float *scale, const struct ls_nf4_weight *q, int64_t block, float *nested,
                          int64_t *have)
{
    uint8_t byte;
    if (!q->nested)
        return ls_weight_read_range(q->scales, LS_F32, block, 1, scale);
    if (*have != block / LS_NF4_NESTED) {
        *have = block / LS_NF4_NESTED;
        LS_TRY(ls_weight_read_range(q->nested, LS_F32, *have, 1, nested));
    }
    LS_TRY(ls_weight_read_range(q->scales, LS_U8, block, 1, &byte));
    *scale = ls_nf4_scale(q->map, byte, *nested, q->offset);
    return LS_OK;
}

static void put(char *out, ls_dtype to, int64_t i, float x)
{
    if (to == LS_F32)
        memcpy(out + 4 * i, &x, sizeof x);
    else if (to == LS_BF16) {
        const uint16_t h = ls_to_bf16(x);
        memcpy(out + 2 * i, &h, sizeof h);
    } else
        ls_element_write(out + (size_t)i * ls_dtype_size(to), to, x);
}

static ls_status read_numbers(const struct ls_nf4_weight *q, ls_dtype to, int64_t first, int64_t n, void *out)
{
    uint8_t codes[LS_NF4_BLOCK / 2 + 1];
    float scale = 0, nested = 0;
    int64_t have = -1;
    for (int64_t done = 0, take; done < n; done += take) {
        const int64_t at = first + done, block = at / LS_NF4_BLOCK, left = (block + 1) * LS_NF4_BLOCK - at;
        take = n - done < left ? n - done : left;
        LS_TRY(scale_of(&scale, q, block, &nested, &have));
        LS_TRY(ls_weight_read_range(q->codes, LS_U8, at / 2, (at + take + 1) / 2 - at / 2, codes));
        for (int64_t k = 0; k < take; k++) {
            const unsigned byte = codes[(at + k) / 2 - at / 2];
            put(out, to, done + k, ls_nf4_numbers[(at + k) % 2 ? byte & 15 : byte >> 4] * scale);
        }
    }
    return LS_OK;
}

/* The tensor `of` becomes one of this type, made of its parts. */
static ls_status join(ls_weights *w, const ls_weight *of, const char *stored, bool loadable,
                      const ls_type *type, const struct ls_nf4_weight *q)
{
    struct ls_weight_parts *parts = LS_ARENA_NEW(&w->arena, struct ls_weight_parts);
    struct ls_nf4_weight *kept = ls_arena_dup(&w->arena, q, sizeof *q);
    ls_weight *raw = ls_arena_dup(&w->arena, of, sizeof *of), *to = &w->tensors[of - w->tensors];
    LS_TRY(ls_arena_status(&w->arena));
    kept->codes = raw;
    parts->nf4 = kept;
    parts->read = read_numbers;
    to->stored = stored;
    to->loadable = loadable;
    to->type = *type;
    to->bytes = (uint64_t)ls_type_bytes(type);
    to->data = NULL;
    to->strides = NULL;
    to->parts = parts;
    return LS_OK;
}

static const ls_weight *kept(ls_arena *a, const ls_weight *t)
{
    return t ? ls_arena_dup(a, t, sizeof *t) : NULL;
}

/* A weight of bitsandbytes; `state` is its tensor NAME.quant_state.bitsandbytes__TYPE. */
static ls_status join_foreign(ls_weights *w, const char *name, const ls_weight *state)
{
    quant_state q;
    struct ls_nf4_weight x = { 0 };
    bool same = false, same_nested = true;
    const ls_weight *codes = ls_weights_find(w, name), *nested = part_of(w, &w->arena, name, "nested_absmax");
    LS_TRY(read_state(&q, &w->arena, state));
    if (!codes)
        return bad(state, "has no weight beside it");
    const bool known = !strcmp(q.kind, "nf4") && q.block == LS_NF4_BLOCK &&
                       (!nested || q.nested_block == LS_NF4_NESTED);
    if (!known) {
        const char *stored = ls_arena_printf(&w->arena, "%s of bitsandbytes in blocks of %" PRId64, q.kind,
                                             q.block);
        return join(w, codes, stored, false, &q.type, &x);
    }
    const int64_t n = ls_type_count(&q.type), blocks = (n + LS_NF4_BLOCK - 1) / LS_NF4_BLOCK;
    x.scales = kept(&w->arena, part_of(w, &w->arena, name, "absmax"));
    x.nested = kept(&w->arena, nested);
    x.offset = (float)q.offset;
    ls_nf4_map(x.map);
    LS_TRY(same_map(&same, part_of(w, &w->arena, name, "quant_map"), ls_nf4_numbers, LS_NF4_CODES));
    if (nested)
        LS_TRY(same_map(&same_nested, part_of(w, &w->arena, name, "nested_quant_map"), x.map, LS_NF4_MAP));
    if (!holds(codes, LS_U8, (n + 1) / 2) || !holds(x.scales, nested ? LS_U8 : LS_F32, blocks) ||
        (nested && !holds(nested, LS_F32, ls_nf4_nested(blocks))))
        return bad(codes, "and its absmax do not have the sizes that its quant_state says");
    if (!same || !same_nested)
        return bad(codes, "has no quant_map, or another one than NF4's");
    return join(w, codes, "NF4", true, &q.type, &x);
}

/* A weight of a checkpoint; `offset` is its tensor NAME.nested_offset. */
static ls_status join_own(ls_weights *w, const char *name, const ls_weight *offset)
{
    struct ls_nf4_weight x = { 0 };
    const ls_weight *codes = ls_weights_find(w, name);
    if (!codes || codes->type.ndim != 2 || codes->type.dims[1] > INT64_MAX / 2 || !holds(offset, LS_F32, 1))
        return bad(offset, "has no weight of 4 bits beside it");
    const ls_type type = LS_TYPE(LS_BF16, codes->type.dims[0], 2 * codes->type.dims[1]);
    const int64_t blocks = ls_type_count(&type) / LS_NF4_BLOCK;
    x.scales = kept(&w->arena, part_of(w, &w->arena, name, "absmax"));
    x.nested = kept(&w->arena, part_of(w, &w->arena, name, "nested_absmax"));
    if (!holds(codes, LS_U8, ls_type_count(&codes->type)) || type.dims[1] % LS_NF4_BLOCK ||
        !holds(x.scales, LS_U8, blocks) || !holds(x.nested, LS_F32, ls_nf4_nested(blocks)))
        return bad(codes, "and its scales do not have sizes that fit");
    LS_TRY(ls_weight_read(offset, LS_F32, &x.offset));
    ls_nf4_map(x.map);
    return join(w, codes, "NF4", true, &type, &x);
}

static bool is_joined(const ls_weights *w, ls_arena *a, const char *part, size_t n)
{
    const char *name = ls_arena_printf(a, "%.*s", (int)n, part);
    const ls_weight *t = name ? ls_weights_find(w, name) : NULL;
    return t && t->parts && t->parts->nf4;
}

/* Leaves out the tensors that were joined to others. */
static ls_status leave_out(ls_weights *w)
{
    static const char *const ENDS[] = { ".absmax",        ".quant_map",        ".nested_absmax",
                                        ".nested_offset", ".nested_quant_map", STATE };
    bool *out = LS_ARENA_ARRAY(&w->arena, bool, w->count + 1);
    LS_TRY(ls_arena_status(&w->arena));
    for (int64_t i = 0; i < w->count; i++)
        for (size_t k = 0; k < sizeof ENDS / sizeof *ENDS && !out[i]; k++) {
            const char *name = w->tensors[i].name, *at = strstr(name, ENDS[k]);
            out[i] = at && (!at[strlen(ENDS[k])] || ENDS[k][strlen(ENDS[k]) - 1] == '_') &&
                     is_joined(w, &w->arena, name, (size_t)(at - name));
        }
    int64_t n = 0;
    for (int64_t i = 0; i < w->count; i++)
        if (!out[i])
            w->tensors[n++] = w->tensors[i];
    w->count = n;
    return ls_weights_index(w);
}

ls_status ls_nf4_join(ls_weights *w)
{
    bool any = false;
    for (int64_t i = 0; i < w->count; i++) {
        const ls_weight *t = &w->tensors[i];
        const char *state = strstr(t->name, STATE),
                   *own = ls_ends_with(t->name, ".nested_offset") ? strrchr(t->name, '.') : NULL;
        if (!state && !own)
            continue;
        const char *name = ls_arena_printf(&w->arena, "%.*s", (int)((state ? state : own) - t->name),
                                           t->name);
        LS_TRY(ls_arena_status(&w->arena));
        LS_TRY(state ? join_foreign(w, name, t) : join_own(w, name, t));
        any = true;
    }
    return any ? leave_out(w) : LS_OK;
}
