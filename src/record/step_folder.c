/* step_folder.c - the name of a checkpoint's folder. */
#include "step_folder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *ls_step_folder(char name[LS_STEP_FOLDER_ROOM], int64_t step)
{
    snprintf(name, LS_STEP_FOLDER_ROOM, "step-%08" PRId64, step);
    return name;
}

int64_t ls_step_folder_parse(const char *name)
{
    char again[LS_STEP_FOLDER_ROOM];
    if (strncmp(name, "step-", 5) != 0)
        return -1;
    const int64_t step = strtoll(name + 5, NULL, 10);
    /* Writing the number again must give the same name. This refuses signs, text after the digits, missing
     * zeros and too large a number. */
    return step >= 0 && !strcmp(name, ls_step_folder(again, step)) ? step : -1;
}
