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
    static const long ANSWERS[] = { 200, 301, 403, 507 };
    for (int i = 0; i < 4; i++)
        if (ls_s3_refusal("bucket", "runs/", NULL, "list", &(ls_http){ .answer = ANSWERS[i] }, text) == LS_OK)
            abort();
    ls_s3_part upload, rest = { text, text + strlen(text) };
    while (ls_s3_next(&upload, &rest, "Upload"))
        free(ls_s3_element_of(upload, "Key"));
    free(token);
    free(text);
    return 0;
}
