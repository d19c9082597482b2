/* nf4_load.c - fills the tensors of a model's weight of 4 bits: from ordinary numbers, which are read some at
 * a time, so that no second copy of the model is made, or from the bytes of a file. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/sys.h"
#include "base/thread_pool.h"
#include "ckpt/nf4.h"

enum {
    HALF = LS_NF4_BLOCK / 2,
    CHUNK = 1 << 13 /* blocks that are read at a time */,
    ALONE = 64 /* blocks that take less time than waking a thread */
};

static const char *const ENDS[4] = { "", ".absmax", ".nested_absmax", ".nested_offset" };

bool ls_nf4_is(ls_nf4_slots *out, bool *part, const ls_tensor_list *l, int64_t i)
{
    const char *name = l->tensors[i].name;
    const ls_type *t = &l->tensors[i].tensor.type;
    const size_t n = ls_nf4_part(name);
    *part = false;
    if (n) { /* its weight stands before it */
        for (int64_t k = i - 1; k >= 0 && k >= i - 3 && !*part; k--)
            *part = !strncmp(l->tensors[k].name, name, n) && !l->tensors[k].name[n] &&
                    l->tensors[k].tensor.type.dtype == LS_U8;
        return false;
    }
    if (t->dtype != LS_U8 || t->ndim != 2 || i + 3 >= l->n)
        return false;
    for (int k = 0; k < 4; k++) {
        const char *other = l->tensors[i + k].name;
        if (strncmp(other, name, strlen(name)) || strcmp(other + strlen(name), ENDS[k]))
            return false;
        out->at[k] = i + k;
    }
    out->whole = LS_TYPE(LS_F32, t->dims[0], 2 * t->dims[1]);
    return true;
}

/* Puts this rank's range of tensor i, which is whole at `from`. */
static ls_status put_whole(ls_pieces *p, const ls_tensor_list *l, int64_t i, const void *from)
{
    const ls_range *r = &l->mine[i];
    const ls_dtype d = l->tensors[i].tensor.type.dtype;
    const size_t size = ls_dtype_size(d);
    for (int64_t at = 0, n; at < r->count; at += n) {
        void *piece;
        n = ls_piece_length(p, r, d, at);
        LS_TRY(ls_piece_begin(p, r, d, at, n, &piece));
        for (int64_t k = 0, run; k < n; k += run) {
            const int64_t first = ls_range_piece(r, at + k, &run);
            run = run < n - k ? run : n - k;
            memcpy((char *)piece + (size_t)k * size, (const char *)from + (size_t)first * size,
                   (size_t)run * size);
        }
        LS_TRY(ls_piece_put(p, r, d, at, n, piece));
    }
    return LS_OK;
}

typedef struct job {
    const float *x; /* whole blocks */
    float *scales;
    uint8_t *codes; /* NULL: only scales are wanted */
} job;

static void quantize_blocks(void *context, int64_t begin, int64_t end, int worker)
{
    const job *j = context;
    (void)worker;
    for (int64_t b = begin; b < end; b++) {
        j->scales[b] = ls_nf4_largest(j->x + b * LS_NF4_BLOCK);
        if (j->codes)
            ls_nf4_codes(j->codes + b * HALF, j->x + b * LS_NF4_BLOCK, j->scales[b]);
    }
}

typedef struct quantizing {
    ls_pieces *p;
    const ls_tensor_list *l;
    const ls_nf4_slots *s;
    ls_nf4_reader read;
    void *context;
    int threads;
    float *x;       /* [CHUNK * LS_NF4_BLOCK] */
    uint8_t *codes; /* [CHUNK * HALF] */
    float *scales;  /* [blocks], then their nested ones and the offset */
    uint8_t *bytes; /* [blocks] */
} quantizing;

/* Blocks first .. first + n - 1, at most CHUNK of them. */
static ls_status read_blocks(quantizing *q, int64_t first, int64_t n, bool again)
{
    LS_TRY(q->read(q->context, first * LS_NF4_BLOCK, n * LS_NF4_BLOCK, again, q->x));
    job j = { q->x, q->scales + first, again ? q->codes : NULL };
    ls_parallel_for(n < ALONE ? 1 : q->threads, n, quantize_blocks, &j);
    for (int64_t b = 0; b < n; b++)
        if (!isfinite(j.scales[b]))
            return ls_fail(LS_E_NUMERIC, "\"%s\" has a NaN or an infinity, in row %lld",
                           q->l->tensors[q->s->at[0]].name,
                           (long long)((first + b) * LS_NF4_BLOCK / q->s->whole.dims[1]));
    return LS_OK;
}

/* Bytes first .. first + n - 1 of the codes. */
static ls_status make_codes(quantizing *q, int64_t first, int64_t n, uint8_t *to)
{
    for (int64_t done = 0, take; done < n; done += take) {
        const int64_t block = (first + done) / HALF, skip = first + done - block * HALF,
                      blocks = (skip + n - done + HALF - 1) / HALF, now = blocks < CHUNK ? blocks : CHUNK;
        LS_TRY(read_blocks(q, block, now, true));
        take = now * HALF - skip < n - done ? now * HALF - skip : n - done;
        memcpy(to + done, q->codes + skip, (size_t)take);
    }
    return LS_OK;
}

static ls_status put_codes(quantizing *q)
{
    const ls_range *r = &q->l->mine[q->s->at[LS_NF4_CODES_AT]];
    for (int64_t at = 0, n; at < r->count; at += n) {
        void *piece;
        n = ls_piece_length(q->p, r, LS_U8, at);
        LS_TRY(ls_piece_begin(q->p, r, LS_U8, at, n, &piece));
        for (int64_t k = 0, run; k < n; k += run) {
            const int64_t first = ls_range_piece(r, at + k, &run);
            run = run < n - k ? run : n - k;
            LS_TRY(make_codes(q, first, run, (uint8_t *)piece + k));
        }
        LS_TRY(ls_piece_put(q->p, r, LS_U8, at, n, piece));
    }
    return LS_OK;
}

static ls_status quantize_all(quantizing *q)
{
    const int64_t blocks = ls_type_count(&q->s->whole) / LS_NF4_BLOCK, nested = ls_nf4_nested(blocks);
    for (int64_t b = 0; b < blocks; b += CHUNK)
        LS_TRY(read_blocks(q, b, blocks - b < CHUNK ? blocks - b : CHUNK, false));
    float *more = q->scales + blocks;
    ls_nf4_scales(q->bytes, more, more + nested, q->scales, blocks);
    LS_TRY(put_whole(q->p, q->l, q->s->at[LS_NF4_BYTES_AT], q->bytes));
    LS_TRY(put_whole(q->p, q->l, q->s->at[LS_NF4_NESTED_AT], more));
    LS_TRY(put_whole(q->p, q->l, q->s->at[LS_NF4_OFFSET_AT], more + nested));
    return put_codes(q);
}

ls_status ls_nf4_quantize(ls_pieces *p, const ls_tensor_list *l, const ls_nf4_slots *s, ls_nf4_reader read,
                          void *context, int threads)
{
    const int64_t blocks = ls_type_count(&s->whole) / LS_NF4_BLOCK;
    const size_t floats = (size_t)(blocks + ls_nf4_nested(blocks) + 1);
    quantizing q = { .p = p,
                     .l = l,
                     .s = s,
                     .read = read,
                     .context = context,
                     .threads = threads,
                     .x = ls_sys_malloc(sizeof *q.x * CHUNK * LS_NF4_BLOCK),
                     .codes = ls_sys_malloc((size_t)CHUNK * HALF),
                     .scales = ls_sys_malloc(sizeof *q.scales * floats),
                     .bytes = ls_sys_malloc((size_t)blocks) };
    const ls_status have = q.x && q.codes && q.scales && q.bytes
                               ? LS_OK
                               : ls_fail(LS_E_MEMORY, "out of memory to quantise \"%s\"",
                                         l->tensors[s->at[0]].name);
    const ls_status done = have == LS_OK ? quantize_all(&q) : have;
    free(q.x);
    free(q.codes);
    free(q.scales);
    free(q.bytes);
    return done;
}

static ls_status copy_tensor(ls_pieces *p, const ls_tensor_list *l, int64_t i, const ls_weight *from)
{
    const ls_dtype d = l->tensors[i].tensor.type.dtype;
    void *all = ls_sys_malloc((size_t)from->bytes + 1);
    ls_status s = ls_sys_have(all);
    if (s == LS_OK)
        s = ls_weight_read(from, d, all);
    if (s == LS_OK)
        s = put_whole(p, l, i, all);
    free(all);
    return s;
}

ls_status ls_nf4_copy(ls_pieces *p, const ls_tensor_list *l, const ls_nf4_slots *s,
                      const struct ls_nf4_weight *from)
{
    LS_TRY(copy_tensor(p, l, s->at[LS_NF4_CODES_AT], from->codes));
    LS_TRY(copy_tensor(p, l, s->at[LS_NF4_BYTES_AT], from->scales));
    LS_TRY(copy_tensor(p, l, s->at[LS_NF4_NESTED_AT], from->nested));
    return put_whole(p, l, s->at[LS_NF4_OFFSET_AT], &from->offset);
}
