/* find.h - where a relative path of a model or tokenizer is looked for, in this order: the working folder,
 * LOCKSTEP_DATA, the cache's folder `data`; for a name of Hugging Face's hub, OWNER/NAME, also the folder
 * NAME in LOCKSTEP_DATA, and the hub's cache (hub_cache.h). */
#pragma once
#include "base/str.h"

/* Finds what is at one path: malloc'ed, or NULL if nothing is there. LS_E_MEMORY. */
typedef ls_status (*ls_probe)(char **out, const char *path);
/* Calls `probe` with the path in each of these folders in turn; *out is the first result that is not NULL.
 * NULL: nothing was found. An absolute path is the only candidate. LS_E_MEMORY. */
ls_status ls_find(char **out, const char *name, ls_probe probe);
ls_status ls_find_any(char **out, const char *path); /* a probe for ls_find: accepts any file or folder */
/* Appends the places where ls_find looked: "in this folder, in LOCKSTEP_DATA (/data) and in
 * /home/me/.cache/lockstep/data". Appends nothing for an absolute path. */
void ls_find_places(ls_str *out, const char *name);
