/* run_owner.h - finds the owner of a run directory (run_lock.h) without taking the lock. */
#pragma once
#include <stdbool.h>

/* The first line of an open lock.txt: "host NAME, process N". */
void ls_run_read_owner(char text[256], int fd);
/* Whether some process has the run's lock. */
bool ls_run_is_held(const char *run_dir);
/* Whether lock.txt names a living process of this host. Its child may take the lock next. */
bool ls_run_owner_lives(const char *run_dir);
