/* fuzz_hdf5_header.c - any bytes either are an object header of HDF5 whose sizes agree, or are refused with a
 * message. */
#include <stdlib.h>
#include <string.h>

#include "data/hdf5_header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int BYTES[] = { 8, 4, 1 };
    for (int i = 0; i < 3; i++) {
        const ls_hdf5_bytes file = { data, size, BYTES[i], BYTES[i], "input" };
        ls_hdf5_attributes attributes = { .names = (const char *const[]){ "_FillValue" }, .n = 1 };
        if (ls_hdf5_check_header(&attributes, &file, 0) != LS_OK && strncmp(ls_error_message(), "input: ", 7))
            abort();
    }
    return 0;
}
