/* field.h - which option a failure is about. A function that takes options in a struct (ls_parallel,
 * ls_trainer_opts, ls_text_options, ls_order) refuses a value with ls_fail_field. Its message begins with the
 * member's name ("units: ..."), because a C program has written that name. If a recipe filled the struct, the
 * caller asks ls_error_field for the name and puts the recipe's key and line in its place. The table in
 * recipe/recipe_setting.c says which key that is; recipe.table compares it with the names in the sources. */
#pragma once
#include "lockstep/status.h"

/* ls_fail with the message "OPTION: ...". `option` is a literal, the member's name: "units". Local. */
ls_status ls_fail_field(ls_status code, const char *option, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The option whose name begins this thread's latest message; NULL: none does. Local. */
const char *ls_error_field(void);
