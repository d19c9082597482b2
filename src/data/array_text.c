/* array_text.c - a column of texts in a table, as an array of token ids. */
#include "data/array_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/find.h"
#include "base/sys.h"
#include "data/array_csv.h"
#include "data/array_room.h"
#include "data/source_hash.h"
#include "data/text_words.h"
#include "lockstep/graph.h"
#include "text/text.h"

typedef struct writer {
    const ls_array_tokens *as;
    const char *classes; /* of words */
    bool pair;
    ls_tokenizer *tokenizer;
    ls_tokens ids;
    ls_text_ranges at;
    int32_t *out; /* [rows, as->length], of pairs [rows, 2, as->length] */
    int64_t rows, room, cut;
    const char *path;
} writer;

/* The special tokens of a pair. */
static int special_of(const ls_tokenizer *t)
{
    int n = 0;
    for (int i = 0; i < t->n_pair; i++)
        n += t->pair[i].what == LS_PAIR_TOKEN;
    return n;
}

static ls_status make_room(writer *w)
{
    if (w->rows < w->room)
        return LS_OK;
    const int64_t room = w->room ? 2 * w->room : 1024;
    const size_t bytes = (size_t)(room * w->as->length * (w->pair ? 2 : 1)) * sizeof *w->out;
    LS_TRY(ls_array_room(bytes, w->path));
    int32_t *more = ls_sys_realloc(w->out, bytes);
    if (!more)
        return ls_fail(LS_E_MEMORY, "%s: no memory for the tokens of %lld texts", w->path, (long long)room);
    w->out = more;
    w->room = room;
    return LS_OK;
}

/* Cuts the row to its length, or fills it up. The special tokens at the end stay. */
static void put_row(writer *w, const int32_t *from, int64_t have, int32_t fill)
{
    const int64_t most = w->as->length, behind = w->tokenizer->n_after, kept = have < most ? have : most;
    int32_t *to = w->out + w->rows++ * most;
    memcpy(to, from, (size_t)kept * sizeof *to);
    if (have > most)
        memcpy(to + most - behind, from + have - behind, (size_t)behind * sizeof *to);
    for (int64_t i = kept; i < most; i++)
        to[i] = fill;
    w->cut += have > most;
}

static ls_status check_pad(const writer *w)
{
    for (int64_t i = 0; i < w->ids.n; i++)
        if (w->ids.ids[i] == w->as->pad)
            return ls_fail(LS_E_FORMAT,
                           "the text has the token %s, which stands for \"no token\": take it out",
                           ls_tokenizer_token(w->tokenizer, w->as->pad));
    return LS_OK;
}

static ls_status write_ids(void *context, const ls_str *text)
{
    writer *w = context;
    LS_TRY(make_room(w));
    w->ids.n = 0;
    LS_TRY(ls_tokenizer_encode(w->tokenizer, ls_str_text(text), text->len, true, &w->ids));
    LS_TRY(check_pad(w));
    put_row(w, w->ids.ids, w->ids.n, w->as->pad);
    return LS_OK;
}

/* How many tokens two texts keep that have room for `most` together: the longer one is cut, and both if each
 * is longer than half, as "longest_first" of Hugging Face's tokenizers does it. */
static void cut_longest(int64_t n[2], int64_t most)
{
    const int shorter = n[0] > n[1];
    if (n[0] + n[1] <= most)
        return;
    n[shorter] = n[shorter] < most / 2 ? n[shorter] : most / 2;
    n[!shorter] = most - n[shorter];
}

/* [2, length]: the ids of two texts with special tokens, then their token types. */
static ls_status write_pair(void *context, const ls_str *columns)
{
    writer *w = context;
    const ls_tokenizer *t = w->tokenizer;
    const int64_t length = w->as->length;
    int64_t n[2], at = 0;
    LS_TRY(make_room(w));
    w->ids.n = 0;
    LS_TRY(ls_tokenizer_encode(t, ls_str_text(&columns[0]), columns[0].len, false, &w->ids));
    n[0] = w->ids.n;
    LS_TRY(ls_tokenizer_encode(t, ls_str_text(&columns[1]), columns[1].len, false, &w->ids));
    n[1] = w->ids.n - n[0];
    LS_TRY(check_pad(w));
    const int32_t *const from[] = { w->ids.ids, w->ids.ids + n[0] };
    int32_t *ids = w->out + w->rows++ * 2 * length, *types = ids + length;
    cut_longest(n, length - special_of(t));
    w->cut += n[0] + n[1] < w->ids.n;
    for (int i = 0; i < t->n_pair; i++) {
        const ls_pair_part *p = &t->pair[i];
        const int second = p->what == LS_PAIR_SECOND;
        const int64_t count = p->what == LS_PAIR_TOKEN ? 1 : n[second];
        for (int64_t k = 0; k < count; k++, at++) {
            ids[at] = p->what == LS_PAIR_TOKEN ? p->id : from[second][k];
            types[at] = p->type;
        }
    }
    for (; at < length; at++) {
        ids[at] = w->as->pad;
        types[at] = 0;
    }
    return LS_OK;
}

/* The place of a word in "a,b,c"; -1: it is not there. */
static int32_t class_of(const char *classes, const char *word, size_t n)
{
    int32_t k = 0;
    for (const char *p = classes; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL, k++)
        if (!strncmp(p, word, n) && (!p[n] || p[n] == ','))
            return k;
    return -1;
}

static int64_t count_words(const char *text)
{
    int64_t count = 0;
    for (size_t at = 0, n; ls_next_word(text, &at, &n);)
        count++;
    return count;
}

/* The class of each word at its first token. */
static ls_status write_classes(void *context, const ls_str *columns)
{
    writer *w = context;
    const char *text = ls_str_text(&columns[0]), *classes = ls_str_text(&columns[1]);
    const int64_t words = count_words(text), named = count_words(classes);
    if (words != named)
        return ls_fail(LS_E_FORMAT, "%lld classes, and the text has %lld words", (long long)named,
                       (long long)words);
    LS_TRY(make_room(w));
    w->ids.n = w->at.n = 0;
    LS_TRY(ls_tokenizer_encode_ranges(w->tokenizer, text, columns[0].len, true, 0, NULL, &w->ids, &w->at));
    for (int64_t i = 0; i < w->ids.n; i++)
        w->ids.ids[i] = LS_IGNORE_LABEL;
    size_t word_end = 0, class_end = 0, n;
    for (int64_t k = 0; ls_next_word(text, &word_end, &n);) {
        const int64_t token = ls_word_token(&w->at, &k, word_end, n);
        const char *name = ls_next_word(classes, &class_end, &n);
        const int32_t class = class_of(w->classes, name, n);
        if (class < 0)
            return ls_fail(LS_E_FORMAT, "\"%.*s\" is not one of the classes %.256s", (int)n, name,
                           w->classes);
        if (token >= 0)
            w->ids.ids[token] = class;
    }
    put_row(w, w->ids.ids, w->ids.n, LS_IGNORE_LABEL);
    return LS_OK;
}

static ls_status hash_tokenizer(uint64_t *out, const char *tokenizer)
{
    char *file = NULL;
    if (!strcmp(tokenizer, "bytes"))
        return LS_OK;
    LS_TRY(ls_tokenizer_file(&file, tokenizer));
    char *cache = ls_cache_dir(), *dir = ls_path_join(cache, "inflated"), *known = ls_path_join(dir, "known");
    const ls_status s = file ? ls_source_hash(out, file, known) : LS_OK;
    free(known);
    free(dir);
    free(cache);
    free(file);
    return s;
}

static ls_status check(const writer *w)
{
    const ls_tokenizer *t = w->tokenizer;
    if (w->pair && !t->n_pair)
        return ls_fail(LS_E_USAGE,
                       "%s: the tokenizer %s does not say what a pair of texts becomes: it needs a "
                       "post-processor with a template of pairs",
                       w->path, w->as->tokenizer);
    const int special = w->pair ? special_of(t) : t->n_before + t->n_after;
    if (w->as->length <= special)
        return ls_fail(LS_E_USAGE, "%s: %lld tokens leave no room for a text beside %d special ones", w->path,
                       (long long)w->as->length, special);
    if (w->as->below && ls_tokenizer_size(t) > w->as->below)
        return ls_fail(LS_E_USAGE, "%s: the tokenizer %s has ids up to %d, and the model's vocabulary %lld",
                       w->path, w->as->tokenizer, ls_tokenizer_size(t) - 1, (long long)w->as->below);
    return ls_tokenizer_token(t, w->as->pad)
               ? LS_OK
               : ls_fail(LS_E_USAGE, "%s: the tokenizer %s has no token %d, with which texts are filled up",
                         w->path, w->as->tokenizer, w->as->pad);
}

ls_status ls_array_texts(ls_array_file *f, const char *path, const char *table, size_t n, int n_columns,
                         const char *const *columns, const ls_array_tokens *as)
{
    writer w = { .as = as, .path = path, .classes = f->classes, .pair = n_columns == 2 };
    const char *const words[] = { as->words, columns[0] };
    LS_TRY(ls_tokenizer_open(&w.tokenizer, as->tokenizer));
    ls_status s = check(&w);
    if (s == LS_OK)
        s = as->words ? ls_csv_texts(table, n, 2, words, path, write_classes, &w)
                      : ls_csv_texts(table, n, n_columns, columns, path, w.pair ? write_pair : write_ids, &w);
    if (s == LS_OK)
        s = hash_tokenizer(&f->tokenizer, as->tokenizer);
    f->heap = w.out;
    f->data = f->heap;
    f->type = w.pair ? LS_TYPE(LS_I32, w.rows, 2, as->length) : LS_TYPE(LS_I32, w.rows, as->length);
    f->cut = w.cut;
    free(w.ids.ids);
    free(w.at.at);
    ls_tokenizer_close(&w.tokenizer);
    return s;
}
