/* fuzz_csv.c - any bytes either are a table with the columns "a" and "b", or are refused with a message that
 * names the input. */
#include <stdlib.h>
#include <string.h>

#include "data/array_csv.h"

#define MUST(e)      \
    do {             \
        if (!(e))    \
            abort(); \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const NAMES[] = { "a", "b" };
    double *numbers = NULL;
    int64_t rows = 0;
    if (ls_csv_numbers(&numbers, &rows, (const char *)data, size, 2, NAMES, "input") != LS_OK) {
        MUST(strncmp(ls_error_message(), "input", 5) == 0 && !numbers);
        return 0;
    }
    MUST(rows >= 0 && (size_t)rows <= size);
    volatile double sum = 0;
    for (int64_t i = 0; i < 2 * rows; i++)
        sum += numbers[i];
    (void)sum;
    free(numbers);
    return 0;
}
