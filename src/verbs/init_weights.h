/* init_weights.h - a trainer's first weights, those of model.init. */
#pragma once
#include "lockstep/trainer.h"
#include "lockstep/weights.h"
#include "recipe/recipe_use.h"

/* ls_trainer_init_from, as the recipe says. If the weights do not fit the model, the message says what to
 * set: model.rename where all names have a prefix (`module.` of DistributedDataParallel), model.reset where a
 * module has another shape, as a head for other classes. Adapters that `w` does not have are new. *base
 * becomes ls_base_digest on rank 0. Collective. */
ls_status ls_init_weights(ls_trainer *t, const ls_recipe *r, const ls_weights *w, uint64_t *base);
