/* value_list.h - KEY=VALUE,VALUE,... of a command line: several values of one key of a recipe. */
#pragma once
#include "lockstep/status.h"

typedef struct ls_value_list {
    char *key;
    int n, cap;
    char **values;
} ls_value_list;

/* Commas inside brackets and quotes belong to a value. `option` begins the messages, and `example` is what
 * they show. LS_E_USAGE: no key, or an empty value. To be released, also after an error. Local. */
ls_status ls_value_list_read(ls_value_list *out, const char *option, const char *text, const char *example);
void ls_value_list_release(ls_value_list *l);
