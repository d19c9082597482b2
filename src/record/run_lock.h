/* run_lock.h - one process owns a run directory at a time. lock.txt is locked, and the kernel gives the lock
 * back however its owner ends; it names the owner. On a file system over a network the kernels of other hosts
 * may not know of the lock: whom lock.txt names, and how old result.json is, decides. */
#pragma once
#include "lockstep/status.h"

/* The lock lasts until *fd is closed. LS_E_USAGE when another process holds the run: its host and process are
 * named. Local. */
ls_status ls_run_lock(int *fd, const char *run_dir);
