/* topology.h - the machine in a line, as hwloc sees it: for people. Its library is opened only here and only
 * when asked: it takes ten milliseconds. */
#pragma once
#include <stdbool.h>

/* "1 package, 2 cores, 2 hardware threads, 1 memory node"; false: the library is not there, or does not know.
 */
bool ls_topology_text(char text[160]);
