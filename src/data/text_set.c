/* text_set.c - a data set of text files: opens their tokens, which document_set.c makes samples of. */
#include <stdlib.h>

#include "base/argument.h"
#include "base/field.h"
#include "data/corpus.h"
#include "data/document_set.h"

ls_status ls_text_open_with(ls_dataset **out, ls_split split, const char *path, const char *tokenizer,
                            int64_t seq_length, const ls_text_options *o)
{
    LS_ARG(out);
    LS_ARG(path);
    LS_ARG(tokenizer);
    LS_ARG_ENUM(ls_split, split, LS_SPLIT_EVAL);
    o = o ? o : &(const ls_text_options){ LS_TEXT_DEFAULTS };
    LS_ARG_ENUM(ls_documents, o->documents, LS_DOCUMENTS_JSON);
    LS_ARG_ENUM(ls_pack_choice, o->pack, LS_PACK_DOCUMENTS);
    LS_ARG_ENUM(ls_too_long, o->too_long, LS_TOO_LONG_SPLIT);
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
    const char *files = split == LS_SPLIT_EVAL && *o->eval_path ? o->eval_path : path;
    ls_token_store tokens;
    LS_TRY(ls_tokens_open(&tokens, files, tokenizer, NULL, NULL, o));
    char *shown = ls_corpus_shown(files);
    const ls_document_set text = {
        .name = "text", .path = shown ? shown : files, .tokenizer = tokenizer, .length = seq_length
    };
    const ls_status s = ls_document_set_open(out, split, &tokens, &text, o);
    free(shown);
    return s;
}

ls_text_options ls_text_options_default(void) { return (ls_text_options){ LS_TEXT_DEFAULTS }; }
