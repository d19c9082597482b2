/* chat_set.c - a data set of conversations: opens their tokens, which document_set.c makes samples of. */
#include <stdlib.h>

#include "base/argument.h"
#include "base/field.h"
#include "data/chat.h"
#include "data/corpus.h"
#include "data/document_set.h"

ls_status ls_chat_open_with(ls_dataset **out, ls_split split, const char *path, const char *tokenizer,
                            int64_t seq_length, const ls_chat_options *o)
{
    LS_ARG(out);
    LS_ARG(path);
    LS_ARG(tokenizer);
    LS_ARG_ENUM(ls_split, split, LS_SPLIT_EVAL);
    o = o ? o : &(const ls_chat_options){ LS_CHAT_DEFAULTS };
    LS_ARG_ENUM(ls_pack_choice, o->text.pack, LS_PACK_DOCUMENTS);
    LS_ARG_ENUM(ls_too_long, o->text.too_long, LS_TOO_LONG_SPLIT);
    LS_ARG_ENUM(ls_train_on, o->train_on, LS_TRAIN_ON_ALL);
    LS_ARG(o->template);
    LS_ARG(o->folder);
    *out = NULL;
    if (!*path || !*tokenizer)
        return ls_fail(LS_E_USAGE, "conversations need a %s",
                       *path ? "tokenizer: a tokenizer.json or spiece.model, a folder with one, or `bytes`"
                             : "path: files of JSON lines");
    if (seq_length < 2 || seq_length > 1 << 24)
        return ls_fail_field(LS_E_USAGE, "seq_length", "%lld is out of range: 2 to %d tokens are possible",
                             (long long)seq_length, 1 << 24);
    if (!(o->text.train_percentage > 0 && o->text.train_percentage <= 100))
        return ls_fail(LS_E_ARG, "train_percentage: %g is not above 0 and at most 100",
                       o->text.train_percentage);
    const char *files = split == LS_SPLIT_EVAL && *o->text.eval_path ? o->text.eval_path : path;
    ls_token_store tokens;
    LS_TRY(ls_tokens_open(&tokens, files, tokenizer, NULL, o, &o->text));
    char *shown = ls_corpus_shown(files);
    const ls_document_set chat = {
        .name = "chat", .path = shown ? shown : files, .tokenizer = tokenizer, .length = seq_length
    };
    const ls_status s = ls_document_set_open(out, split, &tokens, &chat, &o->text);
    free(shown);
    return s;
}

ls_chat_options ls_chat_options_default(void) { return (ls_chat_options){ LS_CHAT_DEFAULTS }; }
