/* export.c - writes weights from one file to another, or to a DCP directory, tensor by tensor. A tensor that
 * needs no change is written from the mapping of its file; another goes through a buffer that is as large as
 * the largest tensor. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/dcp.h"
#include "ckpt/pt.h"
#include "base/argument.h"
#include "base/sys.h"
#include "ckpt/safetensors.h"
#include "ckpt/zip.h"

enum { MOST_DEPTH = 4 };

typedef struct export
{
    const ls_weights *from;
    const ls_weights_export_opts *o;
    const char *path;
    enum { SAFETENSORS, PT, DCP } format;
    const ls_dcp_optimizer *optimizer; /* DCP: the optimizer that is written too; NULL: none */
    int depth;                         /* DCP: words of the prefix, which begin `way` */
    ls_dcp_step way[MOST_DEPTH + 4];
    int64_t n;
    ls_named_tensor *tensors; /* names and types as they will be written; no data */
    int64_t *storage; /* number of each tensor's storage in a .pt file: that of the tensor's first name */
    void *buffer;
    uint64_t done, total;
}
export;

/* Whether a tensor's bytes in the file differ from what will be written. */
static bool must_be_read(const ls_weight *t, ls_dtype to)
{
    return t->strides || t->parts || to != t->type.dtype;
}

/* Sets names and types of what will be written, and allocates the buffer. */
static ls_status export_prepare(export *e)
{
    size_t largest = 1;
    for (int64_t i = 0; i < e->n; i++) {
        const ls_weight *t = ls_weights_at(e->from, i);
        ls_named_tensor *to = &e->tensors[i];
        if (!t->loadable)
            return ls_weight_read(t, LS_F32, NULL); /* (reports why it cannot be loaded) */
        if (e->format == SAFETENSORS && strcmp(t->name, "__metadata__") == 0)
            return ls_fail(
                LS_E_ARG,
                "%s: a tensor named __metadata__ cannot be written to a safetensors file: rename it",
                t->file);
        ls_type type = t->type;
        if (e->o->floats && ls_dtype_is_float(type.dtype))
            type.dtype = *e->o->floats;
        *to = (ls_named_tensor){ .name = t->name, .tensor = ls_tensor_of(NULL, &type) };
        e->total += ls_type_bytes(&type);
        if (must_be_read(t, type.dtype) && ls_type_bytes(&type) > largest)
            largest = ls_type_bytes(&type);
    }
    e->buffer = ls_sys_malloc(largest);
    return e->buffer ? LS_OK
                     : ls_fail(LS_E_MEMORY, "%s: out of memory for a tensor of %zu bytes", e->path, largest);
}

/* Fails if f16 cannot hold a weight, which would otherwise become infinity without notice. */
static ls_status check_range(const export *e, int64_t i)
{
    char shown[128];
    const uint16_t *x = e->buffer;
    for (int64_t k = 0; k < ls_type_count(&e->tensors[i].tensor.type); k++)
        if ((x[k] & 0x7fff) == 0x7c00)
            return ls_fail(
                LS_E_NUMERIC,
                "%s: element %" PRId64
                " of tensor \"%s\" is beyond 65504, the largest number of f16: export as bf16 or f32",
                ls_weights_at(e->from, i)->file, k, ls_shown_name(shown, e->tensors[i].name));
    return LS_OK;
}

static ls_status out_of_memory(const export *e)
{
    return ls_fail(LS_E_MEMORY, "%s: out of memory for a list of %" PRId64 " tensors", e->path, e->n);
}

/* The address of a tensor's elements, to tell whether two names are one tensor; NULL for an empty tensor. */
static uintptr_t place_of(const ls_weight *t)
{
    return !t->bytes ? (uintptr_t)t : t->data ? (uintptr_t)t->data : (uintptr_t)t->parts;
}

static int by_place(const void *a, const void *b)
{
    const ls_weight *x = *(const ls_weight *const *)a, *y = *(const ls_weight *const *)b;
    const uintptr_t p = place_of(x), q = place_of(y);
    return p != q ? (p < q ? -1 : 1) : (x > y) - (x < y);
}

static bool same_tensor(const ls_weight *a, const ls_weight *b)
{
    return a->strides == b->strides && a->stored == b->stored && ls_type_equal(&a->type, &b->type);
}

/* Finds names that share a tensor. */
static ls_status share_storages(export *e)
{
    const ls_weight **list = ls_sys_malloc(sizeof *list * (size_t)(e->n + 1)),
                    *all = ls_weights_at(e->from, 0);
    if (!list)
        return out_of_memory(e);
    for (int64_t i = 0; i < e->n; i++)
        list[i] = all + i;
    if (e->n > 1)
        qsort(list, (size_t)e->n, sizeof *list, by_place);
    for (int64_t i = 0; i < e->n; i++) {
        const int64_t at = list[i] - all;
        e->storage[at] = at;
        for (int64_t k = i - 1; k >= 0 && place_of(list[k]) == place_of(list[i]); k--)
            if (same_tensor(list[k], list[i]))
                e->storage[at] = e->storage[list[k] - all];
    }
    free(list);
    return LS_OK;
}

/* The bytes of tensor `i` as they will be written. They are valid until the next call. */
static ls_status read_tensor(export *e, int64_t i, const void **data)
{
    const ls_weight *t = ls_weights_at(e->from, i);
    ls_dtype to = e->tensors[i].tensor.type.dtype;
    *data = t->data;
    if (must_be_read(t, to)) {
        *data = e->buffer;
        LS_TRY(ls_weight_read(t, to, e->buffer));
        if (to == LS_F16 && t->type.dtype != LS_F16)
            LS_TRY(check_range(e, i));
    }
    return LS_OK;
}

static ls_status advance(export *e, int64_t i)
{
    e->done += ls_type_bytes(&e->tensors[i].tensor.type);
    if (e->o->progress && !e->o->progress(e->o->context, e->done, e->total))
        return ls_fail(LS_E_STOPPED, "%s: stopped on request, not written", e->path);
    return LS_OK;
}

static ls_status put_safetensors(export *e, ls_writer *w)
{
    ls_str header = { 0 };
    ls_safetensors_begin(&header, e->n, e->tensors, NULL, NULL);
    ls_status s = ls_str_status(&header);
    if (s == LS_OK)
        s = ls_writer_put(w, header.data, header.len);
    ls_str_release(&header);
    LS_TRY(s);
    for (int64_t i = 0; i < e->n; i++) {
        const void *data;
        LS_TRY(read_tensor(e, i, &data));
        LS_TRY(ls_writer_put(w, data, ls_type_bytes(&e->tensors[i].tensor.type)));
        LS_TRY(advance(e, i));
    }
    return LS_OK;
}

static ls_status write_safetensors(export *e)
{
    ls_writer w;
    LS_TRY(ls_writer_open(&w, e->path));
    ls_status s = put_safetensors(e, &w);
    if (s == LS_OK)
        return ls_writer_commit(&w);
    ls_writer_abort(&w);
    return s;
}

static ls_status put_pt(export *e, ls_zip_writer *z)
{
    ls_str pickle = { 0 };
    ls_pt_pickle(&pickle, e->n, e->tensors, e->storage);
    ls_status s = ls_pt_put_head(z, &pickle);
    ls_str_release(&pickle);
    LS_TRY(s);
    for (int64_t i = 0; i < e->n; i++) {
        char name[32];
        const void *data;
        snprintf(name, sizeof name, "data/%" PRId64, i);
        if (e->storage[i] == i) {
            LS_TRY(read_tensor(e, i, &data));
            LS_TRY(ls_zip_add(z, name, data, ls_type_bytes(&e->tensors[i].tensor.type)));
        }
        LS_TRY(advance(e, i));
    }
    return ls_pt_put_tail(z);
}

static ls_status write_pt(export *e)
{
    ls_zip_writer z;
    LS_TRY(ls_zip_create(&z, e->path, "archive"));
    ls_status s = put_pt(e, &z);
    if (s == LS_OK)
        return ls_zip_commit(&z);
    ls_zip_abort(&z);
    return s;
}

/* ---- a DCP directory */

/* Sets e->way to the words of the prefix. */
static ls_status split_prefix(export *e, const char *prefix)
{
    size_t n = strlen(prefix);
    n -= n && prefix[n - 1] == '.';
    for (size_t at = 0, end; at < n; at = end + 1) {
        end = at + strcspn(prefix + at, ".");
        char *word = e->depth < MOST_DEPTH && end > at && end <= n ? ls_sys_strndup(prefix + at, end - at)
                                                                   : NULL;
        if (!word)
            return ls_fail(LS_E_USAGE, "prefix %s: 1 to %d words with dots between them are possible, as app",
                           prefix, MOST_DEPTH);
        e->way[e->depth++].word = word;
    }
    return LS_OK;
}

/* Appends words to the prefix. The way is valid until the next call. */
static const ls_dcp_step *way_to(export *e, int n, const ls_dcp_step *words)
{
    memcpy(e->way + e->depth, words, sizeof *words * (size_t)n);
    return e->way;
}

static ls_status put_model(export *e, ls_dcp_writer *w)
{
    for (int64_t i = 0; i < e->n; i++) {
        const void *data;
        const ls_dcp_step words[] = { { .word = "model" }, { .word = e->tensors[i].name } };
        LS_TRY(read_tensor(e, i, &data));
        LS_TRY(ls_dcp_put_tensor(w, e->depth + 2, way_to(e, 2, words), &e->tensors[i].tensor.type, data));
        LS_TRY(advance(e, i));
    }
    return LS_OK;
}

/* AppState of PyTorch's tutorials names the optimizer otherwise than their other programs. */
static const char *optimizer_word(const export *e) { return e->depth ? "optim" : "optimizer"; }

static ls_status put_setting(export *e, ls_dcp_writer *w, int64_t group, const char *name,
                             const ls_str *pickle)
{
    const ls_dcp_step words[] = {
        { .word = optimizer_word(e) }, { .word = "param_groups" }, { .number = group }, { .word = name }
    };
    return ls_dcp_put_object(w, e->depth + 4, way_to(e, 4, words), pickle);
}

static void put_value(ls_str *out, const ls_dcp_setting *set)
{
    switch (set->kind) {
    case LS_DCP_NONE: ls_str_add(out, "N"); return;
    case LS_DCP_BOOL: ls_str_add(out, set->a != 0 ? "\x88" : "\x89"); return;
    case LS_DCP_FLOAT: ls_pickle_put_float(out, set->a); return;
    case LS_DCP_PAIR:
        ls_pickle_put_float(out, set->a);
        ls_pickle_put_float(out, set->b);
        ls_str_add(out, "\x86");
    }
}

static ls_status put_settings(export *e, const ls_dcp_settings *all, ls_dcp_writer *w, int64_t group,
                              const ls_str *names)
{
    ls_str value = { 0 };
    ls_status s = LS_OK;
    for (int i = 0; i < all->n && s == LS_OK; i++) {
        const ls_dcp_setting *set = &all->at[i];
        ls_str_clear(&value);
        put_value(&value, set);
        s = put_setting(e, w, group, set->name, &value);
    }
    ls_str_release(&value);
    return s == LS_OK ? put_setting(e, w, group, "params", names) : s;
}

static ls_status put_moment(export *e, ls_dcp_writer *w, const ls_dcp_step *words, const ls_weight *t)
{
    const ls_dcp_step *way = way_to(e, 4, words);
    if (!t->parts && !t->strides)
        return ls_dcp_put_tensor(w, e->depth + 4, way, &t->type, t->data);
    void *whole = ls_sys_malloc(ls_type_bytes(&t->type));
    ls_status s = whole ? ls_weight_read(t, t->type.dtype, whole)
                        : ls_fail(LS_E_MEMORY, "%s: out of memory for a tensor of %zu bytes", t->name,
                                  ls_type_bytes(&t->type));
    if (s == LS_OK)
        s = ls_dcp_put_tensor(w, e->depth + 4, way, &t->type, whole);
    free(whole);
    return s;
}

/* Writes the moments of parameter `name` and, if the optimizer counts them, its steps. *any: it has some. */
static ls_status put_state(export *e, ls_dcp_writer *w, const char *name, bool *any)
{
    static const char *const MOMENTS[] = { "exp_avg",        "exp_avg_sq", "momentum_buffer",
                                           "max_exp_avg_sq", "square_avg", "grad_avg",
                                           "acc_delta",      "exp_inf",    "sum" };
    const ls_dcp_optimizer *o = e->optimizer;
    ls_dcp_step words[] = {
        { .word = optimizer_word(e) }, { .word = "state" }, { .word = name }, { .word = "step" }
    };
    *any = false;
    for (size_t i = 0; i < sizeof MOMENTS / sizeof MOMENTS[0]; i++) {
        ls_str full = { 0 };
        ls_str_printf(&full, "%s.%s", MOMENTS[i], name);
        const ls_status s = ls_str_status(&full);
        const ls_weight *t = ls_weights_find(o->state, full.data);
        ls_str_release(&full);
        LS_TRY(s);
        if (!t)
            continue;
        words[3].word = MOMENTS[i];
        LS_TRY(put_moment(e, w, words, t));
        *any = true;
    }
    if (!*any || o->steps < 0)
        return LS_OK;
    words[3].word = "step"; /* PyTorch's counter is f32 */
    return ls_dcp_put_tensor(w, e->depth + 4, way_to(e, 4, words), &LS_SCALAR(LS_F32),
                             &(float){ (float)o->steps });
}

/* Writes the states of the parameters of a group, and then its settings as group `number`. *any: it has
 * parameters. */
static ls_status put_group(export *e, ls_dcp_writer *w, int64_t group, int64_t number, bool *any)
{
    const ls_dcp_optimizer *o = e->optimizer;
    ls_str names = { 0 };
    ls_status s = LS_OK;
    *any = false;
    ls_str_add(&names, "](");
    for (int64_t i = 0; i < e->n && s == LS_OK; i++) {
        const char *name = e->tensors[i].name;
        bool has_state = false;
        if (o->group_of && o->group_of(o->context, name) != group)
            continue;
        s = put_state(e, w, name, &has_state);
        if (has_state)
            ls_pickle_put_text(&names, name);
        *any = *any || has_state;
    }
    ls_str_add(&names, "e");
    if (s == LS_OK && (*any || o->n == 1))
        s = put_settings(e, &o->groups[group], w, number, &names);
    ls_str_release(&names);
    return s;
}

static ls_status put_optimizer(export *e, ls_dcp_writer *w)
{
    const ls_dcp_optimizer *o = e->optimizer;
    for (int64_t group = 0, number = 0; group < o->n; group++) {
        bool any;
        LS_TRY(put_group(e, w, group, number, &any));
        number += any;
    }
    return o->epoch < 0 ? LS_OK : ls_dcp_put_ended(w, o->epoch, o->last_step);
}

static ls_status write_dcp(export *e)
{
    ls_dcp_writer w;
    LS_TRY(ls_dcp_create(&w, e->path, e->o->ranks, e->o->replace));
    ls_status s = put_model(e, &w);
    if (s == LS_OK && e->optimizer)
        s = put_optimizer(e, &w);
    if (s == LS_OK)
        return ls_dcp_commit(&w);
    ls_dcp_abort(&w);
    return s;
}

/* ---- */

static ls_status export_run(export *e)
{
    if (e->o->floats && !ls_dtype_is_float(*e->o->floats))
        return ls_fail(LS_E_ARG, "%s: tensors of float types become a float type, not %s", e->path,
                       ls_dtype_name(*e->o->floats));
    e->n = ls_weights_count(e->from);
    e->tensors = ls_sys_calloc((size_t)e->n + 1, sizeof *e->tensors);
    e->storage = ls_sys_calloc((size_t)e->n + 1, sizeof *e->storage);
    ls_status s = e->tensors && e->storage ? share_storages(e) : out_of_memory(e);
    if (s == LS_OK)
        s = export_prepare(e);
    if (s == LS_OK)
        s = e->format == DCP ? write_dcp(e) : e->format == PT ? write_pt(e) : write_safetensors(e);
    free(e->buffer);
    free(e->storage);
    free(e->tensors);
    return s;
}

ls_status ls_weights_export_with(const ls_weights *w, const char *path, const ls_weights_export_opts *o)
{
    LS_ARG(w);
    LS_ARG(path);
    o = o ? o : &(const ls_weights_export_opts){ LS_WEIGHTS_EXPORT_DEFAULTS };
    const char *end = strrchr(path, '.');
    const size_t n = strlen(path);
    if (n > 0 && path[n - 1] == '/')
        return ls_dcp_export(w, NULL, NULL, path, o);
    if (!end || (strcmp(end, ".pt") != 0 && strcmp(end, ".safetensors") != 0))
        return ls_fail(LS_E_ARG,
                       "%s: its name must end in .safetensors, .pt or, for a directory of "
                       "torch.distributed.checkpoint, /: that says what to write",
                       path);
    return export_run(
        &(export){ .from = w, .o = o, .path = path, .format = strcmp(end, ".pt") == 0 ? PT : SAFETENSORS });
}

ls_status ls_dcp_export(const ls_weights *w, const ls_dcp_optimizer *optimizer, const char *prefix,
                        const char *dir, const ls_weights_export_opts *o)
{
    export e = { .from = w, .o = o, .path = dir, .format = DCP, .optimizer = optimizer };
    ls_status s = split_prefix(&e, prefix ? prefix : "");
    const int depth = e.depth;
    if (s == LS_OK)
        s = export_run(&e);
    for (int i = 0; i < depth; i++)
        free((char *)e.way[i].word);
    return s;
}

ls_weights_export_opts ls_weights_export_opts_default(void)
{
    return (ls_weights_export_opts){ LS_WEIGHTS_EXPORT_DEFAULTS };
}
