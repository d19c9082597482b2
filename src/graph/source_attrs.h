/* source_attrs.h - the constants of a graph's sources: inputs, parameters, states. They have no kernels. */
#pragma once
#include "lockstep/types.h"
#include "meaning.h"

/* clang-format off */
/* How a parameter is cut: for each axis of the mesh, 1 + the dimension that it cuts into equal blocks; 0: it
 * cuts none. `type` is the type of one block. */
typedef struct ls_cuts { int8_t dim[8]; } ls_cuts;
/* input, param, state. name: the input's name, or the parameter's full name. */
typedef struct ls_source_attrs { const char *name; ls_type type; int64_t init; double init_a, init_b;
    ls_cuts cuts; ls_identity is; } ls_source_attrs;
/* clang-format on */
