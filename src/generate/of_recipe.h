/* of_recipe.h - makes a generator of a recipe. */
#pragma once
#include "lockstep/generate.h"
#include "lockstep/recipe.h"

/* The recipe's model must be one that makes text (ls_model_makes_text). Local. */
ls_status ls_generator_of_recipe(ls_generator **out, const ls_recipe *r, const ls_weights *w,
                                 const ls_generator_opts *o);
