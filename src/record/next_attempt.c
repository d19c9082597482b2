/* next_attempt.c - see next_attempt.h. Removing the file is what decides: on a network file system a host may
 * not see at once what another has removed, but the server lets only one of them do it. */
#include "next_attempt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/sys.h"

static char *next_path_of(const char *run_dir) { return ls_path_join(run_dir, "next.txt"); }

ls_status ls_next_attempt_tell(const char *run_dir, const char *text)
{
    char *path = next_path_of(run_dir);
    ls_status s = ls_sys_have(path);
    if (s == LS_OK)
        s = ls_file_write(path, text, strlen(text));
    free(path);
    return s;
}

bool ls_next_attempt_withdraw(const char *run_dir)
{
    char *path = next_path_of(run_dir);
    const bool was_there = path && ls_sys_remove(path) == 0;
    free(path);
    return was_there;
}

bool ls_next_attempt_hear(char text[LS_NEXT_BYTES], const char *run_dir)
{
    char *path = next_path_of(run_dir), *told = NULL;
    size_t size;
    const bool heard = path && ls_file_exists(path) && ls_file_read(&told, &size, path) == LS_OK &&
                       ls_sys_remove(path) == 0;
    if (heard)
        snprintf(text, LS_NEXT_BYTES, "%s", told);
    free(told);
    free(path);
    return heard;
}
