/* step_folder.h - the name of a checkpoint's folder, step-00000468: at least eight digits, more for larger
 * steps. Local; fails never. */
#pragma once

#include <stdint.h>

enum { LS_STEP_FOLDER_ROOM = 32 };

/* Writes and returns the folder's name. */
const char *ls_step_folder(char name[LS_STEP_FOLDER_ROOM], int64_t step);

/* The step of a folder of that name; -1 where it is not exactly what ls_step_folder writes. */
int64_t ls_step_folder_parse(const char *name);
