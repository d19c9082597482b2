/* foreign.h - folders of other programs that hold no weights that are read. Private to src/ckpt. */
#pragma once
#include "lockstep/status.h"

/* Fails with LS_E_IO: the message names what the folder holds, as far as it is known, what to do with it, and
 * which folders are read. */
ls_status ls_foreign_refuse(const char *dir);
