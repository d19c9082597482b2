/* adapter_weights.c - adapters as tensors: joins them with those of their base, merges them into its weights,
 * and names the base by a digest. Nothing is copied: a merged weight is computed when it is read. */
#include <stdlib.h>
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/stop.h"
#include "base/str.h"
#include "base/sys.h"
#include "ckpt/adapter.h"
#include "ckpt/element_digest.h"
#include "ckpt/elements.h"
#include "ckpt/parts.h"
#include "ckpt/safetensors.h"
#include "ckpt/select.h"
#include "ckpt/weights_own.h"

ls_status ls_weights_join(ls_weights *w, ls_weights **base)
{
    ls_weights *b = *base;
    int64_t n = w->count;
    ls_weight *all = LS_ARENA_ARRAY(&w->arena, ls_weight, w->count + b->count + 1);
    LS_TRY(ls_arena_status(&w->arena));
    memcpy(all, w->tensors, sizeof *all * (size_t)w->count);
    for (int64_t i = 0; i < b->count; i++)
        if (!ls_weights_find(w, b->tensors[i].name))
            all[n++] = b->tensors[i];
    w->tensors = all;
    w->count = w->room = n;
    w->base = b;
    *base = NULL;
    return ls_weights_index(w);
}

/* ---- merging */

static bool is_float_matrix(const ls_weight *t)
{
    return t && t->loadable && ls_dtype_is_float(t->type.dtype) && t->type.ndim == 2;
}

static ls_status misfit(const ls_weight *a, const char *what, const char *layer)
{
    char shown[128];
    return ls_fail(LS_E_SHAPE, "%s: the adapter of %s %s: it is of another model", a->file,
                   ls_shown_name(shown, layer), what);
}

/* Gives W of the adapter whose A this is the sum in place of its elements. */
static ls_status merge_layer(ls_weights *w, const ls_weight *a, double scale, bool transposed)
{
    ls_arena *arena = &w->arena;
    const int stem = (int)(strlen(a->name) - strlen(".lora_A.weight"));
    const char *layer = ls_arena_printf(arena, "%.*s", stem, a->name);
    const ls_weight *b = ls_weights_find(w, ls_arena_printf(arena, "%s.lora_B.weight", layer));
    ls_weight *to = (ls_weight *)(uintptr_t)ls_weights_find(w, ls_arena_printf(arena, "%s.weight", layer));
    LS_TRY(ls_arena_status(arena));
    if (!transposed && !strncmp(layer, "transformer.h.", 14)) /* a square one would fit either way */
        return ls_fail(LS_E_FORMAT,
                       "%s: %s: weights of GPT-2 are [in, out], and adapter_config.json does not say "
                       "\"fan_in_fan_out\": true, as PEFT writes it for them",
                       a->file, layer);
    if (!to || !b)
        return misfit(a, to ? "has no lora_B.weight" : "belongs to a layer that the base does not have",
                      layer);
    if (!is_float_matrix(a) || !is_float_matrix(b) || !is_float_matrix(to) ||
        a->type.dims[0] != b->type.dims[1] || a->type.dims[1] != to->type.dims[!transposed] ||
        b->type.dims[0] != to->type.dims[transposed])
        return misfit(a, "has other sizes than the layer", layer);
    struct ls_weight_sum *sum = LS_ARENA_NEW(arena, struct ls_weight_sum);
    struct ls_weight_parts *parts = LS_ARENA_NEW(arena, struct ls_weight_parts);
    ls_weight *three = LS_ARENA_ARRAY(arena, ls_weight, 3); /* (the list of tensors will move) */
    LS_TRY(ls_arena_status(arena));
    three[0] = *to;
    three[1] = *a;
    three[2] = *b;
    *sum = (struct ls_weight_sum){ &three[0], &three[1], &three[2], scale, transposed };
    *parts = (struct ls_weight_parts){ .sum = sum };
    to->parts = parts;
    to->data = NULL;
    to->strides = NULL;
    return LS_OK;
}

static const char *if_no_adapter(void *context, const char *name)
{
    (void)context;
    return ls_adapter_has(name) ? NULL : name;
}

ls_status ls_weights_merge(ls_weights *w, const ls_adapter *x)
{
    const double scale = x->alpha / (x->rslora ? sqrt((double)x->rank) : (double)x->rank);
    for (int64_t i = 0; i < w->count; i++) {
        const ls_weight *a = &w->tensors[i];
        if (!ls_adapter_has(a->name) || !strstr(a->name, ".lora_A."))
            continue;
        if (a->type.ndim != 2 || a->type.dims[0] != x->rank)
            return misfit(a, "has another rank than adapter_config.json or the recipe says", a->name);
        LS_TRY(merge_layer(w, a, scale, x->transposed));
    }
    return ls_weights_select(w, if_no_adapter, NULL);
}

/* ---- digests */

/* *data: elements first .. first + n - 1, which may be in `block`. */
static ls_status digest_read(const void **data, const ls_weight *t, int64_t first, int64_t n, uint8_t *block)
{
    LS_TRY(ls_stop_check("reading %s", t->file));
    *data = t->data ? (const uint8_t *)t->data + (size_t)first * ls_dtype_size(t->type.dtype) : NULL;
    if (*data && !t->strides)
        return LS_OK;
    *data = block;
    return ls_weight_read_range(t, t->type.dtype, first, n, block);
}

static ls_status digest_of(uint64_t *out, const ls_weight *t, uint8_t *block, int64_t most)
{
    const size_t size = t->loadable ? ls_dtype_size(t->type.dtype) : 1;
    uint64_t h = ls_hash64(t->name, strlen(t->name));
    h = ls_hash64_more(h, t->stored, strlen(t->stored));
    h = ls_hash64_more(h, t->type.dims, sizeof *t->type.dims * (size_t)t->type.ndim);
    const int64_t all = t->loadable && t->bytes ? ls_type_count(&t->type) : 0;
    for (int64_t first = 0, n; first < all; first += n) {
        const void *data = NULL;
        n = all - first < most ? all - first : most;
        LS_TRY(digest_read(&data, t, first, n, block));
        h = ls_hash64_more(h, data, (size_t)n * size);
    }
    *out = h;
    return LS_OK;
}

ls_status ls_weights_digest(uint64_t *out, const ls_weights *w, bool (*takes)(const void *, const char *),
                            const void *context)
{
    enum { BLOCK = 1 << 20 };
    uint8_t *block = ls_sys_malloc(BLOCK * 8);
    ls_status s = ls_sys_have(block);
    uint64_t all = 0;
    for (int64_t i = 0; i < w->count && s == LS_OK; i++) {
        uint64_t one = 0;
        if (takes && !takes(context, w->by_name[i]->name))
            continue;
        s = digest_of(&one, w->by_name[i], block, BLOCK);
        all = ls_hash64_more(all, &one, sizeof one);
    }
    free(block);
    *out = all;
    return s;
}

static ls_status element_digest(uint64_t *out, const ls_weights *w)
{
    enum { BLOCK = 1 << 20 };
    uint8_t *block = ls_sys_malloc(BLOCK * 8);
    ls_status s = ls_sys_have(block);
    *out = 0;
    for (int64_t i = 0; i < w->count && s == LS_OK; i++) {
        const ls_weight *t = w->by_name[i];
        const int64_t all = t->bytes ? ls_type_count(&t->type) : 0;
        if (!t->loadable)
            s = ls_fail(LS_E_UNSUPPORTED, "%s: tensor \"%s\" has type %s, and so no digest", t->file, t->name,
                        t->stored);
        for (int64_t first = 0, n; first < all && s == LS_OK; first += n) {
            const void *data = NULL;
            n = all - first < BLOCK ? all - first : BLOCK;
            s = digest_read(&data, t, first, n, block);
            if (s == LS_OK)
                *out += ls_element_digest(ls_element_seed(t->name, t->type.dtype), data,
                                          ls_dtype_size(t->type.dtype), first, n);
        }
    }
    free(block);
    return s;
}

/* A save counts the names that are in the files. */
ls_status ls_weights_element_digest(uint64_t *out, const char *path)
{
    ls_weights *w;
    LS_TRY(ls_weights_open(&w, path));
    ls_status s = ls_adapter_is(path) ? ls_adapter_name_for_peft(w) : LS_OK;
    if (s == LS_OK)
        s = element_digest(out, w);
    ls_weights_close(&w);
    return s;
}
