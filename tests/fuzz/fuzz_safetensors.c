/* fuzz_safetensors.c - any bytes either are a safetensors file, all of whose tensors lie inside it and can be
 * read and written back, or are refused with a message. */
#include <stdlib.h>
#include <string.h>

#include "lockstep/weights.h"

#define MUST(e)      \
    do {             \
        if (!(e))    \
            abort(); \
    } while (0)

static volatile uint8_t keep; /* what was read must be read */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ls_weights *w = NULL;
    ls_status s = ls_weights_open_memory(&w, data, size, "input");
    if (s != LS_OK) {
        MUST(!w && strlen(ls_error_message()) > 0);
        return 0;
    }
    uint64_t total = 0;
    for (int64_t i = 0; i < ls_weights_count(w); i++) {
        const ls_weight *t = ls_weights_at(w, i);
        MUST(ls_weights_find(w, t->name) == t);
        MUST(t->offset <= size && t->bytes <= size - t->offset);
        total += t->bytes;
        uint8_t seen = 0;
        for (uint64_t k = 0; k < t->bytes; k++)
            seen ^= ((const uint8_t *)t->data)[k];
        keep = seen;
        if (!t->loadable)
            continue;
        MUST(t->bytes == ls_type_bytes(&t->type));
        if (ls_dtype_is_float(t->type.dtype)) {
            void *as_f64 = malloc((size_t)ls_type_count(&t->type) * 8 + 1);
            MUST(as_f64 && ls_weight_read(t, LS_F64, as_f64) == LS_OK);
            free(as_f64);
        }
    }
    MUST(total <= size);
    ls_weights_close(&w);
    return 0;
}
