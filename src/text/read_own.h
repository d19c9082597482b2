/* read_own.h - what the files that read tokenizer.json share. */
#pragma once
#include "text.h"

typedef struct reader {
    ls_tokenizer *t;
    const char *path;
} reader;

static inline const char *read_text_of(const json_t *j, const char *key)
{
    const char *s = json_string_value(json_object_get(j, key));
    return s ? s : "";
}

static inline bool flag(const json_t *j, const char *key, bool otherwise)
{
    const json_t *v = json_object_get(j, key);
    return json_is_boolean(v) ? json_is_true(v) : otherwise;
}

static inline char *read_keep(reader *r, const char *s) { return ls_arena_strdup(&r->t->arena, s); }

static inline ls_status unknown(const reader *r, const char *what, const char *type)
{
    return ls_fail(LS_E_UNSUPPORTED, "%s: the %s \"%s\" is not supported", r->path, what, type);
}

static inline ls_status wrong(const reader *r, const char *what)
{
    return ls_fail(LS_E_FORMAT, "%s: %s", r->path, what);
}

static inline ls_status one_more(const reader *r, int *n, const char *what)
{
    return (*n)++ < LS_TEXT_STAGES
               ? LS_OK
               : ls_fail(LS_E_UNSUPPORTED, "%s: more than %d %s", r->path, (int)LS_TEXT_STAGES, what);
}

/* read_after.c: how a Metaspace writes spaces, the same as pre-tokenizer and decoder. */
ls_status ls_read_metaspace(reader *r, const json_t *part, ls_prepend *prepend);
/* A post-processor, and a decoder, of this type. */
ls_status ls_read_processor(reader *r, const json_t *part, const char *type);
ls_status ls_read_decoder(reader *r, const json_t *part, const char *type);
