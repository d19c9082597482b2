/* pattern.h - the paths that a pattern names, as in a shell: * ? [...] and {a,b}. */
#pragma once
#include <stddef.h>
#include "lockstep/status.h"

/* A few characters can ask for a great deal of work, as {a,b}{a,b}{a,b}... or a star for every level of the
 * file system: more of either is LS_E_USAGE. */
enum {
    LS_PATTERN_BRACES = 4096,   /* patterns that braces make */
    LS_PATTERN_NAMES = 1000000, /* names in folders that are compared with the pattern */
};

typedef struct ls_paths {
    char **at;
    size_t n;
} ls_paths;

/* Everything that matches, folders too, in no order. Nothing that matches is no error. LS_E_STOPPED when the
 * program is asked to stop meanwhile; LS_E_MEMORY. */
ls_status ls_pattern_find(ls_paths *out, const char *pattern);
void ls_paths_release(ls_paths *p); /* harmless twice */
