/* plan_search.h - `lockstep plan --search`: the fastest layout and micro-batch that fit. */
#pragma once
#include "commands.h"

ls_status ls_plan_search(const ls_plan_command_opts *o, const ls_ui *ui);
