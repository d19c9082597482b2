/* array_text.c - a column of texts in a table, as an array of token ids. */
#include "data/array_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/find.h"
#include "base/sys.h"
#include "data/array_csv.h"
#include "data/array_room.h"
#include "data/source_hash.h"
#include "text/text.h"

typedef struct writer {
    const ls_array_tokens *as;
    ls_tokenizer *tokenizer;
    ls_tokens ids;
    int32_t *out; /* [rows, as->length] */
    int64_t rows, room, cut;
    const char *path;
} writer;

static ls_status write_row(void *context, const char *text, size_t n)
{
    writer *w = context;
    const int64_t most = w->as->length, behind = w->tokenizer->n_after;
    if (w->rows == w->room) {
        const int64_t room = w->room ? 2 * w->room : 1024;
        const size_t bytes = (size_t)(room * most) * sizeof *w->out;
        LS_TRY(ls_array_room(bytes, w->path));
        int32_t *more = ls_sys_realloc(w->out, bytes);
        if (!more)
            return ls_fail(LS_E_MEMORY, "%s: no memory for the tokens of %lld texts", w->path,
                           (long long)room);
        w->out = more;
        w->room = room;
    }
    w->ids.n = 0;
    LS_TRY(ls_tokenizer_encode(w->tokenizer, text, n, true, &w->ids));
    int32_t *to = w->out + w->rows * most;
    const int64_t have = w->ids.n, kept = have < most ? have : most;
    memcpy(to, w->ids.ids, (size_t)kept * sizeof *to);
    if (have > most) /* the special tokens at the end stay */
        memcpy(to + most - behind, w->ids.ids + have - behind, (size_t)behind * sizeof *to);
    for (int64_t i = kept; i < most; i++)
        to[i] = w->as->pad;
    for (int64_t i = 0; i < kept; i++)
        if (to[i] == w->as->pad)
            return ls_fail(LS_E_FORMAT,
                           "row %lld: a text has the token %s, which stands for \"no token\"; take it out",
                           (long long)w->rows, ls_tokenizer_token(w->tokenizer, w->as->pad));
    w->cut += have > most;
    w->rows++;
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
    if (w->as->length <= t->n_before + t->n_after)
        return ls_fail(LS_E_USAGE, "%s: %lld tokens leave no room for a text beside %d special ones", w->path,
                       (long long)w->as->length, t->n_before + t->n_after);
    if (w->as->below && ls_tokenizer_size(t) > w->as->below)
        return ls_fail(LS_E_USAGE, "%s: the tokenizer %s has ids up to %d, and the model's vocabulary %lld",
                       w->path, w->as->tokenizer, ls_tokenizer_size(t) - 1, (long long)w->as->below);
    return ls_tokenizer_token(t, w->as->pad)
               ? LS_OK
               : ls_fail(LS_E_USAGE, "%s: the tokenizer %s has no token %d, with which texts are filled up",
                         w->path, w->as->tokenizer, w->as->pad);
}

ls_status ls_array_texts(ls_array_file *f, const char *path, const char *table, size_t n, const char *column,
                         const ls_array_tokens *as)
{
    writer w = { .as = as, .path = path };
    LS_TRY(ls_tokenizer_open(&w.tokenizer, as->tokenizer));
    ls_status s = check(&w);
    if (s == LS_OK)
        s = ls_csv_texts(table, n, column, path, write_row, &w);
    if (s == LS_OK)
        s = hash_tokenizer(&f->tokenizer, as->tokenizer);
    f->heap = w.out;
    f->data = f->heap;
    f->type = LS_TYPE(LS_I32, w.rows, as->length);
    f->cut = w.cut;
    free(w.ids.ids);
    ls_tokenizer_close(&w.tokenizer);
    return s;
}
