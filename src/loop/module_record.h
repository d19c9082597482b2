/* module_record.h - writes to trainer.json which module built the model, and what it built. */
#pragma once
#include "base/json.h"
#include "lockstep/recipe.h"

/* Writes the member "module": name, version, path, digest of the file, digest and text of the graph. Nothing
 * for a model of the library. */
void ls_module_record(ls_json *j, const ls_recipe *r);
/* Appends to `out` the first line in which the graph differs from that in `trainer` (a trainer.json). Another
 * file with the same graph is logged. */
void ls_module_difference(ls_str *out, const json_t *trainer, const ls_recipe *r);
