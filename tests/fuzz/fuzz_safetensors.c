/* fuzz_safetensors.c - any bytes either are a safetensors file, all of whose tensors lie inside it and can be
 * read and written back, or are refused with a message. And the two halves of them either are the files of
 * two ranks, whose tensors can be joined and read, or are refused. */
#include <stdlib.h>
#include <string.h>

#include "ckpt/hf_shards.h"
#include "ckpt/parts.h"
#include "ckpt/safetensors.h"

#define MUST(e)      \
    do {             \
        if (!(e))    \
            abort(); \
    } while (0)

static volatile uint8_t keep; /* what was read must be read */

static void join_halves(const uint8_t *data, size_t size)
{
    ls_arena arena;
    ls_hf_shard files[2] = { { .path = "first" }, { .path = "second" } };
    ls_weight *list = NULL;
    int64_t n = 0;
    ls_status s = LS_OK;
    ls_arena_init(&arena);
    for (int i = 0; i < 2 && s == LS_OK; i++) {
        const size_t begin = i ? size / 2 : 0, end = i ? size : size / 2;
        s = ls_safetensors_parse(&arena, data + begin, end - begin, files[i].path, &files[i].list,
                                 &files[i].n, &files[i].metadata);
        bool shard;
        if (s == LS_OK)
            s = ls_hf_shard_is(&shard, files[i].path, files[i].metadata);
    }
    if (s == LS_OK)
        s = ls_hf_shards_join(&list, &n, &arena, files, 2, "folder");
    MUST(s == LS_OK || strlen(ls_error_message()) > 0);
    for (int64_t i = 0; i < n && s == LS_OK; i++) {
        const ls_weight *t = &list[i];
        MUST(t->bytes <= size && (t->parts || t->data));
        for (int64_t k = 0; t->parts && k < t->parts->n; k++)
            MUST(ls_box_inside(&t->parts->at[k].box));
        if (!t->loadable)
            continue;
        MUST(t->bytes == ls_type_bytes(&t->type));
        void *values = malloc(t->bytes + 1);
        MUST(values && ls_weight_read(t, t->type.dtype, values) == LS_OK);
        free(values);
    }
    for (int i = 0; i < 2; i++)
        json_decref(files[i].metadata);
    ls_arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ls_weights *w = NULL;
    join_halves(data, size);
    ls_status s = ls_weights_open_memory(&w, data, size, "input");
    if (s != LS_OK) {
        MUST(!w && strlen(ls_error_message()) > 0);
        return 0;
    }
    uint64_t total = 0;
    for (int64_t i = 0; i < ls_weights_count(w); i++) {
        const ls_weight *t = ls_weights_at(w, i);
        MUST(ls_weights_find(w, t->name) == t);
        if (t->parts) { /* a weight of 4 bits, whose numbers take more bytes than the file */
            uint8_t first[8];
            MUST(!t->loadable || ls_weight_read_range(t, LS_F64, 0, 1, first) == LS_OK);
            void *all = t->loadable ? malloc((size_t)ls_type_count(&t->type) * 4 + 1) : NULL;
            MUST(!all || ls_weight_read(t, LS_F32, all) == LS_OK);
            free(all);
            continue;
        }
        MUST(t->offset <= size && t->bytes <= size - t->offset);
        total += t->bytes;
        uint8_t seen = 0;
        for (uint64_t k = 0; k < t->bytes; k++)
            seen ^= ((const uint8_t *)t->data)[k];
        keep = seen;
        if (!t->loadable)
            continue;
        MUST(t->bytes == ls_type_bytes(&t->type));
        if (ls_dtype_is_float(t->type.dtype)) {
            void *as_f64 = malloc((size_t)ls_type_count(&t->type) * 8 + 1);
            MUST(as_f64 && ls_weight_read(t, LS_F64, as_f64) == LS_OK);
            free(as_f64);
        }
    }
    MUST(total <= size);
    ls_weights_close(&w);
    return 0;
}
