/* train_environment.h - what variables of PyTorch's environment mean for a run: used, or why not. */
#pragma once
#include "base/cpu_limits.h"
#include "base/str.h"
#include "loop/loop.h"

/* Appends a phrase for each group of variables that are set. Local. */
void ls_train_environment(ls_str *out, const ls_loop *l, ls_cpu_limit threads_by);
