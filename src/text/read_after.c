/* read_after.c - reads what a tokenizer.json does with ids: the tokens before and after a text, and decoders.
 */
#include <string.h>

#include "read_own.h"

static ls_status add_pair_part(reader *r, ls_pair_part part)
{
    ls_tokenizer *t = r->t;
    if (t->n_pair == (int)(sizeof t->pair / sizeof *t->pair))
        return wrong(r, "the post-processor's template of a pair has too many parts");
    t->pair[t->n_pair++] = part;
    return LS_OK;
}

/* "[CLS] $A [SEP] $B:1 [SEP]:1", after the template of one text was found to be sound. */
static ls_status read_pair(reader *r, const json_t *parts, const json_t *specials)
{
    int first = 0, second = 0;
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i), *token = json_object_get(part, "SpecialToken"),
                     *text = json_object_get(part, "Sequence");
        const json_t *ids = json_object_get(json_object_get(specials, read_text_of(token, "id")), "ids");
        const int64_t type = json_integer_value(json_object_get(token ? token : text, "type_id"));
        const bool is_first = !strcmp(read_text_of(text, "id"), "A");
        if ((!token && !text) || (token && !json_array_size(ids)) || type < 0 || type > 1)
            return wrong(r, "the post-processor's template of a pair has a part that is not known");
        for (size_t k = 0; token && k < json_array_size(ids); k++) {
            const int64_t id = json_integer_value(json_array_get(ids, k));
            if (id < 0 || id >= r->t->vocab.size || !ls_tokenizer_token(r->t, (int32_t)id))
                return wrong(r, "the post-processor's template of a pair has ids that are not tokens");
            LS_TRY(add_pair_part(r, (ls_pair_part){ LS_PAIR_TOKEN, (int32_t)id, (int32_t)type }));
        }
        if (text)
            LS_TRY(add_pair_part(
                r, (ls_pair_part){ is_first ? LS_PAIR_FIRST : LS_PAIR_SECOND, -1, (int32_t)type }));
        first += text && is_first;
        second += text && !is_first;
    }
    return first <= 1 && second <= 1 && first == second
               ? LS_OK
               : wrong(r, "the post-processor's template of a pair must have each text once");
}

static ls_status read_template(reader *r, const json_t *processor)
{
    ls_tokenizer *t = r->t;
    const json_t *single = json_object_get(processor, "single"),
                 *specials = json_object_get(processor, "special_tokens");
    bool behind = false;
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *part = json_array_get(single, i), *token = json_object_get(part, "SpecialToken");
        const json_t *ids = json_object_get(json_object_get(specials, read_text_of(token, "id")), "ids");
        if (!token && !json_object_get(part, "Sequence"))
            return wrong(
                r, "the post-processor's template has a part that is neither SpecialToken nor Sequence");
        if (token && !json_array_size(ids))
            return ls_fail(LS_E_FORMAT,
                           "%s: the post-processor's template uses \"%.60s\", and its special_tokens do not "
                           "say which ids that is",
                           r->path, read_text_of(token, "id"));
        behind = behind || !token;
        for (size_t k = 0; token && k < json_array_size(ids); k++) {
            const int64_t id = json_integer_value(json_array_get(ids, k));
            int *n = behind ? &t->n_after : &t->n_before;
            if (id < 0 || id >= t->vocab.size || !ls_tokenizer_token(t, (int32_t)id) || *n == 16)
                return wrong(r, "the post-processor has ids that are not tokens, or too many");
            (behind ? t->after : t->before)[(*n)++] = (int32_t)id;
        }
    }
    return read_pair(r, json_object_get(processor, "pair"), specials);
}

/* "cls" before a text and "sep" after it: each a token with its id. */
static ls_status read_bert_processor(reader *r, const json_t *part)
{
    static const char *const NAMES[] = { "cls", "sep" };
    ls_tokenizer *t = r->t;
    int32_t ids[2];
    for (int i = 0; i < 2; i++) {
        const json_t *id = json_array_get(json_object_get(part, NAMES[i]), 1);
        ids[i] = json_is_integer(id) && json_integer_value(id) < t->vocab.size
                     ? (int32_t)json_integer_value(id)
                     : -1;
        if (!ls_tokenizer_token(t, ids[i]))
            return wrong(r, "the post-processor has no cls and sep that are tokens");
    }
    t->before[t->n_before++] = ids[0];
    t->after[t->n_after++] = ids[1];
    const ls_pair_part pair[] = { { LS_PAIR_TOKEN, ids[0], 0 },
                                  { LS_PAIR_FIRST, -1, 0 },
                                  { LS_PAIR_TOKEN, ids[1], 0 },
                                  { LS_PAIR_SECOND, -1, 1 },
                                  { LS_PAIR_TOKEN, ids[1], 1 } };
    memcpy(t->pair, pair, sizeof pair);
    t->n_pair = sizeof pair / sizeof *pair;
    return LS_OK;
}

/* The same of RoBERTa, whose pair has two of "sep" between the texts, and one token type. */
static ls_status read_roberta_processor(reader *r, const json_t *part)
{
    LS_TRY(read_bert_processor(r, part));
    const int32_t cls = r->t->before[0], sep = r->t->after[0];
    const ls_pair_part pair[] = { { LS_PAIR_TOKEN, cls, 0 }, { LS_PAIR_FIRST, -1, 0 },
                                  { LS_PAIR_TOKEN, sep, 0 }, { LS_PAIR_TOKEN, sep, 0 },
                                  { LS_PAIR_SECOND, -1, 0 }, { LS_PAIR_TOKEN, sep, 0 } };
    memcpy(r->t->pair, pair, sizeof pair);
    r->t->n_pair = sizeof pair / sizeof *pair;
    return LS_OK;
}

ls_status ls_read_processor(reader *r, const json_t *part, const char *type)
{
    if (!strcmp(type, "TemplateProcessing"))
        return read_template(r, part);
    if (!strcmp(type, "BertProcessing") && !r->t->n_before && !r->t->n_after)
        return read_bert_processor(r, part);
    if (!strcmp(type, "RobertaProcessing") && !r->t->n_before && !r->t->n_after)
        return read_roberta_processor(r, part);
    /* ByteLevel changes offsets only */
    return strcmp(type, "ByteLevel") ? unknown(r, "post-processor", type) : LS_OK;
}

ls_status ls_read_metaspace(reader *r, const json_t *part, ls_prepend *prepend)
{
    const char *scheme = read_text_of(part, "prepend_scheme");
    *prepend = !strcmp(scheme, "first")                                            ? LS_PREPEND_FIRST
               : !strcmp(scheme, "never") || !flag(part, "add_prefix_space", true) ? LS_PREPEND_NEVER
                                                                                   : LS_PREPEND_ALWAYS;
    return !*read_text_of(part, "replacement") ? wrong(r, "Metaspace has no replacement")
           : *scheme && strcmp(scheme, "first") && strcmp(scheme, "never") && strcmp(scheme, "always")
               ? unknown(r, "Metaspace with prepend_scheme", scheme)
               : LS_OK;
}

ls_status ls_read_decoder(reader *r, const json_t *part, const char *type)
{
    LS_TRY(one_more(r, &r->t->n_decoders, "decoders"));
    ls_decoder *d = &r->t->decoders[r->t->n_decoders - 1];
    ls_prepend prepend = LS_PREPEND_ALWAYS;
    if (!strcmp(type, "ByteLevel"))
        d->kind = LS_DECODE_BYTES;
    else if (!strcmp(type, "WordPiece"))
        *d = (ls_decoder){ .kind = LS_DECODE_WORDPIECE,
                           .from = read_keep(r, read_text_of(part, "prefix")),
                           .tidy = flag(part, "cleanup", true) };
    else if (!strcmp(type, "ByteFallback"))
        d->kind = LS_DECODE_BYTE_FALLBACK;
    else if (!strcmp(type, "Fuse"))
        d->kind = LS_DECODE_FUSE;
    else if (!strcmp(type, "Replace") && *read_text_of(json_object_get(part, "pattern"), "String"))
        *d = (ls_decoder){ .kind = LS_DECODE_REPLACE,
                           .from = read_keep(r, read_text_of(json_object_get(part, "pattern"), "String")),
                           .to = read_keep(r, read_text_of(part, "content")) };
    else if (!strcmp(type, "Strip"))
        *d = (ls_decoder){ .kind = LS_DECODE_STRIP,
                           .from = read_keep(r, read_text_of(part, "content")),
                           .start = json_integer_value(json_object_get(part, "start")),
                           .stop = json_integer_value(json_object_get(part, "stop")) };
    else if (!strcmp(type, "Metaspace")) {
        LS_TRY(ls_read_metaspace(r, part, &prepend));
        *d = (ls_decoder){ .kind = LS_DECODE_METASPACE,
                           .from = read_keep(r, read_text_of(part, "replacement")),
                           .keep_first = prepend == LS_PREPEND_NEVER };
    } else
        return unknown(r, "decoder", type);
    return LS_OK;
}
