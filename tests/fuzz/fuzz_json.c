/* fuzz_json.c - any bytes as JSON: refused with a message, or a tree. */
#include <stdlib.h>
#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *tree = NULL;
    if (ls_json_parse(&tree, (const char *)data, size, "fuzz.json") != LS_OK)
        return *ls_error_message() ? 0 : (abort(), 0);
    json_decref(tree);
    return 0;
}
