/* document_set.h - the samples of documents in a file of tokens (tokens.h): windows of the stream of all of
 * them, a row for each, or several packed side by side into a window. Every data set of texts is one. */
#pragma once
#include "data/tokens.h"

/* What distinguishes a data set of documents. */
typedef struct ls_document_set {
    const char *name;      /* of the data set: "text" */
    const char *path;      /* of the split's files */
    const char *tokenizer; /* for messages */
    int64_t length;        /* tokens of a sample */
    /* The target behind the last token of a row is its end token. Packed documents always have this target.
     */
    bool predicts_end;
} ls_document_set;

/* Takes over `tokens`, also on failure. Fields: ids, targets i32 [length]; with LS_PACK_DOCUMENTS also
 * positions. Tokens that `tokens->targets` leaves out are not targets, and a sample without a target is left
 * out. Of `o` the members count that say which documents are in the split and what becomes of them:
 * eval_path, eval_fraction, train_percentage, pack, too_long, vocabulary. */
ls_status ls_document_set_open(ls_dataset **out, ls_split split, ls_token_store *tokens,
                               const ls_document_set *of, const ls_text_options *o);
