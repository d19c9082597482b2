/* fuzz_tokens.c - any bytes as a file of tokens: refused with a message, or all its documents lie inside it
 * and can be read. Then once more with the hashes put right: they are not secret, and without them nothing
 * would get past. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "data/tokens.h"

#define MUST(e)      \
    do {             \
        if (!(e))    \
            abort(); \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const ls_token_store *t)
{
    for (int64_t i = 0; i < t->footer.documents; i++)
        for (int64_t at = ls_tokens_begin(t, i); at < t->ends[i]; at++) {
            int32_t id;
            MUST(!ls_tokens_read(t, at, 1, &id) || (id >= 0 && id < t->footer.vocabulary));
        }
}

static void parse(const uint8_t *data, size_t size, uint64_t key)
{
    ls_token_store t;
    if (ls_tokens_parse(&t, data, size, key, "input") == LS_OK)
        use(&t);
    else
        MUST(strncmp(ls_error_message(), "input: ", 7) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ls_token_footer f;
    parse(data, size, 7);
    if (size < sizeof f)
        return 0;
    uint8_t *copy = malloc(size);
    memcpy(copy, data, size);
    memcpy(&f, copy + size - sizeof f, sizeof f);
    const uint64_t table = (uint64_t)f.documents * 8;
    if (f.documents > 0 && table <= (size - sizeof f) / 2) {
        f.ends_hash = ls_hash64(copy + size - sizeof f - 2 * table, table);
        f.rows_hash = ls_hash64(copy + size - sizeof f - table, table);
    }
    f.hash = ls_hash64(&f, offsetof(ls_token_footer, hash));
    memcpy(copy + size - sizeof f, &f, sizeof f);
    parse(copy, size, f.key);
    free(copy);
    return 0;
}
