/* occupied.h - which bytes of a region are occupied in which steps of a schedule, and the lowest bytes that
 * are free in a range of steps. Both take a time that grows with the logarithm of the number of steps, and
 * with the number of gaps, which is small where memory is packed from below. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include "lockstep/status.h"

typedef struct ls_occupied {
    int leaves;                         /* a power of two, at least the number of steps */
    struct ls_byte_ranges *some, *full; /* [2 * leaves] */
} ls_occupied;

ls_status ls_occupied_init(ls_occupied *o, int n_steps);
void ls_occupied_release(ls_occupied *o); /* harmless on zeros */
void ls_occupied_clear(ls_occupied *o);
/* Bytes [begin, end) are occupied from step `first` to step `last`, both included. */
ls_status ls_occupied_add(ls_occupied *o, int first, int last, size_t begin, size_t end);
/* The lowest offset from which on `size` bytes are free from step `first` to step `last`. */
size_t ls_occupied_lowest(const ls_occupied *o, int first, int last, size_t size);
