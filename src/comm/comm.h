/* comm.h - what sessions use of a process group: axes, windows and collectives. lockstep/group.h is the
 * public part.
 *
 * Symmetric memory. All ranks run the same program, so an operand of a collective has the same offset in
 * every rank's window. The ranks of one machine map each other's windows, so a collective among them is
 * arithmetic on memory at known addresses. Between machines the transport (transport.h) moves pieces. In both
 * cases sums are made in the balanced tree over the positions of the axis.
 *
 * Access rules for operands. ls_collective_start says that this rank's operand is ready; from then on other
 * members may read it. ls_collective_wait returns when this rank's result is complete; other members may
 * still be reading its operand. The operand may be overwritten at the first of these moments:
 *
 *   (1)  after the wait for a later collective on the same axis, if that collective is not settled and was
 *        started after the operand's wait
 *   (2)  when ls_axis_fence returns after an arrival that followed the operand's wait
 *   (3)  at once, if the operand was reduced in place
 *
 * The planner (src/plan/storage.c) gives operands this lifetime, and sessions fence between programs. */
#pragma once
#include "axis.h"
#include "collective.h"
#include "group.h"
#include "window.h"
