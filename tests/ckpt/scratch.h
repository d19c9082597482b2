/* scratch.h - a temporary folder for a test, and small helpers that its files share. */
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "lockstep/weights.h"

int scratch_make(void **state);   /* cmocka set-up: makes the folder */
int scratch_remove(void **state); /* and tear-down */
const char *scratch_path(const char *name); /* a path in it; the latest 64 are valid */
int scratch_entries(const char *dir);       /* how many names a folder holds */
/* The call failed with this code, and its message holds each of the texts (ended by NULL). */
void expect_failure(ls_status got, ls_status want, ...);
ls_named_tensor named(const char *name, void *data, ls_type type);
