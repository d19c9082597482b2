/* rank.h - this process as a rank: the group that it belongs to, and whether it reports a failure to the
 * user. Each failure is reported by one rank. */
#pragma once
#include "lockstep/group.h"
#include "base/ui.h"
#include "lockstep/recipe.h"

/* For what starts its ranks itself: LS_E_USAGE with this message, which one process prints, if mpirun, srun
 * or torchrun has started several. */
ls_status ls_rank_alone(const char *refusal);
/* Whether this process does what needs one process: the first of those that mpirun, srun or torchrun started,
 * of all or of each host. If not, it says so to the user. */
bool ls_rank_is_first(const char *verb, bool of_each_host);
/* Joins the group that the environment describes (of `lockstep --workers`, mpirun, srun or torchrun). *g
 * NULL: this process is the only rank. Only rank 0 prints messages from now on. Collective if there is a
 * group. */
ls_status ls_rank_join(ls_group **g, const ls_ui *ui);

/* Sets the message with which the command ends, and returns s. The message is empty on a rank whose failure
 * another process reports. The parent of the ranks reports it, if there is one: it reads the control block.
 * Else the failed rank does; if that one is missing, the rank that waited for it first does. g NULL: the only
 * rank. Local. */
ls_status ls_rank_say(const ls_group *g, ls_status s, const char *message, const ls_ui *ui);
/* The same, but one of several ranks prints the message at once, because the launcher may kill the ranks
 * before they have cleaned up. */
ls_status ls_rank_say_now(const ls_group *g, ls_status s, const char *message, const ls_ui *ui);
/* Called at the end of a rank with status s. mpirun kills all ranks as soon as one ends with a failure, so
 * the others wait here until rank 0 has written the state of the run. Local. */
void ls_rank_end(const ls_group *g, ls_status s);
