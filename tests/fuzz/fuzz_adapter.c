/* fuzz_adapter.c - any bytes as adapter_config.json: refused with a message, or settings that are in range.
 */
#include <stdlib.h>
#include "ckpt/adapter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ls_adapter x;
    ls_arena a;
    ls_arena_init(&a);
    if (ls_adapter_parse(&x, &a, (const char *)data, size, "adapter_config.json") != LS_OK) {
        if (!*ls_error_message())
            abort();
    } else if (x.rank < 1 || !(x.alpha > 0) || !(x.dropout >= 0 && x.dropout < 1) || !*x.targets || !x.base)
        abort();
    ls_arena_release(&a);
    return 0;
}
