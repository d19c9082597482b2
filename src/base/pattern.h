/* pattern.h - the paths that a shell pattern names: * ? [...], {a,b} and {000..127}. */
#pragma once
#include <stddef.h>
#include "lockstep/status.h"

/* A short pattern can ask for very much work: {a,b}{a,b}{a,b}..., or a star at each level of the file system.
 * Beyond these limits a pattern is LS_E_USAGE. */
enum {
    LS_PATTERN_BRACES = 4096,   /* patterns after expanding braces */
    LS_PATTERN_NAMES = 1000000, /* names in folders that are compared with the pattern */
};

typedef struct ls_paths {
    char **at;
    size_t n;
} ls_paths;

/* All matching files and folders, in no order. No match is not an error. LS_E_STOPPED if the program is asked
 * to stop; LS_E_MEMORY. */
ls_status ls_pattern_find(ls_paths *out, const char *pattern);
void ls_paths_release(ls_paths *p); /* may be called twice */
