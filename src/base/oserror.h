/* oserror.h - one wording for errors of the operating system: path, what was attempted, why it failed, what
 * to do. */
#pragma once
#include "lockstep/status.h"

/* Fails with LS_E_IO and "PATH: cannot DOING: errno text (advice)". */
ls_status ls_fail_os(const char *path, const char *doing, int error);
