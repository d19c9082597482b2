/* plan_simulate.h - `lockstep plan --simulate`: plays the step on all ranks, and shows where it waits. */
#pragma once
#include "commands.h"

ls_status ls_plan_simulate(const ls_plan_command_opts *o, const ls_ui *ui);
