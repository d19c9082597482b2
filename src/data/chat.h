/* chat.h - conversations as tokens: a template writes them as text, which a tokenizer encodes, and what the
 * assistant wrote, up to the token that ends its turn, are targets. */
#pragma once
#include "base/json.h"
#include "lockstep/data.h"
#include "lockstep/tokenizer.h"

typedef struct ls_chat_options {
    ls_text_options text; /* `documents` and `field` do not count */
    /* "auto": chat_template.jinja, else the chat_template of tokenizer_config.json, in the tokenizer's
     * folder, else in `folder` ("": none), such as the model's; "chatml": built in; or a file with a Jinja
     * template */
    const char *template, *folder;
    ls_train_on train_on;
} ls_chat_options;
#define LS_CHAT_DEFAULTS                                                                  \
    .text = { LS_TEXT_DEFAULTS, .pack = LS_PACK_NONE }, .template = "auto", .folder = "", \
    .train_on = LS_TRAIN_ON_ASSISTANT
ls_chat_options ls_chat_options_default(void);

/* Conversations, for the same models as ls_text_open: files of JSON lines with `messages`, `conversations`,
 * or `prompt` and `completion` (docs/chat.md), written as text by the template of the model. A sample's
 * targets are LS_IGNORE_LABEL where a token does not count. Text of messages never becomes a special token.
 * Local.
 *
 *     ls_chat_open(&set, LS_SPLIT_TRAIN, "talks.jsonl", "Qwen2.5-0.5B-Instruct", 1024,
 *                  .text.pack = LS_PACK_DOCUMENTS)
 *
 * Errors: as of ls_text_open; LS_E_FORMAT with file and line also for a line that is not a conversation, and
 * for one that the template refuses; LS_E_USAGE no template; LS_E_UNSUPPORTED one that is not understood. */
ls_status ls_chat_open_with(ls_dataset **out, ls_split split, const char *path, const char *tokenizer,
                            int64_t seq_length, const ls_chat_options *options);
#define ls_chat_open(out, split, path, tokenizer, seq_length, ...)                             \
    LS_QUIETLY(ls_status, ls_chat_open_with((out), (split), (path), (tokenizer), (seq_length), \
                                            &(ls_chat_options){ LS_CHAT_DEFAULTS, ##__VA_ARGS__ }))

typedef struct ls_chat ls_chat;

/* `tokenizer`, of the file `tokenizer_file` ("bytes": none), must outlive it; NULL: only the digest and the
 * file of the template are asked for. Of `o` the template, the folder and text.end_token count; `name` is the
 * tokenizer's, for messages. LS_E_USAGE: there is no template; and as ls_template_open. */
ls_status ls_chat_make(ls_chat **out, const ls_tokenizer *tokenizer, const char *tokenizer_file,
                       const char *name, const ls_chat_options *o);
void ls_chat_free(ls_chat **c);             /* nulls *c; null is fine */
const char *ls_chat_file(const ls_chat *c); /* the file of the template, "chatml": none */
/* The template's text, as a chat_template.jinja has it: of `chatml` with the mark that ends a turn in the
 * tokenizer of the file. malloc'ed. */
ls_status ls_chat_template(char **out, const ls_chat *c, const char *tokenizer_file);
/* Of everything that decides how a conversation becomes ids and targets, but for the tokenizer and train_on.
 */
uint64_t ls_chat_digest(const ls_chat *c);
/* The token behind a completion and behind a document: text.end_token, else eos_token of
 * tokenizer_config.json, else one of the usual ones. */
int32_t ls_chat_end(const ls_chat *c);

/* Ids of a conversation, and for each whether it is a target. */
typedef struct ls_chat_tokens {
    ls_tokens ids;
    uint8_t *targets; /* [ids.n] */
    int64_t room;     /* of targets */
} ls_chat_tokens;
void ls_chat_tokens_release(ls_chat_tokens *t);

/* Appends the tokens of a line of a file (chat_row.h). Any number of threads may call it. LS_E_FORMAT: what
 * is wrong with the line, or with the conversation, in the template's words. */
ls_status ls_chat_encode(const ls_chat *c, const json_t *line, ls_train_on train_on, ls_chat_tokens *out);

/* Appends the ids of a conversation so far, with the header of an assistant's turn. clock: for strftime_now.
 */
ls_status ls_chat_prompt(const ls_chat *c, const json_t *messages, int64_t clock, ls_tokens *out);
/* The token that ends an assistant's turn; -1: none does. */
ls_status ls_chat_turn_end(const ls_chat *c, int32_t *out);
