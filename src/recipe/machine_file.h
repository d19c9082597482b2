/* machine_file.h - a machine (plan/machine.h) as a YAML file, and the machines that are a part of the
 * library: the files of machines/. */
#pragma once
#include "base/arena.h"
#include "base/str.h"
#include "plan/machine.h"

/* Reads a file, or the bundled machine of that name. Texts go to `a`. LS_E_USAGE with file, line and key, and
 * what is allowed. */
ls_status ls_machine_load(ls_machine *out, ls_arena *a, const char *path_or_name);
/* The machine as a file that reads as the same machine. */
void ls_machine_print(ls_str *out, const ls_machine *m);
/* The name of bundled machine i, with its first line, "# ...", without the "# ". NULL: there is no such one.
 * The summary lasts until the thread's next call. */
const char *ls_machine_bundled(int i, const char **summary);
