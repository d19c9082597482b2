/* fuzz_pt.c - any bytes either are a file of torch.save, all of whose tensors lie inside it and can be read,
 * or are refused with a message. */
#include <stdlib.h>
#include <string.h>

#include "ckpt/pt.h"

#define MUST(e)      \
    do {             \
        if (!(e))    \
            abort(); \
    } while (0)

static volatile uint8_t keep; /* what was read must be read */

/* Elements from the first to the last one that the strides reach. */
static uint64_t span(const ls_weight *t)
{
    uint64_t last = 0;
    for (int i = 0; i < t->type.ndim; i++)
        last += (uint64_t)((t->type.dims[i] - 1) * t->strides[i]);
    return last + 1;
}

static void read_through(const ls_weight *t, size_t size)
{
    const uint64_t count = (uint64_t)ls_type_count(&t->type), each = count ? t->bytes / count : 0,
                   bytes = t->strides ? span(t) * each : t->bytes;
    MUST(t->stored && each * count == t->bytes);
    MUST(t->offset <= size && bytes <= size - t->offset);
    uint8_t seen = 0;
    for (uint64_t k = 0; k < bytes; k++)
        seen ^= ((const uint8_t *)t->data)[k];
    keep = seen;
    if (!t->loadable || ls_type_count(&t->type) > 1 << 16) /* a stride of 0 makes much of little */
        return;
    MUST(t->bytes == ls_type_bytes(&t->type));
    ls_dtype to = ls_dtype_is_float(t->type.dtype) ? LS_F64 : t->type.dtype;
    void *values = malloc((size_t)ls_type_count(&t->type) * ls_dtype_size(to) + 1);
    MUST(values && ls_weight_read(t, to, values) == LS_OK);
    free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!ls_pt_is(data, size))
        return 0; /* fuzz_safetensors's */
    ls_weights *w = NULL;
    ls_status s = ls_weights_open_memory(&w, data, size, "input");
    if (s != LS_OK) {
        MUST(!w && strlen(ls_error_message()) > 0);
        return 0;
    }
    for (int64_t i = 0; i < ls_weights_count(w); i++) {
        const ls_weight *t = ls_weights_at(w, i);
        MUST(ls_weights_find(w, t->name) == t);
        read_through(t, size);
    }
    ls_weights_close(&w);
    return 0;
}
