/* rows.h - the rows of an all_to_all: how many go where, by the row offsets that every member has. */
#pragma once
#include "collective_own.h"

/* What member `to` takes of member `from`: bytes from an offset in the operand of `from` to one in the result
 * of `to`. */
typedef struct ls_rows {
    size_t operand, result, bytes;
} ls_rows;

ls_rows ls_rows_taken(const ls_collective *c, int from, int to);
/* LS_E_USAGE if more rows come than the result has room for. */
ls_status ls_rows_check_room(const ls_collective *c);
int64_t ls_rows_bytes(const ls_collective *c); /* that come from other members */
