/* array_words.c - the words of texts in a table, and the first token of each. */
#include "data/array_words.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/find.h"
#include "base/sys.h"
#include "data/array_csv.h"
#include "data/array_file.h"
#include "data/corpus.h"
#include "data/text_words.h"

typedef struct reader {
    ls_array_words *to;
    ls_tokenizer *tokenizer;
    int64_t tokens;
    ls_tokens ids;
    ls_text_ranges at;
} reader;

static ls_status add_text(void *context, const ls_str *columns)
{
    reader *r = context;
    ls_array_words *w = r->to;
    const char *text = ls_str_text(&columns[0]);
    const size_t before = w->texts.len;
    size_t end = 0, n;
    int64_t k = 0;
    r->ids.n = r->at.n = 0;
    LS_TRY(ls_tokenizer_encode_ranges(r->tokenizer, text, columns[0].len, true, 0, NULL, &r->ids, &r->at));
    int64_t behind = 0; /* special tokens at the end, which a text that is cut keeps */
    while (behind < r->at.n && r->at.at[r->at.n - 1 - behind].begin == r->at.at[r->at.n - 1 - behind].end)
        behind++;
    const int64_t kept = r->ids.n <= r->tokens ? r->ids.n : r->tokens - behind;
    ls_str_add(&w->texts, text);
    if (w->n > INT_MAX / 4)
        return ls_fail(LS_E_UNSUPPORTED, "more than %d words: predict for a part of the file", INT_MAX / 4);
    for (const char *word; (word = ls_next_word(text, &end, &n));) {
        ls_array_word *more = ls_sys_grow(w->words, w->n, &w->room[0], sizeof *more);
        LS_TRY(ls_sys_have(more));
        w->words = more;
        const int64_t token = ls_word_token(&r->at, &k, end, n);
        more[w->n++] = (ls_array_word){ before + (size_t)(word - text), n, token < kept ? token : -1 };
    }
    int64_t *first = ls_sys_grow(w->first, w->rows + 1, &w->room[1], sizeof *first);
    LS_TRY(ls_sys_have(first));
    w->first = first;
    first[++w->rows] = w->n;
    return ls_str_status(&w->texts);
}

static ls_status read_words(reader *r, const char *path, const char *column)
{
    ls_text_file text;
    LS_TRY(ls_text_file_open(&text, path));
    const ls_status s = ls_csv_texts(text.text, text.n, 1, &column, path, add_text, r);
    ls_text_file_close(&text);
    return s;
}

ls_status ls_array_words_open(ls_array_words *out, const char *file, const char *field, const char *tokenizer,
                              int64_t tokens)
{
    *out = (ls_array_words){ 0 };
    reader r = { .to = out, .tokens = tokens };
    const char *part = ls_array_file_part(file);
    char *name = ls_sys_strndup(file, (size_t)(part - file)), *path = NULL;
    ls_status s = ls_sys_have(name);
    if (s == LS_OK)
        s = ls_find(&path, name, ls_find_any);
    if (s == LS_OK)
        s = ls_tokenizer_open(&r.tokenizer, tokenizer);
    if (s == LS_OK) {
        out->first = ls_sys_grow(NULL, 0, &out->room[1], sizeof *out->first);
        s = ls_sys_have(out->first);
    }
    if (s == LS_OK) {
        out->first[0] = 0;
        s = read_words(&r, path ? path : name, *part ? part + 1 : field);
    }
    if (s != LS_OK)
        ls_array_words_close(out);
    free(r.ids.ids);
    free(r.at.at);
    ls_tokenizer_close(&r.tokenizer);
    free(path);
    free(name);
    return s;
}

void ls_array_words_close(ls_array_words *w)
{
    ls_str_release(&w->texts);
    free(w->words);
    free(w->first);
    *w = (ls_array_words){ 0 };
}
