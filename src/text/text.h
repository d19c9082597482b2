/* text.h - the parts of a tokenizer, in the order in which a text passes them: added tokens are cut out, the
 * rest is normalized and split into pieces, and each piece is encoded as ids. read.c makes all parts; they
 * are constant afterwards. */
#pragma once
#include "base/arena.h"
#include "base/json.h"
#include "lockstep/tokenizer.h"

/* ---- characters (utf8.c, and ls_utf8_sound of lockstep/tokenizer.h) */

/* Reads one character of valid UTF-8 into *c. Returns its length in bytes. */
static inline size_t ls_utf8_next(const char *s, uint32_t *c)
{
    const uint8_t *p = (const uint8_t *)s;
    if (p[0] < 0x80) {
        *c = p[0];
        return 1;
    }
    if (p[0] < 0xe0) {
        *c = (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
        return 2;
    }
    if (p[0] < 0xf0) {
        *c = (p[0] & 0xfu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
        return 3;
    }
    *c = (p[0] & 7u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
    return 4;
}
void ls_utf8_add(ls_str *out, uint32_t c); /* appends one character */
/* Appends `n` bytes as UTF-8: U+FFFD replaces each sequence that is invalid. */
void ls_utf8_add_sound(ls_str *out, const char *text, size_t n);
/* Characters with Unicode's property White_Space (since 6.3): first and last of each range. */
enum { LS_WHITE_RANGES = 10 };
extern const uint32_t ls_white_ranges[LS_WHITE_RANGES][2];
bool ls_is_white(uint32_t c);

/* ---- tokens by id and ids by token (vocab.c) */

typedef struct ls_vocab {
    int32_t size;      /* largest id + 1 */
    const char **text; /* [size]; NULL: no token has this id */
    uint32_t *length;  /* [size] bytes */
    int32_t *table;    /* a hash table with open addressing: id; -1: free */
    uint32_t mask;
} ls_vocab;
ls_status ls_vocab_make(ls_vocab *v, ls_arena *a, int32_t size); /* empty, with room for ids below size */
/* The text is copied to the arena. False: the text or the id exists already. */
bool ls_vocab_put(ls_vocab *v, ls_arena *a, int32_t id, const char *text, size_t n);
int32_t ls_vocab_find(const ls_vocab *v, const char *text, size_t n); /* -1: none */

/* ---- where a text comes from (origin.c) */

/* Of each byte of a text that was made from the caller's: the bytes there that it stands for. */
typedef struct ls_origin {
    ls_text_range *at; /* [n] */
    size_t n, room;
    bool on; /* false: nothing is traced, and n stays 0 */
    bool no_memory;
} ls_origin;
/* n bytes more, which come from from[0, n), or all from one range. */
void ls_origin_copy(ls_origin *t, const ls_text_range *from, size_t n);
void ls_origin_fill(ls_origin *t, ls_text_range from, size_t n);
void ls_origin_release(ls_origin *t);
static inline const ls_text_range *ls_range_at(const ls_text_range *from, size_t i)
{
    return from ? from + i : NULL;
}
/* What the bytes [begin, end) come from; begin < end. Not traced: an empty range. */
static inline ls_text_range ls_range_of(const ls_text_range *from, size_t begin, size_t end)
{
    return from ? (ls_text_range){ from[begin].begin, from[end - 1].end } : (ls_text_range){ 0, 0 };
}

/* ---- normalizers (normalize.c) */

typedef enum ls_normal {
    LS_NORMAL_NFC,
    LS_NORMAL_NFD,
    LS_NORMAL_NFKC,
    LS_NORMAL_NFKD,
    LS_NORMAL_LOWERCASE,
    LS_NORMAL_CHARSMAP,
    LS_NORMAL_REPLACE,
    LS_NORMAL_PREPEND,
    LS_NORMAL_BERT
} ls_normal;
typedef struct ls_normalizer {
    ls_normal kind;
    const char *from, *to; /* replace: both; prepend: `to` */
    /* charsmap: sentencepiece's double array, and the replacements, each followed by NUL */
    const uint32_t *trie;
    uint32_t units;
    const char *replacements;
    size_t replacement_bytes;
    /* bert: controls are dropped and white space is a space; an ideograph is a word; marks are dropped */
    bool clean, ideographs, strip_accents, lowercase;
} ls_normalizer;
/* Appends. from: [n], or NULL, then `trace` is off. */
ls_status ls_normalize(const ls_normalizer *z, const char *text, size_t n, const ls_text_range *from,
                       ls_str *out, ls_origin *trace);
void ls_bert_normalize(const ls_normalizer *z, const char *text, size_t n, const ls_text_range *from,
                       ls_str *out, ls_origin *trace); /* bert.c */

/* ---- pre-tokenizers (split.c, pieces.c) */

/* A text in pieces: piece i ends at end[i], and begins where piece i - 1 ends. */
typedef struct ls_text_pieces {
    /* also remembers that memory ran out and a piece is missing (ls_pieces_check) */
    ls_str text;
    ls_origin trace; /* of text */
    int64_t *end;
    int64_t n, room;
} ls_text_pieces;
/* An empty piece is left out. from: as of ls_normalize. */
void ls_pieces_add_from(ls_text_pieces *p, const char *text, size_t n, const ls_text_range *from);
static inline void ls_pieces_add(ls_text_pieces *p, const char *text, size_t n)
{
    ls_pieces_add_from(p, text, n, NULL);
}
ls_status ls_pieces_check(const ls_text_pieces *p); /* LS_E_MEMORY */
void ls_pieces_clear(ls_text_pieces *p);
void ls_pieces_release(ls_text_pieces *p);

/* Appends the text, with `to` in place of each `from`. */
void ls_replace_all(const char *text, size_t n, const char *from, const char *to, ls_str *out);

typedef enum ls_split_kind {
    LS_SPLIT_REGEX,
    LS_SPLIT_BYTES,
    LS_SPLIT_WHITESPACE,
    LS_SPLIT_METASPACE
} ls_split_kind;
typedef enum ls_prepend { LS_PREPEND_ALWAYS, LS_PREPEND_FIRST, LS_PREPEND_NEVER } ls_prepend;
typedef struct ls_splitter {
    ls_split_kind kind;
    void *regex;          /* pcre2_code */
    bool removed, invert; /* regex: removed: matches are dropped; invert: what does not match is a match */
    bool prefix_space;    /* bytes: adds a space before a text that begins without one */
    ls_prepend prepend;   /* metaspace */
    const char *mark;     /* metaspace: the character that stands for a space */
    bool split;           /* metaspace: each mark begins a piece */
} ls_splitter;
ls_status ls_regex_compile(void **out, const char *pattern, const char *where);
void ls_regex_free(void *regex);
/* Splits each piece of `in`. first: the first piece of `in` begins the text. */
ls_status ls_split(const ls_splitter *s, const ls_text_pieces *in, bool first, ls_text_pieces *out);
/* The byte that a character of byte-level text stands for; -1: none. */
int ls_byte_of_char(uint32_t c);
uint32_t ls_char_of_byte(uint8_t b);

/* ---- models (bpe.c, unigram.c, bert.c) */

/* Where tokens go. */
typedef struct ls_encoding {
    const bool *special; /* [vocabulary]: the token is special */
    ls_tokens *ids;
    ls_text_ranges *ranges; /* NULL: not wanted */
    /* parts of the caller's text that become no special tokens */
    const ls_text_range *plain;
    int64_t n_plain;
    const ls_text_range *from; /* of the bytes of the piece that is being encoded; NULL: not traced */
} ls_encoding;
ls_status ls_encoding_add(ls_encoding *e, int32_t id, ls_text_range range); /* LS_E_MEMORY */
/* A token of bytes [begin, end) of the piece. */
static inline ls_status ls_encoding_put(ls_encoding *e, int32_t id, size_t begin, size_t end)
{
    return ls_encoding_add(e, id, ls_range_of(e->from, begin, end));
}
/* Whether this token may stand for these bytes: it is not special, or none of them is plain. */
bool ls_encoding_may(const ls_encoding *e, int32_t id, ls_text_range range);

/* pair: left id << 32 | right id. rank -1: a free entry. */
typedef struct ls_merge {
    uint64_t pair;
    int32_t rank, id;
} ls_merge;
typedef struct ls_bpe {
    const ls_vocab *vocab;
    ls_merge *merges;
    uint32_t mask;
    int32_t unknown; /* -1: unknown characters are left out */
    bool fuse_unknown, byte_fallback, ignore_merges;
    int32_t byte_ids[256]; /* ids of the tokens <0x00> to <0xFF>; -1: there is none */
} ls_bpe;
ls_status ls_bpe_room(ls_bpe *b, ls_arena *a, int64_t merges);
void ls_bpe_put(ls_bpe *b, int32_t left, int32_t right, int32_t rank, int32_t id);
ls_status ls_bpe_encode(const ls_bpe *b, const char *piece, size_t n, ls_encoding *out);

typedef struct ls_unigram {
    const ls_vocab *vocab;
    const double *score;   /* [size] */
    const int32_t *sorted; /* ids, sorted by their tokens' bytes */
    int32_t n, unknown;    /* n: length of `sorted`; unknown: id, -1: none */
    double unknown_score;
    bool byte_fallback;
    int32_t byte_ids[256];
} ls_unigram;
ls_status ls_unigram_prepare(ls_unigram *u, ls_arena *a); /* makes the other members from vocab and score */
ls_status ls_unigram_encode(const ls_unigram *u, const char *piece, size_t n, ls_encoding *out);

typedef struct ls_wordpiece {
    const ls_vocab *vocab;
    const char *prefix; /* of a piece within a word: "##" */
    int32_t unknown;
    int64_t longest; /* characters of a word that is taken to pieces */
} ls_wordpiece;
ls_status ls_wordpiece_encode(const ls_wordpiece *w, const char *word, size_t n,
                              ls_encoding *out); /* bert.c */

void ls_find_byte_ids(const ls_vocab *v, int32_t out[256]);

/* ---- tokens that the file adds to the model (added.c) */

typedef struct ls_added {
    const char *text;
    size_t length;
    int32_t id;
    bool special, normalized, single_word, lstrip, rstrip;
} ls_added;
/* Finds the first added token in text[begins, n), and of those that begin there the longest that `e` lets be.
 * *begin and *end receive where it begins and ends, with the white space that it absorbs. from: where each
 * byte of `text` comes from; NULL: not traced. NULL: there is none. */
const ls_added *ls_added_find(const ls_tokenizer *t, const ls_encoding *e, bool normalized, const char *text,
                              size_t n, const ls_text_range *from, size_t begins, size_t *begin, size_t *end);

/* ---- decoders (decode.c) */

typedef enum ls_decoding {
    LS_DECODE_BYTES,
    LS_DECODE_METASPACE,
    LS_DECODE_REPLACE,
    LS_DECODE_BYTE_FALLBACK,
    LS_DECODE_FUSE,
    LS_DECODE_STRIP,
    LS_DECODE_WORDPIECE
} ls_decoding;
typedef struct ls_decoder {
    ls_decoding kind;
    const char *from, *to; /* replace: both; metaspace: from is the mark; strip: from is the character */
    /* strip: how many of the characters are removed at most, at the start and at the end */
    int64_t start, stop;
    bool keep_first; /* metaspace: the first mark becomes a space too */
    bool tidy;       /* wordpiece, whose prefix is `from`: no space before marks and shortened words */
} ls_decoder;
ls_status ls_decode(const ls_decoder *d, ls_text_pieces *tokens); /* changes the tokens in place */
void ls_wordpiece_decode(const ls_decoder *d, const char *token, size_t n, bool first, ls_str *out);
int ls_fallback_byte(const char *token, size_t n); /* 65 of "<0x41>"; -1: the token is not a byte */

/* ---- the tokenizer */

enum { LS_TEXT_STAGES = 8 };
/* A part of what a pair of texts becomes: a special token, or all tokens of a text, with their token type. */
typedef struct ls_pair_part {
    enum { LS_PAIR_TOKEN, LS_PAIR_FIRST, LS_PAIR_SECOND } what;
    int32_t id, type;
} ls_pair_part;

struct ls_tokenizer {
    ls_arena arena;
    ls_vocab vocab; /* the model's tokens, and the added ones */
    ls_normalizer normalizers[LS_TEXT_STAGES];
    ls_splitter splitters[LS_TEXT_STAGES];
    ls_decoder decoders[LS_TEXT_STAGES];
    int n_normalizers, n_splitters, n_decoders;
    ls_bpe *bpe; /* one of the three; the others are NULL */
    ls_unigram *unigram;
    ls_wordpiece *wordpiece;
    ls_added *added;
    int n_added;
    bool *special;                 /* [vocab.size] */
    int32_t before[16], after[16]; /* special tokens before and after a text */
    int n_before, n_after;
    ls_pair_part pair[24]; /* of two texts */
    int n_pair;            /* 0: the file says nothing of pairs */
};
/* Appends the bytes that the ids stand for, which need not be valid UTF-8. */
ls_status ls_tokenizer_bytes(const ls_tokenizer *t, const int32_t *ids, int64_t n, bool skip_special,
                             ls_str *out);
bool ls_tokenizer_has_text(const ls_tokenizer *t, int32_t id); /* a token, and no special one */
ls_status ls_tokenizer_read(ls_tokenizer *t, json_t *root, const char *path); /* read.c */
ls_status ls_tokenizer_read_bytes(ls_tokenizer *t);                           /* bytes.c */
/* sentencepiece.c */
ls_status ls_tokenizer_read_sentencepiece(ls_tokenizer *t, const char *bytes, size_t n, const char *path);
