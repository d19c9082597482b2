/* run_confusion.h - RUN/confusion.json: the confusion matrices of the last evaluation of a run. */
#pragma once
#include "base/confusion.h"

#define LS_RUN_CONFUSION "confusion.json"

/* Replaces the file; writes nothing where there are no matrices. Only on rank 0. Local. */
ls_status ls_run_confusion_write(const char *run_dir, int64_t step, int64_t epoch, const ls_confusions *c);
/* *step: of the evaluation; -1: there is no file, and *out is empty. Local. */
ls_status ls_run_confusion_read(ls_confusions *out, int64_t *step, const char *run_dir);
