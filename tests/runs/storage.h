/* storage.h - a folder of runs for the tests of this folder. */
#pragma once
#include "base/file.h"
#include "golden/training.h"
#include "lockstep/run.h"
#include "record/rundir.h"

extern char storage[512];

int open_storage(void **state);

char *file_of_run(const char *run, const char *name);

enum { ROWS = 7, COLUMNS = 3 };
typedef struct block {
    double rows[ROWS][COLUMNS], offset;
    ls_shard shards[2];
} block;

ls_run_contents dealt_block(block *b, ls_group *g, int64_t step, const char *text);

bool same_rows(const block *a, const block *b, ls_group *g);
