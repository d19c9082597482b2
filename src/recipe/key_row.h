/* key_row.h - how a row of the table of keys is written: for recipe_fields.c, and for model_*.c, which have
 * the rows of the keys that no other family of models has. */
#pragma once
#include "recipe_fields.h"

#define AT(member) .offset = offsetof(ls_recipe, member)
/* The words of a CHOICE at the values of its enum: WORDS([LS_MODE_MIN] = "min", [LS_MODE_MAX] = "max"). */
#define WORDS(...) \
    .words = (const char *const[]) { __VA_ARGS__, NULL }
/* Members of a ls_model_row: the rows of its family's keys. */
#define OWN_KEYS(rows) .own = (rows), .n_own = sizeof(rows) / sizeof *(rows)
#define NEEDS(...) \
    .needs = (const char *const[]) { __VA_ARGS__, NULL }
