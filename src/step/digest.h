/* digest.h - do all ranks run the same programs? */
#pragma once
#include "base/str.h"
#include "lockstep/group.h"
#include "plan/plan.h"

/* The programs as text, one step a line: what must be the same on every rank (ops, types, collectives, their
 * order), and nothing that may differ (which slice). */
void ls_program_text(ls_str *out, int n, ls_plan *const *plans);
/* LS_E_USAGE on a rank whose programs differ from rank 0's, with the first lines that do; LS_E_PEER on the
 * others then. Collective. */
ls_status ls_programs_agree(ls_group *g, int n, ls_plan *const *plans);
