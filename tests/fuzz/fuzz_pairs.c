/* fuzz_pairs.c - any bytes as a file of pairs, CSV or JSON lines: refused with a message, or pairs that lie
 * inside it, in order, and can be read. */
#include <stdlib.h>
#include <string.h>

#include "data/pair_file.h"
#include "lockstep/tokenizer.h"

#define MUST(e)      \
    do {             \
        if (!(e))    \
            abort(); \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const ls_pair_file *f, const ls_document *pair)
{
    ls_str source = { 0 }, target = { 0 };
    if (ls_pair_file_read(f, pair, &source, &target) == LS_OK)
        MUST(source.len > 3 && target.len > 0 && memcmp(source.data, "s: ", 3) == 0);
    else
        MUST(*ls_error_message());
    ls_str_release(&source);
    ls_str_release(&target);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const ls_pair_names names = { "source", "target", "s: " };
    const ls_text_file text = { .text = (const char *)data, .n = ls_utf8_sound((const char *)data, size) };
    ls_pair_file f;
    ls_document pair;
    size_t end = 0;
    int64_t line = 0;
    bool done = false;
    if (ls_pair_file_begin(&f, &text, "fuzz", &names) != LS_OK)
        return 0;
    while (ls_pair_file_next(&f, &pair, &done) == LS_OK && !done) {
        MUST(pair.begin >= end && pair.n > 0 && pair.begin + pair.n <= text.n && pair.line > line);
        end = pair.begin + pair.n;
        line = pair.line;
        use(&f, &pair);
    }
    return 0;
}
