/* comm.h - what sessions use of a process group: axes, windows and collectives. The public part is
 * lockstep/group.h.
 *
 * Symmetric memory. All ranks run the same program, so an operand of a collective lies at the same offset of
 * every rank's window. The ranks of one machine map each other's windows: a collective among them is
 * arithmetic on memory at known addresses. Between machines the transport (transport.h) moves pieces. Sums
 * are made in the balanced tree over the positions of the axis either way.
 *
 * Access rules for operands. start() says "my operand is ready"; other members may read it from then on.
 * wait() returns when my result is complete; other members may still be reading my operand. The operand may
 * be overwritten (1) once a later collective on the same axis, that is not settled and was started after that
 * wait, has been waited for, or (2) when ls_axis_fence returns after an arrival that followed that wait, or
 *   (3) at once, when it was reduced in place.
 * The planner (src/plan/storage.c) gives operands that lifetime; sessions fence between programs. */
#pragma once
#include "axis.h"
#include "collective.h"
#include "group.h"
#include "window.h"
