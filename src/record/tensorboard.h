/* tensorboard.h - writes scalars for TensorBoard to RUN/tensorboard/events.out.tfevents.TIME.HOST.ATTEMPT, a
 * file for each attempt, so that restarts are visible. A file is a sequence of records (length, bytes, a
 * CRC-32C of each). A record is an Event in the encoding of protobuf. */
#pragma once
#include "rundir.h"

typedef struct ls_scalar {
    const char *tag;
    double value;
} ls_scalar; /* stored in f32 */

/* Appends one event with those of these scalars that are not NaN (at most LS_EVENT_SCALARS), and the present
 * time. Does nothing without log.tensorboard. Allocates nothing. */
enum { LS_EVENT_SCALARS = 8 };
ls_status ls_tensorboard_add(ls_rundir *d, int64_t step, int n, const ls_scalar *scalars);

/* Writes one record; returns its size. n = 0: the first record of a file. */
enum { LS_EVENT_RECORD = 640 };
size_t ls_event_record(uint8_t out[LS_EVENT_RECORD], double time, int64_t step, int n,
                       const ls_scalar *scalars);
