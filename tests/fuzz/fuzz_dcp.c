/* fuzz_dcp.c - any bytes either are the index of a DCP directory, whose chunks are every element of each
 * tensor once, or are refused with a message. */
#include <stdlib.h>
#include <string.h>

#include "ckpt/dcp.h"

#define MUST(e)      \
    do {             \
        if (!(e))    \
            abort(); \
    } while (0)

/* Small tensors element by element: in one box each. */
static void count_elements(const ls_dcp_tensor *t)
{
    const int64_t n = ls_type_count(&t->type);
    uint8_t *seen = calloc((size_t)n + 1, 1);
    for (int64_t k = 0; k < t->n; k++) {
        const ls_box_rows rows = ls_box_rows_of(&t->chunks[k].box);
        for (int64_t r = 0; r < rows.n; r++)
            for (int64_t i = 0; i < rows.length; i++) {
                const int64_t at = ls_box_row(&rows, r) + i;
                MUST(at >= 0 && at < n && !seen[at]++);
            }
    }
    MUST(n == 0 || !memchr(seen, 0, (size_t)n));
    free(seen);
}

static void read_index(const uint8_t *data, size_t size, const ls_dcp_ask *ask)
{
    ls_arena arena;
    ls_dcp_index x;
    ls_arena_init(&arena);
    if (ls_dcp_index_read(&x, &arena, data, size, "input", ask) != LS_OK) {
        MUST(strlen(ls_error_message()) > 0);
        ls_arena_release(&arena);
        return;
    }
    for (int64_t i = 0; i < x.n; i++) {
        const ls_dcp_tensor *t = &x.tensors[i];
        MUST(strlen(t->name) > 0 && t->stored);
        for (int64_t k = 0; k < t->n; k++) {
            MUST(t->chunks[k].at.file >= 0 && t->chunks[k].at.file < x.n_files &&
                 ls_box_inside(&t->chunks[k].box));
            MUST(!strchr(x.files[t->chunks[k].at.file], '/'));
        }
        if (ls_type_count(&t->type) < 1 << 12)
            count_elements(t);
    }
    for (int64_t i = 0; i < x.n_objects; i++)
        MUST(strlen(x.objects[i].name) > 0 && x.objects[i].at.file >= 0 && x.objects[i].at.file < x.n_files);
    ls_arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const NAMES[] = { "a", "b" };
    read_index(data, size, NULL);
    read_index(data, size, &(ls_dcp_ask){ .prefix = "app." });
    read_index(data, size, &(ls_dcp_ask){ .optimizer = true, .n = 2, .parameters = NAMES });
    return 0;
}
