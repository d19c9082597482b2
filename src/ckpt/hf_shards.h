/* hf_shards.h - a folder that PyTorch's HuggingFaceStorageWriter filled with save_distributed=True: files
 * shard-RANK-model-FILE-of-FILES.safetensors, numbers from 1 on. Each has one rank's local shards of the
 * tensors. Its __metadata__ has in DCP_SHARDING_INFO, for each tensor, the first element of that block in
 * every dimension: {"NAME": {"saved_offsets": [3, 0]}}. No file has the shape of the whole. Private to
 * src/ckpt. */
#pragma once
#include "base/arena.h"
#include "base/json.h"
#include "lockstep/weights.h"

typedef struct ls_hf_shard {
    const char *path;
    ls_weight *list; /* its n tensors */
    int64_t n;
    json_t *metadata; /* NULL: it has none */
} ls_hf_shard;

/* The names of such files in a folder, sorted; *n 0: there are none. LS_E_FORMAT: some of them are missing.
 */
ls_status ls_hf_shard_names(const char ***names, int *n, ls_arena *arena, const char *dir);
/* Whether the file has one rank's part of a checkpoint only. */
ls_status ls_hf_shard_is(bool *is, const char *path, const json_t *metadata);
/* Joins the files of all ranks to whole tensors, in the order of the files. The shape of a tensor is as far
 * as its blocks reach. LS_E_FORMAT: they are not each element once. */
ls_status ls_hf_shards_join(ls_weight **out, int64_t *count, ls_arena *arena, const ls_hf_shard *files,
                            int n_files, const char *dir);
