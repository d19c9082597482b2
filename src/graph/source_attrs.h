/* source_attrs.h - the constants of a graph's sources: inputs, parameters, states. They have no kernels. */
#pragma once
#include "lockstep/types.h"
#include "meaning.h"

/* clang-format off */
/* How a parameter is sharded: for each axis of the mesh, 1 + the dimension that the axis shards into equal
 * blocks; 0: it shards none. `type` is the type of one block. */
typedef struct ls_shard_dims { int8_t dim[8]; } ls_shard_dims;
/* input, param, state. name: the input's name, or the parameter's full name. part: of a parameter that only
 * one position along the axis of role expert has, 1 + that position; 0: all have it. */
typedef struct ls_source_attrs { const char *name; ls_type type; int64_t init; double init_a, init_b;
    ls_shard_dims sharded; ls_identity is; int64_t part; } ls_source_attrs;
/* clang-format on */
