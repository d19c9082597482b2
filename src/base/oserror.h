/* oserror.h - one wording for "the operating system said no": path, what was tried, why, and what to do about
 * it. */
#pragma once
#include "lockstep/status.h"

/* "PATH: cannot DOING: errno text (advice)"; returns LS_E_IO. */
ls_status ls_fail_os(const char *path, const char *doing, int error);
