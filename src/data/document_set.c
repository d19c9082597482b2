/* document_set.c - samples of documents: windows of their stream, rows, or packed windows. */
#include "data/document_set.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/field.h"
#include "base/str.h"
#include "base/sys.h"
#include "data/held_out.h"
#include "data/pack.h"

enum { IDS, TARGETS, POSITIONS, FIELDS };

typedef struct document_set {
    ls_dataset set;
    ls_field fields[FIELDS];
    ls_token_store tokens;
    int64_t length; /* tokens of a sample */
    ls_pack_choice pack;
    bool predicts_end;
    int64_t documents; /* number of documents in this split */
    int64_t *document; /* [documents]: number of the document in the file */
    int64_t *first; /* [documents + 1]: windows: where each begins in the stream, and where the stream ends */
    /* Rows and packed: [pieces]. A piece is a document, or what too_long leaves of it: its first token in the
     * file, and how many the model reads. */
    int64_t pieces;
    int64_t *at;
    int32_t *size;
    ls_packing packing; /* packed: pieces of a window */
    char *source;
} document_set;

/* What became of documents that are longer than a sample, and of those without a target. */
typedef struct losses {
    int64_t longer, lost, bare;
} losses;

static ls_status document_set_damaged(const document_set *d, int64_t at)
{
    return ls_fail(LS_E_FORMAT,
                   "%s: an id between tokens %lld and %lld is not below %d: the file in the cache is "
                   "damaged; delete the folder tokens "
                   "of the cache",
                   d->set.source, (long long)at, (long long)(at + d->length), d->tokens.footer.vocabulary);
}

/* ---- tokens of the file as ids and targets */

/* Copies tokens [at, at + n) as targets. */
static bool read_targets(const document_set *d, int64_t at, int64_t n, int32_t *to)
{
    const uint8_t *is_target = d->tokens.targets;
    if (!ls_tokens_read(&d->tokens, at, n, to))
        return false;
    for (int64_t k = 0; k < n && is_target; k++)
        to[k] = is_target[at + k] ? to[k] : LS_IGNORE_LABEL;
    return true;
}

static int64_t count_targets(const document_set *d, int64_t at, int64_t n)
{
    const uint8_t *is_target = d->tokens.targets;
    int64_t count = is_target ? 0 : n;
    for (int64_t k = 0; k < n && is_target; k++)
        count += is_target[at + k] != 0;
    return count;
}

static void fill(int32_t *to, int64_t n, int32_t value)
{
    for (int64_t k = 0; k < n; k++)
        to[k] = value;
}

/* ---- windows: sample i is window i of the stream */

/* The document at position `at` of the stream. */
static int64_t document_set_find(const document_set *d, int64_t at)
{
    int64_t low = 0, high = d->documents;
    while (high - low > 1) {
        const int64_t mid = low + (high - low) / 2;
        *(d->first[mid] <= at ? &low : &high) = mid;
    }
    return low;
}

/* Positions [at, at + n) of the stream are tokens [from, from + *some) of the file, and further ones; k: the
 * document of position `at`. */
static int64_t in_file(const document_set *d, int64_t k, int64_t at, int64_t n, int64_t *some)
{
    const int64_t left = d->first[k + 1] - at;
    *some = left < n ? left : n;
    return ls_tokens_begin(&d->tokens, d->document[k]) + at - d->first[k];
}

static bool read_stream(const document_set *d, int64_t at, int64_t n, int32_t *to, bool targets)
{
    int64_t some;
    for (int64_t k = document_set_find(d, at); n > 0; k++, to += some, at += some, n -= some) {
        const int64_t from = in_file(d, k, at, n, &some);
        if (!(targets ? read_targets(d, from, some, to) : ls_tokens_read(&d->tokens, from, some, to)))
            return false;
    }
    return true;
}

/* Each token of the stream, except the first, follows in exactly one window. */
static int64_t window_tokens(const document_set *d, int64_t i)
{
    const int64_t left = d->first[d->documents] - 1 - i * d->length;
    return left < d->length ? left : d->length;
}

static int64_t window_count(const ls_dataset *set, int64_t i, int k)
{
    (void)k;
    const document_set *d = (const document_set *)set;
    int64_t at = i * d->length + 1, n = window_tokens(d, i), count = 0, some;
    if (!d->tokens.targets)
        return n;
    for (int64_t of = document_set_find(d, at); n > 0; of++, at += some, n -= some) {
        const int64_t from = in_file(d, of, at, n, &some);
        count += count_targets(d, from, some);
    }
    return count;
}

static ls_status read_window(const ls_dataset *set, int64_t i, void *const *to)
{
    const document_set *d = (const document_set *)set;
    const int64_t n = window_tokens(d, i), at = i * d->length, read = n < d->length ? n + 1 : n;
    int32_t *ids = to[IDS], *target = to[TARGETS];
    if ((target && !read_stream(d, at + 1, n, target, true)) ||
        (ids && !read_stream(d, at, read, ids, false)))
        return document_set_damaged(d, at);
    if (target) /* the last window may be shorter */
        fill(target + n, d->length - n, LS_IGNORE_LABEL);
    if (ids)
        fill(ids + read, d->length - read, d->tokens.footer.end);
    return LS_OK;
}

/* ---- pieces: a row each, or side by side in packed windows */

/* How many tokens behind the first of piece p are targets, but for those that the mask leaves out. */
static int64_t piece_targets(const document_set *d, int64_t p)
{
    return d->predicts_end ? d->size[p] : d->size[p] - 1;
}
static int64_t piece_count(const document_set *d, int64_t p)
{
    return count_targets(d, d->at[p] + 1, piece_targets(d, p));
}

/* Writes piece p at `at` of a sample; returns where it ends, -1 if the file is damaged. */
static int64_t put_piece(const document_set *d, int64_t p, void *const *to, int64_t at)
{
    const int64_t n = d->size[p], targets = piece_targets(d, p);
    int32_t *ids = to[IDS], *target = to[TARGETS], *position = d->pack ? to[POSITIONS] : NULL;
    if ((ids && !ls_tokens_read(&d->tokens, d->at[p], n, ids + at)) ||
        (target && !read_targets(d, d->at[p] + 1, targets, target + at)))
        return -1;
    if (target)
        fill(target + at + targets, n - targets, LS_IGNORE_LABEL);
    for (int32_t k = 0; k < n && position; k++)
        position[at + k] = k;
    return at + n;
}

/* Behind the pieces are end tokens, a document of their own, so no piece attends to them. */
static void put_padding(const document_set *d, void *const *to, int64_t at)
{
    const int64_t n = d->length - at;
    if (to[IDS])
        fill((int32_t *)to[IDS] + at, n, d->tokens.footer.end);
    if (to[TARGETS])
        fill((int32_t *)to[TARGETS] + at, n, LS_IGNORE_LABEL);
    for (int32_t k = 0; k < n && d->pack && to[POSITIONS]; k++)
        ((int32_t *)to[POSITIONS])[at + k] = k;
}

static ls_status read_row(const ls_dataset *set, int64_t i, void *const *to)
{
    const document_set *d = (const document_set *)set;
    const int64_t end = put_piece(d, i, to, 0);
    if (end < 0)
        return document_set_damaged(d, d->at[i]);
    put_padding(d, to, end);
    return LS_OK;
}

static int64_t row_count(const ls_dataset *set, int64_t i, int k)
{
    (void)k;
    return piece_count((const document_set *)set, i);
}

static ls_status read_packed(const ls_dataset *set, int64_t i, void *const *to)
{
    const document_set *d = (const document_set *)set;
    int64_t at = 0;
    for (int64_t k = d->packing.first[i]; k < d->packing.first[i + 1]; k++) {
        const int64_t end = put_piece(d, d->packing.item[k], to, at);
        if (end < 0)
            return document_set_damaged(d, d->at[d->packing.item[k]]);
        at = end;
    }
    put_padding(d, to, at);
    return LS_OK;
}

static int64_t packed_count(const ls_dataset *set, int64_t i, int k)
{
    (void)k;
    const document_set *d = (const document_set *)set;
    int64_t count = 0;
    for (int64_t p = d->packing.first[i]; p < d->packing.first[i + 1]; p++)
        count += piece_count(d, d->packing.item[p]);
    return count;
}

/* ---- the split */

/* Tokens of document k of the file without its end token. */
static int64_t document_tokens(const document_set *d, int64_t k)
{
    return d->tokens.ends[k] - ls_tokens_begin(&d->tokens, k) - 1;
}

/* The fewest tokens of a document that has a target. */
static int64_t fewest(const document_set *d) { return d->predicts_end ? 1 : 2; }

/* Chooses the documents of this split; unless they are windows, only those with a target. train_percentage
 * cuts the rows of the source, blank lines among them, and rounds as a percentage of Hugging Face's data sets
 * does: int(round(rows * percent / 100.0)), where a half goes to the even number. */
static ls_status choose(document_set *d, const char *path, const ls_text_options *o)
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
    const char wanted = d->set.split == LS_SPLIT_EVAL && !*o->eval_path;
    const int64_t rows = d->tokens.footer.rows, end = d->set.split == LS_SPLIT_TRAIN
                                                          ? llrint((double)rows * o->train_percentage / 100)
                                                          : rows;
    for (int64_t i = 0; i < n && s == LS_OK && d->tokens.rows[i] < end; i++) {
        d->document[d->documents] = i;
        d->documents += marks[i] == wanted &&
                        (d->pack == LS_PACK_STREAM || document_tokens(d, i) >= fewest(d));
    }
    free(marks);
    return s;
}

static ls_status lay_out_stream(document_set *d, const char *path)
{
    d->first = ls_sys_malloc(sizeof *d->first * (size_t)(d->documents + 1));
    if (!d->first)
        return ls_fail(LS_E_MEMORY, "no memory for %lld documents", (long long)d->documents);
    d->first[0] = 0;
    for (int64_t k = 0; k < d->documents; k++)
        d->first[k + 1] = d->first[k] + document_tokens(d, d->document[k]) + 1;
    const int64_t targets = d->first[d->documents] - 1;
    if (d->set.split == LS_SPLIT_TRAIN && targets < d->length)
        return ls_fail_field(LS_E_USAGE, "seq_length",
                             "%lld is more than the text has: the training documents of %s are %lld tokens",
                             (long long)d->length, path, (long long)targets + 1);
    d->set.n = (targets + d->length - 1) / d->length;
    d->set.read = read_window;
    d->set.count = window_count;
    return d->set.n ? LS_OK
                    : ls_fail(LS_E_USAGE,
                              "%s: the training documents have one token, which has no next token to "
                              "predict: give a longer text",
                              path);
}

/* Adds tokens [at, at + n) as a piece, if it has a target. */
static void add_piece(document_set *d, int64_t at, int64_t n, losses *l)
{
    d->at[d->pieces] = at;
    d->size[d->pieces] = (int32_t)n;
    if (n >= fewest(d) && piece_count(d, d->pieces))
        d->pieces++;
    else {
        l->bare += d->tokens.targets != NULL;
        l->lost += n;
    }
}

/* Makes pieces of the documents: a long one is cut, dropped or split. */
static ls_status cut(document_set *d, ls_too_long too_long, losses *l)
{
    int64_t most = 0;
    for (int64_t k = 0; k < d->documents; k++) {
        const int64_t n = document_tokens(d, d->document[k]);
        most += too_long == LS_TOO_LONG_SPLIT ? (n + d->length - 1) / d->length : 1;
    }
    d->at = ls_sys_malloc(sizeof *d->at * (size_t)(most + 1));
    d->size = ls_sys_malloc(sizeof *d->size * (size_t)(most + 1));
    if (!d->at || !d->size)
        return ls_fail(LS_E_MEMORY, "no memory for %lld documents", (long long)most);
    for (int64_t k = 0; k < d->documents; k++) {
        const int64_t begin = ls_tokens_begin(&d->tokens, d->document[k]),
                      n = document_tokens(d, d->document[k]);
        const bool longer = n > d->length;
        l->longer += longer;
        if (longer && too_long == LS_TOO_LONG_DROP) {
            l->lost += n;
            continue;
        }
        const int64_t kept = longer && too_long == LS_TOO_LONG_CUT ? d->length : n;
        l->lost += n - kept;
        for (int64_t at = 0; at < kept; at += d->length)
            add_piece(d, begin + at, kept - at < d->length ? kept - at : d->length, l);
    }
    return LS_OK;
}

static ls_status lay_out_pieces(document_set *d, const char *path, const ls_text_options *o, losses *l)
{
    LS_TRY(cut(d, o->too_long, l));
    d->set.n = d->pieces;
    d->set.read = read_row;
    d->set.count = row_count;
    if (!d->pieces)
        return l->longer && o->too_long == LS_TOO_LONG_DROP
                   ? ls_fail_field(LS_E_USAGE, "too_long",
                                   "every document of %s is longer than %lld tokens, and is dropped", path,
                                   (long long)d->length)
               : d->tokens.targets
                   ? ls_fail(LS_E_USAGE, "%s: no document has a target in its first %lld tokens", path,
                             (long long)d->length)
                   : ls_fail(LS_E_USAGE, "%s: no document%s has %s", path,
                             d->set.split == LS_SPLIT_TRAIN && o->train_percentage < 100
                                 ? " of its train_percentage"
                                 : "",
                             d->predicts_end ? "a token" : "two tokens");
    if (!d->pack)
        return LS_OK;
    LS_TRY(ls_packing_make(&d->packing, d->size, d->pieces, d->length));
    d->set.n = d->packing.windows;
    d->set.read = read_packed;
    d->set.count = packed_count;
    return LS_OK;
}

/* ---- opening */

static void document_set_close(ls_dataset *set)
{
    document_set *d = (document_set *)set;
    ls_tokens_close(&d->tokens);
    ls_packing_release(&d->packing);
    free(d->document);
    free(d->first);
    free(d->at);
    free(d->size);
    free(d->source);
    free(d);
}

static ls_status describe(document_set *d, const ls_document_set *of, const ls_text_options *o,
                          const losses *l)
{
    static const char *const BECAME[] = {
        [LS_TOO_LONG_CUT] = "cut", [LS_TOO_LONG_DROP] = "dropped", [LS_TOO_LONG_SPLIT] = "split"
    };
    const ls_token_footer *f = &d->tokens.footer;
    ls_str text = { 0 };
    ls_str_printf(&text, "%s (%lld of %lld documents, %lld tokens in all, tokenizer %s", of->path,
                  (long long)d->documents, (long long)f->documents, (long long)f->tokens, of->tokenizer);
    if (l->longer)
        ls_str_printf(&text, "; %lld longer than %lld tokens %s", (long long)l->longer, (long long)d->length,
                      BECAME[o->too_long]);
    if (l->bare)
        ls_str_printf(&text, "; %lld without a target left out", (long long)l->bare);
    if (l->lost)
        ls_str_printf(&text, ", %lld tokens lost", (long long)l->lost);
    if (d->pack == LS_PACK_DOCUMENTS) {
        double full = 0;
        for (int64_t p = 0; p < d->pieces; p++)
            full += d->size[p];
        ls_str_printf(&text, "; packed into %lld windows, %.1f%% full", (long long)d->set.n,
                      100 * full / (double)(d->set.n * d->length));
    }
    ls_str_add(&text, ")");
    const ls_status s = ls_str_status(&text);
    d->set.source = d->source = ls_str_take(&text);
    return s;
}

static ls_status open_documents(document_set *d, const ls_document_set *of, const ls_text_options *o)
{
    const ls_token_footer *f = &d->tokens.footer;
    losses l = { 0 };
    d->set.end_token = &f->end;
    if (o->vocabulary && f->vocabulary > o->vocabulary)
        return ls_fail_field(LS_E_USAGE, "vocabulary",
                             "the tokenizer %s has ids up to %d, the model's vocabulary is %d: set it to %d",
                             of->tokenizer, f->vocabulary - 1, o->vocabulary, f->vocabulary);
    LS_TRY(choose(d, of->path, o));
    LS_TRY(d->pack == LS_PACK_STREAM ? lay_out_stream(d, of->path) : lay_out_pieces(d, of->path, o, &l));
    LS_TRY(describe(d, of, o, &l));
    d->fields[IDS].below = d->fields[TARGETS].below = f->vocabulary;
    const int64_t layout[] = { d->length, (int64_t)d->pack | (int64_t)o->too_long << 8,
                               (int64_t)ls_hash64(d->document, sizeof *d->document * (size_t)d->documents) };
    d->set.digest = ls_tokens_digest(&d->tokens, layout, sizeof layout);
    d->set.parts = d->tokens.parts;
    d->set.n_parts = d->tokens.n_parts;
    return LS_OK;
}

ls_status ls_document_set_open(ls_dataset **out, ls_split split, ls_token_store *tokens,
                               const ls_document_set *of, const ls_text_options *o)
{
    document_set *d = ls_sys_calloc(1, sizeof *d);
    if (!d) {
        ls_tokens_close(tokens);
        return ls_fail(LS_E_MEMORY, "no memory for a text data set");
    }
    d->tokens = *tokens;
    *tokens = (ls_token_store){ 0 };
    d->length = of->length;
    d->pack = o->pack;
    d->predicts_end = of->predicts_end || o->pack == LS_PACK_DOCUMENTS;
    const ls_type type = LS_TYPE(LS_I32, d->length);
    d->fields[IDS] = (ls_field){ .name = "ids", .type = type };
    d->fields[TARGETS] = (ls_field){ .name = "targets", .type = type, .ignorable = true };
    d->fields[POSITIONS] = (ls_field){ .name = "positions", .type = type, .below = d->length };
    d->set = (ls_dataset){ .name = of->name,
                           .source = of->path,
                           .split = split,
                           .n_fields = d->pack == LS_PACK_DOCUMENTS ? FIELDS : POSITIONS,
                           .fields = d->fields,
                           .close = document_set_close };
    const ls_status s = open_documents(d, of, o);
    if (s != LS_OK)
        document_set_close(&d->set);
    else
        *out = &d->set;
    return s;
}
