/* tags.h - a check of plans that shares no code with the planner: it runs the steps on a memory of tags.
 */
#pragma once
#include "plan/plan.h"

/* Every element that a step writes is tagged with the value written. Every element that a step (or the
 * caller, at the end) reads must carry the tag of the value it believes to read. Also: an op's outputs meet
 * no operand of its own unless its row allows it, and workspace meets neither. Fails the running cmocka test
 * with a description otherwise. */
void check_tags(const ls_plan *p);
