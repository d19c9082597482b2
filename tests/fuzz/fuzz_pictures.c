/* fuzz_pictures.c - any bytes either are a CSV list of pictures, with labels or with values, or are refused
 * with a message that names the file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/image_list.h"

#define MUST(e)      \
    do {             \
        if (!(e))    \
            abort(); \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[64];
    if (!*path)
        snprintf(path, sizeof path, "/tmp/lockstep-fuzz-pictures-%d.csv", (int)getpid());
    FILE *f = fopen(path, "wb");
    MUST(f && fwrite(data, 1, size, f) == size && fclose(f) == 0);
    for (int values = 0; values < 2; values++) {
        ls_image_list l = { 0 };
        const ls_image_source from = { .split = path, .values = values };
        ls_arena_init(&l.arena);
        if (ls_image_table(&l, &from) == LS_OK) {
            MUST(l.n > 0 && (values ? l.classes == 0 : l.classes > 0));
            for (int64_t i = 0; i < l.n; i++)
                MUST(*l.at[i].name && l.at[i].label >= 0 && (values || l.at[i].label < l.classes) &&
                     l.at[i].shard == -1);
        } else {
            MUST(strstr(ls_error_message(), path));
        }
        ls_image_list_release(&l);
    }
    unlink(path);
    return 0;
}
