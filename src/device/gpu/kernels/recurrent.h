/* recurrent.h - the arguments of recurrent.cu. */
#pragma once
#include "types.h"

/* A block computes RECURRENT_ROWS sequences and RECURRENT_UNITS units of one token; a product is added up in
 * slices of RECURRENT_SLICE. */
enum {
    RECURRENT_ROWS = 16,
    RECURRENT_UNITS = 8,
    RECURRENT_SLICE = 32,
    RECURRENT_THREADS = RECURRENT_ROWS * RECURRENT_UNITS
};
/* One token of one direction of a layer: the one that is read as number `step`. Addresses as the ops name
 * their operands (device/ref/recurrent.c); 0: absent. */
typedef struct recurrent_args {
    gpu_address x, w, bias, h0, c0;     /* inputs */
    gpu_address y, cells, gates;        /* outputs; inputs of the gradients */
    gpu_address dy, dcells;             /* inputs of the gradients */
    gpu_address dx, dw_part, dh0, dc0;  /* outputs of the gradients */
    gpu_address given, dz_before, rest; /* workspace, f32: see the gradients */
    i64 batch, tokens, hidden, step, reverse;
} recurrent_args;
