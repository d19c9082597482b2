/* of_recipe.h - makes a generator of a recipe, and of any model. */
#pragma once
#include "ckpt/checkpoint.h"
#include "lockstep/generate.h"
#include "lockstep/recipe.h"
#include "models/generation.h"

/* Makes a generator of the recipe's model, which must be one that generates text (ls_model_makes_text). w
 * NULL: the weights come later, by ls_generator_take_weights. Local. */
ls_status ls_generator_of_recipe(ls_generator **out, const ls_recipe *r, const ls_weights *w,
                                 const ls_generator_opts *o);
/* The same for a model with this description. Local, unless o->group has several ranks. */
ls_status ls_generator_of(ls_generator **out, const ls_generation *model, const ls_weights *w,
                          const ls_generator_opts *o);
/* Copies the weights from whole tensors that have their names and shapes; rounds them to the generator's
 * type. LS_E_SHAPE if one is missing. Local. */
ls_status ls_generator_take_weights(ls_generator *g, const ls_tensor_list *from);
