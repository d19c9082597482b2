/* data_record.h - writes to trainer.json the data and the tokenizer of a run, and compares other data with
 * it. */
#pragma once
#include "base/json.h"
#include "base/str.h"
#include "lockstep/data.h"
#include "lockstep/group.h"

/* Writes the member "data": for each split a digest of its samples, and path and digest of each file. `eval`
 * NULL: the run does not evaluate. */
void ls_data_record(ls_json *j, const ls_dataset *train, const ls_dataset *eval);

/* Checks that all ranks have the same samples, because each host looks for the data itself. LS_E_USAGE on the
 * first rank whose samples differ from those of rank 0, LS_E_PEER on the others. Either set may be NULL. g
 * NULL: one rank. Collective. */
ls_status ls_data_agree(ls_group *g, const ls_dataset *train, const ls_dataset *eval);

/* Appends to `out` how `set` differs from the same split in `trainer` (a trainer.json): the built-in shapes
 * on one side only, other files, more or fewer samples. Appends nothing if they are equal, or if either has
 * no digest. Returns false if they differ, or if the split is not recorded. */
bool ls_data_difference(ls_str *out, const json_t *trainer, const ls_dataset *set);
/* The same for the tokenizer: compares digests of its content; `path` is for the message. */
void ls_tokenizer_difference(ls_str *out, const json_t *trainer, const char *path, uint64_t digest);
/* The same for the tokenizer of `set`, if it has one. */
void ls_data_tokenizer_difference(ls_str *out, const json_t *trainer, const ls_dataset *set);
/* Appends how the data and the tokenizer of two checkpoints differ, by their trainer.json. Appends nothing
 * where they are the same, or where one has no digest. */
void ls_data_records_differ(ls_str *out, const json_t *here, const json_t *there);
