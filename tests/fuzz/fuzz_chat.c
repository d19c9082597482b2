/* fuzz_chat.c - any bytes as a line of a file of conversations: refused with a message, or ids below the
 * vocabulary with a target or none each. */
#include <stdlib.h>
#include <string.h>

#include "data/chat.h"

#define MUST(e)      \
    do {             \
        if (!(e))    \
            abort(); \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const ls_chat *c, const json_t *line, ls_train_on train_on)
{
    ls_chat_tokens t = { 0 };
    if (ls_chat_encode(c, line, train_on, &t) != LS_OK)
        MUST(*ls_error_message());
    else
        for (int64_t k = 0; k < t.ids.n; k++)
            MUST(t.ids.ids[k] >= 0 && t.ids.ids[k] <= 256 && t.targets[k] <= 1 &&
                 (train_on != LS_TRAIN_ON_ALL || t.targets[k] == 1));
    ls_chat_tokens_release(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static ls_tokenizer *t;
    static ls_chat *c;
    json_t *line = NULL;
    if (!t) {
        MUST(ls_tokenizer_open(&t, "bytes") == LS_OK);
        MUST(ls_chat_make(&c, t, "bytes", "bytes",
                          &(ls_chat_options){ LS_CHAT_DEFAULTS, .template = "chatml" }) == LS_OK);
    }
    if (ls_json_parse(&line, (const char *)data, size, "fuzz") != LS_OK)
        return 0;
    for (int k = LS_TRAIN_ON_ASSISTANT; k <= LS_TRAIN_ON_ALL; k++)
        use(c, line, (ls_train_on)k);
    json_decref(line);
    return 0;
}
