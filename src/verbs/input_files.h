/* input_files.h - the files of `lockstep predict RUN FILE...`, where a folder stands for the images in it. */
#pragma once
#include "base/pattern.h"

/* The names, each folder replaced by its images in the order of their names. LS_E_USAGE: a folder without
 * images. Release *out with ls_paths_release, also after an error. Local. */
ls_status ls_input_files(ls_paths *out, int n, const char *const *names);

/* Whether two of the files have the same name in different folders, so that their paths must be shown. Local.
 */
ls_status ls_input_files_alike(bool *out, int64_t n, const char *const *paths);
/* What is shown of a file: its name, or its path. */
const char *ls_input_file_shown(const char *path, bool whole);
