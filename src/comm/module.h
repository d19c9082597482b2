/* module.h - finds and opens modules with transports. An opened module is never closed: its library has
 * threads and handlers. */
#pragma once
#include "base/str.h"
#include "transport.h"

#define LS_MODULE_MPI "lockstep-mpi.so"     /* Open MPI */
#define LS_MODULE_MPICH "lockstep-mpich.so" /* MPICH and libraries with its ABI */

/* Opens a module: LOCKSTEP_MPI_MODULE (the path of a module), else `name` beside the executable, beside the
 * library, or in the library folder of the installation. LS_E_UNSUPPORTED lists the places that were
 * searched, or has the loader's message. Local. */
ls_status ls_module_open(const ls_transport_ops **out, const char *name);
/* The name of the module for the MPI that this program is linked with. Local. */
const char *ls_module_of_program(void);
/* For doctor: "Open MPI v4.1.4, /usr/local/lib/lockstep-mpi.so", or the reason why there is none. Local. */
bool ls_module_describe(ls_str *text, const char *name);
