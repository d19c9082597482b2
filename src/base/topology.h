/* topology.h - describes the machine in a line for the user, as hwloc sees it. The library is opened when the
 * function is called, which takes ten milliseconds. */
#pragma once
#include <stdbool.h>

/* "1 package, 2 cores, 2 hardware threads, 1 memory node"; false: the library is not installed, or does not
 * know. */
bool ls_topology_text(char text[160]);
