/* step_folder.h - the name of a checkpoint's folder, step-00000468: eight digits, or more for larger steps.
 */
#pragma once

#include <stdint.h>

enum { LS_STEP_FOLDER_ROOM = 32 };

/* Writes and returns the folder's name. */
const char *ls_step_folder(char name[LS_STEP_FOLDER_ROOM], int64_t step);

/* The step of a folder of this name; -1: ls_step_folder never writes this name. */
int64_t ls_step_folder_parse(const char *name);
