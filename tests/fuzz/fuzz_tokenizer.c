/* fuzz_tokenizer.c - any bytes as a tokenizer.json: refused with a message, or a tokenizer that encodes text,
 * also the bytes themselves, and decodes what comes out. */
#include <stdlib.h>
#include <string.h>
#include "text/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const ls_tokenizer *t, const char *text, size_t n)
{
    ls_tokens ids = { 0 };
    char *again;
    size_t bytes;
    if (ls_tokenizer_encode(t, text, n, true, &ids) == LS_OK &&
        ls_tokenizer_decode(t, ids.ids, ids.n, false, &again, &bytes) == LS_OK)
        free(again);
    free(ids.ids);
    /* with the bytes of each token: the same ids, in ranges of the text; and with text that stays plain */
    for (int64_t plain = 0; plain < 2; plain++) {
        const ls_text_range all = { (int64_t)n / 3, (int64_t)n };
        ls_tokens some = { 0 };
        ls_text_ranges at = { 0 };
        if (ls_tokenizer_encode_ranges(t, text, n, true, plain, &all, &some, &at) == LS_OK && some.n != at.n)
            abort();
        for (int64_t i = 0; i < at.n; i++)
            if (at.at[i].begin < 0 || at.at[i].end < at.at[i].begin || at.at[i].end > (int64_t)n)
                abort();
        free(some.ids);
        free(at.at);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *tree = NULL;
    if (ls_json_parse(&tree, (const char *)data, size, "fuzz.json") != LS_OK)
        return 0;
    ls_tokenizer *t = calloc(1, sizeof *t);
    ls_arena_init(&t->arena);
    if (ls_tokenizer_read(t, tree, "fuzz.json") == LS_OK) {
        use(t, (const char *)data, size < 400 ? size : 400);
        use(t, "a ab  c\xc3\xa9 <x>", 13);
    } else if (!*ls_error_message()) {
        abort();
    }
    ls_tokenizer_close(&t);
    json_decref(tree);
    return 0;
}
