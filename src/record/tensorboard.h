/* tensorboard.h - scalars of a run as TensorBoard reads them:
 * RUN/tensorboard/events.out.tfevents.TIME.HOST.ATTEMPT, a file of each attempt, so that a restart shows. A
 * file is a sequence of records (length, bytes, a CRC-32C of each); a record is an Event in protobuf's
 * encoding. */
#pragma once
#include "rundir.h"

typedef struct ls_scalar {
    const char *tag;
    double value;
} ls_scalar; /* shown in f32 */

/* Appends one event: these scalars at this step, now. Does nothing when the recipe does not ask for it
 * (log.tensorboard). Allocates nothing. */
ls_status ls_tensorboard_add(ls_rundir *d, int64_t step, int n, const ls_scalar *scalars);

/* One record; returns its size. n = 0: the record that a file begins with. */
enum { LS_EVENT_RECORD = 640 };
size_t ls_event_record(uint8_t out[LS_EVENT_RECORD], double time, int64_t step, int n,
                       const ls_scalar *scalars);
