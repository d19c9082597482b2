/* text_set.c - samples of text from a file of tokens: windows of the stream of all documents, or one document
 * a row. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/field.h"
#include "base/str.h"
#include "base/sys.h"
#include "data/held_out.h"
#include "data/tokens.h"

typedef struct text_set {
    ls_dataset set;
    ls_field fields[2];
    ls_token_store tokens;
    int64_t length;    /* tokens of a sample */
    int64_t documents; /* number of documents in this split */
    int64_t *document; /* [documents]: number of the document in the file */
    int64_t *first; /* [documents + 1]: packed: where each begins in the stream, and where the stream ends */
    char *source;
} text_set;

static ls_status text_set_damaged(const text_set *d, int64_t at)
{
    return ls_fail(LS_E_FORMAT,
                   "%s: an id between tokens %lld and %lld is not below %d: the file in the cache is "
                   "damaged; delete the folder tokens "
                   "of the cache",
                   d->set.source, (long long)at, (long long)(at + d->length), d->tokens.footer.vocabulary);
}

/* ---- packed: sample i is window i of the stream */

/* The document at position `at` of the stream. */
static int64_t text_set_find(const text_set *d, int64_t at)
{
    int64_t low = 0, high = d->documents;
    while (high - low > 1) {
        const int64_t mid = low + (high - low) / 2;
        *(d->first[mid] <= at ? &low : &high) = mid;
    }
    return low;
}

/* Copies positions [at, at + n) of the stream. */
static bool read_stream(const text_set *d, int64_t at, int64_t n, int32_t *to)
{
    for (int64_t k = text_set_find(d, at); n > 0; k++) {
        const int64_t left = d->first[k + 1] - at, some = left < n ? left : n;
        if (!ls_tokens_read(&d->tokens, ls_tokens_begin(&d->tokens, d->document[k]) + at - d->first[k], some,
                            to))
            return false;
        to += some;
        at += some;
        n -= some;
    }
    return true;
}

/* Each token of the stream, except the first, is a target in exactly one window. */
static int64_t window_tokens(const text_set *d, int64_t i)
{
    const int64_t left = d->first[d->documents] - 1 - i * d->length;
    return left < d->length ? left : d->length;
}

static int64_t window_count(const ls_dataset *set, int64_t i, int k)
{
    (void)k;
    return window_tokens((const text_set *)set, i);
}

static ls_status read_window(const ls_dataset *set, int64_t i, void *const *to)
{
    const text_set *d = (const text_set *)set;
    const int64_t n = window_tokens(d, i), at = i * d->length, read = n < d->length ? n + 1 : n;
    int32_t *ids = to[0], *target = to[1];
    if ((target && !read_stream(d, at + 1, n, target)) || (ids && !read_stream(d, at, read, ids)))
        return text_set_damaged(d, at);
    for (int64_t k = n; k < d->length && target; k++) /* the last window may be shorter */
        target[k] = LS_IGNORE_LABEL;
    for (int64_t k = read; k < d->length && ids; k++)
        ids[k] = d->tokens.footer.end;
    return LS_OK;
}

/* ---- one document a row */

/* How many tokens row i has: those of the document without its end token, as many as fit. */
static int64_t row_tokens(const text_set *d, int64_t i)
{
    const int64_t n = d->tokens.ends[d->document[i]] - ls_tokens_begin(&d->tokens, d->document[i]) - 1;
    return n < d->length ? n : d->length;
}

static int64_t row_count(const ls_dataset *set, int64_t i, int k)
{
    (void)k;
    return row_tokens((const text_set *)set, i) - 1;
}

static ls_status read_row(const ls_dataset *set, int64_t i, void *const *to)
{
    const text_set *d = (const text_set *)set;
    const int64_t n = row_tokens(d, i), begin = ls_tokens_begin(&d->tokens, d->document[i]);
    int32_t *ids = to[0], *target = to[1];
    if ((ids && !ls_tokens_read(&d->tokens, begin, n, ids)) ||
        (target && !ls_tokens_read(&d->tokens, begin + 1, n - 1, target)))
        return text_set_damaged(d, begin);
    for (int64_t k = n; k < d->length && ids; k++)
        ids[k] = d->tokens.footer.end;
    for (int64_t k = n - 1; k < d->length && target; k++)
        target[k] = LS_IGNORE_LABEL;
    return LS_OK;
}

/* ---- the split */

/* Chooses the documents of this split; with rows, only those with a target. train_percentage cuts the rows of
 * the source, blank lines among them, and rounds as a percentage of Hugging Face's data sets does:
 * int(round(rows * percent / 100.0)), where a half goes to the even number. */
static ls_status text_set_choose(text_set *d, ls_split split, const char *path, const ls_text_options *o)
{
    const int64_t n = d->tokens.footer.documents;
    char *marks = ls_sys_calloc((size_t)n, 1);
    d->document = ls_sys_malloc(sizeof *d->document * (size_t)n);
    ls_status s = marks && d->document ? LS_OK
                                       : ls_fail(LS_E_MEMORY, "no memory for %lld documents", (long long)n);
    if (s == LS_OK && !*o->eval_path && !ls_mark_evaluation(marks, n, o->eval_fraction))
        s = ls_fail_field(LS_E_USAGE, "eval_fraction",
                          "%s is one document, which cannot be divided: cut it with documents: blank or "
                          "line, or name a file for evaluation",
                          path);
    const char wanted = split == LS_SPLIT_EVAL && !*o->eval_path;
    const int64_t rows = d->tokens.footer.rows,
                  end = split == LS_SPLIT_TRAIN ? llrint((double)rows * o->train_percentage / 100) : rows;
    for (int64_t i = 0; i < n && s == LS_OK && d->tokens.rows[i] < end; i++) {
        d->document[d->documents] = i;
        d->documents += marks[i] == wanted && (o->pack || row_tokens(d, d->documents) > 1);
    }
    free(marks);
    return s;
}

static ls_status text_set_lay_out(text_set *d)
{
    d->first = ls_sys_malloc(sizeof *d->first * (size_t)(d->documents + 1));
    if (!d->first)
        return ls_fail(LS_E_MEMORY, "no memory for %lld documents", (long long)d->documents);
    d->first[0] = 0;
    for (int64_t k = 0; k < d->documents; k++)
        d->first[k + 1] = d->first[k] + d->tokens.ends[d->document[k]] -
                          ls_tokens_begin(&d->tokens, d->document[k]);
    return LS_OK;
}

/* Counts windows or rows. */
static ls_status cut(text_set *d, ls_split split, const char *path, const ls_text_options *o)
{
    ls_dataset *set = &d->set;
    if (!o->pack) {
        set->n = d->documents;
        set->read = read_row;
        set->count = row_count;
        return set->n
                   ? LS_OK
                   : ls_fail(LS_E_USAGE, "%s: no document%s has two tokens", path,
                             split == LS_SPLIT_TRAIN && o->train_percentage < 100 ? " of its train_percentage"
                                                                                  : "");
    }
    LS_TRY(text_set_lay_out(d));
    const int64_t targets = d->first[d->documents] - 1;
    if (split == LS_SPLIT_TRAIN && targets < d->length)
        return ls_fail_field(LS_E_USAGE, "seq_length",
                             "%lld is more than the text has: the training documents of %s are %lld tokens",
                             (long long)d->length, path, (long long)targets + 1);
    set->n = (targets + d->length - 1) / d->length;
    set->read = read_window;
    set->count = window_count;
    return set->n ? LS_OK
                  : ls_fail(LS_E_USAGE,
                            "%s: the training documents have one token, which has no next token to predict: "
                            "give a longer text",
                            path);
}

static void text_set_close(ls_dataset *set)
{
    text_set *d = (text_set *)set;
    ls_tokens_close(&d->tokens);
    free(d->document);
    free(d->first);
    free(d->source);
    free(d);
}

static ls_status open_split(text_set *d, ls_split split, const char *path, const char *tokenizer,
                            const ls_text_options *o)
{
    LS_TRY(ls_tokens_open(&d->tokens, path, tokenizer, NULL, o));
    const ls_token_footer *f = &d->tokens.footer;
    d->set.end_token = &f->end;
    if (o->vocabulary && f->vocabulary > o->vocabulary)
        return ls_fail_field(LS_E_USAGE, "vocabulary",
                             "the tokenizer %s has ids up to %d, the model's vocabulary is %d: set it to %d",
                             tokenizer, f->vocabulary - 1, o->vocabulary, f->vocabulary);
    LS_TRY(text_set_choose(d, split, path, o));
    LS_TRY(cut(d, split, path, o));
    d->source = ls_sys_text("%s (%lld of %lld documents, %lld tokens in all, tokenizer %s)", path,
                            (long long)d->documents, (long long)f->documents, (long long)f->tokens,
                            tokenizer);
    if (!d->source)
        return ls_fail(LS_E_MEMORY, "no memory for a text data set");
    d->set.source = d->source;
    d->fields[0].below = d->fields[1].below = f->vocabulary;
    const int64_t cut[] = { d->length, o->pack,
                            (int64_t)ls_hash64(d->document, sizeof *d->document * (size_t)d->documents) };
    d->set.digest = ls_tokens_digest(&d->tokens, cut, sizeof cut);
    d->set.parts = d->tokens.parts;
    d->set.n_parts = d->tokens.n_parts;
    return LS_OK;
}

ls_status ls_text_open_with(ls_dataset **out, ls_split split, const char *path, const char *tokenizer,
                            int64_t seq_length, const ls_text_options *o)
{
    LS_ARG(out);
    LS_ARG(path);
    LS_ARG(tokenizer);
    LS_ARG_ENUM(ls_split, split, LS_SPLIT_EVAL);
    o = o ? o : &(const ls_text_options){ LS_TEXT_DEFAULTS };
    LS_ARG_ENUM(ls_documents, o->documents, LS_DOCUMENTS_JSON);
    *out = NULL;
    if (!*path || !*tokenizer)
        return ls_fail(LS_E_USAGE, "text needs a %s",
                       *path ? "tokenizer: a tokenizer.json or spiece.model, a folder with one, or `bytes`"
                             : "path: text files");
    if (seq_length < 2 || seq_length > 1 << 24)
        return ls_fail_field(LS_E_USAGE, "seq_length", "%lld is out of range: 2 to %d tokens are possible",
                             (long long)seq_length, 1 << 24);
    if (!(o->train_percentage > 0 && o->train_percentage <= 100))
        return ls_fail(LS_E_ARG, "train_percentage: %g is not above 0 and at most 100", o->train_percentage);
    text_set *d = ls_sys_calloc(1, sizeof *d);
    if (!d)
        return ls_fail(LS_E_MEMORY, "no memory for a text data set");
    d->length = seq_length;
    const ls_type tokens = LS_TYPE(LS_I32, seq_length);
    d->fields[0] = (ls_field){ .name = "ids", .type = tokens };
    d->fields[1] = (ls_field){ .name = "targets", .type = tokens, .ignorable = true };
    d->set = (ls_dataset){ .name = "text",
                           .source = path,
                           .split = split,
                           .n_fields = 2,
                           .fields = d->fields,
                           .close = text_set_close };
    ls_status s = open_split(d, split, split == LS_SPLIT_EVAL && *o->eval_path ? o->eval_path : path,
                             tokenizer, o);
    if (s != LS_OK)
        text_set_close(&d->set);
    else
        *out = &d->set;
    return s;
}

ls_text_options ls_text_options_default(void) { return (ls_text_options){ LS_TEXT_DEFAULTS }; }
