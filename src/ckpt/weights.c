/* weights.c - open weights: it owns the mappings and everything parsed from them, and finds, renames and
 * leaves out tensors. */
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "ckpt/gguf.h"
#include "ckpt/elements.h"
#include "ckpt/pt.h"
#include "ckpt/safetensors.h"
#include "ckpt/select.h"
#include "ckpt/weights_own.h"

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const ls_weight *const *)a)->name, (*(const ls_weight *const *)b)->name);
}

ls_status ls_weights_index(ls_weights *w)
{
    w->by_name = LS_ARENA_ARRAY(&w->arena, const ls_weight *, w->count + 1);
    LS_TRY(ls_arena_status(&w->arena));
    for (int64_t i = 0; i < w->count; i++)
        w->by_name[i] = &w->tensors[i];
    if (w->count > 1)
        qsort(w->by_name, (size_t)w->count, sizeof *w->by_name, compare_names);
    for (int64_t i = 1; i < w->count; i++) {
        const ls_weight *a = w->by_name[i - 1], *b = w->by_name[i];
        char shown[128];
        if (strcmp(a->name, b->name) == 0 && a->file == b->file)
            return ls_fail(LS_E_FORMAT, "%s: two tensors are named \"%s\": rename one before saving", a->file,
                           ls_shown_name(shown, a->name));
        if (strcmp(a->name, b->name) == 0)
            return ls_fail(LS_E_FORMAT,
                           "tensor \"%s\" is both in %s and in %s: the shards are not of one model, or one "
                           "was saved twice",
                           ls_shown_name(shown, a->name), a->file, b->file);
    }
    return LS_OK;
}

ls_status ls_weights_add_file(ls_weights *w, const uint8_t *bytes, size_t size, const char *path)
{
    ls_weight *list = NULL;
    int64_t n = 0;
    json_t *metadata = NULL;
    const bool gguf = ls_gguf_is(bytes, size);
    if (gguf)
        LS_TRY(ls_gguf_parse(&w->arena, bytes, size, path, &list, &n, &metadata));
    else if (ls_pt_is(bytes, size))
        LS_TRY(ls_pt_parse(&w->arena, bytes, size, path, &list, &n));
    else if (ls_ends_with(path, ".pt") || ls_ends_with(path, ".pth"))
        return ls_fail(
            LS_E_FORMAT,
            "%s: does not begin like what torch.save writes: the file is damaged, or something else", path);
    else
        LS_TRY(ls_safetensors_parse(&w->arena, bytes, size, path, &list, &n, &metadata));
    if (w->files == 0) {
        w->metadata = metadata;
        w->gguf = gguf;
    } else {
        json_decref(metadata);
    }
    if (w->count == 0) {
        w->tensors = list;
        w->room = n;
    } else if (w->count + n > w->room) { /* grows by doubling, because there may be thousands of files */
        w->room = 2 * (w->count + n);
        ls_weight *all = LS_ARENA_ARRAY(&w->arena, ls_weight, w->room);
        LS_TRY(ls_arena_status(&w->arena));
        memcpy(all, w->tensors, sizeof *all * (size_t)w->count);
        w->tensors = all;
    }
    if (w->count && n)
        memcpy(w->tensors + w->count, list, sizeof *list * (size_t)n);
    w->count += n;
    w->files++;
    return LS_OK;
}

const json_t *ls_gguf_keys_of(const ls_weights *w) { return w->gguf ? w->metadata : NULL; }

void ls_weights_close(ls_weights **w)
{
    if (!w || !*w)
        return;
    ls_weights *x = *w;
    ls_weights_close(&x->base);
    for (int i = 0; i < x->mapped; i++)
        ls_file_unmap(&x->maps[i]);
    json_decref(x->metadata);
    ls_arena_release(&x->arena);
    free(x);
    *w = NULL;
}

int64_t ls_weights_count(const ls_weights *w)
{
    LS_ARG_OR(w, 0);
    return w->count;
}

const ls_weight *ls_weights_at(const ls_weights *w, int64_t i)
{
    LS_ARG_OR(w, NULL);
    return i >= 0 && i < w->count ? &w->tensors[i] : NULL;
}

const ls_weight *ls_weights_find(const ls_weights *w, const char *name)
{
    LS_ARG_OR(w, NULL);
    LS_ARG_OR(name, NULL);
    ls_weight key = { .name = name };
    const ls_weight *wanted = &key;
    if (w->count == 0)
        return NULL;
    const ls_weight **found = bsearch(&wanted, w->by_name, (size_t)w->count, sizeof *w->by_name,
                                      compare_names);
    return found ? *found : NULL;
}

ls_status ls_weights_add_name(ls_weights *w, const char *name, const char *of)
{
    LS_ARG(w);
    LS_ARG(name);
    LS_ARG(of);
    const ls_weight *t = ls_weights_find(w, of);
    char shown[128];
    if (!t || ls_weights_find(w, name))
        return ls_fail(LS_E_ARG, "ls_weights_add_name: %s \"%s\"",
                       t ? "there is a tensor named" : "there is no tensor",
                       ls_shown_name(shown, t ? name : of));
    ls_weight *all = LS_ARENA_ARRAY(&w->arena, ls_weight, w->count + 1);
    LS_TRY(ls_arena_status(&w->arena));
    memcpy(all, w->tensors, sizeof *all * (size_t)w->count);
    all[w->count] = *t;
    all[w->count++].name = ls_arena_strdup(&w->arena, name);
    w->tensors = all;
    w->room = w->count;
    return ls_weights_index(w);
}

void ls_weights_leave_out(ls_weights *w, const char *name, const char *of)
{
    LS_ARG_VOID(w);
    LS_ARG_VOID(name);
    const ls_weight *t = ls_weights_find(w, name), *same = of ? ls_weights_find(w, of) : NULL;
    if (!t || (of && !(same && ls_weight_equal(t, same))))
        return;
    const int64_t at = t - w->tensors;
    memmove(w->tensors + at, w->tensors + at + 1, sizeof *w->tensors * (size_t)(--w->count - at));
    for (int64_t i = 0; i < w->count; i++)
        w->by_name[i] = &w->tensors[i];
    qsort(w->by_name, (size_t)w->count, sizeof *w->by_name, compare_names);
}

ls_status ls_weights_select(ls_weights *w, ls_weight_namer name_of, void *context)
{
    int64_t n = 0;
    for (int64_t i = 0; i < w->count; i++) {
        const char *name = name_of(context, w->tensors[i].name);
        if (!name)
            continue;
        w->tensors[n] = w->tensors[i];
        w->tensors[n++].name = ls_arena_strdup(&w->arena, name);
    }
    w->count = n;
    return ls_weights_index(w);
}

int ls_weights_file_count(const ls_weights *w)
{
    LS_ARG_OR(w, 0);
    return w->files;
}

const char *ls_weights_metadata(const ls_weights *w, const char *key)
{
    LS_ARG_OR(w, NULL);
    LS_ARG_OR(key, NULL);
    return json_string_value(json_object_get(w->metadata, key));
}

void ls_weights_prove(ls_weights *w, ls_manifest *m)
{
    if (w)
        w->proof = m;
}

ls_manifest *ls_weights_proof(const ls_weights *w, const ls_weight *t)
{
    const ls_weight *of_base = w->base ? ls_weights_find(w->base, t->name) : NULL;
    return of_base && of_base->file == t->file ? NULL : w->proof; /* a digest proves the base */
}
