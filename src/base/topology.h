/* topology.h - one line about the machine for the user, from hwloc. The function loads the library when it is
 * called, which takes ten milliseconds. */
#pragma once
#include <stdbool.h>

/* Writes "1 package, 2 cores, 2 hardware threads, 1 memory node". False: the library is not installed or
 * cannot tell. */
bool ls_topology_text(char text[160]);
