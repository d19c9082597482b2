/* export.c - weights from one file into another, tensor by tensor: what needs no change goes from the mapping to the new file, what does goes through
 * memory for the largest tensor. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/pt.h"
#include "base/sys.h"
#include "ckpt/safetensors.h"
#include "ckpt/zip.h"

typedef struct export {
    const ls_weights *from;
    const ls_weights_export_opts *o;
    const char *path;
    bool pt;
    int64_t n;
    ls_named_tensor *tensors; /* as they will be; no data */
    void *buffer;
    uint64_t done, total;
} export;

/* Names and types of what will be written; the buffer. */
static ls_status prepare(export *e)
{
    size_t largest = 1;
    for (int64_t i = 0; i < e->n; i++) {
        const ls_weight *t = ls_weights_at(e->from, i);
        ls_named_tensor *to = &e->tensors[i];
        if (!t->loadable)
            return ls_weight_read(t, LS_F32, NULL); /* it says why not */
        if (!e->pt && strcmp(t->name, "__metadata__") == 0)
            return ls_fail(LS_E_ARG, "%s: a tensor named __metadata__ cannot be written to a safetensors file: rename it", t->file);
        ls_type type = t->type;
        if (e->o->floats && ls_dtype_is_float(type.dtype))
            type.dtype = *e->o->floats;
        *to = (ls_named_tensor){ .name = t->name, .tensor = ls_tensor_of(NULL, &type) };
        e->total += ls_type_bytes(&type);
        if ((t->strides || type.dtype != t->type.dtype) && ls_type_bytes(&type) > largest)
            largest = ls_type_bytes(&type);
    }
    e->buffer = ls_sys_malloc(largest);
    return e->buffer ? LS_OK : ls_fail(LS_E_MEMORY, "%s: out of memory for a tensor of %zu bytes", e->path, largest);
}

/* A weight that f16 cannot hold must not become infinity behind the user's back. */
static ls_status check_range(const export *e, int64_t i)
{
    char shown[128];
    const uint16_t *x = e->buffer;
    for (int64_t k = 0; k < ls_type_count(&e->tensors[i].tensor.type); k++)
        if ((x[k] & 0x7fff) == 0x7c00)
            return ls_fail(LS_E_NUMERIC, "%s: element %" PRId64 " of tensor \"%s\" is beyond 65504, the largest number of f16: export as bf16 or f32",
                           ls_weights_at(e->from, i)->file, k, ls_shown_name(shown, e->tensors[i].name));
    return LS_OK;
}

/* The bytes of tensor `i` as they will be; they stay until the next call. */
static ls_status read_tensor(export *e, int64_t i, const void **data)
{
    const ls_weight *t = ls_weights_at(e->from, i);
    ls_dtype to = e->tensors[i].tensor.type.dtype;
    *data = t->data;
    if (t->strides || to != t->type.dtype) {
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
    ls_safetensors_begin(&header, e->n, e->tensors);
    ls_status s = ls_writer_put(w, header.data, header.len);
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

/* The records of a file of PyTorch 2.7 or later, in its order. */
static ls_status put_pt(export *e, ls_zip_writer *z)
{
    ls_str pickle = { 0 };
    ls_pt_pickle(&pickle, e->n, e->tensors);
    ls_status s = ls_zip_add(z, "data.pkl", pickle.data, pickle.len);
    ls_str_release(&pickle);
    LS_TRY(s);
    LS_TRY(ls_zip_add(z, ".format_version", "1", 1));
    LS_TRY(ls_zip_add(z, ".storage_alignment", "64", 2));
    LS_TRY(ls_zip_add(z, "byteorder", "little", 6));
    for (int64_t i = 0; i < e->n; i++) {
        char name[32];
        const void *data;
        snprintf(name, sizeof name, "data/%" PRId64, i);
        LS_TRY(read_tensor(e, i, &data));
        LS_TRY(ls_zip_add(z, name, data, ls_type_bytes(&e->tensors[i].tensor.type)));
        LS_TRY(advance(e, i));
    }
    return ls_zip_add(z, "version", "3\n", 2);
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

ls_status ls_weights_export_with(const ls_weights *w, const char *path, const ls_weights_export_opts *o)
{
    const char *end = strrchr(path, '.');
    bool pt = end && strcmp(end, ".pt") == 0;
    if (!pt && (!end || strcmp(end, ".safetensors") != 0))
        return ls_fail(LS_E_ARG, "%s: its name must end in .safetensors or .pt: that says what to write", path);
    if (o->floats && !ls_dtype_is_float(*o->floats))
        return ls_fail(LS_E_ARG, "%s: tensors of float types become a float type, not %s", path, ls_dtype_name(*o->floats));
    export e = { .from = w, .o = o, .path = path, .pt = pt, .n = ls_weights_count(w) };
    e.tensors = ls_sys_calloc((size_t)e.n + 1, sizeof *e.tensors);
    if (!e.tensors)
        return ls_fail(LS_E_MEMORY, "%s: out of memory for a list of %" PRId64 " tensors", path, e.n);
    ls_status s = prepare(&e);
    if (s == LS_OK)
        s = pt ? write_pt(&e) : write_safetensors(&e);
    free(e.buffer);
    free(e.tensors);
    return s;
}
