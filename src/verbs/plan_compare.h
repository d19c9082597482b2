/* plan_compare.h - `lockstep plan --compare`: several settings side by side. */
#pragma once
#include "commands.h"

ls_status ls_plan_compare(const ls_plan_command_opts *o, const ls_ui *ui);
