/* train_describe.h - the lines with which `lockstep train` begins: data, model, ranks, step, bits. */
#pragma once
#include "base/cpu_limits.h"
#include "loop/loop.h"

typedef struct ls_train_start {
    const char *data;        /* the data sets in words */
    ls_cpu_limit threads_by; /* what decided the number of threads */
    bool continues;          /* from a checkpoint */
} ls_train_start;

/* Logs them, on the terminal and in the run's log. Local. */
void ls_train_describe(const ls_loop *l, const ls_train_start *start);
