/* storage.c - see storage.h. */
#include "runs/storage.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "ckpt/checkpoint.h"
#include "support/support.h"

char storage[512];

int open_storage(void **state)
{
    (void)state;
    if (ls_dir_exists("/dev/shm"))
        setenv("TMPDIR", "/dev/shm", 1); /* thousands of fsync that test nothing */
    snprintf(storage, sizeof storage, "%s", ls_test_path("storage"));
    return 0;
}

char *file_of_run(const char *run, const char *name)
{
    char path[1200], *text;
    size_t size;
    snprintf(path, sizeof path, "%s/%s/%s", storage, run, name);
    ASSERT_OK(ls_file_read(&text, &size, path));
    return text;
}

ls_run_contents dealt_block(block *b, ls_group *g, int64_t step, const char *text)
{
    const int rank = ls_group_rank(g), ranks = ls_group_size(g), first = ROWS * rank / ranks,
              end = ROWS * (rank + 1) / ranks;
    for (int i = first; i < end; i++)
        for (int k = 0; k < COLUMNS; k++)
            b->rows[i][k] = (double)(100 * step + 10 * i + k);
    b->offset = (double)step / 3;
    b->shards[0] = (ls_shard){ "field", LS_TYPE(LS_F64, ROWS, COLUMNS), (int64_t)first * COLUMNS,
                               (int64_t)(end - first) * COLUMNS, b->rows[first] };
    b->shards[1] = (ls_shard){ "offset", LS_SCALAR(LS_F64), 0, rank == 0, &b->offset };
    return (ls_run_contents){ .shards = b->shards, .n = 2, .text = text };
}

bool same_rows(const block *a, const block *b, ls_group *g)
{
    const int rank = ls_group_rank(g), ranks = ls_group_size(g), first = ROWS * rank / ranks,
              end = ROWS * (rank + 1) / ranks;
    return memcmp(a->rows[first], b->rows[first], sizeof a->rows[0] * (size_t)(end - first)) == 0;
}
