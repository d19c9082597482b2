/* collective_speed.h - how fast collectives are: among the ranks of a host, and between hosts. */
#pragma once
#include "calibration.h"
#include "lockstep/group.h"

/* Measures all_reduce over the ranks of this host and, with several hosts, over ranks of different ones:
 * small ones for the latency, large ones for the bandwidth. Hosts must have equal numbers of ranks, in
 * blocks. What does not exist (one rank, one host) stays as it is. A second. Collective over the group. */
ls_status ls_collective_speeds_measure(ls_collective_speed wires[LS_COLLECTIVE_SPEEDS], ls_group *g);
/* Reads wires-<hash of the processor's name>.json of the user's cache. Numbers that the file lacks are 0. */
void ls_collective_speeds_load(ls_collective_speed wires[LS_COLLECTIVE_SPEEDS]);
ls_status ls_collective_speeds_save(const ls_collective_speed wires[LS_COLLECTIVE_SPEEDS]);
/* "20us,12.5GB/s": LS_E_USAGE says what is wrong. */
ls_status ls_wire_parse(ls_collective_speed *out, const char *text);
