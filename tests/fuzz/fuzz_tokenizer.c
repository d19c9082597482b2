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
