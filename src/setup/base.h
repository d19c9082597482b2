/* base.h - the base of a run: the frozen weights that its checkpoints leave in model.init
 * (ls_recipe_leaves_base), of adapters or with checkpoint.frozen: reference. trainer.json has a digest of
 * them, so nobody continues with others. */
#pragma once
#include "base/json.h"
#include "ckpt/checkpoint.h"
#include "lockstep/recipe.h"
#include "step/compile.h"

/* The digest of the tensors that the recipe freezes. 0: it leaves no base. */
ls_status ls_base_digest(uint64_t *out, const ls_weights *w, const ls_recipe *r);
/* Writes it to the open object of trainer.json; nothing if it is 0. */
void ls_base_record(ls_json *j, const ls_recipe *r, uint64_t digest);
/* The text of adapter_config.json; malloc'ed. *out NULL: the run has no adapters, or no base. Local. */
ls_status ls_base_adapter_text(char **out, const ls_recipe *r, const ls_units *u);

/* Whether a run may continue from the checkpoint: the weights that its own checkpoints will leave in
 * model.init are those of model.init. LS_E_USAGE: they are not. Local. */
ls_status ls_base_check(const ls_checkpoint *c, const ls_recipe *r, const ls_units *u);
/* Gives c->weights of a checkpoint without its frozen weights those of its base; does nothing to another one.
 * The base is checkpoint.base, else model.init of the recipe, else what adapter_config.json names, the first
 * that is there. *digest (may be NULL): of the base. LS_E_USAGE: it is nowhere, or has changed since the
 * checkpoint was saved. Collective; g NULL: one rank. */
ls_status ls_base_join(ls_checkpoint *c, const ls_recipe *r, ls_group *g, uint64_t *digest);
/* The same, and merges adapters into it. */
ls_status ls_base_merge(ls_checkpoint *c, const ls_recipe *r);
