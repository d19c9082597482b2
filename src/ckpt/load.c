/* load.c - fills a model's tensors from weight files. All names, shapes and types are compared first, so that
 * one error lists everything that does not fit. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/c_locale.h"
#include "base/log.h"
#include "base/str.h"
#include "base/sys.h"
#include "base/thread_pool.h"
#include "ckpt/manifest.h"
#include "ckpt/nf4.h"
#include "ckpt/parts.h"
#include "ckpt/ranges.h"
#include "ckpt/safetensors.h"

/* One kind of difference: how many there are, and the first few in words. */
typedef struct misfits {
    const char *label;
    int64_t count;
    ls_str text;
} misfits;

#define SHOWN 4

static void misfit_add(misfits *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void misfit_add(misfits *m, const char *format, ...)
{
    if (m->count++ >= SHOWN)
        return;
    char line[700];
    va_list args;
    va_start(args, format);
    ls_vsnprintf(line, sizeof line, format, args);
    va_end(args);
    ls_str_printf(&m->text, "%s%s", m->text.len ? "; " : "", line);
}

static bool same_dims(const ls_type *a, const ls_type *b)
{
    return a->ndim == b->ndim && memcmp(a->dims, b->dims, sizeof a->dims[0] * (size_t)a->ndim) == 0;
}

static int compare_wanted(const void *a, const void *b)
{
    return strcmp((*(const ls_named_tensor *const *)a)->name, (*(const ls_named_tensor *const *)b)->name);
}

/* The wanted tensors sorted by name, to look up the file's tensors. */
static const ls_named_tensor **sorted(int64_t n, const ls_named_tensor *want)
{
    const ls_named_tensor **list = ls_sys_malloc(sizeof *list * (size_t)(n + 1));
    for (int64_t i = 0; list && i < n; i++)
        list[i] = &want[i];
    if (list && n > 1)
        qsort(list, (size_t)n, sizeof *list, compare_wanted);
    return list;
}

/* Some of what is wanted is not there, or more is there than is wanted, and that is fine: lists all of it, in
 * the run's log too. */
static void pass_over(const ls_weights *w, int64_t n, const ls_named_tensor *want, int64_t missing)
{
    const ls_named_tensor **list = sorted(n, want);
    const int64_t others = ls_weights_count(w) - (n - missing);
    char name[128], dims[192];
    if (missing)
        ls_log_info("%s: %" PRId64 " of the model's %" PRId64 " tensors are not there and stay as they are:",
                    ls_weights_at(w, 0)->file, missing, n);
    for (int64_t i = 0; i < n && missing; i++)
        if (!ls_weights_find(w, want[i].name))
            ls_log_info("  missing     %s %s", want[i].name, ls_shown_dims(dims, &want[i].tensor.type));
    if (others)
        ls_log_info("%s: %" PRId64 " tensors are not the model's and are passed over:",
                    ls_weights_at(w, 0)->file, others);
    for (int64_t i = 0; list && i < ls_weights_count(w) && others; i++) {
        const ls_weight *t = ls_weights_at(w, i);
        const ls_named_tensor key = { .name = t->name }, *wanted = &key;
        if (!bsearch(&wanted, list, (size_t)n, sizeof *list, compare_wanted))
            ls_log_info("  unexpected  %s %s", ls_shown_name(name, t->name), ls_shown_dims(dims, &t->type));
    }
    free(list);
}

static ls_status load_compare(const ls_weights *w, int64_t n, const ls_named_tensor *want,
                              const ls_weights_load_opts *o)
{
    enum { MISSING, UNEXPECTED, SHAPE, TYPE, KINDS };
    misfits kinds[KINDS] = { { .label = "missing" },
                             { .label = "unexpected" },
                             { .label = "of another shape" },
                             { .label = "of another type" } };
    char name[128], have_dims[192], want_dims[192];
    const ls_named_tensor **list = o->allow_unexpected ? NULL : sorted(n, want);
    if (!list && !o->allow_unexpected)
        return ls_fail(LS_E_MEMORY, "out of memory comparing %" PRId64 " tensors", n);
    for (int64_t i = 0; i < n; i++) {
        const ls_type *type = &want[i].tensor.type;
        const ls_weight *t = ls_weights_find(w, want[i].name);
        if (!t) {
            misfit_add(&kinds[MISSING], "%s %s", want[i].name, ls_shown_dims(want_dims, type));
            continue;
        }
        if (!same_dims(&t->type, type))
            misfit_add(&kinds[SHAPE], "%s is %s, wanted %s", ls_shown_name(name, t->name),
                       ls_shown_dims(have_dims, &t->type), ls_shown_dims(want_dims, type));
        if (!t->loadable ||
            (t->type.dtype != type->dtype && !(o->convert && ls_weight_convertible(t, type->dtype))))
            misfit_add(&kinds[TYPE], "%s is %s, wanted %s", ls_shown_name(name, t->name), t->stored,
                       ls_dtype_name(type->dtype));
    }
    if (!o->allow_unexpected) {
        for (int64_t i = 0; i < ls_weights_count(w); i++) {
            const ls_weight *t = ls_weights_at(w, i);
            ls_named_tensor key = { .name = t->name };
            const ls_named_tensor *wanted = &key;
            if (n == 0 || !bsearch(&wanted, list, (size_t)n, sizeof *list, compare_wanted))
                misfit_add(&kinds[UNEXPECTED], "%s %s", ls_shown_name(name, t->name),
                           ls_shown_dims(have_dims, &t->type));
        }
    }
    free(list);
    if (o->allow_missing && kinds[MISSING].count < n) {
        pass_over(w, n, want, kinds[MISSING].count);
        kinds[MISSING].count = 0;
    }

    ls_str text = { 0 };
    for (int k = 0; k < KINDS; k++) {
        if (kinds[k].count > 0)
            ls_str_printf(&text, "%s%" PRId64 " %s: %s%s", text.len ? " | " : "", kinds[k].count,
                          kinds[k].label, ls_str_text(&kinds[k].text), kinds[k].count > SHOWN ? "; ..." : "");
        ls_str_release(&kinds[k].text);
    }
    ls_status s = LS_OK;
    if (kinds[MISSING].count || kinds[UNEXPECTED].count || kinds[SHAPE].count || kinds[TYPE].count) {
        const ls_weight *any = ls_weights_at(w, 0);
        s = ls_fail(LS_E_SHAPE,
                    "%s does not fit the model (%" PRId64 " tensors in the file, %" PRId64
                    " wanted): %s. Use weights of this very configuration%s",
                    any ? any->file : "the weight file", ls_weights_count(w), n, text.data,
                    kinds[TYPE].count > 0 && !o->convert ? ", or ask for the types to be converted" : "");
    }
    ls_str_release(&text);
    return s;
}

ls_status ls_weights_load_with(const ls_weights *w, int64_t n, const ls_named_tensor *want,
                               const ls_weights_load_opts *o)
{
    LS_ARG(w);
    if (n < 0)
        return ls_fail(LS_E_ARG, "ls_weights_load_with: n is %lld: a number of tensors from 0 up is needed",
                       (long long)n);
    if (n)
        LS_ARG(want);
    for (int64_t i = 0; i < n; i++)
        LS_ARG_TYPE(want[i].tensor.type);
    o = o ? o : &(const ls_weights_load_opts){ LS_WEIGHTS_LOAD_DEFAULTS };
    LS_TRY(load_compare(w, n, want, o));
    if (o->check_only)
        return LS_OK;
    for (int64_t i = 0; i < n; i++)
        if (!ls_tensor_is_contiguous(&want[i].tensor) ||
            (!want[i].tensor.data && ls_type_count(&want[i].tensor.type) > 0))
            return ls_fail(LS_E_ARG, "tensor \"%s\" to be loaded is not contiguous or has no memory",
                           want[i].name);
    for (int64_t i = 0; i < n; i++) {
        const ls_weight *t = ls_weights_find(w, want[i].name);
        if (t) /* else it may be missing */
            LS_TRY(ls_weight_read(t, want[i].tensor.type.dtype, want[i].tensor.data));
    }
    return LS_OK;
}

/* Verifies elements `first` to `first + n`, wherever they lie. */
static ls_status prove(const ls_weight *t, ls_manifest *proof, int64_t first, int64_t n)
{
    const uint64_t size = ls_dtype_size(t->type.dtype);
    for (int64_t k = 0; t->parts && k < t->parts->n; k++) {
        int64_t count;
        const int64_t begin = ls_part_run(&t->parts->at[k], first, n, &count);
        if (count > 0)
            LS_TRY(prove(t->parts->at[k].tensor, proof, begin, count));
    }
    if (t->parts && t->parts->nf4) {
        const struct ls_nf4_weight *q = t->parts->nf4;
        const int64_t block = first / LS_NF4_BLOCK, end = (first + n + LS_NF4_BLOCK - 1) / LS_NF4_BLOCK;
        LS_TRY(prove(q->codes, proof, first / 2, (first + n + 1) / 2 - first / 2));
        LS_TRY(prove(q->scales, proof, block, end - block));
        if (q->nested)
            LS_TRY(prove(q->nested, proof, 0, ls_type_count(&q->nested->type)));
    }
    return t->parts ? LS_OK
                    : ls_manifest_prove(proof, t->file, (const uint8_t *)t->data - t->offset,
                                        t->offset + (uint64_t)first * size,
                                        t->offset + (uint64_t)(first + n) * size);
}

ls_status ls_ranges_bring(const ls_weights *w, const ls_tensor_list *l)
{
    for (int64_t i = 0; i < l->n; i++) {
        const ls_weight *t = ls_weights_find(w, l->tensors[i].name);
        ls_manifest *proof = t ? ls_weights_proof(w, t) : NULL;
        for (int64_t k = 0, run; proof && k < l->mine[i].count; k += run) {
            const int64_t first = ls_range_piece(&l->mine[i], k, &run);
            LS_TRY(prove(t, proof, first, run));
        }
    }
    return LS_OK;
}

typedef struct reading {
    const ls_weight *from;
    ls_dtype to;
    int64_t first, count;
    char *data;
} reading;

enum { READ_BLOCK = 1 << 16 }; /* elements of a task */

/* It cannot fail: `load_compare` has found that the tensor can be read. */
static void read_blocks(void *context, int64_t begin, int64_t end, int worker)
{
    const reading *r = context;
    const int64_t at = begin * READ_BLOCK, stop = end * READ_BLOCK < r->count ? end * READ_BLOCK : r->count;
    (void)worker;
    (void)ls_weight_read_range(r->from, r->to, r->first + at, stop - at,
                               r->data + (size_t)at * ls_dtype_size(r->to));
}

/* Copies a range on all cores, because converting, and the page faults of file and memory, take longer than
 * one core needs to read memory. A tensor in parts may refuse one of them, so the caller's thread reads
 * it. */
static ls_status read_range(const ls_weight *t, ls_dtype to, int64_t first, int64_t n, void *data,
                            int threads)
{
    reading r = { t, to, first, n, data };
    if (t->parts)
        return ls_weight_read_range(t, to, first, n, data);
    ls_parallel_for(threads, (n + READ_BLOCK - 1) / READ_BLOCK, read_blocks, &r);
    return LS_OK;
}

/* Elements at .. at + n - 1 of a range: verified, while their bytes are in the cache, read, and checked. */
static ls_status read_piece(const ls_weights *w, const ls_weight *t, const ls_tensor_list *l, int64_t i,
                            int64_t at, int64_t n, char *out, int threads)
{
    const ls_dtype to = l->tensors[i].tensor.type.dtype;
    const size_t size = ls_dtype_size(to);
    for (int64_t k = 0, run; k < n; k += run) {
        const int64_t first = ls_range_piece(&l->mine[i], at + k, &run);
        run = run < n - k ? run : n - k;
        if (ls_weights_proof(w, t))
            LS_TRY(prove(t, ls_weights_proof(w, t), first, run));
        LS_TRY(read_range(t, to, first, run, out + (size_t)k * size, threads));
    }
    const ls_status s = ls_ranges_finite(l, i, at, n, out);
    return s == LS_OK ? s : ls_fail(s, "%s: %s", t->file, ls_error_message());
}

/* ---- weights of 4 bits: the list has their tensors, and files may have ordinary numbers */

/* What to ask a file for: such a weight is one tensor of numbers. Free it; NULL: out of memory. */
static ls_named_tensor *asked(int64_t *n, const ls_weights *w, const ls_tensor_list *l)
{
    ls_named_tensor *want = ls_sys_malloc(sizeof *want * (size_t)(l->n + 1));
    ls_nf4_slots s;
    bool part;
    *n = 0;
    for (int64_t i = 0; want && i < l->n; i++) {
        const bool packed = ls_nf4_is(&s, &part, l, i);
        const ls_weight *t = packed ? ls_weights_find(w, l->tensors[i].name) : NULL;
        if (part)
            continue;
        want[*n] = l->tensors[i];
        if (packed)
            want[*n].tensor.type = s.whole;
        if (t &&
            ls_dtype_is_float(t->type.dtype)) /* any float type will do, also where nothing is converted */
            want[*n].tensor.type.dtype = t->type.dtype;
        ++*n;
    }
    return want;
}

static ls_status compare_list(const ls_weights *w, const ls_tensor_list *l, const ls_weights_load_opts *o)
{
    int64_t n;
    ls_named_tensor *want = asked(&n, w, l);
    const ls_status s = want ? load_compare(w, n, want, o) : ls_sys_have(want);
    free(want);
    return s;
}

typedef struct numbers {
    const ls_weights *w;
    const ls_weight *t;
    int threads;
} numbers;

static ls_status read_numbers(void *context, int64_t first, int64_t n, bool again, float *out)
{
    const numbers *x = context;
    if (ls_weights_proof(x->w, x->t) && !again)
        LS_TRY(prove(x->t, ls_weights_proof(x->w, x->t), first, n));
    return read_range(x->t, LS_F32, first, n, out, x->threads);
}

static ls_status load_packed(ls_pieces *p, const ls_weights *w, const ls_weight *t, const ls_tensor_list *l,
                             const ls_nf4_slots *slots)
{
    numbers x = { w, t, p->threads };
    const struct ls_nf4_weight *q = t->parts ? t->parts->nf4 : NULL;
    if (q && q->nested) {
        if (ls_weights_proof(w, t))
            LS_TRY(prove(t, ls_weights_proof(w, t), 0, ls_type_count(&t->type)));
        return ls_nf4_copy(p, l, slots, q);
    }
    const ls_status s = ls_nf4_quantize(p, l, slots, read_numbers, &x, p->threads);
    return s == LS_E_NUMERIC ? ls_fail(s, "%s: %s", t->file, ls_error_message()) : s;
}

static ls_status load_plain(ls_pieces *p, const ls_weights *w, const ls_weight *t, const ls_tensor_list *l,
                            int64_t i)
{
    const ls_range *r = &l->mine[i];
    const ls_dtype to = l->tensors[i].tensor.type.dtype;
    for (int64_t at = 0, n; at < r->count; at += n) {
        void *piece;
        n = ls_piece_length(p, r, to, at);
        LS_TRY(ls_piece_begin(p, r, to, at, n, &piece));
        LS_TRY(read_piece(w, t, l, i, at, n, piece, p->threads));
        LS_TRY(ls_piece_put(p, r, to, at, n, piece));
    }
    return LS_OK;
}

ls_status ls_ranges_load_by(ls_pieces *p, const ls_weights *w, const ls_tensor_list *l,
                            const ls_weights_load_opts *o)
{
    LS_TRY(compare_list(w, l, o));
    for (int64_t i = 0; i < l->n; i++) {
        const ls_weight *t = ls_weights_find(w, l->tensors[i].name);
        ls_nf4_slots slots;
        bool part;
        const bool packed = ls_nf4_is(&slots, &part, l, i);
        if (t && packed)
            LS_TRY(load_packed(p, w, t, l, &slots));
        else if (t && !part)
            LS_TRY(load_plain(p, w, t, l, i));
    }
    return LS_OK;
}

ls_status ls_ranges_load(const ls_weights *w, const ls_tensor_list *l, const ls_weights_load_opts *o)
{
    ls_pieces p;
    if (o->check_only)
        return compare_list(w, l, o);
    LS_TRY(ls_pieces_open(&p, l));
    return ls_pieces_close(&p, ls_ranges_load_by(&p, w, l, o));
}

ls_weights_load_opts ls_weights_load_opts_default(void)
{
    return (ls_weights_load_opts){ LS_WEIGHTS_LOAD_DEFAULTS };
}
