/* fuzz_idx.c - any bytes either are an IDX file (plain or gzip, images or labels) whose data lies inside them
 * and has the promised size, or are refused with a message. Plain and inflated bytes must be judged alike. */
#include <stdlib.h>
#include <string.h>

#include "data/idx.h"

#define MUST(e)      \
    do {             \
        if (!(e))    \
            abort(); \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint8_t keep; /* what was read must be read */

static void check_view(const ls_idx *x, const uint8_t *data, size_t size)
{
    uint64_t n = 1;
    for (int i = 0; i < x->rank; i++) {
        MUST(x->dims[i] > 0);
        n *= (uint64_t)x->dims[i];
    }
    MUST(n == x->bytes && x->data >= data && x->bytes <= size - (size_t)(x->data - data));
    uint8_t seen = 0;
    for (size_t i = 0; i < x->bytes; i++)
        seen ^= x->data[i];
    keep = seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int rank = 1; rank <= 3; rank += 2) {
        ls_idx x;
        if (ls_idx_parse(&x, data, size, rank, "input") == LS_OK)
            check_view(&x, data, size);
        else
            MUST(strncmp(ls_error_message(), "input: ", 7) == 0);
        uint8_t *out = NULL;
        size_t n = 0;
        if (ls_idx_inflate(&out, &n, data, size, rank, "input") == LS_OK) {
            MUST(ls_idx_is_gzip(data, size) && ls_idx_parse(&x, out, n, rank, "inflated") == LS_OK);
            check_view(&x, out, n);
        } else {
            MUST(!out && strncmp(ls_error_message(), "input: ", 7) == 0);
        }
        free(out);
    }
    return 0;
}
