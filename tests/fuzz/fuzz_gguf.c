/* fuzz_gguf.c - any bytes either are a GGUF file, all of whose tensors lie inside it and can be read if their
 * type can be loaded, or are refused with a message. */
#include <stdlib.h>
#include <string.h>

#include "ckpt/gguf.h"

#define MUST(e)      \
    do {             \
        if (!(e))    \
            abort(); \
    } while (0)

static volatile uint8_t keep; /* what was read must be read */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ls_weights *w = NULL;
    if (!ls_gguf_is(data, size))
        return 0; /* fuzz_safetensors's */
    const ls_status s = ls_weights_open_memory(&w, data, size, "input");
    MUST(s == LS_OK || strlen(ls_error_message()) > 0);
    for (int64_t i = 0; w && i < ls_weights_count(w); i++) {
        const ls_weight *t = ls_weights_at(w, i);
        uint8_t seen = 0;
        MUST(t->offset <= size && t->bytes <= size - t->offset);
        for (uint64_t k = 0; k < t->bytes; k++)
            seen ^= ((const uint8_t *)t->data)[k];
        keep = seen;
        if (!t->loadable)
            continue;
        void *values = malloc(t->bytes + 1);
        MUST(t->bytes == ls_type_bytes(&t->type) && values &&
             ls_weight_read(t, t->type.dtype, values) == LS_OK);
        free(values);
    }
    MUST(!w || json_is_object(ls_gguf_keys_of(w)));
    ls_weights_close(&w);
    return 0;
}
