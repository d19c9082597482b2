/* pair_set.c - samples of source and target from a file of tokens, in which pair i is the documents 2i and 2i
 * + 1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/field.h"
#include "base/sys.h"
#include "data/held_out.h"
#include "data/tokens.h"

enum { PAD = 0 }; /* behind a source, as T5's tokenizers have it */

typedef struct pair_set {
    ls_dataset set;
    ls_field fields[2];
    ls_token_store tokens;
    int64_t length[2]; /* of a sample: tokens of source and of target */
    int64_t *pair;     /* [set.n]: number of the pair in the file */
    char *source;
} pair_set;

/* The document of sample i. side 0: source, 1: target. */
static int64_t document_of(const pair_set *d, int64_t i, int side) { return 2 * d->pair[i] + side; }

/* The tokens of a document with its end token, and how many of them a sample has. */
static int64_t all_tokens(const pair_set *d, int64_t document)
{
    return d->tokens.ends[document] - ls_tokens_begin(&d->tokens, document);
}

static int64_t kept_tokens(const pair_set *d, int64_t i, int side)
{
    const int64_t n = all_tokens(d, document_of(d, i, side));
    return n < d->length[side] ? n : d->length[side];
}

static int64_t count_targets(const ls_dataset *set, int64_t i, int k)
{
    (void)k;
    return kept_tokens((const pair_set *)set, i, 1);
}

/* a document that is cut still ends in the end token */
static ls_status read_side(const pair_set *d, int64_t i, int side, int32_t fill, int32_t *to)
{
    const int64_t begin = ls_tokens_begin(&d->tokens, document_of(d, i, side)), n = kept_tokens(d, i, side);
    if (!ls_tokens_read(&d->tokens, begin, n, to))
        return ls_fail(LS_E_FORMAT,
                       "%s: an id between tokens %lld and %lld is not below %d: the file in the cache is "
                       "damaged; delete the folder tokens "
                       "of the cache",
                       d->source, (long long)begin, (long long)(begin + n), d->tokens.footer.vocabulary);
    to[n - 1] = d->tokens.footer.end;
    for (int64_t k = n; k < d->length[side]; k++)
        to[k] = fill;
    return LS_OK;
}

static ls_status read_pair(const ls_dataset *set, int64_t i, void *const *to)
{
    const pair_set *d = (const pair_set *)set;
    if (to[0])
        LS_TRY(read_side(d, i, 0, PAD, to[0]));
    return to[1] ? read_side(d, i, 1, LS_IGNORE_LABEL, to[1]) : LS_OK;
}

/* ---- opening */

/* Chooses the pairs of this split. */
static ls_status pair_set_choose(pair_set *d, ls_split split, const char *path, const ls_pairs_options *o)
{
    const int64_t n = d->tokens.footer.documents / 2;
    char *marks = ls_sys_calloc((size_t)n, 1);
    d->pair = ls_sys_malloc(sizeof *d->pair * (size_t)n);
    ls_status s = marks && d->pair ? LS_OK : ls_fail(LS_E_MEMORY, "no memory for %lld pairs", (long long)n);
    if (s == LS_OK && !*o->eval_path && !ls_mark_evaluation(marks, n, o->eval_fraction))
        s = ls_fail_field(LS_E_USAGE, "eval_fraction",
                          "%s is one pair, which cannot be divided: name a file for evaluation", path);
    const char wanted = split == LS_SPLIT_EVAL && !*o->eval_path;
    for (int64_t i = 0; i < n && s == LS_OK && (!o->samples || d->set.n < o->samples); i++) {
        d->pair[d->set.n] = i;
        d->set.n += marks[i] == wanted;
    }
    free(marks);
    return s;
}

/* Logs one line about the set and about how much was cut. */
static ls_status pair_set_describe(pair_set *d, const char *path, const char *tokenizer)
{
    int64_t tokens = 0, cut[2] = { 0 };
    for (int64_t i = 0; i < d->set.n; i++)
        for (int side = 0; side < 2; side++) {
            const int64_t n = all_tokens(d, document_of(d, i, side));
            tokens += n;
            cut[side] += n > d->length[side];
        }
    d->source = ls_sys_text(
        "%s (%lld of %lld pairs, %lld tokens; cut: %lld sources to %lld, %lld targets to %lld; "
        "tokenizer %s)",
        path, (long long)d->set.n, (long long)d->tokens.footer.documents / 2, (long long)tokens,
        (long long)cut[0], (long long)d->length[0], (long long)cut[1], (long long)d->length[1], tokenizer);
    if (!d->source)
        return ls_fail(LS_E_MEMORY, "no memory for a data set of pairs");
    d->set.source = d->source;
    const int64_t choice[] = { d->length[0], d->length[1],
                               (int64_t)ls_hash64(d->pair, sizeof *d->pair * (size_t)d->set.n) };
    d->set.digest = ls_tokens_digest(&d->tokens, choice, sizeof choice);
    d->set.parts = d->tokens.parts;
    d->set.n_parts = d->tokens.n_parts;
    return LS_OK;
}

static void pair_set_close(ls_dataset *set)
{
    pair_set *d = (pair_set *)set;
    ls_tokens_close(&d->tokens);
    free(d->pair);
    free(d->source);
    free(d);
}

static ls_status open_split(pair_set *d, ls_split split, const char *path, const char *tokenizer,
                            const ls_pairs_options *o)
{
    const ls_pair_names names = { o->source, o->target, o->prefix };
    const ls_text_options text = { LS_TEXT_DEFAULTS, .end_token = o->end_token, .threads = o->threads,
                                   .progress = o->progress, .context = o->context };
    LS_TRY(ls_tokens_open(&d->tokens, path, tokenizer, &names, NULL, &text));
    const ls_token_footer *f = &d->tokens.footer;
    d->set.end_token = &f->end;
    if (o->vocabulary && f->vocabulary > o->vocabulary)
        return ls_fail_field(LS_E_USAGE, "vocabulary",
                             "the tokenizer %s has ids up to %d, the model's vocabulary is %d: set it to %d",
                             tokenizer, f->vocabulary - 1, o->vocabulary, f->vocabulary);
    d->fields[0].below = d->fields[1].below = f->vocabulary;
    LS_TRY(pair_set_choose(d, split, path, o));
    return pair_set_describe(d, path, tokenizer);
}

static ls_status pair_set_check(const char *path, const char *tokenizer, const int64_t length[2],
                                const ls_pairs_options *o)
{
    if (!*path || !*tokenizer)
        return ls_fail(LS_E_USAGE, "pairs need a %s",
                       *path ? "tokenizer: a tokenizer.json or spiece.model, a folder with one, or `bytes`"
                             : "path: CSV files or JSON lines");
    if (!strcmp(o->source, o->target))
        return ls_fail_field(LS_E_USAGE, "target", "\"%s\" is the source, too: name two different columns",
                             o->target);
    for (int side = 0; side < 2; side++)
        if (length[side] < 2 || length[side] > 1 << 24)
            return ls_fail(LS_E_USAGE, "%s_length %lld is out of range: 2 to %d tokens are possible",
                           side ? "target" : "source", (long long)length[side], 1 << 24);
    return LS_OK;
}

ls_status ls_pairs_open_with(ls_dataset **out, ls_split split, const char *path, const char *tokenizer,
                             int64_t source_length, int64_t target_length, const ls_pairs_options *o)
{
    LS_ARG(out);
    LS_ARG(path);
    LS_ARG(tokenizer);
    LS_ARG_ENUM(ls_split, split, LS_SPLIT_EVAL);
    o = o ? o : &(const ls_pairs_options){ LS_PAIRS_DEFAULTS };
    const int64_t length[2] = { source_length, target_length };
    *out = NULL;
    LS_TRY(pair_set_check(path, tokenizer, length, o));
    pair_set *d = ls_sys_calloc(1, sizeof *d);
    if (!d)
        return ls_fail(LS_E_MEMORY, "no memory for a data set of pairs");
    memcpy(d->length, length, sizeof length);
    d->fields[0] = (ls_field){ .name = "ids", .type = LS_TYPE(LS_I32, source_length) };
    d->fields[1] = (ls_field){ .name = "targets", .type = LS_TYPE(LS_I32, target_length), .ignorable = true };
    d->set = (ls_dataset){ .name = "pairs",
                           .source = path,
                           .split = split,
                           .n_fields = 2,
                           .fields = d->fields,
                           .read = read_pair,
                           .count = count_targets,
                           .close = pair_set_close };
    ls_status s = open_split(d, split, split == LS_SPLIT_EVAL && *o->eval_path ? o->eval_path : path,
                             tokenizer, o);
    if (s != LS_OK)
        pair_set_close(&d->set);
    else
        *out = &d->set;
    return s;
}

ls_pairs_options ls_pairs_options_default(void) { return (ls_pairs_options){ LS_PAIRS_DEFAULTS }; }
