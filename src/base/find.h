/* find.h - where a recipe's relative paths of models and tokenizers are looked for, in this order: the
 * working folder, LOCKSTEP_DATA, the cache's folder `data`. */
#pragma once
#include "base/str.h"

/* The first of these places for which `probe` returns a path; malloc'ed, NULL: none. `probe` gets one
 * candidate and returns what is there, malloc'ed, or NULL. An absolute path is its own only candidate. */
char *ls_find(const char *name, char *(*probe)(const char *path));
char *ls_find_any(const char *path); /* a probe: any file or folder */
/* Appends where ls_find has looked: "in this folder, in LOCKSTEP_DATA (/data) and in
 * /home/me/.cache/lockstep/data"; nothing for an absolute path. */
void ls_find_places(ls_str *out, const char *name);
