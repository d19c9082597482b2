/* fuzz_s3.c - any text as the answer of an S3 server: refused with a message, or a list of objects and the
 * failure that an error is. */
#include <stdlib.h>
#include <string.h>
#include "net/s3_answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = calloc(1, size + 1), *token = NULL;
    if (!text)
        return 0;
    memcpy(text, data, size);
    ls_s3_list list = { 0 };
    if (ls_s3_read_list(&list, &token, text, "runs/", "fuzz") != LS_OK && !*ls_error_message())
        abort();
    for (size_t i = 0; i < list.n; i++)
        if (list.at[i].bytes < 0 || !list.at[i].key)
            abort();
    ls_s3_list_release(&list);
    if (ls_s3_refusal("bucket", "runs/", NULL, "list", 403, text) == LS_OK)
        abort();
    free(token);
    free(text);
    return 0;
}
