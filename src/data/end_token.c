/* end_token.c - the token that ends a document. */
#include "base/field.h"
#include "data/tokenize.h"

ls_status ls_tokenizer_end(int32_t *out, const ls_tokenizer *t, const char *wanted, const char *name)
{
    static const char *const USUAL[] = { "<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>" };
    *out = *wanted ? ls_tokenizer_id(t, wanted) : -1;
    for (size_t i = 0; i < sizeof USUAL / sizeof USUAL[0] && *out < 0 && !*wanted; i++)
        *out = ls_tokenizer_id(t, USUAL[i]);
    if (*out >= 0)
        return LS_OK;
    if (*wanted)
        return ls_fail_field(LS_E_USAGE, "end_token", "the tokenizer %s has no token %s", name, wanted);
    return ls_fail_field(LS_E_USAGE, "end_token",
                         "name the token that ends a document; the tokenizer %s has none of %s %s %s %s",
                         name, USUAL[0], USUAL[1], USUAL[2], USUAL[3]);
}
