/* find.h - where a relative path of a model or tokenizer is looked for, in this order: the working folder,
 * LOCKSTEP_DATA, the folder `data` of the cache. */
#pragma once
#include "base/str.h"

/* Calls `probe` with the path in each of these folders in turn, and returns the first result that is not
 * NULL. `probe` returns what it found there (malloc'ed) or NULL. An absolute path is the only candidate.
 * NULL: nothing was found. */
char *ls_find(const char *name, char *(*probe)(const char *path));
char *ls_find_any(const char *path); /* a probe for ls_find: accepts any file or folder */
/* Appends the places where ls_find looked: "in this folder, in LOCKSTEP_DATA (/data) and in
 * /home/me/.cache/lockstep/data". Appends nothing for an absolute path. */
void ls_find_places(ls_str *out, const char *name);
