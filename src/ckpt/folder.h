/* folder.h - a new folder as a transaction: filled under a name that nobody reads, and renamed when it is
 * whole. Private to src/ckpt. */
#pragma once
#include "lockstep/status.h"

#define LS_UNFINISHED ".lockstep-unfinished-" /* what a name that nobody reads begins with */

typedef struct ls_folder {
    char *dir, *parent, *name; /* PATH without trailing slashes, cut into parent and name */
    char *unfinished;          /* PARENT/LS_UNFINISHED NAME, to be filled */
    bool begun;                /* that is there, and goes with ls_folder_release */
    bool replace;              /* an old PATH is deleted when the new one is whole */
} ls_folder;

ls_status ls_folder_init(ls_folder *f, const char *path); /* LS_E_MEMORY; to be released then too */
/* makes the parent, and the unfinished folder anew. LS_E_IO where something has the name already, unless it
 * may be replaced */
ls_status ls_folder_begin(ls_folder *f);
ls_status ls_folder_commit(ls_folder *f); /* its files are on disk: it gets its name */
void ls_folder_release(ls_folder *f);

/* says nothing: what cannot be deleted is met again, with a message, when its name is needed */
void ls_remove_tree(const char *path);
ls_status ls_sync_folder(const char *path);
