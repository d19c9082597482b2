/* fuzz_npy.c - any bytes either are an .npy array whose elements lie inside them and end with them, or are
 * refused with a message that names the input. */
#include <stdlib.h>
#include <string.h>

#include "data/npy.h"

#define MUST(e)      \
    do {             \
        if (!(e))    \
            abort(); \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ls_npy a;
    if (ls_npy_parse(&a, data, size, "input") != LS_OK) {
        MUST(strncmp(ls_error_message(), "input: ", 7) == 0);
        return 0;
    }
    MUST(a.bytes == ls_type_bytes(&a.type) && (const uint8_t *)a.data + a.bytes == data + size);
    MUST(a.type.ndim <= LS_MAX_DIMS);
    return 0;
}
