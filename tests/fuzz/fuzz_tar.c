/* fuzz_tar.c - any bytes either are tar headers with files that lie inside, or are refused with a message. */
#include <stdlib.h>
#include <string.h>

#include "data/tar.h"

#define MUST(e)      \
    do {             \
        if (!(e))    \
            abort(); \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint8_t keep; /* what was read must be read */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ls_tar t = { .p = data, .n = size, .what = "input" };
    ls_tar_file f;
    bool end = false;
    size_t before = 0;
    uint8_t seen = 0;
    while (!end) {
        if (ls_tar_next(&t, &f, &end) != LS_OK) {
            MUST(strncmp(ls_error_message(), "input: ", 7) == 0);
            break;
        }
        MUST(end || (f.name && f.offset <= size && f.size <= size - f.offset && f.offset > before));
        before = end ? 0 : f.offset; /* so the loop ends */
        for (size_t i = 0; !end && i < f.size; i++)
            seen ^= data[f.offset + i];
    }
    keep = seen;
    ls_str_release(&t.name);
    return 0;
}
