/* load.h - loading a recipe from a text, for the tests of this folder. */
#pragma once
#include "recipe/data_row.h"
#include "recipe/model_row.h"
#include "recipe/optim_row.h"
#include "recipe/recipe_fields.h"
#include "support/support.h"

#define MINIMAL "model: {type: vit}\ndata: {type: mnist}\n"

ls_status load(ls_recipe **r, const char *text, int n_sets, const char *const *sets);

ls_status load_set(ls_recipe **r, const char *text, const char *set);

/* The whole text is refused (exit status 2) with a message that contains all of these. */
#define REFUSED(text, ...)                                                     \
    do {                                                                       \
        ls_recipe *refused_ = NULL;                                            \
        ASSERT_FAILS(load(&refused_, text, 0, NULL), LS_E_USAGE, __VA_ARGS__); \
        assert_null(refused_);                                                 \
    } while (0)
#define SET_REFUSED(set, ...)                                                     \
    do {                                                                          \
        ls_recipe *refused_ = NULL;                                               \
        ASSERT_FAILS(load_set(&refused_, MINIMAL, set), LS_E_USAGE, __VA_ARGS__); \
        assert_null(refused_);                                                    \
    } while (0)
