/* weights_own.h - open weights from inside: weights_open.c fills them, weights.c answers for them. */
#pragma once
#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "ckpt/dcp.h"
#include "ckpt/manifest.h"
#include "lockstep/weights.h"

struct ls_weights {
    ls_arena arena;
    ls_mapping *maps; /* one for each file; NULL if the caller owns the bytes */
    int mapped;
    json_t *metadata;   /* of the first file */
    ls_weight *tensors; /* [room] */
    const ls_weight **by_name;
    int64_t count, room;
    int files;
    bool gguf;                   /* the first file is one of llama.cpp, and `metadata` its keys */
    ls_weights *base;            /* of an adapter: owns the tensors that were joined to it; NULL: none */
    ls_manifest *proof;          /* verifies what is loaded; NULL: nothing is verified */
    const ls_dcp_bytes *objects; /* of the optimizer in a DCP directory */
    int64_t n_objects;
};

/* Parses one file and appends its tensors. */
ls_status ls_weights_add_file(ls_weights *w, const uint8_t *bytes, size_t size, const char *path);
/* Sorts the names. LS_E_FORMAT: two are the same. */
ls_status ls_weights_index(ls_weights *w);
