/* gguf_write.c - writes a GGUF file: tensor by tensor, a few rows at a time. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/sys.h"
#include "ckpt/gguf_own.h"
#include "ckpt/safetensors.h"

enum { ALIGNMENT = 32, CHUNK = 1 << 18 /* elements */ };
static const float LARGEST = 2e5f; /* whose scale f16 holds in every type of blocks */

static void put_number(ls_str *out, uint64_t x, int bytes)
{
    char b[8];
    for (int i = 0; i < bytes; i++)
        b[i] = (char)(x >> (8 * i));
    ls_str_add_n(out, b, (size_t)bytes);
}

static void put_text(ls_str *out, const char *text, size_t bytes)
{
    put_number(out, bytes, 8);
    ls_str_add_n(out, text, bytes);
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* ---- keys */

static void put_key(ls_gguf_keys *k, const char *key, uint32_t type)
{
    put_text(&k->text, key, strlen(key));
    put_number(&k->text, type, 4);
    k->n++;
}

void ls_gguf_u32(ls_gguf_keys *k, const char *key, uint32_t value)
{
    put_key(k, key, LS_GGUF_U32);
    put_number(&k->text, value, 4);
}

void ls_gguf_f32(ls_gguf_keys *k, const char *key, float value)
{
    put_key(k, key, LS_GGUF_F32);
    put_number(&k->text, bits_of(value), 4);
}

void ls_gguf_bool(ls_gguf_keys *k, const char *key, bool value)
{
    put_key(k, key, LS_GGUF_BOOL);
    put_number(&k->text, value, 1);
}

void ls_gguf_text(ls_gguf_keys *k, const char *key, const char *value)
{
    put_key(k, key, LS_GGUF_TEXT);
    put_text(&k->text, value, strlen(value));
}

void ls_gguf_array(ls_gguf_keys *k, const char *key, uint32_t type, uint64_t n)
{
    put_key(k, key, LS_GGUF_ARRAY);
    put_number(&k->text, type, 4);
    put_number(&k->text, n, 8);
}

void ls_gguf_item_text(ls_gguf_keys *k, const char *text, size_t bytes) { put_text(&k->text, text, bytes); }
void ls_gguf_item_i32(ls_gguf_keys *k, int32_t value) { put_number(&k->text, (uint32_t)value, 4); }
void ls_gguf_item_f32(ls_gguf_keys *k, float value) { put_number(&k->text, bits_of(value), 4); }

/* ---- tensors */

/* A tensor as a matrix [rows, columns] as it will be written. */
typedef struct matrix {
    int64_t rows, columns;
} matrix;

static matrix shape_of(const ls_gguf_tensor *t)
{
    const ls_type *type = &t->from->type;
    const int64_t first = type->dims[0], last = type->ndim > 1 ? type->dims[1] : 1;
    return t->change == LS_GGUF_TRANSPOSE ? (matrix){ last, first } : (matrix){ first, last };
}

int64_t ls_gguf_row(const ls_gguf_tensor *t)
{
    const matrix m = shape_of(t);
    return t->from->type.ndim > 1 ? m.columns : m.rows;
}

static uint64_t gguf_bytes_of(const ls_gguf_tensor *t)
{
    const matrix m = shape_of(t);
    return (uint64_t)(m.rows * m.columns) / (uint64_t)t->kind->block * (uint64_t)t->kind->bytes;
}

static uint64_t padded(uint64_t n) { return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static void put_head(ls_str *out, const ls_gguf_keys *keys, int64_t n, const ls_gguf_tensor *tensors)
{
    uint64_t at = 0;
    ls_str_add(out, "GGUF");
    put_number(out, 3, 4);
    put_number(out, (uint64_t)n, 8);
    put_number(out, keys->n, 8);
    ls_str_append(out, &keys->text);
    for (int64_t i = 0; i < n; i++) {
        const ls_gguf_tensor *t = &tensors[i];
        const matrix m = shape_of(t);
        put_text(out, t->name, strlen(t->name));
        put_number(out, (uint64_t)t->from->type.ndim, 4);
        if (t->from->type.ndim > 1)
            put_number(out, (uint64_t)m.columns, 8);
        put_number(out, (uint64_t)m.rows, 8);
        put_number(out, t->kind->id, 4);
        put_number(out, at, 8);
        at += padded(gguf_bytes_of(t));
    }
    while (out->len % ALIGNMENT && !out->no_memory)
        ls_str_add_n(out, "", 1);
}

typedef struct writing {
    ls_writer w;
    const char *path;
    const ls_weights_export_opts *o;
    float *values;   /* [CHUNK, or a row, or a tensor that is transposed, twice] */
    uint8_t *packed; /* [CHUNK or a row] of 4 bytes */
    uint64_t done, total;
} writing;

/* Row r of what is written is this row of the tensor. */
static int64_t source_row(const ls_gguf_tensor *t, int64_t rows, int64_t r)
{
    const int64_t head = rows / t->heads, in = r % head;
    return r - in + in / 2 + in % 2 * (head / 2);
}

/* Rows r .. r + n - 1 as they will be written. */
static ls_status gguf_read_rows(const ls_gguf_tensor *t, matrix m, int64_t r, int64_t n, float *out)
{
    if (t->change == LS_GGUF_TAKE_TURNS)
        for (int64_t i = 0; i < n; i++)
            LS_TRY(ls_weight_read_range(t->from, LS_F32, source_row(t, m.rows, r + i) * m.columns, m.columns,
                                        out + i * m.columns));
    else
        LS_TRY(ls_weight_read_range(t->from, LS_F32, r * m.columns, n * m.columns, out));
    for (int64_t i = 0; t->change == LS_GGUF_ADD_ONE && i < n * m.columns; i++)
        out[i] += 1;
    return LS_OK;
}

/* An infinity or a huge number would spoil its whole block, and f16 has no number beyond 65504. */
static ls_status check_values(const writing *w, const ls_gguf_tensor *t, const float *x, int64_t n)
{
    const float most = t->kind->block > 1 ? LARGEST : t->kind->dtype == LS_F16 ? 65504 : INFINITY;
    char shown[128];
    for (int64_t i = 0; i < n && t->kind->dtype != LS_F32; i++)
        if (isnan(x[i]) || fabsf(x[i]) > most)
            return ls_fail(LS_E_NUMERIC,
                           "%s: tensor \"%s\" has an element %g, which %s cannot hold: export as %s", w->path,
                           ls_shown_name(shown, t->from->name), (double)x[i], t->kind->name,
                           isfinite(x[i]) ? "bf16 or f32" : "f32");
    return LS_OK;
}

static ls_status put_values(writing *w, const ls_gguf_tensor *t, const float *x, int64_t n)
{
    LS_TRY(check_values(w, t, x, n));
    const int64_t blocks = n / t->kind->block;
    for (int64_t i = 0; i < blocks; i++)
        t->kind->pack(x + i * t->kind->block, w->packed + i * t->kind->bytes);
    const size_t bytes = (size_t)blocks * (size_t)t->kind->bytes;
    LS_TRY(ls_writer_put(&w->w, w->packed, bytes));
    w->done += bytes;
    if (w->o->progress && !w->o->progress(w->o->context, w->done, w->total))
        return ls_fail(LS_E_STOPPED, "%s: stopped on request, not written", w->path);
    return LS_OK;
}

/* How many rows go through the buffers at once. */
static int64_t rows_at_once(matrix m) { return m.columns < CHUNK ? CHUNK / (m.columns ? m.columns : 1) : 1; }

static ls_status put_tensor(writing *w, const ls_gguf_tensor *t)
{
    static const char ZEROS[ALIGNMENT];
    const matrix m = shape_of(t);
    const bool turned = t->change == LS_GGUF_TRANSPOSE;
    float *whole = turned ? ls_sys_malloc(sizeof *whole * (size_t)(m.rows * m.columns + 1)) : NULL;
    ls_status s = turned ? ls_sys_have(whole) : LS_OK;
    if (s == LS_OK && turned)
        s = ls_weight_read(t->from, LS_F32, whole);
    for (int64_t r = 0, n; r < m.rows && s == LS_OK; r += n) {
        n = m.rows - r < rows_at_once(m) ? m.rows - r : rows_at_once(m);
        for (int64_t i = 0; turned && i < n * m.columns; i++)
            w->values[i] = whole[i % m.columns * m.rows + r + i / m.columns];
        if (!turned)
            s = gguf_read_rows(t, m, r, n, w->values);
        if (s == LS_OK)
            s = put_values(w, t, w->values, n * m.columns);
    }
    free(whole);
    LS_TRY(s);
    const uint64_t bytes = gguf_bytes_of(t);
    return ls_writer_put(&w->w, ZEROS, (size_t)(padded(bytes) - bytes));
}

static ls_status put_all(writing *w, const ls_gguf_keys *keys, int64_t n, const ls_gguf_tensor *tensors)
{
    ls_str head = { 0 };
    put_head(&head, keys, n, tensors);
    ls_status s = ls_str_status(&head);
    if (s == LS_OK)
        s = ls_writer_put(&w->w, head.data, head.len);
    ls_str_release(&head);
    for (int64_t i = 0; i < n && s == LS_OK; i++)
        s = put_tensor(w, &tensors[i]);
    return s;
}

ls_status ls_gguf_write(const char *path, const ls_gguf_keys *keys, int64_t n, const ls_gguf_tensor *tensors,
                        const ls_weights_export_opts *o)
{
    writing w = { .path = path, .o = o };
    int64_t most = CHUNK;
    for (int64_t i = 0; i < n; i++) {
        const matrix m = shape_of(&tensors[i]);
        most = m.columns > most ? m.columns : most;
        w.total += gguf_bytes_of(&tensors[i]);
    }
    w.values = ls_sys_malloc(sizeof *w.values * (size_t)most);
    w.packed = ls_sys_malloc(4 * (size_t)most);
    ls_status s = w.values && w.packed
                      ? ls_writer_open(&w.w, path)
                      : ls_fail(LS_E_MEMORY, "%s: out of memory for %lld elements", path, (long long)most);
    if (s == LS_OK) {
        s = put_all(&w, keys, n, tensors);
        if (s == LS_OK)
            s = ls_writer_commit(&w.w);
        else
            ls_writer_abort(&w.w);
    }
    free(w.values);
    free(w.packed);
    return s;
}
