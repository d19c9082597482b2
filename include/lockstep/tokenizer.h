/* tokenizer.h - text to token ids and back, as a Hugging Face tokenizer.json says: byte-level BPE (GPT-2,
 * Qwen, Llama 3), Unigram (T5) and WordPiece (BERT); or as a SentencePiece model of kind Unigram does. The
 * ids are those of Hugging Face's own library, byte for byte; what a file asks for that is not known here is
 * refused by name when it is opened.
 *
 *     ls_tokenizer *t;
 *     LS_TRY(ls_tokenizer_open(&t, "Qwen2.5-0.5B"));
 *     ls_tokens ids = { 0 };
 *     LS_TRY(ls_tokenizer_encode(t, text, strlen(text), true, &ids));
 *
 * An open tokenizer is never changed: any number of threads may use it. Everything here is local. */
#pragma once
#ifndef LS_WARN_IN_HEADERS
/* for programs that are compiled with -Wextra or -pedantic: the macros use GNU's C */
#pragma GCC system_header
#endif
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_tokenizer ls_tokenizer;

/* A tokenizer.json or spiece.model, or a folder with one; or "bytes", which needs no file: ids 0 to 255 are
 * bytes, 256 is <|endoftext|>. LS_E_IO, LS_E_FORMAT; LS_E_UNSUPPORTED for a kind of model, normalizer, ...
 * that is not known. */
LS_API ls_status ls_tokenizer_open(ls_tokenizer **out, const char *path);
LS_API void ls_tokenizer_close(ls_tokenizer **t); /* nulls *t; null is fine */

/* Which file that is, malloc'ed; NULL: there is none. LS_E_MEMORY. */
LS_API ls_status ls_tokenizer_file(char **out, const char *path);

LS_API int32_t ls_tokenizer_size(const ls_tokenizer *t);                  /* the largest id, plus one */
LS_API int32_t ls_tokenizer_id(const ls_tokenizer *t, const char *token); /* -1: there is none */
/* as the file writes it; NULL: none */
LS_API const char *ls_tokenizer_token(const ls_tokenizer *t, int32_t id);

/* begin with { 0 }; free(ids) is the caller's */
typedef struct ls_tokens {
    int32_t *ids;
    int64_t n, room;
} ls_tokens;

/* Appends the ids of `bytes` bytes of UTF-8, with the post-processor's special tokens when `special`. Text
 * that is not UTF-8 is LS_E_FORMAT with the offset. Tokens that the file adds (<|endoftext|>) are found in
 * the text, as Hugging Face does. */
LS_API ls_status ls_tokenizer_encode(const ls_tokenizer *t, const char *text, size_t bytes, bool special,
                                     ls_tokens *out);

/* Bytes [begin, end) of a text. A list of them begins with { 0 }; free(at) is the caller's. */
typedef struct ls_text_range {
    int64_t begin, end;
} ls_text_range;
typedef struct ls_text_ranges {
    ls_text_range *at;
    int64_t n, room;
} ls_text_ranges;

/* The same, and for each id, appended to `ranges`, the bytes of the text that it stands for. Of a byte-level
 * tokenizer these are its very bytes, so the ranges of a text without added tokens lie side by side. Where a
 * normalizer changes a text, they are those of the characters that a token came from: spaces that
 * SentencePiece removes belong to no token, and a space that it puts in front belongs to the first character.
 * A token that the post-processor adds has an empty range. plain: n_plain ranges of the text, sorted, of
 * which no byte becomes a special token. What stands there is ordinary text, so a user cannot end a turn with
 * the text "<|im_end|>". Added tokens that are not special (Qwen's `<think>`) are found there, too. n_plain
 * 0: none. LS_E_ARG: not sorted, or outside of the text. */
LS_API ls_status ls_tokenizer_encode_ranges(const ls_tokenizer *t, const char *text, size_t bytes,
                                            bool special, int64_t n_plain, const ls_text_range *plain,
                                            ls_tokens *out, ls_text_ranges *ranges);

/* how many bytes from the beginning are sound UTF-8 */
LS_API size_t ls_utf8_sound(const char *text, size_t n);

/* The text of ids, malloc'ed, NUL added after *bytes. skip_special leaves special tokens out. Bytes that are
 * not UTF-8 (a cut sequence) become U+FFFD; of byte tokens ("<0x41>") each one in a run that is not UTF-8 as
 * a whole. LS_E_ARG for an id that does not exist. */
LS_API ls_status ls_tokenizer_decode(const ls_tokenizer *t, const int32_t *ids, int64_t n, bool skip_special,
                                     char **text, size_t *bytes);

/* The text of ids that come one after the other. A character may have several tokens: it is given when it is
 * whole. Special tokens, and ids that are not tokens (a model's vocabulary may be larger), have no text. All
 * the texts, joined, are what ls_tokenizer_decode gives; but characters of a run of byte tokens ("<0x41>")
 * that is not UTF-8 in the end may have been given already, where ls_tokenizer_decode has U+FFFD for every
 * byte of the run. */
/* A stream belongs to one thread at a time. */
typedef struct ls_text_stream ls_text_stream;
LS_API ls_status ls_text_stream_create(ls_text_stream **out, const ls_tokenizer *t); /* t must outlive it */
/* nulls *s; null is fine */
LS_API void ls_text_stream_destroy(ls_text_stream **s);
/* *text, with a NUL behind its *bytes bytes, is the stream's until the next call. */
LS_API ls_status ls_text_stream_add(ls_text_stream *s, int32_t id, const char **text, size_t *bytes);
/* a cut character as U+FFFD, or nothing; another text may begin */
LS_API void ls_text_stream_end(ls_text_stream *s, const char **text, size_t *bytes);

#ifdef __cplusplus
}
#endif
