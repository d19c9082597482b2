/* folder.h - a new folder as a transaction: it is filled under a temporary name, and renamed when it is
 * complete. Private to src/ckpt. */
#pragma once
#include "lockstep/status.h"

#define LS_UNFINISHED ".lockstep-unfinished-" /* temporary names begin with this */
#define LS_REPLACED ".lockstep-replaced-"     /* so does the name of a folder that makes way for a new one */

typedef struct ls_folder {
    char *dir, *parent, *name; /* PATH without trailing slashes, and its two parts */
    char *unfinished;          /* PARENT/LS_UNFINISHED NAME, the temporary name */
    bool begun;                /* the temporary folder exists; ls_folder_release removes it */
    bool replace;              /* an old PATH is deleted when the new one is complete */
} ls_folder;

ls_status ls_folder_init(ls_folder *f, const char *path); /* LS_E_MEMORY; release it then, too */
/* Makes the parent, and a new temporary folder. LS_E_IO if PATH exists, unless it may be replaced. */
ls_status ls_folder_begin(ls_folder *f);
ls_status ls_folder_commit(ls_folder *f); /* renames it; its files must be on disk */
void ls_folder_release(ls_folder *f);

/* Ends a replacement that was interrupted: the old folder NAME has its name again, unless there is a new one;
 * then it is deleted. */
void ls_folder_settle(const char *parent, const char *name);
/* Reports nothing. What cannot be deleted is reported when its name is needed again. */
void ls_remove_tree(const char *path);
ls_status ls_sync_folder(const char *path);
