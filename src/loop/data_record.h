/* data_record.h - what trainer.json says of the data and the tokenizer that a run was trained on, and how
 * other data differs from it. */
#pragma once
#include "base/json.h"
#include "base/str.h"
#include "lockstep/data.h"
#include "lockstep/group.h"

/* The member "data": of each split a digest of its samples, and file by file path and digest. `eval` NULL:
 * the run does not evaluate. */
void ls_data_record(ls_json *j, const ls_dataset *train, const ls_dataset *eval);

/* Hosts look for the data each for itself: LS_E_USAGE on the first rank whose samples are not those of rank
 * 0, LS_E_PEER on the others. Either set may be NULL, and so may g: one rank. Collective. */
ls_status ls_data_agree(ls_group *g, const ls_dataset *train, const ls_dataset *eval);

/* Appends to `out` how `set` differs from what `trainer` (a trainer.json) recorded of the same split: the
 * built-in shapes on one side only, other files, more or fewer samples. Nothing where they are the same, or
 * where either has no digest. Returns false where they differ, and where the split is not recorded. */
bool ls_data_difference(ls_str *out, const json_t *trainer, const ls_dataset *set);
/* The same of the tokenizer: the file and its digest; what is compared is its content. */
void ls_tokenizer_difference(ls_str *out, const json_t *trainer, const char *path, uint64_t digest);
/* Of a set's own tokenizer; nothing for a set without one. */
void ls_data_tokenizer_difference(ls_str *out, const json_t *trainer, const ls_dataset *set);
