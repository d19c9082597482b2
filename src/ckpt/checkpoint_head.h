/* checkpoint_head.h - the head of trainer.json: the keys that every checkpoint has. The loop of a recipe, a
 * user's program and ls_arrays_save write it, and each adds its own keys after it. */
#pragma once
#include "base/json.h"
#include "lockstep/types.h"

typedef struct ls_checkpoint_head {
    int64_t step;       /* finished steps; -1: not known */
    int64_t last_epoch; /* of the last of them, or of a program's report; -1: not known */
    int64_t world;      /* ranks that saved it */
    int n_metrics;
    const ls_metric *metrics; /* [n_metrics]; only for writing */
    const char *text;         /* of a user's program; NULL: "" */
} ls_checkpoint_head;

/* Writes its members to the open object: step, last_epoch, world, version, metrics, text. */
void ls_checkpoint_head_write(ls_json *j, const ls_checkpoint_head *h);
/* A trainer.json that has nothing else; malloc'ed. NULL: no memory. */
char *ls_checkpoint_head_json(const ls_checkpoint_head *h);
/* Reads them, also as older versions wrote them; `text` belongs to the tree. `metrics` is left out. */
void ls_checkpoint_head_read(ls_checkpoint_head *out, const json_t *trainer);
