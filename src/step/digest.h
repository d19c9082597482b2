/* digest.h - checks that all ranks run the same programs. */
#pragma once
#include "base/str.h"
#include "lockstep/group.h"
#include "plan/plan.h"

/* Appends the programs as text, a line for each step. The text has the properties that must be the same on
 * every rank (ops, types, collectives, their order), and none that may differ (the number of a rank's
 * slice). */
void ls_program_text(ls_str *out, int n, ls_plan *const *plans);
/* LS_E_USAGE on a rank whose programs differ from those of rank 0, with the first lines that differ; the
 * other ranks then return LS_E_PEER. Collective. */
ls_status ls_programs_agree(ls_group *g, int n, ls_plan *const *plans);
