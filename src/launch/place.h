/* place.h - which rank of what group this process is, and which of the ranks speaks to the user: one failure
 * is told once. */
#pragma once
#include "lockstep/group.h"
#include "base/ui.h"
#include "lockstep/recipe.h"

/* The group that the environment names (a launcher's, mpirun's, srun's, torchrun's); *g NULL: this process is
 * alone. Silences the ranks that leave the terminal to rank 0. Collective when there is a group. */
ls_status ls_place_find(ls_group **g, const ls_ui *ui);

/* The message with which the command ends, `s` as it was: empty in a rank whose failure somebody else tells.
 * By the parent of the ranks, who reads it in the control block, or, where there is none, by the rank that
 * failed; of one that is missing the rank tells that missed it first. g NULL: alone. Local. */
ls_status ls_place_say(const ls_group *g, ls_status s, const char *message, const ls_ui *ui);
/* The same, but of several ranks it is said at once: whoever started them may end them before they have put
 * things in order. */
ls_status ls_place_say_now(const ls_group *g, ls_status s, const char *message, const ls_ui *ui);
/* mpirun ends all ranks at once when one that lives ends badly: the others let rank 0 write down how the run
 * stands. Local. */
void ls_place_end(const ls_group *g, ls_status s);
