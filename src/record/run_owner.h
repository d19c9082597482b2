/* run_owner.h - who owns a run directory (run_lock.h), without taking its lock. */
#pragma once
#include <stdbool.h>

/* The first line of an open lock.txt: "host NAME, process N". */
void ls_run_read_owner(char text[256], int fd);
/* Some process holds the run's lock. */
bool ls_run_is_held(const char *run_dir);
/* The process of this host that lock.txt names lives: its child may take the lock next. */
bool ls_run_owner_lives(const char *run_dir);
