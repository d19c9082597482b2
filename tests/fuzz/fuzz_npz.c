/* fuzz_npz.c - any bytes either are an archive with the array "x", whose elements lie inside them or are
 * inflated, or are refused with a message that names the input. */
#include <stdlib.h>
#include <string.h>

#include "data/array_npz.h"

#define MUST(e)      \
    do {             \
        if (!(e))    \
            abort(); \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ls_npy a;
    void *heap;
    if (ls_npz_find(&a, &heap, data, size, "x", "input") != LS_OK) {
        MUST(strncmp(ls_error_message(), "input: ", 7) == 0 && !heap);
        return 0;
    }
    volatile uint8_t sum = 0;
    MUST(a.bytes == ls_type_bytes(&a.type));
    for (size_t i = 0; i < a.bytes; i++) /* a sanitizer sees a read beyond them */
        sum ^= ((const uint8_t *)a.data)[i];
    (void)sum;
    MUST(heap || a.bytes + (size_t)((const uint8_t *)a.data - data) <= size);
    free(heap);
    return 0;
}
